//! What is said to agents while they work: it waits in their own queue and joins between two rounds of tool calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gimlet_proto::{AgentPath, Say};

use crate::steering::Steering;

/// The queues of the agents that run.
#[derive(Default)]
pub(crate) struct Mailboxes {
    open: Mutex<HashMap<AgentPath, Steering>>,
    /// That of the main conversation, which is always there. Whoever writes to it also wakes it.
    main: Steering,
}

impl Mailboxes {
    pub(crate) fn main(&self) -> &Steering {
        &self.main
    }

    /// Opens the queue of an agent that begins.
    pub(super) fn open(&self, agent: &AgentPath, steering: &Steering) {
        self.lock().insert(agent.clone(), steering.clone());
    }

    /// Takes what waits for an agent whose turn is over, or closes its queue: whatever comes later goes elsewhere.
    pub(super) fn next_or_close(&self, agent: &AgentPath) -> Option<Say> {
        let mut open = self.lock();
        let next = open.get(agent).and_then(Steering::pop);
        if next.is_none() {
            open.remove(agent);
        }
        next
    }

    /// Closes the queue of an agent that ended; gives what nobody read.
    pub(super) fn close(&self, agent: &AgentPath) -> Vec<Say> {
        let steering = self.lock().remove(agent);
        steering.map(|steering| std::iter::from_fn(|| steering.pop()).collect()).unwrap_or_default()
    }

    /// Delivers something to an agent; gives it back when nobody is there by that path.
    pub(crate) fn deliver(&self, agent: &AgentPath, said: Say) -> Option<Say> {
        match self.lock().get(agent) {
            Some(steering) => {
                steering.push(said);
                None
            }
            None => Some(said),
        }
    }

    /// Puts a letter into the queue of an agent that works; says whether there was room, or nothing when nobody is there.
    pub(crate) fn post(&self, agent: &AgentPath, letter: Say) -> Option<bool> {
        self.lock().get(agent).map(|steering| steering.post(letter))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentPath, Steering>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
