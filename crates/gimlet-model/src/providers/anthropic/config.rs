//! Endpoint, credential and limits, read from values that the binary collected. Nothing here is ever printed whole.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gimlet_proto::{CredentialSource, Env, ModelError, ThinkingDisplay, VERSION};
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use super::credential::{ProviderCredential, unsendable_header};

use crate::betas;
use crate::catalogue::{ModelCatalogue, ModelSummary};
use crate::json::OrderedMembers;
use crate::model_choices::{ModelChoices, UnavailableModelError};
use gimlet_http::NetworkConfig;

const VENDOR: &str = "https://api.anthropic.com";
const MOST_RETRIES: u64 = 15;
/// Minimum timeout; shorter ones would give up on servers that are merely slow.
const LEAST_TIMEOUT_MS: u64 = 10_000;
/// For tests only: lowers the minimum above, so that a stalled server is detected within a test.
const TEST_LEAST_TIMEOUT_MS: &str = "GIMLET_TEST_LEAST_TIMEOUT_MS";
/// For tests only: the delay before the first retry.
const TEST_RETRY_DELAY_MS: &str = "GIMLET_TEST_RETRY_DELAY_MS";

/// Switch for streaming tool inputs unbuffered, at any endpoint.
const EAGER_INPUT: &str = "CLAUDE_CODE_ENABLE_FINE_GRAINED_TOOL_STREAMING";

/// Timeouts of the provider.
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

/// Configuration of the provider.
#[derive(Clone, Debug)]
pub struct AnthropicConfig {
    pub(crate) base_url: String,
    pub(crate) credential: ProviderCredential,
    pub(crate) custom_headers: HeaderMap,
    pub(crate) extra_betas: Vec<String>,
    pub(crate) catalogue: ModelCatalogue,
    choices: ModelChoices,
    /// Fallback models for an overloaded one, in order.
    pub(crate) fallbacks: Vec<String>,
    pub(crate) network: NetworkConfig,
    /// True for the vendor's own host: optional features that gateways may not know are used only there.
    pub(crate) first_party: bool,
    warnings: Vec<String>,
    pub api_version: String,
    /// True if betas are sent at all.
    pub betas: bool,
    pub interleaved_thinking: bool,
    /// True if models that also accept a thinking budget get one instead of choosing their own depth.
    pub(crate) fixed_thinking: bool,
    /// True if an effort is sent to every model, even to those not known to accept one.
    pub(crate) always_effort: bool,
    /// Override for streaming tool inputs unbuffered; by default only at the vendor's own host.
    pub(crate) eager_input: Option<bool>,
    pub max_retries: u32,
    /// True if no user waits for the answer: rate limits and overload are waited out, however long that takes.
    pub unattended: bool,
    /// Delay before the first retry; each further one doubles it.
    pub first_delay: Duration,
    /// Maximum delay requested by the server; a longer one ends the request instead.
    pub max_wait: Duration,
    pub max_output_tokens: Option<u64>,
    /// Model families that get no cache markers.
    uncached: Vec<&'static str>,
    /// The user's additional body members, which replace ours of their names.
    extra_body: Vec<(String, String)>,
    pub patience: ModelTimeouts,
    /// Requested display of the model's thinking; all of it by default.
    pub thinking_display: Option<ThinkingDisplay>,
    /// Token budget of the whole task, as stated to the model.
    pub task_budget: Option<u64>,
    /// Names of the callers, after gimlet's own name in `User-Agent`.
    pub callers: Vec<String>,
}

