//! `gimlet sessions show`: what a session is, and what was said in it.

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;

use gimlet_proto::{Block, BlockKind};
use gimlet_store::{Moment, MomentKind, SessionSummary, count_turns, peek, read_story};

use super::{Desk, export, list, words};
use crate::args::ShowArgs;
use crate::lookup;
use crate::page::in_one_line;
use crate::report::Report;

/// Lines of a result that are shown unless all are asked for.
const FEW_LINES: usize = 3;
const LINE_WIDTH: usize = 160;

pub(super) fn run(args: &ShowArgs, desk: &Desk<'_>) -> Result<ExitCode, Report> {
    let files = match &args.session {
        Some(name) => desk.named(name)?,
        None => lookup::latest(&desk.near, "Name one: gimlet sessions show SESSION")?,
    };
    let path = files.transcript();
    let summary = peek(&path)
        .map_err(|error| Report::new(format!("{} cannot be read: {error}", path.display())))?
        .ok_or_else(|| Report::new(format!("{} is empty", path.display())))?;
    if args.json {
        crate::say(&list::as_json(&summary).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let story = read_story(&path).map_err(|error| Report::new(error.to_string()))?;
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let redactor = export::redactor(&desk.around.env);
    let mut say = |text: &str| crate::heard(writeln!(out, "{}", gimlet_serve::sanitise(&redactor.mask(text))));
    say(&head(&summary, desk));
    if !story.damage.is_empty() {
        say(&format!(
            "damage    {} (see 'gimlet sessions fsck {}')",
            words::count(story.damage.total, "finding", "findings"),
            files.id()
        ));
    }
    let first = first_shown(args, &story)?;
    let mut names = Names::default();
    for (at, moment) in story.moments().enumerate() {
        let moment = moment.map_err(|error| Report::new(error.to_string()))?;
        names.note(&moment);
        if at < first {
            continue;
        }
        let text = said(&moment, &names, args.full);
        if !text.is_empty() && !say(&text) {
            break;
        }
    }
    crate::heard(out.flush());
    Ok(ExitCode::SUCCESS)
}

fn head(session: &SessionSummary, desk: &Desk<'_>) -> String {
    let mut rows = vec![("session", session.id.to_string())];
    let mut row =
        |name, value: Option<String>| rows.extend(value.filter(|value| !value.is_empty()).map(|value| (name, value)));
    row("title", session.labels.shown_title().map(str::to_owned));
    row("tag", session.labels.tag.clone());
    row("agent", session.labels.agent.clone());
    row("folder", session.cwd.as_ref().map(|cwd| desk.short(cwd)));
    row("branch", session.git_branch.clone());
    row("begun", session.created.as_deref().map(words::local));
    row("changed", Some(words::local(&words::iso(session.modified))));
    row("turns", count_turns(&session.path).ok().map(|turns| turns.to_string()));
    row("size", Some(words::size(session.size)));
    row("file", Some(desk.short(&session.path)));
    rows.iter().map(|(name, value)| format!("{name:<10}{value}")).collect::<Vec<_>>().join("\n")
}

/// The moment with which the last turns begin.
fn first_shown(args: &ShowArgs, story: &gimlet_store::Story) -> Result<usize, Report> {
    let Some(last) = args.last else { return Ok(0) };
    let mut prompts = Vec::new();
    for (at, moment) in story.moments().enumerate() {
        if moment.map_err(|error| Report::new(error.to_string()))?.kind == MomentKind::Prompt {
            prompts.push(at);
        }
    }
    Ok(prompts.len().checked_sub(last).and_then(|skipped| prompts.get(skipped)).copied().unwrap_or(if last == 0 {
        usize::MAX
    } else {
        0
    }))
}

/// One entry as text; empty for what only programs read.
fn said(moment: &Moment, names: &Names, full: bool) -> String {
    let time = moment.at.as_deref().map(words::local).unwrap_or_default();
    let heading = match moment.kind {
        // Written for the model in the person's name.
        MomentKind::Prompt if is_interruption(moment) => format!("\n── interrupted · {time}"),
        MomentKind::Prompt => format!("\n── you · {time}"),
        MomentKind::Summary => format!("\n── summary of what was before · {time}"),
        MomentKind::Compacted => return format!("\n══ compacted · {time}"),
        MomentKind::Failure => format!("\n── error · {time}"),
        MomentKind::Reply => String::new(),
        MomentKind::Results => String::new(),
        MomentKind::Injected | MomentKind::Note => return String::new(),
    };
    let mut lines: Vec<String> = Some(heading).filter(|heading| !heading.is_empty()).into_iter().collect();
    lines.extend(moment.blocks.iter().filter_map(|block| block_text(moment, block, names, full)));
    lines.join("\n")
}

fn is_interruption(moment: &Moment) -> bool {
    let says = |block: &Block| block.as_text().is_some_and(|text| text.starts_with("[Request interrupted by user"));
    moment.blocks.first().is_some_and(says)
}

fn block_text(moment: &Moment, block: &Block, names: &Names, full: bool) -> Option<String> {
    match block.kind() {
        BlockKind::Text => {
            let text = block.as_text()?.trim_end().to_owned();
            let speaker = moment.model.as_deref().filter(|_| moment.kind == MomentKind::Reply);
            Some(match speaker {
                Some(model) => format!("\n── {model}\n{text}"),
                None => text,
            })
        }
        BlockKind::ToolUse => {
            let call = block.as_tool_use()?;
            Some(format!("  → {} {}", call.name, in_one_line(&gist(call.input.get()), LINE_WIDTH)))
        }
        BlockKind::ToolResult => {
            let failed = block.as_tool_result().is_some_and(|parts| parts.is_error);
            let how = if failed { " (error)" } else { "" };
            Some(
                format!("  ← {}{how}\n{}", names.of(block), result_text(&result_of(block), full)).trim_end().to_owned(),
            )
        }
        BlockKind::Image => Some("  [image]".to_owned()),
        _ => None,
    }
}

/// What was called, by the ids of the calls: results come in the order in which they were ready.
#[derive(Default)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    pub(super) fn note(&mut self, moment: &Moment) {
        for call in moment.blocks.iter().filter_map(Block::as_tool_use) {
            self.0.insert(call.id.into_owned(), call.name.into_owned());
        }
    }

    /// The tool whose result this is.
    pub(super) fn of(&self, result: &Block) -> &str {
        result.id().and_then(|id| self.0.get(id)).map_or("a call", String::as_str)
    }
}

