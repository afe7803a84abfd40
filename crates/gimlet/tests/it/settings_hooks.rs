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

/// Runs a session whose model makes these Bash calls, one after the other; returns their results.
async fn run_calls(world: &TestWorld, commands: &[&str]) -> (RunOutput, Vec<String>) {
    let mut script = Script::new();
    for command in commands {
        script = script.call("Bash", json!({"command": command})).then();
    }
    let model = script.say("done").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--dangerously-skip-permissions", "--", "go"]).finish().await;
    let results = (1..=commands.len()).filter_map(|number| model.request(number).tool_results().pop()).collect();
    (run, results)
}

#[tokio::test]
async fn a_hook_with_a_condition_runs_for_the_calls_that_may_be_meant() {
    let world = world();
    let hook = json!({"type": "command", "if": "Bash(rm *)", "command": "echo not-removed >&2; exit 2"});
    let never = json!({"type": "command", "if": "Bash(rm *)", "command": "touch \"$CLAUDE_PROJECT_DIR/never\""});
    let settings =
        json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}], "Stop": [{"hooks": [never]}]}});
    write_user_settings(&world, &settings);
    world.file("kept", "");
    let (run, results) = run_calls(&world, &["touch made", "true && A=1 rm kept", "echo $(rm kept)"]).await;
    run.expect_code(0);
    assert!(run.stderr.contains("`if` is a rule about tool calls, and Stop is about none"), "{}", run.stderr);
    assert!(world.project.join("made").exists() && world.project.join("kept").exists());
    assert!(results[1].contains("not-removed") && results[2].contains("not-removed"), "{results:?}");
    assert!(!world.project.join("never").exists());
}

#[tokio::test]
async fn variables_that_a_start_hook_collects_are_set_in_later_commands() {
    let world = world();
    let start = "printf 'export FROM_HOOK=yes\\nexport PICKED=hook\\n' >> \"$CLAUDE_ENV_FILE\"";
    let other = "touch \"$CLAUDE_PROJECT_DIR/${CLAUDE_ENV_FILE:+has-file}none\"";
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    write_user_settings(&world, &json!({"hooks": {"SessionStart": hook(start), "PreToolUse": hook(other)}}));
    let own = world.file("own.sh", "export PICKED=user FROM_USER=yes");
    let script =
        Script::new().call("Bash", json!({"command": "echo $FROM_USER-$FROM_HOOK-$PICKED"})).then().say("done");
    let model = script.serve().await.unwrap();
    let run = world.run(&model).env("CLAUDE_ENV_FILE", own.to_str().unwrap());
    run.args(["-p", "--dangerously-skip-permissions", "--", "go"]).finish().await.expect_code(0);
    assert_eq!(model.request(1).tool_results()[0].trim(), "yes-yes-hook", "the user's file is read first");
    assert!(world.project.join("none").exists(), "other events have no such file of the session's");
    let left = std::fs::read_dir(world.home.join(".claude/shell-snapshots")).map(Iterator::count).unwrap_or_default();
    assert_eq!(left, 0, "the file goes with the session");
}

