//! The turn: sends requests to the model and runs its calls until a reply has no calls.

mod accept_prompt;
mod call_batch;
mod context_delivery;
mod reply_outcome;
mod turn_hooks;
mod turn_loop;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimlet_proto::{
    Denial, Env, EventBody, ModelFacts, Notice, NoticeLevel, PromptOrigin, PromptOutcome, StopCause, StopReason,
    SubmittedPrompt, TurnEnd, TurnReport,
};
use tokio_util::sync::CancellationToken;

use crate::call::CallScope;
use crate::commands::CommandResolver;
use crate::compaction::CompactionPolicy;
use crate::context::LiveOutputStyle;
use crate::conversation::Conversation;
use crate::image_fitting;
use crate::panics::catch_panic_async;
use crate::record::ConversationRecord;
use crate::schedule::CallSchedule;
use crate::spending::{ReachedLimit, SpendingLimits};
use crate::steering::SteeringQueue;
use crate::structured_output::OutputSchema;
use crate::tool::ToolSource;
pub(crate) use accept_prompt::accept_note;
pub(crate) use call_batch::apply_changes;
pub(crate) use context_delivery::{open_segment, read_compacted_context};
pub(crate) use reply_outcome::{append_meta_blocks, append_meta_message};
use turn_loop::TurnLoop;
pub(crate) use turn_loop::reserve_for_request;

/// Parameters of a turn, fixed when it starts (mode, rules and model are read at each use).
pub(crate) struct Turn {
    pub(crate) scope: Arc<CallScope>,
    pub(crate) options: TurnOptions,
    pub(crate) steering: SteeringQueue,
    pub(crate) result_files: gimlet_store::ResultFiles,
    /// Schema that the answer must have.
    pub(crate) output: Option<Arc<OutputSchema>>,
    /// Commands that a prompt can be; `None` for a subagent, whose prompts the user does not type.
    pub(crate) commands: Option<CommandResolver>,
    /// Servers whose resources a prompt can name.
    pub(crate) tool_source: Option<Arc<dyn ToolSource>>,
}

/// Limit of model requests per prompt that no user needs in earnest: it ends what would go on for ever.
const DEFAULT_MAX_TURNS: u32 = 1_000;

/// Returns the maximum number of model requests per prompt: as asked for, or else as the environment, settings or the
/// default say; 0 means no limit.
pub fn max_turns(asked: Option<u32>, env: &Env, setting: Option<u32>) -> Option<u32> {
    let of_env = || env.integer("CLAUDE_CODE_MAX_TURNS").and_then(|turns| u32::try_from(turns).ok());
    asked.or_else(of_env).or(setting).or(Some(DEFAULT_MAX_TURNS)).filter(|most| *most > 0)
}

/// Options that apply to every turn of a session.
#[derive(Clone, Debug)]
pub struct TurnOptions {
    /// Maximum number of model requests per prompt.
    pub max_turns: Option<u32>,
    /// Ceilings of the session with its agents.
    pub limits: SpendingLimits,
    /// Set if the model may call several tools in one reply.
    pub parallel_tools: bool,
    /// Set if read-only calls may start while the reply streams.
    pub streaming_execution: bool,
    /// Set if the provider's raw events are passed through.
    pub wire_events: bool,
    pub concurrency: usize,
    /// When the conversation is compacted.
    pub compaction: CompactionPolicy,
    /// Output style of the segments that begin from now on.
    pub style: LiveOutputStyle,
}

impl TurnOptions {
    /// Returns the maximum number of requests of a subagent that has no limit of its own. A low limit of the session
    /// is not meant for it.
    pub(crate) fn agent_max_turns(&self) -> Option<u32> {
        self.max_turns.map(|most| most.max(DEFAULT_MAX_TURNS))
    }
}

impl Default for TurnOptions {
    fn default() -> Self {
        Self {
            max_turns: Some(DEFAULT_MAX_TURNS),
            limits: SpendingLimits::default(),
            parallel_tools: true,
            streaming_execution: true,
            wire_events: false,
            concurrency: 10,
            compaction: CompactionPolicy::default(),
            style: LiveOutputStyle::default(),
        }
    }
}

impl Turn {
    /// Returns the facts of the current model.
    pub(crate) fn model_facts(&self) -> ModelFacts {
        self.scope.model_facts()
    }

    pub(crate) fn publish(&self, body: EventBody) {
        self.scope.services.publish(&self.scope.agent, body);
    }

    pub(crate) fn publish_notice(&self, level: NoticeLevel, text: impl Into<String>) {
        self.publish(EventBody::Notice(Notice { level, text: text.into() }));
    }

