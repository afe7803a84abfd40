//! Messages of one conversation segment as they are sent, with everything that is counted from them.

use std::collections::HashSet;
use std::sync::Arc;

use gimlet_proto::{Block, BlockKind, CacheBreak, Message, ModelFacts, PromptDefect, ReplyStart, Role, TurnEnd};
use gimlet_store::is_sendable;

use super::cache_watch::{CacheWatch, SentPrefix};
use super::image_limit::ImageLimitView;
use super::payload_budget::{PayloadBudget, PayloadOverflow};
use super::{PromptMark, PromptSegment};
use crate::context_usage::ContextGauge;

/// Divisor of the context window: a prompt is too long only if it takes at least this share, since a short one did
/// not fill the window.
const LONG_PROMPT: u64 = 20;

/// The messages, which of them were sent, and their size.
pub(crate) struct MessageHistory {
    pub(super) messages: Vec<Arc<Message>>,
    /// Ids of all calls in history: a duplicate id would make the history unusable.
    call_ids: HashSet<Box<str>>,
    /// Number of messages in the last request of this run; the cache reaches that far.
    cached: Option<usize>,
    /// Number of messages that were sent as they are, in this run or an earlier one. Nothing is merged into them.
    sent: usize,
    /// Prompt size of the last request, for budgets.
    pub(crate) context_tokens: u64,
    /// Fill level of the context window.
    pub(crate) gauge: ContextGauge,
    /// Payload of the messages on which servers set limits.
    pub(super) payload: PayloadBudget,
    /// View of the messages for models that accept few images.
    pub(super) few_images: ImageLimitView,
    cache_watch: CacheWatch,
}

impl MessageHistory {
    /// Creates the history of a segment that begins with these messages, all of them sent before.
    pub(super) fn new(messages: Vec<Arc<Message>>, gauge: ContextGauge) -> Self {
        messages.iter().for_each(|message| gauge.add_blocks(message.role, &message.blocks));
        Self {
            call_ids: messages.iter().flat_map(|message| call_ids(&message.blocks)).collect(),
            cached: None,
            sent: messages.len(),
            context_tokens: 0,
            gauge,
            payload: PayloadBudget::from_messages(&messages),
            few_images: ImageLimitView::default(),
            cache_watch: CacheWatch::default(),
            messages,
        }
    }

    /// Returns true if a user message has a block of exactly this text.
    pub(super) fn contains_user_text(&self, text: &str) -> bool {
        let user_messages = self.messages.iter().filter(|message| message.role == Role::User);
        user_messages.flat_map(|message| &message.blocks).any(|block| block.as_text().as_deref() == Some(text))
    }

    /// Returns the last text of the user side that begins like this.
    pub(crate) fn last_user_text(&self, start: &str) -> Option<String> {
        let user_messages = self.messages.iter().rev().filter(|message| message.role == Role::User);
        let mut texts = user_messages.flat_map(|message| message.blocks.iter().rev()).filter_map(Block::as_text);
        texts.find(|text| text.starts_with(start)).map(std::borrow::Cow::into_owned)
    }

    pub(crate) fn messages(&self) -> Vec<Arc<Message>> {
        self.messages.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Appends blocks to the user side. They are merged into the last message only if it was not sent yet: sent
    /// messages never change. Results stay in front of text, as the API requires.
    pub(crate) fn push_user(&mut self, blocks: Vec<Block>) {
        if blocks.is_empty() {
            return;
        }
        self.gauge.add_blocks(Role::User, &blocks);
        self.payload.add_blocks(&blocks);
        let unsent = self.messages.len() > self.sent;
        match self.messages.last_mut() {
            Some(last) if unsent && last.role == Role::User => Arc::make_mut(last).blocks.extend(blocks),
            Some(_) | None => self.messages.push(Arc::new(Message::user(blocks))),
        }
    }

    pub(crate) fn push_assistant(&mut self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.gauge.add_blocks(Role::Assistant, &blocks);
            self.payload.add_blocks(&blocks);
            self.call_ids.extend(call_ids(&blocks));
            self.messages.push(Arc::new(Message::assistant(blocks)));
        }
    }

    /// Returns the current payload of the messages, for adding to it for a model with this window.
    pub(crate) fn payload_budget(&self, window: u64) -> PayloadBudget {
        self.payload.for_window(window)
    }

    /// Returns the end of a turn whose prompt cannot be sent with the existing history; `None` if it fits.
    pub(crate) fn prompt_rejection(&self, prompt: &[Block], facts: &ModelFacts) -> Option<TurnEnd> {
        if let Some(result) = prompt.iter().find(|block| block.kind() == BlockKind::ToolResult) {
            let call = result.id().unwrap_or_default();
            let reason = format!(
                "The prompt was not taken up: it answers the call '{call}', and no call waits for that answer."
            );
            return Some(TurnEnd::PromptUnusable { reason, because: PromptDefect::Misplaced });
        }
        self.prompt_overflow(prompt, facts)
    }

