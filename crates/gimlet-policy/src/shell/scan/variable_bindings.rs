//! Values that a text assigns to names: by assignments, in front of commands and on their own, by lists and by
//! `printf -v`.

use super::{assigned_name, is_command_prefix, scan_every_reading};
use crate::shell::word::{Word, WordBuilder, WordPiece};

/// Maximum nesting of values that is tracked.
const DEEPEST_VALUE: usize = 4;

/// Commands whose operands assign variables.
const DECLARERS: &[&str] = &["export", "declare", "typeset", "readonly", "local"];

/// A name and a value that a text assigns to it.
#[derive(Clone, Debug)]
pub(crate) struct VariableBinding {
    pub(crate) name: String,
    pub(crate) value: Word,
    /// True if it is one of several elements that the name has.
    pub(crate) element: bool,
}

/// Returns the names that a text assigns, and the values as written; prefers too many to too few.
pub(crate) fn find_bindings(text: &str) -> Vec<VariableBinding> {
    if !text.contains('=') && !text.contains("printf") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let commands = scan_every_reading(text, true, &mut found);
    for words in &commands {
        let front = words.iter().take_while(|word| is_command_prefix(word)).count();
        let declares = words.get(front).and_then(Word::value).is_some_and(|name| DECLARERS.contains(&name));
        let given = if declares { &words[..] } else { &words[..front] };
        found.extend(given.iter().filter_map(parse_binding));
        found.extend(printf_bindings(&words[front..]));
    }
    found
}

/// Returns the bindings of `printf -v NAME FORMAT WORD…`: the value may be any of the words.
fn printf_bindings(words: &[Word]) -> Vec<VariableBinding> {
    let [printf, rest @ ..] = words else { return Vec::new() };
    if printf.value() != Some("printf") {
        return Vec::new();
    }
    let option = rest.iter().position(|word| word.value().is_some_and(|text| text.starts_with("-v")));
    let Some(option) = option else { return Vec::new() };
    let attached = rest[option].value().and_then(|text| text.strip_prefix("-v")).filter(|name| !name.is_empty());
    let (name, values) = match attached {
        Some(name) => (Some(name), &rest[option + 1..]),
        None => (rest.get(option + 1).and_then(Word::value), rest.get(option + 2..).unwrap_or_default()),
    };
    let bound =
        |name: &str, value: &Word| VariableBinding { name: name.to_owned(), value: value.clone(), element: false };
    name.map_or(Vec::new(), |name| values.iter().map(|value| bound(name, value)).collect())
}

fn parse_binding(word: &Word) -> Option<VariableBinding> {
    let (name, head, rest, element) = split_assignment(word)?;
    let mut value = WordBuilder::default();
    let beginning = head.strip_prefix('+').map_or(head, |head| {
        // Appended to the previous value.
        value.push_quoted_expansion(WordPiece::Unknown);
        head
    });
    let beginning = beginning.strip_prefix('=')?;
    if !beginning.is_empty() {
        value.push_quoted(beginning);
    }
    rest.iter().cloned().for_each(|piece| value.push_quoted_expansion(piece));
    let mut value = value.finish();
    // `${x:-WORD}`: its value if nothing else assigns one.
    for _ in 0..DEEPEST_VALUE {
        let Some(WordPiece::Choice(words)) = value.pieces().first() else { break };
        let Some(word) = words.first().cloned() else { break };
        value = value.with_beginning(&word);
    }
    Some(VariableBinding { name: name.to_owned(), value, element })
}

/// Returns the name that a word assigns, the sign and the text after it in that piece, the following pieces, and true
/// if it is one element of a list.
pub(super) fn split_assignment(word: &Word) -> Option<(&str, &str, &[WordPiece], bool)> {
    let (WordPiece::Text(head), rest) = word.pieces().split_first()? else { return None };
    if let Some(name) = assigned_name(head) {
        return Some((name, &head[name.len()..], rest, false));
    }
    // `NAME[…]=VALUE`
    let [WordPiece::Glob('['), subscript @ ..] = rest else { return None };
    assigned_name(&format!("{head}="))?;
    subscript.iter().enumerate().find_map(|(at, piece)| {
        let WordPiece::Text(text) = piece else { return None };
        let sign = text.find("]=").or_else(|| text.find("]+="))?;
        Some((head.as_str(), &text[sign + 1..], &subscript[at + 1..], true))
    })
}

/// Returns the word in `NAME:-WORD` and similar, given the text between the braces.
pub(super) fn default_word(words: &[Word]) -> Option<Word> {
    let (WordPiece::Text(head), rest) = words.first()?.pieces().split_first()? else { return None };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let operator = head.trim_start_matches(is_name);
    let operator = operator.strip_prefix(':').unwrap_or(operator);
    if !head.starts_with(is_name) {
        return None;
    }
    let beginning = operator.strip_prefix(['-', '=', '+'])?;
    let mut word = WordBuilder::default();
    // It may begin with a home directory.
    word.push_unquoted(&beginning[..usize::from(beginning.starts_with('~'))]);
    word.push_quoted(beginning.strip_prefix('~').unwrap_or(beginning));
    rest.iter().cloned().for_each(|piece| word.push_quoted_expansion(piece));
    Some(word.finish())
}

/// Returns the name of the list that begins after these pieces.
pub(super) fn list_name(pieces: &[WordPiece]) -> Option<String> {
    let [WordPiece::Text(head)] = pieces else { return None };
    if head.ends_with('=') { assigned_name(head).map(str::to_owned) } else { None }
}

/// Returns the binding that one word of a list makes.
pub(super) fn element_binding(name: &str, word: &Word) -> VariableBinding {
    // `[KEY]=VALUE`
    let keyed = matches!(word.pieces().first(), Some(WordPiece::Glob('[')));
    let keyed =
        if keyed { parse_binding(&Word::from_piece(WordPiece::Text(name.to_owned())).with_end(word)) } else { None };
    keyed.unwrap_or_else(|| VariableBinding { name: name.to_owned(), value: word.clone(), element: true })
}
