//! `gimlet sessions search`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gimlet_store::{Hit, Progress, Search, SearchIndex};
use serde_json::json;

use super::{Desk, words};
use crate::args::SearchArgs;
use crate::lookup;
use crate::page::may_use_colour;
use crate::report::Report;

/// Taking in new transcripts is not mentioned before it takes this long.
const PATIENCE: Duration = Duration::from_millis(700);

pub(super) fn run(args: &SearchArgs, desk: &Desk<'_>) -> Result<ExitCode, Report> {
    let since =
        args.since.as_deref().map(|text| words::point_in_time(text, "--since", SystemTime::now())).transpose()?;
    let search = Search {
        text: text_of(&args.words),
        project_dirs: args.project.as_ref().map(|dir| desk.folder(dir).project_dirs()),
        since_ms: since.map(milliseconds),
        limit: args.limit as usize,
    };
    let failed = |error: gimlet_store::SearchError| Report::new(error.to_string());
    let mut index = SearchIndex::open(&desk.places).map_err(failed)?;
    let mut meter = Meter::new();
    let updated = index.update(&mut |progress| meter.show(progress));
    meter.clear();
    updated.map_err(failed)?;
    let hits = index.find(&search).map_err(failed)?;
    if let Some(report) = lookup::unreadable(&desk.near).filter(|_| hits.is_empty()) {
        return Err(report);
    }
    if args.json {
        for hit in &hits {
            crate::say(&as_json(hit));
        }
    } else {
        let bold = may_use_colour(&desk.around.env);
        for hit in &hits {
            crate::say(&as_text(hit, desk, bold));
        }
        if hits.is_empty() {
            crate::say_on_stderr("nothing was found");
        } else if hits.len() == args.limit as usize {
            crate::say_on_stderr("there may be more: raise --limit, or add words");
        }
    }
    // As with other tools that search: scripts can tell nothing from something.
    Ok(ExitCode::from(u8::from(hits.is_empty())))
}

/// One argument is what was typed; several are words, each as it was given.
fn text_of(words: &[String]) -> String {
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

fn milliseconds(time: SystemTime) -> i64 {
    i64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}

fn as_text(hit: &Hit, desk: &Desk<'_>, bold: bool) -> String {
    let time = hit.at_ms.map(words::local_ms).unwrap_or_default();
    let folder = hit.cwd.as_ref().map(|cwd| desk.short(cwd)).unwrap_or_default();
    let agent = hit.agent.as_ref().map(|agent| format!(" (agent {agent})")).unwrap_or_default();
    let head = format!("{}  {time:<16}  {:<9}  {folder}{agent}", hit.session, hit.role.as_str());
    let head = gimlet_serve::sanitise(head.trim_end()).into_owned();
    format!("{head}\n    {}", marked(hit, bold))
}

/// The snippet, made harmless piece by piece, with the words that were found in bold.
fn marked(hit: &Hit, bold: bool) -> String {
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

fn as_json(hit: &Hit) -> String {
    json!({
        "session": hit.session.as_str(),
        "agent": hit.agent,
        "cwd": hit.cwd,
        "at": hit.at_ms.map(words::iso_ms),
        "role": hit.role.as_str(),
        "entry": hit.entry,
        "snippet": hit.snippet.text,
        "marks": hit.snippet.marks.iter().map(|mark| [mark.start, mark.end]).collect::<Vec<_>>(),
        "path": hit.path,
    })
    .to_string()
}

/// Says on a terminal how far taking in has come, if that takes long.
struct Meter {
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Meter {
    fn new() -> Self {
        Self { begun: Instant::now(), shown: None, is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, progress: Progress) {
        let last = self.shown.unwrap_or(self.begun);
        if !self.is_terminal || last.elapsed() < PATIENCE {
            return;
        }
        self.shown = Some(Instant::now());
        let text = format!("\rreading transcripts: {} of {} ", words::size(progress.done), words::size(progress.total));
        // Only a courtesy.
        drop(std::io::stderr().write_all(text.as_bytes()));
    }

    fn clear(&self) {
        if self.shown.is_some() {
            drop(std::io::stderr().write_all(b"\r\x1b[K"));
        }
    }
}
