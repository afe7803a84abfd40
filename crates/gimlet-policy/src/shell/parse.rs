//! From shell text to its commands, by tree-sitter-bash. The grammar is laxer than bash and skips some characters that
//! bash reads, so every leaf and every gap between leaves is checked against bash's own lexical rules; a single
//! disagreement makes the whole text not understood. This room judges nothing.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::node_words::{Words, is_continuation, word_of};
use super::scan::ansi_c_end;
use super::word::{Word, WordBuilder};
use super::{Trouble, kinds, prescan};

/// How long the grammar may think about one text.
const PARSE_BUDGET: Duration = Duration::from_millis(100);

/// A command with the words that the shell would see, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Command {
    pub(crate) words: Vec<Word>,
    pub(crate) assigns: bool,
}

/// A redirection.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    pub(crate) operator: String,
    pub(crate) target: Word,
}

/// What the grammar made of a text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) commands: Vec<Command>,
    pub(crate) redirects: Vec<Redirect>,
    /// The first thing that was not understood.
    pub(crate) trouble: Option<Trouble>,
    /// Only lists and pipelines of simple commands.
    pub(crate) plain: bool,
    /// Nothing but one simple command: no terminator, assignment or redirection.
    pub(crate) single: bool,
    /// The command whose exit status is the text's, when that is plain to see.
    pub(crate) last_command: Option<usize>,
}

thread_local! {
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// Parses within the budget; `None` when time ran out or the grammar could not be loaded.
fn tree_of(text: &str) -> Option<Tree> {
    PARSER.with_borrow_mut(|slot| {
        let parser = match slot {
            Some(parser) => parser,
            None => {
                let mut parser = Parser::new();
                parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
                slot.insert(parser)
            }
        };
        let started = Instant::now();
        let mut out_of_time = |_: &tree_sitter::ParseState| {
            if started.elapsed() > PARSE_BUDGET { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let shadow = ascii_shadow(text);
        let bytes = shadow.as_ref();
        let options = ParseOptions::new().progress_callback(&mut out_of_time);
        let tree = parser.parse_with_options(&mut |at, _| &bytes[at.min(bytes.len())..], None, Some(options));
        if tree.is_none() {
            // An abandoned parse would otherwise be resumed with the next text.
            parser.reset();
        }
        tree
    })
}

/// The text as the grammar may see it, byte for byte as long: its scanner hands characters beyond ASCII to C functions
/// that are not defined for them, and takes some of them for blanks where bash sees letters. So they become letters.
fn ascii_shadow(text: &str) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| matches!(byte, b'\t' | b'\n' | b' '..=b'~');
    if text.as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(text.as_bytes());
    }
    text.bytes().map(|byte| if is_plain(&byte) { byte } else { b'x' }).collect()
}

pub(crate) fn parse(text: &str) -> Parsed {
    if let Some(trouble) = prescan::too_much(text) {
        return Parsed { trouble: Some(trouble), ..Parsed::default() };
    }
    let Some(tree) = tree_of(text) else {
        return Parsed { trouble: Some(Trouble::Timeout), ..Parsed::default() };
    };
    let mut walk = Walk {
        text,
        parsed: Parsed { plain: true, ..Parsed::default() },
        read_to: 0,
        newline_may_follow: true,
        line_may_start: None,
        extra_words: None,
    };
    walk.whole(&tree);
    let mut parsed = walk.parsed;
    let root = tree.root_node();
    parsed.single = root.child_count() == 1
        && root.child(0).is_some_and(|node| node.kind() == "command")
        && parsed.commands.len() == 1
        && parsed.redirects.is_empty()
        && !parsed.commands[0].assigns;
    if let Some(trouble) = prescan::forbidden_character(text) {
        parsed.trouble = Some(trouble);
    }
    parsed
}

/// What surrounds a node.
#[derive(Clone, Copy, Debug, Default)]
struct Inside {
    loose: bool,
    substitution: bool,
    /// Directly inside one branch of a `case`.
    branch: bool,
}

struct Walk<'a> {
    text: &'a str,
    parsed: Parsed,
    /// The end of the last leaf.
    read_to: usize,
    /// After the last leaf a newline means nothing.
    newline_may_follow: bool,
    /// Where the innermost node that may start a line begins.
    line_may_start: Option<usize>,
    /// Arguments that follow a redirection's target, for the command that starts at this byte.
    extra_words: Option<(usize, Vec<Word>)>,
}

