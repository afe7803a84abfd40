//! Symlink resolution as the kernel does it, over a callback that returns the kind of a path: from a disk, or a table
//! in a test. Every symlink is kept, since a rule may name one in the middle of a chain, and a user who can replace
//! one decides what is behind it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// Limit of symlinks on a path, as in the kernel.
const MAX_LINKS: usize = 40;

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

impl PathStat {
    /// Returns the kind of a path on this machine's disk.
    pub fn read(path: &Path) -> Self {
        match path.read_link() {
            Ok(target) => Self::Link(target),
            // It exists and is not a symlink.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Self::Plain,
            Err(error) if error.kind() == ErrorKind::NotFound => Self::Missing,
            Err(_) => Self::Unknown,
        }
    }
}

/// Treatment of a part of a path that the kernel could not resolve, or that cannot be inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnresolvablePart {
    /// The whole path does not resolve.
    Fail,
    /// The name is kept as if it were no symlink, and `..` behind it removes it.
    KeepName,
}

/// Rules for resolving a path; there is no default, since the safe choice depends on what the result is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvePolicy {
    /// A symlink beyond the kernel's limit, which is how a loop ends.
    pub loops: UnresolvablePart,
    /// A part that cannot be inspected, and `..` behind a name that does not exist.
    pub unknown: UnresolvablePart,
}

impl ResolvePolicy {
    /// Resolves only what the kernel would resolve, and what can be seen: for decisions about a path.
    pub const STRICT: Self = Self { loops: UnresolvablePart::Fail, unknown: UnresolvablePart::Fail };
    /// Fails for loops only: for paths whose folders another process may close or open.
    pub const NO_LOOPS: Self = Self { loops: UnresolvablePart::Fail, unknown: UnresolvablePart::KeepName };
    /// Never fails: for collecting every name that could matter.
    pub const LENIENT: Self = Self { loops: UnresolvablePart::KeepName, unknown: UnresolvablePart::KeepName };
}

/// Symlink that was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedLink {
    /// Real path of the symlink itself.
    pub link: PathBuf,
    /// The whole path after this symlink: where it leads, and the names that were still ahead, as spelt.
    pub path_after: PathBuf,
}

/// A path with every symlink on it resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedPath {
    /// Final target, even if it does not exist.
    pub target: PathBuf,
    /// Symlinks on the way, in the order in which they were followed.
    pub links: Vec<FollowedLink>,
}

impl ResolvedPath {
    /// Resolves an absolute path; returns `None` where the policy says that it fails.
    pub fn resolve(path: &Path, policy: ResolvePolicy, stat: &dyn Fn(&Path) -> PathStat) -> Option<Self> {
        let mut resolved = Self { target: PathBuf::from("/"), links: Vec::new() };
        let mut ahead = VecDeque::new();
        push_names_in_front(&mut ahead, path);
        let mut missing = false;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                if missing && policy.unknown == UnresolvablePart::Fail {
                    return None;
                }
                resolved.target.pop();
                continue;
            }
            resolved.target.push(name);
            // Below a missing folder nothing else can be; after `..` the question is open again.
            let is_below_missing = missing && policy.unknown == UnresolvablePart::Fail;
            let entry = if is_below_missing { PathStat::Missing } else { stat(&resolved.target) };
            match entry {
                PathStat::Plain => {}
                PathStat::Missing => missing = true,
                PathStat::Unknown if policy.unknown == UnresolvablePart::Fail => return None,
                PathStat::Unknown => {}
                PathStat::Link(target) if resolved.links.len() < MAX_LINKS && !target.as_os_str().is_empty() => {
                    resolved.follow_link(&target, &mut ahead);
                }
                PathStat::Link(_) if policy.loops == UnresolvablePart::Fail => return None,
                PathStat::Link(_) => {}
            }
        }
        Some(resolved)
    }

    /// Resolves an absolute path on this machine's disk.
    pub fn on_disk(path: &Path, policy: ResolvePolicy) -> Option<Self> {
        Self::resolve(path, policy, &PathStat::read)
    }

    /// Follows the symlink that `target` names now.
    fn follow_link(&mut self, target: &Path, ahead: &mut VecDeque<OsString>) {
        let link = self.target.clone();
        self.target.pop();
        if target.is_absolute() {
            self.target = PathBuf::from("/");
        }
        push_names_in_front(ahead, target);
        // Here it still means the parent folder: there is no symlink before it.
        while ahead.pop_front_if(|name| name == "..").is_some() {
            self.target.pop();
        }
        let path_after = self.target.join(ahead.iter().collect::<PathBuf>());
        self.links.push(FollowedLink { link, path_after });
    }
}

