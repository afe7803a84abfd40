//! Where the texts in front of a segment's messages come from, and texts of the same kinds that join the conversation
//! later. A segment asks its sources once, when it opens; what was sent is never changed, only added to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_policy::{DeniedFiles, RuleSet};
use gimlet_proto::ModelFacts;
use gimlet_store::{ContextPartKind, ContextPartSource, SegmentContextPart};

use crate::tool::ToolSet;

/// Source of texts that the model gets beside the conversation: memory, lists of skills and agents. All methods may
/// block: they are called on a thread for that.
pub trait SegmentContextSource: Send + Sync {
    /// Returns the texts that a segment opens with, from files as they are now.
    fn opening_parts(&self, request: &SegmentContextRequest) -> SegmentContextUpdate;

    /// Returns what joins the conversation because these files were read.
    fn parts_for_read_files(&self, _files: &[PathBuf], _request: &SegmentContextRequest) -> SegmentContextUpdate {
        SegmentContextUpdate::default()
    }

    /// Returns what joins the conversation because its calls wrote these files, which are named without symlinks.
    fn parts_for_written_files(&self, _files: &[PathBuf], _request: &SegmentContextRequest) -> SegmentContextUpdate {
        SegmentContextUpdate::default()
    }

    /// Returns what the model is to be told of changes since [`SegmentContextRequest::delivered`]. Called before every
    /// prompt, so it must be cheap while nothing changes.
    fn changed_parts(&self, _request: &SegmentContextRequest) -> SegmentContextUpdate {
        SegmentContextUpdate::default()
    }
}

/// Texts of a source, in the order in which the model gets them.
#[derive(Debug, Default)]
pub struct SegmentContextUpdate {
    pub parts: Vec<SegmentContextPart>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Circumstances in which a source is asked.
pub struct SegmentContextRequest {
    /// Subagent whose conversation it is; `None` for the main one.
    pub agent: Option<SegmentAgent>,
    /// Model that gets the texts.
    pub facts: ModelFacts,
    /// Working directories beside the project.
    pub added_dirs: Vec<PathBuf>,
    /// Parts that the conversation has already.
    pub delivered: Arc<DeliveredContext>,
    /// Rules that hold.
    pub rules: Arc<RuleSet>,
    /// Tools that the conversation has.
    pub(crate) tools: ToolSet,
    /// Files that no document may lead to.
    pub(crate) denied: DeniedFiles,
}

/// Subagent whose conversation gets texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentAgent {
    pub kind: String,
    /// False for kinds that work without memory.
    pub loads_memory: bool,
}

impl SegmentContextRequest {
    /// Returns true if the conversation has a tool of this name.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.offered().any(|tool| tool.name() == name)
    }

    /// Returns true if rules let a document lead to this file, and it is no place for credentials.
    pub fn may_read(&self, path: &Path) -> bool {
        !self.denied.contains(path)
    }
}

/// Parts that a conversation has got in its present segment, in order.
#[derive(Clone, Debug, Default)]
pub struct DeliveredContext {
    parts: Vec<SegmentContextPart>,
}

impl DeliveredContext {
    pub fn new(parts: Vec<SegmentContextPart>) -> Self {
        Self { parts }
    }

    pub fn parts(&self) -> &[SegmentContextPart] {
        &self.parts
    }

    /// Returns the files of a kind. One that was delivered again is there more than once; its last state counts.
    pub fn sources(&self, kind: ContextPartKind) -> impl Iterator<Item = &ContextPartSource> {
        self.parts.iter().filter(move |part| part.kind == kind).filter_map(|part| part.source.as_ref())
    }

    /// Returns the total size of a kind's texts.
    pub fn bytes(&self, kind: ContextPartKind) -> usize {
        self.parts.iter().filter(|part| part.kind == kind).map(|part| part.text.len()).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    pub(crate) fn push(&mut self, part: SegmentContextPart) {
        self.parts.push(part);
    }

    /// Removes the newest parts, which the conversation no longer has.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.parts.truncate(len);
    }
}
