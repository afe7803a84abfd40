//! Memory that a session begins with, and memory that joins it later.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{PathPatterns, SkippedDocument};
use crate::problem::SettingsProblem;
use crate::trust::{ProjectItem, ProjectTrust};

/// Author of a memory file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum MemoryScope {
    Managed,
    User,
    Project,
    /// One user's memory of one project.
    Local,
    /// Memory that the model keeps.
    Auto,
}

impl MemoryScope {
    /// Returns the name of the scope, as hooks get it.
    pub fn as_str(self) -> &'static str {
        match self {
            MemoryScope::Managed => "Managed",
            MemoryScope::User => "User",
            MemoryScope::Project => "Project",
            MemoryScope::Local => "Local",
            MemoryScope::Auto => "Auto",
        }
    }
}

/// Reason why a memory file is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryReason {
    /// Its place applies to every session in this folder.
    SessionStart,
    /// The user added its folder to the session.
    AddedFolder,
    /// A file below its folder was read.
    NestedTraversal,
    /// A file was read that one of these patterns matches.
    PathGlobMatch { patterns: Vec<String> },
    /// Another memory file imports it.
    Include { from: PathBuf },
}

/// Memory as the model gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFile {
    /// Path as spelled; for text of the managed settings that of the administrator's folder.
    pub path: PathBuf,
    /// Path without symlinks, to know a file that was delivered before.
    pub real_path: PathBuf,
    pub scope: MemoryScope,
    pub reason: MemoryReason,
    /// Text without front matter and without comments.
    pub text: String,
}

/// Rule for certain files, with what it imports.
#[derive(Clone, Debug)]
pub struct ConditionalRule {
    /// Folder that the patterns are relative to.
    pub folder: PathBuf,
    pub patterns: PathPatterns,
    pub files: Vec<MemoryFile>,
}

impl ConditionalRule {
    /// Returns true if the rule is about this file.
    pub fn matches(&self, file: &Path) -> bool {
        self.patterns.matches(&self.folder, file)
    }
}

/// Memory that was found.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    /// Files in the order in which the model reads them: the broadest first.
    pub files: Vec<MemoryFile>,
    /// Rules that join once a matching file is read.
    pub conditional: Vec<ConditionalRule>,
    pub skipped: Vec<SkippedDocument>,
    pub problems: Vec<SettingsProblem>,
    /// Imports and symlinks that lead out of the project and wait for trust.
    pub waiting: Vec<ProjectItem>,
}

/// Memory within a budget.
#[derive(Clone, Debug)]
pub struct MemorySelection<'a> {
    pub included: Vec<&'a MemoryFile>,
    /// Files to be read when they are needed.
    pub left_out: Vec<&'a MemoryFile>,
}

impl MemoryFiles {
    /// Selects files of at most so many bytes together. A file that does not fit is left out whole, and later ones that
    /// fit are included.
    pub fn select(&self, max_bytes: usize) -> MemorySelection<'_> {
        let mut room = max_bytes;
        let (included, left_out) = self.files.iter().partition(|file| {
            let fits = file.text.len() <= room;
            if fits {
                room -= file.text.len();
            }
            fits
        });
        MemorySelection { included, left_out }
    }

    /// Returns the real paths of all files, so that they are not delivered again.
    pub fn real_paths(&self) -> HashSet<PathBuf> {
        self.files.iter().map(|file| file.real_path.clone()).collect()
    }
}

/// Everything that the choice of memory depends on besides the files.
#[derive(Clone, Copy)]
pub struct MemoryOptions<'a> {
    /// Trust that imports and symlinks out of the project need.
    pub trust: &'a ProjectTrust,
    /// Returns false for files that rules forbid to read, and for credentials. Imports and the targets of symlinks are
    /// held against it.
    pub may_read: &'a dyn Fn(&Path) -> bool,
    /// Text of the managed settings.
    pub managed_text: Option<&'a str>,
    /// Globs of absolute paths that are left out.
    pub excludes: &'a [String],
    /// Folders that the user added and whose memory is wanted.
    pub added_folders: &'a [&'a Path],
}
