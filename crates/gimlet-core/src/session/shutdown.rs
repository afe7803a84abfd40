//! The end of a session: how long background work and hooks may still go on.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{Env, EventBody, Notice, NoticeLevel, Op};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::actor::SessionActor;
use crate::hooks::{HookEvent, HookPayload};
use crate::tasks::Task;

/// How long background work may go on after the last answer.
const TASK_GRACE: Duration = Duration::from_secs(5);

const AGENT_GRACE: Duration = Duration::from_secs(600);

/// How long hooks may take when the session ends, at least and at most; where gimlet has to go, never more than the least.
const END_HOOKS: Duration = Duration::from_millis(1_500);
const MAX_END_HOOKS: Duration = Duration::from_secs(60);

impl SessionActor {
    pub(super) async fn run_session_end_hooks(&mut self) {
        let services = self.desk.services.clone();
        let hooks = services.hooks();
        if !hooks.has_begun() && !self.desk.cleared {
            return;
        }
        let Some(longest) = hooks.longest_timeout(HookEvent::SessionEnd) else { return };
        let scope = self.build_turn(CancellationToken::new()).scope;
        let budget = end_hook_budget(&services.env, longest);
        let end = HookPayload::SessionEnd { reason: if self.desk.cleared { "clear" } else { "other" } };
        let told = hooks.fire(&scope, &end);
        let mut leaving = self.leaving.clone();
        let hurry = async {
            leaving.wait_for_request().await;
            tokio::time::sleep(END_HOOKS).await;
        };
        // Hooks that are not done by then are withdrawn.
        tokio::select! {
            _ = tokio::time::timeout(budget, told) => {}
            () = hurry => {}
        }
    }

    /// Background work gets a short grace.
    pub(super) async fn finish_background_work(&mut self) {
        self.desk.withdraw_all_prompts();
        let (agents, commands): (Vec<_>, Vec<_>) =
            self.desk.services.tasks.running().into_iter().partition(|task| task.agent.is_some());
        let graces = async {
            // Whoever interrupted the turn wants to go now.
            if !self.interrupted {
                wait_all_ended(&agents, agent_grace_period(&self.desk.services.env, self.wakes)).await;
                // Running out of grace is the normal end of a server left in the background.
                wait_all_ended(&commands, TASK_GRACE).await;
            }
        };
        tokio::select! {
            biased;
            () = graces => {}
            () = wait_for_interrupt(&mut self.inbox) => {}
        }
        let running = self.desk.services.tasks.running();
        if !running.is_empty() {
            let names: Vec<String> = running.iter().map(|task| format!("{} ({})", task.id, task.description)).collect();
            let text = format!("stopped what still ran in the background: {}", names.join(", "));
            self.publish(EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        }
    }
}

/// How long agents in the background may go on after the last answer. Whoever could have waited for them and closed the
/// session does not want them any more; with nobody there, their work is what the run was for.
fn agent_grace_period(env: &Env, wakes: bool) -> Duration {
    match env.integer("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS") {
        _ if wakes => TASK_GRACE,
        Some(0) => Duration::MAX,
        Some(limit) => Duration::from_millis(limit),
        None => AGENT_GRACE,
    }
}

/// Waits until these have ended, or for so long.
async fn wait_all_ended(tasks: &[Arc<Task>], patience: Duration) {
    let ends = async {
        for task in tasks {
            task.wait_finished().await;
        }
    };
    // Either way the caller looks at what still runs.
    drop(tokio::time::timeout(patience, ends).await);
}

/// How long hooks may look at the end of a session altogether: as long as the slowest of them asked for, within limits.
fn end_hook_budget(env: &Env, longest: Duration) -> Duration {
    let wanted = env.integer("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS");
    wanted.map_or(longest.clamp(END_HOOKS, MAX_END_HOOKS), Duration::from_millis)
}

/// Waits for someone who does not want to wait any longer.
async fn wait_for_interrupt(inbox: &mut mpsc::UnboundedReceiver<Op>) {
    loop {
        match inbox.recv().await {
            Some(Op::Interrupt { .. }) => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}
