//! Files of a project that its commands name. They are part of what is trusted: a change of a script changes the
//! command's effect.
//!
//! Names are guessed from the words of a command and nothing is run to find them. A word too many only asks once more
//! than needed; no file outside the project is ever read.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gimlet_fs::{FileReadError, read_inside};
use serde_json::Value;

use super::item_collector::ProjectFolders;
use super::project_item::{DigestBuilder, ProjectItemKind, ReferencedScript};
use super::shell_scan;
use crate::effective_settings::HookLine;
use crate::locations::SettingsLocations;
use crate::plugins::LoadedPlugin;

/// Maximum size of a script whose content is part of its item's digest, and of all scripts of one item together.
const SCRIPT_MAX_BYTES: u64 = 8 * 1024 * 1024;
const ALL_SCRIPTS_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of folders that a command is followed to, and of entries in a folder that is searched for names.
const MAX_FOLDERS: usize = 8;
const MAX_ENTRIES: usize = 1_000;
/// Maximum number of words of a command.
const MAX_WORDS: usize = 4_000;
/// Manifest that makes a folder a plugin.
const MANIFEST: &str = ".claude-plugin/plugin.json";

/// Descriptive keys in front matter and in the JSON of plugins, hooks and servers: nothing that they name is run.
const SPEAKING_KEYS: [&str; 25] = [
    "name",
    "displayName",
    "description",
    "when_to_use",
    "argument-hint",
    "arguments",
    "allowed-tools",
    "allowedTools",
    "disallowed-tools",
    "disallowedTools",
    "tools",
    "model",
    "effort",
    "color",
    "paths",
    "license",
    "compatibility",
    "version",
    "author",
    "homepage",
    "repository",
    "keywords",
    "statusMessage",
    "matcher",
    "prompt",
];

/// Returns true if nothing under this key is run.
pub(super) fn is_descriptive_key(key: &str) -> bool {
    SPEAKING_KEYS.contains(&key)
}

/// Folders that a command's words are resolved against.
pub(super) struct ScriptRoots<'a> {
    project: &'a ProjectFolders<'a>,
    /// Folder of the document that contains the command.
    document_dir: Option<PathBuf>,
    /// Folder of the plugin that contains it.
    plugin_root: Option<PathBuf>,
}

impl<'a> ScriptRoots<'a> {
    /// Returns the folders for commands of settings and of `.mcp.json`.
    pub(super) fn for_project(project: &'a ProjectFolders<'a>) -> Self {
        Self { project, document_dir: None, plugin_root: None }
    }

    /// Returns the folders for commands of a skill, an agent, a command, or a file of a plugin.
    pub(super) fn for_document(project: &'a ProjectFolders<'a>, path: &Path) -> Self {
        let above = path.ancestors().skip(1).take_while(|folder| folder.starts_with(project.root));
        let plugin = above.into_iter().find(|folder| folder.join(MANIFEST).symlink_metadata().is_ok());
        Self { project, document_dir: path.parent().map(Path::to_owned), plugin_root: plugin.map(Path::to_owned) }
    }

    /// Adds every file of the project that a command names.
    pub(super) fn add_scripts(
        &self,
        mut content: DigestBuilder,
        command: &Value,
    ) -> (DigestBuilder, Vec<ReferencedScript>) {
        let mut search = ScriptSearch {
            roots: self,
            folders: vec![self.project.cwd.to_owned()],
            seen: HashSet::new(),
            read: 0,
            found: Vec::new(),
            is_cut_short: false,
        };
        search.search_command(command);
        if self.plugin_root.is_some() {
            // A manifest may name the files in which its hooks and servers are listed.
            let lists: Vec<Value> = search.found.iter().filter_map(FoundScript::parse_json_content).collect();
            lists.iter().for_each(|list| search.search_command(list));
        }
        let mut scripts = Vec::new();
        for FoundScript { label, path, bytes, is_whole } in &search.found {
            content = content.add_part(label.as_bytes()).add_part(bytes);
            scripts.push(ReferencedScript::new(label, path, bytes, *is_whole));
        }
        if search.is_cut_short { (content.mark_incomplete(), scripts) } else { (content, scripts) }
    }

