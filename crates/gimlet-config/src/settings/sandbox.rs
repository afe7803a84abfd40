//! The `sandbox` block.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What shell commands are closed in by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxSettings {
    /// Whether shell commands are closed in.
    pub enabled: Option<bool>,
    /// Refuse to start when there can be no sandbox.
    pub fail_if_unavailable: Option<bool>,
    /// Whether commands in the sandbox need no question.
    pub auto_allow_bash_if_sandboxed: Option<bool>,
    /// Whether commands that run without a question because they only read are confined, so that they can read nothing
    /// secret, change nothing and reach no network. On unless this says false.
    pub confine_read_only_commands: Option<bool>,
    /// Commands that run outside, written as the inside of a Bash rule.
    pub excluded_commands: Option<Vec<String>>,
    /// Whether a call may ask to run outside.
    pub allow_unsandboxed_commands: Option<bool>,
    pub filesystem: SandboxFilesystemSettings,
    pub network: SandboxNetworkSettings,
    pub credentials: SandboxCredentialSettings,
    /// Denials that are expected and not shown.
    pub ignore_violations: Option<BTreeMap<String, Vec<String>>>,
    /// Allow a weaker sandbox inside containers.
    pub enable_weaker_nested_sandbox: Option<bool>,
    /// Allow what TLS on macOS needs.
    pub enable_weaker_network_isolation: Option<bool>,
    /// Allow Apple Events.
    pub allow_apple_events: Option<bool>,
    /// The `rg` that is used inside.
    pub ripgrep: Option<SandboxProgram>,
    /// Where bubblewrap is.
    pub bwrap_path: Option<String>,
    /// Where socat is.
    pub socat_path: Option<String>,
}

/// Which paths a command in the sandbox can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxFilesystemSettings {
    /// Paths that may be written.
    pub allow_write: Option<Vec<String>>,
    /// Paths that may not be written.
    pub deny_write: Option<Vec<String>>,
    /// Paths that may not be read.
    pub deny_read: Option<Vec<String>>,
    /// Paths that may be read inside those that may not.
    pub allow_read: Option<Vec<String>>,
    /// Whether only managed `allowRead` counts.
    pub allow_managed_read_paths_only: Option<bool>,
    /// Leave files open and close the network only.
    pub disabled: Option<bool>,
}

/// Which hosts and sockets a command in the sandbox can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxNetworkSettings {
    /// Hosts that may be reached.
    pub allowed_domains: Option<Vec<String>>,
    /// Hosts that may not be reached; wins.
    pub denied_domains: Option<Vec<String>>,
    /// Refuse other hosts instead of asking.
    pub strict_allowlist: Option<bool>,
    /// Whether only managed hosts count.
    pub allow_managed_domains_only: Option<bool>,
    /// Sockets that may be used, on macOS.
    pub allow_unix_sockets: Option<Vec<String>>,
    /// Allow all Unix sockets.
    pub allow_all_unix_sockets: Option<bool>,
    /// Let commands listen on this machine and reach what listens there, each among its own processes.
    pub allow_local_binding: Option<bool>,
    /// System services that may be used, on macOS.
    pub allow_mach_lookup: Option<Vec<String>>,
    /// An HTTP proxy of your own on this machine.
    pub http_proxy_port: Option<u16>,
    /// A SOCKS proxy of your own on this machine.
    pub socks_proxy_port: Option<u16>,
    /// A certificate by which the proxy looks into TLS.
    pub tls_terminate: Option<TlsTermination>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsTermination {
    pub ca_cert_path: Option<String>,
    pub ca_key_path: Option<String>,
}

/// Which secrets a command in the sandbox does not see.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxCredentialSettings {
    /// Files with secrets.
    pub files: Option<Vec<SandboxCredential>>,
    /// Variables with secrets.
    pub env_vars: Option<Vec<SandboxCredential>>,
    /// Allow credentials in requests without TLS.
    pub allow_plaintext_inject: Option<bool>,
    /// AWS keys that belong together.
    pub aws_pairs: Option<Vec<Value>>,
    /// How AWS requests are signed anew.
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
pub enum NoMatchAction {
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
    pub on_extract_no_match: Option<NoMatchAction>,
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
