//! Rules for changing a file, judged by what the conversation has read of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::SessionServices;
use gimlet_core::files::{FileStamp, FileState, FileStates, ViewKey};
use gimlet_core::tool::{Tool, ToolContext};

use super::resumed_reads::ResumedReads;
use super::{count_lines, file_path};
use crate::read::Read;

/// Extent of the model's knowledge of a file's present content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadState {
    /// Never seen.
    Unread,
    /// Only the first page of something larger.
    FirstPage,
    /// Parts that it asked for: enough to edit, not to overwrite.
    Parts,
    /// All of it.
    Whole,
    /// Seen, but other bytes than those on disk now.
    Stale,
}

/// Stands for having seen something of a file, yet no line for certain: lines were cut, or it was edited after only
/// parts of it were seen. Enough to edit by; no read has this key, so none is answered with "unchanged" because of it.
pub(crate) const GLIMPSE: ViewKey = ViewKey { offset: Some(0), limit: Some(0) };

/// Knowledge of one file, from this run and from earlier ones.
pub(crate) struct FileKnowledge {
    known: Option<FileState>,
    recalled: Arc<ResumedReads>,
    services: Arc<SessionServices>,
    target: PathBuf,
    /// It may change although it was never read.
    trusted: bool,
}

impl FileKnowledge {
    pub(crate) fn for_file(target: &Path, cx: &ToolContext) -> Self {
        Self {
            known: cx.with_session_state(|session| session.files.get(target).cloned()),
            recalled: cx.state(),
            services: cx.services.clone(),
            target: target.to_owned(),
            trusted: !file_path::is_notebook(target) && cx.may_change_unread(target, Read::NAME),
        }
    }

    /// Returns true if the file may change although the conversation has never read it.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Judges the file's present content. May read a transcript, but only when this run alone does not know enough.
    pub(crate) fn read_state(&self, hash: &[u8; 32], text: &str) -> ReadState {
        let this_run = read_state_in_this_run(self.known.as_ref(), hash, count_lines(text));
        if matches!(this_run, ReadState::Whole | ReadState::Stale) {
            return this_run;
        }
        let before = self.recalled.read_state(self.services.past_calls(), &self.services.paths(), &self.target, text);
        match (this_run, before) {
            (ReadState::FirstPage, ReadState::Unread) => ReadState::FirstPage,
            (ReadState::Unread | ReadState::FirstPage, before) => before,
            (_, ReadState::Whole) => ReadState::Whole,
            (this_run, _) => this_run,
        }
    }
}

/// Judges what is known of a file against its present content.
fn read_state_in_this_run(known: Option<&FileState>, hash: &[u8; 32], total_lines: u64) -> ReadState {
    let Some(known) = known else { return ReadState::Unread };
    if !known.whole && known.views.is_empty() {
        return ReadState::FirstPage;
    }
    if known.stamp.hash != *hash {
        return ReadState::Stale;
    }
    let spans = known.views.iter().map(|view| {
        let first = view.offset.unwrap_or(1).max(1);
        (first, view.limit.map_or(u64::MAX, |limit| first.saturating_add(limit)))
    });
    if known.whole || covers(spans.collect(), total_lines) { ReadState::Whole } else { ReadState::Parts }
}

/// Returns true if spans (first line, and the line after the last) together cover every line.
pub(super) fn covers(mut spans: Vec<(u64, u64)>, total_lines: u64) -> bool {
    spans.sort_unstable();
    let mut next = 1;
    for (first, after) in spans {
        if first <= next {
            next = next.max(after);
        }
    }
    next > total_lines
}

/// Notes a write: what the model knew of the file it still knows, with its change in it.
pub(crate) fn record_write(files: &mut FileStates, path: PathBuf, stamp: FileStamp, before: ReadState) {
    match before {
        ReadState::Whole => files.record_write(path, stamp),
        ReadState::Unread | ReadState::FirstPage | ReadState::Parts | ReadState::Stale => {
            files.note_write(&path);
            files.record_read(path, stamp, false, Some(GLIMPSE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_core::files::hash_content;

    fn state(views: Vec<ViewKey>, whole: bool) -> FileState {
        FileState { stamp: FileStamp { modified: None, size: 1, hash: hash_content(b"x") }, whole, views }
    }

    fn view(offset: u64, limit: u64) -> ViewKey {
        ViewKey { offset: Some(offset), limit: Some(limit) }
    }

    #[test]
    fn parts_make_a_whole_only_without_gaps() {
        let judged = |views| read_state_in_this_run(Some(&state(views, false)), &hash_content(b"x"), 30);
        assert_eq!(judged(vec![view(11, 20), view(1, 10)]), ReadState::Whole);
        assert_eq!(judged(vec![view(12, 20), view(1, 10)]), ReadState::Parts);
        assert_eq!(judged(vec![GLIMPSE]), ReadState::Parts);
        assert_eq!(judged(vec![]), ReadState::FirstPage);
    }

    #[test]
    fn other_content_makes_any_knowledge_stale() {
        assert_eq!(read_state_in_this_run(Some(&state(vec![], true)), &hash_content(b"y"), 1), ReadState::Stale);
        assert_eq!(read_state_in_this_run(Some(&state(vec![], true)), &hash_content(b"x"), 1), ReadState::Whole);
        assert_eq!(read_state_in_this_run(None, &hash_content(b"x"), 1), ReadState::Unread);
    }
}
