//! Sources of the program that a command passes to a shell: a text among its words, a file, or its input. Findings of
//! this module must never allow anything.

use std::path::Path;

use super::builtin_evaluation;
use super::scan;
use super::word::{UNKNOWN_CHAR, Word};
use super::wrappers::{base_name, wrapped_command_starts};
use crate::paths::normalise;

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash"];
/// Long options of bash that take a file; bash also accepts them with one dash.
const WITH_FILE: &[&str] = &["rcfile", "init-file"];
const WITHOUT_VALUE: &[&str] = &[
    "debug",
    "debugger",
    "dump-po-strings",
    "dump-strings",
    "help",
    "login",
    "noediting",
    "noprofile",
    "norc",
    "posix",
    "pretty-print",
    "protected",
    "restricted",
    "verbose",
    "version",
    "wordexp",
];
/// Programs that start a shell if no command is given.
const START_SHELLS: &[&str] = &["chroot", "newgrp", "nsenter", "script", "su", "unshare"];
/// Maximum number of texts of one command that are analysed.
const MOST_TEXTS: usize = 8;

/// Program that a command passes to a shell.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShellProgram {
    /// Texts that its words show; ambiguous ones are included in each reading.
    pub(crate) texts: Vec<String>,
    /// True if some of it is only known at run time.
    pub(crate) has_unknown_text: bool,
    /// True if it is in a file.
    pub(crate) reads_file: bool,
}

impl ShellProgram {
    /// Adds a text in which [`UNKNOWN_CHAR`] stands for unknown parts.
    fn add_text(&mut self, text: &str) {
        if text.contains(UNKNOWN_CHAR) || self.texts.len() >= MOST_TEXTS {
            self.has_unknown_text = true;
        } else {
            self.texts.push(text.to_owned());
        }
    }
}

pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Returns true if a command is a shell.
pub(crate) fn is_shell_command(words: &[Word]) -> bool {
    words.first().and_then(Word::value).is_some_and(|name| is_shell(base_name(name)))
}

/// Returns true if a command makes a named pipe.
pub(crate) fn makes_named_pipe(words: &[Word]) -> bool {
    matches!(words.first().and_then(Word::value).map(base_name), Some("mkfifo" | "mknod"))
}

/// Returns true if a word is a long option, full or abbreviated, with or without a value.
pub(crate) fn is_long_option(word: &str, long: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    name.len() > 2 && long.starts_with(name)
}

/// Returns the program that a command passes to a shell: `bash -c TEXT`, `eval WORDS`, `env -S TEXT`, `source FILE`.
pub(crate) fn find_shell_program(words: &[Word]) -> ShellProgram {
    let mut found = ShellProgram {
        has_unknown_text: builtin_evaluation::evaluates_unknown_words(words),
        ..ShellProgram::default()
    };
    let Some(name) = words.first().and_then(Word::value).map(base_name) else { return found };
    let arguments = &words[1..];
    let shown = || arguments.iter().map(Word::masked).collect::<Vec<String>>();
    match name {
        "eval" => {
            found.has_unknown_text |= arguments.iter().any(Word::is_dynamic);
            found.texts.push(arguments.iter().filter_map(Word::value).collect::<Vec<_>>().join(" "));
        }
        "source" | "." => {
            let file = arguments.iter().find(|word| word.value() != Some("--"));
            found.has_unknown_text |= file.is_some_and(is_unknown_script_file);
            found.reads_file = true;
        }
        "env" => {
            let values = shown();
            // One more than the maximum shows that there are more.
            for (code, behind) in option_values(&values, 'S', "--split-string").take(MOST_TEXTS + 1) {
                let rest: Vec<&str> = arguments[behind..].iter().filter_map(Word::value).collect();
                // Its escapes differ from the shell's: `\_` is a space, and `\c` ends the text.
                found.has_unknown_text |= code.contains('\\');
                found.add_text(&format!("{} {}", code.replace("\\_", " "), rest.join(" ")));
            }
        }
        "watch" => {
            // Every reading of its options; the words after them are one text.
            let behind = |start: usize| words[start..].iter().map(Word::masked).collect::<Vec<_>>().join(" ");
            wrapped_command_starts(name, words).into_iter().for_each(|start| found.add_text(&behind(start)));
        }
        "trap" => {
            shown().iter().find(|value| !value.starts_with('-')).into_iter().for_each(|code| found.add_text(code))
        }
        // `sg GROUP [-c] TEXT`
        "sg" => shown().iter().skip(1).find(|value| *value != "-c").into_iter().for_each(|code| found.add_text(code)),
        "git" => {
            let values = shown();
            let settings = values.windows(2).filter(|pair| pair[0] == "-c").map(|pair| &pair[1]);
            let is_alias = |key: &str| key.get(..6).is_some_and(|section| section.eq_ignore_ascii_case("alias."));
            let aliases = settings.filter_map(|value| value.split_once('=').filter(|(key, _)| is_alias(key)));
            // Its value is that of a variable.
            let by_variable = |pair: &[String]| {
                let value = pair[0].strip_prefix("--config-env=");
                value.or((pair[0] == "--config-env").then_some(pair[1].as_str())).is_some_and(is_alias)
            };
            found.has_unknown_text |= values.windows(2).any(by_variable);
            // An alias without `!` is another subcommand.
            aliases.for_each(|(_, code)| match code.strip_prefix('!') {
                Some(code) => found.add_text(code),
                None => found.add_text(&format!("git {code}")),
            });
        }
        "su" | "runuser" | "script" | "flock" => {
            let values = shown();
            for long in ["--command", "--session-command"] {
                option_values(&values, 'c', long).for_each(|(code, _)| found.add_text(code));
            }
        }
        "mapfile" | "readarray" => {
            option_values(&shown(), 'C', "").for_each(|(code, _)| found.add_text(code));
        }
        "compgen" => {
            let values = shown();
            option_values(&values, 'C', "").for_each(|(code, _)| found.add_text(code));
            // Only expansions in it run.
            let expanded = |words: &str| format!(": \"{}\"", words.replace(['\'', '"'], " "));
            option_values(&values, 'W', "").for_each(|(words, _)| found.add_text(&expanded(words)));
        }
        shell if is_shell(shell) => found.add_shell(shell, arguments),
        _ => {}
    }
    let told = !found.texts.is_empty() || found.has_unknown_text;
    found.has_unknown_text |= START_SHELLS.contains(&name) && !told && wrapped_command_starts(name, words).is_empty();
    found
}

