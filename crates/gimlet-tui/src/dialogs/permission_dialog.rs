//! The question whether a call may run: what would happen, why it is asked, and what a yes for good would cover.

use std::sync::Arc;

use gimlet_proto::{Approval, AskAnswer, PermissionAsk, PermissionMode, View};
use serde_json::Value;
use serde_json::value::RawValue;

use super::choice_list::{ChoiceList, ChoiceOutcome, ChoiceRow};
use super::dialog_keys::{DialogKey, DialogKeys};
use super::dialog_layout::{DialogParts, DialogSection};
use super::text_field::{FieldLines, TextField};
use super::{DialogOutcome, DialogPage};
use crate::feed::{ViewDetail, indent_lines, render_view, text_rows};
use crate::glyphs::RenderContext;
use crate::key_bindings::KeyStroke;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line};

/// Rows of the reason that are shown at first.
const SHORT_REASON: usize = 3;

/// Input of the call as the user changed it.
#[derive(Clone, Debug)]
enum InputEdit {
    /// One text of the input, by the name of its field.
    Field { name: String, editor: TextField },
    /// The whole input as JSON.
    Json(String),
}

/// A choice of this question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermissionChoice {
    Yes,
    YesForGood,
    No,
}

/// The question about one call.
#[derive(Clone, Debug)]
pub(super) struct PermissionDialog {
    ask: PermissionAsk,
    asker: String,
    choices: Vec<PermissionChoice>,
    list: ChoiceList,
    edit: Option<InputEdit>,
    /// True while the text of `edit` takes the keys.
    is_editing: bool,
    shows_whole_reason: bool,
    /// Why an edited input cannot be used.
    problem: Option<String>,
}

impl PermissionDialog {
    pub(super) fn new(ask: &PermissionAsk, asker: String) -> Self {
        let mut dialog = Self {
            ask: ask.clone(),
            asker,
            choices: Vec::new(),
            list: ChoiceList::default(),
            edit: None,
            is_editing: false,
            shows_whole_reason: false,
            problem: None,
        };
        dialog.offer_choices();
        dialog
    }

    fn offer_choices(&mut self) {
        let mut rows = vec![ChoiceRow::new(if self.edit.is_some() { "Yes, with this change" } else { "Yes" })];
        self.choices = vec![PermissionChoice::Yes];
        // A rule covers what was asked first, not what the user made of it.
        if self.edit.is_none() && !self.ask.suggestions.is_empty() {
            rows.push(self.remember_row());
            self.choices.push(PermissionChoice::YesForGood);
        }
        rows.push(ChoiceRow::new("No, and say what to do instead").with_detail("(esc)").with_field());
        self.choices.push(PermissionChoice::No);
        self.list = ChoiceList::new(rows);
    }

    /// Returns the choice that makes the suggested changes, with all that they cover.
    fn remember_row(&self) -> ChoiceRow {
        let places: Vec<Option<&str>> =
            self.ask.suggestions.iter().map(|change| destination_text(&change.update)).collect();
        let covers: Vec<&str> = self.ask.suggestions.iter().map(|change| change.covers.as_str()).collect();
        let place = places.first().copied().flatten();
        let is_one_place = places.iter().all(|other| *other == place);
        let is_session = places.iter().all(Option::is_none);
        let always = if is_session { "Yes, and allow" } else { "Yes, and always allow" };
        let says_until = covers.iter().any(|covers| covers.contains("session"));
        let until = if is_session && !says_until { " for this session" } else { "" };
        match (covers.as_slice(), is_one_place) {
            ([one], _) => {
                let row = ChoiceRow::new(format!("{always} {one}{until}"));
                if let Some(place) = place { row.with_detail(format!("(saved to {place})")) } else { row }
            }
            (several, true) => {
                let row = ChoiceRow::new(format!("{always} all of these{until}")).with_description(several.join("\n"));
                if let Some(place) = place { row.with_detail(format!("(saved to {place})")) } else { row }
            }
            (several, false) => {
                let each = several.iter().zip(&places).map(|(covers, place)| match place {
                    Some(place) => format!("{covers}  (saved to {place})"),
                    None => format!("{covers}  (for this session)"),
                });
                let each: Vec<String> = each.collect();
                ChoiceRow::new(format!("{always} all of these")).with_description(each.join("\n"))
            }
        }
    }

    fn take_choice(&mut self, index: usize) -> DialogOutcome {
        let answer = match self.choices.get(index) {
            Some(PermissionChoice::Yes) => match self.edited_input() {
                Ok(input) => AskAnswer::Yes(Approval { input, changes: Vec::new() }),
                Err(problem) => {
                    self.problem = Some(problem);
                    return DialogOutcome::Changed;
                }
            },
            Some(PermissionChoice::YesForGood) => {
                let changes = self.ask.suggestions.iter().map(|change| Arc::clone(&change.update)).collect();
                AskAnswer::Yes(Approval { input: None, changes })
            }
            Some(PermissionChoice::No) => {
                let message = self.list.rows().get(index).map_or("", ChoiceRow::words).to_owned();
                AskAnswer::No { message, interrupt: false }
            }
            None => return DialogOutcome::Changed,
        };
        DialogOutcome::answer(answer)
    }

