//! The needs of a call in the form that rules are held against: paths normalised, commands analysed, hosts read.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use gimlet_proto::AccessNeed;

use super::{DecisionContext, NeedFacts, ProposedCall, command_files};
use crate::paths::{FileView, is_malformed, normalise};
use crate::rules::{RuleSet, parse_host};
use crate::shell::{ParseTrouble, PatternLookup, PossibleLaunches, ShellAnalysis};

/// A file that a shell command names.
#[derive(Clone, Debug)]
pub(super) struct FileAccess {
    /// As spelled and, where that differs, with links followed; none when the word is only known at run time.
    pub(super) paths: Vec<PathBuf>,
    /// These are all: nothing hangs on an earlier `cd` or on a link that nobody could follow.
    pub(super) certain: bool,
    /// These are all, as long as the home directory is the one that is known. It keeps doubts away and lets nothing through.
    pub(super) certain_given_home: bool,
    pub(super) write: bool,
    /// It is what a command that writes takes from: rules against changes have nothing to say of it.
    pub(super) copy_source: bool,
    /// The text does not name it: somebody saw it where a pattern or a list leads. It may be another by the time it runs.
    pub(super) found_by_lookup: bool,
    /// Whatever lies below is read as well.
    pub(super) tree: bool,
    /// What lies below is changed and never read, so that rules about reading have nothing to say of it.
    pub(super) unread_below: bool,
    /// The closed files below, where somebody looked at all that lies there.
    pub(super) denied_below: Option<Vec<PathBuf>>,
    /// Any name that the shell may put in place of this pattern besides.
    pub(super) pattern: Option<Box<PatternLookup>>,
}

impl FileAccess {
    pub(super) fn new(paths: Vec<PathBuf>, certain: bool, write: bool) -> Self {
        Self {
            paths,
            certain,
            certain_given_home: false,
            write,
            copy_source: false,
            found_by_lookup: false,
            tree: false,
            unread_below: false,
            denied_below: None,
            pattern: None,
        }
    }

    /// A file whose name only shows when the command runs.
    pub(super) fn unknown(write: bool) -> Self {
        Self::new(Vec::new(), false, write)
    }
}

/// The files of a shell command, as far as its words show them.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandFiles {
    /// Operands of recognised commands and redirections, but for what `parts` open that only read.
    pub(super) touched: Vec<FileAccess>,
    /// The redirections alone.
    pub(super) redirects: Vec<FileAccess>,
    /// A protected path that it may write.
    pub(super) protected: Option<PathBuf>,
    /// What it would remove behind a link that nobody may wave through.
    pub(super) critical_removal: Option<String>,
    /// What each part of the command names, in the order of the parts.
    pub(super) parts: Vec<PartFiles>,
    /// What the words of programs that nobody knows could lead to, where a rule closes files; `None` for too much.
    pub(super) possible_reads: Option<Vec<PathBuf>>,
    /// What the words of programs could lead to that are not known to leave it alone, where a rule is about changing
    /// files; `None` for too much.
    pub(super) possible_changes: Option<Vec<PathBuf>>,
    /// The file by which git would run programs that the repository names.
    pub(super) git_trap: Option<PathBuf>,
}

/// The files of one part of a command.
#[derive(Clone, Debug)]
pub(super) struct PartFiles {
    /// What a part that only reads opens, or looks at, both spellings of each.
    pub(super) reads: Vec<PathBuf>,
    /// The files among it whose contents a recognised reader opens.
    pub(super) opened: Vec<FileAccess>,
    /// Whether every link among them could be followed.
    pub(super) followed: bool,
    /// What a part edits that does nothing else.
    pub(super) edits: Option<Vec<FileAccess>>,
    /// What a part changes whose names only showed when somebody looked, both spellings of each.
    pub(super) written: Vec<PathBuf>,
    /// Some of that could not be seen.
    pub(super) unseen_writes: bool,
}

impl CommandFiles {
    /// Every file that a rule about paths may be about.
    pub(super) fn all_accesses(&self) -> impl Iterator<Item = &FileAccess> {
        let of_parts = self.parts.iter().flat_map(|part| part.opened.iter().chain(part.edits.iter().flatten()));
        self.touched.iter().chain(of_parts)
    }
}

#[derive(Debug)]
pub(super) enum RuleSubject {
    Path { spelled: PathBuf, resolved: Option<PathBuf>, hops: Vec<PathBuf>, write: bool, odd: bool },
    Run { analysis: Box<ShellAnalysis>, files: CommandFiles, launches: OnceCell<PossibleLaunches> },
    Fetch { host: Option<String> },
    Session,
    Opaque,
}

impl RuleSubject {
    pub(super) fn is_command(&self) -> bool {
        matches!(self, RuleSubject::Run { .. })
    }

    pub(super) fn trouble(&self) -> Option<ParseTrouble> {
        match self {
            RuleSubject::Run { analysis, .. } => analysis.trouble,
            _ => None,
        }
    }
}

/// The subjects of a call; one that states no need at all is opaque.
pub(super) fn build_subjects(
    call: &ProposedCall<'_>,
    rules: &RuleSet,
    world: &DecisionContext,
    view: &dyn FileView,
) -> Vec<RuleSubject> {
    if call.needs.is_empty() {
        return vec![RuleSubject::Opaque];
    }
    call.needs.iter().map(|facts| build_subject(facts, rules, world, view)).collect()
}

fn build_subject(facts: &NeedFacts, rules: &RuleSet, world: &DecisionContext, view: &dyn FileView) -> RuleSubject {
    match &facts.need {
        AccessNeed::Read(path) => path_subject(path, facts, false, world),
        AccessNeed::Write(path) => path_subject(path, facts, true, world),
        AccessNeed::Run(text) => command_subject(text, rules, world, view),
        AccessNeed::Fetch(url) => RuleSubject::Fetch { host: parse_host(url) },
        AccessNeed::Session => RuleSubject::Session,
        AccessNeed::Opaque => RuleSubject::Opaque,
    }
}

fn path_subject(path: &Path, facts: &NeedFacts, write: bool, world: &DecisionContext) -> RuleSubject {
    let clean = |path: &PathBuf| normalise(&world.cwd, path);
    let resolved = facts.resolved.as_ref().map(clean);
    let hops: Vec<PathBuf> = facts.hops.iter().map(clean).collect();
    let odd = is_malformed(path) || resolved.iter().chain(&hops).any(|path| is_malformed(path));
    RuleSubject::Path { spelled: normalise(&world.cwd, path), resolved, hops, write, odd }
}

fn command_subject(text: &str, rules: &RuleSet, world: &DecisionContext, view: &dyn FileView) -> RuleSubject {
    let analysis = world.analyse_command(text);
    let files = command_files::find_command_files(&analysis, rules, world, view);
    RuleSubject::Run { analysis: Box::new(analysis), files, launches: OnceCell::new() }
}
