//! Questions to the host and what its answers do.

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use super::{SdkHost, line_kinds, result_text};
use crate::world;

/// A model that wants to write two files, one after the other.
async fn serve_two_writes(world: &TestWorld) -> ScriptServer {
    let write = |name: &str| json!({"file_path": world.path(name), "content": "1"});
    Script::new().call("Write", write("a")).then().call("Write", write("b")).then().say("done").serve().await.unwrap()
}

#[tokio::test]
async fn every_answer_does_what_it_says() {
    let allow = |more: Value| {
        let mut answer = json!({"behavior": "allow"});
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        answer
    };
    let rules =
        json!([{"type": "addRules", "rules": [{"toolName": "Write", "ruleContent": null}], "behavior": "allow"}]);
    let mode = json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]);
    // What is answered, what the file then holds, what the result says, how many questions come in all.
    let cases = [
        (allow(json!({})), Some("1"), "Created", 2),
        (allow(json!({"updatedInput": {"file_path": "<a>", "content": "2"}})), Some("2"), "Created", 2),
        (allow(json!({"updated_input": {"file_path": "<a>", "content": "3"}})), Some("3"), "Created", 2),
        (allow(json!({"updatedInput": {"content": 7}})), None, "file_path", 2),
        (allow(json!({"updatedPermissions": rules})), Some("1"), "Created", 1),
        (allow(json!({"updatedPermissions": mode})), Some("1"), "Created", 1),
        (json!({"behavior": "deny", "message": "not today"}), None, "not today", 2),
        (json!({"behavior": "deny", "message": ""}), None, "denied", 2),
        (json!({"behavior": "perhaps"}), None, "could not be understood", 2),
        (json!({}), None, "could not be understood", 2),
    ];
    for (answer, file, words, questions) in cases {
        let world = world();
        let model = serve_two_writes(&world).await;
        let mut host = SdkHost::start_attended(&world, &model);
        host.say("write");
        let first = host.wait_for_request("can_use_tool").await;
        let text = answer.to_string().replace("<a>", &world.path("a"));
        host.answer(&first, serde_json::from_str(&text).unwrap());
        let written = host.until(|line| line["type"] == "user").await;
        assert!(result_text(&written).contains(words), "{answer}: {}", result_text(&written));
        assert_eq!(std::fs::read_to_string(world.project.join("a")).ok().as_deref(), file, "{answer}");
        let mut asked = 1;
        let result = loop {
            let line = host.next_line().await;
            match line["type"].as_str() {
                Some("control_request") => {
                    asked += 1;
                    host.answer(&line, json!({"behavior": "allow"}));
                }
                Some("result") => break line,
                _ => {}
            }
        };
        assert_eq!(asked, questions, "{answer}");
        let denials = result["permission_denials"].as_array().unwrap().len();
        assert_eq!(denials == 1, answer["behavior"] != "allow", "{answer}: {result}");
        host.end().await.clean(0);
        assert!(model.rejections().is_empty(), "{:?}", model.rejections());
    }
}

#[tokio::test]
async fn the_model_is_told_what_was_done_when_the_answer_changed_its_text() {
    let world = world();
    world.file("b", "one\ntwo\n");
    let write = json!({"file_path": world.path("a"), "content": "1\n"});
    let edit = json!({"file_path": world.path("b"), "old_string": "two", "new_string": "2"});
    let script = Script::new().call("Write", write.clone()).then().call("Read", json!({"file_path": world.path("b")}));
    let script = script.then().call("Edit", edit.clone()).then().call("Write", write.clone());
    let model = script.then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("write");
    let changed = |input: &Value, name: &str, text: &str| {
        let mut input = input.clone();
        input[name] = text.into();
        input
    };
    // Each answer comes with an input; the last one is the model's own.
    let cases = [
        (changed(&write, "content", "theirs\n"), Some("Created <a> (1 line). <changed>@@ -1,0 +1,1 @@\n+theirs")),
        (changed(&edit, "new_string", "II"), Some("at line 2. <changed>@@ -1,2 +1,2 @@\n one\n-two\n+II")),
        (write.clone(), None),
    ];
    for (input, told) in cases {
        let question = host.wait_for_request("can_use_tool").await;
        host.answer(&question, json!({"behavior": "allow", "updatedInput": input}));
        let call = question["request"]["tool_use_id"].clone();
        let result = host.until(|line| line["message"]["content"][0]["tool_use_id"] == call).await;
        let text = result_text(&result);
        let words = "Your input was changed when the call was approved. This is what was changed in the file:\n";
        match told {
            Some(told) => {
                let told = told.replace("<a>", &world.path("a")).replace("<changed>", words);
                assert!(text.ends_with(&told), "{text}");
            }
            None => assert!(text.ends_with("(1 line)."), "{text}"),
        }
        assert_eq!(result["tool_use_result"]["userModified"] == true, told.is_some(), "{result}");
    }
    host.result().await;
    host.end().await.clean(0);
    assert_eq!((world.read("a").as_str(), world.read("b").as_str()), ("1\n", "one\nII\n"));
}

