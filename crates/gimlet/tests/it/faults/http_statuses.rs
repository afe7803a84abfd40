//! Answers that are no success: which are sent again, how long that waits, and which are final.

use std::time::{Duration, SystemTime};

use gimlet_script::{CloseKind, ErrorSpec, ExpectedRequest, Fault, Script, ScriptedReply};

use super::{FaultRow, new_row, play_rows, with_final_answer, with_read_call};

/// Answers this status so often, with this header, and then properly.
fn transient_status(status: u16, times: u32, header: Option<(&str, &str)>) -> Script {
    let mut script = Script::new().status(status).times(times);
    if let Some((name, value)) = header {
        script = script.header(name, value);
    }
    with_final_answer(script)
}

fn error_with_code(status: u16, code: &str, message: &str) -> Script {
    let error = ErrorSpec { message: message.into(), code: Some(code.into()), ..ErrorSpec::default() };
    Script::new().reply(ScriptedReply { status: Some(status), error: Some(error), ..ScriptedReply::default() })
}

#[tokio::test]
async fn what_may_pass_is_sent_again_with_the_same_bytes() {
    let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(2));
    let wait = |value: &'static str| Some(("retry-after", value));
    play_rows(vec![
        new_row("429, milliseconds", transient_status(429, 2, Some(("retry-after-ms", "5")))).expect_retries(2),
        new_row("429, a part of a second", transient_status(429, 1, wait("0.02"))).expect_retries(1),
        new_row("429, a date", transient_status(429, 1, Some(("retry-after", &soon)))).expect_retries(1),
        new_row("429, zero", transient_status(429, 1, wait("0"))).expect_retries(1),
        new_row("429, negative", transient_status(429, 1, wait("-3"))).expect_retries(1),
        new_row("529", transient_status(529, 3, None)).expect_retries(3),
        new_row("500", transient_status(500, 2, None)).expect_retries(2),
        new_row("502", transient_status(502, 1, None)).expect_retries(1),
        new_row("503", transient_status(503, 1, None)).expect_retries(1),
        new_row("504", transient_status(504, 2, None)).expect_retries(2),
        new_row("408", transient_status(408, 1, None)).expect_retries(1),
        new_row("409", transient_status(409, 1, None)).expect_retries(1),
        new_row(
            "529 for longer than the budget, with nobody waiting",
            transient_status(529, 4, Some(("retry-after-ms", "5"))),
        )
        .with_env("GIMLET_MAX_RETRIES", "1")
        .with_env("GIMLET_RETRY_WATCHDOG", "1")
        .expect_retries(4),
        new_row("400 that asks for it", transient_status(400, 1, Some(("x-should-retry", "true")))).expect_retries(1),
    ])
    .await;
}

#[tokio::test]
async fn what_is_final_is_told_once() {
    let limit = "You have reached your specified API usage limits";
    play_rows(vec![
        new_row("401", Script::new().error(401, "invalid x-api-key")).expect_error("401 invalid x-api-key"),
        new_row("402", Script::new().error(402, "no credit")).expect_error("402 no credit"),
        new_row("403", Script::new().error(403, "not for you")).expect_error("403 not for you"),
        new_row("404", Script::new().error(404, "model: claude-x")).expect_error("404 model: claude-x"),
        new_row("413", Script::new().error(413, "too many bytes")).expect_error("413 too many bytes"),
        new_row("418", Script::new().error(418, "a teapot")).expect_error("418 a teapot"),
        new_row("400", Script::new().error(400, limit)).expect_error(limit),
        new_row("429 by a spending cap", error_with_code(429, "enforced_spend_limit_reached", "cap until 1 December"))
            .expect_error("429 cap until 1 December"),
        new_row("429 by a usage limit", Script::new().error(429, limit)).expect_error(limit),
        new_row("429 for an hour", Script::new().error(429, "slow down").header("retry-after", "3600"))
            .expect_error("asks to wait 3600 s"),
        new_row("500 that forbids it", Script::new().error(500, "broken").header("x-should-retry", "false"))
            .expect_error("500 broken"),
        new_row(
            "400 that asks for it for ever",
            Script::new().error(400, "no").header("x-should-retry", "true").forever(),
        )
        .expect_retries(1)
        .expect_error("400 no"),
        new_row("504 for ever", Script::new().error(504, "too long").forever())
            .expect_retries(2)
            .expect_error("504 too long"),
        new_row("529 beyond the budget", Script::new().error(529, "overloaded").forever())
            .with_env("GIMLET_MAX_RETRIES", "2")
            .expect_retries(2)
            .expect_error("529 overloaded"),
        new_row(
            "429 that names the limit",
            Script::new()
                .error(429, "slow down")
                .header("retry-after", "3600")
                .header("anthropic-ratelimit-input-tokens-limit", "40000")
                .header("anthropic-ratelimit-input-tokens-remaining", "0"),
        )
        .expect_error("slow down (input-tokens: 0 of 40000 left)"),
        new_row("529 without a budget", Script::new().error(529, "overloaded"))
            .with_env("GIMLET_MAX_RETRIES", "0")
            .expect_error("529 overloaded"),
    ])
    .await;
}