    /// Returns the files that a word could name, each with a unique name.
    fn candidate_paths(&self, word: &str, folders: &[PathBuf]) -> Vec<(String, PathBuf)> {
        if let Some((variable, below)) = split_variable(word) {
            let folder = self.variable_folder(variable);
            return folder.map(|folder| (word.to_owned(), folder.join(below))).into_iter().collect();
        }
        let label = |path: &Path| path.strip_prefix(self.project.root).unwrap_or(path).to_string_lossy().into_owned();
        if let Some(below) = word.strip_prefix("~/") {
            return self.project.home.map(|home| (word.to_owned(), home.join(below))).into_iter().collect();
        }
        let from_start = (word.to_owned(), self.project.cwd.join(word));
        // A missing folder on the way may exist when the command runs.
        let as_spelled = Some(shell_scan::normalize_path(&from_start.1)).filter(|path| *path != from_start.1);
        let elsewhere = folders.iter().skip(1).map(|folder| shell_scan::normalize_path(&folder.join(word)));
        let elsewhere = as_spelled.into_iter().chain(elsewhere).map(|path| (label(&path), path));
        // Paths in a document are often relative to it.
        let from_document = [&self.document_dir, &self.plugin_root].into_iter().flatten().map(|folder| {
            let path = folder.join(word);
            (label(&path), path)
        });
        [from_start].into_iter().chain(elsewhere).chain(from_document).collect()
    }

    /// Returns the folder that a variable refers to; `None` if it is unknown.
    fn variable_folder(&self, variable: &str) -> Option<&Path> {
        match variable {
            "CLAUDE_PROJECT_DIR" | "PWD" => Some(self.project.cwd),
            "CLAUDE_SKILL_DIR" => self.document_dir.as_deref(),
            "CLAUDE_PLUGIN_ROOT" => self.plugin_root.as_deref(),
            _ => None,
        }
    }
}

/// Returns the files that a plugin's hooks and servers run.
pub fn plugin_script_files(locations: &SettingsLocations, plugin: &LoadedPlugin) -> Vec<PathBuf> {
    let project = ProjectFolders { root: &plugin.root, cwd: &locations.cwd, home: locations.home.as_deref() };
    let command = |line: &HookLine| {
        let args = line.handler.args.iter().flatten().cloned();
        Value::from_iter(line.handler.command.iter().cloned().chain(args))
    };
    let commands = plugin.contents.hooks.iter().map(command);
    let commands = Value::from_iter(commands.chain(plugin.contents.servers.iter().map(|server| server.value.clone())));
    let roots = ScriptRoots { project: &project, document_dir: None, plugin_root: Some(plugin.root.clone()) };
    let (_, scripts) = roots.add_scripts(DigestBuilder::new(ProjectItemKind::Plugin), &commands);
    scripts.into_iter().map(|script| script.file).collect()
}

/// Splits a word into the variable at its beginning and the path below it.
fn split_variable(word: &str) -> Option<(&str, &str)> {
    let rest = word.strip_prefix('$')?;
    let (name, below) = match rest.strip_prefix('{') {
        // `${NAME:-other}` is NAME where that is set, and these are.
        Some(braced) => braced.split_once('}').map(|(name, below)| (name.split(':').next().unwrap_or(name), below))?,
        None => rest.split_at(rest.find(|mark: char| !mark.is_alphanumeric() && mark != '_').unwrap_or(rest.len())),
    };
    Some((name, below.trim_start_matches('/')))
}

/// Search for the files that the commands of one item lead to.
struct ScriptSearch<'a> {
    roots: &'a ScriptRoots<'a>,
    /// Working folders: the one it starts in, and those it changes to.
    folders: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
    /// Bytes so far.
    read: u64,
    found: Vec<FoundScript>,
    /// True if there were more words than are followed, or some that cannot be.
    is_cut_short: bool,
}

struct FoundScript {
    label: String,
    path: PathBuf,
    /// Bytes that represent the file in digests.
    bytes: Vec<u8>,
    /// True if they are its content.
    is_whole: bool,
}

