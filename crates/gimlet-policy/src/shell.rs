//! What a shell command would do, read from its text alone. [`analyse`] parses bash with tree-sitter, checks the result
//! against bash's own lexical rules and derives facts; it decides nothing and runs nothing. Text that is not fully
//! understood is never read-only, and rules that forbid are still shown every command that could be in it.

mod awk;
mod editing;
mod elements;
mod facts;
mod fed;
mod kinds;
mod launch;
mod looks;
mod node_words;
mod own;
mod parse;
mod parts;
mod prescan;
mod programs;
mod readonly;
mod removal;
mod scan;
mod scene;
mod sed;
mod stripped;
#[cfg(test)]
mod tests;
mod variables;
mod word;
mod wrappers;
mod zsh;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use facts::{echoed, git_subcommand, subcommand_starts};
pub(crate) use launch::{Launches, awk_may_run, is_told_to_run, launches, names_things, places};
pub(crate) use looks::{Below, Look, PatternLook, Printed, PrintedLook, Role, any_wildcards, wildcards};
pub(crate) use parts::{Edits, Part, TreeCopy, WRITERS};
pub(crate) use programs::{directories_named, is_long_option, script_arguments};
pub(crate) use readonly::Reading;
pub(crate) use removal::{critical_behind_links, is_recursive};
pub(crate) use scan::static_words;
pub(crate) use scene::changes_variables;
pub(crate) use sed::is_script_that_runs_input;
pub use variables::EnvironmentNames;
pub(crate) use word::UNKNOWN_CHAR;
pub use word::{Piece, Word};
pub(crate) use wrappers::{base_name, find_actions, is_seen_through, own_words, reachable};

/// Beyond this many characters a command always asks.
const LONGEST_UNASKED: usize = 10_000;
/// Beyond this many bytes a text is not read at all: Linux hands no program so much in one argument, and the words would
/// fill the memory.
const LONGEST_READ: usize = 128 * 1024;
/// Scripts inside scripts (`bash -c 'bash -c …'`) that are looked into.
const MOST_SCRIPTS: usize = 32;
/// Bytes of these together, where they are more than half again as many as those of the text itself.
const MOST_SCRIPT_BYTES: usize = 1_536;
/// Directories that a text may go to before nobody can say where it stands.
const MOST_DIRECTORIES: usize = 16;

/// Redirections with descriptors above 2 that are held against each other; with further ones it is not known who opened
/// them.
const MOST_DESCRIPTORS: usize = 64;

/// Where a command would run.
#[derive(Clone, Copy, Debug)]
pub struct ShellFacts<'a> {
    /// The working directory, absolute.
    pub cwd: &'a Path,
    /// The working directories, absolute and normalised; `cwd` is among them when it is one.
    pub roots: &'a [PathBuf],
    pub home: Option<&'a Path>,
    /// The variables that the shell begins with. `None` when nobody knows them, and then every one may have a value.
    pub environment: Option<&'a EnvironmentNames>,
}

impl ShellFacts<'_> {
    /// Whether a variable may have a value that the text does not give it.
    pub(crate) fn may_inherit(&self, name: &str) -> bool {
        self.environment.is_none_or(|names| names.may_have(name))
    }
}

/// Why a text is not fully understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trouble {
    /// Not a complete bash program, or bash would read it differently.
    Syntax,
    /// A construct whose meaning is not known here.
    Construct,
    /// A control, direction or tag character.
    Character,
    TooLong,
    TooDeep,
    /// It goes to more directories than can be followed.
    TooMany,
    /// More lists in braces than can be followed.
    TooManyLists,
    /// The parser ran out of time.
    Timeout,
    /// It is for zsh, which may read it otherwise than bash.
    Zsh,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trouble::Syntax => "its syntax is incomplete or ambiguous",
            Trouble::Construct => "it uses a construct that is not analysed",
            Trouble::Character => "it contains control or invisible characters",
            Trouble::TooLong => "it is too long",
            Trouble::TooDeep => "it is nested too deeply",
            Trouble::TooMany => "it changes the directory too often",
            Trouble::TooManyLists => "it has too many lists in braces",
            Trouble::Timeout => "analysing it took too long",
            Trouble::Zsh => "zsh may read it otherwise than bash",
        })
    }
}

