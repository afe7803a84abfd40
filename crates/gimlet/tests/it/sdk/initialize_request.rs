//! When the host's wishes reach the session: first of all, after other requests, or too late.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::{SdkHost, line_kinds, result_text, unsendable_content};
use crate::world;

const RESUMED: &str = "--resume=11111111-2222-4333-8444-555555555555";

fn agent_definitions() -> Value {
    json!({"pirate": {"description": "Talks like one", "prompt": "You are a pirate.", "tools": ["Read", "mcp__calc"],
        "model": "claude-opus-4-5", "initialPrompt": "Greet me first."}})
}

#[tokio::test]
async fn wishes_that_come_before_the_first_prompt_shape_the_session() {
    let before: [&[Value]; 3] = [
        &[json!({"type": "keep_alive"}), json!({"type": "heard_of_later", "x": 1})],
        &[json!({"type": "control_request", "request_id": "early", "request": {"subtype": "get_binary_version"}})],
        &[json!({"type": "control_request", "request_id": "early", "request": {"subtype": "initialize", "hooks": {}}})],
    ];
    for lines in before {
        let world = world();
        let model = Script::new()
            .call("mcp__calc__t", json!({}))
            .then()
            .call("StructuredOutput", json!({"n": 1}))
            .serve()
            .await
            .unwrap();
        let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "mcp__calc"]));
        for line in lines {
            host.send_line(line.clone());
        }
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let hooks = json!({"PreToolUse": [{"matcher": "mcp__calc__t", "hookCallbackIds": ["h"]}]});
        let welcome = host
            .send_request(
                json!({"subtype": "initialize", "agents": agent_definitions(), "jsonSchema": schema, "hooks": hooks,
                "systemPrompt": ["by hand"], "sdkMcpServers": ["calc"], "title": "Named late"}),
            )
            .await;
        let named = welcome["response"]["agents"].as_array().unwrap().iter().any(|agent| agent["name"] == "pirate");
        assert!(named && welcome["response"]["hooks_applied"] == true, "{lines:?}: {welcome}");
        host.say("go");
        let asked = async {
            loop {
                let line = host.next_line().await;
                if line["request"]["subtype"] == "hook_callback" {
                    host.answer(&line, json!({}));
                    return;
                }
                unsendable_content::answer_server(&mut host, &line, r#"{"content":[{"type":"text","text":"served"}]}"#);
            }
        };
        asked.await;
        let result = unsendable_content::serve(&mut host, r#"{"content":[{"type":"text","text":"served"}]}"#).await;
        assert_eq!(result["structured_output"], json!({"n": 1}), "{lines:?}: {result}");
        let init = host.seen.iter().find(|line| line["subtype"] == "init").unwrap();
        assert!(init["agents"].as_array().unwrap().contains(&json!("pirate")), "{lines:?}: {init}");
        let served = host.seen.iter().find(|line| line["type"] == "user").map(result_text);
        assert_eq!(served.as_deref(), Some("served"), "{lines:?}");
        assert_eq!(model.request(0).system_text(), "by hand", "{lines:?}");
        host.end().await.clean(0);
        assert_eq!(world.transcripts().len(), 1, "the session that gave way has left nothing");
        assert!(world.transcript_entries().iter().any(|entry| entry["customTitle"] == "Named late"), "{lines:?}");
    }
}

