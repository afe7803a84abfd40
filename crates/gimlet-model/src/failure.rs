//! Classification of failed requests and the decision to retry. Pure: statuses, bodies and errors in, a verdict out. No
//! message created here contains a credential.

use std::error::Error;
use std::io;
use std::time::Duration;

use gimlet_http::{HttpSetupError, ProxyChoice};
use gimlet_proto::{ModelError, ModelErrorKind, RateLimit};
use rustls::CertificateError;

use crate::downgrade::Downgrade;
use crate::error_body::ErrorBody;
use crate::providers::{ProviderAdvice, ProviderRow};

/// Advice on sending the identical request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryAdvice {
    Never,
    /// Retry as long as the budget lasts.
    Budget,
    /// Retry at most this often, however large the budget is.
    AtMost(u32),
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestFailure {
    pub(crate) error: Box<ModelError>,
    pub(crate) retry_advice: RetryAdvice,
    /// Delay requested by the server.
    pub(crate) wait: Option<Duration>,
    /// Change to the request that may make it acceptable.
    pub(crate) downgrade: Option<Downgrade>,
}

/// Response headers that concern retries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RetryHints {
    pub(crate) wait: Option<Duration>,
    pub(crate) should_retry: Option<bool>,
    pub(crate) request_id: Option<String>,
}

impl RequestFailure {
    pub(crate) fn new(kind: ModelErrorKind, retry_advice: RetryAdvice, message: impl Into<String>) -> Self {
        let error = ModelError { kind, status: None, message: message.into(), hint: None, request_id: None };
        Self { error: Box::new(error), retry_advice, wait: None, downgrade: None }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }
}

impl From<HttpSetupError> for RequestFailure {
    fn from(error: HttpSetupError) -> Self {
        let kind = match error {
            HttpSetupError::Certificates { .. } => ModelErrorKind::Tls,
            HttpSetupError::Client { .. } => ModelErrorKind::Network,
        };
        Self::new(kind, RetryAdvice::Never, error.to_string())
    }
}

/// Classifies an unsuccessful response, or an error inside a stream with its implied status.
pub(crate) fn from_response(
    row: &ProviderRow,
    status: u16,
    body: &ErrorBody,
    hints: &RetryHints,
    model: &str,
) -> RequestFailure {
    let (kind, again) = row.format.classify(status, body, hints.wait.is_some());
    let message = if body.message.is_empty() { reason(status).to_owned() } else { body.message.clone() };
    let error = ModelError {
        kind,
        status: Some(status),
        hint: advice(row, kind, status, model),
        message,
        request_id: hints.request_id.clone().or_else(|| body.request_id.clone()),
    };
    RequestFailure {
        error: Box::new(error),
        retry_advice: apply_should_retry(again, status, hints.should_retry),
        wait: hints.wait,
        downgrade: if status == 400 { row.format.find_downgrade(body) } else { None },
    }
}

/// Applies the server's retry header, which takes precedence over the table but cannot cause many retries of a refused
/// request.
fn apply_should_retry(again: RetryAdvice, status: u16, should_retry: Option<bool>) -> RetryAdvice {
    match should_retry {
        None => again,
        Some(false) => RetryAdvice::Never,
        Some(true) if matches!(status, 400 | 401 | 403 | 404 | 413) => RetryAdvice::AtMost(1),
        Some(true) if again == RetryAdvice::Never => RetryAdvice::Budget,
        Some(true) => again,
    }
}

