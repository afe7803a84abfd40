//! The editor in which a prompt is written: text, keys, history, pasted text and completion. Reads keys as
//! `crossterm::event::KeyEvent` and draws itself as styled lines; does no I/O: what it needs from outside goes out as a
//! [`ComposerRequest`] and comes back through a method.

mod attachments;
mod completion;
mod composed_prompt;
mod composer_view;
pub(crate) mod edit_buffer;
mod history_search;
pub(crate) mod input_layout;
mod kill_ring;
mod prompt_history;
mod search_keys;
pub(crate) mod text_editor;
mod undo_log;
mod vim_mode;

use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use gimlet_proto::{AgentSummary, Block, CommandInfo, PromptHistoryEntry};
use gimlet_text::{InvisibleChar, sanitise};

pub use composed_prompt::{ComposedPrompt, InputKind, PastedText};
pub use composer_view::InputView;
pub use history_search::HistoryScope;
pub use text_editor::WordFlavor;
pub use vim_mode::VimMode;

use attachments::{AttachmentStore, dropped_images, must_be_folded, text_placeholder};
use completion::{CompletionKind, CompletionList};
use edit_buffer::EditKind;
use history_search::HistorySearch;
use prompt_history::{HistoryStep, PromptDraft, PromptHistory};

use text_editor::TextEditor;
use vim_mode::{VimOutcome, VimState};

use crate::key_bindings::{KeyAction, KeyBindings, KeyContext, KeyResolution, KeyStroke};

/// What a key led to.
#[derive(Clone, Debug)]
pub enum ComposerOutcome {
    /// The key means nothing here.
    Ignored,
    /// The editor took it; redraw.
    Changed,
    /// Send this. The input is empty again.
    Submit(ComposedPrompt),
    Request(ComposerRequest),
    /// A bound action that is not the editor's: modes, views, leaving.
    Action(KeyAction),
}

/// Something that the editor needs from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComposerRequest {
    /// Show what the keys do.
    ShowHelp,
    /// Open this text in the user's editor; give the result to [`PromptComposer::replace_text`].
    EditExternally { text: String },
    /// Read the clipboard; give an image to [`PromptComposer::attach_image`], text to [`PromptComposer::handle_paste`].
    ReadClipboard,
    /// Read image files that were dropped on the terminal; give each to [`PromptComposer::attach_image`]. If that fails, give
    /// `pasted` to [`PromptComposer::insert_text`].
    ReadImages { paths: Vec<PathBuf>, pasted: String },
    /// Withdraw the prompts that wait; give their text to [`PromptComposer::recall_text`].
    RecallQueued,
    /// Find files for a partly typed name; give them to [`PromptComposer::set_file_suggestions`].
    SuggestFiles { query: String, generation: u64 },
    /// Read the prompts of all folders; give them to [`PromptComposer::set_full_history`].
    ReadFullHistory,
}

/// What the composer knows of the session around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComposerSurroundings {
    /// Number of prompts that wait for the turn's end.
    pub queued: usize,
    /// A call runs that could go on in the background.
    pub has_foreground_call: bool,
}

/// The editor of a prompt.
#[derive(Clone, Debug, Default)]
pub struct PromptComposer {
    editor: TextEditor,
    kind: InputKind,
    attachments: AttachmentStore,
    history: PromptHistory,
    full_history: Option<Vec<PromptHistoryEntry>>,
    search: Option<HistorySearch>,
    completion: CompletionList,
    vim: Option<VimState>,
    stash: Option<PromptDraft>,
    bindings: KeyBindings,
    /// Keys of a sequence that is not complete.
    pending_keys: Vec<KeyStroke>,
    view: composer_view::ViewState,
    surroundings: ComposerSurroundings,
}

impl PromptComposer {
    pub fn new(bindings: KeyBindings) -> Self {
        Self { bindings, ..Self::default() }
    }

    // Settings and surroundings

    pub fn set_bindings(&mut self, bindings: KeyBindings) {
        self.bindings = bindings;
        self.pending_keys.clear();
    }

    pub fn bindings(&self) -> &KeyBindings {
        &self.bindings
    }

