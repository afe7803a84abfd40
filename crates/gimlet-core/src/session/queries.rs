//! Queries of the driving program beside the conversation: files, tasks, rules and hooks, an additional folder, and
//! requests to servers. Every file access and every request follows the gate's rules; nothing here asks the user or
//! adds to the conversation.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{
    AgentPath, Block, DirectoryRequester, FilePrefix, HistoryItem, ServerRequest, SessionOverrides, SessionQuery,
    SubmittedPrompt, TaskOutputTail,
};
use rustix::fs::{AtFlags, FileType, OFlags};
use serde_json::Value;

use crate::aside::answer_aside;
use crate::call::CallScope;
use crate::files::{FileLocation, open_output_file};
use crate::gate::Gate;
use crate::history::read_history;
use crate::hooks::HookPayload;
use crate::model_selection::ModelSelection;
use crate::redact::Redactor;
use crate::services::SessionServices;
use crate::session::SessionState;
use crate::tool::{StateChange, ToolSet, ToolSource};

/// Limit on the bytes returned from the end of a task's output.
const TAIL: u64 = 8 * 1024;
/// Bytes read before the tail, so that a credential across the cut is recognized.
const BEFORE: u64 = 8 * 1024;
/// Kinds of tasks whose output file holds the output of a command.
const PRINTING: [&str; 2] = ["local_bash", "monitor"];

/// Sources of the conversation's history.
#[derive(Clone)]
pub(super) struct HistorySource {
    /// `None` if nothing of the session is stored.
    pub(super) transcript: Option<PathBuf>,
    /// Tools that render past calls.
    pub(super) tools: ToolSet,
}

