//! Programs that could be started in a way that no table covers: a word of an unknown launcher, code for an
//! interpreter, a value that something later runs. It is used only if a rule denies a program by name, and its findings
//! must only lead to a prompt: these words are not known to be commands.

mod dynamic_launches;
mod launch_tables;

use super::ShellAnalysis;
use super::awk_script;
use super::command_facts::{echoed_text, git_subcommand, known_words};
use super::scan;
use super::sed_script::{self, SedExecution};
use super::shell_programs::is_long_option;
use super::word::Word;
use super::wrappers::{base_name, is_known_wrapper, reachable_commands};
use launch_tables::{ATTACHED_PROGRAMS, GIT_RUNNERS, GIT_RUNNING_OPTIONS, NAME_THINGS, RUNNING_FLAGS, START_NOTHING};

/// Maximum nesting of texts that are parsed.
const DEEPEST: usize = 3;
/// Maximum letters of an option cluster after which code is searched.
const LONGEST_CLUSTER: usize = 8;
/// Maximum number of commands found in the texts of one command line; the rest counts as unseen.
const MOST_FOUND: usize = 4_096;

/// Returns true if the bare words of a program are names of its own tasks, packages and similar.
pub(crate) fn takes_task_names(name: &str) -> bool {
    NAME_THINGS.iter().any(|(thing, _)| *thing == name)
}

/// Commands that could be started, each as a run of words in which every word may be the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct PossibleLaunches {
    pub(crate) commands: Vec<Vec<Word>>,
    /// True if there was too much to parse.
    pub(crate) too_many: bool,
}

/// Returns the commands that the commands of a text could start.
pub(crate) fn find_possible_launches(analysis: &ShellAnalysis) -> PossibleLaunches {
    let mut found = PossibleLaunches::default();
    let mut launching = analysis.assigns_unknown_values;
    for words in analysis.reachable_commands() {
        launching |= found.add_command(words);
    }
    for value in &analysis.assigned_values {
        found.add_text(value, DEEPEST);
    }
    if analysis.evaluates_values {
        // `for x in 'a[$(COMMAND)]'; do echo $((x)); done`
        let words = analysis.commands.iter().flatten().filter_map(Word::value);
        let texts = words.chain(analysis.loop_words.iter().map(String::as_str));
        texts.chain(analysis.assigned_values.iter().map(String::as_str)).for_each(|text| found.add_evaluated(text));
    }
    if launching {
        // It is not tracked which text reaches which program.
        analysis.documents.iter().for_each(|text| found.add_text(text, DEEPEST));
        let echoed = analysis.piped_commands.iter().filter_map(|words| echoed_text(words));
        // `printf` turns these into line breaks and tabs.
        let echoed = echoed.map(|text| text.replace("\\n", "\n").replace("\\t", "\t"));
        echoed.for_each(|text| found.add_text(&text, DEEPEST));
    }
    found
}

impl PossibleLaunches {
    /// Records the commands that one command could start; returns true if it could start something from its input.
    fn add_command(&mut self, words: &[Word]) -> bool {
        // `parallel 'rm {}'`
        if let Some(text) = words.first().and_then(Word::value).filter(|text| text.contains(char::is_whitespace)) {
            self.add_text(text, DEEPEST);
        }
        let known = known_words(words);
        let Some((name, arguments)) = known.split_first() else { return false };
        let (whole, words) = (words, &words[1..]);
        let starts_nothing = START_NOTHING.contains(name);
        let told = starts_nothing && has_run_flag(name, words);
        // Its program is unknown.
        let is_unseen = |word: &Word| word.value().is_none_or(dynamic_launches::expands_to_program);
        self.too_many |=
            (told && words.iter().any(is_unseen)) || dynamic_launches::launches_dynamic_word(name, words, arguments);
        if starts_nothing && !told {
            // `[[ -v 'a[$(…)]' ]]`: some builtins evaluate the text between brackets.
            arguments.iter().filter(|word| word.contains('[')).for_each(|word| self.add_evaluated(word));
            return false;
        }
        if is_known_wrapper(name) {
            self.add_seen_through(name, words, arguments);
            return *name == "parallel" || (*name == "xargs" && !starts_only_harmless(whole));
        }
        if let Some((_, runners)) = NAME_THINGS.iter().find(|(thing, _)| thing == name) {
            return self.add_named_things(name, words, arguments, runners);
        }
        let runs = match *name {
            "git" => git_may_run_program(arguments),
            "sed" | "gsed" => {
                let runs = sed_script::sed_execution(arguments);
                // The text that it derives from its input is unknown.
                self.too_many |= runs == SedExecution::Input;
                runs != SedExecution::Nothing
            }
            "awk" | "gawk" | "mawk" | "nawk" => {
                let runs = arguments.iter().any(|script| awk_may_run_program(script));
                self.too_many |= runs && awk_script::runs_hidden_command(arguments);
                runs
            }
            _ => true,
        };
        if runs {
            self.push_command(words.to_vec());
            arguments.iter().for_each(|word| self.add_values(name, word));
        }
        runs
    }

