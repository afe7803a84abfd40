//! Queries and requests of the driving program beside the conversation. Answered at once, also while a turn runs; the
//! model does not see them.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::{CommandInfo, EntryId, HistoryItem, OpReply, PermissionMode, ServerRequest, ThinkingDisplay, ThinkingMode};

/// One query or request.
#[derive(Debug)]
pub enum SessionQuery {
    /// The end of what a background command has printed.
    TaskOutput { task: String, reply: OpReply<TaskOutputTail> },
    /// Reads the beginning of a file that the rules allow to be read without asking.
    ReadFile { path: PathBuf, most: usize, reply: OpReply<FilePrefix> },
    /// Returns those of these files that the rules allow to be read without asking.
    ReadableFiles { paths: Vec<PathBuf>, reply: OpReply<Vec<PathBuf>> },
    /// The permission rules that hold, and the folders that the session works in.
    Permissions { reply: OpReply<PermissionsView> },
    /// The slash commands that can be typed.
    Commands { reply: OpReply<Vec<CommandInfo>> },
    /// The hooks that are called.
    Hooks { reply: OpReply<Vec<HookListing>> },
    /// Adds a working directory. Returns its path with symlinks resolved.
    AddDirectory { directory: PathBuf, requester: DirectoryRequester, reply: OpReply<PathBuf> },
    /// Changes the directory that commands start in to another one inside the session's. Returns its path with
    /// symlinks resolved.
    ChangeDirectory { directory: PathBuf, reply: OpReply<PathBuf> },
    /// Asks the model beside the conversation, which stays as it is. Dropping the receiver ends the request.
    Aside { request: AsideRequest, reply: OpReply<String> },
    /// Sends a request to a server, unless rules forbid it; a direct request needs no further permission. Returns the
    /// server's own result, an object.
    ServerRequest { wish: ServerRequest, reply: OpReply<Value> },
    /// A conversation so far, from its transcript: the main one, or that of a subagent of this run.
    History {
        /// The subagent's task.
        agent: Option<String>,
        reply: OpReply<Vec<HistoryItem>>,
    },
    /// Returns the overrides set while the session ran, for a session that replaces it.
    Overrides { reply: OpReply<SessionOverrides> },
    /// Applies the overrides of another session to this one.
    ApplyOverrides(SessionOverrides),
}

/// Who wants a further working directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryRequester {
    /// The driving program: the directory must lie inside one of the session's.
    Program,
    /// The user, who may name any.
    User,
}

/// A request to the model beside the conversation. It has no tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AsideRequest {
    /// A question about the conversation.
    Question(String),
    /// A summary of what was said and done from a prompt on.
    SummaryFrom { prompt: EntryId, focus: Option<String> },
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
    /// Path with symlinks resolved.
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
    /// Directory in which the session started.
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
    /// True if hooks of this event are called for a subject that a matcher names.
    pub has_subject: bool,
    pub matcher: String,
    /// Whose hook it is, in words.
    pub source: String,
    /// Kind of the hook: `callback`, `command`, …
    pub kind: &'static str,
    /// Text of the hook: what is run.
    pub text: String,
    pub timeout_secs: Option<f64>,
}

/// Settings of a session that were changed while it ran.
#[derive(Clone, Debug, Default)]
pub struct SessionOverrides {
    /// Rules and folders, as changes in the form that hooks and programs share.
    pub changes: Vec<Arc<RawValue>>,
    /// The mode to go back to when planning ends.
    pub mode_before_plan: PermissionMode,
    pub thinking: ThinkingMode,
    pub display: Option<ThinkingDisplay>,
    /// Thinking effort, if it differs from the initial one.
    pub effort: Option<String>,
}
