//! The state machine of a streamed reply: wire events in, [`ModelEvent`]s out.
//!
//! It tolerates unknown events, deltas, blocks and fields, repeated or missing indexes and odd usage; none of them ends
//! a reply. It is strict about one thing: a tool call is emitted only when its input is known to be complete.

use std::sync::Arc;

use gimlet_proto::{BlockKind, ModelEvent, ReplyEnd, ReplyInterruption, ReplyStart, StopReason, TruncatedCall};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::anomalies::AnomalyCounts;
use super::block_builder::{BlockBuilder, DeltaEffect, FinishedBlock, WireDelta};
use super::usage::UsageTally;
use crate::json::LossyText;
use crate::size_limits::MAX_REPLY_BLOCKS;

#[derive(Deserialize)]
struct EventEnvelope<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<LossyText<'a>>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct MessageHead<'a> {
    #[serde(borrow, default)]
    id: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    model: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageTail<'a> {
    #[serde(borrow, default)]
    stop_reason: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    stop_sequence: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    stop_details: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StopDetails<'a> {
    #[serde(borrow, default)]
    explanation: Option<LossyText<'a>>,
}

/// State of the reply after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFlow {
    More,
    /// Only a keep-alive or an unknown event.
    Noise,
    Finished,
}

/// Reason why a stream is not a valid reply.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The server reported an error: the raw data of its `error` event.
    Reported(String),
    /// The server violated the protocol.
    Protocol(&'static str),
    /// The reply has more blocks than the limit.
    TooManyBlocks { limit: usize },
}

/// Progress of a reply when its stream broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyProgress {
    /// No block was completed.
    Nothing,
    /// Only thinking was completed.
    ThinkingOnly,
    /// Text or a tool call was completed: sending the request again could run a tool twice.
    Usable,
    /// Everything but the final stop event had arrived.
    Complete,
}

/// Reader of one reply.
#[derive(Default)]
pub struct ReplyReader {
    request_id: Option<String>,
    want_wire: bool,
    started: bool,
    /// Blocks begun and not yet ended, by their wire index; hardly ever more than one.
    open: Vec<(u64, BlockBuilder)>,
    blocks: usize,
    /// Tool call without usable input, held until the next event shows if it was cut.
    held: Option<(usize, FinishedBlock)>,
    thought: bool,
    usable: bool,
    usage: UsageTally,
    stop_reason: Option<StopReason>,
    stop_sequence: Option<String>,
    explanation: Option<String>,
    cut_tool_call: bool,
    oddities: AnomalyCounts,
    /// Facts to report about a call that did not fit.
    room: TruncatedCall,
}

impl ReplyReader {
    pub fn new(request_id: Option<String>, want_wire: bool) -> Self {
        Self { request_id, want_wire, ..Self::default() }
    }

    /// Sets the output limit of the reply and the advice for when it is exceeded.
    pub fn with_output_limit(mut self, room: TruncatedCall) -> Self {
        self.room = room;
        self
    }

