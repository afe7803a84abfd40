//! Errors that the server reports inside a stream that began as a success.

use gimlet_script::{Fault, FaultPoint, Script};

use super::{new_row, play_rows, with_final_answer, with_read_call};

fn error_fault(at: FaultPoint, kind: &str) -> Fault {
    Fault::ErrorEvent { at, kind: kind.into(), message: "in the stream".into(), data: None }
}

fn garbled_error_fault(at: FaultPoint) -> Fault {
    Fault::ErrorEvent { at, kind: String::new(), message: String::new(), data: Some("upstream: <busy".into()) }
}

#[tokio::test]
async fn before_any_whole_block_a_passing_error_is_a_retry() {
    let places = [
        ("before message_start", FaultPoint::Event(0)),
        ("after message_start", FaultPoint::AfterMessageStart),
        ("inside a text", FaultPoint::MidText),
    ];
    let mut rows = Vec::new();
    for (name, at) in places {
        for kind in ["overloaded_error", "api_error", "timeout_error", "rate_limit_error", "never_heard_of"] {
            let script = with_final_answer(Script::new().say("Words that are lost.").fault(error_fault(at, kind)));
            rows.push(new_row(name, script).expect_retries(1).expect_absent("that are lost"));
        }
        let script = with_final_answer(Script::new().say("Words that are lost.").fault(garbled_error_fault(at)));
        rows.push(new_row(name, script).expect_retries(1).expect_absent("that are lost"));
    }
    let thinking =
        Script::new().think("A lost thought.").fault(error_fault(FaultPoint::MidThinking, "overloaded_error"));
    rows.push(new_row("inside thinking", with_final_answer(thinking)).expect_retries(1).expect_absent("lost thought"));
    let call = with_read_call(Script::new()).fault(error_fault(FaultPoint::MidTool, "overloaded_error"));
    rows.push(new_row("inside the only call", with_final_answer(call)).expect_retries(1));
    play_rows(rows).await;
}

#[tokio::test]
async fn after_a_whole_block_a_passing_error_is_a_cut() {
    let text = || with_read_call(Script::new().say("First."));
    play_rows(vec![
        new_row("inside a call after a text", text().fault(error_fault(FaultPoint::MidTool, "overloaded_error")))
            .expect_answer("First.")
            .expect_notice("the reply was cut (529 in the stream"),
        new_row("after a call", with_final_answer(text().fault(error_fault(FaultPoint::AfterTool, "api_error"))))
            .expect_requests(2)
            .expect_notice("the reply was cut (500 in the stream")
            .expect_history("u:text+text a:text+call u:result a:text u:text"),
        new_row("after a call, garbled", with_final_answer(text().fault(garbled_error_fault(FaultPoint::AfterTool))))
            .expect_requests(2)
            .expect_notice("the reply was cut")
            .expect_history("u:text+text a:text+call u:result a:text u:text"),
    ])
    .await;
}

#[tokio::test]
async fn a_final_error_inside_the_stream_ends_the_turn_and_takes_the_reply_back() {
    play_rows(vec![
        new_row(
            "inside a text",
            Script::new().say("lost words").fault(error_fault(FaultPoint::MidText, "invalid_request_error")),
        )
        .expect_error("400 in the stream")
        .expect_absent("lost words"),
        new_row(
            "after a call",
            with_read_call(Script::new().say("lost words"))
                .fault(error_fault(FaultPoint::AfterTool, "permission_error")),
        )
        .expect_error("403 in the stream")
        .expect_absent("lost words"),
        new_row(
            "before anything",
            Script::new().say("lost").fault(error_fault(FaultPoint::Event(0), "authentication_error")),
        )
        .expect_error("401 in the stream"),
    ])
    .await;
}
