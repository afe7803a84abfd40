//! What programs are told beside the conversation: where a turn comes from, who asks, who refused, what runs.

use gimlet_script::{ExpectedRequest, Script, ScriptServer};
use gimlet_testkit::{TestWorld, entries_of};
use serde_json::{Value, json};

use super::{SdkHost, result_text, unsendable_content};
use crate::world;

#[tokio::test]
async fn a_turn_that_an_agent_began_says_so_on_every_side() {
    let world = world();
    let of_agent =
        ExpectedRequest { system_contains: Some("You are an agent of gimlet".into()), ..ExpectedRequest::default() };
    let model = Script::new()
        .call("Agent", json!({"description": "Look", "prompt": "Look.", "run_in_background": true}))
        .then()
        .say("it looks")
        .then()
        .say("it has looked")
        .then()
        .when(of_agent)
        .say("seen")
        .delay_ms(100)
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("go");
    assert!(host.result().await.get("origin").is_none());
    let origin = json!({"kind": "task-notification"});
    let told = host.until(|line| line["type"] == "user" && line["isSynthetic"] == true).await;
    assert_eq!(told["origin"], origin, "{told}");
    assert_eq!(host.result().await["origin"], origin);
    let results = host.seen.iter().filter(|line| !line["tool_use_result"].is_null());
    assert!(results.clone().count() > 0 && results.clone().all(|line| line.get("origin").is_none()));
    host.end().await.clean(0);
    let mut entries = world.transcripts().into_iter().flat_map(|path| entries_of(&path));
    let entry = entries.find(|entry| entry["uuid"] == told["uuid"]).unwrap();
    assert_eq!((&entry["origin"], &entry["isMeta"]), (&origin, &json!(true)));
}

#[tokio::test]
async fn a_host_that_greets_again_is_told_what_runs() {
    let world = world();
    let model = Script::new()
        .call("Bash", json!({"command": "sleep 600", "description": "Wait", "run_in_background": true}))
        .then()
        .say("it runs")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.send_request(json!({"subtype": "initialize"})).await;
    host.say("go");
    host.result().await;
    host.send_request(json!({"subtype": "initialize"})).await;
    let level = host.until(|line| line["subtype"] == "background_tasks_changed").await;
    assert_eq!(level["tasks"][0]["task_type"], "local_bash", "{level}");
    host.end().await;
}

