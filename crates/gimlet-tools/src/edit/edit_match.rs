//! Places where an edit applies: the exact text, then a few careful fallbacks, each of which must be unambiguous and is
//! reported.
//!
//! Pure: text in, places out. All text here has LF line ends.

use std::ops::Range;

use memchr::memmem;

use super::{lenient_match, typography};
use crate::text_file::TextSplice;

/// Kind of match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchKind {
    Exact,
    /// The text came with the line numbers of a read.
    LineNumbers,
    /// Quotes, dashes or spaces differ in their typography.
    Typography,
    TrailingBlanks,
    Indentation,
}

impl MatchKind {
    /// Returns the note for the result; `None` for an exact match.
    pub(super) fn note(self) -> Option<&'static str> {
        match self {
            MatchKind::Exact => None,
            MatchKind::LineNumbers => Some("The line numbers in your strings were removed."),
            MatchKind::Typography => Some(
                "The file has other quotes, dashes or spaces than `old_string`; that text was matched and `new_string` \
                 was inserted as given.",
            ),
            MatchKind::TrailingBlanks => Some("The match ignores blanks at line ends."),
            MatchKind::Indentation => {
                Some("The match ignores indentation; `new_string` was moved to that of the file.")
            }
        }
    }
}

/// An edit that applies.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EditMatch {
    /// Ascending, not overlapping.
    pub(super) splices: Vec<TextSplice>,
    pub(super) how: MatchKind,
}

/// Reason why an edit does not apply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoMatch {
    Missing,
    /// More than one place, and which lines they begin on.
    Ambiguous {
        lines: Vec<usize>,
        how: MatchKind,
    },
}

/// Requested replacement.
#[derive(Clone, Copy, Debug)]
pub(super) struct EditRequest<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) replace_all: bool,
    pub(super) lenient: bool,
}

/// Finds the places where the edit applies.
pub(super) fn find(text: &str, wanted: EditRequest<'_>) -> Result<EditMatch, NoMatch> {
    let exact = find_all(text, wanted.old);
    if !exact.is_empty() {
        return select_matches(text, wanted, exact, MatchKind::Exact);
    }
    if let Some((old, new)) = without_line_numbers(wanted.old, wanted.new) {
        let stripped = EditRequest { old: &old, new: &new, replace_all: false, ..wanted };
        if let [only] = find_all(text, &old).as_slice() {
            return select_matches(text, stripped, vec![only.clone()], MatchKind::LineNumbers);
        }
    }
    let (folded_text, folded_old) = (typography::fold(text), typography::fold(wanted.old));
    if folded_text.is_changed() || folded_old.is_changed() {
        let folded = find_all(&folded_text.text, &folded_old.text);
        if !folded.is_empty() {
            let original = folded.iter().map(|range| folded_text.original_range(range)).collect();
            return select_matches(text, wanted, original, MatchKind::Typography);
        }
    }
    if wanted.lenient
        && let Some(block) = lenient_match::find(text, wanted.old, wanted.new)
    {
        return Ok(EditMatch { splices: vec![TextSplice { range: block.range, with: block.with }], how: block.how });
    }
    Err(NoMatch::Missing)
}

/// Returns every occurrence of `old`. A second one that overlaps the first counts too: it makes the edit ambiguous.
fn find_all(text: &str, old: &str) -> Vec<Range<usize>> {
    let finder = memmem::Finder::new(old.as_bytes());
    let mut found: Vec<Range<usize>> =
        finder.find_iter(text.as_bytes()).map(|start| start..start + old.len()).collect();
    if let [only] = found.as_slice() {
        let from = only.start + 1;
        let overlapping = finder.find(&text.as_bytes()[from..]).map(|at| from + at);
        found.extend(overlapping.map(|start| start..start + old.len()));
    }
    found
}

fn select_matches(
    text: &str,
    wanted: EditRequest<'_>,
    mut places: Vec<Range<usize>>,
    how: MatchKind,
) -> Result<EditMatch, NoMatch> {
    if places.len() > 1 && !wanted.replace_all {
        let lines = places.iter().map(|place| line_of(text, place.start)).collect();
        return Err(NoMatch::Ambiguous { lines, how });
    }
    // Only the overlapping second place of `places` can begin before the first one ends.
    places.dedup_by(|later, earlier| later.start < earlier.end);
    let splices = places
        .into_iter()
        .map(|place| {
            let range = if wanted.new.is_empty() { with_line_end(text, place) } else { place };
            TextSplice { range, with: wanted.new.to_owned() }
        })
        .collect();
    Ok(EditMatch { splices, how })
}

/// Extends a deletion of whole lines by the last line end, so that no empty line remains.
fn with_line_end(text: &str, range: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let starts_line = range.start == 0 || bytes[range.start - 1] == b'\n';
    let ends_line = bytes.get(range.end) == Some(&b'\n');
    let is_open = range.end > range.start && bytes[range.end - 1] != b'\n';
    if starts_line && ends_line && is_open { range.start..range.end + 1 } else { range }
}

