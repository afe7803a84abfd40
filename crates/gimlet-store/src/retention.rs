//! Removal of sessions by age. Nothing here runs by itself: the user must have asked for it, and set the age.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gimlet_proto::SessionId;

use crate::layout::{SessionFiles, StoreLocations};
use crate::session_removal::{RemoveError, remove_session};

/// Lists the folders of every project that has sessions.
pub fn list_project_folders(places: &StoreLocations) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(places.projects_root()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink()).collect()
}

/// Removes the sessions in these folders that were last written before `limit`, with all that belongs to them, and
/// returns their number. Sessions with a driver stay, and so does `keep`; those that cannot be removed are left for
/// the next time.
pub fn remove_old_sessions(places: &StoreLocations, folders: &[PathBuf], limit: SystemTime, keep: &SessionId) -> usize {
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let sessions = entries.filter_map(|entry| SessionFiles::from_transcript(&entry.path()));
    sessions
        .filter(|files| {
            files.id() != keep && is_older_than(&files.transcript(), limit) && try_remove_session(places, files)
        })
        .count()
}

fn is_older_than(transcript: &Path, limit: SystemTime) -> bool {
    let metadata = transcript.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
    metadata.and_then(|metadata| metadata.modified().ok()).is_some_and(|written| written < limit)
}

/// Removes a session. Returns true if it is gone, even if something that belonged to it could not be removed.
fn try_remove_session(places: &StoreLocations, files: &SessionFiles) -> bool {
    match remove_session(places, files) {
        Ok(_) => true,
        Err(RemoveError::Busy { .. }) => false,
        Err(RemoveError::Delete { path, .. }) => path != files.transcript(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::driver_lock::{DriverLock, LockClaim};

    #[test]
    fn only_old_sessions_that_nobody_drives_go_and_nothing_that_is_no_session() {
        let temp = tempfile::tempdir().unwrap();
        let places = StoreLocations::new(temp.path());
        let project = places.project(Path::new("/project"));
        let now = SystemTime::now();
        let session = |id: u8, days: u64| {
            let files = project.session_files(&SessionId::new(format!("{id:08}-0000-4000-8000-000000000000")));
            std::fs::create_dir_all(files.tool_results()).unwrap();
            std::fs::write(files.transcript(), "{}\n").unwrap();
            let file = std::fs::File::options().append(true).open(files.transcript()).unwrap();
            file.set_modified(now - Duration::from_secs(days * 86_400)).unwrap();
            files
        };
        let [old, young, driven, kept] = [session(1, 40), session(2, 3), session(3, 40), session(4, 40)];
        let LockClaim::Held(_lock) = DriverLock::claim(&driven.driver_lock()) else { panic!("the lock is free") };
        let other = project.dir().join("notes.jsonl");
        std::fs::write(&other, "mine").unwrap();
        let belonging = ["file-history/ID/a@v1", "debug/ID.txt", "shell-snapshots/ID.sh", "plans/ID.md"];
        let of = |files: &SessionFiles| belonging.map(|name| temp.path().join(name.replace("ID", files.id().as_str())));
        for path in [of(&old), of(&young)].concat() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let limit = now - Duration::from_secs(30 * 86_400);
        assert_eq!(remove_old_sessions(&places, &list_project_folders(&places), limit, kept.id()), 1);
        assert!(!old.transcript().exists() && !old.side_dir().exists());
        assert!(of(&old).iter().all(|path| !path.exists()) && of(&young).iter().all(|path| path.exists()));
        for stays in [young.transcript(), driven.transcript(), kept.transcript(), kept.side_dir(), other] {
            assert!(stays.exists(), "{}", stays.display());
        }
    }
}
