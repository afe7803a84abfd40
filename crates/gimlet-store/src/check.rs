//! Check of a transcript: all damage with its position and its consequence for the session. Changes nothing.

mod missing_outputs;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use gimlet_proto::{Block, BlockKind, ToolUseId};
use serde::de::IgnoredAny;

use crate::LoadError;
use crate::damage::{Damage, DamageReport};
use crate::deferred_call::{RepairedConversation, repair_conversation};
use crate::layout::SessionFiles;
use crate::line_reader::LineReader;
use crate::load::{LoadOptions, RawConversation, read_conversation};
use crate::transcript_index::{EntryKey, EntryKind, TranscriptIndex, for_each_record};

/// Length beyond which a line is reported.
const GIANT_LINE: usize = 4 << 20;
/// Findings that are described of one transcript. A file that is no transcript at all must not fill the memory.
const MOST_FINDINGS: usize = 10_000;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// Unusual, but nothing is lost by it.
    Note,
    /// Something is lost or has to be changed when the session is resumed.
    Damage,
}

/// Problem that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    /// Line of the file, where there is one.
    pub line: Option<usize>,
    /// Short, stable name.
    pub kind: &'static str,
    pub severity: FindingSeverity,
    pub what: String,
    pub consequence: &'static str,
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    pub path: PathBuf,
    pub bytes: u64,
    /// Entries that have a place in the conversation or a branch of it.
    pub entries: usize,
    /// Messages that would be sent if the session were taken up.
    pub messages: usize,
    /// At most ten thousand, by line.
    pub findings: Vec<CheckFinding>,
    /// Total number of findings.
    pub total: usize,
}

impl CheckReport {
    pub fn is_damaged(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == FindingSeverity::Damage)
    }
}

/// Checks a session: its transcript, and then those of its subagents by their ids. Results that have files of their own
/// must be there.
pub fn check_session(files: &SessionFiles) -> Vec<(Option<String>, Result<CheckReport, LoadError>)> {
    let own = std::iter::once((None, files.transcript()));
    let agents = files.agent_transcripts().into_iter().map(|(agent, path)| (Some(agent), path));
    own.chain(agents)
        .map(|(agent, path)| {
            let checkup = check_transcript(&path).map(|mut checkup| {
                missing_outputs::add_missing_outputs(&mut checkup, &files.tool_results());
                checkup
            });
            (agent, checkup)
        })
        .collect()
}

/// Checks a transcript from its first line to its last.
pub fn check_transcript(path: &Path) -> Result<CheckReport, LoadError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let file = crate::disk::open_regular(path).map_err(read_error)?;
    let options = LoadOptions { most_damage: Some(MOST_FINDINGS), ..LoadOptions::default() };
    let RawConversation { index, chain, entries: lives, damage } = read_conversation(path, &file, &options)?;
    let places = BlockLines::from_entries(&index, &lives);
    let mut findings: Vec<CheckFinding> =
        damage.items.iter().map(|item| finding_from_damage(item, item.line())).collect();
    let mut total = damage.total;
    let unknown = find_unknown_blocks(&index, &lives);
    let RepairedConversation { messages, repairs, .. } =
        repair_conversation(&file, &index, &chain, lives).map_err(read_error)?;
    let mut blanks = places.blanks.iter();
    for item in &repairs {
        let line = match item {
            Damage::BlankText => blanks.next().copied(),
            item => places.line_of(item),
        };
        findings.push(match item {
            Damage::MissingResult { call } if places.cut_off.contains(call.as_str()) => {
                cut_off_call_finding(call, line)
            }
            item => finding_from_damage(item, line),
        });
    }
    total += repairs.len();
    let known: HashSet<(usize, &str)> = findings.iter().filter_map(|item| Some((item.line?, item.kind))).collect();
    let records = find_invalid_json(&file, &findings).map_err(read_error)?;
    let structure: Vec<CheckFinding> = find_structure_problems(&index)
        .into_iter()
        .chain(records)
        .chain(unknown)
        .filter(|finding| finding.line.is_none_or(|line| !known.contains(&(line, finding.kind))))
        .collect();
    total += structure.len();
    findings.extend(structure);
    findings.truncate(MOST_FINDINGS);
    findings.sort_by_key(|finding| (finding.line.unwrap_or(usize::MAX), finding.kind));
    Ok(CheckReport {
        path: path.to_owned(),
        bytes: index.file_len,
        entries: index.rows.len(),
        messages: messages.len(),
        findings,
        total,
    })
}

