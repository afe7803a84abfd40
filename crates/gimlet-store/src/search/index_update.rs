//! Index update: finds transcripts that changed, and indexes what was appended to them.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use memchr::memmem;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use sha2::{Digest, Sha256};

use super::searchable_text::{MOST_TEXT, SearchableText, read_entry_text, read_result_text, separate_unspaced_chars};
use crate::layout::{SessionFiles, TOOL_RESULTS};
use crate::line_reader::LineReader;

/// Approximate number of transcript bytes per transaction.
const BATCH: u64 = 32 << 20;
/// Number of leading bytes that distinguish a file from another one that took its name.
const HEAD: usize = 1024;

/// Progress of an index update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchIndexProgress {
    /// Bytes of transcript that were taken in.
    pub done: u64,
    /// Bytes that had to be.
    pub total: u64,
}

/// A transcript on disk, or a result that has a file of its own.
struct SearchableFile {
    path: PathBuf,
    /// The project folder that it is in.
    project: PathBuf,
    session: String,
    agent: Option<String>,
    size: u64,
    modified: i64,
}

impl SearchableFile {
    fn is_result_file(&self) -> bool {
        is_result_file(&self.path)
    }

    /// Returns the number of bytes of it that are searched.
    fn searchable_len(&self) -> u64 {
        if self.is_result_file() { self.size.min(MOST_TEXT as u64) } else { self.size }
    }

    /// Returns the directory that the session was started in.
    fn session_cwd(&self, source: &File) -> Option<String> {
        if !self.is_result_file() {
            return read_session_cwd(source);
        }
        read_session_cwd(&crate::disk::open_regular(&self.project.join(format!("{}.jsonl", self.session))).ok()?)
    }
}

/// Returns true if a file is the result of a call and not a transcript.
pub(super) fn is_result_file(path: &Path) -> bool {
    path.parent().and_then(Path::file_name) == Some(OsStr::new(TOOL_RESULTS))
}

/// Index record of a file.
struct IndexedFile {
    id: i64,
    read_to: u64,
    modified: i64,
}

/// Indexes everything that is new below the projects' folder, the oldest first.
pub(super) fn update_index(
    db: &mut Connection,
    root: &Path,
    progress: &mut dyn FnMut(SearchIndexProgress),
) -> Result<SearchIndexProgress, rusqlite::Error> {
    let candidates = list_searchable_files(root);
    let known = load_indexed_files(db)?;
    remove_missing_files(db, &candidates, &known)?;
    let mut changed: Vec<&SearchableFile> = candidates
        .iter()
        .filter(|file| {
            known.get(&file.path).is_none_or(|known| known.modified != file.modified || known.read_to > file.size)
        })
        .collect();
    changed.sort_by_key(|file| file.modified);
    let left = |file: &SearchableFile| match known.get(&file.path) {
        Some(known) if known.read_to <= file.searchable_len() => file.searchable_len() - known.read_to,
        _ => file.searchable_len(),
    };
    let mut far = SearchIndexProgress { done: 0, total: changed.iter().map(|file| left(file)).sum() };
    if changed.is_empty() {
        return Ok(far);
    }
    let mut batch = IndexBatch::begin(db)?;
    for file in changed {
        // One that cannot be read now is tried again next time.
        batch.index_file(file, &mut |bytes| {
            far.done += bytes;
            progress(far);
        })?;
    }
    batch.commit()?;
    Ok(far)
}

fn load_indexed_files(db: &Connection) -> Result<HashMap<PathBuf, IndexedFile>, rusqlite::Error> {
    let mut statement = db.prepare("SELECT id, path, read_to, modified FROM files")?;
    let rows = statement.query_map([], |row| {
        let path: Vec<u8> = row.get(1)?;
        let read_to = row.get::<_, i64>(2)?.cast_unsigned();
        Ok((PathBuf::from(OsStr::from_bytes(&path)), IndexedFile { id: row.get(0)?, read_to, modified: row.get(3)? }))
    })?;
    rows.collect()
}

