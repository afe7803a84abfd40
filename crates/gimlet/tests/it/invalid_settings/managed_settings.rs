//! Restrictions of whoever manages the machine, good and damaged. Their folder is fixed, so these runs see one of their own
//! in its place.

use gimlet_script::Script;
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use super::{run_four_commands, settings_files, write_file};
use crate::sdk::SdkHost;
use crate::world;

/// A world in which the managed settings say this.
fn managed_world(settings: &str) -> (TestWorld, TestWorld) {
    let outer = world();
    let folder = outer.home.join("managed");
    write_file(&folder.join("managed-settings.json"), settings);
    // Nothing of the real folder is touched: it is covered, together with what lies beside it.
    let room = format!("bwrap --dev-bind / / --tmpfs /etc --ro-bind '{}' /etc/claude-code --", folder.display());
    let world = outer.with_shell_prelude(&format!("exec {room} '{}' \"$@\"", env!("CARGO_BIN_EXE_gimlet")));
    (world, outer)
}

fn write_user_settings(world: &TestWorld, settings: &Value) {
    write_file(&settings_files(world)[0], settings.to_string());
}

#[tokio::test]
async fn what_is_managed_holds_against_every_file_and_flag() {
    let settings = json!({"permissions": {"deny": ["Bash(rmdir *)"], "disableBypassPermissionsMode": "disable"}});
    let (world, _outer) = managed_world(&settings.to_string());
    write_user_settings(&world, &json!({"permissions": {"allow": ["Bash(rmdir *)", "Bash(chmod *)"]}}));
    let (run, done) = run_four_commands(&world, &[]).await;
    assert_eq!(done, [true, false, true, false], "{}", run.stderr);
    let (run, _) = run_four_commands(&world, &["--dangerously-skip-permissions"]).await;
    run.expect_code(1);
    let (run, _) = run_four_commands(&world, &["--permission-mode", "bypassPermissions"]).await;
    run.expect_code(1);
}

#[tokio::test]
async fn a_managed_model_is_the_only_one() {
    let (world, _outer) = managed_world(&json!({"model": "claude-sonnet-4-5"}).to_string());
    write_user_settings(&world, &json!({"model": "claude-haiku-4-5"}));
    let model = Script::new().say("a").then().say("b").then().say("c").then().say("d").serve().await.unwrap();
    let runs = [
        (world.run(&model).args(["--model", "claude-opus-4-5"]), Some("--model claude-opus-4-5 is not used")),
        (
            world.run(&model).env("ANTHROPIC_MODEL", "claude-opus-4-5"),
            Some("ANTHROPIC_MODEL claude-opus-4-5 is not used"),
        ),
        (world.run(&model).args(["--model", "claude-sonnet-4-5"]), None),
    ];
    for (at, (run, said)) in runs.into_iter().enumerate() {
        let run = run.args(["-p", "--", "go"]).finish().await;
        run.expect_code(0);
        assert_eq!(model.request(at).model(), "claude-sonnet-4-5");
        let lines: Vec<&str> = run.stderr.lines().filter(|line| line.contains("managed settings choose")).collect();
        assert_eq!(lines.len(), usize::from(said.is_some()), "{}", run.stderr);
        assert!(said.is_none_or(|said| lines[0].contains(said)), "{}", run.stderr);
    }
    let mut host = SdkHost::start(world.run(&model));
    let answer = host.send_request(json!({"subtype": "set_model", "model": "claude-opus-4-5"})).await;
    assert_eq!(answer["subtype"], "error", "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("managed settings choose claude-sonnet-4-5"), "{answer}");
    let back = host.send_request(json!({"subtype": "set_model", "model": null})).await;
    assert_eq!(back["subtype"], "success", "{back}");
    host.say("go");
    host.result().await;
    host.end().await.clean(0);
    assert_eq!(model.request(3).model(), "claude-sonnet-4-5");
}

#[tokio::test]
async fn where_only_managed_rules_count_nobody_else_allows_anything() {
    let settings = json!({"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Bash(rmdir *)"]}});
    let (world, _outer) = managed_world(&settings.to_string());
    write_user_settings(&world, &json!({"permissions": {"allow": ["Bash(chmod *)"]}}));
    // Also the flags, which allow touch.
    let (run, done) = run_four_commands(&world, &[]).await;
    assert_eq!(done, [false, false, false, true], "{}", run.stderr);
}

