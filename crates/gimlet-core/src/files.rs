//! Files known to the conversation: which were read, how completely, and their content at that time.
//!
//! Keys are symlink-free paths, so every spelling of a path finds one entry. A change is detected by the content's
//! hash; time and size can only prove that a file is unchanged.

mod file_location;

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;

pub use file_location::{FileLocation, open_for_reading, open_output_file};

/// The user's preferences for reading and changing files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilePreferences {
    /// Number of lines of a read that specifies none; if unset, as many as fit.
    pub default_lines: Option<NonZeroU64>,
    /// Set if models that check files before changes by themselves need not be forced to.
    pub trusts_models: bool,
}

/// Maximum number of entries; the least recently used are dropped first.
const MAX_ENTRIES: usize = 1_000;

/// Hash of a file's bytes.
pub type ContentHash = [u8; 32];

/// Hashes file content.
pub fn hash_content(bytes: &[u8]) -> ContentHash {
    Sha256::digest(bytes).into()
}

/// Size above which content is hashed on a separate thread.
const HASHED_BESIDE: usize = 256 * 1024;

/// Hashes content while other work on it runs, such as waiting for a disk.
pub fn hash_while<T>(bytes: &[u8], work: impl FnOnce() -> T) -> (ContentHash, T) {
    if bytes.len() < HASHED_BESIDE {
        return (hash_content(bytes), work());
    }
    std::thread::scope(|scope| {
        let hashing = std::thread::Builder::new().spawn_scoped(scope, || hash_content(bytes));
        let done = work();
        // If no thread can be started, the hash is computed afterwards.
        let hashed = hashing.ok().and_then(|hashing| hashing.join().ok());
        (hashed.unwrap_or_else(|| hash_content(bytes)), done)
    })
}

/// State of a file on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub modified: Option<SystemTime>,
    pub size: u64,
    pub hash: ContentHash,
}

impl FileStamp {
    /// Creates the stamp of bytes just read from or written to the file of `metadata`.
    pub fn from_bytes(bytes: &[u8], metadata: &std::fs::Metadata) -> Self {
        Self::new(hash_content(bytes), metadata)
    }

    /// Creates the stamp of content whose hash is known.
    pub fn new(hash: ContentHash, metadata: &std::fs::Metadata) -> Self {
        Self { modified: metadata.modified().ok(), size: metadata.len(), hash }
    }
}

/// Part of a file that the model has seen; equal views of an unchanged file need not be sent twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewKey {
    pub offset: Option<u64>,
    pub limit: Option<u64>,
}

/// Known state of one file.
#[derive(Clone, Debug)]
pub struct FileState {
    pub stamp: FileStamp,
    /// Set if the model has seen the whole file, so that it may be edited or overwritten.
    pub whole: bool,
    /// Views whose results are still in the conversation.
    pub views: Vec<ViewKey>,
}

/// Files of one conversation.
#[derive(Clone, Debug, Default)]
pub struct FileStates {
    entries: HashMap<PathBuf, FileStateEntry>,
    clock: u64,
    /// Files that were written since others last looked.
    written: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
struct FileStateEntry {
    used: u64,
    /// Name under which the file was last used; the key is its normalized form.
    path: PathBuf,
    state: FileState,
    /// True if gimlet wrote it.
    was_written: bool,
}

/// Normalizes the spelling of accented letters: some systems return another form than they were given.
fn normalize_path(path: &Path) -> Cow<'_, Path> {
    match path.to_str() {
        Some(text) if !text.is_ascii() => Cow::Owned(text.nfc().collect::<String>().into()),
        Some(_) | None => Cow::Borrowed(path),
    }
}

impl FileStates {
    /// Returns the state of the file at this symlink-free path, if known.
    pub fn get(&self, path: &Path) -> Option<&FileState> {
        self.entries.get(&*normalize_path(path)).map(|entry| &entry.state)
    }

    /// Records that the model was shown (part of) a file.
    pub fn record_read(&mut self, path: PathBuf, stamp: FileStamp, whole: bool, view: Option<ViewKey>) {
        let mut views = match self.get(&path) {
            Some(known) if known.stamp.hash == stamp.hash => known.views.clone(),
            Some(_) | None => Vec::new(),
        };
        let seen_whole = whole || self.get(&path).is_some_and(|known| known.whole && known.stamp.hash == stamp.hash);
        if let Some(view) = view.filter(|view| !views.contains(view)) {
            views.push(view);
        }
        self.insert(path, FileState { stamp, whole: seen_whole, views }, false);
    }

