//! The session's own folders, such as that of its plans, may be written even below a protected one.

use gimlet_policy::{Call, Decision, NeedFacts, RuleSet, World, decide};
use gimlet_proto::{Need, PermissionMode};

use crate::worlds::{rules, world};

fn write(path: &str, resolved: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    let world = World { own_writable: vec!["/home/dev/.claude/plans".into()], ..world(mode) };
    let needs = [NeedFacts { need: Need::Write(path.into()), resolved: Some(resolved.into()), hops: vec![] }];
    decide(&Call { tool: "Write", also_named: &[], input: None, needs: &needs, needs_person: false }, rules, &world)
        .decision
}

#[test]
fn own_files_are_written_without_a_question_in_every_mode() {
    let plan = "/home/dev/.claude/plans/a.md";
    for mode in PermissionMode::ALL {
        assert_eq!(write(plan, plan, &RuleSet::default(), mode), Decision::Allow, "{mode}");
    }
}

#[test]
fn what_surrounds_them_stays_protected() {
    let none = RuleSet::default();
    for path in ["/home/dev/.claude/settings.json", "/home/dev/.claude/plans/.git/config", "/home/dev/.claude/plans2/a"]
    {
        assert_eq!(write(path, path, &none, PermissionMode::AcceptEdits), Decision::Ask, "{path}");
    }
    let plan = "/home/dev/.claude/plans/a.md";
    assert_eq!(write(plan, "/home/dev/.bashrc", &none, PermissionMode::AcceptEdits), Decision::Ask, "a link out");
    assert_eq!(write(plan, plan, &rules(&["Edit(~/.claude/**)"], &[], &[]), PermissionMode::Plan), Decision::Deny);
}
