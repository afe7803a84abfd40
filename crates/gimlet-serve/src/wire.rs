//! The public wire format: events as stream-json lines. It is an external contract, kept in one place.
//!
//! Members that programs rely on have the order and names of the reference; blocks are carried byte for byte.

mod hook_lines;
mod result_line;
mod task_lines;

use std::collections::HashSet;

use gimlet_proto::{
    AcceptedPrompt, AgentPath, AssistantBlock, BlockKind, CommandReply, CompactedSegment, CompactionView, Denial,
    EntryId, Event, EventBody, Notice, NoticeLevel, PluginFailure, PluginSummary, RetryNotice, ServerView,
    SessionFacts, SessionId, StoredToolResult, TokenUsage, ToolCallPhase, ToolCallView, ToolUseId, TurnSetup,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use result_line::startup_failure_line;
pub(crate) use result_line::{
    local_result_line, render_model_usage, total_cost, turn_result, unavailable_call_message,
};
use task_lines::TaskLines;

/// Optional lines that a consumer requested.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WireOptions {
    pub(crate) partial: bool,
    pub(crate) replay_prompts: bool,
    /// Includes every hook run, not only those that open a session.
    pub(crate) hook_events: bool,
    /// Includes the text and thinking of subagents besides their actions.
    pub(crate) subagent_text: bool,
}

/// Kind of reader, which decides the lines that may follow a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireConsumer {
    /// A program that keeps its side open until every announced subagent has ended.
    TracksAgents,
    /// A program that has sent its last line and waits only for the end.
    HasLeft,
    /// Reader of printed output: the result is the last line.
    ReadsOutput,
}

/// Facts about the session that precede every turn, beyond the turn's own configuration.
#[derive(Clone, Debug)]
pub struct InitFacts {
    /// Output style as named in the settings, even if it does not exist.
    pub output_style: String,
    pub betas: Vec<String>,
    /// Protocol features that programs may rely on.
    pub capabilities: Vec<&'static str>,
    /// Part of the requested sandbox that is unavailable.
    pub sandbox_missing: Option<String>,
    pub plugins: Vec<PluginSummary>,
    pub plugin_errors: Vec<PluginFailure>,
}

impl InitFacts {
    /// Returns the facts for the programs that read a session's output.
    pub fn from_session(facts: &SessionFacts) -> Self {
        Self {
            output_style: facts.output_style.clone(),
            betas: facts.betas.clone(),
            capabilities: Vec::new(),
            sandbox_missing: facts.sandbox_missing.clone(),
            plugins: facts.plugins.clone(),
            plugin_errors: facts.plugin_errors.clone(),
        }
    }
}

impl Default for InitFacts {
    fn default() -> Self {
        Self {
            output_style: "default".to_owned(),
            betas: Vec::new(),
            capabilities: Vec::new(),
            sandbox_missing: None,
            plugins: Vec::new(),
            plugin_errors: Vec::new(),
        }
    }
}

/// Encoder of the wire format for one consumer.
pub(crate) struct WireEncoder {
    options: WireOptions,
    consumer: WireConsumer,
    init_facts: InitFacts,
    /// Blocks of replies in progress, each with its agent: they may still be retracted.
    shown_blocks: Vec<(AgentPath, EntryId)>,
    tasks: TaskLines,
    /// Subagent calls that were shown and whose results were not.
    unanswered_calls: HashSet<ToolUseId>,
    /// True once an error result was written; programs would take any line after it for a successful turn.
    has_failed: bool,
    /// True if a result was written and no turn has begun since.
    between_turns: bool,
}

impl WireEncoder {
    pub(crate) fn new(options: WireOptions, consumer: WireConsumer, init_facts: InitFacts) -> Self {
        Self {
            options,
            consumer,
            init_facts,
            shown_blocks: Vec::new(),
            tasks: TaskLines::default(),
            unanswered_calls: HashSet::new(),
            has_failed: false,
            between_turns: false,
        }
    }

    /// Records that the program has sent its last line.
    pub(crate) fn mark_host_left(&mut self) {
        self.consumer = WireConsumer::HasLeft;
    }

