//! `gimlet why`: what was decided about the calls of a session, by whom and on what grounds.

use std::process::ExitCode;

use gimlet_policy::Verdict;
use gimlet_store::{Decider, DecisionLine, Locations, Outcome, SessionFiles, Sessions, read_decisions};
use serde_json::json;

use crate::args::WhyArgs;
use crate::lookup;
use crate::report::Report;
use crate::surroundings::Surroundings;

/// Room for the call itself in the list.
const SUMMARY_WIDTH: usize = 44;

/// Shows the decisions of a session, or one of them in full.
pub(crate) fn run(args: &WhyArgs, around: &Surroundings) -> Result<ExitCode, Report> {
    let sessions = Sessions::new(&Locations::new(&around.config_home), &around.cwd, &[]);
    let (session, call) = match (&args.session, &args.call) {
        (Some(only), None) if names_call(only) => (None, Some(only)),
        (session, call) => (session.as_ref(), call.as_ref()),
    };
    let files = find(&sessions, session.map(String::as_str))?;
    let (lines, unreadable) = read_decisions(&files)
        .map_err(|error| Report::new(format!("{} cannot be read: {error}", files.decisions().display())))?;
    if unreadable > 0 {
        crate::say_on_stderr(&format!(
            "gimlet: {unreadable} lines of {} are damaged and left out",
            files.decisions().display()
        ));
    }
    let numbered: Vec<(usize, DecisionLine)> = (1..).zip(lines).collect();
    let shown = match call {
        None => numbered,
        Some(call) => vec![choose(numbered, call, &files)?],
    };
    let text = match (args.json, call) {
        (true, _) => shown.iter().map(|(number, line)| as_json(*number, line)).collect::<Vec<_>>().join("\n"),
        (false, None) => list(&files, &shown),
        (false, Some(_)) => shown.iter().map(|(number, line)| in_full(&files, *number, line)).collect(),
    };
    crate::say(&gimlet_serve::sanitise(&text));
    Ok(ExitCode::SUCCESS)
}

/// A number or a tool call's id rather than a session.
fn names_call(text: &str) -> bool {
    text.parse::<usize>().is_ok() || (text.starts_with("toolu_") && !gimlet_store::is_session_id(text))
}

fn find(sessions: &Sessions, wanted: Option<&str>) -> Result<SessionFiles, Report> {
    match wanted {
        Some(name) => lookup::named(sessions, name),
        None => lookup::latest(sessions)
            .ok_or_else(|| Report::new("there is no session of this folder").hint("Name one: gimlet why SESSION")),
    }
}

fn choose(
    lines: Vec<(usize, DecisionLine)>,
    call: &str,
    files: &SessionFiles,
) -> Result<(usize, DecisionLine), Report> {
    let count = lines.len();
    let wanted = call.parse::<usize>().ok();
    // Asked about twice, a call was decided on twice; the last word counts.
    lines.into_iter().rev().find(|(number, line)| Some(*number) == wanted || line.call == call).ok_or_else(|| {
        Report::new(format!("session {} has no decision about the call '{call}'", files.id()))
            .hint(format!("It has {count}: see 'gimlet why {}'", files.id()))
    })
}

fn list(files: &SessionFiles, lines: &[(usize, DecisionLine)]) -> String {
    if lines.is_empty() {
        return format!("session {}: no call was decided on", files.id());
    }
    let count = |outcome| lines.iter().filter(|(_, line)| line.outcome == outcome).count();
    let mut text = format!(
        "session {}: {} decisions, {} allowed, {} refused\n",
        files.id(),
        lines.len(),
        count(Outcome::Allowed),
        count(Outcome::Refused),
    );
    for (number, line) in lines {
        let summary = in_one_line(&line.summary, SUMMARY_WIDTH);
        text += &format!(
            "{number:>4}  {:<9} {:<10} {summary:<SUMMARY_WIDTH$}  {}\n",
            outcome(line.outcome),
            line.tool,
            because(line),
        );
    }
    text + "\n'gimlet why SESSION NUMBER' shows one in full."
}

fn in_full(files: &SessionFiles, number: usize, line: &DecisionLine) -> String {
    let mut text = format!("decision {number} of session {}\n", files.id());
    let mut row = |name: &str, value: &str| text += &format!("  {name:<10} {value}\n");
    row("call", &line.call);
    if let Some(agent) = &line.agent {
        row("agent", &format!("started by {agent}"));
    }
    row("tool", &line.tool);
    row("what", &in_one_line(&line.summary, usize::MAX));
    row("outcome", outcome(line.outcome));
    row("decided by", decider(line.by));
    row("mode", &line.mode);
    row("at", &line.at);
    if let Some(note) = &line.note {
        row("said", &in_one_line(note, usize::MAX));
    }
    match verdict(line) {
        Some(verdict) => {
            for reason in &verdict.reasons {
                row("because", &reason.describe());
            }
        }
        None => row("because", "the reasons were written by another version and cannot be read"),
    }
    text.trim_end().to_owned()
}

fn as_json(number: usize, line: &DecisionLine) -> String {
    let because: Vec<String> = verdict(line)
        .map(|verdict| verdict.reasons.iter().map(|reason| reason.describe()).collect())
        .unwrap_or_default();
    json!({
        "number": number,
        "call": line.call,
        "agent": line.agent,
        "tool": line.tool,
        "summary": line.summary,
        "outcome": line.outcome,
        "by": line.by,
        "mode": line.mode,
        "at": line.at,
        "note": line.note,
        "because": because,
        "verdict": line.verdict,
    })
    .to_string()
}

fn verdict(line: &DecisionLine) -> Option<Verdict> {
    serde_json::from_str(line.verdict.get()).ok()
}

/// The grounds in a few words; who decided, where that was not the policy.
fn because(line: &DecisionLine) -> String {
    let reasons = verdict(line)
        .map(|verdict| verdict.reasons.iter().map(|reason| reason.describe()).collect::<Vec<_>>().join("; "));
    let reasons = reasons.unwrap_or_default();
    match line.by {
        Decider::Policy => reasons,
        by => format!("{}; asked because: {reasons}", decider(by)),
    }
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Allowed => "allowed",
        Outcome::Refused => "refused",
        Outcome::Cancelled => "cancelled",
    }
}

fn decider(by: Decider) -> &'static str {
    match by {
        Decider::Policy => "rules, mode and place",
        Decider::Person => "a person or the program that asked",
        Decider::Nobody => "nobody was there to ask",
        Decider::Classifier => "the classifier",
        Decider::Hook => "a hook",
    }
}

pub(crate) fn in_one_line(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}
