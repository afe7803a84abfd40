//! Agents that somebody stops waiting for.

use gimlet_proto::{
    Block, Event, EventBody, ModelEvent, Op, OpReply, PromptOrigin, TaskState, ToolCallPhase, ToolUseId,
};
use serde_json::json;

use crate::session_bench::{BenchSetup, SessionBench, call, reply};

fn text_reply(text: &str) -> Vec<ModelEvent> {
    reply(&[Block::text(text)])
}

fn gated_reply() -> Vec<ModelEvent> {
    reply(&[call("wait", "Look", json!({"name": "wait", "manner": "wait"}))])
}

fn spawn_reply(id: &str, background: bool) -> Vec<ModelEvent> {
    reply(&[call(id, "Agent", json!({"task": "slow", "background": background}))])
}

fn begins(event: &Event, name: &str) -> bool {
    matches!(&event.body, EventBody::Tool(tool) if tool.call.as_str() == name && matches!(tool.phase, ToolCallPhase::Running))
}

/// Asks for a move as soon as the agent waits; gives what was answered.
async fn move_when_it_waits(bench: &mut SessionBench, call: Option<&str>, events: &mut Vec<Event>) -> bool {
    let (reply, answer) = OpReply::channel();
    let mut op = Some(Op::MoveToBackground { call: call.map(ToolUseId::new), reply });
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
        let tasks = vec![("slow", vec![gated_reply(), text_reply("I found it.")])];
        let setup = BenchSetup { tasks, attended: true, ..BenchSetup::default() };
        let mut bench =
            SessionBench::new(setup, vec![spawn_reply("t1", false), text_reply("done"), text_reply("Thanks.")]);
        let mut events = Vec::new();
        assert!(move_when_it_waits(&mut bench, call, &mut events).await);
        let views: Vec<bool> = events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::Task(task) => Some(task.backgrounded),
                _ => None,
            })
            .collect();
        assert_eq!((views.first(), views.last()), (Some(&false), Some(&true)));
        // Whoever interrupts now means something else.
        bench.handle.send(Op::interrupt());
        bench.log.go.notify_one();
        let report = bench.turn(|event, _| events.push(event.clone())).await;
        assert_eq!((report.text.as_str(), report.origin), ("Thanks.", Some(PromptOrigin::TaskNotification)));
        assert_eq!(bench.handle.snapshot().tasks[0].state, TaskState::Completed);
        bench.close().await;
    }
}

#[tokio::test]
async fn only_the_named_foreground_call_moves_to_the_background() {
    let tasks = vec![("slow", vec![gated_reply(), text_reply("I found it.")])];
    let setup = BenchSetup { tasks, attended: true, ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![spawn_reply("t1", false), text_reply("done")]);
    bench.log.go.notify_one();
    assert!(!move_when_it_waits(&mut bench, Some("t9"), &mut Vec::new()).await);
    let (reply, answer) = OpReply::channel();
    bench.handle.send(Op::MoveToBackground { call: None, reply });
    assert!(!answer.await.unwrap().unwrap(), "nothing runs");
    bench.close().await;
}
