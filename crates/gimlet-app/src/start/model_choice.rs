//! Models of a session: requested by flags, environment and settings, within what settings allow.

use gimlet_config::Scope;
use gimlet_model::{ModelChoices, ProviderConfig};

use super::session_settings::SessionSettings;
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;

/// Returns the user's model choices.
pub(super) fn model_choices(request: &LaunchRequest, configured: &SessionSettings) -> ModelChoices {
    let settings = &configured.effective.settings;
    let of_settings = || settings.fallback_model.clone().unwrap_or_default();
    ModelChoices {
        available: settings.available_models.clone(),
        enforced: settings.enforce_available_models == Some(true),
        fallbacks: if request.model.fallbacks.is_empty() { of_settings() } else { request.model.fallbacks.clone() },
        routes: settings.model_overrides.clone().unwrap_or_default(),
    }
}

/// The models of a session.
pub(super) struct SessionModels {
    pub(super) model: String,
    /// True if managed settings choose the model, so that nothing else may.
    pub(super) managed: bool,
    /// Reviewer in auto mode: the small model, where it may be used.
    pub(super) reviewer: String,
    pub(super) remark: Option<String>,
}

/// Returns the model of managed settings, or else the requested one; one that is not allowed is an error that names it. A resumed session falls back to the
/// default instead, because its model was not chosen now.
pub(super) fn choose_models(
    request: &LaunchRequest,
    configured: &SessionSettings,
    provider: &ProviderConfig,
    resumed: Option<&str>,
) -> Result<SessionModels, LaunchError> {
    let flag = request.model.name.as_deref().map(|wish| (wish, "--model"));
    let name = provider.provider().model_variable();
    let variable = configured.env.get(name).map(|wish| (wish, name));
    let setting = configured.initial_model_and_effort().0.map(|wish| (wish, "the setting model"));
    let managed = managed_model(configured).map(|wish| (wish, "the managed setting model"));
    let mut remark = None;
    let of_session = if flag.is_none() && variable.is_none() && managed.is_none() { resumed } else { None };
    let before = of_session.and_then(|model| match provider.model_for(Some(model)) {
        Ok(model) => Some(model),
        Err(error) => {
            remark = Some(format!("{error}; this session goes on with another one"));
            None
        }
    });
    let model = match (before, managed.or(flag).or(variable).or(setting)) {
        (Some(model), _) => model,
        (None, Some((wish, from))) => provider.model_for(Some(wish)).map_err(|error| {
            LaunchError::new(format!("{from}: {error}")).with_hint("Choose one of them, or 'default', with --model")
        })?,
        (None, None) => provider.model_for(None).map_err(|error| LaunchError::new(error.to_string()))?,
    };
    if managed.is_some() {
        remark = overridden_choice(provider, &model, flag.or(variable));
    }
    let reviewer = provider.model_for(Some("small")).unwrap_or_else(|_| model.clone());
    Ok(SessionModels { model, managed: managed.is_some(), reviewer, remark })
}

/// Returns the model that managed settings choose.
fn managed_model(configured: &SessionSettings) -> Option<&str> {
    let sources = configured.effective.merged.sources("model");
    let managed = sources.last().is_some_and(|source| source.origin.scope == Scope::Managed);
    if managed { configured.effective.settings.model.as_deref() } else { None }
}

/// Returns a remark on a choice that the managed model overrides.
fn overridden_choice(provider: &ProviderConfig, model: &str, choice: Option<(&str, &str)>) -> Option<String> {
    let (wish, from) = choice?;
    let same = provider.model_for(Some(wish)).is_ok_and(|wished| wished == model);
    (!same).then(|| format!("{from} {wish} is not used: managed settings choose the model {model}"))
}
