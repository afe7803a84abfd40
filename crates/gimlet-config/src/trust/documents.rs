//! Skills, agents and commands of a project that are more than text for the model: they run a command while they are
//! read, include hooks or servers, or grant tools.

use std::path::Path;

use gimlet_fs::read_inside;
use serde_json::Value;

use super::item_collector::ProjectFolders;
use super::project_item::{DigestBuilder, ProjectItem, ProjectItemKind};
use super::referenced_scripts::{self, ScriptRoots};

const DOCUMENT_MAX_BYTES: u64 = 1024 * 1024;
/// Maximum depth of folders, and number of files; a larger tree is no plausible set of skills.
const MAX_DEPTH: usize = 6;
const MAX_FILES: usize = 2_000;

/// Front matter keys that make a document more than text.
const ACTING_KEYS: [&str; 6] = ["hooks", "mcpServers", "allowed-tools", "allowedTools", "permissionMode", "lspServers"];

/// Files of a plugin (a skill's folder with a manifest) that name what runs.
const PLUGIN_FILES: [&str; 5] =
    [".claude-plugin/plugin.json", "hooks/hooks.json", ".mcp.json", ".lsp.json", "monitors/monitors.json"];

/// Adds the documents in the `.claude` of one folder.
pub(super) fn collect_documents(project: &ProjectFolders<'_>, folder: &Path, items: &mut Vec<ProjectItem>) {
    for (name, kind) in
        [("skills", ProjectItemKind::Skill), ("agents", ProjectItemKind::Agent), ("commands", ProjectItemKind::Command)]
    {
        let mut budget = MAX_FILES;
        walk_folder(project, &folder.join(".claude").join(name), kind, MAX_DEPTH, &mut budget, items);
    }
}

fn walk_folder(
    project: &ProjectFolders<'_>,
    folder: &Path,
    kind: ProjectItemKind,
    depth: usize,
    budget: &mut usize,
    items: &mut Vec<ProjectItem>,
) {
    // A folder that is missing or cannot be listed has no documents that could act.
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
                walk_folder(project, &path, kind, depth - 1, budget, items);
            }
        } else if is_json(&path) || path.extension().is_some_and(|extension| extension == "md") {
            *budget -= 1;
            items.extend(read_document_item(project, &path, kind));
        }
    }
}

fn read_document_item(project: &ProjectFolders<'_>, path: &Path, kind: ProjectItemKind) -> Option<ProjectItem> {
    let bytes = read_inside(project.root, path, DOCUMENT_MAX_BYTES).ok().flatten()?;
    document_item(project, path, kind, &bytes)
}

/// Returns the item for a document with this content; `None` for one that is only text.
fn document_item(
    project: &ProjectFolders<'_>,
    path: &Path,
    kind: ProjectItemKind,
    bytes: &[u8],
) -> Option<ProjectItem> {
    let name = path.strip_prefix(project.root).unwrap_or(path).to_string_lossy().into_owned();
    let text = String::from_utf8_lossy(bytes);
    let line = first_active_line(path, &text)?;
    let content = DigestBuilder::new(kind).add_part(name.as_bytes()).add_part(bytes);
    let (content, scripts) =
        ScriptRoots::for_document(project, path).add_scripts(content, &executable_content(path, &text));
    Some(ProjectItem {
        kind,
        digest: content.finish(),
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

/// Returns the first line that makes a document more than text; `None` if there is none.
fn first_active_line(path: &Path, text: &str) -> Option<usize> {
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
        let acts = if in_front_matter { speaks_of_acting() } else { has_inline_command(line) };
        if acts {
            return Some(at + 1);
        }
    }
    None
}

/// Returns true if a line has an inline command, or opens a block of them.
fn has_inline_command(line: &str) -> bool {
    line.contains("!`") || line.trim_start().starts_with("```!")
}

/// Returns all that a document could run: everything in a plugin's file, and of other documents their front matter and
/// the commands in their text.
fn executable_content(path: &Path, text: &str) -> Value {
    if is_json(path) {
        // Text that is not JSON is searched as it is.
        return serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    }
    let (front_matter, body) = split_front_matter(text);
    Value::from_iter(active_front_matter_lines(front_matter).map(str::to_owned).chain(inline_commands(body)))
}

/// Splits a text into its front matter and the rest.
fn split_front_matter(text: &str) -> (&str, &str) {
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
    // Front matter without an end is the whole text.
    (text, "")
}

/// Returns the lines of front matter without those below a descriptive key.
fn active_front_matter_lines(front_matter: &str) -> impl Iterator<Item = &str> {
    let mut speaks = false;
    front_matter.lines().filter(move |line| {
        if !line.starts_with([' ', '\t', '-', '#'])
            && let Some((key, _)) = line.split_once(':')
        {
            speaks = referenced_scripts::is_descriptive_key(key.trim().trim_matches(['"', '\'']));
        }
        !speaks
    })
}

/// Returns the commands of a text: those between `!` and backticks in its lines, and the lines of command blocks.
fn inline_commands(text: &str) -> Vec<String> {
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
