//! Removals of files that another program names: `find … -delete`, `find … -exec rm`, and `xargs rm` behind a pipe.
//! Traversing everything below a place counts as removing that place; selecting files by name, age or size does not.

use super::super::parse::{ParsedCommand, ParsedScript};
use super::super::word::Word;
use super::super::wrappers::{base_name, is_find_exec, reachable_commands};
use super::RemovalContext;
use super::variable_values::{OutputSource, PipeGraph};

/// Tests of `find` that select some files, each with true if its argument is a name pattern.
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

/// Programs that, regardless of their arguments, print only names that lead to nothing critical: names without a
/// directory, names below the current directory, or new ones.
const PRINT_HARMLESS: &[&str] =
    &["basename", "date", "fd", "fdfind", "hostname", "id", "mktemp", "seq", "uname", "uuidgen", "whoami"];

/// Input of a command that removes what it reads.
pub(in super::super) struct RemovalFeed {
    from: FeedSource,
    /// True if directories are removed recursively.
    recursive: bool,
}

enum FeedSource {
    /// Output of this command.
    Printed(OutputSource),
    /// A here-document or here-string.
    Text(String),
}

/// Returns the inputs of those commands of a text that remove what they read.
pub(in super::super) fn find_removal_feeds(parsed: &ParsedScript) -> Vec<RemovalFeed> {
    let removers = parsed.commands.iter().filter_map(|command| Some((command, removes_its_input(&command.words)?)));
    let removers: Vec<(&ParsedCommand, bool)> = removers.collect();
    if removers.is_empty() {
        return Vec::new();
    }
    let pipes = PipeGraph::from_script(parsed);
    // It is not tracked which of them reads a document.
    let documents = parsed.redirects.iter().filter(|redirect| redirect.operator.starts_with("<<"));
    let texts: Vec<&str> = documents.filter_map(|redirect| redirect.target.value()).collect();
    let mut feeds = Vec::new();
    for (remover, recursive) in removers {
        let piped = pipes.source_feeding(remover.at);
        // A group or a file may also feed it; the contents of a file are unknown.
        let source = piped.or_else(|| texts.is_empty().then(OutputSource::default));
        feeds.extend(source.map(|source| RemovalFeed { from: FeedSource::Printed(source), recursive }));
    }
    feeds.extend(texts.iter().map(|text| RemovalFeed { from: FeedSource::Text((*text).to_owned()), recursive: true }));
    feeds
}

fn program_name(words: &[Word]) -> Option<&str> {
    words.first().and_then(Word::value).map(base_name)
}

/// Returns `None` unless a command removes what it reads; otherwise true if it does so recursively.
fn removes_its_input(words: &[Word]) -> Option<bool> {
    let fed =
        reachable_commands(words).into_iter().filter(|words| matches!(program_name(words), Some("xargs" | "parallel")));
    let removals = fed.flat_map(|words| {
        // An unknown option, such as `-I{}`, is not a command.
        let is_option = |word: &Word| word.value().is_none_or(|text| text.starts_with('-'));
        let options = words.iter().skip(1).take_while(|word| is_option(word)).count();
        [words, &words[1 + options..]].into_iter().flat_map(reachable_commands).filter(|words| is_removal(words))
    });
    let recursive = |words: &[Word]| words[1..].iter().any(|word| word.value().is_none_or(super::is_recursive));
    removals.map(recursive).max()
}

/// Returns true if a command removes files; `rmdir` does not count, as it only removes empty directories.
fn is_removal(words: &[Word]) -> bool {
    matches!(program_name(words), Some("rm" | "unlink"))
}

