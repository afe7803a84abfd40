//! Index of a transcript by one cheap pass: a small row for every entry of the chain, the last value of metadata.
//!
//! Message bodies are skipped, not parsed, so the pass runs at the speed of memory and needs a few dozen bytes per
//! entry. Lines that cannot be parsed are counted and skipped; the pass never stops early.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read};

use gimlet_proto::ModelUsage;
use memchr::memmem;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::cost_record::CostRecord;
use crate::damage::{Damage, DamageReport};
use crate::line_reader::{FileLine, LineReader};
use crate::prompt_queue::PromptQueue;
use crate::raw_members::{RawJsonMembers, unescaped_string};
use crate::session_labels::SessionLabels;

/// String id as a number: a UUID's own value, a digest of anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct EntryKey(u128);

impl EntryKey {
    /// Key of an absent id.
    pub(crate) const NONE: EntryKey = EntryKey(0);

    pub(crate) fn from_id(id: &[u8]) -> Self {
        match std::str::from_utf8(id).ok().and_then(parse_lowercase_uuid) {
            Some(uuid) => EntryKey(uuid.max(1)),
            None => {
                let digest = Sha256::digest(id);
                let mut half = [0; 16];
                half.copy_from_slice(&digest[..16]);
                EntryKey(u128::from_be_bytes(half).max(1))
            }
        }
    }

    /// Returns the key of an id as written in a record.
    pub(crate) fn from_json(value: &[u8]) -> Self {
        match unescaped_string(value) {
            Some([]) => EntryKey::NONE,
            Some(text) => EntryKey::from_id(text),
            // Ids are compared unescaped; one that cannot be decoded is digested as it stands.
            None if value.starts_with(b"\"") => serde_json::from_slice::<String>(value)
                .map_or_else(|_| EntryKey::from_id(value), |text| EntryKey::from_id(text.as_bytes())),
            None => EntryKey::NONE,
        }
    }
}

fn parse_lowercase_uuid(text: &str) -> Option<u128> {
    if text.len() != 36 || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    uuid::Uuid::parse_str(text).ok().map(|uuid| uuid.as_u128())
}

/// The types of entries that have a place in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    User,
    Assistant,
    System,
    Attachment,
    Progress,
}

/// Position of a record's JSON in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordSpan {
    pub(crate) at: u64,
    pub(crate) len: usize,
}

/// One entry of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexRow {
    pub(crate) span: RecordSpan,
    pub(crate) line: u32,
    pub(crate) kind: EntryKind,
    pub(crate) uuid: EntryKey,
    pub(crate) parent: EntryKey,
    /// `sourceToolAssistantUUID`.
    pub(crate) source: EntryKey,
    /// `message.id` of an assistant entry.
    pub(crate) message: EntryKey,
    pub(crate) sidechain: bool,
    /// Hidden from helpers because a team wrote it.
    pub(crate) team: bool,
    pub(crate) meta: bool,
    /// A user entry that carries tool results.
    pub(crate) result: bool,
    pub(crate) boundary: bool,
}

/// Result of the pass over a transcript.
#[derive(Debug, Default)]
pub(crate) struct TranscriptIndex {
    pub(crate) rows: Vec<IndexRow>,
    pub(crate) by_uuid: HashMap<EntryKey, u32>,
    pub(crate) labels: SessionLabels,
    pub(crate) last_prompt: Option<String>,
    /// Queued prompts.
    pub(crate) queue: PromptQueue,
    pub(crate) mode: Option<String>,
    pub(crate) cost: Vec<ModelUsage>,
    pub(crate) frozen: Vec<RecordSpan>,
    /// `content-replacement` entries of others: opaque, kept by a fork.
    pub(crate) replacements: Vec<RecordSpan>,
    pub(crate) cwd: Option<String>,
    pub(crate) unknown: usize,
    pub(crate) file_len: u64,
    pub(crate) damage: DamageReport,
    /// True if the entry to cut after was found.
    pub(crate) cut_found: bool,
}

/// Indexes a whole transcript. With `cut_after`, entries and turn metadata behind that entry are left out. Damage is
/// added to `damage`.
pub(crate) fn index_transcript(
    source: impl Read,
    cut_after: Option<EntryKey>,
    damage: DamageReport,
) -> io::Result<TranscriptIndex> {
    let mut index = TranscriptIndex { damage, ..TranscriptIndex::default() };
    let mut lines = LineReader::new(source);
    while let Some(line) = lines.next_line()? {
        index.add_line(&line, cut_after);
    }
    index.file_len = lines.offset();
    Ok(index)
}

