//! The needs of a call in the form that rules are held against: paths normalised, commands analysed, hosts read.

use std::path::{Path, PathBuf};

use gimlet_proto::Need;

use super::{Call, Follow, NeedFacts, World, files};
use crate::paths::{is_odd, normalise};
use crate::rules::host_of;
use crate::shell::{Analysis, ShellFacts, Trouble, analyse};

/// A file that a shell command names.
#[derive(Clone, Debug)]
pub(super) struct Touched {
    /// As spelled and, where that differs, with links followed; none when the word is only known at run time.
    pub(super) paths: Vec<PathBuf>,
    /// These are all: nothing hangs on an earlier `cd` or on a link that nobody could follow.
    pub(super) certain: bool,
    pub(super) write: bool,
    /// Whatever lies below is read as well.
    pub(super) tree: bool,
}

/// The files of a shell command, as far as its words show them.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// Operands of recognised commands and redirections.
    pub(super) touched: Vec<Touched>,
    /// The redirections alone.
    pub(super) redirects: Vec<Touched>,
    /// A protected path that it may write.
    pub(super) protected: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) enum Subject {
    Path { spelled: PathBuf, resolved: Option<PathBuf>, write: bool, odd: bool },
    Run { analysis: Box<Analysis>, files: Files },
    Fetch { host: Option<String> },
    Session,
    Opaque,
}

impl Subject {
    pub(super) fn is_write(&self) -> bool {
        matches!(self, Subject::Path { write: true, .. })
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        match self {
            Subject::Run { analysis, .. } => analysis.trouble,
            _ => None,
        }
    }
}

/// The subjects of a call; one that states no need at all is opaque.
pub(super) fn subjects(call: &Call<'_>, world: &World, follow: Follow<'_>) -> Vec<Subject> {
    if call.needs.is_empty() {
        return vec![Subject::Opaque];
    }
    call.needs.iter().map(|facts| subject(facts, world, follow)).collect()
}

fn subject(facts: &NeedFacts, world: &World, follow: Follow<'_>) -> Subject {
    match &facts.need {
        Need::Read(path) => path_subject(path, facts.resolved.as_deref(), false, world),
        Need::Write(path) => path_subject(path, facts.resolved.as_deref(), true, world),
        Need::Run(text) => run_subject(text, world, follow),
        Need::Fetch(url) => Subject::Fetch { host: host_of(url) },
        Need::Session => Subject::Session,
        Need::Opaque => Subject::Opaque,
    }
}

fn path_subject(path: &Path, resolved: Option<&Path>, write: bool, world: &World) -> Subject {
    let resolved = resolved.map(|resolved| normalise(&world.cwd, resolved));
    let odd = is_odd(path) || resolved.as_deref().is_some_and(is_odd);
    Subject::Path { spelled: normalise(&world.cwd, path), resolved, write, odd }
}

fn run_subject(text: &str, world: &World, follow: Follow<'_>) -> Subject {
    let facts = ShellFacts { cwd: &world.cwd, roots: &world.roots, home: world.home.as_deref() };
    let analysis = analyse(text, &facts);
    let files = files::of(&analysis, world, follow);
    Subject::Run { analysis: Box::new(analysis), files }
}
