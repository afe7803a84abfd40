//! Answers that cannot be written are lost, and whoever asked must hear of it; a reader that went away is no failure.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use gimlet_script::Script;
use rustix::process::{Pid, Signal, kill_process};

use crate::world;

const NOWHERE: &str = "http://127.0.0.1:9";

#[tokio::test]
async fn an_answer_that_is_lost_is_an_error() {
    let seen = world();
    let world = seen.with_shell_prelude("exec > /dev/full");
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = seen.run(&model).print_text("go").cwd(&world.project).env("HOME", world.home.to_string_lossy());
    run.finish().await.expect_code(0);
    std::fs::write(world.home.join(".claude/settings.json"), r#"{"model": "a"}"#).unwrap();
    let row = r#"{"id":1,"cwd":"/w","command":"ls"}"#;
    for line in [
        "config list",
        "config get model",
        "sessions ls",
        "sessions ls --json",
        "sessions show",
        "doctor",
        "why",
        "trust",
        "permissions check --command ls",
        "permissions check --batch",
        "permissions simulate --json",
        "version",
    ] {
        let run = world.run_at(NOWHERE).args(line.split(' ')).stdin(row).finish().await;
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{line}: {}", run.stderr);
        let told = run.stderr.matches("gimlet: standard output cannot be written: ").count();
        assert_eq!(told, 1, "{line}: {}", run.stderr);
    }
}

#[tokio::test]
async fn a_demo_that_nobody_watches_any_more_leaves_quietly_and_nothing_behind() {
    let world = world();
    let temp = world.home.join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let demo = || world.run_at(NOWHERE).env("TMPDIR", temp.to_string_lossy()).arg("demo");
    for (signal, code) in [(None, 141), (Some(Signal::INT), 130)] {
        let mut child = demo().start();
        let pid = Pid::from_raw(i32::try_from(child.pid()).unwrap()).unwrap();
        let run = tokio::task::spawn_blocking(move || {
            child.read_until("> The tests fail");
            match signal {
                Some(signal) => kill_process(pid, signal).unwrap(),
                None => child.close_stdout(),
            }
            child.wait_with_output()
        });
        let run = run.await.unwrap();
        assert_eq!((run.code, run.stderr.as_str()), (code, ""), "{signal:?}");
        assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0, "{signal:?}");
    }
    let full = world.with_shell_prelude("exec > /dev/full");
    let run = full.run_at(NOWHERE).arg("demo").finish().await;
    assert!(run.expect_code(1).stderr.starts_with("gimlet: standard output cannot be written: "), "{}", run.stderr);
}