/// The histories of these rows are right, so there is nothing to mend.
#[tokio::test]
async fn a_history_that_the_server_calls_broken_is_not_sent_again_as_it_was() {
    let prefill =
        "This model does not support assistant message prefill. The conversation must end with a user message.";
    let paused = |script: Script| script.say("Searching.").stop("pause_turn");
    let go_on = ExpectedRequest { last_user_text: Some("go on".into()), ..ExpectedRequest::default() };
    play_rows(vec![
        new_row("a pairing error that is not ours", Script::new().error(400, PAIRING).forever())
            .expect_requests(1)
            .expect_error("without `tool_result`"),
        new_row("a pairing error behind a call", with_read_call(Script::new()).then().error(400, PAIRING))
            .expect_requests(2)
            .expect_error("without `tool_result`")
            .expect_history("u:text+text a:call u:result u:text"),
        new_row("no prefill", paused(Script::new()).then().error(400, prefill).then().expect(go_on).say("done"))
            .expect_requests(3)
            .expect_history("u:text+text a:text u:text a:text u:text"),
        new_row("no prefill, and no reply to go on from", Script::new().error(400, prefill)).expect_error("prefill"),
        new_row(
            "a task budget",
            with_expected_answer(Script::new().error(400, TASK_BUDGET), expect_body_lacks("task_budget")),
        )
        .with_args(&["--task-budget", "50000"])
        .expect_requests(2)
        .expect_notice("does not take a task budget"),
    ])
    .await;
}

fn expect_body_lacks(word: &str) -> ExpectedRequest {
    ExpectedRequest { body_lacks: Some(word.into()), ..ExpectedRequest::default() }
}

const TASK_BUDGET: &str = "output_config.task_budget: Extra inputs are not permitted";
const PAIRING: &str = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_x";

#[tokio::test]
async fn a_failure_inside_a_tool_turn_loses_nothing() {
    let history = "u:text+text a:call u:result a:text u:text";
    play_rows(vec![
        new_row(
            "529 after a result",
            with_final_answer(with_read_call(Script::new()).then().status(529).header("retry-after-ms", "5")),
        )
        .expect_requests(3)
        .expect_later_retries(1)
        .expect_history(history)
        .check_also(|model, _| assert!(model.retry_identical(1, 2))),
        new_row("401 after a result", with_read_call(Script::new()).then().error(401, "revoked"))
            .expect_requests(2)
            .expect_error("401 revoked")
            .expect_history("u:text+text a:call u:result u:text"),
    ])
    .await;
}

#[tokio::test]
async fn an_option_that_the_server_refuses_is_left_out_from_then_on() {
    let effort = Script::new().error(400, "output_config.effort: Extra inputs are not permitted").then();
    play_rows(vec![
        new_row(
            "effort",
            with_read_call(effort.expect(expect_body_lacks("output_config")))
                .then()
                .expect(expect_body_lacks("output_config"))
                .say("done"),
        )
        .with_args(&["--effort", "high"])
        .expect_requests(3)
        .expect_notice("does not take an effort setting")
        .expect_history("u:text+text a:call u:result a:text u:text"),
        new_row("effort, refused again", Script::new().error(400, "output_config.effort: no").times(2))
            .with_args(&["--effort", "high"])
            .expect_requests(2)
            .expect_notice("does not take an effort setting")
            .expect_error("output_config.effort: no"),
    ])
    .await;
}

