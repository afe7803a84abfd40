//! The small world that the tests of commands live in.

use gimlet_policy::{
    Behavior, Decision, DecisionContext, FileTable, NeedFacts, ProposedCall, RuleScope, RuleSet, RuleSource, decide,
    decide_with_files,
};
use gimlet_proto::{AccessNeed, PermissionMode};
use std::sync::Arc;

pub(crate) fn rules(deny: &[&str], ask: &[&str], allow: &[&str]) -> RuleSet {
    let source = RuleSource::new(RuleScope::Project, "/srv/repo");
    let mut rules = RuleSet::default();
    for (behavior, list) in [(Behavior::Deny, deny), (Behavior::Ask, ask), (Behavior::Allow, allow)] {
        for rule in list {
            rules.add(behavior, rule, &source).unwrap();
        }
    }
    rules
}

pub(crate) fn test_context(mode: PermissionMode) -> DecisionContext {
    DecisionContext {
        mode,
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        home: Some("/home/dev".into()),
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    }
}

pub(crate) fn decide_in_context(text: &str, rules: &RuleSet, world: &DecisionContext) -> Decision {
    let needs = [NeedFacts { need: AccessNeed::Run(text.to_owned()), resolved: None, hops: vec![] }];
    decide(
        &ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false },
        rules,
        world,
    )
    .decision
}

pub(crate) fn decide_command(text: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    decide_in_context(text, rules, &test_context(mode))
}

/// In the default mode.
pub(crate) fn decide_by_default(text: &str, rules: &RuleSet) -> Decision {
    decide_command(text, rules, PermissionMode::Default)
}

/// Files below the repository; those with a target are links. There may be others until it is closed.
pub(crate) fn partial_repository(files: &[(&str, Option<&str>)]) -> FileTable {
    let mut table = FileTable::default();
    for (path, target) in files {
        let path = format!("/srv/repo/{path}");
        match target {
            Some(target) => table.add_link(path, target),
            None => table.add_file(path),
        }
    }
    table
}

/// A repository of exactly these files.
pub(crate) fn exact_repository(files: &[(&str, Option<&str>)]) -> FileTable {
    let mut table = partial_repository(files);
    table.mark_complete();
    table
}

/// What is decided by somebody who sees these files.
pub(crate) fn decide_with_table(text: &str, files: &FileTable, rules: &RuleSet, mode: PermissionMode) -> Decision {
    let needs = [NeedFacts::new(AccessNeed::Run(text.to_owned()), None)];
    let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    decide_with_files(&call, rules, &test_context(mode), files).decision
}
