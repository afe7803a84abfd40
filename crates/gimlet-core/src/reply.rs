//! Reading one reply: every complete block is on disk before it is published, and calls may start while the reply
//! streams.
//!
//! A block is held briefly before it is written: mostly the next event follows at once, and if that is the end of the
//! reply, the block's entry can include the stop reason and the usage.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use gimlet_proto::{
    AssistantBlock, Block, BlockDelta, BlockKind, CacheBreak, DeltaKind, EventBody, ItemId, Model, ModelError,
    ModelEvent, ModelFacts, ModelRequest, Notice, NoticeLevel, ReplyEnd, ReplyStart, RetryNotice, TokenUsage,
    ToolUseId,
};
use gimlet_text::is_too_deep;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::call::ToolCall;
use crate::conversation::Conversation;
use crate::schedule::CallSchedule;
use crate::tool::CallHint;
use crate::turn::Turn;

/// Time for which a complete block is held. It bounds the delay of calls that may start early.
const HELD: Duration = Duration::from_millis(50);

/// Reply as far as it was received.
pub(crate) struct ModelReply {
    pub(crate) start: ReplyStart,
    pub(crate) blocks: Vec<Block>,
    pub(crate) ending: ReplyEnding,
    /// Usage of models that refused to answer.
    pub(crate) spent: Vec<(String, TokenUsage)>,
    /// Set if the provider's cache missed the beginning of the conversation.
    pub(crate) cache_break: Option<CacheBreak>,
}

pub(crate) enum ReplyEnding {
    Complete(Box<ReplyEnd>),
    Failed(ModelError),
    /// The user stopped the reply.
    Aborted,
}

impl ModelReply {
    /// Returns the facts for billing: those of the model that answered, if it is known to differ from the requested
    /// one.
    pub(crate) fn billing_facts(&self, model: &dyn Model, asked: &ModelFacts) -> ModelFacts {
        let served = model.facts(&self.start.model);
        if served.known && served.price != asked.price { served } else { asked.clone() }
    }
}

/// Sends the request and reads the reply, passing complete tool calls to `calls` as they arrive.
pub(crate) async fn read_reply(
    turn: &Turn,
    conversation: &mut Conversation,
    request: ModelRequest,
    calls: &mut CallSchedule,
) -> ModelReply {
    let mut reader = ReplyStreamReader {
        turn,
        start: ReplyStart::default(),
        blocks: Vec::new(),
        spent: Vec::new(),
        cache_break: None,
        open: HashMap::new(),
        held: None,
    };
    conversation.record.begin_reply();
    turn.publish(EventBody::Requesting);
    let mut stream = turn.scope.model_selection.provider().stream(request);
    let mut is_awaited = false;
    let ending = loop {
        let event = tokio::select! {
            biased;
            () = turn.scope.cancel.cancelled() => {
                drop(stream);
                reader.flush_held_block(None, conversation, calls);
                reader.commit_partial_text(conversation);
                break ReplyEnding::Aborted;
            }
            event = stream.next() => event,
            () = wait_until(reader.held.as_ref().map(|held| held.until)) => {
                reader.flush_held_block(None, conversation, calls);
                continue;
            }
            // Runs once, when there is nothing to do but wait.
            () = std::future::ready(()), if !is_awaited => {
                is_awaited = true;
                turn.scope.tools.offered().for_each(|tool| tool.anticipate(CallHint::RequestSent, &turn.scope.services));
                continue;
            }
        };
        match event {
            Some(ModelEvent::Done(end)) => {
                reader.flush_held_block(Some(&end), conversation, calls);
                break ReplyEnding::Complete(Box::new(end));
            }
            Some(ModelEvent::Failed(error)) => break ReplyEnding::Failed(error),
            Some(event) => reader.handle_event(event, conversation, calls).await,
            None => break ReplyEnding::Failed(closed_early_error()),
        }
    };
    reader.flush_held_block(None, conversation, calls);
    let ReplyStreamReader { start, blocks, spent, cache_break, .. } = reader;
    ModelReply { start, blocks, ending, spent, cache_break }
}

