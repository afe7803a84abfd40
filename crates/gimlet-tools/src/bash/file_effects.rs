//! Effects of a command on the conversation's known files: a command that shows one file counts as a read of it; a
//! command that writes may have made earlier reads stale. Reads files; changes none.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use gimlet_core::files::{FileStamp, hash_content};
use gimlet_exec::CapturedOutput;

use super::run::BashCall;

/// Maximum size of a file that counts as read; comparing larger ones would take too long.
const LARGEST_VIEW: u64 = 10 * 1024 * 1024;
/// Names in a hint; the rest is counted.
const NAMES: usize = 10;

/// A file that the command showed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ViewedFile {
    pub(super) path: PathBuf,
    pub(super) stamp: FileStamp,
    /// All of it was shown.
    pub(super) whole: bool,
}

/// Effects of a command on the conversation's knowledge of files.
#[derive(Debug, Default)]
pub(super) struct FileEffects {
    /// A note that names known files whose content changed.
    pub(super) stale: Option<String>,
    pub(super) view: Option<ViewedFile>,
}

/// Known files that a hint has named already, as they stood then.
#[derive(Default)]
struct HintedFiles(Mutex<HashMap<PathBuf, (Option<SystemTime>, u64)>>);

/// Finds the effects of an ended command. Most commands neither view nor write a file, and cost nothing here.
pub(super) async fn find_file_effects(call: &BashCall<'_>, captured: &CapturedOutput, succeeded: bool) -> FileEffects {
    let mut seen = FileEffects::default();
    if call.analysis.looks_like_writer {
        seen.stale = changed_files(call).await.map(|paths| stale_files_hint(call, &paths));
    }
    if let Some(path) = call.analysis.view_of_file.clone()
        && succeeded
        && captured.is_complete()
    {
        let printed = captured.head.clone();
        seen.view = tokio::task::spawn_blocking(move || read_viewed_file(&path, &printed).ok()).await.ok().flatten();
    }
    seen
}

async fn changed_files(call: &BashCall<'_>) -> Option<Vec<PathBuf>> {
    let known: Vec<(PathBuf, FileStamp)> = call
        .cx
        .with_session_state(|state| state.files.paths().map(|(path, known)| (path.to_owned(), known.stamp)).collect());
    if known.is_empty() {
        return None;
    }
    let named = call.cx.state::<HintedFiles>();
    let changed = tokio::task::spawn_blocking(move || {
        let mut named = named.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed: Vec<PathBuf> = known
            .into_iter()
            .filter_map(|(path, stamp)| {
                let now = changed_since(&path, &stamp)?;
                // A change that was already reported is not reported again.
                (named.insert(path.clone(), now) != Some(now)).then_some(path)
            })
            .collect();
        changed.sort();
        changed
    });
    changed.await.ok().filter(|changed| !changed.is_empty())
}

/// Returns the time and size of a file whose content differs from the known one. Returns `None` for a missing file:
/// opening it reports that.
fn changed_since(path: &Path, known: &FileStamp) -> Option<(Option<SystemTime>, u64)> {
    let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
    let now = (metadata.modified().ok(), metadata.len());
    let same = now == (known.modified, known.size)
        || (now.1 == known.size && std::fs::read(path).is_ok_and(|bytes| hash_content(&bytes) == known.hash));
    (!same).then_some(now)
}

fn stale_files_hint(call: &BashCall<'_>, paths: &[PathBuf]) -> String {
    let mut names: Vec<String> = paths.iter().take(NAMES).map(|path| call.cx.paths.display(path)).collect();
    if paths.len() > NAMES {
        names.push(format!("and {} more", paths.len() - NAMES));
    }
    format!("Note: files you have read are different now; read them again before editing: {}", names.join(", "))
}

fn read_viewed_file(path: &Path, printed: &[u8]) -> io::Result<ViewedFile> {
    let path = path.canonicalize()?;
    let metadata = path.metadata()?;
    if !metadata.is_file() || metadata.len() > LARGEST_VIEW {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = std::fs::read(&path)?;
    let whole = printed == bytes || strip_line_numbers(printed).is_some_and(|text| text == bytes);
    if !whole && !shows_a_line(printed, &bytes) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(ViewedFile { stamp: FileStamp::from_bytes(&bytes, &metadata), path, whole })
}

/// Returns true if a line of the file was printed, with or without its number. A count, a name or empty output is not a
/// view.
fn shows_a_line(printed: &[u8], bytes: &[u8]) -> bool {
    let is_newline = |byte: &u8| *byte == b'\n';
    let lines: HashSet<&[u8]> = bytes.split(is_newline).filter(|line| !line.trim_ascii().is_empty()).collect();
    let shows = |line: &[u8]| lines.contains(line) || strip_line_number(line).is_some_and(|line| lines.contains(line));
    printed.split(is_newline).any(shows)
}

/// Returns the line after the number that `nl`, `cat -n`, `grep -n` and `rg -n` put before it; `None` if there is none.
fn strip_line_number(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii_start();
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match line.get(digits) {
        Some(b'\t' | b':' | b'-') if digits > 0 => line.get(digits + 1..),
        _ => None,
    }
}

/// Returns the text of `cat -n` and `nl -ba`; `None` when a line has no number.
fn strip_line_numbers(printed: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(printed.len());
    for line in printed.split_inclusive(|byte| *byte == b'\n') {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (number, rest) = line.split_at(tab);
        if number.trim_ascii().is_empty() || !number.trim_ascii().iter().all(u8::is_ascii_digit) {
            return None;
        }
        text.extend_from_slice(rest.get(1..)?);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_whole_only_if_all_of_the_file_was_printed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        std::fs::write(&file, "one\n\ntwo\n").unwrap();
        let whole = |printed: &[u8]| read_viewed_file(&file, printed).ok().map(|view| view.whole);
        for printed in [&b"one\n\ntwo\n"[..], b"     1\tone\n     2\t\n     3\ttwo\n"] {
            assert_eq!(whole(printed), Some(true));
        }
        for printed in [&b"one\n"[..], b"     1\tone\n", b"3:two\n", b"1-one\n"] {
            assert_eq!(whole(printed), Some(false));
        }
        for nothing in [&b""[..], b"\n", b"1\n", b"a\n", b"a:1\n"] {
            assert_eq!(whole(nothing), None, "a count, a name or nothing is no view");
        }
        std::fs::write(&file, "").unwrap();
        assert_eq!(whole(b""), Some(true), "there is no more of an empty file");
        assert_eq!(read_viewed_file(dir.path(), b"").ok(), None);
    }

    #[test]
    fn a_touched_file_has_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        std::fs::write(&file, "one").unwrap();
        let mut stamp = FileStamp::from_bytes(b"one", &file.metadata().unwrap());
        stamp.modified = Some(SystemTime::UNIX_EPOCH);
        assert_eq!(changed_since(&file, &stamp), None);
        std::fs::write(&file, "two").unwrap();
        assert!(changed_since(&file, &stamp).is_some());
        std::fs::remove_file(&file).unwrap();
        assert_eq!(changed_since(&file, &stamp), None);
    }
}