/// A redirection to or from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRedirect {
    pub target: Word,
    pub writes: bool,
    /// What it reads, where only names inside the working directories can be meant.
    pub(crate) source: Option<Reading>,
    at: usize,
}

/// What [`analyse`] found.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// The words, when the whole text is one simple command of static words.
    pub simple: Option<Vec<String>>,
    /// Every command found anywhere in the text, scripts for other shells included, each once.
    pub commands: Vec<Vec<Word>>,
    /// Where in each of them the commands stand that it would run, itself first.
    reach: Vec<Vec<Range<usize>>>,
    /// What becomes of those that others complete with words that nobody knows.
    completed: Vec<Vec<Word>>,
    /// It only reads, and only inside the working directories (as spelled; see `reads`).
    pub read_only: bool,
    /// What a read-only command opens, normalised but with links unresolved: whoever runs it should let these paths be
    /// decided as reads, too.
    pub reads: Vec<PathBuf>,
    /// It reads whole directory trees.
    pub reads_trees: bool,
    /// Hard to undo.
    pub destructive: bool,
    pub runs_git: bool,
    /// The seconds of a leading `sleep`.
    pub starts_with_sleep: Option<f64>,
    /// Nothing in the text was beyond the analysis.
    pub fully_parsed: bool,
    /// Why it was not.
    pub trouble: Option<Trouble>,
    /// The text was so long that it was not read: nothing else here is known.
    pub unread: bool,
    /// What it would remove that nobody may wave through.
    pub critical_removal: Option<String>,
    /// The same with every removal by a pattern that stands directly in a critical directory, whatever it takes: no rule
    /// covers `rm *.o`.
    pub sweeping_removal: Option<String>,
    /// What it would remove as far as that is spelled out, patterns included; links may lead it elsewhere.
    pub removed: Vec<PathBuf>,
    /// It runs gimlet to give or take back trust.
    pub gives_trust: bool,
    /// It runs gimlet to change settings.
    pub changes_settings: bool,
    /// The command whose exit status counts (`grep`, `git diff`), when that is plain to see.
    pub last_pipeline_command: Option<String>,
    /// The file that a single viewing command shows.
    pub view_of_file: Option<PathBuf>,
    /// It may change files that were read before.
    pub looks_like_writer: bool,
    /// Files opened by redirections.
    pub redirects: Vec<FileRedirect>,
    /// It changes the working directory, so relative paths may mean something else.
    pub changes_directory: bool,
    /// It runs text that its words do not show, as `… | sh` does.
    pub runs_unseen_text: bool,
    /// Where its commands may stand: the working directory, then every directory it names as one to go to.
    pub directories: Vec<PathBuf>,
    /// An expansion may run or assign something by the value of a variable.
    pub treacherous: bool,
    /// What has to be permitted one by one; empty when the text has parts that no rule about single commands speaks of.
    pub(crate) parts: Vec<Part>,
    /// The values of assignments before commands and on their own, as far as they are static.
    pub(crate) assigned: Vec<String>,
    /// It hands texts to other shells, whose commands are among the others.
    pub(crate) has_scripts: bool,
    /// Something in it evaluates values: arithmetic, subscripts and indirect names run the substitutions in them.
    pub(crate) evaluates: bool,
    /// The static words that loops go through.
    pub(crate) looped: Vec<String>,
    /// A value before a command is only known when the text runs.
    pub(crate) assigns_unseen: bool,
    /// Here-documents and here-strings.
    pub(crate) documents: Vec<String>,
    /// Files that the texts inside it open by redirections.
    pub(crate) inner_redirects: Vec<FileRedirect>,
    /// Commands whose output another one reads, or that becomes words or a file of another.
    pub(crate) piped: Vec<Vec<Word>>,
}

impl Analysis {
    /// Every command, and behind each those that it would run in turn.
    pub(crate) fn reached(&self) -> impl Iterator<Item = &[Word]> {
        self.reached_where(|_| true)
    }

    /// The commands that others complete with words that nobody knows, and what these would run in turn.
    pub(crate) fn completed(&self) -> impl Iterator<Item = &[Word]> {
        self.completed.iter().flat_map(|words| reachable(words))
    }

