//! The helper: gimlet's own binary between a keeper and a sandboxed command. It sets up the sandbox and becomes the
//! command, or exits with [`SETUP_FAILED`]; it never runs the command with a layer missing.
//!
//! The command is its child and shares its working directory, so that the helper can report where the command ended.
//! With namespaces of its own there is one more process, which waits outside and exits as the command did. With
//! bubblewrap it becomes bubblewrap, which runs it again inside. All of them die with the process that the keeper
//! knows.

use std::ffi::{CStr, CString, OsString};
use std::io::{self, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::MemfdFlags;
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions};
use rustix::thread::CapabilitySet;

use super::launch_plan::{MountBackend, SandboxLaunchPlan, mount_places};
use super::mounts::MountError;
use super::sandbox_syscalls::{self, SignalDisposition};
use super::seccomp::ProcessVisibility;
use super::{bubblewrap, landlock, mounts, proxy_relay, seccomp};
use crate::custodian::REPORT_DESCRIPTOR;
use crate::sys::{self, ForkSide};

/// The first argument that makes the binary a helper.
pub(crate) const ARGUMENT: &str = "__sandbox";
/// Exit code when the sandbox could not be set up. The command has not run.
pub const SETUP_FAILED: i32 = 125;
/// Exit codes of a shell for a command that cannot be run, and for one that does not exist.
const NOT_RUNNABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
/// The second argument, for each of the things that a helper can be.
pub(super) const OUTER: &str = "outer";
const INNER: &str = "inner";
pub(super) const PROBE: &str = "probe";

const NAME: &CStr = c"cmd-sandbox";
/// First descriptor number for a helper inside bubblewrap, which no command is given.
const FIRST_HANDED_ON: RawFd = 20;
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Reason why the sandbox could not be set up.
#[derive(Debug, thiserror::Error)]
enum SandboxSetupError {
    #[error("its plan is not understood")]
    Plan,
    #[error("{doing} failed: {source}")]
    Step { doing: &'static str, source: io::Error },
    #[error("{doing} {path} failed: {source}", path = path.display())]
    Mount { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("{program} cannot be run: {source}", program = program.display())]
    Program { program: PathBuf, source: io::Error },
    /// The sandbox was set up, but the command could not be run.
    #[error("{program} cannot be run: {source}", program = program.display())]
    Command { program: PathBuf, source: io::Error },
}

impl SandboxSetupError {
    /// Prints the error of a helper that does not become the command, and exits: as a shell would, if the command is
    /// at fault.
    fn exit_with_message(&self) -> ! {
        let (blame, code) = match self {
            Self::Command { source, .. } if source.kind() == io::ErrorKind::NotFound => ("", NOT_FOUND),
            Self::Command { .. } => ("", NOT_RUNNABLE),
            _ => ("the sandbox was not set up: ", SETUP_FAILED),
        };
        // Standard error is the command's; there is no other channel for the message.
        drop(writeln!(io::stderr(), "gimlet: {blame}{self}"));
        sys::exit_now(code)
    }
}

impl From<MountError> for SandboxSetupError {
    fn from(MountError { doing, path, source }: MountError) -> Self {
        Self::Mount { doing, path, source }
    }
}

fn setup_error_at<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> SandboxSetupError {
    move |source| SandboxSetupError::Step { doing, source: source.into() }
}

/// Turns the process into a helper when it was started as one; otherwise returns at once.
pub(crate) fn run_sandbox_helper_if_asked() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_none_or(|argument| argument != ARGUMENT) {
        return;
    }
    let kind = args.next().unwrap_or_default();
    let _ = rustix::thread::set_name(NAME);
    let failed = match kind.to_str() {
        Some(PROBE) => sys::exit_now(run_probe()),
        Some(OUTER) => run_outer(args.collect()),
        Some(INNER) => run_inner(args),
        _ => SandboxSetupError::Plan,
    };
    failed.exit_with_message()
}

