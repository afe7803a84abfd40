//! One connection to a server, and its tools as external tools of the session.

// The protocol's next version has another way to follow resources and leaves roots out; today's servers use these.
#![allow(deprecated)]

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gimlet_core::tool::{ExternalTool, ExternalToolSpec, ResultCap, ToolRef};
use gimlet_proto::{BoxFuture, ServerIdentity, ServerTool};
use rmcp::model::{
    CallToolRequestParams, ClientRequest, GetPromptRequestParams, PaginatedRequestParams, Prompt,
    ReadResourceRequestParams, Resource, ResourceTemplate, SubscribeRequest, SubscribeRequestParams, Tool,
};
use rmcp::service::{ClientInitializeError, PeerRequestOptions, RunningService, ServiceError};
use rmcp::transport::Transport;
use rmcp::{RoleClient, serve_client};
use serde_json::{Map, Value};

use crate::input_schema::InputSchema;
use crate::server_call::ServerCall;
use crate::server_client::ServerClient;
use crate::server_config::ServerSource;
use crate::server_signals::ServerSignals;
use crate::server_text::{MAX_TOLD, sanitize_description, sanitize_label};
use crate::tool_listing::{ToolListing, list_tools};
use crate::tool_names::{AssignedToolName, ToolNameTable};
use crate::tool_policies::{ToolPolicies, ToolPolicy};

/// Maximum to which a tool may raise its own result limit.
const MAX_RAISED_RESULT: u64 = 500_000;
/// Maximum number of prompts and of resources of a server, and of pages in which they are listed.
const MOST_LISTED: usize = 1_000;
const MOST_PAGES: usize = 20;

/// Listing of the resources of a server, and of the templates of their addresses.
pub(crate) type ResourceListing = BoxFuture<'static, Result<(Vec<Resource>, Vec<ResourceTemplate>), String>>;

/// An open connection.
pub(crate) struct ServerConnection {
    client: RunningService<RoleClient, ServerClient>,
    signals: Arc<ServerSignals>,
    source: ServerSource,
    tools: Mutex<Arc<[ListedTool]>>,
    prompts: Mutex<Arc<[Prompt]>>,
    /// Pending warnings about the last tool list.
    warnings: Mutex<Vec<String>>,
}

/// Tool as listed by its server.
pub(crate) struct ListedTool {
    pub(crate) tool: Arc<Tool>,
    /// Input schema, or the reason why the tool cannot be offered.
    pub(crate) input_schema: Result<Arc<InputSchema>, &'static str>,
}

/// Limits for every call of a server's tools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    pub(crate) call: Duration,
    /// Time without an answer or progress after which a call is given up; `None` for no limit.
    pub(crate) idle: Option<Duration>,
    pub(crate) result_chars: usize,
}

/// Reason why a server could not be connected.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("it did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("it needs authentication{}", .0.as_ref().map(|why| format!(" ({why})")).unwrap_or_default())]
    NeedsAuthentication(Option<String>),
    #[error("{0}")]
    Failed(String),
}

