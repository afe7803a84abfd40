//! `gimlet cost`: what sessions have cost, from the ledgers beside their transcripts.
//!
//! Without an option it shows days; a day shows its sessions, and a session its models and what its requests were for.

mod cost_table;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use gimlet_app::{ProcessEnv, session_lookup};
use gimlet_store::{
    CostLine, CostTotals, ProjectSessions, RequestPurpose, SessionFiles, StoreLocations, list_project_folders,
    other_worktrees, read_costs, read_summary,
};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::args::CostArgs;
use crate::report::Report;

/// Number of days that are shown.
const MOST_DAYS: usize = 14;
/// Number of sessions of a day that are shown.
const MOST_SESSIONS: usize = 30;

/// Sums under a common name.
struct CostGroup {
    name: String,
    totals: CostTotals,
}

/// Sums of what was asked for, and by what they are grouped.
struct CostOverview {
    /// Kind of the groups: `day`, `session` or `model`.
    by: &'static str,
    groups: Vec<CostGroup>,
    totals: CostTotals,
    /// Number of sessions that it is about.
    sessions: usize,
    /// Requests of a single session.
    requests: Option<Vec<CostLine>>,
}

/// Sessions with their requests.
struct SessionCosts {
    files: SessionFiles,
    lines: Vec<CostLine>,
}

pub(crate) fn run(args: &CostArgs, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let places = StoreLocations::new(&around.config_home);
    let overview = match &args.session {
        Some(name) => session_overview(name, &places, around)?,
        None => {
            let folders = match &args.project {
                None => list_project_folders(&places),
                Some(dir) => {
                    let dir = session_lookup::folder(dir, &around.cwd).map_err(Report::new)?;
                    ProjectSessions::new(&places, &dir, &other_worktrees(&dir)).project_dirs()
                }
            };
            let sessions = read_sessions(&folders);
            match &args.day {
                None => days_overview(&sessions),
                Some(day) => day_overview(parse_day(day)?, &sessions),
            }
        }
    };
    let text = match args.json {
        true => overview_json(&overview).to_string(),
        false => cost_table::render_overview(&overview),
    };
    crate::print_line(gimlet_serve::sanitise(&text).trim_end());
    Ok(ExitCode::SUCCESS)
}

/// Reads the ledgers of all sessions in these folders. Sessions without one have sent nothing, or are older.
fn read_sessions(folders: &[PathBuf]) -> Vec<SessionCosts> {
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let found = entries.filter_map(|entry| SessionFiles::from_transcript(&entry.path()));
    let read = |files: SessionFiles| {
        let lines = read_lines(&files).unwrap_or_else(|problem| {
            crate::print_error_line(&format!("gimlet: {problem}"));
            Vec::new()
        });
        SessionCosts { files, lines }
    };
    let mut sessions: Vec<SessionCosts> = found.map(read).filter(|session| !session.lines.is_empty()).collect();
    sessions.sort_by(|one, other| one.lines[0].at.cmp(&other.lines[0].at));
    sessions
}

fn read_lines(files: &SessionFiles) -> Result<Vec<CostLine>, String> {
    let path = files.costs();
    let (lines, unreadable) =
        read_costs(files).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    if unreadable > 0 {
        crate::print_error_line(&format!("gimlet: {unreadable} lines of {} cannot be read", path.display()));
    }
    Ok(lines)
}

/// Returns the local day of a request.
fn local_day(line: &CostLine) -> Option<Date> {
    Some(line.at.parse::<Timestamp>().ok()?.to_zoned(TimeZone::system()).date())
}

/// Parses a day; an empty text is today.
fn parse_day(text: &str) -> Result<Date, Report> {
    if text.is_empty() {
        return Ok(Timestamp::now().to_zoned(TimeZone::system()).date());
    }
    text.parse().map_err(|_| Report::new(format!("'{text}' is no day")).with_hint("Give it as 2026-01-31"))
}

fn sum_groups<K: Ord>(lines: impl Iterator<Item = (K, CostLine)>) -> BTreeMap<K, CostTotals> {
    let mut groups: BTreeMap<K, CostTotals> = BTreeMap::new();
    lines.for_each(|(key, line)| groups.entry(key).or_default().add(&line));
    groups
}

