//! Whether git, started somewhere, would run programs that the repository itself names: its configuration can have it run
//! a monitor, a filter or a hook whenever somebody only looks at the status. Git is not asked, its files are read; what
//! is not understood counts as a trap. The person's own configuration is theirs and is not looked at.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memchr::memmem;

/// Larger files of git's are not read.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;
const MAX_INDEX_BYTES: u64 = 256 * 1024 * 1024;
/// Repositories inside repositories.
const MAX_DEPTH: usize = 4;

/// Keys, of whatever section, by which looking subcommands run a program or fetch from a place that names one.
const RUNNING: &[&str] = &[
    "alternaterefscommand",
    "clean",
    "command",
    "driver",
    "external",
    "fsmonitor",
    "gitproxy",
    "hookspath",
    "partialclone",
    "partialclonefilter",
    "process",
    "program",
    "promisor",
    "smudge",
    "sshcommand",
    "textconv",
    "uploadpack",
];

/// The mode of an entry that is a repository of its own, as an index has it.
const REPOSITORY_MODE: [u8; 4] = [0, 0, 0xe0, 0];
/// From the mode of an entry to its name, with object ids of 20 bytes.
const MODE_TO_NAME: usize = 38;

/// The file by which git, started in this folder, would run what the repository names.
pub(super) fn git_trap_on_disk(cwd: &Path) -> Option<PathBuf> {
    cwd.ancestors().find_map(Repository::at).and_then(|repository| repository.trap(MAX_DEPTH))
}

struct Repository {
    /// The top of the working tree.
    root: PathBuf,
    git_dir: PathBuf,
    /// What linked worktrees share.
    common_dir: PathBuf,
    /// Its `.git` could not be read.
    unclear: bool,
}

impl Repository {
    fn at(folder: &Path) -> Option<Self> {
        let dot_git = folder.join(".git");
        let has = |name: &str| folder.join(name).exists();
        let bare = || has("HEAD") && ((has("objects") && has("refs")) || has("commondir"));
        let (git_dir, unclear) = match dot_git.metadata() {
            // Without a head git goes on looking elsewhere.
            Ok(metadata) if metadata.is_dir() => (dot_git.clone(), !dot_git.join("HEAD").exists()),
            Ok(_) => match pointer(&dot_git, "gitdir: ", folder) {
                Some(git_dir) => (git_dir, false),
                None => (dot_git, true),
            },
            Err(_) if bare() => (folder.to_owned(), false),
            Err(_) => return None,
        };
        let shared = git_dir.join("commondir");
        let (common_dir, odd) = match pointer(&shared, "", &git_dir) {
            Some(common_dir) => (common_dir, false),
            None => (git_dir.clone(), shared.symlink_metadata().is_ok()),
        };
        Some(Self { root: folder.to_owned(), git_dir, common_dir, unclear: unclear || odd })
    }

    fn trap(&self, depth: usize) -> Option<PathBuf> {
        if self.unclear {
            return Some(self.root.join(".git"));
        }
        let mut text = String::new();
        for file in [self.common_dir.join("config"), self.git_dir.join("config.worktree")] {
            match read(&file, MAX_CONFIG_BYTES) {
                Ok(Some(bytes)) => {
                    let written = String::from_utf8_lossy(&bytes);
                    let config = written.to_ascii_lowercase();
                    if runs_programs(&config) || self.works_elsewhere(&written) {
                        return Some(file);
                    }
                    text += &config;
                }
                Ok(None) => {}
                Err(()) => return Some(file),
            }
        }
        // The one hook that looking sets off: the index is refreshed on the way.
        let hook = self.common_dir.join("hooks").join("post-index-change");
        if hook.symlink_metadata().is_ok() {
            return Some(hook);
        }
        self.trap_inside(&text, depth)
    }

    /// Whether a configuration puts the working tree anywhere but where the repository was found: git would show what
    /// lies there. A submodule's says where it is.
    fn works_elsewhere(&self, config: &str) -> bool {
        let is_root = |value: &str| {
            let place = self.git_dir.join(value).canonicalize();
            place.is_ok_and(|place| self.root.canonicalize().is_ok_and(|root| root == place))
        };
        let mut lines = config.lines().filter(|line| has_key(&line.to_ascii_lowercase(), "worktree"));
        lines.any(|line| {
            let value = line.split_once('=').filter(|(key, _)| key.trim().eq_ignore_ascii_case("worktree"));
            let plain = value.map(|(_, value)| value.trim()).filter(|value| !value.contains(['"', '\\', '#', ';']));
            !plain.is_some_and(is_root)
        })
    }

