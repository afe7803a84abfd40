//! The sandbox against the real kernel: every way out is tried outside first, then inside, for each kind of walls, as
//! whoever runs the tests and, when that is root, as an ordinary user too.

mod escape_cases;
mod escape_world;

use std::ffi::OsString;

use std::process::{Command, ExitCode};
use std::time::Duration;

use gimlet_exec::{
    BubblewrapChoice, CommandExit, DirectoryReporter, Exec, ProbeOptions, RepoScanner, RunningCommand, Sandbox,
    SandboxBackend, SandboxLayer, SandboxSupport, SpawnRequest, StdinMode, StreamMode, TamperGuard, probe_sandbox,
};
use gimlet_proto::SandboxSpec;
use tokio::io::AsyncReadExt;

use crate::common::{self, PATIENCE};
use escape_cases::{CASES, EscapeCase, EscapeProof, PRELUDE, RequiredUser};
use escape_world::{EscapeWorld, OutsideServices};

pub(crate) const SUITE_ARGUMENT: &str = "__escape-suite";
/// Nobody, in every distribution.
const ORDINARY_USER: &str = "65534";
/// How many attempts are under way at one time.
const AT_ONCE: usize = 4;

fn bubblewrap() -> ProbeOptions {
    ProbeOptions { bubblewrap: BubblewrapChoice::At("/usr/bin/bwrap".into()), own_namespaces: false }
}

fn own_namespaces() -> ProbeOptions {
    ProbeOptions { bubblewrap: BubblewrapChoice::Never, own_namespaces: true }
}

fn landlock_alone() -> ProbeOptions {
    ProbeOptions { bubblewrap: BubblewrapChoice::Never, own_namespaces: false }
}

/// All three kinds, each of which must be there: a machine without one cannot test it.
pub(crate) async fn all_backends(exec: &Exec) -> [SandboxSupport; 3] {
    let kinds = [
        probe_sandbox(exec, &bubblewrap()).await,
        probe_sandbox(exec, &own_namespaces()).await,
        probe_sandbox(exec, &landlock_alone()).await,
    ];
    assert!(matches!(kinds[0].backend, SandboxBackend::Bubblewrap { .. }), "{:?}", kinds[0]);
    assert_eq!(kinds[1].backend, SandboxBackend::Namespaces, "{:?}", kinds[1]);
    assert_eq!(kinds[2].backend, SandboxBackend::Landlock, "{:?}", kinds[2]);
    kinds
}

fn bash_spawn(world: &EscapeWorld, script: &str) -> SpawnRequest {
    let env = world.env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    let args = ["--norc", "-c", script].map(OsString::from).to_vec();
    let (program, cwd) = ("/bin/bash".into(), world.work());
    SpawnRequest {
        program,
        args,
        cwd,
        env,
        stdin: StdinMode::Null,
        streams: StreamMode::Merged,
        report: DirectoryReporter::Disabled,
        confinement: None,
    }
}

pub(crate) async fn wait_for_output(mut running: RunningCommand) -> (CommandExit, String) {
    let mut output = Vec::new();
    let mut pipe = running.output.take().unwrap();
    let reading = async { drop(tokio::time::timeout(PATIENCE, pipe.read_to_end(&mut output)).await) };
    let (exit, ()) = tokio::join!(running.wait(), reading);
    running.kill(Duration::ZERO).await;
    (exit.unwrap(), String::from_utf8_lossy(&output).into_owned())
}

/// Runs a script inside the walls of a spec, guard included.
async fn run_inside(
    exec: &Exec,
    world: &EscapeWorld,
    spec: &SandboxSpec,
    kind: &SandboxSupport,
    script: &str,
) -> (CommandExit, String) {
    let sandbox = Sandbox::new(spec.clone(), kind.clone(), None).unwrap();
    let mut census = RepoScanner::default();
    let guard = TamperGuard::capture_before(spec, kind, &mut census);
    let wrapped = sandbox
        .with_read_only_paths(guard.paths_to_mount())
        .with_unreadable_paths(guard.closed_folders())
        .wrap_spawn(bash_spawn(world, script), &[])
        .unwrap();
    let ended = wait_for_output(exec.spawn(wrapped).await.unwrap()).await;
    drop(guard.restore_after(&world.path("quarantine"), &mut census));
    ended
}

