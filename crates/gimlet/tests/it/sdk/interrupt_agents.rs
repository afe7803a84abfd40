//! What an interrupt stops besides the turn.

use gimlet_script::{ExpectedRequest, Script};
use gimlet_testkit::wait_until;
use serde_json::{Value, json};

use super::{SdkHost, unsendable_content};
use crate::world;

/// An agent in the background that waits for a command, and a command of the session's own beside it.
fn agent_and_command_script() -> Script {
    let agent = json!({"description": "Wait", "prompt": "Wait.", "run_in_background": true});
    let of_agent =
        ExpectedRequest { system_contains: Some("You are an agent of gimlet".into()), ..ExpectedRequest::default() };
    Script::new()
        .call("Agent", agent)
        .call("Bash", json!({"command": "sleep 601", "run_in_background": true}))
        .then()
        .say("both run")
        .then()
        .when(of_agent)
        .call("Bash", json!({"command": "touch begun; sleep 602"}))
}

fn is_stopped_task(line: &Value, kind: &str) -> bool {
    line["subtype"] == "task_notification"
        && line["status"] == "stopped"
        && line["summary"].as_str().unwrap_or_default().contains(kind)
}

#[tokio::test]
async fn an_interrupt_stops_agents_in_the_background_and_no_commands() {
    let world = world();
    let model = agent_and_command_script().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.send_request(json!({"subtype": "initialize"})).await;
    host.say("go");
    host.result().await;
    wait_until("the command began", || world.project.join("begun").exists()).await;
    assert_eq!(host.send_request(json!({"subtype": "interrupt"})).await["subtype"], "success");
    host.until(|line| is_stopped_task(line, "Wait")).await;
    let level = host.until(|line| line["subtype"] == "background_tasks_changed").await;
    let left: Vec<&Value> = level["tasks"].as_array().unwrap().iter().map(|task| &task["task_type"]).collect();
    assert_eq!(left, ["local_bash"], "the command goes on");
    host.wait_for_state("idle").await;
    let lines = host.end().await.lines;
    assert_eq!(lines.iter().filter(|line| line["type"] == "result").count(), 1, "nobody tells the model of it");
}

#[tokio::test]
async fn a_host_that_stops_tasks_one_by_one_keeps_its_agents() {
    let world = world();
    let model = agent_and_command_script().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.send_request(json!({"subtype": "initialize", "perTaskStopAffordance": true})).await;
    // A greeting that says nothing of it takes nothing back.
    host.send_request(json!({"subtype": "initialize"})).await;
    host.say("go");
    host.result().await;
    let started = host.seen.iter().find(|line| line["task_type"] == "local_agent").unwrap().clone();
    wait_until("the command began", || world.project.join("begun").exists()).await;
    host.send_request(json!({"subtype": "interrupt"})).await;
    // Whatever the interrupt stopped would be told before the answer to the next request.
    host.send_request(json!({"subtype": "get_session_cost"})).await;
    assert!(!host.seen.iter().any(|line| is_stopped_task(line, "Wait")));
    host.send_request(json!({"subtype": "stop_task", "task_id": started["task_id"]})).await;
    if !host.seen.iter().any(|line| is_stopped_task(line, "Wait")) {
        host.until(|line| is_stopped_task(line, "Wait")).await;
    }
    host.end().await;
}

#[tokio::test]
async fn an_interrupt_withdraws_the_call_that_a_server_of_the_host_has_not_answered() {
    let world = world();
    let model = Script::new().call("mcp__calc__t", json!({})).then().say("never").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "mcp__calc"]));
    host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["calc"]})).await;
    host.say("go");
    let open = loop {
        let line = host.next_line().await;
        if line["request"]["message"]["method"] == "tools/call" {
            break line["request_id"].clone();
        }
        unsendable_content::answer_server(&mut host, &line, "{}");
    };
    assert_eq!(host.send_request(json!({"subtype": "interrupt"})).await["subtype"], "success");
    host.result().await;
    let end = host.end().await;
    let withdrawn = end.lines.iter().any(|line| line["type"] == "control_cancel_request" && line["request_id"] == open);
    assert!(withdrawn, "{open}: {:?}", end.lines);
    let told = |line: &Value| line["request"]["message"]["method"] == "notifications/cancelled";
    assert!(end.lines.iter().any(told), "the server hears of it too");
}

#[tokio::test]
async fn hooks_at_the_end_of_a_turn_are_told_which_agents_still_run() {
    let world = world();
    let model = agent_and_command_script().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    let hooks = json!({"Stop": [{"hookCallbackIds": ["h"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("go");
    let asked = host.wait_for_request("hook_callback").await;
    let tasks = asked["request"]["input"]["background_tasks"].as_array().unwrap().clone();
    let kinds: Vec<&Value> = tasks.iter().map(|task| &task["agent_type"]).collect();
    assert!(kinds.contains(&&json!("general-purpose")) && kinds.contains(&&Value::Null), "{tasks:?}");
    host.answer(&asked, json!({}));
    host.result().await;
    host.send_request(json!({"subtype": "interrupt"})).await;
    host.end().await;
}
