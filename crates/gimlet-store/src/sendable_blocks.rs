//! Blocks of a stored entry that can be sent again, and replacements for those that cannot.
//!
//! A block that a provider accepted once passes unchanged, byte for byte. Only blocks that no provider would accept
//! are changed: values of the wrong type, images that are too large or invalid, half a character written as an escape,
//! and cache marks, because every request sets its own and may have only few. The model's own blocks keep their bytes
//! as long as they can be sent at all, because signatures cover them.

use std::borrow::Cow;

use gimlet_proto::{Block, BlockKind, Role};
use gimlet_text::replace_lone_surrogates;
use memchr::memmem;
use serde_json::value::RawValue;

use crate::images::{self, ImageCheck};
use crate::raw_members::RawJsonMembers;

/// Fault of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockFault {
    Shape,
    HalfCharacter,
    Image(&'static str),
}

/// Result of checking a block.
pub(crate) enum BlockCheck {
    Fine,
    Repaired(Block, BlockFault),
    Dropped(BlockFault),
}

/// Checks one block of a message of this role. A repaired block passes the check.
pub(crate) fn check_block(role: Role, block: &Block) -> BlockCheck {
    let (mut now, mut fault) = match check_shape(role, block) {
        BlockCheck::Fine => (Cow::Borrowed(block), None),
        BlockCheck::Repaired(mended, fault) => (Cow::Owned(mended), Some(fault)),
        dropped @ BlockCheck::Dropped(_) => return dropped,
    };
    if let Some(mended) = drop_unknown_members(role, &now) {
        (now, fault) = (Cow::Owned(mended), fault.or(Some(BlockFault::Shape)));
    }
    if role == Role::User
        && let Some(whole) = replace_block_surrogates(&now)
    {
        (now, fault) = (Cow::Owned(whole), fault.or(Some(BlockFault::HalfCharacter)));
    }
    fault.map_or(BlockCheck::Fine, |fault| BlockCheck::Repaired(now.into_owned(), fault))
}

/// Returns a block of a reply for the history: as it is or repaired; `None` if it cannot be sent.
pub fn sendable_reply_block(block: Block) -> Option<Block> {
    // Only user messages have results.
    if block.kind() == BlockKind::ToolResult {
        return None;
    }
    match check_block(Role::Assistant, &block) {
        BlockCheck::Fine => Some(block),
        BlockCheck::Repaired(mended, _) => Some(mended),
        BlockCheck::Dropped(_) => None,
    }
}

fn check_shape(role: Role, block: &Block) -> BlockCheck {
    let keep = |fine: bool| if fine { BlockCheck::Fine } else { BlockCheck::Dropped(BlockFault::Shape) };
    match (role, block.kind()) {
        (Role::Assistant, BlockKind::Thinking) => {
            keep(is_string_or_absent(block, "thinking", false) && is_string_or_absent(block, "signature", true))
        }
        (Role::Assistant, BlockKind::RedactedThinking) => keep(is_string_or_absent(block, "data", false)),
        (Role::Assistant, BlockKind::ToolUse) => check_call(block),
        (Role::User, BlockKind::Image) => match images::check_image(block.json()) {
            ImageCheck::Fine => BlockCheck::Fine,
            ImageCheck::Mislabelled(image) => BlockCheck::Repaired(image, BlockFault::Shape),
            ImageCheck::Unusable(why) => BlockCheck::Repaired(images::omitted_image_note(why), BlockFault::Image(why)),
        },
        (Role::User, BlockKind::Document) => keep(has_document_source(block.json())),
        (Role::User, BlockKind::ToolResult) => check_result(block),
        (
            Role::User,
            BlockKind::Thinking
            | BlockKind::RedactedThinking
            | BlockKind::ServerToolUse
            | BlockKind::ServerToolResult
            | BlockKind::Compaction
            | BlockKind::Fallback,
        )
        | (Role::Assistant, BlockKind::Image) => BlockCheck::Dropped(BlockFault::Shape),
        // The blocks of a user are known; those of a model may be of a later version, and are kept.
        (Role::User, BlockKind::Other) => {
            let known = ["\"search_result\"", "\"container_upload\"", "\"tool_reference\""];
            keep(json_member(block.json(), "type").is_some_and(|kind| known.contains(&kind)))
        }
        (Role::Assistant, BlockKind::Other) => {
            keep(json_member(block.json(), "type").is_some_and(|kind| kind.starts_with('"') && kind.len() > 2))
        }
        _ => BlockCheck::Fine,
    }
}

/// Returns a member's exact JSON; the last one of that name counts.
pub(crate) fn json_member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let found = RawJsonMembers::new(json.as_bytes()).filter(|(key, _)| *key == name.as_bytes()).last()?;
    std::str::from_utf8(found.1).ok()
}

