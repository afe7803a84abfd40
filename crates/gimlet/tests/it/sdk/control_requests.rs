//! Requests of the host: what each answers, also while a turn runs, and what none of them can break.

use gimlet_script::Script;
use gimlet_testkit::wait_until;
use serde_json::{Value, json};

use super::SdkHost;
use crate::world;

#[tokio::test]
async fn every_request_gets_exactly_one_answer() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    // The request, then what the answer contains: an error's words or a part of the response.
    let cases: Vec<(Value, Result<Value, &str>)> = vec![
        (json!({"subtype": "set_permission_mode", "mode": "acceptEdits"}), Ok(json!({}))),
        (json!({"subtype": "set_permission_mode", "mode": "manual"}), Ok(json!({}))),
        (json!({"subtype": "set_permission_mode", "mode": "reckless"}), Err("reckless")),
        (json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"}), Err("bypassPermissions")),
        (json!({"subtype": "set_permission_mode"}), Err("mode")),
        (json!({"subtype": "set_model", "model": "claude-3-retired"}), Ok(json!({}))),
        (json!({"subtype": "set_model", "model": null}), Ok(json!({}))),
        (json!({"subtype": "set_model"}), Ok(json!({}))),
        (json!({"subtype": "set_model", "model": ""}), Err("model")),
        (json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 0}), Ok(json!({}))),
        (json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": null}), Ok(json!({}))),
        (json!({"subtype": "set_max_thinking_tokens"}), Ok(json!({}))),
        (json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": "many"}), Err("whole number")),
        (json!({"subtype": "set_max_thinking_tokens", "thinking_display": "highlights"}), Err("highlights")),
        (json!({"subtype": "stop_task", "task_id": "gone"}), Ok(json!({}))),
        (json!({"subtype": "background_tasks"}), Ok(json!({"matched": false}))),
        (json!({"subtype": "cancel_async_message", "message_uuid": "none"}), Ok(json!({"cancelled": false}))),
        (json!({"subtype": "interrupt"}), Ok(json!({"still_queued": []}))),
        (json!({"subtype": "interrupt", "cancel_queued": true}), Ok(json!({"cancelled": []}))),
        (json!({"subtype": "get_binary_version"}), Ok(json!({"version": "2.1.325"}))),
        (json!({"subtype": "get_session_cost"}), Ok(json!({"total_cost_usd": 0.0}))),
        (json!({"subtype": "get_context_usage"}), Ok(json!({"memoryFiles": [], "apiUsage": null}))),
        (
            json!({"subtype": "rewind_files", "user_message_id": "none"}),
            Ok(json!({"canRewind": false, "error": "File rewinding is not enabled."})),
        ),
        (json!({"subtype": "rewind_files"}), Err("user_message_id")),
        (json!({"subtype": "seed_read_state", "path": "gone.txt", "mtime": 1.5}), Err("No such file")),
        (json!({"subtype": "seed_read_state", "path": "gone.txt"}), Err("mtime")),
        (json!({"subtype": "mcp_status"}), Ok(json!({"mcpServers": []}))),
        (json!({"subtype": "mcp_reconnect", "serverName": "nobody"}), Err("nobody")),
        (json!({"subtype": "mcp_toggle", "serverName": "nobody", "enabled": false}), Err("nobody")),
        (json!({"subtype": "mcp_message", "server_name": "x", "message": {}}), Ok(json!({}))),
        (
            json!({"subtype": "apply_flag_settings", "settings": {"permissions": {"allow": 7}}}),
            Err("permissions.allow"),
        ),
        (json!({"subtype": "set_model", "model": 7}), Err("model")),
        (json!({"subtype": "rename_session", "title": " "}), Err("title")),
        (json!({"subtype": "rename_session", "title": "x", "session_id": "of another"}), Err("another session")),
        (json!({"subtype": "teleport"}), Err("Unsupported control request subtype: teleport")),
        (json!({}), Err("subtype")),
        (json!([]), Err("subtype")),
        (json!({"subtype": 5}), Err("subtype")),
    ];
    let count = cases.len();
    for (request, expected) in cases {
        let answer = host.send_request(request.clone()).await;
        match expected {
            Ok(Value::Object(members)) => {
                assert_eq!(answer["subtype"], "success", "{request}: {answer}");
                for (name, value) in members {
                    assert_eq!(answer["response"][&name], value, "{request}");
                }
            }
            Ok(other) => panic!("{other}"),
            Err(words) => {
                assert_eq!(answer["subtype"], "error", "{request}: {answer}");
                assert!(answer["error"].as_str().unwrap().contains(words), "{request}: {answer}");
            }
        }
    }
    let lines = host.end().await.clean(0);
    assert_eq!(lines.iter().filter(|line| line["type"] == "control_response").count(), count);
}

