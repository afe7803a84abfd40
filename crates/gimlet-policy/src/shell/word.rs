//! Shell words after quote removal. A word with an expansion keeps its known parts around the unknown ones; nothing is
//! ever expanded here except brace lists, which are only another way to write several words.

pub(super) mod brace_expansion;

/// Placeholder for an expansion when a word is compared as text; no command text contains it.
pub(crate) const UNKNOWN_CHAR: char = '\u{FFFF}';

/// Piece of a word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WordPiece {
    /// Literal characters.
    Text(String),
    /// Unquoted `*`, `?` or `[`, which match file names.
    Glob(char),
    /// An unquoted `~` where it means a home directory.
    Tilde,
    /// The value of a variable, by name.
    Variable(String),
    /// A number that is only known at run time, such as `$?`.
    Number,
    /// The output of a command substitution, which begins at this byte of the text.
    Output(usize),
    /// A pipe to or from another command, `<(…)`.
    Stream,
    /// A whole word with brace lists: the words that the shell makes of it.
    Choice(Vec<Word>),
    /// Anything else that is only known when the command runs; it may also become several words or none.
    Unknown,
}

/// One word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Word {
    pieces: Vec<WordPiece>,
    /// True if something unquoted is expanded, so it may become several words or none.
    splits: bool,
}

impl Word {
    pub fn pieces(&self) -> &[WordPiece] {
        &self.pieces
    }

    /// Returns the value, or `None` if something in the word has to be expanded.
    pub fn value(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [WordPiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns true if the value is only known at run time.
    pub fn is_dynamic(&self) -> bool {
        self.value().is_none()
    }

    /// Returns true if it may become several words or none.
    pub fn may_split(&self) -> bool {
        self.splits
    }

    /// Returns the words that the shell makes of brace lists; the word itself if it has none.
    pub(crate) fn choices(&self) -> &[Word] {
        match self.pieces.as_slice() {
            [WordPiece::Choice(words)] => words,
            _ => std::slice::from_ref(self),
        }
    }

    /// Returns the word with its first piece replaced by `beginning`.
    pub(crate) fn with_beginning(&self, beginning: &Word) -> Self {
        let pieces = beginning.pieces.iter().chain(self.pieces.iter().skip(1)).cloned().collect();
        Self { pieces, splits: self.splits || beginning.splits }
    }

    /// Returns the word with another one appended.
    pub(crate) fn with_end(&self, end: &Word) -> Self {
        let pieces = self.pieces.iter().chain(&end.pieces).cloned().collect();
        Self { pieces, splits: self.splits || end.splits }
    }

    /// Returns an entirely unknown word, which may stand for any number of words.
    pub(crate) fn unknown() -> Self {
        Self { pieces: vec![WordPiece::Unknown], splits: true }
    }

    /// Returns a word with this text, in which [`UNKNOWN_CHAR`] stands for anything, including several words or none.
    pub(crate) fn from_masked(text: &str) -> Self {
        let mut builder = WordBuilder::default();
        builder.push_text(text);
        Self { splits: text.contains(UNKNOWN_CHAR), pieces: builder.pieces }
    }

    /// Returns the word as text, with [`UNKNOWN_CHAR`] for every unknown part.
    pub(crate) fn masked(&self) -> String {
        let mut text = String::new();
        let mut behind_tilde = false;
        for piece in &self.pieces {
            match piece {
                // `~+`, `~name`: the text that touches it determines the directory.
                WordPiece::Text(known) if behind_tilde => {
                    text.push_str(known.find(['/', ':']).map_or("", |at| &known[at..]))
                }
                WordPiece::Text(known) => text.push_str(known),
                _ => text.push(UNKNOWN_CHAR),
            }
            behind_tilde = *piece == WordPiece::Tilde;
        }
        text
    }

    /// Returns the literal text and patterns of the word, concatenated, without its other pieces.
    pub(crate) fn plain_text(&self) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                WordPiece::Text(known) => text.push_str(known),
                WordPiece::Glob(mark) => text.push(*mark),
                _ => {}
            }
        }
        text
    }

    /// Returns the word for display, close to how a user would write it.
    pub(crate) fn display_text(&self) -> String {
        let piece = |piece: &WordPiece| match piece {
            WordPiece::Text(text)
                if text.is_empty() || text.contains(|c: char| c.is_whitespace() || "'\"$&|;<>()`*?".contains(c)) =>
            {
                format!("'{text}'")
            }
            WordPiece::Text(text) => text.clone(),
            WordPiece::Glob(mark) => mark.to_string(),
            WordPiece::Tilde => "~".to_owned(),
            WordPiece::Variable(name) => format!("${name}"),
            WordPiece::Output(_) => "$(…)".to_owned(),
            WordPiece::Stream => "<(…)".to_owned(),
            WordPiece::Choice(words) => {
                format!("{{{}}}", words.iter().map(Word::display_text).collect::<Vec<_>>().join(","))
            }
            WordPiece::Number | WordPiece::Unknown => "…".to_owned(),
        };
        if self.pieces.is_empty() { "''".to_owned() } else { self.pieces.iter().map(piece).collect() }
    }

    /// Returns a word of one piece.
    pub(crate) fn from_piece(piece: WordPiece) -> Self {
        Self { pieces: vec![piece], splits: false }
    }

    /// Returns a word of only this literal text.
    pub(crate) fn from_literal(text: &str) -> Self {
        Self { pieces: vec![WordPiece::Text(text.to_owned())], splits: false }
    }
}

