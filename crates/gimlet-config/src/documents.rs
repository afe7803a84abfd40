//! What users and projects write as documents: memory, rules, agents, skills, commands and output styles.
//!
//! [`DocumentReader`] reads each file once, with limits, and remembers it, so that the bytes that trust is about, those
//! that are listed and those that are used are the same. Nothing is run here. What a project's document would do
//! beyond its text is in a [`TrustGated`], which only a [`ProjectTrust`](crate::ProjectTrust) opens.

mod agent_file;
mod auto_memory;
mod document_walk;
mod field_reader;
mod front_matter;
mod memory_collector;
mod memory_file;
mod memory_text;
mod output_style;
mod path_patterns;
mod plugin_documents;
mod skill_body;
mod skill_discovery;
mod skill_file;
mod trust_gate;
mod yaml_value;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gimlet_fs::FileReadError;
use serde::Serialize;

pub use agent_file::{AgentActions, AgentFile, AgentFiles, AgentMcpServer, AgentMemoryScope};
pub use auto_memory::{AutoMemory, auto_memory_folder};
pub use memory_file::{
    ConditionalRule, MemoryFile, MemoryFiles, MemoryOptions, MemoryReason, MemoryScope, MemorySelection,
};
pub use output_style::{OutputStyle, OutputStyles};
pub use path_patterns::PathPatterns;
pub use skill_body::{BodyPart, InlineCommand, SkillBody};
pub use skill_file::{SkillActions, SkillExecution, SkillFile, SkillFiles, SkillInvocation, SkillKind, SkillListing};
pub use trust_gate::TrustGated;

use crate::file_ownership;
use crate::locations::SettingsLocations;
use crate::plugins::LoadedPlugin;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::scope::{Scope, SettingSources};
use crate::trust::{self, ProjectFolders, ProjectItem, ProjectItemKind};
use document_walk::{FolderWalk, WalkedFile};
pub(crate) use front_matter::{normalize_key, split_document};
use trust_gate::TrustGate;

/// Maximum size of a document other than memory.
const DOCUMENT_MAX_BYTES: u64 = 1024 * 1024;

/// Place that a document comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentScope {
    /// The administrator's folder.
    Managed,
    /// The user's own folder.
    User,
    /// The working directory, or a folder above it in its repository.
    Project,
    /// A folder that the user added to the session.
    AddedFolder,
    /// A plugin.
    Plugin,
}

impl DocumentScope {
    /// Returns the scope of settings that the document's values count as.
    pub(crate) fn settings_scope(self) -> Scope {
        match self {
            DocumentScope::Managed => Scope::Managed,
            DocumentScope::User | DocumentScope::Plugin => Scope::User,
            DocumentScope::Project | DocumentScope::AddedFolder => Scope::Project,
        }
    }
}

/// Place and path of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DocumentOrigin {
    pub scope: DocumentScope,
    pub path: PathBuf,
}

/// Document that is not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedDocument {
    pub path: PathBuf,
    pub line: Option<usize>,
    pub reason: String,
}

impl SkippedDocument {
    fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, reason: reason.into() }
    }
}

impl fmt::Display for SkippedDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": not used: {}", self.reason)
    }
}

/// Content of a file that was read.
#[derive(Debug)]
pub(crate) struct DocumentContent {
    /// Text without a byte order mark, with line feeds alone.
    pub(crate) text: String,
    /// Bytes of the file, where they are not those of the text.
    raw: Option<Vec<u8>>,
    /// Item that the document is, once that was looked for.
    item: OnceLock<Option<Arc<ProjectItem>>>,
}

impl DocumentContent {
    fn new(bytes: Vec<u8>) -> Self {
        let is_changed = |text: &str| text.contains('\r') || text.starts_with('\u{feff}');
        let (text, raw) = match String::from_utf8(bytes) {
            Ok(text) if !is_changed(&text) => (text, None),
            Ok(text) => (plain_text(&text), Some(text.into_bytes())),
            Err(error) => (plain_text(&String::from_utf8_lossy(error.as_bytes())), Some(error.into_bytes())),
        };
        Self { text, raw, item: OnceLock::new() }
    }

    /// Returns the content with a text in which something was filled in; its bytes stay those of the file.
    fn with_text(&self, text: String) -> Self {
        Self { text, raw: Some(self.bytes().to_vec()), item: OnceLock::new() }
    }

