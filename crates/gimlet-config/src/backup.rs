//! Copies of a file that other programs rely on, kept before it is rewritten.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::atomic;
use crate::files::{self, STATE_MAX_BYTES};

/// So many copies are kept.
const KEPT: usize = 5;

/// Copies a file into `folder` and removes all but the newest copies. A file that is not there needs none.
pub(crate) fn keep(file: &Path, folder: &Path) -> io::Result<()> {
    let Some(text) = files::read_text(file, STATE_MAX_BYTES).map_err(io::Error::other)? else { return Ok(()) };
    let Some(name) = file.file_name() else { return Ok(()) };
    let copy = stamped(&folder.join(name), "backup");
    atomic::update(&copy, STATE_MAX_BYTES, |_| Ok::<_, io::Error>(Some(text.clone()))).map_err(io::Error::other)?;
    let prefix = format!("{}.backup.", name.to_string_lossy());
    let is_copy = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
    let mut copies: Vec<PathBuf> = folder.read_dir()?.flatten().map(|entry| entry.path()).filter(is_copy).collect();
    // Their names end in a time, so this is their age.
    copies.sort();
    for old in copies.iter().rev().skip(KEPT) {
        match std::fs::remove_file(old) {
            // Another gimlet tidies up as well.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// `file.<what>.<milliseconds since 1970>`
pub(crate) fn stamped(file: &Path, what: &str) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{what}.{now}"));
    PathBuf::from(name)
}
