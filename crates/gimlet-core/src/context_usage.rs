//! Fill level of the context window. Sizes are recorded as the conversation grows, so that the usage is available at
//! any time, also during a turn, without reading the history.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gimlet_proto::{
    Block, BlockKind, ContextCategory, ContextFile, ContextKind, ContextMessages, ContextTool, ContextUsage,
    ModelFacts, Role, TokenUsage, ToolDef,
};
use gimlet_store::{ContextPartKind, ContextPartSource, SegmentContextPart};

use crate::compaction::CompactionPolicy;
use crate::conversation::PromptSegment;

/// Weight of an image in bytes of text: its own size is unrelated to its tokens.
const IMAGE: u64 = 6_000;
/// Approximate number of bytes of a document file per byte of its text.
const PACKED: u64 = 16;
/// Smallest number of bytes of a prompt by which bytes per token are measured.
const LEAST_MEASURED: u64 = 2_000;
/// Bytes per token that a count can mean.
const BYTES_PER_TOKEN: (f64, f64) = (0.5, 20.0);
/// Name prefix of server tools.
const SERVER_TOOL: &str = "mcp__";

/// Sizes of one conversation. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ContextGauge(Arc<Mutex<ContextSizes>>);

#[derive(Default)]
struct ContextSizes {
    system: u64,
    /// Name and size in bytes of each tool.
    tools: Vec<(String, u64)>,
    context: Vec<ContextPartSize>,
    /// Sizes of the messages in bytes.
    messages: ContextMessages,
    counted: Option<CountedUsage>,
    cached: Option<CachedRequest>,
    /// Model, and its measured number of bytes per token. It outlives a segment.
    measured: Option<(String, f64)>,
}

/// Size of a part of the context in front of the conversation.
struct ContextPartSize {
    kind: ContextPartKind,
    source: Option<ContextPartSource>,
    bytes: u64,
}

/// Last request that used the provider's cache.
struct CachedRequest {
    model: String,
    at: Instant,
}

/// Token count from the provider, with the number of bytes it covers.
#[derive(Clone, Copy)]
struct CountedUsage {
    usage: TokenUsage,
    tokens: u64,
    bytes: u64,
    /// Set if the reply is counted but not yet part of the conversation.
    awaits_reply: bool,
}

impl ContextSizes {
    fn bytes(&self) -> u64 {
        self.fixed_bytes() + self.message_bytes()
    }

    /// Returns the size of what stands in front of the messages.
    fn fixed_bytes(&self) -> u64 {
        let tools: u64 = self.tools.iter().map(|(_, bytes)| bytes).sum();
        let context: u64 = self.context.iter().map(|part| part.bytes).sum();
        self.system + tools + context
    }

    fn message_bytes(&self) -> u64 {
        let ContextMessages { user, assistant, tool_calls, tool_results } = self.messages;
        user + assistant + tool_calls + tool_results
    }

    /// Returns the bytes per token that were measured for this model, or else its usual ones.
    fn bytes_per_token(&self, facts: &ModelFacts) -> f64 {
        let measured = self.measured.as_ref().filter(|(model, _)| *model == facts.id);
        measured.map_or(facts.bytes_per_token, |(_, ratio)| *ratio)
    }

    fn estimate(&self, bytes: u64, facts: &ModelFacts) -> u64 {
        (bytes as f64 / self.bytes_per_token(facts)) as u64
    }

    /// Returns the total tokens: the last count, plus an estimate for later additions.
    fn tokens(&self, facts: &ModelFacts) -> u64 {
        let bytes = self.bytes();
        match self.counted {
            Some(counted) => counted.tokens + self.estimate(bytes.saturating_sub(counted.bytes), facts),
            None => self.estimate(bytes, facts),
        }
    }
}

impl ContextGauge {
    /// Begins a segment without messages.
    pub(crate) fn begin_segment(&self, prompt: &PromptSegment) {
        let measured = self.lock().measured.take();
        *self.lock() = ContextSizes {
            measured,
            system: prompt.system.iter().map(|text| text.len() as u64).sum(),
            tools: tool_sizes(&prompt.tools),
            context: part_sizes(prompt.context_parts()),
            ..ContextSizes::default()
        };
    }

    /// Records the context of a segment that opens.
    pub(crate) fn set_context(&self, parts: &[SegmentContextPart]) {
        self.lock().context = part_sizes(parts);
    }

