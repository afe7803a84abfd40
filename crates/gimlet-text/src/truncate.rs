//! Shortening of texts for one line.

/// Returns the words of a text in one line of at most this width.
pub fn truncate_to_line(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_with_an_ellipsis_within_the_width() {
        for (text, width, line) in
            [("a\n b\tc ", 5, "a b c"), ("abcdef", 5, "abcd…"), ("äöü äöü", 4, "äöü…"), ("", 0, "")]
        {
            assert_eq!(truncate_to_line(text, width), line);
        }
    }
}
