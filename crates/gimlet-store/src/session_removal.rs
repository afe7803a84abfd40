//! Deletion of a session: its transcript, everything beside it, and the files under its id in the config home.
//!
//! Only names that carry the session's own id are touched, and symlinks are removed, never followed. Nothing here
//! decides that a session is old: the caller has been asked to delete it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::driver_lock::{DriverLock, LockClaim};
use crate::layout::{SessionFiles, StoreLocations};
use crate::symlinks::refuse_symlink;

/// Failure to delete a session wholly.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error("session {id} is in use by another process")]
    Busy { id: String },
    #[error("cannot delete {}: {source}", path.display())]
    Delete { path: PathBuf, source: io::Error },
}

/// Deleted files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalSummary {
    /// Files and folders, the transcript first.
    pub paths: Vec<PathBuf>,
    pub bytes: u64,
}

/// Returns the existing paths that belong to a session: the transcript, its side folder, checkpoints, debug logs, its
/// plan, snapshots.
pub fn session_paths(places: &StoreLocations, files: &SessionFiles) -> Vec<PathBuf> {
    let mut paths = vec![files.transcript(), files.side_dir()];
    if files.transcript().starts_with(places.projects_root()) && !has_copies(places, files) {
        let home = places.config_home();
        let id = files.id().as_str();
        paths.push(home.join("file-history").join(id));
        paths.push(home.join("debug").join(format!("{id}.txt")));
        paths.push(home.join("plans").join(format!("{id}.md")));
        paths.extend(list_by_prefix(&home.join("shell-snapshots"), &format!("{id}.")));
        paths.extend(list_by_prefix(&home.join("todos"), &format!("{id}-")));
    }
    paths.retain(|path| path.symlink_metadata().is_ok());
    paths
}

/// Deletes a session. Refused while a process works in it.
pub fn remove_session(places: &StoreLocations, files: &SessionFiles) -> Result<RemovalSummary, RemoveError> {
    if let Some(folder) = files.transcript().parent() {
        refuse_symlink_below(places, folder)
            .map_err(|source| RemoveError::Delete { path: files.transcript(), source })?;
    }
    let _lock = match files.driver_lock().exists().then(|| DriverLock::claim(&files.driver_lock())) {
        Some(LockClaim::Busy) => return Err(RemoveError::Busy { id: files.id().to_string() }),
        Some(LockClaim::Held(lock)) => Some(lock),
        Some(LockClaim::Unavailable) | None => None,
    };
    let mut removed = RemovalSummary::default();
    for path in session_paths(places, files) {
        removed.bytes += disk_size(&path);
        delete_path(&path).map_err(|source| RemoveError::Delete { path: path.clone(), source })?;
        removed.paths.push(path);
    }
    Ok(removed)
}

/// Fails if a folder of sessions in the config home is a symlink: what it leads to is not gimlet's to delete.
fn refuse_symlink_below(places: &StoreLocations, folder: &Path) -> io::Result<()> {
    if folder.starts_with(places.projects_root()) { refuse_symlink(folder) } else { Ok(()) }
}

/// Returns true if another project has a session with this id, which shares the files in the config home.
fn has_copies(places: &StoreLocations, files: &SessionFiles) -> bool {
    let name = format!("{}.jsonl", files.id());
    let projects = fs::read_dir(places.projects_root()).into_iter().flatten().flatten();
    projects.map(|project| project.path().join(&name)).any(|path| path != files.transcript() && path.exists())
}

fn list_by_prefix(dir: &Path, start: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// Returns the size of a file, or of all files below a folder.
pub(crate) fn disk_size(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| disk_size(&entry.path())).sum()
}

fn delete_path(path: &Path) -> io::Result<()> {
    let done = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
