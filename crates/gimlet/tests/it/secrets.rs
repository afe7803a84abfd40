//! Values of variables that hold credentials: they reach commands, and no model, file or log by way of what those print.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::path::{Path, PathBuf};

use gimlet_script::Script;
use serde_json::json;

use crate::api_key_helper::assert_text_nowhere;
use crate::world;

const INHERITED: &str = "canary/inherited+4711";
const CONFIGURED: &str = "canary \"configured\" 0815";

#[tokio::test]
async fn what_the_environment_keeps_secret_is_masked_wherever_a_tool_gives_it_back() {
    let world = world();
    // Settings hold it in the open: that file is the person's own, and the only one.
    let settings = world.project.parent().unwrap().join("settings.json");
    let quoted = json!({"env": {"DEPLOY_SECRET": CONFIGURED, "CHEAP_AUTH": "disabled"}});
    std::fs::write(&settings, quoted.to_string()).unwrap();
    world.file("notes.txt", format!("the token is {INHERITED}, auth is disabled\n"));
    let bash = |command: &str| ("Bash", json!({ "command": command }));
    let calls = [
        bash("printf 'seen %s, %s, %s' \"$BUILD_TOKEN\" \"$DEPLOY_SECRET\" $CHEAP_AUTH"),
        bash("for n in $(seq 3000); do echo \"$n $BUILD_TOKEN\"; done"),
        bash("echo \"$DEPLOY_SECRET\" >&2; exit 3"),
        ("Read", json!({"file_path": world.path("notes.txt")})),
        ("Grep", json!({"pattern": "token", "output_mode": "content"})),
        ("Edit", json!({"file_path": world.path("notes.txt"), "old_string": "the", "new_string": "a"})),
    ];
    let count = calls.len();
    let script = calls.into_iter().fold(Script::new(), |script, (tool, input)| script.call(tool, input).then());
    let model = script.say("done").serve().await.unwrap();
    let log = world.home.join("log");
    let run = world.run(&model).env("BUILD_TOKEN", INHERITED).stream("go");
    let run = run.args(["--settings", &settings.to_string_lossy(), "--debug-file", &log.to_string_lossy()]);
    let run = run.finish().await;
    run.expect_code(0);
    let results: Vec<String> = (1..=count).map(|n| model.request(n).tool_result(0)).collect();
    assert_eq!(results[0], "seen ***, ***, disabled");
    assert!(results[1].contains("1 ***"), "{}", results[1]);
    assert!(results[3].contains("the token is ***, auth is disabled"), "{}", results[3]);
    assert!(world.read("notes.txt").contains(INHERITED), "the file itself is left as it is");
    for secret in [INHERITED, CONFIGURED] {
        let spelt = serde_json::to_string(secret).unwrap();
        for text in [secret, spelt.trim_matches('"')] {
            assert_text_nowhere(&world, &run, text);
            assert!(model.requests().iter().all(|request| !request.body_text().contains(text)), "{text} was sent");
        }
    }
}

#[tokio::test]
async fn what_looks_like_a_secret_stays_out_of_the_debug_log() {
    let world = world();
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let address = "postgres://me:pw-0815-4711@db.test/x";
    let command = format!("echo {token} {address} > kept");
    let model = Script::new().call("Bash", json!({ "command": command })).then().say("done").serve().await.unwrap();
    let log = world.home.join("log");
    let run = world.run(&model).stream("go").args(["--debug-file", &log.to_string_lossy()]).finish().await;
    run.expect_code(0);
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("postgres://me:***@db.test/x"), "{logged}");
    assert!(!logged.contains(&token) && !logged.contains("pw-0815-4711"), "{logged}");
    // A shape is a guess: what runs, and what the model is told, stays as it is.
    assert!(world.read("kept").contains(&token));
    assert!(model.request(1).body_text().contains(&token));
}

#[tokio::test]
async fn decisions_are_explained_without_the_secrets_of_the_calls() {
    let world = world();
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let command = format!("touch kept && frobnicate --key={INHERITED} --token {token}");
    let write = json!({"file_path": world.path(&token), "content": "x"});
    let calls = Script::new().call("Bash", json!({ "command": command })).then().call("Write", write).then();
    let model = calls.say("done").serve().await.unwrap();
    let rule = format!("Bash(frobnicate {token} *)");
    let run = world.run(&model).env("BUILD_TOKEN", INHERITED).args(["-p", "--permission-mode", "default"]);
    run.args(["--disallowedTools", &rule, "--", "go"]).finish().await.expect_code(0);
    let ledgers: Vec<String> = files_below(&world.home.join(".claude"))
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with("decisions.ndjson"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(ledgers.len(), 1);
    assert_eq!(ledgers[0].lines().count(), 2, "{}", ledgers[0]);
    assert!(!ledgers[0].contains(&token) && !ledgers[0].contains(INHERITED), "{}", ledgers[0]);
    let why = world.run(&model).args(["why", "1"]).finish().await;
    why.expect_code(0);
    assert!(why.stdout.contains("touch kept && frobnicate --key=*** --token ***"), "{}", why.stdout);
    // The transcript is what the model saw: a shape is a guess there.
    assert!(world.transcripts().iter().any(|path| std::fs::read_to_string(path).unwrap().contains(&token)));
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
