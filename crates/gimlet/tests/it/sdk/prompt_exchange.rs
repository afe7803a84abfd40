//! Prompts and what comes back, in order.

use gimlet_script::{Fault, FaultPoint, Script};
use serde_json::{Value, json};

use super::{SdkHost, line_kinds, result_text, unsendable_content};
use crate::world;

#[tokio::test]
async fn one_prompt_with_a_question_goes_as_programs_expect_it() {
    let world = world();
    let input = json!({"file_path": world.path("x.txt"), "content": "1"});
    let model = Script::new().call("Write", input.clone()).then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start_attended(&world, &model);
    let welcome = host.send_request(json!({"subtype": "initialize", "hooks": null})).await;
    assert_eq!((&welcome["subtype"], &welcome["pending_permission_requests"]), (&json!("success"), &json!([])));
    host.say("write x");
    let question = host.wait_for_request("can_use_tool").await;
    assert_eq!((&question["request"]["tool_name"], &question["request"]["input"]), (&json!("Write"), &input));
    host.answer(&question, json!({"behavior": "allow", "updatedInput": input}));
    let result = host.result().await;
    assert_eq!(
        (&result["result"], &result["num_turns"], &result["is_error"]),
        (&json!("done"), &json!(2), &json!(false))
    );
    host.wait_for_state("idle").await;
    let lines = host.end().await.clean(0);
    assert_eq!(
        line_kinds(&lines),
        [
            "control_response",
            "running",
            "init",
            "assistant",
            "requires_action",
            "can_use_tool",
            "running",
            "user",
            "assistant",
            "result",
            "idle"
        ]
    );
    let calls = &lines[3]["message"]["content"][0];
    assert_eq!(question["request"]["tool_use_id"], calls["id"]);
    assert_eq!(world.read("x.txt"), "1");
    let mine: Vec<&Value> = lines.iter().skip(1).filter(|line| line["type"] != "control_request").collect();
    let session = &lines[2]["session_id"];
    assert!(mine.iter().all(|line| line["uuid"].is_string() && line["session_id"] == *session));
    assert!(
        lines
            .iter()
            .filter(|line| line["subtype"] == "session_state_changed")
            .all(|line| line["sdk_host_only"] == true)
    );
    assert!(model.failures().is_empty() && model.rejections().is_empty(), "{:?}", model.rejections());
}

#[tokio::test]
async fn a_prompt_needs_no_handshake_and_the_end_of_input_does_not_stop_it() {
    let world = world();
    let model = Script::new().say("Hello.").delay_ms(100).serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("hi");
    let lines = host.end().await.clean(0);
    assert_eq!(line_kinds(&lines), ["running", "init", "assistant", "result", "idle"]);
    let init = &lines[1];
    assert_eq!((&init["claude_code_version"], &init["output_style"]), (&json!("2.1.325"), &json!("default")));
    let commands = [
        "clear",
        "reset",
        "new",
        "compact",
        "context",
        "cost",
        "usage",
        "stats",
        "effort",
        "help",
        "model",
        "rename",
        "agents",
        "config",
        "settings",
        "doctor",
        "checkup",
        "hooks",
        "mcp",
        "memory",
        "output-style",
        "plugin",
        "plugins",
        "sandbox",
        "skills",
        "status",
        "why",
    ];
    assert_eq!(init["slash_commands"], json!(commands));
}

#[tokio::test]
async fn several_prompts_are_answered_one_by_one_within_the_limits_of_each() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--max-turns", "1"]));
    for words in ["one", "two"] {
        host.say(words);
        let result = host.result().await;
        assert_eq!((&result["result"], &result["subtype"]), (&json!(words), &json!("success")));
        host.wait_for_state("idle").await;
    }
    let lines = host.end().await.clean(0);
    assert_eq!(line_kinds(&lines).iter().filter(|kind| *kind == "init").count(), 2);
}

#[tokio::test]
async fn prompts_that_come_at_once_are_never_lost() {
    let world = world();
    let model = Script::new().say("a").then().say("b").then().say("c").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    for words in ["one", "two", "three"] {
        host.send_line(json!({"type": "user", "message": {"role": "user", "content": words}, "priority": "later"}));
    }
    let lines = host.end().await.clean(0);
    let results: Vec<&Value> =
        lines.iter().filter(|line| line["type"] == "result").map(|line| &line["result"]).collect();
    assert_eq!(results, [&json!("a"), &json!("b"), &json!("c")]);
    let kinds = line_kinds(&lines);
    assert_eq!(kinds.iter().filter(|kind| *kind == "idle").count(), 1, "it rests once, at the end: {kinds:?}");
}