    /// Git looks into repositories that the index names, each with a configuration of its own.
    fn trap_inside(&self, config: &str, depth: usize) -> Option<PathBuf> {
        let file = self.git_dir.join("index");
        let index = match read(&file, MAX_INDEX_BYTES) {
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
        // Only plain names can be followed.
        let plain = matches!(index.get(4..8), Some([0, 0, 0, 2]));
        if !plain || depth == 0 || config.contains("objectformat") {
            return Some(file);
        }
        for at in places {
            let name = index.get(at + MODE_TO_NAME..).and_then(|rest| rest.split(|byte| *byte == 0).next());
            let name = name.filter(|name| !name.is_empty()).map(OsStr::from_bytes);
            let Some(name) = name else { return Some(file) };
            let trap = Self::at(&self.root.join(name)).and_then(|inner| inner.trap(depth - 1));
            if trap.is_some() {
                return trap;
            }
        }
        None
    }
}

/// The path in a file of one line, from the folder that it is relative to.
fn pointer(file: &Path, prefix: &str, base: &Path) -> Option<PathBuf> {
    let bytes = read(file, MAX_CONFIG_BYTES).ok()??;
    let text = std::str::from_utf8(&bytes).ok()?.trim_end_matches(['\r', '\n']);
    // Git takes blanks for a part of the path.
    let path = text.strip_prefix(prefix).filter(|path| !path.is_empty() && path.trim() == *path)?;
    Some(base.join(path))
}

/// The bytes of a regular file; nothing when there is none.
fn read(file: &Path, limit: u64) -> Result<Option<Vec<u8>>, ()> {
    match file.metadata() {
        Ok(metadata) if metadata.is_file() && metadata.len() <= limit => fs::read(file).map(Some).map_err(drop),
        Ok(_) => Err(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(None),
        Err(_) => Err(()),
    }
}

/// Whether a configuration in small letters names a program or another file. Sees such a key also where git would not.
fn runs_programs(config: &str) -> bool {
    config.contains("[include") || config.contains("ext::") || RUNNING.iter().any(|key| has_key(config, key))
}

fn has_key(config: &str, key: &str) -> bool {
    config.lines().any(|line| {
        line.match_indices(key).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + key.len()..].trim_start().chars().next();
            let begins = before.is_none_or(|c| c.is_whitespace() || matches!(c, ']' | '\u{feff}'));
            begins && after.is_none_or(|c| matches!(c, '=' | '#' | ';'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, content: impl AsRef<[u8]>) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// What would run in a repository with this configuration.
    fn trapped(config: &str) -> bool {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), ".git/HEAD", "ref: refs/heads/main\n");
        put(folder.path(), ".git/config", config);
        fs::create_dir_all(folder.path().join("sub")).unwrap();
        git_trap_on_disk(&folder.path().join("sub")).is_some()
    }

    #[test]
    fn configurations_that_name_programs_are_traps_in_every_spelling() {
        for plain in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
            "[remote \"origin\"]\n\turl = https://example.org/clean.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[user]\n\tname = external commands\n[pull]\n\trebase = true\n[credential]\n\thelper = store\n",
            "[core]\n\tworktree = ..\n",
            "[difftool \"x\"]\n\tcmd = x\n[branch \"clean\"]\n\tmerge = refs/heads/clean\n",
        ] {
            assert!(!trapped(plain), "{plain}");
        }
        for trap in [
            "[core]\n\tfsmonitor = evil\n",
            "[core] fsmonitor=evil",
            "[CORE]FSMonitor=evil",
            "[a][core] fsmonitor = evil",
            "[core]\r\n\tfsmonitor\t=\tevil\r\n",
            "\u{feff}[core]\nhooksPath = evil",
            "[core]\n\tbare = false \\\n\tfsmonitor = evil\n",
            "[diff]\n\texternal = evil",
            "[diff \"a]b\"] textconv = evil",
            "[diff \"x\"]\n\tcommand = evil",
            "[filter \"x\"]\n\tclean = evil\n\tprocess = evil",
            "[include]\n\tpath = evil",
            "[includeIf \"gitdir:/\"]\n\tpath = evil",
            "[remote \"origin\"]\n\tpromisor = true\n\turl = ext::evil",
            "[gpg]\n\tprogram = evil",
            "[remote \"origin\"]\n\turl = https://example.org/x\n\tpartialCloneFilter = blob:none",
            "[merge \"x\"]\n\tdriver = evil %A",
            "[core]\n\tworktree = /elsewhere",
            "[core] workTree = ../../",
            "[core]\nworktree = \"..\"",
            "[core]\nworktree",
        ] {
            assert!(trapped(trap), "{trap}");
        }
    }

    #[test]
    fn hooks_pointers_bare_folders_and_repositories_inside_are_looked_at_too() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        assert_eq!(git_trap_on_disk(root), None);
        put(root, "hooked/.git/hooks/post-index-change", "");
        assert!(git_trap_on_disk(&root.join("hooked")).is_some());
        put(root, "linked/.git", "gitdir: ../main/.git/worktrees/linked\n");
        put(root, "main/.git/worktrees/linked/commondir", "../..\n");
        put(root, "main/.git/config", "[core]\nfsmonitor = evil\n");
        assert!(git_trap_on_disk(&root.join("linked")).is_some());
        put(root, "odd/.git", "who knows");
        assert!(git_trap_on_disk(&root.join("odd")).is_some());
        put(root, "blank/.git", "gitdir:  ../main/.git\n");
        assert!(git_trap_on_disk(&root.join("blank")).is_some(), "git takes the second blank for a part of the name");
        fs::create_dir_all(root.join("empty/.git")).unwrap();
        assert!(git_trap_on_disk(&root.join("empty")).is_some(), "git looks further where there is no head");
        put(root, "shared/HEAD", "ref: refs/heads/main\n");
        put(root, "shared/commondir", "c\n");
        put(root, "shared/c/config", "[core]\nfsmonitor = evil\n");
        assert!(git_trap_on_disk(&root.join("shared")).is_some(), "a repository with a common folder elsewhere");
        put(root, "bare/HEAD", "ref: refs/heads/main\n");
        put(root, "bare/config", "[core]\nfsmonitor = evil\n");
        assert_eq!(git_trap_on_disk(&root.join("bare")), None, "this is no repository yet");
        fs::create_dir_all(root.join("bare/objects")).unwrap();
        fs::create_dir_all(root.join("bare/refs")).unwrap();
        assert!(git_trap_on_disk(&root.join("bare")).is_some());

        let index = |name: &str| {
            let mut index = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
            index.extend([1; 24]);
            index.extend(REPOSITORY_MODE);
            index.extend([1; MODE_TO_NAME - 4]);
            index.extend(name.as_bytes());
            index.extend([0; 8]);
            index
        };
        put(root, "outer/.git/HEAD", "ref: refs/heads/main\n");
        put(root, "outer/.git/index", index("inner"));
        assert_eq!(git_trap_on_disk(&root.join("outer")), None, "the inner one is not there");
        put(root, "outer/inner/.git/HEAD", "ref: refs/heads/main\n");
        put(root, "outer/inner/.git/config", "[core]\nbare = false\n");
        assert_eq!(git_trap_on_disk(&root.join("outer")), None);
        put(root, "outer/inner/.git/config", "[core]\nfsmonitor = evil\n");
        assert!(git_trap_on_disk(&root.join("outer")).is_some());
        // As git lays out a submodule.
        fs::remove_dir_all(root.join("outer/inner/.git")).unwrap();
        put(root, "outer/inner/.git", "gitdir: ../.git/modules/inner\n");
        put(root, "outer/.git/modules/inner/HEAD", "ref: refs/heads/main\n");
        put(root, "outer/.git/modules/inner/config", "[core]\n\tbare = false\n\tworktree = ../../../inner\n");
        assert_eq!(git_trap_on_disk(&root.join("outer")), None);
        assert_eq!(git_trap_on_disk(&root.join("outer/inner")), None);
        put(root, "outer/.git/modules/inner/config", "[core]\n\tworktree = ../../../..\n");
        assert!(git_trap_on_disk(&root.join("outer")).is_some());
    }
}
