//! Loads a transcript: the live conversation, byte for byte, and the session's metadata.
//!
//! The file is indexed in one cheap pass (`index`), the live chain is chosen (`chain`), and only its lines are read
//! and parsed. Memory depends on the live part, not the file. Damage is tolerated, described and never fatal.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gimlet_proto::{Block, BlockKind, EntryId, Message, ModelUsage, PermissionMode, Role, ToolUseId};
use gimlet_text::SendableImage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::LoadError;
use crate::assemble;
use crate::carried_record::{CarriedRecord, CarriedToolState, parse_carried};
use crate::chain::{self, EntryChain};
use crate::damage::{Damage, DamageReport};
use crate::deferred_call::{RepairedConversation, repair_conversation};
use crate::full_entry::{FullEntry, find_tool_output};
use crate::images::{images_in_block, replace_images};
use crate::segment_context::SegmentContextPart;
use crate::sendable_blocks::{self, BlockCheck, BlockFault};
use crate::session_labels::SessionLabels;
use crate::transcript::InterruptKind;
use crate::transcript_index::{self, EntryKey, EntryKind, RecordSpan, TranscriptIndex};

/// Largest history that can be resumed: providers accept requests of at most 32 MB, and the rest needs some room.
pub const MAX_HISTORY: u64 = 28_000_000;

/// Options for loading a transcript.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Last entry of the conversation to keep.
    pub up_to: Option<EntryId>,
    /// Maximum size of the conversation; loading fails beyond it, before it is in memory.
    pub max_bytes: Option<u64>,
    /// Maximum number of damage descriptions, where more are wanted than the default.
    pub most_damage: Option<usize>,
}

impl LoadOptions {
    /// Returns options for everything up to and including this entry.
    pub fn up_to(entry: EntryId) -> Self {
        Self { up_to: Some(entry), ..Self::default() }
    }
}

/// Exact bytes that a segment's requests begin with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FrozenPrefix {
    pub system: Vec<String>,
    #[serde(rename = "tools")]
    pub tools_json: String,
    /// Parts of the message in front of the conversation; none in older transcripts.
    #[serde(default)]
    pub context: Vec<SegmentContextPart>,
}

/// Structured outputs of a conversation's calls: only their positions; each is read on demand.
#[derive(Clone, Debug, Default)]
pub struct ToolOutputs {
    path: PathBuf,
    places: Vec<(ToolUseId, RecordSpan)>,
    /// States of tools that the last compaction carried over.
    carried: Vec<CarriedToolState>,
}

impl ToolOutputs {
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && self.carried.is_empty()
    }

    /// Returns the state of a tool that the last compaction carried over, if any.
    pub fn carried(&self, tool: &str) -> Option<&RawValue> {
        self.carried.iter().find(|state| state.tool == tool).map(|state| &*state.output)
    }

    /// Returns the calls that have an output, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolUseId> {
        self.places.iter().map(|(call, _)| call)
    }

    /// Reads the output of a call; `None` when it has none or the file no longer has it.
    pub fn read(&self, call: &str) -> io::Result<Option<Box<RawValue>>> {
        let Some((_, span)) = self.places.iter().rev().find(|(known, _)| known.as_str() == call) else {
            return Ok(None);
        };
        let mut bytes = vec![0; span.len];
        crate::disk::open_regular(&self.path)?.read_exact_at(&mut bytes, span.at)?;
        Ok(find_tool_output(&bytes).and_then(|json| serde_json::from_slice(json).ok()))
    }
}

/// Session as loaded from its transcript.
#[derive(Debug)]
pub struct LoadedSession {
    pub path: PathBuf,
    /// The conversation since the last compaction, repaired: valid to send once a user message ends it.
    pub messages: Vec<Message>,
    /// Entry that a new one follows.
    pub last_entry: Option<EntryId>,
    /// Ids of entries and replies, on every branch.
    pub(crate) ids: HashSet<EntryKey>,
    pub labels: SessionLabels,
    pub last_prompt: Option<String>,
    /// Prompts still queued when the session ended.
    pub queued_prompts: Vec<String>,
    /// Working directory that the session was started in.
    pub cwd: Option<PathBuf>,
    /// Model of the last reply.
    pub model: Option<String>,
    /// Permission mode as recorded; the caller decides if it may be restored.
    pub permission_mode: Option<PermissionMode>,
    pub frozen: Option<FrozenPrefix>,
    /// Parts of the context that joined the conversation after its beginning.
    pub context_parts: Vec<SegmentContextPart>,
    /// Usage of the session as last recorded.
    pub cost: Vec<ModelUsage>,
    /// Structured outputs of the live part.
    pub outputs: ToolOutputs,
    /// The user's own messages of the live part and those carried into it, the oldest first.
    pub user_words: Vec<String>,
    /// Calls without a result, and the entries that made them.
    pub open_calls: Vec<(ToolUseId, EntryId)>,
    /// Last message of the model, when that is a call which a hook deferred. It belongs behind the messages, and has
    /// no result yet.
    pub deferred: Option<Message>,
    /// True if the conversation begins at a compact boundary.
    pub compacted: bool,
    /// Entries of types that gimlet does not know.
    pub unknown_entries: usize,
    pub damage: DamageReport,
    /// Length of the file when it was read.
    pub file_len: u64,
}

