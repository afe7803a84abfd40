//! A rule as a condition: whether a call is one that the rule speaks of, for hooks that want to see only some calls. When
//! in doubt it holds: a hook that looks once too often does no harm, one that was not asked may.

use std::path::Path;

use super::subject::{self, Subject};
use super::{Call, Follow, Judge, World};
use crate::paths::Strictness;
use crate::rules::{Behavior, Fit, Rule, RuleError, RuleSet, RuleSource, Specifier};

/// A parsed condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition(Rule);

impl Condition {
    pub fn parse(text: &str, source: &RuleSource) -> Result<Self, RuleError> {
        // Every form that a rule can have makes a condition, those that cannot allow among them.
        Rule::parse(text, Behavior::Ask, source).map(Self)
    }

    /// Whether the rule speaks of this call.
    pub fn holds(&self, call: &Call<'_>, world: &World, follow: Follow<'_>) -> bool {
        let Self(rule) = self;
        let subjects = subject::subjects(call, world, follow);
        let judge = Judge {
            call,
            rules: &RuleSet::default(),
            world,
            allowing: world.allowing_anchors(),
            forbidding: world.forbidding_anchors(),
            subjects: &subjects,
            hook: None,
        };
        let runs = subjects.iter().any(|subject| matches!(subject, Subject::Run { .. }));
        subjects.iter().any(|subject| match (&rule.specifier, subject) {
            // What a command reads is the command's business here.
            (Specifier::Path(_), _) if runs => false,
            (Specifier::Path(pattern), Subject::Path { spelled, resolved, hops, write, .. }) => {
                let places = judge.places(rule, Strictness::Allow);
                let names = |path: &Path| pattern.matches(path, places, Strictness::Allow);
                *write == (rule.tool == "Edit")
                    && (names(spelled) || resolved.iter().chain(hops).any(|path| names(path)))
            }
            (Specifier::Command(_), Subject::Run { .. }) if subject.trouble().is_some() => true,
            _ => judge.forbids(rule, subject) != Fit::No,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::NeedFacts;
    use crate::paths::Followed;
    use crate::rules::RuleScope;
    use gimlet_proto::Need;

    fn holds(condition: &str, tool: &str, need: Need) -> bool {
        let condition = Condition::parse(condition, &RuleSource::new(RuleScope::Project, "/repo")).unwrap();
        let world = World { cwd: "/repo".into(), roots: vec!["/repo".into()], ..World::default() };
        let followed = match &need {
            Need::Read(path) | Need::Write(path) => Some(Followed::plain(path)),
            _ => None,
        };
        let needs = [NeedFacts::new(need, followed)];
        let call = Call { tool, input: None, needs: &needs, needs_person: false };
        condition.holds(&call, &world, &|path| Some(Followed::plain(path)))
    }

    #[test]
    fn a_command_is_seen_in_every_part_and_whenever_it_is_in_doubt() {
        let run = |condition: &str, text: &str| holds(condition, "Bash", Need::Run(text.into()));
        for text in ["git push", "A=1 git push", "ls && git log", "echo $(git log)", "echo 'open", "git $x"] {
            assert!(run("Bash(git *)", text), "{text}");
        }
        assert!(!run("Bash(git *)", "ls -la"));
        assert!(!run("Bash(git push *)", "git log"));
        assert!(run("Bash(git push *)", "git $x"));
        assert!(run("Bash", "ls") && !run("Edit(a)", "touch a"));
    }

    #[test]
    fn a_path_is_meant_where_an_allow_rule_would_mean_it() {
        let write = |condition: &str, path: &str| holds(condition, "Write", Need::Write(path.into()));
        assert!(write("Edit(src/**)", "/repo/src/a.rs"));
        assert!(!write("Edit(src/**)", "/repo/vendor/src/a.rs"));
        assert!(!write("Read(src/**)", "/repo/src/a.rs"));
        assert!(write("Write", "/repo/a") && !write("Edit", "/repo/a"));
        assert!(holds("Read(*.rs)", "Grep", Need::Read("/repo/a.rs".into())));
        assert!(holds("mcp__git", "mcp__git__log", Need::Opaque));
    }
}
