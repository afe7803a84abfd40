//! What front ends show of calls and questions: previews, failures, history, and questions of servers.

use std::sync::{Arc, Mutex};

use gimlet_core::tool::{ServerRequestFacts, ToolRef, ToolSource};
use gimlet_core::{HostPermit, UserAsker};
use gimlet_proto::{
    AskAnswer, AskBody, Block, BoxFuture, ElicitationAction, ElicitationAsk, ElicitationRequest, EventBody,
    HistoryBody, HistoryItem, Op, OpReply, PermissionMode, Role, ServerRequest, ServerView, SessionHandle,
    SessionQuery, ToolCallPhase, View,
};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::session_bench::{BenchSetup, SessionBench, answer_all, call, reply};

fn touch(id: &str, manner: &str) -> Block {
    call(id, "Touch", json!({"name": "x", "manner": manner}))
}

fn done() -> Vec<gimlet_proto::ModelEvent> {
    reply(&[Block::text("done")])
}

#[tokio::test]
async fn a_question_shows_what_the_call_would_do_and_a_failure_has_a_view() {
    let setup = BenchSetup { mode: PermissionMode::Default, attended: true, ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![reply(&[touch("a", "fail")]), done()]);
    bench.say("go");
    let (mut previews, mut failures) = (Vec::new(), Vec::new());
    let mut yes = answer_all(AskAnswer::yes);
    bench
        .turn(|event, handle| {
            match &event.body {
                EventBody::Ask(ask) => {
                    let asked = ask.body.call().unwrap();
                    previews.push((asked.preview.clone(), asked.destructive));
                }
                EventBody::Tool(tool) => {
                    if let ToolCallPhase::Failed { view, .. } = &tool.phase {
                        failures.push(view.clone());
                    }
                }
                _ => {}
            }
            yes(event, handle);
        })
        .await;
    assert_eq!(previews, [(View::Text("file".into()), false)]);
    assert_eq!(failures, [View::Text("x failed".into())]);
    bench.close().await;
}

#[tokio::test]
async fn a_refused_call_has_a_view() {
    let setup = BenchSetup { deny: vec!["Edit(file)"], ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![reply(&[touch("a", "")]), done()]);
    bench.say("go");
    let mut shown = Vec::new();
    bench
        .turn(|event, _| {
            if let EventBody::Denied(denial) = &event.body {
                shown.push((denial.view.clone(), denial.message.clone()));
            }
        })
        .await;
    let [(View::Text(text), message)] = shown.as_slice() else { panic!("{shown:?}") };
    assert_eq!(text, message);
    bench.close().await;
}

#[tokio::test]
async fn a_call_adds_texts_content_and_notices_and_knows_the_reply_that_made_it() {
    let first = reply(&[Block::text("I look."), touch("a", "message"), touch("b", "news")]);
    let mut bench = SessionBench::new(BenchSetup::default(), vec![first, done()]);
    bench.say("go");
    let mut notices = Vec::new();
    bench
        .turn(|event, _| {
            if let EventBody::Notice(notice) = &event.body {
                notices.push(notice.text.clone());
            }
        })
        .await;
    assert_eq!(notices, ["a notice"]);
    let requests = bench.model.requests();
    let last = requests[1].messages.last().unwrap();
    let texts: Vec<String> = last.blocks.iter().filter_map(Block::as_text).map(|text| text.into_owned()).collect();
    assert_eq!(texts, ["a text", "one", "two"], "behind the results, and without the notice");
    assert_eq!(bench.results(1)[0].2, "2", "the text and the call itself");
    bench.close().await;
}

async fn history(handle: &SessionHandle) -> Result<Vec<HistoryItem>, String> {
    let (reply, answer) = OpReply::channel();
    handle.send(Op::Query(SessionQuery::History { agent: None, reply }));
    answer.await.unwrap()
}

/// One line about each item.
fn outline(items: &[HistoryItem]) -> Vec<String> {
    let texts = |blocks: &[Block]| blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("|");
    let line = |item: &HistoryItem| {
        assert!(!item.entry.as_str().is_empty() && item.at.is_some());
        match &item.body {
            HistoryBody::Prompt(blocks) => format!("prompt {}", texts(blocks)),
            HistoryBody::Reply(blocks) => format!("reply {}", texts(blocks)),
            HistoryBody::Call(call) => {
                assert_eq!(item.role, Role::Assistant);
                let result = call.result.as_ref().map(|result| (result.failed, &result.view));
                format!("{} {}({}) {result:?}", call.call, call.name, call.summary)
            }
            other => format!("{other:?}"),
        }
    };
    // What the model is told about its surroundings is there as well, apart from what the user wrote.
    let (injected, shown): (Vec<_>, Vec<_>) =
        items.iter().partition(|item| matches!(item.body, HistoryBody::Injected(_)));
    assert!(!injected.is_empty());
    shown.into_iter().map(line).collect()
}

