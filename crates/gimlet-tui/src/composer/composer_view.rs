//! The input on the screen: its rows, the cursor in them, and what stands below it.

use std::ops::Range;

use super::history_search::find_ignoring_case;
use super::input_layout::{InputLayout, ScreenPosition};
use super::{HistoryScope, InputKind, PromptComposer};
use crate::glyphs::RenderContext;
use crate::key_bindings::{KeyAction, KeyContext};
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{clean_line, truncate_line};

/// Columns of the mark in front of the text, and the one after it that is kept for the cursor.
const MARK_WIDTH: usize = 2;
const CURSOR_WIDTH: usize = 1;

/// The input as lines of at most the width that it was rendered for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputView {
    pub lines: Vec<StyledLine>,
    /// Row and column of the cursor in `lines`, from 0.
    pub cursor: Option<(usize, usize)>,
    /// What stands below the input in place of the footer: completions, the search.
    pub popup: Vec<StyledLine>,
}

/// What the editor remembers of how it was drawn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ViewState {
    /// Columns for text; 0 before it was drawn.
    text_width: usize,
    /// First row on the screen.
    first_row: usize,
    /// Column that moving up and down returns to.
    pub(super) goal_column: Option<usize>,
}

impl PromptComposer {
    /// Renders the input in at most `max_rows` rows; longer text is scrolled so that the cursor is seen.
    pub fn render(&mut self, width: usize, max_rows: usize, context: &RenderContext<'_>) -> InputView {
        self.view.text_width = width.saturating_sub(MARK_WIDTH + CURSOR_WIDTH).max(1);
        let layout = InputLayout::new(&self.editor.buffer, self.view.text_width);
        let cursor = layout.position(self.editor.buffer.cursor());
        let shown = max_rows.clamp(1, layout.rows.len().max(1));
        self.view.first_row = first_visible_row(self.view.first_row, cursor.row, shown, layout.rows.len());
        let query = self.search.as_ref().map(|search| search.query.as_str());
        let marked = query.and_then(|query| find_ignoring_case(self.editor.buffer.text(), query));
        let tone = if self.kind == InputKind::Shell { TextTone::Warn } else { TextTone::Accent };
        let atoms = self.placeholder_ranges();
        let selection = self.vim.as_ref().and_then(|vim| vim.selection(&self.editor.buffer));
        let mut lines = Vec::with_capacity(shown);
        for (index, row) in layout.rows.iter().enumerate().skip(self.view.first_row).take(shown) {
            let mark = match (index, self.kind) {
                (0, InputKind::Prompt) => context.glyphs.prompt,
                (0, InputKind::Shell) => "!",
                _ => " ",
            };
            let mut line = StyledLine::of(mark, tone).with(" ", TextTone::Text);
            for (range, text) in layout.row_texts(row, self.editor.buffer.text()) {
                let style = text_style(&range, marked.as_ref(), &atoms);
                let is_selected =
                    selection.as_ref().is_some_and(|all| all.start <= range.start && range.end <= all.end);
                line.push(text, if is_selected { style.reverse() } else { style });
            }
            lines.push(truncate_line(&line, width));
        }
        if let (1, Some(line), Some(hint)) = (layout.rows.len(), lines.first_mut(), self.argument_hint()) {
            line.push(hint, TextTone::Dim);
            *line = truncate_line(line, width);
        }
        if self.editor.buffer.is_empty() && self.search.is_none() {
            lines = vec![truncate_line(&self.empty_line(tone, context), width)];
        }
        let column = (MARK_WIDTH + cursor.column).min(width.saturating_sub(1));
        InputView {
            lines,
            cursor: Some((cursor.row - self.view.first_row, column)),
            popup: self.render_popup(width, context),
        }
    }

    fn placeholder_ranges(&self) -> Vec<Range<usize>> {
        let text = self.editor.buffer.text();
        self.attachments
            .placeholders()
            .flat_map(|placeholder| text.match_indices(placeholder).map(|(at, found)| at..at + found.len()))
            .collect()
    }

