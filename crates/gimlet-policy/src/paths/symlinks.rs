//! Symlinks of a path as rules see them: every hop is kept, since a rule may name a symlink in the middle of a chain.

use std::path::{Path, PathBuf};

use gimlet_fs::{PathStat, ResolvePolicy, ResolvedPath};

use super::normalise;

/// Target of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowedPath {
    /// The path with every symlink followed; for a file that does not exist yet, through its deepest existing
    /// ancestor.
    pub real: PathBuf,
    /// The path after each symlink in between, normalised; often empty.
    pub hops: Vec<PathBuf>,
}

impl FollowedPath {
    /// Creates the result for a path without symlinks.
    pub fn without_links(path: impl Into<PathBuf>) -> Self {
        Self { real: path.into(), hops: Vec::new() }
    }
}

/// Follows an absolute path; `None` when it cannot be resolved: a loop of symlinks, a folder that may not be searched,
/// `..` after a name that does not exist.
pub fn follow_symlinks(path: &Path, look: &dyn Fn(&Path) -> PathStat) -> Option<FollowedPath> {
    let resolved = ResolvedPath::resolve(path, ResolvePolicy::STRICT, look)?;
    let hops = resolved.links.into_iter().map(|followed| normalise(Path::new("/"), &followed.path_after));
    let hops = hops.filter(|hop| *hop != resolved.target).collect();
    Some(FollowedPath { real: resolved.target, hops })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: &[(&str, &str)] = &[
        ("/repo/a", "b"),
        ("/repo/b", "/repo/c"),
        ("/repo/c", "../srv/d"),
        ("/repo/loop", "loop"),
        ("/repo/dir", "/srv/deep/dir"),
    ];

    fn follow(path: &str) -> Option<FollowedPath> {
        follow_symlinks(Path::new(path), &|path| match LINKS.iter().find(|(link, _)| Path::new(link) == path) {
            Some((_, target)) => PathStat::Link(target.into()),
            None if path.starts_with("/repo/none") => PathStat::Missing,
            None if path.starts_with("/locked/x") => PathStat::Unknown,
            None => PathStat::Plain,
        })
    }

    #[test]
    fn every_hop_of_a_symlink_chain_is_returned() {
        let hops = ["/repo/b/x", "/repo/c/x"].map(PathBuf::from).to_vec();
        assert_eq!(follow("/repo/a/x"), Some(FollowedPath { real: "/srv/d/x".into(), hops }));
        assert_eq!(follow("/repo/x"), Some(FollowedPath::without_links("/repo/x")));
    }

    #[test]
    fn a_link_is_followed_before_the_parent_behind_it() {
        assert_eq!(follow("/repo/dir/../x").unwrap().real, Path::new("/srv/deep/x"));
    }

    #[test]
    fn what_is_missing_keeps_its_name_below_what_exists() {
        assert_eq!(follow("/repo/none/a/b").unwrap().real, Path::new("/repo/none/a/b"));
        assert_eq!(follow("/repo/none/../b"), None, "no kernel goes through what is not there");
    }

    #[test]
    fn loops_and_unreadable_folders_do_not_resolve() {
        assert_eq!(follow("/repo/loop"), None);
        assert_eq!(follow("/repo/loop/inside"), None);
        assert_eq!(follow("/locked/x/y"), None);
    }
}