impl HistorySource {
    /// Reads the conversation so far; an error is one line for the user.
    async fn read(self, services: &Arc<SessionServices>) -> Result<Vec<HistoryItem>, String> {
        let Self { transcript, tools } = self;
        let transcript = transcript.ok_or("this session keeps no transcript to read a history from")?;
        let paths = services.paths();
        let read = tokio::task::spawn_blocking(move || read_history(&transcript, &tools, &paths)).await;
        read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}

/// Changes the working directory and tells the model. It must be one of the session's folders or lie inside one.
fn change_directory(scope: &CallScope, directory: &Path) -> Result<PathBuf, String> {
    let paths = scope.services.paths();
    let spelled = paths.expand_path(directory);
    let real = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let folder = real(&spelled)?;
    if !folder.is_dir() {
        return Err(format!("{} is no folder", spelled.display()));
    }
    let mut roots = paths.roots.iter().filter_map(|root| real(root).ok());
    if !roots.any(|root| folder.starts_with(root)) {
        let text = format!("{} lies outside the session's folders. Add it first: /add-dir", folder.display());
        return Err(text);
    }
    if folder == paths.cwd {
        return Ok(folder);
    }
    let new = folder.clone();
    scope.services.apply_changes([Box::new(move |session: &mut SessionState| session.cwd = new) as StateChange]);
    scope.services.hooks().fire_detached(scope, &HookPayload::CwdChanged { old: &paths.cwd, new: &folder });
    let note = SubmittedPrompt {
        blocks: vec![Block::text(&format!("The user changed the working directory to {}.", folder.display()))],
        synthetic: true,
        silent: true,
        ..SubmittedPrompt::default()
    };
    scope.services.send_to_agent(&AgentPath::default(), note);
    Ok(folder)
}

/// Answers a query, in a separate task if that needs the disk.
pub(super) fn answer_query(
    inquiry: SessionQuery,
    scope: &Arc<CallScope>,
    tool_source: Option<&Arc<dyn ToolSource>>,
    history: &HistorySource,
) {
    let CallScope { services, gate, model_selection, .. } = &**scope;
    match inquiry {
        SessionQuery::TaskOutput { task, reply } => {
            let task = services.tasks().find(&task).ok_or_else(|| format!("there is no background task {task}"));
            match task {
                Ok(task) if PRINTING.contains(&task.kind) => {
                    let asked = services.clone();
                    services.spawn(async move {
                        let read = tokio::task::spawn_blocking(move || read_task_tail(&task.output_file, &asked)).await;
                        reply.send(read.unwrap_or_else(|error| Err(error.to_string())));
                    });
                }
                Ok(task) => reply.send(Err(format!("the task {} is no command: it prints nothing", task.id))),
                Err(problem) => reply.send(Err(problem)),
            }
        }
        SessionQuery::ReadFile { path, most, reply } => {
            let (asked, gate) = (services.clone(), gate.clone());
            services.spawn(async move {
                let read = tokio::task::spawn_blocking(move || read_file(&gate, &asked, &path, most)).await;
                reply.send(read.unwrap_or_else(|error| Err(error.to_string())));
            });
        }
        SessionQuery::ReadableFiles { paths, reply } => {
            let (asked, gate) = (services.clone(), gate.clone());
            services.spawn(async move {
                let may = move |path: &PathBuf| gate.resolve_readable(&asked, path).is_ok();
                let read = tokio::task::spawn_blocking(move || paths.into_iter().filter(may).collect()).await;
                reply.send(read.map_err(|error| error.to_string()));
            });
        }
        SessionQuery::History { agent, reply } => {
            let (asked, history) = (services.clone(), history.clone());
            let history = match agent {
                None => Ok(history),
                Some(agent) => {
                    agent_transcript(scope, &agent).map(|path| HistorySource { transcript: Some(path), ..history })
                }
            };
            services.spawn(async move {
                let items = match history {
                    Ok(history) => history.read(&asked).await,
                    Err(problem) => Err(problem),
                };
                reply.send(items);
            });
        }
        SessionQuery::Permissions { reply } => reply.send(Ok(gate.permissions_view(services))),
        // Answered by the caller, who has the commands.
        SessionQuery::Commands { .. } => {}
        SessionQuery::Hooks { reply } => reply.send(Ok(services.hooks().list())),
        SessionQuery::AddDirectory { directory, requester, reply } => {
            let added = gate.add_directory(services, &directory, requester);
            if let Ok(directory) = &added {
                tool_source.iter().for_each(|source| source.set_directories(&services.paths().roots));
                let source = match requester {
                    DirectoryRequester::Program => "register_repo_root",
                    DirectoryRequester::User => "slash_command",
                };
                let occasion = HookPayload::DirectoryAdded { directory, source };
                services.hooks().fire_detached(scope, &occasion);
            }
            reply.send(added);
        }
        SessionQuery::ChangeDirectory { directory, reply } => reply.send(change_directory(scope, &directory)),
        SessionQuery::Aside { request, mut reply } => {
            let (scope, history) = (scope.clone(), history.clone());
            services.spawn(async move {
                let asking = async {
                    let items = history.read(&scope.services).await?;
                    answer_aside(&scope, &items, &request).await
                };
                let answer = tokio::select! {
                    answer = asking => answer,
                    () = reply.wait_until_abandoned() => return,
                };
                reply.send(answer);
            });
        }
        SessionQuery::Overrides { reply } => {
            let (changes, before_plan) = gate.session_overrides();
            let ModelSelection { thinking, display, .. } = model_selection.current();
            reply.send(Ok(SessionOverrides {
                changes,
                mode_before_plan: before_plan,
                thinking,
                display,
                effort: model_selection.changed_effort(),
            }));
        }
        SessionQuery::ApplyOverrides(standing) => {
            gate.adopt_overrides(services, &standing);
            model_selection.set_thinking(Some(standing.thinking));
            model_selection.set_display(standing.display);
            model_selection.set_effort(standing.effort);
        }
        SessionQuery::ServerRequest { wish, mut reply } => {
            let (asked, gate, tool_source) = (services.clone(), gate.clone(), tool_source.cloned());
            services.spawn(async move {
                let answer = tokio::select! {
                    answer = query_server(&asked, &gate, tool_source, wish) => answer,
                    () = reply.wait_until_abandoned() => return,
                };
                reply.send(answer);
            });
        }
    }
}

/// Returns the transcript of a subagent of this run.
fn agent_transcript(scope: &CallScope, agent: &str) -> Result<PathBuf, String> {
    let task = scope.services.tasks().find(agent).filter(|task| task.agent.is_some());
    let task = task.ok_or_else(|| format!("there is no agent {agent}"))?;
    let path = scope.agent_runtime.transcripts.path(&task.id);
    path.ok_or_else(|| "this session keeps no transcripts of its agents".to_owned())
}

/// Sends a request to a server, if the gate permits it.
async fn query_server(
    services: &SessionServices,
    gate: &Gate,
    tool_source: Option<Arc<dyn ToolSource>>,
    wish: ServerRequest,
) -> Result<Value, String> {
    let tool_source = tool_source.ok_or("this session has no servers")?;
    let sought = tool_source.look_up_request(&wish).await;
    tool_source.execute_request(gate.permit_server_request(services, wish, &sought)?).await
}

/// Reads the beginning of a file that may be read without a question. Returns the reason as an error otherwise.
fn read_file(gate: &Gate, services: &SessionServices, path: &Path, most: usize) -> Result<FilePrefix, String> {
    let (path, spelled) = (gate.resolve_readable(services, path)?, path);
    let trouble = |error: rustix::io::Errno| format!("{} cannot be read: {error}", spelled.display());
    let place = FileLocation::for_path(&path).map_err(trouble)?;
    // Checking first keeps devices from being opened at all; checking the open file again closes the race.
    let seen = rustix::fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW).map_err(trouble)?;
    let odd = || format!("{} is no regular file", spelled.display());
    if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile {
        return Err(odd());
    }
    let file = place.open(OFlags::RDONLY).map_err(trouble)?;
    let io = |error: std::io::Error| format!("{} cannot be read: {error}", spelled.display());
    if !file.metadata().map_err(io)?.is_file() {
        return Err(odd());
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    let truncated = bytes.len() > most;
    bytes.truncate(most);
    Ok(FilePrefix { path, bytes, truncated })
}

/// Reads the end of a command's output, without gimlet's own credentials.
fn read_task_tail(file: &Path, services: &SessionServices) -> Result<TaskOutputTail, String> {
    let trouble = |error: std::io::Error| format!("the output {} cannot be read: {error}", file.display());
    let mut output = match open_output_file(file) {
        Ok(output) => output,
        // It has printed nothing yet, or its output was deleted.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(TaskOutputTail { output: String::new(), total_bytes: 0, truncated: false });
        }
        Err(error) => return Err(trouble(error)),
    };
    let total_bytes = output.seek(SeekFrom::End(0)).map_err(trouble)?;
    let start = total_bytes.saturating_sub(TAIL);
    let from = start.saturating_sub(BEFORE);
    output.seek(SeekFrom::Start(from)).map_err(trouble)?;
    let mut bytes = Vec::new();
    output.take(total_bytes - from).read_to_end(&mut bytes).map_err(trouble)?;
    let cut = usize::try_from(start - from).unwrap_or(0);
    Ok(TaskOutputTail { output: masked_tail(&bytes, cut, services.redactor()), total_bytes, truncated: start > 0 })
}

