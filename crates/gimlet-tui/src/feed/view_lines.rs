//! The views of tool calls as styled lines, one function per shape.

use gimlet_proto::{TodoItem, TodoStatus, View};

use super::diff::{count_changes, render_diff};
use super::row_layout::{ViewDetail, group_digits, more_lines_row, text_rows};
use crate::glyphs::{GlyphSet, RenderContext};
use crate::markdown::render_table;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, truncate_start};

/// Lines of output that are shown at first: of the beginning and of the end.
const HEAD_LINES: usize = 2;
const TAIL_LINES: usize = 3;
/// Lines of a text, and rows of a table, that are shown at first.
const COMPACT_TEXT: usize = 4;
const COMPACT_TABLE: usize = 6;
/// Longest line of which more than the beginning is shown at first.
const MAX_COMPACT_LINE: usize = 1_000;

/// Renders a view. Rows are at most `cx.width` wide; none at all if its summary says everything.
pub fn render_view(view: &View, detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    match view {
        View::Text(text) => render_output(text, TextTone::Dim.into(), detail, (COMPACT_TEXT, 0), cx),
        View::Diff { path, hunks } => render_diff(path, hunks, detail, cx),
        View::Terminal { output, .. } => {
            render_output(output, TextTone::Text.into(), detail, (HEAD_LINES, TAIL_LINES), cx)
        }
        View::Files { paths, note } => render_files(paths, note.as_deref(), detail, cx),
        View::Todos(items) => render_todos(items, cx),
        View::Table { head, rows } => render_rows(head, rows, detail, cx),
    }
}

/// Returns what a view says in a few words, for the right side of the call's row.
pub fn summarize_view(view: &View, glyphs: &GlyphSet) -> Option<StyledLine> {
    match view {
        View::Text(text) => {
            let count = text.trim().lines().count();
            (count > COMPACT_TEXT).then(|| StyledLine::of(format!("{} lines", group_digits(count)), TextTone::Dim))
        }
        View::Diff { hunks, .. } => {
            let (added, removed) = count_changes(hunks);
            let mut line = StyledLine::blank();
            if added > 0 || removed == 0 {
                line.push(format!("{}{}", glyphs.plus, group_digits(added)), TextTone::Added);
            }
            if removed > 0 {
                line.push(if added > 0 { " " } else { "" }, TextTone::Text);
                line.push(format!("{}{}", glyphs.minus, group_digits(removed)), TextTone::Removed);
            }
            Some(line)
        }
        View::Terminal { exit_code, .. } => match exit_code {
            Some(0) | None => None,
            Some(code) => Some(StyledLine::of(format!("exit {code}"), TextTone::Error)),
        },
        View::Files { paths, note } => {
            let text = match (note, paths.len()) {
                (Some(note), 0 | 1) => clean_line(note).into_owned(),
                (None, 1) => return None,
                (_, 0) => "no files".to_owned(),
                (_, count) => format!("{} files", group_digits(count)),
            };
            Some(StyledLine::of(text, TextTone::Dim))
        }
        // The call's own line counts them.
        View::Todos(_) => None,
        View::Table { rows, .. } => {
            (rows.len() > COMPACT_TABLE).then(|| StyledLine::of(format!("{} rows", rows.len()), TextTone::Dim))
        }
    }
}

