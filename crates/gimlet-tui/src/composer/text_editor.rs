//! A text with its cursor and the keys that readline has for it: moving, cutting and putting back.

use crossterm::event::{KeyCode, KeyModifiers};

use super::edit_buffer::{EditBuffer, EditKind, WordRule};
use super::kill_ring::{KillRing, KillSide};
use crate::key_bindings::KeyStroke;

/// How far Ctrl+W goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WordFlavor {
    /// Words end at punctuation.
    #[default]
    Classic,
    /// Ctrl+W removes up to the space before.
    Readline,
}

impl WordFlavor {
    /// Reads the setting `keybindingFlavor`.
    pub fn from_setting(value: &str) -> Self {
        if value == "readline" { WordFlavor::Readline } else { WordFlavor::Classic }
    }
}

/// A text that is edited with keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextEditor {
    pub(crate) buffer: EditBuffer,
    pub(crate) kills: KillRing,
    pub(crate) word_flavor: WordFlavor,
}

impl TextEditor {
    /// Edits with a key; returns false if it means nothing to the editor.
    pub(crate) fn edit_with_key(&mut self, stroke: KeyStroke) -> bool {
        let modifiers = stroke.modifiers();
        let has_control = modifiers.contains(KeyModifiers::CONTROL);
        let has_alt = modifiers.contains(KeyModifiers::ALT);
        let is_kill_or_yank = match (stroke.code(), has_control, has_alt) {
            (code, true, false) => self.kill_with_control(code),
            (code, false, true) => self.kill_with_alt(code),
            _ => false,
        };
        if is_kill_or_yank {
            return true;
        }
        self.kills.end_run();
        if modifiers.contains(KeyModifiers::SUPER) {
            return false;
        }
        match (stroke.code(), has_control, has_alt) {
            (KeyCode::Char(char), false, false) => {
                let text: String = typed_chars(char, modifiers).into_iter().collect();
                self.buffer.insert(&text, EditKind::Typing);
                true
            }
            (KeyCode::Backspace, false, false) | (KeyCode::Char('h'), true, false) => {
                let cursor = self.buffer.cursor();
                let start = self.buffer.previous_border(cursor);
                self.buffer.remove(start..cursor, EditKind::Erasing);
                true
            }
            (KeyCode::Delete, false, false) => {
                let cursor = self.buffer.cursor();
                let end = self.buffer.next_border(cursor);
                self.buffer.remove(cursor..end, EditKind::Erasing);
                true
            }
            (KeyCode::Char(char), false, true) if matches!(char, 'u' | 'l' | 'c') => {
                self.change_case(char);
                true
            }
            (code, control, alt) => self.move_with_key(code, control, alt),
        }
    }

    fn word_rule(&self) -> WordRule {
        match self.word_flavor {
            WordFlavor::Classic => WordRule::Letters,
            WordFlavor::Readline => WordRule::Blanks,
        }
    }

    /// Moves the cursor; returns false for other keys.
    fn move_with_key(&mut self, code: KeyCode, has_control: bool, has_alt: bool) -> bool {
        let buffer = &mut self.buffer;
        let cursor = buffer.cursor();
        let target = match (code, has_control, has_alt) {
            (KeyCode::Left, false, false) | (KeyCode::Char('b'), true, false) => buffer.previous_border(cursor),
            (KeyCode::Right, false, false) | (KeyCode::Char('f'), true, false) => buffer.next_border(cursor),
            (KeyCode::Left, _, _) | (KeyCode::Char('b'), false, true) => {
                buffer.word_start_before(cursor, WordRule::Letters)
            }
            (KeyCode::Right, _, _) | (KeyCode::Char('f'), false, true) => {
                buffer.word_end_after(cursor, WordRule::Letters)
            }
            (KeyCode::Home, true, _) | (KeyCode::Char('<'), false, true) => 0,
            (KeyCode::End, true, _) | (KeyCode::Char('>'), false, true) => buffer.text().len(),
            (KeyCode::Home, false, false) | (KeyCode::Char('a'), true, false) => buffer.line_range(cursor).start,
            (KeyCode::End, false, false) | (KeyCode::Char('e'), true, false) => buffer.line_range(cursor).end,
            _ => return false,
        };
        buffer.set_cursor(target);
        true
    }

