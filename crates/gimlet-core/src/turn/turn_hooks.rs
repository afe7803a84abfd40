//! Hooks around a turn: at its start, for its prompts, after a batch of calls, and before its end.

use std::collections::BTreeMap;

use gimlet_proto::{Block, EntryId, ModelError, NoticeLevel, PromptOutcome, ResultContent, SubmittedPrompt, TurnEnd};
use serde_json::json;

use super::Turn;
use super::reply_outcome::{RetryLimits, append_meta_message};
use crate::call::ToolCall;
use crate::call_result::CallResult;
use crate::conversation::Conversation;
use crate::hooks::{BatchCall, HookEvent, HookPayload, PromptExpansion};

/// Default maximum number of times hooks may keep one turn from ending; the environment can override it.
const MAX_STOP_BLOCKS: u32 = 8;

/// Runs the start hooks of a session or subagent. Their texts are kept until a prompt is accepted, and placed before
/// it. Returns the reason if they block the start.
pub(super) async fn run_start_hooks(conversation: &mut Conversation, turn: &Turn) -> Option<String> {
    let hooks = turn.scope.services.hooks();
    let fired = if turn.scope.subagent.is_some() {
        if !conversation.history().is_empty() {
            return None;
        }
        hooks.fire(&turn.scope, &HookPayload::SubagentStart).await
    } else {
        if let Some(trigger) = hooks.take_setup() {
            let fired = hooks.fire(&turn.scope, &HookPayload::Setup { trigger }).await;
            conversation.opening.texts.extend(fired.contexts);
        }
        let source = hooks.take_start_source()?;
        if !hooks.has_listeners(HookEvent::SessionStart) {
            return None;
        }
        let title = session_title(conversation);
        let (model, title) = (&turn.model_facts().id, title.as_deref());
        hooks.fire(&turn.scope, &HookPayload::SessionStart { source, model, title }).await
    };
    conversation.opening.texts.extend(fired.contexts);
    conversation.opening.prompt = fired.first_prompt.or(conversation.opening.prompt.take());
    rename_session(conversation, fired.title);
    fired.stop
}

/// What hooks add to a prompt that they accept.
#[derive(Default)]
pub(super) struct PromptAdditions {
    /// Id of the prompt that hooks know already.
    pub(super) prompt_id: Option<EntryId>,
    /// Texts for the model, after the prompt.
    pub(super) contexts: Vec<String>,
    /// New title of the session.
    pub(super) title: Option<String>,
}

/// Runs the hooks for a prompt of the user. If they block it, returns the end of the turn and its text.
pub(super) async fn run_prompt_hooks(
    conversation: &mut Conversation,
    turn: &Turn,
    said: &SubmittedPrompt,
) -> Result<PromptAdditions, (TurnEnd, String)> {
    let hooks = turn.scope.services.hooks();
    if !hooks.has_listeners(HookEvent::UserPromptSubmit) {
        return Ok(PromptAdditions::default());
    }
    let prompt = prompt_text(&said.blocks);
    let id = conversation.record.transcript().unused_entry_id(said.uuid.clone());
    hooks.note_prompt(&id);
    let title = session_title(conversation);
    let title = title.as_deref();
    let fired = hooks.fire(&turn.scope, &HookPayload::UserPromptSubmit { prompt: &prompt, title }).await;
    if let Some(reason) = fired.blocked {
        let reason = if reason.is_empty() { "A hook did not let this prompt in.".to_owned() } else { reason };
        let original = if fired.hides_prompt { String::new() } else { format!("\nThe prompt was: {prompt}") };
        turn.publish_notice(NoticeLevel::Warning, format!("a hook blocked the prompt: {reason}{original}"));
        return Err((TurnEnd::PromptBlocked { reason: reason.clone() }, reason));
    }
    if let Some(reason) = fired.stop {
        return Err((TurnEnd::HookStopped, reason));
    }
    Ok(PromptAdditions { prompt_id: Some(id), contexts: fired.contexts, title: fired.title })
}

/// Runs the hooks for a command of the user that stands for a text. Returns what they add for the model. If they block
/// it, returns the end of the turn and its text.
pub(super) async fn run_expansion_hooks(
    turn: &Turn,
    said: &SubmittedPrompt,
    expansion: PromptExpansion<'_>,
) -> Result<Vec<String>, (TurnEnd, String)> {
    let hooks = turn.scope.services.hooks();
    if !hooks.has_listeners(HookEvent::UserPromptExpansion) {
        return Ok(Vec::new());
    }
    let prompt = said.typed_text().unwrap_or_default();
    let fired = hooks.fire(&turn.scope, &HookPayload::UserPromptExpansion { expansion, prompt: &prompt }).await;
    let end = if let Some(reason) = fired.blocked {
        let reason = if reason.is_empty() { format!("A hook did not let /{} run.", expansion.command) } else { reason };
        turn.publish_notice(NoticeLevel::Warning, format!("a hook blocked /{}: {reason}", expansion.command));
        (TurnEnd::PromptBlocked { reason: reason.clone() }, reason)
    } else if let Some(reason) = fired.stop {
        (TurnEnd::HookStopped, reason)
    } else {
        return Ok(fired.contexts);
    };
    turn.publish_prompt_fate(said, PromptOutcome::Refused);
    Err(end)
}

