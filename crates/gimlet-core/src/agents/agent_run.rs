//! The run of a subagent, from its first prompt to its report. However it ends, its end is reported exactly once.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use gimlet_proto::{AgentPath, EventBody, Notice, NoticeLevel, SubmittedPrompt, TaskState, TokenUsage, TurnEnd};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::launch::AgentReport;
use super::report::{neutralize_report, truncate_report};
use crate::call::CallScope;
use crate::conversation::Conversation;
use crate::hooks::HookOwner;
use crate::services::SessionServices;
use crate::spending::ReachedLimit;
use crate::steering::SteeringQueue;
use crate::tasks::Task;
use crate::tool::{ErrorClass, ToolError};
use crate::turn::{self, Turn};

/// Entry of a subagent among the session's tasks. Dropping it ends the task, no matter how the agent ended.
pub(super) struct AgentTaskGuard {
    task: Arc<Task>,
    services: Weak<SessionServices>,
    agent: AgentPath,
    ended: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

impl AgentTaskGuard {
    pub(super) fn begin(
        task: Arc<Task>,
        services: Weak<SessionServices>,
        agent: AgentPath,
        steering: &SteeringQueue,
        ended: CancellationToken,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        if let Some(services) = services.upgrade() {
            services.mailboxes().open(&agent, steering);
            services.publish_task_change(&task, None);
        }
        Self { task, services, agent, ended, _slot: slot }
    }

    pub(super) fn task(&self) -> &Arc<Task> {
        &self.task
    }

    /// Records the end of the agent. One that was stopped from outside stays stopped. Returns true if the end was
    /// recorded.
    fn record_end(&self, state: TaskState, summary: String) -> bool {
        let by_itself = self.task.record_end(state, None);
        self.task.set_summary(if by_itself { summary } else { format!("{} was stopped", self.task.description) });
        by_itself
    }
}

impl Drop for AgentTaskGuard {
    fn drop(&mut self) {
        let lost = self.task.record_end(TaskState::Failed, None);
        if lost {
            self.task.set_summary(format!("{} ended before it could report", self.task.description));
        }
        if let Some(services) = self.services.upgrade() {
            services.hooks().remove(&HookOwner::Agent(self.task.id.clone()));
            let unread = services.mailboxes().close(&self.agent);
            let notice =
                (lost && self.task.is_backgrounded()).then(|| format_notice(&self.task, "was lost inside gimlet", ""));
            services.publish_task_change(&self.task, notice);
            // Messages that the agent did not read are still delivered.
            for said in unread {
                services.send_to_agent(&AgentPath::default(), said);
            }
        }
        self.ended.cancel();
    }
}

/// A subagent with its prompt.
pub(super) struct AgentRun {
    pub(super) conversation: Conversation,
    pub(super) turn: Turn,
    pub(super) said: SubmittedPrompt,
}

/// Outcome of a run.
struct AgentRunOutcome {
    report: AgentReport,
    end: TurnEnd,
    /// Time without activity, if the agent was abandoned for that.
    stalled: Option<Duration>,
    /// True if the agent itself, or the caller that waited for it, was stopped.
    stopped: bool,
}

/// A run that is over.
pub(super) struct FinishedRun {
    done: AgentRunOutcome,
    running: AgentTaskGuard,
    /// True if no other end of the agent was recorded before.
    by_itself: bool,
}

impl FinishedRun {
    /// Returns the report for a caller that waited.
    pub(super) fn into_result(self) -> Result<AgentReport, ToolError> {
        self.done.into_result()
    }

    /// Sends the report to the agent's sender as a notice, for an agent that ran in the background.
    pub(super) fn notify_sender(self) {
        let FinishedRun { done, running, by_itself } = self;
        if !by_itself {
            return;
        }
        let Some(services) = running.services.upgrade() else { return };
        let how = match done.failure_reason() {
            None => "has finished".to_owned(),
            Some(why) => format!("ended early: {why}"),
        };
        let notice = format_notice(&running.task, &how, &done.report.text);
        // The end of the task is reported first, when `running` is dropped.
        let owner = running.task.owner.clone();
        drop(running);
        services.notify_task_owner(&owner, notice);
    }
}

impl AgentRun {
    /// Returns the token that stops the agent.
    pub(super) fn cancel_token(&self) -> &CancellationToken {
        &self.turn.scope.cancel
    }

