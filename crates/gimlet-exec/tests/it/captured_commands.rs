//! Programs that are given bytes and whose output streams are kept apart.

use std::time::Duration;

use gimlet_exec::{CapturedCommand, CapturedRun, ExecError};

use crate::common::{PATIENCE, TestSession, base_env, find_alive, unique_sleep_seconds, wait_until};

async fn run_shell(session: &TestSession, text: &str, stdin: &[u8]) -> CapturedRun {
    let (cwd, env) = (session.path(), base_env());
    let command = CapturedCommand {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), text.into()],
        cwd: &cwd,
        env: &env,
        variables: vec![("EXTRA".into(), "added".into())],
        stdin,
        max_bytes: 1000,
    };
    tokio::time::timeout(PATIENCE, command.run(&session.exec)).await.unwrap().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

pub(crate) async fn input_goes_in_and_both_streams_come_back_apart() {
    let session = TestSession::new();
    let run = run_shell(&session, "cat; echo $EXTRA; echo oops >&2; exit 2", b"{\"a\":1}\n").await;
    assert_eq!((text(&run.stdout.bytes), text(&run.stderr.bytes)), ("{\"a\":1}\nadded\n", "oops\n"));
    assert_eq!((run.exit.code, run.stdout.is_cut()), (Some(2), false));
}

pub(crate) async fn a_program_that_does_not_read_or_closes_its_input_is_not_waited_for() {
    let session = TestSession::new();
    let large = vec![b'x'; 4 << 20];
    for text in ["exit 3", "exec <&-; exit 3", "head -c 10 >/dev/null; exit 3"] {
        assert_eq!(run_shell(&session, text, &large).await.exit.code, Some(3), "{text}");
    }
}

pub(crate) async fn output_beyond_the_limit_is_counted_and_dropped() {
    let session = TestSession::new();
    let run = run_shell(&session, "head -c 3000000 /dev/zero; head -c 2000 /dev/zero >&2", b"").await;
    assert_eq!((run.stdout.bytes.len(), run.stdout.total, run.stdout.is_cut()), (1000, 3_000_000, true));
    assert_eq!((run.stderr.bytes.len(), run.stderr.total), (1000, 2000));
}

pub(crate) async fn dropping_a_captured_run_ends_its_tree() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let text = format!("setsid sleep {sleep} & sleep {sleep}");
    tokio::select! {
        _ = run_shell(&session, &text, b"") => unreachable!("it sleeps for longer"),
        () = wait_until("it runs", || find_alive(&format!("sleep\0{sleep}")).len() == 2) => {}
    }
    wait_until("the tree ends", || find_alive(&sleep).is_empty()).await;
}

pub(crate) async fn a_child_left_behind_does_not_hold_up_the_end() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let run = run_shell(&session, &format!("sleep {sleep} & echo done"), b"").await;
    assert_eq!(text(&run.stdout.bytes), "done\n");
    session.exec.shutdown(Duration::ZERO).await;
    assert!(find_alive(&sleep).is_empty());
}

pub(crate) async fn a_program_that_is_missing_is_an_error() {
    let session = TestSession::new();
    let (cwd, env) = (session.path(), base_env());
    let command = CapturedCommand {
        program: "no-such-program".into(),
        args: Vec::new(),
        cwd: &cwd,
        env: &env,
        variables: Vec::new(),
        stdin: b"",
        max_bytes: 10,
    };
    assert!(matches!(command.run(&session.exec).await, Err(ExecError::NotFound { .. })));
}
