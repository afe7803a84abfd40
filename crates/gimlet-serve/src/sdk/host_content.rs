//! User content that a host may send: blocks that every request can carry.
//!
//! The host's content stays in the conversation and is sent with every later request, so one block that the model's
//! server refuses would break all of them. An unambiguous mistake is corrected (an image under a wrong type, whitespace
//! in its base64); a prompt with anything else that cannot be sent is refused whole, because without that part it would
//! mean something else.

use gimlet_proto::{Block, BlockKind};
use gimlet_text::{is_base64, is_too_deep, replace_lone_surrogates};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::host_lines::parse_lossy;

/// Parses content into blocks, leaving out blank texts; the flag is true if it was one plain text.
pub(super) fn parse_content(content: &RawValue) -> Result<(Vec<Block>, bool), String> {
    if is_too_deep(content.get()) {
        return Err(format!("the content is nested deeper than {} levels", gimlet_text::MAX_JSON_DEPTH));
    }
    if let Some(text) = parse_lossy::<String>(content) {
        return Ok((vec![Block::text(&text)], true));
    }
    let items: Vec<Box<RawValue>> = parse_lossy(content).ok_or("the content is neither a text nor a list of blocks")?;
    let mut blocks = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let block =
            parse_block(item).map_err(|why| format!("block {} of the content cannot be used: {why}", at + 1))?;
        if !block.is_blank_text() {
            blocks.push(block);
        }
    }
    Ok((blocks, false))
}

fn parse_block(item: &RawValue) -> Result<Block, String> {
    #[derive(Deserialize)]
    struct ContentBlockHead {
        r#type: String,
        tool_use_id: Option<String>,
    }
    let head: ContentBlockHead = parse_lossy(item).ok_or("it is no object with a type")?;
    match head.r#type.as_str() {
        "text" => parse_text(item),
        "image" => parse_image(item),
        "document" => parse_document(item),
        "search_result" => parse_search_result(item),
        "tool_result" => parse_tool_result(item, &head.tool_use_id.unwrap_or_default()),
        "tool_use" | "thinking" | "redacted_thinking" | "server_tool_use" => {
            Err(format!("blocks of type '{}' can only come from the model", head.r#type))
        }
        other => Err(format!("'{other}' is no type of block that can be sent")),
    }
}

/// Parses the result of a tool call. The session decides if a call is waiting for it.
fn parse_tool_result(item: &RawValue, call: &str) -> Result<Block, String> {
    #[derive(Deserialize)]
    struct ToolResultContent {
        content: Option<Box<RawValue>>,
        is_error: Option<bool>,
    }
    #[derive(Serialize)]
    struct ToolResultBlock<'a> {
        r#type: &'static str,
        tool_use_id: &'a str,
        content: Vec<Block>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    }
    let ToolResultContent { content, is_error } =
        parse_lossy(item).ok_or("its content or is_error is of no kind that can be sent")?;
    let content = content.filter(|content| content.get() != "null");
    let parts: Vec<Block> =
        content.map(|content| parse_content(&content)).transpose()?.map(|(parts, _)| parts).unwrap_or_default();
    if call.is_empty() {
        return Err("it does not say which call it answers".to_owned());
    }
    let odd = |part: &&Block| !matches!(part.kind(), BlockKind::Text | BlockKind::Image | BlockKind::Document);
    if let Some(part) = parts.iter().find(odd) {
        return Err(format!("a part of it is of the type '{}'", part.type_name()));
    }
    let content = parts.into_iter().filter(|part| !part.is_blank_text()).collect();
    render_block(&ToolResultBlock {
        r#type: "tool_result",
        tool_use_id: call,
        content,
        is_error: is_error.unwrap_or(false),
    })
}

fn parse_text(item: &RawValue) -> Result<Block, String> {
    #[derive(Deserialize)]
    struct TextContent {
        text: String,
    }
    let TextContent { text } = parse_lossy(item).ok_or("its text is missing or no text")?;
    Ok(Block::text(&text))
}

