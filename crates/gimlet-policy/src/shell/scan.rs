//! Linear scan of shell text for cases that the grammar cannot parse: it finds every word list that could be a command,
//! preferring too many to too few. Its findings may only deny or prompt; they must never allow anything.

mod variable_bindings;

use std::iter::Peekable;
use std::str::CharIndices;

use super::word::{Word, WordBuilder, WordPiece};
pub(crate) use variable_bindings::{VariableBinding, find_bindings};
use variable_bindings::{default_word, element_binding, list_name, split_assignment};

/// Maximum nesting of substitutions; deeper ones are read flat.
const DEEPEST: usize = 256;

/// Words that introduce a command without being one.
const RESERVED: &[&str] = &[
    "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "!", "{", "}", "time", "coproc", "case",
    "esac", "in", "function",
];

/// Returns every word list that could be a command, reading the text as a whole and each line by itself (so that a
/// stray quote hides nothing beyond its line).
pub(crate) fn scan_commands(text: &str) -> Vec<Vec<Word>> {
    let mut found = scan_every_reading(text, false, &mut Vec::new());
    if text.contains('\n') {
        text.lines().for_each(|line| found.extend(scan_every_reading(line, false, &mut Vec::new())));
    }
    found
}

/// Scans with both readings of single quotes inside `${…}`, which depend on the context.
fn scan_every_reading(text: &str, keep_prefixes: bool, elements: &mut Vec<VariableBinding>) -> Vec<Vec<Word>> {
    let scanner = || CommandScanner { keep_prefixes, ..CommandScanner::default() };
    let mut found = scanner().scan_text(text, elements);
    if text.contains("${") && text.contains('\'') {
        found.extend(CommandScanner { quotes_are_literal_in_braces: true, ..scanner() }.scan_text(text, elements));
    }
    found
}

/// Returns the words of a text that is one plain run of static words; `None` for anything else.
pub(crate) fn parse_static_words(text: &str) -> Option<Vec<String>> {
    if has_active_character(text) {
        return None;
    }
    let mut commands =
        CommandScanner { keep_prefixes: true, ..CommandScanner::default() }.scan_text(text, &mut Vec::new());
    let words = if commands.len() == 1 { commands.pop()? } else { return None };
    words.iter().map(|word| word.value().map(str::to_owned)).collect()
}

/// Returns true if a character has a special meaning to the shell: operators outside quotes, expansions also inside
/// double ones. A text with unclosed quotes counts, too.
fn has_active_character(text: &str) -> bool {
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let acts = match (quote, letter) {
            (_, '\n' | '\r') | (None | Some('"'), '`' | '$') => true,
            (Some('"'), '\\') => letters.next().is_none_or(|next| next != '"' && next != '\\'),
            (None, '\\') => letters.next().is_none(),
            (None, letter) => ";&|<>()#".contains(letter),
            _ => false,
        };
        if acts {
            return true;
        }
        quote = match quote {
            None if letter == '\'' || letter == '"' => Some(letter),
            Some(open) if open == letter => None,
            quote => quote,
        };
    }
    quote.is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Text,
    Parenthesis,
    Backtick,
    Brace,
}

#[derive(Debug)]
struct ScanFrame {
    kind: FrameKind,
    words: Vec<Word>,
    word: WordBuilder,
    in_quotes: bool,
    /// True if the next word is the target of a redirection.
    target: bool,
    /// Name of the list whose elements are here.
    list_of: Option<String>,
}

impl ScanFrame {
    fn new(kind: FrameKind) -> Self {
        Self { kind, words: Vec::new(), word: WordBuilder::default(), in_quotes: false, target: false, list_of: None }
    }
}

#[derive(Debug, Default)]
struct CommandScanner {
    found: Vec<Vec<Word>>,
    /// Elements of lists that are assigned to names.
    elements: Vec<VariableBinding>,
    stack: Vec<ScanFrame>,
    /// True if reserved words and assignments are kept in place.
    keep_prefixes: bool,
    /// True if single quotes inside `${…}` are ordinary characters.
    quotes_are_literal_in_braces: bool,
}

type CharInput<'a> = Peekable<CharIndices<'a>>;

impl CommandScanner {
    fn scan_text(mut self, text: &str, elements: &mut Vec<VariableBinding>) -> Vec<Vec<Word>> {
        self.stack.push(ScanFrame::new(FrameKind::Text));
        let mut input = text.char_indices().peekable();
        while let Some((at, c)) = input.next() {
            if self.top_frame().in_quotes {
                self.scan_quoted(text, at, c, &mut input);
            } else {
                self.scan_unquoted(text, at, c, &mut input);
            }
        }
        while self.stack.len() > 1 {
            self.close_frame();
        }
        self.end_command();
        elements.append(&mut self.elements);
        self.found
    }

    fn top_frame(&mut self) -> &mut ScanFrame {
        if self.stack.is_empty() {
            self.stack.push(ScanFrame::new(FrameKind::Text));
        }
        let last = self.stack.len() - 1;
        &mut self.stack[last]
    }