/// Removes the words of deleted transcripts, down to the bytes of the file.
pub(super) fn purge_missing_files(db: &mut Connection, root: &Path) -> Result<(), rusqlite::Error> {
    let known = load_indexed_files(db)?;
    remove_missing_files(db, &list_searchable_files(root), &known)?;
    // Deleting an entry only marks it; its words are removed when the segments of the index are merged into one.
    db.execute("INSERT INTO texts(texts) VALUES ('optimize')", [])?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn remove_missing_files(
    db: &mut Connection,
    candidates: &[SearchableFile],
    known: &HashMap<PathBuf, IndexedFile>,
) -> Result<(), rusqlite::Error> {
    let there: HashSet<&Path> = candidates.iter().map(|file| file.path.as_path()).collect();
    let gone: Vec<i64> =
        known.iter().filter(|(path, _)| !there.contains(path.as_path())).map(|(_, it)| it.id).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for id in gone {
        remove_file_texts(&change, id)?;
        change.execute("DELETE FROM files WHERE id = ?1", [id])?;
    }
    change.commit()
}

fn remove_file_texts(db: &Connection, file: i64) -> Result<(), rusqlite::Error> {
    db.execute("DELETE FROM texts WHERE rowid IN (SELECT id FROM places WHERE file = ?1)", [file])?;
    db.execute("DELETE FROM places WHERE file = ?1", [file])?;
    Ok(())
}

/// Lists every session's transcript, those of its subagents, and the results beside them.
fn list_searchable_files(root: &Path) -> Vec<SearchableFile> {
    let mut found = Vec::new();
    for project in list_folder(root) {
        for path in list_folder(&project) {
            let Some(files) = SessionFiles::from_transcript(&path) else { continue };
            let id = files.id().as_str();
            found.extend(searchable_file(path, &project, id, None));
            let agents = files.agent_transcripts().into_iter();
            found.extend(agents.filter_map(|(agent, path)| searchable_file(path, &project, id, Some(agent))));
            found.extend(
                list_folder(&files.tool_results()).filter_map(|output| searchable_file(output, &project, id, None)),
            );
        }
    }
    found
}

fn list_folder(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn searchable_file(path: PathBuf, project: &Path, session: &str, agent: Option<String>) -> Option<SearchableFile> {
    let metadata = path.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() > 0)?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    Some(SearchableFile {
        path,
        project: project.to_owned(),
        session: session.to_owned(),
        agent,
        size: metadata.len(),
        modified: i64::try_from(modified).ok()?,
    })
}

/// A transaction at a time, each with a few megabytes of transcript in it.
struct IndexBatch<'a> {
    db: &'a Connection,
    change: Transaction<'a>,
    bytes: u64,
}

/// Position in a file that is being read.
struct ReadPosition {
    id: i64,
    read_to: u64,
}

impl<'a> IndexBatch<'a> {
    fn begin(db: &'a Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self { db, change: Transaction::new_unchecked(db, TransactionBehavior::Immediate)?, bytes: 0 })
    }

    fn commit(self) -> Result<(), rusqlite::Error> {
        self.change.commit()
    }

    fn commit_and_continue(&mut self) -> Result<(), rusqlite::Error> {
        self.change.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
        self.bytes = 0;
        Ok(())
    }

    /// Indexes the new part of a file.
    fn index_file(&mut self, file: &SearchableFile, taken: &mut dyn FnMut(u64)) -> Result<(), rusqlite::Error> {
        let Ok(mut source) = crate::disk::open_regular(&file.path) else { return Ok(()) };
        if file.is_result_file() {
            return self.index_result_file(file, &source, taken);
        }
        let mut place = self.resume_position(file, &source)?;
        if source.seek(SeekFrom::Start(place.read_to)).is_err() {
            return Ok(());
        }
        let start = place.read_to;
        // Not beyond the size when it was listed: later additions have a later modification time.
        let mut lines = LineReader::new((&source).take(file.size.saturating_sub(start)));
        let mut insert = InsertStatements::prepare(self.db)?;
        while let Ok(Some(line)) = lines.next_line() {
            if !line.ended {
                break;
            }
            let length = line.bytes.len() as u64 + 1;
            insert.insert_line(place.id, start + line.at, line.bytes)?;
            place.read_to = start + line.at + length;
            self.bytes += length;
            taken(length);
            if self.bytes >= BATCH {
                self.save_position(&place, None, &source)?;
                self.commit_and_continue()?;
                // Another process may have indexed more of it meanwhile.
                if self.stored_position(&file.path)?.is_none_or(|(_, read_to, _)| read_to != place.read_to) {
                    return Ok(());
                }
            }
        }
        self.save_position(&place, Some(file.modified), &source)
    }

    /// Indexes the beginning of a result, as one piece.
    fn index_result_file(
        &mut self,
        file: &SearchableFile,
        source: &File,
        taken: &mut dyn FnMut(u64),
    ) -> Result<(), rusqlite::Error> {
        let mut place = self.resume_position(file, source)?;
        if place.read_to != file.searchable_len() {
            let Ok(bytes) = crate::disk::read_range(source, 0, MOST_TEXT) else { return Ok(()) };
            remove_file_texts(self.db, place.id)?;
            InsertStatements::prepare(self.db)?.insert_output(place.id, file.modified / 1_000_000, &bytes)?;
            place.read_to = bytes.len() as u64;
            self.bytes += place.read_to;
            taken(place.read_to);
        }
        self.save_position(&place, Some(file.modified), source)?;
        if self.bytes >= BATCH { self.commit_and_continue() } else { Ok(()) }
    }

