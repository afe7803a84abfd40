//! Keys of questions and lists, through the user's bindings.

use crossterm::event::{KeyCode, KeyModifiers};

use crate::key_bindings::{KeyAction, KeyBindings, KeyContext, KeyResolution, KeyStroke};

/// What a key means in a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialogKey {
    Up,
    Down,
    PageUp,
    PageDown,
    Accept,
    Cancel,
    NextField,
    PreviousField,
    Toggle,
    Explain,
    EditExternally,
    /// A digit from 1 to 9.
    Digit(usize),
    /// A character without Control and Alt that means nothing else.
    Letter(char),
    Other,
}

/// Translates keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct DialogKeys {
    bindings: KeyBindings,
}

impl DialogKeys {
    pub(crate) fn new(bindings: &KeyBindings) -> Self {
        Self { bindings: bindings.clone() }
    }

    pub(crate) fn translate(&self, stroke: KeyStroke) -> DialogKey {
        let contexts = [KeyContext::Confirmation, KeyContext::Select];
        if let KeyResolution::Action(action) = self.bindings.resolve(&contexts, &[stroke]) {
            return match action {
                KeyAction::ConfirmYes | KeyAction::SelectAccept => DialogKey::Accept,
                KeyAction::ConfirmNo | KeyAction::SelectCancel => DialogKey::Cancel,
                KeyAction::ConfirmPrevious | KeyAction::SelectPrevious => DialogKey::Up,
                KeyAction::ConfirmNext | KeyAction::SelectNext => DialogKey::Down,
                KeyAction::ConfirmNextField => DialogKey::NextField,
                KeyAction::ConfirmCycleMode => DialogKey::PreviousField,
                KeyAction::ConfirmToggle => DialogKey::Toggle,
                KeyAction::ConfirmToggleExplanation => DialogKey::Explain,
                _ => DialogKey::Other,
            };
        }
        let plain = !stroke.modifiers().intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER);
        match stroke.code() {
            KeyCode::PageUp => DialogKey::PageUp,
            KeyCode::PageDown => DialogKey::PageDown,
            KeyCode::Char('g') if stroke.modifiers() == KeyModifiers::CONTROL => DialogKey::EditExternally,
            KeyCode::Char(char) if plain => match char.to_digit(10) {
                Some(digit) if digit > 0 => DialogKey::Digit(digit as usize),
                _ => DialogKey::Letter(char),
            },
            _ => DialogKey::Other,
        }
    }
}

/// Returns true for a key that types a character.
pub(crate) fn is_typing(stroke: KeyStroke) -> bool {
    let held = KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER;
    matches!(stroke.code(), KeyCode::Char(_)) && !stroke.modifiers().intersects(held)
}
