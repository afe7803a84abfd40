//! Options that run a single command in another directory: `env -C DIR rm k`, `git -C DIR rm k`. From there its words
//! name other files. The option is not matched to its command, so the result only asks.

use std::path::{Path, PathBuf};

use super::PathLookup;
use crate::decide::rule_subject::FileAccess;
use crate::paths::normalise;
use crate::shell::{ShellAnalysis, Word, chdir_option_values};

/// Limit of directories that are resolved.
const MOST: usize = 8;

/// Returns the directories that options of a text name.
pub(super) fn find_chdir_dirs(analysis: &ShellAnalysis) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let reached = analysis.reachable_commands();
    for named in reached.flat_map(chdir_option_values) {
        for from in &analysis.directories {
            let directory = normalise(from, Path::new(named));
            if found.len() < MOST && !found.contains(&directory) {
                found.push(directory);
            }
        }
    }
    found
}

impl PathLookup<'_> {
    /// Returns the paths that a relative path has from those directories.
    pub(super) fn paths_after_chdir(&self, path: &str) -> Vec<PathBuf> {
        if Path::new(path).is_absolute() {
            return Vec::new();
        }
        self.chdir_dirs.iter().flat_map(|directory| self.path_spellings(&directory.join(path)).0).collect()
    }

    /// Returns the operands of a recognised command as files of those directories.
    pub(super) fn operands_after_chdir(&self, arguments: &[Word], write: bool) -> Option<FileAccess> {
        let known = arguments.iter().flat_map(Word::choices).filter_map(Word::value);
        let paths: Vec<PathBuf> = known.flat_map(|text| self.paths_after_chdir(text)).collect();
        (!paths.is_empty()).then(|| FileAccess { found_by_lookup: true, ..FileAccess::new(paths, true, write) })
    }
}
