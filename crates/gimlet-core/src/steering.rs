//! Prompts that arrive while a turn runs: they wait here, and join after the running tool calls unless they want a turn
//! of their own. What is only to be known waits here too while a call without a result must have the last word.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{Block, EntryId, PromptTiming, SubmittedPrompt};
use gimlet_store::{QueueChange, SideWriter};

/// How much is kept behind a call that waits, which may be for ever: so many prompts, and what a request can carry.
const MOST_HELD: usize = 100;
const MOST_HELD_BYTES: usize = 28_000_000;
/// How many letters an agent may leave unread before whoever writes has to wait.
pub(crate) const MOST_LETTERS: usize = 50;

/// Whether a letter can wait in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueAdmission {
    Free,
    /// The same words wait already, and count once.
    Duplicate,
    Full,
}

fn check_room(queue: &VecDeque<SubmittedPrompt>, said: &SubmittedPrompt) -> QueueAdmission {
    let unread = || queue.iter().filter(|waiting| waiting.from_agent);
    let words = |said: &SubmittedPrompt| said.blocks.iter().map(|block| block.json().to_owned()).collect::<Vec<_>>();
    if unread().any(|waiting| words(waiting) == words(said)) {
        return QueueAdmission::Duplicate;
    }
    if unread().count() < MOST_LETTERS { QueueAdmission::Free } else { QueueAdmission::Full }
}

/// The queue between the actor and the running turn.
#[derive(Clone, Default)]
pub(crate) struct SteeringQueue {
    queue: Arc<Mutex<VecDeque<SubmittedPrompt>>>,
    held: Arc<Mutex<Vec<SubmittedPrompt>>>,
    told: Arc<Mutex<Option<QueueLog>>>,
}

/// The prompts that wait, as the transcript tells of them: a session that is killed does not lose what was said to it.
struct QueueLog {
    transcript: SideWriter,
    waiting: Vec<(Option<EntryId>, String)>,
}

impl QueueLog {
    fn log_queued(&mut self, said: &SubmittedPrompt) {
        let words = prompt_text(said);
        self.transcript.record_queue_change(QueueChange::Enqueued(&words));
        self.waiting.push((said.uuid.clone(), words));
    }

    /// One that never waited leaves nothing, whoever waits with the same words. Of two without an id that say the same it
    /// makes no difference which goes first.
    fn log_removed(&mut self, said: &SubmittedPrompt) {
        let words = prompt_text(said);
        let is_it = |(id, waiting): &(Option<EntryId>, String)| *id == said.uuid && *waiting == words;
        let Some(at) = self.waiting.iter().position(is_it) else { return };
        let change = if at == 0 { QueueChange::Dequeued } else { QueueChange::Removed(&words) };
        self.transcript.record_queue_change(change);
        self.waiting.remove(at);
    }
}

fn prompt_text(said: &SubmittedPrompt) -> String {
    said.blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
}

impl SteeringQueue {
    /// From now on the transcript tells of the prompts that wait.
    pub(crate) fn log_to(&self, transcript: SideWriter) {
        *lock(&self.told) = Some(QueueLog { transcript, waiting: Vec::new() });
    }

    pub(crate) fn push(&self, said: SubmittedPrompt) {
        if let Some(told) = lock(&self.told).as_mut().filter(|_| !said.synthetic) {
            told.log_queued(&said);
        }
        self.lock().push_back(said);
    }

    /// A prompt waits no more: what became of it is known.
    pub(crate) fn mark_handled(&self, said: &SubmittedPrompt) {
        if let Some(told) = lock(&self.told).as_mut() {
            told.log_removed(said);
        }
    }

    /// Takes what another agent wrote; says whether there was room.
    pub(crate) fn post_message(&self, said: SubmittedPrompt) -> bool {
        let mut queue = self.lock();
        let room = check_room(&queue, &said);
        if room == QueueAdmission::Free {
            queue.push_back(said);
        }
        room != QueueAdmission::Full
    }

    /// Whether there would be room for what another agent wrote.
    pub(crate) fn room_for_message(&self, said: &SubmittedPrompt) -> QueueAdmission {
        check_room(&self.lock(), said)
    }

    /// What joins the running turn: everything up to the first that wants a turn of its own.
    pub(crate) fn take_joining(&self) -> Vec<SubmittedPrompt> {
        let mut queue = self.lock();
        let joining = queue.iter().position(|said| said.timing != PromptTiming::Next).unwrap_or(queue.len());
        queue.drain(..joining).collect()
    }

