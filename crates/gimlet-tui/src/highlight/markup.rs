//! Highlighting of HTML and XML: tags, attributes, values and comments.

use crate::styled_line::{StyledLine, TextTone};

/// What the last line left open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MarkupState {
    #[default]
    Text,
    Comment,
    Tag,
    /// Inside a value, which ends with this quote.
    Value(char),
}

/// Highlights one line and returns what it leaves open.
pub(super) fn lex_line(line: &str, mut state: MarkupState, out: &mut StyledLine) -> MarkupState {
    let mut rest = line;
    while !rest.is_empty() {
        let (length, tone, next) = match state {
            MarkupState::Text => lex_text(rest),
            MarkupState::Comment => match rest.find("-->") {
                Some(end) => (end + 3, TextTone::Comment, MarkupState::Text),
                None => (rest.len(), TextTone::Comment, MarkupState::Comment),
            },
            MarkupState::Tag => lex_tag(rest),
            MarkupState::Value(quote) => match rest.find(quote) {
                Some(end) => (end + quote.len_utf8(), TextTone::Literal, MarkupState::Tag),
                None => (rest.len(), TextTone::Literal, state),
            },
        };
        let (token, after) = rest.split_at(length);
        out.push(token, tone);
        rest = after;
        state = next;
    }
    state
}

fn lex_text(rest: &str) -> (usize, TextTone, MarkupState) {
    if rest.starts_with("<!--") {
        return (4, TextTone::Comment, MarkupState::Comment);
    }
    let begins_tag = |text: &str| {
        text.get(1..).is_some_and(|tag| tag.starts_with(|char: char| char.is_alphabetic() || "/!?".contains(char)))
    };
    if rest.starts_with('<') && begins_tag(rest) {
        let name = rest.get(1..).unwrap_or_default();
        let end = name.find(|char: char| char.is_whitespace() || char == '>').unwrap_or(name.len());
        return (1 + end, TextTone::Keyword, MarkupState::Tag);
    }
    let end = rest.get(1..).and_then(|after| after.find('<')).map_or(rest.len(), |at| at + 1);
    let end = (end..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
    (end, TextTone::Text, MarkupState::Text)
}

fn lex_tag(rest: &str) -> (usize, TextTone, MarkupState) {
    let Some(first) = rest.chars().next() else { return (0, TextTone::Text, MarkupState::Tag) };
    match first {
        '>' => (1, TextTone::Keyword, MarkupState::Text),
        '"' | '\'' => (1, TextTone::Literal, MarkupState::Value(first)),
        '/' | '?' => (1, TextTone::Keyword, MarkupState::Tag),
        _ if first.is_alphanumeric() || "@:_".contains(first) => {
            let end = rest.find(|char: char| !(char.is_alphanumeric() || "@:_-.".contains(char))).unwrap_or(rest.len());
            (end, TextTone::TypeName, MarkupState::Tag)
        }
        _ => (first.len_utf8(), TextTone::Text, MarkupState::Tag),
    }
}
