//! Hooks of settings files: what runs, what it is given, and what follows from how it ends.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use std::io::{Read, Write};
use std::net::TcpListener;

use gimlet_script::Script;
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::world;

fn write_user_settings(world: &TestWorld, settings: &Value) {
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    std::fs::write(world.home.join(".claude/settings.json"), settings.to_string()).unwrap();
}

fn command_hook(event: &str, matcher: &str, command: &str) -> Value {
    json!({"hooks": {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]}})
}

/// Runs a session in which the model makes one Bash call; returns what was printed and the call's result.
async fn run_one_call(world: &TestWorld, args: &[&str]) -> (RunOutput, String) {
    let script = Script::new().call("Bash", json!({"command": "touch made"})).then().say("done");
    let model = script.serve().await.unwrap();
    let args = [&["-p", "--allowedTools=Bash(touch *)"], args, &["--", "go"]].concat();
    let run = world.run(&model).args(args).finish().await;
    let result = model.request(1).tool_results().first().cloned().unwrap_or_default();
    (run, result)
}

#[tokio::test]
async fn a_command_hook_gets_the_event_on_standard_input_and_its_variables() {
    let world = world();
    let record = "cat > \"$CLAUDE_PROJECT_DIR/input.json\"; env > \"$CLAUDE_PROJECT_DIR/env.txt\"";
    write_user_settings(&world, &command_hook("PreToolUse", "Bash", record));
    let (run, _) = run_one_call(&world, &[]).await;
    run.expect_code(0);
    assert!(world.project.join("made").exists());
    let input: Value = serde_json::from_str(&world.read("input.json")).unwrap();
    assert_eq!(input["hook_event_name"], "PreToolUse");
    assert_eq!((&input["tool_name"], &input["tool_input"]["command"]), (&json!("Bash"), &json!("touch made")));
    assert_eq!(input["cwd"], world.project.to_str().unwrap());
    assert!(input["transcript_path"].as_str().unwrap().ends_with(".jsonl"));
    let env = world.read("env.txt");
    for part in ["CLAUDECODE=1", "CLAUDE_CODE_SESSION_ID=", "CLAUDE_PID=", "TOOL_INPUT={\"command\":\"touch made\"}"] {
        assert!(env.contains(part), "{part}: {env}");
    }
    assert!(env.contains("ANTHROPIC_API_KEY=test-key"), "the user's own hook gets the user's environment");
}

#[tokio::test]
async fn exit_code_two_blocks_the_call_and_the_model_reads_why() {
    let world = world();
    write_user_settings(&world, &command_hook("PreToolUse", "Bash", "echo 'not on a Friday' >&2; exit 2"));
    let (_, result) = run_one_call(&world, &[]).await;
    assert!(result.contains("not on a Friday"), "{result}");
    assert!(!world.project.join("made").exists());
}

#[tokio::test]
async fn json_decides_and_changes_what_is_run() {
    let world = world();
    let answer = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow",
        "updatedInput": {"command": "touch other"}}});
    write_user_settings(&world, &command_hook("PreToolUse", "Bash", &format!("echo '{answer}'")));
    run_one_call(&world, &[]).await.0.expect_code(0);
    assert!(world.project.join("other").exists() && !world.project.join("made").exists());
}

#[tokio::test]
async fn a_hook_that_fails_is_named_and_holds_nothing_up() {
    let world = world();
    for (command, said) in [
        ("echo broken >&2; exit 1", "it ended with exit code 1: broken"),
        ("kill -9 $$", "it was ended by signal 9"),
        ("exec /no/such/program", "exit code 127"),
        ("head -c 100000000 /dev/zero; exit 1", "exit code 1"),
    ] {
        write_user_settings(&world, &command_hook("PreToolUse", "Bash", command));
        let (run, _) = run_one_call(&world, &[]).await;
        assert!(run.expect_code(0).stderr.contains(said), "{command}: {}", run.stderr);
        assert!(world.project.join("made").exists(), "{command}");
        std::fs::remove_file(world.project.join("made")).unwrap();
    }
    let timed = json!({"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": "sleep 600", "timeout": 0.2}]}]}});
    write_user_settings(&world, &timed);
    let (run, _) = run_one_call(&world, &[]).await;
    assert!(run.expect_code(0).stderr.contains("did not answer within 0.2 s"), "{}", run.stderr);
    assert!(world.project.join("made").exists(), "a hook that timed out does not block");
}

