//! Flags and variables that programs pass: odd ones, empty ones, and those that a start can fail by.

use std::io::Write;

use gimlet_script::Script;
use serde_json::{Value, json};

use super::SdkHost;
use crate::world;

#[tokio::test]
async fn flags_of_other_features_and_empty_values_are_passed_over() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let odd = ["--worktree", "--chrome", "--remote-control", "--effort", "", "--model=", "--permission-mode", ""];
    let mut host = SdkHost::start(world.run(&model).args(odd));
    host.say("hi");
    assert_eq!(host.result().await["result"], "ok");
    host.end().await.clean(0);
    let run = world.run(&model).args(super::FLAGS).args(["--max-turns", ""]).finish().await;
    run.expect_code(1);
}

#[tokio::test]
async fn a_session_that_is_not_there_is_told_before_any_line_comes() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let id = "11111111-2222-4333-8444-555555555555";
    let mut host = SdkHost::start(world.run(&model).arg(format!("--resume={id}")));
    let result = host.result().await;
    let said = result["errors"][0].as_str().unwrap();
    assert!(said.starts_with(&format!("No conversation found with session ID: {id}")), "{said}");
    // Somebody who speaks only now does not speak into a broken pipe.
    host.child.stdin.as_mut().unwrap().write_all(b"{}\n").unwrap();
    let end = host.wait_for_exit().await;
    end.output.expect_code(1);
    assert!(end.output.stderr.contains(id), "{}", end.output.stderr);
}

#[tokio::test]
async fn arguments_that_make_no_sense_get_a_result_where_one_is_wanted() {
    let world = world();
    for wanted in ["1", "0"] {
        let run = world.run_at("http://127.0.0.1:9").args(super::FLAGS).arg("--no-such-flag");
        let run = run.env("CLAUDE_CODE_STARTUP_FAILURE_RESULTS", wanted).finish().await;
        run.expect_code(1);
        assert!(run.stderr.contains("--no-such-flag"), "{}", run.stderr);
        let results: Vec<Value> = run.lines();
        assert_eq!(results.len(), usize::from(wanted == "1"), "{results:?}");
        assert!(results.iter().all(|line| line["errors"][0].as_str().unwrap().contains("--no-such-flag")));
    }
    for (flags, place) in [(&[][..], "/errors/0"), (&["--verbose"], "/0/errors/0")] {
        let run = world.run_at("http://127.0.0.1:9").args(["-p", "hi", "--output-format", "json", "--no-such-flag"]);
        let run = run.args(flags.iter().copied()).env("CLAUDE_CODE_STARTUP_FAILURE_RESULTS", "1").finish().await;
        run.expect_code(1);
        let said = run.json().pointer(place).cloned().unwrap_or_default();
        assert!(said.as_str().is_some_and(|said| said.contains("--no-such-flag")), "{flags:?}: {}", run.stdout);
    }
}

#[tokio::test]
async fn a_program_that_keeps_no_history_leaves_none() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).env("CLAUDE_CODE_SKIP_PROMPT_HISTORY", "1"));
    host.say("hi");
    host.result().await;
    host.end().await.clean(0);
    assert_eq!(world.transcripts().len(), 0);
}

#[tokio::test]
async fn a_prompt_whose_answer_goes_to_a_program_is_answered() {
    let world = world();
    let model = Script::new().say("the answer").serve().await.unwrap();
    let run = world.run(&model).args(["what is it?"]).finish().await;
    assert_eq!((run.code, run.stdout.as_str()), (0, "the answer\n"), "{}", run.stderr);
}

#[tokio::test]
async fn a_resumed_session_keeps_its_system_prompt_unless_it_is_not_to() {
    let world = world();
    let model =
        Script::new().say("one").then().say("two").then().say("three").then().say("four").serve().await.unwrap();
    let id = "11111111-2222-4333-8444-555555555555";
    let mut host =
        SdkHost::start(world.run(&model).args(["--session-id", id, "--append-system-prompt", "the old words"]));
    host.say("first");
    host.end().await.clean(0);
    let resumed = format!("--resume={id}");
    for (snapshot, flags, kept) in [
        (Value::Null, vec![&*resumed], true),
        (json!(false), vec![&*resumed], false),
        (Value::Null, vec![&*resumed, "--system-prompt-snapshot", "off"], false),
    ] {
        let mut host = SdkHost::start(world.run(&model).args(flags.clone()));
        host.send_request(json!({"subtype": "initialize", "systemPromptSnapshot": snapshot})).await;
        host.say("again");
        host.result().await;
        host.end().await.clean(0);
        let system = model.requests().last().unwrap().system_text();
        assert_eq!(system.contains("the old words"), kept, "{snapshot} {flags:?}");
    }
}

