//! A session as Markdown. Messages are copied as they are; calls and results are in fences that their content cannot
//! close.

use std::io::Write;

use gimlet_proto::{Block, BlockKind};
use gimlet_store::{TranscriptItem, TranscriptItemKind};

use super::super::{humanize, show};
use super::{ExportError, ExportSession, MaskedWriter};

pub(super) fn write<W: Write>(session: &ExportSession, out: &mut MaskedWriter<W>) -> Result<(), ExportError> {
    let put = |out: &mut MaskedWriter<W>, text: &str| out.write_masked(&gimlet_serve::sanitise(text));
    put(out, &document_header(session))?;
    let (mut speaker, mut names) = (None, show::ToolNames::default());
    for moment in session.items() {
        let moment = moment?;
        names.record_calls(&moment);
        let text = item_text(&moment, &names);
        // Injected text is for the model alone.
        if text.is_empty() || moment.kind == TranscriptItemKind::Injected {
            continue;
        }
        // Blocks of one reply are entries of their own; they share a heading.
        let heading = item_heading(&moment);
        if speaker.as_ref() != Some(&heading.0) || moment.kind == TranscriptItemKind::Prompt {
            put(out, &format!("\n## {}{}\n", heading.0, heading.1))?;
        }
        speaker = Some(heading.0);
        put(out, &format!("\n{text}\n"))?;
    }
    Ok(())
}

fn document_header(session: &ExportSession) -> String {
    let summary = &session.summary;
    let mut lines = vec![format!("# {}", session.title().replace('\n', " ")), String::new()];
    let mut row = |name: &str, value: Option<String>| {
        lines.extend(
            value.filter(|value| !value.is_empty()).map(|value| format!("- {name}: `{}`", value.replace('`', "'"))),
        );
    };
    row("Session", Some(summary.id.to_string()));
    row("Folder", summary.cwd.as_ref().map(|cwd| cwd.display().to_string()));
    row("Branch", summary.git_branch.clone());
    row("Begun", summary.created.as_deref().map(humanize::format_local_time));
    row("Tag", summary.labels.tag.clone());
    lines.join("\n") + "\n"
}

fn item_heading(moment: &TranscriptItem) -> (String, String) {
    let time = moment.at.as_deref().map(|at| format!(" · {}", humanize::format_local_time(at))).unwrap_or_default();
    let who = match moment.kind {
        TranscriptItemKind::Prompt => "User".to_owned(),
        TranscriptItemKind::Summary => "Summary of what was before".to_owned(),
        TranscriptItemKind::Failure => "Error".to_owned(),
        TranscriptItemKind::Compacted => "Compacted".to_owned(),
        TranscriptItemKind::Note => "Note".to_owned(),
        TranscriptItemKind::Injected => "Added by the program".to_owned(),
        // Results are part of the reply that asked for them.
        TranscriptItemKind::Reply | TranscriptItemKind::Results => "Assistant".to_owned(),
    };
    (who, time)
}

fn item_text(moment: &TranscriptItem, names: &show::ToolNames) -> String {
    let texts = moment.blocks.iter().filter_map(|block| block_text(block, names));
    texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn block_text(block: &Block, names: &show::ToolNames) -> Option<String> {
    match block.kind() {
        BlockKind::Text => Some(block.as_text()?.trim_end().to_owned()),
        BlockKind::Thinking => {
            let thinking = block.as_thinking()?;
            (!thinking.trim().is_empty())
                .then(|| thinking.trim_end().lines().map(|line| format!("> {line}\n")).collect())
        }
        BlockKind::ToolUse => {
            let call = block.as_tool_use()?;
            Some(format!(
                "**{}**\n\n{}",
                call.name.replace('*', ""),
                code_fence("json", &pretty_json(call.input.get()))
            ))
        }
        BlockKind::ToolResult => {
            let failed = block.as_tool_result().is_some_and(|parts| parts.is_error);
            let label = if failed { "Error" } else { "Result" };
            let name = names.tool_for_result(block).replace('*', "");
            Some(format!("{label} of {name}:\n\n{}", code_fence("", &show::tool_result_text(block))))
        }
        BlockKind::Image => Some("*(an image)*".to_owned()),
        BlockKind::Document => Some("*(a document)*".to_owned()),
        _ => None,
    }
}

pub(super) fn pretty_json(json: &str) -> String {
    let value: Result<serde_json::Value, _> = serde_json::from_str(json);
    value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or_else(|_| json.to_owned())
}

fn code_fence(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}
