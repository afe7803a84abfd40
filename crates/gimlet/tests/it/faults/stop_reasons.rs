//! Every way in which a complete reply can end.

use gimlet_script::{ExpectedRequest, Script, ScriptedReply};
use gimlet_testkit::RunOutput;
use serde_json::json;

use super::{new_row, play_rows, with_final_answer, with_read_call};

/// A call that the output limit cut in two.
fn with_cut_call(script: Script) -> Script {
    script.call_raw("Write", r#"{"file_path": "{{dir}}/long.txt", "content": "lo"#).stop("max_tokens")
}

fn with_refusal(script: Script, explanation: Option<&str>) -> Script {
    let details = json!({"type": "refusal", "category": null, "explanation": explanation});
    let mut reply = ScriptedReply::say("Words that are taken back.");
    reply.stop_reason = Some(Some("refusal".into()));
    reply.stop_details = Some(details);
    script.reply(reply)
}

#[tokio::test]
async fn a_call_cut_by_the_output_limit_is_asked_again_with_more_room_then_in_parts() {
    let roomy = |tokens: &str| ExpectedRequest {
        body_contains: Some(format!("\"max_tokens\":{tokens},")),
        ..ExpectedRequest::default()
    };
    let once = with_cut_call(Script::new()).then().expect(roomy("64000")).say("done");
    let split = ExpectedRequest { last_user_text: Some("Split it".into()), ..ExpectedRequest::default() };
    let twice = with_cut_call(with_cut_call(Script::new()).then()).then().expect(split.clone()).say("done");
    let more = "asking again with more room";
    let beside = with_cut_call(with_read_call(with_cut_call(Script::new()).then())).then().expect(split).say("done");
    play_rows(vec![
        new_row("once", once).expect_requests(2).expect_notice(more).expect_absent("long.txt"),
        new_row("twice", twice)
            .expect_requests(3)
            .expect_notice(more)
            .expect_absent("long.txt")
            .expect_history("u:text+text u:text a:text u:text"),
        new_row("twice, beside a whole call", beside)
            .expect_requests(3)
            .expect_notice(more)
            .expect_absent("long.txt")
            .expect_history("u:text+text a:call u:result+text a:text u:text"),
        new_row(
            "a read of the void reply was never seen",
            with_final_answer(with_read_call(with_cut_call(with_read_call(Script::new())).then())),
        )
        .expect_requests(3)
        .expect_notice(more)
        .expect_history("u:text+text a:call u:result a:text u:text")
        .check_also(|model, _| assert_eq!(model.request(2).tool_results(), ["1\talpha"])),
        new_row("for ever", with_cut_call(Script::new()).forever())
            .expect_requests(4)
            .expect_notice(more)
            .expect_notice("cut at the output limit")
            .expect_answer("")
            .expect_absent("long.txt")
            .expect_history("u:text+text u:text u:text u:text"),
    ])
    .await;
}

#[tokio::test]
async fn more_room_is_twice_what_was_sent_within_what_the_model_and_the_person_allow() {
    let asks = |tokens: u64| ExpectedRequest {
        body_contains: Some(format!("\"max_tokens\":{tokens},")),
        ..ExpectedRequest::default()
    };
    let grows =
        |from: u64, to: u64| with_cut_call(Script::new().expect(asks(from))).then().expect(asks(to)).say("done");
    let stays = |tokens: u64| {
        let split = ExpectedRequest { last_user_text: Some("Split it".into()), ..asks(tokens) };
        with_cut_call(Script::new().expect(asks(tokens))).then().expect(split).say("done")
    };
    let split = "u:text+text u:text a:text u:text";
    let cap = "CLAUDE_CODE_MAX_OUTPUT_TOKENS";
    play_rows(vec![
        new_row("at the highest effort", grows(64_000, 128_000))
            .with_args(&["--effort", "max"])
            .expect_requests(2)
            .expect_notice("asking again with more room"),
        new_row("a small cap", stays(8_000))
            .with_env(cap, "8000")
            .expect_requests(2)
            .expect_notice("8000 tokens: CLAUDE_CODE_MAX_OUTPUT_TOKENS allows no more")
            .expect_history(split),
        new_row("a large cap", stays(100_000))
            .with_env(cap, "100000")
            .expect_requests(2)
            .expect_notice(cap)
            .expect_history(split),
        new_row("all that the model has", stays(128_000))
            .with_env(cap, "900000")
            .expect_requests(2)
            .expect_notice("no more room")
            .expect_history(split),
    ])
    .await;
}

#[tokio::test]
async fn a_text_cut_by_the_output_limit_is_continued_three_times_at_most() {
    let part = |script: Script| script.say("part").stop("max_tokens");
    let go_on = ExpectedRequest { last_user_text: Some("Go on exactly".into()), ..ExpectedRequest::default() };
    play_rows(vec![
        new_row("once", part(Script::new()).then().expect(go_on).say("done"))
            .expect_requests(2)
            .expect_answer("partdone")
            .expect_history("u:text+text a:text u:text a:text u:text"),
        new_row("for ever", part(Script::new()).forever())
            .expect_requests(4)
            .expect_notice("cut at the output limit")
            .expect_answer("partpartpartpart")
            .expect_history("u:text+text a:text u:text a:text u:text a:text u:text a:text u:text"),
    ])
    .await;
}

#[tokio::test]
async fn a_paused_turn_is_sent_again_unchanged_and_not_for_ever() {
    let search = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "q"}});
    let paused = |script: Script| script.say("Searching.").stop("pause_turn");
    let open = |script: Script| script.raw(search("srvtoolu_1")).stop("pause_turn");
    play_rows(vec![
        new_row("thrice", with_final_answer(paused(Script::new()).times(3)))
            .expect_requests(4)
            .expect_history("u:text+text a:text a:text a:text a:text u:text"),
        new_row("with a search under way", with_final_answer(open(Script::new())))
            .expect_requests(2)
            .expect_history("u:text+text a:server_tool_use a:text u:text"),
        new_row("twenty times", paused(Script::new()).forever())
            .expect_requests(9)
            .expect_answer("Searching.")
            .expect_history("u:text+text a:text a:text a:text a:text a:text a:text a:text a:text a:text u:text"),
    ])
    .await;
}

