//! Titles, tags and the main agent of a session: entries that any program may append at any time, the last one
//! winning.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use crate::entry_format;

/// Labels of a session. `None` means unknown, not cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionLabels {
    pub title: Option<String>,
    pub ai_title: Option<String>,
    /// An empty tag is a cleared one.
    pub tag: Option<String>,
    /// The kind of agent that the main conversation runs as. An empty one is none.
    pub agent: Option<String>,
}

/// A title for a session that has no transcript yet: it is written as soon as there is one.
#[derive(Clone, Default)]
pub struct EarlyTitle(Arc<Mutex<EarlyTitleState>>);

#[derive(Default)]
struct EarlyTitleState {
    title: Option<String>,
    /// The transcript has begun; titles go there.
    over: bool,
}

impl EarlyTitle {
    /// Sets the title and returns true, unless the transcript has begun; the title then has to be written there.
    pub fn try_set(&self, title: &str) -> bool {
        let mut waiting = self.lock();
        if !waiting.over {
            waiting.title = Some(title.to_owned());
        }
        !waiting.over
    }

    /// Returns the title, if one was set. None can be set from now on.
    pub(crate) fn take(&self) -> Option<String> {
        let mut waiting = self.lock();
        waiting.over = true;
        waiting.title.take()
    }

    fn lock(&self) -> MutexGuard<'_, EarlyTitleState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LabelEntry<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    custom_title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    ai_title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tag: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    agent_setting: Option<Cow<'a, str>>,
}

impl SessionLabels {
    /// Returns the newest labels among these lines. A broken first or last line is skipped.
    pub(crate) fn from_lines(bytes: &[u8]) -> Self {
        let mut newest = SessionLabels::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            newest.apply_line(line);
        }
        newest
    }

    /// Applies this line, if it is a label entry. Cheap for every other line.
    pub(crate) fn apply_line(&mut self, line: &[u8]) {
        const MAX_LABEL_LINE: usize = 64 << 10;
        if line.len() > MAX_LABEL_LINE || !line.starts_with(b"{") {
            return;
        }
        if !["\"customTitle\"", "\"aiTitle\"", "\"tag\"", "\"agentSetting\""]
            .iter()
            .any(|key| memchr::memmem::find(line, key.as_bytes()).is_some())
        {
            return;
        }
        let Ok(entry) = serde_json::from_slice::<LabelEntry<'_>>(line) else { return };
        match entry.kind.as_ref() {
            "custom-title" => overwrite_if_some(&mut self.title, entry.custom_title),
            "ai-title" => overwrite_if_some(&mut self.ai_title, entry.ai_title),
            "tag" => overwrite_if_some(&mut self.tag, entry.tag),
            "agent-setting" => overwrite_if_some(&mut self.agent, entry.agent_setting),
            _ => {}
        }
    }

    /// Lets newer values replace these.
    pub(crate) fn merge_newer(&mut self, newer: SessionLabels) {
        overwrite_if_some(&mut self.title, newer.title.map(Cow::Owned));
        overwrite_if_some(&mut self.ai_title, newer.ai_title.map(Cow::Owned));
        overwrite_if_some(&mut self.tag, newer.tag.map(Cow::Owned));
        overwrite_if_some(&mut self.agent, newer.agent.map(Cow::Owned));
    }

    /// Returns the lines that record all of these labels again.
    pub(crate) fn to_entry_lines(&self, session: &str) -> Vec<String> {
        let known = [
            ("custom-title", "customTitle", &self.title),
            ("ai-title", "aiTitle", &self.ai_title),
            ("tag", "tag", &self.tag),
            ("agent-setting", "agentSetting", &self.agent),
        ];
        let known = known.into_iter().filter_map(|(kind, name, value)| Some((kind, name, value.as_ref()?)));
        known.map(|(kind, name, value)| entry_format::render_metadata(kind, name, value, session)).collect()
    }

    /// Returns the title to show.
    pub fn display_title(&self) -> Option<&str> {
        self.title.as_deref().or(self.ai_title.as_deref()).filter(|title| !title.is_empty())
    }
}

fn overwrite_if_some(slot: &mut Option<String>, value: Option<Cow<'_, str>>) {
    if let Some(value) = value {
        *slot = Some(value.into_owned());
    }
}
