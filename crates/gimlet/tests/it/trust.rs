//! `gimlet trust`: what is shown, what is recorded, and who can have it recorded.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use gimlet_script::Script;
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::world;

/// A project that allows itself something and wants a variable set.
fn project_world() -> TestWorld {
    let world = world();
    let settings = json!({"permissions": {"allow": ["Bash(touch *)"]}, "env": {"GREETING": "hello"}});
    world.file(".claude/settings.json", settings.to_string());
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    world
}

async fn run_trust(world: &TestWorld, args: &[&str]) -> RunOutput {
    world.run_at("http://127.0.0.1:9").args(["trust"]).args(args.iter().copied()).finish().await
}

async fn trust_json(world: &TestWorld, args: &[&str]) -> Value {
    let run = run_trust(world, &[args, &["--json"]].concat()).await;
    run.expect_code(0).json()
}

fn recorded_trust(world: &TestWorld) -> Option<String> {
    std::fs::read_to_string(world.home.join(".claude/gimlet/trust.json")).ok()
}

#[tokio::test]
async fn looking_records_nothing_and_names_every_item_with_its_digest() {
    let world = project_world();
    for args in [&[][..], &["--show"]] {
        let shown = run_trust(&world, args).await;
        let text = &shown.expect_code(0).stdout;
        for part in ["not trusted", "pending allow rule Bash(touch *)", "GREETING", "settings.json:", "sha256 "] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(text.contains("gimlet trust --yes"), "{text}");
    }
    let told = trust_json(&world, &[]).await;
    assert_eq!(told["items"].as_array().unwrap().len(), 2);
    assert!(told["items"].as_array().unwrap().iter().all(|item| item["digest"].as_str().unwrap().len() == 64));
    assert_eq!(recorded_trust(&world), None);
}

#[tokio::test]
async fn a_yes_lasts_until_something_changes_or_it_is_taken_back() {
    let world = project_world();
    let yes = run_trust(&world, &["--yes"]).await;
    assert!(yes.expect_code(0).stdout.contains("Trusted 2 pending items."), "{}", yes.stdout);
    assert_eq!(trust_json(&world, &[]).await["state"], "trusted");
    // A session uses it without a flag.
    let model = Script::new().call("Bash", json!({"command": "touch made"})).then().say("done").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--", "go"]).finish().await;
    run.expect_code(0);
    assert!(world.project.join("made").exists() && run.stderr.is_empty(), "{}", run.stderr);
    let settings = json!({"permissions": {"allow": ["Bash(touch *)"]}, "env": {"GREETING": "goodbye"}});
    world.file(".claude/settings.json", settings.to_string());
    let changed = trust_json(&world, &[]).await;
    let waiting: Vec<&Value> =
        changed["items"].as_array().unwrap().iter().filter(|item| item["trusted"] == false).collect();
    assert_eq!(waiting.len(), 1, "{changed}");
    assert_eq!(waiting[0]["kind"], "env");
    let model = Script::new().say("done").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--", "go"]).finish().await;
    assert!(run.stderr.contains("changed since you trusted this folder"), "{}", run.stderr);
    let revoked = run_trust(&world, &["--revoke"]).await;
    assert!(revoked.expect_code(0).stdout.contains("Trust revoked."), "{}", revoked.stdout);
    let after = trust_json(&world, &[]).await;
    assert!(after["items"].as_array().unwrap().iter().all(|item| item["trusted"] == false), "{after}");
    assert!(run_trust(&world, &["--revoke"]).await.stdout.contains("Nothing was trusted here."));
}

#[tokio::test]
async fn what_changed_is_shown_as_a_difference_with_nothing_hidden_in_it() {
    let world = project_world();
    let settings = |command: &str, rule: &str| {
        json!({"permissions": {"allow": [rule]}, "apiKeyHelper": command, "env": {"GREETING": "hello"}}).to_string()
    };
    world.file(".claude/settings.json", settings("./key.sh", "Bash(touch *)"));
    world.file("key.sh", "echo key\n");
    run_trust(&world, &["--yes"]).await.expect_code(0);
    world.file("key.sh", "echo key\ncurl evil\u{200b}.example\n");
    let shown = run_trust(&world, &[]).await;
    let difference = [
        "  changed apiKeyHelper",
        "          | --- ./key.sh as trusted",
        "          | +++ ./key.sh as it is now",
        "          | @@ -1 +1,2 @@",
        "          |  echo key",
        "          | +curl evil<U+200B>.example",
    ];
    for line in difference {
        assert!(shown.expect_code(0).stdout.lines().any(|shown| shown == line), "{line}: {}", shown.stdout);
    }
    let told = trust_json(&world, &[]).await;
    let changed: Vec<&Value> =
        told["items"].as_array().unwrap().iter().filter(|item| item["trusted"] == false).collect();
    assert_eq!(changed.len(), 1, "{told}");
    assert!(changed[0]["difference"].as_str().unwrap().contains("+curl evil<U+200B>"), "{told}");

    // A command and a rule that would look like others, and like a line of gimlet's own.
    let rule = "Bash(ls)\n  trusted everything\u{202e}";
    world.file(".claude/settings.json", settings("./key.sh \u{1b}[8m--all\u{1b}[0m", rule));
    for args in [&[][..], &["--json"]] {
        let shown = run_trust(&world, args).await;
        let hidden = shown.expect_code(0).stdout.contains(['\u{1b}', '\u{202e}', '\u{200b}']);
        let forged = shown.stdout.lines().any(|line| line.starts_with("  trusted everything"));
        assert!(!hidden && !forged, "{:?}", shown.stdout);
    }
    let shown = run_trust(&world, &[]).await.stdout;
    assert!(shown.contains("+./key.sh <U+001B>[8m--all<U+001B>[0m"), "{shown}");
    assert!(shown.contains("allow rule Bash(ls)<U+000A>  trusted everything<U+202E>"), "{shown}");
    let model = Script::new().say("done").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--", "go"]).finish().await;
    assert!(run.stderr.contains("everything<U+202E>") && !run.stderr.contains('\u{202e}'), "{}", run.stderr);
}

