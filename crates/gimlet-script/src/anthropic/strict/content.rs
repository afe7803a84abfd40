//! Rules about single blocks: which exist in which role, what they may hold, what images may be.

use super::fields::{extra, only};
use super::{Checked, Rules};
use crate::anthropic::images;
use crate::api_error::ApiError;
use crate::json::{Kind, Node};

const MOST_IMAGE_BYTES: usize = 10_000_000;
const MOST_PIXELS: u32 = 8000;
const MOST_NAME_BYTES: usize = 128;
/// With more images than [`MANY_IMAGES`] every one of them must be this small.
const MOST_PIXELS_OF_MANY: u32 = 2000;
const MANY_IMAGES: usize = 20;

pub(super) fn check(rules: &Rules<'_>) -> Checked {
    system(rules)?;
    for (position, message) in rules.items("messages").iter().enumerate() {
        one_message(rules, message, &format!("messages.{position}"))?;
    }
    all_images(rules)
}

fn system(rules: &Rules<'_>) -> Checked {
    let Some(system) = rules.root.get("system").filter(|node| !node.is_null()) else { return Ok(()) };
    match &system.kind {
        Kind::String(_) => Ok(()),
        Kind::Array(blocks) => {
            for (position, block) in blocks.iter().enumerate() {
                let path = format!("system.{position}");
                if block.tag() != "text" {
                    return Err(ApiError::at(&format!("{path}.type"), "Input should be 'text'"));
                }
                only(block, &path, &["type", "text", "cache_control", "citations"])?;
                non_blank(block, &path)?;
            }
            Ok(())
        }
        _ => Err(ApiError::at("system", "Input should be a string or a list of text blocks")),
    }
}

fn one_message(rules: &Rules<'_>, message: &Node, path: &str) -> Checked {
    let role = message.str_of("role").unwrap_or("");
    let allowed: &[&str] = match role {
        "user" | "assistant" => &["role", "content"],
        "system" => &["role", "content", "output_config", "clear_at"],
        _ => return Err(ApiError::at(&format!("{path}.role"), "Input should be 'user', 'assistant' or 'system'")),
    };
    only(message, path, allowed)?;
    system_extras(rules, message, path)?;
    let Some(content) = message.get("content") else {
        return Err(ApiError::at(&format!("{path}.content"), "Field required"));
    };
    match &content.kind {
        Kind::String(text) if text.trim().is_empty() => Err(ApiError::at(path, "text content must be non-empty")),
        Kind::String(_) => Ok(()),
        Kind::Array(blocks) if blocks.is_empty() => {
            Err(ApiError::at(path, format!("{role} messages must have non-empty content")))
        }
        Kind::Array(blocks) => {
            for (position, block) in blocks.iter().enumerate() {
                one_block(rules, role, block, &format!("{path}.content.{position}"))?;
            }
            Ok(())
        }
        _ => Err(ApiError::at(&format!("{path}.content"), "Input should be a string or a list of blocks")),
    }
}

/// Fields of a `role:"system"` message that have a beta of their own.
fn system_extras(rules: &Rules<'_>, message: &Node, path: &str) -> Checked {
    let paired = [
        ("output_config", "mid-conversation-output-config-2026-07-01"),
        ("clear_at", "mid-conversation-system-clear-at-2026-08-21"),
    ];
    let alone = paired.iter().find(|(field, beta)| message.get(field).is_some() && !rules.has_beta(beta));
    alone.map_or(Ok(()), |(field, _)| Err(extra(&format!("{path}.{field}"))))
}

/// The members of each block type, and the roles that may send it.
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

