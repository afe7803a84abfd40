//! Which of a project's files may act. Everything in a project that could run something, or allow something, is an
//! [`Item`] with a digest of its content; the person accepts items, not folders, and an item that changes waits again.
//!
//! Looking is inert: files are parsed with bounds, no program runs, and no link is followed out of the project.

mod documents;
mod item_change;
mod item_collector;
mod project_item;
mod referenced_scripts;
mod shell_scan;
mod trust_store;

use std::collections::HashSet;
use std::path::Path;

pub use item_change::ItemChange;
pub use project_item::{ProjectItem, ProjectItemKind};
pub use trust_store::{TrustError, TrustStore};

use crate::escape_invisible::escape_invisible_line;
use crate::load::LoadedSettings;

/// Everything in a project that needs trust before it is used.
#[derive(Clone, Debug, Default)]
pub struct TrustInventory {
    pub items: Vec<ProjectItem>,
}

impl TrustInventory {
    /// Finds every item in the settings that were loaded and in the files beside them.
    pub fn collect(loaded: &LoadedSettings) -> Self {
        Self { items: item_collector::collect_items(loaded) }
    }

    /// Whether this trust covers the item of this kind and name in this file. What was not found, for whatever reason,
    /// was not accepted either.
    pub fn covers(&self, trust: &ProjectTrust, kind: ProjectItemKind, file: &Path, name: &str) -> bool {
        let mut found = self.items.iter().filter(|item| item.kind == kind && item.file == file && item.name == name);
        found.next().is_some_and(|first| trust.covers(first)) && found.all(|item| trust.covers(item))
    }

    /// The items that this trust does not cover.
    pub fn withheld(&self, trust: &ProjectTrust) -> Vec<ProjectItem> {
        self.items.iter().filter(|item| !trust.covers(item)).cloned().collect()
    }
}

/// What the person has accepted of a project.
#[derive(Clone, Debug, Default)]
pub struct ProjectTrust {
    everything: bool,
    /// Another program's record says that the folder is trusted; it says nothing about what runs.
    folder: bool,
    /// gimlet itself has a record of this folder.
    known: bool,
    /// One of them is about this very folder, as it was then, and not about one above it or another that lay here.
    here: bool,
    accepted: HashSet<String>,
}

impl ProjectTrust {
    /// Nothing is trusted: the state before the person was asked.
    pub fn none() -> Self {
        Self::default()
    }

    /// Everything is trusted for this run: the person or the calling program said so.
    pub fn all() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// The same, and these items for this run: the person or the calling program said so.
    pub fn with(self, items: &[ProjectItem]) -> Self {
        Self { known: true, here: true, ..self.with_items(items) }
    }

    /// The same, and these items alone: the person has just said them, and nothing about the folder.
    pub fn with_items(mut self, items: &[ProjectItem]) -> Self {
        self.accepted.extend(items.iter().map(|item| item.digest.clone()));
        self
    }

    pub fn covers(&self, item: &ProjectItem) -> bool {
        let by_folder = if item.own { self.here } else { self.folder && !self.known };
        self.everything || self.accepted.contains(&item.digest) || (by_folder && !item.executes)
    }

    /// Whether the folder was ever accepted, by whatever program.
    pub fn has_accepted_folder(&self) -> bool {
        self.everything || self.folder || self.known
    }

    /// Whether only another program has accepted the folder, which says nothing about what runs.
    pub fn is_accepted_elsewhere_only(&self) -> bool {
        self.folder && !self.known && !self.everything
    }
}

/// One line for people that names what is not used under this trust, by kind.
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
    // What runs is named before what allows.
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
