//! State of a streamed reply, whatever its wire looks like: progress, held calls, and the ways in which a reply ends.

use gimlet_proto::{
    Block, BlockKind, ModelEvent, ReplyEnd, ReplyInterruption, ReplyStart, StopReason, TokenUsage, TruncatedCall,
};

use super::anomalies::AnomalyCounts;
use crate::size_limits::MAX_REPLY_BLOCKS;

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

/// Finished block.
pub(crate) struct FinishedBlock {
    pub(crate) block: Block,
    /// Raw text of a tool call's input that was not a JSON object.
    pub(crate) bad_input: Option<String>,
    /// True for a tool call without usable input that may have been cut; only the end of the reply reveals the cause.
    pub(crate) may_be_truncated: bool,
}

/// Part of a reply's reader that does not depend on the wire.
#[derive(Default)]
pub(crate) struct ReplyState {
    request_id: Option<String>,
    pub(crate) want_wire: bool,
    started: bool,
    /// Number of blocks begun and not yet ended.
    open: usize,
    blocks: usize,
    /// Tool call without usable input, held until the next event shows if it was cut.
    held: Option<(usize, FinishedBlock)>,
    thought: bool,
    usable: bool,
    /// Usage so far, for billing.
    pub(crate) usage: TokenUsage,
    /// Usage that shows how full the context is.
    pub(crate) context: TokenUsage,
    stop_reason: Option<StopReason>,
    pub(crate) stop_sequence: Option<String>,
    pub(crate) explanation: Option<String>,
    cut_tool_call: bool,
    pub(crate) anomalies: AnomalyCounts,
    /// Facts to report about a call that did not fit.
    room: TruncatedCall,
}

impl ReplyState {
    pub(crate) fn new(request_id: Option<String>, want_wire: bool) -> Self {
        Self { request_id, want_wire, ..Self::default() }
    }

    /// Sets the output limit of the reply and the advice for when it is exceeded.
    pub(crate) fn with_output_limit(mut self, room: TruncatedCall) -> Self {
        self.room = room;
        self
    }

    /// Begins the reply.
    pub(crate) fn start(&mut self, message_id: String, model: String, out: &mut impl FnMut(ModelEvent)) {
        self.started = true;
        out(ModelEvent::Started(ReplyStart {
            options: Vec::new(),
            message_id,
            model,
            request_id: self.request_id.clone(),
            usage: self.usage,
        }));
    }

    /// Returns true if any event was emitted that would have to be retracted.
    pub(crate) fn has_started(&self) -> bool {
        self.started
    }

    /// Returns the number of blocks begun so far.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns the position of the next block; an error if there are too many.
    pub(crate) fn next_block(&self) -> Result<usize, StreamFault> {
        match self.blocks < MAX_REPLY_BLOCKS {
            true => Ok(self.blocks),
            false => Err(StreamFault::TooManyBlocks { limit: MAX_REPLY_BLOCKS }),
        }
    }

    /// Begins the next block.
    pub(crate) fn open_block(
        &mut self,
        kind: BlockKind,
        id: Option<String>,
        name: Option<String>,
        out: &mut impl FnMut(ModelEvent),
    ) {
        out(ModelEvent::BlockStarted { index: self.blocks, kind, id, name });
        self.blocks += 1;
        self.open += 1;
    }

    /// Ends a block whose end the server marked. A call that may have been cut is held.
    pub(crate) fn stop_block(&mut self, index: usize, finished: FinishedBlock, out: &mut impl FnMut(ModelEvent)) {
        self.release_held(out);
        if finished.may_be_truncated {
            self.open -= 1;
            self.held = Some((index, finished));
        } else {
            self.close_block(index, finished, out);
        }
    }

    /// Ends a block and delivers it.
    pub(crate) fn close_block(&mut self, index: usize, finished: FinishedBlock, out: &mut impl FnMut(ModelEvent)) {
        self.open -= 1;
        self.deliver(index, finished, out);
    }

    /// Drops a block that is open.
    pub(crate) fn drop_block(&mut self) {
        self.open -= 1;
    }

    /// Drops an open call that the token limit has cut.
    pub(crate) fn drop_cut_call(&mut self) {
        self.drop_block();
        self.cut_tool_call = true;
    }

    /// Delivers the call that is held, because the reply went on behind it.
    pub(crate) fn release_held(&mut self, out: &mut impl FnMut(ModelEvent)) {
        if let Some((index, finished)) = self.held.take() {
            self.deliver(index, finished, out);
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

    /// Sets the stop reason, which decides about the call that is held: cut by the token limit, or invalid.
    pub(crate) fn stop(&mut self, reason: StopReason, out: &mut impl FnMut(ModelEvent)) {
        if let StopReason::Other(unknown) = &reason {
            self.anomalies.note("stopped for the unknown reason", unknown);
        }
        self.stop_reason = Some(reason);
        if !self.is_truncated() {
            self.release_held(out);
        } else if self.held.take().is_some() {
            self.cut_tool_call = true;
        }
    }

    /// Returns true if the token limit ended the reply.
    pub(crate) fn is_truncated(&self) -> bool {
        self.stop_reason == Some(StopReason::MaxTokens)
    }

    pub(crate) fn has_stop_reason(&self) -> bool {
        self.stop_reason.is_some()
    }

    /// Returns the progress of the reply.
    pub(crate) fn progress(&self) -> ReplyProgress {
        if self.stop_reason.is_some() && self.open == 0 {
            ReplyProgress::Complete
        } else if self.usable {
            ReplyProgress::Usable
        } else if self.thought {
            ReplyProgress::ThinkingOnly
        } else {
            ReplyProgress::Nothing
        }
    }

    /// Returns the anomalies of the reply so far; `None` if there are none.
    pub(crate) fn anomalies_event(&self) -> Option<ModelEvent> {
        self.anomalies.summary_line().map(ModelEvent::ReplyAnomalies)
    }

    /// Returns the end of a reply that broke after blocks which are to be kept.
    pub(crate) fn interrupt(&self, interruption: ReplyInterruption) -> ReplyEnd {
        ReplyEnd {
            stop_reason: None,
            stop_sequence: None,
            usage: self.usage,
            context: self.context,
            interrupted: Some(interruption),
            explanation: None,
            cut_tool_call: None,
        }
    }

    /// Ends a reply that lacks only its final stop event.
    pub(crate) fn finish_unstopped(&mut self, out: &mut impl FnMut(ModelEvent)) {
        self.anomalies.note("ended without", "message_stop");
        self.finish(out);
    }

    /// Ends a reply whose stop reason is known. A refusal retracts everything before it.
    pub(crate) fn finish(&mut self, out: &mut impl FnMut(ModelEvent)) {
        if let Some(anomalies) = self.anomalies_event() {
            out(anomalies);
        }
        if self.stop_reason == Some(StopReason::Refusal) {
            out(ModelEvent::ReplyDiscarded);
        }
        out(ModelEvent::Done(ReplyEnd {
            stop_reason: self.stop_reason.take(),
            stop_sequence: self.stop_sequence.take(),
            usage: self.usage,
            context: self.context,
            interrupted: None,
            explanation: self.explanation.take(),
            cut_tool_call: self.cut_tool_call.then(|| self.room.clone()),
        }));
    }
}
