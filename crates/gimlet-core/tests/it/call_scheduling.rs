//! Which calls run when, and that every call gets exactly one result.

use std::sync::atomic::Ordering;
use std::time::Duration;

use gimlet_core::tool::CallHint;
use gimlet_proto::{
    Block, Env, EventBody, ModelEvent, Op, PromptTiming, StopReason, SubmittedPrompt, ToolCallPhase, TurnEnd,
};
use serde_json::json;

use crate::session_bench::{BenchSetup, SessionBench, call, ended, reply, started};

fn look(id: &str, ms: u64) -> Block {
    call(id, "Look", json!({"name": id, "ms": ms}))
}

fn touch(id: &str) -> Block {
    call(id, "Touch", json!({"name": id}))
}

fn done() -> Vec<ModelEvent> {
    reply(&[Block::text("done")])
}

fn position(lines: &[String], line: &str) -> usize {
    lines.iter().position(|found| found == line).unwrap_or_else(|| panic!("{line} in {lines:?}"))
}

#[tokio::test]
async fn readers_run_together_and_everything_else_alone_in_order() {
    let calls = [look("a", 30), look("b", 5), touch("c"), look("d", 0)];
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&calls), done()]);
    bench.run("go").await;
    let lines = bench.lines();
    assert!(position(&lines, "look b begins") < position(&lines, "look a ends"), "a and b overlap: {lines:?}");
    assert!(position(&lines, "look a ends") < position(&lines, "touch c begins"), "{lines:?}");
    assert!(position(&lines, "touch c ends") < position(&lines, "look d begins"), "{lines:?}");
    let ids: Vec<String> = bench.results(1).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["a", "b", "c", "d"]);
    bench.close().await;
}

#[tokio::test]
async fn changes_of_a_parallel_group_are_applied_in_the_order_of_the_calls() {
    let calls: Vec<Block> =
        [("a", 40), ("b", 1), ("c", 20), ("d", 10)].into_iter().map(|(id, ms)| look(id, ms)).collect();
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&calls), done()]);
    bench.run("go").await;
    let changes: Vec<String> = bench.lines().into_iter().filter(|line| line.starts_with("change")).collect();
    assert_eq!(changes, ["change a", "change b", "change c", "change d"]);
    bench.close().await;
}

#[tokio::test]
async fn the_cap_on_parallel_calls_is_a_real_cap() {
    let calls: Vec<Block> = (0..25).map(|n| look(&format!("c{n}"), 5)).collect();
    let mut bench =
        SessionBench::new(BenchSetup { concurrency: 4, ..BenchSetup::default() }, vec![reply(&calls), done()]);
    bench.run("go").await;
    assert_eq!(bench.log.most.load(Ordering::SeqCst), 4);
    assert_eq!(bench.results(1).len(), 25);
    bench.close().await;
    let env = |value: &str| Env::default().with("CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY", value);
    assert_eq!(gimlet_core::concurrency_limit(&Env::default()), 10);
    assert_eq!(gimlet_core::concurrency_limit(&env("3")), 3);
    assert_eq!(gimlet_core::concurrency_limit(&env("0")), 10);
    assert_eq!(gimlet_core::concurrency_limit(&env("many")), 10);
    assert_eq!(gimlet_core::concurrency_limit(&env("9223372036854775807")), 256);
}

#[tokio::test]
async fn a_failing_a_panicking_and_an_unknown_call_take_no_sibling_along() {
    let calls = [
        look("a", 1),
        call("b", "Look", json!({"name": "b", "manner": "fail"})),
        call("c", "Look", json!({"name": "c", "manner": "panic"})),
        call("d", "Lok", json!({"name": "d"})),
        call("e", "Look", json!({"name": "e", "extra": 1})),
        look("f", 1),
    ];
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&calls), done()]);
    let report = bench.run("go").await;
    assert!(matches!(report.end, TurnEnd::Completed));
    let results = bench.results(1);
    let errors: Vec<(&str, bool)> = results.iter().map(|(id, error, _)| (id.as_str(), *error)).collect();
    assert_eq!(errors, [("a", false), ("b", true), ("c", true), ("d", true), ("e", true), ("f", false)]);
    assert!(results[3].2.contains("Did you mean Look?"), "{}", results[3].2);
    assert!(results[4].2.starts_with("<tool_use_error>InputValidationError"), "{}", results[4].2);
    assert!(results[4].2.contains("`extra`"), "{}", results[4].2);
    bench.close().await;
}

