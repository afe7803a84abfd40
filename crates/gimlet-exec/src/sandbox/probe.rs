//! Detection of the sandbox layers that this machine supports, by trying them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::sandbox_helper::{ARGUMENT, PROBE};
use super::sandbox_syscalls;
use crate::exec::{DirectoryReporter, Exec, SpawnRequest, StdinMode, StreamMode, is_runnable};

/// Timeout of a trial.
const PATIENCE: Duration = Duration::from_secs(5);
/// The running image, also when its file was replaced.
pub(super) const OWN_IMAGE: &str = "/proc/self/exe";
/// Paths at which bubblewrap is searched. Never in the working directory, which the model writes, nor through `PATH`,
/// which may lead there.
const BUBBLEWRAP_PATHS: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// Source of bubblewrap, and when it is used.
///
/// Namespaces of gimlet's own are preferred: mounts are opened by handle and through no symlink, so that a command
/// that still runs cannot swap a folder for a symlink while the next sandbox is set up. Bubblewrap takes paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BubblewrapChoice {
    /// From the usual paths, if gimlet cannot create namespaces itself.
    #[default]
    IfNeeded,
    /// From the usual places, before anything else.
    First,
    /// From this path, before anything else.
    At(PathBuf),
    /// From nowhere.
    Never,
}

/// Parts of the system that a trial may use. All by default; fewer for tests and for users who need to restrict it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeOptions {
    pub bubblewrap: BubblewrapChoice,
    /// True if the helper may create namespaces of its own.
    pub own_namespaces: bool,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self { bubblewrap: BubblewrapChoice::IfNeeded, own_namespaces: true }
    }
}

/// Program that sets up the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxBackend {
    /// Bubblewrap creates namespaces and mounts; the helper adds Landlock.
    Bubblewrap { path: PathBuf },
    /// The helper creates namespaces and mounts itself.
    Namespaces,
    /// Landlock and the filter of system calls alone.
    Landlock,
    /// Not available, with the reason.
    None { why: String },
}

/// One layer of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxLayer {
    /// A file tree of its own: read-only, with closed places and a small `/dev`.
    Mounts,
    /// Process, IPC, host name and user namespaces.
    Processes,
    /// A network with nothing in it.
    Network,
    /// The kernel's own rules for files, ports and signals.
    Landlock,
    /// The filter of system calls.
    SystemCalls,
}

impl SandboxLayer {
    pub const ALL: [Self; 5] = [Self::Mounts, Self::Processes, Self::Network, Self::Landlock, Self::SystemCalls];

    /// Returns a short name for display and for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mounts => "mounts",
            Self::Processes => "processes",
            Self::Network => "network",
            Self::Landlock => "landlock",
            Self::SystemCalls => "system calls",
        }
    }
}

/// Sandbox support of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSupport {
    pub backend: SandboxBackend,
    /// The version of Landlock; zero without it.
    pub landlock_abi: u32,
    /// Reasons why a better backend is not used.
    pub notes: Vec<String>,
}

impl SandboxSupport {
    /// Returns true if commands can be sandboxed at all.
    pub fn is_available(&self) -> bool {
        !matches!(self.backend, SandboxBackend::None { .. })
    }

    /// Returns the available layers.
    pub fn layers(&self) -> Vec<SandboxLayer> {
        let namespaces = matches!(self.backend, SandboxBackend::Bubblewrap { .. } | SandboxBackend::Namespaces);
        let stands = |layer: &SandboxLayer| match layer {
            SandboxLayer::Mounts | SandboxLayer::Processes | SandboxLayer::Network => namespaces,
            SandboxLayer::Landlock => self.is_available() && self.landlock_abi > 0,
            SandboxLayer::SystemCalls => self.is_available(),
        };
        SandboxLayer::ALL.into_iter().filter(stands).collect()
    }

    /// Returns the missing layers. While one is missing, being in the sandbox is no reason to allow a command without
    /// asking.
    pub fn missing_layers(&self) -> Vec<SandboxLayer> {
        let layers = self.layers();
        SandboxLayer::ALL.into_iter().filter(|layer| !layers.contains(layer)).collect()
    }
}

