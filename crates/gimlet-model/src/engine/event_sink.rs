//! A stream that is fed by a future inside it.
//!
//! There is no task and no channel: polling the stream polls the work, and dropping the stream drops the work with
//! every socket that it holds. The work runs only when all its earlier events have been taken.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use gimlet_proto::{BoxFuture, ModelEvent};

/// Queue for the events of the work.
#[derive(Clone, Default)]
pub(crate) struct EventSink(Arc<Mutex<VecDeque<ModelEvent>>>);

impl EventSink {
    fn queue(&self) -> std::sync::MutexGuard<'_, VecDeque<ModelEvent>> {
        // The queue is consistent even if a holder panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. Deltas that arrived together for one block are merged.
    pub(crate) fn push(&self, event: ModelEvent) {
        let mut queue = self.queue();
        match (queue.back_mut(), &event) {
            (Some(ModelEvent::TextDelta { index: a, text }), ModelEvent::TextDelta { index: b, text: more })
            | (
                Some(ModelEvent::ThinkingDelta { index: a, text }),
                ModelEvent::ThinkingDelta { index: b, text: more },
            )
            | (Some(ModelEvent::InputDelta { index: a, text }), ModelEvent::InputDelta { index: b, text: more })
                if a == b =>
            {
                text.push_str(more);
            }
            _ => queue.push_back(event),
        }
    }

    fn pop(&self) -> Option<ModelEvent> {
        self.queue().pop_front()
    }

    /// Waits until all events so far have been taken.
    pub(super) async fn wait_until_drained(&self) {
        // No waker is needed: the stream returns an item whenever the queue has one, and polls the work again only
        // once it is empty.
        poll_fn(|_| if self.queue().is_empty() { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// Stream of the events of some work.
pub(super) struct WorkStream {
    outlet: EventSink,
    work: Option<BoxFuture<'static, ()>>,
}

impl WorkStream {
    pub(super) fn new(work: impl FnOnce(EventSink) -> BoxFuture<'static, ()>) -> Self {
        let outlet = EventSink::default();
        let work = Some(work(outlet.clone()));
        Self { outlet, work }
    }
}

impl Stream for WorkStream {
    type Item = ModelEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ModelEvent>> {
        if let Some(event) = self.outlet.pop() {
            return Poll::Ready(Some(event));
        }
        let Some(work) = self.work.as_mut() else { return Poll::Ready(None) };
        if work.as_mut().poll(cx).is_ready() {
            self.work = None;
        }
        match self.outlet.pop() {
            Some(event) => Poll::Ready(Some(event)),
            None if self.work.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