#[tokio::test]
async fn a_refusal_for_want_of_a_person_has_a_public_reason() {
    let world = world();
    let model = Script::new().call("Bash", json!({"command": "touch x"})).then().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("go");
    let denied = host.until(|line| line["subtype"] == "permission_denied").await;
    assert_eq!(denied["decision_reason_type"], "other", "{denied}");
    host.result().await;
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_question_names_the_agent_that_asks() {
    let world = world();
    let model = Script::new()
        .call("Agent", json!({"description": "Make x", "prompt": "Make x.", "subagent_type": "Bash"}))
        .then()
        .call("Bash", json!({"command": "touch x"}))
        .then()
        .say("made")
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("go");
    let question = host.wait_for_request("can_use_tool").await;
    assert_eq!(question["request"]["title"], "gimlet's agent Bash wants to use Bash", "{question}");
    host.answer(&question, json!({"behavior": "deny", "message": "no"}));
    host.result().await;
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_prompt_that_a_hook_blocks_takes_no_turn_of_the_models() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let hooks = json!({"UserPromptSubmit": [{"hookCallbackIds": ["h"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("go");
    let asked = host.wait_for_request("hook_callback").await;
    host.answer(&asked, json!({"decision": "block", "reason": "not now"}));
    let result = host.result().await;
    assert_eq!((&result["num_turns"], &result["result"]), (&json!(0), &json!("not now")));
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_server_that_was_silent_is_greeted_again_with_the_next_turn() {
    let world = world();
    let model = Script::new().say("alone").then().say("together").serve().await.unwrap();
    let config = json!({"mcpServers": {"calc": {"type": "sdk"}}}).to_string();
    let mut host = SdkHost::start(world.run(&model).args(["--mcp-config", &config]).env("MCP_TIMEOUT", "300"));
    host.say("one");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!(init["mcp_servers"][0]["status"], "failed", "{init}");
    host.result().await;
    host.say("two");
    unsendable_content::serve(&mut host, "{}").await;
    let init = host.seen.iter().rfind(|line| line["subtype"] == "init").unwrap();
    assert_eq!(init["mcp_servers"][0]["status"], "connected", "{init}");
    assert!(model.request(1).tool_names().contains(&"mcp__calc__t".to_owned()));
    host.end().await.clean(0);
}

/// A session in which the call that would make `x` waits, and the call's id.
async fn start_with_waiting_call(world: &TestWorld, model: &ScriptServer) -> (SdkHost, Value) {
    let mut host = SdkHost::start(world.run(model).args(["--allowedTools", "Bash"]));
    let hooks = json!({"PreToolUse": [{"hookCallbackIds": ["h"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("go");
    let asked = host.wait_for_request("hook_callback").await;
    let later = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}});
    host.answer(&asked, later);
    let deferred = host.result().await["deferred_tool_use"].clone();
    (host, deferred["id"].clone())
}

#[tokio::test]
async fn a_call_goes_on_waiting_when_its_answer_cannot_be_taken_up() {
    let world = world();
    let model = Script::new().call("Bash", json!({"command": "touch x"})).then().say("done").serve().await.unwrap();
    let (mut host, call) = start_with_waiting_call(&world, &model).await;
    let result = |id: &Value, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
    for content in [
        json!([result(&json!("toolu_other"), "no")]),
        json!([result(&call, &"long ".repeat(6_000_000))]),
        json!([result(&call, "yes"), result(&call, "again")]),
        json!([{"type": "text", "text": "and"}, result(&json!("toolu_other"), "no"), result(&call, "yes")]),
    ] {
        host.send_line(json!({"type": "user", "message": {"role": "user", "content": content}}));
        let refused = host.result().await;
        assert_eq!(refused["is_error"], true, "{refused}");
        assert!(!world.project.join("x").exists(), "it was run");
    }
    let answer = json!([result(&call, "made outside")]);
    let uuid = "00000000-0000-4000-8000-00000000000a";
    host.send_line(json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": answer}}));
    let told = host.until(|line| line["type"] == "user").await;
    assert!(result_text(&told).contains("made outside") && told["uuid"] == uuid, "{told}");
    assert_eq!(host.result().await["result"], "done");
    host.end().await.clean(0);
    assert!(!world.project.join("x").exists());
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn the_host_can_answer_a_call_that_was_left_for_later() {
    for (words, requests) in [(None, 2), (Some("go on"), 2)] {
        let world = world();
        let model = Script::new().call("Bash", json!({"command": "touch x"})).then().say("done").serve().await.unwrap();
        let (mut host, call) = start_with_waiting_call(&world, &model).await;
        let answer = json!({"type": "tool_result", "tool_use_id": call, "content": "made outside"});
        let content: Vec<Value> =
            std::iter::once(answer).chain(words.map(|text| json!({"type": "text", "text": text}))).collect();
        host.send_line(json!({"type": "user", "message": {"role": "user", "content": content}}));
        let told = host.until(|line| line["type"] == "user").await;
        assert!(result_text(&told).contains("made outside"), "{told}");
        assert_eq!(host.result().await["result"], "done");
        host.end().await.clean(0);
        assert!(!world.project.join("x").exists(), "it was not run");
        assert_eq!(model.requests().len(), requests);
        let sent = model.request(1).body_text().into_owned();
        assert!(sent.contains("made outside") && words.is_none_or(|words| sent.contains(words)), "{sent}");
    }
}
