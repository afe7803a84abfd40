//! What programs could be started by a way that no table knows: a word of a launcher that nobody has heard of, code for an
//! interpreter, a value that something later runs. It is looked at only where a rule forbids a program by its name, and
//! what it finds can only ask: nobody knows that these words are commands.

use super::Analysis;
use super::facts::{echoed, git_subcommand, known_words};
use super::programs::is_long_option;
use super::scan;
use super::word::Word;
use super::wrappers::{base_name, is_seen_through, reachable};

/// Texts inside texts that are taken apart.
const DEEPEST: usize = 3;
/// Commands that are found in the texts of one command line before the rest counts as unseen.
const MOST_FOUND: usize = 4_096;

/// Programs that start none of their words, whatever these are.
const START_NOTHING: &[&str] = &[
    "[",
    "[[",
    ":",
    "b2sum",
    "base32",
    "base64",
    "basename",
    "break",
    "bzcat",
    "bzip2",
    "cal",
    "cat",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "cksum",
    "clear",
    "cmp",
    "column",
    "comm",
    "continue",
    "cp",
    "csplit",
    "cut",
    "date",
    "dd",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "exit",
    "expand",
    "expr",
    "false",
    "fgrep",
    "file",
    "find",
    "fmt",
    "fold",
    "free",
    "getconf",
    "grep",
    "groups",
    "gunzip",
    "gzip",
    "hd",
    "head",
    "hexdump",
    "hostname",
    "iconv",
    "id",
    "info",
    "install",
    "join",
    "jq",
    "kill",
    "killall",
    "less",
    "ln",
    "logname",
    "look",
    "ls",
    "lsof",
    "man",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "more",
    "mv",
    "nl",
    "numfmt",
    "od",
    "paste",
    "patch",
    "pgrep",
    "pidof",
    "pkill",
    "popd",
    "pr",
    "printenv",
    "printf",
    "ps",
    "pushd",
    "pwd",
    "read",
    "readlink",
    "realpath",
    "return",
    "rev",
    "rg",
    "rm",
    "rmdir",
    "seq",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "shift",
    "shred",
    "shuf",
    "sleep",
    "sort",
    "split",
    "stat",
    "strings",
    "sum",
    "tac",
    "tail",
    "tee",
    "test",
    "tldr",
    "touch",
    "tr",
    "tree",
    "true",
    "truncate",
    "tsort",
    "tty",
    "type",
    "umask",
    "uname",
    "unexpand",
    "uniq",
    "unset",
    "unxz",
    "unzip",
    "uptime",
    "users",
    "wait",
    "wc",
    "which",
    "who",
    "whoami",
    "xxd",
    "xz",
    "xzcat",
    "yes",
    "zcat",
    "zip",
];

/// Flags with which some of them do.
const RUNNING_FLAGS: &[(&str, &str)] = &[
    ("install", "--strip-program"),
    ("less", "+"),
    ("man", "-H"),
    ("man", "-P"),
    ("man", "--html"),
    ("man", "--pager"),
    ("more", "+"),
    ("rg", "--hostname-bin"),
    ("rg", "--pre"),
    ("sort", "--compress-program"),
    ("split", "--filter"),
    ("zip", "-T"),
    ("zip", "--unzip-command"),
];

/// Programs whose words are names of tasks, packages and other things of theirs, with the words behind which one is a
/// program after all.
const NAME_THINGS: &[(&str, &[&str])] = &[
    ("apk", &[]),
    ("apt", &[]),
    ("apt-get", &[]),
    ("aws", &[]),
    ("az", &[]),
    ("brew", &[]),
    ("bun", &["x", "exec"]),
    ("cargo", &[]),
    ("composer", &["exec"]),
    ("conda", &["run"]),
    ("dnf", &[]),
    ("docker", &["run", "exec"]),
    ("dotnet", &[]),
    ("flatpak", &["run"]),
    ("gcloud", &[]),
    ("gem", &["exec"]),
    ("gh", &["exec"]),
    ("glab", &[]),
    ("go", &[]),
    ("gradle", &[]),
    ("helm", &[]),
    ("journalctl", &[]),
    ("just", &["--shell"]),
    ("kubectl", &["run", "exec", "debug"]),
    ("make", &[]),
    ("mvn", &[]),
    ("ninja", &[]),
    ("npm", &["exec", "x"]),
    ("pacman", &[]),
    ("pip", &[]),
    ("pip3", &[]),
    ("pnpm", &["exec", "dlx", "x"]),
    ("podman", &["run", "exec"]),
    ("rake", &[]),
    ("rustup", &["run"]),
    ("service", &[]),
    ("snap", &["run"]),
    ("systemctl", &[]),
    ("task", &[]),
    ("terraform", &[]),
    ("yarn", &["exec", "dlx"]),
    ("yum", &[]),
    ("zypper", &[]),
];

