//! Files that rules keep closed, for tools that walk whole trees: the call is judged by the folder it names, every file
//! in it by this.

use std::path::{Path, PathBuf};

use gimlet_proto::{Need, PermissionMode};

use crate::decide::{NeedFacts, World};
use crate::paths::{PathPattern, Places, Strictness, holds_secrets, is_secret, names_of};
use crate::rules::{Rule, RuleSet, Specifier};

/// What nobody may come across in the middle of a walk, where no one is asked: files that path rules forbid to read or
/// want to be asked about, and places for credentials.
#[derive(Clone, Debug)]
pub struct ClosedFiles {
    rules: Vec<Rule>,
    working: Vec<PathBuf>,
    home: Option<PathBuf>,
    secrets: bool,
}

impl ClosedFiles {
    /// What is closed to a call with these needs; `None` when that is nothing, as it is nearly always.
    ///
    /// A call that names a place for credentials was judged by that, and finds it open.
    pub fn new(rules: &RuleSet, world: &World, needs: &[NeedFacts]) -> Option<Self> {
        let rules: Vec<Rule> = closing(rules).cloned().collect();
        let home = world.home.as_deref();
        let walked = || needs.iter().flat_map(read_paths);
        let secrets = world.mode != PermissionMode::BypassPermissions
            && walked().any(|path| holds_secrets(path, home))
            && !walked().any(|path| is_secret(path, home));
        let closes = secrets || !rules.is_empty();
        closes.then(|| Self { rules, working: world.forbidding_anchors(), home: world.home.clone(), secrets })
    }

    /// What rules about changing files keep as it is; `None` when that is nothing.
    pub fn to_writers(rules: &RuleSet, world: &World) -> Option<Self> {
        let keeps = |rule: &&Rule| rule.tool == "Edit" && matches!(rule.specifier, Specifier::Path(_));
        let rules: Vec<Rule> = rules.deny.iter().filter(keeps).cloned().collect();
        let (working, home) = (world.forbidding_anchors(), world.home.clone());
        (!rules.is_empty()).then_some(Self { rules, working, home, secrets: false })
    }

    /// Whether the file at this normalised path must not be read, or not be changed.
    pub fn contains(&self, path: &Path) -> bool {
        (self.secrets && is_secret(path, self.home.as_deref()))
            || self.rules.iter().any(|rule| {
                let places = Places { working: &self.working, home: self.home.as_deref(), source: &rule.source.anchor };
                matches!(&rule.specifier, Specifier::Path(pattern) if pattern.matches(path, places, Strictness::Forbid))
            })
    }
}

/// The rules that close files, held against what a command comes across.
pub(crate) struct Closing<'a> {
    rules: Vec<(&'a Rule, &'a PathPattern)>,
    working: Vec<PathBuf>,
    home: Option<&'a Path>,
}

impl<'a> Closing<'a> {
    /// `None` when no rule closes a file.
    pub(crate) fn new(rules: &'a RuleSet, world: &'a World) -> Option<Self> {
        Self::by(closing(rules), world)
    }

    /// The rules that keep files from being changed: those that close them, and those about writing. `None` when there are
    /// none.
    pub(crate) fn to_writers(rules: &'a RuleSet, world: &'a World) -> Option<Self> {
        let forbidding = rules.deny.iter().chain(&rules.ask);
        Self::by(forbidding.filter(|rule| matches!(rule.tool.as_str(), "Read" | "Edit")), world)
    }

    /// Whether one of them is about changing files alone.
    pub(crate) fn is_about_changes(&self) -> bool {
        self.rules.iter().any(|(rule, _)| rule.tool == "Edit")
    }

    fn by(rules: impl Iterator<Item = &'a Rule>, world: &'a World) -> Option<Self> {
        let pattern = |rule: &'a Rule| match &rule.specifier {
            Specifier::Path(pattern) => Some((rule, pattern)),
            _ => None,
        };
        let rules: Vec<_> = rules.filter_map(pattern).collect();
        let closes = !rules.is_empty();
        closes.then(|| Self { rules, working: world.forbidding_anchors(), home: world.home.as_deref() })
    }

    fn any(&self, fits: impl Fn(&PathPattern, Places<'_>) -> bool) -> bool {
        self.rules.iter().any(|(rule, pattern)| {
            fits(pattern, Places { working: &self.working, home: self.home, source: &rule.source.anchor })
        })
    }

    pub(crate) fn covers(&self, path: &Path) -> bool {
        let names = names_of(path, Strictness::Forbid);
        self.any(|pattern, places| pattern.matches_names(&names, places, Strictness::Forbid))
    }

    /// Whether something below this directory may be closed.
    pub(crate) fn may_cover_below(&self, directory: &Path) -> bool {
        self.any(|pattern, places| pattern.may_match_below(directory, places))
    }
}

