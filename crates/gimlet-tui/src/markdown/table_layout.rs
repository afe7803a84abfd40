//! Tables whose columns fit the width: as wide as their content where there is room, else narrowed, the widest first.
//! Where columns would become too narrow to read, each row becomes a list of its cells.

use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{BreakRule, display_width, line_width, wrap_line};

/// Columns narrower than this (or their content) are not worth reading.
const MIN_COLUMN: usize = 8;

/// Side of its column on which a cell stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellAlignment {
    #[default]
    Left,
    Center,
    Right,
}

/// Widths of a table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableLayout {
    Columns(Vec<usize>),
    /// One cell below the other.
    Stacked,
}

/// Renders a table with its head.
pub fn render_table(head: &[StyledLine], rows: &[Vec<StyledLine>], cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let layout = TableLayout::fit(head, rows, cx);
    let mut out = layout.render_head(head, &[], cx);
    for (index, row) in rows.iter().enumerate() {
        out.extend(layout.render_row(head, row, &[], index == 0, cx));
    }
    out
}

impl TableLayout {
    /// Returns the layout for these rows.
    pub(crate) fn fit(head: &[StyledLine], rows: &[Vec<StyledLine>], cx: &RenderContext<'_>) -> Self {
        let count = head.len();
        let mut widths: Vec<usize> = head.iter().map(|cell| line_width(cell).max(1)).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(line_width(cell));
            }
        }
        let gaps = gap_width(cx) * count.saturating_sub(1);
        let Some(room) = cx.width.checked_sub(gaps) else { return TableLayout::Stacked };
        let least: usize = widths.iter().map(|width| (*width).min(MIN_COLUMN)).sum();
        if least > room {
            return TableLayout::Stacked;
        }
        narrow_columns(&mut widths, room);
        TableLayout::Columns(widths)
    }

    /// Renders the head and the rule below it.
    pub(crate) fn render_head(
        &self,
        head: &[StyledLine],
        alignments: &[CellAlignment],
        cx: &RenderContext<'_>,
    ) -> Vec<StyledLine> {
        let TableLayout::Columns(widths) = self else { return Vec::new() };
        let bold: Vec<StyledLine> = head.iter().map(make_bold).collect();
        let mut rows = render_cells(&bold, widths, alignments, cx);
        let rules: Vec<String> = widths.iter().map(|width| cx.glyphs.table_rule.repeat(*width)).collect();
        let cross = format!("{rule}{}{rule}", cx.glyphs.table_cross, rule = cx.glyphs.table_rule);
        rows.push(StyledLine::of(rules.join(&cross), TextTone::Dim));
        rows
    }

    /// Renders one row of the body.
    pub(crate) fn render_row(
        &self,
        head: &[StyledLine],
        row: &[StyledLine],
        alignments: &[CellAlignment],
        is_first: bool,
        cx: &RenderContext<'_>,
    ) -> Vec<StyledLine> {
        match self {
            TableLayout::Columns(widths) => render_cells(row, widths, alignments, cx),
            TableLayout::Stacked => {
                let mut rows = if is_first { Vec::new() } else { vec![short_rule(cx)] };
                for (index, cell) in row.iter().enumerate() {
                    rows.extend(render_stacked_cell(head.get(index), cell, cx));
                }
                rows
            }
        }
    }
}

/// Columns between two columns of a table.
fn gap_width(cx: &RenderContext<'_>) -> usize {
    2 + display_width(cx.glyphs.table_bar)
}

/// Takes columns from the widest until all fit.
fn narrow_columns(widths: &mut [usize], room: usize) {
    let mut total: usize = widths.iter().sum();
    while total > room {
        let widest = widths.iter().copied().max().unwrap_or(0);
        let count = widths.iter().filter(|width| **width == widest).count();
        let next = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or(0);
        // Down to the next wider ones at once, or as far as needed.
        let excess = total - room;
        let step = (widest - next).min(excess.div_ceil(count)).max(1);
        for width in widths.iter_mut() {
            if *width == widest && total > room {
                let taken = step.min(total - room).min(*width - 1);
                *width -= taken;
                total -= taken;
            }
        }
        if widest <= 1 {
            return;
        }
    }
}

fn make_bold(cell: &StyledLine) -> StyledLine {
    let mut bold = cell.clone();
    for span in &mut bold.spans {
        span.style.bold = true;
    }
    bold
}

fn render_cells(
    cells: &[StyledLine],
    widths: &[usize],
    alignments: &[CellAlignment],
    cx: &RenderContext<'_>,
) -> Vec<StyledLine> {
    let blank = StyledLine::blank();
    let columns: Vec<Vec<StyledLine>> = widths
        .iter()
        .enumerate()
        .map(|(index, width)| wrap_line(cells.get(index).unwrap_or(&blank), *width, BreakRule::Words))
        .collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    let mut rows = Vec::with_capacity(height);
    for at in 0..height {
        let mut row = StyledLine::blank();
        for (index, (column, width)) in columns.iter().zip(widths).enumerate() {
            if index > 0 {
                row.push(format!(" {} ", cx.glyphs.table_bar), TextTone::Dim);
            }
            let cell = column.get(at).unwrap_or(&blank);
            let is_last = index + 1 == widths.len();
            push_aligned(&mut row, cell, *width, alignments.get(index).copied().unwrap_or_default(), is_last);
        }
        rows.push(row);
    }
    rows
}

/// Appends a cell with the spaces that its column needs; nothing follows the last column.
fn push_aligned(row: &mut StyledLine, cell: &StyledLine, width: usize, alignment: CellAlignment, is_last: bool) {
    let space = width.saturating_sub(line_width(cell));
    let before = match alignment {
        CellAlignment::Left => 0,
        CellAlignment::Center => space / 2,
        CellAlignment::Right => space,
    };
    row.push(" ".repeat(before), TextTone::Text);
    for span in &cell.spans {
        row.push(&span.text, span.style);
    }
    if !is_last {
        row.push(" ".repeat(space - before), TextTone::Text);
    }
}

fn short_rule(cx: &RenderContext<'_>) -> StyledLine {
    StyledLine::of(cx.glyphs.table_rule.repeat(cx.width.min(3)), TextTone::Dim)
}

fn render_stacked_cell(head: Option<&StyledLine>, cell: &StyledLine, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let mut line = match head {
        Some(head) => make_bold(head).with(": ", TextTone::Dim),
        None => StyledLine::blank(),
    };
    for span in &cell.spans {
        line.push(&span.text, span.style);
    }
    wrap_line(&line.hanging(2), cx.width, BreakRule::Words)
}
