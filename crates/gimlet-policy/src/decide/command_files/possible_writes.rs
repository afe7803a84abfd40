//! Words of a command that may name files that it changes, where no table lists what its program writes. A program
//! that is known to leave its operands unchanged is skipped; of every other one each word counts. The result can only
//! cause a question, never a permission.

use super::protected_mentions::{PURE_READERS, is_find_action};
use super::unknown_program_paths::OPEN_NOTHING;
use super::{recursive_targets, writes_operands};
use crate::rules::is_interpreter;
use crate::shell::{Word, WordPiece, base_name, git_subcommand, own_words, script_arguments, takes_task_names};

/// Further programs that write nothing but their output.
const READERS: &[&str] = &[
    "b2sum",
    "bzcat",
    "cksum",
    "expand",
    "hd",
    "join",
    "look",
    "pr",
    "sha224sum",
    "sha384sum",
    "sha512sum",
    "sum",
    "tsort",
    "unexpand",
    "xzcat",
    "zcat",
    "zgrep",
    "zless",
    "zmore",
    "zstdcat",
];

/// Programs that only write if one of these letters or the beginning of a long option is given.
const WRITE_IF_TOLD: &[(&str, &[char], &[&str])] = &[
    ("sort", &['o'], &["--o"]),
    ("shuf", &['o'], &["--o"]),
    ("iconv", &['o'], &["--o"]),
    ("less", &['o', 'O'], &["--log", "--LOG"]),
    ("more", &[], &[]),
    ("yq", &['i', 's'], &["--in", "--sp"]),
];

/// Programs that check, test or build their operands without changing them, with the subcommands that do.
const CHECKERS: &[(&str, &[&str])] = &[
    ("cargo", &["bench", "build", "check", "clippy", "doc", "metadata", "nextest", "test", "tree"]),
    ("eslint", &[]),
    ("flake8", &[]),
    ("go", &["build", "list", "test", "vet"]),
    ("jest", &[]),
    ("mocha", &[]),
    ("mypy", &[]),
    ("phpunit", &[]),
    ("pylint", &[]),
    ("pyright", &[]),
    ("pytest", &[]),
    ("rspec", &[]),
    ("ruff", &["check"]),
    ("shellcheck", &[]),
    ("tsc", &[]),
    ("vitest", &["run"]),
];
/// Words with which these programs change their operands after all.
const CHANGE: &[&str] = &["--fix", "--add-noqa", "--write", "--update", "--init", "-u", "-w", "-i"];
/// Options of theirs that take no value, so that the next word is something to check.
const SWITCHES: &[&str] = &[
    "--",
    "--all",
    "--bail",
    "--ff",
    "--lf",
    "--noEmit",
    "--quiet",
    "--release",
    "--verbose",
    "--workspace",
    "-l",
    "-q",
    "-race",
    "-s",
    "-v",
    "-vv",
    "-vvv",
    "-x",
    "-xvs",
];
/// Programs that run another one, which is the next word after a word of theirs.
const RUNNERS: &[(&str, &str)] =
    &[("npx", ""), ("bunx", ""), ("uvx", ""), ("uv", "run"), ("poetry", "run"), ("python3", "-m"), ("python", "-m")];
/// Limit of runners in a row that are skipped.
const MOST_RUNNERS: usize = 8;

/// Subcommands of git that leave the files of the working tree unchanged.
const GIT_LEAVES: &[&str] = &[
    "add",
    "blame",
    "branch",
    "cat-file",
    "check-attr",
    "check-ignore",
    "cherry",
    "commit",
    "count-objects",
    "describe",
    "diff",
    "fetch",
    "for-each-ref",
    "grep",
    "hash-object",
    "help",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge-base",
    "name-rev",
    "notes",
    "push",
    "range-diff",
    "reflog",
    "remote",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
    "tag",
    "whatchanged",
];

