//! Memory of a session: the files that its conversations begin with, those that join when a file is read, and changes
//! of both. Files are read by `gimlet-config`; how the model gets them is in `memory_text.rs`.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_config::{AutoMemory, MemoryFile, MemoryFiles, MemoryOptions, MemoryScope, auto_memory_folder};
use gimlet_core::{
    ContextPartKind, ContextPartSource, SegmentContextPart, SegmentContextRequest, SegmentContextSource,
    SegmentContextUpdate,
};
use gimlet_proto::{Env, ModelFacts};
use gimlet_store::StoreLocations;

use super::document_settings::{DocumentSettings, LiveDocumentSettings};
use super::file_stamps::FileStamps;
use super::memory_text::{self, text_digest};

/// Share of the context window that all memory together may take.
const WINDOW_SHARE: u64 = 4;

/// Source of the memory of a session's conversations.
pub(super) struct MemorySource {
    documents: LiveDocumentSettings,
    env: Env,
    config_home: PathBuf,
    last_read: Mutex<Option<Arc<ReadMemory>>>,
}

/// Memory as it was read at one moment.
struct ReadMemory {
    memory: MemoryFiles,
    /// Notes that the model keeps; `None` if they are off.
    auto: Option<AutoMemory>,
    settings: Arc<DocumentSettings>,
    added_dirs: Vec<PathBuf>,
    stamps: FileStamps,
}

impl ReadMemory {
    /// Returns the notes that the model keeps, in conversations that have them.
    fn notes(&self, request: &SegmentContextRequest) -> Option<&AutoMemory> {
        self.auto.as_ref().filter(|_| request.agent.is_none())
    }

    /// Returns all files that a conversation begins with.
    fn beginning(&self, request: &SegmentContextRequest) -> impl Iterator<Item = &MemoryFile> {
        self.memory.files.iter().chain(self.notes(request).and_then(|notes| notes.index.as_ref()))
    }

    fn is_current(&self, settings: &Arc<DocumentSettings>, added_dirs: &[PathBuf]) -> bool {
        Arc::ptr_eq(&self.settings, settings) && self.added_dirs == added_dirs && self.stamps.are_unchanged()
    }
}

