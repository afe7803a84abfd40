//! Hooks from settings files: turns what they say into registry entries, and runs `command` and `http` handlers.
//!
//! Trust is decided before anything gets here: `gimlet-config` withholds the hooks of an untrusted project, and a
//! [`HookSource`] says again before each run whether its script is still the one that was trusted. The session fires
//! events and acts on answers; nothing here knows a call site.

mod command_hook;
mod hook_answer;
mod hook_host;
mod http_hook;
mod settings_hooks;

pub use hook_host::{HookHost, HookHostConfig, HookTrustCheck};
pub use settings_hooks::{HookDefinition, HookPolicy, HookProblem, hook_entries};
