//! Services above a single session: the next session, lists and searches, settings, trust, servers.
//!
//! A front end holds a `SessionHandle` for its conversation and a [`Host`] for everything else.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::{
    AgentSummary, BoxFuture, DriverHook, EntryId, ModelUsage, PermissionMode, PromptHistoryEntry, ServerRegistry,
    SessionHandle, SessionId, TrustItem,
};

/// Services that a front end needs besides its session. Errors are texts for the user.
pub trait Host: Send + Sync {
    /// Opens a session in place of the one that ended.
    fn replace_session(&self, replacement: SessionReplacement) -> BoxFuture<'static, Result<OpenedSession, String>>;

    /// Checks that a session can be opened with these changes; returns the problem otherwise.
    fn check_changes(&self, changes: &SessionChanges) -> Result<(), String>;

    /// Checks that these hooks can be called as declared.
    fn check_hooks(&self, hooks: &[DriverHook]) -> Result<(), String>;

    /// Returns the sessions that can be resumed, the newest first.
    fn list_sessions(&self, scope: SessionScope) -> BoxFuture<'static, Result<Vec<SessionInfo>, String>>;

    /// Searches in everything that was said in sessions, the newest first.
    fn search_sessions(&self, search: SessionSearch) -> BoxFuture<'static, Result<Vec<SessionMatch>, String>>;

    /// Sets the title of the running session.
    fn rename_session(&self, session: &SessionId, title: &str) -> Result<(), String>;

    /// Sets the title of the running session unless it was resumed with one of its own.
    fn set_default_title(&self, session: &SessionId, title: &str) -> Result<(), String>;

    /// Returns earlier prompts, oldest first: of this folder, or of all.
    fn prompt_history(&self, scope: SessionScope) -> BoxFuture<'static, Result<Vec<PromptHistoryEntry>, String>>;

    /// Adds a prompt that was typed to the history, unless this run keeps nothing.
    fn append_prompt_history(
        &self,
        session: &SessionId,
        entry: PromptHistoryEntry,
    ) -> BoxFuture<'static, Result<(), String>>;

    /// Returns the models that the running session can choose by a short name.
    fn models(&self) -> Vec<ModelInfo>;

    /// Reads the settings again and returns them.
    fn settings(&self) -> Result<SettingsView, String>;

    /// Applies keys over the settings of the command line; `null` removes one. All or nothing.
    fn change_settings(&self, change: Map<String, Value>) -> Result<(), String>;

    /// Writes a setting to one of the user's files, for later sessions.
    fn save_setting(&self, setting: SavedSetting) -> Result<(), String>;

    /// Returns files below a folder whose path matches a partially typed query, best match first.
    fn suggest_files(&self, below: PathBuf, query: String) -> BoxFuture<'static, Vec<PathBuf>>;

    /// Returns the tool servers of the running session.
    fn servers(&self) -> Option<Arc<dyn ServerRegistry>>;

    /// Returns what of the folder's files is trusted.
    fn trust(&self) -> Result<FolderTrust, String>;

    /// Trusts the folder with everything that was shown to the user; an error if it has changed since. Counts for later
    /// sessions: the running one asks by itself.
    fn accept_trust(&self, shown: &FolderTrust) -> Result<(), String>;
}

/// The session that is to replace another.
#[derive(Clone, Debug)]
pub enum SessionReplacement {
    /// One with an empty conversation; the mode stays.
    Cleared { mode: PermissionMode },
    /// The same one with changes, before its first prompt. The mode stays, too; one that was not chosen explicitly
    /// gives way to that of an agent.
    Changed { changes: Box<SessionChanges>, mode: PermissionMode, mode_chosen: bool },
    /// An earlier one: by id, the beginning of it, title or transcript.
    Resumed { session: String },
    /// The same one without what came after this entry.
    Rewound { session: SessionId, last: EntryId },
    /// A copy of it under an id of its own. The mode stays.
    Branched { session: SessionId, title: Option<String>, mode: PermissionMode },
}

/// Changes of what a session was asked to be. They take precedence over the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChanges {
    pub system_prompt: Option<String>,
    pub append_system_prompt: Option<String>,
    /// True if a resumed session keeps the system prompt that it began with.
    pub keeps_system_prompt: Option<bool>,
    /// Additional instructions for the model when plan mode begins.
    pub plan_instructions: Option<String>,
    /// Tools that are called instead of others, by the other's name.
    pub tool_aliases: Option<BTreeMap<String, String>>,
    /// Title for a session that has none.
    pub title: Option<String>,
    /// JSON Schema of the answer.
    pub output_schema: Option<String>,
    /// Definitions of subagent types, as a JSON object.
    pub agents: Option<String>,
    /// Plugins beside those of flags, as `{"type": "local", "path": …}`.
    pub plugins: Vec<Value>,
}