/// Builder of a word from its quoted and unquoted parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordBuilder {
    pieces: Vec<WordPiece>,
    started: bool,
    unquoted_brace: bool,
    /// The unquoted braces and commas.
    signs: Vec<brace_expansion::BraceSign>,
    splits: bool,
    /// True if the last character was an unquoted `=` or `:`, after which `~` is special.
    after_assignment: bool,
}

impl WordBuilder {
    /// Returns true if anything, even an empty pair of quotes, was added.
    pub(crate) fn is_started(&self) -> bool {
        self.started
    }

    /// Adds literal text from inside quotes.
    pub(crate) fn push_quoted(&mut self, text: &str) {
        self.started = true;
        self.after_assignment = false;
        self.push_text(text);
    }

    /// Adds the source of an unquoted part: removes escapes and recognises globs and tildes.
    pub(crate) fn push_unquoted(&mut self, source: &str) {
        // Most words have nothing special in them.
        if !source.is_empty() && !source.contains(['\\', '*', '?', '[', '~', '{', ',', '}', '=', ':']) {
            return self.push_quoted(source);
        }
        let mut chars = source.chars();
        while let Some(c) = chars.next() {
            let first = !self.started;
            let after_assignment = std::mem::take(&mut self.after_assignment);
            self.started = true;
            match c {
                '\\' => match chars.next() {
                    Some('\n') => self.started = !first,
                    Some(escaped) => self.push_char(escaped),
                    None => self.push_char('\\'),
                },
                '*' | '?' | '[' => {
                    self.splits = true;
                    self.pieces.push(WordPiece::Glob(c));
                }
                '~' if first || after_assignment => self.pieces.push(WordPiece::Tilde),
                _ => {
                    self.unquoted_brace |= c == '{';
                    self.after_assignment = matches!(c, '=' | ':');
                    self.push_char(c);
                    if matches!(c, '{' | ',' | '}') {
                        self.signs.extend(brace_expansion::BraceSign::from_last(c, &self.pieces));
                    }
                }
            }
        }
    }

    /// Adds the inside of double quotes, where a backslash escapes only a few characters.
    pub(crate) fn push_double_quoted(&mut self, source: &str) {
        self.started = true;
        self.after_assignment = false;
        if !source.contains('\\') {
            return self.push_text(source);
        }
        let mut chars = source.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, chars.peek()) {
                ('\\', Some('\n')) => {
                    chars.next();
                }
                ('\\', Some(&escaped @ ('$' | '`' | '"' | '\\'))) => {
                    chars.next();
                    self.push_char(escaped);
                }
                _ => self.push_char(c),
            }
        }
    }

    /// Adds the inside of `$'…'`. A value that Rust and bash could read differently becomes unknown.
    pub(crate) fn push_ansi_c(&mut self, source: &str) {
        self.started = true;
        self.after_assignment = false;
        match decode_ansi_c(source) {
            Some(text) => self.push_quoted(&text),
            None => self.push_expansion(WordPiece::Unknown),
        }
    }

    /// Returns the pieces added so far.
    pub(crate) fn pieces(&self) -> &[WordPiece] {
        &self.pieces
    }

    /// Replaces the last piece.
    pub(crate) fn replace_last(&mut self, piece: WordPiece) {
        if let Some(last) = self.pieces.last_mut() {
            *last = piece;
        }
    }

    /// Adds an expansion outside quotes.
    pub(crate) fn push_expansion(&mut self, piece: WordPiece) {
        self.splits |= piece != WordPiece::Number;
        self.push_quoted_expansion(piece);
    }

    /// Adds an expansion inside double quotes, which stays within its word.
    pub(crate) fn push_quoted_expansion(&mut self, piece: WordPiece) {
        self.started = true;
        self.after_assignment = false;
        self.pieces.push(piece);
    }

    fn push_text(&mut self, text: &str) {
        if text.contains(UNKNOWN_CHAR) {
            return text.chars().for_each(|c| self.push_char(c));
        }
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(WordPiece::Text(known)) => known.push_str(text),
            _ => self.pieces.push(WordPiece::Text(text.to_owned())),
        }
    }

    fn push_char(&mut self, c: char) {
        // The placeholder itself must not occur as text.
        if c == UNKNOWN_CHAR {
            return self.pieces.push(WordPiece::Unknown);
        }
        match self.pieces.last_mut() {
            Some(WordPiece::Text(text)) => text.push(c),
            _ => self.pieces.push(WordPiece::Text(c.to_string())),
        }
    }

    pub(crate) fn finish(self) -> Word {
        let word = Word { pieces: self.pieces, splits: self.splits };
        // `{}` (also in `-I{}`) and a lone `{` stay as they are; any other unquoted brace may expand into several
        // words.
        if self.unquoted_brace && word.value() != Some("{") && !brace_expansion::are_empty_pairs(&self.signs) {
            let Some(words) = brace_expansion::expand_braces(&word, &self.signs) else { return Word::unknown() };
            return Word { pieces: vec![WordPiece::Choice(words)], splits: true };
        }
        word
    }
}

