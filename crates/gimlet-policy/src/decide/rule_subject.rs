//! The needs of a call in the form that rules are matched against: paths normalised, commands analysed, hosts parsed.

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
    /// As spelled and, where that differs, with symlinks followed; none when the word is only known at run time.
    pub(super) paths: Vec<PathBuf>,
    /// True if the list is complete: nothing depends on an earlier `cd` or on a symlink that could not be followed.
    pub(super) certain: bool,
    /// True if the list is complete, provided that the home directory is the known one. It avoids doubts and allows
    /// nothing.
    pub(super) certain_given_home: bool,
    pub(super) write: bool,
    /// True if a command that writes only reads this as a source: rules against changes do not apply to it.
    pub(super) copy_source: bool,
    /// True if the text does not name it, but the lookup of a pattern or a list found it. It may be another file when
    /// the command runs.
    pub(super) found_by_lookup: bool,
    /// True if everything below is read as well.
    pub(super) tree: bool,
    /// True if files below are changed and never read, so that rules about reading do not apply to them.
    pub(super) unread_below: bool,
    /// The files below that rules close, where everything there was checked.
    pub(super) denied_below: Option<Vec<PathBuf>>,
    /// Pattern that the shell may expand to further names.
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

    /// Creates the access to a file whose name is only known at run time.
    pub(super) fn unknown(write: bool) -> Self {
        Self::new(Vec::new(), false, write)
    }
}

/// The files of a shell command, as far as its words show them.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandFiles {
    /// Operands of recognised commands and redirections, except the files that read-only `parts` open.
    pub(super) touched: Vec<FileAccess>,
    /// The redirections alone.
    pub(super) redirects: Vec<FileAccess>,
    /// A protected path that it may write.
    pub(super) protected: Option<PathBuf>,
    /// Removal behind a symlink that is never allowed unasked.
    pub(super) critical_removal: Option<String>,
    /// Files of each part of the command, in the order of the parts.
    pub(super) parts: Vec<PartFiles>,
    /// Paths that the words of unknown programs could lead to, where a rule closes files; `None` for too many.
    pub(super) possible_reads: Option<Vec<PathBuf>>,
    /// Paths that programs could change by their words, where a rule is about changing files; `None` for too many.
    pub(super) possible_changes: Option<Vec<PathBuf>>,
    /// The file by which git would run programs that the repository names.
    pub(super) git_trap: Option<PathBuf>,
}

/// The files of one part of a command.
#[derive(Clone, Debug)]
pub(super) struct PartFiles {
    /// Paths that a part that only reads opens or checks, both spellings of each.
    pub(super) reads: Vec<PathBuf>,
    /// The files among them whose contents a recognised reader opens.
    pub(super) opened: Vec<FileAccess>,
    /// True if every symlink among them could be followed.
    pub(super) followed: bool,
    /// Files that are edited by a part that does nothing else.
    pub(super) edits: Option<Vec<FileAccess>>,
    /// Changed paths whose names only a lookup found, both spellings of each.
    pub(super) written: Vec<PathBuf>,
    /// True if some of these could not be looked up.
    pub(super) unseen_writes: bool,
}

impl CommandFiles {
    /// Returns every file that a rule about paths may apply to.
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

/// Returns the subjects of a call; one that declares no need at all is opaque.
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
