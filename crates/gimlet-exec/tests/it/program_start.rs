//! Starting programs: what they start with, and what is said when they do not.

use std::path::PathBuf;
use std::time::Duration;

use gimlet_exec::{ExecError, SpawnRequest, StdinMode, StreamMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::{PATIENCE, TestSession, block_on, exec, plain_spawn};

async fn output_of(running: &mut gimlet_exec::RunningCommand) -> String {
    let mut text = String::new();
    running.output.take().unwrap().read_to_string(&mut text).await.unwrap();
    text
}

pub(crate) async fn a_command_starts_with_clean_signals_and_a_session_of_its_own() {
    let exec = exec(None);
    let mut running = exec.spawn(plain_spawn("cat", &["/proc/self/status"])).await.unwrap();
    let status = output_of(&mut running).await;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    for set in ["SigBlk:", "SigIgn:", "SigCgt:"] {
        // Signals 32 and 33 belong to the C library, which ignores them in every program it starts.
        let signals = u64::from_str_radix(&field(set), 16).unwrap() & !(0b11 << 31);
        assert_eq!(signals, 0, "{set}");
    }
    let pid = running.pid.to_string();
    assert_eq!([field("NSpid:"), field("NSpgid:"), field("NSsid:")], [pid.clone(), pid.clone(), pid]);
    let mut running = exec.spawn(plain_spawn("env", &[])).await.unwrap();
    let names: Vec<String> =
        output_of(&mut running).await.lines().map(|line| line.split('=').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["PATH", "GIMLET_CUSTODY"]);
}

pub(crate) async fn what_cannot_start_says_why() {
    let exec = exec(None);
    let missing = exec.spawn(plain_spawn("no-such-program", &[])).await.unwrap_err();
    assert!(matches!(missing, ExecError::NotFound { .. }), "{missing}");
    let missing = exec.spawn(plain_spawn("/no/such/program", &[])).await.unwrap_err();
    assert!(matches!(&missing, ExecError::Program { source, .. } if source.kind() == std::io::ErrorKind::NotFound));
    let directory = exec.spawn(plain_spawn("/usr", &[])).await.unwrap_err();
    assert!(
        matches!(&directory, ExecError::Program { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied)
    );
    let cwd =
        exec.spawn(SpawnRequest { cwd: PathBuf::from("/no/such"), ..plain_spawn("true", &[]) }).await.unwrap_err();
    assert!(matches!(cwd, ExecError::Cwd { .. }));
    let nul = exec.spawn(plain_spawn("true", &["a\0b"])).await.unwrap_err();
    assert!(matches!(nul, ExecError::Nul { .. }));
    assert!(exec.spawn(plain_spawn("true", &[])).await.unwrap().wait().await.unwrap().is_success());
}

pub(crate) async fn streams_can_be_split_and_input_piped() {
    let exec = exec(None);
    let spawn = SpawnRequest {
        stdin: StdinMode::Pipe,
        streams: StreamMode::Split,
        ..plain_spawn("sh", &["-c", "echo problem >&2; tr a-z A-Z; exit 2"])
    };
    let mut running = exec.spawn(spawn).await.unwrap();
    let mut stdin = running.stdin.take().unwrap();
    let sent = "words ".repeat(50_000);
    let feed = async {
        stdin.write_all(sent.as_bytes()).await.unwrap();
        drop(stdin);
    };
    let (mut errors, mut text) = (running.errors.take().unwrap(), String::new());
    let ((), said, _) = tokio::join!(feed, output_of(&mut running), errors.read_to_string(&mut text));
    assert_eq!((said, text.as_str()), (sent.to_uppercase(), "problem\n"));
    assert_eq!(running.wait().await.unwrap().code, Some(2));
}

pub(crate) async fn a_hundred_commands_at_once_all_report() {
    let session = TestSession::new();
    let mut started = Vec::new();
    for n in 0..100 {
        started.push(session.foreground(&format!("echo {n}; exit {n}")).await);
    }
    for (n, mut command) in started.into_iter().enumerate() {
        let finished = tokio::time::timeout(PATIENCE, command.finish()).await.unwrap();
        assert_eq!(finished.output.head, format!("{n}\n").as_bytes());
        assert!(matches!(finished.end, gimlet_exec::CommandEnd::Exited(exit) if exit.code == Some(n as i32)));
    }
}

pub(crate) async fn a_custodian_outlives_the_thread_that_started_it() {
    let exec = exec(None);
    let elsewhere = exec.clone();
    let first = std::thread::spawn(move || {
        block_on(async {
            elsewhere.spawn(plain_spawn("true", &[])).await.unwrap().wait().await.unwrap();
        });
        elsewhere.custodian_pid()
    });
    let first = first.join().unwrap();
    let mut running = exec.spawn(plain_spawn("true", &[])).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(5), running.wait()).await.unwrap().unwrap().is_success());
    assert_eq!(exec.custodian_pid(), first);
}
