//! Rules about single blocks: which exist in which role, what they may hold, what images may be.

use super::fields::{allow_only, extra_field_error};
use super::{RuleContext, RuleResult};
use crate::anthropic::image_header;
use crate::api_error::ApiError;
use crate::spanned_json::{SpannedJson, SpannedJsonKind};

const MOST_IMAGE_BYTES: usize = 10_000_000;
const MOST_PIXELS: u32 = 8000;
const MOST_NAME_BYTES: usize = 128;
/// With more images than [`MANY_IMAGES`] every one of them must be this small.
const MOST_PIXELS_OF_MANY: u32 = 2000;
const MANY_IMAGES: usize = 20;

pub(super) fn check(rules: &RuleContext<'_>) -> RuleResult {
    system(rules)?;
    for (position, message) in rules.items("messages").iter().enumerate() {
        one_message(rules, message, &format!("messages.{position}"))?;
    }
    all_images(rules)
}

fn system(rules: &RuleContext<'_>) -> RuleResult {
    let Some(system) = rules.root.get("system").filter(|node| !node.is_null()) else { return Ok(()) };
    match &system.kind {
        SpannedJsonKind::String(_) => Ok(()),
        SpannedJsonKind::Array(blocks) => {
            for (position, block) in blocks.iter().enumerate() {
                let path = format!("system.{position}");
                if block.type_tag() != "text" {
                    return Err(ApiError::at(&format!("{path}.type"), "Input should be 'text'"));
                }
                allow_only(block, &path, &["type", "text", "cache_control", "citations"])?;
                non_blank(block, &path)?;
            }
            Ok(())
        }
        _ => Err(ApiError::at("system", "Input should be a string or a list of text blocks")),
    }
}

fn one_message(rules: &RuleContext<'_>, message: &SpannedJson, path: &str) -> RuleResult {
    let role = message.str_of("role").unwrap_or("");
    let allowed: &[&str] = match role {
        "user" | "assistant" => &["role", "content"],
        "system" => &["role", "content", "output_config", "clear_at"],
        _ => return Err(ApiError::at(&format!("{path}.role"), "Input should be 'user', 'assistant' or 'system'")),
    };
    allow_only(message, path, allowed)?;
    system_extras(rules, message, path)?;
    let Some(content) = message.get("content") else {
        return Err(ApiError::at(&format!("{path}.content"), "Field required"));
    };
    match &content.kind {
        SpannedJsonKind::String(text) if text.trim().is_empty() => {
            Err(ApiError::at(path, "text content must be non-empty"))
        }
        SpannedJsonKind::String(_) => Ok(()),
        SpannedJsonKind::Array(blocks) if blocks.is_empty() => {
            Err(ApiError::at(path, format!("{role} messages must have non-empty content")))
        }
        SpannedJsonKind::Array(blocks) => {
            for (position, block) in blocks.iter().enumerate() {
                one_block(rules, role, block, &format!("{path}.content.{position}"))?;
            }
            Ok(())
        }
        _ => Err(ApiError::at(&format!("{path}.content"), "Input should be a string or a list of blocks")),
    }
}

/// Checks fields of a `role:"system"` message that have a beta of their own.
fn system_extras(rules: &RuleContext<'_>, message: &SpannedJson, path: &str) -> RuleResult {
    let paired = [
        ("output_config", "mid-conversation-output-config-2026-07-01"),
        ("clear_at", "mid-conversation-system-clear-at-2026-08-21"),
    ];
    let alone = paired.iter().find(|(field, beta)| message.get(field).is_some() && !rules.has_beta(beta));
    alone.map_or(Ok(()), |(field, _)| Err(extra_field_error(&format!("{path}.{field}"))))
}

/// Returns the members of a block type and the roles that may send it; `None` for an unknown type.
fn shape_of(kind: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    const USER: &[&str] = &["user"];
    const ASSISTANT: &[&str] = &["assistant"];
    Some(match kind {
        "text" => (&["type", "text", "cache_control", "citations"], &["user", "assistant", "system"]),
        "image" => (&["type", "source", "cache_control"], USER),
        "document" => (&["type", "source", "title", "context", "citations", "cache_control"], &["user", "assistant"]),
        "search_result" => (&["type", "source", "title", "content", "citations", "cache_control"], USER),
        "container_upload" => (&["type", "file_id", "cache_control"], USER),
        "tool_result" => (&["type", "tool_use_id", "content", "is_error", "cache_control"], USER),
        "tool_use" => (&["type", "id", "name", "input", "cache_control", "caller", "toolset_name"], ASSISTANT),
        "thinking" => (&["type", "thinking", "signature"], ASSISTANT),
        "redacted_thinking" => (&["type", "data"], ASSISTANT),
        "server_tool_use" => (&["type", "id", "name", "input", "cache_control", "caller"], ASSISTANT),
        "mcp_tool_use" => (&["type", "id", "name", "input", "server_name", "cache_control"], ASSISTANT),
        "compaction" => (&["type", "content", "encrypted_content", "signature", "cache_control"], ASSISTANT),
        "fallback" => (&["type", "from", "to", "trigger"], ASSISTANT),
        "tool_addition" | "tool_removal" => (&["type", "name", "tool"], &["system"]),
        other if other.ends_with("_tool_result") => {
            (&["type", "tool_use_id", "content", "is_error", "cache_control", "caller"], ASSISTANT)
        }
        _ => return None,
    })
}

