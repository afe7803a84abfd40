//! Commands that read whole directory trees, or files that another command names: no word shows which files these are.

use crate::shell::{Word, base_name, reachable_commands};

/// Returns the roots of the trees that a command reads; the working directory when it names none.
pub(super) fn tree_roots_read(words: &[Word]) -> impl Iterator<Item = &str> {
    let known: Vec<&str> = words.iter().filter_map(Word::value).collect();
    let roots = match known.split_first() {
        Some((name, arguments)) => tree_roots(base_name(name), arguments),
        None => Vec::new(),
    };
    roots.into_iter()
}

fn tree_roots<'a>(name: &str, arguments: &[&'a str]) -> Vec<&'a str> {
    let cluster = |letters: &[char]| {
        arguments.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letters))
    };
    // Long options may be abbreviated.
    let long = |options: &[&str]| arguments.iter().any(|word| options.iter().any(|option| word.starts_with(option)));
    let reads = match name {
        "rg" | "ag" | "ack" | "rsync" => true,
        "grep" | "egrep" | "fgrep" => cluster(&['r', 'R', 'd']) || long(&["--rec", "--deref", "--dir"]),
        "cp" => cluster(&['r', 'R', 'a']) || long(&["--rec", "--ar"]),
        "scp" | "diff" | "zip" | "gzip" => cluster(&['r']) || long(&["--rec"]),
        "7z" | "7za" => arguments.first() == Some(&"a"),
        "tar" | "bsdtar" => {
            let old_style =
                arguments.first().is_some_and(|word| !word.starts_with("--") && word.contains(['c', 'r', 'u']));
            old_style || cluster(&['c', 'r', 'u']) || long(&["--cr", "--ap", "--up"])
        }
        "git" => arguments.contains(&"grep"),
        _ => false,
    };
    if !reads {
        return Vec::new();
    }
    let mut operands: Vec<&str> = arguments.iter().copied().filter(|word| !word.starts_with('-')).collect();
    // The one word may be the pattern.
    if operands.len() <= 1 || name == "git" {
        operands.push(".");
    }
    operands
}

/// Returns, for a command that gets its files from another (`… | xargs cat`, `find -exec cat {}`), true if it writes
/// them.
pub(super) fn piped_operand_writes(words: &[Word]) -> impl Iterator<Item = bool> {
    let feeding = words.first().and_then(Word::value).map(base_name);
    let feeding = matches!(feeding, Some("xargs" | "parallel" | "find"));
    let inner: Vec<&[Word]> = if feeding { reachable_commands(words).split_off(1) } else { Vec::new() };
    inner.into_iter().filter_map(|words| {
        let (name, arguments) = words.split_first()?;
        super::writes_operands(base_name(name.value()?), arguments)
    })
}
