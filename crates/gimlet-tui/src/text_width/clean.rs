//! The one gate for text from outside: afterwards no character of it can move the cursor, hide or reorder text.

use std::borrow::Cow;
use std::fmt::Write as _;

use gimlet_text::{InvisibleChar, sanitise};
use unicode_width::UnicodeWidthChar;

/// Distance of tab stops. Tabs become spaces, because a terminal's own stops depend on where a line begins.
pub const TAB_WIDTH: usize = 4;

/// Maximum number of characters without width after one another; letters of no language need as many.
const MAX_MARKS: usize = 12;

/// Returns text of several lines as it may be shown: escape sequences and control characters are removed, characters that
/// hide or reorder text become visible as `<U+202E>`, tabs become spaces. Only the line feed stays.
pub fn clean_text(text: &str) -> Cow<'_, str> {
    if is_clean(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(spell_out(&sanitise(text)))
}

/// Returns text as it may be shown in one line: like [`clean_text`], with `␊` for each line feed inside.
pub fn clean_line(text: &str) -> Cow<'_, str> {
    let cleaned = clean_text(text);
    if cleaned.contains('\n') { Cow::Owned(cleaned.trim_end_matches('\n').replace('\n', "␊")) } else { cleaned }
}

fn is_clean(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\n')
}

fn spell_out(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = 0;
    let mut column = 0;
    let mut previous = '\n';
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let next = chars.peek().copied();
        if char == '\n' {
            out.push(char);
            column = 0;
            marks = 0;
        } else if char == '\t' {
            let count = TAB_WIDTH - column % TAB_WIDTH;
            out.extend(std::iter::repeat_n(' ', count));
            column += count;
            marks = 0;
        } else if must_be_spelled(char, previous, next) {
            // Writing to a String cannot fail.
            let _ = write!(out, "<U+{:04X}>", u32::from(char));
            column += 8;
            marks = 0;
        } else {
            let width = char.width().unwrap_or(0);
            marks = if width == 0 { marks + 1 } else { 0 };
            if marks <= MAX_MARKS {
                out.push(char);
            }
            column += width;
        }
        previous = char;
    }
    out
}

/// Returns true for a character that would not be seen. Joiners and variants stay where scripts and emoji need them.
fn must_be_spelled(char: char, previous: char, next: Option<char>) -> bool {
    match char {
        // The joiners of Persian, the scripts of India and emoji.
        '\u{200c}' | '\u{200d}' => !(is_joinable(previous) && next.is_some_and(is_joinable)),
        // Keycaps are digits with a variant.
        '\u{fe0e}' | '\u{fe0f}' => {
            !(is_joinable(previous) || previous.is_ascii_digit() || matches!(previous, '#' | '*'))
        }
        '\u{2028}' | '\u{2029}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        _ => matches!(InvisibleChar::classify(char), Some(InvisibleChar::ZeroWidth)),
    }
}

fn is_joinable(char: char) -> bool {
    match InvisibleChar::classify(char) {
        None => !char.is_ascii(),
        Some(InvisibleChar::ZeroWidth) => matches!(char, '\u{fe0e}' | '\u{fe0f}'),
        Some(_) => false,
    }
}
