//! Answers that are no success: which are sent again, how long that waits, and which are final.

use std::time::{Duration, SystemTime};

use gimlet_script::{Close, ErrorSpec, Expect, Fault, Reply, Script};

use super::{Row, play, reads, row, then_done};

/// Answers this status so often, with this header, and then properly.
fn passing(status: u16, times: u32, header: Option<(&str, &str)>) -> Script {
    let mut script = Script::new().status(status).times(times);
    if let Some((name, value)) = header {
        script = script.header(name, value);
    }
    then_done(script)
}

fn coded(status: u16, code: &str, message: &str) -> Script {
    let error = ErrorSpec { message: message.into(), code: Some(code.into()), ..ErrorSpec::default() };
    Script::new().reply(Reply { status: Some(status), error: Some(error), ..Reply::default() })
}

#[tokio::test]
async fn what_may_pass_is_sent_again_with_the_same_bytes() {
    let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(2));
    let wait = |value: &'static str| Some(("retry-after", value));
    play(vec![
        row("429, milliseconds", passing(429, 2, Some(("retry-after-ms", "5")))).retried(2),
        row("429, a part of a second", passing(429, 1, wait("0.02"))).retried(1),
        row("429, a date", passing(429, 1, Some(("retry-after", &soon)))).retried(1),
        row("429, zero", passing(429, 1, wait("0"))).retried(1),
        row("429, negative", passing(429, 1, wait("-3"))).retried(1),
        row("529", passing(529, 3, None)).retried(3),
        row("500", passing(500, 2, None)).retried(2),
        row("502", passing(502, 1, None)).retried(1),
        row("503", passing(503, 1, None)).retried(1),
        row("504", passing(504, 2, None)).retried(2),
        row("408", passing(408, 1, None)).retried(1),
        row("409", passing(409, 1, None)).retried(1),
        row("529 for longer than the budget, with nobody waiting", passing(529, 4, Some(("retry-after-ms", "5"))))
            .env("GIMLET_MAX_RETRIES", "1")
            .env("GIMLET_RETRY_WATCHDOG", "1")
            .retried(4),
        row("400 that asks for it", passing(400, 1, Some(("x-should-retry", "true")))).retried(1),
    ])
    .await;
}

#[tokio::test]
async fn what_is_final_is_told_once() {
    let limit = "You have reached your specified API usage limits";
    play(vec![
        row("401", Script::new().error(401, "invalid x-api-key")).fails("401 invalid x-api-key"),
        row("402", Script::new().error(402, "no credit")).fails("402 no credit"),
        row("403", Script::new().error(403, "not for you")).fails("403 not for you"),
        row("404", Script::new().error(404, "model: claude-x")).fails("404 model: claude-x"),
        row("413", Script::new().error(413, "too many bytes")).fails("413 too many bytes"),
        row("418", Script::new().error(418, "a teapot")).fails("418 a teapot"),
        row("400", Script::new().error(400, limit)).fails(limit),
        row("429 by a spending cap", coded(429, "enforced_spend_limit_reached", "cap until 1 December"))
            .fails("429 cap until 1 December"),
        row("429 by a usage limit", Script::new().error(429, limit)).fails(limit),
        row("429 for an hour", Script::new().error(429, "slow down").header("retry-after", "3600"))
            .fails("asks to wait 3600 s"),
        row("500 that forbids it", Script::new().error(500, "broken").header("x-should-retry", "false"))
            .fails("500 broken"),
        row("400 that asks for it for ever", Script::new().error(400, "no").header("x-should-retry", "true").forever())
            .retried(1)
            .fails("400 no"),
        row("504 for ever", Script::new().error(504, "too long").forever()).retried(2).fails("504 too long"),
        row("529 beyond the budget", Script::new().error(529, "overloaded").forever())
            .env("GIMLET_MAX_RETRIES", "2")
            .retried(2)
            .fails("529 overloaded"),
        row(
            "429 that names the limit",
            Script::new()
                .error(429, "slow down")
                .header("retry-after", "3600")
                .header("anthropic-ratelimit-input-tokens-limit", "40000")
                .header("anthropic-ratelimit-input-tokens-remaining", "0"),
        )
        .fails("slow down (input-tokens: 0 of 40000 left)"),
        row("529 without a budget", Script::new().error(529, "overloaded"))
            .env("GIMLET_MAX_RETRIES", "0")
            .fails("529 overloaded"),
    ])
    .await;
}

/// The histories of these rows are right, so there is nothing to mend.
#[tokio::test]
async fn a_history_that_the_server_calls_broken_is_not_sent_again_as_it_was() {
    let prefill =
        "This model does not support assistant message prefill. The conversation must end with a user message.";
    let paused = |script: Script| script.say("Searching.").stop("pause_turn");
    let go_on = Expect { last_user_text: Some("go on".into()), ..Expect::default() };
    play(vec![
        row("a pairing error that is not ours", Script::new().error(400, PAIRING).forever())
            .requests(1)
            .fails("without `tool_result`"),
        row("a pairing error behind a call", reads(Script::new()).then().error(400, PAIRING))
            .requests(2)
            .fails("without `tool_result`")
            .history("u:text+text a:call u:result u:text"),
        row("no prefill", paused(Script::new()).then().error(400, prefill).then().expect(go_on).say("done"))
            .requests(3)
            .history("u:text+text a:text u:text a:text u:text"),
        row("no prefill, and no reply to go on from", Script::new().error(400, prefill)).fails("prefill"),
        row("a task budget", then_done_if(Script::new().error(400, TASK_BUDGET), lacks("task_budget")))
            .args(&["--task-budget", "50000"])
            .requests(2)
            .notice("does not take a task budget"),
    ])
    .await;
}

