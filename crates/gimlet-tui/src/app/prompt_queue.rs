//! Prompts that were sent and are not part of the conversation yet.

use gimlet_proto::EntryId;

/// The prompts, oldest first, with what was typed.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptQueue {
    prompts: Vec<(EntryId, String)>,
}

impl PromptQueue {
    pub(super) fn push(&mut self, id: EntryId, text: &str) {
        self.prompts.push((id, text.to_owned()));
    }

    pub(super) fn remove(&mut self, id: &EntryId) {
        self.prompts.retain(|(known, _)| known != id);
    }

    /// Removes a prompt and returns what was typed.
    pub(super) fn take(&mut self, id: &EntryId) -> Option<String> {
        let index = self.prompts.iter().position(|(known, _)| known == id)?;
        Some(self.prompts.remove(index).1)
    }

    pub(super) fn len(&self) -> usize {
        self.prompts.len()
    }

    /// Returns the ids, the newest first: withdrawn in this order, the texts come back in the order they were typed.
    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.prompts.iter().rev().map(|(id, _)| id.clone())
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.prompts.iter().map(|(_, text)| text.as_str())
    }
}
