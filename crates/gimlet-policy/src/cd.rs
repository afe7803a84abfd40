//! Where the person may take the session with `/cd`. `Cd(…)` rules speak of nothing else: a command's own `cd` is judged
//! with the command.

use std::path::{Path, PathBuf};

use crate::decide::World;
use crate::paths::{Followed, PathPattern, Places, Strictness, normalise};
use crate::rules::{Behavior, Rule, RuleSet, Specifier};
use crate::verdict::{Decision, Reason, Verdict};

/// Decides on going to a directory. Without `Cd` allow rules everything is allowed that no other forbids; with one, only
/// what it names. `followed` is where the directory really is; `None` when nobody can say.
pub fn decide_cd(directory: &Path, followed: Option<&Followed>, rules: &RuleSet, world: &World) -> Verdict {
    let spelled = normalise(&world.cwd, directory);
    let Some(followed) = followed else { return Verdict::new(Decision::Deny, Reason::OddPath(spelled)) };
    let every = || std::iter::once(&spelled).chain(&followed.hops).chain([&followed.real]);
    for (behavior, decision) in [(Behavior::Deny, Decision::Deny), (Behavior::Ask, Decision::Ask)] {
        let working = world.forbidding_anchors();
        let forbids = |rule: &&Rule| every().any(|path| forbids(rule, path, &working, world));
        if let Some(rule) = rules.rules(behavior).iter().find(forbids) {
            return Verdict::new(decision, rule.reason(behavior));
        }
    }
    let mut allowing = rules.rules(Behavior::Allow).iter().filter(|rule| rule.tool == "Cd").peekable();
    if allowing.peek().is_none() {
        return Verdict::new(Decision::Allow, Reason::SessionState);
    }
    let working = world.allowing_anchors();
    let both = |rule: &&Rule| [&spelled, &followed.real].into_iter().all(|path| allows(rule, path, &working, world));
    match allowing.find(both) {
        Some(rule) => Verdict::new(Decision::Allow, rule.reason(Behavior::Allow)),
        None => Verdict::new(Decision::Deny, Reason::Default),
    }
}

fn places<'a>(rule: &'a Rule, working: &'a [PathBuf], world: &'a World) -> Places<'a> {
    Places { working, home: world.home.as_deref(), source: &rule.source.anchor }
}

fn forbids(rule: &Rule, path: &Path, working: &[PathBuf], world: &World) -> bool {
    match &rule.specifier {
        Specifier::All => rule.may_name("Cd", &[]),
        Specifier::Directory(pattern) => pattern.matches(path, places(rule, working, world), Strictness::Forbid),
        _ => false,
    }
}

/// A pattern names directories one by one, and `dir/**` names `dir`, too.
fn allows(rule: &Rule, path: &Path, working: &[PathBuf], world: &World) -> bool {
    let exactly = |pattern: &PathPattern, path: &Path| pattern.matches_exactly(path, places(rule, working, world));
    match &rule.specifier {
        Specifier::All => true,
        Specifier::Directory(pattern) => {
            exactly(pattern, path) || (pattern.ends_at_any_depth() && exactly(pattern, &path.join("x")))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{RuleScope, RuleSource};

    fn cd(rules: &[(Behavior, &str)], path: &str, real: &str, hops: &[&str]) -> Decision {
        let mut set = RuleSet::default();
        for (behavior, rule) in rules {
            set.add(*behavior, rule, &RuleSource::new(RuleScope::Project, "/repo")).unwrap();
        }
        let world = World {
            cwd: "/repo".into(),
            roots: vec!["/repo".into()],
            home: Some("/home/ada".into()),
            ..World::default()
        };
        let followed = Followed { real: real.into(), hops: hops.iter().map(PathBuf::from).collect() };
        decide_cd(Path::new(path), Some(&followed), &set, &world).decision
    }

    #[test]
    fn everything_is_open_until_something_is_named() {
        assert_eq!(cd(&[], "/srv", "/srv", &[]), Decision::Allow);
        let deny = [(Behavior::Deny, "Cd(//srv/**)")];
        assert_eq!(cd(&deny, "/srv", "/srv", &[]), Decision::Deny);
        assert_eq!(cd(&deny, "/srv/a/b", "/srv/a/b", &[]), Decision::Deny);
        assert_eq!(cd(&deny, "/repo/link", "/tmp", &["/srv/x"]), Decision::Deny, "a hop counts");
        assert_eq!(cd(&deny, "/tmp", "/tmp", &[]), Decision::Allow);
        assert_eq!(cd(&[(Behavior::Ask, "Cd")], "/tmp", "/tmp", &[]), Decision::Ask);
    }

    #[test]
    fn one_allow_rule_makes_a_list_of_what_is_allowed() {
        let allow = [(Behavior::Allow, "Cd(~/code/*)"), (Behavior::Allow, "Cd(//srv/app/**)")];
        for path in ["/home/ada/code/a", "/srv/app", "/srv/app/deep/er"] {
            assert_eq!(cd(&allow, path, path, &[]), Decision::Allow, "{path}");
        }
        for path in ["/home/ada/code", "/home/ada/code/a/b", "/srv", "/srv/application", "/repo"] {
            assert_eq!(cd(&allow, path, path, &[]), Decision::Deny, "{path}");
        }
        assert_eq!(cd(&allow, "/srv/app/link", "/etc", &[]), Decision::Deny, "both spellings must be named");
    }
}