    fn scan_quoted(&mut self, text: &str, at: usize, c: char, input: &mut CharInput<'_>) {
        match c {
            '"' => self.top_frame().in_quotes = false,
            '\\' => {
                let length = input.next().map_or(1, |(_, escaped)| 1 + escaped.len_utf8());
                self.top_frame().word.push_double_quoted(&text[at..at + length]);
            }
            '`' => self.scan_backtick(at),
            '$' => self.scan_dollar(text, at, input),
            _ => self.top_frame().word.push_double_quoted(&text[at..at + c.len_utf8()]),
        }
    }

    fn scan_unquoted(&mut self, text: &str, at: usize, c: char, input: &mut CharInput<'_>) {
        match c {
            '\'' if self.quotes_are_literal_in_braces && self.top_frame().kind == FrameKind::Brace => {
                self.top_frame().word.push_quoted("'")
            }
            '\'' => {
                let end = text[at + 1..].find('\'').map_or(text.len(), |end| at + 1 + end);
                self.top_frame().word.push_quoted(&text[at + 1..end]);
                skip_to(input, end + 1);
            }
            '"' => {
                self.top_frame().in_quotes = true;
                self.top_frame().word.push_quoted("");
            }
            '\\' => {
                let length = input.next().map_or(1, |(_, escaped)| 1 + escaped.len_utf8());
                self.top_frame().word.push_unquoted(&text[at..at + length]);
            }
            '$' => self.scan_dollar(text, at, input),
            '`' => self.scan_backtick(at),
            ' ' | '\t' => self.end_word(),
            '\n' | ';' | '|' => self.end_command(),
            '&' if input.peek().is_some_and(|(_, next)| *next == '>') => self.end_word(),
            '&' => self.end_command(),
            '(' => {
                let list_of = list_name(self.top_frame().word.pieces());
                if self.open_frame(FrameKind::Parenthesis) {
                    self.top_frame().list_of = list_of;
                }
            }
            ')' => self.close_frame_of(FrameKind::Parenthesis),
            '}' if self.top_frame().kind == FrameKind::Brace => self.close_frame_of(FrameKind::Brace),
            '<' | '>' => self.scan_redirection(input),
            '#' if !self.top_frame().word.is_started() => {
                let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
                skip_to(input, end);
            }
            _ => self.top_frame().word.push_unquoted(&text[at..at + c.len_utf8()]),
        }
    }

    fn scan_dollar(&mut self, text: &str, at: usize, input: &mut CharInput<'_>) {
        let quoted = self.top_frame().in_quotes;
        match input.peek().map(|(_, next)| *next) {
            Some('(') => {
                input.next();
                // A number is not command output.
                let arithmetic = text[at..].starts_with("$((");
                self.top_frame().word.push_expansion(if arithmetic {
                    WordPiece::Unknown
                } else {
                    WordPiece::Output(at)
                });
                self.open_frame(FrameKind::Parenthesis);
            }
            Some('{') => match braced_name(&text[at + 2..]) {
                Some(name) => {
                    self.top_frame().word.push_expansion(WordPiece::Variable(name.to_owned()));
                    skip_to(input, at + 3 + name.len());
                }
                None => {
                    input.next();
                    self.top_frame().word.push_expansion(WordPiece::Unknown);
                    self.open_frame(FrameKind::Brace);
                }
            },
            Some('\'') if !quoted => {
                let end = find_ansi_c_end(text.as_bytes(), at + 2).unwrap_or(text.len());
                self.top_frame().word.push_ansi_c(&text[at + 2..end]);
                skip_to(input, end + 1);
            }
            Some(next) if next.is_ascii_alphabetic() || next == '_' => {
                let rest = &text[at + 1..];
                let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                self.top_frame().word.push_expansion(WordPiece::Variable(rest[..length].to_owned()));
                skip_to(input, at + 1 + length);
            }
            Some(next) if next.is_ascii_digit() || "@*#?-$!".contains(next) => {
                input.next();
                self.top_frame().word.push_expansion(WordPiece::Unknown);
            }
            _ => self.top_frame().word.push_quoted("$"),
        }
    }

    fn scan_backtick(&mut self, at: usize) {
        if self.top_frame().kind == FrameKind::Backtick {
            self.close_frame();
        } else {
            self.top_frame().word.push_expansion(WordPiece::Output(at));
            self.open_frame(FrameKind::Backtick);
        }
    }