    /// The same for the commands that are wanted.
    pub(crate) fn reached_where(&self, wanted: impl Fn(&[Word]) -> bool) -> impl Iterator<Item = &[Word]> {
        let commands = self.commands.iter().zip(&self.reach).filter(move |(words, _)| wanted(words));
        commands.flat_map(|(words, reach)| reach.iter().map(|range| &words[range.clone()]))
    }
}

/// Analyses a command text that zsh will run: what it may read otherwise is not understood.
pub(crate) fn analyse_for_zsh(text: &str, facts: &ShellFacts<'_>) -> Analysis {
    let analysis = analyse(text, facts);
    if analysis.trouble.is_some() || zsh::reads_alike(text) {
        return analysis;
    }
    let trouble = Some(Trouble::Zsh);
    Analysis { trouble, simple: None, read_only: false, view_of_file: None, parts: Vec::new(), ..analysis }
}

/// Analyses a command text.
pub fn analyse(text: &str, facts: &ShellFacts<'_>) -> Analysis {
    if text.len() > LONGEST_READ {
        let directories = vec![facts.cwd.to_owned()];
        return Analysis {
            unread: true,
            trouble: Some(Trouble::TooLong),
            looks_like_writer: true,
            runs_unseen_text: true,
            directories,
            ..Analysis::default()
        };
    }
    let parsed = parse::parse(text);
    let mut analysis = Analysis { trouble: parsed.trouble, ..Analysis::default() };
    if analysis.trouble.is_none() && text.chars().nth(LONGEST_UNASKED).is_some() {
        analysis.trouble = Some(Trouble::TooLong);
    }
    analysis.fully_parsed = parsed.trouble.is_none();
    analysis.redirects = file_redirects(&parsed.redirects);
    analysis.treacherous = parsed.treacherous;
    let single = parsed.commands.first().filter(|_| parsed.single && analysis.trouble.is_none());
    analysis.simple = single.and_then(|command| static_values(&command.words));
    analysis.view_of_file = single.and_then(|command| facts::viewed_file(&command.words, facts));
    if analysis.trouble.is_none() && !parsed.unspoken && !parsed.treacherous {
        analysis.parts = parts::parts(text, &parsed, facts);
        if analysis.redirects.iter().any(|redirect| !redirect.writes) {
            let mut scene = scene::Scene::new(text, &parsed, facts);
            for redirect in analysis.redirects.iter_mut().filter(|redirect| !redirect.writes) {
                scene.turn_to(redirect.at);
                redirect.source = scene.source(&redirect.target);
            }
        }
        read_only(&parsed, &mut analysis);
    }
    let first = parsed.commands.first().map_or(&[][..], |command| &command.words);
    analysis.starts_with_sleep = facts::sleep_seconds(&facts::known_words(first));
    let last = parsed.last_command.and_then(|at| parsed.commands.get(at));
    analysis.last_pipeline_command = last.and_then(|command| command_name(&command.words));
    let found = all_commands(text, parsed);
    analysis.reach = found.commands.iter().map(|words| wrappers::reach(words)).collect();
    analysis.commands = found.commands;
    analysis.completed = found.completed;
    analysis.runs_unseen_text = found.incomplete;
    analysis.evaluates = found.evaluates;
    analysis.has_scripts = found.scripts;
    (analysis.assigned, analysis.assigns_unseen) = (found.assigned, found.assigns_unseen);
    (analysis.documents, analysis.piped, analysis.looped) = (found.documents, found.piped, found.looped);
    analysis.inner_redirects = found.redirects;
    describe(&mut analysis, found.names, &found.texts, &found.feeds, facts);
    analysis
}

/// The paths that a command names, when its every flag is known and its words are static.
pub(crate) fn named_paths(words: &[Word]) -> Option<Vec<&str>> {
    words.iter().all(|word| !word.is_dynamic()).then(|| readonly::path_operands(words))?
}

fn static_values(words: &[Word]) -> Option<Vec<String>> {
    words.iter().map(|word| word.value().map(str::to_owned)).collect()
}

