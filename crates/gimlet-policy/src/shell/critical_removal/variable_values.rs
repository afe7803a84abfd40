//! Values that a text assigns to variables: by assignments, loops, `read` and `printf -v`. A value that another command
//! prints is kept as that command, so that its removal can be judged by the command's output.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::parse::{self, ParsedCommand, ParsedScript};
use super::super::scan::{self, VariableBinding};
use super::super::word::{Word, WordPiece};
use super::super::wrappers::base_name;

/// Maximum number of substitutions that are parsed for one command line.
const MOST_PARSED: usize = 16;
/// Maximum number of streams that one `read` may read, and of values that one variable may have from there.
const MOST_SOURCES: usize = 64;
/// Length above which the output of a substitution counts as unknown.
const LONGEST_PARSED: usize = 1_000;

/// Placeholder name for the elements of any list in the text.
const ELEMENTS: &str = "[@]";

/// A command whose output is used.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct OutputSource {
    /// Its words; empty if the command is unknown.
    pub(super) words: Arc<[Word]>,
    /// True if a filter drops some of its lines.
    pub(super) filtered: bool,
}

/// Source of a variable's value.
#[derive(Clone, Debug)]
pub(in super::super) enum ValueSource {
    Value(Word),
    Printed(OutputSource),
}

pub(in super::super) type VariableValues = HashMap<String, Vec<ValueSource>>;

/// Pipes of a text, for tracing input back to its source.
pub(super) struct PipeGraph<'a> {
    commands: HashMap<usize, &'a ParsedCommand>,
    before: HashMap<usize, usize>,
}

impl<'a> PipeGraph<'a> {
    pub(super) fn from_script(parsed: &'a ParsedScript) -> Self {
        Self {
            commands: parsed.commands.iter().map(|command| (command.at, command)).collect(),
            before: parsed.pipes.iter().map(|(from, to)| (*to, *from)).collect(),
        }
    }

    /// Returns the input of the command that begins here; `None` if it reads no pipe.
    pub(super) fn source_feeding(&self, at: usize) -> Option<OutputSource> {
        self.before.get(&at).map(|from| self.source_of(*from))
    }

    /// Returns the source of the output of the command that begins here, skipping commands that only pass lines on.
    pub(super) fn source_of(&self, mut at: usize) -> OutputSource {
        let mut picked = false;
        while let Some(command) = self.commands.get(&at) {
            let (Some(picks), Some(before)) = (drops_lines(&command.words), self.before.get(&at)) else {
                return OutputSource { words: command.words.as_slice().into(), filtered: picked };
            };
            (at, picked) = (*before, picked | picks);
        }
        OutputSource::default()
    }
}

fn program_name(words: &[Word]) -> Option<&str> {
    words.first().and_then(Word::value).map(base_name)
}

/// Returns true if a program that passes on whole lines of its input drops some; `None` for other programs.
fn drops_lines(words: &[Word]) -> Option<bool> {
    let options = words.iter().skip(1).all(|word| word.value().is_some_and(|text| text.starts_with('-')));
    match program_name(words)? {
        "cat" | "sort" | "uniq" | "tac" if options => Some(false),
        "grep" | "egrep" | "fgrep" | "head" | "tail" | "rg" => Some(true),
        _ => None,
    }
}

/// Returns the variables that the loops of one text and its `read` commands assign.
pub(in super::super) fn loop_values(parsed: &ParsedScript) -> VariableValues {
    let mut names = VariableValues::new();
    let pipes = PipeGraph::from_script(parsed);
    for found in &parsed.loops {
        for word in &found.words {
            let bound = match word.pieces() {
                [WordPiece::Output(at)] => ValueSource::Printed(substitution_source(*at, parsed, &pipes)),
                // `"${list[@]}"`
                [WordPiece::Unknown] => ValueSource::Value(Word::from_piece(WordPiece::Variable(ELEMENTS.to_owned()))),
                _ => ValueSource::Value(word.clone()),
            };
            names.entry(found.name.clone()).or_default().push(bound);
        }
    }
    let mut elsewhere = None;
    // Many may read one pipe, and it may be a long one.
    let mut out_of: HashMap<usize, OutputSource> = HashMap::new();
    let reads =
        |command: &&ParsedCommand| matches!(program_name(&command.words), Some("read" | "mapfile" | "readarray"));
    for command in parsed.commands.iter().filter(reads) {
        let around = parsed.loop_inputs.iter().filter(|(_, body)| body.contains(&command.at));
        let piped = around.min_by_key(|(_, body)| body.len()).map(|(from, _)| {
            vec![ValueSource::Printed(out_of.entry(*from).or_insert_with(|| pipes.source_of(*from)).clone())]
        });
        let sources = match &piped {
            Some(sources) => sources,
            None => &*elsewhere.get_or_insert_with(|| unpiped_values(parsed, &pipes)),
        };
        for name in read_variables(&command.words) {
            let known = names.entry(name.to_owned()).or_default();
            if known.len() < MOST_SOURCES {
                known.extend(sources.iter().cloned());
            }
        }
    }
    names
}

