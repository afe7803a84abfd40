//! The only room of gimlet that starts processes, and the only one with `unsafe`.
//!
//! A command is started by a small custodian process and kept by a keeper of its own, so that whatever the command
//! leaves behind (`setsid`, `nohup`, double forks, cleared environments) is found and ended with it, with the session,
//! or with gimlet itself, even after `kill -9`. This room never decides whether a command may run, never prints, never
//! reads its own environment, and never turns text into commands other than by handing a shell one argument.
//!
//! Linux only: subreapers, pidfds and `/proc` are what makes custody exact.

#[cfg(not(target_os = "linux"))]
compile_error!("gimlet runs on Linux only: custody of processes needs subreapers, pidfds and /proc");

mod ancestry;
mod background;
mod capture;
mod conceal;
mod custodian;
mod errand;
mod exec;
mod foreground;
mod memory;
mod procfs;
mod sandbox;
mod shell;
mod socket;
mod sweep;
mod sys;
mod text;
mod wire;

pub use ancestry::is_below_a_session;
pub use background::{BackgroundCommand, BackgroundState};
pub use capture::{CaptureLimits, Captured, Progress};
pub use conceal::{conceal_credentials, forbid_inspection};
pub use custodian::run_custodian_if_asked;
pub use errand::{Errand, ErrandError, KILL_GRACE};
pub use exec::{CustodianProgram, DirectoryReport, Exec, ExecConfig, ExecError, Exit, Running, Spawn, Stdin, Streams};
pub use foreground::{Ended, Finished, Foreground};
pub use memory::{MemoryGroup, MemoryGroupError, parse_memory_limit};
pub use sandbox::{
    Aftermath, Available, Backend, Bubblewrap, Census, Confinement, ConfinementSpec, Guard, HostAnswer, HostJudge,
    Layer, PROTECTED_IN_CLAUDE, ProbeOptions, Proxy, ProxyConfig, ProxyError, Reason, Refusal, Resolver,
    SANDBOX_SETUP_FAILED, Sandbox, SandboxError, SandboxPlace, Upstream, WEB_PORTS, can_confine, default_sandbox,
    is_host_pattern, probe, violations,
};
pub use shell::{
    Shell, ShellCommand, ShellConfig, ShellError, ShellRun, is_credential_name, known_environment, runs_zsh,
};
pub use sweep::{SweepError, Swept, sweep};
pub use text::for_model;
