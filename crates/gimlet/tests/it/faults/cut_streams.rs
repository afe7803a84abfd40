//! Connections that end too early: what had arrived decides whether to ask again, to keep, or to go on.

use gimlet_script::{BodyFraming, CloseKind, ContentEncoding, Fault, FaultPoint, InputPieces, Script, WireShape};
use serde_json::json;

use super::{new_row, play_rows, with_final_answer, with_read_call};

const CUT: &str = "the reply was cut";

fn cut_fault(at: FaultPoint, how: CloseKind) -> Fault {
    Fault::Cut { at, how }
}

#[tokio::test]
async fn before_any_whole_block_the_request_is_sent_again() {
    let places = [
        ("before the headers", FaultPoint::BeforeHeaders),
        ("after the headers", FaultPoint::AfterHeaders),
        ("inside message_start", FaultPoint::MidMessageStart),
        ("after message_start", FaultPoint::AfterMessageStart),
        ("inside a text", FaultPoint::MidText),
        ("inside an event", FaultPoint::MidDelta),
    ];
    let mut rows = Vec::new();
    for (name, at) in places {
        for how in [CloseKind::Fin, CloseKind::Rst] {
            let script = with_final_answer(Script::new().say("These words are lost again.").fault(cut_fault(at, how)));
            rows.push(new_row(name, script).expect_retries(1).expect_absent("are lost again"));
        }
    }
    let call = with_final_answer(with_read_call(Script::new()).fault(cut_fault(FaultPoint::MidTool, CloseKind::Fin)));
    rows.push(new_row("inside the only call", call).expect_retries(1));
    let thought = with_final_answer(
        Script::new().think("A thought that is lost.").fault(cut_fault(FaultPoint::MidThinking, CloseKind::Fin)),
    );
    rows.push(new_row("inside thinking", thought).expect_retries(1).expect_absent("that is lost"));
    let shaped = |wire| {
        with_final_answer(
            Script::new().say("lost words").wire(wire).fault(cut_fault(FaultPoint::MidText, CloseKind::Fin)),
        )
    };
    let framed = |framing| WireShape { framing, ..WireShape::default() };
    let compressed = WireShape { encoding: ContentEncoding::Gzip, ..WireShape::default() };
    rows.push(new_row("inside gzip", shaped(compressed)).expect_retries(1).expect_absent("lost words"));
    rows.push(
        new_row("short of its length", shaped(framed(BodyFraming::Length)))
            .expect_retries(1)
            .expect_absent("lost words"),
    );
    rows.push(
        new_row("ended by closing", shaped(framed(BodyFraming::Close))).expect_retries(1).expect_absent("lost words"),
    );
    let claimed = WireShape { claim_encoding: Some("gzip".into()), ..WireShape::default() };
    let mislabelled = Script::new().say("lost words").wire(claimed).forever();
    rows.push(
        new_row("not what it claims", mislabelled)
            .with_env("GIMLET_MAX_RETRIES", "1")
            .expect_retries(1)
            .expect_error("")
            .expect_absent("lost words"),
    );
    let for_ever = Script::new().say("lost").fault(cut_fault(FaultPoint::MidText, CloseKind::Rst)).forever();
    rows.push(
        new_row("for ever", for_ever)
            .with_env("GIMLET_MAX_RETRIES", "2")
            .expect_retries(2)
            .expect_error("the connection")
            .expect_absent("lost"),
    );
    play_rows(rows).await;
}

#[tokio::test]
async fn after_thinking_alone_it_is_sent_again_twice_at_most() {
    let thoughtful = || {
        Script::new()
            .think("A thought that is lost.")
            .say("words")
            .fault(cut_fault(FaultPoint::MidText, CloseKind::Fin))
    };
    play_rows(vec![
        new_row("twice", with_final_answer(thoughtful().times(2))).expect_retries(2).expect_absent("that is lost"),
        new_row("for ever", thoughtful().forever())
            .expect_retries(2)
            .expect_error("the connection failed")
            .expect_absent("that is lost"),
        new_row(
            "between thinking and text",
            with_final_answer(
                Script::new()
                    .think("A thought that is lost.")
                    .say("words")
                    .fault(cut_fault(FaultPoint::BetweenBlocks, CloseKind::Rst)),
            ),
        )
        .expect_retries(1)
        .expect_absent("that is lost"),
    ])
    .await;
}

