//! The settings that are changed most, as a form.

use crossterm::event::{KeyEvent, KeyEventKind};
use gimlet_proto::SettingsView;
use serde_json::{Map, Value};

use super::dialog_keys::{DialogKey, DialogKeys};
use super::dialog_layout::{BodyScroll, DialogParts, DialogView};
use super::form_fields::{FieldChoice, FieldValue, FormField, FormFields, FormOutcome};
use crate::glyphs::RenderContext;
use crate::key_bindings::{KeyBindings, KeyStroke};
use crate::styled_line::{StyledLine, TextStyle, TextTone};

/// What a setting can be.
#[derive(Clone, Copy, Debug)]
enum SettingShape {
    /// One of these; the first is the default.
    OneOf(&'static [&'static str]),
}

/// One setting of the form.
#[derive(Clone, Copy, Debug)]
struct SettingRow {
    key: &'static str,
    title: &'static str,
    description: &'static str,
    shape: SettingShape,
}

const SETTINGS: &[SettingRow] = &[
    SettingRow {
        key: "theme",
        title: "Colours",
        description: "For a dark or a light terminal",
        shape: SettingShape::OneOf(&["auto", "dark", "light", "dark-ansi", "light-ansi"]),
    },
    SettingRow {
        key: "editorMode",
        title: "Editing",
        description: "How the prompt is edited",
        shape: SettingShape::OneOf(&["normal", "vim"]),
    },
    SettingRow {
        key: "keybindingFlavor",
        title: "Ctrl+W",
        description: "classic removes a word, readline up to the space before",
        shape: SettingShape::OneOf(&["classic", "readline"]),
    },
    SettingRow {
        key: "preferredNotifChannel",
        title: "Notifications",
        description: "When a turn ends or a question waits while the window is in the background",
        shape: SettingShape::OneOf(&["auto", "terminal_bell", "iterm2", "kitty", "ghostty", "notifications_disabled"]),
    },
];

/// A setting and the value that was chosen for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    pub key: &'static str,
    pub value: String,
}

/// What a key led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsFormOutcome {
    Ignored,
    Changed,
    /// Closed without saving.
    Closed,
    /// Save these; empty if nothing was changed.
    Saved(Vec<SettingChange>),
}

/// The form.
#[derive(Debug)]
pub struct SettingsForm {
    form: FormFields,
    initial: Map<String, Value>,
    keys: DialogKeys,
    scroll: BodyScroll,
}

impl SettingsForm {
    /// Creates the form with the values that are in force.
    pub fn new(settings: &SettingsView, bindings: &KeyBindings) -> Self {
        let fields = SETTINGS.iter().map(|row| setting_field(row, settings.effective.get(row.key))).collect();
        let mut form = FormFields::new(fields, vec!["Save".to_owned(), "Cancel".to_owned()]);
        let initial = form.values().unwrap_or_default();
        Self { form, initial, keys: DialogKeys::new(bindings), scroll: BodyScroll::default() }
    }

    /// Handles one key.
    pub fn handle_key(&mut self, event: KeyEvent) -> SettingsFormOutcome {
        if event.kind == KeyEventKind::Release {
            return SettingsFormOutcome::Ignored;
        }
        let stroke = KeyStroke::from_event(&event);
        match self.keys.translate(stroke) {
            DialogKey::PageDown => self.scroll.page_down(),
            DialogKey::PageUp => self.scroll.page_up(),
            _ => {
                return match self.form.handle_key(stroke, &self.keys) {
                    FormOutcome::Ignored => SettingsFormOutcome::Ignored,
                    FormOutcome::Changed => SettingsFormOutcome::Changed,
                    FormOutcome::Accepted(0) => SettingsFormOutcome::Saved(self.changes()),
                    FormOutcome::Accepted(_) | FormOutcome::Cancelled => SettingsFormOutcome::Closed,
                };
            }
        }
        SettingsFormOutcome::Changed
    }

