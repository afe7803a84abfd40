//! Questions and pickers that take the place of the input, all made from one kit of lists, confirmations and forms.
//! They read keys and draw lines; answers and wishes go out as [`DialogOutcome`].

mod ask_queue;
mod choice_list;
mod command_form;
mod dialog_keys;
mod dialog_layout;
mod elicitation_dialog;
mod form_fields;
mod permission_dialog;
mod plan_dialog;
mod question_dialog;
mod settings_form;
pub(crate) mod text_field;
mod trust_dialog;

use std::sync::Arc;

use crossterm::event::{KeyEvent, KeyEventKind};
use gimlet_proto::{AskAnswer, AskBody, AskId, AskView, PermissionMode};
use serde_json::value::RawValue;

pub use ask_queue::AskQueue;
pub(crate) use command_form::FieldSpec;
pub use command_form::{CommandForm, CommandFormOutcome};
pub use dialog_layout::DialogView;
pub use settings_form::{SettingChange, SettingsForm, SettingsFormOutcome};

use dialog_keys::{DialogKey, DialogKeys};
use dialog_layout::{BodyScroll, DialogParts};

use crate::feed::{indent_lines, split_row, text_rows};
use crate::glyphs::RenderContext;
use crate::key_bindings::{KeyBindings, KeyStroke};
use crate::styled_line::{StyledLine, TextStyle};
use crate::text_width::{BreakRule, clean_line, line_width, truncate_line, wrap_line};

/// What a key led to.
#[derive(Clone, Debug)]
pub enum DialogOutcome {
    /// The key means nothing here.
    Ignored,
    /// Redraw.
    Changed,
    /// The answer. The question is closed; `effect` follows the answer.
    Answer { answer: AskAnswer, effect: Option<DialogEffect> },
    /// Open this text in the user's editor; give the result to [`AskDialog::replace_text`].
    EditExternally { text: String },
}

/// What follows an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialogEffect {
    SetMode(PermissionMode),
    /// Open an address in the browser.
    OpenUrl(String),
    /// End the program.
    Leave,
}

impl DialogOutcome {
    fn answer(answer: AskAnswer) -> Self {
        DialogOutcome::Answer { answer, effect: None }
    }
}

/// One question with its choices.
trait DialogPage {
    fn handle_key(&mut self, stroke: KeyStroke, keys: &DialogKeys) -> DialogOutcome;

    /// Takes pasted text into the field that has the cursor.
    fn paste(&mut self, _text: &str) {}

    /// Takes what the user's editor returned.
    fn replace_text(&mut self, _text: &str) {}

    fn parts(&self, context: &RenderContext<'_>) -> DialogParts;
}

/// An open question of the session.
pub struct AskDialog {
    id: AskId,
    page: Box<dyn DialogPage + Send>,
    keys: DialogKeys,
    scroll: BodyScroll,
}

impl AskDialog {
    /// Creates the dialog for a question.
    pub fn for_ask(ask: &AskView, bindings: &KeyBindings) -> Self {
        let asker = asker_name(ask);
        let page: Box<dyn DialogPage + Send> = match &ask.body {
            AskBody::Permission(call) => Box::new(permission_dialog::PermissionDialog::new(call, asker)),
            AskBody::Question { questions, .. } => Box::new(question_dialog::QuestionDialog::new(questions)),
            AskBody::Plan { plan, file, .. } => Box::new(plan_dialog::PlanDialog::new(plan, file.clone())),
            AskBody::Elicitation(ask) => elicitation_dialog::elicitation_page(ask),
            AskBody::Trust(question) => Box::new(trust_dialog::TrustDialog::new(question)),
        };
        Self { id: ask.id, page, keys: DialogKeys::new(bindings), scroll: BodyScroll::default() }
    }

    /// Returns the id of the question.
    pub fn id(&self) -> &AskId {
        &self.id
    }

    /// Handles one key.
    pub fn handle_key(&mut self, event: KeyEvent) -> DialogOutcome {
        if event.kind == KeyEventKind::Release {
            return DialogOutcome::Ignored;
        }
        let stroke = KeyStroke::from_event(&event);
        match self.keys.translate(stroke) {
            DialogKey::PageDown => self.scroll.page_down(),
            DialogKey::PageUp => self.scroll.page_up(),
            _ => return self.page.handle_key(stroke, &self.keys),
        }
        DialogOutcome::Changed
    }

    /// Takes what the terminal reports as pasted. Only fields for words take it.
    pub fn handle_paste(&mut self, text: &str) {
        self.page.paste(text);
    }

    /// Takes the text that an external editor returned.
    pub fn replace_text(&mut self, text: &str) {
        self.page.replace_text(text);
    }

    /// Renders the question in at most `max_rows` rows.
    pub fn render(&mut self, max_rows: usize, context: &RenderContext<'_>) -> DialogView {
        self.page.parts(context).fit(&mut self.scroll, max_rows, context)
    }
}

impl std::fmt::Debug for AskDialog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AskDialog").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Returns who asks, in words.
fn asker_name(ask: &AskView) -> String {
    match (&ask.agent_type, &ask.agent_id) {
        (Some(kind), Some(id)) => format!("agent {} ({})", clean_line(kind), clean_line(id)),
        (Some(kind), None) => format!("agent {}", clean_line(kind)),
        (None, Some(id)) => format!("agent {}", clean_line(id)),
        (None, None) => "main conversation".to_owned(),
    }
}

/// Returns a title with a remark at the right edge, or below it if there is no room.
fn title_rows(title: StyledLine, right: &StyledLine, context: &RenderContext<'_>) -> Vec<StyledLine> {
    if context.width >= 60 && line_width(&title) + line_width(right) + 4 <= context.width {
        return vec![split_row(title, right, context)];
    }
    let mut rows = wrap_line(&title.hanging(2), context.width, BreakRule::Words);
    let mut below = StyledLine::plain("  ");
    right.spans.iter().for_each(|span| below.push(&span.text, span.style));
    rows.push(truncate_line(&below, context.width));
    rows
}

/// Returns text of several lines, wrapped between words and indented.
fn indented_rows(
    text: &str,
    style: impl Into<TextStyle>,
    indent: usize,
    context: &RenderContext<'_>,
) -> Vec<StyledLine> {
    let width = context.width.saturating_sub(indent).max(8);
    indent_lines(text_rows(text, style, width, BreakRule::Words), indent)
}

/// Returns the change that sets the mode of the session, in the form that hooks and programs share.
fn mode_change(mode: PermissionMode) -> Arc<RawValue> {
    let text = format!(r#"{{"type":"setMode","mode":"{mode}","destination":"session"}}"#);
    // The text is JSON whatever the mode is called.
    RawValue::from_string(text).map(Arc::from).unwrap_or_else(|_| Arc::from(RawValue::NULL.to_owned()))
}

#[cfg(test)]
mod tests;
