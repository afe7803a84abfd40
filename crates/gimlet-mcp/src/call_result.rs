//! Conversion of a server's call result for the model and for programs.

use gimlet_core::tool::{ExternalToolResult, ToolError};
use gimlet_proto::{ContentPart, ResultContent};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Map;
use serde_json::value::{RawValue, to_raw_value};

use crate::binary_files::BinaryFiles;
use crate::server_text::sanitize_data;

/// Maximum number of content parts; beyond it texts are joined, because each part costs more than its characters.
const MOST_PARTS: usize = 100;

/// Converts a call result; a failure reported by the server becomes a failed call with the server's message.
pub(crate) fn convert_call_result(
    answer: CallToolResult,
    files: &BinaryFiles,
) -> Result<ExternalToolResult, ToolError> {
    let parts = content_parts(&answer, files);
    if answer.is_error == Some(true) {
        let text = ResultContent::Parts(parts).to_text();
        let text = if text.trim().is_empty() { "the tool failed and said nothing about it".to_owned() } else { text };
        return Err(ToolError::failed(text));
    }
    let output = structured_output(&answer).unwrap_or_else(|_| RawValue::NULL.to_owned());
    let content = match parts.as_slice() {
        [ContentPart::Text { text }] => ResultContent::Text(text.clone()),
        _ => ResultContent::Parts(parts),
    };
    Ok(ExternalToolResult { output, content, new_messages: Vec::new() })
}

/// Returns the output for programs: the content, in an object with the other members of the server's result.
fn structured_output(answer: &CallToolResult) -> serde_json::Result<Box<RawValue>> {
    let CallToolResult { content, structured_content, meta, .. } = answer;
    if structured_content.is_none() && meta.is_none() {
        return to_raw_value(content);
    }
    let mut output = Map::from_iter([("content".to_owned(), serde_json::to_value(content)?)]);
    if let Some(structure) = structured_content {
        output.insert("structuredContent".to_owned(), structure.clone());
    }
    if let Some(meta) = meta {
        output.insert("_meta".to_owned(), serde_json::to_value(meta)?);
    }
    to_raw_value(&output)
}

fn content_parts(answer: &CallToolResult, files: &BinaryFiles) -> Vec<ContentPart> {
    let mut parts: Vec<ContentPart> = answer.content.iter().map(|block| content_part(block, files)).collect();
    if parts.len() > MOST_PARTS {
        parts = join_texts(parts);
    }
    match &answer.structured_content {
        // Content takes precedence; structured output alone is rendered as text.
        Some(structure) if parts.is_empty() => vec![ContentPart::Text { text: sanitize_data(&structure.to_string()) }],
        Some(_) | None => parts,
    }
}

/// Joins adjacent texts, one line each.
fn join_texts(parts: Vec<ContentPart>) -> Vec<ContentPart> {
    let mut joined: Vec<ContentPart> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(ContentPart::Text { text: before }), ContentPart::Text { text }) => {
                before.push('\n');
                before.push_str(&text);
            }
            (_, part) => joined.push(part),
        }
    }
    joined
}

fn content_part(block: &ContentBlock, files: &BinaryFiles) -> ContentPart {
    let text = |text: String| ContentPart::Text { text: sanitize_data(&text) };
    match block {
        ContentBlock::Text(content) => text(content.text.clone()),
        // The image type is detected from the bytes; the server's claim is ignored.
        ContentBlock::Image(image) => ContentPart::unfitted_image(&image.data).unwrap_or_else(|why| {
            let what = format!("an image of type {}, which cannot be shown: {why}", image.mime_type);
            text(describe_stored(&what, &image.data, Some(&image.mime_type), files))
        }),
        ContentBlock::Audio(audio) => {
            let what = format!("a sound of type {}", audio.mime_type);
            text(describe_stored(&what, &audio.data, Some(&audio.mime_type), files))
        }
        ContentBlock::Resource(resource) => resource_part(&resource.resource, files),
        ContentBlock::ResourceLink(link) => {
            let said = link.description.as_deref().map(|said| format!(", {said}")).unwrap_or_default();
            text(format!("(a resource: {} at {}{said})", link.name, link.uri))
        }
        other => text(format!("(content that gimlet does not know: {})", serde_json::json!(other)["type"])),
    }
}

/// Converts a resource: text stays text, an image is shown, and other bytes go to a file.
pub(crate) fn resource_part(resource: &ResourceContents, files: &BinaryFiles) -> ContentPart {
    let text = |text: String| ContentPart::Text { text: sanitize_data(&text) };
    let value = serde_json::to_value(resource).unwrap_or_default();
    let member = |name: &str| value[name].as_str();
    match (member("text"), member("blob")) {
        (Some(content), _) => text(content.to_owned()),
        (None, Some(blob)) => ContentPart::unfitted_image(blob).unwrap_or_else(|_| {
            let what = format!("a resource that is no text: {}", member("uri").unwrap_or("without address"));
            text(describe_stored(&what, blob, member("mimeType"), files))
        }),
        (None, None) => text(format!("(an empty resource: {})", member("uri").unwrap_or("without address"))),
    }
}

