//! Compaction: a conversation that fills the context window goes on from a summary of itself.
//!
//! The model writes the summary; what must not depend on it is carried over mechanically. Both become the first message
//! of a new segment, behind a boundary on disk. Nothing is removed: the old segment stays in the transcript. Until the
//! boundary is written nothing changes, so that an interrupt or a crash at any point leaves a whole conversation.

mod carried_facts;
mod compaction_policy;
mod summary_request;

use std::time::Instant;

use gimlet_proto::{
    Block, BlockKind, CompactedSegment, CompactionTrigger, CompactionView, EventBody, ModelError, ModelErrorKind,
    NoticeLevel, Role, ThinkingMode,
};
use gimlet_store::{CompactionRecord, SegmentContextPart};
use gimlet_text::enclose_in_tag;

use crate::context::{compacted_tool_defs, with_compacted_tools, with_style};
use crate::conversation::{Conversation, PromptSegment};
use crate::hooks::{HookEvent, HookPayload, StartSource};
use crate::skills::LoadedSkills;
use crate::spending::ReachedLimit;
use crate::turn::{Turn, append_meta_message, read_compacted_context};
use carried_facts::CarriedFacts;
pub use compaction_policy::CompactionPolicy;
pub(crate) use compaction_policy::{SMALLEST_WINDOW, summary_room};
use summary_request::{SummarizedHistory, SummaryAttempt, request_summary, summary_instructions};

/// Number of requests for one summary.
const ATTEMPTS: u32 = 2;
/// Number of bytes of the user's wishes for a summary.
const MOST_FOCUS: usize = 10_000;
/// Smallest part of the window that messages must take for a compaction to gain anything.
const LEAST_GAIN: u64 = 10;

/// Reason for a compaction.
pub(crate) enum CompactionCause {
    /// The user asked for it, with a focus for the summary.
    Requested { focus: Option<String> },
    /// The window is nearly full.
    Full,
    /// The server refused a request as too long.
    Overflow,
}

impl CompactionCause {
    fn trigger(&self) -> CompactionTrigger {
        match self {
            CompactionCause::Requested { .. } => CompactionTrigger::Manual,
            CompactionCause::Full | CompactionCause::Overflow => CompactionTrigger::Auto,
        }
    }
}

/// Outcome of a compaction. In all cases but the first the conversation is unchanged.
pub(crate) enum CompactionEnd {
    Done(CompactedSegment),
    /// There is nothing to summarise.
    TooShort,
    /// A hook did not allow it; with its reason.
    Blocked(String),
    /// The request failed in a way that would fail every other request as well.
    Failed(ModelError),
    /// The session may not spend what the summary costs.
    LimitReached(ReachedLimit),
    Aborted,
}

/// Summary, or what stands in for it.
enum SummaryOutcome {
    Text(String),
    Missing(String),
    Failed(ModelError),
    LimitReached(ReachedLimit),
    Aborted,
}

/// Returns true if the conversation has to be compacted before its next request. Nothing is compacted between a call
/// and its result, in the middle of a paused reply, or when the messages are not what fills the window.
pub(crate) fn is_due(conversation: &Conversation, turn: &Turn) -> bool {
    let (policy, facts, history) = (&turn.options.compaction, turn.model_facts(), conversation.history());
    policy.is_automatic()
        && policy.is_due(&facts, history.gauge.tokens(&facts), history.context_tokens)
        && !history.ends_with_assistant()
        && history.gauge.message_tokens(&facts) >= policy.window(&facts) / LEAST_GAIN
        && has_reply(conversation)
}

/// Returns true if the conversation has to be compacted before this prompt joins it.
pub(crate) fn leaves_no_room(conversation: &Conversation, turn: &Turn, prompt: &[Block]) -> bool {
    let (policy, facts, history) = (&turn.options.compaction, turn.model_facts(), conversation.history());
    let gauge = &history.gauge;
    let estimated = gauge.tokens(&facts) + gauge.estimate_blocks(prompt, &facts);
    policy.is_automatic()
        && policy.is_due(&facts, estimated, history.context_tokens)
        && gauge.message_tokens(&facts) >= policy.window(&facts) / LEAST_GAIN
        && has_reply(conversation)
}

