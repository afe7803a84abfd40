//! The loop: ask the model, run what it calls, tell it what came out, until it has nothing more to call.

mod hooked;
mod outcome;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use gimlet_proto::{
    Block, Body, Denial, ItemId, Level, Model, ModelFacts, ModelRequest, Notice, Origin, Prompt, Say, StopReason,
    ToolChoice, ToolFinished, ToolUseId, TurnEnd, TurnReport,
};

use crate::call::{CallScope, Incoming};
use crate::conversation::Conversation;
use crate::dials::Dials;
use crate::plans;
use crate::reply::{self, Ending, Reply};
use crate::results::{self, BatchBudget};
use crate::schedule::Calls;
use crate::steering::Steering;
use crate::structured::OutputSchema;
use hooked::AtEnd;
pub(crate) use outcome::say;
use outcome::{Limits, Next};

/// Everything a turn runs with, fixed when it starts (mode, rules and model are read where they are used).
pub(crate) struct Turn {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) dials: Dials,
    pub(crate) scope: Arc<CallScope>,
    pub(crate) options: TurnOptions,
    pub(crate) steering: Steering,
    pub(crate) items: Arc<AtomicU64>,
    pub(crate) result_files: gimlet_store::ResultFiles,
    /// The form that the answer has to have.
    pub(crate) output: Option<Arc<OutputSchema>>,
}

/// Choices that hold for every turn of a session.
#[derive(Clone, Debug)]
pub struct TurnOptions {
    /// Model round trips per prompt.
    pub max_turns: Option<u32>,
    /// What the session may cost, in dollars.
    pub max_budget_usd: Option<f64>,
    /// The model may call several tools in one reply.
    pub parallel_tools: bool,
    /// Readers may start while the reply streams.
    pub streaming_execution: bool,
    /// Pass the provider's own events through.
    pub wire_events: bool,
    pub concurrency: usize,
}

impl Default for TurnOptions {
    fn default() -> Self {
        Self {
            max_turns: None,
            max_budget_usd: None,
            parallel_tools: true,
            streaming_execution: true,
            wire_events: false,
            concurrency: 10,
        }
    }
}

impl Turn {
    /// What is known about the model of the moment.
    pub(crate) fn facts(&self) -> ModelFacts {
        self.model.facts(&self.dials.model())
    }

    pub(crate) fn publish(&self, body: Body) {
        self.scope.services.publish(&self.scope.agent, body);
    }

    pub(crate) fn notice(&self, level: Level, text: impl Into<String>) {
        self.publish(Body::Notice(Notice { level, text: text.into() }));
    }

    pub(crate) fn next_item(&self) -> ItemId {
        ItemId(self.items.fetch_add(1, Ordering::Relaxed))
    }
}

/// Runs one prompt to its end. Whatever happens, history stays valid and on disk.
pub(crate) async fn run(conversation: &mut Conversation, turn: &Turn, prompt: Say) -> TurnReport {
    let started = Instant::now();
    conversation.ledger.begin_turn();
    if let Some(output) = &turn.output {
        output.begin_turn();
    }
    let origin = prompt.origin.clone();
    let (end, text, stop_reason) = begin(conversation, turn, prompt).await;
    if let Some(answer) = turn.output.as_ref().and_then(|output| output.given()) {
        conversation.record.structured_output(&answer);
    }
    conversation.record.end_turn(&conversation.ledger.by_model(), turn.scope.gate.mode());
    conversation.record.durable().await;
    report(conversation, turn, Ended { end, text, stop_reason, origin }, started)
}

/// Takes the prompt in and goes on from there, unless hooks object.
async fn begin(conversation: &mut Conversation, turn: &Turn, prompt: Say) -> (TurnEnd, String, Option<StopReason>) {
    hooked::open(conversation, turn).await;
    match run_deferred(conversation, turn).await {
        Some(TurnEnd::Aborted { in_tools }) => {
            accept(conversation, turn, prompt);
            outcome::mark_interrupted(conversation, turn, in_tools);
            return (TurnEnd::Aborted { in_tools }, String::new(), None);
        }
        Some(end) => {
            turn.notice(Level::Warning, "the prompt was not taken up: a hook ended the turn before it");
            return (end, String::new(), None);
        }
        None => {}
    }
    for notice in turn.steering.take_notices() {
        accept(conversation, turn, notice);
    }
    match hooked::submit(conversation, turn, prompt).await {
        Some((end, words)) => (end, words, None),
        None => drive(conversation, turn, &mut Limits::default()).await,
    }
}

