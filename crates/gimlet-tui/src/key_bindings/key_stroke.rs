//! Keys in the form in which they are compared and written down.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key with its modifiers, the same for every terminal that reports it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyStroke {
    code: KeyCode,
    modifiers: KeyModifiers,
}

/// One key or several after one another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyStrokes(Vec<KeyStroke>);

/// Names of keys that are not characters.
const KEY_NAMES: &[(&str, KeyCode)] = &[
    ("enter", KeyCode::Enter),
    ("return", KeyCode::Enter),
    ("escape", KeyCode::Esc),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
];

const MODIFIER_NAMES: &[(&str, KeyModifiers)] = &[
    ("ctrl", KeyModifiers::CONTROL),
    ("control", KeyModifiers::CONTROL),
    ("alt", KeyModifiers::ALT),
    ("opt", KeyModifiers::ALT),
    ("option", KeyModifiers::ALT),
    ("meta", KeyModifiers::ALT),
    ("shift", KeyModifiers::SHIFT),
    ("cmd", KeyModifiers::SUPER),
    ("command", KeyModifiers::SUPER),
    ("super", KeyModifiers::SUPER),
    ("win", KeyModifiers::SUPER),
];

impl KeyStroke {
    pub fn from_event(event: &KeyEvent) -> Self {
        Self::new(event.code, event.modifiers)
    }

    /// Creates a key. An upper-case letter is the letter with Shift; Shift means nothing with other characters.
    pub fn new(code: KeyCode, modifiers: KeyModifiers) -> Self {
        let mut kept =
            modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT | KeyModifiers::SUPER);
        if modifiers.contains(KeyModifiers::META) {
            kept |= KeyModifiers::ALT;
        }
        let code = match code {
            KeyCode::BackTab => {
                kept |= KeyModifiers::SHIFT;
                KeyCode::Tab
            }
            // Terminals report Ctrl+_ as one of these.
            KeyCode::Char('7' | '/' | '-' | '_') if kept.contains(KeyModifiers::CONTROL) => {
                kept -= KeyModifiers::SHIFT;
                KeyCode::Char('_')
            }
            KeyCode::Char(char) if char.is_uppercase() => {
                kept |= KeyModifiers::SHIFT;
                KeyCode::Char(char.to_lowercase().next().unwrap_or(char))
            }
            KeyCode::Char(char) if !char.is_alphabetic() && char != ' ' => {
                kept -= KeyModifiers::SHIFT;
                code
            }
            _ => code,
        };
        Self { code, modifiers: kept }
    }

    pub fn code(&self) -> KeyCode {
        self.code
    }

    pub fn modifiers(&self) -> KeyModifiers {
        self.modifiers
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        while let Some((name, after)) = rest.split_once('+') {
            // `ctrl++` is the plus key.
            if after.is_empty() && name.is_empty() {
                break;
            }
            let known = MODIFIER_NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let Some((_, modifier)) = known else { return Err(format!("`{name}` is no modifier")) };
            modifiers |= *modifier;
            rest = after;
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(char), None) => KeyCode::Char(char),
            _ => named_key(rest).ok_or_else(|| format!("`{rest}` is no key"))?,
        };
        // With a modifier beside it, the case of a letter means nothing.
        let code = match code {
            KeyCode::Char(char) if !modifiers.is_empty() => KeyCode::Char(char.to_lowercase().next().unwrap_or(char)),
            other => other,
        };
        Ok(Self::new(code, modifiers))
    }
}

fn named_key(name: &str) -> Option<KeyCode> {
    if let Some((_, code)) = KEY_NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Some(*code);
    }
    let number: u8 = name.strip_prefix(['f', 'F'])?.parse().ok()?;
    if (1..=24).contains(&number) { Some(KeyCode::F(number)) } else { None }
}

impl fmt::Display for KeyStroke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, modifier) in [
            ("ctrl", KeyModifiers::CONTROL),
            ("alt", KeyModifiers::ALT),
            ("shift", KeyModifiers::SHIFT),
            ("cmd", KeyModifiers::SUPER),
        ] {
            if self.modifiers.contains(modifier) {
                write!(f, "{name}+")?;
            }
        }
        match self.code {
            KeyCode::Char(' ') => f.write_str("space"),
            KeyCode::Char(char) => write!(f, "{char}"),
            KeyCode::Esc => f.write_str("esc"),
            KeyCode::F(number) => write!(f, "f{number}"),
            code => match KEY_NAMES.iter().find(|(_, known)| *known == code) {
                Some((name, _)) => f.write_str(name),
                None => write!(f, "{code:?}"),
            },
        }
    }
}

impl KeyStrokes {
    /// Reads keys such as `ctrl+x ctrl+k`; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let keys = text.split_whitespace().map(KeyStroke::parse).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err("no key is named".to_owned()) } else { Ok(Self(keys)) }
    }

    pub fn as_slice(&self) -> &[KeyStroke] {
        &self.0
    }
}

impl fmt::Display for KeyStrokes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{key}")?;
        }
        Ok(())
    }
}