fn decode_ansi_c(source: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        let decoded = match chars.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'v' => '\x0b',
            'e' | 'E' => '\x1b',
            same @ ('\\' | '\'' | '"' | '?') => same,
            first @ '0'..='7' => {
                let rest = take_digits(&mut chars, 8, 2);
                ascii_char(u32::from_str_radix(&format!("{first}{rest}"), 8).ok()? & 0xff)?
            }
            'x' => ascii_char(u32::from_str_radix(&take_digits(&mut chars, 16, 2), 16).ok()?)?,
            'u' => char::from_u32(u32::from_str_radix(&take_digits(&mut chars, 16, 4), 16).ok()?)?,
            'U' => char::from_u32(u32::from_str_radix(&take_digits(&mut chars, 16, 8), 16).ok()?)?,
            // Control characters by letter, and escapes that bash leaves unchanged, are too rare to be worth a mistake.
            _ => return None,
        };
        if decoded == '\0' {
            return None;
        }
        text.push(decoded);
    }
    Some(text)
}

fn take_digits(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize) -> String {
    let mut digits = String::new();
    while digits.len() < most {
        match chars.next_if(|c| c.is_digit(radix)) {
            Some(digit) => digits.push(digit),
            None => break,
        }
    }
    digits
}

/// Converts an ASCII code; returns `None` for a single byte above ASCII, which is only part of a character.
fn ascii_char(code: u32) -> Option<char> {
    char::from_u32(code).filter(char::is_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unquoted(source: &str) -> Word {
        let mut builder = WordBuilder::default();
        builder.push_unquoted(source);
        builder.finish()
    }

    #[test]
    fn escapes_are_removed_and_globs_are_kept_apart() {
        assert_eq!(unquoted("c\\url").value(), Some("curl"));
        assert_eq!(unquoted("a\\*b").value(), Some("a*b"));
        assert!(unquoted("a*b").is_dynamic());
        assert!(unquoted("~/x").is_dynamic());
        assert!(unquoted("A=~/x").is_dynamic());
        assert_eq!(unquoted("a~").value(), Some("a~"));
    }

    #[test]
    fn braces_are_unknown_except_the_empty_pair() {
        for source in ["{}", "-I{}", "--replace={}", "{}/{}", "{}{}"] {
            assert_eq!(unquoted(source).value(), Some(source));
        }
        for source in ["{}{a,b}", "{},{}", "{{}}", "{a}", "}{"] {
            assert!(unquoted(source).is_dynamic(), "{source}");
        }
        assert!(unquoted("{a,b}").is_dynamic());
        assert_eq!(unquoted("\\{a,b}").value(), Some("{a,b}"));
    }

    #[test]
    fn ansi_c_strings_decode_or_stay_unknown() {
        let decode = |source: &str| {
            let mut builder = WordBuilder::default();
            builder.push_ansi_c(source);
            builder.finish()
        };
        assert_eq!(decode("\\x63url").value(), Some("curl"));
        assert_eq!(decode("\\143\\u0075rl").value(), Some("curl"));
        assert!(decode("a\\x00b").is_dynamic());
        assert!(decode("\\xc3\\xa9").is_dynamic());
        assert!(decode("\\cA").is_dynamic());
    }
}
