//! Remarks for users about their rules: which could not be parsed, which have no effect, which name an unknown tool,
//! and which another rule makes pointless. Nothing here changes a decision.

use std::fmt;

use gimlet_text::edit_distance;

use super::{
    Behavior, DomainPattern, InertReason, Rule, RuleError, RuleSet, RuleSource, RuleSpecifier, matches_wildcard,
};

/// A rule that could not be used, and its location. A deny or ask rule among them protects nothing: a caller that
/// loads rules must report it visibly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    pub behavior: Behavior,
    pub source: RuleSource,
    pub error: RuleError,
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { behavior, source, error } = self;
        write!(f, "{source}: {error}")?;
        match behavior {
            Behavior::Allow => Ok(()),
            Behavior::Ask => f.write_str("; until it is corrected, nothing asks because of it"),
            Behavior::Deny => f.write_str("; until it is corrected, it denies nothing"),
        }
    }
}

/// Remark about a rule that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRemark {
    pub behavior: Behavior,
    pub rule: String,
    pub source: RuleSource,
    pub oddity: RuleOddity,
}

/// Problem of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOddity {
    /// File rules are written as `Read(…)` or `Edit(…)`.
    FileTool,
    /// The parameter has a rule form of its own.
    PrimaryField(String),
    /// The tool does not exist on this system.
    OtherSystem,
    /// The rule is about directory changes, which are judged with their command.
    Directory,
    /// A character in its path has no special meaning here, although its author may expect one.
    Literal(&'static str),
    /// No tool has this name; perhaps another was meant.
    UnknownTool { name: String, nearest: Option<String> },
    /// Another rule decides everything that this one could.
    Unreachable { behavior: Behavior, by: String, source: Box<RuleSource> },
}

impl RuleRemark {
    /// Returns true if the remark is about one of these rules, or about one that they cover.
    pub fn concerns(&self, behavior: Behavior, written: &[String]) -> bool {
        let is_written = |by: Behavior, rule: &str| by == behavior && written.iter().any(|text| text.trim() == rule);
        let hides = matches!(&self.oddity, RuleOddity::Unreachable { behavior, by, .. } if is_written(*behavior, by));
        hides || is_written(self.behavior, &self.rule)
    }
}

impl fmt::Display for RuleRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { behavior, rule, source, oddity } = self;
        write!(f, "{source}: the {behavior} rule `{rule}` ")?;
        match oddity {
            RuleOddity::FileTool => {
                f.write_str("has no effect; rules about files are written as `Read(…)` or `Edit(…)`, whatever the tool")
            }
            RuleOddity::PrimaryField(field) => {
                write!(f, "has no effect; what `{field}` may be is said by the tool's own form of rule")
            }
            RuleOddity::OtherSystem => f.write_str("has no effect; there is no such tool on this system"),
            RuleOddity::Directory => f.write_str("has no effect; a command's own `cd` is judged with the command"),
            RuleOddity::Literal(what) => write!(f, "is about files whose names have that sign in them: {what}"),
            RuleOddity::UnknownTool { name, nearest: Some(nearest) } => {
                write!(f, "names the tool `{name}`, which nobody knows; did you mean `{nearest}`?")
            }
            RuleOddity::UnknownTool { name, nearest: None } => write!(f, "names the tool `{name}`, which nobody knows"),
            RuleOddity::Unreachable { behavior, by, source } => {
                write!(f, "is never reached; the {behavior} rule `{by}` from {source} decides first")
            }
        }
    }
}

impl RuleSet {
    /// Adds a list of rules; each one that cannot be used is skipped and reported, the others count.
    pub fn load<'a>(
        &mut self,
        behavior: Behavior,
        rules: impl IntoIterator<Item = (&'a str, RuleSource)>,
    ) -> Vec<RuleProblem> {
        let mut problems = Vec::new();
        for (text, source) in rules {
            if let Err(error) = self.add(behavior, text, &source) {
                problems.push(RuleProblem { behavior, source, error });
            }
        }
        problems
    }

