//! Glob patterns for files: where the search begins, what matches, and how deep it can be.

use std::path::{Path, PathBuf};

use gimlet_core::tool::PathContext;
use globset::{GlobBuilder, GlobSet};

/// Splits a pattern into the directory that its plain leading parts name and the rest.
///
/// The search then begins as deep as it can, and the gate judges the directory that is really searched: an absolute
/// pattern, `~` and `..` all end up in the directory.
pub(super) fn split<'a>(pattern: &'a str, directory: &Path, cx: &PathContext) -> (PathBuf, &'a str) {
    let plain_end = pattern.find(|char| "*?[]{}\\".contains(char)).unwrap_or(pattern.len());
    let (plain, rest) = match pattern[..plain_end].rfind('/') {
        Some(slash) => (&pattern[..=slash], pattern[slash + 1..].trim_start_matches('/')),
        None => ("", pattern),
    };
    let base = match plain.starts_with("~/") {
        true => cx.expand_path(Path::new(plain)),
        false => cx.expand_path(&directory.join(plain)),
    };
    (base, rest)
}

/// Braces within braces, at most. Every level is a level of recursion for what compiles the pattern.
const MOST_NESTED_BRACES: usize = 32;

/// Reason why a pattern cannot be searched for.
#[derive(Debug, thiserror::Error)]
pub(super) enum PatternError {
    #[error("braces are nested more than {MOST_NESTED_BRACES} deep")]
    TooDeep,
    #[error(transparent)]
    Glob(#[from] globset::Error),
}

/// Pattern for file paths, relative to the directory that the search begins in.
pub(super) struct FilePattern {
    text: String,
    matcher: GlobSet,
}

impl FilePattern {
    pub(super) fn new(text: &str) -> Result<Self, PatternError> {
        if nested_braces(text) > MOST_NESTED_BRACES {
            return Err(PatternError::TooDeep);
        }
        let glob =
            GlobBuilder::new(text).literal_separator(true).backslash_escape(true).empty_alternates(true).build()?;
        // A set of one, because compiling that can fail; compiling a single glob panics instead.
        Ok(Self { text: text.to_owned(), matcher: GlobSet::new([glob])? })
    }

    pub(super) fn is_match(&self, relative: &Path) -> bool {
        self.matcher.is_match(relative)
    }

    /// Returns true if the pattern spells out a directory of this name.
    pub(super) fn names(&self, directory: &str) -> bool {
        self.text.split(['/', '{', '}', ',']).any(|part| part == directory)
    }

    /// Returns the maximum depth of a match, if there is a limit.
    pub(super) fn depth(&self) -> Option<usize> {
        (!self.text.contains("**")).then(|| self.text.matches('/').count() + 1)
    }
}

/// Returns the maximum nesting of braces. Escaped ones count too; so many of them are no file name.
fn nested_braces(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for byte in text.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use gimlet_proto::Env;

    use super::*;

    fn split_at(pattern: &str) -> (String, &str) {
        let cx = PathContext {
            cwd: "/p".into(),
            project_dir: "/p".into(),
            roots: vec!["/p".into()],
            home: Some("/home/ada".into()),
            env: Env::default(),
            environment: None,
            skills: std::sync::Arc::default(),
        };
        let (base, rest) = split(pattern, Path::new("/p/app"), &cx);
        (base.display().to_string(), rest)
    }

    #[test]
    fn plain_leading_parts_become_the_directory() {
        assert_eq!(split_at("**/*.rs"), ("/p/app".into(), "**/*.rs"));
        assert_eq!(split_at("src/./a/*.rs"), ("/p/app/src/a".into(), "*.rs"));
        assert_eq!(split_at("../lib/{a,b/c}/*"), ("/p/lib".into(), "{a,b/c}/*"));
        assert_eq!(split_at("/etc/**/hosts"), ("/etc".into(), "**/hosts"));
        assert_eq!(split_at("~/notes/*.md"), ("/home/ada/notes".into(), "*.md"));
        assert_eq!(split_at("src/main.rs"), ("/p/app/src".into(), "main.rs"));
        assert_eq!(split_at("/*.conf"), ("/".into(), "*.conf"));
    }

    #[test]
    fn braces_nested_too_deep_to_compile_are_an_error() {
        let nested = |levels: usize| "{".repeat(levels) + "a,b" + &"}".repeat(levels);
        assert!(FilePattern::new(&nested(32)).unwrap().is_match(Path::new("a")));
        for levels in [33, 500, 200_000] {
            assert!(matches!(FilePattern::new(&nested(levels)), Err(PatternError::TooDeep)));
        }
    }

    #[test]
    fn depth_is_known_without_a_double_star() {
        assert_eq!(FilePattern::new("*.rs").unwrap().depth(), Some(1));
        assert_eq!(FilePattern::new("a*/{b/c,d}/x").unwrap().depth(), Some(4));
        assert_eq!(FilePattern::new("a*/**/x").unwrap().depth(), None);
    }
}
