//! Settings that a host lays over those of the command line while the session runs.

use std::path::Path;

use gimlet_script::Script;
use serde_json::json;

use super::SdkHost;
use crate::world;

#[tokio::test]
async fn model_effort_and_style_act_from_the_next_request_on() {
    let world = world();
    let model = Script::new().say("one").then().say("two").then().say("three").lenient().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-opus-4-6"]));
    host.say("one");
    host.result().await;
    let change = json!({"model": "claude-opus-4-5", "effortLevel": "low", "outputStyle": "terse"});
    let answer = host.send_request(json!({"subtype": "apply_flag_settings", "settings": change})).await;
    assert_eq!(answer["subtype"], "success", "{answer}");
    host.say("two");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!((&init["model"], &init["output_style"]), (&json!("claude-opus-4-5"), &json!("terse")));
    host.result().await;
    assert_eq!(host.send_request(json!({"subtype": "initialize"})).await["response"]["output_style"], "terse");
    let back = json!({"model": null, "effortLevel": null, "outputStyle": null});
    host.send_request(json!({"subtype": "apply_flag_settings", "settings": back})).await;
    host.say("three");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!((&init["model"], &init["output_style"]), (&json!("claude-opus-4-6"), &json!("default")));
    host.result().await;
    host.end().await.clean(0);
    let sent =
        |at: usize| (model.request(at).json()["model"].clone(), model.request(at).json()["output_config"].clone());
    assert_eq!(
        (sent(0).0, sent(1).0, sent(2).0),
        (json!("claude-opus-4-6"), json!("claude-opus-4-5"), json!("claude-opus-4-6"))
    );
    assert_eq!((sent(1).1, sent(2).1 == sent(0).1), (json!({"effort": "low"}), true));
}

#[tokio::test]
async fn what_is_taken_away_goes_back_to_the_start_also_in_a_cleared_conversation() {
    let world = world();
    let model = Script::new().say("one").then().say("two").then().say("three").lenient().serve().await.unwrap();
    let settings = r#"{"model": "claude-opus-4-6", "effortLevel": "medium"}"#;
    let mut host = SdkHost::start(world.run(&model).args(["--settings", settings]));
    let change = json!({"model": "claude-opus-4-5", "effortLevel": "low"});
    host.send_request(json!({"subtype": "apply_flag_settings", "settings": change})).await;
    for words in ["one", "/clear", "two"] {
        host.say(words);
        host.result().await;
    }
    let back = json!({"model": null, "effortLevel": null});
    host.send_request(json!({"subtype": "apply_flag_settings", "settings": back})).await;
    host.say("three");
    host.result().await;
    host.end().await.clean(0);
    let sent = |at: usize| {
        let body = model.request(at).json();
        (body["model"].clone(), body["output_config"]["effort"].clone())
    };
    let low = (json!("claude-opus-4-5"), json!("low"));
    assert_eq!((sent(0), sent(1)), (low.clone(), low));
    assert_eq!(sent(2), (json!("claude-opus-4-6"), json!("medium")));
}

#[tokio::test]
async fn invalid_settings_change_nothing() {
    let world = world();
    let model = Script::new().say("one").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-opus-4-6"]));
    for bad in [
        json!({"model": 7, "outputStyle": "terse"}),
        json!({"effortLevel": "heroic", "outputStyle": "terse"}),
        json!({"model": "two words", "effortLevel": "low", "outputStyle": "terse"}),
        json!({"model": "", "effortLevel": "low", "outputStyle": "terse"}),
        json!({"model": "-x", "effortLevel": "low", "outputStyle": "terse"}),
    ] {
        let answer = host.send_request(json!({"subtype": "apply_flag_settings", "settings": bad})).await;
        assert_eq!(answer["subtype"], "error", "{bad}: {answer}");
        let settings = host.send_request(json!({"subtype": "get_settings"})).await["response"]["effective"].clone();
        let touched = ["model", "effortLevel", "outputStyle"].iter().any(|key| settings.get(key).is_some());
        assert!(!touched, "{bad}: {settings}");
    }
    host.say("one");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!((&init["model"], &init["output_style"]), (&json!("claude-opus-4-6"), &json!("default")));
    host.result().await;
    host.end().await.clean(0);
    assert_ne!(model.request(0).json()["output_config"], json!({"effort": "low"}));
}

#[tokio::test]
async fn the_name_of_a_style_needs_no_trust() {
    let world = world();
    world.file(".claude/settings.json", r#"{"outputStyle": "Learning"}"#);
    let init = async |sources: &str| {
        let model = Script::new().say("ok").serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).arg(format!("--setting-sources={sources}")));
        host.say("hi");
        let init = host.until(|line| line["subtype"] == "init").await;
        host.result().await;
        let said = host.end().await.output.stderr;
        assert_eq!(said.contains("setting outputStyle"), sources == "local", "{sources}: {said}");
        init["output_style"].clone()
    };
    assert_eq!(init("project").await, "Learning");
    world.file(".claude/settings.local.json", r#"{"outputStyle": "Concise"}"#);
    assert_eq!(init("local").await, "Concise");
    assert_eq!(init("project,local").await, "Concise");
    assert_eq!(init("user").await, "default");
}

#[tokio::test]
async fn a_rule_that_was_acknowledged_refuses_what_a_question_or_a_hook_lets_go_on_later() {
    let deny = || json!({"subtype": "apply_flag_settings", "settings": {"permissions": {"deny": ["Bash(touch *)"]}}});
    let hook = |event: &str| json!({event: [{"matcher": "Bash", "hookCallbackIds": ["h"]}]});
    let yes = |event: &str| match event {
        "" => json!({"behavior": "allow"}),
        "PreToolUse" => json!({"hookSpecificOutput": {"hookEventName": event, "permissionDecision": "allow"}}),
        _ => json!({"hookSpecificOutput": {"hookEventName": event, "decision": {"behavior": "allow"}}}),
    };
    for event in ["", "PreToolUse", "PermissionRequest"] {
        let world = world();
        let touch = json!({"command": "touch one"});
        let model = Script::new().call("Bash", touch).then().say("done").serve().await.unwrap();
        let mut host = SdkHost::start_attended(&world, &model);
        let hooks = if event.is_empty() { json!({}) } else { hook(event) };
        host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
        host.say("go");
        let asked = host.wait_for_request(if event.is_empty() { "can_use_tool" } else { "hook_callback" }).await;
        assert_eq!(host.send_request(deny()).await["subtype"], "success");
        host.answer(&asked, yes(event));
        host.result().await;
        host.end().await.clean(0);
        let told = model.request(1).tool_result(0);
        assert!(told.contains("the deny rule `Bash(touch *)`"), "{event}: {told}");
        assert!(!Path::new(&world.path("one")).exists(), "{event}");
    }
}