/// Classifies a status by itself and by the words and codes that servers agree on.
pub(crate) fn classify_status(status: u16, body: &ErrorBody, told_to_wait: bool) -> (ModelErrorKind, RetryAdvice) {
    let text = body.message.to_ascii_lowercase();
    let code = body.code.as_deref().unwrap_or("");
    match status {
        // The status may come from a gateway; the error type in the body is the actual cause.
        500..=599 if body.kind == "overloaded_error" => (ModelErrorKind::Overloaded, RetryAdvice::Budget),
        300..=399 => (ModelErrorKind::Protocol, RetryAdvice::Never),
        400 if is_prompt_too_long(&text) => (ModelErrorKind::PromptTooLong, RetryAdvice::Never),
        400 if text.contains("usage limit") || text.contains("credit balance") => {
            (ModelErrorKind::Billing, RetryAdvice::Never)
        }
        401 => (ModelErrorKind::Authentication, RetryAdvice::Never),
        402 => (ModelErrorKind::Billing, RetryAdvice::Never),
        403 => (ModelErrorKind::Permission, RetryAdvice::Never),
        404 if text.contains("model") => (ModelErrorKind::ModelNotFound, RetryAdvice::Never),
        404 => (ModelErrorKind::InvalidRequest, RetryAdvice::Never),
        407 => (ModelErrorKind::Network, RetryAdvice::Never),
        408 => (ModelErrorKind::Timeout, RetryAdvice::Budget),
        409 => (ModelErrorKind::Server, RetryAdvice::Budget),
        413 => (ModelErrorKind::RequestTooLarge, RetryAdvice::Never),
        424 => (ModelErrorKind::Server, RetryAdvice::AtMost(2)),
        429 if code == "enforced_spend_limit_reached" => (ModelErrorKind::Billing, RetryAdvice::Never),
        429 if !told_to_wait && text.contains("usage limit") => (ModelErrorKind::Billing, RetryAdvice::Never),
        429 => (ModelErrorKind::RateLimit, RetryAdvice::Budget),
        400..=499 => (ModelErrorKind::InvalidRequest, RetryAdvice::Never),
        504 => (ModelErrorKind::Timeout, RetryAdvice::AtMost(2)),
        529 => (ModelErrorKind::Overloaded, RetryAdvice::Budget),
        500..=599 => (ModelErrorKind::Server, RetryAdvice::Budget),
        _ => (ModelErrorKind::Protocol, RetryAdvice::Never),
    }
}

/// Returns true if the message reports a prompt that is too long. `text` is lower case.
fn is_prompt_too_long(text: &str) -> bool {
    [
        "prompt is too long",
        "input is too long",
        "prompt_too_long",
        "context_length_exceeded",
        "exceed_context_size_error",
    ]
    .iter()
    .any(|sign| text.contains(sign))
        || text.contains("maximum context length")
}

fn advice(row: &ProviderRow, kind: ModelErrorKind, status: u16, model: &str) -> Option<String> {
    match (kind, status) {
        (ModelErrorKind::Authentication, _) => Some(row.advice.check_credential()),
        (ModelErrorKind::ModelNotFound, _) => {
            let known: Vec<&str> = row.models.suggestions(model).into_iter().filter(|id| *id != model).collect();
            Some(row.advice.check_model(&known))
        }
        (ModelErrorKind::InvalidRequest, 404) => Some(row.advice.check_path()),
        (ModelErrorKind::Overloaded, _) => Some("Try again later, or choose another model".to_owned()),
        (ModelErrorKind::Network, 407) => Some("Put the proxy's user and password into HTTPS_PROXY".to_owned()),
        _ => None,
    }
}

/// Describes the exhausted limits.
pub(crate) fn describe_exhausted(limits: &[RateLimit]) -> Option<String> {
    let used: Vec<String> = limits.iter().filter(|limit| limit.remaining == Some(0)).map(ToString::to_string).collect();
    (!used.is_empty()).then(|| used.join("; "))
}

/// Returns a description for a status without a usable body.
fn reason(status: u16) -> &'static str {
    match status {
        400 => "the server refused the request without saying why",
        401 => "the server does not accept the credential",
        403 => "the server does not allow this",
        404 => "the server does not know this address",
        407 => "the proxy demands authentication",
        413 => "the request is too large for the server",
        429 => "too many requests",
        502 => "bad gateway",
        503 => "the service is unavailable",
        504 => "the server took too long",
        529 => "the server is overloaded",
        500..=599 => "the server failed",
        _ => "the server gave an answer without a message",
    }
}

