//! One conversation: its history in memory, its record on disk, and the frozen parts of the prompt.

mod cache_watch;
mod image_limit;
mod payload_budget;
mod prompt_segment;

use std::collections::HashSet;
use std::sync::Arc;

use gimlet_proto::{
    Block, BlockKind, CacheBreak, CachePlan, CacheTtl, EntryId, Message, ModelFacts, PromptDefect, ReplyStart, Role,
    ToolDef, ToolUseId, TurnEnd,
};
use gimlet_store::is_sendable;

use crate::call::ToolCall;
use crate::context_usage::ContextGauge;
use crate::record::ConversationRecord;
use crate::repeated_failures::RepeatedFailures;
use crate::usage_ledger::UsageLedger;
use cache_watch::{CacheWatch, SentPrefix};
use image_limit::ImageLimitView;
pub(crate) use payload_budget::PayloadBudget;
use payload_budget::PayloadOverflow;
pub use prompt_segment::PromptSegment;

/// Divisor of the context window: a prompt is too long only if it takes at least this share, since a short one did
/// not fill the window.
const LONG_PROMPT: u64 = 20;

/// Main conversation or that of a subagent. Only its turn changes it.
pub(crate) struct Conversation {
    pub(crate) record: ConversationRecord,
    pub(crate) ledger: UsageLedger,
    /// System prompt, sent with every request and unchanged for the whole segment.
    pub(crate) system: Arc<[String]>,
    pub(crate) tools: Arc<[ToolDef]>,
    messages: Vec<Arc<Message>>,
    /// Ids of all calls in history: a duplicate id would make the history unusable.
    call_ids: HashSet<Box<str>>,
    /// Number of messages in the last request of this run; the cache reaches that far.
    cached: Option<usize>,
    /// Number of messages that were sent as they are, in this run or an earlier one. Nothing is merged into them.
    sent: usize,
    /// Prompt size of the last request, for budgets.
    pub(crate) context_tokens: u64,
    pub(crate) cache_ttl: Option<CacheTtl>,
    /// Set if the model's last notice on planning was that plan mode is on.
    pub(crate) told_planning: bool,
    /// Calls repeated without effect.
    pub(crate) repeats: RepeatedFailures,
    /// Fill level of the context window.
    pub(crate) gauge: ContextGauge,
    /// Payload of the messages on which servers set limits.
    room: PayloadBudget,
    /// View of the messages for models that accept few images.
    few_images: ImageLimitView,
    cache_watch: CacheWatch,
    /// Texts from hooks and servers to send before the next prompt, and a prompt of theirs.
    pub(crate) opening: Vec<String>,
    /// Texts that are sent once and have been sent.
    said_once: HashSet<String>,
    pub(crate) opening_prompt: Option<String>,
    /// Call deferred by a hook; the conversation ends with it, and it has no result.
    pub(crate) deferred: Option<ToolCall>,
}

impl Conversation {
    pub(crate) fn new(
        record: ConversationRecord,
        system: Arc<[String]>,
        tools: Arc<[ToolDef]>,
        messages: Vec<Arc<Message>>,
        cache_ttl: Option<CacheTtl>,
    ) -> Self {
        let gauge = ContextGauge::new(&system, &tools);
        messages.iter().for_each(|message| gauge.add_blocks(message.role, &message.blocks));
        let call_ids = messages.iter().flat_map(|message| call_ids(&message.blocks)).collect();
        let room = PayloadBudget::from_messages(&messages);
        let sent = messages.len();
        Self {
            record,
            ledger: UsageLedger::default(),
            system,
            tools,
            messages,
            call_ids,
            cached: None,
            sent,
            context_tokens: 0,
            cache_ttl,
            told_planning: false,
            repeats: RepeatedFailures::default(),
            gauge,
            room,
            few_images: ImageLimitView::default(),
            cache_watch: CacheWatch::default(),
            opening: Vec::new(),
            said_once: HashSet::new(),
            opening_prompt: None,
            deferred: None,
        }
    }

    /// Replaces the list of tools if it differs, which ends the cached prefix.
    pub(crate) fn set_tools(&mut self, tools: Arc<[ToolDef]>) {
        if self.tools != tools {
            self.gauge.set_tools(&tools);
            self.tools = tools;
        }
    }

    /// Adds a text before the next prompt, unless the model got it before, also in an earlier run.
    pub(crate) fn add_opening_once(&mut self, text: String) {
        if self.said_once.contains(&text) {
            return;
        }
        let mut blocks =
            self.messages.iter().filter(|message| message.role == Role::User).flat_map(|message| &message.blocks);
        if !blocks.any(|block| block.as_text().as_deref() == Some(text.as_str())) {
            self.opening.push(text.clone());
        }
        self.said_once.insert(text);
    }

    /// Shares the usage ledger of another conversation.
    pub(crate) fn with_ledger(mut self, ledger: UsageLedger) -> Self {
        self.ledger = ledger;
        self
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
        self.room.add_blocks(&blocks);
        let unsent = self.messages.len() > self.sent;
        match self.messages.last_mut() {
            Some(last) if unsent && last.role == Role::User => Arc::make_mut(last).blocks.extend(blocks),
            Some(_) | None => self.messages.push(Arc::new(Message::user(blocks))),
        }
    }