async fn drive(
    conversation: &mut Conversation,
    turn: &Turn,
    limits: &mut Limits,
) -> (TurnEnd, String, Option<StopReason>) {
    let mut last_text = String::new();
    // The beginning of a text that was cut at the output limit and goes on in the next reply.
    let mut begun = String::new();
    let mut stop_reason = None;
    let end = loop {
        if let Some(max) = turn.options.max_turns.filter(|max| conversation.ledger.turn_requests() >= *max) {
            break TurnEnd::MaxTurns(max);
        }
        if let Some(max) = overspent(conversation, turn) {
            break TurnEnd::Budget(max);
        }
        turn.scope.gate.refresh(&turn.scope).await;
        plans::tell(conversation, turn);
        let mut calls = Calls::new(turn.scope.clone(), turn.options.concurrency, turn.options.streaming_execution);
        let request = build_request(conversation, turn, limits);
        let facts = turn.facts();
        let asked = Instant::now();
        let reply = reply::read(turn, conversation, request, &mut calls).await;
        count(conversation, turn, &reply.facts(&*turn.model, &facts), &reply, asked);
        for side in turn.scope.gate.take_spent() {
            conversation.ledger.count_aside(&side.facts, &side.usage, side.took);
        }
        tell_of_uncounted(conversation, turn);
        if let Some(text) = reply.text() {
            last_text = std::mem::take(&mut begun) + &text;
        }
        if let Ending::Complete(end) = &reply.ending {
            stop_reason = end.stop_reason.clone();
        }
        let next = outcome::settle(conversation, turn, limits, reply, &calls);
        let spent = overspent(conversation, turn);
        if spent.is_some() {
            calls.cancel_waiting("the session reached its budget before this call began");
        }
        let results = match next {
            Next::End(TurnEnd::Completed) => {
                if let Some(max) = spent {
                    break TurnEnd::Budget(max);
                }
                let end = match &turn.output {
                    Some(output) => output.insist(conversation),
                    None => finish(conversation, turn, limits, &last_text).await,
                };
                match end {
                    Some(end) => break end,
                    None => continue,
                }
            }
            Next::End(end) => break end,
            Next::Again => {
                if stop_reason == Some(StopReason::MaxTokens) {
                    begun = last_text.clone();
                }
                continue;
            }
            Next::Discard => {
                calls.discard().await;
                continue;
            }
            Next::RunCalls(words) => {
                let results = run_calls(conversation, turn, &mut calls, facts.context_window).await;
                if let Some(words) = words {
                    say(conversation, words);
                }
                results
            }
            Next::Aborted => {
                calls.cancel_waiting("the user interrupted before this call began");
                let had_calls = !calls.is_empty();
                run_calls(conversation, turn, &mut calls, facts.context_window).await;
                outcome::mark_interrupted(conversation, turn, had_calls);
                break TurnEnd::Aborted { in_tools: false };
            }
        };
        if turn.scope.cancel.is_cancelled() || results.stop || turn.steering.is_urgent() {
            outcome::mark_interrupted(conversation, turn, true);
            break TurnEnd::Aborted { in_tools: true };
        }
        if let Some(end) = results.ends {
            break end;
        }
        match turn.output.as_ref().and_then(|output| output.end()) {
            Some(TurnEnd::Completed) => {
                if let Some(end) = finish(conversation, turn, limits, &last_text).await {
                    break end;
                }
            }
            Some(end) => break end,
            None => {}
        }
        for said in turn.steering.take_joining() {
            // One that hooks do not let in is gone; the turn goes on without it.
            hooked::submit(conversation, turn, said).await;
        }
    };
    if let TurnEnd::Failed(error) = &end {
        hooked::failed(turn, error, &last_text).await;
    }
    if matches!((&end, &stop_reason), (TurnEnd::Completed, Some(StopReason::MaxTokens))) {
        turn.notice(Level::Warning, "the answer was cut at the output limit and may be incomplete");
    }
    if let TurnEnd::Refused { explanation } = &end {
        last_text = outcome::refusal(explanation.as_deref());
    }
    (end, last_text, stop_reason)
}

/// The model is done: the turn ends, unless hooks want it to go on.
async fn finish(conversation: &mut Conversation, turn: &Turn, limits: &mut Limits, last_text: &str) -> Option<TurnEnd> {
    match hooked::at_end(conversation, turn, limits, last_text).await {
        AtEnd::End => Some(TurnEnd::Completed),
        AtEnd::GoOn => {
            // Whoever wants the work to go on wants another answer.
            if let Some(output) = &turn.output {
                output.begin_turn();
            }
            None
        }
        AtEnd::Prevented => Some(TurnEnd::StopHookPrevented),
        AtEnd::Aborted => {
            outcome::mark_interrupted(conversation, turn, false);
            Some(TurnEnd::Aborted { in_tools: false })
        }
    }
}

