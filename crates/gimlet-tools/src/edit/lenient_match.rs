//! The lenient steps of the search, off by default: whole lines that differ from the requested ones only in trailing
//! whitespace, or only in indentation.
//!
//! A match always has as many lines as the requested text, so it can never replace more than that.

use std::ops::Range;

use super::edit_match::MatchKind;

/// A block of lines and what to put there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LenientMatch {
    pub(super) range: Range<usize>,
    pub(super) with: String,
    pub(super) how: MatchKind,
}

/// Returns the one block that matches `old` leniently; `None` when there is none or more than one.
pub(super) fn find(text: &str, old: &str, new: &str) -> Option<LenientMatch> {
    let (old_body, ended) = match old.strip_suffix('\n') {
        Some(body) => (body, true),
        None => (old, false),
    };
    let wanted: Vec<&str> = old_body.split('\n').collect();
    if wanted.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    let lines = TextLines::from_text(text);
    let trailing = |found: &[&str]| found.iter().zip(&wanted).all(|(a, b)| a.trim_end() == b.trim_end());
    if let Some(at) = find_only_window(lines.windows(wanted.len()), trailing)? {
        let range = lines.range(at, wanted.len(), ended);
        return Some(LenientMatch { range, with: new.to_owned(), how: MatchKind::TrailingBlanks });
    }
    let at = find_only_window(lines.windows(wanted.len()), |found| IndentShift::between(&wanted, found).is_some())??;
    let shift = IndentShift::between(&wanted, &lines.texts[at..at + wanted.len()])?;
    Some(LenientMatch {
        range: lines.range(at, wanted.len(), ended),
        with: shift.apply(new)?,
        how: MatchKind::Indentation,
    })
}

/// Returns the index of the only window that fits: `Some(None)` for no window, `None` for more than one.
fn find_only_window<'a, 'b: 'a>(
    windows: impl Iterator<Item = &'a [&'b str]>,
    fits: impl Fn(&[&str]) -> bool,
) -> Option<Option<usize>> {
    let mut found = windows.enumerate().filter(|(_, window)| fits(window)).map(|(index, _)| index);
    let first = found.next();
    if found.next().is_some() { None } else { Some(first) }
}

struct TextLines<'a> {
    texts: Vec<&'a str>,
    starts: Vec<usize>,
    length: usize,
}

impl<'a> TextLines<'a> {
    fn from_text(text: &'a str) -> Self {
        let texts: Vec<&str> = text.split('\n').collect();
        let starts = texts
            .iter()
            .scan(0, |next, line| {
                let start = *next;
                *next += line.len() + 1;
                Some(start)
            })
            .collect();
        Self { texts, starts, length: text.len() }
    }

    fn windows(&self, count: usize) -> impl Iterator<Item = &[&'a str]> {
        self.texts.windows(count)
    }

    fn range(&self, first: usize, count: usize, with_end: bool) -> Range<usize> {
        let last = first + count - 1;
        let end = self.starts[last] + self.texts[last].len();
        self.starts[first]..(end + usize::from(with_end)).min(self.length)
    }
}

/// Difference in indentation between a block and the requested text.
#[derive(Debug, PartialEq, Eq)]
enum IndentShift<'a> {
    In(&'a str),
    Out(&'a str),
}

impl<'a> IndentShift<'a> {
    fn between(wanted: &[&'a str], found: &[&'a str]) -> Option<Self> {
        let mut shift = None;
        for (wanted, found) in wanted.iter().zip(found) {
            if wanted.trim() != found.trim() {
                return None;
            }
            if wanted.trim().is_empty() {
                continue;
            }
            let (wanted, found) = (indent(wanted), indent(found));
            let this = match (found.strip_suffix(wanted), wanted.strip_suffix(found)) {
                (Some(more), _) => IndentShift::In(more),
                (None, Some(less)) => IndentShift::Out(less),
                (None, None) => return None,
            };
            match &shift {
                None => shift = Some(this),
                Some(known) if *known == this => {}
                Some(_) => return None,
            }
        }
        shift
    }

    /// Returns `new` with the shift applied; `None` when a line cannot be moved so far out.
    fn apply(&self, new: &str) -> Option<String> {
        let moved = |line: &str| match self {
            _ if line.trim().is_empty() => Some(line.to_owned()),
            IndentShift::In(more) => Some(format!("{more}{line}")),
            IndentShift::Out(less) => line.strip_prefix(less).map(str::to_owned),
        };
        new.split('\n').map(moved).collect::<Option<Vec<_>>>().map(|lines| lines.join("\n"))
    }
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "fn a() {\n    if x {  \n        y();\n    }\n}\n";

    fn edited(old: &str, new: &str) -> Option<String> {
        let block = find(CODE, old, new)?;
        let mut text = CODE.to_owned();
        text.replace_range(block.range, &block.with);
        Some(text)
    }

    #[test]
    fn trailing_blanks_do_not_matter() {
        assert_eq!(edited("    if x {\n        y();  \n", "    z();\n").unwrap(), "fn a() {\n    z();\n    }\n}\n");
    }

    #[test]
    fn a_shifted_block_shifts_its_replacement() {
        let shifted_in = edited("if x {\n    y();\n}", "if z {\n\n    w();\n}").unwrap();
        assert_eq!(shifted_in, "fn a() {\n    if z {\n\n        w();\n    }\n}\n");
        let shifted_out = edited("      if x {\n          y();", "      if q {\n          y();").unwrap();
        assert_eq!(shifted_out, "fn a() {\n    if q {\n        y();\n    }\n}\n");
        assert_eq!(edited("      if x {\n          y();", "out"), None, "cannot be moved out that far");
    }

    #[test]
    fn doubt_is_no_match() {
        assert_eq!(find("a \nb\na  \n", "a", "x"), None, "two places");
        assert_eq!(find("  a\nb\n", "a\n b", "x"), None, "uneven shift");
        assert_eq!(find("\n\n", "  ", "x"), None, "nothing but blanks");
    }
}
