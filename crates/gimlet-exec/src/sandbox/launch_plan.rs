//! One sandboxed start in full, encoded as the arguments that gimlet passes to its helper. Pure.
//!
//! Everything is passed as words, so that paths that are not UTF-8 survive and only `name=value` has to be parsed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::seccomp::{InetAccess, SocketAccess};

/// Program that sets up mounts and namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MountBackend {
    /// Bubblewrap at this path.
    Bubblewrap(PathBuf),
    /// The helper itself.
    OwnNamespaces,
    /// Not available: only Landlock and the filter apply.
    Absent,
}

/// Plan of what the helper has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SandboxLaunchPlan {
    pub(super) mount_backend: MountBackend,
    /// True if the kernel has Landlock. If a layer that is declared available then fails, the start fails.
    pub(super) landlock: bool,
    /// Files are as open as outside.
    pub(super) files_open: bool,
    pub(super) write: Vec<PathBuf>,
    pub(super) deny_write: Vec<PathBuf>,
    pub(super) deny_read: Vec<PathBuf>,
    pub(super) allow_read: Vec<PathBuf>,
    pub(super) sockets: SocketAccess,
    /// The Unix socket of gimlet's proxy.
    pub(super) proxy: Option<PathBuf>,
    pub(super) max_processes: Option<u64>,
    pub(super) max_memory: Option<u64>,
    /// Variables that must not reach the helper itself, each `NAME=VALUE`.
    pub(super) env: Vec<OsString>,
    pub(super) cwd: PathBuf,
    pub(super) program: PathBuf,
    /// All arguments of the program, the zeroth included.
    pub(super) args: Vec<OsString>,
}

const END_OF_PLAN: &str = "--";

impl SandboxLaunchPlan {
    pub(super) fn encode(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        let mut say = |name: &str, value: &OsStr| {
            words.push(OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat()));
        };
        match &self.mount_backend {
            MountBackend::Bubblewrap(path) => say("bubblewrap", path.as_os_str()),
            MountBackend::OwnNamespaces => say("walls", OsStr::new("own")),
            MountBackend::Absent => {}
        }
        if self.landlock {
            say("landlock", OsStr::new("yes"));
        }
        if self.files_open {
            say("files", OsStr::new("open"));
        }
        let lists = [
            ("write", &self.write),
            ("deny-write", &self.deny_write),
            ("deny-read", &self.deny_read),
            ("allow-read", &self.allow_read),
        ];
        for (name, paths) in lists {
            paths.iter().for_each(|path| say(name, path.as_os_str()));
        }
        let inet = match self.sockets.inet {
            InetAccess::None => "none",
            InetAccess::Any => "any",
        };
        say("inet", OsStr::new(inet));
        if self.sockets.unix {
            say("unix", OsStr::new("yes"));
        }
        if let Some(socket) = &self.proxy {
            say("proxy", socket.as_os_str());
        }
        if let Some(limit) = self.max_processes {
            say("processes", OsStr::new(&limit.to_string()));
        }
        if let Some(limit) = self.max_memory {
            say("memory", OsStr::new(&limit.to_string()));
        }
        self.env.iter().for_each(|variable| say("env", variable));
        say("cwd", self.cwd.as_os_str());
        words.push(END_OF_PLAN.into());
        words.push(self.program.clone().into_os_string());
        words.extend(self.args.iter().cloned());
        words
    }

    /// Decodes a plan from these words; `None` when they are not one.
    pub(super) fn decode(words: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut words = words.into_iter();
        let mut plan = Self::empty();
        let mut cwd = None;
        for word in words.by_ref().take_while(|word| word != END_OF_PLAN) {
            let bytes = word.as_bytes();
            let (name, value) = bytes.split_at(memchr::memchr(b'=', bytes)?);
            let value = OsStr::from_bytes(value.get(1..)?);
            let path = || PathBuf::from(value);
            match std::str::from_utf8(name).ok()? {
                "bubblewrap" => plan.mount_backend = MountBackend::Bubblewrap(path()),
                "walls" => plan.mount_backend = MountBackend::OwnNamespaces,
                "landlock" => plan.landlock = true,
                "files" => plan.files_open = true,
                "write" => plan.write.push(path()),
                "deny-write" => plan.deny_write.push(path()),
                "deny-read" => plan.deny_read.push(path()),
                "allow-read" => plan.allow_read.push(path()),
                "inet" => plan.sockets.inet = decode_inet(value)?,
                "unix" => plan.sockets.unix = true,
                "proxy" => plan.proxy = Some(path()),
                "processes" => plan.max_processes = Some(value.to_str()?.parse().ok()?),
                "memory" => plan.max_memory = Some(value.to_str()?.parse().ok()?),
                "env" => plan.env.push(value.to_owned()),
                "cwd" => cwd = Some(path()),
                _ => return None,
            }
        }
        let program = PathBuf::from(words.next()?);
        Some(Self { cwd: cwd?, program, args: words.collect(), ..plan })
    }

    fn empty() -> Self {
        Self {
            mount_backend: MountBackend::Absent,
            landlock: false,
            files_open: false,
            write: Vec::new(),
            deny_write: Vec::new(),
            deny_read: Vec::new(),
            allow_read: Vec::new(),
            sockets: SocketAccess { inet: InetAccess::None, unix: false },
            proxy: None,
            max_processes: None,
            max_memory: None,
            env: Vec::new(),
            cwd: PathBuf::new(),
            program: PathBuf::new(),
            args: Vec::new(),
        }
    }
}

