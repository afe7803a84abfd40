//! A plan in the words of bubblewrap. Pure.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::Path;

use super::launch_plan::{PathAccess, SandboxLaunchPlan, mount_places};
use super::mounts::MEMORY_FOLDER_BYTES;

/// The namespaces that every command gets.
const ALWAYS: &[&str] = &[
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-net",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
];
/// A tree that is closed but for the places of the plan.
const CLOSED_TREE: &[&str] = &[
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--perms",
    "1777",
    "--tmpfs",
    "/dev/shm",
    "--remount-ro",
    "/dev",
    "--proc",
    "/proc",
    // Root owns the kernel's settings there, with or without capabilities.
    "--remount-ro",
    "/proc",
];
/// The whole file tree unchanged, but with processes and kernel settings protected.
const OPEN_TREE: &[&str] = &["--dev-bind", "/", "/", "--proc", "/proc", "--remount-ro", "/proc"];

/// Returns all arguments up to and including the one that ends bubblewrap's own.
pub(super) fn bubblewrap_arguments(plan: &SandboxLaunchPlan, filter: RawFd) -> Vec<OsString> {
    let tree = if plan.files_open { OPEN_TREE } else { CLOSED_TREE };
    let mut args: Vec<OsString> = ALWAYS.iter().chain(tree).map(OsString::from).collect();
    let places = mount_places(plan);
    for (path, place) in &places {
        let holds_open_places = places.iter().any(|(other, _)| other != path && other.starts_with(path));
        args.extend(place_arguments(path, *place, holds_open_places));
    }
    for (path, _) in places.iter().filter(|(path, place)| *place == PathAccess::Closed && path.is_dir()) {
        args.extend(["--remount-ro".into(), path.into()]);
    }
    args.extend(["--chdir".into(), plan.cwd.clone().into_os_string(), "--cap-drop".into(), "ALL".into()]);
    args.extend(["--seccomp".into(), filter.to_string().into(), "--".into()]);
    args
}

fn place_arguments(path: &Path, place: PathAccess, holds_open_places: bool) -> Vec<OsString> {
    let mount = |option: &str| vec![option.into(), path.into(), path.into()];
    match place {
        PathAccess::Private => {
            let size = MEMORY_FOLDER_BYTES.to_string();
            vec!["--perms".into(), "1777".into(), "--size".into(), size.into(), "--tmpfs".into(), path.into()]
        }
        PathAccess::Writable => mount("--bind"),
        PathAccess::Readable | PathAccess::ReadOnly => mount("--ro-bind"),
        PathAccess::Closed if path.is_dir() => {
            let mode = if holds_open_places { "0111" } else { "0000" };
            vec!["--perms".into(), mode.into(), "--tmpfs".into(), path.into()]
        }
        // Devices are off in what bubblewrap binds, so this can be neither read nor written.
        PathAccess::Closed => vec!["--ro-bind".into(), "/dev/null".into(), path.into()],
    }
}
