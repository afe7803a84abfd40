//! Changes to permissions while a session runs, in the form that hooks, programs and dialogs share. Applying one is
//! pure; it is never written to a settings file here.

use std::path::PathBuf;

use gimlet_proto::PermissionMode;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Behavior, Rule, RuleError, RuleScope, RuleSet, RuleSource};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PermissionUpdate {
    AddRules {
        rules: Vec<RuleValue>,
        behavior: Behavior,
        #[serde(default, deserialize_with = "or_session")]
        destination: UpdateDestination,
    },
    /// Replaces all rules of that behavior and destination.
    ReplaceRules {
        rules: Vec<RuleValue>,
        behavior: Behavior,
        #[serde(default, deserialize_with = "or_session")]
        destination: UpdateDestination,
    },
    RemoveRules {
        rules: Vec<RuleValue>,
        behavior: Behavior,
        #[serde(default, deserialize_with = "or_session")]
        destination: UpdateDestination,
    },
    SetMode {
        mode: PermissionMode,
        #[serde(default, deserialize_with = "or_session")]
        destination: UpdateDestination,
    },
    AddDirectories {
        directories: Vec<PathBuf>,
        #[serde(default, deserialize_with = "or_session")]
        destination: UpdateDestination,
    },
    RemoveDirectories {
        directories: Vec<PathBuf>,
        #[serde(default, deserialize_with = "or_session")]
        destination: UpdateDestination,
    },
}

impl PermissionUpdate {
    pub fn destination(&self) -> UpdateDestination {
        match self {
            PermissionUpdate::AddRules { destination, .. }
            | PermissionUpdate::ReplaceRules { destination, .. }
            | PermissionUpdate::RemoveRules { destination, .. }
            | PermissionUpdate::SetMode { destination, .. }
            | PermissionUpdate::AddDirectories { destination, .. }
            | PermissionUpdate::RemoveDirectories { destination, .. } => *destination,
        }
    }

    /// Returns the rules that the change adds, as they are written.
    pub fn added_rules(&self) -> Option<(Behavior, Vec<String>)> {
        match self {
            PermissionUpdate::AddRules { rules, behavior, .. }
            | PermissionUpdate::ReplaceRules { rules, behavior, .. } => {
                Some((*behavior, rules.iter().map(RuleValue::text).collect()))
            }
            _ => None,
        }
    }

    /// Returns true if the change adds rules that allow something.
    fn adds_allow_rules(&self) -> bool {
        match self {
            PermissionUpdate::AddRules { rules, behavior, .. }
            | PermissionUpdate::ReplaceRules { rules, behavior, .. } => {
                *behavior == Behavior::Allow && !rules.is_empty()
            }
            _ => false,
        }
    }

    /// Returns the change with the session as its destination.
    #[must_use]
    pub fn for_session(mut self) -> Self {
        match &mut self {
            PermissionUpdate::AddRules { destination, .. }
            | PermissionUpdate::ReplaceRules { destination, .. }
            | PermissionUpdate::RemoveRules { destination, .. }
            | PermissionUpdate::SetMode { destination, .. }
            | PermissionUpdate::AddDirectories { destination, .. }
            | PermissionUpdate::RemoveDirectories { destination, .. } => *destination = UpdateDestination::Session,
        }
        self
    }
}

/// A rule split into tool and specifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleValue {
    pub tool_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

impl RuleValue {
    pub fn new(tool: impl Into<String>, content: Option<String>) -> Self {
        Self { tool_name: tool.into(), rule_content: content }
    }

    /// Splits a rule's text.
    pub fn from_text(text: &str) -> Self {
        match text.split_once('(') {
            Some((tool, rest)) => Self::new(tool, Some(rest.strip_suffix(')').unwrap_or(rest).to_owned())),
            None => Self::new(text, None),
        }
    }

