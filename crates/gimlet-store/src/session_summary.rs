//! Summary of a session from its first and last 64 KiB, read as session lists of other programs read it.
//!
//! Nothing else of the file is read, so the cost does not depend on the session's size.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gimlet_proto::SessionId;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::entry_format::to_one_line;
use crate::layout::{SessionFiles, session_id_from_path};
use crate::session_labels::SessionLabels;

const WINDOW: usize = 64 << 10;
/// Age after which an unfinished reply no longer counts as being written.
const WORKING: Duration = Duration::from_secs(60);

/// Session data for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    pub id: SessionId,
    pub path: PathBuf,
    pub labels: SessionLabels,
    pub last_prompt: Option<String>,
    pub first_prompt: Option<String>,
    /// Summary that older programs wrote for lists.
    pub old_summary: Option<String>,
    /// First time that is recorded in it.
    pub created: Option<String>,
    pub cwd: Option<PathBuf>,
    pub git_branch: Option<String>,
    /// Program that started it, when recorded.
    pub entrypoint: Option<String>,
    /// Time of the last piece of a reply, if the reply is not recorded as ended.
    pub unfinished_at: Option<String>,
    /// True for the file of a subagent rather than of a session.
    pub is_sidechain: bool,
    pub modified: SystemTime,
    pub size: u64,
}

impl SessionSummary {
    /// Returns one line for the session: its title, else its last prompt, else its first.
    pub fn line(&self) -> Option<&str> {
        let prompt = self.last_prompt.as_deref().or(self.old_summary.as_deref()).or(self.first_prompt.as_deref());
        self.labels.display_title().or(prompt)
    }

    /// Returns the session's title, else its first prompt, else its last prompt.
    pub fn headline(&self) -> Option<&str> {
        self.labels.display_title().or(self.first_prompt.as_deref()).or_else(|| self.line())
    }

    /// Returns true if a model seems to be answering in it right now, in any program: the last piece of a reply is
    /// recent, and not recorded as its end.
    pub fn is_working(&self, now: SystemTime) -> bool {
        let Some(written) = self.unfinished_at.as_ref().and_then(|time| time.parse::<jiff::Timestamp>().ok()) else {
            return false;
        };
        now.duration_since(written.into()).is_ok_and(|age| age < WORKING)
    }

    /// Returns true if some process runs turns in it.
    pub fn is_driven(&self) -> bool {
        SessionFiles::from_transcript(&self.path).is_some_and(|files| files.is_driven())
    }

    /// Returns true if a user started it in a terminal or an editor, rather than a script, an SDK or a schedule.
    pub fn is_interactive(&self) -> bool {
        let Some(entrypoint) = self.entrypoint.as_deref() else { return true };
        !entrypoint.starts_with("sdk") && !["print", "background", "loop", "mcp"].contains(&entrypoint)
    }
}

/// Reads the summary of a session's file. Returns `None` for files that are not sessions, and for empty ones.
pub fn read_summary(path: &Path) -> io::Result<Option<SessionSummary>> {
    let Some(id) = session_id_from_path(path) else { return Ok(None) };
    let file = crate::disk::open_regular(path)?;
    let metadata = file.metadata()?;
    if metadata.len() == 0 || !metadata.is_file() {
        return Ok(None);
    }
    let head = read_window(&file, 0)?;
    let tail = read_window(&file, metadata.len().saturating_sub(WINDOW as u64))?;
    let first_line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut labels = SessionLabels::from_lines(&head);
    labels.merge_newer(SessionLabels::from_lines(&tail));
    Ok(Some(SessionSummary {
        id,
        path: path.to_owned(),
        labels,
        last_prompt: last_string(&tail, "lastPrompt"),
        first_prompt: find_first_prompt(&head),
        old_summary: last_string(&tail, "summary"),
        created: first_string(&head, "timestamp"),
        cwd: first_string(&head, "cwd").map(PathBuf::from),
        git_branch: last_string(&tail, "gitBranch").or_else(|| first_string(&head, "gitBranch")),
        entrypoint: first_string(&head, "entrypoint"),
        unfinished_at: find_unfinished_reply_time(&tail),
        is_sidechain: has_member(first_line, "isSidechain", "true"),
        modified: metadata.modified()?,
        size: metadata.len(),
    }))
}

fn read_window(file: &File, at: u64) -> io::Result<Vec<u8>> {
    crate::disk::read_range(file, at, WINDOW)
}

fn first_string(bytes: &[u8], name: &str) -> Option<String> {
    let pattern = format!("\"{name}\":");
    memmem::find_iter(bytes, pattern.as_bytes())
        .find_map(|at| parse_string_at(bytes, value_start(bytes, at + pattern.len())))
}

fn last_string(bytes: &[u8], name: &str) -> Option<String> {
    let pattern = format!("\"{name}\":");
    memmem::rfind_iter(bytes, pattern.as_bytes())
        .find_map(|at| parse_string_at(bytes, value_start(bytes, at + pattern.len())))
}

/// Returns the start of a value: some programs write a space after the colon.
fn value_start(bytes: &[u8], after_colon: usize) -> usize {
    after_colon + usize::from(bytes.get(after_colon) == Some(&b' '))
}