#[tokio::test]
async fn the_welcome_says_what_there_is() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    for round in 0..2 {
        let welcome =
            host.send_request(json!({"subtype": "initialize", "hooks": {"Stop": [{"hookCallbackIds": ["h"]}]}})).await;
        let response = &welcome["response"];
        assert_eq!(response["commands"][0]["name"], "clear", "{round}");
        assert_eq!((&response["output_style"], &response["account"]), (&json!("default"), &json!({})));
        assert_eq!((&response["hook_on_failure_supported"], &response["hooks_applied"]), (&json!(true), &json!(true)));
        let model = &response["models"][0];
        assert!(
            model["value"] == "default" && model["resolvedModel"].as_str().unwrap().starts_with("claude-"),
            "{model}"
        );
    }
    host.end().await.clean(0);
}

#[tokio::test]
async fn changes_hold_from_the_next_turn_on() {
    let world = world();
    let model = Script::new().say("a").then().say("b").then().say("c").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-sonnet-4-5"]));
    let init = async |host: &mut SdkHost| {
        let init = host.until(|line| line["subtype"] == "init").await;
        host.result().await;
        (init["model"].clone(), init["permissionMode"].clone())
    };
    host.say("one");
    assert_eq!(init(&mut host).await, (json!("claude-sonnet-4-5"), json!("default")));
    host.send_request(json!({"subtype": "set_model", "model": "claude-opus-4-5"})).await;
    host.send_request(json!({"subtype": "set_permission_mode", "mode": "plan"})).await;
    assert!(host.seen.iter().any(|line| line["subtype"] == "status" && line["permissionMode"] == "plan"));
    host.say("two");
    assert_eq!(init(&mut host).await, (json!("claude-opus-4-5"), json!("plan")));
    host.send_request(json!({"subtype": "set_model", "model": "default"})).await;
    host.say("three");
    assert_eq!(init(&mut host).await.0, "claude-sonnet-4-5");
    host.end().await.clean(0);
    let models: Vec<String> = (0..3).map(|at| model.request(at).model().to_owned()).collect();
    assert_eq!(models, ["claude-sonnet-4-5", "claude-opus-4-5", "claude-sonnet-4-5"]);
}

#[tokio::test]
async fn requests_are_answered_while_a_command_runs_and_an_interrupt_ends_it() {
    let world = world();
    let model = Script::new()
        .call("Bash", json!({"command": "touch begun; sleep 600"}))
        .then()
        .say("fine")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions"]));
    host.say("go");
    host.until(|line| line["type"] == "assistant").await;
    wait_until("the command began", || world.project.join("begun").exists()).await;
    for uuid in ["aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"] {
        host.send_line(
            json!({"type": "user", "uuid": uuid, "priority": "later", "message": {"role": "user", "content": uuid}}),
        );
    }
    assert_eq!(
        host.send_request(json!({"subtype": "set_permission_mode", "mode": "default"})).await["subtype"],
        "success"
    );
    let withdrawn = json!({"subtype": "cancel_async_message", "message_uuid": "aaaaaaaa-0000-4000-8000-000000000001"});
    assert_eq!(host.send_request(withdrawn).await["response"]["cancelled"], true);
    let reply = host.send_request(json!({"subtype": "interrupt"})).await;
    assert_eq!(reply["response"]["still_queued"], json!(["aaaaaaaa-0000-4000-8000-000000000002"]));
    let result = host.result().await;
    assert_eq!((&result["terminal_reason"], &result["queued_turn_count"]), (&json!("aborted_tools"), &json!(1)));
    let cut = host.seen.iter().find(|line| line["type"] == "user").unwrap();
    assert_eq!(cut["message"]["content"][0]["is_error"], true);
    assert_eq!(host.result().await["result"], "fine", "the prompt that waited still gets its turn");
    host.end().await.clean(0);
}

