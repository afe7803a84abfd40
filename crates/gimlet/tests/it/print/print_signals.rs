//! Signals and vanished readers: how the run ends, what its transcript holds, and that the session goes on.

use std::time::Duration;

use gimlet_script::{Fault, FaultPoint, Script, ScriptServer};
use gimlet_testkit::{RunningChild, TestWorld, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{block_on_child, wait_for_exit};
use crate::world;

fn send_signal(child: &RunningChild, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.pid()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// A reply that stops inside its text and stays there.
async fn serve_stalled_reply() -> ScriptServer {
    let stall = Fault::Stall { at: FaultPoint::MidText, ping_every_ms: None, for_ms: None };
    Script::new().say("These are the first words of a long answer that never ends.").fault(stall).serve().await.unwrap()
}

/// Starts a run and waits until it has shown some of its answer.
async fn start_until_text(world: &TestWorld, model: &ScriptServer) -> RunningChild {
    let run = world.run(model).stream("go").arg("--include-partial-messages").start();
    block_on_child(run, |run| run.read_until("text_delta")).await
}

/// Resumes the only session against a strict model and gives what it sent.
async fn resume_and_get_messages(world: &TestWorld) -> Vec<Value> {
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--continue", "and now?"]).finish().await;
    run.expect_code(0);
    assert_eq!(run.stderr, "");
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
    model.request(0).messages()
}

#[tokio::test]
async fn an_interrupt_while_the_model_speaks_ends_the_turn_and_keeps_the_words() {
    let world = world();
    let model = serve_stalled_reply().await;
    let run = start_until_text(&world, &model).await;
    send_signal(&run, Signal::INT);
    let sent_at = std::time::Instant::now();
    let request = model.wait_for_end(0).await;
    let closed = request.outcome().client_closed_at.unwrap();
    assert!(closed.saturating_duration_since(sent_at) < Duration::from_millis(200));
    let run = wait_for_exit(run).await;
    run.expect_code(130);
    let result = run.result();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("error_during_execution"), &json!(true)));
    assert_eq!((&result["terminal_reason"], &result["stop_reason"]), (&json!("aborted_streaming"), &Value::Null));
    assert!(result.get("result").is_none());
    let aborted: Vec<Value> = run.lines().into_iter().filter(|line| line["aborted"] == true).collect();
    assert_eq!(aborted.len(), 1);
    let messages = resume_and_get_messages(&world).await;
    let texts: Vec<&str> = messages.iter().map(|message| message["content"][0]["text"].as_str().unwrap()).collect();
    assert!(texts[1].starts_with("These are the first"), "{texts:?}");
    assert_eq!(texts[2], "[Request interrupted by user]");
    assert_eq!(texts[3], "and now?");
}

#[tokio::test]
async fn an_interrupt_in_text_mode_says_so_and_exits_130() {
    let world = world();
    let model = serve_stalled_reply().await;
    let run = world.run(&model).print_text("go").start();
    model.wait_for_requests(1).await;
    send_signal(&run, Signal::INT);
    let run = wait_for_exit(run).await;
    run.expect_code(130);
    assert_eq!(run.stdout, "", "an interrupt is no answer");
    let id = world.transcripts()[0].file_stem().unwrap().to_string_lossy().into_owned();
    assert_eq!(run.stderr, format!("gimlet: interrupted\ngimlet: to continue: gimlet -p --resume {id} \"…\"\n"));
}

/// A reply that starts a long command and wants to write a file behind it.
async fn serve_long_command(world: &TestWorld) -> ScriptServer {
    let command = json!({"command": "touch begun; sleep 600"});
    let write = json!({"file_path": world.path("behind.txt"), "content": "x"});
    Script::new().say("Working.").call("Bash", command).call("Write", write).serve().await.unwrap()
}

/// Waits until the command of [`serve_long_command`] runs.
async fn wait_for_command(world: &TestWorld) {
    wait_until("the command began", || world.project.join("begun").exists()).await;
}

#[tokio::test]
async fn an_interrupt_while_tools_run_answers_every_call() {
    let world = world();
    let model = serve_long_command(&world).await;
    let run = world.run(&model).stream("go").start();
    wait_for_command(&world).await;
    send_signal(&run, Signal::INT);
    let run = wait_for_exit(run).await;
    run.expect_code(130);
    let result = run.result();
    assert_eq!(
        (&result["subtype"], &result["terminal_reason"]),
        (&json!("error_during_execution"), &json!("aborted_tools"))
    );
    assert!(!world.project.join("behind.txt").exists(), "the call after the interrupted one did not run");
    let messages = resume_and_get_messages(&world).await;
    assert_eq!((messages.len(), block_types(&messages[2])), (4, vec!["tool_result", "tool_result", "text"]));
    assert_eq!(messages[2]["content"][2]["text"], "[Request interrupted by user for tool use]");
}

