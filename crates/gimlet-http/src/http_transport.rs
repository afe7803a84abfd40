//! The HTTP client: created at the first request, kept for the whole run.
//!
//! Certificates are read only when a server is reached by TLS. Proxies come from the values that the binary read, never
//! from the process environment, and redirects are never followed.

use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use gimlet_proto::{Env, Secret};
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{Client, NoProxy, Proxy, Response};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::OnceCell;

use crate::checked_resolver::CheckedResolver;

/// Hosts that are never reached through a proxy: a proxy would look for them on its own machine.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// Settings for proxies and certificates.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    pub http_proxy: Option<Secret>,
    pub https_proxy: Option<Secret>,
    pub all_proxy: Option<Secret>,
    pub no_proxy: Option<String>,
    /// File that replaces the platform's certificates (`SSL_CERT_FILE`).
    pub cert_file: Option<PathBuf>,
    /// File of additional certificates (`NODE_EXTRA_CA_CERTS`).
    pub extra_ca_file: Option<PathBuf>,
    /// Client certificate for servers that request one (`CLAUDE_CODE_CLIENT_CERT`).
    pub client_cert_file: Option<PathBuf>,
    /// Private key of the client certificate (`CLAUDE_CODE_CLIENT_KEY`).
    pub client_key_file: Option<PathBuf>,
}

impl NetworkConfig {
    /// Reads the conventional variables.
    pub fn from_env(env: &Env) -> Self {
        // Both spellings are in use; the lower-case one is the older.
        let either = |name: &str| env.exact(name).or_else(|| env.exact(&name.to_ascii_lowercase()));
        Self {
            http_proxy: either("HTTP_PROXY").map(Secret::new),
            https_proxy: either("HTTPS_PROXY").map(Secret::new),
            all_proxy: either("ALL_PROXY").map(Secret::new),
            no_proxy: either("NO_PROXY").map(ToOwned::to_owned),
            cert_file: env.exact("SSL_CERT_FILE").map(PathBuf::from),
            extra_ca_file: env.exact("NODE_EXTRA_CA_CERTS").map(PathBuf::from),
            client_cert_file: env.get("CLAUDE_CODE_CLIENT_CERT").map(PathBuf::from),
            client_key_file: env.get("CLAUDE_CODE_CLIENT_KEY").map(PathBuf::from),
        }
    }

    /// Returns the proxy that requests to this URL go through, if any.
    pub fn proxy_for(&self, url: &str) -> Option<ProxyChoice> {
        let scheme_proxy = match url.split_once("://")?.0.to_ascii_lowercase().as_str() {
            "https" => (&self.https_proxy, "HTTPS_PROXY"),
            "http" => (&self.http_proxy, "HTTP_PROXY"),
            _ => return None,
        };
        let candidates = [scheme_proxy, (&self.all_proxy, "ALL_PROXY")];
        let (address, variable) = candidates.into_iter().find_map(|(proxy, name)| Some((proxy.as_ref()?, name)))?;
        let matcher = Matcher::builder().all(address.expose().to_owned()).no(self.exempt_hosts()).build();
        let intercept = matcher.intercept(&url.parse().ok()?)?;
        Some(ProxyChoice { variable, address: intercept.uri().authority()?.to_string() })
    }

    /// Returns the hosts that no proxy is used for, in the form of `NO_PROXY`.
    fn exempt_hosts(&self) -> String {
        match &self.no_proxy {
            Some(hosts) if !hosts.trim().is_empty() => format!("{hosts},{LOOPBACK}"),
            Some(_) | None => LOOPBACK.to_owned(),
        }
    }

    fn proxy_uses_tls(&self) -> bool {
        [&self.http_proxy, &self.https_proxy, &self.all_proxy]
            .into_iter()
            .flatten()
            .any(|proxy| proxy.expose().to_ascii_lowercase().starts_with("https:"))
    }
}

/// Proxy that a request goes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyChoice {
    /// Variable that names it.
    pub variable: &'static str,
    /// Its host and port, without credentials.
    pub address: String,
}

/// Reason why no client can be created. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpSetupError {
    /// A certificate or key file cannot be used.
    #[error("{message}")]
    Certificates { message: String },
    /// The client itself or a proxy cannot be set up.
    #[error("{message}")]
    Client { message: String },
}

