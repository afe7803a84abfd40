//! Services that the calls of one conversation use: what they share with the whole session, and what is their
//! conversation's own.

mod conversation_state;
mod process_access;
mod session_shared;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;

use gimlet_exec::{Confinement, Exec, Shell};
use gimlet_proto::{
    AgentPath, Block, Env, EventBody, Op, PromptOrigin, SessionId, SubmittedPrompt, ToolCallPhase, ToolCallView,
    ToolUseId,
};
use tokio_util::sync::CancellationToken;

use crate::agents::{ActivityClock, AgentMailboxes};
use crate::backgrounding::BackgroundableCalls;
use crate::checkpoints::FileCheckpoints;
use crate::confinement::ConfinedReach;
use crate::files::FilePreferences;
use crate::hooks::HookRegistry;
use crate::image_fitting::ImageFitter;
use crate::past_calls::PastCalls;
use crate::plan_mode::PlanConfig;
use crate::redact::Redactor;
use crate::sandbox::ActiveSandbox;
use crate::segment_context::SegmentContextSource;
use crate::session::{ModeChangeRequest, SessionNamer, SessionState};
use crate::skills::SkillSet;
use crate::tasks::{Task, TaskRegistry};
use crate::tool::{PathContext, StateChange, ToolContext, ToolError};
use crate::write_barrier::DurableBarrier;
use conversation_state::ConversationState;
pub use process_access::ProcessAccess;
pub use session_shared::SessionShared;

/// Services of one conversation. The working directory and the known files belong to the conversation; everything
/// else is shared with the session. Cheap to access and safe to share.
pub struct SessionServices {
    shared: Arc<SessionShared>,
    conversation: ConversationState,
    /// Plan file and instructions; only the main conversation presents a plan.
    plan: PlanConfig,
    /// Names the session after an approved plan; in the main conversation only.
    session_namer: Option<SessionNamer>,
    /// Services of the main conversation, if these belong to a subagent.
    main: Option<Weak<SessionServices>>,
}

impl SessionServices {
    /// Creates the services of the main conversation. `results_dir` is the directory for large results.
    pub fn new(shared: SessionShared, state: SessionState, results_dir: PathBuf) -> Self {
        Self {
            shared: Arc::new(shared),
            conversation: ConversationState::new(state, results_dir),
            plan: PlanConfig::default(),
            session_namer: None,
            main: None,
        }
    }

    /// Returns the services of a subagent launched from here. `past_calls` are its calls in an earlier run.
    pub(crate) fn for_agent(self: &Arc<Self>, results_dir: PathBuf, past_calls: PastCalls) -> Self {
        Self {
            shared: self.shared.clone(),
            conversation: self.conversation.for_agent(results_dir, past_calls),
            plan: PlanConfig::default(),
            session_namer: None,
            main: Some(self.session_lifetime()),
        }
    }

    /// Sets the calls that the conversation made before this run.
    pub fn with_past_calls(mut self, past_calls: PastCalls) -> Self {
        self.conversation.past_calls = past_calls;
        self
    }

    /// Sets the plan file and the planning instructions.
    pub fn with_plan_config(mut self, plan: PlanConfig) -> Self {
        self.plan = plan;
        self
    }

    /// Sets the namer that names the session after an approved plan.
    pub(crate) fn with_session_namer(mut self, namer: SessionNamer) -> Self {
        self.session_namer = Some(namer);
        self
    }

    /// Returns the services that live as long as the session, for work that outlives its conversation.
    pub fn session_lifetime(self: &Arc<Self>) -> Weak<Self> {
        self.main.clone().unwrap_or_else(|| Arc::downgrade(self))
    }

    pub fn session_id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Returns the environment variables that gimlet was started with.
    pub fn env(&self) -> &Env {
        &self.shared.env
    }

    /// Returns the session's transcript; `None` if it is not kept.
    pub fn transcript(&self) -> Option<&Path> {
        self.shared.transcript.as_deref()
    }

    /// Returns the background tasks of the session.
    pub fn tasks(&self) -> &TaskRegistry {
        &self.shared.tasks
    }

