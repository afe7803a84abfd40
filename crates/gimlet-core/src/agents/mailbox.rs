//! What is said to agents while they work: it waits in their own queue and joins between two rounds of tool calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gimlet_proto::{AgentPath, SubmittedPrompt};

use crate::steering::SteeringQueue;

/// The queues of the agents that run.
#[derive(Default)]
pub(crate) struct AgentMailboxes {
    open: Mutex<HashMap<AgentPath, SteeringQueue>>,
    /// That of the main conversation, which is always there. Whoever writes to it also wakes it.
    main: SteeringQueue,
}

impl AgentMailboxes {
    pub(crate) fn main_queue(&self) -> &SteeringQueue {
        &self.main
    }

    /// Opens the queue of an agent that begins.
    pub(super) fn open(&self, agent: &AgentPath, steering: &SteeringQueue) {
        self.lock().insert(agent.clone(), steering.clone());
    }

    /// Takes what waits for an agent whose turn is over, or closes its queue: whatever comes later goes elsewhere.
    pub(super) fn next_or_close(&self, agent: &AgentPath) -> Option<SubmittedPrompt> {
        let mut open = self.lock();
        let next = open.get(agent).and_then(SteeringQueue::pop);
        if next.is_none() {
            open.remove(agent);
        }
        next
    }

    /// Closes the queue of an agent that ended; gives what nobody read.
    pub(super) fn close(&self, agent: &AgentPath) -> Vec<SubmittedPrompt> {
        let steering = self.lock().remove(agent);
        steering.map(|steering| std::iter::from_fn(|| steering.pop()).collect()).unwrap_or_default()
    }

    /// Delivers something to an agent; gives it back when nobody is there by that path.
    pub(crate) fn deliver(&self, agent: &AgentPath, said: SubmittedPrompt) -> Option<SubmittedPrompt> {
        match self.lock().get(agent) {
            Some(steering) => {
                steering.push(said);
                None
            }
            None => Some(said),
        }
    }

    /// Puts a letter into the queue of an agent that works; says whether there was room, or nothing when nobody is there.
    pub(crate) fn post_message(&self, agent: &AgentPath, letter: SubmittedPrompt) -> Option<bool> {
        self.lock().get(agent).map(|steering| steering.post_message(letter))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentPath, SteeringQueue>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
