//! Places outside a working directory that git reads for it: the repository that the directory is a part of, and the
//! files that the user's own configuration names. Blocking; only files are read, git is never run.

use std::path::{Path, PathBuf};

use super::default_spec::LinkedWorktree;
use super::symlinks::git_link_target;

/// A larger configuration file is not read.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Keys of the user's configuration whose value is a file that git reads.
const FILE_KEYS: &[&str] = &["path", "excludesfile", "attributesfile", "ignorerevsfile", "file", "orderfile"];

/// The parts of a repository that lie outside a working directory.
#[derive(Debug, Default)]
pub(super) struct RepositoryPaths {
    places: Vec<PathBuf>,
}

impl RepositoryPaths {
    /// Finds the repository that a folder belongs to. One that contains the whole home folder does not count.
    pub(super) fn for_folder(folder: &Path, home: Option<&Path>) -> Self {
        let Some(top) = folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok()) else {
            return Self::default();
        };
        if top != folder && home.is_some_and(|home| home.starts_with(top)) {
            return Self::default();
        }
        let mut places = Vec::new();
        // Git shows the whole repository wherever in it it is run.
        if top != folder {
            places.push(top.to_owned());
        }
        if let Some(worktree) = LinkedWorktree::find(top) {
            places.push(worktree.common);
        } else if let Some(modules) = git_link_target(&top.join(".git")).filter(|target| is_submodule(target, top)) {
            places.push(modules);
        }
        Self { places }
    }

    pub(super) fn readable(&self) -> &[PathBuf] {
        &self.places
    }
}

/// Returns true if a git directory is that of a submodule of a repository around this folder.
fn is_submodule(git_dir: &Path, folder: &Path) -> bool {
    folder.ancestors().skip(1).any(|outer| git_dir.starts_with(outer.join(".git/modules")))
}

/// Files that the user's git configuration names: included files, ignore and attribute files.
pub(super) fn git_configuration_files(home: Option<&Path>) -> Vec<PathBuf> {
    let Some(home) = home else { return Vec::new() };
    let mut found = Vec::new();
    for file in [home.join(".gitconfig"), home.join(".config/git/config")] {
        let Some(text) = read_configuration(&file) else { continue };
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            if !FILE_KEYS.contains(&key.trim().to_ascii_lowercase().as_str()) {
                continue;
            }
            let value = value.trim().trim_matches('"');
            let path = match value.strip_prefix("~/") {
                Some(rest) => home.join(rest),
                None => file.parent().unwrap_or(home).join(value),
            };
            // A folder would open more than git reads.
            if path.is_file() {
                found.push(path);
            }
        }
    }
    found
}

/// Reads a configuration file of the user, which may be a symlink.
fn read_configuration(file: &Path) -> Option<String> {
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_CONFIG_BYTES {
        return None;
    }
    std::fs::read_to_string(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_around_a_folder_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("repo/.git/modules/inner")).unwrap();
        std::fs::create_dir_all(root.join("repo/sub/deep")).unwrap();
        std::fs::create_dir_all(root.join("repo/inner")).unwrap();
        std::fs::write(root.join("repo/inner/.git"), "gitdir: ../.git/modules/inner\n").unwrap();
        assert_eq!(RepositoryPaths::for_folder(&root.join("repo/sub/deep"), None).readable(), [root.join("repo")]);
        assert_eq!(RepositoryPaths::for_folder(&root.join("repo"), None).readable(), [] as [PathBuf; 0]);
        let inner = RepositoryPaths::for_folder(&root.join("repo/inner"), None);
        assert_eq!(inner.readable(), [root.join("repo/.git/modules/inner")]);
        std::fs::create_dir_all(root.join("elsewhere")).unwrap();
        std::fs::write(root.join("repo/inner/.git"), "gitdir: ../../elsewhere\n").unwrap();
        assert_eq!(RepositoryPaths::for_folder(&root.join("repo/inner"), None).readable(), [] as [PathBuf; 0]);
    }

    #[test]
    fn files_that_the_users_configuration_names_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let text = "[include]\n\tpath = ~/more.config\n[core]\n\texcludesFile = \"ignored\"\n\teditor = vim\n[x]\npath = ~/gone";
        std::fs::write(home.join(".gitconfig"), text).unwrap();
        for name in ["more.config", "ignored"] {
            std::fs::write(home.join(name), "").unwrap();
        }
        assert_eq!(git_configuration_files(Some(home)), [home.join("more.config"), home.join("ignored")]);
    }
}
