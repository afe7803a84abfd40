//! Removals of what another program names: `find … -delete`, `find … -exec rm`, and `xargs rm` behind a pipe. A walk over
//! everything below a place is a removal of that place; one that picks files by name, age or size is not.

use std::collections::HashMap;

use super::super::parse::{Command, Parsed};
use super::super::word::Word;
use super::super::wrappers::{base_name, reachable};
use super::Around;

/// Tests of `find` that pick some files out of many, each with whether its argument is a pattern of names.
const PICKS: &[(&str, bool)] = &[
    ("-name", true),
    ("-iname", true),
    ("-path", true),
    ("-ipath", true),
    ("-wholename", true),
    ("-iwholename", true),
    ("-lname", true),
    ("-ilname", true),
    ("-regex", false),
    ("-iregex", false),
    ("-amin", false),
    ("-atime", false),
    ("-cmin", false),
    ("-ctime", false),
    ("-mmin", false),
    ("-mtime", false),
    ("-newer", false),
    ("-anewer", false),
    ("-cnewer", false),
    ("-size", false),
    ("-empty", false),
    ("-user", false),
    ("-group", false),
    ("-uid", false),
    ("-gid", false),
    ("-nouser", false),
    ("-nogroup", false),
    ("-perm", false),
    ("-inum", false),
    ("-links", false),
    ("-samefile", false),
];

/// A command that gets words from another one, and what these are.
pub(in super::super) enum Feed {
    /// What this command prints.
    Printed(Vec<Word>),
    /// A here-document or here-string.
    Text(String),
}

/// What feeds the commands of a text that remove whatever they are fed.
pub(in super::super) fn feeds(parsed: &Parsed) -> Vec<Feed> {
    let removers = parsed.commands.iter().filter(|command| removes_what_it_is_fed(&command.words));
    let mut removers = removers.peekable();
    if removers.peek().is_none() {
        return Vec::new();
    }
    let commands: HashMap<usize, &Command> = parsed.commands.iter().map(|command| (command.at, command)).collect();
    let pipes: HashMap<usize, usize> = parsed.pipes.iter().map(|(from, to)| (*to, *from)).collect();
    let mut feeds = Vec::new();
    for remover in removers {
        let mut to = remover.at;
        while let Some(from) = pipes.get(&to) {
            let Some(feeder) = commands.get(from) else { break };
            if !passes_on(&feeder.words) {
                feeds.push(Feed::Printed(feeder.words.clone()));
                break;
            }
            to = *from;
        }
    }
    // Which of them reads a document is not followed.
    let documents = parsed.redirects.iter().filter(|redirect| redirect.operator.starts_with("<<"));
    let texts = documents.filter_map(|redirect| redirect.target.value());
    feeds.extend(texts.map(|text| Feed::Text(text.to_owned())));
    feeds
}

fn name(words: &[Word]) -> Option<&str> {
    words.first().and_then(Word::value).map(base_name)
}

fn removes_what_it_is_fed(words: &[Word]) -> bool {
    let fed = reachable(words).into_iter().filter(|words| matches!(name(words), Some("xargs" | "parallel")));
    fed.into_iter().any(|words| {
        // An option that nobody knows, such as `-I{}`, is no command.
        let is_option = |word: &Word| word.value().is_none_or(|text| text.starts_with('-'));
        let options = words.iter().skip(1).take_while(|word| is_option(word)).count();
        [words, &words[1 + options..]].into_iter().flat_map(reachable).any(is_removal)
    })
}

/// A folder that is not empty is nothing that `rmdir` removes.
fn is_removal(words: &[Word]) -> bool {
    matches!(name(words), Some("rm" | "unlink"))
}

/// Programs that leave out nothing of what they are given.
fn passes_on(words: &[Word]) -> bool {
    let options = words.iter().skip(1).all(|word| word.value().is_some_and(|text| text.starts_with('-')));
    options && matches!(name(words), Some("cat" | "sort" | "uniq" | "tac"))
}

