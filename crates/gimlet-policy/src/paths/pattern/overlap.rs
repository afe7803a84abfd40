//! Whether a pattern that a shell expands could stand for a path that a rule forbids. Both are held against each other
//! segment by segment; nothing is looked up, and what cannot be told apart overlaps.

use std::path::{Path, PathBuf};

use super::containment::skip_depths;
use super::{Anchor, PathPattern, Piece, Places, Segment, segments};
use crate::paths::wildcards::{self, Token, Wildcards};

/// A segment of what the shell expands, the directory in front of the pattern included.
enum Spelled<'a> {
    Name(String),
    Wild(&'a wildcards::Segment),
}

impl PathPattern {
    /// Whether a rule that forbids could match a name that the shell puts in place of `wild`, from one of these
    /// directories; or, for a `tree`, something below such a name.
    pub(crate) fn may_match_names(&self, wild: &Wildcards, from: &[PathBuf], tree: bool, places: Places<'_>) -> bool {
        let root = [PathBuf::from("/")];
        let starts = if wild.absolute { &root } else { from };
        let bases: Vec<&Path> = match self.anchor {
            Anchor::FileSystem => vec![Path::new("/")],
            Anchor::Home => places.home.into_iter().collect(),
            Anchor::Source => vec![places.source],
            Anchor::WorkingDirectory => places.working.iter().map(PathBuf::as_path).collect(),
        };
        starts.iter().any(|start| {
            let literal = segments(start).map(|name| Spelled::Name(name.to_string_lossy().into_owned()));
            let spelled: Vec<Spelled<'_>> = literal.chain(wild.segments.iter().map(Spelled::Wild)).collect();
            bases.iter().any(|base| self.overlaps(&spelled, base, tree))
        })
    }

    /// Goes through both at once, by the positions in the rule's pattern that can be reached after each segment.
    fn overlaps(&self, spelled: &[Spelled<'_>], base: &Path, tree: bool) -> bool {
        let name = |text: &str| Segment::Name(text.chars().map(Piece::Char).collect());
        let mut wanted: Vec<Segment> = segments(base).map(|text| name(&text.to_string_lossy())).collect();
        if self.floating || self.floats_when_forbidding {
            wanted.push(Segment::AnyDepth);
        }
        wanted.extend(self.segments.iter().cloned());
        let mut reachable = vec![false; wanted.len() + 1];
        reachable[0] = true;
        skip_depths(&wanted, &mut reachable);
        for segment in spelled {
            // A directory that the rule covers covers what lies below.
            if reachable[wanted.len()] {
                return true;
            }
            reachable = after(segment, &wanted, &reachable);
            skip_depths(&wanted, &mut reachable);
        }
        reachable[wanted.len()] || (tree && reachable.contains(&true))
    }
}

fn after(segment: &Spelled<'_>, wanted: &[Segment], reachable: &[bool]) -> Vec<bool> {
    if matches!(segment, Spelled::Wild(wild) if wild.is_any_depth()) {
        // It may stand for any number of segments, so any later position can follow.
        let first = reachable.iter().position(|reached| *reached).unwrap_or(reachable.len());
        return (0..reachable.len()).map(|at| at >= first).collect();
    }
    let mut next = vec![false; reachable.len()];
    for (at, expected) in wanted.iter().enumerate().filter(|(at, _)| reachable[*at]) {
        match expected {
            Segment::AnyDepth => next[at] = true,
            Segment::Name(pieces) => next[at + 1] |= names_overlap(pieces, segment),
        }
    }
    next
}

fn names_overlap(pieces: &[Piece], segment: &Spelled<'_>) -> bool {
    let letters: Vec<Token>;
    let (tokens, dotted) = match segment {
        Spelled::Name(name) => {
            letters = name.chars().map(Token::Letter).collect();
            (letters.as_slice(), true)
        }
        Spelled::Wild(wild) => (wild.tokens(), wild.starts_with_dot()),
    };
    // A wildcard stands for no leading dot.
    if !dotted && pieces.first() == Some(&Piece::Char('.')) {
        return false;
    }
    let mut reachable = vec![false; tokens.len() + 1];
    reachable[0] = true;
    skip_any(tokens, &mut reachable);
    for piece in pieces {
        reachable = match piece {
            Piece::Many => {
                let first = reachable.iter().position(|reached| *reached).unwrap_or(reachable.len());
                (0..reachable.len()).map(|at| at >= first).collect()
            }
            single => {
                let mut next = vec![false; reachable.len()];
                for (at, token) in tokens.iter().enumerate().filter(|(at, _)| reachable[*at]) {
                    match token {
                        Token::Any => next[at] = true,
                        Token::One => next[at + 1] = true,
                        Token::Letter(letter) => {
                            next[at + 1] |= super::matches_char(single, letter.to_ascii_lowercase(), true);
                        }
                    }
                }
                skip_any(tokens, &mut next);
                next
            }
        };
    }
    reachable[tokens.len()]
}

/// `*` may stand for nothing.
fn skip_any(tokens: &[Token], reachable: &mut [bool]) {
    for at in 0..tokens.len() {
        if reachable[at] && tokens[at] == Token::Any {
            reachable[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::WildcardsBuilder;

    fn overlap(rule: &str, pattern: &str, tree: bool) -> bool {
        let mut builder = WildcardsBuilder::default();
        for letter in pattern.chars() {
            match letter {
                '*' | '?' | '[' => builder.wildcard(letter),
                _ => builder.text(letter.encode_utf8(&mut [0; 4])),
            }
        }
        let working = [PathBuf::from("/repo")];
        let places = Places { working: &working, home: Some(Path::new("/home/dev")), source: Path::new("/repo") };
        PathPattern::parse(rule).unwrap().may_match_names(&builder.finish(), &working, tree, places)
    }

    #[test]
    fn a_pattern_that_could_name_a_closed_file_overlaps_its_rule() {
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
            assert!(overlap(rule, pattern, false), "{rule} {pattern}");
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
            assert!(!overlap(rule, pattern, false), "{rule} {pattern}");
        }
    }

    #[test]
    fn below_the_names_that_a_pattern_stands_for_a_tree_goes_on() {
        for (rule, pattern) in [("./src/secret/x", "s*"), ("**/*.pem", "src/*.d"), (".env", "*")] {
            assert!(overlap(rule, pattern, true), "{rule} {pattern}");
        }
        for (rule, pattern) in [("./.env", "*"), ("./secrets/**", "src/*"), ("~/x/**", "*")] {
            assert!(!overlap(rule, pattern, true), "{rule} {pattern}");
        }
    }
}
