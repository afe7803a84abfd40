//! Calls that take long and agents that get nowhere. The clock stands still until everybody waits for it.

use std::ops::RangeInclusive;
use std::time::Duration;

use gimlet_proto::{Block, Env, EventBody, ModelEvent, Op, OpReply, TaskState, ToolCallPhase};
use serde_json::json;

use crate::session_bench::{BenchSetup, SessionBench, call, reply};

fn text_reply(text: &str) -> Vec<ModelEvent> {
    reply(&[Block::text(text)])
}

fn spawn_reply(id: &str, background: bool) -> Vec<ModelEvent> {
    reply(&[call(id, "Agent", json!({"task": "slow", "background": background}))])
}

#[tokio::test(start_paused = true)]
async fn an_agent_alone_that_gets_nowhere_is_given_up_and_what_it_said_is_told() {
    assert_given_up(Env::default(), "10 minutes", 590..=610).await;
    assert_given_up(Env::default().with("CLAUDE_ASYNC_AGENT_STALL_TIMEOUT_MS", "90000"), "90 seconds", 85..=95).await;
}

async fn assert_given_up(env: Env, after: &str, seconds: RangeInclusive<u64>) {
    let hang = reply(&[Block::text("I begin."), call("h1", "Look", json!({"name": "h1", "manner": "hang"}))]);
    let setup = BenchSetup { tasks: vec![("slow", vec![hang])], attended: true, env, ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![spawn_reply("t1", true), text_reply("done"), text_reply("I see.")]);
    bench.run("go").await;
    let begun = tokio::time::Instant::now();
    let mut told = String::new();
    let report = bench
        .turn(|event, _| {
            if let EventBody::Prompt(prompt) = &event.body {
                told = prompt.blocks[0].as_text().unwrap().into_owned();
            }
        })
        .await;
    assert_eq!(report.text, "I see.");
    assert!(told.contains(&format!("nothing happened for {after}")) && told.contains("I begin."), "{told}");
    let waited = begun.elapsed().as_secs();
    assert!(seconds.contains(&waited), "{waited} s");
    assert_eq!(bench.handle.snapshot().tasks[0].state, TaskState::Failed);
    bench.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_gets_on_or_that_somebody_waits_for_is_not_given_up() {
    let slow = |id: &str| reply(&[call(id, "Look", json!({"name": id, "ms": 500_000}))]);
    for background in [true, false] {
        // In the foreground one call alone takes longer than the limit.
        let longer =
            reply(&[call("x3", "Look", json!({"name": "x3", "ms": if background { 500_000 } else { 900_000 }}))]);
        let tasks = vec![("slow", vec![slow("x1"), slow("x2"), longer, text_reply("At last.")])];
        let setup = BenchSetup { tasks, attended: true, ..BenchSetup::default() };
        let mut bench =
            SessionBench::new(setup, vec![spawn_reply("t1", background), text_reply("done"), text_reply("I see.")]);
        bench.run("go").await;
        if background {
            bench.turn(|_, _| {}).await;
        }
        assert_eq!(bench.handle.snapshot().tasks[0].state, TaskState::Completed, "{background}");
        bench.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_while_somebody_waited_is_not_held_against_an_agent_that_is_moved() {
    let slow = reply(&[call("x1", "Look", json!({"name": "x1", "ms": 1_000_000}))]);
    let setup = BenchSetup {
        tasks: vec![("slow", vec![slow, text_reply("At last.")])],
        attended: true,
        ..BenchSetup::default()
    };
    let mut bench = SessionBench::new(setup, vec![spawn_reply("t1", false), text_reply("done"), text_reply("I see.")]);
    let handle = bench.handle.clone();
    bench.say("go");
    let moving = async {
        tokio::time::sleep(Duration::from_secs(700)).await;
        handle.send(Op::MoveToBackground { call: None, reply: OpReply::ignored() });
    };
    tokio::join!(bench.turn(|_, _| {}), moving);
    bench.turn(|_, _| {}).await;
    assert_eq!(bench.handle.snapshot().tasks[0].state, TaskState::Completed);
    bench.close().await;
}

#[tokio::test(start_paused = true)]
async fn only_long_calls_of_the_main_conversation_have_a_heartbeat_and_agents_show_their_work() {
    let look = |id: &str, ms: u64| reply(&[call(id, "Look", json!({"name": id, "ms": ms}))]);
    let setup =
        BenchSetup { tasks: vec![("slow", vec![look("inner", 95_000), text_reply("Done.")])], ..BenchSetup::default() };
    let mut bench = SessionBench::new(
        setup,
        vec![look("short", 29_000), look("long", 95_000), spawn_reply("t1", false), text_reply("done")],
    );
    bench.say("go");
    let mut beats = Vec::new();
    bench
        .turn(|event, _| {
            if let EventBody::Tool(tool) = &event.body
                && let ToolCallPhase::Progress { text, .. } = &tool.phase
                && text.is_empty()
            {
                beats.push(tool.call.to_string());
            }
        })
        .await;
    assert_eq!(beats, ["long"; 3]);
    bench.close().await;
}