fn one_block(rules: &Rules<'_>, role: &str, block: &Node, path: &str) -> Checked {
    let kind = block.tag();
    let Some((members, roles)) = shape_of(kind) else {
        // A block that the server itself gave out comes back as it was, whatever it is.
        if role == "assistant" && rules.issued.odd_types.contains(kind) {
            return Ok(());
        }
        return Err(ApiError::at(path, format!("Input tag {kind:?} does not match any of the expected tags")));
    };
    if !roles.contains(&role) {
        return Err(ApiError::at(path, format!("`{kind}` blocks are not allowed in {role} messages")));
    }
    only(block, path, members)?;
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

fn removed_in_new_version(role: &str, block: &Node, path: &str) -> Checked {
    if role == "assistant" && block.tag() == "document" {
        return Err(ApiError::at(path, "`document` blocks are not allowed in assistant messages"));
    }
    let cited = block.get("citations").is_some_and(|citations| !citations.items().is_empty());
    if role == "user" && block.tag() == "text" && cited {
        return Err(ApiError::at(&format!("{path}.citations"), "not allowed in user messages"));
    }
    Ok(())
}

fn non_blank(block: &Node, path: &str) -> Checked {
    match block.str_of("text") {
        None => Err(ApiError::at(&format!("{path}.text"), "Field required")),
        Some("") => Err(ApiError::at(path, "text content blocks must be non-empty")),
        Some(text) if text.trim().is_empty() => {
            Err(ApiError::at(path, "text content blocks must contain non-whitespace text (non-empty)"))
        }
        Some(_) => Ok(()),
    }
}

fn tool_use(block: &Node, path: &str) -> Checked {
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
    if !block.get("input").is_some_and(Node::is_object) {
        return Err(ApiError::at(&format!("{path}.input"), "Input should be an object"));
    }
    Ok(())
}

fn tool_result(rules: &Rules<'_>, block: &Node, path: &str) -> Checked {
    if block.get("is_error").is_some_and(|flag| flag.as_bool().is_none() && !flag.is_null()) {
        return Err(ApiError::at(&format!("{path}.is_error"), "Input should be a valid boolean"));
    }
    let Some(content) = block.get("content") else { return Ok(()) };
    match &content.kind {
        Kind::String(_) => Ok(()),
        Kind::Array(parts) => {
            for (position, part) in parts.iter().enumerate() {
                result_part(rules, part, &format!("{path}.content.{position}"))?;
            }
            Ok(())
        }
        _ => Err(ApiError::at(&format!("{path}.content"), "Input should be a string or a list of blocks")),
    }
}

fn result_part(rules: &Rules<'_>, part: &Node, path: &str) -> Checked {
    match part.tag() {
        "tool_reference" => {
            only(part, path, &["type", "tool_name", "cache_control"])?;
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

fn image_source(block: &Node, path: &str) -> Checked {
    let path = format!("{path}.source");
    let Some(source) = block.get("source") else { return Err(ApiError::at(&path, "Field required")) };
    match source.tag() {
        "url" | "file" => elsewhere(source, &path),
        "base64" => {
            only(source, &path, &["type", "media_type", "data"])?;
            let (declared, data) = (source.str_of("media_type").unwrap_or(""), source.str_of("data").unwrap_or(""));
            if data.len() > MOST_IMAGE_BYTES {
                let message = format!("image exceeds 10 MB maximum: {} bytes", data.len());
                return Err(ApiError::at(&path, message));
            }
            match images::look(data) {
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

/// A source that the service fetches itself.
fn elsewhere(source: &Node, path: &str) -> Checked {
    let (field, value) = if source.tag() == "url" { ("url", "https://") } else { ("file_id", "") };
    only(source, path, &["type", field])?;
    match source.str_of(field) {
        Some(given) if !given.is_empty() && (given.starts_with(value) || given.starts_with("http://")) => Ok(()),
        Some(_) => Err(ApiError::at(&format!("{path}.{field}"), "not an address that can be fetched")),
        None => Err(ApiError::at(&format!("{path}.{field}"), "Field required")),
    }
}

fn document_source(block: &Node, path: &str) -> Checked {
    let path = format!("{path}.source");
    let Some(source) = block.get("source") else { return Err(ApiError::at(&path, "Field required")) };
    let data = source.str_of("data").unwrap_or("");
    match (source.tag(), source.str_of("media_type")) {
        ("url" | "file", _) => elsewhere(source, &path),
        ("base64", Some("application/pdf")) if images::is_pdf(data) => Ok(()),
        ("base64", _) => Err(ApiError::at(&path, "the document is not a valid PDF")),
        ("text", Some("text/plain")) if !data.trim().is_empty() => Ok(()),
        ("text", _) => Err(ApiError::at(&path, "a text document needs media type text/plain and some text")),
        ("content", _) if source.get("content").is_some() => Ok(()),
        (other, _) => Err(ApiError::at(&path, format!("unknown document source {other:?}"))),
    }
}

/// Limits over all images of the request, history and tool results included.
fn all_images(rules: &Rules<'_>) -> Checked {
    let blocks = || rules.items("messages").iter().filter_map(|message| message.get("content")).flat_map(Node::items);
    let nested = blocks().filter_map(|block| block.get("content")).flat_map(Node::items);
    let all: Vec<&Node> = blocks().chain(nested).filter(|block| block.tag() == "image").collect();
    if all.len() > rules.profile.max_images() {
        let most = rules.profile.max_images();
        return Err(ApiError::at("messages", format!("too many images: {} > {most}", all.len())));
    }
    let many = all.len() > MANY_IMAGES;
    let limit = if many { MOST_PIXELS_OF_MANY } else { MOST_PIXELS };
    for image in all {
        let data = image.get("source").and_then(|source| source.str_of("data")).unwrap_or("");
        let Some(found) = images::look(data) else { continue };
        if found.width.max(found.height) > limit {
            let when = if many { " for many-image requests" } else { "" };
            let message = format!("image dimensions exceed max allowed size{when}: {limit} pixels");
            return Err(ApiError::at("messages", message));
        }
    }
    Ok(())
}
