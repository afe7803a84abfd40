//! Greetings behind other lines: the session gives way to another one, and nothing that was said is lost or opened by that.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::{FLAGS, SdkHost, line_kinds};
use crate::world;

fn agent_definitions() -> Value {
    json!({"pirate": {"description": "Talks like one", "prompt": "You are a pirate."}})
}

fn request_line(id: &str, request: Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

fn prompt_line(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}})
}

fn result_texts(lines: &[Value]) -> Vec<Value> {
    lines.iter().filter(|line| line["type"] == "result").map(|line| line["result"].clone()).collect()
}

#[tokio::test]
async fn a_prompt_behind_the_greeting_is_answered_although_it_is_the_last_line() {
    let world = world();
    let model = Script::new().say("one").serve().await.unwrap();
    let mut said = vec![
        request_line("r1", json!({"subtype": "get_settings"})),
        request_line("r2", json!({"subtype": "initialize", "agents": agent_definitions()})),
    ];
    // So many answers that the new session has time to say that it rests before the prompt reaches it.
    said.resize(500, request_line("again", json!({"subtype": "get_settings"})));
    said.push(prompt_line("hi"));
    let text: String = said.iter().map(|line| format!("{line}\n")).collect();
    // All of it is there from the start, and so is its end.
    let run = world.run(&model).args(FLAGS).stdin(text).finish().await;
    run.expect_code(0);
    let lines: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(result_texts(&lines), [json!("one")], "{:?}", line_kinds(&lines));
}

#[tokio::test]
async fn a_prompt_right_behind_a_cleared_conversation_is_answered_although_it_is_the_last_line() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("first");
    host.result().await;
    host.wait_for_state("idle").await;
    host.say("/clear");
    // By now the old session is ending, so the prompt waits for the new one.
    host.until(|line| line["subtype"] == "init").await;
    host.say("second");
    let lines = host.end().await.clean(0);
    assert_eq!(result_texts(&lines), [json!("one"), json!(""), json!("two")], "{:?}", line_kinds(&lines));
}

#[tokio::test]
async fn no_setting_opens_a_mode_by_way_of_a_new_session() {
    for again in ["initialize", "/clear"] {
        let world = world();
        let model = Script::new().say("ok").serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).env("IS_SANDBOX", "1"));
        let settings = json!({"permissions": {"defaultMode": "bypassPermissions"}});
        host.send_request(json!({"subtype": "apply_flag_settings", "settings": settings})).await;
        if again == "initialize" {
            let welcome = host.send_request(json!({"subtype": "initialize", "agents": agent_definitions()})).await;
            assert_eq!(welcome["subtype"], "success", "{welcome}");
        } else {
            host.say(again);
            host.result().await;
        }
        let bypass = host.send_request(json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"})).await;
        assert_eq!(bypass["subtype"], "error", "{again}: {bypass}");
        let before = host.seen.len();
        host.say("hi");
        host.result().await;
        let init = host.seen[before..].iter().find(|line| line["subtype"] == "init").unwrap();
        assert_eq!(init["permissionMode"], "default", "{again}");
        host.end().await.clean(0);
    }
}

#[tokio::test]
async fn a_mode_that_was_in_reach_stays_in_reach() {
    for again in ["initialize", "/clear"] {
        let world = world();
        let model = Script::new().say("ok").serve().await.unwrap();
        // The person's own file starts it; the program leaves it for now.
        let own = world.home.join(".claude");
        std::fs::create_dir_all(&own).unwrap();
        let settings = json!({"permissions": {"defaultMode": "bypassPermissions"}});
        std::fs::write(own.join("settings.json"), settings.to_string()).unwrap();
        let mut host = SdkHost::start(world.run(&model).env("IS_SANDBOX", "1"));
        host.send_request(json!({"subtype": "set_permission_mode", "mode": "default"})).await;
        if again == "initialize" {
            host.send_request(json!({"subtype": "initialize", "agents": agent_definitions()})).await;
        } else {
            host.say(again);
            host.result().await;
        }
        let before = host.seen.len();
        host.say("hi");
        host.result().await;
        let init = host.seen[before..].iter().find(|line| line["subtype"] == "init").unwrap();
        assert_eq!(init["permissionMode"], "default", "{again}");
        let bypass = host.send_request(json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"})).await;
        assert_eq!(bypass["subtype"], "success", "{again}: {bypass}");
        host.end().await.clean(0);
    }
}

#[tokio::test]
async fn an_agent_brings_no_bypass_that_nobody_gave() {
    let bypassing = json!({"x": {"description": "d", "prompt": "p", "permissionMode": "bypassPermissions"}});
    let disabled = r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#;
    for (flags, late, mode) in [
        (vec![], false, "default"),
        (vec![], true, "default"),
        (vec!["--settings", disabled], false, "default"),
        (vec!["--settings", disabled], true, "default"),
        (vec!["--allow-dangerously-skip-permissions"], false, "bypassPermissions"),
        (vec!["--allow-dangerously-skip-permissions"], true, "bypassPermissions"),
    ] {
        let world = world();
        let model = Script::new().say("ok").serve().await.unwrap();
        let mut host =
            SdkHost::start(world.run(&model).env("IS_SANDBOX", "1").args(["--agent", "x"]).args(flags.clone()));
        if late {
            host.send_request(json!({"subtype": "get_binary_version"})).await;
        }
        let welcome = host.send_request(json!({"subtype": "initialize", "agents": bypassing})).await;
        assert_eq!(welcome["subtype"], "success", "{flags:?} {late}: {welcome}");
        host.say("hi");
        let init = host.until(|line| line["subtype"] == "init").await;
        assert_eq!(init["permissionMode"], mode, "{flags:?} {late}");
        host.result().await;
        let end = host.end().await;
        end.output.expect_code(0);
        let said = end.output.stderr.contains("the agent type 'x' asks for bypassPermissions");
        assert_eq!(said, mode == "default", "{flags:?} {late}: {}", end.output.stderr);
    }
}

#[tokio::test]
async fn another_mode_of_an_agent_holds_also_when_it_comes_late() {
    let editing = json!({"x": {"description": "d", "prompt": "p", "permissionMode": "acceptEdits"}});
    for (chosen, mode) in [(None, "acceptEdits"), (Some("plan"), "plan")] {
        let world = world();
        let model = Script::new().say("ok").serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(["--agent", "x"]));
        host.send_request(json!({"subtype": "get_binary_version"})).await;
        if let Some(mode) = chosen {
            host.send_request(json!({"subtype": "set_permission_mode", "mode": mode})).await;
        }
        host.send_request(json!({"subtype": "initialize", "agents": editing})).await;
        host.say("hi");
        let init = host.until(|line| line["subtype"] == "init").await;
        assert_eq!(init["permissionMode"], mode);
        host.result().await;
        host.end().await.output.expect_code(0);
    }
}

