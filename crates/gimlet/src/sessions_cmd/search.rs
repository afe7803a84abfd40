//! `gimlet sessions search`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gimlet_app::session_lookup;
use gimlet_store::{SearchHit, SearchIndex, SearchIndexProgress, SearchRequest};
use serde_json::json;

use super::{SessionsContext, humanize};
use crate::args::SearchArgs;
use crate::report::Report;
use crate::terminal_text::may_use_colour;

/// Delay before the progress of indexing is shown.
const PATIENCE: Duration = Duration::from_millis(700);

pub(super) fn run(args: &SearchArgs, desk: &SessionsContext<'_>) -> Result<ExitCode, Report> {
    let since =
        args.since.as_deref().map(|text| humanize::parse_time(text, "--since", SystemTime::now())).transpose()?;
    let search = SearchRequest {
        text: query_text(&args.words),
        project_dirs: args.project.as_ref().map(|dir| desk.sessions_in(dir).project_dirs()),
        since_ms: since.map(unix_ms),
        limit: args.limit as usize,
    };
    let failed = |error: gimlet_store::SearchError| Report::new(error.to_string());
    let mut index = SearchIndex::open(&desk.locations).map_err(failed)?;
    let mut meter = IndexProgress::new();
    let updated = index.update(&mut |progress| meter.show(progress));
    meter.clear();
    updated.map_err(failed)?;
    let hits = index.find(&search).map_err(failed)?;
    if let Some(error) = session_lookup::unreadable_error(&desk.nearby)
        && hits.is_empty()
    {
        return Err(error.into());
    }
    if args.json {
        for hit in &hits {
            crate::print_line(&hit_json(hit));
        }
    } else {
        let bold = may_use_colour(&desk.around.env);
        for hit in &hits {
            crate::print_line(&hit_text(hit, desk, bold));
        }
        if hits.is_empty() {
            crate::print_error_line("nothing was found");
        } else if hits.len() == args.limit as usize {
            crate::print_error_line("there may be more: raise --limit, or add words");
        }
    }
    // As with other search tools, scripts can detect an empty result.
    Ok(ExitCode::from(u8::from(hits.is_empty())))
}

/// Returns the query: one argument is used as typed; several are single words.
fn query_text(words: &[String]) -> String {
    match words {
        [one] => one.clone(),
        several => {
            let quoted = several.iter().map(|word| match word.contains(char::is_whitespace) {
                true => format!("\"{}\"", word.replace('"', " ")),
                false => word.clone(),
            });
            quoted.collect::<Vec<_>>().join(" ")
        }
    }
}

fn unix_ms(time: SystemTime) -> i64 {
    i64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}

fn hit_text(hit: &SearchHit, desk: &SessionsContext<'_>, bold: bool) -> String {
    let time = hit.at_ms.map(humanize::format_local_ms).unwrap_or_default();
    let folder = hit.cwd.as_ref().map(|cwd| desk.shorten_path(cwd)).unwrap_or_default();
    let agent = hit.agent.as_ref().map(|agent| format!(" (agent {agent})")).unwrap_or_default();
    let head = format!("{}  {time:<16}  {:<9}  {folder}{agent}", hit.session, hit.role.as_str());
    let head = gimlet_serve::sanitise(head.trim_end()).into_owned();
    format!("{head}\n    {}", highlight_snippet(hit, bold))
}

/// Returns the snippet, sanitized piece by piece, with the matched words in bold.
fn highlight_snippet(hit: &SearchHit, bold: bool) -> String {
    let (start, end) = if bold { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let snippet = &hit.snippet;
    let (mut line, mut done) = (String::new(), 0);
    for mark in &snippet.marks {
        line += &gimlet_serve::sanitise(&snippet.text[done..mark.start]);
        line += &format!("{start}{}{end}", gimlet_serve::sanitise(&snippet.text[mark.clone()]));
        done = mark.end;
    }
    line + &gimlet_serve::sanitise(&snippet.text[done..])
}

fn hit_json(hit: &SearchHit) -> String {
    json!({
        "session": hit.session.as_str(),
        "agent": hit.agent,
        "cwd": hit.cwd,
        "at": hit.at_ms.map(humanize::format_iso_ms),
        "role": hit.role.as_str(),
        "entry": hit.entry,
        "snippet": hit.snippet.text,
        "marks": hit.snippet.marks.iter().map(|mark| [mark.start, mark.end]).collect::<Vec<_>>(),
        "path": hit.path,
    })
    .to_string()
}

/// Progress of indexing, shown on a terminal if it takes long.
struct IndexProgress {
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl IndexProgress {
    fn new() -> Self {
        Self { begun: Instant::now(), shown: None, is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, progress: SearchIndexProgress) {
        let last = self.shown.unwrap_or(self.begun);
        if !self.is_terminal || last.elapsed() < PATIENCE {
            return;
        }
        self.shown = Some(Instant::now());
        let text = format!(
            "\rreading transcripts: {} of {} ",
            humanize::format_size(progress.done),
            humanize::format_size(progress.total)
        );
        // Progress is optional, so errors are ignored.
        drop(std::io::stderr().write_all(text.as_bytes()));
    }

    fn clear(&self) {
        if self.shown.is_some() {
            drop(std::io::stderr().write_all(b"\r\x1b[K"));
        }
    }
}
