//! Rules that skills add for the turn that loads them. They belong to one conversation and end when the user says
//! something new.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_policy::{Behavior, Rule, RuleScope, RuleSet, RuleSource};

use super::SessionSkill;
use super::argument_substitution::ArgumentSubstitution;
use crate::tool::PathContext;

/// Rules of the skills that a turn loaded. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct TurnGrants {
    rules: Arc<Mutex<Vec<(Behavior, Rule)>>>,
}

impl TurnGrants {
    fn lock(&self) -> MutexGuard<'_, Vec<(Behavior, Rule)>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns these rules with the present ones added.
    pub(crate) fn join(&self, rules: Arc<RuleSet>) -> Arc<RuleSet> {
        let own = self.lock();
        if own.is_empty() { rules } else { Arc::new(rules.with_further_rules(&own)) }
    }

    pub(super) fn add(&self, rules: Vec<(Behavior, Rule)>) {
        self.lock().extend(rules);
    }

    /// Returns independent grants with these rules in addition.
    pub(super) fn with(&self, rules: &[(Behavior, Rule)]) -> Self {
        let all = self.lock().iter().chain(rules).cloned().collect();
        Self { rules: Arc::new(Mutex::new(all)) }
    }

    /// Removes all rules. Returns true if there were any.
    pub(crate) fn clear(&self) -> bool {
        !std::mem::take(&mut *self.lock()).is_empty()
    }
}

/// Rules of one skill, and the entries that are none.
pub(super) struct SkillRules {
    pub(super) rules: Vec<(Behavior, Rule)>,
    pub(super) problems: Vec<String>,
}

impl SkillRules {
    /// Parses the lists of a skill. The folders of the session may stand in them as variables.
    pub(super) fn new(skill: &SessionSkill, variables: &ArgumentSubstitution<'_>, paths: &PathContext) -> Self {
        let label = format!("the skill {}", skill.name());
        let source = RuleSource::new(RuleScope::Skill, &paths.project_dir).with_label(label);
        let lists =
            [(Behavior::Allow, &skill.actions.allowed_tools), (Behavior::Deny, &skill.file.execution.disallowed_tools)];
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        for (behavior, texts) in lists {
            for text in texts {
                match Rule::parse(&variables.replace_variables(text), behavior, &source) {
                    Ok(rule) => rules.push((behavior, rule)),
                    Err(error) => problems.push(format!("the skill {}: {error}", skill.name())),
                }
            }
        }
        Self { rules, problems }
    }
}