impl ShellProgram {
    fn add_shell(&mut self, name: &str, arguments: &[Word]) {
        let told = ShellArguments::parse(arguments);
        let operand = told.operand.and_then(|at| arguments.get(at));
        self.has_unknown_text |= told.unseen || told.files.iter().any(|file| is_unknown_script_file(file));
        if name == "fish" {
            let values: Vec<String> = arguments.iter().map(Word::masked).collect();
            for (letter, long) in [('c', "--command"), ('C', "--init-command")] {
                option_values(&values, letter, long).for_each(|(code, _)| self.add_text(code));
            }
        }
        match operand {
            Some(text) if told.code => self.add_text(&text.masked()),
            // Without a text or a file it reads its input.
            operand => {
                self.has_unknown_text |= told.input || operand.is_none_or(is_unknown_script_file);
                self.reads_file = true;
            }
        }
    }
}

/// Classified words of a shell.
#[derive(Default)]
struct ShellArguments<'w> {
    /// True if the first operand is the program itself, and not a file.
    code: bool,
    /// True if the program is read from its input.
    input: bool,
    /// True if an option is only known at run time.
    unseen: bool,
    /// Files that it runs first.
    files: Vec<&'w Word>,
    operand: Option<usize>,
}

impl<'w> ShellArguments<'w> {
    fn parse(arguments: &'w [Word]) -> Self {
        let mut found = Self::default();
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            let text = word.masked();
            let Some(letters) = text.strip_prefix(['-', '+']) else { break };
            at += 1;
            let long = letters.strip_prefix('-').unwrap_or(letters);
            if long.is_empty() {
                break;
            } else if WITH_FILE.contains(&long) {
                found.files.extend(arguments.get(at));
                at += 1;
            } else if !WITHOUT_VALUE.contains(&long) && !letters.starts_with('-') {
                found.unseen |= word.is_dynamic();
                found.code |= letters.contains('c');
                found.input |= letters.contains('s');
                // Each is followed by the name of an option.
                at += letters.chars().filter(|letter| matches!(letter, 'o' | 'O')).count();
            }
        }
        found.operand = (at < arguments.len()).then_some(at);
        found
    }
}

/// Returns the words of a shell that are neither its script nor its script file; `None` if it is not a shell.
pub(crate) fn script_arguments(words: &[Word]) -> Option<Vec<&Word>> {
    let name = base_name(words.first()?.value()?);
    let arguments = &words[1..];
    let script = match name {
        "source" | "." => Some(0),
        shell if is_shell(shell) => ShellArguments::parse(arguments).operand,
        _ => return None,
    };
    Some(arguments.iter().enumerate().filter(|(at, _)| Some(*at) != script).map(|(_, word)| word).collect())
}

/// Returns every possible value of an option, in any spelling (`-x V`, `-xV`, `-qx V`, `--long V`, `--long=V`,
/// `--lo=V`), and the index of the words after it. It is unknown which other letters of a word are options.
fn option_values<'v>(values: &'v [String], letter: char, long: &str) -> impl Iterator<Item = (&'v str, usize)> {
    values.iter().enumerate().filter_map(move |(at, value)| {
        let attached = if value.starts_with("--") {
            if !is_long_option(value, long) {
                return None;
            }
            value.split_once('=').map_or("", |(_, code)| code)
        } else {
            value.strip_prefix('-')?.split_once(letter)?.1
        };
        let next = || values.get(at + 1).map(|next| (next.as_str(), at + 2));
        if attached.is_empty() { next() } else { Some((attached, at + 1)) }
    })
}