/// Returns the current title of the session, if any.
fn session_title(conversation: &mut Conversation) -> Option<String> {
    conversation.record.transcript().labels().display_title().map(str::to_owned)
}

/// Sets the title of the session, if there is a new one.
pub(super) fn rename_session(conversation: &mut Conversation, title: Option<String>) {
    if let Some(title) = title {
        conversation.record.transcript().set_title(&title);
    }
}

/// Returns the text of a prompt.
fn prompt_text(blocks: &[Block]) -> String {
    blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
}

/// Calls of a batch, collected for hooks that handle whole batches; empty without such hooks.
pub(super) struct HookBatch<'a> {
    turn: &'a Turn,
    /// Calls by position.
    calls: Option<BTreeMap<usize, BatchCall>>,
}

impl<'a> HookBatch<'a> {
    pub(super) fn new(turn: &'a Turn) -> Self {
        let listens = turn.scope.services.hooks().has_listeners(HookEvent::PostToolBatch);
        Self { turn, calls: listens.then(BTreeMap::new) }
    }

    pub(super) fn add_call(&mut self, position: usize, call: &ToolCall, settled: &CallResult) {
        if let Some(calls) = &mut self.calls {
            let response = match &settled.content {
                ResultContent::Text(text) => json!(text),
                ResultContent::Parts(parts) => json!(parts),
            };
            let written = || serde_json::from_str(call.input.get()).unwrap_or_default();
            let input = settled.input.clone().unwrap_or_else(written);
            calls.insert(position, BatchCall { id: call.id.clone(), tool: call.name.clone(), input, response });
        }
    }

    /// Runs the batch hooks. Returns their texts for the model, and the end of the turn if they request it.
    pub(super) async fn finish(self) -> (Vec<String>, Option<TurnEnd>) {
        let Some(calls) = self.calls.filter(|calls| !calls.is_empty()) else { return (Vec::new(), None) };
        let calls: Vec<BatchCall> = calls.into_values().collect();
        let hooks = self.turn.scope.services.hooks();
        let fired = hooks.fire(&self.turn.scope, &HookPayload::PostToolBatch { calls: &calls }).await;
        let ends = fired.stop.is_some() || fired.blocked.is_some();
        if let Some(reason) = fired.blocked.filter(|reason| !reason.is_empty()) {
            self.turn.publish_notice(NoticeLevel::Warning, format!("a hook stopped the turn: {reason}"));
        }
        (fired.contexts, ends.then_some(TurnEnd::HookStopped))
    }
}

/// Outcome of the stop hooks.
pub(super) enum StopHookOutcome {
    /// The turn may end.
    End,
    /// The turn continues; the model has the reason.
    Continue,
    /// The turn ends because a hook stopped it.
    Prevented,
    /// The user stopped the turn while hooks ran.
    Aborted,
}

/// Runs the stop hooks, which decide if the turn may end here.
pub(super) async fn run_stop_hooks(
    conversation: &mut Conversation,
    turn: &Turn,
    limits: &mut RetryLimits,
    last_text: &str,
) -> StopHookOutcome {
    let hooks = turn.scope.services.hooks();
    let is_agent = turn.scope.subagent.is_some();
    let event = if is_agent { HookEvent::SubagentStop } else { HookEvent::Stop };
    if !hooks.has_listeners(event) {
        return StopHookOutcome::End;
    }
    let again = limits.stop_blocks > 0;
    let fired = if is_agent {
        let transcript = conversation.record.transcript().path();
        hooks.fire(&turn.scope, &HookPayload::SubagentStop { last_text, again, transcript }).await
    } else {
        hooks.fire(&turn.scope, &HookPayload::Stop { last_text, again }).await
    };
    if turn.scope.cancel.is_cancelled() {
        return StopHookOutcome::Aborted;
    }
    if fired.stop.is_some() {
        return StopHookOutcome::Prevented;
    }
    let reason = fired.blocked.filter(|reason| !reason.is_empty());
    let objection = reason.map(|reason| format!("A hook does not let you stop yet: {reason}"));
    let words: Vec<String> = objection.into_iter().chain(fired.contexts).collect();
    if words.is_empty() {
        return StopHookOutcome::End;
    }
    if limits.stop_blocks >= max_stop_blocks(turn) {
        turn.publish_notice(NoticeLevel::Warning, "hooks kept this turn from ending too often; it ends now");
        return StopHookOutcome::End;
    }
    limits.stop_blocks += 1;
    for text in words {
        append_meta_message(conversation, &text);
    }
    StopHookOutcome::Continue
}

fn max_stop_blocks(turn: &Turn) -> u32 {
    let wanted = turn.scope.services.env().integer("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP");
    wanted.and_then(|most| u32::try_from(most).ok()).unwrap_or(MAX_STOP_BLOCKS)
}

/// Runs the hooks for a turn that ended with a model error.
pub(super) async fn run_failure_hooks(turn: &Turn, error: &ModelError, last_text: &str) {
    let hooks = turn.scope.services.hooks();
    if hooks.has_listeners(HookEvent::StopFailure) {
        let (details, error) = (error.to_string(), error.kind.wire_code());
        hooks.fire(&turn.scope, &HookPayload::StopFailure { error, details: &details, last_text }).await;
    }
}
