//! Publishing events: never blocks the publisher, never drops anything.
//!
//! Each reader has a queue of its own. While a reader is slow, adjacent deltas of one item merge in its queue, so a
//! flood of tiny pieces costs memory for the text alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::{Event, EventBody};

/// Publisher of a session's events.
#[derive(Clone, Default)]
pub struct EventHub {
    shared: Arc<Mutex<HubState>>,
}

#[derive(Default)]
struct HubState {
    next_seq: u64,
    readers: Vec<Weak<ReaderQueue>>,
}

#[derive(Default)]
struct ReaderQueue {
    state: Mutex<ReaderQueueState>,
    ready: Notify,
}

#[derive(Default)]
struct ReaderQueueState {
    events: VecDeque<Event>,
    closed: bool,
}

/// One reader of a session's events. Dropping it unsubscribes.
pub struct EventReader {
    queue: Arc<ReaderQueue>,
}

impl EventHub {
    /// Subscribes from the next event on.
    pub fn subscribe(&self) -> EventReader {
        let queue = Arc::new(ReaderQueue::default());
        lock(&self.shared).readers.push(Arc::downgrade(&queue));
        EventReader { queue }
    }

    /// Assigns the event its sequence number and sends it to every reader.
    pub fn publish(&self, mut event: Event) {
        let mut shared = lock(&self.shared);
        event.seq = shared.next_seq;
        shared.next_seq += 1;
        let closing = matches!(event.body, EventBody::Closed);
        shared.readers.retain(|reader| {
            let Some(queue) = reader.upgrade() else { return false };
            let mut state = lock(&queue.state);
            if !merge_delta(&mut state.events, &event) {
                state.events.push_back(event.clone());
            }
            state.closed |= closing;
            drop(state);
            queue.ready.notify_one();
            true
        });
    }
}

/// Appends a delta to the queue's last event when both belong to one item.
fn merge_delta(events: &mut VecDeque<Event>, event: &Event) -> bool {
    let (Some(last), EventBody::Delta(new)) = (events.back_mut(), &event.body) else { return false };
    let EventBody::Delta(old) = &mut last.body else { return false };
    if old.item != new.item || old.kind != new.kind || last.agent != event.agent {
        return false;
    }
    old.text.push_str(&new.text);
    last.seq = event.seq;
    true
}

impl EventReader {
    /// Returns the next event; `None` after the session closed and everything was read.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            {
                let mut state = lock(&self.queue.state);
                if let Some(event) = state.events.pop_front() {
                    return Some(event);
                }
                if state.closed {
                    return None;
                }
            }
            self.queue.ready.notified().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here panics while a lock is held; a poisoned lock still guards whole values.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentPath, BlockDelta, DeltaKind, ItemId, SessionId};

    fn event(body: EventBody) -> Event {
        Event { seq: 0, session: SessionId::new("s"), agent: AgentPath::default(), at: Arc::from(""), body }
    }

    fn delta(item: u64, text: &str) -> Event {
        event(EventBody::Delta(BlockDelta { item: ItemId(item), kind: DeltaKind::Text, text: text.into() }))
    }

    #[tokio::test]
    async fn slow_readers_get_merged_deltas_in_order() {
        let hub = EventHub::default();
        let mut reader = hub.subscribe();
        for piece in ["a", "b", "c"] {
            hub.publish(delta(1, piece));
        }
        hub.publish(delta(2, "d"));
        hub.publish(event(EventBody::Closed));
        let mut texts = Vec::new();
        let mut last_seq = None;
        while let Some(event) = reader.next().await {
            assert!(last_seq < Some(event.seq));
            last_seq = Some(event.seq);
            if let EventBody::Delta(delta) = event.body {
                texts.push(delta.text);
            }
        }
        assert_eq!(texts, ["abc", "d"]);
    }
}
