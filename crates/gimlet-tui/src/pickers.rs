//! Pickers that take the place of the input: sessions to resume, prompts to go back to, and other choices of one row.

mod list_picker;
mod message_form;
mod rewind_picker;
mod session_picker;
mod task_picker;

use crossterm::event::KeyEvent;
use gimlet_proto::{EntryId, RewindOutcome};

pub use list_picker::{ListPicker, PickerRow};
pub use message_form::MessageForm;
pub use rewind_picker::rewind_picker;
pub use session_picker::session_picker;
pub use task_picker::TaskPicker;

use crate::app::AppEffect;
use crate::dialogs::{CommandForm, CommandFormOutcome, SettingChange, SettingsForm, SettingsFormOutcome};
use crate::glyphs::RenderContext;
use crate::styled_line::StyledLine;
use crate::theme::ScreenBackground;
use rewind_picker::RewindPicker;
use session_picker::SessionPicker;

/// One picker of any kind.
#[derive(Debug)]
pub enum AppPicker {
    Sessions(SessionPicker),
    Rewind(RewindPicker),
    /// A list in which each row stands for effects.
    Choices(ChoicePicker),
    /// The settings that are changed most.
    Settings(SettingsForm),
    Tasks(TaskPicker),
    Message(MessageForm),
    /// What a command wants to know first.
    Form(CommandForm),
}

/// A list of choices, each with what it does.
#[derive(Debug)]
pub struct ChoicePicker {
    list: ListPicker,
    effects: Vec<Option<Vec<AppEffect>>>,
}

/// What a key led to.
#[derive(Debug)]
pub enum PickerOutcome {
    Stays,
    StaysAnd(Vec<AppEffect>),
    Closes,
    Chooses(Vec<AppEffect>),
    /// Another picker takes its place.
    Opens(Box<AppPicker>),
    /// A choice that gives a text back to the input.
    Restores {
        text: String,
        effects: Vec<AppEffect>,
    },
}

/// What a key does to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStep {
    Stays,
    Moved,
    Closes,
    /// The row at this index was taken.
    Takes(usize),
}

impl ChoicePicker {
    /// Creates a picker from rows and what each of them does.
    pub fn new(title: &str, choices: Vec<(PickerRow, Vec<AppEffect>)>) -> Self {
        let (rows, effects): (Vec<_>, Vec<_>) = choices.into_iter().map(|(row, effects)| (row, Some(effects))).unzip();
        Self { list: ListPicker::new(title, rows), effects }
    }

    /// Shows lines below the title, as far as there is room.
    #[must_use]
    pub fn with_remarks(mut self, remarks: Vec<StyledLine>) -> Self {
        self.list = self.list.with_remarks(remarks);
        self
    }

    /// Places the pointer at a row.
    #[must_use]
    pub fn with_selected(mut self, index: usize) -> Self {
        self.list.select(index);
        self
    }
}

impl AppPicker {
    pub fn handle_key(&mut self, key: KeyEvent) -> PickerOutcome {
        match self {
            AppPicker::Sessions(picker) => picker.handle_key(key),
            AppPicker::Rewind(picker) => picker.handle_key(key),
            AppPicker::Tasks(picker) => picker.handle_key(key),
            AppPicker::Message(form) => form.handle_key(key),
            AppPicker::Choices(picker) => match picker.list.handle_key(key) {
                ListStep::Stays | ListStep::Moved => PickerOutcome::Stays,
                ListStep::Closes => PickerOutcome::Closes,
                ListStep::Takes(index) => {
                    let effects = picker.effects.get_mut(index).and_then(Option::take);
                    PickerOutcome::Chooses(effects.unwrap_or_default())
                }
            },
            AppPicker::Settings(form) => match form.handle_key(key) {
                SettingsFormOutcome::Ignored | SettingsFormOutcome::Changed => PickerOutcome::Stays,
                SettingsFormOutcome::Closed => PickerOutcome::Closes,
                SettingsFormOutcome::Saved(changes) => {
                    PickerOutcome::Chooses(changes.into_iter().flat_map(setting_effects).collect())
                }
            },
            AppPicker::Form(form) => match form.handle_key(key) {
                CommandFormOutcome::Ignored | CommandFormOutcome::Changed => PickerOutcome::Stays,
                CommandFormOutcome::Closed => PickerOutcome::Closes,
                CommandFormOutcome::Accepted(effects) => PickerOutcome::Chooses(effects),
            },
        }
    }

    pub fn paste(&mut self, text: &str) {
        match self {
            AppPicker::Sessions(picker) => picker.list.type_text(text),
            AppPicker::Rewind(picker) => picker.list.type_text(text),
            AppPicker::Choices(picker) => picker.list.type_text(text),
            AppPicker::Message(form) => form.paste(text),
            AppPicker::Form(form) => form.paste(text),
            AppPicker::Settings(_) | AppPicker::Tasks(_) => {}
        }
    }

    /// Returns what has to be found out for the row under the pointer.
    pub fn preview_effects(&self) -> Vec<AppEffect> {
        match self {
            AppPicker::Rewind(picker) => picker.preview_effects(),
            AppPicker::Sessions(_)
            | AppPicker::Choices(_)
            | AppPicker::Settings(_)
            | AppPicker::Tasks(_)
            | AppPicker::Message(_)
            | AppPicker::Form(_) => Vec::new(),
        }
    }

    pub fn set_rewind_preview(&mut self, prompt: &EntryId, outcome: Result<RewindOutcome, String>) {
        if let AppPicker::Rewind(picker) = self {
            picker.set_preview(prompt, outcome);
        }
    }

    /// Renders the picker in at most `max_rows` rows; returns its lines and the cursor in them.
    pub fn render(&mut self, max_rows: usize, cx: &RenderContext<'_>) -> (Vec<StyledLine>, Option<(usize, usize)>) {
        match self {
            AppPicker::Sessions(picker) => picker.list.render(max_rows, cx),
            AppPicker::Rewind(picker) => picker.render(max_rows, cx),
            AppPicker::Choices(picker) => picker.list.render(max_rows, cx),
            AppPicker::Tasks(picker) => picker.render(max_rows, cx),
            AppPicker::Message(form) => form.render(cx),
            AppPicker::Settings(form) => {
                let view = form.render(max_rows, cx);
                (view.lines, view.cursor)
            }
            AppPicker::Form(form) => {
                let view = form.render(max_rows, cx);
                (view.lines, view.cursor)
            }
        }
    }
}

/// Returns what a changed setting brings about, now and for later sessions.
fn setting_effects(change: SettingChange) -> Vec<AppEffect> {
    let SettingChange { key, value } = change;
    let background = match (key, value.as_str()) {
        ("theme", "light" | "light-ansi") => Some(ScreenBackground::Light),
        ("theme", "dark" | "dark-ansi") => Some(ScreenBackground::Dark),
        _ => None,
    };
    let mut effects: Vec<AppEffect> = background.map(AppEffect::SetTheme).into_iter().collect();
    effects.push(AppEffect::SaveUserSetting { key, value });
    effects
}
