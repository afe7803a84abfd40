//! Generated title for a session without one: the beginning of a prompt or the heading of a plan.

/// Characters of such a title; lists have room for them.
const LONGEST: usize = 60;
/// Up to here a title is not cut at the end of a word: one long word is better than nothing.
const SHORTEST: usize = 20;

/// Returns a title from a text: its first line with content, without marks of lists and headings, one sentence at
/// most. Returns `None` if there is no such line.
pub fn derive_title(text: &str) -> Option<String> {
    let line = text.lines().map(strip_list_marks).find(|line| line.chars().any(char::is_alphanumeric))?;
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = first_sentence(&words);
    Some(shorten_title(sentence).trim_end_matches([' ', ',', ';', ':', '.', '-', '–', '—', '…']).to_owned())
}

/// Returns a line without the marks of a heading, a list item or a quotation.
fn strip_list_marks(line: &str) -> &str {
    let line = line.trim().trim_start_matches(['#', '>', '*', '-', '+', ' ']).trim_end_matches(['#', '*', ' ']);
    let unnumbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let has_number = unnumbered.len() < line.len();
    match unnumbered.strip_prefix(['.', ')']) {
        Some(rest) if has_number && rest.starts_with(' ') => rest.trim_start(),
        _ => line,
    }
}

/// Returns the text up to the first punctuation mark that ends a sentence and is followed by whitespace.
fn first_sentence(text: &str) -> &str {
    let ends = text.match_indices(['.', '!', '?']).map(|(at, sign)| at + sign.len());
    let end = ends.filter(|end| text[*end..].starts_with(' ')).find(|end| *end > SHORTEST);
    &text[..end.unwrap_or(text.len())]
}

fn shorten_title(text: &str) -> &str {
    let Some((end, _)) = text.char_indices().nth(LONGEST) else { return text };
    // A word that ends just there is whole.
    let end = if text[end..].starts_with(' ') { end } else { text[..end].rfind(' ').unwrap_or(0) };
    if text[..end].chars().count() >= SHORTEST {
        return &text[..end];
    }
    &text[..text.char_indices().nth(LONGEST).map_or(text.len(), |(end, _)| end)]
}

#[cfg(test)]
mod tests {
    use super::derive_title;

    #[test]
    fn titles_are_the_first_thing_that_is_said() {
        let cases = [
            ("fix the parser test", Some("fix the parser test")),
            ("\n\n# Plan: move the cache  \n\n1. first", Some("Plan: move the cache")),
            ("Why does `cargo test` fail on main? It passed yesterday.", Some("Why does `cargo test` fail on main?")),
            ("1. read it\n2. write it", Some("read it")),
            ("3.5 is the version to use", Some("3.5 is the version to use")),
            (
                "Go. Look at the whole repository and tell me. Then fix it.",
                Some("Go. Look at the whole repository and tell me"),
            ),
            (
                "please look at every file below src and tell me which of them are never used by anything",
                Some("please look at every file below src and tell me which of"),
            ),
            ("---\n***\nreal words", Some("real words")),
            ("  \n\t", None),
            ("?!", None),
        ];
        for (text, title) in cases {
            assert_eq!(derive_title(text).as_deref(), title, "{text:?}");
        }
        let long = "ä".repeat(500);
        assert_eq!(derive_title(&long).unwrap().chars().count(), 60);
    }
}
