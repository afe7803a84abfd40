//! Tools that come from elsewhere and may go again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gimlet_core::HostPermit;
use gimlet_core::tool::{
    ExternalTool, ExternalToolHandler, ExternalToolResult, ExternalToolSpec, ResultCap, ServerRequestFacts,
    ToolContext, ToolError, ToolRef, ToolSource,
};
use gimlet_proto::{AskAnswer, Block, BoxFuture, EventBody, Op, OpReply, PermissionMode, ServerRequest, ServerView};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::session_bench::{BenchSetup, SessionBench, call, reply};

/// Fails with its own name, so that it can be told who was called.
struct FailingHandler(&'static str);

impl ExternalToolHandler for FailingHandler {
    fn call<'a>(
        &'a self,
        _input: Map<String, Value>,
        _cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ExternalToolResult, ToolError>> {
        Box::pin(async { Err(ToolError::failed(self.0)) })
    }
}

/// Guests by name, each with words of its own.
pub(crate) struct FixedToolSource(pub(crate) Vec<(&'static str, &'static str)>);

impl ToolSource for FixedToolSource {
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>> {
        let guest = |(name, says): &(&'static str, &'static str)| {
            let guest = ExternalToolSpec {
                name: (*name).to_owned(),
                also_named: Arc::default(),
                server: None,
                description: (*says).to_owned(),
                schema: json!({"type": "object", "properties": {}}),
                says_read_only: true,
                requires_user_interaction: false,
                own: false,
                main_only: false,
                max_result_chars: ResultCap::Chars(1_000),
                label: (*name).to_owned(),
            };
            ToolRef::External(Arc::new(ExternalTool::new(guest, Arc::new(FailingHandler(says)))))
        };
        let guests = self.0.iter().map(guest).collect();
        Box::pin(async move { guests })
    }

    fn servers(&self) -> Vec<ServerView> {
        Vec::new()
    }

    fn look_up_request<'a>(&'a self, _wish: &'a ServerRequest) -> BoxFuture<'a, ServerRequestFacts> {
        Box::pin(async { ServerRequestFacts::default() })
    }

    fn execute_request(&self, _leave: HostPermit) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async { Err("nothing was called".to_owned()) })
    }
}

#[tokio::test]
async fn of_external_tools_with_one_name_only_the_first_is_used() {
    let source =
        FixedToolSource(vec![("mcp__a_b__x", "the first"), ("mcp__a_b__x", "the second"), ("Look", "an impostor")]);
    let setup = BenchSetup { guests: Some(Arc::new(source)), ..BenchSetup::default() };
    let calls = [call("g1", "mcp__a_b__x", json!({})), call("l1", "Look", json!({"name": "l1"}))];
    let mut bench = SessionBench::new(setup, vec![reply(&calls), reply(&[Block::text("done")])]);
    bench.run("go").await;
    let sent = bench.model.requests()[0].tools.clone();
    let named = |name: &str| -> Vec<&str> {
        sent.iter().filter(|tool| tool.name == name).map(|tool| tool.description.as_str()).collect()
    };
    assert_eq!(named("mcp__a_b__x"), ["the first"]);
    assert_eq!(named("Look"), ["A tool for tests."]);
    let results = bench.results(1);
    assert!(results[0].2.contains("the first") && results[1].2 == "l1 done", "{results:?}");
    bench.close().await;
}

