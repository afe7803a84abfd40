//! Completion of what is being typed: commands after `/`, files and agents after `@`. Files come from outside; what comes
//! for an older text is ignored.

use std::ops::Range;

use gimlet_proto::{AgentSummary, CommandInfo};

use super::edit_buffer::EditBuffer;
use crate::fuzzy_match::rank_match;
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{clean_line, display_width, truncate_line};

/// Rows that are shown at once.
const MAX_ROWS: usize = 8;
/// Columns of names.
const MAX_NAME: usize = 36;
/// Folders that are offered beside files.
const MAX_FOLDERS: usize = 3;

/// What is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionKind {
    Command,
    Mention,
}

/// Something to complete in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CompletionTarget {
    kind: CompletionKind,
    /// What is replaced, with its `/` or `@`.
    range: Range<usize>,
    query: String,
}

/// One completion.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CompletionRow {
    /// As it is shown.
    label: String,
    hint: String,
    detail: String,
    /// What takes the place of the target.
    insert: String,
    is_folder: bool,
}

/// Completions and the data that they come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompletionList {
    commands: Vec<CommandInfo>,
    agents: Vec<AgentSummary>,
    /// Paths from the last request, relative to the working directory.
    files: Vec<String>,
    generation: u64,
    target: Option<CompletionTarget>,
    rows: Vec<CompletionRow>,
    selected: usize,
    /// Start of a target that the user sent away.
    dismissed: Option<usize>,
}

impl CompletionList {
    pub(crate) fn set_commands(&mut self, commands: Vec<CommandInfo>) {
        self.commands = commands;
    }