/// Every spelling of a path that is read.
fn read_paths(facts: &NeedFacts) -> impl Iterator<Item = &Path> {
    let spelled = if let Need::Read(path) = &facts.need { Some(path.as_path()) } else { None };
    let led_to = facts.resolved.as_deref().into_iter().chain(facts.hops.iter().map(PathBuf::as_path));
    spelled.into_iter().chain(led_to.filter(move |_| spelled.is_some()))
}

/// The rules that close files to readers.
pub(crate) fn closing(rules: &RuleSet) -> impl Iterator<Item = &Rule> {
    let forbidding = rules.deny.iter().chain(&rules.ask);
    forbidding.filter(|rule| rule.tool == "Read" && matches!(rule.specifier, Specifier::Path(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Followed;
    use crate::{Behavior, RuleScope, RuleSource};

    fn world() -> World {
        World { cwd: "/repo".into(), roots: vec!["/repo".into()], home: Some("/home/ada".into()), ..World::default() }
    }

    fn closed(rules: &[(Behavior, &str)]) -> Option<ClosedFiles> {
        let mut set = RuleSet::default();
        let source = RuleSource::new(RuleScope::Project, "/repo");
        for (behavior, rule) in rules {
            set.add(*behavior, rule, &source).unwrap();
        }
        ClosedFiles::new(&set, &world(), &[])
    }

    #[test]
    fn denied_and_asked_for_files_are_closed_wherever_the_pattern_reaches() {
        let rules =
            [(Behavior::Deny, "Read(.env)"), (Behavior::Deny, "Read(secrets/**)"), (Behavior::Ask, "Read(~/.aws/*)")];
        let closed = closed(&rules).unwrap();
        for path in ["/repo/.env", "/repo/app/.env", "/repo/secrets/a/b", "/home/ada/.aws/credentials"] {
            assert!(closed.contains(Path::new(path)), "{path}");
        }
        for path in ["/repo/.envrc", "/repo/a.rs", "/elsewhere/secrets/a"] {
            assert!(!closed.contains(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn going_elsewhere_opens_nothing() {
        let mut set = RuleSet::default();
        let source = RuleSource::new(RuleScope::Project, "/repo");
        set.add(Behavior::Deny, "Read(secrets/*)", &source).unwrap();
        let world = World { cwd: "/repo/sub".into(), start: vec!["/repo".into()], ..world() };
        let closed = ClosedFiles::new(&set, &world, &[]).unwrap();
        assert!(closed.contains(Path::new("/repo/secrets/a")));
        assert!(closed.contains(Path::new("/repo/sub/secrets/a")));
    }

    #[test]
    fn a_walk_from_above_passes_credentials_by() {
        let closed = |path: &str, mode| {
            let needs = [NeedFacts::new(Need::Read(path.into()), Some(Followed::plain(path)))];
            ClosedFiles::new(&RuleSet::default(), &World { mode, ..world() }, &needs)
        };
        let found = closed("/home/ada", PermissionMode::Default).unwrap();
        assert!(found.contains(Path::new("/home/ada/.ssh/id")));
        assert!(!found.contains(Path::new("/home/ada/repo/a.rs")));
        assert!(closed("/home/ada/repo", PermissionMode::Default).is_none());
        assert!(closed("/home/ada/.ssh", PermissionMode::Default).is_none(), "the call itself was judged by it");
        assert!(closed("/home/ada", PermissionMode::BypassPermissions).is_none());
    }

    #[test]
    fn rules_about_anything_else_close_nothing() {
        let rules = [(Behavior::Deny, "Edit(a.rs)"), (Behavior::Allow, "Read(a.rs)"), (Behavior::Deny, "Bash(rm *)")];
        assert!(closed(&rules).is_none());
    }
}
