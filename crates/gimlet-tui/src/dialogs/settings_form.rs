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
    /// Yes or no, with what holds without it.
    Flag(bool),
}

/// One setting of the form.
#[derive(Clone, Copy, Debug)]
struct SettingRow {
    key: &'static str,
    title: &'static str,
    description: &'static str,
    shape: SettingShape,
}

const fn row(key: &'static str, title: &'static str, description: &'static str, shape: SettingShape) -> SettingRow {
    SettingRow { key, title, description, shape }
}

use SettingShape::{Flag, OneOf};

const SETTINGS: &[SettingRow] = &[
    row(
        "theme",
        "Colours",
        "For a dark or a light terminal",
        OneOf(&["auto", "dark", "light", "dark-ansi", "light-ansi"]),
    ),
    row("prefersReducedMotion", "Reduced motion", "No animation; from the next start on", Flag(false)),
    row("editorMode", "Editing", "How the prompt is edited", OneOf(&["normal", "vim"])),
    row(
        "keybindingFlavor",
        "Ctrl+W",
        "classic removes a word, readline up to the space before",
        OneOf(&["classic", "readline"]),
    ),
    row(
        "preferredNotifChannel",
        "Notifications",
        "When a turn ends or a question waits while the window is in the background",
        OneOf(&["auto", "terminal_bell", "iterm2", "kitty", "ghostty", "notifications_disabled"]),
    ),
    row("terminalProgressBarEnabled", "Progress", "In the terminal's own bar, where it has one", Flag(true)),
    row(
        "permissions.defaultMode",
        "Mode",
        "The mode that sessions start in",
        OneOf(&["default", "acceptEdits", "plan"]),
    ),
    row("alwaysThinkingEnabled", "Thinking", "Whether the model thinks before it answers", Flag(true)),
    row(
        "respondToBashCommands",
        "Answers to ! commands",
        "Whether the model says something about your own commands",
        Flag(true),
    ),
    row("autoCompactEnabled", "Compaction", "A full conversation goes on from a summary by itself", Flag(true)),
    row("autoMemoryEnabled", "Notes", "Whether the model keeps notes between sessions", Flag(true)),
    row("fileCheckpointingEnabled", "Checkpoints", "Files are kept as they were, to go back to", Flag(true)),
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
        let fields =
            SETTINGS.iter().map(|row| setting_field(row, find_setting(&settings.effective, row.key))).collect();
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
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Some(SettingChange { key: row.key, value: text })
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

/// Returns the value of a key, each dot of which leads into an object.
fn find_setting<'a>(settings: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.').try_fold(settings, |value, part| value.get(part))
}

fn setting_field(row: &SettingRow, value: Option<&Value>) -> FormField {
    let values = match row.shape {
        OneOf(values) => values,
        Flag(default) => {
            let is_on = value.and_then(Value::as_bool).unwrap_or(default);
            let mut field = FormField::new(row.key, row.title, FieldValue::Flag(is_on));
            field.description = row.description.to_owned();
            return field;
        }
    };
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
        let outcome = press(&mut changed, &[Down, Down, space, Up, Up, Right, Left, Up, Up, Enter]);
        let expected = vec![SettingChange { key: "editorMode", value: "vim".to_owned() }];
        assert_eq!(outcome, SettingsFormOutcome::Saved(expected));
        let mut flag = form(json!({"permissions": {"defaultMode": "plan"}}));
        let outcome = press(&mut flag, &[Down, space, Up, Up, Up, Enter]);
        let expected = vec![SettingChange { key: "prefersReducedMotion", value: "true".to_owned() }];
        assert_eq!(outcome, SettingsFormOutcome::Saved(expected), "the mode that is set already is no change");
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
            for line in form.render(24, &context).lines {
                out.push_str(&format!("{}\n", line.text()));
            }
        }
        insta::assert_snapshot!(out);
    }
}
