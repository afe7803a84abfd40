//! Turns of a session: their number, and the check that a cut removes exactly one of them.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use gimlet_proto::{Block, EntryId};
use memchr::memmem;

use crate::LoadError;
use crate::chain::EntryChain;
use crate::full_entry::FullEntry;
use crate::line_reader::LineReader;
use crate::load::{LoadOptions, read_span, select_chain};
use crate::raw_members::{RawJsonMembers, unescaped_string};
use crate::transcript_index::{EntryKey, EntryKind, IndexRow, TranscriptIndex};

const WAITING: &str = "a prompt that was waiting";

/// Returns the number of prompts in a transcript, abandoned branches included. One pass over the file at the speed of
/// memory.
pub fn count_turns(path: &Path) -> io::Result<usize> {
    let mut lines = LineReader::new(crate::disk::open_regular(path)?);
    let mut count = 0;
    while let Some(line) = lines.next_line()? {
        let has = |text: &str| memmem::find(line.bytes, text.as_bytes()).is_some();
        let has_field = |name: &str, value: &str| has_field(line.bytes, name, value);
        let is_other = has("\"tool_use_id\"")
            || ["\"isMeta\"", "\"isCompactSummary\"", "\"isSidechain\""].iter().any(|name| has_field(name, "true"));
        let prompt = has_field("\"type\"", "\"user\"") && !is_other && !has("[Request interrupted");
        count += usize::from(prompt);
    }
    Ok(count)
}

/// Returns true if a line has a field of this value, both as JSON, with any space around the colon.
fn has_field(line: &[u8], name: &str, value: &str) -> bool {
    memmem::find_iter(line, name.as_bytes()).any(|at| {
        let rest = line[at + name.len()..].trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|rest| rest.trim_ascii_start().starts_with(value.as_bytes()))
    })
}

/// Error for a cut that would remove something else than its turn.
#[derive(Debug, thiserror::Error)]
pub enum DropTurnError {
    #[error("no turn was named")]
    Unnamed,
    #[error("the entry to go on from is not part of the conversation")]
    CutElsewhere,
    #[error("the turn {turn} is not behind the entry to go on from")]
    NotThere { turn: String },
    #[error("behind the entry to go on from begins the turn {found}, not {turn}")]
    OtherTurn { turn: String, found: String },
    #[error("line {line}: {what}, which does not belong to the turn {turn}")]
    Foreign { turn: String, line: usize, what: &'static str },
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Makes sure that everything behind the entry `cut` belongs to the turn that the prompt `turn` began.
pub fn check_dropped_turn(path: &Path, cut: &EntryId, turn: &str) -> Result<(), DropTurnError> {
    if turn.trim().is_empty() {
        return Err(DropTurnError::Unnamed);
    }
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let file = crate::disk::open_regular(path).map_err(failed)?;
    let (index, chain) = select_chain(path, &file, &LoadOptions::default())?;
    let cut_key = EntryKey::from_id(cut.as_str().as_bytes());
    if !index.by_uuid.contains_key(&cut_key) {
        return Err(LoadError::NoSuchEntry { path: path.to_owned(), uuid: cut.to_string() }.into());
    }
    let place = chain.links.iter().position(|link| index.rows[link.row as usize].uuid == cut_key);
    let place = place.ok_or(DropTurnError::CutElsewhere)?;
    let rows = |range: &[crate::chain::ChainLink]| -> Vec<IndexRow> {
        range.iter().map(|link| index.rows[link.row as usize]).collect()
    };
    let (kept, mut dropped) = (rows(&chain.links[..=place]), rows(&chain.links[place + 1..]));
    dropped.extend(trailing_silent_rows(&index, &chain));
    let mut dropping = DroppedTurnCheck { turn, begun: false, kept: kept.iter().map(|row| row.uuid).collect() };
    let mut buffer = Vec::new();
    for row in &dropped {
        read_span(&file, row.span, &mut buffer).map_err(failed)?;
        dropping.check_row(row, &buffer)?;
    }
    let cut_line = kept.last().map_or(0, |row| row.line as usize);
    if let Some(line) = index.queue.first_after_line(cut_line) {
        return Err(DropTurnError::Foreign { turn: turn.to_owned(), line, what: WAITING });
    }
    if dropping.begun { Ok(()) } else { Err(DropTurnError::NotThere { turn: turn.to_owned() }) }
}

/// Returns the rows behind the last message of the conversation that have no content themselves.
fn trailing_silent_rows(index: &TranscriptIndex, chain: &EntryChain) -> Vec<IndexRow> {
    let spoken: HashSet<u32> = chain.links.iter().map(|link| link.row).collect();
    let mut rows = Vec::new();
    let mut here = chain.last;
    while let Some(at) = here.filter(|at| !spoken.contains(at) && rows.len() < index.rows.len()) {
        let row = index.rows[at as usize];
        rows.push(row);
        here = index.by_uuid.get(&row.parent).copied();
    }
    rows.reverse();
    rows
}

/// Check of the entries that a cut removes.
struct DroppedTurnCheck<'a> {
    turn: &'a str,
    /// True if the turn's own prompt was found.
    begun: bool,
    kept: HashSet<EntryKey>,
}

impl DroppedTurnCheck<'_> {
    fn check_row(&mut self, row: &IndexRow, line: &[u8]) -> Result<(), DropTurnError> {
        let foreign = |what| Err(DropTurnError::Foreign { turn: self.turn.to_owned(), line: row.line as usize, what });
        match row.kind {
            EntryKind::User if row.result => {
                let of_kept = self.kept.contains(&row.source) || self.kept.contains(&row.parent);
                if of_kept && !self.begun { foreign("a result of a call that is kept") } else { Ok(()) }
            }
            EntryKind::User if row.meta => match entry_text(line).contains("<task-notification>") {
                true => foreign("the report of a background task"),
                false => Ok(()),
            },
            EntryKind::User if row.uuid == EntryKey::from_id(self.turn.as_bytes()) => {
                self.begun = true;
                Ok(())
            }
            EntryKind::User if self.begun && entry_text(line).starts_with("[Request interrupted by user") => Ok(()),
            EntryKind::User if self.begun => foreign("another prompt"),
            EntryKind::User => {
                let found = crate::full_entry::find_uuid(line).map_or_else(String::new, |uuid| uuid.to_string());
                Err(DropTurnError::OtherTurn { turn: self.turn.to_owned(), found })
            }
            EntryKind::Assistant if !self.begun => foreign("a reply to the prompt before it"),
            EntryKind::Attachment => match (attachment_type(line).as_deref(), self.begun) {
                (Some("queued_command"), _) => foreign(WAITING),
                (Some("structured_output"), false) => foreign("the structured output of the turn before it"),
                _ => Ok(()),
            },
            EntryKind::Assistant | EntryKind::System | EntryKind::Progress => Ok(()),
        }
    }
}

fn entry_text(line: &[u8]) -> String {
    let link = crate::chain::ChainLink { row: 0, fanned_out: false };
    let live = FullEntry::parse(line, link, EntryKind::User);
    let texts = live.iter().flat_map(|live| &live.blocks).filter_map(Block::as_text);
    texts.collect::<Vec<_>>().join("\n")
}

fn attachment_type(line: &[u8]) -> Option<String> {
    let (_, attachment) = RawJsonMembers::new(line).find(|(key, _)| *key == b"attachment")?;
    let (_, kind) = RawJsonMembers::new(attachment).find(|(key, _)| *key == b"type")?;
    unescaped_string(kind).map(|kind| String::from_utf8_lossy(kind).into_owned())
}
