//! The end of a session: time limits for background work and hooks.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{Env, EventBody, Notice, NoticeLevel, Op};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::actor::SessionActor;
use crate::hooks::{HookEvent, HookPayload};
use crate::tasks::Task;

/// Time that background work gets after the last answer.
const TASK_GRACE: Duration = Duration::from_secs(5);

const AGENT_GRACE: Duration = Duration::from_secs(600);

/// Least and most time that hooks get when the session ends; never more than the least when gimlet must exit.
const END_HOOKS: Duration = Duration::from_millis(1_500);
const MAX_END_HOOKS: Duration = Duration::from_secs(60);

impl SessionActor {
    pub(super) async fn run_session_end_hooks(&mut self) {
        let services = self.op_handler.services().clone();
        let hooks = services.hooks();
        if !hooks.has_begun() && !self.op_handler.cleared {
            return;
        }
        let Some(longest) = hooks.longest_timeout(HookEvent::SessionEnd) else { return };
        let scope = self.build_turn(CancellationToken::new()).scope;
        let budget = end_hook_budget(services.env(), longest);
        let end = HookPayload::SessionEnd { reason: if self.op_handler.cleared { "clear" } else { "other" } };
        let hook_run = hooks.fire(&scope, &end);
        let mut exit_signal = self.exit_signal.clone();
        let exit_deadline = async {
            exit_signal.wait_for_request().await;
            tokio::time::sleep(END_HOOKS).await;
        };
        // Hooks that are not done by then are cancelled.
        tokio::select! {
            _ = tokio::time::timeout(budget, hook_run) => {}
            () = exit_deadline => {}
        }
    }

    /// Waits a short time for background work to end, and warns about work that still runs.
    pub(super) async fn finish_background_work(&mut self) {
        self.op_handler.withdraw_all_prompts();
        let (agents, commands): (Vec<_>, Vec<_>) =
            self.op_handler.services().tasks().running().into_iter().partition(|task| task.agent.is_some());
        let grace_periods = async {
            // A user who interrupted the turn wants to leave now.
            if !self.interrupted {
                wait_all_ended(
                    &agents,
                    agent_grace_period(self.op_handler.services().env(), self.background_may_start_turn),
                )
                .await;
                // A timeout is the normal end of a server left in the background.
                wait_all_ended(&commands, TASK_GRACE).await;
            }
        };
        tokio::select! {
            biased;
            () = grace_periods => {}
            () = wait_for_interrupt(&mut self.op_inbox) => {}
        }
        let running = self.op_handler.services().tasks().running();
        if !running.is_empty() {
            let names: Vec<String> = running.iter().map(|task| format!("{} ({})", task.id, task.description)).collect();
            let text = format!("stopped background tasks: {}", names.join(", "));
            self.publish(EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        }
    }
}

/// Returns the time that background agents get after the last answer. A user who closes the session instead of waiting
/// does not want them any more; in an unattended run their work is the purpose, and the environment can set the time.
fn agent_grace_period(env: &Env, background_may_start_turn: bool) -> Duration {
    match env.integer("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS") {
        _ if background_may_start_turn => TASK_GRACE,
        Some(0) => Duration::MAX,
        Some(limit) => Duration::from_millis(limit),
        None => AGENT_GRACE,
    }
}

/// Waits until these tasks have ended, or until the timeout.
async fn wait_all_ended(tasks: &[Arc<Task>], patience: Duration) {
    let ends = async {
        for task in tasks {
            task.wait_finished().await;
        }
    };
    // Either way the caller checks what still runs.
    drop(tokio::time::timeout(patience, ends).await);
}

/// Returns the time that all hooks together get at the end of a session: as set in the environment, or else the
/// longest timeout among them, within limits.
fn end_hook_budget(env: &Env, longest: Duration) -> Duration {
    let wanted = env.integer("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS");
    wanted.map_or(longest.clamp(END_HOOKS, MAX_END_HOOKS), Duration::from_millis)
}

/// Waits for an interrupt.
async fn wait_for_interrupt(inbox: &mut mpsc::UnboundedReceiver<Op>) {
    loop {
        match inbox.recv().await {
            Some(Op::Interrupt { .. }) => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}
