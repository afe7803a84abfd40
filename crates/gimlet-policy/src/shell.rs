//! Analysis of a shell command from its text alone. [`analyse`] parses bash with tree-sitter, checks the result against
//! bash's own lexical rules and derives facts; it must never decide or run anything. Text that is not fully understood
//! is never read-only, and deny rules still see every command that could be in it.

mod appended_args;
mod awk_script;
mod builtin_evaluation;
mod command_facts;
mod command_parts;
mod critical_removal;
mod edit_commands;
mod environment_names;
mod node_kinds;
mod node_words;
mod parse;
mod pending_lookups;
mod possible_launches;
mod prescan;
mod read_only_commands;
mod scan;
mod sed_script;
mod self_invocation;
mod shell_programs;
#[cfg(test)]
mod tests;
mod value_flow;
mod word;
mod wrapper_layers;
mod wrappers;
mod zsh;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use command_facts::{echoed_text, git_subcommand, is_destructive, subcommand_starts};
pub(crate) use command_parts::{CommandPart, FileEdits, TreeCopy, WRITERS};
pub(crate) use critical_removal::{find_critical_behind_symlinks, is_recursive};
pub use environment_names::EnvironmentNames;
pub(crate) use pending_lookups::{
    PatternLookup, PendingLookup, PrintedLookup, PrintedNames, TreeListing, WordRole, any_glob_path, glob_path,
};
pub(crate) use possible_launches::{
    PossibleLaunches, awk_may_run_program, find_possible_launches, has_run_flag, launch_candidates, takes_task_names,
};
pub(crate) use read_only_commands::ReadTargets;
pub(crate) use scan::parse_static_words;
pub(crate) use sed_script::is_script_running_input;
pub(crate) use shell_programs::{chdir_option_values, is_long_option, script_arguments};
pub(crate) use value_flow::may_change_variables;
pub(crate) use word::UNKNOWN_CHAR;
pub use word::{Word, WordPiece};
pub(crate) use wrappers::{base_name, find_actions, is_known_wrapper, own_words, reachable_commands};

/// Length in characters above which a command always needs a prompt.
const LONGEST_UNASKED: usize = 10_000;
/// Length in bytes above which a text is not read at all: Linux accepts no longer single argument, and the words would
/// use too much memory.
const LONGEST_READ: usize = 128 * 1024;
/// Maximum number of nested scripts (`bash -c 'bash -c …'`) that are analysed.
const MOST_SCRIPTS: usize = 32;
/// Minimum byte budget for all nested scripts; larger for texts whose own length times 1.5 exceeds it.
const MOST_SCRIPT_BYTES: usize = 1_536;
/// Maximum number of directories that a text may change to; beyond it the current directory is unknown.
const MOST_DIRECTORIES: usize = 16;

/// Maximum number of redirections with descriptors above 2 that are compared with each other; with more, it is unknown
/// which one opened a descriptor.
const MOST_DESCRIPTORS: usize = 64;

/// Environment that a command would run in.
#[derive(Clone, Copy, Debug)]
pub struct ShellFacts<'a> {
    /// The working directory, absolute.
    pub cwd: &'a Path,
    /// The working directories, absolute and normalised; includes `cwd` if that is one.
    pub roots: &'a [PathBuf],
    pub home: Option<&'a Path>,
    /// Variables that the shell starts with; `None` if unknown, and then any variable may have a value.
    pub environment: Option<&'a EnvironmentNames>,
}

impl ShellFacts<'_> {
    /// Returns true if a variable may have a value that the text does not assign.
    pub(crate) fn may_inherit(&self, name: &str) -> bool {
        self.environment.is_none_or(|names| names.may_be_set(name))
    }
}

/// Reason why a text is not fully understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ParseTrouble {
    /// Not a complete bash program, or bash would read it differently.
    Syntax,
    /// A construct whose meaning is not known here.
    Construct,
    /// A control, direction or tag character.
    Character,
    TooLong,
    TooDeep,
    /// Changes to more directories than can be tracked.
    TooMany,
    /// More brace lists than can be tracked.
    TooManyLists,
    /// The parser timed out.
    Timeout,
    /// Text for zsh, which may read it differently from bash.
    Zsh,
}

