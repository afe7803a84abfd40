//! What a text gives to names: by assignments, loops, `read` and `printf -v`. A value that another command prints is kept
//! as that command, so that whoever removes it can be judged by what it prints.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::parse::{self, Command, Parsed};
use super::super::scan::{self, Binding};
use super::super::word::{Piece, Word};
use super::super::wrappers::base_name;

/// Substitutions that are taken apart for one command line.
const MOST_PARSED: usize = 16;
/// Streams that one `read` may read, and values that one name may have from there.
const MOST_SOURCES: usize = 64;
/// Longer ones print what nobody knows.
const LONGEST_PARSED: usize = 1_000;

/// Stands for a name by which a text reaches the elements of some list of its own.
const ELEMENTS: &str = "[@]";

/// A command whose output is used.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Source {
    /// Its words; none when nobody knows what it is.
    pub(super) words: Arc<[Word]>,
    /// Something takes some of its lines and leaves others.
    pub(super) picked: bool,
}

/// Where the value of a name comes from.
#[derive(Clone, Debug)]
pub(in super::super) enum Bound {
    Value(Word),
    Printed(Source),
}

pub(in super::super) type Names = HashMap<String, Vec<Bound>>;

/// The pipes of a text, to follow back.
pub(super) struct Pipes<'a> {
    commands: HashMap<usize, &'a Command>,
    before: HashMap<usize, usize>,
}

impl<'a> Pipes<'a> {
    pub(super) fn of(parsed: &'a Parsed) -> Self {
        Self {
            commands: parsed.commands.iter().map(|command| (command.at, command)).collect(),
            before: parsed.pipes.iter().map(|(from, to)| (*to, *from)).collect(),
        }
    }

    /// What the command that begins here reads; `None` when it reads no pipe.
    pub(super) fn feeding(&self, at: usize) -> Option<Source> {
        self.before.get(&at).map(|from| self.out_of(*from))
    }

    /// Whose words come out of the command that begins here, past those that only hand them on.
    pub(super) fn out_of(&self, mut at: usize) -> Source {
        let mut picked = false;
        while let Some(command) = self.commands.get(&at) {
            let (Some(picks), Some(before)) = (handing_on(&command.words), self.before.get(&at)) else {
                return Source { words: command.words.as_slice().into(), picked };
            };
            (at, picked) = (*before, picked | picks);
        }
        Source::default()
    }
}

fn name(words: &[Word]) -> Option<&str> {
    words.first().and_then(Word::value).map(base_name)
}

/// For a program that gives out whole lines of what it reads: whether it leaves some out.
fn handing_on(words: &[Word]) -> Option<bool> {
    let options = words.iter().skip(1).all(|word| word.value().is_some_and(|text| text.starts_with('-')));
    match name(words)? {
        "cat" | "sort" | "uniq" | "tac" if options => Some(false),
        "grep" | "egrep" | "fgrep" | "head" | "tail" | "rg" => Some(true),
        _ => None,
    }
}

/// The names that the loops of one text and its `read` commands give values to.
pub(in super::super) fn looped(parsed: &Parsed) -> Names {
    let mut names = Names::new();
    let pipes = Pipes::of(parsed);
    for found in &parsed.loops {
        for word in &found.words {
            let bound = match word.pieces() {
                [Piece::Output(at)] => Bound::Printed(inside(*at, parsed, &pipes)),
                // `"${list[@]}"`
                [Piece::Unknown] => Bound::Value(Word::of(Piece::Variable(ELEMENTS.to_owned()))),
                _ => Bound::Value(word.clone()),
            };
            names.entry(found.name.clone()).or_default().push(bound);
        }
    }
    let mut elsewhere = None;
    // Many may read the same pipe, and it may be a long one.
    let mut out_of: HashMap<usize, Source> = HashMap::new();
    let reads = |command: &&Command| matches!(name(&command.words), Some("read" | "mapfile" | "readarray"));
    for command in parsed.commands.iter().filter(reads) {
        let around = parsed.fed.iter().filter(|(_, body)| body.contains(&command.at));
        let piped = around
            .min_by_key(|(_, body)| body.len())
            .map(|(from, _)| vec![Bound::Printed(out_of.entry(*from).or_insert_with(|| pipes.out_of(*from)).clone())]);
        let sources = match &piped {
            Some(sources) => sources,
            None => &*elsewhere.get_or_insert_with(|| unpiped(parsed, &pipes)),
        };
        for name in read_names(&command.words) {
            let known = names.entry(name.to_owned()).or_default();
            if known.len() < MOST_SOURCES {
                known.extend(sources.iter().cloned());
            }
        }
    }
    names
}

