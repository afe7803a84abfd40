//! One cheap pass over a transcript: for every entry of the chain a small row, for metadata what stands last.
//!
//! Message bodies are stepped over, not parsed, so the pass runs at the speed of memory and needs a few dozen bytes an
//! entry. Lines that make no sense are counted and passed over; the pass never stops early.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read};

use gimlet_proto::ModelUsage;
use memchr::memmem;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::cost::CostRecord;
use crate::damage::{Damage, DamageReport};
use crate::labels::Labels;
use crate::lines::{Line, Lines};
use crate::members::{Members, plain_string};
use crate::queue::Queue;

/// A string id as a number: a UUID's own value, a digest of anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key(u128);

impl Key {
    /// Stands for an absent id.
    pub(crate) const NONE: Key = Key(0);

    pub(crate) fn of(id: &[u8]) -> Self {
        match std::str::from_utf8(id).ok().and_then(lower_case_uuid) {
            Some(uuid) => Key(uuid.max(1)),
            None => {
                let digest = Sha256::digest(id);
                let mut half = [0; 16];
                half.copy_from_slice(&digest[..16]);
                Key(u128::from_be_bytes(half).max(1))
            }
        }
    }

    /// The key of an id as it stands in a record.
    pub(crate) fn of_json(value: &[u8]) -> Self {
        match plain_string(value) {
            Some([]) => Key::NONE,
            Some(text) => Key::of(text),
            // An id means the same however it is written; one that is no text is digested as it stands.
            None if value.starts_with(b"\"") => {
                serde_json::from_slice::<String>(value).map_or_else(|_| Key::of(value), |text| Key::of(text.as_bytes()))
            }
            None => Key::NONE,
        }
    }
}

fn lower_case_uuid(text: &str) -> Option<u128> {
    if text.len() != 36 || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    uuid::Uuid::parse_str(text).ok().map(|uuid| uuid.as_u128())
}

/// The types of entries that have a place in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Assistant,
    System,
    Attachment,
    Progress,
}

/// Where a record's JSON is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: u64,
    pub(crate) len: usize,
}

/// One entry of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) span: Span,
    pub(crate) line: u32,
    pub(crate) kind: Kind,
    pub(crate) uuid: Key,
    pub(crate) parent: Key,
    /// `sourceToolAssistantUUID`.
    pub(crate) source: Key,
    /// `message.id` of an assistant entry.
    pub(crate) message: Key,
    pub(crate) sidechain: bool,
    /// Hidden from helpers because a team wrote it.
    pub(crate) team: bool,
    pub(crate) meta: bool,
    /// A user entry that carries tool results.
    pub(crate) result: bool,
    pub(crate) boundary: bool,
}

/// What the pass found.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) rows: Vec<Row>,
    pub(crate) by_uuid: HashMap<Key, u32>,
    pub(crate) labels: Labels,
    pub(crate) last_prompt: Option<String>,
    /// The prompts that waited.
    pub(crate) queue: Queue,
    pub(crate) mode: Option<String>,
    pub(crate) cost: Vec<ModelUsage>,
    pub(crate) frozen: Vec<Span>,
    /// `content-replacement` entries of others: opaque, kept by a fork.
    pub(crate) replacements: Vec<Span>,
    pub(crate) cwd: Option<String>,
    pub(crate) unknown: usize,
    pub(crate) file_len: u64,
    pub(crate) damage: DamageReport,
    /// Whether the entry to cut after was met.
    pub(crate) cut_found: bool,
}

/// Reads a whole transcript. With `cut_after`, entries and turn metadata behind that entry are not taken in. What is wrong
/// is added to `damage`.
pub(crate) fn index(source: impl Read, cut_after: Option<Key>, damage: DamageReport) -> io::Result<Index> {
    let mut index = Index { damage, ..Index::default() };
    let mut lines = Lines::new(source);
    while let Some(line) = lines.next_line()? {
        index.take_line(&line, cut_after);
    }
    index.file_len = lines.offset();
    Ok(index)
}

impl Index {
    fn take_line(&mut self, line: &Line<'_>, cut_after: Option<Key>) {
        let mut damage = std::mem::take(&mut self.damage);
        for_each_record(line, &mut damage, |seen, json, span, damage| {
            self.take_record(seen, json, (span, line.number), cut_after, damage);
        });
        self.damage = damage;
    }

    fn take_record(
        &mut self,
        seen: &Seen<'_>,
        json: &[u8],
        place: (Span, usize),
        cut_after: Option<Key>,
        damage: &mut DamageReport,
    ) {
        let (span, line) = place;
        if self.cwd.is_none() {
            self.cwd = seen.cwd.and_then(|value| serde_json::from_slice(value).ok());
        }
        match plain_string(seen.kind) {
            Some(b"custom-title" | b"ai-title" | b"tag" | b"agent-setting") => self.labels.read_line(json),
            _ if cut_after.is_some() && self.cut_found => {}
            Some(b"user") => self.take_row(Kind::User, seen, place, cut_after, damage),
            Some(b"assistant") => self.take_row(Kind::Assistant, seen, place, cut_after, damage),
            Some(b"system") => self.take_row(Kind::System, seen, place, cut_after, damage),
            Some(b"attachment") => self.take_row(Kind::Attachment, seen, place, cut_after, damage),
            Some(b"progress") => self.take_row(Kind::Progress, seen, place, cut_after, damage),
            Some(b"gimlet-frozen") => self.frozen.push(span),
            Some(b"content-replacement") => self.replacements.push(span),
            Some(b"last-prompt" | b"permission-mode" | b"gimlet-cost") => self.take_turn_metadata(json, line, damage),
            Some(Queue::KIND) => self.queue.take(json, line),
            Some(b"summary" | b"mode" | b"file-history-snapshot") => {}
            _ => self.unknown += 1,
        }
    }

