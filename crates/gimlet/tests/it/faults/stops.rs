//! Every way in which a complete reply can end.

use gimlet_script::{Expect, Reply, Script};
use gimlet_testkit::RunOutput;
use serde_json::json;

use super::{play, reads, row, then_done};

/// A call that the output limit cut in two.
fn cut_call(script: Script) -> Script {
    script.call_raw("Write", r#"{"file_path": "{{dir}}/long.txt", "content": "lo"#).stop("max_tokens")
}

fn refusal(script: Script, explanation: Option<&str>) -> Script {
    let details = json!({"type": "refusal", "category": null, "explanation": explanation});
    let mut reply = Reply::say("Words that are taken back.");
    reply.stop_reason = Some(Some("refusal".into()));
    reply.stop_details = Some(details);
    script.reply(reply)
}

#[tokio::test]
async fn a_call_cut_by_the_output_limit_is_asked_again_with_more_room_then_in_parts() {
    let roomy = |tokens: &str| Expect { body_contains: Some(format!("\"max_tokens\":{tokens},")), ..Expect::default() };
    let once = cut_call(Script::new()).then().expect(roomy("64000")).say("done");
    let split = Expect { last_user_text: Some("Split it".into()), ..Expect::default() };
    let twice = cut_call(cut_call(Script::new()).then()).then().expect(split.clone()).say("done");
    let more = "asking again with more room";
    let beside = cut_call(reads(cut_call(Script::new()).then())).then().expect(split).say("done");
    play(vec![
        row("once", once).requests(2).notice(more).lacks("long.txt"),
        row("twice", twice).requests(3).notice(more).lacks("long.txt").history("u:text+text u:text a:text u:text"),
        row("twice, beside a whole call", beside)
            .requests(3)
            .notice(more)
            .lacks("long.txt")
            .history("u:text+text a:call u:result+text a:text u:text"),
        row("a read of the void reply was never seen", then_done(reads(cut_call(reads(Script::new())).then())))
            .requests(3)
            .notice(more)
            .history("u:text+text a:call u:result a:text u:text")
            .further(|model, _| assert_eq!(model.request(2).tool_results(), ["1\talpha"])),
        row("for ever", cut_call(Script::new()).forever())
            .requests(4)
            .notice(more)
            .notice("cut at the output limit")
            .answers("")
            .lacks("long.txt")
            .history("u:text+text u:text u:text u:text"),
    ])
    .await;
}

#[tokio::test]
async fn more_room_is_twice_what_was_sent_within_what_the_model_and_the_person_allow() {
    let asks = |tokens: u64| Expect { body_contains: Some(format!("\"max_tokens\":{tokens},")), ..Expect::default() };
    let grows = |from: u64, to: u64| cut_call(Script::new().expect(asks(from))).then().expect(asks(to)).say("done");
    let stays = |tokens: u64| {
        let split = Expect { last_user_text: Some("Split it".into()), ..asks(tokens) };
        cut_call(Script::new().expect(asks(tokens))).then().expect(split).say("done")
    };
    let split = "u:text+text u:text a:text u:text";
    let cap = "CLAUDE_CODE_MAX_OUTPUT_TOKENS";
    play(vec![
        row("at the highest effort", grows(64_000, 128_000))
            .args(&["--effort", "max"])
            .requests(2)
            .notice("asking again with more room"),
        row("a small cap", stays(8_000))
            .env(cap, "8000")
            .requests(2)
            .notice("8000 tokens: CLAUDE_CODE_MAX_OUTPUT_TOKENS allows no more")
            .history(split),
        row("a large cap", stays(100_000)).env(cap, "100000").requests(2).notice(cap).history(split),
        row("all that the model has", stays(128_000))
            .env(cap, "900000")
            .requests(2)
            .notice("no more room")
            .history(split),
    ])
    .await;
}

#[tokio::test]
async fn a_text_cut_by_the_output_limit_is_continued_three_times_at_most() {
    let part = |script: Script| script.say("part").stop("max_tokens");
    let go_on = Expect { last_user_text: Some("Go on exactly".into()), ..Expect::default() };
    play(vec![
        row("once", part(Script::new()).then().expect(go_on).say("done"))
            .requests(2)
            .answers("partdone")
            .history("u:text+text a:text u:text a:text u:text"),
        row("for ever", part(Script::new()).forever())
            .requests(4)
            .notice("cut at the output limit")
            .answers("partpartpartpart")
            .history("u:text+text a:text u:text a:text u:text a:text u:text a:text u:text"),
    ])
    .await;
}

#[tokio::test]
async fn a_paused_turn_is_sent_again_unchanged_and_not_for_ever() {
    let search = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "q"}});
    let paused = |script: Script| script.say("Searching.").stop("pause_turn");
    let open = |script: Script| script.raw(search("srvtoolu_1")).stop("pause_turn");
    play(vec![
        row("thrice", then_done(paused(Script::new()).times(3)))
            .requests(4)
            .history("u:text+text a:text a:text a:text a:text u:text"),
        row("with a search under way", then_done(open(Script::new())))
            .requests(2)
            .history("u:text+text a:server_tool_use a:text u:text"),
        row("twenty times", paused(Script::new()).forever())
            .requests(9)
            .answers("Searching.")
            .history("u:text+text a:text a:text a:text a:text a:text a:text a:text a:text a:text u:text"),
    ])
    .await;
}