/// Loads a transcript.
pub fn load_conversation(path: &Path, options: &LoadOptions) -> Result<LoadedSession, LoadError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let file = crate::disk::open_regular(path).map_err(read_error)?;
    let RawConversation { index, chain, entries: lives, mut damage } = read_conversation(path, &file, options)?;
    let model = lives.iter().rev().find_map(|live| live.model.clone());
    let mode = index.mode.clone().or_else(|| lives.iter().rev().find_map(|live| live.mode.clone()));
    let carried = read_carried(&file, &index, &chain).map_err(read_error)?;
    let user_words = carried.words.into_iter().chain(lives.iter().filter_map(user_text)).collect();
    let outputs = ToolOutputs { path: path.to_owned(), places: output_spans(&lives, &index), carried: carried.tools };
    let open_calls = find_open_calls(&lives);
    let last_entry = find_last_entry(&file, &index, &chain, &lives).map_err(read_error)?;
    let frozen = read_frozen_prefix(&file, &index, &chain).map_err(read_error)?;
    let context_parts = lives.iter().filter_map(FullEntry::context_part).collect();
    let compacted = chain.links.first().is_some_and(|link| index.rows[link.row as usize].boundary);
    let RepairedConversation { messages, repairs, deferred } =
        repair_conversation(&file, &index, &chain, lives).map_err(read_error)?;
    for item in repairs {
        damage.add(item);
    }
    Ok(LoadedSession {
        path: path.to_owned(),
        messages,
        last_entry,
        ids: index.by_uuid.keys().copied().chain(index.rows.iter().map(|row| row.message)).collect(),
        labels: index.labels,
        last_prompt: index.last_prompt,
        queued_prompts: index.queue.into_prompts(),
        cwd: index.cwd.map(PathBuf::from),
        model,
        permission_mode: mode.and_then(|mode| mode.parse().ok()),
        frozen,
        context_parts,
        cost: index.cost,
        outputs,
        user_words,
        open_calls,
        deferred,
        compacted,
        unknown_entries: index.unknown,
        damage,
        file_len: index.file_len,
    })
}

/// Content of a file before it is assembled into a conversation.
pub(crate) struct RawConversation {
    pub(crate) index: TranscriptIndex,
    pub(crate) chain: EntryChain,
    /// User and assistant entries of the chain, with blocks that can be sent.
    pub(crate) entries: Vec<FullEntry>,
    pub(crate) damage: DamageReport,
}

/// Reads the live entries of a transcript.
pub(crate) fn read_conversation(path: &Path, file: &File, options: &LoadOptions) -> Result<RawConversation, LoadError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let (mut index, chain) = select_chain(path, file, options)?;
    let mut damage = std::mem::take(&mut index.damage);
    let max_bytes = options.max_bytes.unwrap_or(u64::MAX);
    let mut lives = match read_chain_entries(file, &index, &chain, max_bytes, &mut damage).map_err(read_error)? {
        Ok(lives) => lives,
        Err(fits_up_to) => {
            let bytes = chain.links.iter().map(|link| index.rows[link.row as usize].span.len as u64).sum();
            return Err(LoadError::TooLarge { path: path.to_owned(), bytes, limit: max_bytes, fits_up_to });
        }
    };
    find_stray_results(file, &index, &chain, &mut lives, &mut damage).map_err(read_error)?;
    assemble::drop_duplicate_results(&mut lives);
    limit_images(&index, &mut lives, &mut damage);
    Ok(RawConversation { index, chain, entries: lives, damage })
}

/// Passes over the file and chooses the entries to keep.
pub(crate) fn select_chain(
    path: &Path,
    file: &File,
    options: &LoadOptions,
) -> Result<(TranscriptIndex, EntryChain), LoadError> {
    let cut = options.up_to.as_ref().map(|uuid| EntryKey::from_id(uuid.as_str().as_bytes()));
    let damage = options.most_damage.map_or_else(DamageReport::default, DamageReport::with_limit);
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let mut index = transcript_index::index_transcript(file, cut, damage).map_err(read_error)?;
    let leaf = match (cut, &options.up_to) {
        (Some(cut), Some(uuid)) => Some(
            index
                .by_uuid
                .get(&cut)
                .copied()
                .ok_or_else(|| LoadError::NoSuchEntry { path: path.to_owned(), uuid: uuid.to_string() })?,
        ),
        _ => None,
    };
    let chain = chain::build_chain(&index.rows, &index.by_uuid, leaf, &mut index.damage);
    Ok((index, chain))
}