    fn take_turn_metadata(&mut self, json: &[u8], line: usize, damage: &mut DamageReport) {
        let Some(metadata) = TurnMetadata::read(json) else {
            damage.add(Damage::Broken { line });
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

    fn take_row(
        &mut self,
        kind: Kind,
        seen: &Seen<'_>,
        (span, line): (Span, usize),
        cut_after: Option<Key>,
        damage: &mut DamageReport,
    ) {
        let uuid = Key::of_json(seen.uuid);
        if uuid == Key::NONE {
            self.unknown += 1;
            return;
        }
        // What is no text can be named by no other entry: going on from it would go on from somewhere else.
        if serde_json::from_slice::<&str>(seen.uuid).is_err() && serde_json::from_slice::<String>(seen.uuid).is_err() {
            damage.add(Damage::Broken { line });
            return;
        }
        let row = Row {
            span,
            line: u32::try_from(line).unwrap_or(u32::MAX),
            kind,
            uuid,
            parent: Key::of_json(seen.parent),
            source: Key::of_json(seen.source),
            message: if kind == Kind::Assistant { message_id(seen.message) } else { Key::NONE },
            sidechain: seen.sidechain,
            team: seen.team,
            meta: seen.meta,
            result: kind == Kind::User && is_result(seen),
            boundary: kind == Kind::System && plain_string(seen.subtype) == Some(b"compact_boundary"),
        };
        let place = self.rows.len() as u32;
        if self.by_uuid.insert(uuid, place).is_some() {
            damage.add(Damage::DuplicateEntry { line });
        }
        self.rows.push(row);
        self.cut_found |= cut_after == Some(uuid);
    }
}

/// What is written about a turn beside its entries.
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
    fn read(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// Whether a record that is not part of the chain can be read as what it says it is.
pub(crate) fn is_readable_metadata(seen: &Seen<'_>, json: &[u8]) -> bool {
    match plain_string(seen.kind) {
        Some(b"last-prompt" | b"permission-mode" | b"gimlet-cost") => TurnMetadata::read(json).is_some(),
        _ => serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok(),
    }
}

/// Hands out the records of a line: one, or for a line that was written onto a torn one what is whole in it.
pub(crate) fn for_each_record(
    line: &Line<'_>,
    damage: &mut DamageReport,
    mut take: impl FnMut(&Seen<'_>, &[u8], Span, &mut DamageReport),
) {
    let padding = |byte: &u8| matches!(byte, 0 | b' ' | b'\t' | b'\r');
    let number = line.number;
    let Some(first) = line.bytes.iter().position(|byte| !padding(byte)) else {
        if line.bytes.contains(&0) {
            damage.add(Damage::Zeros { line: number });
        }
        return;
    };
    let last = line.bytes.iter().rposition(|byte| !padding(byte)).unwrap_or(first);
    if line.bytes[..first].contains(&0) || line.bytes[last..].contains(&0) {
        damage.add(Damage::Zeros { line: number });
    }
    let mut at = first;
    while at <= last {
        let bytes = &line.bytes[at..=last];
        match Seen::parse(bytes) {
            Some((seen, length)) => {
                take(&seen, &bytes[..length], Span { at: line.at + at as u64, len: length }, damage);
                at += length;
                if at <= last {
                    damage.add(Damage::Salvaged { line: number });
                }
            }
            None => match salvage_start(bytes) {
                Some(skip) => {
                    damage.add(Damage::Salvaged { line: number });
                    at += skip;
                }
                None if line.ended => return damage.add(Damage::Broken { line: number }),
                None => return damage.add(Damage::TornTail { line: number }),
            },
        }
    }
}

/// Results name the call they answer; the structured output beside them is ours and optional.
fn is_result(seen: &Seen<'_>) -> bool {
    seen.has_output || !seen.source.is_empty() || memmem::find(seen.message, b"\"tool_use_id\"").is_some()
}

fn message_id(message: &[u8]) -> Key {
    let found = Members::of(message).find(|(key, _)| *key == b"id");
    found.map_or(Key::NONE, |(_, value)| Key::of_json(value))
}

/// In a line that does not parse: where a whole record may begin behind the torn one.
fn salvage_start(bytes: &[u8]) -> Option<usize> {
    const START: &[u8] = b"{\"parentUuid\":";
    // Only the last candidate: trying each would cost the square of a long broken line.
    memmem::rfind(bytes.get(1..)?, START).map(|found| found + 1)
}

/// The members of an entry that the pass looks at, as raw JSON.
#[derive(Default)]
pub(crate) struct Seen<'a> {
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

impl<'a> Seen<'a> {
    /// Whether it says that it is an entry of the chain.
    pub(crate) fn has_chain_type(&self) -> bool {
        matches!(plain_string(self.kind), Some(b"user" | b"assistant" | b"system" | b"attachment" | b"progress"))
    }

    /// Reads the object at the start of `bytes`; also says how long it is.
    fn parse(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut seen = Seen::default();
        let mut members = Members::of(bytes);
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