fn has_reply(conversation: &Conversation) -> bool {
    conversation.history().messages().iter().any(|message| message.role == Role::Assistant)
}

/// Compacts the conversation: it continues in a new segment that begins with the summary.
pub(crate) async fn compact(
    conversation: &mut Conversation,
    turn: &Turn,
    thinking: ThinkingMode,
    cause: CompactionCause,
) -> CompactionEnd {
    if !has_reply(conversation) {
        return CompactionEnd::TooShort;
    }
    let (trigger, must_succeed) = (cause.trigger(), !matches!(cause, CompactionCause::Requested { .. }));
    let focus = match cause {
        CompactionCause::Requested { focus } => focus,
        CompactionCause::Full | CompactionCause::Overflow => None,
    };
    let focus = match run_pre_hooks(turn, trigger, focus).await {
        Ok(focus) => focus,
        Err(reason) => return CompactionEnd::Blocked(reason),
    };
    publish(turn, CompactionView::Started(trigger));
    // The new segment begins with what settings and files say now.
    turn.scope.gate.refresh_settings(&turn.scope).await;
    let (began, facts) = (Instant::now(), turn.model_facts());
    let pre_tokens = conversation.history().gauge.tokens(&facts);
    let pending = pending_blocks(conversation);
    let summary = match write_summary(conversation, turn, thinking, focus.as_deref(), &pending, must_succeed).await {
        SummaryOutcome::Text(summary) => Ok(summary),
        SummaryOutcome::Missing(reason) => Err(reason),
        SummaryOutcome::Failed(error) => {
            publish(turn, CompactionView::Failed(error.to_string()));
            return CompactionEnd::Failed(error);
        }
        SummaryOutcome::LimitReached(limit) => {
            publish(turn, CompactionView::Failed(limit.describe()));
            return CompactionEnd::LimitReached(limit);
        }
        SummaryOutcome::Aborted => return abort(turn),
    };
    let (context, carried) = tokio::select! {
        biased;
        () = turn.scope.cancel.cancelled() => return abort(turn),
        read = async { (read_compacted_context(turn).await, CarriedFacts::collect(conversation, turn, &facts, !pending.is_empty()).await) } => read,
    };
    let Some(context) = context else { return abort(turn) };
    let record = CompactionRecord {
        manual: trigger == CompactionTrigger::Manual,
        pre_tokens,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        ..CompactionRecord::default()
    };
    let beginning = SegmentBeginning { summary: summary.as_deref().ok(), carried, context, pending };
    let segment = begin_segment(conversation, turn, record, beginning);
    conversation.record.wait_durable().await;
    if let Err(reason) = &summary {
        let text = format!(
            "no summary could be written ({reason}); the conversation goes on with your messages, the to-do list and \
             the files alone. The earlier part stays in the transcript"
        );
        turn.publish_notice(NoticeLevel::Warning, text);
    }
    run_post_hooks(conversation, turn, trigger, summary.as_deref().unwrap_or_default()).await;
    publish(turn, CompactionView::Finished(segment.clone()));
    CompactionEnd::Done(segment)
}

fn publish(turn: &Turn, view: CompactionView) {
    turn.publish(EventBody::Compaction(Box::new(view)));
}

fn abort(turn: &Turn) -> CompactionEnd {
    publish(turn, CompactionView::Failed("interrupted".to_owned()));
    CompactionEnd::Aborted
}