#[tokio::test]
async fn an_answer_that_is_an_error_is_a_no_with_those_words() {
    let world = world();
    let model = serve_two_writes(&world).await;
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("write");
    for _ in 0..2 {
        let question = host.wait_for_request("can_use_tool").await;
        host.send_line(json!({"type": "control_response", "response":
            {"subtype": "error", "request_id": question["request_id"], "error": "the callback broke"}}));
        let refused = host.until(|line| line["type"] == "user").await;
        assert_eq!(result_text(&refused), "the callback broke");
    }
    let told = host.seen.iter().any(|line| line["subtype"] == "permission_denied");
    assert!(!told, "who was asked knows");
    assert_eq!(host.result().await["permission_denials"].as_array().unwrap().len(), 2);
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_no_can_stop_the_turn() {
    let world = world();
    let model = serve_two_writes(&world).await;
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("write");
    let question = host.wait_for_request("can_use_tool").await;
    host.answer(&question, json!({"behavior": "deny", "message": "stop it", "interrupt": true}));
    let result = host.result().await;
    assert_eq!(
        (&result["subtype"], &result["terminal_reason"]),
        (&json!("error_during_execution"), &json!("aborted_tools"))
    );
    host.end().await.clean(1);
}

#[tokio::test]
async fn a_host_that_never_answers_can_still_interrupt() {
    let world = world();
    let write = |name: &str| json!({"file_path": world.path(name), "content": "1"});
    let model = Script::new().call("Write", write("a")).then().say("after").serve().await.unwrap();
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("write");
    let question = host.wait_for_request("can_use_tool").await;
    let reply = host.send_request(json!({"subtype": "interrupt"})).await;
    assert_eq!(reply["subtype"], "success");
    let result = host.result().await;
    assert_eq!(result["terminal_reason"], "aborted_tools");
    let withdrawn = host.seen.iter().find(|line| line["type"] == "control_cancel_request").unwrap();
    assert_eq!(withdrawn["request_id"], question["request_id"]);
    // An answer that crosses the withdrawal changes nothing.
    host.answer(&question, json!({"behavior": "allow"}));
    host.say("go on");
    assert_eq!(host.result().await["result"], "after");
    host.end().await.clean(0);
    assert!(!world.project.join("a").exists());
}

#[tokio::test]
async fn questions_at_the_same_time_have_their_own_answers() {
    let world = world();
    let write = |name: &str| json!({"file_path": world.path(name), "content": name});
    let model =
        Script::new().call("Write", write("a")).call("Write", write("b")).then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("write both");
    for _ in 0..2 {
        let question = host.wait_for_request("can_use_tool").await;
        let wanted = question["request"]["input"]["file_path"].as_str().unwrap().ends_with('b');
        let answer = if wanted { json!({"behavior": "allow"}) } else { json!({"behavior": "deny", "message": "no a"}) };
        host.answer(&question, answer);
    }
    host.result().await;
    host.end().await.clean(0);
    assert!(!world.project.join("a").exists() && world.project.join("b").exists());
}

#[tokio::test]
async fn the_end_of_input_answers_every_question_with_no() {
    let world = world();
    let model = serve_two_writes(&world).await;
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("write");
    host.wait_for_request("can_use_tool").await;
    let lines = host.end().await.clean(0);
    let refused: Vec<String> = lines.iter().filter(|line| line["type"] == "user").map(result_text).collect();
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|text| text.contains("Stream closed")), "{refused:?}");
    assert_eq!(line_kinds(&lines).iter().filter(|kind| *kind == "can_use_tool").count(), 1);
    let unasked: Vec<&Value> = lines.iter().filter(|line| line["subtype"] == "permission_denied").collect();
    assert_eq!(unasked.len(), 1, "the host was not asked about the second: {unasked:?}");
    assert_eq!((&unasked[0]["tool_name"], &unasked[0]["decision_reason_type"]), (&json!("Write"), &json!("other")));
    assert!(!world.project.join("a").exists() && !world.project.join("b").exists());
}

