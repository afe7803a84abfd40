//! Tables of the index, and the replacement of a database that is broken, foreign or of another version.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::SearchError;
use crate::disk::{create_private_dirs, open_private};

/// Application id that marks a database as this index: "gims".
const APPLICATION: i64 = 0x6769_6d73;
/// Version to be raised whenever tables or the splitting into words change; an index of another version is rebuilt.
const VERSION: i64 = 1;
/// Timeout for other processes that create or fill the index.
const PATIENCE: Duration = Duration::from_secs(60);

const TABLES: &str = "
    CREATE TABLE files (
        id INTEGER PRIMARY KEY,
        path BLOB NOT NULL UNIQUE,
        project BLOB NOT NULL,
        session TEXT NOT NULL,
        agent TEXT,
        cwd TEXT,
        read_to INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        mark BLOB NOT NULL
    );
    CREATE TABLE places (
        id INTEGER PRIMARY KEY,
        file INTEGER NOT NULL,
        at INTEGER NOT NULL,
        length INTEGER NOT NULL,
        time INTEGER,
        role INTEGER NOT NULL
    );
    CREATE INDEX places_of_file ON places (file);
    CREATE VIRTUAL TABLE texts USING fts5(
        text, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2'
    );
    INSERT INTO texts(texts, rank) VALUES ('hashsize', 16777216);
";

/// Opens the index; an empty file becomes one. Fails with a database error that [`is_broken`] knows when it is none.
pub(super) fn open_index(path: &Path) -> Result<Connection, SearchError> {
    create_index_file(path).map_err(|source| SearchError::Create { path: path.to_owned(), source })?;
    open_connection(path).map_err(|source| SearchError::Database { path: path.to_owned(), source })
}

/// Throws the index away and begins a new one.
pub(super) fn recreate_index(path: &Path) -> Result<Connection, SearchError> {
    for part in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(part);
        let file = PathBuf::from(name);
        match std::fs::remove_file(&file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(SearchError::Create { path: file, source });
            }
            _ => {}
        }
    }
    open_index(path)
}

/// Returns true if an error means that the database itself is broken, rather than that the disk is full or another
/// process is busy.
pub(super) fn is_broken(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, message) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => true,
            // A missing table or column: only another program can have removed it.
            ErrorCode::Unknown => message.as_deref().is_some_and(|text| text.starts_with("no such")),
            _ => false,
        },
        rusqlite::Error::InvalidColumnType(..) => true,
        _ => false,
    }
}

/// Returns true if another process is writing.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Runs an operation, with retries while other processes hold the lock. SQLite waits by itself only where that cannot
/// end in a deadlock: two processes that switch one new database to WAL, for example, get a lock error at once.
pub(super) fn retry_while_busy<T>(
    db: &mut Connection,
    mut work: impl FnMut(&mut Connection) -> Result<T, rusqlite::Error>,
) -> Result<T, rusqlite::Error> {
    let began = Instant::now();
    loop {
        match work(db) {
            Err(error) if is_busy(&error) && began.elapsed() < PATIENCE => {
                // A process that requests the lock while holding none does wait, until the others are done.
                match db.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
                    Err(error) if !is_busy(&error) => return Err(error),
                    _ => {}
                }
            }
            done => return done,
        }
    }
}

/// Creates the database file here and not by SQLite, so that it is private from the beginning.
fn create_index_file(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), create_private_dirs)?;
    open_private(path, OpenOptions::new().read(true).write(true).create(true).truncate(false)).map(drop)
}

fn open_connection(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(PATIENCE)?;
    retry_while_busy(&mut db, |db| db.pragma_update(None, "journal_mode", "WAL"))?;
    // The index can be made again, so that a power cut may cost its last batch but never its order.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Deleted text must not remain in free pages either.
    db.pragma_update(None, "secure_delete", "ON")?;
    db.pragma_update(None, "cache_size", -32_768)?;
    db.pragma_update(None, "mmap_size", 1_i64 << 32)?;
    if !is_current_index(&db)? {
        // Checked again under the lock: two processes that find no tables must not both create them.
        let begin = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !is_current_index(&begin)? {
            if !is_empty_database(&begin)? {
                return Err(wrong_index_error());
            }
            begin.execute_batch(TABLES)?;
            begin.pragma_update(None, "application_id", APPLICATION)?;
            begin.pragma_update(None, "user_version", VERSION)?;
        }
        begin.commit()?;
    }
    Ok(db)
}

fn is_current_index(db: &Connection) -> Result<bool, rusqlite::Error> {
    let number = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok((number("application_id")?, number("user_version")?) == (APPLICATION, VERSION))
}

fn is_empty_database(db: &Connection) -> Result<bool, rusqlite::Error> {
    db.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

fn wrong_index_error() -> rusqlite::Error {
    let failure = rusqlite::ffi::Error { code: ErrorCode::NotADatabase, extended_code: rusqlite::ffi::SQLITE_NOTADB };
    rusqlite::Error::SqliteFailure(failure, Some("it is not a search index of this version".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_waits_for_another_process_creating_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("search.db");
        create_index_file(&path).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (sender, outcome) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(open_connection(&path).map(drop)).unwrap());
            let early = outcome.recv_timeout(Duration::from_millis(300));
            assert!(early.is_err(), "it did not wait: {early:?}");
            other.execute_batch("COMMIT").unwrap();
            outcome.recv().unwrap().unwrap();
        });
    }
}
