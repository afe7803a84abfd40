//! Hooks: other programs that are notified of events in a session and can influence them.
//!
//! There is one registry and one way to fire an event; a hook is run by a [`HookHandler`]. Call sites describe the
//! event and act on the combined output, so a new kind of handler touches none of them. A hook can forbid, ask, add
//! and change; it never allows what a rule or a protected path denies (the gate ensures that). An event without
//! listeners costs one atomic load.

mod combined_output;
mod driver_hooks;
mod file_watch;
mod handler;
mod hook_event;
mod hook_output;
mod hook_payload;
mod hook_run;
mod hook_session;
mod hook_trial;
mod hook_verdict;
mod matcher;
mod model_hook;
mod server_tool_hook;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gimlet_policy::CallCondition;
use gimlet_proto::{Driver, DriverHook, EntryId, HookListing};
use gimlet_store::ResultFiles;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

pub(crate) use combined_output::CombinedHookOutput;
pub use driver_hooks::check_driver_hooks;
pub(crate) use file_watch::watch_files;
pub use gimlet_proto::HookEvent;
pub use handler::{HandlerAnswer, HandlerCall, HandlerError, HandlerReport, HookEntry, HookFailurePolicy, HookHandler};
pub use hook_event::{SetupTrigger, StartSource};
pub(crate) use hook_output::{HookPermission, PermissionRequestAnswer};
pub(crate) use hook_payload::{BatchCall, CallFacts, HookPayload, HookSubject, ModelSwitch, PromptExpansion};
pub(crate) use hook_session::HookFacilities;
pub use hook_session::HookSession;
pub use hook_trial::{HookTrial, HookTrialRun, try_hooks};
pub use matcher::{HookMatcher, HookMatcherError};
pub use model_hook::ModelHook;
pub use server_tool_hook::ServerToolHook;

use crate::agents::HOOK_AGENT;
use crate::call::CallScope;
use hook_event::bit_mask;
use hook_run::HookRun;
pub(crate) use hook_run::spill_to_file;

/// Maximum number of contexts that wait for a prompt.
const MOST_LATE_CONTEXTS: usize = 100;

/// Facts of a session that are part of every hook input, and the folder for long texts.
#[derive(Default)]
pub(crate) struct HookContext {
    pub(crate) driver: Option<Arc<dyn Driver>>,
    pub(crate) transcript: Option<PathBuf>,
    pub(crate) files: Option<ResultFiles>,
    /// Origin of the session; reported before its first prompt.
    pub(crate) source: Option<StartSource>,
    /// Preparation of the project that this run is for; reported before anything else.
    pub(crate) setup: Option<SetupTrigger>,
    /// Agent that the main conversation runs as.
    pub(crate) agent: Option<String>,
    pub(crate) facilities: HookFacilities,
}

/// Owner of registered hooks, by which they are replaced and removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookOwner {
    /// The driving program.
    Driver,
    /// The settings of all scopes.
    Settings,
    /// A plugin, by its name.
    Plugin(String),
    /// A subagent, by its id.
    Agent(String),
    /// A skill, by its name.
    Skill(String),
}

/// The hooks of a session.
#[derive(Default)]
pub struct HookRegistry {
    /// One bit for each event that has a listener.
    listened: AtomicU64,
    state: Mutex<HookRegistryState>,
    driver: Option<Arc<dyn Driver>>,
    transcript: Option<PathBuf>,
    files: Option<ResultFiles>,
    agent: Option<String>,
    facilities: HookFacilities,
    /// Notified when other files may have to be watched.
    watch_changed: tokio::sync::Notify,
}

#[derive(Default)]
struct HookRegistryState {
    /// Hooks by their owner, in the order in which the owners were first registered.
    owners: Vec<(HookOwner, Vec<HookEntry>)>,
    prompt: Option<EntryId>,
    /// Context from hooks that nothing waited for, until a prompt takes it along.
    late_contexts: Vec<String>,
    /// Not reported yet.
    source: Option<StartSource>,
    setup: Option<SetupTrigger>,
    /// Files that hooks asked to be watched.
    watch_paths: Vec<PathBuf>,
}

