//! Partial parser for `awk` programs: detects commands that are run but not written in the program, such as
//! `system($0)` or a pipe to a shell.

use std::iter::Peekable;
use std::str::Chars;

use super::shell_programs::is_shell;
use super::wrappers::base_name;

#[derive(Clone, Debug, PartialEq, Eq)]
enum AwkToken {
    Text(String),
    Name(String),
    /// A number, or an expression between slashes.
    Value,
    Sign(char),
}

impl AwkToken {
    fn is_value(&self) -> bool {
        match self {
            AwkToken::Text(_) | AwkToken::Value => true,
            AwkToken::Name(name) => !matches!(
                name.as_str(),
                "print" | "printf" | "return" | "in" | "if" | "else" | "while" | "for" | "do" | "case" | "getline"
            ),
            AwkToken::Sign(sign) => matches!(sign, ')' | ']'),
        }
    }

    /// Returns true for a command that is written out and is not a shell that reads others.
    fn is_literal_command(&self) -> bool {
        let AwkToken::Text(text) = self else { return false };
        let words: Vec<&str> = text.split_whitespace().collect();
        let reads = words.iter().any(|word| is_shell(base_name(word)));
        !text.contains(['\\', '$', '`']) && (!reads || words.contains(&"-c"))
    }
}

/// Returns true if `awk` with these words runs a command that is not written in them. The program is the first word
/// that is neither an option nor an option's value, unless an option supplies it.
pub(crate) fn runs_hidden_command(arguments: &[&str]) -> bool {
    let mut rest = arguments.iter().copied();
    let (mut operands, mut brought) = (Vec::new(), false);
    while let Some(word) = rest.next() {
        match word {
            "--" => operands.extend(rest.by_ref()),
            "-F" | "-v" | "-i" | "-l" | "--field-separator" | "--assign" | "--include" | "--load" => drop(rest.next()),
            "-f" | "-E" | "--file" | "--exec" => {
                brought = true;
                rest.next();
            }
            "-e" | "--source" => {
                brought = true;
                if rest.next().is_some_and(has_hidden_command) {
                    return true;
                }
            }
            option if option.starts_with('-') && option.len() > 1 => {
                brought |= option.starts_with("-f") || option.starts_with("--file=");
                let code = option.strip_prefix("--source=").or_else(|| option.strip_prefix("-e"));
                if code.is_some_and(has_hidden_command) {
                    return true;
                }
            }
            operand => operands.push(operand),
        }
    }
    !brought && operands.first().is_some_and(|program| has_hidden_command(program))
}

/// Returns true if a program runs a command that is not written in it.
fn has_hidden_command(program: &str) -> bool {
    let tokens = tokenize(program);
    let at = |at: usize| tokens.get(at);
    let sign = |token: Option<&AwkToken>, sign: char| token == Some(&AwkToken::Sign(sign));
    (0..tokens.len()).any(|here| match &tokens[here] {
        AwkToken::Name(name) if name == "system" => {
            let shown = at(here + 2).is_some_and(AwkToken::is_literal_command);
            !(sign(at(here + 1), '(') && shown && sign(at(here + 3), ')'))
        }
        AwkToken::Sign('|') => {
            let next = here + 1 + usize::from(sign(at(here + 1), '&'));
            let before = |back: usize| here.checked_sub(back).and_then(at);
            if at(next) == Some(&AwkToken::Name("getline".to_owned())) {
                let alone = !before(2).is_some_and(AwkToken::is_value);
                return !(before(1).is_some_and(AwkToken::is_literal_command) && alone);
            }
            let goes_on = at(next + 1).is_some_and(|more| more.is_value() || matches!(more, AwkToken::Sign('$' | '(')));
            !at(next).is_some_and(AwkToken::is_literal_command) || goes_on
        }
        // Indirect call: a function named by a variable.
        AwkToken::Sign('@') => {
            !matches!(at(here + 1), Some(AwkToken::Name(name)) if name == "include" || name == "load")
        }
        _ => false,
    })
}

fn tokenize(program: &str) -> Vec<AwkToken> {
    let mut found: Vec<AwkToken> = Vec::new();
    let mut rest = program.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => found.push(AwkToken::Text(read_delimited(&mut rest, '"', false))),
            '/' if !found.last().is_some_and(AwkToken::is_value) => {
                read_delimited(&mut rest, '/', true);
                found.push(AwkToken::Value);
            }
            '#' => while rest.next_if(|c| *c != '\n').is_some() {},
            '|' if rest.next_if_eq(&'|').is_some() => found.push(AwkToken::Sign(';')),
            c if c.is_ascii_digit() => {
                while rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '.').is_some() {}
                found.push(AwkToken::Value);
            }
            c if c.is_alphabetic() || c == '_' => {
                let mut name = String::from(c);
                while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                found.push(AwkToken::Name(name));
            }
            '\n' => found.push(AwkToken::Sign(';')),
            c if c.is_whitespace() => {}
            c => found.push(AwkToken::Sign(c)),
        }
    }
    found
}

/// Reads up to the delimiter and returns the text before it.
fn read_delimited(rest: &mut Peekable<Chars<'_>>, end: char, brackets: bool) -> String {
    let (mut text, mut inside) = (String::new(), false);
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                text.push(c);
                text.extend(rest.next());
                continue;
            }
            c if c == end && !inside => break,
            '[' => inside = brackets,
            ']' => inside = false,
            _ => {}
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_are_put_together_or_fed_are_unseen() {
        for program in [
            "{ system($0) }",
            "{ system(\"mkdir \" $1) }",
            "{ system (\"r\" \"m x\") }",
            "{ print | \"sh\" }",
            "{ print | \"/bin/bash -s\" }",
            "{ print | $1 }",
            "{ print | (\"r\" \"m\") }",
            "{ print | \"r\" \"m\" }",
            "{ print |& cmd }",
            "BEGIN { $0 | getline x }",
            "BEGIN { \"r\" \"m\" | getline }",
            "BEGIN { (\"r\" \"m\") | getline }",
            "/a|b/ { system($0) }",
            "{ x = 1 / 2; print | y }",
            "BEGIN { f = \"system\"; @f(\"x\") }",
            "BEGIN { system(\"$0\") }",
            "BEGIN { system(\"r\\155 x\") }",
        ] {
            assert!(has_hidden_command(program) && runs_hidden_command(&[program, "f"]), "{program}");
            assert!(runs_hidden_command(&["-F", "|", program]) && runs_hidden_command(&["-e", program]), "{program}");
        }
    }

    #[test]
    fn commands_that_are_written_out_and_expressions_are_seen() {
        for program in [
            "{ print $1 }",
            "/foo|bar/ { print }",
            "$1 ~ /a|b/",
            "$1 ~ /[/|]x|y/ || $2 { print }",
            "{ print | \"sort -n\" }",
            "{ print |& \"sort\"; close(\"sort\") }",
            "BEGIN { \"date\" | getline now; print now }",
            "BEGIN { system(\"ls -l\") }",
            "{ print \"a|b\" }",
            "# a | b\n{ print }",
            "@include \"x.awk\"\n{ print }",
            "",
        ] {
            assert!(
                !has_hidden_command(program) && !runs_hidden_command(&["-F|", "-v", "x=|", program, "|"]),
                "{program}"
            );
        }
    }
}
