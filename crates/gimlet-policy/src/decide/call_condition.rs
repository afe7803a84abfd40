//! Conditions: permission rules that select calls instead of deciding on them, such as the `if` of a hook. They match
//! as rules that forbid do: a call that may be meant is meant, since what the condition selects may be a guard.

use gimlet_proto::AccessNeed;

use super::rule_subject::{self, RuleSubject};
use super::{DecisionContext, PolicyEvaluator, ProposedCall};
use crate::paths::FileView;
use crate::rules::{
    Behavior, MatchCertainty, Rule, RuleError, RuleScope, RuleSet, RuleSource, RuleSpecifier, canonical_tool_name,
};

/// A rule that selects calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCondition {
    rule: Rule,
    /// The only tool that it is about, where its rule alone is about more.
    tool: Option<String>,
}

impl CallCondition {
    /// Parses a condition. Relative paths in it begin at the folder of the session, and a leading `/` means it.
    pub fn parse(text: &str, source: &RuleSource) -> Result<Self, RuleError> {
        let text = text.trim();
        let name = text.split_once('(').map_or("", |(name, _)| name);
        // Rules about files are written for reading and changing; a condition may name each tool.
        let form = match name {
            "Write" | "MultiEdit" | "NotebookEdit" => "Edit",
            "Glob" | "Grep" => "Read",
            _ => return Ok(Self { rule: parse_rule(text, source)?, tool: None }),
        };
        let (_, specifier) = text.split_at(name.len());
        let rule = parse_rule(&format!("{form}{specifier}"), source)?;
        Ok(Self { rule: Rule { text: text.to_owned(), ..rule }, tool: Some(canonical_tool_name(name).to_owned()) })
    }

    /// Returns the condition as it was written.
    pub fn text(&self) -> &str {
        &self.rule.text
    }

    /// Returns the source of a condition without a place of its own.
    pub fn plain_source(anchor: impl Into<std::path::PathBuf>) -> RuleSource {
        RuleSource::new(RuleScope::Hook, anchor)
    }
}

/// Parses the rule of a condition. `src/**` means that folder of the session's alone, as it does where a rule allows.
fn parse_rule(text: &str, source: &RuleSource) -> Result<Rule, RuleError> {
    let rule = Rule::parse(text, Behavior::Deny, source)?;
    let specifier = match rule.specifier {
        RuleSpecifier::Path(pattern) => RuleSpecifier::Path(pattern.at_anchor_only()),
        other => other,
    };
    Ok(Rule { specifier, ..rule })
}

/// Returns for each condition whether the call may be meant by it. The call is analysed once.
pub fn match_conditions(
    conditions: &[&CallCondition],
    call: &ProposedCall<'_>,
    world: &DecisionContext,
    view: &dyn FileView,
) -> Vec<bool> {
    let deny = conditions.iter().map(|condition| condition.rule.clone()).collect();
    let rules = RuleSet { deny, ..RuleSet::default() };
    let subjects = rule_subject::build_subjects(call, &rules, world, view);
    let evaluator = PolicyEvaluator::new(call, &rules, world, &subjects, None);
    conditions.iter().map(|condition| evaluator.may_be_meant(condition)).collect()
}

impl PolicyEvaluator<'_> {
    fn may_be_meant(&self, condition: &CallCondition) -> bool {
        if condition.tool.as_deref().is_some_and(|tool| tool != self.call.tool) {
            return false;
        }
        let rule = &condition.rule;
        let matched = |subject: &RuleSubject| self.match_subject(rule, subject, true) > MatchCertainty::No;
        if self.subjects.iter().any(matched) {
            return true;
        }
        match &rule.specifier {
            RuleSpecifier::Command(pattern) => {
                let names_more = pattern.names_more_than_program();
                let expands = |facts: &super::NeedFacts| match &facts.need {
                    AccessNeed::Run(text) => names_more && has_expansion(text),
                    _ => false,
                };
                self.subjects.iter().any(|subject| subject.trouble().is_some()) || self.call.needs.iter().any(expands)
            }
            RuleSpecifier::Path(_) => self.subjects.iter().any(|subject| subject.trouble().is_some()),
            _ => false,
        }
    }
}

