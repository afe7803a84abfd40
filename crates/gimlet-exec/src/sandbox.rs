//! The sandbox of commands: a [`SandboxSpec`], enforced by the kernel.
//!
//! Gimlet never enters a sandbox itself. A sandboxed command is an ordinary one whose program is gimlet's helper
//! (this binary again), which sets up the sandbox and then becomes the command; custody works as for any other. If a
//! required layer cannot be set up, the command does not run.
//!
//! Linux only. [`probe`] determines what is available; nothing here decides whether a command has to be sandboxed.

mod bubblewrap;
mod confinement;
mod credential_stores;
mod default_spec;
mod dir_handle;
mod git_config_check;
mod git_config_refs;
mod landlock;
mod launch_plan;
mod mounts;
mod path_state;
mod probe;
mod protected_path;
mod proxy;
mod proxy_relay;
mod repo_scan;
mod repository_paths;
mod restore_log;
mod sandbox_env;
mod sandbox_helper;
mod sandbox_syscalls;
mod seccomp;
mod snapshot_builder;
mod symlinks;
mod tamper_guard;
mod violations;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use gimlet_proto::{NetworkAccess, SandboxSpec};

use crate::exec::{SpawnRequest, find_in_path};
pub(crate) use confinement::enforce as enforce_confinement;
pub use confinement::{Confinement, ConfinementSpec, can_confine};
pub use default_spec::{PROTECTED_IN_CLAUDE, SandboxPlace, default_sandbox_spec};
use launch_plan::{MountBackend, SandboxLaunchPlan};
pub use probe::{BubblewrapChoice, ProbeOptions, SandboxBackend, SandboxLayer, SandboxSupport, probe_sandbox};
pub use proxy::{
    HostDecision, HostJudge, HostResolver, ProxyConfig, ProxyError, ProxyRefusal, RefusalReason, SandboxProxy,
    UpstreamProxies, WEB_PORTS, is_host_pattern, is_public_address,
};
pub use repo_scan::RepoScanner;
pub(crate) use sandbox_env::has_credentials;
pub use sandbox_helper::SETUP_FAILED as SANDBOX_SETUP_FAILED;
pub(crate) use sandbox_helper::{ARGUMENT as HELPER_ARGUMENT, run_sandbox_helper_if_asked};
use seccomp::{InetAccess, SocketAccess};
pub use tamper_guard::TamperGuard;
pub use violations::{SandboxOutcome, find_refusal_line, find_violations};

/// Reason why a command cannot be sandboxed.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("there is no sandbox here: {why}")]
    Unavailable { why: String },
    #[error("the sandbox reaches allowed hosts through a proxy, and none is running")]
    NoProxy,
    #[error("without a network namespace a command cannot be held to the allowed hosts")]
    NoNetworkIsolation,
    #[error("cannot start {program:?}: there is no such program in PATH")]
    NotFound { program: OsString },
    #[error("bubblewrap at {path} is in a folder that the command may write", path = path.display())]
    BubblewrapWritable { path: PathBuf },
}

/// Sandbox for commands, as a spec requires it and this machine supports it.
#[derive(Debug, Clone)]
pub struct Sandbox {
    spec: SandboxSpec,
    available: SandboxSupport,
    proxy_socket: Option<PathBuf>,
}

impl Sandbox {
    /// Creates a sandbox. `proxy_socket` is the socket of gimlet's proxy; required for a spec whose network is not
    /// off.
    pub fn new(
        spec: SandboxSpec,
        available: SandboxSupport,
        proxy_socket: Option<PathBuf>,
    ) -> Result<Self, SandboxError> {
        let wants_proxy = spec.network != NetworkAccess::Off;
        match &available.backend {
            SandboxBackend::None { why } => return Err(SandboxError::Unavailable { why: why.clone() }),
            SandboxBackend::Bubblewrap { path } if is_inside_any(path, &spec.write) => {
                return Err(SandboxError::BubblewrapWritable { path: path.clone() });
            }
            // Landlock knows ports but no addresses: who may connect to the proxy's port could do so anywhere.
            SandboxBackend::Landlock if wants_proxy => return Err(SandboxError::NoNetworkIsolation),
            SandboxBackend::Bubblewrap { .. } | SandboxBackend::Namespaces | SandboxBackend::Landlock => {}
        }
        if wants_proxy && proxy_socket.is_none() {
            return Err(SandboxError::NoProxy);
        }
        Ok(Self { spec: resolve_spec_symlinks(spec), available, proxy_socket })
    }

    /// Returns the spec that it was made from, with symlinks resolved in the writable and readable paths.
    pub fn spec(&self) -> &SandboxSpec {
        &self.spec
    }

