//! The setting `apiKeyHelper`: a command that prints the key.
//!
//! It is run when a request needs a key and none is known that is fresh, never before. Requests that need one at the
//! same time wait for one run. What it prints is shown to nobody: not on success, and in no error.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use gimlet_core::Redactor;
use gimlet_exec::{Exec, HelperCommand, HelperCommandError};
use gimlet_proto::{BoxFuture, CredentialError, CredentialSource, Env, Secret};
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How long a key is used before the command is asked again.
const DEFAULT_TTL_MS: u64 = 5 * 60 * 1000;
/// How long the command may take; long enough for a log-in in a browser.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const LONGEST_KEY: usize = 64 << 10;
/// Variables that hold the credentials of the model. A command that a project's file names does not get them.
const MODEL_CREDENTIALS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "GIMLET_API_KEY",
    "GIMLET_AUTH_TOKEN",
    "GIMLET_CUSTOM_HEADERS",
    "GIMLET_OAUTH_TOKEN",
];

/// The command of this session, and the key that it printed last.
pub(crate) struct KeyHelper {
    cwd: PathBuf,
    env: Env,
    ttl: Duration,
    timeout: Duration,
    redactor: Redactor,
    /// Processes are started by the session, which is opened after its provider.
    exec: OnceLock<Exec>,
    state: Mutex<HelperState>,
}

/// Says why a command must not be run after all. It reads files, so it is asked where waiting is no harm.
pub(crate) type TrustObjection = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What changes while the session runs.
#[derive(Default)]
struct HelperState {
    command: Option<String>,
    objection: Option<TrustObjection>,
    latest: Arc<KeyFetch>,
}

/// One run of the command: to come, under way, or over. Whoever needs its outcome waits for the same one, and if the
/// one that drives it is cancelled, another goes on in its place.
type KeyFetch = OnceCell<Result<FetchedKey, CredentialError>>;

#[derive(Clone)]
struct FetchedKey {
    key: Secret,
    at: Instant,
}