fn block_types(message: &Value) -> Vec<&str> {
    message["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_termination_signal_while_a_command_runs_sends_nothing_more_and_resume_repairs() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::KILL, 137)] {
        let world = world();
        let model = serve_long_command(&world).await;
        let run = world.run(&model).stream("go").start();
        wait_for_command(&world).await;
        send_signal(&run, signal);
        let run = wait_for_exit(run).await;
        run.expect_code(code);
        assert_eq!((run.stderr.as_str(), model.requests().len()), ("", 1));
        assert!(run.lines().iter().all(|line| line["type"] != "result" && line["type"] != "user"), "{}", run.stdout);
        assert!(!world.project.join("behind.txt").exists());
        let next = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&next).args(["-p", "--continue", "and now?"]).finish().await;
        run.expect_code(0);
        // A record that ends in order is not damaged. After a kill the next run may come before the custodian is done.
        let (told, left) = run.stderr.split_once('\n').unwrap();
        assert_eq!(told, "gimlet: the last turn was cut off; its calls without a result count as interrupted");
        assert!(left.is_empty() || (signal == Signal::KILL && left.contains("that a killed run had left")), "{left}");
        assert!(next.rejections().is_empty(), "{:?}", next.rejections());
        let messages = next.request(0).messages();
        assert_eq!(
            (block_types(&messages[2]), block_types(&messages[3])),
            (vec!["tool_result", "tool_result"], vec!["text"])
        );
        assert!(next.request(0).tool_results().iter().all(|result| result.contains("interrupted before its result")));
    }
}

#[tokio::test]
async fn an_interrupt_at_any_other_moment_leaves_a_history_that_goes_on() {
    let stall = |at| Fault::Stall { at, ping_every_ms: None, for_ms: None };
    let thinking = || Script::new().think("A first thought.").say("words");
    let waiting = Script::new().error(529, "busy").header("retry-after", "30");
    let moments = [
        (
            "before the first byte",
            Script::new().say("words").fault(stall(FaultPoint::BeforeHeaders)),
            "status\":\"requesting",
        ),
        ("inside thinking", thinking().fault(stall(FaultPoint::MidThinking)), "thinking_delta"),
        ("between thinking and text", thinking().fault(stall(FaultPoint::BetweenBlocks)), "\"type\":\"assistant\""),
        (
            "inside a call",
            Script::new().call("Read", json!({"file_path": "/a"})).fault(stall(FaultPoint::MidTool)),
            "input_json_delta",
        ),
        ("while waiting to try again", waiting, "api_retry"),
    ];
    for (name, script, sign) in moments {
        let world = world();
        let model = script.serve().await.unwrap();
        let run = world.run(&model).stream("go").arg("--include-partial-messages").start();
        let run = block_on_child(run, move |run| run.read_until(sign)).await;
        send_signal(&run, Signal::INT);
        let run = wait_for_exit(run).await;
        run.expect_code(130);
        assert_eq!(run.result()["terminal_reason"], "aborted_streaming", "{name}");
        let messages = resume_and_get_messages(&world).await;
        let texts: Vec<&str> = messages.iter().filter_map(|message| message["content"][0]["text"].as_str()).collect();
        assert!(texts.ends_with(&["[Request interrupted by user]", "and now?"]), "{name}: {texts:?}");
    }
}

#[tokio::test]
async fn a_second_interrupt_ends_gimlet_at_once() {
    let world = world();
    let model = serve_stalled_reply().await;
    let run = start_until_text(&world, &model).await;
    send_signal(&run, Signal::INT);
    send_signal(&run, Signal::INT);
    wait_for_exit(run).await.expect_code(130);
    resume_and_get_messages(&world).await;
}

#[tokio::test]
async fn a_termination_signal_leaves_the_turn_unfinished_and_resumable() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let world = world();
        world.file("a.txt", "alpha\n");
        let stall = Fault::Stall { at: FaultPoint::MidText, ping_every_ms: None, for_ms: None };
        let model = Script::new()
            .say("Looking.")
            .call("Read", json!({"file_path": world.path("a.txt")}))
            .then()
            .say("An answer that never ends.")
            .fault(stall);
        let model = model.serve().await.unwrap();
        let run = world.run(&model).stream("go").arg("--include-partial-messages").start();
        let run = block_on_child(run, |run| {
            run.read_until("tool_result");
            run.read_until("text_delta");
        });
        let run = run.await;
        send_signal(&run, signal);
        let run = wait_for_exit(run).await;
        run.expect_code(code);
        assert_eq!(run.stderr, "");
        assert!(run.lines().iter().all(|line| line["type"] != "result"));
        let messages = resume_and_get_messages(&world).await;
        let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "user"]);
        assert_eq!((block_types(&messages[2]), block_types(&messages[3])), (vec!["tool_result"], vec!["text"]));
    }
}

#[tokio::test]
async fn a_closed_stdout_ends_gimlet_quietly() {
    let world = world();
    let stall = Fault::Stall { at: FaultPoint::MidText, ping_every_ms: None, for_ms: Some(300) };
    let answer = "word ".repeat(200);
    let model = Script::new().say(answer).fault(stall).serve().await.unwrap();
    let run = start_until_text(&world, &model).await;
    let run = block_on_child(run, RunningChild::close_stdout).await;
    let run = wait_for_exit(run).await;
    run.expect_code(141);
    assert_eq!(run.stderr, "");
    resume_and_get_messages(&world).await;

    let world = crate::world();
    let model = Script::new().say("an answer for nobody").delay_ms(100).serve().await.unwrap();
    let run = world.run(&model).print_text("go").start();
    let run = wait_for_exit(block_on_child(run, RunningChild::close_stdout).await).await;
    run.expect_code(141);
    assert_eq!(run.stderr, "");
}
