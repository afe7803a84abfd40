//! The walls of mounts that the helper puts up itself, where bubblewrap is not there: the whole tree read-only, a small
//! `/dev`, a `/proc` of the new process namespace, and the places of the plan on top.
//!
//! Runs as the first process of new namespaces; nothing here is seen outside of them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};

use super::kernel::{self, Below, MOUNT_NO_DEVICES, MOUNT_NO_SETUID, MOUNT_READ_ONLY};
use super::landlock::DEVICES;
use super::plan::Place;

/// The most that a command may keep in its private memory folders.
pub(super) const MEMORY_FOLDER_BYTES: u64 = 1 << 30;

/// What went wrong, and where.
#[derive(Debug)]
pub(super) struct MountError {
    pub(super) doing: &'static str,
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

/// Says what was being done when a call failed.
fn at<'a, E: Into<io::Error>>(doing: &'static str, path: &'a Path) -> impl FnOnce(E) -> MountError + 'a {
    move |source| MountError { doing, path: path.to_owned(), source: source.into() }
}

/// The tree as it is, with a `/proc` of its own: without one the processes outside would be seen through it.
pub(super) fn build_open() -> Result<(), MountError> {
    separate()?;
    mount_proc()
}

/// Nothing that is mounted from here on is seen outside.
fn separate() -> Result<(), MountError> {
    let root = Path::new("/");
    rustix::mount::mount_change(root, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(at("separating the mounts of", root))
}

fn mount_proc() -> Result<(), MountError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    rustix::mount::mount("proc", "/proc", "proc", flags, None).map_err(at("mounting", "/proc".as_ref()))
}

/// Puts up the walls.
pub(super) fn build(places: &[(PathBuf, Place)]) -> Result<(), MountError> {
    let root = Path::new("/");
    separate()?;
    // Copies of what stays usable are taken while it still is.
    let kept: Vec<Option<OwnedFd>> = places
        .iter()
        .map(|(path, place)| matches!(place, Place::Readable | Place::Writable).then(|| copy(path)).transpose())
        .collect::<Result<_, _>>()?;
    let devices = DEVICES
        .iter()
        .map(|name| Path::new("/dev").join(name))
        .filter(|path| path.exists())
        .map(|path| copy(&path).map(|device| (path, device)))
        .collect::<Result<Vec<_>, _>>()?;
    let tree = open(root)?;
    kernel::set_mount_attributes(tree.as_fd(), MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES, Below::AllMounts)
        .map_err(at("making read-only", root))?;
    build_dev(devices)?;
    mount_proc()?;
    for ((path, place), kept) in places.iter().zip(kept) {
        match place {
            Place::Closed if path.is_dir() => close_folder(path, places)?,
            place => make(path, *place, kept)?,
        }
    }
    // Only now, when everything that lies in them has its place.
    for (path, place) in places {
        if *place == Place::Closed && path.is_dir() {
            freeze(path)?;
        }
    }
    Ok(())
}

/// A closed folder with something open in it can be passed through, but not listed.
fn close_folder(path: &Path, places: &[(PathBuf, Place)]) -> Result<(), MountError> {
    let holds_open_places = places.iter().any(|(other, _)| other != path && other.starts_with(path));
    memory_folder(path, if holds_open_places { 0o111 } else { 0 })
}

fn make(path: &Path, place: Place, kept: Option<OwnedFd>) -> Result<(), MountError> {
    match (place, kept) {
        (Place::Private, _) => memory_folder(path, 0o1777),
        (Place::Readable, Some(kept)) => attach(kept, path, MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES),
        (Place::Writable, Some(kept)) => attach(kept, path, MOUNT_NO_SETUID | MOUNT_NO_DEVICES),
        (Place::Readable | Place::Writable | Place::ReadOnly, _) => {
            attach(copy(path)?, path, MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES)
        }
        // A device that cannot be opened as one, because devices are off here.
        (Place::Closed, _) => attach(copy("/dev/null".as_ref())?, path, MOUNT_READ_ONLY | MOUNT_NO_DEVICES),
    }
}

fn build_dev(devices: Vec<(PathBuf, OwnedFd)>) -> Result<(), MountError> {
    let dev = Path::new("/dev");
    memory_folder(dev, 0o755)?;
    for (path, device) in devices {
        attach(device, &path, MOUNT_NO_SETUID)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let (pts, shm) = (dev.join("pts"), dev.join("shm"));
    let mode = c"newinstance,ptmxmode=0666,mode=620";
    std::fs::create_dir(&pts).map_err(at("making", &pts))?;
    rustix::mount::mount("devpts", &pts, "devpts", flags, Some(mode)).map_err(at("mounting", &pts))?;
    std::fs::create_dir(&shm).map_err(at("making", &shm))?;
    memory_folder(&shm, 0o1777)?;
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, target) in links {
        let link = dev.join(name);
        std::os::unix::fs::symlink(target, &link).map_err(at("making", &link))?;
    }
    freeze(dev)
}

/// Paths here are those of real files; a link on the way was put there since by somebody who wants to be followed.
fn open(path: &Path) -> Result<OwnedFd, MountError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(at("opening", path))
}

/// A copy of all that is mounted at and below a path, not yet anywhere.
fn copy(path: &Path) -> Result<OwnedFd, MountError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(open(path)?, "", flags | OpenTreeFlags::AT_EMPTY_PATH).map_err(at("copying", path))
}

/// Puts a copy at a path, which is made if a private folder has taken its place.
fn attach(mount: OwnedFd, path: &Path, attributes: u64) -> Result<(), MountError> {
    kernel::set_mount_attributes(mount.as_fd(), attributes, Below::AllMounts).map_err(at("restricting", path))?;
    if !path.exists() {
        let is_dir = rustix::fs::fstat(&mount)
            .map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory);
        let parent = path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent).map_err(at("making", parent))?;
        if is_dir.unwrap_or(false) {
            std::fs::create_dir(path).map_err(at("making", path))?;
        } else {
            std::fs::File::create(path).map_err(at("making", path))?;
        }
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&mount, "", open(path)?, "", flags).map_err(at("placing", path))
}

fn memory_folder(path: &Path, mode: u32) -> Result<(), MountError> {
    let options = std::ffi::CString::new(format!("mode={mode:o},size={MEMORY_FOLDER_BYTES}")).unwrap_or_default();
    rustix::mount::mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        .map_err(at("mounting", path))
}

fn freeze(path: &Path) -> Result<(), MountError> {
    kernel::set_mount_attributes(open(path)?.as_fd(), MOUNT_READ_ONLY, Below::ThisMount).map_err(at("freezing", path))
}
