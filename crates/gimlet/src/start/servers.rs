//! The tool servers of a session.

use std::sync::Arc;

use gimlet_mcp::{McpServers, Timeouts, servers_in};
use gimlet_proto::{Env, Servers};

use super::Manner;
use crate::args::RunArgs;
use crate::report::Report;
use crate::surroundings::Surroundings;

/// Those of the session that was cleared, or those that flags and driver name; `None` when there can be none.
pub(super) fn servers(
    run: &RunArgs,
    around: &Surroundings,
    manner: &Manner,
    env: &Env,
) -> Result<Option<Arc<McpServers>>, Report> {
    if let Some(servers) = &manner.servers {
        return Ok(Some(servers.clone()));
    }
    let Some(driver) = &manner.driver else { return Ok(None) };
    let mut servers = Vec::new();
    for given in &run.mcp_config {
        let document = match given.trim() {
            inline if inline.starts_with('{') => given.clone(),
            path => std::fs::read_to_string(around.cwd.join(path))
                .map_err(|error| Report::new(format!("--mcp-config: {path} cannot be read: {error}")))?,
        };
        let found = servers_in(&document).map_err(|error| Report::new(format!("--mcp-config: {error}")))?;
        servers.extend(found);
    }
    let servers = McpServers::new(Some(driver.clone()), Timeouts::from_env(env), servers);
    servers.admit(&manner.driver_servers, &manner.driver_server_configs);
    Ok(Some(Arc::new(servers)))
}
