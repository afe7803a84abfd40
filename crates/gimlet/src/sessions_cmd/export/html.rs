//! A session as one HTML page: no script, no external resources, all content escaped.
//!
//! Text becomes markup only here, in a few functions that escape their arguments; a content policy in the page forbids
//! anything that might have slipped through.

use std::fmt::Write as _;
use std::io::Write;

use gimlet_proto::{Block, BlockKind};
use gimlet_store::{TranscriptItem, TranscriptItemKind};
use gimlet_text::truncate_to_line;
use serde_json::Value;

use super::super::{humanize, show};
use super::markdown::pretty_json;
use super::{ExportError, ExportSession, MaskedWriter};

const STYLE: &str = include_str!("page.css");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
/// Maximum characters of a call shown beside its name while it is folded.
const GIST: usize = 100;

pub(super) fn write<W: Write>(session: &ExportSession, out: &mut MaskedWriter<W>) -> Result<(), ExportError> {
    out.write_masked(&page_header(session))?;
    let mut names = show::ToolNames::default();
    for moment in session.items() {
        let moment = moment?;
        names.record_calls(&moment);
        out.write_masked(&render_item(&moment, &names))?;
    }
    out.write_masked("<footer>Written by gimlet.</footer>\n</body>\n</html>\n")
}

/// Escapes HTML syntax in a text and removes characters that cannot be shown.
pub(super) fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for char in gimlet_serve::sanitise(text).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    out
}

fn page_header(session: &ExportSession) -> String {
    let summary = &session.summary;
    let title = escape_html(&session.title());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<dl>\n"
    );
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            // Writing to a String cannot fail.
            let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escape_html(&value));
        }
    };
    row("Session", Some(summary.id.to_string()));
    row("Folder", summary.cwd.as_ref().map(|cwd| cwd.display().to_string()));
    row("Branch", summary.git_branch.clone());
    row("Begun", summary.created.as_deref().map(humanize::format_local_time));
    row("Tag", summary.labels.tag.clone());
    page + "</dl>\n"
}

fn render_item(moment: &TranscriptItem, names: &show::ToolNames) -> String {
    let time = moment.at.as_deref().map(humanize::format_local_time).unwrap_or_default();
    let body: String = moment.blocks.iter().map(|block| render_block(block, names)).collect();
    let (class, who) = match moment.kind {
        TranscriptItemKind::Prompt => ("user", "User"),
        TranscriptItemKind::Summary => ("summary", "Summary of what was before"),
        TranscriptItemKind::Failure => ("error", "Error"),
        TranscriptItemKind::Note => ("note", "Note"),
        TranscriptItemKind::Compacted => {
            return format!("<hr>\n<article class=\"note\">Compacted · {}</article>\n", escape_html(&time));
        }
        TranscriptItemKind::Injected if body.is_empty() => return String::new(),
        TranscriptItemKind::Injected => {
            return format!("<details><summary><span>added by the program</span></summary>{body}</details>\n");
        }
        TranscriptItemKind::Reply | TranscriptItemKind::Results if body.is_empty() => return String::new(),
        TranscriptItemKind::Reply | TranscriptItemKind::Results => {
            return format!("<article class=\"assistant\">{body}</article>\n");
        }
    };
    let who = format!("<header class=\"who\">{who} · {}</header>", escape_html(&time));
    format!("<article class=\"{class}\">{who}{body}</article>\n")
}

fn render_block(block: &Block, names: &show::ToolNames) -> String {
    match block.kind() {
        BlockKind::Text => render_prose(&block.as_text().unwrap_or_default()),
        BlockKind::Thinking => match block.as_thinking().filter(|thinking| !thinking.trim().is_empty()) {
            Some(thinking) => render_details("", "<span>thinking</span>", &render_prose(&thinking)),
            None => String::new(),
        },
        BlockKind::ToolUse => {
            let Some(call) = block.as_tool_use() else { return String::new() };
            let gist = escape_html(&truncate_to_line(&show::summarize_input(call.input.get()), GIST));
            render_details(
                "",
                &format!("<b>{}</b> <span>{gist}</span>", escape_html(&call.name)),
                &render_preformatted(&pretty_json(call.input.get())),
            )
        }
        BlockKind::ToolResult => render_result(block, names),
        BlockKind::Image => render_image(block.json()),
        BlockKind::Document => "<p>(a document)</p>".to_owned(),
        _ => String::new(),
    }
}

