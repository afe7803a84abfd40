//! Discovery of the repository around a folder.

use std::path::{Path, PathBuf};

use gimlet_fs::read_text;

/// Files of git that name a place are one line.
pub(crate) const POINTER_MAX_BYTES: u64 = 64 * 1024;

/// Git repository, as described by its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRepo {
    /// Top of the checkout.
    pub root: PathBuf,
    /// This checkout's own git folder.
    pub git_dir: PathBuf,
    /// Git folder that all checkouts of the repository share.
    pub common_dir: PathBuf,
    /// Top of the main checkout; equal to `root` outside linked worktrees.
    pub main_root: PathBuf,
}

impl GitRepo {
    /// Finds the repository that contains this folder; `None` if there is none.
    pub fn discover(folder: &Path) -> Option<Self> {
        folder.ancestors().find_map(Self::open_at)
    }

    fn open_at(root: &Path) -> Option<Self> {
        let dot_git = root.join(".git");
        let metadata = dot_git.metadata().ok()?;
        let git_dir = if metadata.is_dir() {
            dot_git
        } else {
            // A linked worktree or a submodule: one line names its git folder.
            let text = read_text(&dot_git, POINTER_MAX_BYTES).ok().flatten()?;
            root.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?
        };
        if !git_dir.join("HEAD").exists() {
            return None;
        }
        let common_dir = Self::read_common_dir(&git_dir);
        let main_root = Self::find_main_root(root, &git_dir, &common_dir);
        Some(Self { root: root.to_owned(), git_dir, common_dir, main_root })
    }

    fn read_common_dir(git_dir: &Path) -> PathBuf {
        let pointer = read_text(&git_dir.join("commondir"), POINTER_MAX_BYTES).ok().flatten();
        let named = pointer.and_then(|text| git_dir.join(text.trim()).canonicalize().ok());
        named.unwrap_or_else(|| git_dir.to_owned())
    }

    /// Returns the main checkout of a linked worktree. A folder can claim to be a worktree of any repository; it is
    /// one only if that repository's own record points back to it.
    fn find_main_root(root: &Path, git_dir: &Path, common_dir: &Path) -> PathBuf {
        let back = read_text(&git_dir.join("gitdir"), POINTER_MAX_BYTES).ok().flatten();
        let points_back = back.and_then(|text| git_dir.join(text.trim()).canonicalize().ok());
        let points_back = points_back.is_some_and(|path| path == root.join(".git"));
        let recorded = git_dir.parent().is_some_and(|parent| parent == common_dir.join("worktrees"));
        match common_dir.parent() {
            Some(main) if points_back && recorded && common_dir.ends_with(".git") => main.to_owned(),
            _ => root.to_owned(),
        }
    }
}