    /// Puts back what was taken and did not join, in its order and before everything else.
    pub(crate) fn put_back(&self, said: impl DoubleEndedIterator<Item = SubmittedPrompt>) {
        let mut queue = self.lock();
        said.rev().for_each(|said| queue.push_front(said));
    }

    /// Whether something waits that does not want to wait for the end of the turn.
    pub(crate) fn has_urgent(&self) -> bool {
        self.lock().iter().any(|said| said.timing == PromptTiming::Now)
    }

    /// The next thing in line; urgent ones first.
    pub(crate) fn pop(&self) -> Option<SubmittedPrompt> {
        let mut queue = self.lock();
        let at = queue.iter().position(|said| said.timing == PromptTiming::Now).unwrap_or(0);
        queue.remove(at)
    }

    /// The next thing that a person said; notices stay.
    pub(crate) fn pop_user_prompt(&self) -> Option<SubmittedPrompt> {
        let mut queue = self.lock();
        let urgent = queue.iter().position(|said| !said.synthetic && said.timing == PromptTiming::Now);
        let at = urgent.or_else(|| queue.iter().position(|said| !said.synthetic))?;
        queue.remove(at)
    }

    /// The notices that have been waiting for someone to speak.
    pub(crate) fn take_notices(&self) -> VecDeque<SubmittedPrompt> {
        let mut queue = self.lock();
        let (notices, words) = queue.drain(..).partition(|said| said.synthetic);
        *queue = words;
        notices
    }

    /// Keeps what begins no turn until the call that waits has its result. Gives it back when no more can be kept.
    pub(crate) fn hold(&self, said: SubmittedPrompt) -> Option<SubmittedPrompt> {
        let mut held = lock(&self.held);
        let blocks = held.iter().flat_map(|said| &said.blocks).chain(&said.blocks);
        if held.len() >= MOST_HELD || blocks.map(|block| block.json().len()).sum::<usize>() > MOST_HELD_BYTES {
            return Some(said);
        }
        held.push(said);
        None
    }

    pub(crate) fn take_held(&self) -> Vec<SubmittedPrompt> {
        std::mem::take(&mut *lock(&self.held))
    }

    /// How many prompts wait.
    pub(crate) fn waiting_count(&self) -> usize {
        self.lock().iter().filter(|said| !said.synthetic && !said.silent).count()
    }

    /// The prompts that wait, by the ids they came with.
    pub(crate) fn waiting_ids(&self) -> Vec<EntryId> {
        let of_people = |said: &&SubmittedPrompt| !said.synthetic;
        let mut ids: Vec<EntryId> =
            lock(&self.held).iter().filter(of_people).filter_map(|said| said.uuid.clone()).collect();
        ids.extend(self.lock().iter().filter(of_people).filter_map(|said| said.uuid.clone()));
        ids
    }

    /// Forgets a prompt; says whether it was here.
    pub(crate) fn withdraw_prompt(&self, prompt: &EntryId) -> bool {
        self.remove_matching(|said| said.uuid.as_ref() == Some(prompt))
    }

    /// Forgets everything that a person said; gives the ids.
    pub(crate) fn withdraw_all_prompts(&self) -> Vec<EntryId> {
        let ids = self.waiting_ids();
        self.remove_matching(|said| !said.synthetic);
        ids
    }

    /// Takes out what is meant; says whether anything was.
    fn remove_matching(&self, meant: impl Fn(&SubmittedPrompt) -> bool) -> bool {
        let (mut queue, mut held) = (self.lock(), lock(&self.held));
        let (gone, kept) = queue.drain(..).partition::<VecDeque<SubmittedPrompt>, _>(&meant);
        *queue = kept;
        let (let_go, kept) = held.drain(..).partition::<Vec<SubmittedPrompt>, _>(&meant);
        *held = kept;
        gone.iter().chain(&let_go).for_each(|said| self.mark_handled(said));
        !gone.is_empty() || !let_go.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SubmittedPrompt>> {
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
    fn unread_messages_do_not_pile_up() {
        let letter = |text: &str| SubmittedPrompt {
            blocks: vec![Block::text(text)],
            synthetic: true,
            from_agent: true,
            ..SubmittedPrompt::default()
        };
        let steering = SteeringQueue::default();
        steering.push(SubmittedPrompt { from_agent: false, ..letter("a notice") });
        assert!((0..MOST_LETTERS).all(|number| steering.post_message(letter(&format!("letter {number}")))));
        assert!(!steering.post_message(letter("one more")));
        // One that waits already is no further one.
        assert!(steering.post_message(letter("letter 7")));
        assert_eq!(steering.take_joining().len(), 1 + MOST_LETTERS);
        assert!(steering.post_message(letter("letter 7")));
    }
}
