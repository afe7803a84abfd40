//! Options that send a single command to another directory: `env -C DIR rm k`, `git -C DIR rm k`. From there its words
//! mean other files. Which command of a text is meant is not followed, and so what is found here only asks.

use std::path::{Path, PathBuf};

use super::Place;
use crate::decide::subject::Touched;
use crate::paths::normalise;
use crate::shell::{Analysis, Word, directories_named};

/// Directories that are looked up.
const MOST: usize = 8;

/// The directories that options of a text name.
pub(super) fn directories(analysis: &Analysis) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let reached = analysis.reached();
    for named in reached.flat_map(directories_named) {
        for from in &analysis.directories {
            let directory = normalise(from, Path::new(named));
            if found.len() < MOST && !found.contains(&directory) {
                found.push(directory);
            }
        }
    }
    found
}

impl Place<'_> {
    /// Where a relative path leads from those directories.
    pub(super) fn led_elsewhere(&self, path: &str) -> Vec<PathBuf> {
        let relative = Path::new(path).is_relative();
        let from = self.elsewhere.iter().filter(|_| relative);
        from.flat_map(|directory| self.spellings(&directory.join(path)).0).collect()
    }

    /// The operands of a recognised command as files of those directories.
    pub(super) fn sent_elsewhere(&self, arguments: &[Word], write: bool) -> Option<Touched> {
        let known = arguments.iter().flat_map(Word::choices).filter_map(Word::value);
        let paths: Vec<PathBuf> = known.flat_map(|text| self.led_elsewhere(text)).collect();
        (!paths.is_empty()).then(|| Touched { seen: true, ..Touched::new(paths, true, write) })
    }
}
