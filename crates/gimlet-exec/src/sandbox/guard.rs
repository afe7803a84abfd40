//! What mounts cannot hold: protected files that are not there yet, links, and everything where there are no mounts.
//!
//! Before a command it is noted how they are, after it they are put back, and what the command made of them is moved to
//! where nobody runs it. Blocking; small: only the protected paths themselves are looked at.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use gimlet_proto::{SandboxSpec, Violation};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::census::{Census, Repositories, is_repository, link_target};
use super::defaults::{protected_in, walled_in};
use super::gitconfig::is_harmless;
use super::plan::unswapped;
use super::probe::{Available, Layer};

/// The most that is kept of one protected place. A larger one is checked by its stamps and cannot be put back.
const MAX_KEPT_BYTES: u64 = 4 << 20;

/// The most repositories that are held by mounts; further ones are noted and put back.
const MAX_HELD: usize = 200;

/// How protected paths were before a command.
#[derive(Debug)]
pub struct Guard {
    watched: Vec<Watched>,
    /// Protected paths of repositories that no spec knew of.
    held: Vec<PathBuf>,
    /// Writable folders that were no repositories themselves.
    plain_folders: Vec<PathBuf>,
    /// Writable folders whose repositories are looked for again afterwards.
    roots: Vec<PathBuf>,
    /// The repositories that were there.
    repositories: Repositories,
}

#[derive(Debug)]
struct Watched {
    /// The writable folder that it lies in.
    root: PathBuf,
    path: PathBuf,
    /// The first link among the folders on the way there, if one was there already.
    link: Option<PathBuf>,
    before: State,
}

impl Guard {
    /// Notes how the protected paths of a spec are, those of every repository among them. Mounts hold those that are
    /// there; without mounts all are noted.
    pub fn before(spec: &SandboxSpec, available: &Available, census: &mut Census) -> Self {
        if spec.files_open {
            return Self::of_nothing();
        }
        let roots = unswapped(&spec.write);
        let repositories = census.look(&roots);
        let has_mounts = available.layers().contains(&Layer::Mounts);
        let inner = repositories.folders.iter().map(|folder| (folder, protected_in(folder)));
        let inner = inner.chain(repositories.links.iter().map(|link| (link, vec![link.clone()])));
        let mut held = Vec::new();
        let mut watched = Vec::new();
        let mut watch = |root: &PathBuf, path: &PathBuf, is_held: bool| {
            let before = State::of(path);
            if !(is_held && matches!(before, State::Tree(_) | State::Stamp(..))) {
                let link = link_on_the_way(root, path);
                watched.push(Watched { root: root.clone(), path: path.clone(), link, before });
            }
        };
        for (count, (repository, mut paths)) in inner.enumerate() {
            paths.extend(beside(repository));
            for path in paths.iter().filter(|path| !spec.deny_write.contains(path)) {
                let Some(root) = root_of(path, &roots) else { continue };
                watch(root, path, has_mounts && count < MAX_HELD);
                held.extend(Some(path.clone()).filter(|path| count < MAX_HELD && path.symlink_metadata().is_ok()));
            }
        }
        for path in &spec.deny_write {
            if let Some(root) = root_of(path, &roots) {
                watch(root, path, has_mounts);
            }
        }
        let plain_folders = roots.iter().filter(|root| !is_repository(root)).cloned().collect();
        Self { watched, held, plain_folders, roots, repositories }
    }

    /// Where files are open there is nothing to guard.
    fn of_nothing() -> Self {
        Self {
            watched: Vec::new(),
            held: Vec::new(),
            plain_folders: Vec::new(),
            roots: Vec::new(),
            repositories: Repositories::default(),
        }
    }

    /// Protected paths that the walls have to hold besides those of the spec.
    pub fn held(&self) -> &[PathBuf] {
        &self.held
    }

