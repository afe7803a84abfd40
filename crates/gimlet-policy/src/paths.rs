//! Paths as the rules see them: lexical normalisation, segment-wise containment, the protected list and gitignore-like
//! patterns. Nothing here touches a file system, and no path is ever compared by string prefix.

mod file_table;
mod file_view;
mod glob_path;
pub(crate) mod lossy;
mod path_pattern;
mod pattern_escape;
mod symlinks;

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use gimlet_proto::PROTECTED_NAMES;

use crate::rules::matches_wildcard;
pub use file_table::FileTable;
pub(crate) use file_view::LinkFreeView;
pub use file_view::{DirListing, FileView, ListedEntry, ListedKind};
pub(crate) use glob_path::{GlobPath, GlobPathBuilder, GlobSegment};
pub(crate) use path_pattern::{AnchorDirs, MatchStrictness, PathPattern, PathPatternError, path_names};
pub use pattern_escape::pattern_for_path;
pub use symlinks::{FollowedPath, follow_symlinks};

/// Limit of Linux for a path, in bytes.
const LONGEST_PATH: usize = 4096;

/// Returns true if a folder or a file of this name, in any case, is protected.
fn is_protected_name(name: &OsStr, is_folder: bool) -> bool {
    PROTECTED_NAMES
        .iter()
        .any(|protected| protected.is_folder == is_folder && name.eq_ignore_ascii_case(protected.name))
}

