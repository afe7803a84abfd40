//! Skills, agents and commands of a project that could do more than speak to the model: run a command while they are
//! read, bring hooks or servers along, or grant tools.

use std::path::Path;

use serde_json::Value;

use super::collect::Project;
use super::item::{Content, Item, ItemKind};
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
        } else if path.extension().is_some_and(|extension| extension == "md" || extension == "json") {
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
pub(super) fn item_of(project: &Project<'_>, path: &Path, kind: ItemKind, bytes: &[u8]) -> Option<Item> {
    let name = path.strip_prefix(project.root).unwrap_or(path).to_string_lossy().into_owned();
    let text = String::from_utf8_lossy(bytes);
    let line = acting_line(path, &text)?;
    let content = Content::new(kind).part(name.as_bytes()).part(bytes);
    // Whoever changes a script that a document runs changes what the document does.
    let (content, scripts) = project.with_scripts(content, &Value::from(commands_in(&text)), path.parent());
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

/// The first line by which a document does more than speak.
fn acting_line(path: &Path, text: &str) -> Option<usize> {
    if path.extension().is_some_and(|extension| extension == "json") {
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
