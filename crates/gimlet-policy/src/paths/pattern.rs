//! Path patterns of `Read(…)` and `Edit(…)` rules: gitignore syntax below one of four anchors. A pattern never matches
//! outside its anchor.

mod containment;
mod overlap;

use std::path::{Path, PathBuf};

use super::segments;

/// Where a pattern hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    /// `//x`
    FileSystem,
    /// `~/x`
    Home,
    /// `/x`: the directory that the rule's source stands for.
    Source,
    /// `x` and `./x`: where the session started; what forbids also hangs where it is now.
    WorkingDirectory,
}

/// The directories that anchors stand for. Both spellings of a linked working directory count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) working: &'a [PathBuf],
    pub(crate) home: Option<&'a Path>,
    pub(crate) source: &'a Path,
}

/// Rules that forbid read more into a pattern than rules that allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    Allow,
    Forbid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    AnyDepth,
    Name(Vec<Piece>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Char(char),
    One,
    Many,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern {
    anchor: Anchor,
    segments: Vec<Segment>,
    /// No slash inside: matches at any depth below the anchor.
    floating: bool,
    /// A relative `name/**`: floats too, but only when it forbids.
    floats_when_forbidding: bool,
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
            (Anchor::FileSystem, rest)
        } else if text == "~" {
            (Anchor::Home, "**")
        } else if let Some(rest) = text.strip_prefix("~/") {
            (Anchor::Home, rest)
        } else if let Some(rest) = text.strip_prefix('/') {
            (Anchor::Source, rest)
        } else {
            (Anchor::WorkingDirectory, text)
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
        let relative = anchor == Anchor::WorkingDirectory && !dotted;
        let floats_when_forbidding = relative && names.len() == 2 && names[1] == "**" && names[0] != "**";
        let floating = relative && names.len() == 1;
        let segments: Vec<Segment> = names.into_iter().map(parse_segment).collect();
        if segments.is_empty() {
            return Err(PathPatternError::Empty);
        }
        Ok(Self { anchor, segments, floating, floats_when_forbidding, directory_only })
    }

    /// Whether the pattern covers this normalised absolute path.
    pub(crate) fn matches(&self, path: &Path, places: Places<'_>, strictness: Strictness) -> bool {
        self.matches_names(&names_of(path, strictness), places, strictness)
    }

    /// The same for the [`names_of`] a path, where many patterns are held against it.
    pub(crate) fn matches_names(&self, names: &[String], places: Places<'_>, strictness: Strictness) -> bool {
        match self.anchor {
            Anchor::FileSystem => self.matches_below(names, Path::new("/"), strictness),
            Anchor::Home => places.home.is_some_and(|home| self.matches_below(names, home, strictness)),
            Anchor::Source => self.matches_below(names, places.source, strictness),
            Anchor::WorkingDirectory => places.working.iter().any(|cwd| self.matches_below(names, cwd, strictness)),
        }
    }

    /// Whether a rule that forbids could match something below this normalised directory.
    pub(crate) fn may_match_below(&self, directory: &Path, places: Places<'_>) -> bool {
        let below = |base: &Path| self.may_reach(directory, base);
        match self.anchor {
            Anchor::FileSystem => below(Path::new("/")),
            Anchor::Home => places.home.is_some_and(below),
            Anchor::Source => below(places.source),
            Anchor::WorkingDirectory => places.working.iter().any(|cwd| below(cwd)),
        }
    }

    /// Compares the directory with the literal beginning of the pattern: what the pattern closes lies below that.
    fn may_reach(&self, directory: &Path, base: &Path) -> bool {
        let floats = self.floating || self.floats_when_forbidding;
        let literals = self.segments.iter().map_while(|segment| literal(segment).filter(|_| !floats));
        let literals: Vec<String> = literals.collect();
        let open = literals.len() < self.segments.len();
        let fold = |name: &std::ffi::OsStr| fold_case(&name.to_string_lossy(), true);
        let beginning: Vec<String> =
            segments(base).map(fold).chain(literals.iter().map(|name| fold_case(name, true))).collect();
        let directory: Vec<String> = segments(directory).map(fold).collect();
        beginning.starts_with(&directory) || (open && directory.starts_with(&beginning))
    }

    fn matches_below(&self, names: &[String], anchor: &Path, strictness: Strictness) -> bool {
        let fold = strictness == Strictness::Forbid;
        let mut rest = names;
        for expected in segments(anchor) {
            let Some((first, tail)) = rest.split_first() else { return false };
            if *first != fold_case(&expected.to_string_lossy(), fold) {
                return false;
            }
            rest = tail;
        }
        let floats = self.floating || (self.floats_when_forbidding && strictness == Strictness::Forbid);
        let starts = if floats { 0..rest.len().max(1) } else { 0..1 };
        starts.into_iter().any(|start| self.covers(&rest[start.min(rest.len())..], strictness))
    }

    /// Whether the pattern matches the path or a directory above it.
    fn covers(&self, names: &[String], strictness: Strictness) -> bool {
        let forbids = strictness == Strictness::Forbid;
        let longest = if self.directory_only && !forbids { names.len().saturating_sub(1) } else { names.len() };
        (0..=longest).any(|length| matches_segments(&self.segments, &names[..length], forbids))
    }
}

