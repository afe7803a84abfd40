//! Record of local settings files that were once seen to come with a project. That is read from the repository, where
//! commands may write; the record is in the config home, where they may not, until the user trusts the folder anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gimlet_fs::read_text;

use crate::file_update;
use crate::locations::SettingsLocations;

/// Maximum size of the record, which is a list of paths.
const RECORD_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Returns true if this file is known to have come with its project.
pub(super) fn is_recorded(locations: &SettingsLocations, file: &Path) -> bool {
    let Some(name) = file.to_str() else { return false };
    match read_text(&record_path(locations), RECORD_MAX_BYTES) {
        Ok(None) => false,
        Ok(Some(text)) => parse_record(Some(&text)).is_ok_and(|files| files.contains(name)),
        // A record that cannot be read may name it.
        Err(_) => true,
    }
}

/// Keeps in mind that it did.
pub(super) fn record_file(locations: &SettingsLocations, file: &Path) {
    update_record(locations, |files| file.to_str().is_some_and(|name| files.insert(name.to_owned())));
}

/// Removes the local files here from the record: the user has reviewed them. Those that still come with the project
/// are recorded again.
pub fn forget_seen_project_files(locations: &SettingsLocations) {
    let local = locations.local_file();
    update_record(locations, |files| local.to_str().is_some_and(|name| files.remove(name)));
}

/// Updates the record. If it cannot be written, each run relies on what it finds itself.
fn update_record(locations: &SettingsLocations, mut change: impl FnMut(&mut BTreeSet<String>) -> bool) {
    let renew = |text: Option<&str>| -> Result<Option<String>, serde_json::Error> {
        // A record that is no list is replaced.
        let mut files = parse_record(text).unwrap_or_default();
        if change(&mut files) { serde_json::to_string_pretty(&files).map(|text| Some(text + "\n")) } else { Ok(None) }
    };
    drop(file_update::update_file(&record_path(locations), RECORD_MAX_BYTES, renew));
}

fn parse_record(text: Option<&str>) -> Result<BTreeSet<String>, serde_json::Error> {
    text.map_or_else(|| Ok(BTreeSet::new()), serde_json::from_str)
}

fn record_path(locations: &SettingsLocations) -> PathBuf {
    locations.config_dir.join("gimlet/shipped.json")
}
