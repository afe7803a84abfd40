//! The screen in inline mode: finished lines go once into the terminal's own scrollback, and below them stands a live
//! region that is redrawn where it changed.
//!
//! Positions are relative to the live region's first row, because nobody knows where on the screen that is. New rows
//! come by line feeds, which scroll at the lower edge; no scroll region is set and nothing that was finished is erased.

use super::{AnsiWriter, CursorPlace, ResizeBehavior, RowCharset, ScreenRow, ScreenSize};
use crate::styled_line::StyledLine;
use crate::text_width::{BreakRule, line_width, wrap_line};
use crate::theme::ColorTheme;

const BEGIN_UPDATE: &str = "\x1b[?2026h";
const END_UPDATE: &str = "\x1b[?2026l";
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// What is on the screen below the finished lines.
#[derive(Debug)]
pub struct InlineScreen {
    size: ScreenSize,
    theme: ColorTheme,
    charset: RowCharset,
    resize_behavior: ResizeBehavior,
    /// The live region as the terminal shows it.
    rows: Vec<ScreenRow>,
    /// Where the terminal's cursor is, within the region.
    cursor: CursorPlace,
    is_cursor_shown: bool,
    /// Number of rows above the cursor at which everything has to be drawn again.
    stale_above: Option<usize>,
    out: AnsiWriter,
}

impl InlineScreen {
    /// Creates the screen; the cursor is at the start of an empty row.
    pub fn new(size: ScreenSize, theme: ColorTheme, charset: RowCharset, resize_behavior: ResizeBehavior) -> Self {
        Self {
            size,
            theme,
            charset,
            resize_behavior,
            rows: Vec::new(),
            cursor: CursorPlace { row: 0, column: 0 },
            is_cursor_shown: true,
            stale_above: None,
            out: AnsiWriter::new(),
        }
    }

    pub fn size(&self) -> ScreenSize {
        self.size
    }

    pub fn set_theme(&mut self, theme: ColorTheme) {
        self.theme = theme;
        self.request_redraw();
    }

    /// Takes up a new size of the terminal. What the terminal did to the live region is estimated; the next drawing
    /// begins above it.
    pub fn resize(&mut self, size: ScreenSize) {
        if size == self.size {
            return;
        }
        let rows_of = |width: usize| match self.resize_behavior {
            ResizeBehavior::Reflows => width.div_ceil(size.columns).max(1),
            ResizeBehavior::Cuts => 1,
        };
        let above: usize = self.rows.iter().take(self.cursor.row).map(|row| rows_of(row.width())).sum();
        let within = match self.resize_behavior {
            ResizeBehavior::Reflows => self.cursor.column / size.columns,
            ResizeBehavior::Cuts => 0,
        };
        self.stale_above = Some((above + within).min(size.rows - 1));
        self.size = size;
    }

    /// Draws the live region anew the next time, wherever the cursor stands now.
    pub fn request_redraw(&mut self) {
        if self.stale_above.is_none() {
            self.stale_above = Some(self.cursor.row);
        }
    }

    /// Prints finished lines above the live region and changes the region to `live`. Returns the bytes for the
    /// terminal; none if nothing changed. A region higher than the screen loses its first rows.
    pub fn draw(&mut self, finished: &[StyledLine], live: &[StyledLine], cursor: Option<CursorPlace>) -> Vec<u8> {
        let hidden = live.len().saturating_sub(self.size.rows);
        let new_rows: Vec<ScreenRow> = live.iter().skip(hidden).map(|line| self.render(line)).collect();
        let cursor = cursor.and_then(|place| Some(CursorPlace { row: place.row.checked_sub(hidden)?, ..place }));
        let must_move_text = !finished.is_empty() || self.stale_above.is_some() || new_rows.len() != self.rows.len();
        if must_move_text {
            self.hide_cursor();
        }
        if let Some(above) = self.stale_above.take() {
            self.out.reset_paint();
            self.out.raw("\r");
            self.out.count(above, 'A');
            self.out.raw("\x1b[J");
            self.rows.clear();
            self.cursor = CursorPlace { row: 0, column: 0 };
        }
        if !finished.is_empty() {
            self.print_finished(finished);
        }
        self.change_rows(new_rows);
        self.place_cursor(cursor);
        self.take_update()
    }

    /// Removes the live region and leaves the cursor where it began.
    pub fn erase_live(&mut self) -> Vec<u8> {
        self.draw(&[], &[], Some(CursorPlace { row: 0, column: 0 }))
    }