/// Detects the available layers by trying them under custody. Costs a few processes; call it once.
pub async fn probe_sandbox(exec: &Exec, options: &ProbeOptions) -> SandboxSupport {
    let landlock_abi = sandbox_syscalls::landlock_abi();
    let mut notes = Vec::new();
    let found = |backend, notes| SandboxSupport { backend, landlock_abi, notes };
    let own_first = options.bubblewrap == BubblewrapChoice::IfNeeded;
    for own in [own_first, !own_first] {
        let tried = if own {
            probe_own_namespaces(exec, options).await
        } else {
            probe_bubblewrap(exec, &options.bubblewrap).await
        };
        match tried {
            Ok(backend) => return found(backend, notes),
            Err(why) => notes.extend(why),
        }
    }
    if landlock_abi > 0 {
        return found(SandboxBackend::Landlock, notes);
    }
    notes.push("the kernel has no Landlock, or it is off (see lsm= on the kernel's command line)".to_owned());
    found(SandboxBackend::None { why: notes.join("; ") }, notes)
}

/// Returns the backend. The error is the reason why it is not available, or `None` if it was not requested.
async fn probe_own_namespaces(exec: &Exec, options: &ProbeOptions) -> Result<SandboxBackend, Option<String>> {
    if !options.own_namespaces {
        return Err(None);
    }
    match trial_succeeds(exec, OWN_IMAGE.into(), vec![ARGUMENT.into(), PROBE.into()], 0).await {
        true => Ok(SandboxBackend::Namespaces),
        false => Err(Some(explain_missing_namespaces().to_owned())),
    }
}

async fn probe_bubblewrap(exec: &Exec, wanted: &BubblewrapChoice) -> Result<SandboxBackend, Option<String>> {
    match find_bubblewrap(wanted) {
        Some(path) if trial_succeeds(exec, path.clone().into(), bubblewrap_trial_args(), TRIAL_CODE).await => {
            Ok(SandboxBackend::Bubblewrap { path })
        }
        Some(path) => Err(Some(format!("{} is there but cannot make namespaces", path.display()))),
        None if *wanted == BubblewrapChoice::Never => Err(None),
        None => Err(Some("bubblewrap is not installed (package bubblewrap)".to_owned())),
    }
}

fn find_bubblewrap(wanted: &BubblewrapChoice) -> Option<PathBuf> {
    let paths = match wanted {
        BubblewrapChoice::Never => Vec::new(),
        BubblewrapChoice::At(path) => vec![path.clone()],
        BubblewrapChoice::IfNeeded | BubblewrapChoice::First => BUBBLEWRAP_PATHS.map(PathBuf::from).to_vec(),
    };
    paths.into_iter().find(|path| is_runnable(path))
}

/// Exit code of the trial command: a program that does not run it is not bubblewrap.
const TRIAL_CODE: i32 = 73;

fn bubblewrap_trial_args() -> Vec<OsString> {
    let words = "--unshare-all --unshare-user --die-with-parent --ro-bind / / --dev /dev --proc /proc \
                 --perms 1777 --size 4096 --tmpfs /tmp -- /bin/sh -c";
    let trial = format!("exit {TRIAL_CODE}");
    words.split_whitespace().map(OsString::from).chain([trial.into()]).collect()
}

async fn trial_succeeds(exec: &Exec, program: OsString, args: Vec<OsString>, code: i32) -> bool {
    let spawn = SpawnRequest {
        program,
        args,
        cwd: "/".into(),
        env: Vec::new(),
        stdin: StdinMode::Null,
        streams: StreamMode::Merged,
        report: DirectoryReporter::Disabled,
        confinement: None,
    };
    let Ok(mut running) = exec.spawn(spawn).await else { return false };
    matches!(tokio::time::timeout(PATIENCE, running.wait()).await, Ok(Ok(exit)) if exit.code == Some(code))
}

/// Returns the setting that most likely forbids user namespaces, judged by the system's own files.
fn explain_missing_namespaces() -> &'static str {
    let says = |file: &str, value: &str| {
        std::fs::read_to_string(Path::new("/proc/sys").join(file)).is_ok_and(|text| text.trim() == value)
    };
    if says("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor forbids user namespaces (kernel.apparmor_restrict_unprivileged_userns=1)"
    } else if says("kernel/unprivileged_userns_clone", "0") {
        "user namespaces are off (kernel.unprivileged_userns_clone=0)"
    } else if says("user/max_user_namespaces", "0") {
        "user namespaces are off (user.max_user_namespaces=0)"
    } else {
        "user namespaces cannot be made here, as in most containers"
    }
}