/// Asks the hooks. Returns the wishes for the summary with what they add, or the reason why they do not allow it.
async fn run_pre_hooks(
    turn: &Turn,
    trigger: CompactionTrigger,
    focus: Option<String>,
) -> Result<Option<String>, String> {
    let hooks = turn.scope.services.hooks();
    if !hooks.has_listeners(HookEvent::PreCompact) {
        return Ok(focus);
    }
    let fired = hooks.fire(&turn.scope, &HookPayload::PreCompact { trigger, focus: focus.as_deref() }).await;
    if let Some(reason) = fired.blocked.or(fired.stop) {
        return Err(if reason.trim().is_empty() { "a hook does not allow it".to_owned() } else { reason });
    }
    let wishes: Vec<String> = focus.into_iter().chain(fired.contexts).collect();
    Ok((!wishes.is_empty()).then(|| wishes.join("\n")))
}

/// Informs the hooks, and adds what they say for the model.
async fn run_post_hooks(conversation: &mut Conversation, turn: &Turn, trigger: CompactionTrigger, summary: &str) {
    let hooks = turn.scope.services.hooks();
    if hooks.has_listeners(HookEvent::PostCompact) {
        hooks.fire(&turn.scope, &HookPayload::PostCompact { trigger, summary }).await;
    }
    if turn.scope.subagent.is_none() && hooks.has_listeners(HookEvent::SessionStart) {
        let title = conversation.record.transcript().labels().display_title().map(str::to_owned);
        let (source, model) = (StartSource::Compact, &turn.model_facts().id);
        let fired =
            hooks.fire(&turn.scope, &HookPayload::SessionStart { source, model, title: title.as_deref() }).await;
        for text in fired.contexts {
            append_meta_message(conversation, &text);
        }
    }
}

/// Returns the blocks of a prompt that the model has not answered and that has no results in front: it is the next
/// instruction and stays as it is.
fn pending_blocks(conversation: &Conversation) -> Vec<Block> {
    let messages = conversation.history().messages();
    let tail = messages.iter().rev().take_while(|message| message.role == Role::User).count();
    let tail = &messages[messages.len() - tail..];
    let blocks = || tail.iter().flat_map(|message| &message.blocks);
    if blocks().any(|block| block.kind() == BlockKind::ToolResult) { Vec::new() } else { blocks().cloned().collect() }
}

/// Has the summary written. If that fails, older turns are left out and it is tried once more.
async fn write_summary(
    conversation: &mut Conversation,
    turn: &Turn,
    thinking: ThinkingMode,
    focus: Option<&str>,
    pending: &[Block],
    must_succeed: bool,
) -> SummaryOutcome {
    // The user's wish is a text of any length, and must not fill the window itself.
    let facts = turn.model_facts();
    let focus = focus.map(|focus| &focus[..focus.floor_char_boundary(MOST_FOCUS)]);
    let instructions = summary_instructions(focus);
    let mut history = whole_history(conversation, !pending.is_empty());
    let mut reason = "there was no room for it".to_owned();
    for attempt in 1..=ATTEMPTS {
        let room = conversation.history().gauge.room_for_messages(&turn.model_facts());
        let room = room.saturating_sub(summary_room(facts.context_window) / 2);
        let (tokens, estimate) = {
            let gauge = &conversation.history().gauge;
            let facts = turn.model_facts();
            let estimate = move |blocks: &[Block]| gauge.estimate_blocks(blocks, &facts);
            let tokens: u64 = history.messages.iter().map(|message| estimate(&message.blocks)).sum();
            (tokens, estimate)
        };
        let most = if attempt == 1 { room } else { room.min(tokens / 2) };
        if tokens > most {
            match history.newest_part(most, estimate) {
                Some(part) => history = part,
                None => return SummaryOutcome::Missing(reason),
            }
        }
        match request_summary(conversation, turn, thinking, &history, &instructions).await {
            SummaryAttempt::Text(summary) => {
                let most = (summary_room(facts.context_window) as f64
                    * conversation.history().gauge.bytes_per_token(&facts)) as usize;
                return SummaryOutcome::Text(summary[..summary.floor_char_boundary(most)].to_owned());
            }
            SummaryAttempt::LimitReached(limit) => return SummaryOutcome::LimitReached(limit),
            SummaryAttempt::Aborted => return SummaryOutcome::Aborted,
            SummaryAttempt::Unusable(why) => why.clone_into(&mut reason),
            SummaryAttempt::Failed(error) if is_about_this_request(&error, must_succeed) => {
                if error.kind == ModelErrorKind::PromptTooLong {
                    correct_window(conversation, turn, &error);
                }
                reason = error.to_string();
            }
            SummaryAttempt::Failed(error) => return SummaryOutcome::Failed(error),
        }
    }
    if must_succeed { SummaryOutcome::Missing(reason) } else { SummaryOutcome::Failed(summary_error(&reason)) }
}

