//! The small world that the tests of commands live in.

use gimlet_policy::{
    Behavior, Call, Decision, FileTable, NeedFacts, RuleScope, RuleSet, RuleSource, World, decide, decide_seeing,
};
use gimlet_proto::{Need, PermissionMode};
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

pub(crate) fn world(mode: PermissionMode) -> World {
    World {
        mode,
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        home: Some("/home/dev".into()),
        environment: Some(Arc::default()),
        ..World::default()
    }
}

pub(crate) fn run_in(text: &str, rules: &RuleSet, world: &World) -> Decision {
    let needs = [NeedFacts { need: Need::Run(text.to_owned()), resolved: None, hops: vec![] }];
    decide(&Call { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false }, rules, world)
        .decision
}

pub(crate) fn run(text: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    run_in(text, rules, &world(mode))
}

/// In the default mode.
pub(crate) fn judge(text: &str, rules: &RuleSet) -> Decision {
    run(text, rules, PermissionMode::Default)
}

/// Files below the repository; those with a target are links. There may be others until it is closed.
pub(crate) fn tree(files: &[(&str, Option<&str>)]) -> FileTable {
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
pub(crate) fn repository(files: &[(&str, Option<&str>)]) -> FileTable {
    let mut table = tree(files);
    table.close();
    table
}

/// What is decided by somebody who sees these files.
pub(crate) fn decided(text: &str, files: &FileTable, rules: &RuleSet, mode: PermissionMode) -> Decision {
    let needs = [NeedFacts::new(Need::Run(text.to_owned()), None)];
    let call = Call { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    decide_seeing(&call, rules, &world(mode), files).decision
}
