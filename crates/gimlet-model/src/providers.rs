//! The table of providers. Each is one row of data in a file of its own: its name, the format that it speaks, how the
//! environment chooses it, where it is, how it authenticates, what it calls its models, and what to advise its users.

pub(crate) mod anthropic;
mod provider_advice;
mod provider_endpoint;

use std::fmt;
use std::sync::Arc;

use gimlet_proto::{CredentialSource, Env};

use crate::auth::RequestAuth;
use crate::catalogue::ProviderModels;
use crate::formats::WireFormat;
pub use provider_advice::ProviderAdvice;
pub use provider_endpoint::ProviderConfigError;
pub(crate) use provider_endpoint::{ProviderEndpoint, ProviderHeaders, custom_headers};

/// All providers. The first one that the environment chooses is used; if it chooses none, the first of the table.
pub(crate) static PROVIDERS: &[&ProviderRow] = &[&anthropic::ANTHROPIC];

/// The authentication that an environment sets up; `None` without a credential.
pub(crate) type FoundAuth = Result<Option<Arc<dyn RequestAuth>>, ProviderConfigError>;

/// One provider.
pub struct ProviderRow {
    /// Name in front of the slash in `provider/model`.
    pub(crate) name: &'static str,
    pub(crate) format: &'static dyn WireFormat,
    /// Returns true if the environment chooses this provider.
    pub(crate) is_chosen: fn(&Env) -> bool,
    /// Variable with the address, and the address without it.
    pub(crate) address: (&'static str, &'static str),
    /// Returns true if a host is the vendor's own: optional features that gateways may not know are used only there.
    pub(crate) is_vendor_host: fn(&str) -> bool,
    /// Returns the address of a request, by the base address and the model.
    pub(crate) url: fn(&str, &str) -> String,
    /// Reads the headers of every request besides those of the format.
    pub(crate) headers: fn(&Env) -> Result<ProviderHeaders, ProviderConfigError>,
    /// Finds the credential; `None` if there is none. The helper is the user's command that prints a key, if there is one.
    pub(crate) auth: fn(&Env, Option<Arc<dyn CredentialSource>>) -> FoundAuth,
    /// Returns a warning about variables that contradict each other.
    pub(crate) warning: fn(&Env) -> Option<String>,
    /// Variables that hold secrets.
    pub(crate) secrets: &'static [&'static str],
    /// Variable that names the model to start with.
    pub(crate) model_variable: &'static str,
    pub(crate) models: &'static ProviderModels,
    /// Maximum size of a body, in bytes.
    pub(crate) max_body: usize,
    /// Headers of a response that identify the request; the first one that is present counts.
    pub(crate) request_id_headers: &'static [&'static str],
    pub(crate) advice: ProviderAdvice,
}

impl ProviderRow {
    /// Returns the provider that the environment chooses.
    pub fn chosen_by(env: &Env) -> &'static ProviderRow {
        Self::chosen_from(PROVIDERS, env)
    }

    /// Returns the row of a table that the environment chooses.
    pub(crate) fn chosen_from(table: &'static [&'static ProviderRow], env: &Env) -> &'static ProviderRow {
        table.iter().find(|row| (row.is_chosen)(env)).unwrap_or(&table[0])
    }

    /// Returns the variable that names the model to start with.
    pub fn model_variable(&self) -> &'static str {
        self.model_variable
    }

    /// Returns the address of the server that the environment names, or the vendor's own.
    pub fn address_in<'a>(&self, env: &'a Env) -> &'a str {
        let (variable, vendor) = self.address;
        env.get(variable).unwrap_or(vendor).trim().trim_end_matches('/')
    }

    pub fn advice(&self) -> &ProviderAdvice {
        &self.advice
    }
}

impl fmt::Debug for ProviderRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Returns the variables that hold the secrets of any provider.
pub fn secret_variables() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().flat_map(|row| row.secrets.iter().copied())
}