fn one_block(rules: &RuleContext<'_>, role: &str, block: &SpannedJson, path: &str) -> RuleResult {
    let kind = block.type_tag();
    let Some((members, roles)) = shape_of(kind) else {
        // A block of any type that the server itself issued is accepted unchanged.
        if role == "assistant" && rules.issued.odd_types.contains(kind) {
            return Ok(());
        }
        return Err(ApiError::at(path, format!("Input tag {kind:?} does not match any of the expected tags")));
    };
    if !roles.contains(&role) {
        return Err(ApiError::at(path, format!("`{kind}` blocks are not allowed in {role} messages")));
    }
    allow_only(block, path, members)?;
    if rules.is_new_version() {
        removed_in_new_version(role, block, path)?;
    }
    match kind {
        "text" => non_blank(block, path),
        "tool_use" => tool_use(block, path),
        "tool_result" => tool_result(rules, block, path),
        "image" => image_source(block, path),
        "document" => document_source(block, path),
        "thinking" => {
            let missing = ["thinking", "signature"].into_iter().find(|field| block.str_of(field).is_none());
            missing.map_or(Ok(()), |field| Err(ApiError::at(&format!("{path}.{field}"), "Field required")))
        }
        "tool_addition" | "tool_removal" if !rules.has_beta("mid-conversation-tool-changes-2026-07-01") => {
            Err(ApiError::at(path, "needs anthropic-beta: mid-conversation-tool-changes-2026-07-01"))
        }
        _ => Ok(()),
    }
}

fn removed_in_new_version(role: &str, block: &SpannedJson, path: &str) -> RuleResult {
    if role == "assistant" && block.type_tag() == "document" {
        return Err(ApiError::at(path, "`document` blocks are not allowed in assistant messages"));
    }
    let cited = block.get("citations").is_some_and(|citations| !citations.items().is_empty());
    if role == "user" && block.type_tag() == "text" && cited {
        return Err(ApiError::at(&format!("{path}.citations"), "not allowed in user messages"));
    }
    Ok(())
}

fn non_blank(block: &SpannedJson, path: &str) -> RuleResult {
    match block.str_of("text") {
        None => Err(ApiError::at(&format!("{path}.text"), "Field required")),
        Some("") => Err(ApiError::at(path, "text content blocks must be non-empty")),
        Some(text) if text.trim().is_empty() => {
            Err(ApiError::at(path, "text content blocks must contain non-whitespace text (non-empty)"))
        }
        Some(_) => Ok(()),
    }
}

fn tool_use(block: &SpannedJson, path: &str) -> RuleResult {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let named = |name: &str| (1..=MOST_NAME_BYTES).contains(&name.len()) && name.chars().all(fits);
    match block.str_of("name") {
        None => return Err(ApiError::at(&format!("{path}.name"), "Field required")),
        Some(name) if !named(name) => {
            let message = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'";
            return Err(ApiError::at(&format!("{path}.name"), message));
        }
        Some(_) => {}
    }
    if !block.get("input").is_some_and(SpannedJson::is_object) {
        return Err(ApiError::at(&format!("{path}.input"), "Input should be an object"));
    }
    Ok(())
}

fn tool_result(rules: &RuleContext<'_>, block: &SpannedJson, path: &str) -> RuleResult {
    if block.get("is_error").is_some_and(|flag| flag.as_bool().is_none() && !flag.is_null()) {
        return Err(ApiError::at(&format!("{path}.is_error"), "Input should be a valid boolean"));
    }
    let Some(content) = block.get("content") else { return Ok(()) };
    match &content.kind {
        SpannedJsonKind::String(_) => Ok(()),
        SpannedJsonKind::Array(parts) => {
            for (position, part) in parts.iter().enumerate() {
                result_part(rules, part, &format!("{path}.content.{position}"))?;
            }
            Ok(())
        }
        _ => Err(ApiError::at(&format!("{path}.content"), "Input should be a string or a list of blocks")),
    }
}

