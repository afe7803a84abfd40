//! Verdicts and their reasons, in a form that can be shown to users and the model and written to the ledger. It holds
//! no policy of its own.

mod form;

use std::fmt;
use std::path::PathBuf;

use gimlet_proto::PermissionMode;
use serde::{Deserialize, Serialize};

use crate::rules::{Behavior, RuleSource};
use crate::shell::ParseTrouble;

/// The three outcomes, from allowed to forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

impl Decision {
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One reason of a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "form::ReasonForm", from = "form::ReasonForm")]
pub enum VerdictReason {
    /// A rule matched.
    Rule { behavior: Behavior, text: String, source: RuleSource },
    /// Part of the call is only known when it runs, and it could then be what this rule is about.
    MayMatchRule { text: String, source: RuleSource },
    /// The mode grants or blocks it.
    Mode(PermissionMode),
    /// The command only reads, inside the working directories.
    ReadOnly,
    /// The path is inside a working directory.
    WorkingDirectory,
    /// The path is outside the working directories.
    OutsideWorkingDirectories(PathBuf),
    /// The path is in the home directory of another user.
    OtherHome(PathBuf),
    /// Reading it reveals credentials.
    Credentials(PathBuf),
    /// Only the session's own state is touched.
    SessionState,
    /// `rm` or `rmdir` of something whose loss would be critical.
    CriticalRemoval(String),
    /// A write to a file that other programs run or trust.
    ProtectedPath(PathBuf),
    /// The command could not be fully understood.
    NotUnderstood(ParseTrouble),
    /// Git would run programs that this file of the repository names.
    GitRuns(PathBuf),
    /// The path is malformed, or could not be resolved.
    OddPath(PathBuf),
    /// The tool always needs the user.
    NeedsPerson,
    /// Reason of the tool itself.
    Tool(String),
    /// Reason of a hook.
    Hook(String),
    /// In auto mode: a classifier may answer the question in place of the user.
    ClassifierMayAnswer,
    /// The command runs in the sandbox, which confines everything it does.
    Sandboxed,
    /// The command requests to run outside the sandbox.
    LeavesSandbox,
    /// The command would grant or revoke trust in a folder.
    GivesTrust,
    /// The command would change settings, which can hold rules.
    ChangesSettings,
    /// It ran confined, because it seemed to only read, and failed because of that; holds the blocked operation.
    ConfinementFailed(String),
    /// Settings of the user could not be read, and may forbid it.
    UnreadSettings,
    /// Nothing allows it.
    Default,
    /// Nothing allows this part of a command; a rule may nearly cover it.
    Unmatched { part: String, near: Option<Box<NearRule>> },
}

/// An allow rule that is about a command and does not cover it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearRule {
    pub text: String,
    pub source: RuleSource,
    /// Clause that keeps the rule from covering it; it follows "because".
    pub because: String,
}

/// Verdict on one part of a command by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartVerdict {
    pub part: String,
    pub decision: Decision,
    pub reason: VerdictReason,
}

/// A decision with its reasons. The first reason is the one that decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub decision: Decision,
    pub reasons: Vec<VerdictReason>,
}

impl Verdict {
    /// Returns true if nothing approved the call, neither the user nor a rule, a hook or a mode: it is allowed only
    /// because the analysis of a command found that it only reads.
    pub fn is_by_analysis_alone(&self) -> bool {
        let is_found =
            |reason: &VerdictReason| matches!(reason, VerdictReason::ReadOnly | VerdictReason::WorkingDirectory);
        self.decision == Decision::Allow
            && self.reasons.contains(&VerdictReason::ReadOnly)
            && self.reasons.iter().all(is_found)
    }

    /// Returns the question about a command that failed because it was confined, `why` being the blocked operation;
    /// where no question is possible, the refusal.
    pub fn after_confinement(mode: PermissionMode, why: &str) -> Self {
        let reason = VerdictReason::ConfinementFailed(why.to_owned());
        match mode {
            PermissionMode::DontAsk => {
                Self { decision: Decision::Deny, reasons: vec![VerdictReason::Mode(PermissionMode::DontAsk), reason] }
            }
            PermissionMode::Auto => {
                Self { decision: Decision::Ask, reasons: vec![reason, VerdictReason::ClassifierMayAnswer] }
            }
            _ => Self::new(Decision::Ask, reason),
        }
    }

    pub(crate) fn new(decision: Decision, reason: VerdictReason) -> Self {
        Self { decision, reasons: vec![reason] }
    }

    /// Returns one line for users.
    pub fn explain(&self) -> String {
        let word = match self.decision {
            Decision::Allow => "allowed",
            Decision::Ask => "asks",
            Decision::Deny => "refused",
        };
        format!("{word}: {}", self.why())
    }

    /// Returns the reasons without the decision.
    pub fn why(&self) -> String {
        self.reasons.iter().map(VerdictReason::describe).collect::<Vec<_>>().join("; ")
    }

    /// Returns one paragraph for the model: what was refused, why, and what it may do instead.
    pub fn model_text(&self, tool: &str) -> String {
        let Some(reason) = self.reasons.first() else {
            return format!("{tool} was not run.");
        };
        let why = self.why();
        let is_retry = self.reasons.iter().any(|reason| matches!(reason, VerdictReason::ConfinementFailed(_)));
        let outcome = if is_retry { "was not run again unconfined" } else { "was not run" };
        format!("{tool} {outcome}: {why}. {}", reason.advice())
    }
}

