//! Linear checks on the raw text before and beside the grammar: size, nesting, and characters that show one thing and
//! mean another.

use super::Trouble;

/// Texts beyond this are not given to the grammar at all.
const LONGEST_PARSED: usize = 64 * 1024;
/// Openers that may be open at once; people and models get by with a handful.
const DEEPEST_NESTING: usize = 64;
/// Backticks in one text; nobody sees which of them open.
const MOST_BACKTICKS: usize = 1_600;
/// Here-documents in one text.
const MOST_HERE_DOCUMENTS: usize = 64;
/// Lists in braces (`a{b,c}`) in one text: each makes several words of one, and the grammar labours over them.
const MOST_LISTS: usize = 32;

/// Whether parsing could take more than it is worth.
pub(super) fn too_much(text: &str) -> Option<Trouble> {
    if text.len() > LONGEST_PARSED {
        return Some(Trouble::TooLong);
    }
    let (mut open, mut deepest, mut backticks, mut here_documents) = (0usize, 0usize, 0usize, 0usize);
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'{' => open += 1,
            b')' | b'}' => open = open.saturating_sub(1),
            b'`' => backticks += 1,
            b'<' if bytes.get(at + 1) == Some(&b'<') => here_documents += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    if lists(bytes) > MOST_LISTS {
        return Some(Trouble::TooManyLists);
    }
    let nested = deepest > DEEPEST_NESTING || backticks > MOST_BACKTICKS;
    (nested || here_documents > MOST_HERE_DOCUMENTS).then_some(Trouble::TooDeep)
}

/// What looks like `{a,b}`, quoted or not. Data and code seldom do: they have quotes or blanks between the braces.
fn lists(bytes: &[u8]) -> usize {
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

/// Characters that no honest command contains: controls, direction overrides, tags.
pub(super) fn forbidden_character(text: &str) -> Option<Trouble> {
    let forbidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
            || matches!(c, '\u{E0000}'..='\u{E007F}' | '\u{FFFE}' | '\u{FFFF}')
    };
    text.chars().any(forbidden).then_some(Trouble::Character)
}

/// Characters that look like a blank or like nothing; outside quotes they hide where a word ends.
pub(super) fn is_invisible(c: char) -> bool {
    (c.is_whitespace() && !matches!(c, ' ' | '\t' | '\n'))
        || matches!(
            c,
            '\u{00AD}' | '\u{034F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
        )
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}')
        || matches!(c, '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}')
}

#[cfg(test)]
mod tests {
    use super::{Trouble, lists, too_much};

    #[test]
    fn lists_in_braces_are_told_from_data_and_code() {
        assert_eq!(lists(b"cp src/{a,b}.rs x{,.bak} {c,d}"), 3);
        assert_eq!(lists(b"{\"a\":1,\"b\":2} function f() { return [a, b]; } ${x} {a} a{color:red,x:y}"), 0);
        assert_eq!(too_much(&"a{b,c} ".repeat(32)), None);
        assert_eq!(too_much(&"a{b,c} ".repeat(33)), Some(Trouble::TooManyLists));
    }
}
