//! The setting `cleanupPeriodDays`: sessions unused for longer are removed when another one starts. Without the setting
//! nothing is removed for its age.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gimlet_config::Scope;
use gimlet_proto::SessionId;
use gimlet_store::{StoreLocations, create_private_dirs, list_project_folders, remove_old_sessions};

use super::session_settings::SessionSettings;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Expiry of sessions by the setting.
pub(super) struct SessionExpiry {
    places: StoreLocations,
    folders: ExpiryScope,
    limit: SystemTime,
    days: u64,
    /// File that has the setting.
    asked_in: PathBuf,
    current: SessionId,
}

enum ExpiryScope {
    These(Vec<PathBuf>),
    /// Sessions of every project, once a day; the file records the time.
    All {
        mark: PathBuf,
    },
}

impl SessionExpiry {
    /// Returns the expiry from settings; `None` when it is not set. `current` is never removed, however old it is.
    pub(super) fn from_settings(configured: &SessionSettings, current: &SessionId) -> Option<Self> {
        let days = configured.effective.settings.cleanup_period_days?.get();
        let origin = configured.effective.merged.sources("cleanupPeriodDays").pop()?.origin;
        let limit = SystemTime::now().checked_sub(DAY.saturating_mul(days))?;
        let home = &configured.around.config_home;
        let places = StoreLocations::new(home);
        let folders = match origin.scope {
            // A project cannot expire the sessions of others.
            Scope::Project | Scope::Local => ExpiryScope::These(places.project(&configured.around.cwd).existing_dirs()),
            Scope::User | Scope::Flag | Scope::Managed => ExpiryScope::All { mark: home.join("gimlet/cleaned-up") },
        };
        Some(Self {
            places,
            folders,
            limit,
            days: days.into(),
            asked_in: origin.file.clone(),
            current: current.clone(),
        })
    }

    /// Removes expired sessions and returns a line with their number. Blocks until all are removed.
    pub(super) fn remove_expired(self) -> Option<String> {
        let folders = match self.folders {
            ExpiryScope::These(folders) => folders,
            ExpiryScope::All { mark } if is_due(&mark) => list_project_folders(&self.places),
            ExpiryScope::All { .. } => return None,
        };
        let removed = remove_old_sessions(&self.places, &folders, self.limit, &self.current);
        let sessions = match removed {
            0 => return None,
            1 => "1 session was".to_owned(),
            removed => format!("{removed} sessions were"),
        };
        let (days, file) = (self.days, self.asked_in.display());
        Some(format!("{sessions} removed: not touched for {days} days (cleanupPeriodDays in {file})"))
    }
}

/// Writes the mark file with the present time, readable only by the user.
fn touch_mark(mark: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(mark)?;
    file.set_modified(SystemTime::now())
}

/// Returns true if the last run was a day ago, and records this run.
fn is_due(mark: &Path) -> bool {
    let last = mark.metadata().and_then(|metadata| metadata.modified()).ok();
    if last.is_some_and(|last| last.elapsed().is_ok_and(|since| since < DAY)) {
        return false;
    }
    // If no mark can be written, another check at the next start does no harm.
    if let Some(folder) = mark.parent() {
        drop(create_private_dirs(folder));
    }
    drop(touch_mark(mark));
    true
}
