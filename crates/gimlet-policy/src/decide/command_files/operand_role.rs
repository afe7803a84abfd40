//! Words of writing commands that are not written: the sources of copies, and the substitutions of editors. Only where
//! every word is known and every option too; otherwise all of them count as written.

use crate::shell::Word;

/// Use that a command makes of one of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandRole {
    Written,
    Copied,
    /// It names no file.
    Text,
}

/// Letters of `cp` and `install` that take no value and create no links: a write through a link changes its source.
const COPY_LETTERS: &str = "abcCdDfHiLnNpPrRTuvxZ";

/// Returns the role of each word after the name of a command that writes.
pub(super) fn operand_roles(name: &str, arguments: &[Word]) -> Vec<OperandRole> {
    let mut uses = vec![OperandRole::Written; arguments.len()];
    let known: Option<Vec<&str>> = arguments.iter().map(Word::value).collect();
    match (name, known) {
        ("cp" | "install", Some(known)) => {
            for at in copy_source_indices(&known) {
                uses[at] = OperandRole::Copied;
            }
        }
        ("sed", Some(known)) => {
            if let Some(at) = sed_script_index(&known).filter(|at| is_plain_substitution(known[*at])) {
                uses[at] = OperandRole::Text;
            }
        }
        ("perl" | "ruby", Some(known)) => {
            for at in 1..known.len() {
                if matches!(known[at - 1], "-e" | "-pe" | "-ne") && is_plain_substitution(known[at]) {
                    uses[at] = OperandRole::Text;
                }
            }
        }
        _ => {}
    }
    uses
}

/// Returns the positions of a copy's sources: every operand but the last.
fn copy_source_indices(known: &[&str]) -> Vec<usize> {
    let is_operand = |word: &str| !word.starts_with('-') || word == "-";
    let is_plain = |word: &str| {
        let letters = word.trim_start_matches('-');
        is_operand(word) || (!word.starts_with("--") && letters.chars().all(|letter| COPY_LETTERS.contains(letter)))
    };
    if !known.iter().all(|word| is_plain(word)) {
        return Vec::new();
    }
    let mut operands: Vec<usize> = (0..known.len()).filter(|at| is_operand(known[*at])).collect();
    operands.pop();
    operands
}

/// Returns the position of the script of `sed`: after `-e`, or the first operand where no option holds one.
fn sed_script_index(known: &[&str]) -> Option<usize> {
    let options: Vec<&str> = known.iter().copied().filter(|word| word.starts_with('-')).collect();
    let is_plain =
        |option: &&str| matches!(*option, "-i" | "-n" | "-E" | "-r" | "-s" | "-z" | "-u") || is_backup_suffix(option);
    if options.iter().all(is_plain) {
        return known.iter().position(|word| !word.starts_with('-'));
    }
    let other: Vec<usize> =
        (0..known.len()).filter(|at| known[*at].starts_with('-') && !is_plain(&known[*at])).collect();
    match other.as_slice() {
        [at] if known[*at] == "-e" => (at + 1 < known.len()).then_some(at + 1),
        _ => None,
    }
}

/// Returns true for `-i.bak`, whose letters are a name and not options.
fn is_backup_suffix(option: &str) -> bool {
    option.strip_prefix("-i").is_some_and(|suffix| suffix.starts_with('.'))
}

/// Returns true for `s/a/b/g` and nothing else: a flag could write or run something, and so could a second command.
fn is_plain_substitution(script: &str) -> bool {
    let mut letters = script.chars();
    let (Some('s'), Some(mark)) = (letters.next(), letters.next()) else { return false };
    if mark.is_alphanumeric() || mark.is_whitespace() || mark == '\\' {
        return false;
    }
    let mut parts = letters.as_str().split(mark);
    let (Some(from), Some(to), Some(flags), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let plain = |text: &str| !text.contains(['\n', '\\', '$', '@', '`']);
    plain(from) && plain(to) && flags.chars().all(|flag| matches!(flag, 'g' | 'i' | 'I') || flag.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles_of(command: &str) -> String {
        let words: Vec<Word> = command.split(' ').map(Word::from_literal).collect();
        let letter = |used: &OperandRole| match used {
            OperandRole::Written => 'w',
            OperandRole::Copied => 'r',
            OperandRole::Text => 't',
        };
        operand_roles(command.split(' ').next().unwrap(), &words[1..]).iter().map(letter).collect()
    }

    #[test]
    fn only_operands_that_are_certainly_not_written_are_excluded() {
        for (command, expected) in [
            ("cp a b", "rw"),
            ("cp -r a b c", "wrrw"),
            ("install -D a b", "wrw"),
            ("cp -t d a b", "wwww"),
            ("cp --target-directory=d a b", "www"),
            ("cp -l a b", "www"),
            ("cp -as a b", "www"),
            ("cp a b -S c", "wwww"),
            ("mv a b", "ww"),
            ("ln -s a b", "www"),
            ("sed -i s/a/b/ f", "wtw"),
            ("sed -i.bak -e s/a/b/g f", "wwtw"),
            ("sed -i -f s/a/b/ f", "wwww"),
            ("sed -i -e s/a/b/ -e s/c/d/ f", "wwwwww"),
            ("sed -ie s/a/b/ f", "www"),
            ("sed -i s/a/b/w f", "www"),
            ("sed -i s/a/b/e f", "www"),
            ("sed -i s/a/b f", "www"),
            ("sed -i d/a f", "www"),
            ("perl -pi -e s/a/b/ f", "wwtw"),
            ("perl -pi -e s/a/$b/ f", "wwww"),
            ("perl -pie s/a/b/ f", "www"),
        ] {
            assert_eq!(roles_of(command), expected, "{command}");
        }
    }
}
