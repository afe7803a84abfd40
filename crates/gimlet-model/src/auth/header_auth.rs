//! One secret in a header: a key or a token from the environment, or what the user's command prints.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{BoxFuture, CredentialError, CredentialSource, Env, ModelError, ModelErrorKind, ModelEvent, Secret};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::{AuthSecrets, RequestAuth, RequestHead, unsendable_header};
use crate::engine::EventSink;
use crate::failure::{RequestFailure, RetryAdvice};
use crate::providers::ProviderConfigError;

/// Time after which the user is notified that the helper may be waiting for input.
const HELPER_REMARK: Duration = Duration::from_secs(5);

/// Header that carries a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretHeader {
    /// `Authorization: Bearer …`.
    Bearer,
    /// The bare secret, in the header of this name.
    Plain(&'static str),
}

/// Variable that holds a secret.
#[derive(Debug)]
pub(crate) struct EnvSecret {
    pub(crate) variable: &'static str,
    pub(crate) header: SecretHeader,
    /// Name in `system/init`; a bearer token is not a key.
    pub(crate) key_source: &'static str,
}

/// Authentication by one secret in a header.
#[derive(Clone, Debug)]
pub(crate) struct HeaderAuth {
    source: SecretSource,
    headers: Vec<SecretHeader>,
    key_source: &'static str,
}

#[derive(Clone, Debug)]
enum SecretSource {
    Fixed(Secret),
    /// Fetched when needed.
    Helper(Arc<dyn CredentialSource>),
    /// No credential: every request fails before it is sent.
    Missing,
}

impl HeaderAuth {
    /// Reads the first of these variables that is set; `None` if none is.
    pub(crate) fn from_env(env: &Env, variables: &[EnvSecret]) -> Result<Option<Self>, ProviderConfigError> {
        let Some((variable, value)) =
            variables.iter().find_map(|variable| Some((variable, env.get(variable.variable)?)))
        else {
            return Ok(None);
        };
        let value = value.trim();
        if value.is_empty() || HeaderValue::from_str(value).is_err() {
            return Err(ProviderConfigError::IllegalCredential { name: variable.variable });
        }
        Ok(Some(Self {
            source: SecretSource::Fixed(Secret::new(value)),
            headers: vec![variable.header.clone()],
            key_source: variable.key_source,
        }))
    }

    /// Sends what the user's command prints. The header that its server reads is unknown, so it is sent in all of these.
    pub(crate) fn from_helper(helper: Arc<dyn CredentialSource>, headers: Vec<SecretHeader>) -> Self {
        Self { source: SecretSource::Helper(helper), headers, key_source: "apiKeyHelper" }
    }

    /// Fails every request, because there is no credential.
    pub(crate) fn missing() -> Self {
        Self { source: SecretSource::Missing, headers: Vec::new(), key_source: "none" }
    }
}

impl RequestAuth for HeaderAuth {
    fn secrets<'a>(&'a self, outlet: &'a EventSink) -> BoxFuture<'a, Result<AuthSecrets, ModelError>> {
        Box::pin(async move {
            match &self.source {
                SecretSource::Fixed(secret) => Ok(AuthSecrets::new(vec![secret.clone()])),
                SecretSource::Helper(helper) => fetch(helper.as_ref(), None, outlet).await,
                SecretSource::Missing => {
                    let message = ModelError::NOT_LOGGED_IN;
                    Err(*RequestFailure::new(ModelErrorKind::NotLoggedIn, RetryAdvice::Never, message).error)
                }
            }
        })
    }

    fn dress(&self, secrets: &AuthSecrets, head: &mut RequestHead, _body: &[u8]) -> Result<(), RequestFailure> {
        let Some(secret) = secrets.first() else { return Ok(()) };
        for header in &self.headers {
            let (name, value) = match header {
                SecretHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", secret.expose())),
                SecretHeader::Plain(name) => (HeaderName::from_static(name), secret.expose().to_owned()),
            };
            let mut value = HeaderValue::from_str(&value).map_err(|_| unsendable_header(&name))?;
            value.set_sensitive(true);
            head.headers.insert(name, value);
        }
        Ok(())
    }

    fn renew<'a>(
        &'a self,
        refused: &'a AuthSecrets,
        outlet: &'a EventSink,
    ) -> BoxFuture<'a, Option<Result<AuthSecrets, ModelError>>> {
        Box::pin(async move {
            match &self.source {
                SecretSource::Fixed(_) | SecretSource::Missing => None,
                SecretSource::Helper(helper) => Some(fetch(helper.as_ref(), refused.first(), outlet).await),
            }
        })
    }

    fn key_source(&self) -> &'static str {
        self.key_source
    }

    fn rejection_hint(&self) -> Option<&'static str> {
        match self.source {
            SecretSource::Helper(_) => Some("Check what the command in the setting apiKeyHelper prints"),
            SecretSource::Fixed(_) | SecretSource::Missing => None,
        }
    }
}

/// Fetches from a helper, and notifies the user when that takes long.
async fn fetch(
    helper: &dyn CredentialSource,
    refused: Option<&Secret>,
    outlet: &EventSink,
) -> Result<AuthSecrets, ModelError> {
    let mut key = helper.fetch_key(refused);
    let fetched = match tokio::time::timeout(HELPER_REMARK, &mut key).await {
        Ok(fetched) => fetched,
        Err(_) => {
            outlet.push(ModelEvent::Notice("still waiting for the command in apiKeyHelper".to_owned()));
            key.await
        }
    };
    match fetched {
        Ok(secret) => Ok(AuthSecrets::new(vec![secret])),
        Err(CredentialError { message, hint }) => {
            Err(*RequestFailure::new(ModelErrorKind::Authentication, RetryAdvice::Never, message).with_hint(hint).error)
        }
    }
}
