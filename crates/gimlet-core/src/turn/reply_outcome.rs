//! Consequences of a reply for the turn: continue, run its calls, send again, or end.

use gimlet_proto::{
    Block, BlockKind, ModelError, ModelErrorKind, NoticeLevel, ReplyEnd, StopReason, TruncatedCall, TurnEnd,
};

use super::Turn;
use crate::conversation::{Conversation, PromptMark};
use crate::reply::{ModelReply, ReplyEnding};
use crate::schedule::CallSchedule;
use crate::skills::LoadedSkills;

/// Maximum number of times a paused turn is resumed.
const MAX_PAUSES: u32 = 8;
/// Maximum number of continuations of a text that was cut by the output limit.
const MAX_CONTINUATIONS: u32 = 3;
/// Message for the model if a call did not fit even with a raised limit.
const SPLIT: &str = "Your last tool call was too long for one reply and was dropped. Split it into smaller calls.";

/// Message for the model if it stopped for no reason, or if a server requires a user message after its reply.
const GO_ON: &str = "Please go on.";

/// Counters that bound every kind of retry.
#[derive(Default)]
pub(crate) struct RetryLimits {
    /// Output limit, raised once after a tool call did not fit.
    pub(crate) max_tokens: Option<u64>,
    pauses: u32,
    continuations: u32,
    cut_calls: u32,
    empty_replies: u32,
    /// Number of errors about calls and results that do not match.
    pairings: u32,
    /// Number of errors about a history that ends with a reply.
    prefills: u32,
    /// Number of times hooks kept the turn from ending.
    pub(super) stop_blocks: u32,
}