#[tokio::test]
async fn a_refusal_takes_everything_back_and_is_final() {
    let reading = {
        let mut reply = ScriptedReply::call("Read", json!({"file_path": "{{dir}}/a.txt"}));
        reply.stop_reason = Some(Some("refusal".into()));
        Script::new().reply(reply)
    };
    play_rows(vec![
        new_row("with words", with_refusal(Script::new(), Some("it is unwise")))
            .expect_error("The model refused to answer: it is unwise. Rephrase the request, or choose another model")
            .expect_absent("taken back"),
        new_row("without a reason", with_refusal(Script::new(), None))
            .expect_error("The model refused to answer")
            .expect_absent("taken back"),
        new_row("before anything", Script::new().stop("refusal")).expect_error("The model refused to answer"),
        new_row("after a call", reading).expect_error("The model refused to answer").expect_absent("a.txt"),
        new_row("after a result", with_refusal(with_read_call(Script::new()).then(), None))
            .expect_requests(2)
            .expect_error("The model refused to answer")
            .expect_absent("taken back")
            .expect_history("u:text+text a:call u:result u:text"),
    ])
    .await;
}

#[tokio::test]
async fn a_refusal_is_put_before_the_fallback_model_once() {
    let model = |name: &str| ExpectedRequest { model: Some(name.into()), ..ExpectedRequest::default() };
    let (wanted, other) = ("claude-sonnet-5-5", "claude-haiku-5-5");
    let told = "claude-sonnet-5-5 refused to answer; this turn goes on with claude-haiku-5-5";
    let refused =
        |script: Script| with_refusal(script.expect(model(wanted)), Some("it is unwise")).then().expect(model(other));
    let args = ["--fallback-model", "haiku"];
    play_rows(vec![
        new_row("answered by the other", refused(Script::new()).say("done"))
            .with_args(&args)
            .expect_requests(2)
            .expect_notice(told)
            .expect_absent("taken back")
            .with_resuming_model(other)
            .expect_history("u:text+text a:text u:text")
            .check_also(|_, run| assert_charged_models(run, &["claude-sonnet-5-5", "claude-haiku-5-5"])),
        new_row("the rest of the turn too", with_final_answer(with_read_call(refused(Script::new()))))
            .with_args(&args)
            .expect_requests(3)
            .expect_notice(told)
            .with_resuming_model(other)
            .expect_history("u:text+text a:call u:result a:text u:text")
            .check_also(|model, _| assert_eq!(model.request(2).model(), "claude-haiku-5-5")),
        new_row("refused by both", with_refusal(refused(Script::new()), Some("it is unwise")))
            .with_args(&["--fallback-model", "haiku,opus"])
            .expect_requests(2)
            .expect_notice(told)
            .expect_error("The model refused to answer: it is unwise")
            .check_also(|_, run| assert_charged_models(run, &["claude-sonnet-5-5", "claude-haiku-5-5"])),
    ])
    .await;
}

