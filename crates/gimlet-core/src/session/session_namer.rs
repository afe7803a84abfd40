//! The name of a session that the user did not name, taken from an approved plan.

use std::sync::atomic::{AtomicBool, Ordering};

use gimlet_store::{SideWriter, derive_title};

/// Names a session once. A name from the user always takes precedence.
pub(crate) struct SessionNamer {
    transcript: SideWriter,
    named: AtomicBool,
}

impl SessionNamer {
    pub(crate) fn new(transcript: SideWriter, named: bool) -> Self {
        Self { transcript, named: AtomicBool::new(named) }
    }

    /// Takes the name from an approved plan, unless the session has one.
    pub(crate) fn name_after_plan(&self, plan: &str) {
        if let Some(title) = derive_title(plan)
            && !self.named.swap(true, Ordering::Relaxed)
        {
            self.transcript.record_title(&title);
        }
    }
}