    /// Moves everything on the screen up into the scrollback and begins on an empty screen.
    pub fn scroll_away(&mut self) -> Vec<u8> {
        self.hide_cursor();
        self.change_rows(Vec::new());
        self.move_to(0);
        self.out.line_feeds(self.size.rows);
        self.out.raw("\x1b[H");
        self.rows.clear();
        self.cursor = CursorPlace { row: 0, column: 0 };
        self.take_update()
    }

    fn render(&self, line: &StyledLine) -> ScreenRow {
        ScreenRow::render(line, &self.theme, self.charset, self.size.columns)
    }

    fn take_update(&mut self) -> Vec<u8> {
        self.out.reset_paint();
        if self.out.is_empty() {
            return Vec::new();
        }
        let changes = self.out.take();
        [BEGIN_UPDATE.as_bytes(), &changes, END_UPDATE.as_bytes()].concat()
    }

    fn hide_cursor(&mut self) {
        if self.is_cursor_shown {
            self.out.raw(HIDE_CURSOR);
            self.is_cursor_shown = false;
        }
    }

    fn place_cursor(&mut self, cursor: Option<CursorPlace>) {
        let Some(place) = cursor else {
            return self.hide_cursor();
        };
        let place = CursorPlace {
            row: place.row.min(self.rows.len().saturating_sub(1)),
            column: place.column.min(self.size.columns - 1),
        };
        if place != self.cursor || !self.out.is_empty() {
            self.move_to(place.row);
            self.out.column(place.column);
            self.cursor = place;
        }
        if !self.is_cursor_shown {
            self.out.raw(SHOW_CURSOR);
            self.is_cursor_shown = true;
        }
    }

    /// Moves the cursor to a row of the region, which is made if it does not exist yet.
    fn move_to(&mut self, row: usize) {
        if row < self.cursor.row {
            self.out.count(self.cursor.row - row, 'A');
        } else {
            self.out.line_feeds(row - self.cursor.row);
        }
        self.cursor.row = row;
    }

    fn print_finished(&mut self, lines: &[StyledLine]) {
        let rows: Vec<ScreenRow> = lines
            .iter()
            .flat_map(|line| {
                let is_fitting = line_width(line) <= self.size.columns;
                if is_fitting { vec![line.clone()] } else { wrap_line(line, self.size.columns, BreakRule::Cells) }
            })
            .map(|line| self.render(&line))
            .collect();
        self.out.reset_paint();
        let height = self.rows.len();
        if height > 0 && rows.len() + height <= self.size.rows {
            self.insert_rows(&rows);
        } else {
            self.overwrite_with(&rows);
        }
    }

    /// Makes room between the finished lines and the region, which stays as it is. The rows that this takes come from
    /// below, so that nothing is lost at the lower edge.
    fn insert_rows(&mut self, rows: &[ScreenRow]) {
        let last = self.rows.len() - 1;
        self.move_to(last + rows.len());
        self.out.raw("\r");
        self.move_to(0);
        self.out.count(rows.len(), 'L');
        self.write_rows(rows);
    }

    /// Writes rows over the region, whose first rows are gone afterwards.
    fn overwrite_with(&mut self, rows: &[ScreenRow]) {
        self.move_to(0);
        self.out.raw("\r");
        let covered = rows.len().min(self.rows.len());
        for (index, row) in rows.iter().enumerate() {
            row.write(&mut self.out);
            self.out.reset_paint();
            // A full row needs no erasing, and erasing behind its last column would take that with it.
            if self.rows.get(index).is_some_and(|old| old.width() > row.width()) {
                self.out.raw("\x1b[K");
            }
            self.out.raw("\r\n");
        }
        self.rows.drain(..covered);
        self.cursor = CursorPlace { row: 0, column: 0 };
    }

    fn write_rows(&mut self, rows: &[ScreenRow]) {
        for row in rows {
            row.write(&mut self.out);
            self.out.reset_paint();
            self.out.raw("\r\n");
        }
        self.cursor = CursorPlace { row: 0, column: 0 };
    }

    fn change_rows(&mut self, new_rows: Vec<ScreenRow>) {
        let old_rows = std::mem::take(&mut self.rows);
        let blank = ScreenRow::default();
        for index in 0..old_rows.len().max(new_rows.len()) {
            let old = old_rows.get(index).unwrap_or(&blank);
            let new = new_rows.get(index).unwrap_or(&blank);
            let must_exist = index >= old_rows.len();
            if old != new || must_exist {
                self.move_to(index);
                old.write_change(new, &mut self.out);
                self.cursor.column = usize::MAX;
            }
        }
        self.rows = new_rows;
    }
}

#[cfg(test)]
mod tests;