impl fmt::Display for ParseTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseTrouble::Syntax => "its syntax is incomplete or ambiguous",
            ParseTrouble::Construct => "it uses a construct that is not analysed",
            ParseTrouble::Character => "it contains control or invisible characters",
            ParseTrouble::TooLong => "it is too long",
            ParseTrouble::TooDeep => "it is nested too deeply",
            ParseTrouble::TooMany => "it changes the directory too often",
            ParseTrouble::TooManyLists => "it has too many lists in braces",
            ParseTrouble::Timeout => "analysing it took too long",
            ParseTrouble::Zsh => "zsh may read it otherwise than bash",
        })
    }
}

/// A redirection to or from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRedirect {
    pub target: Word,
    pub writes: bool,
    /// Files that it reads, if only names inside the working directories are possible.
    pub(crate) source: Option<ReadTargets>,
    at: usize,
}

/// Result of [`analyse`].
#[derive(Clone, Debug, Default)]
pub struct ShellAnalysis {
    /// The words, if the whole text is one simple command of static words.
    pub simple: Option<Vec<String>>,
    /// Every command found anywhere in the text, scripts for other shells included, each once.
    pub commands: Vec<Vec<Word>>,
    /// Ranges within each command of the commands that it would run, itself first.
    reach: Vec<Vec<Range<usize>>>,
    /// Commands completed by others with unknown words.
    completed: Vec<Vec<Word>>,
    /// True if it only reads, and only inside the working directories (as spelled; see `reads`).
    pub read_only: bool,
    /// Paths that a read-only command opens, normalised but with symlinks unresolved; the caller should also have these
    /// paths decided as reads.
    pub reads: Vec<PathBuf>,
    /// True if it reads whole directory trees.
    pub reads_trees: bool,
    /// True if the effect is hard to undo.
    pub destructive: bool,
    pub runs_git: bool,
    /// The seconds of a leading `sleep`.
    pub starts_with_sleep: Option<f64>,
    /// True if nothing in the text was beyond the analysis.
    pub fully_parsed: bool,
    /// Reason why it was not fully parsed.
    pub trouble: Option<ParseTrouble>,
    /// True if the text was so long that it was not read: nothing else here is known.
    pub too_long_to_read: bool,
    /// Description of a removal that must never be allowed without a prompt.
    pub critical_removal: Option<String>,
    /// Like `critical_removal`, but counting every removal by a pattern directly in a critical directory, regardless of
    /// what it matches: no rule covers `rm *.o`.
    pub sweeping_removal: Option<String>,
    /// Paths that it would remove as far as they are spelled out, patterns included; symlinks may lead elsewhere.
    pub removed: Vec<PathBuf>,
    /// True if it runs gimlet to grant or revoke trust.
    pub gives_trust: bool,
    /// True if it runs gimlet to change settings.
    pub changes_settings: bool,
    /// The command whose exit status counts (`grep`, `git diff`), if unambiguous.
    pub last_pipeline_command: Option<String>,
    /// The file that a single viewing command shows.
    pub view_of_file: Option<PathBuf>,
    /// True if it may change files that were read before.
    pub looks_like_writer: bool,
    /// Files opened by redirections.
    pub redirects: Vec<FileRedirect>,
    /// True if it changes the working directory, so relative paths may mean something else.
    pub changes_directory: bool,
    /// True if it runs text that its words do not show, as in `… | sh`.
    pub runs_hidden_text: bool,
    /// Directories in which its commands may run: the working directory, then every directory that it may change to.
    pub directories: Vec<PathBuf>,
    /// True if an expansion may run or assign something depending on the value of a variable.
    pub has_indirect_expansion: bool,
    /// Parts that have to be permitted one by one; empty if the text has parts that rules about single commands cannot
    /// cover.
    pub(crate) parts: Vec<CommandPart>,
    /// The values of assignments before commands and on their own, as far as they are static.
    pub(crate) assigned_values: Vec<String>,
    /// True if it passes texts to other shells; their commands are included in the others.
    pub(crate) has_scripts: bool,
    /// True if something in it evaluates values: arithmetic, subscripts and indirect names run the substitutions in
    /// them.
    pub(crate) evaluates_values: bool,
    /// Static words that loops iterate over.
    pub(crate) loop_words: Vec<String>,
    /// True if a value before a command is only known at run time.
    pub(crate) assigns_unknown_values: bool,
    /// Here-documents and here-strings.
    pub(crate) documents: Vec<String>,
    /// Files that nested texts open by redirections.
    pub(crate) inner_redirects: Vec<FileRedirect>,
    /// Commands whose output another command reads, or whose output becomes words or a file of another.
    pub(crate) piped_commands: Vec<Vec<Word>>,
}

