//! Request for a session: everything that a caller can ask for, whether by flags, through the SDK or from a terminal.
//!
//! `LaunchRequest::default()` is a session in the terminal without any wish.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gimlet_config::SettingSources;
use gimlet_core::SetupTrigger;
use gimlet_proto::{PermissionMode, SessionChanges, ThinkingDisplay};
use serde_json::{Map, Value};

/// What a caller asks of a new session.
#[derive(Clone, Debug, Default)]
pub struct LaunchRequest {
    pub model: ModelOptions,
    pub permissions: PermissionOptions,
    pub session: SessionOptions,
    pub settings: SettingsOptions,
    pub system_prompt: SystemPromptOptions,
    pub tools: ToolOptions,
    pub agents: AgentOptions,
    pub plugins: PluginOptions,
    pub output: OutputOptions,
    pub limits: LimitOptions,
    pub front_end: FrontEndOptions,
}

/// Model of a session, and how it thinks.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// Alias or id.
    pub name: Option<String>,
    /// Models to continue with while that one is overloaded.
    pub fallbacks: Vec<String>,
    pub effort: Option<String>,
    pub thinking: Option<ThinkingChoice>,
    pub max_thinking_tokens: Option<u64>,
    pub thinking_display: Option<ThinkingDisplay>,
    /// Number of tokens that the model is told the task may take.
    pub task_budget: Option<u64>,
    /// Further beta features of the API.
    pub betas: Vec<String>,
}

/// Whether the model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingChoice {
    /// The model decides how much.
    Adaptive,
    Disabled,
}

/// Permissions that a session starts with.
#[derive(Clone, Debug, Default)]
pub struct PermissionOptions {
    pub mode: Option<PermissionMode>,
    /// True for a start in the mode that bypasses permissions.
    pub skip: bool,
    /// True if that mode may be chosen later.
    pub allow_skipping: bool,
    /// Lists of rules, as they were written.
    pub allowed_rules: Vec<String>,
    pub denied_rules: Vec<String>,
    /// Further folders to work in.
    pub added_dirs: Vec<PathBuf>,
}

/// New session, or the one to continue.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Id, prefix of an id, title or transcript of the session to resume.
    pub resume: Option<String>,
    /// True for the newest session of the folder.
    pub continue_latest: bool,
    /// True for a copy under a new id.
    pub fork: bool,
    /// Entry after which the resumed conversation is cut.
    pub resume_at: Option<String>,
    /// Prompt whose turn is all that the cut may drop.
    pub drops_turn: Option<String>,
    /// Id of the new session.
    pub id: Option<String>,
    pub title: Option<String>,
    /// Title for a session that has none.
    pub default_title: Option<String>,
    /// True if nothing of the session is kept on disk.
    pub is_unsaved: bool,
    /// Preparation of the project that the run is for: `Setup` hooks are called before the session begins.
    pub setup: Option<SetupTrigger>,
    /// True if the session ends after the hooks that it begins with: no request is sent.
    pub ends_after_setup: bool,
}

/// Settings besides those of files, and which files count.
#[derive(Clone, Debug, Default)]
pub struct SettingsOptions {
    /// More settings: a file, or JSON.
    pub flag: Option<String>,
    /// Managed settings of the program that embeds gimlet, as JSON.
    pub managed: Option<String>,
    /// The settings files to read; `None` for all.
    pub sources: Option<SettingSources>,
    /// True if the folder's own settings are trusted for this run.
    pub trusts_folder: bool,
    pub customization: CustomizationLevel,
}

/// How much of what users, projects and plugins define beside settings is used. Managed files always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CustomizationLevel {
    #[default]
    Full,
    /// Tools and permissions as usual, without hooks, memory, agents, skills, commands, styles, plugins and servers.
    Safe,
    /// Nothing is looked for, and only the basic tools are offered. What the command line names is used.
    Bare,
}

/// Changes of the system prompt, as text or in files.
#[derive(Clone, Debug, Default)]
pub struct SystemPromptOptions {
    pub replace: Option<String>,
    pub replace_file: Option<PathBuf>,
    pub append: Option<String>,
    pub append_file: Option<PathBuf>,
    /// Whether a resumed session keeps the system prompt that it began with.
    pub keeps_snapshot: Option<bool>,
    /// Text for the model when plan mode begins.
    pub plan_instructions: Option<String>,
}

/// Tools and tool servers of a session.
#[derive(Clone, Debug, Default)]
pub struct ToolOptions {
    /// Names of the tools to offer; `None` for all.
    pub offered: Option<Vec<String>>,
    /// Tools of the driving program that are called instead of others.
    pub aliases: BTreeMap<String, String>,
    /// Servers for this session: files or JSON.
    pub server_configs: Vec<String>,
    /// True if only those are used, and none of files.
    pub only_flag_servers: bool,
}

/// Agents of a session.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// Definitions of subagent types.
    pub kinds: Option<RequestedJson>,
    /// Type of the main conversation's agent; an empty name for none.
    pub main: Option<String>,
    /// Text that the system prompt of every subagent ends with.
    pub append_system_prompt: Option<String>,
}