/// The names in a path as patterns are held against them.
pub(crate) fn names_of(path: &Path, strictness: Strictness) -> Vec<String> {
    let fold = strictness == Strictness::Forbid;
    segments(path).map(|name| fold_case(&name.to_string_lossy(), fold)).collect()
}

/// The name that a segment without wildcards stands for.
fn literal(segment: &Segment) -> Option<String> {
    let Segment::Name(pieces) = segment else { return None };
    let letter = |piece: &Piece| if let Piece::Char(c) = piece { Some(*c) } else { None };
    pieces.iter().map(letter).collect()
}

fn fold_case(name: &str, fold: bool) -> String {
    if fold { name.to_ascii_lowercase() } else { name.to_owned() }
}

/// Matches all segments, by the set of pattern positions reachable after each name, so no input makes it slow.
fn matches_segments(pattern: &[Segment], names: &[String], forbids: bool) -> bool {
    let mut reachable = vec![false; pattern.len() + 1];
    reachable[0] = true;
    skip_empty(pattern, &mut reachable, names.is_empty(), forbids);
    for (at, name) in names.iter().enumerate() {
        let mut next = vec![false; pattern.len() + 1];
        for (position, segment) in pattern.iter().enumerate().filter(|(position, _)| reachable[*position]) {
            match segment {
                Segment::AnyDepth => {
                    next[position] = true;
                    next[position + 1] = true;
                }
                Segment::Name(pieces) => next[position + 1] |= matches_name(pieces, name, forbids),
            }
        }
        skip_empty(pattern, &mut next, at + 1 == names.len(), forbids);
        reachable = next;
    }
    reachable[pattern.len()]
}

/// `**` may stand for nothing, except that an allowing `dir/**` does not mean `dir` itself.
fn skip_empty(pattern: &[Segment], reachable: &mut [bool], at_end: bool, forbids: bool) {
    for position in 0..pattern.len() {
        let last = position + 1 == pattern.len();
        if reachable[position] && pattern[position] == Segment::AnyDepth && !(last && at_end && !forbids) {
            reachable[position + 1] = true;
        }
    }
}

fn parse_segment(text: &str) -> Segment {
    if text == "**" {
        return Segment::AnyDepth;
    }
    let mut pieces = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        pieces.push(match c {
            '*' => Piece::Many,
            '?' => Piece::One,
            '\\' => Piece::Char(chars.next().unwrap_or('\\')),
            '[' => match parse_class(chars.as_str()) {
                Some((class, rest)) => {
                    chars = rest.chars();
                    class
                }
                None => Piece::Char('['),
            },
            other => Piece::Char(other),
        });
    }
    pieces.dedup_by(|a, b| *a == Piece::Many && *b == Piece::Many);
    Segment::Name(pieces)
}

