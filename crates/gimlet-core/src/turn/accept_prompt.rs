//! Accepting a prompt: it is checked, hooks may block it or add to it, and then it is appended to disk and history with
//! what belongs before and after it.

use std::sync::Arc;

use gimlet_proto::{
    AcceptedPrompt, Block, BlockKind, EntryId, EventBody, NoticeLevel, PromptOrigin, PromptOutcome, StoredToolResult,
    SubmittedPrompt, TurnEnd,
};
use gimlet_text::enclose_in_tag;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::reply_outcome::append_meta_message;
use super::turn_hooks::{self, PromptAdditions};
use super::{Turn, context_delivery};
use crate::commands::FoundCommand;
use crate::context::style_name;
use crate::conversation::{Conversation, PromptMark};
use crate::hooks::{PromptExpansion, spill_to_file};
use crate::mentions;
use crate::skills::ExpandedSkill;

/// Size limit of hook and server texts before the first prompt, in bytes on disk. Session lists read the first 64
/// KiB.
const MAX_OPENING: usize = 32 << 10;

/// Number of prompts after which the model is reminded of the output style.
const STYLE_REMINDER_PROMPTS: u32 = 10;

/// Submits a prompt and returns the mark of its start; the notes are for the model and come after it. If the prompt does
/// not fit or hooks block it, returns the end of the turn and its text.
pub(super) async fn submit_prompt(
    conversation: &mut Conversation,
    turn: &Turn,
    said: SubmittedPrompt,
    notes: Vec<String>,
) -> Result<PromptMark, (TurnEnd, String)> {
    let is_from_user = !said.synthetic && turn.scope.subagent.is_none();
    let additions = match check_prompt(conversation, turn, &said, is_from_user).await {
        Ok(additions) => additions,
        Err(refusal) => {
            turn.publish_prompt_fate(&said, PromptOutcome::Refused);
            return Err(refusal);
        }
    };
    let ResolvedPrompt { said, reminder, skills, contexts } = resolve_command(turn, said).await?;
    let texts_after = append_opening(conversation, turn);
    let named = if is_from_user { mentions::find_mentions(turn, &said) } else { Vec::new() };
    // The opening is sent once in a session: it stays even if the prompt is withdrawn.
    let before = conversation.mark_prompt();
    if let Some(text) = reminder {
        open_conversation(conversation, turn);
        append_meta_message(conversation, &text);
    }
    let prompt = accept_prompt_as(conversation, turn, said, additions.prompt_id);
    let mut named = named;
    for skill in skills {
        named.extend(skill.append(conversation, turn));
    }
    mentions::attach_mentions(conversation, turn, named, &prompt).await;
    context_delivery::deliver_for_files(conversation, turn).await;
    context_delivery::deliver_changes(conversation, turn).await;
    let late =
        if turn.scope.subagent.is_none() { turn.scope.services.hooks().take_late_contexts() } else { Vec::new() };
    let style = style_reminder(conversation, turn);
    let added = additions.contexts.into_iter().chain(contexts).chain(style);
    for text in texts_after.into_iter().chain(notes).chain(late).chain(added) {
        append_meta_message(conversation, &text);
    }
    turn_hooks::rename_session(conversation, additions.title);
    Ok(before)
}

/// Returns a reminder of the output style, once in a number of prompts.
fn style_reminder(conversation: &mut Conversation, turn: &Turn) -> Option<String> {
    let segment = &mut conversation.segment;
    let style = style_name(&segment.prompt.system).filter(|_| turn.scope.subagent.is_none())?;
    segment.prompts_in_style += 1;
    let text = format!("The output style {style} is in effect. Keep to its instructions in the system prompt.");
    segment.prompts_in_style.is_multiple_of(STYLE_REMINDER_PROMPTS).then(|| enclose_in_tag("system-reminder", &text))
}

/// Checks that a prompt fits, and runs the hooks for it if it comes from the user.
async fn check_prompt(
    conversation: &mut Conversation,
    turn: &Turn,
    said: &SubmittedPrompt,
    is_from_user: bool,
) -> Result<PromptAdditions, (TurnEnd, String)> {
    if let Some(end) = conversation.history().prompt_rejection(&said.blocks, &turn.model_facts()) {
        return Err((end, String::new()));
    }
    if is_from_user {
        turn_hooks::run_prompt_hooks(conversation, turn, said).await
    } else {
        Ok(PromptAdditions::default())
    }
}

/// A prompt with what a command in it stands for.
#[derive(Default)]
struct ResolvedPrompt {
    said: SubmittedPrompt,
    /// Text for the model in front of the prompt.
    reminder: Option<String>,
    /// Skills that join behind the prompt.
    skills: Vec<ExpandedSkill>,
    /// Texts of hooks for the model.
    contexts: Vec<String>,
}

