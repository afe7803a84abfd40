//! Reading `keybindings.json`. One mistake costs one binding, never the others.

use std::fmt;

use serde_json::Value;

use super::actions::{ACTION_NAMES, CONTEXT_NAMES, FOREIGN_PREFIXES};
use super::{KeyAction, KeyBinding, KeyContext, KeyStrokes};

/// Keys that always interrupt, leave and send, so that no file can lock a user in.
const RESERVED_KEYS: &[&str] = &["ctrl+c", "ctrl+d", "ctrl+m"];

/// Something in the file that is not used, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBindingProblem(String);

impl fmt::Display for KeyBindingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds the bindings of a file to `rows`; returns what is not used of it.
pub(super) fn apply_bindings(text: &str, rows: &mut Vec<KeyBinding>) -> Vec<KeyBindingProblem> {
    let mut reader = BindingReader { rows, problems: Vec::new() };
    reader.read(text);
    reader.problems
}

struct BindingReader<'a> {
    rows: &'a mut Vec<KeyBinding>,
    problems: Vec<KeyBindingProblem>,
}

impl BindingReader<'_> {
    fn problem(&mut self, text: String) {
        self.problems.push(KeyBindingProblem(text));
    }

    fn read(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return self.problem(format!("not valid JSON, nothing of it is used: {error}")),
        };
        let Some(groups) = value.get("bindings").and_then(Value::as_array) else {
            return self.problem("`bindings` must be a list of objects with `context` and `bindings`".to_owned());
        };
        for (index, group) in groups.iter().enumerate() {
            self.read_group(index, group);
        }
    }

    fn read_group(&mut self, index: usize, group: &Value) {
        let Some(name) = group.get("context").and_then(Value::as_str) else {
            return self.problem(format!("entry {} of `bindings` has no `context`", index + 1));
        };
        let Some(context) = KeyContext::from_name(name) else {
            let known: Vec<&str> = CONTEXT_NAMES.iter().map(|(name, _)| *name).collect();
            return self.problem(format!("there is no context `{name}`; there are {}", known.join(", ")));
        };
        let Some(bindings) = group.get("bindings").and_then(Value::as_object) else {
            return self.problem(format!("`bindings` of context {name} must be an object of keys and actions"));
        };
        let mut seen: Vec<KeyStrokes> = Vec::new();
        for (keys_text, action) in bindings {
            let keys = match KeyStrokes::parse(keys_text) {
                Ok(keys) => keys,
                Err(error) => {
                    self.problem(format!("{name}: `{keys_text}` cannot be bound: {error}"));
                    continue;
                }
            };
            let is_reserved =
                RESERVED_KEYS.iter().any(|reserved| KeyStrokes::parse(reserved).is_ok_and(|key| key == keys));
            if is_reserved {
                self.problem(format!("{name}: `{keys_text}` is reserved and keeps its meaning"));
                continue;
            }
            if seen.contains(&keys) {
                self.problem(format!("{name}: `{keys_text}` is bound twice; the last one counts"));
            }
            match self.read_action(name, keys_text, action) {
                Some(action) => {
                    seen.push(keys.clone());
                    self.rows.push(KeyBinding { context, keys, action });
                }
                None => continue,
            }
        }
    }

    /// Returns the action, `Some(None)` for a key that is switched off, `None` for what cannot be used.
    fn read_action(&mut self, context: &str, keys: &str, action: &Value) -> Option<Option<KeyAction>> {
        let name = match action {
            Value::Null => return Some(None),
            Value::String(name) => name,
            _ => {
                self.problem(format!("{context}: the action of `{keys}` must be a text or null"));
                return None;
            }
        };
        if let Some(action) = KeyAction::from_name(name) {
            return Some(Some(action));
        }
        if FOREIGN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            self.problem(format!("{context}: `{name}` does not exist in gimlet; `{keys}` does nothing"));
            return None;
        }
        let nearest = ACTION_NAMES.iter().min_by_key(|(known, _)| gimlet_text::edit_distance(name, known));
        let hint = match nearest {
            Some((known, _)) if gimlet_text::edit_distance(name, known) <= 4 => format!("; did you mean `{known}`?"),
            _ => String::new(),
        };
        self.problem(format!("{context}: there is no action `{name}`{hint}"));
        None
    }
}
