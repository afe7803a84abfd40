//! `test`, `[ … ]` and `[[ … ]]`. Their forms are few; a word that could turn into an operator at run time, a test of a
//! variable's name (`-v`) and arithmetic on anything but numbers are refused, for the shell would evaluate what it finds.

use crate::shell::word::{Piece, Word};

const FILE_TESTS: &[&str] =
    &["-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-S", "-p", "-b", "-c", "-g", "-k", "-u", "-O", "-G", "-N"];
const TEXT_TESTS: &[&str] = &["-n", "-z"];
const COMPARISONS: &[&str] = &["=", "==", "!=", "=~", "<", ">"];
const ARITHMETIC: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
const FILE_COMPARISONS: &[&str] = &["-nt", "-ot", "-ef"];

/// The words that name files in a condition that only looks.
pub(super) fn files(words: &[Word]) -> Option<Vec<&Word>> {
    let (name, rest) = words.split_first()?;
    let (inner, double) = match (name.value()?, rest.split_last()) {
        ("test", _) => (rest, false),
        ("[", Some((last, inner))) if last.value() == Some("]") => (inner, false),
        ("[[", Some((last, inner))) if last.value() == Some("]]") => (inner, true),
        _ => return None,
    };
    // Between brackets of one kind it is the number of words that tells operators from operands.
    let doubtful = inner.iter().any(Word::may_split) || (inner.len() > 4 && inner.iter().any(Word::is_dynamic));
    if !double && doubtful {
        return None;
    }
    let mut files = Vec::new();
    let mut rest = inner;
    // One simple condition after the other; what joins them is never open to doubt.
    loop {
        rest = skip(rest, if double { &["!", "("] } else { &["!"] });
        rest = simple(rest, double, &mut files)?;
        rest = skip(rest, if double { &[")"] } else { &[] });
        let joins: &[&str] = if double { &["&&", "||"] } else { &["-a", "-o"] };
        match rest.split_first() {
            None => return Some(files),
            Some((join, tail)) if is(join, joins) && !tail.is_empty() => rest = tail,
            Some(_) => return None,
        }
    }
}

fn skip<'a>(words: &'a [Word], signs: &[&str]) -> &'a [Word] {
    &words[words.iter().take_while(|word| is(word, signs)).count()..]
}

fn is(word: &Word, texts: &[&str]) -> bool {
    word.value().is_some_and(|value| texts.contains(&value))
}

/// Takes one test off the front.
fn simple<'a>(words: &'a [Word], double: bool, files: &mut Vec<&'a Word>) -> Option<&'a [Word]> {
    match words {
        [left, operator, right, rest @ ..] if is(operator, COMPARISONS) => {
            // The shell takes `-f = x` for something else than a comparison.
            (operand(left) && !looks_like_operator(left) && operand(right)).then_some(rest)
        }
        [left, operator, right, rest @ ..] if is(operator, ARITHMETIC) => {
            // Only `[[` evaluates what it compares.
            let fits = |word: &Word| if double { number(word) } else { operand(word) && !looks_like_operator(word) };
            (fits(left) && fits(right)).then_some(rest)
        }
        [left, operator, right, rest @ ..] if is(operator, FILE_COMPARISONS) => {
            files.extend([left, right]);
            Some(rest)
        }
        [test, file, rest @ ..] if is(test, FILE_TESTS) => {
            files.push(file);
            Some(rest)
        }
        [test, text, rest @ ..] if is(test, TEXT_TESTS) => operand(text).then_some(rest),
        // Zsh evaluates what it is given here.
        [test, descriptor, rest @ ..] if is(test, &["-t"]) => number(descriptor).then_some(rest),
        // Whether an option of the shell is on; in single brackets it joins two conditions.
        [test, option, rest @ ..] if double && is(test, &["-o"]) => (!option.is_dynamic()).then_some(rest),
        // A text that is not empty.
        [text] => operand(text).then_some(&[]),
        _ => None,
    }
}

fn operand(word: &Word) -> bool {
    !word.pieces().iter().any(|piece| matches!(piece, Piece::Tilde | Piece::Stream))
}

fn looks_like_operator(word: &Word) -> bool {
    word.value().is_some_and(|text| text.starts_with('-') || matches!(text, "!" | "(" | ")"))
}

/// Digits, or a value that is always a number.
fn number(word: &Word) -> bool {
    match word.pieces() {
        [Piece::Number] => true,
        [Piece::Text(text)] => text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}