impl MemorySource {
    /// Creates the source; `None` if the environment turns memory off.
    pub(super) fn new(documents: LiveDocumentSettings, env: &Env, config_home: PathBuf) -> Option<Self> {
        (!is_memory_off(env)).then(|| Self { documents, env: env.clone(), config_home, last_read: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<ReadMemory>>> {
        self.last_read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the memory that a conversation begins with.
    fn read(&self, request: &SegmentContextRequest) -> Arc<ReadMemory> {
        let settings = self.documents.current();
        let added_dirs = if reads_added_dirs(&self.env) { request.added_dirs.clone() } else { Vec::new() };
        let reader = settings.reader();
        let memory = with_options(&settings, &added_dirs, request, |options| reader.memory(options));
        let auto = find_auto_memory(&settings, &self.env, &self.config_home).map(|folder| reader.auto_memory(&folder));
        let mut watched = reader.read_paths();
        watched.extend(auto.iter().map(|auto| auto.folder.clone()));
        watched.extend(folders_of_memory(&settings, &added_dirs));
        // A file that changes between its reading and its stamp is noticed with its next change.
        let read = Arc::new(ReadMemory { memory, auto, settings, added_dirs, stamps: FileStamps::take(watched) });
        *self.lock() = Some(read.clone());
        read
    }

    /// Returns the memory that a conversation would begin with now; reads it only if something changed.
    fn read_if_changed(&self, request: &SegmentContextRequest) -> Arc<ReadMemory> {
        let known = self.lock().clone();
        let settings = self.documents.current();
        let added_dirs: &[PathBuf] = if reads_added_dirs(&self.env) { &request.added_dirs } else { &[] };
        match known.filter(|known| known.is_current(&settings, added_dirs)) {
            Some(known) => known,
            None => self.read(request),
        }
    }
}

/// Returns true if the environment turns memory off.
pub(super) fn is_memory_off(env: &Env) -> bool {
    env.flag("CLAUDE_CODE_DISABLE_CLAUDE_MDS")
}

/// Returns true if folders that were added to the session bring their memory.
pub(super) fn reads_added_dirs(env: &Env) -> bool {
    env.flag("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD")
}

/// Returns the folder of the notes that the model keeps of this repository; `None` if they are off. The variable has
/// the last word, also as a yes.
pub(super) fn find_auto_memory(documents: &DocumentSettings, env: &Env, config_home: &Path) -> Option<PathBuf> {
    let DocumentSettings { locations, sources, settings, .. } = documents;
    let is_on = match env.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY") {
        Some("0" | "false") => true,
        Some(_) if env.flag("CLAUDE_CODE_DISABLE_AUTO_MEMORY") => false,
        _ => settings.auto_memory_enabled != Some(false) && sources.user,
    };
    let sessions = StoreLocations::new(config_home).project(locations.trust_root());
    let folder = auto_memory_folder(locations, settings.auto_memory_directory.as_deref(), sessions.dir());
    folder.filter(|_| is_on && !is_memory_off(env))
}

/// Returns true if the conversation gets memory.
fn is_wanted(request: &SegmentContextRequest) -> bool {
    request.agent.as_ref().is_none_or(|agent| agent.loads_memory)
}

fn with_options<T>(
    settings: &DocumentSettings,
    added_dirs: &[PathBuf],
    request: &SegmentContextRequest,
    read: impl FnOnce(&MemoryOptions<'_>) -> T,
) -> T {
    let added_folders: Vec<&Path> = added_dirs.iter().map(PathBuf::as_path).collect();
    read(&MemoryOptions {
        trust: &settings.trust,
        may_read: &|path| request.may_read(path),
        managed_text: settings.settings.claude_md.as_deref(),
        excludes: settings.settings.claude_md_excludes.as_deref().unwrap_or_default(),
        added_folders: &added_folders,
    })
}

/// Returns the folders in which a new file would be memory.
fn folders_of_memory(settings: &DocumentSettings, added_dirs: &[PathBuf]) -> Vec<PathBuf> {
    let locations = &settings.locations;
    let mut folders = vec![locations.managed_dir.clone(), locations.config_dir.clone()];
    folders.push(locations.config_dir.join("rules"));
    for folder in locations.cwd.ancestors().chain(added_dirs.iter().map(PathBuf::as_path)) {
        let hidden = folder.join(".claude");
        folders.extend([folder.to_owned(), hidden.join("rules"), hidden]);
    }
    folders
}

/// Returns the number of bytes that all memory together may take.
fn memory_limit(facts: &ModelFacts) -> usize {
    let tokens = facts.context_window / WINDOW_SHARE;
    // The product is far below the limits of both types.
    (tokens as f64 * facts.bytes_per_token) as usize
}

/// Files that are known to a conversation by their real paths, with the digest of their newest text; `None` for a file
/// whose text it does not have.
struct KnownFiles<'a> {
    newest: BTreeMap<&'a str, &'a ContextPartSource>,
}

impl<'a> KnownFiles<'a> {
    fn new(request: &'a SegmentContextRequest) -> Self {
        let sources = request.delivered.sources(ContextPartKind::Memory);
        Self { newest: sources.map(|source| (source.real_path(), source)).collect() }
    }

    fn real_paths(&self) -> HashSet<PathBuf> {
        self.newest.keys().map(PathBuf::from).collect()
    }
}

impl SegmentContextSource for MemorySource {
    fn opening_parts(&self, request: &SegmentContextRequest) -> SegmentContextUpdate {
        if !is_wanted(request) {
            return SegmentContextUpdate::default();
        }
        let read = self.read(request);
        let selection = read.memory.select(memory_limit(&request.facts));
        let mut update = SegmentContextUpdate::default();
        if !selection.included.is_empty() || !selection.left_out.is_empty() {
            update.parts.push(SegmentContextPart::new(ContextPartKind::Memory, memory_text::INTRODUCTION));
        }
        update.parts.extend(selection.included.iter().map(|file| memory_text::file_part(file, None)));
        update.parts.extend(selection.left_out.iter().map(|file| memory_text::place_part(file, None)));
        update.warnings.extend(memory_text::left_out_warning(&selection.left_out));
        if let Some(notes) = read.notes(request) {
            update.parts.extend(memory_text::note_parts(notes));
            update.warnings.extend(notes.skipped.as_ref().map(ToString::to_string));
        }
        update
    }

    fn parts_for_read_files(&self, files: &[PathBuf], request: &SegmentContextRequest) -> SegmentContextUpdate {
        let mut update = SegmentContextUpdate::default();
        if !is_wanted(request) {
            return update;
        }
        let read = self.read_if_changed(request);
        let mut known = KnownFiles::new(request).real_paths();
        // Of the files that a conversation begins with, it has those that it wants.
        known.extend(read.memory.real_paths());
        let mut room = memory_limit(&request.facts).saturating_sub(request.delivered.bytes(ContextPartKind::Memory));
        for file in files {
            for joining in memory_for_file(&read, file, request, &known) {
                if !known.insert(joining.real_path.clone()) {
                    continue;
                }
                let fits = joining.text.len() <= room;
                if fits {
                    room -= joining.text.len();
                    update.parts.push(memory_text::file_part(&joining, Some(file)));
                } else {
                    update.parts.push(memory_text::place_part(&joining, Some(file)));
                }
            }
        }
        update
    }

    fn parts_for_written_files(&self, files: &[PathBuf], request: &SegmentContextRequest) -> SegmentContextUpdate {
        let mut update = SegmentContextUpdate::default();
        if !is_wanted(request) {
            return update;
        }
        let known = KnownFiles::new(request);
        let read = self.read_if_changed(request);
        let is_written = |path: &Path| files.iter().any(|file| file == path);
        for file in read.beginning(request).filter(|file| is_written(&file.real_path)) {
            let digest = text_digest(&file.text);
            let known = known.newest.get(&*file.real_path.to_string_lossy());
            if known.is_none_or(|known| known.digest.as_ref() != Some(&digest)) {
                let notes = read.notes(request).filter(|_| file.scope == MemoryScope::Auto);
                update.parts.push(memory_text::written_part(file, notes));
            }
        }
        update
    }

    fn changed_parts(&self, request: &SegmentContextRequest) -> SegmentContextUpdate {
        let mut update = SegmentContextUpdate::default();
        if !is_wanted(request) {
            return update;
        }
        let read = self.read_if_changed(request);
        let known = KnownFiles::new(request);
        let mut room = memory_limit(&request.facts).saturating_sub(request.delivered.bytes(ContextPartKind::Memory));
        let mut present: HashSet<&Path> = HashSet::new();
        for file in read.beginning(request) {
            present.insert(&file.real_path);
            let known = known.newest.get(&*file.real_path.to_string_lossy());
            let known = known.filter(|known| !memory_text::is_gone(known));
            // A file of which the model has only the place says nothing new.
            let differs = |digest: &String| *digest != text_digest(&file.text);
            if known.is_some_and(|known| !known.digest.as_ref().is_some_and(differs)) {
                continue;
            }
            let is_new = known.is_none();
            let fits = file.text.len() <= room;
            if fits {
                room -= file.text.len();
            }
            update.parts.push(memory_text::changed_part(file, is_new, fits));
        }
        for source in known.newest.values() {
            if source.trigger.is_none()
                && !present.contains(Path::new(source.real_path()))
                && !memory_text::is_gone(source)
            {
                update.parts.push(memory_text::gone_part(source));
            }
        }
        update
    }
}

/// Returns the memory that reading a file brings: that of the folders between it and the working directory, and rules
/// about it.
fn memory_for_file(
    read: &ReadMemory,
    file: &Path,
    request: &SegmentContextRequest,
    known: &HashSet<PathBuf>,
) -> Vec<MemoryFile> {
    let reader = read.settings.reader();
    let mut files = Vec::new();
    // The file may have been named through a symlink, and the working directory never is.
    let real = file.canonicalize().ok().filter(|real| real != file);
    for path in std::iter::once(file.to_owned()).chain(real) {
        let rules = read.memory.conditional.iter().filter(|rule| rule.matches(&path));
        files.extend(rules.flat_map(|rule| rule.files.iter().cloned()));
        let nested = with_options(&read.settings, &[], request, |options| reader.nested_memory(&path, options, known));
        files.extend(nested.files);
    }
    files
}
