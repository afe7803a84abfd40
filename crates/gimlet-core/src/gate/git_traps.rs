//! Detection of git traps: a repository whose own configuration makes git run programs, or show files that lie
//! elsewhere. The configuration can make git run a monitor, a filter or a hook even for `git status`. Git is not run,
//! its files are read; anything that cannot be parsed counts as a trap. The user's own configuration is not checked.

mod git_config_keys;
mod git_submodules;
mod git_symlinks;

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memchr::memmem;

/// Size limit for git's files; larger ones are not read.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;
const MAX_INDEX_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of a `HEAD` that git reads.
const MAX_HEAD_BYTES: u64 = 255;
/// Nesting limit for repositories inside repositories.
const MAX_DEPTH: usize = 4;

/// Mode of an index entry that is a repository of its own.
const REPOSITORY_MODE: [u8; 4] = [0, 0, 0xe0, 0];
/// Distance from the mode of an index entry to its name, with object ids of 20 bytes.
const MODE_TO_NAME: usize = 38;

/// Returns the file that would make git, started in this folder, run a program that the repository names or show files
/// that lie elsewhere.
pub(super) fn find_git_trap(cwd: &Path) -> Option<PathBuf> {
    // Git walks up from the path that the kernel reports.
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    match cwd.ancestors().find_map(find_repository)? {
        Ok(repository) => repository.find_trap(MAX_DEPTH),
        Err(unclear) => Some(unclear),
    }
}

/// Returns the repository that git finds in a folder before it checks the parent, or the path that makes this unclear:
/// anything that resembles a repository but is incomplete is a trap, so that git's further search need not be
/// modelled.
fn find_repository(folder: &Path) -> Option<Result<GitRepository, PathBuf>> {
    let dot_git = folder.join(".git");
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let git_dir = match dot_git.symlink_metadata() {
        Ok(_) if dot_git.is_dir() => Some(dot_git.clone()),
        Ok(_) => read_path_file(&dot_git, "gitdir: ", folder),
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
        Err(_) if has("HEAD") && (has("refs") || has("commondir")) => Some(folder.to_owned()),
        Err(_) => return None,
    };
    Some(git_dir.and_then(|git_dir| GitRepository::open(folder, git_dir)).ok_or(dot_git))
}

/// Returns the common directory of a path that git accepts as a git directory; `None` for everything else.
fn find_common_dir(git_dir: &Path) -> Option<PathBuf> {
    let shared = git_dir.join("commondir");
    let common_dir = match shared.symlink_metadata() {
        Ok(_) => read_path_file(&shared, "", git_dir)?,
        Err(_) => git_dir.to_owned(),
    };
    // Checking a path inside also checks that the folder may be entered, as git does.
    let enters = |name: &str| common_dir.join(name).join(".").metadata().is_ok();
    (is_head_file(&git_dir.join("HEAD")) && enters("objects") && enters("refs")).then_some(common_dir)
}