    /// Returns true if nothing may follow the last result.
    pub(crate) fn is_muted(&self) -> bool {
        self.has_failed || (self.between_turns && self.consumer == WireConsumer::ReadsOutput)
    }

    /// Renders the running background tasks for a program that reconnects; `None` after an error.
    pub(crate) fn background_tasks_line(&self, session: &SessionId) -> Option<String> {
        (!self.has_failed).then(|| self.tasks.background_tasks_line(session))
    }

    /// Includes the text and thinking of subagents from now on.
    pub(crate) fn enable_subagent_text(&mut self) {
        self.options.subagent_text = true;
    }

    /// Sets the output style named by the settings.
    pub(crate) fn set_output_style(&mut self, style: &str) {
        style.clone_into(&mut self.init_facts.output_style);
    }

    /// Replaces the facts when another session takes the place of the last.
    pub(crate) fn set_init_facts(&mut self, face: InitFacts) {
        self.init_facts = face;
    }

    /// Returns true if the last turn ended with an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Records the outcome of a turn without the model.
    pub(crate) fn set_failed(&mut self, badly: bool) {
        self.has_failed = badly;
    }

    /// Forgets shown blocks at a new conversation or a turn without the model: they can no longer be retracted.
    pub(crate) fn reset_turn(&mut self) {
        self.shown_blocks.clear();
        self.has_failed = false;
        self.between_turns = false;
    }

    /// Returns the lines that open a turn: its own line, then the held lines about work that ended before it.
    pub(crate) fn opening_lines(&mut self, session: &SessionId, opened: &TurnSetup) -> Vec<String> {
        let mut lines = vec![self.init_line(session, opened)];
        lines.extend(self.tasks.take_held_lines(session));
        lines
    }

    /// Renders an event; returns no lines for events that this format does not carry.
    pub(crate) fn encode_event(&mut self, event: &Event) -> Vec<String> {
        match &event.body {
            EventBody::TurnStarting(opened) => {
                self.has_failed = false;
                self.between_turns = false;
                self.opening_lines(&event.session, opened)
            }
            EventBody::Task(task) if self.is_muted() => {
                self.tasks.end_after_result(event, task, self.consumer == WireConsumer::TracksAgents)
            }
            EventBody::Task(task) => self.tasks.render_task(event, task),
            EventBody::ToolFinished(finished) if event.agent.parent_tool_use().is_some() => {
                self.subagent_result_lines(event, finished)
            }
            EventBody::Denied(denial) if !self.is_muted() => vec![self.denial_line(event, denial)],
            EventBody::Compaction(view) if !self.is_muted() && event.agent.parent_tool_use().is_none() => {
                compaction_lines(event, view)
            }
            EventBody::CommandReply(reply) if !self.is_muted() => self.command_reply_lines(event, reply),
            EventBody::Prompt(_)
            | EventBody::PromptOutcome { .. }
            | EventBody::Requesting
            | EventBody::BlockStarted { .. }
            | EventBody::Delta(_)
            | EventBody::ReplyDiscarded
            | EventBody::Wire(_)
            | EventBody::Block(_)
            | EventBody::Tool(_)
            | EventBody::ToolFinished(_)
            | EventBody::Denied(_)
            | EventBody::Ask(_)
            | EventBody::AskClosed(_)
            | EventBody::Retry(_)
            | EventBody::RateLimits(_)
            | EventBody::CacheBreak(_)
            | EventBody::ReplyAnomalies(_)
            | EventBody::Notice(_)
            | EventBody::Hook(_)
            | EventBody::Compaction(_)
            | EventBody::UnknownCommand { .. }
            | EventBody::ModeChanged(_)
            | EventBody::CommandReply(_)
            | EventBody::TurnEnded(_)
            | EventBody::Closed => self.encode_line(event).into_iter().collect(),
        }
    }

    /// Renders the output of a command: its own line, and an echo for programs that record the conversation.
    fn command_reply_lines(&self, event: &Event, reply: &CommandReply) -> Vec<String> {
        let mut lines = Vec::new();
        if !reply.text.is_empty() {
            lines.push(system_event_line(event, "local_command_output", json!({"content": reply.text})));
        }
        if self.options.replay_prompts {
            lines.push(command_echo_line(&event.session, &reply.text, &event.at));
        }
        lines
    }

