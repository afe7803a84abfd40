//! Overlap of a pattern that a shell expands with a path that a rule forbids. Both are matched segment by segment;
//! nothing is looked up, and patterns that cannot be distinguished overlap.

use std::path::{Path, PathBuf};

use super::pattern_containment::skip_any_depths;
use super::{AnchorDirs, PathPattern, PatternAnchor, PatternPiece, PatternSegment, path_segments};
use crate::paths::glob_path::{self, GlobPath, GlobToken};

/// Segment of an expanded path, the directory before the pattern included.
enum ExpandedSegment<'a> {
    Name(String),
    Wild(&'a glob_path::GlobSegment),
}

impl PathPattern {
    /// Returns true if a rule that forbids could match a name that the shell expands `wild` to, from one of these
    /// directories; or, for a `tree`, something below such a name.
    pub(crate) fn may_match_names(
        &self,
        wild: &GlobPath,
        from: &[PathBuf],
        tree: bool,
        places: AnchorDirs<'_>,
    ) -> bool {
        let root = [PathBuf::from("/")];
        let starts = if wild.absolute { &root } else { from };
        let bases: Vec<&Path> = match self.anchor {
            PatternAnchor::FileSystem => vec![Path::new("/")],
            PatternAnchor::Home => places.home.into_iter().collect(),
            PatternAnchor::Source => vec![places.source],
            PatternAnchor::WorkingDirectory => places.working_dirs.iter().map(PathBuf::as_path).collect(),
        };
        starts.iter().any(|start| {
            let literal = path_segments(start).map(|name| ExpandedSegment::Name(name.to_string_lossy().into_owned()));
            let spelled: Vec<ExpandedSegment<'_>> =
                literal.chain(wild.segments.iter().map(ExpandedSegment::Wild)).collect();
            bases.iter().any(|base| self.overlaps(&spelled, base, tree))
        })
    }

