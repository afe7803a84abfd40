//! Request for a session: everything that a caller can ask for, whether by flags, through the SDK or from a terminal.
//!
//! `LaunchRequest::default()` is a session in the terminal without any wish.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gimlet_config::SettingSources;
use gimlet_proto::{PermissionMode, ThinkingDisplay};

/// What a caller asks of a new session.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaunchRequest {
    pub(crate) model: ModelOptions,
    pub(crate) permissions: PermissionOptions,
    pub(crate) session: SessionOptions,
    pub(crate) settings: SettingsOptions,
    pub(crate) system_prompt: SystemPromptOptions,
    pub(crate) tools: ToolOptions,
    pub(crate) agents: AgentOptions,
    pub(crate) output: OutputOptions,
    pub(crate) limits: LimitOptions,
    pub(crate) front_end: FrontEndOptions,
}

/// Model of a session, and how it thinks.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelOptions {
    /// Alias or id.
    pub(crate) name: Option<String>,
    /// Models to continue with while that one is overloaded.
    pub(crate) fallbacks: Vec<String>,
    pub(crate) effort: Option<String>,
    pub(crate) thinking: Option<ThinkingChoice>,
    pub(crate) max_thinking_tokens: Option<u64>,
    pub(crate) thinking_display: Option<ThinkingDisplay>,
    /// Number of tokens that the model is told the task may take.
    pub(crate) task_budget: Option<u64>,
    /// Further beta features of the API.
    pub(crate) betas: Vec<String>,
}

/// Whether the model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingChoice {
    /// The model decides how much.
    Adaptive,
    Disabled,
}

/// Permissions that a session starts with.
#[derive(Clone, Debug, Default)]
pub(crate) struct PermissionOptions {
    pub(crate) mode: Option<PermissionMode>,
    /// True for a start in the mode that bypasses permissions.
    pub(crate) skip: bool,
    /// True if that mode may be chosen later.
    pub(crate) allow_skipping: bool,
    /// Lists of rules, as they were written.
    pub(crate) allowed_rules: Vec<String>,
    pub(crate) denied_rules: Vec<String>,
    /// Further folders to work in.
    pub(crate) added_dirs: Vec<PathBuf>,
}

/// New session, or the one to continue.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionOptions {
    /// Id, prefix of an id, title or transcript of the session to resume.
    pub(crate) resume: Option<String>,
    /// True for the newest session of the folder.
    pub(crate) continue_latest: bool,
    /// True for a copy under a new id.
    pub(crate) fork: bool,
    /// Entry after which the resumed conversation is cut.
    pub(crate) resume_at: Option<String>,
    /// Prompt whose turn is all that the cut may drop.
    pub(crate) drops_turn: Option<String>,
    /// Id of the new session.
    pub(crate) id: Option<String>,
    pub(crate) title: Option<String>,
    /// Title for a session that has none.
    pub(crate) default_title: Option<String>,
    /// True if nothing of the session is kept on disk.
    pub(crate) is_unsaved: bool,
}

/// Settings besides those of files, and which files count.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingsOptions {
    /// More settings: a file, or JSON.
    pub(crate) flag: Option<String>,
    /// Managed settings of the program that embeds gimlet, as JSON.
    pub(crate) managed: Option<String>,
    /// The settings files to read; `None` for all.
    pub(crate) sources: Option<SettingSources>,
    /// True if the folder's own settings are trusted for this run.
    pub(crate) trusts_folder: bool,
}

/// Changes of the system prompt, as text or in files.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemPromptOptions {
    pub(crate) replace: Option<String>,
    pub(crate) replace_file: Option<PathBuf>,
    pub(crate) append: Option<String>,
    pub(crate) append_file: Option<PathBuf>,
    /// Whether a resumed session keeps the system prompt that it began with.
    pub(crate) keeps_snapshot: Option<bool>,
    /// Text for the model when plan mode begins.
    pub(crate) plan_instructions: Option<String>,
}

/// Tools and tool servers of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolOptions {
    /// Names of the tools to offer; `None` for all.
    pub(crate) offered: Option<Vec<String>>,
    /// Tools of the driving program that are called instead of others.
    pub(crate) aliases: BTreeMap<String, String>,
    /// Servers inside the driving program: files or JSON.
    pub(crate) server_configs: Vec<String>,
}

/// Agents of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentOptions {
    /// Definitions of subagent types.
    pub(crate) kinds: Option<RequestedJson>,
    /// Type of the main conversation's agent; an empty name for none.
    pub(crate) main: Option<String>,
}

/// Form of the answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputOptions {
    /// JSON Schema of the answer.
    pub(crate) schema: Option<RequestedJson>,
}

/// Limits after which a session stops.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitOptions {
    pub(crate) max_turns: Option<u32>,
    pub(crate) max_budget_usd: Option<f64>,
}

/// Front end that the session is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrontEndOptions {
    pub(crate) kind: FrontEndKind,
    /// True if a program reads the result.
    pub(crate) reads_results: bool,
    /// Flags of features that this version lacks; they were given and ignored.
    pub(crate) ignored_flags: Vec<String>,
}

/// Kind of a front end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FrontEndKind {
    #[default]
    Terminal,
    /// One prompt, one answer.
    Print,
    /// A program that drives the session.
    Driver,
}

/// JSON text that a flag or the driving program gave.
#[derive(Clone, Debug)]
pub(crate) struct RequestedJson {
    pub(crate) text: String,
    pub(crate) origin: RequestOrigin,
}

/// Origin of a requested value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    Flag,
    /// The program that drives the session.
    Host,
}

impl RequestedJson {
    /// Returns true if the driving program gave it.
    pub(crate) fn is_from_host(&self) -> bool {
        self.origin == RequestOrigin::Host
    }
}

impl LaunchRequest {
    /// Returns true if a program drives the session.
    pub(crate) fn is_driven(&self) -> bool {
        self.front_end.kind == FrontEndKind::Driver
    }

    /// Returns true if the session has no terminal UI.
    pub(crate) fn is_headless(&self) -> bool {
        self.front_end.kind != FrontEndKind::Terminal
    }
}
