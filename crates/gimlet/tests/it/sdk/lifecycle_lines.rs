//! What programs are told about the prompts that they gave ids.

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::TestWorld;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{SdkHost, line_kinds};
use crate::world;

fn prompt_line(id: &str, words: &str) -> Value {
    json!({"type": "user", "uuid": id, "message": {"role": "user", "content": words}})
}

/// Each line about a prompt as its id and state, and results as such, in order.
fn lifecycle_story(lines: &[Value]) -> Vec<String> {
    let word = |line: &Value| match line["type"].as_str() {
        Some("command_lifecycle") => {
            assert!(line["uuid"].is_string() && line["session_id"].is_string(), "{line}");
            Some(format!("{} {}", line["command_uuid"].as_str()?, line["state"].as_str()?))
        }
        Some("result") => Some("result".to_owned()),
        _ => None,
    };
    lines.iter().filter_map(word).collect()
}

/// A session that is busy for long, with two prompts behind the one that it works on.
async fn start_with_two_waiting(world: &TestWorld) -> (ScriptServer, SdkHost) {
    let model = Script::new().call("Bash", json!({"command": "touch begun; sleep 600"})).serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions"]));
    host.send_line(prompt_line("p1", "first"));
    host.until(|line| line["type"] == "assistant").await;
    host.send_line(json!({"type": "user", "uuid": "p2", "priority": "later", "message": {"content": "later"}}));
    host.send_line(prompt_line("p3", "/clear"));
    (model, host)
}

#[tokio::test]
async fn a_prompt_with_an_id_is_followed_to_its_end_and_one_without_is_not() {
    let world = world();
    let model = Script::new().say("a").then().error(400, "no").then().say("c").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.send_line(prompt_line("a1", "one"));
    host.result().await;
    let init = host.seen.iter().find(|line| line["subtype"] == "init").unwrap();
    assert!(init["capabilities"].as_array().unwrap().contains(&json!("msg_lifecycle_v1")));
    host.send_line(prompt_line("a2", "two"));
    host.result().await;
    host.say("without an id");
    host.result().await;
    host.send_line(prompt_line("a3", ""));
    host.result().await;
    host.send_line(json!({"type": "user", "uuid": "a4", "message": {"content": 7}}));
    host.result().await;
    let lines = host.end().await.clean(1);
    let expected = [
        "a1 queued",
        "a1 started",
        "a1 completed",
        "result",
        "a2 queued",
        "a2 started",
        "a2 completed",
        "result",
        "result",
        "a3 queued",
        "a3 started",
        "a3 completed",
        "result",
        "a4 queued",
        "a4 refused",
        "result",
    ];
    assert_eq!(lifecycle_story(&lines), expected);
    assert_eq!(line_kinds(&lines).last().unwrap(), "idle", "nothing follows the result of an error");
}

#[tokio::test]
async fn prompts_that_wait_join_are_withdrawn_or_forgotten() {
    let world = world();
    let model = Script::new()
        .call("Bash", json!({"command": "touch begun; while [ ! -e go ]; do sleep 0.01; done"}))
        .then()
        .say("both")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions"]));
    host.send_line(prompt_line("p1", "first"));
    host.until(|line| line["type"] == "assistant").await;
    host.send_line(prompt_line("p2", "joins"));
    host.send_line(json!({"type": "user", "uuid": "p3", "priority": "later", "message": {"content": "withdrawn"}}));
    host.send_line(prompt_line("p4", "/clear"));
    host.send_line(prompt_line("p5", "behind the command"));
    let withdraw = |id: &str| json!({"subtype": "cancel_async_message", "message_uuid": id});
    for id in ["p3", "p5"] {
        assert_eq!(host.send_request(withdraw(id)).await["response"]["cancelled"], true, "{id}");
    }
    world.file("go", "");
    host.result().await;
    host.result().await;
    let lines = host.end().await.clean(0);
    let told = lifecycle_story(&lines);
    for id in ["p3", "p5"] {
        let of = |line: &&String| line.starts_with(id);
        assert_eq!(told.iter().filter(of).collect::<Vec<_>>(), [&format!("{id} queued"), &format!("{id} cancelled")]);
    }
    let rest: Vec<&String> = told.iter().filter(|line| !line.starts_with("p3") && !line.starts_with("p5")).collect();
    let expected = [
        "p1 queued",
        "p1 started",
        "p2 queued",
        "p4 queued",
        "p2 started",
        "p1 completed",
        "p2 completed",
        "result",
        "p4 started",
        "p4 completed",
        "result",
    ];
    assert_eq!(rest, expected);
    assert!(model.request(1).last_user_text().contains("joins"));
}

#[tokio::test]
async fn an_interrupt_that_forgets_what_waits_says_so_for_each() {
    let world = world();
    let (_model, mut host) = start_with_two_waiting(&world).await;
    let reply = host.send_request(json!({"subtype": "interrupt", "cancel_queued": true})).await;
    assert_eq!(reply["response"]["cancelled"], json!(["p2", "p3"]));
    host.result().await;
    let mut told = lifecycle_story(&host.end().await.clean(1));
    told.retain(|line| !line.contains("queued") && !line.contains("started"));
    told[..2].sort();
    assert_eq!(told, ["p2 cancelled", "p3 cancelled", "p1 completed", "result"]);
}

