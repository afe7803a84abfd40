//! Cleanup after a session, whether it ended normally or not.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimlet_core::CommandGuardState;
use gimlet_exec::Exec;
use gimlet_mcp::McpServers;

use super::session_history::SessionScratchDir;

/// Timeout for a scan under way, before everything is scanned without it.
const OTHERS: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(20);
/// Timeout for the last scan. It takes seconds on the slowest disks.
const LAST_LOOK: Duration = Duration::from_secs(60);

/// Resources to clean up after a session.
pub struct SessionCleanup {
    pub(super) exec: Exec,
    pub(super) servers: Option<Arc<McpServers>>,
    pub(super) watched: Arc<Mutex<CommandGuardState>>,
    /// Folder that changes of protected files are moved to.
    pub(super) quarantine: PathBuf,
    pub(super) _scratch: [SessionScratchDir; 2],
}

impl SessionCleanup {
    /// Ends all commands and checks those that were not checked yet. A session that ended normally has done so itself;
    /// an aborted one has not. Returns lines for the user.
    pub async fn clean_up(self) -> Vec<String> {
        if let Some(servers) = &self.servers {
            servers.close().await;
        }
        self.exec.shutdown(gimlet_exec::KILL_GRACE).await;
        let waits = self.wait_for_scans().await;
        let (watched, quarantine) = (self.watched.clone(), self.quarantine.clone());
        let looked = tokio::task::spawn_blocking(move || CommandGuardState::check_all(&watched, &quarantine, waits));
        let why = match tokio::time::timeout(LAST_LOOK, looked).await {
            Ok(Ok(found)) => {
                let tampering = found.iter().filter(|violation| violation.is_tampering());
                return tampering.map(|violation| format!("sandbox: {violation}")).collect();
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it takes too long".to_owned(),
        };
        vec![format!("sandbox: traces of commands could not be looked for: {why}")]
    }

    /// Waits for a scan under way; returns true if it ended in time.
    async fn wait_for_scans(&self) -> bool {
        for _ in 0..OTHERS.as_millis() / STEP.as_millis() {
            if !CommandGuardState::is_scanning(&self.watched) {
                return true;
            }
            tokio::time::sleep(STEP).await;
        }
        !CommandGuardState::is_scanning(&self.watched)
    }
}
