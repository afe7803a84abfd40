//! Changes one value of a JSON text and leaves every other byte alone: indentation, order, foreign keys, line ends.

use serde_json::Value;

use crate::json::{self, JsonNode, JsonText, JsonValue};

/// Change to a value.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonEdit {
    /// Sets this value; missing objects on the path are created.
    Set(Value),
    /// Adds to the end of a list, unless it is in there already.
    Append(Value),
    /// Removes this entry from a list.
    RemoveEntry(Value),
    /// Removes the key.
    RemoveKey,
}

/// Reason why a text was not changed.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum JsonEditError {
    #[error("line {line}, column {column}: {message}; correct it first")]
    Syntax { line: usize, column: usize, message: String },
    #[error("line {line}: {key} is {found}, not {wanted}")]
    Shape { line: usize, key: String, found: &'static str, wanted: &'static str },
    #[error("the text would not say what it should afterwards")]
    Unsafe,
}

/// Returns the text with one value changed. An empty text counts as an empty object.
pub(crate) fn apply_edit(text: &str, path: &[&str], edit: &JsonEdit) -> Result<String, JsonEditError> {
    let text = if text.trim_start_matches('\u{feff}').trim().is_empty() { "{}\n" } else { text };
    let parsed = json::parse_json(text).map_err(|error| {
        let at = JsonText::new(text.to_owned()).position_at(error.offset);
        JsonEditError::Syntax { line: at.line, column: at.column, message: error.message }
    })?;
    let editor = JsonEditor { text, layout: JsonLayout::detect(text, &parsed.root) };
    let changed = editor.edit_at_path(&parsed.root, "the file", path, 0, edit)?;
    let Some((range, replacement)) = changed else { return Ok(text.to_owned()) };
    let mut out = String::with_capacity(text.len() + replacement.len());
    out.push_str(&text[..range.start]);
    out.push_str(&replacement);
    out.push_str(&text[range.end..]);
    if has_applied_edit(&out, path, edit) { Ok(out) } else { Err(JsonEditError::Unsafe) }
}

/// Returns true if the text has the result of the edit.
fn has_applied_edit(text: &str, path: &[&str], edit: &JsonEdit) -> bool {
    let Ok(parsed) = json::parse_json(text) else { return false };
    let found = parsed.root.find(path.iter().copied()).map(JsonNode::to_value);
    let listed = |value: &Value| found.as_ref().and_then(Value::as_array).is_some_and(|list| list.contains(value));
    match edit {
        JsonEdit::Set(value) => found.as_ref() == Some(value),
        JsonEdit::Append(value) => listed(value),
        JsonEdit::RemoveEntry(value) => !listed(value),
        JsonEdit::RemoveKey => found.is_none(),
    }
}

/// Indentation and line layout of a text.
struct JsonLayout {
    indent: String,
    newline: &'static str,
}

impl JsonLayout {
    fn detect(text: &str, root: &JsonNode) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = root.members().iter().map(|member| member.key_span.start).min();
        let indent = first.and_then(|start| leading_indentation(text, start)).filter(|indent| !indent.is_empty());
        Self { indent: indent.map_or_else(|| "  ".to_owned(), str::to_owned), newline }
    }
}

/// Returns the whitespace before a value that is the first on its line; `None` if it is not.
fn leading_indentation(text: &str, start: usize) -> Option<&str> {
    let line = text[..start].rfind('\n').map(|end| end + 1)?;
    let before = &text[line..start];
    before.bytes().all(|byte| byte == b' ' || byte == b'\t').then_some(before)
}

type SpanReplacement = Option<(std::ops::Range<usize>, String)>;

struct JsonEditor<'t> {
    text: &'t str,
    layout: JsonLayout,
}

