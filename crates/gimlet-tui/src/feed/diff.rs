//! Diffs as styled lines: line numbers, marks and changed words.

use gimlet_proto::DiffHunk;
use similar::{ChangeTag, TextDiff};

use super::row_layout::{ViewDetail, more_lines_row, prefix_line};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{BreakRule, clean_line, wrap_line};

/// Rows of a diff that are shown at first.
const COMPACT_ROWS: usize = 30;
/// Lines longer than this are not compared word by word.
const MAX_WORD_DIFF: usize = 1_000;
/// A line that shares less than this part of its text with its counterpart is shown as a new one.
const MIN_SHARED: f32 = 0.4;

/// Returns the number of lines that hunks add and remove.
pub fn count_changes(hunks: &[DiffHunk]) -> (usize, usize) {
    let lines = || hunks.iter().flat_map(|hunk| &hunk.lines);
    (lines().filter(|line| line.starts_with('+')).count(), lines().filter(|line| line.starts_with('-')).count())
}

/// Kind of a line of a diff.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineChange {
    Context,
    Added,
    Removed,
}

struct DiffLine {
    number: usize,
    change: LineChange,
    text: StyledLine,
}

/// Renders hunks with the numbers of the lines: those of the old file for removed lines, of the new one for others.
pub fn render_diff(hunks: &[DiffHunk], detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let last_number = hunks.iter().map(|hunk| (hunk.old_start + hunk.old_lines).max(hunk.new_start + hunk.new_lines));
    let digits = last_number.max().unwrap_or(0).to_string().len().max(3);
    let limit = if detail == ViewDetail::Compact { COMPACT_ROWS } else { usize::MAX };
    let mut rows = Vec::new();
    let mut left_out = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        if rows.len() >= limit {
            left_out += hunk.lines.len();
            continue;
        }
        if index > 0 {
            rows.push(StyledLine::of(format!("{}{}", " ".repeat(digits), cx.glyphs.ellipsis), TextTone::Dim));
        }
        for line in hunk_lines(hunk) {
            if rows.len() >= limit {
                left_out += 1;
            } else {
                rows.extend(render_line(&line, digits, cx));
            }
        }
    }
    if left_out > 0 {
        rows.push(more_lines_row(left_out, cx));
    }
    rows
}

/// Columns in front of the text: number, sign and their spaces.
fn margin_width(digits: usize) -> usize {
    digits + 3
}

fn render_line(line: &DiffLine, digits: usize, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let (sign, tone) = match line.change {
        LineChange::Context => (" ", TextTone::Dim),
        LineChange::Added => (cx.glyphs.plus, TextTone::Added),
        LineChange::Removed => (cx.glyphs.minus, TextTone::Removed),
    };
    let width = cx.width.saturating_sub(margin_width(digits)).max(1);
    let rows = wrap_line(&line.text, width, BreakRule::Cells);
    let margin = |(index, row): (usize, StyledLine)| {
        if index > 0 {
            return prefix_line(&" ".repeat(margin_width(digits)), TextTone::Text, row);
        }
        let row = prefix_line(&format!("{sign} "), tone, row);
        prefix_line(&format!("{:>digits$} ", line.number), TextTone::Dim, row)
    };
    rows.into_iter().enumerate().map(margin).collect()
}

/// Returns the lines of a hunk. Runs of removed lines are compared with the added ones after them, word by word.
fn hunk_lines(hunk: &DiffHunk) -> Vec<DiffLine> {
    let (mut old, mut new) = (hunk.old_start, hunk.new_start);
    let mut lines = Vec::with_capacity(hunk.lines.len());
    let mut at = 0;
    while let Some(line) = hunk.lines.get(at) {
        if line.starts_with('-') || line.starts_with('+') {
            let rest = hunk.lines.get(at..).unwrap_or_default();
            let removed: Vec<&str> = rest.iter().map_while(|line| line.strip_prefix('-')).collect();
            let after = rest.get(removed.len()..).unwrap_or_default();
            let added: Vec<&str> = after.iter().map_while(|line| line.strip_prefix('+')).collect();
            push_change(&removed, &added, &mut old, &mut new, &mut lines);
            at += removed.len() + added.len();
            continue;
        }
        if !line.starts_with('\\') {
            let text = line.strip_prefix(' ').unwrap_or(line);
            lines.push(DiffLine {
                number: new,
                change: LineChange::Context,
                text: StyledLine::of(clean_line(text), TextTone::Text),
            });
            old += 1;
            new += 1;
        }
        at += 1;
    }
    lines
}

fn push_change(removed: &[&str], added: &[&str], old: &mut usize, new: &mut usize, lines: &mut Vec<DiffLine>) {
    let mut added_lines = Vec::with_capacity(added.len());
    for index in 0..removed.len().max(added.len()) {
        let (gone, come) = (removed.get(index), added.get(index));
        let marked = match (gone, come) {
            (Some(gone), Some(come)) => mark_words(gone, come),
            _ => None,
        };
        let (gone_text, come_text) = match marked {
            Some((gone, come)) => (Some(gone), Some(come)),
            None => (
                gone.map(|text| StyledLine::of(clean_line(text), TextTone::Removed)),
                come.map(|text| StyledLine::of(clean_line(text), TextTone::Added)),
            ),
        };
        if let Some(text) = gone_text {
            lines.push(DiffLine { number: *old, change: LineChange::Removed, text });
            *old += 1;
        }
        if let Some(text) = come_text {
            added_lines.push(text);
        }
    }
    for text in added_lines {
        lines.push(DiffLine { number: *new, change: LineChange::Added, text });
        *new += 1;
    }
}

/// Marks the words that differ; `None` if the lines have too little in common.
fn mark_words(removed: &str, added: &str) -> Option<(StyledLine, StyledLine)> {
    if removed.len() > MAX_WORD_DIFF || added.len() > MAX_WORD_DIFF {
        return None;
    }
    let (removed, added) = (clean_line(removed), clean_line(added));
    let diff = TextDiff::from_unicode_words(removed.as_ref(), added.as_ref());
    if diff.ratio() < MIN_SHARED {
        return None;
    }
    let (mut gone, mut come) = (StyledLine::blank(), StyledLine::blank());
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Equal => {
                gone.push(change.value(), TextTone::Removed);
                come.push(change.value(), TextTone::Added);
            }
            ChangeTag::Delete => gone.push(change.value(), TextTone::RemovedWord),
            ChangeTag::Insert => come.push(change.value(), TextTone::AddedWord),
        }
    }
    Some((gone, come))
}