    /// Returns remarks on rules without effect, and on those that forbid calls of a tool that is not among the `known`
    /// ones.
    pub fn collect_remarks(&self, known: &[&str]) -> Vec<RuleRemark> {
        let mut remarks = Vec::new();
        for (behavior, rule) in self.iter_all() {
            let oddity = match &rule.specifier {
                RuleSpecifier::Inert(InertReason::FileTool) => Some(RuleOddity::FileTool),
                RuleSpecifier::Inert(InertReason::PrimaryField(field)) => Some(RuleOddity::PrimaryField(field.clone())),
                RuleSpecifier::Inert(InertReason::OtherSystem) => Some(RuleOddity::OtherSystem),
                RuleSpecifier::Inert(InertReason::Directory) => Some(RuleOddity::Directory),
                RuleSpecifier::Path(_) => find_literal_sign(&rule.text),
                _ if behavior != Behavior::Allow => find_unknown_tool(rule, known),
                _ => None,
            };
            remarks.extend(oddity.map(|oddity| new_remark(behavior, rule, oddity)));
        }
        remarks
    }

    /// Returns remarks on rules that never decide anything, since one that precedes them covers all their calls.
    pub fn find_unreachable(&self) -> Vec<RuleRemark> {
        let mut remarks = Vec::new();
        for (behavior, rule) in self.iter_all() {
            let stronger = self.iter_all().take_while(|(other, _)| *other != behavior);
            let mut covering = stronger.filter(|(_, other)| covers_rule(other, rule));
            if let Some((other, by)) = covering.next() {
                let (by, source) = (by.text.clone(), Box::new(by.source.clone()));
                remarks.push(new_remark(behavior, rule, RuleOddity::Unreachable { behavior: other, by, source }));
            }
        }
        remarks
    }

    /// Returns the remarks for rules that were written just now: those among them that decide nothing, and those that
    /// they keep from deciding.
    pub fn find_newly_unreachable(&self, behavior: Behavior, written: &[String]) -> Vec<RuleRemark> {
        let mut remarks = self.find_unreachable();
        remarks.retain(|remark| remark.concerns(behavior, written));
        remarks
    }

    /// Returns every rule, in the order of decision.
    fn iter_all(&self) -> impl Iterator<Item = (Behavior, &Rule)> {
        let lists = [(Behavior::Deny, &self.deny), (Behavior::Ask, &self.ask), (Behavior::Allow, &self.allow)];
        lists.into_iter().flat_map(|(behavior, list)| list.iter().map(move |rule| (behavior, rule)))
    }
}

fn new_remark(behavior: Behavior, rule: &Rule, oddity: RuleOddity) -> RuleRemark {
    RuleRemark { behavior, rule: rule.text.clone(), source: rule.source.clone(), oddity }
}

/// Returns a remark on a character of a path pattern that is matched literally although other programs interpret it:
/// hardly any file has such a name.
fn find_literal_sign(rule: &str) -> Option<RuleOddity> {
    let path = rule.split_once('(')?.1.trim_end().strip_suffix(')')?;
    let listed =
        path.split_once('{').and_then(|(_, rest)| rest.split_once('}')).is_some_and(|(list, _)| list.contains(','));
    let opened = path.rfind('[').is_some_and(|at| !path[at..].contains(']'));
    let other_home = path.strip_prefix('~').is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let what = match path {
        _ if listed => "braces are no list here, so write one rule for each name",
        _ if path.starts_with(['"', '\'']) => "quotes are part of the name here, so leave them out",
        _ if path.contains('$') => "variables are not replaced here, so write the path out",
        _ if path.contains(")") && path.contains("(") => "one rule ends at the last parenthesis, so write two",
        _ if other_home => "`~` is your own home directory only, so write the path out",
        _ if opened => "a bracket that is not closed stands for itself",
        _ if path.ends_with('\\') => "there is nothing behind the backslash that it could quote",
        _ => return None,
    };
    Some(RuleOddity::Literal(what))
}

/// Returns a remark on an unknown tool. Names with `_` belong to servers that may not be running, and a glob may match
/// future tools.
fn find_unknown_tool(rule: &Rule, known: &[&str]) -> Option<RuleOddity> {
    let name = rule.tool.as_str();
    if name.contains(['_', '*']) || known.iter().any(|known| super::canonical_tool_name(known) == name) {
        return None;
    }
    let nearest = known.iter().map(|known| (edit_distance(known, name), *known)).min();
    let nearest = nearest.filter(|(distance, _)| *distance <= 2).map(|(_, known)| known.to_owned());
    Some(RuleOddity::UnknownTool { name: name.to_owned(), nearest })
}

