//! `gimlet sessions rm`: asks for confirmation unless a flag skips it.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::time::SystemTime;

use gimlet_app::session_lookup;
use gimlet_store::{RemoveError, SearchIndex, SessionFiles, read_summary, session_paths};
use gimlet_text::truncate_to_line;

use super::{SessionsContext, humanize, list};
use crate::args::RemoveArgs;
use crate::report::Report;

pub(super) fn run(args: &RemoveArgs, desk: &SessionsContext<'_>) -> Result<ExitCode, Report> {
    let chosen = select_sessions(args, desk)?;
    if chosen.is_empty() {
        crate::print_line("there is nothing to delete");
        return Ok(ExitCode::SUCCESS);
    }
    let list: Vec<String> = chosen.iter().map(|files| describe_session(files, desk)).collect();
    let sessions = humanize::pluralize(chosen.len(), "session", "sessions");
    if args.dry_run {
        crate::print_line(&gimlet_serve::sanitise(&list.join("\n")));
        crate::print_line(&format!("{sessions} would be deleted"));
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !confirm_removal(&list, &sessions)? {
        crate::print_line("nothing was deleted");
        return Ok(ExitCode::from(1));
    }
    let (mut removed, mut bytes, mut failed) = (0, 0, false);
    for files in &chosen {
        match gimlet_store::remove_session(&desk.locations, files) {
            Ok(gone) => {
                removed += 1;
                bytes += gone.bytes;
            }
            Err(error) => {
                failed = true;
                let next = match error {
                    RemoveError::Busy { .. } => "; end that one, then delete the session again",
                    RemoveError::Delete { .. } => "",
                };
                crate::print_error_line(&format!("gimlet: {error}{next}"));
            }
        }
    }
    if removed > 0
        && let Err(error) = SearchIndex::purge_missing(&desk.locations)
    {
        failed = true;
        crate::print_error_line(&format!(
            "gimlet: words of what was deleted may still be in the search index: {error}"
        ));
    }
    match removed {
        0 => crate::print_line("nothing was deleted"),
        _ => crate::print_line(&format!(
            "deleted {} ({})",
            humanize::pluralize(removed, "session", "sessions"),
            humanize::format_size(bytes)
        )),
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn select_sessions(args: &RemoveArgs, desk: &SessionsContext<'_>) -> Result<Vec<SessionFiles>, Report> {
    let Some(age) = &args.older_than else {
        let mut chosen: Vec<SessionFiles> = Vec::new();
        for name in &args.sessions {
            let files = desk.find_session(name)?;
            if !chosen.contains(&files) {
                chosen.push(files);
            }
        }
        return Ok(chosen);
    };
    let limit = humanize::parse_time(age, "--older-than", SystemTime::now())?;
    let looked = if args.all { desk.nearby.list_everywhere() } else { desk.nearby.list_oldest_first() };
    looked
        .into_iter()
        .flatten()
        .filter(|session| session.modified < limit)
        .map(|session| Ok(session_lookup::session_for_summary(&session)?))
        .collect()
}

fn describe_session(files: &SessionFiles, desk: &SessionsContext<'_>) -> String {
    let summary = read_summary(&files.transcript()).ok().flatten();
    let line = summary.as_ref().map(list::session_title).filter(|line| !line.is_empty());
    let line = line.as_deref().unwrap_or("(nothing was said)");
    let age =
        summary.as_ref().map(|summary| humanize::format_age(summary.modified, SystemTime::now())).unwrap_or_default();
    let beside = match session_paths(&desk.locations, files).len().saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {} beside it", humanize::pluralize(more, "file or folder", "files or folders")),
    };
    format!("{}  {age}  {}{beside}", files.id(), truncate_to_line(line, 80))
}

fn confirm_removal(list: &[String], sessions: &str) -> Result<bool, Report> {
    const SHOWN: usize = 20;
    if !std::io::stdin().is_terminal() {
        return Err(Report::new(format!("refusing to delete without --yes {sessions}"))
            .with_hint("Add --yes to delete without asking, or --dry-run to see which"));
    }
    for line in list.iter().take(SHOWN) {
        crate::print_error_line(line);
    }
    if list.len() > SHOWN {
        crate::print_error_line(&format!("… and {} more", list.len() - SHOWN));
    }
    let mut out = std::io::stderr();
    // If the question cannot be written, the answer will not be yes.
    drop(write!(out, "Delete {sessions} for good? [y/N] ").and_then(|()| out.flush()));
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Report::new(format!("the answer cannot be read: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
