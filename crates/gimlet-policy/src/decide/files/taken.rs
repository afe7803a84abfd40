//! Folders that a command takes away or to another place with everything in them: `rm -r d`, `mv d x`. What lies in them is
//! named by no word, but a rule may keep it from being changed.

use std::path::{Path, PathBuf};

use super::Place;
use crate::decide::subject::Touched;
use crate::paths::{FileView, normalise};
use crate::shell::{Word, base_name, is_recursive};

/// A folder that is taken away, and where it comes to lie.
pub(super) struct Taken<'a> {
    folder: &'a str,
    target: Option<&'a str>,
}

/// The folders that a command may take away. Words that are only known at run time are somebody else's.
pub(super) fn folders<'a>(name: &str, arguments: &'a [Word]) -> Vec<Taken<'a>> {
    let known: Vec<&str> = arguments.iter().flat_map(Word::choices).filter_map(Word::value).collect();
    match name {
        "rm" if known.iter().any(|word| is_recursive(word)) => {
            operands(&known).into_iter().map(|folder| Taken { folder, target: None }).collect()
        }
        "mv" => {
            let (all, named) = (operands(&known), target_option(&known));
            let (target, sources) = match (named, all.split_last()) {
                (Some(target), _) => (target, &all[..]),
                (None, Some((target, sources))) => (*target, sources),
                (None, None) => return Vec::new(),
            };
            sources.iter().map(|folder| Taken { folder, target: Some(target) }).collect()
        }
        _ => Vec::new(),
    }
}

/// The words that are no options; behind `--` none is one.
pub(super) fn operands<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut options = true;
    let is_operand = |word: &&str| {
        let ends = options && *word == "--";
        options &= !ends;
        !ends && (!options || !word.starts_with('-'))
    };
    words.iter().copied().filter(is_operand).collect()
}

/// The folder of `mv -t FOLDER`.
fn target_option<'a>(words: &[&'a str]) -> Option<&'a str> {
    words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
        Some((option, folder)) if option.starts_with("--t") => Some(folder),
        _ if word.starts_with("--t") => words.get(at + 1).copied(),
        _ if word.starts_with('-') && !word.starts_with("--") => match word.split_once('t')? {
            (_, "") => words.get(at + 1).copied(),
            (_, folder) => Some(folder),
        },
        _ => None,
    })
}

impl Place<'_> {
    /// What a rule may keep below the folder, and below the place where it comes to lie.
    pub(super) fn taken(&self, taken: &Taken<'_>) -> Vec<Touched> {
        let tree =
            |path: &str, kept: Option<Vec<PathBuf>>| Touched { tree: true, closed_below: kept, ..self.at(path, true) };
        let mut touched = vec![tree(taken.folder, self.kept_below(taken.folder))];
        if let Some(target) = taken.target {
            touched.push(tree(target, self.kept_at(taken.folder, target)));
        }
        touched
    }

    /// The path from every directory where the command may stand.
    fn anywhere(&self, path: &str) -> impl Iterator<Item = PathBuf> {
        self.directories.iter().map(move |directory| normalise(directory, Path::new(path)))
    }

    /// The files below a folder that rules keep; `None` when nobody has seen all of them.
    fn kept_below(&self, folder: &str) -> Option<Vec<PathBuf>> {
        let (eyes, keeping) = (self.eyes.as_ref()?, self.keeping.as_ref()?);
        self.view.filter(|view| FileView::is_whole(*view))?;
        let mut kept = Vec::new();
        for folder in self.anywhere(folder) {
            kept.extend(eyes.closed_below(&folder, keeping, &[])?);
        }
        Some(kept)
    }

    /// The same where the files of a folder come to lie: in the target, or in a folder of the same name in it.
    fn kept_at(&self, folder: &str, target: &str) -> Option<Vec<PathBuf>> {
        let (eyes, keeping) = (self.eyes.as_ref()?, self.keeping.as_ref()?);
        let mut kept = Vec::new();
        for (folder, target) in self.anywhere(folder).zip(self.anywhere(target)) {
            let inside = target.join(base_name(&folder.to_string_lossy()));
            let found = eyes.below_folder(&folder)?;
            // What is no folder, or an empty one, brings nothing along.
            if !found.is_empty() && !self.view.is_some_and(FileView::is_whole) {
                return None;
            }
            let places = found.iter().flat_map(|(name, _)| [target.join(name), inside.join(name)]);
            kept.extend(places.filter(|path| keeping.covers(path)));
        }
        Some(kept)
    }
}
