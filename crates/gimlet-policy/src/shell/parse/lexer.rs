//! Independent lexer for shell text: the positions where bash begins words, reads operators, opens quotes and
//! substitutions, and ends here-documents. The grammar is a third party's interpretation of these rules, and wherever
//! it differs from bash, something could run unchecked; so the tree walk compares each of these marks with the leaf at
//! its position.
//!
//! It follows bash's own lexer and not the grammar, and rejects any text that it is not sure about.

use crate::shell::scan::find_ansi_c_end;

/// Token that bash sees at a position of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexMark {
    /// The first character of a word.
    Word,
    /// The descriptor number in front of a redirection.
    Descriptor,
    /// A character of an operator.
    Operator,
    /// A newline that is significant.
    Newline,
    /// `$(`, `${`, `$((`, `$[`, `((`, `<(`, `>(` or a backtick, by its length.
    Opening(usize),
    /// An opening quote.
    Quote,
    /// The brace or double quote that closes an opening.
    End,
}

/// Returns every mark with its position, in order; `None` for a text that could be read in more than one way.
pub(super) fn lex_marks(text: &str) -> Option<Vec<(usize, LexMark)>> {
    let mut lexer =
        BashLexer { text: text.as_bytes(), marks: Vec::new(), documents: Vec::new(), depth: 0, in_condition: false };
    let end = lexer.lex_commands(0, text.len(), ClosingToken::End)?;
    if end != text.len() || !lexer.documents.is_empty() {
        return None;
    }
    // A document is read after the line that names it, and so are its marks.
    lexer.marks.sort_by_key(|(at, _)| *at);
    Some(lexer.marks)
}

/// Maximum nesting of substitutions; nesting was already limited before, so this is a second safeguard.
const DEEPEST: usize = 160;

/// Maximum digits of a descriptor; a longer number in front of a redirection may be too large for one, and is a word
/// then.
const MOST_DIGITS: usize = 9;

/// Target that a redirection still expects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RedirectTarget {
    None,
    Word,
    /// After `<&` and `>&` a dash is a word of its own, regardless of what touches it.
    Descriptor,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ClosingToken {
    End,
    Parenthesis,
}

/// Context of a parameter expansion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpansionContext {
    Nothing,
    Quotes,
    Document,
}

/// A here-document whose text has not been read yet.
struct PendingDocument {
    delimiter: Vec<u8>,
    quoted: bool,
    tabs: bool,
    /// Nesting depth at which it was named: shells differ in how they read one that is named further out than the next
    /// line ends.
    depth: usize,
}

struct BashLexer<'a> {
    text: &'a [u8],
    marks: Vec<(usize, LexMark)>,
    documents: Vec<PendingDocument>,
    depth: usize,
    /// True between `[[` and `]]`, where an expression may continue after signs that end a word elsewhere.
    in_condition: bool,
}

