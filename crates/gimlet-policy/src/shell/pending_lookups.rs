//! What only the file system can say about the files that a command reads: which names a pattern stands for, where links
//! inside a folder lead, what another command prints. This room says what has to be looked at; it looks at nothing.

use std::path::PathBuf;

use super::word::WordPiece;
use crate::paths::{GlobPath, GlobPathBuilder, GlobSegment};

/// One thing to look at before a command is known to stay in the working directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PendingLookup {
    /// The names that the shell puts in place of a pattern.
    Pattern(PatternLookup),
    /// Folders that are read with the links in them followed; `deep` when that goes on below.
    Tree { roots: Vec<PathBuf>, deep: bool },
    /// What other commands print, which becomes words of this one.
    Printed(PrintedLookup),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternLookup {
    pub(crate) pattern: GlobPath,
    /// The directories where the command may stand.
    pub(crate) from: Vec<PathBuf>,
    pub(crate) role: WordRole,
    /// Each name stays one word.
    pub(crate) one_word: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrintedLookup {
    pub(crate) printed: PrintedNames,
    pub(crate) from: Vec<PathBuf>,
    pub(crate) role: WordRole,
    pub(crate) reader: WordSplitter,
}

/// How a command takes a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordRole {
    /// It opens what the word names.
    pub(crate) opens: bool,
    /// A word that begins with `-` would be an option.
    pub(crate) may_be_option: bool,
}

impl WordRole {
    pub(crate) const OPERAND: Self = Self { opens: true, may_be_option: true };
    pub(crate) const FILE: Self = Self { opens: true, may_be_option: false };
    pub(crate) const TEXT: Self = Self { opens: false, may_be_option: false };
}

/// Who makes words of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordSplitter {
    /// `$(…)`: the shell cuts it at blanks and takes what is left for patterns.
    Shell,
    /// `xargs` cuts it at blanks and takes quotes away.
    Xargs,
}

impl WordSplitter {
    /// Whether a name comes through as the one word that it is.
    pub(crate) fn keeps_whole(self, name: &str) -> bool {
        let special = match self {
            WordSplitter::Shell => ['*', '?', '['],
            WordSplitter::Xargs => ['"', '\'', '\\'],
        };
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || special.contains(&c))
    }
}

/// What a command prints, one name on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrintedNames {
    /// The directory that it stands in.
    WorkingDirectory,
    /// What lies in this folder by its bare name; the path itself where it is none.
    Entries(String),
    /// The names that patterns stand for. What it prints about folders is not known; nothing unless it `lists` them.
    Matches {
        patterns: Vec<GlobPath>,
        lists: bool,
    },
    Tree(TreeListing),
}

/// The paths of everything below some folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeListing {
    pub(crate) roots: Vec<String>,
    /// Without the folder's own name in front.
    pub(crate) without_root: bool,
    /// Only what is called so.
    pub(crate) name_pattern: Option<GlobSegment>,
}

/// The pattern that the pieces of a word make; `None` when it could lead upwards or has a piece that is no pattern.
pub(crate) fn glob_path(pieces: &[&WordPiece]) -> Option<GlobPath> {
    let climbs = |segment: &GlobSegment| segment.may_expand_to("..".as_ref());
    any_glob_path(pieces).filter(|pattern| !pattern.segments.iter().any(climbs))
}

/// The same, wherever it leads.
pub(crate) fn any_glob_path(pieces: &[&WordPiece]) -> Option<GlobPath> {
    let mut builder = GlobPathBuilder::default();
    for piece in pieces {
        match piece {
            WordPiece::Text(text) => builder.push_text(text),
            WordPiece::Glob(wildcard) => builder.push_wildcard(*wildcard),
            WordPiece::Number => builder.push_wildcard('*'),
            _ => return None,
        }
    }
    Some(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_or_changed_names_are_detected() {
        for name in ["a b", "a\tb", "a\nb", "", "\u{a0}"] {
            assert!(!WordSplitter::Shell.keeps_whole(name) && !WordSplitter::Xargs.keeps_whole(name), "{name:?}");
        }
        assert!(WordSplitter::Xargs.keeps_whole("[slug].tsx") && !WordSplitter::Shell.keeps_whole("[slug].tsx"));
        assert!(WordSplitter::Shell.keeps_whole("it's") && !WordSplitter::Xargs.keeps_whole("it's"));
    }

    #[test]
    fn a_pattern_that_may_lead_upwards_is_none() {
        let text = |text: &str| WordPiece::Text(text.to_owned());
        assert!(glob_path(&[&text("."), &WordPiece::Glob('*')]).is_none());
        assert!(glob_path(&[&text("a/.."), &text("/b"), &WordPiece::Glob('*')]).is_none());
        assert!(glob_path(&[&text(".x"), &WordPiece::Glob('*')]).is_some());
        assert!(glob_path(&[&WordPiece::Unknown]).is_none());
    }
}