/// Reason why no provider can be created.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderConfigError {
    #[error("no credential: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN")]
    MissingCredential,
    #[error(
        "{name} is set, but gimlet does not use that kind of credential: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"
    )]
    UnsupportedCredential { name: &'static str },
    #[error("the credential in {name} has characters that cannot be sent")]
    IllegalCredential { name: &'static str },
    #[error("ANTHROPIC_BASE_URL is not an http or https address: {reason}")]
    BaseUrl { reason: String },
    #[error("line {line} of ANTHROPIC_CUSTOM_HEADERS is not `Name: value`")]
    CustomHeader { line: usize },
    #[error("CLAUDE_CODE_EXTRA_BODY is not an object of further members of a request: {reason}")]
    ExtraBody { reason: String },
    #[error("GIMLET_MODELS is not an object of models and their facts: {reason}")]
    Models { reason: String },
}

impl AnthropicConfig {
    /// Reads the conventional variables.
    pub fn from_env(env: &Env) -> Result<Self, ProviderConfigError> {
        Self::from_env_or(env, None)
    }

    /// Reads the conventional variables; `helper` supplies the key if they name none.
    pub fn from_env_or(env: &Env, helper: Option<Arc<dyn CredentialSource>>) -> Result<Self, ProviderConfigError> {
        Self::read(env, || ProviderCredential::find(env, helper))
    }

    /// Reads the variables for a user without a credential: every request fails with a message about that.
    pub fn not_logged_in(env: &Env) -> Result<Self, ProviderConfigError> {
        Self::read(env, || Ok(ProviderCredential::Missing))
    }

    fn read(
        env: &Env,
        find: impl FnOnce() -> Result<ProviderCredential, ProviderConfigError>,
    ) -> Result<Self, ProviderConfigError> {
        let base = base_url(env.get("ANTHROPIC_BASE_URL").unwrap_or(VENDOR))?;
        let host = base.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let first_party = host == "api.anthropic.com" || host.ends_with(".anthropic.com");
        let local = is_loopback(host);
        let (custom_headers, header_betas) = custom_headers(env.get("ANTHROPIC_CUSTOM_HEADERS").unwrap_or(""))?;
        let betas = !env.flag("GIMLET_DISABLE_BETAS") && !env.flag("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS");
        let mut extra_betas = betas::parse_list(env.get("ANTHROPIC_BETAS").unwrap_or(""));
        extra_betas.extend(header_betas);
        if !betas {
            extra_betas.clear();
        }
        let mut warnings = Vec::new();
        if env.get("ANTHROPIC_API_KEY").is_some() && env.get("ANTHROPIC_AUTH_TOKEN").is_some() {
            warnings.push("both ANTHROPIC_AUTH_TOKEN and ANTHROPIC_API_KEY are set; the token is used".to_owned());
        }
        let extra_body = extra_body(env.get("CLAUDE_CODE_EXTRA_BODY").unwrap_or("{}"))?;
        let unattended = env.flag("CLAUDE_CODE_RETRY_WATCHDOG");
        Ok(Self {
            base_url: base.as_str().trim_end_matches('/').to_owned(),
            credential: find()?,
            custom_headers,
            extra_betas,
            catalogue: ModelCatalogue::from_env(env).map_err(|reason| ProviderConfigError::Models { reason })?,
            choices: ModelChoices::default(),
            fallbacks: Vec::new(),
            network: NetworkConfig::from_env(env),
            first_party,
            warnings,
            api_version: env.get("GIMLET_API_VERSION").unwrap_or("2023-06-01").to_owned(),
            betas,
            interleaved_thinking: !env.flag("DISABLE_INTERLEAVED_THINKING"),
            fixed_thinking: env.flag("CLAUDE_CODE_DISABLE_ADAPTIVE_THINKING"),
            always_effort: env.flag("CLAUDE_CODE_ALWAYS_ENABLE_EFFORT"),
            eager_input: env.get(EAGER_INPUT).map(|_| env.flag(EAGER_INPUT)),
            max_retries: max_retries(env, unattended),
            unattended,
            first_delay: env.integer(TEST_RETRY_DELAY_MS).map_or(crate::retry::FIRST_DELAY, Duration::from_millis),
            max_wait: env.integer("GIMLET_MAX_WAIT_MS").map_or(super::DEFAULT_MAX_WAIT, Duration::from_millis),
            max_output_tokens: env.integer("CLAUDE_CODE_MAX_OUTPUT_TOKENS").filter(|tokens| *tokens > 0),
            uncached: uncached_families(env),
            extra_body,
            patience: timeouts_from_env(env, first_party, local),
            thinking_display: None,
            task_budget: None,
            callers: Vec::new(),
        })
    }

    /// Adds beta features, unless betas are switched off.
    pub fn add_betas<'a>(&mut self, betas: impl IntoIterator<Item = &'a str>) {
        if self.betas {
            self.extra_betas.extend(betas.into_iter().flat_map(betas::parse_list));
        }
    }

    /// Returns the beta features that were requested.
    pub fn requested_betas(&self) -> &[String] {
        &self.extra_betas
    }

    /// Returns the models offered to the user, by the names to choose them by.
    pub fn model_summaries(&self) -> Vec<ModelSummary> {
        self.catalogue.model_summaries()
    }

    /// Applies the user's choices about models.
    pub fn with_choices(mut self, choices: ModelChoices) -> Self {
        let (fallbacks, remarks) = choices.usable_fallbacks(&self.catalogue);
        self.fallbacks = fallbacks;
        self.warnings.extend(remarks);
        self.catalogue = self.catalogue.with_routes(choices.routes.clone());
        self.choices = choices;
        self
    }

    /// Returns the model for a requested name, or the default one; an error if it is not permitted.
    pub fn model_for(&self, wish: Option<&str>) -> Result<String, UnavailableModelError> {
        self.choices.model_for(&self.catalogue, wish)
    }

    /// Returns a body with the user's additional members.
    pub(crate) fn add_extra_body(&self, body: Bytes) -> Bytes {
        if self.extra_body.is_empty() {
            return body;
        }
        let Ok(members) = serde_json::from_slice::<OrderedMembers>(&body) else { return body };
        let extra: Vec<(&str, String)> =
            self.extra_body.iter().map(|(name, json)| (name.as_str(), json.clone())).collect();
        Bytes::from(members.render(&extra))
    }

    /// Returns true if cache markers are sent to this model.
    pub(crate) fn sends_cache_markers(&self, model: &str) -> bool {
        !self.uncached.iter().any(|family| model.contains(family))
    }

    /// Returns warnings for the user about odd settings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the source of the key, as named in `system/init`; a bearer token is not a key.
    pub fn api_key_source(&self) -> &'static str {
        match self.credential {
            ProviderCredential::ApiKey(_) => "ANTHROPIC_API_KEY",
            ProviderCredential::Bearer(_) | ProviderCredential::Missing => "none",
            ProviderCredential::Helper(_) => "apiKeyHelper",
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("{}/v1/messages", self.base_url)
    }

    /// Returns host and port if requests go to this machine itself.
    pub(crate) fn local_server(&self) -> Option<String> {
        let url = Url::parse(&self.base_url).ok()?;
        let host = url.host_str()?;
        is_loopback(host).then(|| format!("{host}:{}", url.port_or_known_default().unwrap_or_default()))
    }

    /// Returns the headers of a request without its credential. Ours take precedence over the user's.
    pub(crate) fn headers(&self, betas: Option<&str>) -> Result<HeaderMap, ModelError> {
        let mut headers = self.custom_headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let mut put = |name: HeaderName, value: &str| {
            let value = HeaderValue::from_str(value).map_err(|_| *unsendable_header(&name).error)?;
            headers.insert(name, value);
            Ok(())
        };
        let agent = [format!("gimlet/{VERSION}")].into_iter().chain(self.callers.iter().cloned());
        put(USER_AGENT, &agent.collect::<Vec<_>>().join(" "))?;
        put(HeaderName::from_static("anthropic-version"), &self.api_version)?;
        if let Some(betas) = betas {
            put(HeaderName::from_static("anthropic-beta"), betas)?;
        }
        Ok(headers)
    }
}

