//! The files that parts open which only read. Everything that such a part opens is known from its text or can be seen, so
//! that a rule that closes other files does not stand in its way.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{Place, writes};
use crate::decide::subject::Touched;
use crate::paths::{Kind, is_process_alias};
use crate::shell::{Analysis, Look, Part, PatternLook, Reading, Word, base_name};

/// Whether nothing in the text does more than read.
pub(super) fn only_reads(analysis: &Analysis) -> bool {
    !analysis.parts.is_empty()
        && !analysis.has_scripts
        && analysis.parts.iter().all(|part| part.reading.is_some())
        && !analysis.redirects.iter().any(|redirect| redirect.writes)
}

/// The commands of which every part only reads, so that their parts tell what they open. Texts inside the text may have
/// the same words with another meaning.
pub(super) fn told(analysis: &Analysis) -> HashSet<&[Word]> {
    if analysis.has_scripts {
        return HashSet::new();
    }
    let words = |reads: bool| {
        let parts =
            analysis.parts.iter().filter(move |part| !part.layers.is_empty() && part.reading.is_some() == reads);
        parts.map(|part| part.words.as_slice())
    };
    let mut told: HashSet<&[Word]> = words(true).collect();
    for words in words(false) {
        told.remove(words);
    }
    told
}

impl Place<'_> {
    /// What a part opens, if it is one of a recognised reader.
    pub(super) fn opened(&self, part: &Part) -> Vec<Touched> {
        part.reading.as_ref().filter(|_| is_reader(part)).map_or(Vec::new(), |reading| self.opened_by(reading))
    }

    /// What somebody opens who reads this.
    pub(super) fn opened_by(&self, reading: &Reading) -> Vec<Touched> {
        let named = reading.paths.iter().chain(&reading.climbs);
        let mut opened: Vec<Touched> = named.map(|path| self.open(path, reading)).collect();
        if reading.recursive && reading.paths.is_empty() && reading.looks.is_empty() {
            opened.extend(self.directories.iter().map(|directory| self.open(directory, reading)));
        }
        if reading.assumes_unset {
            opened.push(Touched::unknown(false));
        }
        // Without rules that close files nobody asks for names.
        let looks = reading.looks.iter().filter(|_| self.closing.is_some());
        for look in looks {
            match look {
                Look::Pattern(look) => opened.extend(self.open_matches(look, reading)),
                Look::Tree { .. } => opened.extend(self.open_seen(look, reading)),
                Look::Printed(_) if self.settled => opened.extend(self.open_seen(look, reading)),
                Look::Printed(_) => opened.push(Touched::unknown(false)),
            }
        }
        opened
    }

    fn open(&self, path: &Path, reading: &Reading) -> Touched {
        let tree = reading.recursive;
        let (paths, followed) = self.spellings(path);
        let certain = followed && !paths.iter().any(|path| is_process_alias(path));
        let closed_below = if tree { self.closed_below(path, reading) } else { None };
        Touched { tree, closed_below, ..Touched::new(paths, certain, false) }
    }

    fn open_named(&self, path: &Path, reading: &Reading) -> Touched {
        Touched { seen: true, ..self.open(path, reading) }
    }

    /// The closed files below a folder, if somebody may look and sees all of them. Readers of trees follow no link that
    /// they meet there.
    fn closed_below(&self, folder: &Path, reading: &Reading) -> Option<Vec<PathBuf>> {
        let (eyes, closing) = (self.eyes.as_ref()?, self.closing.as_ref()?);
        if !self.settled { None } else { eyes.closed_below(folder, closing, &reading.only) }
    }

    /// The names that a pattern stands for now, and, unless that is certain, any name that it could stand for.
    fn open_matches(&self, look: &PatternLook, reading: &Reading) -> Vec<Touched> {
        let Some(found) = self.eyes.as_ref().and_then(|eyes| eyes.matching(look)) else {
            return vec![Touched::unknown(false)];
        };
        // A folder among them is only opened by who reads trees.
        let found = found.iter().filter(|(_, kind)| reading.recursive || *kind != Kind::Folder);
        let mut opened: Vec<Touched> = found.map(|(path, _)| self.open_named(path, reading)).collect();
        if !self.settled {
            let may_be = Some(Box::new(look.clone()));
            opened.push(Touched { tree: reading.recursive, may_be, ..Touched::new(Vec::new(), true, false) });
        }
        opened
    }

    /// What only looking can tell: the lists that other commands print, and folders whose links are followed.
    fn open_seen(&self, look: &Look, reading: &Reading) -> Vec<Touched> {
        match self.eyes.as_ref().and_then(|eyes| eyes.everything(look)) {
            Some(names) if self.settled || names.is_empty() => {
                names.iter().map(|name| self.open_named(name, reading)).collect()
            }
            _ => vec![Touched::unknown(false)],
        }
    }
}

/// Whether a part is one of a command that opens its operands.
fn is_reader(part: &Part) -> bool {
    let Some((name, arguments)) = part.layers.last().and_then(|words| words.split_first()) else { return false };
    // What `date -f` cannot read as a date it repeats.
    name.value().map(base_name).is_some_and(|name| name == "date" || writes(name, arguments).is_some())
}
