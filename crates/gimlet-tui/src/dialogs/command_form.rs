//! A form that a command shows before it acts: a few fields, what they are for, and what is done with them.

use crossterm::event::{KeyEvent, KeyEventKind};
use serde_json::{Map, Value};

use super::dialog_keys::{DialogKey, DialogKeys};
use super::dialog_layout::{BodyScroll, DialogParts, DialogView};
use super::form_fields::{FieldChoice, FieldValue, FormField, FormFields, FormOutcome, TextRule, text_value};
use super::text_field::{FieldLines, TextField};
use crate::app::AppEffect;
use crate::feed::indent_lines;
use crate::glyphs::RenderContext;
use crate::key_bindings::{KeyBindings, KeyStroke};
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, wrap_line};

/// What a key led to.
#[derive(Debug)]
pub enum CommandFormOutcome {
    Ignored,
    Changed,
    Closed,
    Accepted(Vec<AppEffect>),
}

/// The form.
#[derive(Debug)]
pub struct CommandForm {
    title: String,
    body: Vec<StyledLine>,
    form: FormFields,
    /// Turns the values into what is to be done.
    accept: fn(&Map<String, Value>) -> Vec<AppEffect>,
    hints: &'static [&'static str],
    keys: DialogKeys,
    scroll: BodyScroll,
}

/// A field of a form before it is shown.
#[derive(Clone, Debug)]
pub(crate) struct FieldSpec {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    value: FieldValue,
}

impl FieldSpec {
    /// Creates a field for one line of text that must be filled in.
    pub(crate) fn text(name: &'static str, title: &'static str, description: &'static str, text: &str) -> Self {
        Self { name, title, description, value: text_value(text, TextRule::default()) }
    }

    /// Creates a field for a secret, which is not shown.
    pub(crate) fn secret(name: &'static str, title: &'static str, description: &'static str) -> Self {
        Self { name, title, description, value: FieldValue::Secret(TextField::new(FieldLines::One)) }
    }

    /// Creates a field for one of several values, the first of which is chosen.
    pub(crate) fn one_of(
        name: &'static str,
        title: &'static str,
        description: &'static str,
        values: &[(&str, &str)],
    ) -> Self {
        let choice =
            |(value, title): &(&str, &str)| FieldChoice { value: Value::from(*value), title: (*title).to_owned() };
        let choices = values.iter().map(choice).collect();
        Self { name, title, description, value: FieldValue::One { choices, selected: Some(0) } }
    }
}

impl CommandForm {
    pub(crate) fn new(
        title: &str,
        body: Vec<StyledLine>,
        fields: Vec<FieldSpec>,
        action: &str,
        accept: fn(&Map<String, Value>) -> Vec<AppEffect>,
    ) -> Self {
        let field = |spec: FieldSpec| {
            let mut field = FormField::new(spec.name, spec.title, spec.value);
            field.description = spec.description.to_owned();
            field.is_required = true;
            field
        };
        let has_choices = fields.iter().any(|field| matches!(field.value, FieldValue::One { .. }));
        let fields = fields.into_iter().map(field).collect();
        Self {
            title: title.to_owned(),
            body,
            form: FormFields::new(fields, vec![action.to_owned(), "Cancel".to_owned()]),
            accept,
            hints: match has_choices {
                true => &["space changes", "enter next", "esc closes"],
                false => &["enter next", "esc closes"],
            },
            keys: DialogKeys::default(),
            scroll: BodyScroll::default(),
        }
    }

    /// Uses the user's own keys.
    #[must_use]
    pub(crate) fn with_bindings(mut self, bindings: &KeyBindings) -> Self {
        self.keys = DialogKeys::new(bindings);
        self
    }

    /// Handles one key.
    pub(crate) fn handle_key(&mut self, event: KeyEvent) -> CommandFormOutcome {
        if event.kind == KeyEventKind::Release {
            return CommandFormOutcome::Ignored;
        }
        let stroke = KeyStroke::from_event(&event);
        match self.keys.translate(stroke) {
            DialogKey::PageDown => self.scroll.page_down(),
            DialogKey::PageUp => self.scroll.page_up(),
            _ => {
                return match self.form.handle_key(stroke, &self.keys) {
                    FormOutcome::Ignored => CommandFormOutcome::Ignored,
                    FormOutcome::Changed => CommandFormOutcome::Changed,
                    FormOutcome::Accepted(0) => match self.form.values() {
                        Some(values) => CommandFormOutcome::Accepted((self.accept)(&values)),
                        None => CommandFormOutcome::Changed,
                    },
                    FormOutcome::Accepted(_) | FormOutcome::Cancelled => CommandFormOutcome::Closed,
                };
            }
        }
        CommandFormOutcome::Changed
    }

    pub(crate) fn paste(&mut self, text: &str) {
        self.form.paste(text);
    }

    /// Renders the form in at most `max_rows` rows.
    pub(crate) fn render(&mut self, max_rows: usize, context: &RenderContext<'_>) -> DialogView {
        let width = context.width.saturating_sub(2).max(8);
        let body = self.body.iter().flat_map(|line| wrap_line(line, width, BreakRule::Words)).collect();
        let parts = DialogParts {
            title: vec![StyledLine::of(format!("  {}", self.title), TextStyle::of(TextTone::Accent).bold())],
            body: indent_lines(body, 2),
            choices: self.form.render(context),
            hints: self.hints.iter().map(|hint| (*hint).to_owned()).collect(),
        };
        parts.fit(&mut self.scroll, max_rows, context)
    }
}
