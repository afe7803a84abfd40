//! Opens sessions for every front end: settings, trust, agent, model, tools, sandbox and transcript become one session.
//!
//! Nothing here prints, exits or reads the environment: values come in, and remarks and errors go out as text. The
//! program that uses this crate is also the custodian of its commands, so its `main` begins with
//! `gimlet_exec::run_custodian_if_asked`.

mod key_login;
mod launch_error;
mod launch_request;
mod process_env;
mod sandbox_process;
mod session_catalogue;
mod session_host;
pub mod session_lookup;
pub mod settings_mapping;
pub mod start;
mod stored_keys;

pub use key_login::{ProviderLoginError, log_in, log_out, provider_or_stored_key};
pub use launch_error::LaunchError;
pub use launch_request::{
    AgentOptions, CompactionWindow, CustomizationLevel, FrontEndKind, FrontEndOptions, LaunchRequest, LimitOptions,
    ModelOptions, OutputOptions, PermissionOptions, PluginOptions, RequestOrigin, RequestedJson, SessionOptions,
    SettingsOptions, SystemPromptOptions, ThinkingChoice, ToolOptions, parse_token_count,
};
pub use process_env::ProcessEnv;
pub use sandbox_process::{bubblewrap_from_env, invalid_backend_choice, new_exec, start_proxy};
pub use session_host::{HostedSessions, SessionHost};
pub use stored_keys::{StoredKeyError, StoredKeys};
