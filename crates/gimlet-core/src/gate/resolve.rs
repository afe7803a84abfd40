//! What paths really are: links followed, once, for everybody.

use std::path::{Path, PathBuf};

use gimlet_proto::Need;

/// Links one behind the other that the kernel follows, too.
const MOST_HOPS: u32 = 40;

/// The path that a need is about.
pub(super) fn path_of(need: &Need) -> Option<&PathBuf> {
    match need {
        Need::Read(path) | Need::Write(path) => Some(path),
        Need::Run(_) | Need::Fetch(_) | Need::Session | Need::Opaque => None,
    }
}

/// The path with links followed; for one that does not exist, through its deepest existing ancestor. `None` when that
/// cannot be found out (a loop of links, a folder that may not be searched).
pub(super) fn follow(path: &Path) -> Option<PathBuf> {
    follow_hops(path, MOST_HOPS)
}

fn follow_hops(path: &Path, hops: u32) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    // A link that leads nowhere would be created at its target; that is not judged by its own name.
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
        let target = std::fs::read_link(path).ok()?;
        return follow_hops(&path.parent()?.join(target), hops.checked_sub(1)?);
    }
    follow_parent(path)
}

fn follow_parent(path: &Path) -> Option<PathBuf> {
    let (parent, name) = (path.parent()?, path.file_name()?);
    let parent = match parent.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if parent.symlink_metadata().is_ok() {
                return None;
            }
            follow_parent(parent)?
        }
        Err(_) => return None,
    };
    Some(parent.join(name))
}

/// Folders as spelt and as they really are.
pub(super) fn both_spellings(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::with_capacity(paths.len() * 2);
    for path in paths {
        all.push(path.clone());
        all.extend(follow(path).filter(|real| real != path));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_for_files_that_exist_and_that_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        symlink(base.join("real"), base.join("link")).unwrap();
        assert_eq!(follow(&base.join("link/new.txt")), Some(base.join("real/new.txt")));
        assert_eq!(follow(&base.join("link/a/b/new.txt")), Some(base.join("real/a/b/new.txt")));
        symlink("/elsewhere/x", base.join("dangling")).unwrap();
        assert_eq!(follow(&base.join("dangling")), Some(PathBuf::from("/elsewhere/x")));
        symlink("dangling", base.join("hop")).unwrap();
        assert_eq!(follow(&base.join("hop")), Some(PathBuf::from("/elsewhere/x")));
        symlink(base.join("loop"), base.join("loop")).unwrap();
        assert_eq!(follow(&base.join("loop")), None);
        assert_eq!(follow(&base.join("loop/inside")), None);
    }
}
