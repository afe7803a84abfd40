//! Requests from the host to the session, other than prompts.

mod context_usage;
mod queries;
mod server_requests;
mod usage_tally;

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::{
    BoxFuture, CommandInfo, EntryId, Host, InterruptOutcome, ModelUsage, Op, OpReply, PermissionMode, RewindMode,
    RewindOutcome, SavedSetting, SessionHandle, SettingsProblemView, SettingsView, ThinkingDisplay, ThinkingMode,
    ToolUseId, check_model_name,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::host_lines::{HostLine, parse_lossy};
use super::initialize::{self, InitializeResponse};
use crate::wire;

pub(super) use usage_tally::SessionUsageTally;

/// Answer to a request, or the future of one.
pub(super) enum RoutedAnswer {
    Now(Result<Value, String>),
    Later(BoxFuture<'static, Result<Value, String>>),
    /// The answer to an interrupt: it comes soon, in any state of the session.
    Receipt(BoxFuture<'static, Result<Value, String>>),
}

/// Returns the members of a line's request.
pub(super) fn parse_request(line: &HostLine) -> Option<HostLine> {
    Some(HostLine::from_members(parse_lossy(line.raw("request")?)?))
}

/// Routes a request to the component that can answer it.
pub(super) fn route_request(
    subtype: &str,
    request: &HostLine,
    session: &SessionHandle,
    backstage: &Arc<dyn Host>,
) -> RoutedAnswer {
    match subtype {
        "set_permission_mode" => match request.text("mode").as_deref().map(str::parse::<PermissionMode>) {
            Some(Ok(mode)) => send_op(session, |reply| Op::SetMode { mode, reply }),
            Some(Err(error)) => RoutedAnswer::Now(Err(error)),
            None => missing_member(subtype, "mode"),
        },
        "set_model" => match request.get::<Option<String>>("model") {
            None if request.raw("model").is_some() => RoutedAnswer::Now(Err("model must be a text or null".to_owned())),
            model => send_op(session, |reply| Op::SetModel { model: model.flatten(), reply }),
        },
        "set_max_thinking_tokens" => set_thinking(request, session),
        "stop_task" => match request.text("task_id") {
            Some(task) => send_op(session, |reply| Op::StopTask { task, reply }),
            None => missing_member(subtype, "task_id"),
        },
        "background_tasks" => {
            let call = request.text("tool_use_id").map(ToolUseId::new);
            send_query(session, |reply| Op::MoveToBackground { call, reply }, |matched| json!({"matched": matched}))
        }
        "cancel_async_message" => match request.text("message_uuid") {
            Some(uuid) => {
                let op = |reply| Op::WithdrawPrompt { prompt: EntryId::new(uuid), reply };
                send_query(session, op, |cancelled| json!({"cancelled": cancelled}))
            }
            None => missing_member(subtype, "message_uuid"),
        },
        "rewind_files" => match request.text("user_message_id") {
            Some(uuid) => rewind_files(session, EntryId::new(uuid), request.is_set("dry_run")),
            None => missing_member(subtype, "user_message_id"),
        },
        "seed_read_state" => match (request.text("path"), request.get::<f64>("mtime")) {
            (Some(path), Some(mtime)) => {
                let path = session.snapshot().cwd.join(path);
                // A negative or fractional time becomes one that no file has.
                send_op(session, |reply| Op::SeedRead { path, mtime_ms: mtime.floor() as u64, reply })
            }
            (None, _) => missing_member(subtype, "path"),
            (_, None) => missing_member(subtype, "mtime"),
        },
        "get_context_usage" => {
            let servers = backstage.servers();
            let server_of = move |tool: &str| servers.as_ref()?.server_for_tool(tool);
            send_query(
                session,
                |reply| Op::ContextUsage { reply },
                |usage| context_usage::render_context_usage(&usage, server_of),
            )
        }
        "get_settings" => RoutedAnswer::Now(backstage.settings().map(|settings| render_settings(&settings))),
        "update_settings" => match parse_saved_settings(request) {
            Ok(settings) => {
                let saved = settings.into_iter().try_for_each(|setting| backstage.save_setting(setting));
                RoutedAnswer::Now(saved.map(|()| json!({})))
            }
            Err(problem) => RoutedAnswer::Now(Err(problem)),
        },
        "rename_session" => match request.text("title").filter(|title| !title.trim().is_empty()) {
            // A request for another session must not rename this one.
            Some(_) if request.text("session_id").is_some_and(|named| named != session.id.to_string()) => {
                RoutedAnswer::Now(Err(format!(
                    "rename_session names another session than {}, which runs here",
                    session.id
                )))
            }
            Some(title) => RoutedAnswer::Now(backstage.rename_session(&session.id, &title).map(|()| json!({}))),
            None => missing_member(subtype, "title"),
        },
        "get_session_cost" => RoutedAnswer::Now(Ok(render_cost(&session.snapshot().by_model))),
        "get_binary_version" => RoutedAnswer::Now(Ok(json!({"version": gimlet_proto::COMPAT_VERSION}))),
        "mcp_status" | "mcp_reconnect" | "mcp_toggle" | "mcp_set_servers" | "mcp_call" | "mcp_read_resource" => {
            match backstage.servers() {
                Some(found) => server_requests::route_server_request(subtype, request, session, found),
                None => RoutedAnswer::Now(Err("this session has no servers".to_owned())),
            }
        }
        "get_task_output"
        | "read_file"
        | "file_suggestions"
        | "list_permission_rules"
        | "get_hooks_listing"
        | "register_repo_root" => queries::route_query(subtype, request, session, backstage),
        // Accepted without effect: output depends neither on subscribers nor on colour.
        "set_has_subscribers" => match request.raw("has_subscribers") {
            Some(_) => RoutedAnswer::Now(Ok(json!({}))),
            None => missing_member(subtype, "has_subscribers"),
        },
        "set_color" => match request.text("color") {
            Some(_) => RoutedAnswer::Now(Ok(json!({}))),
            None => missing_member(subtype, "color"),
        },
        "mcp_message" => server_requests::deliver_server_message(request, backstage),
        other => RoutedAnswer::Now(Err(format!("Unsupported control request subtype: {other}"))),
    }
}

/// Answers a reload request. Of these kinds only output styles are read anew here.
pub(super) fn answer_reload(
    subtype: &str,
    request: &HostLine,
    welcome: &InitializeResponse,
    commands: &[CommandInfo],
    backstage: &Arc<dyn Host>,
) -> Result<Value, String> {
    let wanted = |value: &RawValue| !matches!(value.get(), "null" | "false" | "[]");
    match subtype {
        "reload_skills" => Ok(json!({"skills": []})),
        "reload_output_styles" => Ok(json!({"available_output_styles": backstage.settings()?.output_styles})),
        _ if request.raw("add_plugins").is_some_and(wanted) => {
            Err("reload_plugins with add_plugins is not available in this version of gimlet".to_owned())
        }
        _ => {
            let servers =
                backstage.servers().map(|servers| server_requests::render_servers(&*servers)).unwrap_or_default();
            let settings = backstage.settings()?;
            let plugins: Vec<Value> = settings.plugins.iter().map(wire::render_plugin).collect();
            Ok(json!({"commands": initialize::render_commands(commands), "agents": welcome.agents, "plugins": plugins,
                "mcpServers": servers, "error_count": settings.plugin_errors.len()}))
        }
    }
}

fn missing_member(subtype: &str, member: &str) -> RoutedAnswer {
    RoutedAnswer::Now(Err(format!("{subtype} needs {member}")))
}

/// Sends an operation whose answer carries only success or failure.
fn send_op(session: &SessionHandle, op: impl FnOnce(OpReply<()>) -> Op) -> RoutedAnswer {
    send_query(session, op, |()| json!({}))
}

/// Sends an operation and returns the future of its answer.
fn send_query<T: Send + 'static>(
    session: &SessionHandle,
    op: impl FnOnce(OpReply<T>) -> Op,
    render: impl FnOnce(T) -> Value + Send + 'static,
) -> RoutedAnswer {
    let (reply, answer) = OpReply::channel();
    session.send(op(reply));
    RoutedAnswer::Later(Box::pin(async move { await_reply(answer).await.map(render) }))
}

pub(super) async fn await_reply<T>(answer: oneshot::Receiver<Result<T, String>>) -> Result<T, String> {
    answer.await.unwrap_or_else(|_| Err("the session is closed".to_owned()))
}

/// Stops the running turn. The prompts in `held` wait here and not in the session.
pub(super) fn interrupt_turn(
    session: &SessionHandle,
    cancel_queued: bool,
    stop_agents: bool,
    held: Vec<EntryId>,
) -> RoutedAnswer {
    let (reply, answer) = OpReply::channel();
    session.send(Op::Interrupt { cancel_queued, stop_agents, reply });
    RoutedAnswer::Receipt(Box::pin(async move {
        let InterruptOutcome { mut still_queued, mut cancelled } = await_reply(answer).await?;
        let queue = if cancel_queued { &mut cancelled } else { &mut still_queued };
        queue.extend(held);
        let mut response = json!({"still_queued": still_queued});
        if cancel_queued {
            response["cancelled"] = json!(cancelled);
        }
        Ok(response)
    }))
}

/// Restores files to their state at a prompt. Disabled checkpoints are a valid answer; an unknown prompt is an
/// error.
fn rewind_files(session: &SessionHandle, prompt: EntryId, dry_run: bool) -> RoutedAnswer {
    let (reply, answer) = OpReply::channel();
    // The program decides for its user; what changed by hand is part of what it can ask for in a dry run.
    let mode = if dry_run { RewindMode::Preview } else { RewindMode::RestoreAll };
    session.send(Op::Rewind { prompt, mode, reply });
    RoutedAnswer::Later(Box::pin(async move {
        match await_reply(answer).await {
            Ok(outcome) => {
                let paths: Vec<&PathBuf> = outcome.files.iter().map(|file| &file.path).collect();
                let mut response = json!({"canRewind": true, "filesChanged": paths,
                    "insertions": outcome.insertions(), "deletions": outcome.deletions()});
                if outcome.skipped_links > 0 {
                    response["skippedLinks"] = json!(outcome.skipped_links);
                }
                Ok(response)
            }
            Err(error) if error == RewindOutcome::NOT_ENABLED => Ok(json!({"canRewind": false, "error": error})),
            Err(error) => Err(error),
        }
    }))
}

/// Makes both changes or none: an absent member leaves a value as it is, `null` resets it to the value at session
/// start.
fn set_thinking(request: &HostLine, session: &SessionHandle) -> RoutedAnswer {
    let display = match request.get::<Option<String>>("thinking_display").map(|name| name.as_deref().map(parse_display))
    {
        None if request.raw("thinking_display").is_none() => None,
        None => return RoutedAnswer::Now(Err("thinking_display must be a text".to_owned())),
        Some(Some(Err(problem))) => return RoutedAnswer::Now(Err(problem)),
        Some(Some(Ok(display))) => Some(Some(display)),
        Some(None) => Some(None),
    };
    let thinking = match request.get::<Option<u64>>("max_thinking_tokens") {
        None if request.raw("max_thinking_tokens").is_none() => None,
        None => return RoutedAnswer::Now(Err("max_thinking_tokens must be a whole number".to_owned())),
        Some(None) => Some(None),
        Some(Some(0)) => Some(Some(ThinkingMode::Off)),
        Some(Some(tokens)) => Some(Some(ThinkingMode::Budget(tokens))),
    };
    if let Some(thinking) = thinking {
        session.send(Op::SetThinking { thinking, reply: OpReply::ignored() });
    }
    match display {
        Some(display) => send_op(session, |reply| Op::SetThinkingDisplay { display, reply }),
        None => RoutedAnswer::Now(Ok(json!({}))),
    }
}

fn parse_display(name: &str) -> Result<ThinkingDisplay, String> {
    match name {
        "summarized" => Ok(ThinkingDisplay::Summarized),
        "omitted" => Ok(ThinkingDisplay::Omitted),
        other => Err(format!("thinking_display cannot be '{other}'")),
    }
}

fn render_settings(view: &SettingsView) -> Value {
    let layers = view.layers.iter().map(|layer| json!({"source": layer.source, "settings": layer.settings}));
    json!({
        "effective": view.effective,
        "sources": layers.collect::<Vec<_>>(),
        "errors": render_problems(&view.problems),
    })
}

fn render_problems(problems: &[SettingsProblemView]) -> Value {
    let problem = |problem: &SettingsProblemView| json!({"file": problem.file.to_string_lossy(), "path": problem.key, "message": problem.message});
    problems.iter().map(problem).collect()
}

fn render_cost(by_model: &[ModelUsage]) -> Value {
    json!({"total_cost_usd": wire::total_cost(by_model), "modelUsage": wire::render_model_usage(by_model)})
}

/// Applies settings over those of the command line, and repeats the choices that the session made from them at its
/// start.
pub(super) fn apply_settings(request: &HostLine, session: &SessionHandle, backstage: &Arc<dyn Host>) -> RoutedAnswer {
    let Some(change) = request.get::<Map<String, Value>>("settings") else {
        return missing_member("apply_flag_settings", "settings");
    };
    let text = |name: &str| change.get(name).map(|value| value.as_str().map(str::to_owned));
    let (model, effort) = (text("model"), text("effortLevel"));
    // Checked before anything is applied: the session would refuse it only afterwards.
    let named = model.iter().flatten().try_for_each(|model| check_model_name(model));
    if let Err(problem) = named.and_then(|()| backstage.change_settings(change)) {
        return RoutedAnswer::Now(Err(problem));
    }
    if let Some(effort) = effort {
        session.send(Op::SetEffort { effort, reply: OpReply::ignored() });
    }
    // Sent before the answer: a host that has the answer relies on the change.
    match model {
        Some(model) => {
            session.send(Op::ReloadSettings { reply: OpReply::ignored() });
            send_op(session, |reply| Op::SetModel { model, reply })
        }
        None => send_op(session, |reply| Op::ReloadSettings { reply }),
    }
}

/// Parses the settings that `update_settings` wants written; an error if any of them may not be, so that none is.
fn parse_saved_settings(request: &HostLine) -> Result<Vec<SavedSetting>, String> {
    type SettingConstructor = fn(String) -> SavedSetting;
    let (key, make): (_, SettingConstructor) = match request.text("source").as_deref() {
        Some("localSettings") => ("outputStyle", SavedSetting::OutputStyle),
        Some("userSettings") => ("effortLevel", SavedSetting::EffortLevel),
        Some(other) => return Err(format!("update_settings cannot write to '{other}'")),
        None => return Err("update_settings needs source".to_owned()),
    };
    let settings: Map<String, Value> = request.get("settings").ok_or("update_settings needs settings")?;
    let one = |(name, value): (String, Value)| match value {
        Value::String(value) if name == key && !value.trim().is_empty() => Ok(make(value)),
        _ if name == key => Err(format!("{key} must be a text")),
        _ => Err(format!("update_settings writes only {key} there, not {name}")),
    };
    settings.into_iter().map(one).collect()
}
