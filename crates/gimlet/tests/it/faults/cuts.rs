//! Connections that end too early: what had arrived decides whether to ask again, to keep, or to go on.

use gimlet_script::{At, Close, Encoding, Fault, Framing, InputPieces, Script, Wire};
use serde_json::json;

use super::{play, reads, row, then_done};

const CUT: &str = "the reply was cut";

fn cut(at: At, how: Close) -> Fault {
    Fault::Cut { at, how }
}

#[tokio::test]
async fn before_any_whole_block_the_request_is_sent_again() {
    let places = [
        ("before the headers", At::BeforeHeaders),
        ("after the headers", At::AfterHeaders),
        ("inside message_start", At::MidMessageStart),
        ("after message_start", At::AfterMessageStart),
        ("inside a text", At::MidText),
        ("inside an event", At::MidDelta),
    ];
    let mut rows = Vec::new();
    for (name, at) in places {
        for how in [Close::Fin, Close::Rst] {
            let script = then_done(Script::new().say("These words are lost again.").fault(cut(at, how)));
            rows.push(row(name, script).retried(1).lacks("are lost again"));
        }
    }
    let call = then_done(reads(Script::new()).fault(cut(At::MidTool, Close::Fin)));
    rows.push(row("inside the only call", call).retried(1));
    let thought = then_done(Script::new().think("A thought that is lost.").fault(cut(At::MidThinking, Close::Fin)));
    rows.push(row("inside thinking", thought).retried(1).lacks("that is lost"));
    let shaped = |wire| then_done(Script::new().say("lost words").wire(wire).fault(cut(At::MidText, Close::Fin)));
    let framed = |framing| Wire { framing, ..Wire::default() };
    let compressed = Wire { encoding: Encoding::Gzip, ..Wire::default() };
    rows.push(row("inside gzip", shaped(compressed)).retried(1).lacks("lost words"));
    rows.push(row("short of its length", shaped(framed(Framing::Length))).retried(1).lacks("lost words"));
    rows.push(row("ended by closing", shaped(framed(Framing::Close))).retried(1).lacks("lost words"));
    let claimed = Wire { claim_encoding: Some("gzip".into()), ..Wire::default() };
    let mislabelled = Script::new().say("lost words").wire(claimed).forever();
    rows.push(
        row("not what it claims", mislabelled).env("GIMLET_MAX_RETRIES", "1").retried(1).fails("").lacks("lost words"),
    );
    let for_ever = Script::new().say("lost").fault(cut(At::MidText, Close::Rst)).forever();
    rows.push(
        row("for ever", for_ever).env("GIMLET_MAX_RETRIES", "2").retried(2).fails("the connection").lacks("lost"),
    );
    play(rows).await;
}

#[tokio::test]
async fn after_thinking_alone_it_is_sent_again_twice_at_most() {
    let thoughtful = || Script::new().think("A thought that is lost.").say("words").fault(cut(At::MidText, Close::Fin));
    play(vec![
        row("twice", then_done(thoughtful().times(2))).retried(2).lacks("that is lost"),
        row("for ever", thoughtful().forever()).retried(2).fails("the connection failed").lacks("that is lost"),
        row(
            "between thinking and text",
            then_done(
                Script::new().think("A thought that is lost.").say("words").fault(cut(At::BetweenBlocks, Close::Rst)),
            ),
        )
        .retried(1)
        .lacks("that is lost"),
    ])
    .await;
}

#[tokio::test]
async fn a_whole_text_is_kept_and_the_turn_ends_with_a_word_about_it() {
    let mut rows = Vec::new();
    for how in [Close::Fin, Close::Rst] {
        let between = reads(Script::new().say("First.")).fault(cut(At::BetweenBlocks, how));
        rows.push(row("between a text and a call", between).answers("First.").notice(CUT));
        let inside = reads(Script::new().say("First.")).fault(cut(At::MidTool, how));
        rows.push(row("inside a call after a text", inside).answers("First.").notice(CUT));
    }
    let second = Script::new().say("First.").say("Second, which is lost.").fault(cut(At::Event(6), Close::Fin));
    rows.push(row("inside a second text", second).answers("First.").notice(CUT).lacks("which is lost"));
    let thought = reads(Script::new().think("hm").say("First.")).fault(cut(At::MidTool, Close::Fin));
    let history = "u:text+text a:think+text u:text";
    rows.push(row("with thinking before it", thought).answers("First.").notice(CUT).history(history));
    play(rows).await;
}

#[tokio::test]
async fn whole_calls_run_once_and_the_turn_goes_on() {
    let mut rows = Vec::new();
    for how in [Close::Fin, Close::Rst] {
        let one = then_done(reads(Script::new().say("Looking.")).fault(cut(At::AfterTool, how)));
        let history = "u:text+text a:text+call u:result a:text u:text";
        rows.push(row("after a call", one).requests(2).notice(CUT).history(history));
    }
    let two = reads(Script::new())
        .call("Write", json!({"file_path": "{{dir}}/new.txt", "content": "once\n"}))
        .call("Write", json!({"file_path": "{{dir}}/never.txt", "content": "never\n"}));
    let two = two.wire(Wire { input_pieces: InputPieces::One, ..Wire::default() });
    // Two events and a ping before the calls, three events each; this is inside the third.
    rows.push(
        row("inside the third of three calls", then_done(two.fault(cut(At::Event(10), Close::Fin))))
            .requests(2)
            .notice(CUT)
            .history("u:text+text a:call+call u:result+result a:text u:text")
            .lacks("never.txt")
            .further(|model, _| {
                let results = model.request(1).tool_results();
                assert_eq!(results[0], "1\talpha");
                assert!(results[1].contains("new.txt"), "{results:?}");
            }),
    );
    play(rows).await;
}

#[tokio::test]
async fn with_everything_said_the_end_of_the_connection_does_not_matter() {
    let mut rows = Vec::new();
    for how in [Close::Fin, Close::Rst] {
        for at in [At::AfterStopReason, At::AfterMessageStop] {
            rows.push(row("a text", Script::new().say("done").fault(cut(at, how))));
            let calling = then_done(reads(Script::new()).fault(cut(at, how)));
            rows.push(row("a call", calling).requests(2).history("u:text+text a:call u:result a:text u:text"));
        }
    }
    play(rows).await;
}
