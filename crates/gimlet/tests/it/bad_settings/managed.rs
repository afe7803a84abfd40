//! Restrictions of whoever manages the machine, good and damaged. Their folder is fixed, so these runs see one of their own
//! in its place.

use gimlet_testkit::World;
use serde_json::{Value, json};

use super::{files, put, tried};
use crate::world;

/// A world in which the managed settings say this.
fn managed(settings: &str) -> (World, World) {
    let outer = world();
    let folder = outer.home.join("managed");
    put(&folder.join("managed-settings.json"), settings);
    // Nothing of the real folder is touched: it is covered, together with what lies beside it.
    let room = format!("bwrap --dev-bind / / --tmpfs /etc --ro-bind '{}' /etc/claude-code --", folder.display());
    let world = outer.behind(&format!("exec {room} '{}' \"$@\"", env!("CARGO_BIN_EXE_gimlet")));
    (world, outer)
}

fn user(world: &World, settings: &Value) {
    put(&files(world)[0], settings.to_string());
}

#[tokio::test]
async fn what_is_managed_holds_against_every_file_and_flag() {
    let settings = json!({"permissions": {"deny": ["Bash(rmdir *)"], "disableBypassPermissionsMode": "disable"}});
    let (world, _outer) = managed(&settings.to_string());
    user(&world, &json!({"permissions": {"allow": ["Bash(rmdir *)", "Bash(chmod *)"]}}));
    let (run, done) = tried(&world, &[]).await;
    assert_eq!(done, [true, false, true, false], "{}", run.stderr);
    let (run, _) = tried(&world, &["--dangerously-skip-permissions"]).await;
    run.expect_code(1);
    let (run, _) = tried(&world, &["--permission-mode", "bypassPermissions"]).await;
    run.expect_code(1);
}

#[tokio::test]
async fn where_only_managed_rules_count_nobody_else_allows_anything() {
    let settings = json!({"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Bash(rmdir *)"]}});
    let (world, _outer) = managed(&settings.to_string());
    user(&world, &json!({"permissions": {"allow": ["Bash(chmod *)"]}}));
    // Also the flags, which allow touch.
    let (run, done) = tried(&world, &[]).await;
    assert_eq!(done, [false, false, false, true], "{}", run.stderr);
}

#[tokio::test]
async fn damaged_managed_settings_are_told_and_lift_nothing() {
    for (text, expected) in [
        ("{\"permissions\": {\n\"deny\": [\"Bash(rmdir *)\"", [true, false, false, true]),
        ("{\"permissions\": {\n\"deny\": [\"Bash(rmdir *)\", 5]}}", [true, false, false, false]),
        ("{\"model\": [],\n\"permissions\": {\"deny\": [\"Bash(rmdir *)\"]}}", [true, false, false, false]),
    ] {
        let (world, _outer) = managed(text);
        let (run, done) = tried(&world, &[]).await;
        run.expect_code(0);
        assert_eq!(done, expected, "{text}: {}", run.stderr);
        assert!(run.stderr.contains("/etc/claude-code/managed-settings.json:"), "{text}: {}", run.stderr);
    }
}
