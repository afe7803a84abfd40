//! Questions that a session has for whoever drives it, and their answers.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{AgentPath, AskId, ServerIdentity, ToolUseId};

/// A question for a person.
#[derive(Clone, Debug)]
pub struct AskView {
    pub id: AskId,
    pub agent: AgentPath,
    /// The subagent's id; `None` when the main conversation asks.
    pub agent_id: Option<String>,
    /// What kind of agent that is.
    pub agent_type: Option<String>,
    pub body: AskBody,
}

#[derive(Clone, Debug)]
pub enum AskBody {
    /// May this call run?
    Permission {
        tool: String,
        /// Whose tool it is, if it is a server's.
        server: Option<ServerIdentity>,
        call: ToolUseId,
        input: Arc<RawValue>,
        /// The tool's name for people.
        label: String,
        summary: String,
        reason: String,
        /// What kind of reason that is: `rule`, `mode`, `workingDir`, `safetyCheck`, `hook`, …
        reason_kind: &'static str,
        /// The path that the question is about.
        path: Option<PathBuf>,
        /// The changes that together would answer this question for good.
        suggestions: Vec<SuggestedChange>,
    },
    /// May what this folder's own files name be used?
    Trust(TrustQuestion),
}

/// A change of permissions that a person can choose, shown before it is made.
#[derive(Clone, Debug)]
pub struct SuggestedChange {
    /// What it would let pass from then on.
    pub covers: String,
    /// In the form that hooks and programs share.
    pub update: Arc<RawValue>,
}

/// What in a folder waits for trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustQuestion {
    pub folder: PathBuf,
    pub items: Vec<TrustItem>,
}

/// One thing that would run or allow something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustItem {
    pub title: String,
    pub file: PathBuf,
    pub line: Option<usize>,
    /// Its text, or how it differs from what was accepted before.
    pub shown: String,
    /// Nothing under this name was accepted before.
    pub is_new: bool,
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub enum AskAnswer {
    Yes(Approval),
    No {
        message: String,
        /// Stop the turn, too.
        interrupt: bool,
    },
    /// Whoever was asked failed to answer, and why. It counts as a no that nobody said.
    Failed(String),
    /// Nobody was asked, and why. It counts as a no as well.
    NotAsked(String),
}

/// A yes and what comes with it.
#[derive(Clone, Debug, Default)]
pub struct Approval {
    /// Run it with this input instead; it is decided again.
    pub input: Option<Box<RawValue>>,
    /// Make these changes first, in the form of [`SuggestedChange::update`].
    pub changes: Vec<Arc<RawValue>>,
}

impl AskAnswer {
    /// Yes, once.
    pub fn yes() -> Self {
        AskAnswer::Yes(Approval::default())
    }
}
