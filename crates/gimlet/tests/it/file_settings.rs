//! How the person wants files to be read and changed, as settings say it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use crate::world;

const MODE: [&str; 3] = ["-p", "--permission-mode", "acceptEdits"];

fn write_user_settings(world: &TestWorld, settings: &Value) {
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, settings.to_string()).unwrap();
}

/// What each call came to, one request each.
async fn run_calls(world: &TestWorld, calls: &[(&str, Value)], flags: &[&str]) -> Vec<String> {
    let script = calls.iter().fold(Script::new(), |script, (tool, input)| script.call(*tool, input.clone()).then());
    let model: ScriptServer = script.say("done").serve().await.unwrap();
    let run = world.run(&model).args(MODE).args(flags.iter().copied()).args(["--", "go"]).finish().await;
    run.expect_code(0);
    model.requests().iter().skip(1).map(|request| request.tool_results().pop().unwrap()).collect()
}

fn edit_call(world: &TestWorld, name: &str) -> (&'static str, Value) {
    ("Edit", json!({"file_path": world.path(name), "old_string": "old", "new_string": "new"}))
}

fn write_call(world: &TestWorld, name: &str) -> (&'static str, Value) {
    ("Write", json!({"file_path": world.path(name), "content": "new\n"}))
}

#[tokio::test]
async fn a_model_that_looks_by_itself_need_not_be_made_to_where_the_person_says_so() {
    let trusting = json!({"edit": {"require_read": "model"}});
    let denying = json!({"edit": {"require_read": "model"}, "permissions": {"ask": ["Read(./**)"]}});
    for (settings, flags, may) in [
        (trusting.clone(), &["--model", "claude-opus-5-5"][..], true),
        (trusting.clone(), &["--model", "claude-opus-4-5"], false),
        (trusting.clone(), &["--model", "claude-opus-5-5", "--tools", "Edit,Write"], false),
        (denying, &["--model", "claude-opus-5-5"], false),
        (json!({"edit": {"require_read": "always"}}), &["--model", "claude-opus-5-5"], false),
        (json!({}), &["--model", "claude-opus-5-5"], false),
    ] {
        let world = world();
        write_user_settings(&world, &settings);
        world.file("a.txt", "old\n");
        world.file("b.txt", "old\n");
        let given = run_calls(&world, &[edit_call(&world, "a.txt"), write_call(&world, "b.txt")], flags).await;
        let expected = if may { "new\n" } else { "old\n" };
        let changed = (world.read("a.txt"), world.read("b.txt"));
        assert_eq!(changed, (expected.into(), expected.into()), "{settings} {flags:?}: {given:?}");
    }
}

#[tokio::test]
async fn notebooks_and_files_of_which_only_a_part_was_seen_must_be_read_all_the_same() {
    let world = world();
    write_user_settings(&world, &json!({"edit": {"require_read": "model"}}));
    world.file("a.ipynb", "{}\n");
    let long: String = (1..=9_000).map(|n| format!("old {n}\n")).collect();
    world.file("long.txt", &long);
    world.file("part.txt", "old\nolder\n");
    let calls = [
        write_call(&world, "a.ipynb"),
        ("Read", json!({"file_path": world.path("long.txt")})),
        edit_call(&world, "long.txt"),
        write_call(&world, "long.txt"),
        ("Read", json!({"file_path": world.path("part.txt"), "limit": 1})),
        write_call(&world, "part.txt"),
    ];
    let given = run_calls(&world, &calls, &["--model", "claude-opus-5-5"]).await;
    for (at, why) in [(0, "have not read all"), (2, "only its first page"), (3, "have not read all"), (5, "in part")] {
        assert!(given[at].contains(why), "{at}: {}", given[at]);
    }
    assert_eq!((world.read("a.ipynb").as_str(), world.read("long.txt") == long), ("{}\n", true));
}

#[tokio::test]
async fn a_default_page_holds_for_reads_and_for_files_that_a_prompt_names() {
    let world = world();
    write_user_settings(&world, &json!({"read": {"default_lines": 2}}));
    world.file("a.txt", "1\n2\n3\n");
    let model = Script::new().call("Read", json!({"file_path": world.path("a.txt")})).then().say("done");
    let model = model.serve().await.unwrap();
    world.run(&model).args(["-p", "--", "go"]).finish().await.expect_code(0);
    let told = "[PARTIAL view: lines=1-2 total=3 next_offset=3 reason=default_lines]";
    assert!(model.requests()[1].tool_results()[0].contains(told));
    let model = Script::new().say("done").serve().await.unwrap();
    world.run(&model).args(["-p", "--", "what is in @a.txt?"]).finish().await.expect_code(0);
    assert!(model.requests()[0].body_text().contains(told), "{}", model.requests()[0].body_text());
}