/// Expands a prompt that is a command. The text of an unknown command is sent as it is, with a reminder, so that the
/// model does not pretend that one ran. Returns the end of the turn if the command fails.
async fn resolve_command(turn: &Turn, said: SubmittedPrompt) -> Result<ResolvedPrompt, (TurnEnd, String)> {
    let found = turn.commands.as_ref().and_then(|commands| commands.find(&said));
    match found {
        None => Ok(ResolvedPrompt { said, ..ResolvedPrompt::default() }),
        Some(FoundCommand::Unknown { name, nearest }) => {
            let text = format!("There is no command /{name}, and none ran. The next message is sent as it was typed.");
            turn.publish(EventBody::UnknownCommand { name, nearest });
            let reminder = Some(enclose_in_tag("system-reminder", &text));
            Ok(ResolvedPrompt { said, reminder, ..ResolvedPrompt::default() })
        }
        Some(FoundCommand::Known(call)) => {
            let (kind, source) = ("mcp_prompt", None);
            let expansion = PromptExpansion { kind, command: call.name(), args: call.args(), source };
            let contexts = turn_hooks::run_expansion_hooks(turn, &said, expansion).await?;
            let said = call.expand(&said).await.map_err(|problem| refuse_command(turn, &said, problem))?;
            Ok(ResolvedPrompt { said, contexts, ..ResolvedPrompt::default() })
        }
        Some(FoundCommand::Skills(typed)) => {
            let (kind, source) = ("slash_command", Some(typed.source()));
            let expansion = PromptExpansion { kind, command: typed.name(), args: typed.typed_args(), source };
            let contexts = turn_hooks::run_expansion_hooks(turn, &said, expansion).await?;
            let skills = typed.expand(turn).await.map_err(|problem| refuse_command(turn, &said, problem))?;
            Ok(ResolvedPrompt { said, contexts, skills, reminder: None })
        }
    }
}

/// Refuses a prompt whose command fails. Returns the end of the turn.
fn refuse_command(turn: &Turn, said: &SubmittedPrompt, problem: String) -> (TurnEnd, String) {
    turn.publish_prompt_fate(said, PromptOutcome::Refused);
    (TurnEnd::Command { error: Some(problem) }, String::new())
}

/// Appends the texts that go before the prompt, and a prompt from hooks or the main agent. Returns the texts that go
/// after it: all of them for a subagent, whose record begins with its task.
fn append_opening(conversation: &mut Conversation, turn: &Turn) -> Vec<String> {
    let texts = std::mem::take(&mut conversation.opening.texts);
    let (before, after) = if turn.scope.subagent.is_some() { (Vec::new(), texts) } else { (texts, Vec::new()) };
    for text in fit_opening(turn, before) {
        open_conversation(conversation, turn);
        append_meta_message(conversation, &text);
    }
    if let Some(text) = conversation.opening.prompt.take() {
        accept_prompt(conversation, turn, SubmittedPrompt::from_text(&text));
    }
    after
}

