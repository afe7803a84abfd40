//! Rounds of a turn: send a request, act on its reply, and repeat until the turn ends.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Instant;

use gimlet_proto::{
    ContextKind, ModelError, ModelFacts, ModelRequest, NoticeLevel, PromptTiming, StopCause, StopReason,
    SubmittedPrompt, ThinkingMode, ToolChoice, TurnEnd,
};
use gimlet_store::RequestPurpose;
use gimlet_text::SendableImage;

use super::accept_prompt;
use super::call_batch::{self, BatchEnd};
use super::reply_outcome::{self, ReplyAction, RetryLimits};
use super::turn_hooks::{self, StopHookOutcome};
use super::{Turn, append_meta_message};
use crate::agents::announce_agent_changes;
use crate::compaction::{self, CompactionCause, CompactionEnd};
use crate::conversation::{Conversation, PromptMark};
use crate::image_fitting;
use crate::plan_mode;
use crate::reply::{self, ModelReply, ReplyEnding};
use crate::schedule::CallSchedule;
use crate::spending::{BilledRequest, RequestEstimate, ReservationOutcome, SpendingReservation};

/// Number of windows that may fill at once after a compaction.
const MOST_REFILLS: u32 = 3;

/// State of a turn between its prompt and its end.
pub(super) struct TurnLoop<'a> {
    conversation: &'a mut Conversation,
    turn: &'a Turn,
    /// Start of the turn's own prompt, or of the segment that holds what is left of it.
    prompt: PromptMark,
    refills: RefillCounter,
    limits: RetryLimits,
    last_text: String,
    /// Beginning of a text that was cut at the output limit and continues in the next reply.
    begun: String,
    stop_reason: Option<StopReason>,
    /// Thinking mode of the whole turn: servers drop thinking if it changes between a call and its result.
    thinking: ThinkingMode,
}

impl<'a> TurnLoop<'a> {
    pub(super) fn new(conversation: &'a mut Conversation, turn: &'a Turn, prompt: PromptMark) -> Self {
        Self {
            conversation,
            turn,
            prompt,
            refills: RefillCounter::default(),
            limits: RetryLimits::default(),
            last_text: String::new(),
            begun: String::new(),
            stop_reason: None,
            thinking: turn.scope.model_selection.current().thinking,
        }
    }

    /// Runs the turn. Returns its end, its last text and the model's stop reason, and the start of its prompt.
    pub(super) async fn run(mut self) -> ((TurnEnd, String, Option<StopReason>), PromptMark) {
        let end = loop {
            if let Break(end) = self.run_round().await {
                break end;
            }
        };
        if let TurnEnd::Failed(error) = &end {
            turn_hooks::run_failure_hooks(self.turn, error, &self.last_text).await;
        }
        if matches!((&end, &self.stop_reason), (TurnEnd::Completed, Some(StopReason::MaxTokens))) {
            self.turn
                .publish_notice(NoticeLevel::Warning, "the answer was cut at the output limit and may be incomplete");
        }
        if let TurnEnd::Refused { explanation } = &end {
            self.last_text = reply_outcome::refusal_text(explanation.as_deref());
        }
        ((end, self.last_text, self.stop_reason), self.prompt)
    }