    fn scan_redirection(&mut self, input: &mut CharInput<'_>) {
        // A process substitution is part of the word that it touches.
        if self.top_frame().word.is_started() && input.next_if(|(_, c)| *c == '(').is_some() {
            self.top_frame().word.push_expansion(WordPiece::Stream);
            self.open_frame(FrameKind::Parenthesis);
            return;
        }
        // Digits that touch the operator are a descriptor, not a word.
        let number = self.top_frame().word.clone().finish();
        if number.value().is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())) {
            self.top_frame().word = WordBuilder::default();
        }
        self.end_word();
        while input.next_if(|(_, c)| matches!(c, '<' | '>' | '&' | '|')).is_some() {}
        if input.next_if(|(_, c)| *c == '(').is_some() {
            self.open_frame(FrameKind::Parenthesis);
        } else {
            self.top_frame().target = true;
        }
    }

    /// Opens a frame; returns true if the nesting limit allowed it.
    fn open_frame(&mut self, opened: FrameKind) -> bool {
        let room = self.stack.len() < DEEPEST;
        if room {
            self.stack.push(ScanFrame::new(opened));
        } else {
            self.end_command();
        }
        room
    }

    fn close_frame_of(&mut self, opened: FrameKind) {
        if self.stack.len() > 1 && self.top_frame().kind == opened { self.close_frame() } else { self.end_command() }
    }

    fn close_frame(&mut self) {
        self.end_word();
        let brace = self.top_frame().kind == FrameKind::Brace;
        let default = if brace && self.keep_prefixes { default_word(&self.top_frame().words) } else { None };
        self.end_command();
        self.stack.pop();
        if let Some(default) = default {
            self.top_frame().word.replace_last(WordPiece::Choice(vec![default]));
        }
    }

    fn end_word(&mut self) {
        let frame = self.top_frame();
        if !frame.word.is_started() {
            return;
        }
        let word = std::mem::take(&mut frame.word).finish();
        if !std::mem::take(&mut frame.target) {
            frame.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        let keep = self.keep_prefixes;
        let frame = self.top_frame();
        frame.target = false;
        let words = std::mem::take(&mut frame.words);
        if let Some(name) = frame.list_of.clone() {
            self.elements.extend(words.iter().map(|word| element_binding(&name, word)));
        }
        let skipped = if keep { 0 } else { words.iter().take_while(|word| is_command_prefix(word)).count() };
        if skipped < words.len() {
            self.found.push(words.into_iter().skip(skipped).collect());
        }
    }
}

/// Returns the name in `${name}`, given the text after the brace.
fn braced_name(rest: &str) -> Option<&str> {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let begins = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (begins && rest[end..].starts_with('}')).then_some(&rest[..end])
}

fn is_command_prefix(word: &Word) -> bool {
    let head = match word.pieces().first() {
        Some(WordPiece::Text(text)) => text.as_str(),
        _ => return false,
    };
    (word.value().is_some() && RESERVED.contains(&head)) || split_assignment(word).is_some()
}

/// Returns the name that `NAME=…` or `NAME+=…` assigns.
pub(crate) fn assigned_name(text: &str) -> Option<&str> {
    let (name, _) = text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let valid = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (valid && name.starts_with(|c: char| !c.is_ascii_digit())).then_some(name)
}

/// Returns the end of `$'…'` by bash's own rule, given the position after its opening quote.
pub(crate) fn find_ansi_c_end(text: &[u8], start: usize) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'\'' => return Some(at),
            _ => {}
        }
    }
    None
}

fn skip_to(input: &mut CharInput<'_>, end: usize) {
    while input.next_if(|(at, _)| *at < end).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_commands(text: &str) -> Vec<String> {
        let join = |words: Vec<Word>| words.iter().map(Word::masked).collect::<Vec<_>>().join(" ");
        scan_commands(text).into_iter().map(join).collect()
    }

    #[test]
    fn commands_are_found_in_broken_text() {
        for text in [
            "ls ) ; rm x",
            "echo \"$(rm x",
            "if true; then rm x",
            "a && && rm x",
            "echo 'open\nrm x",
            "A=1 B=2 rm x",
            "{ rm x",
            "echo `rm x`",
            "cat <(rm x)",
            ">out rm x",
            "2>&1 rm x &",
            "${y:-$(rm x)}",
            "r\\\nm x",
            "'rm' \"x\"",
        ] {
            let commands = found_commands(text);
            assert!(commands.iter().any(|command| command == "rm x"), "{text:?} gave {commands:?}");
        }
    }

    #[test]
    fn quoted_and_commented_text_is_no_command() {
        assert_eq!(found_commands("echo 'rm x' \"rm y\" # rm z"), ["echo rm x rm y"]);
    }

    #[test]
    fn static_words_refuse_anything_with_an_operator() {
        assert_eq!(
            parse_static_words("git commit -m \"a b\""),
            Some(vec!["git".into(), "commit".into(), "-m".into(), "a b".into()])
        );
        assert_eq!(parse_static_words("a 'f(1); x' \"<b>\""), Some(vec!["a".into(), "f(1); x".into(), "<b>".into()]));
        for text in ["a | b", "a 'x' > y", "a \"$x\"", "a \"`x`\"", "a 'x", "a \"x", "a 'x'y; b", "a \\", "a 'x\ny'"] {
            assert_eq!(parse_static_words(text), None, "{text}");
        }
        assert_eq!(parse_static_words("a $x"), None);
        assert_eq!(parse_static_words("FOO=1 a"), Some(vec!["FOO=1".into(), "a".into()]));
    }
}