    fn encode_line(&mut self, event: &Event) -> Option<String> {
        if self.is_muted() || !is_carried(event, self.options) {
            return None;
        }
        match &event.body {
            EventBody::Requesting => self.shown_blocks.retain(|(agent, _)| *agent != event.agent),
            EventBody::Block(block) if block.error.is_none() => {
                self.shown_blocks.push((event.agent.clone(), block.uuid.clone()));
                if block.block.kind() == BlockKind::ToolUse && event.agent.parent_tool_use().is_some() {
                    self.unanswered_calls.extend(block.block.id().map(ToolUseId::new));
                }
            }
            EventBody::ReplyDiscarded => return self.retraction_line(event),
            EventBody::TurnEnded(report) => {
                let result = turn_result(event, report);
                self.has_failed = result.is_error;
                self.between_turns = true;
                return Some(result.to_line());
            }
            EventBody::TurnStarting(_)
            | EventBody::Prompt(_)
            | EventBody::PromptOutcome { .. }
            | EventBody::BlockStarted { .. }
            | EventBody::Delta(_)
            | EventBody::Wire(_)
            | EventBody::Block(_)
            | EventBody::Tool(_)
            | EventBody::ToolFinished(_)
            | EventBody::Denied(_)
            | EventBody::Ask(_)
            | EventBody::AskClosed(_)
            | EventBody::Task(_)
            | EventBody::Retry(_)
            | EventBody::RateLimits(_)
            | EventBody::CacheBreak(_)
            | EventBody::ReplyAnomalies(_)
            | EventBody::Notice(_)
            | EventBody::Hook(_)
            | EventBody::Compaction(_)
            | EventBody::CommandReply(_)
            | EventBody::UnknownCommand { .. }
            | EventBody::ModeChanged(_)
            | EventBody::Closed => {}
        }
        event_line(event, self.options)
    }

    /// Renders the result of a subagent call after a turn's result, only if the call was shown. Where nothing may
    /// follow the result, it waits for the next turn.
    fn subagent_result_lines(&mut self, event: &Event, finished: &StoredToolResult) -> Vec<String> {
        if !self.unanswered_calls.remove(&finished.call) {
            return Vec::new();
        }
        let line = tool_result_line(event, finished);
        if self.is_muted() {
            self.tasks.hold_line(line);
            return Vec::new();
        }
        vec![line]
    }

    /// Renders the retraction of a reply. Without partial messages there may be nothing to retract.
    fn retraction_line(&mut self, event: &Event) -> Option<String> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.shown_blocks).into_iter().partition(|(agent, _)| *agent == event.agent);
        self.shown_blocks = kept;
        if gone.is_empty() && !self.options.partial {
            return None;
        }
        let uuids: Vec<EntryId> = gone.into_iter().map(|(_, uuid)| uuid).collect();
        Some(system_event_line(event, "reply_discarded", json!({"discarded_uuids": uuids})))
    }

    /// Renders the line that precedes a turn.
    fn init_line(&self, session: &SessionId, opened: &TurnSetup) -> String {
        let mut line = json!({
            "type": "system",
            "subtype": "init",
            "cwd": opened.cwd.to_string_lossy(),
            "session_id": session,
            "tools": opened.tools,
            "mcp_servers": opened.servers.iter().map(render_server_status).collect::<Vec<_>>(),
            "model": opened.model,
            "permissionMode": opened.mode,
            "slash_commands": opened.slash_commands,
            "apiKeySource": opened.api_key_source,
            "claude_code_version": gimlet_proto::COMPAT_VERSION,
            "output_style": self.init_facts.output_style,
            "agents": opened.agents,
            "skills": opened.skills,
            "plugins": self.init_facts.plugins.iter().map(render_plugin).collect::<Vec<_>>(),
            "gimlet_version": gimlet_proto::VERSION,
            "uuid": new_uuid(),
        });
        let optional = [
            ("betas", json!(self.init_facts.betas)),
            ("capabilities", json!(self.init_facts.capabilities)),
            ("plugin_errors", self.init_facts.plugin_errors.iter().map(render_plugin_failure).collect()),
        ];
        for (name, list) in optional.into_iter().filter(|(_, list)| list != &json!([])) {
            line[name] = list;
        }
        if let Some(missing) = &self.init_facts.sandbox_missing {
            line["gimlet_sandbox_missing"] = json!(missing);
        }
        line.to_string()
    }

    fn denial_line(&self, event: &Event, denial: &Denial) -> String {
        let mut members = json!({"tool_name": denial.tool, "tool_use_id": denial.call,
                                 "decision_reason_type": reason_type(&denial.origin),
                                 "decision_reason": denial.reason,
                                 "message": denial.message});
        if let Some(id) = event.agent.parent_tool_use().and_then(|call| self.tasks.agent_for_call(call)) {
            members["agent_id"] = json!(id);
        }
        system_event_line(event, "permission_denied", members)
    }
}

