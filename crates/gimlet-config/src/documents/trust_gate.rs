//! Values that wait for the user's trust in a project.

use std::fmt;
use std::sync::Arc;

use crate::trust::{ProjectItem, ProjectTrust};

/// Condition under which a value may be used.
#[derive(Clone, Debug)]
pub(super) enum TrustGate {
    /// The user or the administrator wrote the document.
    Open,
    /// The project wrote it and runs or grants nothing by it, so trust in the folder is enough.
    Folder,
    /// The document is an item, to be trusted with its content.
    Item(Arc<ProjectItem>),
}

impl TrustGate {
    pub(super) fn is_open(&self, trust: &ProjectTrust) -> bool {
        match self {
            TrustGate::Open => true,
            TrustGate::Folder => trust.has_accepted_folder(),
            TrustGate::Item(item) => trust.covers(item),
        }
    }

    pub(super) fn item(&self) -> Option<&ProjectItem> {
        match self {
            TrustGate::Item(item) => Some(item),
            TrustGate::Open | TrustGate::Folder => None,
        }
    }
}

/// Fields of a document that act, which only trust gives access to.
#[derive(Clone)]
pub struct TrustGated<T> {
    value: T,
    /// Names of the fields that are set.
    fields: Vec<&'static str>,
    gate: TrustGate,
}

impl<T> fmt::Debug for TrustGated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustGated").field("fields", &self.fields).finish_non_exhaustive()
    }
}

impl<T> TrustGated<T> {
    pub(super) fn new(value: T, fields: Vec<&'static str>, gate: TrustGate) -> Self {
        Self { value, fields, gate }
    }

    /// Returns the fields; `None` if this trust does not cover them.
    pub fn get(&self, trust: &ProjectTrust) -> Option<&T> {
        self.gate.is_open(trust).then_some(&self.value)
    }

    /// Returns the names of the fields that are set and that this trust does not cover.
    pub fn withheld_fields(&self, trust: &ProjectTrust) -> &[&'static str] {
        if self.gate.is_open(trust) { &[] } else { &self.fields }
    }

    /// Returns the item that the document is for trust; `None` if it runs and grants nothing, or is the user's own.
    pub fn trust_item(&self) -> Option<&ProjectItem> {
        self.gate.item()
    }
}
