//! Configuration of the model: the provider that the environment chooses, the user's wishes and choices, timeouts and
//! retries. Read from values that the binary collected. Nothing here is ever printed whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gimlet_http::NetworkConfig;
use gimlet_proto::{CredentialSource, Env, Model, ModelPrice};

use crate::catalogue::ModelSummary;
use crate::engine::{FIRST_DELAY, ModelEngine};
use crate::model_choices::{ModelChoices, UnavailableModelError};
use crate::model_directory::ModelDirectory;
use crate::providers::{PROVIDERS, ProviderConfigError, ProviderEndpoint, ProviderRow};
use crate::request_wishes::{RequestWishes, parse_list};

const MOST_RETRIES: u64 = 15;
/// Minimum timeout; shorter ones would give up on servers that are merely slow.
const LEAST_TIMEOUT_MS: u64 = 10_000;
/// For tests only: lowers the minimum above, so that a stalled server is detected within a test.
const TEST_LEAST_TIMEOUT_MS: &str = "GIMLET_TEST_LEAST_TIMEOUT_MS";
/// For tests only: the delay before the first retry.
const TEST_RETRY_DELAY_MS: &str = "GIMLET_TEST_RETRY_DELAY_MS";
/// Default maximum delay that a server may request.
const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(300);

/// Timeouts of requests to one provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelTimeouts {
    pub connect: Duration,
    /// From sending the request to the head of its response.
    pub headers: Duration,
    /// Between two chunks of a response, keep-alives included.
    pub idle: Duration,
    /// Silence after which the user is notified.
    pub waiting: Duration,
    /// Time with only keep-alives after which the user is notified; nothing else happens.
    pub quiet: Duration,
}

/// The user's timeouts. Those that are not chosen depend on where the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutChoices {
    pub headers: Option<Duration>,
    pub idle: Option<Duration>,
    pub waiting: Duration,
    pub quiet: Duration,
}

/// Limits on repeating a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    pub max_retries: u32,
    /// True if no user waits for the answer: rate limits and overload are waited out, however long that takes.
    pub unattended: bool,
    /// Delay before the first retry; each further one doubles it.
    pub first_delay: Duration,
    /// Maximum delay requested by the server; a longer one ends the request instead.
    pub max_wait: Duration,
}

/// Configuration of the model.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// The environment, from which further providers are made when a request first needs them.
    pub(crate) env: Env,
    /// Provider of the models whose names have no other provider in front.
    pub(crate) main: ProviderEndpoint,
    pub(crate) directory: ModelDirectory,
    choices: ModelChoices,
    /// Fallback models for an overloaded one, in order.
    pub(crate) fallbacks: Vec<String>,
    pub(crate) network: NetworkConfig,
    warnings: Vec<String>,
    /// Source of the key, where it is not in the environment that this was read from.
    key_source: Option<&'static str>,
    pub wishes: RequestWishes,
    pub retries: RetryLimits,
    pub timeouts: TimeoutChoices,
    /// Names of the callers, after gimlet's own name in `User-Agent`.
    pub callers: Vec<String>,
}

impl ProviderConfig {
    /// Reads the conventional variables.
    pub fn from_env(env: &Env) -> Result<Self, ProviderConfigError> {
        Self::from_env_or(env, None)
    }

    /// Reads the conventional variables; `helper` supplies the key if they name none.
    pub fn from_env_or(env: &Env, helper: Option<Arc<dyn CredentialSource>>) -> Result<Self, ProviderConfigError> {
        Self::from_table(PROVIDERS, env, helper)
    }

    /// Reads the variables for a user without a credential: every request fails with a message about that.
    pub fn not_logged_in(env: &Env) -> Result<Self, ProviderConfigError> {
        Self::read(PROVIDERS, env, |row| ProviderEndpoint::not_logged_in(row, env))
    }