/// The commands of the tree; when the tree is in doubt, also whatever the linear reading finds; and the commands of
/// scripts that these hand to other shells.
fn all_commands(text: &str, parsed: parse::Parsed) -> Found {
    let mut found = Found::default();
    found.add(text, parsed);
    let (mut scripts, mut at, mut fed) = (0, 0, false);
    // One text may be handed on in very many readings.
    let mut bytes = MOST_SCRIPT_BYTES.max(text.len() + text.len() / 2);
    let (mut shells, mut runs_files, mut makes_pipes) = (false, false, false);
    while at < found.commands.len() && scripts < MOST_SCRIPTS {
        let reach = wrappers::reach(&found.commands[at]);
        found.incomplete |= wrappers::is_cut_short(&found.commands[at], &reach);
        let reached: Vec<&[Word]> = reach.iter().map(|range| &found.commands[at][range.clone()]).collect();
        shells |= reached.iter().any(|words| programs::starts_shell(words));
        makes_pipes |= reached.iter().any(|words| programs::makes_pipe(words));
        let programs: Vec<programs::Program> = reached.iter().map(|words| programs::program(words)).collect();
        let completed = fed::completed(&found.commands[at]);
        let mut whole = completed.commands.iter().flat_map(|words| reachable(words));
        // What is added to a text for a shell is a text that nobody sees.
        let added = completed.unseen || whole.any(|words| programs::program(words).unseen);
        let unseen = added || programs.iter().any(|program| program.unseen);
        runs_files |= programs.iter().any(|program| program.file);
        found.incomplete |= unseen;
        let mut nested: Vec<String> = programs.into_iter().flat_map(|program| program.texts).collect();
        if unseen && !fed {
            // Which text reaches which shell is not followed: any document, any echo and any value of several words may.
            fed = true;
            nested.extend(found.documents.iter().cloned());
            let values = found.assigned.iter().filter(|value| value.contains(char::is_whitespace));
            nested.extend(values.take(MOST_SCRIPTS).cloned());
            nested.extend(found.commands.iter().filter_map(|words| echoed(words)).take(MOST_SCRIPTS));
        }
        found.completed.extend(completed.commands);
        for script in nested {
            let Some(left) = bytes.checked_sub(script.len()) else {
                found.incomplete = true;
                break;
            };
            bytes = left;
            scripts += 1;
            found.scripts = true;
            let inner = parse::parse(&script);
            // Of what is not understood nobody knows which files it opens.
            found.incomplete |= inner.trouble.is_some();
            found.redirects.extend(file_redirects(&inner.redirects));
            found.add(&script, inner);
        }
        at += 1;
    }
    found.incomplete |= at != found.commands.len();
    // What goes through a pipe is in no file.
    found.incomplete |= makes_pipes && runs_files;
    found.incomplete |= programs::starts_with_unseen(&found.texts, &found.commands, shells);
    keep_each_once(&mut found.commands);
    keep_each_once(&mut found.completed);
    found
}

/// What holds for a command holds for it wherever it stands again.
fn keep_each_once(commands: &mut Vec<Vec<Word>>) {
    if commands.len() > 1 {
        let mut known = HashSet::with_capacity(commands.len());
        let is_new: Vec<bool> = commands.iter().map(|words| known.insert(words)).collect();
        let mut is_new = is_new.into_iter();
        commands.retain(|_| is_new.next().unwrap_or(true));
    }
}

/// What was found in a text and in the texts inside it.
#[derive(Default)]
struct Found {
    commands: Vec<Vec<Word>>,
    /// Those that others complete.
    completed: Vec<Vec<Word>>,
    documents: Vec<String>,
    assigned: Vec<String>,
    looped: Vec<String>,
    piped: Vec<Vec<Word>>,
    /// Files that texts inside the text open by redirections.
    redirects: Vec<FileRedirect>,
    /// Some value is only known when the text runs.
    assigns_unseen: bool,
    /// Not every script was looked into, or a value runs that nobody sees.
    incomplete: bool,
    evaluates: bool,
    /// There are texts inside it.
    scripts: bool,
    /// Names and the values that loops give them, where something may remove these.
    names: removal::Names,
    /// The texts that may give values to names.
    texts: Vec<String>,
    /// What commands are fed that remove it.
    feeds: Vec<removal::Feed>,
}

