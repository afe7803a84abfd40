//! Commands that are run for the text they print.

use std::time::{Duration, Instant};

use gimlet_exec::{HelperCommand, HelperCommandError};
use gimlet_proto::Env;

use crate::common::{PATIENCE, TestSession, base_env, find_alive, unique_sleep_seconds, wait_until};

async fn run_helper_command(
    session: &TestSession,
    command: &str,
    env: &Env,
    limit: Duration,
) -> Result<String, HelperCommandError> {
    let cwd = session.path();
    let answer =
        HelperCommand { command, cwd: &cwd, env, timeout: limit, max_bytes: 64 << 10 }.run(&session.exec).await?;
    Ok(String::from_utf8(answer).unwrap())
}

pub(crate) async fn the_answer_is_what_was_printed_and_nothing_else() {
    let session = TestSession::new();
    let env = base_env().with("VAULT_TOKEN", "t").with("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB", "1");
    let table = [
        ("echo one; echo two >&2", "one\n".to_owned()),
        ("printf ''; head -c 300000 /dev/zero >&2", String::new()),
        ("head -c 65536 /dev/zero | tr '\\0' x", "x".repeat(65536)),
        ("pwd -P", format!("{}\n", session.path().display())),
        // A helper may need one credential to get another.
        ("echo $VAULT_TOKEN", "t\n".to_owned()),
        ("test -t 0 || cat; echo end", "end\n".to_owned()),
        ("exec >&- 2>&-; sleep 0.05", String::new()),
    ];
    for (command, answer) in table {
        assert_eq!(run_helper_command(&session, command, &env, PATIENCE).await.unwrap(), answer, "{command}");
    }
}

pub(crate) async fn a_failure_says_how_it_ended_and_the_first_words_of_why() {
    let session = TestSession::new();
    let long = "w".repeat(300);
    let table = [
        ("exit 3", "it exited with 3".to_owned()),
        (
            "echo secret; echo >&2; echo '  locked \u{1b}[31mout' >&2; echo more >&2; exit 1",
            "it exited with 1: locked out".to_owned(),
        ),
        ("kill -9 $$", "it was ended by signal 9".to_owned()),
        ("echo wwww >&2; exit 2", "it exited with 2: wwww".to_owned()),
        (&*format!("echo {long} >&2; exit 2"), format!("it exited with 2: {}…", "w".repeat(200))),
    ];
    for (command, words) in table {
        let error = run_helper_command(&session, command, &base_env(), PATIENCE).await.unwrap_err();
        assert_eq!(error.to_string(), words, "{command}");
        assert!(!format!("{error:?}").contains("secret"));
    }
}

pub(crate) async fn one_that_takes_too_long_or_prints_too_much_is_ended_with_its_tree() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let slow = format!("setsid sleep {sleep} & echo key; sleep {sleep}");
    let error = run_helper_command(&session, &slow, &base_env(), Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.to_string(), "it did not end within 0.3 s");
    assert!(find_alive(&sleep).is_empty(), "nothing is left when the error is told");
    let loud = format!("setsid sleep {sleep} & while :; do echo key-key-key-key; done");
    let error = run_helper_command(&session, &loud, &base_env(), PATIENCE).await.unwrap_err();
    assert_eq!(error.to_string(), "it printed more than 64 KiB");
    assert!(find_alive(&sleep).is_empty());
}

pub(crate) async fn dropping_it_ends_its_tree() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let (command, env) = (format!("setsid sleep {sleep} & sleep {sleep}"), base_env());
    tokio::select! {
        _ = run_helper_command(&session, &command, &env, PATIENCE) => unreachable!("it sleeps for longer"),
        () = wait_until("it runs", || find_alive(&format!("sleep\0{sleep}")).len() == 2) => {}
    }
    wait_until("the tree ends", || find_alive(&sleep).is_empty()).await;
}

pub(crate) async fn what_it_leaves_behind_does_not_hold_up_the_answer_and_may_go_on_printing() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let begun = Instant::now();
    let command = format!("(sleep 0.4; echo late && exec sleep {sleep}) & echo key");
    assert_eq!(run_helper_command(&session, &command, &base_env(), PATIENCE).await.unwrap(), "key\n");
    assert!(begun.elapsed() < PATIENCE);
    wait_until("it goes on after printing", || find_alive(&format!("sleep\0{sleep}")).len() == 1).await;
    session.exec.shutdown(Duration::ZERO).await;
    assert!(find_alive(&sleep).is_empty());
}
