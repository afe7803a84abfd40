//! `/clear`: a new conversation in the same process.

use gimlet_script::Script;
use gimlet_testkit::entries_of;
use serde_json::{Value, json};

use super::{SdkHost, line_kinds};
use crate::world;

#[tokio::test]
async fn a_cleared_conversation_goes_on_as_a_new_session() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-sonnet-4-5"]));
    host.say("the first words");
    let first = host.result().await;
    assert!(first["total_cost_usd"].as_f64().unwrap() > 0.0);
    host.wait_for_state("idle").await;
    host.send_request(json!({"subtype": "set_permission_mode", "mode": "acceptEdits"})).await;
    let before = host.seen.len();
    host.say("/clear");
    let cleared = host.result().await;
    host.wait_for_state("idle").await;
    let turn: Vec<Value> = host.seen[before..].to_vec();
    assert_eq!(line_kinds(&turn), ["running", "init", "conversation_reset", "result", "idle"]);
    let reset = &turn[2];
    assert!(reset["timestamp"].as_str().is_some_and(|time| time.ends_with('Z') && time.contains('T')), "{reset}");
    assert_eq!((&reset["session_id"], &reset["trigger"]), (&first["session_id"], &json!("clear")));
    assert_eq!(cleared["session_id"], reset["new_conversation_id"]);
    assert_ne!(cleared["session_id"], first["session_id"]);
    assert_eq!((&cleared["num_turns"], &cleared["total_cost_usd"]), (&json!(0), &json!(0.0)));
    assert!(cleared.get("terminal_reason").is_none());
    host.say("the second words");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!((&init["permissionMode"], &init["model"]), (&json!("acceptEdits"), &json!("claude-sonnet-4-5")));
    let second = host.result().await;
    assert_eq!(second["session_id"], cleared["session_id"]);
    host.end().await.clean(0);
    let sent = model.request(1).body_text().into_owned();
    assert!(sent.contains("the second words") && !sent.contains("the first words"));
    let transcripts = world.transcripts();
    assert_eq!(transcripts.len(), 2);
    let said =
        |path: &std::path::PathBuf| entries_of(path).iter().any(|entry| entry.to_string().contains("first words"));
    assert_eq!(transcripts.iter().filter(|path| said(path)).count(), 1);
}

#[tokio::test]
async fn a_command_before_the_first_prompt_shows_the_session_as_it_will_be() {
    let world = world();
    let model = Script::new().say("one").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let mut shown = Vec::new();
    for words in ["/clear", "hello"] {
        host.say(words);
        shown.push(host.until(|line| line["subtype"] == "init").await);
        host.result().await;
    }
    host.end().await.clean(0);
    for member in ["tools", "agents", "model", "cwd", "permissionMode", "apiKeySource"] {
        assert_eq!(shown[0][member], shown[1][member], "{member}");
    }
    assert!(shown[0]["tools"].as_array().unwrap().iter().any(|tool| tool == "Bash"), "{}", shown[0]);
}

#[tokio::test]
async fn a_command_is_echoed_with_what_it_printed() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).arg("--replay-user-messages"));
    host.say("/clear");
    let result = host.result().await;
    let lines = host.end().await.clean(0);
    assert_eq!(line_kinds(&lines), ["running", "init", "user", "conversation_reset", "user", "result", "idle"]);
    assert_eq!((&lines[2]["message"]["content"], &lines[2]["isReplay"]), (&json!("/clear"), &json!(true)));
    let output = &lines[4];
    assert_eq!(output["message"]["content"], "<local-command-stdout></local-command-stdout>");
    assert_eq!((&output["isReplay"], &output["session_id"]), (&json!(true), &result["session_id"]));
}

