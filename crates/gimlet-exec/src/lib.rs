//! The only room of gimlet that starts processes, and the only one with `unsafe`.
//!
//! A command is started by a small custodian process and kept by a keeper of its own, so that whatever the command
//! leaves behind (`setsid`, `nohup`, double forks, cleared environments) is found and ended with it, with the session,
//! or with gimlet itself, even after `kill -9`. This room never decides whether a command may run, never prints, never
//! reads its own environment, and never turns text into commands other than by handing a shell one argument.
//!
//! Linux only: subreapers, pidfds and `/proc` are what makes custody exact. Elsewhere only the pure parts exist.

mod text;

#[cfg(target_os = "linux")]
mod ancestry;
#[cfg(target_os = "linux")]
mod background;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod conceal;
#[cfg(target_os = "linux")]
mod custodian;
#[cfg(target_os = "linux")]
mod errand;
#[cfg(target_os = "linux")]
mod exec;
#[cfg(target_os = "linux")]
mod foreground;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod sweep;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(target_os = "linux")]
pub use ancestry::is_below_a_session;
#[cfg(target_os = "linux")]
pub use background::{BackgroundCommand, BackgroundState};
#[cfg(target_os = "linux")]
pub use capture::{CaptureLimits, Captured, Progress};
#[cfg(target_os = "linux")]
pub use conceal::{conceal_credentials, forbid_inspection};
#[cfg(target_os = "linux")]
pub use custodian::run_custodian_if_asked;
#[cfg(target_os = "linux")]
pub use errand::{Errand, ErrandError, KILL_GRACE};
#[cfg(target_os = "linux")]
pub use exec::{CustodianProgram, Exec, ExecConfig, ExecError, Exit, Running, Spawn, Stdin, Streams};
#[cfg(target_os = "linux")]
pub use foreground::{Ended, Finished, Foreground};
#[cfg(target_os = "linux")]
pub use memory::{MemoryGroup, MemoryGroupError, parse_memory_limit};
#[cfg(target_os = "linux")]
pub use sandbox::{
    Aftermath, Available, Backend, Bubblewrap, Census, Guard, HostAnswer, HostJudge, Layer, ProbeOptions, Proxy,
    ProxyConfig, ProxyError, Reason, Refusal, Resolver, SANDBOX_SETUP_FAILED, Sandbox, SandboxError, SandboxPlace,
    Upstream, WEB_PORTS, default_sandbox, probe, violations,
};
#[cfg(target_os = "linux")]
pub use shell::{Shell, ShellCommand, ShellConfig, ShellError, ShellRun, is_credential_name};
#[cfg(target_os = "linux")]
pub use sweep::{SweepError, Swept, sweep};
pub use text::for_model;
