//! One conversation: its history in memory, its record on disk, and the parts of the prompt that stay frozen.

mod cache_watch;
mod image_limit;
mod payload_budget;

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

/// Of the window, what a prompt must at least take to be called too long: a short one is not what filled it.
const LONG_PROMPT: u64 = 20;

/// The main conversation or a subagent's. Only its turn changes it.
pub(crate) struct Conversation {
    pub(crate) record: ConversationRecord,
    pub(crate) ledger: UsageLedger,
    /// Sent with every request, unchanged for the whole segment.
    pub(crate) system: Arc<[String]>,
    pub(crate) tools: Arc<[ToolDef]>,
    messages: Vec<Arc<Message>>,
    /// The ids of all calls in history: a second call by the same id would make it unusable.
    call_ids: HashSet<Box<str>>,
    /// How many messages the last request of this run carried; the cache reaches that far.
    cached: Option<usize>,
    /// How many messages went out as they are, in this run or an earlier one. Nothing joins them.
    sent: usize,
    /// Prompt size of the last request, for budgets.
    pub(crate) context_tokens: u64,
    pub(crate) cache_ttl: Option<CacheTtl>,
    /// The model was last told that it plans.
    pub(crate) told_planning: bool,
    /// The wall that the model may be running into.
    pub(crate) repeats: RepeatedFailures,
    /// How full the context is.
    pub(crate) gauge: ContextGauge,
    /// What the messages carry that servers set limits on.
    room: PayloadBudget,
    /// What goes to models that take few images.
    few_images: ImageLimitView,
    cache_watch: CacheWatch,
    /// What hooks and servers want said before the next prompt, and a prompt of theirs.
    pub(crate) opening: Vec<String>,
    /// What is said once and was.
    said_once: HashSet<String>,
    pub(crate) opening_prompt: Option<String>,
    /// The call that a hook left for later; the conversation ends with it, and it has no result.
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

    /// Changes the list of tools, if it is another one: the cached prefix ends with it.
    pub(crate) fn set_tools(&mut self, tools: Arc<[ToolDef]>) {
        if self.tools != tools {
            self.gauge.set_tools(&tools);
            self.tools = tools;
        }
    }

    /// Has this said before the next prompt, unless the model was told so before, also in an earlier run.
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

    /// Counts into the purse of another conversation.
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

    /// Adds what the user side says. Joins the last message only if that was not sent yet: what the model has seen
    /// never changes. Results stay in front of text, as the wire demands.
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

    /// What the messages carry at this moment, for whoever is about to add to it for a model with this window.
    pub(crate) fn payload_budget(&self, window: u64) -> PayloadBudget {
        self.room.for_window(window)
    }

    /// How a turn ends whose prompt cannot be sent with what is there already; `None` for one that fits.
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

    /// The same for one that has nothing in the wrong place.
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

    /// The conversation as it is before a prompt.
    pub(crate) fn mark_prompt(&mut self) -> PromptMark {
        PromptMark {
            messages: self.messages.len(),
            blocks: self.messages.last().map_or(0, |last| last.blocks.len()),
            last_entry: self.record.transcript().last_entry().cloned(),
            told_planning: self.told_planning,
        }
    }

    /// Takes back what was said since, unless the model has answered.
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

    /// Counts again what the messages carry, after some of it is gone.
    fn recount_payload(&mut self) {
        self.room = PayloadBudget::from_messages(&self.messages);
        self.few_images = ImageLimitView::default();
        self.gauge.clear_messages();
        self.messages.iter().for_each(|message| self.gauge.add_blocks(message.role, &message.blocks));
    }

    /// Puts notes in the place of the images and documents that no answer shows the server to take, except for those of
    /// this prompt while it waits for its answer. Says how many blocks that changed.
    pub(crate) fn drop_unanswered_attachments(&mut self, prompt: &PromptMark, why: &str) -> usize {
        self.drop_attachments(self.first_unanswered(), self.unanswered_prompt_start(prompt), why)
    }

    /// The same with those that the model has answered, or that came before this prompt while it waits for its answer.
    pub(crate) fn drop_seen_attachments(&mut self, prompt: &PromptMark, why: &str) -> usize {
        self.drop_attachments(
            0,
            Some(self.unanswered_prompt_start(prompt).unwrap_or((self.first_unanswered(), 0))),
            why,
        )
    }

    /// Leaves out blocks whose type nobody here knows and a refusal names; a note stands in their place. Says how many.
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

