//! Copies of a file that other programs rely on: kept before it is rewritten, and when it can no longer be parsed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gimlet_fs::{FileDurability, create_private_dir_all, read_file, read_text, replace_file};

use crate::file_update;
use crate::size_limits::STATE_MAX_BYTES;

/// Number of copies that are kept.
const KEPT: usize = 5;

/// Copies a file into `folder` and removes all but the newest copies. A file that is not there needs none.
pub(crate) fn back_up_file(file: &Path, folder: &Path) -> io::Result<()> {
    let Some(text) = read_text(file, STATE_MAX_BYTES).map_err(io::Error::other)? else { return Ok(()) };
    let Some(name) = file.file_name() else { return Ok(()) };
    let copy = timestamped_path(&folder.join(name), "backup");
    file_update::update_file(&copy, STATE_MAX_BYTES, |_| Ok::<_, io::Error>(Some(text.clone())))
        .map_err(io::Error::other)?;
    remove_old_copies(folder, &format!("{}.backup.", name.to_string_lossy()))
}

/// Keeps the content of a file that can no longer be parsed and returns the path of the copy. Identical content is
/// copied once.
pub(crate) fn back_up_corrupted(file: &Path, bytes: &[u8], folder: &Path) -> io::Result<PathBuf> {
    let name = file.file_name().unwrap_or_default();
    let prefix = format!("{}.corrupted.", name.to_string_lossy());
    let is_same = |copy: &PathBuf| read_file(copy, STATE_MAX_BYTES).is_ok_and(|kept| kept.as_deref() == Some(bytes));
    if let Some(kept) = list_copies(folder, &prefix)?.into_iter().find(is_same) {
        return Ok(kept);
    }
    let copy = timestamped_path(&folder.join(name), "corrupted");
    create_private_dir_all(folder)?;
    replace_file(&copy, bytes, FileDurability::ContentAndName)?;
    remove_old_copies(folder, &prefix)?;
    Ok(copy)
}

/// Returns the copies with this name prefix, the oldest first.
fn list_copies(folder: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let is_copy = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    let mut copies: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_copy).collect();
    // Names end in a time, so this sorts by age.
    copies.sort();
    Ok(copies)
}

fn remove_old_copies(folder: &Path, prefix: &str) -> io::Result<()> {
    for old in list_copies(folder, prefix)?.iter().rev().skip(KEPT) {
        match std::fs::remove_file(old) {
            // Another gimlet removes old copies as well.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// Returns `file.<what>.<milliseconds since 1970>`.
pub(crate) fn timestamped_path(file: &Path, what: &str) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{what}.{now}"));
    PathBuf::from(name)
}
