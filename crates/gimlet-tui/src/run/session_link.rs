//! The session that is shown: its handle, its events, and what is known of it.

use std::sync::Arc;

use gimlet_proto::{EventBody, EventReader, OpenedSession, SessionFacts, SessionHandle, SessionSnapshot};

/// A session and the front end's place in its events.
pub(super) struct SessionLink {
    pub(super) handle: SessionHandle,
    pub(super) events: EventReader,
    pub(super) facts: SessionFacts,
    pub(super) warnings: Vec<String>,
    /// True if something was said before it was opened.
    pub(super) has_history: bool,
}

impl SessionLink {
    /// Creates the link at once after the session was opened, so that no event is missed.
    pub(super) fn new(opened: OpenedSession) -> Self {
        let events = opened.session.subscribe();
        Self {
            events,
            has_history: opened.facts.is_resumed,
            facts: opened.facts,
            warnings: opened.warnings,
            handle: opened.session,
        }
    }

    /// Returns the session's state if an event says that it may have changed.
    pub(super) fn changed_snapshot(&self, body: &EventBody) -> Option<Arc<SessionSnapshot>> {
        match body {
            EventBody::Delta(_)
            | EventBody::Wire(_)
            | EventBody::BlockStarted { .. }
            | EventBody::Hook(_)
            | EventBody::Notice(_) => None,
            _ => Some(self.handle.snapshot()),
        }
    }
}
