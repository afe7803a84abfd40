//! The file of earlier prompts, `history.jsonl`, one line for each.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use gimlet_app::ProcessEnv;
use gimlet_proto::PromptHistoryEntry;
use gimlet_tui::services::PromptScope;
use serde::{Deserialize, Serialize};

/// Prompts that are offered.
const MAX_ENTRIES: usize = 1000;
/// Bytes of the file's end that are read.
const MAX_BYTES: u64 = 8 << 20;
/// A longer pasted text is not kept.
const MAX_PASTED: usize = 100_000;

/// The file, and the folder whose prompts are added.
#[derive(Clone, Debug)]
pub(super) struct PromptHistoryFile {
    path: PathBuf,
    project: String,
    /// False if nothing may be kept.
    is_kept: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HistoryLine {
    display: String,
    #[serde(default)]
    pasted_contents: BTreeMap<String, PastedContent>,
    #[serde(default)]
    timestamp: i64,
    #[serde(default)]
    project: String,
}

#[derive(Serialize, Deserialize)]
struct PastedContent {
    id: u64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    content: Option<String>,
}

impl PromptHistoryFile {
    pub(super) fn new(around: &ProcessEnv) -> Self {
        Self {
            path: around.config_home.join("history.jsonl"),
            project: around.cwd.to_string_lossy().into_owned(),
            is_kept: !around.env.flag("CLAUDE_CODE_SKIP_PROMPT_HISTORY"),
        }
    }

    /// Adds a prompt. A file that cannot be written loses the convenience, not the prompt.
    pub(super) fn append(&self, entry: &PromptHistoryEntry) {
        if !self.is_kept {
            return;
        }
        let content = |(number, text): &(u64, String)| {
            let content = PastedContent { id: *number, kind: "text".to_owned(), content: Some(text.clone()) };
            (number.to_string(), content)
        };
        let line = HistoryLine {
            display: entry.text.clone(),
            pasted_contents: entry.pasted.iter().filter(|(_, text)| text.len() <= MAX_PASTED).map(content).collect(),
            timestamp: entry.at_ms,
            project: self.project.clone(),
        };
        let Ok(mut text) = serde_json::to_string(&line) else { return };
        text.push('\n');
        let opened = self
            .path
            .parent()
            .map_or(Ok(()), gimlet_store::create_private_dirs)
            .and_then(|()| std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path));
        drop(opened.and_then(|mut file| file.write_all(text.as_bytes())));
    }

    /// Returns the newest prompts, oldest first. Damaged lines are left out.
    pub(super) fn read(&self, scope: PromptScope) -> Vec<PromptHistoryEntry> {
        let Ok(text) = read_end(&self.path) else { return Vec::new() };
        let lines = text.lines().rev().filter_map(|line| serde_json::from_str::<HistoryLine>(line).ok());
        let wanted = lines.filter(|line| scope == PromptScope::Everywhere || line.project == self.project);
        let mut entries: Vec<PromptHistoryEntry> = wanted.take(MAX_ENTRIES).map(into_entry).collect();
        entries.reverse();
        entries
    }
}

fn into_entry(line: HistoryLine) -> PromptHistoryEntry {
    let pasted = line.pasted_contents.into_values().filter_map(|pasted| Some((pasted.id, pasted.content?))).collect();
    PromptHistoryEntry { text: line.display, pasted, at_ms: line.timestamp }
}

fn read_end(path: &PathBuf) -> std::io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_kept_by_folder_and_damaged_lines_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let file = |project: &str| PromptHistoryFile {
            path: folder.path().join("history.jsonl"),
            project: project.to_owned(),
            is_kept: true,
        };
        let entry =
            |text: &str| PromptHistoryEntry { text: text.to_owned(), pasted: vec![(1, "pasted".to_owned())], at_ms: 7 };
        file("/a").append(&entry("one"));
        let mut raw = std::fs::OpenOptions::new().append(true).open(folder.path().join("history.jsonl")).unwrap();
        raw.write_all(b"{broken\n{\"display\":\"by another\",\"project\":\"/b\"}\n").unwrap();
        file("/a").append(&entry("two"));
        let texts = |entries: Vec<PromptHistoryEntry>| entries.into_iter().map(|entry| entry.text).collect::<Vec<_>>();
        assert_eq!(texts(file("/a").read(PromptScope::Folder)), ["one", "two"]);
        assert_eq!(texts(file("/a").read(PromptScope::Everywhere)), ["one", "by another", "two"]);
        assert_eq!(file("/a").read(PromptScope::Folder)[0].pasted, [(1, "pasted".to_owned())]);
    }
}
