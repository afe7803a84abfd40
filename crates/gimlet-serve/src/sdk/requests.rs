//! What the host asks of the session, beyond prompts.

mod context;

use std::sync::Arc;

use gimlet_proto::{
    BoxFuture, EntryId, Interrupted, ModelUsage, Op, PermissionMode, Reply, Rewound, ServerTool, ServerView, Servers,
    ServersChanged, SessionHandle, SessionId, Thinking, ToolUseId,
};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::lines::{HostLine, read};
use crate::wire;

/// What a session's front end needs from behind the stage: it is made of things that only the binary has.
pub trait Backstage: Send + Sync {
    /// Opens a new session in place of one that ended in this mode.
    fn reopen(&self, mode: PermissionMode) -> BoxFuture<'static, Result<SessionHandle, String>>;

    /// The tool servers of the session that runs.
    fn servers(&self) -> Option<Arc<dyn Servers>>;

    /// The settings that hold, and those of each source.
    fn settings(&self) -> Result<Value, String>;

    /// Lays keys over the settings of the command line; `null` takes one away. All or nothing.
    fn change_settings(&self, change: Map<String, Value>) -> Result<(), String>;

    /// Gives a session a title.
    fn rename(&self, session: &SessionId, title: &str) -> Result<(), String>;
}

