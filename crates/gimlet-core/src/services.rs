//! Services shared by all calls of a conversation and, through the main conversation, by all conversations of a
//! session.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use gimlet_exec::{Confinement, Exec, Shell, ShellError};
use gimlet_policy::shell::EnvironmentNames;
use gimlet_proto::{
    AgentPath, Block, Env, Event, EventBody, EventHub, Op, PromptOrigin, SessionId, SubmittedPrompt, ToolCallPhase,
    ToolCallView, ToolUseId,
};
use gimlet_store::SessionCheckpoints;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agents::{ActivityClock, AgentMailboxes};
use crate::backgrounding::BackgroundableCalls;
use crate::checkpoints::FileCheckpoints;
use crate::confinement::{ConfinedReach, SessionConfinement};
use crate::files::FilePreferences;
use crate::hooks::HookRegistry;
use crate::past_calls::PastCalls;
use crate::plan_mode::PlanConfig;
use crate::redact::Redactor;
use crate::sandbox::{ActiveSandbox, SessionSandbox};
use crate::session::{ModeChangeRequest, SessionNamer, SessionState};
use crate::tasks::{Task, TaskRegistry};
use crate::tool::{PathContext, StateChange, ToolContext, ToolError};
use crate::write_barrier::DurableBarrier;

/// Process execution and shell of a session.
pub struct ProcessAccess {
    pub exec: Exec,
    /// Detected once; without a usable shell every other tool still works.
    pub shell: Result<Shell, ShellError>,
}

/// Services of one conversation. The working directory and the known files belong to the conversation; everything
/// else is shared with the session. Cheap to access and safe to share.
pub struct SessionServices {
    pub session: SessionId,
    pub env: Env,
    pub home: Option<PathBuf>,
    pub tasks: TaskRegistry,
    pub(crate) redactor: Redactor,
    /// Directory for large results and background output, created on first use.
    pub results_dir: PathBuf,
    hub: EventHub,
    state: Mutex<SessionState>,
    tool_states: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    path_locks: Arc<Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>>,
    /// Tasks that outlive their call; joined when the session closes.
    background: Arc<Mutex<JoinSet<()>>>,
    /// Sender to the session actor, for work that ends after its call.
    ops: Option<mpsc::UnboundedSender<Op>>,
    processes: Option<Arc<ProcessAccess>>,
    past: PastCalls,
    hooks: Arc<HookRegistry>,
    walls: Arc<ActiveSandbox>,
    confining: Option<Arc<SessionConfinement>>,
    plan_file: Option<PathBuf>,
    plan_instructions: Option<String>,
    /// Paths that belong to the session, such as its plan file; always writable.
    own: Arc<[PathBuf]>,
    naming: Option<SessionNamer>,
    checkpoints: Option<Arc<FileCheckpoints>>,
    file_habits: FilePreferences,
    /// Services of the main conversation, if these belong to a subagent.
    main: Option<Weak<SessionServices>>,
    mailboxes: Arc<AgentMailboxes>,
    movable: BackgroundableCalls,
    /// Time of the last progress in this conversation.
    pub(crate) pulse: Arc<ActivityClock>,
    /// Shared timestamp of events that need none.
    no_time: Arc<str>,
    environment_names: Mutex<Option<KnownVariableNames>>,
}

/// Variable names of an environment, together with that environment.
struct KnownVariableNames {
    variables: Arc<[(OsString, OsString)]>,
    names: Arc<EnvironmentNames>,
}