fn lacks(word: &str) -> Expect {
    Expect { body_lacks: Some(word.into()), ..Expect::default() }
}

const TASK_BUDGET: &str = "output_config.task_budget: Extra inputs are not permitted";
const PAIRING: &str = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_x";

#[tokio::test]
async fn a_failure_inside_a_tool_turn_loses_nothing() {
    let history = "u:text+text a:call u:result a:text u:text";
    play(vec![
        row("529 after a result", then_done(reads(Script::new()).then().status(529).header("retry-after-ms", "5")))
            .requests(3)
            .retries_told(1)
            .history(history)
            .further(|model, _| assert!(model.retry_identical(1, 2))),
        row("401 after a result", reads(Script::new()).then().error(401, "revoked"))
            .requests(2)
            .fails("401 revoked")
            .history("u:text+text a:call u:result u:text"),
    ])
    .await;
}

#[tokio::test]
async fn an_option_that_the_server_refuses_is_left_out_from_then_on() {
    let effort = Script::new().error(400, "output_config.effort: Extra inputs are not permitted").then();
    play(vec![
        row("effort", reads(effort.expect(lacks("output_config"))).then().expect(lacks("output_config")).say("done"))
            .args(&["--effort", "high"])
            .requests(3)
            .notice("does not take an effort setting")
            .history("u:text+text a:call u:result a:text u:text"),
        row("effort, refused again", Script::new().error(400, "output_config.effort: no").times(2))
            .args(&["--effort", "high"])
            .requests(2)
            .notice("does not take an effort setting")
            .fails("output_config.effort: no"),
    ])
    .await;
}

#[tokio::test]
async fn thinking_that_the_server_no_longer_takes_is_dropped_then_left_out() {
    let thought = || reads(Script::new().think("hm"));
    let bound = "messages.1.content.0: this block is bound to a different conversation";
    let dropping = Expect { body_contains: Some("drop_block".into()), ..Expect::default() };
    let stripped = Expect { body_lacks: Some("\"type\":\"thinking\"".into()), ..Expect::default() };
    play(vec![
        row("dropped by the server", then_done_if(thought().then().error(400, bound), dropping))
            .requests(3)
            .notice("earlier thinking no longer fits")
            .history("u:text+text a:think+call u:result a:text u:text"),
        row(
            "left out by gimlet",
            then_done_if(
                thought().then().error(400, "messages.1.content.0: Invalid `signature` in `thinking` block"),
                stripped,
            ),
        )
        .requests(3)
        .notice("earlier thinking no longer fits")
        .without_extension()
        .history("u:text+text a:think+call u:result a:text u:text"),
    ])
    .await;
}

fn then_done_if(script: Script, expect: Expect) -> Script {
    script.then().expect(expect).say("done")
}

#[tokio::test]
async fn an_upload_that_is_cut_off_is_told_as_too_large_and_taken_back() {
    let rows = [("closed", Close::Fin), ("reset", Close::Rst)].into_iter().map(|(name, how)| {
        let refusal = Fault::RefuseUpload { after_bytes: 200_000, status: 413, how };
        row(name, Script::new().fault(refusal).forever())
            .stdin("word ".repeat(900_000))
            .env("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "2000000")
            .refused_by_rule()
            .retried(1)
            .or_fewer(1)
            .notice("the server refused the prompt")
            .fails("")
            .history("u:text+text")
            .lacks("word word")
            .without_extension()
            // Half a request names no model.
            .resumed_with("claude-sonnet-5-5")
            .further(|_, run| {
                // The answer may be lost with the connection; then the second reset of so long a request says enough.
                let text = run.result()["result"].as_str().unwrap().to_owned();
                assert!(text.contains("413") || text.contains("closed the connection while it received"), "{text}");
            })
    });
    play(rows.collect()).await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_credential() {
    let elsewhere = Script::new().say("never").serve().await.unwrap();
    let away =
        |status: u16| Script::new().status(status).header("location", format!("{}/v1/messages", elsewhere.url()));
    play(vec![
        row("302", away(302)).fails("302 the server redirects to 127.0.0.1"),
        row("307", away(307)).fails("307 the server redirects to 127.0.0.1"),
    ])
    .await;
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_refused_key_is_asked_for_again_once() {
    let helper = r#"{"apiKeyHelper": "echo sk-helped"}"#;
    play(vec![
        row("401 then ok", then_done(Script::new().error(401, "expired")))
            .key_helper(helper)
            .requests(2)
            .further(|model, _| assert!(model.retry_identical(0, 1))),
        row("401 for ever", Script::new().error(401, "expired").forever())
            .key_helper(helper)
            .requests(2)
            .fails("401 expired"),
    ])
    .await;
}

#[tokio::test]
async fn what_is_no_answer_of_the_api_leaves_the_conversation_whole() {
    let page = "<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head>\n<body><h1>502</h1></body></html>";
    let body = |status: u16, body: &str| {
        let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
        Script::new().status(status).body(body).header("content-type", kind)
    };
    let once = |row: Row| row.env("GIMLET_MAX_RETRIES", "1").retried(1);
    let half = r#"{"type":"error","error":{"type":"api_er"#;
    play(vec![
        once(row("502 with a page", body(502, page).forever())).fails("Bad gateway"),
        row("200 with a page", body(200, page)).fails("Bad gateway"),
        once(row("200 with nothing", body(200, "").forever())).fails("empty answer"),
        row("200 with other JSON", body(200, "{\"hello\": 1}")).fails("JSON instead of a stream"),
        once(row("500 with half an error", body(500, half).forever())).fails("500"),
        once(row("503 with nothing", body(503, "").forever())).fails("unavailable"),
        once(row("a page that goes away", then_done(body(502, page)))),
    ])
    .await;
}
