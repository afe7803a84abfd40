//! `gimlet sessions ls`.

use std::process::ExitCode;
use std::time::SystemTime;

use gimlet_app::session_lookup;
use gimlet_store::{SessionSummary, UnreadableSession, count_turns};
use gimlet_text::truncate_to_line;
use serde_json::{Value, json};

use super::{SessionsContext, humanize};
use crate::args::ListArgs;
use crate::report::Report;
use crate::terminal_text::page_width;

/// Page width when standard output is not a terminal.
const PAGE_WIDTH: usize = 120;
/// Characters of an id that are shown; they are enough to name a session.
const SHORT_ID: usize = 8;
/// Columns of a folder, and of one on a narrow page.
const PROJECT_WIDTH: usize = 28;
const NARROW_PROJECT: usize = 16;
/// Columns before a title, and the minimum width of one.
const BESIDE_TITLE: usize = 38;
const LEAST_TITLE: usize = 20;

pub(super) fn run(args: &ListArgs, desk: &SessionsContext<'_>) -> Result<ExitCode, Report> {
    let looked = match (&args.project, args.all) {
        (Some(dir), _) => desk.sessions_in(dir).list_oldest_first(),
        (None, true) => desk.nearby.list_everywhere(),
        (None, false) => desk.nearby.list_oldest_first(),
    };
    let (sessions, unreadable): (Vec<_>, Vec<_>) = looked.into_iter().partition(Result::is_ok);
    for error in unreadable.iter().filter_map(|result: &Result<_, UnreadableSession>| result.as_ref().err()) {
        crate::print_error_line(&format!("gimlet: {error}"));
    }
    let mut sessions: Vec<SessionSummary> = sessions.into_iter().flatten().rev().collect();
    sessions.retain(|session| session.line().is_some());
    if let Some(tag) = &args.tag {
        sessions.retain(|session| session.labels.tag.as_deref() == Some(tag.as_str()));
    }
    let found = sessions.len();
    if args.limit > 0 {
        sessions.truncate(args.limit);
    }
    if args.json {
        for session in &sessions {
            crate::print_line(&summary_json(session).to_string());
        }
    } else if !sessions.is_empty() {
        crate::print_line(gimlet_serve::sanitise(&render_table(&sessions, found, args, desk)).trim_end());
    }
    if sessions.is_empty() {
        if let Some(error) = session_lookup::unreadable_error(&desk.nearby) {
            return Err(error.into());
        }
        if !args.json {
            crate::print_error_line(&nothing_found_message(args, desk));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the message for an empty list, with its filters: one of them may be mistyped.
fn nothing_found_message(args: &ListArgs, desk: &SessionsContext<'_>) -> String {
    let tagged = args.tag.as_ref().map(|tag| format!(" with the tag '{tag}'")).unwrap_or_default();
    match &args.project {
        Some(dir) if !desk.around.cwd.join(dir).is_dir() => {
            format!("there are no sessions of {}{tagged}, and no such folder", dir.display())
        }
        Some(dir) => format!("there are no sessions of {}{tagged}", dir.display()),
        None if args.all => format!("there are no sessions{tagged}"),
        None => format!("there are no sessions of this folder{tagged} (--all shows those of others)"),
    }
}

/// Returns the summary of a session as JSON for programs.
pub(super) fn summary_json(session: &SessionSummary) -> Value {
    json!({
        "id": session.id.as_str(),
        "title": session.labels.display_title(),
        "firstPrompt": session.first_prompt,
        "lastPrompt": session.last_prompt,
        "tag": session.labels.tag.as_deref().filter(|tag| !tag.is_empty()),
        "agent": session.labels.agent.as_deref().filter(|agent| !agent.is_empty()),
        "cwd": session.cwd,
        "gitBranch": session.git_branch.as_deref().filter(|branch| !branch.is_empty()),
        "created": session.created,
        "modified": humanize::format_iso(session.modified),
        "running": session.is_driven(),
        "working": session.is_working(SystemTime::now()),
        "turns": count_turns(&session.path).ok(),
        "size": session.size,
        "path": session.path,
    })
}

fn render_table(sessions: &[SessionSummary], found: usize, args: &ListArgs, desk: &SessionsContext<'_>) -> String {
    let now = SystemTime::now();
    let width = page_width(PAGE_WIDTH);
    let is_narrow = width < BESIDE_TITLE + PROJECT_WIDTH + 2 + LEAST_TITLE;
    let project = if is_narrow { NARROW_PROJECT } else { PROJECT_WIDTH };
    let project_width = if args.all { project + 2 } else { 0 };
    let mut page = format!("{:>7}  {:>5}  {:>8}  {:<SHORT_ID$}  ", "AGE", "TURNS", "SIZE", "ID");
    page += &if args.all { format!("{:<project$}  ", "FOLDER") } else { String::new() };
    page += "TITLE OR FIRST PROMPT\n";
    let room = width.saturating_sub(BESIDE_TITLE + project_width).max(LEAST_TITLE);
    for session in sessions {
        let turns = count_turns(&session.path).map_or_else(|_| "?".to_owned(), |turns| turns.to_string());
        let id: String = session.id.as_str().chars().take(SHORT_ID).collect();
        let at_work = session.is_driven() || session.is_working(now);
        let age = if at_work { "running".to_owned() } else { humanize::format_age(session.modified, now) };
        page += &format!("{age:>7}  {turns:>5}  {:>8}  {id}  ", humanize::format_size(session.size));
        if args.all {
            let folder = session.cwd.as_ref().map(|cwd| desk.shorten_path(cwd)).unwrap_or_default();
            page += &format!("{:<project$}  ", truncate_start(&folder, project));
        }
        page += &format!("{}\n", truncate_to_line(&session_title(session), room));
    }
    if found > sessions.len() {
        page += &format!("… and {} more (--limit 0 shows all)\n", found - sessions.len());
    }
    page
}

/// Returns the display title of a session in lists.
pub(super) fn session_title(session: &SessionSummary) -> String {
    let line = session.headline().unwrap_or_default();
    match session.labels.tag.as_deref().filter(|tag| !tag.is_empty()) {
        Some(tag) => format!("[{tag}] {line}"),
        None => line.to_owned(),
    }
}

/// Truncates a path at its start, because its end is more informative.
fn truncate_start(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(count - width + 1).collect();
    format!("…{kept}")
}