impl SessionServices {
    pub fn new(
        session: SessionId,
        env: Env,
        home: Option<PathBuf>,
        results_dir: PathBuf,
        hub: EventHub,
        state: SessionState,
    ) -> Self {
        Self {
            session,
            env,
            home,
            tasks: TaskRegistry::default(),
            redactor: Redactor::default(),
            results_dir,
            hub,
            state: Mutex::new(state),
            tool_states: Mutex::default(),
            path_locks: Arc::default(),
            background: Arc::default(),
            ops: None,
            processes: None,
            past: PastCalls::default(),
            hooks: Arc::default(),
            walls: Arc::default(),
            confining: None,
            plan_file: None,
            plan_instructions: None,
            own: Arc::default(),
            naming: None,
            checkpoints: None,
            file_habits: FilePreferences::default(),
            main: None,
            mailboxes: Arc::default(),
            movable: BackgroundableCalls::default(),
            pulse: Arc::default(),
            no_time: Arc::from(""),
            environment_names: Mutex::default(),
        }
    }

    /// Returns the services of a subagent launched from here: it starts in the project directory and knows no files.
    pub(crate) fn for_agent(self: &Arc<Self>, results_dir: PathBuf) -> Self {
        let (project_dir, roots) = {
            let state = self.lock_state();
            (state.project_dir.clone(), state.roots.clone())
        };
        let mut state = SessionState::new(project_dir, Vec::new());
        state.roots = roots;
        Self {
            session: self.session.clone(),
            env: self.env.clone(),
            home: self.home.clone(),
            tasks: self.tasks.clone(),
            redactor: self.redactor.clone(),
            results_dir,
            hub: self.hub.clone(),
            state: Mutex::new(state),
            tool_states: Mutex::default(),
            path_locks: self.path_locks.clone(),
            background: self.background.clone(),
            ops: self.ops.clone(),
            processes: self.processes.clone(),
            past: PastCalls::default(),
            hooks: self.hooks.clone(),
            walls: self.walls.clone(),
            confining: self.confining.clone(),
            // Only the main conversation presents a plan.
            plan_file: None,
            plan_instructions: None,
            naming: None,
            own: self.own.clone(),
            checkpoints: self.checkpoints.clone(),
            file_habits: self.file_habits,
            main: Some(self.session_lifetime()),
            mailboxes: self.mailboxes.clone(),
            movable: self.movable.clone(),
            pulse: Arc::new(ActivityClock::with_parent(&self.pulse)),
            no_time: self.no_time.clone(),
            environment_names: Mutex::default(),
        }
    }

    /// Returns the services that live as long as the session, for work that outlives its conversation.
    pub fn session_lifetime(self: &Arc<Self>) -> Weak<Self> {
        self.main.clone().unwrap_or_else(|| Arc::downgrade(self))
    }

    /// Returns the directory for large results of the whole session.
    pub(crate) fn session_results_dir(&self) -> PathBuf {
        let main = self.main.as_ref().and_then(Weak::upgrade);
        main.map_or_else(|| self.results_dir.clone(), |main| main.results_dir.clone())
    }

    pub(crate) fn mailboxes(&self) -> &AgentMailboxes {
        &self.mailboxes
    }

    /// Moves a foreground call to the background, or all foreground calls of the main conversation if `call` is
    /// `None`. Returns true if there was one.
    pub fn move_to_background(&self, call: Option<&ToolUseId>) -> bool {
        self.movable.request_background(call)
    }

    pub(crate) fn backgroundable_calls(&self) -> &BackgroundableCalls {
        &self.movable
    }

    /// Sets the sender through which finished background work notifies the session.
    pub fn with_ops(mut self, ops: mpsc::UnboundedSender<Op>) -> Self {
        self.ops = Some(ops);
        self
    }

    /// Sets the redactor that masks secret values in tool results.
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Sets the calls that the conversation made before this run.
    pub fn with_past_calls(mut self, past: PastCalls) -> Self {
        self.past = past;
        self
    }

    /// Returns the calls that the conversation made before this run, from which a tool can restore its state.
    pub fn past_calls(&self) -> &PastCalls {
        &self.past
    }

    /// Sets the plan file and the planning instructions.
    pub fn with_plan_config(mut self, plans: &PlanConfig) -> Self {
        self.plan_file.clone_from(&plans.file);
        self.plan_instructions.clone_from(&plans.instructions);
        self
    }

