//! Credentials of requests: where the secrets come from, how a request carries them, and how refused ones are replaced.

mod header_auth;

use std::fmt;

use gimlet_proto::{BoxFuture, ModelError, ModelErrorKind, Secret};
use reqwest::header::{HeaderMap, HeaderName};

use crate::engine::EventSink;
use crate::failure::{RequestFailure, RetryAdvice};
pub(crate) use header_auth::{EnvSecret, HeaderAuth, SecretHeader};

/// Minimum length of a secret that is searched for in messages. A placeholder of a few letters is no secret, and would
/// match ordinary words.
const SHORTEST_REDACTED: usize = 8;

/// Method by which a provider authenticates requests.
pub(crate) trait RequestAuth: fmt::Debug + Send + Sync {
    /// Returns the secrets to send now, fetching them if necessary.
    fn secrets<'a>(&'a self, outlet: &'a EventSink) -> BoxFuture<'a, Result<AuthSecrets, ModelError>>;

    /// Adds the credential to the head of a request with this body. A signature may cover both.
    fn dress(&self, secrets: &AuthSecrets, head: &mut RequestHead, body: &[u8]) -> Result<(), RequestFailure>;

    /// Fetches new secrets in place of those that the server refused; `None` if there are no others.
    fn renew<'a>(
        &'a self,
        refused: &'a AuthSecrets,
        outlet: &'a EventSink,
    ) -> BoxFuture<'a, Option<Result<AuthSecrets, ModelError>>>;

    /// Returns true if a response of this status means that the secrets may have expired.
    fn renews_on(&self, status: u16) -> bool {
        status == 401
    }

    /// Returns the source of the key, as named in `system/init`.
    fn key_source(&self) -> &'static str;

    /// Returns the advice for a refused credential, where it is better than the provider's own.
    fn rejection_hint(&self) -> Option<&'static str> {
        None
    }
}

/// Head of a request, still without its credential. The method is always POST.
#[derive(Clone, Debug)]
pub(crate) struct RequestHead {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
}

/// Secrets of one request: a key, or the several values that a signature is made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthSecrets(Vec<Secret>);

impl AuthSecrets {
    pub(crate) fn new(secrets: Vec<Secret>) -> Self {
        Self(secrets)
    }

    /// Returns the first secret; most methods have no other.
    pub(crate) fn first(&self) -> Option<&Secret> {
        self.0.first()
    }

    /// Removes the secrets from a message, should a server have repeated them.
    pub(crate) fn redact(&self, message: &mut String) {
        for secret in self.0.iter().map(Secret::expose) {
            if secret.len() >= SHORTEST_REDACTED && message.contains(secret) {
                *message = message.replace(secret, "***");
            }
        }
    }
}

impl dyn RequestAuth {
    /// Returns the error for the user: without the secrets, and with advice about their source.
    pub(crate) fn redact_error(&self, secrets: &AuthSecrets, mut error: ModelError) -> ModelError {
        secrets.redact(&mut error.message);
        if error.kind == ModelErrorKind::Authentication
            && let Some(hint) = self.rejection_hint()
        {
            error.hint = Some(hint.to_owned());
        }
        error
    }
}

/// Returns the failure for a header whose value has characters that no header may have.
pub(crate) fn unsendable_header(name: &HeaderName) -> RequestFailure {
    RequestFailure::new(
        ModelErrorKind::InvalidRequest,
        RetryAdvice::Never,
        format!("the value of the header {name} cannot be sent"),
    )
}