impl ShellAnalysis {
    /// Returns every command, each followed by those that it would run in turn.
    pub(crate) fn reachable_commands(&self) -> impl Iterator<Item = &[Word]> {
        self.reachable_commands_where(|_| true)
    }

    /// Returns the commands that others complete with unknown words, and those that these would run in turn.
    pub(crate) fn completed_commands(&self) -> impl Iterator<Item = &[Word]> {
        self.completed.iter().flat_map(|words| reachable_commands(words))
    }

    /// Returns the reachable commands of those commands for which `wanted` returns true.
    pub(crate) fn reachable_commands_where(&self, wanted: impl Fn(&[Word]) -> bool) -> impl Iterator<Item = &[Word]> {
        let commands = self.commands.iter().zip(&self.reach).filter(move |(words, _)| wanted(words));
        commands.flat_map(|(words, reach)| reach.iter().map(|range| &words[range.clone()]))
    }
}

/// Analyses a command text that zsh will run; constructs that zsh may read differently are not understood.
pub(crate) fn analyse_for_zsh(text: &str, facts: &ShellFacts<'_>) -> ShellAnalysis {
    let analysis = analyse(text, facts);
    if analysis.trouble.is_some() || zsh::reads_like_bash(text) {
        return analysis;
    }
    let trouble = Some(ParseTrouble::Zsh);
    ShellAnalysis { trouble, simple: None, read_only: false, view_of_file: None, parts: Vec::new(), ..analysis }
}

/// Analyses a command text.
pub fn analyse(text: &str, facts: &ShellFacts<'_>) -> ShellAnalysis {
    if text.len() > LONGEST_READ {
        let directories = vec![facts.cwd.to_owned()];
        return ShellAnalysis {
            too_long_to_read: true,
            trouble: Some(ParseTrouble::TooLong),
            looks_like_writer: true,
            runs_hidden_text: true,
            directories,
            ..ShellAnalysis::default()
        };
    }
    let parsed = parse::parse_script(text);
    let mut analysis = ShellAnalysis { trouble: parsed.trouble, ..ShellAnalysis::default() };
    if analysis.trouble.is_none() && text.chars().nth(LONGEST_UNASKED).is_some() {
        analysis.trouble = Some(ParseTrouble::TooLong);
    }
    analysis.fully_parsed = parsed.trouble.is_none();
    analysis.redirects = collect_file_redirects(&parsed.redirects);
    analysis.has_indirect_expansion = parsed.has_indirect_expansion;
    let single = if parsed.single && analysis.trouble.is_none() { parsed.commands.first() } else { None };
    analysis.simple = single.and_then(|command| static_values(&command.words));
    analysis.view_of_file = single.and_then(|command| command_facts::viewed_file(&command.words, facts));
    if analysis.trouble.is_none() && !parsed.beyond_command_rules && !parsed.has_indirect_expansion {
        analysis.parts = command_parts::split_parts(text, &parsed, facts);
        if analysis.redirects.iter().any(|redirect| !redirect.writes) {
            let mut scene = value_flow::ValueScope::new(text, &parsed, facts);
            for redirect in analysis.redirects.iter_mut().filter(|redirect| !redirect.writes) {
                scene.move_to(redirect.at);
                redirect.source = scene.input_redirect_targets(&redirect.target);
            }
        }
        mark_read_only(&parsed, &mut analysis);
    }
    let first = parsed.commands.first().map_or(&[][..], |command| &command.words);
    analysis.starts_with_sleep = command_facts::sleep_seconds(&command_facts::known_words(first));
    let last = parsed.last_command.and_then(|at| parsed.commands.get(at));
    analysis.last_pipeline_command = last.and_then(|command| command_name(&command.words));
    let found = find_all_commands(text, parsed);
    analysis.reach = found.commands.iter().map(|words| wrappers::reachable_ranges(words)).collect();
    analysis.commands = found.commands;
    analysis.completed = found.completed;
    analysis.runs_hidden_text = found.incomplete;
    analysis.evaluates_values = found.evaluates_values;
    analysis.has_scripts = found.has_scripts;
    (analysis.assigned_values, analysis.assigns_unknown_values) = (found.assigned_values, found.assigns_unknown_values);
    (analysis.documents, analysis.piped_commands, analysis.loop_words) =
        (found.documents, found.piped_commands, found.loop_words);
    analysis.inner_redirects = found.redirects;
    derive_facts(&mut analysis, found.names, &found.texts, &found.feeds, facts);
    analysis
}