impl ServerConnection {
    /// Initialises a server over a transport, and lists its tools and prompts.
    pub(crate) async fn initialize<T: Transport<RoleClient> + 'static>(
        client: ServerClient,
        transport: T,
        signals: Arc<ServerSignals>,
        source: ServerSource,
    ) -> Result<Self, ConnectError> {
        let greeted = serve_client(client, transport).await;
        let client = greeted.map_err(|error| initialize_error(error, &signals))?;
        client.service().note_greeting();
        let connection = Self {
            client,
            signals,
            source,
            tools: Mutex::new(Arc::default()),
            prompts: Mutex::default(),
            warnings: Mutex::default(),
        };
        let (tools, prompts) = tokio::join!(connection.list_tools(), connection.list_prompts());
        let ToolListing { tools, mut warnings } = tools.map_err(|why| connection.describe_failure(why))?;
        warnings.extend(prompts.as_ref().err().map(|why| format!("does not list its prompts: {why}")));
        *lock(&connection.tools) = to_listed_tools(tools);
        *lock(&connection.prompts) = prompts.unwrap_or_default().into();
        *lock(&connection.warnings) = warnings;
        Ok(connection)
    }

    /// Returns the error for a connection that failed: the end of the program says more than what it led to.
    fn describe_failure(&self, why: String) -> ConnectError {
        ConnectError::Failed(self.signals.end_reason().unwrap_or(why))
    }

    async fn list_tools(&self) -> Result<ToolListing, String> {
        // Servers inside programs often leave their abilities out.
        if self.source != ServerSource::Driver && !self.has_ability("tools") {
            return Ok(ToolListing { tools: Vec::new(), warnings: Vec::new() });
        }
        list_tools(self.client.peer(), &self.signals).await
    }

    async fn list_prompts(&self) -> Result<Vec<Prompt>, String> {
        if self.source == ServerSource::Driver || !self.has_ability("prompts") {
            return Ok(Vec::new());
        }
        let mut prompts = Vec::new();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.client.peer().list_prompts(Some(params)).await.map_err(clean_error)?;
            prompts.extend(page.prompts);
            cursor = page.next_cursor;
            if cursor.is_none() || prompts.len() >= MOST_LISTED {
                break;
            }
        }
        prompts.truncate(MOST_LISTED);
        Ok(prompts)
    }

    /// Returns true if the server has said that it has this.
    pub(crate) fn has_ability(&self, name: &str) -> bool {
        let info = self.client.peer().peer_info();
        let abilities = info.and_then(|info| serde_json::to_value(&info.capabilities).ok()).unwrap_or_default();
        abilities.get(name).is_some_and(Value::is_object)
    }

    /// Lists the prompts again; the previous list stays if no new one arrives.
    pub(crate) async fn refresh_prompts(&self, patience: Duration) {
        if let Ok(Ok(prompts)) = tokio::time::timeout(patience, self.list_prompts()).await {
            *lock(&self.prompts) = prompts.into();
        }
    }

    /// Returns the most recently listed prompts.
    pub(crate) fn prompts(&self) -> Arc<[Prompt]> {
        lock(&self.prompts).clone()
    }

    /// Returns the messages of a prompt.
    pub(crate) fn get_prompt(
        &self,
        name: String,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'static, Result<rmcp::model::GetPromptResult, String>> {
        let peer = self.client.peer().clone();
        Box::pin(async move {
            let params = GetPromptRequestParams::new(name).with_arguments(arguments);
            peer.get_prompt(params).await.map_err(clean_error)
        })
    }

    /// Lists the resources, and the templates of addresses.
    pub(crate) fn list_resources(&self) -> ResourceListing {
        let peer = self.client.peer().clone();
        let has_any = self.has_ability("resources");
        Box::pin(async move {
            let (mut resources, mut templates) = (Vec::new(), Vec::new());
            if !has_any {
                return Ok((resources, templates));
            }
            let mut cursor = None;
            for _ in 0..MOST_PAGES {
                let params = PaginatedRequestParams::default().with_cursor(cursor);
                let page = peer.list_resources(Some(params)).await.map_err(clean_error)?;
                resources.extend(page.resources);
                cursor = page.next_cursor;
                if cursor.is_none() || resources.len() >= MOST_LISTED {
                    break;
                }
            }
            resources.truncate(MOST_LISTED);
            // Servers without templates often do not know the request.
            if let Ok(page) = peer.list_resource_templates(None).await {
                templates.extend(page.resource_templates.into_iter().take(MOST_LISTED));
            }
            Ok((resources, templates))
        })
    }

    pub(crate) fn read_resource_parts(
        &self,
        uri: String,
    ) -> BoxFuture<'static, Result<Vec<rmcp::model::ResourceContents>, String>> {
        let peer = self.client.peer().clone();
        let subscribing = self.subscribe(&uri);
        Box::pin(async move {
            subscribing.await;
            let read = peer.read_resource(ReadResourceRequestParams::new(uri)).await;
            read.map(|result| result.contents).map_err(clean_error)
        })
    }

    /// Asks the server to report changes of a resource that is read now. Its answer is not awaited.
    pub(crate) fn subscribe(&self, uri: &str) -> BoxFuture<'static, ()> {
        self.signals.clear_resource_update(uri);
        let reports_changes = self.client.peer().peer_info().is_some_and(|info| {
            info.capabilities.resources.as_ref().and_then(|resources| resources.subscribe) == Some(true)
        });
        if self.source == ServerSource::Driver || !reports_changes || !self.signals.add_subscription(uri) {
            return Box::pin(std::future::ready(()));
        }
        let (peer, params) = (self.client.peer().clone(), SubscribeRequestParams::new(uri));
        Box::pin(async move {
            let request = ClientRequest::SubscribeRequest(SubscribeRequest::new(params));
            drop(peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await);
        })
    }

    /// Tells the server that the session works in other folders now.
    pub(crate) fn notify_roots(&self) -> BoxFuture<'static, ()> {
        let peer = self.client.peer().clone();
        Box::pin(async move { drop(peer.notify_roots_list_changed().await) })
    }

    /// Ends the connection.
    pub(crate) fn close(&self) {
        self.client.cancellation_token().cancel();
    }
}

