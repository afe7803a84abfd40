//! What settings can say, as types. Every key is optional: a file says only what differs from the default, and who uses
//! a value knows the default. Unknown keys are nobody's business here; they stay in the raw value.

mod hooks;
mod hosted;
mod interface;
mod permissions;
mod plugins;
mod sandbox;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hooks::{HookGroup, HookHandler, HookKind, is_hook_event};
pub(crate) use hosted::HostedSettings;
pub use interface::{
    CommandKind, CommandLine, EditorMode, FooterLink, FooterLinkKind, KeybindingFlavor, NotifyChannel, Renderer,
    ShellChoice, Spellcheck, SpinnerTips, SpinnerVerbMode, SpinnerVerbs, StatusLine, ViewMode, Waiting,
};
pub use permissions::{AutoMode, DefaultMode, Disable, Permissions};
pub use plugins::{CustomizationKind, Marketplace, McpServerMatch, PluginOnly, SkillVisibility};
pub use sandbox::{
    CredentialMode, OnNoMatch, Sandbox, SandboxCredential, SandboxCredentials, SandboxFilesystem, SandboxNetwork,
    SandboxProgram, TlsTerminate,
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
pub enum Inbound {
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
pub enum Isolation {
    Worktree,
    None,
}

/// Worktrees that gimlet makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Worktree {
    pub base_ref: Option<BaseRef>,
    /// Folders that are links into the main checkout.
    pub symlink_directories: Option<Vec<String>>,
    /// The only folders that are checked out.
    pub sparse_paths: Option<Vec<String>>,
    pub bg_isolation: Option<Isolation>,
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
pub enum ParentSettings {
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
    pub effort_level: Option<EffortLevel>,
    /// `false` turns extended thinking off.
    pub always_thinking_enabled: Option<bool>,
    pub show_thinking_summaries: Option<bool>,
    /// The name of an output style.
    pub output_style: Option<String>,
    /// The language to answer in.
    pub language: Option<String>,
    /// Start at the highest effort, with workflow planning.
    pub ultracode: Option<bool>,

    // ---- Permissions
    pub permissions: Permissions,
    /// `"disable"` removes the mode `auto`.
    pub disable_auto_mode: Option<Disable>,
    /// Whether only managed rules count.
    pub allow_managed_permission_rules_only: Option<bool>,
    pub auto_mode: Option<AutoMode>,
    pub use_auto_mode_during_plan: Option<bool>,
    pub skip_auto_permission_prompt: Option<bool>,
    pub skip_dangerous_mode_permission_prompt: Option<bool>,

    pub sandbox: Sandbox,

    // ---- Memory, context, environment
    pub auto_compact_enabled: Option<bool>,
    /// The window that compaction is decided by, in tokens.
    #[schemars(range(min = 100_000, max = 1_000_000))]
    pub auto_compact_window: Option<u64>,
    pub auto_memory_enabled: Option<bool>,
    /// An absolute path or one that begins with `~/`.
    pub auto_memory_directory: Option<String>,
    /// Memory text of the administrator.
    pub claude_md: Option<String>,
    /// Globs of absolute paths of memory files that are skipped.
    pub claude_md_excludes: Option<Vec<String>>,
    /// Environment variables of gimlet and what it starts.
    pub env: Option<BTreeMap<String, String>>,
    pub file_checkpointing_enabled: Option<bool>,
    /// Where plans are kept, relative to the project.
    pub plans_directory: Option<String>,
    /// The share of the context that the list of skills may take; above 0, at most 1.
    pub skill_listing_budget_fraction: Option<f64>,
    pub skill_listing_max_desc_chars: Option<u32>,
    /// After how many days transcripts are removed.
    pub cleanup_period_days: Option<NonZeroU32>,

    // ---- Interface
    pub status_line: Option<StatusLine>,
    pub subagent_status_line: Option<CommandLine>,
    pub file_suggestion: Option<CommandLine>,
    pub editor_mode: Option<EditorMode>,
    /// Two typed characters and what they stand for.
    pub vim_insert_mode_remaps: Option<BTreeMap<String, String>>,
    pub keybinding_flavor: Option<KeybindingFlavor>,
    pub theme: Option<String>,
    pub tui: Option<Renderer>,
    pub verbose: Option<bool>,
    pub view_mode: Option<ViewMode>,
    pub spinner_tips_enabled: Option<bool>,
    pub spinner_tips_override: Option<SpinnerTips>,
    pub spinner_verbs: Option<SpinnerVerbs>,
    pub show_turn_duration: Option<bool>,
    pub terminal_progress_bar_enabled: Option<bool>,
    pub terminal_title_from_rename: Option<bool>,
    pub syntax_highlighting_disabled: Option<bool>,
    pub prefers_reduced_motion: Option<bool>,
    pub ax_screen_reader: Option<bool>,
    pub auto_scroll_enabled: Option<bool>,
    pub wheel_scroll_acceleration_enabled: Option<bool>,
    pub emoji_completion_enabled: Option<bool>,
    pub prompt_suggestion_enabled: Option<bool>,
    /// Whether the file picker hides what git ignores.
    pub respect_gitignore: Option<bool>,
    pub respond_to_bash_commands: Option<bool>,
    pub default_shell: Option<ShellChoice>,
    pub ask_user_question_timeout: Option<Waiting>,
    pub dialog_expiry: Option<Waiting>,
    pub show_clear_context_on_plan_accept: Option<bool>,
    pub company_announcements: Option<Vec<String>>,
    #[schemars(length(max = 5))]
    pub footer_links_regexes: Option<Vec<FooterLink>>,
    pub spellcheck: Option<Spellcheck>,
    pub preferred_notif_channel: Option<NotifyChannel>,

    // ---- Git, hooks, workflows
    pub attribution: Attribution,
    /// Older than `attribution`, and honoured while that says nothing.
    pub include_co_authored_by: Option<bool>,
    pub include_git_instructions: Option<bool>,
    /// A template with `{host}`, `{owner}`, `{repo}`, `{number}` and `{url}`.
    pub pr_url_template: Option<String>,
    /// What runs at which event.
    pub hooks: Option<BTreeMap<String, Vec<HookGroup>>>,
    pub disable_all_hooks: Option<bool>,
    pub allow_managed_hooks_only: Option<bool>,
    /// Patterns of addresses that HTTP hooks may call; an empty list closes them all.
    pub allowed_http_hook_urls: Option<Vec<String>>,
    pub http_hook_allowed_env_vars: Option<Vec<String>>,
    pub disable_workflows: Option<bool>,
    pub enable_workflows: Option<bool>,
    pub workflow_keyword_trigger_enabled: Option<bool>,
    pub workflow_size_guideline: Option<WorkflowSize>,

    // ---- Plugins, skills, MCP
    /// `plugin@marketplace` and whether it is on.
    pub enabled_plugins: Option<BTreeMap<String, bool>>,
    #[serde(alias = "additionalMarketplaces")]
    pub extra_known_marketplaces: Option<BTreeMap<String, Marketplace>>,
    #[serde(alias = "allowedMarketplaces")]
    pub strict_known_marketplaces: Option<Vec<serde_json::Value>>,
    pub blocked_marketplaces: Option<Vec<serde_json::Value>>,
    pub plugin_configs: Option<BTreeMap<String, serde_json::Value>>,
    pub plugin_trust_message: Option<String>,
    pub plugin_suggestion_marketplaces: Option<Vec<String>>,
    pub disable_command_plugin_sources: Option<bool>,
    pub strict_plugin_only_customization: Option<PluginOnly>,
    pub skill_overrides: Option<BTreeMap<String, SkillVisibility>>,
    pub disable_bundled_skills: Option<bool>,
    pub disable_skill_shell_execution: Option<bool>,
    pub enable_all_project_mcp_servers: Option<bool>,
    pub enabled_mcpjson_servers: Option<Vec<String>>,
    pub disabled_mcpjson_servers: Option<Vec<String>>,
    pub allowed_mcp_servers: Option<Vec<McpServerMatch>>,
    pub denied_mcp_servers: Option<Vec<McpServerMatch>>,
    pub allow_managed_mcp_servers_only: Option<bool>,

    // ---- Agents, worktrees, credentials, updates, policy
    /// The agent that the main conversation runs as.
    pub agent: Option<String>,
    pub teammate_mode: Option<TeammateMode>,
    pub worktree: Worktree,
    pub disable_agent_view: Option<bool>,
    pub process_wrapper: Option<String>,
    pub cross_session_inbound: Option<Inbound>,
    pub isolate_peer_machines: Option<bool>,
    /// A shell command that prints the API key.
    pub api_key_helper: Option<String>,
    pub aws_auth_refresh: Option<String>,
    pub aws_credential_export: Option<String>,
    pub gcp_auth_refresh: Option<String>,
    pub otel_headers_helper: Option<String>,
    pub auto_updates_channel: Option<UpdateChannel>,
    pub minimum_version: Option<String>,
    pub required_minimum_version: Option<String>,
    pub required_maximum_version: Option<String>,
    pub disable_sideload_flags: Option<bool>,
    pub force_remote_settings_refresh: Option<bool>,
    pub parent_settings_behavior: Option<ParentSettings>,
    pub policy_helper: Option<PolicyHelper>,
    pub wsl_inherits_windows_settings: Option<bool>,
    pub skip_web_fetch_preflight: Option<bool>,
}
