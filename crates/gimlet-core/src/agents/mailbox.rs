//! Messages to running agents: they wait in the agent's own queue and are read between two rounds of tool calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gimlet_proto::{AgentPath, SubmittedPrompt};

use crate::steering::SteeringQueue;

/// Queues of the running agents.
#[derive(Default)]
pub(crate) struct AgentMailboxes {
    open: Mutex<HashMap<AgentPath, SteeringQueue>>,
    /// Queue of the main conversation, which always exists. Adding to it also wakes the session.
    main: SteeringQueue,
}

impl AgentMailboxes {
    pub(crate) fn main_queue(&self) -> &SteeringQueue {
        &self.main
    }

    /// Opens the queue of an agent that starts.
    pub(super) fn open(&self, agent: &AgentPath, steering: &SteeringQueue) {
        self.lock().insert(agent.clone(), steering.clone());
    }

    /// Takes the next message for an agent whose turn is over, or closes its queue: later messages are delivered
    /// elsewhere.
    pub(super) fn next_or_close(&self, agent: &AgentPath) -> Option<SubmittedPrompt> {
        let mut open = self.lock();
        let next = open.get(agent).and_then(SteeringQueue::pop);
        if next.is_none() {
            open.remove(agent);
        }
        next
    }

    /// Closes the queue of an agent that ended and returns the unread messages.
    pub(super) fn close(&self, agent: &AgentPath) -> Vec<SubmittedPrompt> {
        let steering = self.lock().remove(agent);
        steering.map(|steering| std::iter::from_fn(|| steering.pop()).collect()).unwrap_or_default()
    }

    /// Delivers a prompt to an agent; returns it if no agent has that path.
    pub(crate) fn deliver(&self, agent: &AgentPath, said: SubmittedPrompt) -> Option<SubmittedPrompt> {
        match self.lock().get(agent) {
            Some(steering) => {
                steering.push(said);
                None
            }
            None => Some(said),
        }
    }

    /// Adds a message to the queue of a running agent. Returns false if the queue is full, `None` if the agent does
    /// not run.
    pub(crate) fn post_message(&self, agent: &AgentPath, letter: SubmittedPrompt) -> Option<bool> {
        self.lock().get(agent).map(|steering| steering.post_message(letter))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentPath, SteeringQueue>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