/// Limits the opening before the first prompt, so that readers of the transcript's beginning find that prompt. The
/// rest goes to a file.
fn fit_opening(turn: &Turn, opening: Vec<String>) -> Vec<String> {
    let mut left = MAX_OPENING;
    let mut kept = 0;
    for text in &opening {
        // Length on disk.
        let length = serde_json::to_string(text).map_or(usize::MAX, |json| json.len());
        if length > left {
            break;
        }
        left -= length;
        kept += 1;
    }
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

/// Accepts a note that starts no turn, unless it does not fit. While a call is deferred the note is held, as nothing
/// may come between a call and its result.
pub(crate) fn accept_note(conversation: &mut Conversation, turn: &Turn, said: SubmittedPrompt) {
    if let Some(TurnEnd::PromptUnusable { reason, .. }) =
        conversation.history().prompt_rejection(&said.blocks, &turn.model_facts())
    {
        refuse_note(turn, &said, reason);
    } else if conversation.deferred.is_none() {
        accept_prompt(conversation, turn, said);
    } else if let Some(said) = turn.steering.hold(said) {
        refuse_note(turn, &said, "The prompt was not taken up: a call waits, and too much waits behind it.");
    }
}

fn refuse_note(turn: &Turn, said: &SubmittedPrompt, reason: impl Into<String>) {
    turn.publish_notice(NoticeLevel::Warning, reason);
    turn.publish_prompt_fate(said, PromptOutcome::Refused);
}

/// Appends a prompt to disk, then to history, then publishes it. Returns its id.
pub(super) fn accept_prompt(conversation: &mut Conversation, turn: &Turn, said: SubmittedPrompt) -> EntryId {
    accept_prompt_as(conversation, turn, said, None)
}

/// Appends a prompt whose id hooks already know.
fn accept_prompt_as(
    conversation: &mut Conversation,
    turn: &Turn,
    said: SubmittedPrompt,
    promised: Option<EntryId>,
) -> EntryId {
    open_conversation(conversation, turn);
    // Only prompts of the main conversation can come from the user.
    let of_session = turn.scope.subagent.is_none();
    if !said.synthetic && !said.meta && of_session {
        // What a skill granted and chose ends when the user says something new.
        if turn.scope.grants.clear() {
            turn.scope.gate.note_rule_change();
        }
        turn.scope.model_selection.end_override();
        turn.scope.gate.note_user_prompt(&said.blocks);
    }
    let is_notice = matches!(said.origin, Some(PromptOrigin::TaskNotification));
    if !is_notice && !said.meta && (!of_session || !said.synthetic) {
        note_user_words(conversation, &said.blocks);
    }
    let uuid = conversation.record.append_prompt(&said, promised);
    turn.publish_prompt_fate(&said, PromptOutcome::Accepted);
    if of_session {
        turn.scope.services.hooks().note_prompt(&uuid);
        if !said.synthetic {
            turn.scope.services.begin_checkpoint(&uuid);
        }
    }
    conversation.history_mut().push_user(said.blocks.clone());
    turn.publish(EventBody::Prompt(AcceptedPrompt {
        uuid: uuid.clone(),
        blocks: said.blocks,
        plain: said.plain,
        synthetic: said.synthetic,
        origin: said.origin,
    }));
    uuid
}

/// Keeps the words of a prompt for compactions.
fn note_user_words(conversation: &mut Conversation, blocks: &[Block]) {
    let texts: Vec<_> = blocks.iter().filter_map(Block::as_text).collect();
    let text = texts.join("\n");
    if !text.trim().is_empty() {
        conversation.user_words.push(text);
    }
}

/// Starts a conversation with the environment facts.
fn open_conversation(conversation: &mut Conversation, turn: &Turn) {
    // A subagent has the environment facts in its system prompt: its record begins with its task.
    if conversation.history().is_empty() && turn.scope.subagent.is_none() {
        let context = crate::context::environment_block(&turn.scope, &turn.model_facts().id);
        append_meta_message(conversation, &context);
    }
}

/// Takes the result of the deferred call out of a prompt that contains it. Returns true if it did. A prompt with any
/// other result, or with more than fits, is refused as a whole, before any effect: the call stays deferred.
pub(super) fn take_deferred_answer(
    conversation: &mut Conversation,
    turn: &Turn,
    prompt: &mut SubmittedPrompt,
) -> Result<bool, TurnEnd> {
    let Some(at) = prompt.blocks.iter().position(|block| block.kind() == BlockKind::ToolResult) else {
        return Ok(false);
    };
    let waiting = conversation.deferred.as_ref().map(|call| call.id.clone());
    let waiting = waiting.filter(|call| prompt.blocks[at].id() == Some(call.as_str()));
    let overflow =
        waiting.as_ref().and_then(|_| conversation.history().prompt_overflow(&prompt.blocks, &turn.model_facts()));
    let answer = waiting.map(|call| (call, prompt.blocks.remove(at)));
    if let Some(end) = overflow.or_else(|| conversation.history().prompt_rejection(&prompt.blocks, &turn.model_facts()))
    {
        return Err(end);
    }
    let Some((call, block)) = answer else { return Ok(false) };
    conversation.deferred = None;
    conversation.record.append_resumed(&call);
    let output = result_content(&block);
    // If the prompt contains nothing else, its id belongs to the answer.
    let uuid = if prompt.blocks.is_empty() { prompt.uuid.clone() } else { None };
    let uuid = conversation.record.append_answer(uuid, &block, &output);
    turn.publish(EventBody::ToolFinished(Box::new(StoredToolResult { uuid, call, block: block.clone(), output })));
    conversation.history_mut().push_user(vec![block]);
    Ok(true)
}

/// Returns the content of a result, as programs see it.
fn result_content(block: &Block) -> Arc<RawValue> {
    #[derive(Deserialize)]
    struct ResultBlock {
        content: Box<RawValue>,
    }
    let content = serde_json::from_str::<ResultBlock>(block.json()).map(|result| result.content);
    Arc::from(content.unwrap_or_else(|_| RawValue::NULL.to_owned()))
}
