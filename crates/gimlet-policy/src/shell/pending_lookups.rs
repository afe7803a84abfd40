//! File-system lookups that are needed to know which files a command reads: the names that match a pattern, the targets
//! of symlinks inside a directory, the output of another command. This module describes the lookups; it must never
//! perform one.

use std::path::PathBuf;

use super::word::WordPiece;
use crate::paths::{GlobPath, GlobPathBuilder, GlobSegment};

/// A lookup that is needed before a command is known to stay in the working directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PendingLookup {
    /// Names that the shell substitutes for a pattern.
    Pattern(PatternLookup),
    /// Directories that are read with the symlinks in them followed; `deep` if recursively.
    Tree { roots: Vec<PathBuf>, deep: bool },
    /// Output of other commands that becomes words of this one.
    Printed(PrintedLookup),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternLookup {
    pub(crate) pattern: GlobPath,
    /// The directories in which the command may run.
    pub(crate) from: Vec<PathBuf>,
    pub(crate) role: WordRole,
    /// True if each name stays one word.
    pub(crate) one_word: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrintedLookup {
    pub(crate) printed: PrintedNames,
    pub(crate) from: Vec<PathBuf>,
    pub(crate) role: WordRole,
    pub(crate) reader: WordSplitter,
}

/// Role of a word in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordRole {
    /// True if it opens the file that the word names.
    pub(crate) opens: bool,
    /// True if a word that begins with `-` would be an option.
    pub(crate) may_be_option: bool,
}

impl WordRole {
    pub(crate) const OPERAND: Self = Self { opens: true, may_be_option: true };
    pub(crate) const FILE: Self = Self { opens: true, may_be_option: false };
    pub(crate) const TEXT: Self = Self { opens: false, may_be_option: false };
}

/// Splitter that turns output into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordSplitter {
    /// `$(…)`: the shell splits it at whitespace and expands the results as patterns.
    Shell,
    /// `xargs` splits it at whitespace and removes quotes.
    Xargs,
}

impl WordSplitter {
    /// Returns true if a name is kept as a single word.
    pub(crate) fn keeps_whole(self, name: &str) -> bool {
        let special = match self {
            WordSplitter::Shell => ['*', '?', '['],
            WordSplitter::Xargs => ['"', '\'', '\\'],
        };
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || special.contains(&c))
    }
}

/// Output of a command, one name on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrintedNames {
    /// The command's working directory.
    WorkingDirectory,
    /// Bare names of the entries of this directory; the path itself if it is not a directory.
    Entries(String),
    /// Names that match patterns. The output for directories is unknown; there is none unless it `lists` them.
    Matches {
        patterns: Vec<GlobPath>,
        lists: bool,
    },
    Tree(TreeListing),
}

/// Paths of everything below some directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeListing {
    pub(crate) roots: Vec<String>,
    /// True if paths omit the directory's own name.
    pub(crate) without_root: bool,
    /// Only entries whose names match.
    pub(crate) name_pattern: Option<GlobSegment>,
}

/// Returns the pattern that the pieces of a word form; `None` if it could lead upwards or has a piece that is not a
/// pattern.
pub(crate) fn glob_path(pieces: &[&WordPiece]) -> Option<GlobPath> {
    let climbs = |segment: &GlobSegment| segment.may_expand_to("..".as_ref());
    any_glob_path(pieces).filter(|pattern| !pattern.segments.iter().any(climbs))
}

/// Returns the pattern that the pieces of a word form, even if it leads upwards.
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
