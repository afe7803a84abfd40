//! What the conversation may do with a file, judged by what it has seen of it.

use gimlet_core::files::{FileState, FileStates, Stamp, ViewKey};
use std::path::PathBuf;

/// How far the model knows a file's present content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Never seen, or only the first page of something larger.
    Unread,
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

/// Judges what is known of a file against its present content.
pub(crate) fn judge(known: Option<&FileState>, hash: &[u8; 32], total_lines: u64) -> Standing {
    let Some(known) = known.filter(|known| known.whole || !known.views.is_empty()) else { return Standing::Unread };
    if known.stamp.hash != *hash {
        return Standing::Stale;
    }
    if known.whole || covers(&known.views, total_lines) { Standing::Whole } else { Standing::Parts }
}

/// Whether views together show every line.
fn covers(views: &[ViewKey], total_lines: u64) -> bool {
    let mut spans: Vec<(u64, u64)> = views
        .iter()
        .map(|view| {
            let first = view.offset.unwrap_or(1).max(1);
            (first, view.limit.map_or(u64::MAX, |limit| first.saturating_add(limit)))
        })
        .collect();
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
        Standing::Unread | Standing::Parts | Standing::Stale => files.record_read(path, stamp, false, Some(GLIMPSE)),
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
        assert_eq!(judged(vec![]), Standing::Unread);
    }

    #[test]
    fn other_content_makes_any_knowledge_stale() {
        assert_eq!(judge(Some(&state(vec![], true)), &hash(b"y"), 1), Standing::Stale);
        assert_eq!(judge(Some(&state(vec![], true)), &hash(b"x"), 1), Standing::Whole);
        assert_eq!(judge(None, &hash(b"x"), 1), Standing::Unread);
    }
}