    /// Returns the bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// Returns the reason why this is no document; `None` if it is one.
    fn binary_reason(&self) -> Option<&'static str> {
        self.text.contains('\0').then_some("it is not text")
    }
}

fn plain_text(text: &str) -> String {
    text.trim_start_matches('\u{feff}').replace("\r\n", "\n")
}

/// Outcome of reading a file; `None` when it does not exist.
type ReadOutcome = Result<Option<Arc<DocumentContent>>, Arc<FileReadError>>;

#[derive(Debug, Default)]
struct ReaderCache {
    /// By path, and the folder that it had to be in.
    documents: HashMap<(PathBuf, Option<PathBuf>), ReadOutcome>,
    walks: HashMap<(PathBuf, Option<PathBuf>), Arc<FolderWalk>>,
    /// Ownership problems of folders, described.
    folder_problems: HashMap<PathBuf, Option<String>>,
}

/// Folder with documents.
#[derive(Clone, Debug)]
struct DocumentArea {
    scope: DocumentScope,
    /// Folder that contains `agents`, `skills` and so on.
    folder: PathBuf,
    /// Folder that its files must be in, unless they are the user's own.
    border: Option<PathBuf>,
    /// Plugin that it is part of.
    plugin: Option<Arc<LoadedPlugin>>,
}

/// Document that was found in an area.
#[derive(Debug)]
struct FoundDocument {
    scope: DocumentScope,
    path: PathBuf,
    /// Path without symlinks.
    real: PathBuf,
    /// Folder of the project that wrote the document; `None` for the user's own.
    project: Option<PathBuf>,
    /// Plugin that brings the document.
    plugin: Option<Arc<LoadedPlugin>>,
    document: Arc<DocumentContent>,
}

impl FoundDocument {
    fn origin(&self) -> DocumentOrigin {
        DocumentOrigin { scope: self.scope, path: self.path.clone() }
    }

    /// Returns the problem of bytes that are not UTF-8, which are replaced; `None` if all are.
    fn encoding_problem(&self) -> Option<SettingsProblem> {
        let bytes = self.document.bytes();
        let valid = std::str::from_utf8(bytes).err()?.valid_up_to();
        Some(SettingsProblem {
            severity: ProblemSeverity::Warning,
            file: self.path.clone(),
            line: Some(bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1),
            column: None,
            key: String::new(),
            message: "bytes that are not UTF-8 are replaced; save the file as UTF-8".to_owned(),
        })
    }
}

/// Reader of documents. What was read stays as it was; a new reader sees what has changed since.
#[derive(Debug)]
pub struct DocumentReader {
    locations: SettingsLocations,
    sources: SettingSources,
    /// The config home without symlinks.
    config_dir: PathBuf,
    /// Plugins whose documents are read.
    plugins: Mutex<Arc<[Arc<LoadedPlugin>]>>,
    cache: Mutex<ReaderCache>,
}

impl DocumentReader {
    pub fn new(locations: &SettingsLocations, sources: SettingSources) -> Self {
        let config_dir = &locations.config_dir;
        Self {
            config_dir: config_dir.canonicalize().unwrap_or_else(|_| config_dir.clone()),
            locations: locations.clone(),
            sources,
            plugins: Mutex::new(Arc::new([])),
            cache: Mutex::default(),
        }
    }

    /// Sets the plugins whose documents are read.
    pub fn set_plugins(&self, plugins: &[Arc<LoadedPlugin>]) {
        *self.plugins.lock().unwrap_or_else(PoisonError::into_inner) = plugins.into();
    }

    fn plugins(&self) -> Arc<[Arc<LoadedPlugin>]> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn cache(&self) -> MutexGuard<'_, ReaderCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a file that must really be inside `border`, or that may be anywhere.
    fn read(&self, path: &Path, border: Option<&Path>, max_bytes: u64) -> ReadOutcome {
        let key = (path.to_owned(), border.map(Path::to_owned));
        if let Some(known) = self.cache().documents.get(&key) {
            return known.clone();
        }
        let read = match border {
            Some(border) => gimlet_fs::read_inside(border, path, max_bytes),
            None => gimlet_fs::read_file(path, max_bytes),
        };
        let outcome = read.map(|bytes| bytes.map(|bytes| Arc::new(DocumentContent::new(bytes)))).map_err(Arc::new);
        self.cache().documents.insert(key, outcome.clone());
        outcome
    }

