//! What a session is opened with: the host's first line and its flags.

use gimlet_script::Script;
use serde_json::json;

use super::{SdkHost, line_kinds};
use crate::world;

#[tokio::test]
async fn the_first_line_shapes_the_session() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--system-prompt", "by flag"]));
    host.send_request(json!({"subtype": "initialize", "systemPrompt": ["by hand"], "appendSystemPrompt": "and more",
        "title": "Named at the start", "excludeDynamicSections": true, "skills": ["pdf"], "unheard": 1}))
        .await;
    host.say("hi");
    host.result().await;
    host.end().await.clean(0);
    let system = model.request(0).system_text();
    assert!(system.contains("by hand") && system.contains("and more") && !system.contains("by flag"), "{system}");
    assert!(world.transcript_entries().iter().any(|entry| entry["customTitle"] == "Named at the start"));
}

#[tokio::test]
async fn an_empty_system_prompt_is_none_at_all() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--system-prompt", "", "--tools", ""]));
    host.say("hi");
    host.end().await.clean(0);
    let body = model.request(0).json();
    assert_eq!((body.get("system"), body.get("tools")), (None, None));
}

#[tokio::test]
async fn what_sdks_pass_reaches_the_model() {
    let world = world();
    world.file("plugin/.claude-plugin/plugin.json", r#"{"name":"own"}"#);
    let plugin = world.path("plugin");
    let model = Script::new().say("ok").lenient().serve().await.unwrap();
    let mut host = SdkHost::start(
        world
            .run(&model)
            .args(["--system-prompt", "- be brief\n- be kind", "--betas", "context-1m-2025-08-07,other-2025-01-01"])
            .args([
                "--task-budget",
                "20000",
                "--thinking",
                "disabled",
                "--effort",
                "high",
                "--model",
                "claude-opus-4-6",
            ])
            .args(["--tools", "Read,WebSearch", "--fallback-model", "b", "--plugin-dir", plugin.as_str()])
            .args(["--system-prompt-snapshot", "on", "--autocompact=auto", "--setting-sources=", "--bare"])
            .env("CLAUDE_CODE_ENTRYPOINT", "sdk-py")
            .env("CLAUDE_AGENT_SDK_VERSION", "0.2.182")
            .env("CLAUDE_AGENT_SDK_CLIENT_APP", "my app/1\n"),
    );
    host.say("hi");
    let lines = host.end().await.clean(0);
    let request = model.request(0);
    assert_eq!(request.system_text(), "- be brief\n- be kind");
    let betas = request.betas();
    for beta in ["context-1m-2025-08-07", "other-2025-01-01", "task-budgets-2026-03-13"] {
        assert!(betas.contains(&beta.to_owned()), "{betas:?}");
    }
    let body = request.json();
    assert_eq!(body["output_config"], json!({"effort": "high", "task_budget": {"type": "tokens", "total": 20000}}));
    assert_eq!(request.tool_names(), ["Read"]);
    let agent = request.header("user-agent").unwrap();
    assert!(agent.ends_with(" entrypoint/sdk-py agent-sdk/0.2.182 client-app/myapp/1"), "{agent}");
    let init = lines.iter().find(|line| line["subtype"] == "init").unwrap();
    assert_eq!(init["betas"], json!(["context-1m-2025-08-07", "other-2025-01-01"]));
    assert_eq!(init["plugins"], json!([{"name": "own", "path": plugin}]));
    assert_eq!(init.get("plugin_errors"), None, "{init}");
    assert_eq!(
        world.transcript_entries().iter().find(|entry| entry["type"] == "user").unwrap()["entrypoint"],
        "sdk-py"
    );
}

#[tokio::test]
async fn who_wants_to_know_states_is_told_and_nobody_else() {
    let with = "CLAUDE_CODE_SDK_READS_SESSION_STATE";
    for (name, value, expected) in [
        (with, "1", Some(json!(true))),
        (with, "0", None),
        ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "yes", Some(serde_json::Value::Null)),
    ] {
        let world = world();
        let model = Script::new().say("ok").serve().await.unwrap();
        let prompt = json!({"type": "user", "message": {"role": "user", "content": "hi"}});
        let run = world.run(&model).args(super::FLAGS).env(name, value).stdin(format!("{prompt}\n")).finish().await;
        run.expect_code(0);
        let states: Vec<_> =
            run.lines().into_iter().filter(|line| line["subtype"] == "session_state_changed").collect();
        assert_eq!(states.len(), if expected.is_some() { 2 } else { 0 }, "{name}");
        assert!(states.iter().all(|line| Some(&line["sdk_host_only"]) == expected.as_ref()), "{name}: {states:?}");
    }
}

