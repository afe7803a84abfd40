//! The name of a session: as the user sets it, else taken from an approved plan.

use std::sync::atomic::{AtomicBool, Ordering};

use gimlet_store::{EarlyTitle, SideWriter, Transcript, clean_title, derive_title};

/// Names a session. A name from the user always takes precedence.
pub(crate) struct SessionNamer {
    transcript: SideWriter,
    early: EarlyTitle,
    is_saved: bool,
    named: AtomicBool,
}

impl SessionNamer {
    pub(crate) fn new(transcript: &Transcript) -> Self {
        Self {
            transcript: transcript.beside(),
            early: transcript.early_title(),
            is_saved: transcript.path().is_some(),
            named: AtomicBool::new(transcript.labels().display_title().is_some()),
        }
    }

    /// Takes the name from an approved plan, unless the session has one.
    pub(crate) fn name_after_plan(&self, plan: &str) {
        if let Some(title) = derive_title(plan)
            && !self.named.swap(true, Ordering::Relaxed)
        {
            self.transcript.record_title(&title);
        }
    }

    /// Sets the name that the user chose. Returns it as it was written.
    pub(crate) fn set_title(&self, title: &str) -> Result<String, String> {
        let title = clean_title(title).map_err(|error| error.to_string())?;
        if !self.is_saved {
            return Err("this session is not kept, so it cannot have a title".to_owned());
        }
        self.named.store(true, Ordering::Relaxed);
        if !self.early.try_set(&title) {
            self.transcript.record_user_title(&title);
        }
        Ok(title)
    }
}