fn is_string_or_absent(block: &Block, name: &str, may_be_absent: bool) -> bool {
    json_member(block.json(), name).map_or(may_be_absent, |value| value.starts_with('"'))
}

pub(crate) fn content_parts(block: &Block) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json_member(block.json(), "content")?).ok()
}

/// Returns the block without unknown members and cache mark; `None` when it has neither.
fn drop_unknown_members(role: Role, block: &Block) -> Option<Block> {
    let known: &[&[u8]] = match (role, block.kind()) {
        (Role::User, BlockKind::Text) => &[b"type", b"text", b"citations"],
        (Role::User, BlockKind::Image) => &[b"type", b"source"],
        (Role::User, BlockKind::ToolResult) => &[b"type", b"tool_use_id", b"content", b"is_error"],
        _ => return Block::from_json(&drop_cache_mark(block.json())?).ok(),
    };
    Block::from_json(&retain_members(block.json(), |key| known.contains(&key))?).ok()
}

/// Returns the object without its cache mark; `None` when it has none.
fn drop_cache_mark(json: &str) -> Option<String> {
    const MARK: &[u8] = b"cache_control";
    // Most blocks have none, and some are large.
    memmem::find(json.as_bytes(), MARK)?;
    retain_members(json, |key| key != MARK)
}

