//! What programs look at beside the conversation, and what the rules keep from them.

use std::os::unix::fs::symlink;

use gimlet_script::Script;
use gimlet_testkit::PATIENCE;
use serde_json::{Value, json};

use super::SdkHost;
use crate::world;

fn read_file_request(path: impl ToString) -> Value {
    json!({"subtype": "read_file", "path": path.to_string()})
}

#[tokio::test]
async fn files_are_read_by_the_rules_of_the_session_whatever_the_mode() {
    let world = world();
    world.file("a.txt", "héllo");
    world.file("secret/key", "hidden");
    world.file("ask.txt", "careful");
    std::fs::write(world.project.join("odd.bin"), b"a\xffb").unwrap();
    let outside = world.project.parent().unwrap().join("outside.txt");
    std::fs::write(&outside, "elsewhere").unwrap();
    symlink(&outside, world.project.join("link")).unwrap();
    symlink("secret/key", world.project.join("near")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.project.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let model = Script::new().serve().await.unwrap();
    let rules = r#"{"permissions":{"deny":["Read(secret/**)"],"ask":["Read(ask.txt)"]}}"#;
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions", "--settings", rules]));
    let file = host.send_request(read_file_request("a.txt")).await["response"].clone();
    assert_eq!((&file["contents"], &file["lossy"]), (&json!("héllo"), &json!(false)));
    assert_eq!(file["absPath"], json!(world.project.join("a.txt").canonicalize().unwrap()));
    let odd = host.send_request(read_file_request("odd.bin")).await["response"].clone();
    assert_eq!((&odd["contents"], &odd["lossy"]), (&json!("a\u{fffd}b"), &json!(true)));
    let mut exact = read_file_request("odd.bin");
    exact["encoding"] = json!("base64");
    assert_eq!(host.send_request(exact).await["response"]["contents"], "Yf9i");
    let mut short = read_file_request("a.txt");
    short["max_bytes"] = json!(1);
    let short = host.send_request(short).await["response"].clone();
    assert_eq!((&short["contents"], &short["truncated"]), (&json!("h"), &json!(true)));
    let outside = outside.to_str().unwrap();
    for path in
        ["secret/key", "near", "ask.txt", outside, "link", "../outside.txt", "pipe", ".", "none.txt", "/dev/zero"]
    {
        let answer = host.send_request(read_file_request(path)).await;
        assert_eq!(answer["subtype"], "error", "{path}: {answer}");
    }
    for odd in [json!({"subtype": "read_file"}), json!({"subtype": "read_file", "path": "a.txt", "encoding": "rot13"})]
    {
        assert_eq!(host.send_request(odd).await["subtype"], "error");
    }
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_file_that_a_line_cannot_carry_is_cut_and_said_to_be() {
    let world = world();
    std::fs::write(world.project.join("big"), vec![7u8; 3_000_000]).unwrap();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    for encoding in ["utf-8", "base64"] {
        let answer = host.send_request(json!({"subtype": "read_file", "path": "big", "encoding": encoding})).await;
        assert!(answer.to_string().len() < 1_000_000, "{encoding}");
        assert_eq!(answer["response"]["truncated"], true);
        assert!(answer["response"]["contents"].as_str().unwrap().len() > 50_000);
    }
    host.end().await.clean(0);
}

#[tokio::test]
async fn files_are_suggested_without_those_that_are_closed() {
    let world = world();
    for file in ["src/main.rs", "docs/main.md", "closed/main.key"] {
        world.file(file, "");
    }
    let model = Script::new().serve().await.unwrap();
    let rules = r#"{"permissions":{"deny":["Read(closed/**)"]}}"#;
    let mut host = SdkHost::start(world.run(&model).args(["--settings", rules]));
    let found = host.send_request(json!({"subtype": "file_suggestions", "query": "main"})).await["response"].clone();
    assert_eq!(found, json!({"suggestions": [{"path": "src/main.rs"}, {"path": "docs/main.md"}]}));
    // However many of them fit better.
    for number in 0..200 {
        world.file(&format!("closed/key{number}"), "");
    }
    world.file("open/and/deep/key-of-all", "");
    let found = host.send_request(json!({"subtype": "file_suggestions", "query": "key"})).await["response"].clone();
    assert_eq!(found, json!({"suggestions": [{"path": "open/and/deep/key-of-all"}]}));
    host.end().await.clean(0);
}

#[tokio::test]
async fn the_output_of_a_background_command_can_be_polled() {
    let world = world();
    let command = "printf 'one\\n'; while [ ! -e go ]; do sleep 0.01; done; seq 1 5000";
    let model = Script::new()
        .call("Bash", json!({"command": command, "run_in_background": true}))
        .then()
        .say("started")
        .then()
        .say("ended")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions"]));
    host.say("go");
    let started = host.until(|line| line["subtype"] == "task_started").await;
    host.result().await;
    let look = json!({"subtype": "get_task_output", "task_id": started["task_id"]});
    let until_printed = async {
        loop {
            let seen = host.send_request(look.clone()).await["response"].clone();
            assert_eq!(seen["truncated"], false);
            if seen["output"] == "one\n" {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, until_printed).await.expect("the first line is never seen");
    world.file("go", "");
    host.until(|line| line["subtype"] == "task_notification").await;
    let seen = host.send_request(look).await["response"].clone();
    assert_eq!((&seen["truncated"], &seen["total_bytes"]), (&json!(true), &json!(4 + 23893)));
    assert!(seen["output"].as_str().unwrap().ends_with("\n5000\n"));
    assert_eq!(host.send_request(json!({"subtype": "get_task_output", "task_id": "b99"})).await["subtype"], "error");
    host.end().await.clean(0);
}

#[tokio::test]
async fn rules_folders_and_hooks_are_listed_with_where_they_come_from() {
    let world = world();
    world.file("sub/inner/x", "");
    world.file(".claude/settings.local.json", r#"{"permissions":{"deny":["Read(x)"]}}"#);
    let model = Script::new().serve().await.unwrap();
    let settings = r#"{"permissions":{"ask":["Bash(make)"]}}"#;
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Read", "--settings", settings]));
    let hooks = json!({"PreToolUse": [{"matcher": "Bash|Write", "hookCallbackIds": ["guard"], "timeout": 5}],
        "Stop": [{"hookCallbackIds": ["done"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    let register = |path: &str| json!({"subtype": "register_repo_root", "directory": path});
    assert_eq!(host.send_request(register("sub/inner")).await["subtype"], "success");
    for odd in ["sub/inner", ".", "..", "/", "sub/inner/x", "none"] {
        assert_eq!(host.send_request(register(odd)).await["subtype"], "error", "{odd}");
    }
    let mut reload = register("sub");
    reload["reload_skills"] = json!(true);
    assert!(host.send_request(reload).await["error"].as_str().unwrap().contains("reload_skills"));
    let state = host.send_request(json!({"subtype": "list_permission_rules"})).await["response"]["state"].clone();
    let row = |behavior: &str, source: &str, rule: &str, editability: &str| json!({"behavior": behavior, "source": source, "rule": rule, "editability": editability});
    let expected = [
        row("deny", "localSettings", "Read(x)", "persistent"),
        row("ask", "flagSettings", "Bash(make)", "readonly"),
        row("allow", "cliArg", "Read", "session"),
    ];
    assert_eq!(state["rules"], json!(expected));
    let inner = world.project.canonicalize().unwrap().join("sub/inner");
    assert_eq!(state["workspaceDirectories"], json!([{"path": inner, "source": "session"}]));
    assert_eq!(state["managedOnly"], false);
    let listing = host.send_request(json!({"subtype": "get_hooks_listing"})).await["response"].clone();
    let mut rows: Vec<Value> = listing["hooks"].as_array().unwrap().clone();
    rows.sort_by_key(|row| row["event"].to_string());
    assert_eq!(
        (&rows[0]["event"], &rows[0]["matcher"], &rows[0]["timeout"]),
        (&json!("PreToolUse"), &json!("Bash|Write"), &json!(5.0))
    );
    assert_eq!((&rows[1]["event"], &rows[1]["commandText"]), (&json!("Stop"), &json!("done")));
    assert_eq!(listing["events"].as_array().unwrap().len(), 2);
    let catalog = listing["eventCatalog"].as_array().unwrap();
    let supports = |name: &str| catalog.iter().find(|event| event["name"] == name).map(|it| &it["supportsMatcher"]);
    assert_eq!((supports("PreToolUse"), supports("Stop")), (Some(&json!(true)), Some(&json!(false))));
    assert_eq!(supports("TeammateIdle"), None, "what never happens is not in it");
    host.end().await.clean(0);
}

#[tokio::test]
async fn looking_for_plugins_skills_and_styles_again_finds_what_the_greeting_said() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let welcome = host.send_request(json!({"subtype": "initialize"})).await["response"].clone();
    let skills = host.send_request(json!({"subtype": "reload_skills"})).await;
    assert_eq!(skills["response"], json!({"skills": []}));
    let styles = host.send_request(json!({"subtype": "reload_output_styles"})).await["response"].clone();
    assert_eq!(styles["available_output_styles"], welcome["available_output_styles"]);
    let plugins = host.send_request(json!({"subtype": "reload_plugins", "add_plugins": []})).await["response"].clone();
    assert_eq!((&plugins["commands"], &plugins["agents"]), (&welcome["commands"], &welcome["agents"]));
    assert_eq!(
        (&plugins["plugins"], &plugins["mcpServers"], &plugins["error_count"]),
        (&json!([]), &json!([]), &json!(0))
    );
    let more =
        host.send_request(json!({"subtype": "reload_plugins", "add_plugins": [{"type": "local", "path": "/x"}]})).await;
    assert!(more["error"].as_str().is_some_and(|error| error.contains("add_plugins")), "{more}");
    host.end().await.clean(0);
}

#[tokio::test]
async fn usage_counts_requests_and_changed_lines() {
    let world = world();
    let input = json!({"file_path": world.path("x.txt"), "content": "a\nb\n"});
    let model = Script::new().call("Write", input).then().say("done").serve().await.unwrap();
    let mut host =
        SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions", "--model", "claude-sonnet-4-5"]));
    host.say("write");
    host.result().await;
    let usage = host.send_request(json!({"subtype": "get_usage", "skip_behaviors": true})).await["response"].clone();
    let session = &usage["session"];
    assert_eq!((&session["total_lines_added"], &session["total_lines_removed"]), (&json!(2), &json!(0)));
    assert!(session["total_cost_usd"].as_f64().unwrap() > 0.0 && session["model_usage"].is_object(), "{usage}");
    assert_eq!((&usage["rate_limits_available"], &usage["rate_limits"]), (&json!(false), &Value::Null));
    for harmless in [
        json!({"subtype": "set_color", "color": "red"}),
        json!({"subtype": "set_has_subscribers", "has_subscribers": null}),
    ] {
        assert_eq!(host.send_request(harmless).await["subtype"], "success");
    }
    host.end().await.clean(0);
}
