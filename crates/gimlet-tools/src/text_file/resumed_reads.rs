//! A resumed conversation's knowledge of a file, from the calls of earlier runs.
//!
//! The transcript records what the model was shown and what it wrote; comparing that with the file's present lines
//! shows if it still holds. So a session of any program that keeps such transcripts can be resumed without further
//! records. Evaluated for one file when that file is about to change, never before.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gimlet_core::PastCalls;
use gimlet_core::tool::PathContext;
use gimlet_policy::shell::analyse;
use gimlet_proto::{DiffHunk, ToolUseParts};
use serde::Deserialize;

use super::read_state::{ReadState, covers};

/// Commands that print a file whole.
const PRINTERS: [&str; 4] = ["cat ", "nl ", "bat ", "batcat "];

/// Index of past calls by file; built once in a session.
#[derive(Default)]
pub(crate) struct ResumedReads(OnceLock<HashMap<PathBuf, Vec<String>>>);

impl ResumedReads {
    /// Returns the extent of the model's knowledge of a file's present content, from its calls in earlier runs.
    pub(crate) fn read_state(&self, past: &PastCalls, paths: &PathContext, target: &Path, text: &str) -> ReadState {
        let calls = self.0.get_or_init(|| index(past, paths));
        let mut knowledge = ReplayedContent::default();
        for call in calls.get(target).into_iter().flatten() {
            if let Some(output) = past.output::<PastOutput>(call) {
                knowledge.learn(output);
            }
        }
        knowledge.read_state(&text.lines().collect::<Vec<_>>())
    }
}

/// Returns the ids of the calls about each file, oldest first.
fn index(past: &PastCalls, paths: &PathContext) -> HashMap<PathBuf, Vec<String>> {
    let mut calls: Vec<(PathBuf, String)> =
        past.latest_first().filter_map(|call| Some((file_of(&call, paths)?, call.id.into_owned()))).collect();
    calls.reverse();
    let mut index: HashMap<PathBuf, Vec<String>> = HashMap::new();
    let mut real: HashMap<PathBuf, PathBuf> = HashMap::new();
    for (path, call) in calls {
        // A file that is gone needs no entry: there is nothing to change in it.
        let Some(target) = real.get(&path).cloned().or_else(|| path.canonicalize().ok()) else { continue };
        real.insert(path, target.clone());
        index.entry(target).or_default().push(call);
    }
    index
}

/// Returns the file that a call is about, by the tools' names in transcripts.
fn file_of(call: &ToolUseParts<'_>, paths: &PathContext) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct PastCallInput {
        file_path: Option<String>,
        command: Option<String>,
    }
    if !matches!(&*call.name, "Read" | "Edit" | "Write" | "Bash") {
        return None;
    }
    let input: PastCallInput = serde_json::from_str(call.input.get()).ok()?;
    match &*call.name {
        "Bash" => {
            let command = input.command?;
            if !PRINTERS.iter().any(|name| command.starts_with(name)) {
                return None;
            }
            analyse(&command, &paths.shell_facts()).view_of_file
        }
        _ => Some(paths.expand_path(Path::new(&input.file_path?))),
    }
}