/// What the substitution that begins here prints.
fn inside(at: usize, parsed: &Parsed, pipes: &Pipes<'_>) -> Source {
    let inner = parsed.commands.iter().filter(|command| command.within == Some(at)).map(|command| command.at);
    inner.max().map(|last| pipes.out_of(last)).unwrap_or_default()
}

/// What a `read` may read that no pipe leads to: any document and any stream of the text.
fn unpiped(parsed: &Parsed, pipes: &Pipes<'_>) -> Vec<Bound> {
    let documents = parsed.redirects.iter().filter(|redirect| redirect.operator.starts_with("<<"));
    let mut found: Vec<Bound> = Vec::new();
    for document in documents {
        match document.target.value() {
            Some(text) => found.extend(text.split_whitespace().map(|name| Bound::Value(Word::literal(name)))),
            None => found.push(Bound::Value(document.target.clone())),
        }
    }
    let mut streams: Vec<usize> = parsed.commands.iter().filter_map(|command| command.within).collect();
    streams.dedup();
    let too_many = streams.len() > MOST_SOURCES || found.len() > MOST_SOURCES;
    found.extend(streams.into_iter().take(MOST_SOURCES).map(|at| Bound::Printed(inside(at, parsed, pipes))));
    if found.is_empty() || too_many {
        found.push(Bound::Printed(Source::default()));
    }
    found
}

fn read_names(words: &[Word]) -> Vec<&str> {
    let mut names = Vec::new();
    let valued: &[char] = match name(words) {
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

/// Adds the names that texts give values to by themselves.
pub(in super::super) fn add_assigned(names: &mut Names, texts: &[String]) {
    let mut left = MOST_PARSED;
    for text in texts {
        for Binding { name, value, element } in scan::bindings(text) {
            let bound = match value.pieces() {
                [Piece::Output(at)] => {
                    left = left.saturating_sub(1);
                    Bound::Printed(if left > 0 { printed(text, *at) } else { Source::default() })
                }
                _ => Bound::Value(value),
            };
            if element {
                names.entry(ELEMENTS.to_owned()).or_default().push(bound.clone());
            }
            names.entry(name).or_default().push(bound);
        }
    }
}

/// What the substitution at this place of a text prints.
fn printed(text: &str, at: usize) -> Source {
    let Some(inner) = substitution(&text[at..]).filter(|inner| inner.len() <= LONGEST_PARSED) else {
        return Source::default();
    };
    let parsed = parse::parse(inner);
    let own = parsed.commands.iter().filter(|command| command.within.is_none()).map(|command| command.at);
    own.max().filter(|_| parsed.trouble.is_none()).map(|last| Pipes::of(&parsed).out_of(last)).unwrap_or_default()
}

/// The text of a substitution, given what begins with it.
fn substitution(text: &str) -> Option<&str> {
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

/// Whether a command may itself remove something, by a name that its words show or hide.
pub(in super::super) fn is_remover(words: &[Word]) -> bool {
    let removes = |name: &str| matches!(name, "rm" | "rmdir" | "unlink" | "find");
    !words.is_empty() && name(words).is_none_or(removes)
}
