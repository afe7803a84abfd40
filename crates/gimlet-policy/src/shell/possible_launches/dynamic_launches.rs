//! Programs that run another one named by a word that is only known at run time: `npm exec -- $x`, `tar -I "$x"`. Where
//! anything may follow, as in a container, a word counts as the program's own argument.

use super::super::command_facts::git_subcommand;
use super::super::scan;
use super::super::shell_programs::is_long_option;
use super::super::word::{Word, WordPiece};
use super::launch_tables::{GIT_RUNNING_OPTIONS, NAME_THINGS, PROGRAM_OPTIONS, RUN_NEXT_WORD};

/// Returns true if the program to run is only known at run time. `known` are the words as far as they are static.
pub(super) fn launches_dynamic_word(name: &str, words: &[Word], known: &[&str]) -> bool {
    if !words.iter().any(|word| word.value().is_none_or(|text| text.contains(['$', '`']))) {
        return false;
    }
    if name == "git" {
        return git_launches_dynamic_word(words, known);
    }
    let table = |table: &'static [(&str, &[&str])]| table.iter().find(|(program, _)| *program == name);
    if let Some((_, options)) = table(PROGRAM_OPTIONS) {
        return has_dynamic_value(words, options);
    }
    let Some((_, runners)) = table(NAME_THINGS) else { return false };
    let options: Vec<&str> = runners.iter().copied().filter(|runner| runner.starts_with('-')).collect();
    let behind = known.iter().position(|word| runners.contains(word) && !word.starts_with('-'));
    if RUN_NEXT_WORD.contains(&name)
        && let Some(at) = behind
    {
        // The package that the program is run in precedes it.
        let skipped = usize::from(known[at] == "explore");
        if starts_dynamic_word(&words[at + 1..], skipped) {
            return true;
        }
    }
    has_dynamic_value(words, &options)
}

fn git_launches_dynamic_word(words: &[Word], known: &[&str]) -> bool {
    let Some((subcommand, rest)) = git_subcommand(known) else { return false };
    let rest_words = &words[words.len() - rest.len()..];
    let letter = match subcommand {
        "rebase" | "difftool" => "-x",
        "clone" => "-u",
        _ => "--exec",
    };
    let options: Vec<&str> = GIT_RUNNING_OPTIONS.iter().copied().chain([letter]).collect();
    let leads = match subcommand {
        "bisect" => rest.iter().position(|word| *word == "run"),
        "submodule" => rest.iter().position(|word| *word == "foreach"),
        _ => None,
    };
    let behind = if subcommand == "merge-index" { Some(0) } else { leads.map(|at| at + 1) };
    behind.is_some_and(|at| starts_dynamic_word(&rest_words[at..], 0)) || has_dynamic_value(rest_words, &options)
}

/// Returns true if the value of one of these options is unknown.
fn has_dynamic_value(words: &[Word], options: &[&str]) -> bool {
    words.iter().enumerate().any(|(at, word)| match (word.value(), word.pieces()) {
        (Some(text), _) => {
            let next = || words.get(at + 1).is_some_and(|next| next.value().is_none_or(expands_to_program));
            let attached = text.split_once(['=', ' ']).filter(|(name, _)| is_one_of(options, name));
            (options.contains(&text) && next()) || attached.is_some_and(|(_, value)| expands_to_program(value))
        }
        (None, [WordPiece::Text(text), ..]) => {
            let name = text.split(['=', ' ']).next().unwrap_or("");
            is_one_of(options, name)
        }
        _ => false,
    })
}

/// Returns true if a name is that of one of these options, possibly abbreviated. Some have names without dashes, which
/// letters may precede: `-oProxyCommand=…`.
fn is_one_of(options: &[&str], name: &str) -> bool {
    options.iter().any(|option| match option.strip_prefix("--") {
        Some(_) => is_long_option(name, option),
        None if option.starts_with('-') => *option == name,
        None => name.ends_with(option),
    })
}

/// Returns true if a text that a shell reads again begins a command with an expansion.
pub(super) fn expands_to_program(text: &str) -> bool {
    text.contains(['$', '`'])
        && scan::scan_commands(text).iter().any(|words| words.first().is_some_and(Word::is_dynamic))
}

/// Returns true if the first non-option word, after `skipped` others, may be any program.
fn starts_dynamic_word(words: &[Word], skipped: usize) -> bool {
    let is_option = |word: &&Word| word.value().is_some_and(|text| text.starts_with('-'));
    let first = words.iter().filter(|word| !is_option(word)).nth(skipped);
    let has_text = |word: &Word| word.pieces().iter().any(|piece| matches!(piece, WordPiece::Text(_)));
    first.is_some_and(|word| word.value().map_or_else(|| !has_text(word), expands_to_program))
}
