//! Reader of a streamed reply: wire events in, [`ModelEvent`]s out.
//!
//! It tolerates unknown events, deltas, blocks and fields, repeated or missing indexes and odd usage; none of them ends
//! a reply. It is strict about one thing: a tool call is emitted only when its input is known to be complete.

use std::sync::Arc;

use gimlet_proto::{BlockKind, ModelEvent, StopReason};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::block_builder::{BlockBuilder, DeltaEffect, WireDelta};
use super::usage::UsageTally;
use crate::formats::WireReader;
use crate::formats::reply_state::{ReplyProgress, ReplyState, StreamFault, StreamFlow};
use crate::json::LossyText;

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

/// Reader of one reply.
#[derive(Default)]
pub struct ReplyReader {
    state: ReplyState,
    /// Blocks begun and not yet ended, by their wire index; hardly ever more than one.
    open: Vec<(u64, BlockBuilder)>,
    usage: UsageTally,
}

impl ReplyReader {
    pub fn new(request_id: Option<String>, want_wire: bool) -> Self {
        Self::from_state(ReplyState::new(request_id, want_wire))
    }

    /// Reads a reply that has not begun.
    pub(crate) fn from_state(state: ReplyState) -> Self {
        Self { state, ..Self::default() }
    }

    /// Returns the progress of the reply.
    pub fn progress(&self) -> ReplyProgress {
        self.state.progress()
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
        if self.state.want_wire
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
                self.state.anomalies.note("ignored the event", unknown);
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
                self.state.anomalies.note("ignored what is no JSON in the event", name);
                Ok(StreamFlow::Noise)
            }
        }
    }

    fn message_start(
        &mut self,
        envelope: &EventEnvelope<'_>,
        out: &mut impl FnMut(ModelEvent),
    ) -> Result<(), StreamFault> {
        if self.state.has_started() {
            self.state.anomalies.note("ignored a further", "message_start");
            return Ok(());
        }
        let head: MessageHead<'_> =
            envelope.message.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        if let Some(usage) = head.usage {
            self.merge_usage(usage);
        }
        let message_id = head.id.map(LossyText::into_string).unwrap_or_default();
        let model = head.model.map(LossyText::into_string).unwrap_or_default();
        self.state.start(message_id, model, out);
        let content: Vec<&RawValue> =
            head.content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        (0..).zip(content).try_for_each(|(index, start)| self.open_block(index, start, out))
    }

    fn merge_usage(&mut self, usage: &RawValue) {
        self.usage.merge(usage);
        (self.state.usage, self.state.context) = (self.usage.total(), self.usage.context());
    }

    fn expect_started(&self) -> Result<(), StreamFault> {
        match self.state.has_started() {
            true => Ok(()),
            false => Err(StreamFault::Protocol("the answer does not begin with message_start")),
        }
    }

    fn block_start(
        &mut self,
        envelope: &EventEnvelope<'_>,
        out: &mut impl FnMut(ModelEvent),
    ) -> Result<(), StreamFault> {
        self.expect_started()?;
        self.state.release_held(out);
        let index = envelope.index.unwrap_or(self.state.blocks() as u64);
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
        let ordinal = self.state.next_block()?;
        let Some(slot) = BlockBuilder::from_start(ordinal, start) else {
            self.state.anomalies.note("ignored a block that is none", "");
            return Ok(());
        };
        if slot.kind() == BlockKind::Other {
            self.state.anomalies.note("kept a block of the unknown type", &slot.type_name());
        }
        let id = slot.id().map(ToOwned::to_owned);
        self.state.open_block(slot.kind(), id, slot.tool_name(), out);
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
            self.state.anomalies.note("ignored a piece of a block that is not open", "");
            return Ok(());
        };
        let Some(delta) = envelope.delta.and_then(|raw| serde_json::from_str::<WireDelta<'_>>(raw.get()).ok()) else {
            self.state.anomalies.note("ignored a piece that cannot be read", "");
            return Ok(());
        };
        let index = slot.ordinal;
        match slot.apply(delta) {
            DeltaEffect::Nothing => {}
            DeltaEffect::Ignored(kind) => self.state.anomalies.note("ignored a piece of the type", kind.as_str()),
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
            self.state.anomalies.note("ignored the end of a block that is not open", "");
            return Ok(());
        };
        let ordinal = slot.ordinal;
        self.state.stop_block(ordinal, slot.finish(), out);
        Ok(())
    }

    fn message_delta(
        &mut self,
        envelope: &EventEnvelope<'_>,
        out: &mut impl FnMut(ModelEvent),
    ) -> Result<(), StreamFault> {
        self.expect_started()?;
        if let Some(usage) = envelope.usage {
            self.merge_usage(usage);
        }
        let tail = envelope.delta.and_then(|raw| serde_json::from_str::<MessageTail<'_>>(raw.get()).ok());
        let Some(tail) = tail else { return Ok(()) };
        if let Some(sequence) = tail.stop_sequence {
            self.state.stop_sequence = Some(sequence.into_string());
        }
        if let Some(details) = tail.stop_details.and_then(|raw| serde_json::from_str::<StopDetails<'_>>(raw.get()).ok())
        {
            let explanation = details.explanation.map(LossyText::into_string);
            self.state.explanation = explanation.or(self.state.explanation.take());
        }
        if let Some(reason) = tail.stop_reason {
            self.state.stop(StopReason::parse(reason.as_str()), out);
            if self.state.is_truncated() {
                // A call without usable input was cut by the token limit.
                let open = self.open.len();
                self.open.retain(|(_, slot)| !slot.is_unfinished_call());
                for _ in self.open.len()..open {
                    self.state.drop_cut_call();
                }
            }
        }
        Ok(())
    }

    fn message_stop(&mut self, out: &mut impl FnMut(ModelEvent)) -> Result<StreamFlow, StreamFault> {
        if !self.state.has_stop_reason() {
            return Err(StreamFault::Protocol("the answer ended without a stop reason"));
        }
        for (_, slot) in std::mem::take(&mut self.open) {
            self.close_unstopped(slot, out);
        }
        self.state.finish(out);
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
        if finished.may_be_truncated {
            self.state.drop_block();
        } else {
            self.state.close_block(ordinal, finished, out);
        }
    }
}

impl WireReader for ReplyReader {
    fn read_event(
        &mut self,
        name: &str,
        data: &str,
        out: &mut dyn FnMut(ModelEvent),
    ) -> Result<StreamFlow, StreamFault> {
        Self::read_event(self, name, data, out)
    }

    fn state(&self) -> &ReplyState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut ReplyState {
        &mut self.state
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