    /// Returns the end of a turn whose prompt does not fit, for a prompt without misplaced content; `None` if it
    /// fits.
    pub(crate) fn prompt_overflow(&self, prompt: &[Block], facts: &ModelFacts) -> Option<TurnEnd> {
        if let Some(why) = prompt.iter().find_map(gimlet_store::unusable_image_reason) {
            let reason = format!("The prompt was not taken up: an image in it cannot be sent: {why}.");
            return Some(TurnEnd::PromptUnusable { reason, because: PromptDefect::Images });
        }
        if let Err(full) = self.payload_budget(facts.context_window).check_fits(prompt) {
            let reason = format!("The prompt was not taken up: {}.", full.explanation());
            let because = if full == PayloadOverflow::Bytes { PromptDefect::Length } else { PromptDefect::Images };
            return Some(TurnEnd::PromptUnusable { reason, because });
        }
        let (tokens, window) = (ContextGauge::estimate_tokens(prompt, facts), facts.context_window);
        if tokens < window / LONG_PROMPT || self.gauge.tokens(facts) + tokens <= window {
            return None;
        }
        let reason = format!(
            "The prompt was not taken up: it has about {tokens} tokens, and with what is there already that is more than \
             the {window} that fit the window of {}. Shorten it, or put it into a file and name that.",
            facts.id
        );
        Some(TurnEnd::PromptUnusable { reason, because: PromptDefect::Length })
    }

    /// Replaces images and documents that no answer has shown to be accepted by notes, except for those of this
    /// prompt while it is unanswered. Returns the number of changed blocks.
    pub(crate) fn drop_unanswered_attachments(&mut self, prompt: &PromptMark, why: &str) -> usize {
        self.drop_attachments(self.first_unanswered(), self.unanswered_prompt_start(prompt), why)
    }

    /// Replaces images and documents that the model has answered, or that precede this prompt while it is unanswered.
    /// Returns the number of changed blocks.
    pub(crate) fn drop_seen_attachments(&mut self, prompt: &PromptMark, why: &str) -> usize {
        self.drop_attachments(
            0,
            Some(self.unanswered_prompt_start(prompt).unwrap_or((self.first_unanswered(), 0))),
            why,
        )
    }

    /// Replaces blocks of an unknown type that a refusal names by notes. Returns their number.
    pub(crate) fn drop_unknown_blocks(&mut self, refusal: &str) -> usize {
        let mut replaced = 0;
        for message in &mut self.messages {
            for at in 0..message.blocks.len() {
                let block = &message.blocks[at];
                if block.kind() != BlockKind::Other {
                    continue;
                }
                let kind = block.type_name().into_owned();
                if !kind.is_empty() && refusal.contains(&kind.to_ascii_lowercase()) {
                    let note = format!("(A part of the type `{kind}` was left out: the server refused it.)");
                    Arc::make_mut(message).blocks[at] = Block::text(&note);
                    replaced += 1;
                }
            }
        }
        if replaced > 0 {
            self.recount_payload();
        }
        replaced
    }

    /// Replaces every image and document by a note. Returns the number of changed blocks.
    pub(crate) fn drop_all_attachments(&mut self, why: &str) -> usize {
        self.drop_attachments(0, None, why)
    }

    fn drop_attachments(&mut self, first: usize, before: Option<(usize, usize)>, why: &str) -> usize {
        let mut replaced = 0;
        for (index, message) in self.messages.iter_mut().enumerate().skip(first) {
            if message.role != Role::User {
                continue;
            }
            for at in 0..message.blocks.len() {
                if before.is_some_and(|end| (index, at) >= end) {
                    break;
                }
                let note = gimlet_store::replace_attachments(&message.blocks[at], why);
                if let Some(note) = note {
                    Arc::make_mut(message).blocks[at] = note;
                    replaced += 1;
                }
            }
        }
        if replaced > 0 {
            self.recount_payload();
        }
        replaced
    }

    /// Recounts the payload of the messages after a removal.
    fn recount_payload(&mut self) {
        self.payload = PayloadBudget::from_messages(&self.messages);
        self.few_images = ImageLimitView::default();
        self.gauge.clear_messages();
        self.messages.iter().for_each(|message| self.gauge.add_blocks(message.role, &message.blocks));
    }

    /// Returns true if the user attached content to this prompt and it is unanswered.
    pub(crate) fn has_prompt_attachments(&self, prompt: &PromptMark) -> bool {
        let Some((message, block)) = self.unanswered_prompt_start(prompt) else { return false };
        let blocks = self.messages.iter().skip(message).flat_map(|message| &message.blocks).skip(block);
        blocks.into_iter().any(|block| matches!(block.kind(), BlockKind::Image | BlockKind::Document))
    }