/// Returns true if another request might succeed, or the conversation has to go on without a summary.
fn is_about_this_request(error: &ModelError, must_succeed: bool) -> bool {
    match error.kind {
        ModelErrorKind::PromptTooLong | ModelErrorKind::RequestTooLarge | ModelErrorKind::InvalidRequest => true,
        ModelErrorKind::Overloaded | ModelErrorKind::Server | ModelErrorKind::Protocol | ModelErrorKind::Timeout => {
            must_succeed
        }
        ModelErrorKind::NotLoggedIn
        | ModelErrorKind::Authentication
        | ModelErrorKind::Permission
        | ModelErrorKind::Billing
        | ModelErrorKind::RateLimit
        | ModelErrorKind::ModelNotFound
        | ModelErrorKind::Network
        | ModelErrorKind::Tls => false,
    }
}

fn summary_error(reason: &str) -> ModelError {
    ModelError {
        kind: ModelErrorKind::Protocol,
        status: None,
        message: format!("no summary could be written: {reason}"),
        hint: None,
        request_id: None,
    }
}

/// Returns the messages to summarise: all of them, or all but the prompt that stays as it is.
fn whole_history(conversation: &mut Conversation, without_prompt: bool) -> SummarizedHistory {
    conversation.history_mut().ensure_sendable();
    let few_images = conversation.history_mut().with_limited_images();
    let mut history = SummarizedHistory { messages: conversation.history().messages(), few_images };
    if without_prompt {
        let kept = history.messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |at| at + 1);
        history.messages.truncate(kept);
        history.few_images.iter_mut().for_each(|messages| messages.truncate(kept));
    }
    history
}

/// Corrects the window and the estimate after a server found a request too long.
pub(crate) fn correct_window(conversation: &Conversation, turn: &Turn, error: &ModelError) {
    let facts = turn.model_facts();
    let is_about_tokens = error.kind == ModelErrorKind::PromptTooLong;
    let (sent, window) = if is_about_tokens { refused_sizes(&error.message) } else { (None, None) };
    // A number that has nothing to do with what was sent is no window.
    let estimated = conversation.history().gauge.tokens(&facts);
    let is_plausible = |window: &u64| *window < facts.context_window && *window / 4 <= estimated;
    if let Some(window) = window.filter(is_plausible) {
        turn.scope.model_selection.correct_window(&facts.id, window);
        let text = format!(
            "the window of {} is {window} tokens here, not {}; counting with that from now on",
            facts.id, facts.context_window
        );
        turn.publish_notice(NoticeLevel::Warning, text);
    }
    if is_about_tokens {
        let facts = turn.model_facts();
        let sent = sent.filter(|sent| *sent / 4 <= estimated).unwrap_or(0);
        conversation.history().gauge.record_refusal(sent.max(facts.context_window), &facts);
    }
}

/// Returns the size of the refused prompt and of the window, where the message of the server tells them.
fn refused_sizes(message: &str) -> (Option<u64>, Option<u64>) {
    // Digits inside ids and words mean nothing.
    let numbers: Vec<u64> = message
        .split(|c: char| !c.is_alphanumeric() && !"_,".contains(c))
        .filter_map(|word| word.trim_matches(',').replace(',', "").parse().ok())
        .filter(|number| *number >= SMALLEST_WINDOW)
        .collect();
    match numbers.as_slice() {
        [one, other, ..] => (Some(*one.max(other)), Some(*one.min(other))),
        [one] => (None, Some(*one)),
        [] => (None, None),
    }
}

