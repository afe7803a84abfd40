//! A session whose commands run in a sandbox: what that allows without a question, what it holds, and how a command gets
//! out of it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use gimlet_script::{Script, Server};
use gimlet_testkit::{RunOutput, World};
use serde_json::{Value, json};

use crate::world;

async fn calls(inputs: &[Value]) -> Server {
    let script = inputs.iter().fold(Script::new(), |script, input| script.call("Bash", input.clone()).then());
    script.say("done").serve().await.unwrap()
}

fn command(text: &str) -> Value {
    json!({ "command": text })
}

/// Runs with the sandbox on and these settings beside it.
async fn run(world: &World, model: &Server, settings: Value) -> RunOutput {
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, settings.to_string()).unwrap();
    let args = ["-p", "--output-format", "stream-json", "--verbose", "--", "go"];
    let run = world.run(model).args(args).finish().await;
    run.expect_code(0);
    run
}

/// The results of all calls, in order.
fn results(model: &Server) -> Vec<String> {
    model.requests().iter().flat_map(|request| request.tool_results()).collect()
}

/// A place outside that the sandbox shows, unlike `/tmp`.
fn outside() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

#[tokio::test]
async fn commands_inside_need_no_question_and_cannot_write_outside() {
    let world = world();
    let folder = outside();
    let outside = folder.path().join("outside");
    let model = calls(&[
        command("touch inside && echo made"),
        command(&format!("touch {}", outside.display())),
        command("echo x > \"$TMPDIR/t\" && cat \"$TMPDIR/t\""),
    ])
    .await;
    let run = run(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert!(world.project.join("inside").exists(), "{}{:?}", run.stderr, results(&model));
    assert!(!outside.exists());
    let results = results(&model);
    assert!(results[0].contains("made"), "{results:?}");
    assert!(
        results[1].contains("The sandbox refused: writing") && results[1].contains("dangerouslyDisableSandbox"),
        "{results:?}"
    );
    assert_eq!(results[2].trim(), "x");
    assert_eq!(run.result()["permission_denials"], json!([]));
    let offered = model.request(0).body_text().into_owned();
    assert!(offered.contains("dangerouslyDisableSandbox") && offered.contains("Commands run in a sandbox"));
}

#[tokio::test]
async fn the_network_and_credentials_are_closed() {
    let world = world();
    let secret = world.home.join(".ssh/id");
    std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
    std::fs::write(&secret, "a private key").unwrap();
    let model = calls(&[
        command("exec 3<>/dev/tcp/127.0.0.1/1 || echo closed"),
        command(&format!("cat {}", secret.display())),
        command("printenv ANTHROPIC_API_KEY || echo nothing"),
    ])
    .await;
    run(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    let results = results(&model);
    assert!(results[0].contains("closed") && !results[0].contains("refused\n"), "{results:?}");
    assert!(!results[1].contains("a private key"), "{results:?}");
    assert!(results[2].contains("nothing"), "{results:?}");
}

#[tokio::test]
async fn leaving_the_sandbox_is_a_question_whatever_rules_allow() {
    let world = world();
    let folder = outside();
    let out = folder.path().join("out");
    let leave = json!({"command": format!("touch {}", out.display()), "dangerouslyDisableSandbox": true});
    let allow = json!({"allow": ["Bash(touch *)"]});
    let model = calls(std::slice::from_ref(&leave)).await;
    let run_on = run(&world, &model, json!({"sandbox": {"enabled": true}, "permissions": allow})).await;
    assert!(!out.exists());
    assert_eq!(run_on.result()["permission_denials"].as_array().unwrap().len(), 1);
    assert!(results(&model)[0].contains("outside the sandbox"), "{:?}", results(&model));

    // Where nobody may leave, the word means nothing and the walls hold.
    let model = calls(&[leave]).await;
    let sandbox = json!({"enabled": true, "allowUnsandboxedCommands": false});
    run(&world, &model, json!({"sandbox": sandbox, "permissions": allow})).await;
    assert!(!out.exists());
    assert!(results(&model)[0].contains("The sandbox refused"), "{:?}", results(&model));
}

#[tokio::test]
async fn deny_rules_and_exact_questions_hold_inside_and_excluded_commands_run_outside() {
    let world = world();
    let folder = outside();
    let out = folder.path().join("out");
    let model = calls(&[
        command("touch denied"),
        command("mkdir asked"),
        command(&format!("install /dev/null {}", out.display())),
    ])
    .await;
    let settings = json!({
        "sandbox": {"enabled": true, "excludedCommands": ["install *"]},
        "permissions": {"deny": ["Bash(touch *)"], "ask": ["Bash(mkdir *)", "Bash"], "allow": ["Bash(install *)"]},
    });
    run(&world, &model, settings).await;
    assert!(!world.project.join("denied").exists() && !world.project.join("asked").exists());
    // The question about every command is not answered by walls that are not there.
    assert!(!out.exists());
    let model = calls(&[command(&format!("install /dev/null {}", out.display()))]).await;
    let settings = json!({
        "sandbox": {"enabled": true, "excludedCommands": ["install *"]},
        "permissions": {"allow": ["Bash(install *)"]},
    });
    run(&world, &model, settings).await;
    assert!(out.exists(), "{:?}", results(&model));
}

#[tokio::test]
async fn protected_files_of_the_project_stay_as_they_are() {
    let world = world();
    world.file(".git/config", "[core]\n");
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    let model = calls(&[
        command("echo '[core] fsmonitor=x' >> .git/config"),
        command("mkdir -p .claude; echo '{}' > .claude/settings.json"),
    ])
    .await;
    run(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert_eq!(world.read(".git/config"), "[core]\n");
    assert!(!world.project.join(".claude/settings.json").exists(), "{:?}", results(&model));
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_had_is_said_or_ends_the_start() {
    let world = world();
    let model = calls(&[command("touch made")]).await;
    let broken = json!({"enabled": true, "bwrapPath": "/nonexistent/bwrap", "network": {"allowedDomains": ["["]}});
    let run = run(&world, &model, json!({"sandbox": broken})).await;
    assert!(run.stderr.contains("there is no sandbox"), "{}", run.stderr);
    assert!(!world.project.join("made").exists(), "without walls a command asks as usual");
    let mut strict = broken;
    strict["failIfUnavailable"] = json!(true);
    std::fs::write(world.home.join(".claude/settings.json"), json!({"sandbox": strict}).to_string()).unwrap();
    let refused = world.run(&model).args(["-p", "--", "go"]).finish().await;
    refused.expect_code(1);
    assert!(refused.stderr.contains("failIfUnavailable"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_project_cannot_answer_questions_by_turning_the_sandbox_on_nor_open_it() {
    let world = world();
    world.file(".claude/settings.json", json!({"sandbox": {"enabled": true}}).to_string());
    let model = calls(&[command("touch made")]).await;
    let asked = run(&world, &model, json!({})).await;
    assert!(!world.project.join("made").exists(), "{:?}", results(&model));
    assert_eq!(asked.result()["permission_denials"].as_array().unwrap().len(), 1);

    let folder = outside();
    let out = folder.path().join("out");
    world.file(".claude/settings.local.json", json!({"sandbox": {"enabled": false}}).to_string());
    let model = calls(&[command(&format!("touch {}", out.display()))]).await;
    run(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert!(!out.exists(), "{:?}", results(&model));
}
