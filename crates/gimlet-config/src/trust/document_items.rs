//! Documents of a project as items: skills, agents and commands that are more than text for the model (they run a
//! command while they are read, include hooks or servers, or grant tools), and memory that leads out of the project.

use std::path::Path;

use serde_json::Value;

use super::item_collector::ProjectFolders;
use super::project_item::{DigestBuilder, ProjectItem, ProjectItemKind};
use super::referenced_scripts::{self, ScriptRoots};
use crate::documents::{self, DocumentContent};

/// Front matter keys that make a document more than text, without the marks in which their spellings differ.
const ACTING_KEYS: [&str; 5] = ["hooks", "mcpservers", "allowedtools", "permissionmode", "lspservers"];

/// Files of a plugin (a skill's folder with a manifest) that name what runs.
const PLUGIN_FILES: [&str; 5] =
    [".claude-plugin/plugin.json", "hooks/hooks.json", ".mcp.json", ".lsp.json", "monitors/monitors.json"];

/// Returns the item for a file of the project's memory that leads to a file or folder outside of it.
pub(crate) fn import_item(root: &Path, file: &Path, target: &Path) -> ProjectItem {
    let kind = ProjectItemKind::MemoryImport;
    let source = file.strip_prefix(root).unwrap_or(file);
    let name = format!("{} of {}", target.display(), source.display());
    let content = DigestBuilder::new(kind)
        .add_part(source.as_os_str().as_encoded_bytes())
        .add_part(target.as_os_str().as_encoded_bytes());
    ProjectItem {
        kind,
        digest: content.finish(),
        text: format!("{} brings {} before the model", source.display(), target.display()),
        name,
        file: file.to_owned(),
        line: None,
        // It sends a file of the user's, which trust that another program recorded does not cover.
        executes: true,
        scripts: Vec::new(),
        own: false,
        place: None,
        server: None,
    }
}

/// Returns the item for a document below `border`, the project or a folder that was added; `None` for one that is only
/// text.
pub(crate) fn document_item(
    project: &ProjectFolders<'_>,
    border: &Path,
    path: &Path,
    kind: ProjectItemKind,
    document: &DocumentContent,
) -> Option<ProjectItem> {
    let name = path.strip_prefix(project.root).unwrap_or(path).to_string_lossy().into_owned();
    let bytes = document.bytes();
    let text = String::from_utf8_lossy(bytes);
    let line = first_active_line(path, &text)?;
    let content = DigestBuilder::new(kind).add_part(name.as_bytes()).add_part(bytes);
    let commands = executable_content(path, &text);
    let (mut content, mut scripts) = (content, Vec::new());
    // Most documents grant tools and run nothing, so there is nothing to look for in the file system.
    if names_anything(&commands) {
        (content, scripts) = ScriptRoots::for_document(project, path).add_scripts(content, &commands);
        if border != project.root {
            let added = ProjectFolders { root: border, cwd: border, home: project.home };
            let (more, found) = ScriptRoots::for_document(&added, path).add_scripts(content, &commands);
            content = more;
            scripts.extend(found);
        }
    }
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
        server: None,
    })
}

/// Returns false if what a document could run is only the border of its front matter.
fn names_anything(commands: &Value) -> bool {
    let is_empty = |text: &str| text.chars().all(|char| char == '-' || char.is_whitespace());
    !commands.as_array().is_some_and(|lines| lines.iter().all(|line| line.as_str().is_some_and(is_empty)))
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// Returns the first line that makes a document more than text; `None` if there is none.
fn first_active_line(path: &Path, text: &str) -> Option<usize> {
    if is_json(path) {
        return PLUGIN_FILES.iter().any(|name| path.ends_with(name)).then_some(1);
    }
    let parts = documents::split_document(text);
    let line_number = |at: usize| text[..at].matches('\n').count() + 1;
    let find_line = |range: std::ops::Range<usize>, acts: &dyn Fn(&str) -> bool| {
        let mut at = range.start;
        text[range].split_inclusive('\n').find_map(|line| {
            at += line.len();
            acts(line).then(|| line_number(at - line.len()))
        })
    };
    // Most bodies have no command, and are long.
    let body = if may_have_commands(&text[parts.body.clone()]) { parts.body.clone() } else { 0..0 };
    // Front matter that never ends is read as text.
    let speaks = |line: &str| speaks_of_acting(line) || (!parts.is_closed && has_inline_command(line));
    find_line(parts.front_matter.clone(), &speaks).or_else(|| find_line(body, &has_inline_command))
}

/// Returns true if a line of front matter may have an acting key. YAML can spell a key in many ways; a word too many
/// only asks once more than needed.
fn speaks_of_acting(line: &str) -> bool {
    let normal = documents::normalize_key(line);
    line.contains('\\') || ACTING_KEYS.iter().any(|key| normal.contains(key))
}

/// Returns false for a text without any mark of a command.
fn may_have_commands(text: &str) -> bool {
    let find = |mark: &[u8]| memchr::memmem::find(text.as_bytes(), mark).is_some();
    find(b"!`") || find(b"```!")
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
    let parts = documents::split_document(text);
    let front_matter = &text[parts.front_matter];
    let body = if parts.is_closed { &text[parts.body] } else { front_matter };
    Value::from_iter(active_front_matter_lines(front_matter).map(str::to_owned).chain(inline_commands(body)))
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
    if !may_have_commands(text) {
        return commands;
    }
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
