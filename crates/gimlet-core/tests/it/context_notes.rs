//! What is only to be known: it begins no turn, and whoever said it hears what became of it.

use gimlet_proto::{Block, EntryId, EventBody, Op, OpReply, PromptOutcome, SubmittedPrompt, TurnEnd};
use serde_json::json;

use crate::hook_program::{CallbackReaction, HookProgram, hook, permission_output};
use crate::hooks_on_calls;
use crate::session_bench::{BenchSetup, SessionBench, call, reply};

/// A session whose first call waits.
async fn bench_with_waiting_call() -> SessionBench {
    let program = HookProgram::default().with_callback("h", |nth, _| match nth {
        0 => CallbackReaction::Say(permission_output("defer", "")),
        _ => CallbackReaction::Say(json!({})),
    });
    let replies = vec![reply(&[call("a", "Touch", json!({"name": "a"}))]), reply(&[Block::text("done")])];
    let hooks = vec![hook("PreToolUse", &["h"])];
    let (mut bench, _) = hooks_on_calls::bench(BenchSetup::default(), program, hooks, replies);
    assert!(matches!(bench.run("go").await.end, TurnEnd::Deferred { .. }));
    bench
}

fn send_note(bench: &SessionBench, id: &str, text: &str) {
    let said = SubmittedPrompt { silent: true, uuid: Some(EntryId::new(id)), ..SubmittedPrompt::from_text(text) };
    bench.handle.send(Op::Submit(said));
}

/// The next fate that is told.
async fn next_fate(bench: &mut SessionBench) -> (String, PromptOutcome) {
    loop {
        if let EventBody::PromptOutcome { prompt, outcome: fate } =
            bench.events.next().await.expect("an open session").body
        {
            return (prompt.to_string(), fate);
        }
    }
}

fn words(tokens: usize) -> String {
    "word".repeat(tokens)
}

#[tokio::test]
async fn a_note_that_does_not_fit_is_refused() {
    let mut idle = SessionBench::new(BenchSetup::default(), Vec::new());
    let mut waiting = bench_with_waiting_call().await;
    for bench in [&mut idle, &mut waiting] {
        send_note(bench, "long", &words(250_000));
        assert_eq!(next_fate(bench).await, ("long".to_owned(), PromptOutcome::Refused));
    }
    idle.close().await;
    waiting.close().await;
}

#[tokio::test]
async fn a_note_that_no_longer_fits_is_refused_after_the_call() {
    let mut bench = bench_with_waiting_call().await;
    send_note(&bench, "first", &words(150_000));
    send_note(&bench, "second", &words(150_000));
    bench.say("go on");
    assert_eq!(next_fate(&mut bench).await, ("first".to_owned(), PromptOutcome::Accepted));
    assert_eq!(next_fate(&mut bench).await, ("second".to_owned(), PromptOutcome::Refused));
    assert!(matches!(bench.turn(|_, _| {}).await.end, TurnEnd::Completed));
    bench.close().await;
}

#[tokio::test]
async fn held_notes_are_limited() {
    let mut bench = bench_with_waiting_call().await;
    for number in 0..101 {
        send_note(&bench, &number.to_string(), "by the way");
    }
    assert_eq!(next_fate(&mut bench).await, ("100".to_owned(), PromptOutcome::Refused));
    bench.say("go on");
    for number in 0..100 {
        assert_eq!(next_fate(&mut bench).await, (number.to_string(), PromptOutcome::Accepted));
    }
    bench.close().await;
}

#[tokio::test]
async fn what_waits_behind_a_call_can_be_withdrawn_and_is_when_the_session_closes() {
    let mut bench = bench_with_waiting_call().await;
    send_note(&bench, "one", "by the way");
    send_note(&bench, "two", "by the way");
    bench.handle.send(Op::WithdrawPrompt { prompt: EntryId::new("one"), reply: OpReply::ignored() });
    assert_eq!(next_fate(&mut bench).await, ("one".to_owned(), PromptOutcome::Withdrawn));
    bench.handle.send(Op::Close);
    assert_eq!(next_fate(&mut bench).await, ("two".to_owned(), PromptOutcome::Withdrawn));
    bench.close().await;
}
