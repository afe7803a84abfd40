//! Host services of a driven session: replacing the session, settings, titles.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_app::{
    LaunchRequest, ProcessEnv,
    start::{self, LaunchOptions, PreviousMode, SessionCleanup, SessionSettings, SessionTitleTarget, StartedSession},
};
use gimlet_config::{JsonEdit, Scope};
use gimlet_core::HookEvent;
use gimlet_mcp::McpServers;
use gimlet_proto::{BoxFuture, ServerRegistry, SessionHandle, SessionId};
use gimlet_serve::sdk::{InitializeRequest, ReopenReason, ReopenedSession, SavedSetting, SessionBackend};
use gimlet_store::{clean_title, read_summary};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

/// Effort levels that a file can store; the highest is for single sessions.
const EFFORTS: [&str; 4] = ["low", "medium", "high", "xhigh"];
/// Maximum suggestions found; rules may hide many of the best matches, so the caller filters until it has enough.
const SUGGESTIONS: usize = 10_000;

type SessionFuture = BoxFuture<'static, ()>;

/// Sessions of this run, one after the other, and what must be cleaned up after them.
#[derive(Clone)]
pub(super) struct HostedSessions {
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
    /// The agent that it keeps when its conversation is cleared; an empty name for none.
    agent_when_cleared: Option<String>,
    bypass_reachable: bool,
    /// Remarks that were already shown.
    shown_remarks: HashSet<String>,
}

