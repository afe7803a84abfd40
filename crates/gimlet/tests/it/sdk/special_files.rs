//! Files that are not what they should be: pipes and folders under the names of files, and a folder that goes away while
//! a session runs.

use std::path::Path;

use gimlet_script::Script;
use rustix::fs::{CWD, Mode};
use serde_json::json;

use super::SdkHost;
use crate::world;

/// A pipe that nobody writes into.
fn make_fifo(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

#[tokio::test]
async fn special_files_do_not_block_a_session() {
    for name in ["a pipe", "a folder"] {
        let world = world();
        let put = |path: &Path| if name == "a pipe" { make_fifo(path) } else { std::fs::create_dir_all(path).unwrap() };
        put(&world.project.join(".git/HEAD"));
        put(&world.project.join(".git/config"));
        put(&world.project.join(".claude/settings.json"));
        put(&world.home.join(".claude/settings.json"));
        put(&world.project.join("CLAUDE.md"));
        let model = Script::new().say("hello").serve().await.unwrap();
        let run = world.run(&model).print_text("hi").finish().await;
        assert_eq!((run.code, run.stdout.as_str()), (0, "hello\n"), "{name}: {}", run.stderr);
        assert!(model.request(0).body_text().contains("Git repository: no"), "{name}");
    }
}

#[tokio::test]
async fn a_transcript_that_is_no_file_is_named_and_the_others_are_found() {
    for name in ["a pipe", "a folder"] {
        let world = world();
        let first = Script::new().say("one").serve().await.unwrap();
        world.run(&first).print_text("hi").finish().await.expect_code(0);
        let odd = "3f0c0000-0000-4000-8000-000000000000";
        let path = world.transcripts()[0].with_file_name(format!("{odd}.jsonl"));
        if name == "a pipe" {
            make_fifo(&path)
        } else {
            std::fs::create_dir(&path).unwrap()
        };
        let model = Script::new().say("two").serve().await.unwrap();
        let run = world.run(&model).args(["-p", "--continue", "more"]).finish().await;
        assert_eq!((run.code, run.stdout.as_str()), (0, "two\n"), "{name}: {}", run.stderr);
        let run = world.run(&model).args(["-p", "--resume", odd, "more"]).finish().await;
        assert!(run.code == 1 && !run.stderr.is_empty(), "{name}: {}", run.stderr);
        for command in [vec!["sessions", "list"], vec!["sessions", "check"], vec!["sessions", "search", "hi"]] {
            world.run(&model).args(command).finish().await;
        }
    }
}

#[tokio::test]
async fn a_session_whose_folder_is_removed_goes_on_and_says_so_once() {
    let world = world();
    let bash = || json!({"command": "echo still working"});
    let model = Script::new()
        .say("one")
        .then()
        .call("Bash", bash())
        .then()
        .say("two")
        .then()
        .say("three")
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions"]));
    host.say("first");
    host.result().await;
    host.wait_for_state("idle").await;
    std::fs::remove_dir_all(world.home.join(".claude")).unwrap();
    for (words, answer) in [("second", "two"), ("third", "three")] {
        host.say(words);
        assert_eq!(host.result().await["result"], answer);
    }
    let end = host.end().await;
    end.output.expect_code(0);
    let told = end.lines.iter().filter(|line| line["subtype"] == "informational");
    let told: Vec<&str> = told.filter_map(|line| line["content"].as_str()).collect();
    assert!(told.len() == 1 && told[0].contains("was removed while the session runs"), "{told:?}");
    assert!(model.request(2).tool_results()[0].contains("still working"));
    let kept = world.transcript_entries();
    let said = |words: &str| kept.iter().any(|entry| entry["message"]["content"] == words);
    assert!(said("first") && said("second") && said("third"), "nothing is lost");
    let later = Script::new().say("resumed").serve().await.unwrap();
    world.run(&later).args(["-p", "--continue", "more"]).finish().await.expect_code(0);
    assert!(later.rejections().is_empty() && later.request(0).body_text().contains("first"));
}
