//! Repaired copy of a transcript: its readable records, and a conversation that needs no more repair.
//!
//! The original is only read. Records beside the conversation are copied as they are; entries of abandoned branches
//! keep their place with valid parents; the live conversation follows as one chain, each entry with its own id, time
//! and members, and with exactly the blocks that a resumed session would send.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use gimlet_proto::{Block, BlockKind, Role};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::LoadError;
use crate::assemble;
use crate::damage::DamageReport;
use crate::disk::open_private;
use crate::entry_format::{self, EntryContext, EntryLinks, EntryStamp, ResultEntryFields, UserEntryKind};
use crate::history_repair::repair_messages;
use crate::line_reader::LineReader;
use crate::load::{LoadOptions, RawConversation, read_conversation, read_span};
use crate::raw_members::RawJsonMembers;
use crate::transcript_index::{EntryKey, EntryKind, TranscriptIndex, for_each_record, is_readable_metadata};

/// Failure to make a repaired copy.
#[derive(Debug, thiserror::Error)]
pub enum RepairCopyError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("cannot write the repaired copy {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Contents of a repaired copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairedCopy {
    /// Records that were copied from beside the conversation.
    pub copied: usize,
    /// Entries of the live conversation.
    pub live: usize,
    /// Synthetic entries: results of calls whose own are lost, a missing beginning.
    pub synthetic: usize,
}

/// Writes a repaired copy of the transcript at `path` to the new file `out`.
pub fn write_repaired_copy(path: &Path, session: &str, out: &Path) -> Result<RepairedCopy, RepairCopyError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let file = crate::disk::open_regular(path).map_err(read_error)?;
    let reading = read_conversation(path, &file, &LoadOptions::default())?;
    let copy =
        open_private(out, OpenOptions::new().write(true).create_new(true)).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RepairCopyError::Exists { path: out.to_owned() },
            _ => RepairCopyError::Write { path: out.to_owned(), source },
        })?;
    let written = RepairWriter::new(&file, session, &reading.index, &copy).write_copy(reading);
    written.and_then(|mended| copy.sync_all().map(|()| mended)).map_err(|source| {
        // Best effort: half a copy is useless, and the error that led here is the one to report.
        drop(std::fs::remove_file(out));
        RepairCopyError::Write { path: out.to_owned(), source }
    })
}

/// Source of a live block.
struct BlockSource {
    row: u32,
    /// True if the entry's blocks are those of the file.
    whole: bool,
    blocks: usize,
}

struct RepairWriter<'a> {
    file: &'a File,
    session: &'a str,
    stamp: EntryStamp,
    out: BufWriter<&'a File>,
    /// Entry that the next one follows.
    last: Option<String>,
    written: HashSet<u32>,
    done: RepairedCopy,
}

impl<'a> RepairWriter<'a> {
    fn new(file: &'a File, session: &'a str, index: &TranscriptIndex, copy: &'a File) -> Self {
        let stamp = EntryStamp { cwd: index.cwd.clone().unwrap_or_default(), ..EntryStamp::default() };
        let out = BufWriter::with_capacity(1 << 16, copy);
        Self { file, session, stamp, out, last: None, written: HashSet::new(), done: RepairedCopy::default() }
    }

    fn write_copy(mut self, reading: RawConversation) -> io::Result<RepairedCopy> {
        let RawConversation { index, chain, entries: lives, .. } = reading;
        let live_rows: HashSet<u32> =
            chain.links.iter().chain(lives.iter().map(|live| &live.link)).map(|link| link.row).collect();
        self.copy_other_records(&index, &live_rows)?;
        let sources: Vec<BlockSource> = lives
            .iter()
            .map(|live| BlockSource {
                row: live.link.row,
                whole: !live.changed && !live.bad_blocks,
                blocks: live.blocks.len(),
            })
            .collect();
        // Blocks are shared, so the address of its JSON identifies a block. Keeping them keeps the addresses.
        let kept: Vec<(Block, usize)> = lives
            .iter()
            .enumerate()
            .flat_map(|(at, live)| live.blocks.iter().map(move |block| (block.clone(), at)))
            .collect();
        let source_of: HashMap<*const RawValue, usize> =
            kept.iter().map(|(block, at)| (std::ptr::from_ref(block.raw()), *at)).collect();
        let silent: Vec<u32> = chain.links.iter().map(|link| link.row).collect();
        let mut silent = silent.into_iter().peekable();
        let (messages, _) = repair_messages(assemble::assemble_messages(lives), 0);
        for message in &messages {
            let mut blocks = message.blocks.as_slice();
            while let Some(first) = blocks.first() {
                let source = source_of.get(&std::ptr::from_ref(first.raw())).copied();
                let same = |block: &&Block| source_of.get(&std::ptr::from_ref(block.raw())).copied() == source;
                let count = if source.is_some() { blocks.iter().take_while(same).count() } else { 1 };
                let (run, rest) = blocks.split_at(count);
                match source.map(|source| &sources[source]) {
                    Some(source) => {
                        self.write_silent_entries(&index, &mut silent, source.row)?;
                        self.write_entry(&index, source, run)?;
                    }
                    None => self.write_synthetic_entry(message.role, run)?,
                }
                blocks = rest;
            }
        }
        self.write_silent_entries(&index, &mut silent, u32::MAX)?;
        self.write_end_note()?;
        self.write_labels(&index)?;
        self.out.flush()?;
        Ok(self.done)
    }

