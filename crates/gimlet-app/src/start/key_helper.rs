//! The setting `apiKeyHelper`: a command that prints the key.
//!
//! It runs only when a request needs a key and no fresh one is known. Concurrent requests share one run. Its output is
//! never shown: not on success, and not in errors.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use gimlet_core::Redactor;
use gimlet_exec::{Exec, HelperCommand, HelperCommandError};
use gimlet_proto::{BoxFuture, CredentialError, CredentialSource, Env, Secret};
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// Default time that a key is used before the command runs again.
const DEFAULT_TTL_MS: u64 = 5 * 60 * 1000;
/// Default timeout of the command; long enough for a log-in in a browser.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const LONGEST_KEY: usize = 64 << 10;
/// Variables that hold the model's credentials. A command that a project's file names does not get them.
pub(super) const MODEL_CREDENTIALS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "GIMLET_API_KEY",
    "GIMLET_AUTH_TOKEN",
    "GIMLET_CUSTOM_HEADERS",
    "GIMLET_OAUTH_TOKEN",
];

/// The command of this session, and its last key.
pub(crate) struct KeyHelper {
    cwd: PathBuf,
    env: Env,
    ttl: Duration,
    timeout: Duration,
    redactor: Redactor,
    /// Executor of the session, which is opened after its provider.
    exec: OnceLock<Exec>,
    state: Mutex<HelperState>,
}

/// Check that returns the reason why a command must not run after all. It reads files, so it runs where blocking is
/// harmless.
pub(crate) type TrustObjection = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// State that changes while the session runs.
#[derive(Default)]
struct HelperState {
    command: Option<String>,
    objection: Option<TrustObjection>,
    latest: Arc<KeyFetch>,
}

/// One run of the command: pending, under way, or over. All callers wait for one run; if the caller that drives it is
/// cancelled, another takes over.
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

    /// Sets the executor. To be called once, before the first request.
    pub(crate) fn set_exec(&self, exec: Exec) {
        // A second call would carry an equal value.
        drop(self.exec.set(exec));
    }

    /// Sets the command from settings. A key from another command is dropped. The objection is evaluated before each
    /// run.
    pub(crate) fn set_command(&self, command: Option<&str>, objection: Option<TrustObjection>) {
        let mut now = self.lock_state();
        if now.command.as_deref() != command {
            *now = HelperState { command: command.map(str::to_owned), ..HelperState::default() };
        }
        now.objection = objection;
    }

    /// Checks that the command is still the trusted one: scripts can change without a change of settings.
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
        // The state is consistent even if a holder of the lock panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the command and the run whose key is to be used.
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
        // Only a command from a project's file needs trust.
        let is_of_project = self.lock_state().objection.is_some();
        let env = if is_of_project { self.env.clone().without_vars(MODEL_CREDENTIALS) } else { self.env.clone() };
        let errand =
            HelperCommand { command, cwd: &self.cwd, env: &env, timeout: self.timeout, max_bytes: LONGEST_KEY };
        let printed = errand.run(exec).await.map_err(|error| self.helper_error(&error))?;
        let key = Secret::new(parse_key(&printed)?);
        self.redactor.add_secret(key.clone());
        // As for a key from the environment: commands must not read it from this process.
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
        // The error may repeat a key that was printed before.
        no_key_error(&self.redactor.mask(&error.to_string()), hint)
    }
}

impl fmt::Debug for KeyHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The command may contain a key.
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

/// Parses the key: a single word that fits into a header, with only whitespace around it.
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