#[tokio::test]
async fn a_whole_text_is_kept_and_the_turn_ends_with_a_word_about_it() {
    let mut rows = Vec::new();
    for how in [CloseKind::Fin, CloseKind::Rst] {
        let between = with_read_call(Script::new().say("First.")).fault(cut_fault(FaultPoint::BetweenBlocks, how));
        rows.push(new_row("between a text and a call", between).expect_answer("First.").expect_notice(CUT));
        let inside = with_read_call(Script::new().say("First.")).fault(cut_fault(FaultPoint::MidTool, how));
        rows.push(new_row("inside a call after a text", inside).expect_answer("First.").expect_notice(CUT));
    }
    let second = Script::new()
        .say("First.")
        .say("Second, which is lost.")
        .fault(cut_fault(FaultPoint::Event(6), CloseKind::Fin));
    rows.push(
        new_row("inside a second text", second)
            .expect_answer("First.")
            .expect_notice(CUT)
            .expect_absent("which is lost"),
    );
    let thought =
        with_read_call(Script::new().think("hm").say("First.")).fault(cut_fault(FaultPoint::MidTool, CloseKind::Fin));
    let history = "u:text+text a:think+text u:text";
    rows.push(
        new_row("with thinking before it", thought).expect_answer("First.").expect_notice(CUT).expect_history(history),
    );
    play_rows(rows).await;
}

#[tokio::test]
async fn whole_calls_run_once_and_the_turn_goes_on() {
    let mut rows = Vec::new();
    for how in [CloseKind::Fin, CloseKind::Rst] {
        let one = with_final_answer(
            with_read_call(Script::new().say("Looking.")).fault(cut_fault(FaultPoint::AfterTool, how)),
        );
        let history = "u:text+text a:text+call u:result a:text u:text";
        rows.push(new_row("after a call", one).expect_requests(2).expect_notice(CUT).expect_history(history));
    }
    let two = with_read_call(Script::new())
        .call("Write", json!({"file_path": "{{dir}}/new.txt", "content": "once\n"}))
        .call("Write", json!({"file_path": "{{dir}}/never.txt", "content": "never\n"}));
    let two = two.wire(WireShape { input_pieces: InputPieces::One, ..WireShape::default() });
    // Two events and a ping before the calls, three events each; this is inside the third.
    rows.push(
        new_row(
            "inside the third of three calls",
            with_final_answer(two.fault(cut_fault(FaultPoint::Event(10), CloseKind::Fin))),
        )
        .expect_requests(2)
        .expect_notice(CUT)
        .expect_history("u:text+text a:call+call u:result+result a:text u:text")
        .expect_absent("never.txt")
        .check_also(|model, _| {
            let results = model.request(1).tool_results();
            assert_eq!(results[0], "1\talpha");
            assert!(results[1].contains("new.txt"), "{results:?}");
        }),
    );
    play_rows(rows).await;
}

#[tokio::test]
async fn with_everything_said_the_end_of_the_connection_does_not_matter() {
    let mut rows = Vec::new();
    for how in [CloseKind::Fin, CloseKind::Rst] {
        for at in [FaultPoint::AfterStopReason, FaultPoint::AfterMessageStop] {
            rows.push(new_row("a text", Script::new().say("done").fault(cut_fault(at, how))));
            let calling = with_final_answer(with_read_call(Script::new()).fault(cut_fault(at, how)));
            rows.push(
                new_row("a call", calling)
                    .expect_requests(2)
                    .expect_history("u:text+text a:call u:result a:text u:text"),
            );
        }
    }
    play_rows(rows).await;
}