    /// Adds what a program may start besides the commands that the tables find in its words: a value it sets may be
    /// started later.
    fn add_seen_through(&mut self, name: &str, words: &[Word], arguments: &[&str]) {
        let values = arguments.iter().filter(|word| scan::assigned_name(word).is_some());
        values.filter_map(|word| word.split_once('=')).for_each(|(_, value)| self.add_text(value, DEEPEST));
        // `strace -o '|COMMAND'`
        arguments.iter().filter(|word| word.contains(['|', '!'])).for_each(|word| self.add_text(word, DEEPEST));
        // `su -s PROGRAM`
        if matches!(name, "su" | "runuser" | "parallel") {
            self.push_command(words.to_vec());
            arguments.iter().filter(|word| word.starts_with('-')).for_each(|word| self.add_values(name, word));
        }
    }

    /// Adds the possible launches of a program whose words are names, unless one of `runners` precedes them.
    fn add_named_things(&mut self, name: &str, words: &[Word], arguments: &[&str], runners: &[&str]) -> bool {
        let runs = arguments.iter().position(|word| runners.contains(word));
        if let Some(at) = runs {
            self.push_command(words[at + 1..].to_vec());
            arguments[at + 1..].iter().for_each(|word| self.add_values(name, word));
        }
        // For programs that take titles and messages, several words are one.
        let writes_prose = matches!(name, "gh" | "glab" | "aws" | "az" | "gcloud");
        let told = |word: &&&str| {
            word.contains(['=', '$', '`', '!']) || word.starts_with('/') || (!writes_prose && word.contains(' '))
        };
        for word in arguments.iter().filter(told) {
            self.add_values(name, word);
            self.push_command(vec![Word::from_literal(word)]);
        }
        runs.is_some() || matches!(name, "make" | "just" | "task" | "ninja")
    }

    /// Adds the parts of a program's word that may be code: all of it, `NAME=CODE`, `-cCODE`.
    fn add_values(&mut self, name: &str, word: &str) {
        if word.contains(|c: char| !(c.is_alphanumeric() || "-_./:,+%@".contains(c))) {
            self.add_text(word, DEEPEST);
        }
        if let Some((_, value)) = word.split_once('=') {
            self.add_text(value, DEEPEST);
        }
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        if let Some((at, _)) = short.and_then(|rest| rest.char_indices().nth(1)) {
            self.add_text(&word[at + 1..], DEEPEST);
        }
        // `-qcCODE`
        let has_code = |rest: &&str| rest.contains(char::is_whitespace);
        let within =
            short.filter(has_code).into_iter().flat_map(|rest| rest.char_indices().skip(2).take(LONGEST_CLUSTER));
        within.for_each(|(at, _)| self.add_text(&word[at + 1..], DEEPEST));
        let letters = ATTACHED_PROGRAMS.iter().find(|(program, _)| *program == name).map_or("", |(_, letters)| letters);
        let attached = short.and_then(|rest| rest.split_once(|letter| letters.contains(letter)));
        if let Some((_, program)) = attached.filter(|(_, program)| !program.is_empty()) {
            self.add_text(program.trim_start_matches(|letter| letters.contains(letter)), DEEPEST);
        }
    }

