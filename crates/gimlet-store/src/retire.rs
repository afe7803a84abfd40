//! Removes sessions by their age. Nothing here runs by itself: somebody must have asked for it, and said how old.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gimlet_proto::SessionId;

use crate::layout::{Locations, SessionFiles};
use crate::lock::{Claim, DriverLock};

/// The folders of every project that has sessions.
pub fn project_folders(places: &Locations) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(places.projects_root()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink()).collect()
}

/// Removes the sessions in these folders that were last written before `limit`, with all that lies beside them, and says
/// how many. One that somebody drives stays, and so does `keep`; what cannot be removed is left for the next time.
pub fn retire_sessions(folders: &[PathBuf], limit: SystemTime, keep: &SessionId) -> usize {
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let sessions = entries.filter_map(|entry| SessionFiles::of_transcript(&entry.path()));
    sessions.filter(|files| files.id() != keep && is_older(&files.transcript(), limit) && retire(files)).count()
}

fn is_older(transcript: &Path, limit: SystemTime) -> bool {
    let metadata = transcript.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
    metadata.and_then(|metadata| metadata.modified().ok()).is_some_and(|written| written < limit)
}

fn retire(files: &SessionFiles) -> bool {
    let side_dir = files.side_dir();
    let lock = match side_dir.is_dir().then(|| DriverLock::claim(&files.driver_lock())) {
        Some(Claim::Held(lock)) => Some(lock),
        Some(Claim::Busy) => return false,
        // Without a folder beside it nobody drives it.
        Some(Claim::Unavailable) | None => None,
    };
    let removed = std::fs::remove_file(files.transcript()).is_ok();
    if removed && !side_dir.is_symlink() && side_dir.is_dir() {
        // Whatever stays here belongs to no session any more.
        drop(std::fs::remove_dir_all(&side_dir));
    }
    drop(lock);
    removed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_old_sessions_that_nobody_drives_go_and_nothing_that_is_no_session() {
        let temp = tempfile::tempdir().unwrap();
        let places = Locations::new(temp.path());
        let project = places.project(Path::new("/project"));
        let now = SystemTime::now();
        let session = |id: u8, days: u64| {
            let files = project.session(&SessionId::new(format!("{id:08}-0000-4000-8000-000000000000")));
            std::fs::create_dir_all(files.tool_results()).unwrap();
            std::fs::write(files.transcript(), "{}\n").unwrap();
            let file = std::fs::File::options().append(true).open(files.transcript()).unwrap();
            file.set_modified(now - Duration::from_secs(days * 86_400)).unwrap();
            files
        };
        let [old, young, driven, kept] = [session(1, 40), session(2, 3), session(3, 40), session(4, 40)];
        let Claim::Held(_lock) = DriverLock::claim(&driven.driver_lock()) else { panic!("the lock is free") };
        let other = project.dir().join("notes.jsonl");
        std::fs::write(&other, "mine").unwrap();
        let limit = now - Duration::from_secs(30 * 86_400);
        assert_eq!(retire_sessions(&project_folders(&places), limit, kept.id()), 1);
        assert!(!old.transcript().exists() && !old.side_dir().exists());
        for stays in [young.transcript(), driven.transcript(), kept.transcript(), kept.side_dir(), other] {
            assert!(stays.exists(), "{}", stays.display());
        }
    }
}
