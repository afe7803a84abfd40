//! The debug log: every event of a session as one line in a file, for finding out what happened and when.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use gimlet_proto::{AgentPath, Body, Event, Reader};

use crate::sanitise;

/// Which kinds of lines are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    only: Vec<String>,
    without: Vec<String>,
}

impl Filter {
    /// Reads `api,tool` or `!tool`; empty means everything.
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

    fn wants(&self, category: &str) -> bool {
        let listed = self.only.is_empty() || self.only.iter().any(|word| word == category);
        listed && !self.without.iter().any(|word| word == category)
    }
}

/// Takes what looks like a secret out of a text.
pub type Mask = fn(&str) -> Cow<'_, str>;

/// Writes events until the session closes, without what `mask` takes out: people attach logs to reports. Write errors
/// end the log, never the session.
pub async fn write_log(mut events: Reader, filter: Filter, mask: Mask, mut file: impl Write) -> io::Result<()> {
    let mut caches = Caches::default();
    while let Some(event) = events.next().await {
        let cache = caches.describe(&event).map(|text| ("api", text));
        for (category, text) in describe(&event).into_iter().chain(cache).filter(|(category, _)| filter.wants(category))
        {
            let text = mask(&text).replace('\n', "\\n");
            writeln!(file, "{} [{category}] {}", event.at, sanitise(&text))?;
            file.flush()?;
        }
    }
    Ok(())
}

/// What the prompt cache did for each conversation so far.
#[derive(Default)]
struct Caches(HashMap<AgentPath, Cache>);

#[derive(Default)]
struct Cache {
    message: String,
    /// Tokens read from the cache, and all tokens sent, since the first request.
    read: u64,
    sent: u64,
}

impl Caches {
    /// A line for each reply, when its first block arrives: what of its prompt was cached.
    fn describe(&mut self, event: &Event) -> Option<String> {
        let Body::Block(block) = &event.body else { return None };
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

fn describe(event: &Event) -> Option<(&'static str, String)> {
    Some(match &event.body {
        Body::Opened(opened) => {
            ("session", format!("turn in {} with {} ({})", opened.cwd.display(), opened.model, opened.mode))
        }
        Body::Prompt(prompt) => ("session", format!("prompt {} ({} blocks)", prompt.uuid, prompt.blocks.len())),
        Body::PromptFate { prompt, fate } => ("session", format!("prompt {prompt} {fate:?}")),
        Body::Requesting => ("api", "request".to_owned()),
        Body::Discarded => ("api", "reply discarded".to_owned()),
        Body::Block(block) => ("api", format!("block {:?} of {}", block.block.kind(), block.message_id)),
        Body::Retry(retry) => ("api", format!("retry {} in {} ms: {}", retry.attempt, retry.delay_ms, retry.error)),
        Body::RateLimits(limits) => {
            let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
            ("api", format!("limits: {}", limits.join("; ")))
        }
        Body::CacheBreak(broken) => {
            let what = match broken.changed.as_slice() {
                [] => "nothing changed; the entry ran out or was dropped".to_owned(),
                changed => format!("changed: {}", changed.join("; ")),
            };
            ("api", format!("cache break, {} s after the last request: {what}", broken.idle_ms / 1000))
        }
        Body::Oddities(what) => ("api", format!("odd reply: {what}")),
        Body::Tool(tool) => ("tool", format!("{} {}({}) {:?}", tool.call, tool.name, tool.summary, tool.phase)),
        Body::ToolFinished(finished) => ("tool", format!("{} result {}", finished.call, finished.uuid)),
        Body::Denied(denial) => ("permission", format!("{} refused ({})", denial.call, denial.origin)),
        Body::Ask(ask) => ("permission", format!("ask {:?}", ask.id)),
        Body::AskClosed(id) => ("permission", format!("ask {id:?} closed")),
        Body::Task(task) => ("task", format!("{} {:?}", task.id, task.state)),
        Body::Hook(hook) => ("hook", format!("{} {} {:?}", hook.id, hook.name, hook.phase)),
        Body::ModeChanged(mode) => ("permission", format!("mode {mode}")),
        Body::Notice(notice) => ("notice", notice.text.clone()),
        Body::TurnEnded(report) => ("session", format!("turn ended: {:?}, usage {:?}", report.end, report.usage)),
        Body::Closed => ("session", "closed".to_owned()),
        Body::BlockStarted { .. } | Body::Delta(_) | Body::Wire(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn filters_name_or_exclude_categories() {
        assert!(Filter::parse("").wants("api"));
        assert!(Filter::parse("api,tool").wants("tool") && !Filter::parse("api").wants("tool"));
        assert!(!Filter::parse("!tool").wants("tool") && Filter::parse("!tool").wants("api"));
    }
}