/// Waits until a point in time, or forever if there is none.
async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn closed_early_error() -> ModelError {
    ModelError {
        kind: gimlet_proto::ModelErrorKind::Protocol,
        status: None,
        message: "the model's stream ended without an ending".to_owned(),
        hint: None,
        request_id: None,
    }
}

fn new_call_id() -> String {
    format!("toolu_{}", uuid::Uuid::new_v4().simple())
}

fn empty_input() -> &'static RawValue {
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}

struct ReplyStreamReader<'a> {
    turn: &'a Turn,
    start: ReplyStart,
    blocks: Vec<Block>,
    spent: Vec<(String, TokenUsage)>,
    cache_break: Option<CacheBreak>,
    open: HashMap<usize, OpenBlock>,
    held: Option<HeldBlock>,
}

/// Complete block that is not published yet.
struct HeldBlock {
    block: Block,
    /// Call in the block, if it is one.
    call: Option<ToolCall>,
    until: Instant,
    /// Raw provider events received meanwhile, to be passed through after the block.
    wire: Vec<Arc<RawValue>>,
}

struct OpenBlock {
    item: ItemId,
    kind: BlockKind,
    text: String,
}

impl ReplyStreamReader<'_> {
    async fn handle_event(&mut self, event: ModelEvent, conversation: &mut Conversation, calls: &mut CallSchedule) {
        if !matches!(event, ModelEvent::Wire(_) | ModelEvent::ReplyDiscarded | ModelEvent::ReplyAnomalies(_)) {
            self.flush_held_block(None, conversation, calls);
        }
        match event {
            ModelEvent::Started(start) => {
                if let Some(broken) = conversation.segment.detect_cache_break(&start, &self.turn.model_facts()) {
                    self.cache_break = Some(broken.clone());
                    self.turn.publish(EventBody::CacheBreak(Box::new(broken)));
                }
                let message_id = conversation.record.reply_id(&start.message_id);
                self.start = ReplyStart { message_id, ..start };
            }
            ModelEvent::BlockStarted { index, kind, name, .. } => {
                let item = self.turn.scope.agent_runtime.next_item();
                let scope = &self.turn.scope;
                if kind == BlockKind::ToolUse
                    && let Some(name) = &name
                    && let Some(tool) = scope.tools.find(scope.tools.resolve_name(name))
                {
                    tool.anticipate(CallHint::ToolNamed, &scope.services);
                }
                self.open.insert(index, OpenBlock { item, kind, text: String::new() });
                self.turn.publish(EventBody::BlockStarted { item, kind, name });
            }
            ModelEvent::TextDelta { index, text } => self.publish_delta(index, DeltaKind::Text, text),
            ModelEvent::ThinkingDelta { index, text } => self.publish_delta(index, DeltaKind::Thinking, text),
            ModelEvent::InputDelta { index, text } => self.publish_delta(index, DeltaKind::Input, text),
            ModelEvent::BlockDone { index, block, bad_input } => {
                self.open.remove(&index);
                self.hold_block(block, bad_input, conversation);
            }
            ModelEvent::ReplyDiscarded => {
                calls.discard().await;
                for event in self.held.take().into_iter().flat_map(|held| held.wire) {
                    self.turn.publish(EventBody::Wire(event));
                }
                self.blocks.clear();
                self.open.clear();
                conversation.record.rewind_reply();
                self.turn.publish(EventBody::ReplyDiscarded);
            }
            ModelEvent::Spent { model, usage } => {
                self.spent.push((model, usage));
                // If no other model answers, this must not be counted for the reply again.
                self.start.usage = TokenUsage::default();
            }
            ModelEvent::Wire(event) => match &mut self.held {
                Some(held) => held.wire.push(event),
                None => self.turn.publish(EventBody::Wire(event)),
            },
            ModelEvent::Retrying { attempt, max, delay_ms, error } => {
                self.turn.publish(EventBody::Retry(RetryNotice { attempt, max, delay_ms, error }));
            }
            ModelEvent::Waiting { silent_ms } => {
                let text = format!("still waiting for the model ({} s without a word)", silent_ms / 1000);
                self.turn.publish(EventBody::Notice(Notice { level: NoticeLevel::Status, text }));
            }
            ModelEvent::ReplyAnomalies(what) => self.turn.publish(EventBody::ReplyAnomalies(what)),
            ModelEvent::RateLimits(limits) => self.turn.publish(EventBody::RateLimits(limits)),
            ModelEvent::Notice(text) => {
                self.turn.publish(EventBody::Notice(Notice { level: NoticeLevel::Warning, text }))
            }
            // The caller handles these two.
            ModelEvent::Done(_) | ModelEvent::Failed(_) => {}
        }
    }

    fn publish_delta(&mut self, index: usize, kind: DeltaKind, text: String) {
        let Some(open) = self.open.get_mut(&index) else { return };
        if open.kind == BlockKind::Text {
            open.text.push_str(&text);
        }
        self.turn.publish(EventBody::Delta(BlockDelta { item: open.item, kind, text }));
    }

    fn hold_block(&mut self, block: Block, bad_input: Option<String>, conversation: &Conversation) {
        if block.is_blank_text() {
            return;
        }
        let named = block.as_tool_use().map(|call| call.name.into_owned()).unwrap_or_default();
        let too_deep = block.as_tool_use().map(|call| call.input.get().to_owned()).filter(|input| is_too_deep(input));
        let block = self.with_unique_call_id(block, conversation);
        let Some(block) = gimlet_store::sendable_reply_block(block) else {
            let text = "a part of the reply that no request can carry was left out".to_owned();
            return self.turn.publish(EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        };
        let call = block.as_tool_use().map(|parts| ToolCall {
            id: ToolUseId::new(parts.id.as_ref()),
            // As the model wrote it: the name in history may belong to another tool.
            name: named,
            input: Arc::from(parts.input.to_owned()),
            bad_input: bad_input.or(too_deep),
            reply: Arc::default(),
        });
        self.held = Some(HeldBlock { block, call, until: Instant::now() + HELD, wire: Vec::new() });
    }

    /// Writes and publishes the held block, if any, and passes on its call. `end` is the end of the reply, if that
    /// came next.
    fn flush_held_block(&mut self, end: Option<&ReplyEnd>, conversation: &mut Conversation, calls: &mut CallSchedule) {
        let Some(held) = self.held.take() else { return };
        self.commit_block(held.block, conversation, end, false);
        if let Some(call) = held.call {
            calls.add_call(ToolCall { reply: self.blocks.as_slice().into(), ..call });
        }
        for event in held.wire {
            self.turn.publish(EventBody::Wire(event));
        }
    }

    /// Replaces a call id that is not valid in history, before the call is published.
    fn with_unique_call_id(&self, block: Block, conversation: &Conversation) -> Block {
        match block.as_tool_use() {
            Some(call) if !conversation.history().is_free_call_id(&call.id, &self.blocks) => {
                Block::tool_use(&new_call_id(), &call.name, call.input)
            }
            Some(_) => block,
            // Without a name, an id or an input it is still a call, and gets a result.
            None if block.kind() == BlockKind::ToolUse => Block::tool_use(&new_call_id(), "", empty_input()),
            None => block,
        }
    }

    /// Appends a block on disk first, then publishes it.
    fn commit_block(&mut self, block: Block, conversation: &mut Conversation, end: Option<&ReplyEnd>, aborted: bool) {
        let uuid = conversation.record.append_assistant_block(&self.start, end, &block);
        self.turn.publish(EventBody::Block(Box::new(AssistantBlock {
            uuid,
            message_id: self.start.message_id.clone(),
            model: self.start.model.clone(),
            request_id: self.start.request_id.clone(),
            block: block.clone(),
            usage: self.start.usage,
            aborted,
            error: None,
        })));
        if let Some(model) = block.as_fallback() {
            self.start.model = model.into_owned();
        }
        self.blocks.push(block);
    }

    /// Keeps the text already shown before an interrupt; an unfinished call is dropped.
    fn commit_partial_text(&mut self, conversation: &mut Conversation) {
        let mut open: Vec<(usize, OpenBlock)> = self.open.drain().collect();
        open.sort_by_key(|(index, _)| *index);
        for (_, open) in open {
            if open.kind == BlockKind::Text && !open.text.trim().is_empty() {
                self.commit_block(Block::text(&open.text), conversation, None, true);
            }
        }
    }
}
