//! What mounts cannot hold: protected files that are not there yet, links, and everything where there are no mounts.
//!
//! Before a command it is noted how they are, after it they are put back, and what the command made of them is moved to
//! where nobody runs it. Blocking; small: only the protected paths themselves are looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use gimlet_proto::{SandboxSpec, Violation};

use super::defaults::{is_bare, protected_in, repositories_in};
use super::gitconfig::is_harmless;
use super::probe::{Available, Layer};

/// The most that is kept of one protected place. A larger one is checked by its stamps and cannot be put back.
const MAX_KEPT_BYTES: u64 = 4 << 20;

/// How protected paths were before a command.
#[derive(Debug)]
pub struct Guard {
    watched: Vec<Watched>,
    /// Writable folders that were no bare repositories.
    plain_folders: Vec<PathBuf>,
    /// Writable folders, whose repositories are looked for again afterwards.
    roots: Vec<PathBuf>,
    /// The repositories that were there.
    repositories: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct Watched {
    /// The writable folder that it lies in.
    root: PathBuf,
    path: PathBuf,
    before: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Absent,
    Link(PathBuf),
    Tree(BTreeMap<PathBuf, Node>),
    /// Too large to keep: the time of the last change, which nobody can set.
    Stamp(i64, i64, u64),
}

#[derive(Debug, PartialEq, Eq)]
enum Node {
    Folder,
    Link(PathBuf),
    File { bytes: Vec<u8>, mode: u32 },
}

impl Guard {
    /// Notes how the protected paths of a spec are. Mounts hold those that are there; without mounts all are noted.
    pub fn before(spec: &SandboxSpec, available: &Available) -> Self {
        let held_by_mounts = available.layers().contains(&Layer::Mounts);
        let watch = |path: &PathBuf| {
            let root = spec.write.iter().find(|root| path.starts_with(root) && path != *root)?;
            let before = State::of(path);
            let is_held = held_by_mounts && matches!(before, State::Tree(_) | State::Stamp(..));
            (!is_held).then(|| Watched { root: root.clone(), path: path.clone(), before })
        };
        let plain_folders = spec.write.iter().filter(|root| !is_bare(root)).cloned().collect();
        let roots = spec.write.clone();
        let repositories = roots.iter().flat_map(|root| repositories_in(root)).collect();
        Self { watched: spec.deny_write.iter().filter_map(watch).collect(), plain_folders, roots, repositories }
    }

    /// Puts back what changed. What the command made is moved into `quarantine`.
    pub fn after(self, quarantine: &Path) -> Vec<Violation> {
        let mut found = Vec::new();
        for Watched { root, path, before } in &self.watched {
            if let Some(link) = new_link_on_the_way(root, path).filter(|_| *before == State::Absent) {
                found.extend(take_away(&link, quarantine));
            } else if State::of(path) != *before && !(*before == State::Absent && is_harmless(path)) {
                found.extend(take_away(path, quarantine));
                // What cannot be put back was at least moved away and is reported.
                drop(before.restore(path));
            }
        }
        for repository in self.roots.iter().flat_map(|root| repositories_in(root)) {
            if !self.repositories.contains(&repository) {
                let risky = protected_in(&repository).into_iter().filter(|path| !is_harmless(path));
                found.extend(risky.filter_map(|path| take_away(&path, quarantine)));
            }
        }
        for folder in self.plain_folders.iter().filter(|folder| is_bare(folder)) {
            found.extend(take_away(&folder.join("HEAD"), quarantine));
        }
        found
    }
}

/// A link among the folders between a root and a path: what lies behind it is not this command's.
fn new_link_on_the_way(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut way: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| *dir != root).collect();
    way.reverse();
    way.into_iter().find(|dir| dir.is_symlink()).map(Path::to_owned)
}

