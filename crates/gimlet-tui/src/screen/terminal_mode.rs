//! The terminal's modes while gimlet has it, and the way back, which is taken on every kind of end.
//!
//! [`restore_terminal`] may be called at any time and from any thread, so that a panic, a signal or an ordinary end
//! leaves the terminal as it was found.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set while the terminal is in gimlet's mode.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// Set while the alternate screen is shown.
static IS_ALTERNATE: AtomicBool = AtomicBool::new(false);
/// Set while titles and progress were written that have to be taken back.
static HAS_TITLE: AtomicBool = AtomicBool::new(false);

/// Bracketed paste, focus reports, and keys that can be told apart (the last is ignored by terminals without it).
const ENTER: &str = "\x1b[?2004h\x1b[?1004h";
const ENTER_KEYS: &str = "\x1b[>1u";
const LEAVE_KEYS: &str = "\x1b[<u";
const LEAVE: &str = "\x1b[?2026l\x1b[?2004l\x1b[?1004l\x1b[m\x1b[?25h";
const ENTER_ALTERNATE: &str = "\x1b[?1049h\x1b[?1007h";
const LEAVE_ALTERNATE: &str = "\x1b[?1007l\x1b[?1000l\x1b[?1006l\x1b[?1049l";

/// The terminal in gimlet's mode; dropping it puts the terminal back.
#[derive(Debug)]
pub struct TerminalGuard {
    has_keys: bool,
}

impl TerminalGuard {
    /// Takes the terminal: raw input, bracketed paste. `has_keys` is false for terminals that would print the request
    /// for unambiguous keys.
    pub fn enter(has_keys: bool) -> io::Result<Self> {
        crossterm::terminal::enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::SeqCst);
        let guard = Self { has_keys };
        write_terminal(ENTER.as_bytes())?;
        if has_keys {
            write_terminal(ENTER_KEYS.as_bytes())?;
        }
        Ok(guard)
    }

    /// Gives the terminal to another program, or to the shell.
    pub fn suspend(&self) {
        restore_terminal();
    }

    /// Takes the terminal again.
    pub fn resume(&self) -> io::Result<()> {
        // This guard is still the one that puts it back.
        std::mem::forget(Self::enter(self.has_keys)?);
        Ok(())
    }

    pub fn enter_alternate(&self) -> io::Result<()> {
        if !IS_ALTERNATE.swap(true, Ordering::SeqCst) {
            write_terminal(ENTER_ALTERNATE.as_bytes())?;
            // Each screen has its own stack of key modes.
            if self.has_keys {
                write_terminal(ENTER_KEYS.as_bytes())?;
            }
        }
        Ok(())
    }

    pub fn leave_alternate(&self) -> io::Result<()> {
        if IS_ALTERNATE.swap(false, Ordering::SeqCst) {
            if self.has_keys {
                write_terminal(LEAVE_KEYS.as_bytes())?;
            }
            write_terminal(LEAVE_ALTERNATE.as_bytes())?;
        }
        Ok(())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Records that a title was set, which has to be taken back.
pub fn note_title() {
    HAS_TITLE.store(true, Ordering::SeqCst);
}

/// Puts the terminal back as it was found. Does nothing if it is not taken.
pub fn restore_terminal() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut bytes = Vec::new();
    if IS_ALTERNATE.swap(false, Ordering::SeqCst) {
        bytes.extend_from_slice(LEAVE_KEYS.as_bytes());
        bytes.extend_from_slice(LEAVE_ALTERNATE.as_bytes());
    }
    bytes.extend_from_slice(LEAVE_KEYS.as_bytes());
    bytes.extend_from_slice(LEAVE.as_bytes());
    if HAS_TITLE.swap(false, Ordering::SeqCst) {
        bytes.extend_from_slice(b"\x1b]0;\x07\x1b]9;4;0\x07");
    }
    // A terminal that is gone needs no restoring.
    drop(write_terminal(&bytes));
    drop(crossterm::terminal::disable_raw_mode());
}

/// Returns true while gimlet has the terminal.
pub fn is_taken() -> bool {
    IS_TAKEN.load(Ordering::SeqCst)
}

/// Writes bytes to the terminal at once.
pub fn write_terminal(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Returns the terminal's size; zeros if it has none.
pub fn terminal_size() -> (usize, usize) {
    crossterm::terminal::size().map_or((0, 0), |(columns, rows)| (usize::from(columns), usize::from(rows)))
}