/// Client that is created at its first use and kept for the whole run.
pub struct HttpTransport {
    network: NetworkConfig,
    needs_tls: bool,
    connect_timeout: Duration,
    /// Check of the addresses that names resolve to; `None` permits all.
    permitted: Option<fn(IpAddr) -> bool>,
    client: OnceCell<Client>,
    /// True once a response has arrived over this client, so that the next request may reuse a connection that the
    /// server just closed.
    warm: AtomicBool,
    /// Bodies read up to their last event but not to their last byte: dropping them too early would close the
    /// connection that the next request wants.
    ending: Mutex<Vec<Response>>,
}

impl HttpTransport {
    /// Creates a transport without opening anything. Certificates are read only if servers are reached by TLS, or a
    /// proxy is.
    pub fn new(network: NetworkConfig, base_is_https: bool, connect_timeout: Duration) -> Self {
        let needs_tls = base_is_https || network.proxy_uses_tls();
        Self {
            network,
            needs_tls,
            connect_timeout,
            permitted: None,
            client: OnceCell::new(),
            warm: AtomicBool::new(false),
            ending: Mutex::new(Vec::new()),
        }
    }

    /// Connects only to addresses that the check permits. Behind a proxy, which resolves names itself, this has no
    /// effect, and addresses in URLs are never resolved: callers check both.
    #[must_use]
    pub fn with_permitted_addresses(mut self, permits: fn(IpAddr) -> bool) -> Self {
        self.permitted = Some(permits);
        self
    }

    /// Returns the proxy that requests to this URL go through, if any.
    pub fn proxy_for(&self, url: &str) -> Option<ProxyChoice> {
        self.network.proxy_for(url)
    }

    /// Returns the client; the first call creates it.
    pub async fn client(&self) -> Result<&Client, HttpSetupError> {
        self.client.get_or_try_init(|| self.build_client()).await
    }

    /// Returns true if a response has arrived: the next request may reuse a connection that the server just closed.
    pub fn is_warm(&self) -> bool {
        self.warm.load(Ordering::Relaxed)
    }

    /// Records that a response has arrived.
    pub fn mark_warm(&self) {
        self.warm.store(true, Ordering::Relaxed);
    }

    async fn build_client(&self) -> Result<Client, HttpSetupError> {
        let (roots, identity) = if self.needs_tls {
            let network = self.network.clone();
            let load = move || Ok((load_roots(&network)?, load_identity(&network)?));
            let loaded = tokio::task::spawn_blocking(load).await;
            loaded.map_err(|_| setup_failure("cannot read the certificates: the reader stopped"))??
        } else {
            (RootCertStore::empty(), None)
        };
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls_config(roots, identity)?)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(60))
            .tcp_keepalive_interval(Duration::from_secs(60))
            .tcp_keepalive_retries(5);
        let proxies = self.proxies()?;
        if let Some(permits) = self.permitted
            && proxies.is_empty()
        {
            builder = builder.dns_resolver(Arc::new(CheckedResolver(permits)));
        }
        for proxy in proxies {
            builder = builder.proxy(proxy);
        }
        builder
            .build()
            .map_err(|error| setup_failure(format!("cannot set up the HTTP client: {}", error.without_url())))
    }

    fn proxies(&self) -> Result<Vec<Proxy>, HttpSetupError> {
        let network = &self.network;
        let exempt = NoProxy::from_string(&network.exempt_hosts());
        type ProxyConstructor = fn(&str) -> reqwest::Result<Proxy>;
        let kinds: [(&Option<Secret>, &str, ProxyConstructor); 3] = [
            (&network.https_proxy, "HTTPS_PROXY", |url| Proxy::https(url)),
            (&network.http_proxy, "HTTP_PROXY", |url| Proxy::http(url)),
            (&network.all_proxy, "ALL_PROXY", |url| Proxy::all(url)),
        ];
        let mut proxies = Vec::new();
        for (url, name, make) in kinds {
            let Some(url) = url else { continue };
            // The URL may contain a password, so it is not repeated here.
            let proxy =
                make(url.expose()).map_err(|_| setup_failure(format!("{name} is not an address of a proxy")))?;
            proxies.push(proxy.no_proxy(exempt.clone()));
        }
        Ok(proxies)
    }

    /// Keeps a body whose last event was read, so that its connection can return to the pool.
    pub async fn keep_until_ended(&self, mut body: Response) {
        if !has_ended(&mut body).await {
            self.ending.lock().unwrap_or_else(PoisonError::into_inner).push(body);
        }
    }

    /// Discards the kept bodies. Called before a request: a body that has not ended by now never will, and must not
    /// accumulate.
    pub async fn discard_unended_bodies(&self) {
        let bodies = std::mem::take(&mut *self.ending.lock().unwrap_or_else(PoisonError::into_inner));
        for mut body in bodies {
            has_ended(&mut body).await;
        }
    }
}