/// Joins `path` to `base` and removes `.`, `..` and repeated slashes without reading the disk.
pub fn normalise(base: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in base.join(path).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// Returns true if a write to this normalised path needs the user unless the mode lifts the question.
pub fn is_protected(path: &Path) -> bool {
    // Every protected name has a dot in it, and most words of a command have none.
    if !path.as_os_str().as_encoded_bytes().contains(&b'.') {
        return false;
    }
    let mut names = path_segments(path).peekable();
    let mut before: Option<&OsStr> = None;
    while let Some(name) = names.next() {
        let is = |name: &OsStr, wanted: &str| name.eq_ignore_ascii_case(wanted);
        let protected = if is(name, ".claude") {
            // A worktree below the configuration folder is ordinary work.
            let mut rest = names.clone();
            !(rest.next().is_some_and(|next| is(next, "worktrees")) && rest.next().is_some())
        } else if is(name, "git") {
            before.is_some_and(|before| is(before, ".config"))
        } else {
            is_protected_name(name, true)
        };
        if protected || (names.peek().is_none() && is_protected_name(name, false)) {
            return true;
        }
        before = Some(name);
    }
    false
}

/// Returns true if a path with unknown parts (`*`) could become a protected one. A `*` matches no leading dot, as in a
/// shell.
pub(crate) fn may_become_protected(text: &str) -> bool {
    let names = || PROTECTED_NAMES.iter().map(|protected| protected.name).chain([".config"]);
    let may_be = |segment: &str, name: &str| {
        (!segment.starts_with('*') || !name.starts_with('.')) && matches_wildcard(segment, name)
    };
    let lower = text.to_ascii_lowercase();
    lower.split('/').filter(|segment| segment.contains('*')).any(|segment| names().any(|name| may_be(segment, name)))
        || is_protected(&normalise(Path::new("/"), Path::new(&lower)))
}

/// Returns true if a path's text can mean something other than what it shows.
pub(crate) fn is_malformed(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let Some(text) = path.to_str() else {
        return bytes.len() > LONGEST_PATH || bytes.iter().any(|byte| *byte < 0x20 || *byte == 0x7f);
    };
    bytes.is_empty() || bytes.len() > LONGEST_PATH || text.chars().any(char::is_control) || is_process_alias(path)
}

/// Returns true for `/proc/…/root`, `cwd` and `fd`, which lead to any other path without showing it.
pub(crate) fn is_process_alias(path: &Path) -> bool {
    let mut names = path_segments(path);
    let alias = [OsStr::new("root"), OsStr::new("cwd"), OsStr::new("fd"), OsStr::new("exe"), OsStr::new("map_files")];
    match names.next().and_then(OsStr::to_str) {
        Some("proc") => names.any(|name| alias.contains(&name)),
        Some("dev") => names.next().is_some_and(|name| name == "fd"),
        _ => false,
    }
}

/// Returns true if the normalised `path` is `root` or below it.
pub(crate) fn is_inside(path: &Path, root: &Path) -> bool {
    // `Path::starts_with` compares whole segments.
    path.starts_with(root)
}

/// Names below the home directory that hold credentials.
const SECRETS_AT_HOME: &[&str] = &[".ssh", ".aws", ".gnupg", ".kube", ".netrc"];
const SHADOW: &str = "/etc/shadow";
/// Name of the file with gimlet's own stored keys, wherever the configuration folder is.
const STORED_KEYS: &str = "gimlet-credentials.json";
/// Folder below the home directory that usually has that file.
const CONFIG_AT_HOME: &str = ".claude/gimlet";

/// Returns true if reading the path reveals credentials, independent of the working directories.
pub(crate) fn is_credential_path(path: &Path, home: Option<&Path>) -> bool {
    let in_home = home.and_then(|home| path.strip_prefix(home).ok()).and_then(|rest| path_segments(rest).next());
    let mut names = path_segments(path);
    let environment = names.next().is_some_and(|name| name == "proc") && names.any(|name| name == "environ");
    in_home.is_some_and(|name| SECRETS_AT_HOME.iter().any(|secret| name == *secret))
        || environment
        || path == Path::new(SHADOW)
        || path.file_name().is_some_and(|name| name == STORED_KEYS)
}

/// Returns true if credentials lie below this directory, as far as their places are known.
pub(crate) fn contains_credentials(directory: &Path, home: Option<&Path>) -> bool {
    let processes = Path::new("/proc");
    home.is_some_and(|home| is_inside(&home.join(CONFIG_AT_HOME), directory))
        || is_inside(Path::new(SHADOW), directory)
        || is_inside(processes, directory)
        || is_inside(directory, processes)
        || is_credential_path(directory, home)
}

pub(crate) fn path_segments(path: &Path) -> impl Iterator<Item = &OsStr> + Clone {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalising_never_climbs_above_the_root() {
        let clean = |path: &str| normalise(Path::new("/repo"), Path::new(path));
        assert_eq!(clean("a/../../../../etc"), Path::new("/etc"));
        assert_eq!(clean("/repo//./x/"), Path::new("/repo/x"));
        assert_eq!(clean(""), Path::new("/repo"));
    }

    #[test]
    fn protection_ignores_case_and_spares_worktrees() {
        assert!(is_protected(Path::new("/repo/.GIT/config")));
        assert!(is_protected(Path::new("/repo/.config/git/ignore")));
        assert!(is_protected(Path::new("/repo/.claude/worktrees")));
        assert!(!is_protected(Path::new("/repo/.claude/worktrees/a/src/x.rs")));
        assert!(is_protected(Path::new("/repo/.claude/worktrees/a/.git/config")));
        assert!(!is_protected(Path::new("/repo/.github/workflows/ci.yml")));
    }

    #[test]
    fn every_protected_name_has_a_dot() {
        assert!(PROTECTED_NAMES.iter().all(|protected| protected.name.contains('.')));
    }

    #[test]
    fn credentials_are_known_by_their_places_and_from_above() {
        let home = Some(Path::new("/home/ada"));
        let own = "/home/ada/.claude/gimlet/gimlet-credentials.json";
        for path in ["/home/ada/.ssh", "/home/ada/.ssh/id", "/home/ada/.netrc", "/etc/shadow", "/proc/1/environ", own] {
            assert!(is_credential_path(Path::new(path), home), "{path}");
            assert!(contains_credentials(Path::new(path), home), "{path}");
        }
        for path in ["/", "/home", "/home/ada", "/home/ada/.claude", "/etc", "/proc", "/proc/1"] {
            assert!(
                contains_credentials(Path::new(path), home) && !is_credential_path(Path::new(path), home),
                "{path}"
            );
        }
        for path in ["/home/ada/repo", "/home/ada/repo/.ssh", "/home/eve", "/etc/shadow.d"] {
            assert!(!contains_credentials(Path::new(path), home), "{path}");
        }
    }

    #[test]
    fn process_relative_aliases_are_odd() {
        assert!(is_malformed(Path::new("/proc/self/root/etc/passwd")));
        assert!(is_malformed(Path::new("/proc/1/cwd/x")));
        assert!(is_malformed(Path::new("/dev/fd/3")));
        assert!(!is_malformed(Path::new("/repo/proc/self/root")));
    }
}
