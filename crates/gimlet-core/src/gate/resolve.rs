//! What paths really are: links followed, once, for everybody.

use std::io::ErrorKind;
use std::path::Path;

use gimlet_policy::{Entry, Followed, follow_links};

/// Where the path leads once links are followed; for one that does not exist, through its deepest existing ancestor.
/// `None` when that cannot be found out (a loop of links, a folder that may not be searched).
pub fn follow_on_disk(path: &Path) -> Option<Followed> {
    follow_links(path, &look)
}

fn look(path: &Path) -> Entry {
    match std::fs::read_link(path) {
        Ok(target) => Entry::Link(target),
        // It is there and is no link.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Entry::Plain,
        Err(error) if error.kind() == ErrorKind::NotFound => Entry::Missing,
        Err(_) => Entry::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn real(path: &Path) -> Option<PathBuf> {
        follow_on_disk(path).map(|followed| followed.real)
    }

    #[test]
    fn links_are_followed_for_files_that_exist_and_that_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        symlink(base.join("real"), base.join("link")).unwrap();
        assert_eq!(real(&base.join("link/new.txt")), Some(base.join("real/new.txt")));
        assert_eq!(real(&base.join("link/a/b/new.txt")), Some(base.join("real/a/b/new.txt")));
        symlink("/elsewhere/x", base.join("dangling")).unwrap();
        assert_eq!(real(&base.join("dangling")), Some(PathBuf::from("/elsewhere/x")));
        symlink("dangling", base.join("hop")).unwrap();
        assert_eq!(follow_on_disk(&base.join("hop")).unwrap().hops, [base.join("dangling")]);
        assert_eq!(real(&base.join("hop")), Some(PathBuf::from("/elsewhere/x")));
        symlink(base.join("loop"), base.join("loop")).unwrap();
        assert_eq!(real(&base.join("loop")), None);
        assert_eq!(real(&base.join("loop/inside")), None);
    }
}
