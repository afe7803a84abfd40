//! Files that rules close, for tools that walk whole trees: the call is judged by the folder it names, every file in
//! it by this.

use std::path::{Path, PathBuf};

use gimlet_proto::{AccessNeed, PermissionMode};

use crate::decide::{DecisionContext, NeedFacts};
use crate::paths::{AnchorDirs, MatchStrictness, PathPattern, contains_credentials, is_credential_path, path_names};
use crate::rules::{Rule, RuleSet, RuleSpecifier};

/// Files that must not be read in the middle of a walk, where no question can be asked: files that path rules forbid
/// to read or ask about, and places for credentials.
#[derive(Clone, Debug)]
pub struct DeniedFiles {
    rules: Vec<Rule>,
    working_dirs: Vec<PathBuf>,
    home: Option<PathBuf>,
    includes_credentials: bool,
}

impl DeniedFiles {
    /// Returns the files that are closed to a call with these needs; `None` when there are none, as in nearly all
    /// cases.
    ///
    /// A call that names a place for credentials was judged by that, and finds it open.
    pub fn new(rules: &RuleSet, world: &DecisionContext, needs: &[NeedFacts]) -> Option<Self> {
        let rules: Vec<Rule> = read_deny_rules(rules).cloned().collect();
        let home = world.home.as_deref();
        let walked = || needs.iter().flat_map(read_paths);
        let secrets = world.mode != PermissionMode::BypassPermissions
            && walked().any(|path| contains_credentials(path, home))
            && !walked().any(|path| is_credential_path(path, home));
        let closes = secrets || !rules.is_empty();
        closes.then(|| Self {
            rules,
            working_dirs: world.deny_anchors(),
            home: world.home.clone(),
            includes_credentials: secrets,
        })
    }

    /// Returns the files that rules protect from changes; `None` when there are none.
    pub fn for_writers(rules: &RuleSet, world: &DecisionContext) -> Option<Self> {
        let keeps = |rule: &&Rule| rule.tool == "Edit" && matches!(rule.specifier, RuleSpecifier::Path(_));
        let rules: Vec<Rule> = rules.deny.iter().filter(keeps).cloned().collect();
        let (working, home) = (world.deny_anchors(), world.home.clone());
        (!rules.is_empty()).then_some(Self { rules, working_dirs: working, home, includes_credentials: false })
    }

    /// Returns the files that no document of a user or project may lead to: those that path rules forbid to read or ask
    /// about, and places for credentials.
    pub fn for_documents(rules: &RuleSet, world: &DecisionContext) -> Self {
        Self {
            rules: read_deny_rules(rules).cloned().collect(),
            working_dirs: world.deny_anchors(),
            home: world.home.clone(),
            includes_credentials: true,
        }
    }

    /// Returns true if the file at this normalised path must not be read, or not be changed.
    pub fn contains(&self, path: &Path) -> bool {
        (self.includes_credentials && is_credential_path(path, self.home.as_deref()))
            || self.rules.iter().any(|rule| {
                let places = AnchorDirs { working_dirs: &self.working_dirs, home: self.home.as_deref(), source: &rule.source.anchor };
                matches!(&rule.specifier, RuleSpecifier::Path(pattern) if pattern.matches(path, places, MatchStrictness::Forbid))
            })
    }
}

/// The rules that close files, matched against files that a command meets.
pub(crate) struct FileDenyRules<'a> {
    rules: Vec<(&'a Rule, &'a PathPattern)>,
    working_dirs: Vec<PathBuf>,
    home: Option<&'a Path>,
}

impl<'a> FileDenyRules<'a> {
    /// Collects the rules; `None` when no rule closes a file.
    pub(crate) fn new(rules: &'a RuleSet, world: &'a DecisionContext) -> Option<Self> {
        Self::from_rules(read_deny_rules(rules), world)
    }

    /// Collects the rules that protect files from changes: those that close them, and those about writing. `None` when
    /// there are none.
    pub(crate) fn for_writers(rules: &'a RuleSet, world: &'a DecisionContext) -> Option<Self> {
        let forbidding = rules.deny.iter().chain(&rules.ask);
        Self::from_rules(forbidding.filter(|rule| matches!(rule.tool.as_str(), "Read" | "Edit")), world)
    }

    /// Returns true if one of the rules is about changing files alone.
    pub(crate) fn has_write_rules(&self) -> bool {
        self.rules.iter().any(|(rule, _)| rule.tool == "Edit")
    }

