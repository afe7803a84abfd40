//! Highlighting of code in answers and diffs: one lexer, driven by a table of languages, that goes line by line.
//!
//! It knows comments, strings, numbers, keywords and names, not grammars. That suffices to read code by, costs nothing at
//! start-up, and keeps a state of a few bytes between two lines, so that code is coloured as it streams in.

mod languages;
mod markup;

use languages::{LanguageRules, LexerKind, StringRule, find_language};

use crate::styled_line::{StyledLine, TextStyle, TextTone};

/// Highlighter of one block of code.
#[derive(Clone, Debug)]
pub struct CodeHighlighter {
    rules: &'static LanguageRules,
    state: LexerState,
}

/// What the last line left open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LexerState {
    #[default]
    Code,
    /// Inside a comment, so many levels deep.
    Comment(u32),
    /// Inside a string of this rule of the language.
    InString(usize),
    /// Inside a Rust string that ends with a quote and so many `#`.
    RawString(usize),
    Markup(markup::MarkupState),
}

impl CodeHighlighter {
    /// Returns the highlighter for a language by its name or a file's extension; `None` for one that is not known.
    pub fn for_language(name: &str) -> Option<Self> {
        find_language(name).map(|rules| Self { rules, state: LexerState::default() })
    }

    /// Returns the highlighter for a file by its name.
    pub fn for_path(path: &str) -> Option<Self> {
        let name = path.rsplit(['/', '\\']).next()?;
        let by_name = match name {
            "Dockerfile" | "Containerfile" => Some("dockerfile"),
            "Makefile" | "makefile" | "GNUmakefile" => Some("make"),
            "CMakeLists.txt" => Some("cmake"),
            "Cargo.lock" | "poetry.lock" => Some("toml"),
            "Gemfile" | "Rakefile" => Some("ruby"),
            ".bashrc" | ".zshrc" | ".profile" | ".bash_profile" => Some("sh"),
            _ => None,
        };
        Self::for_language(by_name.or_else(|| name.rsplit_once('.').map(|(_, extension)| extension))?)
    }

    /// Highlights the next line, which holds no line feed.
    pub fn highlight_line(&mut self, line: &str) -> StyledLine {
        let mut out = StyledLine::blank();
        match self.rules.lexer {
            LexerKind::Code => self.lex_code(line, &mut out),
            LexerKind::Markup => {
                let state = match self.state {
                    LexerState::Markup(state) => state,
                    _ => markup::MarkupState::default(),
                };
                self.state = LexerState::Markup(markup::lex_line(line, state, &mut out));
            }
            LexerKind::Diff => out.push(line, diff_tone(line)),
        }
        out
    }

    fn lex_code(&mut self, line: &str, out: &mut StyledLine) {
        let mut scan = LineScan { text: line, at: 0 };
        match self.state {
            LexerState::Comment(depth) => self.lex_comment(&mut scan, depth, 0, out),
            LexerState::InString(index) => self.lex_string(&mut scan, index, 0, out),
            LexerState::RawString(hashes) => self.lex_raw_string(&mut scan, hashes, 0, out),
            LexerState::Code | LexerState::Markup(_) => {}
        }
        while !scan.is_at_end() {
            self.lex_token(&mut scan, out);
        }
    }

    fn lex_token(&mut self, scan: &mut LineScan<'_>, out: &mut StyledLine) {
        let rules = self.rules;
        let start = scan.at;
        let rest = scan.rest();
        if let Some((open, _)) = rules.block_comment.filter(|(open, _)| rest.starts_with(open)) {
            scan.at += open.len();
            return self.lex_comment(scan, 1, start, out);
        }
        if rules.line_comments.iter().any(|mark| rest.starts_with(mark) && scan.may_begin_comment(mark)) {
            scan.at = scan.text.len();
            return out.push(rest, TextTone::Comment);
        }
        if rules.has_rust_literals && self.lex_rust_literal(scan, out) {
            return;
        }
        if let Some(index) = rules.strings.iter().position(|string| rest.starts_with(string.open)) {
            scan.at += rules.strings[index].open.len();
            return self.lex_string(scan, index, start, out);
        }
        let Some(first) = rest.chars().next() else { return };
        if first.is_ascii_digit() {
            return lex_number(scan, out);
        }
        if first.is_alphabetic() || first == '_' || (rules.sigils.contains(first) && scan.has_name_after(first)) {
            return self.lex_name(scan, first, out);
        }
        scan.at += first.len_utf8();
        out.push(scan.since(start), TextTone::Text);
    }