    pub(crate) fn set_agents(&mut self, agents: Vec<AgentSummary>) {
        self.agents = agents;
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Finds what is completed at the cursor. Returns the query and its number if files are wanted from outside.
    pub(crate) fn update(&mut self, buffer: &EditBuffer) -> Option<(String, u64)> {
        let target = find_target(buffer);
        if target == self.target {
            return None;
        }
        let is_same_place = match (&target, &self.target) {
            (Some(new), Some(old)) => new.kind == old.kind && new.range.start == old.range.start,
            _ => false,
        };
        if !is_same_place {
            self.dismissed = None;
            self.files.clear();
        }
        self.target = target;
        self.selected = 0;
        self.fill();
        match &self.target {
            Some(target) if target.kind == CompletionKind::Mention && self.dismissed.is_none() => {
                self.generation += 1;
                Some((target.query.trim_start_matches('"').to_owned(), self.generation))
            }
            _ => None,
        }
    }

    /// Takes files for a query; those for an older one are ignored.
    pub(crate) fn set_files(&mut self, generation: u64, files: Vec<String>) {
        if generation == self.generation {
            self.files = files;
            self.fill();
            self.selected = 0;
        }
    }

    fn fill(&mut self) {
        self.rows.clear();
        let Some(target) = &self.target else { return };
        if self.dismissed == Some(target.range.start) {
            return;
        }
        match target.kind {
            CompletionKind::Command => self.rows = command_rows(&self.commands, &target.query),
            CompletionKind::Mention => {
                let query = target.query.trim_start_matches('"');
                self.rows = agent_rows(&self.agents, query);
                self.rows.extend(folder_rows(&self.files, query));
                // Files of the query before are shown until the next ones are here.
                let is_fit = |file: &&String| query.is_empty() || rank_match(file, query).is_some();
                self.rows.extend(self.files.iter().filter(is_fit).map(|file| file_row(file, false)));
            }
        }
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
    }

    pub(crate) fn select_next(&mut self) {
        self.selected = if self.selected + 1 >= self.rows.len() { 0 } else { self.selected + 1 };
    }

    pub(crate) fn select_previous(&mut self) {
        self.selected = if self.selected == 0 { self.rows.len().saturating_sub(1) } else { self.selected - 1 };
    }

    /// Forgets what is completed.
    pub(crate) fn close(&mut self) {
        self.target = None;
        self.rows.clear();
        self.dismissed = None;
    }

    /// Offers nothing more for what is being typed.
    pub(crate) fn dismiss(&mut self) {
        self.dismissed = self.target.as_ref().map(|target| target.range.start);
        self.rows.clear();
    }

    /// Returns the range to replace, the text that takes its place and what is completed.
    pub(crate) fn accept(&mut self) -> Option<(Range<usize>, String, CompletionKind)> {
        let row = self.rows.get(self.selected)?;
        let target = self.target.as_ref()?;
        let end = if row.is_folder { "/" } else { " " };
        let (range, kind) = (target.range.clone(), target.kind);
        Some((range, format!("{}{end}", row.insert), kind))
    }

    /// Returns the arguments of the command that a text consists of, for a hint behind it.
    pub(crate) fn argument_hint(&self, text: &str) -> Option<&str> {
        let name = text.strip_prefix('/')?.trim_end_matches(' ');
        let command = self.commands.iter().find(|command| command.names().any(|known| known == name))?;
        if command.argument_hint.is_empty() { None } else { Some(&command.argument_hint) }
    }

    pub(crate) fn render(&self, context: &RenderContext<'_>) -> Vec<StyledLine> {
        let count = self.rows.len();
        let first = (self.selected + 1).saturating_sub(MAX_ROWS).min(count.saturating_sub(MAX_ROWS));
        let name_width = |row: &CompletionRow| {
            display_width(&row.label) + if row.hint.is_empty() { 0 } else { display_width(&row.hint) + 1 }
        };
        let widest = self.rows.iter().skip(first).take(MAX_ROWS).map(name_width).max().unwrap_or(0);
        let column = widest.min(MAX_NAME);
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate().skip(first).take(MAX_ROWS) {
            let is_selected = index == self.selected;
            let pointer = if is_selected { context.glyphs.pointer } else { " " };
            let mut line = StyledLine::of(format!("{pointer} "), TextTone::Accent);
            let style = if is_selected { TextStyle::of(TextTone::Accent).bold() } else { TextTone::Text.into() };
            line.push(clean_line(&row.label), style);
            if !row.hint.is_empty() {
                line.push(format!(" {}", clean_line(&row.hint)), TextTone::Dim);
            }
            if !row.detail.is_empty() {
                let gap = column.saturating_sub(name_width(row)) + 2;
                line.push(" ".repeat(gap), TextTone::Text);
                line.push(clean_line(&row.detail), TextTone::Dim);
            }
            lines.push(truncate_line(&line, context.width));
        }
        let below = count.saturating_sub(first + MAX_ROWS);
        if below > 0 {
            let line = StyledLine::of(format!("  {below} more {}", context.glyphs.down), TextTone::Dim);
            lines.push(truncate_line(&line, context.width));
        }
        lines
    }
}

/// Returns what stands at the cursor to be completed: a command at the very start, or a name behind `@`.
fn find_target(buffer: &EditBuffer) -> Option<CompletionTarget> {
    let (text, cursor) = (buffer.text(), buffer.cursor());
    let before = text.get(..cursor)?;
    if let Some(query) = before.strip_prefix('/')
        && !query.contains(char::is_whitespace)
        && !query.contains('/')
    {
        let end = text.get(cursor..)?.find(char::is_whitespace).map_or(text.len(), |at| cursor + at);
        return Some(CompletionTarget { kind: CompletionKind::Command, range: 0..end, query: query.to_owned() });
    }
    let at = before.rfind('@')?;
    let starts_word = before
        .get(..at)?
        .chars()
        .next_back()
        .is_none_or(|char| char.is_whitespace() || matches!(char, ',' | ';' | '"' | '\'' | '`' | '(' | '[' | '{'));
    let query = before.get(at + 1..)?;
    let is_open = match query.strip_prefix('"') {
        Some(quoted) => !quoted.contains(['"', '\n']),
        None => !query.contains(|char: char| char.is_whitespace() || matches!(char, ',' | ';' | '"')),
    };
    if !starts_word || !is_open {
        return None;
    }
    Some(CompletionTarget { kind: CompletionKind::Mention, range: at..cursor, query: query.to_owned() })
}

fn command_rows(commands: &[CommandInfo], query: &str) -> Vec<CompletionRow> {
    let mut found: Vec<_> = commands
        .iter()
        .filter_map(|command| {
            let best = command.names().filter_map(|name| Some((rank_match(name, query)?, name))).min()?;
            Some((best, command))
        })
        .collect();
    found.sort_by(|one, two| one.0.0.cmp(&two.0.0).then_with(|| one.1.name.cmp(&two.1.name)));
    let row = |((_, matched), command): ((_, &str), &CommandInfo)| {
        let is_alias = matched != command.name && !query.is_empty();
        let label = if is_alias { format!("/{} ({matched})", command.name) } else { format!("/{}", command.name) };
        CompletionRow {
            label,
            hint: command.argument_hint.clone(),
            detail: command.description.clone(),
            insert: format!("/{}", command.name),
            is_folder: false,
        }
    };
    found.into_iter().map(row).collect()
}

fn agent_rows(agents: &[AgentSummary], query: &str) -> Vec<CompletionRow> {
    let wanted = query.strip_prefix("agent-").unwrap_or(query);
    if wanted.is_empty() && query.is_empty() {
        return Vec::new();
    }
    let fits = |agent: &&AgentSummary| rank_match(&agent.name, wanted).is_some_and(|rank| rank.0 <= 2);
    let row = |agent: &AgentSummary| {
        let is_plain = !agent.name.contains(char::is_whitespace);
        let name = &agent.name;
        CompletionRow {
            label: format!("{name} (agent)"),
            hint: String::new(),
            detail: agent.description.clone(),
            insert: if is_plain { format!("@agent-{name}") } else { format!("@\"{name} (agent)\"") },
            is_folder: false,
        }
    };
    agents.iter().filter(fits).map(row).collect()
}

/// Returns the folders of these files whose names begin with the last part of a query.
fn folder_rows(files: &[String], query: &str) -> Vec<CompletionRow> {
    let (above, name) = query.rsplit_once('/').unwrap_or(("", query));
    if name.is_empty() {
        return Vec::new();
    }
    let mut folders: Vec<&str> = Vec::new();
    for file in files {
        for (at, _) in file.match_indices('/') {
            let folder = file.get(..at).unwrap_or_default();
            let last = folder.rsplit('/').next().unwrap_or_default();
            let is_below = above.is_empty() || folder.to_lowercase().starts_with(&above.to_lowercase());
            let is_fit = last.to_lowercase().starts_with(&name.to_lowercase()) && is_below;
            if is_fit && folders.len() < MAX_FOLDERS && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    folders.sort_by_key(|folder| folder.len());
    folders.into_iter().map(|folder| file_row(folder, true)).collect()
}

fn file_row(path: &str, is_folder: bool) -> CompletionRow {
    let needs_quotes = path.contains(|char: char| char.is_whitespace() || matches!(char, ',' | ';'));
    // A quoted folder is not closed, so that its files can follow.
    let insert = match (needs_quotes, is_folder) {
        (true, false) => format!("@\"{path}\""),
        (true, true) => format!("@\"{path}"),
        (false, _) => format!("@{path}"),
    };
    let label = if is_folder { format!("{path}/") } else { path.to_owned() };
    CompletionRow { label, hint: String::new(), detail: String::new(), insert, is_folder }
}
