//! A server's question: a form from its schema, or a visit of an address.

use gimlet_proto::{AskAnswer, ElicitationAction, ElicitationAsk, ElicitationRequest};
use serde_json::{Map, Value};

use super::choice_list::{ChoiceList, ChoiceOutcome, ChoiceRow};
use super::dialog_keys::DialogKeys;
use super::dialog_layout::{DialogParts, DialogSection};
use super::form_fields::{
    FieldChoice, FieldValue, FormField, FormFields, FormOutcome, NumberRule, TextRule, text_value,
};
use super::text_field::{FieldLines, TextField};
use super::{DialogEffect, DialogOutcome, DialogPage};
use crate::feed::{indent_lines, text_rows};
use crate::glyphs::RenderContext;
use crate::key_bindings::KeyStroke;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, wrap_line};

/// Creates the dialog for a server's question.
pub(super) fn elicitation_page(ask: &ElicitationAsk) -> Box<dyn DialogPage + Send> {
    let (server, message) = (ask.server.clone(), ask.message.clone());
    match &ask.request {
        ElicitationRequest::Form { schema } => {
            let actions = vec!["Send".to_owned(), "Decline".to_owned()];
            Box::new(ElicitationForm { server, message, form: FormFields::new(schema_fields(schema), actions) })
        }
        ElicitationRequest::Url { url } => {
            let rows = vec![ChoiceRow::new("Yes, open it in the browser"), ChoiceRow::new("No").with_detail("(esc)")];
            let mut list = ChoiceList::new(rows);
            list.select(1);
            Box::new(ElicitationUrl { server, message, url: url.clone(), list })
        }
    }
}

fn reaction(action: ElicitationAction, content: Option<Map<String, Value>>) -> DialogOutcome {
    DialogOutcome::answer(AskAnswer::Elicited { action, content })
}

fn server_title(text: &str, server: &str, context: &RenderContext<'_>) -> Vec<StyledLine> {
    let line = StyledLine::of(format!("  {} {text}", clean_line(server)), TextStyle::of(TextTone::Warn).bold());
    wrap_line(&line.hanging(2), context.width, BreakRule::Words)
}

/// A form that a server wants filled in.
struct ElicitationForm {
    server: String,
    message: String,
    form: FormFields,
}

impl DialogPage for ElicitationForm {
    fn handle_key(&mut self, stroke: KeyStroke, keys: &DialogKeys) -> DialogOutcome {
        match self.form.handle_key(stroke, keys) {
            FormOutcome::Ignored => DialogOutcome::Ignored,
            FormOutcome::Changed => DialogOutcome::Changed,
            FormOutcome::Cancelled => reaction(ElicitationAction::Cancel, None),
            FormOutcome::Accepted(0) => match self.form.values() {
                Some(values) => reaction(ElicitationAction::Accept, Some(values)),
                None => DialogOutcome::Changed,
            },
            FormOutcome::Accepted(_) => reaction(ElicitationAction::Decline, None),
        }
    }

    fn paste(&mut self, text: &str) {
        self.form.paste(text);
    }

    fn parts(&self, context: &RenderContext<'_>) -> DialogParts {
        let width = context.width.saturating_sub(4).max(8);
        DialogParts {
            title: server_title("asks you to fill in a form", &self.server, context),
            body: indent_lines(text_rows(&self.message, TextTone::Text, width, BreakRule::Words), 4),
            choices: self.form.render(context),
            hints: vec!["enter next field".to_owned(), "* required".to_owned(), "esc cancels".to_owned()],
        }
    }
}

/// An address that a server wants visited.
struct ElicitationUrl {
    server: String,
    message: String,
    url: String,
    list: ChoiceList,
}

impl DialogPage for ElicitationUrl {
    fn handle_key(&mut self, stroke: KeyStroke, keys: &DialogKeys) -> DialogOutcome {
        match self.list.handle_key(stroke, keys) {
            ChoiceOutcome::Ignored => DialogOutcome::Ignored,
            ChoiceOutcome::Changed => DialogOutcome::Changed,
            ChoiceOutcome::Accepted(0) => DialogOutcome::Answer {
                answer: AskAnswer::Elicited { action: ElicitationAction::Accept, content: None },
                effect: Some(DialogEffect::OpenUrl(self.url.clone())),
            },
            ChoiceOutcome::Accepted(_) => reaction(ElicitationAction::Decline, None),
            ChoiceOutcome::Cancelled => reaction(ElicitationAction::Cancel, None),
        }
    }