fn finding_from_damage(damage: &Damage, line: Option<usize>) -> CheckFinding {
    let text = damage.to_string();
    // The line is reported beside it, and the consequence describes the repair.
    let text =
        text.strip_prefix("line ").and_then(|rest| rest.split_once(": ")).map_or(text.as_str(), |(_, rest)| rest);
    let what = text.rsplit_once("; ").map_or(text, |(what, _)| what).to_owned();
    let (severity, consequence) = damage_consequence(damage);
    CheckFinding { line, kind: damage.kind(), severity, what, consequence }
}

/// Returns the finding for a call that was running when its turn was ended: no record is lost by that.
fn cut_off_call_finding(call: &ToolUseId, line: Option<usize>) -> CheckFinding {
    CheckFinding {
        line,
        kind: "cut-off-turn",
        severity: FindingSeverity::Note,
        what: format!("the turn was cut off while the call {call} was running or waiting"),
        consequence: "the model is told that the call was interrupted",
    }
}

fn damage_consequence(damage: &Damage) -> (FindingSeverity, &'static str) {
    let lost = |text| (FindingSeverity::Damage, text);
    match damage {
        Damage::TornTail { .. } => lost("the record that was being written is lost; everything before it is whole"),
        Damage::BrokenLine { .. } => lost("this record is skipped; what follows it is linked to the entry before it"),
        Damage::FusedLine { .. } => lost("the whole record in the line is used; the torn one is lost"),
        Damage::ZeroBytes { .. } => lost("whatever stood there is lost; records around it are used"),
        Damage::BadMessage { .. } => lost("the model does not see this message, or not all of it"),
        Damage::BadBlock { .. } => lost("the model does not see this part of the message"),
        Damage::HalfCharacter { .. } => lost("the model sees a replacement mark in its place"),
        Damage::BadImage { .. } => lost("the model sees a note in place of the image"),
        Damage::DuplicateEntry { .. } => lost("the later of the two counts"),
        Damage::MissingParent { .. } => lost("it is linked to the entry before it; what was between them is lost"),
        Damage::Cycle { .. } => lost("the chain is cut here; what stood before it is not part of the conversation"),
        Damage::MissingResult { .. } => lost("the model is told that the call was interrupted"),
        Damage::OrphanResult { .. } => lost("the result is left out"),
        Damage::DuplicateResult { .. } => lost("the first result counts"),
        Damage::BadCall { .. } => lost("the call and its result are left out"),
        Damage::OvertakenCall { .. } => lost("the call is left out, because providers take no words while it runs"),
        Damage::BlankText => lost("it is left out, because providers refuse empty texts"),
        Damage::EmptyMessage => lost("it is left out"),
        Damage::MissingStart => lost("a note stands in place of the beginning"),
        Damage::ResultOrder => (FindingSeverity::Note, "they are sent in the order of the calls"),
        Damage::SplitMessage => (FindingSeverity::Note, "they are sent as one message"),
    }
}

/// Lines of calls, results and empty texts of the live conversation.
#[derive(Default)]
struct BlockLines {
    calls: HashMap<String, usize>,
    results: HashMap<String, Vec<usize>>,
    blanks: Vec<usize>,
    first: Option<usize>,
    /// Calls of replies that are followed only by results in their turn.
    cut_off: HashSet<String>,
}

impl BlockLines {
    fn from_entries(index: &TranscriptIndex, lives: &[crate::full_entry::FullEntry]) -> Self {
        let mut places = BlockLines::default();
        let mut newest = (EntryKey::NONE, Vec::new());
        for live in lives {
            let row = &index.rows[live.link.row as usize];
            let line = row.line as usize;
            match live.kind {
                EntryKind::Assistant if live.message == EntryKey::NONE || live.message != newest.0 => {
                    newest = (live.message, Vec::new());
                }
                EntryKind::User if !row.result && !row.meta => places.cut_off.extend(newest.1.drain(..)),
                _ => {}
            }
            places.first = places.first.or(Some(line));
            for block in &live.blocks {
                let id = || block.id().unwrap_or_default().to_owned();
                match block.kind() {
                    BlockKind::ToolUse => {
                        places.calls.insert(id(), line);
                        newest.1.push(id());
                    }
                    BlockKind::ToolResult => places.results.entry(id()).or_default().push(line),
                    BlockKind::Text if Block::is_blank_text(block) => places.blanks.push(line),
                    _ => {}
                }
            }
        }
        places.cut_off.extend(newest.1);
        places
    }

    fn line_of(&self, damage: &Damage) -> Option<usize> {
        match damage {
            Damage::MissingResult { call } => self.calls.get(call.as_str()).copied(),
            Damage::BadCall { call } => self.calls.get(call).copied(),
            Damage::OrphanResult { call } => self.results.get(call).and_then(|lines| lines.last()).copied(),
            Damage::DuplicateResult { call } => self.results.get(call.as_str()).and_then(|lines| lines.last()).copied(),
            Damage::MissingStart => self.first,
            _ => None,
        }
    }
}

