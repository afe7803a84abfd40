//! Prompts that arrive while a turn runs: they are queued here and join after the running tool calls, unless they
//! need a turn of their own. Notes are held here, too, while the history must end with a call that has no result yet.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{Block, EntryId, PromptTiming, SubmittedPrompt};
use gimlet_store::{QueueChange, SideWriter};

/// Limits on what is held behind a deferred call, which may never run: number of prompts, and bytes that a request
/// can carry.
const MOST_HELD: usize = 100;
const MOST_HELD_BYTES: usize = 28_000_000;
/// Maximum number of unread messages of an agent before senders have to wait.
pub(crate) const MOST_LETTERS: usize = 50;

/// Admission of an agent message to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueAdmission {
    Free,
    /// An equal message is queued already, and counts once.
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

/// Queue between the actor and the running turn.
#[derive(Clone, Default)]
pub(crate) struct SteeringQueue {
    queue: Arc<Mutex<VecDeque<SubmittedPrompt>>>,
    held: Arc<Mutex<Vec<SubmittedPrompt>>>,
    log: Arc<Mutex<Option<QueueLog>>>,
}

/// Log of queued prompts in the transcript, so that a killed session does not lose them.
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

    /// Logs the removal of a prompt. One that was never queued logs nothing, even if another with equal text is
    /// queued. Of two equal prompts without an id, either may go first.
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
    /// Starts logging the queued prompts to the transcript.
    pub(crate) fn log_to(&self, transcript: SideWriter) {
        *lock(&self.log) = Some(QueueLog { transcript, waiting: Vec::new() });
    }

    pub(crate) fn push(&self, said: SubmittedPrompt) {
        if !said.synthetic
            && let Some(log) = lock(&self.log).as_mut()
        {
            log.log_queued(&said);
        }
        self.lock().push_back(said);
    }

    /// Marks a queued prompt as handled.
    pub(crate) fn mark_handled(&self, said: &SubmittedPrompt) {
        if let Some(log) = lock(&self.log).as_mut() {
            log.log_removed(said);
        }
    }

    /// Queues a message from another agent. Returns true if there was room.
    pub(crate) fn post_message(&self, said: SubmittedPrompt) -> bool {
        let mut queue = self.lock();
        let room = check_room(&queue, &said);
        if room == QueueAdmission::Free {
            queue.push_back(said);
        }
        room != QueueAdmission::Full
    }

    /// Returns the admission of a message from another agent.
    pub(crate) fn room_for_message(&self, said: &SubmittedPrompt) -> QueueAdmission {
        check_room(&self.lock(), said)
    }

    /// Takes the prompts that join the running turn: everything up to the first that needs a turn of its own.
    pub(crate) fn take_joining(&self) -> Vec<SubmittedPrompt> {
        let mut queue = self.lock();
        let joining = queue.iter().position(|said| said.timing != PromptTiming::Next).unwrap_or(queue.len());
        queue.drain(..joining).collect()
    }

    /// Puts prompts that were taken and did not join back at the front, in their order.
    pub(crate) fn put_back(&self, said: impl DoubleEndedIterator<Item = SubmittedPrompt>) {
        let mut queue = self.lock();
        said.rev().for_each(|said| queue.push_front(said));
    }

    /// Returns true if an urgent prompt is queued that does not wait for the end of the turn.
    pub(crate) fn has_urgent(&self) -> bool {
        self.lock().iter().any(|said| said.timing == PromptTiming::Now)
    }

    /// Takes the next prompt; urgent ones first.
    pub(crate) fn pop(&self) -> Option<SubmittedPrompt> {
        let mut queue = self.lock();
        let at = queue.iter().position(|said| said.timing == PromptTiming::Now).unwrap_or(0);
        queue.remove(at)
    }

    /// Takes the next prompt of the user; notices stay.
    pub(crate) fn pop_user_prompt(&self) -> Option<SubmittedPrompt> {
        let mut queue = self.lock();
        let urgent = queue.iter().position(|said| !said.synthetic && said.timing == PromptTiming::Now);
        let at = urgent.or_else(|| queue.iter().position(|said| !said.synthetic))?;
        queue.remove(at)
    }

    /// Takes the notices that wait for the next prompt.
    pub(crate) fn take_notices(&self) -> VecDeque<SubmittedPrompt> {
        let mut queue = self.lock();
        let (notices, words) = queue.drain(..).partition(|said| said.synthetic);
        *queue = words;
        notices
    }

    /// Holds a prompt that starts no turn until the deferred call has its result. Returns the prompt if no more can
    /// be held.
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

    /// Returns the number of queued prompts.
    pub(crate) fn waiting_count(&self) -> usize {
        self.lock().iter().filter(|said| !said.synthetic && !said.silent).count()
    }

    /// Returns the ids of the queued prompts that have one.
    pub(crate) fn waiting_ids(&self) -> Vec<EntryId> {
        let of_people = |said: &&SubmittedPrompt| !said.synthetic;
        let mut ids: Vec<EntryId> =
            lock(&self.held).iter().filter(of_people).filter_map(|said| said.uuid.clone()).collect();
        ids.extend(self.lock().iter().filter(of_people).filter_map(|said| said.uuid.clone()));
        ids
    }

    /// Removes a prompt. Returns true if it was queued.
    pub(crate) fn withdraw_prompt(&self, prompt: &EntryId) -> bool {
        self.remove_matching(|said| said.uuid.as_ref() == Some(prompt))
    }

    /// Removes all prompts of the user and returns their ids.
    pub(crate) fn withdraw_all_prompts(&self) -> Vec<EntryId> {
        let ids = self.waiting_ids();
        self.remove_matching(|said| !said.synthetic);
        ids
    }

    /// Removes the matching prompts. Returns true if there was any.
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
        // A duplicate of a queued message takes no further room.
        assert!(steering.post_message(letter("letter 7")));
        assert_eq!(steering.take_joining().len(), 1 + MOST_LETTERS);
        assert!(steering.post_message(letter("letter 7")));
    }
}
