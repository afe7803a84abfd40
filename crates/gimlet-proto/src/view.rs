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
