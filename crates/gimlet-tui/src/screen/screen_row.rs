//! One row of the screen as cells, and the cheapest way from one content to another.

use super::AnsiWriter;
use crate::styled_line::StyledLine;
use crate::text_width::TextCells;
use crate::theme::{CellPaint, ColorTheme};

/// One row: its text, and for each visible character its place, width and look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenRow {
    text: String,
    cells: Vec<RowCell>,
    width: usize,
    /// True if every character takes exactly one column on every terminal.
    is_simple: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowCell {
    end: usize,
    width: u8,
    paint: CellPaint,
}

/// How characters outside ASCII are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCharset {
    Unicode,
    /// Each is replaced by ASCII characters of its width.
    Ascii,
}

impl ScreenRow {
    /// Renders the first `columns` columns of a line. A tab or control character that slipped through becomes a space.
    pub fn render(line: &StyledLine, theme: &ColorTheme, charset: RowCharset, columns: usize) -> Self {
        let mut row = Self { is_simple: true, ..Self::default() };
        for span in &line.spans {
            let paint = theme.paint(span.style);
            for cell in TextCells::new(&span.text) {
                if row.width + cell.width > columns {
                    return row;
                }
                row.push(cell.text, cell.width, paint, charset);
            }
        }
        row
    }

    fn push(&mut self, text: &str, width: usize, paint: CellPaint, charset: RowCharset) {
        let is_control = text.chars().next().is_some_and(char::is_control);
        if is_control {
            self.text.push_str(&" ".repeat(width));
        } else if charset == RowCharset::Ascii && !text.is_ascii() {
            self.text.push_str(&ascii_replacement(text, width));
        } else {
            self.text.push_str(text);
        }
        // A mark without a column of its own belongs to the cell before it.
        if width == 0
            && let Some(last) = self.cells.last_mut()
        {
            last.end = self.text.len();
            self.is_simple = false;
            return;
        }
        let is_known = text.is_ascii() || (width == 1 && text.chars().count() == 1);
        self.is_simple &= is_known || charset == RowCharset::Ascii;
        self.width += width;
        // At most two columns by construction of the cells; tabs are spaces before they get here.
        self.cells.push(RowCell { end: self.text.len(), width: u8::try_from(width).unwrap_or(u8::MAX), paint });
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    fn cell_text(&self, index: usize) -> &str {
        let start = index.checked_sub(1).and_then(|before| self.cells.get(before)).map_or(0, |cell| cell.end);
        let end = self.cells.get(index).map_or(start, |cell| cell.end);
        self.text.get(start..end).unwrap_or_default()
    }

    fn has_same_cell(&self, index: usize, other: &Self, other_index: usize) -> bool {
        match (self.cells.get(index), other.cells.get(other_index)) {
            (Some(one), Some(two)) => {
                one.width == two.width
                    && one.paint == two.paint
                    && self.cell_text(index) == other.cell_text(other_index)
            }
            _ => false,
        }
    }

    /// Writes the whole row at the cursor.
    pub fn write(&self, out: &mut AnsiWriter) {
        self.write_cells(0..self.cells.len(), out);
    }

    fn write_cells(&self, range: std::ops::Range<usize>, out: &mut AnsiWriter) {
        let mut index = range.start;
        while index < range.end {
            let Some(cell) = self.cells.get(index) else { return };
            let mut end = index + 1;
            while end < range.end && self.cells.get(end).is_some_and(|next| next.paint == cell.paint) {
                end += 1;
            }
            let start_byte = index.checked_sub(1).and_then(|before| self.cells.get(before)).map_or(0, |cell| cell.end);
            let end_byte = self.cells.get(end - 1).map_or(start_byte, |cell| cell.end);
            out.text(self.text.get(start_byte..end_byte).unwrap_or_default(), cell.paint);
            index = end;
        }
    }

    /// Changes the row at the cursor's height from `self` to `new`; the cursor may be in any column before and after.
    /// Writes nothing if they are equal.
    pub fn write_change(&self, new: &ScreenRow, out: &mut AnsiWriter) {
        if self == new {
            return;
        }
        if !self.is_simple || !new.is_simple {
            // The terminal may count the columns of such characters in its own way.
            out.column(0);
            new.write(out);
            if self.width > 0 {
                out.reset_paint();
                out.raw("\x1b[K");
            }
            return;
        }
        let mut same = 0;
        while self.has_same_cell(same, new, same) {
            same += 1;
        }
        let mut end = new.cells.len();
        if self.cells.len() == new.cells.len() {
            while end > same && self.has_same_cell(end - 1, new, end - 1) {
                end -= 1;
            }
        }
        // Simple rows have one column for each cell.
        out.column(same);
        new.write_cells(same..end, out);
        if new.width < self.width {
            out.reset_paint();
            out.raw("\x1b[K");
        }
    }
}

fn ascii_replacement(text: &str, width: usize) -> String {
    let plain = match text {
        "…" => "~",
        "·" | "•" | "−" | "–" | "—" | "─" => "-",
        "│" | "┃" | "▎" | "├" => "|",
        "╰" | "└" => "`",
        "❯" | "›" | "→" | "▸" => ">",
        "‘" | "’" => "'",
        "“" | "”" => "\"",
        "●" => "*",
        "␊" => " ",
        "×" => "x",
        _ => return "?".repeat(width),
    };
    plain.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::styled_line::TextTone;
    use crate::theme::{ColorDepth, ScreenBackground};

    const THEME: ColorTheme = ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::None };

    fn row(text: &str) -> ScreenRow {
        ScreenRow::render(&StyledLine::plain(text), &THEME, RowCharset::Unicode, 20)
    }

    fn change(old: &str, new: &str) -> String {
        let mut out = AnsiWriter::new();
        row(old).write_change(&row(new), &mut out);
        String::from_utf8(out.take()).unwrap()
    }

    #[test]
    fn only_what_differs_is_written() {
        assert_eq!(change("same", "same"), "");
        assert_eq!(change("hell", "hello"), "\x1b[5Go");
        assert_eq!(change("hello", "hell"), "\x1b[5G\x1b[K");
        assert_eq!(change("12 s of it", "13 s of it"), "\x1b[2G3");
        assert_eq!(change("", "new"), "\rnew");
        // Wide characters are never reached by column.
        assert_eq!(change("日本a", "日本b"), "\r日本b\x1b[K");
    }

    #[test]
    fn rows_end_at_the_last_column_and_have_no_control_characters() {
        assert_eq!(row("0123456789012345678901234").width(), 20);
        assert_eq!(row("0123456789012345678日").text(), "0123456789012345678");
        assert_eq!(row("a\u{7}b\x1b[2J").text(), "a b [2J");
        let line = StyledLine::plain("日…").with("●é", TextTone::Dim);
        assert_eq!(ScreenRow::render(&line, &THEME, RowCharset::Ascii, 20).text(), "??~*?");
    }
}