#[tokio::test]
async fn a_hook_in_the_background_that_ends_with_code_two_tells_the_model() {
    let world = world();
    let hook = json!({"type": "command", "asyncRewake": true,
        "command": "echo the-build-is-red >&2; touch \"$CLAUDE_PROJECT_DIR/ran\"; exit 2"});
    write_user_settings(&world, &json!({"hooks": {"PostToolUse": [{"matcher": "Write", "hooks": [hook]}]}}));
    let wait = "until [ -e ran ]; do sleep 0.01; done; sleep 0.5";
    let script = Script::new()
        .call("Write", json!({"file_path": world.project.join("a"), "content": "x"}))
        .then()
        .call("Bash", json!({"command": wait}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    world.run(&model).args(["-p", "--dangerously-skip-permissions", "--", "go"]).finish().await.expect_code(0);
    let request = model.request(2);
    assert!(request.body_text().contains("the-build-is-red"), "{}", request.body_text());
}

#[tokio::test]
async fn a_guard_may_choose_to_block_when_it_fails() {
    let world = world();
    let hook = json!({"type": "command", "command": "exit 1", "onFailure": "block"});
    write_user_settings(&world, &json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}));
    let (_, results) = run_calls(&world, &["touch made"]).await;
    assert!(results[0].contains("Blocked: the hook PreToolUse:Bash"), "{results:?}");
    assert!(!world.project.join("made").exists());
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

#[tokio::test]
async fn hooks_are_listed_with_what_becomes_of_each() {
    let world = world();
    let hooks = json!({
        "PreToolUse": [{"matcher": "Bash", "hooks": [
            {"type": "command", "command": "./guard.sh", "if": "Bash(rm *)"},
            {"type": "http", "url": "ftp://example.org/x"}]}],
        "TeammateIdle": [{"hooks": [{"type": "command", "command": "true"}]}]});
    write_user_settings(&world, &json!({"hooks": hooks}));
    world.file(".claude/settings.json", command_hook("Stop", "", "echo of-project").to_string());
    let run = world.run_at("http://127.0.0.1:9").args(["hooks", "list"]).finish().await;
    let page = run.expect_code(0).stdout.clone();
    for (beginning, end) in [
        ("Bash if Bash(rm *)  [command]  ./guard.sh", "runs"),
        ("Bash                [http]     ftp://example.org/x", "is neither http nor https"),
        ("*  [command]  true", "does not fire the event"),
        ("*  [command]  echo of-project", "waits for trust (gimlet trust)"),
    ] {
        let found = page.lines().any(|line| line.trim().starts_with(beginning) && line.ends_with(end));
        assert!(found, "{beginning} … {end}: {page}");
    }
    let run = world.run_at("http://127.0.0.1:9").args(["doctor"]).finish().await;
    assert!(run.stdout.contains("this hook is not usable: the address \"ftp://example.org/x\""), "{}", run.stdout);
    write_user_settings(&world, &json!({"disableAllHooks": true, "hooks": hooks}));
    let run = world.run_at("http://127.0.0.1:9").args(["hooks", "list", "--json"]).finish().await;
    let told: Value = serde_json::from_str(&run.expect_code(0).stdout).unwrap();
    assert_eq!(told["hooks"][0]["state"], "off", "{told}");
    assert_eq!((&told["hooks"][0]["scope"], &told["hooks"][0]["line"]), (&json!("user"), &json!(1)));
}

#[tokio::test]
async fn a_trial_calls_the_hooks_that_match_and_tells_what_would_follow() {
    let world = world();
    let own = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [
        {"type": "command", "command": "cat > \"$HOME/input.json\"; echo not-today >&2; exit 2"},
        {"type": "command", "command": "touch \"$HOME/removed\"", "if": "Bash(rm *)"}]}]});
    write_user_settings(&world, &json!({"hooks": own}));
    world.file(
        ".claude/settings.json",
        command_hook("PreToolUse", "", "touch \"$CLAUDE_PROJECT_DIR/untrusted\"").to_string(),
    );
    let test = |args: &[&str]| world.run_at("http://127.0.0.1:9").args([&["hooks", "test"], args].concat());
    let page = test(&["PreToolUse", "--tool", "Bash"]).finish().await.expect_code(0).stdout.clone();
    for part in ["exit code 2", "stderr | not-today", "the call is refused: not-today", "Not called: [command] touch"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let input: Value = serde_json::from_str(&std::fs::read_to_string(world.home.join("input.json")).unwrap()).unwrap();
    assert_eq!((&input["tool_name"], &input["hook_event_name"]), (&json!("Bash"), &json!("PreToolUse")));
    assert!(!world.home.join("removed").exists() && !world.project.join("untrusted").exists());
    let given = world.file("call.json", r#"{"tool_name":"Bash","tool_input":{"command":"rm x"}}"#);
    let args = ["PreToolUse", "--input", given.to_str().unwrap(), "--json"];
    let told: Value = serde_json::from_str(&test(&args).finish().await.expect_code(0).stdout).unwrap();
    assert_eq!(told["consequences"], json!(["the call is refused: not-today"]));
    assert!(told["hooks"].as_array().unwrap().len() == 2 && world.home.join("removed").exists(), "{told}");
    let page = test(&["Stop"]).finish().await.expect_code(0).stdout.clone();
    assert!(page.contains("No hook matches.") && page.contains("Nothing would follow"), "{page}");
    for (args, said) in [
        (&["BeforeBreakfast"][..], "there is no event BeforeBreakfast"),
        (&["TeammateIdle"], "never fires TeammateIdle"),
        (&["Stop", "--tool", "Bash"], "Stop is not about a tool call"),
    ] {
        let run = test(args).finish().await;
        assert!(run.expect_code(1).stderr.contains(said), "{}", run.stderr);
    }
}

#[tokio::test]
async fn the_command_hooks_lists_them_in_a_session() {
    let world = world();
    write_user_settings(&world, &command_hook("Stop", "", "echo at-the-end"));
    let model = Script::new().say("never asked").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--", "/hooks"]).finish().await;
    assert!(run.expect_code(0).stdout.contains("echo at-the-end"), "{}", run.stdout);
}

/// A hook that misbehaves, and what the user reads about it.
struct BadHook {
    hook: Value,
    said: &'static str,
}

#[tokio::test]
async fn hooks_that_misbehave_are_named_and_hold_nothing_up() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}/", silent.local_addr().unwrap());
    let command = |text: &str| json!({"type": "command", "command": text});
    let rows = [
        BadHook { hook: command("head -c 4000 /dev/urandom; exit 7"), said: "exit code 7" },
        BadHook { hook: command("printf '{\\377 broken'"), said: "not valid JSON" },
        BadHook { hook: command("exec <&-; exit 1"), said: "exit code 1" },
        BadHook { hook: command("sleep 600 & exit 1"), said: "exit code 1" },
        BadHook {
            hook: json!({"type": "command", "command": "/no/such/program", "args": []}),
            said: "/no/such/program",
        },
        BadHook { hook: json!({"type": "command", "command": "/etc/passwd", "args": []}), said: "/etc/passwd" },
        BadHook {
            hook: json!({"type": "command", "command": "sleep 600", "timeout": 0.1}),
            said: "did not answer within 0.1 s",
        },
        BadHook { hook: json!({"type": "http", "url": format!("http://{closed}/")}), said: "cannot be reached" },
        BadHook {
            hook: json!({"type": "http", "url": silent_url, "timeout": 0.1}),
            said: "did not answer within 0.1 s",
        },
        BadHook {
            hook: json!({"type": "mcp_tool", "server": "none", "tool": "t"}),
            said: "the server none is not connected",
        },
    ];
    let hooks: Vec<&Value> = rows.iter().map(|row| &row.hook).collect();
    let world = world();
    write_user_settings(&world, &json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": hooks}]}}));
    let (run, results) = run_calls(&world, &["touch made"]).await;
    run.expect_code(0);
    for row in &rows {
        assert!(run.stderr.contains(row.said), "{}: {}", row.hook, run.stderr);
    }
    assert!(world.project.join("made").exists(), "{results:?}");
    assert!(!run.stderr.contains('\u{1b}'), "what a hook prints does not reach the terminal as it is");
}

