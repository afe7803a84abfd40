//! Totals of past and simulated decisions. Everything here is ordered by content, so equal files always produce equal
//! pages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gimlet_policy::{Decision, Verdict, VerdictReason};
use gimlet_store::{Decider, DecisionLine, DecisionOutcome, PastCall};

/// A decision on one side of the comparison.
pub(super) struct ComparedDecision {
    pub(super) verdict: Verdict,
    /// Recorded outcome and decider, where the ledger has them.
    pub(super) recorded: Option<(DecisionOutcome, Decider)>,
}

impl ComparedDecision {
    pub(super) fn from_verdict(verdict: Verdict) -> Self {
        Self { verdict, recorded: None }
    }

    /// Returns the ledger's decision; `None` when another version wrote it in another form.
    pub(super) fn from_ledger(line: &DecisionLine) -> Option<Self> {
        let verdict = serde_json::from_str(line.verdict.get()).ok()?;
        Some(Self { verdict, recorded: Some((line.outcome, line.by)) })
    }

    pub(super) fn describe_reasons(&self) -> String {
        let reasons: Vec<String> = self.verdict.reasons.iter().map(VerdictReason::describe).collect();
        reasons.join("; ")
    }
}

/// Reason why a call was left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SkipReason {
    /// The tool rejects the input.
    BadInput,
    /// The ledger has a decision about it, and the transcript does not have the call.
    NotInTranscript,
}

/// Key that distinguishes differences; equal ones are counted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DifferenceKey {
    now: Decision,
    tool: String,
    about: String,
    then_because: String,
    now_because: String,
}

/// One way in which calls would be decided differently.
pub(super) struct DecisionDifference {
    pub(super) tool: String,
    pub(super) about: String,
    pub(super) then: ComparedDecision,
    pub(super) now: ComparedDecision,
    /// Session and id of each call.
    pub(super) calls: Vec<(String, String)>,
}

/// Totals of a simulation.
#[derive(Default)]
pub(super) struct SimulationTally {
    pub(super) sessions: usize,
    pub(super) unreadable: Vec<String>,
    /// Transcripts and ledgers with lines that could not be read, and how many of these there are.
    pub(super) damaged: Vec<(PathBuf, usize)>,
    pub(super) left_out: BTreeMap<SkipReason, usize>,
    differences: BTreeMap<DifferenceKey, DecisionDifference>,
    /// Calls with an unchanged decision.
    pub(super) same: BTreeMap<Decision, usize>,
    /// Number of judged calls with a decision in the ledger.
    pub(super) recorded: usize,
}

impl SimulationTally {
    pub(super) fn new(unreadable: Vec<String>) -> Self {
        Self { unreadable, ..Self::default() }
    }

    pub(super) fn add_damaged(&mut self, file: PathBuf, lines: usize) {
        if lines > 0 {
            self.damaged.push((file, lines));
        }
    }

    pub(super) fn add_skipped(&mut self, why: SkipReason, count: usize) {
        if count > 0 {
            *self.left_out.entry(why).or_default() += count;
        }
    }

    pub(super) fn add_call(
        &mut self,
        session: &str,
        call: &PastCall,
        (tool, about): (String, String),
        then: ComparedDecision,
        now: ComparedDecision,
    ) {
        self.recorded += usize::from(then.recorded.is_some());
        if then.verdict.decision == now.verdict.decision {
            *self.same.entry(now.verdict.decision).or_default() += 1;
            return;
        }
        let same = DifferenceKey {
            now: now.verdict.decision,
            tool: tool.clone(),
            about: about.clone(),
            then_because: format!("{} {}", then.verdict.decision, then.describe_reasons()),
            now_because: now.describe_reasons(),
        };
        let fresh = || DecisionDifference { tool, about, then, now, calls: Vec::new() };
        let difference = self.differences.entry(same).or_insert_with(fresh);
        difference.calls.push((session.to_owned(), call.id.clone()));
    }

    /// Returns the differences with this new decision, the most frequent first.
    pub(super) fn differences_to(&self, decision: Decision) -> Vec<&DecisionDifference> {
        let all = self.differences.iter().filter(|(same, _)| same.now == decision);
        let mut all: Vec<&DecisionDifference> = all.map(|(_, difference)| difference).collect();
        // Stable: those of one count stay in the order of their content.
        all.sort_by_key(|difference| std::cmp::Reverse(difference.calls.len()));
        all
    }

    pub(super) fn count_different(&self) -> usize {
        self.differences.values().map(|difference| difference.calls.len()).sum()
    }

    pub(super) fn count_unchanged(&self) -> usize {
        self.same.values().sum()
    }

    pub(super) fn count_same(&self, decision: Decision) -> usize {
        self.same.get(&decision).copied().unwrap_or(0)
    }

    pub(super) fn count_skipped(&self, why: SkipReason) -> usize {
        self.left_out.get(&why).copied().unwrap_or(0)
    }
}