    /// Sets the files and directories that belong to the session.
    pub fn with_own_paths(mut self, own: Vec<PathBuf>) -> Self {
        self.own = own.into();
        self
    }

    /// Returns the path of the session's plan file, if it has one.
    pub fn plan_file(&self) -> Option<&Path> {
        self.plan_file.as_deref()
    }

    /// Returns the client's planning instructions, if any.
    pub(crate) fn plan_instructions(&self) -> Option<&str> {
        self.plan_instructions.as_deref()
    }

    /// Sets the namer that names the session after an approved plan.
    pub(crate) fn with_session_namer(mut self, naming: SessionNamer) -> Self {
        self.naming = Some(naming);
        self
    }

    /// Names an unnamed session after its approved plan.
    pub fn name_after_plan(&self, plan: &str) {
        if let Some(naming) = &self.naming {
            naming.name_after_plan(plan);
        }
    }

    /// Sets the checkpoints that keep file contents from before a change.
    pub fn with_checkpoints(mut self, checkpoints: Option<SessionCheckpoints>) -> Self {
        self.checkpoints = checkpoints.map(|kept| Arc::new(FileCheckpoints::new(kept)));
        self
    }

    pub(crate) fn checkpoints(&self) -> Option<&FileCheckpoints> {
        self.checkpoints.as_deref()
    }

    /// Sets the user's preferences for reading and changing files.
    pub fn with_file_preferences(mut self, habits: FilePreferences) -> Self {
        self.file_habits = habits;
        self
    }

    /// Returns the user's preferences for reading and changing files.
    pub fn file_preferences(&self) -> FilePreferences {
        self.file_habits
    }

    /// Sets the hooks that observe and influence events.
    pub(crate) fn with_hooks(mut self, hooks: HookRegistry) -> Self {
        self.hooks = Arc::new(hooks);
        self
    }

    /// Returns the registered hooks.
    pub fn hooks(&self) -> &HookRegistry {
        &self.hooks
    }

    /// Sets the sandbox for commands.
    pub fn with_sandbox(self, sandboxing: Option<Arc<SessionSandbox>>) -> Self {
        self.walls.replace(sandboxing);
        self
    }

    /// Returns the sandbox for commands, which settings can change.
    pub(crate) fn active_sandbox(&self) -> &ActiveSandbox {
        &self.walls
    }

