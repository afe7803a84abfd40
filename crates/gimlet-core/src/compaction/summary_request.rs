//! The request for a summary, and what is made of its answer.
//!
//! It has the system prompt, the tools and the messages of every other request, so that it reads the provider's cache.
//! Calls in the answer are not run, and nothing of it becomes part of the conversation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use gimlet_proto::{
    Block, BlockKind, CachePlan, EventBody, Message, Model, ModelError, ModelErrorKind, ModelEvent, ModelFacts,
    ModelRequest, NoticeLevel, ReplyEnd, ReplyStart, RetryNotice, Role, StopReason, ThinkingMode, TokenUsage,
    ToolChoice,
};
use gimlet_store::RequestPurpose;

use crate::conversation::Conversation;
use crate::spending::{BilledRequest, ReachedLimit, ReservationOutcome};
use crate::turn::{Turn, reserve_for_request};

/// Note in front of a history that begins in the middle.
const LEFT_OUT: &str = "(The oldest part of this conversation is left out here.)";

/// What is asked for. The tag lets the model think aloud before it.
const INSTRUCTIONS: &str = "\
The context window is nearly full, and this conversation will go on from a summary that you write now. Of everything \
above, only this summary and the following stay visible: the user's own messages, the to-do list, the plan, the list of \
files that were read or changed, and background work. Answer with text alone and call no tool: calls are not run.

Write the summary inside <summary> and </summary>, in at most 2,000 words, for a reader who knows nothing else:
1. The task: what is asked for, and what the user decided, ruled out or corrected.
2. What was done, with paths, names and commands.
3. What was found out with effort: causes, exact error texts, values, places in the code.
4. What was tried and failed, and why.
5. Where the work stands, and the very next step.";

/// Part of the history that is summarised.
pub(super) struct SummarizedHistory {
    pub(super) messages: Vec<Arc<Message>>,
    /// The same for a model that takes few images.
    pub(super) few_images: Option<Vec<Arc<Message>>>,
}

/// Outcome of one request for a summary.
pub(super) enum SummaryAttempt {
    Text(String),
    /// The answer is of no use; with the reason.
    Unusable(&'static str),
    Failed(ModelError),
    /// The session may not spend what it costs.
    LimitReached(ReachedLimit),
    /// The user interrupted it.
    Aborted,
}

/// Returns the instructions, with the user's wishes.
pub(super) fn summary_instructions(focus: Option<&str>) -> String {
    match focus.map(str::trim).filter(|focus| !focus.is_empty()) {
        None => INSTRUCTIONS.to_owned(),
        Some(focus) => format!("{INSTRUCTIONS}\n\nThe user wants the summary to dwell on this:\n{focus}"),
    }
}

impl SummarizedHistory {
    /// Returns the newest part of the history that begins with a turn, or else with a reply, and has at most `most`
    /// tokens; `None` if there is none. Thinking is left out: it is bound to what came before it.
    pub(super) fn newest_part(&self, most: u64, estimate: impl Fn(&[Block]) -> u64) -> Option<Self> {
        let mut sizes: Vec<u64> = self.messages.iter().map(|message| estimate(&message.blocks)).collect();
        sizes.push(0);
        for at in (0..self.messages.len()).rev() {
            sizes[at] += sizes[at + 1];
        }
        let fits = |at: &usize| sizes[*at] <= most;
        let is_prompt = |at: &usize| self.messages[*at].role == Role::User && !has_results(&self.messages[*at]);
        let is_reply = |at: &usize| self.messages[*at].role == Role::Assistant;
        let later = || 1..self.messages.len();
        let start = later().filter(fits).find(is_prompt).or_else(|| later().filter(fits).find(is_reply))?;
        let part = |messages: &[Arc<Message>]| without_thinking(&messages[start..]);
        Some(Self { messages: part(&self.messages), few_images: self.few_images.as_deref().map(part) })
    }