#[tokio::test]
async fn another_folder_can_be_named_and_the_home_directory_is_not_recorded() {
    let world = project_world();
    world.file("other/.claude/settings.json", json!({"permissions": {"allow": ["Bash(make)"]}}).to_string());
    world.file("other/.git/HEAD", "ref: refs/heads/main\n");
    run_trust(&world, &["--yes", "other"]).await.expect_code(0);
    assert_eq!(trust_json(&world, &["other"]).await["state"], "trusted");
    assert_eq!(trust_json(&world, &[]).await["state"], "not trusted");
    let home = world.home.display().to_string();
    let refused = run_trust(&world, &["--yes", &home]).await;
    refused.expect_code(1);
    assert!(refused.stderr.contains("lasts for one session"), "{}", refused.stderr);
    assert!(run_trust(&world, &["nowhere"]).await.stderr.contains("no such folder"));
}

#[tokio::test]
async fn no_command_of_a_session_gives_trust_however_it_is_spelt_and_whatever_is_allowed() {
    let gimlet = env!("CARGO_BIN_EXE_gimlet");
    let spellings = [
        format!("{gimlet} trust --yes"),
        format!("cp {gimlet} ./x && ./x trust --yes"),
        format!("setsid nohup {gimlet} trust --yes >out 2>&1 & sleep 1"),
        format!("printf '%s' '{gimlet} trust --yes' > s.sh; sh s.sh"),
        format!("env -i HOME=$HOME {gimlet} trust -y ."),
        format!("python3 -c \"import os; os.execv('{gimlet}', ['gimlet', 'trust', '--yes'])\""),
    ];
    for bypass in [false, true] {
        for command in &spellings {
            let world = project_world();
            let user = json!({"permissions": {"allow": ["Bash"], "defaultMode": "acceptEdits"}});
            std::fs::create_dir_all(world.home.join(".claude")).unwrap();
            std::fs::write(world.home.join(".claude/settings.json"), user.to_string()).unwrap();
            let model =
                Script::new().call("Bash", json!({"command": command})).then().say("done").serve().await.unwrap();
            let run = world.run(&model).args(["-p", "--output-format", "json"]);
            let run = if bypass { run.args(["--dangerously-skip-permissions"]).env("IS_SANDBOX", "1") } else { run };
            let run = run.args(["--", "go"]).finish().await;
            run.expect_code(0);
            let result = model.request(1).tool_result(0);
            assert_eq!(recorded_trust(&world), None, "{command}: {result}");
            if command == &spellings[0] {
                assert!(result.contains("a person's to say"), "it is asked about: {result}");
                assert_eq!(run.json()["permission_denials"].as_array().unwrap().len(), 1);
            }
        }
    }
}

#[tokio::test]
async fn what_a_command_of_a_session_writes_with_gimlet_waits_for_trust() {
    let gimlet = env!("CARGO_BIN_EXE_gimlet");
    let set = "config set --scope project apiKeyHelper evil";
    for command in [format!("{gimlet} {set}"), format!("cp {gimlet} x; setsid ./x {set} & sleep 1")] {
        let world = world();
        let model = Script::new().call("Bash", json!({"command": command})).then().say("done").serve().await.unwrap();
        let run = world.run(&model).args(["-p", "--dangerously-skip-permissions"]).env("IS_SANDBOX", "1");
        run.args(["--", "go"]).finish().await.expect_code(0);
        assert!(world.read(".claude/settings.json").contains("evil"), "{}", model.request(1).tool_result(0));
        assert_eq!(trust_json(&world, &[]).await["items"][0]["trusted"], false, "{command}");
    }
}
