//! The search itself: a parallel walk in which every thread has its own searcher and buffer.
//!
//! Nothing stops early because a page is full: totals are exact. Memory is bounded by the page, and per thread by one
//! buffer and the limit on what a single file may take.

use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use gimlet_core::files::open_for_reading;
use grep_matcher::{LineTerminator, Matcher};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::DirEntry;
use ignore::overrides::Override;
use ignore::types::Types;

use super::OutputMode;
use super::file_sink::{FileHits, FileSink, SinkOptions};
use super::regex_engine::RegexEngine;
use crate::walk::{self, IgnoreFiles, SearchBase, SortedPage, StopFlag, UnreadFiles};

/// A file up to this size is read at once; larger ones stream through the searcher.
const READ_AT_ONCE: usize = 64 * 1024;
/// Most memory that one file may take: a line that long, or a whole file in multiline mode.
const MOST_FILE_MEMORY: usize = 32 * 1024 * 1024;
/// Most text that one call collects.
pub(super) const MOST_TEXT: usize = 2 * 1024 * 1024;

/// Search parameters.
pub(super) struct GrepRequest {
    pub(super) base: SearchBase,
    pub(super) engine: RegexEngine,
    pub(super) globs: Option<Override>,
    pub(super) types: Option<Types>,
    pub(super) taking: SinkOptions,
    pub(super) multiline: bool,
    pub(super) before: usize,
    pub(super) after: usize,
}

impl GrepRequest {
    /// Returns the number of lines between the groups of two files.
    pub(super) fn separators(&self) -> usize {
        usize::from(self.before + self.after > 0)
    }
}

/// Sort key: files with matches come newest first, everything else by path (with equal times).
pub(super) type GrepSortKey = (Reverse<SystemTime>, PathBuf);

/// Results of a search.
pub(super) struct GrepFindings {
    pub(super) page: SortedPage<GrepSortKey, FileHits>,
    /// All matches of all files.
    pub(super) matches: u64,
    pub(super) remarks: Vec<String>,
}

/// Runs the search.
pub(super) fn run(request: &GrepRequest, stop: &StopFlag) -> io::Result<GrepFindings> {
    match &request.engine {
        RegexEngine::Rust { matcher, line_end } => run_with(request, matcher, *line_end, stop),
        RegexEngine::Pcre2(matcher) => run_with(request, matcher, LineTerminator::crlf(), stop),
    }
}

fn run_with<M: Matcher + Clone + Send + Sync>(
    request: &GrepRequest,
    matcher: &M,
    line_end: LineTerminator,
    stop: &StopFlag,
) -> io::Result<GrepFindings> {
    let shared = SharedSearch {
        request,
        stop,
        page: Mutex::new(SortedPage::new(request.taking.most_lines.saturating_add(request.separators()), MOST_TEXT)),
        matches: AtomicU64::new(0),
        unread: UnreadFiles::default(),
    };
    let mut remarks = Vec::new();
    let new_worker = || SearchWorker::new(&shared, matcher.clone(), line_end);
    let metadata = std::fs::metadata(&request.base.real_path)?;
    if metadata.is_dir() {
        search_tree(&shared, new_worker);
    } else if metadata.is_file() {
        let binary_at = new_worker().search_named(&request.base.real_path)?;
        remarks.extend(binary_at.map(|at| format!("This is a binary file (NUL byte at offset {at}).")));
    } else {
        return Err(io::Error::other("it is neither a directory nor a regular file"));
    }
    remarks.extend(shared.unread.summary());
    let page = shared.page.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(GrepFindings { page, matches: shared.matches.into_inner(), remarks })
}

fn search_tree<'s, M: Matcher + Send + 's>(shared: &'s SharedSearch<'s>, new_worker: impl Fn() -> SearchWorker<'s, M>) {
    let mut walk = walk::builder(&shared.request.base, IgnoreFiles::Obey, |_| true);
    if let Some(globs) = &shared.request.globs {
        walk.overrides(globs.clone());
    }
    if let Some(types) = &shared.request.types {
        walk.types(types.clone());
    }
    walk::run(&walk, shared.stop, &shared.unread, || {
        let mut worker = new_worker();
        move |entry: &DirEntry| {
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                worker.search_found(entry.path());
            }
        }
    });
}

/// State shared by the threads of one search.
struct SharedSearch<'s> {
    request: &'s GrepRequest,
    stop: &'s StopFlag,
    page: Mutex<SortedPage<GrepSortKey, FileHits>>,
    matches: AtomicU64,
    unread: UnreadFiles,
}

