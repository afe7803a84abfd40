//! The public wire: events as stream-json lines. Someone else's contract, kept in one place.
//!
//! Members that programs rely on are written in the order and with the names that the reference uses; whatever carries
//! a block carries its exact bytes.

mod hook;
mod result;
mod tasks;

use std::collections::HashSet;

use gimlet_proto::{
    AgentPath, AssistantBlock, BlockKind, Body, Denial, EntryId, Event, Level, Notice, Opened, Prompt, RetryNotice,
    ServerView, SessionId, ToolFinished, ToolPhase, ToolUseId, ToolView, Usage,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use result::{StartupFailure, startup_failure};
pub(crate) use result::{local_result, model_usage, result, total_cost, unavailable};
use tasks::TaskLines;

/// Which of the optional lines a consumer asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lines {
    pub(crate) partial: bool,
    pub(crate) replay_prompts: bool,
    /// Every run of a hook, not only those that open a session.
    pub(crate) hook_events: bool,
    /// What subagents say and think, besides what they do.
    pub(crate) subagent_text: bool,
}

/// Who reads, and what they make of lines behind a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// A program that keeps its side open until every subagent that it was told of has ended.
    Counts,
    /// A program that has said its last line: it waits for nothing but the end.
    Leaves,
    /// Whoever reads what is printed: the result is the last line.
    Reads,
}

/// What programs are told about the session in front of every turn, beyond the turn's own configuration.
#[derive(Clone, Debug)]
pub struct Face {
    /// As settings name it, whether there is such a style or not.
    pub output_style: String,
    pub slash_commands: Vec<String>,
    pub betas: Vec<String>,
    /// Parts of the protocol that programs may rely on.
    pub capabilities: Vec<&'static str>,
    /// What of the sandbox that settings ask for cannot be had.
    pub sandbox_missing: Option<String>,
    /// Flags that name plugins: there are none yet, and each of them brings none.
    pub plugin_flags: Vec<String>,
}

impl Default for Face {
    fn default() -> Self {
        Self {
            output_style: "default".to_owned(),
            slash_commands: Vec::new(),
            betas: Vec::new(),
            capabilities: Vec::new(),
            sandbox_missing: None,
            plugin_flags: Vec::new(),
        }
    }
}

/// The wire towards one consumer.
pub(crate) struct Wire {
    lines: Lines,
    listener: Listener,
    face: Face,
    /// The blocks of replies under way, each with its agent: they may still be taken back.
    shown: Vec<(AgentPath, EntryId)>,
    tasks: TaskLines,
    /// Calls of subagents that were shown and whose results were not.
    unanswered: HashSet<ToolUseId>,
    /// An error result was written; programs would take whatever follows it for a turn that went well.
    ended_badly: bool,
    /// A result was written, and no turn has begun since.
    between_turns: bool,
}

impl Wire {
    pub(crate) fn new(lines: Lines, listener: Listener, face: Face) -> Self {
        Self {
            lines,
            listener,
            face,
            shown: Vec::new(),
            tasks: TaskLines::default(),
            unanswered: HashSet::new(),
            ended_badly: false,
            between_turns: false,
        }
    }

    /// The program has said its last line.
    pub(crate) fn host_leaves(&mut self) {
        self.listener = Listener::Leaves;
    }

    /// Nothing may follow the last result.
    pub(crate) fn is_silent(&self) -> bool {
        self.ended_badly || (self.between_turns && self.listener == Listener::Reads)
    }

    /// What runs in the background now, for a program that comes back; nothing behind an error.
    pub(crate) fn background_tasks(&self, session: &SessionId) -> Option<String> {
        (!self.ended_badly).then(|| self.tasks.in_background(session))
    }

    /// From now on also what subagents say and think.
    pub(crate) fn show_subagent_text(&mut self) {
        self.lines.subagent_text = true;
    }

    /// The style that settings name from now on.
    pub(crate) fn set_output_style(&mut self, style: &str) {
        style.clone_into(&mut self.face.output_style);
    }

    /// Another session takes the place of the last.
    pub(crate) fn set_face(&mut self, face: Face) {
        self.face = face;
    }

    /// The last turn ended with an error.
    pub(crate) fn ended_badly(&self) -> bool {
        self.ended_badly
    }

    /// A turn without the model has ended.
    pub(crate) fn turn_ended(&mut self, badly: bool) {
        self.ended_badly = badly;
    }

    /// Another conversation, or a turn without the model: what was shown before is not to be taken back any more.
    pub(crate) fn begin_afresh(&mut self) {
        self.shown.clear();
        self.ended_badly = false;
        self.between_turns = false;
    }

    /// What a turn begins with: its own line, then what ended in the silence before it.
    pub(crate) fn opening(&mut self, session: &SessionId, opened: &Opened) -> Vec<String> {
        let mut lines = vec![self.init(session, opened)];
        lines.extend(self.tasks.take_held(session));
        lines
    }