#[tokio::test]
async fn a_hook_that_prints_100_megabytes_takes_little_memory() {
    let peak = |pid_file: &std::path::Path| {
        let status = std::fs::read_to_string(pid_file).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().to_owned();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    };
    let mut peaks = Vec::new();
    for size in [1_000, 100_000_000] {
        let world = world();
        // The last hook of the session sees what the session has had in memory at most.
        let look = "cat /proc/$CLAUDE_PID/status > \"$HOME/status\"";
        let flood = format!("head -c {size} /dev/zero | tr '\\0' x; head -c {size} /dev/zero | tr '\\0' y >&2");
        let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
        write_user_settings(&world, &json!({"hooks": {"PostToolUse": hook(&flood), "Stop": hook(look)}}));
        run_calls(&world, &["true"]).await.0.expect_code(0);
        peaks.push(peak(&world.home.join("status")));
    }
    assert!(peaks[1] <= peaks[0] + 32, "{peaks:?} MB");
}

#[tokio::test]
async fn a_changed_file_that_a_matcher_names_reaches_its_hook() {
    let world = world();
    let record = "echo 'export FROM=hook' >> \"$CLAUDE_ENV_FILE\"; cat >> \"$HOME/seen.jsonl\"";
    write_user_settings(&world, &command_hook("FileChanged", "watched.env|other", record));
    let change = "n=0; until [ -s ~/seen.jsonl ]; do n=$((n+1)); echo $n > watched.env; sleep 0.05; done";
    let (run, results) = run_calls(&world, &[change, "echo from-$FROM"]).await;
    run.expect_code(0);
    let seen = std::fs::read_to_string(world.home.join("seen.jsonl")).unwrap();
    let input: Value = serde_json::from_str(seen.lines().next().unwrap()).unwrap();
    assert_eq!(input["hook_event_name"], "FileChanged");
    assert!(["add", "change"].contains(&input["event"].as_str().unwrap()), "{input}");
    assert_eq!(input["file_path"], world.project.join("watched.env").to_str().unwrap());
    assert!(input.get("permission_mode").is_none());
    assert_eq!(results[1].trim(), "from-hook", "its variables are there for the next command");
}

