//! Settings files in a running session: what they allow and forbid, what a project may not say for itself, and what is
//! said about files that are broken.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::world;

/// A model that runs these commands one after the other.
async fn serve_commands<const N: usize>(commands: [&str; N]) -> ScriptServer {
    let script = commands
        .into_iter()
        .fold(Script::new(), |script, command| script.call("Bash", json!({ "command": command })).then());
    script.say("done").serve().await.unwrap()
}

async fn run_prompt(world: &TestWorld, model: &ScriptServer, flags: &[&str]) -> RunOutput {
    let args = ["-p", "--output-format", "stream-json", "--verbose"];
    let run = world.run(model).args(args).args(flags.iter().copied()).args(["--", "go"]).finish().await;
    run.expect_code(0);
    run
}

fn write_user_settings(world: &TestWorld, settings: Value) {
    write_file(&world.home.join(".claude/settings.json"), &settings.to_string());
}

fn write_project_settings(world: &TestWorld, settings: Value) {
    write_file(&world.project.join(".claude/settings.json"), &settings.to_string());
}

fn write_file(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn has_file(world: &TestWorld, name: &str) -> bool {
    world.project.join(name).exists()
}

#[tokio::test]
async fn settings_that_others_may_write_do_not_act_and_are_named_with_what_to_run() {
    let world = world();
    let folder = world.home.join(".claude");
    let file = folder.join("settings.json");
    std::fs::create_dir_all(&folder).unwrap();
    let text = json!({"permissions": {"allow": ["Bash(touch *)"]}, "apiKeyHelper": "touch helped; echo canary-key"});
    std::fs::write(&file, text.to_string()).unwrap();
    let shut = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let tried = async || {
        let script = Script::new().call("Bash", json!({"command": "touch made"})).then().say("done");
        let model = script.serve().await.unwrap();
        world.run(&model).args(["-p", "--", "go"]).finish().await
    };
    shut(&folder, 0o777);
    shut(&file, 0o666);
    let run = tried().await;
    assert!(!world.project.join("made").exists(), "{}", run.stderr);
    let said: Vec<&str> = run.stderr.lines().filter(|line| line.contains("may be written by everybody")).collect();
    assert_eq!(said.len(), 1, "{}", run.stderr);
    assert!(said[0].contains(&format!("chmod go-w '{}' && chmod go-w '{}'", folder.display(), file.display())));
    let without_key = world.run_at("http://127.0.0.1:9").without_env("ANTHROPIC_API_KEY").args(["-p", "--", "go"]);
    assert_ne!(without_key.finish().await.code, 0);
    assert!(!world.project.join("helped").exists());
    let doctor = world.run_at("http://127.0.0.1:9").arg("doctor").finish().await;
    assert!(doctor.expect_code(1).stdout.contains("may be written by everybody"), "{}", doctor.stdout);
    shut(&folder, 0o700);
    shut(&file, 0o600);
    // gimlet's own folder is closed again, once and not in silence.
    shut(&folder.join("gimlet"), 0o755);
    let run = tried().await;
    assert!(world.project.join("made").exists() && run.stderr.contains("it is yours alone now"), "{}", run.stderr);
    assert!(!tried().await.stderr.contains("yours alone"));
}

#[tokio::test]
async fn rules_of_every_scope_add_up_and_a_deny_beats_an_allow_from_anywhere() {
    let world = world();
    write_user_settings(&world, json!({"permissions": {"allow": ["Bash(touch *)"]}}));
    write_project_settings(
        &world,
        json!({"permissions": {"deny": ["Bash(touch denied)"], "ask": ["Bash(touch asked)"]}}),
    );
    write_file(&world.project.join(".claude/settings.local.json"), r#"{"permissions":{"allow":["Bash(mkdir *)"]}}"#);
    let model = serve_commands(["touch free", "touch denied", "touch asked", "mkdir made"]).await;
    let run = run_prompt(&world, &model, &["--trust"]).await;
    assert_eq!(
        ["free", "denied", "asked", "made"].map(|name| has_file(&world, name)),
        [true, false, false, true],
        "{}",
        run.stderr
    );
    assert_eq!(run.result()["permission_denials"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_an_untrusted_project_grants_itself_is_not_used_and_named_in_one_line() {
    let world = world();
    write_project_settings(
        &world,
        json!({
            "permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(mkdir *)"], "additionalDirectories": [".."],
                            "defaultMode": "acceptEdits"},
            "env": {"PLANTED": "1"},
            "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch hooked"}]}]},
            "apiKeyHelper": "touch helped; echo key"
        }),
    );
    write_user_settings(&world, json!({"permissions": {"allow": ["Bash(mkdir *)", "Bash(printenv *)"]}}));
    let model = serve_commands(["touch granted", "mkdir made", "printenv PLANTED"]).await;
    let untrusted = run_prompt(&world, &model, &[]).await;
    assert_eq!(["granted", "made", "hooked", "helped"].map(|name| has_file(&world, name)), [false; 4]);
    let warnings: Vec<&str> = untrusted.stderr.lines().filter(|line| line.contains("not trusted")).collect();
    assert_eq!(warnings.len(), 1, "{}", untrusted.stderr);
    for named in ["PreToolUse", "PLANTED", "apiKeyHelper", "Bash(touch *)", "--trust"] {
        assert!(warnings[0].contains(named), "{named}: {}", warnings[0]);
    }
    assert!(!model.requests().last().unwrap().body_text().contains(r#""content":"1""#));

    let model = serve_commands(["touch granted", "mkdir made"]).await;
    let trusted = run_prompt(&world, &model, &["--trust"]).await;
    assert_eq!(["granted", "made"].map(|name| has_file(&world, name)), [true, false]);
    assert!(!trusted.stderr.contains("not trusted"), "{}", trusted.stderr);
}

#[tokio::test]
async fn what_a_trusted_project_sets_in_vain_is_named_in_one_line() {
    let world = world();
    let settings = json!({
        "sandbox": {"excludedCommands": ["git"], "autoAllowBashIfSandboxed": true, "filesystem": {"allowWrite": ["/"]}},
        "env": {"LD_PRELOAD": "./evil.so", "LD_\u{202e}X": "x", "FINE": "1"}, "theme": "dark"
    });
    write_project_settings(&world, settings);
    let model = serve_commands([]).await;
    let run = run_prompt(&world, &model, &["--trust"]).await;
    let file = world.project.join(".claude/settings.json");
    let line = format!(
        "gimlet: {}: not used, since this file may not set them: env.LD_<U+202E>X, env.LD_PRELOAD, sandbox.autoAllowBashIfSandboxed, \
         sandbox.excludedCommands, sandbox.filesystem.allowWrite; see 'gimlet doctor'\n",
        file.display()
    );
    assert_eq!(run.stderr, line);

    // Before trust nothing of it counts, and one line says that.
    let model = serve_commands([]).await;
    let untrusted = world.run(&model).args(["-p", "--", "go"]).finish().await;
    assert_eq!(untrusted.stderr.lines().count(), 1, "{}", untrusted.stderr);
    assert!(untrusted.stderr.contains("not trusted"), "{}", untrusted.stderr);
}

#[tokio::test]
async fn a_caller_who_names_the_project_files_trusts_them_and_one_who_leaves_them_out_does_not_read_them() {
    let world = world();
    write_project_settings(&world, json!({"permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(mkdir *)"]}}));
    write_user_settings(&world, json!({"permissions": {"allow": ["Bash(mkdir *)"]}}));
    let model = serve_commands(["touch named"]).await;
    run_prompt(&world, &model, &["--setting-sources", "user,project"]).await;
    assert!(has_file(&world, "named"));
    let model = serve_commands(["touch unnamed", "mkdir made"]).await;
    run_prompt(&world, &model, &["--setting-sources", "user"]).await;
    assert_eq!(["unnamed", "made"].map(|name| has_file(&world, name)), [false, true]);
}

