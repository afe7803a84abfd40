//! The memory of a folder without a session: which files sessions there begin with, which join later, which could be
//! there, and which are not used.

use std::path::{Path, PathBuf};

use gimlet_config::{AutoMemory, MemoryFiles, MemoryOptions, MemoryScope};
use gimlet_policy::{DecisionContext, DeniedFiles};

use super::SessionSettings;
use super::memory_source::{find_auto_memory, is_memory_off, reads_added_dirs};
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;

/// Memory of sessions with these flags in a folder.
pub struct MemoryCatalogue {
    pub memory: MemoryFiles,
    /// Files that are not there, and would be memory.
    pub possible: Vec<(MemoryScope, PathBuf)>,
    /// Notes that the model keeps; `None` if they are off.
    pub auto: Option<AutoMemory>,
    /// True if the environment turns all memory off.
    pub is_off: bool,
}

impl MemoryCatalogue {
    /// Reads the files. Starts nothing.
    pub fn read(request: &LaunchRequest, around: &ProcessEnv) -> Result<Self, LaunchError> {
        let configured = SessionSettings::read(request, around)?;
        let documents = configured.documents.current();
        let now = configured.now();
        let world = DecisionContext {
            cwd: around.cwd.clone(),
            roots: vec![around.cwd.clone()],
            home: around.home.clone(),
            ..DecisionContext::default()
        };
        let denied = DeniedFiles::for_documents(&now.rules, &world);
        let added: &[PathBuf] = if reads_added_dirs(&configured.env) { &now.directories } else { &[] };
        let added: Vec<&Path> = added.iter().map(PathBuf::as_path).collect();
        let settings = &documents.settings;
        let reader = documents.reader();
        let memory = reader.memory(&MemoryOptions {
            trust: &documents.trust,
            may_read: &|path| !denied.contains(path),
            managed_text: settings.claude_md.as_deref(),
            excludes: settings.claude_md_excludes.as_deref().unwrap_or_default(),
            added_folders: &added,
        });
        let locations = &documents.locations;
        let mut possible = vec![
            (MemoryScope::Managed, locations.managed_dir.join("CLAUDE.md")),
            (MemoryScope::User, locations.config_dir.join("CLAUDE.md")),
        ];
        let mut folders = vec![locations.project_root()];
        if locations.cwd != locations.project_root() {
            folders.push(&locations.cwd);
        }
        for folder in folders {
            possible.push((MemoryScope::Project, folder.join("CLAUDE.md")));
            possible.push((MemoryScope::Project, folder.join(".claude/CLAUDE.md")));
            possible.push((MemoryScope::Local, folder.join("CLAUDE.local.md")));
        }
        possible.retain(|(_, path)| path.symlink_metadata().is_err());
        let auto = find_auto_memory(&documents, &configured.env, &around.config_home);
        let auto = auto.map(|folder| reader.auto_memory(&folder));
        Ok(Self { memory, possible, auto, is_off: is_memory_off(&configured.env) })
    }
}
