//! Small facts about a command for other modules: if it is destructive, if it writes files, which file it shows. They
//! are for display and bookkeeping; permissions must never depend on them.

use std::path::{Path, PathBuf};

use super::ShellFacts;
use super::critical_removal::is_recursive;
use super::possible_launches::takes_task_names;
use super::read_only_commands::{is_line_range, path_operands};
use super::word::Word;
use super::wrappers::base_name;
use crate::paths::normalise;

/// Returns the known words of a command, with the path removed from its name.
pub(super) fn known_words(words: &[Word]) -> Vec<&str> {
    let mut known: Vec<&str> = words.iter().map(|word| word.value().unwrap_or("")).collect();
    if let Some(name) = known.first_mut() {
        *name = base_name(name);
    }
    known
}

/// Returns the text that a command prints, if its words determine it.
pub(crate) fn echoed_text(words: &[Word]) -> Option<String> {
    let known = known_words(words);
    let (name, printed) = known.split_first()?;
    matches!(*name, "echo" | "printf").then(|| printed.join(" "))
}

/// Returns true if the effect is hard to undo.
pub(crate) fn is_destructive(words: &[&str]) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    let has = |flags: &[&str]| arguments.iter().any(|argument| flags.contains(argument));
    match *name {
        "rm" => has_letter(arguments, "f") || has(&["--force"]) || arguments.iter().any(|word| is_recursive(word)),
        "git" => is_destructive_git(arguments),
        "find" => has(&["-delete"]),
        "dd" => arguments.iter().any(|argument| argument.starts_with("of=")),
        "fdisk" | "sfdisk" | "cfdisk" | "gdisk" | "sgdisk" | "parted" | "wipefs" | "shred" | "blkdiscard"
        | "mkswap" | "pvremove" | "vgremove" | "lvremove" | "diskutil" => true,
        "psql" | "mysql" | "mariadb" | "sqlite3" | "sqlcmd" | "mongosh" | "mongo" | "clickhouse-client" | "duckdb"
        | "cockroach" | "snowsql" | "bq" => arguments.iter().any(|argument| drops_sql_data(argument)),
        "dropdb" => true,
        other => other == "mkfs" || other.starts_with("mkfs."),
    }
}

fn has_letter(arguments: &[&str], letters: &str) -> bool {
    let is_cluster = |argument: &&&str| argument.starts_with('-') && !argument.starts_with("--");
    arguments.iter().filter(is_cluster).any(|argument| argument.contains(|letter| letters.contains(letter)))
}

fn is_destructive_git(arguments: &[&str]) -> bool {
    let Some((subcommand, rest)) = git_subcommand(arguments) else { return false };
    let has = |flags: &[&str]| rest.iter().any(|argument| flags.contains(argument));
    match subcommand {
        "reset" => has(&["--hard", "--merge", "--keep"]),
        "clean" => has_letter(rest, "f") || has(&["--force"]),
        "push" => {
            has_letter(rest, "fd")
                || has(&["--force", "--mirror", "--delete", "--prune"])
                || rest.iter().any(|argument| argument.starts_with("--force-") || argument.starts_with(['+', ':']))
        }
        "rebase" | "filter-branch" | "filter-repo" | "replace" => true,
        "commit" => has(&["--amend"]),
        "branch" => has_letter(rest, "D"),
        "stash" => has(&["drop", "clear"]),
        "reflog" => has(&["expire", "delete"]),
        "update-ref" => has(&["-d"]),
        "checkout" => has_letter(rest, "f") || has(&["--force"]),
        _ => false,
    }
}

/// Returns the subcommand of a git command line, after git's own options, and its arguments.
pub(crate) fn git_subcommand<'a, 'b>(arguments: &'b [&'a str]) -> Option<(&'a str, &'b [&'a str])> {
    let mut at = 0;
    while let Some(argument) = arguments.get(at) {
        match *argument {
            option if GIT_VALUED.contains(&option) => at += 2,
            option if option.starts_with('-') => at += 1,
            subcommand => return Some((subcommand, &arguments[at + 1..])),
        }
    }
    None
}

/// Options of git's own whose value is the next word.
const GIT_VALUED: &[&str] = &[
    "-C",
    "-c",
    "--attr-source",
    "--config-env",
    "--exec-path",
    "--git-dir",
    "--namespace",
    "--shallow-file",
    "--super-prefix",
    "--work-tree",
];
/// Maximum number of options in front of a subcommand that are skipped.
const MOST_OPTIONS: usize = 16;

/// Returns the possible positions of a program's subcommand after the program's own options, each with true if it is
/// certain. For programs other than git it is unknown which options take a value.
pub(crate) fn subcommand_starts(words: &[Word]) -> Vec<(usize, bool)> {
    let Some(name) = words.first().and_then(Word::value).map(base_name) else { return Vec::new() };
    let git = name == "git";
    if !git && !takes_task_names(name) {
        return Vec::new();
    }
    let mut starts: Vec<(usize, bool)> = Vec::new();
    let mut at = 1;
    while let Some(option) = words.get(at).map(Word::masked).filter(|text| text.starts_with(['-', '+'])) {
        if at > MOST_OPTIONS {
            break;
        }
        at += if git && GIT_VALUED.contains(&option.as_str()) { 2 } else { 1 };
        if !git {
            starts.extend([(at, false), (at + 1, false)]);
        }
    }
    if git && at > 1 {
        starts.push((at, true));
    }
    starts.retain(|(start, _)| *start < words.len());
    starts.dedup();
    starts
}

fn drops_sql_data(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| matches!(word, "drop" | "truncate" | "dropdatabase"))
}

