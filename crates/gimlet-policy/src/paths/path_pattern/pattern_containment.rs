//! Containment of one pattern in another. It is used to report rules that never decide, and no decision rests on it:
//! when in doubt the answer is no.

use super::{PathPattern, PatternAnchor, PatternPiece, PatternSegment, literal_name, matches_name};

impl PathPattern {
    /// Returns true if this pattern, as one that forbids, matches everything that `narrow` matches. `same_source` is
    /// true if both come from a source of one folder.
    pub(crate) fn contains(&self, narrow: &Self, same_source: bool) -> bool {
        if self.anchor != narrow.anchor || (self.anchor == PatternAnchor::Source && !same_source) {
            return false;
        }
        let wide = with_any_depth(&self.segments, self.any_depth || self.any_depth_if_forbidding);
        let mut reachable = vec![false; wide.len() + 1];
        reachable[0] = true;
        skip_any_depths(&wide, &mut reachable);
        for segment in with_any_depth(&narrow.segments, narrow.any_depth) {
            // A pattern that covers a folder covers everything below.
            if reachable[wide.len()] {
                return true;
            }
            let mut next = vec![false; reachable.len()];
            for (at, expected) in wide.iter().enumerate().filter(|(at, _)| reachable[*at]) {
                match (expected, &segment) {
                    (PatternSegment::AnyDepth, _) => next[at] = true,
                    // A single name cannot cover any number of names.
                    (PatternSegment::Name(_), PatternSegment::AnyDepth) => {}
                    (PatternSegment::Name(wide), PatternSegment::Name(narrow)) => {
                        next[at + 1] |= covers_name(wide, narrow, &segment)
                    }
                }
            }
            skip_any_depths(&wide, &mut next);
            reachable = next;
        }
        reachable[wide.len()]
    }
}

fn with_any_depth(segments: &[PatternSegment], floats: bool) -> Vec<PatternSegment> {
    let depth = floats.then_some(PatternSegment::AnyDepth);
    depth.into_iter().chain(segments.iter().cloned()).collect()
}

/// Marks the positions that are reachable because a `**` may match nothing.
pub(super) fn skip_any_depths(segments: &[PatternSegment], reachable: &mut [bool]) {
    for at in 0..segments.len() {
        if reachable[at] && segments[at] == PatternSegment::AnyDepth {
            reachable[at + 1] = true;
        }
    }
}

fn covers_name(wide: &[PatternPiece], narrow: &[PatternPiece], segment: &PatternSegment) -> bool {
    let by_value = || literal_name(segment).is_some_and(|name| matches_name(wide, &name.to_ascii_lowercase(), true));
    wide == narrow || wide == [PatternPiece::Many] || by_value()
}