    /// Returns the files and folders that were read so far, for noticing that one of them changes.
    pub fn read_paths(&self) -> Vec<PathBuf> {
        let cache = self.cache();
        let files = cache.documents.keys().map(|(path, _)| path);
        files.chain(cache.walks.values().flat_map(|walk| &walk.folders)).cloned().collect()
    }

    fn walk(&self, top: &Path, border: Option<&Path>) -> Arc<FolderWalk> {
        let key = (top.to_owned(), border.map(Path::to_owned));
        if let Some(known) = self.cache().walks.get(&key) {
            return known.clone();
        }
        let walk = Arc::new(FolderWalk::new(top, border));
        self.cache().walks.insert(key, walk.clone());
        walk
    }

    /// Returns a folder with all folders and documents below it.
    fn watched_paths(&self, top: &Path, border: Option<&Path>) -> Vec<PathBuf> {
        let walk = self.walk(top, border);
        let below = walk.folders.iter().chain(walk.files.iter().map(|file| &file.path)).filter(|path| *path != top);
        std::iter::once(top.to_owned()).chain(below.cloned()).collect()
    }

    /// Returns the areas in effect: the administrator's, the project's from the working directory up, the user's.
    fn areas(&self) -> Vec<DocumentArea> {
        let area = |scope, folder| DocumentArea { scope, folder, border: None, plugin: None };
        let mut areas = vec![area(DocumentScope::Managed, self.locations.managed_dir.join(".claude"))];
        areas.extend(self.project_areas());
        if self.sources.user {
            areas.push(area(DocumentScope::User, self.locations.config_dir.clone()));
        }
        areas
    }

    fn project_areas(&self) -> Vec<DocumentArea> {
        if !self.sources.project {
            return Vec::new();
        }
        let root = self.locations.project_root();
        let folders = self.locations.cwd.ancestors().take_while(|folder| folder.starts_with(root));
        folders.filter_map(|folder| self.area_in(folder, DocumentScope::Project, root)).collect()
    }

    /// Returns the area of a folder's `.claude`; `None` for the user's own.
    fn area_in(&self, folder: &Path, scope: DocumentScope, border: &Path) -> Option<DocumentArea> {
        let folder = folder.join(".claude");
        let is_config_dir = folder == self.locations.config_dir || folder == self.config_dir;
        (!is_config_dir).then(|| DocumentArea { scope, folder, border: Some(border.to_owned()), plugin: None })
    }

    /// Returns the area of a folder that the user added.
    fn added_area(&self, folder: &Path) -> Option<DocumentArea> {
        let folder = folder.canonicalize().ok()?;
        self.area_in(&folder, DocumentScope::AddedFolder, &folder)
    }

    /// Returns the ownership problems of a folder in the user's or the administrator's area.
    fn folder_problem(&self, area: &DocumentArea, folder: &Path) -> Option<String> {
        if area.border.is_some() || !folder.exists() {
            return None;
        }
        if let Some(known) = self.cache().folder_problems.get(folder) {
            return known.clone();
        }
        let user = self.locations.user;
        let doubts = match area.scope {
            DocumentScope::Managed => user.check_file(&area.folder, folder),
            _ => user.check_config_home(&area.folder, folder),
        };
        let problem = (!doubts.is_empty()).then(|| file_ownership::describe_problems(&doubts));
        self.cache().folder_problems.insert(folder.to_owned(), problem.clone());
        problem
    }

    /// Reads a document that was found; `Ok(None)` when it is gone.
    fn read_found(
        &self,
        area: &DocumentArea,
        file: &WalkedFile,
        max_bytes: u64,
    ) -> Result<Option<FoundDocument>, SkippedDocument> {
        let skip = |reason: String| SkippedDocument::new(&file.path, reason);
        let Some(document) =
            self.read(&file.path, area.border.as_deref(), max_bytes).map_err(|error| skip(error.to_string()))?
        else {
            return Ok(None);
        };
        if area.border.is_none()
            && let Some(problem) = self.locations.user.check_single_file(&file.real)
        {
            return Err(skip(file_ownership::describe_problems(&[problem])));
        }
        if let Some(reason) = document.binary_reason() {
            return Err(skip(reason.to_owned()));
        }
        Ok(Some(FoundDocument {
            scope: area.scope,
            path: file.path.clone(),
            real: file.real.clone(),
            project: self.project_of(area, &file.real),
            plugin: area.plugin.clone(),
            document,
        }))
    }

