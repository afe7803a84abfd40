//! The screen as a whole, for views that take all of it: the terminal's alternate screen, redrawn where it changed.

use super::{AnsiWriter, CursorPlace, RowCharset, ScreenRow, ScreenSize};
use crate::styled_line::StyledLine;
use crate::theme::ColorTheme;

/// What is on the alternate screen.
#[derive(Debug)]
pub struct FullScreen {
    size: ScreenSize,
    theme: ColorTheme,
    charset: RowCharset,
    rows: Vec<ScreenRow>,
    cursor: Option<CursorPlace>,
    is_stale: bool,
    out: AnsiWriter,
}

impl FullScreen {
    pub fn new(size: ScreenSize, theme: ColorTheme, charset: RowCharset) -> Self {
        Self { size, theme, charset, rows: Vec::new(), cursor: None, is_stale: true, out: AnsiWriter::new() }
    }

    pub fn resize(&mut self, size: ScreenSize) {
        if size != self.size {
            self.size = size;
            self.is_stale = true;
        }
    }

    pub fn set_theme(&mut self, theme: ColorTheme) {
        self.theme = theme;
        self.is_stale = true;
    }

    /// Draws everything anew the next time.
    pub fn request_redraw(&mut self) {
        self.is_stale = true;
    }

    /// Changes the screen to these lines, the first at the top. Returns the bytes for the terminal; none if nothing
    /// changed.
    pub fn draw(&mut self, lines: &[StyledLine], cursor: Option<CursorPlace>) -> Vec<u8> {
        if self.is_stale {
            self.out.reset_paint();
            self.out.raw("\x1b[H\x1b[J");
            self.rows = vec![ScreenRow::default(); self.size.rows];
            self.is_stale = false;
        }
        let render = |line: &StyledLine| ScreenRow::render(line, &self.theme, self.charset, self.size.columns);
        let mut new_rows: Vec<ScreenRow> = lines.iter().take(self.size.rows).map(render).collect();
        new_rows.resize(self.size.rows, ScreenRow::default());
        for (index, (old, new)) in self.rows.iter().zip(&new_rows).enumerate() {
            if old != new {
                self.out.position(index, 0);
                old.write_change(new, &mut self.out);
            }
        }
        self.rows = new_rows;
        self.out.reset_paint();
        if self.out.is_empty() && cursor == self.cursor {
            return Vec::new();
        }
        self.cursor = cursor;
        if let Some(place) = cursor {
            self.out.position(place.row.min(self.size.rows - 1), place.column.min(self.size.columns - 1));
            self.out.raw("\x1b[?25h");
        }
        [b"\x1b[?2026h\x1b[?25l".as_slice(), &self.out.take(), b"\x1b[?2026l".as_slice()].concat()
    }
}
