//! A temporary home, short-hand for entries, and an independent judge of histories.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gimlet_proto::{Block, BlockKind, EntryId, Message, Role, SessionId};
use gimlet_store::*;
use serde_json::Value;
use serde_json::value::RawValue;
use tempfile::TempDir;

pub(crate) struct StoreFixture {
    pub(crate) temp: TempDir,
    pub(crate) files: SessionFiles,
}

pub(crate) const SESSION: &str = "5b1c0000-0000-4000-8000-000000000001";

impl StoreFixture {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let files =
            store_locations(temp.path()).project(&create_cwd(temp.path())).session_files(&SessionId::new(SESSION));
        Self { temp, files }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.files.transcript()
    }

    pub(crate) fn locations(&self) -> StoreLocations {
        store_locations(self.temp.path())
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        create_cwd(self.temp.path())
    }

    pub(crate) fn create(&self) -> Transcript {
        Transcript::create(&self.files, sample_stamp(), TranscriptOptions::default()).unwrap()
    }

    pub(crate) fn resume(&self) -> (LoadedSession, Transcript) {
        let loaded = self.load();
        let transcript =
            Transcript::resume(&self.files, &loaded, sample_stamp(), TranscriptOptions::default()).unwrap();
        (loaded, transcript)
    }

    pub(crate) fn load(&self) -> LoadedSession {
        load_conversation(&self.path(), &LoadOptions::default()).unwrap()
    }

    pub(crate) fn transcript_lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(str::to_owned).collect()
    }

    /// Puts these bytes in the place of the transcript.
    pub(crate) fn write_transcript(&self, bytes: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.path().parent().unwrap()).unwrap();
        // A new file each time: some file systems flush one that is truncated and written again.
        drop(std::fs::remove_file(self.path()));
        std::fs::write(self.path(), bytes).unwrap();
    }
}

fn store_locations(temp: &Path) -> StoreLocations {
    StoreLocations::new(&temp.join("home"))
}

fn create_cwd(temp: &Path) -> PathBuf {
    let dir = temp.join("work");
    std::fs::create_dir_all(&dir).unwrap();
    dir.canonicalize().unwrap()
}

pub(crate) fn sample_stamp() -> EntryStamp {
    EntryStamp { cwd: "/home/ada/app".into(), git_branch: "main".into(), entrypoint: Some("cli".into()) }
}

pub(crate) fn append_prompt(transcript: &mut Transcript, text: &str) -> EntryId {
    let blocks = [Block::text(text)];
    transcript.user(UserEntry { origin: None, uuid: None, blocks: &blocks, plain: true, kind: UserEntryKind::Prompt })
}

pub(crate) fn reply_head(id: &str) -> AssistantHead {
    AssistantHead { message_id: id.into(), model: "claude-sonnet-5".into(), ..AssistantHead::default() }
}

pub(crate) fn call_block(id: &str) -> Block {
    Block::tool_use(id, "Read", &raw_json(r#"{"file_path":"/a"}"#))
}

pub(crate) fn result_block(id: &str, text: &str) -> Block {
    Block::tool_result(id, &text.into(), false)
}

pub(crate) fn raw_json(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub(crate) fn parse_line(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Says why a history could not be sent, by rules written down a second time.
pub(crate) fn history_fault(messages: &[Message]) -> Option<String> {
    let mut ids = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        if at == 0 && message.role != Role::User {
            return Some("the first message has the wrong role".to_owned());
        }
        if message.blocks.is_empty() {
            return Some(format!("message {at} is empty"));
        }
        let mut results = Vec::new();
        for (place, block) in message.blocks.iter().enumerate() {
            let text = serde_json::from_str::<Value>(block.json()).ok().map(|json| json["text"].clone());
            let blank = |text: Value| text.as_str().is_none_or(|text| text.trim().is_empty());
            if block.kind() == BlockKind::Text && text.is_some_and(blank) {
                return Some(format!("message {at} has an empty text"));
            }
            if block.kind() == BlockKind::ToolResult {
                if place != results.len() {
                    return Some(format!("message {at} has a result behind other content"));
                }
                results.push(block.id().unwrap().to_owned());
            }
            if block.kind() == BlockKind::ToolUse
                && (message.role == Role::User || !ids.insert(block.id().unwrap().to_owned()))
            {
                return Some(format!("message {at} has a misplaced or repeated call"));
            }
        }
        let asked: Vec<String> = if at == 0 {
            Vec::new()
        } else {
            messages[at - 1].tool_uses().map(|parts| parts.id.into_owned()).collect()
        };
        if asked != results {
            return Some(format!("message {at} answers {results:?} instead of {asked:?}"));
        }
    }
    messages.last().is_some_and(|last| last.has_tool_use()).then(|| "the last calls have no results".to_owned())
}

/// A memory file as a part of a segment's context.
pub(crate) fn memory_part(text: &str) -> SegmentContextPart {
    SegmentContextPart::new(ContextPartKind::Memory, text).with_source(ContextPartSource {
        path: "/home/ada/app/CLAUDE.md".into(),
        scope: "Project".into(),
        reason: "session_start".into(),
        ..ContextPartSource::default()
    })
}