    /// Adds the commands of a text as a shell would read it, and its bare names as any other language might.
    fn add_text(&mut self, text: &str, depth: usize) {
        let names = text.split(|c: char| !(c.is_alphanumeric() || "-_./+".contains(c))).filter(|name| !name.is_empty());
        self.push_command(names.map(Word::from_literal).collect());
        for words in scan::scan_commands(text) {
            if depth > 1 {
                let inner = words.iter().filter_map(Word::value);
                // Text inside quotes is parsed as a text again.
                let inner: Vec<String> = inner.filter(|inner| *inner != text).map(str::to_owned).collect();
                inner
                    .iter()
                    .filter(|inner| inner.contains([' ', ';', '"', '\'']))
                    .for_each(|inner| self.add_text(inner, depth - 1));
            }
            self.push_command(words);
        }
    }

    /// Adds a text that something may evaluate, running the substitutions in it.
    fn add_evaluated(&mut self, text: &str) {
        if !text.contains("$(") && !text.contains('`') {
            return;
        }
        self.add_text(text, DEEPEST);
        // The commands they start may only be known at run time.
        let expanded = scan::scan_commands(&format!(": \"{}\"", text.replace(['\'', '"'], " ")));
        self.too_many |= expanded.iter().any(|words| words.first().is_some_and(Word::is_dynamic));
    }

    fn push_command(&mut self, words: Vec<Word>) {
        if self.commands.len() >= MOST_FOUND {
            self.too_many = true;
        } else if !words.is_empty() {
            self.commands.push(words);
        }
    }
}

/// Returns true if a program that normally starts nothing has a flag with which it does.
pub(crate) fn has_run_flag(name: &str, arguments: &[Word]) -> bool {
    let mut flags = RUNNING_FLAGS.iter().filter(|(program, _)| *program == name).map(|(_, flag)| *flag);
    let has = |word: &str, flag: &str| match flag.strip_prefix('-') {
        Some(long) if long.starts_with('-') => is_long_option(word, flag),
        Some(letter) => word.starts_with('-') && !word.starts_with("--") && word.contains(letter),
        None => word.starts_with(flag),
    };
    flags.any(|flag| arguments.iter().map(Word::masked).any(|word| has(&word, flag)))
}

/// Returns true if the command that `xargs` starts is known to start nothing in turn.
fn starts_only_harmless(words: &[Word]) -> bool {
    let innermost = reachable_commands(words).pop().and_then(|inner| inner.first()?.value().map(base_name));
    innermost.is_some_and(|name| START_NOTHING.contains(&name) || name == "xargs")
}

fn git_may_run_program(arguments: &[&str]) -> bool {
    let Some((subcommand, rest)) = git_subcommand(arguments) else { return true };
    let configured = arguments[..arguments.len() - rest.len() - 1].iter().any(|option| {
        matches!(*option, "-c" | "--config-env" | "--exec-path")
            || option.starts_with("--config-env=")
            || option.starts_with("--exec-path=")
    });
    let names_program = |word: &&str| GIT_RUNNING_OPTIONS.iter().any(|long| is_long_option(word, long));
    let told = rest.iter().any(|word| word.starts_with("-O") || names_program(word));
    configured || told || GIT_RUNNERS.contains(&subcommand)
}

pub(crate) fn awk_may_run_program(script: &str) -> bool {
    ["system", "getline", "|", "@"].iter().any(|way| script.contains(way))
}

/// Returns the name by which a run of words could start a program, at each of its positions.
pub(crate) fn launch_candidates(words: &[Word]) -> impl Iterator<Item = (&str, &[Word])> {
    words.iter().enumerate().filter_map(|(at, word)| Some((base_name(word.value()?), &words[at..])))
}