    /// Processes one event. `name` is the event's own name, which its data overrides.
    pub fn read_event(
        &mut self,
        name: &str,
        data: &str,
        mut out: impl FnMut(ModelEvent),
    ) -> Result<StreamFlow, StreamFault> {
        let Ok(envelope) = serde_json::from_str::<EventEnvelope<'_>>(data) else {
            return self.handle_unreadable_event(name, data);
        };
        if self.want_wire
            && let Ok(raw) = serde_json::from_str::<Box<RawValue>>(data)
        {
            out(ModelEvent::Wire(Arc::from(raw)));
        }
        match envelope.kind.as_ref().map_or(name, LossyText::as_str) {
            "message_start" => self.message_start(&envelope, &mut out)?,
            "content_block_start" => self.block_start(&envelope, &mut out)?,
            "content_block_delta" => self.block_delta(&envelope, &mut out)?,
            "content_block_stop" => self.block_stop(&envelope, &mut out)?,
            "message_delta" => self.message_delta(&envelope, &mut out)?,
            "message_stop" => return self.message_stop(&mut out),
            "error" => return Err(StreamFault::Reported(data.to_owned())),
            "ping" => return Ok(StreamFlow::Noise),
            unknown => {
                self.oddities.note("ignored the event", unknown);
                return Ok(StreamFlow::Noise);
            }
        }
        Ok(StreamFlow::More)
    }

    fn handle_unreadable_event(&mut self, name: &str, data: &str) -> Result<StreamFlow, StreamFault> {
        match name {
            "error" => Err(StreamFault::Reported(data.to_owned())),
            "message_start"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop" => Err(StreamFault::Protocol("an event of the answer is not valid JSON")),
            "" if data.starts_with('{') => Err(StreamFault::Protocol("an event of the answer is not valid JSON")),
            _ => {
                self.oddities.note("ignored what is no JSON in the event", name);
                Ok(StreamFlow::Noise)
            }
        }
    }

    fn message_start(
        &mut self,
        envelope: &EventEnvelope<'_>,
        out: &mut impl FnMut(ModelEvent),
    ) -> Result<(), StreamFault> {
        if self.started {
            self.oddities.note("ignored a further", "message_start");
            return Ok(());
        }
        self.started = true;
        let head: MessageHead<'_> =
            envelope.message.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        if let Some(usage) = head.usage {
            self.usage.merge(usage);
        }
        out(ModelEvent::Started(ReplyStart {
            options: Vec::new(),
            message_id: head.id.map(LossyText::into_string).unwrap_or_default(),
            model: head.model.map(LossyText::into_string).unwrap_or_default(),
            request_id: self.request_id.clone(),
            usage: self.usage.total(),
        }));
        let content: Vec<&RawValue> =
            head.content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        (0..).zip(content).try_for_each(|(index, start)| self.open_block(index, start, out))
    }

    fn expect_started(&self) -> Result<(), StreamFault> {
        if self.started { Ok(()) } else { Err(StreamFault::Protocol("the answer does not begin with message_start")) }
    }

    fn block_start(
        &mut self,
        envelope: &EventEnvelope<'_>,
        out: &mut impl FnMut(ModelEvent),
    ) -> Result<(), StreamFault> {
        self.expect_started()?;
        self.release_held(out);
        let index = envelope.index.unwrap_or(self.blocks as u64);
        if let Some(forgotten) = self.take_open(index) {
            self.close_unstopped(forgotten, out);
        }
        envelope.content_block.map_or(Ok(()), |start| self.open_block(index, start, out))
    }

    fn open_block(
        &mut self,
        index: u64,
        start: &RawValue,
        out: &mut impl FnMut(ModelEvent),
    ) -> Result<(), StreamFault> {
        if self.blocks == MAX_REPLY_BLOCKS {
            return Err(StreamFault::TooManyBlocks { limit: MAX_REPLY_BLOCKS });
        }
        let Some(slot) = BlockBuilder::from_start(self.blocks, start) else {
            self.oddities.note("ignored a block that is none", "");
            return Ok(());
        };
        if slot.kind() == BlockKind::Other {
            self.oddities.note("kept a block of the unknown type", &slot.type_name());
        }
        self.blocks += 1;
        out(ModelEvent::BlockStarted {
            index: slot.ordinal,
            kind: slot.kind(),
            id: slot.id().map(ToOwned::to_owned),
            name: slot.tool_name(),
        });
        self.open.push((index, slot));
        Ok(())
    }

    fn block_delta(
        &mut self,
        envelope: &EventEnvelope<'_>,
        out: &mut impl FnMut(ModelEvent),
    ) -> Result<(), StreamFault> {
        self.expect_started()?;
        let Some((_, slot)) = self.open.iter_mut().find(|(index, _)| Some(*index) == envelope.index) else {
            self.oddities.note("ignored a piece of a block that is not open", "");
            return Ok(());
        };
        let Some(delta) = envelope.delta.and_then(|raw| serde_json::from_str::<WireDelta<'_>>(raw.get()).ok()) else {
            self.oddities.note("ignored a piece that cannot be read", "");
            return Ok(());
        };
        let index = slot.ordinal;
        match slot.apply(delta) {
            DeltaEffect::Nothing => {}
            DeltaEffect::Ignored(kind) => self.oddities.note("ignored a piece of the type", kind.as_str()),
            DeltaEffect::Text(text) => out(ModelEvent::TextDelta { index, text: text.into_string() }),
            DeltaEffect::Thinking(text) => out(ModelEvent::ThinkingDelta { index, text: text.into_string() }),
            DeltaEffect::Input(text) => out(ModelEvent::InputDelta { index, text: text.into_string() }),
        }
        Ok(())
    }

    fn block_stop(
        &mut self,
        envelope: &EventEnvelope<'_>,
        out: &mut impl FnMut(ModelEvent),
    ) -> Result<(), StreamFault> {
        self.expect_started()?;
        let Some(slot) = envelope.index.and_then(|index| self.take_open(index)) else {
            self.oddities.note("ignored the end of a block that is not open", "");
            return Ok(());
        };
        self.release_held(out);
        let ordinal = slot.ordinal;
        let finished = slot.finish();
        if finished.may_be_truncated {
            self.held = Some((ordinal, finished));
        } else {
            self.deliver(ordinal, finished, out);
        }
        Ok(())
    }

    fn message_delta(
        &mut self,
        envelope: &EventEnvelope<'_>,
        out: &mut impl FnMut(ModelEvent),
    ) -> Result<(), StreamFault> {
        self.expect_started()?;
        if let Some(usage) = envelope.usage {
            self.usage.merge(usage);
        }
        let tail = envelope.delta.and_then(|raw| serde_json::from_str::<MessageTail<'_>>(raw.get()).ok());
        let Some(tail) = tail else { return Ok(()) };
        if let Some(sequence) = tail.stop_sequence {
            self.stop_sequence = Some(sequence.into_string());
        }
        if let Some(details) = tail.stop_details.and_then(|raw| serde_json::from_str::<StopDetails<'_>>(raw.get()).ok())
        {
            self.explanation = details.explanation.map(LossyText::into_string).or(self.explanation.take());
        }
        if let Some(reason) = tail.stop_reason {
            self.stop_reason = Some(StopReason::parse(reason.as_str()));
            if let Some(StopReason::Other(unknown)) = &self.stop_reason {
                self.oddities.note("stopped for the unknown reason", unknown);
            }
            self.resolve_unfinished_calls(out);
        }
        Ok(())
    }

    /// Resolves calls without usable input by the stop reason: cut by the token limit, or invalid.
    fn resolve_unfinished_calls(&mut self, out: &mut impl FnMut(ModelEvent)) {
        if self.stop_reason != Some(StopReason::MaxTokens) {
            self.release_held(out);
            return;
        }
        let open = self.open.len();
        self.open.retain(|(_, slot)| !slot.is_unfinished_call());
        if self.held.take().is_some() || self.open.len() < open {
            self.cut_tool_call = true;
        }
    }

    fn message_stop(&mut self, out: &mut impl FnMut(ModelEvent)) -> Result<StreamFlow, StreamFault> {
        if self.stop_reason.is_none() {
            return Err(StreamFault::Protocol("the answer ended without a stop reason"));
        }
        for (_, slot) in std::mem::take(&mut self.open) {
            self.close_unstopped(slot, out);
        }
        self.finish(out);
        Ok(StreamFlow::Finished)
    }

    fn take_open(&mut self, index: u64) -> Option<BlockBuilder> {
        let at = self.open.iter().position(|(open, _)| *open == index)?;
        Some(self.open.remove(at).1)
    }

    /// Closes a block whose end never came although the reply continued. Text is kept; a call must be complete to
    /// count.
    fn close_unstopped(&mut self, slot: BlockBuilder, out: &mut impl FnMut(ModelEvent)) {
        let ordinal = slot.ordinal;
        let finished = slot.finish();
        if !finished.may_be_truncated {
            self.deliver(ordinal, finished, out);
        }
    }

    fn release_held(&mut self, out: &mut impl FnMut(ModelEvent)) {
        if let Some((ordinal, finished)) = self.held.take() {
            self.deliver(ordinal, finished, out);
        }
    }

    fn deliver(&mut self, index: usize, finished: FinishedBlock, out: &mut impl FnMut(ModelEvent)) {
        match finished.block.kind() {
            BlockKind::Thinking | BlockKind::RedactedThinking => self.thought = true,
            // A conversation cannot continue from a server tool call without its result.
            BlockKind::ServerToolUse => self.thought = true,
            BlockKind::Text if finished.block.is_blank_text() => {}
            _ => self.usable = true,
        }
        out(ModelEvent::BlockDone { index, block: finished.block, bad_input: finished.bad_input });
    }

    /// Returns the progress of the reply.
    pub fn progress(&self) -> ReplyProgress {
        if self.stop_reason.is_some() && self.open.is_empty() {
            ReplyProgress::Complete
        } else if self.usable {
            ReplyProgress::Usable
        } else if self.thought {
            ReplyProgress::ThinkingOnly
        } else {
            ReplyProgress::Nothing
        }
    }

    /// Returns true if any event was emitted that would have to be retracted.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Ends a reply that lacks only its final stop event.
    pub fn finish_unstopped(&mut self, out: impl FnMut(ModelEvent)) {
        self.oddities.note("ended without", "message_stop");
        self.finish(out);
    }

    /// Returns the anomalies of the reply so far; `None` if there are none.
    pub fn oddities(&self) -> Option<ModelEvent> {
        self.oddities.summary_line().map(ModelEvent::ReplyAnomalies)
    }

    /// Ends a reply that broke after blocks which are to be kept.
    pub fn interrupt(self, interruption: ReplyInterruption) -> ReplyEnd {
        ReplyEnd {
            stop_reason: None,
            stop_sequence: None,
            usage: self.usage.total(),
            context: self.usage.context(),
            interrupted: Some(interruption),
            explanation: None,
            cut_tool_call: None,
        }
    }

    /// Ends a reply whose stop reason is known. A refusal retracts everything before it.
    fn finish(&mut self, mut out: impl FnMut(ModelEvent)) {
        if let Some(oddities) = self.oddities() {
            out(oddities);
        }
        if self.stop_reason == Some(StopReason::Refusal) {
            out(ModelEvent::ReplyDiscarded);
        }
        out(ModelEvent::Done(ReplyEnd {
            stop_reason: self.stop_reason.take(),
            stop_sequence: self.stop_sequence.take(),
            usage: self.usage.total(),
            context: self.usage.context(),
            interrupted: None,
            explanation: self.explanation.take(),
            cut_tool_call: self.cut_tool_call.then(|| self.room.clone()),
        }));
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