    pub fn set_word_flavor(&mut self, flavor: WordFlavor) {
        self.editor.word_flavor = flavor;
    }

    /// Switches vim's modes on or off; the input begins in insert mode.
    pub fn set_vim(&mut self, is_on: bool) {
        if is_on != self.vim.is_some() {
            self.editor.buffer.end_group();
            self.vim = if is_on { Some(VimState::default()) } else { None };
        }
    }

    /// Returns the mode for the footer; `None` without vim's modes.
    pub fn vim_mode(&self) -> Option<VimMode> {
        self.vim.as_ref().map(VimState::mode)
    }

    pub fn set_surroundings(&mut self, surroundings: ComposerSurroundings) {
        self.surroundings = surroundings;
    }

    /// Sets the commands that `/` offers.
    pub fn set_commands(&mut self, commands: Vec<CommandInfo>) {
        self.completion.set_commands(commands);
    }

    /// Sets the agents that `@` offers.
    pub fn set_agents(&mut self, agents: Vec<AgentSummary>) {
        self.completion.set_agents(agents);
    }

    /// Takes files for a request, relative to the working directory and best first. Those for an older one are ignored.
    pub fn set_file_suggestions(&mut self, generation: u64, files: Vec<String>) {
        self.completion.set_files(generation, files);
    }

    /// Returns true while completions are offered.
    pub fn has_completions(&self) -> bool {
        self.completion.is_open()
    }

    /// Adds the prompts of earlier sessions, oldest first.
    pub fn set_history(&mut self, earlier: Vec<PromptHistoryEntry>) {
        self.history.prepend(earlier);
    }

    /// Takes the prompts of all folders for the open search, oldest first.
    pub fn set_full_history(&mut self, entries: Vec<PromptHistoryEntry>) {
        if let Some(search) = &mut self.search {
            search.update(&entries);
        }
        self.full_history = Some(entries);
        self.show_search_match();
    }

    // State

    /// Returns the text with placeholders.
    pub fn text(&self) -> &str {
        self.editor.buffer.text()
    }

    /// Returns true if there is nothing to send and nothing to lose.
    pub fn is_empty(&self) -> bool {
        self.editor.buffer.is_empty()
    }

    pub fn kind(&self) -> InputKind {
        self.kind
    }

    /// Returns true while a draft is put aside.
    pub fn has_stash(&self) -> bool {
        self.stash.is_some()
    }

    /// Returns the keys of a sequence that is not complete, for the footer.
    pub fn pending_keys(&self) -> String {
        if let Some(vim) = &self.vim
            && self.pending_keys.is_empty()
        {
            return vim.pending();
        }
        let keys: Vec<String> = self.pending_keys.iter().map(ToString::to_string).collect();
        keys.join(" ")
    }

    // Text from outside

    /// Inserts text at the cursor.
    pub fn insert_text(&mut self, text: &str) {
        self.close_search();
        self.editor.buffer.insert(&clean_inserted(text), EditKind::Other);
        self.note_edit();
    }

    /// Replaces the whole text: what an external editor returned, or a prompt that a rewind gave back.
    pub fn replace_text(&mut self, text: &str) {
        self.close_search();
        self.editor.buffer.set_text(clean_inserted(text).trim_end_matches('\n'));
        self.note_edit();
    }

    /// Puts prompts that were withdrawn in front of what is in the input.
    pub fn recall_text(&mut self, text: &str) {
        let text = clean_inserted(text);
        let gap = if self.editor.buffer.is_empty() { "" } else { "\n" };
        self.editor.buffer.replace(0..0, &format!("{text}{gap}"), EditKind::Other);
        self.note_edit();
    }

    /// Adds an image at the cursor.
    pub fn attach_image(&mut self, image: Block) {
        let placeholder = self.attachments.add_image(image);
        self.insert_placeholder(placeholder);
    }

    fn insert_placeholder(&mut self, placeholder: String) {
        self.editor.buffer.add_atom(placeholder.clone());
        self.editor.buffer.insert(&placeholder, EditKind::Other);
        self.note_edit();
    }