/// Converts a tool list. Of two tools with one name only the first can be called.
pub(crate) fn to_listed_tools(tools: Vec<Tool>) -> Arc<[ListedTool]> {
    let mut seen = HashSet::new();
    let known = |tool: Tool| {
        let form = match seen.insert(tool.name.clone()) {
            true => InputSchema::parse(&tool.input_schema).map(Arc::new),
            false => Err("the server lists it more than once, and the first counts"),
        };
        ListedTool { input_schema: form, tool: Arc::new(tool) }
    };
    tools.into_iter().map(known).collect()
}

/// Returns the error message without the names of the layers that it passed through.
pub(crate) fn service_error_message(error: ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.into_owned(),
        ServiceError::TransportSend(error) => transport_error_message(&*error.error),
        other => other.to_string(),
    }
}

/// Returns a transport's message without the name of its layer.
pub(crate) fn transport_error_message(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let text = error.to_string();
    text.strip_prefix("Client error: ").unwrap_or(&text).to_owned()
}

fn clean_error(error: ServiceError) -> String {
    sanitize_description(&service_error_message(error))
}

/// Returns the reason for which a server could not be initialised.
fn initialize_error(error: ClientInitializeError, signals: &ServerSignals) -> ConnectError {
    let message = sanitize_description(&initialize_error_message(error));
    if signals.is_authentication_needed() {
        return ConnectError::NeedsAuthentication(Some(message));
    }
    // What happened to the program says more than the closed pipe that it led to.
    ConnectError::Failed(signals.end_reason().unwrap_or(message))
}

fn initialize_error_message(error: ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => transport_error_message(&*error.error),
        ClientInitializeError::JsonRpcError(error) => error.message.into_owned(),
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            "its answer to the greeting is none".to_owned()
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks no version of the protocol that gimlet knows".to_owned()
        }
        other => other.to_string(),
    }
}

