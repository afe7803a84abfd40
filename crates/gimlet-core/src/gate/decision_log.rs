//! The log of the gate's decisions, so that "why was this allowed?" can be answered later.

use std::path::Path;
use std::sync::Mutex;

use gimlet_policy::{Verdict, VerdictReason};
use gimlet_proto::{AgentPath, EventBody, Notice, NoticeLevel, PermissionMode, ToolUseId};
use gimlet_store::{Decider, DecisionLedger, DecisionLine, DecisionOutcome};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::{Refusal, lock};
use crate::call::{CallScope, truncate_to_bytes};
use crate::redact::{Redactor, mask_tokens};
use crate::services::SessionServices;
use crate::tool::PreparedCall;

/// Limit on the description of a call; a longer one adds nothing to the transcript.
const SUMMARY_BYTES: usize = 500;
/// Limit on the text that is searched for secrets to build a summary: a mask is often shorter than the secret.
const MASKED_BYTES: usize = 16 * SUMMARY_BYTES;

/// The final decision on a call.
pub(super) struct FinalDecision {
    outcome: DecisionOutcome,
    by: Decider,
    note: Option<String>,
}

impl FinalDecision {
    pub(super) fn allowed_by(by: Decider) -> Self {
        Self { outcome: DecisionOutcome::Allowed, by, note: None }
    }

    pub(super) fn refused_by_policy() -> Self {
        Self { outcome: DecisionOutcome::Refused, by: Decider::Policy, note: None }
    }

    /// Returns the decider.
    pub(super) fn decider(&self) -> Decider {
        self.by
    }

    pub(super) fn from_refusal(refusal: &Refusal, verdict: &Verdict) -> Self {
        let by = match refusal {
            Refusal::Denied(denied) if denied.is_unattended() => Decider::Nobody,
            Refusal::Denied(denied) if denied.is_by_reviewer() => Decider::Classifier,
            Refusal::Denied(_) if matches!(verdict.reasons.first(), Some(VerdictReason::Hook(_))) => Decider::Hook,
            Refusal::ByHook { .. } => Decider::Hook,
            Refusal::Denied(_) | Refusal::Invalid(_) => Decider::Policy,
            Refusal::ByPerson { .. } | Refusal::Cancelled => Decider::Person,
        };
        let outcome =
            if matches!(refusal, Refusal::Cancelled) { DecisionOutcome::Cancelled } else { DecisionOutcome::Refused };
        let note = match refusal {
            Refusal::ByPerson { message, .. } if !message.trim().is_empty() => Some(message.clone()),
            Refusal::Denied(denied) if denied.is_by_reviewer() => Some(denied.reason().to_owned()),
            Refusal::ByHook { denied, .. } => Some(denied.reason().to_owned()),
            _ => None,
        };
        Self { outcome, by, note }
    }
}

/// The session's ledger; nothing is written for a session that is not stored.
pub(super) struct DecisionLog {
    file: Option<Mutex<DecisionLogWriter>>,
}

struct DecisionLogWriter {
    ledger: DecisionLedger,
    /// True if the user was warned that lines are missing.
    told: bool,
}

impl DecisionLog {
    pub(super) fn new(ledger: Option<DecisionLedger>) -> Self {
        Self { file: ledger.map(|ledger| Mutex::new(DecisionLogWriter { ledger, told: false })) }
    }

    pub(super) fn record_call(
        &self,
        scope: &CallScope,
        mode: PermissionMode,
        call: &ToolUseId,
        prepared: &PreparedCall,
        verdict: &Verdict,
        word: &FinalDecision,
    ) {
        let subject = DecisionSubject {
            call: call.as_str(),
            agent: &scope.agent,
            tool: &prepared.tool,
            summary: &prepared.description,
        };
        self.write_line(&scope.services, mode, &subject, verdict, word);
    }

    /// Records a decision on a request of the driving program, with its name and a short description.
    pub(super) fn record_host_request(
        &self,
        services: &SessionServices,
        mode: PermissionMode,
        (tool, summary): (&str, &str),
        verdict: &Verdict,
        word: &FinalDecision,
    ) {
        let subject = DecisionSubject { call: "", agent: &AgentPath::default(), tool, summary };
        self.write_line(services, mode, &subject, verdict, word);
    }