    /// Returns the message and the block where a prompt begins, or `None` once the model has answered it.
    fn unanswered_prompt_start(&self, prompt: &PromptMark) -> Option<(usize, usize)> {
        (self.first_unanswered() <= prompt.messages).then(|| (prompt.messages.saturating_sub(1), prompt.blocks))
    }

    /// Returns the index of the first message that the model has not answered.
    fn first_unanswered(&self) -> usize {
        self.messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |at| at + 1)
    }

    /// Returns true if a call of the current reply may have this id. Some servers restart their call ids with every
    /// reply, or send none at all.
    pub(crate) fn is_free_call_id(&self, id: &str, reply: &[Block]) -> bool {
        let well_formed =
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        well_formed && !self.call_ids.contains(id) && call_ids(reply).all(|taken| *taken != *id)
    }

    /// Performs the last check before a request, on the unsent messages: a call without its result, or a result
    /// without its call, would make the whole conversation unusable. By construction there is none; if there is, it
    /// is repaired here. Returns true if that happened.
    pub(crate) fn ensure_sendable(&mut self) -> bool {
        let repaired = !is_sendable(&self.messages, self.sent) && self.repair_from(self.sent) > 0;
        debug_assert_eq!(gimlet_store::find_invalid(&self.messages), None, "a history that no server takes");
        repaired
    }

    /// Makes the whole history valid, including messages already sent. Returns the number of repairs.
    pub(crate) fn repair_history(&mut self) -> usize {
        self.repair_from(0)
    }

    fn repair_from(&mut self, checked: usize) -> usize {
        let messages = self.messages.iter().map(|message| Message::clone(message)).collect();
        let (messages, damage) = gimlet_store::repair_messages(messages, checked);
        if !damage.is_empty() {
            self.messages = messages.into_iter().map(Arc::new).collect();
            self.limit_sent();
            self.recount_payload();
        }
        damage.len()
    }

    /// Returns true if the last message is the assistant's (only a paused turn may be continued like that).
    pub(crate) fn ends_with_assistant(&self) -> bool {
        self.messages.last().is_some_and(|message| message.role == Role::Assistant)
    }

    /// Returns true if the history ends with tool results.
    pub(crate) fn ends_with_results(&self) -> bool {
        self.messages
            .last()
            .is_some_and(|message| message.blocks.first().is_some_and(|block| block.kind() == BlockKind::ToolResult))
    }

    /// Removes everything added since the mark, unless the model has answered. Returns true if it was removed.
    pub(super) fn truncate_to(&mut self, mark: &PromptMark) -> bool {
        let since = self.messages.get(mark.messages..).unwrap_or_default();
        if since.iter().any(|message| message.role == Role::Assistant) {
            return false;
        }
        self.messages.truncate(mark.messages);
        if let Some(last) = self.messages.last_mut()
            && last.blocks.len() > mark.blocks
        {
            Arc::make_mut(last).blocks.truncate(mark.blocks);
        }
        self.limit_sent();
        self.recount_payload();
        true
    }

    /// Lowers the numbers of sent messages after a removal.
    fn limit_sent(&mut self) {
        self.sent = self.sent.min(self.messages.len());
        self.cached = self.cached.map(|cached| cached.min(self.messages.len()));
    }

    /// Marks the history as sent. Returns the number of messages in the request before, if there was one.
    pub(super) fn mark_sent(&mut self) -> Option<usize> {
        self.sent = self.messages.len();
        self.cached.replace(self.sent)
    }

    /// Returns the number of messages in the last request of this run, if there was one.
    pub(super) fn cached_len(&self) -> Option<usize> {
        self.cached
    }

    /// Takes over the call ids of an earlier segment: files of large results have their names.
    pub(super) fn keep_call_ids(&mut self, earlier: &mut Self) {
        self.call_ids.extend(std::mem::take(&mut earlier.call_ids));
    }

    /// Records a request that is being answered. Returns what changed if the provider's cache missed it.
    pub(super) fn detect_cache_break(
        &mut self,
        prompt: &PromptSegment,
        messages: &[Arc<Message>],
        start: &ReplyStart,
        facts: &ModelFacts,
    ) -> Option<CacheBreak> {
        let sent = SentPrefix::new(&prompt.system, &prompt.tools, messages);
        self.cache_watch.record_request(sent, start, facts.min_cache_tokens)
    }
}

fn call_ids(blocks: &[Block]) -> impl Iterator<Item = Box<str>> {
    blocks.iter().filter(|block| block.kind() == BlockKind::ToolUse).filter_map(Block::id).map(Box::from)
}