/// Returns both strings without line numbers of a read, if every line of `old` has one and they count up.
fn without_line_numbers(old: &str, new: &str) -> Option<(String, String)> {
    let numbered: Vec<(u64, &str)> = old.lines().map(split_number).collect::<Option<_>>()?;
    let counts_up = numbered.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1);
    if numbered.is_empty() || !counts_up {
        return None;
    }
    let stripped = |text: &str, lines: Vec<&str>| {
        let end = if text.ends_with('\n') { "\n" } else { "" };
        lines.join("\n") + end
    };
    let old_lines = numbered.into_iter().map(|(_, line)| line).collect();
    let new_lines: Option<Vec<&str>> = new.lines().map(|line| split_number(line).map(|(_, line)| line)).collect();
    // New lines may repeat numbers; but either all of them have one, or none is meant as one.
    let new = new_lines.map_or_else(|| new.to_owned(), |lines| stripped(new, lines));
    Some((stripped(old, old_lines), new))
}

fn split_number(line: &str) -> Option<(u64, &str)> {
    let (number, rest) = line.split_once('\t')?;
    Some((number.trim_start().parse().ok()?, rest))
}

/// Returns the line number of an offset.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..offset]).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str, old: &str, new: &str, replace_all: bool) -> Result<(String, MatchKind), NoMatch> {
        let found = find(text, EditRequest { old, new, replace_all, lenient: false })?;
        let mut result = text.to_owned();
        for splice in found.splices.iter().rev() {
            result.replace_range(splice.range.clone(), &splice.with);
        }
        Ok((result, found.how))
    }

    fn exact(text: &str) -> Result<(String, MatchKind), NoMatch> {
        Ok((text.to_owned(), MatchKind::Exact))
    }

    #[test]
    fn exact_matches_must_be_unique_unless_all_are_meant() {
        assert_eq!(edit("a b a", "b", "c", false), exact("a c a"));
        assert_eq!(edit("a b a", "a", "c", true), exact("c b c"));
        let ambiguous = |lines| Err(NoMatch::Ambiguous { lines, how: MatchKind::Exact });
        assert_eq!(edit("a\nb\na", "a", "c", false), ambiguous(vec![1, 3]));
        assert_eq!(edit("aaa", "aa", "b", false), ambiguous(vec![1, 1]));
        assert_eq!(edit("aaa", "aa", "b", true), exact("ba"));
        assert_eq!(edit("a", "b", "c", false), Err(NoMatch::Missing));
    }

    #[test]
    fn typography_is_folded_for_the_search_only_and_must_be_unique_there() {
        let text = "say \u{201C}hi\u{201D} \u{2014} now\nsay 'x'\n";
        let (result, how) = edit(text, "\"hi\" - now", "\u{2018}bye\u{2019}", false).unwrap();
        assert_eq!((result.as_str(), how), ("say \u{2018}bye\u{2019}\nsay 'x'\n", MatchKind::Typography));
        assert_eq!(edit(text, "say \u{2018}x\u{2019}", "y", false).unwrap().1, MatchKind::Typography);
        let twice = "\u{201C}a\u{201D}\n\"a\u{201D}\n";
        assert_eq!(
            edit(twice, "\"a\"", "b", false),
            Err(NoMatch::Ambiguous { lines: vec![1, 2], how: MatchKind::Typography })
        );
        assert_eq!(edit("\u{201C}a\u{201D} \"a\"", "\"a\"", "b", false), exact("\u{201C}a\u{201D} b"));
    }

    #[test]
    fn pasted_line_numbers_are_removed_only_beyond_doubt() {
        let text = "one\ntwo\nthree\n";
        let numbered = |new: &str| (format!("one\n{new}three\n"), MatchKind::LineNumbers);
        assert_eq!(edit(text, "2\ttwo\n", "2\t2nd\n3\tnew\n", false).unwrap(), numbered("2nd\nnew\n"));
        assert_eq!(edit(text, "     2\ttwo\n", "2nd\n", false).unwrap(), numbered("2nd\n"));
        assert_eq!(edit(text, "1\tone\n3\ttwo", "x", false), Err(NoMatch::Missing));
        assert_eq!(edit(text, "1\tone\ntwo", "x", false), Err(NoMatch::Missing));
        assert_eq!(edit("a\na\n", "1\ta", "x", true), Err(NoMatch::Missing));
    }

    #[test]
    fn deleting_whole_lines_takes_their_line_end_along() {
        assert_eq!(edit("a\nb\nc\n", "b", "", false), exact("a\nc\n"));
        assert_eq!(edit("a\nb\n\nc\n", "b\n", "", false), exact("a\n\nc\n"));
        assert_eq!(edit("a\nxb\nc\n", "b", "", false), exact("a\nx\nc\n"));
        assert_eq!(edit("a\nbx\nc\n", "b", "", false), exact("a\nx\nc\n"));
        assert_eq!(edit("a\nb", "b", "", false), exact("a\n"));
        assert_eq!(edit("b\na\nb\n", "b", "", true), exact("a\n"));
    }
}
