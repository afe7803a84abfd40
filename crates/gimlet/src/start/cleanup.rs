//! The setting `cleanupPeriodDays`: sessions that were not touched for so long are removed when another one starts. Without
//! the setting nothing is ever removed for its age.

use std::path::Path;
use std::time::{Duration, SystemTime};

use gimlet_config::Scope;
use gimlet_proto::SessionId;
use gimlet_store::{Locations, project_folders, retire_sessions};

use super::configured::Configured;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes what is too old and says how much that was. `current` is about to be used, however old it is.
pub(super) fn clean_up(configured: &Configured, current: &SessionId) -> Option<String> {
    let days = configured.effective.settings.cleanup_period_days?.get();
    let origin = configured.effective.merged.origins("cleanupPeriodDays").pop()?.origin;
    let limit = SystemTime::now().checked_sub(DAY.saturating_mul(days))?;
    let home = &configured.around.config_home;
    let places = Locations::new(home);
    let folders = match origin.scope {
        // A project has no say about the sessions of others.
        Scope::Project | Scope::Local => places.project(&configured.around.cwd).existing_dirs(),
        Scope::User | Scope::Flag | Scope::Managed => {
            let mark = home.join("gimlet/cleaned-up");
            if !is_due(&mark) {
                return None;
            }
            project_folders(&places)
        }
    };
    let removed = retire_sessions(&folders, limit, current);
    (removed > 0).then(|| {
        let sessions = if removed == 1 { "1 session was".to_owned() } else { format!("{removed} sessions were") };
        format!("{sessions} removed: not touched for {days} days (cleanupPeriodDays in {})", origin.file.display())
    })
}

/// Whether the last time is a day ago; if so, now is the last time.
fn is_due(mark: &Path) -> bool {
    let last = mark.metadata().and_then(|metadata| metadata.modified()).ok();
    if last.is_some_and(|last| last.elapsed().is_ok_and(|since| since < DAY)) {
        return false;
    }
    // Where no mark can be left, looking once more at the next start does no harm.
    if let Some(folder) = mark.parent() {
        drop(std::fs::create_dir_all(folder));
    }
    drop(std::fs::write(mark, ""));
    true
}