    /// Returns what differs from the values at the beginning.
    fn changes(&mut self) -> Vec<SettingChange> {
        let values = self.form.values().unwrap_or_default();
        let changed = |row: &SettingRow| {
            let value = values.get(row.key)?;
            if self.initial.get(row.key) == Some(value) {
                return None;
            }
            Some(SettingChange { key: row.key, value: value.as_str()?.to_owned() })
        };
        SETTINGS.iter().filter_map(changed).collect()
    }

    /// Renders the form in at most `max_rows` rows.
    pub fn render(&mut self, max_rows: usize, context: &RenderContext<'_>) -> DialogView {
        let parts = DialogParts {
            title: vec![StyledLine::of("  Settings", TextStyle::of(TextTone::Accent).bold())],
            body: vec![StyledLine::of("  Saved to ~/.claude/settings.json, for all projects", TextTone::Dim)],
            choices: self.form.render(context),
            hints: vec!["space changes".to_owned(), "enter next".to_owned(), "esc closes".to_owned()],
        };
        parts.fit(&mut self.scroll, max_rows, context)
    }
}

fn setting_field(row: &SettingRow, value: Option<&Value>) -> FormField {
    let SettingShape::OneOf(values) = row.shape;
    let mut choices: Vec<FieldChoice> =
        values.iter().map(|value| FieldChoice { value: Value::from(*value), title: (*value).to_owned() }).collect();
    let selected = match value {
        None => 0,
        Some(value) => choices.iter().position(|choice| choice.value == *value).unwrap_or_else(|| {
            // A value of the file that is not offered here stays unless another is chosen.
            choices.push(FieldChoice { value: value.clone(), title: value.to_string() });
            choices.len() - 1
        }),
    };
    let mut field = FormField::new(row.key, row.title, FieldValue::One { choices, selected: Some(selected) });
    field.description = row.description.to_owned();
    field
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyModifiers};
    use serde_json::json;

    use super::*;
    use crate::glyphs::GlyphSet;
    use crate::theme::{ColorDepth, ColorTheme, ScreenBackground};

    fn form(effective: Value) -> SettingsForm {
        let view = SettingsView { effective, ..SettingsView::default() };
        SettingsForm::new(&view, &KeyBindings::default())
    }

    fn press(form: &mut SettingsForm, codes: &[KeyCode]) -> SettingsFormOutcome {
        let mut outcome = SettingsFormOutcome::Ignored;
        for code in codes {
            outcome = form.handle_key(KeyEvent::new(*code, KeyModifiers::NONE));
        }
        outcome
    }

    #[test]
    fn only_what_was_changed_is_saved() {
        use KeyCode::{Down, Enter, Esc, Left, Right, Up};
        let space = KeyCode::Char(' ');
        let mut changed = form(json!({"theme": "dark", "preferredNotifChannel": "other"}));
        let outcome = press(&mut changed, &[Down, space, Up, Right, Left, Up, Up, Enter]);
        let expected = vec![SettingChange { key: "editorMode", value: "vim".to_owned() }];
        assert_eq!(outcome, SettingsFormOutcome::Saved(expected));
        assert_eq!(press(&mut form(json!({})), &[Up, Up, Enter]), SettingsFormOutcome::Saved(Vec::new()));
        assert_eq!(press(&mut form(json!({})), &[space, Esc]), SettingsFormOutcome::Closed);
        assert_eq!(press(&mut form(json!({})), &[Up, Enter]), SettingsFormOutcome::Closed);
    }

    #[test]
    fn screens() {
        let theme = ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::None };
        let mut form = form(json!({"theme": "light", "editorMode": "vim"}));
        let mut out = String::new();
        for width in [80, 40] {
            let context = RenderContext { theme: &theme, glyphs: &GlyphSet::UNICODE, width };
            for line in form.render(20, &context).lines {
                out.push_str(&format!("{}\n", line.text()));
            }
        }
        insta::assert_snapshot!(out);
    }
}
