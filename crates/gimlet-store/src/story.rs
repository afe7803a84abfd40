//! A session as people read it: everything on the way to the newest leaf, also from before compactions, with times.
//!
//! Entries are read one by one while they are shown, so a long session needs little memory. What goes to a model comes
//! from [`crate::load`] instead.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use gimlet_proto::{Block, BlockKind, EntryId};

use crate::LoadError;
use crate::chain::{self, Link};
use crate::damage::DamageReport;
use crate::index::{Index, Key, Kind};
use crate::labels::Labels;
use crate::live::Live;
use crate::load::{LoadOptions, choose, read_span};
use crate::members::Members;

/// A session, ready to be told.
#[derive(Debug)]
pub struct Story {
    file: File,
    path: PathBuf,
    index: Index,
    links: Vec<Link>,
    pub labels: Labels,
    pub cwd: Option<PathBuf>,
    pub damage: DamageReport,
}

/// What a moment of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentKind {
    /// Said by a person, or by the program that speaks for one.
    Prompt,
    /// Put in by the program, unseen by the person.
    Injected,
    /// What stands for the conversation before a compaction.
    Summary,
    /// What tools gave back.
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
pub struct Moment {
    pub entry: EntryId,
    pub line: usize,
    pub kind: MomentKind,
    /// As it is written: ISO 8601.
    pub at: Option<String>,
    pub model: Option<String>,
    pub blocks: Vec<Block>,
}

/// Opens a session for reading.
pub fn read_story(path: &Path) -> Result<Story, LoadError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let file = crate::disk::open_plain(path).map_err(read_error)?;
    let (mut index, chain) = choose(path, &file, &LoadOptions::default())?;
    let mut segments = vec![chain.links];
    let mut seen = HashSet::new();
    // From each boundary on to what the conversation was before it.
    while let Some(first) = segments.last().and_then(|links| links.first()).copied()
        && index.rows[first.row as usize].boundary
        && seen.insert(first.row)
        && let Some(before) = before_boundary(&file, &index, first.row).map_err(read_error)?
    {
        let earlier = chain::build(&index.rows, &index.by_uuid, Some(before), &mut DamageReport::default());
        segments.push(earlier.links);
    }
    let links = segments.into_iter().rev().flatten().collect();
    let damage = std::mem::take(&mut index.damage);
    let (labels, cwd) = (index.labels.clone(), index.cwd.clone().map(PathBuf::from));
    Ok(Story { file, path: path.to_owned(), index, links, labels, cwd, damage })
}

/// The entry that the conversation had come to when it was compacted.
fn before_boundary(file: &File, index: &Index, boundary: u32) -> io::Result<Option<u32>> {
    let mut line = Vec::new();
    read_span(file, index.rows[boundary as usize].span, &mut line)?;
    let named = Members::of(&line).find(|(key, _)| *key == b"logicalParentUuid").map(|(_, value)| Key::of_json(value));
    let named = named.and_then(|key| index.by_uuid.get(&key).copied()).filter(|row| *row != boundary);
    let main = |row: &u32| !index.rows[*row as usize].sidechain;
    Ok(named.or_else(|| (0..boundary).rev().find(main)))
}

impl Story {
    /// How many entries there are to tell.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// The entries in order, each read when it is asked for. What cannot be read is left out.
    pub fn moments(&self) -> impl DoubleEndedIterator<Item = Result<Moment, LoadError>> {
        self.links.iter().filter_map(|link| self.moment(*link).transpose())
    }

    fn moment(&self, link: Link) -> Result<Option<Moment>, LoadError> {
        let row = &self.index.rows[link.row as usize];
        let mut line = Vec::new();
        read_span(&self.file, row.span, &mut line)
            .map_err(|source| LoadError::Read { path: self.path.clone(), source })?;
        let told = match row.kind {
            Kind::User | Kind::Assistant => spoken(&line, link, row.kind),
            Kind::System => note(&line, row.boundary),
            Kind::Attachment | Kind::Progress => None,
        };
        Ok(told.map(|told| Moment { line: row.line as usize, ..told }))
    }
}

fn spoken(line: &[u8], link: Link, kind: Kind) -> Option<Moment> {
    let live = Live::parse_for_people(line, link, kind)?;
    let flag = |name: &[u8]| Members::of(line).any(|(key, value)| key == name && value == b"true");
    let kind = match kind {
        Kind::Assistant if flag(b"isApiErrorMessage") => MomentKind::Failure,
        Kind::Assistant => MomentKind::Reply,
        _ if flag(b"isCompactSummary") => MomentKind::Summary,
        _ if flag(b"isMeta") => MomentKind::Injected,
        _ if live.blocks.iter().any(|block| block.kind() == BlockKind::ToolResult) => MomentKind::Results,
        _ => MomentKind::Prompt,
    };
    Some(Moment { entry: live.entry, line: 0, kind, at: time(line), model: live.model, blocks: live.blocks })
}

fn note(line: &[u8], boundary: bool) -> Option<Moment> {
    let content = Members::of(line).find(|(key, _)| *key == b"content").map(|(_, value)| value);
    let text: Option<String> = content.and_then(|value| serde_json::from_slice(value).ok());
    let kind = if boundary { MomentKind::Compacted } else { MomentKind::Note };
    let blocks: Vec<Block> =
        text.filter(|text| !text.trim().is_empty()).map(|text| Block::text(&text)).into_iter().collect();
    if blocks.is_empty() && !boundary {
        return None;
    }
    Some(Moment { entry: crate::live::uuid_in(line)?, line: 0, kind, at: time(line), model: None, blocks })
}

fn time(line: &[u8]) -> Option<String> {
    let (_, value) = Members::of(line).find(|(key, _)| *key == b"timestamp")?;
    serde_json::from_slice(value).ok()
}
