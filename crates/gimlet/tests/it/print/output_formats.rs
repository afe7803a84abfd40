//! The three output formats, to the member.

use gimlet_script::{Script, ScriptedReply, WireShape};
use serde_json::{Value, json};

use crate::world;

/// Reads a file, then answers.
fn read_script(path: &str) -> Script {
    Script::new().think("hm").say("Looking.").call("Read", json!({"file_path": path})).then().say("It says alpha.")
}

fn lines_of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

#[tokio::test]
async fn json_is_one_result_object() {
    let world = world();
    world.file("a.txt", "alpha\n");
    let model = read_script(&world.path("a.txt")).serve().await.unwrap();
    let run = world.run(&model).print_text("what is it?").args(["--output-format", "json"]).finish().await;
    run.expect_code(0);
    assert_eq!((run.stdout.lines().count(), run.stderr.as_str()), (1, ""));
    let result = run.json();
    assert_eq!(result["type"], "result");
    assert_result(&result, "It says alpha.");
}

#[track_caller]
fn assert_result(result: &Value, text: &str) {
    let told = [&result["subtype"], &result["is_error"], &result["result"], &result["terminal_reason"]];
    assert_eq!(told, [&json!("success"), &json!(false), &json!(text), &json!("completed")]);
    assert_eq!((&result["num_turns"], &result["stop_reason"]), (&json!(2), &json!("end_turn")));
    assert_eq!(result["permission_denials"], json!([]));
    assert!(result.get("errors").is_none());
    for number in ["duration_ms", "duration_api_ms", "total_cost_usd"] {
        assert!(result[number].as_f64().is_some_and(|number| number >= 0.0), "{number}: {result}");
    }
    let usage = &result["usage"];
    for member in [
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "cache_creation",
        "server_tool_use",
        "service_tier",
        "inference_geo",
        "speed",
        "iterations",
        "output_tokens_details",
    ] {
        assert!(!usage[member].is_null(), "usage has no {member}: {usage}");
    }
    // The last reply alone, which is a part of the whole.
    let last = &usage["iterations"][0];
    assert_eq!((usage["iterations"].as_array().unwrap().len(), &last["type"]), (1, &json!("message")));
    let output = |usage: &Value| usage["output_tokens"].as_u64().unwrap();
    assert!(0 < output(last) && output(last) <= output(usage), "{usage}");
    let by_model = &result["modelUsage"]["claude-sonnet-5-5"];
    for member in ["inputTokens", "outputTokens", "costUSD", "contextWindow", "maxOutputTokens", "webSearchRequests"] {
        assert!(by_model[member].is_number(), "modelUsage has no {member}: {result}");
    }
}

#[tokio::test]
async fn verbose_json_is_an_array_of_all_messages() {
    let world = world();
    world.file("a.txt", "alpha\n");
    let model = read_script(&world.path("a.txt")).serve().await.unwrap();
    let run = world.run(&model).print_text("go").args(["--output-format", "json", "--verbose"]).finish().await;
    run.expect_code(0);
    let all = run.json();
    let kinds: Vec<&str> = all.as_array().unwrap().iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["system", "assistant", "assistant", "assistant", "user", "assistant", "result"]);
    assert!(run.stderr.contains("● Read("), "{}", run.stderr);
}

#[tokio::test]
async fn stream_json_begins_with_init_and_has_one_line_per_block() {
    let world = world();
    world.file("a.txt", "alpha\n");
    let model = read_script(&world.path("a.txt")).serve().await.unwrap();
    let run = world.run(&model).print_text("go").args(["--output-format", "stream-json"]).finish().await;
    run.expect_code(0);
    let lines = run.lines();
    let init = &lines[0];
    assert_eq!((&init["type"], &init["subtype"]), (&json!("system"), &json!("init")));
    assert_eq!(init["cwd"], world.project.to_string_lossy().as_ref());
    assert_eq!(init["model"], "claude-sonnet-5-5");
    assert_eq!((&init["permissionMode"], &init["apiKeySource"]), (&json!("default"), &json!("ANTHROPIC_API_KEY")));
    assert_eq!((&init["claude_code_version"], &init["output_style"]), (&json!("2.1.325"), &json!("default")));
    for list in ["tools", "mcp_servers", "slash_commands", "agents", "skills", "plugins"] {
        assert!(init[list].is_array(), "{list}: {init}");
    }
    let listed = init["tools"].as_array().unwrap();
    assert!(listed.contains(&json!("Read")) && listed.contains(&json!("Task")) && !listed.contains(&json!("Agent")));
    assert_result(lines.last().unwrap(), "It says alpha.");

    let assistants = lines_of_type(&lines, "assistant");
    let kinds: Vec<_> = assistants.iter().map(|line| &line["message"]["content"][0]["type"]).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "text"]);
    assert!(assistants.iter().all(|line| line["message"]["stop_reason"].is_null()));
    assert_eq!(assistants[0]["message"]["id"], assistants[2]["message"]["id"]);
    assert_ne!(assistants[2]["message"]["id"], assistants[3]["message"]["id"]);
    let [user] = lines_of_type(&lines, "user")[..] else { panic!("{lines:?}") };
    assert_eq!(user["message"]["content"][0]["tool_use_id"], assistants[2]["message"]["content"][0]["id"]);
    assert!(user["message"]["content"][0].get("is_error").is_none());
    assert_eq!(user["tool_use_result"]["type"], "text");
    assert_eq!(lines_of_type(&lines, "stream_event").len(), 0);
    for line in &lines {
        assert!(line["uuid"].is_string() && line["session_id"] == init["session_id"], "{line}");
    }
}

