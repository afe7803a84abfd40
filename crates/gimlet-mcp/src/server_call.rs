//! Calls of a server's tool.

use std::sync::Arc;
use std::time::Duration;

use gimlet_core::tool::{ErrorClass, ExternalToolHandler, ExternalToolResult, ToolContext, ToolError};
use gimlet_proto::{BoxFuture, EventBody, Notice, NoticeLevel};
use rmcp::model::{CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode, ServerResult};
use rmcp::service::{PeerRequestOptions, ServiceError};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value};

use crate::CHARS_PER_TOKEN;
use crate::binary_files::BinaryFiles;
use crate::call_result::convert_call_result;
use crate::connection::{CallLimits, transport_error_message};
use crate::input_schema::InputSchema;
use crate::server_signals::ServerSignals;
use crate::server_text::{sanitize_data, sanitize_label};

/// Result length in characters above which a warning is shown: about 10,000 tokens.
const LONG_ANSWER: usize = 40_000;
/// Time for a server to take the withdrawal of a call.
const WITHDRAW_LIMIT: Duration = Duration::from_millis(500);

/// Handler of the calls of one tool.
pub(crate) struct ServerCall {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) signals: Arc<ServerSignals>,
    pub(crate) server: Arc<str>,
    pub(crate) tool: String,
    pub(crate) input_schema: Arc<InputSchema>,
    pub(crate) limits: CallLimits,
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
            let answer = self.request(input, cx).await?;
            let files = BinaryFiles::new(cx.services.results_dir(), &cx.call);
            convert_call_result(answer, &files).inspect(|result| self.warn_if_long(result, cx))
        })
    }
}

impl ServerCall {
    /// Sends the call and waits for its answer, passing on progress. A call that is given up is withdrawn.
    async fn request(&self, input: Map<String, Value>, cx: &ToolContext) -> Result<CallToolResult, ToolError> {
        let params = CallToolRequestParams::new(self.tool.clone()).with_arguments(input);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let mut handle = sent.map_err(|error| self.call_error(error))?;
        let mut progress = self.signals.watch_progress(handle.progress_token.clone());
        let closed = self.signals.closed();
        let deadline = tokio::time::sleep(self.limits.call);
        let idle = tokio::time::sleep(self.limits.idle.unwrap_or(self.limits.call));
        tokio::pin!(deadline, idle);
        let given_up = loop {
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => {
                    break ToolError::interrupted(format!("the call to the server '{}' was stopped", self.server));
                }
                answer = &mut handle.rx => {
                    let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
                    return match answer {
                        Ok(ServerResult::CallToolResult(answer)) => Ok(answer),
                        Ok(_) => Err(self.call_error(ServiceError::UnexpectedResponse)),
                        Err(error) => Err(self.call_error(error)),
                    };
                }
                line = progress.next_line() => {
                    if let Some(limit) = self.limits.idle {
                        idle.as_mut().reset(tokio::time::Instant::now() + limit);
                    }
                    cx.report_progress(line);
                }
                () = closed.cancelled() => return Err(self.call_error(ServiceError::TransportClosed)),
                () = &mut deadline => {
                    let limit = self.limits.call.as_secs();
                    let text = format!("the server '{}' did not answer within {limit} s", self.server);
                    break ToolError::new(ErrorClass::TimedOut, text);
                }
                () = &mut idle => {
                    let limit = self.limits.idle.unwrap_or_default().as_secs();
                    let text = format!(
                        "the server '{}' sent neither an answer nor progress for {limit} s \
                         (CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT sets the limit)",
                        self.server
                    );
                    break ToolError::new(ErrorClass::TimedOut, text);
                }
            }
        };
        // The server need not read it.
        let withdrawn = handle.cancel(Some("the caller does not wait any longer".to_owned()));
        drop(tokio::time::timeout(WITHDRAW_LIMIT, withdrawn).await);
        Err(given_up)
    }

    /// Warns about a long result and names the setting for the limit.
    fn warn_if_long(&self, result: &ExternalToolResult, cx: &ToolContext) {
        let chars = result.content.text_len();
        if chars <= LONG_ANSWER {
            return;
        }
        let fate = if chars > self.limits.result_chars { "it goes to a file" } else { "it stays in the conversation" };
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
            ServiceError::TransportClosed => match self.signals.end_reason() {
                Some(why) => {
                    format!("the server '{server}' is gone ({why}); its tools cannot be used until it is back")
                }
                None => format!("the server '{server}' is gone; its tools cannot be used until it is back"),
            },
            ServiceError::TransportSend(error) => {
                format!(
                    "the server '{server}' could not be reached, or its answer did not arrive: {}",
                    sanitize_data(&transport_error_message(&*error.error))
                )
            }
            other => format!("the server '{server}' gave no usable answer: {}", sanitize_data(&other.to_string())),
        })
    }
}
