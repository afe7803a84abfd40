//! Questions of the model with answers to choose from: one after the other as tabs, and a last look at all answers.

use crossterm::event::KeyCode;
use gimlet_proto::{AskAnswer, QuestionAnswers, UserQuestion, UserReply};

use super::choice_list::{ChoiceList, ChoiceOutcome, ChoiceRow};
use super::dialog_keys::{DialogKey, DialogKeys};
use super::dialog_layout::{DialogParts, DialogSection};
use super::{DialogOutcome, DialogPage};
use crate::feed::{gutter_lines, text_rows};
use crate::glyphs::RenderContext;
use crate::key_bindings::KeyStroke;
use crate::markdown::render_markdown;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, truncate_end, wrap_line};

/// Columns of a question's tag.
const MAX_HEADER: usize = 12;

/// One question with its choices.
#[derive(Clone, Debug)]
struct QuestionPage {
    question: UserQuestion,
    list: ChoiceList,
    answer: Option<Vec<String>>,
}

/// Questions of one call.
#[derive(Clone, Debug)]
pub(super) struct QuestionDialog {
    pages: Vec<QuestionPage>,
    /// Index of the page; their number for the last look.
    current: usize,
    review: ChoiceList,
}

impl QuestionPage {
    fn new(question: &UserQuestion) -> Self {
        let is_multi = question.multi_select;
        let row = |label: &str| {
            let row = ChoiceRow::new(label);
            if is_multi { row.with_mark(false) } else { row }
        };
        let mut rows: Vec<ChoiceRow> = question
            .options
            .iter()
            .map(|option| row(&option.label).with_description(option.description.clone()))
            .collect();
        rows.push(row("Other").with_detail("(type your own answer)").with_field());
        Self { question: question.clone(), list: ChoiceList::new(rows), answer: None }
    }

    /// Returns the text of a choice: its label, or the words of the last one.
    fn text_of(&self, index: usize) -> Option<String> {
        match self.question.options.get(index) {
            Some(option) => Some(option.label.clone()),
            None => {
                let words = self.list.rows().get(index).map_or("", ChoiceRow::words);
                if words.is_empty() { None } else { Some(words.to_owned()) }
            }
        }
    }

    /// Keeps the answer that Enter gives; returns false if there is none yet.
    fn take_answer(&mut self, index: usize) -> bool {
        let marked: Vec<usize> =
            self.list.rows().iter().enumerate().filter(|(_, row)| row.is_marked()).map(|(at, _)| at).collect();
        let chosen = if self.question.multi_select && !marked.is_empty() { marked } else { vec![index] };
        let answer: Vec<String> = chosen.into_iter().filter_map(|index| self.text_of(index)).collect();
        if answer.is_empty() {
            return false;
        }
        self.answer = Some(answer);
        true
    }
}

impl QuestionDialog {
    pub(super) fn new(questions: &[UserQuestion]) -> Self {
        Self {
            pages: questions.iter().map(QuestionPage::new).collect(),
            current: 0,
            review: ChoiceList::new(vec![
                ChoiceRow::new("Submit answers"),
                ChoiceRow::new("Cancel").with_detail("(esc)"),
            ]),
        }
    }

    fn submit(&self) -> DialogOutcome {
        let answers =
            self.pages.iter().filter_map(|page| Some((page.question.question.clone(), page.answer.clone()?))).collect();
        let answers = QuestionAnswers { answers, ..QuestionAnswers::default() };
        DialogOutcome::answer(AskAnswer::Replied(UserReply::Answers(answers)))
    }

    /// Goes on to the next question without an answer, or to the last look.
    fn go_on(&mut self) -> DialogOutcome {
        if self.pages.len() == 1 {
            return self.submit();
        }
        let after = (self.current + 1..self.pages.len()).find(|at| self.pages[*at].answer.is_none());
        let open = after.or_else(|| self.pages.iter().position(|page| page.answer.is_none()));
        self.current = open.unwrap_or(self.pages.len());
        DialogOutcome::Changed
    }

    fn turn_page(&mut self, by: isize) -> DialogOutcome {
        let count = self.pages.len() + usize::from(self.pages.len() > 1);
        self.current = (self.current + count).saturating_add_signed(by) % count.max(1);
        DialogOutcome::Changed
    }

    fn cancelled() -> DialogOutcome {
        DialogOutcome::answer(AskAnswer::No { message: String::new(), interrupt: false })
    }

    fn tabs(&self, context: &RenderContext<'_>) -> Vec<StyledLine> {
        let mut line = StyledLine::plain("  ");
        let is_several = self.pages.len() > 1;
        for (index, page) in self.pages.iter().enumerate() {
            let header = truncate_end(&clean_line(&page.question.header), MAX_HEADER).into_owned();
            if is_several {
                let mark = if page.answer.is_some() { context.glyphs.marked } else { context.glyphs.unmarked };
                line.push(format!("{mark} "), if page.answer.is_some() { TextTone::Success } else { TextTone::Dim });
            }
            line.push(header, tab_style(index == self.current));
            line.push("   ", TextTone::Text);
        }
        if is_several {
            line.push("Submit", tab_style(self.current == self.pages.len()));
        }
        wrap_line(&line.hanging(2), context.width, BreakRule::Words)
    }