    pub(crate) fn push_assistant(&mut self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.gauge.add_blocks(Role::Assistant, &blocks);
            self.room.add_blocks(&blocks);
            self.call_ids.extend(call_ids(&blocks));
            self.messages.push(Arc::new(Message::assistant(blocks)));
        }
    }

    /// Returns the current payload of the messages, for adding to it for a model with this window.
    pub(crate) fn payload_budget(&self, window: u64) -> PayloadBudget {
        self.room.for_window(window)
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

    /// Marks the state of the conversation before a prompt.
    pub(crate) fn mark_prompt(&mut self) -> PromptMark {
        PromptMark {
            messages: self.messages.len(),
            blocks: self.messages.last().map_or(0, |last| last.blocks.len()),
            last_entry: self.record.transcript().last_entry().cloned(),
            told_planning: self.told_planning,
        }
    }

    /// Removes everything added since the mark, unless the model has answered. Returns true if it was removed.
    pub(crate) fn withdraw_prompt(&mut self, mark: PromptMark) -> bool {
        let since = self.messages.get(mark.messages..).unwrap_or_default();
        if since.iter().any(|message| message.role == Role::Assistant) {
            return false;
        }
        self.messages.truncate(mark.messages);
        if let Some(last) = self.messages.last_mut().filter(|last| last.blocks.len() > mark.blocks) {
            Arc::make_mut(last).blocks.truncate(mark.blocks);
        }
        self.sent = self.sent.min(self.messages.len());
        self.cached = self.cached.map(|cached| cached.min(self.messages.len()));
        self.told_planning = mark.told_planning;
        self.recount_payload();
        self.record.transcript().rewind_to(mark.last_entry);
        true
    }

    /// Recounts the payload of the messages after a removal.
    fn recount_payload(&mut self) {
        self.room = PayloadBudget::from_messages(&self.messages);
        self.few_images = ImageLimitView::default();
        self.gauge.clear_messages();
        self.messages.iter().for_each(|message| self.gauge.add_blocks(message.role, &message.blocks));
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
        let mut shed = 0;
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
                    shed += 1;
                }
            }
        }
        if shed > 0 {
            self.recount_payload();
        }
        shed
    }

    /// Replaces every image and document by a note. Returns the number of changed blocks.
    pub(crate) fn drop_all_attachments(&mut self, why: &str) -> usize {
        self.drop_attachments(0, None, why)
    }

    fn drop_attachments(&mut self, first: usize, before: Option<(usize, usize)>, why: &str) -> usize {
        let mut shed = 0;
        for (index, message) in self.messages.iter_mut().enumerate().skip(first) {
            if message.role != Role::User {
                continue;
            }
            for at in 0..message.blocks.len() {
                if before.is_some_and(|end| (index, at) >= end) {
                    break;
                }
                let lighter = gimlet_store::replace_attachments(&message.blocks[at], why);
                if let Some(lighter) = lighter {
                    Arc::make_mut(message).blocks[at] = lighter;
                    shed += 1;
                }
            }
        }
        if shed > 0 {
            self.recount_payload();
        }
        shed
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

    /// Returns the cache breakpoints of this request and marks the history as sent. The part shared by all turns of a
    /// session ends with the environment facts; a subagent has too few turns for a breakpoint there.
    pub(crate) fn plan_cache(&mut self, is_subagent: bool) -> CachePlan {
        self.sent = self.messages.len();
        let previous_len = self.cached.replace(self.sent);
        CachePlan { ttl: self.cache_ttl, context: (!is_subagent).then_some((0, 0)), previous_len }
    }

    /// Records a request that is being answered. Returns what changed if the provider's cache missed it.
    pub(crate) fn detect_cache_break(&mut self, start: &ReplyStart, facts: &ModelFacts) -> Option<CacheBreak> {
        let sent = SentPrefix::new(&self.system, &self.tools, &self.messages);
        self.cache_watch.record_request(sent, start, facts.min_cache_tokens)
    }

    /// Performs the last check before a request, on the unsent messages: a call without its result, or a result
    /// without its call, would make the whole conversation unusable. By construction there is none; if there is, it
    /// is repaired here. Returns true if that happened.
    pub(crate) fn ensure_sendable(&mut self) -> bool {
        let mended = !is_sendable(&self.messages, self.sent) && self.repair_from(self.sent) > 0;
        debug_assert_eq!(gimlet_store::find_invalid(&self.messages), None, "a history that no server takes");
        mended
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
            self.sent = self.sent.min(self.messages.len());
            self.cached = self.cached.map(|cached| cached.min(self.messages.len()));
            self.recount_payload();
        }
        damage.len()
    }

    /// Restores a reply of an earlier run whose only call is deferred.
    pub(crate) fn restore_deferred(&mut self, reply: Vec<Block>) {
        self.push_assistant(reply);
        self.defer_last_call();
    }

    /// Defers the only call of the reply that ends the history, as the model wrote it.
    pub(crate) fn defer_last_call(&mut self) {
        self.deferred = self.messages.last().and_then(|last| {
            let call = last.tool_uses().next()?;
            let (id, input) = (ToolUseId::new(call.id.as_ref()), Arc::from(call.input.to_owned()));
            Some(ToolCall { id, name: call.name.into_owned(), input, bad_input: None })
        });
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
}

/// Position in the conversation where a prompt begins, for going back to it.
pub(crate) struct PromptMark {
    messages: usize,
    blocks: usize,
    last_entry: Option<EntryId>,
    told_planning: bool,
}

fn call_ids(blocks: &[Block]) -> impl Iterator<Item = Box<str>> {
    blocks.iter().filter(|block| block.kind() == BlockKind::ToolUse).filter_map(Block::id).map(Box::from)
}
