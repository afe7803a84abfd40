//! The setting `apiKeyHelper`: a command that prints the key.
//!
//! It is run when a request needs a key and none is known that is fresh, never before. Requests that need one at the
//! same time wait for one run. What it prints is shown to nobody: not on success, and in no error.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use gimlet_core::Redactor;
use gimlet_exec::{Errand, ErrandError, Exec};
use gimlet_proto::{BoxFuture, CredentialError, Credentials, Env, Secret};
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
    now: Mutex<Now>,
}

/// Says why a command must not be run after all. It reads files, so it is asked where waiting is no harm.
pub(crate) type Objection = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What changes while the session runs.
#[derive(Default)]
struct Now {
    command: Option<String>,
    objection: Option<Objection>,
    latest: Arc<Fetch>,
}

/// One run of the command: to come, under way, or over. Whoever needs its outcome waits for the same one, and if the
/// one that drives it is cancelled, another goes on in its place.
type Fetch = OnceCell<Result<Fetched, CredentialError>>;

#[derive(Clone)]
struct Fetched {
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
            now: Mutex::default(),
        }
    }

    /// Starts the command with this from now on. To be called once, before the first request.
    pub(crate) fn start_with(&self, exec: Exec) {
        // A second call would name the same session's processes.
        drop(self.exec.set(exec));
    }

    /// What the settings say now. Another command's key is not used any more. The objection is heard before each run.
    pub(crate) fn set_command(&self, command: Option<&str>, objection: Option<Objection>) {
        let mut now = self.now();
        if now.command.as_deref() != command {
            *now = Now { command: command.map(str::to_owned), ..Now::default() };
        }
        now.objection = objection;
    }

    /// Whether the command is still the one that was trusted: scripts change without anybody's settings.
    async fn check(&self) -> Result<(), CredentialError> {
        let Some(objection) = self.now().objection.clone() else { return Ok(()) };
        let heard = tokio::task::spawn_blocking(move || objection()).await;
        match heard.unwrap_or_else(|error| Some(error.to_string())) {
            None => Ok(()),
            Some(why) => Err(CredentialError {
                message: format!("the command in apiKeyHelper is not run: {why}"),
                hint: "'gimlet trust' shows what changed, and 'gimlet trust --yes' accepts it".to_owned(),
            }),
        }
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        // A command and a key are whole at any moment.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command and the run whose key is to be used.
    fn latest(&self, refused: Option<&Secret>) -> Result<(String, Arc<Fetch>), CredentialError> {
        let mut now = self.now();
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

    async fn fetch(&self, command: &str) -> Result<Fetched, CredentialError> {
        let Some(exec) = self.exec.get() else {
            return Err(failed("the session is not open yet", "Please report this"));
        };
        self.check().await?;
        // Only what a project's file names has to be trusted first.
        let is_of_project = self.now().objection.is_some();
        let env = if is_of_project { self.env.clone().without(MODEL_CREDENTIALS) } else { self.env.clone() };
        let errand = Errand { command, cwd: &self.cwd, env: &env, limit: self.timeout, most_bytes: LONGEST_KEY };
        let printed = errand.run(exec).await.map_err(|error| self.explain(&error))?;
        let key = Secret::new(only_key(&printed)?);
        self.redactor.learn(key.clone());
        // Like a key from the environment: commands must not find it in this process.
        gimlet_exec::forbid_inspection();
        Ok(Fetched { key, at: Instant::now() })
    }

    fn explain(&self, error: &ErrandError) -> CredentialError {
        let hint = match error {
            ErrandError::TimedOut { .. } => "Make it faster, or raise GIMLET_API_KEY_HELPER_TIMEOUT_MS",
            ErrandError::TooMuch { .. } => "It must print the key and nothing else",
            ErrandError::Failed { .. } | ErrandError::Exec(_) => "Run the command yourself to see what is wrong",
        };
        // Its complaint may repeat a key that it printed before.
        failed(&self.redactor.mask(&error.to_string()), hint)
    }
}

impl fmt::Debug for KeyHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The command may have a key written into it.
        f.write_str("KeyHelper(***)")
    }
}

impl Credentials for KeyHelper {
    fn key<'a>(&'a self, refused: Option<&'a Secret>) -> BoxFuture<'a, Result<Secret, CredentialError>> {
        Box::pin(async move {
            let (command, fetch) = self.latest(refused)?;
            let fetched = fetch.get_or_init(|| self.fetch(&command)).await;
            fetched.clone().map(|fetched| fetched.key)
        })
    }
}

fn failed(what: &str, hint: &str) -> CredentialError {
    CredentialError { message: format!("the command in apiKeyHelper gave no key: {what}"), hint: hint.to_owned() }
}

/// The key, if what was printed is one: a single word that fits into a header, with nothing but white space around it.
fn only_key(printed: &[u8]) -> Result<&str, CredentialError> {
    let printed = printed.trim_ascii();
    let what = match std::str::from_utf8(printed) {
        Ok("") => "it printed nothing",
        Ok(key) if key.bytes().all(|byte| byte.is_ascii_graphic()) => return Ok(key),
        Ok(text) if text.lines().nth(1).is_some() => "it printed more than one line",
        Ok(text) if text.contains([' ', '\t']) => "it printed more than one word",
        Ok(_) | Err(_) => "it printed characters that no key has",
    };
    Err(failed(what, "It must print the key and nothing else; messages belong on standard error"))
}

#[cfg(test)]
#[path = "key_helper_tests.rs"]
mod tests;
