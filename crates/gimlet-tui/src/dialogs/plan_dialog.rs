//! The approval of a plan.

use std::path::PathBuf;

use gimlet_proto::{Approval, AskAnswer, PermissionMode, UserReply};

use super::choice_list::{ChoiceList, ChoiceOutcome, ChoiceRow};
use super::dialog_keys::{DialogKey, DialogKeys};
use super::dialog_layout::{DialogParts, DialogSection};
use super::{DialogEffect, DialogOutcome, DialogPage, mode_change};
use crate::feed::indent_lines;
use crate::glyphs::RenderContext;
use crate::key_bindings::KeyStroke;
use crate::markdown::render_markdown;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{clean_line, truncate_line};

/// The question about one plan.
#[derive(Clone, Debug)]
pub(super) struct PlanDialog {
    plan: String,
    file: Option<PathBuf>,
    is_changed: bool,
    list: ChoiceList,
}

impl PlanDialog {
    pub(super) fn new(plan: &str, file: Option<PathBuf>) -> Self {
        let rows = vec![
            ChoiceRow::new("Yes, and accept edits"),
            ChoiceRow::new("Yes, and approve each edit manually"),
            ChoiceRow::new("No, keep planning").with_detail("(say what to change; esc)").with_field(),
        ];
        Self { plan: plan.to_owned(), file, is_changed: false, list: ChoiceList::new(rows) }
    }

    fn approve(&self, mode: PermissionMode) -> DialogOutcome {
        if self.is_changed {
            // The reply carries the plan; the mode follows it.
            return DialogOutcome::Answer {
                answer: AskAnswer::Replied(UserReply::Plan(self.plan.clone())),
                effect: Some(DialogEffect::SetMode(mode)),
            };
        }
        DialogOutcome::answer(AskAnswer::Yes(Approval { input: None, changes: vec![mode_change(mode)] }))
    }

    fn decline(&self) -> DialogOutcome {
        let message = self.list.rows().get(2).map_or("", ChoiceRow::words).to_owned();
        DialogOutcome::answer(AskAnswer::No { message, interrupt: false })
    }
}

impl DialogPage for PlanDialog {
    fn handle_key(&mut self, stroke: KeyStroke, keys: &DialogKeys) -> DialogOutcome {
        let takes_letters = self.list.is_on_field();
        match keys.translate(stroke) {
            DialogKey::Letter('e') if !takes_letters => {
                return DialogOutcome::EditExternally { text: self.plan.clone() };
            }
            DialogKey::EditExternally => return DialogOutcome::EditExternally { text: self.plan.clone() },
            _ => {}
        }
        match self.list.handle_key(stroke, keys) {
            ChoiceOutcome::Ignored => DialogOutcome::Ignored,
            ChoiceOutcome::Changed => DialogOutcome::Changed,
            ChoiceOutcome::Accepted(0) => self.approve(PermissionMode::AcceptEdits),
            ChoiceOutcome::Accepted(1) => self.approve(PermissionMode::Default),
            ChoiceOutcome::Accepted(_) => self.decline(),
            ChoiceOutcome::Cancelled => {
                DialogOutcome::answer(AskAnswer::No { message: String::new(), interrupt: false })
            }
        }
    }

    fn paste(&mut self, text: &str) {
        self.list.paste(text);
    }

    fn replace_text(&mut self, text: &str) {
        if text.trim() != self.plan.trim() {
            self.plan = text.to_owned();
            self.is_changed = true;
        }
    }

    fn parts(&self, context: &RenderContext<'_>) -> DialogParts {
        let mut title = StyledLine::of("  Start on this plan?", TextStyle::of(TextTone::Warn).bold());
        if self.is_changed {
            title.push("  changed by you", TextTone::Success);
        }
        let inner = RenderContext { width: context.width.saturating_sub(2).max(8), ..*context };
        let view = self.list.render(context);
        let mut hints = vec!["enter takes it".to_owned(), "e edits the plan".to_owned()];
        if let Some(name) = self.file.as_ref().and_then(|file| file.file_name()) {
            hints.push(format!("kept as {}", clean_line(&name.to_string_lossy())));
        }
        DialogParts {
            title: vec![truncate_line(&title, context.width)],
            body: indent_lines(render_markdown(&self.plan, &inner), 2),
            choices: DialogSection { lines: view.lines, focus: view.focus, cursor: view.cursor },
            hints,
        }
    }
}