/// Puts a prompt on disk, then into history, then before people's eyes.
pub(crate) fn accept(conversation: &mut Conversation, turn: &Turn, said: Say) {
    open_conversation(conversation, turn);
    // Only the person speaks for the person.
    let of_session = turn.scope.subagent.is_none();
    if !said.synthetic && of_session {
        turn.scope.gate.note_prompt(&said.blocks);
    }
    let uuid = conversation.record.prompt(&said);
    if of_session {
        turn.scope.services.hooks().note_prompt(&uuid);
        if !said.synthetic {
            turn.scope.services.begin_checkpoint(&uuid);
        }
    }
    conversation.push_user(said.blocks.clone());
    turn.publish(Body::Prompt(Prompt {
        uuid,
        blocks: said.blocks,
        plain: said.plain,
        synthetic: said.synthetic,
        origin: said.origin,
    }));
}

/// A conversation begins with the facts of this place.
fn open_conversation(conversation: &mut Conversation, turn: &Turn) {
    // A subagent has the facts of the place in its system prompt: its record begins with its task.
    if conversation.is_empty() && turn.scope.subagent.is_none() {
        let context = crate::context::environment(&turn.scope, &turn.facts().id);
        say(conversation, &context);
    }
}

fn build_request(conversation: &mut Conversation, turn: &Turn, limits: &Limits) -> ModelRequest {
    if conversation.ensure_paired() {
        turn.notice(Level::Warning, "a tool call had lost its result; please report this");
    }
    let choice = turn.dials.now();
    ModelRequest {
        model: choice.model,
        max_tokens: limits.max_tokens,
        system: conversation.system.clone(),
        tools: conversation.tools.clone(),
        tool_choice: ToolChoice::Auto { parallel: turn.options.parallel_tools },
        cache: conversation.plan_cache(),
        messages: conversation.messages(),
        thinking: choice.thinking,
        effort: choice.effort,
        want_wire_events: turn.options.wire_events,
    }
}

fn count(conversation: &mut Conversation, turn: &Turn, facts: &ModelFacts, reply: &Reply, asked: Instant) {
    match &reply.ending {
        Ending::Complete(end) => {
            conversation.ledger.count(facts, &end.usage, asked.elapsed());
            conversation.gauge.count(&end.usage);
            if let Some(who) = &turn.scope.subagent {
                who.meter.count(&end.usage);
            }
            conversation.context_tokens = end.usage.prompt_tokens() + end.usage.output_tokens;
        }
        Ending::Aborted => conversation.ledger.count(facts, &reply.start.usage, asked.elapsed()),
        Ending::Failed(_) => conversation.ledger.count_time(asked.elapsed()),
    }
}

/// The ceiling, once the session has reached it.
fn overspent(conversation: &Conversation, turn: &Turn) -> Option<f64> {
    turn.options.max_budget_usd.filter(|max| conversation.ledger.known_cost_usd() >= *max)
}

/// A ceiling that cannot count everything is no ceiling; whoever set it should know.
fn tell_of_uncounted(conversation: &Conversation, turn: &Turn) {
    if turn.options.max_budget_usd.is_some()
        && let Some(models) = conversation.ledger.take_uncounted()
    {
        turn.notice(Level::Warning, format!("no price is known for {models}: the budget cannot count what it costs"));
    }
}

struct BatchEnd {
    /// The person wants the turn to stop here.
    stop: bool,
    /// A hook ends the turn here, like this.
    ends: Option<TurnEnd>,
}

/// Runs the call that a hook left for later, before anything else is said. Hooks may leave it once more.
async fn run_deferred(conversation: &mut Conversation, turn: &Turn) -> Option<TurnEnd> {
    let call = conversation.deferred.take()?;
    let mut calls = Calls::new(turn.scope.clone(), turn.options.concurrency, false);
    calls.offer(call);
    let results = run_calls(conversation, turn, &mut calls, turn.facts().context_window).await;
    let stopped = results.stop || turn.scope.cancel.is_cancelled();
    results.ends.or_else(|| stopped.then_some(TurnEnd::Aborted { in_tools: true }))
}

