//! Format of entries on disk: members in their fixed order, rendered once to one line of compact JSON.
//!
//! Scanners of other programs search these lines as bytes, so the order, the names and the absence of whitespace are
//! part of the format. Blocks and tool outputs are spliced in as the exact JSON they already are.

use std::borrow::Cow;

use gimlet_proto::{Block, COMPAT_VERSION, PromptOrigin, TokenUsage};
use gimlet_text::compact_json;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::carried_record::CarriedRecord;
use crate::checkpoints::FileBackup;
use crate::segment_context::{ContextPartLabel, SegmentContextPart};

/// Attachment type for a call that is deferred.
pub(crate) const DEFERRED_CALL: &str = "deferred_tool_use";
/// Attachment type for a deferred call that is about to run, and must not be run again.
pub(crate) const RESUMED_CALL: &str = "deferred_tool_use_resumed";

/// Member of a user entry that was not sent together with the user entry right before it.
pub(crate) const APART: &str = "gimletApart";
/// Member of a user entry that is a part of the context.
pub(crate) const CONTEXT_PART: &str = "gimletContext";

/// Context that every chain entry of a session records.
#[derive(Clone, Debug, Default)]
pub struct EntryStamp {
    pub cwd: String,
    pub git_branch: String,
    /// Program that started the session: `cli` in a terminal, `sdk-cli` for print mode, `sdk-py`, … as set by the
    /// host.
    pub entrypoint: Option<String>,
}

/// File that an entry is for.
#[derive(Clone, Copy)]
pub(crate) struct EntryContext<'a> {
    pub(crate) session: &'a str,
    /// Subagent whose own file this is.
    pub(crate) agent: Option<&'a str>,
    pub(crate) stamp: &'a EntryStamp,
}

/// Links and time of one entry.
#[derive(Clone, Copy)]
pub(crate) struct EntryLinks<'a> {
    pub(crate) uuid: &'a str,
    pub(crate) parent: Option<&'a str>,
    pub(crate) timestamp: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryHead<'a> {
    parent_uuid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logical_parent_uuid: Option<&'a str>,
    is_sidechain: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'a str>,
    user_type: &'static str,
    cwd: &'a str,
    session_id: &'a str,
    version: &'static str,
    git_branch: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    entrypoint: Option<&'a str>,
}

#[derive(Serialize)]
struct EntryFoot<'a> {
    uuid: &'a str,
    timestamp: &'a str,
}

/// Line under construction: `{` has been written, members follow.
struct EntryLine(String);

impl EntryLine {
    fn begin_chain_entry(
        place: EntryContext<'_>,
        links: EntryLinks<'_>,
        logical_parent: Option<&str>,
        entrypoint: Option<&str>,
    ) -> Self {
        let mut line = EntryLine(String::with_capacity(512));
        line.0.push('{');
        line.add_members(&EntryHead {
            parent_uuid: links.parent,
            logical_parent_uuid: logical_parent,
            is_sidechain: place.agent.is_some(),
            agent_id: place.agent,
            user_type: "external",
            cwd: &place.stamp.cwd,
            session_id: place.session,
            version: COMPAT_VERSION,
            git_branch: &place.stamp.git_branch,
            entrypoint,
        });
        line
    }

    /// Adds all members of a struct at this level. (Not serde's `flatten`: that goes through an untyped value.)
    fn add_members(&mut self, members: &impl Serialize) {
        let json = to_json(members);
        if let Some(inner) = json.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'))
            && !inner.is_empty()
        {
            self.add_separator();
            self.0.push_str(inner);
        }
    }

    fn add_string(&mut self, name: &str, value: &str) {
        self.add_raw(name, &to_json(value));
    }

    fn add_flag(&mut self, name: &str, value: bool) {
        if value {
            self.add_raw(name, "true");
        }
    }

    /// Adds a member whose value is compact JSON already.
    fn add_raw(&mut self, name: &str, json: &str) {
        self.add_separator();
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        self.0.push_str(json);
    }

    fn add_separator(&mut self) {
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
    }

    fn add_foot(&mut self, links: EntryLinks<'_>) {
        self.add_members(&EntryFoot { uuid: links.uuid, timestamp: links.timestamp });
    }

