//! Bytes for the terminal: text, colours and cursor movements, as few as possible.

use std::io::Write as _;

use crate::theme::{CellPaint, TerminalColor};

/// Buffer of output. The look of the next text is known, so that nothing is said twice.
#[derive(Debug, Default)]
pub struct AnsiWriter {
    bytes: Vec<u8>,
    paint: CellPaint,
}

impl AnsiWriter {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns what was written since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Writes a control sequence or text that is known to be harmless.
    pub fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes `CSI`, a number and the final letter; a count of zero moves nothing and is left out.
    pub fn count(&mut self, count: usize, letter: char) {
        match count {
            0 => {}
            // Writing to a Vec cannot fail.
            1 => drop(write!(self.bytes, "\x1b[{letter}")),
            _ => drop(write!(self.bytes, "\x1b[{count}{letter}")),
        }
    }

    /// Moves the cursor to a column of its row.
    pub fn column(&mut self, column: usize) {
        if column == 0 {
            self.raw("\r");
        } else {
            drop(write!(self.bytes, "\x1b[{}G", column + 1));
        }
    }

    /// Moves the cursor to a cell of the screen.
    pub fn position(&mut self, row: usize, column: usize) {
        drop(write!(self.bytes, "\x1b[{};{}H", row + 1, column + 1));
    }

    /// Moves down, scrolling at the lower edge.
    pub fn line_feeds(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, b'\n');
    }

    /// Writes text in a look.
    pub fn text(&mut self, text: &str, paint: CellPaint) {
        self.set_paint(paint);
        self.raw(text);
    }

    /// Goes back to the terminal's own look, as erasing and scrolling should find it.
    pub fn reset_paint(&mut self) {
        self.set_paint(CellPaint::default());
    }

    fn set_paint(&mut self, paint: CellPaint) {
        if paint == self.paint {
            return;
        }
        let is_plain = self.paint == CellPaint::default();
        self.paint = paint;
        self.raw("\x1b[");
        if paint == CellPaint::default() {
            self.raw("m");
            return;
        }
        if !is_plain {
            self.raw("0;");
        }
        let marks = [
            (paint.bold, "1;"),
            (paint.faint, "2;"),
            (paint.italic, "3;"),
            (paint.underline, "4;"),
            (paint.reverse, "7;"),
            (paint.strike, "9;"),
        ];
        for (_, code) in marks.into_iter().filter(|(is_set, _)| *is_set) {
            self.raw(code);
        }
        self.color(paint.foreground, 30);
        self.color(paint.background, 40);
        // The last separator becomes the end.
        if let Some(last) = self.bytes.last_mut().filter(|last| **last == b';') {
            *last = b'm';
        } else {
            self.raw("m");
        }
    }

    fn color(&mut self, color: Option<TerminalColor>, base: u8) {
        match color {
            None => {}
            Some(TerminalColor::Basic(index)) if index < 8 => drop(write!(self.bytes, "{};", base + index)),
            Some(TerminalColor::Basic(index)) => drop(write!(self.bytes, "{};", base + 52 + index)),
            Some(TerminalColor::Indexed(index)) => drop(write!(self.bytes, "{};5;{index};", base + 8)),
            Some(TerminalColor::Rgb(red, green, blue)) => {
                drop(write!(self.bytes, "{};2;{red};{green};{blue};", base + 8));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_set_once_and_reset_before_others() {
        let mut writer = AnsiWriter::new();
        let red = CellPaint { foreground: Some(TerminalColor::Basic(1)), bold: true, ..CellPaint::default() };
        let other = CellPaint { background: Some(TerminalColor::Indexed(7)), ..CellPaint::default() };
        writer.text("a", red);
        writer.text("b", red);
        writer.text("c", other);
        writer.text("d", CellPaint::default());
        assert_eq!(String::from_utf8(writer.take()).unwrap(), "\x1b[1;31mab\x1b[0;48;5;7mc\x1b[md");
        writer.text("e", CellPaint { foreground: Some(TerminalColor::Basic(9)), ..CellPaint::default() });
        writer.text("f", CellPaint { foreground: Some(TerminalColor::Rgb(1, 2, 3)), ..CellPaint::default() });
        assert_eq!(String::from_utf8(writer.take()).unwrap(), "\x1b[91me\x1b[0;38;2;1;2;3mf");
    }
}
