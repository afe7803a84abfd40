//! Escaping of a project's text before it is shown for trust: invisible characters, and those that change how the rest
//! is displayed, are spelt out. Nothing is left out, so that different texts never look alike.

use std::borrow::Cow;
use std::fmt::Write as _;

use gimlet_text::InvisibleChar;

/// Returns the text with every invisible character as `<U+…>`. Line breaks and tabs stay.
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    escape_chars(text, |char| is_invisible(char) && !matches!(char, '\n' | '\t'))
}

/// Escapes text that must stay on one line: a name, a path, a title.
pub fn escape_invisible_line(text: &str) -> Cow<'_, str> {
    escape_chars(text, is_invisible)
}

/// Returns equivalent JSON in which no character is invisible.
pub fn escape_invisible_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_invisible) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for char in json.chars() {
        // Between values only plain whitespace is allowed, so the others are inside strings.
        if is_invisible(char) && !matches!(char, '\n' | '\t' | '\r') {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(char);
        }
    }
    Cow::Owned(out)
}

fn escape_chars(text: &str, hides: fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(hides) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if hides(char) {
            // Writing to a String cannot fail.
            let _ = write!(out, "<U+{:04X}>", u32::from(char));
        } else {
            out.push(char);
        }
    }
    Cow::Owned(out)
}

fn is_invisible(char: char) -> bool {
    InvisibleChar::classify(char).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_hidden_and_nothing_is_left_out() {
        for (given, shown) in [
            ("rm -r\tx\nls é 日本 😀", "rm -r\tx\nls é 日本 😀"),
            ("a\u{200b}b\u{feff}", "a<U+200B>b<U+FEFF>"),
            ("x\u{202e}dlrow\u{2069}", "x<U+202E>dlrow<U+2069>"),
            ("\u{1b}[8mcurl evil\u{1b}[0m\r", "<U+001B>[8mcurl evil<U+001B>[0m<U+000D>"),
            ("ls\u{a0}x\u{3000}\u{2028}\u{85}", "ls<U+00A0>x<U+3000><U+2028><U+0085>"),
            ("\u{e0041}\u{fe0f}\u{ad}", "<U+E0041><U+FE0F><U+00AD>"),
        ] {
            assert_eq!(escape_invisible(given), shown, "{given:?}");
        }
        assert_eq!(escape_invisible_line("one\ntwo\t"), "one<U+000A>two<U+0009>");
    }

    #[test]
    fn json_means_the_same_and_shows_all() {
        let value = serde_json::json!({"a\u{202e}": ["\u{e0041}b\u{200b}", "plain\n"]});
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = escape_invisible_json(&text);
            assert!(!shown.contains(['\u{202e}', '\u{e0041}', '\u{200b}']), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