/// Returns true if it may have changed files that the model has read.
pub(super) fn may_write_files(mut words: &[&str]) -> bool {
    // These may run one another any number of times.
    while let Some((&("npx" | "bunx" | "pnpx" | "uvx" | "pipx"), arguments)) = words.split_first() {
        words = skip_options(arguments);
    }
    let Some((name, arguments)) = words.split_first() else { return false };
    let has = |flags: &[&str]| arguments.iter().any(|argument| flags.contains(argument));
    match *name {
        "prettier" => has_letter(arguments, "w") || has(&["--write", "--fix"]),
        "eslint" | "stylelint" | "biome" | "oxlint" | "rubocop" | "golangci-lint" | "swiftlint" | "ktlint" => {
            has(&["--fix", "--write", "--apply", "-a", "-A", "--autocorrect", "--autocorrect-all", "format", "-F"])
        }
        "black" | "isort" | "autopep8" | "yapf" | "rustfmt" | "goimports" | "gofumpt" | "shfmt" | "dprint"
        | "treefmt" | "terraform" | "patch" | "tee" | "cp" | "mv" | "dd" | "truncate" | "install" | "ln" | "rsync"
        | "jscodeshift" | "codemod" | "ed" | "ex" => true,
        "gofmt" => has(&["-w"]),
        "ruff" => has(&["format", "--fix"]),
        "clang-format" => has_letter(arguments, "i"),
        "sed" | "perl" | "ruby" => {
            has_letter(arguments, "i") || arguments.iter().any(|argument| argument.starts_with("--in-place"))
        }
        "cargo" => has(&["fmt", "fix", "--fix", "update", "add", "remove"]),
        "go" => has(&["fmt", "fix", "mod", "generate"]),
        "npm" | "pnpm" | "yarn" | "bun" | "make" | "just" | "task" => arguments.iter().any(|word| {
            word.contains("format") || word.contains("fmt") || word.contains("fix") || word.contains("gen")
        }),
        "git" => git_subcommand(arguments).is_some_and(|(subcommand, _)| {
            matches!(
                subcommand,
                "checkout"
                    | "restore"
                    | "reset"
                    | "stash"
                    | "merge"
                    | "rebase"
                    | "pull"
                    | "apply"
                    | "am"
                    | "switch"
                    | "cherry-pick"
                    | "revert"
                    | "clean"
                    | "mv"
                    | "rm"
            )
        }),
        _ => false,
    }
}

fn skip_options<'a, 'b>(arguments: &'b [&'a str]) -> &'b [&'a str] {
    let start = arguments.iter().position(|argument| !argument.starts_with('-')).unwrap_or(arguments.len());
    &arguments[start..]
}

/// Returns the file that a single viewing command shows.
pub(super) fn viewed_file(command: &[Word], facts: &ShellFacts<'_>) -> Option<PathBuf> {
    let words: Vec<&str> = command.iter().map(Word::value).collect::<Option<_>>()?;
    let (name, arguments) = words.split_first()?;
    let file = match *name {
        "cat" | "head" | "tail" | "grep" | "egrep" | "fgrep" => single_operand(path_operands(command)?)?,
        "nl" | "bat" | "batcat" => single_operand(plain_operands(arguments))?,
        "sed" => match arguments {
            ["-n", range, file] if is_line_range(range) => file,
            _ => return None,
        },
        "rg" => match plain_operands(arguments).as_slice() {
            [_, file] => *file,
            _ => return None,
        },
        _ => return None,
    };
    (file != "-").then(|| normalise(facts.cwd, Path::new(file)))
}

fn single_operand(mut operands: Vec<&str>) -> Option<&str> {
    if operands.len() == 1 { operands.pop() } else { None }
}

fn plain_operands<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().copied().filter(|argument| !argument.starts_with('-')).collect()
}

/// Returns the seconds that a leading `sleep` waits.
pub(super) fn sleep_seconds(words: &[&str]) -> Option<f64> {
    let ["sleep", durations @ ..] = words else { return None };
    let seconds = |text: &&str| {
        let (number, unit) = match text.chars().last()? {
            's' => (&text[..text.len() - 1], 1.0),
            'm' => (&text[..text.len() - 1], 60.0),
            'h' => (&text[..text.len() - 1], 3600.0),
            'd' => (&text[..text.len() - 1], 86400.0),
            _ => (*text, 1.0),
        };
        number.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0).map(|number| number * unit)
    };
    durations.iter().map(seconds).sum()
}
