//! A message of the user's to a subagent that runs.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::PickerOutcome;
use crate::app::{AppEffect, TaskLabel};
use crate::dialogs::text_field::{FieldLines, TextField};
use crate::glyphs::RenderContext;
use crate::key_bindings::KeyStroke;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{clean_line, truncate_line};

/// The agent, and what was typed so far.
#[derive(Debug)]
pub struct MessageForm {
    agent: TaskLabel,
    field: TextField,
}

impl MessageForm {
    pub fn new(agent: TaskLabel) -> Self {
        Self { agent, field: TextField::new(FieldLines::Many) }
    }

    pub(super) fn handle_key(&mut self, key: KeyEvent) -> PickerOutcome {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let may_send = !key.modifiers.intersects(KeyModifiers::SHIFT | KeyModifiers::ALT);
        match key.code {
            KeyCode::Esc => PickerOutcome::Closes,
            KeyCode::Char('c') if has_control => PickerOutcome::Closes,
            KeyCode::Enter if may_send && self.field.text().trim().is_empty() => PickerOutcome::Stays,
            KeyCode::Enter if may_send => {
                let (agent, text) = (self.agent.clone(), self.field.text().trim().to_owned());
                PickerOutcome::Chooses(vec![AppEffect::MessageAgent { agent, text }])
            }
            _ => {
                self.field.handle_key(KeyStroke::from_event(&key));
                PickerOutcome::Stays
            }
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        self.field.insert(text);
    }

    pub(super) fn render(&self, cx: &RenderContext<'_>) -> (Vec<StyledLine>, Option<(usize, usize)>) {
        let title = format!("  Message to {}", clean_line(&self.agent.title));
        let title = StyledLine::of(title, TextStyle::of(TextTone::Accent).bold());
        let mut lines = vec![
            StyledLine::of(cx.glyphs.rule.repeat(cx.width), TextTone::Dim),
            truncate_line(&title, cx.width),
            StyledLine::blank(),
        ];
        let field = self.field.render(cx.width.saturating_sub(4).max(2), TextTone::Text);
        let (row, column) = field.cursor;
        let cursor = (lines.len() + row, column + 4);
        for (index, line) in field.lines.into_iter().enumerate() {
            let mark = if index == 0 { format!("  {} ", cx.glyphs.prompt) } else { " ".repeat(4) };
            lines.push(crate::feed::prefix_line(&mark, TextTone::Accent, line));
        }
        lines.push(StyledLine::blank());
        let keys = "  enter sends, it is read between two steps · esc";
        lines.push(truncate_line(&StyledLine::of(keys, TextTone::Dim), cx.width));
        (lines, Some(cursor))
    }
}
