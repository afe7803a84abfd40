//! A provider that requests go to: its endpoint, its connections, and what its server has refused so far.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gimlet_http::HttpTransport;

use crate::provider_config::{ModelTimeouts, ProviderConfig};
use crate::providers::{ProviderEndpoint, ProviderRow};
use crate::server_quirks::ServerQuirks;

/// A provider in use.
pub(super) struct ConnectedProvider {
    pub(super) endpoint: ProviderEndpoint,
    pub(super) timeouts: ModelTimeouts,
    pub(super) transport: HttpTransport,
    quirks: Mutex<ServerQuirks>,
}

impl ConnectedProvider {
    /// Creates the provider. Opens no connection.
    pub(super) fn new(endpoint: ProviderEndpoint, config: &ProviderConfig) -> Self {
        let timeouts = config.timeouts.at(&endpoint);
        let is_https = endpoint.base_url.starts_with("https:");
        let transport = HttpTransport::new(config.network.clone(), is_https, timeouts.connect);
        Self { endpoint, timeouts, transport, quirks: Mutex::default() }
    }

    pub(super) fn row(&self) -> &'static ProviderRow {
        self.endpoint.row
    }

    pub(super) fn lock_quirks(&self) -> MutexGuard<'_, ServerQuirks> {
        // Learned quirks are plain data, consistent at any moment.
        self.quirks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
