//! Detection of misses in the provider's cache for the beginning of a conversation, and of the change that caused
//! them.
//!
//! The parts of a request are shared values, so the last request is kept by reference: nothing is copied or hashed,
//! and nothing is compared until the provider reports a miss.

use std::sync::Arc;
use std::time::Instant;

use gimlet_proto::{CacheBreak, Message, ReplyStart, SentOption, ToolDef};

/// Cache history of one conversation.
#[derive(Debug, Default)]
pub(super) struct CacheWatch {
    last: Option<SentPrefix>,
    /// Set if the provider has a cache at all.
    is_used: bool,
}

/// Parts of a request that matter for the cache.
#[derive(Debug)]
pub(super) struct SentPrefix {
    system: Arc<[String]>,
    tools: Arc<[ToolDef]>,
    messages: Vec<Arc<Message>>,
    options: Vec<SentOption>,
    at: Instant,
}

impl SentPrefix {
    pub(super) fn new(system: &Arc<[String]>, tools: &Arc<[ToolDef]>, messages: &[Arc<Message>]) -> Self {
        let (system, tools, messages) = (system.clone(), tools.clone(), messages.to_vec());
        Self { system, tools, messages, options: Vec::new(), at: Instant::now() }
    }

    /// Returns the parts of `before` with which this request does not begin.
    fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for (name, value) in &self.options {
            let earlier = before.options.iter().find(|(earlier, _)| earlier == name).map(|(_, value)| value);
            if let Some(earlier) = earlier.filter(|earlier| *earlier != value) {
                changes.push(format!("{name} ({earlier}, now {value})"));
            }
        }
        if self.system != before.system {
            changes.push("system prompt".to_owned());
        }
        if self.tools != before.tools {
            changes.push(format!("tools ({})", differing_tools(&before.tools, &self.tools).join(", ")));
        }
        let same = |(before, now): &(&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(before, now) || before == now;
        let kept = before.messages.iter().zip(&self.messages).take_while(same).count();
        if kept < before.messages.len() {
            changes.push(format!("messages from the {}. of {} on", kept + 1, before.messages.len()));
        }
        changes
    }
}

/// Returns the removed, new or changed tools; all of them if only their order changed.
fn differing_tools<'a>(before: &'a [ToolDef], now: &'a [ToolDef]) -> Vec<&'a str> {
    let gone = before.iter().filter(|tool| now.iter().all(|other| other.name != tool.name));
    let new = now.iter().filter(|tool| !before.contains(tool));
    let names: Vec<&str> = gone.chain(new).map(|tool| tool.name.as_str()).collect();
    if names.is_empty() { now.iter().map(|tool| tool.name.as_str()).collect() } else { names }
}

impl CacheWatch {
    /// Records a request that is being answered. Returns the changes if the cache missed its beginning; a prompt of
    /// `shortest` tokens or fewer may not be cached at all.
    pub(super) fn record_request(&mut self, sent: SentPrefix, start: &ReplyStart, shortest: u64) -> Option<CacheBreak> {
        let sent = SentPrefix { options: start.options.clone(), ..sent };
        let usage = &start.usage;
        let is_missed = usage.cache_read_input_tokens == 0 && usage.prompt_tokens() > shortest && self.is_used;
        self.is_used |= usage.cache_read_input_tokens + usage.cache_creation_input_tokens > 0;
        let broken = match &self.last {
            Some(before) if is_missed => Some(CacheBreak {
                changed: sent.changes_since(before),
                idle_ms: u64::try_from(sent.at.duration_since(before.at).as_millis()).unwrap_or(u64::MAX),
            }),
            _ => None,
        };
        self.last = Some(sent);
        broken
    }
}

#[cfg(test)]
mod tests {
    use gimlet_proto::{Block, TokenUsage};
    use serde_json::value::RawValue;

    use super::*;