/// The result counts what each of these models took, refusals too.
fn assert_charged_models(run: &RunOutput, models: &[&str]) {
    let result = run.result();
    let by_model = result["modelUsage"].as_object().unwrap();
    let mut names: Vec<&str> = by_model.keys().map(String::as_str).collect();
    let mut wanted = models.to_vec();
    names.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(names, wanted, "{result}");
    let sum = |key: &str| by_model.values().map(|used| used[key].as_f64().unwrap()).sum::<f64>();
    assert!(by_model.values().all(|used| used["costUSD"].as_f64().unwrap() > 0.0), "{result}");
    assert!((sum("costUSD") - result["total_cost_usd"].as_f64().unwrap()).abs() < 1e-9, "{result}");
    assert_eq!(sum("outputTokens"), result["usage"]["output_tokens"].as_f64().unwrap(), "{result}");
}

#[tokio::test]
async fn an_empty_reply_after_results_is_asked_once_more() {
    let go_on = ExpectedRequest { last_user_text: Some("go on".into()), ..ExpectedRequest::default() };
    play_rows(vec![
        new_row("once", with_read_call(Script::new()).then().stop("end_turn").then().expect(go_on).say("done"))
            .expect_requests(3)
            .expect_history("u:text+text a:call u:result u:text a:text u:text"),
        new_row("twice", with_read_call(Script::new()).then().stop("end_turn").times(2))
            .expect_requests(3)
            .expect_answer("")
            .expect_history("u:text+text a:call u:result u:text u:text"),
        new_row("at once", Script::new().stop("end_turn")).expect_answer("").expect_history("u:text+text u:text"),
        new_row("blank", Script::new().say("  \n").stop("end_turn"))
            .expect_answer("")
            .expect_history("u:text+text u:text"),
    ])
    .await;
}

fn full_window() -> Script {
    Script::new().say("The last words.").stop("model_context_window_exceeded")
}

/// Adds the summary and the answer after it.
fn with_summary(script: Script) -> Script {
    script.then().say("<summary>S</summary>").then().say("done")
}

#[tokio::test]
async fn unknown_reasons_go_by_what_was_said() {
    play_rows(vec![
        new_row("a text", Script::new().say("done").stop("tired")),
        new_row("a call", with_final_answer(with_read_call(Script::new()).stop("tired")))
            .expect_requests(2)
            .expect_history("u:text+text a:call u:result a:text u:text"),
        new_row("a stop sequence", Script::new().say("done").stop("stop_sequence")),
        new_row("a full window", with_summary(full_window()))
            .expect_requests(3)
            .allow_changed_history()
            .expect_history("u:text+text a:text u:text")
            .expect_absent("The last words."),
        new_row("a full window that is not compacted", full_window())
            .with_env("DISABLE_AUTO_COMPACT", "1")
            .expect_error("filled the model's context window")
            .expect_history("u:text+text a:text u:text"),
    ])
    .await;
}
