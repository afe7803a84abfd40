//! The turns of a session: how many there are, and whether a cut takes away exactly one of them.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use gimlet_proto::{Block, EntryId};
use memchr::memmem;

use crate::LoadError;
use crate::chain::Chain;
use crate::index::{Index, Key, Kind, Row};
use crate::lines::Lines;
use crate::live::Live;
use crate::load::{LoadOptions, choose, read_span};
use crate::members::{Members, plain_string};

const WAITING: &str = "a prompt that was waiting";

/// How many prompts a transcript has, abandoned branches included. A pass over the file at the speed of memory.
pub fn count_turns(path: &Path) -> io::Result<usize> {
    let mut lines = Lines::new(crate::disk::open_plain(path)?);
    let mut count = 0;
    while let Some(line) = lines.next_line()? {
        let has = |text: &str| memmem::find(line.bytes, text.as_bytes()).is_some();
        let other = ["\"tool_use_id\"", "\"isMeta\":true", "\"isCompactSummary\":true", "\"isSidechain\":true"];
        let prompt = has("\"type\":\"user\"") && !other.iter().any(|mark| has(mark)) && !has("[Request interrupted");
        count += usize::from(prompt);
    }
    Ok(count)
}

/// A cut would take away something else than the turn that it is meant for.
#[derive(Debug, thiserror::Error)]
pub enum DropsTurnError {
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
pub fn check_dropped_turn(path: &Path, cut: &EntryId, turn: &str) -> Result<(), DropsTurnError> {
    if turn.trim().is_empty() {
        return Err(DropsTurnError::Unnamed);
    }
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let file = crate::disk::open_plain(path).map_err(failed)?;
    let (index, chain) = choose(path, &file, &LoadOptions::default())?;
    let cut_key = Key::of(cut.as_str().as_bytes());
    if !index.by_uuid.contains_key(&cut_key) {
        return Err(LoadError::NoSuchEntry { path: path.to_owned(), uuid: cut.to_string() }.into());
    }
    let place = chain.links.iter().position(|link| index.rows[link.row as usize].uuid == cut_key);
    let place = place.ok_or(DropsTurnError::CutElsewhere)?;
    let rows =
        |range: &[crate::chain::Link]| -> Vec<Row> { range.iter().map(|link| index.rows[link.row as usize]).collect() };
    let (kept, mut dropped) = (rows(&chain.links[..=place]), rows(&chain.links[place + 1..]));
    dropped.extend(silent_end(&index, &chain));
    let mut dropping = Dropping { turn, begun: false, kept: kept.iter().map(|row| row.uuid).collect() };
    let mut buffer = Vec::new();
    for row in &dropped {
        read_span(&file, row.span, &mut buffer).map_err(failed)?;
        dropping.take(row, &buffer)?;
    }
    let cut_line = kept.last().map_or(0, |row| row.line as usize);
    if let Some(line) = index.queue.first_behind(cut_line) {
        return Err(DropsTurnError::Foreign { turn: turn.to_owned(), line, what: WAITING });
    }
    if dropping.begun { Ok(()) } else { Err(DropsTurnError::NotThere { turn: turn.to_owned() }) }
}

/// What stands behind the last word of the conversation and says nothing itself.
fn silent_end(index: &Index, chain: &Chain) -> Vec<Row> {
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

/// Walks over what a cut takes away.
struct Dropping<'a> {
    turn: &'a str,
    /// The turn's own prompt was met.
    begun: bool,
    kept: HashSet<Key>,
}

impl Dropping<'_> {
    fn take(&mut self, row: &Row, line: &[u8]) -> Result<(), DropsTurnError> {
        let foreign = |what| Err(DropsTurnError::Foreign { turn: self.turn.to_owned(), line: row.line as usize, what });
        match row.kind {
            Kind::User if row.result => {
                let of_kept = self.kept.contains(&row.source) || self.kept.contains(&row.parent);
                if of_kept && !self.begun { foreign("a result of a call that is kept") } else { Ok(()) }
            }
            Kind::User if row.meta => match text_of(line).contains("<task-notification>") {
                true => foreign("the report of a background task"),
                false => Ok(()),
            },
            Kind::User if row.uuid == Key::of(self.turn.as_bytes()) => {
                self.begun = true;
                Ok(())
            }
            Kind::User if self.begun && text_of(line).starts_with("[Request interrupted by user") => Ok(()),
            Kind::User if self.begun => foreign("another prompt"),
            Kind::User => {
                let found = crate::live::uuid_in(line).map_or_else(String::new, |uuid| uuid.to_string());
                Err(DropsTurnError::OtherTurn { turn: self.turn.to_owned(), found })
            }
            Kind::Assistant if !self.begun => foreign("a reply to the prompt before it"),
            Kind::Attachment => match (attachment_type(line).as_deref(), self.begun) {
                (Some("queued_command"), _) => foreign(WAITING),
                (Some("structured_output"), false) => foreign("the structured output of the turn before it"),
                _ => Ok(()),
            },
            Kind::Assistant | Kind::System | Kind::Progress => Ok(()),
        }
    }
}

fn text_of(line: &[u8]) -> String {
    let link = crate::chain::Link { row: 0, fanned_out: false };
    let live = Live::parse(line, link, Kind::User);
    let texts = live.iter().flat_map(|live| &live.blocks).filter_map(Block::as_text);
    texts.collect::<Vec<_>>().join("\n")
}

fn attachment_type(line: &[u8]) -> Option<String> {
    let (_, attachment) = Members::of(line).find(|(key, _)| *key == b"attachment")?;
    let (_, kind) = Members::of(attachment).find(|(key, _)| *key == b"type")?;
    plain_string(kind).map(|kind| String::from_utf8_lossy(kind).into_owned())
}