impl Around<'_> {
    pub(super) fn critical_feed(&self, feed: &Feed) -> Option<String> {
        match feed {
            Feed::Text(text) => text.split_whitespace().find_map(|name| self.critical_name(name)),
            Feed::Printed(words) => match name(words)? {
                "echo" | "printf" => words[1..].iter().find_map(|word| match word.value() {
                    Some(text) => printed_names(text).find_map(|name| self.critical_name(name)),
                    None => self.critical_operand(word, false),
                }),
                "find" => {
                    let found = Walk::of(words);
                    self.critical_walk(&found, found.branches().any(|branch| !has(branch, "-prune") && !picks(branch)))
                }
                _ => None,
            },
        }
    }

    fn critical_name(&self, name: &str) -> Option<String> {
        self.critical_operand(&Word::literal(name), false)
    }

    pub(super) fn critical_find(&self, words: &[Word]) -> Option<String> {
        let acts = |words: &[Word]| has(words, "-delete") || reachable(words).iter().any(|inner| is_removal(inner));
        if !acts(words) {
            return None;
        }
        let found = Walk::of(words);
        let is_action = |word: &Word| matches!(word.value(), Some("-delete" | "-exec" | "-execdir" | "-ok" | "-okdir"));
        let mut acting = found.branches().filter(|branch| branch.iter().any(is_action));
        self.critical_walk(&found, acting.any(|branch| !picks(branch)))
    }

    /// `whole` says that everything below its places is removed.
    fn critical_walk(&self, found: &Walk<'_>, whole: bool) -> Option<String> {
        let here = [Word::literal(".")];
        let places = if found.places.is_empty() { &here[..] } else { found.places };
        let is_root = |word: &&Word| {
            let spelled = |word: &Word| super::plain_text(word).is_some_and(|text| is_root(&text));
            spelled(word) || self.values(word).iter().any(spelled)
        };
        places.iter().filter(|word| whole || is_root(word)).find_map(|word| self.critical_operand(word, false))
    }
}

fn is_root(text: &str) -> bool {
    text.starts_with('/') && text.split('/').all(|name| matches!(name, "" | "." | ".."))
}

/// What a text prints as names; a format is no name.
fn printed_names(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split("\\n").flat_map(|piece| piece.split("\\0")).flat_map(str::split_whitespace);
    pieces.filter(|name| !name.starts_with(['-', '%']))
}

/// A call of `find` in its two halves.
struct Walk<'a> {
    places: &'a [Word],
    expression: &'a [Word],
}

impl<'a> Walk<'a> {
    fn of(words: &'a [Word]) -> Self {
        let mut start = 1;
        while let Some(option) = words.get(start).and_then(Word::value) {
            match option {
                "-D" => start += 2,
                "-H" | "-L" | "-P" => start += 1,
                option if option.starts_with("-O") => start += 1,
                _ => break,
            }
        }
        let rest = words.get(start..).unwrap_or_default();
        let begins = |word: &Word| word.value().is_some_and(|text| text.starts_with(['-', '(', ')', '!', ',']));
        let (places, expression) = rest.split_at(rest.iter().position(begins).unwrap_or(rest.len()));
        Self { places, expression }
    }

    /// The sides of every "or".
    fn branches(&self) -> impl Iterator<Item = &'a [Word]> {
        self.expression.split(|word| matches!(word.value(), Some("-o" | "-or" | ",")))
    }
}

fn has(words: &[Word], wanted: &str) -> bool {
    words.iter().any(|word| word.value() == Some(wanted))
}

/// Whether a branch takes some files and leaves others.
fn picks(branch: &[Word]) -> bool {
    branch.iter().enumerate().any(|(at, word)| {
        let test = word.value().unwrap_or_default();
        let negated = at > 0 && matches!(branch[at - 1].value(), Some("!" | "-not"));
        let takes_all = || match branch.get(at + 1).map(Word::value) {
            Some(Some(pattern)) => pattern.chars().all(|c| matches!(c, '*' | '?' | '.' | '/')),
            Some(None) => false,
            None => true,
        };
        let known = PICKS.iter().find(|(name, _)| *name == test || (*name == "-newer" && test.starts_with(name)));
        !negated && known.is_some_and(|(_, pattern)| !pattern || !takes_all())
    })
}
