//! Prompts that arrive while a turn runs: they wait here, and join after the running tool calls unless they want a turn
//! of their own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{EntryId, Say, When};

/// The queue between the actor and the running turn.
#[derive(Clone, Default)]
pub(crate) struct Steering {
    queue: Arc<Mutex<VecDeque<Say>>>,
}

impl Steering {
    pub(crate) fn push(&self, said: Say) {
        self.lock().push_back(said);
    }

    /// What joins the running turn: everything up to the first that wants a turn of its own.
    pub(crate) fn take_joining(&self) -> Vec<Say> {
        let mut queue = self.lock();
        let joining = queue.iter().position(|said| said.when != When::Next).unwrap_or(queue.len());
        queue.drain(..joining).collect()
    }

    /// Puts back what was taken and did not join, in its order and before everything else.
    pub(crate) fn put_back(&self, said: impl DoubleEndedIterator<Item = Say>) {
        let mut queue = self.lock();
        said.rev().for_each(|said| queue.push_front(said));
    }

    /// Whether something waits that does not want to wait for the end of the turn.
    pub(crate) fn is_urgent(&self) -> bool {
        self.lock().iter().any(|said| said.when == When::Now)
    }

    /// The next thing in line; urgent ones first.
    pub(crate) fn pop(&self) -> Option<Say> {
        let mut queue = self.lock();
        let at = queue.iter().position(|said| said.when == When::Now).unwrap_or(0);
        queue.remove(at)
    }

    /// The next thing that a person said; notices stay.
    pub(crate) fn pop_words(&self) -> Option<Say> {
        let mut queue = self.lock();
        let urgent = queue.iter().position(|said| !said.synthetic && said.when == When::Now);
        let at = urgent.or_else(|| queue.iter().position(|said| !said.synthetic))?;
        queue.remove(at)
    }

    /// The notices that have been waiting for someone to speak.
    pub(crate) fn take_notices(&self) -> VecDeque<Say> {
        let mut queue = self.lock();
        let (notices, words) = queue.drain(..).partition(|said| said.synthetic);
        *queue = words;
        notices
    }

    /// How many prompts wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().iter().filter(|said| !said.synthetic && !said.silent).count()
    }

    /// The prompts that wait, by the ids they came with.
    pub(crate) fn ids(&self) -> Vec<EntryId> {
        self.lock().iter().filter(|said| !said.synthetic).filter_map(|said| said.uuid.clone()).collect()
    }

    /// Forgets a prompt; says whether it was here.
    pub(crate) fn withdraw(&self, prompt: &EntryId) -> bool {
        let mut queue = self.lock();
        let before = queue.len();
        queue.retain(|said| said.uuid.as_ref() != Some(prompt));
        queue.len() < before
    }

    /// Forgets everything that a person said; gives the ids.
    pub(crate) fn withdraw_all(&self) -> Vec<EntryId> {
        let ids = self.ids();
        self.lock().retain(|said| said.synthetic);
        ids
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Say>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
