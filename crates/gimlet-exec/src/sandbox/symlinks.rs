//! Resolution of paths that commands may redirect, and of the `.git` files that name a repository. Blocking.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gimlet_fs::{FollowedLink, ResolvePolicy, ResolvedPath, read_file_nofollow};

/// Maximum bytes read from a file that contains one path.
pub(super) const PATH_FILE: u64 = 4 * 1024;

/// Resolves an absolute path, also through folders that are closed now; returns `None` for a cycle.
pub(super) fn resolve_path(path: &Path) -> Option<ResolvedPath> {
    ResolvedPath::on_disk(path, ResolvePolicy::NO_LOOPS)
}

/// Resolves the repository that a `.git` file or symlink names, with the path git takes to it; `None` if it names
/// none.
fn resolve_git_file(link: &Path) -> Option<ResolvedPath> {
    let mut own = resolve_path(link)?;
    if own.target.is_dir() {
        // It is a symlink itself, and watched as such.
        let before = own.links.len();
        own.links.retain(|on_it| on_it.link != link);
        return (own.links.len() < before).then_some(own);
    }
    // Git strips only these from the end, and resolves relative to the symlink's folder, regardless of its target.
    let bytes = read_file_nofollow(&own.target, PATH_FILE).ok()?;
    let bytes = bytes.strip_prefix(b"gitdir: ")?.split(|byte| *byte == 0).next()?;
    let len = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))? + 1;
    let named = std::ffi::OsStr::from_bytes(bytes.get(..len)?);
    let mut way = resolve_path(&link.parent()?.join(named))?;
    way.links.extend(own.links);
    if way.target.is_dir() { Some(way) } else { None }
}

/// Returns the target of a `.git` file or symlink, symlinks resolved; `None` when it leads nowhere.
pub(super) fn git_link_target(link: &Path) -> Option<PathBuf> {
    resolve_git_file(link).map(|way| way.target)
}

/// Returns that target, unless the path to it has a symlink in these folders, which a command could redirect.
pub(super) fn direct_git_target(link: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let way = resolve_git_file(link)?;
    let can_turn = |on_it: &FollowedLink| roots.iter().any(|root| on_it.link.starts_with(root));
    // Symlinks on the path to the folder itself do not come from this `.git`.
    (!way.links.iter().any(can_turn)).then_some(way.target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_git_file_leads_where_git_goes() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["real", "real ", "sub"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        let link = root.join("sub/.git");
        let target = |text: &str| {
            fs::write(&link, text).unwrap();
            git_link_target(&link)
        };
        assert_eq!(target("gitdir: ../real\r\n\n"), Some(root.join("real")));
        assert_eq!(target("gitdir: ../real \n"), Some(root.join("real ")));
        assert_eq!(target("gitdir: ../real\0/x\n"), Some(root.join("real")));
        for nothing in ["gitdir:../real\n", " gitdir: ../real", "gitdir: \n", "", "gitdir: ../absent"] {
            assert_eq!(target(nothing), None, "{nothing}");
        }
        assert_eq!(target(&format!("gitdir: ../real{}", "\n".repeat(5000))), None, "too long");
        symlink("real", root.join("turns")).unwrap();
        assert_eq!(target("gitdir: ../turns"), Some(root.join("real")));
        assert_eq!(direct_git_target(&link, std::slice::from_ref(&root)), None);
        assert_eq!(direct_git_target(&link, &[root.join("sub")]), Some(root.join("real")));
        // Git reads a file behind a symlink as if it were at the symlink's path.
        fs::rename(&link, root.join("real/file")).unwrap();
        fs::write(root.join("real/file"), "gitdir: ../real").unwrap();
        symlink("../real/file", &link).unwrap();
        assert_eq!(git_link_target(&link), Some(root.join("real")));
        assert_eq!(direct_git_target(&link, std::slice::from_ref(&root)), None);
    }
}