/// Returns the paths that a command names, or `None` unless its every flag is known and its words are static.
pub(crate) fn operand_paths(words: &[Word]) -> Option<Vec<&str>> {
    if words.iter().any(Word::is_dynamic) { None } else { read_only_commands::path_operands(words) }
}

fn static_values(words: &[Word]) -> Option<Vec<String>> {
    words.iter().map(|word| word.value().map(str::to_owned)).collect()
}

/// Returns the commands of the tree; if the tree is in doubt, also those found by the linear scan; and the commands of
/// scripts that these pass to other shells.
fn find_all_commands(text: &str, parsed: parse::ParsedScript) -> FoundCommands {
    let mut found = FoundCommands::default();
    found.add_text(text, parsed);
    let (mut scripts, mut at, mut fed) = (0, 0, false);
    // One text may be passed on in very many readings.
    let mut bytes = MOST_SCRIPT_BYTES.max(text.len() + text.len() / 2);
    let (mut shells, mut runs_files, mut makes_pipes) = (false, false, false);
    while at < found.commands.len() && scripts < MOST_SCRIPTS {
        let reach = wrappers::reachable_ranges(&found.commands[at]);
        found.incomplete |= wrappers::has_unreached_commands(&found.commands[at], &reach);
        let reached: Vec<&[Word]> = reach.iter().map(|range| &found.commands[at][range.clone()]).collect();
        shells |= reached.iter().any(|words| shell_programs::is_shell_command(words));
        makes_pipes |= reached.iter().any(|words| shell_programs::makes_named_pipe(words));
        let programs: Vec<shell_programs::ShellProgram> =
            reached.iter().map(|words| shell_programs::find_shell_program(words)).collect();
        let completed = appended_args::complete_commands(&found.commands[at]);
        let mut whole = completed.commands.iter().flat_map(|words| reachable_commands(words));
        // Words added to a text for a shell are not visible here.
        let added =
            completed.incomplete || whole.any(|words| shell_programs::find_shell_program(words).has_unknown_text);
        let unseen = added || programs.iter().any(|program| program.has_unknown_text);
        runs_files |= programs.iter().any(|program| program.reads_file);
        found.incomplete |= unseen;
        let mut nested: Vec<String> = programs.into_iter().flat_map(|program| program.texts).collect();
        if unseen && !fed {
            // The analysis does not track which text reaches which shell: any document, echo or value of several words
            // may.
            fed = true;
            nested.extend(found.documents.iter().cloned());
            let values = found.assigned_values.iter().filter(|value| value.contains(char::is_whitespace));
            nested.extend(values.take(MOST_SCRIPTS).cloned());
            nested.extend(found.commands.iter().filter_map(|words| echoed_text(words)).take(MOST_SCRIPTS));
        }
        found.completed.extend(completed.commands);
        for script in nested {
            let Some(left) = bytes.checked_sub(script.len()) else {
                found.incomplete = true;
                break;
            };
            bytes = left;
            scripts += 1;
            found.has_scripts = true;
            let inner = parse::parse_script(&script);
            // A text that is not understood may open unknown files.
            found.incomplete |= inner.trouble.is_some();
            found.redirects.extend(collect_file_redirects(&inner.redirects));
            found.add_text(&script, inner);
        }
        at += 1;
    }
    found.incomplete |= at != found.commands.len();
    // Data that goes through a pipe is in no file.
    found.incomplete |= makes_pipes && runs_files;
    found.incomplete |= shell_programs::runs_unknown_startup_file(&found.texts, &found.commands, shells);
    dedup_commands(&mut found.commands);
    dedup_commands(&mut found.completed);
    found
}