#[tokio::test]
async fn a_prompt_during_a_turn_joins_behind_the_running_call() {
    let world = world();
    let model = Script::new()
        .call("Bash", json!({"command": "touch begun; while [ ! -e go ]; do sleep 0.01; done"}))
        .then()
        .say("both")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions", "--replay-user-messages"]));
    host.say("first");
    host.until(|line| line["type"] == "assistant").await;
    host.send_line(json!({"type": "user", "uuid": "11111111-2222-4333-8444-555555555555",
        "message": {"role": "user", "content": "second"}}));
    // The answer comes from the same place that takes prompts, so the prompt is there.
    host.send_request(json!({"subtype": "get_binary_version"})).await;
    world.file("go", "");
    assert_eq!(host.result().await["result"], "both");
    let lines = host.end().await.clean(0);
    let replays: Vec<&Value> = lines.iter().filter(|line| line["isReplay"] == true).collect();
    assert_eq!(replays.len(), 2);
    assert_eq!(replays[1]["uuid"], "11111111-2222-4333-8444-555555555555");
    assert_eq!(replays[1]["message"], json!({"role": "user", "content": "second"}));
    assert!(model.request(1).last_user_text().contains("second"));
}

#[tokio::test]
async fn a_silent_prompt_begins_no_turn() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.send_line(
        json!({"type": "user", "message": {"role": "user", "content": "the sky is green"}, "shouldQuery": false}),
    );
    host.say("which colour?");
    let lines = host.end().await.clean(0);
    assert_eq!(line_kinds(&lines), ["running", "init", "assistant", "result", "idle"]);
    assert!(model.request(0).body_text().contains("the sky is green"));
}

#[tokio::test]
async fn the_same_prompt_twice_is_one_prompt_and_origins_are_echoed() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let line = json!({"type": "user", "uuid": "aaaaaaaa-2222-4333-8444-555555555555", "origin": {"kind": "human"},
        "message": {"role": "user", "content": "hi"}});
    host.send_line(line.clone());
    assert_eq!(host.result().await["origin"], json!({"kind": "human"}));
    host.send_line(line);
    let lines = host.end().await.clean(0);
    assert_eq!(lines.iter().filter(|line| line["type"] == "result").count(), 1);
    let prompt =
        world.transcript_entries().into_iter().find(|entry| entry["uuid"] == "aaaaaaaa-2222-4333-8444-555555555555");
    assert_eq!(prompt.unwrap()["message"]["content"], "hi", "a text stays a text in the transcript");
}

#[tokio::test]
async fn texts_of_every_kind_arrive_whole() {
    let world = world();
    let words = "naïve 文字 😀 \u{2028} \\u0000 \"quoted\"\n\ttab";
    let model = Script::new().say(words).serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    // As SDKs write: ASCII only, with spaces, and here half of a pair.
    host.write_text(&format!(
        "{{\"type\": \"user\", \"message\": {{\"role\": \"user\", \"content\": \"{}\\ud83d \\u6587\\u5b57{}\"}}}}\r\n\n",
        "na\\u00efve ",
        "x".repeat(2_000_000)
    ));
    assert_eq!(host.result().await["result"], words);
    host.end().await.clean(0);
    let sent = model.request(0).last_user_text();
    assert!(sent.contains("naïve \u{fffd} 文字xxxx") && sent.len() > 2_000_000, "{}", &sent[..40]);
}

#[tokio::test]
async fn no_line_is_longer_than_hosts_can_read() {
    let world = world();
    world.file("big.txt", format!("first\n{}", "0123456789abcde\n".repeat(80_000)));
    let path = world.path("big.txt");
    let edit = json!({"file_path": path, "old_string": "first", "new_string": "changed"});
    let model = Script::new()
        .call("Read", json!({"file_path": path, "limit": 1}))
        .then()
        .call("Edit", edit)
        .then()
        .say("é".repeat(700_000))
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions"]));
    host.say("shorten");
    host.result().await;
    let lines = host.end().await.clean(0);
    let longest = lines.iter().map(|line| line.to_string().len()).max().unwrap();
    assert!(longest < 1_000_000, "{longest}");
    let edited = lines.iter().find(|line| line["tool_use_result"]["newString"] == "changed");
    assert!(edited.is_some(), "what a program needs of an edit is still there");
}

#[tokio::test]
async fn a_refusal_is_not_longer_than_hosts_can_read_whatever_it_names() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.send_request(json!({"subtype": "initialize"})).await;
    let long = "x".repeat(1_200_000);
    host.send_line(json!({"type": "user", "message": {"role": "user", "content": [{"type": long}]}}));
    let result = host.result().await;
    assert!(result["is_error"] == true && result.to_string().len() < 1_000_000, "{}", result.to_string().len());
    let hooks = json!({"PreToolUse": [{"matcher": format!("^({long}"), "hookCallbackIds": ["guard"]}]});
    let answer = host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    assert!(answer["subtype"] == "error" && answer.to_string().len() < 1_000_000, "{}", answer.to_string().len());
    host.end().await.clean(1);
    let mut host = SdkHost::start(world.run(&model));
    host.send_line(json!({"type": "control_request", "request_id": "r",
        "request": {"subtype": "initialize", "hooks": hooks}}));
    assert_eq!(host.wait_for_answer("r").await["subtype"], "error");
    host.result().await;
    assert!(host.seen.iter().all(|line| line.to_string().len() < 1_000_000));
    // Nobody reads what it says to people.
    host.child.kill();
}

