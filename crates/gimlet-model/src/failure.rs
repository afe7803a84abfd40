//! What went wrong with a request, and whether it is worth another try. Pure: statuses, bodies and errors in, a
//! verdict out. No message made here carries a credential.

use std::error::Error;
use std::io;
use std::time::Duration;

use gimlet_proto::{ErrorKind, ModelError};
use rustls::CertificateError;

use crate::catalogue;
use crate::cure::{self, Cure};
use crate::formats::anthropic::ErrorBody;

/// Whether to send the same bytes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Never,
    /// As long as the budget lasts.
    Budget,
    /// No more than this often, however large the budget is.
    AtMost(u32),
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) error: Box<ModelError>,
    pub(crate) again: Again,
    /// How long the server asks us to wait.
    pub(crate) wait: Option<Duration>,
    /// A change to the request that may make it acceptable.
    pub(crate) cure: Option<Cure>,
}

/// What an answer's headers say about trying again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Hints {
    pub(crate) wait: Option<Duration>,
    pub(crate) should_retry: Option<bool>,
    pub(crate) request_id: Option<String>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, again: Again, message: impl Into<String>) -> Self {
        let error = ModelError { kind, status: None, message: message.into(), hint: None, request_id: None };
        Self { error: Box::new(error), again, wait: None, cure: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }
}

/// Reads an answer that is not a success, or an error inside a stream with the status that it stands for.
pub(crate) fn from_answer(status: u16, body: &ErrorBody, hints: &Hints, model: &str) -> Failure {
    let (kind, again) = judge(status, body, hints.wait.is_some());
    let message = if body.message.is_empty() { reason(status).to_owned() } else { body.message.clone() };
    let error = ModelError {
        kind,
        status: Some(status),
        hint: advice(kind, status, model),
        message,
        request_id: hints.request_id.clone().or_else(|| body.request_id.clone()),
    };
    let cure = (status == 400).then(|| cure::recognise(body.code.as_deref(), &body.message)).flatten();
    Failure { error: Box::new(error), again: overridden(again, status, hints.should_retry), wait: hints.wait, cure }
}

/// The server's own word on retrying beats the table, but cannot make us repeat a refused request for long.
fn overridden(again: Again, status: u16, should_retry: Option<bool>) -> Again {
    match should_retry {
        None => again,
        Some(false) => Again::Never,
        Some(true) if matches!(status, 400 | 401 | 403 | 404 | 413) => Again::AtMost(1),
        Some(true) if again == Again::Never => Again::Budget,
        Some(true) => again,
    }
}

fn judge(status: u16, body: &ErrorBody, told_to_wait: bool) -> (ErrorKind, Again) {
    let text = body.message.to_ascii_lowercase();
    let code = body.code.as_deref().unwrap_or("");
    match status {
        // A status in the middle may be a gateway's; the type inside says what it really was.
        500..=599 if body.kind == "overloaded_error" => (ErrorKind::Overloaded, Again::Budget),
        300..=399 => (ErrorKind::Protocol, Again::Never),
        400 if is_prompt_too_long(&text) => (ErrorKind::PromptTooLong, Again::Never),
        400 if text.contains("usage limit") || text.contains("credit balance") => (ErrorKind::Billing, Again::Never),
        401 => (ErrorKind::Authentication, Again::Never),
        402 => (ErrorKind::Billing, Again::Never),
        403 => (ErrorKind::Permission, Again::Never),
        404 if text.contains("model") => (ErrorKind::ModelNotFound, Again::Never),
        404 => (ErrorKind::InvalidRequest, Again::Never),
        407 => (ErrorKind::Network, Again::Never),
        408 => (ErrorKind::Timeout, Again::Budget),
        409 => (ErrorKind::Server, Again::Budget),
        413 => (ErrorKind::RequestTooLarge, Again::Never),
        424 => (ErrorKind::Server, Again::AtMost(2)),
        429 if code == "enforced_spend_limit_reached" => (ErrorKind::Billing, Again::Never),
        429 if !told_to_wait && text.contains("usage limit") => (ErrorKind::Billing, Again::Never),
        429 => (ErrorKind::RateLimit, Again::Budget),
        400..=499 => (ErrorKind::InvalidRequest, Again::Never),
        504 => (ErrorKind::Timeout, Again::AtMost(2)),
        529 => (ErrorKind::Overloaded, Again::Budget),
        500..=599 => (ErrorKind::Server, Again::Budget),
        _ => (ErrorKind::Protocol, Again::Never),
    }
}

