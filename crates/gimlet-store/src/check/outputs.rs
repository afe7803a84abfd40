//! Results that a transcript only points to: whether their files are still there.

use std::collections::BTreeMap;
use std::path::Path;

use memchr::memmem;

use super::{Checkup, Finding, Severity};
use crate::lines::Lines;

/// How the text begins that stands for a result with a file of its own.
const STANDS_FOR: &[u8] = b"<persisted-output>";
/// What stands before the name of such a file.
const FOLDER: &[u8] = b"/tool-results/";

/// Adds a finding for every file that the transcript points to and that is not in this folder.
pub(super) fn add_missing(checkup: &mut Checkup, folder: &Path) {
    let Ok(file) = crate::disk::open_plain(&checkup.path) else { return };
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = Lines::new(&file);
    let mut number = 0;
    while let Ok(Some(line)) = lines.next_line() {
        number += 1;
        for at in memmem::find_iter(line.bytes, STANDS_FOR) {
            if let Some(name) = name_after(&line.bytes[at..]) {
                named.entry(name).or_insert(number);
            }
        }
    }
    let missing = named.into_iter().filter(|(name, _)| !folder.join(name).exists());
    let findings = missing.map(|(name, line)| Finding {
        line: Some(line),
        kind: "missing-output",
        severity: Severity::Note,
        what: format!("the result that was saved as tool-results/{name} is gone"),
        consequence: "the conversation has its beginning only, and nothing can read the rest",
    });
    let findings: Vec<Finding> = findings.collect();
    checkup.total += findings.len();
    checkup.findings.extend(findings);
    checkup.findings.sort_by_key(|finding| (finding.line.unwrap_or(usize::MAX), finding.kind));
}

/// The name of the file that a text points to: what follows the folder, up to where the path ends.
fn name_after(text: &[u8]) -> Option<String> {
    const LONGEST: usize = 255;
    let head = &text[..text.len().min(STANDS_FOR.len() + 8192)];
    let name = &head[memmem::find(head, FOLDER)? + FOLDER.len()..];
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let name: Vec<u8> = name.iter().copied().take_while(plain).take(LONGEST).collect();
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}
