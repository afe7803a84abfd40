//! Moments beside the calls of a turn that hooks hear of: another folder, another model, what a session is called.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::SdkHost;
use crate::world;

/// Answers hooks by what they are about until a line is the one that is waited for.
async fn answer_hooks_until(host: &mut SdkHost, answers: &[(&str, Value)], is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let line = host.next_line().await;
        if is_it(&line) {
            return line;
        }
        if line["request"]["subtype"] == "hook_callback" {
            let event = &line["request"]["input"]["hook_event_name"];
            let answer = answers.iter().find(|(name, _)| event == name).map_or_else(|| json!({}), |(_, it)| it.clone());
            host.answer(&line, answer);
        }
    }
}

/// What hooks were told of an event, in order.
fn hook_inputs(lines: &[Value], event: &str) -> Vec<Value> {
    let inputs = lines.iter().map(|line| &line["request"]["input"]);
    inputs.filter(|input| input["hook_event_name"] == event).cloned().collect()
}

fn hook_registrations(events: &[&str]) -> Value {
    events.iter().map(|event| ((*event).to_owned(), json!([{"hookCallbackIds": [event]}]))).collect()
}

#[tokio::test]
async fn hooks_hear_of_another_folder_and_of_one_more() {
    let world = world();
    std::fs::create_dir_all(world.project.join("sub")).unwrap();
    let model = Script::new()
        .call("Bash", json!({"command": "cd sub"}))
        .then()
        .call("Bash", json!({"command": "true"}))
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.send_request(json!({"subtype": "initialize", "hooks": hook_registrations(&["CwdChanged", "DirectoryAdded"])}))
        .await;
    host.say("go");
    answer_hooks_until(&mut host, &[], |line| line["type"] == "result").await;
    host.send_line(json!({"type": "control_request", "request_id": "add",
        "request": {"subtype": "register_repo_root", "directory": world.path("sub")}}));
    answer_hooks_until(&mut host, &[], |line| !hook_inputs(std::slice::from_ref(line), "DirectoryAdded").is_empty())
        .await;
    let lines = host.end().await.clean(0);
    let project = world.project.canonicalize().unwrap();
    let moved = hook_inputs(&lines, "CwdChanged");
    assert_eq!(moved.len(), 1, "a command that stays where it is changes nothing");
    assert_eq!((&moved[0]["old_cwd"], &moved[0]["new_cwd"]), (&json!(project), &json!(project.join("sub"))));
    let added = hook_inputs(&lines, "DirectoryAdded");
    assert_eq!(
        (&added[0]["directory"], &added[0]["source"]),
        (&json!(project.join("sub")), &json!("register_repo_root"))
    );
}

#[tokio::test]
async fn hooks_decide_on_another_model_and_may_say_something_to_it() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-opus-4-6"]));
    let events = ["PreModelSwitch", "PostModelSwitch"];
    host.send_request(json!({"subtype": "initialize", "hooks": hook_registrations(&events)})).await;
    // Short prompts are not cached.
    host.say(&"one ".repeat(10_000));
    host.result().await;
    let deny = json!({"hookSpecificOutput": {"hookEventName": "PreModelSwitch", "permissionDecision": "deny",
        "permissionDecisionReason": "too dear"}});
    let adds =
        json!({"hookSpecificOutput": {"hookEventName": "PostModelSwitch", "additionalContext": "Be brief now."}});
    let cases = [
        ("claude-opus-4-5", vec![("PreModelSwitch", deny)], Some("too dear"), (1, 0)),
        ("claude-opus-4-5", vec![("PostModelSwitch", adds)], None, (2, 1)),
        // The same again is no switch, and what is no model is none either.
        ("claude-opus-4-5", vec![], None, (2, 1)),
        ("two words", vec![], Some("two words"), (2, 1)),
    ];
    for (number, (wanted, answers, error, (asked, heard))) in cases.into_iter().enumerate() {
        let id = json!(format!("switch_{number}"));
        host.send_line(json!({"type": "control_request", "request_id": id,
            "request": {"subtype": "set_model", "model": wanted}}));
        let line = answer_hooks_until(&mut host, &answers, |line| line["response"]["request_id"] == id).await;
        let said = line["response"]["error"].as_str();
        assert_eq!(said.is_some(), error.is_some(), "{number}: {line}");
        assert!(error.is_none_or(|part| said.unwrap_or_default().contains(part)), "{number}: {line}");
        assert_eq!(
            (hook_inputs(&host.seen, events[0]).len(), hook_inputs(&host.seen, events[1]).len()),
            (asked, heard),
            "{number}"
        );
    }
    host.say("two");
    host.result().await;
    let lines = host.end().await.clean(0);
    let last = &hook_inputs(&lines, "PreModelSwitch")[1];
    assert_eq!(
        (&last["from_model"], &last["to_model"], &last["requested_model"]),
        (&json!("claude-opus-4-6"), &json!("claude-opus-4-5"), &json!("claude-opus-4-5"))
    );
    let tokens = last["context_tokens"].as_u64().unwrap();
    assert!(tokens > 0, "{last}");
    assert_eq!(
        (&last["prompt_cache_warm"], &last["cache_ttl"], &last["pricing"]),
        (&json!(true), &json!("5m"), &json!("catalog"))
    );
    let cost = last["estimated_cache_write_usd"].as_f64().unwrap();
    assert!((cost - tokens as f64 * 6.25 / 1e6).abs() < 1e-9, "{last}");
    let request = model.request(1);
    assert_eq!(request.json()["model"], "claude-opus-4-5");
    assert!(request.body_text().contains("Be brief now."), "{}", request.body_text());
}