/// What a call is about: the first text of its input, or all of it.
pub(super) fn gist(input: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(input).unwrap_or_default();
    let first = value.as_object().and_then(|members| members.values().find_map(|member| member.as_str()));
    first.map_or_else(|| input.to_owned(), str::to_owned)
}

/// The text of a result; images are named.
pub(super) fn result_of(block: &Block) -> String {
    let Some(content) = block.as_tool_result().and_then(|parts| parts.content.map(|content| content.get().to_owned()))
    else {
        return String::new();
    };
    match serde_json::from_str::<serde_json::Value>(&content) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Array(parts)) => {
            let texts = parts.iter().map(|part| match part["text"].as_str() {
                Some(text) => text.to_owned(),
                None => format!("[{}]", part["type"].as_str().unwrap_or("something")),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        // Half a character stands in it: what cannot be decoded is shown as it is written.
        _ => content,
    }
}

fn result_text(text: &str, full: bool) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let shown = if full { lines.len() } else { FEW_LINES.min(lines.len()) };
    let mut page: Vec<String> = lines[..shown]
        .iter()
        .map(|line| format!("    {}", if full { (*line).to_owned() } else { in_one_line(line, LINE_WIDTH) }))
        .collect();
    if lines.len() > shown {
        page.push(format!("    … {} more", words::count(lines.len() - shown, "line", "lines")));
    }
    page.join("\n")
}