    /// Returns true if commands run in the sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.walls.current().is_some()
    }

    /// Sets the confinement of commands that run without approval.
    pub fn with_confinement(mut self, confining: Option<Arc<SessionConfinement>>) -> Self {
        self.confining = confining;
        self
    }

    /// Returns the confinement of commands that run without approval; `None` if the session confines none.
    pub fn confinement(&self) -> Option<io::Result<Arc<Confinement>>> {
        let confining = self.confining.as_ref()?;
        let shell = self.shell()?;
        let mut readable = shell.start_up_files();
        readable.push(self.session_results_dir());
        let paths = self.paths();
        let reach = ConfinedReach { roots: paths.roots, readable, home: paths.home };
        Some(confining.confinement_for(reach, &self.env))
    }

    /// Sets the access to processes.
    pub fn with_processes(mut self, processes: ProcessAccess) -> Self {
        self.processes = Some(Arc::new(processes));
        self
    }

    /// Returns the access to processes, or an error if none can be started, for example while a file that an earlier
    /// command left behind could be executed by other programs. Everything that starts processes for a call must use
    /// this.
    pub fn processes(&self) -> Result<(&Exec, &Shell), ToolError> {
        let processes =
            self.processes.as_ref().ok_or_else(|| ToolError::failed("this session cannot start processes"))?;
        if let Some(walls) = self.walls.latest() {
            walls.check_no_leftovers()?;
        }
        match &processes.shell {
            Ok(shell) => Ok((&processes.exec, shell)),
            Err(error) => Err(ToolError::failed(format!("commands cannot run: {error}"))),
        }
    }

    /// Returns the shell that commands would run in, for queries that start no process.
    pub(crate) fn shell(&self) -> Option<&Shell> {
        self.processes.as_ref().and_then(|processes| processes.shell.as_ref().ok())
    }

    /// Returns the directories against which paths are currently judged.
    pub fn paths(&self) -> PathContext {
        let main = self.main.as_ref().and_then(Weak::upgrade);
        // Subagents use the session's roots, also when these change during their run.
        let roots = main.map(|main| main.lock_state().roots.clone());
        let state = self.lock_state();
        PathContext {
            cwd: state.cwd.clone(),
            project_dir: state.project_dir.clone(),
            roots: roots.unwrap_or_else(|| state.roots.clone()),
            home: self.home.clone(),
            env: self.env.clone(),
            environment: self.environment_names(),
        }
    }

    /// Returns the names of the variables that commands get, or `None` if others could be added. Cached per
    /// environment.
    fn environment_names(&self) -> Option<Arc<EnvironmentNames>> {
        let variables = self.shell().and_then(Shell::known_environment)?;
        // Values under this lock are replaced as a whole, so a poisoned lock still holds a complete value.
        let mut known = self.environment_names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && Arc::ptr_eq(&known.variables, &variables)
        {
            return Some(Arc::clone(&known.names));
        }
        let names = Arc::new(EnvironmentNames::new(variables.iter().map(|(name, _)| name)));
        *known = Some(KnownVariableNames { variables, names: Arc::clone(&names) });
        Some(names)
    }

    /// Returns the files and directories that the session may always write.
    pub(crate) fn own_paths(&self) -> &[PathBuf] {
        &self.own
    }

    /// Creates the context of one call. `resolved` holds the paths as resolved by the gate.
    pub fn tool_context(
        self: &Arc<Self>,
        tool: impl Into<Arc<str>>,
        call: ToolUseId,
        agent: AgentPath,
        cancel: CancellationToken,
        summary: String,
        resolved: Vec<(PathBuf, PathBuf)>,
    ) -> ToolContext {
        ToolContext {
            recorded: DurableBarrier::default(),
            call,
            agent,
            cancel,
            paths: self.paths(),
            services: self.clone(),
            started: Instant::now(),
            tool: tool.into(),
            summary,
            resolved,
            closed: None,
            sandbox: None,
            confinement: None,
            amended: false,
            scope: None,
        }
    }

    /// Locks the session state. Only the scheduler may change it; others read.
    pub(crate) fn lock_state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of a tool, created on first use.
    pub fn tool_state<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut states = self.tool_states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // The entry was created from a T under the type id of T, so the downcast succeeds.
        state.clone().downcast::<T>().unwrap_or_default()
    }

    /// Returns the lock that a call holds while it changes the file at this symlink-free path.
    pub fn path_lock(&self, path: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.path_locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(path.to_owned(), Arc::downgrade(&lock));
        lock
    }

    /// Applies the state changes of a call's result.
    pub(crate) fn apply_changes(&self, changes: impl IntoIterator<Item = StateChange>) {
        let mut state = self.lock_state();
        for change in changes {
            change(&mut state);
        }
        self.reset_agent_cwd(&mut state);
    }

    /// Resets the working directory of a subagent: all its commands start in one directory.
    fn reset_agent_cwd(&self, state: &mut SessionState) {
        if self.main.is_some() {
            state.cwd = state.project_dir.clone();
        }
    }

    /// Applies the state changes of a result of which the model gets only a preview: files read for it do not count
    /// as seen.
    pub(crate) fn apply_unseen_changes(&self, changes: impl IntoIterator<Item = StateChange>) {
        let mut state = self.lock_state();
        let before = state.files.current_tick();
        for change in changes {
            change(&mut state);
        }
        state.files.forget_since(before);
        self.reset_agent_cwd(&mut state);
    }

    /// Takes the pending request for a permission mode change, if a call made one.
    pub(crate) fn take_mode_request(&self) -> Option<ModeChangeRequest> {
        self.lock_state().mode_request.take()
    }

    /// Sets the working directories beside the initial one. They belong to the session: a change by a subagent
    /// applies to all.
    pub(crate) fn set_added_directories(&self, added: Vec<PathBuf>) {
        if let Some(main) = self.main.as_ref().and_then(Weak::upgrade) {
            return main.set_added_directories(added);
        }
        let roots = &mut self.lock_state().roots;
        roots.truncate(1);
        roots.extend(added);
    }

    /// Spawns work that outlives its call. It ends with the session at the latest.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut background = self.background.lock().unwrap_or_else(PoisonError::into_inner);
        while background.try_join_next().is_some() {}
        background.spawn(work);
    }

    /// Ends all work that outlived its call.
    pub(crate) async fn close(&self) {
        for task in self.tasks.running() {
            task.stop().await;
        }
        self.abandon().await;
    }

    /// Ends all running work without waiting for its final output.
    pub(crate) async fn abandon(&self) {
        let mut background = std::mem::take(&mut *self.background.lock().unwrap_or_else(PoisonError::into_inner));
        background.shutdown().await;
        if let Some(processes) = &self.processes {
            processes.exec.shutdown(gimlet_exec::KILL_GRACE).await;
        }
        if let Some(walls) = self.walls.latest() {
            // No process of any command is left at this point.
            walls.check_at_session_end(self).await;
        }
    }

    /// Publishes the change of a background task and, if it ended by itself, notifies the model.
    pub fn publish_task_change(&self, task: &Task, for_model: Option<String>) {
        self.publish(&AgentPath::default(), EventBody::Task(Box::new(task.view())));
        if let Some(text) = for_model {
            self.notify_task_owner(&task.owner, text);
        }
    }

    /// Notifies an agent of the end of one of its tasks.
    pub(crate) fn notify_task_owner(&self, owner: &AgentPath, text: String) {
        let origin = Some(PromptOrigin::TaskNotification);
        self.send_to_agent(
            owner,
            SubmittedPrompt { blocks: vec![Block::text(&text)], synthetic: true, origin, ..SubmittedPrompt::default() },
        );
    }

    /// Sends a message to an agent. If the agent has ended, the message goes to the main conversation.
    pub(crate) fn send_to_agent(&self, agent: &AgentPath, said: SubmittedPrompt) {
        // After the session has closed there is no receiver left.
        if let Some(said) = self.mailboxes.deliver(agent, said)
            && let Some(ops) = &self.ops
        {
            drop(ops.send(Op::Submit(said)));
        }
    }

    /// Publishes an event of the given agent.
    pub fn publish(&self, agent: &AgentPath, body: EventBody) {
        if is_progress(&body) {
            self.pulse.record_activity();
        }
        self.hub.publish(Event {
            seq: 0,
            session: self.session.clone(),
            agent: agent.clone(),
            at: if body.has_timestamp() { gimlet_store::current_timestamp().into() } else { self.no_time.clone() },
            body,
        });
    }

    pub(crate) fn publish_progress(&self, cx: &ToolContext, text: String) {
        let text = self.redactor.mask(&text).into_owned();
        let phase = ToolCallPhase::Progress { text, elapsed_ms: cx.elapsed_ms() };
        self.publish(
            &cx.agent,
            EventBody::Tool(Box::new(ToolCallView {
                call: cx.call.clone(),
                name: cx.tool.to_string(),
                summary: cx.summary.clone(),
                phase,
            })),
        );
    }
}

/// Returns true if the event shows progress; events of mere waiting do not count.
fn is_progress(body: &EventBody) -> bool {
    match body {
        EventBody::Tool(tool) => !matches!(&tool.phase, ToolCallPhase::Progress { text, .. } if text.is_empty()),
        EventBody::Notice(_) | EventBody::Task(_) => false,
        _ => true,
    }
}