/// Source of the bytes of an image or a document. Other members are ignored and not sent.
#[derive(Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MediaSource {
    Base64 { media_type: Option<String>, data: String },
    Text { media_type: Option<String>, data: String },
    Url { url: String },
    File { file_id: String },
    Content { content: Box<RawValue> },
}

impl MediaSource {
    fn from_block(item: &RawValue) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct MediaSourceMember {
            source: Box<RawValue>,
        }
        let sourced: Option<MediaSourceMember> = parse_lossy(item);
        let source = sourced.and_then(|sourced| parse_lossy(&sourced.source));
        source.ok_or_else(|| "it has no readable source".to_owned())
    }

    /// Checks a source that must be a URL or a file id; other kinds are an error.
    fn check_reference(self) -> Result<Self, String> {
        match &self {
            MediaSource::Url { url } if !(url.starts_with("https://") || url.starts_with("http://")) => {
                Err("its url is no address on the web".to_owned())
            }
            MediaSource::File { file_id } if file_id.is_empty() => Err("its file id is empty".to_owned()),
            MediaSource::Url { .. } | MediaSource::File { .. } => Ok(self),
            MediaSource::Base64 { .. } | MediaSource::Text { .. } | MediaSource::Content { .. } => {
                Err("it has a source of a kind that does not fit it".to_owned())
            }
        }
    }
}

