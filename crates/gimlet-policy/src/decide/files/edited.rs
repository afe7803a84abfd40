//! The files that parts edit which do nothing else: those they name, those that patterns stand for, and those that a copied
//! folder brings along. A copy that meets a link, or more names than can be looked at, is nobody's to wave through.

use std::path::{Path, PathBuf};

use super::{Place, looking};
use crate::decide::subject::Touched;
use crate::paths::{FileView, Kind};
use crate::shell::{Edits, TreeCopy};

impl Place<'_> {
    /// Everything that is edited; `None` when that cannot be said.
    pub(super) fn edited(&self, edits: &Edits) -> Option<Vec<Touched>> {
        let mut touched: Vec<Touched> = edits.paths.iter().map(|path| self.edit(path)).collect();
        let (matched, all) = self.read(&edits.matched);
        if !matched.is_empty() || !all {
            touched.push(Touched { seen: true, ..Touched::new(matched, all, true) });
        }
        for copy in &edits.copies {
            touched.extend(self.copied(copy)?);
        }
        Some(touched)
    }

    /// The text does not say whether the target is a folder, and so not for certain which files are edited.
    fn edit(&self, path: &Path) -> Touched {
        Touched { seen: true, ..self.at(&path.to_string_lossy(), true) }
    }

    /// Where the files of a folder come to lie. The target may be a folder that gets the copy, or become the copy.
    fn copied(&self, copy: &TreeCopy) -> Option<Vec<Touched>> {
        let eyes = self.eyes.as_ref().filter(|_| self.view.is_some_and(FileView::is_whole))?;
        let inside = copy.source.file_name().map(|name| copy.target.join(name));
        let targets: Vec<PathBuf> = inside.into_iter().chain([copy.target.clone()]).collect();
        let mut touched = Vec::new();
        for (name, kind) in eyes.below_folder(&copy.source)? {
            if kind == Kind::Link || name.to_str().is_none() || touched.len() > looking::MOST_NAMES {
                return None;
            }
            touched.extend(targets.iter().map(|target| self.edit(&target.join(&name))));
        }
        Some(touched)
    }
}
