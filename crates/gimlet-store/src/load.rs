//! Reading a transcript back: the live conversation, byte for byte, and what is known about the session.
//!
//! The file is passed over once cheaply (`index`), the live chain is chosen (`chain`), and only its lines are read and
//! parsed. Memory follows the live part, not the file. Damage is tolerated, described and never fatal.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gimlet_proto::{BlockKind, EntryId, Message, ModelUsage, PermissionMode, Picture, Role, ToolUseId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::LoadError;
use crate::assemble;
use crate::chain::{self, Chain};
use crate::damage::{Damage, DamageReport};
use crate::index::{self, Index, Key, Kind, Span};
use crate::labels::Labels;
use crate::live::{Live, output_in};
use crate::pictures::{pictures_in, without_pictures};
use crate::usable::{self, Fault, Fit};
use crate::waiting::{Repaired, repaired};

/// The largest history that can be taken up: providers take requests of at most 32 MB, and the rest needs some room.
pub const MAX_HISTORY: u64 = 28_000_000;

/// How much of a transcript to load.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Keep the conversation up to and including this entry.
    pub up_to: Option<EntryId>,
    /// Give up when the conversation is larger than this, before it is in memory.
    pub max_bytes: Option<u64>,
    /// How much of the damage to describe, where more is wanted than what is enough to go on.
    pub most_damage: Option<usize>,
}

impl LoadOptions {
    /// Everything up to and including this entry.
    pub fn up_to(entry: EntryId) -> Self {
        Self { up_to: Some(entry), ..Self::default() }
    }
}

/// The exact bytes that a segment's requests begin with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Frozen {
    pub system: Vec<String>,
    #[serde(rename = "tools")]
    pub tools_json: String,
}

/// The structured outputs of a conversation's calls: only where they are; each is read when someone wants it.
#[derive(Clone, Debug, Default)]
pub struct ToolOutputs {
    path: PathBuf,
    places: Vec<(ToolUseId, Span)>,
}

impl ToolOutputs {
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The calls that have an output, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolUseId> {
        self.places.iter().map(|(call, _)| call)
    }

    /// Reads the output of a call; `None` when it has none or the file no longer has it.
    pub fn read(&self, call: &str) -> io::Result<Option<Box<RawValue>>> {
        let Some((_, span)) = self.places.iter().rev().find(|(known, _)| known.as_str() == call) else {
            return Ok(None);
        };
        let mut bytes = vec![0; span.len];
        crate::disk::open_plain(&self.path)?.read_exact_at(&mut bytes, span.at)?;
        Ok(output_in(&bytes).and_then(|json| serde_json::from_slice(json).ok()))
    }
}

/// A session as its transcript tells it.
#[derive(Debug)]
pub struct Loaded {
    pub path: PathBuf,
    /// The conversation since the last compaction, repaired: valid to send once a user message ends it.
    pub messages: Vec<Message>,
    /// The entry that a new one follows.
    pub last_entry: Option<EntryId>,
    /// The ids that entries and replies have, on every branch.
    pub(crate) ids: HashSet<Key>,
    pub labels: Labels,
    pub last_prompt: Option<String>,
    /// Prompts that waited for their turn when the session ended, and that nobody took up.
    pub waiting: Vec<String>,
    /// Where the session was started.
    pub cwd: Option<PathBuf>,
    /// The model of the last reply.
    pub model: Option<String>,
    /// As recorded; whether it may be restored is the caller's decision.
    pub permission_mode: Option<PermissionMode>,
    pub frozen: Option<Frozen>,
    /// What the session had used when that was last recorded.
    pub cost: Vec<ModelUsage>,
    /// The structured outputs of the live part.
    pub outputs: ToolOutputs,
    /// Calls without a result, and the entries that made them.
    pub open_calls: Vec<(ToolUseId, EntryId)>,
    /// What the model said last, when that is a call which a hook left for later. It belongs behind the messages, and
    /// nothing answers it yet.
    pub deferred: Option<Message>,
    /// The conversation begins at a compact boundary.
    pub compacted: bool,
    /// Entries of types that gimlet does not know.
    pub unknown_entries: usize,
    pub damage: DamageReport,
    /// How long the file was when it was read.
    pub file_len: u64,
}