/// Returns the words that may name files to change; `None` for a command that has none.
pub(super) fn possible_write_words(words: &[Word]) -> Option<Vec<&Word>> {
    let Some(words) = skip_runners(words) else { return Some(words.iter().skip(1).collect()) };
    let (name, arguments) = words.split_first()?;
    let all = || Some(arguments.iter().collect());
    let Some(name) = name.value().map(base_name) else { return all() };
    let known: Vec<&str> = arguments.iter().map(|word| word.value().unwrap_or("")).collect();
    if name == "find" {
        return if known.iter().any(|word| is_find_action(word)) { all() } else { None };
    }
    let reads = [PURE_READERS, READERS, OPEN_NOTHING].iter().any(|list| list.contains(&name));
    // Commands that are known to change their operands are judged elsewhere.
    if reads || writes_operands(name, arguments) == Some(true) {
        return None;
    }
    if let Some(own) = own_words(words) {
        return Some(own.iter().collect());
    }
    if let Some(told) = script_arguments(words) {
        return Some(told);
    }
    if let Some((_, letters, options)) = WRITE_IF_TOLD.iter().find(|(program, ..)| *program == name) {
        return if has_option(&known, letters, options) { all() } else { None };
    }
    if let Some((_, commands)) = CHECKERS.iter().find(|(program, _)| *program == name) {
        return Some(checker_words(arguments, commands));
    }
    Some(match name {
        "git" => return git_words(arguments, &known),
        "sed" | "awk" | "gawk" | "mawk" | "nawk" => script_words(arguments),
        "tar" | "bsdtar" => archive_words(arguments, &known),
        "rsync" | "scp" if !known.iter().any(|word| word.starts_with("--remove")) => copy_words(arguments),
        name if takes_task_names(name) => {
            skip_task_names(arguments, matches!(name, "make" | "just" | "task" | "ninja"))
        }
        name if is_interpreter(name) => interpreter_words(arguments),
        _ => return all(),
    })
}

/// Returns the command after programs that only run another one; `None` for too many of them in a row.
fn skip_runners(mut words: &[Word]) -> Option<&[Word]> {
    for _ in 0..=MOST_RUNNERS {
        let Some(lead) = runner_separator(words) else { return Some(words) };
        words = &words[1 + usize::from(!lead.is_empty())..];
    }
    None
}

/// Returns the word of such a program after which the command begins.
fn runner_separator(words: &[Word]) -> Option<&'static str> {
    let name = words.first()?.value().map(base_name)?;
    let first = words.get(1).and_then(Word::value).unwrap_or_default();
    let leads = |lead: &str| if lead.is_empty() { !first.starts_with('-') } else { first == lead };
    RUNNERS.iter().find(|(program, lead)| *program == name && leads(lead)).map(|(_, lead)| *lead)
}

/// Returns true if an option in any spelling is among the words; an unknown word may be any option.
fn has_option(known: &[&str], letters: &[char], options: &[&str]) -> bool {
    known.iter().any(|word| match word.strip_prefix("--") {
        Some(_) => options.iter().any(|option| word.starts_with(option)),
        None => word.is_empty() || (word.starts_with('-') && word.contains(letters)),
    })
}

fn is_option(word: &Word) -> bool {
    word.value().is_some_and(|text| text.starts_with('-') && text.len() > 1)
}

/// Returns true if a word that is only known at run time may be or contain an option then.
fn may_be_option(word: &Word) -> bool {
    let begins =
        |piece: &WordPiece| matches!(piece, WordPiece::Text(text) if !text.is_empty() && !text.starts_with('-'));
    word.may_split() || !word.pieces().first().is_some_and(begins)
}

