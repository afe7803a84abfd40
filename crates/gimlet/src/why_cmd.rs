//! `gimlet why`: decisions about the calls of a session, with decider and reasons.

use std::process::ExitCode;

use gimlet_app::{ProcessEnv, session_lookup};
use gimlet_policy::{Verdict, VerdictReason};
use gimlet_store::{
    Decider, DecisionLine, DecisionOutcome, ProjectSessions, SessionFiles, StoreLocations, read_decisions,
};
use gimlet_text::truncate_to_line;
use serde_json::json;

use crate::args::WhyArgs;
use crate::report::Report;
use crate::terminal_text::page_width;

/// Page width when standard output is not a terminal.
const PAGE_WIDTH: usize = 100;
/// Maximum width of the tool column; longer names, such as those of servers, do not widen it.
const LONGEST_TOOL: usize = 16;
/// Indentation of the reasons below their call.
const GROUNDS_INDENT: usize = 8;
/// Indentation of values when one decision is shown.
const VALUE_INDENT: usize = 14;

/// Shows the decisions of a session, or one of them in full.
pub(crate) fn run(args: &WhyArgs, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let sessions = ProjectSessions::new(&StoreLocations::new(&around.config_home), &around.cwd, &[]);
    let (session, call) = match (&args.session, &args.call) {
        (Some(only), None) if is_call_name(only) => (None, Some(only)),
        (session, call) => (session.as_ref(), call.as_ref()),
    };
    let files = find_session(&sessions, session.map(String::as_str))?;
    let (lines, unreadable) = read_decisions(&files)
        .map_err(|error| Report::new(format!("{} cannot be read: {error}", files.decisions().display())))?;
    if unreadable > 0 {
        let lines = if unreadable == 1 { "1 line".to_owned() } else { format!("{unreadable} lines") };
        crate::print_error_line(&format!(
            "gimlet: {lines} of {} cannot be read and are left out",
            files.decisions().display()
        ));
    }
    if lines.is_empty() {
        return report_no_decisions(&files, call.map(String::as_str), args.json, unreadable);
    }
    let numbered: Vec<(usize, DecisionLine)> = (1..).zip(lines).collect();
    let count = numbered.len();
    let shown = match call {
        None => numbered,
        Some(call) => vec![find_decision(numbered, call, &files)?],
    };
    let width = page_width(PAGE_WIDTH);
    let text = match (args.json, call) {
        (true, _) => shown.iter().map(|(number, line)| decision_json(*number, line)).collect::<Vec<_>>().join("\n"),
        (false, None) => render_list(&files, &shown, width),
        (false, Some(_)) => {
            shown.iter().map(|(number, line)| render_decision(&files, (*number, count), line, width)).collect()
        }
    };
    crate::print_line(&gimlet_serve::sanitise(&text));
    Ok(ExitCode::SUCCESS)
}

/// Returns the decisions of a session as text, or one of them in full.
pub(crate) fn describe_session(around: &ProcessEnv, session: &str, call: Option<&str>) -> Result<String, Report> {
    let sessions = ProjectSessions::new(&StoreLocations::new(&around.config_home), &around.cwd, &[]);
    let files = find_session(&sessions, Some(session))?;
    let (lines, _) = read_decisions(&files)
        .map_err(|error| Report::new(format!("{} cannot be read: {error}", files.decisions().display())))?;
    if lines.is_empty() {
        return Ok("This session has decided about no call yet.".to_owned());
    }
    let numbered: Vec<(usize, DecisionLine)> = (1..).zip(lines).collect();
    let count = numbered.len();
    let Some(call) = call else {
        return Ok(list_text(&files, &numbered, PAGE_WIDTH) + "\nShow one in full: /why NUMBER");
    };
    let (number, line) = find_decision(numbered, call, &files)?;
    Ok(render_decision(&files, (number, count), &line, PAGE_WIDTH))
}

