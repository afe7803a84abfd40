//! Questions that a session asks its driver, and their answers.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{AgentPath, AskId, ServerIdentity, ToolUseId};

/// A question for the user.
#[derive(Clone, Debug)]
pub struct AskView {
    pub id: AskId,
    pub agent: AgentPath,
    /// The subagent's id; `None` when the main conversation asks.
    pub agent_id: Option<String>,
    /// Type of that agent.
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
        /// The tool's display name.
        label: String,
        summary: String,
        reason: String,
        /// Kind of that reason: `rule`, `mode`, `workingDir`, `safetyCheck`, `hook`, …
        reason_kind: &'static str,
        /// The path that the question is about.
        path: Option<PathBuf>,
        /// The changes that together would answer this question for good.
        suggestions: Vec<SuggestedChange>,
    },
    /// May what this folder's own files name be used?
    Trust(TrustQuestion),
}

/// A permission change that the user can choose, shown before it is made.
#[derive(Clone, Debug)]
pub struct SuggestedChange {
    /// Description of the calls that it would allow from then on.
    pub covers: String,
    /// In the form that hooks and programs share.
    pub update: Arc<RawValue>,
}

/// Contents of a folder that require the user's trust.
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
    /// The asked party failed to answer, with the reason. Counts as a denial that was not an explicit answer.
    Failed(String),
    /// No question was asked, with the reason. Also counts as a denial.
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
