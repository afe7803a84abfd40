//! One conversation: its record on disk, its usage, and its current segment.

mod cache_watch;
mod image_limit;
mod message_history;
mod payload_budget;
mod prompt_segment;

use std::sync::Arc;

use gimlet_proto::{
    Block, CacheBreak, CachePlan, CacheTtl, EntryId, Message, ModelFacts, ReplyStart, ToolDef, ToolUseId,
};

use crate::agents::AnnouncedAgents;
use crate::call::ToolCall;
use crate::context::with_compacted_tools;
use crate::context_usage::ContextGauge;
use crate::record::ConversationRecord;
use crate::repeated_failures::RepeatedFailures;
use crate::segment_context::DeliveredContext;
use crate::usage_ledger::UsageLedger;
use gimlet_store::SegmentContextPart;
pub(crate) use message_history::MessageHistory;
pub(crate) use payload_budget::PayloadBudget;
pub use prompt_segment::PromptSegment;

/// Main conversation or that of a subagent. Only its turn changes it.
pub(crate) struct Conversation {
    pub(crate) record: ConversationRecord,
    pub(crate) ledger: UsageLedger,
    pub(crate) cache_ttl: Option<CacheTtl>,
    pub(crate) segment: ConversationSegment,
    pub(crate) opening: ConversationOpening,
    /// Call deferred by a hook; the conversation ends with it, and it has no result.
    pub(crate) deferred: Option<ToolCall>,
    /// The user's own messages, the oldest first; a compaction keeps the newest.
    pub(crate) user_words: Vec<String>,
}

/// Stretch of a conversation with one frozen prompt: everything that begins anew with the next segment.
pub(crate) struct ConversationSegment {
    /// System prompt and tools, sent with every request. Only the tools can change, which ends the cached prefix.
    pub(crate) prompt: PromptSegment,
    /// Tools that the segment began with, as they are recorded.
    frozen_tools: Arc<[ToolDef]>,
    /// Message in front of the history.
    context_message: Option<Arc<Message>>,
    /// Parts in front of the history and in it.
    delivered: Arc<DeliveredContext>,
    pub(crate) history: MessageHistory,
    /// Set if the model's last notice on planning was that plan mode is on.
    pub(crate) announced_planning: bool,
    /// Agent kinds that the model knows of, as last compared.
    pub(crate) announced_agents: AnnouncedAgents,
    /// Texts that are sent once and have been sent.
    sent_once: Vec<String>,
    /// Number of prompts since it began, in a segment with an output style.
    pub(crate) prompts_in_style: u32,
    /// Calls repeated without effect.
    pub(crate) repeats: RepeatedFailures,
    /// Tools that are offered because the conversation was compacted in this run.
    compacted_tools: Arc<[ToolDef]>,
}

/// What is added before the next prompt.
#[derive(Default)]
pub(crate) struct ConversationOpening {
    /// Texts from hooks and servers.
    pub(crate) texts: Vec<String>,
    /// Prompt of a hook or of the agent that the main conversation runs as.
    pub(crate) prompt: Option<String>,
}

impl ConversationSegment {
    /// Creates a segment that begins with these messages, all of them sent before. The gauge, which others may read,
    /// begins anew.
    pub(crate) fn new(prompt: PromptSegment, messages: Vec<Arc<Message>>, gauge: ContextGauge) -> Self {
        gauge.begin_segment(&prompt);
        Self {
            frozen_tools: prompt.tools.clone(),
            context_message: prompt.context_message(),
            delivered: Arc::new(DeliveredContext::new(prompt.context_parts().to_vec())),
            history: MessageHistory::new(messages, gauge),
            prompt,
            announced_planning: false,
            announced_agents: AnnouncedAgents::default(),
            sent_once: Vec::new(),
            prompts_in_style: 0,
            repeats: RepeatedFailures::default(),
            compacted_tools: Arc::default(),
        }
    }

    /// Returns true if the context is known.
    pub(crate) fn is_open(&self) -> bool {
        self.prompt.context.is_some()
    }

    /// Opens the segment with its context.
    pub(crate) fn open(&mut self, parts: Vec<SegmentContextPart>) {
        self.delivered = Arc::new(DeliveredContext::new(parts.clone()));
        self.prompt.context = Some(parts.into());
        self.context_message = self.prompt.context_message();
        self.history.gauge.set_context(self.prompt.context_parts());
    }

    /// Returns the parts of context that the conversation has.
    pub(crate) fn delivered(&self) -> &Arc<DeliveredContext> {
        &self.delivered
    }

    /// Records that a part joined the conversation.
    pub(crate) fn note_delivered(&mut self, part: SegmentContextPart) {
        Arc::make_mut(&mut self.delivered).push(part);
    }

    /// Replaces the list of tools if it differs, which ends the cached prefix.
    pub(crate) fn set_tools(&mut self, tools: Arc<[ToolDef]>) {
        let tools = with_compacted_tools(&tools, &self.compacted_tools);
        if self.prompt.tools != tools {
            self.history.gauge.set_tools(&tools);
            self.prompt.tools = tools;
        }
    }

    /// Records a request that is being answered. Returns what changed if the provider's cache missed it.
    pub(crate) fn detect_cache_break(&mut self, start: &ReplyStart, facts: &ModelFacts) -> Option<CacheBreak> {
        let messages = self.with_context(self.history.messages());
        self.history.detect_cache_break(&self.prompt, &messages, start, facts)
    }

    /// Returns the messages of a request: the context, then the history or a view of it.
    pub(crate) fn with_context(&self, history: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        match &self.context_message {
            None => history,
            Some(context) => std::iter::once(context.clone()).chain(history).collect(),
        }
    }