    /// Reads on to the end of a comment. `start` is where its text begins in this line.
    fn lex_comment(&mut self, scan: &mut LineScan<'_>, mut depth: u32, start: usize, out: &mut StyledLine) {
        let Some((open, close)) = self.rules.block_comment else { return };
        while !scan.is_at_end() {
            let rest = scan.rest();
            if rest.starts_with(close) {
                scan.at += close.len();
                depth -= 1;
                if depth == 0 {
                    self.state = LexerState::Code;
                    return out.push(scan.since(start), TextTone::Comment);
                }
            } else if self.rules.has_nested_comments && rest.starts_with(open) {
                scan.at += open.len();
                depth = depth.saturating_add(1);
            } else {
                scan.advance();
            }
        }
        self.state = LexerState::Comment(depth);
        out.push(scan.since(start), TextTone::Comment);
    }

    fn lex_string(&mut self, scan: &mut LineScan<'_>, index: usize, start: usize, out: &mut StyledLine) {
        let StringRule { close, has_escapes, is_multiline, .. } = self.rules.strings[index];
        self.state = LexerState::Code;
        let mut is_closed = false;
        while !scan.is_at_end() {
            let rest = scan.rest();
            if has_escapes && rest.starts_with('\\') {
                scan.advance();
                scan.advance();
            } else if rest.starts_with(close) {
                scan.at += close.len();
                is_closed = true;
                break;
            } else {
                scan.advance();
            }
        }
        if !is_closed && is_multiline {
            self.state = LexerState::InString(index);
        }
        let is_key = is_closed && self.rules.has_quoted_keys && scan.rest().trim_start().starts_with(':');
        out.push(scan.since(start), if is_key { TextTone::FunctionName } else { TextTone::Literal });
    }

    fn lex_raw_string(&mut self, scan: &mut LineScan<'_>, hashes: usize, start: usize, out: &mut StyledLine) {
        let close = format!("\"{}", "#".repeat(hashes));
        match scan.rest().find(&close) {
            Some(end) => {
                scan.at += end + close.len();
                self.state = LexerState::Code;
            }
            None => {
                scan.at = scan.text.len();
                self.state = LexerState::RawString(hashes);
            }
        }
        out.push(scan.since(start), TextTone::Literal);
    }

    /// Reads a raw string, a character or a lifetime. Returns false if there is none here.
    fn lex_rust_literal(&mut self, scan: &mut LineScan<'_>, out: &mut StyledLine) -> bool {
        let start = scan.at;
        let rest = scan.rest();
        let prefix = if rest.starts_with("br") { 2 } else { 1 };
        if rest.starts_with('r') || rest.starts_with("br") {
            let after = rest.get(prefix..).unwrap_or_default();
            let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
            if after.get(hashes..).is_some_and(|text| text.starts_with('"')) {
                scan.at += prefix + hashes + 1;
                self.lex_raw_string(scan, hashes, start, out);
                return true;
            }
        }
        let Some(quoted) = rest.strip_prefix('\'') else { return false };
        let mut chars = quoted.chars();
        let is_char = match chars.next() {
            Some('\\') => true,
            Some(_) => chars.next() == Some('\''),
            None => false,
        };
        scan.advance();
        if is_char {
            let mut escaped = false;
            while let Some(char) = scan.rest().chars().next() {
                scan.advance();
                if char == '\'' && !escaped {
                    break;
                }
                escaped = char == '\\' && !escaped;
            }
            out.push(scan.since(start), TextTone::Literal);
        } else {
            scan.skip_name();
            out.push(scan.since(start), TextTone::TypeName);
        }
        true
    }