/// Next action after a reply.
pub(crate) enum ReplyAction {
    /// Run the reply's calls; a text, if any, is sent to the model after the results.
    RunCalls(Option<&'static str>),
    /// Send the request again (history already has what it needs).
    SendAgain,
    /// Discard the reply's calls, then send again.
    Discard,
    /// The server finds the conversation too long: compact it, then send again.
    MakeRoom(ModelError),
    Aborted,
    End(TurnEnd),
}

impl ModelReply {
    /// Returns the text of this reply, if it has any.
    pub(crate) fn text(&self) -> Option<String> {
        let texts: Vec<_> = self.blocks.iter().filter_map(Block::as_text).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}

/// Adds a reply to the history and returns the next action. `prompt` marks the start of the turn's own prompt.
pub(crate) fn process_reply(
    conversation: &mut Conversation,
    turn: &Turn,
    limits: &mut RetryLimits,
    reply: ModelReply,
    calls: &CallSchedule,
    prompt: &PromptMark,
) -> ReplyAction {
    match reply.ending {
        ReplyEnding::Failed(error) => {
            let cured = reply.blocks.is_empty()
                && match error.kind {
                    ModelErrorKind::InvalidRequest => {
                        repair_history(conversation, turn, limits, &error)
                            || drop_refused_content(conversation, turn, &error, prompt)
                    }
                    ModelErrorKind::RequestTooLarge | ModelErrorKind::PromptTooLong => {
                        drop_attachments(conversation, turn, prompt)
                    }
                    _ => false,
                };
            if cured {
                return ReplyAction::SendAgain;
            }
            let is_too_long = matches!(error.kind, ModelErrorKind::RequestTooLarge | ModelErrorKind::PromptTooLong);
            if is_too_long && reply.blocks.is_empty() {
                return ReplyAction::MakeRoom(error);
            }
            conversation.history_mut().push_assistant(reply.blocks);
            end_with_error(conversation, turn, error)
        }
        ReplyEnding::Aborted => {
            conversation.history_mut().push_assistant(reply.blocks);
            ReplyAction::Aborted
        }
        ReplyEnding::Complete(end) => process_complete_reply(conversation, turn, limits, reply.blocks, *end, calls),
    }
}

fn process_complete_reply(
    conversation: &mut Conversation,
    turn: &Turn,
    limits: &mut RetryLimits,
    blocks: Vec<Block>,
    end: ReplyEnd,
    calls: &CallSchedule,
) -> ReplyAction {
    if end.stop_reason == Some(StopReason::Refusal) {
        return end_with_refusal(conversation, turn, end.explanation);
    }
    if let Some(cut) = end.cut_tool_call {
        return handle_cut_call(conversation, turn, limits, blocks, calls, cut);
    }
    let empty = blocks.is_empty();
    if let Some(interruption) = &end.interrupted {
        let text = format!("the reply was cut ({}); it may be incomplete", interruption.message);
        turn.publish_notice(NoticeLevel::Warning, text);
    }
    conversation.history_mut().push_assistant(blocks);
    if !calls.is_empty() {
        return ReplyAction::RunCalls(None);
    }
    match end.stop_reason {
        Some(StopReason::PauseTurn) if limits.pauses < MAX_PAUSES && conversation.history().ends_with_assistant() => {
            limits.pauses += 1;
            ReplyAction::SendAgain
        }
        Some(StopReason::MaxTokens) if limits.continuations < MAX_CONTINUATIONS && !empty => {
            limits.continuations += 1;
            append_meta_message(
                conversation,
                "Your reply was cut at the output limit. Go on exactly where it stopped.",
            );
            ReplyAction::SendAgain
        }
        Some(StopReason::ContextWindowExceeded) => ReplyAction::MakeRoom(window_full_error()),
        _ if empty && conversation.history().ends_with_results() && limits.empty_replies == 0 => {
            limits.empty_replies += 1;
            append_meta_message(conversation, GO_ON);
            ReplyAction::SendAgain
        }
        _ => ReplyAction::End(TurnEnd::Completed),
    }
}

/// Handles a reply that ended inside a tool call: retries once with a raised limit if possible, then advises the
/// model to split the call.
fn handle_cut_call(
    conversation: &mut Conversation,
    turn: &Turn,
    limits: &mut RetryLimits,
    blocks: Vec<Block>,
    calls: &CallSchedule,
    cut: TruncatedCall,
) -> ReplyAction {
    limits.cut_calls += 1;
    if limits.cut_calls == 1 {
        if let Some(more) = cut.more {
            limits.max_tokens = Some(more);
            let text = "a tool call did not fit into the reply; asking again with more room";
            turn.publish_notice(NoticeLevel::Info, text);
            conversation.record.rewind_reply();
            turn.publish(gimlet_proto::EventBody::ReplyDiscarded);
            return ReplyAction::Discard;
        }
        let why = cut.advice.unwrap_or_else(|| "there is no more room".to_owned());
        let text =
            format!("a tool call did not fit into a reply of {} tokens: {why}; asking for it in parts", cut.max_tokens);
        turn.publish_notice(NoticeLevel::Warning, text);
    }
    conversation.history_mut().push_assistant(blocks);
    if !calls.is_empty() {
        return ReplyAction::RunCalls(Some(SPLIT));
    }
    if limits.cut_calls > 3 {
        return ReplyAction::End(TurnEnd::Completed);
    }
    append_meta_message(conversation, SPLIT);
    ReplyAction::SendAgain
}

/// Appends a message from gimlet to the model, on disk first.
pub(crate) fn append_meta_message(conversation: &mut Conversation, text: &str) {
    append_meta_blocks(conversation, vec![Block::text(text)]);
}

/// Appends content from gimlet to the model, on disk first.
pub(crate) fn append_meta_blocks(conversation: &mut Conversation, blocks: Vec<Block>) {
    conversation.record.append_meta_blocks(&blocks);
    conversation.history_mut().push_user(blocks);
}

/// Repairs a history that the server rejects as invalid. By construction this never happens, so it is tried once and
/// reported.
fn repair_history(conversation: &mut Conversation, turn: &Turn, limits: &mut RetryLimits, error: &ModelError) -> bool {
    let words = error.message.to_ascii_lowercase();
    let about_pairs = words.contains("tool_use") && words.contains("tool_result");
    if about_pairs && limits.pairings == 0 {
        limits.pairings += 1;
        let mended = conversation.history_mut().repair_history();
        if mended == 0 {
            // An unchanged request would get an unchanged answer.
            return false;
        }
        let text = format!(
            "the server says that calls and results do not fit together ({mended} mended); asking again. Please report \
             this: {error}"
        );
        turn.publish_notice(NoticeLevel::Warning, text);
        return true;
    }
    let about_the_end = words.contains("prefill") || words.contains("must end with a user message");
    if about_the_end && limits.prefills == 0 && conversation.history().ends_with_assistant() {
        limits.prefills += 1;
        append_meta_message(conversation, GO_ON);
        return true;
    }
    false
}

/// Drops content that the server refuses and the conversation can do without. Returns true if anything was dropped.
fn drop_refused_content(conversation: &mut Conversation, turn: &Turn, error: &ModelError, prompt: &PromptMark) -> bool {
    let words = error.message.to_ascii_lowercase();
    // A transcript of another version may hold blocks unknown to this server.
    if conversation.history_mut().drop_unknown_blocks(&words) > 0 {
        turn.publish_notice(
            NoticeLevel::Warning,
            "the server refused a part of a type that it does not know; a note stands in its place now",
        );
        return true;
    }
    drop_refused_attachments(conversation, turn, &words, prompt)
}

/// Drops images and documents that the server refuses: first those sent for the first time, then all. Attachments of
/// this prompt are kept: without them the prompt would mean something else. Every other unanswered attachment is
/// dropped, as every later prompt would fail because of it: those of notes, of prompts that joined the turn, and of
/// earlier turns that could not be sent.
fn drop_refused_attachments(conversation: &mut Conversation, turn: &Turn, words: &str, prompt: &PromptMark) -> bool {
    let is_about_them = ["image", "document", "pdf"].iter().any(|word| words.contains(word));
    if !is_about_them {
        return false;
    }
    // Every retry has fewer of them, so this terminates.
    let why = "the server refused it";
    let is_lighter = conversation.history_mut().drop_unanswered_attachments(prompt, why) > 0
        || !conversation.history().has_prompt_attachments(prompt)
            && conversation.history_mut().drop_all_attachments(why) > 0;
    if is_lighter {
        turn.publish_notice(
            NoticeLevel::Warning,
            "the server refused an image or a document; a note stands in its place now",
        );
    }
    is_lighter
}

/// Shrinks a request that is too large: drops the images and documents that the model has seen, then those that it
/// has not. Attachments of this prompt are kept.
fn drop_attachments(conversation: &mut Conversation, turn: &Turn, prompt: &PromptMark) -> bool {
    let why = "the request was too large";
    let is_lighter = conversation.history_mut().drop_seen_attachments(prompt, why) > 0
        || conversation.history_mut().drop_unanswered_attachments(prompt, why) > 0;
    if is_lighter {
        let text = "the request was too large; notes stand in the place of earlier images and documents now";
        turn.publish_notice(NoticeLevel::Warning, text);
    }
    is_lighter
}

/// Ends the turn with an error.
fn end_with_error(conversation: &mut Conversation, turn: &Turn, error: ModelError) -> ReplyAction {
    ReplyAction::End(fail_turn(conversation, turn, error))
}

/// Records an error in place of a reply. Returns the end of the turn.
pub(super) fn fail_turn(conversation: &mut Conversation, turn: &Turn, error: ModelError) -> TurnEnd {
    record_error_reply(conversation, turn, &error.to_reply_text(), &error);
    TurnEnd::Failed(error)
}

/// Ends the turn because the model refused. Its text before the refusal is void.
fn end_with_refusal(conversation: &mut Conversation, turn: &Turn, explanation: Option<String>) -> ReplyAction {
    let text = refusal_text(explanation.as_deref());
    let kind = ModelErrorKind::InvalidRequest;
    let error = ModelError { kind, status: None, message: text.clone(), hint: None, request_id: None };
    record_error_reply(conversation, turn, &text, &error);
    ReplyAction::End(TurnEnd::Refused { explanation })
}

/// Returns the text for the user in place of a refused answer.
pub(crate) fn refusal_text(explanation: Option<&str>) -> String {
    const ADVICE: &str = "Rephrase the request, or choose another model.";
    match explanation.map(|why| why.trim_end_matches(['.', ' '])) {
        Some(why) => format!("The model refused to answer: {why}. {ADVICE}"),
        None => format!("The model refused to answer. {ADVICE}"),
    }
}

/// Records an error text where users and programs expect an answer. It is not part of the history; on disk it also
/// follows withdrawn entries, so that a resumed session does not end with them.
fn record_error_reply(conversation: &mut Conversation, turn: &Turn, text: &str, error: &ModelError) {
    let uuid = conversation.record.append_api_error(text);
    turn.publish(gimlet_proto::EventBody::Block(Box::new(gimlet_proto::AssistantBlock {
        uuid: uuid.clone(),
        message_id: uuid.to_string(),
        model: "<synthetic>".to_owned(),
        request_id: error.request_id.clone(),
        block: Block::text(text),
        usage: gimlet_proto::TokenUsage::default(),
        aborted: false,
        error: Some(error.clone()),
    })));
}

fn window_full_error() -> ModelError {
    ModelError {
        kind: ModelErrorKind::PromptTooLong,
        status: None,
        message: "the conversation filled the model's context window".to_owned(),
        hint: Some("Start a new session, or continue in one forked from an earlier point".to_owned()),
        request_id: None,
    }
}

/// Size above which a prompt may be refused by a server.
const HEAVY_PROMPT: usize = 100_000;

/// Returns true if a server may refuse the prompt: it is long, or not only text.
pub(super) fn may_be_too_large(prompt: &[Block]) -> bool {
    let bytes: usize = prompt.iter().map(|block| block.json().len()).sum();
    bytes > HEAVY_PROMPT || prompt.iter().any(|block| block.kind() != BlockKind::Text)
}

/// Withdraws a prompt that the server refused for its content, so that it is not sent again with every later one.
pub(super) fn withdraw_refused_prompt(conversation: &mut Conversation, turn: &Turn, end: &TurnEnd, before: PromptMark) {
    let TurnEnd::Failed(error) = end else { return };
    let refused = matches!(
        error.kind,
        ModelErrorKind::InvalidRequest | ModelErrorKind::PromptTooLong | ModelErrorKind::RequestTooLarge
    );
    if refused && conversation.withdraw_prompt(before) {
        turn.scope.services.tool_state::<LoadedSkills>().clear();
        // On disk this follows the kept entries, so that a resumed session does not end with the withdrawn ones.
        conversation.record.append_api_error(&error.to_reply_text());
        turn.publish_notice(
            NoticeLevel::Warning,
            "the server refused the prompt; it was taken out of the conversation again",
        );
    }
}

/// Records for the model, also on resume, that the user stopped the turn.
pub(crate) fn mark_interrupted(conversation: &mut Conversation, turn: &Turn, in_tools: bool) {
    let (uuid, text) = conversation.record.append_interrupt(in_tools);
    let block = Block::text(text);
    conversation.history_mut().push_user(vec![block.clone()]);
    turn.publish(gimlet_proto::EventBody::Prompt(gimlet_proto::AcceptedPrompt {
        uuid,
        blocks: vec![block],
        plain: false,
        synthetic: true,
        origin: None,
    }));
}