    /// Returns the cache breakpoints of a request, and marks the history as sent. The part shared by all turns of a
    /// session ends with the context, or else with the environment facts; a subagent without context has too few turns
    /// for a breakpoint there.
    fn plan_cache(&mut self, ttl: Option<CacheTtl>, is_subagent: bool) -> CachePlan {
        let previous_len = self.history.mark_sent();
        self.cache_plan(ttl, is_subagent, previous_len)
    }

    fn cache_plan(&self, ttl: Option<CacheTtl>, is_subagent: bool, previous_len: Option<usize>) -> CachePlan {
        match &self.context_message {
            None => CachePlan { ttl, context: if is_subagent { None } else { Some((0, 0)) }, previous_len },
            Some(context) => CachePlan {
                ttl,
                context: context.blocks.len().checked_sub(1).map(|last| (0, last)),
                previous_len: previous_len.map(|messages| messages + 1),
            },
        }
    }
}

impl Conversation {
    pub(crate) fn new(
        record: ConversationRecord,
        segment: ConversationSegment,
        ledger: UsageLedger,
        cache_ttl: Option<CacheTtl>,
    ) -> Self {
        let opening = ConversationOpening::default();
        Self { record, ledger, cache_ttl, segment, opening, deferred: None, user_words: Vec::new() }
    }

    pub(crate) fn history(&self) -> &MessageHistory {
        &self.segment.history
    }

    pub(crate) fn history_mut(&mut self) -> &mut MessageHistory {
        &mut self.segment.history
    }

    /// Returns the cache breakpoints of a request, and marks the history as sent.
    pub(crate) fn plan_cache(&mut self, is_subagent: bool) -> CachePlan {
        self.segment.plan_cache(self.cache_ttl, is_subagent)
    }

    /// Records the frozen prompt of the open segment.
    pub(crate) fn record_frozen_prompt(&mut self) {
        let segment = &self.segment;
        let tools = crate::context::tools_to_json(&segment.frozen_tools);
        let transcript = self.record.transcript();
        transcript.append_frozen_prefix(&segment.prompt.system, &tools, segment.prompt.context_parts());
    }

    /// Returns the cache breakpoints of a request that does not become part of the history.
    pub(crate) fn cache_plan_so_far(&self, is_subagent: bool) -> CachePlan {
        self.segment.cache_plan(self.cache_ttl, is_subagent, self.segment.history.cached_len())
    }

    /// Begins a segment with this message in place of the history. What was counted begins anew with it. Returns the
    /// texts that are sent once in a segment, in the order in which they were.
    pub(crate) fn begin_segment(
        &mut self,
        prompt: PromptSegment,
        compacted_tools: Arc<[ToolDef]>,
        blocks: Vec<Block>,
    ) -> Vec<String> {
        let gauge = self.history().gauge.clone();
        let mut segment = ConversationSegment::new(prompt, Vec::new(), gauge);
        segment.history.keep_call_ids(&mut self.segment.history);
        segment.history.push_user(blocks);
        segment.frozen_tools = with_compacted_tools(&self.segment.frozen_tools, &compacted_tools);
        segment.compacted_tools = compacted_tools;
        segment.sent_once.clone_from(&self.segment.sent_once);
        self.segment = segment;
        self.segment.sent_once.clone()
    }

    /// Adds a text before the next prompt, unless the model got it before, also in an earlier run.
    pub(crate) fn add_opening_once(&mut self, text: String) {
        if self.segment.sent_once.contains(&text) {
            return;
        }
        if !self.history().contains_user_text(&text) {
            self.opening.texts.push(text.clone());
        }
        self.segment.sent_once.push(text);
    }

    /// Marks the state of the conversation before a prompt.
    pub(crate) fn mark_prompt(&mut self) -> PromptMark {
        let messages = &self.segment.history.messages;
        PromptMark {
            messages: messages.len(),
            blocks: messages.last().map_or(0, |last| last.blocks.len()),
            last_entry: self.record.transcript().last_entry().cloned(),
            announced_planning: self.segment.announced_planning,
            delivered: self.segment.delivered.len(),
        }
    }

    /// Removes everything added since the mark, unless the model has answered. Returns true if it was removed.
    pub(crate) fn withdraw_prompt(&mut self, mark: PromptMark) -> bool {
        if !self.history_mut().truncate_to(&mark) {
            return false;
        }
        self.segment.announced_planning = mark.announced_planning;
        Arc::make_mut(&mut self.segment.delivered).truncate(mark.delivered);
        self.segment.announced_agents = AnnouncedAgents::default();
        self.record.transcript().rewind_to(mark.last_entry);
        true
    }

    /// Restores a reply of an earlier run whose only call is deferred.
    pub(crate) fn restore_deferred(&mut self, reply: Vec<Block>) {
        self.history_mut().push_assistant(reply);
        self.defer_last_call();
    }

    /// Defers the only call of the reply that ends the history, as the model wrote it.
    pub(crate) fn defer_last_call(&mut self) {
        self.deferred = self.history().messages.last().and_then(|last| {
            let call = last.tool_uses().next()?;
            let (id, input) = (ToolUseId::new(call.id.as_ref()), Arc::from(call.input.to_owned()));
            let (name, reply) = (call.name.into_owned(), last.blocks.as_slice().into());
            Some(ToolCall { id, name, input, bad_input: None, reply })
        });
    }
}

/// Position in the conversation where a prompt begins, for going back to it.
pub(crate) struct PromptMark {
    messages: usize,
    blocks: usize,
    last_entry: Option<EntryId>,
    announced_planning: bool,
    /// Number of delivered parts.
    delivered: usize,
}
