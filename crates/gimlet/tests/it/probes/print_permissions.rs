//! What may run: nobody can be asked in print mode, so whatever would ask is refused, and says so.

use std::os::unix::fs::PermissionsExt;

use gimlet_script::Script;
use serde_json::json;

use super::*;
use crate::world;

/// Puts a program into the world's own `bin` that only writes down how it was called.
fn install_stub(world: &TestWorld, name: &str) {
    let bin = world.home.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let log = world.home.join("called");
    let program = bin.join(name);
    std::fs::write(&program, format!("#!/bin/sh\necho {name} \"$@\" >> {}\n", log.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The search path with the world's own `bin` first.
fn stubbed_path(world: &TestWorld) -> String {
    format!("{}:/usr/local/bin:/usr/bin:/bin", world.home.join("bin").display())
}

fn stub_calls(world: &TestWorld) -> String {
    std::fs::read_to_string(world.home.join("called")).unwrap_or_default()
}

fn count_denials(run: &RunOutput) -> usize {
    run.result()["permission_denials"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn probe_15_an_allowed_beginning_does_not_carry_a_removal_along() {
    let world = world();
    for name in ["safe", "rm"] {
        install_stub(&world, name);
    }
    let commands =
        ["safe now", "safe && rm -rf ~", "safe; rm -rf \"$HOME\"", "safe | xargs rm -rf", "safe $(rm -rf ~)"];
    let model = serve_in_one_reply(commands.map(bash_call)).await;
    let run = world
        .run(&model)
        .args([
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--allowedTools",
            "Bash(safe *)",
            "Bash(safe)",
            "--",
            "go",
        ])
        .env("PATH", stubbed_path(&world))
        .finish()
        .await;
    run.expect_code(0);
    assert_all_played(&model);
    let answers = tool_answers(&model.request(1));
    let refused: Vec<bool> = answers.iter().map(|(_, failed)| *failed).collect();
    assert_eq!(refused, [false, true, true, true, true], "{answers:?}");
    assert_eq!(stub_calls(&world), "safe now\n");
    assert_eq!(count_denials(&run), 4);
    assert!(answers.iter().all(|(text, _)| !text.contains("tool_use_error")), "{answers:?}");
}

#[tokio::test]
async fn probe_15_removing_the_root_is_refused_even_when_everything_is_allowed() {
    let world = world();
    install_stub(&world, "rm");
    let control = serve_in_one_reply([bash_call("rm scratch")]).await;
    let run = world.run(&control).stream("go").env("PATH", stubbed_path(&world)).finish().await;
    run.expect_code(0);
    // Only the stub may be reached by what follows.
    assert_eq!(stub_calls(&world), "rm scratch\n");

    let commands = [
        "echo \"$(rm -rf /)\"",
        "rm -rf ~",
        "rm -rf /*",
        "cd / && rm -rf *",
        "rm -rf \"$NOWHERE\"/*",
        "sudo rm -rf /usr",
    ];
    let model = serve_in_one_reply(commands.map(bash_call)).await;
    let run = world.run(&model).stream("go").env("PATH", stubbed_path(&world)).finish().await;
    run.expect_code(0);
    assert_all_played(&model);
    let answers = tool_answers(&model.request(1));
    for (command, (text, refused)) in commands.iter().zip(&answers) {
        assert!(refused, "{command}: {text}");
    }
    assert_eq!(stub_calls(&world), "rm scratch\n");
    assert_eq!(count_denials(&run), commands.len());
}

#[tokio::test]
async fn without_leave_only_readers_run_in_print_mode() {
    let world = world();
    world.file("a.txt", "content");
    let model = serve_in_one_reply([
        bash_call("cat a.txt | wc -c"),
        bash_call("touch made"),
        bash_call("cat a.txt > made"),
        ("Write", json!({"file_path": world.path("made"), "content": "x"})),
        ("Edit", json!({"file_path": world.path("a.txt"), "old_string": "content", "new_string": "x"})),
    ])
    .await;
    world.run(&model).print_text("go").finish().await.expect_code(0);
    assert_all_played(&model);
    let answers = tool_answers(&model.request(1));
    let refused: Vec<bool> = answers.iter().map(|(_, failed)| *failed).collect();
    assert_eq!(refused, [false, true, true, true, true], "{answers:?}");
    assert!(!world.project.join("made").exists());
    assert_eq!(world.read("a.txt"), "content");
}

#[tokio::test]
async fn edits_may_be_accepted_without_accepting_commands_and_plans_change_nothing() {
    for (mode, wrote) in [("acceptEdits", true), ("plan", false), ("dontAsk", false), ("default", false)] {
        let world = world();
        let model = serve_in_one_reply([
            ("Write", json!({"file_path": world.path("made"), "content": "x"})),
            bash_call("sh -c 'touch ran'"),
            ("Write", json!({"file_path": world.home.join("outside"), "content": "x"})),
        ])
        .await;
        world.run(&model).args(["-p", "--permission-mode", mode, "go"]).finish().await.expect_code(0);
        assert_all_played(&model);
        assert_eq!(world.project.join("made").exists(), wrote, "{mode}");
        assert!(!world.project.join("ran").exists() && !world.home.join("outside").exists(), "{mode}");
    }
}

#[tokio::test]
async fn a_deny_rule_holds_whatever_the_mode_and_however_the_file_is_named() {
    let world = world();
    world.file("secret.txt", "hidden");
    std::os::unix::fs::symlink(world.project.join("secret.txt"), world.project.join("link.txt")).unwrap();
    let model = serve_in_one_reply([
        read_call(&world, "secret.txt"),
        read_call(&world, "link.txt"),
        bash_call("cat secret.txt"),
        ("Grep", json!({"pattern": "hidden", "output_mode": "content"})),
        ("Glob", json!({"pattern": "*.txt"})),
        ("Write", json!({"file_path": world.path("secret.txt"), "content": "x"})),
    ])
    .await;
    let run = world.run(&model).args(["--disallowedTools", "Read(secret.txt)"]).stream("go").finish().await;
    run.expect_code(0);
    assert_all_played(&model);
    let request = model.request(1);
    assert!(
        request.tool_results().iter().all(|text| !text.contains("hidden\n") && !text.contains(":hidden")),
        "{:?}",
        request.tool_results()
    );
    assert!(!request.tool_result(0).contains("1\thidden") && !request.tool_result(1).contains("1\thidden"));
    assert!(!request.tool_result(4).contains("secret.txt"), "{}", request.tool_result(4));
    assert_eq!(world.read("secret.txt"), "hidden");
}

#[tokio::test]
async fn an_added_folder_is_one_to_work_in() {
    let world = world();
    let other = world.home.join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("b.txt"), "content").unwrap();
    let read = || ("Read", json!({"file_path": other.join("b.txt")}));
    let outside = serve_in_one_reply([read()]).await;
    world.run(&outside).print_text("go").finish().await.expect_code(0);
    assert!(tool_answers(&outside.request(1))[0].1, "{:?}", tool_answers(&outside.request(1)));

    let write = ("Write", json!({"file_path": other.join("new.txt"), "content": "x"}));
    let script = [read(), write].into_iter().fold(Script::new(), |script, (tool, input)| script.call(tool, input));
    let inside = serve_script(script.then().say("done")).await;
    let run = world.run(&inside).arg("--add-dir").arg(other.to_string_lossy());
    run.args(["-p", "--permission-mode", "acceptEdits", "go"]).finish().await.expect_code(0);
    assert_all_played(&inside);
    assert_eq!(inside.request(1).tool_result(0), "1\tcontent");
    assert_eq!(std::fs::read_to_string(other.join("new.txt")).unwrap(), "x");
}

#[tokio::test]
async fn accepted_edits_stay_inside_and_away_from_what_other_programs_trust() {
    let world = world();
    std::os::unix::fs::symlink(&world.home, world.project.join("way-out")).unwrap();
    let write = |path: String| ("Write", json!({"file_path": path, "content": "x"}));
    let model = serve_in_one_reply([
        write(world.path("../home/a")),
        write(world.path("way-out/b")),
        write(world.path(".git/hooks/pre-commit")),
        write(world.path(".bashrc")),
        write(world.path(".claude/settings.json")),
        bash_call("echo x > ../home/c"),
        bash_call("echo x > way-out/d"),
        write(world.path("made/inside")),
    ])
    .await;
    world.run(&model).args(["-p", "--permission-mode", "acceptEdits", "go"]).finish().await.expect_code(0);
    assert_all_played(&model);
    let answers = tool_answers(&model.request(1));
    let refused: Vec<bool> = answers.iter().map(|(_, failed)| *failed).collect();
    assert_eq!(refused, [true, true, true, true, true, true, true, false], "{answers:?}");
    for path in ["home/a", "home/b", "home/c", "home/d", "project/.git", "project/.bashrc", "project/.claude"] {
        assert!(!world.home.join("..").join(path).exists(), "{path}");
    }
    assert!(world.project.join("made/inside").exists());
}

#[tokio::test]
async fn with_dont_ask_only_what_rules_allow_runs() {
    let world = world();
    let model = serve_in_one_reply([
        bash_call("touch allowed"),
        bash_call("touch refused"),
        ("Write", json!({"file_path": world.path("src/a.rs"), "content": "x"})),
        ("Write", json!({"file_path": world.path("other.rs"), "content": "x"})),
    ])
    .await;
    let flags =
        ["-p", "--permission-mode", "dontAsk", "--allowedTools", "Bash(touch allowed),Edit(src/**)", "--", "go"];
    world.run(&model).args(flags).finish().await.expect_code(0);
    assert_all_played(&model);
    let answers = tool_answers(&model.request(1));
    let refused: Vec<bool> = answers.iter().map(|(_, failed)| *failed).collect();
    assert_eq!(refused, [false, true, false, true], "{answers:?}");
}

#[tokio::test]
async fn a_redirection_is_judged_by_the_file_that_it_really_writes() {
    let world = world();
    world.file("secret.txt", "secret");
    std::os::unix::fs::symlink(&world.home, world.project.join("way-out")).unwrap();
    std::os::unix::fs::symlink("secret.txt", world.project.join("link.txt")).unwrap();
    let model = serve_in_one_reply([
        bash_call("echo x > way-out/made"),
        bash_call("echo x >> link.txt"),
        bash_call("echo x > /tmp/../tmp/gimlet-probe-never-made"),
        bash_call("echo x > inside"),
    ])
    .await;
    let flags = ["--allowedTools", "Bash", "--disallowedTools", "Edit(secret.txt)"];
    let run = world.run(&model).args(flags).args(["-p", "--permission-mode", "acceptEdits", "--", "go"]);
    run.finish().await.expect_code(0);
    assert_all_played(&model);
    let answers = tool_answers(&model.request(1));
    let refused: Vec<bool> = answers.iter().map(|(_, failed)| *failed).collect();
    assert_eq!(refused, [true, true, true, false], "{answers:?}");
    assert!(!world.home.join("made").exists());
    assert_eq!((world.read("secret.txt").as_str(), world.read("inside").as_str()), ("secret", "x\n"));
    assert!(answers[1].0.contains("Edit(secret.txt)"), "{answers:?}");
}

#[tokio::test]
async fn a_denied_file_stays_closed_to_commands_that_reach_it_through_a_link() {
    let world = world();
    world.file("secret.txt", "hidden");
    world.file("locked.txt", "locked");
    std::os::unix::fs::symlink("secret.txt", world.project.join("link.txt")).unwrap();
    std::os::unix::fs::symlink(".", world.project.join("here")).unwrap();
    std::os::unix::fs::symlink("locked.txt", world.project.join("other.txt")).unwrap();
    let commands = [
        "cat link.txt | tee out",
        "cp here/secret.txt out",
        "head -1 here/here/secret.txt > out",
        "echo x | tee other.txt",
        "cp link.txt out; true",
    ];
    let model = serve_in_one_reply(commands.map(bash_call)).await;
    let run = world.run(&model).args(["--disallowedTools", "Read(secret.txt)", "Edit(locked.txt)"]);
    run.stream("go").finish().await.expect_code(0);
    assert_all_played(&model);
    for (command, (text, refused)) in commands.iter().zip(tool_answers(&model.request(1))) {
        assert!(refused && !text.contains("hidden"), "{command}: {text}");
    }
    assert!(!world.project.join("out").exists());
    assert_eq!(world.read("locked.txt"), "locked");
}