impl<'a> Walk<'a> {
    /// Visits every node once, without recursion: a list of n commands is n levels deep.
    fn whole(&mut self, tree: &Tree) {
        let mut cursor = tree.walk();
        let mut inside = vec![Inside::default()];
        loop {
            let node = cursor.node();
            let around = inside.last().copied().unwrap_or_default();
            self.visit(node, around);
            if cursor.goto_first_child() {
                let substitution = matches!(node.kind(), "command_substitution" | "process_substitution");
                inside.push(Inside {
                    loose: !substitution && (around.loose || kinds::is_loose(node.kind())),
                    substitution: around.substitution || substitution,
                    branch: node.kind() == "case_item",
                });
                continue;
            }
            self.leaf(node, around);
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return self.end(tree.root_node());
                }
                inside.pop();
            }
        }
    }

    fn trouble(&mut self, trouble: Trouble) {
        self.parsed.trouble.get_or_insert(trouble);
    }

    fn end(&mut self, root: Node<'_>) {
        if !is_blank(&self.text[self.read_to.min(self.text.len())..]) {
            self.trouble(Trouble::Syntax);
        }
        let mut cursor = root.walk();
        let statement = root.named_children(&mut cursor).filter(|node| node.kind() != "comment").last();
        let sequential = statement.is_some_and(|node| {
            matches!(node.kind(), "command" | "pipeline" | "list" | "redirected_statement" | "test_command")
        });
        if !sequential || self.parsed.trouble.is_some() {
            self.parsed.last_command = None;
        }
    }

    fn source(&self, node: Node<'_>) -> &'a str {
        // A node may end inside a character where the grammar saw several letters; then its source is unknown.
        self.text.get(node.byte_range()).unwrap_or("")
    }

    fn visit(&mut self, node: Node<'_>, around: Inside) {
        let kind = node.kind();
        if node.is_error() || node.is_missing() {
            self.trouble(Trouble::Syntax);
        }
        if node.is_named() && !kinds::is_known(kind) {
            self.trouble(Trouble::Construct);
        }
        if !kinds::is_plain(kind) {
            self.parsed.plain = false;
        }
        if kinds::starts_line(kind) {
            self.line_may_start = Some(node.start_byte());
        }
        let known = self.parsed.commands.len();
        match kind {
            "command" => self.command(node),
            "declaration_command" | "unset_command" | "test_command" => self.builtin(node),
            "redirected_statement" => self.redirected(node),
            "concatenation" => self.concatenation(node),
            // Empty bodies are an error to bash.
            "do_group" | "compound_statement" if node.named_child_count() == 0 => self.trouble(Trouble::Syntax),
            "file_redirect" => self.file_redirect(node),
            "heredoc_redirect" => self.here_document(node),
            // The grammar takes it for `;`, bash does not.
            ";;" if !around.branch => self.trouble(Trouble::Syntax),
            _ => {}
        }
        if self.parsed.commands.len() > known && !around.substitution {
            self.parsed.last_command = Some(known);
        }
    }

    fn leaf(&mut self, node: Node<'_>, around: Inside) {
        let loose = around.loose;
        let gap = self.text.get(self.read_to..node.start_byte()).unwrap_or("");
        // A newline inside a command, which the grammar skipped instead of ending the command there.
        let may_break = self.newline_may_follow || self.line_may_start == Some(node.start_byte());
        let swallowed = gap.replace("\\\n", "").contains('\n') && !may_break;
        if !loose && (!is_blank(gap) || swallowed) {
            self.trouble(Trouble::Syntax);
        }
        self.read_to = self.read_to.max(node.end_byte());
        self.newline_may_follow = (around.branch && node.kind() == ")") || kinds::is_open_ended(node.kind());
        let source = self.source(node);
        let sound = match node.kind() {
            "raw_string" => source.len() >= 2 && source.matches('\'').count() == 2,
            "ansi_c_string" => ansi_c_end(source, 2).is_some_and(|end| end + 1 == source.len()),
            "word" => !has_bare_special(source) && (loose || !source.chars().any(prescan::is_invisible)),
            "extglob_pattern" | "number" => !has_bare_special(source),
            "variable_name" => loose || !source.chars().any(prescan::is_invisible),
            "comment" => starts_word(&self.text[..node.start_byte()]),
            _ => true,
        };
        if !sound {
            self.trouble(Trouble::Syntax);
        }
    }

    /// The parts of one word must touch each other.
    fn concatenation(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut end = node.start_byte();
        for child in node.children(&mut cursor) {
            if !is_continuation(self.text.get(end..child.start_byte())) || child.kind() == "``" {
                self.trouble(Trouble::Syntax);
            }
            end = child.end_byte();
        }
    }

    fn command(&mut self, node: Node<'_>) {
        let mut command = Command::default();
        let mut words = Words::new(self.text);
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "variable_assignment" => command.assigns = true,
                "file_redirect" => {}
                "herestring_redirect" => self.herestring(child),
                "command_name" => words.add(child.child(0).unwrap_or(child)),
                "subshell" | "=~" | "==" => {
                    // `name (…)` is not a command to bash, and the operators belong into `[[ … ]]`.
                    self.trouble(Trouble::Construct);
                    words.add(child);
                }
                _ => words.add(child),
            }
        }
        command.words = words.finish();
        if words_are_odd(&command.words) {
            self.trouble(Trouble::Construct);
        }
        if let Some((_, extra)) = self.extra_words.take_if(|(start, _)| *start == node.start_byte()) {
            command.words.extend(extra);
        }
        self.parsed.commands.push(command);
    }

    /// Builtins for which the grammar has nodes of their own.
    fn builtin(&mut self, node: Node<'_>) {
        let mut words = Words::new(self.text);
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            words.add(child);
        }
        let assigns = node.kind() != "test_command";
        self.parsed.commands.push(Command { words: words.finish(), assigns });
    }

    /// The grammar counts words after a redirection's target as further targets; to bash they are arguments.
    fn redirected(&mut self, node: Node<'_>) {
        let mut extra = Vec::new();
        let mut cursor = node.walk();
        for redirect in node.children(&mut cursor).filter(|child| child.kind() == "file_redirect") {
            let mut inner = redirect.walk();
            let mut words = Words::new(self.text);
            redirect.children_by_field_name("destination", &mut inner).skip(1).for_each(|node| words.add(node));
            extra.extend(words.finish());
        }
        if extra.is_empty() {
            return;
        }
        match node.child_by_field_name("body") {
            Some(body) if body.kind() == "command" => self.extra_words = Some((body.start_byte(), extra)),
            _ => self.trouble(Trouble::Construct),
        }
        self.parsed.plain = false;
    }

    fn file_redirect(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let operator = node.children(&mut cursor).find(|child| !child.is_named()).map(|child| self.source(child));
        let target = node.child_by_field_name("destination").map(|target| word_of(target, self.text));
        let redirect = Redirect { operator: operator.unwrap_or("").to_owned(), target: target.unwrap_or_default() };
        self.parsed.redirects.push(redirect);
    }

    fn herestring(&mut self, node: Node<'_>) {
        let target = node.named_child(node.named_child_count().saturating_sub(1) as u32);
        let target = target.map(|target| word_of(target, self.text)).unwrap_or_default();
        self.parsed.redirects.push(Redirect { operator: "<<<".to_owned(), target });
    }

    /// Checks that bash would end the document where the grammar did.
    fn here_document(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let (mut start, mut body, mut end, mut tabs, mut arguments) = ("", "", "", false, false);
        for child in node.children(&mut cursor) {
            match child.kind() {
                "heredoc_start" => start = self.source(child),
                "heredoc_body" => body = self.source(child),
                "heredoc_end" => end = line_at(self.text, child.start_byte()),
                "<<-" => tabs = true,
                "<<" | "\n" | "file_descriptor" | "file_redirect" | "pipeline" | "&&" | "||" | "|" => {}
                _ => arguments |= child.is_named() && cursor_field_is_argument(node, child),
            }
        }
        let mut delimiter = WordBuilder::default();
        let quoted = start.contains(['\'', '"', '\\']);
        delimiter.unquoted(&start.replace(['\'', '"'], ""));
        let delimiter = delimiter.finish();
        let strip = |line: &str| if tabs { line.trim_start_matches('\t').to_owned() } else { line.to_owned() };
        let ends_early = body.lines().any(|line| delimiter.value().is_some_and(|word| strip(line) == word));
        let ends_right = delimiter.value().is_some_and(|word| strip(end) == word);
        let runs = !quoted && body.contains(['`', '$']) && !is_simple_text(body);
        if arguments || ends_early || !ends_right || runs {
            self.trouble(Trouble::Construct);
        }
        let mut document = WordBuilder::default();
        document.quoted(body);
        self.parsed.redirects.push(Redirect { operator: "<<".to_owned(), target: document.finish() });
    }
}