    /// Returns the messages with the instructions at their end.
    fn with_instructions(messages: &[Arc<Message>], instructions: &str) -> Vec<Arc<Message>> {
        let mut messages = messages.to_vec();
        let text = Block::text(instructions);
        match messages.last_mut() {
            Some(last) if last.role == Role::User => Arc::make_mut(last).blocks.push(text),
            Some(_) | None => messages.push(Arc::new(Message::user(vec![text]))),
        }
        messages
    }
}

fn has_results(message: &Message) -> bool {
    message.blocks.iter().any(|block| block.kind() == BlockKind::ToolResult)
}

/// Returns these messages without thinking, behind a note that earlier ones are missing.
fn without_thinking(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let is_thinking = |block: &Block| matches!(block.kind(), BlockKind::Thinking | BlockKind::RedactedThinking);
    let kept = messages.iter().filter_map(|message| {
        if !message.blocks.iter().any(is_thinking) {
            return Some(message.clone());
        }
        let blocks: Vec<Block> = message.blocks.iter().filter(|block| !is_thinking(block)).cloned().collect();
        (!blocks.is_empty()).then(|| Arc::new(Message { role: message.role, blocks }))
    });
    let note = Arc::new(Message::user(vec![Block::text(LEFT_OUT)]));
    std::iter::once(note).chain(kept).collect()
}

/// Sends one request for a summary and reads the answer. Its cost counts, whatever comes of it.
pub(super) async fn request_summary(
    conversation: &mut Conversation,
    turn: &Turn,
    thinking: ThinkingMode,
    history: &SummarizedHistory,
    instructions: &str,
) -> SummaryAttempt {
    let (facts, asked) = (turn.model_facts(), Instant::now());
    let request = build_request(conversation, turn, thinking, history, instructions);
    let held = match reserve_for_request(conversation, turn, &request).await {
        ReservationOutcome::Granted(held) => held,
        ReservationOutcome::Reached(limit) => return SummaryAttempt::LimitReached(limit),
        ReservationOutcome::Cancelled => return SummaryAttempt::Aborted,
    };
    let request = ModelRequest { max_tokens: held.max_output, ..request };
    let mut stream = turn.scope.model_selection.provider().stream(request);
    let mut reply = SummaryReply::default();
    let ending = loop {
        let event = tokio::select! {
            biased;
            () = turn.scope.cancel.cancelled() => {
                drop(stream);
                break None;
            }
            event = stream.next() => event,
        };
        match event {
            Some(ModelEvent::Done(end)) => break Some(Ok(end)),
            Some(ModelEvent::Failed(error)) => break Some(Err(error)),
            Some(event) => reply.take_event(event, turn),
            None => {
                break Some(Err(ModelError {
                    kind: ModelErrorKind::Protocol,
                    status: None,
                    message: "the model's stream ended without an ending".to_owned(),
                    hint: None,
                    request_id: None,
                }));
            }
        }
    };
    reply.count(conversation, turn, &facts, ending.as_ref().and_then(|ending| ending.as_ref().ok()), asked.elapsed());
    match ending {
        None => SummaryAttempt::Aborted,
        Some(Err(error)) => SummaryAttempt::Failed(error),
        Some(Ok(end)) => reply.into_attempt(&end),
    }
}

fn build_request(
    conversation: &Conversation,
    turn: &Turn,
    thinking: ThinkingMode,
    history: &SummarizedHistory,
    instructions: &str,
) -> ModelRequest {
    let (segment, choice) = (&conversation.segment, turn.scope.model_selection.current());
    let messages =
        |messages: &[Arc<Message>]| segment.with_context(SummarizedHistory::with_instructions(messages, instructions));
    let cache: CachePlan = conversation.cache_plan_so_far(turn.scope.subagent.is_some());
    ModelRequest {
        model: turn.scope.model(),
        max_tokens: None,
        system: segment.prompt.system.clone(),
        tools: segment.prompt.tools.clone(),
        tool_choice: ToolChoice::Auto { parallel: turn.options.parallel_tools },
        messages: messages(&history.messages),
        few_images: history.few_images.as_deref().map(messages),
        cache,
        thinking,
        display: choice.display,
        effort: choice.effort,
        want_wire_events: false,
    }
}

/// The answer as far as it was received.
#[derive(Default)]
struct SummaryReply {
    start: ReplyStart,
    blocks: Vec<Block>,
    /// Usage of models that refused to answer.
    spent: Vec<(String, TokenUsage)>,
}

impl SummaryReply {
    fn take_event(&mut self, event: ModelEvent, turn: &Turn) {
        match event {
            ModelEvent::Started(start) => self.start = start,
            ModelEvent::BlockDone { block, .. } => self.blocks.push(block),
            ModelEvent::ReplyDiscarded => self.blocks.clear(),
            ModelEvent::Spent { model, usage } => {
                self.spent.push((model, usage));
                self.start.usage = TokenUsage::default();
            }
            ModelEvent::Retrying { attempt, max, delay_ms, error } => {
                turn.publish(EventBody::Retry(RetryNotice { attempt, max, delay_ms, error }));
            }
            ModelEvent::Waiting { silent_ms } => turn.publish_notice(
                NoticeLevel::Status,
                format!("still waiting for the summary ({} s without a word)", silent_ms / 1000),
            ),
            ModelEvent::Notice(text) => turn.publish_notice(NoticeLevel::Warning, text),
            // Nothing of the answer is shown, and the caller handles the last two.
            ModelEvent::BlockStarted { .. }
            | ModelEvent::TextDelta { .. }
            | ModelEvent::ThinkingDelta { .. }
            | ModelEvent::InputDelta { .. }
            | ModelEvent::Wire(_)
            | ModelEvent::ReplyAnomalies(_)
            | ModelEvent::RateLimits(_)
            | ModelEvent::Done(_)
            | ModelEvent::Failed(_) => {}
        }
    }

