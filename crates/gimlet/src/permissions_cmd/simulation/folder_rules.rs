//! The rules of a folder: those in force there now, and those to try.

use std::path::{Path, PathBuf};

use gimlet_app::{ProcessEnv, settings_mapping};
use gimlet_policy::RuleSet;

use crate::args::SimulateArgs;
use crate::config_cmd;
use crate::report::Report;

/// Rules for the sessions started in one folder.
pub(super) struct FolderRules {
    pub(super) now: RuleSet,
    pub(super) changed: RuleSet,
    /// Further working directories that settings name.
    pub(super) directories: Vec<PathBuf>,
    /// Warnings about the rules.
    pub(super) remarks: Vec<String>,
}

impl FolderRules {
    pub(super) fn read(args: &SimulateArgs, around: &ProcessEnv, start: &Path) -> Result<Self, Report> {
        let there = ProcessEnv { cwd: start.to_owned(), ..around.clone() };
        let found = config_cmd::read_with_trust(&there, args.trust);
        let mut now = RuleSet::default();
        let problems = settings_mapping::add_rules(&mut now, &found.effective);
        let now = settings_mapping::apply_managed_limits(now, &found.loaded, &found.effective);
        let mut remarks: Vec<String> = found.loaded.errors().map(ToString::to_string).collect();
        remarks.extend(problems.iter().map(ToString::to_string));
        let (files, base) = match args.only_rules.as_slice() {
            [] => (&args.rules, now.clone()),
            _ => (&args.only_rules, RuleSet::default()),
        };
        let (changed, said) = super::super::load_rule_files(base, files, &around.cwd, start)?;
        remarks.extend(said);
        // Missing folders are skipped without a warning here.
        let (directories, _) = settings_mapping::additional_directories(&found.effective, &there);
        Ok(Self { now, changed, directories, remarks })
    }
}