    fn lex_name(&self, scan: &mut LineScan<'_>, first: char, out: &mut StyledLine) {
        let start = scan.at;
        scan.at += first.len_utf8();
        scan.skip_name();
        let name = scan.since(start);
        let tone = self.tone_of_name(name, scan, start);
        if tone == TextTone::FunctionName && scan.rest().starts_with('!') {
            scan.at += 1;
        }
        out.push(scan.since(start), tone);
    }

    fn tone_of_name(&self, name: &str, scan: &LineScan<'_>, start: usize) -> TextTone {
        let rules = self.rules;
        let has = |words: &str| {
            words.split(' ').any(|word| if rules.ignores_case { word.eq_ignore_ascii_case(name) } else { word == name })
        };
        let rest = scan.rest();
        if rules.sigils.contains(name.chars().next().unwrap_or_default()) && !name.starts_with('_') {
            return TextTone::TypeName;
        }
        if has(rules.keywords) {
            return TextTone::Keyword;
        }
        if has(rules.constants) {
            return TextTone::Number;
        }
        if has(rules.types) {
            return TextTone::TypeName;
        }
        if rules.has_bare_keys && scan.is_first_word(start) && rest.trim_start().starts_with(rules.key_signs) {
            return TextTone::FunctionName;
        }
        if rest.starts_with('(') || (rules.has_rust_literals && rest.starts_with("!") && !rest.starts_with("!=")) {
            return TextTone::FunctionName;
        }
        let is_capitalized = name.starts_with(|char: char| char.is_uppercase());
        if rules.has_capitalized_types && is_capitalized && name.contains(|char: char| char.is_lowercase()) {
            return TextTone::TypeName;
        }
        TextTone::Text
    }
}

fn diff_tone(line: &str) -> TextStyle {
    if line.starts_with("+++") || line.starts_with("---") || line.starts_with("diff ") {
        return TextStyle::of(TextTone::Text).bold();
    }
    let tone = match line.bytes().next() {
        Some(b'+') => TextTone::Added,
        Some(b'-') => TextTone::Removed,
        Some(b'@') => TextTone::Accent,
        _ => TextTone::Text,
    };
    TextStyle::of(tone)
}

fn lex_number(scan: &mut LineScan<'_>, out: &mut StyledLine) {
    let start = scan.at;
    let mut previous = ' ';
    while let Some(char) = scan.rest().chars().next() {
        let is_sign =
            matches!(char, '+' | '-') && matches!(previous, 'e' | 'E') && !scan.since(start).starts_with("0x");
        let is_point = char == '.' && scan.rest().as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if !(char.is_ascii_alphanumeric() || char == '_' || is_sign || is_point) {
            break;
        }
        previous = char;
        scan.advance();
    }
    out.push(scan.since(start), TextTone::Number);
}

/// Position in a line.
struct LineScan<'l> {
    text: &'l str,
    at: usize,
}

impl<'l> LineScan<'l> {
    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn rest(&self) -> &'l str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn since(&self, start: usize) -> &'l str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn advance(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    fn skip_name(&mut self) {
        while self.rest().chars().next().is_some_and(|char| char.is_alphanumeric() || char == '_') {
            self.advance();
        }
    }

    /// Returns true if a name follows the sign at this position.
    fn has_name_after(&self, sign: char) -> bool {
        let after = self.rest().get(sign.len_utf8()..).unwrap_or_default();
        after.chars().next().is_some_and(|char| char.is_alphabetic() || char == '_')
    }

    /// `#` begins a comment only after a space in languages where it can be part of a word.
    fn may_begin_comment(&self, mark: &str) -> bool {
        let before = self.text.get(..self.at).unwrap_or_default();
        mark != "#"
            || before.is_empty()
            || before.ends_with(|char: char| char.is_whitespace() || ";()[]{},".contains(char))
    }

    fn is_first_word(&self, start: usize) -> bool {
        let before = self.text.get(..start).unwrap_or_default();
        before.trim_start().trim_start_matches("- ").trim_start_matches('"').is_empty()
            || before.trim_end().ends_with(['{', ','])
    }
}

#[cfg(test)]
mod tests;
