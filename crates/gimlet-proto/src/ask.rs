//! Questions that a session asks its user, and their answers. Every front end gets all of them the same way, as
//! `EventBody::Ask`, and answers with `Op::Answer`.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{AgentPath, AskId, ServerIdentity, ToolUseId, View};

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
    Permission(Box<PermissionAsk>),
    /// A call asks the user questions. Answered with [`AskAnswer::Replied`]; a yes runs the call without answers.
    Question { call: Box<PermissionAsk>, questions: Vec<UserQuestion> },
    /// A call presents a plan for approval. A yes approves it as it is, [`UserReply::Plan`] with changes.
    Plan { call: Box<PermissionAsk>, plan: String, file: Option<PathBuf> },
    /// A server asks the user something. Answered with [`AskAnswer::Elicited`]; any other answer declines.
    Elicitation(Box<ElicitationAsk>),
    /// May what this folder's own files name be used?
    Trust(TrustQuestion),
}

impl AskBody {
    /// Returns the call that waits for the answer; `None` if no call does.
    pub fn call(&self) -> Option<&PermissionAsk> {
        match self {
            AskBody::Permission(call) | AskBody::Question { call, .. } | AskBody::Plan { call, .. } => Some(call),
            AskBody::Elicitation(_) | AskBody::Trust(_) => None,
        }
    }
}

/// A call that waits for the user's permission or reply.
#[derive(Clone, Debug)]
pub struct PermissionAsk {
    pub tool: String,
    /// Whose tool it is, if it is a server's.
    pub server: Option<ServerIdentity>,
    pub call: ToolUseId,
    pub input: Arc<RawValue>,
    /// The tool's display name.
    pub label: String,
    pub summary: String,
    pub reason: String,
    /// Kind of that reason: `rule`, `mode`, `workingDir`, `safetyCheck`, `hook`, …
    pub reason_kind: &'static str,
    /// The path that the question is about.
    pub path: Option<PathBuf>,
    /// The changes that together would answer this question for good.
    pub suggestions: Vec<SuggestedChange>,
    /// What the call would do: the diff of an edit, the command, the arguments.
    pub preview: View,
    /// True if the call destroys data that cannot be restored.
    pub destructive: bool,
}

/// What a call asks the user beyond whether it may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallQuestion {
    Questions(Vec<UserQuestion>),
    Plan { plan: String, file: Option<PathBuf> },
}

/// One question with answers to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserQuestion {
    pub question: String,
    /// A tag for it, of one or two words.
    pub header: String,
    pub options: Vec<QuestionChoice>,
    /// Several may be chosen.
    pub multi_select: bool,
}

/// One answer to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionChoice {
    pub label: String,
    pub description: String,
    /// What it would look like.
    pub preview: Option<String>,
}

/// A server's question to the user.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitationAsk {
    pub server: String,
    pub message: String,
    pub request: ElicitationRequest,
    /// The question in the form that hooks and programs share, an object.
    pub raw: serde_json::Map<String, serde_json::Value>,
}

/// What a server wants.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationRequest {
    /// Values for the properties of this JSON Schema.
    Form { schema: serde_json::Value },
    /// A visit of this address.
    Url { url: String },
}

/// The user's reaction to a server's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitationAction {
    Accept,
    Decline,
    /// Dismissed without a choice.
    Cancel,
}

impl ElicitationAction {
    /// Returns the public word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ElicitationAction::Accept => "accept",
            ElicitationAction::Decline => "decline",
            ElicitationAction::Cancel => "cancel",
        }
    }

    /// Returns the action with this public word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Accept, Self::Decline, Self::Cancel].into_iter().find(|action| action.as_str() == word)
    }
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
    /// The reply to what a call asked; the call runs with it.
    Replied(UserReply),
    /// The reaction to a server's question, with the values for an accepted form.
    Elicited {
        action: ElicitationAction,
        content: Option<serde_json::Map<String, serde_json::Value>>,
    },
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

/// The user's reply to what a call asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserReply {
    Answers(QuestionAnswers),
    /// The approved plan, as the user changed it.
    Plan(String),
}

/// Answers to a call's questions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionAnswers {
    /// Each question's text with the chosen labels or the user's own words.
    pub answers: Vec<(String, Vec<String>)>,
    /// A reply to the questions as a whole, in place of answers.
    pub response: Option<String>,
    /// The user's notes beside an answer, by the question's text.
    pub notes: Vec<(String, String)>,
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
