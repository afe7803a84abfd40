//! The written form of a reason: an object whose `kind` names it, with plain fields. It is kept in decision ledgers and
//! read back later, so names here change only together with a reader for the old ones.

use std::path::{Path, PathBuf};

use gimlet_proto::PermissionMode;
use serde::{Deserialize, Serialize};

use super::{NearRule, Reason};
use crate::rules::{Behavior, RuleSource};
use crate::shell::Trouble;

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
        trouble: Trouble,
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

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl From<Reason> for ReasonForm {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Rule { behavior, text: rule, source } => ReasonForm::Rule { behavior, rule, source },
            Reason::MayMatchRule { text: rule, source } => ReasonForm::MayMatchRule { rule, source },
            Reason::Mode(mode) => ReasonForm::Mode { mode },
            Reason::ReadOnly => ReasonForm::ReadOnly,
            Reason::WorkingDirectory => ReasonForm::WorkingDirectory,
            Reason::OutsideWorkingDirectories(path) => ReasonForm::OutsideWorkingDirectories { path: text(&path) },
            Reason::Credentials(path) => ReasonForm::Credentials { path: text(&path) },
            Reason::SessionState => ReasonForm::SessionState,
            Reason::CriticalRemoval(what) => ReasonForm::CriticalRemoval { what },
            Reason::ProtectedPath(path) => ReasonForm::ProtectedPath { path: text(&path) },
            Reason::GitRuns(path) => ReasonForm::GitRuns { path: text(&path) },
            Reason::NotUnderstood(trouble) => ReasonForm::NotUnderstood { trouble },
            Reason::OddPath(path) => ReasonForm::OddPath { path: text(&path) },
            Reason::NeedsPerson => ReasonForm::NeedsPerson,
            Reason::Tool(text) => ReasonForm::Tool { text },
            Reason::Hook(text) => ReasonForm::Hook { text },
            Reason::ClassifierMayAnswer => ReasonForm::ClassifierMayAnswer,
            Reason::Sandboxed => ReasonForm::Sandboxed,
            Reason::LeavesSandbox => ReasonForm::LeavesSandbox,
            Reason::GivesTrust => ReasonForm::GivesTrust,
            Reason::ChangesSettings => ReasonForm::ChangesSettings,
            Reason::ConfinementFailed(text) => ReasonForm::ConfinementFailed { text },
            Reason::UnreadSettings => ReasonForm::UnreadSettings,
            Reason::Default => ReasonForm::Default,
            Reason::Unmatched { part, near } => ReasonForm::Unmatched { part, near },
        }
    }
}

impl From<ReasonForm> for Reason {
    fn from(form: ReasonForm) -> Self {
        match form {
            ReasonForm::Rule { behavior, rule: text, source } => Reason::Rule { behavior, text, source },
            ReasonForm::MayMatchRule { rule: text, source } => Reason::MayMatchRule { text, source },
            ReasonForm::Mode { mode } => Reason::Mode(mode),
            ReasonForm::ReadOnly => Reason::ReadOnly,
            ReasonForm::WorkingDirectory => Reason::WorkingDirectory,
            ReasonForm::OutsideWorkingDirectories { path } => Reason::OutsideWorkingDirectories(PathBuf::from(path)),
            ReasonForm::Credentials { path } => Reason::Credentials(PathBuf::from(path)),
            ReasonForm::SessionState => Reason::SessionState,
            ReasonForm::CriticalRemoval { what } => Reason::CriticalRemoval(what),
            ReasonForm::ProtectedPath { path } => Reason::ProtectedPath(PathBuf::from(path)),
            ReasonForm::GitRuns { path } => Reason::GitRuns(PathBuf::from(path)),
            ReasonForm::NotUnderstood { trouble } => Reason::NotUnderstood(trouble),
            ReasonForm::OddPath { path } => Reason::OddPath(PathBuf::from(path)),
            ReasonForm::NeedsPerson => Reason::NeedsPerson,
            ReasonForm::Tool { text } => Reason::Tool(text),
            ReasonForm::Hook { text } => Reason::Hook(text),
            ReasonForm::ClassifierMayAnswer => Reason::ClassifierMayAnswer,
            ReasonForm::Sandboxed => Reason::Sandboxed,
            ReasonForm::LeavesSandbox => Reason::LeavesSandbox,
            ReasonForm::GivesTrust => Reason::GivesTrust,
            ReasonForm::ChangesSettings => Reason::ChangesSettings,
            ReasonForm::ConfinementFailed { text } => Reason::ConfinementFailed(text),
            ReasonForm::UnreadSettings => Reason::UnreadSettings,
            ReasonForm::Default => Reason::Default,
            ReasonForm::Unmatched { part, near } => Reason::Unmatched { part, near },
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
            Reason::Rule { behavior: Behavior::Deny, text: "Bash(rm *)".into(), source: source.clone() },
            Reason::MayMatchRule { text: "Bash(rm *)".into(), source: source.clone() },
            Reason::Mode(PermissionMode::AcceptEdits),
            Reason::ReadOnly,
            Reason::WorkingDirectory,
            Reason::OutsideWorkingDirectories("/etc/hosts".into()),
            Reason::Credentials("/home/ada/.ssh/id".into()),
            Reason::SessionState,
            Reason::CriticalRemoval("the home directory".into()),
            Reason::ProtectedPath("/repo/.git/config".into()),
            Reason::GitRuns("/repo/.git/config".into()),
            Reason::NotUnderstood(Trouble::TooLong),
            Reason::OddPath("/proc/self/root".into()),
            Reason::NeedsPerson,
            Reason::Tool("why".into()),
            Reason::Hook("why".into()),
            Reason::ClassifierMayAnswer,
            Reason::Sandboxed,
            Reason::LeavesSandbox,
            Reason::GivesTrust,
            Reason::ChangesSettings,
            Reason::ConfinementFailed("it may not write".into()),
            Reason::UnreadSettings,
            Reason::Default,
            Reason::Unmatched { part: "rm a".into(), near: None },
            Reason::Unmatched {
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
        let reason = Reason::Rule { behavior: Behavior::Ask, text: "Bash(git push *)".into(), source };
        let verdict =
            Verdict { decision: Decision::Ask, reasons: vec![reason, Reason::NotUnderstood(Trouble::TooDeep)] };
        let expected = concat!(
            r#"{"decision":"ask","reasons":[{"kind":"rule","behavior":"ask","rule":"Bash(git push *)","#,
            r#""source":{"scope":"user","label":"the user settings","file":"/home/ada/.claude/s.json","line":4,"#,
            r#""anchor":"/home/ada/.claude"}},{"kind":"notUnderstood","trouble":"tooDeep"}]}"#,
        );
        assert_eq!(serde_json::to_string(&verdict).unwrap(), expected);
    }
}