#[tokio::test]
async fn readers_start_while_the_reply_streams_but_never_overtake_a_writer() {
    let mut events = reply(&[look("a", 0), touch("b"), look("c", 0)]);
    // The reply stays open until the first call has ended: only an early start can end it.
    events.insert(events.len() - 1, ModelEvent::Waiting { silent_ms: 0 });
    let mut bench = SessionBench::new(BenchSetup::default(), vec![events, done()]);
    bench.say("go");
    let (log, go) = (bench.log.clone(), bench.model.go.clone());
    let mut by_then = Vec::new();
    let turn = bench.turn(|event, _| {
        let EventBody::Tool(view) = &event.body else { return };
        if matches!(view.phase, ToolCallPhase::Done { .. }) && view.call.as_str() == "a" {
            by_then = log.lines.lock().unwrap().clone();
            go.notify_one();
        }
    });
    assert!(tokio::time::timeout(Duration::from_secs(20), turn).await.is_ok(), "nothing began early");
    assert_eq!(by_then, ["look a begins", "look a ends"]);
    bench.close().await;
}

#[tokio::test]
async fn nothing_starts_while_the_reply_streams_where_that_is_not_wanted() {
    let mut events = reply(&[look("a", 0)]);
    events.insert(events.len() - 1, ModelEvent::Waiting { silent_ms: 0 });
    let mut bench = SessionBench::new(BenchSetup { early: false, ..BenchSetup::default() }, vec![events, done()]);
    bench.say("go");
    // The call is there and the reply goes on: long enough for one that does not wait.
    let quiet = tokio::time::timeout(Duration::from_millis(100), bench.turn(|_, _| {})).await;
    assert!(quiet.is_err() && bench.lines().is_empty(), "{:?}", bench.lines());
    bench.model.go.notify_one();
    bench.turn(|_, _| {}).await;
    assert_eq!(bench.lines()[0], "look a begins");
    bench.close().await;
}

#[tokio::test]
async fn tools_expect_calls_from_the_start_where_a_prompt_is_at_hand() {
    for prompted in [true, false] {
        let bench = SessionBench::new(BenchSetup { prompted, ..BenchSetup::default() }, vec![]);
        let told = bench.log.signs.lock().unwrap().clone();
        assert_eq!(told.contains(&CallHint::PromptReady), prompted, "before anything is said");
        bench.close().await;
    }
}

#[tokio::test]
async fn what_is_urgent_ends_the_turn_behind_the_running_call_without_a_word_about_it() {
    let calls = [call("a", "Touch", json!({"name": "a", "manner": "wait"}))];
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&calls), done()]);
    bench.say("go");
    let log = bench.log.clone();
    let report = bench
        .turn(|event, handle| {
            if matches!(&event.body, EventBody::Tool(view) if matches!(view.phase, ToolCallPhase::Running)) {
                handle.send(Op::Submit(SubmittedPrompt {
                    timing: PromptTiming::Now,
                    ..SubmittedPrompt::from_text("rather this")
                }));
                log.go.notify_one();
            }
        })
        .await;
    assert!(matches!(report.end, TurnEnd::Aborted { in_tools: true }), "{:?}", report.end);
    bench.turn(|_, _| {}).await;
    let history = format!("{:?}", bench.model.requests()[1].messages);
    assert!(history.contains("rather this") && history.contains("a went on"), "{history}");
    assert!(!history.contains("interrupted"), "{history}");
    bench.close().await;
}

