//! Linear checks on the raw text before and beside the grammar: size, nesting, and characters that are displayed as
//! something else than they mean.

use gimlet_text::InvisibleChar;

use super::ParseTrouble;

/// Maximum length of texts that are given to the grammar.
const LONGEST_PARSED: usize = 64 * 1024;
/// Maximum number of openers open at once; users and models need only a few.
const DEEPEST_NESTING: usize = 64;
/// Maximum number of backticks in one text; it is not visible which of them open.
const MOST_BACKTICKS: usize = 1_600;
/// Maximum number of here-documents in one text.
const MOST_HERE_DOCUMENTS: usize = 64;
/// Maximum number of expansions in a text that has here-documents: the grammar searches for the end of a document from
/// each of them.
const MOST_EXPANSIONS: usize = 256;
/// Maximum number of brace lists (`a{b,c}`) in one text: each makes several words of one, and the grammar is slow on
/// them.
const MOST_LISTS: usize = 32;

/// Returns the limit that makes parsing too expensive, or `None`.
pub(super) fn check_size_limits(text: &str) -> Option<ParseTrouble> {
    if text.len() > LONGEST_PARSED {
        return Some(ParseTrouble::TooLong);
    }
    let (mut open, mut deepest, mut backticks, mut here_documents) = (0usize, 0usize, 0usize, 0usize);
    let mut dollars = 0usize;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'{' => open += 1,
            b')' | b'}' => open = open.saturating_sub(1),
            b'`' => backticks += 1,
            b'$' => dollars += 1,
            b'<' if bytes.get(at + 1) == Some(&b'<') => here_documents += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    if count_brace_lists(bytes) > MOST_LISTS {
        return Some(ParseTrouble::TooManyLists);
    }
    let nested = deepest > DEEPEST_NESTING || backticks > MOST_BACKTICKS;
    let laborious = here_documents > 0 && dollars + backticks > MOST_EXPANSIONS;
    (nested || laborious || here_documents > MOST_HERE_DOCUMENTS).then_some(ParseTrouble::TooDeep)
}

/// Counts stretches like `{a,b}`, quoted or not. Data and code seldom match: they have quotes or whitespace between the
/// braces.
fn count_brace_lists(bytes: &[u8]) -> usize {
    let (mut found, mut open, mut comma) = (0, false, false);
    for byte in bytes {
        match byte {
            b'{' => (open, comma) = (true, false),
            b',' => comma = true,
            b'}' => {
                found += usize::from(open && comma);
                open = false;
            }
            b' ' | b'\t' | b'\n' | b'"' | b'\'' | b';' | b':' => open = false,
            _ => {}
        }
    }
    found
}

/// Finds characters that no legitimate command contains: controls, direction overrides, tags, and noncharacters.
pub(super) fn find_forbidden_character(text: &str) -> Option<ParseTrouble> {
    let forbidden = |c: char| match InvisibleChar::classify(c) {
        Some(InvisibleChar::Control) => !matches!(c, '\n' | '\t'),
        Some(InvisibleChar::Direction | InvisibleChar::Tag) => true,
        Some(InvisibleChar::Blank | InvisibleChar::ZeroWidth) => false,
        None => matches!(c, '\u{FFFE}' | '\u{FFFF}'),
    };
    text.chars().any(forbidden).then_some(ParseTrouble::Character)
}

/// Returns true for characters that look like whitespace or are invisible; outside quotes they hide the end of a word.
pub(super) fn is_invisible(c: char) -> bool {
    InvisibleChar::classify(c).is_some() && !matches!(c, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::{ParseTrouble, check_size_limits, count_brace_lists, find_forbidden_character, is_invisible};

    #[test]
    fn invisible_characters_are_forbidden_or_kept_out_of_words() {
        for c in ['\r', '\u{1b}', '\u{61c}', '\u{202e}', '\u{e0001}', '\u{e0100}', '\u{e0fff}', '\u{ffff}'] {
            assert_eq!(find_forbidden_character(&format!("ls {c}")), Some(ParseTrouble::Character), "{c:?}");
        }
        for c in ['\u{a0}', '\u{200b}', '\u{206a}', '\u{3164}', '\u{fe0f}', '\u{1d173}', '\u{1d17a}'] {
            assert!(is_invisible(c) && find_forbidden_character(&format!("echo '{c}'")).is_none(), "{c:?}");
        }
        assert!(!"ls -l\n\tÄ日😀".chars().any(is_invisible));
    }

    #[test]
    fn lists_in_braces_are_told_from_data_and_code() {
        assert_eq!(count_brace_lists(b"cp src/{a,b}.rs x{,.bak} {c,d}"), 3);
        assert_eq!(
            count_brace_lists(b"{\"a\":1,\"b\":2} function f() { return [a, b]; } ${x} {a} a{color:red,x:y}"),
            0
        );
        assert_eq!(check_size_limits(&"a{b,c} ".repeat(32)), None);
        assert_eq!(check_size_limits(&"a{b,c} ".repeat(33)), Some(ParseTrouble::TooManyLists));
    }
}