impl Found {
    fn add(&mut self, text: &str, parsed: parse::Parsed) {
        if parsed.trouble.is_some() {
            self.commands.extend(scan::commands(text));
        }
        for stretch in &parsed.unquoted {
            // As if it stood in double quotes: only what is expanded in it is a command. Quotes are between words or in them.
            for instead in [" ", ""] {
                self.commands.extend(scan::commands(&format!("\"{}\"", stretch.replace(['\'', '"'], instead))));
            }
        }
        if text.contains('=') || text.contains("printf") {
            self.texts.push(text.to_owned());
        }
        self.feeds.extend(removal::feeds(&parsed));
        let mut reached = parsed.commands.iter().flat_map(|command| reachable(&command.words));
        let reads = || text.contains("read") || text.contains("mapfile");
        if (!parsed.loops.is_empty() || reads()) && reached.any(removal::is_remover) {
            for (name, values) in removal::looped(&parsed) {
                self.names.entry(name).or_default().extend(values);
            }
        }
        let in_doubt = parsed.trouble.is_some();
        self.evaluates |= in_doubt || parsed.treacherous || parsed.unspoken;
        self.incomplete |= parsed.runs_values || (in_doubt && text.contains("@P}"));
        self.assigned.extend(parsed.assigned);
        let looped = parsed.loops.iter().flat_map(|found| &found.words);
        self.looped.extend(looped.filter_map(|word| word.value().map(str::to_owned)));
        let fed = parsed.fed.iter().map(|(from, _)| *from);
        let read: HashSet<usize> = parsed.pipes.iter().map(|(from, _)| *from).chain(fed).collect();
        for command in parsed.commands {
            self.assigns_unseen |= command.assignments.iter().any(|assignment| assignment.value.is_none());
            self.assigned.extend(command.assignments.into_iter().filter_map(|assignment| assignment.value));
            if read.contains(&command.at) || command.within.is_some() {
                self.piped.push(command.words.clone());
            }
            if !command.words.is_empty() {
                self.commands.push(command.words);
            }
        }
        let documents = parsed.redirects.iter().filter(|redirect| redirect.operator.starts_with("<<"));
        self.documents.extend(documents.filter_map(|redirect| redirect.target.value().map(str::to_owned)));
    }
}

fn file_redirects(redirects: &[parse::Redirect]) -> Vec<FileRedirect> {
    let numbered = redirects.iter().filter(|redirect| redirect.names_further_descriptor());
    let numbered: Vec<&parse::Redirect> = numbered.take(MOST_DESCRIPTORS).collect();
    redirects.iter().filter_map(|redirect| file_redirect(redirect, &numbered)).collect()
}

/// `numbered` are those that may have opened a descriptor above 2.
fn file_redirect(redirect: &parse::Redirect, numbered: &[&parse::Redirect]) -> Option<FileRedirect> {
    let target = &redirect.target;
    // A descriptor that the text does not open itself was somebody else's, and may lead anywhere.
    if let Some(number) = redirect.further_descriptor()
        && !numbered.iter().any(|other| other.opens_for(number, redirect))
    {
        let writes = redirect.operator.starts_with('>');
        return Some(FileRedirect { target: Word::anything(), writes, source: None, at: redirect.at });
    }
    let file = |writes: bool| Some(FileRedirect { target: target.clone(), writes, source: None, at: redirect.at });
    let descriptor = |text: &str| text == "-" || parse::is_number(text.strip_suffix('-').unwrap_or(text));
    match redirect.operator.as_str() {
        "<<" | "<<<" | "<&-" | ">&-" => None,
        "<&" | ">&" if target.value().is_some_and(descriptor) => None,
        // The other end is a command of its own.
        "<" if matches!(target.pieces(), [Piece::Stream]) => None,
        "<" if target.value() == Some("/dev/null") => None,
        "<" | "<&" => file(false),
        _ if target.value() == Some("/dev/null") => None,
        _ => file(true),
    }
}

/// Whether every part only reads; if so, everything that it reads.
fn read_only(parsed: &parse::Parsed, analysis: &mut Analysis) {
    if parsed.commands.is_empty() {
        return;
    }
    let parts = analysis.parts.iter().map(|part| part.reading.as_ref());
    let readings: Option<Vec<_>> = parts.chain(analysis.redirects.iter().map(|file| file.source.as_ref())).collect();
    let Some(readings) = readings else { return };
    // Whether what climbs stays inside is for whoever follows links to say.
    if readings.iter().any(|reading| reading.elsewhere || !reading.climbs.is_empty()) {
        return;
    }
    let trees = readings.iter().any(|reading| reading.recursive);
    let mut known = HashSet::new();
    let reads = readings.iter().flat_map(|reading| reading.spelled().cloned());
    let reads = reads.filter(|path| known.insert(path.clone())).collect();
    (analysis.read_only, analysis.reads_trees, analysis.reads) = (true, trees, reads);
}

