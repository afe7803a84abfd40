//! What is left of a session when it is over, in good order or not.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gimlet_core::WatchState;
use gimlet_exec::Exec;
use gimlet_proto::Violation;

use super::sessions::Scratch;

/// What has to be cleared away behind a session.
pub(crate) struct LeftBehind {
    pub(super) exec: Exec,
    pub(super) watched: Arc<Mutex<WatchState>>,
    /// Where changes of protected files are moved to.
    pub(super) quarantine: PathBuf,
    pub(super) _scratch: [Scratch; 2],
}

impl LeftBehind {
    /// Ends all commands and looks after those that nobody looked after. A session that ended in good order has done so
    /// itself; one that was cut short has not.
    pub(crate) async fn clear_away(self) {
        self.exec.shutdown(gimlet_exec::KILL_GRACE).await;
        let (watched, quarantine) = (self.watched.clone(), self.quarantine.clone());
        let looked = tokio::task::spawn_blocking(move || WatchState::check_all(&watched, &quarantine)).await;
        match looked {
            Ok(found) => found.iter().filter(|violation| violation.is_trace()).for_each(say),
            Err(error) => {
                crate::say_on_stderr(&format!("gimlet: sandbox: traces of commands could not be looked for: {error}"));
            }
        }
    }
}

fn say(violation: &Violation) {
    crate::say_on_stderr(&format!("gimlet: sandbox: {violation}"));
}
