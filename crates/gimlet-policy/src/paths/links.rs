//! Following links as the kernel does, over whatever says what lies at a path: a disk, or a table in a test. Every hop is
//! kept, since a rule may name a link in the middle of a chain.

use std::path::{Component, Path, PathBuf};

use super::normalise;

/// Links one behind the other that the kernel follows, too.
const MOST_HOPS: usize = 40;

/// What lies at a path, its last name not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A link, with the target as it is written.
    Link(PathBuf),
    /// A file, a folder, or anything else that leads nowhere else.
    Plain,
    Missing,
    /// Nobody could say: a folder that may not be searched, a file in place of a folder.
    Unknown,
}

/// Where a path leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// With every link followed; for a file that does not exist yet, through its deepest existing ancestor.
    pub real: PathBuf,
    /// The path after each link in between, normalised; often empty.
    pub hops: Vec<PathBuf>,
}

impl Followed {
    /// A path that leads to itself.
    pub fn plain(path: impl Into<PathBuf>) -> Self {
        Self { real: path.into(), hops: Vec::new() }
    }
}

/// Follows an absolute path; `None` when nobody can say where it leads: a loop of links, a folder that may not be
/// searched, `..` behind what does not exist.
pub fn follow_links(path: &Path, look: &dyn Fn(&Path) -> Entry) -> Option<Followed> {
    let mut names = components(path);
    let mut real = PathBuf::from("/");
    let mut hops = Vec::new();
    let mut missing = false;
    while let Some(name) = names.pop() {
        let name = match name {
            Name::Parent if missing => return None,
            Name::Parent => {
                real.pop();
                continue;
            }
            Name::Normal(name) => name,
        };
        let next = real.join(&name);
        let entry = if missing { Entry::Missing } else { look(&next) };
        match entry {
            Entry::Plain => real = next,
            Entry::Missing => {
                missing = true;
                real = next;
            }
            Entry::Unknown => return None,
            Entry::Link(target) => {
                if hops.len() == MOST_HOPS || target.as_os_str().is_empty() {
                    return None;
                }
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                names.extend(components(&target));
                hops.push(spelled(&real, &names));
            }
        }
    }
    hops.retain(|hop| *hop != real);
    Some(Followed { real, hops })
}

enum Name {
    Parent,
    Normal(PathBuf),
}

/// The names of a path, the first one last.
fn components(path: &Path) -> Vec<Name> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(Name::Normal(name.into())),
        Component::ParentDir => Some(Name::Parent),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<Name> = names.collect();
    names.reverse();
    names
}

fn spelled(base: &Path, names: &[Name]) -> PathBuf {
    let rest: PathBuf = names
        .iter()
        .rev()
        .map(|name| match name {
            Name::Parent => Path::new(".."),
            Name::Normal(name) => name.as_path(),
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

    fn follow(path: &str) -> Option<Followed> {
        follow_links(Path::new(path), &|path| match LINKS.iter().find(|(link, _)| Path::new(link) == path) {
            Some((_, target)) => Entry::Link(target.into()),
            None if path.starts_with("/repo/none") => Entry::Missing,
            None if path.starts_with("/locked/x") => Entry::Unknown,
            None => Entry::Plain,
        })
    }

    #[test]
    fn every_hop_of_a_chain_is_told() {
        let hops = ["/repo/b/x", "/repo/c/x"].map(PathBuf::from).to_vec();
        assert_eq!(follow("/repo/a/x"), Some(Followed { real: "/srv/d/x".into(), hops }));
        assert_eq!(follow("/repo/x"), Some(Followed::plain("/repo/x")));
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
    fn loops_and_locked_folders_lead_nowhere() {
        assert_eq!(follow("/repo/loop"), None);
        assert_eq!(follow("/repo/loop/inside"), None);
        assert_eq!(follow("/locked/x/y"), None);
    }
}