fn parse_image(item: &RawValue) -> Result<Block, String> {
    #[derive(Serialize)]
    struct ImageBlock {
        r#type: &'static str,
        source: MediaSource,
    }
    match MediaSource::from_block(item)? {
        // The session scales what is too large.
        MediaSource::Base64 { data, .. } => Block::unfitted_image(&data).map_err(str::to_owned),
        source => render_block(&ImageBlock { r#type: "image", source: source.check_reference()? }),
    }
}

fn parse_document(item: &RawValue) -> Result<Block, String> {
    #[derive(Deserialize)]
    struct DocumentMembers {
        title: Option<String>,
        context: Option<String>,
        citations: Option<CitationSwitch>,
    }
    #[derive(Serialize)]
    struct DocumentBlock {
        r#type: &'static str,
        source: MediaSource,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<CitationSwitch>,
    }
    let source = match MediaSource::from_block(item)? {
        MediaSource::Base64 { data, .. } => {
            let data: String = data.split_ascii_whitespace().collect();
            // Every PDF begins with these bytes, in base64.
            if !data.starts_with("JVBERi") || !is_base64(&data) {
                return Err("it is no PDF".to_owned());
            }
            MediaSource::Base64 { media_type: Some("application/pdf".to_owned()), data }
        }
        MediaSource::Text { data, .. } if data.trim().is_empty() => return Err("it is empty".to_owned()),
        MediaSource::Text { data, .. } => MediaSource::Text { media_type: Some("text/plain".to_owned()), data },
        MediaSource::Content { content } => MediaSource::Content { content: parse_texts(&content)? },
        other => other.check_reference()?,
    };
    let DocumentMembers { title, context, citations } = parse_lossy(item).ok_or("its title or context is no text")?;
    render_block(&DocumentBlock { r#type: "document", source, title, context, citations })
}

#[derive(Deserialize, Serialize)]
struct CitationSwitch {
    enabled: bool,
}

fn parse_search_result(item: &RawValue) -> Result<Block, String> {
    #[derive(Deserialize)]
    struct SearchResultContent {
        source: String,
        title: String,
        content: Box<RawValue>,
        citations: Option<CitationSwitch>,
    }
    #[derive(Serialize)]
    struct SearchResultBlock {
        r#type: &'static str,
        source: String,
        title: String,
        content: Box<RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<CitationSwitch>,
    }
    let SearchResultContent { source, title, content, citations } =
        parse_lossy(item).ok_or("its source, title or content is missing")?;
    render_block(&SearchResultBlock {
        r#type: "search_result",
        source,
        title,
        content: parse_texts(&content)?,
        citations,
    })
}

/// Converts a list of texts that are not blank into blocks.
fn parse_texts(content: &RawValue) -> Result<Box<RawValue>, String> {
    let items: Vec<Box<RawValue>> = match parse_lossy::<String>(content) {
        Some(text) => vec![Block::text(&text).raw().to_owned()],
        None => parse_lossy(content).ok_or("its content is not a list of texts")?,
    };
    let texts: Result<Vec<Block>, String> = items.iter().map(|item| parse_text(item)).collect();
    let texts: Vec<Block> = texts?.into_iter().filter(|text| !text.is_blank_text()).collect();
    if texts.is_empty() {
        return Err("it is empty".to_owned());
    }
    serde_json::value::to_raw_value(&texts).map_err(|error| error.to_string())
}

fn render_block(block: &impl Serialize) -> Result<Block, String> {
    let json = serde_json::to_string(block).map_err(|error| error.to_string())?;
    Block::from_json(&replace_lone_surrogates(&json)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The smallest data recognised as a GIF.
    const GIF: &str = "R0lGODlhAQABAA==";

    fn parse_json(content: Value) -> Result<Value, String> {
        let raw = RawValue::from_string(content.to_string()).unwrap();
        parse_content(&raw).map(|(blocks, _)| json!(blocks))
    }

    fn image_json(media_type: &str, data: &str) -> Value {
        json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
    }

    #[test]
    fn what_can_be_sent_passes_and_slips_with_one_meaning_are_put_right() {
        let url = json!({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}});
        let pdf = json!({"type": "document", "title": "t", "source":
            {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="}});
        let words = json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}});
        let found = json!({"type": "search_result", "source": "s", "title": "t",
            "content": [{"type": "text", "text": "x"}]});
        for good in [image_json("image/gif", GIF), url, pdf, words, found, json!({"type": "text", "text": "hi"})] {
            assert_eq!(parse_json(json!([good])), Ok(json!([good])), "{good}");
        }
        let answer = json!({"type": "tool_result", "tool_use_id": "t", "content": "x", "is_error": true});
        let words = json!([{"type": "text", "text": "x"}]);
        assert_eq!(parse_json(json!([answer])).unwrap()[0]["content"], words);
        let right = Ok(json!([image_json("image/gif", GIF)]));
        assert_eq!(parse_json(json!([image_json("image/png", GIF)])), right);
        assert_eq!(parse_json(json!([image_json("", "R0lGODlh\nAQABAA==\n")])), right);
        let marked = json!({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}, "odd": 1});
        assert_eq!(
            parse_json(json!([marked, {"type": "text", "text": " "}])),
            Ok(json!([{"type": "text", "text": "hi"}]))
        );
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_place_and_reason() {
        let cases = [
            (image_json("image/png", "!!"), "not base64"),
            (image_json("image/png", ""), "empty"),
            (image_json("image/png", "aGVsbG8="), "neither JPEG"),
            (json!({"type": "image"}), "no readable source"),
            (json!({"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}}), "no address"),
            (json!({"type": "document", "source": {"type": "base64", "data": "AAAA"}}), "no PDF"),
            (json!({"type": "document", "source": {"type": "text", "data": " "}}), "empty"),
            (json!({"type": "tool_result", "content": "x"}), "which call"),
            (json!({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "hologram"}]}), "'hologram'"),
            (json!({"type": "tool_use", "id": "a", "name": "Bash", "input": {}}), "only come from the model"),
            (json!({"type": "hologram"}), "'hologram'"),
            (json!({"type": "text", "text": 7}), "no text"),
            (json!({"text": "no type"}), "no object with a type"),
            (json!("bare"), "no object with a type"),
        ];
        for (bad, part) in cases {
            let why = parse_json(json!([{"type": "text", "text": "look"}, bad])).unwrap_err();
            assert!(why.starts_with("block 2") && why.contains(part), "{bad}: {why}");
        }
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        let deep = format!(r#"[{{"type":"text","text":"x","more":{deep}}}]"#);
        assert!(parse_content(&RawValue::from_string(deep).unwrap()).unwrap_err().contains("nested"));
    }
}
