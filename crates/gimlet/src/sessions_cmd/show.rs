//! `gimlet sessions show`: a session's metadata and its messages.

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;

use gimlet_app::session_lookup;
use gimlet_proto::{Block, BlockKind};
use gimlet_store::{
    SessionSummary, TranscriptItem, TranscriptItemKind, count_turns, open_transcript_view, read_summary,
};
use gimlet_text::truncate_to_line;

use super::{SessionsContext, export, humanize, list};
use crate::args::ShowArgs;
use crate::report::Report;

/// Default number of lines shown of a result.
const FEW_LINES: usize = 3;
const LINE_WIDTH: usize = 160;

pub(super) fn run(args: &ShowArgs, desk: &SessionsContext<'_>) -> Result<ExitCode, Report> {
    let files = match &args.session {
        Some(name) => desk.find_session(name)?,
        None => session_lookup::latest_session(&desk.nearby, "Name one: gimlet sessions show SESSION")?,
    };
    let path = files.transcript();
    let summary = read_summary(&path)
        .map_err(|error| Report::new(format!("{} cannot be read: {error}", path.display())))?
        .ok_or_else(|| Report::new(format!("{} is empty", path.display())))?;
    if args.json {
        crate::print_line(&list::summary_json(&summary).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let story = open_transcript_view(&path).map_err(|error| Report::new(error.to_string()))?;
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let redactor = export::env_redactor(&desk.around.env);
    let mut say =
        |text: &str| crate::record_write_result(writeln!(out, "{}", gimlet_serve::sanitise(&redactor.mask(text))));
    say(&header_table(&summary, desk));
    if !story.damage.is_empty() {
        say(&format!(
            "damage    {} (see 'gimlet sessions fsck {}')",
            humanize::pluralize(story.damage.total, "finding", "findings"),
            files.id()
        ));
    }
    let first = first_item_index(args, &story)?;
    let mut names = ToolNames::default();
    for (at, moment) in story.items().enumerate() {
        let moment = moment.map_err(|error| Report::new(error.to_string()))?;
        names.record_calls(&moment);
        if at < first {
            continue;
        }
        let text = item_text(&moment, &names, args.full);
        if !text.is_empty() && !say(&text) {
            break;
        }
    }
    crate::record_write_result(out.flush());
    Ok(ExitCode::SUCCESS)
}

fn header_table(session: &SessionSummary, desk: &SessionsContext<'_>) -> String {
    let mut rows = vec![("session", session.id.to_string())];
    let mut row =
        |name, value: Option<String>| rows.extend(value.filter(|value| !value.is_empty()).map(|value| (name, value)));
    row("title", session.labels.display_title().map(str::to_owned));
    row("tag", session.labels.tag.clone());
    row("agent", session.labels.agent.clone());
    row("folder", session.cwd.as_ref().map(|cwd| desk.shorten_path(cwd)));
    row("branch", session.git_branch.clone());
    row("begun", session.created.as_deref().map(humanize::format_local_time));
    row("changed", Some(humanize::format_local_time(&humanize::format_iso(session.modified))));
    row("turns", count_turns(&session.path).ok().map(|turns| turns.to_string()));
    row("size", Some(humanize::format_size(session.size)));
    row("file", Some(desk.shorten_path(&session.path)));
    rows.iter().map(|(name, value)| format!("{name:<10}{value}")).collect::<Vec<_>>().join("\n")
}

/// Returns the index of the entry with which the last turns begin.
fn first_item_index(args: &ShowArgs, story: &gimlet_store::TranscriptView) -> Result<usize, Report> {
    let Some(last) = args.last else { return Ok(0) };
    let mut prompts = Vec::new();
    for (at, moment) in story.items().enumerate() {
        if moment.map_err(|error| Report::new(error.to_string()))?.kind == TranscriptItemKind::Prompt {
            prompts.push(at);
        }
    }
    Ok(prompts.len().checked_sub(last).and_then(|skipped| prompts.get(skipped)).copied().unwrap_or(if last == 0 {
        usize::MAX
    } else {
        0
    }))
}

/// Returns one entry as text; empty for entries that only programs read.
fn item_text(moment: &TranscriptItem, names: &ToolNames, full: bool) -> String {
    let time = moment.at.as_deref().map(humanize::format_local_time).unwrap_or_default();
    let heading = match moment.kind {
        // Written for the model in the user's name.
        TranscriptItemKind::Prompt if is_interruption(moment) => format!("\n── interrupted · {time}"),
        TranscriptItemKind::Prompt => format!("\n── you · {time}"),
        TranscriptItemKind::Summary => format!("\n── summary of what was before · {time}"),
        TranscriptItemKind::Compacted => return format!("\n══ compacted · {time}"),
        TranscriptItemKind::Failure => format!("\n── error · {time}"),
        TranscriptItemKind::Reply => String::new(),
        TranscriptItemKind::Results => String::new(),
        TranscriptItemKind::Injected | TranscriptItemKind::Note => return String::new(),
    };
    let mut lines: Vec<String> = Some(heading).filter(|heading| !heading.is_empty()).into_iter().collect();
    lines.extend(moment.blocks.iter().filter_map(|block| block_text(moment, block, names, full)));
    lines.join("\n")
}

fn is_interruption(moment: &TranscriptItem) -> bool {
    let says = |block: &Block| block.as_text().is_some_and(|text| text.starts_with("[Request interrupted by user"));
    moment.blocks.first().is_some_and(says)
}

fn block_text(moment: &TranscriptItem, block: &Block, names: &ToolNames, full: bool) -> Option<String> {
    match block.kind() {
        BlockKind::Text => {
            let text = block.as_text()?.trim_end().to_owned();
            Some(match &moment.model {
                Some(model) if moment.kind == TranscriptItemKind::Reply => format!("\n── {model}\n{text}"),
                _ => text,
            })
        }
        BlockKind::ToolUse => {
            let call = block.as_tool_use()?;
            Some(format!("  → {} {}", call.name, truncate_to_line(&summarize_input(call.input.get()), LINE_WIDTH)))
        }
        BlockKind::ToolResult => {
            let failed = block.as_tool_result().is_some_and(|parts| parts.is_error);
            let how = if failed { " (error)" } else { "" };
            Some(
                format!("  ← {}{how}\n{}", names.tool_for_result(block), clip_result(&tool_result_text(block), full))
                    .trim_end()
                    .to_owned(),
            )
        }
        BlockKind::Image => Some("  [image]".to_owned()),
        _ => None,
    }
}

/// Tool names by call id: results come in the order in which they were ready.
#[derive(Default)]
pub(super) struct ToolNames(HashMap<String, String>);

impl ToolNames {
    pub(super) fn record_calls(&mut self, moment: &TranscriptItem) {
        for call in moment.blocks.iter().filter_map(Block::as_tool_use) {
            self.0.insert(call.id.into_owned(), call.name.into_owned());
        }
    }

    /// Returns the tool of a result.
    pub(super) fn tool_for_result(&self, result: &Block) -> &str {
        result.id().and_then(|id| self.0.get(id)).map_or("a call", String::as_str)
    }
}

/// Summarizes a call: the first text of its input, or all of it.
pub(super) fn summarize_input(input: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(input).unwrap_or_default();
    let first = value.as_object().and_then(|members| members.values().find_map(|member| member.as_str()));
    first.map_or_else(|| input.to_owned(), str::to_owned)
}

/// Returns the text of a result; images are named.
pub(super) fn tool_result_text(block: &Block) -> String {
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
        // Text that cannot be decoded, such as half a character, is shown as it is written.
        _ => content,
    }
}

fn clip_result(text: &str, full: bool) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let shown = if full { lines.len() } else { FEW_LINES.min(lines.len()) };
    let mut page: Vec<String> = lines[..shown]
        .iter()
        .map(|line| format!("    {}", if full { (*line).to_owned() } else { truncate_to_line(line, LINE_WIDTH) }))
        .collect();
    if lines.len() > shown {
        page.push(format!("    … {} more", humanize::pluralize(lines.len() - shown, "line", "lines")));
    }
    page.join("\n")
}