#[tokio::test]
async fn the_history_of_a_session_comes_as_views_while_it_runs_and_after_it_is_resumed() {
    let setup = || BenchSetup { saved: true, ..BenchSetup::default() };
    let calls = [Block::text("I look."), touch("a", ""), touch("b", "fail"), call("c", "Gone", json!({"q": 1}))];
    let mut bench = SessionBench::new(setup(), vec![reply(&calls), done()]);
    assert!(history(&bench.handle).await.unwrap().is_empty(), "before the first prompt");
    bench.run("go").await;
    let shown = outline(&history(&bench.handle).await.unwrap());
    let unknown = "<tool_use_error>There is no tool named Gone.";
    assert_eq!(
        shown[..4],
        [
            "prompt go".to_owned(),
            "reply I look.".to_owned(),
            format!("a Touch(file) {:?}", Some((false, View::Text("x done".into())))),
            format!("b Touch(file) {:?}", Some((true, View::Text("x failed".into())))),
        ]
    );
    assert!(shown[4].starts_with("c Gone({\"q\":1}) Some((true") && shown[4].contains(unknown), "{}", shown[4]);
    assert_eq!(shown[5..], ["reply done"]);
    let id = bench.handle.id.clone();
    let dir = bench.close().await;
    let bench = SessionBench::open(dir, id, setup(), Vec::new());
    assert_eq!(outline(&history(&bench.handle).await.unwrap()), shown);
    bench.close().await;
}

#[tokio::test]
async fn a_session_that_is_not_kept_says_that_it_has_no_history() {
    let bench = SessionBench::new(BenchSetup::default(), Vec::new());
    assert!(history(&bench.handle).await.unwrap_err().contains("no transcript"));
    bench.close().await;
}

/// A source without tools that keeps the way to the user.
#[derive(Default)]
struct AskingSource(Mutex<Option<UserAsker>>);

impl ToolSource for AskingSource {
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>> {
        Box::pin(async { Vec::new() })
    }

    fn set_user_asker(&self, asker: UserAsker) {
        *self.0.lock().unwrap() = Some(asker);
    }

    fn servers(&self) -> Vec<ServerView> {
        Vec::new()
    }

    fn look_up_request<'a>(&'a self, _wish: &'a ServerRequest) -> BoxFuture<'a, ServerRequestFacts> {
        Box::pin(async { ServerRequestFacts::default() })
    }

    fn execute_request(&self, _leave: HostPermit) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async { Err("there is no server".to_owned()) })
    }
}

fn question() -> ElicitationAsk {
    ElicitationAsk {
        server: "guard".into(),
        message: "Who are you?".into(),
        request: ElicitationRequest::Form { schema: json!({"type": "object"}) },
        raw: Map::new(),
    }
}

#[tokio::test]
async fn a_servers_question_is_one_of_the_sessions_and_outlives_an_interrupt() {
    let source = Arc::new(AskingSource::default());
    let setup = BenchSetup { attended: true, guests: Some(source.clone()), ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, Vec::new());
    let asker = source.0.lock().unwrap().clone().unwrap();
    let mut asking = JoinSet::new();
    asking.spawn(async move { asker.elicit(question()).await });
    let ask = loop {
        if let EventBody::Ask(ask) = bench.events.next().await.unwrap().body {
            break ask;
        }
    };
    let AskBody::Elicitation(asked) = &ask.body else { panic!("{:?}", ask.body) };
    assert_eq!(**asked, question());
    bench.handle.send(Op::interrupt());
    let content = Map::from_iter([("name".to_owned(), json!("Ada"))]);
    let given = AskAnswer::Elicited { action: ElicitationAction::Accept, content: Some(content.clone()) };
    bench.handle.send(Op::Answer { ask: ask.id, answer: given });
    assert_eq!(asking.join_next().await.unwrap().unwrap(), Some((ElicitationAction::Accept, Some(content))));
    bench.close().await;
}

#[tokio::test]
async fn a_servers_question_is_closed_when_the_server_withdraws_it_and_when_the_session_ends() {
    let source = Arc::new(AskingSource::default());
    let setup = BenchSetup { attended: true, guests: Some(source.clone()), ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, Vec::new());
    let asker = source.0.lock().unwrap().clone().unwrap();
    let (one, other) = (asker.clone(), asker);
    let mut asking = JoinSet::new();
    let first = asking.spawn(async move { one.elicit(question()).await });
    let mut seen = Vec::new();
    while let Some(event) = bench.events.next().await {
        match event.body {
            EventBody::Ask(ask) => {
                seen.push(format!("ask {:?}", ask.id));
                if seen.len() == 1 {
                    first.abort();
                } else {
                    bench.handle.send(Op::Close);
                }
            }
            EventBody::AskClosed(id) => {
                seen.push(format!("closed {id:?}"));
                if seen.len() == 2 {
                    let other = other.clone();
                    asking.spawn(async move { other.elicit(question()).await });
                }
            }
            _ => {}
        }
    }
    assert_eq!(seen, ["ask AskId(1)", "closed AskId(1)", "ask AskId(2)", "closed AskId(2)"]);
    bench.close().await;
}

#[tokio::test]
async fn where_no_front_end_can_answer_a_servers_question_is_not_answered() {
    let source = Arc::new(AskingSource::default());
    let setup = BenchSetup { guests: Some(source.clone()), ..BenchSetup::default() };
    let bench = SessionBench::new(setup, Vec::new());
    let asker = source.0.lock().unwrap().clone().unwrap();
    assert_eq!(asker.elicit(question()).await, None);
    bench.close().await;
}