    fn write_line(
        &self,
        services: &SessionServices,
        mode: PermissionMode,
        subject: &DecisionSubject<'_>,
        verdict: &Verdict,
        word: &FinalDecision,
    ) {
        let Some(file) = &self.file else { return };
        let redactor = services.redactor();
        let paths = services.paths();
        let added = paths.roots.iter().filter(|root| **root != paths.project_dir);
        let line = DecisionLine {
            at: gimlet_store::current_timestamp(),
            call: subject.call.to_owned(),
            agent: subject.agent.parent_tool_use().map(ToString::to_string),
            tool: subject.tool.to_owned(),
            summary: truncate_to_bytes(&mask_text(redactor, summary_prefix(subject.summary)), SUMMARY_BYTES).to_owned(),
            outcome: word.outcome,
            by: word.by,
            mode: mode.to_string(),
            verdict: mask_verdict(redactor, verdict),
            note: word.note.as_deref().map(|note| mask_text(redactor, note)),
            cwd: Some(mask_path(redactor, &paths.cwd)),
            added: added.map(|root| mask_path(redactor, root)).collect(),
        };
        let mut writing = lock(file);
        if let Err(error) = writing.ledger.append(&line)
            && !std::mem::replace(&mut writing.told, true)
        {
            let text = format!("decisions cannot be kept in {}: {error}", writing.ledger.path().display());
            services.publish(subject.agent, EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        }
    }
}

/// Returns as much of a description as its summary can need; arguments may be megabytes. Cuts between two words: half
/// a secret would not be recognized.
fn summary_prefix(text: &str) -> &str {
    let head = truncate_to_bytes(text, MASKED_BYTES);
    if head.len() == text.len() {
        return text;
    }
    let is_between = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    &head[..head.rfind(is_between).unwrap_or(0)]
}

/// Masks a text for the ledger. The ledger outlives the session and is shown on request, so it must contain neither
/// known credentials nor text that resembles one; the transcript has the call itself.
fn mask_text(redactor: &Redactor, text: &str) -> String {
    mask_tokens(&redactor.mask(text)).into_owned()
}

/// Masks a folder for the ledger. Past decisions are replayed from there, so only known credentials are masked in it.
fn mask_path(redactor: &Redactor, folder: &Path) -> String {
    redactor.mask(&folder.to_string_lossy()).into_owned()
}

/// Masks a verdict for the ledger: its reasons quote commands, rules and output of hooks.
fn mask_verdict(redactor: &Redactor, verdict: &Verdict) -> Box<RawValue> {
    fn mask_texts(redactor: &Redactor, value: &mut Value) {
        match value {
            Value::String(text) => *text = mask_text(redactor, text),
            Value::Array(values) => values.iter_mut().for_each(|value| mask_texts(redactor, value)),
            Value::Object(members) => members.values_mut().for_each(|value| mask_texts(redactor, value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut kept = serde_json::to_value(verdict).unwrap_or_default();
    mask_texts(redactor, &mut kept);
    to_raw_value(&kept).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Subject of a decision.
struct DecisionSubject<'a> {
    /// Id of the call; empty if the transcript has no such call.
    call: &'a str,
    agent: &'a AgentPath,
    tool: &'a str,
    summary: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_description_is_looked_through_only_at_its_beginning_and_no_secret_is_halved() {
        assert_eq!(summary_prefix("short one"), "short one");
        let words = "word ".repeat(MASKED_BYTES);
        let head = summary_prefix(&words);
        assert!(head.len() <= MASKED_BYTES && head.len() > SUMMARY_BYTES && head.ends_with("word"), "{}", head.len());
        let secret = format!("{{\"key\":\"{}\"}}", "s".repeat(2 * MASKED_BYTES));
        assert_eq!(summary_prefix(&secret), "{\"key\":");
        assert_eq!(summary_prefix(&"\u{65e5}".repeat(MASKED_BYTES)), "");
    }
}