    /// Returns the changed input; `None` if it was not changed.
    fn edited_input(&self) -> Result<Option<Box<RawValue>>, String> {
        let text = match &self.edit {
            None => return Ok(None),
            Some(InputEdit::Json(text)) => text.clone(),
            Some(InputEdit::Field { name, editor }) => {
                let mut input: Value =
                    serde_json::from_str(self.ask.input.get()).map_err(|error| format!("{error}"))?;
                if let Some(fields) = input.as_object_mut() {
                    fields.insert(name.clone(), Value::String(editor.text().to_owned()));
                }
                input.to_string()
            }
        };
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Object(_)) => {
                RawValue::from_string(text.trim().to_owned()).map(Some).map_err(|error| format!("{error}"))
            }
            Ok(_) => Err("the changed input must be a JSON object".to_owned()),
            Err(error) => Err(format!("the changed input is not valid JSON: {error}")),
        }
    }

    /// Begins to change the input: the command in place, anything else in the user's editor.
    fn begin_edit(&mut self) -> DialogOutcome {
        if let Some(InputEdit::Field { .. }) = &self.edit {
            self.is_editing = true;
            return DialogOutcome::Changed;
        }
        let input: Value = serde_json::from_str(self.ask.input.get()).unwrap_or(Value::Null);
        if let (View::Terminal { command, .. }, Value::Object(fields)) = (&self.ask.preview, &input) {
            let field = fields.iter().find(|(_, value)| value.as_str() == Some(command.as_str()));
            if let Some((name, _)) = field {
                let editor = TextField::with_text(FieldLines::Many, command);
                self.edit = Some(InputEdit::Field { name: name.clone(), editor });
                self.is_editing = true;
                return DialogOutcome::Changed;
            }
        }
        let text = match &self.edit {
            Some(InputEdit::Json(text)) => text.clone(),
            _ => serde_json::to_string_pretty(&input).unwrap_or_else(|_| self.ask.input.get().to_owned()),
        };
        DialogOutcome::EditExternally { text }
    }

    fn end_edit(&mut self, is_kept: bool) {
        self.is_editing = false;
        self.problem = None;
        let is_same = match (&self.edit, &self.ask.preview) {
            (Some(InputEdit::Field { editor, .. }), View::Terminal { command, .. }) => editor.text() == command,
            _ => false,
        };
        if !is_kept || is_same {
            self.edit = None;
        }
        self.offer_choices();
    }

    fn title(&self) -> String {
        let label = clean_line(&self.ask.label);
        match (&self.ask.preview, &self.ask.server) {
            (_, Some(server)) => format!("Let {} run {label}?", clean_line(&server.name)),
            (View::Terminal { .. }, None) => "Run this command?".to_owned(),
            (View::Diff { path, .. }, None) => format!("Change {}?", clean_line(path)),
            (_, None) => format!("Allow {label}?"),
        }
    }

    fn body(&self, context: &RenderContext<'_>) -> Vec<StyledLine> {
        let inner = RenderContext { width: context.width.saturating_sub(4).max(8), ..*context };
        let mut lines = match (&self.edit, &self.ask.preview) {
            (Some(InputEdit::Field { editor, .. }), _) => {
                text_rows(editor.text(), TextTone::Text, inner.width, BreakRule::Cells)
            }
            (Some(InputEdit::Json(text)), _) => text_rows(text, TextTone::Text, inner.width, BreakRule::Cells),
            (None, View::Terminal { command, .. }) => {
                text_rows(command, TextStyle::of(TextTone::Text).bold(), inner.width, BreakRule::Cells)
            }
            (None, View::Text(text)) => text_rows(text, TextTone::Text, inner.width, BreakRule::Words),
            (None, view) => render_view(view, ViewDetail::Whole, &inner),
        };
        let is_named = matches!(self.ask.preview, View::Terminal { .. } | View::Diff { .. });
        if let (Some(path), false) = (&self.ask.path, is_named) {
            lines.insert(0, StyledLine::of(clean_line(&path.display().to_string()), TextTone::Accent));
        }
        let summary = clean_line(&self.ask.summary).into_owned();
        // The title of an edit names its file already.
        let is_repeated = self.title().contains(&summary) || lines.iter().any(|line| line.text().contains(&summary));
        if !summary.is_empty() && !is_repeated {
            lines.extend(text_rows(&summary, TextTone::Dim, inner.width, BreakRule::Words));
        }
        let mut lines = indent_lines(lines, 4);
        if self.ask.destructive {
            let mark = format!("{} This destroys data that cannot be restored.", context.glyphs.warning);
            lines.extend(super::indented_rows(&mark, TextStyle::of(TextTone::Error).bold(), 4, context));
        }
        if let Some(problem) = &self.problem {
            lines.extend(super::indented_rows(problem, TextTone::Error, 4, context));
        }
        lines
    }

    fn reason_rows(&self, context: &RenderContext<'_>) -> Vec<StyledLine> {
        super::indented_rows(self.ask.reason.trim(), TextTone::Dim, 4, context)
    }
}