impl ServerConnection {
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed() || self.signals.is_closed()
    }

    pub(crate) fn signals(&self) -> &Arc<ServerSignals> {
        &self.signals
    }

    /// Returns the server's own name and version.
    pub(crate) fn server_info(&self) -> Option<(String, String)> {
        let info = self.client.peer().peer_info()?;
        let value = serde_json::to_value(&*info).ok()?;
        let text = |name: &str| value["serverInfo"][name].as_str().map(str::to_owned);
        Some((text("name")?, text("version")?))
    }

    /// Returns the server's instructions for using it.
    pub(crate) fn instructions(&self) -> Option<String> {
        let info = self.client.peer().peer_info()?;
        let said = sanitize_description(info.instructions.as_deref()?);
        Some(said).filter(|said| !said.trim().is_empty())
    }

    /// Returns the most recently listed tools.
    pub(crate) fn listed_tools(&self) -> Arc<[ListedTool]> {
        lock(&self.tools).clone()
    }

    /// Lists the tools again. The previous list stays if no new one arrives.
    pub(crate) async fn refresh_tools(&self, patience: Duration) -> Result<(), String> {
        let asked = tokio::time::timeout(patience, self.list_tools()).await;
        let late = |_| ConnectError::TimedOut(patience).to_string();
        let ToolListing { tools, warnings: trouble } = asked.map_err(late)??;
        *lock(&self.tools) = to_listed_tools(tools);
        *lock(&self.warnings) = trouble;
        Ok(())
    }

    /// Returns the warnings about the last list that were not shown yet, and clears them.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.warnings))
    }

    /// Returns the server's own names of its tools.
    pub(crate) fn tool_names(&self) -> Vec<String> {
        self.listed_tools().iter().map(|known| known.tool.name.to_string()).collect()
    }

    /// Calls a tool and returns the server's unconverted result.
    pub(crate) fn call_tool(
        &self,
        tool: String,
        input: Map<String, Value>,
    ) -> BoxFuture<'static, Result<Value, String>> {
        let peer = self.client.peer().clone();
        Box::pin(async move {
            let params = CallToolRequestParams::new(tool).with_arguments(input);
            to_raw_answer(peer.call_tool(params).await)
        })
    }

    pub(crate) fn read_resource(&self, uri: String) -> BoxFuture<'static, Result<Value, String>> {
        let peer = self.client.peer().clone();
        let subscribing = self.subscribe(&uri);
        Box::pin(async move {
            subscribing.await;
            to_raw_answer(peer.read_resource(ReadResourceRequestParams::new(uri)).await)
        })
    }

    pub(crate) fn tool_views(&self) -> Vec<ServerTool> {
        let view = |tool: &Tool| {
            let hints = tool.annotations.as_ref();
            ServerTool {
                name: tool.name.to_string(),
                description: tool.description.as_ref().map(ToString::to_string),
                read_only: hints.and_then(|hints| hints.read_only_hint),
                destructive: hints.and_then(|hints| hints.destructive_hint),
                open_world: hints.and_then(|hints| hints.open_world_hint),
            }
        };
        self.listed_tools().iter().map(|known| view(&known.tool)).collect()
    }

    /// Returns the tools that the session offers, each with its size in a request in bytes. Left out are tools with an
    /// invalid schema, without a name of their own, or denied by the configuration.
    pub(crate) fn offered_tools(
        &self,
        server: &str,
        names: &ToolNameTable,
        policies: &ToolPolicies,
        limits: CallLimits,
    ) -> Vec<(ToolRef, usize)> {
        let guest = |known: &ListedTool| {
            let called = names.get(server, &known.tool.name)?;
            let guest =
                self.offered_tool(server, known, called, policies.policy_for(server, &known.tool.name), limits)?;
            let said = known.tool.description.as_ref().map_or(0, |said| said.len().min(MAX_TOLD));
            let size = called.name.len() + said + known.input_schema.as_ref().map_or(0, |form| form.size);
            Some((guest, size))
        };
        self.listed_tools().iter().filter_map(guest).collect()
    }

    fn offered_tool(
        &self,
        server: &str,
        known: &ListedTool,
        called: &AssignedToolName,
        policy: ToolPolicy,
        limits: CallLimits,
    ) -> Option<ToolRef> {
        if policy == ToolPolicy::Deny {
            return None;
        }
        let ListedTool { tool, input_schema: form } = known;
        let form = form.clone().ok()?;
        let said = tool.description.as_deref().unwrap_or("");
        let description = match &form.note {
            Some(note) => sanitize_description(&format!("{note} {said}")),
            None => sanitize_description(said),
        };
        let meta = |key: &str| tool.meta.as_ref().and_then(|meta| serde_json::to_value(meta).ok()?.get(key).cloned());
        let raised = meta("anthropic/maxResultSizeChars").and_then(|value| value.as_u64());
        let cap = raised.map_or(limits.result_chars, |chars| {
            usize::try_from(chars.min(MAX_RAISED_RESULT)).unwrap_or(limits.result_chars)
        });
        let guest = ExternalToolSpec {
            name: called.name.clone(),
            also_named: called.rule_names.clone().into(),
            server: Some(ServerIdentity { name: server.to_owned(), source: self.source.as_str() }),
            description,
            schema: form.provider_schema.clone(),
            says_read_only: tool.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true),
            requires_user_interaction: policy == ToolPolicy::Ask
                || meta("anthropic/requiresUserInteraction") == Some(Value::Bool(true)),
            own: false,
            main_only: false,
            max_result_chars: ResultCap::Chars(cap),
            label: format!("{server}: {}", sanitize_label(tool.title.as_deref().unwrap_or(&tool.name))),
        };
        let call = ServerCall {
            peer: self.client.peer().clone(),
            signals: self.signals.clone(),
            server: server.into(),
            tool: tool.name.to_string(),
            input_schema: form,
            limits: CallLimits { result_chars: cap, ..limits },
        };
        Some(ToolRef::External(Arc::new(ExternalTool::new(guest, Arc::new(call)))))
    }
}

/// Converts a server's result to JSON, unchanged.
fn to_raw_answer(answer: Result<impl serde::Serialize, ServiceError>) -> Result<Value, String> {
    let answer = answer.map_err(service_error_message)?;
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
