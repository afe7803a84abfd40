//! Skills, agents and commands of a project that could do more than speak to the model: run a command while they are
//! read, bring hooks or servers along, or grant tools.

use std::path::Path;

use serde_json::Value;

use super::collect::Project;
use super::item::{Content, Item, ItemKind};
use super::scripts::{self, Ground};
use crate::files;

const DOCUMENT_MAX_BYTES: u64 = 1024 * 1024;
/// Folders inside folders, and files altogether; a tree larger than this is not somebody's set of skills.
const MAX_DEPTH: usize = 6;
const MAX_FILES: usize = 2_000;

/// Front matter that brings something that acts.
const ACTING_KEYS: [&str; 6] = ["hooks", "mcpServers", "allowed-tools", "allowedTools", "permissionMode", "lspServers"];

/// A skill's folder with a manifest is a plugin; these files of it name what runs.
const PLUGIN_FILES: [&str; 5] =
    [".claude-plugin/plugin.json", "hooks/hooks.json", ".mcp.json", ".lsp.json", "monitors/monitors.json"];

/// Adds what stands in the `.claude` of one folder.
pub(super) fn collect(project: &Project<'_>, folder: &Path, items: &mut Vec<Item>) {
    for (name, kind) in [("skills", ItemKind::Skill), ("agents", ItemKind::Agent), ("commands", ItemKind::Command)] {
        let mut budget = MAX_FILES;
        walk(project, &folder.join(".claude").join(name), kind, MAX_DEPTH, &mut budget, items);
    }
}

fn walk(project: &Project<'_>, folder: &Path, kind: ItemKind, depth: usize, budget: &mut usize, items: &mut Vec<Item>) {
    // Nothing there, or nothing that can be listed: then nothing of it can act either.
    let Ok(entries) = folder.read_dir() else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if *budget == 0 {
            return;
        }
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_dir() {
            if depth > 0 {
                walk(project, &path, kind, depth - 1, budget, items);
            }
        } else if is_json(&path) || path.extension().is_some_and(|extension| extension == "md") {
            *budget -= 1;
            items.extend(document(project, &path, kind));
        }
    }
}

fn document(project: &Project<'_>, path: &Path, kind: ItemKind) -> Option<Item> {
    let bytes = files::read_inside(project.root, path, DOCUMENT_MAX_BYTES).ok().flatten()?;
    item_of(project, path, kind, &bytes)
}

/// The item that a document with this content is; nothing for one that only speaks.
fn item_of(project: &Project<'_>, path: &Path, kind: ItemKind, bytes: &[u8]) -> Option<Item> {
    let name = path.strip_prefix(project.root).unwrap_or(path).to_string_lossy().into_owned();
    let text = String::from_utf8_lossy(bytes);
    let line = acting_line(path, &text)?;
    let content = Content::new(kind).part(name.as_bytes()).part(bytes);
    let (content, scripts) = Ground::of_document(project, path).follow(content, &commands(path, &text));
    Some(Item {
        kind,
        digest: content.digest(),
        name,
        text: text.into_owned(),
        file: path.to_owned(),
        line: Some(line),
        executes: true,
        scripts,
        own: false,
        place: None,
    })
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// The first line by which a document does more than speak.
fn acting_line(path: &Path, text: &str) -> Option<usize> {
    if is_json(path) {
        return PLUGIN_FILES.iter().any(|name| path.ends_with(name)).then_some(1);
    }
    let mut in_front_matter = false;
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        if line.trim_end() == "---" {
            in_front_matter = at == 0;
            continue;
        }
        // YAML can spell a key in many ways; a word too many only asks once more than needed.
        let speaks_of_acting = || line.contains('\\') || ACTING_KEYS.iter().any(|key| line.contains(key));
        let acts = if in_front_matter { speaks_of_acting() } else { runs_a_command(line) };
        if acts {
            return Some(at + 1);
        }
    }
    None
}

/// Whether a line has an inline command, or opens a block of them.
fn runs_a_command(line: &str) -> bool {
    line.contains("!`") || line.trim_start().starts_with("```!")
}

/// All that a document could run: everything in a plugin's file, and of other documents their front matter and the
/// commands in their text.
fn commands(path: &Path, text: &str) -> Value {
    if is_json(path) {
        // What is no JSON is looked through as it stands.
        return serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    }
    let (front_matter, body) = parts(text);
    Value::from_iter(acting_lines(front_matter).map(str::to_owned).chain(commands_in(body)))
}

/// Front matter and what follows it.
fn parts(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches('\u{feff}');
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_border = line.trim_end() == "---";
        match (number, is_border) {
            (0, false) => return ("", text),
            (1.., true) => return (&text[..at], &text[at + line.len()..]),
            _ => at += line.len(),
        }
    }
    // Front matter that does not end is all there is.
    (text, "")
}

/// The lines of front matter without those below a key that only speaks.
fn acting_lines(front_matter: &str) -> impl Iterator<Item = &str> {
    let mut speaks = false;
    front_matter.lines().filter(move |line| {
        if !line.starts_with([' ', '\t', '-', '#'])
            && let Some((key, _)) = line.split_once(':')
        {
            speaks = scripts::only_speaks(key.trim().trim_matches(['"', '\'']));
        }
        !speaks
    })
}

/// The commands of a text: those between `!` and backticks in its lines, and the lines of blocks of them.
fn commands_in(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        let start = line.trim_start();
        if start.starts_with("```") {
            in_block = start.starts_with("```!");
            commands.extend(start.strip_prefix("```!").map(str::to_owned));
        } else if in_block {
            commands.push(line.to_owned());
        } else {
            commands.extend(line.split("!`").skip(1).filter_map(|rest| rest.split('`').next()).map(str::to_owned));
        }
    }
    commands
}