    /// Records that are no part of the live conversation, in their order.
    fn copy_other_records(&mut self, index: &TranscriptIndex, live: &HashSet<u32>) -> io::Result<()> {
        let rows: HashMap<u64, u32> = (0..).zip(&index.rows).map(|(at, row)| (row.span.at, at)).collect();
        let cut = find_cycle_ends(index);
        let mut source = self.file;
        source.rewind()?;
        let mut lines = LineReader::new(source);
        while let Some(line) = lines.next_line()? {
            let mut wanted: Vec<Vec<u8>> = Vec::new();
            for_each_record(&line, &mut DamageReport::default(), |seen, json, span, _| {
                match rows.get(&span.at) {
                    Some(row) if live.contains(row) || is_replaced(index, *row) => {}
                    Some(row) => wanted.extend(relink_entry(index, *row, json, &cut)),
                    // An entry without a usable id has no place; metadata is kept if it can be read.
                    None if !seen.has_chain_type() && is_readable_metadata(seen, json) => wanted.push(json.to_vec()),
                    None => {}
                }
            });
            for record in wanted {
                self.out.write_all(&record)?;
                self.out.write_all(b"\n")?;
                self.done.copied += 1;
            }
        }
        Ok(())
    }

    /// Writes the entries of the chain without content, up to the next one with content.
    fn write_silent_entries(
        &mut self,
        index: &TranscriptIndex,
        silent: &mut std::iter::Peekable<std::vec::IntoIter<u32>>,
        speaker: u32,
    ) -> io::Result<()> {
        if self.written.contains(&speaker) {
            return Ok(());
        }
        while let Some(row) = silent.next_if(|row| *row != speaker) {
            if !matches!(index.rows[row as usize].kind, EntryKind::User | EntryKind::Assistant) {
                self.write_entry(index, &BlockSource { row, whole: true, blocks: 0 }, &[])?;
            }
        }
        silent.next_if_eq(&speaker);
        Ok(())
    }

    fn write_entry(&mut self, index: &TranscriptIndex, source: &BlockSource, blocks: &[Block]) -> io::Result<()> {
        let BlockSource { row: number, whole, blocks: count } = *source;
        let row = &index.rows[number as usize];
        let mut line = Vec::new();
        read_span(self.file, row.span, &mut line)?;
        // A second part of an entry that was split by an insertion needs an id of its own.
        let id = match crate::full_entry::find_uuid(&line) {
            Some(id) if self.written.insert(number) => id.to_string(),
            _ => uuid::Uuid::new_v4().hyphenated().to_string(),
        };
        let content = (!whole || blocks.len() != count).then(|| entry_format::render_user_content(blocks, false));
        let parent = if row.boundary { None } else { self.last.as_deref() };
        let record = rebuild_record(&line, &id, parent, content.as_deref());
        self.out.write_all(&record)?;
        self.out.write_all(b"\n")?;
        self.last = Some(id);
        self.done.live += 1;
        Ok(())
    }

    /// Writes an entry for blocks that are in no record.
    fn write_synthetic_entry(&mut self, role: Role, blocks: &[Block]) -> io::Result<()> {
        debug_assert_eq!(role, Role::User, "only results and a note about the beginning are made up");
        let id = uuid::Uuid::new_v4().hyphenated().to_string();
        let timestamp = entry_format::current_timestamp();
        let place = EntryContext { session: self.session, agent: None, stamp: &self.stamp };
        let links = EntryLinks { uuid: &id, parent: self.last.as_deref(), timestamp: &timestamp };
        let is_result = blocks.iter().any(|block| block.kind() == BlockKind::ToolResult);
        let answer = is_result.then_some(ResultEntryFields { source_assistant: None, tool_use_result: None });
        let kind = if is_result { UserEntryKind::Prompt } else { UserEntryKind::Meta };
        self.out.write_all(
            entry_format::render_user(
                place,
                links,
                &entry_format::render_user_content(blocks, false),
                kind,
                entry_format::UserEntryFields { answer, ..entry_format::UserEntryFields::default() },
            )
            .as_bytes(),
        )?;
        self.last = Some(id);
        self.done.synthetic += 1;
        Ok(())
    }