impl KeyHelper {
    pub(crate) fn new(cwd: PathBuf, env: Env, redactor: Redactor) -> Self {
        let ms = |name: &str, default| Duration::from_millis(env.integer(name).unwrap_or(default));
        Self {
            ttl: ms("CLAUDE_CODE_API_KEY_HELPER_TTL_MS", DEFAULT_TTL_MS),
            timeout: ms("GIMLET_API_KEY_HELPER_TIMEOUT_MS", DEFAULT_TIMEOUT_MS),
            cwd,
            env,
            redactor,
            exec: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Starts the command with this from now on. To be called once, before the first request.
    pub(crate) fn set_exec(&self, exec: Exec) {
        // A second call would name the same session's processes.
        drop(self.exec.set(exec));
    }

    /// What the settings say now. Another command's key is not used any more. The objection is heard before each run.
    pub(crate) fn set_command(&self, command: Option<&str>, objection: Option<TrustObjection>) {
        let mut now = self.lock_state();
        if now.command.as_deref() != command {
            *now = HelperState { command: command.map(str::to_owned), ..HelperState::default() };
        }
        now.objection = objection;
    }

    /// Whether the command is still the one that was trusted: scripts change without anybody's settings.
    async fn check_objection(&self) -> Result<(), CredentialError> {
        let Some(objection) = self.lock_state().objection.clone() else { return Ok(()) };
        let heard = tokio::task::spawn_blocking(move || objection()).await;
        match heard.unwrap_or_else(|error| Some(error.to_string())) {
            None => Ok(()),
            Some(why) => Err(CredentialError {
                message: format!("the command in apiKeyHelper is not run: {why}"),
                hint: "'gimlet trust' shows what changed, and 'gimlet trust --yes' accepts it".to_owned(),
            }),
        }
    }

    fn lock_state(&self) -> std::sync::MutexGuard<'_, HelperState> {
        // A command and a key are whole at any moment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command and the run whose key is to be used.
    fn current_fetch(&self, refused: Option<&Secret>) -> Result<(String, Arc<KeyFetch>), CredentialError> {
        let mut now = self.lock_state();
        let command = now.command.clone().ok_or_else(|| CredentialError {
            message: "the setting apiKeyHelper was taken away, and there is no other key".to_owned(),
            hint: "Put it back, or set ANTHROPIC_API_KEY and start again".to_owned(),
        })?;
        let spent = match now.latest.get() {
            None => false,
            Some(Err(_)) => true,
            Some(Ok(fetched)) => fetched.at.elapsed() >= self.ttl || Some(&fetched.key) == refused,
        };
        if spent {
            now.latest = Arc::default();
        }
        Ok((command, Arc::clone(&now.latest)))
    }

    async fn run_helper(&self, command: &str) -> Result<FetchedKey, CredentialError> {
        let Some(exec) = self.exec.get() else {
            return Err(no_key_error("the session is not open yet", "Please report this"));
        };
        self.check_objection().await?;
        // Only what a project's file names has to be trusted first.
        let is_of_project = self.lock_state().objection.is_some();
        let env = if is_of_project { self.env.clone().without_vars(MODEL_CREDENTIALS) } else { self.env.clone() };
        let errand =
            HelperCommand { command, cwd: &self.cwd, env: &env, timeout: self.timeout, max_bytes: LONGEST_KEY };
        let printed = errand.run(exec).await.map_err(|error| self.helper_error(&error))?;
        let key = Secret::new(parse_key(&printed)?);
        self.redactor.add_secret(key.clone());
        // Like a key from the environment: commands must not find it in this process.
        gimlet_exec::forbid_inspection();
        Ok(FetchedKey { key, at: Instant::now() })
    }

    fn helper_error(&self, error: &HelperCommandError) -> CredentialError {
        let hint = match error {
            HelperCommandError::TimedOut { .. } => "Make it faster, or raise GIMLET_API_KEY_HELPER_TIMEOUT_MS",
            HelperCommandError::OutputTooLarge { .. } => "It must print the key and nothing else",
            HelperCommandError::Failed { .. } | HelperCommandError::Exec(_) => {
                "Run the command yourself to see what is wrong"
            }
        };
        // Its complaint may repeat a key that it printed before.
        no_key_error(&self.redactor.mask(&error.to_string()), hint)
    }
}

impl fmt::Debug for KeyHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The command may have a key written into it.
        f.write_str("KeyHelper(***)")
    }
}

impl CredentialSource for KeyHelper {
    fn fetch_key<'a>(&'a self, refused: Option<&'a Secret>) -> BoxFuture<'a, Result<Secret, CredentialError>> {
        Box::pin(async move {
            let (command, fetch) = self.current_fetch(refused)?;
            let fetched = fetch.get_or_init(|| self.run_helper(&command)).await;
            fetched.clone().map(|fetched| fetched.key)
        })
    }
}

fn no_key_error(what: &str, hint: &str) -> CredentialError {
    CredentialError { message: format!("the command in apiKeyHelper gave no key: {what}"), hint: hint.to_owned() }
}

/// The key, if what was printed is one: a single word that fits into a header, with nothing but white space around it.
fn parse_key(printed: &[u8]) -> Result<&str, CredentialError> {
    let printed = printed.trim_ascii();
    let what = match std::str::from_utf8(printed) {
        Ok("") => "it printed nothing",
        Ok(key) if key.bytes().all(|byte| byte.is_ascii_graphic()) => return Ok(key),
        Ok(text) if text.lines().nth(1).is_some() => "it printed more than one line",
        Ok(text) if text.contains([' ', '\t']) => "it printed more than one word",
        Ok(_) | Err(_) => "it printed characters that no key has",
    };
    Err(no_key_error(what, "It must print the key and nothing else; messages belong on standard error"))
}

#[cfg(test)]
#[path = "key_helper_tests.rs"]
mod tests;
