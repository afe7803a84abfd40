//! What all conversations of a session share.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use gimlet_proto::{AgentPath, Env, Event, EventBody, EventHub, Op, SessionId};
use gimlet_store::SessionCheckpoints;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ProcessAccess;
use crate::agents::AgentMailboxes;
use crate::backgrounding::BackgroundableCalls;
use crate::checkpoints::FileCheckpoints;
use crate::files::FilePreferences;
use crate::hooks::HookRegistry;
use crate::image_fitting::SharedImageFitter;
use crate::redact::Redactor;
use crate::segment_context::SegmentContextSource;
use crate::skills::LiveSkillSet;
use crate::tasks::TaskRegistry;

/// Identity, events, background work, processes, hooks and file services of a session.
pub struct SessionShared {
    pub(super) id: SessionId,
    pub(super) env: Env,
    pub(super) home: Option<PathBuf>,
    pub(super) transcript: Option<PathBuf>,
    pub(super) redactor: Redactor,
    pub(super) hooks: HookRegistry,
    pub(super) context_sources: Vec<Arc<dyn SegmentContextSource>>,
    pub(super) skills: LiveSkillSet,
    pub(super) processes: ProcessAccess,
    pub(super) files: FileServices,
    pub(super) tasks: TaskRegistry,
    pub(super) mailboxes: AgentMailboxes,
    pub(super) backgroundable_calls: BackgroundableCalls,
    /// Tasks that outlive their call; joined when the session closes.
    background: Mutex<JoinSet<()>>,
    /// Sender to the session actor, for work that ends after its call.
    pub(super) ops: Option<mpsc::UnboundedSender<Op>>,
    hub: EventHub,
    /// Shared timestamp of events that need none.
    empty_timestamp: Arc<str>,
}

/// What reading and changing files depends on.
#[derive(Default)]
pub(super) struct FileServices {
    pub(super) preferences: FilePreferences,
    pub(super) checkpoints: Option<FileCheckpoints>,
    /// Paths that belong to the session, such as its plan file; always writable.
    pub(super) own_paths: Vec<PathBuf>,
    pub(super) image_fitter: SharedImageFitter,
    path_locks: Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>,
}

impl SessionShared {
    pub fn new(id: SessionId, env: Env, home: Option<PathBuf>, hub: EventHub) -> Self {
        Self {
            id,
            env,
            home,
            transcript: None,
            redactor: Redactor::default(),
            hooks: HookRegistry::default(),
            context_sources: Vec::new(),
            skills: LiveSkillSet::default(),
            processes: ProcessAccess::default(),
            files: FileServices::default(),
            tasks: TaskRegistry::default(),
            mailboxes: AgentMailboxes::default(),
            backgroundable_calls: BackgroundableCalls::default(),
            background: Mutex::default(),
            ops: None,
            hub,
            empty_timestamp: Arc::from(""),
        }
    }

    /// Sets the sender through which finished background work notifies the session.
    pub fn with_ops(mut self, ops: mpsc::UnboundedSender<Op>) -> Self {
        self.ops = Some(ops);
        self
    }

    /// Sets the file that keeps the session.
    pub(crate) fn with_transcript(mut self, transcript: Option<PathBuf>) -> Self {
        self.transcript = transcript;
        self
    }

    /// Sets the redactor that masks secret values in tool results.
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Sets the hooks that observe and influence events.
    pub(crate) fn with_hooks(mut self, hooks: HookRegistry) -> Self {
        self.hooks = hooks;
        self
    }

    /// Sets the sources of what stands in front of conversations.
    pub(crate) fn with_context_sources(mut self, sources: Vec<Arc<dyn SegmentContextSource>>) -> Self {
        self.context_sources = sources;
        self
    }

    /// Sets the skills.
    pub fn with_skills(mut self, skills: LiveSkillSet) -> Self {
        self.skills = skills;
        self
    }

    /// Sets the access to processes.
    pub fn with_processes(mut self, processes: ProcessAccess) -> Self {
        self.processes = processes;
        self
    }

    /// Sets the user's preferences for reading and changing files.
    pub fn with_file_preferences(mut self, preferences: FilePreferences) -> Self {
        self.files.preferences = preferences;
        self
    }

    /// Sets the checkpoints that keep file contents from before a change.
    pub fn with_checkpoints(mut self, checkpoints: Option<SessionCheckpoints>) -> Self {
        self.files.checkpoints = checkpoints.map(FileCheckpoints::new);
        self
    }

    /// Sets the files and directories that belong to the session.
    pub fn with_own_paths(mut self, own_paths: Vec<PathBuf>) -> Self {
        self.files.own_paths = own_paths;
        self
    }

    /// Sets the fitter of images that are too large for a request.
    pub(crate) fn with_image_fitter(mut self, fitter: SharedImageFitter) -> Self {
        self.files.image_fitter = fitter;
        self
    }

    /// Publishes an event of the given agent.
    pub(super) fn publish(&self, agent: &AgentPath, body: EventBody) {
        let at =
            if body.has_timestamp() { gimlet_store::current_timestamp().into() } else { self.empty_timestamp.clone() };
        self.hub.publish(Event { seq: 0, session: self.id.clone(), agent: agent.clone(), at, body });
    }

    /// Spawns work that ends with the session at the latest.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut background = self.background.lock().unwrap_or_else(PoisonError::into_inner);
        while background.try_join_next().is_some() {}
        background.spawn(work);
    }

    /// Ends all spawned work and all processes, without waiting for their final output.
    pub(super) async fn abort_background_work(&self) {
        let mut background = std::mem::take(&mut *self.background.lock().unwrap_or_else(PoisonError::into_inner));
        background.shutdown().await;
        if let Some(exec) = self.processes.exec() {
            exec.shutdown(gimlet_exec::KILL_GRACE).await;
        }
    }
}

impl FileServices {
    /// Returns the lock that a call holds while it changes the file at this symlink-free path.
    pub(super) fn path_lock(&self, path: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.path_locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(path.to_owned(), Arc::downgrade(&lock));
        lock
    }
}
