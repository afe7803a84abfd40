//! Requests about tool servers: how they stand, changing them, and calls that the host makes by itself.

use std::sync::Arc;

use gimlet_proto::{Inquiry, Op, Reply, ServerTool, ServerView, ServerWish, Servers, ServersChanged, SessionHandle};
use serde_json::{Map, Value, json};

use super::{Backstage, Routed, answered, missing};
use crate::sdk::fit;
use crate::sdk::lines::HostLine;

/// How the addresses of resources begin that a host may want to show.
const PAGES: &str = "ui://";
/// Members of a call that ask for more than gimlet can do. To leave one of them out would be another call.
const NOT_AVAILABLE: [&str; 5] = ["check_permissions", "input_files", "output_files", "expires_at", "timeout_ms"];

/// Takes a request to the servers.
pub(super) fn route(subtype: &str, request: &HostLine, session: &SessionHandle, servers: Arc<dyn Servers>) -> Routed {
    let name = request.text("serverName");
    match (subtype, name) {
        ("mcp_status", _) => Routed::Now(Ok(json!({"mcpServers": list(&*servers)}))),
        ("mcp_reconnect", Some(name)) => {
            Routed::Later(Box::pin(async move { servers.reconnect(&name).await.map(|()| json!({})) }))
        }
        ("mcp_toggle", Some(name)) => {
            let Some(enabled) = request.get("enabled") else { return missing(subtype, "enabled") };
            Routed::Later(Box::pin(async move { servers.enable(&name, enabled).await.map(|()| json!({})) }))
        }
        ("mcp_set_servers", _) => {
            let Some(wanted) = request.raw("servers").map(ToOwned::to_owned) else {
                return missing(subtype, "servers");
            };
            Routed::Later(Box::pin(async move {
                let ServersChanged { added, removed, errors } = servers.replace(&wanted).await?;
                let errors: Map<String, Value> = errors.into_iter().map(|(name, why)| (name, json!(why))).collect();
                Ok(json!({"added": added, "removed": removed, "errors": errors}))
            }))
        }
        ("mcp_call", _) => call(request, session),
        ("mcp_read_resource", Some(name)) => {
            let Some(uri) = request.text("uri") else { return missing(subtype, "uri") };
            if !uri.starts_with(PAGES) {
                return Routed::Now(Err(format!("mcp_read_resource reads resources of the form {PAGES}… only")));
            }
            wish(ServerWish::Read { server: name, uri }, session)
        }
        _ => missing(subtype, "serverName"),
    }
}

/// Every server and how it stands.
pub(super) fn list(servers: &dyn Servers) -> Vec<Value> {
    servers.list().iter().map(server).collect()
}

fn server(server: &ServerView) -> Value {
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

/// A server inside the host has something to say. One that is not there yet, or any more, has said it in vain.
pub(super) fn deliver(request: &HostLine, backstage: &Arc<dyn Backstage>) -> Routed {
    let (Some(name), Some(message)) = (request.text("server_name"), request.raw("message")) else {
        return missing("mcp_message", "server_name and message");
    };
    if let Some(servers) = backstage.servers() {
        drop(servers.deliver(&name, message));
    }
    Routed::Now(Ok(json!({})))
}

/// A call that the host wants made. Its wish is leave enough, except where a rule forbids the tool.
fn call(request: &HostLine, session: &SessionHandle) -> Routed {
    let Some(tool) = request.text("tool") else { return missing("mcp_call", "tool") };
    let wanted = |name: &&&str| request.raw(name).is_some_and(|value| !matches!(value.get(), "null" | "false"));
    if let Some(member) = NOT_AVAILABLE.iter().find(wanted) {
        return Routed::Now(Err(format!("mcp_call with {member} is not available in this version of gimlet")));
    }
    let input: Map<String, Value> = match request.raw("arguments") {
        None => Map::new(),
        Some(raw) => match crate::sdk::lines::read(raw) {
            Some(input) => input,
            None => return Routed::Now(Err("arguments must be an object".to_owned())),
        },
    };
    wish(ServerWish::Call { tool, input }, session)
}

/// Asks the session for it, whose gate decides.
fn wish(wish: ServerWish, session: &SessionHandle) -> Routed {
    let (reply, answer) = Reply::channel();
    session.send(Op::Inquire(Inquiry::OfServer { wish, reply }));
    Routed::Later(Box::pin(async move { small_enough(answered(answer).await?) }))
}

/// What somebody else's server gave, unless it does not fit into a line: half of it could mean anything.
fn small_enough(answer: Value) -> Result<Value, String> {
    let length = answer.to_string().len();
    if length >= fit::MAX_INPUT {
        return Err(format!("the server's answer has {length} bytes, more than one line can carry"));
    }
    Ok(answer)
}