pub(crate) fn render_plugin(plugin: &PluginSummary) -> Value {
    let mut rendered = json!({"name": plugin.name, "path": plugin.path.to_string_lossy()});
    if let Some(version) = &plugin.version {
        rendered["version"] = json!(version);
    }
    rendered
}

fn render_plugin_failure(failure: &PluginFailure) -> Value {
    let mut rendered = json!({"plugin": failure.plugin, "type": failure.kind, "message": failure.message});
    if let Some(path) = &failure.path {
        rendered["path"] = json!(path.to_string_lossy());
    }
    rendered
}

/// Returns the public name for the origin of a denial; there is none for "unattended".
fn reason_type(origin: &str) -> &str {
    match origin {
        "unattended" => "other",
        known => known,
    }
}

/// Returns true if the event is carried. Of a subagent, programs receive its actions, its text only on request, and its
/// streams never.
fn is_carried(event: &Event, lines: WireOptions) -> bool {
    if event.agent.parent_tool_use().is_none() {
        return true;
    }
    match &event.body {
        EventBody::Block(block) => lines.subagent_text || block.block.kind() == BlockKind::ToolUse,
        EventBody::Prompt(_) | EventBody::Wire(_) | EventBody::Requesting => false,
        EventBody::TurnStarting(_)
        | EventBody::PromptOutcome { .. }
        | EventBody::BlockStarted { .. }
        | EventBody::Delta(_)
        | EventBody::ReplyDiscarded
        | EventBody::Tool(_)
        | EventBody::ToolFinished(_)
        | EventBody::Denied(_)
        | EventBody::Ask(_)
        | EventBody::AskClosed(_)
        | EventBody::Task(_)
        | EventBody::Retry(_)
        | EventBody::RateLimits(_)
        | EventBody::CacheBreak(_)
        | EventBody::ReplyAnomalies(_)
        | EventBody::Notice(_)
        | EventBody::Hook(_)
        | EventBody::Compaction(_)
        | EventBody::CommandReply(_)
        | EventBody::UnknownCommand { .. }
        | EventBody::ModeChanged(_)
        | EventBody::TurnEnded(_)
        | EventBody::Closed => true,
    }
}

fn event_line(event: &Event, lines: WireOptions) -> Option<String> {
    match &event.body {
        EventBody::Prompt(prompt) => prompt_line(event, prompt, lines),
        EventBody::Requesting => {
            lines.partial.then(|| system_event_line(event, "status", json!({"status": "requesting"})))
        }
        EventBody::Wire(wire) => lines.partial.then(|| stream_event_line(event, wire)),
        EventBody::Block(block) => Some(assistant_line(event, block)),
        EventBody::Tool(tool) => heartbeat_line(event, tool),
        EventBody::ToolFinished(finished) => Some(tool_result_line(event, finished)),
        EventBody::Retry(retry) => Some(api_retry_line(event, retry)),
        EventBody::Notice(notice) if notice.level == NoticeLevel::Debug => None,
        EventBody::Notice(notice) => Some(notice_line(event, notice)),
        EventBody::Hook(hook) => hook_lines::hook_line(event, hook, lines),
        EventBody::ModeChanged(mode) => {
            Some(system_event_line(event, "status", json!({"status": null, "permissionMode": mode})))
        }
        // Rendered by the caller, because they need more than the event.
        EventBody::TurnStarting(_)
        | EventBody::TurnEnded(_)
        | EventBody::ReplyDiscarded
        | EventBody::Task(_)
        | EventBody::CommandReply(_)
        | EventBody::Compaction(_)
        | EventBody::Denied(_) => None,
        // Reported on standard error.
        EventBody::UnknownCommand { .. } => None,
        // The public rate limit line is different: it states if the plan allows more.
        EventBody::RateLimits(_) | EventBody::CacheBreak(_) | EventBody::ReplyAnomalies(_) => None,
        // Only hosts that gave their prompts ids receive these, in lines of their own.
        EventBody::PromptOutcome { .. } => None,
        EventBody::BlockStarted { .. }
        | EventBody::Delta(_)
        | EventBody::Ask(_)
        | EventBody::AskClosed(_)
        | EventBody::Closed => None,
    }
}