    /// System prompt, tools, messages, options, and the expected report.
    type CacheBreakCase<'a> = (&'a str, &'a [(&'a str, &'a str)], Vec<Arc<Message>>, &'a [SentOption], &'a [&'a str]);

    fn start(read: u64, options: &[SentOption]) -> ReplyStart {
        let usage =
            TokenUsage { cache_read_input_tokens: read, cache_creation_input_tokens: 5_000, ..TokenUsage::default() };
        ReplyStart { usage, options: options.to_vec(), ..ReplyStart::default() }
    }

    const SHORTEST: u64 = 512;

    /// Returns a watch after the first request of every case: the cache then holds it.
    fn watched() -> (CacheWatch, [Arc<Message>; 2], Vec<SentOption>) {
        let messages = ["a", "b"].map(message);
        let options = vec![("model", "m".to_owned()), ("effort", "unset".to_owned())];
        let mut watch = CacheWatch::default();
        let sent = SentPrefix::new(&system("s"), &tools(&[("Read", "r"), ("Edit", "e")]), &messages);
        assert_eq!(
            watch.record_request(sent, &start(0, &options), SHORTEST),
            None,
            "nothing was cached before the first request"
        );
        (watch, messages, options)
    }

    fn message(text: &str) -> Arc<Message> {
        Arc::new(Message::user(vec![Block::text(text)]))
    }

    fn system(text: &str) -> Arc<[String]> {
        Arc::from([text.to_owned()])
    }

    fn tools(tools: &[(&str, &str)]) -> Arc<[ToolDef]> {
        let schema = || RawValue::from_string("{}".into()).unwrap();
        let tool = |(name, description): &(&str, &str)| ToolDef {
            name: (*name).into(),
            description: (*description).into(),
            input_schema: schema(),
            eager_input: false,
            defer_loading: false,
        };
        tools.iter().map(tool).collect()
    }

    #[test]
    fn a_break_names_the_part_of_the_prefix_that_changed() {
        let same: &[(&str, &str)] = &[("Read", "r"), ("Edit", "e")];
        let effort = [("model", "m".to_owned()), ("effort", "high".to_owned())];
        let (_, [a, b], options) = watched();
        let both = || vec![a.clone(), b.clone()];
        let cases: [CacheBreakCase<'_>; 8] = [
            ("s", same, vec![a.clone(), b.clone(), message("c")], &options, &[]),
            ("s", same, vec![message("a"), message("b")], &options, &[]),
            ("t", same, both(), &options, &["system prompt"]),
            ("s", &[("Read", "x"), ("Glob", "g")], both(), &options, &["tools (Edit, Read, Glob)"]),
            ("s", &[("Edit", "e"), ("Read", "r")], both(), &options, &["tools (Edit, Read)"]),
            ("s", same, vec![a.clone(), message("x")], &options, &["messages from the 2. of 2 on"]),
            ("s", same, vec![a.clone()], &options, &["messages from the 2. of 2 on"]),
            ("s", same, both(), &effort, &["effort (unset, now high)"]),
        ];
        for (prompt, offered, sent, options, expected) in cases {
            let (mut watch, ..) = watched();
            let sent = SentPrefix::new(&system(prompt), &tools(offered), &sent);
            let broken = watch.record_request(sent, &start(0, options), SHORTEST).unwrap();
            assert_eq!(broken.changed, expected);
        }
    }

    #[test]
    fn a_hit_a_short_prompt_and_a_provider_without_a_cache_are_no_breaks() {
        let (mut watch, messages, options) = watched();
        let sent = || SentPrefix::new(&system("other"), &tools(&[]), &messages);
        let uncached = |input_tokens| {
            let usage = TokenUsage { input_tokens, ..TokenUsage::default() };
            ReplyStart { usage, ..ReplyStart::default() }
        };
        assert_eq!(watch.record_request(sent(), &start(1, &options), SHORTEST), None);
        assert_eq!(watch.record_request(sent(), &uncached(SHORTEST), SHORTEST), None);
        assert!(
            watch.record_request(sent(), &uncached(SHORTEST + 1), SHORTEST).is_some(),
            "long enough for this model"
        );
        let mut watch = CacheWatch::default();
        let mut none = || watch.record_request(sent(), &uncached(9_000), SHORTEST);
        assert_eq!([none(), none()], [None, None]);
    }
}
