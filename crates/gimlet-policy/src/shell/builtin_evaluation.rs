//! Builtins that treat some of their words as variable names or arithmetic: bash evaluates a subscript in such a word
//! and runs the substitutions in it. A few builtins run a word as code, which is treated alike.

use super::word::{Word, WordPiece};
use super::wrappers::base_name;

/// Returns true if a builtin evaluates more of its words than a plain name.
pub(crate) fn evaluates_words(words: &[Word]) -> bool {
    let evaluated = |word: &&Word| word.value().is_none_or(|name| name.contains('['));
    evaluated_words(words).iter().any(evaluated) || runs_words_as_code(words)
}

/// Returns true if the words are arithmetic, which evaluates the values of all names in it.
pub(crate) fn is_arithmetic(words: &[Word]) -> bool {
    words.first().and_then(Word::value) == Some("let")
}

/// Returns the names that a builtin assigns or unsets; a name attached to an option is returned with it.
pub(crate) fn variables_set(words: &[Word]) -> Vec<&Word> {
    match words.first().and_then(Word::value) {
        Some("printf" | "wait" | "unset" | "getopts" | "read") => evaluated_words(words),
        Some("mapfile" | "readarray") => BuiltinOptions::parse(&words[1..], "cdnOsuC").operands,
        _ => Vec::new(),
    }
}

/// Returns true if a builtin evaluates words that are only known at run time.
pub(crate) fn evaluates_unknown_words(words: &[Word]) -> bool {
    let unseen = |piece: &WordPiece| !matches!(piece, WordPiece::Text(_) | WordPiece::Glob(_));
    evaluated_words(words).iter().any(|word| word.pieces().iter().any(unseen))
}

/// Returns the words that a builtin treats as names or arithmetic.
fn evaluated_words(words: &[Word]) -> Vec<&Word> {
    let Some((name, arguments)) = words.split_first() else { return Vec::new() };
    let mut found = match name.value().map(base_name) {
        Some("test" | "[" | "[[") => {
            let tested = arguments.windows(2).filter(|pair| matches!(pair[0].value(), Some("-v" | "-R")));
            return tested.map(|pair| &pair[1]).collect();
        }
        Some("let") => return arguments.iter().collect(),
        Some("printf") => BuiltinOptions::parse(arguments, "v").values_of('v'),
        Some("wait") => BuiltinOptions::parse(arguments, "p").values_of('p'),
        Some("unset") => BuiltinOptions::parse(arguments, "").operands,
        Some("getopts") => BuiltinOptions::parse(arguments, "").operands.into_iter().skip(1).take(1).collect(),
        Some("read") => {
            let options = BuiltinOptions::parse(arguments, "adinNptu");
            let mut names = options.values_of('a');
            names.extend(options.operands);
            names
        }
        _ => return Vec::new(),
    };
    // After a word that may be an option, any other word may be a name.
    if arguments.iter().any(Word::is_dynamic) {
        let subscript = |text: &str| text.contains('[') && text.contains(['$', '`']);
        found.extend(arguments.iter().filter(|word| word.value().is_some_and(subscript)));
    }
    found
}

/// Returns true if a builtin runs one of its words as code, or could because a word is only known at run time.
fn runs_words_as_code(words: &[Word]) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    let flagged = |letters: &[char]| {
        let told = |text: &str| text.starts_with('-') && text.contains(letters);
        arguments.iter().any(|word| word.value().is_none_or(told))
    };
    match name.value() {
        Some("mapfile" | "readarray") => flagged(&['C']),
        Some("compgen") => flagged(&['C', 'F', 'W']),
        _ => false,
    }
}

/// Classified words of a builtin.
struct BuiltinOptions<'w> {
    /// Options with a value that is a separate word or attached; an attached one counts as its whole word.
    values: Vec<(char, &'w Word)>,
    operands: Vec<&'w Word>,
}

impl<'w> BuiltinOptions<'w> {
    /// Classifies the arguments; `valued` are the option letters that take a value.
    fn parse(arguments: &'w [Word], valued: &str) -> Self {
        let mut found = Self { values: Vec::new(), operands: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let text = word.masked();
            let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                found.operands.push(word);
                break;
            };
            if letters == "-" {
                break;
            }
            let Some((at, letter)) = letters.char_indices().find(|(_, letter)| valued.contains(*letter)) else {
                continue;
            };
            let attached = at + letter.len_utf8() < letters.len();
            found.values.extend(if attached { Some(word) } else { rest.next() }.map(|value| (letter, value)));
        }
        found.operands.extend(rest);
        found
    }

    fn values_of(&self, letter: char) -> Vec<&'w Word> {
        self.values.iter().filter(|(valued, _)| *valued == letter).map(|(_, word)| *word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluates(text: &str) -> bool {
        evaluates_words(&text.split(' ').map(Word::from_literal).collect::<Vec<_>>())
    }

    #[test]
    fn names_with_subscripts_are_told_from_other_words() {
        for text in [
            "printf -v a[$(x)] y",
            "printf -va[0] y",
            "printf -va -v b[0] y",
            "read a[0]",
            "read -r -p [y/n] a[0]",
            "read -rp ok a b[0]",
            "read -n1 a[0]",
            "let a[0]=1",
            "unset a[0]",
            "unset -v b a[0]",
            "getopts ab a[0]",
            "wait -n -p a[0]",
            "mapfile -C x -c 1 a",
            "readarray -tC x a",
            "compgen -W $(x)",
        ] {
            assert!(evaluates(text), "{text}");
        }
        for text in [
            "printf %s[1] a[0]",
            "printf -- -v a[0]",
            "read -p [y/n] answer",
            "read -d [ a",
            "read -rp[y/n] answer",
            "let i=i+1",
            "unset a b",
            "getopts [ab] opt",
            "wait -n 1",
            "mapfile -t a",
            "echo a[0]",
        ] {
            assert!(!evaluates(text), "{text}");
        }
    }
}