#[tokio::test]
async fn lines_and_transcript_entries_share_their_uuids() {
    let world = world();
    world.file("a.txt", "alpha\n");
    let model = read_script(&world.path("a.txt")).serve().await.unwrap();
    let run = world.run(&model).stream("go").finish().await;
    run.expect_code(0);
    let lines = run.lines();
    let told: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line["type"] == "assistant" || line["type"] == "user")
        .map(|line| (line["type"].as_str().unwrap(), line["uuid"].as_str().unwrap()))
        .collect();
    let entries = world.transcript_entries();
    let kept: Vec<(&str, &str)> = entries
        .iter()
        .filter(|entry| (entry["type"] == "assistant" || entry["type"] == "user") && entry["isMeta"] != true)
        .map(|entry| (entry["type"].as_str().unwrap(), entry["uuid"].as_str().unwrap()))
        .collect();
    // The prompt is the caller's own; it is not told again.
    assert_eq!((told.len(), told.as_slice()), (5, &kept[1..]));
}

#[tokio::test]
async fn partial_messages_are_the_models_own_events() {
    let world = world();
    world.file("a.txt", "alpha\n");
    let model = read_script(&world.path("a.txt")).serve().await.unwrap();
    let run = world.run(&model).stream("go").arg("--include-partial-messages").finish().await;
    run.expect_code(0);
    let lines = run.lines();
    let events = lines_of_type(&lines, "stream_event");
    let kind = |event: &Value| match event["event"]["delta"]["type"].as_str() {
        Some(delta) => delta.to_owned(),
        None => event["event"]["type"].as_str().unwrap().to_owned(),
    };
    let kinds: Vec<String> = events.iter().map(|event| kind(event)).collect();
    for wanted in [
        "message_start",
        "content_block_start",
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ] {
        assert!(kinds.iter().any(|kind| kind == wanted), "{wanted} is missing: {kinds:?}");
    }
    let text: String = events.iter().filter_map(|event| event["event"]["delta"]["text"].as_str()).collect();
    assert_eq!(text, "Looking.It says alpha.");
    let requesting = lines.iter().filter(|line| line["status"] == "requesting").count();
    assert_eq!((requesting, lines_of_type(&lines, "assistant").len()), (2, 4));
    // A block comes behind the event that completes it, and before the next.
    let before = |line: &Value| line["event"]["type"].as_str().map(str::to_owned);
    let blocks = lines.windows(3).filter(|three| three[1]["type"] == "assistant");
    for three in blocks {
        assert_eq!(before(&three[0]).as_deref(), Some("content_block_stop"), "{three:?}");
        let after = before(&three[2]).unwrap_or_default();
        assert!(["content_block_start", "message_delta"].contains(&after.as_str()), "{three:?}");
    }
}

#[tokio::test]
async fn the_model_is_told_that_a_command_that_is_not_there_did_not_run() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).print_text("/shrink the tests").finish().await;
    run.expect_code(0);
    assert!(run.stderr.contains("there is no command /shrink"), "{}", run.stderr);
    let sent = model.request(0).last_user_text();
    assert!(sent.contains("There is no command /shrink") && sent.ends_with("/shrink the tests"), "{sent}");
}

#[tokio::test]
async fn flags_that_need_stream_json_say_so() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).print_text("go").arg("--include-partial-messages").finish().await;
    run.expect_code(1);
    let line = "gimlet: --include-partial-messages needs another output format. Add --output-format stream-json\n";
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", line));
    for run in [world.run(&model).print_text("go"), world.run(&model).stream("go")] {
        let run = run.arg("--replay-user-messages").finish().await;
        run.expect_code(1);
        assert!(run.stderr.contains("--input-format stream-json"), "{}", run.stderr);
    }
}