#[tokio::test]
async fn commands_wait_their_turn_and_so_does_what_follows_them() {
    let world = world();
    let model = Script::new().say("one").delay_ms(100).then().say("two").then().say("three").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    for words in ["first", "/clear", "second", "/new", "third"] {
        host.say(words);
    }
    let lines = host.end().await.clean(0);
    let results: Vec<&Value> =
        lines.iter().filter(|line| line["type"] == "result").map(|line| &line["result"]).collect();
    assert_eq!(results, [&json!("one"), &json!(""), &json!("two"), &json!(""), &json!("three")]);
    assert_eq!(world.transcripts().len(), 3);
}

#[tokio::test]
async fn text_that_a_program_composed_is_no_command() {
    let world = world();
    let model = Script::new().say("ok").then().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.send_line(json!({"type": "user", "message": {"role": "user", "content": "/clear"}, "client_composed": true}));
    host.result().await;
    host.say("/unheard of");
    host.result().await;
    let end = host.end().await;
    end.output.expect_code(0);
    assert_eq!(
        end.output.stderr,
        "gimlet: there is no command /unheard; /help lists all. The text was sent as a prompt\n"
    );
    assert_eq!(model.request(0).last_user_text().lines().last(), Some("/clear"));
    let unheard = model.request(1).last_user_text();
    assert_eq!(unheard.lines().last(), Some("/unheard of"));
    assert!(unheard.contains("There is no command /unheard, and none ran."), "{unheard}");
}

#[tokio::test]
async fn clearing_first_of_all_works_too() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).arg("--replay-user-messages"));
    host.say("/reset");
    assert_eq!(host.result().await["subtype"], "success");
    let echo = host.seen.iter().find(|line| line["isReplay"] == true).unwrap();
    assert!(echo["message"]["content"] == "/reset" && echo["timestamp"].is_string(), "{echo}");
    host.say("hi");
    assert_eq!(host.result().await["result"], "ok");
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_cleared_conversation_keeps_the_servers_that_were_set_meanwhile() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let far = json!({"far": {"type": "http", "url": "http://127.0.0.1:9"}});
    host.send_request(json!({"subtype": "mcp_set_servers", "servers": far})).await;
    host.send_request(json!({"subtype": "mcp_toggle", "serverName": "far", "enabled": false})).await;
    let before = host.send_request(json!({"subtype": "mcp_status"})).await["response"].clone();
    assert!(before.to_string().contains("far"), "{before}");
    host.say("/clear");
    host.result().await;
    assert_eq!(host.send_request(json!({"subtype": "mcp_status"})).await["response"], before);
    host.end().await.clean(0);
}

#[tokio::test]
async fn what_was_allowed_and_chosen_for_the_session_outlives_a_cleared_conversation() {
    let world = world();
    world.file("sub/x", "");
    let command = json!({"command": "touch made"});
    let model = Script::new()
        .call("Bash", command.clone())
        .then()
        .say("one")
        .then()
        .call("Bash", command)
        .then()
        .say("two")
        .serve()
        .await
        .unwrap();
    let mut host =
        SdkHost::start(world.run(&model).args(["--permission-prompt-tool", "stdio", "--model", "claude-sonnet-4-5"]));
    host.send_request(json!({"subtype": "register_repo_root", "directory": "sub"})).await;
    host.send_request(json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 2048})).await;
    host.say("make");
    let question = host.wait_for_request("can_use_tool").await;
    let rule = json!({"type": "addRules", "behavior": "allow", "destination": "session",
        "rules": [{"toolName": "Bash", "ruleContent": "touch made"}]});
    let deny = json!({"type": "addRules", "behavior": "deny", "destination": "session",
        "rules": [{"toolName": "WebFetch", "ruleContent": null}]});
    host.answer(&question, json!({"behavior": "allow", "updatedPermissions": [rule, deny]}));
    host.result().await;
    let before = host.send_request(json!({"subtype": "list_permission_rules"})).await["response"].clone();
    assert!(before.to_string().contains("touch made") && before.to_string().contains("sub"), "{before}");
    host.say("/clear");
    host.result().await;
    assert_eq!(host.send_request(json!({"subtype": "list_permission_rules"})).await["response"], before);
    host.say("make again");
    host.result().await;
    let lines = host.end().await.clean(0);
    assert_eq!(
        line_kinds(&lines).iter().filter(|kind| *kind == "can_use_tool").count(),
        1,
        "it was allowed for the session"
    );
    let thinking = |at: usize| model.request(at).json()["thinking"].clone();
    assert_eq!((thinking(2)["budget_tokens"].clone(), thinking(2)), (json!(2048), thinking(0)));
}