/// Whether an attempt worked: outside with `None`, else behind these walls.
async fn attempt_succeeds(
    exec: &Exec,
    services: &OutsideServices,
    case: &EscapeCase,
    kind: Option<&SandboxSupport>,
) -> (bool, String) {
    let mut world = EscapeWorld::new(services);
    if let Some(program) = std::env::args().nth(2) {
        world.env.push(("SUID".into(), program));
    }
    let script = format!("{PRELUDE}\n{}", case.attempt);
    let before = world.outside_state();
    let (exit, output) = match kind {
        None => wait_for_output(exec.spawn(bash_spawn(&world, &script)).await.unwrap()).await,
        Some(kind) => run_inside(exec, &world, &world.spec(), kind, &script).await,
    };
    let worked = match case.proof {
        EscapeProof::Code => exit.is_success(),
        EscapeProof::Effect => world.outside_state() != before,
    };
    (worked, format!("{exit:?} {output}"))
}

/// Everything that went wrong with one way out.
async fn try_case(exec: &Exec, services: &OutsideServices, kinds: &[SandboxSupport], case: &EscapeCase) -> Vec<String> {
    let mut wrong = Vec::new();
    let (worked, said) = attempt_succeeds(exec, services, case, None).await;
    if !worked {
        wrong.push(format!("'{}' proves nothing, it fails outside too: {said}", case.name));
    }
    for kind in kinds {
        let has_mounts = kind.layers().contains(&SandboxLayer::Mounts);
        let (worked, said) = attempt_succeeds(exec, services, case, Some(kind)).await;
        if worked == (has_mounts || case.closed_without_mounts) {
            let what = if worked { "is open" } else { "is closed after all" };
            wrong.push(format!("'{}' {what} with {kind:?}: {said}", case.name));
        }
    }
    wrong
}

async fn escape_suite() -> Vec<String> {
    let exec = common::exec(None);
    let services = OutsideServices::start();
    let mut kinds = all_backends(&exec).await.to_vec();
    // The walls of mounts must stand by themselves, as on a kernel without Landlock.
    let with_mounts = kinds.iter().filter(|kind| kind.layers().contains(&SandboxLayer::Mounts));
    kinds.extend(with_mounts.map(|kind| SandboxSupport { landlock_abi: 0, ..kind.clone() }).collect::<Vec<_>>());
    let is_root = rustix::process::getuid().is_root();
    let tried = |case: &&EscapeCase| match case.by {
        RequiredUser::Anyone => true,
        RequiredUser::Root => is_root,
        RequiredUser::User => !is_root && std::env::args().nth(2).is_some(),
    };
    let cases: Vec<&EscapeCase> = CASES.iter().filter(tried).collect();
    let mut wrong = Vec::new();
    for chunk in cases.chunks(AT_ONCE) {
        let mut attempts: Vec<_> =
            chunk.iter().map(|case| Box::pin(try_case(&exec, &services, &kinds, case))).collect();
        // A handful of futures on one thread: what they wait for are processes.
        std::future::poll_fn(|cx| {
            attempts.retain_mut(|attempt| match attempt.as_mut().poll(cx) {
                std::task::Poll::Ready(found) => {
                    wrong.extend(found);
                    false
                }
                std::task::Poll::Pending => true,
            });
            if attempts.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
    exec.shutdown(Duration::ZERO).await;
    wrong
}

/// The suite in a process of its own, for another user.
pub(crate) fn run_escape_suite() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wrong = runtime.block_on(escape_suite());
    eprint!("{}", wrong.join("\n"));
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) async fn no_way_out_is_open() {
    assert!(CASES.len() >= 60);
    let wrong = escape_suite().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) async fn no_way_out_is_open_to_an_ordinary_user() {
    if !rustix::process::getuid().is_root() {
        // Then the test above was this one.
        return;
    }
    // Somewhere that the other user can read, whatever the build folder's mode.
    let dir =
        tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let harness = dir.path().join("harness");
    std::fs::copy(std::env::current_exe().unwrap(), &harness).unwrap();
    let suid = escape_world::set_uid_program(dir.path());
    #[allow(clippy::disallowed_methods, reason = "the whole suite runs in it, custody included")]
    let output = Command::new("setpriv")
        .args(["--reuid", ORDINARY_USER, "--regid", ORDINARY_USER, "--clear-groups"])
        .arg(&harness)
        .arg(SUITE_ARGUMENT)
        .arg(&suid)
        .current_dir("/")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