    fn parts(&self, context: &RenderContext<'_>) -> DialogParts {
        let width = context.width.saturating_sub(4).max(8);
        let mut body = text_rows(&self.message, TextTone::Text, width, BreakRule::Words);
        body.push(StyledLine::blank());
        let address = StyledLine::of(clean_line(&self.url), TextTone::Link);
        body.extend(wrap_line(&address, width, BreakRule::Cells));
        let mut host = StyledLine::of("on the host ", TextTone::Dim);
        host.push(clean_line(url_host(&self.url)), TextStyle::of(TextTone::Warn).bold());
        body.extend(wrap_line(&host, width, BreakRule::Words));
        let view = self.list.render(context);
        DialogParts {
            title: server_title("asks you to visit an address", &self.server, context),
            body: indent_lines(body, 4),
            choices: DialogSection { lines: view.lines, focus: view.focus, cursor: view.cursor },
            hints: vec!["enter takes it".to_owned(), "esc cancels".to_owned()],
        }
    }
}

/// Returns the host of an address, without user name and port.
fn url_host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Returns the fields of a form's schema. Properties of unknown types become texts.
fn schema_fields(schema: &Value) -> Vec<FormField> {
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let field = |(name, property): (&String, &Value)| {
        let title = property.get("title").and_then(Value::as_str).unwrap_or(name);
        let mut field = FormField::new(name, title, property_value(property));
        field.description = property.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        field.is_required = required.contains(&name.as_str());
        field
    };
    properties.into_iter().flatten().map(field).collect()
}

fn property_value(property: &Value) -> FieldValue {
    let default = property.get("default");
    let count = |key: &str| property.get(key).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
    let choices = enum_choices(property);
    if !choices.is_empty() {
        let selected = choices.iter().position(|choice| Some(&choice.value) == default);
        return FieldValue::One { choices, selected };
    }
    match property.get("type").and_then(Value::as_str) {
        Some("boolean") => FieldValue::Flag(default.and_then(Value::as_bool).unwrap_or(false)),
        Some(kind @ ("number" | "integer")) => {
            let rule = NumberRule {
                is_integer: kind == "integer",
                min: property.get("minimum").and_then(Value::as_f64),
                max: property.get("maximum").and_then(Value::as_f64),
            };
            let text = default.map(Value::to_string).unwrap_or_default();
            FieldValue::Number { field: TextField::with_text(FieldLines::One, &text), rule }
        }
        Some("array") => {
            let choices = property.get("items").map(enum_choices).unwrap_or_default();
            let is_default =
                |choice: &FieldChoice| default.and_then(Value::as_array).is_some_and(|all| all.contains(&choice.value));
            let marks = choices.iter().map(is_default).collect();
            FieldValue::Several { choices, marks, cursor: 0, limits: (count("minItems"), count("maxItems")) }
        }
        _ => {
            let rule = TextRule {
                format: property.get("format").and_then(Value::as_str).map(str::to_owned),
                min_length: count("minLength"),
                max_length: count("maxLength"),
            };
            text_value(default.and_then(Value::as_str).unwrap_or_default(), rule)
        }
    }
}

/// Returns the values of an `enum` with its names, or of `oneOf` and `anyOf` with constants.
fn enum_choices(property: &Value) -> Vec<FieldChoice> {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let names = property.get("enumNames").and_then(Value::as_array);
        let choice = |(index, value): (usize, &Value)| {
            let name = names.and_then(|names| names.get(index)).and_then(Value::as_str);
            FieldChoice { value: value.clone(), title: name.map_or_else(|| shown(value), str::to_owned) }
        };
        return values.iter().enumerate().map(choice).collect();
    }
    let titled = property.get("oneOf").or_else(|| property.get("anyOf")).and_then(Value::as_array);
    let choice = |item: &Value| {
        let value = item.get("const")?.clone();
        let title = item.get("title").and_then(Value::as_str).map_or_else(|| shown(&value), str::to_owned);
        Some(FieldChoice { value, title })
    };
    titled.into_iter().flatten().filter_map(choice).collect()
}
