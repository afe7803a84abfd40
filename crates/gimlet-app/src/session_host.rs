//! The host of a front end: replaces its session, lists and searches sessions, and reads and changes settings.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_config::{JsonEdit, Scope};
use gimlet_mcp::McpServers;
use gimlet_proto::{
    BoxFuture, DriverHook, FolderTrust, Host, ModelInfo, OpenedSession, PromptHistoryEntry, SavedSetting,
    ServerRegistry, SessionChanges, SessionHandle, SessionId, SessionInfo, SessionMatch, SessionReplacement,
    SessionScope, SessionSearch, SettingsLayerView, SettingsProblemView, SettingsView,
};
use gimlet_store::{PromptHistoryFile, StoreLocations, clean_title, read_summary};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;
use crate::session_catalogue;
use crate::settings_mapping;
use crate::start::{
    self, LaunchOptions, PreviousMode, SessionCleanup, SessionSettings, SessionTitleTarget, StartedSession,
};

/// Effort levels that a file can store; the highest is for single sessions.
const EFFORTS: [&str; 4] = ["low", "medium", "high", "xhigh"];
/// Maximum suggestions found; rules may hide many of the best matches, so the caller filters until it has enough.
const SUGGESTIONS: usize = 10_000;

/// Maximum number of earlier prompts that are offered.
const MAX_PROMPT_HISTORY: usize = 1000;

type SessionFuture = BoxFuture<'static, ()>;

/// Sessions of this run, one after the other, and what must be cleaned up after them.
#[derive(Clone)]
pub struct HostedSessions {
    new_sessions: mpsc::UnboundedSender<SessionFuture>,
    state: Arc<Mutex<HostState>>,
}

#[derive(Default)]
struct HostState {
    session: Option<SessionHandle>,
    cleanups: Vec<SessionCleanup>,
    /// Those of the session that runs.
    servers: Option<Arc<McpServers>>,
    title_target: Option<SessionTitleTarget>,
    /// Models that it can choose by a short name.
    models: Vec<ModelInfo>,
    /// The agent that it keeps when its conversation is cleared; an empty name for none.
    agent_when_cleared: Option<String>,
    bypass_reachable: bool,
    /// Remarks that were already shown.
    shown_remarks: HashSet<String>,
}

impl HostedSessions {
    /// Creates the list; the receiver yields the session futures to run.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<SessionFuture>) {
        let (arrivals, receiver) = mpsc::unbounded_channel();
        (Self { new_sessions: arrivals, state: Arc::default() }, receiver)
    }

    /// Adds a session; returns its handle.
    pub fn add_session(&self, started: StartedSession<impl Future<Output = ()> + Send + 'static>) -> SessionHandle {
        let mut props = self.lock_state();
        props.session = Some(started.handle.clone());
        props.cleanups.push(started.cleanup);
        props.servers = started.servers;
        props.models = started.facts.models;
        props.title_target = Some(started.title_target);
        props.agent_when_cleared = started.agent_when_cleared;
        props.bypass_reachable = started.bypass_reachable;
        // Without a receiver the run is over, and this session with it.
        drop(self.new_sessions.send(Box::pin(started.session_future)));
        started.handle
    }

    /// Returns the remarks that were not shown for an earlier session.
    pub fn take_new_remarks(&self, remarks: &[String]) -> Vec<String> {
        let mut props = self.lock_state();
        remarks.iter().filter(|remark| props.shown_remarks.insert((*remark).clone())).cloned().collect()
    }

    /// Asks the running session to end at once, because gimlet exits.
    pub fn request_exit(&self) {
        if let Some(session) = &self.lock_state().session {
            session.request_exit();
        }
    }

    /// Ends everything that runs for any of them, and cleans up. Returns lines for the user.
    pub async fn shut_down(&self) -> Vec<String> {
        let cleanups = std::mem::take(&mut self.lock_state().cleanups);
        let mut remarks = Vec::new();
        for cleanup in cleanups {
            remarks.extend(cleanup.clean_up().await);
        }
        remarks
    }

    fn lock_state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Host of a session, with the parameters it was opened with.
pub struct SessionHost {
    /// Includes the host's later changes.
    request: Arc<Mutex<LaunchRequest>>,
    around: ProcessEnv,
    options: LaunchOptions,
    sessions: HostedSessions,
}

