//! The files that are opened by parts which only read. Everything that such a part opens is known from its text or a
//! lookup, so that a rule that closes other files does not prevent it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{PathLookup, writes_operands};
use crate::decide::rule_subject::FileAccess;
use crate::paths::{ListedKind, is_process_alias};
use crate::shell::{CommandPart, PatternLookup, PendingLookup, ReadTargets, ShellAnalysis, Word, base_name};

/// Returns true if nothing in the text does more than read.
pub(super) fn only_reads(analysis: &ShellAnalysis) -> bool {
    !analysis.parts.is_empty()
        && !analysis.has_scripts
        && analysis.parts.iter().all(|part| part.reads.is_some())
        && !analysis.redirects.iter().any(|redirect| redirect.writes)
}

/// Returns the commands of which every part only reads, so that their parts show the files they open. Nested texts may
/// have identical words with another meaning.
pub(super) fn find_known_readers(analysis: &ShellAnalysis) -> HashSet<&[Word]> {
    if analysis.has_scripts {
        return HashSet::new();
    }
    let words = |reads: bool| {
        let parts = analysis.parts.iter().filter(move |part| !part.layers.is_empty() && part.reads.is_some() == reads);
        parts.map(|part| part.words.as_slice())
    };
    let mut told: HashSet<&[Word]> = words(true).collect();
    for words in words(false) {
        told.remove(words);
    }
    told
}

impl PathLookup<'_> {
    /// Returns the files that a part opens, if it belongs to a recognised reader.
    pub(super) fn opened_by_part(&self, part: &CommandPart) -> Vec<FileAccess> {
        match &part.reads {
            Some(reading) if is_reader(part) => self.opened_by_reader(reading),
            _ => Vec::new(),
        }
    }

    /// Returns the files that a reader of these targets opens.
    pub(super) fn opened_by_reader(&self, reading: &ReadTargets) -> Vec<FileAccess> {
        let named = reading.paths.iter().chain(&reading.parent_paths);
        let mut opened: Vec<FileAccess> = named.map(|path| self.read_access(path, reading)).collect();
        if reading.recursive && reading.paths.is_empty() && reading.lookups.is_empty() {
            opened.extend(self.directories.iter().map(|directory| self.read_access(directory, reading)));
        }
        if reading.assumes_unset {
            opened.push(FileAccess::unknown(false));
        }
        // Without rules that deny reads no names are needed.
        if self.read_rules.is_none() {
            return opened;
        }
        for look in &reading.lookups {
            match look {
                PendingLookup::Pattern(look) => opened.extend(self.pattern_reads(look, reading)),
                PendingLookup::Tree { .. } => opened.extend(self.looked_up_reads(look, reading)),
                PendingLookup::Printed(_) if self.files_are_stable => {
                    opened.extend(self.looked_up_reads(look, reading))
                }
                PendingLookup::Printed(_) => opened.push(FileAccess::unknown(false)),
            }
        }
        opened
    }

    fn read_access(&self, path: &Path, reading: &ReadTargets) -> FileAccess {
        let tree = reading.recursive;
        let (paths, followed) = self.path_spellings(path);
        let certain = followed && !paths.iter().any(|path| is_process_alias(path));
        let closed_below = if tree { self.unreadable_below(path, reading) } else { None };
        FileAccess { tree, denied_below: closed_below, ..FileAccess::new(paths, certain, false) }
    }

    fn named_read_access(&self, path: &Path, reading: &ReadTargets) -> FileAccess {
        FileAccess { found_by_lookup: true, ..self.read_access(path, reading) }
    }

    /// Returns the files below a folder that must not be read, if a lookup is possible and complete. Readers of trees
    /// follow no symlink that they meet there.
    fn unreadable_below(&self, folder: &Path, reading: &ReadTargets) -> Option<Vec<PathBuf>> {
        let (eyes, closing) = (self.budget.as_ref()?, self.read_rules.as_ref()?);
        if !self.files_are_stable { None } else { eyes.denied_below(folder, closing, &reading.only_names) }
    }

    /// Returns the current expansion of a pattern, and, unless that is certain, any name that it could expand to.
    fn pattern_reads(&self, look: &PatternLookup, reading: &ReadTargets) -> Vec<FileAccess> {
        let Some(found) = self.budget.as_ref().and_then(|eyes| eyes.match_pattern(look)) else {
            return vec![FileAccess::unknown(false)];
        };
        // A folder among them is only opened by recursive readers.
        let found = found.iter().filter(|(_, kind)| reading.recursive || *kind != ListedKind::Folder);
        let mut opened: Vec<FileAccess> = found.map(|(path, _)| self.named_read_access(path, reading)).collect();
        if !self.files_are_stable {
            let may_be = Some(Box::new(look.clone()));
            opened.push(FileAccess {
                tree: reading.recursive,
                pattern: may_be,
                ..FileAccess::new(Vec::new(), true, false)
            });
        }
        opened
    }

    /// Returns reads that only a lookup can determine: the lists that other commands print, and folders whose symlinks
    /// are followed.
    fn looked_up_reads(&self, look: &PendingLookup, reading: &ReadTargets) -> Vec<FileAccess> {
        match self.budget.as_ref().and_then(|eyes| eyes.all_paths(look)) {
            Some(names) if self.files_are_stable || names.is_empty() => {
                names.iter().map(|name| self.named_read_access(name, reading)).collect()
            }
            _ => vec![FileAccess::unknown(false)],
        }
    }
}

/// Returns true if a part belongs to a command that opens its operands.
fn is_reader(part: &CommandPart) -> bool {
    let Some((name, arguments)) = part.layers.last().and_then(|words| words.split_first()) else { return false };
    // `date -f` prints lines that it cannot parse as a date.
    name.value().map(base_name).is_some_and(|name| name == "date" || writes_operands(name, arguments).is_some())
}