#[tokio::test]
async fn thinking_that_the_server_no_longer_takes_is_dropped_then_left_out() {
    let thought = || with_read_call(Script::new().think("hm"));
    let bound = "messages.1.content.0: this block is bound to a different conversation";
    let dropping = ExpectedRequest { body_contains: Some("drop_block".into()), ..ExpectedRequest::default() };
    let stripped = ExpectedRequest { body_lacks: Some("\"type\":\"thinking\"".into()), ..ExpectedRequest::default() };
    play_rows(vec![
        new_row("dropped by the server", with_expected_answer(thought().then().error(400, bound), dropping))
            .expect_requests(3)
            .expect_notice("earlier thinking no longer fits")
            .expect_history("u:text+text a:think+call u:result a:text u:text"),
        new_row(
            "left out by gimlet",
            with_expected_answer(
                thought().then().error(400, "messages.1.content.0: Invalid `signature` in `thinking` block"),
                stripped,
            ),
        )
        .expect_requests(3)
        .expect_notice("earlier thinking no longer fits")
        .allow_changed_history()
        .expect_history("u:text+text a:think+call u:result a:text u:text"),
    ])
    .await;
}

fn with_expected_answer(script: Script, expect: ExpectedRequest) -> Script {
    script.then().expect(expect).say("done")
}

#[tokio::test]
async fn an_upload_that_is_cut_off_is_told_as_too_large_and_taken_back() {
    let rows = [("closed", CloseKind::Fin), ("reset", CloseKind::Rst)].into_iter().map(|(name, how)| {
        let refusal = Fault::RefuseUpload { after_bytes: 200_000, status: 413, how };
        new_row(name, Script::new().fault(refusal).forever())
            .with_stdin("word ".repeat(900_000))
            .with_env("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "2000000")
            .expect_rule_refusal()
            .expect_retries(1)
            .allow_fewer(1)
            .expect_notice("the server refused the prompt")
            .expect_error("")
            .expect_history("u:text+text")
            .expect_absent("word word")
            .allow_changed_history()
            // Half a request names no model.
            .with_resuming_model("claude-sonnet-5-5")
            .check_also(|_, run| {
                // The answer may be lost with the connection; then the second reset of so long a request says enough.
                let text = run.result()["result"].as_str().unwrap().to_owned();
                assert!(text.contains("413") || text.contains("closed the connection while it received"), "{text}");
            })
    });
    play_rows(rows.collect()).await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_credential() {
    let elsewhere = Script::new().say("never").serve().await.unwrap();
    let away =
        |status: u16| Script::new().status(status).header("location", format!("{}/v1/messages", elsewhere.url()));
    play_rows(vec![
        new_row("302", away(302)).expect_error("302 the server redirects to 127.0.0.1"),
        new_row("307", away(307)).expect_error("307 the server redirects to 127.0.0.1"),
    ])
    .await;
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_refused_key_is_asked_for_again_once() {
    let helper = r#"{"apiKeyHelper": "echo sk-helped"}"#;
    play_rows(vec![
        new_row("401 then ok", with_final_answer(Script::new().error(401, "expired")))
            .with_key_helper(helper)
            .expect_requests(2)
            .check_also(|model, _| assert!(model.retry_identical(0, 1))),
        new_row("401 for ever", Script::new().error(401, "expired").forever())
            .with_key_helper(helper)
            .expect_requests(2)
            .expect_error("401 expired"),
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
    let once = |row: FaultRow| row.with_env("GIMLET_MAX_RETRIES", "1").expect_retries(1);
    let half = r#"{"type":"error","error":{"type":"api_er"#;
    play_rows(vec![
        once(new_row("502 with a page", body(502, page).forever())).expect_error("Bad gateway"),
        new_row("200 with a page", body(200, page)).expect_error("Bad gateway"),
        once(new_row("200 with nothing", body(200, "").forever())).expect_error("empty answer"),
        new_row("200 with other JSON", body(200, "{\"hello\": 1}")).expect_error("JSON instead of a stream"),
        once(new_row("500 with half an error", body(500, half).forever())).expect_error("500"),
        once(new_row("503 with nothing", body(503, "").forever())).expect_error("unavailable"),
        once(new_row("a page that goes away", with_final_answer(body(502, page)))),
    ])
    .await;
}