    /// Takes what the terminal reports as pasted.
    pub fn handle_paste(&mut self, pasted: &str) -> ComposerOutcome {
        self.pending_keys.clear();
        let text = clean_inserted(pasted);
        if let Some(search) = &mut self.search {
            search.query.push_str(text.lines().next().unwrap_or_default());
            self.update_search();
            return ComposerOutcome::Changed;
        }
        if let Some(paths) = dropped_images(&text) {
            let paths = paths.into_iter().map(PathBuf::from).collect();
            return ComposerOutcome::Request(ComposerRequest::ReadImages { paths, pasted: text });
        }
        if text.is_empty() {
            // Some terminals paste nothing if the clipboard holds an image.
            return ComposerOutcome::Request(ComposerRequest::ReadClipboard);
        }
        if must_be_folded(&text) {
            let placeholder = self.attachments.add_text(text);
            self.insert_placeholder(placeholder);
        } else {
            self.editor.buffer.insert(&text, EditKind::Other);
            self.note_edit();
        }
        ComposerOutcome::Changed
    }

    /// Empties the input. Returns the entry for the history, so that nothing that was typed is lost.
    pub fn clear_to_history(&mut self, at_ms: i64) -> Option<PromptHistoryEntry> {
        self.close_search();
        let entry = self.take_prompt().map(|prompt| prompt.history_entry(at_ms));
        if let Some(entry) = &entry {
            self.history.push(entry.clone());
        }
        entry
    }

    /// Adds a sent prompt to the history of this session.
    pub fn remember(&mut self, entry: PromptHistoryEntry) {
        self.history.push(entry);
    }

    // Keys

    /// Handles one key.
    pub fn handle_key(&mut self, event: KeyEvent) -> ComposerOutcome {
        if event.kind == KeyEventKind::Release {
            return ComposerOutcome::Ignored;
        }
        let outcome = self.take_key(event);
        if self.vim_mode() == Some(VimMode::Normal) && self.search.is_none() {
            vim_mode::clamp_cursor(&mut self.editor.buffer);
        }
        self.with_completion(outcome)
    }

    /// Completes what stands at the cursor now; asks for files if they are wanted.
    fn with_completion(&mut self, outcome: ComposerOutcome) -> ComposerOutcome {
        let is_typing = self.vim_mode().is_none_or(|mode| mode == VimMode::Insert);
        if self.kind == InputKind::Shell || self.search.is_some() || !is_typing {
            self.completion.close();
            return outcome;
        }
        match (self.completion.update(&self.editor.buffer), outcome) {
            (Some((query, generation)), ComposerOutcome::Changed) => {
                ComposerOutcome::Request(ComposerRequest::SuggestFiles { query, generation })
            }
            (_, outcome) => outcome,
        }
    }

    fn take_key(&mut self, event: KeyEvent) -> ComposerOutcome {
        let stroke = KeyStroke::from_event(&event);
        if let Some(outcome) = self.take_vim_key(stroke) {
            return outcome;
        }
        self.pending_keys.push(stroke);
        match self.bindings.resolve(&self.contexts(), &self.pending_keys) {
            KeyResolution::Prefix => ComposerOutcome::Changed,
            KeyResolution::Action(action) => {
                self.pending_keys.clear();
                self.run_action(action)
            }
            KeyResolution::Disabled => {
                self.pending_keys.clear();
                ComposerOutcome::Changed
            }
            KeyResolution::Unbound => {
                let is_sequence = self.pending_keys.len() > 1;
                self.pending_keys.clear();
                if is_sequence { ComposerOutcome::Changed } else { self.handle_text_key(stroke) }
            }
        }
    }