/// Removes duplicate commands: facts about a command hold for each of its occurrences.
fn dedup_commands(commands: &mut Vec<Vec<Word>>) {
    if commands.len() > 1 {
        let mut known = HashSet::with_capacity(commands.len());
        let is_new: Vec<bool> = commands.iter().map(|words| known.insert(words)).collect();
        let mut is_new = is_new.into_iter();
        commands.retain(|_| is_new.next().unwrap_or(true));
    }
}

/// Findings in a text and in its nested texts.
#[derive(Default)]
struct FoundCommands {
    commands: Vec<Vec<Word>>,
    /// Commands that others complete.
    completed: Vec<Vec<Word>>,
    documents: Vec<String>,
    assigned_values: Vec<String>,
    loop_words: Vec<String>,
    piped_commands: Vec<Vec<Word>>,
    /// Files that nested texts open by redirections.
    redirects: Vec<FileRedirect>,
    /// True if some value is only known at run time.
    assigns_unknown_values: bool,
    /// True if not every script was analysed, or an unseen value is run.
    incomplete: bool,
    evaluates_values: bool,
    /// True if it has nested texts.
    has_scripts: bool,
    /// Variables and the values that loops assign to them, if something may remove these.
    names: critical_removal::VariableValues,
    /// Texts that may assign variables.
    texts: Vec<String>,
    /// Inputs of commands that remove what they read.
    feeds: Vec<critical_removal::RemovalFeed>,
}

impl FoundCommands {
    fn add_text(&mut self, text: &str, parsed: parse::ParsedScript) {
        if parsed.trouble.is_some() {
            self.commands.extend(scan::scan_commands(text));
        }
        for stretch in &parsed.unquoted {
            // Parse it as if in double quotes: only expansions in it are commands. Quotes are between words or in them.
            for instead in [" ", ""] {
                self.commands.extend(scan::scan_commands(&format!("\"{}\"", stretch.replace(['\'', '"'], instead))));
            }
        }
        if text.contains('=') || text.contains("printf") {
            self.texts.push(text.to_owned());
        }
        self.feeds.extend(critical_removal::find_removal_feeds(&parsed));
        let mut reached = parsed.commands.iter().flat_map(|command| reachable_commands(&command.words));
        let reads = || text.contains("read") || text.contains("mapfile");
        if (!parsed.loops.is_empty() || reads()) && reached.any(critical_removal::may_remove_files) {
            for (name, values) in critical_removal::loop_values(&parsed) {
                self.names.entry(name).or_default().extend(values);
            }
        }
        let in_doubt = parsed.trouble.is_some();
        self.evaluates_values |= in_doubt || parsed.has_indirect_expansion || parsed.beyond_command_rules;
        self.incomplete |= parsed.runs_values || (in_doubt && text.contains("@P}"));
        self.assigned_values.extend(parsed.assigned_values);
        let looped = parsed.loops.iter().flat_map(|found| &found.words);
        self.loop_words.extend(looped.filter_map(|word| word.value().map(str::to_owned)));
        let fed = parsed.loop_inputs.iter().map(|(from, _)| *from);
        let read: HashSet<usize> = parsed.pipes.iter().map(|(from, _)| *from).chain(fed).collect();
        for command in parsed.commands {
            self.assigns_unknown_values |= command.assignments.iter().any(|assignment| assignment.value.is_none());
            self.assigned_values.extend(command.assignments.into_iter().filter_map(|assignment| assignment.value));
            if read.contains(&command.at) || command.within.is_some() {
                self.piped_commands.push(command.words.clone());
            }
            if !command.words.is_empty() {
                self.commands.push(command.words);
            }
        }
        let documents = parsed.redirects.iter().filter(|redirect| redirect.operator.starts_with("<<"));
        self.documents.extend(documents.filter_map(|redirect| redirect.target.value().map(str::to_owned)));
    }
}

