//! The file, port and signal rules that the kernel enforces on a command, independent of mounts.
//!
//! Landlock only allows: everything beneath an allowed folder is allowed too. With mounts, one rule for the whole
//! tree is enough for reading. Without them the closed paths are left out by allowing everything around them.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use super::launch_plan::{MountBackend, SandboxLaunchPlan, unreplaced_paths};
use super::sandbox_syscalls::{HandledAccess, LandlockRuleset, landlock_abi};
use super::seccomp::InetAccess;

pub(super) const EXECUTE: u64 = 1;
pub(super) const WRITE_FILE: u64 = 1 << 1;
pub(super) const READ_FILE: u64 = 1 << 2;
pub(super) const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
/// All rights of the first version.
const ALL: u64 = (1 << 13) - 1;
const REFER: u64 = 1 << 13;
pub(super) const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// All rights to files except creating devices.
pub(super) const CHANGE: u64 = (ALL | REFER | TRUNCATE | IOCTL_DEV) & !(MAKE_CHAR | MAKE_BLOCK);

const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;
const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 1 << 1;

/// Devices that are safe for every command.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Returns all access rights that this version of Landlock can restrict.
pub(super) fn handled_access(abi: u32, inet: InetAccess, files_open: bool) -> HandledAccess {
    let from = |version: u32, rights: u64| if abi >= version { rights } else { 0 };
    let files = ALL | from(2, REFER) | from(3, TRUNCATE) | from(5, IOCTL_DEV);
    HandledAccess {
        files: if files_open { 0 } else { files },
        // In a network namespace with nothing in it ports are free.
        network: if inet == InetAccess::Any { 0 } else { from(4, BIND_TCP | CONNECT_TCP) },
        scoped: from(6, SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS),
    }
}

/// Restricts this process to the plan.
pub(super) fn enforce_plan(plan: &SandboxLaunchPlan) -> io::Result<()> {
    let handled = handled_access(landlock_abi(), plan.sockets.inet, plan.files_open);
    if handled == HandledAccess::default() {
        // A set of rules about nothing is refused by the kernel.
        return Ok(());
    }
    let rules = LandlockRules::new(handled)?;
    let read = EXECUTE | READ_FILE | READ_DIR;
    let change = CHANGE;
    if plan.mount_backend == MountBackend::Absent {
        // Names can be listed everywhere; without that not even `/` could be.
        rules.allow("/".as_ref(), READ_DIR)?;
        let closed: Vec<PathBuf> = plan.deny_read.iter().filter_map(|path| path.canonicalize().ok()).collect();
        for path in list_around("/".as_ref(), &[closed.as_slice(), &["/dev".into()]].concat()).open {
            rules.allow(&path, read)?;
        }
        for path in unreplaced_paths(&plan.allow_read) {
            // Closed paths within open ones stay closed.
            let closed: Vec<PathBuf> = closed.iter().filter(|closed| closed.starts_with(&path)).cloned().collect();
            let open = if closed.is_empty() { vec![path] } else { list_around(&path, &closed).open };
            open.iter().try_for_each(|path| rules.allow_real(path, read))?;
        }
    } else {
        rules.allow("/".as_ref(), read)?;
        // Private to this command, like the one that the plan names.
        rules.allow("/tmp".as_ref(), change)?;
    }
    for path in unreplaced_paths(&plan.write) {
        rules.allow_real(&path, change)?;
    }
    for device in DEVICES {
        rules.allow(&Path::new("/dev").join(device), READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV)?;
    }
    rules.allow("/dev/shm".as_ref(), change & !EXECUTE)?;
    if plan.mount_backend != MountBackend::Absent {
        // Private as well. Without mounts they would be everybody's terminals.
        rules.allow("/dev/pts".as_ref(), change & !EXECUTE)?;
        rules.allow("/dev/ptmx".as_ref(), change & !EXECUTE)?;
    }
    rules.set.enforce()
}