    /// Returns the redactor that masks secret values.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.shared.redactor
    }

    /// Returns the sources of what stands in front of conversations.
    pub(crate) fn context_sources(&self) -> &[Arc<dyn SegmentContextSource>] {
        &self.shared.context_sources
    }

    /// Returns the skills, as they are now.
    pub fn skills(&self) -> Arc<SkillSet> {
        self.shared.skills.current()
    }

    /// Returns the registered hooks.
    pub fn hooks(&self) -> &HookRegistry {
        &self.shared.hooks
    }

    pub(crate) fn mailboxes(&self) -> &AgentMailboxes {
        &self.shared.mailboxes
    }

    pub(crate) fn backgroundable_calls(&self) -> &BackgroundableCalls {
        &self.shared.backgroundable_calls
    }

    /// Moves a foreground call to the background, or all foreground calls of the main conversation if `call` is
    /// `None`. Returns true if there was one.
    pub fn move_to_background(&self, call: Option<&ToolUseId>) -> bool {
        self.shared.backgroundable_calls.request_background(call)
    }

    /// Returns the conversation's directory for large results and background output, created on first use.
    pub fn results_dir(&self) -> &Path {
        &self.conversation.results_dir
    }

    /// Returns the directory for large results of the whole session.
    pub(crate) fn session_results_dir(&self) -> PathBuf {
        let main = self.main.as_ref().and_then(Weak::upgrade);
        main.map_or_else(|| self.results_dir().to_owned(), |main| main.results_dir().to_owned())
    }

    /// Returns the calls that the conversation made before this run, from which a tool can restore its state.
    pub fn past_calls(&self) -> &PastCalls {
        &self.conversation.past_calls
    }

    /// Returns the clock of the conversation's last progress.
    pub(crate) fn activity(&self) -> &Arc<ActivityClock> {
        &self.conversation.activity
    }

    /// Returns the path of the session's plan file, if it has one.
    pub fn plan_file(&self) -> Option<&Path> {
        self.plan.file.as_deref()
    }

    /// Returns the client's planning instructions, if any.
    pub(crate) fn plan_instructions(&self) -> Option<&str> {
        self.plan.instructions.as_deref()
    }

    /// Names an unnamed session after its approved plan.
    pub fn name_after_plan(&self, plan: &str) {
        if let Some(namer) = &self.session_namer {
            namer.name_after_plan(plan);
        }
    }

    /// Sets the title of the session, or returns the reason why it cannot have one.
    pub(crate) fn set_title(&self, title: &str) -> Result<(), String> {
        match &self.session_namer {
            Some(namer) => namer.set_title(title).map(drop),
            None => Err("this session is not kept, so it cannot have a title".to_owned()),
        }
    }

    pub(crate) fn checkpoints(&self) -> Option<&FileCheckpoints> {
        self.shared.files.checkpoints.as_ref()
    }

    /// Returns the user's preferences for reading and changing files.
    pub fn file_preferences(&self) -> FilePreferences {
        self.shared.files.preferences
    }

    /// Returns the fitter of images that are too large for a request.
    pub(crate) fn image_fitter(&self) -> Option<&Arc<dyn ImageFitter>> {
        self.shared.files.image_fitter.as_ref()
    }

    /// Returns the files and directories that the session may always write.
    pub(crate) fn own_paths(&self) -> &[PathBuf] {
        &self.shared.files.own_paths
    }

    /// Returns the lock that a call holds while it changes the file at this symlink-free path.
    pub fn path_lock(&self, path: &Path) -> Arc<tokio::sync::Mutex<()>> {
        self.shared.files.path_lock(path)
    }

    /// Returns the sandbox for commands, which settings can change.
    pub(crate) fn active_sandbox(&self) -> &ActiveSandbox {
        self.shared.processes.sandbox()
    }

    /// Returns true if commands run in the sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.active_sandbox().current().is_some()
    }

    /// Returns the confinement of commands that run without approval; `None` if the session confines none.
    pub fn confinement(&self) -> Option<io::Result<Arc<Confinement>>> {
        let paths = self.paths();
        let readable = vec![self.session_results_dir()];
        let reach = ConfinedReach { roots: paths.roots, readable, home: paths.home };
        self.shared.processes.confinement_for(reach, self.env())
    }

    /// Returns the access to processes, or an error if none can be started, for example while a file that an earlier
    /// command left behind could be executed by other programs. Everything that starts processes for a call must use
    /// this.
    pub fn processes(&self) -> Result<(&Exec, &Shell), ToolError> {
        self.shared.processes.exec_and_shell()
    }

    /// Returns the shell that commands would run in, for queries that start no process.
    pub(crate) fn shell(&self) -> Option<&Shell> {
        self.shared.processes.shell()
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
            home: self.shared.home.clone(),
            env: self.shared.env.clone(),
            environment: self.shared.processes.environment_names(),
            skills: self.shared.skills.current(),
        }
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
            reply: Arc::default(),
            scope: None,
        }
    }

    /// Locks the session state. Only the scheduler may change it; others read.
    pub(crate) fn lock_state(&self) -> MutexGuard<'_, SessionState> {
        self.conversation.lock()
    }

    /// Returns the state of a tool, created on first use.
    pub fn tool_state<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.conversation.tool_state()
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

    /// Takes the files that tools have read for the model since the last call.
    pub(crate) fn take_read_files(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.lock_state().read_files)
    }

    /// Takes the files that tools have written since the last call.
    pub(crate) fn take_written_files(&self) -> Vec<PathBuf> {
        self.lock_state().files.take_written()
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
        self.shared.spawn(work);
    }

    /// Ends all work that outlived its call.
    pub(crate) async fn close(&self) {
        for task in self.tasks().running() {
            task.stop().await;
        }
        self.abandon().await;
    }

    /// Ends all running work without waiting for its final output.
    pub(crate) async fn abandon(&self) {
        self.shared.abort_background_work().await;
        if let Some(sandbox) = self.active_sandbox().latest() {
            // No process of any command is left at this point.
            sandbox.check_at_session_end(self).await;
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
        if let Some(said) = self.shared.mailboxes.deliver(agent, said)
            && let Some(ops) = &self.shared.ops
        {
            drop(ops.send(Op::Submit(said)));
        }
    }

    /// Publishes an event of the given agent.
    pub fn publish(&self, agent: &AgentPath, body: EventBody) {
        if is_progress(&body) {
            self.conversation.activity.record_activity();
        }
        self.shared.publish(agent, body);
    }

    pub(crate) fn publish_progress(&self, cx: &ToolContext, text: String) {
        let text = self.shared.redactor.mask(&text).into_owned();
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
