//! Lists the files below a folder with bounds. Symlinks are followed inside the border, and each real folder is listed
//! once, so that a circle of symlinks ends.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::SkippedDocument;

/// Maximum depth of folders, and number of files; a larger tree is no plausible set of documents.
const MAX_DEPTH: usize = 6;
const MAX_FILES: usize = 2_000;
/// Maximum number of folders that are listed.
const MAX_FOLDERS: usize = 4_000;

/// File that was found.
#[derive(Clone, Debug)]
pub(super) struct WalkedFile {
    /// Path as spelled.
    pub(super) path: PathBuf,
    /// Path without symlinks.
    pub(super) real: PathBuf,
}

/// Markdown and JSON files below a folder, by name.
#[derive(Debug, Default)]
pub(super) struct FolderWalk {
    pub(super) files: Vec<WalkedFile>,
    /// Symlinks to folders outside the border, which are not followed.
    pub(super) outside: Vec<WalkedFile>,
    pub(super) skipped: Vec<SkippedDocument>,
    /// Folders that were listed, without symlinks.
    pub(super) folders: Vec<PathBuf>,
}

impl FolderWalk {
    /// Lists a folder; one that does not exist is empty.
    pub(super) fn new(top: &Path, border: Option<&Path>) -> Self {
        let mut walk = Self::default();
        if let Ok(real) = top.canonicalize() {
            let mut walker = FolderWalker { border, walk: &mut walk, visited: HashSet::new() };
            walker.enter_folder(top, real, MAX_DEPTH);
            walk.folders = walker.visited.into_iter().collect();
        }
        walk
    }
}

struct FolderWalker<'a> {
    border: Option<&'a Path>,
    walk: &'a mut FolderWalk,
    visited: HashSet<PathBuf>,
}

impl FolderWalker<'_> {
    fn enter_folder(&mut self, folder: &Path, real: PathBuf, depth: usize) {
        if self.border.is_some_and(|border| !real.starts_with(border)) {
            self.walk.outside.push(WalkedFile { path: folder.to_owned(), real });
            return;
        }
        if self.visited.len() == MAX_FOLDERS {
            self.skip_once(
                folder,
                format!("there are more than {MAX_FOLDERS} folders; this and the rest are left out"),
            );
        } else if self.visited.insert(real.clone()) {
            self.list_folder(folder, &real, depth);
        }
    }

    fn list_folder(&mut self, folder: &Path, real: &Path, depth: usize) {
        let entries = match folder.read_dir() {
            Ok(entries) => entries,
            Err(error) => {
                self.skip(folder, format!("it cannot be listed: {error}"));
                return;
            }
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let Ok(kind) = entry.file_type() else { continue };
            let (path, mut real) = (entry.path(), real.join(entry.file_name()));
            let mut is_dir = kind.is_dir();
            if kind.is_symlink() {
                let Ok(target) = path.canonicalize() else {
                    if is_document(&path) {
                        self.skip(&path, "it is a link that leads nowhere".to_owned());
                    }
                    continue;
                };
                is_dir = target.is_dir();
                real = target;
            }
            if is_dir {
                match depth.checked_sub(1) {
                    Some(depth) => self.enter_folder(&path, real, depth),
                    None => self.skip(&path, format!("it is more than {MAX_DEPTH} folders deep")),
                }
            } else if is_document(&path) {
                if self.walk.files.len() == MAX_FILES {
                    let reason = format!("there are more than {MAX_FILES} documents; this and the rest are left out");
                    self.skip_once(&path, reason);
                    return;
                }
                self.walk.files.push(WalkedFile { path, real });
            }
        }
    }

    fn skip_once(&mut self, path: &Path, reason: String) {
        if self.walk.skipped.iter().all(|skipped| skipped.reason != reason) {
            self.skip(path, reason);
        }
    }

    fn skip(&mut self, path: &Path, reason: String) {
        self.walk.skipped.push(SkippedDocument::new(path, reason));
    }
}

impl WalkedFile {
    /// Returns the report of a folder outside the border.
    pub(super) fn to_skipped(&self) -> SkippedDocument {
        let reason = format!("it is a link that leads out of the project, to {}", self.real.display());
        SkippedDocument::new(&self.path, reason)
    }
}

fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md" || extension == "json")
}