/// Rules under construction.
pub(super) struct LandlockRules {
    set: LandlockRuleset,
    /// The rights that this kernel knows.
    files: u64,
}

impl LandlockRules {
    /// Creates rules that allow nothing of the handled access.
    pub(super) fn new(handled: HandledAccess) -> io::Result<Self> {
        Ok(Self { set: LandlockRuleset::new(handled)?, files: handled.files })
    }

    /// Returns the rules as a descriptor, with which other processes can be restricted.
    pub(super) fn into_descriptor(self) -> OwnedFd {
        self.set.into_descriptor()
    }

    /// Allows these rights beneath a path; a missing path needs none.
    pub(super) fn allow(&self, path: &Path, rights: u64) -> io::Result<()> {
        match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(opened) => self.allow_opened(&opened, rights),
            Err(_) => Ok(()),
        }
    }

    /// Allows a path that was resolved to have no symlinks: a symlink there now was placed by another process.
    pub(super) fn allow_real(&self, path: &Path, rights: u64) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(opened) => self.allow_opened(&opened, rights),
            Err(_) => Ok(()),
        }
    }

    fn allow_opened(&self, opened: &OwnedFd, rights: u64) -> io::Result<()> {
        let rights = rights & self.files & applicable_rights(opened)?;
        if rights == 0 { Ok(()) } else { self.set.allow_beneath(opened, rights) }
    }
}

/// Returns the rights that apply to this kind of file.
fn applicable_rights(opened: &OwnedFd) -> io::Result<u64> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(opened)?.st_mode);
    let for_files = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
    Ok(if kind == FileType::Directory { u64::MAX } else { for_files })
}

/// The paths around closed ones.
#[derive(Debug, Default)]
pub(super) struct OpenSurroundings {
    /// Everything that is neither closed, nor beneath a closed path, nor an ancestor of one.
    pub(super) open: Vec<PathBuf>,
    /// The ancestors of closed paths, whose entries were listed.
    pub(super) listed: Vec<PathBuf>,
}

/// Returns everything below a folder that is neither one of these paths, nor beneath one, nor an ancestor of one.
///
/// Entries that are created beside those ancestors later are not included: closed until the next command.
pub(super) fn list_around(folder: &Path, closed: &[PathBuf]) -> OpenSurroundings {
    let mut found = OpenSurroundings::default();
    let mut ways: Vec<PathBuf> = if closed.iter().any(|path| path == folder) { vec![] } else { vec![folder.into()] };
    while let Some(way) = ways.pop() {
        let Ok(entries) = way.read_dir() else { continue };
        found.listed.push(way);
        for entry in entries.flatten() {
            let path = entry.path();
            if closed.contains(&path) {
                continue;
            }
            // Symlinks need no right of their own, and following one here could open a closed path.
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                continue;
            }
            if closed.iter().any(|closed| closed.starts_with(&path)) {
                ways.push(path);
            } else {
                found.open.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernel_is_asked_for_less() {
        let known = |abi| handled_access(abi, InetAccess::None, false);
        assert_eq!(known(1), HandledAccess { files: ALL, network: 0, scoped: 0 });
        assert_eq!(known(3).files, ALL | REFER | TRUNCATE);
        assert_eq!((known(4).network, known(5).scoped), (BIND_TCP | CONNECT_TCP, 0));
        assert_eq!(known(6).scoped, SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS);
        assert_eq!(handled_access(7, InetAccess::Any, false).network, 0);
    }

    #[test]
    fn what_lies_around_a_closed_place_leaves_it_and_links_to_it_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["home/.ssh", "home/work", "other"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("home/.ssh"), root.join("home/link")).unwrap();
        let found = list_around("/".as_ref(), &[root.join("home/.ssh")]).open;
        let mut here: Vec<&PathBuf> = found.iter().filter(|path| path.starts_with(&root)).collect();
        here.sort();
        assert_eq!(here, [&root.join("home/work"), &root.join("other")]);
        assert!(found.contains(&"/usr".into()) && !found.contains(&"/".into()));
    }
}
