//! Changes of a text as hunks of a unified diff. Work is bounded: a rewrite of any size ends in time.

use std::time::{Duration, Instant};

use gimlet_proto::DiffHunk;
use similar::{ChangeTag, DiffOp, TextDiff};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Bytes compared at once.
const PIECE: usize = 4096;
/// Timeout for comparing; after it the rest is reported as replaced instead of being compared line by line.
const PATIENCE: Duration = Duration::from_millis(100);
/// Changed regions above this size (old and new together) get no hunks: they are too long to read, and would only copy
/// the file's content once more.
const MOST_BYTES: usize = 4 << 20;

/// Returns the hunks that turn `old` into `new`; none when nothing changed or the change is too large to show.
pub fn hunks(old: &str, new: &str) -> Vec<DiffHunk> {
    if old == new {
        return Vec::new();
    }
    let head = common_head(old, new);
    let tail = common_tail(&old[head..], &new[head..]);
    let window = |text: &str| widen(text, head, text.len() - tail);
    let (old_from, old_to) = window(old);
    let (new_from, new_to) = window(new);
    if (old_to - old_from) + (new_to - new_from) > MOST_BYTES {
        return Vec::new();
    }
    let skipped = memchr::memchr_iter(b'\n', &old.as_bytes()[..old_from]).count();
    compare(&old[old_from..old_to], &new[new_from..new_to], skipped)
}

/// Returns the bytes of the whole lines that both texts start with.
fn common_head(old: &str, new: &str) -> usize {
    let same = same_start(old.as_bytes(), new.as_bytes());
    memchr::memrchr(b'\n', &old.as_bytes()[..same]).map_or(0, |at| at + 1)
}

/// Returns the length of the common prefix. Large equal pieces are compared at once, which is much faster than byte by
/// byte.
fn same_start(a: &[u8], b: &[u8]) -> usize {
    let pieces = a.chunks(PIECE).zip(b.chunks(PIECE)).take_while(|(a, b)| a == b);
    let skipped: usize = pieces.map(|(piece, _)| piece.len()).sum();
    skipped + a[skipped..].iter().zip(&b[skipped..]).take_while(|(a, b)| a == b).count()
}

