//! The rules of a folder: those in force there now, and those to try.

use std::path::{Path, PathBuf};

use gimlet_policy::RuleSet;

use crate::args::SimulateArgs;
use crate::report::Report;
use crate::surroundings::Surroundings;
use crate::{config_cmd, settings};

/// What sessions that were started in one folder are judged by.
pub(super) struct Folder {
    pub(super) now: RuleSet,
    pub(super) changed: RuleSet,
    /// Further working directories that settings name.
    pub(super) directories: Vec<PathBuf>,
    /// What is to be said about the rules.
    pub(super) remarks: Vec<String>,
}

impl Folder {
    pub(super) fn read(args: &SimulateArgs, around: &Surroundings, start: &Path) -> Result<Self, Report> {
        let there = Surroundings { cwd: start.to_owned(), ..around.clone() };
        let found = config_cmd::find_with(&there, args.trust);
        let mut now = RuleSet::default();
        let problems = settings::add_rules(&mut now, &found.effective);
        let now = settings::in_force(now, &found.loaded, &found.effective);
        let mut remarks: Vec<String> = found.loaded.errors().map(ToString::to_string).collect();
        remarks.extend(problems.iter().map(ToString::to_string));
        let (files, base) = match args.only_rules.as_slice() {
            [] => (&args.rules, now.clone()),
            _ => (&args.only_rules, RuleSet::default()),
        };
        let (changed, said) = super::super::rules(base, files, &around.cwd, start)?;
        remarks.extend(said);
        // Folders that are gone cannot be worked in; that is no news here.
        let (directories, _) = settings::directories(&found.effective, &there);
        Ok(Self { now, changed, directories, remarks })
    }
}