#[tokio::test]
async fn prompts_that_wait_can_be_forgotten_with_the_interrupt() {
    let world = world();
    let model = Script::new().call("Bash", json!({"command": "touch begun; sleep 600"})).serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions"]));
    host.say("go");
    host.until(|line| line["type"] == "assistant").await;
    let id = "bbbbbbbb-0000-4000-8000-000000000001";
    host.send_line(
        json!({"type": "user", "uuid": id, "priority": "later", "message": {"role": "user", "content": "later"}}),
    );
    let reply = host.send_request(json!({"subtype": "interrupt", "cancel_queued": true})).await;
    assert_eq!(reply["response"], json!({"still_queued": [], "cancelled": [id]}));
    host.result().await;
    let lines = host.end().await.clean(1);
    assert_eq!(lines.iter().filter(|line| line["type"] == "result").count(), 1);
}

#[tokio::test]
async fn a_prompt_right_before_an_interrupt_still_gets_its_result() {
    let world = world();
    let model = Script::new().say("too late").delay_ms(30_000).serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("go");
    let reply = host.send_request(json!({"subtype": "interrupt"})).await;
    assert_eq!(reply["subtype"], "success");
    assert_eq!(host.result().await["subtype"], "error_during_execution");
    host.end().await.clean(1);
}

#[tokio::test]
async fn lines_that_mean_nothing_are_passed_over() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    for line in [
        json!({"type": "keep_alive"}),
        json!({"type": "assistant", "message": {}}),
        json!({"type": "system", "subtype": "x"}),
        json!({"type": "of another day"}),
        json!({"type": 7}),
        json!({}),
        json!({"type": "control_response", "response": {"subtype": "success", "request_id": "unknown"}}),
        json!({"type": "control_response"}),
        json!({"type": "control_cancel_request", "request_id": "unknown"}),
    ] {
        host.send_line(line);
    }
    host.say("hi");
    assert_eq!(host.result().await["result"], "ok");
    host.end().await.clean(0);
}

#[tokio::test]
async fn settings_can_be_laid_over_the_flags_and_looked_at() {
    let world = world();
    let input = json!({"file_path": world.path("x"), "content": "1"});
    let model = Script::new()
        .call("Write", input.clone())
        .then()
        .say("no")
        .then()
        .call("Write", input)
        .then()
        .say("yes")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--settings", r#"{"outputStyle":"Concise"}"#]));
    host.say("write");
    assert_eq!(host.result().await["permission_denials"].as_array().unwrap().len(), 1);
    let change = json!({"subtype": "apply_flag_settings", "settings": {"permissions": {"allow": ["Write"]}, "outputStyle": null}});
    assert_eq!(host.send_request(change).await["subtype"], "success");
    let settings = host.send_request(json!({"subtype": "get_settings"})).await["response"].clone();
    assert_eq!(settings["effective"]["permissions"]["allow"], json!(["Write"]));
    assert_eq!((settings["effective"].get("outputStyle"), &settings["sources"][0]["source"]), (None, &json!("flag")));
    host.say("again");
    assert_eq!(host.result().await["permission_denials"], json!([]));
    let lines = host.end().await.clean(0);
    assert_eq!(lines.iter().find(|line| line["subtype"] == "init").unwrap()["output_style"], "Concise");
}