#[tokio::test]
async fn partial_messages_come_only_when_asked_for_and_before_the_whole() {
    for wanted in [true, false] {
        let world = world();
        let model = Script::new().think("hm").say("Hello there.").serve().await.unwrap();
        let mut run = world.run(&model);
        if wanted {
            run = run.arg("--include-partial-messages");
        }
        let mut host = SdkHost::start(run);
        host.say("hi");
        let lines = host.end().await.clean(0);
        let events: Vec<&str> = lines.iter().filter_map(|line| line["event"]["type"].as_str()).collect();
        assert_eq!(events.is_empty(), !wanted, "{events:?}");
        for kind in
            ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_stop"]
        {
            assert_eq!(events.contains(&kind), wanted, "{kind}");
        }
        assert_eq!(line_kinds(&lines).contains(&"status".to_owned()), wanted);
    }
}

#[tokio::test]
async fn a_failing_model_ends_in_an_error_result_and_nothing_follows_it() {
    let world = world();
    let model = Script::new().error(400, "no such thing").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("hi");
    let lines = host.end().await.clean(1);
    assert_eq!(line_kinds(&lines), ["running", "init", "assistant", "result", "idle"]);
    assert_eq!((&lines[2]["error"], &lines[2]["message"]["model"]), (&json!("invalid_request"), &json!("<synthetic>")));
    let result = &lines[3];
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(true)));
    assert!(result["result"].as_str().unwrap().starts_with("API Error: ") && result.get("errors").is_none());
}

#[tokio::test]
async fn a_good_turn_after_a_bad_one_counts() {
    let world = world();
    let model = Script::new().error(400, "no").then().say("fine").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("one");
    assert_eq!(host.result().await["is_error"], true);
    host.say("two");
    assert_eq!(host.result().await["result"], "fine");
    host.end().await.clean(0);
}

#[tokio::test]
async fn limits_end_a_turn_with_their_own_result() {
    let read = json!({"file_path": "/nowhere"});
    for (flags, subtype, reason, words) in [
        (["--max-turns", "1"], "error_max_turns", "max_turns", "Reached maximum number of turns (1)"),
        (
            ["--max-budget-usd", "0.0001"],
            "error_max_budget_usd",
            "budget_exhausted",
            "Reached maximum budget ($0.0001)",
        ),
    ] {
        let world = world();
        let model = Script::new().call("Read", read.clone()).serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(flags));
        host.say("go");
        let result = host.result().await;
        assert_eq!((&result["subtype"], &result["terminal_reason"]), (&json!(subtype), &json!(reason)));
        assert_eq!((&result["errors"], result.get("result")), (&json!([words]), None));
        host.end().await.clean(1);
    }
}

#[tokio::test]
async fn a_call_that_nobody_can_be_asked_about_is_refused_and_said() {
    let world = world();
    let input = json!({"file_path": world.path("x"), "content": "1"});
    for flags in [vec![], vec!["--permission-prompt-tool", "stdio", "--permission-prompts", "none"]] {
        let model = Script::new().call("Write", input.clone()).then().say("no").serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(flags));
        host.say("write");
        let result = host.result().await;
        assert_eq!(result["permission_denials"][0]["tool_input"], input);
        let lines = host.end().await.clean(0);
        let denied = lines.iter().find(|line| line["subtype"] == "permission_denied").unwrap();
        assert_eq!((&denied["tool_name"], denied["message"].is_string()), (&json!("Write"), true));
        let refused = lines.iter().find(|line| line["type"] == "user").unwrap();
        assert_eq!(refused["message"]["content"][0]["is_error"], true);
        assert!(result_text(refused).contains("Nobody can be asked"), "{}", result_text(refused));
    }
}

#[tokio::test]
async fn retries_are_told_with_their_reason() {
    let world = world();
    let model = Script::new().status(529).times(2).then().say("at last").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).env("GIMLET_TEST_RETRY_DELAY_MS", "1"));
    host.say("hi");
    let lines = host.end().await.clean(0);
    let retries: Vec<&Value> = lines.iter().filter(|line| line["subtype"] == "api_retry").collect();
    assert_eq!(retries.len(), 2);
    assert_eq!((&retries[0]["error"], &retries[0]["error_status"]), (&json!("overloaded"), &json!(529)));
}