/// Returns the object with only the wanted members; `None` when that is all of them.
fn retain_members(json: &str, is_wanted: impl Fn(&[u8]) -> bool) -> Option<String> {
    let members: Vec<_> = RawJsonMembers::new(json.as_bytes()).collect();
    if members.iter().all(|(key, _)| is_wanted(key)) {
        return None;
    }
    let kept = members.iter().filter(|(key, _)| is_wanted(key));
    let kept =
        kept.map(|(key, value)| format!("\"{}\":{}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)));
    Some(format!("{{{}}}", kept.collect::<Vec<_>>().join(",")))
}

/// Checks a result, whose content must be a text or a list of sendable parts; other parts are removed.
fn check_result(block: &Block) -> BlockCheck {
    let flag = json_member(block.json(), "is_error");
    let bad_flag = flag.is_some_and(|flag| !matches!(flag, "true" | "false" | "null"));
    let Some(content) = json_member(block.json(), "content") else {
        return if bad_flag { repaired_block(block, None, BlockFault::Shape) } else { BlockCheck::Fine };
    };
    if content.starts_with('"') {
        return if bad_flag { repaired_block(block, Some(content), BlockFault::Shape) } else { BlockCheck::Fine };
    }
    let Some(parts) = content_parts(block) else { return repaired_block(block, Some("\"\""), BlockFault::Shape) };
    let mut fault = bad_flag.then_some(BlockFault::Shape);
    let mut kept = Vec::with_capacity(parts.len());
    for part in parts {
        if images::is_image(part) {
            let (json, wrong) = match images::check_image(part.get()) {
                ImageCheck::Fine => strip_cache_mark(part),
                ImageCheck::Mislabelled(image) => (image.json().to_owned(), Some(BlockFault::Shape)),
                ImageCheck::Unusable(why) => {
                    (images::omitted_image_note(why).json().to_owned(), Some(BlockFault::Image(why)))
                }
            };
            fault = wrong.or(fault);
            kept.push(json);
        } else if is_sendable_part(part) {
            let (json, wrong) = strip_cache_mark(part);
            fault = fault.or(wrong);
            kept.push(json);
        } else {
            fault = fault.or(Some(BlockFault::Shape));
        }
    }
    match fault {
        None => BlockCheck::Fine,
        Some(fault) if kept.is_empty() => repaired_block(block, Some("\"\""), fault),
        Some(fault) => repaired_block(block, Some(&format!("[{}]", kept.join(","))), fault),
    }
}

/// Returns a part of a result without its cache mark, and the fault if it had one.
fn strip_cache_mark(part: &RawValue) -> (String, Option<BlockFault>) {
    match drop_cache_mark(part.get()) {
        Some(json) => (json, Some(BlockFault::Shape)),
        None => (part.get().to_owned(), None),
    }
}

/// Returns true if a part of a result that is not an image can be sent.
fn is_sendable_part(part: &RawValue) -> bool {
    let json = part.get();
    if !json.starts_with('{') {
        return false;
    }
    match json_member(json, "type") {
        Some("\"text\"") => {
            let text = json_member(json, "text").filter(|text| text.starts_with('"'));
            let blank = |text: &str| serde_json::from_str::<String>(text).is_ok_and(|text| text.trim().is_empty());
            !text.is_none_or(blank)
        }
        Some("\"document\"") => has_document_source(json),
        Some("\"search_result\"" | "\"tool_reference\"") => !gimlet_text::is_too_deep(json),
        _ => false,
    }
}

/// Returns true if a document has a valid source.
fn has_document_source(json: &str) -> bool {
    let source = json_member(json, "source").filter(|source| source.starts_with('{'));
    let holds = |source: &str| match json_member(source, "type") {
        Some("\"base64\"" | "\"text\"") => json_member(source, "data").is_some_and(|data| data.len() > 2),
        Some("\"url\"" | "\"file\"" | "\"content\"") => true,
        _ => false,
    };
    source.is_some_and(holds) && !gimlet_text::is_too_deep(json)
}

/// Checks the name and the input of a call. Those that cannot be sent are changed, but never the id: a result refers
/// to it.
fn check_call(block: &Block) -> BlockCheck {
    let json = block.json();
    let name = json_member(json, "name").and_then(|name| serde_json::from_str::<String>(name).ok());
    let input = json_member(json, "input").filter(|input| input.starts_with('{') && !gimlet_text::is_too_deep(input));
    let usable = name.as_deref().and_then(sanitize_call_name);
    if let (Some(_), None, Some(_)) = (&name, &usable, input) {
        return BlockCheck::Fine;
    }
    let Some(id) = block.id() else { return BlockCheck::Dropped(BlockFault::Shape) };
    let name = usable.or(name).unwrap_or_else(|| UNNAMED.to_owned());
    let input: &RawValue = serde_json::from_str(input.unwrap_or("{}")).unwrap_or(RawValue::NULL);
    BlockCheck::Repaired(Block::tool_use(id, &name, input), BlockFault::Shape)
}

/// Replacement for a call's missing name.
const UNNAMED: &str = "unnamed";
/// The longest name of a call that is accepted in a request that repeats it.
const LONGEST_NAME: usize = 128;

/// Returns a name that providers accept in place of one that they do not; `None` for a valid name.
fn sanitize_call_name(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(fits) {
        return None;
    }
    let plain: String = name.chars().take(LONGEST_NAME).map(|c| if fits(c) { c } else { '_' }).collect();
    Some(if plain.is_empty() { UNNAMED.to_owned() } else { plain })
}

fn repaired_block(block: &Block, content: Option<&str>, fault: BlockFault) -> BlockCheck {
    let block = match content {
        Some(content) => replace_block_content(block, content),
        None => rebuild_block(block, None),
    };
    block.map_or(BlockCheck::Dropped(fault), |block| BlockCheck::Repaired(block, fault))
}

pub(crate) fn replace_block_content(block: &Block, content: &str) -> Option<Block> {
    rebuild_block(block, Some(content))
}

/// Returns the block with another content, and without an invalid flag.
fn rebuild_block(block: &Block, content: Option<&str>) -> Option<Block> {
    let mut json = String::from("{");
    for (key, value) in RawJsonMembers::new(block.json().as_bytes()) {
        let (key, value) = (std::str::from_utf8(key).ok()?, std::str::from_utf8(value).ok()?);
        let value = match key {
            "content" => content?,
            "is_error" if !matches!(value, "true" | "false" | "null") => continue,
            _ => value,
        };
        if json.len() > 1 {
            json.push(',');
        }
        json += &format!("\"{key}\":{value}");
    }
    json.push('}');
    Block::from_json(&json).ok()
}

/// Returns the block with the replacement character in place of escaped half surrogate pairs, which JSON parsers may
/// reject; `None` when there is no such escape.
fn replace_block_surrogates(block: &Block) -> Option<Block> {
    memmem::find(block.json().as_bytes(), b"\\u")?;
    match replace_lone_surrogates(block.json()) {
        Cow::Owned(json) => Block::from_json(&json).ok(),
        Cow::Borrowed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::tests::png;

    fn sanitized_json(role: Role, json: &str) -> Option<String> {
        let block = Block::from_json(json).unwrap();
        match check_block(role, &block) {
            BlockCheck::Fine => Some(json.to_owned()),
            BlockCheck::Repaired(block, _) => Some(block.json().to_owned()),
            BlockCheck::Dropped(_) => None,
        }
    }

    #[test]
    fn what_can_be_sent_passes_unchanged() {
        let image = format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{}"}}}}"#,
            png(10, 10)
        );
        let in_result = format!(r#"{{"type":"tool_result","tool_use_id":"a","content":[{image}],"is_error":false}}"#);
        let cases = [
            (Role::User, r#"{"type":"text","text":"a \ud83d\ude00 \\ud800 b"}"#),
            (Role::User, r#"{"type":"tool_result","tool_use_id":"a"}"#),
            (Role::User, r#"{"type":"tool_result","tool_use_id":"a","content":""}"#),
            (Role::User, r#"{"type":"tool_result","tool_use_id":"a","content":[]}"#),
            (Role::User, image.as_str()),
            (Role::User, in_result.as_str()),
            (Role::Assistant, r#"{"type":"thinking","thinking":"\ud800","signature":"s"}"#),
            (Role::Assistant, r#"{"type":"thinking","thinking":"no signature: a local model"}"#),
            (Role::Assistant, r#"{"type":"text","text":"half \ud800 a pair"}"#),
            (Role::Assistant, r#"{"type":"of_next_year","x":1}"#),
            (Role::Assistant, r#"{"type":"tool_use","id":"a","name":"mcp__a-b__c","input":{"x":[1]},"caller":{}}"#),
        ];
        for (role, json) in cases {
            assert_eq!(sanitized_json(role, json).as_deref(), Some(json));
        }
    }

    #[test]
    fn what_cannot_be_sent_is_mended_or_goes() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(3000), "]".repeat(3000));
        let tool_use =
            |name: &str, input: &str| format!(r#"{{"type":"tool_use","id":"a","name":{name},"input":{input}}}"#);
        let result = |content: &str| format!(r#"{{"type":"tool_result","tool_use_id":"a","content":{content}}}"#);
        let cases = [
            (Role::User, r#"{"type":"text","text":"a\ud800b\udc00"}"#.to_owned(), Some(r#"a\ufffdb\ufffd"#)),
            (Role::User, result("7"), Some(r#""content":"""#)),
            (
                Role::User,
                result(r#"[{"type":"text","text":"kept"},5,{"text":"x"},{"type":"text","text":" "}]"#),
                Some("kept"),
            ),
            (
                Role::User,
                result(r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"!"}}]"#),
                Some("(An image stood here"),
            ),
            (
                Role::User,
                r#"{"type":"tool_result","tool_use_id":"a","is_error":"yes"}"#.to_owned(),
                Some(r#""tool_use_id":"a"}"#),
            ),
            (Role::User, r#"{"type":"text","text":"a","tezt":1}"#.to_owned(), Some(r#"{"type":"text","text":"a"}"#)),
            (Role::User, r#"{"type":"image","source":3}"#.to_owned(), Some("(An image stood here")),
            (
                Role::User,
                r#"{"type":"tool_result","tool_use_id":"a","content":3,"toolName":"X"}"#.to_owned(),
                Some(r#"{"type":"tool_result","tool_use_id":"a","content":""}"#),
            ),
            (Role::User, r#"{"type":"thinking","thinking":"x","signature":"s"}"#.to_owned(), None),
            (Role::Assistant, r#"{"type":"thinking","thinking":5,"signature":"s"}"#.to_owned(), None),
            (Role::Assistant, r#"{"type":"image","source":{}}"#.to_owned(), None),
            (Role::Assistant, r#"{"text":"of no kind"}"#.to_owned(), None),
            (Role::Assistant, tool_use("\"\"", "{}"), Some(r#""name":"unnamed""#)),
            (Role::Assistant, tool_use("7", "{}"), Some(r#""name":"unnamed""#)),
            (Role::Assistant, tool_use("\"a b.c\"", "{}"), Some(r#""name":"a_b_c""#)),
            (Role::Assistant, tool_use("\"Read\"", "[]"), Some(r#""input":{}"#)),
            (Role::Assistant, tool_use("\"Read\"", &deep), Some(r#""input":{}"#)),
            (Role::User, r#"{"type":"document","source":{"type":"base64","data":""}}"#.to_owned(), None),
        ];
        for (role, json, part) in cases {
            let after = sanitized_json(role, &json);
            if let Some(mended) = &after {
                assert_eq!(sanitized_json(role, mended).as_ref(), Some(mended), "mended twice: {json}");
            }
            match part {
                Some(part) => assert!(after.as_ref().is_some_and(|after| after.contains(part)), "{json}: {after:?}"),
                None => assert_eq!(after, None, "{json}"),
            }
        }
    }

    #[test]
    fn cache_marks_go_wherever_they_stand() {
        let mark = r#","cache_control":{"type":"ephemeral"}"#;
        let cases = [
            (Role::User, r#"{"type":"text","text":"a"@}"#),
            (Role::User, r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a"}@}"#),
            (Role::User, r#"{"type":"container_upload","file_id":"f"@}"#),
            (Role::User, r#"{"type":"tool_result","tool_use_id":"a","content":"x"@}"#),
            (Role::User, r#"{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"@}]@}"#),
            (Role::Assistant, r#"{"type":"text","text":"a"@}"#),
            (Role::Assistant, r#"{"type":"tool_use","id":"a","name":"Edit","input":{"cache_control":1}@}"#),
        ];
        for (role, json) in cases {
            assert_eq!(sanitized_json(role, &json.replace('@', mark)), Some(json.replace('@', "")));
        }
    }
}