    /// Renders an event; nothing for events that this wire does not carry.
    pub(crate) fn lines(&mut self, event: &Event) -> Vec<String> {
        match &event.body {
            Body::Opened(opened) => {
                self.ended_badly = false;
                self.between_turns = false;
                self.opening(&event.session, opened)
            }
            Body::Task(task) if self.is_silent() => {
                self.tasks.end_in_silence(event, task, self.listener == Listener::Counts)
            }
            Body::Task(task) => self.tasks.lines(event, task),
            Body::ToolFinished(finished) if event.agent.parent_tool_use().is_some() => {
                self.result_of_subagent(event, finished)
            }
            Body::Denied(denial) if !self.is_silent() => vec![self.denied(event, denial)],
            _ => self.line(event).into_iter().collect(),
        }
    }

    fn line(&mut self, event: &Event) -> Option<String> {
        match &event.body {
            _ if self.is_silent() => return None,
            _ if !carries(event, self.lines) => return None,
            Body::Requesting => self.shown.retain(|(agent, _)| *agent != event.agent),
            Body::Block(block) if block.error.is_none() => {
                self.shown.push((event.agent.clone(), block.uuid.clone()));
                let is_call = block.block.kind() == BlockKind::ToolUse && event.agent.parent_tool_use().is_some();
                self.unanswered.extend(block.block.id().filter(|_| is_call).map(ToolUseId::new));
            }
            Body::Discarded => return self.discarded(event),
            Body::TurnEnded(report) => {
                let result = result(event, report);
                self.ended_badly = result.is_error;
                self.between_turns = true;
                return Some(result.render());
            }
            _ => {}
        }
        line(event, self.lines)
    }

    /// Whoever was shown a call of a subagent that goes on behind a result is shown what came of it, and nobody else. Where
    /// nothing may follow the result, it waits for the next turn.
    fn result_of_subagent(&mut self, event: &Event, finished: &ToolFinished) -> Vec<String> {
        if !self.unanswered.remove(&finished.call) {
            return Vec::new();
        }
        let line = tool_result(event, finished);
        if self.is_silent() {
            self.tasks.hold(line);
            return Vec::new();
        }
        vec![line]
    }

    /// Takes back what was shown of a reply. Without partial messages there may be nothing to take back.
    fn discarded(&mut self, event: &Event) -> Option<String> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.shown).into_iter().partition(|(agent, _)| *agent == event.agent);
        self.shown = kept;
        if gone.is_empty() && !self.lines.partial {
            return None;
        }
        let uuids: Vec<EntryId> = gone.into_iter().map(|(_, uuid)| uuid).collect();
        Some(system(event, "reply_discarded", json!({"discarded_uuids": uuids})))
    }

    /// The line in front of a turn.
    fn init(&self, session: &SessionId, opened: &Opened) -> String {
        let mut line = json!({
            "type": "system",
            "subtype": "init",
            "cwd": opened.cwd.to_string_lossy(),
            "session_id": session,
            "tools": opened.tools,
            "mcp_servers": opened.servers.iter().map(server).collect::<Vec<_>>(),
            "model": opened.model,
            "permissionMode": opened.mode,
            "slash_commands": self.face.slash_commands,
            "apiKeySource": opened.api_key_source,
            "claude_code_version": gimlet_proto::COMPAT_VERSION,
            "output_style": self.face.output_style,
            "agents": opened.agents,
            "skills": [],
            "plugins": [],
            "gimlet_version": gimlet_proto::VERSION,
            "uuid": new_uuid(),
        });
        let without = self.face.plugin_flags.iter().enumerate().map(|(at, flag)| {
            let message = format!("{flag}: plugins are not available in this version of gimlet");
            json!({"plugin": format!("inline[{at}]"), "type": "not-available", "message": message})
        });
        let optional = [
            ("betas", json!(self.face.betas)),
            ("capabilities", json!(self.face.capabilities)),
            ("plugin_errors", without.collect()),
        ];
        for (name, list) in optional.into_iter().filter(|(_, list)| list != &json!([])) {
            line[name] = list;
        }
        if let Some(missing) = &self.face.sandbox_missing {
            line["gimlet_sandbox_missing"] = json!(missing);
        }
        line.to_string()
    }

    fn denied(&self, event: &Event, denial: &Denial) -> String {
        let mut members = json!({"tool_name": denial.tool, "tool_use_id": denial.call,
                                 "decision_reason_type": reason_type(&denial.origin),
                                 "decision_reason": denial.reason,
                                 "message": denial.message});
        if let Some(id) = event.agent.parent_tool_use().and_then(|call| self.tasks.agent_of(call)) {
            members["agent_id"] = json!(id);
        }
        system(event, "permission_denied", members)
    }
}

/// The public word for who refused a call. That nobody could be asked has none.
fn reason_type(origin: &str) -> &str {
    match origin {
        "unattended" => "other",
        known => known,
    }
}

/// Of a subagent, programs get what it does; what it says only if they asked for it, and its streams never.
fn carries(event: &Event, lines: Lines) -> bool {
    if event.agent.parent_tool_use().is_none() {
        return true;
    }
    match &event.body {
        Body::Block(block) => lines.subagent_text || block.block.kind() == BlockKind::ToolUse,
        Body::Prompt(_) | Body::Wire(_) | Body::Requesting => false,
        _ => true,
    }
}

