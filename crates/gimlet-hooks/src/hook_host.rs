//! What handlers of one session share: how programs are started, the environment, and the HTTP client.

use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use gimlet_core::HookEvent;
use gimlet_exec::{Exec, is_public_address};
use gimlet_http::{HttpTransport, NetworkConfig};
use gimlet_proto::Env;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Longest `tool_input` that is also exported as `TOOL_INPUT`; a longer one would keep the program from starting.
const MAX_EXPORTED_INPUT: usize = 64 << 10;
/// Time limit for connecting to a hook's server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Tells whether a hook may still run: `None`, or the reason why not (its script changed since it was trusted).
pub type HookTrustCheck = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Facts of a session that its hooks need.
pub struct HookHostConfig {
    pub exec: Exec,
    pub env: Env,
    /// Folder in which the session was started.
    pub project_dir: PathBuf,
    pub session_id: String,
    /// File to which some hooks append variables for the session's commands.
    pub env_file: Option<PathBuf>,
    /// Variables with the model's credentials, which hooks of a project's files do not get.
    pub model_credentials: &'static [&'static str],
}

/// Shared state of a session's handlers.
pub struct HookHost {
    pub(crate) exec: Exec,
    env: RwLock<Env>,
    project_dir: PathBuf,
    session_id: String,
    env_file: Option<PathBuf>,
    model_credentials: &'static [&'static str],
    pub(crate) transport: HttpTransport,
    /// Reaches public addresses only.
    pub(crate) public_transport: HttpTransport,
}

/// The members of a hook's input that handlers look at.
#[derive(Deserialize)]
pub(crate) struct HookInputFacts<'a> {
    #[serde(default)]
    pub(crate) cwd: PathBuf,
    #[serde(default, borrow)]
    tool_input: Option<&'a RawValue>,
    #[serde(default)]
    effort: Option<EffortFact>,
}

#[derive(Deserialize)]
struct EffortFact {
    level: String,
}

impl HookHost {
    pub fn new(config: HookHostConfig) -> Self {
        let HookHostConfig { exec, env, project_dir, session_id, env_file, model_credentials } = config;
        let network = NetworkConfig::from_env(&env);
        let transport = HttpTransport::new(network.clone(), true, CONNECT_TIMEOUT);
        let public_transport =
            HttpTransport::new(network, true, CONNECT_TIMEOUT).with_permitted_addresses(is_public_address);
        let env = RwLock::new(env);
        Self { exec, env, project_dir, session_id, env_file, model_credentials, transport, public_transport }
    }

    /// Replaces the environment, after settings changed it.
    pub fn set_env(&self, env: Env) {
        *self.env.write().unwrap_or_else(PoisonError::into_inner) = env;
    }

    pub(crate) fn env(&self) -> Env {
        self.env.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the environment for a hook: without the model's credentials if a file of the project defines it.
    pub(crate) fn hook_env(&self, from_project: bool) -> Env {
        // The user's own file of variables is for commands, and no hook is meant to append to it.
        let env = self.env().without_vars(&["CLAUDE_ENV_FILE"]);
        if from_project { env.without_vars(self.model_credentials) } else { env }
    }

    /// Returns the folder in which the session was started.
    pub(crate) fn project_dir(&self) -> &Path {
        &self.project_dir
    }

    /// Returns the variables that a program gets beside gimlet's environment.
    pub(crate) fn variables(&self, event: HookEvent, input: &HookInputFacts<'_>) -> Vec<(OsString, OsString)> {
        let mut variables: Vec<(OsString, OsString)> = vec![
            ("CLAUDE_CODE_CHILD_SESSION".into(), "1".into()),
            ("CLAUDE_CODE_SESSION_ID".into(), self.session_id.clone().into()),
            ("CLAUDE_PID".into(), std::process::id().to_string().into()),
        ];
        if let Some(effort) = &input.effort {
            variables.push(("CLAUDE_EFFORT".into(), effort.level.clone().into()));
        }
        if let Some(tool_input) = input.tool_input
            && tool_input.get().len() <= MAX_EXPORTED_INPUT
        {
            variables.push(("TOOL_INPUT".into(), tool_input.get().into()));
        }
        if let Some(file) = &self.env_file
            && may_add_variables(event)
        {
            prepare_env_file(file);
            variables.push(("CLAUDE_ENV_FILE".into(), file.clone().into()));
        }
        variables
    }
}

/// Returns true if hooks of this event may add variables to the session's commands.
fn may_add_variables(event: HookEvent) -> bool {
    matches!(event, HookEvent::SessionStart | HookEvent::Setup | HookEvent::CwdChanged | HookEvent::FileChanged)
}

/// Creates the file, for this user alone, so that a hook can append to it. Where that fails the hook fails at the same
/// place, with a message of its own.
fn prepare_env_file(file: &Path) {
    if let Some(folder) = file.parent() {
        drop(std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder));
    }
    drop(std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file));
}

impl<'a> HookInputFacts<'a> {
    /// Reads the members of an input, which gimlet made itself.
    pub(crate) fn read(input: &'a RawValue) -> Result<Self, String> {
        serde_json::from_str(input.get()).map_err(|error| format!("its input cannot be read: {error}"))
    }
}
