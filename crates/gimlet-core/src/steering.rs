//! Prompts that arrive while a turn runs: they wait here, and join after the running tool calls unless they want a turn
//! of their own. What is only to be known waits here too while a call without a result must have the last word.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{Block, EntryId, Say, When};
use gimlet_store::{Beside, QueueChange};

/// How much is kept behind a call that waits, which may be for ever: so many prompts, and what a request can carry.
const MOST_HELD: usize = 100;
const MOST_HELD_BYTES: usize = 28_000_000;
/// How many letters an agent may leave unread before whoever writes has to wait.
pub(crate) const MOST_LETTERS: usize = 50;

/// Whether a letter can wait in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Free,
    /// The same words wait already, and count once.
    Taken,
    Full,
}

fn room_in(queue: &VecDeque<Say>, said: &Say) -> Room {
    let unread = || queue.iter().filter(|waiting| waiting.letter);
    let words = |said: &Say| said.blocks.iter().map(|block| block.json().to_owned()).collect::<Vec<_>>();
    if unread().any(|waiting| words(waiting) == words(said)) {
        return Room::Taken;
    }
    if unread().count() < MOST_LETTERS { Room::Free } else { Room::Full }
}

/// The queue between the actor and the running turn.
#[derive(Clone, Default)]
pub(crate) struct Steering {
    queue: Arc<Mutex<VecDeque<Say>>>,
    held: Arc<Mutex<Vec<Say>>>,
    told: Arc<Mutex<Option<Told>>>,
}

/// The prompts that wait, as the transcript tells of them: a session that is killed does not lose what was said to it.
struct Told {
    transcript: Beside,
    waiting: Vec<(Option<EntryId>, String)>,
}

impl Told {
    fn enter(&mut self, said: &Say) {
        let words = words_of(said);
        self.transcript.queue(QueueChange::Enqueued(&words));
        self.waiting.push((said.uuid.clone(), words));
    }

    /// One that never waited leaves nothing, whoever waits with the same words. Of two without an id that say the same it
    /// makes no difference which goes first.
    fn leave(&mut self, said: &Say) {
        let words = words_of(said);
        let is_it = |(id, waiting): &(Option<EntryId>, String)| *id == said.uuid && *waiting == words;
        let Some(at) = self.waiting.iter().position(is_it) else { return };
        let change = if at == 0 { QueueChange::Dequeued } else { QueueChange::Removed(&words) };
        self.transcript.queue(change);
        self.waiting.remove(at);
    }
}

fn words_of(said: &Say) -> String {
    said.blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
}

impl Steering {
    /// From now on the transcript tells of the prompts that wait.
    pub(crate) fn tell_in(&self, transcript: Beside) {
        *lock(&self.told) = Some(Told { transcript, waiting: Vec::new() });
    }

    pub(crate) fn push(&self, said: Say) {
        if let Some(told) = lock(&self.told).as_mut().filter(|_| !said.synthetic) {
            told.enter(&said);
        }
        self.lock().push_back(said);
    }

    /// A prompt waits no more: what became of it is known.
    pub(crate) fn settle(&self, said: &Say) {
        if let Some(told) = lock(&self.told).as_mut() {
            told.leave(said);
        }
    }

    /// Takes what another agent wrote; says whether there was room.
    pub(crate) fn post(&self, said: Say) -> bool {
        let mut queue = self.lock();
        let room = room_in(&queue, &said);
        if room == Room::Free {
            queue.push_back(said);
        }
        room != Room::Full
    }

    /// Whether there would be room for what another agent wrote.
    pub(crate) fn room_for(&self, said: &Say) -> Room {
        room_in(&self.lock(), said)
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

    /// Keeps what begins no turn until the call that waits has its result. Gives it back when no more can be kept.
    pub(crate) fn hold(&self, said: Say) -> Option<Say> {
        let mut held = lock(&self.held);
        let blocks = held.iter().flat_map(|said| &said.blocks).chain(&said.blocks);
        if held.len() >= MOST_HELD || blocks.map(|block| block.json().len()).sum::<usize>() > MOST_HELD_BYTES {
            return Some(said);
        }
        held.push(said);
        None
    }

    pub(crate) fn take_held(&self) -> Vec<Say> {
        std::mem::take(&mut *lock(&self.held))
    }

    /// How many prompts wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().iter().filter(|said| !said.synthetic && !said.silent).count()
    }

    /// The prompts that wait, by the ids they came with.
    pub(crate) fn ids(&self) -> Vec<EntryId> {
        let of_people = |said: &&Say| !said.synthetic;
        let mut ids: Vec<EntryId> =
            lock(&self.held).iter().filter(of_people).filter_map(|said| said.uuid.clone()).collect();
        ids.extend(self.lock().iter().filter(of_people).filter_map(|said| said.uuid.clone()));
        ids
    }

    /// Forgets a prompt; says whether it was here.
    pub(crate) fn withdraw(&self, prompt: &EntryId) -> bool {
        self.forget(|said| said.uuid.as_ref() == Some(prompt))
    }

    /// Forgets everything that a person said; gives the ids.
    pub(crate) fn withdraw_all(&self) -> Vec<EntryId> {
        let ids = self.ids();
        self.forget(|said| !said.synthetic);
        ids
    }

    /// Takes out what is meant; says whether anything was.
    fn forget(&self, meant: impl Fn(&Say) -> bool) -> bool {
        let (mut queue, mut held) = (self.lock(), lock(&self.held));
        let (gone, kept) = queue.drain(..).partition::<VecDeque<Say>, _>(&meant);
        *queue = kept;
        let (let_go, kept) = held.drain(..).partition::<Vec<Say>, _>(&meant);
        *held = kept;
        gone.iter().chain(&let_go).for_each(|said| self.settle(said));
        !gone.is_empty() || !let_go.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Say>> {
        lock(&self.queue)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use gimlet_proto::Block;

    use super::*;

    #[test]
    fn letters_that_nobody_reads_do_not_pile_up() {
        let letter =
            |text: &str| Say { blocks: vec![Block::text(text)], synthetic: true, letter: true, ..Say::default() };
        let steering = Steering::default();
        steering.push(Say { letter: false, ..letter("a notice") });
        assert!((0..MOST_LETTERS).all(|number| steering.post(letter(&format!("letter {number}")))));
        assert!(!steering.post(letter("one more")));
        // One that waits already is no further one.
        assert!(steering.post(letter("letter 7")));
        assert_eq!(steering.take_joining().len(), 1 + MOST_LETTERS);
        assert!(steering.post(letter("letter 7")));
    }
}
