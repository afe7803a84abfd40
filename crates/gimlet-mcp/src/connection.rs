//! One connection to a server, and its tools as external tools of the session.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gimlet_core::tool::{
    ErrorClass, ExternalTool, ExternalToolHandler, ExternalToolResult, ExternalToolSpec, ResultCap, ToolContext,
    ToolError, ToolRef,
};
use gimlet_proto::{BoxFuture, Driver, EventBody, Notice, NoticeLevel, ServerIdentity, ServerTool};
use rmcp::model::{CallToolRequestParams, ErrorCode, ReadResourceRequestParams, Tool};
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::{Peer, RoleClient, serve_client};
use serde_json::{Map, Value};

use crate::CHARS_PER_TOKEN;
use crate::call_result::convert_call_result;
use crate::driver_channel::{DriverChannel, ServerInbox};
use crate::elicitation::{ElicitationClient, SharedAsker};
use crate::input_schema::InputSchema;
use crate::server_text::{MAX_TOLD, sanitize_data, sanitize_description, sanitize_label};
use crate::tool_listing::{ToolListing, list_tools};
use crate::tool_names::{AssignedToolName, ToolNameTable};
use crate::tool_policies::{ToolPolicies, ToolPolicy};

/// Result length in characters above which a warning is shown: about 10,000 tokens.
const LONG_ANSWER: usize = 40_000;
/// Maximum to which a tool may raise its own result limit.
const MAX_RAISED_RESULT: u64 = 500_000;

/// Source name of servers inside the driving program.
pub(crate) const IN_DRIVER: &str = "sdk";

/// An open connection.
pub(crate) struct ServerConnection {
    client: RunningService<RoleClient, ElicitationClient>,
    inbox: Arc<ServerInbox>,
    tools: Mutex<Arc<[ListedTool]>>,
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
    pub(crate) result_chars: usize,
}

/// Reason why a server could not be connected.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("it did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("{0}")]
    Failed(String),
}

/// Connection that is about to be opened to a server inside the driving program.
pub(crate) struct PendingConnection {
    client: ElicitationClient,
    channel: DriverChannel,
    inbox: Arc<ServerInbox>,
}

impl PendingConnection {
    pub(crate) fn new(driver: Arc<dyn Driver>, asker: SharedAsker, name: &str) -> Self {
        let channel = DriverChannel::new(driver, name);
        Self { client: ElicitationClient::new(asker, name), inbox: channel.inbox().clone(), channel }
    }

    pub(crate) fn inbox(&self) -> &Arc<ServerInbox> {
        &self.inbox
    }

    /// Initialises the server and lists its tools.
    pub(crate) async fn initialize(self, patience: Duration) -> Result<ServerConnection, ConnectError> {
        let Self { client, channel, inbox } = self;
        let opening = async {
            let greeted = serve_client(client, channel).await;
            let client = greeted
                .map_err(|error| ConnectError::Failed(sanitize_description(&initialize_error_message(error))))?;
            inbox.mark_initialized();
            let ToolListing { tools, warnings: trouble } =
                list_tools(client.peer(), &inbox).await.map_err(ConnectError::Failed)?;
            Ok(ServerConnection {
                client,
                inbox,
                tools: Mutex::new(to_listed_tools(tools)),
                warnings: Mutex::new(trouble),
            })
        };
        match tokio::time::timeout(patience, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(ConnectError::TimedOut(patience)),
        }
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
        ServiceError::TransportSend(error) => error.error.to_string(),
        other => other.to_string(),
    }
}