    /// Runs one request, its reply, and its consequences.
    async fn run_round(&mut self) -> ControlFlow<TurnEnd> {
        self.check_limits()?;
        let turn = self.turn;
        turn.scope.gate.refresh_settings(&turn.scope).await;
        self.compact_if_due().await?;
        plan_mode::announce_mode_change(self.conversation, turn);
        announce_agent_changes(self.conversation, turn);
        turn.report_record_error(&mut self.conversation.record);
        let mut calls =
            CallSchedule::new(turn.scope.clone(), turn.options.concurrency, turn.options.streaming_execution);
        calls.ask_before(self.conversation.segment.repeats.questionable());
        let window = turn.model_facts().context_window;
        let request = self.build_request();
        let reservation = self.reserve_request(&request).await?;
        let request = ModelRequest { max_tokens: reservation.max_output.or(request.max_tokens), ..request };
        let reply = self.request_reply(request, &mut calls).await;
        drop(reservation);
        let next = reply_outcome::process_reply(self.conversation, turn, &mut self.limits, reply, &calls, &self.prompt);
        let spent = self.conversation.ledger.spending().reached_limit();
        if let Some(limit) = spent {
            calls.cancel_waiting(&format!("{} before this call began", limit.describe()));
        }
        match next {
            ReplyAction::End(TurnEnd::Completed) => match spent {
                Some(limit) => Break(limit.to_turn_end()),
                None => self.handle_completion().await,
            },
            ReplyAction::End(end) => Break(end),
            ReplyAction::SendAgain => {
                if self.stop_reason == Some(StopReason::MaxTokens) {
                    self.begun = self.last_text.clone();
                }
                Continue(())
            }
            ReplyAction::MakeRoom(error) => self.recover_from_overflow(error).await,
            ReplyAction::Discard => {
                calls.discard().await;
                Continue(())
            }
            ReplyAction::RunCalls(words) => {
                let results = call_batch::run_calls(self.conversation, turn, &mut calls, window).await;
                if let Some(words) = words {
                    append_meta_message(self.conversation, words);
                }
                self.handle_results(results).await
            }
            ReplyAction::Aborted => {
                calls.cancel_waiting(call_batch::INTERRUPTED);
                let had_calls = !calls.is_empty();
                call_batch::run_calls(self.conversation, turn, &mut calls, window).await;
                reply_outcome::mark_interrupted(self.conversation, turn, had_calls);
                Break(TurnEnd::Aborted { in_tools: false })
            }
        }
    }

    /// Checks the ceilings; breaks with the end of the turn if one is reached.
    fn check_limits(&self) -> ControlFlow<TurnEnd> {
        let asked = self.conversation.ledger.turn_requests();
        if let Some(max) = self.turn.options.max_turns.filter(|max| asked >= *max) {
            return Break(TurnEnd::MaxTurns(max));
        }
        match self.conversation.ledger.spending().reached_limit() {
            Some(limit) => Break(limit.to_turn_end()),
            None => Continue(()),
        }
    }

    /// Reserves what the next request may cost; breaks with the end of the turn if the session may not spend it.
    async fn reserve_request(&mut self, request: &ModelRequest) -> ControlFlow<TurnEnd, SpendingReservation> {
        match reserve_for_request(self.conversation, self.turn, request).await {
            ReservationOutcome::Granted(held) => Continue(held),
            ReservationOutcome::Reached(limit) => Break(limit.to_turn_end()),
            ReservationOutcome::Cancelled => {
                reply_outcome::mark_interrupted(self.conversation, self.turn, false);
                Break(TurnEnd::Aborted { in_tools: false })
            }
        }
    }

    /// Compacts the conversation if the window is nearly full.
    async fn compact_if_due(&mut self) -> ControlFlow<TurnEnd> {
        if self.refills.is_blocked || !compaction::is_due(self.conversation, self.turn) {
            return Continue(());
        }
        if self.refills.note_full(self.conversation.ledger.turn_requests()) {
            return Break(refill_end(self.conversation, self.turn));
        }
        let (turn, thinking) = (self.turn, self.thinking);
        match compaction::compact(self.conversation, turn, thinking, CompactionCause::Full).await {
            CompactionEnd::Done(_) => self.begin_segment(),
            CompactionEnd::TooShort => Continue(()),
            CompactionEnd::Blocked(reason) => {
                // Not asked again in this turn: the answer would be the same before every request.
                self.refills.is_blocked = true;
                turn.publish_notice(NoticeLevel::Warning, format!("a hook skipped the compaction: {reason}"));
                Continue(())
            }
            CompactionEnd::Failed(error) => Break(reply_outcome::fail_turn(self.conversation, turn, error)),
            CompactionEnd::LimitReached(limit) => Break(limit.to_turn_end()),
            CompactionEnd::Aborted => {
                reply_outcome::mark_interrupted(self.conversation, turn, false);
                Break(TurnEnd::Aborted { in_tools: false })
            }
        }
    }

