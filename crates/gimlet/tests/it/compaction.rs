//! Compaction of the real binary: on request and by itself, what the next request then holds, and every way to fail.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

mod automatic;
mod failures;
mod survival;

use std::path::PathBuf;

use gimlet_script::{ReceivedRequest, Script};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::world;

/// Part of the text by which a summary is asked for.
pub(super) const ASKED: &str = "Write the summary inside <summary>";

/// Runs a session of one exchange and returns its id.
async fn begin_session(world: &TestWorld, prompt: &str, answer: &str) -> String {
    let model = Script::new().say(answer).serve().await.unwrap();
    let run = world.run(&model).stream(prompt).finish().await;
    run.expect_code(0).result()["session_id"].as_str().unwrap().to_owned()
}

/// Returns the subtypes of the lines, with the status of status lines.
fn outline(run: &RunOutput) -> Vec<String> {
    let name = |line: &Value| match line["subtype"].as_str() {
        Some("status") => format!("status {}", line["status"]),
        Some(subtype) => subtype.to_owned(),
        None => line["type"].as_str().unwrap().to_owned(),
    };
    run.lines().iter().map(name).collect()
}

/// Returns the text of the first message that is no context.
pub(super) fn first_text(request: &ReceivedRequest) -> String {
    request.messages()[0].to_string()
}

#[tokio::test]
async fn a_resumed_session_is_compacted_on_request_and_goes_on_from_the_summary() {
    let world = world();
    let id = begin_session(&world, "build the parser, and never touch legacy.rs", "A long secret answer.").await;
    let model = Script::new().say("thinking aloud <summary>The parser is half done.</summary>").serve().await.unwrap();
    let run = world.run(&model).stream("/compact the error paths").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    assert_eq!(
        outline(&run),
        ["init", "status \"compacting\"", "compact_boundary", "user", "status null", "success"],
        "{}",
        run.stdout
    );
    let lines = run.lines();
    let metadata = &lines[2]["compact_metadata"];
    assert_eq!(metadata["trigger"], "manual", "{metadata}");
    assert!(metadata["pre_tokens"].as_u64() > Some(0) && metadata["post_tokens"].as_u64() > Some(0), "{metadata}");
    assert_eq!((&lines[3]["isSynthetic"], &lines[4]["compact_result"]), (&json!(true), &json!("success")));
    assert!(lines[3]["message"]["content"].as_str().unwrap().starts_with("This session is being continued"));
    let result = run.result();
    assert_eq!((&result["result"], &result["is_error"]), (&json!(""), &json!(false)), "{result}");
    assert!(result["total_cost_usd"].as_f64() > Some(0.0) && result["usage"]["output_tokens"].as_u64() > Some(0));
    let asked = model.request(0);
    assert!(asked.last_user_text().contains(ASKED) && asked.last_user_text().contains("the error paths"));
    assert!(asked.body_text().contains("A long secret answer"), "the whole history is summarised");
    assert!(asked.tool_names().contains(&"Read".to_owned()), "the tools stay, for the cache");

    let next = Script::new().say("going on").serve().await.unwrap();
    let run = world.run(&next).stream("what is left?").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    let request = next.request(0);
    let first = first_text(&request);
    for part in ["The parser is half done.", "never touch legacy.rs", "conversation-summary", "Working directory"] {
        assert!(first.contains(part), "{part} in {first}");
    }
    assert!(!request.body_text().contains("secret answer") && !request.body_text().contains("thinking aloud"));
    assert!(request.last_user_text().contains("what is left?"));
    assert!(next.rejections().is_empty() && next.failures().is_empty(), "{:?}", next.rejections());
    let entries = world.transcript_entries();
    assert!(entries.iter().any(|entry| entry.to_string().contains("A long secret answer")), "nothing is removed");
    let boundary = entries.iter().find(|entry| entry["subtype"] == "compact_boundary").unwrap();
    assert_eq!(boundary["parentUuid"], Value::Null);
    let summary = entries.iter().find(|entry| entry["isCompactSummary"] == true).unwrap();
    assert_eq!(summary["parentUuid"], boundary["uuid"]);
}

#[tokio::test]
async fn text_mode_says_what_was_done_and_nothing_else() {
    let world = world();
    let id = begin_session(&world, "hello", "hi").await;
    let model = Script::new().say("<summary>s</summary>").serve().await.unwrap();
    let run = world.run(&model).print_text("/compact").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with("gimlet: the conversation was compacted: about "), "{}", run.stderr);
}

#[tokio::test]
async fn too_little_history_and_a_switch_that_is_off_are_said() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).stream("/compact").finish().await;
    assert_eq!(run.expect_code(0).result()["result"], "Not enough messages to compact.");
    let id = begin_session(&world, "hello", "hi").await;
    let run = world.run(&model).stream("/compact").args(["--resume", &id]).env("DISABLE_COMPACT", "1").finish().await;
    run.expect_code(1);
    assert!(run.result()["errors"][0].as_str().unwrap().contains("DISABLE_COMPACT"), "{}", run.stdout);
    assert_eq!(model.requests().len(), 0);
}

#[tokio::test]
async fn hooks_see_a_compaction_and_can_block_it() {
    let world = world();
    let id = begin_session(&world, "hello", "hi").await;
    let log = world.project.join("hooks.log");
    let write = |path: &PathBuf| json!({"hooks": [{"type": "command", "command": format!("cat >> '{}'; echo >> '{}'", path.display(), path.display())}]});
    let settings = json!({"hooks": {
        "PreCompact": [{"matcher": "manual", "hooks": write(&log)["hooks"]}],
        "PostCompact": [write(&log)],
        "SessionStart": [{"matcher": "compact", "hooks": [{"type": "command", "command": "echo said at compact"}]}],
    }});
    let model = Script::new().say("<summary>the point</summary>").then().say("ok").serve().await.unwrap();
    let compact = |settings: &Value| {
        world.run(&model).stream("/compact dwell here").args(["--resume", &id, "--settings", &settings.to_string()])
    };
    compact(&settings).finish().await.expect_code(0);
    let seen: Vec<Value> =
        std::fs::read_to_string(&log).unwrap().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(seen[0]["hook_event_name"], "PreCompact");
    assert_eq!((&seen[0]["trigger"], &seen[0]["custom_instructions"]), (&json!("manual"), &json!("dwell here")));
    assert_eq!(
        (&seen[1]["hook_event_name"], &seen[1]["compact_summary"]),
        (&json!("PostCompact"), &json!("the point"))
    );
    let run = world.run(&model).stream("next").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    assert!(first_text(&model.request(1)).contains("said at compact"), "{}", first_text(&model.request(1)));

    let blocking = json!({"hooks": {"PreCompact": [
        {"hooks": [{"type": "command", "command": "echo not on fridays >&2; exit 2"}]}]}});
    let run = compact(&blocking).finish().await;
    run.expect_code(1);
    assert!(run.result()["errors"][0].as_str().unwrap().contains("not on fridays"), "{}", run.stdout);
    assert_eq!(model.requests().len(), 2, "nothing is asked for");
}
