//! Hooks around a turn: at its start, for its prompts, after a batch of calls, and before its end.

use std::collections::BTreeMap;

use gimlet_proto::{Block, ModelError, NoticeLevel, PromptOutcome, ResultContent, SubmittedPrompt, TurnEnd};
use gimlet_text::enclose_in_tag;
use serde_json::json;

use super::reply_outcome::{RetryLimits, append_meta_message};
use super::{Turn, accept_prompt, accept_prompt_as};
use crate::call::ToolCall;
use crate::call_result::CallResult;
use crate::conversation::{Conversation, PromptMark};
use crate::hooks::{BatchCall, CombinedHookOutput, HookEvent, HookPayload, spill_to_file};
use crate::mentions;

/// Default maximum number of times hooks may keep one turn from ending; the environment can override it.
const MAX_STOP_BLOCKS: u32 = 8;

/// Size limit of hook and server texts before the first prompt, in bytes on disk. Session lists read the first 64
/// KiB.
const MAX_OPENING: usize = 32 << 10;

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
        let source = hooks.take_start_source().filter(|_| hooks.has_listeners(HookEvent::SessionStart))?;
        let title = session_title(conversation);
        let (model, title) = (&turn.model_facts().id, title.as_deref());
        hooks.fire(&turn.scope, &HookPayload::SessionStart { source, model, title }).await
    };
    conversation.opening.texts.extend(fired.contexts);
    conversation.opening.prompt = fired.first_prompt.or(conversation.opening.prompt.take());
    rename_session(conversation, fired.title);
    fired.stop
}

/// Submits a prompt and returns the mark of its start; if hooks block it, returns the end of the turn and its text.
pub(super) async fn submit_prompt(
    conversation: &mut Conversation,
    turn: &Turn,
    said: SubmittedPrompt,
) -> Result<PromptMark, (TurnEnd, String)> {
    if let Some(end) = conversation.history().prompt_rejection(&said.blocks, &turn.model_facts()) {
        turn.publish_prompt_fate(&said, PromptOutcome::Refused);
        return Err((end, String::new()));
    }
    let hooks = turn.scope.services.hooks();
    let of_a_person = !said.synthetic && turn.scope.subagent.is_none();
    let mut fired = CombinedHookOutput::default();
    let mut promised = None;
    if of_a_person && hooks.has_listeners(HookEvent::UserPromptSubmit) {
        let prompt = prompt_text(&said.blocks);
        let id = conversation.record.transcript().unused_entry_id(said.uuid.clone());
        hooks.note_prompt(&id);
        promised = Some(id);
        let title = session_title(conversation);
        let title = title.as_deref();
        fired = hooks.fire(&turn.scope, &HookPayload::UserPromptSubmit { prompt: &prompt, title }).await;
        if let Some(reason) = fired.blocked {
            let reason = if reason.is_empty() { "A hook did not let this prompt in.".to_owned() } else { reason };
            let original = if fired.hides_prompt { String::new() } else { format!("\nThe prompt was: {prompt}") };
            turn.publish_notice(NoticeLevel::Warning, format!("a hook blocked the prompt: {reason}{original}"));
            turn.publish_prompt_fate(&said, PromptOutcome::Refused);
            return Err((TurnEnd::PromptBlocked { reason: reason.clone() }, reason));
        }
        if let Some(reason) = fired.stop {
            turn.publish_prompt_fate(&said, PromptOutcome::Refused);
            return Err((TurnEnd::HookStopped, reason));
        }
    }
    let opening = std::mem::take(&mut conversation.opening.texts);
    let (opening, after) = if turn.scope.subagent.is_some() {
        // A subagent's record begins with its task.
        (Vec::new(), opening)
    } else {
        (opening, Vec::new())
    };
    for text in fit_opening(turn, opening) {
        super::open_conversation(conversation, turn);
        append_meta_message(conversation, &text);
    }
    if let Some(text) = conversation.opening.prompt.take() {
        accept_prompt(conversation, turn, SubmittedPrompt::from_text(&text));
    }
    let named = if of_a_person { mentions::find_mentions(turn, &said) } else { Vec::new() };
    // The opening is sent once in a session: it stays even if the prompt is withdrawn.
    let before = conversation.mark_prompt();
    let prompt = accept_prompt_as(conversation, turn, said, promised);
    mentions::attach_mentions(conversation, turn, named, &prompt).await;
    for text in after.into_iter().chain(fired.contexts) {
        append_meta_message(conversation, &text);
    }
    rename_session(conversation, fired.title);
    Ok(before)
}

/// Limits the opening before the first prompt, so that readers of the transcript's beginning find that prompt. The
/// rest goes to a file.
fn fit_opening(turn: &Turn, opening: Vec<String>) -> Vec<String> {
    let mut room = MAX_OPENING;
    let mut fits = |text: &String| {
        // Length on disk.
        let length = serde_json::to_string(text).map_or(usize::MAX, |json| json.len());
        let left = room.checked_sub(length);
        room = left.unwrap_or(0);
        left.is_some()
    };
    let kept = opening.iter().take_while(|text| fits(text)).count();
    let mut texts = opening;
    let rest = texts.split_off(kept);
    if !rest.is_empty() {
        let preview = spill_to_file(Some(&turn.result_files), &rest.join("\n"));
        texts.push(enclose_in_tag(
            "system-reminder",
            &format!("Hooks and servers have said more than fits here:\n{preview}"),
        ));
    }
    texts
}

/// Returns the current title of the session, if any.
fn session_title(conversation: &mut Conversation) -> Option<String> {
    conversation.record.transcript().labels().display_title().map(str::to_owned)
}

fn rename_session(conversation: &mut Conversation, title: Option<String>) {
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
