//! The files that parts open which only read. Everything that such a part opens is known from its text or can be seen, so
//! that a rule that closes other files does not stand in its way.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{PathLookup, writes_operands};
use crate::decide::rule_subject::FileAccess;
use crate::paths::{ListedKind, is_process_alias};
use crate::shell::{CommandPart, PatternLookup, PendingLookup, ReadTargets, ShellAnalysis, Word, base_name};

/// Whether nothing in the text does more than read.
pub(super) fn only_reads(analysis: &ShellAnalysis) -> bool {
    !analysis.parts.is_empty()
        && !analysis.has_scripts
        && analysis.parts.iter().all(|part| part.reads.is_some())
        && !analysis.redirects.iter().any(|redirect| redirect.writes)
}

/// The commands of which every part only reads, so that their parts tell what they open. Texts inside the text may have
/// the same words with another meaning.
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
    /// What a part opens, if it is one of a recognised reader.
    pub(super) fn opened_by_part(&self, part: &CommandPart) -> Vec<FileAccess> {
        part.reads.as_ref().filter(|_| is_reader(part)).map_or(Vec::new(), |reading| self.opened_by_reader(reading))
    }

    /// What somebody opens who reads this.
    pub(super) fn opened_by_reader(&self, reading: &ReadTargets) -> Vec<FileAccess> {
        let named = reading.paths.iter().chain(&reading.parent_paths);
        let mut opened: Vec<FileAccess> = named.map(|path| self.read_access(path, reading)).collect();
        if reading.recursive && reading.paths.is_empty() && reading.lookups.is_empty() {
            opened.extend(self.directories.iter().map(|directory| self.read_access(directory, reading)));
        }
        if reading.assumes_unset {
            opened.push(FileAccess::unknown(false));
        }
        // Without rules that close files nobody asks for names.
        let looks = reading.lookups.iter().filter(|_| self.read_rules.is_some());
        for look in looks {
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

    /// The closed files below a folder, if somebody may look and sees all of them. Readers of trees follow no link that
    /// they meet there.
    fn unreadable_below(&self, folder: &Path, reading: &ReadTargets) -> Option<Vec<PathBuf>> {
        let (eyes, closing) = (self.budget.as_ref()?, self.read_rules.as_ref()?);
        if !self.files_are_stable { None } else { eyes.denied_below(folder, closing, &reading.only_names) }
    }

    /// The names that a pattern stands for now, and, unless that is certain, any name that it could stand for.
    fn pattern_reads(&self, look: &PatternLookup, reading: &ReadTargets) -> Vec<FileAccess> {
        let Some(found) = self.budget.as_ref().and_then(|eyes| eyes.match_pattern(look)) else {
            return vec![FileAccess::unknown(false)];
        };
        // A folder among them is only opened by who reads trees.
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

    /// What only looking can tell: the lists that other commands print, and folders whose links are followed.
    fn looked_up_reads(&self, look: &PendingLookup, reading: &ReadTargets) -> Vec<FileAccess> {
        match self.budget.as_ref().and_then(|eyes| eyes.all_paths(look)) {
            Some(names) if self.files_are_stable || names.is_empty() => {
                names.iter().map(|name| self.named_read_access(name, reading)).collect()
            }
            _ => vec![FileAccess::unknown(false)],
        }
    }
}

/// Whether a part is one of a command that opens its operands.
fn is_reader(part: &CommandPart) -> bool {
    let Some((name, arguments)) = part.layers.last().and_then(|words| words.split_first()) else { return false };
    // What `date -f` cannot read as a date it repeats.
    name.value().map(base_name).is_some_and(|name| name == "date" || writes_operands(name, arguments).is_some())
}