#[tokio::test]
async fn an_open_question_is_told_to_a_host_that_comes_back() {
    let world = world();
    let model = serve_two_writes(&world).await;
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("write");
    let question = host.wait_for_request("can_use_tool").await;
    let welcome = host.send_request(json!({"subtype": "initialize"})).await;
    assert_eq!(welcome["pending_permission_requests"], json!([question]));
    host.end().await.clean(0);
}

#[tokio::test]
async fn allowed_tools_are_not_asked_about_and_denied_ones_are_not_offered() {
    let world = world();
    let model = serve_two_writes(&world).await;
    let mut host = SdkHost::start(
        world
            .run(&model)
            .args(["--permission-prompt-tool", "stdio", "--allowedTools", "Write,mcp__x__y,NoSuchTool"])
            .args(["--disallowedTools", "Bash,WebSearch"]),
    );
    host.say("write");
    host.result().await;
    let lines = host.end().await.clean(0);
    assert!(!line_kinds(&lines).contains(&"can_use_tool".to_owned()));
    let tools = lines.iter().find(|line| line["subtype"] == "init").unwrap()["tools"].to_string();
    assert!(tools.contains("Write") && !tools.contains("Bash"));
}

#[tokio::test]
async fn a_mode_that_answers_an_open_question_withdraws_it() {
    // The new mode, and what the first call's result then says.
    for (mode, words) in [("acceptEdits", "Created"), ("dontAsk", "not run")] {
        let world = world();
        let model = serve_two_writes(&world).await;
        let mut host = SdkHost::start_attended(&world, &model);
        host.say("write");
        let question = host.wait_for_request("can_use_tool").await;
        let reply = host.send_request(json!({"subtype": "set_permission_mode", "mode": mode})).await;
        assert_eq!(reply["subtype"], "success", "{mode}");
        let first = host.until(|line| line["type"] == "user").await;
        assert!(result_text(&first).contains(words), "{mode}: {}", result_text(&first));
        // It crosses the withdrawal.
        host.answer(&question, json!({"behavior": "deny", "message": "too late"}));
        let result = host.result().await;
        assert_eq!(result["result"], "done", "{mode}");
        let withdrawn: Vec<&Value> = host.seen.iter().filter(|line| line["type"] == "control_cancel_request").collect();
        assert_eq!(withdrawn.len(), 1, "{mode}");
        assert_eq!(withdrawn[0]["request_id"], question["request_id"], "{mode}");
        let questions = line_kinds(&host.seen).iter().filter(|kind| *kind == "can_use_tool").count();
        assert_eq!(questions, 1, "{mode}: the second call needs no question either");
        host.end().await.clean(0);
    }
}

#[tokio::test]
async fn a_mode_that_asks_as_well_leaves_the_question_open() {
    let world = world();
    let model = Script::new().call("Bash", json!({"command": "make all"})).then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("build");
    let question = host.wait_for_request("can_use_tool").await;
    host.send_request(json!({"subtype": "set_permission_mode", "mode": "acceptEdits"})).await;
    host.answer(&question, json!({"behavior": "deny", "message": "no make here"}));
    let refused = host.until(|line| line["type"] == "user").await;
    assert!(result_text(&refused).contains("no make here"));
    host.result().await;
    assert!(!host.seen.iter().any(|line| line["type"] == "control_cancel_request"));
    host.end().await.clean(0);
}

#[tokio::test]
async fn what_is_forbidden_for_the_session_is_closed_to_programs_in_the_sandbox_too() {
    let world = world();
    world.file("secret.txt", "for nobody");
    // What a script does is not in the words of the command, so only walls can keep it from anything.
    world.file("show.sh", "cat secret.txt 2>/dev/null || echo closed");
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    let settings = json!({"sandbox": {"enabled": true}}).to_string();
    std::fs::write(world.home.join(".claude/settings.json"), settings).unwrap();
    let (show, asking) =
        (json!({"command": "sh show.sh"}), json!({"file_path": world.project.join("x"), "content": ""}));
    let script = Script::new().call("Bash", show.clone()).then().call("Write", asking).then().call("Bash", show);
    let model = script.then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start_attended(&world, &model);
    host.say("go");
    let deny = json!({"type": "addRules", "behavior": "deny", "destination": "session",
        "rules": [{"toolName": "Read", "ruleContent": "secret.txt"}]});
    loop {
        let line = host.until(|line| line["type"] == "result" || line["type"] == "control_request").await;
        match line["request"]["tool_name"].as_str() {
            Some("Write") => host.answer(&line, json!({"behavior": "allow", "updatedPermissions": [deny]})),
            Some(_) => host.answer(&line, json!({"behavior": "allow"})),
            None => break,
        }
    }
    host.end().await.output.expect_code(0);
    assert!(model.request(1).tool_result(0).contains("for nobody"));
    let after = model.request(3).tool_result(0);
    assert!(after.contains("closed") && !after.contains("for nobody"), "{after}");
}

