//! The `sandbox` block.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What shell commands are closed in by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Sandbox {
    pub enabled: Option<bool>,
    /// Refuse to start when there can be no sandbox.
    pub fail_if_unavailable: Option<bool>,
    /// Whether commands in the sandbox need no question.
    pub auto_allow_bash_if_sandboxed: Option<bool>,
    /// Commands that run outside, written as the inside of a Bash rule.
    pub excluded_commands: Option<Vec<String>>,
    /// Whether a call may ask to run outside.
    pub allow_unsandboxed_commands: Option<bool>,
    pub filesystem: SandboxFilesystem,
    pub network: SandboxNetwork,
    pub credentials: SandboxCredentials,
    /// Denials that are expected and not shown.
    pub ignore_violations: Option<BTreeMap<String, Vec<String>>>,
    pub enable_weaker_nested_sandbox: Option<bool>,
    pub enable_weaker_network_isolation: Option<bool>,
    pub allow_apple_events: Option<bool>,
    pub ripgrep: Option<SandboxProgram>,
    pub bwrap_path: Option<String>,
    pub socat_path: Option<String>,
}

/// Which paths a command in the sandbox can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxFilesystem {
    pub allow_write: Option<Vec<String>>,
    pub deny_write: Option<Vec<String>>,
    pub deny_read: Option<Vec<String>>,
    pub allow_read: Option<Vec<String>>,
    pub allow_managed_read_paths_only: Option<bool>,
    pub disabled: Option<bool>,
}

/// Which hosts and sockets a command in the sandbox can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxNetwork {
    pub allowed_domains: Option<Vec<String>>,
    pub denied_domains: Option<Vec<String>>,
    pub strict_allowlist: Option<bool>,
    pub allow_managed_domains_only: Option<bool>,
    pub allow_unix_sockets: Option<Vec<String>>,
    pub allow_all_unix_sockets: Option<bool>,
    pub allow_local_binding: Option<bool>,
    pub allow_mach_lookup: Option<Vec<String>>,
    pub http_proxy_port: Option<u16>,
    pub socks_proxy_port: Option<u16>,
    pub tls_terminate: Option<TlsTerminate>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsTerminate {
    pub ca_cert_path: Option<String>,
    pub ca_key_path: Option<String>,
}

/// Which secrets a command in the sandbox does not see.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxCredentials {
    pub files: Option<Vec<SandboxCredential>>,
    pub env_vars: Option<Vec<SandboxCredential>>,
    pub allow_plaintext_inject: Option<bool>,
    pub aws_pairs: Option<Vec<Value>>,
    pub sigv4: Option<Value>,
}

/// Hide it, or show a placeholder in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CredentialMode {
    Deny,
    Mask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnNoMatch {
    Warn,
    Deny,
    Error,
}

/// One secret: a file by its `path`, a variable by its `name`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxCredential {
    pub path: Option<String>,
    pub name: Option<String>,
    pub mode: CredentialMode,
    pub extract: Option<Value>,
    pub on_extract_no_match: Option<OnNoMatch>,
    pub decode: Option<String>,
    pub mask_claims: Option<Value>,
    pub mask_duplicates: Option<bool>,
    pub inject_hosts: Option<Vec<String>>,
}

/// A program and what comes before its own arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxProgram {
    pub command: String,
    pub args: Option<Vec<String>>,
}
