//! One run of an event's hooks: all run in parallel, each with its timeout, and every failure is handled by the policy
//! of its entry. Dropping a run cancels every hook that has not answered.

use std::sync::Arc;

use futures_util::future::join_all;
use gimlet_proto::{AgentPath, EventBody, HookOutcome, HookPhase, HookView, Notice, NoticeLevel, ToolUseId};
use gimlet_store::{ResultFiles, inline_fallback, persisted_preview};
use gimlet_text::enclose_in_tag;

use super::hook_event::may_stop;
use super::hook_output::HookOutput;
use super::{CombinedHookOutput, HandlerCall, HandlerError, HandlerReport, HookEntry, HookFailurePolicy};
use crate::services::SessionServices;

/// Limit on a hook's text for the model or the user; longer texts go to a file.
const MAX_TEXT: usize = 10_000;
/// Limit on the part that is kept of a text that could not be written to a file.
const KEPT: usize = 2_000;

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
        for mut output in outputs {
            if let Some(text) = output.message.take() {
                self.publish_notice(NoticeLevel::Warning, self.fit_text(text));
            }
            output.context = output.context.map(|text| self.wrap_reminder(text));
            if !may_stop(self.call.event) {
                output.stop = None;
            }
            fired.merge(output);
        }
        if let Some(reason) = fired.stop.as_deref().filter(|reason| !reason.is_empty()) {
            self.publish_notice(NoticeLevel::Info, format!("stopped by the hook {}: {reason}", self.name));
        }
        fired
    }

    async fn run_hook(&self, entry: &HookEntry) -> HookOutput {
        let shown = HookRunView::start(self);
        let event = self.call.event;
        let patience = entry.timeout.unwrap_or_else(|| entry.handler.default_timeout(event));
        let ran = tokio::time::timeout(patience, entry.handler.run(self.call.clone())).await;
        let (trouble, policy) = match ran {
            Ok(Ok(report)) => {
                let (report, answer) = shown.report(report);
                match HookOutput::from_answer(event, answer) {
                    Ok(output) => {
                        report.finish(HookOutcome::Success);
                        return output;
                    }
                    Err(why) => {
                        report.finish(HookOutcome::Error);
                        (format!("failed: {why}"), entry.on_failure)
                    }
                }
            }
            Ok(Err(HandlerError::Failed(why))) => {
                shown.fail(&why, HookOutcome::Error);
                (format!("failed: {why}"), entry.on_failure)
            }
            Ok(Err(HandlerError::Gone(why))) => {
                shown.fail(&why, HookOutcome::Error);
                (format!("cannot answer any more: {why}"), entry.on_silence)
            }
            Err(_) => {
                let why = format!("did not answer within {} s", patience.as_secs_f32());
                shown.fail(&why, HookOutcome::Cancelled);
                (why, entry.on_silence)
            }
        };
        let told = format!("the hook {} of {} {trouble}", self.name, entry.source);
        self.publish_notice(NoticeLevel::Warning, told.clone());
        match policy {
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

    fn report(self, report: HandlerReport) -> (HookRunReport<'a>, super::HandlerAnswer) {
        let HandlerReport { answer, stdout, stderr, exit_code } = report;
        let output = match &answer {
            super::HandlerAnswer::Json(json) => json.get().to_owned(),
            super::HandlerAnswer::Text(text) | super::HandlerAnswer::Block(text) => text.clone(),
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
