//! Request bodies: raw JSON appended to one buffer, deterministic across processes.
//!
//! Keys come in a fixed order with `messages` last, and history blocks are copied, never re-serialised: apart from
//! cache markers, the body of a conversation's next request begins with the bytes of this one.

use bytes::Bytes;
use gimlet_proto::{
    Block, BlockKind, CacheTtl, Message, ModelRequest, SentOption, ThinkingDisplay, ToolChoice, ToolDef,
};
use gimlet_text::SendableImage;

use super::cache_markers;
use crate::json::push_string;

/// The `thinking` member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingField {
    Adaptive {
        /// Set where it differs from the model's default.
        display: Option<ThinkingDisplay>,
        /// Lets the server drop thinking that belongs to another prefix instead of refusing the request.
        drop_unbound: bool,
    },
    Enabled {
        budget: u64,
    },
    Disabled,
    BetweenTools,
}

/// Properties of a body beyond the request itself: what this model at this endpoint accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyPlan {
    pub(crate) model: String,
    pub(crate) max_tokens: u64,
    pub(crate) thinking: Option<ThinkingField>,
    pub(crate) effort: Option<String>,
    /// Token budget of the whole task, as stated to the model.
    pub(crate) task_budget: Option<u64>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) caching: bool,
    pub(crate) eager_input: bool,
    pub(crate) defer_loading: bool,
    /// Number of messages at the start without their thinking blocks.
    pub(crate) strip_thinking: usize,
    /// Maximum number of images that the model accepts.
    pub(crate) most_images: usize,
}

impl BodyPlan {
    /// Creates a plan without any optional field.
    pub fn plain(model: impl Into<String>, max_tokens: u64) -> Self {
        Self {
            model: model.into(),
            max_tokens,
            thinking: None,
            effort: None,
            task_budget: None,
            tool_choice: ToolChoice::Auto { parallel: true },
            caching: true,
            most_images: SendableImage::MOST,
            eager_input: true,
            defer_loading: true,
            strip_thinking: 0,
        }
    }
}

impl ThinkingField {
    /// Returns the field as sent, as far as it affects the cache.
    fn words(self) -> String {
        match self {
            ThinkingField::Adaptive { .. } => "adaptive".to_owned(),
            ThinkingField::Enabled { budget } => format!("{budget} tokens"),
            ThinkingField::Disabled => "disabled".to_owned(),
            ThinkingField::BetweenTools => "between tools".to_owned(),
        }
    }
}

impl BodyPlan {
    /// Returns the options that affect the cache besides system, tools and messages.
    pub(crate) fn options(&self, betas: Option<&str>) -> Vec<SentOption> {
        let unset = || "unset".to_owned();
        let left_out = match self.strip_thinking {
            0 => "none".to_owned(),
            messages => format!("of {messages} messages"),
        };
        vec![
            ("model", self.model.clone()),
            ("betas", betas.map_or_else(unset, ToOwned::to_owned)),
            ("effort", self.effort.clone().unwrap_or_else(unset)),
            ("thinking", self.thinking.map_or_else(unset, ThinkingField::words)),
            ("thinking left out", left_out),
            ("tool choice", format!("{:?}", self.tool_choice)),
            ("cache marks", self.caching.to_string()),
        ]
    }
}