#[tokio::test]
async fn a_session_can_be_given_a_title_before_and_after_its_first_prompt() {
    let world = world();
    let model = (0..3).fold(Script::new(), |script, _| script.say("ok").then()).say("ok").serve().await.unwrap();
    let named = |title: &str| json!({"subtype": "rename_session", "title": title});
    let mut host = SdkHost::start(world.run(&model));
    assert_eq!(host.send_request(named("New moon")).await["subtype"], "success");
    host.say("hi");
    host.result().await;
    world.run(&model).args(["-p", "--resume", "New moon", "--fork-session", "more"]).finish().await.expect_code(0);
    assert_eq!(host.send_request(named("Blue moon")).await["subtype"], "success");
    host.end().await.clean(0);
    world.run(&model).args(["-p", "--resume", "Blue moon", "more"]).finish().await.expect_code(0);
}

#[tokio::test]
async fn settings_with_a_rule_that_makes_no_sense_change_nothing() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--settings", r#"{"permissions":{"deny":["Read(x)"]}}"#]));
    let before = host.send_request(json!({"subtype": "get_settings"})).await["response"].clone();
    for (list, rule) in [("deny", "Read(x"), ("ask", "a b"), ("allow", "*"), ("deny", "")] {
        let settings = json!({"outputStyle": "terse", "permissions": {list: ["Read(y)", rule]}});
        let answer = host.send_request(json!({"subtype": "apply_flag_settings", "settings": settings})).await;
        assert_eq!(answer["subtype"], "error", "{list} {rule}");
        assert_eq!(host.send_request(json!({"subtype": "get_settings"})).await["response"], before, "{list} {rule}");
    }
    host.end().await.clean(0);
}

#[tokio::test]
async fn the_time_that_variables_take_does_not_grow_with_the_square_of_their_number() {
    let world = world();
    let model = Script::new().say("ok").then().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.send_request(json!({"subtype": "initialize"})).await;
    let mut took = Vec::new();
    for count in [1_000, 20_000] {
        let env: serde_json::Map<String, Value> = (0..count).map(|n| (format!("MANY_{n}"), json!("value"))).collect();
        let began = std::time::Instant::now();
        let answer = host.send_request(json!({"subtype": "apply_flag_settings", "settings": {"env": env}})).await;
        assert_eq!(answer["subtype"], "success");
        host.say("hi");
        host.result().await;
        took.push(began.elapsed());
    }
    // Work that grows with the square of it would take four hundred times as long, however fast the machine is.
    assert!(took[1] < took[0] * 100, "{took:?}");
    let settings = host.send_request(json!({"subtype": "get_settings"})).await;
    assert!(settings.to_string().len() < 1_000_000);
    host.end().await.clean(0);
}

#[tokio::test]
async fn only_two_settings_can_be_written_for_later_sessions() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let update =
        |source: &str, settings: Value| json!({"subtype": "update_settings", "source": source, "settings": settings});
    let mut host = SdkHost::start(world.run(&model));
    for good in [
        update("localSettings", json!({"outputStyle": "terse"})),
        update("userSettings", json!({"effortLevel": "high"})),
        update("userSettings", json!({})),
    ] {
        assert_eq!(host.send_request(good.clone()).await["subtype"], "success", "{good}");
    }
    for bad in [
        update("localSettings", json!({"effortLevel": "high"})),
        update("localSettings", json!({"outputStyle": "x", "permissions": {"allow": ["Bash"]}})),
        update("userSettings", json!({"outputStyle": "x"})),
        update("userSettings", json!({"effortLevel": "max"})),
        update("userSettings", json!({"effortLevel": null})),
        update("projectSettings", json!({"outputStyle": "x"})),
        update("policySettings", json!({})),
        json!({"subtype": "update_settings", "settings": {}}),
    ] {
        assert_eq!(host.send_request(bad.clone()).await["subtype"], "error", "{bad}");
    }
    host.end().await.clean(0);
    let read =
        |path: std::path::PathBuf| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(read(world.project.join(".claude/settings.local.json")), json!({"outputStyle": "terse"}));
    let mut host = SdkHost::start(world.run(&model).args(["--setting-sources=project"]));
    for unread in
        [update("localSettings", json!({"outputStyle": "y"})), update("userSettings", json!({"effortLevel": "low"}))]
    {
        assert_eq!(host.send_request(unread).await["subtype"], "error");
    }
    host.end().await.clean(0);
}