    /// Compacts the conversation after a server found it too long, so that the same prompt goes on. If that is not
    /// possible, the turn ends with the server's error.
    async fn recover_from_overflow(&mut self, error: ModelError) -> ControlFlow<TurnEnd> {
        let (turn, thinking) = (self.turn, self.thinking);
        if !turn.options.compaction.is_automatic() {
            return Break(reply_outcome::fail_turn(self.conversation, turn, error));
        }
        compaction::correct_window(self.conversation, turn, &error);
        if self.refills.note_full(self.conversation.ledger.turn_requests()) {
            return Break(refill_end(self.conversation, turn));
        }
        match compaction::compact(self.conversation, turn, thinking, CompactionCause::Overflow).await {
            CompactionEnd::Done(_) => self.begin_segment(),
            CompactionEnd::TooShort => Break(reply_outcome::fail_turn(self.conversation, turn, error)),
            CompactionEnd::Blocked(reason) => {
                let text = format!("a hook did not allow a compaction: {reason}");
                turn.publish_notice(NoticeLevel::Warning, text);
                Break(reply_outcome::fail_turn(self.conversation, turn, error))
            }
            CompactionEnd::Failed(error) => Break(reply_outcome::fail_turn(self.conversation, turn, error)),
            CompactionEnd::LimitReached(limit) => Break(limit.to_turn_end()),
            CompactionEnd::Aborted => {
                reply_outcome::mark_interrupted(self.conversation, turn, false);
                Break(TurnEnd::Aborted { in_tools: false })
            }
        }
    }

    /// Goes on in the segment that a compaction began.
    fn begin_segment(&mut self) -> ControlFlow<TurnEnd> {
        self.prompt = self.conversation.mark_prompt();
        Continue(())
    }

    /// Sends the history, reads the reply while its first calls may already run, and counts the usage.
    async fn request_reply(&mut self, request: ModelRequest, calls: &mut CallSchedule) -> ModelReply {
        let (turn, facts) = (self.turn, self.turn.model_facts());
        let asked = Instant::now();
        let reply = reply::read_reply(turn, self.conversation, request, calls).await;
        count_reply(
            self.conversation,
            turn,
            &reply.billing_facts(turn.scope.model_selection.provider(), &facts),
            &reply,
            asked,
        );
        for (model, usage) in &reply.spent {
            let facts = turn.scope.model_selection.facts(model);
            self.conversation.ledger.count_attempt(&BilledRequest::new(&facts, *usage, RequestPurpose::Declined));
            if let Some(who) = &turn.scope.subagent {
                who.meter.count_request(usage);
            }
        }
        let spending = self.conversation.ledger.spending();
        if let Some(problem) = spending.take_ledger_problem() {
            turn.publish_notice(NoticeLevel::Debug, problem);
        }
        for text in spending.take_warnings() {
            turn.publish_notice(NoticeLevel::Warning, text);
        }
        if let Some(text) = reply.text() {
            self.last_text = std::mem::take(&mut self.begun) + &text;
        }
        if let ReplyEnding::Complete(end) = &reply.ending {
            self.stop_reason.clone_from(&end.stop_reason);
        }
        reply
    }

    fn build_request(&mut self) -> ModelRequest {
        let (conversation, turn) = (&mut *self.conversation, self.turn);
        if conversation.history_mut().ensure_sendable() {
            turn.publish_notice(
                NoticeLevel::Warning,
                "calls and results did not fit together and were mended; please report this",
            );
        }
        let few_images = conversation.history_mut().with_limited_images();
        let (facts, most) = (turn.model_facts(), SendableImage::MOST_FOR_ALL);
        if few_images.is_some()
            && SendableImage::max_count_for_window(facts.context_window) <= most
            && let Some(count) = conversation.history_mut().take_omitted_image_count()
        {
            let text = format!("the oldest {count} images are left out: {} takes {most} in a request", facts.id);
            turn.publish_notice(NoticeLevel::Warning, text);
        }
        let choice = turn.scope.model_selection.current();
        ModelRequest {
            model: turn.scope.model(),
            max_tokens: self.limits.max_tokens,
            system: conversation.segment.prompt.system.clone(),
            tools: conversation.segment.prompt.tools.clone(),
            tool_choice: ToolChoice::Auto { parallel: turn.options.parallel_tools },
            cache: conversation.plan_cache(turn.scope.subagent.is_some()),
            messages: conversation.segment.with_context(conversation.history().messages()),
            few_images: few_images.map(|messages| conversation.segment.with_context(messages)),
            thinking: self.thinking,
            display: choice.display,
            effort: choice.effort,
            want_wire_events: turn.options.wire_events,
        }
    }