/// Returns the length of the common suffix.
fn same_end(a: &[u8], b: &[u8]) -> usize {
    let pieces = a.rchunks(PIECE).zip(b.rchunks(PIECE)).take_while(|(a, b)| a == b);
    let skipped: usize = pieces.map(|(piece, _)| piece.len()).sum();
    let (a, b) = (&a[..a.len() - skipped], &b[..b.len() - skipped]);
    skipped + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// Returns the bytes of the whole lines that both texts end with.
fn common_tail(old: &str, new: &str) -> usize {
    let same = same_end(old.as_bytes(), new.as_bytes());
    let from = old.len() - same;
    // The shared end may begin in the middle of a line; only what follows that line is wholly shared.
    memchr::memchr(b'\n', &old.as_bytes()[from..]).map_or(0, |at| same - at - 1)
}

/// Returns a changed range with its context lines; both ends are line starts.
fn widen(text: &str, from: usize, to: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let from = memchr::memrchr_iter(b'\n', &bytes[..from]).nth(CONTEXT).map_or(0, |at| at + 1);
    let to = memchr::memchr_iter(b'\n', &bytes[to..]).nth(CONTEXT - 1).map_or(text.len(), |at| to + at + 1);
    (from, to)
}

fn compare(old: &str, new: &str, skipped: usize) -> Vec<DiffHunk> {
    let diff = TextDiff::configure().deadline(Instant::now() + PATIENCE).diff_lines(old, new);
    let hunk = |ops: &Vec<DiffOp>| {
        // Only equal runs carry reliable positions on both sides; a group without one in front begins the texts.
        let (old_from, new_from) = match ops.first() {
            Some(DiffOp::Equal { old_index, new_index, .. }) => (*old_index, *new_index),
            Some(_) | None => (0, 0),
        };
        let mut lines = Vec::new();
        for change in ops.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let text = change.value();
            let shown = text.strip_suffix('\n').unwrap_or(text);
            lines.push(format!("{sign}{}", shown.strip_suffix('\r').unwrap_or(shown)));
            if !text.ends_with('\n') {
                lines.push("\\ No newline at end of file".to_owned());
            }
        }
        DiffHunk {
            old_start: skipped + old_from + 1,
            old_lines: ops.iter().map(|op| op.old_range().len()).sum(),
            new_start: skipped + new_from + 1,
            new_lines: ops.iter().map(|op| op.new_range().len()).sum(),
            lines,
        }
    };
    diff.grouped_ops(CONTEXT).iter().map(hunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(range: std::ops::RangeInclusive<u32>) -> String {
        range.map(|n| format!("{n}\n")).collect()
    }

    #[test]
    fn a_change_deep_in_a_file_has_its_own_line_numbers() {
        let old = numbered(1..=100);
        let new = old.replace("\n50\n", "\nfifty\nand more\n");
        let found = hunks(&old, &new);
        let lines = [" 47", " 48", " 49", "-50", "+fifty", "+and more", " 51", " 52", " 53"].map(str::to_owned).into();
        assert_eq!(found, [DiffHunk { old_start: 47, old_lines: 7, new_start: 47, new_lines: 8, lines }]);
    }

    #[test]
    fn far_changes_are_apart_and_the_missing_last_newline_is_told() {
        let old = numbered(1..=40);
        let new = format!("{}x", old.replacen("1\n", "one\n", 1));
        let found = hunks(&old, &new);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].lines, ["-1", "+one", " 2", " 3", " 4"]);
        assert_eq!(found[1].lines, [" 38", " 39", " 40", "+x", "\\ No newline at end of file"]);
        assert_eq!((found[1].old_start, found[1].new_lines), (38, 4));
        assert_eq!(hunks("", "a\n")[0].lines, ["+a"]);
        assert_eq!(hunks("a", "a\n")[0].lines, ["-a", "\\ No newline at end of file", "+a"]);
        assert!(hunks(&old, &old).is_empty());
    }

    #[test]
    fn shared_ends_are_found_at_every_length() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let (a, b) = (vec![b'x'; length], vec![b'x'; length + 5]);
            assert_eq!((same_start(&a, &b), same_end(&b, &a)), (length, length));
            for at in [0, length / 2, length.saturating_sub(1)].into_iter().filter(|at| *at < length) {
                let mut other = a.clone();
                other[at] = b'y';
                assert_eq!((same_start(&a, &other), same_end(&a, &other)), (at, length - at - 1));
            }
        }
    }

    #[test]
    fn a_huge_rewrite_ends_in_time() {
        let old: String = (0..400_000u32).map(|n| format!("{} some old line\n", n.wrapping_mul(7919))).collect();
        let new: String = (0..400_000u32).map(|n| format!("{} another line\n", n.wrapping_mul(104_729))).collect();
        let began = Instant::now();
        assert!(hunks(&old, &new).is_empty());
        let (old, new) = (&old[..1 << 20], &new[..1 << 20]);
        assert!(!hunks(old, new).is_empty());
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }

    proptest::proptest! {
        #[test]
        fn hunks_rebuild_the_new_text(old in "([abc]{0,1}\n){0,30}", new in "([abc]{0,1}\n){0,30}") {
            let mut lines: Vec<String> = old.lines().map(str::to_owned).collect();
            for hunk in hunks(&old, &new).iter().rev() {
                let from = hunk.old_start - 1;
                let before: Vec<&str> = hunk.lines.iter().filter(|l| !l.starts_with('+')).map(|l| &l[1..]).collect();
                proptest::prop_assert_eq!(&lines[from..from + hunk.old_lines], &before[..]);
                let after = hunk.lines.iter().filter(|l| !l.starts_with('-')).map(|l| l[1..].to_owned());
                lines.splice(from..from + hunk.old_lines, after);
            }
            proptest::prop_assert_eq!(lines, new.lines().map(str::to_owned).collect::<Vec<_>>());
        }
    }
}
