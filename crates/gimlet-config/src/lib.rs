//! Reads what people write for gimlet: settings of every scope, and which of a project's files the person trusts.
//!
//! Nothing here starts a process, opens a socket, prints or looks at the environment. Files are read with bounds and
//! never make it panic; a file that cannot be used is a [`Problem`] with a line and a reason. What a project's files
//! say is kept apart from what the person says until the person trusts it.

mod atomic;
mod backup;
mod de;
mod edit;
mod effective;
mod env_names;
mod files;
mod git_excludes;
mod json;
mod keys;
mod load;
mod locations;
mod merge;
mod ownership;
mod problem;
mod save;
mod schema;
mod scope;
mod settings;
mod spellings;
mod state;
mod trust;
mod visible;
mod vouched;
mod watch;

pub use edit::{Edit, EditError};
pub use effective::{DirectoryLine, Effective, EnvLine, HookLine, IdleKey, RuleBehavior, RuleLine};
pub use files::ReadError;
pub use keys::{Effect, Gate, KEYS, Key, OTHER_SPELLINGS, ReadFrom, Reload, close_to, is_group, is_slip_of_guard, key};
pub use load::{Author, Layer, Loaded, Options, Policy, forget_shipped, load};
pub use locations::{Locations, MANAGED_DIR, Repo, Surroundings};
pub use merge::{Merged, Origin, Sourced};
pub use ownership::close_own_folder;
pub use problem::{DOTTED_KEY, Problem, Severity};
pub use save::{SaveError, parts_of, save};
pub use schema::settings_schema;
pub use scope::{Scope, Sources, UnknownSource};
pub use settings::{
    Attribution, AutoMode, BaseRef, CommandKind, CommandLine, CredentialMode, CustomizationKind, DefaultMode, Disable,
    Editing, EditorMode, EffortLevel, FooterLink, FooterLinkKind, Fsync, HOOK_EVENTS, HookGroup, HookHandler, HookKind,
    Inbound, Isolation, KeybindingFlavor, Marketplace, McpServerMatch, NotifyChannel, OnNoMatch, ParentSettings,
    Permissions, PluginOnly, PolicyHelper, Reading, Renderer, RequireRead, Sandbox, SandboxCredential,
    SandboxCredentials, SandboxFilesystem, SandboxNetwork, SandboxProgram, Settings, ShellChoice, SkillVisibility,
    Spellcheck, SpinnerTips, SpinnerVerbMode, SpinnerVerbs, StatusLine, TeammateMode, TlsTerminate, UpdateChannel,
    ViewMode, Waiting, WorkflowSize, Worktree,
};
pub use spellings::{names_within, spellings};
pub use state::{StateSettings, check_state, state_problem};
pub use trust::{Change, Inventory, Item, ItemKind, Trust, TrustError, TrustStore, withheld_line};
pub use visible::{visible, visible_json, visible_line};
pub use vouched::{Vouched, Vouching, forget_abandoned, rewritten};
pub use watch::{KeyChange, Watch, key_changes};
