//! Agents that somebody stops waiting for.

use gimlet_proto::{Block, Body, Event, ModelEvent, Op, Origin, Reply, TaskState, ToolPhase, ToolUseId};
use serde_json::json;

use crate::bench::{Bench, Setup, call, reply};

fn says(text: &str) -> Vec<ModelEvent> {
    reply(&[Block::text(text)])
}

fn wait() -> Vec<ModelEvent> {
    reply(&[call("wait", "Look", json!({"name": "wait", "manner": "wait"}))])
}

fn send(id: &str, background: bool) -> Vec<ModelEvent> {
    reply(&[call(id, "Agent", json!({"task": "slow", "background": background}))])
}

fn begins(event: &Event, name: &str) -> bool {
    matches!(&event.body, Body::Tool(tool) if tool.call.as_str() == name && matches!(tool.phase, ToolPhase::Running))
}

/// Asks for a move as soon as the agent waits; gives what was answered.
async fn move_when_it_waits(bench: &mut Bench, call: Option<&str>, events: &mut Vec<Event>) -> bool {
    let (reply, answer) = Reply::channel();
    let mut op = Some(Op::Background { call: call.map(ToolUseId::new), reply });
    bench.say("go");
    bench
        .turn(|event, handle| {
            events.push(event.clone());
            if begins(event, "wait")
                && let Some(op) = op.take()
            {
                handle.send(op);
            }
        })
        .await;
    answer.await.unwrap().unwrap()
}

#[tokio::test]
async fn an_agent_that_is_moved_goes_on_alone_and_reports_as_if_it_had_been_sent_like_that() {
    for call in [None, Some("t1")] {
        let tasks = vec![("slow", vec![wait(), says("I found it.")])];
        let setup = Setup { tasks, attended: true, ..Setup::default() };
        let mut bench = Bench::new(setup, vec![send("t1", false), says("done"), says("Thanks.")]);
        let mut events = Vec::new();
        assert!(move_when_it_waits(&mut bench, call, &mut events).await);
        let views: Vec<bool> = events
            .iter()
            .filter_map(|event| match &event.body {
                Body::Task(task) => Some(task.backgrounded),
                _ => None,
            })
            .collect();
        assert_eq!((views.first(), views.last()), (Some(&false), Some(&true)));
        // Whoever interrupts now means something else.
        bench.handle.send(Op::interrupt());
        bench.log.go.notify_one();
        let report = bench.turn(|event, _| events.push(event.clone())).await;
        assert_eq!((report.text.as_str(), report.origin), ("Thanks.", Some(Origin::TaskNotification)));
        assert_eq!(bench.handle.snapshot().tasks[0].state, TaskState::Completed);
        bench.close().await;
    }
}

#[tokio::test]
async fn nothing_is_moved_that_was_not_meant_or_that_nobody_waits_for() {
    let tasks = vec![("slow", vec![wait(), says("I found it.")])];
    let setup = Setup { tasks, attended: true, ..Setup::default() };
    let mut bench = Bench::new(setup, vec![send("t1", false), says("done")]);
    bench.log.go.notify_one();
    assert!(!move_when_it_waits(&mut bench, Some("t9"), &mut Vec::new()).await);
    let (reply, answer) = Reply::channel();
    bench.handle.send(Op::Background { call: None, reply });
    assert!(!answer.await.unwrap().unwrap(), "nothing runs");
    bench.close().await;
}
