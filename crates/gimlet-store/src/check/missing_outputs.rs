//! Check for missing files of results that a transcript only points to.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use memchr::memmem;

use super::{CheckFinding, CheckReport, FindingSeverity};
use crate::layout::TOOL_RESULTS;
use crate::line_reader::LineReader;
use crate::result_files::PERSISTED_TAG;

/// Text before the path itself.
const SAVED_TO: &[u8] = b"saved to";

/// Adds a finding for every file that the transcript points to and that exists neither at its path nor in this folder:
/// a fork points to the results of its source session, and a session that was moved has its own beside it.
pub(super) fn add_missing_outputs(checkup: &mut CheckReport, folder: &Path) {
    let Ok(file) = crate::disk::open_regular(&checkup.path) else { return };
    let mut named: BTreeMap<OutputPointer, usize> = BTreeMap::new();
    let stands_for = format!("<{PERSISTED_TAG}>");
    let stands_for = memmem::Finder::new(&stands_for);
    let mut lines = LineReader::new(&file);
    let mut number = 0;
    while let Ok(Some(line)) = lines.next_line() {
        number += 1;
        for at in stands_for.find_iter(line.bytes) {
            if let Some(pointer) = parse_pointer(&line.bytes[at..]) {
                named.entry(pointer).or_insert(number);
            }
        }
    }
    let is_gone = |pointer: &OutputPointer| !pointer.path.exists() && !folder.join(&pointer.name).exists();
    let missing = named.into_iter().filter(|(pointer, _)| is_gone(pointer));
    let findings = missing.map(|(pointer, line)| CheckFinding {
        line: Some(line),
        kind: "missing-output",
        severity: FindingSeverity::Note,
        what: format!("the result that was saved as {TOOL_RESULTS}/{} is gone", pointer.name),
        consequence: "the conversation has its beginning only, and nothing can read the rest",
    });
    let findings: Vec<CheckFinding> = findings.collect();
    checkup.total += findings.len();
    checkup.findings.extend(findings);
    checkup.findings.sort_by_key(|finding| (finding.line.unwrap_or(usize::MAX), finding.kind));
}

/// Path of a result as found in a text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct OutputPointer {
    path: PathBuf,
    /// Part of the path behind the folder of results.
    name: String,
}

/// Parses the path in the record: up to the end of its line or of the text.
fn parse_pointer(text: &[u8]) -> Option<OutputPointer> {
    const LONGEST: usize = 8192;
    let head = &text[..text.len().min(LONGEST)];
    let marker = format!("/{TOOL_RESULTS}/");
    let folder = memmem::find(head, marker.as_bytes())?;
    let start = memmem::rfind(&head[..folder], SAVED_TO).map_or(folder, |at| at + SAVED_TO.len());
    let mut end = folder;
    while end < head.len() && !matches!(head[end], b'"' | b'\n') && !head[end..].starts_with(b"\\n") {
        end += if head[end] == b'\\' { 2 } else { 1 };
    }
    let written = std::str::from_utf8(head.get(start..end)?).ok()?;
    let path: String = serde_json::from_str(&format!("\"{written}\"")).ok()?;
    let path = path.trim_start_matches([':', ' ']);
    let (_, name) = path.rsplit_once(marker.as_str()).filter(|(_, name)| !name.is_empty())?;
    // Paths outside the folder are not checked.
    let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    inside.then(|| OutputPointer { path: PathBuf::from(path), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_they_were_written() {
        for (text, path) in [
            (
                r"<persisted-output>\nThis has 9 bytes and was saved to /h/p/s/tool-results/t_1.txt\n\nPreview:\nx",
                "/h/p/s/tool-results/t_1.txt",
            ),
            (
                r#"<persisted-output>\nOutput too large. Full output saved to: /my \"h\"/tool-results/agent-a/t.json\n"#,
                "/my \"h\"/tool-results/agent-a/t.json",
            ),
            (r#"<persisted-output>saved to /h/tool-results/t.txt","is_error":true"#, "/h/tool-results/t.txt"),
        ] {
            let found = parse_pointer(text.as_bytes()).map(|pointer| pointer.path);
            assert_eq!(found, Some(PathBuf::from(path)), "{text}");
        }
        for text in ["<persisted-output>nothing", r"<persisted-output>saved to /h/tool-results/../../etc/passwd\n"] {
            assert!(parse_pointer(text.as_bytes()).is_none(), "{text}");
        }
    }
}