#[tokio::test]
async fn setup_hooks_run_once_before_the_session_begins_and_only_when_asked_for() {
    let world = world();
    let hook = |matcher: &str, text: &str| {
        json!({"matcher": matcher, "hooks": [{"type": "command", "command":
            format!("cat >> \"$HOME/seen.jsonl\"; echo '{{\"hookSpecificOutput\":{{\"hookEventName\":\"Setup\",\"additionalContext\":\"{text}\"}}}}'")}]})
    };
    let start = json!([{"hooks": [{"type": "command", "command": "cat >> \"$HOME/seen.jsonl\""}]}]);
    let hooks =
        json!({"Setup": [hook("init", "was-prepared"), hook("maintenance", "was-tended")], "SessionStart": start});
    write_user_settings(&world, &json!({"hooks": hooks}));
    for (flag, wanted) in [(None, None), (Some("--init"), Some("init")), (Some("--maintenance"), Some("maintenance"))] {
        let model = Script::new().say("done").serve().await.unwrap();
        world.run(&model).args(["-p"]).args(flag).args(["--", "go"]).finish().await.expect_code(0);
        let seen = std::fs::read_to_string(world.home.join("seen.jsonl")).unwrap();
        std::fs::remove_file(world.home.join("seen.jsonl")).unwrap();
        let inputs: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let events: Vec<&str> = inputs.iter().map(|input| input["hook_event_name"].as_str().unwrap()).collect();
        let request = model.request(0);
        match wanted {
            None => assert_eq!(events, ["SessionStart"]),
            Some(trigger) => {
                assert_eq!(events, ["Setup", "SessionStart"], "the project is prepared first");
                assert_eq!(inputs[0]["trigger"], trigger);
                let text = if trigger == "init" { "was-prepared" } else { "was-tended" };
                assert!(request.body_text().contains(text), "{}", request.body_text());
            }
        }
    }
}

#[tokio::test]
async fn a_project_can_be_prepared_without_a_conversation_or_a_key() {
    let world = world();
    let log = json!([{"hooks": [{"type": "command", "command": "cat >> \"$HOME/seen.jsonl\""}]}]);
    let hooks = json!({"Setup": log, "SessionStart": log, "UserPromptSubmit": log, "SessionEnd": log});
    write_user_settings(&world, &json!({"hooks": hooks}));
    for args in [&["--init-only"][..], &["-p", "--init-only"], &["--init-only", "--output-format", "stream-json"]] {
        let run = world.run_at("http://127.0.0.1:9").without_env("ANTHROPIC_API_KEY").args(args.iter().copied());
        let run = run.finish().await;
        assert_eq!(run.expect_code(0).stderr, "", "{args:?}");
        let seen = std::fs::read_to_string(world.home.join("seen.jsonl")).unwrap();
        std::fs::remove_file(world.home.join("seen.jsonl")).unwrap();
        let inputs: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let events: Vec<&str> = inputs.iter().map(|input| input["hook_event_name"].as_str().unwrap()).collect();
        assert_eq!(events, ["Setup", "SessionStart", "SessionEnd"], "{args:?}");
        assert_eq!((&inputs[0]["trigger"], &inputs[1]["source"]), (&json!("init"), &json!("startup")));
        if args.len() < 3 {
            assert_eq!(run.stdout, "");
            continue;
        }
        let kinds: Vec<Value> = run.lines().iter().map(|line| line["subtype"].clone()).collect();
        assert!(kinds.contains(&json!("hook_response")), "{kinds:?}");
        assert_eq!((&run.result()["subtype"], &run.result()["num_turns"]), (&json!("success"), &json!(0)));
    }
    assert!(world.transcripts().is_empty(), "there was no conversation");
    let stop = json!([{"hooks": [{"type": "command", "command": "echo '{\"continue\": false, \"stopReason\": \"no compiler\"}'"}]}]);
    write_user_settings(&world, &json!({"hooks": {"SessionStart": stop}}));
    let run = world.run_at("http://127.0.0.1:9").args(["--init-only"]).finish().await;
    assert_eq!(run.expect_code(0).stdout, "no compiler\n");
    let run = world.run_at("http://127.0.0.1:9").args(["--init-only", "go"]).finish().await;
    assert!(run.expect_code(1).stderr.contains("cannot be used with"), "{}", run.stderr);
}