impl RemovalContext<'_> {
    pub(super) fn judge_feed(&self, feed: &RemovalFeed) -> Option<String> {
        match &feed.from {
            FeedSource::Text(text) => text.split_whitespace().find_map(|name| self.judge_name(name)),
            FeedSource::Printed(source) => self.judge_source(source, feed.recursive),
        }
    }

    /// Describes a path in a command's output that must not be removed.
    pub(super) fn judge_source(&self, source: &OutputSource, recursive: bool) -> Option<String> {
        let words = &source.words;
        let unknown = || recursive.then(|| "what another command prints".to_owned());
        let Some(program) = program_name(words) else { return unknown() };
        match program {
            "echo" | "printf" => words[1..].iter().find_map(|word| match word.value() {
                Some(text) => printed_file_names(text).find_map(|name| self.judge_name(name)),
                None => self.judge_operand(word, recursive),
            }),
            "find" => {
                let found = FindCall::parse(words);
                let takes_all = found
                    .branches()
                    .any(|branch| !has_word(branch, "-prune") && !selects_some_files(words_before_print(branch)));
                self.judge_find_call(&found, takes_all && !source.filtered)
            }
            "ls" => self.judge_listing(words, recursive && !source.filtered),
            "pwd" => self.judge_name("."),
            "realpath" | "readlink" => words[1..].iter().find_map(|word| self.judge_operand(word, recursive)),
            "git" if has_word(words, "--show-toplevel") => self.judge_name("."),
            "git" => None,
            // File names below the search directory, and not the files' contents.
            "grep" | "egrep" | "fgrep" | "rg" if has_short_option(words, 'l') || has_word(words, "--files") => None,
            program if PRINT_HARMLESS.contains(&program) => None,
            _ => unknown(),
        }
    }

    /// Judges `ls`, which prints its operands or the names in a directory; these then refer to files of the working
    /// directory.
    fn judge_listing(&self, words: &[Word], all: bool) -> Option<String> {
        let is_operand = |word: &&Word| word.value().is_none_or(|text| !text.starts_with('-'));
        let operands: Vec<&Word> = words[1..].iter().filter(is_operand).collect();
        if operands.is_empty() {
            return if all { self.judge_name(".") } else { None };
        }
        let tells = |word: &&&Word| {
            let lists_folder = word.value().is_some() && !has_short_option(words, 'd');
            !lists_folder || (all && word.value() == Some("."))
        };
        operands.iter().filter(tells).find_map(|word| self.judge_operand(word, false))
    }

    fn judge_name(&self, name: &str) -> Option<String> {
        self.judge_operand(&Word::from_literal(name), false)
    }

    pub(super) fn judge_find(&self, words: &[Word]) -> Option<String> {
        let acts = |words: &[Word]| {
            has_word(words, "-delete") || reachable_commands(words).iter().any(|inner| is_removal(inner))
        };
        if !acts(words) {
            return None;
        }
        let found = FindCall::parse(words);
        let mut acting = found.branches().filter_map(words_before_removal);
        self.judge_find_call(&found, acting.any(|tests| !selects_some_files(tests)))
    }

    /// Judges a `find`; `whole` means that everything below its starting points is removed.
    fn judge_find_call(&self, found: &FindCall<'_>, whole: bool) -> Option<String> {
        let here = [Word::from_literal(".")];
        let places = if found.start_paths.is_empty() { &here[..] } else { found.start_paths };
        let is_root = |word: &&Word| {
            let spelled = |word: &Word| super::plain_text(word).is_some_and(|text| is_root(&text));
            spelled(word) || self.variable_values(word).iter().any(spelled)
        };
        let walked: Vec<&Word> = places.iter().filter(|word| whole || is_root(word)).collect();
        // An option may make it follow a symlink that it starts at.
        let begun = walked.iter().filter_map(|word| word.value()).filter(|text| !text.is_empty());
        let begun = begun.flat_map(|text| self.directories.iter().map(move |folder| folder.join(format!("{text}/"))));
        self.spelled.borrow_mut().extend(begun);
        walked.into_iter().find_map(|word| self.judge_operand(word, whole))
    }
}

fn is_root(text: &str) -> bool {
    text.starts_with('/') && text.split('/').all(|name| matches!(name, "" | "." | ".."))
}

/// Returns the names in a printed text; a format is not a name.
fn printed_file_names(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split("\\n").flat_map(|piece| piece.split("\\0")).flat_map(str::split_whitespace);
    pieces.filter(|name| !name.starts_with(['-', '%']))
}

/// A call of `find`, split into starting points and expression.
struct FindCall<'a> {
    start_paths: &'a [Word],
    expression: &'a [Word],
}

impl<'a> FindCall<'a> {
    fn parse(words: &'a [Word]) -> Self {
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
        let (start_paths, expression) = rest.split_at(rest.iter().position(begins).unwrap_or(rest.len()));
        Self { start_paths, expression }
    }

    /// Returns the alternatives of every "or".
    fn branches(&self) -> impl Iterator<Item = &'a [Word]> {
        self.expression.split(|word| matches!(word.value(), Some("-o" | "-or" | ",")))
    }
}

/// Returns true if a cluster of short options has this letter.
fn has_short_option(words: &[Word], letter: char) -> bool {
    let cluster = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.contains(letter);
    words.iter().any(|word| word.value().is_some_and(cluster))
}

fn has_word(words: &[Word], wanted: &str) -> bool {
    words.iter().any(|word| word.value() == Some(wanted))
}

/// Returns the words of a branch before the action that removes files; `None` if it has none. Tests after it come too
/// late to exclude a file.
fn words_before_removal(branch: &[Word]) -> Option<&[Word]> {
    let ends = |word: &Word| is_find_exec(word) || matches!(word.value(), Some(";" | "+"));
    let runs_removal = |behind: &[Word]| {
        let run = &behind[..behind.iter().position(ends).unwrap_or(behind.len())];
        reachable_commands(run).iter().any(|run| is_removal(run))
    };
    let removes = |(at, word): (usize, &Word)| {
        word.value() == Some("-delete") || (is_find_exec(word) && runs_removal(&branch[at + 1..]))
    };
    let first = branch.iter().enumerate().position(removes);
    // Another command that is run may be a removal in disguise.
    first.or_else(|| branch.iter().position(is_find_exec)).map(|at| &branch[..at])
}

/// Returns the words of a branch before the action that prints.
fn words_before_print(branch: &[Word]) -> &[Word] {
    let prints = |word: &Word| word.value().is_some_and(|text| text.starts_with("-print") || text == "-ls");
    &branch[..branch.iter().position(prints).unwrap_or(branch.len())]
}

/// Returns true if tests select some files and exclude others.
fn selects_some_files(branch: &[Word]) -> bool {
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
