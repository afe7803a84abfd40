//! The needs of a call in the form that rules are held against: paths normalised, commands analysed, hosts read.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use gimlet_proto::Need;

use super::{Call, NeedFacts, World, files};
use crate::paths::{FileView, is_odd, normalise};
use crate::rules::{RuleSet, host_of};
use crate::shell::{Analysis, Launches, PatternLook, Trouble};

/// A file that a shell command names.
#[derive(Clone, Debug)]
pub(super) struct Touched {
    /// As spelled and, where that differs, with links followed; none when the word is only known at run time.
    pub(super) paths: Vec<PathBuf>,
    /// These are all: nothing hangs on an earlier `cd` or on a link that nobody could follow.
    pub(super) certain: bool,
    /// These are all, as long as the home directory is the one that is known. It keeps doubts away and lets nothing through.
    pub(super) told: bool,
    pub(super) write: bool,
    /// It is what a command that writes takes from: rules against changes have nothing to say of it.
    pub(super) copied: bool,
    /// The text does not name it: somebody saw it where a pattern or a list leads. It may be another by the time it runs.
    pub(super) seen: bool,
    /// Whatever lies below is read as well.
    pub(super) tree: bool,
    /// What lies below is changed and never read, so that rules about reading have nothing to say of it.
    pub(super) unread_below: bool,
    /// The closed files below, where somebody looked at all that lies there.
    pub(super) closed_below: Option<Vec<PathBuf>>,
    /// Any name that the shell may put in place of this pattern besides.
    pub(super) may_be: Option<Box<PatternLook>>,
}

impl Touched {
    pub(super) fn new(paths: Vec<PathBuf>, certain: bool, write: bool) -> Self {
        Self {
            paths,
            certain,
            told: false,
            write,
            copied: false,
            seen: false,
            tree: false,
            unread_below: false,
            closed_below: None,
            may_be: None,
        }
    }

    /// A file whose name only shows when the command runs.
    pub(super) fn unknown(write: bool) -> Self {
        Self::new(Vec::new(), false, write)
    }
}

/// The files of a shell command, as far as its words show them.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// Operands of recognised commands and redirections, but for what `parts` open that only read.
    pub(super) touched: Vec<Touched>,
    /// The redirections alone.
    pub(super) redirects: Vec<Touched>,
    /// A protected path that it may write.
    pub(super) protected: Option<PathBuf>,
    /// What it would remove behind a link that nobody may wave through.
    pub(super) critical_removal: Option<String>,
    /// What each part of the command names, in the order of the parts.
    pub(super) parts: Vec<PartFiles>,
    /// What the words of programs that nobody knows could lead to, where a rule closes files; `None` for too much.
    pub(super) spoken: Option<Vec<PathBuf>>,
    /// What the words of programs could lead to that are not known to leave it alone, where a rule is about changing
    /// files; `None` for too much.
    pub(super) changed: Option<Vec<PathBuf>>,
    /// The file by which git would run programs that the repository names.
    pub(super) git_trap: Option<PathBuf>,
}

/// The files of one part of a command.
#[derive(Clone, Debug)]
pub(super) struct PartFiles {
    /// What a part that only reads opens, or looks at, both spellings of each.
    pub(super) reads: Vec<PathBuf>,
    /// The files among it whose contents a recognised reader opens.
    pub(super) opened: Vec<Touched>,
    /// Whether every link among them could be followed.
    pub(super) followed: bool,
    /// What a part edits that does nothing else.
    pub(super) edits: Option<Vec<Touched>>,
    /// What a part changes whose names only showed when somebody looked, both spellings of each.
    pub(super) written: Vec<PathBuf>,
    /// Some of that could not be seen.
    pub(super) unseen_writes: bool,
}

impl Files {
    /// Every file that a rule about paths may be about.
    pub(super) fn touched(&self) -> impl Iterator<Item = &Touched> {
        let of_parts = self.parts.iter().flat_map(|part| part.opened.iter().chain(part.edits.iter().flatten()));
        self.touched.iter().chain(of_parts)
    }
}

#[derive(Debug)]
pub(super) enum Subject {
    Path { spelled: PathBuf, resolved: Option<PathBuf>, hops: Vec<PathBuf>, write: bool, odd: bool },
    Run { analysis: Box<Analysis>, files: Files, launches: OnceCell<Launches> },
    Fetch { host: Option<String> },
    Session,
    Opaque,
}

impl Subject {
    pub(super) fn is_run(&self) -> bool {
        matches!(self, Subject::Run { .. })
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        match self {
            Subject::Run { analysis, .. } => analysis.trouble,
            _ => None,
        }
    }
}

/// The subjects of a call; one that states no need at all is opaque.
pub(super) fn subjects(call: &Call<'_>, rules: &RuleSet, world: &World, view: &dyn FileView) -> Vec<Subject> {
    if call.needs.is_empty() {
        return vec![Subject::Opaque];
    }
    call.needs.iter().map(|facts| subject(facts, rules, world, view)).collect()
}

fn subject(facts: &NeedFacts, rules: &RuleSet, world: &World, view: &dyn FileView) -> Subject {
    match &facts.need {
        Need::Read(path) => path_subject(path, facts, false, world),
        Need::Write(path) => path_subject(path, facts, true, world),
        Need::Run(text) => run_subject(text, rules, world, view),
        Need::Fetch(url) => Subject::Fetch { host: host_of(url) },
        Need::Session => Subject::Session,
        Need::Opaque => Subject::Opaque,
    }
}

fn path_subject(path: &Path, facts: &NeedFacts, write: bool, world: &World) -> Subject {
    let clean = |path: &PathBuf| normalise(&world.cwd, path);
    let resolved = facts.resolved.as_ref().map(clean);
    let hops: Vec<PathBuf> = facts.hops.iter().map(clean).collect();
    let odd = is_odd(path) || resolved.iter().chain(&hops).any(|path| is_odd(path));
    Subject::Path { spelled: normalise(&world.cwd, path), resolved, hops, write, odd }
}

fn run_subject(text: &str, rules: &RuleSet, world: &World, view: &dyn FileView) -> Subject {
    let analysis = world.analyse(text);
    let files = files::of(&analysis, rules, world, view);
    Subject::Run { analysis: Box::new(analysis), files, launches: OnceCell::new() }
}
