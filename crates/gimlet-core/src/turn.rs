//! The loop: ask the model, run what it calls, tell it what came out, until it has nothing more to call.

mod answered;
mod batch;
mod hooked;
mod outcome;
mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use gimlet_proto::{
    Body, Denial, EntryId, ItemId, Level, Model, ModelFacts, Notice, Origin, Prompt, PromptFate, Say, StopCause,
    StopReason, TurnEnd, TurnReport,
};

use crate::call::CallScope;
use crate::conversation::Conversation;
use crate::dials::Dials;
use crate::panics::caught_async;
use crate::record::Record;
use crate::schedule::Calls;
use crate::steering::Steering;
use crate::structured::OutputSchema;
pub(crate) use batch::apply_changes;
pub(crate) use outcome::say;
use rounds::Rounds;

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
        self.model.facts(&self.scope.model())
    }

    pub(crate) fn publish(&self, body: Body) {
        self.scope.services.publish(&self.scope.agent, body);
    }

    pub(crate) fn notice(&self, level: Level, text: impl Into<String>) {
        self.publish(Body::Notice(Notice { level, text: text.into() }));
    }

    /// Says that the record cannot be written, as soon as that is known: a long turn may still be stopped in time.
    fn tell_trouble(&self, record: &mut Record) {
        if let Some(text) = record.take_warning() {
            self.notice(Level::Error, text);
        }
    }

    /// Tells whoever gave a prompt its id what became of it. One that waited does so no more.
    fn tell_fate(&self, said: &Say, fate: PromptFate) {
        self.steering.settle(said);
        if let Some(prompt) = said.uuid.clone() {
            self.publish(Body::PromptFate { prompt, fate });
        }
    }

    pub(crate) fn next_item(&self) -> ItemId {
        ItemId(self.items.fetch_add(1, Ordering::Relaxed))
    }
}

/// Runs one prompt to its end. Whatever happens, history stays valid and on disk.
pub(crate) async fn run(conversation: &mut Conversation, turn: &Turn, prompt: Say) -> TurnReport {
    let started = Instant::now();
    conversation.ledger.begin_turn();
    conversation.repeats.clear();
    if let Some(output) = &turn.output {
        output.begin_turn();
    }
    let origin = prompt.origin.clone();
    let (end, text, stop_reason) = match caught_async(begin(conversation, turn, prompt)).await {
        Ok(ended) => ended,
        Err(panicked) => {
            panicked.log(&turn.scope, "the turn");
            // What it left half done is mended before the next request.
            let reason = "the turn failed inside gimlet; the session can go on. Please report this".to_owned();
            (TurnEnd::Stopped { reason, because: StopCause::InternalError }, String::new(), None)
        }
    };
    if let Some(answer) = turn.output.as_ref().and_then(|output| output.given()) {
        conversation.record.structured_output(&answer);
    }
    conversation.record.end_turn(&conversation.ledger.by_model(), turn.scope.gate.mode());
    conversation.record.durable().await;
    report(conversation, turn, Ended { end, text, stop_reason, origin }, started)
}

/// Takes the prompt in and goes on from there, unless hooks object.
async fn begin(conversation: &mut Conversation, turn: &Turn, mut prompt: Say) -> (TurnEnd, String, Option<StopReason>) {
    if let Some(reason) = hooked::open(conversation, turn).await {
        turn.tell_fate(&prompt, PromptFate::Refused);
        return (TurnEnd::HookStopped, reason, None);
    }
    let answered = match answered::take_answer(conversation, turn, &mut prompt) {
        Ok(answered) => answered,
        Err(end) => {
            turn.tell_fate(&prompt, PromptFate::Refused);
            return (end, String::new(), None);
        }
    };
    let ended = run_deferred(conversation, turn).await;
    if conversation.deferred.is_none() {
        turn.steering.take_held().into_iter().for_each(|said| take_note(conversation, turn, said));
    }
    match ended {
        Some(TurnEnd::Aborted { in_tools }) => {
            accept(conversation, turn, prompt);
            outcome::mark_interrupted(conversation, turn, in_tools);
            return (TurnEnd::Aborted { in_tools }, String::new(), None);
        }
        Some(end) => {
            turn.tell_fate(&prompt, PromptFate::Refused);
            let why = match &end {
                TurnEnd::DeferredUnavailable { .. } => "the tool of the call that waited is gone",
                _ => "a hook ended the turn before it",
            };
            turn.notice(Level::Warning, format!("the prompt was not taken up: {why}"));
            return (end, String::new(), None);
        }
        None => {}
    }
    for notice in turn.steering.take_notices() {
        accept(conversation, turn, notice);
    }
    if answered && prompt.blocks.is_empty() {
        // The answer was all there is to say.
        turn.tell_fate(&prompt, PromptFate::Taken);
        let here = conversation.mark();
        return Rounds::new(conversation, turn, &here).run().await;
    }
    let is_heavy = outcome::may_be_too_much(&prompt.blocks);
    match hooked::submit(conversation, turn, prompt).await {
        Err((end, words)) => (end, words, None),
        Ok(before) => {
            let ended = Rounds::new(conversation, turn, &before).run().await;
            if is_heavy {
                outcome::take_back(conversation, turn, &ended.0, before);
            }
            ended
        }
    }
}

