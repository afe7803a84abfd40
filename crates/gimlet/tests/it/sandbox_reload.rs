//! Settings of the sandbox that change while a session runs: they hold from the next command on, and only those who may
//! widen it do.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use gimlet_script::Script;
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use crate::sdk::{SdkHost, result_text};
use crate::world;

fn write_user_settings(world: &TestWorld, settings: &Value) {
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, settings.to_string()).unwrap();
}

/// Runs the same command in two turns, with a change between them; gives what it printed each time.
async fn run_twice(world: &TestWorld, command: &str, change: impl FnOnce()) -> [String; 2] {
    let call = json!({ "command": command });
    let script = Script::new().call("Bash", call.clone()).then().say("one").then().call("Bash", call).then().say("two");
    let model = script.serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let mut printed = Vec::new();
    let mut change = Some(change);
    for prompt in ["first", "second"] {
        host.say(prompt);
        printed.push(result_text(&host.until(|line| line["type"] == "user").await));
        host.result().await;
        if let Some(change) = change.take() {
            change();
        }
    }
    host.end().await.output.expect_code(0);
    printed.try_into().unwrap()
}

#[tokio::test]
async fn lists_are_tightened_and_widened_for_the_next_command() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = folder.path().join("out");
    let write = format!("touch {} 2>/dev/null && echo written || echo closed", out.display());
    let open = json!({"sandbox": {"enabled": true, "filesystem": {"allowWrite": [folder.path()]}}});
    let closed = json!({"sandbox": {"enabled": true}});
    let of = |text: &str| text.lines().next().unwrap_or_default().to_owned();

    let world = world();
    write_user_settings(&world, &closed);
    let printed = run_twice(&world, &write, || write_user_settings(&world, &open)).await;
    assert_eq!(printed.each_ref().map(|text| of(text)), ["closed", "written"], "{printed:?}");

    std::fs::remove_file(&out).unwrap();
    write_user_settings(&world, &open);
    let printed = run_twice(&world, &write, || write_user_settings(&world, &closed)).await;
    assert_eq!(printed.each_ref().map(|text| of(text)), ["written", "closed"], "{printed:?}");

    let secret = world.project.join("secret");
    std::fs::write(&secret, "for nobody").unwrap();
    let read = "cat secret 2>/dev/null || echo closed";
    let hidden = json!({"sandbox": {"enabled": true, "filesystem": {"denyRead": [secret]}}});
    write_user_settings(&world, &closed);
    let printed = run_twice(&world, read, || write_user_settings(&world, &hidden)).await;
    assert!(printed[0].contains("for nobody") && printed[1].contains("closed"), "{printed:?}");
}

#[tokio::test]
async fn the_sandbox_is_turned_on_and_off_for_the_next_command() {
    let on = json!({"sandbox": {"enabled": true}});
    let off = json!({"permissions": {"allow": ["Bash(touch *)", "Bash(echo *)"]}});
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = folder.path().join("out");
    let write = format!("touch {} && echo written", out.display());
    let world = world();
    write_user_settings(&world, &off);
    let printed = run_twice(&world, &write, || write_user_settings(&world, &on)).await;
    assert!(printed[0].contains("written") && printed[1].contains("The sandbox refused"), "{printed:?}");

    std::fs::remove_file(&out).unwrap();
    write_user_settings(&world, &on);
    let printed = run_twice(&world, &write, || write_user_settings(&world, &off)).await;
    assert!(printed[0].contains("The sandbox refused") && printed[1].contains("written"), "{printed:?}");
}

#[tokio::test]
async fn a_project_tightens_a_running_sandbox_and_never_widens_it() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = folder.path().join("out");
    let write = format!("touch {} && echo written", out.display());
    let world = world();
    write_user_settings(&world, &json!({"sandbox": {"enabled": true}}));
    let widening = json!({"sandbox": {"enabled": false, "excludedCommands": ["touch *"],
        "filesystem": {"allowWrite": [folder.path()]}}});
    for file in [".claude/settings.json", ".claude/settings.local.json"] {
        let printed = run_twice(&world, &write, || drop(world.file(file, widening.to_string()))).await;
        assert!(!printed[1].contains("written") && !out.exists(), "{file}: {printed:?}");
        std::fs::remove_file(world.project.join(file)).unwrap();
    }
    std::fs::write(world.project.join("secret"), "for nobody").unwrap();
    let tightening = json!({"sandbox": {"filesystem": {"denyRead": [world.project.join("secret")]}}}).to_string();
    let read = "cat secret 2>/dev/null || echo closed";
    let printed = run_twice(&world, read, || drop(world.file(".claude/settings.json", tightening))).await;
    assert!(printed[0].contains("for nobody") && printed[1].contains("closed"), "{printed:?}");
}

#[tokio::test]
async fn walls_that_are_demanded_while_a_session_runs_and_cannot_be_had_stop_every_command() {
    // There is no place for what the walls need.
    let with = |sandbox: Value| json!({"permissions": {"allow": ["Bash(echo *)"]}, "env": {"CLAUDE_CODE_TMPDIR": "/proc/nowhere"}, "sandbox": sandbox});
    let world = world();
    for (demanded, runs) in [(false, true), (true, false)] {
        write_user_settings(&world, &with(json!({})));
        let demand = with(json!({"enabled": true, "failIfUnavailable": demanded}));
        let printed = run_twice(&world, "echo written", || write_user_settings(&world, &demand)).await;
        assert!(printed[0].contains("written"), "{printed:?}");
        assert_eq!(printed[1].contains("written"), runs, "{demanded}: {printed:?}");
        assert!(runs || printed[1].contains("sandbox.failIfUnavailable"), "{printed:?}");
    }
}

/// Settings that a link in the config home leads to, and a folder on the way that is a link itself, are not a command's to write.
#[tokio::test]
async fn settings_behind_a_link_into_the_folder_stay_as_they_are() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = folder.path().join("out");
    let off = json!({"sandbox": {"enabled": false}, "permissions": {"allow": ["Bash"]}}).to_string();
    let on = json!({"sandbox": {"enabled": true, "allowUnsandboxedCommands": false}}).to_string();
    for plant in ["echo \"$OFF\" >dots/claude.json", "rm dots; mkdir dots; echo \"$OFF\" >dots/claude.json"] {
        let world = world();
        world.file("dotfiles/claude.json", on.clone());
        std::os::unix::fs::symlink("dotfiles", world.project.join("dots")).unwrap();
        std::fs::create_dir_all(world.home.join(".claude")).unwrap();
        let user = world.home.join(".claude/settings.json");
        std::os::unix::fs::symlink(world.project.join("dots/claude.json"), &user).unwrap();
        world.file("e.sh", format!("OFF='{off}'; {plant}; touch {} && echo written", out.display()));
        let printed = run_twice(&world, "bash e.sh", || {}).await;
        assert!(!printed.concat().contains("written") && !out.exists(), "{plant}: {printed:?}");
        assert_eq!(std::fs::read_to_string(user).unwrap().trim(), on, "{plant}");
    }
}
