//! Copies a session: the kept entries under a new id, the source untouched.
//!
//! Entries keep their own ids and blocks byte for byte; only the session id changes, and each entry names its source.
//! The copy appears under its name whole or not at all.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::disk::{create_private_dirs, open_private};
use crate::full_entry::find_uuid;
use crate::layout::SessionFiles;
use crate::load::{LoadOptions, read_span, select_chain};
use crate::raw_members::RawJsonMembers;
use crate::transcript_index::RecordSpan;
use crate::{ForkError, LoadError};

/// Contents of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkSummary {
    pub entries: usize,
}

/// Copies the conversation of `source` to the new session `target`. Load and resume the target afterwards.
pub fn fork(source: &SessionFiles, options: &LoadOptions, target: &SessionFiles) -> Result<ForkSummary, ForkError> {
    let path = target.transcript();
    if path.symlink_metadata().is_ok() {
        return Err(ForkError::Exists { path });
    }
    let read_error = |error| ForkError::Load(LoadError::Read { path: source.transcript(), source: error });
    let file = crate::disk::open_regular(&source.transcript()).map_err(read_error)?;
    let (index, chain) = select_chain(&source.transcript(), &file, options)?;
    let mut spans: BTreeSet<(u64, usize)> = BTreeSet::new();
    let keep = |span: &RecordSpan| (span.at, span.len);
    spans.extend(chain.links.iter().map(|link| keep(&index.rows[link.row as usize].span)));
    spans.extend(chain.last.map(|last| keep(&index.rows[last as usize].span)));
    let entries = spans.len();
    spans.extend(index.frozen.iter().chain(&index.replacements).map(keep));

    let write_error = |error| ForkError::Write { path: path.clone(), source: error };
    write_copy(&file, &spans, source, target).map_err(write_error)?;
    Ok(ForkSummary { entries })
}

fn write_copy(
    file: &File,
    spans: &BTreeSet<(u64, usize)>,
    source: &SessionFiles,
    target: &SessionFiles,
) -> io::Result<()> {
    let path = target.transcript();
    let dir = path.parent().unwrap_or(Path::new("."));
    create_private_dirs(dir)?;
    let unfinished = path.with_extension("jsonl.part");
    let copy = open_private(&unfinished, OpenOptions::new().write(true).create_new(true))?;
    let written = copy_lines(file, spans, source, target, &copy).and_then(|()| copy.sync_all());
    let named = written.and_then(|()| rename_without_replacing(&unfinished, &path));
    if let Err(error) = named {
        // Best effort: the error that led here is the one to report.
        drop(std::fs::remove_file(&unfinished));
        return Err(error);
    }
    File::open(dir)?.sync_all()
}

/// Moves a finished file to its name without replacing one that appeared meanwhile: a hard link fails where a rename
/// would not. Only file systems without hard links use the rename.
pub fn rename_without_replacing(unfinished: &Path, path: &Path) -> io::Result<()> {
    match std::fs::hard_link(unfinished, path) {
        Ok(()) => std::fs::remove_file(unfinished),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) => std::fs::rename(unfinished, path),
    }
}

fn copy_lines(
    file: &File,
    spans: &BTreeSet<(u64, usize)>,
    source: &SessionFiles,
    target: &SessionFiles,
    copy: &File,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, copy);
    let (mut line, mut copied) = (Vec::new(), Vec::new());
    for (at, len) in spans {
        read_span(file, RecordSpan { at: *at, len: *len }, &mut line)?;
        copied.clear();
        copy_entry(&line, source, target, &mut copied);
        out.write_all(&copied)?;
    }
    out.flush()
}

/// Writes one line of the copy: every member as it was, the session replaced, the origin added.
fn copy_entry(line: &[u8], source: &SessionFiles, target: &SessionFiles, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut member = |key: &[u8], value: &[u8]| {
        if out.len() > 1 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(key);
        out.extend_from_slice(b"\":");
        out.extend_from_slice(value);
    };
    let session = format!("\"{}\"", target.id());
    for (key, value) in RawJsonMembers::new(line) {
        match key {
            b"sessionId" => member(key, session.as_bytes()),
            b"forkedFrom" => {}
            _ => member(key, value),
        }
    }
    if let Some(uuid) = find_uuid(line) {
        // Both are plain text: a checked session id, and an id that was just read from JSON and is written as JSON.
        let uuid = serde_json::to_string(uuid.as_str()).unwrap_or_else(|_| "null".to_owned());
        let origin = format!(r#"{{"sessionId":"{}","messageUuid":{uuid}}}"#, source.id());
        member(b"forkedFrom", origin.as_bytes());
    }
    out.extend_from_slice(b"}\n");
}
