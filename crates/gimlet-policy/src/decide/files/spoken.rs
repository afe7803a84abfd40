//! Words by which a program that nobody knows might open a closed file. Which of its words name files is endless, so any
//! stretch of a word that leads to one counts, inside code (`python -c "open('.env')"`) as well. It never denies: the
//! word may be a name for something else.

use std::path::PathBuf;

use super::{Place, writes};
use crate::shell::{Piece, Word, base_name};

/// Stretches of one command's words that are looked up.
const MOST_STRETCHES: usize = 512;

/// Programs that open none of their words, or only look at names, sizes and dates.
const OPEN_NOTHING: &[&str] = &[
    ":", "[", "[[", "basename", "cd", "command", "dirname", "du", "echo", "expr", "false", "find", "hash", "id",
    "kill", "ls", "popd", "printf", "pushd", "pwd", "readlink", "realpath", "seq", "set", "shift", "sleep", "stat",
    "test", "tr", "true", "type", "uname", "unset", "wait", "which", "whoami",
];

/// Every path that the words of such a program could stand for; `None` when there are too many to look up.
pub(super) fn paths(words: &[Word], place: &Place<'_>) -> Option<Vec<PathBuf>> {
    let Some((name, arguments)) = words.split_first() else { return Some(Vec::new()) };
    let known = |name: &str| OPEN_NOTHING.contains(&name) || writes(name, arguments).is_some();
    if name.value().map(base_name).is_some_and(known) {
        return Some(Vec::new());
    }
    let mut left = MOST_STRETCHES;
    let mut paths = Vec::new();
    for word in arguments {
        match (word.value(), word.pieces()) {
            (Some(text), _) => {
                for stretch in stretches(text) {
                    left = left.checked_sub(1)?;
                    paths.extend(place.spellings(stretch.as_ref()).0);
                }
            }
            (None, pieces) if pieces.iter().all(|piece| matches!(piece, Piece::Text(_) | Piece::Glob(_))) => {
                paths.extend(place.matched(word).unwrap_or_default());
            }
            (None, _) => paths.extend(place.touched(word, false).paths),
        }
    }
    Some(paths)
}

/// The stretches of a word that a program could take for a path.
fn stretches(text: &str) -> impl Iterator<Item = &str> {
    let apart = |c: char| c.is_whitespace() || "=,:;@\"'`()<>|&{}[]$!\\".contains(c);
    let attached = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let attached = attached.and_then(|rest| rest.char_indices().nth(1).map(|(at, _)| &rest[at..]));
    let parts = text.split(apart).filter(move |part| part.len() < text.len());
    std::iter::once(text)
        .chain(parts)
        .chain(attached)
        .filter(|part| !part.is_empty() && !part.starts_with('-') && *part != "." && *part != "/")
}

#[cfg(test)]
mod tests {
    use super::stretches;

    #[test]
    fn a_path_is_found_wherever_it_stands_in_a_word() {
        for text in [
            ".env",
            "--file=.env",
            "-f.env",
            "@.env",
            "HEAD:.env",
            "a,.env",
            "print(open('.env').read())",
            "fs.readFileSync(\".env\")",
            "cat .env",
        ] {
            assert!(stretches(text).any(|part| part == ".env"), "{text}");
        }
        assert!(!stretches("--env").any(|part| part == ".env"));
        assert_eq!(stretches("-").count() + stretches("").count(), 0);
    }
}