    /// Returns the folder of the project that wrote a file; `None` for the user's own. A file of the project stays the
    /// project's where the user's folder links to it.
    fn project_of(&self, area: &DocumentArea, real: &Path) -> Option<PathBuf> {
        if let Some(plugin) = &area.plugin {
            return plugin.project.clone();
        }
        let root = self.locations.project_root();
        let is_linked =
            area.scope == DocumentScope::User && real.starts_with(root) && !real.starts_with(&self.config_dir);
        area.border.clone().or_else(|| is_linked.then(|| root.to_owned()))
    }

    /// Reads the Markdown files below a folder of an area.
    fn read_folder(&self, area: &DocumentArea, name: &str, skipped: &mut Vec<SkippedDocument>) -> Vec<FoundDocument> {
        let top = area.folder.join(name);
        if let Some(problem) = self.folder_problem(area, &top) {
            skipped.push(SkippedDocument::new(&top, problem));
            return Vec::new();
        }
        let walk = self.walk(&top, area.border.as_deref());
        skipped.extend(walk.skipped.iter().cloned().chain(walk.outside.iter().map(WalkedFile::to_skipped)));
        let mut found = Vec::new();
        for file in walk.files.iter().filter(|file| is_markdown(&file.path)) {
            match self.read_found(area, file, DOCUMENT_MAX_BYTES) {
                Ok(document) => found.extend(document),
                Err(skip) => skipped.push(skip),
            }
        }
        found
    }

    /// Returns what the acting fields of a document wait for.
    fn gate(&self, found: &FoundDocument, kind: ProjectItemKind) -> TrustGate {
        if found.project.is_none() {
            return TrustGate::Open;
        }
        self.item_of(found, kind).map_or(TrustGate::Folder, TrustGate::Item)
    }

    /// Returns the item that a project's document is; `None` for one that is only text, and for the user's own.
    fn item_of(&self, found: &FoundDocument, kind: ProjectItemKind) -> Option<Arc<ProjectItem>> {
        let border = found.project.as_deref()?;
        let document = &found.document;
        let find = || {
            let project = ProjectFolders::from_locations(&self.locations);
            let path = if found.scope == DocumentScope::User { &found.real } else { &found.path };
            trust::document_item(&project, border, path, kind, document).map(Arc::new)
        };
        document.item.get_or_init(find).clone()
    }

    /// Returns true if the project has documents that trust in the folder may let do more than without, beside those
    /// that are items.
    pub fn has_project_documents(&self) -> bool {
        let areas = self.project_areas();
        let folders = areas.iter().flat_map(|area| {
            ["agents", "output-styles"].map(|name| self.walk(&area.folder.join(name), area.border.as_deref()))
        });
        folders.into_iter().any(|walk| !walk.files.is_empty())
    }

    /// Returns the items that a project's skills, agents and commands are.
    pub(crate) fn document_items(&self) -> Vec<ProjectItem> {
        const KINDS: [(&str, ProjectItemKind); 3] = [
            ("skills", ProjectItemKind::Skill),
            ("agents", ProjectItemKind::Agent),
            ("commands", ProjectItemKind::Command),
        ];
        let mut items = Vec::new();
        let areas = self.areas();
        for area in areas.iter().filter(|area| area.scope != DocumentScope::Managed) {
            for (name, kind) in KINDS {
                let top = area.folder.join(name);
                for file in &self.walk(&top, area.border.as_deref()).files {
                    if self.project_of(area, &file.real).is_none() {
                        continue;
                    }
                    // A file that cannot be read is not used either, and named where it is listed.
                    let Ok(Some(found)) = self.read_found(area, file, DOCUMENT_MAX_BYTES) else { continue };
                    items.extend(self.item_of(&found, kind).map(Arc::unwrap_or_clone));
                }
            }
        }
        items
    }
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Returns a text without the blank lines around it.
fn trim_blank_lines(text: &str) -> &str {
    let start = text.len() - text.trim_start().len();
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    text[line_start..].trim_end()
}

/// Returns a path as a name for display, without the folder that it is in.
fn relative_name<'p>(path: &'p Path, folder: &Path) -> Cow<'p, str> {
    path.strip_prefix(folder).unwrap_or(path).to_string_lossy()
}