#[tokio::test]
async fn a_call_goes_to_the_tool_that_the_host_put_in_its_place() {
    let world = world();
    let model = Script::new().call("Bash", json!({"command": "id"})).then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "mcp__calc"]));
    let hooks = json!({"PreToolUse": [{"matcher": "mcp__calc__t", "hookCallbackIds": ["h"]}]});
    let wishes = json!({"subtype": "initialize", "sdkMcpServers": ["calc"], "hooks": hooks,
        "toolAliases": {"Bash": "mcp__calc__t", "Read": "mcp__calc__none"}});
    host.send_request(wishes).await;
    host.say("go");
    loop {
        let line = host.next_line().await;
        if line["request"]["subtype"] == "hook_callback" {
            assert_eq!(line["request"]["input"]["tool_name"], "mcp__calc__t");
            host.answer(&line, json!({}));
            break;
        }
        unsendable_content::answer_server(&mut host, &line, r#"{"content":[{"type":"text","text":"served"}]}"#);
    }
    unsendable_content::serve(&mut host, r#"{"content":[{"type":"text","text":"served"}]}"#).await;
    let served = host.seen.iter().find(|line| line["type"] == "user").map(result_text);
    assert_eq!(served.as_deref(), Some("served"));
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_hook_that_cannot_watch_ends_the_start_and_one_that_looks_around_watches() {
    let world = world();
    let model = Script::new().call("Bash", json!({"command": "touch z"})).then().say("done").serve().await.unwrap();
    let hooks = |matcher: &str| json!({"PreToolUse": [{"matcher": matcher, "hookCallbackIds": ["guard"]}]});
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.send_request(json!({"subtype": "initialize", "hooks": hooks("^(?!Read).*$")})).await;
    host.say("go");
    let called = host.wait_for_request("hook_callback").await;
    let deny = json!({"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"});
    host.answer(&called, json!({"hookSpecificOutput": deny}));
    host.result().await;
    let refused = host.send_request(json!({"subtype": "initialize", "hooks": hooks("^(Read")})).await;
    assert!(refused["subtype"] == "error" && refused["error"].as_str().unwrap().contains("^(Read"), "{refused}");
    let unread = json!({"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["guard"], "timeout": "5"}]});
    let refused = host.send_request(json!({"subtype": "initialize", "hooks": unread})).await;
    assert!(refused["error"].as_str().unwrap().starts_with("hooks.PreToolUse: "), "{refused}");
    host.end().await.clean(0);
    assert!(!world.project.join("z").exists());
    for (hooks, part) in [(hooks("^(Read"), "^(Read"), (unread, "hooks.PreToolUse: ")] {
        let mut host = SdkHost::start(world.run(&model));
        host.send_line(json!({"type": "control_request", "request_id": "r1",
            "request": {"subtype": "initialize", "hooks": hooks}}));
        let end = host.end().await;
        assert!(end.output.stderr.contains(part), "{}", end.output.stderr);
        end.output.expect_code(1);
        assert_eq!(line_kinds(&end.lines), ["control_response", "result"]);
        assert_eq!(end.lines[0]["response"]["subtype"], "error");
    }
}

#[tokio::test]
async fn what_was_chosen_before_the_wishes_still_holds_with_them() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let id = "aaaaaaaa-0000-4000-8000-000000000001";
    let mut host = SdkHost::start(world.run(&model).args(["--session-id", id]));
    host.send_request(json!({"subtype": "set_permission_mode", "mode": "acceptEdits"})).await;
    host.send_request(json!({"subtype": "set_model", "model": "claude-opus-4-5"})).await;
    host.send_request(json!({"subtype": "initialize", "appendSystemPrompt": "be brief"})).await;
    host.say("hi");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!(
        (&init["permissionMode"], &init["model"], &init["session_id"]),
        (&json!("acceptEdits"), &json!("claude-opus-4-5"), &json!(id))
    );
    host.result().await;
    host.end().await.clean(0);
    assert!(model.request(0).system_text().contains("be brief"));
}

#[tokio::test]
async fn wishes_that_come_too_late_are_refused_by_name_and_the_rest_is_done() {
    let world = world();
    let model =
        Script::new().say("one").then().call("mcp__calc__t", json!({})).then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "mcp__calc"]));
    host.say("first");
    host.result().await;
    let late = host
        .send_request(json!({"subtype": "initialize", "agents": agent_definitions(), "jsonSchema": {"type": "object"}}))
        .await;
    let error = late["error"].as_str().unwrap_or_default();
    assert!(error.contains("after the first prompt") && error.ends_with("agents, jsonSchema"), "{late}");
    let still = host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["calc"]})).await;
    assert_eq!(still["subtype"], "success");
    host.say("second");
    let result = unsendable_content::serve(&mut host, r#"{"content":[{"type":"text","text":"served"}]}"#).await;
    assert_eq!(result["result"], "two");
    assert_eq!(model.request(2).tool_result(0), "served");
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_greeting_that_is_repeated_is_answered_again() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let greeting = json!({"subtype": "initialize", "agents": agent_definitions()});
    let first = host.send_request(greeting.clone()).await;
    host.say("hi");
    host.result().await;
    let again = host.send_request(greeting).await;
    assert_eq!((&again["subtype"], &again["response"]), (&json!("success"), &first["response"]));
    host.say("hi");
    host.result().await;
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_shape_that_cannot_be_had_from_the_start_ends_it() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let greeting = json!({"subtype": "initialize", "jsonSchema": {"type": 7}});
    host.send_line(json!({"type": "control_request", "request_id": "r", "request": greeting}));
    let result = host.result().await;
    assert_eq!(result["is_error"], true, "{result}");
    let end = host.wait_for_exit().await;
    end.output.expect_code(1);
    let why = &end.output.stderr;
    assert!(why.contains("the jsonSchema of initialize cannot be used: ") && !why.contains("--json-schema"), "{why}");
    for agents in [json!("none"), json!({"x": {"description": 7}})] {
        let mut host = SdkHost::start(world.run(&model));
        let greeting = json!({"subtype": "initialize", "agents": agents});
        host.send_line(json!({"type": "control_request", "request_id": "r", "request": greeting}));
        let end = host.wait_for_exit().await;
        end.output.expect_code(1);
        assert_eq!(line_kinds(&end.lines), ["control_response", "result"]);
        let response = &end.lines[0]["response"];
        assert_eq!((&response["request_id"], &response["subtype"]), (&json!("r"), &json!("error")));
        let why = response["error"].as_str().unwrap();
        assert!(why.contains("initialize") && !why.contains("--agents"), "{why}");
        assert_eq!(end.lines[1]["errors"][0], why);
    }
}