#[tokio::test]
async fn a_program_with_arguments_is_started_without_a_shell() {
    let world = world();
    let hook =
        json!({"type": "command", "command": "touch", "args": ["${CLAUDE_PROJECT_DIR}/a b; touch c", "${HOME}"]});
    write_user_settings(&world, &json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}));
    run_one_call(&world, &[]).await.0.expect_code(0);
    assert!(world.project.join("a b; touch c").exists(), "the argument is one word");
    assert!(world.project.join("${HOME}").exists(), "other names are left as they are");
}

#[tokio::test]
async fn text_of_prompt_and_start_hooks_reaches_the_model() {
    let world = world();
    let hook = |text: &str| json!([{"hooks": [{"type": "command", "command": format!("echo {text}")}]}]);
    write_user_settings(
        &world,
        &json!({"hooks": {"SessionStart": hook("started-here"), "UserPromptSubmit": hook("prompted-here"),
            "Stop": hook("unseen-text")}}),
    );
    let model = Script::new().say("done").serve().await.unwrap();
    world.run(&model).args(["-p", "--", "go"]).finish().await.expect_code(0);
    let request = model.request(0);
    let body = request.body_text();
    assert!(body.contains("started-here") && body.contains("prompted-here"), "{body}");
    assert!(!body.contains("unseen-text"));
}

#[tokio::test]
async fn hooks_of_a_project_run_only_after_trust_and_without_the_model_credentials() {
    let world = world();
    world.file("guard.sh", "#!/bin/sh\nenv > \"$CLAUDE_PROJECT_DIR/env.txt\"\n");
    let hook = command_hook("PreToolUse", "Bash", "sh \"$CLAUDE_PROJECT_DIR/guard.sh\"");
    world.file(".claude/settings.json", hook.to_string());
    let (run, _) = run_one_call(&world, &[]).await;
    assert!(run.stderr.contains("hook PreToolUse Bash"), "{}", run.stderr);
    assert!(!world.project.join("env.txt").exists(), "nothing runs before trust");
    let model = Script::new().call("Bash", json!({"command": "true"})).then().say("done").serve().await.unwrap();
    let run = world.run(&model).env("ANTHROPIC_CUSTOM_HEADERS", "X-Secret: header-secret");
    run.args(["-p", "--trust", "--", "go"]).finish().await.expect_code(0);
    let env = world.read("env.txt");
    assert!(!env.contains("test-key") && !env.contains("header-secret"), "{env}");
}

#[tokio::test]
async fn a_guard_whose_script_changed_since_it_was_trusted_blocks() {
    let world = world();
    let script = world.file("guard.sh", "exit 0\n");
    let hook = command_hook("PreToolUse", "Bash", "sh guard.sh");
    world.file(".claude/settings.json", hook.to_string());
    let trusted = world.run_at("http://127.0.0.1:9").args(["trust", "--yes"]).finish().await;
    trusted.expect_code(0);
    let change = format!("printf 'touch hacked\\n' > '{}'", script.display());
    let script = Script::new()
        .call("Bash", json!({"command": change}))
        .then()
        .call("Bash", json!({"command": "touch made"}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let args = ["-p", "--dangerously-skip-permissions", "--", "go"];
    world.run(&model).args(args).finish().await.expect_code(0);
    let result = model.request(2).tool_results().last().cloned().unwrap();
    assert!(result.contains("changed since it was trusted"), "{result}");
    assert!(!world.project.join("made").exists() && !world.project.join("hacked").exists());
}

#[tokio::test]
async fn a_hook_of_the_user_that_runs_a_project_file_waits_for_trust_in_it() {
    let world = world();
    world.file("tool.sh", "touch \"$CLAUDE_PROJECT_DIR/ran\"\n");
    write_user_settings(&world, &command_hook("PreToolUse", "Bash", "sh \"$CLAUDE_PROJECT_DIR/tool.sh\""));
    let (run, _) = run_one_call(&world, &[]).await;
    assert!(run.stderr.contains("hook PreToolUse Bash"), "{}", run.stderr);
    assert!(!world.project.join("ran").exists());
    run_one_call(&world, &["--trust"]).await.0.expect_code(0);
    assert!(world.project.join("ran").exists());
}

#[tokio::test]
async fn hooks_can_be_switched_off_and_equal_ones_run_once() {
    let world = world();
    let hook = command_hook("PreToolUse", "", "echo x >> \"$CLAUDE_PROJECT_DIR/count\"");
    write_user_settings(&world, &hook);
    run_one_call(&world, &["--settings", &hook.to_string()]).await.0.expect_code(0);
    assert_eq!(world.read("count"), "x\n", "defined twice, run once");
    run_one_call(&world, &["--settings", r#"{"disableAllHooks":true}"#]).await.0.expect_code(0);
    assert_eq!(world.read("count"), "x\n");
}

#[tokio::test]
async fn a_hook_that_cannot_be_used_is_named_with_its_place_and_the_others_run() {
    let world = world();
    let settings = json!({"hooks": {"PreToolUse": [{"hooks": [
        {"type": "http", "url": "ftp://example.org/x"},
        {"type": "command", "command": "touch \"$CLAUDE_PROJECT_DIR/ran\""}]}]}});
    write_user_settings(&world, &settings);
    let (run, _) = run_one_call(&world, &[]).await;
    assert!(run.stderr.contains("settings.json:1: this hook is not run: the address"), "{}", run.stderr);
    assert!(world.project.join("ran").exists());
}

#[tokio::test]
async fn nothing_waits_for_an_async_hook_and_it_decides_nothing() {
    let world = world();
    let hook = json!({"type": "command", "async": true,
        "command": "touch \"$CLAUDE_PROJECT_DIR/ran\"; echo no >&2; sleep 600; exit 2"});
    write_user_settings(&world, &json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}));
    let script = Script::new()
        .call("Bash", json!({"command": "until [ -e ran ]; do sleep 0.01; done; touch made"}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--dangerously-skip-permissions", "--", "go"]).finish().await;
    run.expect_code(0);
    assert!(world.project.join("made").exists() && world.project.join("ran").exists());
}

#[tokio::test]
async fn a_hook_with_a_member_that_is_not_supported_is_named_and_not_run() {
    let world = world();
    let settings = json!({"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "if": "Bash(git *)", "command": "touch \"$CLAUDE_PROJECT_DIR/ran\""}]}]}});
    write_user_settings(&world, &settings);
    let (run, _) = run_one_call(&world, &[]).await;
    assert!(run.stderr.contains("this hook is not run: a hook with `if`"), "{}", run.stderr);
    assert!(!world.project.join("ran").exists());
}

