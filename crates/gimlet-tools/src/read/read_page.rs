//! Picks the lines that a read asks for and holds them within the token budget.

use std::borrow::Cow;

use super::line_splitter::{DecodedLine, LineSink, count_chars};

/// Characters of a line that are shown.
pub(super) const MOST_LINE_CHARS: usize = 2_000;
/// Bytes that always hold that many characters.
pub(super) const LINE_KEEP: usize = MOST_LINE_CHARS * 4;
/// Lines of a page when the budget forces pages.
pub(super) const PAGE_LINES: u64 = 2_000;

/// Lines requested by a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineSelection {
    /// First line, from 1.
    pub(super) first: u64,
    pub(super) limit: Option<u64>,
    /// The caller named a range: it gets the range or an error, never less.
    pub(super) explicit: bool,
}

/// An estimate of tokens that can be added up line by line.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBudget {
    /// Most quarter tokens.
    quarters: u64,
    /// Quarter tokens of a plain byte.
    weight: u64,
}

impl TokenBudget {
    pub(super) fn new(tokens: u64, is_json: bool) -> Self {
        Self { quarters: tokens.saturating_mul(4), weight: if is_json { 2 } else { 1 } }
    }

    /// Returns the token cost of `text` with its line number: a quarter token a byte, twice that for JSON and for East
    /// Asian scripts, whose characters are about a token each.
    pub(super) fn cost(&self, number: u64, text: &str) -> u64 {
        let wide = text.bytes().filter(|byte| (0xE3..=0xED).contains(byte)).count() as u64 * 3;
        let prefix = u64::from(number.checked_ilog10().unwrap_or(0)) + 3;
        (text.len() as u64 + wide * (2 - self.weight)) * self.weight + prefix
    }

    pub(super) fn tokens(&self) -> u64 {
        self.quarters / 4
    }

    pub(super) fn can_afford(&self, quarters: u64) -> bool {
        quarters <= self.quarters
    }
}

/// Collects the selected lines.
pub(super) struct ReadPage {
    selection: LineSelection,
    budget: TokenBudget,
    spent: u64,
    /// Lines seen so far.
    pub(super) total_lines: u64,
    pub(super) text: String,
    pub(super) shown: u64,
    /// Text length and cost after [`PAGE_LINES`] lines.
    page_end: Option<usize>,
    /// The selection did not fit.
    pub(super) over_budget: bool,
    /// Lines of which only the start is shown.
    pub(super) cut_lines: u64,
    /// Bytes that are no text were replaced.
    pub(super) is_lossy: bool,
    last_ended: bool,
}

impl ReadPage {
    pub(super) fn new(selection: LineSelection, budget: TokenBudget, expected: usize) -> Self {
        Self {
            selection,
            budget,
            spent: 0,
            total_lines: 0,
            text: String::with_capacity(expected),
            shown: 0,
            page_end: None,
            over_budget: false,
            cut_lines: 0,
            is_lossy: false,
            last_ended: false,
        }
    }

    /// Returns true if no further line can enter the page.
    pub(super) fn is_complete(&self) -> bool {
        self.over_budget || self.selection.limit.is_some_and(|limit| self.shown >= limit)
    }

    /// Ends the page when the file is read: a page that had to be cut ends at [`PAGE_LINES`] lines, and a last line
    /// that is shown keeps its line end.
    pub(super) fn finish(&mut self) {
        if self.over_budget
            && let Some(end) = self.page_end
        {
            self.text.truncate(end);
            self.shown = PAGE_LINES;
        } else if self.shown > 0 && self.last_ended && self.last_shown() == self.total_lines {
            self.text.push('\n');
        }
    }

    /// Returns the number of the last line shown (one less than the first when there is none).
    pub(super) fn last_shown(&self) -> u64 {
        self.selection.first + self.shown - 1
    }
}

impl LineSink for ReadPage {
    fn wants_next(&self) -> bool {
        self.total_lines + 1 >= self.selection.first && !self.is_complete()
    }

    fn push_line(&mut self, line: DecodedLine<'_>) {
        let wanted = self.wants_next();
        self.total_lines += 1;
        if !wanted {
            return;
        }
        let shown = displayed(&line, &mut self.is_lossy, &mut self.cut_lines);
        self.spent += self.budget.cost(self.total_lines, &shown);
        // The first line always fits, so that every page makes progress.
        if !self.budget.can_afford(self.spent) && self.shown > 0 {
            self.over_budget = true;
            return;
        }
        if self.shown > 0 {
            self.text.push('\n');
        }
        self.text.push_str(&shown);
        self.shown += 1;
        self.last_ended = line.ended;
        if self.shown == PAGE_LINES {
            self.page_end = Some(self.text.len());
        }
    }
}

/// Returns a line for display: invalid bytes replaced, a long line cut with its full length noted.
fn displayed<'a>(line: &DecodedLine<'a>, is_lossy: &mut bool, cut_lines: &mut u64) -> Cow<'a, str> {
    let bytes = if line.dropped_chars > 0 { whole_chars(line.bytes) } else { line.bytes };
    let text = String::from_utf8_lossy(bytes);
    *is_lossy |= matches!(text, Cow::Owned(_));
    if bytes.len() + line.dropped_chars <= MOST_LINE_CHARS {
        return text;
    }
    let length = count_chars(bytes) + line.dropped_chars;
    if length <= MOST_LINE_CHARS {
        return text;
    }
    *cut_lines += 1;
    let end = text.char_indices().nth(MOST_LINE_CHARS).map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{} [line cut: {MOST_LINE_CHARS} of {length} characters]", &text[..end]))
}

/// Returns the bytes without an incomplete character at the end.
fn whole_chars(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Ok(_) | Err(_) => bytes,
    }
}