/// Output of a past call, as far as it shows a file's content. Distinguished by members; the order matters.
#[derive(Deserialize)]
#[serde(untagged)]
enum PastOutput {
    Page { file: PastPage },
    Written { content: String },
    Edited(PastEdit),
    Printed { stdout: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PastPage {
    content: String,
    num_lines: usize,
    start_line: usize,
    total_lines: usize,
    #[serde(default)]
    truncated_by_token_cap: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PastEdit {
    original_file: Option<String>,
    structured_patch: Vec<DiffHunk>,
}

/// State derived from replaying a file's calls in order.
#[derive(Debug, Default)]
struct ReplayedContent {
    /// All lines, when they are known.
    text: Option<Vec<String>>,
    /// The model has seen them all.
    is_seen: bool,
    /// Lines seen in places, while `text` is not known.
    parts: Vec<SeenLines>,
    /// A first page was seen.
    has_first_page: bool,
}

#[derive(Debug)]
struct SeenLines {
    /// From 0.
    first: usize,
    lines: Vec<String>,
}

impl SeenLines {
    fn matches_lines<T: AsRef<str>>(&self, lines: &[T]) -> bool {
        lines.get(self.first..self.first + self.lines.len()).is_some_and(|there| are_same_lines(there, &self.lines))
    }
}

fn are_same_lines<A: AsRef<str>, B: AsRef<str>>(a: &[A], b: &[B]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.as_ref() == b.as_ref())
}

fn owned_lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

impl ReplayedContent {
    fn learn(&mut self, output: PastOutput) {
        match output {
            // Only the first page of a larger file: the notice asked the model to read on.
            PastOutput::Page { file } if file.truncated_by_token_cap => self.has_first_page = true,
            PastOutput::Page { file } => self.learn_page(&file),
            PastOutput::Written { content } => self.learn_all(owned_lines(&content)),
            PastOutput::Edited(edit) => self.learn_edit(edit),
            PastOutput::Printed { stdout } => {
                let bare = strip_line_numbers(&stdout);
                self.learn_all(owned_lines(bare.as_deref().unwrap_or(&stdout)));
            }
        }
    }

    fn learn_all(&mut self, lines: Vec<String>) {
        *self = Self { text: Some(lines), is_seen: true, ..Self::default() };
    }

    fn learn_page(&mut self, page: &PastPage) {
        let shown = page.content.split('\n').take(page.num_lines);
        let lines: Vec<String> = shown.map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned()).collect();
        if page.start_line <= 1 && page.num_lines == page.total_lines {
            return self.learn_all(lines);
        }
        // A range behind the end showed nothing.
        if lines.is_empty() {
            return;
        }
        let part = SeenLines { first: page.start_line.saturating_sub(1), lines };
        match &self.text {
            Some(text) if part.matches_lines(text) => {}
            // The file had changed meanwhile: what was known before is old.
            Some(_) => *self = Self { parts: vec![part], ..Self::default() },
            None => self.parts.push(part),
        }
    }

    fn learn_edit(&mut self, edit: PastEdit) {
        let before = match (edit.original_file.as_deref().map(owned_lines), self.text.take()) {
            (Some(original), known) => {
                self.is_seen &= known.is_some_and(|known| are_same_lines(&known, &original));
                Some(original)
            }
            (None, known) => known,
        };
        self.text = before.and_then(|before| patched(before, &edit.structured_patch));
        self.is_seen &= self.text.is_some();
        // Line numbers of before do not hold behind an edit; its own do.
        self.parts = edit.structured_patch.iter().map(lines_after_hunk).collect();
    }

    fn read_state(&self, now: &[&str]) -> ReadState {
        match &self.text {
            Some(text) if !are_same_lines(text, now) => ReadState::Stale,
            Some(_) if self.is_seen => ReadState::Whole,
            Some(_) => ReadState::Parts,
            None if self.parts.is_empty() && self.has_first_page => ReadState::FirstPage,
            None if self.parts.is_empty() => ReadState::Unread,
            None if !self.parts.iter().all(|part| part.matches_lines(now)) => ReadState::Stale,
            None => {
                let spans =
                    self.parts.iter().map(|part| (part.first as u64 + 1, (part.first + part.lines.len()) as u64 + 1));
                if covers(spans.collect(), now.len() as u64) { ReadState::Whole } else { ReadState::Parts }
            }
        }
    }
}

/// Returns the lines that a hunk leaves, and their position.
fn lines_after_hunk(hunk: &DiffHunk) -> SeenLines {
    let left = hunk.lines.iter().filter(|line| line.starts_with([' ', '+'])).map(|line| line[1..].to_owned());
    SeenLines { first: hunk.new_start.saturating_sub(1), lines: left.collect() }
}

/// Returns `lines` with the hunks applied; `None` when they do not fit.
fn patched(mut lines: Vec<String>, hunks: &[DiffHunk]) -> Option<Vec<String>> {
    for hunk in hunks.iter().rev() {
        let from = hunk.old_start.saturating_sub(1);
        let there = lines.get(from..from.checked_add(hunk.old_lines)?)?;
        let replaced = hunk.lines.iter().filter(|line| line.starts_with([' ', '-'])).map(|line| &line[1..]);
        if !there.iter().map(String::as_str).eq(replaced) {
            return None;
        }
        lines.splice(from..from + hunk.old_lines, lines_after_hunk(hunk).lines);
    }
    Some(lines)
}

/// Returns the text of `cat -n` and `nl -ba`; `None` when a line has no number.
fn strip_line_numbers(printed: &str) -> Option<String> {
    let line = |line: &str| {
        let (number, rest) = line.split_once('\t')?;
        number.trim_start().parse::<u64>().ok()?;
        Some(format!("{rest}\n"))
    };
    printed.lines().map(line).collect()
}

#[cfg(test)]
#[path = "recalled_tests.rs"]
mod recalled_tests;