    fn finish(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    // Plain structs of strings, numbers and raw JSON: writing them to memory cannot fail.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Kind of a user entry, beyond an ordinary prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserEntryKind {
    #[default]
    Prompt,
    /// Injected by gimlet; hidden from session lists.
    Meta,
    /// The summary that follows a compact boundary.
    CompactSummary,
}

/// Fields of a user entry that carries a tool result.
#[derive(Clone, Copy)]
pub(crate) struct ResultEntryFields<'a> {
    pub(crate) source_assistant: Option<&'a str>,
    pub(crate) tool_use_result: Option<&'a RawValue>,
}

/// Renders the content of a user message: one string where it was passed as one, else its blocks.
pub(crate) fn render_user_content(blocks: &[Block], plain: bool) -> String {
    if let ([block], true) = (blocks, plain)
        && let Some(text) = block.as_text()
        // Parsing the string again must return this very block; one with unusual escapes is kept as a block.
        && Block::text(&text) == *block
    {
        return to_json(&text);
    }
    render_block_array(blocks)
}

fn render_block_array(blocks: &[Block]) -> String {
    let mut json = String::with_capacity(blocks.iter().map(|block| block.json().len() + 1).sum::<usize>() + 2);
    json.push('[');
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        json.push_str(block.json());
    }
    json.push(']');
    json
}

/// Fields of a user entry besides its content.
#[derive(Default)]
pub(crate) struct UserEntryFields<'a> {
    pub(crate) origin: Option<&'a PromptOrigin>,
    pub(crate) answer: Option<ResultEntryFields<'a>>,
    /// Set for a part of the context that joined the conversation.
    pub(crate) context: Option<&'a ContextPartLabel>,
    /// True if the entries before it were sent without it: it begins a message of its own.
    pub(crate) starts_message: bool,
}

pub(crate) fn render_user(
    place: EntryContext<'_>,
    links: EntryLinks<'_>,
    content: &str,
    kind: UserEntryKind,
    about: UserEntryFields<'_>,
) -> String {
    let mut line = EntryLine::begin_chain_entry(place, links, None, place.stamp.entrypoint.as_deref());
    line.add_string("type", "user");
    line.add_raw("message", &format!(r#"{{"role":"user","content":{content}}}"#));
    line.add_flag("isMeta", kind == UserEntryKind::Meta);
    line.add_flag("isCompactSummary", kind == UserEntryKind::CompactSummary);
    if let Some(origin) = about.origin {
        line.add_raw("origin", &to_json(origin));
    }
    if let Some(label) = about.context {
        line.add_raw(CONTEXT_PART, &to_json(label));
    }
    line.add_flag(APART, about.starts_message);
    line.add_foot(links);
    if let Some(answer) = about.answer {
        if let Some(result) = answer.tool_use_result {
            line.add_raw("toolUseResult", &compact_json(result.get()));
        }
        if let Some(source) = answer.source_assistant {
            line.add_string("sourceToolAssistantUUID", source);
        }
    }
    line.finish()
}

/// Fields of an assistant entry besides its block.
#[derive(Clone, Debug, Default)]
pub struct AssistantHead {
    /// Shared by all blocks of one reply.
    pub message_id: String,
    pub model: String,
    pub request_id: Option<String>,
    /// Known only once the reply has ended.
    pub stop_reason: Option<String>,
    pub stop_sequence: Option<String>,
    pub usage: TokenUsage,
    /// True if the text is gimlet's own report of a failed request, not the model's.
    pub is_api_error: bool,
}

pub(crate) fn render_assistant(
    place: EntryContext<'_>,
    links: EntryLinks<'_>,
    head: &AssistantHead,
    block: &Block,
) -> String {
    #[derive(Serialize)]
    struct AssistantMessage<'a> {
        id: &'a str,
        r#type: &'static str,
        role: &'static str,
        model: &'a str,
        content: [&'a RawValue; 1],
        stop_reason: Option<&'a str>,
        stop_sequence: Option<&'a str>,
        usage: WireUsage,
    }
    let message = AssistantMessage {
        id: &head.message_id,
        r#type: "message",
        role: "assistant",
        model: &head.model,
        content: [block.raw()],
        stop_reason: head.stop_reason.as_deref(),
        stop_sequence: head.stop_sequence.as_deref(),
        usage: WireUsage::from(&head.usage),
    };
    let mut line = EntryLine::begin_chain_entry(place, links, None, None);
    line.add_string("type", "assistant");
    line.add_raw("message", &to_json(&message));
    if let Some(request) = &head.request_id {
        line.add_string("requestId", request);
    }
    line.add_flag("isApiErrorMessage", head.is_api_error);
    line.add_foot(links);
    line.finish()
}

/// Token counts in the form of the API.
#[derive(Serialize)]
struct WireUsage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation: Option<CacheCreationUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_details: Option<OutputTokenDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_tool_use: Option<ServerToolUsage>,
}

#[derive(Serialize)]
struct CacheCreationUsage {
    ephemeral_5m_input_tokens: u64,
    ephemeral_1h_input_tokens: u64,
}

#[derive(Serialize)]
struct OutputTokenDetails {
    thinking_tokens: u64,
}

#[derive(Serialize)]
struct ServerToolUsage {
    web_search_requests: u64,
    web_fetch_requests: u64,
}

impl From<&TokenUsage> for WireUsage {
    fn from(usage: &TokenUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            cache_creation_input_tokens: usage.cache_creation_input_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens,
            output_tokens: usage.output_tokens,
            cache_creation: (usage.cache_creation_5m + usage.cache_creation_1h > 0).then_some(CacheCreationUsage {
                ephemeral_5m_input_tokens: usage.cache_creation_5m,
                ephemeral_1h_input_tokens: usage.cache_creation_1h,
            }),
            output_tokens_details: (usage.thinking_tokens > 0)
                .then_some(OutputTokenDetails { thinking_tokens: usage.thinking_tokens }),
            server_tool_use: (usage.web_search_requests + usage.web_fetch_requests > 0).then_some(ServerToolUsage {
                web_search_requests: usage.web_search_requests,
                web_fetch_requests: usage.web_fetch_requests,
            }),
        }
    }
}

