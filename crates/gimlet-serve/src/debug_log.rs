//! The debug log: one line per session event in a file, for diagnosing what happened and when.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use gimlet_proto::{AgentPath, CompactionView, Event, EventBody, EventReader};

use crate::sanitise;

/// Filter for the kinds of lines to log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFilter {
    only: Vec<String>,
    without: Vec<String>,
}

impl LogFilter {
    /// Parses `api,tool` or `!tool`; an empty text selects everything.
    pub fn parse(text: &str) -> Self {
        let mut filter = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.strip_prefix('!') {
                Some(word) => filter.without.push(word.to_owned()),
                None => filter.only.push(word.to_owned()),
            }
        }
        filter
    }

    fn accepts(&self, category: &str) -> bool {
        let listed = self.only.is_empty() || self.only.iter().any(|word| word == category);
        listed && !self.without.iter().any(|word| word == category)
    }
}

/// Function that masks likely secrets in a text.
pub type SecretMask = fn(&str) -> Cow<'_, str>;

/// Writes events until the session closes, masking secrets with `mask` because users attach logs to bug reports. A
/// write error ends the log, never the session.
pub async fn write_log(
    mut events: EventReader,
    filter: LogFilter,
    mask: SecretMask,
    mut file: impl Write,
) -> io::Result<()> {
    let mut caches = AgentCacheTotals::default();
    while let Some(event) = events.next().await {
        let cache = caches.describe_cache_usage(&event).map(|text| ("api", text));
        for (category, text) in
            describe_event(&event).into_iter().chain(cache).filter(|(category, _)| filter.accepts(category))
        {
            let text = mask(&text).replace('\n', "\\n");
            writeln!(file, "{} [{category}] {}", event.at, sanitise(&text))?;
            file.flush()?;
        }
    }
    Ok(())
}

/// Prompt cache totals of each conversation so far.
#[derive(Default)]
struct AgentCacheTotals(HashMap<AgentPath, CacheTotals>);

#[derive(Default)]
struct CacheTotals {
    message: String,
    /// Tokens read from the cache since the first request.
    read: u64,
    /// All tokens sent since the first request.
    sent: u64,
}

impl AgentCacheTotals {
    /// Returns a line about the cached part of the prompt when the first block of a reply arrives.
    fn describe_cache_usage(&mut self, event: &Event) -> Option<String> {
        let EventBody::Block(block) = &event.body else { return None };
        let (usage, prompt) = (&block.usage, block.usage.prompt_tokens());
        let is_first = !self.0.contains_key(&event.agent);
        let cache = self.0.entry(event.agent.clone()).or_default();
        if prompt == 0 || cache.message == block.message_id {
            return None;
        }
        cache.message.clone_from(&block.message_id);
        let read = usage.cache_read_input_tokens;
        let mut text = format!("cache: {read} of {prompt} tokens read ({} %)", read * 100 / prompt);
        if !is_first {
            cache.read += read;
            cache.sent += prompt;
            text.push_str(&format!(", {} % since the first request", cache.read * 100 / cache.sent));
        }
        Some(text)
    }
}

fn describe_compaction(view: &CompactionView) -> String {
    match view {
        CompactionView::Started(trigger) => format!("compaction begins ({})", trigger.as_str()),
        CompactionView::Finished(segment) => format!(
            "compaction done: {} tokens before, {} after, {} ms",
            segment.pre_tokens, segment.post_tokens, segment.duration_ms
        ),
        CompactionView::Failed(reason) => format!("compaction failed: {reason}"),
    }
}

fn describe_event(event: &Event) -> Option<(&'static str, String)> {
    Some(match &event.body {
        EventBody::TurnStarting(opened) => {
            ("session", format!("turn in {} with {} ({})", opened.cwd.display(), opened.model, opened.mode))
        }
        EventBody::Prompt(prompt) => ("session", format!("prompt {} ({} blocks)", prompt.uuid, prompt.blocks.len())),
        EventBody::PromptOutcome { prompt, outcome: fate } => ("session", format!("prompt {prompt} {fate:?}")),
        EventBody::Requesting => ("api", "request".to_owned()),
        EventBody::ReplyDiscarded => ("api", "reply discarded".to_owned()),
        EventBody::Block(block) => ("api", format!("block {:?} of {}", block.block.kind(), block.message_id)),
        EventBody::Retry(retry) => {
            ("api", format!("retry {} in {} ms: {}", retry.attempt, retry.delay_ms, retry.error))
        }
        EventBody::RateLimits(limits) => {
            let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
            ("api", format!("limits: {}", limits.join("; ")))
        }
        EventBody::CacheBreak(broken) => {
            let what = match broken.changed.as_slice() {
                [] => "nothing changed; the entry ran out or was dropped".to_owned(),
                changed => format!("changed: {}", changed.join("; ")),
            };
            ("api", format!("cache break, {} s after the last request: {what}", broken.idle_ms / 1000))
        }
        EventBody::ReplyAnomalies(what) => ("api", format!("odd reply: {what}")),
        EventBody::Tool(tool) => ("tool", format!("{} {}({}) {:?}", tool.call, tool.name, tool.summary, tool.phase)),
        EventBody::ToolFinished(finished) => ("tool", format!("{} result {}", finished.call, finished.uuid)),
        EventBody::Denied(denial) => ("permission", format!("{} refused ({})", denial.call, denial.origin)),
        EventBody::Ask(ask) => ("permission", format!("ask {:?}", ask.id)),
        EventBody::AskClosed(id) => ("permission", format!("ask {id:?} closed")),
        EventBody::Task(task) => ("task", format!("{} {:?}", task.id, task.state)),
        EventBody::Hook(hook) => ("hook", format!("{} {} {:?}", hook.id, hook.name, hook.phase)),
        EventBody::Compaction(view) => ("session", describe_compaction(view)),
        EventBody::CommandReply(reply) => ("session", format!("/{} gave {} bytes", reply.name, reply.text.len())),
        EventBody::UnknownCommand { name, .. } => ("session", format!("no command /{name}")),
        EventBody::ModeChanged(mode) => ("permission", format!("mode {mode}")),
        EventBody::Notice(notice) => ("notice", notice.text.clone()),
        EventBody::TurnEnded(report) => ("session", format!("turn ended: {:?}, usage {:?}", report.end, report.usage)),
        EventBody::Closed => ("session", "closed".to_owned()),
        EventBody::BlockStarted { .. } | EventBody::Delta(_) | EventBody::Wire(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::LogFilter;

    #[test]
    fn filters_name_or_exclude_categories() {
        assert!(LogFilter::parse("").accepts("api"));
        assert!(LogFilter::parse("api,tool").accepts("tool") && !LogFilter::parse("api").accepts("tool"));
        assert!(!LogFilter::parse("!tool").accepts("tool") && LogFilter::parse("!tool").accepts("api"));
    }
}