#[tokio::test]
async fn sessions_that_run_under_one_name_are_told_apart() {
    let world = world();
    let model = Script::new().say("ok").forever().serve().await.unwrap();
    let titles = || {
        let named = |entry: &Value| entry["customTitle"].as_str().map(str::to_owned);
        let all = world.transcripts().iter().flat_map(|path| gimlet_testkit::entries_of(path)).collect::<Vec<_>>();
        let mut titles: Vec<String> = all.iter().filter_map(named).collect();
        titles.sort();
        titles.dedup();
        titles
    };
    let mut first = SdkHost::start(world.run(&model).args(["-n", "build"]));
    first.say("hi");
    first.result().await;
    let mut second = SdkHost::start(world.run(&model).args(["-n", "build"]));
    second.say("hi");
    second.result().await;
    second.end().await.clean(0);
    first.end().await.clean(0);
    assert_eq!(titles(), ["build", "build (2)"]);
    let mut third = SdkHost::start(world.run(&model).args(["-n", "build"]));
    third.say("hi");
    third.end().await.clean(0);
    assert_eq!(titles(), ["build", "build (2)"], "a name that nobody runs under is free");
}

#[tokio::test]
async fn a_server_that_settings_refuse_is_never_spoken_to() {
    let calc = r#"{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}"#;
    for (settings, why) in [
        (json!({"deniedMcpServers": [{"serverName": "calc"}]}), "deniedMcpServers"),
        (json!({"allowedMcpServers": [{"serverName": "other"}]}), "allowedMcpServers"),
        (json!({"allowedMcpServers": [], "allowManagedMcpServersOnly": true}), "allowedMcpServers"),
    ] {
        let world = world();
        let model = Script::new().say("ok").then().say("ok").serve().await.unwrap();
        // What the person allows adds nothing where only the managed list counts.
        let own =
            json!({"allowedMcpServers": [{"serverName": if why == "deniedMcpServers" { "calc" } else { "mine" }}]});
        let flags = ["--managed-settings", &settings.to_string(), "--settings", &own.to_string(), "--mcp-config", calc];
        let mut host = SdkHost::start(world.run(&model).args(flags));
        host.say("hi");
        host.result().await;
        let status = host.send_request(json!({"subtype": "mcp_status"})).await;
        let server = &status["response"]["mcpServers"][0];
        assert_eq!(server["status"], "failed", "{status}");
        assert!(server["error"].as_str().unwrap().contains(why), "{status}");
        let lines = host.end().await.clean(0);
        assert!(!super::line_kinds(&lines).contains(&"mcp_message".to_owned()), "{lines:?}");
        assert!(!model.request(0).tool_names().iter().any(|name| name.starts_with("mcp__")));
    }
}

#[tokio::test]
async fn flags_that_bring_in_agents_and_servers_can_be_forbidden() {
    let world = world();
    let managed = ["--managed-settings", r#"{"disableSideloadFlags": true}"#];
    let agents = r#"{"x":{"description":"d","prompt":"p"}}"#;
    for flags in [["--agents", agents], ["--mcp-config", r#"{"mcpServers":{}}"#], ["--plugin-dir", "x"]] {
        let run = world.run_at("http://127.0.0.1:9").args(super::FLAGS).args(managed).args(flags).finish().await;
        run.expect_code(1);
        assert!(run.stderr.contains(flags[0]) && run.stderr.contains("disableSideloadFlags"), "{}", run.stderr);
    }
    // What a program says in its greeting is no flag.
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(managed));
    host.send_request(json!({"subtype": "initialize", "agents": serde_json::from_str::<Value>(agents).unwrap()})).await;
    host.say("hi");
    assert_eq!(host.result().await["result"], "ok");
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_prompt_beside_a_stream_of_prompts_is_refused_by_its_name() {
    let world = world();
    let run = world.run_at("http://127.0.0.1:9").args(super::FLAGS).arg("do the thing").finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("'do the thing' is an argument"), "{}", run.stderr);
    let said = run.lines()[0]["errors"][0].to_string();
    assert!(said.contains("do the thing"), "{said}");
}