fn line(event: &Event, lines: Lines) -> Option<String> {
    match &event.body {
        Body::Prompt(prompt) => prompt_line(event, prompt, lines),
        Body::Requesting => lines.partial.then(|| system(event, "status", json!({"status": "requesting"}))),
        Body::Wire(wire) => lines.partial.then(|| stream_event(event, wire)),
        Body::Block(block) => Some(assistant(event, block)),
        Body::Tool(tool) => heartbeat(event, tool),
        Body::ToolFinished(finished) => Some(tool_result(event, finished)),
        Body::Retry(retry) => Some(api_retry(event, retry)),
        Body::Notice(notice) if notice.level == Level::Debug => None,
        Body::Notice(notice) => Some(informational(event, notice)),
        Body::Hook(hook) => hook::line(event, hook, lines),
        Body::ModeChanged(mode) => Some(system(event, "status", json!({"status": null, "permissionMode": mode}))),
        // The caller takes those that need to know more than the event.
        Body::Opened(_) | Body::TurnEnded(_) | Body::Discarded | Body::Task(_) | Body::Denied(_) => None,
        // What programs are told of limits is another thing: whether the plan allows more.
        Body::RateLimits(_) | Body::CacheBreak(_) | Body::Oddities(_) => None,
        // Only hosts that gave their prompts ids are told, and those in lines of their own.
        Body::PromptFate { .. } => None,
        Body::BlockStarted { .. } | Body::Delta(_) | Body::Ask(_) | Body::AskClosed(_) | Body::Closed => None,
    }
}

fn new_uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn parent(event: &Event) -> Value {
    event.agent.parent_tool_use().map_or(Value::Null, |id| json!(id))
}

/// A `system` line: its own members between the type and the ids.
fn system(event: &Event, subtype: &str, members: Value) -> String {
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

fn server(server: &ServerView) -> Value {
    json!({"name": server.name, "status": server.status.as_str(), "source": server.source})
}

fn prompt_line(event: &Event, prompt: &Prompt, lines: Lines) -> Option<String> {
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
        "parent_tool_use_id": parent(event),
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

fn stream_event(event: &Event, wire: &RawValue) -> String {
    format!(
        r#"{{"type":"stream_event","event":{},"session_id":{},"parent_tool_use_id":{},"uuid":"{}"}}"#,
        wire.get(),
        json!(event.session),
        parent(event),
        new_uuid(),
    )
}

fn assistant(event: &Event, block: &AssistantBlock) -> String {
    let mut line = format!(
        r#"{{"type":"assistant","message":{{"id":{},"type":"message","role":"assistant","model":{},"content":[{}],"stop_reason":{},"stop_sequence":null,"usage":{}}},"parent_tool_use_id":{},"session_id":{},"uuid":{},"timestamp":{}"#,
        json!(block.message_id),
        json!(block.model),
        visible(block),
        if block.error.is_some() { r#""stop_sequence""# } else { "null" },
        message_usage(&block.usage),
        parent(event),
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

/// The block's own bytes; a thinking block without a signature gets the empty one that programs expect.
fn visible(block: &AssistantBlock) -> String {
    let json = block.block.json();
    let unsigned = block.block.kind() == BlockKind::Thinking && !json.contains("\"signature\"");
    match json.strip_suffix('}') {
        Some(open) if unsigned => format!(r#"{open},"signature":""}}"#),
        Some(_) | None => json.to_owned(),
    }
}

/// Tokens as messages tell them.
pub(crate) fn message_usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
    })
}

fn tool_result(event: &Event, finished: &ToolFinished) -> String {
    format!(
        r#"{{"type":"user","message":{{"role":"user","content":[{}]}},"parent_tool_use_id":{},"session_id":{},"uuid":{},"timestamp":{},"tool_use_result":{}}}"#,
        finished.block.json(),
        parent(event),
        json!(event.session),
        json!(finished.uuid),
        json!(event.at.as_ref()),
        finished.output.get(),
    )
}

/// Only the runtime's own sign of life is public; what a tool says of its progress is for people.
fn heartbeat(event: &Event, tool: &ToolView) -> Option<String> {
    let ToolPhase::Progress { text, elapsed_ms } = &tool.phase else { return None };
    text.is_empty().then(|| {
        json!({
            "type": "tool_progress",
            "tool_use_id": tool.call,
            "tool_name": tool.name,
            "parent_tool_use_id": parent(event),
            "elapsed_time_seconds": elapsed_ms / 1000,
            "uuid": new_uuid(),
            "session_id": event.session,
        })
        .to_string()
    })
}

fn api_retry(event: &Event, retry: &RetryNotice) -> String {
    system(
        event,
        "api_retry",
        json!({"attempt": retry.attempt, "max_retries": retry.max, "retry_delay_ms": retry.delay_ms,
               "error_status": retry.error.status, "error": retry.error.kind.wire_code()}),
    )
}

fn informational(event: &Event, notice: &Notice) -> String {
    let level = match notice.level {
        Level::Debug | Level::Info | Level::Status => "info",
        Level::Warning | Level::Error => "warning",
    };
    system(event, "informational", json!({"content": notice.text, "level": level}))
}
