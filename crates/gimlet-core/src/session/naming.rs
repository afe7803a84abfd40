//! The name of a session that nobody named: an approved plan says what it is about.

use std::sync::atomic::{AtomicBool, Ordering};

use gimlet_store::{Beside, title_from};

/// Names a session once. What a person calls it always counts for more.
pub(crate) struct Naming {
    transcript: Beside,
    named: AtomicBool,
}

impl Naming {
    pub(crate) fn new(transcript: Beside, named: bool) -> Self {
        Self { transcript, named: AtomicBool::new(named) }
    }

    /// Takes the name from a plan that was approved, unless the session has one.
    pub(crate) fn after_plan(&self, plan: &str) {
        if let Some(title) = title_from(plan).filter(|_| !self.named.swap(true, Ordering::Relaxed)) {
            self.transcript.title(&title);
        }
    }
}