impl SharedSearch<'_> {
    fn page(&self) -> MutexGuard<'_, SortedPage<GrepSortKey, FileHits>> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, path: &Path, file: &File, hits: FileHits) {
        self.matches.fetch_add(hits.matches, Ordering::Relaxed);
        let modified = match self.request.taking.mode {
            OutputMode::FilesWithMatches => file.metadata().and_then(|metadata| metadata.modified()).ok(),
            OutputMode::Content | OutputMode::Count => None,
        };
        let entries = match self.request.taking.mode {
            OutputMode::FilesWithMatches | OutputMode::Count => 1,
            // The `--` before a file's first group is a line too; the report leaves out the very first one.
            OutputMode::Content => hits.lines + self.request.separators(),
        };
        let relative = self.request.base.relative(path).to_owned();
        let collected = memchr::memchr_iter(b'\n', hits.text.as_bytes()).count();
        // Every line is shown with the path before it.
        let bytes = hits.text.len() + (collected + 1) * relative.as_os_str().len();
        self.page().add(sort_key(modified, relative), hits, entries, bytes);
    }
}

fn sort_key(modified: Option<SystemTime>, relative: PathBuf) -> GrepSortKey {
    (Reverse(modified.unwrap_or(SystemTime::UNIX_EPOCH)), relative)
}

/// State of one thread, reused for all its files.
struct SearchWorker<'s, M> {
    shared: &'s SharedSearch<'s>,
    matcher: M,
    searcher: Searcher,
    buffer: Vec<u8>,
}

impl<'s, M: Matcher> SearchWorker<'s, M> {
    fn new(shared: &'s SharedSearch<'s>, matcher: M, line_end: LineTerminator) -> Self {
        let GrepRequest { taking, multiline, before, after, .. } = shared.request;
        let searcher = SearcherBuilder::new()
            .line_terminator(line_end)
            .line_number(taking.mode == OutputMode::Content && taking.numbers)
            .multi_line(*multiline)
            .before_context(*before)
            .after_context(*after)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MOST_FILE_MEMORY))
            .build();
        Self { shared, matcher, searcher, buffer: vec![0; READ_AT_ONCE] }
    }

    /// Searches a file found by the walk. Binary files are searched up to the first NUL byte.
    fn search_found(&mut self, path: &Path) {
        if let Err(error) = self.try_search_found(path)
            && !self.shared.stop.is_raised()
        {
            self.shared.unread.record_error(&format!("{}: {error}", path.display()));
        }
    }

    fn try_search_found(&mut self, path: &Path) -> io::Result<()> {
        let file = open_for_reading(path)?;
        let filled = fill_buffer(&mut self.buffer, &file)?;
        let is_wanted =
            || self.shared.page().admits(&sort_key(None, self.shared.request.base.relative(path).to_owned()));
        let mut sink = FileSink::new(&self.matcher, self.shared.request.taking, path, &is_wanted);
        let start = &self.buffer[..filled];
        if filled < self.buffer.len() {
            // Most files are small: with the text at hand the searcher neither copies nor reads again.
            self.searcher.search_slice(&self.matcher, up_to_nul(start), &mut sink)?;
        } else {
            let rest = InterruptibleFile { file: &file, stop: self.shared.stop };
            self.searcher.search_reader(&self.matcher, start.chain(rest), &mut sink)?;
        }
        let hits = sink.hits;
        if hits.matches > 0 {
            self.shared.keep(path, &file, hits);
        }
        Ok(())
    }

    /// Searches the whole file that the call names. Returns the offset of a NUL byte, if there is one.
    fn search_named(&mut self, path: &Path) -> io::Result<Option<u64>> {
        self.searcher.set_binary_detection(BinaryDetection::convert(0));
        let file = open_for_reading(path)?;
        let mut sink = FileSink::new(&self.matcher, self.shared.request.taking, path, &|| true);
        let reader = InterruptibleFile { file: &file, stop: self.shared.stop };
        self.searcher.search_reader(&self.matcher, reader, &mut sink)?;
        let hits = sink.hits;
        let binary_at = hits.binary_at;
        if hits.matches > 0 {
            self.shared.keep(path, &file, hits);
        }
        Ok(binary_at)
    }
}

/// Reads until the buffer is full or the file ends; returns the number of bytes read.
fn fill_buffer(buffer: &mut [u8], mut file: &File) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns the part of a file before its first NUL byte. UTF-16 is full of them and is decoded by the searcher instead.
fn up_to_nul(text: &[u8]) -> &[u8] {
    if text.starts_with(b"\xFF\xFE") || text.starts_with(b"\xFE\xFF") {
        return text;
    }
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

/// A file whose reads fail once the search is stopped, so that a huge file does not hold up an interrupt.
struct InterruptibleFile<'a> {
    file: &'a File,
    stop: &'a StopFlag,
}

impl Read for InterruptibleFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.is_raised() {
            true => Err(io::Error::other("the search was stopped")),
            false => self.file.read(buffer),
        }
    }
}