impl FoundScript {
    fn parse_json_content(&self) -> Option<Value> {
        let is_list = self.is_whole && self.path.extension().is_some_and(|extension| extension == "json");
        if is_list { serde_json::from_slice(&self.bytes).ok() } else { None }
    }
}

impl ScriptSearch<'_> {
    fn search_command(&mut self, command: &Value) {
        let mut words = Vec::new();
        collect_words(command, &mut words);
        let mut texts = Vec::new();
        collect_texts(command, &mut texts);
        for text in texts {
            let spoken = shell_scan::scan_command(text);
            words.extend(spoken.words.iter().filter(|word| !word.starts_with('-')).cloned());
            // A document is mostly prose.
            if self.roots.document_dir.is_none() {
                self.is_cut_short |= spoken.has_dynamic_words;
                spoken.directories.iter().for_each(|place| self.change_folder(place.as_deref()));
                spoken.patterns.iter().for_each(|pattern| self.expand_pattern(pattern, &mut words));
            }
        }
        words.sort_unstable();
        words.dedup();
        if words.len() > MAX_WORDS {
            self.is_cut_short = true;
        }
        for word in words.iter().take(MAX_WORDS) {
            for (label, path) in self.roots.candidate_paths(word, &self.folders) {
                if self.seen.insert(path.clone())
                    && let Some((bytes, is_whole)) = self.read_script(&path)
                {
                    self.found.push(FoundScript { label, path, bytes, is_whole });
                }
            }
        }
    }

    /// Follows a command to another folder. One that is not there may be made later, and one that is hidden may be any.
    fn change_folder(&mut self, place: Option<&str>) {
        let place = match place {
            Some(place) if self.folders.len() < MAX_FOLDERS => place,
            _ => {
                self.is_cut_short = true;
                return;
            }
        };
        let root = self.roots.project.root;
        let from: Vec<PathBuf> = self.folders.clone();
        let to = from.iter().flat_map(|folder| match split_variable(place) {
            Some(_) => self.roots.candidate_paths(place, &[]).into_iter().map(|(_, path)| path).collect(),
            None if place.starts_with('~') => Vec::new(),
            None => vec![shell_scan::normalize_path(&folder.join(place))],
        });
        // Nothing outside the project is read; commands may still change back from there.
        let to: Vec<PathBuf> = to.filter(|folder| !folder.starts_with(root) || folder.is_dir()).collect();
        self.is_cut_short |= to.is_empty() && !place.starts_with("~/") && place != "~";
        let new: Vec<PathBuf> = to.into_iter().filter(|folder| !from.contains(folder)).collect();
        self.folders.extend(new);
    }

    /// Adds the names that a pattern matches now. Files that match later are found later.
    fn expand_pattern(&mut self, pattern: &str, words: &mut Vec<String>) {
        let (above, last) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let root = self.roots.project.root;
        for folder in self.folders.clone() {
            let folder = shell_scan::normalize_path(&folder.join(above));
            if !folder.starts_with(root) {
                continue;
            }
            if above.contains(['*', '?', '[']) {
                self.is_cut_short = true;
                return;
            }
            let entries = folder.read_dir().into_iter().flatten().take(MAX_ENTRIES + 1).flatten();
            let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            self.is_cut_short |= names.len() > MAX_ENTRIES;
            let fitting =
                names.iter().filter(|name| shell_scan::matches_glob(last, name)).map(|name| folder.join(name));
            // By the shortest name: it is equal in other checkouts of the repository.
            let cwd = self.roots.project.cwd;
            words.extend(fitting.map(|file| file.strip_prefix(cwd).unwrap_or(&file).to_string_lossy().into_owned()));
        }
    }

    fn read_script(&mut self, path: &Path) -> Option<(Vec<u8>, bool)> {
        let room = SCRIPT_MAX_BYTES.min(ALL_SCRIPTS_MAX_BYTES.saturating_sub(self.read));
        match read_inside(self.roots.project.root, path, room) {
            Ok(bytes) => {
                let bytes = bytes?;
                self.read += bytes.len() as u64;
                Some((bytes, true))
            }
            // Too large to read at every start: the file's identity, its size and the time of its last status change,
            // which cannot be set, stand for its content.
            Err(FileReadError::TooLarge(_)) => {
                let metadata = path.metadata().ok()?;
                let (changed, inode) = ((metadata.ctime(), metadata.ctime_nsec()), metadata.ino());
                let stamp = format!("{} {} {} {inode}", metadata.len(), changed.0, changed.1);
                Some((stamp.into_bytes(), false))
            }
            Err(_) => None,
        }
    }
}

