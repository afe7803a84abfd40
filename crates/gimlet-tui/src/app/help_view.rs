//! What the keys do, on one page.

use super::text_page::TextPage;
use crate::key_bindings::{KeyAction, KeyBindings, KeyContext};
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::display_width;

/// Columns of the left part of the page.
const KEY_COLUMN: usize = 20;

/// Keys that cannot be bound otherwise, with what they do.
const FIXED_KEYS: &[(&str, &str)] = &[
    ("/", "commands"),
    ("@", "name a file"),
    ("!", "run a shell command yourself"),
    ("esc esc", "clear the input; on an empty input go back to an earlier prompt"),
    ("\\ enter", "new line (also shift+enter, ctrl+j)"),
];

const ACTIONS: &[(KeyContext, KeyAction, &str)] = &[
    (KeyContext::Chat, KeyAction::ChatCancel, "stop the model"),
    (KeyContext::Chat, KeyAction::ChatCycleMode, "ask / allow edits / plan only"),
    (KeyContext::Global, KeyAction::AppToggleTranscript, "everything in full: thinking, output, times"),
    (KeyContext::Global, KeyAction::HistorySearch, "search earlier prompts"),
    (KeyContext::Task, KeyAction::TaskBackground, "let what runs go on in the background"),
    (KeyContext::Global, KeyAction::AppToggleTodos, "show or hide the to-do list"),
    (KeyContext::Chat, KeyAction::ChatThinkingToggle, "thinking on or off"),
    (KeyContext::Chat, KeyAction::ChatModelPicker, "choose the model"),
    (KeyContext::Chat, KeyAction::ChatExternalEditor, "write in your editor"),
    (KeyContext::Chat, KeyAction::ChatStash, "put the input aside, and take it back"),
    (KeyContext::Chat, KeyAction::ChatImagePaste, "paste an image"),
    (KeyContext::Chat, KeyAction::ChatUndo, "undo"),
    (KeyContext::Global, KeyAction::AppRedraw, "draw the screen again"),
    (KeyContext::Global, KeyAction::AppSuspend, "suspend"),
    (KeyContext::Global, KeyAction::AppInterrupt, "stop, clear, and when pressed twice exit"),
    (KeyContext::Global, KeyAction::AppExit, "pressed twice: exit"),
];

/// Returns the page about the keys, as they are bound.
pub(super) fn key_page(bindings: &KeyBindings) -> TextPage {
    let fixed = FIXED_KEYS.iter().map(|(keys, text)| ((*keys).to_owned(), *text));
    let bound = ACTIONS
        .iter()
        .filter_map(|(context, action, text)| bindings.keys_for(*context, *action).map(|keys| (keys, *text)));
    let rows = fixed.chain(bound).map(|(keys, text)| key_row(&keys, text));
    let mut lines: Vec<StyledLine> = rows.collect();
    lines.push(StyledLine::blank());
    lines.push(StyledLine::of("  /help lists the commands; keybindings.json changes the keys", TextTone::Dim));
    TextPage::new("Keys", lines)
}

fn key_row(keys: &str, text: &str) -> StyledLine {
    let gap = KEY_COLUMN.saturating_sub(display_width(keys)).max(1);
    StyledLine::of(format!("  {keys}"), TextTone::Accent)
        .with(" ".repeat(gap), TextTone::Text)
        .with(text, TextTone::Text)
        .hanging(KEY_COLUMN + 2)
}
