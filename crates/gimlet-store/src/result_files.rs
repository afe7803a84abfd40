//! Results too large for the conversation: the whole text in a file beside the transcript, a preview in its place.
//!
//! An existing file is never overwritten: a replay of a call finds the result that the first run stored.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use gimlet_proto::ToolUseId;

use crate::disk::{create_private_dirs, open_private};
use crate::layout::SessionFiles;

/// Maximum number of bytes in a preview.
const PREVIEW_BYTES: usize = 2_000;

/// Failure to store a large result.
#[derive(Debug, thiserror::Error)]
#[error("cannot store a large result in {}: {source}", path.display())]
pub struct ResultFileError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// The folder of a session's large results.
#[derive(Clone, Debug)]
pub struct ResultFiles {
    dir: PathBuf,
}

impl ResultFiles {
    pub fn new(files: &SessionFiles) -> Self {
        Self { dir: files.tool_results() }
    }

    /// Returns the folder of one conversation of the session: ids of calls are unique in a conversation, not beyond
    /// it.
    pub fn for_agent(&self, agent_id: &str) -> Self {
        Self { dir: self.dir.join(format!("agent-{}", safe_file_stem(agent_id))) }
    }

    /// Returns the path of a subagent's report.
    pub fn report_path(&self, agent_id: &str) -> PathBuf {
        self.dir.join(format!("agent-{}.output", safe_file_stem(agent_id)))
    }