/// Returns true if the body has ended, without waiting for it. Polling also makes the connection read on.
async fn has_ended(body: &mut Response) -> bool {
    // At most a little whitespace follows the last event; a server that keeps sending loses its connection instead.
    for _ in 0..8 {
        let mut next = std::pin::pin!(body.chunk());
        match std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
            Poll::Ready(Ok(Some(_))) => {}
            Poll::Ready(Ok(None) | Err(_)) => return true,
            Poll::Pending => return false,
        }
    }
    true
}

fn setup_failure(message: impl Into<String>) -> HttpSetupError {
    HttpSetupError::Client { message: message.into() }
}

/// Client certificate chain and its key.
type ClientIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn tls_config(roots: RootCertStore, identity: Option<ClientIdentity>) -> Result<rustls::ClientConfig, HttpSetupError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| setup_failure(format!("cannot set up TLS: {error}")))?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificates, key)) => builder.with_client_auth_cert(certificates, key).map_err(|error| {
            tls_failure(format!("CLAUDE_CODE_CLIENT_CERT and CLAUDE_CODE_CLIENT_KEY do not fit together: {error}"))
        })?,
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn load_roots(network: &NetworkConfig) -> Result<RootCertStore, HttpSetupError> {
    let mut roots = RootCertStore::empty();
    match &network.cert_file {
        Some(file) => add_file(&mut roots, file, "SSL_CERT_FILE")?,
        None => {
            // A platform store often has a few invalid entries; the others still count.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if let Some(file) = &network.extra_ca_file {
        add_file(&mut roots, file, "NODE_EXTRA_CA_CERTS")?;
    }
    Ok(roots)
}

/// Loads the client identity; an error if only one of certificate and key is set, because a server would refuse that.
fn load_identity(network: &NetworkConfig) -> Result<Option<ClientIdentity>, HttpSetupError> {
    let (certificate, key) = match (&network.client_cert_file, &network.client_key_file) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => {
            return Err(tls_failure("CLAUDE_CODE_CLIENT_CERT is set, and CLAUDE_CODE_CLIENT_KEY is not"));
        }
        (None, Some(_)) => {
            return Err(tls_failure("CLAUDE_CODE_CLIENT_KEY is set, and CLAUDE_CODE_CLIENT_CERT is not"));
        }
    };
    let unreadable = |error: &dyn std::fmt::Display| {
        let file = certificate.display();
        tls_failure(format!("cannot read the certificates in {file} (CLAUDE_CODE_CLIENT_CERT): {error}"))
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|error| unreadable(&error))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| unreadable(&error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| {
        let file = key.display();
        tls_failure(format!(
            "cannot read a private key in {file} (CLAUDE_CODE_CLIENT_KEY): {error}; it is a PEM file without a passphrase"
        ))
    })?;
    Ok(Some((chain, key)))
}

fn tls_failure(message: impl Into<String>) -> HttpSetupError {
    HttpSetupError::Certificates { message: message.into() }
}

fn add_file(roots: &mut RootCertStore, file: &std::path::Path, name: &str) -> Result<(), HttpSetupError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        tls_failure(format!("cannot read the certificates in {} ({name}): {error}", file.display()))
    };
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_of_a_url_is_known_and_loopback_has_none() {
        let network = NetworkConfig {
            https_proxy: Some(Secret::new("http://user:word@proxy.test:3128")),
            all_proxy: Some(Secret::new("socks5://any.test:1080")),
            no_proxy: Some("inner.test".to_owned()),
            ..NetworkConfig::default()
        };
        let choice = |variable, address: &str| Some(ProxyChoice { variable, address: address.to_owned() });
        assert_eq!(network.proxy_for("https://model.test/v1"), choice("HTTPS_PROXY", "proxy.test:3128"));
        assert_eq!(network.proxy_for("http://model.test/v1"), choice("ALL_PROXY", "any.test:1080"));
        for direct in ["https://inner.test", "http://127.0.0.1:8080/v1", "http://localhost:11434", "http://[::1]:9/"] {
            assert_eq!(network.proxy_for(direct), None, "{direct}");
        }
        assert_eq!(NetworkConfig::default().proxy_for("https://model.test"), None);
    }
}
