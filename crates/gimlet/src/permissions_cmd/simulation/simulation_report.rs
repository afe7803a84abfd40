//! Differences as a page for the user and as lines for programs.

use gimlet_policy::Decision;
use gimlet_store::{Decider, DecisionOutcome};
use serde_json::{Value, json};

use super::simulation_tally::{ComparedDecision, DecisionDifference, SimulationTally, SkipReason};

/// Maximum width of a command; the beginning is enough to distinguish them.
const ABOUT_WIDTH: usize = 100;

/// Groups of differences, the strictest first: calls that would stop working matter most.
const GROUPS: [(Decision, &str, &str); 3] = [
    (Decision::Deny, "refused", "would now be refused"),
    (Decision::Ask, "ask", "would now ask"),
    (Decision::Allow, "allowed", "would now be allowed"),
];

pub(super) fn render_text(tally: &SimulationTally) -> String {
    let mut page = vec![summary_line(tally)];
    for (decision, _, title) in GROUPS {
        let differences = tally.differences_to(decision);
        if differences.is_empty() {
            continue;
        }
        let calls: usize = differences.iter().map(|difference| difference.calls.len()).sum();
        page.push(String::new());
        page.push(format!("{title}: {}", pluralize(calls, "call")));
        for difference in differences {
            let about = gimlet_text::truncate_to_line(&difference.about, ABOUT_WIDTH);
            page.push(format!("  {:>4}  {}  {about}", format!("{}x", difference.calls.len()), difference.tool));
            // Without a recorded decision, the comparison is with the rules in force today.
            let before = if difference.then.recorded.is_some() { "then:" } else { "today:" };
            page.push(format!("        {before:<7}{}", describe_decision(&difference.then)));
            page.push(format!("        {:<7}{}", "new:", describe_decision(&difference.now)));
        }
    }
    if tally.sessions > 0 {
        page.push(String::new());
        page.push(unchanged_line(tally));
    }
    page.extend(skipped_lines(tally));
    page.extend(tally.unreadable.iter().map(|session| format!("skipped: {session}")));
    page.join("\n")
}

fn unchanged_line(tally: &SimulationTally) -> String {
    format!(
        "stays: {} allowed, {} asked, {} refused",
        tally.count_same(Decision::Allow),
        tally.count_same(Decision::Ask),
        tally.count_same(Decision::Deny)
    )
}

fn summary_line(tally: &SimulationTally) -> String {
    let judged = tally.count_different() + tally.count_unchanged();
    if tally.sessions == 0 {
        return "no session was found; name one, or look at every project with --all".to_owned();
    }
    format!(
        "{}, {}: {} would be decided differently",
        pluralize(tally.sessions, "session"),
        pluralize(judged, "call"),
        tally.count_different()
    )
}

fn skipped_lines(tally: &SimulationTally) -> Vec<String> {
    let rows = [
        (tally.count_skipped(SkipReason::BadInput), "call", "had an input that its tool does not take"),
        (tally.count_skipped(SkipReason::NotInTranscript), "decision", "of a call that no transcript has"),
    ];
    let rows = rows.into_iter().filter(|(count, ..)| *count > 0);
    let rows = rows.map(|(count, noun, why)| format!("left out: {} {why}", pluralize(count, noun)));
    let damaged = tally.damaged.iter().map(|(file, lines)| {
        format!("left out: {} of {} that cannot be read", pluralize(*lines, "line"), file.display())
    });
    rows.chain(damaged).collect()
}

fn describe_decision(moment: &ComparedDecision) -> String {
    let word = match (moment.verdict.decision, moment.recorded) {
        (Decision::Allow, _) => "allowed",
        (Decision::Deny, _) => "refused",
        (Decision::Ask, Some((DecisionOutcome::Allowed, Decider::Person))) => "asked, and a person allowed it",
        (Decision::Ask, Some((DecisionOutcome::Refused, Decider::Person))) => "asked, and a person refused it",
        (Decision::Ask, Some((DecisionOutcome::Allowed, Decider::Classifier))) => {
            "asked, and the classifier allowed it"
        }
        (Decision::Ask, Some((DecisionOutcome::Refused, Decider::Classifier))) => {
            "asked, and the classifier refused it"
        }
        (Decision::Ask, Some((_, Decider::Nobody))) => "refused: nobody could be asked",
        (Decision::Ask, Some(_)) => "asked",
        (Decision::Ask, None) => "asks",
    };
    format!("{word}: {}", moment.describe_reasons())
}

fn pluralize(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Renders one JSON object a line: the differences, the skipped sessions, and the totals last.
pub(super) fn render_json(tally: &SimulationTally) -> String {
    let mut lines: Vec<Value> = Vec::new();
    for (decision, group, _) in GROUPS {
        lines.extend(tally.differences_to(decision).into_iter().map(|difference| difference_json(group, difference)));
    }
    lines.extend(tally.unreadable.iter().map(|why| json!({"type": "skipped", "why": why})));
    lines.push(json!({
        "type": "total",
        "sessions": tally.sessions,
        "calls": tally.count_different() + tally.count_unchanged(),
        "different": tally.count_different(),
        "same": {
            "allow": tally.count_same(Decision::Allow),
            "ask": tally.count_same(Decision::Ask),
            "deny": tally.count_same(Decision::Deny),
        },
        "from_ledger": tally.recorded,
        "bad_input": tally.count_skipped(SkipReason::BadInput),
        "not_in_transcript": tally.count_skipped(SkipReason::NotInTranscript),
        "damaged_lines": tally.damaged.iter().map(|(_, lines)| lines).sum::<usize>(),
        "damaged": tally.damaged.iter().map(|(file, lines)| json!({"file": file, "lines": lines})).collect::<Vec<Value>>(),
        "skipped": tally.unreadable.len(),
    }));
    lines.iter().map(ToString::to_string).collect::<Vec<String>>().join("\n")
}

fn difference_json(group: &str, difference: &DecisionDifference) -> Value {
    let calls = difference.calls.iter().map(|(session, call)| json!({"session": session, "call": call}));
    json!({
        "type": "difference",
        "would_now": group,
        "count": difference.calls.len(),
        "tool": difference.tool,
        "about": difference.about,
        "then": decision_json(&difference.then),
        "now": decision_json(&difference.now),
        "calls": calls.collect::<Vec<Value>>(),
    })
}

fn decision_json(moment: &ComparedDecision) -> Value {
    json!({
        "decision": moment.verdict.decision,
        "from": if moment.recorded.is_some() { "ledger" } else { "rules" },
        "outcome": moment.recorded.map(|(outcome, _)| outcome),
        "by": moment.recorded.map(|(_, by)| by),
        "because": moment.describe_reasons(),
        "reasons": moment.verdict.reasons,
    })
}
