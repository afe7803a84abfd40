//! Prompts and images that the server refuses: whatever it does not take must not be sent with every later prompt, and what
//! a refusal took is counted once.

use gimlet_proto::{
    Block, BlockKind, Event, EventBody, Message, ModelError, ModelErrorKind, ModelEvent, Op, OpReply, PermissionMode,
    ReplyStart, SessionHandle, SubmittedPrompt, TokenUsage, TurnEnd,
};
use serde_json::json;

use crate::hook_program::{HookProgram, context_output, hook};
use crate::hooks_on_calls::bench;
use crate::session_bench::{BenchSetup, SessionBench, call, reply};

fn picture() -> Block {
    // The head of a PNG of one pixel.
    let source =
        json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"});
    Block::from_json(&json!({"type": "image", "source": source}).to_string()).unwrap()
}

fn prompt_with_image(text: &str) -> SubmittedPrompt {
    SubmittedPrompt { blocks: vec![Block::text(text), picture()], ..SubmittedPrompt::default() }
}

fn fails(kind: ModelErrorKind, message: &str) -> Vec<ModelEvent> {
    let message = message.to_owned();
    vec![ModelEvent::Failed(ModelError { kind, status: None, message, hint: None, request_id: None })]
}

fn refused() -> Vec<ModelEvent> {
    fails(ModelErrorKind::InvalidRequest, "messages.0.content.1.image.source: Could not process image")
}

fn done() -> Vec<ModelEvent> {
    reply(&[Block::text("done")])
}

fn images(bench: &SessionBench, request: usize) -> usize {
    let requests = bench.model.requests();
    let blocks = requests[request].messages.iter().flat_map(|message| &message.blocks);
    blocks.filter(|block| block.kind() == BlockKind::Image).count()
}

fn texts(bench: &SessionBench, request: usize) -> Vec<String> {
    let texts = |message: &Message| -> Vec<String> {
        message.blocks.iter().filter_map(|block| block.as_text().map(|text| text.into_owned())).collect()
    };
    bench.model.requests()[request].messages.iter().flat_map(|message| texts(message)).collect()
}

/// Where the request after a refusal has a note in the place of the image, and the turn comes to its end.
fn assert_image_dropped(bench: &SessionBench, end: &TurnEnd, refused: usize) {
    assert!(matches!(end, TurnEnd::Completed), "{end:?}");
    assert_eq!((images(bench, refused), images(bench, refused + 1)), (1, 0));
    assert!(texts(bench, refused + 1).iter().any(|text| text.contains("An image stood here")));
}

#[tokio::test]
async fn an_image_that_joined_a_turn_is_left_out_when_the_server_refuses_it() {
    let waits = reply(&[call("a", "Touch", json!({"name": "a", "manner": "wait"}))]);
    let mut bench = SessionBench::new(BenchSetup::default(), vec![waits, refused(), done()]);
    bench.say("go");
    let log = bench.log.clone();
    let report = bench
        .turn(|event, handle| match &event.body {
            EventBody::Block(block) if block.block.kind() == BlockKind::ToolUse => {
                handle.send(Op::Submit(prompt_with_image("and this")));
                handle.send(Op::SetMode { mode: PermissionMode::AcceptEdits, reply: OpReply::ignored() });
            }
            // Operations are taken in order: what was said waits by now.
            EventBody::ModeChanged(_) => log.go.notify_one(),
            _ => {}
        })
        .await;
    assert_image_dropped(&bench, &report.end, 1);
    assert!(texts(&bench, 2).contains(&"and this".to_owned()));
    bench.close().await;
}

#[tokio::test]
async fn an_image_that_was_only_to_be_known_is_left_out_when_the_server_refuses_it() {
    let mut bench = SessionBench::new(BenchSetup::default(), vec![refused(), done()]);
    bench.handle.send(Op::Submit(SubmittedPrompt { silent: true, ..prompt_with_image("by the way") }));
    let report = bench.run("go").await;
    assert_image_dropped(&bench, &report.end, 0);
    bench.close().await;
}

#[tokio::test]
async fn an_image_of_a_turn_that_failed_otherwise_is_left_out_when_the_server_refuses_it_later() {
    let busy = fails(ModelErrorKind::Overloaded, "busy");
    let mut bench = SessionBench::new(BenchSetup::default(), vec![busy, refused(), done()]);
    bench.handle.send(Op::Submit(prompt_with_image("look")));
    assert!(matches!(bench.turn(|_, _| {}).await.end, TurnEnd::Failed(_)));
    let report = bench.run("go").await;
    assert_image_dropped(&bench, &report.end, 1);
    bench.close().await;
}

