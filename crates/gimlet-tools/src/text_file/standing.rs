//! What the conversation may do with a file, judged by what it has seen of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::Services;
use gimlet_core::files::{FileState, FileStates, Stamp, ViewKey};
use gimlet_core::tool::{Tool, ToolContext};

use super::recalled::Recalled;
use super::{count_lines, file_path};
use crate::read::Read;

/// How far the model knows a file's present content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
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

/// What the conversation knows of one file, from this run and from those before.
pub(crate) struct Memory {
    known: Option<FileState>,
    recalled: Arc<Recalled>,
    services: Arc<Services>,
    target: PathBuf,
    /// It may change although it was never read.
    trusted: bool,
}

impl Memory {
    pub(crate) fn of(target: &Path, cx: &ToolContext) -> Self {
        Self {
            known: cx.session(|session| session.files.get(target).cloned()),
            recalled: cx.state(),
            services: cx.services.clone(),
            target: target.to_owned(),
            trusted: !file_path::is_notebook(target) && cx.may_change_unread(target, Read::NAME),
        }
    }

    /// Whether the file may change although the conversation has never seen it.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Judges the file's present content. May read a transcript, but only when this run alone does not know enough.
    pub(crate) fn judge(&self, hash: &[u8; 32], text: &str) -> Standing {
        let this_run = judge(self.known.as_ref(), hash, count_lines(text));
        if matches!(this_run, Standing::Whole | Standing::Stale) {
            return this_run;
        }
        let before = self.recalled.standing(self.services.past(), &self.services.paths(), &self.target, text);
        match (this_run, before) {
            (Standing::FirstPage, Standing::Unread) => Standing::FirstPage,
            (Standing::Unread | Standing::FirstPage, before) => before,
            (_, Standing::Whole) => Standing::Whole,
            (this_run, _) => this_run,
        }
    }
}

/// Judges what is known of a file against its present content.
fn judge(known: Option<&FileState>, hash: &[u8; 32], total_lines: u64) -> Standing {
    let Some(known) = known else { return Standing::Unread };
    if !known.whole && known.views.is_empty() {
        return Standing::FirstPage;
    }
    if known.stamp.hash != *hash {
        return Standing::Stale;
    }
    let spans = known.views.iter().map(|view| {
        let first = view.offset.unwrap_or(1).max(1);
        (first, view.limit.map_or(u64::MAX, |limit| first.saturating_add(limit)))
    });
    if known.whole || covers(spans.collect(), total_lines) { Standing::Whole } else { Standing::Parts }
}

/// Whether spans (the first line, and the first one behind) together show every line.
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
pub(crate) fn record(files: &mut FileStates, path: PathBuf, stamp: Stamp, before: Standing) {
    match before {
        Standing::Whole => files.record_write(path, stamp),
        Standing::Unread | Standing::FirstPage | Standing::Parts | Standing::Stale => {
            files.record_read(path, stamp, false, Some(GLIMPSE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_core::files::hash;

    fn state(views: Vec<ViewKey>, whole: bool) -> FileState {
        FileState { stamp: Stamp { modified: None, size: 1, hash: hash(b"x") }, whole, views }
    }

    fn view(offset: u64, limit: u64) -> ViewKey {
        ViewKey { offset: Some(offset), limit: Some(limit) }
    }

    #[test]
    fn parts_make_a_whole_only_without_gaps() {
        let judged = |views| judge(Some(&state(views, false)), &hash(b"x"), 30);
        assert_eq!(judged(vec![view(11, 20), view(1, 10)]), Standing::Whole);
        assert_eq!(judged(vec![view(12, 20), view(1, 10)]), Standing::Parts);
        assert_eq!(judged(vec![GLIMPSE]), Standing::Parts);
        assert_eq!(judged(vec![]), Standing::FirstPage);
    }

    #[test]
    fn other_content_makes_any_knowledge_stale() {
        assert_eq!(judge(Some(&state(vec![], true)), &hash(b"y"), 1), Standing::Stale);
        assert_eq!(judge(Some(&state(vec![], true)), &hash(b"x"), 1), Standing::Whole);
        assert_eq!(judge(None, &hash(b"x"), 1), Standing::Unread);
    }
}