/// Session that was opened, and the facts about it.
pub struct OpenedSession {
    pub session: SessionHandle,
    pub facts: SessionFacts,
    /// Warnings that were not shown for an earlier session.
    pub warnings: Vec<String>,
}

/// Facts that are known once a session is open.
#[derive(Clone, Debug, Default)]
pub struct SessionFacts {
    /// Output style named in settings.
    pub output_style: String,
    /// Names of the output styles that can be chosen.
    pub output_styles: Vec<String>,
    pub betas: Vec<String>,
    pub models: Vec<ModelInfo>,
    pub agents: Vec<AgentSummary>,
    /// Part of the requested sandbox that is not available.
    pub sandbox_missing: Option<String>,
    pub plugins: Vec<PluginSummary>,
    pub plugin_errors: Vec<PluginFailure>,
    /// True if the conversation goes on from an earlier one.
    pub is_resumed: bool,
    /// What earlier runs of the session used, by model.
    pub earlier_usage: Vec<ModelUsage>,
}

/// Plugin that a session uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSummary {
    pub name: String,
    pub path: PathBuf,
    pub version: Option<String>,
}

/// Plugin that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFailure {
    /// Its id, or `inline[N]` for the one that a flag names.
    pub plugin: String,
    /// Kind of the failure, such as `path-not-found`.
    pub kind: String,
    pub message: String,
    pub path: Option<PathBuf>,
}

/// Model that can be chosen by a short name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    pub alias: String,
    /// The id that the name stands for.
    pub id: String,
    /// Effort levels that the model accepts.
    pub efforts: Vec<String>,
    /// True if the model decides itself how much to think.
    pub adaptive: bool,
}

/// The sessions that a list or a search is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionScope {
    /// Those of this folder and of its repository's other worktrees.
    #[default]
    Folder,
    Everywhere,
}

/// One session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    pub id: SessionId,
    /// Its transcript.
    pub path: PathBuf,
    pub title: Option<String>,
    /// One line for it: its title, else a prompt.
    pub line: String,
    pub tag: Option<String>,
    pub cwd: Option<PathBuf>,
    pub git_branch: Option<String>,
    pub modified: SystemTime,
    /// Size of the transcript in bytes.
    pub size: u64,
}

/// A search in sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSearch {
    /// Words that must all occur; `"a b"` is a phrase, `wor*` a prefix, `-word` must not occur.
    pub text: String,
    pub scope: SessionScope,
    pub limit: usize,
}

/// One place in a session where the words of a search were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionMatch {
    pub session: SessionId,
    pub cwd: Option<PathBuf>,
    /// The entry's id.
    pub entry: Option<String>,
    /// Time of the entry, in milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// Text around the words.
    pub text: String,
    /// Byte ranges of the words in that text.
    pub marks: Vec<Range<usize>>,
}

/// Settings of a session.
#[derive(Clone, Debug, Default)]
pub struct SettingsView {
    /// All settings merged, as far as they are in force.
    pub effective: Value,
    /// The settings of each source.
    pub layers: Vec<SettingsLayerView>,
    /// Problems that the user should know.
    pub problems: Vec<SettingsProblemView>,
    pub output_style: String,
    /// Names of the output styles that can be chosen.
    pub output_styles: Vec<String>,
    pub plugins: Vec<PluginSummary>,
    pub plugin_errors: Vec<PluginFailure>,
}

/// Settings of one source.
#[derive(Clone, Debug)]
pub struct SettingsLayerView {
    pub source: &'static str,
    pub settings: Value,
}

/// Problem in a settings file.
#[derive(Clone, Debug)]
pub struct SettingsProblemView {
    pub file: PathBuf,
    pub key: String,
    pub message: String,
}

/// Settings that a front end may write. Each of these files can also hold rules and hooks, so the list is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedSetting {
    /// Written to the user's own file of this project.
    OutputStyle(String),
    /// Written to the user's file.
    EffortLevel(String),
}

/// Trust in the files of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderTrust {
    pub folder: PathBuf,
    /// True if the folder was trusted before, in its state at that time.
    pub is_accepted: bool,
    /// New and changed items that are not trusted.
    pub pending: Vec<TrustItem>,
    /// Digests of the pending items.
    pub digests: Vec<String>,
}