fn days_overview(sessions: &[SessionCosts]) -> CostOverview {
    let lines = || sessions.iter().flat_map(|session| &session.lines);
    let days = sum_groups(lines().filter_map(|line| Some((local_day(line)?, line.clone()))));
    let shown = days.into_iter().rev().take(MOST_DAYS);
    let mut groups: Vec<CostGroup> = shown.map(|(day, totals)| CostGroup { name: day.to_string(), totals }).collect();
    groups.reverse();
    CostOverview { by: "day", groups, totals: lines().collect(), sessions: sessions.len(), requests: None }
}

fn day_overview(day: Date, sessions: &[SessionCosts]) -> CostOverview {
    let of_day = |session: &SessionCosts| {
        let totals: CostTotals = session.lines.iter().filter(|line| local_day(line) == Some(day)).collect();
        (totals.requests > 0).then(|| (session.files.clone(), totals))
    };
    let mut found: Vec<(SessionFiles, CostTotals)> = sessions.iter().filter_map(of_day).collect();
    found.sort_by(|one, other| other.1.known_usd.total_cmp(&one.1.known_usd));
    let all = sessions.iter().flat_map(|session| &session.lines).filter(|line| local_day(line) == Some(day));
    let count = found.len();
    let groups = found.into_iter().take(MOST_SESSIONS).map(|(files, totals)| {
        let summary = read_summary(&files.transcript()).ok().flatten();
        let title = summary.and_then(|summary| summary.line().map(str::to_owned));
        let id = &files.id().as_str()[..8];
        let name = title.map_or_else(|| id.to_owned(), |title| format!("{id} {}", cost_table::shorten_title(&title)));
        CostGroup { name, totals }
    });
    CostOverview { by: "session", groups: groups.collect(), totals: all.collect(), sessions: count, requests: None }
}

fn session_overview(name: &str, places: &StoreLocations, around: &ProcessEnv) -> Result<CostOverview, Report> {
    let sessions = ProjectSessions::new(places, &around.cwd, &other_worktrees(&around.cwd));
    let files = match name {
        "" => session_lookup::latest_session(&sessions, "Name one: gimlet cost --session SESSION")?,
        name => session_lookup::find_session(&sessions, name)?,
    };
    let files = SessionFiles::from_transcript(&around.cwd.join(files.transcript())).unwrap_or(files);
    let lines = read_lines(&files).map_err(Report::new)?;
    let models = sum_groups(lines.iter().map(|line| (line.model.clone(), line.clone())));
    let groups = models.into_iter().map(|(name, totals)| CostGroup { name, totals }).collect();
    Ok(CostOverview { by: "model", groups, totals: lines.iter().collect(), sessions: 1, requests: Some(lines) })
}

/// Returns what a request was for, in a word.
fn purpose_name(line: &CostLine) -> &'static str {
    match (line.purpose, &line.agent) {
        (RequestPurpose::Reply, None) => "conversation",
        (RequestPurpose::Reply, Some(_)) => "subagents",
        (RequestPurpose::Summary, _) => "summaries",
        (RequestPurpose::Review, _) => "auto mode",
        (RequestPurpose::Hook, _) => "hooks",
        (RequestPurpose::Aside, _) => "side questions",
        (RequestPurpose::Declined, _) => "declined",
    }
}

fn overview_json(overview: &CostOverview) -> Value {
    let groups = overview.groups.iter().map(|group| {
        let mut value = totals_json(&group.totals);
        value["name"] = json!(group.name);
        value
    });
    let mut value = json!({
        "total": totals_json(&overview.totals),
        "sessions": overview.sessions,
        "by": overview.by,
        "groups": groups.collect::<Vec<_>>(),
    });
    if let Some(requests) = &overview.requests {
        value["requests"] = serde_json::to_value(requests).unwrap_or_default();
    }
    value
}

fn totals_json(totals: &CostTotals) -> Value {
    let usage = &totals.usage;
    json!({
        "requests": totals.requests,
        "cost_usd": if totals.unpriced.is_empty() { json!(totals.known_usd) } else { Value::Null },
        "known_cost_usd": totals.known_usd,
        "unpriced_models": totals.unpriced,
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_input_tokens,
        "cache_write_tokens": usage.cache_creation_input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_hit_rate": totals.hit_rate(),
        "saved_usd": totals.saved_usd,
        "cache_misses": totals.misses,
    })
}
