//! The gate: what is asked, what is refused, and what the model is told.

use gimlet_proto::{Approval, AskAnswer, Block, EventBody, Op, OpReply, PermissionMode, TurnEnd};
use serde_json::json;
use serde_json::value::RawValue;

use crate::session_bench::{BenchSetup, SessionBench, answer_all, call, reply};

fn edited(input: &str) -> AskAnswer {
    let input = Some(RawValue::from_string(input.to_owned()).unwrap());
    AskAnswer::Yes(Approval { input, changes: Vec::new() })
}

fn setup(mode: PermissionMode, attended: bool) -> BenchSetup {
    BenchSetup { mode, attended, ..BenchSetup::default() }
}

fn replies() -> Vec<Vec<gimlet_proto::ModelEvent>> {
    vec![reply(&[call("a", "Touch", json!({"name": "a"}))]), reply(&[Block::text("done")])]
}

#[tokio::test]
async fn without_anyone_to_ask_a_question_is_a_refusal_that_says_so() {
    let mut bench = SessionBench::new(setup(PermissionMode::Default, false), replies());
    let mut denied = Vec::new();
    bench.say("go");
    let report = bench
        .turn(|event, _| {
            if let EventBody::Denied(denial) = &event.body {
                denied.push(denial.origin.clone());
            }
        })
        .await;
    assert!(matches!(report.end, TurnEnd::Completed));
    assert_eq!(denied, ["unattended"]);
    assert_eq!(report.denials.len(), 1);
    assert_eq!(bench.lines(), Vec::<String>::new(), "the call must not have run");
    let (_, is_error, text) = &bench.results(1)[0];
    assert!(*is_error && text.contains("Nobody can be asked"), "{text}");
    bench.close().await;
}

#[tokio::test]
async fn a_yes_runs_the_call_and_a_no_with_words_goes_on() {
    let mut bench = SessionBench::new(setup(PermissionMode::Default, true), replies());
    bench.say("go");
    bench.turn(answer_all(AskAnswer::yes)).await;
    assert_eq!(bench.results(1)[0].2, "a done");
    bench.close().await;

    let mut bench = SessionBench::new(setup(PermissionMode::Default, true), replies());
    bench.say("go");
    let no = || AskAnswer::No { message: "use another file".into(), interrupt: false };
    let report = bench.turn(answer_all(no)).await;
    assert!(matches!(report.end, TurnEnd::Completed));
    assert!(bench.results(1)[0].2.contains("use another file"));
    assert_eq!(report.denials.len(), 1);
    bench.close().await;
}

#[tokio::test]
async fn an_answer_that_failed_refuses_the_call_and_is_nobodys_no() {
    let mut bench = SessionBench::new(setup(PermissionMode::Default, true), replies());
    bench.say("go");
    let report = bench.turn(answer_all(|| AskAnswer::Failed("the callback broke".into()))).await;
    assert!(matches!(report.end, TurnEnd::Completed), "the turn goes on");
    assert_eq!((report.denials.len(), bench.lines()), (1, Vec::new()));
    let (_, is_error, text) = bench.results(1)[0].clone();
    assert!(is_error && text.contains("failed to answer (the callback broke)"), "{text}");
    assert!(!text.contains("user refused"), "{text}");
    bench.close().await;
}

#[tokio::test]
async fn a_no_without_words_ends_the_turn() {
    let mut bench = SessionBench::new(setup(PermissionMode::Default, true), replies());
    bench.say("go");
    let report = bench.turn(answer_all(|| AskAnswer::No { message: String::new(), interrupt: false })).await;
    assert!(matches!(report.end, TurnEnd::Aborted { in_tools: true }));
    assert_eq!(bench.model.requests().len(), 1);
    bench.close().await;
}