/// `text` is lower case.
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

fn advice(kind: ErrorKind, status: u16, model: &str) -> Option<String> {
    match (kind, status) {
        (ErrorKind::Authentication, _) => {
            Some("Check the key in ANTHROPIC_API_KEY or the token in ANTHROPIC_AUTH_TOKEN".to_owned())
        }
        (ErrorKind::ModelNotFound, _) => {
            let known: Vec<&str> = catalogue::suggestions(model).into_iter().filter(|id| *id != model).collect();
            Some(format!("Check --model and ANTHROPIC_MODEL; known names are {}", known.join(", ")))
        }
        (ErrorKind::InvalidRequest, 404) => {
            Some("Check ANTHROPIC_BASE_URL; it must not include /v1/messages".to_owned())
        }
        (ErrorKind::Overloaded, _) => Some("Try again later, or choose another model".to_owned()),
        (ErrorKind::Network, 407) => Some("Put the proxy's user and password into HTTPS_PROXY".to_owned()),
        _ => None,
    }
}

/// A word for a status whose body says nothing.
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

/// Reads a failure of the connection itself. The root of the chain of errors has the words that mean something.
pub(crate) fn from_transport(source: &(dyn Error + 'static), connecting: bool) -> Failure {
    let mut deepest = source.to_string();
    let mut next: Option<&(dyn Error + 'static)> = Some(source);
    while let Some(error) = next {
        if let Some(tls) = tls_error(error) {
            return from_tls(tls, connecting);
        }
        deepest = error.to_string();
        next = error.source();
    }
    let lower = deepest.to_ascii_lowercase();
    if lower.contains("proxy auth") {
        return Failure::new(ErrorKind::Network, Again::Never, "the proxy demands authentication")
            .hint("Put the proxy's user and password into HTTPS_PROXY");
    }
    if connecting && is_lookup(source) {
        // A name that does not exist will not soon; a network that just comes up gets a moment.
        return Failure::new(ErrorKind::Network, Again::AtMost(2), format!("cannot find the server: {deepest}"))
            .hint("Check the name of the host in ANTHROPIC_BASE_URL, and the network");
    }
    if connecting {
        return Failure::new(ErrorKind::Network, Again::Budget, format!("cannot connect to the server: {deepest}"))
            .hint("Check that it runs, and the address in ANTHROPIC_BASE_URL");
    }
    Failure::new(ErrorKind::Network, Again::Budget, format!("the connection failed: {deepest}"))
}

/// Whether it was the name of the host that could not be turned into an address. The connector says so only in words.
fn is_lookup(source: &(dyn Error + 'static)) -> bool {
    let mut chain = std::iter::successors(Some(source), |error: &&(dyn Error + 'static)| (*error).source());
    chain.any(|error| error.to_string() == "dns error")
}

/// A connection that this very machine refused: nothing listens there, and nothing will soon. One that is just being
/// started gets a moment.
pub(crate) fn nothing_listens(source: &(dyn Error + 'static), server: &str) -> Option<Failure> {
    let mut chain = std::iter::successors(Some(source), |error: &&(dyn Error + 'static)| (*error).source());
    let refused = |error: &(dyn Error + 'static)| {
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    chain.find(|error| refused(*error))?;
    let message = format!("nothing listens at {server} on this machine");
    let failure = Failure::new(ErrorKind::Network, Again::AtMost(2), message);
    Some(failure.hint("Start the model server there, or set ANTHROPIC_BASE_URL to the address where it runs"))
}

/// An `io::Error` hides the error that it wraps from `source()`, so it is looked into by hand.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(tls);
    }
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    inner.downcast_ref::<rustls::Error>().or_else(|| tls_error(inner))
}

fn from_tls(error: &rustls::Error, connecting: bool) -> Failure {
    let failure = |again| Failure::new(ErrorKind::Tls, again, format!("the secure connection failed: {error}"));
    match error {
        rustls::Error::InvalidCertificate(why) => failure(Again::Never).hint(match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "The server's certificate has run out, or this machine's clock is wrong"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "The certificate is for another host: check ANTHROPIC_BASE_URL"
            }
            _ => {
                "If the server or a proxy uses a private certificate authority, name its PEM file in NODE_EXTRA_CA_CERTS"
            }
        }),
        _ if connecting => failure(Again::Never).hint("Check that the address speaks TLS and not plain HTTP"),
        // It worked before, so this is a broken connection like any other.
        _ => failure(Again::Budget),
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