    /// The same with every image and document.
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

    /// Whether the person shows something with this very prompt, and it waits for its answer.
    pub(crate) fn has_prompt_attachments(&self, prompt: &PromptMark) -> bool {
        let Some((message, block)) = self.unanswered_prompt_start(prompt) else { return false };
        let blocks = self.messages.iter().skip(message).flat_map(|message| &message.blocks).skip(block);
        blocks.into_iter().any(|block| matches!(block.kind(), BlockKind::Image | BlockKind::Document))
    }

    /// The message and the block where a prompt begins, as long as the model has not answered it.
    fn unanswered_prompt_start(&self, prompt: &PromptMark) -> Option<(usize, usize)> {
        (self.first_unanswered() <= prompt.messages).then(|| (prompt.messages.saturating_sub(1), prompt.blocks))
    }

    /// Where what the model has not answered yet begins.
    fn first_unanswered(&self) -> usize {
        self.messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |at| at + 1)
    }

    /// Whether a call of the reply under way may have this id. Some servers count their calls from the start again with
    /// every reply, or give no ids at all.
    pub(crate) fn is_free_call_id(&self, id: &str, reply: &[Block]) -> bool {
        let well_formed =
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        well_formed && !self.call_ids.contains(id) && call_ids(reply).all(|taken| *taken != *id)
    }

    /// Where this request's cache breakpoints go; notes that the history was sent. What every turn of a session shares
    /// ends with the facts of its place; a subagent has too few turns for a breakpoint there.
    pub(crate) fn plan_cache(&mut self, is_subagent: bool) -> CachePlan {
        self.sent = self.messages.len();
        let previous_len = self.cached.replace(self.sent);
        CachePlan { ttl: self.cache_ttl, context: (!is_subagent).then_some((0, 0)), previous_len }
    }

    /// Takes note of a request that is being answered. Gives what changed when the provider's cache did not know it.
    pub(crate) fn detect_cache_break(&mut self, start: &ReplyStart, facts: &ModelFacts) -> Option<CacheBreak> {
        let sent = SentPrefix::new(&self.system, &self.tools, &self.messages);
        self.cache_watch.record_request(sent, start, facts.min_cache_tokens)
    }

    /// The last check before a request, of what has not been sent yet: a call without its result, or a result without
    /// its call, would make the whole conversation unusable. By construction there is none; should one slip through, it
    /// is mended here. Says whether that happened.
    pub(crate) fn ensure_sendable(&mut self) -> bool {
        let mended = !is_sendable(&self.messages, self.sent) && self.repair_from(self.sent) > 0;
        debug_assert_eq!(gimlet_store::find_invalid(&self.messages), None, "a history that no server takes");
        mended
    }

    /// Makes the whole history valid, whatever was sent of it. Says how much there was to mend.
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

    /// Takes up a reply of an earlier run whose one call waits.
    pub(crate) fn restore_deferred(&mut self, reply: Vec<Block>) {
        self.push_assistant(reply);
        self.defer_last_call();
    }

    /// Keeps the one call of the reply that history ends with for later, as the model wrote it.
    pub(crate) fn defer_last_call(&mut self) {
        self.deferred = self.messages.last().and_then(|last| {
            let call = last.tool_uses().next()?;
            let (id, input) = (ToolUseId::new(call.id.as_ref()), Arc::from(call.input.to_owned()));
            Some(ToolCall { id, name: call.name.into_owned(), input, bad_input: None })
        });
    }

    /// Whether the last message is the assistant's (only a paused turn may be continued like that).
    pub(crate) fn ends_with_assistant(&self) -> bool {
        self.messages.last().is_some_and(|message| message.role == Role::Assistant)
    }

    /// Whether the model's last word would be a reaction to tool results.
    pub(crate) fn ends_with_results(&self) -> bool {
        self.messages
            .last()
            .is_some_and(|message| message.blocks.first().is_some_and(|block| block.kind() == BlockKind::ToolResult))
    }
}

/// A place to go back to: where a prompt begins.
pub(crate) struct PromptMark {
    messages: usize,
    blocks: usize,
    last_entry: Option<EntryId>,
    told_planning: bool,
}

fn call_ids(blocks: &[Block]) -> impl Iterator<Item = Box<str>> {
    blocks.iter().filter(|block| block.kind() == BlockKind::ToolUse).filter_map(Block::id).map(Box::from)
}
