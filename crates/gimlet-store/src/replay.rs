//! Session for display: everything on the path to the newest leaf, also from before compactions, with times.
//!
//! Entries are read one by one while they are shown, so a long session needs little memory. Messages for a model come
//! from [`crate::load_conversation`] instead.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use gimlet_proto::{Block, BlockKind, EntryId};
use serde_json::value::RawValue;

use crate::LoadError;
use crate::chain::{self, ChainLink};
use crate::damage::DamageReport;
use crate::full_entry::{FullEntry, find_tool_output};
use crate::load::{LoadOptions, read_span, select_chain};
use crate::raw_members::RawJsonMembers;
use crate::session_labels::SessionLabels;
use crate::transcript_index::{EntryKey, EntryKind, TranscriptIndex};

/// Session, ready for display.
#[derive(Debug)]
pub struct TranscriptView {
    file: File,
    path: PathBuf,
    index: TranscriptIndex,
    links: Vec<ChainLink>,
    pub labels: SessionLabels,
    pub cwd: Option<PathBuf>,
    pub damage: DamageReport,
}

/// Kind of an item in the transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptItemKind {
    /// Prompt of the user, or of the program that acts for the user.
    Prompt,
    /// Text added by the program, not shown to the user.
    Injected,
    /// Summary of the conversation before a compaction.
    Summary,
    /// Results of tools.
    Results,
    Reply,
    /// A report of a failed request.
    Failure,
    /// The conversation was compacted here.
    Compacted,
    /// A note of the program's own.
    Note,
}

/// One entry, in full.
#[derive(Clone, Debug)]
pub struct TranscriptItem {
    pub entry: EntryId,
    pub line: usize,
    pub kind: TranscriptItemKind,
    /// As it is written: ISO 8601.
    pub at: Option<String>,
    pub model: Option<String>,
    pub blocks: Vec<Block>,
    /// Structured output of the call that the entry has the result of.
    pub output: Option<Box<RawValue>>,
}

/// Opens a session for reading.
pub fn open_transcript_view(path: &Path) -> Result<TranscriptView, LoadError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let file = crate::disk::open_regular(path).map_err(read_error)?;
    let (mut index, chain) = select_chain(path, &file, &LoadOptions::default())?;
    let mut segments = vec![chain.links];
    let mut seen = HashSet::new();
    // From each boundary on to what the conversation was before it.
    while let Some(first) = segments.last().and_then(|links| links.first()).copied()
        && index.rows[first.row as usize].boundary
        && seen.insert(first.row)
        && let Some(before) = entry_before_boundary(&file, &index, first.row).map_err(read_error)?
    {
        let earlier = chain::build_chain(&index.rows, &index.by_uuid, Some(before), &mut DamageReport::default());
        segments.push(earlier.links);
    }
    let links = segments.into_iter().rev().flatten().collect();
    let damage = std::mem::take(&mut index.damage);
    let (labels, cwd) = (index.labels.clone(), index.cwd.clone().map(PathBuf::from));
    Ok(TranscriptView { file, path: path.to_owned(), index, links, labels, cwd, damage })
}

/// Returns the last entry of the conversation before it was compacted.
fn entry_before_boundary(file: &File, index: &TranscriptIndex, boundary: u32) -> io::Result<Option<u32>> {
    let mut line = Vec::new();
    read_span(file, index.rows[boundary as usize].span, &mut line)?;
    let named = RawJsonMembers::new(&line)
        .find(|(key, _)| *key == b"logicalParentUuid")
        .map(|(_, value)| EntryKey::from_json(value));
    let named = named.and_then(|key| index.by_uuid.get(&key).copied()).filter(|row| *row != boundary);
    let main = |row: &u32| !index.rows[*row as usize].sidechain;
    Ok(named.or_else(|| (0..boundary).rev().find(main)))
}

impl TranscriptView {
    /// Returns the number of entries to show.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns the entries in order, each read on demand. Entries that cannot be parsed are left out.
    pub fn items(&self) -> impl DoubleEndedIterator<Item = Result<TranscriptItem, LoadError>> {
        self.links.iter().filter_map(|link| self.read_item(*link).transpose())
    }

    fn read_item(&self, link: ChainLink) -> Result<Option<TranscriptItem>, LoadError> {
        let row = &self.index.rows[link.row as usize];
        let mut line = Vec::new();
        read_span(&self.file, row.span, &mut line)
            .map_err(|source| LoadError::Read { path: self.path.clone(), source })?;
        let told = match row.kind {
            EntryKind::User | EntryKind::Assistant => message_item(&line, link, row.kind),
            EntryKind::System => note_item(&line, row.boundary),
            EntryKind::Attachment | EntryKind::Progress => None,
        };
        Ok(told.map(|told| TranscriptItem { line: row.line as usize, ..told }))
    }
}

fn message_item(line: &[u8], link: ChainLink, kind: EntryKind) -> Option<TranscriptItem> {
    let live = FullEntry::parse_for_display(line, link, kind)?;
    let flag = |name: &[u8]| RawJsonMembers::new(line).any(|(key, value)| key == name && value == b"true");
    let kind = match kind {
        EntryKind::Assistant if flag(b"isApiErrorMessage") => TranscriptItemKind::Failure,
        EntryKind::Assistant => TranscriptItemKind::Reply,
        _ if flag(b"isCompactSummary") => TranscriptItemKind::Summary,
        _ if flag(b"isMeta") => TranscriptItemKind::Injected,
        _ if live.blocks.iter().any(|block| block.kind() == BlockKind::ToolResult) => TranscriptItemKind::Results,
        _ => TranscriptItemKind::Prompt,
    };
    Some(TranscriptItem {
        entry: live.entry,
        line: 0,
        kind,
        at: entry_time(line),
        model: live.model,
        blocks: live.blocks,
        output: find_tool_output(line).and_then(|json| serde_json::from_slice(json).ok()),
    })
}

fn note_item(line: &[u8], boundary: bool) -> Option<TranscriptItem> {
    let content = RawJsonMembers::new(line).find(|(key, _)| *key == b"content").map(|(_, value)| value);
    let text: Option<String> = content.and_then(|value| serde_json::from_slice(value).ok());
    let kind = if boundary { TranscriptItemKind::Compacted } else { TranscriptItemKind::Note };
    let blocks: Vec<Block> =
        text.filter(|text| !text.trim().is_empty()).map(|text| Block::text(&text)).into_iter().collect();
    if blocks.is_empty() && !boundary {
        return None;
    }
    Some(TranscriptItem {
        entry: crate::full_entry::find_uuid(line)?,
        line: 0,
        kind,
        at: entry_time(line),
        model: None,
        blocks,
        output: None,
    })
}

fn entry_time(line: &[u8]) -> Option<String> {
    let (_, value) = RawJsonMembers::new(line).find(|(key, _)| *key == b"timestamp")?;
    serde_json::from_slice(value).ok()
}
