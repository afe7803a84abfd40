//! What proves who we are: which variable or helper it comes from, how it is sent, and that no error repeats it.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{CredentialError, Credentials, Env, ErrorKind, ModelError, ModelEvent, Secret};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::config::ConfigError;
use crate::failure::{Again, Failure};
use crate::outlet::Outlet;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// A helper that takes longer than this may be waiting for the person, who should know.
const HELPER_REMARK: Duration = Duration::from_secs(5);

/// Where the secret of each request comes from.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    ApiKey(Secret),
    Bearer(Secret),
    /// Fetched when needed. Nobody knows which header its server reads, so it is sent in both.
    Helper(Arc<dyn Credentials>),
    /// There is none: every request ends before it is sent.
    Missing,
}

impl Credential {
    /// A token, a key, a helper, in this order.
    pub(super) fn find(env: &Env, helper: Option<Arc<dyn Credentials>>) -> Result<Self, ConfigError> {
        let sendable = |name: &'static str, value: &str| {
            let value = value.trim();
            match HeaderValue::from_str(value) {
                Ok(_) if !value.is_empty() => Ok(Secret::new(value)),
                _ => Err(ConfigError::IllegalCredential { name }),
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
            Some(name) => Err(ConfigError::UnsupportedCredential { name }),
            None => Err(ConfigError::MissingCredential),
        }
    }

    /// The secret to send now.
    pub(super) async fn secret(&self, outlet: &Outlet) -> Result<Secret, ModelError> {
        match self {
            Self::ApiKey(secret) | Self::Bearer(secret) => Ok(secret.clone()),
            Self::Helper(helper) => fetch(helper.as_ref(), None, outlet).await,
            Self::Missing => {
                let failure = Failure::new(ErrorKind::NotLoggedIn, Again::Never, ModelError::NOT_LOGGED_IN.to_owned());
                Err(*failure.error)
            }
        }
    }

    /// Another secret than the one that the server refused; `None` where there is only one.
    pub(super) async fn renewed(&self, refused: &Secret, outlet: &Outlet) -> Option<Result<Secret, ModelError>> {
        match self {
            Self::ApiKey(_) | Self::Bearer(_) | Self::Missing => None,
            Self::Helper(helper) => Some(fetch(helper.as_ref(), Some(refused), outlet).await),
        }
    }

    /// Adds the secret to the headers of a request.
    pub(super) fn put(&self, secret: &Secret, headers: &mut HeaderMap) -> Result<(), Failure> {
        let mut put = |name: HeaderName, value: &str| {
            let mut value = HeaderValue::from_str(value).map_err(|_| unsendable(&name))?;
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

    /// An error as the person should read it: without the secret, should a server have repeated it, and with advice
    /// about the place where it came from.
    pub(super) fn told(&self, secret: &Secret, mut error: ModelError) -> ModelError {
        // A placeholder of a few letters is no secret, and would be found in ordinary words.
        if secret.expose().len() >= 8 && error.message.contains(secret.expose()) {
            error.message = error.message.replace(secret.expose(), "***");
        }
        if matches!(self, Self::Helper(_)) && error.kind == ErrorKind::Authentication {
            error.hint = Some("Check what the command in the setting apiKeyHelper prints".to_owned());
        }
        error
    }
}

/// Asks a helper, and tells the person when that takes long.
async fn fetch(helper: &dyn Credentials, refused: Option<&Secret>, outlet: &Outlet) -> Result<Secret, ModelError> {
    let mut key = helper.key(refused);
    let fetched = match tokio::time::timeout(HELPER_REMARK, &mut key).await {
        Ok(fetched) => fetched,
        Err(_) => {
            outlet.push(ModelEvent::Notice("still waiting for the command in apiKeyHelper".to_owned()));
            key.await
        }
    };
    fetched.map_err(|CredentialError { message, hint }| {
        *Failure::new(ErrorKind::Authentication, Again::Never, message).hint(hint).error
    })
}

pub(super) fn unsendable(name: &HeaderName) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, Again::Never, format!("the value of the header {name} cannot be sent"))
}