fn decode_inet(value: &OsStr) -> Option<InetAccess> {
    match value.to_str()? {
        "none" => Some(InetAccess::None),
        "any" => Some(InetAccess::Any),
        _ => None,
    }
}

/// Access to a path in the file tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathAccess {
    /// As it is, also where its surroundings are hidden.
    Readable,
    Writable,
    ReadOnly,
    /// Empty and private, in memory.
    Private,
    /// Neither readable nor listable.
    Closed,
}

/// Returns the paths that exist and have not changed since they were resolved: one that resolves differently by now
/// was replaced by a symlink, whose target was never meant.
pub(super) fn unreplaced_paths(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().filter(|path| path.canonicalize().is_ok_and(|real| real == **path)).cloned().collect()
}

/// Returns the paths of a plan in mount order: parents before their content, so that the more specific one applies.
/// Only existing paths are included.
pub(super) fn mount_places(plan: &SandboxLaunchPlan) -> Vec<(PathBuf, PathAccess)> {
    if plan.files_open {
        return Vec::new();
    }
    let mut places: Vec<(PathBuf, PathAccess)> = vec![("/tmp".into(), PathAccess::Private)];
    let real =
        |paths: &[PathBuf]| -> Vec<PathBuf> { paths.iter().filter_map(|path| path.canonicalize().ok()).collect() };
    let writable = unreplaced_paths(&plan.write);
    let is_writable = |path: &Path| writable.iter().any(|root| path.starts_with(root));
    let closed = real(&plan.deny_read);
    let held = real(&plan.deny_write);
    for path in held.iter().chain(&closed).filter(|path| is_writable(path)) {
        // A folder that contains a mount can be renamed and recreated without it, unless it is a mount itself.
        let between = path.ancestors().skip(1).take_while(|dir| is_writable(dir));
        places.extend(between.map(|dir| (dir.to_owned(), PathAccess::Writable)));
    }
    places.extend(held.into_iter().filter(|path| is_writable(path)).map(|path| (path, PathAccess::ReadOnly)));
    for path in unreplaced_paths(&plan.allow_read) {
        if path.starts_with("/tmp") || closed.iter().any(|closed| path.starts_with(closed)) {
            places.push((path, PathAccess::Readable));
        }
    }
    // Not where something is closed: commands say themselves where the next one begins.
    let cwd = plan.cwd.canonicalize().ok().filter(|cwd| !closed.iter().any(|closed| cwd.starts_with(closed)));
    places.extend(cwd.filter(|cwd| cwd.starts_with("/tmp")).map(|cwd| (cwd, PathAccess::Readable)));
    places.extend(writable.iter().map(|path| (path.clone(), PathAccess::Writable)));
    places.extend(expand_closed_root(closed, plan).into_iter().map(|path| (path, PathAccess::Closed)));
    // Of several entries for one path the strictest applies.
    places.sort_by(|(a, first), (b, second)| {
        (a.components().count(), a, std::cmp::Reverse(first)).cmp(&(
            b.components().count(),
            b,
            std::cmp::Reverse(second),
        ))
    });
    places.dedup_by(|later, earlier| later.0 == earlier.0);
    places
}