/// Runs the calls with a hook that says yes to every question; gives the commands that a person was asked about. Their
/// answer is no.
async fn commands_asked_after_hook_yes(world: &TestWorld, args: &[&str], calls: &[Value]) -> Vec<Value> {
    let script = calls.iter().fold(Script::new(), |script, input| script.call("Bash", input.clone()).then());
    let model = script.say("done").serve().await.unwrap();
    let mut host =
        SdkHost::start(world.run(&model).args(["--permission-prompt-tool", "stdio"]).args(args.iter().copied()));
    let hooks = json!({"PermissionRequest": [{"matcher": null, "hookCallbackIds": ["yes"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("go");
    let yes = json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}});
    let mut asked = Vec::new();
    loop {
        let line = host.next_line().await;
        match (line["type"].as_str(), line["request"]["subtype"].as_str()) {
            (Some("control_request"), Some("hook_callback")) => host.answer(&line, yes.clone()),
            (Some("control_request"), Some("can_use_tool")) => {
                asked.push(line["request"]["input"]["command"].clone());
                host.answer(&line, json!({"behavior": "deny", "message": "no"}));
            }
            (Some("result"), _) => break,
            _ => {}
        }
    }
    host.end().await;
    asked
}

#[tokio::test]
async fn a_hooks_yes_does_not_let_a_command_out_of_the_sandbox() {
    let world = world();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = folder.path().join("out");
    let touch = format!("touch {}", out.display());
    let leave = json!({"command": touch, "dangerouslyDisableSandbox": true});
    let sandbox = json!({"sandbox": {"enabled": true}}).to_string();
    let asked = commands_asked_after_hook_yes(&world, &["--settings", &sandbox], &[leave]).await;
    assert_eq!(asked, [json!(touch)]);
    assert!(!out.exists());
}

#[tokio::test]
async fn a_hooks_yes_writes_no_settings_and_no_hooks_of_git_in_any_mode_that_asks() {
    for mode in ["default", "acceptEdits", "plan"] {
        let world = world();
        world.file("x", "{}");
        let texts = ["mkdir .git && cp x .git/config", "cp x .claude/settings.json", "cp x ~/.claude/settings.json"];
        let calls = texts.map(|text| json!({ "command": text }));
        let asked = commands_asked_after_hook_yes(&world, &["--permission-mode", mode], &calls).await;
        assert_eq!(asked, texts.map(|text| json!(text)), "{mode}");
        assert!(!world.project.join(".git").exists() && !world.home.join(".claude/settings.json").exists(), "{mode}");
    }
}

#[tokio::test]
async fn where_only_managed_rules_allow_no_answer_is_offered_or_remembered_as_a_rule() {
    let managed = json!({"allowManagedPermissionRulesOnly": true}).to_string();
    for destination in ["session", "localSettings", "userSettings"] {
        let world = world();
        let mkdir = |name: &str| json!({"command": format!("mkdir {name}")});
        let script = Script::new().call("Bash", mkdir("a")).then().call("Bash", mkdir("b")).then().say("done");
        let model = script.serve().await.unwrap();
        let args = ["--permission-prompt-tool", "stdio", "--managed-settings", &managed];
        let mut host = SdkHost::start(world.run(&model).args(args));
        host.say("go");
        let rule = json!({"toolName": "Bash", "ruleContent": "mkdir *"});
        let add = json!([{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": destination}]);
        for name in ["a", "b"] {
            let question = host.wait_for_request("can_use_tool").await;
            assert_eq!(question["request"]["input"], mkdir(name));
            let offered = &question["request"]["permission_suggestions"];
            assert!(offered.as_array().is_none_or(Vec::is_empty), "{offered}");
            host.answer(&question, json!({"behavior": "allow", "updatedPermissions": add}));
        }
        host.result().await;
        let end = host.end().await;
        assert!(world.project.join("b").is_dir(), "the yes itself counts");
        assert!(!world.project.join(".claude").exists() && !world.home.join(".claude/settings.json").exists());
        let said = end.lines.iter().map(Value::to_string).chain([end.output.stderr.clone()]).collect::<String>();
        assert!(said.contains("allowManagedPermissionRulesOnly"), "{said}");
        end.output.expect_code(0);
    }
}

#[tokio::test]
async fn an_answer_cannot_turn_on_an_auto_mode_that_settings_took_away() {
    let world = world();
    let model = serve_two_writes(&world).await;
    let off = json!({"disableAutoMode": "disable"}).to_string();
    let mut host = SdkHost::start(world.run(&model).args(["--permission-prompt-tool", "stdio", "--settings", &off]));
    host.say("write");
    let auto = json!([{"type": "setMode", "mode": "auto", "destination": "session"}]);
    for _ in 0..2 {
        let question = host.wait_for_request("can_use_tool").await;
        host.answer(&question, json!({"behavior": "allow", "updatedPermissions": auto}));
    }
    let result = host.result().await;
    assert_eq!(result["permission_denials"], json!([]));
    host.end().await.output.expect_code(0);
}

#[tokio::test]
async fn a_plan_that_begins_in_auto_mode_keeps_its_reviewer_and_no_other_plan_gets_one() {
    for (start, setting, reviewed) in
        [("auto", None, true), ("auto", Some(false), false), ("default", None, false), ("default", Some(true), true)]
    {
        let world = world();
        let review = json!({"allow": true, "reason": "only looks"});
        let script = json!({"steps": [
            {"when": {"tools_include": ["verdict"]}, "reply": {"blocks": [{"tool": "verdict", "input": review}]}},
            {"reply": {"blocks": [{"tool": "Bash", "input": {"command": "make --version"}}]}},
            {"reply": {"blocks": [{"text": "done"}]}},
        ]});
        let model = Script::from_json(&script.to_string()).unwrap().serve().await.unwrap();
        let settings = json!({"useAutoModeDuringPlan": setting}).to_string();
        let settings = if setting.is_some() { settings } else { "{}".to_owned() };
        let args = ["--permission-mode", start, "--settings", &settings];
        let mut host = SdkHost::start(world.run(&model).args(args));
        host.send_request(json!({"subtype": "set_permission_mode", "mode": "plan"})).await;
        host.say("plan it");
        host.result().await;
        host.end().await.output.expect_code(0);
        let reviews = model.requests().iter().filter(|request| request.tool_names() == ["verdict"]).count();
        assert_eq!(reviews, usize::from(reviewed), "from {start} with {setting:?}");
    }
}

#[tokio::test]
async fn an_answer_for_settings_that_are_not_read_holds_for_the_session_and_is_not_written() {
    for (sources, destination, kept) in [
        ("--setting-sources=", "userSettings", None),
        ("--setting-sources=", "projectSettings", None),
        ("--setting-sources=user,project", "localSettings", None),
        ("--setting-sources=user", "userSettings", Some("home/.claude/settings.json")),
    ] {
        let world = world();
        let model = serve_two_writes(&world).await;
        let mut host = SdkHost::start(world.run(&model).args(["--permission-prompt-tool", "stdio", sources]));
        host.say("write");
        let question = host.wait_for_request("can_use_tool").await;
        let rule = json!({"type": "addRules", "rules": [{"toolName": "Write"}], "behavior": "allow",
            "destination": destination});
        host.answer(&question, json!({"behavior": "allow", "updatedPermissions": [rule]}));
        host.result().await;
        let lines = host.end().await.clean(0);
        let questions = line_kinds(&lines).iter().filter(|kind| *kind == "can_use_tool").count();
        assert_eq!(questions, 1, "{sources} {destination}");
        let told = lines.iter().any(|line| line.to_string().contains("holds for this session only"));
        assert_eq!(told, kept.is_none(), "{sources} {destination}");
        let files =
            ["home/.claude/settings.json", "project/.claude/settings.json", "project/.claude/settings.local.json"];
        let root = world.project.parent().unwrap();
        for file in files {
            let written = std::fs::read_to_string(root.join(file)).is_ok_and(|text| text.contains("Write"));
            assert_eq!(written, kept == Some(file), "{sources} {destination}: {file}");
        }
    }
}

#[tokio::test]
async fn a_rule_of_an_answer_that_decides_nothing_is_named() {
    let world = world();
    world.file(".claude/settings.local.json", r#"{"permissions":{"ask":["Bash(make *)"]}}"#);
    let model = serve_two_writes(&world).await;
    let mut host = SdkHost::start(world.run(&model).args(["--permission-prompt-tool", "stdio"]));
    host.say("write");
    let question = host.wait_for_request("can_use_tool").await;
    let rule = |content: &str| json!({"toolName": "Bash", "ruleContent": content});
    let add = json!({"type": "addRules", "rules": [rule("make all"), rule("npm test")], "behavior": "allow",
        "destination": "localSettings"});
    host.answer(&question, json!({"behavior": "allow", "updatedPermissions": [add]}));
    let question = host.wait_for_request("can_use_tool").await;
    host.answer(&question, json!({"behavior": "allow"}));
    host.result().await;
    let lines = host.end().await.clean(0);
    let named = |rule: &str| {
        lines.iter().filter(|line| line["subtype"] == "informational").any(|line| line.to_string().contains(rule))
    };
    assert!(named("the allow rule `Bash(make all)`"), "{lines:#?}");
    assert!(!named("npm test"), "{lines:#?}");
}

#[tokio::test]
async fn an_answer_can_take_a_rule_from_the_flags_and_settings_that_change_do_not_bring_it_back() {
    let world = world();
    let bash = |command: &str| json!({"command": command});
    let write = json!({"file_path": world.path("w"), "content": "1"});
    let script = Script::new().call("Bash", bash("touch a")).then().call("Write", write);
    let script = script.then().call("Bash", bash("touch b")).then().say("done");
    let script = script.then().call("Bash", bash("touch c")).then().say("done");
    let model = script.serve().await.unwrap();
    let args = ["--permission-prompt-tool", "stdio", "--allowedTools", "Bash"];
    let mut host = SdkHost::start(world.run(&model).args(args));
    host.say("go");
    let question = host.wait_for_request("can_use_tool").await;
    assert_eq!(question["request"]["tool_name"], "Write", "{question}");
    let take = json!({"type": "removeRules", "rules": [{"toolName": "Bash", "ruleContent": null}],
        "behavior": "allow", "destination": "cliArg"});
    host.answer(&question, json!({"behavior": "allow", "updatedPermissions": [take]}));
    let question = host.wait_for_request("can_use_tool").await;
    assert_eq!(question["request"]["input"], bash("touch b"));
    host.answer(&question, json!({"behavior": "allow"}));
    host.result().await;
    world.file(".claude/settings.json", r#"{"permissions":{"ask":["Bash(make)"]}}"#);
    host.say("once more");
    let question = host.wait_for_request("can_use_tool").await;
    assert_eq!(question["request"]["input"], bash("touch c"));
    host.answer(&question, json!({"behavior": "deny", "message": "no"}));
    host.result().await;
    host.end().await.clean(0);
    assert!(world.project.join("b").exists() && !world.project.join("c").exists());
}

#[tokio::test]
async fn a_rule_that_is_saved_in_a_folder_trusts_nothing_else_in_it() {
    let world = world();
    let project = json!({"permissions": {"allow": ["Bash(touch *)"]}, "sandbox": {"enabled": true}});
    world.file(".claude/settings.json", project.to_string());
    let bash = |command: &str| json!({"command": command});
    let script = ["mkdir a", "mkdir b", "touch c"]
        .iter()
        .fold(Script::new(), |script, command| script.call("Bash", bash(command)).then());
    let model = script.say("done").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--permission-prompt-tool", "stdio"]));
    host.say("go");
    let question = host.wait_for_request("can_use_tool").await;
    assert_eq!(question["request"]["input"], bash("mkdir a"));
    let rule = json!({"toolName": "Bash", "ruleContent": "mkdir *"});
    let add = json!([{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings"}]);
    host.answer(&question, json!({"behavior": "allow", "updatedPermissions": add}));
    // The sandbox is the project's own wish, and answers for nobody.
    let question = host.wait_for_request("can_use_tool").await;
    assert_eq!(question["request"]["input"], bash("touch c"));
    host.answer(&question, json!({"behavior": "deny", "message": "no"}));
    host.result().await;
    host.end().await.output.expect_code(0);
    assert!(world.project.join("b").is_dir() && !world.project.join("c").exists());
    assert!(!world.home.join(".claude.json").exists(), "other programs are told nothing");
    let trust = world.run_at("http://127.0.0.1:9").args(["trust", "--json"]).finish().await;
    assert_eq!(trust.json()["state"], "not trusted", "{}", trust.stdout);
}