#[tokio::test]
async fn a_resumed_session_is_the_same_one_and_a_copy_is_made_once() {
    let world = world();
    let said = Script::new().say("one").then().say("two").then().say("three").then().say("four");
    let model = said.serve().await.unwrap();
    let id = RESUMED.trim_start_matches("--resume=");
    let mut host = SdkHost::start(world.run(&model).args(["--session-id", id]));
    host.say("first");
    host.end().await.clean(0);
    let unkept = vec![RESUMED, "--fork-session", "--no-session-persistence"];
    for (flags, same, count) in
        [(vec![RESUMED], true, 1), (unkept, false, 1), (vec![RESUMED, "--fork-session"], false, 2)]
    {
        let mut host = SdkHost::start(world.run(&model).args(flags.clone()));
        host.send_request(json!({"subtype": "get_binary_version"})).await;
        host.send_request(json!({"subtype": "initialize", "agents": agent_definitions()})).await;
        host.say("again");
        let result = host.result().await;
        assert_eq!(result["session_id"] == id, same, "{flags:?}: {result}");
        host.end().await.clean(0);
        assert_eq!(world.transcripts().len(), count, "{flags:?}");
        assert!(model.requests().last().unwrap().body_text().contains("first"), "{flags:?}");
    }
}

#[tokio::test]
async fn the_conversation_runs_as_the_agent_that_the_greeting_defines() {
    for early in [true, false] {
        let world = world();
        let model = Script::new().say("arr").serve().await.unwrap();
        let flags = ["--agent", "pirate", "--system-prompt", ""];
        let config = json!({"mcpServers": {"calc": {"type": "sdk"}, "other": {"type": "sdk"}}}).to_string();
        let mut host = SdkHost::start(world.run(&model).args(flags).args(["--mcp-config", &config]));
        if early {
            host.send_request(json!({"subtype": "get_binary_version"})).await;
        }
        let hooks = json!({"SessionStart": [{"hookCallbackIds": ["s"]}]});
        host.send_request(json!({"subtype": "initialize", "agents": agent_definitions(), "hooks": hooks})).await;
        host.say("hi");
        let told = loop {
            let line = host.next_line().await;
            if line["request"]["subtype"] == "hook_callback" {
                host.answer(&line, json!({}));
                break line["request"]["input"].clone();
            }
            unsendable_content::answer_server(&mut host, &line, "{}");
        };
        assert_eq!(told["agent_type"], "pirate");
        host.result().await;
        let end = host.end().await;
        end.output.expect_code(0);
        let request = model.request(0);
        assert_eq!(request.system_text(), "You are a pirate.", "{early}");
        assert_eq!(request.tool_names(), ["Read", "mcp__calc__t"], "{early}: its tools and no others");
        assert_eq!(request.json()["model"], "claude-opus-4-5", "{early}");
        let sent = request.body_text().into_owned();
        assert!(sent.find("Greet me first.").unwrap() < sent.rfind("\"hi\"").unwrap(), "{early}: {sent}");
        // Before the greeting nobody knew the agent.
        assert_eq!(end.output.stderr.contains("--agent: There is no agent type named `pirate`"), early);
    }
}

