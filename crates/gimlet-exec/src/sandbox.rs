//! The sandbox of commands: what a [`SandboxSpec`] says, held by the kernel.
//!
//! Gimlet never enters a sandbox itself. A sandboxed command is an ordinary one whose program is gimlet's helper (this
//! binary again), which puts the walls up and then becomes the command; custody works as for any other. A wall that was
//! promised and cannot be put up means that the command does not run.
//!
//! Linux only. What can be had is found out by [`probe`]; nothing here decides whether a command has to be sandboxed.

mod bubblewrap;
mod census;
mod confinement;
mod credentials;
mod defaults;
mod environment;
mod fellows;
mod git_places;
mod gitconfig;
mod guard;
mod helper;
mod kernel;
mod landlock;
mod leads;
mod mounts;
mod noting;
mod plan;
mod probe;
mod proxy;
mod reach;
mod relay;
mod seccomp;
mod small;
mod state;
mod violations;
mod watched;
mod way;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use gimlet_proto::{SandboxNetwork, SandboxSpec};

use crate::exec::{Spawn, find_in_path};
pub use census::Census;
pub(crate) use confinement::enforce as enforce_confinement;
pub use confinement::{Confinement, ConfinementSpec, can_confine};
pub use defaults::{PROTECTED_IN_CLAUDE, SandboxPlace, default_sandbox};
pub(crate) use environment::has_credentials;
pub use guard::Guard;
pub use helper::SETUP_FAILED as SANDBOX_SETUP_FAILED;
pub(crate) use helper::{ARGUMENT as HELPER_ARGUMENT, run_if_asked};
use plan::{Plan, Walls};
pub use probe::{Available, Backend, Bubblewrap, Layer, ProbeOptions, probe};
pub use proxy::{
    HostAnswer, HostJudge, Proxy, ProxyConfig, ProxyError, Reason, Refusal, Resolver, Upstream, WEB_PORTS,
    is_host_pattern,
};
use seccomp::{Inet, Sockets};
pub use violations::{Aftermath, violations};

/// Why a command cannot be put into a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("there is no sandbox here: {why}")]
    Unavailable { why: String },
    #[error("the sandbox reaches allowed hosts through a proxy, and none is running")]
    NoProxy,
    #[error("without a network namespace a command cannot be held to the allowed hosts")]
    NoNetworkWall,
    #[error("cannot start {program:?}: there is no such program in PATH")]
    NotFound { program: OsString },
    #[error("bubblewrap at {path} is in a folder that the command may write", path = path.display())]
    BubblewrapInReach { path: PathBuf },
}

/// Walls around commands, as one spec wants them and this machine can build them.
#[derive(Debug, Clone)]
pub struct Sandbox {
    spec: SandboxSpec,
    available: Available,
    proxy_socket: Option<PathBuf>,
}

impl Sandbox {
    /// `proxy_socket` is where gimlet's proxy listens; needed for a spec whose network is not off.
    pub fn new(spec: SandboxSpec, available: Available, proxy_socket: Option<PathBuf>) -> Result<Self, SandboxError> {
        let wants_proxy = spec.network != SandboxNetwork::Off;
        match &available.backend {
            Backend::None { why } => return Err(SandboxError::Unavailable { why: why.clone() }),
            Backend::Bubblewrap { path } if is_in(path, &spec.write) => {
                return Err(SandboxError::BubblewrapInReach { path: path.clone() });
            }
            // Landlock knows ports but no addresses: who may connect to the proxy's port could do so anywhere.
            Backend::Landlock if wants_proxy => return Err(SandboxError::NoNetworkWall),
            Backend::Bubblewrap { .. } | Backend::Namespaces | Backend::Landlock => {}
        }
        if wants_proxy && proxy_socket.is_none() {
            return Err(SandboxError::NoProxy);
        }
        Ok(Self { spec: look_up(spec), available, proxy_socket })
    }

    /// What it was made from, with links followed in what may be written or read.
    pub fn spec(&self) -> &SandboxSpec {
        &self.spec
    }

