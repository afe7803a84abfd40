//! Which keys do what: the defaults, and what `keybindings.json` changes in them. Reads text, never a file.
//!
//! A binding belongs to a context (the prompt, a list, a question) and maps one key or a sequence of keys to an action.
//! Keys of the text editor itself (moving, cutting) are no actions; a binding for one of them takes precedence.

mod actions;
mod key_stroke;
mod parse;

pub use actions::{KeyAction, KeyContext};
pub use key_stroke::{KeyStroke, KeyStrokes};
pub use parse::KeyBindingProblem;

/// One key or sequence of keys in one context. `action` is `None` for one that the user switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyBinding {
    context: KeyContext,
    keys: KeyStrokes,
    action: Option<KeyAction>,
}

/// All bindings; later ones take precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBindings {
    rows: Vec<KeyBinding>,
}

/// What the keys pressed so far mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyResolution {
    Action(KeyAction),
    /// The beginning of a sequence: the next key decides.
    Prefix,
    /// Switched off by the user.
    Disabled,
    Unbound,
}

impl Default for KeyBindings {
    fn default() -> Self {
        let rows = actions::DEFAULT_BINDINGS.iter().flat_map(|(context, rows)| {
            rows.iter().filter_map(|(keys, action)| {
                // The defaults are parsed by a test.
                let keys = KeyStrokes::parse(keys).ok()?;
                Some(KeyBinding { context: *context, keys, action: Some(*action) })
            })
        });
        Self { rows: rows.collect() }
    }
}

impl KeyBindings {
    /// Reads the text of `keybindings.json` over the defaults. What cannot be used is left out and named in the problems.
    pub fn parse(text: &str) -> (Self, Vec<KeyBindingProblem>) {
        let mut bindings = Self::default();
        let problems = parse::apply_bindings(text, &mut bindings.rows);
        (bindings, problems)
    }

    /// Returns what keys mean in the first of these contexts that knows them.
    pub fn resolve(&self, contexts: &[KeyContext], keys: &[KeyStroke]) -> KeyResolution {
        let mut is_disabled = false;
        for context in contexts {
            let found = self.rows.iter().rev().find(|row| row.context == *context && row.keys.as_slice() == keys);
            match found.map(|row| row.action) {
                Some(Some(action)) => return KeyResolution::Action(action),
                Some(None) => is_disabled = true,
                None => {}
            }
        }
        let begins = |row: &KeyBinding| {
            row.keys.as_slice().len() > keys.len()
                && row.keys.as_slice().starts_with(keys)
                && self.is_in_force(row)
                && contexts.contains(&row.context)
        };
        if self.rows.iter().any(begins) {
            KeyResolution::Prefix
        } else if is_disabled {
            KeyResolution::Disabled
        } else {
            KeyResolution::Unbound
        }
    }

    /// Returns the keys of an action as text, for hints; the binding that was made last, `None` if there is none.
    pub fn keys_for(&self, context: KeyContext, action: KeyAction) -> Option<String> {
        let bound = |row: &&KeyBinding| row.context == context && row.action == Some(action) && self.is_in_force(row);
        let user_made = self.rows.iter().skip(actions::default_count()).rev().find(bound);
        user_made.or_else(|| self.rows.iter().find(bound)).map(|row| row.keys.to_string())
    }

    /// Returns false for a binding that a later one replaces.
    fn is_in_force(&self, row: &KeyBinding) -> bool {
        let last = self.rows.iter().rev().find(|other| other.context == row.context && other.keys == row.keys);
        row.action.is_some() && last == Some(row)
    }
}

#[cfg(test)]
mod tests;