/// Moves something away under a new name; nothing when it is not there.
fn take_away(path: &Path, quarantine: &Path) -> Option<Violation> {
    fs::symlink_metadata(path).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    fs::create_dir_all(quarantine).ok()?;
    let moved_to =
        (0..10_000).map(|n| quarantine.join(format!("{name}.{n}"))).find(|to| fs::symlink_metadata(to).is_err())?;
    if fs::rename(path, &moved_to).is_err() {
        // Another file system. Its content is kept if that is possible; it does not stay in any case.
        drop(State::of(path).restore(&moved_to));
        drop(remove(path));
    }
    Some(Violation::Tampered { path: path.to_owned(), moved_to })
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

impl State {
    fn of(path: &Path) -> Self {
        let Ok(metadata) = fs::symlink_metadata(path) else { return Self::Absent };
        if let Ok(target) = fs::read_link(path) {
            return Self::Link(target);
        }
        let mut nodes = BTreeMap::new();
        let mut left = MAX_KEPT_BYTES;
        match collect(path, Path::new(""), &mut nodes, &mut left) {
            Ok(()) => Self::Tree(nodes),
            Err(_) => Self::Stamp(metadata.ctime(), metadata.ctime_nsec(), metadata.ino()),
        }
    }

    fn restore(&self, path: &Path) -> io::Result<()> {
        if let (Self::Link(_) | Self::Tree(_), Some(parent)) = (self, path.parent()) {
            fs::create_dir_all(parent)?;
        }
        match self {
            Self::Absent | Self::Stamp(..) => Ok(()),
            Self::Link(target) => symlink(target, path),
            Self::Tree(nodes) => nodes.iter().try_for_each(|(name, node)| {
                let path = if name.as_os_str().is_empty() { path.to_owned() } else { path.join(name) };
                match node {
                    Node::Folder => fs::create_dir(&path),
                    Node::Link(target) => symlink(target, &path),
                    Node::File { bytes, mode } => {
                        fs::write(&path, bytes)?;
                        fs::set_permissions(&path, fs::Permissions::from_mode(*mode))
                    }
                }
            }),
        }
    }
}

/// Everything at and below a path, as long as it is small.
fn collect(root: &Path, name: &Path, nodes: &mut BTreeMap<PathBuf, Node>, left: &mut u64) -> io::Result<()> {
    let path = if name.as_os_str().is_empty() { root.to_owned() } else { root.join(name) };
    let metadata = fs::symlink_metadata(&path)?;
    let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
    // An entry costs something too.
    *left = left.checked_sub(64 + if metadata.is_file() { metadata.len() } else { 0 }).ok_or_else(too_large)?;
    let node = if metadata.is_symlink() {
        Node::Link(fs::read_link(&path)?)
    } else if metadata.is_dir() {
        Node::Folder
    } else if metadata.is_file() {
        Node::File { bytes: fs::read(&path)?, mode: metadata.mode() & 0o7777 }
    } else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let is_folder = node == Node::Folder;
    nodes.insert(name.to_owned(), node);
    if is_folder {
        for entry in fs::read_dir(&path)? {
            collect(root, &name.join(entry?.file_name()), nodes, left)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::probe::Backend;

    fn available(backend: Backend) -> Available {
        Available { backend, landlock_abi: 7, notes: Vec::new() }
    }

    struct World {
        _dir: tempfile::TempDir,
        root: PathBuf,
        outside: PathBuf,
        quarantine: PathBuf,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let base = dir.path().canonicalize().unwrap();
            let world = Self { root: base.join("w"), outside: base.join("o"), quarantine: base.join("q"), _dir: dir };
            fs::create_dir_all(world.root.join(".git/hooks")).unwrap();
            fs::create_dir_all(&world.outside).unwrap();
            world
        }

        fn spec(&self, protected: &[&str]) -> SandboxSpec {
            let deny_write = protected.iter().map(|name| self.root.join(name)).collect();
            SandboxSpec { write: vec![self.root.clone()], deny_write, ..SandboxSpec::default() }
        }
    }

    #[test]
    fn a_new_protected_file_is_moved_away_and_its_neighbours_stay() {
        let world = World::new();
        let spec = world.spec(&[".mcp.json", ".claude/settings.json"]);
        let guard = Guard::before(&spec, &available(Backend::Namespaces));
        fs::create_dir(world.root.join(".claude")).unwrap();
        for name in [".mcp.json", ".claude/settings.json", ".claude/notes.md"] {
            fs::write(world.root.join(name), "x").unwrap();
        }
        let found = guard.after(&world.quarantine);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(!world.root.join(".mcp.json").exists() && world.root.join(".claude/notes.md").exists());
        assert_eq!(fs::read_to_string(world.quarantine.join(".mcp.json.0")).unwrap(), "x");
    }

    #[test]
    fn without_mounts_changed_files_are_put_back() {
        let world = World::new();
        let hook = world.root.join(".git/hooks/pre-commit");
        fs::write(&hook, "old").unwrap();
        let guard = Guard::before(&world.spec(&[".git/hooks"]), &available(Backend::Landlock));
        fs::rename(world.root.join(".git"), world.root.join("git")).unwrap();
        fs::create_dir_all(world.root.join(".git/hooks")).unwrap();
        fs::write(&hook, "evil").unwrap();
        assert_eq!(guard.after(&world.quarantine).len(), 1);
        assert_eq!(fs::read_to_string(&hook).unwrap(), "old");
    }

    #[test]
    fn a_planted_link_is_taken_and_what_it_leads_to_is_left() {
        let world = World::new();
        let settings = world.outside.join("settings.json");
        fs::write(&settings, "the user's").unwrap();
        let guard = Guard::before(&world.spec(&[".claude/settings.json"]), &available(Backend::Namespaces));
        symlink(&world.outside, world.root.join(".claude")).unwrap();
        assert_eq!(guard.after(&world.quarantine).len(), 1);
        assert!(settings.exists() && !world.root.join(".claude").exists());
    }

    #[test]
    fn a_folder_that_becomes_a_bare_repository_stops_being_one() {
        let world = World::new();
        let guard = Guard::before(&world.spec(&[]), &available(Backend::Namespaces));
        for name in ["objects", "refs"] {
            fs::create_dir(world.root.join(name)).unwrap();
        }
        fs::write(world.root.join("HEAD"), "ref: refs/heads/x").unwrap();
        assert_eq!(guard.after(&world.quarantine).len(), 1);
        assert!(!is_bare(&world.root) && world.root.join("objects").exists());
    }

    #[test]
    fn a_new_repository_may_stay_but_not_with_hooks_or_commands_in_its_configuration() {
        let world = World::new();
        let spec = world.spec(&[]);
        let make = |name: &str, config: &str, hook: &str| {
            let git = world.root.join(name).join(".git");
            for folder in ["hooks", "objects", "refs"] {
                fs::create_dir_all(git.join(folder)).unwrap();
            }
            fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(git.join("config"), config).unwrap();
            fs::write(git.join("hooks").join(hook), "x").unwrap();
            git
        };
        let guard = Guard::before(&spec, &available(Backend::Namespaces));
        let fine = make("fine", "[core]\n\tbare = false\n", "pre-commit.sample");
        let hook = make("hook", "", "pre-commit");
        let command = make("command", "[core]\n\tfsmonitor = evil\n", "x.sample");
        // Not found by its name, but by the file that leads to it.
        fs::create_dir(world.root.join("linked")).unwrap();
        fs::rename(make("far", "[alias]\nst = !evil\n", "x.sample"), world.root.join("far/elsewhere")).unwrap();
        fs::write(world.root.join("linked/.git"), "gitdir: ../far/elsewhere\n").unwrap();
        assert_eq!(guard.after(&world.quarantine).len(), 3);
        assert!(fine.join("config").exists() && fine.join("hooks").exists());
        assert!(hook.join("config").exists() && !hook.join("hooks").exists());
        assert!(!command.join("config").exists() && command.join("hooks").exists());
        assert!(!world.root.join("far/elsewhere/config").exists());
    }

    #[test]
    fn an_honest_command_leaves_nothing_to_report() {
        let world = World::new();
        let guard = Guard::before(&world.spec(&[".git/hooks", ".mcp.json"]), &available(Backend::Landlock));
        fs::write(world.root.join("a.rs"), "fn main() {}").unwrap();
        assert_eq!(guard.after(&world.quarantine), []);
        assert!(!world.quarantine.exists());
    }
}