/// Loads a transcript.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Loaded, LoadError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let file = crate::disk::open_plain(path).map_err(read_error)?;
    let Reading { index, chain, lives, mut damage } = read(path, &file, options)?;
    let model = lives.iter().rev().find_map(|live| live.model.clone());
    let mode = index.mode.clone().or_else(|| lives.iter().rev().find_map(|live| live.mode.clone()));
    let outputs = ToolOutputs { path: path.to_owned(), places: output_places(&lives, &index) };
    let open_calls = open_calls_of(&lives);
    let last_entry = last_entry(&file, &index, &chain, &lives).map_err(read_error)?;
    let frozen = frozen(&file, &index, &chain).map_err(read_error)?;
    let compacted = chain.links.first().is_some_and(|link| index.rows[link.row as usize].boundary);
    let Repaired { messages, repairs, deferred } = repaired(&file, &index, &chain, lives).map_err(read_error)?;
    for item in repairs {
        damage.add(item);
    }
    Ok(Loaded {
        path: path.to_owned(),
        messages,
        last_entry,
        ids: index.by_uuid.keys().copied().chain(index.rows.iter().map(|row| row.message)).collect(),
        labels: index.labels,
        last_prompt: index.last_prompt,
        waiting: index.queue.into_words(),
        cwd: index.cwd.map(PathBuf::from),
        model,
        permission_mode: mode.and_then(|mode| mode.parse().ok()),
        frozen,
        cost: index.cost,
        outputs,
        open_calls,
        deferred,
        compacted,
        unknown_entries: index.unknown,
        damage,
        file_len: index.file_len,
    })
}

/// What a file says before it is made into a conversation.
pub(crate) struct Reading {
    pub(crate) index: Index,
    pub(crate) chain: Chain,
    /// The speaking entries of the chain, their blocks fit to be sent.
    pub(crate) lives: Vec<Live>,
    pub(crate) damage: DamageReport,
}

/// Reads the live entries of a transcript.
pub(crate) fn read(path: &Path, file: &File, options: &LoadOptions) -> Result<Reading, LoadError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let (mut index, chain) = choose(path, file, options)?;
    let mut damage = std::mem::take(&mut index.damage);
    let max_bytes = options.max_bytes.unwrap_or(u64::MAX);
    let mut lives = match read_lives(file, &index, &chain, max_bytes, &mut damage).map_err(read_error)? {
        Ok(lives) => lives,
        Err(fits_up_to) => {
            let bytes = chain.links.iter().map(|link| index.rows[link.row as usize].span.len as u64).sum();
            return Err(LoadError::TooLarge { path: path.to_owned(), bytes, limit: max_bytes, fits_up_to });
        }
    };
    find_stray_results(file, &index, &chain, &mut lives, &mut damage).map_err(read_error)?;
    assemble::drop_answered_twice(&mut lives);
    limit_pictures(&index, &mut lives, &mut damage);
    Ok(Reading { index, chain, lives, damage })
}

/// Passes over the file and chooses the entries to keep.
pub(crate) fn choose(path: &Path, file: &File, options: &LoadOptions) -> Result<(Index, Chain), LoadError> {
    let cut = options.up_to.as_ref().map(|uuid| Key::of(uuid.as_str().as_bytes()));
    let damage = options.most_damage.map_or_else(DamageReport::default, DamageReport::keeping);
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let mut index = index::index(file, cut, damage).map_err(read_error)?;
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
    let chain = chain::build(&index.rows, &index.by_uuid, leaf, &mut index.damage);
    Ok((index, chain))
}

/// What of a conversation fits into every model, roughly: some 150,000 tokens.
const FITS_ANYWHERE: u64 = 500_000;