/// Returns true if git accepts a file as the head of a repository.
fn is_head_file(file: &Path) -> bool {
    if let Ok(target) = fs::read_link(file) {
        return target.as_os_str().as_bytes().starts_with(b"refs/");
    }
    let Some(head) = file.metadata().ok().filter(fs::Metadata::is_file).and_then(|_| fs::File::open(file).ok()) else {
        return false;
    };
    let mut text = Vec::new();
    if head.take(MAX_HEAD_BYTES).read_to_end(&mut text).is_err() {
        return false;
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let branch = text.strip_prefix(b"ref:").and_then(|name| name.get(name.iter().position(|byte| !is_blank(byte))?..));
    branch.is_some_and(|name| name.starts_with(b"refs/"))
        || text.get(..40).is_some_and(|id| id.iter().all(u8::is_ascii_hexdigit))
}

struct GitRepository {
    /// Root of the working tree.
    root: PathBuf,
    git_dir: PathBuf,
    /// Directory that linked worktrees share.
    common_dir: PathBuf,
}

impl GitRepository {
    fn open(root: &Path, git_dir: PathBuf) -> Option<Self> {
        let common_dir = find_common_dir(&git_dir)?.canonicalize().ok()?;
        Some(Self { root: root.canonicalize().ok()?, git_dir: git_dir.canonicalize().ok()?, common_dir })
    }

    fn find_trap(&self, depth: usize) -> Option<PathBuf> {
        let config = match self.read_config() {
            Ok(config) => config,
            Err(file) => return Some(file),
        };
        let mut trees = git_config_keys::configured_worktrees(&config)
            .map(|tree| tree.is_some_and(|tree| self.is_worktree_root(tree)))
            .peekable();
        let names_root = trees.peek().is_some();
        // Git would show the files there.
        if !trees.all(|is_root| is_root) {
            return Some(self.common_dir.join("config"));
        }
        if !self.owns_worktree(names_root) {
            return Some(self.root.join(".git"));
        }
        self.find_git_dir_trap().or_else(|| self.find_submodule_trap()).or_else(|| self.find_index_trap(&config, depth))
    }

    /// Returns the whole configuration, or the file of it that would make git run programs or read files elsewhere.
    fn read_config(&self) -> Result<String, PathBuf> {
        let mut config = String::new();
        for file in [self.common_dir.join("config"), self.git_dir.join("config.worktree")] {
            let Ok(bytes) = read_bounded(&file, MAX_CONFIG_BYTES) else { return Err(file) };
            let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
            if git_config_keys::is_risky_config(&text, &self.root) {
                return Err(file);
            }
            config += &text;
            config.push('\n');
        }
        Ok(config)
    }

    fn is_worktree_root(&self, tree: &str) -> bool {
        self.git_dir.join(tree).canonicalize().is_ok_and(|tree| tree == self.root)
    }

    /// Returns true if the git directory lies in the working tree, or itself names this working tree: a pointer alone
    /// can be created by anyone and lead to any repository.
    fn owns_worktree(&self, names_root: bool) -> bool {
        let is_shared = self.common_dir != self.git_dir;
        let inside = |folder: &Path| folder.starts_with(&self.root);
        if is_shared && !inside(&self.common_dir) && !self.common_dir.starts_with(&self.git_dir) {
            return self.is_linked_worktree();
        }
        inside(&self.git_dir) || (names_root && !is_shared) || self.is_linked_worktree()
    }

    /// Returns true if the main repository lists the `.git` of this working tree.
    fn is_linked_worktree(&self) -> bool {
        let back =
            read_path_file(&self.git_dir.join("gitdir"), "", &self.git_dir).and_then(|back| back.canonicalize().ok());
        let parent = self.git_dir.parent().filter(|parent| parent.ends_with("worktrees"));
        back.is_some_and(|back| back == self.root.join(".git"))
            && parent.and_then(Path::parent).is_some_and(|main| main == self.common_dir)
    }

    /// Returns the hook or symlink of the git directory itself that is a trap.
    fn find_git_dir_trap(&self) -> Option<PathBuf> {
        // The one hook that read-only commands run: they refresh the index.
        let hook = self.common_dir.join("hooks").join("post-index-change");
        if hook.symlink_metadata().is_ok() {
            return Some(hook);
        }
        let inside = [self.git_dir.clone(), self.common_dir.clone()];
        let shared = Some(&self.common_dir).filter(|common_dir| **common_dir != self.git_dir);
        let mut folders = std::iter::once(&self.git_dir).chain(shared);
        folders.find_map(|folder| git_symlinks::find_escaping_path(folder, &inside))
    }

    /// Returns the trap in a repository that the index names, each of which has its own configuration.
    fn find_index_trap(&self, config: &str, depth: usize) -> Option<PathBuf> {
        let file = self.git_dir.join("index");
        let index = match read_bounded(&file, MAX_INDEX_BYTES) {
            Ok(index) => index.unwrap_or_default(),
            Err(()) => return Some(file),
        };
        // Part of a split index lies in another file.
        let is_shared = |entry: fs::DirEntry| entry.file_name().as_bytes().starts_with(b"sharedindex.");
        if fs::read_dir(&self.git_dir).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_shared))) {
            return Some(file);
        }
        let mut places = memmem::find_iter(&index, &REPOSITORY_MODE).peekable();
        places.peek()?;
        // Only uncompressed names can be read.
        let plain = matches!(index.get(4..8), Some([0, 0, 0, 2]));
        if !plain || depth == 0 || config.to_ascii_lowercase().contains("objectformat") {
            return Some(file);
        }
        for at in places {
            let name = index.get(at + MODE_TO_NAME..).and_then(|rest| rest.split(|byte| *byte == 0).next());
            let name = name.filter(|name| !name.is_empty()).map(OsStr::from_bytes);
            let Some(name) = name else { return Some(file) };
            let trap = match find_repository(&self.root.join(name)) {
                Some(Ok(inner)) => inner.find_trap(depth - 1),
                Some(Err(unclear)) => Some(unclear),
                None => None,
            };
            if trap.is_some() {
                return trap;
            }
        }
        None
    }
}

/// Reads the path in a file of one line, and joins it to the folder that it is relative to.
fn read_path_file(file: &Path, prefix: &str, base: &Path) -> Option<PathBuf> {
    let bytes = read_bounded(file, MAX_CONFIG_BYTES).ok()??;
    let text = std::str::from_utf8(&bytes).ok()?.trim_end_matches(['\r', '\n']);
    // Git treats whitespace as part of the path.
    let path = text.strip_prefix(prefix).filter(|path| !path.is_empty() && path.trim() == *path)?;
    Some(base.join(path))
}

/// Reads the bytes of a regular file; `None` when there is none.
fn read_bounded(file: &Path, limit: u64) -> Result<Option<Vec<u8>>, ()> {
    match file.metadata() {
        Ok(metadata) if metadata.is_file() && metadata.len() <= limit => fs::read(file).map(Some).map_err(drop),
        Ok(_) => Err(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(None),
        Err(_) => Err(()),
    }
}

#[cfg(test)]
mod tests;