/// The whole line around a position.
fn line_at(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    text[start..].lines().next().unwrap_or("")
}

fn cursor_field_is_argument(parent: Node<'_>, child: Node<'_>) -> bool {
    let mut cursor = parent.walk();
    parent.children_by_field_name("argument", &mut cursor).any(|argument| argument == child)
}

/// An unquoted here-document in which nothing but plain variables is expanded.
fn is_simple_text(body: &str) -> bool {
    !body.contains('`') && !body.contains("$(") && !body.contains("${") && !body.contains("$[")
}

/// Inside `${…}` and patterns the grammar takes whole stretches for one word, substitutions included.
fn has_bare_special(source: &str) -> bool {
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '`' | '$' | '(' | '<' | '>' | '"' | '\'' | ';' | '&' => return true,
            _ => {}
        }
    }
    false
}

/// In bash a `#` starts a comment only where a word could start, and a line continuation does not end a word.
fn starts_word(mut before: &str) -> bool {
    while let Some(shorter) = before.strip_suffix("\\\n") {
        before = shorter;
    }
    before.is_empty() || before.ends_with([' ', '\t', '\n', ';', '&', '|', '(', ')'])
}

/// Blanks, newlines and line continuations: what bash, too, skips between words.
fn is_blank(gap: &str) -> bool {
    gap.replace("\\\n", " ").chars().all(|c| matches!(c, ' ' | '\t' | '\n'))
}

/// A command word that bash reads as something else than the grammar did.
fn words_are_odd(words: &[Word]) -> bool {
    const RESERVED: &[&str] = &[
        "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "select", "in",
        "function", "{", "}", "!", "[[", "]]", "coproc",
    ];
    let Some(Some(name)) = words.first().map(Word::value) else { return false };
    RESERVED.contains(&name) || name.contains('=')
}