/// Returns the file that a permission change is saved to; `None` for one that ends with the session.
fn destination_text(update: &RawValue) -> Option<&'static str> {
    let update: Value = serde_json::from_str(update.get()).ok()?;
    match update.get("destination")?.as_str()? {
        "localSettings" => Some(".claude/settings.local.json"),
        "projectSettings" => Some(".claude/settings.json"),
        "userSettings" => Some("~/.claude/settings.json"),
        _ => None,
    }
}

impl DialogPage for PermissionDialog {
    fn handle_key(&mut self, stroke: KeyStroke, keys: &DialogKeys) -> DialogOutcome {
        let key = keys.translate(stroke);
        if self.is_editing {
            match key {
                DialogKey::Accept => self.end_edit(true),
                DialogKey::Cancel => self.end_edit(false),
                _ => {
                    if let Some(InputEdit::Field { editor, .. }) = &mut self.edit {
                        editor.handle_key(stroke);
                    }
                }
            }
            return DialogOutcome::Changed;
        }
        let takes_letters = self.list.is_on_field();
        match key {
            DialogKey::PreviousField if matches!(self.ask.preview, View::Diff { .. }) && self.edit.is_none() => {
                return DialogOutcome::answer(AskAnswer::Yes(Approval {
                    input: None,
                    changes: vec![super::mode_change(PermissionMode::AcceptEdits)],
                }));
            }
            DialogKey::Letter('w') if !takes_letters => {
                self.shows_whole_reason = !self.shows_whole_reason;
                return DialogOutcome::Changed;
            }
            DialogKey::Explain => {
                self.shows_whole_reason = !self.shows_whole_reason;
                return DialogOutcome::Changed;
            }
            DialogKey::Letter('e') if !takes_letters => return self.begin_edit(),
            DialogKey::EditExternally => return self.begin_edit(),
            _ => {}
        }
        match self.list.handle_key(stroke, keys) {
            ChoiceOutcome::Ignored => DialogOutcome::Ignored,
            ChoiceOutcome::Changed => DialogOutcome::Changed,
            ChoiceOutcome::Accepted(index) => self.take_choice(index),
            ChoiceOutcome::Cancelled => {
                DialogOutcome::answer(AskAnswer::No { message: String::new(), interrupt: false })
            }
        }
    }

    fn paste(&mut self, text: &str) {
        match &mut self.edit {
            Some(InputEdit::Field { editor, .. }) if self.is_editing => editor.insert(text),
            _ => {
                self.list.paste(text);
            }
        }
    }

    fn replace_text(&mut self, text: &str) {
        self.edit = Some(InputEdit::Json(text.to_owned()));
        self.problem = self.edited_input().err();
        self.offer_choices();
    }

    fn parts(&self, context: &RenderContext<'_>) -> DialogParts {
        let title = StyledLine::of(format!("  {}", self.title()), TextStyle::of(TextTone::Warn).bold());
        let asker = StyledLine::of(format!("asked by: {}", self.asker), TextTone::Dim);
        let mut parts = DialogParts { title: super::title_rows(title, &asker, context), ..DialogParts::default() };
        if self.is_editing
            && let Some(InputEdit::Field { editor, .. }) = &self.edit
        {
            let field = editor.render(context.width.saturating_sub(4).max(2), TextTone::Text);
            let lines = indent_lines(field.lines, 4);
            let cursor = (field.cursor.0, field.cursor.1 + 4);
            parts.choices = DialogSection { focus: cursor.0..cursor.0 + 1, lines, cursor: Some(cursor) };
            parts.hints = vec!["enter goes back to the choices".to_owned(), "esc drops the change".to_owned()];
            return parts;
        }
        parts.body = self.body(context);
        let reason = self.reason_rows(context);
        let is_long = reason.len() > SHORT_REASON;
        if !reason.is_empty() {
            let shown = if self.shows_whole_reason { reason.len() } else { SHORT_REASON.min(reason.len()) };
            parts.body.push(StyledLine::blank());
            parts.body.extend(reason.into_iter().take(shown));
        }
        let view = self.list.render(context);
        parts.choices = DialogSection { lines: view.lines, focus: view.focus, cursor: view.cursor };
        parts.hints = vec!["enter takes it".to_owned(), "e edits it first".to_owned()];
        if matches!(self.ask.preview, View::Diff { .. }) && self.edit.is_none() {
            parts.hints.insert(1, "shift+tab allows all edits".to_owned());
        }
        if is_long {
            parts.hints.insert(1, "w whole reason".to_owned());
        }
        parts
    }
}