/// Renders the state of a call that has no result yet: [`DEFERRED_CALL`] or [`RESUMED_CALL`].
pub(crate) fn render_open_call(place: EntryContext<'_>, links: EntryLinks<'_>, state: &str, call: &str) -> String {
    // Two texts always are a JSON object.
    let json = serde_json::json!({ "type": state, "toolUseId": call }).to_string();
    match RawValue::from_string(json) {
        Ok(mark) => render_attachment(place, links, &mark),
        Err(_) => String::new(),
    }
}

pub(crate) fn render_attachment(place: EntryContext<'_>, links: EntryLinks<'_>, attachment: &RawValue) -> String {
    let mut line = EntryLine::begin_chain_entry(place, links, None, place.stamp.entrypoint.as_deref());
    line.add_string("type", "attachment");
    line.add_raw("attachment", &compact_json(attachment.get()));
    line.add_foot(links);
    line.finish()
}

pub(crate) fn render_system(place: EntryContext<'_>, links: EntryLinks<'_>, subtype: &str, content: &str) -> String {
    let mut line = EntryLine::begin_chain_entry(place, links, None, place.stamp.entrypoint.as_deref());
    line.add_string("type", "system");
    line.add_string("subtype", subtype);
    line.add_string("content", content);
    line.add_foot(links);
    line.finish()
}

/// Result of a compaction, as the boundary records it.
#[derive(Clone, Debug, Default)]
pub struct CompactionRecord {
    /// True if the user asked for it rather than the size of the conversation.
    pub manual: bool,
    pub pre_tokens: u64,
    pub post_tokens: u64,
    pub duration_ms: u64,
    pub carried: CarriedRecord,
}

pub(crate) fn render_compact_boundary(
    place: EntryContext<'_>,
    links: EntryLinks<'_>,
    logical_parent: Option<&str>,
    compaction: &CompactionRecord,
) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct CompactMetadata<'a> {
        trigger: &'static str,
        pre_tokens: u64,
        post_tokens: u64,
        duration_ms: u64,
        #[serde(rename = "gimletCarried", skip_serializing_if = "CarriedRecord::is_empty")]
        carried: &'a CarriedRecord,
    }
    let metadata = CompactMetadata {
        trigger: if compaction.manual { "manual" } else { "auto" },
        pre_tokens: compaction.pre_tokens,
        post_tokens: compaction.post_tokens,
        duration_ms: compaction.duration_ms,
        carried: &compaction.carried,
    };
    let mut line = EntryLine::begin_chain_entry(place, links, logical_parent, place.stamp.entrypoint.as_deref());
    line.add_string("type", "system");
    line.add_string("subtype", "compact_boundary");
    line.add_string("content", "Conversation compacted");
    line.add_raw("compactMetadata", &to_json(&metadata));
    line.add_foot(links);
    line.finish()
}

