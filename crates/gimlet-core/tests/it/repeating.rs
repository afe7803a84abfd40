//! A model that makes one call again and again without effect: the user is asked, or the turn ends, in good order.

use gimlet_proto::{AskAnswer, Block, EventBody, ModelEvent, Op, StopCause, TurnEnd};
use serde_json::json;

use crate::session_bench::{BenchSetup, SessionBench, call, reply};

fn look(id: &str, manner: &str) -> Block {
    call(id, "Look", json!({"name": "a", "manner": manner}))
}

fn replies(count: usize, manner: &str) -> Vec<Vec<ModelEvent>> {
    let calls = (0..count).map(|number| reply(&[look(&format!("c{number}"), manner)]));
    calls.chain([reply(&[Block::text("done")])]).collect()
}

#[tokio::test(start_paused = true)]
async fn with_nobody_to_ask_the_twentieth_call_ends_the_turn_and_every_call_has_a_result() {
    let mut all = replies(19, "fail");
    all.truncate(19);
    // The last reply has another call behind the one too many.
    all.push(reply(&[look("last", "fail"), call("behind", "Touch", json!({"name": "b"}))]));
    all.push(reply(&[Block::text("next")]));
    let mut bench = SessionBench::new(BenchSetup::default(), all);
    let report = bench.run("go").await;
    let TurnEnd::Stopped { reason, because: StopCause::RepeatedCalls } = &report.end else {
        panic!("{:?}", report.end)
    };
    assert!(reason.contains("20 times"), "{reason}");
    assert_eq!(bench.model.requests().len(), 20);
    assert!(matches!(bench.run("more").await.end, TurnEnd::Completed), "the session goes on");
    let request = bench.model.requests().remove(20);
    let results: Vec<(String, String)> = request
        .messages
        .iter()
        .flat_map(|message| message.blocks.iter())
        .filter_map(|block| {
            let result = block.as_tool_result()?;
            Some((result.tool_use_id.to_string(), result.content?.get().to_owned()))
        })
        .collect();
    assert_eq!(results.len(), 21, "one for each call");
    assert!(results[19].1.contains("The turn ends here"), "{:?}", results[19]);
    assert_eq!(results[20].0, "behind");
    assert!(results[20].1.contains("Not executed"), "{:?}", results[20]);
    bench.close().await;
}

/// Runs a session in which the model repeats a call, and answers every question alike. Returns how often it was asked.
async fn attended(bench: &mut SessionBench, answer: impl Fn() -> AskAnswer) -> (TurnEnd, Vec<String>) {
    let mut asked = Vec::new();
    bench.say("go");
    let report = bench
        .turn(|event, handle| {
            let EventBody::Ask(ask) = &event.body else { return };
            let gimlet_proto::PermissionAsk { reason, .. } = ask.body.call().unwrap();
            asked.push(reason.clone());
            handle.send(Op::Answer { ask: ask.id, answer: answer() });
        })
        .await;
    (report.end, asked)
}

#[tokio::test(start_paused = true)]
async fn the_user_is_asked_and_a_yes_lets_it_go_on() {
    for manner in ["fail", ""] {
        let mut bench = SessionBench::new(BenchSetup { attended: true, ..BenchSetup::default() }, replies(25, manner));
        let (end, asked) = attended(&mut bench, AskAnswer::yes).await;
        assert!(matches!(end, TurnEnd::Completed), "{end:?}");
        // Before the 12th call, and before the 12th from there on.
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked[0].contains("11 times with the same result"), "{asked:?}");
        assert_eq!(bench.lines().iter().filter(|line| line.ends_with("begins")).count(), 25);
        bench.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_of_the_user_ends_the_turn() {
    let mut bench = SessionBench::new(BenchSetup { attended: true, ..BenchSetup::default() }, replies(25, "fail"));
    let no = || AskAnswer::No { message: String::new(), interrupt: false };
    let (end, asked) = attended(&mut bench, no).await;
    assert!(matches!(end, TurnEnd::Aborted { in_tools: true }), "{end:?}");
    assert_eq!(asked.len(), 1);
    assert_eq!(bench.lines().iter().filter(|line| line.ends_with("begins")).count(), 11);
    bench.close().await;
}