/// Returns options and their values. An operand only stands after an option that takes none, or after another operand.
fn checker_words<'w>(arguments: &'w [Word], commands: &[&str]) -> Vec<&'w Word> {
    let (first, rest) = match arguments.split_first() {
        Some((first, rest)) if !commands.is_empty() => (first.value(), rest),
        _ => (None, arguments),
    };
    let known = commands.is_empty() || first.is_some_and(|first| commands.contains(&first));
    let changes = |word: &Word| match word.value() {
        Some(text) => CHANGE.iter().any(|change| text.starts_with(change)),
        None => may_be_option(word),
    };
    if !known || rest.iter().any(changes) {
        return arguments.iter().collect();
    }
    let told = with_previous(rest).filter(|(word, before)| is_option(word) || before.is_some_and(may_take_value));
    told.map(|(word, _)| word).collect()
}

/// Letters of options of sed and awk that take a value.
const SCRIPT_VALUES: [char; 7] = ['e', 'f', 'i', 'l', 'v', 'F', 'W'];
/// Marks of a script that writes files or starts programs.
const WRITE_IN_SCRIPTS: &[&str] = &[">", "|", "w ", "system"];

/// Returns the script, which may name files that it writes; the files after it are read.
fn script_words(arguments: &[Word]) -> Vec<&Word> {
    let in_place = |word: &Word| word.value().is_none_or(|text| text.contains("inplace"));
    if arguments.iter().any(in_place) {
        return arguments.iter().collect();
    }
    let files = script_end(arguments);
    // A word that resembles a script that writes counts as one in any position.
    let acts = |word: &Word| word.value().is_some_and(|text| WRITE_IN_SCRIPTS.iter().any(|mark| text.contains(mark)));
    let told = |(at, word): &(usize, &Word)| {
        *at < files || acts(word) || is_option(word) || (*at > 0 && is_option(&arguments[at - 1]))
    };
    arguments.iter().enumerate().filter(told).map(|(_, word)| word).collect()
}

/// Returns the index of the first file: after the script, or after the options if one of these holds it.
fn script_end(arguments: &[Word]) -> usize {
    let (mut at, mut brought) = (0, false);
    while let Some(word) = arguments.get(at) {
        if !is_option(word) {
            return at + usize::from(!brought);
        }
        let option = word.value().unwrap_or_default();
        let (brings_script, takes_next) = classify_script_option(option);
        brought |= brings_script;
        at += 1 + usize::from(takes_next);
    }
    at
}

/// Classifies an option of sed or awk: true if its value is a script, and true if that is the next word.
fn classify_script_option(option: &str) -> (bool, bool) {
    if let Some(long) = option.strip_prefix("--") {
        let is_one_of = |names: &[&str]| names.iter().any(|name| long.starts_with(name));
        let brings = is_one_of(&["exp", "file", "so"]);
        return (brings, !long.contains('=') && (brings || is_one_of(&["as", "fi", "in", "line", "lo"])));
    }
    let Some(at) = option.find(SCRIPT_VALUES) else { return (false, false) };
    (option[at..].starts_with(['e', 'f']), at + 1 == option.len())
}

/// Returns the archive words that change: extracted files, and files removed after packing; otherwise only the
/// archive.
fn archive_words<'w>(arguments: &'w [Word], known: &[&str]) -> Vec<&'w Word> {
    let is_cluster = |at: usize, word: &str| !word.starts_with("--") && (at == 0 || word.starts_with('-'));
    let unpacks = known.iter().enumerate().any(|(at, word)| {
        word.is_empty()
            || ["--ext", "--ge", "--remove"].iter().any(|option| word.starts_with(option))
            || (is_cluster(at, word) && word.contains('x'))
    });
    if unpacks {
        return arguments.iter().collect();
    }
    let lists =
        known.first().is_some_and(|word| is_cluster(0, word) && word.contains('t') && !word.contains(['c', 'r', 'u']))
            || known.contains(&"--list");
    let names_archive =
        |at: usize, word: &str| !lists && ((is_cluster(at, word) && word.contains('f')) || word.starts_with("--f"));
    let told = |(at, word): &(usize, &Word)| is_option(word) || (*at > 0 && names_archive(at - 1, known[at - 1]));
    arguments.iter().enumerate().filter(told).map(|(_, word)| word).collect()
}

