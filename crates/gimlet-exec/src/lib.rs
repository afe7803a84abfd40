//! The only crate of gimlet that starts processes, and the only one with `unsafe`.
//!
//! A command is started by a small custodian process and kept by a keeper of its own, so that all processes that the
//! command leaves behind (`setsid`, `nohup`, double forks, cleared environments) are found and ended with it, with
//! the session, or with gimlet itself, even after `kill -9`. This crate never decides whether a command may run,
//! never prints, never reads its own environment, and never turns text into commands other than by passing a shell
//! one argument.
//!
//! Linux only: custody relies on subreapers, pidfds and `/proc`.

#[cfg(not(target_os = "linux"))]
compile_error!("gimlet runs on Linux only: custody of processes needs subreapers, pidfds and /proc");

mod ancestry;
mod background;
mod capture;
mod captured_command;
mod custodian;
mod custody_wire;
mod exec;
mod foreground;
mod helper_command;
mod hide_credentials;
mod memory_group;
mod message_socket;
mod orphans;
mod procfs;
mod sandbox;
mod shell;
mod sys;
mod terminal_program;
mod terminal_text;

pub use ancestry::is_started_by_session;
pub use background::{BackgroundCommand, BackgroundState};
pub use capture::{CaptureLimits, CapturedOutput, OutputProgress};
pub use captured_command::{CapturedCommand, CapturedRun, CapturedStream};
pub use custodian::run_custodian_if_asked;
pub use exec::{
    CommandExit, CustodianProgram, DirectoryReporter, Exec, ExecConfig, ExecError, RunningCommand, SpawnRequest,
    StdinMode, StreamMode,
};
pub use foreground::{CommandEnd, FinishedCommand, ForegroundCommand};
pub use helper_command::{HelperCommand, HelperCommandError, KILL_GRACE};
pub use hide_credentials::{forbid_inspection, hide_credentials};
pub use memory_group::{MemoryGroup, MemoryGroupError, parse_memory_limit};
pub use orphans::{SweepError, SweepReport, sweep_orphans};
pub use sandbox::{
    BubblewrapChoice, Confinement, ConfinementSpec, HostDecision, HostJudge, HostResolver, PROTECTED_IN_CLAUDE,
    ProbeOptions, ProxyConfig, ProxyError, ProxyRefusal, RefusalReason, RepoScanner, SANDBOX_SETUP_FAILED, Sandbox,
    SandboxBackend, SandboxError, SandboxLayer, SandboxOutcome, SandboxPlace, SandboxProxy, SandboxSupport,
    TamperGuard, UpstreamProxies, WEB_PORTS, can_confine, default_sandbox_spec, find_refusal_line, find_violations,
    is_host_pattern, is_public_address, probe_sandbox,
};
pub use shell::{
    InheritedEnv, Shell, ShellCommand, ShellConfig, ShellError, ShellRun, is_credential_name, known_environment,
    runs_zsh, service_environment,
};
pub use terminal_program::run_terminal_program;
pub use terminal_text::render_for_model;