    /// Notes that gimlet wrote the file at this symlink-free path, for others who look at that.
    pub fn note_write(&mut self, path: &Path) {
        self.written.push(path.to_owned());
    }

    /// Takes the files that were written since the last call.
    pub(crate) fn take_written(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.written)
    }

    /// Records that gimlet wrote a file: its content is known, but earlier views no longer show it.
    pub fn record_write(&mut self, path: PathBuf, stamp: FileStamp) {
        self.note_write(&path);
        self.insert(path, FileState { stamp, whole: true, views: Vec::new() }, true);
    }

    /// Updates the stamp of a known file whose new content was not shown.
    pub(crate) fn update_stamp(&mut self, path: PathBuf, stamp: FileStamp) {
        if let Some(known) = self.get(&path).filter(|known| known.stamp != stamp) {
            let whole = known.whole;
            self.insert(path, FileState { stamp, whole, views: Vec::new() }, false);
        }
    }

    /// Returns every known path, for checks after a command that may have written.
    pub fn paths(&self) -> impl Iterator<Item = (&Path, &FileState)> {
        self.entries.values().map(|entry| (entry.path.as_path(), &entry.state))
    }

    /// Returns the current tick, for [`FileStates::forget_since`].
    pub(crate) fn current_tick(&self) -> u64 {
        self.clock
    }

    /// Removes everything recorded after the given tick.
    pub(crate) fn forget_since(&mut self, moment: u64) {
        self.entries.retain(|_, entry| entry.used <= moment);
    }

    /// Returns every known path with its state, and true if gimlet wrote the file, the last used one first.
    pub(crate) fn latest_first(&self) -> Vec<(&Path, &FileState, bool)> {
        let mut entries: Vec<&FileStateEntry> = self.entries.values().collect();
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.used));
        entries.into_iter().map(|entry| (entry.path.as_path(), &entry.state, entry.was_written)).collect()
    }

    /// Makes every file unread: nothing of it is in view any more. Stamps are kept.
    pub(crate) fn begin_segment(&mut self) {
        for entry in self.entries.values_mut() {
            entry.state.whole = false;
            entry.state.views.clear();
        }
    }

    fn insert(&mut self, path: PathBuf, state: FileState, is_write: bool) {
        self.clock += 1;
        let key = normalize_path(&path).into_owned();
        let was_written = is_write || self.entries.get(&key).is_some_and(|entry| entry.was_written);
        self.entries.insert(key, FileStateEntry { used: self.clock, path, state, was_written });
        if self.entries.len() > MAX_ENTRIES
            && let Some(oldest) = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(path, _)| path.clone())
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(content: &[u8]) -> FileStamp {
        FileStamp { modified: None, size: content.len() as u64, hash: hash_content(content) }
    }

    #[test]
    fn a_partial_view_does_not_undo_a_whole_one_of_the_same_content() {
        let mut files = FileStates::default();
        let path = PathBuf::from("/a");
        let part = ViewKey { offset: Some(3), limit: Some(1) };
        files.record_read(path.clone(), stamp(b"one"), true, None);
        files.record_read(path.clone(), stamp(b"one"), false, Some(part.clone()));
        assert!(files.get(&path).unwrap().whole);
        files.record_read(path.clone(), stamp(b"two"), false, Some(part.clone()));
        assert!(!files.get(&path).unwrap().whole);
        assert_eq!(files.get(&path).unwrap().views, [part]);
        files.record_write(path.clone(), stamp(b"three"));
        assert!(files.get(&path).unwrap().views.is_empty());
    }

    #[test]
    fn a_name_is_one_name_however_its_letters_are_composed() {
        let mut files = FileStates::default();
        files.record_write(PathBuf::from("/re\u{301}sume\u{301}"), stamp(b"x"));
        assert!(files.get(Path::new("/r\u{e9}sum\u{e9}")).is_some());
        assert_eq!(files.paths().next().unwrap().0, Path::new("/re\u{301}sume\u{301}"), "the name on the disk");
    }

    #[test]
    fn content_has_one_hash_whichever_thread_finds_it() {
        for size in [0, HASHED_BESIDE, HASHED_BESIDE + 1] {
            let content = vec![7; size];
            assert_eq!(hash_while(&content, || size), (hash_content(&content), size));
        }
    }

    #[test]
    fn the_oldest_entries_go_first() {
        let mut files = FileStates::default();
        for n in 0..=MAX_ENTRIES {
            files.record_write(PathBuf::from(format!("/{n}")), stamp(b""));
        }
        assert!(files.get(Path::new("/0")).is_none() && files.get(Path::new("/1")).is_some());
    }
}
