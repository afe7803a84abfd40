//! Output to the terminal: finished lines into the scrollback, the live region redrawn where it changed.
//!
//! Everything here turns styled lines into bytes and does no I/O besides [`terminal_mode`], which puts the terminal
//! into raw mode and back, and [`key_reader`], which reads from it.

mod ansi_writer;
mod full_screen;
mod inline_screen;
pub mod key_reader;
mod screen_row;
pub mod terminal_mode;
pub mod terminal_signals;

pub use ansi_writer::AnsiWriter;
pub use full_screen::FullScreen;
pub use inline_screen::InlineScreen;
pub use screen_row::{RowCharset, ScreenRow};

/// Size of a terminal in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSize {
    pub columns: usize,
    pub rows: usize,
}

impl ScreenSize {
    /// Creates a size of at least one cell: a terminal that reports nothing is drawn on as if it were the usual one.
    pub fn new(columns: usize, rows: usize) -> Self {
        if columns == 0 || rows == 0 { Self { columns: 80, rows: 24 } } else { Self { columns, rows } }
    }
}

/// Place of the cursor in a region: row and column, both from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorPlace {
    pub row: usize,
    pub column: usize,
}

/// Behaviour of a terminal when its width changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeBehavior {
    /// Lines that are too long go on in the next row.
    Reflows,
    /// Lines that are too long are cut.
    Cuts,
}