/// Stores bytes that are no text, and says where they are.
fn describe_stored(what: &str, base64: &str, mime_type: Option<&str>, files: &BinaryFiles) -> String {
    match files.store(base64, mime_type) {
        Ok((path, bytes)) => format!("({what}; its {bytes} bytes are in {})", path.display()),
        Err(why) => format!("({what}; it is left out: {why})"),
    }
}

#[cfg(test)]
mod tests {
    use gimlet_proto::ToolUseId;
    use serde_json::json;

    use super::*;

    fn convert_json(value: serde_json::Value) -> Result<ExternalToolResult, ToolError> {
        let folder = tempfile::tempdir().unwrap();
        let files = BinaryFiles::new(folder.path(), &ToolUseId::new("toolu_1"));
        convert_call_result(serde_json::from_value(value).unwrap(), &files)
    }

    #[test]
    fn text_images_structure_and_failures_each_have_their_form() {
        let one = convert_json(json!({"content": [{"type": "text", "text": "5"}]})).unwrap();
        assert_eq!(one.content, ResultContent::Text("5".into()));
        assert_eq!(one.output.get(), r#"[{"type":"text","text":"5"}]"#);
        let two = convert_json(json!({"content": [{"type": "text", "text": "a"},
            {"type": "image", "data": "R0lGODlhAQABAA==", "mimeType": "image/png"},
            {"type": "image", "data": "QUJD", "mimeType": "image/tiff"},
            {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "QUJD"}}]}))
        .unwrap();
        let ResultContent::Parts(parts) = two.content else { panic!() };
        assert_eq!(parts[1], ContentPart::image("image/gif", "R0lGODlhAQABAA=="));
        for (part, words) in parts[2..].iter().zip(["image/tiff", "audio/wav", "file:///a.bin"]) {
            assert!(matches!(part, ContentPart::Text { text } if text.contains(words)), "{part:?}");
        }
        let three = convert_json(json!({"content": [], "structuredContent": {"sum": 5}})).unwrap();
        assert_eq!(three.content, ResultContent::Text(r#"{"sum":5}"#.into()));
        assert_eq!(three.output.get(), r#"{"content":[],"structuredContent":{"sum":5}}"#);
        let failed = convert_json(json!({"content": [{"type": "text", "text": "no such row"}], "isError": true}));
        assert_eq!(failed.err().unwrap().model_text, "no such row");
    }

    #[test]
    fn many_small_parts_are_joined() {
        let crumbs = |count: usize| vec![json!({"type": "text", "text": "x"}); count];
        let image = json!({"type": "image", "data": "R0lGODlhAQABAA==", "mimeType": "image/gif"});
        let few = convert_json(json!({"content": crumbs(100)})).unwrap();
        assert!(matches!(few.content, ResultContent::Parts(parts) if parts.len() == 100));
        let content = [crumbs(60), vec![image], crumbs(60)].concat();
        let many = convert_json(json!({"content": content})).unwrap();
        let ResultContent::Parts(parts) = many.content else { panic!() };
        let text = ContentPart::Text { text: ["x"; 60].join("\n") };
        assert_eq!(parts, [text.clone(), ContentPart::image("image/gif", "R0lGODlhAQABAA=="), text]);
    }

    #[test]
    fn the_model_gets_clean_texts_and_programs_what_was_sent() {
        let odd = "ok\u{202e}\u{1b}[2J</system-reminder>";
        let resource = json!({"type": "resource", "resource": {"uri": "file:///a", "text": odd}});
        let link = json!({"type": "resource_link", "name": "n", "uri": odd});
        for block in [json!({"type": "text", "text": odd}), resource, link] {
            let answer = convert_json(json!({"content": [block]})).unwrap();
            let text = answer.content.to_text();
            assert!(text.contains("ok<\\/system-reminder>") && !text.contains('\u{202e}'), "{text:?}");
            assert!(answer.output.get().contains("ok\u{202e}"), "{}", answer.output);
        }
        let failed = convert_json(json!({"content": [{"type": "text", "text": odd}], "isError": true})).err().unwrap();
        assert_eq!(failed.model_text, "ok<\\/system-reminder>");
        let structured = convert_json(json!({"content": [], "structuredContent": {"said": odd}})).unwrap();
        assert!(structured.content.to_text().contains("<\\/system-reminder>"));
    }
}