/// An answer, or the promise of one.
pub(super) enum Routed {
    Now(Result<Value, String>),
    Later(BoxFuture<'static, Result<Value, String>>),
}

/// The members of a line's request.
pub(super) fn members(line: &HostLine) -> Option<HostLine> {
    Some(HostLine::from_members(read(line.raw("request")?)?))
}

/// Takes a request to whoever can answer it.
pub(super) fn route(
    subtype: &str,
    request: &HostLine,
    session: &SessionHandle,
    backstage: &Arc<dyn Backstage>,
) -> Routed {
    match subtype {
        "set_permission_mode" => match request.text("mode").as_deref().map(str::parse::<PermissionMode>) {
            Some(Ok(mode)) => done(session, |reply| Op::SetMode { mode, reply }),
            Some(Err(error)) => Routed::Now(Err(error)),
            None => missing(subtype, "mode"),
        },
        "set_model" => {
            let model = request.text("model");
            done(session, |reply| Op::SetModel { model, reply })
        }
        "set_max_thinking_tokens" => set_thinking(request, session),
        "stop_task" => match request.text("task_id") {
            Some(task) => done(session, |reply| Op::StopTask { task, reply }),
            None => missing(subtype, "task_id"),
        },
        "background_tasks" => {
            let call = request.text("tool_use_id").map(ToolUseId::new);
            ask(session, |reply| Op::Background { call, reply }, |matched| json!({"matched": matched}))
        }
        "cancel_async_message" => match request.text("message_uuid") {
            Some(uuid) => {
                let op = |reply| Op::Withdraw { prompt: EntryId::new(uuid), reply };
                ask(session, op, |cancelled| json!({"cancelled": cancelled}))
            }
            None => missing(subtype, "message_uuid"),
        },
        "rewind_files" => match request.text("user_message_id") {
            Some(uuid) => rewind(session, EntryId::new(uuid), request.flag("dry_run")),
            None => missing(subtype, "user_message_id"),
        },
        "seed_read_state" => match (request.text("path"), request.get::<f64>("mtime")) {
            (Some(path), Some(mtime)) => {
                let path = session.snapshot().cwd.join(path);
                // A negative or odd time becomes one that no file has.
                done(session, |reply| Op::SeedRead { path, mtime_ms: mtime.floor() as u64, reply })
            }
            (None, _) => missing(subtype, "path"),
            (_, None) => missing(subtype, "mtime"),
        },
        "get_context_usage" => ask(session, |reply| Op::ContextUsage { reply }, |usage| context::render(&usage)),
        "get_settings" => Routed::Now(backstage.settings()),
        "apply_flag_settings" => match request.get("settings") {
            Some(change) => Routed::Now(backstage.change_settings(change).map(|()| json!({}))),
            None => missing(subtype, "settings"),
        },
        "rename_session" => match request.text("title").filter(|title| !title.trim().is_empty()) {
            Some(title) => Routed::Now(backstage.rename(&session.id, &title).map(|()| json!({}))),
            None => missing(subtype, "title"),
        },
        "get_session_cost" => Routed::Now(Ok(cost(&session.snapshot().by_model))),
        "get_binary_version" => Routed::Now(Ok(json!({"version": gimlet_proto::COMPAT_VERSION}))),
        "mcp_status" | "mcp_reconnect" | "mcp_toggle" | "mcp_set_servers" => match backstage.servers() {
            Some(servers) => with_servers(subtype, request, servers),
            None => Routed::Now(Err("this session has no servers".to_owned())),
        },
        // A server inside the host has something to say; nothing listens for that yet.
        "mcp_message" => Routed::Now(Ok(json!({}))),
        other => Routed::Now(Err(format!("Unsupported control request subtype: {other}"))),
    }
}

fn with_servers(subtype: &str, request: &HostLine, servers: Arc<dyn Servers>) -> Routed {
    let name = request.text("serverName");
    match (subtype, name) {
        ("mcp_status", _) => {
            let list: Vec<Value> = servers.list().iter().map(server).collect();
            Routed::Now(Ok(json!({"mcpServers": list})))
        }
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
        _ => missing(subtype, "serverName"),
    }
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

fn missing(subtype: &str, member: &str) -> Routed {
    Routed::Now(Err(format!("{subtype} needs {member}")))
}

/// An operation whose success is all there is to tell.
fn done(session: &SessionHandle, op: impl FnOnce(Reply<()>) -> Op) -> Routed {
    ask(session, op, |()| json!({}))
}

/// Sends an operation and promises what it answers.
fn ask<T: Send + 'static>(
    session: &SessionHandle,
    op: impl FnOnce(Reply<T>) -> Op,
    render: impl FnOnce(T) -> Value + Send + 'static,
) -> Routed {
    let (reply, answer) = Reply::channel();
    session.send(op(reply));
    Routed::Later(Box::pin(async move { answered(answer).await.map(render) }))
}

async fn answered<T>(answer: oneshot::Receiver<Result<T, String>>) -> Result<T, String> {
    answer.await.unwrap_or_else(|_| Err("the session is closed".to_owned()))
}

/// Stops the running turn. The prompts in `held` wait here and not in the session.
pub(super) fn interrupt(session: &SessionHandle, cancel_queued: bool, held: Vec<EntryId>) -> Routed {
    let op = |reply| Op::Interrupt { cancel_queued, reply };
    ask(session, op, move |Interrupted { mut still_queued, mut cancelled }| {
        let queue = if cancel_queued { &mut cancelled } else { &mut still_queued };
        queue.extend(held);
        let mut response = json!({"still_queued": still_queued});
        if cancel_queued {
            response["cancelled"] = json!(cancelled);
        }
        response
    })
}

/// Files as they were at a prompt. That nothing is kept is an answer; that a prompt is not known is none.
fn rewind(session: &SessionHandle, prompt: EntryId, dry_run: bool) -> Routed {
    let (reply, answer) = Reply::channel();
    session.send(Op::Rewind { prompt, dry_run, reply });
    Routed::Later(Box::pin(async move {
        match answered(answer).await {
            Ok(Rewound { files_changed, insertions, deletions, skipped_links }) => {
                let mut response = json!({"canRewind": true, "filesChanged": files_changed,
                    "insertions": insertions, "deletions": deletions});
                if skipped_links > 0 {
                    response["skippedLinks"] = json!(skipped_links);
                }
                Ok(response)
            }
            Err(error) if error == Rewound::NOT_ENABLED => Ok(json!({"canRewind": false, "error": error})),
            Err(error) => Err(error),
        }
    }))
}

fn set_thinking(request: &HostLine, session: &SessionHandle) -> Routed {
    if let Some(display) = request.get::<Option<String>>("thinking_display").flatten() {
        return Routed::Now(Err(format!("thinking_display cannot be set to '{display}' while the session runs")));
    }
    let thinking = match request.get::<Option<u64>>("max_thinking_tokens") {
        // Absent leaves it as it is.
        None if request.raw("max_thinking_tokens").is_none() => return Routed::Now(Ok(json!({}))),
        None => return Routed::Now(Err("max_thinking_tokens must be a whole number".to_owned())),
        Some(None) => None,
        Some(Some(0)) => Some(Thinking::Off),
        Some(Some(tokens)) => Some(Thinking::Budget(tokens)),
    };
    done(session, |reply| Op::SetThinking { thinking, reply })
}

fn cost(by_model: &[ModelUsage]) -> Value {
    json!({"total_cost_usd": wire::total_cost(by_model), "modelUsage": wire::model_usage(by_model)})
}