    fn from_rules(rules: impl Iterator<Item = &'a Rule>, world: &'a DecisionContext) -> Option<Self> {
        let pattern = |rule: &'a Rule| match &rule.specifier {
            RuleSpecifier::Path(pattern) => Some((rule, pattern)),
            _ => None,
        };
        let rules: Vec<_> = rules.filter_map(pattern).collect();
        let closes = !rules.is_empty();
        closes.then(|| Self { rules, working_dirs: world.deny_anchors(), home: world.home.as_deref() })
    }

    fn any_rule_matches(&self, fits: impl Fn(&PathPattern, AnchorDirs<'_>) -> bool) -> bool {
        self.rules.iter().any(|(rule, pattern)| {
            fits(pattern, AnchorDirs { working_dirs: &self.working_dirs, home: self.home, source: &rule.source.anchor })
        })
    }

    pub(crate) fn covers(&self, path: &Path) -> bool {
        let names = path_names(path, MatchStrictness::Forbid);
        self.any_rule_matches(|pattern, places| pattern.matches_names(&names, places, MatchStrictness::Forbid))
    }

    /// Returns true if something below this directory may be closed.
    pub(crate) fn may_cover_below(&self, directory: &Path) -> bool {
        self.any_rule_matches(|pattern, places| pattern.may_match_below(directory, places))
    }
}

/// Returns every spelling of a path that is read.
fn read_paths(facts: &NeedFacts) -> impl Iterator<Item = &Path> {
    let spelled = if let AccessNeed::Read(path) = &facts.need { Some(path.as_path()) } else { None };
    let led_to = facts.resolved.as_deref().into_iter().chain(facts.hops.iter().map(PathBuf::as_path));
    spelled.into_iter().chain(led_to.filter(move |_| spelled.is_some()))
}

/// Returns the rules that close files to readers.
pub(crate) fn read_deny_rules(rules: &RuleSet) -> impl Iterator<Item = &Rule> {
    let forbidding = rules.deny.iter().chain(&rules.ask);
    forbidding.filter(|rule| rule.tool == "Read" && matches!(rule.specifier, RuleSpecifier::Path(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::FollowedPath;
    use crate::{Behavior, RuleScope, RuleSource};

    fn test_context() -> DecisionContext {
        DecisionContext {
            cwd: "/repo".into(),
            roots: vec!["/repo".into()],
            home: Some("/home/ada".into()),
            ..DecisionContext::default()
        }
    }

    fn denied_files(rules: &[(Behavior, &str)]) -> Option<DeniedFiles> {
        let mut set = RuleSet::default();
        let source = RuleSource::new(RuleScope::Project, "/repo");
        for (behavior, rule) in rules {
            set.add(*behavior, rule, &source).unwrap();
        }
        DeniedFiles::new(&set, &test_context(), &[])
    }

    #[test]
    fn deny_and_ask_rules_deny_every_file_they_match() {
        let rules =
            [(Behavior::Deny, "Read(.env)"), (Behavior::Deny, "Read(secrets/**)"), (Behavior::Ask, "Read(~/.aws/*)")];
        let closed = denied_files(&rules).unwrap();
        for path in ["/repo/.env", "/repo/app/.env", "/repo/secrets/a/b", "/home/ada/.aws/credentials"] {
            assert!(closed.contains(Path::new(path)), "{path}");
        }
        for path in ["/repo/.envrc", "/repo/a.rs", "/elsewhere/secrets/a"] {
            assert!(!closed.contains(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn changing_directory_keeps_files_denied() {
        let mut set = RuleSet::default();
        let source = RuleSource::new(RuleScope::Project, "/repo");
        set.add(Behavior::Deny, "Read(secrets/*)", &source).unwrap();
        let world = DecisionContext { cwd: "/repo/sub".into(), start: vec!["/repo".into()], ..test_context() };
        let closed = DeniedFiles::new(&set, &world, &[]).unwrap();
        assert!(closed.contains(Path::new("/repo/secrets/a")));
        assert!(closed.contains(Path::new("/repo/sub/secrets/a")));
    }

    #[test]
    fn a_walk_from_a_parent_skips_credentials() {
        let closed = |path: &str, mode| {
            let needs = [NeedFacts::new(AccessNeed::Read(path.into()), Some(FollowedPath::without_links(path)))];
            DeniedFiles::new(&RuleSet::default(), &DecisionContext { mode, ..test_context() }, &needs)
        };
        let found = closed("/home/ada", PermissionMode::Default).unwrap();
        assert!(found.contains(Path::new("/home/ada/.ssh/id")));
        assert!(!found.contains(Path::new("/home/ada/repo/a.rs")));
        assert!(closed("/home/ada/repo", PermissionMode::Default).is_none());
        assert!(closed("/home/ada/.ssh", PermissionMode::Default).is_none(), "the call itself was judged by it");
        assert!(closed("/home/ada", PermissionMode::BypassPermissions).is_none());
    }

    #[test]
    fn unrelated_rules_deny_no_files() {
        let rules = [(Behavior::Deny, "Edit(a.rs)"), (Behavior::Allow, "Read(a.rs)"), (Behavior::Deny, "Bash(rm *)")];
        assert!(denied_files(&rules).is_none());
    }
}