/// The entries of the chain in full; when they are more than `max_bytes`, the last one up to which any model takes them.
fn read_lives(
    file: &File,
    index: &Index,
    chain: &Chain,
    max_bytes: u64,
    damage: &mut DamageReport,
) -> io::Result<Result<Vec<Live>, Option<EntryId>>> {
    let mut lives: Vec<Live> = Vec::new();
    let mut buffer = Vec::new();
    let (mut bytes, mut fits_up_to) = (0, None);
    for link in &chain.links {
        let row = &index.rows[link.row as usize];
        if !matches!(row.kind, Kind::User | Kind::Assistant) {
            continue;
        }
        let line = row.line as usize;
        read_span(file, row.span, &mut buffer)?;
        let Some(mut live) = Live::parse(&buffer, *link, row.kind) else {
            damage.add(Damage::BadMessage { line });
            continue;
        };
        if live.bad_blocks {
            damage.add(Damage::BadMessage { line });
        }
        make_usable(&mut live, line, damage);
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

/// Takes out of an entry what could not be sent, or mends it.
fn make_usable(live: &mut Live, line: usize, damage: &mut DamageReport) {
    let role = if live.kind == Kind::Assistant { Role::Assistant } else { Role::User };
    live.blocks.retain_mut(|block| {
        let (fault, kept) = match usable::judge(role, block) {
            Fit::Fine => return true,
            Fit::Dropped(fault) => (fault, false),
            Fit::Mended(mended, fault) => {
                *block = mended;
                (fault, true)
            }
        };
        live.changed = true;
        damage.add(match fault {
            Fault::Shape => Damage::BadBlock { line },
            Fault::HalfCharacter => Damage::HalfCharacter { line },
            Fault::Image(why) => Damage::BadImage { line, why },
        });
        kept
    });
}

/// Leaves out images that are too many together: the oldest first, and the large ones among many.
fn limit_pictures(index: &Index, lives: &mut [Live], damage: &mut DamageReport) {
    let blocks = lives.iter().flat_map(|live| &live.blocks);
    let sides: Vec<u32> = blocks.flat_map(pictures_in).map(|picture| picture.side).collect();
    let mut surplus = sides.len().saturating_sub(Picture::MOST);
    let many = sides.len() > Picture::MANY;
    if surplus == 0 && !(many && sides.iter().any(|side| *side > Picture::SMALL_SIDE)) {
        return;
    }
    for live in lives {
        let line = index.rows[live.link.row as usize].line as usize;
        for block in &mut live.blocks {
            let mut reason = "";
            let mended = without_pictures(block, |picture| {
                let why = if surplus > 0 {
                    surplus -= 1;
                    Some("a request can carry 600 images, and newer ones came after it")
                } else {
                    let large = many && picture.side > Picture::SMALL_SIDE;
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

/// For calls that have no result where one is expected: a result that stands anywhere else in the file.
fn find_stray_results(
    file: &File,
    index: &Index,
    chain: &Chain,
    lives: &mut Vec<Live>,
    damage: &mut DamageReport,
) -> io::Result<()> {
    let mut missing: HashSet<String> =
        open_calls_of(lives).into_iter().map(|(call, _)| call.as_str().to_owned()).collect();
    let Some(first) = chain.links.iter().map(|link| link.row).min().filter(|_| !missing.is_empty()) else {
        return Ok(());
    };
    let used: HashSet<u32> = chain.links.iter().map(|link| link.row).collect();
    let sidechain = chain.links.last().is_some_and(|link| index.rows[link.row as usize].sidechain);
    let mut buffer = Vec::new();
    for at in first..index.rows.len() as u32 {
        let row = &index.rows[at as usize];
        if missing.is_empty() || !row.result || row.sidechain != sidechain || used.contains(&at) {
            continue;
        }
        read_span(file, row.span, &mut buffer)?;
        let link = chain::Link { row: at, fanned_out: true };
        let Some(mut live) = Live::parse(&buffer, link, Kind::User) else { continue };
        make_usable(&mut live, row.line as usize, damage);
        let Some(call) = live.results().find(|call| missing.contains(*call)).map(str::to_owned) else { continue };
        missing.remove(&call);
        if let Some(place) = lives.iter().rposition(|live| live.calls().any(|id| id == call)) {
            lives.insert(place + 1, live);
        }
    }
    Ok(())
}

fn output_places(lives: &[Live], index: &Index) -> Vec<(ToolUseId, Span)> {
    let with_output = lives.iter().filter(|live| live.has_output);
    with_output
        .filter_map(|live| Some((ToolUseId::new(live.results().next()?), index.rows[live.link.row as usize].span)))
        .collect()
}

fn open_calls_of(lives: &[Live]) -> Vec<(ToolUseId, EntryId)> {
    let answered: HashSet<&str> = lives.iter().flat_map(Live::results).collect();
    let calls = lives.iter().flat_map(|live| live.calls().map(|call| (call, &live.entry)));
    calls
        .filter(|(call, _)| !answered.contains(call))
        .map(|(call, entry)| (ToolUseId::new(call), entry.clone()))
        .collect()
}

fn last_entry(file: &File, index: &Index, chain: &Chain, lives: &[Live]) -> io::Result<Option<EntryId>> {
    let Some(last) = chain.last else { return Ok(None) };
    if let Some(live) = lives.iter().rev().find(|live| live.link.row == last) {
        return Ok(Some(live.entry.clone()));
    }
    let mut buffer = Vec::new();
    read_span(file, index.rows[last as usize].span, &mut buffer)?;
    Ok(crate::live::uuid_in(&buffer).or_else(|| lives.last().map(|live| live.entry.clone())))
}

/// The frozen bytes of the live segment: the last ones recorded in it, or else the last before it.
fn frozen(file: &File, index: &Index, chain: &Chain) -> io::Result<Option<Frozen>> {
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

pub(crate) fn read_span(file: &File, span: Span, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(span.len, 0);
    file.read_exact_at(buffer, span.at)
}

impl Live {
    /// The calls that this entry makes.
    fn calls(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter(|block| block.kind() == BlockKind::ToolUse).filter_map(|block| block.id())
    }

    /// The calls that this entry answers.
    pub(crate) fn results(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter(|block| block.kind() == BlockKind::ToolResult).filter_map(|block| block.id())
    }
}
