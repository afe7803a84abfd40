//! The mounts that the helper sets up itself where bubblewrap is not available: the whole tree read-only, a small
//! `/dev`, a `/proc` of the new process namespace, and the paths of the plan on top.
//!
//! Runs as the first process of new namespaces; nothing here is visible outside of them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};

use super::landlock::DEVICES;
use super::launch_plan::PathAccess;
use super::sandbox_syscalls::{self, MOUNT_NO_DEVICES, MOUNT_NO_SETUID, MOUNT_READ_ONLY, MountScope};

/// The most that a command may keep in its private memory folders.
pub(super) const MEMORY_FOLDER_BYTES: u64 = 1 << 30;

/// A failed step with its path.
#[derive(Debug)]
pub(super) struct MountError {
    pub(super) doing: &'static str,
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

/// Returns a mapper that adds the failed step to an error.
fn mount_error_at<'a, E: Into<io::Error>>(doing: &'static str, path: &'a Path) -> impl FnOnce(E) -> MountError + 'a {
    move |source| MountError { doing, path: path.to_owned(), source: source.into() }
}

/// Sets up the unchanged tree with a `/proc` of its own: without one the processes outside would be visible through
/// it.
pub(super) fn build_open_tree() -> Result<(), MountError> {
    make_mounts_private()?;
    mount_proc()
}

/// Makes mounts private, so that later ones are not visible outside.
fn make_mounts_private() -> Result<(), MountError> {
    let root = Path::new("/");
    rustix::mount::mount_change(root, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(mount_error_at("separating the mounts of", root))
}

fn mount_proc() -> Result<(), MountError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    rustix::mount::mount("proc", "/proc", "proc", flags, None).map_err(mount_error_at("mounting", "/proc".as_ref()))
}

/// Sets up the mounts.
pub(super) fn build_tree(places: &[(PathBuf, PathAccess)]) -> Result<(), MountError> {
    let root = Path::new("/");
    make_mounts_private()?;
    // Copies of what stays usable are taken while it still is.
    let kept: Vec<Option<OwnedFd>> = places
        .iter()
        .map(|(path, place)| {
            matches!(place, PathAccess::Readable | PathAccess::Writable).then(|| clone_mount(path)).transpose()
        })
        .collect::<Result<_, _>>()?;
    let devices = DEVICES
        .iter()
        .map(|name| Path::new("/dev").join(name))
        .filter(|path| path.exists())
        .map(|path| clone_mount(&path).map(|device| (path, device)))
        .collect::<Result<Vec<_>, _>>()?;
    let tree = open_nofollow(root)?;
    sandbox_syscalls::set_mount_attributes(
        tree.as_fd(),
        MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES,
        MountScope::AllMounts,
    )
    .map_err(mount_error_at("making read-only", root))?;
    build_dev(devices)?;
    mount_proc()?;
    for ((path, place), kept) in places.iter().zip(kept) {
        match place {
            PathAccess::Closed if path.is_dir() => close_folder(path, places)?,
            place => mount_place(path, *place, kept)?,
        }
    }
    // Only now that everything inside them is mounted.
    for (path, place) in places {
        if *place == PathAccess::Closed && path.is_dir() {
            remount_read_only(path)?;
        }
    }
    Ok(())
}

/// Closes a folder. One with something open in it can be traversed, but not listed.
fn close_folder(path: &Path, places: &[(PathBuf, PathAccess)]) -> Result<(), MountError> {
    let holds_open_places = places.iter().any(|(other, _)| other != path && other.starts_with(path));
    mount_tmpfs(path, if holds_open_places { 0o111 } else { 0 })
}

fn mount_place(path: &Path, place: PathAccess, kept: Option<OwnedFd>) -> Result<(), MountError> {
    match (place, kept) {
        (PathAccess::Private, _) => mount_tmpfs(path, 0o1777),
        (PathAccess::Readable, Some(kept)) => {
            attach_mount(kept, path, MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES)
        }
        (PathAccess::Writable, Some(kept)) => attach_mount(kept, path, MOUNT_NO_SETUID | MOUNT_NO_DEVICES),
        (PathAccess::Readable | PathAccess::Writable | PathAccess::ReadOnly, _) => {
            attach_mount(clone_mount(path)?, path, MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES)
        }
        // A device that cannot be opened as one, because devices are disabled here.
        (PathAccess::Closed, _) => {
            attach_mount(clone_mount("/dev/null".as_ref())?, path, MOUNT_READ_ONLY | MOUNT_NO_DEVICES)
        }
    }
}

fn build_dev(devices: Vec<(PathBuf, OwnedFd)>) -> Result<(), MountError> {
    let dev = Path::new("/dev");
    mount_tmpfs(dev, 0o755)?;
    for (path, device) in devices {
        attach_mount(device, &path, MOUNT_NO_SETUID)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let (pts, shm) = (dev.join("pts"), dev.join("shm"));
    let mode = c"newinstance,ptmxmode=0666,mode=620";
    std::fs::create_dir(&pts).map_err(mount_error_at("making", &pts))?;
    rustix::mount::mount("devpts", &pts, "devpts", flags, Some(mode)).map_err(mount_error_at("mounting", &pts))?;
    std::fs::create_dir(&shm).map_err(mount_error_at("making", &shm))?;
    mount_tmpfs(&shm, 0o1777)?;
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, target) in links {
        let link = dev.join(name);
        std::os::unix::fs::symlink(target, &link).map_err(mount_error_at("making", &link))?;
    }
    remount_read_only(dev)
}

/// Opens a real path without following symlinks; a symlink on the way was placed there later to redirect the mount.
fn open_nofollow(path: &Path) -> Result<OwnedFd, MountError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(mount_error_at("opening", path))
}

/// Returns a detached copy of all that is mounted at and below a path.
fn clone_mount(path: &Path) -> Result<OwnedFd, MountError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(open_nofollow(path)?, "", flags | OpenTreeFlags::AT_EMPTY_PATH)
        .map_err(mount_error_at("copying", path))
}

/// Attaches a copy at a path, which is created if a private folder has replaced it.
fn attach_mount(mount: OwnedFd, path: &Path, attributes: u64) -> Result<(), MountError> {
    sandbox_syscalls::set_mount_attributes(mount.as_fd(), attributes, MountScope::AllMounts)
        .map_err(mount_error_at("restricting", path))?;
    if !path.exists() {
        let is_dir = rustix::fs::fstat(&mount)
            .map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory);
        let parent = path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent).map_err(mount_error_at("making", parent))?;
        if is_dir.unwrap_or(false) {
            std::fs::create_dir(path).map_err(mount_error_at("making", path))?;
        } else {
            std::fs::File::create(path).map_err(mount_error_at("making", path))?;
        }
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&mount, "", open_nofollow(path)?, "", flags).map_err(mount_error_at("placing", path))
}

fn mount_tmpfs(path: &Path, mode: u32) -> Result<(), MountError> {
    let options = std::ffi::CString::new(format!("mode={mode:o},size={MEMORY_FOLDER_BYTES}")).unwrap_or_default();
    rustix::mount::mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        .map_err(mount_error_at("mounting", path))
}

fn remount_read_only(path: &Path) -> Result<(), MountError> {
    sandbox_syscalls::set_mount_attributes(open_nofollow(path)?.as_fd(), MOUNT_READ_ONLY, MountScope::ThisMount)
        .map_err(mount_error_at("freezing", path))
}
