//! Interrupts: whatever was going on, history stays whole and says what happened.

use std::cell::Cell;

use gimlet_script::{Fault, FaultPoint, Script};
use gimlet_testkit::RunOutput;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::*;
use crate::world;

/// Sends an interrupt as soon as `ready` holds, and waits for the end.
async fn interrupt_when(mut child: gimlet_testkit::RunningChild, what: &str, ready: impl Fn() -> bool) -> RunOutput {
    let pid = Pid::from_raw(child.pid() as i32).unwrap();
    let run = tokio::task::spawn_blocking(move || child.wait_with_output());
    wait_until(what, ready).await;
    kill_process(pid, Signal::INT).unwrap();
    run.await.unwrap()
}

#[tokio::test]
async fn probe_09_an_interrupt_in_a_mixed_batch_answers_every_call_once() {
    let world = world();
    world.file("a.txt", "content");
    let sleep = unique_sleep_seconds();
    let long = "line\n".repeat(20_000);
    let script = Script::new()
        .call("Read", json!({"file_path": world.path("a.txt")}))
        .call("Write", json!({"file_path": world.path("before.txt"), "content": long}))
        .call("Bash", json!({"command": format!("echo begun; touch begun; sleep {sleep}")}))
        .call("Write", json!({"file_path": world.path("behind.txt"), "content": "never"}))
        .call("Read", json!({"file_path": world.path("a.txt")}));
    let model = serve_script(script).await;
    let child = world.run(&model).stream("go").start();
    let run = interrupt_when(child, "the command runs", || world.project.join("begun").exists()).await;
    run.expect_code(130);
    assert_all_played(&model);
    assert_eq!(count_processes("sleep", &sleep), 0);
    assert_eq!(world.read("before.txt"), long);
    assert!(!world.project.join("behind.txt").exists());

    let later = serve_script(Script::new().say("done")).await;
    world.run(&later).stream("go on").arg("--continue").finish().await.expect_code(0);
    assert_all_played(&later);
    let blocks = all_blocks(&later.request(0));
    let ids = |kind: &str, key: &str| -> Vec<String> {
        blocks.iter().filter(|block| block["type"] == kind).map(|block| block[key].to_string()).collect()
    };
    assert_eq!(ids("tool_use", "id").len(), 5);
    assert_eq!(ids("tool_use", "id"), ids("tool_result", "tool_use_id"));
    let results: Vec<String> = blocks
        .iter()
        .filter(|block| block["type"] == "tool_result")
        .map(|block| block["content"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(results[0], "1\tcontent");
    assert!(results[2].starts_with("Interrupted by the user") && results[2].contains("killed after"), "{results:?}");
    assert!(results[2].ends_with("\nbegun"), "{results:?}");
    assert!(results[3].starts_with("Not executed") && results[4].starts_with("Not executed"), "{results:?}");
    assert!(!results.iter().any(|result| result.contains("rejected")), "{results:?}");
    assert!(blocks.iter().any(|block| block["text"].as_str().is_some_and(|text| text.contains("interrupted"))));
}

#[tokio::test]
async fn an_interrupt_while_the_model_speaks_keeps_what_it_said() {
    let world = world();
    let script = Script::new().say("The first half. ").say("The second half.").fault(Fault::Stall {
        at: FaultPoint::BetweenBlocks,
        ping_every_ms: None,
        for_ms: None,
    });
    let model = serve_script(script).await;
    let child = world.run(&model).stream("go").start();
    let kept = || {
        world
            .transcripts()
            .first()
            .is_some_and(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("The first half")))
    };
    let run = interrupt_when(child, "the first half is kept", kept).await;
    run.expect_code(130);

    let later = serve_script(Script::new().say("done")).await;
    world.run(&later).stream("go on").arg("--continue").finish().await.expect_code(0);
    assert_all_played(&later);
    assert!(later.request(0).body_text().contains("The first half"));
    assert!(!later.request(0).body_text().contains("The second half"));
}

#[tokio::test]
async fn a_termination_kills_what_runs_and_the_session_can_go_on() {
    let world = world();
    let sleep = unique_sleep_seconds();
    let command = format!("touch begun; setsid sleep {sleep} & sleep {sleep}");
    let model = serve_script(Script::new().call("Bash", json!({"command": command}))).await;
    let mut child = world.run(&model).stream("go").start();
    let pid = Pid::from_raw(child.pid() as i32).unwrap();
    let run = tokio::task::spawn_blocking(move || child.wait_with_output());
    wait_until("both run", || count_processes("sleep", &sleep) == 2).await;
    kill_process(pid, Signal::TERM).unwrap();
    let run = run.await.unwrap();
    run.expect_code(143);
    assert!(!run.stdout.contains(r#""type":"result""#), "{}", run.stdout);
    wait_until("nothing is left", || count_processes("sleep", &sleep) == 0).await;

    let later = serve_script(Script::new().say("done").seed(2)).await;
    world.run(&later).stream("go on").arg("--continue").finish().await.expect_code(0);
    assert_all_played(&later);
    let blocks = all_blocks(&later.request(0));
    assert_eq!(blocks.iter().filter(|block| block["type"] == "tool_result").count(), 1);
}

#[tokio::test]
async fn an_interrupt_ends_a_call_that_began_while_the_model_still_spoke() {
    let world = world();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.project.join("gate"), rustix::fs::Mode::RWXU).unwrap();
    let marker = world.path("gate");
    let script = Script::new()
        .call("Bash", json!({"command": format!("cat {marker}")}))
        .call("Bash", json!({"command": "touch never"}))
        .fault(Fault::Stall { at: FaultPoint::AfterTool, ping_every_ms: Some(50), for_ms: None });
    let model = serve_script(script).await;
    let begun = Instant::now();
    let child = world.run(&model).stream("go").start();
    let run = interrupt_when(child, "the early call runs", || count_processes("cat", &marker) == 1).await;
    run.expect_code(130);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(count_processes("cat", &marker), 0);
    assert!(!world.project.join("never").exists());

    let later = serve_script(Script::new().say("done").seed(2)).await;
    world.run(&later).stream("go on").arg("--continue").finish().await.expect_code(0);
    assert_all_played(&later);
    let blocks = all_blocks(&later.request(0));
    let results: Vec<&Value> = blocks.iter().filter(|block| block["type"] == "tool_result").collect();
    assert_eq!(results.len(), 1, "{results:?}");
    assert!(results[0]["content"].as_str().unwrap().starts_with("Interrupted by the user"), "{results:?}");
}

#[tokio::test]
async fn no_call_begins_while_the_model_still_speaks_where_that_is_turned_off() {
    let world = world();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.project.join("gate"), rustix::fs::Mode::RWXU).unwrap();
    let marker = world.path("gate");
    let script = Script::new().call("Bash", json!({"command": format!("cat {marker}")})).fault(Fault::Stall {
        at: FaultPoint::AfterTool,
        ping_every_ms: Some(50),
        for_ms: None,
    });
    let model = serve_script(script).await;
    let child = world.run(&model).stream("go").env("CLAUDE_CODE_DISABLE_STREAMING_EXECUTION", "1").start();
    let called = || {
        let transcript = world.transcripts().first().and_then(|file| std::fs::read_to_string(file).ok());
        transcript.is_some_and(|text| text.contains(r#""type":"tool_use""#))
    };
    wait_until("the call is there", called).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(count_processes("cat", &marker), 0, "the reply is not complete");
    interrupt_when(child, "nothing", || true).await.expect_code(130);
}

#[tokio::test]
async fn an_interrupt_after_the_answer_ends_the_wait_for_background_commands() {
    let world = world();
    let sleep = unique_sleep_seconds();
    let call = json!({"command": format!("sleep {sleep}"), "run_in_background": true});
    let model = serve_script(Script::new().call("Bash", call).then().say("done")).await;
    let child = world.run(&model).stream("go").start();
    let answered_at = Cell::new(Instant::now());
    let answered = || {
        answered_at.set(Instant::now());
        world
            .transcripts()
            .first()
            .is_some_and(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("last-prompt")))
    };
    interrupt_when(child, "the turn is over", answered).await;
    // Uninterrupted it waits for 5 seconds.
    let waited = answered_at.get().elapsed();
    assert!(waited < Duration::from_millis(4_500), "{waited:?}");
    assert_eq!(count_processes("sleep", &sleep), 0);
}
