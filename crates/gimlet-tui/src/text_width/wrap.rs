//! Breaking of lines: at words for prose, at cells for code and output. Nothing is added, and only the space at which a
//! row ends is left out.

use std::ops::Range;

use unicode_width::UnicodeWidthChar;

use super::TextCells;
use crate::styled_line::{StyledLine, StyledSpan};

/// Where a line may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakRule {
    /// Between words; a word longer than a row goes on in the next.
    Words,
    /// Wherever a row is full, spaces included.
    Cells,
}

/// Returns the rows of a text of one line, as ranges of bytes: the first at most `first` columns wide, the others `rest`.
/// A text without a visible character is one row. A character wider than a row has a row of its own.
pub fn wrap_ranges(text: &str, first: usize, rest: usize, rule: BreakRule) -> Vec<Range<usize>> {
    let (first, rest) = (first.max(1), rest.max(1));
    if text.len() <= first && text.is_ascii() {
        return std::iter::once(0..text.len()).collect();
    }
    let mut rows = RowList { text, first, rest, finished: Vec::new(), start: 0, end: 0, used: 0 };
    match rule {
        BreakRule::Words => rows.push_words(),
        BreakRule::Cells => rows.push_cells(0..text.len()),
    }
    rows.finish()
}

/// Rows of a text; the last one is still open.
struct RowList<'a> {
    text: &'a str,
    first: usize,
    rest: usize,
    finished: Vec<Range<usize>>,
    /// The open row, and its columns.
    start: usize,
    end: usize,
    used: usize,
}

impl RowList<'_> {
    fn limit(&self) -> usize {
        if self.finished.is_empty() { self.first } else { self.rest }
    }

    fn push_words(&mut self) {
        for unit in WordUnits::new(self.text) {
            let is_indentation = unit.word.start > 0 && self.end == 0;
            if self.used + unit.space_width + unit.width <= self.limit() {
                self.end = unit.word.end;
                self.used += unit.space_width + unit.width;
                continue;
            }
            if is_indentation && unit.space_width < self.limit() && unit.width > 0 {
                self.end = unit.word.start;
                self.used = unit.space_width;
            } else if is_indentation {
                // Indentation wider than a row would only push the text away.
                self.start = unit.word.start;
                self.end = unit.word.start;
            } else if self.end > self.start && unit.width > 0 {
                self.begin_row(unit.word.start);
            }
            self.push_cells(unit.word);
        }
    }

    /// Fills rows up to their last column.
    fn push_cells(&mut self, range: Range<usize>) {
        for cell in TextCells::new(self.text.get(range.clone()).unwrap_or_default()) {
            let start = range.start + cell.start;
            if self.used + cell.width > self.limit() && self.end > self.start {
                self.begin_row(start);
            }
            self.end = start + cell.text.len();
            self.used += cell.width;
        }
    }

    fn begin_row(&mut self, at: usize) {
        self.finished.push(self.start..self.end);
        self.start = at;
        self.end = at;
        self.used = 0;
    }

    fn finish(mut self) -> Vec<Range<usize>> {
        if self.finished.is_empty() || self.end > self.start {
            self.finished.push(self.start..self.end);
        }
        self.finished
    }
}

/// Text that stays in one row where it fits, with the space before it.
struct WordUnit {
    space_width: usize,
    word: Range<usize>,
    width: usize,
}

struct WordUnits<'a> {
    cells: std::iter::Peekable<TextCells<'a>>,
}

impl<'a> WordUnits<'a> {
    fn new(text: &'a str) -> Self {
        Self { cells: TextCells::new(text).peekable() }
    }
}

impl Iterator for WordUnits<'_> {
    type Item = WordUnit;

    fn next(&mut self) -> Option<WordUnit> {
        let mut space_width = 0;
        let mut start = self.cells.peek()?.start;
        while let Some(space) = self.cells.next_if(|cell| cell.text == " ") {
            space_width += 1;
            start = space.start + 1;
        }
        let mut unit = WordUnit { space_width, word: start..start, width: 0 };
        let mut previous: Option<char> = None;
        while let Some(cell) = self.cells.peek() {
            let Some(first) = cell.text.chars().next() else { break };
            if cell.text == " " || previous.is_some_and(|previous| may_break_between(previous, first)) {
                break;
            }
            unit.width += cell.width;
            unit.word.end = cell.start + cell.text.len();
            previous = cell.text.chars().next_back();
            self.cells.next();
        }
        Some(unit)
    }
}

/// Returns true between characters of scripts that are written without spaces, unless a closing mark would begin a row.
fn may_break_between(previous: char, next: char) -> bool {
    let is_wide = |char: char| char.width() == Some(2);
    if !is_wide(previous) && !is_wide(next) {
        return false;
    }
    let opens =
        matches!(previous, '（' | '「' | '『' | '【' | '《' | '〈' | '［' | '｛' | '(' | '[' | '{' | '“' | '‘' | ' ');
    let closes = matches!(
        next,
        '）' | '」'
            | '』'
            | '】'
            | '》'
            | '〉'
            | '］'
            | '｝'
            | '、'
            | '。'
            | '，'
            | '．'
            | '！'
            | '？'
            | '：'
            | '；'
            | '・'
            | 'ー'
            | ')'
            | ']'
            | '}'
            | ','
            | '.'
            | '!'
            | '?'
            | ':'
            | ';'
            | '”'
            | '’'
    );
    !opens && !closes
}

/// Breaks a line into rows of at most `width` columns. Rows after the first are indented by the line's `hang`, as far as
/// this leaves half of the width.
pub fn wrap_line(line: &StyledLine, width: usize, rule: BreakRule) -> Vec<StyledLine> {
    let text = line.text();
    let hang = line.hang.min(width / 2);
    let ranges = wrap_ranges(&text, width, width - hang, rule);
    if ranges.len() <= 1 {
        return vec![StyledLine { spans: line.spans.clone(), hang: 0 }];
    }
    let mut spans = SpanSlicer { spans: &line.spans, start: 0 };
    let mut rows = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut row = StyledLine::blank();
        if !rows.is_empty() && hang > 0 {
            row.push(" ".repeat(hang), line.spans.first().map(|span| span.style.tone).unwrap_or_default());
        }
        spans.push_range(&range, &mut row);
        rows.push(row);
    }
    rows
}

/// Copies rising ranges of a line, so that a long line of many spans is read once.
struct SpanSlicer<'a> {
    spans: &'a [StyledSpan],
    /// Index of the first byte of `spans` in the whole line.
    start: usize,
}

impl SpanSlicer<'_> {
    fn push_range(&mut self, range: &Range<usize>, row: &mut StyledLine) {
        while let Some((span, rest)) = self.spans.split_first() {
            let end = self.start + span.text.len();
            let from = range.start.clamp(self.start, end) - self.start;
            let to = range.end.clamp(self.start, end) - self.start;
            if from < to {
                row.push(span.text.get(from..to).unwrap_or_default(), span.style);
            }
            if end > range.end {
                return;
            }
            self.start = end;
            self.spans = rest;
        }
    }
}