    /// Reads the variables that the rows of this table name.
    pub(crate) fn from_table(
        table: &'static [&'static ProviderRow],
        env: &Env,
        helper: Option<Arc<dyn CredentialSource>>,
    ) -> Result<Self, ProviderConfigError> {
        Self::read(table, env, |row| ProviderEndpoint::open(row, env, helper))
    }

    fn read(
        table: &'static [&'static ProviderRow],
        env: &Env,
        open: impl FnOnce(&'static ProviderRow) -> Result<ProviderEndpoint, ProviderConfigError>,
    ) -> Result<Self, ProviderConfigError> {
        let wishes = RequestWishes::from_env(env)?;
        let row = ProviderRow::chosen_from(table, env);
        let main = open(row)?;
        let directory = ModelDirectory::from_env(table, row, main.is_vendor, env)
            .map_err(|reason| ProviderConfigError::Models { reason })?;
        Ok(Self {
            env: env.clone(),
            warnings: (row.warning)(env).into_iter().collect(),
            main,
            directory,
            choices: ModelChoices::default(),
            key_source: None,
            fallbacks: Vec::new(),
            network: NetworkConfig::from_env(env),
            wishes,
            retries: RetryLimits::from_env(env),
            timeouts: TimeoutChoices::from_env(env),
            callers: Vec::new(),
        })
    }

    /// Adds beta features, unless betas are switched off.
    pub fn add_betas<'a>(&mut self, betas: impl IntoIterator<Item = &'a str>) {
        self.wishes.betas.extend(betas.into_iter().flat_map(parse_list));
    }

    /// Returns the beta features that were requested.
    pub fn requested_betas(&self) -> Vec<String> {
        match self.wishes.sends_betas {
            true => self.main.betas.iter().chain(&self.wishes.betas).cloned().collect(),
            false => Vec::new(),
        }
    }

    /// Returns the models offered to the user, by the names to choose them by.
    pub fn model_summaries(&self) -> Vec<ModelSummary> {
        self.directory.model_summaries()
    }

    /// Applies the user's choices about models.
    pub fn with_choices(mut self, choices: ModelChoices) -> Self {
        let (fallbacks, remarks) = choices.usable_fallbacks(&self.directory);
        self.fallbacks = fallbacks;
        self.warnings.extend(remarks);
        self.directory = self.directory.with_routes(&choices.routes);
        self.choices = choices;
        self
    }

    /// Sets the user's prices of models, by id or by a pattern of ids.
    pub fn with_prices(mut self, prices: &BTreeMap<String, ModelPrice>) -> Self {
        self.directory = self.directory.with_prices(prices);
        self
    }

    /// Returns the model for a requested name, or the default one; an error if it is not permitted.
    pub fn model_for(&self, wish: Option<&str>) -> Result<String, UnavailableModelError> {
        self.choices.model_for(&self.directory, wish)
    }

    /// Returns warnings for the user about odd settings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the source of the key, as named in `system/init`.
    pub fn api_key_source(&self) -> &'static str {
        self.key_source.unwrap_or_else(|| self.main.auth.key_source())
    }

    /// Names another source of the key.
    #[must_use]
    pub fn with_key_source(self, source: &'static str) -> Self {
        Self { key_source: Some(source), ..self }
    }

    /// Returns the provider of the models whose names have no other provider in front.
    pub fn provider(&self) -> &'static ProviderRow {
        self.main.row
    }

    /// Returns the model that answers requests. Opens no connection: the first request does.
    pub fn into_model(self) -> Arc<dyn Model> {
        Arc::new(ModelEngine::new(self))
    }
}

impl RetryLimits {
    fn from_env(env: &Env) -> Self {
        let unattended = env.flag("CLAUDE_CODE_RETRY_WATCHDOG");
        let chosen = env.integer("CLAUDE_CODE_MAX_RETRIES").unwrap_or(10);
        let most = if unattended { u64::from(u32::MAX) } else { MOST_RETRIES };
        Self {
            max_retries: u32::try_from(chosen.min(most)).unwrap_or(u32::MAX),
            unattended,
            first_delay: env.integer(TEST_RETRY_DELAY_MS).map_or(FIRST_DELAY, Duration::from_millis),
            max_wait: env.integer("GIMLET_MAX_WAIT_MS").map_or(DEFAULT_MAX_WAIT, Duration::from_millis),
        }
    }
}

impl TimeoutChoices {
    fn from_env(env: &Env) -> Self {
        let least_ms = env.integer(TEST_LEAST_TIMEOUT_MS).unwrap_or(LEAST_TIMEOUT_MS).min(LEAST_TIMEOUT_MS);
        let chosen = |name: &str| env.integer(name).map(|ms| Duration::from_millis(ms.max(least_ms)));
        Self {
            headers: chosen("API_TIMEOUT_MS"),
            idle: chosen("CLAUDE_STREAM_IDLE_TIMEOUT_MS"),
            waiting: chosen("GIMLET_WAITING_MS").unwrap_or(Duration::from_secs(20)),
            quiet: chosen("GIMLET_QUIET_MS").unwrap_or(Duration::from_secs(600)),
        }
    }

    /// Returns the timeouts of requests to this endpoint.
    pub(crate) fn at(&self, endpoint: &ProviderEndpoint) -> ModelTimeouts {
        // A local model may have to be loaded first.
        let headers = if endpoint.local_server().is_some() { 600 } else { 120 };
        let idle = if endpoint.is_vendor { 180 } else { 300 };
        ModelTimeouts {
            connect: Duration::from_secs(10),
            headers: self.headers.unwrap_or(Duration::from_secs(headers)),
            idle: self.idle.unwrap_or(Duration::from_secs(idle)),
            waiting: self.waiting,
            quiet: self.quiet,
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
