//! Reads gimlet's configuration: settings of every scope, and the user's trust in a project's files.
//!
//! Nothing here starts a process, opens a socket, prints or reads the environment. Files are read with bounds and
//! never make it panic; a file that cannot be used is a [`SettingsProblem`] with a line and a reason. A project's
//! settings are kept apart from the user's until the user trusts them.

mod backup;
mod deserialize;
mod documents;
mod effective_settings;
mod escape_invisible;
mod file_ownership;
mod file_update;
mod forbidden_env;
mod git_excludes;
mod json;
mod json_edit;
mod load;
mod locations;
mod mcp_servers;
mod merge;
mod plugins;
mod problem;
mod save_setting;
mod scope;
mod setting_keys;
mod settings;
mod settings_lease;
mod settings_schema;
mod settings_watcher;
mod size_limits;
mod state_file;
mod symlink_names;
mod trust;

pub use documents::{
    AgentActions, AgentFile, AgentFiles, AgentMcpServer, AgentMemoryScope, AutoMemory, BodyPart, ConditionalRule,
    DocumentOrigin, DocumentReader, DocumentScope, InlineCommand, MemoryFile, MemoryFiles, MemoryOptions, MemoryReason,
    MemoryScope, MemorySelection, OutputStyle, OutputStyles, PathPatterns, SkillActions, SkillBody, SkillExecution,
    SkillFile, SkillFiles, SkillInvocation, SkillKind, SkillListing, SkippedDocument, TrustGated, auto_memory_folder,
};
pub use effective_settings::{DirectoryLine, EffectiveSettings, EnvLine, HookLine, IdleKey, RuleBehavior, RuleLine};
pub use escape_invisible::{escape_invisible, escape_invisible_json, escape_invisible_line};
pub use file_ownership::restrict_own_folder;
pub use json_edit::{JsonEdit, JsonEditError};
pub use load::{
    FileAuthor, LoadedSettings, PolicyHelperOutput, SettingsLayer, SettingsLoadOptions, forget_seen_project_files,
    load_settings,
};
pub use locations::{LocationContext, MANAGED_DIR, SettingsLocations};
pub use mcp_servers::{
    McpConfigFile, McpEditError, McpServerEntry, McpServerFiles, McpServerScope, McpServerState, edit_mcp_servers,
};
pub use merge::{MergedSettings, SettingOrigin, SourcedValue};
pub use plugins::{
    InstalledPlugin, InstalledPlugins, LoadedPlugin, PluginAbsence, PluginComponent, PluginContents, PluginError,
    PluginFlag, PluginId, PluginManifest, PluginOptionValue, PluginOrigin, PluginScope, PluginSearch, PluginServer,
    PluginSet, UnusedPlugin, unpack_plugin,
};
pub use problem::{DOTTED_KEY, ProblemSeverity, SettingsProblem};
pub use save_setting::{SaveError, save_setting, split_key};
pub use scope::{Scope, SettingSources, UnknownSource};
pub use setting_keys::{
    KEYS, KeyEffect, KeySource, OTHER_SPELLINGS, ReloadTiming, SettingKey, TrustRequirement, find_key, is_group,
    is_guard_key_typo, suggest_key,
};
pub use settings::{
    Attribution, AutoModeSettings, BaseRef, CommandKind, CredentialMode, CustomizationKind, DefaultMode, DisableSwitch,
    DisplayCommand, EditSettings, EditorMode, EffortLevel, FailureChoice, FooterLink, FooterLinkKind, FsyncSetting,
    HookGroup, HookHandlerSettings, HookKind, InboundPolicy, KeybindingFlavor, LimitSettings, Marketplace,
    McpServerMatch, ModelPriceSettings, NoMatchAction, NotifyChannel, ParentSettingsMode, PermissionSettings,
    PluginOnlyCustomization, PolicyHelper, QuestionTimeout, ReadSettings, RequireRead, SandboxCredential,
    SandboxCredentialSettings, SandboxFilesystemSettings, SandboxNetworkSettings, SandboxProgram, SandboxSettings,
    ScreenRenderer, Settings, ShellChoice, SkillVisibility, SpellcheckSettings, SpinnerTips, SpinnerVerbMode,
    SpinnerVerbs, StatusLine, TeammateMode, TlsTermination, UpdateChannel, ViewMode, WorkTime, WorkflowSize,
    WorktreeIsolation, WorktreeSettings,
};
pub use settings_lease::{LeasedContent, SettingsLease, forget_abandoned_leases, record_rewrite};
pub use settings_schema::settings_schema;
pub use settings_watcher::{KeyChange, SettingsWatcher, changed_keys};
pub use state_file::{StateSettings, check_and_back_up_state_file, state_file_problem};
pub use symlink_names::{symlink_names, symlink_names_within};
pub use trust::{
    ItemChange, ProjectItem, ProjectItemKind, ProjectTrust, TrustError, TrustInventory, TrustStore, describe_withheld,
    plugin_script_files,
};
