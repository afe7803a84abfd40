//! What the program that drives a session asks about it, or wants done beside the conversation. Answered at once, also
//! while a turn runs; the model learns nothing of it.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::{OpReply, PermissionMode, ServerRequest, ThinkingDisplay, ThinkingMode};

/// One such wish.
#[derive(Debug)]
pub enum SessionQuery {
    /// The end of what a background command has printed.
    TaskOutput { task: String, reply: OpReply<TaskOutputTail> },
    /// The beginning of a file that the rules let anybody read without a question.
    ReadFile { path: PathBuf, most: usize, reply: OpReply<FilePrefix> },
    /// Which of these files the rules let anybody read without a question.
    ReadableFiles { paths: Vec<PathBuf>, reply: OpReply<Vec<PathBuf>> },
    /// The permission rules that hold, and the folders that the session works in.
    Permissions { reply: OpReply<PermissionsView> },
    /// The hooks that are called.
    Hooks { reply: OpReply<Vec<HookListing>> },
    /// Work in this folder too; it must lie inside one of the session's. Gives its link-free path.
    AddDirectory { directory: PathBuf, reply: OpReply<PathBuf> },
    /// Has a server do something, unless rules forbid it: whoever wants it by themselves needs no leave beyond that.
    /// Gives the server's own result, an object.
    ServerRequest { wish: ServerRequest, reply: OpReply<Value> },
    /// What was said to the session while it ran and holds for one in its place.
    Overrides { reply: OpReply<SessionOverrides> },
    /// Makes what was said to another session hold in this one.
    ApplyOverrides(SessionOverrides),
}

/// The end of a task's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOutputTail {
    pub output: String,
    pub total_bytes: u64,
    pub truncated: bool,
}

/// The beginning of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePrefix {
    /// Link-free.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    pub truncated: bool,
}

/// Rules and folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionsView {
    pub rules: Vec<PermissionRuleView>,
    /// Folders beside the first, and whether the session itself added them.
    pub directories: Vec<(PathBuf, bool)>,
    /// Where the session started.
    pub start: PathBuf,
}

/// One rule as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRuleView {
    /// `allow`, `ask` or `deny`.
    pub behavior: &'static str,
    /// The public name of where it comes from: `userSettings`, `cliArg`, `session`, …
    pub source: &'static str,
    pub rule: String,
}

/// One hook.
#[derive(Clone, Debug, PartialEq)]
pub struct HookListing {
    pub event: &'static str,
    /// Whether hooks of this event are called for a subject that a matcher names.
    pub has_subject: bool,
    pub matcher: String,
    /// Whose hook it is, in words.
    pub source: String,
    /// What runs it: `callback`, `command`, …
    pub kind: &'static str,
    /// What is run.
    pub text: String,
    pub timeout_secs: Option<f64>,
}

/// What holds for a session because somebody said so while it ran.
#[derive(Clone, Debug, Default)]
pub struct SessionOverrides {
    /// Rules and folders, as changes in the form that hooks and programs share.
    pub changes: Vec<Arc<RawValue>>,
    /// The mode to go back to when planning ends.
    pub mode_before_plan: PermissionMode,
    pub thinking: ThinkingMode,
    pub display: Option<ThinkingDisplay>,
    /// How hard the model thinks, where that is not as it was at the start.
    pub effort: Option<String>,
}