/// Returns true if a shell replaces part of this text by something that is only known when it runs.
fn has_expansion(text: &str) -> bool {
    let variable = |next: char| next.is_ascii_alphabetic() || matches!(next, '_' | '(' | '{');
    text.contains('`') || text.split('$').skip(1).any(|rest| rest.starts_with(variable))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::json;

    use super::*;
    use crate::decide::NeedFacts;
    use crate::paths::LinkFreeView;

    fn matches(condition: &str, tool: &str, need: AccessNeed) -> bool {
        let source = CallCondition::plain_source("/project");
        let condition = CallCondition::parse(condition, &source).unwrap();
        let world = DecisionContext {
            cwd: "/project".into(),
            roots: vec!["/project".into()],
            home: Some("/home/ada".into()),
            ..DecisionContext::default()
        };
        let input = json!({"subagent_type": "Explore"});
        let facts = match &need {
            AccessNeed::Read(path) | AccessNeed::Write(path) => {
                NeedFacts { need: need.clone(), resolved: Some(path.clone()), hops: Vec::new() }
            }
            _ => NeedFacts::new(need, None),
        };
        let call =
            ProposedCall { tool, also_named: &[], input: input.as_object(), needs: &[facts], needs_person: false };
        match_conditions(&[&condition], &call, &world, &LinkFreeView { cwd: Path::new("/project") })[0]
    }

    #[test]
    fn a_condition_on_commands_looks_at_every_part_and_runs_where_there_is_doubt() {
        for (condition, command, wanted) in [
            ("Bash(git *)", "git status", true),
            ("Bash(git *)", "ls -l", false),
            ("Bash(git *)", "A=1 B=2 git push", true),
            ("Bash(git *)", "make && git push", true),
            ("Bash(git *)", "echo $(git rev-parse HEAD)", true),
            ("Bash(git *)", "echo `git rev-parse HEAD`", true),
            ("Bash(git push *)", "git status", false),
            ("Bash(git push *)", "git $WHAT", true),
            ("Bash(git push *)", "ls $HOME", true),
            ("Bash(git:*)", "ls $HOME", false),
            ("Bash(git push *)", "ls 5$", false),
            ("Bash(git *)", "for (( ; ; do ((", true),
            ("Bash", "ls", true),
            ("Read", "ls", false),
        ] {
            assert_eq!(matches(condition, "Bash", AccessNeed::Run(command.into())), wanted, "{condition} {command}");
        }
    }

    #[test]
    fn a_condition_on_files_begins_at_the_session_folder_and_may_name_one_tool() {
        for (condition, tool, path, wanted) in [
            ("Edit(src/**)", "Edit", "/project/src/a.rs", true),
            ("Edit(src/**)", "Write", "/project/src/a.rs", true),
            ("Edit(src/**)", "Edit", "/project/lib/src/a.rs", false),
            ("Edit(*.rs)", "Edit", "/project/src/a.rs", true),
            ("Edit(*.rs)", "Edit", "/project/src/a.md", false),
            ("Write(*.rs)", "Write", "/project/src/a.rs", true),
            ("Write(*.rs)", "Edit", "/project/src/a.rs", false),
        ] {
            let need = AccessNeed::Write(PathBuf::from(path));
            assert_eq!(matches(condition, tool, need), wanted, "{condition} {tool} {path}");
        }
        assert!(!matches("Edit(*.rs)", "Read", AccessNeed::Read("/project/a.rs".into())));
    }

    #[test]
    fn other_rules_are_conditions_too_and_nonsense_is_an_error() {
        assert!(matches("WebFetch(domain:example.org)", "WebFetch", AccessNeed::Fetch("https://example.org/x".into())));
        assert!(!matches("WebFetch(domain:example.org)", "WebFetch", AccessNeed::Fetch("https://other.org/".into())));
        assert!(matches("Agent(Explore)", "Agent", AccessNeed::Opaque));
        assert!(!matches("Agent(Plan)", "Agent", AccessNeed::Opaque));
        assert!(matches("mcp__db__*", "mcp__db__drop", AccessNeed::Opaque));
        let source = CallCondition::plain_source("/");
        assert!(CallCondition::parse("Bash(git *", &source).is_err());
    }
}
