//! Fuzz target for transcript files after any damage: a crash, another program, a full disk, an editor.
//!
//! The file loads, the result can be sent to a model, and a session that continues from there loses nothing.

use std::collections::HashSet;

use gimlet_proto::{Block, BlockKind, Message, Role, SessionId};
use gimlet_store::{
    EntryStamp, FsyncMode, LoadOptions, LoadedSession, SessionFiles, StoreLocations, Transcript, TranscriptOptions,
    UserEntry, UserEntryKind, load_conversation, read_summary, repair_messages,
};

use crate::FuzzTarget;
use crate::scratch_folder::ScratchFolder;

/// The whole input is the file.
pub const TARGET: FuzzTarget = FuzzTarget { name: "jsonl_load", run, seeds, words: WORDS };

const WORDS: &[&str] = &[
    "\n",
    "{\"type\":\"user\",",
    "{\"type\":\"assistant\",",
    "{\"type\":\"system\",",
    "\"subtype\":\"compact_boundary\"",
    "\"uuid\":\"",
    "\"parentUuid\":",
    "\"logicalParentUuid\":",
    "null",
    "\"message\":{",
    "\"role\":\"user\"",
    "\"role\":\"assistant\"",
    "\"content\":[",
    "\"content\":\"",
    "{\"type\":\"text\",\"text\":\"",
    "{\"type\":\"tool_use\",\"id\":\"",
    "{\"type\":\"tool_result\",\"tool_use_id\":\"",
    "\"isSidechain\":true",
    "\"isMeta\":true",
    "\"toolUseResult\":",
    "\"input\":{}",
    "\"id\":\"",
    "\\u0000",
    "\\ud800",
    "}]}}\n",
    "thinking",
    "\"leafUuid\":\"",
    "summary",
    "custom-title",
    "\u{0}",
];

const SESSION: &str = "5b1c0000-0000-4000-8000-000000000001";
const AFTER: &str = "after the damage";

fn run(data: &[u8]) {
    ScratchFolder::with(|folder| {
        let files = session_files(folder);
        let path = files.transcript();
        ScratchFolder::write(&path, data);
        let loaded = load_transcript(&files, &LoadOptions::default());
        drop(read_summary(&path));
        if let Some(last) = &loaded.last_entry {
            // A transcript can be loaded up to any entry that was named as the last one.
            drop(load_transcript(&files, &LoadOptions::up_to(last.clone())));
        }
        for call in loaded.outputs.calls() {
            assert!(loaded.outputs.read(call.as_str()).is_ok(), "an output is where it was found");
        }
        check_resumed_session(&files, &loaded);
    });
}

fn load_transcript(files: &SessionFiles, options: &LoadOptions) -> LoadedSession {
    let loaded = match load_conversation(&files.transcript(), options) {
        Ok(loaded) => loaded,
        Err(error) => panic!("a transcript did not load: {error}"),
    };
    if let Some(fault) = find_history_fault(&loaded.messages) {
        panic!("{fault}; damage found: {:?}", loaded.damage);
    }
    let (again, damage) = repair_messages(loaded.messages.clone(), 0);
    assert!(damage.is_empty() && again == loaded.messages, "what is repaired needs no repair: {damage:?}");
    loaded
}

/// Asserts that a session that continues after the damage neither loses nor merges entries.
fn check_resumed_session(files: &SessionFiles, loaded: &LoadedSession) {
    let options = TranscriptOptions { fsync: FsyncMode::Off, ..TranscriptOptions::default() };
    let mut transcript = match Transcript::resume(files, loaded, stamp(), options) {
        Ok(transcript) => transcript,
        Err(error) => panic!("a transcript that loads cannot be resumed: {error}"),
    };
    let blocks = [Block::text(AFTER)];
    transcript.user(UserEntry { origin: None, uuid: None, blocks: &blocks, plain: true, kind: UserEntryKind::Prompt });
    drop(transcript);
    let again = load_transcript(files, &LoadOptions::default());
    let last = again.messages.last().and_then(|message| message.blocks.last());
    assert_eq!(last, Some(&Block::text(AFTER)), "the new prompt is the last thing said");
    if let Some((before_last, earlier)) = loaded.messages.split_last() {
        assert!(again.messages.starts_with(earlier), "earlier messages are still what they were");
        let now = again.messages.get(earlier.len()).map(|message| message.blocks.as_slice());
        assert!(now.is_some_and(|now| now.starts_with(&before_last.blocks)), "a prompt follows what was said last");
    }
}

/// Returns why a history could not be sent, or `None` if it could. The rules are written independently of the code
/// under test.
fn find_history_fault(messages: &[Message]) -> Option<String> {
    let mut ids = HashSet::new();
    let mut asked: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if (at == 0 && message.role != Role::User) || message.blocks.is_empty() {
            return Some(format!("message {at} is empty or has the wrong role"));
        }
        if message.blocks.iter().any(Block::is_blank_text) {
            return Some(format!("message {at} has an empty text"));
        }
        let results = message.blocks.iter().take_while(|block| block.kind() == BlockKind::ToolResult);
        let results: Vec<String> = results.map(|block| block.id().unwrap_or("?").to_owned()).collect();
        let all = message.blocks.iter().filter(|block| block.kind() == BlockKind::ToolResult).count();
        if results != asked || all != results.len() {
            return Some(format!("message {at} answers {results:?} instead of {asked:?}"));
        }
        let calls = message.blocks.iter().filter(|block| block.kind() == BlockKind::ToolUse);
        asked = calls.map(|block| block.id().unwrap_or("?").to_owned()).collect();
        let misplaced = message.role == Role::User && !asked.is_empty();
        if misplaced || asked.iter().any(|call| !ids.insert(call.clone())) {
            return Some(format!("message {at} has a misplaced or repeated call"));
        }
    }
    (!asked.is_empty()).then(|| "the last calls have no results".to_owned())
}

fn session_files(folder: &std::path::Path) -> SessionFiles {
    StoreLocations::new(&folder.join("home")).project(folder).session_files(&SessionId::new(SESSION))
}

fn stamp() -> EntryStamp {
    EntryStamp { cwd: "/home/ada/app".into(), git_branch: "main".into(), entrypoint: Some("cli".into()) }
}

fn seeds() -> Vec<Vec<u8>> {
    let files: [&[u8]; 2] =
        [include_bytes!("../seeds/transcript-short.jsonl"), include_bytes!("../seeds/transcript-calls.jsonl")];
    files.map(<[u8]>::to_vec).to_vec()
}