#[tokio::test]
async fn a_broken_file_is_named_with_its_line_and_the_others_still_count() {
    let world = world();
    write_user_settings(&world, json!({"permissions": {"allow": ["Bash(touch *)"]}}));
    write_file(
        &world.project.join(".claude/settings.json"),
        "{\n  \"permissions\": {\n    \"deny\": [\"Bash(touch x)\",]\n  }\n}",
    );
    let model = serve_commands(["touch made"]).await;
    let run = run_prompt(&world, &model, &[]).await;
    assert!(has_file(&world, "made"));
    assert!(run.stderr.contains(".claude/settings.json:3:"), "{}", run.stderr);
}

#[tokio::test]
async fn a_malformed_rule_is_named_with_file_and_line_and_costs_only_itself() {
    let world = world();
    write_file(
        &world.home.join(".claude/settings.json"),
        "{\"permissions\": {\n\"allow\": [\"Bash(touch *)\"],\n\"deny\": [\n\"Bash(mkdir\",\n\"Bash(rmdir *)\"]}}",
    );
    let model = serve_commands(["touch made", "rmdir sub"]).await;
    std::fs::create_dir(world.project.join("sub")).unwrap();
    let run = run_prompt(&world, &model, &[]).await;
    assert_eq!(["made", "sub"].map(|name| has_file(&world, name)), [true, true]);
    assert!(run.stderr.contains("settings.json:4") && run.stderr.contains("denies nothing"), "{}", run.stderr);
}