    fn review_rows(&self, context: &RenderContext<'_>) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        for page in &self.pages {
            let question = StyledLine::of(format!("  {}", clean_line(&page.question.question)), TextTone::Text);
            lines.extend(wrap_line(&question.hanging(2), context.width, BreakRule::Words));
            let (text, tone) = match &page.answer {
                Some(answer) => (clean_line(&answer.join(", ")).into_owned(), TextTone::Accent),
                None => ("no answer yet".to_owned(), TextTone::Warn),
            };
            lines.extend(wrap_line(
                &StyledLine::of(format!("    {text}"), tone).hanging(4),
                context.width,
                BreakRule::Words,
            ));
        }
        lines
    }
}

fn tab_style(is_current: bool) -> TextStyle {
    if is_current { TextStyle::of(TextTone::Accent).bold().underline() } else { TextStyle::of(TextTone::Dim) }
}

impl DialogPage for QuestionDialog {
    fn handle_key(&mut self, stroke: KeyStroke, keys: &DialogKeys) -> DialogOutcome {
        let is_several = self.pages.len() > 1;
        let list = self.pages.get(self.current).map_or(&self.review, |page| &page.list);
        let has_words = list.is_on_field() && !list.rows()[list.selected()].words().is_empty();
        if is_several {
            match (keys.translate(stroke), stroke.code()) {
                (DialogKey::NextField, _) => return self.turn_page(1),
                (DialogKey::PreviousField, _) => return self.turn_page(-1),
                (_, KeyCode::Right) if !has_words => return self.turn_page(1),
                (_, KeyCode::Left) if !has_words => return self.turn_page(-1),
                _ => {}
            }
        }
        let list = match self.pages.get_mut(self.current) {
            Some(page) => &mut page.list,
            None => &mut self.review,
        };
        let outcome = list.handle_key(stroke, keys);
        match (outcome, self.pages.get_mut(self.current)) {
            (ChoiceOutcome::Ignored, _) => DialogOutcome::Ignored,
            (ChoiceOutcome::Changed, _) => DialogOutcome::Changed,
            (ChoiceOutcome::Cancelled, _) => Self::cancelled(),
            (ChoiceOutcome::Accepted(index), Some(page)) => {
                if page.take_answer(index) {
                    self.go_on()
                } else {
                    DialogOutcome::Changed
                }
            }
            (ChoiceOutcome::Accepted(0), None) => match self.pages.iter().position(|page| page.answer.is_none()) {
                Some(open) => {
                    self.current = open;
                    DialogOutcome::Changed
                }
                None => self.submit(),
            },
            (ChoiceOutcome::Accepted(_), None) => Self::cancelled(),
        }
    }

    fn paste(&mut self, text: &str) {
        if let Some(page) = self.pages.get_mut(self.current) {
            page.list.paste(text);
        }
    }

    fn parts(&self, context: &RenderContext<'_>) -> DialogParts {
        let mut parts = DialogParts { title: self.tabs(context), ..DialogParts::default() };
        let Some(page) = self.pages.get(self.current) else {
            parts.body = self.review_rows(context);
            let view = self.review.render(context);
            parts.choices = DialogSection { lines: view.lines, focus: view.focus, cursor: view.cursor };
            parts.hints = vec!["enter takes it".to_owned(), "tab goes back to a question".to_owned()];
            return parts;
        };
        let question =
            StyledLine::of(format!("  {}", clean_line(&page.question.question)), TextStyle::of(TextTone::Warn).bold());
        parts.body = wrap_line(&question.hanging(2), context.width, BreakRule::Words);
        let shown = page.question.options.get(page.list.selected()).and_then(|option| option.preview.as_deref());
        if let Some(preview) = shown {
            let inner = RenderContext { width: context.width.saturating_sub(6).max(8), ..*context };
            let mut lines = render_markdown(preview, &inner);
            if lines.is_empty() {
                lines = text_rows(preview, TextTone::Text, inner.width, BreakRule::Cells);
            }
            parts.body.extend(gutter_lines(lines, context.glyphs));
        }
        let view = page.list.render(context);
        parts.choices = DialogSection { lines: view.lines, focus: view.focus, cursor: view.cursor };
        parts.hints = match page.question.multi_select {
            true => vec!["space marks".to_owned(), "enter sends all marked".to_owned()],
            false => vec!["enter takes it".to_owned()],
        };
        if self.pages.len() > 1 {
            parts.hints.push("tab next question".to_owned());
        }
        parts.hints.push("esc declines".to_owned());
        parts
    }
}