/// Answers each request with the next body; returns what was posted.
fn serve_answers(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut chunk = [0; 4096];
            loop {
                let count = stream.read(&mut chunk).unwrap();
                request.extend_from_slice(&chunk[..count]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
                });
                if count == 0 || body.len() >= length.unwrap_or(0) {
                    break;
                }
            }
            stream.write_all(answer.as_bytes()).unwrap();
            requests.push(String::from_utf8_lossy(&request).into_owned());
        }
        requests
    });
    (url, served)
}

#[tokio::test]
async fn an_http_hook_posts_the_event_and_its_answer_counts() {
    let world = world();
    let deny = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "the server says no"}})
    .to_string();
    let answer = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    };
    let redirect = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n".to_owned();
    let (url, served) =
        serve_answers(vec![answer("200 OK", &deny), answer("500 Oops", ""), redirect, answer("200 OK", "")]);
    let hook = json!({"type": "http", "url": url, "headers": {"Authorization": "Bearer $HOOK_TOKEN $HOME"},
        "allowedEnvVars": ["HOOK_TOKEN"]});
    write_user_settings(
        &world,
        &json!({"env": {"HOOK_TOKEN": "t0ken"}, "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}),
    );
    let (_, result) = run_one_call(&world, &[]).await;
    assert!(result.contains("the server says no"), "{result}");
    assert!(!world.project.join("made").exists());
    for said in ["status 500", "status 302"] {
        let (run, _) = run_one_call(&world, &[]).await;
        assert!(run.stderr.contains(said), "{}", run.stderr);
        assert!(world.project.join("made").exists(), "an error of the server does not block");
    }
    run_one_call(&world, &[]).await.0.expect_code(0);
    let requests = served.join().unwrap();
    assert!(requests[0].contains("Bearer t0ken \r\n"), "only named variables are filled in: {}", requests[0]);
    assert!(requests[0].contains("\"tool_name\":\"Bash\"") && !requests[0].contains("test-key"), "{}", requests[0]);
}

#[tokio::test]
async fn changed_hooks_act_without_a_new_start() {
    let world = world();
    write_user_settings(&world, &json!({}));
    let file = world.home.join(".claude/settings.json");
    let block = command_hook("PreToolUse", "Bash", "echo blocked-now >&2; exit 2").to_string();
    let script = Script::new()
        .call("Bash", json!({"command": format!("printf '%s' '{block}' > {}", file.display())}))
        .then()
        .call("Bash", json!({"command": "touch made"}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let args = ["-p", "--dangerously-skip-permissions", "--", "go"];
    world.run(&model).args(args).finish().await;
    let results = model.request(2).tool_results();
    assert!(results.last().unwrap().contains("blocked-now"), "{results:?}");
}