#[tokio::test]
async fn settings_on_the_command_line_hold_for_the_run_and_must_be_readable() {
    let world = world();
    let model = serve_commands(["touch made"]).await;
    run_prompt(&world, &model, &["--settings", r#"{"permissions":{"allow":["Bash(touch *)"]}}"#]).await;
    assert!(has_file(&world, "made"));
    for bad in ["missing.json", "{broken"] {
        let failed = world.run(&model).args(["-p", "--settings", bad, "--", "go"]).finish().await;
        failed.expect_code(1);
        assert!(failed.stderr.contains("settings"), "{}", failed.stderr);
        assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    }
}

#[tokio::test]
async fn what_a_file_may_set_and_writes_wrong_is_told_in_its_own_words() {
    let world = world();
    for (settings, said) in [
        (r#"{"sandbox": {"network": {"deniedDomains": ["http://x/"]}}}"#, "as in 'x'; it counts as that"),
        (r#"{"sandbox.enabled": true}"#, "sandbox.enabled: ignored: a key has no dots in its name"),
    ] {
        let model = Script::new().say("done").serve().await.unwrap();
        let stderr = run_prompt(&world, &model, &["--settings", settings]).await.stderr;
        assert!(stderr.contains(said) && !stderr.contains("may not set"), "{settings}: {stderr}");
    }
}

#[tokio::test]
async fn a_guard_under_a_wrong_name_is_told_at_the_start() {
    let world = world();
    for (settings, meant) in [
        (r#"{"permissions": {"dney": ["Bash"]}}"#, Some("permissions.deny")),
        (r#"{"deny": ["Bash"]}"#, Some("permissions.deny")),
        (r#"{"sandbox": {"enable": true}}"#, Some("sandbox.enabled")),
        (r#"{"sandbox": {"filesystem": {"denyReed": ["x"]}}}"#, Some("sandbox.filesystem.denyRead")),
        (r#"{"sandbx": {"enabled": true}}"#, Some("sandbox")),
        (r#"{"sandbox": {"fileSystem": {"denyRead": ["x"]}}}"#, Some("sandbox.filesystem")),
        (r#"{"modle": "x", "permissions": {"later": 1}, "sandbox": {"later": 1}}"#, None),
    ] {
        let model = Script::new().say("done").serve().await.unwrap();
        let stderr = run_prompt(&world, &model, &["--settings", settings]).await.stderr;
        match meant {
            Some(name) => assert!(stderr.contains(&format!("did you mean {name}?")), "{settings}: {stderr}"),
            None => assert_eq!(stderr, "", "{settings}"),
        }
    }
}

#[tokio::test]
async fn mode_model_effort_and_environment_come_from_settings() {
    let world = world();
    write_user_settings(
        &world,
        json!({
            "permissions": {"defaultMode": "acceptEdits", "allow": ["Bash(printenv *)"]},
            "model": "claude-haiku-4-5",
            "effortLevel": "high",
            "env": {"FROM_SETTINGS": "yes-it-is"}
        }),
    );
    let model = Script::new()
        .call("Write", json!({"file_path": world.path("new.txt"), "content": "x"}))
        .then()
        .call("Bash", json!({"command": "printenv FROM_SETTINGS"}))
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    run_prompt(&world, &model, &[]).await;
    assert_eq!(world.read("new.txt"), "x");
    let last = model.requests().pop().unwrap();
    assert_eq!(last.model(), "claude-haiku-4-5");
    assert_eq!(last.tool_results().last().unwrap(), "yes-it-is");
}

#[tokio::test]
async fn settings_can_forbid_bypassing_and_a_project_cannot_start_it() {
    let world = world();
    write_project_settings(&world, json!({"permissions": {"defaultMode": "bypassPermissions"}}));
    let model = serve_commands(["touch made"]).await;
    run_prompt(&world, &model, &["--trust"]).await;
    assert!(!has_file(&world, "made"));
    write_user_settings(&world, json!({"permissions": {"disableBypassPermissionsMode": "disable"}}));
    let refused = world.run(&model).args(["-p", "--dangerously-skip-permissions", "--", "go"]).finish().await;
    refused.expect_code(1);
    assert!(refused.stderr.contains("disable"), "{}", refused.stderr);
}

#[tokio::test]
async fn the_doctor_names_rules_that_do_nothing_and_check_decides_by_the_settings_in_force() {
    let world = world();
    write_user_settings(
        &world,
        json!({"permissions": {"allow": ["Bash(touch x)", "Raed(a)"], "deny": ["Bash(touch *)"]}}),
    );
    let model = serve_commands([]).await;
    let doctor = world.run(&model).args(["doctor"]).finish().await;
    let page = &doctor.stdout;
    assert!(page.contains("is never reached") && page.contains("Bash(touch x)"), "{page}");
    let check = world.run(&model).args(["permissions", "check", "--command", "touch x"]).finish().await;
    check.expect_code(4);
    assert!(check.stdout.contains(".claude/settings.json"), "{}", check.stdout);
}
