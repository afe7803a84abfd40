//! Texts of skills that a conversation has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gimlet_proto::{Block, Message, Role};
use sha2::{Digest, Sha256};

use crate::prompt_tags::SKILL_INSTRUCTIONS;

/// Digests of the texts that a conversation has got in its present segment, by the skill's name.
#[derive(Default)]
pub(crate) struct LoadedSkills(Mutex<HashMap<String, [u8; 32]>>);

impl LoadedSkills {
    /// Records the text of a skill. Returns false if it is the one that the conversation has.
    pub(super) fn note(&self, name: &str, text: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(text).into();
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        texts.insert(name.to_owned(), digest) != Some(digest)
    }

    /// Forgets everything: the conversation may not have the texts any more.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Returns the newest text of every skill in a history, the one that was loaded last first.
pub(crate) fn find_loaded_skills(history: &[Arc<Message>]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for message in history.iter().rev().filter(|message| message.role == Role::User) {
        for text in message.blocks.iter().rev().filter_map(Block::as_text) {
            for (name, text) in framed_texts(&text).into_iter().rev() {
                if found.iter().all(|(known, _)| known != name) {
                    found.push((name.to_owned(), text.to_owned()));
                }
            }
        }
    }
    found
}

/// Returns the framed texts of skills within a text, with their names.
fn framed_texts(text: &str) -> Vec<(&str, &str)> {
    let (open, close) = (format!("<{SKILL_INSTRUCTIONS} name=\""), format!("</{SKILL_INSTRUCTIONS}>"));
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(&open) {
        let framed = &rest[at..];
        let Some(end) = framed.find(&close).map(|end| end + close.len()) else { break };
        if let Some((name, _)) = framed[open.len()..].split_once("\">\n") {
            found.push((name, &framed[..end]));
        }
        rest = &framed[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_text_of_each_skill_is_found_also_behind_a_summary() {
        let framed =
            |name: &str, text: &str| format!("<{SKILL_INSTRUCTIONS} name=\"{name}\">\n{text}\n</{SKILL_INSTRUCTIONS}>");
        let user = |text: String| Arc::new(Message { role: Role::User, blocks: vec![Block::text(&text)] });
        let history = [
            user(format!("A summary.\n{}\n{}", framed("a", "old"), framed("b", "two"))),
            user(format!("<{SKILL_INSTRUCTIONS} name=\"cut")),
            user(framed("a", "new")),
        ];
        let found = find_loaded_skills(&history);
        assert_eq!(found, [("a".to_owned(), framed("a", "new")), ("b".to_owned(), framed("b", "two"))]);
    }

    #[test]
    fn the_same_text_is_noted_once() {
        let loaded = LoadedSkills::default();
        assert_eq!(
            [loaded.note("a", "x"), loaded.note("a", "x"), loaded.note("a", "y"), loaded.note("a", "x")],
            [true, false, true, true]
        );
        loaded.clear();
        assert!(loaded.note("a", "x"));
    }
}