    /// Publishes a write error of the record as soon as it is known: a long turn may still be stopped in time.
    fn report_record_error(&self, record: &mut ConversationRecord) {
        if let Some(text) = record.take_warning() {
            self.publish_notice(NoticeLevel::Error, text);
        }
    }

    /// Publishes the outcome of a prompt that has an id, and marks it as handled in the queue.
    fn publish_prompt_fate(&self, said: &SubmittedPrompt, fate: PromptOutcome) {
        self.steering.mark_handled(said);
        if let Some(prompt) = said.uuid.clone() {
            self.publish(EventBody::PromptOutcome { prompt, outcome: fate });
        }
    }
}

/// Runs one prompt to its end. In every case the history stays valid and on disk.
pub(crate) async fn run_turn(conversation: &mut Conversation, turn: &Turn, prompt: SubmittedPrompt) -> TurnReport {
    let started = Instant::now();
    conversation.ledger.begin_turn();
    conversation.segment.repeats.clear();
    if let Some(output) = &turn.output {
        output.begin_turn();
    }
    let origin = prompt.origin.clone();
    let spending = conversation.ledger.spending().clone();
    let time = if turn.scope.subagent.is_none() { spending.begin_work() } else { None };
    let work = catch_panic_async(begin_turn(conversation, turn, prompt));
    let (ended, is_out_of_time) = run_within(work, time, &turn.scope.cancel).await;
    if turn.scope.subagent.is_none() {
        spending.end_work();
    }
    let (end, text, stop_reason) = match ended {
        Ok((TurnEnd::Aborted { .. }, text, stop_reason)) if is_out_of_time => {
            let limit = ReachedLimit::Time(turn.options.limits.max_time.unwrap_or_default());
            (limit.to_turn_end(), text, stop_reason)
        }
        Ok(ended) => ended,
        Err(panicked) => {
            panicked.log(&turn.scope, "the turn");
            // Incomplete history is repaired before the next request.
            let reason = "the turn failed inside gimlet; the session can go on. Please report this".to_owned();
            (TurnEnd::Stopped { reason, because: StopCause::InternalError }, String::new(), None)
        }
    };
    turn.scope.model_selection.end_override();
    if let Some(answer) = turn.output.as_ref().and_then(|output| output.answer()) {
        conversation.record.append_structured_output(&answer);
    }
    conversation.record.end_turn(&conversation.ledger.by_model(), turn.scope.gate.mode());
    conversation.record.wait_durable().await;
    build_report(conversation, turn, TurnConclusion { end, text, stop_reason, origin }, started)
}

/// Runs a turn, and interrupts it when its time is over. Returns true beside its outcome in that case.
async fn run_within<T>(work: impl Future<Output = T>, time: Option<Duration>, cancel: &CancellationToken) -> (T, bool) {
    let Some(time) = time else { return (work.await, false) };
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        ended = &mut work => (ended, false),
        () = tokio::time::sleep(time) => {
            cancel.cancel();
            (work.await, true)
        }
    }
}

/// Accepts the prompt and runs the turn, unless hooks block it.
async fn begin_turn(
    conversation: &mut Conversation,
    turn: &Turn,
    mut prompt: SubmittedPrompt,
) -> (TurnEnd, String, Option<StopReason>) {
    if let Some(reason) = turn_hooks::run_start_hooks(conversation, turn).await {
        turn.publish_prompt_fate(&prompt, PromptOutcome::Refused);
        return (TurnEnd::HookStopped, reason, None);
    }
    if prompt.only_start_hooks {
        return (TurnEnd::Command { error: None }, String::new(), None);
    }
    open_segment(conversation, turn).await;
    let answered = match accept_prompt::take_deferred_answer(conversation, turn, &mut prompt) {
        Ok(answered) => answered,
        Err(end) => {
            turn.publish_prompt_fate(&prompt, PromptOutcome::Refused);
            return (end, String::new(), None);
        }
    };
    let ended = run_deferred_call(conversation, turn).await;
    if conversation.deferred.is_none() {
        turn.steering.take_held().into_iter().for_each(|said| accept_note(conversation, turn, said));
    }
    match ended {
        Some(TurnEnd::Aborted { in_tools }) => {
            accept_prompt::accept_prompt(conversation, turn, prompt);
            reply_outcome::mark_interrupted(conversation, turn, in_tools);
            return (TurnEnd::Aborted { in_tools }, String::new(), None);
        }
        Some(end) => {
            turn.publish_prompt_fate(&prompt, PromptOutcome::Refused);
            let why = match &end {
                TurnEnd::DeferredUnavailable { .. } => "the tool of the call that waited is gone",
                _ => "a hook ended the turn before it",
            };
            turn.publish_notice(NoticeLevel::Warning, format!("the prompt was not taken up: {why}"));
            return (end, String::new(), None);
        }
        None => {}
    }
    for notice in turn.steering.take_notices() {
        accept_prompt::accept_prompt(conversation, turn, notice);
    }
    if answered && prompt.blocks.is_empty() {
        // The prompt held nothing but the answer.
        turn.publish_prompt_fate(&prompt, PromptOutcome::Accepted);
        let here = conversation.mark_prompt();
        return TurnLoop::new(conversation, turn, here).run().await.0;
    }
    let image_notes = image_fitting::fit_prompt_images(turn, &mut prompt.blocks).await;
    let is_heavy = reply_outcome::may_be_too_large(&prompt.blocks);
    if let Err(ended) = turn_loop::make_room_for_prompt(conversation, turn, &prompt).await {
        turn.publish_prompt_fate(&prompt, PromptOutcome::Refused);
        return (ended, String::new(), None);
    }
    match accept_prompt::submit_prompt(conversation, turn, prompt, image_notes).await {
        Err((end, words)) => (end, words, None),
        Ok(before) => {
            let (ended, before) = TurnLoop::new(conversation, turn, before).run().await;
            if is_heavy {
                reply_outcome::withdraw_refused_prompt(conversation, turn, &ended.0, before);
            }
            ended
        }
    }
}

