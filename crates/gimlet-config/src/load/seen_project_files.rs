//! Local settings files that were once seen to come with a project. Whether one does is read in its repository, where commands
//! may write; what was seen there is kept in the config home, where they may not, until the person trusts the folder anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::atomic_write;
use crate::bounded_read;
use crate::locations::SettingsLocations;

/// The record is a list of paths.
const RECORD_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Whether this file is known to have come with its project.
pub(super) fn is_recorded(locations: &SettingsLocations, file: &Path) -> bool {
    let Some(name) = file.to_str() else { return false };
    match bounded_read::read_text(&record_path(locations), RECORD_MAX_BYTES) {
        Ok(None) => false,
        Ok(Some(text)) => parse_record(Some(&text)).is_ok_and(|files| files.contains(name)),
        // What cannot be read may name it.
        Err(_) => true,
    }
}

/// Keeps in mind that it did.
pub(super) fn record_file(locations: &SettingsLocations, file: &Path) {
    update_record(locations, |files| file.to_str().is_some_and(|name| files.insert(name.to_owned())));
}

/// Forgets it of the local files here: the person has looked at them. What still holds is seen again.
pub fn forget_seen_project_files(locations: &SettingsLocations) {
    let local = locations.local_file();
    update_record(locations, |files| local.to_str().is_some_and(|name| files.remove(name)));
}

/// Where the record cannot be written, each run sees what it sees.
fn update_record(locations: &SettingsLocations, mut change: impl FnMut(&mut BTreeSet<String>) -> bool) {
    let renew = |text: Option<&str>| -> Result<Option<String>, serde_json::Error> {
        // One that is no list says nothing any more.
        let mut files = parse_record(text).unwrap_or_default();
        if change(&mut files) { serde_json::to_string_pretty(&files).map(|text| Some(text + "\n")) } else { Ok(None) }
    };
    drop(atomic_write::update_file(&record_path(locations), RECORD_MAX_BYTES, renew));
}

fn parse_record(text: Option<&str>) -> Result<BTreeSet<String>, serde_json::Error> {
    text.map_or_else(|| Ok(BTreeSet::new()), serde_json::from_str)
}

fn record_path(locations: &SettingsLocations) -> PathBuf {
    locations.config_dir.join("gimlet/shipped.json")
}
