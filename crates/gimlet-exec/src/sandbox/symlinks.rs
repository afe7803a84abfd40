//! Resolution of a path: every symlink on it, and its target. Blocking.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::bounded_read::{self, PATH_FILE};

/// Maximum number of symlinks, as in the kernel.
const MAX_LINKS: usize = 40;

/// The way to a path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvedPath {
    /// The symlinks on it, by their real paths.
    pub(super) links: Vec<PathBuf>,
    /// Final target, even if it does not exist.
    pub(super) target: PathBuf,
}

impl ResolvedPath {
    /// Resolves an absolute path; returns `None` for a cycle.
    pub(super) fn resolve(path: &Path) -> Option<Self> {
        let mut way = Self::default();
        let mut ahead: VecDeque<OsString> = path.components().map(|part| part.as_os_str().to_owned()).collect();
        while let Some(name) = ahead.pop_front() {
            match Path::new(&name).components().next() {
                Some(Component::ParentDir) => drop(way.target.pop()),
                Some(Component::Normal(_)) => way.follow_component(name, &mut ahead)?,
                Some(Component::RootDir) => way.target = PathBuf::from("/"),
                Some(Component::CurDir | Component::Prefix(_)) | None => {}
            }
        }
        Some(way)
    }

    fn follow_component(&mut self, name: OsString, ahead: &mut VecDeque<OsString>) -> Option<()> {
        self.target.push(name);
        if let Ok(target) = fs::read_link(&self.target) {
            self.links.push(self.target.clone());
            if self.links.len() > MAX_LINKS {
                return None;
            }
            self.target.pop();
            // An absolute one begins again at the root, which is the first of its parts.
            for part in target.components().rev() {
                ahead.push_front(part.as_os_str().to_owned());
            }
        }
        Some(())
    }
}

/// Resolves the repository that a `.git` file or symlink names, with the path git takes to it; `None` if it names
/// none.
fn resolve_git_file(link: &Path) -> Option<ResolvedPath> {
    let mut own = ResolvedPath::resolve(link)?;
    if own.target.is_dir() {
        // It is a symlink itself, and watched as such.
        let before = own.links.len();
        own.links.retain(|on_it| on_it != link);
        return (own.links.len() < before).then_some(own);
    }
    // Git strips only these from the end, and resolves relative to the symlink's folder, regardless of its target.
    let bytes = bounded_read::read_bounded(&own.target, PATH_FILE).ok()?;
    let bytes = bytes.strip_prefix(b"gitdir: ")?.split(|byte| *byte == 0).next()?;
    let len = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))? + 1;
    let named = std::ffi::OsStr::from_bytes(bytes.get(..len)?);
    let mut way = ResolvedPath::resolve(&link.parent()?.join(named))?;
    way.links.extend(own.links);
    Some(way).filter(|way| way.target.is_dir())
}

/// Returns the target of a `.git` file or symlink, symlinks resolved; `None` when it leads nowhere.
pub(super) fn git_link_target(link: &Path) -> Option<PathBuf> {
    resolve_git_file(link).map(|way| way.target)
}

/// Returns that target, unless the path to it has a symlink in these folders, which a command could redirect.
pub(super) fn direct_git_target(link: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let way = resolve_git_file(link)?;
    let can_turn = |on_it: &PathBuf| roots.iter().any(|root| on_it.starts_with(root));
    // Symlinks on the path to the folder itself do not come from this `.git`.
    (!way.links.iter().any(can_turn)).then_some(way.target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_way_names_its_links_and_its_end_also_where_nothing_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a", root.join("one")).unwrap();
        symlink(root.join("one/b"), root.join("two")).unwrap();
        symlink("../new", root.join("a/b/three")).unwrap();
        let way = ResolvedPath::resolve(&root.join("two/./three/x")).unwrap();
        assert_eq!(way.target, root.join("a/new/x"));
        assert_eq!(way.links, ["two", "one", "a/b/three"].map(|name| root.join(name)));
        assert_eq!(ResolvedPath::resolve(&root.join("one/../y")).unwrap().target, root.join("y"));
        symlink("circle", root.join("circle")).unwrap();
        assert_eq!(ResolvedPath::resolve(&root.join("circle")), None);
    }

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