fn result_part(rules: &RuleContext<'_>, part: &SpannedJson, path: &str) -> RuleResult {
    match part.type_tag() {
        "tool_reference" => {
            allow_only(part, path, &["type", "tool_name", "cache_control"])?;
            let name = part.str_of("tool_name").unwrap_or("");
            if rules.items("tools").iter().any(|tool| tool.str_of("name") == Some(name)) {
                return Ok(());
            }
            Err(ApiError::at(path, format!("tool_reference names the unknown tool {name:?}")))
        }
        "text" | "image" | "document" | "search_result" => one_block(rules, "user", part, path),
        other => Err(ApiError::at(path, format!("`{other}` is not allowed in a tool_result"))),
    }
}

fn image_source(block: &SpannedJson, path: &str) -> RuleResult {
    let path = format!("{path}.source");
    let Some(source) = block.get("source") else { return Err(ApiError::at(&path, "Field required")) };
    match source.type_tag() {
        "url" | "file" => remote_source(source, &path),
        "base64" => {
            allow_only(source, &path, &["type", "media_type", "data"])?;
            let (declared, data) = (source.str_of("media_type").unwrap_or(""), source.str_of("data").unwrap_or(""));
            if data.len() > MOST_IMAGE_BYTES {
                let message = format!("image exceeds 10 MB maximum: {} bytes", data.len());
                return Err(ApiError::at(&path, message));
            }
            match image_header::read_image_header(data) {
                None => Err(ApiError::at(&path, "could not process image: neither JPEG, PNG, GIF nor WebP")),
                Some(found) if found.media_type != declared => {
                    let message = format!("the image was declared {declared} but appears to be {}", found.media_type);
                    Err(ApiError::at(&path, message))
                }
                Some(_) => Ok(()),
            }
        }
        other => Err(ApiError::at(&path, format!("unknown image source {other:?}"))),
    }
}

/// Checks a source that the service fetches itself.
fn remote_source(source: &SpannedJson, path: &str) -> RuleResult {
    let (field, value) = if source.type_tag() == "url" { ("url", "https://") } else { ("file_id", "") };
    allow_only(source, path, &["type", field])?;
    match source.str_of(field) {
        Some(given) if !given.is_empty() && (given.starts_with(value) || given.starts_with("http://")) => Ok(()),
        Some(_) => Err(ApiError::at(&format!("{path}.{field}"), "not an address that can be fetched")),
        None => Err(ApiError::at(&format!("{path}.{field}"), "Field required")),
    }
}

fn document_source(block: &SpannedJson, path: &str) -> RuleResult {
    let path = format!("{path}.source");
    let Some(source) = block.get("source") else { return Err(ApiError::at(&path, "Field required")) };
    let data = source.str_of("data").unwrap_or("");
    match (source.type_tag(), source.str_of("media_type")) {
        ("url" | "file", _) => remote_source(source, &path),
        ("base64", Some("application/pdf")) if image_header::is_pdf(data) => Ok(()),
        ("base64", _) => Err(ApiError::at(&path, "the document is not a valid PDF")),
        ("text", Some("text/plain")) if !data.trim().is_empty() => Ok(()),
        ("text", _) => Err(ApiError::at(&path, "a text document needs media type text/plain and some text")),
        ("content", _) if source.get("content").is_some() => Ok(()),
        (other, _) => Err(ApiError::at(&path, format!("unknown document source {other:?}"))),
    }
}

/// Checks limits over all images of the request, history and tool results included.
fn all_images(rules: &RuleContext<'_>) -> RuleResult {
    let blocks =
        || rules.items("messages").iter().filter_map(|message| message.get("content")).flat_map(SpannedJson::items);
    let nested = blocks().filter_map(|block| block.get("content")).flat_map(SpannedJson::items);
    let all: Vec<&SpannedJson> = blocks().chain(nested).filter(|block| block.type_tag() == "image").collect();
    if all.len() > rules.profile.max_images() {
        let most = rules.profile.max_images();
        return Err(ApiError::at("messages", format!("too many images: {} > {most}", all.len())));
    }
    let many = all.len() > MANY_IMAGES;
    let limit = if many { MOST_PIXELS_OF_MANY } else { MOST_PIXELS };
    for image in all {
        let data = image.get("source").and_then(|source| source.str_of("data")).unwrap_or("");
        let Some(found) = image_header::read_image_header(data) else { continue };
        if found.width.max(found.height) > limit {
            let when = if many { " for many-image requests" } else { "" };
            let message = format!("image dimensions exceed max allowed size{when}: {limit} pixels");
            return Err(ApiError::at("messages", message));
        }
    }
    Ok(())
}
