//! Prompts that arrive while a turn runs: they wait here and join after the running tool calls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{Block, EntryId};

/// Something said to the session.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) blocks: Vec<Block>,
    pub(crate) plain: bool,
    pub(crate) uuid: Option<EntryId>,
    /// Written by gimlet (a background task ended), not by a person.
    pub(crate) synthetic: bool,
}

/// The queue between the actor and the running turn.
#[derive(Clone, Default)]
pub(crate) struct Steering {
    queue: Arc<Mutex<VecDeque<Said>>>,
}

impl Steering {
    pub(crate) fn push(&self, said: Said) {
        self.lock().push_back(said);
    }

    pub(crate) fn take_all(&self) -> Vec<Said> {
        self.lock().drain(..).collect()
    }

    pub(crate) fn pop(&self) -> Option<Said> {
        self.lock().pop_front()
    }

    /// The next thing that a person said; notices stay.
    pub(crate) fn pop_words(&self) -> Option<Said> {
        let mut queue = self.lock();
        let at = queue.iter().position(|said| !said.synthetic)?;
        queue.remove(at)
    }

    /// The notices that have been waiting for someone to speak.
    pub(crate) fn take_notices(&self) -> VecDeque<Said> {
        let mut queue = self.lock();
        let (notices, words) = queue.drain(..).partition(|said| said.synthetic);
        *queue = words;
        notices
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Said>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