/// Replaces a closed root by all its entries: a mount on top of the root hides nothing from processes whose root it
/// is. Paths that the sandbox builds anew contain nothing to close, and paths that are opened by name stay open.
fn expand_closed_root(closed: Vec<PathBuf>, plan: &SandboxLaunchPlan) -> Vec<PathBuf> {
    let root = Path::new("/");
    if !closed.iter().any(|path| path == root) {
        return closed;
    }
    let inside = std::fs::read_dir(root).into_iter().flatten().flatten();
    // The target of a symlink is closed or opened by its own name.
    let inside = inside.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    let inside = inside.map(|entry| entry.path()).filter(|path| {
        let is_new = ["/dev", "/proc", "/tmp"].iter().any(|new| path == Path::new(new));
        !is_new && !plan.allow_read.contains(path) && !plan.write.contains(path)
    });
    closed.iter().filter(|path| *path != root).cloned().chain(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty_plan() -> SandboxLaunchPlan {
        SandboxLaunchPlan {
            cwd: "/usr".into(),
            program: "/bin/true".into(),
            args: vec!["true".into()],
            ..SandboxLaunchPlan::empty()
        }
    }

    #[test]
    fn a_plan_survives_the_trip() {
        let odd = OsString::from_vec(b"/a=b\xff".to_vec());
        let plans = [
            empty_plan(),
            SandboxLaunchPlan {
                mount_backend: MountBackend::Bubblewrap("/usr/bin/bwrap".into()),
                landlock: true,
                write: vec![odd.clone().into(), "/b".into()],
                deny_write: vec!["/b/c".into()],
                deny_read: vec!["/d".into()],
                allow_read: vec!["/d/e".into()],
                sockets: SocketAccess { inet: InetAccess::Any, unix: true },
                proxy: Some("/run/p".into()),
                max_processes: Some(7),
                max_memory: Some(1 << 40),
                files_open: true,
                env: vec!["LD_PRELOAD=/x=y".into()],
                args: vec!["x".into(), "--".into(), odd],
                ..empty_plan()
            },
            SandboxLaunchPlan {
                mount_backend: MountBackend::OwnNamespaces,
                sockets: SocketAccess { inet: InetAccess::Any, unix: false },
                ..empty_plan()
            },
        ];
        for plan in plans {
            assert_eq!(SandboxLaunchPlan::decode(plan.encode()), Some(plan));
        }
        assert_eq!(SandboxLaunchPlan::decode(["nonsense".into()]), None);
        assert_eq!(SandboxLaunchPlan::decode(["cwd=/".into(), "--".into()]), None);
    }

    #[test]
    fn the_more_specific_place_comes_later_and_the_strictest_claim_wins() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("w/.git/hooks")).unwrap();
        std::fs::create_dir_all(root.join("w/secret")).unwrap();
        std::fs::create_dir_all(root.join("w/around/hidden")).unwrap();
        let plan = SandboxLaunchPlan {
            write: vec![root.join("w"), root.join("w/secret"), root.join("absent")],
            deny_write: vec![root.join("w/.git/hooks"), root.join("w/.mcp.json"), "/etc".into()],
            deny_read: vec![root.join("w/secret"), root.join("w/around/hidden")],
            ..empty_plan()
        };
        let expected = [
            (PathBuf::from("/tmp"), PathAccess::Private),
            (root.join("w"), PathAccess::Writable),
            (root.join("w/.git"), PathAccess::Writable),
            (root.join("w/around"), PathAccess::Writable),
            (root.join("w/secret"), PathAccess::Closed),
            (root.join("w/.git/hooks"), PathAccess::ReadOnly),
            (root.join("w/around/hidden"), PathAccess::Closed),
        ];
        assert_eq!(mount_places(&plan), expected);
    }

    #[test]
    fn a_closed_root_closes_all_that_lies_in_it_but_what_is_opened() {
        let plan = SandboxLaunchPlan { deny_read: vec!["/".into()], allow_read: vec!["/usr".into()], ..empty_plan() };
        let places = mount_places(&plan);
        let is = |path: &str, place| places.contains(&(path.into(), place));
        assert!(is("/etc", PathAccess::Closed) && is("/var", PathAccess::Closed), "{places:?}");
        assert!(is("/usr", PathAccess::Readable) && is("/tmp", PathAccess::Private), "{places:?}");
        assert!(!places.iter().any(|(path, _)| ["/", "/usr/lib"].contains(&&*path.to_string_lossy())), "{places:?}");
    }
}
