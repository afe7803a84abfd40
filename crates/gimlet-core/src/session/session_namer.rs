//! The name of a session that nobody named: an approved plan says what it is about.

use std::sync::atomic::{AtomicBool, Ordering};

use gimlet_store::{SideWriter, derive_title};

/// Names a session once. What a person calls it always counts for more.
pub(crate) struct SessionNamer {
    transcript: SideWriter,
    named: AtomicBool,
}

impl SessionNamer {
    pub(crate) fn new(transcript: SideWriter, named: bool) -> Self {
        Self { transcript, named: AtomicBool::new(named) }
    }

    /// Takes the name from a plan that was approved, unless the session has one.
    pub(crate) fn name_after_plan(&self, plan: &str) {
        if let Some(title) = derive_title(plan).filter(|_| !self.named.swap(true, Ordering::Relaxed)) {
            self.transcript.record_title(&title);
        }
    }
}
