//! What is sent: which tools, which prompt, how much of it; and the shapes that programs read back.

use gimlet_script::Script;
use serde_json::json;

use super::*;
use crate::world;

/// The first request of a run with these flags.
async fn first_request(flags: &[&str]) -> ReceivedRequest {
    let world = world();
    let model = serve_script(Script::new().say("done")).await;
    world.run(&model).args(flags.iter().copied()).args(["-p", "--", "go"]).finish().await.expect_code(0);
    assert_all_played(&model);
    model.request(0)
}

#[tokio::test]
async fn flags_choose_the_tools_that_the_model_is_offered() {
    let all = first_request(&[]).await.tool_names();
    assert!(
        ["Bash", "Read", "Write", "Edit", "Glob", "Grep", "TodoWrite"].iter().all(|name| all.contains(&(*name).into()))
    );
    assert_eq!(first_request(&["--tools", ""]).await.tool_names(), Vec::<String>::new());
    assert_eq!(first_request(&["--tools", "Read,Grep"]).await.tool_names(), ["Read", "Grep"]);
    let denied = first_request(&["--disallowedTools", "Bash"]).await;
    assert!(!denied.tool_names().contains(&"Bash".to_owned()) && denied.tool_names().len() < all.len());
    assert_eq!(first_request(&["--disallowedTools", "Bash(rm *)"]).await.tool_names(), all);
}

#[tokio::test]
async fn a_call_of_a_tool_that_was_not_offered_is_answered_as_unknown() {
    let world = world();
    let model = serve_in_one_reply([bash_call("touch made")]).await;
    let run = world.run(&model).args(["--disallowedTools", "Bash", "--dangerously-skip-permissions", "-p", "--", "go"]);
    run.finish().await.expect_code(0);
    assert_all_played(&model);
    assert!(tool_error(&model, 1).contains("no tool named Bash"), "{}", tool_error(&model, 1));
    assert!(!world.project.join("made").exists());
}

#[tokio::test]
async fn the_system_prompt_can_be_extended_and_replaced() {
    let plain = first_request(&[]).await.system_text();
    let more = first_request(&["--append-system-prompt", "Speak like a pirate."]).await.system_text();
    assert!(more.starts_with(plain.trim_end()) && more.trim_end().ends_with("Speak like a pirate."), "{more}");
    let other = first_request(&["--system-prompt", "You are a pirate."]).await.system_text();
    assert!(other.contains("You are a pirate.") && !other.contains("gimlet"), "{other}");
}

#[tokio::test]
async fn what_every_request_carries_stays_small() {
    let body = first_request(&[]).await.json();
    let size = body["system"].to_string().len() + body["tools"].to_string().len();
    assert!(size < 16_000, "system and tools have {size} bytes");
}

#[tokio::test]
async fn the_same_start_sends_the_same_bytes() {
    let world = world();
    let model = serve_script(Script::new().say("one").then().say("two")).await;
    for _ in 0..2 {
        world.run(&model).print_text("go").finish().await.expect_code(0);
    }
    assert_all_played(&model);
    assert!(model.prefix_equal(0, 1), "{:?}", model.prefix_difference(0, 1));
}

#[tokio::test]
async fn probe_25_a_todo_list_comes_back_in_the_shape_that_programs_read() {
    let world = world();
    let item =
        |content: &str, form: &str, status: &str| json!({"content": content, "activeForm": form, "status": status});
    let first =
        json!([item("Add the flag", "Adding the flag", "in_progress"), item("Test it", "Testing it", "pending")]);
    let second =
        json!([item("Add the flag", "Adding the flag", "completed"), item("Test it", "Testing it", "in_progress")]);
    let model = serve_one_by_one([
        ("TodoWrite", json!({"todos": first})),
        ("TodoWrite", json!({"todos": second})),
        ("TodoWrite", json!({"todos": [{"content": "x", "status": "done"}]})),
    ])
    .await;
    world.run(&model).print_text("go").finish().await.expect_code(0);
    assert_all_played(&model);
    for index in [1, 2] {
        let text = tool_success(&model, index);
        assert!(text.contains("updated") && !text.contains('\n') && text.len() < 120, "{text}");
    }
    let wrong = tool_error(&model, 3);
    assert!(wrong.contains("todos[0].activeForm") && wrong.contains("in_progress"), "{wrong}");
    let outputs: Vec<Value> = world
        .transcript_entries()
        .into_iter()
        .filter(|entry| entry["toolUseResult"]["newTodos"].is_array())
        .map(|entry| entry["toolUseResult"].clone())
        .collect();
    assert_eq!(outputs, [json!({"oldTodos": [], "newTodos": first}), json!({"oldTodos": first, "newTodos": second})]);
}