    /// Gives a key to vim's modes first; `None` if they have no use for it.
    fn take_vim_key(&mut self, stroke: KeyStroke) -> Option<ComposerOutcome> {
        let closes_list = self.completion.is_open() && stroke.code() == KeyCode::Esc;
        if self.search.is_some() || !self.pending_keys.is_empty() || closes_list {
            return None;
        }
        let vim = self.vim.as_mut()?;
        match vim.handle_key(stroke, &mut self.editor) {
            VimOutcome::Ignored => None,
            VimOutcome::Handled => {
                self.note_view_change();
                Some(ComposerOutcome::Changed)
            }
            VimOutcome::SearchHistory => {
                self.open_search();
                Some(ComposerOutcome::Changed)
            }
            VimOutcome::Rows(rows) => {
                let is_selecting = vim.mode() != VimMode::Normal;
                let mut outcome = ComposerOutcome::Changed;
                for _ in 0..rows.unsigned_abs() {
                    let has_moved = self.move_rows(rows.signum());
                    if !has_moved && (is_selecting || rows.unsigned_abs() > 1) {
                        break;
                    }
                    if !has_moved {
                        outcome = if rows < 0 { self.move_up() } else { self.move_down() };
                    }
                }
                Some(outcome)
            }
        }
    }

    fn contexts(&self) -> Vec<KeyContext> {
        if self.search.is_some() {
            return vec![KeyContext::HistorySearch];
        }
        let mut contexts = Vec::new();
        if self.completion.is_open() {
            contexts.push(KeyContext::Autocomplete);
        }
        if self.surroundings.has_foreground_call {
            contexts.push(KeyContext::Task);
        }
        contexts.extend([KeyContext::Chat, KeyContext::Global]);
        contexts
    }