/// Returns true if the contents of a shell's script file are unknown: its name is only known at run time, or it is
/// standard input under any of its names.
fn is_unknown_script_file(word: &Word) -> bool {
    word.value().is_none_or(is_standard_stream)
}

fn is_standard_stream(file: &str) -> bool {
    let path = normalise(Path::new("/"), Path::new(file));
    let path = path.to_string_lossy();
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let descriptor = |name: &&str| name.bytes().all(|byte| byte.is_ascii_digit());
    match names.as_slice() {
        ["-"] | ["proc", ..] | ["dev", "fd", ..] => true,
        // From any directory that the text may change to.
        [.., "stdin"] => true,
        [.., "fd", last] => descriptor(last),
        _ => false,
    }
}

/// Returns true if texts make shells run a startup file with unknown contents. Only shells use `ENV` for that.
pub(crate) fn runs_unknown_startup_file(texts: &[String], commands: &[Vec<Word>], shells: bool) -> bool {
    let texts = || texts.iter().filter(|text| text.contains("ENV="));
    if texts().next().is_none() {
        return false;
    }
    let counts = |name: &str| name == "BASH_ENV" || (name == "ENV" && shells);
    let unseen = |file: &str| file.contains(UNKNOWN_CHAR) || is_standard_stream(file);
    let words = commands.iter().flatten().map(Word::masked);
    let told = words.filter_map(|word| word.split_once('=').map(|(name, file)| (name.to_owned(), file.to_owned())));
    let set = texts().flat_map(|text| scan::find_bindings(text)).map(|set| (set.name, set.value.masked()));
    told.chain(set).any(|(name, file)| counts(&name) && unseen(&file))
}

/// Options whose value is a directory that a program changes to first, or runs another program in.
const DIRECTORY_OPTIONS: &[&str] =
    &["-C", "-D", "--chdir", "--cwd", "--directory", "--prefix", "--wd", "--working-directory"];

/// Returns the directories that such options of a command name.
pub(crate) fn chdir_option_values(words: &[Word]) -> impl Iterator<Item = &str> {
    words.iter().enumerate().filter_map(|(at, word)| {
        let text = word.value()?;
        match text.split_once('=') {
            Some((option, directory)) => DIRECTORY_OPTIONS.contains(&option).then_some(directory),
            None if DIRECTORY_OPTIONS.contains(&text) => words.get(at + 1)?.value(),
            None => text.strip_prefix("-C").filter(|directory| !directory.is_empty()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program_of(words: &[&str]) -> ShellProgram {
        find_shell_program(&words.iter().map(|word| Word::from_literal(word)).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_watched_is_a_text_behind_the_options() {
        let has = |words: &[&str], line: &str| program_of(words).texts.iter().any(|one| one == line);
        assert!(has(&["watch", "rm -rf /"], "rm -rf /"));
        assert!(has(&["watch", "-n", "5", "rm -rf /"], "rm -rf /"));
        assert!(has(&["watch", "--interval", "5", "ls; rm", "-rf", "/"], "ls; rm -rf /"));
        assert!(has(&["watch", "-d", "-n", "2", "rm"], "rm"));
    }

    #[test]
    fn the_text_of_a_shell_is_its_first_operand() {
        for words in [
            &["bash", "-c", "x y"][..],
            &["bash", "-c", "--", "x y", "z"],
            &["bash", "-c", "-", "x y"],
            &["bash", "-e", "-c", "-x", "x y"],
            &["bash", "-co", "pipefail", "x y"],
            &["bash", "-c", "-o", "pipefail", "+O", "extglob", "x y"],
            &["bash", "+c", "x y"],
            &["bash", "-norc", "-c", "x y"],
            &["bash", "-rcfile", "f", "-c", "x y"],
            &["bash", "--init-file", "f", "-c", "x y"],
            &["fish", "--command=x y"],
            &["script", "-Ocf", "-c", "x y"],
        ] {
            assert!(program_of(words).texts.iter().any(|text| text == "x y"), "{words:?}");
        }
        assert!(program_of(&["bash", "f", "-c", "x y"]).texts.is_empty());
        assert!(!program_of(&["bash", "f", "-s"]).has_unknown_text);
    }

    #[test]
    fn standard_input_has_many_names() {
        for file in [
            "-",
            "/dev/stdin",
            "/dev//stdin",
            "/dev/../dev/./stdin",
            "/dev/fd/3",
            "/proc/self/fd/0",
            "/proc/thread-self/fd/0",
            "/proc/1/task/1/fd/0",
            "../../dev/stdin",
            "fd/0",
        ] {
            assert!(is_standard_stream(file), "{file}");
        }
        for file in ["a", "./a.sh", "/dev/null", "dev/fd.sh", "src/proc/a", "stdin.sh"] {
            assert!(!is_standard_stream(file), "{file}");
        }
    }
}