    fn kill_with_control(&mut self, code: KeyCode) -> bool {
        let cursor = self.buffer.cursor();
        let line = self.buffer.line_range(cursor);
        match code {
            // At the end of a line its break is cut, so that repeating it goes on.
            KeyCode::Char('k') => {
                let end = if cursor == line.end { self.buffer.next_border(cursor) } else { line.end };
                self.kill(cursor..end, KillSide::After);
            }
            KeyCode::Char('u') => {
                let start = if cursor == line.start { self.buffer.previous_border(cursor) } else { line.start };
                self.kill(start..cursor, KillSide::Before);
            }
            KeyCode::Char('w') => {
                let start = self.buffer.word_start_before(cursor, self.word_rule());
                self.kill(start..cursor, KillSide::Before);
            }
            KeyCode::Backspace => {
                let start = self.buffer.word_start_before(cursor, WordRule::Letters);
                self.kill(start..cursor, KillSide::Before);
            }
            KeyCode::Delete => {
                let end = self.buffer.word_end_after(cursor, WordRule::Letters);
                self.kill(cursor..end, KillSide::After);
            }
            KeyCode::Char('y') => {
                if let Some(text) = self.kills.yank().map(str::to_owned) {
                    self.buffer.insert(&text, EditKind::Other);
                }
            }
            _ => return false,
        }
        true
    }

    fn kill_with_alt(&mut self, code: KeyCode) -> bool {
        let cursor = self.buffer.cursor();
        match code {
            KeyCode::Char('d') | KeyCode::Delete => {
                let end = self.buffer.word_end_after(cursor, WordRule::Letters);
                self.kill(cursor..end, KillSide::After);
            }
            KeyCode::Backspace => {
                let start = self.buffer.word_start_before(cursor, WordRule::Letters);
                self.kill(start..cursor, KillSide::Before);
            }
            KeyCode::Char('y') => {
                if let Some((current, next)) = self.kills.rotate() {
                    let start = cursor.saturating_sub(current.len());
                    if self.buffer.slice(start..cursor) == current {
                        self.buffer.replace(start..cursor, &next, EditKind::Other);
                    }
                }
            }
            _ => return false,
        }
        true
    }

    fn kill(&mut self, range: std::ops::Range<usize>, side: KillSide) {
        let text = self.buffer.remove(range, EditKind::Other);
        self.kills.push(&text, side);
    }

    /// Changes the case of the word after the cursor: `u` upper, `l` lower, `c` capitalised.
    fn change_case(&mut self, how: char) {
        let cursor = self.buffer.cursor();
        let end = self.buffer.word_end_after(cursor, WordRule::Letters);
        let word = self.buffer.slice(cursor..end);
        if self.buffer.atoms().iter().any(|atom| word.contains(atom.as_str())) {
            self.buffer.set_cursor(end);
            return;
        }
        let changed = match how {
            'u' => word.to_uppercase(),
            'l' => word.to_lowercase(),
            _ => capitalise(word),
        };
        self.buffer.replace(cursor..end, &changed, EditKind::Other);
    }
}

/// Returns the characters that a key types.
pub(crate) fn typed_chars(char: char, modifiers: KeyModifiers) -> Vec<char> {
    if modifiers.contains(KeyModifiers::SHIFT) { char.to_uppercase().collect() } else { vec![char] }
}

fn capitalise(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut is_first = true;
    for char in word.chars() {
        if is_first && char.is_alphabetic() {
            out.extend(char.to_uppercase());
            is_first = false;
        } else {
            out.extend(char.to_lowercase());
        }
    }
    out
}
