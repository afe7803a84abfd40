//! Building of rows: two columns, gutters, indentation, and figures as users read them.

use crate::glyphs::{GlyphSet, RenderContext};
use crate::styled_line::{StyledLine, StyledSpan, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_text, display_width, line_width, truncate_line, wrap_line};

/// Screens narrower than this have no right-hand column.
pub(super) const NARROW: usize = 60;
/// Columns that the left side of a row keeps, whatever stands on the right.
const MIN_LEFT: usize = 24;

/// Extent in which content is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewDetail {
    /// A few rows; the rest is counted.
    Compact,
    /// Everything.
    Whole,
}

/// Returns a row with `right` at its right edge, if the screen has room for it; a left side that is too long is cut.
pub fn split_row(left: StyledLine, right: &StyledLine, cx: &RenderContext<'_>) -> StyledLine {
    let right_width = line_width(right);
    if right_width == 0 || cx.width < NARROW || right_width + MIN_LEFT > cx.width {
        return truncate_line(&left, cx.width);
    }
    let mut row = truncate_line(&left, cx.width - right_width - 2);
    let gap = cx.width - right_width - line_width(&row);
    row.push(" ".repeat(gap), TextTone::Text);
    for span in &right.spans {
        row.push(&span.text, span.style);
    }
    row
}

/// Cuts rows that a very narrow screen does not hold.
pub(super) fn fit_rows(rows: Vec<StyledLine>, width: usize) -> Vec<StyledLine> {
    let fit = |row: StyledLine| if line_width(&row) <= width { row } else { truncate_line(&row, width) };
    rows.into_iter().map(fit).collect()
}

/// Puts the same text in front of each line.
pub fn indent_lines(lines: Vec<StyledLine>, columns: usize) -> Vec<StyledLine> {
    let indent = " ".repeat(columns);
    lines
        .into_iter()
        .map(|line| if line.spans.is_empty() { line } else { prefix_line(&indent, TextTone::Text, line) })
        .collect()
}

/// Puts a text in front of a line.
pub fn prefix_line(text: &str, style: impl Into<TextStyle>, line: StyledLine) -> StyledLine {
    let mut prefixed = StyledLine::of(text, style);
    for StyledSpan { text, style } in &line.spans {
        prefixed.push(text, *style);
    }
    prefixed
}

/// Sets lines off as output of a call: a bar in front of each, another in front of the last.
pub fn gutter_lines(lines: Vec<StyledLine>, glyphs: &GlyphSet) -> Vec<StyledLine> {
    let last = lines.len().saturating_sub(1);
    let with_gutter = |(index, line): (usize, StyledLine)| {
        let mark = if index == last { glyphs.gutter_end } else { glyphs.gutter };
        prefix_line(&format!("  {mark} "), TextTone::Dim, line)
    };
    lines.into_iter().enumerate().map(with_gutter).collect()
}

/// Columns that [`gutter_lines`] adds.
pub(super) const GUTTER_WIDTH: usize = 4;

/// Returns text from outside in rows of this width, one style for all.
pub fn text_rows(text: &str, style: impl Into<TextStyle>, width: usize, rule: BreakRule) -> Vec<StyledLine> {
    let style = style.into();
    let text = clean_text(text);
    let rows =
        text.trim_end().split('\n').flat_map(|line| wrap_line(&StyledLine::of(line.trim_end(), style), width, rule));
    rows.collect()
}

/// Returns the first line of a text from outside, with a mark if it has more.
pub fn first_line(text: &str, glyphs: &GlyphSet) -> String {
    let text = clean_text(text.trim());
    match text.split_once('\n') {
        Some((first, _)) => format!("{} {}", first.trim_end(), glyphs.ellipsis),
        None => text.into_owned(),
    }
}

/// Returns the row that stands for lines that are not shown.
pub(super) fn more_lines_row(count: usize, cx: &RenderContext<'_>) -> StyledLine {
    let noun = if count == 1 { "line" } else { "lines" };
    StyledLine::of(format!("{} more {noun} {} ctrl+o", group_digits(count), cx.glyphs.separator), TextTone::Dim)
}

/// Returns a number with its thousands set apart.
pub fn group_digits(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a duration as users read it: `2.3 s`, `14 s`, `2 min`, `1 h 5 min`.
pub fn format_elapsed(elapsed_ms: u64) -> String {
    let seconds = elapsed_ms / 1000;
    match seconds {
        0..10 => format!("{seconds}.{} s", elapsed_ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns the time that something has run so far, in whole seconds so that it does not flicker.
pub fn format_running(elapsed_ms: u64) -> String {
    match elapsed_ms / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        _ => format_elapsed(elapsed_ms),
    }
}

/// Returns a number of tokens as users read it: `812`, `1.1k`, `23k`, `1.5M`.
pub fn format_tokens(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..10_000 => format!("{}.{}k", tokens / 1_000, tokens % 1_000 / 100),
        10_000..1_000_000 => format!("{}k", tokens / 1_000),
        _ => format!("{}.{}M", tokens / 1_000_000, tokens % 1_000_000 / 100_000),
    }
}

/// Joins facts by the separator of the screen.
pub fn join_facts(facts: &[String], glyphs: &GlyphSet) -> String {
    facts.join(&format!(" {} ", glyphs.separator))
}

/// Pads a text to a width.
pub fn pad_end(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(display_width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let elapsed = [0, 950, 2_340, 14_999, 60_000, 65_000, 3_900_000].map(format_elapsed);
        assert_eq!(elapsed, ["0.0 s", "0.9 s", "2.3 s", "14 s", "1 min", "1 min 5 s", "1 h 5 min"]);
        assert_eq!([0, 2_340, 61_000].map(format_running), ["0 s", "2 s", "1 min 1 s"]);
        assert_eq!([5, 1_149, 23_400, 1_540_000].map(format_tokens), ["5", "1.1k", "23k", "1.5M"]);
        assert_eq!([7, 999, 1_000, 1_234_567].map(group_digits), ["7", "999", "1,000", "1,234,567"]);
    }
}