#[tokio::test]
async fn what_a_prompt_itself_shows_is_taken_back_and_no_earlier_image_goes_with_it() {
    let mut bench = SessionBench::new(BenchSetup::default(), vec![done(), refused(), done()]);
    bench.handle.send(Op::Submit(prompt_with_image("a good one")));
    bench.turn(|_, _| {}).await;
    bench.handle.send(Op::Submit(prompt_with_image("a bad one")));
    assert!(matches!(bench.turn(|_, _| {}).await.end, TurnEnd::Failed(_)));
    bench.run("go on").await;
    assert_eq!(images(&bench, 2), 1);
    let said = texts(&bench, 2);
    assert!(said.contains(&"a good one".to_owned()) && !said.contains(&"a bad one".to_owned()), "{said:?}");
    bench.close().await;
}

#[tokio::test]
async fn unanswered_content_is_dropped_before_the_prompt() {
    let mut bench = SessionBench::new(BenchSetup::default(), vec![refused(), done()]);
    bench.handle.send(Op::Submit(SubmittedPrompt { silent: true, ..prompt_with_image("by the way") }));
    bench.handle.send(Op::Submit(prompt_with_image("look")));
    let report = bench.turn(|_, _| {}).await;
    assert!(matches!(report.end, TurnEnd::Completed), "{:?}", report.end);
    assert_eq!((images(&bench, 0), images(&bench, 1)), (2, 1));
    assert_eq!(bench.model.requests()[1].messages.last().unwrap().blocks.last().unwrap().kind(), BlockKind::Image);
    bench.close().await;
}

#[tokio::test]
async fn a_prompt_that_is_taken_back_takes_nothing_with_it_that_is_said_once() {
    let start = json!({"hookSpecificOutput": {
        "hookEventName": "SessionStart", "additionalContext": "the build is red", "initialUserMessage": "begin",
    }});
    let program = HookProgram::default()
        .with_answer("start", start)
        .with_answer("prompt", context_output("UserPromptSubmit", "it is raining"));
    let hooks = vec![hook("SessionStart", &["start"]), hook("UserPromptSubmit", &["prompt"])];
    let setup = BenchSetup { mode: PermissionMode::Plan, saved: true, ..BenchSetup::default() };
    let (mut bench, _) = bench(setup, program, hooks, vec![refused(), done(), done()]);
    bench.handle.send(Op::Submit(prompt_with_image("a bad one")));
    assert!(matches!(bench.turn(|_, _| {}).await.end, TurnEnd::Failed(_)));
    bench.run("go").await;
    let said = texts(&bench, 1);
    let times = |wanted: &str| said.iter().filter(|text| text.contains(wanted)).count();
    for once in ["<environment>", "the build is red", "begin", "<plan-mode>", "it is raining", "go"] {
        assert_eq!(times(once), 1, "{once}: {said:?}");
    }
    assert_eq!(times("a bad one"), 0, "{said:?}");
    let (session, dir) = (bench.handle.id.clone(), bench.close().await);

    let again = BenchSetup { saved: true, ..BenchSetup::default() };
    let mut again = SessionBench::open(dir, session, again, vec![done()]);
    again.run("and now").await;
    assert_eq!(texts(&again, 0)[..said.len()], said, "on disk it is the same conversation");
    again.close().await;
}

#[tokio::test]
async fn what_a_refusal_took_counts_once_when_the_turn_is_stopped_before_another_model_speaks() {
    let usage = TokenUsage { input_tokens: 10, ..TokenUsage::default() };
    let start = ReplyStart { message_id: "msg_1".into(), model: "test".into(), usage, ..ReplyStart::default() };
    let declined = vec![
        ModelEvent::Started(start),
        ModelEvent::Spent { model: "test".into(), usage },
        ModelEvent::ReplyDiscarded,
        ModelEvent::Waiting { silent_ms: 0 },
    ];
    let mut bench = SessionBench::new(BenchSetup::default(), vec![declined]);
    bench.say("go");
    let stop = |event: &Event, handle: &SessionHandle| {
        if matches!(event.body, EventBody::ReplyDiscarded) {
            handle.send(Op::interrupt());
        }
    };
    let report = bench.turn(stop).await;
    assert!(matches!(report.end, TurnEnd::Aborted { .. }), "{:?}", report.end);
    assert_eq!(report.usage, usage);
    bench.close().await;
}