/// Reports a session without decisions: one without calls, or one recorded by another program.
fn report_no_decisions(
    files: &SessionFiles,
    call: Option<&str>,
    as_json: bool,
    unreadable: usize,
) -> Result<ExitCode, Report> {
    let past = gimlet_store::read_calls(files).unwrap_or_default();
    let calls = past.calls.len();
    let id = files.id();
    let text = match calls {
        0 => format!("session {id} has no tool calls"),
        _ if unreadable > 0 => format!("no decision of session {id} can be read any more"),
        _ if past.forked_from.is_some() => {
            let origin = past.forked_from.unwrap_or_default();
            format!(
                "session {id} is a fork and has made no call of its own; 'gimlet why {origin}' shows those before it"
            )
        }
        1 => format!("session {id} made 1 call, and no decision was recorded: it is older, or of another program"),
        _ => {
            format!("session {id} made {calls} calls, and no decision was recorded: it is older, or of another program")
        }
    };
    match call {
        Some(_) => return Err(Report::new(text)),
        None if as_json => crate::print_error_line(&format!("gimlet: {text}")),
        None => crate::print_line(&text),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if the text is a number or a tool call's id rather than a session.
fn is_call_name(text: &str) -> bool {
    text.parse::<usize>().is_ok() || (text.starts_with("toolu_") && !gimlet_store::is_session_id(text))
}

fn find_session(sessions: &ProjectSessions, wanted: Option<&str>) -> Result<SessionFiles, Report> {
    let found = match wanted {
        Some(name) => session_lookup::find_session(sessions, name),
        None => session_lookup::latest_session(sessions, "Name one: gimlet why SESSION"),
    };
    Ok(found?)
}

fn find_decision(
    lines: Vec<(usize, DecisionLine)>,
    call: &str,
    files: &SessionFiles,
) -> Result<(usize, DecisionLine), Report> {
    let count = lines.len();
    let wanted = call.parse::<usize>().ok();
    // A call may have several decisions; the last one counts.
    lines.into_iter().rev().find(|(number, line)| Some(*number) == wanted || line.call == call).ok_or_else(|| {
        Report::new(format!("session {} has no decision about the call '{call}'", files.id()))
            .with_hint(format!("It has {count}: see 'gimlet why {}'", files.id()))
    })
}

fn render_list(files: &SessionFiles, lines: &[(usize, DecisionLine)], width: usize) -> String {
    list_text(files, lines, width) + &format!("\nShow one in full: gimlet why {} NUMBER", files.id())
}

fn list_text(files: &SessionFiles, lines: &[(usize, DecisionLine)], width: usize) -> String {
    let tools = lines.iter().map(|(_, line)| line.tool.chars().count().min(LONGEST_TOOL)).max().unwrap_or(0);
    let mut text = summary_line(files, lines);
    for (number, line) in lines {
        let call = format!("{number:>4}  {:<9} {:<tools$}  ", outcome_name(line.outcome), line.tool);
        let room = width.saturating_sub(call.chars().count()).max(20);
        text += &format!("{call}{}\n", truncate_to_line(&line.summary, room));
        text += &wrap_text(&describe_grounds(line), width, GROUNDS_INDENT, GROUNDS_INDENT + 2);
    }
    text
}

fn summary_line(files: &SessionFiles, lines: &[(usize, DecisionLine)]) -> String {
    let count = |found: &dyn Fn(&DecisionLine) -> bool| lines.iter().filter(|(_, line)| found(line)).count();
    let outcomes = [DecisionOutcome::Allowed, DecisionOutcome::Refused, DecisionOutcome::Cancelled]
        .map(|kind| (kind, count(&|line| line.outcome == kind)));
    let outcomes = outcomes.into_iter().filter(|(kind, count)| *count > 0 || *kind != DecisionOutcome::Cancelled);
    let mut words: Vec<String> = outcomes.map(|(kind, count)| format!("{count} {}", outcome_name(kind))).collect();
    let unasked = count(&|line| line.by == Decider::Nobody);
    if unasked > 0 {
        words.push(format!("{unasked} of these because nobody could be asked"));
    }
    let decisions = if lines.len() == 1 { "decision" } else { "decisions" };
    format!("session {}: {} {decisions}, {}\n\n", files.id(), lines.len(), words.join(", "))
}

fn render_decision(files: &SessionFiles, (number, count): (usize, usize), line: &DecisionLine, width: usize) -> String {
    let mut text = format!("decision {number} of {count} in session {}\n", files.id());
    let mut row = |name: &str, value: &str| {
        let value = wrap_text(value, width, VALUE_INDENT, VALUE_INDENT);
        text += &format!("  {name:<12}{}", value.trim_start());
    };
    row("tool", &line.tool);
    row("call", &truncate_to_line(&line.summary, usize::MAX));
    if !line.call.is_empty() {
        row("id", &line.call);
    }
    if let Some(agent) = &line.agent {
        row("agent", &format!("started by {agent}"));
    }
    if let Some(cwd) = &line.cwd {
        row("in", cwd);
    }
    row("outcome", outcome_name(line.outcome));
    row("decided by", decider_name(line.by));
    if let Some(note) = &line.note {
        row("who said", &truncate_to_line(note, usize::MAX));
    }
    for reason in policy_reasons(line) {
        row("because", &reason);
    }
    row("mode", &line.mode);
    row("when", &line.at);
    text.trim_end().to_owned()
}

fn decision_json(number: usize, line: &DecisionLine) -> String {
    json!({
        "number": number,
        "call": line.call,
        "agent": line.agent,
        "tool": line.tool,
        "summary": line.summary,
        "cwd": line.cwd,
        "outcome": line.outcome,
        "by": line.by,
        "mode": line.mode,
        "at": line.at,
        "note": line.note,
        "because": policy_reasons(line),
        "verdict": line.verdict,
    })
    .to_string()
}

/// Returns the policy's reasons, the deciding one first.
fn policy_reasons(line: &DecisionLine) -> Vec<String> {
    match serde_json::from_str::<Verdict>(line.verdict.get()) {
        Ok(verdict) => verdict.reasons.iter().map(VerdictReason::describe).collect(),
        Err(_) => vec!["the grounds were written by another version and cannot be read".to_owned()],
    }
}

/// Returns the reasons in one sentence, with the decider where that was not the policy.
fn describe_grounds(line: &DecisionLine) -> String {
    let reasons = policy_reasons(line).join("; ");
    let note =
        line.note.as_ref().map(|note| format!(" (\"{}\")", truncate_to_line(note, PAGE_WIDTH))).unwrap_or_default();
    let who = match (line.by, line.outcome) {
        (Decider::Policy, _) => return reasons,
        (Decider::Host, _) => return decider_name(line.by).to_owned(),
        (Decider::Nobody, _) => return format!("nobody could be asked: {reasons}"),
        (_, DecisionOutcome::Cancelled) => "the question was withdrawn".to_owned(),
        (by, outcome) => {
            let did = if outcome == DecisionOutcome::Allowed { "allowed" } else { "refused" };
            format!("{} {did} it", decider_name(by))
        }
    };
    format!("{who}{note}; asked because: {reasons}")
}

fn outcome_name(outcome: DecisionOutcome) -> &'static str {
    match outcome {
        DecisionOutcome::Allowed => "allowed",
        DecisionOutcome::Refused => "refused",
        DecisionOutcome::Cancelled => "cancelled",
    }
}

fn decider_name(by: Decider) -> &'static str {
    match by {
        Decider::Policy => "the rules, the mode and the place",
        Decider::Person => "a person, or the program that asks one",
        Decider::Nobody => "nobody: it needs an answer, and nobody could be asked",
        Decider::Classifier => "the classifier",
        Decider::Hook => "a hook",
        Decider::Host => "the program that drives the session, which wanted it by itself",
    }
}

/// Wraps a text at words into lines of at most this width; the first is indented by `first`, others by `rest`.
fn wrap_text(text: &str, width: usize, first: usize, rest: usize) -> String {
    let mut page = String::new();
    let (mut line, mut used) = (" ".repeat(first), first);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let begun = !line.trim_start().is_empty();
        if begun && used + 1 + length > width {
            page += &format!("{line}\n");
            (line, used) = (" ".repeat(rest), rest);
        } else if begun {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    page + &line + "\n"
}
