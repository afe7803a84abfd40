//! Processes of a sandbox: the executor that probes the machine, the choice of bubblewrap, and the network proxy.

use std::path::{Path, PathBuf};

use gimlet_exec::{BubblewrapChoice, CustodianProgram, Exec, ExecConfig, ProxyConfig, SandboxProxy, UpstreamProxies};
use gimlet_proto::{Env, NetworkAccess, SandboxSpec};

use crate::launch_error::LaunchError;

/// Returns an executor for probing this machine and for one command; a session has its own.
pub fn new_exec() -> Exec {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("gimlet"));
    let custodian = CustodianProgram::Reexec(own);
    Exec::new(ExecConfig { custodian, session_marker: "sandbox".to_owned(), runtime_dir: None })
}

/// Returns the problem with the backend that the environment selects, if there is one.
pub fn invalid_backend_choice(env: &Env) -> Option<String> {
    let odd = env.get("GIMLET_SANDBOX").filter(|choice| !["bwrap", "namespaces"].contains(choice))?;
    Some(format!("GIMLET_SANDBOX is '{odd}', and only bwrap and namespaces are known"))
}

/// Returns the use of bubblewrap that the environment selects.
pub fn bubblewrap_from_env(env: &Env) -> BubblewrapChoice {
    match env.get("GIMLET_SANDBOX") {
        Some("bwrap") => BubblewrapChoice::First,
        Some("namespaces") => BubblewrapChoice::Never,
        _ => BubblewrapChoice::IfNeeded,
    }
}

/// Starts the proxy to the hosts that a spec allows, if any. The folder must be accessible to the owner alone.
pub fn start_proxy(
    spec: &SandboxSpec,
    upstream: UpstreamProxies,
    folder: &Path,
) -> Result<Option<SandboxProxy>, LaunchError> {
    let NetworkAccess::Proxy { allow, deny } = &spec.network else { return Ok(None) };
    let (allow, deny) = (allow.clone(), deny.clone());
    let config = ProxyConfig { socket: folder.join("proxy"), allow, deny, upstream, ..ProxyConfig::default() };
    SandboxProxy::start(config).map(Some).map_err(|error| LaunchError::new(error.to_string()))
}
