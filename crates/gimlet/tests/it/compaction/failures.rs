//! Ways in which a compaction fails: the conversation goes on or ends with one clear error, and is never lost.

use gimlet_script::{ModelSpec, Script, ScriptedReply};
use serde_json::{Value, json};

use super::{ASKED, begin_session, first_text};
use crate::world;

fn refusal() -> ScriptedReply {
    ScriptedReply { stop_reason: Some(Some("refusal".into())), ..ScriptedReply::say("no") }
}

fn cut() -> ScriptedReply {
    ScriptedReply { stop_reason: Some(Some("max_tokens".into())), ..ScriptedReply::say("<summary>half a") }
}

fn full(mut reply: ScriptedReply) -> ScriptedReply {
    reply.usage = json!({"input_tokens": 19_500, "cache_read_input_tokens": 0}).as_object().cloned();
    reply
}

/// Runs a turn that is compacted in its middle, with these answers to the requests for the summary, and returns the
/// result line and the request after the compaction.
async fn run_with_summaries(answers: Vec<ScriptedReply>) -> (Value, Option<gimlet_script::ReceivedRequest>) {
    let world = world();
    world.file("a.rs", "fn alpha() {}\n");
    let read = |text: &str| {
        let mut reply = ScriptedReply::call("Read", json!({"file_path": world.path("a.rs")}));
        reply.blocks.insert(0, ScriptedReply::say(text).blocks.remove(0));
        reply
    };
    let mut script = Script::new().reply(read(&"x".repeat(9_000))).then().reply(full(read("again")));
    let count = answers.len();
    for answer in answers {
        script = script.then().reply(answer);
    }
    let model = script.then().say("the end").serve().await.unwrap();
    let run = world.run(&model).stream("THE TASK").args(["--autocompact", "20k"]);
    let run = run.env("GIMLET_TEST_RETRY_DELAY_MS", "1").env("CLAUDE_CODE_MAX_RETRIES", "0").finish().await;
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
    let requests = model.requests();
    (run.result(), requests.into_iter().nth(2 + count))
}

#[tokio::test]
async fn a_summary_that_fails_is_tried_again_without_the_oldest_part() {
    for (name, failure) in [
        ("refused", refusal()),
        ("cut", cut()),
        ("empty", ScriptedReply::say(" ")),
        ("only calls", ScriptedReply::call("Read", json!({"file_path": "/etc/passwd"}))),
        ("too long", ScriptedReply::error(400, "prompt is too long: 208310 tokens > 200000 maximum")),
    ] {
        let (result, after) =
            run_with_summaries(vec![failure, ScriptedReply::say("<summary>SECOND TRY</summary>")]).await;
        assert_eq!(result["result"], "the end", "{name}: {result}");
        let first = first_text(&after.unwrap());
        assert!(first.contains("SECOND TRY") && first.contains("THE TASK"), "{name}: {first}");
    }
}

#[tokio::test]
async fn without_any_summary_the_carried_facts_stand_in() {
    for (name, failure) in [
        ("refused", refusal()),
        ("cut", cut()),
        ("empty", ScriptedReply::say(" ")),
        ("overloaded", ScriptedReply::error(529, "Overloaded")),
        ("a bad gateway", ScriptedReply::error(502, "bad gateway")),
    ] {
        let (result, after) = run_with_summaries(vec![failure.clone(), failure]).await;
        assert_eq!(result["result"], "the end", "{name}: {result}");
        let first = first_text(&after.unwrap());
        assert!(first.contains("No summary of it could be written") && first.contains("THE TASK"), "{name}: {first}");
        assert!(first.contains("fn alpha"), "{name}: {first}");
    }
}

#[tokio::test]
async fn an_error_that_concerns_every_request_ends_the_turn_and_loses_nothing() {
    for (status, reason) in [(401, "authentication_error"), (403, "permission_error")] {
        let (result, _) = run_with_summaries(vec![ScriptedReply::error(status, reason)]).await;
        assert_eq!((&result["is_error"], &result["api_error_status"]), (&json!(true), &json!(status)), "{result}");
    }
    let world = world();
    let id = begin_session(&world, "the start", "THE OLD ANSWER").await;
    let model = Script::new().error(401, "bad key").then().say("fine").serve().await.unwrap();
    let run = world.run(&model).stream("/compact").args(["--resume", &id]).finish().await;
    run.expect_code(1);
    assert!(run.stdout.contains(r#""compact_result":"failed""#), "{}", run.stdout);
    assert!(run.result()["errors"][0].as_str().unwrap().contains("401"), "{}", run.stdout);
    let run = world.run(&model).stream("next").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    assert!(model.request(1).body_text().contains("THE OLD ANSWER"), "the conversation is as it was");
}

#[tokio::test]
async fn a_window_that_the_server_finds_too_small_is_corrected_and_the_prompt_goes_on() {
    let world = world();
    for n in 0..4 {
        world.file(&format!("f{n}.txt"), "some words of a file\n".repeat(700));
    }
    let mut script = Script::new();
    for n in 0..4 {
        let path = world.path(&format!("f{n}.txt"));
        script = script.call("Read", json!({"file_path": path})).then();
    }
    let model = script
        .say("<summary>SHORTER</summary>")
        .then()
        .say("answered")
        .model(ModelSpec { context: Some(19_000), ..ModelSpec::new("claude-sonnet-5-5") })
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("read all of them").finish().await;
    let result = run.expect_code(0).result();
    assert_eq!(result["result"], "answered", "{}", run.stdout);
    assert!(run.stdout.contains("is 19000 tokens here"), "{}", run.stdout);
    let last = model.requests().pop().unwrap();
    assert!(first_text(&last).contains("SHORTER") && first_text(&last).contains("read all of them"));
    let asked = model.requests().into_iter().filter(|request| request.last_user_text().contains(ASKED)).count();
    assert!(asked >= 1, "{asked}");
}

#[tokio::test]
async fn windows_that_fill_at_once_end_the_turn() {
    let world = world();
    world.file("a.rs", "fn alpha() {}\n");
    let read = json!({"file_path": world.path("a.rs")});
    let reply = move |request: &gimlet_script::ReceivedRequest| {
        if request.last_user_text().contains(ASKED) {
            return ScriptedReply::say("<summary>s</summary>");
        }
        let mut reply = full(ScriptedReply::call("Read", read.clone()));
        reply.blocks.insert(0, ScriptedReply::say("x".repeat(9_000)).blocks.remove(0));
        reply
    };
    let model = Script::new().reply_with(reply).forever().serve().await.unwrap();
    let run = world.run(&model).stream("loop").args(["--autocompact", "20k"]).finish().await;
    let result = run.expect_code(1).result();
    assert_eq!(result["terminal_reason"], "rapid_refill_breaker", "{result}");
    let asked = model.requests().iter().filter(|request| request.last_user_text().contains(ASKED)).count();
    assert_eq!(asked, 3, "three windows were refilled");
}

#[tokio::test]
async fn a_window_that_is_no_number_is_refused_or_ignored() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).print_text("hi").args(["--autocompact", "plenty"]).finish().await;
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("--autocompact") && run.stderr.contains("plenty"), "{}", run.stderr);
    let run = world.run(&model).print_text("hi").env("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "plenty").finish().await;
    run.expect_code(0);
    assert!(run.stderr.contains("CLAUDE_CODE_AUTO_COMPACT_WINDOW") && run.stderr.contains("plenty"), "{}", run.stderr);
}
