//! Checkpoints: contents of files before a session changed them, by the prompt after which they were changed.
//!
//! A journal names every prompt and, behind it, each file that was changed since with the content it had; contents are
//! stored once each, under their hash. Both are written before the file changes, survive a resume, and are private to
//! the owner. This module stores and restores; its callers decide which change needs a checkpoint.

mod nofollow_dir;
mod restore;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use gimlet_proto::{EntryId, SessionId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::disk::{create_private_dirs, open_private, replace_private};
use crate::entry_format::current_timestamp;
use crate::layout::StoreLocations;
use crate::side_writer::SideWriter;
pub use restore::{
    CurrentContent, CurrentFile, overwrite_file_content, read_current_content, remove_empty_folders,
    restore_file_content,
};

/// Prompts that one can go back to.
const MOST_PROMPTS: usize = 100;
/// Maximum size of a file that is kept.
const LARGEST_FILE: usize = 32 << 20;
/// Maximum size of all contents of one session.
const LARGEST_SESSION: u64 = 1 << 30;
/// Files of one prompt up to which the transcript repeats them all with each further one.
const MOST_TOLD: usize = 100;

/// Reason why a file has no checkpoint. The change itself proceeds.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("{} has {size} bytes, which is too much to keep", path.display())]
    TooLarge { path: PathBuf, size: usize },
    #[error("the session has kept as much as it may, so {} was not", path.display())]
    Full { path: PathBuf },
    #[error("what {} held could not be kept in {}: {source}", path.display(), folder.display())]
    Write { path: PathBuf, folder: PathBuf, source: io::Error },
}

/// Kept content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// Hash of the content, which is its name in the store.
    blob: String,
    /// Permission bits of the file.
    pub mode: u32,
}

/// State of a file before it was changed.
#[derive(Clone, Copy, Debug)]
pub enum PriorContent<'a> {
    Absent,
    File { bytes: &'a [u8], mode: u32 },
}

/// State of a file as the session left it. What differs from it was changed by something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Hash of the content; `None` if the session removed the file.
    hash: Option<String>,
    /// Permission bits of the file.
    mode: u32,
    /// Number of its hard links.
    links: u64,
}

impl WrittenFile {
    /// Describes what is at a path now.
    fn from_current(now: &CurrentContent) -> Option<Self> {
        match now {
            CurrentContent::Absent => Some(Self { hash: None, mode: 0, links: 0 }),
            CurrentContent::File(file) => {
                Some(Self { hash: Some(hash_text(&file.bytes)), mode: file.mode, links: file.links })
            }
            CurrentContent::Link => None,
        }
    }

    /// Returns true if a path still is as the session left it.
    pub fn is_same(&self, now: &CurrentContent) -> bool {
        Self::from_current(now).as_ref() == Some(self)
    }
}

/// A folder that the session created for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedFolder {
    /// The folder of the file.
    pub deepest: PathBuf,
    /// The first of its parents that did not exist, or itself.
    pub topmost: PathBuf,
}

/// Backup of a file as the transcript records it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileBackup<'a> {
    pub(crate) path: &'a Path,
    /// Name of the copy in the folder; `None` if the file did not exist.
    pub(crate) name: Option<&'a str>,
}

impl<'a> FileBackup<'a> {
    fn from_kept((path, was): &'a (PathBuf, Option<KeptFile>)) -> Self {
        Self { path, name: was.as_ref().map(|kept| kept.blob.as_str()) }
    }
}

/// One line of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum JournalLine {
    Prompt {
        id: EntryId,
        at: String,
    },
    File {
        path: PathBuf,
        /// Prior content; `None` if the file did not exist.
        was: Option<KeptFile>,
        /// The first folder on the way to it that did not exist.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<PathBuf>,
    },
    /// The session has changed a file.
    Written {
        path: PathBuf,
        now: WrittenFile,
    },
}

/// Prompt with the changes behind it.
#[derive(Debug)]
struct CheckpointStep {
    prompt: EntryId,
    files: Vec<(PathBuf, Option<KeptFile>)>,
    folders: Vec<CreatedFolder>,
}

impl CheckpointStep {
    fn new(prompt: EntryId) -> Self {
        Self { prompt, files: Vec::new(), folders: Vec::new() }
    }

    fn add_file(&mut self, path: PathBuf, was: Option<KeptFile>, missing: Option<PathBuf>) {
        if let (Some(topmost), Some(deepest)) = (missing, path.parent()) {
            self.folders.push(CreatedFolder { deepest: deepest.to_owned(), topmost });
        }
        self.files.push((path, was));
    }
}

