//! Starts and reaches servers: processes under custody, environments, headers.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_exec::{
    DirectoryReporter, Exec, HelperCommand, InheritedEnv, SpawnRequest, StdinMode, StreamMode, service_environment,
};
use gimlet_http::{HttpTransport, NetworkConfig};
use gimlet_proto::Env;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::http_endpoint::HttpEndpoint;
use crate::server_config::{RemoteServer, ServerConfig, ServerSource, StdioServer};
use crate::server_signals::ServerSignals;
use crate::stdio_transport::StdioTransport;

/// Time limit for connecting to a remote server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for the first byte of an answer, unless the server's own limit is longer.
const FIRST_BYTE: Duration = Duration::from_secs(60);
/// Limits of a command that prints headers.
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);
const HELPER_MAX_BYTES: usize = 64 << 10;

/// Means of a session to start servers and to reach them.
#[derive(Clone)]
pub struct ServerLauncher {
    exec: Exec,
    env: Env,
    session_id: String,
    /// Folder in which the session was started; programs run there.
    cwd: PathBuf,
    /// Folders that the session works in, the first one included.
    roots: Vec<PathBuf>,
    transport: Arc<HttpTransport>,
}

impl ServerLauncher {
    pub fn new(exec: Exec, env: Env, session_id: String, cwd: PathBuf, more_roots: Vec<PathBuf>) -> Self {
        let transport = HttpTransport::new(NetworkConfig::from_env(&env), true, CONNECT_TIMEOUT);
        let mut roots = vec![cwd.clone()];
        roots.extend(more_roots.into_iter().filter(|root| *root != cwd));
        Self { exec, env, session_id, cwd, roots, transport: Arc::new(transport) }
    }

    pub(crate) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Starts the program of a server.
    pub(crate) async fn start_program(
        &self,
        server: &StdioServer,
        source: ServerSource,
        signals: Arc<ServerSignals>,
    ) -> Result<StdioTransport, String> {
        let spawn = SpawnRequest {
            program: server.command.clone().into(),
            args: server.args.iter().map(OsString::from).collect(),
            cwd: self.cwd.clone(),
            env: self.program_env(server, source),
            stdin: StdinMode::Pipe,
            streams: StreamMode::Split,
            report: DirectoryReporter::Disabled,
            confinement: None,
        };
        let started = StdioTransport::start(&self.exec, spawn, signals).await;
        started.map_err(|error| match std::error::Error::source(&error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        })
    }

    fn program_env(&self, server: &StdioServer, source: ServerSource) -> Vec<(OsString, OsString)> {
        let inherited = match source.is_foreign() {
            _ if self.env.flag("CLAUDE_CODE_MCP_ALLOWLIST_ENV") => InheritedEnv::Baseline,
            true => InheritedEnv::WithoutCredentials,
            false => InheritedEnv::All,
        };
        let mut env = service_environment(&self.env, inherited);
        let own = [
            ("CLAUDE_PROJECT_DIR", self.cwd.clone().into_os_string()),
            ("CLAUDE_CODE_SESSION_ID", OsString::from(&self.session_id)),
        ];
        let own = own.into_iter().map(|(name, value)| (OsString::from(name), value));
        let given = server.env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        for (name, value) in own.chain(given) {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        env
    }

    /// Returns the endpoint of a remote server with its headers.
    pub(crate) async fn endpoint(
        &self,
        name: &str,
        server: &RemoteServer,
        config: &ServerConfig,
        signals: Arc<ServerSignals>,
    ) -> Result<HttpEndpoint, String> {
        let mut headers = HeaderMap::new();
        for (header, value) in &server.headers {
            add_header(&mut headers, header, value)?;
        }
        if let Some(command) = &server.headers_helper {
            for (header, value) in self.run_headers_helper(name, command, server, config.source).await? {
                let value = value.as_str().ok_or_else(|| format!("headersHelper: the value of {header} is no text"))?;
                add_header(&mut headers, &header, value)?;
            }
        }
        let own_limit = config.timeout.unwrap_or_default();
        let given = self.env.integer("MCP_TOOL_TIMEOUT").map(Duration::from_millis).unwrap_or_default();
        let first_byte = FIRST_BYTE.max(own_limit).max(given);
        Ok(HttpEndpoint { transport: self.transport.clone(), headers, first_byte, signals })
    }

    async fn run_headers_helper(
        &self,
        name: &str,
        command: &str,
        server: &RemoteServer,
        source: ServerSource,
    ) -> Result<Map<String, Value>, String> {
        let mut env = self
            .env
            .clone()
            .with("CLAUDE_CODE_MCP_SERVER_NAME", name)
            .with("CLAUDE_CODE_MCP_SERVER_URL", server.url.as_str());
        if source.is_foreign() {
            let names: Vec<String> = env.vars().filter_map(|(name, _)| name.to_str().map(str::to_owned)).collect();
            let secret: Vec<&str> =
                names.iter().map(String::as_str).filter(|name| gimlet_exec::is_credential_name(name)).collect();
            env = env.without_vars(&secret);
        }
        let helper =
            HelperCommand { command, cwd: &self.cwd, env: &env, timeout: HELPER_TIMEOUT, max_bytes: HELPER_MAX_BYTES };
        let printed = helper.run(&self.exec).await.map_err(|error| format!("headersHelper: {error}"))?;
        serde_json::from_slice(&printed)
            .map_err(|_| "headersHelper: it did not print a JSON object of headers".to_owned())
    }
}

fn add_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let parsed =
        HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| format!("'{name}' is no name of a header"))?;
    let mut value = HeaderValue::from_str(value.trim())
        .map_err(|_| format!("the header '{name}' has characters that cannot be sent"))?;
    value.set_sensitive(true);
    headers.insert(parsed, value);
    Ok(())
}
