//! The provider against a real socket that says whatever it likes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

mod broken_streams;
mod canned_server;
mod complete_responses;
mod connections;
mod key_helper;
mod model_fallback;
mod unbounded_replies;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use canned_server::CannedServer;
use gimlet_model::{ModelEngine, ProviderConfig};
use gimlet_proto::{
    Block, CachePlan, CacheTtl, Env, Message, Model, ModelError, ModelEvent, ModelRequest, ModelStream, ReplyEnd,
    ThinkingMode, ToolChoice,
};

pub(crate) const START: &str = r#"{"type":"message_start","message":{"id":"msg_a","role":"assistant","model":"m","content":[],"usage":{"input_tokens":11,"output_tokens":1}}}"#;
pub(crate) const TEXT: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
pub(crate) const HELLO: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#;
pub(crate) const TEXT_STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
pub(crate) const END_TURN: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}"#;
pub(crate) const STOP: &str = r#"{"type":"message_stop"}"#;
pub(crate) const REPLY: [&str; 6] = [START, TEXT, HELLO, TEXT_STOP, END_TURN, STOP];

pub(crate) fn env(server: &CannedServer) -> Env {
    Env::default().with("ANTHROPIC_API_KEY", "sk-canary").with("ANTHROPIC_BASE_URL", server.url.as_str())
}

pub(crate) fn provider(server: &CannedServer) -> ModelEngine {
    provider_with(&env(server), |config| config.retries.first_delay = Duration::from_millis(1))
}

pub(crate) fn provider_with(env: &Env, change: impl FnOnce(&mut ProviderConfig)) -> ModelEngine {
    let mut config = ProviderConfig::from_env(env).unwrap();
    change(&mut config);
    ModelEngine::new(config)
}

pub(crate) fn request(text: &str) -> ModelRequest {
    ModelRequest {
        model: "claude-sonnet-5-5".into(),
        max_tokens: None,
        system: Arc::from(["Be brief.".to_owned()]),
        tools: Arc::from([]),
        tool_choice: ToolChoice::Auto { parallel: true },
        messages: vec![Arc::new(Message::user(vec![Block::text(text)]))],
        few_images: None,
        cache: CachePlan { ttl: Some(CacheTtl::FiveMinutes), context: None, previous_len: None },
        thinking: ThinkingMode::ModelDefault,
        display: None,
        effort: None,
        want_wire_events: false,
    }
}

pub(crate) async fn next(stream: &mut ModelStream) -> Option<ModelEvent> {
    poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}

/// Everything a request tells, in order.
pub(crate) async fn collect_events(provider: &ModelEngine, request: ModelRequest) -> Vec<ModelEvent> {
    let mut stream = provider.stream(request);
    let mut events = Vec::new();
    let all = async {
        while let Some(event) = next(&mut stream).await {
            events.push(event);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("the stream ends");
    events
}

/// Short names of events, to compare whole courses at a glance.
pub(crate) fn summarize_events(events: &[ModelEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            ModelEvent::Retrying { attempt, error, .. } => format!("retry {attempt} {:?}", error.kind),
            ModelEvent::Waiting { .. } => "waiting".into(),
            ModelEvent::ReplyAnomalies(what) => format!("odd {what}"),
            ModelEvent::RateLimits(_) => "limits".into(),
            ModelEvent::Notice(_) => "notice".into(),
            ModelEvent::Started(_) => "started".into(),
            ModelEvent::BlockStarted { kind, .. } => format!("open {kind:?}"),
            ModelEvent::TextDelta { text, .. } => format!("text {text}"),
            ModelEvent::ThinkingDelta { text, .. } => format!("thinking {text}"),
            ModelEvent::InputDelta { text, .. } => format!("input {text}"),
            ModelEvent::BlockDone { block, .. } => format!("block {:?}", block.kind()),
            ModelEvent::ReplyDiscarded => "discarded".into(),
            ModelEvent::Spent { model, .. } => format!("spent {model}"),
            ModelEvent::Wire(_) => "wire".into(),
            ModelEvent::Done(end) if end.interrupted.is_some() => "interrupted".into(),
            ModelEvent::Done(_) => "done".into(),
            ModelEvent::Failed(error) => format!("failed {:?}", error.kind),
        })
        .collect()
}

pub(crate) const WHOLE: [&str; 5] = ["started", "open Text", "text Hello", "block Text", "done"];

pub(crate) fn reply_end(events: &[ModelEvent]) -> &ReplyEnd {
    match events.last() {
        Some(ModelEvent::Done(end)) => end,
        other => panic!("not a reply: {other:?}"),
    }
}

pub(crate) fn final_error(events: &[ModelEvent]) -> &ModelError {
    match events.last() {
        Some(ModelEvent::Failed(error)) => error,
        other => panic!("not a failure: {other:?}"),
    }
}

/// Lets every task that is ready run, so that what has arrived is also dealt with.
pub(crate) async fn run_ready_tasks() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