/// Checkpoints of one session.
#[derive(Debug)]
pub struct SessionCheckpoints {
    folder: PathBuf,
    journal: Option<File>,
    steps: Vec<CheckpointStep>,
    /// The state in which the session left each file.
    written: HashMap<PathBuf, WrittenFile>,
    stored: u64,
    /// Writer that also records them in the transcript, for other programs. Only the journal is read.
    side_writer: Option<SideWriter>,
}

impl SessionCheckpoints {
    /// Opens the checkpoints of a session, with those of earlier runs. Nothing is created before there is something to
    /// keep.
    pub fn open(places: &StoreLocations, session: &SessionId) -> Self {
        let folder = places.config_home().join("file-history").join(session.as_str());
        let (steps, written) = read_journal(&folder.join(JOURNAL));
        let stored = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let stored = stored.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum();
        Self { folder, journal: None, steps, written, stored, side_writer: None }
    }

    /// Also records checkpoints in a transcript.
    pub fn with_side_writer(self, transcript: SideWriter) -> Self {
        Self { side_writer: Some(transcript), ..self }
    }

    fn record_in_transcript(&self, update: bool) {
        let (Some(transcript), Some(step)) = (&self.side_writer, self.steps.last()) else { return };
        if step.files.len() <= MOST_TOLD {
            let backups: Vec<FileBackup<'_>> = step.files.iter().map(FileBackup::from_kept).collect();
            transcript.record_file_history(&step.prompt, &backups, update);
        }
    }

    /// Records a prompt that files can be restored to from now on.
    pub fn begin_prompt(&mut self, prompt: &EntryId) -> io::Result<()> {
        self.steps.push(CheckpointStep::new(prompt.clone()));
        self.append_line(&JournalLine::Prompt { id: prompt.clone(), at: current_timestamp() })?;
        self.record_in_transcript(false);
        self.forget_oldest();
        Ok(())
    }

    /// Keeps what a file was, unless that was done since the last prompt. To be called before it changes.
    pub fn keep_file(&mut self, path: &Path, before: PriorContent<'_>) -> Result<(), CheckpointError> {
        // Before the first prompt there is nothing to restore.
        let Some(step) = self.steps.last() else { return Ok(()) };
        if step.files.iter().any(|(known, _)| known == path) {
            return Ok(());
        }
        let failed =
            |folder: &Path, source| CheckpointError::Write { path: path.to_owned(), folder: folder.to_owned(), source };
        let was = match before {
            PriorContent::Absent => None,
            PriorContent::File { bytes, .. } if bytes.len() > LARGEST_FILE => {
                return Err(CheckpointError::TooLarge { path: path.to_owned(), size: bytes.len() });
            }
            PriorContent::File { .. } if self.stored >= LARGEST_SESSION => {
                return Err(CheckpointError::Full { path: path.to_owned() });
            }
            PriorContent::File { bytes, mode } => {
                let blob = self.store_content(bytes).map_err(|source| failed(&self.folder, source))?;
                Some(KeptFile { blob, mode: mode & 0o777 })
            }
        };
        let missing = if was.is_none() { first_missing_folder(path) } else { None };
        let line = JournalLine::File { path: path.to_owned(), was: was.clone(), missing: missing.clone() };
        self.append_line(&line).map_err(|source| failed(&self.folder, source))?;
        if let Some(step) = self.steps.last_mut() {
            step.add_file(path.to_owned(), was, missing);
        }
        self.record_in_transcript(true);
        Ok(())
    }

    /// Returns the state of each file at a prompt, as far as it was changed since; `None` for an unknown prompt.
    pub fn files_at(&self, prompt: &EntryId) -> Option<Vec<(PathBuf, Option<KeptFile>)>> {
        let from = self.steps.iter().rposition(|step| step.prompt == *prompt)?;
        let mut seen = HashSet::new();
        let files = self.steps[from..].iter().flat_map(|step| &step.files);
        // The first change since then recorded the file as it was then.
        Some(files.filter(|(path, _)| seen.insert(path.as_path())).cloned().collect())
    }

    /// Returns the folders that the session created since a prompt.
    pub fn folders_created_since(&self, prompt: &EntryId) -> Vec<CreatedFolder> {
        let from = self.steps.iter().rposition(|step| step.prompt == *prompt).unwrap_or(self.steps.len());
        self.steps[from..].iter().flat_map(|step| step.folders.iter().cloned()).collect()
    }

    /// Records how the session left a file of which there is a checkpoint. To be called after it changed. If this is
    /// lost, the file only counts as changed by something else.
    pub fn note_written(&mut self, path: &Path) {
        if !self.steps.iter().any(|step| step.files.iter().any(|(known, _)| known == path)) {
            return;
        }
        let now = read_current_content(path).ok().and_then(|now| WrittenFile::from_current(&now));
        let Some(now) = now else {
            self.written.remove(path);
            return;
        };
        // See above.
        drop(self.append_line(&JournalLine::Written { path: path.to_owned(), now: now.clone() }));
        self.written.insert(path.to_owned(), now);
    }

