//! Which of a project's files may act. Everything in a project that could run something, or allow something, is an
//! [`Item`] with a digest of its content; the person accepts items, not folders, and an item that changes waits again.
//!
//! Looking is inert: files are parsed with bounds, no program runs, and no link is followed out of the project.

mod change;
mod collect;
mod documents;
mod item;
mod scripts;
mod shell;
mod store;

use std::collections::HashSet;
use std::path::Path;

pub use change::Change;
pub use item::{Item, ItemKind};
pub use store::{TrustError, TrustStore};

use crate::load::Loaded;
use crate::visible::visible_line;

/// Everything in a project that needs trust before it is used.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    pub items: Vec<Item>,
}

impl Inventory {
    /// Finds every item in the settings that were loaded and in the files beside them.
    pub fn collect(loaded: &Loaded) -> Self {
        Self { items: collect::items(loaded) }
    }

    /// Whether this trust covers the item of this kind and name in this file. What was not found, for whatever reason,
    /// was not accepted either.
    pub fn covers(&self, trust: &Trust, kind: ItemKind, file: &Path, name: &str) -> bool {
        let mut found = self.items.iter().filter(|item| item.kind == kind && item.file == file && item.name == name);
        found.next().is_some_and(|first| trust.covers(first)) && found.all(|item| trust.covers(item))
    }

    /// The items that this trust does not cover.
    pub fn withheld(&self, trust: &Trust) -> Vec<Item> {
        self.items.iter().filter(|item| !trust.covers(item)).cloned().collect()
    }
}

/// What the person has accepted of a project.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    everything: bool,
    /// Another program's record says that the folder is trusted; it says nothing about what runs.
    folder: bool,
    /// gimlet itself has a record of this folder.
    known: bool,
    /// One of them is about this very folder, as it was then, and not about one above it or another that lay here.
    here: bool,
    accepted: HashSet<String>,
}

impl Trust {
    /// Nothing is trusted: the state before the person was asked.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Everything is trusted for this run: the person or the calling program said so.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// The same, and these items for this run: the person or the calling program said so.
    pub fn with(self, items: &[Item]) -> Self {
        Self { known: true, here: true, ..self.and(items) }
    }

    /// The same, and these items alone: the person has just said them, and nothing about the folder.
    pub fn and(mut self, items: &[Item]) -> Self {
        self.accepted.extend(items.iter().map(|item| item.digest.clone()));
        self
    }

    pub fn covers(&self, item: &Item) -> bool {
        let by_folder = if item.own { self.here } else { self.folder && !self.known };
        self.everything || self.accepted.contains(&item.digest) || (by_folder && !item.executes)
    }

    /// Whether the folder was ever accepted, by whatever program.
    pub fn is_known(&self) -> bool {
        self.everything || self.folder || self.known
    }

    /// Whether only another program has accepted the folder, which says nothing about what runs.
    pub fn is_by_others(&self) -> bool {
        self.folder && !self.known && !self.everything
    }
}

/// One line for people that names what is not used under this trust, by kind.
pub fn withheld_line(withheld: &[Item], trust: &Trust) -> Option<String> {
    const SHOWN: usize = 5;
    const NAME_MAX_CHARS: usize = 60;
    let mut kinds: Vec<(ItemKind, Vec<String>)> = Vec::new();
    for item in withheld {
        let name: String = item.name.chars().take(NAME_MAX_CHARS).collect();
        let name = visible_line(&name).into_owned();
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
        Trust { known: true, .. } => "these are new or changed since you trusted this folder, and not used",
        Trust { folder: true, .. } => {
            "this folder is trusted by another program, which does not cover what runs, so these are not used"
        }
        _ => "this folder is not trusted, so these are not used",
    };
    (!words.is_empty()).then(|| format!("{why}: {}", words.join("; ")))
}