#[tokio::test]
async fn a_discarded_reply_is_taken_back_by_name() {
    use gimlet_script::{CloseKind, Fault, FaultPoint};
    let world = world();
    let cut = Fault::Cut { at: FaultPoint::MidText, how: CloseKind::Fin };
    let model = Script::new().think("hm").say("lost").fault(cut).then().say("done").serve().await.unwrap();
    let run = world.run(&model).stream("go").env("GIMLET_TEST_RETRY_DELAY_MS", "5").finish().await;
    run.expect_code(0);
    let lines = run.lines();
    let thought = lines_of_type(&lines, "assistant")[0];
    let discarded: Vec<&Value> = lines.iter().filter(|line| line["subtype"] == "reply_discarded").collect();
    assert_eq!(discarded.len(), 1);
    assert_eq!(discarded[0]["discarded_uuids"], json!([thought["uuid"]]));
}

#[tokio::test]
async fn the_turn_limit_counts_requests_and_is_an_error() {
    let world = world();
    world.file("a.txt", "alpha\n");
    let call = || Script::new().say("More.").call("Read", json!({"file_path": "{{path}}"})).forever();
    let model = call().var("path", world.path("a.txt")).serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--max-turns", "2"]).finish().await;
    run.expect_code(1);
    let result = run.result();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("error_max_turns"), &json!(true)));
    assert_eq!((&result["num_turns"], &result["terminal_reason"]), (&json!(3), &json!("max_turns")));
    assert_eq!(result["errors"], json!(["Reached maximum number of turns (2)"]));
    assert!(result.get("result").is_none());
    assert_eq!(model.requests().len(), 2);
    // The calls of the last reply ran, so the session goes on from their results.
    let model = Script::new().say("ok").serve().await.unwrap();
    world.run(&model).args(["-p", "--continue", "go on"]).finish().await.expect_code(0);
    assert_eq!((model.rejections().len(), model.request(0).message_count()), (0, 6));

    let model = call().var("path", world.path("a.txt")).serve().await.unwrap();
    let run = world.run(&model).print_text("go").args(["--max-turns", "1"]).finish().await;
    run.expect_code(1);
    assert_eq!(run.stdout, "Error: reached the limit of 1 turns (--max-turns)\n");

    let model = call().var("path", world.path("a.txt")).serve().await.unwrap();
    let run = world.run(&model).stream("go").env("CLAUDE_CODE_MAX_TURNS", "1").args(["--max-turns", "0"]);
    let result = run.finish().await.result();
    assert!(result["subtype"] != "error_max_turns" && model.requests().len() > 1, "{result}");
}

#[tokio::test]
async fn a_run_that_did_not_reach_its_end_says_how_to_go_on() {
    let world = world();
    let begun = || Script::new().call("Glob", json!({"pattern": "*"})).then();
    let failing = || begun().error(400, "no such thing").serve();
    let refusing = || begun().say("I will not.").stop("refusal").serve();
    for model in [failing().await.unwrap(), refusing().await.unwrap()] {
        let run = world.run(&model).print_text("go").finish().await;
        run.expect_code(1);
        let way = run.stderr.lines().last().unwrap();
        let id = way.strip_prefix("gimlet: to continue: gimlet -p --resume ").unwrap().strip_suffix(" \"…\"").unwrap();
        let next = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&next).print_text("once more").args(["--resume", id]).finish().await;
        run.expect_code(0);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("ok\n", ""));
        assert!(next.request(0).message_count() >= 3 && next.rejections().is_empty(), "{:?}", next.rejections());
    }
    // Nothing to go on with, or a program that reads the id from the result.
    for flags in [&["--no-session-persistence"][..], &["--output-format", "json"]] {
        let model = failing().await.unwrap();
        let run = world.run(&model).print_text("go").args(flags.iter().copied()).finish().await;
        run.expect_code(1);
        assert!(!run.stderr.contains("go on with"), "{}", run.stderr);
    }
}

#[tokio::test]
async fn the_debug_log_tells_the_limits_of_the_account() {
    let world = world();
    let model = Script::new().say("ok").header("anthropic-ratelimit-requests-remaining", "49").serve().await.unwrap();
    let run = world.run(&model).print_text("go").args(["--debug=api", "--debug-file", "log.txt"]).finish().await;
    run.expect_code(0);
    assert_eq!(run.stderr, "");
    let log = world.read("log.txt");
    assert!(log.contains("[api] limits: requests: 49 left\n"), "{log}");
}