#[tokio::test]
async fn an_edited_input_is_checked_and_decided_again() {
    let mut bench = SessionBench::new(setup(PermissionMode::Default, true), replies());
    bench.say("go");
    let mut asked = Vec::new();
    bench
        .turn(|event, handle| {
            let EventBody::Ask(ask) = &event.body else { return };
            let gimlet_proto::PermissionAsk { input, .. } = ask.body.call().unwrap();
            asked.push(input.get().to_owned());
            handle.send(Op::Answer { ask: ask.id, answer: edited(r#"{"name":"edited"}"#) });
        })
        .await;
    assert_eq!(asked.len(), 1, "the same question is not asked twice: {asked:?}");
    assert_eq!(bench.results(1)[0].2, "edited done");
    bench.close().await;

    let mut bench = SessionBench::new(setup(PermissionMode::Default, true), replies());
    bench.say("go");
    bench.turn(answer_all(|| edited(r#"{"nme":1}"#))).await;
    assert!(bench.results(1)[0].2.contains("InputValidationError"));
    bench.close().await;
}

#[tokio::test]
async fn the_mode_is_read_at_every_pass() {
    let replies = vec![
        reply(&[call("a", "Touch", json!({"name": "a"}))]),
        // The first of these takes a moment, in which the new mode arrives.
        reply(&[call("wait", "Look", json!({"name": "wait", "ms": 20})), call("b", "Touch", json!({"name": "b"}))]),
        reply(&[Block::text("done")]),
    ];
    let mut bench = SessionBench::new(setup(PermissionMode::Plan, false), replies);
    bench.say("go");
    bench
        .turn(|event, handle| {
            if let EventBody::ToolFinished(_) = &event.body {
                handle.send(Op::SetMode { mode: PermissionMode::AcceptEdits, reply: OpReply::ignored() });
            }
        })
        .await;
    assert!(bench.results(1)[0].1, "plan mode refuses a write");
    assert_eq!(bench.results(2)[1].2, "b done");
    bench.close().await;
}

#[tokio::test]
async fn an_interrupt_closes_the_question_and_the_call_counts_as_cancelled() {
    let mut bench = SessionBench::new(setup(PermissionMode::Default, true), replies());
    bench.say("go");
    let mut closed = false;
    let report = bench
        .turn(|event, handle| match &event.body {
            EventBody::Ask(_) => handle.send(Op::interrupt()),
            EventBody::AskClosed(_) => closed = true,
            _ => {}
        })
        .await;
    assert!(matches!(report.end, TurnEnd::Aborted { .. }));
    assert!(closed);
    bench.run("go on").await;
    assert!(bench.results(1)[0].2.starts_with("Not executed"));
    bench.close().await;
}

#[tokio::test]
async fn the_same_failing_call_gets_a_word_of_advice_the_fourth_time() {
    let failing = || reply(&[call("a", "Touch", json!({"name": "a", "manner": "fail"}))]);
    let mut script: Vec<_> = (0..4).map(|_| failing()).collect();
    script.push(reply(&[Block::text("done")]));
    let mut bench = SessionBench::new(BenchSetup::default(), script);
    bench.run("go").await;
    assert!(!bench.results(3)[0].2.contains("change the input"));
    assert!(bench.results(4)[0].2.contains("change the input"), "{}", bench.results(4)[0].2);
    bench.close().await;
}

#[tokio::test]
async fn failures_of_one_conversation_are_not_counted_against_another() {
    let failing = || reply(&[call("a", "Touch", json!({"name": "a", "manner": "fail"}))]);
    let tasks = vec![("try", vec![failing(), reply(&[Block::text("It fails.")])])];
    let send = reply(&[call("t1", "Agent", json!({"task": "try"}))]);
    let script = vec![failing(), failing(), failing(), send, reply(&[Block::text("done")])];
    let mut bench = SessionBench::new(BenchSetup { tasks, ..BenchSetup::default() }, script);
    bench.run("go").await;
    let (_, is_error, text) = bench.results(5)[0].clone();
    assert!(is_error && !text.contains("change the input"), "{text}");
    bench.close().await;
}

#[tokio::test]
async fn a_yes_that_comes_late_does_not_undo_what_was_forbidden_meanwhile() {
    let mut bench = SessionBench::new(setup(PermissionMode::Default, true), replies());
    bench.say("go");
    bench
        .turn(|event, handle| {
            let EventBody::Ask(ask) = &event.body else { return };
            handle.send(Op::SetMode { mode: PermissionMode::DontAsk, reply: OpReply::ignored() });
            handle.send(Op::Answer { ask: ask.id, answer: AskAnswer::yes() });
        })
        .await;
    let result = &bench.results(1)[0];
    assert!(!result.2.contains("done"), "it did not run: {result:?}");
    bench.close().await;
}
