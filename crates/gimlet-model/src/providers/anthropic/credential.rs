//! Credentials: the variable or helper they come from, the way they are sent, and their redaction from errors.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{CredentialError, CredentialSource, Env, ModelError, ModelErrorKind, ModelEvent, Secret};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::config::ProviderConfigError;
use crate::event_sink::EventSink;
use crate::failure::{RequestFailure, RetryAdvice};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Time after which the user is notified that the helper may be waiting for input.
const HELPER_REMARK: Duration = Duration::from_secs(5);

/// Source of the secret of each request.
#[derive(Clone, Debug)]
pub(crate) enum ProviderCredential {
    ApiKey(Secret),
    Bearer(Secret),
    /// Fetched when needed. The header that its server reads is unknown, so it is sent in both.
    Helper(Arc<dyn CredentialSource>),
    /// No credential: every request fails before it is sent.
    Missing,
}

impl ProviderCredential {
    /// Finds the credential: a token, a key or a helper, in this order.
    pub(super) fn find(env: &Env, helper: Option<Arc<dyn CredentialSource>>) -> Result<Self, ProviderConfigError> {
        let sendable = |name: &'static str, value: &str| {
            let value = value.trim();
            match HeaderValue::from_str(value) {
                Ok(_) if !value.is_empty() => Ok(Secret::new(value)),
                _ => Err(ProviderConfigError::IllegalCredential { name }),
            }
        };
        if let Some(token) = env.get("ANTHROPIC_AUTH_TOKEN") {
            return sendable("ANTHROPIC_AUTH_TOKEN", token).map(Self::Bearer);
        }
        if let Some(key) = env.get("ANTHROPIC_API_KEY") {
            return sendable("ANTHROPIC_API_KEY", key).map(Self::ApiKey);
        }
        if let Some(helper) = helper {
            return Ok(Self::Helper(helper));
        }
        let foreign = ["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID"];
        match foreign.into_iter().find(|name| env.get(name).is_some()) {
            Some(name) => Err(ProviderConfigError::UnsupportedCredential { name }),
            None => Err(ProviderConfigError::MissingCredential),
        }
    }

    /// Returns the secret to send now.
    pub(super) async fn secret(&self, outlet: &EventSink) -> Result<Secret, ModelError> {
        match self {
            Self::ApiKey(secret) | Self::Bearer(secret) => Ok(secret.clone()),
            Self::Helper(helper) => fetch(helper.as_ref(), None, outlet).await,
            Self::Missing => {
                let failure = RequestFailure::new(
                    ModelErrorKind::NotLoggedIn,
                    RetryAdvice::Never,
                    ModelError::NOT_LOGGED_IN.to_owned(),
                );
                Err(*failure.error)
            }
        }
    }

    /// Fetches a new secret in place of the one that the server refused; `None` if there is only one.
    pub(super) async fn renew(&self, refused: &Secret, outlet: &EventSink) -> Option<Result<Secret, ModelError>> {
        match self {
            Self::ApiKey(_) | Self::Bearer(_) | Self::Missing => None,
            Self::Helper(helper) => Some(fetch(helper.as_ref(), Some(refused), outlet).await),
        }
    }

    /// Adds the secret to the headers of a request.
    pub(super) fn insert_headers(&self, secret: &Secret, headers: &mut HeaderMap) -> Result<(), RequestFailure> {
        let mut put = |name: HeaderName, value: &str| {
            let mut value = HeaderValue::from_str(value).map_err(|_| unsendable_header(&name))?;
            value.set_sensitive(true);
            headers.insert(name, value);
            Ok(())
        };
        let bearer = format!("Bearer {}", secret.expose());
        match self {
            Self::ApiKey(_) => put(API_KEY, secret.expose()),
            Self::Bearer(_) => put(AUTHORIZATION, &bearer),
            Self::Helper(_) => put(API_KEY, secret.expose()).and_then(|()| put(AUTHORIZATION, &bearer)),
            Self::Missing => Ok(()),
        }
    }

    /// Returns the error for the user: without the secret, should a server have repeated it, and with advice about its
    /// source.
    pub(super) fn redact_error(&self, secret: &Secret, mut error: ModelError) -> ModelError {
        // A placeholder of a few letters is no secret, and would match ordinary words.
        if secret.expose().len() >= 8 && error.message.contains(secret.expose()) {
            error.message = error.message.replace(secret.expose(), "***");
        }
        if matches!(self, Self::Helper(_)) && error.kind == ModelErrorKind::Authentication {
            error.hint = Some("Check what the command in the setting apiKeyHelper prints".to_owned());
        }
        error
    }
}

/// Fetches from a helper, and notifies the user when that takes long.
async fn fetch(
    helper: &dyn CredentialSource,
    refused: Option<&Secret>,
    outlet: &EventSink,
) -> Result<Secret, ModelError> {
    let mut key = helper.fetch_key(refused);
    let fetched = match tokio::time::timeout(HELPER_REMARK, &mut key).await {
        Ok(fetched) => fetched,
        Err(_) => {
            outlet.push(ModelEvent::Notice("still waiting for the command in apiKeyHelper".to_owned()));
            key.await
        }
    };
    fetched.map_err(|CredentialError { message, hint }| {
        *RequestFailure::new(ModelErrorKind::Authentication, RetryAdvice::Never, message).with_hint(hint).error
    })
}

pub(super) fn unsendable_header(name: &HeaderName) -> RequestFailure {
    RequestFailure::new(
        ModelErrorKind::InvalidRequest,
        RetryAdvice::Never,
        format!("the value of the header {name} cannot be sent"),
    )
}
