//! Going back: the prompts of the conversation, what going back would undo, and which part of it.

use crossterm::event::KeyEvent;
use gimlet_proto::{EntryId, HistoryBody, HistoryItem, RewindOutcome};

use super::list_picker::{ListPicker, PickerRow};
use super::{AppPicker, ListStep, PickerOutcome};
use crate::app::{AppEffect, RewindTarget};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{clean_line, truncate_line};

/// Files named in the preview; more are counted.
const MAX_FILES: usize = 4;

/// A prompt that one can go back to.
#[derive(Clone, Debug)]
struct PastPrompt {
    entry: EntryId,
    /// The last entry before it; `None` for the first prompt.
    before: Option<EntryId>,
    text: String,
    preview: Option<Result<RewindOutcome, String>>,
}

/// The prompts, and once one is chosen, the question what to restore.
#[derive(Debug)]
pub struct RewindPicker {
    prompts: Vec<PastPrompt>,
    pub(super) list: ListPicker,
    /// The prompt that was chosen, and the ways back.
    targets: Option<(usize, ListPicker)>,
}

/// Choices, in the order of the list.
const TARGETS: [(RewindTarget, &str); 3] = [
    (RewindTarget::CodeAndConversation, "Code and conversation"),
    (RewindTarget::Conversation, "Conversation only"),
    (RewindTarget::Code, "Code only"),
];

/// Returns the picker of a conversation's prompts; an error, in words for the user, if there are none.
pub fn rewind_picker(items: &[HistoryItem]) -> Result<AppPicker, String> {
    let mut prompts = Vec::new();
    let mut before: Option<EntryId> = None;
    for item in items {
        if let HistoryBody::Prompt(blocks) = &item.body {
            let text: Vec<String> = blocks.iter().filter_map(|block| Some(block.as_text()?.into_owned())).collect();
            prompts.push(PastPrompt {
                entry: item.entry.clone(),
                before: before.clone(),
                text: text.join("\n"),
                preview: None,
            });
        }
        before = Some(last_entry(item));
    }
    if prompts.is_empty() {
        return Err("There is nothing to go back to yet".to_owned());
    }
    let rows = prompts.iter().map(|prompt| PickerRow::new(prompt.text.trim(), "")).collect();
    let mut list = ListPicker::new("Go back to before a prompt", rows).with_keys("enter chooses · esc");
    list.select(prompts.len() - 1);
    Ok(AppPicker::Rewind(RewindPicker { prompts, list, targets: None }))
}

/// Returns the last entry that belongs to an item: a call's result comes after the call.
fn last_entry(item: &HistoryItem) -> EntryId {
    match &item.body {
        HistoryBody::Call(call) => {
            call.result.as_ref().map_or_else(|| item.entry.clone(), |result| result.entry.clone())
        }
        _ => item.entry.clone(),
    }
}

impl RewindPicker {
    pub(super) fn preview_effects(&self) -> Vec<AppEffect> {
        let prompt = self.list.selected().and_then(|index| self.prompts.get(index));
        let unknown = prompt.filter(|prompt| prompt.preview.is_none());
        unknown.map(|prompt| AppEffect::PreviewRewind(prompt.entry.clone())).into_iter().collect()
    }

    pub(super) fn set_preview(&mut self, prompt: &EntryId, outcome: Result<RewindOutcome, String>) {
        if let Some(known) = self.prompts.iter_mut().find(|known| known.entry == *prompt) {
            known.preview = Some(outcome);
        }
    }

    pub(super) fn handle_key(&mut self, key: KeyEvent) -> PickerOutcome {
        if let Some((index, targets)) = &mut self.targets {
            let index = *index;
            return match targets.handle_key(key) {
                ListStep::Stays | ListStep::Moved => PickerOutcome::Stays,
                ListStep::Closes => {
                    self.targets = None;
                    PickerOutcome::Stays
                }
                ListStep::Takes(choice) => self.take_target(index, choice),
            };
        }
        match self.list.handle_key(key) {
            ListStep::Stays => PickerOutcome::Stays,
            ListStep::Moved => PickerOutcome::StaysAnd(self.preview_effects()),
            ListStep::Closes => PickerOutcome::Closes,
            ListStep::Takes(index) => {
                let rows = TARGETS.iter().map(|(_, label)| PickerRow::new(*label, ""));
                let rows = rows.chain([PickerRow::new("Cancel", "")]).collect();
                self.targets = Some((index, ListPicker::new("Go back with", rows)));
                PickerOutcome::Stays
            }
        }
    }

    fn take_target(&mut self, index: usize, choice: usize) -> PickerOutcome {
        let (Some((what, _)), Some(prompt)) = (TARGETS.get(choice), self.prompts.get(index)) else {
            return PickerOutcome::Closes;
        };
        let effects =
            vec![AppEffect::Rewind { prompt: prompt.entry.clone(), before: prompt.before.clone(), what: *what }];
        match what {
            RewindTarget::Code => PickerOutcome::Chooses(effects),
            RewindTarget::CodeAndConversation | RewindTarget::Conversation => {
                PickerOutcome::Restores { text: prompt.text.clone(), effects }
            }
        }
    }

    pub(super) fn render(
        &mut self,
        max_rows: usize,
        cx: &RenderContext<'_>,
    ) -> (Vec<StyledLine>, Option<(usize, usize)>) {
        let shown = self.targets.as_ref().map(|(index, _)| *index).or_else(|| self.list.selected());
        let preview = shown.and_then(|index| self.prompts.get(index));
        let preview = preview.map(|prompt| preview_lines(prompt, cx)).unwrap_or_default();
        let room = max_rows.saturating_sub(preview.len() + 1).max(6);
        let list = self.targets.as_mut().map_or(&mut self.list, |(_, targets)| targets);
        let (mut lines, cursor) = list.render(room, cx);
        if lines.len() + preview.len() < max_rows {
            lines.extend(preview);
        }
        (lines, cursor)
    }
}

fn preview_lines(prompt: &PastPrompt, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let dim = |text: String| truncate_line(&StyledLine::of(text, TextTone::Dim), cx.width);
    let outcome = match &prompt.preview {
        None => return vec![dim("  Looking at the files…".to_owned())],
        Some(Err(problem)) => return vec![dim(format!("  Code: {}", clean_line(problem)))],
        Some(Ok(outcome)) => outcome,
    };
    if outcome.files_changed.is_empty() {
        return vec![dim("  No file was changed since then".to_owned())];
    }
    let count = outcome.files_changed.len();
    let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let line = StyledLine::of(format!("  Going back changes {files}: "), TextTone::Dim)
        .with(format!("+{}", outcome.insertions), TextTone::Added)
        .with(" ", TextTone::Text)
        .with(format!("{}{}", cx.glyphs.minus, outcome.deletions), TextTone::Removed);
    let mut lines = vec![truncate_line(&line, cx.width)];
    let names = outcome.files_changed.iter().take(MAX_FILES);
    lines.extend(names.map(|path| dim(format!("    {}", clean_line(&path.to_string_lossy())))));
    if count > MAX_FILES {
        lines.push(dim(format!("    and {} more", count - MAX_FILES)));
    }
    if outcome.skipped_links > 0 {
        lines.push(dim(format!("    {} links are left as they are", outcome.skipped_links)));
    }
    lines.push(dim("  What shell commands changed is not undone".to_owned()));
    lines
}