    /// Returns the rule's text.
    pub fn text(&self) -> String {
        match &self.rule_content {
            Some(content) if !content.is_empty() => format!("{}({content})", self.tool_name),
            _ => self.tool_name.clone(),
        }
    }
}

/// Lifetime and scope of a change. One without a destination lasts as long as the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UpdateDestination {
    #[default]
    Session,
    /// Beside the rules of flags, until the session ends.
    CliArg,
    LocalSettings,
    ProjectSettings,
    UserSettings,
}

/// Label of rules that were added to those of flags while the session ran.
const BESIDE_FLAGS: &str = "the command line, as changed in this session";

fn or_session<'de, D: Deserializer<'de>>(value: D) -> Result<UpdateDestination, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

impl UpdateDestination {
    pub fn scope(self) -> RuleScope {
        match self {
            UpdateDestination::Session => RuleScope::Session,
            UpdateDestination::CliArg => RuleScope::CommandLine,
            UpdateDestination::LocalSettings => RuleScope::Local,
            UpdateDestination::ProjectSettings => RuleScope::Project,
            UpdateDestination::UserSettings => RuleScope::User,
        }
    }

    /// Returns true if the change outlives the session.
    pub fn is_persistent(self) -> bool {
        !matches!(self, UpdateDestination::Session | UpdateDestination::CliArg)
    }

    /// Returns the source of rules that are added at this destination.
    pub fn rule_source(self, anchor: impl Into<PathBuf>) -> RuleSource {
        let source = RuleSource::new(self.scope(), anchor);
        if self == UpdateDestination::CliArg { source.with_label(BESIDE_FLAGS) } else { source }
    }

    /// Returns true if a change to this destination is about a rule from `source`.
    fn owns_rules_from(self, source: &RuleSource) -> bool {
        source.scope == self.scope() && (self != UpdateDestination::CliArg || source.is_cli_flag())
    }
}

impl RuleSource {
    /// Returns true if the source is a flag that holds rules, and not a settings file that a flag names.
    pub fn is_cli_flag(&self) -> bool {
        self.scope == RuleScope::CommandLine && self.file.is_none()
    }

    /// Returns true if the rule was added while the session ran, and stands in no flag and no file.
    pub fn is_session_only(&self) -> bool {
        self.scope == RuleScope::Session || (self.is_cli_flag() && self.label == BESIDE_FLAGS)
    }
}

/// Permissions of a session that updates may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPermissions {
    pub mode: PermissionMode,
    pub rules: RuleSet,
    /// Further working directories.
    pub directories: Vec<PathBuf>,
    /// True if the session was started in a way that lets it switch to bypassing permissions.
    pub bypass_reachable: bool,
    /// True if a classifier is available for auto mode. Settings can disable it.
    pub auto_available: bool,
}

/// A change that was refused; nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermissionUpdateError {
    #[error("a rule of the update cannot be used: {0}")]
    Rule(#[from] RuleError),
    #[error("the session cannot go over to bypassPermissions; it was not started with that mode enabled")]
    BypassUnreachable,
    #[error("the mode bypassPermissions is never written to a settings file")]
    BypassKept,
    #[error("the mode auto is not available in this session")]
    AutoUnavailable,
    #[error("only managed rules allow something here (allowManagedPermissionRulesOnly)")]
    ManagedAllowsOnly,
}