/// Renders a metadata entry with one string member: `{"type":…,"<name>":…,"sessionId":…}`.
pub(crate) fn render_metadata(kind: &str, name: &str, value: &str, session: &str) -> String {
    let mut line = EntryLine("{".to_owned());
    line.add_string("type", kind);
    line.add_string(name, value);
    line.add_string("sessionId", session);
    line.finish()
}

pub(crate) fn render_last_prompt(prompt: &str, leaf: &str, session: &str) -> String {
    let mut line = EntryLine("{".to_owned());
    line.add_string("type", "last-prompt");
    line.add_string("lastPrompt", prompt);
    line.add_string("leafUuid", leaf);
    line.add_string("sessionId", session);
    line.finish()
}

/// Renders a change to the queue of prompts.
pub(crate) fn render_queue_operation(operation: &str, content: Option<&str>, session: &str) -> String {
    let mut line = EntryLine("{".to_owned());
    line.add_string("type", "queue-operation");
    line.add_string("operation", operation);
    line.add_string("timestamp", &current_timestamp());
    line.add_string("sessionId", session);
    if let Some(content) = content {
        line.add_string("content", content);
    }
    line.finish()
}

/// Renders the backups of files at a prompt. `update`: there are more of them than in the previous record.
pub(crate) fn render_file_history(prompt: &str, backups: &[FileBackup<'_>], update: bool) -> String {
    let now = current_timestamp();
    let mut tracked = EntryLine("{".to_owned());
    for backup in backups {
        let name = backup.name.map_or("null".to_owned(), to_json);
        let value = format!(r#"{{"backupFileName":{name},"version":1,"backupTime":"{now}"}}"#);
        tracked.add_separator();
        tracked.0.push_str(&to_json(&backup.path.to_string_lossy()));
        tracked.0.push(':');
        tracked.0.push_str(&value);
    }
    let mut snapshot = EntryLine("{".to_owned());
    snapshot.add_string("messageId", prompt);
    snapshot.add_raw("trackedFileBackups", &(tracked.0 + "}"));
    snapshot.add_string("timestamp", &now);
    let mut line = EntryLine("{".to_owned());
    line.add_string("type", "file-history-snapshot");
    line.add_string("messageId", prompt);
    line.add_raw("snapshot", &(snapshot.0 + "}"));
    line.add_raw("isSnapshotUpdate", if update { "true" } else { "false" });
    line.finish()
}

/// Renders the frozen system prompt, tool list and context. The tool list is kept as a string: its bytes survive as
/// they are, and no scanner mistakes a schema's member for ours.
pub(crate) fn render_frozen_prefix(
    system: &[String],
    tools_json: &str,
    context: &[SegmentContextPart],
    session: &str,
    agent: Option<&str>,
) -> String {
    let mut line = EntryLine("{".to_owned());
    line.add_string("type", "gimlet-frozen");
    if let Some(agent) = agent {
        line.add_raw("isSidechain", "true");
        line.add_string("agentId", agent);
    }
    line.add_raw("system", &to_json(system));
    line.add_string("tools", tools_json);
    if !context.is_empty() {
        line.add_raw("context", &to_json(context));
    }
    line.add_string("sessionId", session);
    line.finish()
}

/// Renders an entry of gimlet's own with one JSON value: `{"type":…,"value":…,"sessionId":…}`.
pub(crate) fn render_own_entry(kind: &str, value: &impl Serialize, session: &str) -> String {
    let mut line = EntryLine("{".to_owned());
    line.add_string("type", kind);
    line.add_raw("value", &to_json(value));
    line.add_string("sessionId", session);
    line.finish()
}

/// Returns a prompt as lists show it: one line, at most 200 characters.
pub(crate) fn to_one_line(text: &str) -> String {
    const MAX: usize = 200;
    let flat: Cow<'_, str> =
        if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ").into() } else { text.into() };
    let flat = flat.trim();
    match flat.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", flat[..end].trim_end()),
        None => flat.to_owned(),
    }
}

/// Returns the current time as entries and the public wire write it: ISO 8601 in UTC with milliseconds.
pub fn current_timestamp() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn timestamps_have_milliseconds_and_z() {
        let now = super::current_timestamp();
        assert_eq!(now.len(), "2026-01-02T03:04:05.678Z".len(), "{now}");
        assert!(now.ends_with('Z') && now.as_bytes()[19] == b'.');
    }
}