/// Returns the options and the target of a copy: the last operand, or one before it if that is an option's value.
fn copy_words(arguments: &[Word]) -> Vec<&Word> {
    let may_be_value = |at: usize| at > 0 && (is_option(&arguments[at - 1]) || arguments[at - 1].is_dynamic());
    let is_target = |at: &usize| !is_option(&arguments[*at]) && !arguments[*at].is_dynamic() && !may_be_value(*at);
    let target = (0..arguments.len()).rev().find(is_target).unwrap_or(0);
    let told = |(at, word): &(usize, &Word)| *at >= target || is_option(word);
    arguments.iter().enumerate().filter(told).map(|(_, word)| word).collect()
}

/// Returns the words without the script, which an interpreter does not change.
fn interpreter_words(arguments: &[Word]) -> Vec<&Word> {
    let is_switch = |word: &&Word| matches!(word.value(), Some("-u" | "-B" | "-I" | "-O"));
    let switches = arguments.iter().take_while(is_switch).count();
    let script = arguments.get(switches).is_some_and(|word| !is_option(word));
    arguments.iter().skip(switches + usize::from(script)).collect()
}

/// Skips the first words, which are names of commands and tasks; with `all`, every one that is neither a path nor an
/// option's value.
fn skip_task_names(arguments: &[Word], all: bool) -> Vec<&Word> {
    let is_name = |word: &Word| word.value().is_some_and(|text| !text.contains(['/', '=', '.', ':', '@', ' ']));
    let mut names = if all { usize::MAX } else { 2 };
    let mut told = |word: &Word, before: Option<&Word>| {
        let named = names > 0 && !is_option(word) && !before.is_some_and(may_take_value) && is_name(word);
        names -= usize::from(named);
        !named
    };
    with_previous(arguments).filter(|(word, before)| told(word, *before)).map(|(word, _)| word).collect()
}

/// Returns each word with the one before it.
fn with_previous(words: &[Word]) -> impl Iterator<Item = (&Word, Option<&Word>)> {
    words.iter().zip(std::iter::once(None).chain(words.iter().map(Some)))
}

/// Returns true if the next word may be an option's value.
fn may_take_value(word: &Word) -> bool {
    is_option(word) && word.value().is_some_and(|text| !text.contains('=') && !SWITCHES.contains(&text))
}

fn git_words<'w>(arguments: &'w [Word], known: &[&str]) -> Option<Vec<&'w Word>> {
    let has = |words: &[&str]| known.iter().any(|word| words.contains(word));
    let Some((subcommand, rest)) = git_subcommand(known) else { return Some(arguments.iter().collect()) };
    let leaves = match subcommand {
        // Their words are names of branches.
        "checkout" if has(&["-b", "-B", "--orphan"]) => true,
        "switch" => true,
        "reset" => !has(&["--hard", "--merge", "--keep"]),
        "rm" => has(&["--cached"]),
        "clean" => recursive_targets::is_clean_dry_run(rest),
        "restore" => has(&["--staged", "-S"]) && !has(&["--worktree", "-W"]),
        "stash" => matches!(rest.first(), Some(&("list" | "show" | "drop"))),
        subcommand => GIT_LEAVES.contains(&subcommand),
    };
    // `--output` may be abbreviated; an unknown word may be that option for subcommands that have it.
    let compares = matches!(subcommand, "diff" | "log" | "range-diff" | "reflog" | "show" | "stash" | "whatchanged");
    let writes = rest.iter().any(|word| word.starts_with("--ou") || (compares && word.is_empty()));
    let at = known.len() - rest.len();
    let told = || arguments.iter().enumerate().filter(move |(place, _)| place + 1 != at).map(|(_, word)| word);
    (!leaves || writes).then(|| told().collect())
}