    /// Runs the agent. It may be moved to the background meanwhile.
    pub(super) async fn run(mut self, running: AgentTaskGuard) -> FinishedRun {
        let done = self.run_to_end(&running).await;
        if !running.task.is_backgrounded() {
            stop_background_commands(&self.turn.scope.clone()).await;
        }
        let by_itself = running.record_end(done.task_state(), done.summary(&running.task));
        FinishedRun { done, running, by_itself }
    }

    async fn run_to_end(&mut self, running: &AgentTaskGuard) -> AgentRunOutcome {
        let (scope, begun) = (self.turn.scope.clone(), tokio::time::Instant::now());
        let mut stalled = None;
        let (end, text, usage) = {
            let mut work = Box::pin(run_conversation(&mut self.conversation, &mut self.turn, self.said.clone()));
            tokio::select! {
                biased;
                end = &mut work => end,
                limit = wait_for_agent_stall(&scope, &running.task) => {
                    stalled = Some(limit);
                    scope.cancel.cancel();
                    work.await
                }
            }
        };
        self.conversation.record.close().await;
        if let Some(text) = self.conversation.record.take_warning() {
            scope.services.publish(&scope.agent, EventBody::Notice(Notice { level: NoticeLevel::Error, text }));
        }
        let host = &scope.agent_runtime;
        let text = neutralize_report(text.trim());
        let text = save_report(&scope, &running.task.output_file, text).await;
        let progress = scope.subagent.as_ref().map(|who| who.meter.progress(None, String::new())).unwrap_or_default();
        running.task.set_progress(progress.clone());
        let report = AgentReport {
            id: running.task.id.clone(),
            kind: scope.subagent.as_ref().map(|who| who.kind.clone()).unwrap_or_default(),
            model: scope.model_facts().id,
            text,
            incomplete: None,
            resumable: host.may_resume(scope.subagent.as_deref()),
            tool_uses: progress.tool_uses,
            duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            total_tokens: usage.prompt_tokens() + usage.output_tokens,
            usage,
        };
        AgentRunOutcome { report, end, stalled, stopped: scope.cancel.is_cancelled() }
    }
}

/// Stops the commands that an agent left in the background: its caller has the answer, and nothing would read their
/// output.
async fn stop_background_commands(scope: &CallScope) {
    let running = scope.services.tasks().running();
    let left = running.iter().filter(|task| task.owner == scope.agent && task.command.is_some());
    // All at once: each may take time to stop, and the user may have asked for everything to stop.
    join_all(left.map(|task| task.stop())).await;
}

/// Runs the task, and answers all messages that arrive before it is done. The report contains the answer to each: a
/// late message of thanks must not replace the result of the work.
async fn run_conversation(
    conversation: &mut Conversation,
    turn: &mut Turn,
    first: SubmittedPrompt,
) -> (TurnEnd, String, TokenUsage) {
    // One limit for all of it: messages to an agent do not add turns to those it was launched with.
    let most = turn.options.max_turns;
    let mut usage = TokenUsage::default();
    let mut texts: Vec<String> = Vec::new();
    let mut said = first;
    loop {
        let report = turn::run_turn(conversation, turn, said).await;
        usage.add(&report.usage);
        if !report.text.trim().is_empty() {
            texts.push(report.text);
        }
        let end = match (report.end, most) {
            (TurnEnd::MaxTurns(_), Some(most)) => TurnEnd::MaxTurns(most),
            (end, _) => end,
        };
        turn.options.max_turns = turn.options.max_turns.map(|left| left.saturating_sub(report.num_turns));
        // Without a turn left, a message would only turn completed work into a failure; it is passed on to the main
        // conversation.
        let may_go_on = matches!(end, TurnEnd::Completed) && turn.options.max_turns != Some(0);
        let next = may_go_on.then(|| turn.scope.services.mailboxes().next_or_close(&turn.scope.agent)).flatten();
        match next {
            Some(next) => said = next,
            None => return (end, texts.join("\n\n"), usage),
        }
    }
}

/// Waits until an agent in the background has stalled; a foreground agent is left to the user who waits for it.
async fn wait_for_agent_stall(scope: &CallScope, task: &Task) -> Duration {
    let limit = scope.agent_runtime.limits.stall;
    task.wait_backgrounded().await;
    // Time in the foreground does not count as a stall.
    scope.services.activity().record_activity();
    scope.services.activity().wait_for_stall(limit).await;
    limit
}

/// Writes a report to its file and returns the part that the model receives.
async fn save_report(scope: &CallScope, file: &std::path::Path, text: String) -> String {
    let (files, path): (_, PathBuf) = (scope.agent_runtime.result_files.clone(), file.to_owned());
    let whole = text.clone();
    let limit = scope.agent_runtime.limits.output;
    let written = tokio::task::spawn_blocking(move || files.write_report(&path, &whole)).await;
    if let Ok(Err(error)) = written {
        let text = format!("the report of an agent could not be saved: {error}");
        scope.services.publish(&scope.agent, EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
    }
    truncate_report(text, limit, file)
}

impl AgentRunOutcome {
    fn task_state(&self) -> TaskState {
        match &self.end {
            TurnEnd::Completed | TurnEnd::StopHookPrevented => TaskState::Completed,
            TurnEnd::Aborted { .. } if self.stalled.is_none() => TaskState::Killed,
            _ => TaskState::Failed,
        }
    }

    /// Returns the reason why the run is incomplete, if it is.
    fn failure_reason(&self) -> Option<String> {
        match (&self.end, self.stalled) {
            (_, Some(limit)) => Some(match limit.as_secs() {
                seconds if seconds < 120 => format!("nothing happened for {seconds} seconds"),
                seconds => format!("nothing happened for {} minutes", seconds / 60),
            }),
            (TurnEnd::Completed | TurnEnd::StopHookPrevented, None) => None,
            (TurnEnd::MaxTurns(max), None) => Some(format!("it reached its limit of {max} turns")),
            (TurnEnd::Budget(max), None) => Some(ReachedLimit::Budget(*max).describe()),
            (TurnEnd::Failed(error), None) => Some(format!("the model could not be reached any more ({error})")),
            (TurnEnd::Refused { .. }, None) => Some("the model refused to go on".to_owned()),
            (TurnEnd::Aborted { .. }, None) => Some("it was stopped".to_owned()),
            (TurnEnd::PromptUnusable { reason, .. } | TurnEnd::Stopped { reason, .. }, None) => Some(reason.clone()),
            (TurnEnd::HookStopped | TurnEnd::PromptBlocked { .. }, None) => Some("a hook stopped it".to_owned()),
            (TurnEnd::DeferredUnavailable { tool }, None) => Some(format!("its tool {tool} is gone")),
            (TurnEnd::Deferred { tool, .. }, None) => Some(format!("a hook left its call of {tool} for later")),
            (TurnEnd::Command { error }, None) => error.clone(),
            (TurnEnd::StructuredOutputRetries(_), None) => Some("its answer never had the form asked for".to_owned()),
        }
    }

    fn summary(&self, task: &Task) -> String {
        match self.failure_reason() {
            None => format!("{} finished", task.description),
            Some(why) => format!("{} ended early: {why}", task.description),
        }
    }

    fn into_result(self) -> Result<AgentReport, ToolError> {
        let Some(why) = self.failure_reason() else { return Ok(self.report) };
        let AgentRunOutcome { mut report, end, stopped, .. } = self;
        let said_something = !report.text.trim().is_empty();
        match end {
            TurnEnd::Aborted { .. } => {
                let last = if said_something { format!(" Its last words:\n{}", report.text) } else { String::new() };
                let how = if stopped { "was stopped" } else { "was refused a call by the user and stopped" };
                let text = format!("The agent {how} before it had finished.{last}");
                let mut error = ToolError::new(ErrorClass::Interrupted, text);
                // A user who stops an agent by an answer wants to reply before anything continues.
                error.stop_turn = !stopped;
                Err(error)
            }
            _ if said_something => {
                report.incomplete = Some(why);
                Ok(report)
            }
            _ => Err(ToolError::failed(format!("The agent came to nothing: {why}."))),
        }
    }
}

fn format_notice(task: &Task, how: &str, report: &str) -> String {
    let Task { id, description, .. } = task;
    let report = if report.trim().is_empty() {
        "It left no report.".to_owned()
    } else {
        format!("<agent-report id=\"{id}\">\n{report}\n</agent-report>")
    };
    format!("[Automatic notice, no human wrote this] Background agent {id} ({description}) {how}.\n{report}")
}

impl CallScope {
    /// Publishes that a subagent begins a call.
    pub(crate) fn publish_agent_progress(&self, tool: &str, summary: &str) {
        let Some(who) = &self.subagent else { return };
        who.meter.count_tool_call();
        if let Some(task) = self.services.tasks().find(&who.id) {
            let description = if summary.is_empty() { tool.to_owned() } else { format!("{tool} {summary}") };
            task.set_progress(who.meter.progress(Some(tool.to_owned()), description));
            self.services.publish_task_change(&task, None);
        }
    }
}