    /// Records a new tool list. The next count applies to it.
    pub(crate) fn set_tools(&self, tools: &[ToolDef]) {
        self.lock().tools = tool_sizes(tools);
    }

    /// Records blocks added to the conversation.
    pub(crate) fn add_blocks(&self, role: Role, blocks: &[Block]) {
        let mut sizes = self.lock();
        let before = sizes.bytes();
        for block in blocks {
            let bytes = block_weight(block);
            let messages = &mut sizes.messages;
            *match (block.kind(), role) {
                (BlockKind::ToolUse, _) => &mut messages.tool_calls,
                (BlockKind::ToolResult, _) => &mut messages.tool_results,
                (_, Role::Assistant) => &mut messages.assistant,
                (_, Role::User) => &mut messages.user,
            } += bytes;
        }
        let added = sizes.bytes() - before;
        if let Some(counted) = sizes.counted.as_mut().filter(|counted| counted.awaits_reply && role == Role::Assistant)
        {
            counted.bytes += added;
            counted.awaits_reply = false;
        }
    }

    /// Records the provider's token count of a request and its reply. Servers that report no counts are ignored.
    pub(crate) fn record_usage(&self, model: &str, usage: &TokenUsage) {
        if usage.prompt_tokens() == 0 {
            return;
        }
        let mut sizes = self.lock();
        let in_cache = usage.cache_read_input_tokens + usage.cache_creation_input_tokens > 0;
        sizes.cached = in_cache.then(|| CachedRequest { model: model.to_owned(), at: Instant::now() });
        let bytes = sizes.bytes();
        let tokens = usage.prompt_tokens() + usage.output_tokens;
        if bytes >= LEAST_MEASURED {
            let ratio = (bytes as f64 / usage.prompt_tokens() as f64).clamp(BYTES_PER_TOKEN.0, BYTES_PER_TOKEN.1);
            sizes.measured = Some((model.to_owned(), ratio));
        }
        sizes.counted = Some(CountedUsage { usage: *usage, tokens, bytes, awaits_reply: true });
    }

    /// Returns the total tokens of the conversation.
    pub(crate) fn tokens(&self, facts: &ModelFacts) -> u64 {
        self.lock().tokens(facts)
    }

    /// Records that a server found the conversation longer than its window: it has at least this many tokens.
    pub(crate) fn record_refusal(&self, tokens: u64, facts: &ModelFacts) {
        let mut sizes = self.lock();
        let bytes = sizes.bytes();
        if sizes.tokens(facts) >= tokens {
            return;
        }
        let usage = sizes.counted.map(|counted| counted.usage).unwrap_or_default();
        sizes.counted = Some(CountedUsage { usage, tokens, bytes, awaits_reply: false });
        let ratio = (bytes as f64 / tokens.max(1) as f64).clamp(BYTES_PER_TOKEN.0, BYTES_PER_TOKEN.1);
        sizes.measured = Some((facts.id.clone(), ratio));
    }

    /// Returns the number of bytes per token, measured if there was a request.
    pub(crate) fn bytes_per_token(&self, facts: &ModelFacts) -> f64 {
        self.lock().bytes_per_token(facts)
    }

    /// Estimates the tokens of all messages.
    pub(crate) fn message_tokens(&self, facts: &ModelFacts) -> u64 {
        let sizes = self.lock();
        sizes.estimate(sizes.message_bytes(), facts)
    }

    /// Returns the tokens of the window that are left for messages.
    pub(crate) fn room_for_messages(&self, facts: &ModelFacts) -> u64 {
        let sizes = self.lock();
        facts.context_window.saturating_sub(sizes.estimate(sizes.fixed_bytes(), facts))
    }

    /// Estimates the tokens of blocks with the measured ratio.
    pub(crate) fn estimate_blocks(&self, blocks: &[Block], facts: &ModelFacts) -> u64 {
        self.lock().estimate(blocks.iter().map(block_weight).sum::<u64>(), facts)
    }

    /// Estimates the tokens of blocks.
    pub(crate) fn estimate_tokens(blocks: &[Block], facts: &ModelFacts) -> u64 {
        estimate_from_bytes(blocks.iter().map(block_weight).sum::<u64>(), facts)
    }

    /// Clears the messages and their counts.
    pub(crate) fn clear_messages(&self) {
        let mut sizes = self.lock();
        sizes.messages = ContextMessages::default();
        sizes.counted = None;
        sizes.cached = None;
    }