#[tokio::test]
async fn prompts_that_cannot_be_used_get_a_result_and_the_session_goes_on() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    for (content, is_error) in [(json!(7), true), (json!([{"text": "no type"}]), true), (json!(""), false)] {
        host.send_line(json!({"type": "user", "message": {"role": "user", "content": content}}));
        let result = host.result().await;
        assert_eq!((&result["is_error"], &result["num_turns"]), (&json!(is_error), &json!(0)), "{result}");
        host.wait_for_state("idle").await;
    }
    host.say("hi");
    assert_eq!(host.result().await["result"], "ok");
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_reply_that_stalls_can_be_interrupted_and_the_next_prompt_works() {
    let world = world();
    let stall = Fault::Stall { at: FaultPoint::MidText, ping_every_ms: None, for_ms: None };
    let model = Script::new()
        .say("These are the first words of a long answer that never ends.")
        .fault(stall)
        .then()
        .say("fine")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).arg("--include-partial-messages"));
    host.say("go");
    host.until(|line| line["event"]["delta"]["type"] == "text_delta").await;
    let reply = host.send_request(json!({"subtype": "interrupt"})).await;
    assert_eq!(reply["response"], json!({"still_queued": []}));
    let result = host.result().await;
    assert_eq!(
        (&result["subtype"], &result["terminal_reason"]),
        (&json!("error_during_execution"), &json!("aborted_streaming"))
    );
    assert_eq!((&result["stop_reason"], result.get("result")), (&Value::Null, None));
    let seen = &host.seen;
    let aborted = seen.iter().find(|line| line["aborted"] == true).unwrap();
    assert!(aborted["message"]["content"][0]["text"].as_str().unwrap().starts_with("These are"));
    let marker = seen.iter().find(|line| line["type"] == "user").unwrap();
    assert_eq!(marker["message"]["content"][0]["text"], "[Request interrupted by user]");
    host.say("again");
    assert_eq!(host.result().await["result"], "fine");
    host.end().await.clean(0);
}

/// Answers a call of a server's tool with a text.
fn answer_tool_call(host: &mut SdkHost, line: &Value, text: &str) {
    unsendable_content::answer_with(
        host,
        line,
        &json!([]),
        &json!({"content": [{"type": "text", "text": text}]}).to_string(),
    );
}

#[tokio::test]
async fn results_are_told_as_they_end_and_sent_in_the_order_of_the_calls() {
    let world = world();
    let model = Script::new()
        .call("mcp__calc__look", json!({"n": 0}))
        .call("mcp__calc__look", json!({"n": 1}))
        .call("mcp__calc__look", json!({"n": 2}))
        .then()
        .say("done")
        .then()
        .say("again")
        .serve()
        .await
        .unwrap();
    let config = json!({"mcpServers": {"calc": {"type": "sdk"}}}).to_string();
    let flags = ["--mcp-config", &config, "--allowedTools", "mcp__calc"];
    let mut host = SdkHost::start(world.run(&model).args(flags));
    host.say("go");
    let tools = json!([{"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]);
    let mut calls: Vec<Value> = Vec::new();
    while calls.len() < 3 {
        let line = host.next_line().await;
        match line["request"]["message"]["method"].as_str() {
            Some("tools/call") => calls.push(line),
            _ => unsendable_content::answer_with(&mut host, &line, &tools, "{}"),
        }
    }
    let number = |line: &Value| line["request"]["message"]["params"]["arguments"]["n"].as_u64().unwrap();
    calls.sort_by_key(number);
    for n in [2, 0, 1] {
        answer_tool_call(&mut host, &calls[n], &format!("result {n}"));
        let told = host.until(|line| line["type"] == "user").await;
        assert_eq!(result_text(&told), format!("result {n}"), "it did not wait for the others");
    }
    let session = host.result().await["session_id"].as_str().unwrap().to_owned();
    host.end().await.clean(0);
    let in_order = |request: usize| {
        let sent = model.request(request).body_text().into_owned();
        let places: Vec<_> = (0..3).map(|n| sent.find(&format!("result {n}")).unwrap()).collect();
        places.is_sorted()
    };
    assert!(in_order(1));
    let ended: Vec<String> =
        world.transcript_entries().iter().filter(|entry| !entry["toolUseResult"].is_null()).map(result_text).collect();
    assert_eq!(ended, ["result 2", "result 0", "result 1"], "the transcript has them as they ended");
    let fsck = world.run(&model).args(["sessions", "fsck", &session]).finish().await;
    fsck.expect_code(0);
    let run = world.run(&model).args(["-p", "--resume", &session, "more"]).finish().await;
    run.expect_code(0);
    assert!(in_order(2), "a later run sends them as this one did");
}