    /// Returns the state in which the session left a file, if it is known.
    pub fn last_written(&self, path: &Path) -> Option<&WrittenFile> {
        self.written.get(path)
    }

    /// Returns the folder of the contents.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn append_line(&mut self, line: &JournalLine) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let mut journal = match self.journal.take() {
            Some(journal) => journal,
            None => {
                create_private_dirs(&self.folder)?;
                let options = &mut OpenOptions::new();
                let journal = open_private(&self.folder.join(JOURNAL), options.append(true).create(true))?;
                if journal.metadata()?.len() > 0 {
                    // An interrupted run may have left half a line; an empty one is skipped when read.
                    bytes.insert(0, b'\n');
                }
                journal
            }
        };
        journal.write_all(&bytes)?;
        // Losing a prompt's line loses no content; behind a file's line the file itself is about to change.
        if matches!(line, JournalLine::File { .. }) {
            journal.sync_data()?;
        }
        self.journal = Some(journal);
        Ok(())
    }

    /// Stores a content under its hash; one that is there already is not written again.
    fn store_content(&mut self, bytes: &[u8]) -> io::Result<String> {
        let blob = hash_text(bytes);
        let path = self.folder.join(&blob);
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == bytes.len() as u64) {
            return Ok(blob);
        }
        create_private_dirs(&self.folder)?;
        // Under another name first: partial content under its hash would pass for the whole.
        replace_private(&path, bytes)?;
        self.stored += bytes.len() as u64;
        Ok(blob)
    }

    /// Lets go of what one can no longer go back to.
    fn forget_oldest(&mut self) {
        if self.steps.len() <= MOST_PROMPTS {
            return;
        }
        let gone = self.steps.remove(0);
        let is_wanted = |blob: &str| {
            let files = self.steps.iter().flat_map(|step| &step.files);
            files.filter_map(|(_, was)| was.as_ref()).any(|kept| kept.blob == blob)
        };
        let unwanted: Vec<&KeptFile> =
            gone.files.iter().filter_map(|(_, was)| was.as_ref()).filter(|kept| !is_wanted(&kept.blob)).collect();
        for kept in unwanted {
            let path = self.folder.join(&kept.blob);
            let size = path.symlink_metadata().map_or(0, |metadata| metadata.len());
            // A file that stays only costs space.
            if std::fs::remove_file(&path).is_ok() {
                self.stored = self.stored.saturating_sub(size);
            }
        }
    }
}

impl KeptFile {
    /// Reads the content and checks it against its hash.
    pub fn read(&self, folder: &Path) -> io::Result<Vec<u8>> {
        let bytes = std::fs::read(folder.join(&self.blob))?;
        if hash_text(&bytes) == self.blob {
            Ok(bytes)
        } else {
            Err(io::Error::new(ErrorKind::InvalidData, "the copy is damaged"))
        }
    }
}

const JOURNAL: &str = "journal.ndjson";

fn hash_text(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the topmost folder on the way to a path that does not exist.
fn first_missing_folder(path: &Path) -> Option<PathBuf> {
    let missing = path.ancestors().skip(1).take_while(|folder| folder.symlink_metadata().is_err());
    missing.last().map(Path::to_owned)
}

/// Reads a journal; lines that cannot be parsed are skipped.
fn read_journal(path: &Path) -> (Vec<CheckpointStep>, HashMap<PathBuf, WrittenFile>) {
    let mut steps: Vec<CheckpointStep> = Vec::new();
    let mut written = HashMap::new();
    let Ok(file) = crate::disk::open_regular(path) else { return (steps, written) };
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        match serde_json::from_slice(&line) {
            Ok(JournalLine::Prompt { id, .. }) => steps.push(CheckpointStep::new(id)),
            Ok(JournalLine::File { path, was, missing }) if was.as_ref().is_none_or(KeptFile::has_valid_hash) => {
                if let Some(step) = steps.last_mut() {
                    step.add_file(path, was, missing);
                }
            }
            Ok(JournalLine::Written { path, now }) => {
                written.insert(path, now);
            }
            Ok(JournalLine::File { .. }) | Err(_) => {}
        }
    }
    let old = steps.len().saturating_sub(MOST_PROMPTS);
    steps.drain(..old);
    (steps, written)
}

impl KeptFile {
    /// Returns true if the hash is well-formed: a name from a file must not lead out of the folder.
    fn has_valid_hash(&self) -> bool {
        self.blob.len() == 64 && self.blob.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

#[cfg(test)]
#[path = "checkpoints/checkpoints_tests.rs"]
mod checkpoints_tests;
