//! Display form of a tool call: a small closed set of shapes. Front ends draw shapes and know no tool.

use serde::{Deserialize, Serialize};

/// One thing to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// Plain words.
    Text(String),
    /// A change of one file.
    Diff { path: String, hunks: Vec<DiffHunk> },
    /// A command and what it printed.
    Terminal { command: String, output: String, exit_code: Option<i32> },
    /// A list of files with an optional remark.
    Files { paths: Vec<String>, note: Option<String> },
    /// A to-do list.
    Todos(Vec<TodoItem>),
    /// Rows under a head.
    Table { head: Vec<String>, rows: Vec<Vec<String>> },
}

/// One hunk of a unified diff; `lines` carry their leading ` `, `+` or `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffHunk {
    pub old_start: usize,
    pub old_lines: usize,
    pub new_start: usize,
    pub new_lines: usize,
    pub lines: Vec<String>,
}

/// Status of a to-do item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

/// One to-do item as shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodoItem {
    pub text: String,
    pub status: TodoStatus,
}

impl View {
    /// Creates a table of a call's arguments, for calls about which nothing else is known.
    pub fn from_arguments(input: &serde_json::Value) -> Self {
        let serde_json::Value::Object(fields) = input else { return View::Text(input.to_string()) };
        let cell = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let rows = fields.iter().map(|(name, value)| vec![name.clone(), cell(value)]).collect();
        View::Table { head: vec!["Argument".to_owned(), "Value".to_owned()], rows }
    }
}
