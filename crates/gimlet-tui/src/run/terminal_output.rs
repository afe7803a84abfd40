//! The terminal as the loop sees it: pictures of the application go in, and whatever happens it is put back.

use std::io;

use gimlet_proto::SessionId;

use crate::app::{TerminalApp, TerminalSignal};
use crate::screen::terminal_mode::{TerminalGuard, is_taken, terminal_size, write_terminal};
use crate::screen::terminal_signals::{SignalSupport, encode_signal};
use crate::screen::{FullScreen, InlineScreen, ResizeBehavior, RowCharset, ScreenSize};
use crate::theme::{ColorTheme, ScreenBackground};

/// What is known of the terminal.
#[derive(Clone, Copy, Debug)]
pub struct TerminalTraits {
    pub charset: RowCharset,
    pub resize: ResizeBehavior,
    /// True if keys can be asked for unambiguously without harm.
    pub has_key_protocol: bool,
    pub signals: SignalSupport,
}

/// The terminal and what stands on it.
pub(super) struct TerminalOutput {
    guard: TerminalGuard,
    traits: TerminalTraits,
    theme: ColorTheme,
    inline: InlineScreen,
    full: Option<FullScreen>,
    last_session: Option<SessionId>,
    last_title: String,
}

impl TerminalOutput {
    /// Takes the terminal.
    pub(super) fn take(traits: TerminalTraits, theme: ColorTheme) -> io::Result<Self> {
        let guard = TerminalGuard::enter(traits.has_key_protocol)?;
        let inline = InlineScreen::new(current_size(), theme, traits.charset, traits.resize);
        Ok(Self { guard, traits, theme, inline, full: None, last_session: None, last_title: String::new() })
    }

    pub(super) fn last_session(&self) -> Option<&SessionId> {
        self.last_session.as_ref()
    }

    pub(super) fn note_session(&mut self, session: &SessionId) {
        self.last_session = Some(session.clone());
    }

    /// Shows the application as it is now.
    pub(super) fn draw(&mut self, app: &mut TerminalApp) -> io::Result<()> {
        let size = self.inline.size();
        let view = app.render(size);
        let Some(lines) = view.full else {
            if self.full.take().is_some() {
                self.guard.leave_alternate()?;
            }
            let bytes = self.inline.draw(&view.finished, &view.live, view.cursor);
            return self.write(&bytes);
        };
        if self.full.is_none() {
            self.guard.enter_alternate()?;
        }
        let screen = self.full.get_or_insert_with(|| FullScreen::new(size, self.theme, self.traits.charset));
        screen.resize(size);
        let bytes = screen.draw(&lines, view.cursor);
        self.write(&bytes)
    }

    /// Takes up the terminal's size.
    pub(super) fn resize(&mut self) {
        self.inline.resize(current_size());
    }

    pub(super) fn set_background(&mut self, background: ScreenBackground) {
        self.theme.background = background;
        self.inline.set_theme(self.theme);
        if let Some(full) = &mut self.full {
            full.set_theme(self.theme);
        }
    }

    pub(super) fn redraw(&mut self) {
        self.inline.resize(current_size());
        self.inline.request_redraw();
        if let Some(full) = &mut self.full {
            full.request_redraw();
        }
    }

    /// Moves all lines up into the scrollback.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let bytes = self.inline.scroll_away();
        self.write(&bytes)
    }

    pub(super) fn signal(&mut self, signal: &TerminalSignal) -> io::Result<()> {
        if let TerminalSignal::Title(title) = signal {
            if *title == self.last_title {
                return Ok(());
            }
            self.last_title.clone_from(title);
        }
        let bytes = encode_signal(signal, self.traits.signals);
        self.write(&bytes)
    }

    /// Gives the terminal away with the live region removed.
    pub(super) fn give_away(&mut self) -> io::Result<()> {
        self.guard.leave_alternate()?;
        self.full = None;
        let bytes = self.inline.erase_live();
        self.write(&bytes)?;
        self.guard.suspend();
        Ok(())
    }

    /// Takes the terminal again.
    pub(super) fn take_back(&mut self) -> io::Result<()> {
        self.guard.resume()?;
        self.resize();
        self.last_title.clear();
        Ok(())
    }

    /// Prints what is finished, removes the live region and gives the terminal back.
    pub(super) fn finish(&mut self, app: &mut TerminalApp) -> io::Result<()> {
        self.guard.leave_alternate()?;
        self.full = None;
        let finished = app.render(self.inline.size()).finished;
        let bytes = self.inline.draw(&finished, &[], Some(crate::screen::CursorPlace { row: 0, column: 0 }));
        self.write(&bytes)?;
        self.guard.suspend();
        Ok(())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() { Ok(()) } else { write_terminal(bytes) }
    }
}

impl Drop for TerminalOutput {
    fn drop(&mut self) {
        // The loop was dropped in its midst: nothing of the live region may stay under the shell's prompt.
        if is_taken() {
            drop(self.guard.leave_alternate());
            let bytes = self.inline.erase_live();
            drop(write_terminal(&bytes));
        }
    }
}

fn current_size() -> ScreenSize {
    let (columns, rows) = terminal_size();
    ScreenSize::new(columns, rows)
}