    fn stored_position(&self, path: &Path) -> Result<Option<(i64, u64, Vec<u8>)>, rusqlite::Error> {
        let mut statement = self.db.prepare("SELECT id, read_to, mark FROM files WHERE path = ?1")?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned(), row.get(2)?));
        statement.query_row([path.as_os_str().as_bytes()], row).optional()
    }

    /// Returns the position to continue at in a file; a file that was replaced starts anew.
    fn resume_position(&self, file: &SearchableFile, source: &File) -> Result<ReadPosition, rusqlite::Error> {
        match self.stored_position(&file.path)? {
            Some((id, read_to, known)) if file_digest(source, read_to).is_ok_and(|now| now == known) => {
                Ok(ReadPosition { id, read_to })
            }
            Some((id, ..)) => {
                remove_file_texts(self.db, id)?;
                Ok(ReadPosition { id, read_to: 0 })
            }
            None => {
                self.db.execute(
                    "INSERT INTO files (path, project, session, agent, cwd, read_to, modified, mark)
                     VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, x'')",
                    params![
                        file.path.as_os_str().as_bytes(),
                        file.project.as_os_str().as_bytes(),
                        file.session,
                        file.agent,
                        file.session_cwd(source)
                    ],
                )?;
                Ok(ReadPosition { id: self.db.last_insert_rowid(), read_to: 0 })
            }
        }
    }

    /// Notes how far a file was read; as of when, only once all of it was.
    fn save_position(&self, place: &ReadPosition, modified: Option<i64>, source: &File) -> Result<(), rusqlite::Error> {
        let mark = file_digest(source, place.read_to).unwrap_or_default();
        self.db.execute(
            "UPDATE files SET read_to = ?2, mark = ?3, modified = ?4 WHERE id = ?1",
            params![place.id, place.read_to.cast_signed(), mark, modified.unwrap_or(0)],
        )?;
        Ok(())
    }
}

/// The statements that every line needs.
struct InsertStatements<'a> {
    place: rusqlite::Statement<'a>,
    text: rusqlite::Statement<'a>,
}

impl<'a> InsertStatements<'a> {
    fn prepare(db: &'a Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            place: db.prepare("INSERT INTO places (file, at, length, time, role) VALUES (?1, ?2, ?3, ?4, ?5)")?,
            text: db.prepare("INSERT INTO texts (rowid, text) VALUES (?1, ?2)")?,
        })
    }

    fn insert_line(&mut self, file: i64, at: u64, bytes: &[u8]) -> Result<(), rusqlite::Error> {
        read_entry_text(bytes).map_or(Ok(()), |said| self.insert_text(file, at, bytes.len(), &said))
    }

    fn insert_output(&mut self, file: i64, time_ms: i64, bytes: &[u8]) -> Result<(), rusqlite::Error> {
        let said = read_result_text(bytes).map(|said| SearchableText { time_ms: Some(time_ms), ..said });
        said.map_or(Ok(()), |said| self.insert_text(file, 0, bytes.len(), &said))
    }

    fn insert_text(&mut self, file: i64, at: u64, length: usize, said: &SearchableText) -> Result<(), rusqlite::Error> {
        let place = params![file, at.cast_signed(), length as i64, said.time_ms, said.role.to_number()];
        let row = self.place.insert(place)?;
        self.text.execute(params![row, separate_unspaced_chars(&said.text)])?;
        Ok(())
    }
}

/// Returns a digest of the beginning of a file and of the bytes before an offset, to detect another file.
fn file_digest(file: &File, read_to: u64) -> io::Result<Vec<u8>> {
    let length = HEAD.min(usize::try_from(read_to).unwrap_or(HEAD));
    let mut bytes = vec![0; length * 2];
    let (head, tail) = bytes.split_at_mut(length);
    file.read_exact_at(head, 0)?;
    file.read_exact_at(tail, read_to - length as u64)?;
    Ok(Sha256::digest(&bytes).to_vec())
}

/// Returns the directory that the session was started in, from its first entries.
fn read_session_cwd(file: &File) -> Option<String> {
    const WINDOW: usize = 64 << 10;
    const NAME: &[u8] = b"\"cwd\":";
    let head = crate::disk::read_range(file, 0, WINDOW).ok()?;
    let at = memmem::find(&head, NAME)? + NAME.len();
    serde_json::Deserializer::from_slice(&head[at..]).into_iter::<String>().next()?.ok()
}