#[tokio::test]
async fn what_is_seen_of_thinking_can_be_changed_and_taken_back() {
    let world = world();
    let model = (0..3).fold(Script::new(), |script, _| script.say("ok").then()).say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--model", "claude-opus-4-7"]));
    let set = |members: Value| {
        let mut request = json!({"subtype": "set_max_thinking_tokens"});
        request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        request
    };
    let mut seen = Vec::new();
    for change in [json!({}), json!({"thinking_display": "omitted"}), json!({"thinking_display": null})] {
        assert_eq!(host.send_request(set(change.clone())).await["subtype"], "success", "{change}");
        host.say("hi");
        host.result().await;
        seen.push(model.request(seen.len()).json()["thinking"]["display"].clone());
    }
    assert_eq!(seen[0], seen[2]);
    assert_ne!(seen[0], seen[1]);
    for bad in [
        json!({"thinking_display": "highlights", "max_thinking_tokens": 0}),
        json!({"thinking_display": 7}),
        json!({"thinking_display": "omitted", "max_thinking_tokens": "many"}),
    ] {
        assert_eq!(host.send_request(set(bad.clone())).await["subtype"], "error", "{bad}");
    }
    host.say("hi");
    host.result().await;
    assert_eq!(model.request(3).json()["thinking"], model.request(0).json()["thinking"], "nothing of it was done");
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_turn_thinks_to_its_end_as_it_began() {
    let world = world();
    let wait = json!({"command": "while [ ! -e go ]; do sleep 0.01; done"});
    let script = Script::new().call("Bash", wait).then().say("first").then().say("second");
    let model = script.serve().await.unwrap();
    let run = world.run(&model).args(["--dangerously-skip-permissions", "--model", "claude-sonnet-5"]);
    let mut host = SdkHost::start(run);
    host.say("one");
    host.until(|line| line["type"] == "assistant").await;
    let off = json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 0});
    assert_eq!(host.send_request(off).await["subtype"], "success");
    world.file("go", "");
    host.result().await;
    host.say("two");
    host.result().await;
    host.end().await.clean(0);
    let modes: Vec<Value> = model.requests().iter().map(|request| request.json()["thinking"]["type"].clone()).collect();
    assert_eq!(modes, ["adaptive", "adaptive", "disabled"]);
}

#[tokio::test]
async fn where_nothing_may_run_in_the_background_nothing_is_moved_there() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"));
    assert_eq!(host.send_request(json!({"subtype": "background_tasks"})).await["subtype"], "error");
    host.end().await.clean(0);
}

#[tokio::test]
async fn what_is_wrong_with_settings_is_told_with_them() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    let user = world.home.join(".claude/settings.json");
    std::fs::write(&user, r#"{"permissions":{"allow":7},"outputStyle":"of the person"}"#).unwrap();
    world.file(".claude/settings.local.json", r#"{"outputStyle":"of the folder"}"#);
    let mut host = SdkHost::start(world.run(&model));
    let settings = host.send_request(json!({"subtype": "get_settings"})).await["response"].clone();
    let rules = host.send_request(json!({"subtype": "list_permission_rules"})).await["response"].clone();
    for answer in [&settings, &rules] {
        let error = &answer["errors"][0];
        assert_eq!((&error["file"], &error["path"]), (&json!(user), &json!("permissions.allow")), "{answer}");
        assert!(error["message"].is_string(), "{answer}");
    }
    host.say("hi");
    let init = host.until(|line| line["subtype"] == "init").await;
    host.result().await;
    assert_eq!(
        (&settings["effective"]["outputStyle"], &init["output_style"]),
        (&json!("of the folder"), &json!("of the folder"))
    );
    host.end().await.output.expect_code(0);
}