impl TranscriptIndex {
    fn add_line(&mut self, line: &FileLine<'_>, cut_after: Option<EntryKey>) {
        let mut damage = std::mem::take(&mut self.damage);
        for_each_record(line, &mut damage, |seen, json, span, damage| {
            self.add_record(seen, json, (span, line.number), cut_after, damage);
        });
        self.damage = damage;
    }

    fn add_record(
        &mut self,
        seen: &RawEntryFields<'_>,
        json: &[u8],
        place: (RecordSpan, usize),
        cut_after: Option<EntryKey>,
        damage: &mut DamageReport,
    ) {
        let (span, line) = place;
        if self.cwd.is_none() {
            self.cwd = seen.cwd.and_then(|value| serde_json::from_slice(value).ok());
        }
        match unescaped_string(seen.kind) {
            Some(b"custom-title" | b"ai-title" | b"tag" | b"agent-setting") => self.labels.apply_line(json),
            _ if cut_after.is_some() && self.cut_found => {}
            Some(b"user") => self.add_row(EntryKind::User, seen, place, cut_after, damage),
            Some(b"assistant") => self.add_row(EntryKind::Assistant, seen, place, cut_after, damage),
            Some(b"system") => self.add_row(EntryKind::System, seen, place, cut_after, damage),
            Some(b"attachment") => self.add_row(EntryKind::Attachment, seen, place, cut_after, damage),
            Some(b"progress") => self.add_row(EntryKind::Progress, seen, place, cut_after, damage),
            Some(b"gimlet-frozen") => self.frozen.push(span),
            Some(b"content-replacement") => self.replacements.push(span),
            Some(b"last-prompt" | b"permission-mode" | b"gimlet-cost") => self.add_turn_metadata(json, line, damage),
            Some(PromptQueue::KIND) => self.queue.apply_record(json, line),
            Some(b"summary" | b"mode" | b"file-history-snapshot") => {}
            _ => self.unknown += 1,
        }
    }

    fn add_turn_metadata(&mut self, json: &[u8], line: usize, damage: &mut DamageReport) {
        let Some(metadata) = TurnMetadata::parse(json) else {
            damage.add(Damage::BrokenLine { line });
            return;
        };
        if let Some(prompt) = metadata.last_prompt {
            self.last_prompt = Some(prompt.into_owned());
        }
        if let Some(mode) = metadata.permission_mode {
            self.mode = Some(mode.into_owned());
        }
        if let Some(cost) = metadata.value {
            self.cost = cost.into_iter().map(ModelUsage::from).collect();
        }
    }

    fn add_row(
        &mut self,
        kind: EntryKind,
        seen: &RawEntryFields<'_>,
        (span, line): (RecordSpan, usize),
        cut_after: Option<EntryKey>,
        damage: &mut DamageReport,
    ) {
        let uuid = EntryKey::from_json(seen.uuid);
        if uuid == EntryKey::NONE {
            self.unknown += 1;
            return;
        }
        // An id that cannot be decoded cannot be named by other entries: resuming from it would resume from another
        // place.
        if serde_json::from_slice::<&str>(seen.uuid).is_err() && serde_json::from_slice::<String>(seen.uuid).is_err() {
            damage.add(Damage::BrokenLine { line });
            return;
        }
        let row = IndexRow {
            span,
            line: u32::try_from(line).unwrap_or(u32::MAX),
            kind,
            uuid,
            parent: EntryKey::from_json(seen.parent),
            source: EntryKey::from_json(seen.source),
            message: if kind == EntryKind::Assistant { message_id(seen.message) } else { EntryKey::NONE },
            sidechain: seen.sidechain,
            team: seen.team,
            meta: seen.meta,
            result: kind == EntryKind::User && is_tool_result(seen),
            boundary: kind == EntryKind::System && unescaped_string(seen.subtype) == Some(b"compact_boundary"),
        };
        let place = self.rows.len() as u32;
        if self.by_uuid.insert(uuid, place).is_some() {
            damage.add(Damage::DuplicateEntry { line });
        }
        self.rows.push(row);
        self.cut_found |= cut_after == Some(uuid);
    }
}

/// Metadata of a turn beside its entries.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnMetadata<'a> {
    #[serde(borrow, default)]
    last_prompt: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    permission_mode: Option<Cow<'a, str>>,
    #[serde(default)]
    value: Option<Vec<CostRecord>>,
}

