//! Prompts that waited for their turn, as a transcript tells: what was put in line, and what left it again.

use crate::raw_members::{RawJsonMembers, unescaped_string};

/// How many are remembered; nobody waits behind more.
const MOST: usize = 1_000;

/// The line of prompts, read record by record.
#[derive(Debug, Default)]
pub(crate) struct PromptQueue {
    /// The line of the file at which each began to wait, and its words as JSON.
    waiting: Vec<(usize, Vec<u8>)>,
}

impl PromptQueue {
    pub(crate) const KIND: &[u8] = b"queue-operation";

    /// Takes in a record of that kind.
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

    /// The first line behind another at which a prompt began to wait that nobody took up.
    pub(crate) fn first_after_line(&self, line: usize) -> Option<usize> {
        self.waiting.iter().map(|(at, _)| *at).find(|at| *at > line)
    }

    /// The words of those that nobody took up; one may have none.
    pub(crate) fn into_prompts(self) -> Vec<String> {
        self.waiting.into_iter().map(|(_, json)| serde_json::from_slice(&json).unwrap_or_default()).collect()
    }
}
