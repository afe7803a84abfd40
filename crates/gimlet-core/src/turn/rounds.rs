//! The rounds of a turn: ask the model, do what its reply means, and again, until there is an end.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::{Duration, Instant};

use gimlet_proto::{Level, ModelFacts, ModelRequest, Picture, Say, StopReason, Thinking, ToolChoice, TurnEnd, When};

use super::batch::{self, BatchEnd};
use super::hooked::{self, AtEnd};
use super::outcome::{self, Limits, Next};
use super::{Turn, say};
use crate::conversation::{Conversation, Mark};
use crate::plans;
use crate::reply::{self, Ending, Reply};
use crate::schedule::Calls;

/// A turn between its prompt and its end.
pub(super) struct Rounds<'a> {
    conversation: &'a mut Conversation,
    turn: &'a Turn,
    /// Where the turn's own prompt begins.
    prompt: &'a Mark,
    limits: Limits,
    last_text: String,
    /// The beginning of a text that was cut at the output limit and goes on in the next reply.
    begun: String,
    stop_reason: Option<StopReason>,
    /// How the model thinks, for the whole turn: servers leave thinking out where it changes between a call and its result.
    thinking: Thinking,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(conversation: &'a mut Conversation, turn: &'a Turn, prompt: &'a Mark) -> Self {
        Self {
            conversation,
            turn,
            prompt,
            limits: Limits::default(),
            last_text: String::new(),
            begun: String::new(),
            stop_reason: None,
            thinking: turn.dials.now().thinking,
        }
    }

    /// How the turn ended, its last words, and why the model stopped.
    pub(super) async fn run(mut self) -> (TurnEnd, String, Option<StopReason>) {
        let end = loop {
            if let Break(end) = self.round().await {
                break end;
            }
        };
        if let TurnEnd::Failed(error) = &end {
            hooked::failed(self.turn, error, &self.last_text).await;
        }
        if matches!((&end, &self.stop_reason), (TurnEnd::Completed, Some(StopReason::MaxTokens))) {
            self.turn.notice(Level::Warning, "the answer was cut at the output limit and may be incomplete");
        }
        if let TurnEnd::Refused { explanation } = &end {
            self.last_text = outcome::refusal(explanation.as_deref());
        }
        (end, self.last_text, self.stop_reason)
    }

    /// One request, its reply, and what follows from it.
    async fn round(&mut self) -> ControlFlow<TurnEnd> {
        self.within_limits()?;
        let turn = self.turn;
        turn.scope.gate.refresh(&turn.scope).await;
        plans::tell(self.conversation, turn);
        turn.tell_trouble(&mut self.conversation.record);
        let mut calls = Calls::new(turn.scope.clone(), turn.options.concurrency, turn.options.streaming_execution);
        calls.ask_before(self.conversation.repeats.questionable());
        let window = turn.facts().context_window;
        let reply = self.ask(&mut calls).await;
        let next = outcome::settle(self.conversation, turn, &mut self.limits, reply, &calls, self.prompt);
        let spent = self.overspent();
        if spent.is_some() {
            calls.cancel_waiting("the session reached its budget before this call began");
        }
        match next {
            Next::End(TurnEnd::Completed) => match spent {
                Some(max) => Break(TurnEnd::Budget(max)),
                None => self.completed().await,
            },
            Next::End(end) => Break(end),
            Next::Again => {
                if self.stop_reason == Some(StopReason::MaxTokens) {
                    self.begun = self.last_text.clone();
                }
                Continue(())
            }
            Next::Discard => {
                calls.discard().await;
                Continue(())
            }
            Next::RunCalls(words) => {
                let results = batch::run_calls(self.conversation, turn, &mut calls, window).await;
                if let Some(words) = words {
                    say(self.conversation, words);
                }
                self.after_calls(results).await
            }
            Next::Aborted => {
                calls.cancel_waiting(batch::INTERRUPTED);
                let had_calls = !calls.is_empty();
                batch::run_calls(self.conversation, turn, &mut calls, window).await;
                outcome::mark_interrupted(self.conversation, turn, had_calls);
                Break(TurnEnd::Aborted { in_tools: false })
            }
        }
    }

    /// Whether there may be another request.
    fn within_limits(&self) -> ControlFlow<TurnEnd> {
        let asked = self.conversation.ledger.turn_requests();
        if let Some(max) = self.turn.options.max_turns.filter(|max| asked >= *max) {
            return Break(TurnEnd::MaxTurns(max));
        }
        match self.overspent() {
            Some(max) => Break(TurnEnd::Budget(max)),
            None => Continue(()),
        }
    }

    /// Sends history, reads the reply while its first calls may already run, and counts what that took.
    async fn ask(&mut self, calls: &mut Calls) -> Reply {
        let (turn, facts) = (self.turn, self.turn.facts());
        let request = self.request();
        let asked = Instant::now();
        let reply = reply::read(turn, self.conversation, request, calls).await;
        count(self.conversation, turn, &reply.facts(&*turn.model, &facts), &reply, asked);
        for (model, usage) in &reply.spent {
            self.conversation.ledger.count_attempt(&turn.model.facts(model), usage, Duration::ZERO);
            if let Some(who) = &turn.scope.subagent {
                who.meter.count(usage);
            }
        }
        for side in turn.scope.gate.take_spent() {
            self.conversation.ledger.count_aside(&side.facts, &side.usage, side.took);
        }
        tell_of_uncounted(self.conversation, turn);
        if let Some(text) = reply.text() {
            self.last_text = std::mem::take(&mut self.begun) + &text;
        }
        if let Ending::Complete(end) = &reply.ending {
            self.stop_reason.clone_from(&end.stop_reason);
        }
        reply
    }

    fn request(&mut self) -> ModelRequest {
        let (conversation, turn) = (&mut *self.conversation, self.turn);
        if conversation.ensure_sendable() {
            turn.notice(Level::Warning, "calls and results did not fit together and were mended; please report this");
        }
        let few_images = conversation.with_few_images();
        let (facts, most) = (turn.facts(), Picture::MOST_FOR_ALL);
        if few_images.is_some()
            && Picture::most_in(facts.context_window) <= most
            && let Some(count) = conversation.news_of_left_out()
        {
            let text = format!("the oldest {count} images are left out: {} takes {most} in a request", facts.id);
            turn.notice(Level::Warning, text);
        }
        let choice = turn.dials.now();
        ModelRequest {
            model: turn.scope.model(),
            max_tokens: self.limits.max_tokens,
            system: conversation.system.clone(),
            tools: conversation.tools.clone(),
            tool_choice: ToolChoice::Auto { parallel: turn.options.parallel_tools },
            cache: conversation.plan_cache(turn.scope.subagent.is_some()),
            messages: conversation.messages(),
            few_images,
            thinking: self.thinking,
            display: choice.display,
            effort: choice.effort,
            want_wire_events: turn.options.wire_events,
        }
    }

    /// The model has nothing more to call.
    async fn completed(&mut self) -> ControlFlow<TurnEnd> {
        let end = match &self.turn.output {
            Some(output) => output.insist(self.conversation),
            None => self.finish().await,
        };
        end.map_or(Continue(()), Break)
    }

    /// The results are in history: on to the next request, unless somebody or something ends the turn here.
    async fn after_calls(&mut self, results: BatchEnd) -> ControlFlow<TurnEnd> {
        let turn = self.turn;
        let interrupted = turn.scope.cancel.is_cancelled() || results.stop;
        if interrupted || turn.steering.is_urgent() {
            // Whoever has something urgent to say says it now; the model needs no word about the interruption itself.
            if interrupted {
                outcome::mark_interrupted(self.conversation, turn, true);
            }
            return Break(TurnEnd::Aborted { in_tools: true });
        }
        if let Some(end) = results.ends {
            return Break(end);
        }
        match turn.output.as_ref().and_then(|output| output.end()) {
            Some(TurnEnd::Completed) => {
                if let Some(end) = self.finish().await {
                    return Break(end);
                }
            }
            Some(end) => return Break(end),
            None => {}
        }
        self.join().await;
        Continue(())
    }

    /// Takes in what was said meanwhile.
    async fn join(&mut self) {
        let turn = self.turn;
        let mut joining = turn.steering.take_joining().into_iter();
        while let Some(said) = joining.next() {
            if self.conversation.objection(&said.blocks, &turn.facts()).is_some() {
                // It gets a turn of its own, whose end says what is wrong with it.
                turn.steering.put_back([Say { when: When::Later, ..said }].into_iter().chain(joining));
                return;
            }
            self.conversation.repeats.clear();
            // One that hooks do not let in is gone; the turn goes on without it.
            drop(hooked::submit(self.conversation, turn, said).await);
        }
    }

    /// The model is done: the turn ends, unless hooks want it to go on.
    async fn finish(&mut self) -> Option<TurnEnd> {
        match hooked::at_end(self.conversation, self.turn, &mut self.limits, &self.last_text).await {
            AtEnd::End => Some(TurnEnd::Completed),
            AtEnd::GoOn => {
                // Whoever wants the work to go on wants another answer.
                if let Some(output) = &self.turn.output {
                    output.begin_turn();
                }
                None
            }
            AtEnd::Prevented => Some(TurnEnd::StopHookPrevented),
            AtEnd::Aborted => {
                outcome::mark_interrupted(self.conversation, self.turn, false);
                Some(TurnEnd::Aborted { in_tools: false })
            }
        }
    }

    /// The ceiling, once the session has reached it.
    fn overspent(&self) -> Option<f64> {
        self.turn.options.max_budget_usd.filter(|max| self.conversation.ledger.known_cost_usd() >= *max)
    }
}

fn count(conversation: &mut Conversation, turn: &Turn, facts: &ModelFacts, reply: &Reply, asked: Instant) {
    match &reply.ending {
        Ending::Complete(end) => {
            conversation.ledger.count_with_prompt(facts, &end.usage, end.context.prompt_tokens(), asked.elapsed());
            conversation.gauge.count(&facts.id, &end.context);
            if let Some(who) = &turn.scope.subagent {
                who.meter.count(&end.usage);
            }
            conversation.context_tokens = end.context.prompt_tokens() + end.context.output_tokens;
        }
        Ending::Aborted => conversation.ledger.count(facts, &reply.start.usage, asked.elapsed()),
        Ending::Failed(_) => conversation.ledger.count_time(asked.elapsed()),
    }
}

/// A ceiling that cannot count everything is no ceiling; whoever set it should know.
fn tell_of_uncounted(conversation: &Conversation, turn: &Turn) {
    if turn.options.max_budget_usd.is_some()
        && let Some(models) = conversation.ledger.take_uncounted()
    {
        turn.notice(Level::Warning, format!("no price is known for {models}: the budget cannot count what it costs"));
    }
}