impl VerdictReason {
    /// Returns a description for users.
    pub fn describe(&self) -> String {
        match self {
            VerdictReason::Rule { behavior, text, source } => {
                format!("the {} rule `{text}` from {source}", behavior.as_str())
            }
            VerdictReason::MayMatchRule { text, source } => {
                format!("part of it is only known when it runs and could fall under the rule `{text}` from {source}")
            }
            VerdictReason::Mode(mode) => format!("the permission mode is {mode}{}", describe_mode_effect(*mode)),
            VerdictReason::ReadOnly => "it only reads, inside the working directories".to_owned(),
            VerdictReason::WorkingDirectory => "the path is inside a working directory".to_owned(),
            VerdictReason::OutsideWorkingDirectories(path) => {
                format!("{} is outside the working directories", path.display())
            }
            VerdictReason::OtherHome(path) => format!("{} is in another user's home directory", path.display()),
            VerdictReason::Credentials(path) => format!("{} is a place for credentials", path.display()),
            VerdictReason::SessionState => "it touches only the session's own state".to_owned(),
            VerdictReason::CriticalRemoval(what) => format!("it would remove {what}"),
            VerdictReason::ProtectedPath(path) => format!("{} is a protected path", path.display()),
            VerdictReason::GitRuns(file) => {
                format!("git would run programs or show files that {} names", file.display())
            }
            VerdictReason::NotUnderstood(trouble) => format!("the command could not be fully understood: {trouble}"),
            VerdictReason::OddPath(path) => format!(
                "the path {:?} cannot be resolved: it is malformed, loops through symlinks, or cannot be read",
                path.display()
            ),
            VerdictReason::NeedsPerson => "this tool always asks a person".to_owned(),
            VerdictReason::Tool(why) | VerdictReason::Hook(why) => why.clone(),
            VerdictReason::ClassifierMayAnswer => "a classifier may answer it".to_owned(),
            VerdictReason::Sandboxed => "it runs in the sandbox".to_owned(),
            VerdictReason::LeavesSandbox => "it would run outside the sandbox".to_owned(),
            VerdictReason::GivesTrust => {
                "it would change what a folder is trusted with, which is a person's to say".to_owned()
            }
            VerdictReason::ChangesSettings => "it would change gimlet's settings".to_owned(),
            VerdictReason::ConfinementFailed(why) => {
                format!("it only seems to read, so it ran confined, and failed because of that: {why}")
            }
            VerdictReason::UnreadSettings => {
                "no rule allows it, and settings that could not be read may forbid it".to_owned()
            }
            VerdictReason::Default => "no rule allows it".to_owned(),
            VerdictReason::Unmatched { part, near: None } => format!("nothing allows `{part}`"),
            VerdictReason::Unmatched { part, near: Some(near) } => {
                let NearRule { text, source, because } = &**near;
                format!("the allow rule `{text}` from {source} does not cover `{part}`, because {because}")
            }
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            VerdictReason::Rule { .. } => {
                "The rule stands for every spelling of the same action; do the task another way or tell the user what \
                 you would need."
            }
            VerdictReason::MayMatchRule { .. } => "Write the command out with literal words and try again.",
            VerdictReason::Mode(PermissionMode::Plan) => {
                "While planning, only look: read files, search, run read-only commands, then present the plan."
            }
            VerdictReason::Mode(_) => {
                "Use calls that are already allowed, or tell the user which permission you would need."
            }
            VerdictReason::CriticalRemoval(_) => "Name the exact files or sub-directories to remove instead.",
            VerdictReason::Credentials(_) => "Leave it alone, or ask the user for what you need from it.",
            VerdictReason::ProtectedPath(_) => "Leave this file alone, or ask the user to change it.",
            VerdictReason::GitRuns(_) => "Read the files themselves, or ask the user to allow this command.",
            VerdictReason::NotUnderstood(ParseTrouble::TooLong) => "Write it to a script file and run that.",
            VerdictReason::NotUnderstood(_) => "Split it into simple commands with literal words.",
            VerdictReason::OutsideWorkingDirectories(_) => {
                "Stay inside the working directories, or ask the user to add this directory."
            }
            VerdictReason::OtherHome(_) => {
                "Leave it alone; the user can add the directory to the session or allow the path with a rule."
            }
            VerdictReason::OddPath(_) => "Use a plain absolute path.",
            VerdictReason::GivesTrust => "Tell the user what should be trusted and why; they can do it in a terminal.",
            VerdictReason::ChangesSettings => "Leave settings alone, or tell the user what should be changed and why.",
            VerdictReason::LeavesSandbox => "Run it inside the sandbox, or tell the user what it needs outside.",
            VerdictReason::ReadOnly
            | VerdictReason::Sandboxed
            | VerdictReason::WorkingDirectory
            | VerdictReason::SessionState
            | VerdictReason::NeedsPerson
            | VerdictReason::Tool(_)
            | VerdictReason::Hook(_)
            | VerdictReason::ClassifierMayAnswer
            | VerdictReason::Unmatched { .. }
            | VerdictReason::ConfinementFailed(_)
            | VerdictReason::UnreadSettings
            | VerdictReason::Default => {
                "Use calls that are already allowed; if there are none, go on without and say in your answer which permission was missing."
            }
        }
    }
}

/// Explains why a mode decides.
fn describe_mode_effect(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::AcceptEdits => ", which lets files in the working directories be written",
        PermissionMode::Plan => ", in which nothing is changed",
        PermissionMode::DontAsk => ", which refuses whatever would ask",
        PermissionMode::BypassPermissions => ", which asks for almost nothing",
        PermissionMode::Default | PermissionMode::Auto => "",
    }
}