/// Facts that any reachable command decides.
fn describe(
    analysis: &mut Analysis,
    mut names: removal::Names,
    texts: &[String],
    feeds: &[removal::Feed],
    facts: &ShellFacts<'_>,
) {
    let mut directories = vec![facts.cwd.to_path_buf()];
    let mut seen: HashSet<PathBuf> = directories.iter().cloned().collect();
    // Each with whether words are added to it that nobody knows.
    let commands = analysis.commands.iter().zip(&analysis.reach);
    let reached = commands.flat_map(|(words, reach)| {
        let more = own::adds_words(words);
        reach.iter().map(move |range| (&words[range.clone()], more))
    });
    let reached: Vec<(&[Word], bool)> = reached.collect();
    let (mut destructive, mut runs_git, mut writer, mut moves) = (false, false, false, false);
    for (words, _) in &reached {
        let known = facts::known_words(words);
        destructive |= facts::is_destructive(&known);
        runs_git |= known.first() == Some(&"git");
        writer |= facts::looks_like_writer(&known);
        if let [name @ ("cd" | "pushd" | "popd"), operands @ ..] = known.as_slice() {
            moves = true;
            let target = operands.iter().find(|operand| !operand.starts_with('-') && !operand.is_empty());
            // A plain `cd` goes home.
            let target = target.map(Path::new).or(facts.home.filter(|_| *name == "cd" && operands.is_empty()));
            // Each may follow on any of those before, and any may fail.
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
        // What was not followed could be just the protected one.
        analysis.trouble.get_or_insert(Trouble::TooMany);
    }
    if !feeds.is_empty() || reached.iter().any(|(words, _)| removal::is_remover(words)) {
        removal::add_assigned(&mut names, texts);
    }
    let spelled = RefCell::default();
    let named = reached.iter().flat_map(|(words, _)| directories_named(words)).take(MOST_DIRECTORIES);
    let sent = named.flat_map(|name| directories.iter().map(|from| crate::paths::normalise(from, Path::new(name))));
    let standing: Vec<PathBuf> = directories.iter().cloned().chain(sent).collect();
    let found = |any_pattern: bool| {
        let spelled = &spelled;
        let around = removal::Around { directories: &standing, names: &names, facts, any_pattern, spelled };
        let named = reached.iter().find_map(|(words, _)| removal::critical(words, &around));
        named.or_else(|| feeds.iter().find_map(|feed| removal::critical_feed(feed, &around)))
    };
    let critical = found(false);
    let sweeping = critical.clone().or_else(|| found(true));
    analysis.gives_trust = reached.iter().any(|(words, more)| own::gives_trust(words, *more));
    analysis.changes_settings = reached.iter().any(|(words, more)| own::changes_settings(words, *more));
    analysis.looks_like_writer = writer || analysis.redirects.iter().any(|redirect| redirect.writes);
    analysis.destructive = destructive || critical.is_some();
    analysis.runs_git = runs_git;
    analysis.changes_directory = moves;
    if sweeping.is_some() {
        let removes = |part: &&mut Part| reachable(&part.words).into_iter().any(removal::is_remover);
        analysis.parts.iter_mut().filter(removes).for_each(|part| part.layers.clear());
    }
    (analysis.critical_removal, analysis.sweeping_removal) = (critical, sweeping);
    analysis.removed = spelled.into_inner().into_iter().collect();
    analysis.removed.sort_unstable();
    analysis.directories = directories;
}

/// `grep`, or for git `git diff`.
fn command_name(words: &[Word]) -> Option<String> {
    let inner = reachable(words).into_iter().last()?;
    let known = facts::known_words(inner);
    let (name, arguments) = known.split_first().filter(|(name, _)| !name.is_empty())?;
    match git_subcommand(arguments) {
        Some((subcommand, _)) if *name == "git" => Some(format!("git {subcommand}")),
        _ => Some((*name).to_owned()),
    }
}
