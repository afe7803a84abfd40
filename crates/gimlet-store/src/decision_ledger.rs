//! Decision ledger: one line beside the transcript for every call that was decided on, with the decider and the
//! reasons.
//!
//! It is append-only. The reasons are in the policy's own form and are stored and returned without interpretation. A
//! line that cannot be written costs an explanation later, never a call now.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::layout::SessionFiles;
use crate::ledger_file::{LedgerFile, read_ledger};

/// Outcome of a decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionOutcome {
    Allowed,
    Refused,
    /// The question was withdrawn before it was answered.
    Cancelled,
}

/// Author of the final decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decider {
    /// Rules, mode and place.
    Policy,
    /// The user, or the program that answers for the user.
    Person,
    /// A question was needed, and there was no one to answer it.
    Nobody,
    /// A classifier in place of the user.
    Classifier,
    /// A hook.
    Hook,
    /// The driving program, which made the call itself.
    Host,
}

/// Decision about one call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionLine {
    pub at: String,
    /// Id of the call in the transcript; empty for actions of the driving program itself.
    pub call: String,
    /// Subagent that made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    pub tool: String,
    /// Short description of the call.
    pub summary: String,
    pub outcome: DecisionOutcome,
    pub by: Decider,
    /// Permission mode at that moment.
    pub mode: String,
    /// Verdict of the policy with its reasons.
    pub verdict: Box<RawValue>,
    /// Note from the decider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Working directory at that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added working folders besides the one that the session was started in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
}

/// Ledger of one session, open for appending.
pub struct DecisionLedger(LedgerFile);

impl DecisionLedger {
    /// Creates the ledger. Nothing is written before the first line.
    pub fn new(files: &SessionFiles) -> Self {
        Self(LedgerFile::new(files.decisions()))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Adds a line, with one write.
    pub fn append(&mut self, line: &DecisionLine) -> io::Result<()> {
        self.0.append(line)
    }
}

/// Reads the decisions of a session in order; also returns the number of lines that could not be parsed.
pub fn read_decisions(files: &SessionFiles) -> io::Result<(Vec<DecisionLine>, usize)> {
    read_ledger(&files.decisions())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{StoreLocations, new_session_id};

    fn decision_line(call: &str) -> DecisionLine {
        DecisionLine {
            at: crate::current_timestamp(),
            call: call.to_owned(),
            agent: None,
            tool: "Bash".to_owned(),
            summary: "ls".to_owned(),
            outcome: DecisionOutcome::Allowed,
            by: Decider::Policy,
            mode: "default".to_owned(),
            verdict: RawValue::from_string(r#"{"decision":"allow","reasons":[]}"#.to_owned()).unwrap(),
            note: None,
            cwd: Some("/repo".to_owned()),
            added: Vec::new(),
        }
    }

    fn read_call_ids(files: &SessionFiles) -> (Vec<String>, usize) {
        let (lines, unreadable) = read_decisions(files).unwrap();
        (lines.into_iter().map(|line| line.call).collect(), unreadable)
    }

    #[test]
    fn what_was_added_is_read_back_in_order() {
        let home = tempfile::tempdir().unwrap();
        let files = StoreLocations::new(home.path()).project(home.path()).session_files(&new_session_id());
        assert_eq!(read_call_ids(&files), (vec![], 0));
        let mut ledger = DecisionLedger::new(&files);
        ledger.append(&decision_line("one")).unwrap();
        ledger.append(&decision_line("two")).unwrap();
        DecisionLedger::new(&files).append(&decision_line("three")).unwrap();
        assert_eq!(read_call_ids(&files), (vec!["one".to_owned(), "two".to_owned(), "three".to_owned()], 0));
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let home = tempfile::tempdir().unwrap();
        let files = StoreLocations::new(home.path()).project(home.path()).session_files(&new_session_id());
        DecisionLedger::new(&files).append(&decision_line("one")).unwrap();
        let mut bytes = std::fs::read(files.decisions()).unwrap();
        bytes.extend(br#"{"at":"2026-01-"#);
        std::fs::write(files.decisions(), bytes).unwrap();
        DecisionLedger::new(&files).append(&decision_line("two")).unwrap();
        assert_eq!(read_call_ids(&files), (vec!["one".to_owned(), "two".to_owned()], 1));
    }
}