fn collect_file_redirects(redirects: &[parse::ParsedRedirect]) -> Vec<FileRedirect> {
    let numbered = redirects.iter().filter(|redirect| redirect.uses_extra_descriptor());
    let numbered: Vec<&parse::ParsedRedirect> = numbered.take(MOST_DESCRIPTORS).collect();
    redirects.iter().filter_map(|redirect| to_file_redirect(redirect, &numbered)).collect()
}

/// Converts a parsed redirection; returns `None` if no file is opened. `numbered` are the redirections that may have
/// opened a descriptor above 2.
fn to_file_redirect(redirect: &parse::ParsedRedirect, numbered: &[&parse::ParsedRedirect]) -> Option<FileRedirect> {
    let target = &redirect.target;
    // A descriptor that the text does not open itself is inherited and may refer to anything.
    if let Some(number) = redirect.extra_descriptor_target()
        && !numbered.iter().any(|other| other.opens_descriptor_for(number, redirect))
    {
        let writes = redirect.operator.starts_with('>');
        return Some(FileRedirect { target: Word::unknown(), writes, source: None, at: redirect.at });
    }
    let file = |writes: bool| Some(FileRedirect { target: target.clone(), writes, source: None, at: redirect.at });
    let descriptor = |text: &str| text == "-" || parse::is_descriptor_number(text.strip_suffix('-').unwrap_or(text));
    match redirect.operator.as_str() {
        "<<" | "<<<" | "<&-" | ">&-" => None,
        "<&" | ">&" if target.value().is_some_and(descriptor) => None,
        // The other end is a separate command.
        "<" if matches!(target.pieces(), [WordPiece::Stream]) => None,
        "<" if target.value() == Some("/dev/null") => None,
        "<" | "<&" => file(false),
        _ if target.value() == Some("/dev/null") => None,
        _ => file(true),
    }
}

/// Marks the analysis read-only, with all paths read, if every part only reads.
fn mark_read_only(parsed: &parse::ParsedScript, analysis: &mut ShellAnalysis) {
    if parsed.commands.is_empty() {
        return;
    }
    let parts = analysis.parts.iter().map(|part| part.reads.as_ref());
    let readings: Option<Vec<_>> = parts.chain(analysis.redirects.iter().map(|file| file.source.as_ref())).collect();
    let Some(readings) = readings else { return };
    // Only a check that resolves symlinks can decide if a path with `..` stays inside.
    if readings.iter().any(|reading| reading.outside_roots || !reading.parent_paths.is_empty()) {
        return;
    }
    let trees = readings.iter().any(|reading| reading.recursive);
    let mut known = HashSet::new();
    let reads = readings.iter().flat_map(|reading| reading.spelled_paths().cloned());
    let reads = reads.filter(|path| known.insert(path.clone())).collect();
    (analysis.read_only, analysis.reads_trees, analysis.reads) = (true, trees, reads);
}