/// Runs the outer helper. Returns only on failure, with the reason.
fn run_outer(words: Vec<OsString>) -> SandboxSetupError {
    let Some(plan) = SandboxLaunchPlan::decode(words.iter().cloned()) else { return SandboxSetupError::Plan };
    let outcome = match &plan.mount_backend {
        MountBackend::Bubblewrap(program) => exec_bubblewrap(&plan, program, words),
        MountBackend::OwnNamespaces => run_in_own_namespaces(&plan),
        MountBackend::Absent => run_as_parent(&plan, None),
    };
    match outcome {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// Type of a function that never returns.
enum NeverReturns {}

fn exec_bubblewrap(
    plan: &SandboxLaunchPlan,
    program: &Path,
    words: Vec<OsString>,
) -> Result<NeverReturns, SandboxSetupError> {
    let code = sandbox_syscalls::filter_bytes(&seccomp::build_early_filter(bubblewrap_filter(plan)));
    let filter =
        rustix::fs::memfd_create("filter", MemfdFlags::CLOEXEC).map_err(setup_error_at("making the filter"))?;
    let mut file = std::fs::File::from(filter);
    file.write_all(&code).and_then(|()| io::Seek::rewind(&mut file)).map_err(setup_error_at("writing the filter"))?;
    let filter = keep_across_exec(&OwnedFd::from(file))?;
    // By handle: the file may be replaced or hidden by the time that bubblewrap runs it.
    let own = std::fs::File::open("/proc/self/exe").map_err(setup_error_at("opening the helper"))?;
    let own = keep_across_exec(&OwnedFd::from(own))?;
    let mut args = vec![OsString::from("bwrap")];
    args.extend(bubblewrap::bubblewrap_arguments(plan, filter));
    args.extend([format!("/proc/self/fd/{own}").into(), ARGUMENT.into(), INNER.into()]);
    let proxy = plan
        .proxy
        .as_deref()
        .map(proxy_relay::open_socket_handle)
        .transpose()
        .map_err(setup_error_at("opening the proxy"))?;
    args.push(proxy.as_ref().map(keep_across_exec).transpose()?.map_or_else(String::new, |fd| fd.to_string()).into());
    args.extend(words);
    // Killing the command ends bubblewrap with it; on SIGTERM, bubblewrap leaves the reaction to the command.
    sandbox_syscalls::set_termination_disposition(SignalDisposition::Ignore);
    let env = inherited_variables().collect::<Option<Vec<_>>>();
    let (Some(args), Some(env)) = (args.into_iter().map(to_c_string).collect::<Option<Vec<_>>>(), env) else {
        return Err(SandboxSetupError::Plan);
    };
    let path = to_c_string(program.into()).ok_or(SandboxSetupError::Plan)?;
    Err(SandboxSetupError::Program {
        program: program.into(),
        source: sandbox_syscalls::exec_program(&path, &args, &env),
    })
}

/// Returns the socket access of bubblewrap's filter, which applies to the relay too, which needs a Unix socket; the
/// command gets a filter of its own on top.
fn bubblewrap_filter(plan: &SandboxLaunchPlan) -> seccomp::SocketAccess {
    seccomp::SocketAccess { unix: plan.sockets.unix || plan.proxy.is_some(), ..plan.sockets }
}

/// Returns a descriptor number that survives into the next program.
fn keep_across_exec(descriptor: &OwnedFd) -> Result<RawFd, SandboxSetupError> {
    let copy = rustix::io::fcntl_dupfd_cloexec(descriptor, FIRST_HANDED_ON)
        .map_err(setup_error_at("handing on a descriptor"))?;
    rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).map_err(setup_error_at("handing on a descriptor"))?;
    Ok(std::os::fd::IntoRawFd::into_raw_fd(copy))
}

/// Runs inside bubblewrap, which has set up the mounts, the namespaces and the filter.
fn run_inner(mut words: impl Iterator<Item = OsString>) -> SandboxSetupError {
    let proxy = words.next().and_then(|number| number.to_str()?.parse().ok());
    let Some(plan) = SandboxLaunchPlan::decode(words) else { return SandboxSetupError::Plan };
    let start = || -> Result<NeverReturns, SandboxSetupError> {
        let port = proxy.map(|number| start_detached_relay(take_passed_descriptor(number)?)).transpose()?;
        run_as_parent(&plan, port)
    };
    match start() {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn take_passed_descriptor(number: RawFd) -> Result<OwnedFd, SandboxSetupError> {
    if number < FIRST_HANDED_ON {
        return Err(SandboxSetupError::Plan);
    }
    sandbox_syscalls::take_descriptor(number).map_err(setup_error_at("taking the proxy"))
}

/// Starts the relay detached, so that the command, which this process becomes, does not inherit a child.
fn start_detached_relay(proxy: OwnedFd) -> Result<u16, SandboxSetupError> {
    let (listener, port) = proxy_relay::listen().map_err(setup_error_at("opening the port of the proxy"))?;
    match sys::fork().map_err(setup_error_at("starting the relay"))? {
        ForkSide::Child => {
            if let Ok(ForkSide::Child) = sys::fork() {
                make_undumpable();
                proxy_relay::run_relay(&listener, &proxy);
            }
            sys::exit_now(0)
        }
        ForkSide::Parent(child) => {
            let _ = rustix::process::waitpid(Pid::from_raw(child), WaitOptions::empty());
            Ok(port)
        }
    }
}

fn run_in_own_namespaces(plan: &SandboxLaunchPlan) -> Result<NeverReturns, SandboxSetupError> {
    let proxy = plan
        .proxy
        .as_deref()
        .map(proxy_relay::open_socket_handle)
        .transpose()
        .map_err(setup_error_at("opening the proxy"))?;
    // Resolved before anything is hidden.
    let places = mount_places(plan);
    enter_own_namespaces()?;
    sandbox_syscalls::set_termination_disposition(SignalDisposition::Ignore);
    let (end, outcome) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(setup_error_at("opening a pipe"))?;
    match sys::fork().map_err(setup_error_at("starting the first process"))? {
        ForkSide::Parent(first) => {
            drop(outcome);
            redirect_streams_to_null();
            let ended = rustix::process::waitpid(Pid::from_raw(first), WaitOptions::empty());
            let mut status = [0; 4];
            match rustix::io::read(&end, &mut status) {
                Ok(4) => exit_like(i32::from_ne_bytes(status)),
                // The first process failed, or was killed and with it everything in its namespace.
                _ => exit_like(ended.ok().flatten().map_or(libc::SIGKILL, |(_, status)| status.as_raw())),
            }
        }
        ForkSide::Child => {
            drop(end);
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            if plan.files_open {
                mounts::build_open_tree()?
            } else {
                mounts::build_tree(&places)?
            }
            sandbox_syscalls::bring_up_loopback().map_err(setup_error_at("raising the loopback interface"))?;
            let status = run_and_wait(plan, proxy.as_ref())?;
            let _ = rustix::io::write(&outcome, &status.to_ne_bytes());
            sys::exit_now(0)
        }
    }
}

/// Enters new namespaces, with this user as the only one in them.
fn enter_own_namespaces() -> Result<(), SandboxSetupError> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    sandbox_syscalls::enter_namespaces(NAMESPACES).map_err(setup_error_at("making namespaces"))?;
    let write = |file: &str, text: String| std::fs::write(file, text).map_err(setup_error_at("mapping the user"));
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Starts the relay, if there is a proxy, and the command; waits for the command, reports the directory that it ended
/// in and returns its raw status.
fn run_and_wait(plan: &SandboxLaunchPlan, proxy: Option<&OwnedFd>) -> Result<i32, SandboxSetupError> {
    let relay = proxy.map(start_relay).transpose()?;
    let status = run_and_report(plan, relay.as_ref().map(|(port, _)| *port))?;
    if let Some(relay) = relay.and_then(|(_, pid)| Pid::from_raw(pid)) {
        let _ = rustix::process::kill_process(relay, Signal::KILL);
    }
    Ok(status)
}

/// Runs the command as a child of this process, which ends as the command ended.
fn run_as_parent(plan: &SandboxLaunchPlan, proxy_port: Option<u16>) -> Result<NeverReturns, SandboxSetupError> {
    sandbox_syscalls::set_termination_disposition(SignalDisposition::Ignore);
    exit_like(run_and_report(plan, proxy_port)?)
}

/// Starts the command as a child that shares its working directory, waits for it and reports where it ended. The
/// command itself has no part in that: it has neither the descriptor nor a way to this process.
fn run_and_report(plan: &SandboxLaunchPlan, proxy_port: Option<u16>) -> Result<i32, SandboxSetupError> {
    make_undumpable();
    let command = match sys::fork_sharing_directory().map_err(setup_error_at("starting the command"))? {
        ForkSide::Child => {
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            match confine_and_run(plan, proxy_port) {
                Ok(never) => match never {},
                Err(error) => error.exit_with_message(),
            }
        }
        ForkSide::Parent(command) => command,
    };
    redirect_streams_to_null();
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == command => {
                report_directory();
                return Ok(status.as_raw());
            }
            // Orphans, the relay, or an interruption.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(setup_error_at("waiting for the command")(error)),
        }
    }
}

/// Reports the directory in which the command ended, which it shares with this process.
fn report_directory() {
    let Ok(directory) = rustix::process::getcwd(Vec::new()) else { return };
    let Ok(report) = sandbox_syscalls::take_descriptor(REPORT_DESCRIPTOR) else { return };
    let mut line = directory.into_bytes();
    line.push(b'\n');
    let _ = rustix::io::write(&report, &line);
}

fn start_relay(proxy: &OwnedFd) -> Result<(u16, i32), SandboxSetupError> {
    let (listener, port) = proxy_relay::listen().map_err(setup_error_at("opening the port of the proxy"))?;
    match sys::fork().map_err(setup_error_at("starting the relay"))? {
        ForkSide::Child => {
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            make_undumpable();
            proxy_relay::run_relay(&listener, proxy)
        }
        ForkSide::Parent(pid) => Ok((port, pid)),
    }
}

/// Prevents all users but root from inspecting this process from here on.
fn make_undumpable() {
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Redirects the streams of a process that only waits, which must not hold the command's pipes: their end is the end
/// of its output.
fn redirect_streams_to_null() {
    let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") else { return };
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
}

/// Exits with the status of another process.
fn exit_like(status: i32) -> ! {
    let status = <std::process::ExitStatus as std::os::unix::process::ExitStatusExt>::from_raw(status);
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        sandbox_syscalls::die_by_signal(signal);
    }
    sys::exit_now(status.code().unwrap_or(SETUP_FAILED))
}

/// Performs the last steps, each of which also removes the means to undo the ones before; then runs the command.
fn confine_and_run(plan: &SandboxLaunchPlan, proxy_port: Option<u16>) -> Result<NeverReturns, SandboxSetupError> {
    let program = to_c_string(plan.program.clone().into_os_string()).ok_or(SandboxSetupError::Plan)?;
    let args = plan.args.iter().cloned().map(to_c_string).collect::<Option<Vec<_>>>().ok_or(SandboxSetupError::Plan)?;
    let env = command_environment(plan, proxy_port).ok_or(SandboxSetupError::Plan)?;
    rustix::process::chdir(&plan.cwd).map_err(setup_error_at("entering the working directory"))?;
    // Fails where the keeper or bubblewrap has done it already.
    let _ = rustix::process::setsid();
    limit_resources(plan)?;
    rustix::thread::set_no_new_privs(true).map_err(setup_error_at("giving up privileges"))?;
    if plan.landlock {
        landlock::enforce_plan(plan).map_err(setup_error_at("enforcing Landlock"))?;
    }
    drop_capabilities().map_err(setup_error_at("dropping capabilities"))?;
    sandbox_syscalls::set_termination_disposition(SignalDisposition::Default);
    sandbox_syscalls::close_from(3).map_err(setup_error_at("closing descriptors"))?;
    let neighbours =
        if plan.mount_backend == MountBackend::Absent { ProcessVisibility::Visible } else { ProcessVisibility::Hidden };
    sandbox_syscalls::enforce_filter(&mut seccomp::build_filter(plan.sockets, neighbours))
        .map_err(setup_error_at("enforcing the filter"))?;
    let source = sandbox_syscalls::exec_program(&program, &args, &env);
    Err(SandboxSetupError::Command { program: plan.program.clone(), source })
}

fn limit_resources(plan: &SandboxLaunchPlan) -> Result<(), SandboxSetupError> {
    let limit = |resource, most: u64| {
        // A limit that is lower already stays.
        let own = rustix::process::getrlimit(resource).maximum;
        let most = Some(own.map_or(most, |own| own.min(most)));
        rustix::process::setrlimit(resource, Rlimit { current: most, maximum: most })
            .map_err(setup_error_at("limiting resources"))
    };
    // A dump would hold what the command read, in a place that the system chooses.
    limit(Resource::Core, 0)?;
    if let Some(most) = plan.max_processes
        && plan.mount_backend != MountBackend::Absent
    {
        // Without a user namespace this would count all processes of the user.
        limit(Resource::Nproc, most)?;
    }
    // Memory that is really the process's own: address space alone is free, and some programs reserve a lot of it.
    plan.max_memory.map_or(Ok(()), |most| limit(Resource::Data, most))
}

fn drop_capabilities() -> Result<(), rustix::io::Errno> {
    // Only who may change the set has anything to take out of it.
    for bit in 0..64 {
        let _ = rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit));
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
}