#[tokio::test]
async fn a_discarded_reply_leaves_no_trace() {
    let mut events = reply(&[look("old", 0)]);
    events.pop();
    events.push(ModelEvent::ReplyDiscarded);
    events.extend(reply(&[look("new", 0)]));
    let mut bench = SessionBench::new(BenchSetup::default(), vec![events, done()]);
    bench.run("go").await;
    let ids: Vec<String> = bench.results(1).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["new"]);
    let history = bench.model.requests()[1].messages.iter().map(|message| format!("{message:?}")).collect::<String>();
    assert!(!history.contains("\"old\""), "{history}");
    assert!(!bench.lines().contains(&"change old".to_owned()), "{:?}", bench.lines());
    bench.close().await;
}

#[tokio::test]
async fn an_interrupt_in_a_mixed_batch_gives_every_call_exactly_one_result() {
    let calls = [look("a", 0), call("b", "Touch", json!({"name": "b", "manner": "hang"})), touch("c")];
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&calls), done()]);
    bench.say("go");
    let (log, handle) = (bench.log.clone(), bench.handle.clone());
    let interrupt = async {
        log.gate.notified().await;
        handle.send(Op::interrupt());
    };
    let (report, ()) = tokio::join!(bench.turn(|_, _| {}), interrupt);
    assert!(matches!(report.end, TurnEnd::Aborted { in_tools: true }), "{:?}", report.end);
    bench.run("go on").await;
    let requests = bench.model.requests();
    let last = requests[1].messages.iter().rev().find(|message| message.has_tool_use()).unwrap();
    assert_eq!(last.tool_uses().count(), 3);
    let results = bench.results(1);
    assert_eq!(results.iter().map(|(id, ..)| id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(results[0].2, "a done");
    assert_eq!(results[1].2, "b was stopped");
    assert!(results[2].2.starts_with("Not executed"), "{}", results[2].2);
    let texts = requests[1].messages.last().unwrap().text();
    assert_eq!(texts, "[Request interrupted by user for tool use]\ngo on");
    bench.close().await;
}

#[tokio::test]
async fn words_said_during_a_turn_join_after_the_running_calls() {
    let calls = [call("a", "Touch", json!({"name": "a", "ms": 20}))];
    let mut bench = SessionBench::new(BenchSetup::default(), vec![reply(&calls), done()]);
    bench.say("go");
    bench.say("and mind the gap");
    bench.turn(|_, _| {}).await;
    let requests = bench.model.requests();
    let last = requests[1].messages.last().unwrap();
    assert_eq!(last.text(), "and mind the gap");
    assert_eq!(last.blocks.len(), 2, "result first, words after it, in one message");
    bench.close().await;
}

#[tokio::test]
async fn a_paused_turn_is_sent_again_unchanged_and_only_so_often() {
    let paused = || {
        let mut events = vec![started()];
        events.push(ModelEvent::BlockDone { index: 0, block: Block::text("searching"), bad_input: None });
        events.push(ended(StopReason::PauseTurn));
        events
    };
    let mut bench = SessionBench::new(BenchSetup::default(), (0..20).map(|_| paused()).collect());
    bench.run("go").await;
    assert_eq!(bench.model.requests().len(), 9, "the first and eight more");
    bench.close().await;
}

#[tokio::test]
async fn a_budget_that_cannot_count_a_model_says_so_once() {
    let setup = BenchSetup { max_budget_usd: Some(1.0), ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![reply(&[Block::text("one")]), reply(&[Block::text("two")])]);
    let mut warnings = Vec::new();
    for text in ["go", "again"] {
        bench.say(text);
        bench
            .turn(|event, _| {
                if let EventBody::Notice(notice) = &event.body {
                    warnings.push(notice.text.clone());
                }
            })
            .await;
    }
    assert_eq!(warnings, ["no price is known for test: the budget cannot count what it costs"]);
    bench.close().await;
}
