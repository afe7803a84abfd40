//! Parser from shell text to commands, by tree-sitter-bash. The grammar is laxer than bash and skips some characters
//! that bash reads, so every leaf and every gap between leaves is checked against bash's own lexical rules; a single
//! disagreement makes the whole text not understood. This module must not judge anything.

mod construct_checks;
mod here_documents;
mod lexer;
mod tree_walk;

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, Parser, Tree};

use super::word::Word;
use super::{ParseTrouble, node_kinds, prescan};
use tree_walk::TreeWalk;

/// Timeout for parsing one text.
const PARSE_BUDGET: Duration = Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 30 });
/// Maximum length of a text that our own lexer rejects and the grammar still parses. Such texts need a prompt in any
/// case, and the grammar is slow on them; it only sees short ones, to find commands that a rule denies by name. In
/// longer ones the linear scan finds these.
const LONGEST_DOUBTFUL: usize = 500;

/// An assignment in front of a command: `NAME=value`.
#[derive(Clone, Debug)]
pub(crate) struct VariableAssignment {
    pub(crate) name: String,
    /// The value; `None` for anything but a plain `=` with a static value.
    pub(crate) value: Option<String>,
}

/// A command with the words that the shell would see, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedCommand {
    pub(crate) words: Vec<Word>,
    pub(crate) assignments: Vec<VariableAssignment>,
    /// Byte offset in the text.
    pub(crate) at: usize,
    /// Byte offset of the innermost substitution around it.
    pub(crate) within: Option<usize>,
    /// True if it is in the body or the condition of a loop.
    pub(crate) in_loop: bool,
    /// True if its standard error may be redirected to its output.
    pub(crate) errors_join_output: bool,
}

/// A loop: `for name in words; do body; done`.
#[derive(Clone, Debug)]
pub(crate) struct ForLoop {
    pub(crate) name: String,
    pub(crate) words: Vec<Word>,
    pub(crate) body: Range<usize>,
}

/// A redirection.
#[derive(Clone, Debug)]
pub(crate) struct ParsedRedirect {
    pub(crate) operator: String,
    pub(crate) target: Word,
    /// Byte offset in the text.
    pub(crate) at: usize,
    /// The descriptor in front of it, if written as a number.
    pub(crate) descriptor: Option<String>,
    /// The command or statement that it belongs to, if that matters for a descriptor above 2.
    pub(crate) statement: Range<usize>,
}

impl ParsedRedirect {
    /// Returns the number of the target descriptor, if above 2.
    pub(crate) fn extra_descriptor_target(&self) -> Option<&str> {
        if !matches!(self.operator.as_str(), "<&" | ">&") {
            return None;
        }
        let target = self.target.value()?;
        let number = target.strip_suffix('-').unwrap_or(target);
        is_extra_descriptor(number).then_some(number)
    }

    /// Returns true if a descriptor above 2 is opened or used by its number.
    pub(crate) fn uses_extra_descriptor(&self) -> bool {
        self.descriptor.as_deref().is_some_and(is_extra_descriptor) || self.extra_descriptor_target().is_some()
    }

    /// Returns true if this redirection has opened the descriptor by the time that another one uses it.
    pub(crate) fn opens_descriptor_for(&self, number: &str, other: &ParsedRedirect) -> bool {
        let same = |own: &String| own.trim_start_matches('0') == number.trim_start_matches('0');
        let before = self.at < other.at || self.statement != other.statement;
        self.descriptor.as_ref().is_some_and(same) && self.statement.contains(&other.at) && before
    }
}

/// Result of parsing a text.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedScript {
    pub(crate) commands: Vec<ParsedCommand>,
    pub(crate) redirects: Vec<ParsedRedirect>,
    /// The first problem that made it not understood.
    pub(crate) trouble: Option<ParseTrouble>,
    /// True if it contains constructs that rules about single commands do not cover: definitions, assignments on their
    /// own, arithmetic with names in it.
    pub(crate) beyond_command_rules: bool,
    /// True if it contains an expansion that may run or assign something depending on the value of a variable.
    pub(crate) has_indirect_expansion: bool,
    /// True if the value of a variable is run as code.
    pub(crate) runs_values: bool,
    /// Text that bash expands and the grammar does not: between single quotes that do not quote, and in documents.
    pub(crate) unquoted: Vec<String>,
    /// The static values of assignments that belong to no command.
    pub(crate) assigned_values: Vec<String>,
    pub(crate) loops: Vec<ForLoop>,
    /// Adjacent commands of a pipeline: byte offsets of one and of the next.
    pub(crate) pipes: Vec<(usize, usize)>,
    /// Byte offset of a command that a loop or group reads from, and the range of that loop or group.
    pub(crate) loop_inputs: Vec<(usize, Range<usize>)>,
    /// True for nothing but one simple command: no terminator, assignment or redirection.
    pub(crate) single: bool,
    /// The command whose exit status is the text's, if unambiguous.
    pub(crate) last_command: Option<usize>,
}

thread_local! {
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// Parses within the timeout; returns `None` if it expired or the grammar could not be loaded.
fn parse_tree(text: &str) -> Option<Tree> {
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
        let shadow = with_ascii_letters(text);
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

/// Returns the text as the grammar may see it, with its byte length unchanged: the grammar's scanner passes non-ASCII
/// characters to C functions that are not defined for them, and treats some as whitespace where bash sees letters. So
/// they are replaced by letters.
fn with_ascii_letters(text: &str) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| matches!(byte, b'\t' | b'\n' | b' '..=b'~');
    if text.as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(text.as_bytes());
    }
    text.bytes().map(|byte| if is_plain(&byte) { byte } else { b'x' }).collect()
}

/// Returns true if a text is the number of a descriptor above 2.
fn is_extra_descriptor(text: &str) -> bool {
    is_descriptor_number(text) && !matches!(text.trim_start_matches('0'), "" | "1" | "2")
}

/// Returns true if a text is the number of a descriptor.
pub(crate) fn is_descriptor_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn parse_script(text: &str) -> ParsedScript {
    if let Some(trouble) = prescan::check_size_limits(text) {
        return ParsedScript { trouble: Some(trouble), ..ParsedScript::default() };
    }
    let marks = lexer::lex_marks(text);
    if marks.is_none() && text.len() > LONGEST_DOUBTFUL {
        return ParsedScript { trouble: Some(ParseTrouble::Construct), ..ParsedScript::default() };
    }
    let Some(tree) = parse_tree(text) else {
        return ParsedScript { trouble: Some(ParseTrouble::Timeout), ..ParsedScript::default() };
    };
    let mut parsed = TreeWalk::new(text, marks).walk_tree(&tree);
    let root = tree.root_node();
    parsed.single = root.child_count() == 1
        && root.child(0).is_some_and(|node| node_kinds::kind_name(node) == "command")
        && parsed.commands.len() == 1
        && parsed.redirects.is_empty()
        && parsed.commands[0].assignments.is_empty();
    if let Some(trouble) = prescan::find_forbidden_character(text) {
        parsed.trouble = Some(trouble);
    }
    parsed
}