    pub fn available(&self) -> &Available {
        &self.available
    }

    /// The same walls, which hold these paths as they are as well.
    pub fn holding(&self, paths: &[PathBuf]) -> Self {
        let mut sandbox = self.clone();
        sandbox.spec.deny_write.extend_from_slice(paths);
        sandbox
    }

    /// The same walls, in which these paths cannot be read either.
    pub fn closing(mut self, paths: &[PathBuf]) -> Self {
        self.spec.deny_read.extend_from_slice(paths);
        self
    }

    /// The same command inside the sandbox. `needed` are files that it reads wherever they are.
    pub fn wrap(&self, spawn: Spawn, needed: &[&Path]) -> Result<Spawn, SandboxError> {
        let path = spawn.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let program = find_in_path(&spawn.program, path, &spawn.cwd)
            .ok_or_else(|| SandboxError::NotFound { program: spawn.program.clone() })?;
        let split = environment::prepare(spawn.env, &self.spec);
        let mut env = split.env;
        env.retain(|(name, _)| !environment::is_proxy_name(name));
        let mut plan = self.plan(spawn.cwd.clone(), program);
        plan.env = split.held_back;
        plan.args = std::iter::once(spawn.program).chain(spawn.args).collect();
        plan.allow_read.extend(needed.iter().map(|path| real(path)));
        let mut args: Vec<OsString> = vec![helper::ARGUMENT.into(), helper::OUTER.into()];
        args.extend(plan.encode());
        Ok(Spawn { program: probe::OWN_IMAGE.into(), args, env, ..spawn })
    }

    fn plan(&self, cwd: PathBuf, program: PathBuf) -> Plan {
        let walls = match &self.available.backend {
            Backend::Bubblewrap { path } => Walls::Bubblewrap(path.clone()),
            Backend::Namespaces => Walls::Own,
            Backend::Landlock | Backend::None { .. } => Walls::Absent,
        };
        let spec = &self.spec;
        let proxy = self.proxy_socket.clone().filter(|_| spec.network != SandboxNetwork::Off);
        // Without a namespace "local" would be the whole machine.
        let is_apart = walls != Walls::Absent;
        let inet = if is_apart && (proxy.is_some() || spec.local_sockets) { Inet::Any } else { Inet::None };
        Plan {
            walls,
            landlock: self.available.landlock_abi > 0,
            files_open: spec.files_open,
            write: spec.write.iter().chain(&spec.temp_dir).cloned().collect(),
            deny_write: spec.deny_write.iter().chain(&spec.own).cloned().collect(),
            deny_read: spec.deny_read.clone(),
            allow_read: spec.allow_read.clone(),
            sockets: Sockets { inet, unix: spec.unix_sockets },
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

/// Follows links now, once and for all: whoever may write a folder could replace what lies in it by a link before the
/// next command, and would get whatever that leads to.
fn look_up(mut spec: SandboxSpec) -> SandboxSpec {
    let led: Vec<(PathBuf, PathBuf)> = spec.write.iter().map(|path| (path.clone(), real(path))).collect();
    for (spelled, real) in led.iter().filter(|(spelled, real)| spelled != real) {
        // What is closed or held there is so under either name.
        for list in [&mut spec.deny_write, &mut spec.deny_read] {
            let below = list.iter().filter_map(|path| Some(real.join(path.strip_prefix(spelled).ok()?)));
            let below: Vec<PathBuf> = below.collect();
            list.extend(below);
        }
    }
    spec.write = led.into_iter().map(|(_, real)| real).collect();
    spec.allow_read = spec.allow_read.iter().map(|path| real(path)).collect();
    spec.temp_dir = spec.temp_dir.map(|path| real(&path));
    spec
}

/// A path without links; one that is not there goes through its deepest ancestor that is.
fn real(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match there.and_then(|(ancestor, real)| Some((path.strip_prefix(ancestor).ok()?, real))) {
        Some((rest, real)) if rest.as_os_str().is_empty() => real,
        Some((rest, real)) => real.join(rest),
        None => path.to_owned(),
    }
}

fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}