#[tokio::test]
async fn the_debug_log_tells_what_was_odd_about_a_reply() {
    let world = world();
    let wire = WireShape { unknown: true, ..WireShape::default() };
    let model = Script::new().say("ok").stop("tired").wire(wire).serve().await.unwrap();
    let run = world.run(&model).print_text("go").args(["--debug=api", "--debug-file", "log.txt"]).finish().await;
    run.expect_code(0);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("ok\n", ""));
    let log = world.read("log.txt");
    let odd: Vec<&str> = log.lines().filter(|line| line.contains("[api] odd reply: ignored")).collect();
    assert!(odd.len() == 1 && odd[0].contains("the unknown reason 'tired'"), "{log}");
}

#[tokio::test]
async fn the_log_names_variables_that_should_be_numbers_and_are_none() {
    let world = world();
    let model = Script::new().call("Bash", json!({"command": "true"})).then().say("ok").serve().await.unwrap();
    let run = world.run(&model).print_text("go").args(["--debug-file", "log.txt"]);
    let run = run.env("BASH_DEFAULT_TIMEOUT_MS", "abc").env("BASH_MAX_TIMEOUT_MS", "900_000").finish().await;
    run.expect_code(0);
    assert_eq!(run.stderr, "");
    let log = world.read("log.txt");
    let named: Vec<&str> = log.lines().filter(|line| line.contains("is no whole number")).collect();
    assert_eq!(named, ["BASH_DEFAULT_TIMEOUT_MS is no whole number and was not used"]);
}

#[tokio::test]
async fn the_log_says_why_commands_run_in_a_plain_shell_and_nobody_else_does() {
    let world = world();
    std::fs::write(world.home.join(".bashrc"), "exit 3\n").unwrap();
    let model = Script::new().call("Bash", json!({"command": "true"})).then().say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--debug-file", "log.txt"]).finish().await;
    run.expect_code(0);
    let log = world.read("log.txt");
    let said: Vec<&str> = log.lines().filter(|line| line.contains("commands run in a plain shell")).collect();
    assert!(matches!(said.as_slice(), [only] if only.contains("[notice]") && only.contains(".bashrc")), "{log}");
    assert!(!run.stdout.contains("plain shell") && run.stderr.is_empty(), "{}", run.stdout);
}

#[tokio::test]
async fn an_effort_that_means_more_elsewhere_is_its_level_here() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).print_text("go").args(["--model", "claude-opus-5-5", "--effort", "ultracode"]);
    run.finish().await.expect_code(0);
    assert_eq!(model.request(0).json()["output_config"]["effort"], "xhigh");
}

#[tokio::test]
async fn the_debug_log_tells_what_the_prompt_cache_did() {
    let world = world();
    let call = || Script::new().call("Glob", json!({"pattern": "*"}));
    let cold = json!({"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "input_tokens": 9000});
    let broken = ScriptedReply { usage: cold.as_object().cloned(), ..ScriptedReply::say("ok") };
    let model = call().then().call("Glob", json!({"pattern": "a*"})).then().reply(broken).serve().await.unwrap();
    world.run(&model).stream("go").args(["--debug=api", "--debug-file", "log.txt"]).finish().await.expect_code(0);
    let log = world.read("log.txt");
    let lines: Vec<&str> = log.lines().filter_map(|line| line.split_once("cache: ")).map(|(_, text)| text).collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[0].starts_with("0 of ") && lines[0].ends_with("(0 %)"), "{log}");
    assert!(lines[1].contains("% since the first request") && !lines[1].contains("break"), "{log}");
    assert!(lines[2].starts_with("0 of 9000 tokens read (0 %)"), "{log}");
    let breaks: Vec<&str> = log.lines().filter(|line| line.contains("cache break")).collect();
    let [told] = breaks[..] else { panic!("{log}") };
    assert!(told.ends_with("nothing changed; the entry ran out or was dropped"), "{told}");
}

#[tokio::test]
async fn the_debug_log_tells_what_changed_when_the_cache_broke() {
    let world = world();
    let cold = json!({"cache_read_input_tokens": 0, "cache_creation_input_tokens": 9000, "input_tokens": 3});
    let model = Script::new().call("Glob", json!({"pattern": "*"})).then().stop("refusal").then();
    let model = model
        .reply(ScriptedReply { usage: cold.as_object().cloned(), ..ScriptedReply::say("ok") })
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").args(["--fallback-model", "haiku", "--debug-file", "log.txt"]);
    run.finish().await.expect_code(0);
    let log = world.read("log.txt");
    let told = "changed: model (claude-sonnet-5-5, now claude-haiku-5-5)";
    assert!(log.lines().any(|line| line.contains("cache break") && line.contains(told)), "{log}");
}

#[tokio::test]
async fn facts_about_a_model_can_be_given() {
    let world = world();
    let models = r#"{"local/*": {"price": {"input": 1, "output": 1}}}"#;
    let model = Script::new().say("ok").lenient().forever().serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--model", "local/x"]).env("GIMLET_MODELS", models).finish().await;
    run.expect_code(0);
    assert!(run.result()["total_cost_usd"].as_f64().unwrap() > 0.0, "{}", run.result());
    let run = world.run(&model).print_text("go").env("GIMLET_MODELS", "{").finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("GIMLET_MODELS") && run.stderr.lines().count() == 1, "{}", run.stderr);
}

