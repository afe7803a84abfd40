//! `gimlet context`: which text from which file was in front of the model in each turn of a session, and why.

use std::path::Path;
use std::process::ExitCode;

use gimlet_app::{ProcessEnv, session_lookup};
use gimlet_core::commands::text_table;
use gimlet_store::{
    ContextPartKind, ContextPartSource, ProjectSessions, SegmentContextPart, StoreLocations, TurnContext,
    other_worktrees, read_context_log,
};
use gimlet_text::truncate_to_line;
use serde_json::{Value, json};

use crate::args::ContextArgs;
use crate::report::Report;

/// Maximum width of a prompt.
const PROMPT_WIDTH: usize = 80;

pub(crate) fn run(args: &ContextArgs, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let locations = StoreLocations::new(&around.config_home);
    let sessions = ProjectSessions::new(&locations, &around.cwd, &other_worktrees(&around.cwd));
    let files = match &args.session {
        Some(name) => session_lookup::find_session(&sessions, name)?,
        None => session_lookup::latest_session(&sessions, "Name one: gimlet context SESSION")?,
    };
    let path = around.cwd.join(files.transcript());
    let turns =
        read_context_log(&path).map_err(|error| Report::new(format!("{} cannot be read: {error}", path.display())))?;
    let page = match args.json {
        true => turns.iter().enumerate().map(|(at, turn)| turn_json(at + 1, turn).to_string()).collect(),
        false => render_turns(&turns, args.full, around),
    };
    if page.is_empty() {
        crate::print_line("This session has no turns yet.");
    } else {
        crate::print_line(&gimlet_serve::sanitise(&page.join("\n")));
    }
    Ok(ExitCode::SUCCESS)
}

fn render_turns(turns: &[TurnContext], full: bool, around: &ProcessEnv) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let prompt = turn.prompt.as_deref().unwrap_or("(before the first prompt)");
        lines.push(format!("turn {}: {}", at + 1, truncate_to_line(prompt, PROMPT_WIDTH)));
        let opening = turn.opening.as_deref().unwrap_or_default();
        if opening.is_empty() && turn.joined.is_empty() {
            lines.push(if at == 0 { "  nothing".to_owned() } else { "  nothing new".to_owned() });
        }
        for (title, parts) in [("in front of the conversation", opening), ("joined", &turn.joined)] {
            if !parts.is_empty() {
                lines.push(format!("  {title}:"));
                lines.extend(render_parts(parts, full, around));
            }
        }
    }
    lines
}

fn render_parts(parts: &[SegmentContextPart], full: bool, around: &ProcessEnv) -> Vec<String> {
    let row = |part: &SegmentContextPart| {
        let (name, why) = match &part.source {
            Some(source) => (short_path(&source.path, around), describe_reason(source, around)),
            None => (kind_name(part.kind).to_owned(), String::new()),
        };
        let scope = part.source.as_ref().map_or_else(|| "gimlet".to_owned(), |source| source.scope.clone());
        vec![scope, name, format!("{} bytes", part.text.len()), why]
    };
    let indent = |text: &str, by: usize| text.lines().map(|line| format!("{:by$}{line}", "")).collect::<Vec<_>>();
    if !full {
        return indent(&text_table(&parts.iter().map(row).collect::<Vec<_>>(), false), 4);
    }
    let mut lines = Vec::new();
    for part in parts {
        lines.extend(indent(&text_table(&[row(part)], false), 4));
        lines.extend(indent(&part.text, 8));
    }
    lines
}

fn kind_name(kind: ContextPartKind) -> &'static str {
    match kind {
        ContextPartKind::Memory => "(words about memory)",
        ContextPartKind::Skills => "(list of skills)",
        ContextPartKind::Agents => "(list of agents)",
        ContextPartKind::Other => "(of a newer version)",
    }
}

fn describe_reason(source: &ContextPartSource, around: &ProcessEnv) -> String {
    let short = |path: &Option<String>| short_path(path.as_deref().unwrap_or_default(), around);
    let why = match source.reason.as_str() {
        "session_start" => "at the start".to_owned(),
        "nested_traversal" => format!("its folder, when {} was read", short(&source.trigger)),
        "path_glob_match" => format!("{}, when {} was read", source.globs.join(", "), short(&source.trigger)),
        "include" => format!("imported by {}", short(&source.parent)),
        "removed" => "no longer there".to_owned(),
        other => other.to_owned(),
    };
    if source.digest.is_none() && source.reason != "removed" { format!("{why}; only its place") } else { why }
}

/// Returns a path with the home directory as `~`.
fn short_path(path: &str, around: &ProcessEnv) -> String {
    let below = around.home.as_ref().and_then(|home| Path::new(path).strip_prefix(home).ok());
    below.map_or_else(|| path.to_owned(), |rest| format!("~/{}", rest.display()))
}

fn turn_json(number: usize, turn: &TurnContext) -> Value {
    json!({"turn": number, "prompt": turn.prompt, "opening": turn.opening, "joined": turn.joined})
}