/// Returns true if a line contains a member of this name and value, as text.
fn has_member(line: &[u8], name: &str, value: &str) -> bool {
    let pattern = format!("\"{name}\":");
    memmem::find_iter(line, pattern.as_bytes())
        .any(|at| line[value_start(line, at + pattern.len())..].starts_with(value.as_bytes()))
}

/// Parses the JSON string that begins here; `None` when the window ends inside it.
fn parse_string_at(bytes: &[u8], at: usize) -> Option<String> {
    let mut strings = serde_json::Deserializer::from_slice(bytes.get(at..)?).into_iter::<String>();
    strings.next()?.ok()
}

/// Returns the time of the last entry of a reply, or `None` if that or a later entry ends the reply. A reply that
/// failed or that the user stopped has ended.
fn find_unfinished_reply_time(tail: &[u8]) -> Option<String> {
    for line in tail.split(|byte| *byte == b'\n').rev() {
        let is_stopped = memmem::find(line, b"\"[Request interrupted by user").is_some();
        if is_stopped || has_member(line, "type", "\"result\"") || has_member(line, "isApiErrorMessage", "true") {
            return None;
        }
        if has_member(line, "type", "\"assistant\"") {
            let ended = memmem::find(line, b"\"stop_reason\":").is_some() && !has_member(line, "stop_reason", "null");
            return if ended { None } else { last_string(line, "timestamp") };
        }
    }
    None
}

/// Returns the first prompt of the user.
fn find_first_prompt(head: &[u8]) -> Option<String> {
    let mut command = None;
    for line in head.split(|byte| *byte == b'\n') {
        if !has_member(line, "type", "\"user\"")
            || memmem::find(line, b"\"tool_result\"").is_some()
            || has_member(line, "isMeta", "true")
            || has_member(line, "isCompactSummary", "true")
        {
            continue;
        }
        for text in prompt_texts(line) {
            let text = text.replace('\n', " ");
            let text = text.trim();
            if let Some(name) = text_between(text, "<command-name>", "</command-name>") {
                command.get_or_insert_with(|| name.to_owned());
            } else if !text.is_empty() && !is_machine_text(text) {
                return Some(to_one_line(text));
            }
        }
    }
    command
}

fn prompt_texts(line: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct PromptEntry<'a> {
        #[serde(borrow)]
        message: PromptMessage<'a>,
    }
    #[derive(Deserialize)]
    struct PromptMessage<'a> {
        #[serde(borrow)]
        content: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct PromptPart<'a> {
        #[serde(borrow, default)]
        text: Option<Cow<'a, str>>,
    }
    let Ok(entry) = serde_json::from_slice::<PromptEntry<'_>>(line) else { return Vec::new() };
    let content = entry.message.content.get();
    if let Ok(text) = serde_json::from_str::<String>(content) {
        return vec![text];
    }
    let parts: Vec<PromptPart<'_>> = serde_json::from_str(content).unwrap_or_default();
    parts.into_iter().filter_map(|part| part.text).map(Cow::into_owned).collect()
}

fn text_between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inner, _)| inner)
}

/// Returns true for texts in user entries that were not written by a user.
fn is_machine_text(text: &str) -> bool {
    const STARTS: [&str; 5] =
        ["<local-command-stdout>", "<session-start-hook>", "<tick>", "<goal>", "[Request interrupted by user"];
    let whole = |name: &str| text.starts_with(&format!("<{name}>")) && text.ends_with(&format!("</{name}>"));
    STARTS.iter().any(|start| text.starts_with(start)) || whole("ide_opened_file") || whole("ide_selection")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_young_reply_without_an_end_is_being_written() {
        let reply = |stop: &str, at: &str| {
            format!(r#"{{"type":"assistant","message":{{"content":[],"stop_reason":{stop}}},"timestamp":"{at}"}}"#)
        };
        let at = "2026-01-02T03:04:05.000Z";
        let young = SystemTime::from("2026-01-02T03:05:04.000Z".parse::<jiff::Timestamp>().unwrap());
        let old = SystemTime::from("2026-01-02T03:05:05.000Z".parse::<jiff::Timestamp>().unwrap());
        let cases = [
            (vec![reply("null", at)], true),
            (vec![reply("null", at), r#"{"type":"last-prompt","lastPrompt":"x"}"#.to_owned()], true),
            (vec![reply("\"end_turn\"", at)], false),
            (vec![reply("null", at), r#"{"type":"result","subtype":"success"}"#.to_owned()], false),
            (
                vec![
                    reply("null", at),
                    r#"{"type":"user","message":{"content":"[Request interrupted by user]"}}"#.to_owned(),
                ],
                false,
            ),
            (vec![reply("null", at).replacen('{', r#"{"isApiErrorMessage":true,"#, 1)], false),
            (vec![reply("\"end_turn\"", at), reply("null", at)], true),
            (vec![r#"{"type":"user"}"#.to_owned()], false),
        ];
        let dir = tempfile::tempdir().unwrap();
        for (lines, working) in cases {
            let path = dir.path().join("5e551000-0000-4000-8000-000000000000.jsonl");
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
            let session = read_summary(&path).unwrap().unwrap();
            assert_eq!((session.is_working(young), session.is_working(old)), (working, false), "{lines:?}");
        }
    }
}