impl HostedSessions {
    /// Creates the list; the receiver yields the session futures to run.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<SessionFuture>) {
        let (arrivals, receiver) = mpsc::unbounded_channel();
        (Self { new_sessions: arrivals, state: Arc::default() }, receiver)
    }

    /// Adds a session; returns its handle.
    pub(super) fn add_session(
        &self,
        started: StartedSession<impl Future<Output = ()> + Send + 'static>,
    ) -> SessionHandle {
        let mut props = self.lock_state();
        props.session = Some(started.handle.clone());
        props.cleanups.push(started.cleanup);
        props.servers = started.servers;
        props.title_target = Some(started.title_target);
        props.agent_when_cleared = started.agent_when_cleared;
        props.bypass_reachable = started.bypass_reachable;
        // Without a receiver the run is over, and this session with it.
        drop(self.new_sessions.send(Box::pin(started.session_future)));
        started.handle
    }

    /// Returns the remarks that were not shown for an earlier session.
    pub(super) fn take_new_remarks(&self, remarks: &[String]) -> Vec<String> {
        let mut props = self.lock_state();
        remarks.iter().filter(|remark| props.shown_remarks.insert((*remark).clone())).cloned().collect()
    }

    /// Asks the running session to end at once, because gimlet exits.
    pub(super) fn request_exit(&self) {
        if let Some(session) = &self.lock_state().session {
            session.request_exit();
        }
    }

    /// Ends everything that runs for any of them, and cleans up. Returns lines for the user.
    pub(super) async fn shut_down(&self) -> Vec<String> {
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
pub(super) struct SessionHost {
    /// Includes the host's later changes.
    request: Mutex<LaunchRequest>,
    around: ProcessEnv,
    options: LaunchOptions,
    sessions: HostedSessions,
}

impl SessionHost {
    pub(super) fn new(
        request: LaunchRequest,
        around: ProcessEnv,
        options: LaunchOptions,
        sessions: HostedSessions,
    ) -> Self {
        Self { request: Mutex::new(request), around, options, sessions }
    }

    fn launch_request(&self) -> LaunchRequest {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read_settings(&self) -> Result<SessionSettings, String> {
        let mut request = self.launch_request();
        request.settings.flag = self.options.flag_settings.text().or(request.settings.flag);
        SessionSettings::read(&request, &self.around).map_err(|report| report.text())
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

/// Checks that every hook that a program registers can be called.
pub(super) fn check_hooks(wishes: &InitializeRequest) -> Result<(), String> {
    if let Some(problem) = &wishes.hooks_problem {
        return Err(problem.clone());
    }
    gimlet_core::check_driver_hooks(wishes.hooks.as_deref().unwrap_or_default()).map_err(|error| error.to_string())
}

/// Returns a settings problem in the form that programs expect.
fn settings_error_json(problem: &gimlet_config::SettingsProblem) -> Value {
    json!({"file": problem.file.to_string_lossy(), "path": problem.key, "message": problem.message})
}

impl SessionBackend for SessionHost {
    fn reopen(&self, why: ReopenReason) -> BoxFuture<'static, Result<ReopenedSession, String>> {
        let cleared = matches!(why, ReopenReason::Cleared { .. });
        let (request, mode, mode_chosen) = match why {
            ReopenReason::Cleared { mode } => {
                let mut request = reset_conversation(self.launch_request());
                // An agent restored with the conversation stays when that is cleared.
                request.agents.main =
                    request.agents.main.or_else(|| self.sessions.lock_state().agent_when_cleared.clone());
                if let Some(title) = self.current_title() {
                    (request.session.title, request.session.default_title) = (Some(title), None);
                }
                (request, mode, true)
            }
            ReopenReason::Reinitialized { wishes, mode, mode_chosen } => {
                let request = super::apply_initialize(&self.launch_request(), *wishes);
                self.request.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&request);
                (self.keep_conversation(request), mode, mode_chosen)
            }
        };
        let (around, troupe) = (self.around.clone(), self.sessions.clone());
        let (servers, bypass_reachable) = {
            let props = self.sessions.lock_state();
            (props.servers.clone(), props.bypass_reachable)
        };
        let predecessor = Some(PreviousMode { mode, bypass_reachable, mode_chosen });
        let manner = LaunchOptions { cleared, predecessor, servers, ..self.options.clone() };
        manner.flag_settings.mark_new();
        Box::pin(async move {
            let started = start::start(&request, &around, &manner).await.map_err(|report| report.text())?;
            let (welcome, face) = (super::initialize_response(&started.facts), super::init_facts(&started.facts));
            let warnings = troupe.take_new_remarks(&started.warnings);
            Ok(ReopenedSession {
                session: troupe.add_session(started),
                initialize_response: welcome,
                init_facts: face,
                warnings,
            })
        })
    }

    fn check_initialize(&self, wishes: &InitializeRequest) -> Result<(), String> {
        if let Some(title) = &wishes.title {
            clean_title(title).map_err(|error| format!("title: {error}"))?;
        }
        let request = super::apply_initialize(&self.launch_request(), wishes.clone());
        start::check_schema_and_agents(&request, &self.read_settings()?.env).map_err(|report| report.text())
    }

    fn check_hooks(&self, wishes: &InitializeRequest) -> Result<(), String> {
        check_hooks(wishes)
    }

    fn servers(&self) -> Option<Arc<dyn ServerRegistry>> {
        self.sessions.lock_state().servers.clone().map(|servers| servers as Arc<dyn ServerRegistry>)
    }

    fn settings(&self) -> Result<Value, String> {
        let configured = self.read_settings()?;
        let layer = |layer: &gimlet_config::SettingsLayer| json!({"source": layer.scope.as_str(), "settings": layer.to_value()});
        let mut effective = configured.effective.merged.to_value();
        // The name of a style needs no trust, unlike a project's other settings.
        if let Some(style) = configured.named_output_style() {
            effective["outputStyle"] = json!(style);
        }
        Ok(json!({
            "effective": effective,
            "sources": configured.loaded.layers.iter().map(layer).collect::<Vec<_>>(),
            "errors": configured.urgent_problems().map(settings_error_json).collect::<Vec<_>>(),
        }))
    }

    fn output_style(&self) -> Option<String> {
        self.read_settings().ok().map(|configured| configured.output_style())
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
        let configured = SessionSettings::read(&request, &self.around).map_err(|report| report.text())?;
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
        let locations = gimlet_app::settings_mapping::find_locations(&self.around);
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

    fn hook_events(&self) -> Vec<(&'static str, bool)> {
        HookEvent::firing().map(|event| (event.name(), event.has_subject())).collect()
    }

    fn timestamp(&self) -> String {
        gimlet_store::current_timestamp()
    }
}