/// Reads a class after its `[`; `None` when it is never closed.
fn parse_class(text: &str) -> Option<(Piece, &str)> {
    let negated = text.starts_with(['!', '^']);
    let body = if negated { &text[1..] } else { text };
    let mut chars = body.char_indices().peekable();
    let mut members: Vec<(char, char)> = Vec::new();
    let mut first = true;
    while let Some((at, c)) = chars.next() {
        if c == ']' && !first {
            return Some((Piece::Class { negated, ranges: members }, &body[at + 1..]));
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

fn matches_name(pieces: &[Piece], name: &str, fold: bool) -> bool {
    let name: Vec<char> = name.chars().collect();
    // The usual two-pointer walk: on a mismatch, let the last `*` take one character more.
    let (mut piece, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pieces.get(piece) {
            Some(Piece::Many) => {
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

fn matches_char(piece: &Piece, c: char, fold: bool) -> bool {
    match piece {
        Piece::Char(expected) => c == if fold { expected.to_ascii_lowercase() } else { *expected },
        Piece::One => true,
        Piece::Many => false,
        Piece::Class { negated, ranges } => {
            let fits = |c: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated;
            // Either case will do, also for `[!A-Z]`: what forbids must not reach less far than what allows.
            fits(c) || (fold && fits(c.to_ascii_uppercase()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str, strictness: Strictness) -> bool {
        let working = [PathBuf::from("/repo")];
        let places = Places { working: &working, home: Some(Path::new("/home/dev")), source: Path::new("/repo") };
        PathPattern::parse(pattern).unwrap().matches(Path::new(path), places, strictness)
    }

    #[test]
    fn an_allowing_directory_pattern_does_not_mean_the_directory_itself() {
        assert!(!matches("src/**", "/repo/src", Strictness::Allow));
        assert!(matches("src/**", "/repo/src", Strictness::Forbid));
        assert!(matches("src/**", "/repo/src/a", Strictness::Allow));
    }

    #[test]
    fn stars_stay_in_their_segment_and_double_stars_do_not() {
        assert!(!matches("/src/*.ts", "/repo/src/a/b.ts", Strictness::Allow));
        assert!(matches("/src/**/*.ts", "/repo/src/a/b.ts", Strictness::Allow));
        assert!(matches("/src/**/*.ts", "/repo/src/b.ts", Strictness::Allow));
        assert!(matches("//**/.env", "/srv/x/.env", Strictness::Forbid));
    }

    #[test]
    fn classes_ranges_escapes_and_unclosed_brackets() {
        assert!(matches("[a-c].csv", "/repo/b.csv", Strictness::Allow));
        assert!(!matches("[!a-c].csv", "/repo/b.csv", Strictness::Allow));
        assert!(matches("[]x]y", "/repo/]y", Strictness::Allow));
        assert!(matches("\\[a\\]", "/repo/[a]", Strictness::Allow));
        assert!(matches("[a", "/repo/[a", Strictness::Allow));
        assert!(matches("[A-C]x", "/repo/bx", Strictness::Forbid));
        for strictness in [Strictness::Allow, Strictness::Forbid] {
            assert!(matches("[!A-Z]x", "/repo/bx", strictness));
            assert!(!matches("[!a-zA-Z]x", "/repo/bx", strictness));
        }
    }

    #[test]
    fn a_dotted_pattern_is_anchored() {
        assert!(matches("./notes.txt", "/repo/notes.txt", Strictness::Forbid));
        assert!(!matches("./notes.txt", "/repo/a/notes.txt", Strictness::Forbid));
        assert!(matches("notes.txt", "/repo/a/notes.txt", Strictness::Allow));
    }

    #[test]
    fn exceptions_and_parents_are_refused_by_name() {
        assert_eq!(PathPattern::parse("!x"), Err(PathPatternError::Negated));
        assert_eq!(PathPattern::parse("../x"), Err(PathPatternError::Parent));
        assert_eq!(PathPattern::parse("/"), Err(PathPatternError::Empty));
    }
}