/// Returns the output after a cut with credentials masked, including the rest of one that began before the cut.
fn masked_tail(bytes: &[u8], cut: usize, redactor: &Redactor) -> String {
    let cut = cut.min(bytes.len());
    // A cut inside a character drops the rest of that character.
    let rest = &bytes[cut..];
    let whole = if cut > 0 { rest.iter().position(|byte| byte & 0xC0 != 0x80).unwrap_or(0) } else { 0 };
    let (before, rest) = bytes.split_at(cut + whole);
    let (mut all, rest) = (String::from_utf8_lossy(before).into_owned(), String::from_utf8_lossy(rest));
    let length = redactor.mask(&rest).len();
    all.push_str(&rest);
    let all = redactor.mask(&all);
    all[all.ceil_char_boundary(all.len().saturating_sub(length))..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use gimlet_proto::Secret;

    #[test]
    fn a_credential_that_the_cut_goes_through_stays_hidden() {
        let redactor = Redactor::new([Secret::new("sk-0123456789")]);
        let text = "first\nKEY=sk-0123456789 é last\n";
        for cut in 0..text.len() {
            let shown = masked_tail(text.as_bytes(), cut, &redactor);
            assert!(!shown.contains("6789") && !shown.contains('\u{fffd}'), "{cut}: {shown}");
        }
        assert_eq!(masked_tail(text.as_bytes(), 0, &redactor), "first\nKEY=*** é last\n");
        assert_eq!(masked_tail(text.as_bytes(), 24, &redactor), "é last\n");
        assert_eq!(masked_tail(b"abc", 9, &redactor), "");
    }

    #[test]
    fn only_a_plain_file_is_a_tasks_output() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, link, folders) = (folder.path().join("f"), folder.path().join("l"), folder.path().join("d"));
        std::fs::write(&plain, "x").unwrap();
        symlink(&plain, &link).unwrap();
        std::fs::create_dir(&folders).unwrap();
        let pipe = folder.path().join("p");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        assert!(open_output_file(&plain).is_ok());
        for odd in [link, folders, pipe] {
            assert!(open_output_file(&odd).is_err(), "{}", odd.display());
        }
        let none = open_output_file(&folder.path().join("none/x")).unwrap_err();
        assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
    }
}
