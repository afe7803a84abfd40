//! What settings can say, as types. Every key is optional: a file says only what differs from the default, and who uses
//! a value knows the default. Unknown keys are nobody's business here; they stay in the raw value.

mod hooks;
mod hosted;
mod interface;
mod limits;
mod permissions;
mod plugin_settings;
mod read_edit;
mod sandbox;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hooks::{FailureChoice, HookGroup, HookHandlerSettings, HookKind};
pub(crate) use hosted::HostedSettings;
pub use interface::{
    CommandKind, DisplayCommand, EditorMode, FooterLink, FooterLinkKind, KeybindingFlavor, NotifyChannel,
    QuestionTimeout, ScreenRenderer, ShellChoice, SpellcheckSettings, SpinnerTips, SpinnerVerbMode, SpinnerVerbs,
    StatusLine, ViewMode,
};
pub use limits::{LimitSettings, ModelPriceSettings, WorkTime};
pub use permissions::{AutoModeSettings, DefaultMode, DisableSwitch, PermissionSettings};
pub use plugin_settings::{CustomizationKind, Marketplace, McpServerMatch, PluginOnlyCustomization, SkillVisibility};
pub use read_edit::{EditSettings, ReadSettings, RequireRead};
pub use sandbox::{
    CredentialMode, NoMatchAction, SandboxCredential, SandboxCredentialSettings, SandboxFilesystemSettings,
    SandboxNetworkSettings, SandboxProgram, SandboxSettings, TlsTermination,
};

/// How much the model should think by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EffortLevel {
    Low,
    Medium,
    High,
    Xhigh,
}

impl EffortLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            EffortLevel::Low => "low",
            EffortLevel::Medium => "medium",
            EffortLevel::High => "high",
            EffortLevel::Xhigh => "xhigh",
        }
    }
}

/// How eagerly what a session writes down is forced to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FsyncSetting {
    Turn,
    Always,
    Off,
}

/// How teammates are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TeammateMode {
    InProcess,
    Auto,
    Tmux,
    Iterm2,
}

/// How large a workflow may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkflowSize {
    Unrestricted,
    Small,
    Medium,
    Large,
}

/// What happens to messages of other sessions, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InboundPolicy {
    Accept,
    Hold,
    Refuse,
}

/// Which releases an updater takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UpdateChannel {
    Latest,
    Stable,
}

/// What commits and pull requests say of who helped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Attribution {
    /// The trailer of a commit; an empty text means none.
    pub commit: Option<String>,
    /// The line in a pull request; an empty text means none.
    pub pr: Option<String>,
}

/// What a new worktree starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BaseRef {
    Fresh,
    Head,
}

/// Where background sessions edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorktreeIsolation {
    Worktree,
    None,
}

/// Worktrees that gimlet makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorktreeSettings {
    /// What a new worktree starts from.
    pub base_ref: Option<BaseRef>,
    /// Folders that are links into the main checkout.
    pub symlink_directories: Option<Vec<String>>,
    /// The only folders that are checked out.
    pub sparse_paths: Option<Vec<String>>,
    /// Where background sessions edit.
    pub bg_isolation: Option<WorktreeIsolation>,
}

/// A program of the administrator that prints managed settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyHelper {
    /// An absolute path.
    pub path: String,
    /// At least 1000.
    pub timeout_ms: Option<u64>,
    /// 0, or at least 60000.
    pub refresh_interval_ms: Option<u64>,
}

/// What settings an embedding program passes are worth beside managed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParentSettingsMode {
    FirstWins,
    Merge,
}