/// What a segment begins with.
struct SegmentBeginning<'a> {
    /// `None` if no summary could be written.
    summary: Option<&'a str>,
    carried: CarriedFacts,
    context: Vec<SegmentContextPart>,
    /// Prompt that is still to be answered.
    pending: Vec<Block>,
}

/// Begins the new segment: on disk first, then in memory. No await, so that nothing comes between.
fn begin_segment(
    conversation: &mut Conversation,
    turn: &Turn,
    mut record: CompactionRecord,
    beginning: SegmentBeginning<'_>,
) -> CompactedSegment {
    let SegmentBeginning { summary, mut carried, context, pending } = beginning;
    let mut blocks = vec![Block::text(&opening_text(summary, &carried, pending.is_empty()))];
    blocks.extend(pending);
    carried.apply_to_files(turn);
    turn.scope.services.tool_state::<LoadedSkills>().clear();
    record.carried = std::mem::take(&mut carried.record);
    conversation.user_words.clone_from(&record.carried.words);
    let compacted_tools = compacted_tool_defs(&turn.scope.tools);
    let before = conversation.segment.prompt.clone();
    let tools = with_compacted_tools(&before.tools, &compacted_tools);
    let system = match turn.scope.subagent {
        Some(_) => before.system,
        None => with_style(&before.system, turn.options.style.current().as_ref()),
    };
    let prompt = PromptSegment { system, tools, context: Some(context.into()) };
    let sent_once = conversation.begin_segment(prompt, compacted_tools, blocks.clone());
    let facts = turn.model_facts();
    record.post_tokens = conversation.history().gauge.tokens(&facts);
    let trigger = if record.manual { CompactionTrigger::Manual } else { CompactionTrigger::Auto };
    let (pre_tokens, post_tokens, duration_ms) = (record.pre_tokens, record.post_tokens, record.duration_ms);
    let (boundary, summary) = conversation.record.append_compaction(&record, &blocks);
    conversation.record_frozen_prompt();
    if turn.scope.subagent.is_none() {
        let context = crate::context::environment_block(&turn.scope, &facts.id);
        append_meta_message(conversation, &context);
    }
    for text in sent_once {
        append_meta_message(conversation, &text);
    }
    CompactedSegment { trigger, boundary, summary, blocks, pre_tokens, post_tokens, duration_ms }
}

/// Returns the text that a segment begins with.
fn opening_text(summary: Option<&str>, carried: &CarriedFacts, goes_on: bool) -> String {
    let summary = match summary {
        Some(summary) => format!(
            "This session is being continued from a conversation that no longer fits the context window. You wrote this \
             summary of it:\n{}",
            enclose_in_tag("conversation-summary", summary)
        ),
        None => {
            "This session is being continued from a conversation that no longer fits the context window. No summary \
                 of it could be written; this is what is known without one."
                .to_owned()
        }
    };
    let then = if goes_on {
        "Go on from where the work stopped. Do not repeat what is done, and do not ask the user about what stands above."
    } else {
        "What follows is the user's next message."
    };
    [summary, carried.to_text(), then.to_owned()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_the_messages_of_servers() {
        for (message, sizes) in [
            ("prompt is too long: 208310 tokens > 200000 maximum", (Some(208_310), Some(200_000))),
            (
                "This model's maximum context length is 4,096 tokens. However, you requested 5,000 tokens",
                (Some(5_000), Some(4_096)),
            ),
            ("the request exceeds the available context size (8192 tokens)", (None, Some(8_192))),
            ("input is too long for requested model", (None, None)),
            ("prompt is too long (request req_0115000abc)", (None, None)),
        ] {
            assert_eq!(refused_sizes(message), sizes, "{message}");
        }
    }
}