    /// Matches both at once, by the positions in the rule's pattern that are reachable after each segment.
    fn overlaps(&self, spelled: &[ExpandedSegment<'_>], base: &Path, tree: bool) -> bool {
        let name = |text: &str| PatternSegment::Name(text.chars().map(PatternPiece::Char).collect());
        let mut wanted: Vec<PatternSegment> = path_segments(base).map(|text| name(&text.to_string_lossy())).collect();
        if self.any_depth || self.any_depth_if_forbidding {
            wanted.push(PatternSegment::AnyDepth);
        }
        wanted.extend(self.segments.iter().cloned());
        let mut reachable = vec![false; wanted.len() + 1];
        reachable[0] = true;
        skip_any_depths(&wanted, &mut reachable);
        for segment in spelled {
            // A directory that the rule covers includes everything below it.
            if reachable[wanted.len()] {
                return true;
            }
            reachable = advance_positions(segment, &wanted, &reachable);
            skip_any_depths(&wanted, &mut reachable);
        }
        reachable[wanted.len()] || (tree && reachable.contains(&true))
    }
}

fn advance_positions(segment: &ExpandedSegment<'_>, wanted: &[PatternSegment], reachable: &[bool]) -> Vec<bool> {
    if matches!(segment, ExpandedSegment::Wild(wild) if wild.is_any_depth()) {
        // It may stand for any number of segments, so any later position can follow.
        let first = reachable.iter().position(|reached| *reached).unwrap_or(reachable.len());
        return (0..reachable.len()).map(|at| at >= first).collect();
    }
    let mut next = vec![false; reachable.len()];
    for (at, expected) in wanted.iter().enumerate().filter(|(at, _)| reachable[*at]) {
        match expected {
            PatternSegment::AnyDepth => next[at] = true,
            PatternSegment::Name(pieces) => next[at + 1] |= names_overlap(pieces, segment),
        }
    }
    next
}

fn names_overlap(pieces: &[PatternPiece], segment: &ExpandedSegment<'_>) -> bool {
    let letters: Vec<GlobToken>;
    let (tokens, dotted) = match segment {
        ExpandedSegment::Name(name) => {
            letters = name.chars().map(GlobToken::Letter).collect();
            (letters.as_slice(), true)
        }
        ExpandedSegment::Wild(wild) => (wild.tokens(), wild.starts_with_dot()),
    };
    // A wildcard matches no leading dot.
    if !dotted && pieces.first() == Some(&PatternPiece::Char('.')) {
        return false;
    }
    let mut reachable = vec![false; tokens.len() + 1];
    reachable[0] = true;
    skip_any_tokens(tokens, &mut reachable);
    for piece in pieces {
        reachable = match piece {
            PatternPiece::Many => {
                let first = reachable.iter().position(|reached| *reached).unwrap_or(reachable.len());
                (0..reachable.len()).map(|at| at >= first).collect()
            }
            single => {
                let mut next = vec![false; reachable.len()];
                for (at, token) in tokens.iter().enumerate().filter(|(at, _)| reachable[*at]) {
                    match token {
                        GlobToken::Any => next[at] = true,
                        GlobToken::One => next[at + 1] = true,
                        GlobToken::Letter(letter) => {
                            next[at + 1] |= super::matches_char(single, letter.to_ascii_lowercase(), true);
                        }
                    }
                }
                skip_any_tokens(tokens, &mut next);
                next
            }
        };
    }
    reachable[tokens.len()]
}

/// Advances over `*`, which may match nothing.
fn skip_any_tokens(tokens: &[GlobToken], reachable: &mut [bool]) {
    for at in 0..tokens.len() {
        if reachable[at] && tokens[at] == GlobToken::Any {
            reachable[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::GlobPathBuilder;

    fn may_overlap(rule: &str, pattern: &str, tree: bool) -> bool {
        let mut builder = GlobPathBuilder::default();
        for letter in pattern.chars() {
            match letter {
                '*' | '?' | '[' => builder.push_wildcard(letter),
                _ => builder.push_text(letter.encode_utf8(&mut [0; 4])),
            }
        }
        let working = [PathBuf::from("/repo")];
        let places =
            AnchorDirs { working_dirs: &working, home: Some(Path::new("/home/dev")), source: Path::new("/repo") };
        PathPattern::parse(rule).unwrap().may_match_names(&builder.finish(), &working, tree, places)
    }

    #[test]
    fn a_pattern_that_may_match_a_denied_file_overlaps_its_rule() {
        for (rule, pattern) in [
            (".env", ".e*"),
            (".env", "a/.e*"),
            (".env", "*/.env"),
            ("./.env", ".?nv"),
            ("./.env", ".E*"),
            ("**/*.pem", "src/*"),
            ("**/*.pem", "*.p?m"),
            ("**/*.pem", "*"),
            ("secrets/**", "*"),
            ("secrets/**", "s*/x"),
            ("secrets/**", "a/secrets/*.txt"),
            ("/secrets/**", "secrets/[a-z]x"),
            ("//repo/a/b", "a/*"),
            ("~/.netrc", "/home/*/.netrc"),
            ("src/[ab].rs", "src/?.rs"),
            ("src/a.rs", "**/a*"),
            ("src/*/deep/x", "**/x"),
            ("x", "[y"),
        ] {
            assert!(may_overlap(rule, pattern, false), "{rule} {pattern}");
        }
        for (rule, pattern) in [
            (".env", "*"),
            (".env", "src/*.rs"),
            ("./.env", "a/.e*"),
            ("**/*.pem", "src/*.rs"),
            ("./secrets/**", "src/*"),
            ("./secrets/**", "*.txt"),
            ("~/.ssh/**", "*"),
            ("//etc/**", "*"),
            ("src/[ab].rs", "src/c*"),
            ("./src", "lib/*"),
            ("src/a.rs", "src/b*"),
        ] {
            assert!(!may_overlap(rule, pattern, false), "{rule} {pattern}");
        }
    }

    #[test]
    fn a_tree_overlaps_rules_below_the_matched_names() {
        for (rule, pattern) in [("./src/secret/x", "s*"), ("**/*.pem", "src/*.d"), (".env", "*")] {
            assert!(may_overlap(rule, pattern, true), "{rule} {pattern}");
        }
        for (rule, pattern) in [("./.env", "*"), ("./secrets/**", "src/*"), ("~/x/**", "*")] {
            assert!(!may_overlap(rule, pattern, true), "{rule} {pattern}");
        }
    }
}
