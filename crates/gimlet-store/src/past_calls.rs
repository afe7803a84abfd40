//! All tool calls in a session's files: also those of abandoned branches, from before a compaction, and of subagents.
//! For reviewing past work; a conversation is resumed from [`crate::load_conversation`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::LoadError;
use crate::layout::SessionFiles;
use crate::line_reader::LineReader;
use crate::raw_members::{RawJsonMembers, unescaped_string};

/// Tool call, as the model made it.
#[derive(Clone, Debug)]
pub struct PastCall {
    /// Entry that holds it. Forks of a session share their entries.
    pub entry: String,
    pub id: String,
    pub tool: String,
    pub input: Box<RawValue>,
    /// Working directory recorded in the entry.
    pub cwd: Option<PathBuf>,
    /// Permission mode that was last recorded before it.
    pub mode: Option<String>,
}

/// Calls of a session in the order of its files.
#[derive(Clone, Debug, Default)]
pub struct SessionCalls {
    pub calls: Vec<PastCall>,
    /// Working directory that the session was started in.
    pub cwd: Option<PathBuf>,
    /// Session that it is a copy of, if it is one.
    pub forked_from: Option<String>,
    /// Lines that could not be read.
    pub damaged: usize,
}

/// Reads the calls of a session and of its subagents.
pub fn read_calls(files: &SessionFiles) -> Result<SessionCalls, LoadError> {
    let mut reading = CallReader::default();
    reading.read_file(&files.transcript())?;
    for path in list_agent_transcripts(files) {
        reading.read_file(&path)?;
    }
    Ok(reading.found)
}

fn list_agent_transcripts(files: &SessionFiles) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(files.side_dir().join("subagents")).into_iter().flatten().flatten();
    let transcripts = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|is| is == "jsonl"));
    let mut transcripts: Vec<PathBuf> = transcripts.collect();
    transcripts.sort();
    transcripts
}

#[derive(Default)]
struct CallReader {
    found: SessionCalls,
    /// Position of each call: one that is written again replaces the one before it.
    places: HashMap<String, usize>,
    mode: Option<String>,
}

impl CallReader {
    fn read_file(&mut self, path: &Path) -> Result<(), LoadError> {
        let read = || -> io::Result<LineReader<File>> { Ok(LineReader::new(crate::disk::open_regular(path)?)) };
        let failed = |source| LoadError::Read { path: path.to_owned(), source };
        let mut lines = read().map_err(failed)?;
        while let Some(line) = lines.next_line().map_err(failed)? {
            let blank = |byte: &u8| matches!(byte, 0 | b' ' | b'\t' | b'\r');
            if !line.bytes.iter().all(blank) && self.read_line(line.bytes).is_none() {
                self.found.damaged += 1;
            }
        }
        Ok(())
    }

    /// Parses one line; `None` when it is not whole.
    fn read_line(&mut self, bytes: &[u8]) -> Option<()> {
        let (mut kind, mut message, mut cwd, mut entry, mut mode) = (None, None, None, None, None);
        let mut members = RawJsonMembers::new(bytes);
        for (key, value) in members.by_ref() {
            match key {
                b"type" => kind = unescaped_string(value),
                b"message" => message = Some(value),
                b"cwd" => cwd = parse_text(value).map(PathBuf::from),
                b"uuid" => entry = parse_text(value),
                b"permissionMode" => mode = parse_text(value),
                b"forkedFrom" => {
                    let origin = RawJsonMembers::new(value).find(|(key, _)| *key == b"sessionId");
                    self.found.forked_from = origin.and_then(|(_, session)| parse_text(session));
                }
                _ => {}
            }
        }
        members.rest()?;
        if self.found.cwd.is_none() {
            self.found.cwd.clone_from(&cwd);
        }
        if mode.is_some() {
            self.mode = mode;
        }
        match (kind, message) {
            (Some(b"assistant"), Some(message)) => self.read_message(message, &entry.unwrap_or_default(), cwd),
            _ => Some(()),
        }
    }

