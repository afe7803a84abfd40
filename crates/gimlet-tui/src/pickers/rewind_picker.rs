//! Going back: the prompts of the conversation, what going back would undo, and which part of it.

use std::path::Path;

use crossterm::event::{KeyCode, KeyEvent};
use gimlet_proto::{EntryId, HistoryBody, HistoryItem, RewindOutcome, RewoundFile, View};

use super::list_picker::{ListPicker, PickerRow};
use super::{AppPicker, ListStep, PickerOutcome};
use crate::app::{AppEffect, RewindRequest, RewindTarget};
use crate::feed::{ViewDetail, indent_lines, render_view};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{clean_line, line_width, truncate_line};

/// Commands named as not undone; more are counted.
const MAX_COMMANDS: usize = 3;
/// Width from which the preview stands beside the list.
const BESIDE_WIDTH: usize = 110;
/// Rows that the list keeps when the preview stands below it.
const MIN_LIST_ROWS: usize = 8;

/// A prompt that one can go back to.
#[derive(Clone, Debug)]
struct PastPrompt {
    entry: EntryId,
    /// The last entry before it; `None` for the first prompt.
    before: Option<EntryId>,
    text: String,
    /// Commands that ran since then.
    commands: Vec<String>,
    preview: Option<Result<RewindOutcome, String>>,
}

/// What is being chosen.
#[derive(Debug)]
enum RewindStage {
    Prompt,
    /// What to restore.
    Target {
        prompt: usize,
        list: ListPicker,
    },
    /// What becomes of files that something else has changed since.
    ChangedFiles {
        prompt: usize,
        target: RewindTarget,
        list: ListPicker,
    },
}

/// The prompts, and once one is chosen, the questions about it.
#[derive(Debug)]
pub struct RewindPicker {
    prompts: Vec<PastPrompt>,
    pub(super) list: ListPicker,
    stage: RewindStage,
    /// First row of the preview that is shown.
    scroll: usize,
    /// Largest useful value of `scroll`, and the rows that are seen at once.
    extent: (usize, usize),
}

/// Choices, in the order of the list.
const TARGETS: [(RewindTarget, &str); 4] = [
    (RewindTarget::CodeAndConversation, "Code and conversation"),
    (RewindTarget::Conversation, "Conversation only"),
    (RewindTarget::Code, "Code only"),
    (RewindTarget::Summary, "Summarise from here"),
];