    /// Handles a reply without calls.
    async fn handle_completion(&mut self) -> ControlFlow<TurnEnd> {
        let end = match &self.turn.output {
            Some(output) => output.require_output(self.conversation),
            None => self.try_finish().await,
        };
        end.map_or(Continue(()), Break)
    }

    /// Continues with the next request after the results are in history, unless the turn ends here.
    async fn handle_results(&mut self, results: BatchEnd) -> ControlFlow<TurnEnd> {
        let turn = self.turn;
        let interrupted = turn.scope.cancel.is_cancelled() || results.stop;
        if interrupted || turn.steering.has_urgent() {
            // An urgent prompt joins now; the model needs no message about the interruption itself.
            if interrupted {
                reply_outcome::mark_interrupted(self.conversation, turn, true);
            }
            return Break(TurnEnd::Aborted { in_tools: true });
        }
        if let Some(end) = results.ends {
            return Break(end);
        }
        match turn.output.as_ref().and_then(|output| output.turn_end()) {
            Some(TurnEnd::Completed) => {
                if let Some(end) = self.try_finish().await {
                    return Break(end);
                }
            }
            Some(end) => return Break(end),
            None => {}
        }
        self.absorb_steering().await;
        Continue(())
    }

    /// Accepts the prompts that arrived meanwhile.
    async fn absorb_steering(&mut self) {
        let turn = self.turn;
        let mut joining = turn.steering.take_joining().into_iter();
        while let Some(mut said) = joining.next() {
            let image_notes = image_fitting::fit_prompt_images(turn, &mut said.blocks).await;
            if self.conversation.history().prompt_rejection(&said.blocks, &turn.model_facts()).is_some() {
                // It gets a turn of its own, which ends with the error.
                turn.steering
                    .put_back([SubmittedPrompt { timing: PromptTiming::Later, ..said }].into_iter().chain(joining));
                return;
            }
            self.conversation.segment.repeats.clear();
            // A prompt that hooks block is dropped; the turn continues without it.
            drop(accept_prompt::submit_prompt(self.conversation, turn, said, image_notes).await);
        }
    }

    /// Ends the turn when the model is done, unless hooks want it to continue.
    async fn try_finish(&mut self) -> Option<TurnEnd> {
        match turn_hooks::run_stop_hooks(self.conversation, self.turn, &mut self.limits, &self.last_text).await {
            StopHookOutcome::End => Some(TurnEnd::Completed),
            StopHookOutcome::Continue => {
                // If the work continues, another answer is expected.
                if let Some(output) = &self.turn.output {
                    output.begin_turn();
                }
                None
            }
            StopHookOutcome::Prevented => Some(TurnEnd::StopHookPrevented),
            StopHookOutcome::Aborted => {
                reply_outcome::mark_interrupted(self.conversation, self.turn, false);
                Some(TurnEnd::Aborted { in_tools: false })
            }
        }
    }
}

/// Counts windows that fill again right after a compaction.
#[derive(Default)]
struct RefillCounter {
    /// Number of requests of the turn at the last compaction.
    compacted_at: Option<u32>,
    /// Number of compactions in a row after which the window was full again at once.
    in_a_row: u32,
    /// True if a hook does not allow compactions in this turn.
    is_blocked: bool,
}