#[tokio::test]
async fn effort_outlives_the_session_that_it_was_chosen_in() {
    for again in ["initialize", "/clear"] {
        let world = world();
        let model = Script::new().say("ok").lenient().serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-opus-4-6", "--effort", "high"]));
        host.send_request(json!({"subtype": "apply_flag_settings", "settings": {"effortLevel": "low"}})).await;
        if again == "initialize" {
            host.send_request(json!({"subtype": "initialize", "agents": agent_definitions()})).await;
        } else {
            host.say(again);
            host.result().await;
        }
        host.say("hi");
        host.result().await;
        host.end().await.clean(0);
        assert_eq!(model.request(0).json()["output_config"], json!({"effort": "low"}), "{again}");
    }
}

#[tokio::test]
async fn a_shape_that_cannot_be_had_is_refused_and_the_session_goes_on() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.send_request(json!({"subtype": "get_binary_version"})).await;
    for (bad, word) in [
        (json!({"jsonSchema": {"type": 7}}), "the jsonSchema of initialize"),
        (json!({"agents": {"x": {"description": 7}}}), "agents"),
        (json!({"agents": "none"}), "agents"),
        (json!({"agents": agent_definitions(), "title": "long ".repeat(100)}), "title"),
    ] {
        let mut greeting = bad.clone();
        greeting["subtype"] = json!("initialize");
        let answer = host.send_request(greeting).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(answer["subtype"] == "error" && error.contains(word), "{bad}: {answer}");
    }
    let welcome = host.send_request(json!({"subtype": "initialize", "agents": agent_definitions()})).await;
    assert_eq!(welcome["subtype"], "success", "{welcome}");
    host.say("hi");
    assert_eq!(host.result().await["result"], "ok");
    host.end().await.clean(0);
}

#[tokio::test]
async fn what_several_greetings_asked_for_counts_together() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let parrot = json!({"parrot": {"description": "Repeats", "prompt": "You are a parrot."}});
    host.send_request(
        json!({"subtype": "initialize", "agents": agent_definitions(), "appendSystemPrompt": "be brief"}),
    )
    .await;
    host.send_request(json!({"subtype": "initialize", "agents": parrot})).await;
    host.say("hi");
    host.result().await;
    assert!(model.request(0).system_text().contains("be brief"));
    for known in [
        json!({"subtype": "initialize", "agents": agent_definitions()}),
        json!({"subtype": "initialize", "agents": parrot}),
        json!({"subtype": "initialize", "appendSystemPrompt": "be brief"}),
    ] {
        let welcome = host.send_request(known.clone()).await;
        assert_eq!(welcome["subtype"], "success", "{known}: {welcome}");
        let agents = welcome["response"]["agents"].to_string();
        assert!(agents.contains("pirate") && agents.contains("parrot"), "{agents}");
    }
    host.end().await.clean(0);
}

#[tokio::test]
async fn members_that_ask_for_nothing_never_come_too_late() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("hi");
    host.result().await;
    let welcome = host
        .send_request(json!({"subtype": "initialize", "agents": {}, "jsonSchema": {}, "systemPrompt": [],
            "appendSystemPrompt": ""}))
        .await;
    assert_eq!(welcome["subtype"], "success", "{welcome}");
    host.say("more");
    host.result().await;
    host.end().await.clean(0);
    assert_eq!(model.request(0).system_text(), model.request(1).system_text());
}