#[tokio::test]
async fn a_host_that_must_greet_first_is_held_to_it() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).arg("--await-initialize"));
    host.say("hi");
    let end = host.wait_for_exit().await;
    end.output.expect_code(1);
    assert_eq!(line_kinds(&end.lines), ["result"]);
    let mut host = SdkHost::start(world.run(&model).arg("--await-initialize"));
    host.send_request(json!({"subtype": "initialize"})).await;
    host.say("hi");
    host.end().await.clean(0);
}

#[tokio::test]
async fn sessions_go_on_where_the_host_says() {
    let world = world();
    let model =
        Script::new().say("one").then().say("two").then().say("three").then().say("four").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("first");
    let first = host.until(|line| line["type"] == "assistant").await;
    let session = first["session_id"].as_str().unwrap().to_owned();
    host.result().await;
    let second = json!("cccccccc-0000-4000-8000-000000000001");
    host.send_line(json!({"type": "user", "uuid": second, "message": {"role": "user", "content": "second"}}));
    host.result().await;
    host.end().await.clean(0);
    let cut = format!("--resume-session-at={}", first["uuid"].as_str().unwrap());
    let resume = format!("--resume={session}");
    for (prompt, words) in
        [("", "no turn was named"), ("dddddddd-0000-4000-8000-000000000001", "begins the turn cccccccc")]
    {
        let mut host =
            SdkHost::start(world.run(&model).args([&*resume, &cut, &format!("--resume-drops-turn={prompt}")]));
        host.say("never");
        let end = host.wait_for_exit().await;
        end.output.expect_code(1);
        let error = end.lines[0]["errors"][0].as_str().unwrap();
        assert!(error.starts_with("Resume rejected by --resume-drops-turn:") && error.contains(words), "{error}");
    }
    let drops = format!("--resume-drops-turn={}", second.as_str().unwrap());
    let mut host = SdkHost::start(world.run(&model).args([&*resume, &cut, &drops]));
    host.say("another second");
    assert_eq!(host.result().await["session_id"], session);
    host.end().await.clean(0);
    let sent = model.request(2).body_text().into_owned();
    assert!(sent.contains("first") && sent.contains("another second") && !sent.contains("\"second\""), "{sent}");
    let mut host = SdkHost::start(world.run(&model).args([&*resume, "--fork-session"]));
    host.say("fork");
    let forked = host.result().await;
    assert_ne!(forked["session_id"], session);
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_start_that_fails_says_what_kind_of_failure_it_is() {
    let world = world();
    world.file("broken.json", "{ no");
    let broken = world.path("broken.json");
    let cases = [
        (vec!["--settings", broken.as_str()], "config_file_invalid"),
        (vec!["--settings", "{no}"], "config_file_invalid"),
        (vec!["--managed-settings", "{no}"], "managed_settings_invalid"),
        (vec!["--await-initialize"], "initialize_not_first"),
    ];
    for (flags, reason) in cases {
        let model = Script::new().serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(flags.clone()));
        host.say("hi");
        let result = host.result().await;
        assert_eq!(
            (&result["is_error"], &result["startup_failure_reason"]),
            (&json!(true), &json!(reason)),
            "{flags:?}"
        );
        let file = &result["invalid_config_file"]["path"];
        assert_eq!(file == &json!(broken), flags[1..] == [broken.as_str()], "{flags:?}: {file}");
        assert_eq!(host.end().await.output.code, 1);
    }
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--resume=11111111-2222-4333-8444-555555555555"]));
    host.say("hi");
    let result = host.result().await;
    assert!(result.get("startup_failure_reason").is_none(), "no word fits: {result}");
    drop(host.end().await);
}