/// Returns the output of the substitution that begins here.
fn substitution_source(at: usize, parsed: &ParsedScript, pipes: &PipeGraph<'_>) -> OutputSource {
    let inner = parsed.commands.iter().filter(|command| command.within == Some(at)).map(|command| command.at);
    inner.max().map(|last| pipes.source_of(last)).unwrap_or_default()
}

/// Returns the values that a `read` without a pipe may read: any document and any stream of the text.
fn unpiped_values(parsed: &ParsedScript, pipes: &PipeGraph<'_>) -> Vec<ValueSource> {
    let documents = parsed.redirects.iter().filter(|redirect| redirect.operator.starts_with("<<"));
    let mut found: Vec<ValueSource> = Vec::new();
    for document in documents {
        match document.target.value() {
            Some(text) => {
                found.extend(text.split_whitespace().map(|name| ValueSource::Value(Word::from_literal(name))))
            }
            None => found.push(ValueSource::Value(document.target.clone())),
        }
    }
    let mut streams: Vec<usize> = parsed.commands.iter().filter_map(|command| command.within).collect();
    streams.dedup();
    let too_many = streams.len() > MOST_SOURCES || found.len() > MOST_SOURCES;
    found.extend(
        streams.into_iter().take(MOST_SOURCES).map(|at| ValueSource::Printed(substitution_source(at, parsed, pipes))),
    );
    if found.is_empty() || too_many {
        found.push(ValueSource::Printed(OutputSource::default()));
    }
    found
}

fn read_variables(words: &[Word]) -> Vec<&str> {
    let mut names = Vec::new();
    let valued: &[char] = match program_name(words) {
        Some("read") => &['d', 'i', 'n', 'N', 'p', 't', 'u'],
        _ => &['c', 'C', 'd', 'n', 'O', 's', 'u'],
    };
    let mut known = words.iter().skip(1).map(|word| word.value().unwrap_or(""));
    while let Some(word) = known.next() {
        match word.strip_prefix('-') {
            Some(letters) if letters.ends_with(valued) => drop(known.next()),
            Some(_) => {}
            None => names.push(word),
        }
    }
    names
}

/// Adds the variables that texts assign themselves.
pub(in super::super) fn add_assigned_values(names: &mut VariableValues, texts: &[String]) {
    let mut left = MOST_PARSED;
    for text in texts {
        for VariableBinding { name, value, element } in scan::find_bindings(text) {
            let bound = match value.pieces() {
                [WordPiece::Output(at)] => {
                    left = left.saturating_sub(1);
                    ValueSource::Printed(if left > 0 { printed_source(text, *at) } else { OutputSource::default() })
                }
                _ => ValueSource::Value(value),
            };
            if element {
                names.entry(ELEMENTS.to_owned()).or_default().push(bound.clone());
            }
            names.entry(name).or_default().push(bound);
        }
    }
}

/// Returns the output of the substitution at this position of a text.
fn printed_source(text: &str, at: usize) -> OutputSource {
    let Some(inner) = substitution_text(&text[at..]).filter(|inner| inner.len() <= LONGEST_PARSED) else {
        return OutputSource::default();
    };
    let parsed = parse::parse_script(inner);
    let own = parsed.commands.iter().filter(|command| command.within.is_none()).map(|command| command.at);
    match own.max() {
        Some(last) if parsed.trouble.is_none() => PipeGraph::from_script(&parsed).source_of(last),
        _ => OutputSource::default(),
    }
}

/// Returns the text of the substitution that the given text begins with.
fn substitution_text(text: &str) -> Option<&str> {
    let text = text.trim_start_matches([' ', '\t', '\n']);
    if let Some(rest) = text.strip_prefix('`') {
        return rest.split_once('`').map(|(inner, _)| inner);
    }
    let rest = text.strip_prefix("$(")?;
    let mut open = 1;
    let end = rest.char_indices().find(|(_, c)| {
        open += i32::from(*c == '(') - i32::from(*c == ')');
        open == 0
    });
    end.map(|(at, _)| &rest[..at])
}

/// Returns true if a command may itself remove something, by a known or unknown name.
pub(in super::super) fn may_remove_files(words: &[Word]) -> bool {
    let removes = |name: &str| matches!(name, "rm" | "rmdir" | "unlink" | "find");
    !words.is_empty() && program_name(words).is_none_or(removes)
}
