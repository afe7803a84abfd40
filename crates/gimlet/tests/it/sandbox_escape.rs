//! A model that wants out of the sandbox, or wants it weaker: by parameters, files, variables, names and other agents.
//! Each attempt runs with everything allowed that can be allowed, and with permissions bypassed; nothing gets out.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod escape_attempts;

use std::path::Path;

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::world;
use escape_attempts::{EscapeAttempt, ModelCall};

/// How much a session allows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PermissionSetup {
    /// Rules for everything, and edits accepted.
    Rules,
    Bypass,
}

fn attempt_settings(attempt: &EscapeAttempt) -> Value {
    let mut sandbox = json!({"enabled": true});
    sandbox.as_object_mut().unwrap().extend(attempt.sandbox.as_object().unwrap().clone());
    json!({"sandbox": sandbox, "permissions": {"allow": ["Bash", "Write", "Edit", "Agent"]}})
}

async fn serve_attempt(attempt: &EscapeAttempt, words: &dyn Fn(&str) -> String) -> ScriptServer {
    let mut script = Script::new();
    // Last of all the plain command: whatever was changed before may have opened its way.
    let plain = ModelCall::bash("touch <out>");
    for call in attempt.calls.iter().chain([&plain]) {
        script = match call {
            ModelCall::Tool(tool, input) => {
                script.call(*tool, serde_json::from_str(&words(&input.to_string())).unwrap())
            }
            ModelCall::Raw(tool, input) => script.call_raw(*tool, words(input)),
            ModelCall::Say(text) => script.say(*text),
        }
        .then();
    }
    script.say("done").serve().await.unwrap()
}

async fn run_with_permissions(world: &TestWorld, model: &ScriptServer, freedom: PermissionSetup) -> RunOutput {
    let run = match freedom {
        PermissionSetup::Rules => world.run(model).args(["-p", "--permission-mode", "acceptEdits"]),
        PermissionSetup::Bypass => {
            world.run(model).args(["-p", "--dangerously-skip-permissions"]).env("IS_SANDBOX", "1")
        }
    };
    run.args(["--output-format", "stream-json", "--verbose", "--", "go"]).finish().await
}

/// What came of an attempt, if it came to anything.
async fn run_attempt(attempt: &EscapeAttempt, freedom: PermissionSetup) -> Option<String> {
    let world = world();
    // A place outside that the sandbox shows, unlike `/tmp`.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = folder.path().join("out");
    let user = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(user.parent().unwrap()).unwrap();
    let before = attempt_settings(attempt).to_string();
    std::fs::write(&user, &before).unwrap();
    for (name, text) in &attempt.files {
        world.file(name, text.replace("<out>", &out.display().to_string()));
    }
    let home = world.home.display().to_string();
    let words = |text: &str| {
        text.replace("<out>", &out.display().to_string())
            .replace("<home>", &home)
            .replace("<project>", &world.project.display().to_string())
            .replace("<gimlet>", env!("CARGO_BIN_EXE_gimlet"))
    };
    let model = serve_attempt(attempt, &words).await;
    let ended = run_with_permissions(&world, &model, freedom).await;
    let results: Vec<String> = model.requests().iter().flat_map(|request| request.tool_results()).collect();
    let told = || format!("{results:#?} {}", ended.stderr);
    if !ended.stdout.contains("\"type\":\"result\"") || results.is_empty() {
        return Some(format!("the attempt was not made: {}", told()));
    }
    if out.exists() || has_entries(folder.path()) {
        return Some(format!("something was written outside: {}", told()));
    }
    if std::fs::read_to_string(&user).unwrap() != before {
        return Some(format!("the person's settings were changed: {}", told()));
    }
    None
}

fn has_entries(folder: &Path) -> bool {
    folder.read_dir().unwrap().next().is_some()
}

#[tokio::test]
async fn no_attempt_gets_out_of_the_sandbox_or_weakens_it() {
    let attempts = escape_attempts::all_attempts();
    assert!(attempts.len() >= 30, "{}", attempts.len());
    let mut out = Vec::new();
    for attempt in &attempts {
        for freedom in [PermissionSetup::Rules, PermissionSetup::Bypass] {
            if let Some(how) = run_attempt(attempt, freedom).await {
                out.push(format!("{} ({freedom:?}): {how}", attempt.name));
            }
        }
    }
    assert!(out.is_empty(), "{} got out:\n{}", out.len(), out.join("\n"));
}

#[tokio::test]
async fn the_attempts_would_succeed_without_a_sandbox() {
    // The stage is real: the same last command does write there when there are no walls.
    let world = world();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = folder.path().join("out");
    let command = json!({"command": format!("touch {}", out.display())});
    let model = Script::new().call("Bash", command).then().say("done").serve().await.unwrap();
    run_with_permissions(&world, &model, PermissionSetup::Bypass).await.expect_code(0);
    assert!(out.exists());
}
