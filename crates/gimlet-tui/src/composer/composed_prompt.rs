//! What was written, once it is sent.

use gimlet_proto::{Block, MentionScope, PromptHistoryEntry, SubmittedPrompt};

/// What the text of the input is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputKind {
    /// A prompt or a slash command.
    #[default]
    Prompt,
    /// A command for the shell.
    Shell,
}

/// A text that was pasted and stands in the prompt as a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastedText {
    pub number: usize,
    pub placeholder: String,
    pub text: String,
}

/// A finished draft.
#[derive(Clone, Debug)]
pub struct ComposedPrompt {
    pub kind: InputKind,
    /// The text as it was shown, with placeholders.
    pub shown: String,
    pub pasted: Vec<PastedText>,
    /// Images in the order of their placeholders.
    pub images: Vec<Block>,
}

impl ComposedPrompt {
    /// Creates a prompt from a text without attachments.
    pub fn from_text(text: &str) -> Self {
        Self { kind: InputKind::Prompt, shown: text.to_owned(), pasted: Vec::new(), images: Vec::new() }
    }

    /// Returns the text with all that was pasted in its place.
    pub fn text(&self) -> String {
        let mut out = String::with_capacity(self.shown.len());
        let mut rest = self.shown.as_str();
        // Only what was shown is searched: pasted text can contain what looks like a placeholder.
        while let Some((at, pasted)) = next_placeholder(rest, &self.pasted) {
            out.push_str(rest.get(..at).unwrap_or_default());
            out.push_str(&pasted.text);
            rest = rest.get(at + pasted.placeholder.len()..).unwrap_or_default();
        }
        out.push_str(rest);
        out
    }

    /// Returns the prompt for the session. In pasted text no `@name` attaches a file.
    pub fn to_submitted(&self) -> SubmittedPrompt {
        let text = self.text();
        let mut blocks = vec![Block::text(&text)];
        blocks.extend(self.images.iter().cloned());
        let is_command = self.shown.trim_start().starts_with('/');
        let mentions = if self.pasted.is_empty() || is_command {
            MentionScope::Everywhere
        } else {
            MentionScope::In(self.shown.clone())
        };
        SubmittedPrompt { plain: self.images.is_empty(), blocks, mentions, ..SubmittedPrompt::default() }
    }

    /// Returns the entry for the history of prompts. A shell command begins with `!` there.
    pub fn history_entry(&self, at_ms: i64) -> PromptHistoryEntry {
        let mark = if self.kind == InputKind::Shell { "!" } else { "" };
        PromptHistoryEntry {
            text: format!("{mark}{}", self.shown),
            pasted: self.pasted.iter().map(|pasted| (pasted.number as u64, pasted.text.clone())).collect(),
            at_ms,
        }
    }
}

fn next_placeholder<'a>(text: &str, pasted: &'a [PastedText]) -> Option<(usize, &'a PastedText)> {
    let found = pasted.iter().filter_map(|item| Some((text.find(&item.placeholder)?, item)));
    found.min_by_key(|(at, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_text_is_expanded_once_and_is_no_place_for_mentions() {
        let pasted = |number: usize, text: &str| PastedText {
            number,
            placeholder: format!("[Pasted text #{number}]"),
            text: text.to_owned(),
        };
        let prompt = ComposedPrompt {
            kind: InputKind::Prompt,
            shown: "see [Pasted text #2], then [Pasted text #1] and @a.rs".to_owned(),
            pasted: vec![pasted(1, "[Pasted text #2] @b.rs"), pasted(2, "two")],
            images: Vec::new(),
        };
        assert_eq!(prompt.text(), "see two, then [Pasted text #2] @b.rs and @a.rs");
        let submitted = prompt.to_submitted();
        assert_eq!(submitted.mentions, MentionScope::In(prompt.shown.clone()));
        assert!(submitted.plain);
        assert_eq!(ComposedPrompt::from_text("hi").to_submitted().mentions, MentionScope::Everywhere);
        let shell = ComposedPrompt { kind: InputKind::Shell, ..ComposedPrompt::from_text("ls") };
        assert_eq!(shell.history_entry(7).text, "!ls");
    }
}