#[tokio::test]
async fn nothing_is_said_about_a_cache_or_a_price_that_are_not_there() {
    let cases = [
        ("claude-opus-4-5", "1", (json!(false), Value::Null)),
        ("claude-opus-4-5", "0", (json!(false), json!("catalog"))),
        ("my-own-model", "0", (json!(false), Value::Null)),
    ];
    for (wanted, without_cache, expected) in cases {
        let world = world();
        let model = Script::new().serve().await.unwrap();
        let run = world.run(&model).args(["--model", "claude-opus-4-6"]);
        let mut host = SdkHost::start(run.env("DISABLE_PROMPT_CACHING", without_cache));
        host.send_request(json!({"subtype": "initialize", "hooks": hook_registrations(&["PreModelSwitch"])})).await;
        host.send_line(json!({"type": "control_request", "request_id": "s",
            "request": {"subtype": "set_model", "model": wanted}}));
        answer_hooks_until(&mut host, &[], |line| line["response"]["request_id"] == "s").await;
        let asked = hook_inputs(&host.end().await.clean(0), "PreModelSwitch")[0].clone();
        assert_eq!((&asked["prompt_cache_warm"], &asked["pricing"]), (&expected.0, &expected.1), "{asked}");
        assert_eq!(asked.get("cache_ttl").is_some(), without_cache == "0", "{asked}");
        assert_eq!(asked.get("estimated_cache_write_usd").is_some(), !expected.1.is_null(), "{asked}");
    }
}

#[tokio::test]
async fn changes_of_the_model_take_effect_in_the_order_they_were_asked_for() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-opus-4-6"]));
    host.send_request(json!({"subtype": "initialize", "hooks": hook_registrations(&["PreModelSwitch"])})).await;
    for wanted in ["claude-opus-4-5", "claude-sonnet-4-5"] {
        host.send_line(json!({"type": "control_request", "request_id": wanted,
            "request": {"subtype": "set_model", "model": wanted}}));
    }
    let done = answer_hooks_until(&mut host, &[], |line| line["response"]["request_id"] == "claude-sonnet-4-5").await;
    assert_eq!(done["response"]["subtype"], "success");
    host.say("one");
    host.result().await;
    // A cleared conversation goes on with what the old one showed.
    host.say("/clear");
    host.result().await;
    host.say("two");
    host.result().await;
    let lines = host.end().await.clean(0);
    let left: Vec<_> = hook_inputs(&lines, "PreModelSwitch").iter().map(|input| input["from_model"].clone()).collect();
    assert_eq!(left, ["claude-opus-4-6", "claude-opus-4-5"]);
    for request in [0, 1] {
        assert_eq!(model.request(request).json()["model"], "claude-sonnet-4-5", "{request}");
    }
}

#[tokio::test]
async fn the_model_that_a_switch_led_to_is_shown_before_the_next_turn() {
    let world = world();
    let model = Script::new().say("one").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-opus-4-6"]));
    host.send_request(json!({"subtype": "initialize", "hooks": hook_registrations(&["PreModelSwitch"])})).await;
    host.send_line(json!({"type": "control_request", "request_id": "switch",
        "request": {"subtype": "set_model", "model": "claude-opus-4-5"}}));
    answer_hooks_until(&mut host, &[], |line| line["response"]["request_id"] == "switch").await;
    host.say("/clear");
    host.result().await;
    host.say("one");
    host.result().await;
    host.end().await.clean(0);
    assert_eq!(model.request(0).json()["model"], "claude-opus-4-5");
}

#[tokio::test]
async fn a_hook_that_does_not_answer_keeps_the_model() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-opus-4-6"]));
    let hooks = json!({"PreModelSwitch": [{"hookCallbackIds": ["silent"], "timeout": 0.05}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    let answer = host.send_request(json!({"subtype": "set_model", "model": "claude-opus-4-5"})).await;
    assert_eq!(answer["subtype"], "error", "{answer}");
    host.end().await.clean(0);
}

#[tokio::test]
async fn hooks_are_told_what_the_session_is_called() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.send_request(
        json!({"subtype": "initialize", "hooks": hook_registrations(&["SessionStart", "UserPromptSubmit"])}),
    )
    .await;
    let names = json!({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "sessionTitle": "the works"}});
    for words in ["one", "two"] {
        host.say(words);
        answer_hooks_until(&mut host, &[("UserPromptSubmit", names.clone())], |line| line["type"] == "result").await;
    }
    let lines = host.end().await.clean(0);
    assert!(hook_inputs(&lines, "SessionStart")[0].get("session_title").is_none());
    let prompts = hook_inputs(&lines, "UserPromptSubmit");
    assert_eq!((prompts[0].get("session_title"), &prompts[1]["session_title"]), (None, &json!("the works")));
}
