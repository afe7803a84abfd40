//! What a driven session needs from behind the stage: a new session in place of the old, settings, titles.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_config::{Edit, Scope};
use gimlet_core::HookEvent;
use gimlet_mcp::McpServers;
use gimlet_proto::{BoxFuture, Servers, SessionHandle, SessionId};
use gimlet_serve::sdk::{Backstage, Initialize, Reopen, Reopened, SavedSetting};
use gimlet_store::{clean_title, peek};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::args::RunArgs;
use crate::start::{self, Configured, LeftBehind, Manner, NamePlate, Predecessor, Started};
use crate::surroundings::Surroundings;

/// The levels that a file keeps; the highest is for single sessions.
const EFFORTS: [&str; 4] = ["low", "medium", "high", "xhigh"];
/// Of the files that fit best, rules may close many; whoever asks judges them until there are enough.
const SUGGESTIONS: usize = 10_000;

type Life = BoxFuture<'static, ()>;

/// The sessions of this run, one after the other, and what has to be cleared away behind them.
#[derive(Clone)]
pub(super) struct Troupe {
    arrivals: mpsc::UnboundedSender<Life>,
    props: Arc<Mutex<Props>>,
}

#[derive(Default)]
struct Props {
    session: Option<SessionHandle>,
    behind: Vec<LeftBehind>,
    /// Those of the session that runs.
    servers: Option<Arc<McpServers>>,
    name_plate: Option<NamePlate>,
    /// The agent that it keeps when its conversation is cleared; an empty name for none.
    agent_when_cleared: Option<String>,
    bypass_reachable: bool,
    /// Remarks that people have read.
    told: HashSet<String>,
}