/// Takes in what is only to be known, unless it does not fit. Nothing may stand between a call that waits and its result:
/// until then it is kept.
pub(crate) fn take_note(conversation: &mut Conversation, turn: &Turn, said: Say) {
    if let Some(TurnEnd::PromptUnusable { reason, .. }) = conversation.objection(&said.blocks, &turn.facts()) {
        refuse_note(turn, &said, reason);
    } else if conversation.deferred.is_none() {
        accept(conversation, turn, said);
    } else if let Some(said) = turn.steering.hold(said) {
        refuse_note(turn, &said, "The prompt was not taken up: a call waits, and too much waits behind it.");
    }
}

fn refuse_note(turn: &Turn, said: &Say, reason: impl Into<String>) {
    turn.notice(Level::Warning, reason);
    turn.tell_fate(said, PromptFate::Refused);
}

/// Puts a prompt on disk, then into history, then before people's eyes. Gives its id.
pub(crate) fn accept(conversation: &mut Conversation, turn: &Turn, said: Say) -> EntryId {
    accept_as(conversation, turn, said, None)
}

/// The same for a prompt that hooks know by an id already.
fn accept_as(conversation: &mut Conversation, turn: &Turn, said: Say, promised: Option<EntryId>) -> EntryId {
    open_conversation(conversation, turn);
    // Only the person speaks for the person.
    let of_session = turn.scope.subagent.is_none();
    if !said.synthetic && !said.meta && of_session {
        turn.scope.gate.note_prompt(&said.blocks);
    }
    let uuid = conversation.record.prompt(&said, promised);
    turn.tell_fate(&said, PromptFate::Taken);
    if of_session {
        turn.scope.services.hooks().note_prompt(&uuid);
        if !said.synthetic {
            turn.scope.services.begin_checkpoint(&uuid);
        }
    }
    conversation.push_user(said.blocks.clone());
    turn.publish(Body::Prompt(Prompt {
        uuid: uuid.clone(),
        blocks: said.blocks,
        plain: said.plain,
        synthetic: said.synthetic,
        origin: said.origin,
    }));
    uuid
}

/// A conversation begins with the facts of this place.
fn open_conversation(conversation: &mut Conversation, turn: &Turn) {
    // A subagent has the facts of the place in its system prompt: its record begins with its task.
    if conversation.is_empty() && turn.scope.subagent.is_none() {
        let context = crate::context::environment(&turn.scope, &turn.facts().id);
        say(conversation, &context);
    }
}

/// Runs the call that a hook left for later, before anything else is said. Hooks may leave it once more.
async fn run_deferred(conversation: &mut Conversation, turn: &Turn) -> Option<TurnEnd> {
    let call = conversation.deferred.take()?;
    let tools = &turn.scope.tools;
    let gone = tools.find(tools.meant(&call.name)).is_none().then(|| call.name.clone());
    let mut calls = Calls::new(turn.scope.clone(), turn.options.concurrency, false);
    // On disk before it can change anything, like every request: it must not run twice because a run was cut off.
    conversation.record.resumed(&call.id);
    calls.offer(call);
    let results = batch::run_calls(conversation, turn, &mut calls, turn.facts().context_window).await;
    let stopped = results.stop || turn.scope.cancel.is_cancelled();
    // A tool that is gone has been told so as the call's result; whoever wanted it later must know.
    let unavailable = gone.map(|tool| TurnEnd::DeferredUnavailable { tool });
    unavailable.or(results.ends).or_else(|| stopped.then_some(TurnEnd::Aborted { in_tools: true }))
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
    let num_turns = match end {
        TurnEnd::MaxTurns(_) => requests + 1,
        // Nobody was asked.
        TurnEnd::PromptBlocked { .. } | TurnEnd::HookStopped => requests,
        _ => requests.max(1),
    };
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
        last_usage: conversation.ledger.last_usage(),
        total_cost_usd: conversation.ledger.total_cost_usd(),
        by_model: conversation.ledger.by_model(),
        denials,
        origin,
        queued: turn.steering.waiting(),
        structured_output,
    }
}
