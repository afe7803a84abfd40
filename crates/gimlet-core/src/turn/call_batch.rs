//! Running the calls of one reply and collecting one result for each. Results are recorded and published as they
//! arrive; state changes and the model's view follow the order of the calls.

use std::collections::BTreeMap;

use gimlet_proto::{Block, EventBody, StoredToolResult, ToolUseId, TurnEnd};

use super::{Turn, context_delivery, turn_hooks};
use crate::call::ToolCall;
use crate::call_result::{BatchBudget, CallResult};
use crate::conversation::{Conversation, PayloadBudget};
use crate::hooks::{HookEvent, HookPayload};
use crate::image_fitting;
use crate::repeated_failures::{RepeatableCall, result_digest};
use crate::schedule::{CallGroup, CallSchedule, FinishedCall};
use crate::tool::{NewMessage, StateChange};

/// Reason for not starting a call after the user's interrupt.
pub(super) const INTERRUPTED: &str = "the user interrupted before this call began";

/// Consequences of the results for the turn.
#[derive(Default)]
pub(super) struct BatchEnd {
    /// Set if the user wants the turn to stop here.
    pub(super) stop: bool,
    /// End of the turn requested by a hook, or due to a call repeated without effect.
    pub(super) ends: Option<TurnEnd>,
}

/// Runs the calls of a reply, group by group, and collects their results: one per call.
pub(super) async fn run_calls(
    conversation: &mut Conversation,
    turn: &Turn,
    calls: &mut CallSchedule,
    window: u64,
) -> BatchEnd {
    let groups = calls.groups();
    conversation.segment.repeats.begin_reply();
    // Only calls with effects must not run before their request is durable on disk.
    let mut durable = groups.iter().any(|group| group.has_effects).then(|| conversation.record.sync());
    let room = conversation.history().payload_budget(window);
    let budget = BatchBudget::new(window.saturating_sub(conversation.history().context_tokens));
    let mut batch = ResultBatch {
        conversation,
        turn,
        room,
        budget,
        taken: BTreeMap::new(),
        changes: BTreeMap::new(),
        end: BatchEnd::default(),
    };
    let mut whole = turn_hooks::HookBatch::new(turn);
    for group in groups {
        turn.scope.gate.refresh_settings(&turn.scope).await;
        calls.decide_group(&group);
        if group.has_effects
            && let Some(durable) = durable.take()
        {
            let recording = calls.start_before_durable(&group);
            let outcome = durable.await;
            recording.mark_durable();
            batch.conversation.record.note_sync_result(outcome);
            turn.report_record_error(&mut batch.conversation.record);
        }
        calls.start_group(&group);
        batch.take_group(calls, &group, &mut whole).await;
        if let Some(reason) = batch.stop_reason() {
            calls.cancel_waiting(reason);
        }
    }
    batch.finish(whole).await
}

/// Results of a reply's calls so far.
struct ResultBatch<'a> {
    conversation: &'a mut Conversation,
    turn: &'a Turn,
    /// Budget for images and documents.
    room: PayloadBudget,
    /// Budget for text.
    budget: BatchBudget,
    /// Results and the messages that follow them, by the call's position.
    taken: BTreeMap<usize, (Block, Vec<NewMessage>)>,
    /// Changes of the calls of the current group that have ended.
    changes: BTreeMap<usize, ResultChanges>,
    end: BatchEnd,
}

/// Call to which a result belongs.
struct ResultOwner {
    /// Position in the reply.
    position: usize,
    call: ToolCall,
    made: RepeatableCall,
    /// Digest of the result.
    result: u64,
}

/// State changes of a result.
struct ResultChanges {
    list: Vec<StateChange>,
    /// Set if the model does not see the text that they come from.
    unseen: bool,
}

impl ResultChanges {
    fn take_from(settled: &mut CallResult) -> Self {
        Self { list: std::mem::take(&mut settled.changes), unseen: settled.persisted }
    }
}