    /// Puts back what changed. What the command made is moved into `quarantine`.
    pub fn after(self, quarantine: &Path, census: &mut Census) -> Vec<Violation> {
        let mut found = Vec::new();
        for Watched { root, path, link, before } in &self.watched {
            if let Some(new) = link_on_the_way(root, path).filter(|new| link.as_ref() != Some(new)) {
                found.extend(take_away(root, &new, quarantine));
                drop(restore_at(before, root, path));
            } else if State::of(path) != *before && !(*before == State::Absent && is_harmless(path)) {
                found.extend(take_away(root, path, quarantine));
                // What cannot be put back was at least moved away and is reported.
                drop(restore_at(before, root, path));
            }
        }
        for folder in self.plain_folders.iter().filter(|folder| is_repository(folder)) {
            found.extend(take_away(folder, &folder.join("HEAD"), quarantine));
        }
        found.extend(self.new_repositories(quarantine, census));
        found
    }

    /// A repository that the command made may stay, without what git or others would run.
    fn new_repositories(&self, quarantine: &Path, census: &mut Census) -> Vec<Violation> {
        let now = census.look(&self.roots);
        let folders: Vec<&PathBuf> = now.folders.difference(&self.repositories.folders).collect();
        let new = folders.iter().copied().chain(now.links.difference(&self.repositories.links));
        let beside = new.flat_map(|repository| {
            let folder = repository.parent().unwrap_or(repository);
            beside(repository).into_iter().filter(move |path| !self.is_known(path, folder))
        });
        let risky = folders.iter().flat_map(|folder| protected_in(folder)).chain(beside);
        let risky = risky.filter(|path| !is_harmless(path)).collect::<Vec<_>>().into_iter();
        // Only the link is the command's own; what it leads to may be somebody's real repository.
        let links = now.links.difference(&self.repositories.links).filter(|link| !self.may_stay(link)).cloned();
        let moved = risky.chain(links).filter_map(|path| take_away(root_of(&path, &self.roots)?, &path, quarantine));
        moved.collect()
    }

    /// What is the same at the top of the writable folder is there with the person's leave; worktrees bring it along.
    fn is_known(&self, path: &Path, folder: &Path) -> bool {
        let at_the_top = |root: &PathBuf| Some(root.join(path.strip_prefix(folder).ok()?));
        let known = root_of(path, &self.roots).and_then(at_the_top).map(|path| State::of(&path));
        known.is_some_and(|known| matches!(known, State::Tree(_)) && known == State::of(path))
    }

    /// A link may lead to a repository in a folder that is guarded, as those of submodules and worktrees do.
    fn may_stay(&self, link: &Path) -> bool {
        link_target(link).is_some_and(|target| {
            root_of(&target, &self.roots).is_some() && protected_in(&target).iter().all(|path| is_harmless(path))
        })
    }
}

/// What is protected beside a `.git`, in the folder that belongs to it.
fn beside(repository: &Path) -> Vec<PathBuf> {
    let folder = repository.parent().filter(|_| repository.ends_with(".git"));
    folder.map(walled_in).unwrap_or_default()
}

/// The folder that a path lies in.
fn root_of<'a>(path: &Path, roots: &'a [PathBuf]) -> Option<&'a PathBuf> {
    roots.iter().find(|root| path.starts_with(root) && path != *root)
}

/// A link among the folders between a root and a path: what lies behind it is not this command's.
fn link_on_the_way(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut way: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| *dir != root).collect();
    way.reverse();
    way.into_iter().find(|dir| dir.is_symlink()).map(Path::to_owned)
}

/// A path by a handle of its folder: nobody can lead it elsewhere by a link any more.
struct Held {
    folder: OwnedFd,
    name: OsString,
}

impl Held {
    /// `None` when a link lies between the root and the path, or its folder is gone.
    fn new(root: &Path, path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root_folder = rustix::fs::open(root, flags, Mode::empty()).ok()?;
        let way = path.parent()?.strip_prefix(root).ok()?;
        let way = if way.as_os_str().is_empty() { Path::new(".") } else { way };
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let folder = rustix::fs::openat2(root_folder, way, flags, Mode::empty(), beneath).ok()?;
        Some(Self { folder, name: path.file_name()?.to_owned() })
    }