    /// Returns the arguments of the command that was just typed.
    fn argument_hint(&self) -> Option<String> {
        let text = self.editor.buffer.text();
        if self.kind == InputKind::Shell || self.editor.buffer.cursor() != text.len() || self.completion.is_open() {
            return None;
        }
        let hint = self.completion.argument_hint(text)?;
        let gap = if text.ends_with(' ') { "" } else { " " };
        Some(format!("{gap}{}", clean_line(hint)))
    }

    fn empty_line(&self, tone: TextTone, context: &RenderContext<'_>) -> StyledLine {
        match self.kind {
            InputKind::Prompt => {
                let mut hint = "Ask, or type / for commands".to_owned();
                if self.has_stash()
                    && let Some(key) = self.bindings.keys_for(KeyContext::Chat, KeyAction::ChatStash)
                {
                    hint = format!("{key} brings back the draft that is put aside");
                }
                StyledLine::of(context.glyphs.prompt, tone).with(" ", TextTone::Text).with(hint, TextTone::Dim)
            }
            InputKind::Shell => {
                StyledLine::of("!", tone).with(" ", TextTone::Text).with("Run a command; esc leaves", TextTone::Dim)
            }
        }
    }

    fn render_popup(&self, width: usize, context: &RenderContext<'_>) -> Vec<StyledLine> {
        let Some(search) = &self.search else { return self.completion.render(context) };
        let (place, count) = search.place();
        let scope = match search.scope {
            HistoryScope::Folder => "Search prompts of this folder: ",
            HistoryScope::Everywhere => "Search prompts of all folders: ",
        };
        let mut line =
            StyledLine::of(format!("  {scope}"), TextTone::Dim).with(clean_line(&search.query), TextTone::Text);
        match count {
            0 if search.query.is_empty() => {}
            0 => line.push("  no match", TextTone::Warn),
            _ => line.push(format!("  {place} of {count}"), TextTone::Dim),
        }
        let separator = context.glyphs.separator;
        let keys = ["ctrl+r older", "enter sends", "tab edits", "ctrl+s other folders", "ctrl+c cancels"];
        let hints = StyledLine::of(format!("  {}", keys.join(&format!(" {separator} "))), TextTone::Dim);
        vec![truncate_line(&line, width), truncate_line(&hints, width)]
    }

    /// Moves the cursor by rows of the screen; returns false at the first and at the last row.
    pub(super) fn move_rows(&mut self, by: isize) -> bool {
        let width = if self.view.text_width == 0 { 80 } else { self.view.text_width };
        let layout = InputLayout::new(&self.editor.buffer, width);
        let ScreenPosition { row, column } = layout.position(self.editor.buffer.cursor());
        let goal = self.view.goal_column.unwrap_or(column);
        let Some(target) = row.checked_add_signed(by) else { return false };
        if target >= layout.rows.len() {
            return false;
        }
        self.editor.buffer.set_cursor(layout.border_at(target, goal));
        self.view.goal_column = Some(goal);
        true
    }
}

fn text_style(range: &Range<usize>, marked: Option<&Range<usize>>, atoms: &[Range<usize>]) -> TextStyle {
    let is_inside = |outer: &Range<usize>| outer.start <= range.start && range.end <= outer.end;
    if marked.is_some_and(is_inside) {
        TextStyle::of(TextTone::Accent).underline()
    } else if atoms.iter().any(is_inside) {
        TextTone::Accent.into()
    } else {
        TextTone::Text.into()
    }
}

/// Returns the first row on the screen: the one of before, unless the cursor would not be seen.
fn first_visible_row(first: usize, cursor: usize, shown: usize, count: usize) -> usize {
    let lowest = (cursor + 1).saturating_sub(shown);
    first.clamp(lowest, cursor).min(count.saturating_sub(shown))
}
