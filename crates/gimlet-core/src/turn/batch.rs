//! Runs the calls of one reply and takes their results into history: one for each, in the order of the calls.

use gimlet_proto::{Block, Body, ToolFinished, ToolUseId, TurnEnd};

use super::{Turn, hooked};
use crate::call::Incoming;
use crate::conversation::{Conversation, Room};
use crate::results::{BatchBudget, Settled};
use crate::schedule::Calls;
use crate::tool::ResultCap;

/// What the results say about the turn.
#[derive(Default)]
pub(super) struct BatchEnd {
    /// The person wants the turn to stop here.
    pub(super) stop: bool,
    /// A hook ends the turn here, like this.
    pub(super) ends: Option<TurnEnd>,
}

/// Runs the calls of a reply, group by group, and appends their results: one per call, in order.
pub(super) async fn run_calls(
    conversation: &mut Conversation,
    turn: &Turn,
    calls: &mut Calls,
    window: u64,
) -> BatchEnd {
    turn.scope.gate.refresh(&turn.scope).await;
    let groups = calls.groups();
    // Only what changes the world must not run before its request is safe on disk.
    let mut durable = groups.iter().any(|group| group.has_effects).then(|| conversation.record.sync());
    let room = conversation.room();
    let budget = BatchBudget::new(window.saturating_sub(conversation.context_tokens));
    let mut batch =
        Batch { conversation, turn, room, budget, blocks: Vec::new(), extra: Vec::new(), end: BatchEnd::default() };
    let mut whole = hooked::Batch::new(turn);
    for group in groups {
        calls.decide_group(&group);
        if group.has_effects
            && let Some(durable) = durable.take()
        {
            let outcome = durable.await;
            batch.conversation.record.remember(outcome);
        }
        let finished = calls.run_group(&group).await;
        batch.take_in(finished, &mut whole);
        if let Some(reason) = batch.why_no_more() {
            calls.cancel_waiting(reason);
        }
    }
    batch.close(whole).await
}

/// What has come out of a reply's calls so far.
struct Batch<'a> {
    conversation: &'a mut Conversation,
    turn: &'a Turn,
    /// For images and documents.
    room: Room,
    /// For text.
    budget: BatchBudget,
    blocks: Vec<Block>,
    /// What the model is told behind the results.
    extra: Vec<String>,
    end: BatchEnd,
}

impl Batch<'_> {
    /// Takes in the results of one group, made to fit what room there is.
    fn take_in(&mut self, finished: Vec<(Incoming, ResultCap, Settled)>, whole: &mut hooked::Batch<'_>) {
        let turn = self.turn;
        let mut settled: Vec<(ToolUseId, Settled)> = Vec::with_capacity(finished.len());
        let mut incoming: Vec<Incoming> = Vec::with_capacity(finished.len());
        for (call, cap, mut one) in finished {
            self.room.fit(&mut one.content);
            one.cap(&call.id, cap, &turn.result_files);
            settled.push((call.id.clone(), one));
            incoming.push(call);
        }
        self.budget.fit(&mut settled, &turn.result_files);
        for (call, (_, settled)) in incoming.into_iter().zip(settled) {
            self.take_one(call, settled, whole);
        }
    }

    fn take_one(&mut self, call: Incoming, mut settled: Settled, whole: &mut hooked::Batch<'_>) {
        apply_changes(self.turn, &mut settled);
        if let Some(output) = &self.turn.output {
            output.note(&call.name, settled.error.is_some());
        }
        self.conversation.repeats.note(&call, &mut settled);
        self.end.stop |= settled.stop_turn;
        self.end.ends = self.end.ends.take().or(settled.ends_turn.take());
        if matches!(self.end.ends, Some(TurnEnd::Deferred { .. })) {
            // It is alone in its reply, and its result comes when it runs.
            self.conversation.record.deferred(&call.id);
            self.conversation.deferred = Some(call);
            return;
        }
        whole.note(&call, &settled);
        self.blocks.push(append_result(self.conversation, self.turn, &call, &settled));
        self.extra.append(&mut settled.new_messages);
    }

    /// Why calls that have not begun are not begun any more.
    fn why_no_more(&self) -> Option<&'static str> {
        if self.turn.output.as_ref().is_some_and(|output| output.given().is_some()) {
            Some("the answer was given before this call began, and ended the turn")
        } else if self.end.stop {
            Some("the user stopped the turn before this call began")
        } else if self.turn.scope.cancel.is_cancelled() {
            Some("the user interrupted before this call began")
        } else if self.end.ends.is_some() {
            Some("a hook stopped the turn before this call began")
        } else {
            None
        }
    }

    async fn close(mut self, whole: hooked::Batch<'_>) -> BatchEnd {
        self.conversation.push_user(self.blocks);
        let (mut told, ends_after) = whole.finish().await;
        self.extra.append(&mut told);
        for text in self.extra {
            self.conversation.record.meta(&text);
            self.conversation.push_user(vec![Block::text(&text)]);
        }
        BatchEnd { stop: self.end.stop, ends: self.end.ends.or(ends_after) }
    }
}

/// A result's changes to the session, in the order of the calls.
pub(crate) fn apply_changes(turn: &Turn, settled: &mut Settled) {
    let changes = settled.changes.drain(..);
    if settled.persisted {
        turn.scope.services.apply_unseen(changes);
    } else {
        turn.scope.services.apply(changes);
    }
    if let Some(mode) = turn.scope.services.take_mode_wish().and_then(|wish| turn.scope.gate.grant_wish(wish)) {
        turn.publish(Body::ModeChanged(mode));
    }
}

fn append_result(conversation: &mut Conversation, turn: &Turn, call: &Incoming, settled: &Settled) -> Block {
    let block = Block::tool_result(call.id.as_str(), &settled.content, settled.error.is_some());
    let uuid = conversation.record.tool_result(&call.id, &block, &settled.output);
    turn.publish(Body::ToolFinished(Box::new(ToolFinished {
        uuid,
        call: call.id.clone(),
        block: block.clone(),
        output: settled.output.clone(),
    })));
    block
}
