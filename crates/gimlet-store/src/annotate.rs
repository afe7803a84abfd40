//! Renames and tags a session that this process does not drive: appends one line, as the public SDK helpers do.
//!
//! Works while another process runs the session: that one notices the new label and keeps it. The file is never
//! created, never truncated, and nothing is appended to a torn line.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use gimlet_text::sanitise;
use regex::Regex;
use unicode_normalization::UnicodeNormalization;

use crate::disk::{LogFile, open_private, read_range};
use crate::entry_format;
use crate::layout::SessionFiles;

/// Time that a label adds to its file's modification time.
const MOMENT: Duration = Duration::from_micros(1);
/// Maximum length of a title, in characters.
const MAX_TITLE: usize = 200;

/// Failure to set a label.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    #[error("a title must have at least one visible character")]
    BlankTitle,
    #[error("a title has at most {MAX_TITLE} characters, and this one has {length}")]
    LongTitle { length: usize },
    #[error("a tag must have at least one visible character")]
    BlankTag,
    #[error("the session {} is empty", path.display())]
    Empty { path: PathBuf },
    #[error("cannot add to the transcript {}: {source}", path.display())]
    Append { path: PathBuf, source: io::Error },
}

/// Returns a title as it may be written: escape sequences are removed as a whole, other control characters become
/// spaces. Returns an error if it is empty or too long.
pub fn clean_title(title: &str) -> Result<String, AnnotateError> {
    let has_escapes = title.contains(|c| c == '\u{1b}' || ('\u{80}'..='\u{9f}').contains(&c));
    let title = if has_escapes { sanitise(title) } else { Cow::Borrowed(title) };
    let spaced: String = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let title = spaced.trim();
    if title.is_empty() {
        return Err(AnnotateError::BlankTitle);
    }
    let length = title.chars().count();
    if length > MAX_TITLE {
        return Err(AnnotateError::LongTitle { length });
    }
    Ok(title.to_owned())
}

/// Sets the title of a session. Returns it as it was written.
pub fn rename_session(files: &SessionFiles, title: &str) -> Result<String, AnnotateError> {
    let title = clean_title(title)?;
    append_line(files, &entry_format::render_metadata("custom-title", "customTitle", &title, files.id().as_str()))?;
    Ok(title)
}

/// Sets or removes the tag of a session. Returns it as it was written.
pub fn tag_session(files: &SessionFiles, tag: Option<&str>) -> Result<String, AnnotateError> {
    let cleaned = tag.map(clean_tag).unwrap_or_default();
    if tag.is_some() && cleaned.is_empty() {
        return Err(AnnotateError::BlankTag);
    }
    append_line(files, &entry_format::render_metadata("tag", "tag", &cleaned, files.id().as_str()))?;
    Ok(cleaned)
}

/// Normalizes a tag: joins compatible forms and removes invisible, private and unassigned characters. A removal can
/// make new pairs to join, so it is repeated until nothing changes.
fn clean_tag(tag: &str) -> String {
    static HIDDEN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{Cf}\p{Co}\p{Cn}]").ok());
    let mut current = tag.to_owned();
    for _ in 0..10 {
        let joined: String = current.nfkc().collect();
        let next =
            HIDDEN.as_ref().map_or_else(|| joined.clone(), |hidden| hidden.replace_all(&joined, "").into_owned());
        if next == current {
            break;
        }
        current = next;
    }
    current.trim().to_owned()
}

/// Appends one line to the transcript, in one write, on a line of its own.
fn append_line(files: &SessionFiles, line: &str) -> Result<(), AnnotateError> {
    let path = files.transcript();
    let failed = |source| AnnotateError::Append { path: path.clone(), source };
    let file = open_private(&path, OpenOptions::new().read(true).append(true)).map_err(failed)?;
    let length = LogFile::size(&file).map_err(failed)?;
    if length == 0 {
        return Err(AnnotateError::Empty { path });
    }
    let torn = read_range(&file, length - 1, 1).map_err(failed)? != b"\n";
    let line = if torn { format!("\n{line}") } else { line.to_owned() };
    let worked_in = file.metadata().and_then(|metadata| metadata.modified());
    let is_idle = !files.is_driven();
    write_and_sync(&file, line.as_bytes()).map_err(failed)?;
    if is_idle && let Ok(time) = worked_in {
        // A label is not activity: the session used last stays the newest. The file's time still advances a moment,
        // for programs that detect changes by it. Where the time cannot be set, the label still counts.
        drop(file.set_modified(time + MOMENT));
    }
    Ok(())
}

fn write_and_sync(file: &File, bytes: &[u8]) -> io::Result<()> {
    match LogFile::append(file, bytes)? {
        written if written == bytes.len() => LogFile::sync_data(file),
        written => {
            let text = format!("only {written} of {} bytes were written", bytes.len());
            Err(io::Error::new(io::ErrorKind::WriteZero, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_lose_escape_sequences_as_a_whole() {
        let cases = [
            ("plain", "plain"),
            ("\u{1b}[2Jx", "x"),
            ("a\u{1b}]0;b\u{7}c", "ac"),
            ("\u{9b}31mred\u{1b}[0m", "red"),
            ("one\ntwo\u{7}three", "one two three"),
        ];
        for (given, kept) in cases {
            assert_eq!(clean_title(given).unwrap(), kept, "{given:?}");
        }
        assert!(matches!(clean_title("\u{1b}[2J"), Err(AnnotateError::BlankTitle)));
    }

    #[test]
    fn tags_lose_what_cannot_be_seen() {
        let cases = [
            ("plain", "plain"),
            ("  ﬁne\u{200b} ", "fine"),
            ("a\u{202e}b\u{e000}c\u{feff}", "abc"),
            ("Ｗｉｄｅ", "Wide"),
            ("\u{200b}\u{2066}", ""),
        ];
        for (given, kept) in cases {
            assert_eq!(clean_tag(given), kept, "{given:?}");
        }
    }
}
