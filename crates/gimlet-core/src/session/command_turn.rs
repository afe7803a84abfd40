//! A turn that a command answers instead of the model. Nothing of it becomes part of the conversation.

use std::sync::Arc;
use std::time::Instant;

use gimlet_proto::{
    AcceptedPrompt, CommandReply, EventBody, PromptOutcome, SubmittedPrompt, TokenUsage, TurnEnd, TurnReport,
};
use tokio_util::sync::CancellationToken;

use super::actor::SessionActor;
use crate::commands::{CommandCall, CommandOutput};
use crate::panics::catch_panic_async;

impl SessionActor {
    /// Runs a command that sends no request, handling operations meanwhile: a command asks the session for what it
    /// needs.
    pub(super) async fn run_command(&mut self, said: SubmittedPrompt, command: CommandCall) {
        let (began, cancel) = (Instant::now(), CancellationToken::new());
        self.publish_snapshot(true);
        self.publish(EventBody::TurnStarting(Arc::new(self.opened_event())));
        self.publish_typed_command(&said);
        let Self { op_handler, op_inbox, ask_inbox, closing, .. } = self;
        let outcome = {
            let mut running = Box::pin(catch_panic_async(command.run()));
            loop {
                tokio::select! {
                    outcome = &mut running => break Some(outcome),
                    () = cancel.cancelled() => break None,
                    Some(ask) = ask_inbox.recv() => op_handler.asks.open(ask, &op_handler.scope.services),
                    _ = op_handler.asks.wait_abandoned() => op_handler.asks.close_abandoned(&op_handler.scope.services),
                    op = op_inbox.recv() => *closing |= op_handler.handle_op_during_turn(op, &cancel),
                }
            }
        };
        self.interrupted = cancel.is_cancelled();
        let (end, text) = match outcome {
            Some(Ok(Ok(CommandOutput::Compaction(focus)))) => {
                return self.run_compact_command(&said, focus, began).await;
            }
            Some(Ok(Ok(CommandOutput::Text(text) | CommandOutput::Prompt(text)))) => {
                (TurnEnd::Command { error: None }, text)
            }
            Some(Ok(Err(problem))) => (TurnEnd::Command { error: Some(problem) }, String::new()),
            None => (TurnEnd::Aborted { in_tools: false }, String::new()),
            Some(Err(panicked)) => {
                panicked.log(&self.op_handler.scope, &format!("/{}", command.name()));
                let problem = format!("/{} failed inside gimlet. Please report this", command.name());
                (TurnEnd::Command { error: Some(problem) }, String::new())
            }
        };
        if matches!(end, TurnEnd::Command { error: None }) {
            let reply = CommandReply { name: command.name().to_owned(), text: text.clone() };
            self.publish(EventBody::CommandReply(reply));
        }
        let report = self.command_report(&said, end, text, began);
        self.finish_turn(report);
    }

    /// Publishes the prompt as accepted, although the model does not get it.
    fn publish_typed_command(&mut self, said: &SubmittedPrompt) {
        self.op_handler.steering.mark_handled(said);
        if let Some(prompt) = said.uuid.clone() {
            self.publish(EventBody::PromptOutcome { prompt, outcome: PromptOutcome::Accepted });
        }
        let uuid = self.conversation.record.transcript().unused_entry_id(said.uuid.clone());
        self.publish(EventBody::Prompt(AcceptedPrompt {
            uuid,
            blocks: said.blocks.clone(),
            plain: said.plain,
            synthetic: false,
            origin: said.origin.clone(),
        }));
    }

    pub(super) fn command_report(
        &self,
        said: &SubmittedPrompt,
        end: TurnEnd,
        text: String,
        began: Instant,
    ) -> TurnReport {
        let ledger = &self.conversation.ledger;
        TurnReport {
            end,
            text,
            stop_reason: None,
            num_turns: 0,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            api_ms: 0,
            usage: TokenUsage::default(),
            last_usage: None,
            total_cost_usd: ledger.total_cost_usd(),
            by_model: ledger.by_model(),
            denials: Vec::new(),
            origin: said.origin.clone(),
            queued: self.op_handler.steering.waiting_count(),
            structured_output: None,
        }
    }
}