    fn read_message(&mut self, message: &[u8], entry: &str, cwd: Option<PathBuf>) -> Option<()> {
        #[derive(Deserialize)]
        struct CallMessage<'a> {
            #[serde(borrow)]
            content: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct CallBlock<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            #[serde(borrow, default)]
            id: Cow<'a, str>,
            #[serde(borrow, default)]
            name: Cow<'a, str>,
            #[serde(default)]
            input: Option<Box<RawValue>>,
        }
        let message: CallMessage<'_> = serde_json::from_slice(message).ok()?;
        if message.content.get().starts_with('"') {
            return Some(());
        }
        let parts: Vec<CallBlock<'_>> = serde_json::from_str(message.content.get()).ok()?;
        for part in parts.into_iter().filter(|part| part.kind == "tool_use") {
            let call = PastCall {
                entry: entry.to_owned(),
                id: part.id.into_owned(),
                tool: part.name.into_owned(),
                input: part.input.unwrap_or_else(|| RawValue::NULL.to_owned()),
                cwd: cwd.clone(),
                mode: self.mode.clone(),
            };
            match self.places.get(&call.id) {
                Some(place) => self.found.calls[*place] = call,
                None => {
                    self.places.insert(call.id.clone(), self.found.calls.len());
                    self.found.calls.push(call);
                }
            }
        }
        Some(())
    }
}

fn parse_text(value: &[u8]) -> Option<String> {
    serde_json::from_slice(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{StoreLocations, new_session_id};

    fn call_line(uuid: &str, id: &str, command: &str) -> String {
        format!(
            r#"{{"type":"assistant","cwd":"/repo/sub","uuid":"{uuid}","message":{{"content":[{{"type":"text","text":"x"}},{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"{command}"}}}}]}}}}"#
        )
    }

    #[test]
    fn calls_of_every_branch_and_of_subagents_are_found_with_their_place_and_mode() {
        let home = tempfile::tempdir().unwrap();
        let files = StoreLocations::new(home.path()).project(home.path()).session_files(&new_session_id());
        std::fs::create_dir_all(files.side_dir().join("subagents")).unwrap();
        let lines = [
            r#"{"type":"user","cwd":"/repo","permissionMode":"plan","message":{"content":"hi"}}"#,
            &call_line("a", "one", "ls"),
            "{\"type\":\"assistant\",\"mess",
            "",
            r#"{"type":"permission-mode","permissionMode":"acceptEdits"}"#,
            &call_line("b", "two", "make"),
            &call_line("c", "one", "pwd"),
            r#"{"type":"assistant","message":{"content":"text alone"}}"#,
        ];
        std::fs::write(files.transcript(), lines.join("\n")).unwrap();
        std::fs::write(files.agent_transcript("x"), call_line("d", "three", "id")).unwrap();
        let found = read_calls(&files).unwrap();
        let seen: Vec<_> = found
            .calls
            .iter()
            .map(|call| (call.id.as_str(), call.entry.as_str(), call.input.get(), call.mode.as_deref().unwrap()))
            .collect();
        assert_eq!(
            seen,
            [
                ("one", "c", r#"{"command":"pwd"}"#, "acceptEdits"),
                ("two", "b", r#"{"command":"make"}"#, "acceptEdits"),
                ("three", "d", r#"{"command":"id"}"#, "acceptEdits"),
            ]
        );
        assert_eq!((found.cwd, found.damaged), (Some(PathBuf::from("/repo")), 1));
        assert_eq!(found.calls[0].cwd.as_deref(), Some(Path::new("/repo/sub")));
    }

    #[test]
    fn a_transcript_that_cannot_be_opened_is_named() {
        let home = tempfile::tempdir().unwrap();
        let files = StoreLocations::new(home.path()).project(home.path()).session_files(&new_session_id());
        let error = read_calls(&files).unwrap_err();
        assert!(error.to_string().contains(files.id().as_str()), "{error}");
    }
}
