//! Sanitising of untrusted text for a terminal: removes control characters and escape sequences, makes invisible ones
//! visible.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::InvisibleChar;

/// Removes escape sequences and control characters (tab and line feed stay) and shows bidirectional controls and tags.
pub fn sanitise(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_csi(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_control_string(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            char if is_hidden(char) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "<U+{:04X}>", u32::from(char));
            }
            char if is_unsafe(char) => {}
            char => out.push(char),
        }
    }
    Cow::Owned(out)
}

fn is_unsafe(char: char) -> bool {
    is_hidden(char) || (char.is_control() && char != '\n' && char != '\t')
}

/// Returns true for characters that change how others are shown, or hide text. Zero-width ones are kept: emoji
/// contain them.
fn is_hidden(char: char) -> bool {
    matches!(InvisibleChar::classify(char), Some(InvisibleChar::Direction | InvisibleChar::Tag))
}

type PeekableChars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_escape(chars: &mut PeekableChars<'_>) {
    match chars.next() {
        Some('[') => skip_csi(chars),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_control_string(chars),
        Some(' '..='/') => {
            // Two-character forms such as the choice of a character set.
            chars.next();
        }
        Some(_) | None => {}
    }
}

/// Skips a control sequence, which ends with its first byte from `@` to `~`.
fn skip_csi(chars: &mut PeekableChars<'_>) {
    while let Some(char) = chars.peek() {
        match char {
            '\u{40}'..='\u{7e}' => {
                chars.next();
                return;
            }
            ' '..='?' => {
                chars.next();
            }
            _ => return,
        }
    }
}

/// Skips a string sequence, which ends with BEL or ST; an unfinished one ends with the line, so that it cannot hide
/// all that follows.
fn skip_control_string(chars: &mut PeekableChars<'_>) {
    while let Some(char) = chars.peek().copied() {
        match char {
            '\n' => return,
            '\u{7}' | '\u{9c}' => {
                chars.next();
                return;
            }
            '\u{1b}' => {
                chars.next();
                if chars.peek() == Some(&'\\') {
                    chars.next();
                }
                return;
            }
            _ => {
                chars.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sanitise;

    #[test]
    fn sequences_go_and_text_stays() {
        for (given, wanted) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{9b}2Jx\u{85}y\u{7f}z", "xyz"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("\u{1b}]52;c;unfinished\nnext", "\nnext"),
            ("a\u{202e}b\u{61c}", "a<U+202E>b<U+061C>"),
            ("\u{e0041}\u{e0fff}👩\u{200d}💻", "<U+E0041><U+E0FFF>👩\u{200d}💻"),
            ("\u{1b}(Bok", "ok"),
            ("\u{1b}", ""),
        ] {
            assert_eq!(sanitise(given), wanted, "{given:?}");
        }
    }
}
