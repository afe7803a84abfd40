//! One run of an event's hooks: all run in parallel, each with its timeout, and every failure is handled by the policy
//! of its entry. Dropping a run cancels every hook that has not answered.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gimlet_proto::{
    AgentPath, Block, EventBody, HookOutcome, HookPhase, HookView, Notice, NoticeLevel, PromptOrigin, SubmittedPrompt,
    ToolUseId,
};
use gimlet_store::{ResultFiles, inline_fallback, persisted_preview};
use gimlet_text::enclose_in_tag;

use super::hook_event::may_stop;
use super::hook_output::HookOutput;
use super::{
    CombinedHookOutput, HandlerAnswer, HandlerCall, HandlerError, HandlerReport, HookEntry, HookFailurePolicy,
};
use crate::services::SessionServices;

/// Limit on a hook's text for the model or the user; longer texts go to a file.
const MAX_TEXT: usize = 10_000;
/// Limit on the part that is kept of a text that could not be written to a file.
const KEPT: usize = 2_000;

/// Time after which the user is told which hook is being waited for.
const NOTICE_AFTER: Duration = Duration::from_secs(5);
/// Limit on the characters of a hook's own text in a notice.
const MAX_NAMED: usize = 80;

/// State of one run.
#[derive(Clone)]
pub(super) struct HookRun {
    pub(super) services: Arc<SessionServices>,
    pub(super) agent: AgentPath,
    pub(super) files: Option<ResultFiles>,
    /// Name of the event and its subject.
    pub(super) name: Arc<str>,
    pub(super) call: HandlerCall,
}

impl HookRun {
    /// Runs these hooks to their end and combines their output.
    pub(super) async fn run_hooks(self, entries: Vec<HookEntry>) -> CombinedHookOutput {
        let outputs = join_all(entries.iter().map(|entry| self.run_hook(entry))).await;
        let mut fired = CombinedHookOutput::default();
        let mut watched: Option<Vec<PathBuf>> = None;
        for mut output in outputs {
            if let Some(paths) = output.watch_paths.take() {
                watched.get_or_insert_with(Vec::new).extend(paths);
            }
            if let Some(text) = output.message.take() {
                self.publish_notice(NoticeLevel::Warning, self.fit_text(text));
            }
            output.context = output.context.map(|text| self.wrap_reminder(text));
            if !may_stop(self.call.event) {
                output.stop = None;
            }
            fired.merge(output);
        }
        if let Some(paths) = watched {
            self.services.hooks().set_watch_paths(paths, &self.services.paths().cwd);
        }
        if let Some(reason) = fired.stop.as_deref().filter(|reason| !reason.is_empty()) {
            self.publish_notice(NoticeLevel::Info, format!("stopped by the hook {}: {reason}", self.name));
        }
        fired
    }

    /// Runs hooks that nothing waits for. Their decisions do not count. What they add is for the model: the next
    /// prompt takes it along, and a hook that is meant to wake the model does so by blocking.
    pub(super) async fn run_detached(self, entries: Vec<HookEntry>) {
        join_all(entries.iter().map(|entry| self.run_detached_hook(entry))).await;
    }

    async fn run_detached_hook(&self, entry: &HookEntry) {
        let shown = HookRunView::start(self);
        let report = match self.call_handler(entry).await {
            Ok(report) => report,
            Err(failure) => {
                shown.fail(&failure.why, failure.outcome);
                self.publish_notice(NoticeLevel::Warning, self.describe_failure(entry, &failure));
                return;
            }
        };
        let (report, answer) = shown.report(report);
        report.finish(HookOutcome::Success);
        match answer {
            HandlerAnswer::Json(json) => {
                for text in late_context(json.get()) {
                    self.services.hooks().keep_late_context(self.wrap_reminder(text));
                }
            }
            HandlerAnswer::Block(reason) if entry.wakes_model => {
                let said = SubmittedPrompt {
                    blocks: vec![Block::text(&self.wrap_reminder(reason))],
                    synthetic: true,
                    origin: Some(PromptOrigin::TaskNotification),
                    ..SubmittedPrompt::default()
                };
                self.services.send_to_agent(&self.agent, said);
            }
            HandlerAnswer::Block(_) | HandlerAnswer::Text(_) => {}
        }
    }