#[tokio::test]
async fn a_refusal_takes_everything_back_and_is_final() {
    let reading = {
        let mut reply = Reply::call("Read", json!({"file_path": "{{dir}}/a.txt"}));
        reply.stop_reason = Some(Some("refusal".into()));
        Script::new().reply(reply)
    };
    play(vec![
        row("with words", refusal(Script::new(), Some("it is unwise")))
            .fails("The model refused to answer: it is unwise. Rephrase the request, or choose another model")
            .lacks("taken back"),
        row("without a reason", refusal(Script::new(), None)).fails("The model refused to answer").lacks("taken back"),
        row("before anything", Script::new().stop("refusal")).fails("The model refused to answer"),
        row("after a call", reading).fails("The model refused to answer").lacks("a.txt"),
        row("after a result", refusal(reads(Script::new()).then(), None))
            .requests(2)
            .fails("The model refused to answer")
            .lacks("taken back")
            .history("u:text+text a:call u:result u:text"),
    ])
    .await;
}

#[tokio::test]
async fn a_refusal_is_put_before_the_fallback_model_once() {
    let model = |name: &str| Expect { model: Some(name.into()), ..Expect::default() };
    let (wanted, other) = ("claude-sonnet-5-5", "claude-haiku-5-5");
    let told = "claude-sonnet-5-5 refused to answer; this turn goes on with claude-haiku-5-5";
    let refused =
        |script: Script| refusal(script.expect(model(wanted)), Some("it is unwise")).then().expect(model(other));
    let args = ["--fallback-model", "haiku"];
    play(vec![
        row("answered by the other", refused(Script::new()).say("done"))
            .args(&args)
            .requests(2)
            .notice(told)
            .lacks("taken back")
            .resumed_with(other)
            .history("u:text+text a:text u:text")
            .further(|_, run| pays_for(run, &["claude-sonnet-5-5", "claude-haiku-5-5"])),
        row("the rest of the turn too", then_done(reads(refused(Script::new()))))
            .args(&args)
            .requests(3)
            .notice(told)
            .resumed_with(other)
            .history("u:text+text a:call u:result a:text u:text")
            .further(|model, _| assert_eq!(model.request(2).model(), "claude-haiku-5-5")),
        row("refused by both", refusal(refused(Script::new()), Some("it is unwise")))
            .args(&["--fallback-model", "haiku,opus"])
            .requests(2)
            .notice(told)
            .fails("The model refused to answer: it is unwise")
            .further(|_, run| pays_for(run, &["claude-sonnet-5-5", "claude-haiku-5-5"])),
    ])
    .await;
}

/// The result counts what each of these models took, refusals too.
fn pays_for(run: &RunOutput, models: &[&str]) {
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
    let go_on = Expect { last_user_text: Some("go on".into()), ..Expect::default() };
    play(vec![
        row("once", reads(Script::new()).then().stop("end_turn").then().expect(go_on).say("done"))
            .requests(3)
            .history("u:text+text a:call u:result u:text a:text u:text"),
        row("twice", reads(Script::new()).then().stop("end_turn").times(2))
            .requests(3)
            .answers("")
            .history("u:text+text a:call u:result u:text u:text"),
        row("at once", Script::new().stop("end_turn")).answers("").history("u:text+text u:text"),
        row("blank", Script::new().say("  \n").stop("end_turn")).answers("").history("u:text+text u:text"),
    ])
    .await;
}

#[tokio::test]
async fn unknown_reasons_go_by_what_was_said() {
    play(vec![
        row("a text", Script::new().say("done").stop("tired")),
        row("a call", then_done(reads(Script::new()).stop("tired")))
            .requests(2)
            .history("u:text+text a:call u:result a:text u:text"),
        row("a stop sequence", Script::new().say("done").stop("stop_sequence")),
        row("a full window", Script::new().say("The last words.").stop("model_context_window_exceeded"))
            .fails("filled the model's context window")
            .history("u:text+text a:text u:text"),
    ])
    .await;
}
