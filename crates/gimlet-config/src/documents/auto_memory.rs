//! Memory that the model keeps of a repository: an index that every session begins with, and topics that are read when
//! they are needed.

use std::path::{Path, PathBuf};

use super::memory_file::{MemoryFile, MemoryReason, MemoryScope};
use super::{DocumentReader, SkippedDocument};
use crate::file_ownership;
use crate::locations::SettingsLocations;

/// Limits of the index that is loaded; the first that is reached holds.
const INDEX_MAX_LINES: usize = 200;
const INDEX_MAX_BYTES: usize = 25 * 1024;
/// Maximum size of an index that is read at all.
const INDEX_FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Name of the index.
const INDEX_NAME: &str = "MEMORY.md";

/// Index of the memory that the model keeps.
#[derive(Clone, Debug)]
pub struct AutoMemory {
    /// Folder of the index and its topics.
    pub folder: PathBuf,
    /// Index as far as it is loaded; `None` if there is none yet.
    pub index: Option<MemoryFile>,
    /// Number of lines of the index that are not loaded.
    pub lines_left_out: usize,
    pub skipped: Option<SkippedDocument>,
}

/// Returns the folder of the memory that the model keeps: the one that the setting names, or `memory` in the folder
/// that keeps the sessions of [`SettingsLocations::trust_root`], so that all worktrees of a repository share it. `None`
/// for a setting that is neither absolute nor begins with `~/`.
pub fn auto_memory_folder(locations: &SettingsLocations, setting: Option<&str>, sessions: &Path) -> Option<PathBuf> {
    let Some(setting) = setting else { return Some(sessions.join("memory")) };
    match setting.strip_prefix("~/") {
        Some(below) => locations.home.as_ref().map(|home| home.join(below)),
        None => Some(PathBuf::from(setting)).filter(|folder| folder.is_absolute()),
    }
}

impl DocumentReader {
    /// Reads the index in a folder of such memory.
    pub fn auto_memory(&self, folder: &Path) -> AutoMemory {
        let path = folder.join(INDEX_NAME);
        let mut memory = AutoMemory { folder: folder.to_owned(), index: None, lines_left_out: 0, skipped: None };
        let doubts = self.locations.user.check_file(folder, &path);
        if !doubts.is_empty() {
            memory.skipped = Some(SkippedDocument::new(&path, file_ownership::describe_problems(&doubts)));
            return memory;
        }
        match self.read(&path, None, INDEX_FILE_MAX_BYTES) {
            Ok(None) => {}
            Ok(Some(document)) => {
                let text = limit_index(&document.text);
                memory.lines_left_out = document.text[text.len()..].lines().filter(|line| !line.is_empty()).count();
                memory.index = Some(MemoryFile {
                    real_path: path.canonicalize().unwrap_or_else(|_| path.clone()),
                    path,
                    scope: MemoryScope::Auto,
                    reason: MemoryReason::SessionStart,
                    text: text.to_owned(),
                });
            }
            Err(error) => memory.skipped = Some(SkippedDocument::new(&path, error.to_string())),
        }
        memory
    }
}

/// Returns the beginning of an index within the limits, whole lines where possible.
fn limit_index(text: &str) -> &str {
    let mut end = 0;
    for line in text.split_inclusive('\n').take(INDEX_MAX_LINES) {
        if end + line.len() > INDEX_MAX_BYTES {
            break;
        }
        end += line.len();
    }
    // A single line can be longer than everything that is allowed.
    if end == 0 { &text[..text.floor_char_boundary(INDEX_MAX_BYTES)] } else { &text[..end] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_cut_at_the_first_limit() {
        let many = "line\n".repeat(300);
        assert_eq!(limit_index(&many).lines().count(), INDEX_MAX_LINES);
        let wide = format!("{}\n", "x".repeat(1000)).repeat(100);
        assert_eq!(limit_index(&wide).lines().count(), 25);
        assert_eq!(limit_index(&"ä".repeat(20_000)).len(), INDEX_MAX_BYTES);
        assert_eq!(limit_index("short"), "short");
    }
}