fn initialize_error_message(error: ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
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
        self.client.is_closed()
    }

    pub(crate) fn inbox(&self) -> &Arc<ServerInbox> {
        &self.inbox
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
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lists the tools again. The previous list stays if no new one arrives.
    pub(crate) async fn refresh_tools(&self, patience: Duration) -> Result<(), String> {
        let asked = tokio::time::timeout(patience, list_tools(self.client.peer(), &self.inbox)).await;
        let late = |_| ConnectError::TimedOut(patience).to_string();
        let ToolListing { tools, warnings: trouble } = asked.map_err(late)??;
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = to_listed_tools(tools);
        *self.warnings.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        Ok(())
    }

    /// Returns the warnings about the last list that were not shown yet, and clears them.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
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
        Box::pin(async move { to_raw_answer(peer.read_resource(ReadResourceRequestParams::new(uri)).await) })
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
            // The only kind of server that this version connects to.
            server: Some(ServerIdentity { name: server.to_owned(), source: IN_DRIVER }),
            description,
            schema: form.provider_schema.clone(),
            says_read_only: tool.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true),
            requires_user_interaction: policy == ToolPolicy::Ask
                || meta("anthropic/requiresUserInteraction") == Some(Value::Bool(true)),
            own: false,
            max_result_chars: ResultCap::Chars(cap),
            label: format!("{server}: {}", sanitize_label(tool.title.as_deref().unwrap_or(&tool.name))),
        };
        let call = ServerCall {
            peer: self.client.peer().clone(),
            server: server.into(),
            tool: tool.name.to_string(),
            input_schema: form,
            limit: limits.call,
            max_result_chars: cap,
        };
        Some(ToolRef::External(Arc::new(ExternalTool::new(guest, Arc::new(call)))))
    }
}

/// Converts a server's result to JSON, unchanged.
fn to_raw_answer(answer: Result<impl serde::Serialize, ServiceError>) -> Result<Value, String> {
    let answer = answer.map_err(service_error_message)?;
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

struct ServerCall {
    peer: Peer<RoleClient>,
    server: Arc<str>,
    tool: String,
    input_schema: Arc<InputSchema>,
    limit: Duration,
    /// Maximum number of characters of a result that stay in the conversation.
    max_result_chars: usize,
}

impl ExternalToolHandler for ServerCall {
    fn check_input(&self, input: Map<String, Value>) -> Result<Map<String, Value>, String> {
        self.input_schema.validate_input(input)
    }

    fn call<'a>(
        &'a self,
        input: Map<String, Value>,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ExternalToolResult, ToolError>> {
        Box::pin(async move {
            let params = CallToolRequestParams::new(self.tool.clone()).with_arguments(input);
            // A caller that stops waiting drops the request, and the server is notified.
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => {
                    Err(ToolError::interrupted(format!("the call to the server '{}' was stopped", self.server)))
                }
                answer = tokio::time::timeout(self.limit, self.peer.call_tool(params)) => match answer {
                    Ok(Ok(answer)) => convert_call_result(answer).inspect(|result| self.warn_if_long(result, cx)),
                    Ok(Err(error)) => Err(self.call_error(error)),
                    Err(_) => {
                        let limit = self.limit.as_secs();
                        let text = format!("the server '{}' did not answer within {limit} s", self.server);
                        Err(ToolError::new(ErrorClass::TimedOut, text))
                    }
                },
            }
        })
    }
}

impl ServerCall {
    /// Warns about a long result and names the setting for the limit.
    fn warn_if_long(&self, result: &ExternalToolResult, cx: &ToolContext) {
        let chars = result.content.text_len();
        if chars <= LONG_ANSWER {
            return;
        }
        let fate = if chars > self.max_result_chars { "it goes to a file" } else { "it stays in the conversation" };
        let text = format!(
            "the answer of the tool '{}' of the server '{}' has about {} tokens: {fate} (MAX_MCP_OUTPUT_TOKENS sets the limit)",
            sanitize_label(&self.tool),
            self.server,
            chars / CHARS_PER_TOKEN
        );
        cx.services.publish(&cx.agent, EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
    }

    /// Converts a call error, keeping apart wrong parameters, a failing server and an unreachable one.
    fn call_error(&self, error: ServiceError) -> ToolError {
        let server = &self.server;
        ToolError::failed(match error {
            ServiceError::McpError(error) if error.code == ErrorCode::INVALID_PARAMS => {
                format!("the server '{server}' does not take these parameters: {}", sanitize_data(&error.message))
            }
            ServiceError::McpError(error) => {
                format!("the server '{server}' refused the call: {}", sanitize_data(&error.message))
            }
            ServiceError::TransportClosed => {
                format!("the server '{server}' is gone; its tools cannot be used until it is back")
            }
            ServiceError::TransportSend(error) => {
                format!(
                    "the server '{server}' could not be reached, or its answer did not arrive: {}",
                    sanitize_data(&error.error.to_string())
                )
            }
            other => format!("the server '{server}' gave no usable answer: {}", sanitize_data(&other.to_string())),
        })
    }
}
