//! Requests about tool servers: their status, changes to them, and calls that the host makes itself.

use std::sync::Arc;

use gimlet_proto::{
    Host, Op, OpReply, ServerRegistry, ServerRequest, ServerSetChange, ServerTool, ServerView, SessionHandle,
    SessionQuery,
};
use serde_json::{Map, Value, json};

use super::{RoutedAnswer, await_reply, missing_member};
use crate::sdk::host_lines::HostLine;
use crate::sdk::truncate;

/// URI prefix of the resources that a host may want to show.
const PAGES: &str = "ui://";
/// Members of a call that ask for unsupported features. Ignoring one of them would make a different call.
const NOT_AVAILABLE: [&str; 5] = ["check_permissions", "input_files", "output_files", "expires_at", "timeout_ms"];

/// Routes a request to the servers.
pub(super) fn route_server_request(
    subtype: &str,
    request: &HostLine,
    session: &SessionHandle,
    servers: Arc<dyn ServerRegistry>,
) -> RoutedAnswer {
    let name = request.text("serverName");
    match (subtype, name) {
        ("mcp_status", _) => RoutedAnswer::Now(Ok(json!({"mcpServers": render_servers(&*servers)}))),
        ("mcp_reconnect", Some(name)) => {
            RoutedAnswer::Later(Box::pin(async move { servers.reconnect(&name).await.map(|()| json!({})) }))
        }
        ("mcp_toggle", Some(name)) => {
            let Some(enabled) = request.get("enabled") else { return missing_member(subtype, "enabled") };
            RoutedAnswer::Later(Box::pin(async move { servers.set_enabled(&name, enabled).await.map(|()| json!({})) }))
        }
        ("mcp_set_servers", _) => {
            let Some(wanted) = request.raw("servers").map(ToOwned::to_owned) else {
                return missing_member(subtype, "servers");
            };
            RoutedAnswer::Later(Box::pin(async move {
                let ServerSetChange { added, removed, errors } = servers.replace(&wanted).await?;
                let errors: Map<String, Value> = errors.into_iter().map(|(name, why)| (name, json!(why))).collect();
                Ok(json!({"added": added, "removed": removed, "errors": errors}))
            }))
        }
        ("mcp_call", _) => call_server_tool(request, session),
        ("mcp_read_resource", Some(name)) => {
            let Some(uri) = request.text("uri") else { return missing_member(subtype, "uri") };
            if !uri.starts_with(PAGES) {
                return RoutedAnswer::Now(Err(format!("mcp_read_resource reads resources of the form {PAGES}… only")));
            }
            send_server_query(ServerRequest::Read { server: name, uri }, session)
        }
        _ => missing_member(subtype, "serverName"),
    }
}

/// Renders every server with its status.
pub(super) fn render_servers(servers: &dyn ServerRegistry) -> Vec<Value> {
    servers.list().iter().map(render_server).collect()
}

fn render_server(server: &ServerView) -> Value {
    let tool = |tool: &ServerTool| {
        let hints = [("readOnly", tool.read_only), ("destructive", tool.destructive), ("openWorld", tool.open_world)];
        let hints: Map<String, Value> =
            hints.into_iter().filter_map(|(name, hint)| Some((name.to_owned(), json!(hint?)))).collect();
        let mut line = json!({"name": tool.name, "annotations": hints});
        if let Some(description) = &tool.description {
            line["description"] = json!(description);
        }
        line
    };
    let mut line = json!({"name": server.name, "status": server.status.as_str(), "source": server.source,
        "scope": server.source, "config": server.config, "tools": server.tools.iter().map(tool).collect::<Vec<_>>()});
    if let Some((name, version)) = &server.info {
        line["serverInfo"] = json!({"name": name, "version": version});
    }
    if let Some(error) = &server.error {
        line["error"] = json!(error);
    }
    line
}

/// Delivers a message from a server inside the host. A message from a server that is not connected is dropped.
pub(super) fn deliver_server_message(request: &HostLine, backstage: &Arc<dyn Host>) -> RoutedAnswer {
    let (Some(name), Some(message)) = (request.text("server_name"), request.raw("message")) else {
        return missing_member("mcp_message", "server_name and message");
    };
    if let Some(servers) = backstage.servers() {
        drop(servers.deliver_message(&name, message));
    }
    RoutedAnswer::Now(Ok(json!({})))
}

/// Makes a tool call for the host. The request itself is permission enough, except where a rule denies the tool.
fn call_server_tool(request: &HostLine, session: &SessionHandle) -> RoutedAnswer {
    let Some(tool) = request.text("tool") else { return missing_member("mcp_call", "tool") };
    let wanted = |name: &&&str| request.raw(name).is_some_and(|value| !matches!(value.get(), "null" | "false"));
    if let Some(member) = NOT_AVAILABLE.iter().find(wanted) {
        return RoutedAnswer::Now(Err(format!("mcp_call with {member} is not available in this version of gimlet")));
    }
    let input: Map<String, Value> = match request.raw("arguments") {
        None => Map::new(),
        Some(raw) => match crate::sdk::host_lines::parse_lossy(raw) {
            Some(input) => input,
            None => return RoutedAnswer::Now(Err("arguments must be an object".to_owned())),
        },
    };
    send_server_query(ServerRequest::Call { tool, input }, session)
}

/// Sends the request to the session, whose permission gate decides.
fn send_server_query(wish: ServerRequest, session: &SessionHandle) -> RoutedAnswer {
    let (reply, answer) = OpReply::channel();
    session.send(Op::Query(SessionQuery::ServerRequest { wish, reply }));
    RoutedAnswer::Later(Box::pin(async move { check_answer_size(await_reply(answer).await?) }))
}

/// Returns the answer of an external server, or an error if it does not fit into a line: a truncated answer could be
/// misread.
fn check_answer_size(answer: Value) -> Result<Value, String> {
    let length = answer.to_string().len();
    if length >= truncate::MAX_INPUT {
        return Err(format!("the server's answer has {length} bytes, more than one line can carry"));
    }
    Ok(answer)
}