impl SessionPermissions {
    /// Applies a change, wholly or not at all. `source` returns for a destination the source of its rules.
    pub fn apply(
        &mut self,
        update: &PermissionUpdate,
        source: impl Fn(UpdateDestination) -> RuleSource,
    ) -> Result<(), PermissionUpdateError> {
        if self.rules.managed_allows_only && update.adds_allow_rules() {
            return Err(PermissionUpdateError::ManagedAllowsOnly);
        }
        match update {
            PermissionUpdate::AddRules { rules, behavior, destination } => {
                let added = parse_rules(rules, *behavior, &source(*destination))?;
                let list = self.rules.list_mut(*behavior);
                let new = added.into_iter().filter(|rule| !list.contains(rule)).collect::<Vec<_>>();
                list.extend(new);
            }
            PermissionUpdate::ReplaceRules { rules, behavior, destination } => {
                let added = parse_rules(rules, *behavior, &source(*destination))?;
                let list = self.rules.list_mut(*behavior);
                list.retain(|rule| !destination.owns_rules_from(&rule.source));
                list.extend(added);
            }
            PermissionUpdate::RemoveRules { rules, behavior, destination } => {
                let texts: Vec<String> = rules.iter().map(RuleValue::text).collect();
                self.rules.list_mut(*behavior).retain(|rule| {
                    !destination.owns_rules_from(&rule.source)
                        || !texts.iter().any(|text| is_same_rule(text, &rule.text))
                });
            }
            PermissionUpdate::SetMode { mode, destination } => {
                if *mode == PermissionMode::BypassPermissions {
                    match (self.bypass_reachable, destination.is_persistent()) {
                        (false, _) => return Err(PermissionUpdateError::BypassUnreachable),
                        (true, true) => return Err(PermissionUpdateError::BypassKept),
                        (true, false) => {}
                    }
                }
                if *mode == PermissionMode::Auto && !self.auto_available {
                    return Err(PermissionUpdateError::AutoUnavailable);
                }
                self.mode = *mode;
            }
            PermissionUpdate::AddDirectories { directories, .. } => {
                let new: Vec<PathBuf> =
                    directories.iter().filter(|dir| !self.directories.contains(dir)).cloned().collect();
                self.directories.extend(new);
            }
            PermissionUpdate::RemoveDirectories { directories, .. } => {
                self.directories.retain(|dir| !directories.contains(dir));
            }
        }
        Ok(())
    }
}

impl RuleSet {
    /// Takes over the rules that were only added for the running session, when everything else was reloaded.
    pub fn carry_over_session_rules(&mut self, old: &RuleSet) {
        let counts = |behavior: &Behavior| *behavior != Behavior::Allow || !self.managed_allows_only;
        let behaviors = [Behavior::Deny, Behavior::Ask, Behavior::Allow].into_iter().filter(counts);
        for behavior in behaviors.collect::<Vec<_>>() {
            let of_session = old.rules(behavior).iter().filter(|rule| rule.source.is_session_only());
            self.list_mut(behavior).extend(of_session.cloned());
        }
    }
}

fn parse_rules(
    rules: &[RuleValue],
    behavior: Behavior,
    source: &RuleSource,
) -> Result<Vec<Rule>, PermissionUpdateError> {
    let rules = rules.iter().map(|rule| Rule::parse(&rule.text(), behavior, source));
    Ok(rules.collect::<Result<_, _>>()?)
}