impl RefillCounter {
    /// Records that the window is full at this number of requests. Returns true if compacting has become pointless.
    fn note_full(&mut self, requests: u32) -> bool {
        let at_once = self.compacted_at.is_some_and(|at| requests.saturating_sub(at) <= 1);
        self.in_a_row = if at_once { self.in_a_row + 1 } else { 0 };
        self.compacted_at = Some(requests);
        self.in_a_row >= MOST_REFILLS
    }
}

/// Returns the end of a turn whose window fills again and again.
fn refill_end(conversation: &Conversation, turn: &Turn) -> TurnEnd {
    let usage = conversation.history().gauge.current_usage(turn.model_facts(), &turn.options.compaction);
    let largest = usage.categories.iter().filter(|part| part.kind == ContextKind::Used);
    let largest = largest.max_by_key(|part| part.tokens).map_or("", |part| part.name);
    let reason = format!(
        "the context window filled again right after each of {MOST_REFILLS} compactions; what takes most of its {} \
         tokens is: {largest}. Make that smaller (/context shows the parts), or choose a model with a larger window",
        usage.max_tokens
    );
    TurnEnd::Stopped { reason, because: StopCause::RapidRefill }
}

/// Compacts the conversation before a prompt that does not fit beside it, so that the prompt is the first message
/// after the summary. Returns the end of the turn if that fails.
pub(super) async fn make_room_for_prompt(
    conversation: &mut Conversation,
    turn: &Turn,
    prompt: &SubmittedPrompt,
) -> Result<(), TurnEnd> {
    if conversation.deferred.is_some() || !compaction::leaves_no_room(conversation, turn, &prompt.blocks) {
        return Ok(());
    }
    let thinking = turn.scope.model_selection.current().thinking;
    match compaction::compact(conversation, turn, thinking, CompactionCause::Full).await {
        CompactionEnd::Done(_) | CompactionEnd::TooShort => Ok(()),
        CompactionEnd::Blocked(reason) => {
            turn.publish_notice(NoticeLevel::Warning, format!("a hook skipped the compaction: {reason}"));
            Ok(())
        }
        CompactionEnd::Failed(error) => Err(reply_outcome::fail_turn(conversation, turn, error)),
        CompactionEnd::LimitReached(limit) => Err(limit.to_turn_end()),
        CompactionEnd::Aborted => Err(TurnEnd::Aborted { in_tools: false }),
    }
}

/// Reserves what a request of this conversation may cost.
pub(crate) async fn reserve_for_request(
    conversation: &Conversation,
    turn: &Turn,
    request: &ModelRequest,
) -> ReservationOutcome {
    let most = turn.scope.model_selection.provider().max_reply_tokens(request);
    let (gauge, facts) = (&conversation.history().gauge, turn.model_facts());
    let estimate = RequestEstimate::for_conversation(gauge, &facts, conversation.cache_ttl, most);
    conversation.ledger.spending().reserve(&estimate, &turn.scope.cancel).await
}

fn count_reply(conversation: &mut Conversation, turn: &Turn, facts: &ModelFacts, reply: &ModelReply, asked: Instant) {
    let billed = |usage| BilledRequest {
        request_id: reply.start.request_id.as_deref(),
        cache_break: reply.cache_break.as_ref(),
        ..BilledRequest::new(facts, usage, RequestPurpose::Reply).with_time(asked.elapsed())
    };
    match &reply.ending {
        ReplyEnding::Complete(end) => {
            let prompt_tokens = end.context.prompt_tokens();
            conversation.ledger.count_reply(&BilledRequest { prompt_tokens, ..billed(end.usage) });
            conversation.history().gauge.record_usage(&facts.id, &end.context);
            if let Some(who) = &turn.scope.subagent {
                who.meter.count_request(&end.usage);
            }
            conversation.history_mut().context_tokens = end.context.prompt_tokens() + end.context.output_tokens;
        }
        ReplyEnding::Aborted => conversation.ledger.count_reply(&billed(reply.start.usage)),
        ReplyEnding::Failed(_) => conversation.ledger.count_time(asked.elapsed()),
    }
}