/// Builds the body.
pub fn build_body(request: &ModelRequest, plan: &BodyPlan) -> Bytes {
    let ttl = if plan.caching { request.cache.ttl } else { None };
    let mut out = String::with_capacity(estimate(request));
    out.push_str(r#"{"model":"#);
    push_string(&mut out, &plan.model);
    out.push_str(r#","max_tokens":"#);
    out.push_str(&plan.max_tokens.to_string());
    let system_marked = push_system(&mut out, &request.system, ttl);
    push_tools(&mut out, &request.tools, plan, if system_marked { None } else { ttl });
    if !request.tools.is_empty() {
        push_tool_choice(&mut out, &plan.tool_choice);
    }
    if let Some(thinking) = plan.thinking {
        push_thinking(&mut out, thinking);
    }
    push_output_config(&mut out, plan);
    out.push_str(r#","stream":true,"messages":["#);
    push_messages(&mut out, request, plan, ttl);
    out.push_str("]}");
    Bytes::from(out)
}

/// Estimates the size: close to the final one and never much below it, so that the buffer hardly ever grows.
fn estimate(request: &ModelRequest) -> usize {
    let escaped = |text: &str| text.len() + text.len() / 16 + 64;
    let system: usize = request.system.iter().map(|text| escaped(text)).sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| escaped(&tool.description) + tool.input_schema.get().len() + tool.name.len() + 96)
        .sum();
    let messages: usize = request
        .messages
        .iter()
        .map(|message| 48 + message.blocks.iter().map(|block| block.json().len() + 1).sum::<usize>())
        .sum();
    system + tools + messages + 1024
}

/// Appends the system prompt. Returns true if it placed the marker of the static prefix, which covers the tools too.
fn push_system(out: &mut String, system: &[String], ttl: Option<CacheTtl>) -> bool {
    let Some(last) = system.iter().rposition(|text| !text.trim().is_empty()) else { return false };
    out.push_str(r#","system":["#);
    let mut first = true;
    for (at, text) in system.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        separate(out, &mut first);
        out.push_str(r#"{"type":"text","text":"#);
        push_string(out, text);
        if at == last
            && let Some(ttl) = ttl
        {
            out.push(',');
            out.push_str(cache_markers::marker(ttl));
        }
        out.push('}');
    }
    out.push(']');
    ttl.is_some()
}

fn push_tools(out: &mut String, tools: &[ToolDef], plan: &BodyPlan, ttl: Option<CacheTtl>) {
    if tools.is_empty() {
        return;
    }
    let deferred = |tool: &ToolDef| tool.defer_loading && plan.defer_loading;
    let marked = tools.iter().rposition(|tool| !deferred(tool));
    out.push_str(r#","tools":["#);
    let mut first = true;
    for (at, tool) in tools.iter().enumerate() {
        separate(out, &mut first);
        out.push_str(r#"{"name":"#);
        push_string(out, &tool.name);
        out.push_str(r#","description":"#);
        push_string(out, &tool.description);
        out.push_str(r#","input_schema":"#);
        out.push_str(tool.input_schema.get());
        if tool.eager_input && plan.eager_input {
            out.push_str(r#","eager_input_streaming":true"#);
        }
        if deferred(tool) {
            out.push_str(r#","defer_loading":true"#);
        }
        if marked == Some(at)
            && let Some(ttl) = ttl
        {
            out.push(',');
            out.push_str(cache_markers::marker(ttl));
        }
        out.push('}');
    }
    out.push(']');
}

fn push_tool_choice(out: &mut String, choice: &ToolChoice) {
    let (kind, parallel) = match choice {
        // The server's default is omitted: stating it would invalidate the message cache of older conversations.
        ToolChoice::Auto { parallel: true } => return,
        ToolChoice::Auto { parallel } => ("auto", *parallel),
        ToolChoice::Any { parallel } => ("any", *parallel),
        ToolChoice::Tool { parallel, .. } => ("tool", *parallel),
        ToolChoice::None => ("none", true),
    };
    out.push_str(r#","tool_choice":{"type":"#);
    push_string(out, kind);
    if let ToolChoice::Tool { name, .. } = choice {
        out.push_str(r#","name":"#);
        push_string(out, name);
    }
    if !parallel {
        out.push_str(r#","disable_parallel_tool_use":true"#);
    }
    out.push('}');
}

fn push_thinking(out: &mut String, thinking: ThinkingField) {
    out.push_str(r#","thinking":{"type":"#);
    match thinking {
        ThinkingField::Adaptive { display, drop_unbound } => {
            out.push_str(r#""adaptive""#);
            if let Some(display) = display {
                out.push_str(r#","display":"#);
                push_string(out, display.as_str());
            }
            if drop_unbound {
                out.push_str(r#","block_binding":{"prefix_mismatch_behavior":"drop_block"}"#);
            }
        }
        ThinkingField::Enabled { budget } => {
            out.push_str(r#""enabled","budget_tokens":"#);
            out.push_str(&budget.to_string());
        }
        ThinkingField::Disabled => out.push_str(r#""disabled""#),
        ThinkingField::BetweenTools => out.push_str(r#""between_tools""#),
    }
    out.push('}');
}

fn push_output_config(out: &mut String, plan: &BodyPlan) {
    if plan.effort.is_none() && plan.task_budget.is_none() {
        return;
    }
    out.push_str(r#","output_config":{"#);
    let mut first = true;
    if let Some(effort) = &plan.effort {
        separate(out, &mut first);
        out.push_str(r#""effort":"#);
        push_string(out, effort);
    }
    if let Some(total) = plan.task_budget {
        separate(out, &mut first);
        out.push_str(&format!(r#""task_budget":{{"type":"tokens","total":{total}}}"#));
    }
    out.push('}');
}

fn push_messages(out: &mut String, request: &ModelRequest, plan: &BodyPlan, ttl: Option<CacheTtl>) {
    let messages = request.messages_for(plan.most_images);
    let places = if ttl.is_some() { cache_markers::marked_blocks(messages, &request.cache) } else { Vec::new() };
    let marker = ttl.map(cache_markers::marker);
    let mut first = true;
    for (at, message) in messages.iter().enumerate() {
        let strip = at < plan.strip_thinking;
        if !message.blocks.iter().any(|block| is_sent(block, strip)) {
            continue;
        }
        separate(out, &mut first);
        push_message(out, message, strip, |block| if places.contains(&(at, block)) { marker } else { None });
    }
}

fn push_message(out: &mut String, message: &Message, strip: bool, marker: impl Fn(usize) -> Option<&'static str>) {
    out.push_str(r#"{"role":"#);
    push_string(out, message.role.as_str());
    out.push_str(r#","content":["#);
    let mut first = true;
    for (at, block) in message.blocks.iter().enumerate().filter(|(_, block)| is_sent(block, strip)) {
        separate(out, &mut first);
        match marker(at) {
            Some(marker) => cache_markers::push_marked(out, block.json(), marker),
            None => out.push_str(block.json()),
        }
    }
    out.push_str("]}");
}

fn is_sent(block: &Block, strip_thinking: bool) -> bool {
    !(strip_thinking && matches!(block.kind(), BlockKind::Thinking | BlockKind::RedactedThinking))
}

fn separate(out: &mut String, first: &mut bool) {
    if !*first {
        out.push(',');
    }
    *first = false;
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