fn command_environment(plan: &SandboxLaunchPlan, proxy_port: Option<u16>) -> Option<Vec<CString>> {
    let held_back = plan.env.iter().cloned().map(to_c_string);
    let proxy =
        proxy_port.into_iter().flat_map(super::sandbox_env::proxy_variables).map(|word| to_c_string(word.into()));
    inherited_variables().chain(held_back).chain(proxy).collect()
}

/// Returns the variables that this process inherited for the command.
#[allow(clippy::disallowed_methods, reason = "it was made for this command, and nothing here goes by it")]
fn inherited_variables() -> impl Iterator<Item = Option<CString>> {
    std::env::vars_os().map(|(name, value)| env_string(&name, &value))
}

fn env_string(name: &std::ffi::OsStr, value: &std::ffi::OsStr) -> Option<CString> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

fn to_c_string(word: OsString) -> Option<CString> {
    CString::new(word.into_vec()).ok()
}

/// Tries the steps of the helper's setup; returns the exit code, which is zero only if all of them succeeded.
fn run_probe() -> i32 {
    let tried = || -> Result<(), SandboxSetupError> {
        enter_own_namespaces()?;
        match sys::fork().map_err(setup_error_at("starting the first process"))? {
            ForkSide::Child => {
                let built = mounts::build_tree(&[("/tmp".into(), super::launch_plan::PathAccess::Private)]).is_ok();
                sys::exit_now(i32::from(!(built && sandbox_syscalls::bring_up_loopback().is_ok())))
            }
            ForkSide::Parent(first) => {
                let ended = rustix::process::waitpid(Pid::from_raw(first), WaitOptions::empty());
                let succeeded =
                    ended.is_ok_and(|ended| ended.is_some_and(|(_, status)| status.exit_status() == Some(0)));
                if succeeded { Ok(()) } else { Err(SandboxSetupError::Plan) }
            }
        }
    };
    i32::from(tried().is_err())
}
