//! The differences as a page for people and as lines for programs.

use gimlet_policy::Decision;
use gimlet_store::{Decider, Outcome};
use serde_json::{Value, json};

use super::tally::{Difference, Moment, NotJudged, Tally};

/// Longer commands are cut: the beginning tells them apart.
const ABOUT_WIDTH: usize = 100;

/// The strictest first: what would stop working is what one wants to know.
const GROUPS: [(Decision, &str, &str); 3] = [
    (Decision::Deny, "refused", "would now be refused"),
    (Decision::Ask, "ask", "would now ask"),
    (Decision::Allow, "allowed", "would now be allowed"),
];

pub(super) fn page(tally: &Tally) -> String {
    let mut page = vec![summary(tally)];
    for (decision, _, title) in GROUPS {
        let differences = tally.now(decision);
        if differences.is_empty() {
            continue;
        }
        let calls: usize = differences.iter().map(|difference| difference.calls.len()).sum();
        page.push(String::new());
        page.push(format!("{title}: {}", counted(calls, "call")));
        for difference in differences {
            let about = crate::page::in_one_line(&difference.about, ABOUT_WIDTH);
            page.push(format!("  {:>4}  {}  {about}", format!("{}x", difference.calls.len()), difference.tool));
            // What was not recorded then is what the rules in force say today.
            let before = if difference.then.recorded.is_some() { "then:" } else { "today:" };
            page.push(format!("        {before:<7}{}", moment(&difference.then)));
            page.push(format!("        {:<7}{}", "new:", moment(&difference.now)));
        }
    }
    if tally.sessions > 0 {
        page.push(String::new());
        page.push(stays(tally));
    }
    page.extend(left_out(tally));
    page.extend(tally.unreadable.iter().map(|session| format!("skipped: {session}")));
    page.join("\n")
}

fn stays(tally: &Tally) -> String {
    format!(
        "stays: {} allowed, {} asked, {} refused",
        tally.same(Decision::Allow),
        tally.same(Decision::Ask),
        tally.same(Decision::Deny)
    )
}

fn summary(tally: &Tally) -> String {
    let judged = tally.different() + tally.unchanged();
    if tally.sessions == 0 {
        return "no session was found; name one, or look at every project with --all".to_owned();
    }
    format!(
        "{}, {}: {} would be decided differently",
        counted(tally.sessions, "session"),
        counted(judged, "call"),
        tally.different()
    )
}

fn left_out(tally: &Tally) -> Vec<String> {
    let rows = [
        (tally.left_out(NotJudged::BadInput), "call", "had an input that its tool does not take"),
        (tally.left_out(NotJudged::NotInTranscript), "decision", "of a call that no transcript has"),
    ];
    let rows = rows.into_iter().filter(|(count, ..)| *count > 0);
    let rows = rows.map(|(count, noun, why)| format!("left out: {} {why}", counted(count, noun)));
    let damaged = tally.damaged.iter().map(|(file, lines)| {
        format!("left out: {} of {} that cannot be read", counted(*lines, "line"), file.display())
    });
    rows.chain(damaged).collect()
}

fn moment(moment: &Moment) -> String {
    let word = match (moment.verdict.decision, moment.recorded) {
        (Decision::Allow, _) => "allowed",
        (Decision::Deny, _) => "refused",
        (Decision::Ask, Some((Outcome::Allowed, Decider::Person))) => "asked, and a person allowed it",
        (Decision::Ask, Some((Outcome::Refused, Decider::Person))) => "asked, and a person refused it",
        (Decision::Ask, Some((Outcome::Allowed, Decider::Classifier))) => "asked, and the classifier allowed it",
        (Decision::Ask, Some((Outcome::Refused, Decider::Classifier))) => "asked, and the classifier refused it",
        (Decision::Ask, Some((_, Decider::Nobody))) => "refused, as nobody was there to ask",
        (Decision::Ask, Some(_)) => "asked",
        (Decision::Ask, None) => "asks",
    };
    format!("{word}: {}", moment.because())
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// One JSON object a line: the differences, the sessions that were skipped, and the totals last.
pub(super) fn lines(tally: &Tally) -> String {
    let mut lines: Vec<Value> = Vec::new();
    for (decision, group, _) in GROUPS {
        lines.extend(tally.now(decision).into_iter().map(|difference| of_difference(group, difference)));
    }
    lines.extend(tally.unreadable.iter().map(|why| json!({"type": "skipped", "why": why})));
    lines.push(json!({
        "type": "total",
        "sessions": tally.sessions,
        "calls": tally.different() + tally.unchanged(),
        "different": tally.different(),
        "same": {
            "allow": tally.same(Decision::Allow),
            "ask": tally.same(Decision::Ask),
            "deny": tally.same(Decision::Deny),
        },
        "from_ledger": tally.recorded,
        "bad_input": tally.left_out(NotJudged::BadInput),
        "not_in_transcript": tally.left_out(NotJudged::NotInTranscript),
        "damaged_lines": tally.damaged.iter().map(|(_, lines)| lines).sum::<usize>(),
        "damaged": tally.damaged.iter().map(|(file, lines)| json!({"file": file, "lines": lines})).collect::<Vec<Value>>(),
        "skipped": tally.unreadable.len(),
    }));
    lines.iter().map(ToString::to_string).collect::<Vec<String>>().join("\n")
}

fn of_difference(group: &str, difference: &Difference) -> Value {
    let calls = difference.calls.iter().map(|(session, call)| json!({"session": session, "call": call}));
    json!({
        "type": "difference",
        "would_now": group,
        "count": difference.calls.len(),
        "tool": difference.tool,
        "about": difference.about,
        "then": of_moment(&difference.then),
        "now": of_moment(&difference.now),
        "calls": calls.collect::<Vec<Value>>(),
    })
}

fn of_moment(moment: &Moment) -> Value {
    json!({
        "decision": moment.verdict.decision,
        "from": if moment.recorded.is_some() { "ledger" } else { "rules" },
        "outcome": moment.recorded.map(|(outcome, _)| outcome),
        "by": moment.recorded.map(|(_, by)| by),
        "because": moment.because(),
        "reasons": moment.verdict.reasons,
    })
}
