//! Paths in folders that commands may write, accessed by handle: no symlink leads elsewhere, and no mode that a
//! command set keeps gimlet out of the user's own files. Blocking.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Mode bits that an owner needs to enter, list and change a folder.
const OWNERS: u32 = 0o700;
/// Mode bits that an owner needs to enter and list a folder.
const OWNERS_LOOK: u32 = 0o500;
/// Maximum number of folders that are closed again afterwards; each costs a descriptor.
const MAX_OPENED: usize = 64;
/// Maximum depth of a tree that is removed.
const MAX_DEPTH: usize = 500;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Returns true if something exists at a path, or if that cannot be determined.
pub(super) fn may_exist(path: &Path) -> bool {
    fs::symlink_metadata(path).err().is_none_or(|error| !is_not_found_error(&error))
}

pub(super) fn is_not_found_error(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Result of opening the folder of a path.
#[derive(Debug)]
pub(super) enum HandleLookup {
    Found(PathHandle),
    /// One of the folders does not exist.
    Missing,
    /// One of the folders is a symlink: the path behind it is elsewhere.
    BehindSymlink(PathBuf),
}

/// A path by a handle of its folder, which no symlink can redirect any more.
#[derive(Debug)]
pub(super) struct PathHandle {
    folder: OwnedFd,
    name: OsString,
}

impl PathHandle {
    /// Opens the folder of a path, starting from the root, and makes closed folders on the way accessible to the
    /// user.
    pub(super) fn open_parent(root: &Path, path: &Path) -> io::Result<HandleLookup> {
        let way = path.parent().and_then(|folder| folder.strip_prefix(root).ok());
        let (Some(way), Some(name)) = (way, path.file_name()) else { return Ok(HandleLookup::Missing) };
        let mut folder = match rustix::fs::open(root, HANDLE, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(HandleLookup::Missing),
            Err(error) => return Err(error.into()),
        };
        let mut so_far = root.to_owned();
        for name in way {
            grant_owner_access(&folder)?;
            so_far.push(name);
            folder = match rustix::fs::openat(&folder, name, HANDLE, Mode::empty()) {
                Ok(folder) => folder,
                Err(Errno::NOENT) => return Ok(HandleLookup::Missing),
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let held = Self { folder, name: name.to_owned() };
                    return Ok(if held.is_symlink() {
                        HandleLookup::BehindSymlink(so_far)
                    } else {
                        HandleLookup::Missing
                    });
                }
                Err(error) => return Err(error.into()),
            };
        }
        grant_owner_access(&folder)?;
        Ok(HandleLookup::Found(Self { folder, name: name.to_owned() }))
    }

    /// Returns an equivalent path, for calls that take no handle.
    pub(super) fn path(&self) -> PathBuf {
        handle_path(&self.folder).join(&self.name)
    }

    /// Returns true if something exists there; also on any error other than absence.
    pub(super) fn may_exist(&self) -> bool {
        !matches!(rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    }

    fn is_symlink(&self) -> bool {
        let stat = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
    }

    /// Renames it within its file system.
    pub(super) fn rename(&self, to: &Path) -> io::Result<()> {
        // Moving a folder changes the folder itself.
        if let Ok(folder) = rustix::fs::openat(&self.folder, &self.name, HANDLE, Mode::empty()) {
            grant_owner_access(&folder)?;
        }
        Ok(rustix::fs::renameat(&self.folder, &self.name, CWD, to)?)
    }

    /// Removes it recursively, regardless of modes.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove_tree(&self.folder, &self.name, MAX_DEPTH)
    }
}

fn remove_tree(folder: &OwnedFd, name: &OsStr, depth: usize) -> io::Result<()> {
    let inner = match rustix::fs::openat(folder, name, HANDLE, Mode::empty()) {
        Ok(inner) => inner,
        // No folder.
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?),
        Err(error) => return Err(error.into()),
    };
    let Some(depth) = depth.checked_sub(1) else { return Err(io::Error::other("it is too deep to be removed")) };
    grant_owner_access(&inner)?;
    let listed = rustix::fs::openat(&inner, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for entry in Dir::new(listed)? {
        let entry = entry?;
        let name = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            remove_tree(&inner, name, depth)?;
        }
    }
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

fn handle_path(handle: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd()))
}

/// Makes a folder of the user's accessible, listable and writable for them. Other users' folders stay unchanged.
fn grant_owner_access(folder: &OwnedFd) -> io::Result<()> {
    let stat = rustix::fs::fstat(folder)?;
    if stat.st_mode & OWNERS != OWNERS && stat.st_uid == rustix::process::geteuid().as_raw() {
        set_mode(folder, stat.st_mode | OWNERS)?;
    }
    Ok(())
}

fn set_mode(folder: &OwnedFd, mode: u32) -> io::Result<()> {
    // The handle is one of those that modes cannot be set by directly.
    fs::set_permissions(handle_path(folder), fs::Permissions::from_mode(mode & 0o7777))
}

/// Folders of the user's that were closed even to them, and that are open for now. Dropping this closes them again.
#[derive(Debug, Default)]
pub(super) struct UnlockedFolders(Vec<(PathBuf, OwnedFd, u32)>);

impl UnlockedFolders {
    /// Opens a folder, given by its real path and metadata, if it is the user's own and closed to them; returns true
    /// if it did.
    pub(super) fn unlock_if_closed(&mut self, path: &Path, metadata: &fs::Metadata) -> bool {
        metadata.is_dir() && metadata.mode() & OWNERS_LOOK != OWNERS_LOOK && self.unlock(path)
    }

    fn unlock(&mut self, path: &Path) -> bool {
        let way = ResolveFlags::NO_SYMLINKS;
        let Ok(folder) = rustix::fs::openat2(CWD, path, HANDLE, Mode::empty(), way) else { return false };
        let Ok(stat) = rustix::fs::fstat(&folder) else { return false };
        let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
        if !is_ours || stat.st_mode & OWNERS_LOOK == OWNERS_LOOK || set_mode(&folder, stat.st_mode | OWNERS).is_err() {
            return false;
        }
        if self.0.len() < MAX_OPENED {
            self.0.push((path.to_owned(), folder, stat.st_mode));
        }
        true
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.0.iter().map(|(path, ..)| path.clone()).collect()
    }

    /// Closes only these folders again; all others stay open.
    pub(super) fn relock_only(&mut self, paths: &[PathBuf]) {
        self.0.retain(|(path, ..)| paths.contains(path));
    }
}

impl Drop for UnlockedFolders {
    fn drop(&mut self) {
        // Inner folders first. One that cannot be closed again stays open to the user, and to no other user.
        for (_, folder, mode) in self.0.drain(..).rev() {
            drop(set_mode(&folder, mode));
        }
    }
}