/// Returns the picker of a conversation's prompts; an error, in words for the user, if there are none.
pub fn rewind_picker(items: &[HistoryItem]) -> Result<AppPicker, String> {
    let mut prompts: Vec<PastPrompt> = Vec::new();
    let mut before: Option<EntryId> = None;
    for item in items {
        match &item.body {
            HistoryBody::Prompt(blocks) => {
                let text: Vec<String> = blocks.iter().filter_map(|block| Some(block.as_text()?.into_owned())).collect();
                prompts.push(PastPrompt {
                    entry: item.entry.clone(),
                    before: before.clone(),
                    text: text.join("\n"),
                    commands: Vec::new(),
                    preview: None,
                });
            }
            HistoryBody::Call(call) => {
                if let Some(View::Terminal { command, .. }) = call.result.as_ref().map(|result| &result.view) {
                    prompts.iter_mut().for_each(|prompt| prompt.commands.push(command.clone()));
                }
            }
            _ => {}
        }
        before = Some(last_entry(item));
    }
    if prompts.is_empty() {
        return Err("There is nothing to go back to yet".to_owned());
    }
    let row = |prompt: &PastPrompt| PickerRow::new(prompt.text.trim().replace('\n', " "), "");
    let rows = prompts.iter().map(row).collect();
    let mut list = ListPicker::new("Go back to before a prompt", rows).with_keys("enter chooses · esc");
    list.select(prompts.len() - 1);
    Ok(AppPicker::Rewind(RewindPicker { prompts, list, stage: RewindStage::Prompt, scroll: 0, extent: (0, 1) }))
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

impl PastPrompt {
    /// Returns the files that would change although something else has changed them since.
    fn changed_files(&self) -> Vec<&RewoundFile> {
        match &self.preview {
            Some(Ok(outcome)) => outcome.files.iter().filter(|file| file.changed_by_hand).collect(),
            Some(Err(_)) | None => Vec::new(),
        }
    }

    /// Returns the first line of the prompt, for a sentence.
    fn first_line(&self) -> String {
        clean_line(self.text.trim().lines().next().unwrap_or_default()).into_owned()
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
        let page = self.extent.1.max(1);
        match key.code {
            KeyCode::PageDown => {
                self.scroll = (self.scroll + page).min(self.extent.0);
                return PickerOutcome::Stays;
            }
            KeyCode::PageUp => {
                self.scroll = self.scroll.saturating_sub(page);
                return PickerOutcome::Stays;
            }
            _ => {}
        }
        match &mut self.stage {
            RewindStage::Prompt => match self.list.handle_key(key) {
                ListStep::Stays => PickerOutcome::Stays,
                ListStep::Moved => {
                    self.scroll = 0;
                    PickerOutcome::StaysAnd(self.preview_effects())
                }
                ListStep::Closes => PickerOutcome::Closes,
                ListStep::Takes(prompt) => {
                    let rows = TARGETS.iter().map(|(target, label)| PickerRow::new(*label, target.detail()));
                    let rows = rows.chain([PickerRow::new("Cancel", "")]).collect();
                    self.stage = RewindStage::Target { prompt, list: ListPicker::new("Go back with", rows) };
                    PickerOutcome::Stays
                }
            },
            RewindStage::Target { prompt, list } => {
                let prompt = *prompt;
                match list.handle_key(key) {
                    ListStep::Stays | ListStep::Moved => PickerOutcome::Stays,
                    ListStep::Closes => {
                        self.stage = RewindStage::Prompt;
                        PickerOutcome::Stays
                    }
                    ListStep::Takes(choice) => self.take_target(prompt, choice),
                }
            }
            RewindStage::ChangedFiles { prompt, target, list } => {
                let (prompt, target) = (*prompt, *target);
                match list.handle_key(key) {
                    ListStep::Stays | ListStep::Moved => PickerOutcome::Stays,
                    ListStep::Takes(0) => self.go_back(prompt, target, false),
                    ListStep::Takes(1) => self.go_back(prompt, target, true),
                    ListStep::Takes(_) | ListStep::Closes => PickerOutcome::Closes,
                }
            }
        }
    }

    fn take_target(&mut self, index: usize, choice: usize) -> PickerOutcome {
        let (Some((target, _)), Some(prompt)) = (TARGETS.get(choice), self.prompts.get(index)) else {
            return PickerOutcome::Closes;
        };
        let changed = prompt.changed_files();
        if !target.restores_files() || changed.is_empty() {
            return self.go_back(index, *target, false);
        }
        let names: Vec<String> = changed.iter().map(|file| short_name(&file.path)).collect();
        let title = format!("Changed by you or a command since: {}", names.join(", "));
        let rows = vec![
            PickerRow::new("Leave them as they are", "and restore the others"),
            PickerRow::new("Restore them too", "what was changed since is lost"),
            PickerRow::new("Cancel", ""),
        ];
        let list = ListPicker::new(&title, rows);
        self.stage = RewindStage::ChangedFiles { prompt: index, target: *target, list };
        PickerOutcome::Stays
    }

    fn go_back(&self, index: usize, target: RewindTarget, overwrites_changes: bool) -> PickerOutcome {
        let Some(prompt) = self.prompts.get(index) else { return PickerOutcome::Closes };
        let request = RewindRequest {
            prompt: prompt.entry.clone(),
            before: prompt.before.clone(),
            first_line: prompt.first_line(),
            target,
            overwrites_changes,
        };
        let effects = vec![AppEffect::Rewind(request)];
        match target {
            RewindTarget::Code | RewindTarget::Summary => PickerOutcome::Chooses(effects),
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
        let is_beside = cx.width >= BESIDE_WIDTH;
        let list_width = if is_beside { cx.width * 2 / 5 } else { cx.width };
        let preview_width = if is_beside { cx.width - list_width - 2 } else { cx.width };
        let preview_cx = RenderContext { width: preview_width, ..*cx };
        let shown = match &self.stage {
            RewindStage::Prompt => self.list.selected(),
            RewindStage::Target { prompt, .. } | RewindStage::ChangedFiles { prompt, .. } => Some(*prompt),
        };
        let prompt = shown.and_then(|index| self.prompts.get(index));
        let preview = prompt.map(|prompt| preview_lines(prompt, &preview_cx)).unwrap_or_default();
        let list_rows = if is_beside {
            max_rows
        } else {
            // The list gives way to the preview as far as it can.
            max_rows.saturating_sub(preview.len()).max(MIN_LIST_ROWS).min(max_rows)
        };
        let list = match &mut self.stage {
            RewindStage::Prompt => &mut self.list,
            RewindStage::Target { list, .. } | RewindStage::ChangedFiles { list, .. } => list,
        };
        let (mut lines, cursor) = list.render(list_rows, &RenderContext { width: list_width, ..*cx });
        let room = if is_beside { max_rows.saturating_sub(1) } else { max_rows.saturating_sub(lines.len()) };
        let window = self.scroll_window(preview, room, cx);
        if is_beside {
            join_columns(&mut lines, window, list_width, cx);
        } else {
            lines.extend(window);
        }
        (lines, cursor)
    }

    /// Returns the part of the preview that there is room for; its last row says what is hidden.
    fn scroll_window(&mut self, preview: Vec<StyledLine>, room: usize, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        if preview.len() <= room {
            self.extent = (0, room.max(1));
            self.scroll = 0;
            return preview;
        }
        let page = room.saturating_sub(1);
        self.extent = (preview.len() - page, page.max(1));
        self.scroll = self.scroll.min(self.extent.0);
        let hidden = preview.len() - page - self.scroll;
        let mut window: Vec<StyledLine> = preview.into_iter().skip(self.scroll).take(page).collect();
        if room > 0 {
            let hint = if hidden > 0 { format!("  {hidden} more rows, pgdn") } else { "  pgup".to_owned() };
            window.push(truncate_line(&StyledLine::of(hint, TextTone::Dim), cx.width));
        }
        window
    }
}

/// Puts rows beside others, from the second one on; the first is a rule across the screen.
fn join_columns(lines: &mut Vec<StyledLine>, right: Vec<StyledLine>, left_width: usize, cx: &RenderContext<'_>) {
    if let Some(rule) = lines.first_mut() {
        *rule = StyledLine::of(cx.glyphs.rule.repeat(cx.width), TextTone::Dim);
    }
    if lines.len() < right.len() + 1 {
        lines.resize(right.len() + 1, StyledLine::blank());
    }
    for (line, right) in lines.iter_mut().skip(1).zip(right) {
        let gap = (left_width + 2).saturating_sub(line_width(line));
        line.push(" ".repeat(gap), TextTone::Text);
        right.spans.iter().for_each(|span| line.push(&span.text, span.style));
    }
}

fn short_name(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    clean_line(&name).into_owned()
}

fn preview_lines(prompt: &PastPrompt, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let dim = |text: String| truncate_line(&StyledLine::of(text, TextTone::Dim), cx.width);
    let mut lines = match &prompt.preview {
        None => vec![dim("  Looking at the files…".to_owned())],
        Some(Err(problem)) => vec![dim(format!("  Code: {}", clean_line(problem)))],
        Some(Ok(outcome)) => outcome_lines(outcome, cx),
    };
    if !prompt.commands.is_empty() {
        lines.push(dim("  What these commands changed is not undone:".to_owned()));
        let shown = prompt.commands.iter().take(MAX_COMMANDS);
        lines.extend(shown.map(|command| dim(format!("    {}", clean_line(command)))));
        let more = prompt.commands.len().saturating_sub(MAX_COMMANDS);
        if more > 0 {
            lines.push(dim(format!("    and {more} more")));
        }
    }
    lines
}

fn outcome_lines(outcome: &RewindOutcome, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let dim = |text: String| truncate_line(&StyledLine::of(text, TextTone::Dim), cx.width);
    let mut lines = Vec::new();
    match outcome.files.len() {
        0 => lines.push(dim("  No file was changed since then".to_owned())),
        count => {
            let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
            let line = StyledLine::of(format!("  Going back changes {files}: "), TextTone::Dim);
            lines.push(truncate_line(&with_counts(line, outcome.insertions(), outcome.deletions(), cx), cx.width));
        }
    }
    for file in &outcome.files {
        let mut line = StyledLine::of(format!("    {}  ", clean_line(&file.path.to_string_lossy())), TextTone::Text);
        line = with_counts(line, file.insertions, file.deletions, cx);
        if file.changed_by_hand {
            line.push("  changed since by you or a command", TextTone::Warn);
        }
        lines.push(truncate_line(&line, cx.width));
        if !file.hunks.is_empty() {
            let view = View::Diff { path: String::new(), hunks: file.hunks.clone() };
            let inner = RenderContext { width: cx.width.saturating_sub(4).max(8), ..*cx };
            lines.extend(indent_lines(render_view(&view, ViewDetail::Whole, &inner), 4));
        }
    }
    match outcome.skipped_links {
        0 => {}
        1 => lines.push(dim("    1 link is left as it is".to_owned())),
        count => lines.push(dim(format!("    {count} links are left as they are"))),
    }
    lines
}

fn with_counts(mut line: StyledLine, insertions: u64, deletions: u64, cx: &RenderContext<'_>) -> StyledLine {
    line.push(format!("+{insertions}"), TextTone::Added);
    line.push(" ", TextTone::Text);
    line.push(format!("{}{deletions}", cx.glyphs.minus), TextTone::Removed);
    line
}