    /// Handles a key without a binding.
    fn handle_text_key(&mut self, stroke: KeyStroke) -> ComposerOutcome {
        if self.search.is_some() {
            return self.handle_search_key(stroke);
        }
        let is_plain = !stroke.modifiers().intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER);
        match stroke.code() {
            KeyCode::Char('?') if is_plain && self.editor.buffer.is_empty() && self.kind == InputKind::Prompt => {
                ComposerOutcome::Request(ComposerRequest::ShowHelp)
            }
            KeyCode::Char('!') if is_plain && self.editor.buffer.cursor() == 0 && self.kind == InputKind::Prompt => {
                self.kind = InputKind::Shell;
                self.note_edit();
                ComposerOutcome::Changed
            }
            KeyCode::Tab if self.kind == InputKind::Shell && self.complete_shell_command() => ComposerOutcome::Changed,
            KeyCode::Backspace if self.kind == InputKind::Shell && self.editor.buffer.cursor() == 0 => {
                self.kind = InputKind::Prompt;
                self.note_edit();
                ComposerOutcome::Changed
            }
            _ if self.editor.edit_with_key(stroke) => {
                self.note_view_change();
                ComposerOutcome::Changed
            }
            _ => ComposerOutcome::Ignored,
        }
    }

    /// Carries an action out, or hands it on.
    pub fn run_action(&mut self, action: KeyAction) -> ComposerOutcome {
        let is_vertical = matches!(action, KeyAction::HistoryPrevious | KeyAction::HistoryNext);
        if !is_vertical {
            self.view.goal_column = None;
        }
        self.editor.kills.end_run();
        match action {
            KeyAction::ChatSubmit if self.completion.is_open() => return self.submit_completion(),
            KeyAction::ChatSubmit => return self.submit(),
            KeyAction::AutocompleteAccept => {
                self.accept_completion();
            }
            KeyAction::AutocompleteDismiss => self.completion.dismiss(),
            KeyAction::AutocompleteNext => self.completion.select_next(),
            KeyAction::AutocompletePrevious => self.completion.select_previous(),
            KeyAction::ChatNewline => self.insert_newline(),
            KeyAction::ChatUndo => {
                self.editor.buffer.undo();
            }
            KeyAction::ChatRedo => {
                self.editor.buffer.redo();
            }
            KeyAction::ChatClearInput => {
                self.editor.buffer.set_text("");
            }
            KeyAction::ChatStash => self.exchange_stash(),
            KeyAction::ChatExternalEditor => {
                let text = self.current_prompt().text();
                return ComposerOutcome::Request(ComposerRequest::EditExternally { text });
            }
            KeyAction::ChatImagePaste => return ComposerOutcome::Request(ComposerRequest::ReadClipboard),
            KeyAction::HistoryPrevious => return self.move_up(),
            KeyAction::HistoryNext => return self.move_down(),
            KeyAction::HistorySearch => self.open_search(),
            KeyAction::HistorySearchNext => {
                if let Some(search) = &mut self.search {
                    search.select_next();
                }
                self.show_search_match();
            }
            KeyAction::HistorySearchAccept => self.close_search(),
            KeyAction::HistorySearchCancel => self.cancel_search(),
            KeyAction::HistorySearchExecute => {
                self.close_search();
                return self.submit();
            }
            KeyAction::HistorySearchCycleScope => return self.cycle_search_scope(),
            // With text in front of it, Ctrl+D deletes.
            KeyAction::AppExit if !self.editor.buffer.is_empty() => {
                let cursor = self.editor.buffer.cursor();
                let end = self.editor.buffer.next_border(cursor);
                self.editor.buffer.remove(cursor..end, EditKind::Erasing);
            }
            KeyAction::ChatCancel if self.kind == InputKind::Shell && self.editor.buffer.is_empty() => {
                self.kind = InputKind::Prompt;
            }
            other => return ComposerOutcome::Action(other),
        }
        self.note_view_change();
        ComposerOutcome::Changed
    }

    /// Puts the selected completion into the text; returns what it is.
    fn accept_completion(&mut self) -> Option<CompletionKind> {
        let (range, text, kind) = self.completion.accept()?;
        // A space that stands there already is not doubled.
        let has_space = self.editor.buffer.text().get(range.end..).is_some_and(|rest| rest.starts_with(' '));
        let text = if has_space { text.trim_end_matches(' ') } else { text.as_str() };
        self.editor.buffer.replace(range, text, EditKind::Other);
        if has_space && !text.ends_with('/') {
            let after = self.editor.buffer.next_border(self.editor.buffer.cursor());
            self.editor.buffer.set_cursor(after);
        }
        Some(kind)
    }

    /// Runs the selected command, or completes a name.
    fn submit_completion(&mut self) -> ComposerOutcome {
        match self.accept_completion() {
            Some(CompletionKind::Command) => self.submit(),
            _ => ComposerOutcome::Changed,
        }
    }

    /// Completes a shell command from the newest earlier one that begins alike.
    fn complete_shell_command(&mut self) -> bool {
        let typed = format!("!{}", self.editor.buffer.text());
        let is_longer = |text: &&str| text.starts_with(&typed) && text.len() > typed.len();
        let found = self.history.entries().iter().rev().map(|entry| entry.text.as_str()).find(is_longer);
        let Some(command) = found.and_then(|text| text.strip_prefix('!')).map(str::to_owned) else { return false };
        self.editor.buffer.set_text(&command);
        true
    }

    fn insert_newline(&mut self) {
        self.editor.buffer.insert("\n", EditKind::Other);
        self.note_edit();
    }

    /// Sends the draft; a backslash before the cursor makes a line break instead.
    fn submit(&mut self) -> ComposerOutcome {
        let cursor = self.editor.buffer.cursor();
        if self.editor.buffer.slice(0..cursor).ends_with('\\') {
            self.editor.buffer.replace(cursor - 1..cursor, "\n", EditKind::Other);
            self.note_edit();
            return ComposerOutcome::Changed;
        }
        match self.take_prompt() {
            Some(prompt) => {
                if let Some(stash) = self.stash.take() {
                    self.put_draft(stash);
                }
                ComposerOutcome::Submit(prompt)
            }
            None => ComposerOutcome::Changed,
        }
    }

    fn current_prompt(&self) -> ComposedPrompt {
        let shown = self.editor.buffer.text().to_owned();
        let (pasted, images) = (self.attachments.texts_in(&shown), self.attachments.images_in(&shown));
        ComposedPrompt { kind: self.kind, shown, pasted, images }
    }

    /// Empties the input and returns what was in it; `None` if that was blank.
    fn take_prompt(&mut self) -> Option<ComposedPrompt> {
        if self.editor.buffer.text().trim().is_empty() {
            return None;
        }
        let mut prompt = self.current_prompt();
        prompt.shown = prompt.shown.trim_end().to_owned();
        self.history.reset();
        self.editor.buffer.end_group();
        if let Some(vim) = &mut self.vim {
            vim.reset();
        }
        self.put_draft(PromptDraft::default());
        self.editor.buffer.forget_changes();
        self.attachments
            .retain_used(self.stash.iter().map(|stash| stash.text.as_str()).chain(self.history.kept_texts()));
        Some(prompt)
    }

    // Drafts and history

    fn current_draft(&self) -> PromptDraft {
        PromptDraft { text: self.editor.buffer.text().to_owned(), kind: self.kind, cursor: self.editor.buffer.cursor() }
    }

    fn put_draft(&mut self, draft: PromptDraft) {
        self.editor.buffer.set_text(&draft.text);
        self.editor.buffer.set_cursor(draft.cursor);
        self.kind = draft.kind;
        self.note_view_change();
    }

    /// Puts an earlier prompt into the input, with its pasted texts.
    fn put_entry(&mut self, entry: &PromptHistoryEntry) {
        let (kind, text) = match entry.text.strip_prefix('!') {
            Some(command) => (InputKind::Shell, command),
            None => (InputKind::Prompt, entry.text.as_str()),
        };
        let mut text = text.to_owned();
        for (number, pasted) in &entry.pasted {
            let Ok(number) = usize::try_from(*number) else { continue };
            let old = text_placeholder(number, pasted);
            if let Some(at) = text.find(&old) {
                let new = self.attachments.add_text(pasted.clone());
                self.editor.buffer.add_atom(new.clone());
                text.replace_range(at..at + old.len(), &new);
            }
        }
        let cursor = text.len();
        self.put_draft(PromptDraft { text, kind, cursor });
    }

    fn exchange_stash(&mut self) {
        if !self.editor.buffer.is_empty() {
            self.stash = Some(self.current_draft());
            self.put_draft(PromptDraft::default());
        } else if let Some(stash) = self.stash.take() {
            self.put_draft(stash);
        }
    }

    fn take_history_step(&mut self, step: HistoryStep) {
        match step {
            HistoryStep::Entry(entry) => self.put_entry(&entry),
            HistoryStep::Draft(draft) => self.put_draft(draft),
        }
    }

    /// Moves a row up; from the first row to the prompt before.
    fn move_up(&mut self) -> ComposerOutcome {
        if self.move_rows(-1) {
            return ComposerOutcome::Changed;
        }
        if self.surroundings.queued > 0 && self.history.is_at_draft() {
            return ComposerOutcome::Request(ComposerRequest::RecallQueued);
        }
        if let Some(step) = self.history.step_back(self.current_draft()) {
            self.take_history_step(step);
        } else {
            self.editor.buffer.set_cursor(0);
        }
        ComposerOutcome::Changed
    }

    /// Moves a row down; from the last row to the prompt after.
    fn move_down(&mut self) -> ComposerOutcome {
        if self.move_rows(1) {
            return ComposerOutcome::Changed;
        }
        if let Some(step) = self.history.step_forward(self.current_draft()) {
            self.take_history_step(step);
        } else {
            self.editor.buffer.set_cursor(self.editor.buffer.text().len());
        }
        ComposerOutcome::Changed
    }

    // After changes

    fn note_edit(&mut self) {
        self.editor.kills.end_run();
        self.note_view_change();
    }

    fn note_view_change(&mut self) {
        self.view.goal_column = None;
    }
}

/// Returns text from outside as it may stand in a draft: with `\n` for every line break, without escape sequences and
/// control characters. Invisible characters stay; they are spelled out where they are shown.
pub(crate) fn clean_inserted(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    if !text.chars().any(|char| char.is_control() && char != '\n' && char != '\t') {
        return text;
    }
    let is_kept = |char: char| !char.is_control() && InvisibleChar::classify(char).is_some();
    let pieces = text.split_inclusive(is_kept);
    let mut out = String::with_capacity(text.len());
    for piece in pieces {
        let invisible = piece.chars().next_back().filter(|char| is_kept(*char));
        let visible = piece.strip_suffix(|char| Some(char) == invisible).unwrap_or(piece);
        out.push_str(&sanitise(visible));
        out.extend(invisible);
    }
    out
}

#[cfg(test)]
mod tests;
