//! Partial parser for `sed` scripts: detects if they run something, by the command `e` or by the flag `e` of a
//! replacement. Any character may be the delimiter of a replacement, so the script has to be read from its beginning.

use std::iter::Peekable;
use std::str::Chars;

/// Commands that a `sed` script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SedExecution {
    Nothing,
    /// Commands that are written in it.
    Commands,
    /// Its input, or text derived from it. Scripts that cannot be parsed also count.
    Input,
}

/// Options of `sed` without a value, and those whose value is the rest of their word or the next one.
const PLAIN_OPTIONS: &str = "nrEsuz";
const LONG_OPTIONS: &[&str] = &[
    "--quiet",
    "--silent",
    "--regexp-extended",
    "--separate",
    "--unbuffered",
    "--null-data",
    "--zero-terminated",
    "--posix",
    "--debug",
    "--sandbox",
    "--follow-symlinks",
    "--in-place",
    "--line-length",
    "--help",
    "--version",
];

/// Returns what `sed` runs with these words. Words that are only known at run time are empty here, and count as
/// nothing.
pub(crate) fn sed_execution(arguments: &[&str]) -> SedExecution {
    let Some(scripts) = find_scripts(arguments) else { return SedExecution::Input };
    scripts.iter().map(|script| script_execution(script)).max().unwrap_or(SedExecution::Nothing)
}

/// Returns true if a word is a script that runs its input; one that cannot be parsed is not.
pub(crate) fn is_script_running_input(word: &str) -> bool {
    parse_both_ways(word).contains(&Some(SedExecution::Input))
}

/// Returns what one script runs. One that cannot be parsed may run anything.
fn script_execution(script: &str) -> SedExecution {
    parse_both_ways(script).into_iter().flatten().max().unwrap_or(SedExecution::Input)
}

/// Parses a script with both readings of a delimiter between brackets, on which sed implementations differ.
fn parse_both_ways(script: &str) -> [Option<SedExecution>; 2] {
    [true, false].map(|brackets| SedParser { rest: script.chars().peekable(), brackets }.parse_script())
}

/// Returns the scripts among the words; `None` if an option is unknown.
fn find_scripts<'a>(arguments: &[&'a str]) -> Option<Vec<&'a str>> {
    let (mut scripts, mut operands, mut from_file) = (Vec::new(), Vec::new(), false);
    let mut rest = arguments.iter().copied();
    while let Some(word) = rest.next() {
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            operands.push(word);
            continue;
        };
        if letters == "-" {
            operands.extend(rest.by_ref());
        } else if letters.starts_with('-') {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let meant = |long: &str| name.len() > 2 && long.starts_with(name);
            if meant("--expression") {
                scripts.extend(value.or_else(|| rest.next()));
            } else if meant("--file") {
                from_file = true;
                value.or_else(|| rest.next());
            } else if !LONG_OPTIONS.iter().any(|long| meant(long)) {
                return None;
            } else if meant("--line-length") && value.is_none() {
                rest.next();
            }
        } else {
            let end = letters.find(|letter: char| !PLAIN_OPTIONS.contains(letter));
            let Some((letter, value)) = end.and_then(|at| {
                let letter = letters[at..].chars().next()?;
                Some((letter, &letters[at + letter.len_utf8()..]))
            }) else {
                continue;
            };
            let attached = Some(value).filter(|value| !value.is_empty());
            match letter {
                'e' => scripts.extend(attached.or_else(|| rest.next())),
                'f' => {
                    from_file = true;
                    attached.or_else(|| rest.next());
                }
                'l' => drop(attached.or_else(|| rest.next())),
                'i' => {}
                _ => return None,
            }
        }
    }
    if scripts.is_empty() && !from_file {
        scripts.extend(operands.first());
    }
    Some(scripts)
}

struct SedParser<'s> {
    rest: Peekable<Chars<'s>>,
    /// True if the delimiter is an ordinary character between brackets.
    brackets: bool,
}

