//! The setting `apiKeyHelper`, end to end: when the command runs, what its key is used for, and what is told when there
//! is none.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::time::{Duration, Instant};

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunBuilder, RunOutput, TestWorld};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::world;

/// Settings with a helper that writes a line to `runs` each time before it does `command`.
fn helper_settings(command: &str) -> String {
    json!({ "apiKeyHelper": format!("echo run >>runs; {command}") }).to_string()
}

fn world_with_helper(command: &str) -> TestWorld {
    let world = world();
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    std::fs::write(world.home.join(".claude/settings.json"), helper_settings(command)).unwrap();
    world
}

fn run_without_key<'a>(world: &'a TestWorld, model: &ScriptServer) -> RunBuilder<'a> {
    world.run(model).without_env("ANTHROPIC_API_KEY")
}

fn count_runs(world: &TestWorld) -> usize {
    std::fs::read_to_string(world.project.join("runs")).unwrap_or_default().lines().count()
}

fn sent_keys(model: &ScriptServer) -> Vec<Vec<(String, String)>> {
    let sorted = |mut keys: Vec<(String, String)>| {
        keys.sort();
        keys
    };
    model.requests().iter().map(|request| sorted(request.credentials())).collect()
}

fn both_headers(key: &str) -> Vec<(String, String)> {
    ["authorization", "x-api-key"].map(|header| (header.to_owned(), key.to_owned())).into()
}

/// Nothing that this run left or printed has this text in it.
pub(crate) fn assert_text_nowhere(world: &TestWorld, run: &RunOutput, text: &str) {
    assert!(!run.stdout.contains(text) && !run.stderr.contains(text), "{}\n{}", run.stdout, run.stderr);
    let mut folders = vec![world.home.clone()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                assert!(!String::from_utf8_lossy(&bytes).contains(text), "{}", path.display());
            }
        }
    }
}

#[tokio::test]
async fn one_run_serves_a_whole_session_and_the_key_is_masked_in_what_commands_print() {
    let world = world_with_helper("printf '\\n sk-%s \\n\\n' from-the-helper");
    let command = json!({"command": "printf 'leaked sk-%s' from-the-helper"});
    let model = Script::new().key("sk-from-the-helper").call("Bash", command).then().say("done").serve().await.unwrap();
    let log = world.home.join("log");
    let run =
        run_without_key(&world, &model).stream("go").args(["--debug-file", &log.to_string_lossy()]).finish().await;
    run.expect_code(0);
    assert_eq!(run.lines()[0]["apiKeySource"], "apiKeyHelper");
    assert_eq!(sent_keys(&model), [both_headers("sk-from-the-helper"), both_headers("sk-from-the-helper")]);
    assert_eq!(count_runs(&world), 1);
    assert!(model.request(1).body_text().contains("leaked ***"), "{}", model.request(1).body_text());
    assert_text_nowhere(&world, &run, "sk-from-the-helper");
}

#[tokio::test]
async fn a_refused_key_is_fetched_again_and_the_request_sent_once_more() {
    let world = world_with_helper("echo sk-number-$(wc -l <runs)");
    let model = Script::new().key("sk-number-2").say("done").serve().await.unwrap();
    let run = run_without_key(&world, &model).print_text("go").finish().await;
    run.expect_code(0);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("done\n", ""));
    assert_eq!(sent_keys(&model), [both_headers("sk-number-1"), both_headers("sk-number-2")]);

    let world = world_with_helper("echo sk-number-$(wc -l <runs)");
    let model = Script::new().key("sk-other").say("done").serve().await.unwrap();
    let run = run_without_key(&world, &model).print_text("go").finish().await;
    run.expect_code(1);
    assert_eq!((count_runs(&world), model.requests().len()), (2, 2));
    assert!(format!("{}{}", run.stdout, run.stderr).contains("apiKeyHelper"), "{}{}", run.stdout, run.stderr);
    assert_text_nowhere(&world, &run, "sk-number-1");
    assert_text_nowhere(&world, &run, "sk-number-2");
}

#[tokio::test]
async fn a_key_or_token_in_the_environment_leaves_the_helper_alone() {
    for name in ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"] {
        let world = world_with_helper("echo sk-from-the-helper");
        let model = Script::new().key("sk-given").say("done").serve().await.unwrap();
        run_without_key(&world, &model).env(name, "sk-given").print_text("go").finish().await.expect_code(0);
        assert_eq!(count_runs(&world), 0, "{name}");
    }
}

#[tokio::test]
async fn a_projects_helper_runs_only_with_trust_and_want_of_trust_is_told() {
    let world = world();
    world.file(".claude/settings.json", helper_settings("echo sk-from-the-project"));
    let model = Script::new().key("sk-from-the-project").say("done").serve().await.unwrap();
    let run = run_without_key(&world, &model).print_text("go").finish().await;
    run.expect_code(1);
    assert_eq!((count_runs(&world), model.requests().len(), run.stderr.lines().count()), (0, 0, 1), "{}", run.stderr);
    assert!(run.stderr.contains("apiKeyHelper") && run.stderr.contains("--trust"), "{}", run.stderr);
    run_without_key(&world, &model).print_text("go").arg("--trust").finish().await.expect_code(0);
    assert_eq!(count_runs(&world), 1);
}

