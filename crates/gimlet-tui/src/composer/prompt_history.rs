//! Going back and forth in earlier prompts. What was typed before or changed on the way is kept.

use std::collections::BTreeMap;

use gimlet_proto::PromptHistoryEntry;

use super::composed_prompt::InputKind;

/// A text in the input that was not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptDraft {
    pub(crate) text: String,
    pub(crate) kind: InputKind,
    pub(crate) cursor: usize,
}

/// What a step through the history leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HistoryStep {
    Entry(PromptHistoryEntry),
    /// What was in the input at that place before.
    Draft(PromptDraft),
}

/// Earlier prompts, oldest first, and the place in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PromptHistory {
    entries: Vec<PromptHistoryEntry>,
    /// Index of the entry in the input; `None` for the draft itself.
    position: Option<usize>,
    /// The draft, under the number of entries, and entries that were changed.
    changed: BTreeMap<usize, PromptDraft>,
}

impl PromptHistory {
    pub(crate) fn entries(&self) -> &[PromptHistoryEntry] {
        &self.entries
    }

    /// Puts earlier prompts in front of those of this session.
    pub(crate) fn prepend(&mut self, earlier: Vec<PromptHistoryEntry>) {
        let shift = earlier.len();
        let own = std::mem::replace(&mut self.entries, earlier);
        self.entries.extend(own);
        self.position = self.position.map(|position| position + shift);
        self.changed = std::mem::take(&mut self.changed).into_iter().map(|(at, draft)| (at + shift, draft)).collect();
    }

    /// Adds a prompt; one that equals the last is not added again.
    pub(crate) fn push(&mut self, entry: PromptHistoryEntry) {
        if self.entries.last().is_none_or(|last| last.text != entry.text || last.pasted != entry.pasted) {
            self.entries.push(entry);
        }
        self.reset();
    }

    /// Returns to the draft and forgets changes of entries.
    pub(crate) fn reset(&mut self) {
        self.position = None;
        self.changed.clear();
    }

    pub(crate) fn is_at_draft(&self) -> bool {
        self.position.is_none()
    }

    /// Goes to the prompt before; `current` is what stands in the input. `None` at the oldest.
    pub(crate) fn step_back(&mut self, current: PromptDraft) -> Option<HistoryStep> {
        let at = self.position.unwrap_or(self.entries.len());
        let next = at.checked_sub(1)?;
        self.changed.insert(at, current);
        self.go_to(next)
    }

    /// Goes to the prompt after, or to the draft. `None` at the draft.
    pub(crate) fn step_forward(&mut self, current: PromptDraft) -> Option<HistoryStep> {
        let at = self.position?;
        self.changed.insert(at, current);
        self.go_to(at + 1)
    }

    fn go_to(&mut self, index: usize) -> Option<HistoryStep> {
        self.position = if index < self.entries.len() { Some(index) } else { None };
        if let Some(draft) = self.changed.get(&index) {
            return Some(HistoryStep::Draft(draft.clone()));
        }
        match self.entries.get(index) {
            Some(entry) => Some(HistoryStep::Entry(entry.clone())),
            None => Some(HistoryStep::Draft(PromptDraft::default())),
        }
    }

    /// Returns the texts of drafts that are kept on the way.
    pub(crate) fn kept_texts(&self) -> impl Iterator<Item = &str> + Clone {
        self.changed.values().map(|draft| draft.text.as_str())
    }
}