    /// Writes the report of a subagent to its place; a later one replaces it.
    pub fn write_report(&self, path: &Path, text: &str) -> Result<(), ResultFileError> {
        let fail = |source| ResultFileError { path: path.to_owned(), source };
        create_private_dirs(&self.dir).map_err(fail)?;
        let mut file = open_private(path, OpenOptions::new().write(true).create(true).truncate(true)).map_err(fail)?;
        file.write_all(text.as_bytes()).map_err(fail)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stores a result and returns its path. Text that is one JSON object or array gets the extension `.json`. If this
    /// call's result is stored already, that file is kept and its path returned.
    pub fn store_result(&self, call: &ToolUseId, text: &str) -> Result<PathBuf, ResultFileError> {
        let ending = if is_json(text) { "json" } else { "txt" };
        let path = self.dir.join(format!("{}.{ending}", safe_file_stem(call.as_str())));
        let fail = |source| ResultFileError { path: path.clone(), source };
        create_private_dirs(&self.dir).map_err(fail)?;
        let mut file = match open_private(&path, OpenOptions::new().write(true).create_new(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(path),
            Err(error) => return Err(fail(error)),
        };
        if let Err(error) = file.write_all(text.as_bytes()) {
            // Half a result under this name would pass for the whole one later.
            drop(std::fs::remove_file(&path));
            return Err(fail(error));
        }
        Ok(path)
    }
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Returns a file name that stays inside its folder for any id.
fn safe_file_stem(id: &str) -> String {
    const MAX: usize = 120;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !id.is_empty() && id.len() <= MAX && id.chars().all(plain) {
        return id.to_owned();
    }
    // Two unusual ids must not share a file, so a digest distinguishes them.
    let digest = <sha2::Sha256 as sha2::Digest>::digest(id.as_bytes());
    let safe: String = id.chars().take(MAX / 2).map(|c| if plain(c) { c } else { '-' }).collect();
    let tail: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{safe}-{tail}")
}

/// Tag around the text in place of a result that has a file of its own.
pub const PERSISTED_TAG: &str = "persisted-output";

/// Returns the text in place of such a result: a description, a preview, and how to read on.
pub fn persisted_output(about: &str, preview: &str) -> String {
    format!(
        "<{PERSISTED_TAG}>\n{about}\n\nPreview:\n{preview}\n\n\
         To see more, use Read with offset and limit on that file, or Grep in it.\n</{PERSISTED_TAG}>"
    )
}

/// Returns the text for the model in place of a stored result: its size, its path, a preview, and how to read on.
pub fn persisted_preview(original_len: usize, path: &Path, text: &str) -> String {
    let about = format!("This result has {original_len} bytes and was saved to {}", path.display());
    persisted_output(&about, &preview_text(text, PREVIEW_BYTES))
}

/// Returns the text for the model when a large result could not be stored: as much of both ends as fits.
pub fn inline_fallback(text: &str, max_bytes: usize, error: &ResultFileError) -> String {
    let shown = preview_text(text, max_bytes);
    format!(
        "{shown}\n\n(The result has {} bytes; only these parts are shown, because it could not be saved: {})",
        text.len(),
        error.source
    )
}

/// Returns the first two thirds and the last third of a text, in `max_bytes` together with a mark between them that
/// counts the omitted bytes; cut between lines where there are any. A text that fits is returned as it is. If not even
/// the mark fits, only the mark is returned.
pub fn preview_text(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let mark = |omitted: usize| format!("[… {omitted} bytes omitted …]\n");
    // The longest that the mark can get, with a line break in front of it.
    let room = max_bytes.saturating_sub(mark(text.len()).len() + 1);
    let head = head_lines(text, room * 2 / 3);
    let tail = tail_lines(&text[head.len()..], room / 3);
    let omitted = mark(text.len() - head.len() - tail.len());
    let break_before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{break_before}{omitted}{tail}")
}

/// Returns at most `max` bytes from the start, ending behind a line break if one is in the second half, else between
/// characters.
fn head_lines(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let head = &text[..end];
    match head.rfind('\n') {
        Some(at) if at + 1 > head.len() / 2 => &head[..=at],
        _ => head,
    }
}

/// Returns at most `max` bytes from the end, beginning behind a line break if one is in the first half.
fn tail_lines(text: &str, max: usize) -> &str {
    let start =
        (text.len().saturating_sub(max)..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let tail = &text[start..];
    match tail.find('\n') {
        Some(at) if at + 1 < tail.len() && at < tail.len() / 2 => &tail[at + 1..],
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{StoreLocations, new_session_id};

    fn result_files(home: &Path) -> ResultFiles {
        ResultFiles::new(&StoreLocations::new(home).project(Path::new("/")).session_files(&new_session_id()))
    }

    #[test]
    fn results_are_private_named_by_call_and_never_overwritten() {
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let files = result_files(temp.path());
        let call = ToolUseId::new("toolu_1");
        let path = files.store_result(&call, "first").unwrap();
        assert_eq!(path, files.dir().join("toolu_1.txt"));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(files.store_result(&call, "second").unwrap(), path);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
        let json = files.store_result(&ToolUseId::new("toolu_2"), " [1, {\"a\": 2}]").unwrap();
        assert_eq!(json.extension().unwrap(), "json");
    }

    #[test]
    fn no_id_leaves_the_folder_or_meets_another() {
        let temp = tempfile::tempdir().unwrap();
        let files = result_files(temp.path());
        let long = "x".repeat(400);
        let ids = ["../../etc/passwd", "..-..-etc-passwd", "", "/", "a/b", "a-b", "é", &long];
        let mut paths: Vec<PathBuf> =
            ids.iter().map(|id| files.store_result(&ToolUseId::new(*id), id).unwrap()).collect();
        assert!(paths.iter().all(|path| path.parent() == Some(files.dir())), "{paths:?}");
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), ids.len());
    }

    #[test]
    fn previews_show_both_ends_at_line_and_character_borders() {
        let text: String = (0..1000).map(|n| format!("line {n} äöü\n")).collect();
        let shown = preview_text(&text, 2_000);
        let (head, rest) = shown.split_once("[… ").unwrap();
        let (omitted, tail) = rest.split_once(" bytes omitted …]\n").unwrap();
        assert!(head.starts_with("line 0 äöü\n") && head.ends_with("äöü\n"), "{head}");
        assert!(tail.starts_with("line ") && tail.ends_with("line 999 äöü\n"), "{tail}");
        assert!(shown.len() <= 2_000 && head.len() > 1_280 && tail.len() > 620, "{} {}", head.len(), tail.len());
        assert_eq!(omitted.parse::<usize>().unwrap() + head.len() + tail.len(), text.len());
        assert_eq!(preview_text("short", 2_000), "short");
        let mark = "[… 200 bytes omitted …]\n".len();
        for max in 0..200 {
            for text in ["ü".repeat(100), "x\n".repeat(100)] {
                let shown = preview_text(&text, max);
                assert!(shown.contains("bytes omitted") && shown.len() <= max.max(mark), "{max}: {shown}");
            }
        }
    }

    #[test]
    fn the_replacement_names_size_path_and_the_way_on() {
        let text = "x\n".repeat(100_000);
        let shown = persisted_preview(text.len(), Path::new("/s/tool-results/t.txt"), &text);
        assert!(shown.starts_with("<persisted-output>\n") && shown.ends_with("\n</persisted-output>"));
        for part in ["200000 bytes", "/s/tool-results/t.txt", "bytes omitted", "offset and limit", "Grep"] {
            assert!(shown.contains(part), "{part}");
        }
        assert!(shown.len() < 2_400);
    }
}
