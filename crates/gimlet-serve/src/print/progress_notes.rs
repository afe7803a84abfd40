//! One-line progress notes for the user, on the side channel of print mode.

use super::permission_flags;
use gimlet_proto::{CompactionView, Denial, EventBody, NoticeLevel, ToolCallPhase, View, unknown_command_text};

/// Returns the note for an event, if one is due. Without `verbose` only events that need attention have one.
pub(super) fn format_note(body: &EventBody, verbose: bool) -> Option<String> {
    match body {
        EventBody::Notice(notice) => match notice.level {
            NoticeLevel::Debug => None,
            NoticeLevel::Info => verbose.then(|| format!("gimlet: {}", notice.text)),
            NoticeLevel::Status | NoticeLevel::Warning | NoticeLevel::Error => Some(format!("gimlet: {}", notice.text)),
        },
        EventBody::Retry(retry) => Some(format!(
            "gimlet: {}; trying again in {:.1} s (attempt {} of {})",
            retry.error,
            retry.delay_ms as f64 / 1000.0,
            retry.attempt,
            retry.max
        )),
        EventBody::UnknownCommand { name, nearest } => {
            Some(format!("gimlet: {}", format_unknown_command(name, nearest)))
        }
        EventBody::Denied(denial) => Some(format_denial(denial)),
        EventBody::Compaction(view) => format_compaction(view, verbose),
        EventBody::Tool(tool) if verbose => match &tool.phase {
            ToolCallPhase::Running => Some(format!("● {}({})", tool.name, tool.summary)),
            ToolCallPhase::Progress { text, .. } if text.is_empty() => None,
            ToolCallPhase::Progress { text, .. } => Some(format!("  … {}: {}", tool.name, first_line(text))),
            ToolCallPhase::Done { view, elapsed_ms } => {
                Some(format!("  ⎿ {}: {} ({elapsed_ms} ms)", tool.name, summarize_view(view)))
            }
            ToolCallPhase::Failed { message, elapsed_ms, .. } => {
                Some(format!("  ⎿ {} failed: {} ({elapsed_ms} ms)", tool.name, first_line(message)))
            }
        },
        EventBody::Block(block) if verbose && block.error.is_none() => {
            block.block.as_text().map(|text| text.into_owned())
        }
        EventBody::TurnStarting(_)
        | EventBody::Prompt(_)
        | EventBody::PromptOutcome { .. }
        | EventBody::Requesting
        | EventBody::BlockStarted { .. }
        | EventBody::Delta(_)
        | EventBody::ReplyDiscarded
        | EventBody::Wire(_)
        | EventBody::Block(_)
        | EventBody::Tool(_)
        | EventBody::ToolFinished(_)
        | EventBody::Ask(_)
        | EventBody::AskClosed(_)
        | EventBody::Task(_)
        | EventBody::RateLimits(_)
        | EventBody::CacheBreak(_)
        | EventBody::ReplyAnomalies(_)
        | EventBody::Hook(_)
        | EventBody::CommandReply(_)
        | EventBody::ModeChanged(_)
        | EventBody::TurnEnded(_)
        | EventBody::Closed => None,
    }
}

/// Formats the remark about a prompt that has the form of a command but is none.
pub(crate) fn format_unknown_command(name: &str, nearest: &[String]) -> String {
    format!("{} The text was sent as a prompt", unknown_command_text(name, nearest))
}

/// Formats the state of a compaction.
fn format_compaction(view: &CompactionView, verbose: bool) -> Option<String> {
    match view {
        CompactionView::Started(_) => verbose.then(|| "gimlet: compacting the conversation".to_owned()),
        CompactionView::Finished(segment) => Some(format!(
            "gimlet: the conversation was compacted: about {} tokens before, {} after",
            segment.pre_tokens, segment.post_tokens
        )),
        CompactionView::Failed(reason) => Some(format!("gimlet: the conversation was not compacted: {reason}")),
    }
}

/// Formats a refusal for the user who can change it: the call, the reason, and the flags that would allow it.
fn format_denial(denial: &Denial) -> String {
    let allow = permission_flags::suggest_flags(&denial.remedies)
        .map_or_else(String::new, |flags| format!(". To allow it: {flags}"));
    format!("gimlet: refused {}({}): {}{allow}", denial.tool, denial.summary, denial.reason)
}

fn summarize_view(view: &View) -> String {
    match view {
        View::Text(text) => first_line(text),
        View::Diff { path, hunks } => {
            let count = |sign| hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.starts_with(sign)).count();
            format!("{path}: +{} -{}", count('+'), count('-'))
        }
        View::Terminal { output, exit_code, .. } => match exit_code {
            Some(code) if *code != 0 => format!("exit code {code}: {}", first_line(output)),
            Some(_) | None => first_line(output),
        },
        View::Files { paths, note } => note.clone().unwrap_or_else(|| format!("{} files", paths.len())),
        View::Todos(items) => format!("{} to-do items", items.len()),
        View::Table { rows, .. } => format!("{} rows", rows.len()),
    }
}

fn first_line(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first: String = lines.next().unwrap_or("").chars().take(120).collect();
    match lines.count() {
        0 => first,
        more => format!("{first} (+{more} lines)"),
    }
}
