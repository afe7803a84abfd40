//! What only the file system can say about the files that a command reads: which names a pattern stands for, where links
//! inside a folder lead, what another command prints. This room says what has to be looked at; it looks at nothing.

use std::path::PathBuf;

use super::word::Piece;
use crate::paths::{Segment, Wildcards, WildcardsBuilder};

/// One thing to look at before a command is known to stay in the working directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The names that the shell puts in place of a pattern.
    Pattern(PatternLook),
    /// Folders that are read with the links in them followed; `deep` when that goes on below.
    Tree { roots: Vec<PathBuf>, deep: bool },
    /// What other commands print, which becomes words of this one.
    Printed(PrintedLook),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternLook {
    pub(crate) pattern: Wildcards,
    /// The directories where the command may stand.
    pub(crate) from: Vec<PathBuf>,
    pub(crate) role: Role,
    /// Each name stays one word.
    pub(crate) whole: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrintedLook {
    pub(crate) printed: Printed,
    pub(crate) from: Vec<PathBuf>,
    pub(crate) role: Role,
    pub(crate) reader: WordReader,
}

/// How a command takes a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    /// It opens what the word names.
    pub(crate) opens: bool,
    /// A word that begins with `-` would be an option.
    pub(crate) may_be_option: bool,
}

impl Role {
    pub(crate) const OPERAND: Self = Self { opens: true, may_be_option: true };
    pub(crate) const FILE: Self = Self { opens: true, may_be_option: false };
    pub(crate) const TEXT: Self = Self { opens: false, may_be_option: false };
}

/// Who makes words of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordReader {
    /// `$(…)`: the shell cuts it at blanks and takes what is left for patterns.
    Shell,
    /// `xargs` cuts it at blanks and takes quotes away.
    Xargs,
}

impl WordReader {
    /// Whether a name comes through as the one word that it is.
    pub(crate) fn keeps(self, name: &str) -> bool {
        let special = match self {
            WordReader::Shell => ['*', '?', '['],
            WordReader::Xargs => ['"', '\'', '\\'],
        };
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || special.contains(&c))
    }
}

/// What a command prints, one name on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    /// The directory that it stands in.
    Here,
    /// What lies in this folder by its bare name; the path itself where it is none.
    Entries(String),
    /// The names that patterns stand for. What it prints about folders is not known; nothing unless it `lists` them.
    Matches {
        patterns: Vec<Wildcards>,
        lists: bool,
    },
    Below(Below),
}

/// The paths of everything below some folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Below {
    pub(crate) roots: Vec<String>,
    /// Without the folder's own name in front.
    pub(crate) bare: bool,
    /// Only what is called so.
    pub(crate) named: Option<Segment>,
}

/// The pattern that the pieces of a word make; `None` when it could lead upwards or has a piece that is no pattern.
pub(crate) fn wildcards(pieces: &[&Piece]) -> Option<Wildcards> {
    let climbs = |segment: &Segment| segment.may_become("..".as_ref());
    any_wildcards(pieces).filter(|pattern| !pattern.segments.iter().any(climbs))
}

/// The same, wherever it leads.
pub(crate) fn any_wildcards(pieces: &[&Piece]) -> Option<Wildcards> {
    let mut builder = WildcardsBuilder::default();
    for piece in pieces {
        match piece {
            Piece::Text(text) => builder.text(text),
            Piece::Glob(wildcard) => builder.wildcard(*wildcard),
            Piece::Number => builder.wildcard('*'),
            _ => return None,
        }
    }
    Some(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_cut_or_changed_on_the_way_are_told() {
        for name in ["a b", "a\tb", "a\nb", "", "\u{a0}"] {
            assert!(!WordReader::Shell.keeps(name) && !WordReader::Xargs.keeps(name), "{name:?}");
        }
        assert!(WordReader::Xargs.keeps("[slug].tsx") && !WordReader::Shell.keeps("[slug].tsx"));
        assert!(WordReader::Shell.keeps("it's") && !WordReader::Xargs.keeps("it's"));
    }

    #[test]
    fn a_pattern_that_may_climb_is_none() {
        let text = |text: &str| Piece::Text(text.to_owned());
        assert!(wildcards(&[&text("."), &Piece::Glob('*')]).is_none());
        assert!(wildcards(&[&text("a/.."), &text("/b"), &Piece::Glob('*')]).is_none());
        assert!(wildcards(&[&text(".x"), &Piece::Glob('*')]).is_some());
        assert!(wildcards(&[&Piece::Unknown]).is_none());
    }
}