/// Everything that has an effect, merged or of one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    // ---- Model and replies
    /// The model to start with: an alias or a full id.
    pub model: Option<String>,
    /// The only models that may be used; an empty list leaves the default one.
    pub available_models: Option<Vec<String>>,
    /// Whether the default model must be one of `availableModels`.
    pub enforce_available_models: Option<bool>,
    /// Models to fall back to under overload, in order.
    pub fallback_model: Option<Vec<String>>,
    /// Model ids and what the provider calls them.
    pub model_overrides: Option<BTreeMap<String, String>>,
    /// Prices of models by id, or by the beginning of ids with a `*` behind it, in place of the built-in ones.
    pub model_prices: Option<BTreeMap<String, ModelPriceSettings>>,
    pub limits: LimitSettings,
    /// How hard the model thinks.
    pub effort_level: Option<EffortLevel>,
    /// `false` turns extended thinking off.
    pub always_thinking_enabled: Option<bool>,
    /// Show the model's thinking in full when it is opened.
    pub show_thinking_summaries: Option<bool>,
    /// The name of an output style.
    pub output_style: Option<String>,
    /// The language to answer in.
    pub language: Option<String>,
    /// Start at the highest effort, with workflow planning.
    pub ultracode: Option<bool>,

    // ---- Permissions
    pub permissions: PermissionSettings,
    /// `"disable"` removes the mode `auto`.
    pub disable_auto_mode: Option<DisableSwitch>,
    /// Whether only managed rules allow something; what others forbid stays forbidden.
    pub allow_managed_permission_rules_only: Option<bool>,
    /// What the classifier of the mode `auto` is told.
    pub auto_mode: Option<AutoModeSettings>,
    /// Whether that classifier looks at commands in the mode `plan`.
    pub use_auto_mode_during_plan: Option<bool>,
    /// Do not explain the mode `auto` at its first use.
    pub skip_auto_permission_prompt: Option<bool>,
    /// Do not ask before the mode `bypassPermissions`.
    pub skip_dangerous_mode_permission_prompt: Option<bool>,

    pub sandbox: SandboxSettings,

    // ---- Memory, context, environment
    /// Whether a conversation is shortened by itself when it grows too long.
    pub auto_compact_enabled: Option<bool>,
    /// The window that compaction is decided by, in tokens.
    #[schemars(range(min = 100_000, max = 1_000_000))]
    pub auto_compact_window: Option<u64>,
    /// Whether gimlet keeps notes of its own between sessions.
    pub auto_memory_enabled: Option<bool>,
    /// An absolute path or one that begins with `~/`.
    pub auto_memory_directory: Option<String>,
    /// Memory text of the administrator.
    pub claude_md: Option<String>,
    /// Globs of absolute paths of memory files that are skipped.
    pub claude_md_excludes: Option<Vec<String>>,
    /// Environment variables of gimlet and what it starts.
    pub env: Option<BTreeMap<String, String>>,
    /// Whether files are kept as they were, to go back to.
    pub file_checkpointing_enabled: Option<bool>,
    pub read: ReadSettings,
    pub edit: EditSettings,
    /// Where plans are kept, relative to the project.
    pub plans_directory: Option<String>,
    /// The share of the context that the list of skills may take; above 0, at most 1.
    pub skill_listing_budget_fraction: Option<f64>,
    /// How much of a skill's description is listed.
    pub skill_listing_max_desc_chars: Option<u32>,
    /// After how many days transcripts are removed.
    pub cleanup_period_days: Option<NonZeroU32>,
    /// When transcripts are forced to disk: `turn` at its end and before calls that change something, `always` after every line, `off` never.
    pub fsync: Option<FsyncSetting>,

    // ---- Interface
    /// A command whose output is the status line.
    pub status_line: Option<StatusLine>,
    /// A command that writes the lines of subagents.
    pub subagent_status_line: Option<DisplayCommand>,
    /// A command that finds files for `@`.
    pub file_suggestion: Option<DisplayCommand>,
    /// How the prompt is edited.
    pub editor_mode: Option<EditorMode>,
    /// Two typed characters and what they stand for.
    pub vim_insert_mode_remaps: Option<BTreeMap<String, String>>,
    /// What Ctrl+W removes.
    pub keybinding_flavor: Option<KeybindingFlavor>,
    /// The colours.
    pub theme: Option<String>,
    /// How the screen is drawn.
    pub tui: Option<ScreenRenderer>,
    /// Show the whole output of tools.
    pub verbose: Option<bool>,
    /// How much is shown at the start; beats `verbose`.
    pub view_mode: Option<ViewMode>,
    /// Whether tips are shown while waiting.
    pub spinner_tips_enabled: Option<bool>,
    /// Tips of your own.
    pub spinner_tips_override: Option<SpinnerTips>,
    /// Words of your own for waiting.
    pub spinner_verbs: Option<SpinnerVerbs>,
    /// Show how long a turn took.
    pub show_turn_duration: Option<bool>,
    /// Show progress in the terminal's own bar.
    pub terminal_progress_bar_enabled: Option<bool>,
    /// Whether renaming a session changes the title of the terminal.
    pub terminal_title_from_rename: Option<bool>,
    /// Show code without colours.
    pub syntax_highlighting_disabled: Option<bool>,
    /// No animation.
    pub prefers_reduced_motion: Option<bool>,
    /// Write for a screen reader.
    pub ax_screen_reader: Option<bool>,
    /// Follow new output.
    pub auto_scroll_enabled: Option<bool>,
    /// Whether turning the wheel faster scrolls further.
    pub wheel_scroll_acceleration_enabled: Option<bool>,
    /// Complete names of emoji.
    pub emoji_completion_enabled: Option<bool>,
    /// Suggest what to say next.
    pub prompt_suggestion_enabled: Option<bool>,
    /// Whether the file picker hides what git ignores.
    pub respect_gitignore: Option<bool>,
    /// Whether the model answers after a `!` command.
    pub respond_to_bash_commands: Option<bool>,
    /// The shell of `!` commands.
    pub default_shell: Option<ShellChoice>,
    /// How long a question of the model waits.
    pub ask_user_question_timeout: Option<QuestionTimeout>,
    /// How long a question that was passed on waits.
    pub dialog_expiry: Option<QuestionTimeout>,
    /// Offer to start afresh when a plan is accepted.
    pub show_clear_context_on_plan_accept: Option<bool>,
    /// Texts of which one is shown at each start.
    pub company_announcements: Option<Vec<String>>,
    /// Links in the footer for text that matches, at most 5.
    #[schemars(length(max = 5))]
    pub footer_links_regexes: Option<Vec<FooterLink>>,
    /// A spelling checker for the prompt.
    pub spellcheck: Option<SpellcheckSettings>,
    /// How the terminal is asked to notify.
    pub preferred_notif_channel: Option<NotifyChannel>,

    // ---- Git, hooks, workflows
    pub attribution: Attribution,
    /// Older than `attribution`, and honoured while that says nothing.
    pub include_co_authored_by: Option<bool>,
    /// Tell the model about git and the state of the repository.
    pub include_git_instructions: Option<bool>,
    /// A template with `{host}`, `{owner}`, `{repo}`, `{number}` and `{url}`.
    pub pr_url_template: Option<String>,
    /// What runs at which event.
    pub hooks: Option<BTreeMap<String, Vec<HookGroup>>>,
    /// Turn hooks, status line and file suggestion off.
    pub disable_all_hooks: Option<bool>,
    /// Run only managed hooks.
    pub allow_managed_hooks_only: Option<bool>,
    /// Patterns of addresses that HTTP hooks may call; an empty list closes them all.
    pub allowed_http_hook_urls: Option<Vec<String>>,
    /// Variables that HTTP hooks may put into headers.
    pub http_hook_allowed_env_vars: Option<Vec<String>>,
    /// Turn workflows off.
    pub disable_workflows: Option<bool>,
    /// Turn workflows on.
    pub enable_workflows: Option<bool>,
    /// Whether a word in the prompt starts a workflow.
    pub workflow_keyword_trigger_enabled: Option<bool>,
    /// How large workflows may become.
    pub workflow_size_guideline: Option<WorkflowSize>,

    // ---- Plugins, skills, MCP
    /// `plugin@marketplace` and whether it is on.
    pub enabled_plugins: Option<BTreeMap<String, bool>>,
    /// Places that plugins can come from, by name.
    pub extra_known_marketplaces: Option<BTreeMap<String, Marketplace>>,
    /// The only places that plugins can come from.
    pub strict_known_marketplaces: Option<Vec<serde_json::Value>>,
    /// Places that plugins cannot come from.
    pub blocked_marketplaces: Option<Vec<serde_json::Value>>,
    /// What plugins were told, by their id.
    pub plugin_configs: Option<BTreeMap<String, serde_json::Value>>,
    /// What is said before a plugin is installed.
    pub plugin_trust_message: Option<String>,
    /// Places whose plugins may be suggested.
    pub plugin_suggestion_marketplaces: Option<Vec<String>>,
    /// Forbid places that are read by running a command.
    pub disable_command_plugin_sources: Option<bool>,
    /// Which customisation only plugins may bring.
    pub strict_plugin_only_customization: Option<PluginOnlyCustomization>,
    /// How much is told of a skill, by its name.
    pub skill_overrides: Option<BTreeMap<String, SkillVisibility>>,
    /// Leave gimlet's own skills out.
    pub disable_bundled_skills: Option<bool>,
    /// Run no command inside a skill.
    pub disable_skill_shell_execution: Option<bool>,
    /// Approve all servers of `.mcp.json`.
    pub enable_all_project_mcp_servers: Option<bool>,
    /// Servers of `.mcp.json` that are approved.
    pub enabled_mcpjson_servers: Option<Vec<String>>,
    /// Servers of `.mcp.json` that are refused; wins over approval.
    pub disabled_mcpjson_servers: Option<Vec<String>>,
    /// The only MCP servers that may be used.
    pub allowed_mcp_servers: Option<Vec<McpServerMatch>>,
    /// MCP servers that may not be used.
    pub denied_mcp_servers: Option<Vec<McpServerMatch>>,
    /// Whether only the managed list of allowed servers counts.
    pub allow_managed_mcp_servers_only: Option<bool>,

    // ---- Agents, worktrees, credentials, updates, policy
    /// The agent that the main conversation runs as.
    pub agent: Option<String>,
    /// How teammates are shown.
    pub teammate_mode: Option<TeammateMode>,
    pub worktree: WorktreeSettings,
    /// Turn the view of agents off.
    pub disable_agent_view: Option<bool>,
    /// A program that starts background sessions.
    pub process_wrapper: Option<String>,
    /// What happens to messages of other sessions.
    pub cross_session_inbound: Option<InboundPolicy>,
    /// Do not speak with sessions on other machines.
    pub isolate_peer_machines: Option<bool>,
    /// A shell command that prints the API key.
    pub api_key_helper: Option<String>,
    /// A shell command that renews AWS credentials.
    pub aws_auth_refresh: Option<String>,
    /// A shell command that prints AWS credentials.
    pub aws_credential_export: Option<String>,
    /// A shell command that renews Google Cloud credentials.
    pub gcp_auth_refresh: Option<String>,
    /// A shell command that prints headers for telemetry.
    pub otel_headers_helper: Option<String>,
    /// Which releases an updater takes.
    pub auto_updates_channel: Option<UpdateChannel>,
    /// No older version is installed.
    pub minimum_version: Option<String>,
    /// No older version starts.
    pub required_minimum_version: Option<String>,
    /// No newer version starts.
    pub required_maximum_version: Option<String>,
    /// Refuse flags that bring plugins, agents or servers.
    pub disable_sideload_flags: Option<bool>,
    /// Wait for managed settings from a server.
    pub force_remote_settings_refresh: Option<bool>,
    /// What settings of an embedding program are worth.
    pub parent_settings_behavior: Option<ParentSettingsMode>,
    /// A program that prints managed settings.
    pub policy_helper: Option<PolicyHelper>,
    /// Whether managed settings of Windows count in WSL.
    pub wsl_inherits_windows_settings: Option<bool>,
    /// Ask no service about a host before fetching from it; gimlet never does.
    pub skip_web_fetch_preflight: Option<bool>,
}