#[tokio::test]
async fn rules_that_do_not_count_beside_managed_ones_are_shown_as_such() {
    let settings = json!({"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Bash(rmdir *)"]}});
    let (world, _outer) = managed_world(&settings.to_string());
    write_user_settings(&world, &json!({"permissions": {"allow": ["Bash(chmod *)"], "deny": ["Bash(ls)"]}}));
    let unused = "allowManagedPermissionRulesOnly)";
    let run = |args: &[&str]| world.run_at("http://127.0.0.1:9").args(args.iter().copied()).finish();
    let listed = run(&["config", "list"]).await;
    let line = |rule: &str| listed.stdout.lines().find(|line| line.contains(rule)).unwrap_or_default().to_owned();
    assert!(line("Bash(chmod *)").ends_with(unused), "{}", listed.stdout);
    assert!(!line("Bash(rmdir *)").contains(unused) && !line("Bash(ls)").contains(unused), "{}", listed.stdout);
    let programs = run(&["config", "get", "permissions.allow", "--json"]).await.expect_code(0).json();
    let sources = programs["sources"].as_array().unwrap();
    let unused_of = |rule: &str| sources.iter().find(|source| source["value"] == rule).unwrap()["unused"].is_string();
    assert!(unused_of("Bash(chmod *)") && !unused_of("Bash(rmdir *)"), "{programs}");
    assert!(run(&["doctor"]).await.stdout.contains("\"Bash(chmod *)\": not used"));
    let added = run(&["config", "add", "permissions.allow", "Bash(make)"]).await;
    assert!(added.expect_code(0).stderr.contains(unused), "{}", added.stderr);
    // What others forbid holds all the same.
    run(&["permissions", "check", "--command", "ls"]).await.expect_code(4);
    run(&["permissions", "check", "--command", "chmod 700 x"]).await.expect_code(3);
    run(&["permissions", "check", "--command", "rmdir x"]).await.expect_code(0);
}

#[tokio::test]
async fn damaged_managed_settings_are_told_and_lift_nothing() {
    for (text, expected) in [
        ("{\"permissions\": {\n\"deny\": [\"Bash(rmdir *)\"", [true, false, false, false]),
        ("{\"permissions\": {\n\"deny\": [\"Bash(rmdir *)\", 5]}}", [true, false, false, false]),
        ("{\"model\": [],\n\"permissions\": {\"deny\": [\"Bash(rmdir *)\"]}}", [true, false, false, false]),
    ] {
        let (world, _outer) = managed_world(text);
        let (run, done) = run_four_commands(&world, &[]).await;
        run.expect_code(0);
        assert_eq!(done, expected, "{text}: {}", run.stderr);
        assert!(run.stderr.contains("/etc/claude-code/managed-settings.json:"), "{text}: {}", run.stderr);
    }
}