#[tokio::test]
async fn a_prompt_that_a_hook_blocks_was_refused_and_one_only_to_be_known_is_done() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let hooks = json!({"UserPromptSubmit": [{"hookCallbackIds": ["guard"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.send_line(
        json!({"type": "user", "uuid": "k", "shouldQuery": false, "message": {"content": "the sky is green"}}),
    );
    host.until(|line| line["state"] == "completed").await;
    host.send_line(prompt_line("b", "blocked"));
    let hook = host.wait_for_request("hook_callback").await;
    host.answer(&hook, json!({"decision": "block", "reason": "not now"}));
    host.result().await;
    let lines = host.end().await.clean(0);
    assert_eq!(lifecycle_story(&lines), ["k queued", "k started", "k completed", "b queued", "b refused", "result"]);
}

fn send_interrupt(host: &SdkHost) {
    let pid = Pid::from_raw(i32::try_from(host.child.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

#[tokio::test]
async fn whatever_waits_when_gimlet_is_ended_is_discarded_before_the_last_result() {
    for (way, code) in [("signal", 130), ("broken line", 1)] {
        let world = world();
        let (_model, mut host) = start_with_two_waiting(&world).await;
        host.send_line(prompt_line("p4", "behind the command"));
        host.until(|line| line["command_uuid"] == "p4").await;
        if way == "signal" {
            send_interrupt(&host);
        } else {
            host.write_text("hello\n");
        }
        let end = host.wait_for_exit().await;
        end.output.expect_code(code);
        let mut told = lifecycle_story(&end.lines);
        told.retain(|line| !line.contains("queued") && !line.contains("started"));
        assert_eq!(told.pop().as_deref(), Some("result"), "{way}");
        told.sort();
        assert_eq!(told, ["p1 completed", "p2 discarded", "p3 discarded", "p4 discarded"], "{way}");
    }
}

#[tokio::test]
async fn the_hooks_of_the_end_are_called_after_an_interrupt_from_the_terminal_too() {
    for busy in [false, true] {
        let world = world();
        let model = Script::new().say("hi").then().call("Bash", json!({"command": "touch it; sleep 60"})).lenient();
        let model = model.serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
        let hooks = json!({"SessionEnd": [{"hookCallbackIds": ["end"]}]});
        host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
        host.say("hi");
        host.result().await;
        if busy {
            host.say("go");
            host.until(|line| line["type"] == "assistant").await;
        }
        send_interrupt(&host);
        let hook = host.wait_for_request("hook_callback").await;
        assert_eq!(hook["request"]["input"]["hook_event_name"], "SessionEnd");
        // Whoever wants to go takes no prompt any more.
        host.say("one more thing");
        host.answer(&hook, json!({}));
        let end = host.wait_for_exit().await;
        end.output.expect_code(130);
        let sent: Vec<String> = model.requests().iter().map(|request| request.last_user_text()).collect();
        assert_eq!(sent.len(), 1 + usize::from(busy), "{sent:?}");
    }
}

#[tokio::test]
async fn a_clearing_that_is_interrupted_is_not_completed_and_has_its_result() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let hooks = json!({"SessionEnd": [{"hookCallbackIds": ["end"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.send_line(prompt_line("p1", "/clear"));
    host.wait_for_request("hook_callback").await;
    send_interrupt(&host);
    let lines = host.wait_for_exit().await.clean(130);
    assert_eq!(lifecycle_story(&lines), ["p1 queued", "p1 started", "p1 discarded", "result"]);
}

#[tokio::test]
async fn a_clearing_that_cannot_open_a_new_conversation_is_not_completed() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    world.file("flags.json", "{}");
    let mut host = SdkHost::start(world.run(&model).args(["--settings", &world.path("flags.json")]));
    host.send_request(json!({"subtype": "initialize"})).await;
    world.file("flags.json", "{");
    host.send_line(prompt_line("p1", "/clear"));
    assert_eq!(host.result().await["is_error"], true);
    let lines = host.wait_for_exit().await.clean(1);
    assert_eq!(lifecycle_story(&lines), ["p1 queued", "p1 started", "p1 discarded", "result"]);
}

#[tokio::test]
async fn hooks_know_a_prompt_by_the_id_that_it_will_have() {
    let world = world();
    let model = Script::new().say("a").then().say("b").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let hooks = json!({"UserPromptSubmit": [{"hookCallbackIds": ["submit"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    let mut told = Vec::new();
    for line in [
        prompt_line("11111111-0000-4000-8000-000000000001", "one"),
        json!({"type": "user", "message":
        {"role": "user", "content": "two"}}),
    ] {
        host.send_line(line);
        let hook = host.wait_for_request("hook_callback").await;
        told.push(hook["request"]["input"]["prompt_id"].clone());
        assert_eq!(hook["request"]["input"]["source"], "sdk");
        host.answer(&hook, json!({}));
        host.result().await;
    }
    host.end().await.clean(0);
    assert_eq!(told[0], "11111111-0000-4000-8000-000000000001");
    let is_prompt = |entry: &&Value| entry["type"] == "user" && entry["isMeta"] != true;
    let written: Vec<Value> =
        world.transcript_entries().iter().filter(is_prompt).map(|entry| entry["uuid"].clone()).collect();
    assert_eq!(told, written);
}
