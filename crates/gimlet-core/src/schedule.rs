//! Scheduling of calls: read-only calls run together, all others alone, in the order of the reply.
//!
//! Read-only calls may start while the reply still streams, up to the first call that may not. Results arrive as
//! calls end, each with its call's position; a failing call never affects its siblings.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use crate::call::{self, CallScope, CallStart, InputAuthor, ToolCall};
use crate::call_result::{CallResult, cancelled_result};
use crate::gate::Clearance;
use crate::panics;
use crate::repeated_failures::{self, CallFingerprint, CallsToConfirm, RepeatableCall};
use crate::tool::{ErrorClass, ResultCap, ToolError, ToolRef};
use crate::write_barrier::{DurableBarrier, DurableSignal};

/// Default number of concurrent calls; the environment can override it.
const DEFAULT_CONCURRENCY: usize = 10;
/// Upper limit of concurrent calls; larger values are taken for mistakes.
const MAX_CONCURRENCY: usize = 256;

/// Returns the limit of concurrent calls.
pub fn concurrency_limit(env: &gimlet_proto::Env) -> usize {
    let wanted = env.integer("CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY").unwrap_or(0);
    match usize::try_from(wanted) {
        Ok(0) => DEFAULT_CONCURRENCY,
        Ok(count) => count.min(MAX_CONCURRENCY),
        Err(_) => MAX_CONCURRENCY,
    }
}

/// Tool calls of one reply.
pub(crate) struct CallSchedule {
    scope: Arc<CallScope>,
    slots: Vec<CallSlot>,
    running: JoinSet<CallResult>,
    positions: HashMap<Id, usize>,
    permits: Arc<Semaphore>,
    /// Set while calls may start before the reply is complete.
    early: bool,
    /// Calls that need the user's confirmation first.
    questionable: CallsToConfirm,
}

struct CallSlot {
    incoming: ToolCall,
    made: RepeatableCall,
    cap: ResultCap,
    parallel: bool,
    /// Working directory with which the input's paths were expanded.
    cwd: PathBuf,
    state: CallState,
    began: Option<Instant>,
}

enum CallState {
    Waiting(ToolRef, Box<Clearance>),
    Running,
    Finished(Box<CallResult>),
    Collected,
}

/// Group of calls that run together: a range of positions.
pub(crate) struct CallGroup {
    pub(crate) calls: std::ops::Range<usize>,
    /// Set if a call of the group may have effects.
    pub(crate) has_effects: bool,
}

/// Result of one call.
pub(crate) struct FinishedCall {
    /// Position in the reply.
    pub(crate) position: usize,
    pub(crate) call: ToolCall,
    pub(crate) made: RepeatableCall,
    pub(crate) cap: ResultCap,
    pub(crate) settled: CallResult,
}

impl CallSchedule {
    pub(crate) fn new(scope: Arc<CallScope>, concurrency: usize, early: bool) -> Self {
        Self {
            scope,
            slots: Vec::new(),
            running: JoinSet::new(),
            positions: HashMap::new(),
            permits: Arc::new(Semaphore::new(concurrency)),
            early,
            questionable: CallsToConfirm::default(),
        }
    }

