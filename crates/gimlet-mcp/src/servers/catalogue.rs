//! Resources and prompts of the connected servers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gimlet_core::commands::CommandRegistry;
use gimlet_core::tool::ToolRef;
use gimlet_proto::BoxFuture;
use rmcp::model::{GetPromptResult, ResourceContents};
use serde_json::{Map, Value};

use super::server_entry::{ServerEntry, find_connection};
use super::{McpServers, lock_ignoring_poison};
use crate::connection::ResourceListing;
use crate::mcp_command::McpSlashCommand;
use crate::prompt_commands::{PromptCommand, prompt_command_name};
use crate::resource_tools::resource_tools;

impl McpServers {
    /// Offers prompts of servers in this registry, now and when servers come and go.
    pub fn set_commands(&self, commands: CommandRegistry) {
        if let Some(servers) = self.self_ref.get() {
            commands.add(Arc::new(McpSlashCommand::new(servers.clone())));
        }
        *lock_ignoring_poison(&self.commands) = Some(commands);
        lock_ignoring_poison(&self.prompt_names).clear();
        self.sync_prompt_commands();
    }

    /// Adds commands for the prompts of connected servers, and removes those that are gone.
    pub(super) fn sync_prompt_commands(&self) {
        let Some(commands) = lock_ignoring_poison(&self.commands).clone() else { return };
        let Some(servers) = self.self_ref.get() else { return };
        let mut added = Vec::new();
        {
            let entries = self.lock_entries();
            for (entry, connection) in entries.iter().filter_map(|entry| Some((entry, entry.connection()?))) {
                for prompt in connection.prompts().iter() {
                    let name = prompt_command_name(&entry.name, &prompt.name);
                    // Of two prompts of one name the first has it.
                    if !added.contains(&name) {
                        commands.add(Arc::new(PromptCommand::new(servers.clone(), &entry.name, prompt)));
                        added.push(name);
                    }
                }
            }
        }
        let before = std::mem::replace(&mut *lock_ignoring_poison(&self.prompt_names), added.clone());
        before.iter().filter(|name| !added.contains(name)).for_each(|name| commands.remove(name));
    }

    /// Lists the prompts of servers again that reported changes.
    pub(super) async fn refresh_changed_prompts(&self) {
        let changed: Vec<_> = {
            let entries = self.lock_entries();
            let connected = entries.iter().filter_map(ServerEntry::connection);
            connected.filter(|connection| connection.signals().take_catalogue_changed()).cloned().collect()
        };
        if changed.is_empty() {
            return;
        }
        let limit = self.timeouts.connect.min(super::LIST_AGAIN);
        join_all(changed.iter().map(|connection| connection.refresh_prompts(limit))).await;
        self.sync_prompt_commands();
    }

    /// Returns the tools for resources, if a server has any and the caller did not leave them out.
    pub(super) fn resource_tools(&self) -> Vec<ToolRef> {
        let Some(servers) = self.self_ref.get() else { return Vec::new() };
        let has_any = self
            .lock_entries()
            .iter()
            .filter(|entry| !entry.is_in_driver())
            .filter_map(ServerEntry::connection)
            .any(|connection| connection.has_ability("resources"));
        if !has_any {
            return Vec::new();
        }
        let is_wanted =
            |name: &str| self.builtin_names.as_ref().is_none_or(|names| names.iter().any(|one| one == name));
        let tools = resource_tools(servers, self.timeouts.limits.result_chars);
        tools.into_iter().filter(|tool| is_wanted(tool.name())).collect()
    }

    /// Returns the servers to ask for resources: the named one, or all that have any.
    pub(crate) fn resource_sources(&self, wanted: Option<&str>) -> Result<Vec<(String, ResourceListing)>, String> {
        let entries = self.lock_entries();
        if let Some(name) = wanted {
            let connection = find_connection(&entries, name).map_err(|why| self.with_known_names(&entries, why))?;
            return Ok(vec![(name.to_owned(), connection.list_resources())]);
        }
        let connected = entries.iter().filter_map(|entry| Some((entry, entry.connection()?)));
        let with_any = connected.filter(|(_, connection)| connection.has_ability("resources"));
        Ok(with_any.map(|(entry, connection)| (entry.name.clone(), connection.list_resources())).collect())
    }

    /// Begins to read a resource.
    pub(crate) fn resource_reader(
        &self,
        server: &str,
        uri: String,
    ) -> Result<BoxFuture<'static, Result<Vec<ResourceContents>, String>>, String> {
        let entries = self.lock_entries();
        let connection = find_connection(&entries, server).map_err(|why| self.with_known_names(&entries, why))?;
        Ok(connection.read_resource_parts(uri))
    }

    /// Begins to get a prompt.
    pub(crate) fn prompt_request(
        &self,
        server: &str,
        prompt: String,
        arguments: Map<String, Value>,
    ) -> Result<BoxFuture<'static, Result<GetPromptResult, String>>, String> {
        let entries = self.lock_entries();
        let connection = find_connection(&entries, server)?;
        Ok(connection.get_prompt(prompt, arguments))
    }

    /// Returns the time limit for a request that is no call.
    pub(crate) fn request_limit(&self) -> Duration {
        self.timeouts.connect
    }

    fn with_known_names(&self, entries: &[ServerEntry], why: String) -> String {
        let connected = entries.iter().filter(|entry| entry.connection().is_some());
        let names: Vec<String> = connected.map(|entry| format!("'{}'", entry.name)).collect();
        match names.is_empty() {
            true => format!("{why}; no server is connected"),
            false => format!("{why}; there are {}", names.join(", ")),
        }
    }
}
