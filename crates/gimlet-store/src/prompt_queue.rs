//! Queued prompts as recorded in a transcript: additions and removals.

use crate::raw_members::{RawJsonMembers, unescaped_string};

/// Maximum number of queued prompts that are remembered.
const MOST: usize = 1_000;

/// Queue of prompts, read record by record.
#[derive(Debug, Default)]
pub(crate) struct PromptQueue {
    /// Line of the file at which each prompt was queued, and its text as JSON.
    waiting: Vec<(usize, Vec<u8>)>,
}

impl PromptQueue {
    pub(crate) const KIND: &[u8] = b"queue-operation";

    /// Applies a queue record.
    pub(crate) fn apply_record(&mut self, json: &[u8], line: usize) {
        let member = |name: &[u8]| RawJsonMembers::new(json).find(|(key, _)| *key == name).map(|(_, value)| value);
        let content = member(b"content").unwrap_or_default();
        match member(b"operation").and_then(unescaped_string) {
            Some(b"enqueue") if self.waiting.len() < MOST => self.waiting.push((line, content.to_owned())),
            Some(b"dequeue") if !self.waiting.is_empty() => drop(self.waiting.remove(0)),
            Some(b"remove") => {
                let meant = self.waiting.iter().rposition(|(_, text)| text == content);
                drop(meant.map(|at| self.waiting.remove(at)));
            }
            Some(b"popAll") => self.waiting.clear(),
            _ => {}
        }
    }

    /// Returns the first line after `line` at which a prompt that is still queued was added.
    pub(crate) fn first_after_line(&self, line: usize) -> Option<usize> {
        self.waiting.iter().map(|(at, _)| *at).find(|at| *at > line)
    }

    /// Returns the texts of the prompts that are still queued; a text may be empty.
    pub(crate) fn into_prompts(self) -> Vec<String> {
        self.waiting.into_iter().map(|(_, json)| serde_json::from_slice(&json).unwrap_or_default()).collect()
    }
}
