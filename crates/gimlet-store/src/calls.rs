//! Every tool call that a session's files have: also those of branches that were given up, from before a compaction, and
//! of subagents. For whoever looks back at what was done; a conversation goes on from [`crate::load`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::LoadError;
use crate::layout::SessionFiles;
use crate::lines::Lines;
use crate::members::{Members, plain_string};

/// One call, as the model made it.
#[derive(Clone, Debug)]
pub struct PastCall {
    /// The entry that holds it. Forks of a session share their entries.
    pub entry: String,
    pub id: String,
    pub tool: String,
    pub input: Box<RawValue>,
    /// The working directory that the entry names.
    pub cwd: Option<PathBuf>,
    /// The permission mode that was last written down before it.
    pub mode: Option<String>,
}

/// The calls of a session in the order of its files.
#[derive(Clone, Debug, Default)]
pub struct SessionCalls {
    pub calls: Vec<PastCall>,
    /// Where the session was started.
    pub cwd: Option<PathBuf>,
    /// The session that it is a copy of, when it is one.
    pub forked_from: Option<String>,
    /// Lines that could not be read.
    pub damaged: usize,
}

/// Reads the calls of a session and of its subagents.
pub fn read_calls(files: &SessionFiles) -> Result<SessionCalls, LoadError> {
    let mut reading = Reading::default();
    reading.file(&files.transcript())?;
    for path in agent_transcripts(files) {
        reading.file(&path)?;
    }
    Ok(reading.found)
}

fn agent_transcripts(files: &SessionFiles) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(files.side_dir().join("subagents")).into_iter().flatten().flatten();
    let transcripts = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|is| is == "jsonl"));
    let mut transcripts: Vec<PathBuf> = transcripts.collect();
    transcripts.sort();
    transcripts
}

#[derive(Default)]
struct Reading {
    found: SessionCalls,
    /// Where each call stands: one that is written again replaces the one before it.
    places: HashMap<String, usize>,
    mode: Option<String>,
}

impl Reading {
    fn file(&mut self, path: &Path) -> Result<(), LoadError> {
        let read = || -> io::Result<Lines<File>> { Ok(Lines::new(crate::disk::open_plain(path)?)) };
        let failed = |source| LoadError::Read { path: path.to_owned(), source };
        let mut lines = read().map_err(failed)?;
        while let Some(line) = lines.next_line().map_err(failed)? {
            let blank = |byte: &u8| matches!(byte, 0 | b' ' | b'\t' | b'\r');
            if !line.bytes.iter().all(blank) && self.line(line.bytes).is_none() {
                self.found.damaged += 1;
            }
        }
        Ok(())
    }

    /// Takes in one line; nothing when it is not whole.
    fn line(&mut self, bytes: &[u8]) -> Option<()> {
        let (mut kind, mut message, mut cwd, mut entry, mut mode) = (None, None, None, None, None);
        let mut members = Members::of(bytes);
        for (key, value) in members.by_ref() {
            match key {
                b"type" => kind = plain_string(value),
                b"message" => message = Some(value),
                b"cwd" => cwd = text(value).map(PathBuf::from),
                b"uuid" => entry = text(value),
                b"permissionMode" => mode = text(value),
                b"forkedFrom" => {
                    let origin = Members::of(value).find(|(key, _)| *key == b"sessionId");
                    self.found.forked_from = origin.and_then(|(_, session)| text(session));
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
            (Some(b"assistant"), Some(message)) => self.message(message, &entry.unwrap_or_default(), cwd),
            _ => Some(()),
        }
    }

    fn message(&mut self, message: &[u8], entry: &str, cwd: Option<PathBuf>) -> Option<()> {
        #[derive(Deserialize)]
        struct Message<'a> {
            #[serde(borrow)]
            content: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            #[serde(borrow, default)]
            id: Cow<'a, str>,
            #[serde(borrow, default)]
            name: Cow<'a, str>,
            #[serde(default)]
            input: Option<Box<RawValue>>,
        }
        let message: Message<'_> = serde_json::from_slice(message).ok()?;
        if message.content.get().starts_with('"') {
            return Some(());
        }
        let parts: Vec<Part<'_>> = serde_json::from_str(message.content.get()).ok()?;
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

fn text(value: &[u8]) -> Option<String> {
    serde_json::from_slice(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Locations, new_session_id};

    fn call(uuid: &str, id: &str, command: &str) -> String {
        format!(
            r#"{{"type":"assistant","cwd":"/repo/sub","uuid":"{uuid}","message":{{"content":[{{"type":"text","text":"x"}},{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"{command}"}}}}]}}}}"#
        )
    }

    #[test]
    fn calls_of_every_branch_and_of_subagents_are_found_with_their_place_and_mode() {
        let home = tempfile::tempdir().unwrap();
        let files = Locations::new(home.path()).project(home.path()).session(&new_session_id());
        std::fs::create_dir_all(files.side_dir().join("subagents")).unwrap();
        let lines = [
            r#"{"type":"user","cwd":"/repo","permissionMode":"plan","message":{"content":"hi"}}"#,
            &call("a", "one", "ls"),
            "{\"type\":\"assistant\",\"mess",
            "",
            r#"{"type":"permission-mode","permissionMode":"acceptEdits"}"#,
            &call("b", "two", "make"),
            &call("c", "one", "pwd"),
            r#"{"type":"assistant","message":{"content":"text alone"}}"#,
        ];
        std::fs::write(files.transcript(), lines.join("\n")).unwrap();
        std::fs::write(files.agent_transcript("x"), call("d", "three", "id")).unwrap();
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
        let files = Locations::new(home.path()).project(home.path()).session(&new_session_id());
        let error = read_calls(&files).unwrap_err();
        assert!(error.to_string().contains(files.id().as_str()), "{error}");
    }
}
