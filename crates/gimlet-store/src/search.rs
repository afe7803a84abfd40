//! Full-text search over all transcripts: a derived index that can be deleted at any time.
//!
//! The transcripts are the source of truth. The index holds words and positions, not texts; it is opened only for a
//! search, reads what was appended since, and is rebuilt when it is broken or of another version. Everything is
//! written in transactions that also record how far a file was read, so a kill at any moment loses at most the last
//! batch.

mod index_schema;
mod index_update;
mod search_query;
mod searchable_text;
mod snippet;

use std::io;
use std::path::{Path, PathBuf};

use gimlet_proto::SessionId;
use rusqlite::Connection;

use crate::layout::StoreLocations;

pub use index_update::SearchIndexProgress;
pub use snippet::Snippet;

/// Query and scope of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    /// Words that must all occur; `"a b"` is a phrase, `wor*` a prefix, `-word` must not occur.
    pub text: String,
    /// Only sessions in these project folders.
    pub project_dirs: Option<Vec<PathBuf>>,
    /// Earliest time of a hit, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    pub limit: usize,
}

/// Author of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitRole {
    User,
    Assistant,
    Call,
    Result,
    Title,
}

impl HitRole {
    const ALL: [HitRole; 5] = [HitRole::User, HitRole::Assistant, HitRole::Call, HitRole::Result, HitRole::Title];

    pub fn as_str(self) -> &'static str {
        match self {
            HitRole::User => "user",
            HitRole::Assistant => "assistant",
            HitRole::Call => "call",
            HitRole::Result => "result",
            HitRole::Title => "title",
        }
    }

    fn to_number(self) -> i64 {
        Self::ALL.iter().position(|role| *role == self).unwrap_or_default() as i64
    }

    fn from_number(number: i64) -> Self {
        usize::try_from(number).ok().and_then(|at| Self::ALL.get(at)).copied().unwrap_or(HitRole::User)
    }
}

/// Entry that contains the words.
#[derive(Clone, Debug)]
pub struct SearchHit {
    pub session: SessionId,
    /// Subagent whose transcript contains it.
    pub agent: Option<String>,
    /// Path of the transcript, or of the file of a result that is too large for it.
    pub path: PathBuf,
    /// Directory that the session was started in.
    pub cwd: Option<PathBuf>,
    /// Time of the entry, in milliseconds since 1970.
    pub at_ms: Option<i64>,
    pub role: HitRole,
    /// The entry's id.
    pub entry: Option<String>,
    pub snippet: Snippet,
}

/// Failure to use the index.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("there is no word to look for")]
    NoWords,
    #[error("the search index {} cannot be used: {source}", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error("the search index {} cannot be made: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
}

/// Search index of one config home.
#[derive(Debug)]
pub struct SearchIndex {
    db: Connection,
    path: PathBuf,
    projects_root: PathBuf,
    /// True if it was rebuilt once already: a second time would not help.
    rebuilt: bool,
}

impl SearchIndex {
    /// Opens the index, making it or making it anew where necessary.
    pub fn open(places: &StoreLocations) -> Result<Self, SearchError> {
        let path = Self::index_path(places);
        let (db, rebuilt) = match index_schema::open_index(&path) {
            Ok(db) => (db, false),
            Err(SearchError::Database { source, .. }) if index_schema::is_broken(&source) => {
                (index_schema::recreate_index(&path)?, true)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { db, path, projects_root: places.projects_root(), rebuilt })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Indexes what was written since the last update.
    pub fn update(
        &mut self,
        progress: &mut dyn FnMut(SearchIndexProgress),
    ) -> Result<SearchIndexProgress, SearchError> {
        let root = self.projects_root.clone();
        self.with_rebuild(|db| {
            match index_schema::retry_while_busy(db, |db| index_update::update_index(db, &root, progress)) {
                // Another process has been filling it all this time. Its committed part can be searched.
                Err(error) if index_schema::is_busy(&error) => Ok(SearchIndexProgress::default()),
                done => done,
            }
        })
    }

    /// Removes the words of deleted sessions from the index, if there is one.
    pub fn purge_missing(places: &StoreLocations) -> Result<(), SearchError> {
        if !Self::index_path(places).exists() {
            return Ok(());
        }
        let mut index = Self::open(places)?;
        let root = index.projects_root.clone();
        index.with_rebuild(|db| index_schema::retry_while_busy(db, |db| index_update::purge_missing_files(db, &root)))
    }

    fn index_path(places: &StoreLocations) -> PathBuf {
        places.config_home().join("gimlet").join("cache").join("search.db")
    }

    /// Returns the newest entries that contain the words.
    pub fn find(&mut self, search: &SearchRequest) -> Result<Vec<SearchHit>, SearchError> {
        let words = search_query::SearchQuery::parse(&search.text).ok_or(SearchError::NoWords)?;
        let hits = self.with_rebuild(|db| {
            index_schema::retry_while_busy(db, |db| search_query::find_entries(db, &words, search))
        })?;
        Ok(snippet::load_hits(hits, &words, search.limit))
    }

    /// Runs something on the database; one that turns out to be broken is made anew, filled, and asked again.
    fn with_rebuild<T>(
        &mut self,
        mut work: impl FnMut(&mut Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, SearchError> {
        let failed = |path: &Path, source| SearchError::Database { path: path.to_owned(), source };
        match work(&mut self.db) {
            Err(error) if index_schema::is_broken(&error) && !self.rebuilt => {
                self.rebuilt = true;
                self.db = index_schema::recreate_index(&self.path)?;
                let root = self.projects_root.clone();
                index_update::update_index(&mut self.db, &root, &mut |_| {})
                    .map_err(|source| failed(&self.path, source))?;
                work(&mut self.db).map_err(|source| failed(&self.path, source))
            }
            done => done.map_err(|source| failed(&self.path, source)),
        }
    }
}