#[tokio::test]
async fn a_cleared_session_keeps_the_agent_it_came_back_with_and_reads_that_of_settings_again() {
    let given = json!({"pirate": {"description": "d", "prompt": "You are a pirate."},
        "cook": {"description": "d", "prompt": "You are a cook."}})
    .to_string();
    for (by_settings, expected) in [(false, "You are a pirate."), (true, "You are a cook.")] {
        let world = world();
        let settings = world.home.join("flags.json");
        let names = |agent: &str| std::fs::write(&settings, json!({"agent": agent}).to_string()).unwrap();
        let path = settings.to_string_lossy();
        let model = Script::new().say("zero").then().say("one").then().say("two").serve().await.unwrap();
        let mut flags = vec!["--agents", &given, "--settings", &path];
        names("pirate");
        let before = world.run(&model).stream("hi").args(flags.clone()).finish().await;
        let id = before.result()["session_id"].as_str().unwrap().to_owned();
        if !by_settings {
            flags.extend(["--resume", &id]);
        }
        let mut host = SdkHost::start(world.run(&model).args(flags));
        host.say("one");
        host.result().await;
        names("cook");
        for _ in 0..2 {
            host.say("/clear");
            host.result().await;
        }
        host.say("two");
        host.result().await;
        host.end().await.clean(0);
        assert_eq!(model.request(2).system_text(), expected, "by settings: {by_settings}");
    }
}

#[tokio::test]
async fn a_cleared_conversation_keeps_a_name_that_others_gave_it() {
    let world = world();
    let model = Script::new().say("one").then().say("two").then().say("three").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--name", "named by a flag"]));
    host.say("first");
    let id = host.result().await["session_id"].as_str().unwrap().to_owned();
    host.end().await.clean(0);
    let titles = || -> Vec<Option<String>> {
        let title = |path: &std::path::PathBuf| {
            let entries = entries_of(path);
            entries.iter().rev().find_map(|entry| entry["customTitle"].as_str().map(str::to_owned))
        };
        world.transcripts().iter().map(title).collect()
    };
    // It comes back with a session that was resumed, and as another program wrote it meanwhile.
    let mut host = SdkHost::start(world.run(&model).args(["--resume", &id]));
    host.say("second");
    host.result().await;
    let path = world.transcripts()[0].clone();
    let line = json!({"type": "custom-title", "customTitle": "named from outside", "sessionId": id});
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).unwrap();
    host.say("/clear");
    host.result().await;
    host.say("third");
    host.result().await;
    host.end().await.clean(0);
    assert_eq!(titles(), vec![Some("named from outside".to_owned()); 2]);
}

#[tokio::test]
async fn nothing_but_answers_follows_a_command_that_failed() {
    let world = world();
    let model = Script::new().say("one").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("/effort silly");
    let failed = host.result().await;
    assert_eq!((&failed["subtype"], &failed["is_error"]), (&json!("error_during_execution"), &json!(true)));
    let before = host.seen.len();
    host.send_request(json!({"subtype": "set_permission_mode", "mode": "acceptEdits"})).await;
    host.send_request(json!({"subtype": "get_binary_version"})).await;
    let behind: Vec<Value> = host.seen[before..].to_vec();
    let is_control = |line: &Value| line["type"] == "control_response" || line["subtype"] == "session_state_changed";
    assert!(behind.iter().all(is_control), "{behind:?}");
    host.say("hello");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!(init["permissionMode"], "acceptEdits");
    assert_eq!(host.result().await["result"], "one");
    host.end().await.clean(0);
}
