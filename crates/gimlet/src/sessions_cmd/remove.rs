//! `gimlet sessions rm`: asks first, or is told not to.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::time::SystemTime;

use gimlet_store::{RemoveError, SearchIndex, SessionFiles, belongings, peek};

use super::{Desk, list, words};
use crate::args::RemoveArgs;
use crate::lookup;
use crate::page::in_one_line;
use crate::report::Report;

pub(super) fn run(args: &RemoveArgs, desk: &Desk<'_>) -> Result<ExitCode, Report> {
    let chosen = choose(args, desk)?;
    if chosen.is_empty() {
        crate::say("there is nothing to delete");
        return Ok(ExitCode::SUCCESS);
    }
    let list: Vec<String> = chosen.iter().map(|files| describe(files, desk)).collect();
    let sessions = words::count(chosen.len(), "session", "sessions");
    if args.dry_run {
        crate::say(&gimlet_serve::sanitise(&list.join("\n")));
        crate::say(&format!("{sessions} would be deleted"));
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !agreed(&list, &sessions)? {
        crate::say("nothing was deleted");
        return Ok(ExitCode::from(1));
    }
    let (mut removed, mut bytes, mut failed) = (0, 0, false);
    for files in &chosen {
        match gimlet_store::remove(&desk.places, files) {
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
                crate::say_on_stderr(&format!("gimlet: {error}{next}"));
            }
        }
    }
    if removed > 0
        && let Err(error) = SearchIndex::purge(&desk.places)
    {
        failed = true;
        crate::say_on_stderr(&format!("gimlet: words of what was deleted may still be in the search index: {error}"));
    }
    match removed {
        0 => crate::say("nothing was deleted"),
        _ => crate::say(&format!("deleted {} ({})", words::count(removed, "session", "sessions"), words::size(bytes))),
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn choose(args: &RemoveArgs, desk: &Desk<'_>) -> Result<Vec<SessionFiles>, Report> {
    let Some(age) = &args.older_than else {
        let mut chosen: Vec<SessionFiles> = Vec::new();
        for name in &args.sessions {
            let files = desk.named(name)?;
            if !chosen.contains(&files) {
                chosen.push(files);
            }
        }
        return Ok(chosen);
    };
    let limit = words::point_in_time(age, "--older-than", SystemTime::now())?;
    let looked = if args.all { desk.near.everywhere() } else { desk.near.oldest_first() };
    looked
        .into_iter()
        .flatten()
        .filter(|session| session.modified < limit)
        .map(|session| lookup::of_summary(&session))
        .collect()
}

fn describe(files: &SessionFiles, desk: &Desk<'_>) -> String {
    let summary = peek(&files.transcript()).ok().flatten();
    let line = summary.as_ref().map(list::title).filter(|line| !line.is_empty());
    let line = line.as_deref().unwrap_or("(nothing was said)");
    let age = summary.as_ref().map(|summary| words::age(summary.modified, SystemTime::now())).unwrap_or_default();
    let beside = match belongings(&desk.places, files).len().saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {} beside it", words::count(more, "file or folder", "files or folders")),
    };
    format!("{}  {age}  {}{beside}", files.id(), in_one_line(line, 80))
}

fn agreed(list: &[String], sessions: &str) -> Result<bool, Report> {
    const SHOWN: usize = 20;
    if !std::io::stdin().is_terminal() {
        return Err(Report::new(format!("nobody can be asked whether to delete {sessions}"))
            .hint("Add --yes to delete without asking, or --dry-run to see which"));
    }
    for line in list.iter().take(SHOWN) {
        crate::say_on_stderr(line);
    }
    if list.len() > SHOWN {
        crate::say_on_stderr(&format!("… and {} more", list.len() - SHOWN));
    }
    let mut out = std::io::stderr();
    // Nobody reading the question is nobody who says yes.
    drop(write!(out, "Delete {sessions} for good? [y/N] ").and_then(|()| out.flush()));
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Report::new(format!("the answer cannot be read: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
