//! What custody and the shell wrapper cost over a bare `bash -c true`.
#![allow(clippy::expect_used, reason = "a measurement that cannot be taken should stop")]

use std::ffi::OsString;
use std::path::Path;

use divan::Bencher;
use gimlet_exec::{
    BubblewrapChoice, CaptureLimits, CustodianProgram, DirectoryReporter, Exec, ExecConfig, ForegroundCommand,
    ProbeOptions, Sandbox, Shell, ShellCommand, ShellConfig, SpawnRequest, StdinMode, StreamMode, probe_sandbox,
};
use gimlet_proto::{Env, SandboxSpec};

fn main() {
    gimlet_exec::run_custodian_if_asked();
    divan::main();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn exec() -> Exec {
    let custodian = CustodianProgram::Reexec(std::env::current_exe().expect("a path"));
    Exec::new(ExecConfig { custodian, session_marker: "bench".into(), runtime_dir: None })
}

#[allow(clippy::disallowed_methods, reason = "what is measured runs in the environment of whoever measures")]
fn variables() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

fn env() -> Env {
    Env::new(variables())
}

/// The floor: the standard library starts bash and collects its output.
#[divan::bench(sample_count = 500)]
fn bare_bash_true() {
    #[allow(clippy::disallowed_methods, reason = "the floor to compare with")]
    let output = std::process::Command::new("/bin/bash").args(["-c", "true"]).output();
    divan::black_box(output).expect("bash runs");
}

fn bash_true(env: Vec<(OsString, OsString)>) -> SpawnRequest {
    SpawnRequest {
        program: "/bin/bash".into(),
        args: vec!["-c".into(), "true".into()],
        cwd: "/".into(),
        env,
        stdin: StdinMode::Null,
        streams: StreamMode::Merged,
        report: DirectoryReporter::Disabled,
        confinement: None,
    }
}

/// The same program through the custodian, without the shell wrapper.
#[divan::bench(sample_count = 500)]
fn custodian_bash_true(bencher: Bencher<'_, '_>) {
    let (runtime, exec) = (runtime(), exec());
    let env = variables();
    bencher.bench_local(|| {
        runtime.block_on(async {
            let spawn = bash_true(env.clone());
            exec.spawn(spawn).await.expect("it starts").wait().await.expect("it ends")
        })
    });
}

/// The same program in each kind of sandbox.
#[divan::bench(sample_count = 200, args = ["bubblewrap", "namespaces", "landlock"])]
fn sandboxed_bash_true(bencher: Bencher<'_, '_>, kind: &str) {
    let (runtime, exec) = (runtime(), exec());
    let env = variables();
    let bubblewrap = if kind == "bubblewrap" { BubblewrapChoice::First } else { BubblewrapChoice::Never };
    let options = ProbeOptions { bubblewrap, own_namespaces: kind == "namespaces" };
    let available = runtime.block_on(probe_sandbox(&exec, &options));
    let spec = SandboxSpec { write: vec!["/var/tmp".into()], ..SandboxSpec::default() };
    let sandbox = Sandbox::new(spec, available, None).expect("walls");
    bencher.bench_local(|| {
        runtime.block_on(async {
            let spawn = sandbox.wrap_spawn(bash_true(env.clone()), &[]).expect("a command");
            let exit = exec.spawn(spawn).await.expect("it starts").wait().await.expect("it ends");
            assert!(exit.is_success());
        });
    });
}

/// A whole shell call as a tool makes it: wrapper, custodian, capture, directory report.
#[divan::bench(sample_count = 500)]
fn shell_call_true(bencher: Bencher<'_, '_>) {
    let (runtime, exec) = (runtime(), exec());
    let config =
        ShellConfig { env: env(), session_id: "bench".into(), effort: None, snapshot_file: None, prestart: false };
    let shell = Shell::find(config).expect("a shell");
    bencher.bench_local(|| {
        runtime.block_on(async {
            let command = ShellCommand { text: "true", cwd: Path::new("/"), env: Vec::new() };
            let run = shell.start(&exec, command).await.expect("it starts");
            let limits = CaptureLimits::for_foreground(30_000, "/nonexistent/unused".into());
            ForegroundCommand::new(run.running, limits).finish().await.cwd()
        })
    });
}

/// The first call of a session, which starts the custodian, and the end of it.
#[divan::bench(sample_count = 100)]
fn first_call_with_custodian(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let config =
        ShellConfig { env: env(), session_id: "bench".into(), effort: None, snapshot_file: None, prestart: false };
    let shell = Shell::find(config).expect("a shell");
    bencher.bench_local(|| {
        let exec = exec();
        runtime.block_on(async {
            let command = ShellCommand { text: "true", cwd: Path::new("/"), env: Vec::new() };
            shell.start(&exec, command).await.expect("it starts").running.wait().await.expect("it ends")
        })
    });
}