impl SessionHost {
    pub fn new(request: LaunchRequest, around: ProcessEnv, options: LaunchOptions, sessions: HostedSessions) -> Self {
        Self { request: Arc::new(Mutex::new(request)), around, options, sessions }
    }

    fn launch_request(&self) -> LaunchRequest {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn store_request(&self, request: &LaunchRequest) {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone_from(request);
    }

    fn read_settings(&self) -> Result<SessionSettings, String> {
        let mut request = self.launch_request();
        request.settings.flag = self.options.flag_settings.text().or(request.settings.flag);
        SessionSettings::read(&request, &self.around).map_err(|error| error.text())
    }

    /// Returns the present settings of the command line.
    fn flag_layer(&self) -> Result<Map<String, Value>, String> {
        let Some(flag) = self.options.flag_settings.text().or_else(|| self.launch_request().settings.flag) else {
            return Ok(Map::new());
        };
        let text = match flag.trim() {
            inline if inline.starts_with('{') && inline.ends_with('}') => flag,
            path => std::fs::read_to_string(self.around.cwd.join(path))
                .map_err(|error| format!("{path} cannot be read: {error}"))?,
        };
        serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|error| format!("the settings of the command line are no JSON object: {error}"))
    }
}

impl SessionHost {
    /// Returns the request for an empty conversation.
    fn cleared_request(&self) -> LaunchRequest {
        let mut request = reset_conversation(self.launch_request());
        // An agent restored with the conversation stays when that is cleared.
        if request.agents.main.is_none() {
            request.agents.main = self.sessions.lock_state().agent_when_cleared.clone();
        }
        if let Some(title) = self.current_title() {
            (request.session.title, request.session.default_title) = (Some(title), None);
        }
        request
    }

    /// Returns the title in the session's file, from any source.
    fn current_title(&self) -> Option<String> {
        let path = self.sessions.lock_state().title_target.as_ref()?.files.transcript();
        read_summary(&path).ok().flatten()?.labels.title.filter(|title| !title.is_empty())
    }

    /// Returns the flags that continue the conversation. A fork is continued, not forked again. If nothing is stored,
    /// only the id is kept.
    fn keep_conversation(&self, mut request: LaunchRequest) -> LaunchRequest {
        if request.session.fork {
            let copy = self.sessions.lock_state().title_target.as_ref().map(|plate| plate.files.id().to_string());
            if request.session.is_unsaved {
                request.session.id = copy;
            } else {
                request = reset_conversation(request);
                request.session.resume = copy;
            }
        }
        request
    }
}

/// Returns the flags for a session with an empty conversation.
fn reset_conversation(mut request: LaunchRequest) -> LaunchRequest {
    (request.session.resume, request.session.id) = (None, None);
    (request.session.resume_at, request.session.drops_turn) = (None, None);
    (request.session.continue_latest, request.session.fork) = (false, false);
    request
}