/// Nobody knows what it forbids.
#[tokio::test]
async fn managed_settings_that_cannot_be_read_let_nothing_start() {
    type FileDamage = fn(&std::path::Path);
    let spoils: [FileDamage; 4] = [
        |file| std::fs::write(file, vec![b' '; 2 << 20]).unwrap(),
        |file| {
            std::fs::remove_file(file).unwrap();
            std::fs::create_dir(file).unwrap();
        },
        |file| {
            std::fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink(file, file).unwrap();
        },
        |file| {
            let folder = file.with_file_name("managed-settings.d");
            std::fs::create_dir_all(folder.join("10-more.json")).unwrap();
        },
    ];
    for (at, spoil) in spoils.into_iter().enumerate() {
        let (world, outer) = managed_world(r#"{"permissions": {"deny": ["Bash(rmdir *)"]}}"#);
        spoil(&outer.home.join("managed/managed-settings.json"));
        let (run, done) = run_four_commands(&world, &["--permission-mode", "bypassPermissions"]).await;
        run.expect_code(1);
        assert_eq!(done, [false; 4], "{at}");
        assert!(run.stderr.contains("/etc/claude-code/managed-settings"), "{at}: {}", run.stderr);
        assert!(run.stderr.contains("the administrator says there is not known"), "{at}: {}", run.stderr);
        let doctor = world.run_at("http://127.0.0.1:9").args(["doctor"]).finish().await;
        assert!(doctor.stdout.contains("the administrator says there is not known"), "{at}: {}", doctor.stdout);
    }
}

/// A program of the administrator that does this.
fn world_with_policy_helper(script: &str) -> (TestWorld, TestWorld) {
    use std::os::unix::fs::PermissionsExt;
    let place = world();
    let program = place.home.join("policy's program");
    write_file(&program, format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = json!({
        "policyHelper": {"path": program, "timeoutMs": 1000},
        "permissions": {"allow": ["Bash(chmod *)"]}
    });
    let (world, _outer) = managed_world(&settings.to_string());
    // Both folders must outlast the run.
    std::mem::forget(_outer);
    (world, place)
}

#[tokio::test]
async fn the_settings_that_an_administrators_program_prints_hold_in_place_of_the_file() {
    let printed = json!({"managedSettings": {"permissions": {"deny": ["Bash(rmdir *)"]}}});
    let (world, _place) =
        world_with_policy_helper(&format!("[ $# = 0 ] && [ -n \"$CLAUDE_CODE_VERSION\" ] && echo '{printed}'"));
    let (run, done) = run_four_commands(&world, &[]).await;
    assert_eq!(done, [true, false, false, false], "{}", run.stderr);
    let (world, _place) = world_with_policy_helper("echo '{}'");
    let (run, done) = run_four_commands(&world, &[]).await;
    assert_eq!(done, [true, false, true, true], "one that says nothing leaves the file: {}", run.stderr);
}

#[tokio::test]
async fn an_answer_without_what_an_administrators_program_would_say_says_so() {
    let (world, _place) = world_with_policy_helper("echo ran > \"$HOME/ran\"");
    let checked = world.run_at("http://127.0.0.1:9").args(["permissions", "check", "--command", "ls"]).finish().await;
    assert!(checked.expect_code(0).stderr.contains("managed-settings.json: policyHelper: "), "{}", checked.stderr);
    assert!(!world.home.join("ran").exists(), "a question runs nothing");
}

#[tokio::test]
async fn without_the_settings_that_an_administrators_program_should_print_nothing_starts() {
    for script in ["echo no >&2; exit 3", "sleep 60", "echo nonsense", "echo '{\"managedSettings\": 5}'", "kill -9 $$"]
    {
        let (world, _place) = world_with_policy_helper(script);
        let (run, done) = run_four_commands(&world, &[]).await;
        run.expect_code(1);
        assert_eq!(done, [false; 4], "{script}");
        assert!(run.stderr.contains("policyHelper") && run.stderr.lines().count() == 1, "{script}: {}", run.stderr);
    }
}

#[tokio::test]
async fn a_version_outside_the_administrators_bounds_does_not_start() {
    let (world, _outer) = managed_world(r#"{"requiredMinimumVersion": "999.0.0"}"#);
    let (run, done) = run_four_commands(&world, &[]).await;
    run.expect_code(1);
    assert_eq!(done, [false; 4]);
    assert!(run.stderr.contains("999.0.0"), "{}", run.stderr);
}

#[tokio::test]
async fn an_embedding_programs_settings_can_forbid_beside_an_administrators() {
    let given = r#"{"permissions": {"deny": ["Bash(rmdir *)"], "allow": ["Bash(chmod *)"]}}"#;
    for (admin, expected) in [
        ("{}", [true, false, true, false]),
        (r#"{"model": "haiku"}"#, [true, false, false, true]),
        (r#"{"model": "haiku", "parentSettingsBehavior": "merge"}"#, [true, false, false, false]),
    ] {
        let (world, _outer) = managed_world(admin);
        let (run, done) = run_four_commands(&world, &["--managed-settings", given]).await;
        run.expect_code(0);
        assert_eq!(done, expected, "{admin}: {}", run.stderr);
        let dropped = run.stderr.contains("--managed-settings: not used");
        assert_eq!(dropped, admin == r#"{"model": "haiku"}"#, "{admin}: {}", run.stderr);
    }
    let (world, _outer) = managed_world("{}");
    let (run, _) = run_four_commands(&world, &["--managed-settings", "{broken"]).await;
    run.expect_code(1);
    assert!(run.stderr.contains("--managed-settings:1:2"), "{}", run.stderr);
}

#[tokio::test]
async fn managed_settings_that_are_not_enforced_yet_are_named_in_one_line() {
    let settings = json!({"disableWorkflows": true, "blockedMarketplaces": [], "disableSideloadFlags": true,
                          "forceLoginMethod": "console", "permissions": {"deny": ["Bash(rmdir *)"]}});
    let (world, _outer) = managed_world(&settings.to_string());
    write_user_settings(&world, &json!({"disableWorkflows": true, "theme": "dark"}));
    let (run, done) = run_four_commands(&world, &[]).await;
    assert_eq!(done, [true, false, false, false], "{}", run.stderr);
    let said: Vec<&str> = run.stderr.lines().filter(|line| line.contains("does not enforce")).collect();
    assert_eq!(said.len(), 1, "{}", run.stderr);
    assert!(said[0].ends_with("does not enforce: blockedMarketplaces, disableWorkflows"), "{}", run.stderr);
}