impl BashLexer<'_> {
    fn byte(&self, at: usize, end: usize) -> Option<u8> {
        if at < end { self.text.get(at).copied() } else { None }
    }

    fn mark(&mut self, at: usize, mark: LexMark) {
        self.marks.push((at, mark));
    }

    fn starts_with(&self, at: usize, end: usize, with: &[u8]) -> bool {
        self.text.get(at..end).is_some_and(|rest| rest.starts_with(with))
    }

    /// Reads commands up to the closer; returns the position after it.
    fn lex_commands(&mut self, mut at: usize, end: usize, closer: ClosingToken) -> Option<usize> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        // State: inside a word, and the redirection target that the next word is.
        let (mut in_word, mut target) = (false, RedirectTarget::None);
        let (mut cases, mut word) = (false, at);
        // End of the last sign that may be part of a longer one, and true if a command must follow it.
        let (mut sign, mut expects) = (at, false);
        while let Some(byte) = self.byte(at, end) {
            // Continued lines are one line, also in the middle of a word. Text is rejected where that would make a
            // number or an assignment sign part of something else, and inside a redirection; such breaks are not used
            // in practice.
            if self.starts_with(at, end, b"\\\n") {
                let number = in_word && self.text[word..at].iter().all(u8::is_ascii_digit);
                let joins = in_word && self.next_after_breaks(at, end).is_some_and(|next| b"<>(#=+[{".contains(&next));
                if target != RedirectTarget::None || number || joins {
                    return None;
                }
                at += 2;
                continue;
            }
            let substitutes = self.starts_with(at, end, b"<(") || self.starts_with(at, end, b">(");
            if matches!(byte, b' ' | b'\t') {
                (at, in_word) = (at + 1, false);
                continue;
            }
            if byte == b'#' && !in_word {
                // After the signs of an expression it is an ordinary character.
                let is_plain = at == 0 || matches!(self.text[at - 1], b' ' | b'\t' | b'\n');
                if !is_plain || self.in_condition {
                    return None;
                }
                at += self.text[at..end].iter().position(|byte| *byte == b'\n').unwrap_or(end - at);
                continue;
            }
            if byte == b'\n' {
                self.mark(at, LexMark::Newline);
                (at, in_word) = (self.read_documents(at + 1, end)?, false);
                continue;
            }
            if matches!(byte, b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')') && !substitutes {
                in_word = false;
                // To bash they are one sign.
                if self.next_after_breaks(at + 1, end).is_some_and(|next| b";&|<>()".contains(&next)) {
                    return None;
                }
                if self.starts_with(at, end, b"((") {
                    self.mark(at, LexMark::Opening(2));
                    (at, expects) = (self.lex_arithmetic(at + 2, end, b')')?, false);
                    continue;
                }
                // Two in a row are an error, from which the grammar is slow to recover.
                let goes_on = sign == at && at > 0 && matches!(self.text[at - 1], b'&' | b'|');
                let ends = matches!(byte, b';' | b'&' | b'|' | b')');
                let joined = goes_on && matches!(byte, b'&' | b'|');
                if expects && ends && !joined {
                    return None;
                }
                expects = byte == b'|' || (byte == b'&' && joined);
                sign = at + 1;
                self.mark(at, LexMark::Operator);
                target = if matches!(byte, b'<' | b'>') { RedirectTarget::Word } else { RedirectTarget::None };
                at = match byte {
                    b'(' => self.lex_commands(at + 1, end, ClosingToken::Parenthesis)?,
                    b')' if closer == ClosingToken::Parenthesis => {
                        self.depth -= 1;
                        return self.has_no_pending_document().then_some(at + 1);
                    }
                    // The pattern of a case; elsewhere it is an error.
                    b')' if !cases => return None,
                    b'<' if self.starts_with(at, end, b"<<") && !self.starts_with(at, end, b"<<<") => {
                        target = RedirectTarget::None;
                        self.lex_here_document(at, end)?
                    }
                    b'<' if self.starts_with(at, end, b"<<<") => {
                        self.mark(at + 1, LexMark::Operator);
                        self.mark(at + 2, LexMark::Operator);
                        at + 3
                    }
                    b'<' | b'>' if matches!(self.byte(at + 1, end), Some(b'&' | b'|')) => {
                        self.mark(at + 1, LexMark::Operator);
                        if self.byte(at + 1, end) == Some(b'&') {
                            target = RedirectTarget::Descriptor;
                        }
                        if self.next_after_breaks(at + 2, end).is_some() {
                            return None;
                        }
                        at + 2
                    }
                    _ => at + 1,
                };
                continue;
            }
            if !in_word {
                (word, expects) = (at, false);
                let digits = self.text[at..end].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let behind = self.next_after_breaks(at + digits, end).or_else(|| self.byte(at + digits, end));
                let stream = self.starts_with(at + digits, end, b"<(") || self.starts_with(at + digits, end, b">(");
                let redirects = digits > 0 && matches!(behind, Some(b'<' | b'>')) && !stream;
                self.mark(at, if redirects { LexMark::Descriptor } else { LexMark::Word });
                let is_case = self.starts_word(at, end, b"case");
                // The number of another redirection is not a target. A pattern of a case closes no substitution.
                let cut = target == RedirectTarget::Descriptor && byte == b'-' && !self.starts_word(at, end, b"-");
                let misplaced = redirects && (target != RedirectTarget::None || digits > MOST_DIGITS);
                if misplaced || (is_case && closer == ClosingToken::Parenthesis) || cut {
                    return None;
                }
                cases |= is_case;
                target = RedirectTarget::None;
                self.in_condition =
                    (self.in_condition || self.starts_word(at, end, b"[[")) && !self.starts_word(at, end, b"]]");
            }
            in_word = true;
            at = match byte {
                b'\\' => at + 1 + usize::from(at + 1 < end),
                b'\'' => self.lex_single_quotes(at, end)?,
                b'"' => self.lex_double_quotes(at, end)?,
                _ if substitutes && self.next_after_breaks(at + 2, end) == Some(b'(') => return None,
                _ if substitutes => {
                    self.mark(at, LexMark::Opening(2));
                    self.lex_commands(at + 2, end, ClosingToken::Parenthesis)?
                }
                b'$' if self.starts_with(at, end, b"$'") => find_ansi_c_end(&self.text[..end], at + 2)? + 1,
                // Translated strings are read like any other.
                b'$' if self.starts_with(at, end, b"$\"") => self.lex_double_quotes(at + 1, end)?,
                b'$' | b'`' => self.lex_expansion(at, end, ExpansionContext::Nothing)?,
                _ => at + 1,
            };
        }
        self.depth -= 1;
        (closer == ClosingToken::End && at == end && !expects && self.has_no_pending_document()).then_some(at)
    }

    /// Returns true if no document is pending whose text would come after the end of this construct.
    fn has_no_pending_document(&self) -> bool {
        self.documents.iter().all(|document| document.depth <= self.depth)
    }

    /// Returns the next character after a line continuation at this position; `None` if there is no continuation.
    fn next_after_breaks(&self, mut at: usize, end: usize) -> Option<u8> {
        if !self.starts_with(at, end, b"\\\n") {
            return None;
        }
        while self.starts_with(at, end, b"\\\n") {
            at += 2;
        }
        self.byte(at, end)
    }

    /// Returns true if the word that begins here is this one, also when it continues on the next line.
    fn starts_word(&self, mut at: usize, end: usize, word: &[u8]) -> bool {
        let next = |mut at: usize| {
            while self.starts_with(at, end, b"\\\n") {
                at += 2;
            }
            at
        };
        for letter in word {
            if self.byte(at, end) != Some(*letter) {
                return false;
            }
            at = next(at + 1);
        }
        matches!(self.byte(at, end), None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')'))
    }

    /// Reads the expansion that a `$` or a backtick begins, if any.
    fn lex_expansion(&mut self, at: usize, end: usize, around: ExpansionContext) -> Option<usize> {
        // `$(⏎(` is `$((`, and a name may continue on the next line.
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let name = self.text[(at + 1).min(end)..end].iter().take_while(|byte| is_name(byte)).count();
        let goes_on = self.next_after_breaks(at + 1 + name, end).is_some_and(|next| name == 0 || is_name(&next));
        let doubled = self.starts_with(at, end, b"$(") && self.next_after_breaks(at + 2, end) == Some(b'(');
        if self.text[at] == b'$' && (goes_on || doubled) {
            return None;
        }
        if self.starts_with(at, end, b"$((") {
            self.mark(at, LexMark::Opening(3));
            return self.lex_arithmetic(at + 3, end, b')');
        }
        if self.starts_with(at, end, b"$(") {
            self.mark(at, LexMark::Opening(2));
            return self.lex_commands(at + 2, end, ClosingToken::Parenthesis);
        }
        if self.starts_with(at, end, b"$[") {
            self.mark(at, LexMark::Opening(2));
            return self.lex_arithmetic(at + 2, end, b']');
        }
        if self.starts_with(at, end, b"${") {
            self.mark(at, LexMark::Opening(2));
            return self.lex_parameter(at + 2, end, around);
        }
        if self.text[at] == b'`' {
            self.mark(at, LexMark::Opening(1));
            // The first backtick closes, regardless of the text between; a backslash there has another meaning than
            // elsewhere.
            let close = at + 1 + self.text[at + 1..end].iter().position(|byte| *byte == b'`')?;
            if self.text[at + 1..close].iter().any(|byte| matches!(byte, b'\\' | b'#')) {
                return None;
            }
            self.lex_commands(at + 1, close, ClosingToken::End)?;
            self.mark(close, LexMark::Opening(1));
            return Some(close + 1);
        }
        // A one-character name belongs to it: `$#` begins no comment, and `$$(` is no substitution.
        let sign = self.byte(at + 1, end).filter(|byte| b"$#?*@!-".contains(byte));
        Some(at + 1 + usize::from(sign.is_some()))
    }

    fn lex_single_quotes(&mut self, at: usize, end: usize) -> Option<usize> {
        self.mark(at, LexMark::Quote);
        let close = self.text[at + 1..end].iter().position(|byte| *byte == b'\'')?;
        Some(at + 1 + close + 1)
    }

    /// Reads double quotes, from the opening quote.
    fn lex_double_quotes(&mut self, at: usize, end: usize) -> Option<usize> {
        self.mark(at, LexMark::Quote);
        let mut at = at + 1;
        loop {
            at = match self.byte(at, end)? {
                b'"' => {
                    self.mark(at, LexMark::End);
                    return Some(at + 1);
                }
                b'\\' => at + 2,
                b'$' | b'`' => self.lex_expansion(at, end, ExpansionContext::Quotes)?,
                _ => at + 1,
            };
        }
    }

    /// Reads the inside of `${…}`: it ends at the first brace, regardless of how many open before.
    fn lex_parameter(&mut self, mut at: usize, end: usize, around: ExpansionContext) -> Option<usize> {
        // A command in braces, in newer shells.
        if matches!(self.byte(at, end)?, b' ' | b'\t' | b'\n' | b'|' | b'\\') {
            return None;
        }
        // `${#}`, `${$}` and similar.
        if b"#$?!*@-".contains(&self.byte(at, end)?) {
            at += 1;
            if matches!(self.byte(at, end)?, b'(' | b'{' | b'[') {
                return None;
            }
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        loop {
            at = match self.byte(at, end)? {
                b'}' => {
                    self.mark(at, LexMark::End);
                    self.depth -= 1;
                    return Some(at + 1);
                }
                b'\\' => at + 2,
                b'\'' if around == ExpansionContext::Nothing => self.lex_single_quotes(at, end)?,
                // Their meaning depends on what precedes them.
                b'\'' => self.after_plain_quotes(at, end)?,
                b'"' if around == ExpansionContext::Document => self.after_plain_quotes(at, end)?,
                b'"' => self.lex_double_quotes(at, end)?,
                b'$' if self.starts_with(at, end, b"$'") && around == ExpansionContext::Nothing => {
                    find_ansi_c_end(&self.text[..end], at + 2)? + 1
                }
                b'$' if self.starts_with(at, end, b"$'") => return None,
                b'$' | b'`' => self.lex_expansion(at, end, around)?,
                b'<' | b'>' if self.byte(at + 1, end) == Some(b'(') => return None,
                _ => at + 1,
            };
        }
    }

    /// Returns the position after a pair of quotes; `None` if the text between them would have a meaning without them.
    fn after_plain_quotes(&self, at: usize, end: usize) -> Option<usize> {
        let quote = self.text[at];
        let close = at + 1 + self.text[at + 1..end].iter().position(|byte| *byte == quote)?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80 || b" _-+./:,@%=".contains(byte);
        self.text[at + 1..close].iter().all(plain).then_some(close + 1)
    }

    /// Reads the inside of arithmetic, where only expansions count; the meaning of quotes there is uncertain.
    fn lex_arithmetic(&mut self, mut at: usize, end: usize, close: u8) -> Option<usize> {
        let (open, mut within) = (if close == b')' { b'(' } else { b'[' }, 0usize);
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        loop {
            at = match self.byte(at, end)? {
                b'\\' => return None,
                b'\'' => self.after_plain_quotes(at, end)?,
                b'"' => {
                    let close = self.text[at + 1..end].iter().position(|byte| *byte == b'"')?;
                    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-+".contains(byte);
                    if !self.text[at + 1..at + 1 + close].iter().all(plain) {
                        return None;
                    }
                    at + close + 2
                }
                // Its closing character counts there as well.
                b'$' if self.starts_with(at, end, b"${") || self.starts_with(at, end, b"$[") => {
                    let behind = self.lex_expansion(at, end, ExpansionContext::Quotes)?;
                    if self.text[at + 2..behind].iter().any(|byte| b"()[]".contains(byte)) {
                        return None;
                    }
                    behind
                }
                // Bash counts parentheses once more when it expands this, and then recognises no documents or comments.
                b'$' | b'`' => {
                    let behind = self.lex_expansion(at, end, ExpansionContext::Quotes)?;
                    let inner = &self.text[at..behind];
                    if inner.contains(&b'#') || inner.windows(2).any(|pair| pair == b"<<") {
                        return None;
                    }
                    behind
                }
                byte if byte == open => {
                    within += 1;
                    at + 1
                }
                byte if byte == close && within > 0 => {
                    within -= 1;
                    at + 1
                }
                byte if byte == close => {
                    self.depth -= 1;
                    // `((a) b)` is not arithmetic.
                    let doubled = close == b']' || self.byte(at + 1, end) == Some(close);
                    return doubled.then_some(at + 1 + usize::from(close == b')'));
                }
                _ => at + 1,
            };
        }
    }

    /// Reads `<<` and its delimiter.
    fn lex_here_document(&mut self, mut at: usize, end: usize) -> Option<usize> {
        self.mark(at + 1, LexMark::Operator);
        at += 2;
        let tabs = self.byte(at, end) == Some(b'-');
        at += usize::from(tabs);
        while matches!(self.byte(at, end), Some(b' ' | b'\t')) {
            at += 1;
        }
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.+%@:,/!".contains(byte);
        let length = |text: &[u8]| text.iter().position(|byte| !plain(byte)).unwrap_or(text.len());
        self.mark(at, LexMark::Word);
        let (delimiter, quoted, behind) = match self.byte(at, end)? {
            quote @ (b'\'' | b'"') => {
                let inner = &self.text[at + 1..end];
                let inner = &inner[..inner.iter().position(|byte| *byte == quote)?];
                let starts_plain = inner.first().is_some_and(plain) && inner.last().is_some_and(plain);
                if !starts_plain || !inner.iter().all(|byte| plain(byte) || *byte == b' ') {
                    return None;
                }
                (inner.to_vec(), true, at + 1 + inner.len() + 1)
            }
            first => {
                let start = at + usize::from(first == b'\\');
                let behind = start + length(&self.text[start..end]);
                (self.text[start..behind].to_vec(), first == b'\\', behind)
            }
        };
        // The end must be unambiguous.
        let ends = matches!(
            self.byte(behind, end),
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')')
        );
        if delimiter.is_empty() || !ends {
            return None;
        }
        self.documents.push(PendingDocument { delimiter, quoted, tabs, depth: self.depth });
        Some(behind)
    }

    /// Reads the documents that begin after this line; returns the position after them.
    fn read_documents(&mut self, mut at: usize, end: usize) -> Option<usize> {
        for document in std::mem::take(&mut self.documents) {
            if document.depth != self.depth {
                return None;
            }
            let (body, behind) = self.find_document_end(&document, at, end)?;
            if !document.quoted {
                self.expand_document(&document, at, body)?;
            }
            at = behind;
        }
        Some(at)
    }

    /// Returns the beginning of the line with the delimiter, and the position after it.
    fn find_document_end(&self, document: &PendingDocument, mut at: usize, end: usize) -> Option<(usize, usize)> {
        while at < end {
            let start = at;
            let mut line: Vec<u8> = Vec::new();
            loop {
                let rest = &self.text[at..end];
                let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                let piece = &rest[..length];
                at = (at + length + 1).min(end);
                let slashes = piece.iter().rev().take_while(|byte| **byte == b'\\').count();
                let goes_on = !document.quoted && slashes % 2 == 1 && length < rest.len();
                line.extend_from_slice(if goes_on { &piece[..length - 1] } else { piece });
                if !goes_on {
                    break;
                }
            }
            let tabs = if document.tabs { line.iter().take_while(|byte| **byte == b'\t').count() } else { 0 };
            if line[tabs..] == document.delimiter {
                return Some((start, at));
            }
            // In a substitution bash reads this as the end, too.
            if line[tabs..].starts_with(&document.delimiter) && line.contains(&b')') {
                return None;
            }
        }
        None
    }

    /// Reads the expansions in a document. Bash joins its lines, and removes tabs, before it expands: in the middle of
    /// a substitution with quotes and comments, that changes the text.
    fn expand_document(&mut self, document: &PendingDocument, mut at: usize, end: usize) -> Option<()> {
        while let Some(byte) = self.byte(at, end) {
            at = match byte {
                b'\\' => at + 2,
                b'$' | b'`' => {
                    let behind = self.lex_expansion(at, end, ExpansionContext::Document)?;
                    let changes = |pair: &[u8]| pair == b"\\\n" || (document.tabs && pair == b"\n\t");
                    if self.text[at..behind.min(end)].windows(2).any(changes) {
                        return None;
                    }
                    behind
                }
                _ => at + 1,
            };
        }
        Some(())
    }
}