impl Host for SessionHost {
    fn replace_session(&self, replacement: SessionReplacement) -> BoxFuture<'static, Result<OpenedSession, String>> {
        let cleared = matches!(replacement, SessionReplacement::Cleared { .. });
        let is_other = !matches!(replacement, SessionReplacement::Cleared { .. } | SessionReplacement::Changed { .. });
        let (servers, bypass_reachable) = {
            let props = self.sessions.lock_state();
            (props.servers.clone(), props.bypass_reachable)
        };
        let previous = |mode, mode_chosen| Some(PreviousMode { mode, bypass_reachable, mode_chosen });
        let (request, predecessor) = match replacement {
            SessionReplacement::Cleared { mode } => (self.cleared_request(), previous(mode, true)),
            SessionReplacement::Changed { changes, mode, mode_chosen } => {
                let request = self.launch_request().with_changes(*changes);
                self.store_request(&request);
                (self.keep_conversation(request), previous(mode, mode_chosen))
            }
            SessionReplacement::Resumed { session } => {
                let mut request = reset_conversation(self.launch_request());
                (request.session.title, request.session.default_title) = (None, None);
                request.session.resume = Some(session);
                (request, None)
            }
            SessionReplacement::Rewound { session, last } => {
                let mut request = reset_conversation(self.launch_request());
                request.session.resume = Some(session.to_string());
                request.session.resume_at = Some(last.to_string());
                (request, None)
            }
            SessionReplacement::Branched { session, title, mode } => {
                let mut request = reset_conversation(self.launch_request());
                (request.session.title, request.session.default_title) = (title, None);
                request.session.resume = Some(session.to_string());
                request.session.fork = true;
                (request, previous(mode, true))
            }
        };
        let options = LaunchOptions { cleared, predecessor, servers, ..self.options.clone() };
        options.flag_settings.mark_new();
        let (around, sessions, stored) = (self.around.clone(), self.sessions.clone(), Arc::clone(&self.request));
        Box::pin(async move {
            let started = start::start(&request, &around, &options).await.map_err(|error| error.text())?;
            if is_other {
                // What follows is about the session that runs now.
                *stored.lock().unwrap_or_else(PoisonError::into_inner) = request;
            }
            let (facts, warnings) = (started.facts.clone(), sessions.take_new_remarks(&started.warnings));
            Ok(OpenedSession { session: sessions.add_session(started), facts, warnings })
        })
    }

    fn check_changes(&self, changes: &SessionChanges) -> Result<(), String> {
        if let Some(title) = &changes.title {
            clean_title(title).map_err(|error| format!("title: {error}"))?;
        }
        let request = self.launch_request().with_changes(changes.clone());
        start::check_schema_and_agents(&request, &self.read_settings()?.env).map_err(|error| error.text())
    }

    fn check_hooks(&self, hooks: &[DriverHook]) -> Result<(), String> {
        gimlet_core::check_driver_hooks(hooks).map_err(|error| error.to_string())
    }

    fn list_sessions(&self, scope: SessionScope) -> BoxFuture<'static, Result<Vec<SessionInfo>, String>> {
        let around = self.around.clone();
        on_blocking_thread(move || session_catalogue::list_sessions(&around, scope))
    }

    fn search_sessions(&self, search: SessionSearch) -> BoxFuture<'static, Result<Vec<SessionMatch>, String>> {
        let around = self.around.clone();
        on_blocking_thread(move || session_catalogue::search_sessions(&around, &search))
    }

    fn prompt_history(&self, scope: SessionScope) -> BoxFuture<'static, Result<Vec<PromptHistoryEntry>, String>> {
        let around = self.around.clone();
        on_blocking_thread(move || {
            let folder = match scope {
                SessionScope::Folder => Some(around.cwd.as_path()),
                SessionScope::Everywhere => None,
            };
            let file = PromptHistoryFile::new(&StoreLocations::new(&around.config_home));
            file.read(folder, MAX_PROMPT_HISTORY).map_err(|error| format!("the history of prompts: {error}"))
        })
    }

    fn append_prompt_history(
        &self,
        session: &SessionId,
        entry: PromptHistoryEntry,
    ) -> BoxFuture<'static, Result<(), String>> {
        let is_kept =
            !self.launch_request().session.is_unsaved && !self.around.env.flag("CLAUDE_CODE_SKIP_PROMPT_HISTORY");
        let (around, session) = (self.around.clone(), session.clone());
        on_blocking_thread(move || {
            if !is_kept {
                return Ok(());
            }
            let file = PromptHistoryFile::new(&StoreLocations::new(&around.config_home));
            let written = file.append(&entry, &around.cwd, &session);
            written.map_err(|error| format!("the prompt was not added to the history: {error}"))
        })
    }

    fn models(&self) -> Vec<ModelInfo> {
        self.sessions.lock_state().models.clone()
    }

    fn servers(&self) -> Option<Arc<dyn ServerRegistry>> {
        self.sessions.lock_state().servers.clone().map(|servers| servers as Arc<dyn ServerRegistry>)
    }

    fn settings(&self) -> Result<SettingsView, String> {
        let configured = self.read_settings()?;
        let layer = |layer: &gimlet_config::SettingsLayer| SettingsLayerView {
            source: layer.scope.as_str(),
            settings: layer.to_value(),
        };
        let problem = |problem: &gimlet_config::SettingsProblem| SettingsProblemView {
            file: problem.file.clone(),
            key: problem.key.to_string(),
            message: problem.message.clone(),
        };
        let mut effective = configured.effective.merged.to_value();
        // The name of a style needs no trust, unlike a project's other settings.
        if let Some(style) = configured.named_output_style() {
            effective["outputStyle"] = json!(style);
        }
        Ok(SettingsView {
            effective,
            layers: configured.loaded.layers.iter().map(layer).collect(),
            problems: configured.urgent_problems().map(problem).collect(),
            output_style: configured.output_style(),
            output_styles: configured.available_styles().into_iter().map(|style| style.name).collect(),
            plugins: configured.plugin_summaries(),
            plugin_errors: configured.plugin_failures(),
        })
    }

    fn change_settings(&self, change: Map<String, Value>) -> Result<(), String> {
        let mut layer = self.flag_layer()?;
        for (key, value) in change {
            if value.is_null() {
                layer.remove(&key);
            } else {
                layer.insert(key, value);
            }
        }
        let text = Value::Object(layer).to_string();
        let mut request = self.launch_request();
        request.settings.flag = Some(text.clone());
        let configured = SessionSettings::read(&request, &self.around).map_err(|error| error.text())?;
        if let Some(problem) = configured.flag_problem() {
            return Err(problem);
        }
        self.options.flag_settings.replace(text);
        Ok(())
    }

    fn save_setting(&self, setting: SavedSetting) -> Result<(), String> {
        let sources = self.launch_request().settings.sources.unwrap_or_default();
        let (scope, is_read, key, value) = match setting {
            SavedSetting::OutputStyle(style) => (Scope::Local, sources.local, "outputStyle", style),
            SavedSetting::EffortLevel(level) if !EFFORTS.contains(&level.as_str()) => {
                return Err(format!("effortLevel can be {}, not '{level}'", EFFORTS.join(", ")));
            }
            SavedSetting::EffortLevel(level) => (Scope::User, sources.user, "effortLevel", level),
        };
        if !is_read {
            return Err(format!("this session does not read {}, so nothing is written there", scope.label()));
        }
        let locations = settings_mapping::find_locations(&self.around);
        let written = gimlet_config::save_setting(&locations, scope, key, &JsonEdit::Set(Value::String(value)));
        written.map(drop).map_err(|error| error.to_string())
    }

    fn suggest_files(&self, below: PathBuf, query: String) -> BoxFuture<'static, Vec<PathBuf>> {
        let walk = tokio::task::spawn_blocking(move || gimlet_tools::suggest_files(&below, &query, SUGGESTIONS));
        Box::pin(async move { walk.await.unwrap_or_default() })
    }

    fn rename_session(&self, session: &SessionId, title: &str) -> Result<(), String> {
        if self.launch_request().session.is_unsaved {
            return Err("this session is not kept, so it cannot have a title".to_owned());
        }
        let title = clean_title(title).map_err(|error| error.to_string())?;
        let troupe = self.sessions.lock_state();
        // A session resumed from another folder stays there.
        let plate = troupe.title_target.as_ref().filter(|plate| plate.files.id() == session);
        let plate = plate.ok_or_else(|| format!("session {session} is over"))?;
        // A session that replaces this one keeps the title.
        self.request.lock().unwrap_or_else(PoisonError::into_inner).session.title = Some(title.clone());
        if plate.early.try_set(&title) {
            return Ok(());
        }
        gimlet_store::rename_session(&plate.files, &title).map_err(|error| error.to_string())?;
        if let Some(mirror) = &self.options.mirror {
            let line = json!({"type": "custom-title", "customTitle": title, "sessionId": session}).to_string();
            mirror(&plate.files.transcript())(&line);
        }
        Ok(())
    }

    fn set_default_title(&self, session: &SessionId, title: &str) -> Result<(), String> {
        if self.sessions.lock_state().title_target.as_ref().is_some_and(|plate| plate.has_title) {
            return Ok(());
        }
        self.rename_session(session, title)
    }

    fn trust(&self) -> Result<FolderTrust, String> {
        Ok(self.read_settings()?.folder_trust())
    }

    fn accept_trust(&self, shown: &FolderTrust) -> Result<(), String> {
        self.read_settings()?.accept_folder_trust(shown)
    }
}

/// Runs work that reads files where blocking is harmless.
fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> BoxFuture<'static, Result<T, String>> {
    let work = tokio::task::spawn_blocking(work);
    Box::pin(async move { work.await.unwrap_or_else(|error| Err(error.to_string())) })
}
