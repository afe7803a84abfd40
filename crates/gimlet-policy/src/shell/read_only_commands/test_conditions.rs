//! Read-only forms of `test`, `[ … ]` and `[[ … ]]`. A word that could become an operator at run time, a test of a
//! variable's name (`-v`) and arithmetic on anything but numbers are refused, since the shell would evaluate their
//! values.

use crate::shell::word::{Word, WordPiece};

const FILE_TESTS: &[&str] =
    &["-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-S", "-p", "-b", "-c", "-g", "-k", "-u", "-O", "-G", "-N"];
const TEXT_TESTS: &[&str] = &["-n", "-z"];
const COMPARISONS: &[&str] = &["=", "==", "!=", "=~", "<", ">"];
const ARITHMETIC: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
const FILE_COMPARISONS: &[&str] = &["-nt", "-ot", "-ef"];

/// Returns the words that name files in a condition; `None` unless it only reads.
pub(super) fn condition_files(words: &[Word]) -> Option<Vec<&Word>> {
    let (name, rest) = words.split_first()?;
    let (inner, double) = match (name.value()?, rest.split_last()) {
        ("test", _) => (rest, false),
        ("[", Some((last, inner))) if last.value() == Some("]") => (inner, false),
        ("[[", Some((last, inner))) if last.value() == Some("]]") => (inner, true),
        _ => return None,
    };
    // In single brackets the number of words distinguishes operators from operands.
    let doubtful = inner.iter().any(Word::may_split) || (inner.len() > 4 && inner.iter().any(Word::is_dynamic));
    if !double && doubtful {
        return None;
    }
    let mut files = Vec::new();
    let mut rest = inner;
    // One simple condition after another; the operators that join them must be certain.
    loop {
        rest = skip_signs(rest, if double { &["!", "("] } else { &["!"] });
        rest = take_simple_test(rest, double, &mut files)?;
        rest = skip_signs(rest, if double { &[")"] } else { &[] });
        let joins: &[&str] = if double { &["&&", "||"] } else { &["-a", "-o"] };
        match rest.split_first() {
            None => return Some(files),
            Some((join, tail)) if is_one_of(join, joins) && !tail.is_empty() => rest = tail,
            Some(_) => return None,
        }
    }
}

fn skip_signs<'a>(words: &'a [Word], signs: &[&str]) -> &'a [Word] {
    &words[words.iter().take_while(|word| is_one_of(word, signs)).count()..]
}

fn is_one_of(word: &Word, texts: &[&str]) -> bool {
    word.value().is_some_and(|value| texts.contains(&value))
}

/// Parses one test at the front and returns the remaining words.
fn take_simple_test<'a>(words: &'a [Word], double: bool, files: &mut Vec<&'a Word>) -> Option<&'a [Word]> {
    match words {
        [left, operator, right, rest @ ..] if is_one_of(operator, COMPARISONS) => {
            // The shell does not read `-f = x` as a comparison.
            (is_operand(left) && !looks_like_operator(left) && is_operand(right)).then_some(rest)
        }
        [left, operator, right, rest @ ..] if is_one_of(operator, ARITHMETIC) => {
            // Only `[[` evaluates its operands.
            let fits =
                |word: &Word| if double { is_number(word) } else { is_operand(word) && !looks_like_operator(word) };
            (fits(left) && fits(right)).then_some(rest)
        }
        [left, operator, right, rest @ ..] if is_one_of(operator, FILE_COMPARISONS) => {
            files.extend([left, right]);
            Some(rest)
        }
        [test, file, rest @ ..] if is_one_of(test, FILE_TESTS) => {
            files.push(file);
            Some(rest)
        }
        [test, text, rest @ ..] if is_one_of(test, TEXT_TESTS) => is_operand(text).then_some(rest),
        // Zsh evaluates this operand.
        [test, descriptor, rest @ ..] if is_one_of(test, &["-t"]) => is_number(descriptor).then_some(rest),
        // Tests a shell option; in single brackets it joins two conditions.
        [test, option, rest @ ..] if double && is_one_of(test, &["-o"]) => (!option.is_dynamic()).then_some(rest),
        // A text that is not empty.
        [text] => is_operand(text).then_some(&[]),
        _ => None,
    }
}

fn is_operand(word: &Word) -> bool {
    !word.pieces().iter().any(|piece| matches!(piece, WordPiece::Tilde | WordPiece::Stream))
}

fn looks_like_operator(word: &Word) -> bool {
    word.value().is_some_and(|text| text.starts_with('-') || matches!(text, "!" | "(" | ")"))
}

/// Returns true for digits, or a value that is always a number.
fn is_number(word: &Word) -> bool {
    match word.pieces() {
        [WordPiece::Number] => true,
        [WordPiece::Text(text)] => text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}