#[tokio::test]
async fn an_agent_that_nobody_knows_is_refused_to_people() {
    let world = world();
    let model = Script::new().say("ok").then().say("looked").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--agent", "pirat", "hi"]).finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("no agent type named `pirat`"), "{}", run.stderr);
    let given = json!({"x": {"description": "d", "prompt": "Only x.", "disallowedTools": ["Bash"]}}).to_string();
    let run = world.run(&model).args(["-p", "--agents", &given, "--agent", "x", "hi"]).finish().await;
    run.expect_code(0);
    assert_eq!(model.request(0).system_text(), "Only x.");
    assert!(!model.request(0).tool_names().contains(&"Bash".to_owned()));
}

#[tokio::test]
async fn the_host_has_a_word_in_how_plans_are_made() {
    let world = world();
    let model = Script::new().say("a plan").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--permission-mode", "plan"]));
    host.send_request(json!({"subtype": "initialize", "planModeInstructions": "Draw a diagram first."})).await;
    host.say("plan it");
    host.result().await;
    host.end().await.clean(0);
    let sent = model.request(0).body_text().into_owned();
    let plan = sent.split("<plan-mode>").nth(1).unwrap().split("</plan-mode>").next().unwrap().to_owned();
    assert!(plan.contains("change nothing yet") && plan.contains("Draw a diagram first."), "{plan}");
}

#[tokio::test]
async fn a_wished_title_does_not_replace_the_one_that_a_session_has() {
    for (own, late, title) in [("Old moon", false, "Old moon"), ("Old moon", true, "Old moon"), ("", false, "New moon")]
    {
        let world = world();
        let model = (0..3).fold(Script::new(), |script, _| script.say("ok").then()).say("ok").serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(["--name", own]));
        host.say("hi");
        let id = host.result().await["session_id"].as_str().unwrap().to_owned();
        host.end().await.clean(0);
        let mut host = SdkHost::start(world.run(&model).args(["--resume", &id]));
        if late {
            host.say("more");
            host.result().await;
        }
        assert_eq!(
            host.send_request(json!({"subtype": "initialize", "title": "New moon"})).await["subtype"],
            "success"
        );
        host.say("again");
        host.result().await;
        host.end().await.clean(0);
        let entries = world.transcript_entries();
        let last = entries.iter().filter_map(|entry| entry["customTitle"].as_str()).next_back();
        assert_eq!(last, Some(title), "{own} {late}");
    }
}

#[tokio::test]
async fn the_greeting_names_models_of_agents_and_says_that_plugins_were_taken_up() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).arg("--continue"));
    let agents = json!({"quick": {"description": "d", "prompt": "p", "model": "haiku"}});
    let plugins = json!([{"type": "local", "path": "/x"}]);
    let welcome = host.send_request(json!({"subtype": "initialize", "agents": agents, "plugins": plugins})).await;
    let cards = welcome["response"]["agents"].as_array().unwrap();
    let quick = cards.iter().find(|card| card["name"] == "quick").unwrap();
    assert_eq!((&quick["model"], &welcome["response"]["plugins_applied"]), (&json!("haiku"), &json!(true)));
    // Nothing to continue is nothing to complain about.
    let said = host.end().await.output.stderr;
    assert!(
        said.contains("the plugin inline[0] is not used: /x: it is not there") && said.lines().count() == 1,
        "{said}"
    );
}

#[tokio::test]
async fn settings_can_name_the_agent_of_the_main_conversation() {
    let agents = json!({"pirate": {"description": "d", "prompt": "You are a pirate."},
        "cook": {"description": "d", "prompt": "You are a cook."}})
    .to_string();
    for (setting, flag, prompt, remark) in [
        ("pirate", "", "You are a pirate.", ""),
        ("pirate", "cook", "You are a cook.", ""),
        ("nobody", "", "", "the setting agent: There is no agent type named `nobody`"),
    ] {
        let world = world();
        let model = Script::new().say("ok").serve().await.unwrap();
        let settings = json!({"agent": setting}).to_string();
        let mut flags = vec!["-p", "--agents", &agents, "--settings", &settings, "hi"];
        if !flag.is_empty() {
            flags.extend(["--agent", flag]);
        }
        let run = world.run(&model).args(flags).finish().await;
        run.expect_code(0);
        assert!(model.request(0).body_text().contains(prompt) && run.stderr.contains(remark), "{}", run.stderr);
        assert_eq!(run.stderr.is_empty(), remark.is_empty(), "{}", run.stderr);
    }
}
