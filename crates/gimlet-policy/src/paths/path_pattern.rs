//! Path patterns of `Read(…)` and `Edit(…)` rules: gitignore syntax below one of four anchors. A pattern never matches
//! outside its anchor.

mod pattern_containment;
mod pattern_overlap;

use std::path::{Path, PathBuf};

use super::path_segments;

/// Directory that a pattern is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternAnchor {
    /// `//x`
    FileSystem,
    /// `~/x`
    Home,
    /// `/x`: the directory that the rule's source stands for.
    Source,
    /// `x` and `./x`: the directory that the session started in; for rules that forbid also the current one.
    WorkingDirectory,
}

/// The directories of the anchors. Both spellings of a symlinked working directory count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnchorDirs<'a> {
    pub(crate) working_dirs: &'a [PathBuf],
    pub(crate) home: Option<&'a Path>,
    pub(crate) source: &'a Path,
}

/// Strictness of matching: rules that forbid match more by a pattern than rules that allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchStrictness {
    Allow,
    Forbid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternSegment {
    AnyDepth,
    Name(Vec<PatternPiece>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPiece {
    Char(char),
    One,
    Many,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern {
    anchor: PatternAnchor,
    segments: Vec<PatternSegment>,
    /// No slash inside: matches at any depth below the anchor.
    any_depth: bool,
    /// A relative `name/**`: matches at any depth too, but only when it forbids.
    any_depth_if_forbidding: bool,
    directory_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathPatternError {
    #[error("the path is empty")]
    Empty,
    #[error("`!` exceptions are not supported")]
    Negated,
    #[error("`..` inside a pattern is not supported")]
    Parent,
}

impl PathPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, PathPatternError> {
        let (anchor, rest) = if let Some(rest) = text.strip_prefix("//") {
            (PatternAnchor::FileSystem, rest)
        } else if text == "~" {
            (PatternAnchor::Home, "**")
        } else if let Some(rest) = text.strip_prefix("~/") {
            (PatternAnchor::Home, rest)
        } else if let Some(rest) = text.strip_prefix('/') {
            (PatternAnchor::Source, rest)
        } else {
            (PatternAnchor::WorkingDirectory, text)
        };
        if rest.starts_with('!') {
            return Err(PathPatternError::Negated);
        }
        let dotted = rest.starts_with("./");
        let directory_only = rest.ends_with('/');
        let names: Vec<&str> = rest.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        if names.contains(&"..") {
            return Err(PathPatternError::Parent);
        }
        let relative = anchor == PatternAnchor::WorkingDirectory && !dotted;
        let floats_when_forbidding = relative && names.len() == 2 && names[1] == "**" && names[0] != "**";
        let floating = relative && names.len() == 1;
        let segments: Vec<PatternSegment> = names.into_iter().map(parse_segment).collect();
        if segments.is_empty() {
            return Err(PathPatternError::Empty);
        }
        Ok(Self {
            anchor,
            segments,
            any_depth: floating,
            any_depth_if_forbidding: floats_when_forbidding,
            directory_only,
        })
    }

    /// Returns the pattern that begins at its anchor, even if it forbids.
    pub(crate) fn at_anchor_only(mut self) -> Self {
        self.any_depth_if_forbidding = false;
        self
    }

    /// Returns true if the pattern covers this normalised absolute path.
    pub(crate) fn matches(&self, path: &Path, places: AnchorDirs<'_>, strictness: MatchStrictness) -> bool {
        self.matches_names(&path_names(path, strictness), places, strictness)
    }

    /// Returns true if the pattern covers the path with these [`path_names`]; for matching many patterns against one
    /// path.
    pub(crate) fn matches_names(&self, names: &[String], places: AnchorDirs<'_>, strictness: MatchStrictness) -> bool {
        match self.anchor {
            PatternAnchor::FileSystem => self.matches_below(names, Path::new("/"), strictness),
            PatternAnchor::Home => places.home.is_some_and(|home| self.matches_below(names, home, strictness)),
            PatternAnchor::Source => self.matches_below(names, places.source, strictness),
            PatternAnchor::WorkingDirectory => {
                places.working_dirs.iter().any(|cwd| self.matches_below(names, cwd, strictness))
            }
        }
    }

    /// Returns true if a rule that forbids could match something below this normalised directory.
    pub(crate) fn may_match_below(&self, directory: &Path, places: AnchorDirs<'_>) -> bool {
        let below = |base: &Path| self.may_reach_below(directory, base);
        match self.anchor {
            PatternAnchor::FileSystem => below(Path::new("/")),
            PatternAnchor::Home => places.home.is_some_and(below),
            PatternAnchor::Source => below(places.source),
            PatternAnchor::WorkingDirectory => places.working_dirs.iter().any(|cwd| below(cwd)),
        }
    }

    /// Returns true if the literal beginning of the pattern is compatible with the directory: everything that the
    /// pattern closes is below that.
    fn may_reach_below(&self, directory: &Path, base: &Path) -> bool {
        let floats = self.any_depth || self.any_depth_if_forbidding;
        let literals: Vec<String> =
            if floats { Vec::new() } else { self.segments.iter().map_while(literal_name).collect() };
        let open = literals.len() < self.segments.len();
        let fold = |name: &std::ffi::OsStr| fold_case(&name.to_string_lossy(), true);
        let beginning: Vec<String> =
            path_segments(base).map(fold).chain(literals.iter().map(|name| fold_case(name, true))).collect();
        let directory: Vec<String> = path_segments(directory).map(fold).collect();
        beginning.starts_with(&directory) || (open && directory.starts_with(&beginning))
    }

    fn matches_below(&self, names: &[String], anchor: &Path, strictness: MatchStrictness) -> bool {
        let fold = strictness == MatchStrictness::Forbid;
        let mut rest = names;
        for expected in path_segments(anchor) {
            let Some((first, tail)) = rest.split_first() else { return false };
            if *first != fold_case(&expected.to_string_lossy(), fold) {
                return false;
            }
            rest = tail;
        }
        let floats = self.any_depth || (self.any_depth_if_forbidding && strictness == MatchStrictness::Forbid);
        let starts = if floats { 0..rest.len().max(1) } else { 0..1 };
        starts.into_iter().any(|start| self.covers(&rest[start.min(rest.len())..], strictness))
    }

    /// Returns true if the pattern matches the path or a directory above it.
    fn covers(&self, names: &[String], strictness: MatchStrictness) -> bool {
        let forbids = strictness == MatchStrictness::Forbid;
        let longest = if self.directory_only && !forbids { names.len().saturating_sub(1) } else { names.len() };
        (0..=longest).any(|length| matches_segments(&self.segments, &names[..length], forbids))
    }
}

/// Returns the names in a path in the form that patterns are matched against.
pub(crate) fn path_names(path: &Path, strictness: MatchStrictness) -> Vec<String> {
    let fold = strictness == MatchStrictness::Forbid;
    path_segments(path).map(|name| fold_case(&name.to_string_lossy(), fold)).collect()
}

/// Returns the name that a segment without wildcards stands for.
fn literal_name(segment: &PatternSegment) -> Option<String> {
    let PatternSegment::Name(pieces) = segment else { return None };
    let letter = |piece: &PatternPiece| if let PatternPiece::Char(c) = piece { Some(*c) } else { None };
    pieces.iter().map(letter).collect()
}

fn fold_case(name: &str, fold: bool) -> String {
    if fold { name.to_ascii_lowercase() } else { name.to_owned() }
}

/// Matches all segments, by the set of pattern positions reachable after each name, so no input makes it slow.
fn matches_segments(pattern: &[PatternSegment], names: &[String], forbids: bool) -> bool {
    let mut reachable = vec![false; pattern.len() + 1];
    reachable[0] = true;
    skip_empty_depths(pattern, &mut reachable, names.is_empty(), forbids);
    for (at, name) in names.iter().enumerate() {
        let mut next = vec![false; pattern.len() + 1];
        for (position, segment) in pattern.iter().enumerate().filter(|(position, _)| reachable[*position]) {
            match segment {
                PatternSegment::AnyDepth => {
                    next[position] = true;
                    next[position + 1] = true;
                }
                PatternSegment::Name(pieces) => next[position + 1] |= matches_name(pieces, name, forbids),
            }
        }
        skip_empty_depths(pattern, &mut next, at + 1 == names.len(), forbids);
        reachable = next;
    }
    reachable[pattern.len()]
}

/// Advances over `**`, which may match nothing, except that an allowing `dir/**` does not match `dir` itself.
fn skip_empty_depths(pattern: &[PatternSegment], reachable: &mut [bool], at_end: bool, forbids: bool) {
    for position in 0..pattern.len() {
        let last = position + 1 == pattern.len();
        if reachable[position] && pattern[position] == PatternSegment::AnyDepth && !(last && at_end && !forbids) {
            reachable[position + 1] = true;
        }
    }
}

fn parse_segment(text: &str) -> PatternSegment {
    if text == "**" {
        return PatternSegment::AnyDepth;
    }
    let mut pieces = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        pieces.push(match c {
            '*' => PatternPiece::Many,
            '?' => PatternPiece::One,
            '\\' => PatternPiece::Char(chars.next().unwrap_or('\\')),
            '[' => match parse_class(chars.as_str()) {
                Some((class, rest)) => {
                    chars = rest.chars();
                    class
                }
                None => PatternPiece::Char('['),
            },
            other => PatternPiece::Char(other),
        });
    }
    pieces.dedup_by(|a, b| *a == PatternPiece::Many && *b == PatternPiece::Many);
    PatternSegment::Name(pieces)
}

/// Reads a class after its `[`; `None` when it is never closed.
fn parse_class(text: &str) -> Option<(PatternPiece, &str)> {
    let negated = text.starts_with(['!', '^']);
    let body = if negated { &text[1..] } else { text };
    let mut chars = body.char_indices().peekable();
    let mut members: Vec<(char, char)> = Vec::new();
    let mut first = true;
    while let Some((at, c)) = chars.next() {
        if c == ']' && !first {
            return Some((PatternPiece::Class { negated, ranges: members }, &body[at + 1..]));
        }
        first = false;
        let low = if c == '\\' { chars.next()?.1 } else { c };
        let mut ahead = chars.clone();
        let dash = ahead.next().is_some_and(|(_, c)| c == '-');
        let high = match ahead.next() {
            Some((_, end)) if dash && end != ']' => {
                chars = ahead;
                if end == '\\' { chars.next()?.1 } else { end }
            }
            _ => low,
        };
        members.push((low, high));
    }
    None
}

fn matches_name(pieces: &[PatternPiece], name: &str, fold: bool) -> bool {
    let name: Vec<char> = name.chars().collect();
    // The usual two-pointer walk: on a mismatch, let the last `*` take one character more.
    let (mut piece, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pieces.get(piece) {
            Some(PatternPiece::Many) => {
                retry = Some((piece + 1, at));
                piece += 1;
                continue;
            }
            Some(single) if at < name.len() && matches_char(single, name[at], fold) => {
                piece += 1;
                at += 1;
                continue;
            }
            None if at == name.len() => return true,
            _ => {}
        }
        match retry {
            Some((after, from)) if from < name.len() => {
                retry = Some((after, from + 1));
                piece = after;
                at = from + 1;
            }
            _ => return false,
        }
    }
}

fn matches_char(piece: &PatternPiece, c: char, fold: bool) -> bool {
    match piece {
        PatternPiece::Char(expected) => c == if fold { expected.to_ascii_lowercase() } else { *expected },
        PatternPiece::One => true,
        PatternPiece::Many => false,
        PatternPiece::Class { negated, ranges } => {
            let fits = |c: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated;
            // Either case matches, also for `[!A-Z]`: a forbidding rule must not match less than an allowing one.
            fits(c) || (fold && fits(c.to_ascii_uppercase()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str, strictness: MatchStrictness) -> bool {
        let working = [PathBuf::from("/repo")];
        let places =
            AnchorDirs { working_dirs: &working, home: Some(Path::new("/home/dev")), source: Path::new("/repo") };
        PathPattern::parse(pattern).unwrap().matches(Path::new(path), places, strictness)
    }

    #[test]
    fn an_allowing_directory_pattern_does_not_mean_the_directory_itself() {
        assert!(!matches("src/**", "/repo/src", MatchStrictness::Allow));
        assert!(matches("src/**", "/repo/src", MatchStrictness::Forbid));
        assert!(matches("src/**", "/repo/src/a", MatchStrictness::Allow));
    }

    #[test]
    fn stars_stay_in_their_segment_and_double_stars_do_not() {
        assert!(!matches("/src/*.ts", "/repo/src/a/b.ts", MatchStrictness::Allow));
        assert!(matches("/src/**/*.ts", "/repo/src/a/b.ts", MatchStrictness::Allow));
        assert!(matches("/src/**/*.ts", "/repo/src/b.ts", MatchStrictness::Allow));
        assert!(matches("//**/.env", "/srv/x/.env", MatchStrictness::Forbid));
    }

    #[test]
    fn classes_ranges_escapes_and_unclosed_brackets() {
        assert!(matches("[a-c].csv", "/repo/b.csv", MatchStrictness::Allow));
        assert!(!matches("[!a-c].csv", "/repo/b.csv", MatchStrictness::Allow));
        assert!(matches("[]x]y", "/repo/]y", MatchStrictness::Allow));
        assert!(matches("\\[a\\]", "/repo/[a]", MatchStrictness::Allow));
        assert!(matches("[a", "/repo/[a", MatchStrictness::Allow));
        assert!(matches("[A-C]x", "/repo/bx", MatchStrictness::Forbid));
        for strictness in [MatchStrictness::Allow, MatchStrictness::Forbid] {
            assert!(matches("[!A-Z]x", "/repo/bx", strictness));
            assert!(!matches("[!a-zA-Z]x", "/repo/bx", strictness));
        }
    }

    #[test]
    fn a_dotted_pattern_is_anchored() {
        assert!(matches("./notes.txt", "/repo/notes.txt", MatchStrictness::Forbid));
        assert!(!matches("./notes.txt", "/repo/a/notes.txt", MatchStrictness::Forbid));
        assert!(matches("notes.txt", "/repo/a/notes.txt", MatchStrictness::Allow));
    }

    #[test]
    fn exceptions_and_parents_are_refused_by_name() {
        assert_eq!(PathPattern::parse("!x"), Err(PathPatternError::Negated));
        assert_eq!(PathPattern::parse("../x"), Err(PathPatternError::Parent));
        assert_eq!(PathPattern::parse("/"), Err(PathPatternError::Empty));
    }
}
