//! Brace lists: `src/{a,b}.rs` is `src/a.rs src/b.rs`. Only plain lists and short numeric ranges that are not nested
//! are expanded; lone braces and everything else stay unknown.

use super::{Word, WordPiece};
use crate::shell::parse::is_descriptor_number;

/// Maximum number of words that one word may become.
const MOST_WORDS: usize = 64;

/// An unquoted brace or comma, and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct BraceSign {
    sign: char,
    piece: usize,
    /// Its byte offset in the text of that piece.
    at: usize,
}

impl BraceSign {
    /// Returns the sign that was added last.
    pub(super) fn from_last(sign: char, pieces: &[WordPiece]) -> Option<Self> {
        match pieces.last()? {
            WordPiece::Text(text) => Some(Self { sign, piece: pieces.len() - 1, at: text.len().checked_sub(1)? }),
            _ => None,
        }
    }
}

/// Returns true if these are only empty pairs of braces, which bash leaves unchanged.
pub(super) fn are_empty_pairs(signs: &[BraceSign]) -> bool {
    let is_pair = |pair: &[BraceSign]| match pair {
        [open, close] => (open.sign, close.sign) == ('{', '}') && open.piece == close.piece && open.at + 1 == close.at,
        _ => false,
    };
    !signs.is_empty() && signs.chunks(2).all(is_pair)
}

/// Returns the words that the shell makes of a word with these signs; `None` if that is ambiguous.
pub(super) fn expand_braces(word: &Word, signs: &[BraceSign]) -> Option<Vec<Word>> {
    // A home directory is only recognised after the lists are expanded.
    let tilde = |piece: &WordPiece| matches!(piece, WordPiece::Text(text) if text.contains('~'));
    if word.pieces.iter().any(tilde) {
        return None;
    }
    let mut found: Vec<Vec<WordPiece>> = vec![Vec::new()];
    let mut from = (0, 0);
    let mut list: Option<Vec<Vec<WordPiece>>> = None;
    let mut lists = 0;
    for sign in signs {
        let here = (sign.piece, sign.at);
        match (sign.sign, &mut list) {
            ('{', None) => {
                let fixed = pieces_between(word, from, here);
                found.iter_mut().for_each(|words| append_pieces(words, &fixed));
                list = Some(Vec::new());
            }
            (',', Some(entries)) => entries.push(pieces_between(word, from, here)),
            ('}', Some(entries)) if !entries.is_empty() => {
                entries.push(pieces_between(word, from, here));
                if found.len() * entries.len() > MOST_WORDS {
                    return None;
                }
                let with = |words: &Vec<WordPiece>, entry: &Vec<WordPiece>| {
                    let mut longer = words.clone();
                    append_pieces(&mut longer, entry);
                    longer
                };
                found = found.iter().flat_map(|words| entries.iter().map(move |entry| with(words, entry))).collect();
                (list, lists) = (None, lists + 1);
            }
            // Outside a list a comma is an ordinary character.
            (',', None) => continue,
            _ => return None,
        }
        from = (sign.piece, sign.at + 1);
    }
    let rest = pieces_between(word, from, (word.pieces.len(), 0));
    found.iter_mut().for_each(|words| append_pieces(words, &rest));
    let whole = list.is_none() && lists > 0 && !found.iter().any(Vec::is_empty);
    whole.then(|| found.into_iter().map(|pieces| Word { pieces, splits: word.splits }).collect())
}

/// Returns the list for a range: `{1..3}` is `{1,2,3}`. Only plain numbers are accepted: leading zeros would pad each
/// of them.
pub(in crate::shell) fn expand_range(source: &str) -> Option<String> {
    let (from, to) = source.strip_prefix('{')?.strip_suffix('}')?.split_once("..")?;
    let plain =
        |number: &str| is_descriptor_number(number) && number.len() <= 6 && (number == "0" || !number.starts_with('0'));
    if !plain(from) || !plain(to) {
        return None;
    }
    let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
    let numbers: Vec<String> = match from.abs_diff(to) {
        // Braces around one word are not a list.
        1..MOST_WORDS if from < to => (from..=to).map(|number| number.to_string()).collect(),
        1..MOST_WORDS => (to..=from).rev().map(|number| number.to_string()).collect(),
        _ => return None,
    };
    Some(format!("{{{}}}", numbers.join(",")))
}

/// Returns the pieces between two positions of a word.
fn pieces_between(word: &Word, from: (usize, usize), to: (usize, usize)) -> Vec<WordPiece> {
    let mut found = Vec::new();
    for (number, piece) in word.pieces.iter().enumerate().skip(from.0).take_while(|(number, _)| *number <= to.0) {
        match piece {
            WordPiece::Text(text) => {
                let start = if number == from.0 { from.1 } else { 0 };
                let end = if number == to.0 { to.1 } else { text.len() };
                let part = text.get(start..end).unwrap_or("");
                if !part.is_empty() {
                    found.push(WordPiece::Text(part.to_owned()));
                }
            }
            other if number < to.0 => found.push(other.clone()),
            _ => {}
        }
    }
    found
}

/// Appends pieces to others, merging adjacent text.
fn append_pieces(pieces: &mut Vec<WordPiece>, more: &[WordPiece]) {
    for piece in more {
        match (pieces.last_mut(), piece) {
            (Some(WordPiece::Text(text)), WordPiece::Text(next)) => text.push_str(next),
            _ => pieces.push(piece.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::shell::word::{Word, WordBuilder};

    fn words(source: &str) -> Vec<String> {
        let mut builder = WordBuilder::default();
        builder.push_unquoted(source);
        builder.finish().choices().iter().map(Word::plain_text).collect()
    }

    #[test]
    fn plain_lists_become_the_words_that_bash_makes_of_them() {
        for (source, expected) in [
            ("src/{a,b}.rs", "src/a.rs src/b.rs"),
            ("{a,b}", "a b"),
            ("{a,b}{c,d}", "ac ad bc bd"),
            ("a{,b}", "a ab"),
            ("x,y{a,b},z", "x,ya,z x,yb,z"),
            ("--include=*.{rs,toml}", "--include=*.rs --include=*.toml"),
            ("{a,*}/b", "a/b */b"),
            ("a\\,b{c,d\\,e}", "a,bc a,bd,e"),
        ] {
            assert_eq!(words(source).join(" "), expected, "{source}");
        }
    }

    #[test]
    fn whatever_is_no_plain_list_stays_unknown() {
        for source in ["{a}", "{1..3}", "{a,{b,c}}", "{a,b", "a}b{c,d}", "{a,b}}", "{,}", "{~,a}", "~{a,b}x~", "{{a,b}"]
        {
            let mut builder = WordBuilder::default();
            builder.push_unquoted(source);
            assert_eq!(builder.finish(), Word::unknown(), "{source}");
        }
        let many = "{a,b}".repeat(7);
        assert_eq!(words(&many), [""], "too many to follow");
    }

    #[test]
    fn a_range_of_numbers_is_the_list_of_them() {
        for (source, list) in [("{1..3}", "{1,2,3}"), ("{2..0}", "{2,1,0}"), ("{9..10}", "{9,10}")] {
            assert_eq!(super::expand_range(source).as_deref(), Some(list));
        }
        for source in
            ["{1..1}", "{01..3}", "{1..64999}", "{1..65}", "{a..c}", "{-1..1}", "{1..5..2}", "{1...3}", "{1..}"]
        {
            assert_eq!(super::expand_range(source), None, "{source}");
        }
        assert!(super::expand_range("{1..64}").is_some());
    }
}