    /// The same place, for calls that take no handle.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd())).join(&self.name)
    }
}

/// Moves something away under a new name; nothing when it is not there.
fn take_away(root: &Path, path: &Path, quarantine: &Path) -> Option<Violation> {
    let held = Held::new(root, path)?;
    let here = held.path();
    fs::symlink_metadata(&here).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    // Neither it nor a folder on the way to it is for others, whatever the mask says.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(quarantine).ok()?;
    let moved_to =
        (0..10_000).map(|n| quarantine.join(format!("{name}.{n}"))).find(|to| fs::symlink_metadata(to).is_err())?;
    if rustix::fs::renameat(&held.folder, &held.name, rustix::fs::CWD, &moved_to).is_err() {
        // Another file system. Its content is kept if that is possible; it does not stay in any case.
        drop(State::of(&here).restore(&moved_to));
        drop(remove(&here));
    }
    Some(Violation::Tampered { path: path.to_owned(), moved_to })
}

/// Makes a path what it was, below its root and through no link.
fn restore_at(before: &State, root: &Path, path: &Path) -> io::Result<()> {
    if !matches!(before, State::Link(_) | State::Tree(_)) {
        return Ok(());
    }
    if let Some(way) = path.parent().and_then(|parent| parent.strip_prefix(root).ok()) {
        let mut folder = root.to_owned();
        for name in way {
            folder.push(name);
            let held = Held::new(root, &folder).ok_or(io::ErrorKind::NotFound)?;
            // It is there already, or the next step finds that it is not.
            drop(fs::create_dir(held.path()));
        }
    }
    let held = Held::new(root, path).ok_or(io::ErrorKind::NotFound)?;
    before.restore(&held.path())
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
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
        match self {
            Self::Absent | Self::Stamp(..) => Ok(()),
            Self::Link(target) => symlink(target, path),
            Self::Tree(nodes) => nodes.iter().try_for_each(|(name, node)| {
                let path = if name.as_os_str().is_empty() { path.to_owned() } else { path.join(name) };
                match node {
                    Node::Folder => fs::create_dir(&path),
                    Node::Link(target) => symlink(target, &path),
                    Node::File { bytes, mode } => {
                        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
                        file.write_all(bytes)?;
                        file.set_permissions(fs::Permissions::from_mode(*mode))
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

    fn before(spec: &SandboxSpec, backend: Backend) -> Guard {
        Guard::before(spec, &available(backend), &mut Census::default())
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
        let guard = before(&spec, Backend::Namespaces);
        fs::create_dir(world.root.join(".claude")).unwrap();
        for name in [".mcp.json", ".claude/settings.json", ".claude/notes.md"] {
            fs::write(world.root.join(name), "x").unwrap();
        }
        let found = guard.after(&world.quarantine, &mut Census::default());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(!world.root.join(".mcp.json").exists() && world.root.join(".claude/notes.md").exists());
        assert_eq!(fs::read_to_string(world.quarantine.join(".mcp.json.0")).unwrap(), "x");
    }

    #[test]
    fn without_mounts_changed_files_are_put_back() {
        let world = World::new();
        let hook = world.root.join(".git/hooks/pre-commit");
        fs::write(&hook, "old").unwrap();
        let guard = before(&world.spec(&[".git/hooks"]), Backend::Landlock);
        fs::rename(world.root.join(".git"), world.root.join("git")).unwrap();
        fs::create_dir_all(world.root.join(".git/hooks")).unwrap();
        fs::write(&hook, "evil").unwrap();
        assert_eq!(guard.after(&world.quarantine, &mut Census::default()).len(), 1);
        assert_eq!(fs::read_to_string(&hook).unwrap(), "old");
    }

    #[test]
    fn a_planted_link_is_taken_and_what_it_leads_to_is_left() {
        let world = World::new();
        let settings = world.outside.join("settings.json");
        fs::write(&settings, "the user's").unwrap();
        let guard = before(&world.spec(&[".claude/settings.json"]), Backend::Namespaces);
        symlink(&world.outside, world.root.join(".claude")).unwrap();
        assert_eq!(guard.after(&world.quarantine, &mut Census::default()).len(), 1);
        assert!(settings.exists() && !world.root.join(".claude").exists());
    }

    #[test]
    fn a_folder_that_becomes_a_bare_repository_stops_being_one() {
        let world = World::new();
        let guard = before(&world.spec(&[]), Backend::Namespaces);
        for name in ["objects", "refs"] {
            fs::create_dir(world.root.join(name)).unwrap();
        }
        fs::write(world.root.join("HEAD"), "ref: refs/heads/x").unwrap();
        assert_eq!(guard.after(&world.quarantine, &mut Census::default()).len(), 1);
        assert!(!is_repository(&world.root) && world.root.join("objects").exists());
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
        let guard = before(&spec, Backend::Namespaces);
        let fine = make("fine", "[core]\n\tbare = false\n", "pre-commit.sample");
        let hook = make("hook", "", "pre-commit");
        let command = make("command", "[core]\n\tfsmonitor = evil\n", "x.sample");
        // Not found by its name, but by the file that leads to it.
        fs::create_dir(world.root.join("linked")).unwrap();
        fs::rename(make("far", "[alias]\nst = !evil\n", "x.sample"), world.root.join("far/elsewhere")).unwrap();
        fs::write(world.root.join("linked/.git"), "gitdir: ../far/elsewhere\n").unwrap();
        assert_eq!(guard.after(&world.quarantine, &mut Census::default()).len(), 3);
        assert!(fine.join("config").exists() && fine.join("hooks").exists());
        assert!(hook.join("config").exists() && !hook.join("hooks").exists());
        assert!(!command.join("config").exists() && command.join("hooks").exists());
        // The repository that it leads to is the command's own as well.
        assert!(!world.root.join("far/elsewhere/config").exists());
    }

    #[test]
    fn what_others_run_is_held_beside_every_repository() {
        let world = World::new();
        let sub = world.root.join("a/sub");
        let planted = [".mcp.json", ".envrc", ".vscode/tasks.json", ".claude/settings.json"];
        let plant = |folder: &Path| {
            for name in planted {
                fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
                fs::write(folder.join(name), "evil").unwrap();
            }
        };
        fs::create_dir_all(sub.join(".git")).unwrap();
        fs::write(sub.join(".bashrc"), "old").unwrap();
        let guard = before(&world.spec(&[]), Backend::Landlock);
        assert!(guard.held().contains(&sub.join(".bashrc")) && !guard.held().contains(&sub.join(".envrc")));
        plant(&sub);
        plant(&world.root.join("plain"));
        fs::write(sub.join(".bashrc"), "evil").unwrap();
        assert_eq!(guard.after(&world.quarantine, &mut Census::default()).len(), 5);
        assert!(planted.iter().all(|name| !sub.join(name).exists()));
        assert_eq!(fs::read_to_string(sub.join(".bashrc")).unwrap(), "old");
        assert!(world.root.join("plain/.envrc").exists(), "no repository");

        // One that is new brings along only what the person has already.
        fs::write(world.root.join(".envrc"), "evil").unwrap();
        let guard = before(&world.spec(&[]), Backend::Namespaces);
        for new in ["new", "linked"] {
            plant(&world.root.join(new));
        }
        fs::create_dir(world.root.join("new/.git")).unwrap();
        fs::write(world.root.join("linked/.git"), "gitdir: ../new/.git\n").unwrap();
        assert_eq!(guard.after(&world.quarantine, &mut Census::default()).len(), 6);
        for new in ["new", "linked"] {
            let left = planted.map(|name| world.root.join(new).join(name).exists());
            assert_eq!(left, [false, true, false, false], "{new}");
        }
    }

    #[test]
    fn a_link_to_a_repository_of_somebody_else_goes_and_the_repository_stays() {
        let world = World::new();
        let real = world.outside.join("real/.git");
        for folder in ["hooks", "objects", "refs"] {
            fs::create_dir_all(real.join(folder)).unwrap();
        }
        fs::write(real.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(real.join("hooks/pre-commit"), "the person's own").unwrap();
        let guard = before(&world.spec(&[]), Backend::Namespaces);
        for name in ["by-file", "by-link"] {
            fs::create_dir_all(world.root.join("a/b/c/d").join(name)).unwrap();
        }
        let (file, link) = (world.root.join("a/b/c/d/by-file/.git"), world.root.join("a/b/c/d/by-link/.git"));
        fs::write(&file, format!("gitdir: {}\n", real.display())).unwrap();
        symlink(&real, &link).unwrap();
        let found = guard.after(&world.quarantine, &mut Census::default());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(real.join("hooks/pre-commit").exists() && !file.exists() && link.symlink_metadata().is_err());
    }

    #[test]
    fn repositories_that_came_between_two_commands_are_held_by_the_next() {
        let world = World::new();
        let mut census = Census::default();
        let first = Guard::before(&world.spec(&[]), &available(Backend::Namespaces), &mut census);
        drop(first.after(&world.quarantine, &mut census));
        let clone = world.root.join("1/2/3/4/5/clone/.git");
        fs::create_dir_all(clone.join("hooks")).unwrap();
        fs::write(clone.join("config"), "[core]\n").unwrap();
        let second = Guard::before(&world.spec(&[]), &available(Backend::Namespaces), &mut census);
        assert!(second.held().contains(&clone.join("hooks")) && second.held().contains(&clone.join("config")));
        // Where no mount holds them, they are put back.
        let third = Guard::before(&world.spec(&[]), &available(Backend::Landlock), &mut census);
        fs::write(clone.join("config"), "[core]\nfsmonitor = evil\n").unwrap();
        assert_eq!(third.after(&world.quarantine, &mut census).len(), 1);
        assert_eq!(fs::read_to_string(clone.join("config")).unwrap(), "[core]\n");
    }

    #[test]
    fn a_link_that_replaces_a_folder_leads_neither_the_broom_nor_the_repair_astray() {
        let world = World::new();
        let root = world.root.clone();
        fs::create_dir_all(world.outside.join("hooks")).unwrap();
        fs::write(world.outside.join("hooks/pre-commit"), "the person's own").unwrap();
        fs::write(root.join(".git/hooks/pre-commit"), "old").unwrap();
        let guard = before(&world.spec(&[".git/hooks"]), Backend::Landlock);
        fs::rename(root.join(".git"), root.join("away")).unwrap();
        symlink(&world.outside, root.join(".git")).unwrap();
        drop(guard.after(&world.quarantine, &mut Census::default()));
        assert_eq!(fs::read_to_string(world.outside.join("hooks/pre-commit")).unwrap(), "the person's own");
        assert_eq!(fs::read_to_string(root.join(".git/hooks/pre-commit")).unwrap(), "old");
    }

    #[test]
    fn a_link_that_was_there_before_is_nobodys_trick() {
        let world = World::new();
        symlink(&world.outside, world.root.join(".claude")).unwrap();
        let guard = before(&world.spec(&[".claude/settings.json"]), Backend::Namespaces);
        assert_eq!(guard.after(&world.quarantine, &mut Census::default()), []);
        assert!(world.root.join(".claude").is_symlink());
    }

    #[test]
    fn an_honest_command_leaves_nothing_to_report() {
        let world = World::new();
        let guard = before(&world.spec(&[".git/hooks", ".mcp.json"]), Backend::Landlock);
        fs::write(world.root.join("a.rs"), "fn main() {}").unwrap();
        assert_eq!(guard.after(&world.quarantine, &mut Census::default()), []);
        assert!(!world.quarantine.exists());
    }
}
