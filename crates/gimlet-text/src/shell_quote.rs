//! Quoting of text as one word of a shell command, for display and for shells.

use std::borrow::Cow;

/// Returns the text as one word of a POSIX shell: unchanged if no character is special, quoted otherwise. The quotes
/// are always single ones, unlike those of the `shlex` crate: one form is easier to read in questions and rules.
pub fn quote_shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::quote_shell_word;

    #[test]
    fn a_word_is_quoted_only_where_it_must_be() {
        for (text, word) in [
            ("src/a-b_c.rs", "src/a-b_c.rs"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$x", "'$x'"),
            ("ü", "'ü'"),
        ] {
            assert_eq!(quote_shell_word(text), word);
        }
    }
}
