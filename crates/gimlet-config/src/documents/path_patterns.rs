//! Globs of files, as in the `paths` of a rule.

use std::path::Path;
use std::sync::OnceLock;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Maximum number of patterns that the braces of one rule stand for; a pattern beyond it stands for itself.
const MAX_EXPANSIONS: usize = 1_000;

/// Globs of files below a folder. They are compiled when they are first matched.
#[derive(Clone, Debug, Default)]
pub struct PathPatterns {
    patterns: Vec<String>,
    compiled: OnceLock<GlobSet>,
}

impl PathPatterns {
    pub(super) fn new(patterns: Vec<String>) -> Self {
        Self { patterns, compiled: OnceLock::new() }
    }

    /// Returns the patterns as written.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Returns true if a file below the folder matches, as spelled or without symlinks.
    pub fn matches(&self, folder: &Path, file: &Path) -> bool {
        let set = self.compiled.get_or_init(|| compile_patterns(&self.patterns));
        if file.strip_prefix(folder).is_ok_and(|inside| set.is_match(inside)) {
            return true;
        }
        let (Ok(folder), Ok(file)) = (folder.canonicalize(), file.canonicalize()) else { return false };
        file.strip_prefix(folder).is_ok_and(|inside| set.is_match(inside))
    }

    /// Returns true if an absolute path matches.
    pub(super) fn matches_absolute(&self, path: &Path) -> bool {
        self.compiled.get_or_init(|| compile_patterns(&self.patterns)).is_match(path)
    }
}

fn compile_patterns(patterns: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    let mut expansions = 0_usize;
    for pattern in patterns {
        let more = count_expansions(pattern);
        let is_literal = expansions.saturating_add(more) > MAX_EXPANSIONS;
        if !is_literal {
            expansions += more;
        }
        // An invalid pattern matches nothing.
        if let Some(glob) = compile_pattern(pattern, is_literal) {
            builder.add(glob);
        }
    }
    builder.build().unwrap_or_else(|_| GlobSet::empty())
}

fn compile_pattern(pattern: &str, is_literal: bool) -> Option<Glob> {
    let pattern = pattern.trim();
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let build = |pattern: &str| GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build().ok();
    match pattern.strip_suffix('/') {
        _ if is_literal => build(&globset::escape(pattern)),
        Some(folder) => build(&format!("{folder}/**")),
        None => build(pattern),
    }
}

/// Returns the number of patterns that the braces of a pattern stand for.
fn count_expansions(pattern: &str) -> usize {
    // Number of alternatives before the current one, and number that the current one stands for.
    let mut groups: Vec<(usize, usize)> = vec![(0, 1)];
    let mut is_escaped = false;
    for char in pattern.chars() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '{' => groups.push((0, 1)),
            ',' if groups.len() > 1 => {
                if let Some((done, current)) = groups.last_mut() {
                    *done = done.saturating_add(*current);
                    *current = 1;
                }
            }
            '}' if groups.len() > 1 => {
                let (done, current) = groups.pop().unwrap_or((0, 1));
                if let Some((_, outer)) = groups.last_mut() {
                    *outer = outer.saturating_mul(done.saturating_add(current));
                }
            }
            _ => {}
        }
    }
    groups.iter().fold(1, |product, (done, current)| product.saturating_mul(done.saturating_add(*current)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_files_below_their_folder() {
        let many = format!("{}.rs", "{a,b}".repeat(10));
        for (pattern, file, matches) in [
            ("**/*.ts", "a.ts", true),
            ("**/*.ts", "src/deep/a.ts", true),
            ("src/**/*", "src/a/b.rs", true),
            ("src/**/*", "lib/a.rs", false),
            ("*.md", "README.md", true),
            ("*.md", "docs/a.md", false),
            ("src/**/*.{ts,tsx}", "src/x/a.tsx", true),
            ("./src/*.rs", "src/a.rs", true),
            ("src/", "src/a/b.rs", true),
            ("src/[ab].rs", "src/b.rs", true),
            ("src/[ab.rs", "src/[ab.rs", false),
            ("src/\\[id\\].ts", "src/[id].ts", true),
            (&many, "ababababab.rs", false),
            (&many, &many, true),
        ] {
            let patterns = PathPatterns::new(vec!["[".to_owned(), pattern.to_owned()]);
            assert_eq!(patterns.matches(Path::new("/p"), &Path::new("/p").join(file)), matches, "{pattern} {file}");
        }
    }
}
