//! Compaction by itself: before a request of a turn, between two turns, in a subagent; what survives it.

use gimlet_script::{Script, ScriptedReply};
use serde_json::{Value, json};

use super::{ASKED, first_text};
use crate::world;

/// Returns a reply whose usage fills a window of 20,000 tokens.
fn full(mut reply: ScriptedReply) -> ScriptedReply {
    let usage = json!({"input_tokens": 19_500, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0});
    reply.usage = usage.as_object().cloned();
    reply
}

#[tokio::test]
async fn a_turn_goes_on_over_several_compactions_with_everything_that_is_carried() {
    let world = world();
    world.file("a.rs", "fn alpha() {}\n");
    world.file("b.rs", "fn beta() {}\n");
    let todos = json!({"todos": [{"content": "write the lexer", "activeForm": "writing", "status": "in_progress"}]});
    let (a, b) = (world.path("a.rs"), world.path("b.rs"));
    let filler = "an old answer of many words. ".repeat(400);
    let model = Script::new()
        .say(&filler)
        .call("TodoWrite", todos)
        .then()
        .call("Read", json!({"file_path": a}))
        .then()
        .reply(full(ScriptedReply::call("Read", json!({"file_path": b}))))
        .then()
        .say("<summary>FIRST SUMMARY</summary>")
        .then()
        .say(&filler)
        .call("Write", json!({"file_path": world.path("c.rs"), "content": "fn gamma() {}\n"}))
        .then()
        .say(&filler)
        .call("Bash", json!({"command": "echo changed >> a.rs"}))
        .then()
        .reply(full(ScriptedReply::call("Read", json!({"file_path": world.path("c.rs")}))))
        .then()
        .say("<summary>SECOND SUMMARY</summary>")
        .then()
        .say("all done")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("write a compiler, in the user's words").args(["--autocompact", "20k"]);
    let run = run.finish().await;
    let result = run.expect_code(0).result();
    assert_eq!(result["result"], "all done", "{}", run.stdout);
    assert_eq!(result["num_turns"], 7, "a summary is no turn");
    let boundaries: Vec<Value> = run.lines().into_iter().filter(|line| line["subtype"] == "compact_boundary").collect();
    assert_eq!(boundaries.len(), 2, "{}", run.stdout);
    assert!(boundaries.iter().all(|line| line["compact_metadata"]["trigger"] == "auto"));

    for asked in [3, 7] {
        assert!(model.request(asked).last_user_text().contains(ASKED), "{asked}");
        assert!(model.prefix_equal(asked - 1, asked), "{:?}", model.prefix_difference(asked - 1, asked));
    }
    let first = first_text(&model.request(4));
    for part in [
        "FIRST SUMMARY",
        "write a compiler, in the user's words",
        "[in progress] write the lexer",
        "fn alpha",
        "fn beta",
    ] {
        assert!(first.contains(part), "{part} in {first}");
    }
    assert!(!model.request(4).body_text().contains("an old answer"), "nothing of the old answers");
    assert_eq!(model.request(4).message_count(), 1);
    let second = first_text(&model.request(8));
    for part in [
        "SECOND SUMMARY",
        "write a compiler, in the user's words",
        "[in progress] write the lexer",
        "c.rs (changed by you; unchanged since)",
        "a.rs (read; changed on disk since)",
        "fn gamma",
    ] {
        assert!(second.contains(part), "{part} in {second}");
    }
    assert!(!model.request(8).body_text().contains("an old answer"));
    assert!(model.rejections().is_empty() && model.failures().is_empty(), "{:?}", model.rejections());
    assert_eq!(model.unplayed(), 0);

    let id = result["session_id"].as_str().unwrap();
    let list = json!({"todos": [{"content": "write the lexer", "activeForm": "w", "status": "completed"}]});
    let next = Script::new().call("TodoWrite", list).then().say("ok").serve().await.unwrap();
    let run = world.run(&next).stream("go on").args(["--resume", id]).finish().await;
    run.expect_code(0);
    assert!(first_text(&next.request(0)).contains("SECOND SUMMARY"), "{}", first_text(&next.request(0)));
    let outcome = run.lines().into_iter().find(|line| !line["tool_use_result"].is_null()).unwrap();
    assert_eq!(outcome["tool_use_result"]["oldTodos"][0]["content"], "write the lexer", "the list came along");
}

#[tokio::test]
async fn a_file_whose_content_is_gone_must_be_read_again() {
    let world = world();
    let long = "let line = 1;\n".repeat(3_000);
    world.file("long.rs", &long);
    let path = world.path("long.rs");
    let edit = json!({"file_path": path, "old_string": "let line = 1;\n", "new_string": "", "replace_all": true});
    let model = Script::new()
        .say("x".repeat(9_000))
        .reply(full(ScriptedReply::call("Read", json!({"file_path": path, "limit": 2_000}))))
        .then()
        .say("<summary>s</summary>")
        .then()
        .call("Edit", edit)
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("edit it").args(["--autocompact", "20k"]).finish().await;
    run.expect_code(0);
    assert!(model.request(3).tool_result(0).contains("read"), "{}", model.request(3).tool_result(0));
    assert_eq!(world.read("long.rs"), long);
}

#[tokio::test]
async fn a_prompt_that_comes_to_a_full_window_stands_behind_the_summary() {
    let world = world();
    let model = Script::new().reply(full(ScriptedReply::say("y".repeat(100_000)))).serve().await.unwrap();
    let run = world.run(&model).stream("one").args(["--autocompact", "20k"]).finish().await;
    let id = run.expect_code(0).result()["session_id"].as_str().unwrap().to_owned();
    // What an earlier run reported is not known any more; its estimate is.
    let small = Script::new().say("<summary>SHORT</summary>").then().say("two").serve().await.unwrap();
    let run = world.run(&small).stream(&"word ".repeat(15_000)).args(["--resume", &id, "--model", "tiny"]);
    let run = run.env("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "5").finish().await;
    run.expect_code(0);
    let request = small.request(1);
    assert!(first_text(&request).contains("SHORT"), "{}", run.stdout);
    assert!(request.last_user_text().contains("word word"));
    let entries = world.transcript_entries();
    let at = |found: &dyn Fn(&Value) -> bool| entries.iter().position(found).unwrap();
    let summary = at(&|entry| entry["isCompactSummary"] == true);
    let prompt = at(&|entry| entry["message"]["content"].as_str().is_some_and(|text| text.starts_with("word word")));
    assert!(summary < prompt, "the prompt is an entry of the new segment");
}

#[tokio::test]
async fn a_subagent_is_compacted_like_the_main_conversation() {
    let world = world();
    world.file("a.rs", "fn alpha() {}\n");
    let read = json!({"file_path": world.path("a.rs")});
    let agent = json!({"description": "look", "prompt": "find THE NEEDLE", "subagent_type": "general-purpose"});
    let mut busy = full(ScriptedReply::call("Read", read));
    busy.blocks.insert(0, ScriptedReply::say("z".repeat(9_000)).blocks.remove(0));
    let model = Script::new()
        .call("Agent", agent)
        .then()
        .reply(busy)
        .then()
        .say("<summary>AGENT SUMMARY</summary>")
        .then()
        .say("the report")
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("send one").args(["--autocompact", "20k"]).finish().await;
    run.expect_code(0);
    let first = first_text(&model.request(3));
    assert!(first.contains("AGENT SUMMARY") && first.contains("THE NEEDLE"), "{first}");
    assert_eq!(model.request(4).message_count(), 3, "the main conversation is as it was");
    assert!(!run.stdout.contains("compact_boundary"), "it is the agent's own affair");
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
}