/// Renders lines of output: in compact form `head` lines of the beginning and `tail` of the end.
fn render_output(
    text: &str,
    style: TextStyle,
    detail: ViewDetail,
    (head, tail): (usize, usize),
    cx: &RenderContext<'_>,
) -> Vec<StyledLine> {
    let text = text.trim_end().trim_start_matches(['\n', '\r']);
    if text.is_empty() {
        return Vec::new();
    }
    let rows = |text: &str| text_rows(text, style, cx.width, BreakRule::Cells);
    if detail == ViewDetail::Whole {
        return rows(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    // One line more than fits is shown instead of being counted.
    if lines.len() <= head + tail + 1 && text.len() <= MAX_COMPACT_LINE {
        return rows(text);
    }
    let shown = |line: &&str| -> Vec<StyledLine> {
        let cut = line.get(..line.floor_char_boundary(MAX_COMPACT_LINE)).unwrap_or_default();
        let first = rows(cut).into_iter().next().unwrap_or_default();
        let is_cut = line.trim_end().len() > first.text().len();
        vec![if is_cut { with_ellipsis(&first, cx) } else { first }]
    };
    let head = head.min(lines.len());
    let tail = tail.min(lines.len() - head);
    let left_out = lines.len() - head - tail;
    let mut out: Vec<StyledLine> = lines.iter().take(head).flat_map(shown).collect();
    if left_out > 0 {
        out.push(more_lines_row(left_out, cx));
    }
    out.extend(lines.iter().skip(head + left_out).flat_map(shown));
    out
}

/// Replaces the last column of a row by the mark for text that is left out.
fn with_ellipsis(row: &StyledLine, cx: &RenderContext<'_>) -> StyledLine {
    let mut cut = crate::text_width::truncate_line(row, cx.width.saturating_sub(1));
    if crate::text_width::line_width(&cut) == crate::text_width::line_width(row) {
        cut.push(cx.glyphs.ellipsis, TextTone::Dim);
    }
    cut
}

fn render_files(paths: &[String], note: Option<&str>, detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let shown = match (detail, paths.len()) {
        // The call's own row names it.
        (ViewDetail::Compact, 0 | 1) => return Vec::new(),
        (ViewDetail::Compact, count) if count > COMPACT_TEXT => COMPACT_TEXT - 1,
        (_, count) => count,
    };
    let row = |path: &String| StyledLine::of(truncate_start(&clean_line(path), cx.width), TextTone::Dim);
    let mut rows: Vec<StyledLine> = paths.iter().take(shown).map(row).collect();
    if let Some(note) = note {
        rows.extend(text_rows(note, TextTone::Dim, cx.width, BreakRule::Words));
    }
    if shown < paths.len() {
        let text = format!("{} more files {} ctrl+o", group_digits(paths.len() - shown), cx.glyphs.separator);
        rows.push(StyledLine::of(text, TextTone::Dim));
    }
    rows
}

/// Renders a to-do list, one row per item.
pub fn render_todos(items: &[TodoItem], cx: &RenderContext<'_>) -> Vec<StyledLine> {
    items.iter().flat_map(|item| render_todo(item, cx)).collect()
}

fn render_todo(item: &TodoItem, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let (mark, style) = match item.status {
        TodoStatus::Pending => (cx.glyphs.todo_pending, TextStyle::default()),
        TodoStatus::InProgress => (cx.glyphs.todo_active, TextStyle::of(TextTone::Accent)),
        TodoStatus::Completed => (cx.glyphs.todo_done, TextStyle::of(TextTone::Dim)),
    };
    let hang = crate::text_width::display_width(mark) + 1;
    let line = StyledLine::of(format!("{mark} "), style).with(clean_line(&item.text), style).hanging(hang);
    crate::text_width::wrap_line(&line, cx.width, BreakRule::Words)
}

fn render_rows(head: &[String], rows: &[Vec<String>], detail: ViewDetail, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let shown =
        if detail == ViewDetail::Compact && rows.len() > COMPACT_TABLE { COMPACT_TABLE - 1 } else { rows.len() };
    let cell = |text: &String| {
        let cut = text.get(..text.floor_char_boundary(MAX_COMPACT_LINE)).unwrap_or_default();
        StyledLine::plain(clean_line(if detail == ViewDetail::Compact { cut } else { text }))
    };
    let row = |row: &Vec<String>| row.iter().map(cell).collect::<Vec<_>>();
    let cells: Vec<Vec<StyledLine>> = rows.iter().take(shown).map(row).collect();
    let mut out = render_table(&row(&head.to_vec()), &cells, cx);
    if shown < rows.len() {
        let text = format!("{} more rows {} ctrl+o", group_digits(rows.len() - shown), cx.glyphs.separator);
        out.push(StyledLine::of(text, TextTone::Dim));
    }
    out
}