impl Troupe {
    /// The lives that have to be run come out of the receiver.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Life>) {
        let (arrivals, receiver) = mpsc::unbounded_channel();
        (Self { arrivals, props: Arc::default() }, receiver)
    }

    /// Takes a session in; gives its handle.
    pub(super) fn join(&self, started: Started<impl Future<Output = ()> + Send + 'static>) -> SessionHandle {
        let mut props = self.lock();
        props.session = Some(started.handle.clone());
        props.behind.push(started.behind);
        props.servers = started.servers;
        props.name_plate = Some(started.name_plate);
        props.agent_when_cleared = started.agent_when_cleared;
        props.bypass_reachable = started.bypass_reachable;
        // Without a receiver the run is over, and this session with it.
        drop(self.arrivals.send(Box::pin(started.life)));
        started.handle
    }

    /// The remarks about a session that were not made about one before it.
    pub(super) fn news(&self, remarks: &[String]) -> Vec<String> {
        let mut props = self.lock();
        remarks.iter().filter(|remark| props.told.insert((*remark).clone())).cloned().collect()
    }

    /// gimlet has to go: the session that runs ends where it is.
    pub(super) fn part(&self) {
        if let Some(session) = &self.lock().session {
            session.leave();
        }
    }

    /// Ends what runs for any of them, and clears away what they left.
    pub(super) async fn shut_down(&self) {
        let behind = std::mem::take(&mut self.lock().behind);
        for left in behind {
            left.clear_away().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Props> {
        self.props.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stage with everything that a session was opened with.
pub(super) struct Stage {
    /// With what the host wished for later.
    run: Mutex<RunArgs>,
    around: Surroundings,
    manner: Manner,
    troupe: Troupe,
}

impl Stage {
    pub(super) fn new(run: RunArgs, around: Surroundings, manner: Manner, troupe: Troupe) -> Self {
        Self { run: Mutex::new(run), around, manner, troupe }
    }

    fn run(&self) -> RunArgs {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn configured(&self) -> Result<Configured, String> {
        let mut run = self.run();
        run.settings = self.manner.flag_settings.text().or(run.settings);
        Configured::read(&run, &self.around).map_err(|report| report.text())
    }

    /// The settings of the command line as they are now.
    fn flag_layer(&self) -> Result<Map<String, Value>, String> {
        let Some(flag) = self.manner.flag_settings.text().or_else(|| self.run().settings) else {
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

impl Stage {
    /// What the session is called in its file, whoever gave it that name.
    fn title_so_far(&self) -> Option<String> {
        let path = self.troupe.lock().name_plate.as_ref()?.files.transcript();
        peek(&path).ok().flatten()?.labels.title.filter(|title| !title.is_empty())
    }

    /// A copy that was made for the session is the one to go on with; it is not made twice. Where nothing is kept there
    /// is only its id to go on with.
    fn with_same_conversation(&self, mut run: RunArgs) -> RunArgs {
        if run.fork_session {
            let copy = self.troupe.lock().name_plate.as_ref().map(|plate| plate.files.id().to_string());
            if run.no_session_persistence {
                run.session_id = copy;
            } else {
                run = with_new_conversation(run);
                run.resume = copy;
            }
        }
        run
    }
}

/// The flags for a session that begins with nothing.
fn with_new_conversation(mut run: RunArgs) -> RunArgs {
    (run.resume, run.session_id) = (None, None);
    (run.resume_session_at, run.resume_drops_turn) = (None, None);
    (run.continue_session, run.fork_session) = (false, false);
    run
}

/// Whether every hook that a program wants is one that can be called.
pub(super) fn check_hooks(wishes: &Initialize) -> Result<(), String> {
    if let Some(problem) = &wishes.hooks_problem {
        return Err(problem.clone());
    }
    gimlet_core::check_driver_hooks(wishes.hooks.as_deref().unwrap_or_default()).map_err(|error| error.to_string())
}

/// What is wrong with settings, in the form that programs know.
fn settings_error(problem: &gimlet_config::Problem) -> Value {
    json!({"file": problem.file.to_string_lossy(), "path": problem.key, "message": problem.message})
}

impl Backstage for Stage {
    fn reopen(&self, why: Reopen) -> BoxFuture<'static, Result<Reopened, String>> {
        let cleared = matches!(why, Reopen::Cleared { .. });
        let (run, mode, mode_chosen) = match why {
            Reopen::Cleared { mode } => {
                let mut run = with_new_conversation(self.run());
                // One that came back with the conversation stays when that goes.
                run.agent = run.agent.or_else(|| self.troupe.lock().agent_when_cleared.clone());
                if let Some(title) = self.title_so_far() {
                    (run.name, run.wished_title) = (Some(title), None);
                }
                (run, mode, true)
            }
            Reopen::Greeted { wishes, mode, mode_chosen } => {
                let run = super::as_wished(&self.run(), *wishes);
                self.run.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&run);
                (self.with_same_conversation(run), mode, mode_chosen)
            }
        };
        let (around, troupe) = (self.around.clone(), self.troupe.clone());
        let (servers, bypass_reachable) = {
            let props = self.troupe.lock();
            (props.servers.clone(), props.bypass_reachable)
        };
        let predecessor = Some(Predecessor { mode, bypass_reachable, mode_chosen });
        let manner = Manner { cleared, predecessor, servers, ..self.manner.clone() };
        manner.flag_settings.renew();
        Box::pin(async move {
            let started = start::start(&run, &around, &manner).await.map_err(|report| report.text())?;
            let (welcome, face) = (super::welcome(&started.facts), super::face(&started.facts));
            let warnings = troupe.news(&started.warnings);
            Ok(Reopened { session: troupe.join(started), welcome, face, warnings })
        })
    }

    fn check_shape(&self, wishes: &Initialize) -> Result<(), String> {
        if let Some(title) = &wishes.title {
            clean_title(title).map_err(|error| format!("title: {error}"))?;
        }
        let run = super::as_wished(&self.run(), wishes.clone());
        start::check_shape(&run, &self.configured()?.env).map_err(|report| report.text())
    }

    fn check_hooks(&self, wishes: &Initialize) -> Result<(), String> {
        check_hooks(wishes)
    }

    fn servers(&self) -> Option<Arc<dyn Servers>> {
        self.troupe.lock().servers.clone().map(|servers| servers as Arc<dyn Servers>)
    }

    fn settings(&self) -> Result<Value, String> {
        let configured = self.configured()?;
        let layer = |layer: &gimlet_config::Layer| json!({"source": layer.scope.as_str(), "settings": layer.value()});
        let mut effective = configured.effective.merged.value();
        // The name of a style holds without trust, which everything else of a project's waits for.
        if let Some(style) = configured.named_output_style() {
            effective["outputStyle"] = json!(style);
        }
        Ok(json!({
            "effective": effective,
            "sources": configured.loaded.layers.iter().map(layer).collect::<Vec<_>>(),
            "errors": configured.pressing_problems().map(settings_error).collect::<Vec<_>>(),
        }))
    }

    fn output_style(&self) -> Option<String> {
        self.configured().ok().map(|configured| configured.output_style())
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
        let mut run = self.run();
        run.settings = Some(text.clone());
        let configured = Configured::read(&run, &self.around).map_err(|report| report.text())?;
        if let Some(problem) = configured.flag_problem() {
            return Err(problem);
        }
        self.manner.flag_settings.replace(text);
        Ok(())
    }

    fn save_setting(&self, setting: SavedSetting) -> Result<(), String> {
        let sources = self.run().setting_sources.unwrap_or_default();
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
        let locations = crate::settings::locations(&self.around);
        let written = gimlet_config::save(&locations, scope, key, &Edit::Set(Value::String(value)));
        written.map(drop).map_err(|error| error.to_string())
    }

    fn suggest_files(&self, below: PathBuf, query: String) -> BoxFuture<'static, Vec<PathBuf>> {
        let walk = tokio::task::spawn_blocking(move || gimlet_tools::suggest_files(&below, &query, SUGGESTIONS));
        Box::pin(async move { walk.await.unwrap_or_default() })
    }

    fn rename(&self, session: &SessionId, title: &str) -> Result<(), String> {
        if self.run().no_session_persistence {
            return Err("this session is not kept, so it cannot have a title".to_owned());
        }
        let title = clean_title(title).map_err(|error| error.to_string())?;
        let troupe = self.troupe.lock();
        // A session that goes on with one of another folder stays there.
        let plate = troupe.name_plate.as_ref().filter(|plate| plate.files.id() == session);
        let plate = plate.ok_or_else(|| format!("session {session} is over"))?;
        // Whatever session takes its place keeps the name.
        self.run.lock().unwrap_or_else(PoisonError::into_inner).name = Some(title.clone());
        if plate.early.give(&title) {
            return Ok(());
        }
        gimlet_store::rename(&plate.files, &title).map_err(|error| error.to_string())?;
        if let Some(mirror) = &self.manner.mirror {
            let line = json!({"type": "custom-title", "customTitle": title, "sessionId": session}).to_string();
            mirror.of(&plate.files.transcript().to_string_lossy())(&line);
        }
        Ok(())
    }

    fn entitle(&self, session: &SessionId, title: &str) -> Result<(), String> {
        if self.troupe.lock().name_plate.as_ref().is_some_and(|plate| plate.titled) {
            return Ok(());
        }
        self.rename(session, title)
    }

    fn hook_events(&self) -> Vec<(&'static str, bool)> {
        HookEvent::all().map(|event| (event.name(), event.has_subject())).collect()
    }

    fn timestamp(&self) -> String {
        gimlet_store::timestamp()
    }
}