/// Size of a conversation that fits into every model, roughly: some 150,000 tokens.
const FITS_ANYWHERE: u64 = 500_000;

/// Reads the entries of the chain in full; if they exceed `max_bytes`, returns the last entry up to which any model
/// accepts them as the inner error.
fn read_chain_entries(
    file: &File,
    index: &TranscriptIndex,
    chain: &EntryChain,
    max_bytes: u64,
    damage: &mut DamageReport,
) -> io::Result<Result<Vec<FullEntry>, Option<EntryId>>> {
    let mut lives: Vec<FullEntry> = Vec::new();
    let mut buffer = Vec::new();
    let (mut bytes, mut fits_up_to) = (0, None);
    for link in &chain.links {
        let row = &index.rows[link.row as usize];
        if !matches!(row.kind, EntryKind::User | EntryKind::Assistant) {
            continue;
        }
        let line = row.line as usize;
        read_span(file, row.span, &mut buffer)?;
        let Some(mut live) = FullEntry::parse(&buffer, *link, row.kind) else {
            damage.add(Damage::BadMessage { line });
            continue;
        };
        if live.bad_blocks {
            damage.add(Damage::BadMessage { line });
        }
        sanitize_blocks(&mut live, line, damage);
        bytes += live.blocks.iter().map(|block| block.json().len() as u64).sum::<u64>();
        if bytes <= FITS_ANYWHERE {
            fits_up_to = Some(live.entry.clone());
        }
        if bytes > max_bytes {
            return Ok(Err(fits_up_to));
        }
        lives.push(live);
    }
    Ok(Ok(lives))
}

/// Removes or repairs the blocks of an entry that could not be sent.
fn sanitize_blocks(live: &mut FullEntry, line: usize, damage: &mut DamageReport) {
    let role = if live.kind == EntryKind::Assistant { Role::Assistant } else { Role::User };
    live.blocks.retain_mut(|block| {
        let (fault, kept) = match sendable_blocks::check_block(role, block) {
            BlockCheck::Fine => return true,
            BlockCheck::Dropped(fault) => (fault, false),
            BlockCheck::Repaired(mended, fault) => {
                *block = mended;
                (fault, true)
            }
        };
        live.changed = true;
        damage.add(match fault {
            BlockFault::Shape => Damage::BadBlock { line },
            BlockFault::HalfCharacter => Damage::HalfCharacter { line },
            BlockFault::Image(why) => Damage::BadImage { line, why },
        });
        kept
    });
}

/// Leaves out images that are too many together: the oldest first, and the large ones among many.
fn limit_images(index: &TranscriptIndex, lives: &mut [FullEntry], damage: &mut DamageReport) {
    let blocks = lives.iter().flat_map(|live| &live.blocks);
    let sides: Vec<u32> = blocks.flat_map(images_in_block).map(|picture| picture.side).collect();
    let mut surplus = sides.len().saturating_sub(SendableImage::MOST);
    let many = sides.len() > SendableImage::MANY;
    if surplus == 0 && !(many && sides.iter().any(|side| *side > SendableImage::SMALL_SIDE)) {
        return;
    }
    for live in lives {
        let line = index.rows[live.link.row as usize].line as usize;
        for block in &mut live.blocks {
            let mut reason = "";
            let mended = replace_images(block, |picture| {
                let why = if surplus > 0 {
                    surplus -= 1;
                    Some("a request can carry 600 images, and newer ones came after it")
                } else {
                    let large = many && picture.side > SendableImage::SMALL_SIDE;
                    large.then_some("it has more than 2,000 pixels on a side, which is too much among many images")
                };
                reason = why.unwrap_or(reason);
                why
            });
            if let Some(mended) = mended {
                *block = mended;
                live.changed = true;
                damage.add(Damage::BadImage { line, why: reason });
            }
        }
    }
}