/// Runs the call that a hook deferred, before anything else is appended. Hooks may defer it again.
async fn run_deferred_call(conversation: &mut Conversation, turn: &Turn) -> Option<TurnEnd> {
    let call = conversation.deferred.take()?;
    let tools = &turn.scope.tools;
    let gone = tools.find(tools.resolve_name(&call.name)).is_none().then(|| call.name.clone());
    let mut calls = CallSchedule::new(turn.scope.clone(), turn.options.concurrency, false);
    // On disk before it can have effects, like every request: it must not run twice because a run was cut off.
    conversation.record.append_resumed(&call.id);
    calls.add_call(call);
    let results = call_batch::run_calls(conversation, turn, &mut calls, turn.model_facts().context_window).await;
    let stopped = results.stop || turn.scope.cancel.is_cancelled();
    // The call of a missing tool has that as its result; the client that deferred it must know, too.
    let unavailable = gone.map(|tool| TurnEnd::DeferredUnavailable { tool });
    unavailable.or(results.ends).or_else(|| stopped.then_some(TurnEnd::Aborted { in_tools: true }))
}

/// End of a turn.
struct TurnConclusion {
    end: TurnEnd,
    text: String,
    stop_reason: Option<StopReason>,
    origin: Option<PromptOrigin>,
}

fn build_report(conversation: &Conversation, turn: &Turn, ended: TurnConclusion, started: Instant) -> TurnReport {
    let TurnConclusion { end, mut text, stop_reason, origin } = ended;
    let structured_output = turn.output.as_ref().and_then(|output| output.answer());
    if let Some(answer) = &structured_output {
        answer.get().clone_into(&mut text);
    }
    let requests = conversation.ledger.turn_requests();
    let num_turns = match end {
        TurnEnd::MaxTurns(_) => requests + 1,
        // No request was sent.
        TurnEnd::PromptBlocked { .. } | TurnEnd::HookStopped | TurnEnd::Command { .. } => requests,
        _ => requests.max(1),
    };
    // Denials of a subagent are reported with the turn that launched it.
    let denials: Vec<Denial> = if turn.scope.subagent.is_none() { turn.scope.gate.take_denials() } else { Vec::new() };
    TurnReport {
        end,
        text,
        stop_reason,
        num_turns,
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        api_ms: u64::try_from(conversation.ledger.turn_api_time().as_millis()).unwrap_or(u64::MAX),
        usage: conversation.ledger.turn_usage(),
        last_usage: conversation.ledger.last_usage(),
        total_cost_usd: conversation.ledger.total_cost_usd(),
        by_model: conversation.ledger.by_model(),
        denials,
        origin,
        queued: turn.steering.waiting_count(),
        structured_output,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_a_limit_that_can_be_lifted() {
        let env = |value: &str| Env::default().with("CLAUDE_CODE_MAX_TURNS", value);
        assert_eq!(max_turns(None, &Env::default(), None), Some(1_000));
        assert_eq!(max_turns(None, &env("7"), Some(8)), Some(7));
        assert_eq!((max_turns(None, &env("0"), None), max_turns(Some(0), &env("7"), Some(1))), (None, None));
        assert_eq!((max_turns(Some(3), &env("0"), None), max_turns(None, &env("many"), Some(5))), (Some(3), Some(5)));
        let of_agent = |max_turns| TurnOptions { max_turns, ..TurnOptions::default() }.agent_max_turns();
        assert_eq!([of_agent(Some(3)), of_agent(Some(5_000)), of_agent(None)], [Some(1_000), Some(5_000), None]);
    }
}
