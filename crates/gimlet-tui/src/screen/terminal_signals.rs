//! What is said to the terminal itself: titles, progress, notifications, the clipboard.

use base64::Engine as _;

use crate::app::TerminalSignal;
use crate::text_width::{clean_line, truncate_end};

/// Columns of a title.
const MAX_TITLE: usize = 80;
/// Bytes that terminals take into the clipboard.
const MAX_CLIPBOARD: usize = 74_994;

/// How notifications reach the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotifyChannel {
    #[default]
    Bell,
    /// The sequence of iTerm2, which others took over.
    Osc9,
    Kitty,
    Silent,
}

/// What this terminal understands.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignalSupport {
    pub has_title: bool,
    pub has_progress: bool,
    pub notify: NotifyChannel,
    /// The terminal is tmux, which passes sequences on if it is asked to.
    pub is_tmux: bool,
}

/// Returns the bytes of a signal; none if the terminal does not understand it.
pub fn encode_signal(signal: &TerminalSignal, support: SignalSupport) -> Vec<u8> {
    let text = match signal {
        TerminalSignal::Title(title) if support.has_title => {
            super::terminal_mode::note_title();
            format!("\x1b]0;{}\x07", truncate_end(&clean_line(title), MAX_TITLE))
        }
        TerminalSignal::Progress(runs) if support.has_progress => {
            format!("\x1b]9;4;{}\x07", if *runs { 3 } else { 0 })
        }
        TerminalSignal::Notify(text) => match support.notify {
            NotifyChannel::Bell => "\x07".to_owned(),
            NotifyChannel::Osc9 => through_tmux(&format!("\x1b]9;{}\x07", clean_line(text)), support),
            NotifyChannel::Kitty => through_tmux(&format!("\x1b]99;;{}\x1b\\", clean_line(text)), support),
            NotifyChannel::Silent => String::new(),
        },
        TerminalSignal::Clipboard(text) => {
            let end = text.floor_char_boundary(text.len().min(MAX_CLIPBOARD));
            let encoded = base64::engine::general_purpose::STANDARD.encode(text.get(..end).unwrap_or_default());
            let sequence = format!("\x1b]52;c;{encoded}\x07");
            if support.is_tmux { format!("{sequence}{}", through_tmux(&sequence, support)) } else { sequence }
        }
        TerminalSignal::Title(_) | TerminalSignal::Progress(_) => String::new(),
    };
    text.into_bytes()
}

/// Wraps a sequence so that tmux passes it to the terminal around it.
fn through_tmux(sequence: &str, support: SignalSupport) -> String {
    if support.is_tmux {
        format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b"))
    } else {
        sequence.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(signal: TerminalSignal, support: SignalSupport) -> String {
        String::from_utf8(encode_signal(&signal, support)).unwrap()
    }

    #[test]
    fn signals_are_cleaned_and_wrapped_for_tmux() {
        let plain = SignalSupport { has_title: true, notify: NotifyChannel::Osc9, ..SignalSupport::default() };
        let title = encode(TerminalSignal::Title("a\x07\x1b]52;c;eA==\x07b".to_owned()), plain);
        assert_eq!(title.matches('\x1b').count(), 1, "{title:?}");
        assert_eq!(encode(TerminalSignal::Notify("done".to_owned()), plain), "\x1b]9;done\x07");
        assert_eq!(encode(TerminalSignal::Progress(true), plain), "");
        let tmux = SignalSupport { is_tmux: true, ..plain };
        assert_eq!(encode(TerminalSignal::Notify("done".to_owned()), tmux), "\x1bPtmux;\x1b\x1b]9;done\x07\x1b\\");
        assert_eq!(encode(TerminalSignal::Clipboard("hi".to_owned()), plain), "\x1b]52;c;aGk=\x07");
    }
}