    /// Sets the calls that need the user's confirmation before they start.
    pub(crate) fn ask_before(&mut self, questionable: CallsToConfirm) {
        self.questionable = questionable;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds the next call of the reply; starts it at once if it may start early. History keeps the name that the
    /// model used; questions and events use the resolved tool.
    pub(crate) fn add_call(&mut self, mut incoming: ToolCall) {
        let meant = self.scope.tools.resolve_name(&incoming.name);
        if meant != incoming.name {
            incoming.name = meant.to_owned();
        }
        let paths = self.scope.services.paths();
        let slot = match call::prepare_call(&self.scope, &incoming, InputAuthor::Model, &paths) {
            Ok((tool, prepared)) => CallSlot {
                incoming,
                made: RepeatableCall {
                    meaning: CallFingerprint::from_prepared(&prepared),
                    read_only: prepared.read_only,
                    sleeps: repeated_failures::sleeps(&prepared),
                    took: Duration::ZERO,
                },
                cap: tool.max_result_chars(),
                parallel: prepared.concurrency_safe,
                cwd: paths.cwd,
                state: CallState::Waiting(tool, Box::new(Clearance::Undecided(Box::new(prepared)))),
                began: None,
            },
            Err(error) => CallSlot {
                made: RepeatableCall {
                    meaning: CallFingerprint::from_raw_call(&incoming),
                    read_only: true,
                    sleeps: false,
                    took: Duration::ZERO,
                },
                incoming,
                cap: ResultCap::Unlimited,
                parallel: false,
                cwd: paths.cwd,
                state: CallState::Finished(Box::new(CallResult::from_error(error))),
                began: None,
            },
        };
        self.slots.push(slot);
        let last = self.slots.len() - 1;
        if self.early {
            self.early = self.try_start_early(last);
        }
    }

    /// Starts a call before the reply is complete. Returns true if the next one may still be considered.
    fn try_start_early(&mut self, position: usize) -> bool {
        let slot = &self.slots[position];
        if !(slot.parallel && slot.made.read_only) {
            return false;
        }
        let granted = self.try_grant(position);
        if granted {
            // The call only reads.
            self.start_call(position, DurableBarrier::default());
        }
        granted
    }

    /// Gets a permit for a waiting call if that needs no question. Returns true on success.
    fn try_grant(&mut self, position: usize) -> bool {
        let slot = &mut self.slots[position];
        if !matches!(slot.state, CallState::Waiting(..)) {
            return false;
        }
        let CallState::Waiting(tool, pass) = std::mem::replace(&mut slot.state, CallState::Collected) else {
            return false;
        };
        let (scope, incoming) = (&self.scope, &slot.incoming);
        let decide = || scope.gate.try_grant(scope, &incoming.id, *pass);
        match panics::run_call_step(scope, &incoming.name, "deciding on it", decide) {
            Ok((pass, granted)) => {
                slot.state = CallState::Waiting(tool, Box::new(pass));
                granted
            }
            Err(error) => {
                slot.state = CallState::Finished(Box::new(CallResult::from_error(error)));
                false
            }
        }
    }

    fn start_call(&mut self, position: usize, recorded: DurableBarrier) {
        let slot = &mut self.slots[position];
        if !matches!(slot.state, CallState::Waiting(..)) {
            return;
        }
        let CallState::Waiting(tool, pass) = std::mem::replace(&mut slot.state, CallState::Running) else { return };
        let (scope, incoming, permits) = (self.scope.clone(), slot.incoming.clone(), self.permits.clone());
        let asks_first = self.scope.gate.is_attended() && self.questionable.take(slot.made.meaning);
        slot.began = Some(Instant::now());
        let start = CallStart { alone: self.slots.len() == 1, asks_first, recorded };
        let handle = self.running.spawn(async move {
            // The semaphore is never closed, so acquiring always succeeds.
            let _slot = permits.acquire_owned().await;
            call::run_call(scope, incoming, tool, *pass, start).await
        });
        self.positions.insert(handle.id(), position);
    }

    /// Splits the calls into groups, in order: adjacent calls that are safe to run concurrently share one.
    pub(crate) fn groups(&self) -> Vec<CallGroup> {
        let mut groups: Vec<CallGroup> = Vec::new();
        for (position, slot) in self.slots.iter().enumerate() {
            let joins = slot.parallel
                && groups.last().is_some_and(|group| self.slots[group.calls.clone()].iter().all(|slot| slot.parallel));
            match groups.last_mut() {
                Some(group) if joins => {
                    group.calls.end = position + 1;
                    group.has_effects |= !slot.made.read_only;
                }
                Some(_) | None => {
                    groups.push(CallGroup { calls: position..position + 1, has_effects: !slot.made.read_only });
                }
            }
        }
        groups
    }

    /// Decides the calls that need no question, so that decisions do not wait for the preconditions of running.
    pub(crate) fn decide_group(&mut self, group: &CallGroup) {
        for position in group.calls.clone() {
            self.prepare_again(position);
            self.complete_input(position);
            self.try_grant(position);
        }
    }

    /// Starts the calls of a group that do not run yet.
    pub(crate) fn start_group(&mut self, group: &CallGroup) {
        for position in group.calls.clone() {
            self.start_call(position, DurableBarrier::default());
        }
    }

    /// Starts the calls of a group that may begin before their requests are durable; they wait for the returned
    /// signal.
    pub(crate) fn start_before_durable(&mut self, group: &CallGroup) -> DurableSignal {
        let (recording, recorded) = DurableSignal::pair();
        for position in group.calls.clone() {
            let begins = match &self.slots[position].state {
                CallState::Waiting(tool, pass) => {
                    tool.may_start_before_durable() && matches!(**pass, Clearance::Granted(_))
                }
                CallState::Running | CallState::Finished(_) | CallState::Collected => false,
            };
            if begins {
                self.start_call(position, recorded.clone());
            }
        }
        recording
    }

    /// Waits for the next result of a started group; `None` after the last one. The caller applies the state changes.
    pub(crate) async fn next_result(&mut self, group: &CallGroup) -> Option<FinishedCall> {
        loop {
            let over = |position: &usize| matches!(self.slots[*position].state, CallState::Finished(_));
            if let Some(position) = group.calls.clone().find(over) {
                let slot = &mut self.slots[position];
                let CallState::Finished(settled) = std::mem::replace(&mut slot.state, CallState::Collected) else {
                    continue;
                };
                let (call, made, cap) = (slot.incoming.clone(), slot.made, slot.cap);
                return Some(FinishedCall { position, call, made, cap, settled: *settled });
            }
            if !group.calls.clone().any(|position| matches!(self.slots[position].state, CallState::Running)) {
                return None;
            }
            self.reap_finished().await;
        }
    }

    /// Prepares a waiting call again if an earlier call changed the working directory: its paths must be relative to
    /// the current one.
    fn prepare_again(&mut self, position: usize) {
        let slot = &mut self.slots[position];
        let undecided = matches!(&slot.state, CallState::Waiting(_, pass) if matches!(**pass, Clearance::Undecided(_)));
        let paths = self.scope.services.paths();
        if !undecided || paths.cwd == slot.cwd {
            return;
        }
        match call::prepare_call(&self.scope, &slot.incoming, InputAuthor::Model, &paths) {
            Ok((tool, prepared)) => {
                slot.made.meaning = CallFingerprint::from_prepared(&prepared);
                slot.state = CallState::Waiting(tool, Box::new(Clearance::Undecided(Box::new(prepared))));
            }
            Err(error) => slot.state = CallState::Finished(Box::new(CallResult::from_error(error))),
        }
    }

    /// Lets a tool complete its input after all earlier calls have run.
    fn complete_input(&mut self, position: usize) {
        let scope = self.scope.clone();
        let slot = &mut self.slots[position];
        let CallState::Waiting(tool, pass) = &slot.state else { return };
        let Clearance::Undecided(prepared) = &**pass else { return };
        let complete = || {
            // A misplaced call gets its error when it starts.
            if tool.misplaced_reason(scope.call_site()).is_some() {
                return Ok(None);
            }
            let input = tool.complete_input(&prepared.given, &scope.services)?;
            input.map(|input| tool.prepare(input.into(), &scope.services.paths())).transpose()
        };
        let completed = panics::run_call_step(&scope, &slot.incoming.name, "completing its input", complete);
        slot.state = match completed.flatten() {
            Ok(None) => return,
            Ok(Some(prepared)) => CallState::Waiting(tool.clone(), Box::new(Clearance::Undecided(Box::new(prepared)))),
            Err(error) => CallState::Finished(Box::new(CallResult::from_error(error))),
        };
    }

    async fn reap_finished(&mut self) {
        let Some(joined) = self.running.join_next_with_id().await else { return };
        let (id, settled) = match joined {
            Ok((id, settled)) => (id, settled),
            Err(error) => {
                let text = "the call was lost inside gimlet; nothing is known about what it did";
                (error.id(), CallResult::from_error(ToolError::new(ErrorClass::Internal, text)))
            }
        };
        if let Some(position) = self.positions.remove(&id) {
            let slot = &mut self.slots[position];
            slot.made.took = slot.began.map(|began| began.elapsed()).unwrap_or_default();
            slot.state = CallState::Finished(Box::new(settled));
        }
    }

    /// Answers every call that has not started with this reason.
    pub(crate) fn cancel_waiting(&mut self, reason: &str) {
        for slot in &mut self.slots {
            if matches!(slot.state, CallState::Waiting(..)) {
                slot.state = CallState::Finished(Box::new(cancelled_result(reason)));
            }
        }
    }

    /// Discards all calls: their reply is void. Only read-only calls can have started, so nothing is lost.
    pub(crate) async fn discard(&mut self) {
        self.running.shutdown().await;
        self.positions.clear();
        self.slots.clear();
        self.early = true;
    }
}
