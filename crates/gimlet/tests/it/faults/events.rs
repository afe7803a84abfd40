//! Errors that the server reports inside a stream that began as a success.

use gimlet_script::{At, Fault, Script};

use super::{play, reads, row, then_done};

fn error(at: At, kind: &str) -> Fault {
    Fault::ErrorEvent { at, kind: kind.into(), message: "in the stream".into(), data: None }
}

fn garbled(at: At) -> Fault {
    Fault::ErrorEvent { at, kind: String::new(), message: String::new(), data: Some("upstream: <busy".into()) }
}

#[tokio::test]
async fn before_any_whole_block_a_passing_error_is_a_retry() {
    let places = [
        ("before message_start", At::Event(0)),
        ("after message_start", At::AfterMessageStart),
        ("inside a text", At::MidText),
    ];
    let mut rows = Vec::new();
    for (name, at) in places {
        for kind in ["overloaded_error", "api_error", "timeout_error", "rate_limit_error", "never_heard_of"] {
            let script = then_done(Script::new().say("Words that are lost.").fault(error(at, kind)));
            rows.push(row(name, script).retried(1).lacks("that are lost"));
        }
        let script = then_done(Script::new().say("Words that are lost.").fault(garbled(at)));
        rows.push(row(name, script).retried(1).lacks("that are lost"));
    }
    let thinking = Script::new().think("A lost thought.").fault(error(At::MidThinking, "overloaded_error"));
    rows.push(row("inside thinking", then_done(thinking)).retried(1).lacks("lost thought"));
    let call = reads(Script::new()).fault(error(At::MidTool, "overloaded_error"));
    rows.push(row("inside the only call", then_done(call)).retried(1));
    play(rows).await;
}

#[tokio::test]
async fn after_a_whole_block_a_passing_error_is_a_cut() {
    let text = || reads(Script::new().say("First."));
    play(vec![
        row("inside a call after a text", text().fault(error(At::MidTool, "overloaded_error")))
            .answers("First.")
            .notice("the reply was cut (529 in the stream"),
        row("after a call", then_done(text().fault(error(At::AfterTool, "api_error"))))
            .requests(2)
            .notice("the reply was cut (500 in the stream")
            .history("u:text+text a:text+call u:result a:text u:text"),
        row("after a call, garbled", then_done(text().fault(garbled(At::AfterTool))))
            .requests(2)
            .notice("the reply was cut")
            .history("u:text+text a:text+call u:result a:text u:text"),
    ])
    .await;
}

#[tokio::test]
async fn a_final_error_inside_the_stream_ends_the_turn_and_takes_the_reply_back() {
    play(vec![
        row("inside a text", Script::new().say("lost words").fault(error(At::MidText, "invalid_request_error")))
            .fails("400 in the stream")
            .lacks("lost words"),
        row("after a call", reads(Script::new().say("lost words")).fault(error(At::AfterTool, "permission_error")))
            .fails("403 in the stream")
            .lacks("lost words"),
        row("before anything", Script::new().say("lost").fault(error(At::Event(0), "authentication_error")))
            .fails("401 in the stream"),
    ])
    .await;
}