/// Renders the lines of a compaction: the state, then the boundary and the message that the conversation continues
/// from.
fn compaction_lines(event: &Event, view: &CompactionView) -> Vec<String> {
    let status = |members: Value| system_event_line(event, "status", members);
    match view {
        CompactionView::Started(_) => vec![status(json!({"status": "compacting"}))],
        CompactionView::Failed(error) => {
            vec![status(json!({"status": null, "compact_result": "failed", "compact_error": error}))]
        }
        CompactionView::Finished(segment) => vec![
            boundary_line(event, segment),
            summary_line(event, segment),
            status(json!({"status": null, "compact_result": "success"})),
        ],
    }
}

fn boundary_line(event: &Event, segment: &CompactedSegment) -> String {
    let metadata = json!({
        "trigger": segment.trigger.as_str(),
        "pre_tokens": segment.pre_tokens,
        "post_tokens": segment.post_tokens,
        "duration_ms": segment.duration_ms,
    });
    json!({"type": "system", "subtype": "compact_boundary", "compact_metadata": metadata,
           "uuid": segment.boundary, "session_id": event.session})
    .to_string()
}

fn summary_line(event: &Event, segment: &CompactedSegment) -> String {
    let content = match segment.blocks.as_slice() {
        [only] => only.as_text().map_or(Value::Null, |text| json!(text)),
        blocks => serde_json::to_value(blocks).unwrap_or(Value::Null),
    };
    json!({
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": null,
        "session_id": event.session,
        "uuid": segment.summary,
        "timestamp": event.at.as_ref(),
        "isSynthetic": true,
        "isReplay": false,
    })
    .to_string()
}

fn new_uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn parent_tool_use(event: &Event) -> Value {
    event.agent.parent_tool_use().map_or(Value::Null, |id| json!(id))
}

/// Renders a `system` line: its own members between the type and the ids.
fn system_event_line(event: &Event, subtype: &str, members: Value) -> String {
    system_line(&event.session, subtype, members)
}

fn system_line(session: &SessionId, subtype: &str, members: Value) -> String {
    let mut line = serde_json::Map::new();
    line.insert("type".into(), json!("system"));
    line.insert("subtype".into(), json!(subtype));
    if let Value::Object(members) = members {
        line.extend(members);
    }
    line.insert("uuid".into(), json!(new_uuid()));
    line.insert("session_id".into(), json!(session));
    Value::Object(line).to_string()
}

fn render_server_status(server: &ServerView) -> Value {
    json!({"name": server.name, "status": server.status.as_str(), "source": server.source})
}

fn prompt_line(event: &Event, prompt: &AcceptedPrompt, lines: WireOptions) -> Option<String> {
    if !prompt.synthetic && !lines.replay_prompts {
        return None;
    }
    let content = match prompt.blocks.as_slice() {
        [only] if prompt.plain => only.as_text().map_or(Value::Null, |text| json!(text)),
        blocks => serde_json::to_value(blocks).unwrap_or(Value::Null),
    };
    let mark = if prompt.synthetic { "isSynthetic" } else { "isReplay" };
    let mut line = json!({
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": parent_tool_use(event),
        "session_id": event.session,
        "uuid": prompt.uuid,
        "timestamp": event.at.as_ref(),
        mark: true,
    });
    if let Some(origin) = &prompt.origin {
        line["origin"] = json!(origin);
    }
    Some(line.to_string())
}

