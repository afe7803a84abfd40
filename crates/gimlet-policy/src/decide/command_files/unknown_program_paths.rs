//! Words by which an unknown program might open a file that rules close, or change one that rules protect. Any word
//! could name a file, so any part of a word that leads to one counts, also inside code (`python -c "open('.env')"`).
//! The result never denies: the word may name something else.

use std::collections::HashSet;
use std::path::PathBuf;

use super::protected_mentions::is_find_action;
use super::reader_scripts::ScriptSyntax;
use super::{PathLookup, file_urls, opened_files, possible_writes, writes_operands};
use crate::paths::is_process_alias;
use crate::shell::{
    ShellAnalysis, Word, WordPiece, base_name, echoed_text, is_known_wrapper, is_long_option, reachable_commands,
};

/// Limit of parts of one text that are looked up.
const MOST_STRETCHES: usize = 1_024;

/// Programs that open none of their words, or only read names, sizes and dates.
pub(super) const OPEN_NOTHING: &[&str] = &[
    ":", "[", "[[", "basename", "cd", "command", "dirname", "du", "echo", "expr", "false", "find", "hash", "id",
    "kill", "ls", "popd", "printf", "pushd", "pwd", "readlink", "realpath", "seq", "shift", "sleep", "stat", "test",
    "tr", "true", "type", "uname", "unset", "wait", "which", "whoami",
];

/// Returns every path that such programs could open; `None` when that cannot be determined.
pub(super) fn possible_reads(analysis: &ShellAnalysis, place: &PathLookup<'_>) -> Option<Vec<PathBuf>> {
    let reached = analysis.reachable_commands();
    // A recognised reader names files in its script; its other words are handled with those of readers.
    let script = |words: &[Word]| if is_reader(words) { ScriptSyntax::for_command(words) } else { None };
    collect_paths(
        analysis,
        place,
        reached.filter_map(|words| Some((words, possible_read_words(words)?, script(words)))),
    )
}

/// Returns the words that may name files to open; `None` for a command that has none, or is known.
fn possible_read_words(words: &[Word]) -> Option<Vec<&Word>> {
    let (name, arguments) = words.split_first()?;
    let any = |told: fn(&str) -> bool| arguments.iter().any(|word| told(&word.masked()));
    let opens = name.value().map(base_name).is_none_or(|name| {
        let acts = match name {
            // A program that `find` starts gets the names that it walks over.
            "find" => any(|word| is_find_action(word) || word == "-files0-from"),
            // `du` prints entries of the list that are not names of files.
            "du" => any(|word| is_long_option(word, "--files0-from")),
            _ => false,
        };
        let idle = OPEN_NOTHING.contains(&name) && !acts;
        !idle && (writes_operands(name, arguments).is_none() || ScriptSyntax::for_command(words).is_some())
    });
    opens.then(|| arguments.iter().collect())
}

/// Returns every path that such programs could change; `None` when that cannot be determined.
pub(super) fn possible_changes(analysis: &ShellAnalysis, place: &PathLookup<'_>) -> Option<Vec<PathBuf>> {
    let told = opened_files::find_known_readers(analysis);
    let reached = analysis.reachable_commands_where(|words| !told.contains(words));
    collect_paths(
        analysis,
        place,
        reached.filter_map(|words| Some((words, possible_writes::possible_write_words(words)?, None))),
    )
}

/// Collects the paths that the words and the input of these commands could stand for.
fn collect_paths<'w>(
    analysis: &ShellAnalysis,
    place: &PathLookup<'_>,
    commands: impl Iterator<Item = (&'w [Word], Vec<&'w Word>, Option<ScriptSyntax>)>,
) -> Option<Vec<PathBuf>> {
    let mut spoken =
        PathCandidates { lookup: place, remaining: MOST_STRETCHES, paths: Vec::new(), seen: HashSet::new() };
    let (mut any, mut strangers) = (false, false);
    for (words, told, script) in commands {
        if let Some(script) = script {
            let fed = script.may_act_on_input(words);
            (any, strangers) = (any || fed, strangers || fed);
            for text in told.iter().filter_map(|word| word.value()) {
                let (files, commands) = script.find_named_files(text);
                files.into_iter().try_for_each(|file| spoken.add_path(file))?;
                commands.into_iter().try_for_each(|command| spoken.add_text(command))?;
            }
            continue;
        }
        let name = words.first().and_then(Word::value).map(base_name);
        any = true;
        // A word of several words is a message to git and similar programs.
        let messages = matches!(name, Some("git" | "gh" | "glab" | "hg" | "jj"));
        strangers |= !messages && !name.is_some_and(is_known_wrapper);
        // The commands of sed are attached to the names of files: `wFILE`.
        let sed = name == Some("sed");
        for word in told.into_iter().flat_map(Word::choices) {
            spoken.add_word(word, messages)?;
            if sed && let Some(text) = word.value() {
                let files = ScriptSyntax::Sed.find_named_files(text).0;
                files.into_iter().try_for_each(|file| spoken.add_path(file))?;
            }
        }
    }
    if any {
        // The flow of values to variables is not followed.
        for value in analysis.assigned_values.iter().chain(&analysis.loop_words) {
            spoken.add_text(value)?;
        }
    }
    if strangers && feeds_unknown_program(analysis) {
        let lists = |words: &&Vec<Word>| {
            let name = words.first().and_then(Word::value).map(base_name);
            matches!(name, Some("ls" | "find" | "fd" | "fdfind" | "realpath" | "readlink"))
        };
        for word in analysis.piped_commands.iter().filter(lists).flat_map(|words| &words[1..]).flat_map(Word::choices) {
            spoken.add_word(word, false)?;
        }
    }
    if strangers {
        let echoed = analysis.piped_commands.iter().filter_map(|words| echoed_text(words));
        for text in analysis.documents.iter().cloned().chain(echoed) {
            spoken.add_text(&text)?;
        }
    }
    Some(spoken.paths)
}