impl SedParser<'_> {
    /// Parses the script; returns `None` if it is invalid.
    fn parse_script(mut self) -> Option<SedExecution> {
        let mut found = SedExecution::Nothing;
        loop {
            self.skip_while(|c| c.is_whitespace() || c == ';');
            if self.rest.peek().is_none() {
                return Some(found);
            }
            self.skip_address()?;
            let Some(command) = self.rest.next() else { return Some(found) };
            match command {
                '{' | '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'F' | 'z' => {}
                '#' | 'r' | 'R' | 'w' | 'W' => self.skip_line(),
                ':' | 'b' | 't' | 'T' | 'v' => self.skip_while(|c| c != ';' && c != '\n'),
                'q' | 'Q' | 'l' | 'L' => self.skip_while(|c| c.is_ascii_digit() || c == ' '),
                'a' | 'i' | 'c' => self.skip_text(),
                'y' => {
                    let delimiter = self.rest.next()?;
                    self.skip_delimited(delimiter, false)?;
                    self.skip_delimited(delimiter, false)?;
                }
                's' => {
                    let delimiter = self.rest.next().filter(|c| !matches!(c, '\n' | '\\'))?;
                    self.skip_delimited(delimiter, self.brackets)?;
                    self.skip_delimited(delimiter, false)?;
                    found = found.max(self.parse_flags());
                }
                'e' => {
                    self.skip_while(|c| c == ' ' || c == '\t');
                    let bare = self.rest.peek().is_none_or(|c| matches!(c, '\n' | ';' | '}' | '#'));
                    // A shell expands it once more.
                    let expands = self.rest.clone().take_while(|c| *c != '\n').any(|c| matches!(c, '$' | '`'));
                    found = found.max(if bare || expands { SedExecution::Input } else { SedExecution::Commands });
                    self.skip_line();
                }
                _ => return None,
            }
        }
    }

    fn skip_while(&mut self, is_passed: impl Fn(char) -> bool) {
        while self.rest.next_if(|c| is_passed(*c)).is_some() {}
    }

    fn skip_line(&mut self) {
        self.skip_while(|c| c != '\n');
    }

    /// Skips text; lines that end in a backslash continue.
    fn skip_text(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' {
                self.rest.next();
            } else if c == '\n' {
                return;
            }
        }
    }

    /// Skips an address: `3`, `$`, `/x/I`, `\cxc`, two of them with a comma between, `1~2`, `2,+3`, and negations.
    fn skip_address(&mut self) -> Option<()> {
        loop {
            self.skip_while(|c| c.is_ascii_digit() || matches!(c, '$' | ',' | '+' | '~' | '!' | ' ' | '\t'));
            let delimiter = match self.rest.peek() {
                Some('/') => self.rest.next()?,
                Some('\\') => self.rest.nth(1)?,
                _ => return Some(()),
            };
            self.skip_delimited(delimiter, self.brackets)?;
            self.skip_while(|c| matches!(c, 'I' | 'M'));
        }
    }

    /// Skips to the position after the next delimiter.
    fn skip_delimited(&mut self, delimiter: char, brackets: bool) -> Option<()> {
        loop {
            match self.rest.next()? {
                c if c == delimiter => return Some(()),
                '\\' => drop(self.rest.next()?),
                '[' if brackets => self.skip_bracket()?,
                _ => {}
            }
        }
    }

    /// Skips to the position after the bracket that closes a character list; as the first character it does not close.
    fn skip_bracket(&mut self) -> Option<()> {
        self.rest.next_if_eq(&'^');
        self.rest.next_if_eq(&']');
        loop {
            match self.rest.next()? {
                ']' => return Some(()),
                '[' => {
                    // `[:alpha:]`
                    if let Some(kind) = self.rest.next_if(|c| matches!(c, ':' | '.' | '=')) {
                        self.skip_while(|c| c != kind);
                        self.rest.next();
                        self.rest.next_if_eq(&']');
                    }
                }
                _ => {}
            }
        }
    }

    /// Parses the flags of a replacement.
    fn parse_flags(&mut self) -> SedExecution {
        let mut found = SedExecution::Nothing;
        while let Some(flag) = self.rest.next_if(|c| c.is_ascii_digit() || "gpiImMew \t".contains(*c)) {
            match flag {
                'e' => found = SedExecution::Input,
                'w' => self.skip_line(),
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_wherever_they_stand() {
        for script in [
            "1e rm x",
            "1 e rm x",
            "e rm x",
            "$e rm x",
            "{e rm x\n}",
            "/a/e rm x",
            "/a/Ie rm x",
            "\\xaxe rm x",
            "\\eaee rm x",
            "1,2e rm x",
            "1~2e rm x",
            "0,/a/!e rm x",
            "p;e rm x",
            "s/a/b/;e rm x",
            "s/a/b/w x\ne rm x",
            "y/a/b/;e rm x",
            "r x\ne rm x",
            "aX\ne rm x",
            ":a;e rm x",
            "s/[/]/b/;e rm x",
            "s1a1b1;1e rm x",
        ] {
            assert_eq!(script_execution(script), SedExecution::Commands, "{script}");
        }
    }

    #[test]
    fn the_flag_is_found_behind_any_delimiter_and_among_any_flags() {
        for script in [
            "s/a/b/e",
            "s/a/b/ge",
            "s/a/b/ e",
            "s/a/b/2pe",
            "s/a/b/mIe",
            "s/a/b/ew x",
            "seaebee",
            "s1a1rm x1e",
            "srarm xre",
            "s,a,b,e",
            "s|[^|]*|b|e",
            "s/[^/]*$/b/e",
            "s/a\\/b/c/e",
            "s/a/b\\\nc/e",
            "2,5{s/a/b/e}",
            "e",
            "p;e",
            "s/a/b/;e;p",
            "1e $x",
            "1e `x`",
            // Invalid scripts.
            "s/a",
            "?",
        ] {
            assert_eq!(script_execution(script), SedExecution::Input, "{script}");
        }
    }

    #[test]
    fn other_scripts_run_nothing() {
        for script in [
            "s/rm/cp/",
            "s/e/e/g",
            "seaebeg",
            "s/[^/]*$//",
            "s/[[:space:]]e/x/",
            "s/[]e]/x/g",
            "/e/p",
            "/e/,/f/d",
            "1,5p",
            "$!N;s/\\n/ /;P;D",
            "aend e",
            "i\\\ne rm x",
            "y/abe/xye/",
            "/x/r e",
            "w e",
            "s/a/b/w e",
            ":e;be",
            "# e",
            "q5",
            "",
        ] {
            assert_eq!(script_execution(script), SedExecution::Nothing, "{script}");
        }
    }

    #[test]
    fn scripts_are_told_from_files_and_values() {
        for (words, expected) in [
            (&["s/a/b/", "e"][..], SedExecution::Nothing),
            (&["-n", "1p", "e"], SedExecution::Nothing),
            (&["-i", "s/a/b/", "e"], SedExecution::Nothing),
            (&["-i.e", "s/a/b/", "e"], SedExecution::Nothing),
            (&["-f", "e", "e"], SedExecution::Nothing),
            (&["-ne", "e", "x"], SedExecution::Input),
            (&["-nee", "x"], SedExecution::Input),
            (&["-e", "p", "-e", "1e rm", "x"], SedExecution::Commands),
            (&["--expression=e", "x"], SedExecution::Input),
            (&["--expr", "e", "x"], SedExecution::Input),
            (&["x", "-e", "e"], SedExecution::Input),
            (&["-s", "--", "e"], SedExecution::Input),
            (&["--what", "p"], SedExecution::Input),
            (&["-l", "5", "p", "e"], SedExecution::Nothing),
        ] {
            assert_eq!(sed_execution(words), expected, "{words:?}");
        }
    }
}
