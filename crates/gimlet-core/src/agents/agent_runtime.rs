//! Shared state for launching subagents in a session.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimlet_proto::{AgentPath, CacheTtl, Env, ItemId};
use gimlet_store::{AgentTranscripts, ResultFiles};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::agent_memory::AgentMemoryFolders;
use super::identity::AgentIdentity;
use super::roster::{AgentRoster, LiveAgentRoster};
use crate::tool::ToolError;
use crate::turn::TurnOptions;
use crate::usage_ledger::UsageLedger;

/// Milliseconds without activity after which a background agent is abandoned, unless the user configures another
/// limit.
const STALL_MS: u64 = 600_000;
const MOST_OUTPUT: u64 = 160_000;

/// Session-wide state of subagents.
pub(crate) struct AgentRuntime {
    roster: LiveAgentRoster,
    /// The only kinds that the main conversation may launch; `None` for all.
    main_launches: Option<Vec<String>>,
    /// Text that every agent's system prompt ends with.
    pub(super) append_system: Option<String>,
    pub(super) memory: AgentMemoryFolders,
    /// Options of the main conversation's turns.
    pub(crate) options: TurnOptions,
    /// Number of the next item in any conversation.
    next_item: AtomicU64,
    /// Result files of the main conversation.
    pub(crate) result_files: ResultFiles,
    pub(crate) transcripts: AgentTranscripts,
    pub(crate) cache_ttl: Option<CacheTtl>,
    /// Ledger that shares its budget with the main conversation's.
    pub(super) ledger: UsageLedger,
    pub(super) limits: AgentLimits,
    slots: Arc<Semaphore>,
    /// Held while an ended agent is resumed, so that no two conversations write one transcript.
    pub(super) resuming: tokio::sync::Mutex<()>,
    /// Recipient of each name that a conversation has used, so that a name cannot change its meaning unnoticed.
    pub(super) addressed: Mutex<HashMap<(AgentPath, String), String>>,
}

/// Limits for subagents.
pub(super) struct AgentLimits {
    /// Number of levels below the main conversation.
    pub(super) depth: u32,
    /// Number of agents that may run at once.
    pub(super) at_once: usize,
    /// Limit on the bytes of a report that the model receives.
    pub(super) output: usize,
    pub(super) stall: Duration,
    /// True if nothing may run in the background.
    pub(super) foreground_only: bool,
}

impl AgentLimits {
    fn from_env(env: &Env) -> Self {
        let number = |name: &str, default: u64| env.integer(name).filter(|number| *number > 0).unwrap_or(default);
        Self {
            depth: u32::try_from(number("CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH", 3)).unwrap_or(u32::MAX),
            at_once: usize::try_from(number("CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS", 20)).unwrap_or(usize::MAX),
            output: usize::try_from(number("TASK_MAX_OUTPUT_LENGTH", 32_000).min(MOST_OUTPUT)).unwrap_or(usize::MAX),
            stall: Duration::from_millis(number("CLAUDE_ASYNC_AGENT_STALL_TIMEOUT_MS", STALL_MS)),
            foreground_only: env.flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
        }
    }
}

/// Parts of an [`AgentRuntime`].
pub(crate) struct AgentRuntimeParts<'a> {
    pub(crate) roster: LiveAgentRoster,
    /// The only kinds that the main conversation may launch; `None` for all.
    pub(crate) main_launches: Option<Vec<String>>,
    pub(crate) append_system: Option<String>,
    pub(crate) memory: AgentMemoryFolders,
    pub(crate) env: &'a Env,
    pub(crate) options: &'a TurnOptions,
    pub(crate) result_files: &'a ResultFiles,
    pub(crate) transcripts: AgentTranscripts,
    pub(crate) cache_ttl: Option<CacheTtl>,
    pub(crate) ledger: &'a UsageLedger,
}

impl AgentRuntime {
    pub(crate) fn new(parts: AgentRuntimeParts<'_>) -> Self {
        let limits = AgentLimits::from_env(parts.env);
        Self {
            roster: parts.roster,
            main_launches: parts.main_launches,
            append_system: parts.append_system.filter(|text| !text.trim().is_empty()),
            memory: parts.memory,
            options: parts.options.clone(),
            next_item: AtomicU64::default(),
            result_files: parts.result_files.clone(),
            transcripts: parts.transcripts,
            cache_ttl: parts.cache_ttl,
            ledger: parts.ledger.for_agent(&AgentPath::default()),
            slots: Arc::new(Semaphore::new(limits.at_once.min(Semaphore::MAX_PERMITS))),
            limits,
            resuming: tokio::sync::Mutex::default(),
            addressed: Mutex::default(),
        }
    }

    /// Returns an id for the next item, unique in the session.
    pub(crate) fn next_item(&self) -> ItemId {
        ItemId(self.next_item.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a ledger for requests beside this conversation; their cost belongs to the session.
    pub(crate) fn side_ledger(&self, agent: &AgentPath) -> UsageLedger {
        self.ledger.for_agent(agent)
    }

    /// Returns all kinds, as they are now.
    pub(crate) fn roster(&self) -> Arc<AgentRoster> {
        self.roster.current()
    }

    /// Returns the kinds that this sender may launch: a subagent, or else the main conversation.
    pub(crate) fn roster_for(&self, sender: Option<&AgentIdentity>) -> Arc<AgentRoster> {
        let all = self.roster.current();
        match (sender, &self.main_launches) {
            (None, Some(names)) => Arc::new(AgentRoster::clone(&all).restricted_to(Some(names))),
            _ => all,
        }
    }

    /// Returns true if the conversation of an agent can be resumed after its end: it is stored, and its kind allows
    /// it.
    pub(super) fn may_resume(&self, who: Option<&AgentIdentity>) -> bool {
        who.is_some_and(|who| !self.roster().is_one_shot(&who.kind) && self.transcripts.path(&who.id).is_some())
    }

    /// Acquires a slot among the running agents, for as long as the permit is held. Fails if all are in use.
    pub(super) fn acquire_slot(&self) -> Result<OwnedSemaphorePermit, ToolError> {
        self.slots.clone().try_acquire_owned().map_err(|_| {
            ToolError::failed(format!(
                "{} agents are running, which is the most there may be at once. Do not try again now: do the work \
                 yourself, or wait until one of them has reported.",
                self.limits.at_once
            ))
        })
    }
}