/// Subcommands of git that run what they or their configuration are told.
const GIT_RUNNERS: &[&str] = &[
    "archive",
    "bisect",
    "clone",
    "config",
    "credential",
    "daemon",
    "difftool",
    "fetch",
    "filter-branch",
    "for-each-repo",
    "hook",
    "instaweb",
    "ls-remote",
    "maintenance",
    "mergetool",
    "pull",
    "push",
    "rebase",
    "remote",
    "send-email",
    "shell",
    "submodule",
    "upload-pack",
];

/// Whether the bare words of a program are names of tasks, packages and other things of its own.
pub(crate) fn names_things(name: &str) -> bool {
    NAME_THINGS.iter().any(|(thing, _)| *thing == name)
}

/// Commands that could be started, each as a run of words in which every word may be the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launches {
    pub(crate) commands: Vec<Vec<Word>>,
    /// There was too much to take apart.
    pub(crate) too_many: bool,
}

/// What the commands of a text could start.
pub(crate) fn launches(analysis: &Analysis) -> Launches {
    let mut found = Launches::default();
    let mut launching = analysis.assigns_unseen;
    for words in analysis.reached() {
        launching |= found.add_command(words);
    }
    for value in &analysis.assigned {
        found.add_text(value, DEEPEST);
    }
    if analysis.evaluates {
        // `for x in 'a[$(COMMAND)]'; do echo $((x)); done`
        let words = analysis.commands.iter().flatten().filter_map(Word::value);
        let texts = words.chain(analysis.looped.iter().map(String::as_str));
        texts.chain(analysis.assigned.iter().map(String::as_str)).for_each(|text| found.add_evaluated(text));
    }
    if launching {
        // Which text reaches which program is not followed.
        analysis.documents.iter().for_each(|text| found.add_text(text, DEEPEST));
        let echoed = analysis.piped.iter().filter_map(|words| echoed(words));
        // `printf` makes line breaks and tabs of these.
        let echoed = echoed.map(|text| text.replace("\\n", "\n").replace("\\t", "\t"));
        echoed.for_each(|text| found.add_text(&text, DEEPEST));
    }
    found
}

impl Launches {
    /// Notes what one command could start, and says whether it could start something that it is told by its input.
    fn add_command(&mut self, words: &[Word]) -> bool {
        // `parallel 'rm {}'`
        if let Some(text) = words.first().and_then(Word::value).filter(|text| text.contains(char::is_whitespace)) {
            self.add_text(text, DEEPEST);
        }
        let known = known_words(words);
        let Some((name, arguments)) = known.split_first() else { return false };
        let (whole, words) = (words, &words[1..]);
        let starts_nothing = START_NOTHING.contains(name);
        let told = starts_nothing && is_told_to_run(name, words);
        // Nobody knows what it is told.
        self.too_many |= told && words.iter().any(Word::is_dynamic);
        if starts_nothing && !told {
            // `[[ -v 'a[$(…)]' ]]`: some builtins evaluate what stands between brackets.
            arguments.iter().filter(|word| word.contains('[')).for_each(|word| self.add_evaluated(word));
            return false;
        }
        if is_seen_through(name) {
            // What it starts was found by the tables; what it sets may be started later.
            let values = arguments.iter().filter(|word| scan::assigned_name(word).is_some());
            values.filter_map(|word| word.split_once('=')).for_each(|(_, value)| self.add_text(value, DEEPEST));
            // `strace -o '|COMMAND'`
            arguments.iter().filter(|word| word.starts_with(['|', '!'])).for_each(|word| self.add_text(word, DEEPEST));
            return *name == "parallel" || (*name == "xargs" && !starts_nothing_inside(whole));
        }
        if let Some((_, runners)) = NAME_THINGS.iter().find(|(thing, _)| thing == name) {
            let runs = arguments.iter().position(|word| runners.contains(word));
            if let Some(at) = runs {
                self.push(words[at + 1..].to_vec());
                arguments[at + 1..].iter().for_each(|word| self.add_values(word));
            }
            // Where titles and messages are usual, several words are one.
            let writes_prose = matches!(*name, "gh" | "glab" | "aws" | "az" | "gcloud");
            let told = |word: &&&str| {
                word.contains(['=', '$', '`', '!']) || word.starts_with('/') || (!writes_prose && word.contains(' '))
            };
            for word in arguments.iter().filter(told) {
                self.add_values(word);
                self.push(vec![Word::literal(word)]);
            }
            return runs.is_some() || matches!(*name, "make" | "just" | "task" | "ninja");
        }
        let runs = match *name {
            "git" => git_runs(arguments),
            "sed" => arguments.iter().any(|script| sed_may_run(script)),
            "awk" | "gawk" | "mawk" | "nawk" => arguments.iter().any(|script| awk_may_run(script)),
            _ => true,
        };
        if runs {
            self.push(words.to_vec());
            arguments.iter().for_each(|word| self.add_values(word));
        }
        runs
    }

