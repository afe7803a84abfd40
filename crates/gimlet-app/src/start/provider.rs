//! The model provider: client identification, credentials, and thinking effort.

use std::sync::Arc;

use gimlet_core::Redactor;
use gimlet_model::{ProviderConfig, ProviderConfigError};
use gimlet_proto::{CacheTtl, CredentialSource, Env, Secret, ThinkingMode, effort_from_env};

use super::{SessionSettings, model_choice, spending_choice};
use crate::key_login::{ProviderLoginError, provider_or_stored_key};
use crate::launch_error::LaunchError;
use crate::launch_request::{LaunchRequest, ThinkingChoice};
use crate::stored_keys::StoredKeys;

/// Builds the provider from environment, settings and flags; also returns what is missing for it to answer.
pub(super) fn build_provider(
    request: &LaunchRequest,
    configured: &SessionSettings,
    helper: Option<Arc<dyn CredentialSource>>,
) -> Result<(ProviderConfig, Option<String>), LaunchError> {
    let mut missing = None;
    let stored = StoredKeys::new(&configured.around.config_home);
    let found = match provider_or_stored_key(&configured.env, helper, &stored) {
        Ok((provider, key)) => {
            if let Some(key) = key {
                configured.redactor.add_secret(key);
                // As for a key from the environment: commands must not read it from this process.
                gimlet_exec::forbid_inspection();
            }
            Ok(provider)
        }
        Err(ProviderLoginError::Stored(error)) => {
            return Err(LaunchError::new(format!("no credentials were found, and {error}")));
        }
        Err(ProviderLoginError::Config(error)) => Err(error),
    };
    let found = match found {
        // A driving program can let its user log in; it needs the error in the form that it knows: as a result.
        Err(error @ ProviderConfigError::MissingCredential { .. })
            if request.is_driven() || request.front_end.reads_results || request.session.ends_after_setup =>
        {
            // The driving program reports the error to its user.
            missing = (!request.is_driven() && !request.session.ends_after_setup)
                .then(|| provider_error(error, configured).text());
            ProviderConfig::not_logged_in(&configured.env)
        }
        found => found,
    };
    let mut provider = found
        .map_err(|error| provider_error(error, configured))?
        .with_choices(model_choice::model_choices(request, configured))
        .with_prices(&spending_choice::model_prices(&configured.effective.settings));
    apply_flags(&mut provider, request, &configured.env);
    Ok((provider, missing))
}

/// Returns the values that must not appear in a transcript, a log or an answer.
fn env_credentials(env: &Env) -> impl Iterator<Item = Secret> {
    // Both spellings of each: the unused one is just as secret.
    gimlet_model::secret_variables().flat_map(|name| [env.get(name), env.exact(name)]).flatten().map(Secret::new)
}

/// Registers the credentials of an environment for masking: gimlet's own in any form, and those of other programs.
pub fn register_secrets(redactor: &Redactor, env: &Env) {
    redactor.add_environment(env);
    env_credentials(env).for_each(|secret| redactor.add_secret(secret));
}

/// Adds the values from flags and the caller to every request.
fn apply_flags(provider: &mut ProviderConfig, request: &LaunchRequest, env: &Env) {
    provider.add_betas(request.model.betas.iter().map(String::as_str));
    provider.wishes.task_budget = request.model.task_budget;
    provider.wishes.thinking_display = request.model.thinking_display;
    let callers = [
        ("entrypoint", env.get("CLAUDE_CODE_ENTRYPOINT")),
        ("agent-sdk", env.get("CLAUDE_AGENT_SDK_VERSION")),
        ("client-app", env.get("CLAUDE_AGENT_SDK_CLIENT_APP")),
    ];
    let sendable = |text: &str| text.chars().filter(|char| char.is_ascii_graphic()).collect::<String>();
    provider.callers =
        callers.into_iter().filter_map(|(name, value)| Some(format!("{name}/{}", sendable(value?)))).collect();
}

fn provider_error(error: ProviderConfigError, configured: &SessionSettings) -> LaunchError {
    match error {
        ProviderConfigError::MissingCredential { advice } if configured.is_withheld("apiKeyHelper") => {
            let why = match configured.has_recorded_trust() {
                true => "the apiKeyHelper of this folder is new or changed since you trusted it",
                false => "the apiKeyHelper of this folder is not trusted",
            };
            let hint = format!("Add --trust to use it in this run, or set {}", advice.key_variable());
            LaunchError::new(format!("no credentials were found, and {why}")).with_hint(hint)
        }
        ProviderConfigError::MissingCredential { advice } => {
            let hint = format!("{}, or try 'gimlet demo'", advice.missing_credential(&configured.env));
            LaunchError::new("no credentials were found").with_hint(hint)
        }
        error => LaunchError::new(error.to_string()),
    }
}

/// Returns the thinking effort from the environment, the flag, or the settings, in this order.
pub(super) fn choose_effort(request: &LaunchRequest, configured: &SessionSettings) -> Option<String> {
    let setting = configured.initial_model_and_effort().1.map(|level| level.as_str());
    // The level of that name adds plans for many agents, which gimlet does not make, to this one.
    let flag = request.model.effort.as_deref().map(|level| if level == "ultracode" { "xhigh" } else { level });
    effort_from_env(&configured.env).or(flag).or(setting).map(str::to_owned)
}

/// Returns the thinking mode from the flags, the environment, then the settings.
pub(super) fn choose_thinking(request: &LaunchRequest, configured: &SessionSettings) -> ThinkingMode {
    match request.model.thinking {
        Some(ThinkingChoice::Adaptive) => return ThinkingMode::ModelDefault,
        Some(ThinkingChoice::Disabled) => return ThinkingMode::Off,
        None => {}
    }
    if request.model.max_thinking_tokens.is_none() && configured.env.flag("CLAUDE_CODE_DISABLE_THINKING") {
        return ThinkingMode::Off;
    }
    let budget = request.model.max_thinking_tokens.or_else(|| configured.env.integer("MAX_THINKING_TOKENS"));
    match (budget, configured.effective.settings.always_thinking_enabled) {
        (Some(0), _) | (None, Some(false)) => ThinkingMode::Off,
        (Some(tokens), _) => ThinkingMode::Budget(tokens),
        (None, _) => ThinkingMode::ModelDefault,
    }
}

pub(super) fn choose_cache_ttl(env: &Env) -> Option<CacheTtl> {
    if env.flag("DISABLE_PROMPT_CACHING") {
        return None;
    }
    let long = env.flag("ENABLE_PROMPT_CACHING_1H") && !env.flag("FORCE_PROMPT_CACHING_5M");
    Some(if long { CacheTtl::OneHour } else { CacheTtl::FiveMinutes })
}
