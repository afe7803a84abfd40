//! Keys of the search in earlier prompts.

use crossterm::event::{KeyCode, KeyModifiers};

use super::history_search::{HistoryScope, HistorySearch, find_ignoring_case};
use super::text_editor::typed_chars;
use super::{ComposerOutcome, ComposerRequest, PromptComposer};
use crate::key_bindings::{KeyResolution, KeyStroke};

impl PromptComposer {
    pub(super) fn open_search(&mut self) {
        self.search = Some(HistorySearch::new(self.current_draft()));
    }

    pub(super) fn update_search(&mut self) {
        let Some(search) = &mut self.search else { return };
        let entries = match (search.scope, &self.full_history) {
            (HistoryScope::Everywhere, Some(entries)) => entries.as_slice(),
            _ => self.history.entries(),
        };
        search.update(entries);
        self.show_search_match();
    }

    /// Shows the selected match in the input, with the cursor at what was searched for.
    pub(super) fn show_search_match(&mut self) {
        let Some(search) = &self.search else { return };
        let query = search.query.clone();
        match search.selected().cloned() {
            Some(entry) => {
                self.put_entry(&entry);
                let found = find_ignoring_case(self.editor.buffer.text(), &query);
                self.editor.buffer.set_cursor(found.map_or(0, |range| range.start));
            }
            None => {
                let original = search.original.clone();
                self.put_draft(original);
            }
        }
        self.note_view_change();
    }

    pub(super) fn handle_search_key(&mut self, stroke: KeyStroke) -> ComposerOutcome {
        let Some(search) = &mut self.search else { return ComposerOutcome::Ignored };
        let is_plain = !stroke.modifiers().intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER);
        match stroke.code() {
            KeyCode::Char(char) if is_plain => search.query.extend(typed_chars(char, stroke.modifiers())),
            KeyCode::Backspace if search.query.is_empty() => {
                self.cancel_search();
                return ComposerOutcome::Changed;
            }
            KeyCode::Backspace => {
                search.query.pop();
            }
            // Any other key takes the match and acts on it.
            _ => {
                self.close_search();
                return match self.bindings.resolve(&self.contexts(), &[stroke]) {
                    KeyResolution::Action(action) => self.run_action(action),
                    _ => self.handle_text_key(stroke),
                };
            }
        }
        self.update_search();
        ComposerOutcome::Changed
    }

    pub(super) fn cycle_search_scope(&mut self) -> ComposerOutcome {
        let Some(search) = &mut self.search else { return ComposerOutcome::Ignored };
        search.scope = match search.scope {
            HistoryScope::Folder => HistoryScope::Everywhere,
            HistoryScope::Everywhere => HistoryScope::Folder,
        };
        let must_read = search.scope == HistoryScope::Everywhere && self.full_history.is_none();
        self.update_search();
        if must_read {
            return ComposerOutcome::Request(ComposerRequest::ReadFullHistory);
        }
        ComposerOutcome::Changed
    }

    /// Ends the search; what it found stays in the input.
    pub(super) fn close_search(&mut self) {
        if self.search.take().is_some() {
            self.full_history = None;
            self.note_view_change();
        }
    }

    pub(super) fn cancel_search(&mut self) {
        if let Some(search) = self.search.take() {
            self.full_history = None;
            self.put_draft(search.original);
        }
    }
}