/// Renders the echo of a command's output.
pub(crate) fn command_echo_line(session: &SessionId, text: &str, timestamp: &str) -> String {
    let content = format!("<local-command-stdout>{text}</local-command-stdout>");
    json!({"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": null,
        "session_id": session, "uuid": new_uuid(), "timestamp": timestamp, "isReplay": true})
    .to_string()
}

fn stream_event_line(event: &Event, wire: &RawValue) -> String {
    format!(
        r#"{{"type":"stream_event","event":{},"session_id":{},"parent_tool_use_id":{},"uuid":"{}"}}"#,
        wire.get(),
        json!(event.session),
        parent_tool_use(event),
        new_uuid(),
    )
}

fn assistant_line(event: &Event, block: &AssistantBlock) -> String {
    let mut line = format!(
        r#"{{"type":"assistant","message":{{"id":{},"type":"message","role":"assistant","model":{},"content":[{}],"stop_reason":{},"stop_sequence":null,"usage":{}}},"parent_tool_use_id":{},"session_id":{},"uuid":{},"timestamp":{}"#,
        json!(block.message_id),
        json!(block.model),
        visible_block(block),
        if block.error.is_some() { r#""stop_sequence""# } else { "null" },
        render_message_usage(&block.usage),
        parent_tool_use(event),
        json!(event.session),
        json!(block.uuid),
        json!(event.at.as_ref()),
    );
    if let Some(id) = &block.request_id {
        line.push_str(&format!(r#","request_id":{}"#, json!(id)));
    }
    if block.aborted {
        line.push_str(r#","aborted":true"#);
    }
    if let Some(error) = &block.error {
        line.push_str(&format!(r#","error":"{}""#, error.kind.wire_code()));
    }
    line.push('}');
    line
}

/// Returns the block's own bytes; a thinking block without a signature gets the empty one that programs expect.
fn visible_block(block: &AssistantBlock) -> String {
    let json = block.block.json();
    let unsigned = block.block.kind() == BlockKind::Thinking && !json.contains("\"signature\"");
    match json.strip_suffix('}') {
        Some(open) if unsigned => format!(r#"{open},"signature":""}}"#),
        Some(_) | None => json.to_owned(),
    }
}

/// Renders token counts in the form of messages.
pub(crate) fn render_message_usage(usage: &TokenUsage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
    })
}

fn tool_result_line(event: &Event, finished: &StoredToolResult) -> String {
    format!(
        r#"{{"type":"user","message":{{"role":"user","content":[{}]}},"parent_tool_use_id":{},"session_id":{},"uuid":{},"timestamp":{},"tool_use_result":{}}}"#,
        finished.block.json(),
        parent_tool_use(event),
        json!(event.session),
        json!(finished.uuid),
        json!(event.at.as_ref()),
        finished.output.get(),
    )
}

/// Renders the runtime's heartbeat, the only public progress; a tool's own progress messages are for the user.
fn heartbeat_line(event: &Event, tool: &ToolCallView) -> Option<String> {
    let ToolCallPhase::Progress { text, elapsed_ms } = &tool.phase else { return None };
    text.is_empty().then(|| {
        json!({
            "type": "tool_progress",
            "tool_use_id": tool.call,
            "tool_name": tool.name,
            "parent_tool_use_id": parent_tool_use(event),
            "elapsed_time_seconds": elapsed_ms / 1000,
            "uuid": new_uuid(),
            "session_id": event.session,
        })
        .to_string()
    })
}

fn api_retry_line(event: &Event, retry: &RetryNotice) -> String {
    system_event_line(
        event,
        "api_retry",
        json!({"attempt": retry.attempt, "max_retries": retry.max, "retry_delay_ms": retry.delay_ms,
               "error_status": retry.error.status, "error": retry.error.kind.wire_code()}),
    )
}

fn notice_line(event: &Event, notice: &Notice) -> String {
    let level = match notice.level {
        NoticeLevel::Debug | NoticeLevel::Info | NoticeLevel::Status => "info",
        NoticeLevel::Warning | NoticeLevel::Error => "warning",
    };
    system_event_line(event, "informational", json!({"content": notice.text, "level": level}))
}