/// Returns true if a command is a recognised one that opens its operands.
fn is_reader(words: &[Word]) -> bool {
    program_name(words).is_some_and(|name| writes_operands(name, &words[1..]).is_some())
}

/// Returns true if a program that is not known to only read gets its operands from its input.
pub(super) fn feeds_unknown_program(analysis: &ShellAnalysis) -> bool {
    let reached = || analysis.reachable_commands();
    let fed = reached().filter(|words| matches!(program_name(words), Some("xargs" | "parallel")));
    let mut inner = fed.flat_map(|words| reachable_commands(words).split_off(1));
    inner.any(|words| possible_writes::possible_write_words(words).is_some())
        || (reached().any(|words| program_name(words) == Some("read"))
            && reached().any(|words| {
                words.len() > 1 && possible_writes::possible_write_words(words).is_some_and(|told| !told.is_empty())
            }))
}

fn program_name(words: &[Word]) -> Option<&str> {
    words.first().and_then(Word::value).map(base_name)
}

struct PathCandidates<'a> {
    lookup: &'a PathLookup<'a>,
    remaining: usize,
    paths: Vec<PathBuf>,
    /// Results of earlier lookups.
    seen: HashSet<String>,
}

impl PathCandidates<'_> {
    fn add_word(&mut self, word: &Word, messages: bool) -> Option<()> {
        match (word.value(), word.pieces()) {
            (Some(text), _) if messages && text.contains(char::is_whitespace) => {}
            (Some(text), _) => self.add_text(text)?,
            (None, pieces) if pieces.iter().all(|piece| matches!(piece, WordPiece::Text(_) | WordPiece::Glob(_))) => {
                self.paths.extend(self.lookup.expand_pattern_word(word).unwrap_or_default());
            }
            (None, pieces) => {
                self.paths.extend(self.lookup.word_access(word, false).paths);
                for piece in pieces {
                    // After a variable a slash begins no path.
                    let WordPiece::Text(text) = piece else { continue };
                    self.add_text(text.trim_start_matches('/'))?;
                }
            }
        }
        Some(())
    }

    fn add_text(&mut self, text: &str) -> Option<()> {
        path_stretches(text).try_for_each(|stretch| self.add_path(stretch))?;
        let decoded = file_urls::percent_decode(text);
        if let Some(decoded) = &decoded {
            path_stretches(decoded).try_for_each(|stretch| self.add_path(stretch))?;
        }
        let whole = decoded.as_deref().unwrap_or(text);
        file_urls::file_url_paths(whole)?.into_iter().try_for_each(|path| self.add_path(path))
    }

    fn add_path(&mut self, stretch: &str) -> Option<()> {
        if self.seen.contains(stretch) {
            return Some(());
        }
        self.seen.insert(stretch.to_owned());
        self.remaining = self.remaining.checked_sub(1)?;
        let mut found = self.lookup.path_spellings(stretch.as_ref()).0;
        found.extend(self.lookup.paths_after_chdir(stretch));
        if found.iter().any(|path| is_process_alias(path)) {
            return None;
        }
        self.paths.extend(found);
        Some(())
    }
}

/// Returns the parts of a word that a program could take for a path.
fn path_stretches(text: &str) -> impl Iterator<Item = &str> {
    // Punctuation that is not used in names of files and patterns.
    let sign = |c: char| {
        c.is_ascii_punctuation() && !matches!(c, '-' | '.' | '/' | '_' | '~' | '*' | '?' | '#' | '%' | '+' | '^')
    };
    let apart = move |c: char| sign(c) || c.is_whitespace();
    let attached = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let attached = attached.and_then(|rest| rest.char_indices().nth(1).map(|(at, _)| &rest[at..]));
    let parts = text.split(apart).filter(move |part| part.len() < text.len());
    std::iter::once(text)
        .chain(parts)
        .chain(attached)
        .filter(|part| !part.is_empty() && !part.starts_with('-') && *part != "." && *part != "/")
}

#[cfg(test)]
mod tests {
    use super::path_stretches;

    #[test]
    fn a_path_is_found_wherever_it_stands_in_a_word() {
        for text in [
            ".env",
            "--file=.env",
            "-f.env",
            "@.env",
            "HEAD:.env",
            "a,.env",
            "print(open('.env').read())",
            "fs.readFileSync(\".env\")",
            "cat .env",
        ] {
            assert!(path_stretches(text).any(|part| part == ".env"), "{text}");
        }
        assert!(!path_stretches("--env").any(|part| part == ".env"));
        assert_eq!(path_stretches("-").count() + path_stretches("").count(), 0);
    }
}