#[tokio::test]
async fn a_word_with_a_slash_that_names_no_command_is_a_prompt_like_any_other() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    world.run(&model).print_text("/nonsense with words").finish().await.expect_code(0);
    assert!(model.request(0).last_user_text().ends_with("/nonsense with words"));
}

#[tokio::test]
async fn what_would_need_a_question_is_denied_and_listed() {
    let world = world();
    let input = json!({"file_path": world.path("new.txt"), "content": "x\n"});
    let script = || Script::new().call("Write", input.clone()).then().say("I may not.");
    let model = script().serve().await.unwrap();
    let run = world.run(&model).print_text("write it").args(["--output-format", "stream-json"]).finish().await;
    run.expect_code(0);
    let lines = run.lines();
    let result = run.result();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)));
    let denials = result["permission_denials"].as_array().unwrap();
    assert_eq!(denials.len(), 1);
    assert_eq!((&denials[0]["tool_name"], &denials[0]["tool_input"]), (&json!("Write"), &input));
    let call = lines_of_type(&lines, "assistant")[0]["message"]["content"][0]["id"].clone();
    assert_eq!(denials[0]["tool_use_id"], call);
    let told: Vec<&Value> = lines.iter().filter(|line| line["subtype"] == "permission_denied").collect();
    assert_eq!((told.len(), &told[0]["tool_use_id"]), (1, &call));
    let user = lines_of_type(&lines, "user")[0];
    assert_eq!(user["message"]["content"][0]["is_error"], true);
    assert!(!model.request(1).tool_result(0).is_empty() && !world.project.join("new.txt").exists());

    let model = script().serve().await.unwrap();
    let run = world.run(&model).print_text("write it").finish().await;
    run.expect_code(0);
    assert_eq!((run.stdout.as_str(), run.stderr.lines().count()), ("I may not.\n", 1), "{}", run.stderr);

    let model = script().serve().await.unwrap();
    let run = world.run(&model).print_text("write it").args(["--allowedTools", "Write"]).finish().await;
    run.expect_code(0);
    assert_eq!((world.read("new.txt").as_str(), run.stderr.as_str()), ("x\n", ""));
}

#[tokio::test]
async fn nothing_follows_an_error_result() {
    let world = world();
    let model = Script::new().error(401, "no").serve().await.unwrap();
    let run = world.run(&model).stream("go").env("HOME", "/dev/null").finish().await;
    run.expect_code(1);
    assert_eq!(run.lines().last().unwrap()["type"], "result");
}

#[tokio::test]
async fn the_result_is_the_last_line_whatever_still_runs() {
    for code in [0, 1] {
        let world = world();
        let command = json!({"command": "sleep 0.3", "run_in_background": true});
        let script = Script::new().call("Bash", command).then();
        let script = if code == 0 { script.say("started") } else { script.error(400, "no such thing") };
        let model = script.serve().await.unwrap();
        let run = world.run(&model).args(["--allowedTools", "Bash"]).stream("go").finish().await;
        run.expect_code(code);
        let lines = run.lines();
        assert!(lines.iter().any(|line| line["subtype"] == "task_started"), "{lines:#?}");
        assert_eq!(lines.last().unwrap()["type"], "result");
    }
}

/// What may not follow the result is said on standard error.
#[tokio::test]
async fn what_comes_after_the_last_result_is_not_lost() {
    let world = world();
    let command = json!({"command": "sleep 60", "run_in_background": true});
    let model = Script::new().call("Bash", command).then().say("started").serve().await.unwrap();
    let run = world.run(&model).args(["--allowedTools", "Bash"]).stream("go").finish().await;
    assert_eq!(run.lines().last().unwrap()["type"], "result");
    assert!(run.stderr.starts_with("gimlet: stopped background tasks: "), "{}", run.stderr);
    run.expect_code(0);
}
