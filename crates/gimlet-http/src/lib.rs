//! The HTTP client for everything that gimlet requests: proxies, certificates, and connections that are kept.
//!
//! Nothing here knows what is requested. It reads no process environment and follows no redirect.

mod http_transport;
mod public_address;

pub use http_transport::{HttpSetupError, HttpTransport, NetworkConfig};
pub use public_address::is_public_address;