/// Collects the texts of a value that could be commands.
fn collect_texts<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(values) => values.iter().for_each(|value| collect_texts(value, texts)),
        Value::Object(members) => {
            // A server or an event may have one of these names, and is an object then.
            let acting = members.iter().filter(|(key, value)| value.is_object() || !is_descriptive_key(key));
            acting.for_each(|(_, value)| collect_texts(value, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Collects the words of a value's texts.
fn collect_words(value: &Value, words: &mut Vec<String>) {
    let mut texts = Vec::new();
    collect_texts(value, &mut texts);
    texts.iter().for_each(|text| split_words(text, words));
}

/// Splits a shell text or a line of YAML into words without quotes; a quoted text is also one word as a whole.
fn split_words(text: &str, words: &mut Vec<String>) {
    let mut keep = |word: &str| {
        if !word.is_empty() && !word.starts_with('-') {
            words.push(word.to_owned());
        }
    };
    for quote in ['"', '\''] {
        let quoted = text.split(quote).skip(1).step_by(2);
        quoted.filter(|whole| whole.contains(char::is_whitespace)).for_each(&mut keep);
    }
    let plain = text.replace(['"', '\''], "");
    for piece in plain.split(|mark: char| mark.is_whitespace() || ";|&()<>=`".contains(mark)) {
        keep(piece);
        if piece.contains([',', '[', ']', '{', '}']) {
            let parts = piece.split([',', '[', ']']).map(|part| part.trim_start_matches('{').trim_end_matches('}'));
            parts.for_each(&mut keep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_told_from_the_path_below_it() {
        for (word, found) in [
            ("$CLAUDE_PROJECT_DIR/a/b.sh", Some(("CLAUDE_PROJECT_DIR", "a/b.sh"))),
            ("${CLAUDE_PROJECT_DIR}/a", Some(("CLAUDE_PROJECT_DIR", "a"))),
            ("${CLAUDE_PROJECT_DIR:-.}/a", Some(("CLAUDE_PROJECT_DIR", "a"))),
            ("$CLAUDE_PROJECT_DIRECTORY/a", Some(("CLAUDE_PROJECT_DIRECTORY", "a"))),
            ("$X", Some(("X", ""))),
            ("${X/a", None),
            ("./a", None),
        ] {
            assert_eq!(split_variable(word), found, "{word}");
        }
    }

    #[test]
    fn each_of_very_many_texts_is_looked_at_once() {
        let texts: Vec<Value> = (0..250_000).map(|at| Value::String(format!("-x a{at}"))).collect();
        let mut words = Vec::new();
        collect_words(&Value::Array(texts), &mut words);
        assert_eq!(words.len(), 250_000);
    }

    #[test]
    fn words_are_found_in_commands_and_in_yaml() {
        for (text, wanted) in [
            ("sh -c 'python3 ./a.py' >out", &["./a.py", "python3 ./a.py", "out", "sh"][..]),
            ("bash \"my script.sh\"", &["my script.sh", "bash"]),
            ("X=1 ./a && ./b|./c", &["./a", "./b", "./c"]),
            ("  - {type: command, command: ./a.sh}", &["./a.sh", "command"]),
            ("args: [./a,\"./b\"]", &["./a", "./b"]),
            ("command: ${CLAUDE_PLUGIN_ROOT}/a", &["${CLAUDE_PLUGIN_ROOT}/a"]),
        ] {
            let mut words = Vec::new();
            split_words(text, &mut words);
            for word in wanted {
                assert!(words.iter().any(|found| found == word), "{word}: {words:?}");
            }
        }
    }
}