/// Puts the names of a path before those that are ahead.
fn push_names_in_front(ahead: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => ahead.push_front(name.to_owned()),
            Component::ParentDir => ahead.push_front("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const LINKS: &[(&str, &str)] = &[
        ("/repo/a", "b"),
        ("/repo/b", "/repo/c"),
        ("/repo/c", "../srv/d"),
        ("/repo/loop", "loop"),
        ("/repo/dir", "/srv/deep/dir"),
        ("/repo/below/none", "/repo/none"),
        ("/repo/back", "../repo/dir/../x"),
    ];

    fn table(path: &Path) -> PathStat {
        match LINKS.iter().find(|(link, _)| Path::new(link) == path) {
            Some((_, target)) => PathStat::Link(target.into()),
            None if path.starts_with("/repo/none") => PathStat::Missing,
            None if path.starts_with("/locked/x") => PathStat::Unknown,
            None => PathStat::Plain,
        }
    }

    fn target(path: &str, policy: ResolvePolicy) -> Option<PathBuf> {
        ResolvedPath::resolve(Path::new(path), policy, &table).map(|resolved| resolved.target)
    }

    #[test]
    fn every_symlink_of_a_chain_is_returned_with_the_path_after_it() {
        let resolved = ResolvedPath::resolve(Path::new("/repo/a/x"), ResolvePolicy::STRICT, &table).unwrap();
        assert_eq!(resolved.target, Path::new("/srv/d/x"));
        let links: Vec<&Path> = resolved.links.iter().map(|followed| followed.link.as_path()).collect();
        assert_eq!(links, ["/repo/a", "/repo/b", "/repo/c"].map(Path::new));
        let after: Vec<&Path> = resolved.links.iter().map(|followed| followed.path_after.as_path()).collect();
        assert_eq!(after, ["/repo/b/x", "/repo/c/x", "/srv/d/x"].map(Path::new));
    }

    #[test]
    fn a_symlink_is_followed_before_the_parent_behind_it() {
        for policy in [ResolvePolicy::STRICT, ResolvePolicy::NO_LOOPS, ResolvePolicy::LENIENT] {
            assert_eq!(target("/repo/dir/../x", policy), Some("/srv/deep/x".into()));
            assert_eq!(target("/../repo/./x", policy), Some("/repo/x".into()));
            let back = ResolvedPath::resolve(Path::new("/repo/back"), policy, &table).unwrap();
            assert_eq!(back.target, Path::new("/srv/deep/x"));
            assert_eq!(back.links[0].path_after, Path::new("/repo/dir/../x"), "the names ahead stay as spelt");
        }
    }

    #[test]
    fn the_policy_decides_about_loops() {
        for path in ["/repo/loop", "/repo/loop/inside"] {
            assert_eq!(target(path, ResolvePolicy::STRICT), None);
            assert_eq!(target(path, ResolvePolicy::NO_LOOPS), None);
            assert_eq!(target(path, ResolvePolicy::LENIENT), Some(path.into()));
        }
        let kept = ResolvedPath::resolve(Path::new("/repo/loop"), ResolvePolicy::LENIENT, &table).unwrap();
        assert_eq!(kept.links.len(), MAX_LINKS);
    }

    #[test]
    fn forty_symlinks_are_followed_and_one_more_is_a_loop() {
        let chain = |path: &Path| {
            let number = path.file_name().and_then(|name| name.to_str()?.parse::<usize>().ok());
            match number {
                Some(number) if number > 0 => PathStat::Link((number - 1).to_string().into()),
                _ => PathStat::Plain,
            }
        };
        let resolve = |path: &str| ResolvedPath::resolve(Path::new(path), ResolvePolicy::NO_LOOPS, &chain);
        assert_eq!(resolve("/40").unwrap().target, Path::new("/0"));
        assert_eq!(resolve("/41"), None);
    }

    #[test]
    fn the_policy_decides_about_what_is_missing_or_cannot_be_inspected() {
        for policy in [ResolvePolicy::STRICT, ResolvePolicy::NO_LOOPS, ResolvePolicy::LENIENT] {
            assert_eq!(target("/repo/none/a/b", policy), Some("/repo/none/a/b".into()));
        }
        for (path, kept) in [("/repo/none/../b/x", "/srv/d/x"), ("/locked/x/y", "/locked/x/y")] {
            assert_eq!(target(path, ResolvePolicy::STRICT), None, "no kernel goes through what is not there");
            assert_eq!(target(path, ResolvePolicy::NO_LOOPS), Some(kept.into()));
            assert_eq!(target(path, ResolvePolicy::LENIENT), Some(kept.into()));
        }
    }

    #[test]
    fn a_path_on_disk_has_its_links_and_its_target_also_where_nothing_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a", root.join("one")).unwrap();
        symlink(root.join("one/b"), root.join("two")).unwrap();
        symlink("../new", root.join("a/b/three")).unwrap();
        let resolve = |name: &str| ResolvedPath::on_disk(&root.join(name), ResolvePolicy::NO_LOOPS);
        let resolved = resolve("two/./three/x").unwrap();
        assert_eq!(resolved.target, root.join("a/new/x"));
        let links: Vec<PathBuf> = resolved.links.into_iter().map(|followed| followed.link).collect();
        assert_eq!(links, ["two", "one", "a/b/three"].map(|name| root.join(name)));
        assert_eq!(resolve("one/../y").unwrap().target, root.join("y"));
        symlink("circle", root.join("circle")).unwrap();
        assert_eq!(resolve("circle"), None);
        fs::write(root.join("file"), "").unwrap();
        assert_eq!(PathStat::read(&root.join("file")), PathStat::Plain);
        assert_eq!(PathStat::read(&root.join("absent")), PathStat::Missing);
        assert_eq!(PathStat::read(&root.join("file/below")), PathStat::Unknown);
    }
}