impl<'a> TurnMetadata<'a> {
    fn parse(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// Returns true if a record that is not part of the chain can be parsed as its type.
pub(crate) fn is_readable_metadata(seen: &RawEntryFields<'_>, json: &[u8]) -> bool {
    match unescaped_string(seen.kind) {
        Some(b"last-prompt" | b"permission-mode" | b"gimlet-cost") => TurnMetadata::parse(json).is_some(),
        _ => serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok(),
    }
}

/// Hands out the records of a line: one, or for a line that was written onto a torn one what is whole in it.
pub(crate) fn for_each_record(
    line: &FileLine<'_>,
    damage: &mut DamageReport,
    mut take: impl FnMut(&RawEntryFields<'_>, &[u8], RecordSpan, &mut DamageReport),
) {
    let padding = |byte: &u8| matches!(byte, 0 | b' ' | b'\t' | b'\r');
    let number = line.number;
    let Some(first) = line.bytes.iter().position(|byte| !padding(byte)) else {
        if line.bytes.contains(&0) {
            damage.add(Damage::ZeroBytes { line: number });
        }
        return;
    };
    let last = line.bytes.iter().rposition(|byte| !padding(byte)).unwrap_or(first);
    if line.bytes[..first].contains(&0) || line.bytes[last..].contains(&0) {
        damage.add(Damage::ZeroBytes { line: number });
    }
    let mut at = first;
    while at <= last {
        let bytes = &line.bytes[at..=last];
        match RawEntryFields::parse(bytes) {
            Some((seen, length)) => {
                take(&seen, &bytes[..length], RecordSpan { at: line.at + at as u64, len: length }, damage);
                at += length;
                if at <= last {
                    damage.add(Damage::FusedLine { line: number });
                }
            }
            None => match find_recoverable_record(bytes) {
                Some(skip) => {
                    damage.add(Damage::FusedLine { line: number });
                    at += skip;
                }
                None if line.ended => return damage.add(Damage::BrokenLine { line: number }),
                None => return damage.add(Damage::TornTail { line: number }),
            },
        }
    }
}

/// Results name the call they answer; the structured output beside them is ours and optional.
fn is_tool_result(seen: &RawEntryFields<'_>) -> bool {
    seen.has_output || !seen.source.is_empty() || memmem::find(seen.message, b"\"tool_use_id\"").is_some()
}

fn message_id(message: &[u8]) -> EntryKey {
    let found = RawJsonMembers::new(message).find(|(key, _)| *key == b"id");
    found.map_or(EntryKey::NONE, |(_, value)| EntryKey::from_json(value))
}

/// Returns the offset in a line that does not parse at which a whole record may begin behind the torn one.
fn find_recoverable_record(bytes: &[u8]) -> Option<usize> {
    const START: &[u8] = b"{\"parentUuid\":";
    // Only the last candidate: trying each would cost the square of a long broken line.
    memmem::rfind(bytes.get(1..)?, START).map(|found| found + 1)
}

/// Members of an entry that the pass uses, as raw JSON.
#[derive(Default)]
pub(crate) struct RawEntryFields<'a> {
    pub(crate) kind: &'a [u8],
    subtype: &'a [u8],
    uuid: &'a [u8],
    parent: &'a [u8],
    source: &'a [u8],
    message: &'a [u8],
    cwd: Option<&'a [u8]>,
    sidechain: bool,
    team: bool,
    meta: bool,
    has_output: bool,
}

impl<'a> RawEntryFields<'a> {
    /// Returns true if its type is that of a chain entry.
    pub(crate) fn has_chain_type(&self) -> bool {
        matches!(unescaped_string(self.kind), Some(b"user" | b"assistant" | b"system" | b"attachment" | b"progress"))
    }

    /// Parses the object at the start of `bytes`; also returns its length. Returns `None` if there is none.
    fn parse(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut seen = RawEntryFields::default();
        let mut members = RawJsonMembers::new(bytes);
        for (key, value) in members.by_ref() {
            match key {
                b"type" => seen.kind = value,
                b"subtype" => seen.subtype = value,
                b"uuid" => seen.uuid = value,
                b"parentUuid" => seen.parent = value,
                b"sourceToolAssistantUUID" => seen.source = value,
                b"message" => seen.message = value,
                b"cwd" => seen.cwd = Some(value),
                b"isSidechain" => seen.sidechain = value == b"true",
                b"teamName" => seen.team = value != b"null",
                b"isMeta" => seen.meta = value == b"true",
                b"toolUseResult" => seen.has_output = true,
                _ => {}
            }
        }
        let rest = members.rest()?;
        Some((seen, bytes.len() - rest.len()))
    }
}