    /// Calls the handler of a hook, within its time limit.
    async fn call_handler(&self, entry: &HookEntry) -> Result<HandlerReport, HookFailure> {
        let patience = entry.timeout.unwrap_or_else(|| entry.handler.default_timeout(self.call.event));
        let mut answer = entry.handler.run(self.call.clone());
        let watched = async {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = tokio::time::sleep(NOTICE_AFTER), if !entry.runs_in_background => {}
            }
            self.publish_notice(NoticeLevel::Info, self.describe_wait(entry));
            answer.await
        };
        match tokio::time::timeout(patience, watched).await {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(HandlerError::Failed(why))) => Err(HookFailure::new("failed: ", why, entry.on_failure)),
            Ok(Err(HandlerError::Gone(why))) => {
                Err(HookFailure::new("cannot answer any more: ", why, entry.on_silence))
            }
            Err(_) => {
                let why = format!("did not answer within {} s", patience.as_secs_f32());
                let failure = HookFailure::new("", why, entry.on_silence);
                Err(HookFailure { outcome: HookOutcome::Cancelled, ..failure })
            }
        }
    }

    fn describe_failure(&self, entry: &HookEntry, failure: &HookFailure) -> String {
        format!("the hook {} of {} {}{}", self.name, entry.source, failure.verb, failure.why)
    }

    /// Returns the notice about a hook that takes long.
    fn describe_wait(&self, entry: &HookEntry) -> String {
        let own = match &entry.status {
            Some(status) => status.to_string(),
            None => entry.handler.text(),
        };
        let own: String = own.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_NAMED).collect();
        let own = if own.trim().is_empty() { String::new() } else { format!(": {own}") };
        format!("waiting for the hook {} of {}{own}", self.name, entry.source)
    }

    async fn run_hook(&self, entry: &HookEntry) -> HookOutput {
        let shown = HookRunView::start(self);
        let event = self.call.event;
        let failure = match self.call_handler(entry).await {
            Ok(report) => {
                let (report, answer) = shown.report(report);
                match HookOutput::from_answer(event, answer) {
                    Ok(output) => {
                        report.finish(HookOutcome::Success);
                        return output;
                    }
                    Err(why) => {
                        report.finish(HookOutcome::Error);
                        HookFailure::new("failed: ", why, entry.on_failure)
                    }
                }
            }
            Err(failure) => {
                shown.fail(&failure.why, failure.outcome);
                failure
            }
        };
        let told = self.describe_failure(entry, &failure);
        self.publish_notice(NoticeLevel::Warning, told.clone());
        match failure.policy {
            HookFailurePolicy::Continue => HookOutput::default(),
            HookFailurePolicy::Block => HookOutput::blocking(event, Some(format!("Blocked: {told}."))),
        }
    }

    fn publish_notice(&self, level: NoticeLevel, text: String) {
        self.services.publish(&self.agent, EventBody::Notice(Notice { level, text }));
    }

    /// Wraps a hook's text for the model.
    fn wrap_reminder(&self, text: String) -> String {
        enclose_in_tag("system-reminder", &format!("The hook {} says:\n{}", self.name, self.fit_text(text)))
    }

    /// Returns a text within the limit; a longer one is written to a file and replaced with a preview.
    fn fit_text(&self, text: String) -> String {
        if text.chars().nth(MAX_TEXT).is_none() { text } else { spill_to_file(self.files.as_ref(), &text) }
    }
}

/// A hook without a usable answer.
struct HookFailure {
    /// Words between the hook's name and the reason.
    verb: &'static str,
    why: String,
    outcome: HookOutcome,
    policy: HookFailurePolicy,
}

impl HookFailure {
    fn new(verb: &'static str, why: String, policy: HookFailurePolicy) -> Self {
        Self { verb, why, outcome: HookOutcome::Error, policy }
    }
}

/// Returns what an answer that decides nothing adds for the model. Members of another form are passed over.
fn late_context(json: &str) -> Vec<String> {
    let json: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let added = [&json["hookSpecificOutput"]["additionalContext"], &json["systemMessage"]];
    let texts = added.into_iter().filter_map(serde_json::Value::as_str).filter(|text| !text.trim().is_empty());
    texts.map(str::to_owned).collect()
}

/// Writes a hook's text to a file and returns a preview.
pub(crate) fn spill_to_file(files: Option<&ResultFiles>, text: &str) -> String {
    let id = ToolUseId::new(format!("hook-{}", uuid::Uuid::new_v4()));
    match files.map(|files| files.store_result(&id, text)) {
        Some(Ok(path)) => persisted_preview(text.len(), &path, text),
        Some(Err(error)) => inline_fallback(text, KEPT, &error),
        None => gimlet_store::preview_text(text, KEPT),
    }
}

/// Events about a running hook. If it is dropped before the hook's end, the hook is reported as cancelled.
struct HookRunView<'a> {
    round: &'a HookRun,
    id: String,
    ended: bool,
}

/// Report of a handler, to be published.
struct HookRunReport<'a> {
    shown: HookRunView<'a>,
    output: String,
    stdout: String,
    stderr: String,
    exit_code: Option<i32>,
}

impl<'a> HookRunView<'a> {
    fn start(round: &'a HookRun) -> Self {
        let shown = Self { round, id: uuid::Uuid::new_v4().to_string(), ended: false };
        shown.publish(HookPhase::Started);
        shown
    }

    fn report(self, report: HandlerReport) -> (HookRunReport<'a>, HandlerAnswer) {
        let HandlerReport { answer, stdout, stderr, exit_code } = report;
        let output = match &answer {
            HandlerAnswer::Json(json) => json.get().to_owned(),
            HandlerAnswer::Text(text) | HandlerAnswer::Block(text) => text.clone(),
        };
        (HookRunReport { shown: self, output, stdout, stderr, exit_code }, answer)
    }

    fn fail(self, why: &str, outcome: HookOutcome) {
        let (stdout, stderr) = (String::new(), String::new());
        HookRunReport { shown: self, output: why.to_owned(), stdout, stderr, exit_code: None }.finish(outcome);
    }

    fn publish(&self, phase: HookPhase) {
        let HookRun { services, agent, name, call, .. } = self.round;
        let event = call.event.name().to_owned();
        let view = HookView { id: self.id.clone(), name: name.to_string(), event, phase };
        services.publish(agent, EventBody::Hook(Box::new(view)));
    }
}

impl HookRunReport<'_> {
    fn finish(self, outcome: HookOutcome) {
        let Self { mut shown, output, stdout, stderr, exit_code } = self;
        shown.ended = true;
        let mask = |text: &str| shown.round.services.redactor().mask(text).into_owned();
        let (output, stdout, stderr) = (mask(&output), mask(&stdout), mask(&stderr));
        shown.publish(HookPhase::Finished { stdout, stderr, output, exit_code, outcome });
    }
}

impl Drop for HookRunView<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let (stdout, stderr, output) = Default::default();
            let outcome = HookOutcome::Cancelled;
            self.publish(HookPhase::Finished { stdout, stderr, output, exit_code: None, outcome });
        }
    }
}
