//! The HTTP client for everything that gimlet requests: proxies, certificates, and connections that are kept.
//!
//! Nothing here knows what is requested. It reads no process environment and follows no redirect.

mod checked_resolver;
mod http_transport;

pub use http_transport::{HttpSetupError, HttpTransport, NetworkConfig, ProxyChoice};