/// Returns true if `wide` covers everything that `narrow` covers; false when in doubt.
fn covers_rule(wide: &Rule, narrow: &Rule) -> bool {
    if matches!(narrow.specifier, RuleSpecifier::Inert(_)) {
        return false;
    }
    let same_place = wide.source.anchor == narrow.source.anchor;
    // A file that may not be read may not be changed either.
    let same_files = wide.tool == narrow.tool || (wide.tool == "Read" && narrow.tool == "Edit");
    match (&wide.specifier, &narrow.specifier) {
        (RuleSpecifier::All, _) => wide.tool == narrow.tool || wide.names_tool(&narrow.tool, &[]),
        (RuleSpecifier::Path(wide), RuleSpecifier::Path(narrow)) if same_files => wide.contains(narrow, same_place),
        _ if wide.tool != narrow.tool => false,
        (RuleSpecifier::Command(wide), RuleSpecifier::Command(narrow)) => wide.covers(narrow),
        (RuleSpecifier::Domain(wide), RuleSpecifier::Domain(narrow)) => covers_hosts(wide, narrow),
        (wide, narrow) => wide == narrow,
    }
}

fn covers_hosts(wide: &DomainPattern, narrow: &DomainPattern) -> bool {
    match (wide, narrow) {
        (DomainPattern::Any, _) => true,
        (wide, DomainPattern::Labels(labels)) if !labels.iter().any(|label| label.contains('*')) => {
            wide.matches(&labels.join("."))
        }
        (DomainPattern::SubdomainsOf(wide), DomainPattern::SubdomainsOf(narrow)) => {
            wide == narrow || matches_wildcard(&format!("*.{wide}"), narrow)
        }
        (wide, narrow) => wide == narrow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RuleScope;

    fn rule_set(deny: &[&str], ask: &[&str], allow: &[&str]) -> RuleSet {
        let source = RuleSource::new(RuleScope::Project, "/repo");
        let mut rules = RuleSet::default();
        for (behavior, list) in [(Behavior::Deny, deny), (Behavior::Ask, ask), (Behavior::Allow, allow)] {
            let problems = rules.load(behavior, list.iter().map(|rule| (*rule, source.clone())));
            assert_eq!(problems, []);
        }
        rules
    }

    #[test]
    fn one_bad_rule_is_reported_with_its_place_and_the_others_count() {
        let at = |line| RuleSource::new(RuleScope::Project, "/repo").in_file("/repo/.claude/settings.json", Some(line));
        let mut rules = RuleSet::default();
        let problems = rules.load(Behavior::Deny, [("Bash(rm *)", at(3)), ("Bash(rm", at(4)), ("Read(.env)", at(5))]);
        assert_eq!(rules.rules(Behavior::Deny).len(), 2);
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("/repo/.claude/settings.json:4") && said[0].contains("`Bash(rm`"), "{said:?}");
        assert!(said[0].contains("denies nothing"), "{said:?}");
    }

    #[test]
    fn rules_without_effect_and_unknown_tools_are_remarked_on() {
        let rules = rule_set(&["Write(a)", "Bahs(x:1)", "mcp__gone__x", "*"], &["Bash(command:x)"], &["Whatever"]);
        let remarks = rules.collect_remarks(&["Bash", "Read"]);
        let said: Vec<String> = remarks.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("`Read(…)` or `Edit(…)`"), "{said:?}");
        assert!(said[1].contains("did you mean `Bash`?"), "{said:?}");
        assert!(said[2].contains("`command`"), "{said:?}");
        assert_eq!(rule_set(&["Task(x)"], &[], &[]).collect_remarks(&["Agent"]), []);
        assert_eq!(rule_set(&["Agent(x)"], &[], &[]).collect_remarks(&["Task"]), []);
    }

    #[test]
    fn signs_that_mean_nothing_in_a_path_are_remarked_on() {
        let mut rules = RuleSet::default();
        let source = RuleSource::new(RuleScope::User, "/");
        let odd = [
            "Read([)",
            "Read(.env\\)",
            "Read({.env,x})",
            "Read(\".env\")",
            "Read($PWD/.env)",
            "Read(.env)Read(x)",
            "Read(~root/x)",
        ];
        for rule in odd {
            rules.add(Behavior::Deny, rule, &source).unwrap();
        }
        for rule in ["Read(.env)", "Edit(src/[ab]*.rs)", "Read(~/x)", "Read(~)", "Read(a{b}c)"] {
            rules.add(Behavior::Deny, rule, &source).unwrap();
        }
        let remarks = rules.collect_remarks(&[]);
        let found: Vec<&str> = remarks.iter().map(|remark| remark.rule.as_str()).collect();
        assert_eq!(found, odd);
    }

    #[test]
    fn what_a_stronger_rule_covers_is_unreachable() {
        for (wide, narrow) in [
            ("Bash", "Bash(npm test)"),
            ("Bash(npm *)", "Bash(npm run:*)"),
            ("Bash(npm *)", "Bash(npm)"),
            ("*", "Edit(src/**)"),
            ("mcp__git", "mcp__git__log"),
            ("mcp__*", "mcp__git__*"),
            ("WebFetch(domain:*.ex.com)", "WebFetch(domain:a.ex.com)"),
            ("WebFetch(domain:*.ex.com)", "WebFetch(domain:*.a.ex.com)"),
            ("Read(.env)", "Read(.env)"),
            ("Bash(b*)", "Bash(b)"),
            ("Bash(b*)", "Bash(bash -x)"),
            ("Bash(npm*)", "Bash(npm run:*)"),
            ("Bash(npm *)", "Bash(npm run * --fix)"),
            ("Bash(git * main)", "Bash(git push main)"),
            ("Bash(git * main)", "Bash(git push * main)"),
            ("Read(src/**)", "Read(src/x)"),
            ("Read(src/**)", "Read(src/*/y)"),
            ("Read(src/**)", "Edit(src/x)"),
            ("Read(src)", "Read(src/a/b)"),
            ("Read(.env)", "Read(config/.env)"),
            ("Read(**/*.pem)", "Read(certs/a.pem)"),
            ("Read(/a/*.RS)", "Read(/a/b.rs)"),
            ("Edit(docs/**)", "Edit(lib/docs/**)"),
            ("Read(//etc/**)", "Read(//etc/ssl/**)"),
            ("Read(~/**)", "Read(~/.ssh/*)"),
        ] {
            let remarks = rule_set(&[wide], &[], &[narrow]).find_unreachable();
            assert_eq!(remarks.len(), 1, "{wide} over {narrow}");
            assert!(remarks[0].to_string().contains(wide), "{remarks:?}");
            assert_eq!(rule_set(&[], &[wide], &[narrow]).find_unreachable().len(), 1, "{wide} over {narrow}");
        }
        for (wide, narrow) in [
            ("Bash(npm run *)", "Bash(npm *)"),
            ("Bash(npm *)", "Bash(npmx)"),
            ("Edit(src/**)", "Read(src/**)"),
            ("WebFetch(domain:*.ex.com)", "WebFetch(domain:ex.com)"),
            ("Write", "Edit"),
            ("Bash(b)", "Bash(b*)"),
            ("Bash(npm *)", "Bash(npm*)"),
            ("Bash(git * main)", "Bash(git push *)"),
            ("Edit(src/**)", "Read(src/x)"),
            ("Read(src/x)", "Read(src/**)"),
            ("Read(src/*.rs)", "Read(src/**)"),
            ("Read(src/*.rs)", "Read(src/*)"),
            ("Read(/src/**)", "Read(src/**)"),
            ("Read(./.env)", "Read(.env)"),
            ("Read(src/**/x)", "Read(src/a)"),
            ("Read(src/?.rs)", "Read(src/*.rs)"),
        ] {
            assert_eq!(rule_set(&[wide], &[], &[narrow]).find_unreachable(), [], "{wide} over {narrow}");
        }
        assert_eq!(
            rule_set(&[], &[], &["Bash", "Bash(x)"]).find_unreachable(),
            [],
            "allow rules do not hide each other"
        );
    }
}
