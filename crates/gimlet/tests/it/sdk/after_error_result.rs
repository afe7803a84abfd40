//! The silence behind an error: whatever a program read there would make it forget the error.

use gimlet_script::{ExpectedRequest, Script};
use gimlet_testkit::wait_until;
use serde_json::{Value, json};

use super::{SdkHost, line_kinds};
use crate::world;

/// The kinds of the lines behind the first result.
fn kinds_after_result(lines: &[Value]) -> Vec<String> {
    let at = lines.iter().position(|line| line["type"] == "result").unwrap();
    assert_eq!(lines[at]["is_error"], true, "{}", lines[at]);
    line_kinds(&lines[at + 1..])
}

fn background_command(command: &str) -> Value {
    json!({"command": command, "run_in_background": true})
}

#[tokio::test]
async fn the_end_of_a_background_command_does_not_follow_an_error() {
    for flags in [&["--max-turns", "1"][..], &[]] {
        let world = world();
        let script = Script::new().call("Bash", background_command("sleep 600")).then().error(400, "no such thing");
        let model = script.serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]).args(flags.iter().copied()));
        host.say("go");
        let lines = host.end().await.clean(1);
        assert!(lines.iter().any(|line| line["subtype"] == "task_started"), "{lines:#?}");
        assert_eq!(kinds_after_result(&lines), ["idle"], "{flags:?}");
    }
}

#[tokio::test]
async fn what_ended_in_the_silence_is_told_with_the_next_turn() {
    let world = world();
    let wait = "until [ -e go ]; do sleep 0.05; done";
    let script = Script::new().call("Bash", background_command(wait)).then().error(400, "no").then().say("heard of it");
    let model = script.serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.say("go");
    assert_eq!(host.result().await["is_error"], true);
    world.file("go", "");
    assert_eq!(host.result().await["result"], "heard of it");
    let lines = host.end().await.clean(0);
    let expected = ["idle", "running", "init", "task_updated", "task_notification", "background_tasks_changed", "user"];
    assert_eq!(kinds_after_result(&lines)[..expected.len()], expected);
}

/// An agent in the background at work, and a turn that failed.
fn fail_beside_agent_script() -> Script {
    let agent = json!({"description": "Wait", "prompt": "Wait.", "run_in_background": true});
    let of_agent =
        ExpectedRequest { system_contains: Some("You are an agent of gimlet".into()), ..ExpectedRequest::default() };
    let work = json!({"command": "touch begun; sleep 602"});
    Script::new().call("Agent", agent).then().error(400, "no").then().when(of_agent).call("Bash", work)
}

#[tokio::test]
async fn the_end_of_an_agent_is_told_to_whoever_still_counts() {
    let world = world();
    let model = fail_beside_agent_script().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.say("go");
    assert_eq!(host.result().await["is_error"], true);
    wait_until("the agent is at work", || world.project.join("begun").exists()).await;
    host.send_request(json!({"subtype": "interrupt"})).await;
    host.wait_for_state("idle").await;
    let lines = host.end().await.clean(1);
    let told: Vec<String> =
        kinds_after_result(&lines).into_iter().filter(|kind| kind.contains("task") || kind == "user").collect();
    assert_eq!(told, ["task_updated", "task_notification"]);
}

/// A call that was shown has exactly one result, and a result has a call.
#[tokio::test]
async fn what_an_agent_had_begun_before_the_error_is_told_with_the_next_turn() {
    let world = world();
    let agent = json!({"description": "Wait", "prompt": "Wait.", "run_in_background": true});
    let of_agent = |messages: usize| ExpectedRequest {
        system_contains: Some("You are an agent of gimlet".into()),
        messages: Some(messages),
        ..ExpectedRequest::default()
    };
    let until = |file: &str| json!({"command": format!("until [ -e {file} ]; do sleep 0.05; done")});
    let script = Script::new().call("Agent", agent).then().call("Bash", until("begun")).then().error(400, "no");
    let script = script.then().call("Bash", until("second")).then().say("heard of it");
    let first = json!({"command": "touch begun; until [ -e go ]; do sleep 0.05; done"});
    let second = json!({"command": "touch second; until [ -e on ]; do sleep 0.05; done"});
    let script = script.then().when(of_agent(1)).call("Bash", first).then().when(of_agent(3)).call("Bash", second);
    let model = script.then().when(of_agent(5)).say("waited").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.say("go");
    assert_eq!(host.result().await["is_error"], true);
    world.file("go", "");
    wait_until("the agent goes on", || world.project.join("second").exists()).await;
    host.say("and now");
    host.until(|line| line["subtype"] == "init").await;
    world.file("on", "");
    assert_eq!(host.result().await["is_error"], false);
    let lines = host.end().await.lines;
    let ids = |kind: &str, member: &str| -> Vec<Value> {
        let inside = lines.iter().filter(|line| line["type"] == kind && line["parent_tool_use_id"].is_string());
        inside.map(|line| line["message"]["content"][0][member].clone()).collect()
    };
    assert_eq!(ids("user", "tool_use_id"), ids("assistant", "id"));
    assert_eq!(ids("user", "tool_use_id").len(), 1, "what was begun in the silence is not told");
    let told = lines.iter().position(|line| line["type"] == "user" && line["parent_tool_use_id"].is_string());
    assert_eq!(lines[told.unwrap() - 1]["subtype"], "init");
}

#[tokio::test]
async fn nobody_counts_agents_after_the_last_line() {
    let world = world();
    let model = fail_beside_agent_script().serve().await.unwrap();
    let run = world.run(&model).args(["--allowedTools", "Bash"]).env("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS", "300");
    let mut host = SdkHost::start(run);
    host.say("go");
    let lines = host.end().await.clean(1);
    let behind = kinds_after_result(&lines);
    assert!(behind.iter().all(|kind| kind == "running" || kind == "idle"), "{behind:?}");
}