/// Derives the facts that any reachable command determines.
fn derive_facts(
    analysis: &mut ShellAnalysis,
    mut names: critical_removal::VariableValues,
    texts: &[String],
    feeds: &[critical_removal::RemovalFeed],
    facts: &ShellFacts<'_>,
) {
    let mut directories = vec![facts.cwd.to_path_buf()];
    let mut seen: HashSet<PathBuf> = directories.iter().cloned().collect();
    // Each with a flag that is true if unknown words are added to it.
    let commands = analysis.commands.iter().zip(&analysis.reach);
    let reached = commands.flat_map(|(words, reach)| {
        let more = self_invocation::appends_unknown_words(words);
        reach.iter().map(move |range| (&words[range.clone()], more))
    });
    let reached: Vec<(&[Word], bool)> = reached.collect();
    let (mut destructive, mut runs_git, mut writer, mut moves) = (false, false, false, false);
    for (words, _) in &reached {
        let known = command_facts::known_words(words);
        destructive |= is_destructive(&known);
        runs_git |= known.first() == Some(&"git");
        writer |= command_facts::may_write_files(&known);
        if let [name @ ("cd" | "pushd" | "popd"), operands @ ..] = known.as_slice() {
            moves = true;
            let target = operands.iter().find(|operand| !operand.starts_with('-') && !operand.is_empty());
            // A plain `cd` changes to the home directory.
            let target = match target {
                None if *name == "cd" && operands.is_empty() => facts.home,
                target => target.map(Path::new),
            };
            // Each may start from any of those before, and any may fail.
            let known = if directories.len() < MOST_DIRECTORIES { directories.clone() } else { Vec::new() };
            for from in known {
                let reached = target.map(|target| crate::paths::normalise(&from, target));
                let new =
                    reached.filter(|reached| directories.len() < MOST_DIRECTORIES && seen.insert(reached.clone()));
                directories.extend(new);
            }
        }
    }
    if directories.len() >= MOST_DIRECTORIES {
        // A directory that was not tracked could be the protected one.
        analysis.trouble.get_or_insert(ParseTrouble::TooMany);
    }
    if !feeds.is_empty() || reached.iter().any(|(words, _)| critical_removal::may_remove_files(words)) {
        critical_removal::add_assigned_values(&mut names, texts);
    }
    let spelled = RefCell::default();
    let named = reached.iter().flat_map(|(words, _)| chdir_option_values(words)).take(MOST_DIRECTORIES);
    let sent = named.flat_map(|name| directories.iter().map(|from| crate::paths::normalise(from, Path::new(name))));
    let standing: Vec<PathBuf> = directories.iter().cloned().chain(sent).collect();
    let found = |any_pattern: bool| {
        let spelled = &spelled;
        let around =
            critical_removal::RemovalContext { directories: &standing, names: &names, facts, any_pattern, spelled };
        let named = reached.iter().find_map(|(words, _)| critical_removal::find_critical_removal(words, &around));
        named.or_else(|| feeds.iter().find_map(|feed| critical_removal::find_critical_feed(feed, &around)))
    };
    let critical = found(false);
    let sweeping = critical.clone().or_else(|| found(true));
    analysis.gives_trust = reached.iter().any(|(words, more)| self_invocation::may_change_trust(words, *more));
    analysis.changes_settings = reached.iter().any(|(words, more)| self_invocation::may_change_settings(words, *more));
    analysis.looks_like_writer = writer || analysis.redirects.iter().any(|redirect| redirect.writes);
    analysis.destructive = destructive || critical.is_some();
    analysis.runs_git = runs_git;
    analysis.changes_directory = moves;
    if sweeping.is_some() {
        let removes = |part: &&mut CommandPart| {
            reachable_commands(&part.words).into_iter().any(critical_removal::may_remove_files)
        };
        analysis.parts.iter_mut().filter(removes).for_each(|part| part.layers.clear());
    }
    (analysis.critical_removal, analysis.sweeping_removal) = (critical, sweeping);
    analysis.removed = spelled.into_inner().into_iter().collect();
    analysis.removed.sort_unstable();
    analysis.directories = directories;
}

/// Returns the name of a command: `grep`, or for git `git diff`.
fn command_name(words: &[Word]) -> Option<String> {
    let inner = reachable_commands(words).into_iter().last()?;
    let known = command_facts::known_words(inner);
    let (name, arguments) = known.split_first().filter(|(name, _)| !name.is_empty())?;
    match git_subcommand(arguments) {
        Some((subcommand, _)) if *name == "git" => Some(format!("git {subcommand}")),
        _ => Some((*name).to_owned()),
    }
}