    /// Returns true if the conversation is still in the provider's cache for this model, given the lifetime of
    /// entries since their last use.
    pub(crate) fn is_cache_warm(&self, model: &str, life: Duration) -> bool {
        self.lock().cached.as_ref().is_some_and(|cached| cached.model == model && cached.at.elapsed() < life)
    }

    /// Returns the tokens of the conversation that are in the provider's cache for this model.
    pub(crate) fn cached_tokens(&self, model: &str, life: Duration) -> u64 {
        if !self.is_cache_warm(model, life) {
            return 0;
        }
        self.lock().counted.map_or(0, |counted| counted.usage.prompt_tokens())
    }

    /// Returns the current usage.
    pub(crate) fn current_usage(&self, facts: ModelFacts, policy: &CompactionPolicy) -> ContextUsage {
        let sizes = self.lock();
        let (bytes, total) = (sizes.bytes().max(1), sizes.tokens(&facts));
        let scaled =
            |part: u64| u64::try_from(u128::from(part) * u128::from(total) / u128::from(bytes)).unwrap_or(total);
        let tools: Vec<ContextTool> = sizes
            .tools
            .iter()
            .map(|(name, bytes)| ContextTool { name: name.clone(), tokens: scaled(*bytes) })
            .collect();
        let sum = |of_server: bool| {
            let part = tools.iter().filter(|tool| tool.name.starts_with(SERVER_TOOL) == of_server);
            part.map(|tool| tool.tokens).sum::<u64>()
        };
        let (system, own, server) = (scaled(sizes.system), sum(false), sum(true));
        let used = |name, tokens| ContextCategory { name, kind: ContextKind::Used, tokens };
        let part = |kind| sizes.context.iter().filter(move |part| part.kind == kind);
        let sum_of = |kind| scaled(part(kind).map(|part| part.bytes).sum());
        let mut categories = vec![
            used("System prompt", system),
            used("System tools", own),
            used("MCP tools", server),
            used("Custom agents", sum_of(ContextPartKind::Agents)),
            used("Memory files", sum_of(ContextPartKind::Memory)),
            used("Skills", sum_of(ContextPartKind::Skills)),
        ];
        // The rounding remainder goes to the part that is largest in a long conversation.
        let named: u64 = categories.iter().map(|category| category.tokens).sum();
        categories.push(used("Messages", total.saturating_sub(named)));
        categories.retain(|category| category.tokens > 0);
        let (window, limit) = (policy.window(&facts), policy.is_automatic().then(|| policy.limit(&facts)));
        let buffer = limit.map_or(0, |limit| window - limit.max(total).min(window));
        let free = window.saturating_sub(total) - buffer;
        categories.push(ContextCategory { name: "Free space", kind: ContextKind::Free, tokens: free });
        if buffer > 0 {
            categories.push(ContextCategory { name: "Compaction buffer", kind: ContextKind::Buffer, tokens: buffer });
        }
        let ContextMessages { user, assistant, tool_calls, tool_results } = sizes.messages;
        ContextUsage {
            model: facts.id,
            max_tokens: window,
            model_window: facts.context_window,
            compaction_limit: limit,
            total_tokens: total,
            categories,
            tools,
            memory_files: part(ContextPartKind::Memory)
                .filter_map(|part| {
                    let ContextPartSource { path, scope, .. } = part.source.clone()?;
                    Some(ContextFile { path, scope, tokens: scaled(part.bytes) })
                })
                .collect(),
            messages: ContextMessages {
                user: scaled(user),
                assistant: scaled(assistant),
                tool_calls: scaled(tool_calls),
                tool_results: scaled(tool_results),
            },
            last_request: sizes.counted.map(|counted| counted.usage),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ContextSizes> {
        // Sums only: after a poisoned lock they are at worst slightly off.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Estimates the tokens of a number of bytes.
fn estimate_from_bytes(bytes: u64, facts: &ModelFacts) -> u64 {
    (bytes as f64 / facts.bytes_per_token) as u64
}

/// Returns the weight of a block in bytes of text.
fn block_weight(block: &Block) -> u64 {
    let bytes = block.json().len() as u64;
    match block.kind() {
        BlockKind::Image => IMAGE,
        // Mostly a file in base64, whose pages count rather than its bytes.
        BlockKind::Document if block.json().contains("\"base64\"") => bytes / PACKED,
        _ => bytes,
    }
}

fn part_sizes(parts: &[SegmentContextPart]) -> Vec<ContextPartSize> {
    let size = |part: &SegmentContextPart| ContextPartSize {
        kind: part.kind,
        source: part.source.clone(),
        bytes: part.text.len() as u64,
    };
    parts.iter().map(size).collect()
}

/// Returns the name and size in bytes of each tool.
fn tool_sizes(tools: &[ToolDef]) -> Vec<(String, u64)> {
    let size = |tool: &ToolDef| (tool.name.len() + tool.description.len() + tool.input_schema.get().len()) as u64;
    tools.iter().map(|tool| (tool.name.clone(), size(tool))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> ModelFacts {
        ModelFacts {
            id: "m".into(),
            context_window: 10_000,
            max_output_tokens: 1,
            price: None,
            edits_unread: false,
            image_side: 1568,
            bytes_per_token: 4.0,
            min_cache_tokens: 1_024,
            known: false,
        }
    }

    #[test]
    fn figures_add_up_and_follow_what_the_provider_counted() {
        let gauge = ContextGauge::default();
        let source = ContextPartSource {
            path: "/p/CLAUDE.md".into(),
            scope: "Project".into(),
            reason: "session_start".into(),
            ..ContextPartSource::default()
        };
        let part = SegmentContextPart::new(ContextPartKind::Memory, "m".repeat(400)).with_source(source);
        gauge.begin_segment(&PromptSegment {
            system: Arc::from(["x".repeat(400)]),
            tools: Arc::default(),
            context: Some(Arc::from([part, SegmentContextPart::new(ContextPartKind::Skills, "s".repeat(40))])),
        });
        gauge.add_blocks(Role::User, &[Block::text(&"y".repeat(1_000))]);
        gauge.record_usage("m", &TokenUsage::default());
        let rough = gauge.current_usage(facts(), &CompactionPolicy::default());
        assert!(rough.total_tokens >= 450 && rough.last_request.is_none(), "{rough:?}");
        let named = |name| rough.categories.iter().find(|category| category.name == name).unwrap().tokens;
        // What the parts lose by rounding is added to the last category.
        for (name, tokens) in [("System prompt", 100), ("Memory files", 100), ("Skills", 10)] {
            assert!(named(name).abs_diff(tokens) <= 1, "{rough:?}");
        }
        let file = &rough.memory_files[0];
        assert_eq!((file.path.as_str(), file.scope.as_str()), ("/p/CLAUDE.md", "Project"));
        assert!(file.tokens.abs_diff(100) <= 1, "{rough:?}");
        let finer = gauge.current_usage(ModelFacts { bytes_per_token: 3.5, ..facts() }, &CompactionPolicy::default());
        assert!(finer.total_tokens.abs_diff(rough.total_tokens * 8 / 7) <= 1, "{finer:?}");
        gauge.record_usage("m", &TokenUsage { input_tokens: 1_000, output_tokens: 20, ..TokenUsage::default() });
        gauge.add_blocks(Role::User, &[Block::text(&"z".repeat(4_000))]);
        let usage = gauge.current_usage(facts(), &CompactionPolicy::default());
        assert!((2_020..2_040).contains(&usage.total_tokens), "{usage:?}");
        let used = usage.categories.iter().filter(|category| category.kind == ContextKind::Used);
        assert_eq!(used.map(|category| category.tokens).sum::<u64>(), usage.total_tokens);
        let rest: Vec<_> = usage.categories.iter().filter(|category| category.kind != ContextKind::Used).collect();
        assert_eq!(rest.iter().map(|part| part.tokens).sum::<u64>(), 10_000 - usage.total_tokens);
        assert_eq!((rest[1].kind, rest[1].tokens), (ContextKind::Buffer, 2_500), "a quarter is left for a summary");
        assert!(usage.messages.user > 1_500 && usage.messages.assistant == 0);
    }

    #[test]
    fn a_cache_is_warm_for_the_model_that_used_it_and_for_as_long_as_it_lives() {
        let (gauge, life) = (ContextGauge::default(), Duration::from_secs(300));
        gauge.record_usage("m", &TokenUsage { input_tokens: 1_000, ..TokenUsage::default() });
        assert!(!gauge.is_cache_warm("m", life), "nothing was cached");
        gauge.record_usage("m", &TokenUsage { cache_creation_input_tokens: 1_000, ..TokenUsage::default() });
        assert!(
            gauge.is_cache_warm("m", life)
                && !gauge.is_cache_warm("n", life)
                && !gauge.is_cache_warm("m", Duration::ZERO)
        );
        gauge.clear_messages();
        assert!(!gauge.is_cache_warm("m", life));
    }
}