/// Runs the calls of a reply, group by group, and appends their results: one per call, in order.
async fn run_calls(conversation: &mut Conversation, turn: &Turn, calls: &mut Calls, window: u64) -> BatchEnd {
    turn.scope.gate.refresh(&turn.scope).await;
    let groups = calls.groups();
    // Only what changes the world must not run before its request is safe on disk.
    let mut durable = groups.iter().any(|group| group.has_effects).then(|| conversation.record.sync());
    let mut budget = BatchBudget::new(window.saturating_sub(conversation.context_tokens));
    let mut blocks = Vec::new();
    let mut extra = Vec::new();
    let mut stop = false;
    let mut ends: Option<TurnEnd> = None;
    let mut whole = hooked::Batch::new(turn);
    for group in groups {
        calls.decide_group(&group);
        if group.has_effects
            && let Some(durable) = durable.take()
        {
            let outcome = durable.await;
            conversation.record.remember(outcome);
        }
        let finished = calls.run_group(&group).await;
        let mut batch: Vec<(ToolUseId, results::Settled)> = Vec::with_capacity(finished.len());
        let mut incoming: Vec<Incoming> = Vec::with_capacity(batch.len());
        for (call, cap, mut settled) in finished {
            settled.cap(&call.id, cap, &turn.result_files);
            batch.push((call.id.clone(), settled));
            incoming.push(call);
        }
        budget.fit(&mut batch, &turn.result_files);
        for (call, (_, mut settled)) in incoming.into_iter().zip(batch) {
            apply_changes(turn, &mut settled);
            if let Some(output) = &turn.output {
                output.note(&call.name, settled.error.is_some());
            }
            conversation.repeats.note(&call, &mut settled);
            stop |= settled.stop_turn;
            ends = ends.or(settled.ends_turn.take());
            if matches!(ends, Some(TurnEnd::Deferred { .. })) {
                // It is alone in its reply, and its result comes when it runs.
                conversation.deferred = Some(call);
                continue;
            }
            whole.note(&call, &settled);
            blocks.push(append_result(conversation, turn, &call, &settled));
            extra.append(&mut settled.new_messages);
        }
        if turn.output.as_ref().is_some_and(|output| output.given().is_some()) {
            calls.cancel_waiting("the answer was given before this call began, and ended the turn");
        } else if stop {
            calls.cancel_waiting("the user stopped the turn before this call began");
        } else if turn.scope.cancel.is_cancelled() {
            calls.cancel_waiting("the user interrupted before this call began");
        } else if ends.is_some() {
            calls.cancel_waiting("a hook stopped the turn before this call began");
        }
    }
    conversation.push_user(blocks);
    let (mut told, ends_after) = whole.finish().await;
    extra.append(&mut told);
    for text in extra {
        conversation.record.meta(&text);
        conversation.push_user(vec![Block::text(&text)]);
    }
    BatchEnd { stop, ends: ends.or(ends_after) }
}

/// A result's changes to the session, in the order of the calls.
fn apply_changes(turn: &Turn, settled: &mut results::Settled) {
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

fn append_result(conversation: &mut Conversation, turn: &Turn, call: &Incoming, settled: &results::Settled) -> Block {
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

/// How a turn came to its end.
struct Ended {
    end: TurnEnd,
    text: String,
    stop_reason: Option<StopReason>,
    origin: Option<Origin>,
}

fn report(conversation: &Conversation, turn: &Turn, ended: Ended, started: Instant) -> TurnReport {
    let Ended { end, mut text, stop_reason, origin } = ended;
    let structured_output = turn.output.as_ref().and_then(|output| output.given());
    if let Some(answer) = &structured_output {
        answer.get().clone_into(&mut text);
    }
    let requests = conversation.ledger.turn_requests();
    let num_turns = if matches!(end, TurnEnd::MaxTurns(_)) { requests + 1 } else { requests.max(1) };
    // What a subagent was refused is told with the turn that sent it.
    let denials: Vec<Denial> = if turn.scope.subagent.is_none() { turn.scope.gate.take_denials() } else { Vec::new() };
    TurnReport {
        end,
        text,
        stop_reason,
        num_turns,
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        api_ms: u64::try_from(conversation.ledger.turn_api().as_millis()).unwrap_or(u64::MAX),
        usage: conversation.ledger.turn_usage(),
        total_cost_usd: conversation.ledger.total_cost_usd(),
        by_model: conversation.ledger.by_model(),
        denials,
        origin,
        queued: turn.steering.waiting(),
        structured_output,
    }
}