/// Returns true for equal rules; `Bash(x *)` and `Bash(x:*)` are one rule in two spellings.
fn is_same_rule(a: &str, b: &str) -> bool {
    let spelled = |text: &str| text.trim().replace(":*)", " *)");
    spelled(a) == spelled(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(destination: UpdateDestination) -> RuleSource {
        destination.rule_source("/repo")
    }

    fn apply(permissions: &mut SessionPermissions, json: &str) -> Result<(), PermissionUpdateError> {
        permissions.apply(&serde_json::from_str(json).unwrap(), source)
    }

    fn texts(permissions: &SessionPermissions, behavior: Behavior) -> Vec<&str> {
        permissions.rules.rules(behavior).iter().map(|rule| rule.text.as_str()).collect()
    }

    #[test]
    fn updates_keep_their_public_form() {
        for json in [
            r#"{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"npm test *"}],"behavior":"allow","destination":"localSettings"}"#,
            r#"{"type":"replaceRules","rules":[{"toolName":"Read"}],"behavior":"deny","destination":"session"}"#,
            r#"{"type":"removeRules","rules":[{"toolName":"Read"}],"behavior":"ask","destination":"projectSettings"}"#,
            r#"{"type":"setMode","mode":"acceptEdits","destination":"session"}"#,
            r#"{"type":"addDirectories","directories":["/srv"],"destination":"userSettings"}"#,
            r#"{"type":"removeDirectories","directories":["/srv"],"destination":"session"}"#,
        ] {
            let update: PermissionUpdate = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&update).unwrap(), json);
        }
    }

    #[test]
    fn rules_are_added_replaced_and_removed_by_destination() {
        let mut permissions = SessionPermissions::default();
        let add = |rule: &str, destination: &str| {
            format!(
                r#"{{"type":"addRules","rules":[{{"toolName":"Bash","ruleContent":"{rule}"}}],"behavior":"allow","destination":"{destination}"}}"#
            )
        };
        apply(&mut permissions, &add("a *", "session")).unwrap();
        apply(&mut permissions, &add("a *", "session")).unwrap();
        apply(&mut permissions, &add("b", "localSettings")).unwrap();
        assert_eq!(texts(&permissions, Behavior::Allow), ["Bash(a *)", "Bash(b)"]);
        apply(&mut permissions, &add("c", "session").replace("addRules", "replaceRules")).unwrap();
        assert_eq!(texts(&permissions, Behavior::Allow), ["Bash(b)", "Bash(c)"]);
        apply(&mut permissions, &add("b", "session").replace("addRules", "removeRules")).unwrap();
        assert_eq!(texts(&permissions, Behavior::Allow), ["Bash(b)", "Bash(c)"], "another destination's rule stays");
        apply(&mut permissions, &add("b", "localSettings").replace("addRules", "removeRules")).unwrap();
        assert_eq!(texts(&permissions, Behavior::Allow), ["Bash(c)"]);
    }

    #[test]
    fn an_update_without_a_destination_is_for_the_session() {
        for home in ["", r#","destination":null"#, r#","destination":"session""#] {
            let json = format!(r#"{{"type":"setMode","mode":"acceptEdits"{home}}}"#);
            let update: PermissionUpdate = serde_json::from_str(&json).unwrap();
            assert_eq!(update.destination(), UpdateDestination::Session, "{json}");
        }
    }

    #[test]
    fn the_rules_of_flags_can_be_changed_and_those_of_settings_that_a_flag_names_are_others() {
        let flag = RuleSource::new(RuleScope::CommandLine, "/repo").with_label("--allowedTools");
        let settings =
            RuleSource::new(RuleScope::CommandLine, "/repo").with_label("--settings").in_file("--settings", None);
        let mut permissions = SessionPermissions::default();
        permissions.rules.add(Behavior::Allow, "Bash", &flag).unwrap();
        permissions.rules.add(Behavior::Allow, "Bash", &settings).unwrap();
        let change = |kind: &str, tool: &str| {
            format!(
                r#"{{"type":"{kind}","rules":[{{"toolName":"{tool}"}}],"behavior":"allow","destination":"cliArg"}}"#
            )
        };
        apply(&mut permissions, &change("addRules", "Read")).unwrap();
        apply(&mut permissions, &change("removeRules", "Bash")).unwrap();
        let left = permissions.rules.rules(Behavior::Allow);
        assert_eq!(left.iter().map(|rule| rule.source.is_cli_flag()).collect::<Vec<_>>(), [false, true]);
        // Rules that were added to those of flags are not lost when files are reloaded.
        let mut anew = RuleSet::default();
        anew.carry_over_session_rules(&permissions.rules);
        assert_eq!(anew.rules(Behavior::Allow).len(), 1);
        apply(&mut permissions, &change("replaceRules", "Glob")).unwrap();
        assert_eq!(texts(&permissions, Behavior::Allow), ["Bash", "Glob"]);
    }

    #[test]
    fn a_bad_rule_changes_nothing() {
        let mut permissions = SessionPermissions::default();
        let json = r#"{"type":"addRules","rules":[{"toolName":"Read"},{"toolName":"*"}],"behavior":"allow","destination":"session"}"#;
        assert!(matches!(
            apply(&mut permissions, json),
            Err(PermissionUpdateError::Rule(RuleError::BroadAllow { .. }))
        ));
        assert_eq!(permissions, SessionPermissions::default());
    }

    #[test]
    fn no_update_adds_allow_rules_where_only_managed_rules_allow() {
        let mut permissions = SessionPermissions {
            rules: RuleSet::default().with_managed_allows_only(),
            ..SessionPermissions::default()
        };
        let change = |kind: &str, behavior: &str, destination: &str| {
            format!(
                r#"{{"type":"{kind}","rules":[{{"toolName":"Read"}}],"behavior":"{behavior}","destination":"{destination}"}}"#
            )
        };
        for destination in ["session", "localSettings", "projectSettings", "userSettings"] {
            for kind in ["addRules", "replaceRules"] {
                let refused = apply(&mut permissions, &change(kind, "allow", destination));
                assert_eq!(refused, Err(PermissionUpdateError::ManagedAllowsOnly), "{kind} {destination}");
                apply(&mut permissions, &change(kind, "deny", destination)).unwrap();
            }
        }
        assert!(permissions.rules.rules(Behavior::Allow).is_empty());
        assert_eq!(permissions.rules.rules(Behavior::Deny).len(), 4);
        // Session rules from before the managed setting do not outlast it either.
        let mut before = RuleSet::default();
        before.add(Behavior::Allow, "Read", &source(UpdateDestination::Session)).unwrap();
        before.add(Behavior::Ask, "Bash", &source(UpdateDestination::Session)).unwrap();
        let mut after = RuleSet::default().with_managed_allows_only();
        after.carry_over_session_rules(&before);
        assert_eq!((after.rules(Behavior::Allow).len(), after.rules(Behavior::Ask).len()), (0, 1));
    }

    #[test]
    fn bypass_is_refused_unless_it_is_reachable_and_never_kept() {
        let set = |destination: &str| {
            format!(r#"{{"type":"setMode","mode":"bypassPermissions","destination":"{destination}"}}"#)
        };
        let mut permissions = SessionPermissions::default();
        assert_eq!(apply(&mut permissions, &set("session")), Err(PermissionUpdateError::BypassUnreachable));
        permissions.bypass_reachable = true;
        assert_eq!(apply(&mut permissions, &set("userSettings")), Err(PermissionUpdateError::BypassKept));
        assert_eq!(permissions.mode, PermissionMode::Default);
        apply(&mut permissions, &set("session")).unwrap();
        assert_eq!(permissions.mode, PermissionMode::BypassPermissions);
    }

    #[test]
    fn auto_is_refused_where_nobody_reviews() {
        for destination in ["session", "localSettings", "userSettings"] {
            let set = format!(r#"{{"type":"setMode","mode":"auto","destination":"{destination}"}}"#);
            let mut permissions = SessionPermissions::default();
            assert_eq!(apply(&mut permissions, &set), Err(PermissionUpdateError::AutoUnavailable));
            assert_eq!(permissions.mode, PermissionMode::Default);
            permissions.auto_available = true;
            apply(&mut permissions, &set).unwrap();
            assert_eq!(permissions.mode, PermissionMode::Auto);
        }
    }

    #[test]
    fn directories_come_and_go_once() {
        let mut permissions = SessionPermissions::default();
        let add = r#"{"type":"addDirectories","directories":["/a","/b"],"destination":"session"}"#;
        apply(&mut permissions, add).unwrap();
        apply(&mut permissions, add).unwrap();
        assert_eq!(permissions.directories, [PathBuf::from("/a"), PathBuf::from("/b")]);
        let remove = r#"{"type":"removeDirectories","directories":["/a"],"destination":"session"}"#;
        apply(&mut permissions, remove).unwrap();
        assert_eq!(permissions.directories, [PathBuf::from("/b")]);
    }
}