#[tokio::test]
async fn a_substituted_tool_is_called_and_judged_by_its_own_name() {
    let guests = vec![("mcp__a__look", "look of a")];
    let stand_ins = vec![
        ("Look", "mcp__a__look"),
        // One step and no further.
        ("mcp__a__look", "Touch"),
        ("Touch", "mcp__gone__touch"),
    ];
    let setup = BenchSetup {
        guests: Some(Arc::new(FixedToolSource(guests))),
        stand_ins,
        deny: vec!["Look"],
        ..BenchSetup::default()
    };
    let step = |name: &str| json!({"name": name});
    let calls =
        [call("c1", "Look", step("c1")), call("c2", "Touch", step("c2")), call("c3", "mcp__a__look", step("c3"))];
    let mut bench = SessionBench::new(setup, vec![reply(&calls), reply(&[Block::text("done")])]);
    bench.run("go").await;
    let results = bench.results(1);
    let ids: Vec<&str> = results.iter().map(|(id, _, _)| id.as_str()).collect();
    assert_eq!(ids, ["c1", "c2", "c3"]);
    assert_eq!(results[0].2, "look of a", "a rule about the other tool does not hold for it");
    assert!(results[1].1 && results[1].2.contains("mcp__gone__touch"), "what should run elsewhere does not run here");
    assert_eq!(results[2].2, "c3 done");
    // History has the call as it was written.
    let written = bench.model.requests()[1]
        .messages
        .iter()
        .flat_map(|message| message.tool_uses())
        .next()
        .unwrap()
        .name
        .into_owned();
    assert_eq!(written, "Look");
    bench.close().await;
}

#[tokio::test]
async fn external_tools_are_part_of_the_context_usage() {
    let setup = BenchSetup {
        guests: Some(Arc::new(FixedToolSource(vec![("mcp__calc__add", "Adds.")]))),
        ..BenchSetup::default()
    };
    let mut bench = SessionBench::new(setup, vec![reply(&[Block::text("done")])]);
    bench.run("go").await;
    let (ask, answer) = OpReply::channel();
    bench.handle.send(Op::ContextUsage { reply: ask });
    let usage = answer.await.unwrap().unwrap();
    assert!(usage.tools.iter().any(|tool| tool.name == "mcp__calc__add"), "{:?}", usage.tools);
    assert!(usage.categories.iter().any(|category| category.name == "MCP tools"), "{:?}", usage.categories);
    bench.close().await;
}

/// Has nothing, and takes its time to say so once it is told to.
#[derive(Default)]
struct SlowToolSource {
    slow: AtomicBool,
    asked: Notify,
    go: Notify,
}

impl ToolSource for SlowToolSource {
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>> {
        Box::pin(async {
            if self.slow.load(Ordering::SeqCst) {
                self.asked.notify_one();
                self.go.notified().await;
            }
            Vec::new()
        })
    }

    fn servers(&self) -> Vec<ServerView> {
        Vec::new()
    }

    fn look_up_request<'a>(&'a self, _wish: &'a ServerRequest) -> BoxFuture<'a, ServerRequestFacts> {
        Box::pin(async { ServerRequestFacts::default() })
    }

    fn execute_request(&self, _leave: HostPermit) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async { Err("nothing was called".to_owned()) })
    }
}

#[tokio::test]
async fn background_agents_can_ask_while_external_tools_load() {
    let source = Arc::new(SlowToolSource::default());
    let wait = reply(&[call("wait", "Look", json!({"name": "wait", "manner": "wait"}))]);
    let touch = reply(&[call("w1", "Touch", json!({"name": "w1"}))]);
    let setup = BenchSetup {
        tasks: vec![("write", vec![wait, touch, reply(&[Block::text("Written.")])])],
        guests: Some(source.clone()),
        attended: true,
        mode: PermissionMode::Default,
        ..BenchSetup::default()
    };
    let away = reply(&[call("t1", "Agent", json!({"task": "write", "background": true}))]);
    let done = || reply(&[Block::text("done")]);
    let mut bench = SessionBench::new(setup, vec![away, done(), done(), done()]);
    bench.run("go").await;
    source.slow.store(true, Ordering::SeqCst);
    bench.say("again");
    source.asked.notified().await;
    bench.log.go.notify_one();
    let turn = bench.turn(|event, handle| {
        if let EventBody::Ask(ask) = &event.body {
            handle.send(Op::Answer { ask: ask.id, answer: AskAnswer::yes() });
            source.slow.store(false, Ordering::SeqCst);
            source.go.notify_one();
        }
    });
    tokio::time::timeout(Duration::from_secs(30), turn)
        .await
        .expect("the question is asked before the guests are there");
    bench.close().await;
}