    /// Counts what the request cost into the turn and the session.
    fn count(
        &self,
        conversation: &mut Conversation,
        turn: &Turn,
        asked_of: &ModelFacts,
        end: Option<&ReplyEnd>,
        took: Duration,
    ) {
        let provider: &dyn Model = turn.scope.model_selection.provider();
        let served = provider.facts(&self.start.model);
        let facts = if served.known && served.price != asked_of.price { served } else { asked_of.clone() };
        let usage = end.map_or(self.start.usage, |end| end.usage);
        let others = self
            .spent
            .iter()
            .map(|(model, usage)| (provider.facts(model), *usage, RequestPurpose::Declined, Duration::ZERO));
        for (facts, usage, purpose, took) in
            std::iter::once((facts, usage, RequestPurpose::Summary, took)).chain(others)
        {
            let request_id = self.start.request_id.as_deref();
            let billed = BilledRequest { request_id, ..BilledRequest::new(&facts, usage, purpose).with_time(took) };
            conversation.ledger.count_attempt(&billed);
            if let Some(who) = &turn.scope.subagent {
                who.meter.count_request(&usage);
            }
        }
    }

    fn into_attempt(self, end: &ReplyEnd) -> SummaryAttempt {
        match end.stop_reason {
            Some(StopReason::Refusal) => return SummaryAttempt::Unusable("the model refused to write it"),
            Some(StopReason::MaxTokens) => return SummaryAttempt::Unusable("it was cut at the output limit"),
            Some(StopReason::ContextWindowExceeded) => {
                return SummaryAttempt::Unusable("it did not fit into the context window");
            }
            _ if end.interrupted.is_some() => return SummaryAttempt::Unusable("it was cut off"),
            _ => {}
        }
        let texts: Vec<_> = self.blocks.iter().filter_map(Block::as_text).collect();
        match extract_summary(&texts.join("\n")) {
            Some(summary) => SummaryAttempt::Text(summary),
            None if self.blocks.iter().any(|block| block.kind() == BlockKind::ToolUse)
                || end.cut_tool_call.is_some() =>
            {
                SummaryAttempt::Unusable("the model called tools in its place")
            }
            None => SummaryAttempt::Unusable("it was empty"),
        }
    }
}

/// Returns the content of the `<summary>` element, or else the whole text; `None` if there is none.
fn extract_summary(text: &str) -> Option<String> {
    let inside = text.split_once("<summary>").map(|(_, rest)| match rest.rsplit_once("</summary>") {
        Some((inside, _)) => inside,
        None => rest,
    });
    let summary = inside.unwrap_or(text).trim();
    (!summary.is_empty()).then(|| summary.to_owned())
}

#[cfg(test)]
mod tests {
    use gimlet_proto::ResultContent;

    use super::*;

    #[test]
    fn the_summary_is_the_element_or_else_the_text() {
        for (text, summary) in [
            ("  plain ", Some("plain")),
            ("I think.\n<summary>\nthe <b> point\n</summary> bye", Some("the <b> point")),
            ("<summary>cut", Some("cut")),
            ("<summary> </summary>", None),
            ("", None),
        ] {
            assert_eq!(extract_summary(text).as_deref(), summary, "{text:?}");
        }
    }

    #[test]
    fn the_newest_part_begins_with_a_turn_and_never_splits_a_call_from_its_result() {
        let text = |text: &str| vec![Block::text(text)];
        let call = Block::from_json(r#"{"type":"tool_use","id":"t1","name":"Read","input":{}}"#).unwrap();
        let thinking = Block::from_json(r#"{"type":"thinking","thinking":"","signature":"s"}"#).unwrap();
        let result = Block::tool_result("t1", &ResultContent::Text("r".into()), false);
        let messages: Vec<Arc<Message>> = [
            Message::user(text("one")),
            Message::assistant(text("two")),
            Message::user(text("three")),
            Message::assistant(vec![thinking, call.clone()]),
            Message::user(vec![result]),
        ]
        .into_iter()
        .map(Arc::new)
        .collect();
        let history = SummarizedHistory { messages, few_images: None };
        let one_each = |blocks: &[Block]| blocks.len() as u64;
        let turn = history.newest_part(4, one_each).unwrap().messages;
        assert_eq!(turn.iter().map(|message| message.text()).collect::<Vec<_>>(), [LEFT_OUT, "three", "", ""]);
        assert_eq!(turn[2].blocks, [call], "thinking is left out");
        let reply = history.newest_part(3, one_each).unwrap().messages;
        assert_eq!((reply.len(), reply[1].role), (3, Role::Assistant));
        assert!(history.newest_part(2, one_each).is_none());
    }
}
