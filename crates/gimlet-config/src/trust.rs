//! Trust in a project's files. Everything in a project that could run something, or allow something, is a
//! [`ProjectItem`] with a digest of its content; the user accepts items, not folders, and an item that changes waits
//! again.
//!
//! Collecting is inert: files are parsed with bounds, no program runs, and no symlink is followed out of the project.

mod document_items;
mod item_change;
mod item_collector;
mod project_item;
mod referenced_scripts;
mod shell_scan;
mod trust_store;

use std::collections::HashSet;
use std::path::Path;

pub(crate) use document_items::{document_item, import_item};
pub use item_change::ItemChange;
pub(crate) use item_collector::ProjectFolders;
pub(crate) use project_item::ServerDefinition;
pub use project_item::{ProjectItem, ProjectItemKind};
pub use referenced_scripts::plugin_script_files;
pub use trust_store::{TrustError, TrustStore};

use crate::documents::DocumentReader;
use crate::escape_invisible::escape_invisible_line;
use crate::load::LoadedSettings;

/// Items of a project that need trust before they are used.
#[derive(Clone, Debug, Default)]
pub struct TrustInventory {
    pub items: Vec<ProjectItem>,
}

impl TrustInventory {
    /// Finds every item in the settings that were loaded and in the files beside them.
    pub fn collect(loaded: &LoadedSettings) -> Self {
        Self::collect_with(loaded, &DocumentReader::new(&loaded.locations, loaded.sources))
    }

    /// Finds every item, with documents from this reader: what it gives out later is what the items are about.
    pub fn collect_with(loaded: &LoadedSettings, documents: &DocumentReader) -> Self {
        Self { items: item_collector::collect_items(loaded, documents) }
    }

    /// Returns true if this trust covers the item of this kind and name in this file. An item that was not found was
    /// not accepted either.
    pub fn covers(&self, trust: &ProjectTrust, kind: ProjectItemKind, file: &Path, name: &str) -> bool {
        let mut found = self.items.iter().filter(|item| item.kind == kind && item.file == file && item.name == name);
        found.next().is_some_and(|first| trust.covers(first)) && found.all(|item| trust.covers(item))
    }

    /// Returns the items that this trust does not cover.
    pub fn withheld(&self, trust: &ProjectTrust) -> Vec<ProjectItem> {
        self.items.iter().filter(|item| !trust.covers(item)).cloned().collect()
    }
}

/// User's acceptance of a project.
#[derive(Clone, Debug, Default)]
pub struct ProjectTrust {
    everything: bool,
    /// True if another program's record trusts the folder; that does not cover items that run something.
    folder: bool,
    /// True if gimlet itself has a record of this folder.
    known: bool,
    /// True if one record is about this very folder, not about a parent or an earlier folder at this path.
    here: bool,
    accepted: HashSet<String>,
}

impl ProjectTrust {
    /// Returns trust in nothing: the state before the user was asked.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns trust in everything for this run, on request of the user or the calling program.
    pub fn all() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// Adds these items for this run, on request of the user or the calling program.
    pub fn with(self, items: &[ProjectItem]) -> Self {
        Self { known: true, here: true, ..self.with_items(items) }
    }

    /// Adds these items alone, which the user has just written, without trust in the folder.
    pub fn with_items(mut self, items: &[ProjectItem]) -> Self {
        self.accepted.extend(items.iter().map(|item| item.digest.clone()));
        self
    }

    pub fn covers(&self, item: &ProjectItem) -> bool {
        let by_folder = if item.own { self.here } else { self.folder && !self.known };
        self.everything || self.accepted.contains(&item.digest) || (by_folder && !item.executes)
    }

    /// Returns true if the folder was ever accepted, by any program.
    pub fn has_accepted_folder(&self) -> bool {
        self.everything || self.folder || self.known
    }

    /// Returns true if only another program has accepted the folder, which does not cover items that run something.
    pub fn is_accepted_elsewhere_only(&self) -> bool {
        self.folder && !self.known && !self.everything
    }
}

/// Returns one line that names the items not used under this trust, by kind; `None` if there are none.
pub fn describe_withheld(withheld: &[ProjectItem], trust: &ProjectTrust) -> Option<String> {
    const SHOWN: usize = 5;
    const NAME_MAX_CHARS: usize = 60;
    let mut kinds: Vec<(ProjectItemKind, Vec<String>)> = Vec::new();
    for item in withheld {
        let name: String = item.name.chars().take(NAME_MAX_CHARS).collect();
        let name = escape_invisible_line(&name).into_owned();
        match kinds.iter_mut().find(|(kind, _)| *kind == item.kind) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => kinds.push((item.kind, vec![name])),
        }
    }
    // Items that run come before those that allow.
    kinds.sort_by_key(|(kind, _)| *kind);
    let words = kinds.iter().map(|(kind, names)| {
        let rest = names.len().saturating_sub(SHOWN);
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let label = kind.label();
        format!(
            "{label}{} {}{rest}",
            if names.len() > 1 { "s" } else { "" },
            names[..names.len().min(SHOWN)].join(", ")
        )
    });
    let words: Vec<String> = words.collect();
    let why = match trust {
        ProjectTrust { known: true, .. } => "these are new or changed since you trusted this folder, and not used",
        ProjectTrust { folder: true, .. } => {
            "this folder is trusted by another program, which does not cover what runs, so these are not used"
        }
        _ => "this folder is not trusted, so these are not used",
    };
    (!words.is_empty()).then(|| format!("{why}: {}", words.join("; ")))
}
