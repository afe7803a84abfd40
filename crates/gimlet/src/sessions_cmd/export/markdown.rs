//! A session as Markdown. What was said stands as it is; calls and results are in fences that nothing inside can close.

use std::io::Write;

use gimlet_proto::{Block, BlockKind};
use gimlet_store::{Moment, MomentKind};

use super::super::{show, words};
use super::{Masked, Session, Trouble};

pub(super) fn write<W: Write>(session: &Session, out: &mut Masked<W>) -> Result<(), Trouble> {
    let put = |out: &mut Masked<W>, text: &str| out.put(&gimlet_serve::sanitise(text));
    put(out, &head(session))?;
    let (mut speaker, mut names) = (None, show::Names::default());
    for moment in session.moments() {
        let moment = moment?;
        names.note(&moment);
        let text = said(&moment, &names);
        // What the program put in is for the model alone.
        if text.is_empty() || moment.kind == MomentKind::Injected {
            continue;
        }
        // Blocks of one reply are entries of their own; they share a heading.
        let heading = heading(&moment);
        if speaker.as_ref() != Some(&heading.0) || moment.kind == MomentKind::Prompt {
            put(out, &format!("\n## {}{}\n", heading.0, heading.1))?;
        }
        speaker = Some(heading.0);
        put(out, &format!("\n{text}\n"))?;
    }
    Ok(())
}

fn head(session: &Session) -> String {
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
    row("Begun", summary.created.as_deref().map(words::local));
    row("Tag", summary.labels.tag.clone());
    lines.join("\n") + "\n"
}

fn heading(moment: &Moment) -> (String, String) {
    let time = moment.at.as_deref().map(|at| format!(" · {}", words::local(at))).unwrap_or_default();
    let who = match moment.kind {
        MomentKind::Prompt => "User".to_owned(),
        MomentKind::Summary => "Summary of what was before".to_owned(),
        MomentKind::Failure => "Error".to_owned(),
        MomentKind::Compacted => "Compacted".to_owned(),
        MomentKind::Note => "Note".to_owned(),
        MomentKind::Injected => "Added by the program".to_owned(),
        // Results are part of the reply that asked for them.
        MomentKind::Reply | MomentKind::Results => "Assistant".to_owned(),
    };
    (who, time)
}

fn said(moment: &Moment, names: &show::Names) -> String {
    let texts = moment.blocks.iter().filter_map(|block| block_text(block, names));
    texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn block_text(block: &Block, names: &show::Names) -> Option<String> {
    match block.kind() {
        BlockKind::Text => Some(block.as_text()?.trim_end().to_owned()),
        BlockKind::Thinking => {
            let thinking = block.as_thinking()?;
            (!thinking.trim().is_empty())
                .then(|| thinking.trim_end().lines().map(|line| format!("> {line}\n")).collect())
        }
        BlockKind::ToolUse => {
            let call = block.as_tool_use()?;
            Some(format!("**{}**\n\n{}", call.name.replace('*', ""), fenced("json", &pretty(call.input.get()))))
        }
        BlockKind::ToolResult => {
            let failed = block.as_tool_result().is_some_and(|parts| parts.is_error);
            let label = if failed { "Error" } else { "Result" };
            let name = names.of(block).replace('*', "");
            Some(format!("{label} of {name}:\n\n{}", fenced("", &show::result_of(block))))
        }
        BlockKind::Image => Some("*(an image)*".to_owned()),
        BlockKind::Document => Some("*(a document)*".to_owned()),
        _ => None,
    }
}

pub(super) fn pretty(json: &str) -> String {
    let value: Result<serde_json::Value, _> = serde_json::from_str(json);
    value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or_else(|_| json.to_owned())
}

fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}