    /// Writes a note at the end of the conversation. Abandoned entries may follow its last entry; nothing follows the
    /// note, so that the conversation still ends here.
    fn write_end_note(&mut self) -> io::Result<()> {
        let Some(parent) = self.last.clone() else { return Ok(()) };
        let id = uuid::Uuid::new_v4().hyphenated().to_string();
        let timestamp = entry_format::current_timestamp();
        let place = EntryContext { session: self.session, agent: None, stamp: &self.stamp };
        let links = EntryLinks { uuid: &id, parent: Some(&parent), timestamp: &timestamp };
        let note = entry_format::render_system(
            place,
            links,
            "informational",
            "This is a repaired copy of a damaged transcript.",
        );
        self.out.write_all(note.as_bytes())
    }

    /// Writes title, tag and last prompt again: session lists search for them at the end.
    fn write_labels(&mut self, index: &TranscriptIndex) -> io::Result<()> {
        for line in index.labels.to_entry_lines(self.session) {
            self.out.write_all(line.as_bytes())?;
        }
        if let (Some(prompt), Some(leaf)) = (&index.last_prompt, &self.last) {
            self.out.write_all(entry_format::render_last_prompt(prompt, leaf, self.session).as_bytes())?;
        }
        Ok(())
    }
}

fn is_replaced(index: &TranscriptIndex, row: u32) -> bool {
    index.by_uuid.get(&index.rows[row as usize].uuid) != Some(&row)
}

/// Returns the entries at which cycles of parents are cut.
fn find_cycle_ends(index: &TranscriptIndex) -> HashSet<u32> {
    let mut walk_of = vec![0u32; index.rows.len()];
    let mut ends = HashSet::new();
    for start in 0..index.rows.len() {
        let walk = start as u32 + 1;
        let mut here = start;
        while walk_of[here] == 0 {
            walk_of[here] = walk;
            let Some(parent) = index.by_uuid.get(&index.rows[here].parent) else { break };
            if walk_of[*parent as usize] == walk {
                ends.insert(here as u32);
            }
            here = *parent as usize;
        }
    }
    ends
}

/// Returns an entry of another branch as it is, or without its parent if that is missing or a cycle is cut here;
/// `None` if the entry cannot be parsed.
fn relink_entry(index: &TranscriptIndex, row: u32, json: &[u8], cut: &HashSet<u32>) -> Option<Vec<u8>> {
    let entry = &index.rows[row as usize];
    let lost = entry.parent != EntryKey::NONE && !index.by_uuid.contains_key(&entry.parent);
    if lost || cut.contains(&row) {
        let id = crate::full_entry::find_uuid(json)?;
        return Some(rebuild_record(json, id.as_str(), None, None));
    }
    serde_json::from_slice::<IgnoredAny>(json).is_ok().then(|| json.to_vec())
}

/// Returns a record with these links and, if passed, another content. Members that are not JSON are left out.
fn rebuild_record(line: &[u8], id: &str, parent: Option<&str>, content: Option<&str>) -> Vec<u8> {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_else(|_| "null".to_owned());
    let parent = parent.map_or_else(|| "null".to_owned(), quoted);
    let mut out = JsonObjectBuilder::new();
    out.add_member(b"parentUuid", parent.as_bytes());
    for (key, value) in RawJsonMembers::new(line) {
        match key {
            b"parentUuid" | b"uuid" => {}
            b"message" if value.starts_with(b"{") => out.add_member(key, &replace_content(value, content)),
            _ => out.add_member(key, value),
        }
    }
    out.add_member(b"uuid", quoted(id).as_bytes());
    out.finish()
}

/// Returns a message with another content, if passed.
fn replace_content(message: &[u8], content: Option<&str>) -> Vec<u8> {
    let mut out = JsonObjectBuilder::new();
    for (key, value) in RawJsonMembers::new(message) {
        match content {
            Some(content) if key == b"content" => out.add_member(key, content.as_bytes()),
            _ => out.add_member(key, value),
        }
    }
    out.finish()
}

/// JSON object under construction; accepts only valid JSON.
struct JsonObjectBuilder {
    bytes: Vec<u8>,
    keys: HashSet<Vec<u8>>,
}

impl JsonObjectBuilder {
    fn new() -> Self {
        Self { bytes: vec![b'{'], keys: HashSet::new() }
    }

    fn add_member(&mut self, key: &[u8], value: &[u8]) {
        let name = [b"\"", key, b"\""].concat();
        let is_json = |bytes: &[u8]| serde_json::from_slice::<&RawValue>(bytes).is_ok();
        let is_name = serde_json::from_slice::<String>(&name).is_ok();
        if !is_name || !is_json(value) || !self.keys.insert(key.to_owned()) {
            return;
        }
        if self.bytes.len() > 1 {
            self.bytes.push(b',');
        }
        self.bytes.extend([name.as_slice(), b":", value].concat());
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b'}');
        self.bytes
    }
}