#[tokio::test]
async fn without_a_key_nothing_is_sent_and_one_line_says_why() {
    let table = [
        ("echo canary; echo the vault is locked >&2; exit 7", "it exited with 7: the vault is locked"),
        ("true", "it printed nothing"),
        ("echo; echo", "it printed nothing"),
        ("echo canary; echo canary", "it printed more than one line"),
        ("echo canary is not a key", "it printed more than one word"),
        ("printf 'canary\\377'", "it printed characters that no key has"),
        ("yes canary", "it printed more than 64 KiB"),
        ("echo canary; sleep 60", "it did not end within 1 s"),
    ];
    for (command, reason) in table {
        // Written into a script, so that the settings do not hold the word that is looked for.
        let world = world_with_helper("sh ./helper.sh");
        world.file("helper.sh", command);
        let model = Script::new().say("done").serve().await.unwrap();
        let limit = ("GIMLET_API_KEY_HELPER_TIMEOUT_MS", "1000");
        let run = run_without_key(&world, &model).env(limit.0, limit.1).print_text("go").finish().await;
        run.expect_code(1);
        let said = format!("{}{}", run.stdout, run.stderr);
        let line = format!("the command in apiKeyHelper gave no key: {reason}");
        assert_eq!(said.matches(&line).count(), 1, "{command}: {said}");
        assert_eq!((count_runs(&world), model.requests().len()), (1, 0), "{command}");
        assert_text_nowhere(&world, &run, "canary");
    }
}

#[tokio::test]
async fn an_interrupt_ends_a_helper_that_still_runs() {
    let world = world_with_helper("echo $$ >pid; exec sleep 60");
    let model = Script::new().say("done").serve().await.unwrap();
    let mut run = run_without_key(&world, &model).print_text("go").start();
    let pid_file = world.project.join("pid");
    let begun = Instant::now();
    let helper = loop {
        match std::fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse().ok()) {
            Some(pid) => break Pid::from_raw(pid).unwrap(),
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "the helper never ran");
    };
    kill_process(Pid::from_raw(i32::try_from(run.pid()).unwrap()).unwrap(), Signal::INT).unwrap();
    let run = tokio::task::spawn_blocking(move || run.wait_with_output()).await.unwrap();
    run.expect_code(130);
    assert!(rustix::process::test_kill_process(helper).is_err(), "the helper is still there");
    assert!(model.requests().is_empty());
}

/// A trusted project whose helper is a script of its own, and a command that changes it.
async fn world_with_script_helper(sandbox: bool) -> (TestWorld, ScriptServer) {
    let world = world();
    world.file(".claude/settings.json", json!({ "apiKeyHelper": "sh ./key.sh" }).to_string());
    world.file("key.sh", "echo run >>runs; echo sk-from-the-script");
    let settings = json!({"sandbox": {"enabled": sandbox}, "permissions": {"allow": ["Bash"]}});
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    std::fs::write(world.home.join(".claude/settings.json"), settings.to_string()).unwrap();
    world.run_at("http://127.0.0.1:1").args(["trust", "--yes"]).finish().await.expect_code(0);
    let change = json!({"command": "echo 'touch ran-another' >>key.sh && sleep 0.1"});
    let model = Script::new().call("Bash", change).then().say("done").serve().await.unwrap();
    (world, model)
}

#[tokio::test]
async fn a_script_that_changed_since_it_was_trusted_is_not_run_again() {
    for trusting in [&["--trust"][..], &[]] {
        let (world, model) = world_with_script_helper(false).await;
        let run = run_without_key(&world, &model).env("CLAUDE_CODE_API_KEY_HELPER_TTL_MS", "1").stream("go");
        let run = run.args(trusting.iter().copied()).finish().await;
        let text = run.result().to_string();
        assert!(
            run.code != 0 && text.contains("apiKeyHelper") && text.contains("gimlet trust"),
            "{text}{}",
            run.stderr
        );
        assert!(text.contains("settings.json") && text.contains("changed since it was trusted"), "{text}");
        assert_eq!((count_runs(&world), world.project.join("ran-another").exists()), (1, false));
    }
}

#[tokio::test]
async fn a_sandboxed_command_cannot_change_a_script_that_is_run_outside() {
    let (world, model) = world_with_script_helper(true).await;
    let run = run_without_key(&world, &model).env("CLAUDE_CODE_API_KEY_HELPER_TTL_MS", "1").stream("go").finish().await;
    run.expect_code(0);
    assert_eq!((count_runs(&world), world.project.join("ran-another").exists()), (2, false));
    assert!(!world.read("key.sh").contains("ran-another"));
}
