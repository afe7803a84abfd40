//! What is only to be known: it begins no turn, and whoever said it hears what became of it.

use gimlet_proto::{Block, Body, EntryId, Op, PromptFate, Reply, Say, TurnEnd};
use serde_json::json;

use crate::bench::{Bench, Setup, call, reply};
use crate::driver::{Program, Reaction, decides, hook};
use crate::hooked_calls;

/// A session whose first call waits.
async fn waiting() -> Bench {
    let program = Program::default().answers("h", |nth, _| match nth {
        0 => Reaction::Say(decides("defer", "")),
        _ => Reaction::Say(json!({})),
    });
    let replies = vec![reply(&[call("a", "Touch", json!({"name": "a"}))]), reply(&[Block::text("done")])];
    let hooks = vec![hook("PreToolUse", &["h"])];
    let (mut bench, _) = hooked_calls::bench(Setup::default(), program, hooks, replies);
    assert!(matches!(bench.run("go").await.end, TurnEnd::Deferred { .. }));
    bench
}

fn note(bench: &Bench, id: &str, text: &str) {
    let said = Say { silent: true, uuid: Some(EntryId::new(id)), ..Say::text(text) };
    bench.handle.send(Op::Say(said));
}

/// The next fate that is told.
async fn next_fate(bench: &mut Bench) -> (String, PromptFate) {
    loop {
        if let Body::PromptFate { prompt, fate } = bench.events.next().await.expect("an open session").body {
            return (prompt.to_string(), fate);
        }
    }
}

fn words(tokens: usize) -> String {
    "word".repeat(tokens)
}

#[tokio::test]
async fn what_does_not_fit_is_refused_whether_or_not_a_call_waits() {
    let mut idle = Bench::new(Setup::default(), Vec::new());
    let mut waiting = waiting().await;
    for bench in [&mut idle, &mut waiting] {
        note(bench, "long", &words(250_000));
        assert_eq!(next_fate(bench).await, ("long".to_owned(), PromptFate::Refused));
    }
    idle.close().await;
    waiting.close().await;
}

#[tokio::test]
async fn what_fits_only_by_itself_is_refused_when_the_call_has_run() {
    let mut bench = waiting().await;
    note(&bench, "first", &words(150_000));
    note(&bench, "second", &words(150_000));
    bench.say("go on");
    assert_eq!(next_fate(&mut bench).await, ("first".to_owned(), PromptFate::Taken));
    assert_eq!(next_fate(&mut bench).await, ("second".to_owned(), PromptFate::Refused));
    assert!(matches!(bench.turn(|_, _| {}).await.end, TurnEnd::Completed));
    bench.close().await;
}

#[tokio::test]
async fn only_so_much_waits_behind_a_call() {
    let mut bench = waiting().await;
    for number in 0..101 {
        note(&bench, &number.to_string(), "by the way");
    }
    assert_eq!(next_fate(&mut bench).await, ("100".to_owned(), PromptFate::Refused));
    bench.say("go on");
    for number in 0..100 {
        assert_eq!(next_fate(&mut bench).await, (number.to_string(), PromptFate::Taken));
    }
    bench.close().await;
}

#[tokio::test]
async fn what_waits_behind_a_call_can_be_withdrawn_and_is_when_the_session_closes() {
    let mut bench = waiting().await;
    note(&bench, "one", "by the way");
    note(&bench, "two", "by the way");
    bench.handle.send(Op::Withdraw { prompt: EntryId::new("one"), reply: Reply::nobody() });
    assert_eq!(next_fate(&mut bench).await, ("one".to_owned(), PromptFate::Withdrawn));
    bench.handle.send(Op::Close);
    assert_eq!(next_fate(&mut bench).await, ("two".to_owned(), PromptFate::Withdrawn));
    bench.close().await;
}
