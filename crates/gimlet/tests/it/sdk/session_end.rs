//! How driven runs end: by the end of input, by signals, by hosts that break or vanish.

use std::time::{Duration, Instant};

use gimlet_script::{Fault, FaultPoint, Script};
use gimlet_testkit::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{FLAGS, SdkHost, line_kinds};
use crate::world;

#[tokio::test]
async fn empty_input_gives_no_output() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    for input in ["", "\n \r\n", "{\"type\":\"keep_alive\"}\n"] {
        let run =
            world.run(&model).args(FLAGS).env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1").stdin(input).finish().await;
        run.expect_code(0);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""), "{input:?}");
    }
}

#[tokio::test]
async fn an_idle_session_exits_at_once_even_with_a_background_command() {
    let world = world();
    let command = json!({"command": "sleep 600", "run_in_background": true});
    let model = Script::new().call("Bash", command).then().say("started").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions"]));
    host.say("go");
    host.wait_for_state("idle").await;
    let started = Instant::now();
    host.end().await.output.expect_code(0);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn requests_right_before_the_end_of_input_are_answered() {
    let world = world();
    world.file("a.txt", "words");
    let model = Script::new().serve().await.unwrap();
    let requests = [
        json!({"subtype": "initialize"}),
        json!({"subtype": "file_suggestions", "query": "a"}),
        json!({"subtype": "read_file", "path": world.path("a.txt")}),
        json!({"subtype": "get_context_usage"}),
        json!({"subtype": "interrupt"}),
    ];
    for _ in 0..5 {
        let mut host = SdkHost::start(world.run(&model));
        for (number, request) in requests.iter().enumerate() {
            // Ids need not be texts to be told apart.
            host.send_line(json!({"type": "control_request", "request_id": number, "request": request}));
        }
        let lines = host.end().await.clean(0);
        let mut answered: Vec<u64> = lines.iter().filter_map(|line| line["response"]["request_id"].as_u64()).collect();
        answered.sort_unstable();
        assert_eq!(answered, [0, 1, 2, 3, 4], "{lines:#?}");
    }
}

#[tokio::test]
async fn a_line_that_is_no_json_ends_the_run_with_a_reason() {
    for bad in ["hello\n", "{\"type\":\n", "[1]\n"] {
        let world = world();
        let stall = Fault::Stall { at: FaultPoint::MidText, ping_every_ms: None, for_ms: None };
        let model = Script::new().say("These are some words.").fault(stall).serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model));
        host.say("hi");
        model.wait_for_requests(1).await;
        host.write_text(bad);
        let end = host.wait_for_exit().await;
        end.output.expect_code(1);
        assert!(
            end.output.stderr.starts_with("Error: a line on standard input is not a JSON object: "),
            "{}",
            end.output.stderr
        );
        assert!(!end.output.stderr.contains("\n\n"), "{:?}", end.output.stderr);
    }
}

#[tokio::test]
async fn signals_end_it_in_their_own_way() {
    for (signal, code, has_result) in [(Signal::INT, 130, true), (Signal::TERM, 143, false)] {
        let world = world();
        let stall = Fault::Stall { at: FaultPoint::MidText, ping_every_ms: None, for_ms: None };
        let model = Script::new().say("These are some words.").fault(stall).serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model));
        host.say("hi");
        model.wait_for_requests(1).await;
        let pid = Pid::from_raw(i32::try_from(host.child.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let lines = host.wait_for_exit().await.clean(code);
        let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
        assert_eq!(results.len() == 1, has_result, "{signal:?}");
        assert!(results.iter().all(|result| result["terminal_reason"] == "aborted_streaming"));
    }
}

#[tokio::test]
async fn signals_before_the_first_line_have_their_exit_codes_too() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let world = world();
        let model = Script::new().serve().await.unwrap();
        let host = SdkHost::start(world.run(&model));
        let pid = host.child.pid();
        let listens = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
            caught >> (signal.as_raw() - 1) & 1 == 1
        };
        wait_until("it listens for signals", listens).await;
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
        assert_eq!(host.wait_for_exit().await.clean(code), Vec::<Value>::new());
    }
}

#[tokio::test]
async fn a_host_that_vanishes_takes_everything_with_it() {
    let world = world();
    let model = Script::new()
        .call("Bash", json!({"command": "echo $$ > pid; exec sleep 600"}))
        .then()
        // More than a pipe holds: all of it can only be written to somebody who reads.
        .say("x".repeat(1_000_000))
        .serve()
        .await
        .unwrap();
    let mut host =
        SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions", "--include-partial-messages"]));
    host.say("go");
    let written = || std::fs::read_to_string(world.project.join("pid")).is_ok_and(|pid| pid.ends_with('\n'));
    wait_until("the command said its number", written).await;
    let mut child = host.child;
    drop(host.lines);
    child.stdin = None;
    // The next line that nobody reads tells it.
    let pid = Pid::from_raw(world.read("pid").trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap();
    assert_eq!(output.code, 141, "{}", output.stderr);
}

#[tokio::test]
async fn what_cannot_start_says_so_in_a_result() {
    let id = "3f0c0000-0000-4000-8000-000000000000";
    let resume = format!("--resume={id}");
    let cases: [(Vec<&str>, &str); 5] = [
        (vec![&resume], "No conversation found with session ID: 3f0c0000-0000-4000-8000-000000000000"),
        (vec!["--session-id=nonsense"], "not a UUID"),
        (vec!["--continue", "--session-id", id, "--fork-session", "--settings", "{"], "--settings"),
        (vec!["--mcp-config", "{\"mcpServers\":7}"], "--mcp-config"),
        (vec!["--permission-prompt-tool", "mcp__a"], "mcp__a"),
    ];
    for (flags, words) in cases {
        let world = world();
        let model = Script::new().serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(flags));
        host.send_line(json!({"type": "control_request", "request_id": "r", "request": {"subtype": "initialize"}}));
        let end = host.wait_for_exit().await;
        end.output.expect_code(1);
        assert_eq!(line_kinds(&end.lines), ["result"], "{words}");
        let result = &end.lines[0];
        assert_eq!((&result["subtype"], &result["num_turns"]), (&json!("error_during_execution"), &json!(0)));
        assert!(result["errors"][0].as_str().unwrap().contains(words), "{result}");
        assert!(end.output.stderr.contains(words), "{}", end.output.stderr);
    }
}

#[tokio::test]
async fn flags_that_contradict_each_other_are_refused() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).args(["--input-format", "stream-json"]).finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("--output-format stream-json") && run.stdout.is_empty(), "{}", run.stderr);
    let run = world.run(&model).args(["-p", "--session-mirror", "hi"]).finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("--session-mirror"), "{}", run.stderr);
    let run = world.run(&model).args(FLAGS).args(["--no-such-flag"]).finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("--no-such-flag"), "{}", run.stderr);
}
