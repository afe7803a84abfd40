//! Compactions that the user or a front end asks for, between turns.

use std::time::Instant;

use gimlet_proto::{CompactedSegment, SubmittedPrompt, TurnEnd};
use tokio_util::sync::CancellationToken;

use super::actor::SessionActor;
use super::op_handler::CompactionRequest;
use crate::compaction::{self, CompactionCause, CompactionEnd};

/// Answer of a compaction of a conversation without a reply.
const TOO_SHORT: &str = "Not enough messages to compact.";

/// Outcome of a requested compaction that did not succeed.
enum CompactionRefusal {
    TooShort,
    Interrupted,
    /// One line for the user.
    Problem(String),
}

impl SessionActor {
    /// Runs the compaction of a `/compact` command, which is a turn without a prompt.
    pub(super) async fn run_compact_command(&mut self, said: &SubmittedPrompt, focus: Option<String>, began: Instant) {
        let (end, text) = match self.compact_now(focus).await {
            Ok(_) => (TurnEnd::Command { error: None }, String::new()),
            Err(CompactionRefusal::TooShort) => (TurnEnd::Command { error: None }, TOO_SHORT.to_owned()),
            Err(CompactionRefusal::Interrupted) => (TurnEnd::Aborted { in_tools: false }, String::new()),
            Err(CompactionRefusal::Problem(problem)) => (TurnEnd::Command { error: Some(problem) }, String::new()),
        };
        let mut report = self.command_report(said, end, text, began);
        let ledger = &self.conversation.ledger;
        report.usage = ledger.turn_usage();
        report.api_ms = u64::try_from(ledger.turn_api_time().as_millis()).unwrap_or(u64::MAX);
        self.finish_turn(report);
    }

    /// Runs a compaction that a front end requested.
    pub(super) async fn run_requested_compaction(&mut self, request: CompactionRequest) {
        self.publish_snapshot(true);
        let outcome = self.compact_now(request.focus).await.map_err(|refusal| match refusal {
            CompactionRefusal::TooShort => TOO_SHORT.to_owned(),
            CompactionRefusal::Interrupted => "interrupted".to_owned(),
            CompactionRefusal::Problem(problem) => problem,
        });
        self.publish_snapshot(false);
        request.reply.send(outcome);
    }

    /// Compacts the conversation, handling operations meanwhile.
    async fn compact_now(&mut self, focus: Option<String>) -> Result<CompactedSegment, CompactionRefusal> {
        let cancel = CancellationToken::new();
        let turn = self.build_turn(cancel.clone());
        if !turn.options.compaction.enabled {
            let problem = "compaction is switched off (DISABLE_COMPACT)".to_owned();
            return Err(CompactionRefusal::Problem(problem));
        }
        if self.conversation.deferred.is_some() {
            let problem = "a call waits for its answer; answer it first".to_owned();
            return Err(CompactionRefusal::Problem(problem));
        }
        if let Some(limit) = self.conversation.ledger.spending().reached_limit() {
            return Err(CompactionRefusal::Problem(limit.describe()));
        }
        let thinking = turn.scope.model_selection.current().thinking;
        let Self { conversation, op_inbox, ask_inbox, op_handler, closing, .. } = self;
        conversation.ledger.begin_turn();
        let ended = {
            let cause = CompactionCause::Requested { focus };
            let mut running = Box::pin(compaction::compact(conversation, &turn, thinking, cause));
            loop {
                tokio::select! {
                    ended = &mut running => break ended,
                    Some(ask) = ask_inbox.recv() => op_handler.asks.open(ask, &op_handler.scope.services),
                    _ = op_handler.asks.wait_abandoned() => op_handler.asks.close_abandoned(&op_handler.scope.services),
                    op = op_inbox.recv() => *closing |= op_handler.handle_op_during_turn(op, &cancel),
                }
            }
        };
        self.interrupted = cancel.is_cancelled();
        let conversation = &mut self.conversation;
        conversation.record.end_turn(&conversation.ledger.by_model(), turn.scope.gate.mode());
        conversation.record.wait_durable().await;
        match ended {
            CompactionEnd::Done(segment) => Ok(segment),
            CompactionEnd::TooShort => Err(CompactionRefusal::TooShort),
            CompactionEnd::Aborted => Err(CompactionRefusal::Interrupted),
            CompactionEnd::Blocked(reason) => Err(CompactionRefusal::Problem(format!("a hook blocked it: {reason}"))),
            CompactionEnd::Failed(error) => Err(CompactionRefusal::Problem(error.to_string())),
            CompactionEnd::LimitReached(limit) => Err(CompactionRefusal::Problem(limit.describe())),
        }
    }
}