    pub fn support(&self) -> &SandboxSupport {
        &self.available
    }

    /// Returns this sandbox with these paths read-only as well.
    pub fn with_read_only_paths(&self, paths: &[PathBuf]) -> Self {
        let mut sandbox = self.clone();
        sandbox.spec.deny_write.extend_from_slice(paths);
        sandbox
    }

    /// Returns this sandbox with these paths unreadable as well.
    pub fn with_unreadable_paths(mut self, paths: &[PathBuf]) -> Self {
        self.spec.deny_read.extend_from_slice(paths);
        self
    }

    /// Wraps the command so that it runs inside the sandbox. `needed` are files that it reads wherever they are.
    pub fn wrap_spawn(&self, spawn: SpawnRequest, needed: &[&Path]) -> Result<SpawnRequest, SandboxError> {
        let path = spawn.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let program = find_in_path(&spawn.program, path, &spawn.cwd)
            .ok_or_else(|| SandboxError::NotFound { program: spawn.program.clone() })?;
        let split = sandbox_env::split_environment(spawn.env, &self.spec);
        let mut env = split.env;
        env.retain(|(name, _)| !sandbox_env::is_proxy_name(name));
        let mut plan = self.build_plan(spawn.cwd.clone(), program);
        plan.env = split.held_back;
        plan.args = std::iter::once(spawn.program).chain(spawn.args).collect();
        plan.allow_read.extend(needed.iter().map(|path| resolve_existing_prefix(path)));
        let mut args: Vec<OsString> = vec![sandbox_helper::ARGUMENT.into(), sandbox_helper::OUTER.into()];
        args.extend(plan.encode());
        Ok(SpawnRequest { program: probe::OWN_IMAGE.into(), args, env, ..spawn })
    }

    fn build_plan(&self, cwd: PathBuf, program: PathBuf) -> SandboxLaunchPlan {
        let walls = match &self.available.backend {
            SandboxBackend::Bubblewrap { path } => MountBackend::Bubblewrap(path.clone()),
            SandboxBackend::Namespaces => MountBackend::OwnNamespaces,
            SandboxBackend::Landlock | SandboxBackend::None { .. } => MountBackend::Absent,
        };
        let spec = &self.spec;
        let proxy = if spec.network == NetworkAccess::Off { None } else { self.proxy_socket.clone() };
        // Without a namespace "local" would be the whole machine.
        let is_apart = walls != MountBackend::Absent;
        let inet = if is_apart && (proxy.is_some() || spec.local_sockets) { InetAccess::Any } else { InetAccess::None };
        SandboxLaunchPlan {
            mount_backend: walls,
            landlock: self.available.landlock_abi > 0,
            files_open: spec.files_open,
            write: spec.write.iter().chain(&spec.temp_dir).cloned().collect(),
            deny_write: spec.deny_write.iter().chain(&spec.own).cloned().collect(),
            deny_read: spec.deny_read.clone(),
            allow_read: spec.allow_read.clone(),
            sockets: SocketAccess { inet, unix: spec.unix_sockets },
            proxy,
            max_processes: spec.max_processes,
            max_memory: spec.max_memory,
            env: Vec::new(),
            cwd,
            program,
            args: Vec::new(),
        }
    }
}

/// Resolves symlinks once, in advance: a command that may write a folder could replace an entry by a symlink before
/// the next command, and would gain access to the symlink's target.
fn resolve_spec_symlinks(mut spec: SandboxSpec) -> SandboxSpec {
    let led: Vec<(PathBuf, PathBuf)> =
        spec.write.iter().map(|path| (path.clone(), resolve_existing_prefix(path))).collect();
    for (spelled, real) in led.iter().filter(|(spelled, real)| spelled != real) {
        // Denied and protected paths are so under either name.
        for list in [&mut spec.deny_write, &mut spec.deny_read] {
            let below = list.iter().filter_map(|path| Some(real.join(path.strip_prefix(spelled).ok()?)));
            let below: Vec<PathBuf> = below.collect();
            list.extend(below);
        }
    }
    spec.write = led.into_iter().map(|(_, real)| real).collect();
    spec.allow_read = spec.allow_read.iter().map(|path| resolve_existing_prefix(path)).collect();
    spec.temp_dir = spec.temp_dir.map(|path| resolve_existing_prefix(&path));
    spec
}

/// Resolves symlinks in a path; for a missing one, in its deepest existing ancestor.
fn resolve_existing_prefix(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match there.and_then(|(ancestor, real)| Some((path.strip_prefix(ancestor).ok()?, real))) {
        Some((rest, real)) if rest.as_os_str().is_empty() => real,
        Some((rest, real)) => real.join(rest),
        None => path.to_owned(),
    }
}

fn is_inside_any(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}
