//! A provider as the environment sets it up: address, headers, credential. Nothing here is ever printed whole.

use std::sync::Arc;

use gimlet_proto::{CredentialSource, Env};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::{ProviderAdvice, ProviderRow};
use crate::auth::{HeaderAuth, RequestAuth};

/// Reason why no provider can be created.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderConfigError {
    #[error("no credential: set {}", .advice.credential_variables())]
    MissingCredential { advice: &'static ProviderAdvice },
    #[error("{name} is set, but gimlet does not use that kind of credential: set {instead}")]
    UnsupportedCredential { name: &'static str, instead: &'static str },
    #[error("the credential in {name} has characters that cannot be sent")]
    IllegalCredential { name: &'static str },
    #[error("{variable} is not an http or https address: {reason}")]
    BaseUrl { variable: &'static str, reason: String },
    #[error("line {line} of {variable} is not `Name: value`")]
    CustomHeader { variable: &'static str, line: usize },
    #[error("the value of the header {name} cannot be sent")]
    IllegalHeader { name: &'static str },
    #[error("CLAUDE_CODE_EXTRA_BODY is not an object of further members of a request: {reason}")]
    ExtraBody { reason: String },
    #[error("GIMLET_MODELS is not an object of models and their facts: {reason}")]
    Models { reason: String },
}

/// Headers of every request to a provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderHeaders {
    pub(crate) headers: HeaderMap,
    /// Opt-in features that the user requests of this provider.
    pub(crate) betas: Vec<String>,
}

/// A provider that can be reached.
#[derive(Clone, Debug)]
pub(crate) struct ProviderEndpoint {
    pub(crate) row: &'static ProviderRow,
    /// Address without the slash at its end.
    pub(crate) base_url: String,
    pub(crate) auth: Arc<dyn RequestAuth>,
    pub(crate) headers: HeaderMap,
    pub(crate) betas: Vec<String>,
    /// True for the vendor's own host: optional features that gateways may not know are used only there.
    pub(crate) is_vendor: bool,
}

impl ProviderEndpoint {
    /// Reads what the row names.
    pub(crate) fn open(
        row: &'static ProviderRow,
        env: &Env,
        helper: Option<Arc<dyn CredentialSource>>,
    ) -> Result<Self, ProviderConfigError> {
        Self::read(row, env, || {
            (row.auth)(env, helper)?.ok_or(ProviderConfigError::MissingCredential { advice: &row.advice })
        })
    }

    /// Reads it for a user without a credential: every request fails with a message about that.
    pub(crate) fn not_logged_in(row: &'static ProviderRow, env: &Env) -> Result<Self, ProviderConfigError> {
        Self::read(row, env, || Ok(Arc::new(HeaderAuth::missing())))
    }

    fn read(
        row: &'static ProviderRow,
        env: &Env,
        auth: impl FnOnce() -> Result<Arc<dyn RequestAuth>, ProviderConfigError>,
    ) -> Result<Self, ProviderConfigError> {
        let (variable, default) = row.address;
        let base = parse_base_url(variable, env.get(variable).unwrap_or(default))?;
        let ProviderHeaders { headers, betas } = (row.headers)(env)?;
        Ok(Self {
            row,
            base_url: base.as_str().trim_end_matches('/').to_owned(),
            auth: auth()?,
            headers,
            betas,
            is_vendor: (row.is_vendor_host)(host_of(&base)),
        })
    }

    /// Returns the address of requests to this model.
    pub(crate) fn url(&self, model: &str) -> String {
        (self.row.url)(&self.base_url, model)
    }

    /// Returns host and port if requests go to this machine itself.
    pub(crate) fn local_server(&self) -> Option<String> {
        let url = Url::parse(&self.base_url).ok()?;
        let host = url.host_str()?;
        is_loopback(host).then(|| format!("{host}:{}", url.port_or_known_default().unwrap_or_default()))
    }
}

/// Parses the user's own headers, one `Name: value` a line.
pub(crate) fn custom_headers(env: &Env, variable: &'static str) -> Result<HeaderMap, ProviderConfigError> {
    let mut headers = HeaderMap::new();
    let lines = env.get(variable).unwrap_or("").lines().enumerate();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let illegal = ProviderConfigError::CustomHeader { variable, line: at + 1 };
        let Some((name, value)) = line.split_once(':') else { return Err(illegal) };
        let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name.trim()), HeaderValue::from_str(value.trim())) else {
            return Err(illegal);
        };
        // Such a header is often a gateway's credential.
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

fn parse_base_url(variable: &'static str, text: &str) -> Result<Url, ProviderConfigError> {
    let wrong = |reason: String| ProviderConfigError::BaseUrl { variable, reason };
    let url = Url::parse(text.trim()).map_err(|error| wrong(error.to_string()))?;
    match (url.scheme(), url.has_host()) {
        ("http" | "https", true) => Ok(url),
        (scheme, _) => Err(wrong(format!("its scheme is {scheme}"))),
    }
}

fn host_of(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_matches(['[', ']'])
}

/// Returns true if a host is this machine itself, in any notation.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
