//! From shell text to its commands, by tree-sitter-bash. The grammar is laxer than bash and skips some characters that
//! bash reads, so every leaf and every gap between leaves is checked against bash's own lexical rules; a single
//! disagreement makes the whole text not understood. This room judges nothing.

mod documents;
mod lexed;
mod structure;
mod walk;

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, Parser, Tree};

use super::word::Word;
use super::{Trouble, kinds, prescan};
use walk::Walk;

/// How long the grammar may think about one text.
const PARSE_BUDGET: Duration = Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 30 });
/// What our own lexer does not read is asked about in any case. The grammar labours over such texts, so it only sees short
/// ones, for whatever a rule forbids by name; of longer ones the linear reading finds that.
const LONGEST_DOUBTFUL: usize = 500;

/// `NAME=value` in front of a command.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    /// `None` for anything but a plain `=` with a static value.
    pub(crate) value: Option<String>,
}

/// A command with the words that the shell would see, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Command {
    pub(crate) words: Vec<Word>,
    pub(crate) assignments: Vec<Assignment>,
    /// Where it begins in the text.
    pub(crate) at: usize,
    /// Where the innermost substitution around it begins.
    pub(crate) within: Option<usize>,
    /// The body of a loop or its condition.
    pub(crate) in_loop: bool,
    /// Its errors may go where its output goes.
    pub(crate) mixed: bool,
}

/// `for name in words; do body; done`
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) name: String,
    pub(crate) words: Vec<Word>,
    pub(crate) body: Range<usize>,
}

/// A redirection.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    pub(crate) operator: String,
    pub(crate) target: Word,
    /// Where it begins in the text.
    pub(crate) at: usize,
    /// The descriptor in front of it, if its number is written there.
    pub(crate) descriptor: Option<String>,
    /// The command or statement that it belongs to, where that matters for a descriptor above 2.
    pub(crate) statement: Range<usize>,
}

impl Redirect {
    /// The number above 2 of the descriptor that this one takes for its target.
    pub(crate) fn further_descriptor(&self) -> Option<&str> {
        let target = self.target.value().filter(|_| matches!(self.operator.as_str(), "<&" | ">&"))?;
        let number = target.strip_suffix('-').unwrap_or(target);
        is_further(number).then_some(number)
    }

    /// Whether a descriptor above 2 is opened or used by its number.
    pub(crate) fn names_further_descriptor(&self) -> bool {
        self.descriptor.as_deref().is_some_and(is_further) || self.further_descriptor().is_some()
    }

    /// Whether this one has opened a descriptor by the time that another one takes it.
    pub(crate) fn opens_for(&self, number: &str, other: &Redirect) -> bool {
        let same = |own: &String| own.trim_start_matches('0') == number.trim_start_matches('0');
        let before = self.at < other.at || self.statement != other.statement;
        self.descriptor.as_ref().is_some_and(same) && self.statement.contains(&other.at) && before
    }
}

/// What the grammar made of a text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) commands: Vec<Command>,
    pub(crate) redirects: Vec<Redirect>,
    /// The first thing that was not understood.
    pub(crate) trouble: Option<Trouble>,
    /// It contains what no rule about single commands speaks of: definitions, assignments on their own, arithmetic with
    /// names in it.
    pub(crate) unspoken: bool,
    /// It contains an expansion that may run or assign something by the value of a variable.
    pub(crate) treacherous: bool,
    /// The value of a variable runs as text.
    pub(crate) runs_values: bool,
    /// Stretches that bash expands and the grammar does not: between single quotes that quote nothing, in documents.
    pub(crate) unquoted: Vec<String>,
    /// The static values of assignments that belong to no command.
    pub(crate) assigned: Vec<String>,
    pub(crate) loops: Vec<Loop>,
    /// Commands of one pipeline: where one begins, and where the one behind it begins.
    pub(crate) pipes: Vec<(usize, usize)>,
    /// Where a command begins that a loop or group reads, and where that one stands.
    pub(crate) fed: Vec<(usize, Range<usize>)>,
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

/// Whether a text is the number of a descriptor above 2.
fn is_further(text: &str) -> bool {
    is_number(text) && !matches!(text.trim_start_matches('0'), "" | "1" | "2")
}

/// Whether a text is the number of a descriptor.
pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn parse(text: &str) -> Parsed {
    if let Some(trouble) = prescan::too_much(text) {
        return Parsed { trouble: Some(trouble), ..Parsed::default() };
    }
    let marks = lexed::marks(text);
    if marks.is_none() && text.len() > LONGEST_DOUBTFUL {
        return Parsed { trouble: Some(Trouble::Construct), ..Parsed::default() };
    }
    let Some(tree) = tree_of(text) else {
        return Parsed { trouble: Some(Trouble::Timeout), ..Parsed::default() };
    };
    let mut parsed = Walk::new(text, marks).whole(&tree);
    let root = tree.root_node();
    parsed.single = root.child_count() == 1
        && root.child(0).is_some_and(|node| kinds::name(node) == "command")
        && parsed.commands.len() == 1
        && parsed.redirects.is_empty()
        && parsed.commands[0].assignments.is_empty();
    if let Some(trouble) = prescan::forbidden_character(text) {
        parsed.trouble = Some(trouble);
    }
    parsed
}
