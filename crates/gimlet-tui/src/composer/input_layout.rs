//! The rows in which a draft stands on the screen, and where its cursor is in them.

use std::borrow::Cow;
use std::ops::Range;

use crate::text_width::{TextCells, clean_line, display_width, prefix_of_width};

use super::edit_buffer::{EditBuffer, text_units};

/// A visible part of the text in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LayoutCell {
    /// Bytes of the text that it shows.
    start: usize,
    end: usize,
    /// Start of the unit that it belongs to; the cells of a long placeholder have the same.
    unit: usize,
    column: usize,
    width: usize,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayoutRow {
    cells: Vec<LayoutCell>,
    /// Bytes of the text in it.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// True if a line of the text ends here, false if it goes on in the next row.
    ends_line: bool,
}

/// All rows of a text.
#[derive(Clone, Debug)]
pub(crate) struct InputLayout {
    pub(crate) rows: Vec<LayoutRow>,
    width: usize,
}

impl LayoutRow {
    /// Returns the number of columns that are taken.
    fn used(&self) -> usize {
        self.cells.last().map_or(0, |last| last.column + last.width)
    }

    /// Leaves the cells from an index on in this row, which begins with them; returns the row of those before.
    fn split_off(&mut self, at: usize) -> LayoutRow {
        let mut kept = self.cells.split_off(at);
        let start = kept.first().map_or(self.end, |first| first.start);
        let shift = kept.first().map_or(0, |first| first.column);
        kept.iter_mut().for_each(|cell| cell.column -= shift);
        let next = LayoutRow { cells: kept, start, end: self.end, ends_line: false };
        let mut finished = std::mem::replace(self, next);
        finished.end = start;
        finished
    }
}

/// Position on the screen, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScreenPosition {
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl InputLayout {
    /// Breaks a text into rows of at most `width` columns, between words where possible. A space that does not fit stays
    /// invisible at the end of its row.
    pub(crate) fn new(buffer: &EditBuffer, width: usize) -> Self {
        let mut layout = Self { rows: Vec::new(), width: width.max(1) };
        let mut start = 0;
        for line in buffer.text().split('\n') {
            layout.push_line(buffer, line, start);
            start += line.len() + 1;
        }
        layout
    }

    fn push_line(&mut self, buffer: &EditBuffer, line: &str, line_start: usize) {
        let width = self.width;
        let mut row = LayoutRow { cells: Vec::new(), start: line_start, end: line_start, ends_line: false };
        // Number of cells of the open row after which it may be broken.
        let mut break_after = 0;
        for mut cell in line_cells(line, line_start, buffer.atoms(), width) {
            let text = cell_text(buffer.text(), &cell);
            if text == " " && row.used() >= width {
                // The cursor can stand on it, at the last column.
                (cell.column, cell.width) = (width, 0);
            } else {
                if row.used() + cell.width > width && break_after > 0 {
                    self.rows.push(row.split_off(break_after));
                    break_after = 0;
                }
                if row.used() + cell.width > width && !row.cells.is_empty() {
                    self.rows.push(row.split_off(row.cells.len()));
                    (row.start, break_after) = (cell.start, 0);
                }
                cell.column = row.used();
            }
            row.cells.push(cell);
            row.end = cell.end;
            if text == " " || text == "-" || cell.width == 2 {
                break_after = row.cells.len();
            }
        }
        row.ends_line = true;
        self.rows.push(row);
    }

    /// Returns where a border of the text is on the screen.
    pub(crate) fn position(&self, at: usize) -> ScreenPosition {
        let after = self.rows.partition_point(|row| row.start <= at);
        let index = after.saturating_sub(1);
        let Some(row) = self.rows.get(index) else { return ScreenPosition { row: 0, column: 0 } };
        let cell = row.cells.iter().find(|cell| cell.unit >= at);
        ScreenPosition { row: index, column: cell.map_or(row.used(), |cell| cell.column) }
    }

    /// Returns the border of the text in a row that is nearest to a column from the left.
    pub(crate) fn border_at(&self, row: usize, column: usize) -> usize {
        let Some(row) = self.rows.get(row) else { return self.rows.last().map_or(0, |row| row.end) };
        let found = row.cells.iter().rev().find(|cell| cell.column <= column);
        match found {
            _ if row.ends_line && column >= row.used() => row.end,
            Some(cell) => cell.unit.max(row.start),
            None => row.start,
        }
    }

    /// Returns the texts of a row with the bytes that each shows, from left to right.
    pub(crate) fn row_texts<'a>(
        &'a self,
        row: &'a LayoutRow,
        text: &'a str,
    ) -> impl Iterator<Item = (Range<usize>, Cow<'a, str>)> {
        row.cells.iter().filter(|cell| cell.width > 0 || cell.column < self.width).map(|cell| {
            let shown = shown_text(cell_text(text, cell));
            let is_too_wide = display_width(&shown) > self.width;
            let shown = if is_too_wide { Cow::Owned(prefix_of_width(&shown, self.width).to_owned()) } else { shown };
            (cell.start..cell.end, shown)
        })
    }
}

fn cell_text<'a>(text: &'a str, cell: &LayoutCell) -> &'a str {
    text.get(cell.start..cell.end).unwrap_or_default()
}

/// Returns a unit as it may be shown.
fn shown_text(unit: &str) -> Cow<'_, str> {
    clean_line(unit)
}

/// Returns the cells of a line without their columns. A placeholder is divided, so that it can go on in the next row.
fn line_cells<'a>(
    line: &'a str,
    line_start: usize,
    atoms: &'a [String],
    width: usize,
) -> impl Iterator<Item = LayoutCell> + 'a {
    text_units(line, atoms).flat_map(move |unit| {
        let text = line.get(unit.clone()).unwrap_or_default();
        let (start, end) = (line_start + unit.start, line_start + unit.end);
        let is_atom = !atoms.is_empty() && atoms.iter().any(|atom| atom == text);
        let cells: Vec<LayoutCell> = if is_atom {
            TextCells::new(text)
                .map(|cell| LayoutCell {
                    start: start + cell.start,
                    end: start + cell.start + cell.text.len(),
                    unit: start,
                    column: 0,
                    width: cell.width,
                })
                .collect()
        } else {
            let shown_width = display_width(&shown_text(text)).min(width);
            vec![LayoutCell { start, end, unit: start, column: 0, width: shown_width }]
        };
        cells
    })
}