fn render_result(block: &Block, names: &show::ToolNames) -> String {
    let name = names.tool_for_result(block);
    let text = show::tool_result_text(block);
    let failed = block.as_tool_result().is_some_and(|parts| parts.is_error);
    let lines = humanize::pluralize(text.trim_end().lines().count(), "line", "lines");
    let label = if failed { "error of" } else { "result of" };
    let summary = format!("<span>{label} {}, {lines}</span>", escape_html(name));
    let parts: Value =
        block.as_tool_result().and_then(|parts| serde_json::from_str(parts.content?.get()).ok()).unwrap_or_default();
    let images = parts.as_array().into_iter().flatten().filter(|part| part["type"] == "image");
    let images: String = images.map(|part| render_image(&part.to_string())).collect();
    render_details(if failed { "bad" } else { "" }, &summary, &(render_preformatted(&text) + &images))
}

fn render_details(class: &str, summary: &str, body: &str) -> String {
    format!("<details class=\"{class}\"><summary>{summary}</summary>{body}</details>\n")
}

fn render_preformatted(text: &str) -> String {
    format!("<pre>{}</pre>", escape_html(text.trim_end()))
}

/// Renders an image whose data is in the session; nothing is ever loaded.
fn render_image(json: &str) -> String {
    const KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let source = &value["source"];
    let (kind, data) = (source["media_type"].as_str().unwrap_or_default(), source["data"].as_str().unwrap_or_default());
    let is_base64 = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    if !KINDS.contains(&kind) || data.is_empty() || !is_base64 {
        return "<p>(an image)</p>".to_owned();
    }
    format!("<img alt=\"an image of the session\" src=\"data:{kind};base64,{data}\">")
}

/// Renders paragraphs and code: fences and backquotes, nothing else of Markdown.
fn render_prose(text: &str) -> String {
    let (mut page, mut paragraph) = (String::new(), String::new());
    let mut code: Option<(String, String)> = None;
    for line in text.trim_end().lines() {
        let mark: String = line.trim_start().chars().take_while(|c| *c == '`').collect();
        match &mut code {
            Some((fence, _)) if mark.len() >= fence.len() && line.trim() == mark => {
                let (_, body) = code.take().unwrap_or_default();
                page += &render_preformatted(&body);
            }
            Some((_, body)) => *body += &format!("{line}\n"),
            None if mark.len() >= 3 => {
                page += &render_paragraph(&std::mem::take(&mut paragraph));
                code = Some((mark, String::new()));
            }
            None if line.trim().is_empty() => page += &render_paragraph(&std::mem::take(&mut paragraph)),
            None => paragraph += &format!("{line}\n"),
        }
    }
    page += &render_paragraph(&paragraph);
    page + &code.map(|(_, body)| render_preformatted(&body)).unwrap_or_default()
}

fn render_paragraph(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() {
        return String::new();
    }
    let pieces: Vec<&str> = text.split('`').collect();
    let mut line = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        // The last backquote of an odd number of them closes nothing.
        match at % 2 == 1 && at + 1 < pieces.len() && !piece.is_empty() {
            true => line += &format!("<code>{}</code>", escape_html(piece)),
            false if at % 2 == 1 && at + 1 < pieces.len() => line += "``",
            false if at % 2 == 1 => line += &format!("`{}", escape_html(piece)),
            false => line += &escape_html(piece),
        }
    }
    format!("<p>{line}</p>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_said_becomes_an_element() {
        let hostile =
            "</pre><script>alert(1)</script> <img src=x onerror=\"a()\"> `<b>` \u{1b}[31m\n```\n</pre></details>\n```";
        let page = render_prose(hostile);
        let mut rest = page.as_str();
        while let Some((_, after)) = rest.split_once('<') {
            let tag = after.split('>').next().unwrap();
            assert!(["p", "/p", "code", "/code", "pre", "/pre"].contains(&tag), "{tag}: {page}");
            rest = after;
        }
        assert!(
            page.contains("<code>&lt;b&gt;</code>") && page.contains("&lt;/details&gt;") && !page.contains('\u{1b}')
        );
    }

    #[test]
    fn only_images_with_their_data_inside_are_shown() {
        let source = |kind: &str, data: &str| {
            render_image(&format!(
                r#"{{"type":"image","source":{{"type":"base64","media_type":"{kind}","data":"{data}"}}}}"#
            ))
        };
        assert!(source("image/png", "aGk=").contains("src=\"data:image/png;base64,aGk=\""));
        for (kind, data) in [("image/svg+xml", "aGk="), ("image/png", "\\\" onload=x"), ("image/png", "")] {
            assert_eq!(source(kind, data), "<p>(an image)</p>");
        }
    }

    #[test]
    fn code_and_paragraphs_are_told_apart() {
        let page = render_prose("one `two` three\n\nfour\n~ ```not\n```rust\nlet x = `1`;\n\nmore\n```\nend ` of");
        assert!(page.contains("<p>one <code>two</code> three</p>"), "{page}");
        assert!(page.contains("<pre>let x = `1`;\n\nmore</pre>"), "{page}");
        assert!(page.ends_with("<p>end ` of</p>\n"), "{page}");
    }
}
