//! The question whether the files of a folder are trusted, with everything that would act.

use gimlet_proto::{AskAnswer, TrustQuestion};

use super::choice_list::{ChoiceList, ChoiceOutcome, ChoiceRow};
use super::dialog_keys::DialogKeys;
use super::dialog_layout::{DialogParts, DialogSection};
use super::{DialogEffect, DialogOutcome, DialogPage, indented_rows};
use crate::feed::{indent_lines, text_rows};
use crate::glyphs::RenderContext;
use crate::key_bindings::KeyStroke;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, wrap_line};

/// The question about one folder.
#[derive(Clone, Debug)]
pub(super) struct TrustDialog {
    question: TrustQuestion,
    list: ChoiceList,
}

impl TrustDialog {
    pub(super) fn new(question: &TrustQuestion) -> Self {
        let rows = vec![ChoiceRow::new("Yes, I trust this folder"), ChoiceRow::new("No, leave").with_detail("(esc)")];
        let mut list = ChoiceList::new(rows);
        // Nothing acts because somebody pressed Enter once too often.
        list.select(1);
        Self { question: question.clone(), list }
    }

    fn body(&self, context: &RenderContext<'_>) -> Vec<StyledLine> {
        let width = context.width.saturating_sub(4).max(8);
        let folder = clean_line(&self.question.folder.display().to_string()).into_owned();
        let mut lines = indent_lines(text_rows(&folder, TextTone::Accent, width, BreakRule::Cells), 4);
        lines.push(StyledLine::blank());
        let intro = match self.question.items.len() {
            0 => "Its files can name commands to run and servers to start. Trust it only if you know where it is from.",
            _ => "Its files name what follows. It acts only if you trust it:",
        };
        lines.extend(indented_rows(intro, TextTone::Text, 2, context));
        for item in &self.question.items {
            let mut head = StyledLine::of(format!("  {} ", context.glyphs.bullet), TextTone::Warn);
            head.push(clean_line(&item.title), TextTone::Text);
            let place = match item.line {
                Some(line) => format!("  {}:{line}", item.file.display()),
                None => format!("  {}", item.file.display()),
            };
            head.push(clean_line(&place), TextTone::Dim);
            if !item.is_new {
                head.push("  changed since it was trusted", TextTone::Warn);
            }
            lines.extend(wrap_line(&head.hanging(4), context.width, BreakRule::Words));
            lines.extend(indent_lines(text_rows(&item.shown, TextTone::Text, width, BreakRule::Cells), 4));
        }
        lines
    }
}

impl DialogPage for TrustDialog {
    fn handle_key(&mut self, stroke: KeyStroke, keys: &DialogKeys) -> DialogOutcome {
        let declined = || DialogOutcome::Answer {
            answer: AskAnswer::No { message: String::new(), interrupt: true },
            effect: Some(DialogEffect::Leave),
        };
        match self.list.handle_key(stroke, keys) {
            ChoiceOutcome::Ignored => DialogOutcome::Ignored,
            ChoiceOutcome::Changed => DialogOutcome::Changed,
            ChoiceOutcome::Accepted(0) => DialogOutcome::answer(AskAnswer::yes()),
            ChoiceOutcome::Accepted(_) | ChoiceOutcome::Cancelled => declined(),
        }
    }

    fn parts(&self, context: &RenderContext<'_>) -> DialogParts {
        let title = "Do you trust the files in this folder?";
        let view = self.list.render(context);
        DialogParts {
            title: indented_rows(title, TextStyle::of(TextTone::Warn).bold(), 2, context),
            body: self.body(context),
            choices: DialogSection { lines: view.lines, focus: view.focus, cursor: view.cursor },
            hints: vec!["enter takes it".to_owned(), "esc leaves".to_owned()],
        }
    }
}
