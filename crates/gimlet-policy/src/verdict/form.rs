//! The written form of a reason: an object whose `kind` names it, with plain fields. It is kept in decision ledgers and
//! read back later, so names here change only together with a reader for the old ones.

use std::path::{Path, PathBuf};

use gimlet_proto::PermissionMode;
use serde::{Deserialize, Serialize};

use super::{NearRule, VerdictReason};
use crate::rules::{Behavior, RuleSource};
use crate::shell::ParseTrouble;

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) enum ReasonForm {
    Rule {
        behavior: Behavior,
        rule: String,
        source: RuleSource,
    },
    MayMatchRule {
        rule: String,
        source: RuleSource,
    },
    Mode {
        mode: PermissionMode,
    },
    ReadOnly,
    WorkingDirectory,
    OutsideWorkingDirectories {
        path: String,
    },
    OtherHome {
        path: String,
    },
    Credentials {
        path: String,
    },
    SessionState,
    CriticalRemoval {
        what: String,
    },
    ProtectedPath {
        path: String,
    },
    GitRuns {
        path: String,
    },
    NotUnderstood {
        trouble: ParseTrouble,
    },
    OddPath {
        path: String,
    },
    NeedsPerson,
    Tool {
        text: String,
    },
    Hook {
        text: String,
    },
    ClassifierMayAnswer,
    Sandboxed,
    LeavesSandbox,
    GivesTrust,
    ChangesSettings,
    ConfinementFailed {
        text: String,
    },
    UnreadSettings,
    Default,
    Unmatched {
        part: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        near: Option<Box<NearRule>>,
    },
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl From<VerdictReason> for ReasonForm {
    fn from(reason: VerdictReason) -> Self {
        match reason {
            VerdictReason::Rule { behavior, text: rule, source } => ReasonForm::Rule { behavior, rule, source },
            VerdictReason::MayMatchRule { text: rule, source } => ReasonForm::MayMatchRule { rule, source },
            VerdictReason::Mode(mode) => ReasonForm::Mode { mode },
            VerdictReason::ReadOnly => ReasonForm::ReadOnly,
            VerdictReason::WorkingDirectory => ReasonForm::WorkingDirectory,
            VerdictReason::OutsideWorkingDirectories(path) => {
                ReasonForm::OutsideWorkingDirectories { path: path_text(&path) }
            }
            VerdictReason::OtherHome(path) => ReasonForm::OtherHome { path: path_text(&path) },
            VerdictReason::Credentials(path) => ReasonForm::Credentials { path: path_text(&path) },
            VerdictReason::SessionState => ReasonForm::SessionState,
            VerdictReason::CriticalRemoval(what) => ReasonForm::CriticalRemoval { what },
            VerdictReason::ProtectedPath(path) => ReasonForm::ProtectedPath { path: path_text(&path) },
            VerdictReason::GitRuns(path) => ReasonForm::GitRuns { path: path_text(&path) },
            VerdictReason::NotUnderstood(trouble) => ReasonForm::NotUnderstood { trouble },
            VerdictReason::OddPath(path) => ReasonForm::OddPath { path: path_text(&path) },
            VerdictReason::NeedsPerson => ReasonForm::NeedsPerson,
            VerdictReason::Tool(text) => ReasonForm::Tool { text },
            VerdictReason::Hook(text) => ReasonForm::Hook { text },
            VerdictReason::ClassifierMayAnswer => ReasonForm::ClassifierMayAnswer,
            VerdictReason::Sandboxed => ReasonForm::Sandboxed,
            VerdictReason::LeavesSandbox => ReasonForm::LeavesSandbox,
            VerdictReason::GivesTrust => ReasonForm::GivesTrust,
            VerdictReason::ChangesSettings => ReasonForm::ChangesSettings,
            VerdictReason::ConfinementFailed(text) => ReasonForm::ConfinementFailed { text },
            VerdictReason::UnreadSettings => ReasonForm::UnreadSettings,
            VerdictReason::Default => ReasonForm::Default,
            VerdictReason::Unmatched { part, near } => ReasonForm::Unmatched { part, near },
        }
    }
}

impl From<ReasonForm> for VerdictReason {
    fn from(form: ReasonForm) -> Self {
        match form {
            ReasonForm::Rule { behavior, rule: text, source } => VerdictReason::Rule { behavior, text, source },
            ReasonForm::MayMatchRule { rule: text, source } => VerdictReason::MayMatchRule { text, source },
            ReasonForm::Mode { mode } => VerdictReason::Mode(mode),
            ReasonForm::ReadOnly => VerdictReason::ReadOnly,
            ReasonForm::WorkingDirectory => VerdictReason::WorkingDirectory,
            ReasonForm::OutsideWorkingDirectories { path } => {
                VerdictReason::OutsideWorkingDirectories(PathBuf::from(path))
            }
            ReasonForm::OtherHome { path } => VerdictReason::OtherHome(PathBuf::from(path)),
            ReasonForm::Credentials { path } => VerdictReason::Credentials(PathBuf::from(path)),
            ReasonForm::SessionState => VerdictReason::SessionState,
            ReasonForm::CriticalRemoval { what } => VerdictReason::CriticalRemoval(what),
            ReasonForm::ProtectedPath { path } => VerdictReason::ProtectedPath(PathBuf::from(path)),
            ReasonForm::GitRuns { path } => VerdictReason::GitRuns(PathBuf::from(path)),
            ReasonForm::NotUnderstood { trouble } => VerdictReason::NotUnderstood(trouble),
            ReasonForm::OddPath { path } => VerdictReason::OddPath(PathBuf::from(path)),
            ReasonForm::NeedsPerson => VerdictReason::NeedsPerson,
            ReasonForm::Tool { text } => VerdictReason::Tool(text),
            ReasonForm::Hook { text } => VerdictReason::Hook(text),
            ReasonForm::ClassifierMayAnswer => VerdictReason::ClassifierMayAnswer,
            ReasonForm::Sandboxed => VerdictReason::Sandboxed,
            ReasonForm::LeavesSandbox => VerdictReason::LeavesSandbox,
            ReasonForm::GivesTrust => VerdictReason::GivesTrust,
            ReasonForm::ChangesSettings => VerdictReason::ChangesSettings,
            ReasonForm::ConfinementFailed { text } => VerdictReason::ConfinementFailed(text),
            ReasonForm::UnreadSettings => VerdictReason::UnreadSettings,
            ReasonForm::Default => VerdictReason::Default,
            ReasonForm::Unmatched { part, near } => VerdictReason::Unmatched { part, near },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RuleScope;
    use crate::verdict::{Decision, Verdict};

    #[test]
    fn every_reason_is_read_back_as_it_was_written() {
        let source = RuleSource::new(RuleScope::Project, "/repo").in_file("/repo/.claude/settings.json", Some(4));
        let reasons = vec![
            VerdictReason::Rule { behavior: Behavior::Deny, text: "Bash(rm *)".into(), source: source.clone() },
            VerdictReason::MayMatchRule { text: "Bash(rm *)".into(), source: source.clone() },
            VerdictReason::Mode(PermissionMode::AcceptEdits),
            VerdictReason::ReadOnly,
            VerdictReason::WorkingDirectory,
            VerdictReason::OutsideWorkingDirectories("/etc/hosts".into()),
            VerdictReason::OtherHome("/home/ann/a".into()),
            VerdictReason::Credentials("/home/ada/.ssh/id".into()),
            VerdictReason::SessionState,
            VerdictReason::CriticalRemoval("the home directory".into()),
            VerdictReason::ProtectedPath("/repo/.git/config".into()),
            VerdictReason::GitRuns("/repo/.git/config".into()),
            VerdictReason::NotUnderstood(ParseTrouble::TooLong),
            VerdictReason::OddPath("/proc/self/root".into()),
            VerdictReason::NeedsPerson,
            VerdictReason::Tool("why".into()),
            VerdictReason::Hook("why".into()),
            VerdictReason::ClassifierMayAnswer,
            VerdictReason::Sandboxed,
            VerdictReason::LeavesSandbox,
            VerdictReason::GivesTrust,
            VerdictReason::ChangesSettings,
            VerdictReason::ConfinementFailed("it may not write".into()),
            VerdictReason::UnreadSettings,
            VerdictReason::Default,
            VerdictReason::Unmatched { part: "rm a".into(), near: None },
            VerdictReason::Unmatched {
                part: "X=… rm a".into(),
                near: Some(Box::new(NearRule { text: "Bash(rm *)".into(), source, because: "it sets X".into() })),
            },
        ];
        let verdict = Verdict { decision: Decision::Ask, reasons };
        let json = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
    }

    #[test]
    fn the_written_form_names_rule_file_and_line() {
        let source = RuleSource::new(RuleScope::User, "/home/ada/.claude").in_file("/home/ada/.claude/s.json", Some(4));
        let reason = VerdictReason::Rule { behavior: Behavior::Ask, text: "Bash(git push *)".into(), source };
        let verdict = Verdict {
            decision: Decision::Ask,
            reasons: vec![reason, VerdictReason::NotUnderstood(ParseTrouble::TooDeep)],
        };
        let expected = concat!(
            r#"{"decision":"ask","reasons":[{"kind":"rule","behavior":"ask","rule":"Bash(git push *)","#,
            r#""source":{"scope":"user","label":"the user settings","file":"/home/ada/.claude/s.json","line":4,"#,
            r#""anchor":"/home/ada/.claude"}},{"kind":"notUnderstood","trouble":"tooDeep"}]}"#,
        );
        assert_eq!(serde_json::to_string(&verdict).unwrap(), expected);
    }
}