/// Finds results elsewhere in the file for calls that have none where one is expected.
fn find_stray_results(
    file: &File,
    index: &TranscriptIndex,
    chain: &EntryChain,
    lives: &mut Vec<FullEntry>,
    damage: &mut DamageReport,
) -> io::Result<()> {
    let mut missing: HashSet<String> =
        find_open_calls(lives).into_iter().map(|(call, _)| call.as_str().to_owned()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let Some(first) = chain.links.iter().map(|link| link.row).min() else { return Ok(()) };
    let used: HashSet<u32> = chain.links.iter().map(|link| link.row).collect();
    let sidechain = chain.links.last().is_some_and(|link| index.rows[link.row as usize].sidechain);
    let mut buffer = Vec::new();
    for at in first..index.rows.len() as u32 {
        let row = &index.rows[at as usize];
        if missing.is_empty() || !row.result || row.sidechain != sidechain || used.contains(&at) {
            continue;
        }
        read_span(file, row.span, &mut buffer)?;
        let link = chain::ChainLink { row: at, fanned_out: true };
        let Some(mut live) = FullEntry::parse(&buffer, link, EntryKind::User) else { continue };
        sanitize_blocks(&mut live, row.line as usize, damage);
        let Some(call) = live.tool_result_ids().find(|call| missing.contains(*call)).map(str::to_owned) else {
            continue;
        };
        missing.remove(&call);
        if let Some(place) = lives.iter().rposition(|live| live.tool_call_ids().any(|id| id == call)) {
            lives.insert(place + 1, live);
        }
    }
    Ok(())
}

/// Reads what the boundary at the start of the conversation carries.
fn read_carried(file: &File, index: &TranscriptIndex, chain: &EntryChain) -> io::Result<CarriedRecord> {
    let first = chain.links.first().map(|link| &index.rows[link.row as usize]);
    let Some(boundary) = first.filter(|row| row.boundary) else { return Ok(CarriedRecord::default()) };
    let mut buffer = Vec::new();
    read_span(file, boundary.span, &mut buffer)?;
    Ok(parse_carried(&buffer))
}

/// Returns the text of a message that the user wrote.
fn user_text(live: &FullEntry) -> Option<String> {
    let has_result = || live.tool_result_ids().next().is_some();
    if !live.of_user || has_result() {
        return None;
    }
    let texts: Vec<_> = live.blocks.iter().filter_map(Block::as_text).collect();
    let text = texts.join("\n");
    let is_marker = [InterruptKind::Reply, InterruptKind::ToolUse].iter().any(|kind| kind.marker() == text);
    (!is_marker && !text.trim().is_empty()).then_some(text)
}

fn output_spans(lives: &[FullEntry], index: &TranscriptIndex) -> Vec<(ToolUseId, RecordSpan)> {
    let with_output = lives.iter().filter(|live| live.has_output);
    with_output
        .filter_map(|live| {
            Some((ToolUseId::new(live.tool_result_ids().next()?), index.rows[live.link.row as usize].span))
        })
        .collect()
}

fn find_open_calls(lives: &[FullEntry]) -> Vec<(ToolUseId, EntryId)> {
    let answered: HashSet<&str> = lives.iter().flat_map(FullEntry::tool_result_ids).collect();
    let calls = lives.iter().flat_map(|live| live.tool_call_ids().map(|call| (call, &live.entry)));
    calls
        .filter(|(call, _)| !answered.contains(call))
        .map(|(call, entry)| (ToolUseId::new(call), entry.clone()))
        .collect()
}

fn find_last_entry(
    file: &File,
    index: &TranscriptIndex,
    chain: &EntryChain,
    lives: &[FullEntry],
) -> io::Result<Option<EntryId>> {
    let Some(last) = chain.last else { return Ok(None) };
    if let Some(live) = lives.iter().rev().find(|live| live.link.row == last) {
        return Ok(Some(live.entry.clone()));
    }
    let mut buffer = Vec::new();
    read_span(file, index.rows[last as usize].span, &mut buffer)?;
    Ok(crate::full_entry::find_uuid(&buffer).or_else(|| lives.last().map(|live| live.entry.clone())))
}

/// Reads the frozen bytes of the live segment: the last ones recorded in it, or else the last before it.
fn read_frozen_prefix(file: &File, index: &TranscriptIndex, chain: &EntryChain) -> io::Result<Option<FrozenPrefix>> {
    let start = chain.links.first().map_or(0, |link| index.rows[link.row as usize].span.at);
    let end = chain.last.map_or(u64::MAX, |last| index.rows[last as usize].span.at);
    let next_segment =
        index.rows.iter().find(|row| row.boundary && row.span.at > end).map_or(u64::MAX, |row| row.span.at);
    let mut candidates = index.frozen.iter().rev().filter(|span| span.at < next_segment);
    let inside = candidates.clone().find(|span| span.at >= start);
    let Some(span) = inside.or_else(|| candidates.next()) else { return Ok(None) };
    let mut buffer = Vec::new();
    read_span(file, *span, &mut buffer)?;
    Ok(serde_json::from_slice(&buffer).ok())
}

pub(crate) fn read_span(file: &File, span: RecordSpan, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(span.len, 0);
    file.read_exact_at(buffer, span.at)
}

impl FullEntry {
    /// Returns the ids of the calls in this entry.
    fn tool_call_ids(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter(|block| block.kind() == BlockKind::ToolUse).filter_map(|block| block.id())
    }

    /// Returns the ids of the calls that this entry has results for.
    pub(crate) fn tool_result_ids(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter(|block| block.kind() == BlockKind::ToolResult).filter_map(|block| block.id())
    }
}