/// Classifies a failure of the connection itself. The root of the error chain has the meaningful message.
pub(crate) fn from_transport(
    source: &(dyn Error + 'static),
    connecting: bool,
    proxy: Option<&ProxyChoice>,
    words: &ProviderAdvice,
) -> RequestFailure {
    let mut deepest = source.to_string();
    let mut next: Option<&(dyn Error + 'static)> = Some(source);
    while let Some(error) = next {
        if let Some(tls) = tls_error(error) {
            return from_tls(tls, connecting, words);
        }
        deepest = error.to_string();
        next = error.source();
    }
    let lower = deepest.to_ascii_lowercase();
    if lower.contains("proxy auth") {
        return RequestFailure::new(ModelErrorKind::Network, RetryAdvice::Never, "the proxy demands authentication")
            .with_hint("Put the proxy's user and password into HTTPS_PROXY");
    }
    if let Some(proxy) = proxy
        && connecting
    {
        return proxy_failure(&deepest, proxy);
    }
    if connecting && is_dns_failure(source) {
        // A name that does not exist will not soon; the retries are for a network that is just coming up.
        return RequestFailure::new(
            ModelErrorKind::Network,
            RetryAdvice::AtMost(2),
            format!("cannot find the server: {deepest}"),
        )
        .with_hint(words.check_host());
    }
    if connecting {
        return RequestFailure::new(
            ModelErrorKind::Network,
            RetryAdvice::Budget,
            format!("cannot connect to the server: {deepest}"),
        )
        .with_hint(words.check_address());
    }
    RequestFailure::new(ModelErrorKind::Network, RetryAdvice::Budget, format!("the connection failed: {deepest}"))
}

/// Returns the failure for a proxy that cannot be reached, or that cannot reach the server.
fn proxy_failure(problem: &str, proxy: &ProxyChoice) -> RequestFailure {
    let ProxyChoice { variable, address } = proxy;
    let message = format!("cannot connect through the proxy {address} of {variable}: {problem}");
    // A proxy that is not there will not soon be: it is a wrong setting or another network.
    RequestFailure::new(ModelErrorKind::Network, RetryAdvice::AtMost(2), message).with_hint(format!(
        "Check that the proxy runs, change or unset {variable}, or name the server in NO_PROXY to reach it directly"
    ))
}

/// Returns true if the host name could not be resolved. The connector reports that only in its message.
fn is_dns_failure(source: &(dyn Error + 'static)) -> bool {
    let mut chain = std::iter::successors(Some(source), |error: &&(dyn Error + 'static)| (*error).source());
    chain.any(|error| error.to_string() == "dns error")
}

/// Returns the failure for a connection that this machine itself refused: no server listens there. A few retries are
/// for a server that is just starting.
pub(crate) fn connection_refused_locally(
    source: &(dyn Error + 'static),
    server: &str,
    words: &ProviderAdvice,
) -> Option<RequestFailure> {
    let mut chain = std::iter::successors(Some(source), |error: &&(dyn Error + 'static)| (*error).source());
    let refused = |error: &(dyn Error + 'static)| {
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    chain.find(|error| refused(*error))?;
    let message = format!("nothing listens at {server} on this machine");
    let failure = RequestFailure::new(ModelErrorKind::Network, RetryAdvice::AtMost(2), message);
    Some(failure.with_hint(words.start_local_server()))
}

/// Finds the TLS error in a chain. An `io::Error` hides the error that it wraps from `source()`, so it is unwrapped by
/// hand.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(tls);
    }
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    inner.downcast_ref::<rustls::Error>().or_else(|| tls_error(inner))
}

fn from_tls(error: &rustls::Error, connecting: bool, words: &ProviderAdvice) -> RequestFailure {
    let failure =
        |again| RequestFailure::new(ModelErrorKind::Tls, again, format!("the secure connection failed: {error}"));
    match error {
        rustls::Error::InvalidCertificate(why) => failure(RetryAdvice::Never).with_hint(match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "The server's certificate has run out, or this machine's clock is wrong".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                words.check_certificate_host()
            }
            _ => {
                "If the server or a proxy uses a private certificate authority, name its PEM file in NODE_EXTRA_CA_CERTS"
                    .to_owned()
            }
        }),
        _ if connecting => failure(RetryAdvice::Never).with_hint("Check that the address speaks TLS and not plain HTTP"),
        // It worked before, so this is treated as a broken connection.
        _ => failure(RetryAdvice::Budget),
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
