//! What the gate writes down about each decision, so that "why was this allowed?" has an answer later.

use std::sync::Mutex;

use gimlet_policy::{Reason, Verdict};
use gimlet_proto::{Body, Level, Notice, PermissionMode, ToolUseId};
use gimlet_store::{Decider, DecisionLedger, DecisionLine, Outcome};
use serde_json::value::{RawValue, to_raw_value};

use super::{Refusal, lock};
use crate::call::{CallScope, cut};
use crate::tool::Prepared;

/// Longer descriptions of a call add nothing to what the transcript has.
const SUMMARY_BYTES: usize = 500;

/// The last word on a call.
pub(super) struct Word {
    outcome: Outcome,
    by: Decider,
    note: Option<String>,
}

impl Word {
    pub(super) fn allowed_by(by: Decider) -> Self {
        Self { outcome: Outcome::Allowed, by, note: None }
    }

    /// Who said so.
    pub(super) fn decider(&self) -> Decider {
        self.by
    }

    pub(super) fn of_refusal(refusal: &Refusal, verdict: &Verdict) -> Self {
        let by = match refusal {
            Refusal::Denied(denied) if denied.is_for_want_of_a_person() => Decider::Nobody,
            Refusal::Denied(denied) if denied.is_by_reviewer() => Decider::Classifier,
            Refusal::Denied(_) if matches!(verdict.reasons.first(), Some(Reason::Hook(_))) => Decider::Hook,
            Refusal::ByHook { .. } => Decider::Hook,
            Refusal::Denied(_) | Refusal::Invalid(_) => Decider::Policy,
            Refusal::ByPerson { .. } | Refusal::Cancelled => Decider::Person,
        };
        let outcome = if matches!(refusal, Refusal::Cancelled) { Outcome::Cancelled } else { Outcome::Refused };
        let note = match refusal {
            Refusal::ByPerson { message, .. } if !message.trim().is_empty() => Some(message.clone()),
            Refusal::Denied(denied) if denied.is_by_reviewer() => Some(denied.reason().to_owned()),
            Refusal::ByHook { denied, .. } => Some(denied.reason().to_owned()),
            _ => None,
        };
        Self { outcome, by, note }
    }
}

/// The session's ledger; nothing is written for a session of which nothing is kept.
pub(super) struct Ledger {
    file: Option<Mutex<Writing>>,
}

struct Writing {
    ledger: DecisionLedger,
    /// People were told that lines are missing.
    told: bool,
}

impl Ledger {
    pub(super) fn new(ledger: Option<DecisionLedger>) -> Self {
        Self { file: ledger.map(|ledger| Mutex::new(Writing { ledger, told: false })) }
    }

    pub(super) fn note(
        &self,
        scope: &CallScope,
        mode: PermissionMode,
        call: &ToolUseId,
        prepared: &Prepared,
        verdict: &Verdict,
        word: &Word,
    ) {
        let Some(file) = &self.file else { return };
        let summary = scope.services.redactor.mask(&prepared.description);
        let paths = scope.services.paths();
        let added = paths.roots.iter().filter(|root| **root != paths.project_dir);
        let line = DecisionLine {
            at: gimlet_store::timestamp(),
            call: call.to_string(),
            agent: scope.agent.parent_tool_use().map(ToString::to_string),
            tool: prepared.tool.to_string(),
            summary: cut(&summary, SUMMARY_BYTES).to_owned(),
            outcome: word.outcome,
            by: word.by,
            mode: mode.to_string(),
            verdict: to_raw_value(verdict).unwrap_or_else(|_| RawValue::NULL.to_owned()),
            note: word.note.clone(),
            cwd: Some(paths.cwd.to_string_lossy().into_owned()),
            added: added.map(|root| root.to_string_lossy().into_owned()).collect(),
        };
        let mut writing = lock(file);
        if let Err(error) = writing.ledger.append(&line)
            && !std::mem::replace(&mut writing.told, true)
        {
            let text = format!("decisions cannot be kept in {}: {error}", writing.ledger.path().display());
            scope.services.publish(&scope.agent, Body::Notice(Notice { level: Level::Warning, text }));
        }
    }
}