/// Plugins of a session beside those that files bring.
#[derive(Clone, Debug, Default)]
pub struct PluginOptions {
    /// Folders and archives that flags name.
    pub folders: Vec<PathBuf>,
    /// Those whose servers are left out.
    pub folders_without_servers: Vec<PathBuf>,
    /// Plugins that the driving program names.
    pub of_host: Vec<Value>,
}

/// Form of the answer.
#[derive(Clone, Debug, Default)]
pub struct OutputOptions {
    /// JSON Schema of the answer.
    pub schema: Option<RequestedJson>,
}

/// Limits after which a session stops.
#[derive(Clone, Debug, Default)]
pub struct LimitOptions {
    pub max_turns: Option<u32>,
    pub max_budget_usd: Option<f64>,
    pub max_total_tokens: Option<u64>,
    pub max_time: Option<Duration>,
    /// Window by which compaction is decided.
    pub compaction_window: Option<CompactionWindow>,
}

/// Window by which compaction is decided, as flags and variables give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionWindow {
    /// The model's own.
    Auto,
    Tokens(u64),
}

/// Parses a number of tokens with or without a unit: `200000`, `200k` or `1M`.
pub fn parse_token_count(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit))
}

impl CompactionWindow {
    /// Smallest window that can be given: less holds no conversation.
    const LEAST: u64 = 1_000;

    /// Parses `auto`, `200000`, `200k` or `1M`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        match parse_token_count(text).filter(|tokens| *tokens >= Self::LEAST) {
            Some(tokens) => Ok(Self::Tokens(tokens)),
            None => {
                Err(format!("'{text}' is no window: give auto, or a number of tokens from 1000 on (200000, 200k, 1M)"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CompactionWindow::{self, Auto, Tokens};

    #[test]
    fn a_window_is_a_number_with_a_unit() {
        for (text, window) in
            [("auto", Auto), (" 200000 ", Tokens(200_000)), ("200k", Tokens(200_000)), ("1M", Tokens(1_000_000))]
        {
            assert_eq!(CompactionWindow::parse(text), Ok(window));
        }
        for bad in ["", "k", "999", "0", "-5", "2.5M", "99999999999999999999", "200kk", "many"] {
            assert!(CompactionWindow::parse(bad).unwrap_err().contains("auto"), "{bad}");
        }
    }
}

/// Front end that the session is for.
#[derive(Clone, Debug, Default)]
pub struct FrontEndOptions {
    pub kind: FrontEndKind,
    /// True if a program reads the result.
    pub reads_results: bool,
    /// Flags of features that this version lacks; they were given and ignored.
    pub ignored_flags: Vec<String>,
}

/// Kind of a front end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrontEndKind {
    #[default]
    Terminal,
    /// One prompt, one answer.
    Print,
    /// A program that drives the session.
    Driver,
}

/// JSON text that a flag or the driving program gave.
#[derive(Clone, Debug)]
pub struct RequestedJson {
    pub text: String,
    pub origin: RequestOrigin,
}

/// Origin of a requested value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    Flag,
    /// The program that drives the session.
    Host,
}

impl RequestedJson {
    /// Returns true if the driving program gave it.
    pub fn is_from_host(&self) -> bool {
        self.origin == RequestOrigin::Host
    }
}

impl LaunchRequest {
    /// Returns true if a program drives the session.
    pub fn is_driven(&self) -> bool {
        self.front_end.kind == FrontEndKind::Driver
    }

    /// Returns true if the session has no terminal UI.
    pub fn is_headless(&self) -> bool {
        self.front_end.kind != FrontEndKind::Terminal
    }

    /// Returns the request with a driving program's changes, which take precedence.
    pub fn with_changes(mut self, changes: SessionChanges) -> Self {
        let prompt = &mut self.system_prompt;
        if let Some(text) = changes.system_prompt {
            (prompt.replace, prompt.replace_file) = (Some(text), None);
        }
        if let Some(text) = changes.append_system_prompt {
            (prompt.append, prompt.append_file) = (Some(text), None);
        }
        prompt.keeps_snapshot = changes.keeps_system_prompt.or(prompt.keeps_snapshot);
        prompt.plan_instructions = changes.plan_instructions.or(prompt.plan_instructions.take());
        self.tools.aliases = changes.tool_aliases.unwrap_or(self.tools.aliases);
        self.session.default_title = changes.title.or(self.session.default_title);
        if !changes.plugins.is_empty() {
            self.plugins.of_host = changes.plugins;
        }
        if let Some(text) = changes.output_schema {
            self.output.schema = Some(RequestedJson { text, origin: RequestOrigin::Host });
        }
        self.agents.kinds = match (self.agents.kinds, changes.agents) {
            (Some(given), Some(wished)) => {
                Some(RequestedJson { text: merge_json_objects(&given.text, &wished), origin: given.origin })
            }
            (None, Some(text)) => Some(RequestedJson { text, origin: RequestOrigin::Host }),
            (given, None) => given,
        };
        self
    }
}

/// Merges two JSON objects; the second takes precedence. Invalid input is left for the reader to report.
fn merge_json_objects(first: &str, second: &str) -> String {
    let object = |text| serde_json::from_str::<Map<String, Value>>(text).ok();
    match (object(first), object(second)) {
        (Some(mut all), Some(more)) => {
            all.extend(more);
            Value::Object(all).to_string()
        }
        (None, _) => first.to_owned(),
        (_, None) => second.to_owned(),
    }
}
