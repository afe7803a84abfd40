//! What a resumed conversation still knows: files that it read or wrote, and its to-do list.

use serde_json::json;

use super::*;
use crate::world;

/// Another run of the newest session, with these calls one by one.
async fn resume_with_calls<const N: usize>(world: &TestWorld, calls: [(&'static str, Value); N]) -> ScriptServer {
    let model = serve_one_by_one(calls).await;
    let run = world.run(&model).stream("go on").arg("--continue").finish().await;
    run.expect_code(0);
    model
}

/// How the last call of a run went. The history of earlier runs is in every request, so only the last result counts.
fn last_answer(model: &ScriptServer) -> (String, bool) {
    let requests = model.requests();
    tool_answers(requests.last().unwrap()).pop().unwrap()
}

fn edit_call(world: &TestWorld, path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("Edit", json!({"file_path": world.path(path), "old_string": old, "new_string": new}))
}

fn write_call(world: &TestWorld, path: &str, content: &str) -> (&'static str, Value) {
    ("Write", json!({"file_path": world.path(path), "content": content}))
}

#[tokio::test]
async fn a_file_read_before_may_be_changed_after_a_resume_unless_it_changed_meanwhile() {
    let world = world();
    for name in ["same.txt", "other.txt", "printed.txt", "never.txt"] {
        world.file(name, "one\ntwo\ntwo\n");
    }
    let model =
        serve_one_by_one([read_call(&world, "same.txt"), read_call(&world, "other.txt"), bash_call("cat printed.txt")])
            .await;
    run_to_end(&world, &model).await;

    world.file("other.txt", "one\nthree\nthree\n");
    for (path, old, new) in [("same.txt", "one", "1"), ("printed.txt", "one", "1")] {
        let (text, failed) = last_answer(&resume_with_calls(&world, [edit_call(&world, path, old, new)]).await);
        assert!(!failed, "{path}: {text}");
        assert_eq!(world.read(path), "1\ntwo\ntwo\n");
    }
    let (text, failed) = last_answer(&resume_with_calls(&world, [edit_call(&world, "other.txt", "three", "3")]).await);
    assert!(failed && text.contains("changed since you read it"), "{text}");
    let (text, failed) = last_answer(&resume_with_calls(&world, [write_call(&world, "other.txt", "lost")]).await);
    assert!(failed && text.contains("changed since you read it"), "{text}");
    let (text, failed) = last_answer(&resume_with_calls(&world, [edit_call(&world, "never.txt", "one", "1")]).await);
    assert!(failed && text.contains("has not been read"), "{text}");
    // What the edit of an earlier run left is known, too.
    let (text, failed) = last_answer(&resume_with_calls(&world, [write_call(&world, "same.txt", "all new\n")]).await);
    assert!(!failed, "{text}");
    assert_eq!((world.read("same.txt").as_str(), world.read("never.txt").as_str()), ("all new\n", "one\ntwo\ntwo\n"));
}

#[tokio::test]
async fn parts_read_before_and_after_a_resume_make_a_whole() {
    let world = world();
    world.file("a.txt", "one\ntwo\nthree\n");
    let lines =
        |offset: u32, limit: u32| ("Read", json!({"file_path": world.path("a.txt"), "offset": offset, "limit": limit}));
    let model = serve_one_by_one([lines(1, 2)]).await;
    run_to_end(&world, &model).await;
    let (text, failed) = last_answer(&resume_with_calls(&world, [write_call(&world, "a.txt", "lost")]).await);
    assert!(failed && text.contains("only in part"), "{text}");
    let (text, failed) = last_answer(&resume_with_calls(&world, [lines(3, 1)]).await);
    assert!(!failed, "{text}");
    let (text, failed) = last_answer(&resume_with_calls(&world, [write_call(&world, "a.txt", "new\n")]).await);
    assert!(!failed && world.read("a.txt") == "new\n", "{text}");
}

#[tokio::test]
async fn the_to_do_list_is_there_after_a_resume() {
    let world = world();
    let todos = |status: &str| {
        ("TodoWrite", json!({"todos": [{"content": "Test", "activeForm": "Testing", "status": status}]}))
    };
    let model = serve_one_by_one([todos("pending"), todos("in_progress")]).await;
    run_to_end(&world, &model).await;
    resume_with_calls(&world, [todos("completed")]).await;
    let entries = world.transcript_entries();
    let output = entries.iter().rev().find(|entry| entry["toolUseResult"].is_object()).unwrap();
    assert_eq!(output["toolUseResult"]["oldTodos"][0]["status"], "in_progress");
    assert_eq!(output["toolUseResult"]["newTodos"][0]["status"], "completed");
}