/// Finds blocks of unknown types. They are kept as they are: another version may have written them.
fn find_unknown_blocks(index: &TranscriptIndex, lives: &[crate::full_entry::FullEntry]) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    for live in lives {
        let line = index.rows[live.link.row as usize].line as usize;
        for block in live.blocks.iter().filter(|block| block.kind() == BlockKind::Other) {
            found.push(CheckFinding {
                line: Some(line),
                kind: "unknown-block",
                severity: FindingSeverity::Note,
                what: format!("a block has the type '{}', which is not known here", block.type_name()),
                consequence: "it is sent as it is; where the server refuses it, a note is sent in its place",
            });
        }
    }
    found
}

/// Finds problems in the structure of the chain, also in abandoned branches.
fn find_structure_problems(index: &TranscriptIndex) -> Vec<CheckFinding> {
    let note = |line: u32, kind, what: String, consequence| CheckFinding {
        line: Some(line as usize),
        kind,
        severity: FindingSeverity::Note,
        what,
        consequence,
    };
    let mut found = Vec::new();
    let mut roots = BTreeMap::new();
    for (at, row) in index.rows.iter().enumerate() {
        if index.by_uuid.get(&row.uuid) != Some(&(at as u32)) {
            continue;
        }
        if row.span.len > GIANT_LINE {
            let what = format!("the record takes {} MB", row.span.len / 1_000_000);
            found.push(note(row.line, "giant-line", what, "loading takes longer"));
        }
        let parent = index.by_uuid.get(&row.parent).map(|parent| *parent as usize);
        match parent {
            _ if row.boundary => {}
            None if row.parent == EntryKey::NONE && !row.sidechain => {
                roots.insert(row.line, ());
            }
            None if row.parent != EntryKey::NONE => {
                let what = "follows an entry that is missing".to_owned();
                found.push(note(row.line, "missing-parent", what, "it is in a branch that was given up"));
            }
            Some(parent) if parent > at => {
                let what = format!("stands before the entry that it follows (line {})", index.rows[parent].line);
                found.push(note(row.line, "out-of-order", what, "none: the links between entries count"));
            }
            _ => {}
        }
    }
    for line in roots.into_keys().skip(1) {
        let what = "begins a second conversation in the same file".to_owned();
        found.push(note(
            line,
            "second-root",
            what,
            "only the newest one goes on; after going back to the start this is meant",
        ));
    }
    found.extend(find_cycles(index).into_iter().map(|line| {
        note(line, "cycle", "follows itself in a circle".to_owned(), "what hangs on the circle has no beginning")
    }));
    found
}

/// Records that are used although other programs could not read them, because what is broken in them is not needed.
fn find_invalid_json(file: &File, known: &[CheckFinding]) -> io::Result<Vec<CheckFinding>> {
    let told: HashSet<usize> = known.iter().filter_map(|finding| finding.line).collect();
    let mut source = file;
    source.rewind()?;
    let mut lines = LineReader::new(source);
    let mut found = Vec::new();
    while let Some(line) = lines.next_line()? {
        for_each_record(&line, &mut DamageReport::default(), |_, json, _, _| {
            if told.contains(&line.number) || serde_json::from_slice::<IgnoredAny>(json).is_ok() {
                return;
            }
            let (kind, what) = match json.contains(&0) {
                true => ("zero-bytes", "zero bytes stand in a part of the record that is not needed"),
                false => ("bad-json", "a part of the record that is not needed is no JSON"),
            };
            found.push(CheckFinding {
                line: Some(line.number),
                kind,
                severity: FindingSeverity::Damage,
                what: what.to_owned(),
                consequence: "the rest of it is used here; other programs skip the whole record",
            });
        });
    }
    Ok(found)
}

/// Returns one line of every cycle of parents. Each entry is visited once.
fn find_cycles(index: &TranscriptIndex) -> Vec<u32> {
    const NEW: u32 = 0;
    let mut walk_of = vec![NEW; index.rows.len()];
    let mut found = Vec::new();
    for start in 0..index.rows.len() {
        let walk = start as u32 + 1;
        let mut here = start;
        while walk_of[here] == NEW {
            walk_of[here] = walk;
            let row = &index.rows[here];
            match index.by_uuid.get(&row.parent) {
                Some(parent) if !row.boundary => here = *parent as usize,
                _ => break,
            }
            if walk_of[here] == walk {
                found.push(index.rows[here].line);
            }
        }
    }
    found
}