impl JsonEditor<'_> {
    /// Applies the edit at the path below the node. `name` is the node's name in messages.
    fn edit_at_path(
        &self,
        node: &JsonNode,
        name: &str,
        path: &[&str],
        depth: usize,
        edit: &JsonEdit,
    ) -> Result<SpanReplacement, JsonEditError> {
        let Some((key, below)) = path.split_first() else {
            return self.edit_value(node, name, depth, edit);
        };
        if !matches!(node.json, JsonValue::Object(_)) {
            return Err(self.shape_error(node, name, "an object with keys"));
        }
        if let Some(member) = node.members().iter().find(|member| member.key == *key) {
            if below.is_empty() && *edit == JsonEdit::RemoveKey {
                let others: Vec<std::ops::Range<usize>> =
                    node.members().iter().map(|member| member.key_span.start..member.value.span.end).collect();
                let entry = member.key_span.start..member.value.span.end;
                return Ok(Some((self.span_with_separator(node, &others, entry), String::new())));
            }
            return self.edit_at_path(&member.value, key, below, depth + 1, edit);
        }
        let Some(new) = value_for_new_key(below, edit) else { return Ok(None) };
        let ends: Vec<usize> = node.members().iter().map(|member| member.value.span.end).collect();
        let first = node.members().iter().map(|member| member.key_span.start).min();
        let key = Value::String((*key).to_owned()).to_string();
        Ok(Some(self.insert_entry(node, first, ends.into_iter().max(), depth, |editor, inner| {
            format!("{key}: {}", editor.render_value(&new, inner))
        })))
    }

    fn edit_value(
        &self,
        node: &JsonNode,
        name: &str,
        depth: usize,
        edit: &JsonEdit,
    ) -> Result<SpanReplacement, JsonEditError> {
        let is_list = matches!(node.json, JsonValue::Array(_));
        match edit {
            JsonEdit::Set(value) if node.to_value() == *value => Ok(None),
            JsonEdit::Set(value) => {
                let indent = self.line_indentation(node, depth);
                Ok(Some((node.span.clone(), self.render_value(value, &indent))))
            }
            JsonEdit::Append(_) | JsonEdit::RemoveEntry(_) if !is_list => Err(self.shape_error(node, name, "a list")),
            JsonEdit::Append(value) => {
                if node.elements().iter().any(|element| element.to_value() == *value) {
                    return Ok(None);
                }
                let first = node.elements().first().map(|element| element.span.start);
                let last = node.elements().last().map(|element| element.span.end);
                Ok(Some(self.insert_entry(node, first, last, depth, |editor, inner| editor.render_value(value, inner))))
            }
            JsonEdit::RemoveEntry(value) => {
                let spans: Vec<std::ops::Range<usize>> =
                    node.elements().iter().map(|element| element.span.clone()).collect();
                let found = node.elements().iter().find(|element| element.to_value() == *value);
                Ok(found.map(|element| (self.span_with_separator(node, &spans, element.span.clone()), String::new())))
            }
            JsonEdit::RemoveKey => Ok(None),
        }
    }

    /// Puts an entry behind the last one, laid out as its neighbours are.
    fn insert_entry(
        &self,
        node: &JsonNode,
        first: Option<usize>,
        last: Option<usize>,
        depth: usize,
        entry: impl Fn(&Self, &str) -> String,
    ) -> (std::ops::Range<usize>, String) {
        let newline = self.layout.newline;
        match first.zip(last) {
            Some((first, last)) => match leading_indentation(self.text, first) {
                Some(inner) if first > node.span.start => {
                    (last..last, format!(",{newline}{inner}{}", entry(self, inner)))
                }
                _ => (last..last, format!(", {}", entry(self, &self.line_indentation(node, depth)))),
            },
            None => {
                let outer = self.line_indentation(node, depth);
                let inner = format!("{outer}{}", self.layout.indent);
                let (open, close) = if matches!(node.json, JsonValue::Array(_)) { ('[', ']') } else { ('{', '}') };
                let entry = entry(self, &inner);
                (node.span.clone(), format!("{open}{newline}{inner}{entry}{newline}{outer}{close}"))
            }
        }
    }

    /// Returns the range of an entry with its comma; for an only entry, also with the lines that it had for itself.
    fn span_with_separator(
        &self,
        node: &JsonNode,
        all: &[std::ops::Range<usize>],
        entry: std::ops::Range<usize>,
    ) -> std::ops::Range<usize> {
        let before = all.iter().filter(|other| other.end <= entry.start).map(|other| other.end).max();
        let after = all.iter().filter(|other| other.start >= entry.end).map(|other| other.start).min();
        match (before, after) {
            (Some(before), _) => before..entry.end,
            (None, Some(after)) => entry.start..after,
            (None, None) => {
                let inside = node.span.start + 1..node.span.end - 1;
                let around = [&self.text[inside.start..entry.start], &self.text[entry.end..inside.end]];
                // Comments and stray commas stay.
                if around.iter().all(|text| text.trim().is_empty()) { inside } else { entry }
            }
        }
    }

    /// Returns the indentation of the line that a value begins on.
    fn line_indentation(&self, node: &JsonNode, depth: usize) -> String {
        let line = self.text[..node.span.start].rfind('\n').map_or(0, |end| end + 1);
        let before = &self.text[line..node.span.start];
        let white = before.len() - before.trim_start_matches([' ', '\t']).len();
        if line == 0 && depth > 0 { self.layout.indent.repeat(depth) } else { before[..white].to_owned() }
    }

    fn render_value(&self, value: &Value, indent: &str) -> String {
        match value {
            Value::Array(values) if !values.is_empty() => {
                let inner = format!("{indent}{}", self.layout.indent);
                let entries: Vec<String> = values.iter().map(|value| self.render_value(value, &inner)).collect();
                self.render_block('[', ']', &entries, indent, &inner)
            }
            Value::Object(members) if !members.is_empty() => {
                let inner = format!("{indent}{}", self.layout.indent);
                let entry = |(key, value): (&String, &Value)| {
                    format!("{}: {}", Value::String(key.clone()), self.render_value(value, &inner))
                };
                let entries: Vec<String> = members.iter().map(entry).collect();
                self.render_block('{', '}', &entries, indent, &inner)
            }
            plain => plain.to_string(),
        }
    }

    fn render_block(&self, open: char, close: char, entries: &[String], indent: &str, inner: &str) -> String {
        let newline = self.layout.newline;
        let between = format!(",{newline}{inner}");
        format!("{open}{newline}{inner}{}{newline}{indent}{close}", entries.join(&between))
    }

    fn shape_error(&self, node: &JsonNode, key: &str, wanted: &'static str) -> JsonEditError {
        let line = JsonText::new(self.text.to_owned()).line_at(node.span.start);
        JsonEditError::Shape { line, key: key.to_owned(), found: node.kind_name(), wanted }
    }
}

/// Returns the value for a key that is new; `None` when there is nothing to add.
fn value_for_new_key(below: &[&str], edit: &JsonEdit) -> Option<Value> {
    let innermost = match edit {
        JsonEdit::Set(value) => value.clone(),
        JsonEdit::Append(value) => Value::Array(vec![value.clone()]),
        JsonEdit::RemoveEntry(_) | JsonEdit::RemoveKey => return None,
    };
    Some(
        below
            .iter()
            .rev()
            .fold(innermost, |value, key| Value::Object(std::iter::once(((*key).to_owned(), value)).collect())),
    )
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