impl ResultBatch<'_> {
    /// Collects the results of one group as they end, fitted to the budgets. Those that exceed their share wait for
    /// the rest, so that the largest are shrunk.
    async fn take_group(&mut self, calls: &mut CallSchedule, group: &CallGroup, whole: &mut turn_hooks::HookBatch<'_>) {
        let files = &self.turn.result_files;
        let mut taken = 0;
        let mut places: Vec<ResultOwner> = Vec::new();
        let mut waiting: Vec<(ToolUseId, CallResult)> = Vec::new();
        while let Some(FinishedCall { position, call, made, cap, mut settled }) = calls.next_result(group).await {
            let result = result_digest(&call.id, &settled);
            image_fitting::fit_result_images(self.turn, &mut settled.content).await;
            self.room.fit_content(&mut settled.content);
            settled.apply_cap(&call.id, cap, files);
            let others = group.calls.len() - taken - 1;
            if self.budget.fits_share(&settled, others) {
                taken += 1;
                let mut alone = [(call.id.clone(), settled)];
                self.budget.shrink_to_fit(&mut alone, files);
                let [(_, settled)] = alone;
                self.take_result(group.calls.len(), ResultOwner { position, call, made, result }, settled, whole);
            } else {
                waiting.push((call.id.clone(), settled));
                places.push(ResultOwner { position, call, made, result });
            }
        }
        self.budget.shrink_to_fit(&mut waiting, files);
        for (place, (_, settled)) in places.into_iter().zip(waiting) {
            self.take_result(group.calls.len(), place, settled, whole);
        }
    }

    fn take_result(
        &mut self,
        group_size: usize,
        place: ResultOwner,
        mut settled: CallResult,
        whole: &mut turn_hooks::HookBatch<'_>,
    ) {
        let ResultOwner { position, call, made, result } = place;
        self.changes.insert(position, ResultChanges::take_from(&mut settled));
        if self.changes.len() == group_size {
            self.apply_group_changes();
        }
        if let Some(output) = &self.turn.output {
            output.record_call(&call.name, settled.error.is_some());
        }
        let repeated = self.conversation.segment.repeats.record_result(&made, result, &mut settled);
        self.end.stop |= settled.stop_turn;
        self.end.ends = self.end.ends.take().or(settled.ends_turn.take()).or(repeated);
        if matches!(self.end.ends, Some(TurnEnd::Deferred { .. })) {
            // The call is alone in its reply, and its result comes when it runs.
            self.conversation.record.append_deferred(&call.id);
            self.conversation.defer_last_call();
            return;
        }
        whole.add_call(position, &call, &settled);
        let block = append_result(self.conversation, self.turn, &call, &settled);
        self.taken.insert(position, (block, settled.new_messages));
    }

    /// Applies the changes of a whole group, in the order of its calls: calls that run together see the same state,
    /// whichever of them ends first.
    fn apply_group_changes(&mut self) {
        for changes in std::mem::take(&mut self.changes).into_values() {
            apply_result_changes(self.turn, changes);
        }
    }

    /// Returns the reason for not starting the remaining calls, if there is one.
    fn stop_reason(&self) -> Option<&'static str> {
        if self.turn.output.as_ref().is_some_and(|output| output.answer().is_some()) {
            Some("the answer was given before this call began, and ended the turn")
        } else if self.end.stop {
            Some("the user stopped the turn before this call began")
        } else if self.turn.scope.cancel.is_cancelled() {
            Some(INTERRUPTED)
        } else if matches!(self.end.ends, Some(TurnEnd::Stopped { .. })) {
            Some("the turn was ended before this call began")
        } else if self.end.ends.is_some() {
            Some("a hook stopped the turn before this call began")
        } else {
            None
        }
    }

    async fn finish(mut self, whole: turn_hooks::HookBatch<'_>) -> BatchEnd {
        let (blocks, extra): (Vec<Block>, Vec<Vec<NewMessage>>) = std::mem::take(&mut self.taken).into_values().unzip();
        self.conversation.history_mut().push_user(blocks);
        context_delivery::deliver_for_files(self.conversation, self.turn).await;
        let (hook_texts, ends_after) = whole.finish().await;
        for message in extra.into_iter().flatten().chain(hook_texts.into_iter().map(NewMessage::Text)) {
            let blocks = match message {
                NewMessage::Text(text) => vec![Block::text(&text)],
                NewMessage::Attachment(blocks) => blocks,
                NewMessage::Notice(notice) => {
                    self.turn.publish(EventBody::Notice(notice));
                    continue;
                }
            };
            self.conversation.record.append_meta_blocks(&blocks);
            self.conversation.history_mut().push_user(blocks);
        }
        BatchEnd { stop: self.end.stop, ends: self.end.ends.or(ends_after) }
    }
}

/// Applies the changes of a single result.
pub(crate) fn apply_changes(turn: &Turn, settled: &mut CallResult) {
    apply_result_changes(turn, ResultChanges::take_from(settled));
}

fn apply_result_changes(turn: &Turn, ResultChanges { list, unseen }: ResultChanges) {
    let services = &turn.scope.services;
    let old = services.hooks().has_listeners(HookEvent::CwdChanged).then(|| services.paths().cwd);
    if unseen {
        services.apply_unseen_changes(list);
    } else {
        services.apply_changes(list);
    }
    if let Some(old) = old {
        let new = services.paths().cwd;
        if old != new {
            services.hooks().fire_detached(&turn.scope, &HookPayload::CwdChanged { old: &old, new: &new });
        }
    }
    if let Some(mode) = services.take_mode_request().and_then(|wish| turn.scope.gate.apply_mode_request(wish)) {
        turn.publish(EventBody::ModeChanged(mode));
    }
}

fn append_result(conversation: &mut Conversation, turn: &Turn, call: &ToolCall, settled: &CallResult) -> Block {
    let block = Block::tool_result(call.id.as_str(), &settled.content, settled.error.is_some());
    let uuid = conversation.record.append_tool_result(&call.id, &block, &settled.output);
    turn.publish(EventBody::ToolFinished(Box::new(StoredToolResult {
        uuid,
        call: call.id.clone(),
        block: block.clone(),
        output: settled.output.clone(),
    })));
    block
}