    /// The stretches of a word that may be code: all of it, `NAME=CODE`, `-cCODE`.
    fn add_values(&mut self, word: &str) {
        if word.contains(|c: char| !(c.is_alphanumeric() || "-_./:,+%@".contains(c))) {
            self.add_text(word, DEEPEST);
        }
        if let Some((_, value)) = word.split_once('=') {
            self.add_text(value, DEEPEST);
        }
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        if let Some((at, _)) = short.and_then(|rest| rest.char_indices().nth(1)) {
            self.add_text(&word[at + 1..], DEEPEST);
        }
    }

    /// The commands of a text as a shell would read it, and its bare names as any other language might.
    fn add_text(&mut self, text: &str, depth: usize) {
        let names = text.split(|c: char| !(c.is_alphanumeric() || "-_./+".contains(c))).filter(|name| !name.is_empty());
        self.push(names.map(Word::literal).collect());
        for words in scan::commands(text) {
            if depth > 1 {
                let inner = words.iter().filter_map(Word::value);
                // Text inside quotes is a text again.
                let inner: Vec<String> = inner.filter(|inner| *inner != text).map(str::to_owned).collect();
                inner
                    .iter()
                    .filter(|inner| inner.contains([' ', ';', '"', '\'']))
                    .for_each(|inner| self.add_text(inner, depth - 1));
            }
            self.push(words);
        }
    }

    /// A text that something may evaluate, and so run the substitutions in it.
    fn add_evaluated(&mut self, text: &str) {
        if !text.contains("$(") && !text.contains('`') {
            return;
        }
        self.add_text(text, DEEPEST);
        // What they start may only show then.
        let expanded = scan::commands(&format!(": \"{}\"", text.replace(['\'', '"'], " ")));
        self.too_many |= expanded.iter().any(|words| words.first().is_some_and(Word::is_dynamic));
    }

    fn push(&mut self, words: Vec<Word>) {
        if self.commands.len() >= MOST_FOUND {
            self.too_many = true;
        } else if !words.is_empty() {
            self.commands.push(words);
        }
    }
}

/// Whether a program that starts nothing by itself has a flag with which it does.
pub(crate) fn is_told_to_run(name: &str, arguments: &[Word]) -> bool {
    let mut flags = RUNNING_FLAGS.iter().filter(|(program, _)| *program == name).map(|(_, flag)| *flag);
    flags.any(|flag| {
        arguments
            .iter()
            .map(Word::masked)
            .any(|word| if flag.starts_with("--") { is_long_option(&word, flag) } else { word.starts_with(flag) })
    })
}

/// Whether what `xargs` starts is known to start nothing in turn.
fn starts_nothing_inside(words: &[Word]) -> bool {
    let innermost = reachable(words).pop().and_then(|inner| inner.first()?.value().map(base_name));
    innermost.is_some_and(|name| START_NOTHING.contains(&name) || name == "xargs")
}

fn git_runs(arguments: &[&str]) -> bool {
    let Some((subcommand, rest)) = git_subcommand(arguments) else { return true };
    let configured = arguments[..arguments.len() - rest.len() - 1].iter().any(|option| {
        matches!(*option, "-c" | "--config-env" | "--exec-path")
            || option.starts_with("--config-env=")
            || option.starts_with("--exec-path=")
    });
    let long = ["--open-files-in-pager", "--ext-diff", "--textconv"];
    let told = rest.iter().any(|word| word.starts_with("-O") || long.iter().any(|long| is_long_option(word, long)));
    configured || told || GIT_RUNNERS.contains(&subcommand)
}

/// Whether a script for `sed` may have its command or flag `e`.
fn sed_may_run(script: &str) -> bool {
    script.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        let behind_address = run.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('e');
        behind_address || (run.contains('e') && run.chars().all(|c| c.is_ascii_digit() || "gpiImMew".contains(c)))
    })
}

pub(crate) fn awk_may_run(script: &str) -> bool {
    ["system", "getline", "|", "@"].iter().any(|way| script.contains(way))
}

/// The name that a run of words could start a program by, at each of its places.
pub(crate) fn places(words: &[Word]) -> impl Iterator<Item = (&str, &[Word])> {
    words.iter().enumerate().filter_map(|(at, word)| Some((base_name(word.value()?), &words[at..])))
}