impl HookRegistryState {
    fn entries(&self) -> impl Iterator<Item = &HookEntry> {
        self.owners.iter().flat_map(|(_, entries)| entries)
    }
}

impl HookRegistry {
    pub(crate) fn new(context: HookContext) -> Self {
        let HookContext { driver, transcript, files, source, setup, agent, facilities } = context;
        let state = Mutex::new(HookRegistryState { source, setup, ..HookRegistryState::default() });
        let watch_changed = tokio::sync::Notify::new();
        Self { listened: AtomicU64::new(0), state, driver, transcript, files, agent, facilities, watch_changed }
    }

    /// Replaces all hooks of this owner.
    pub fn replace(&self, owner: HookOwner, entries: Vec<HookEntry>) {
        let mut state = self.lock();
        match state.owners.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, before)) => *before = entries,
            None => state.owners.push((owner, entries)),
        }
        self.update_listened(&state);
    }

    /// Removes all hooks of this owner, who loses its place in the order.
    pub fn remove(&self, owner: &HookOwner) {
        let mut state = self.lock();
        state.owners.retain(|(known, _)| known != owner);
        self.update_listened(&state);
    }

    /// Registers the hooks of a subagent's own definition for as long as it runs. They are called for nothing but its
    /// conversation, and those for the end of a turn at its end.
    pub fn add_agent_hooks(&self, agent: &str, entries: Vec<HookEntry>) {
        let only_for: Arc<str> = Arc::from(agent);
        let entries = entries.into_iter().map(|entry| {
            let event = if entry.event == HookEvent::Stop { HookEvent::SubagentStop } else { entry.event };
            HookEntry { event, only_for: Some(only_for.clone()), ..entry }
        });
        self.replace(HookOwner::Agent(agent.to_owned()), entries.collect());
    }

    /// Registers the hooks of the definition that the main conversation runs as. They are called for nothing but that
    /// conversation.
    pub(crate) fn add_main_agent_hooks(&self, agent: &str, entries: Vec<HookEntry>) {
        let only_for: Arc<str> = Arc::from(handler::MAIN_CONVERSATION);
        let entries = entries.into_iter().map(|entry| HookEntry { only_for: Some(only_for.clone()), ..entry });
        self.replace(HookOwner::Agent(agent.to_owned()), entries.collect());
    }

    /// Registers the hooks of a skill for the rest of the session; those of an earlier call of it stay as they are.
    pub fn add_skill_hooks(&self, skill: &str, entries: Vec<HookEntry>) {
        let owner = HookOwner::Skill(skill.to_owned());
        if !self.lock().owners.iter().any(|(known, _)| *known == owner) {
            self.replace(owner, entries);
        }
    }

    /// Keeps context from a hook that nothing waited for. The next prompt takes it along.
    fn keep_late_context(&self, text: String) {
        let mut state = self.lock();
        if state.late_contexts.len() < MOST_LATE_CONTEXTS {
            state.late_contexts.push(text);
        }
    }

    /// Takes the context from hooks that nothing waited for.
    pub(crate) fn take_late_contexts(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().late_contexts)
    }

    /// Records which events have a listener.
    fn update_listened(&self, state: &HookRegistryState) {
        let listened = state.entries().fold(0, |bits, entry| bits | bit_mask(entry.event));
        self.listened.store(listened, Ordering::Relaxed);
        self.watch_changed.notify_one();
    }

    /// Registers these hooks of the driving program. If one of them is invalid nothing changes: the program must not
    /// assume that a hook is active which is not.
    pub(crate) fn set_driver_hooks(&self, hooks: &[DriverHook]) -> Result<(), String> {
        let Some(driver) = &self.driver else {
            return if hooks.is_empty() { Ok(()) } else { Err("nobody is there to run hooks".to_owned()) };
        };
        let entries = driver_hooks::driver_entries(driver, hooks).map_err(|error| error.to_string())?;
        self.replace(HookOwner::Driver, entries);
        Ok(())
    }

    /// Returns every hook, in the order in which they are called.
    pub(crate) fn list(&self) -> Vec<HookListing> {
        let listing = |entry: &HookEntry| HookListing {
            event: entry.event.name(),
            has_subject: entry.event.has_subject(),
            matcher: entry.matcher.text(),
            source: entry.source.to_string(),
            kind: entry.handler.kind(),
            text: entry.handler.text(),
            timeout_secs: entry.timeout.map(|timeout| timeout.as_secs_f64()),
        };
        self.lock().entries().map(listing).collect()
    }

    /// Returns true if any hook listens for this event.
    pub(crate) fn has_listeners(&self, event: HookEvent) -> bool {
        self.listened.load(Ordering::Relaxed) & bit_mask(event) != 0
    }

    /// Returns true if a hook listens for this event with this subject.
    pub(crate) fn has_matching_hook(&self, event: HookEvent, subject: HookSubject<'_>) -> bool {
        self.has_listeners(event) && self.lock().entries().any(|entry| entry.matches(event, Some(subject)))
    }

    /// Takes the origin of the session, for the first caller.
    pub(crate) fn take_start_source(&self) -> Option<StartSource> {
        self.lock().source.take()
    }

    /// Takes the preparation that this run is for, for the first caller.
    pub(crate) fn take_setup(&self) -> Option<SetupTrigger> {
        self.lock().setup.take()
    }

    /// Returns true if the first turn has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.lock().source.is_none()
    }

    /// Records the current prompt.
    pub(crate) fn note_prompt(&self, prompt: &EntryId) {
        self.lock().prompt = Some(prompt.clone());
    }

    /// Returns the longest timeout that was configured for a hook of this event, zero if none was; `None` without any
    /// hook.
    pub(crate) fn longest_timeout(&self, event: HookEvent) -> Option<Duration> {
        let state = self.lock();
        let entries = state.entries().filter(|entry| entry.event == event);
        entries.map(|entry| entry.timeout.unwrap_or_default()).max()
    }

    /// Fires an event and waits for every hook that matches. When the turn is cancelled meanwhile, the hooks are
    /// cancelled and the output is empty.
    pub(crate) async fn fire(&self, scope: &CallScope, occasion: &HookPayload<'_>) -> CombinedHookOutput {
        let Some(round) = self.prepare_run(scope, occasion) else { return CombinedHookOutput::default() };
        tokio::select! {
            biased;
            () = scope.cancel.cancelled() => CombinedHookOutput::default(),
            fired = round => fired,
        }
    }

    /// Fires an event without waiting for its hooks.
    pub(crate) fn fire_detached(&self, scope: &CallScope, occasion: &HookPayload<'_>) {
        if let Some(round) = self.prepare_run(scope, occasion) {
            scope.services.spawn(async move {
                round.await;
            });
        }
    }

    /// Prepares a run of the hooks that match, and starts those that nothing waits for; `None` when there are none to
    /// wait for.
    fn prepare_run(
        &self,
        scope: &CallScope,
        occasion: &HookPayload<'_>,
    ) -> Option<impl Future<Output = CombinedHookOutput> + Send + use<>> {
        let event = occasion.event();
        if !self.has_listeners(event) {
            return None;
        }
        let of_hook = scope.subagent.as_ref().is_some_and(|agent| agent.kind == HOOK_AGENT);
        if of_hook && matches!(event, HookEvent::SubagentStart | HookEvent::SubagentStop) {
            return None;
        }
        let subject = occasion.subject(scope.subagent.as_ref().map(|agent| agent.kind.as_str()));
        let mut entries = self.matching_entries(event, subject, scope);
        // A hook that asks an agent is not asked about what that agent does: there would be no end.
        entries.retain(|entry| !(of_hook && entry.handler.asks_model()));
        drop_unmet_conditions(&mut entries, scope, occasion);
        entries.retain(HookEntry::claim_run);
        if entries.is_empty() {
            return None;
        }
        let name = match subject {
            Some(subject) => format!("{}:{}", event.name(), subject.name),
            None => event.name().to_owned(),
        };
        // An object of strings, numbers and values always has a JSON form.
        let input = to_raw_value(&self.build_input(scope, occasion)).ok()?;
        let session = Some(HookSession::new(scope, self.facilities.clone()));
        let call = HandlerCall { event, input: Arc::from(input), tool_use: occasion.tool_use().cloned(), session };
        let round = HookRun {
            services: scope.services.clone(),
            agent: scope.agent.clone(),
            files: self.files.clone(),
            name: Arc::from(name),
            call,
        };
        let (background, awaited): (Vec<HookEntry>, Vec<HookEntry>) =
            entries.into_iter().partition(|entry| entry.runs_in_background);
        if !background.is_empty() {
            let round = round.clone();
            scope.services.spawn(async move { round.run_detached(background).await });
        }
        if awaited.is_empty() {
            return None;
        }
        // Boxed, so that events without hooks do not carry its size around.
        Some(Box::pin(round.run_hooks(awaited)))
    }

    fn matching_entries(
        &self,
        event: HookEvent,
        subject: Option<HookSubject<'_>>,
        scope: &CallScope,
    ) -> Vec<HookEntry> {
        let agent = scope.subagent.as_ref().map(|agent| agent.id.as_str());
        let is_meant = |entry: &&HookEntry| entry.matches(event, subject) && entry.is_for(agent);
        self.lock().entries().filter(is_meant).cloned().collect()
    }

    /// Builds the input of hooks.
    fn build_input(&self, scope: &CallScope, occasion: &HookPayload<'_>) -> Map<String, Value> {
        let mut input = Map::new();
        let mut set = |name: &str, value: Value| {
            input.insert(name.to_owned(), value);
        };
        set("hook_event_name", json!(occasion.event().name()));
        set("session_id", json!(scope.services.session_id()));
        set("transcript_path", json!(self.transcript.as_deref().unwrap_or(std::path::Path::new("")).to_string_lossy()));
        set("cwd", json!(scope.services.paths().cwd.to_string_lossy()));
        if occasion.includes_mode() {
            set("permission_mode", json!(scope.gate.mode_for(scope)));
        }
        if let Some(prompt) = &self.lock().prompt {
            set("prompt_id", json!(prompt));
        }
        if let Some(effort) = scope.model_selection.current().effort {
            set("effort", json!({"level": effort}));
        }
        if let Some(agent) = &scope.subagent {
            set("agent_id", json!(agent.id));
            set("agent_type", json!(agent.kind));
        } else if let Some(agent) = &self.agent {
            set("agent_type", json!(agent));
        }
        if matches!(occasion, HookPayload::UserPromptSubmit { .. }) && self.driver.is_some() {
            set("source", json!("sdk"));
        }
        occasion.write_fields(&mut input, &scope.services);
        input
    }

    fn lock(&self) -> MutexGuard<'_, HookRegistryState> {
        // Only whole values are swapped under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the hooks whose condition the event does not meet.
fn drop_unmet_conditions(entries: &mut Vec<HookEntry>, scope: &CallScope, occasion: &HookPayload<'_>) {
    let conditions: Vec<Arc<CallCondition>> = entries.iter().filter_map(|entry| entry.condition.clone()).collect();
    if conditions.is_empty() {
        return;
    }
    let Some(call) = occasion.call() else { return entries.retain(|entry| entry.condition.is_none()) };
    let conditions: Vec<&CallCondition> = conditions.iter().map(|condition| &**condition).collect();
    let mut met = scope.gate.match_conditions(scope, call, &conditions).into_iter();
    entries.retain(|entry| entry.condition.is_none() || met.next().unwrap_or(true));
}
