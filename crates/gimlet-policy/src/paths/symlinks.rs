//! Symlink resolution as the kernel does it, over a callback that returns the kind of a path: from a disk, or a table
//! in a test. Every hop is kept, since a rule may name a symlink in the middle of a chain.

use std::path::{Component, Path, PathBuf};

use super::normalise;

/// Limit of symlinks in a chain, as in the kernel.
const MOST_HOPS: usize = 40;

/// Kind of a path, its last name not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStat {
    /// A symlink, with its target as written.
    Link(PathBuf),
    /// A file, a folder, or anything else that is not a symlink.
    Plain,
    Missing,
    /// The kind could not be determined: a folder that may not be searched, a file in place of a folder.
    Unknown,
}

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
    let mut names = split_steps(path);
    let mut real = PathBuf::from("/");
    let mut hops = Vec::new();
    let mut missing = false;
    while let Some(name) = names.pop() {
        let name = match name {
            PathStep::Parent if missing => return None,
            PathStep::Parent => {
                real.pop();
                continue;
            }
            PathStep::Normal(name) => name,
        };
        let next = real.join(&name);
        let entry = if missing { PathStat::Missing } else { look(&next) };
        match entry {
            PathStat::Plain => real = next,
            PathStat::Missing => {
                missing = true;
                real = next;
            }
            PathStat::Unknown => return None,
            PathStat::Link(target) => {
                if hops.len() == MOST_HOPS || target.as_os_str().is_empty() {
                    return None;
                }
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                names.extend(split_steps(&target));
                hops.push(join_steps(&real, &names));
            }
        }
    }
    hops.retain(|hop| *hop != real);
    Some(FollowedPath { real, hops })
}

enum PathStep {
    Parent,
    Normal(PathBuf),
}

/// Returns the names of a path in reverse order.
fn split_steps(path: &Path) -> Vec<PathStep> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(PathStep::Normal(name.into())),
        Component::ParentDir => Some(PathStep::Parent),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<PathStep> = names.collect();
    names.reverse();
    names
}

fn join_steps(base: &Path, names: &[PathStep]) -> PathBuf {
    let rest: PathBuf = names
        .iter()
        .rev()
        .map(|name| match name {
            PathStep::Parent => Path::new(".."),
            PathStep::Normal(name) => name.as_path(),
        })
        .collect();
    normalise(base, &rest)
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