fn uncached_families(env: &Env) -> Vec<&'static str> {
    let families = [
        ("DISABLE_PROMPT_CACHING_OPUS", "opus"),
        ("DISABLE_PROMPT_CACHING_SONNET", "sonnet"),
        ("DISABLE_PROMPT_CACHING_HAIKU", "haiku"),
        ("DISABLE_PROMPT_CACHING_FABLE", "fable"),
    ];
    families.into_iter().filter(|(name, _)| env.flag(name)).map(|(_, family)| family).collect()
}

/// Parses the user's additional body members. Members that a reply depends on (model, messages, stream) are an error.
fn extra_body(text: &str) -> Result<Vec<(String, String)>, ProviderConfigError> {
    let wrong = |reason: String| ProviderConfigError::ExtraBody { reason };
    let members: OrderedMembers = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let members = members.into_pairs();
    match members.iter().find(|(name, _)| ["model", "messages", "stream"].contains(&name.as_str())) {
        Some((name, _)) => Err(wrong(format!("`{name}` cannot be changed there"))),
        None => Ok(members),
    }
}

fn base_url(text: &str) -> Result<Url, ProviderConfigError> {
    let url = Url::parse(text.trim()).map_err(|error| ProviderConfigError::BaseUrl { reason: error.to_string() })?;
    match (url.scheme(), url.has_host()) {
        ("http" | "https", true) => Ok(url),
        (scheme, _) => Err(ProviderConfigError::BaseUrl { reason: format!("its scheme is {scheme}") }),
    }
}

/// Parses the user's own headers, and the betas among them.
fn custom_headers(text: &str) -> Result<(HeaderMap, Vec<String>), ProviderConfigError> {
    let mut headers = HeaderMap::new();
    let mut betas = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let illegal = ProviderConfigError::CustomHeader { line: at + 1 };
        let Some((name, value)) = line.split_once(':') else { return Err(illegal) };
        let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name.trim()), HeaderValue::from_str(value.trim())) else {
            return Err(illegal);
        };
        if name == "anthropic-beta" {
            betas.extend(betas::parse_list(value.to_str().unwrap_or_default()));
            continue;
        }
        // Such a header is often a gateway's credential.
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok((headers, betas))
}

/// Returns true if a host is this machine itself, in any notation.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn max_retries(env: &Env, unattended: bool) -> u32 {
    let chosen = env.integer("CLAUDE_CODE_MAX_RETRIES").unwrap_or(10);
    let most = if unattended { u64::from(u32::MAX) } else { MOST_RETRIES };
    u32::try_from(chosen.min(most)).unwrap_or(u32::MAX)
}

fn timeouts_from_env(env: &Env, first_party: bool, local: bool) -> ModelTimeouts {
    let least_ms = env.integer(TEST_LEAST_TIMEOUT_MS).unwrap_or(LEAST_TIMEOUT_MS).min(LEAST_TIMEOUT_MS);
    let chosen = |name: &str, seconds: u64| match env.integer(name) {
        Some(ms) => Duration::from_millis(ms.max(least_ms)),
        None => Duration::from_secs(seconds),
    };
    ModelTimeouts {
        connect: Duration::from_secs(10),
        // A local model may have to be loaded first.
        headers: chosen("API_TIMEOUT_MS", if local { 600 } else { 120 }),
        idle: chosen("CLAUDE_STREAM_IDLE_TIMEOUT_MS", if first_party { 180 } else { 300 }),
        waiting: chosen("GIMLET_WAITING_MS", 20),
        quiet: chosen("GIMLET_QUIET_MS", 600),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
