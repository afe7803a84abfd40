//! Every row of the corpora: nothing that must not run is allowed, nothing that is denied is softened, and nothing
//! harmless asks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_policy::{
    Behavior, Decision, DecisionContext, NeedFacts, ProposedCall, RuleScope, RuleSet, RuleSource, decide, normalise,
};
use gimlet_proto::AccessNeed;
use serde_json::Value;

/// What a run over a corpus found.
#[derive(Debug, Default)]
struct CorpusTally {
    rows: usize,
    unsupported: Vec<String>,
    unsafe_allows: Vec<String>,
    weakened_denies: Vec<String>,
    hardened_asks: Vec<String>,
    false_prompts: Vec<String>,
}

impl CorpusTally {
    fn count(&mut self, row: &Value, got: Decision) {
        let id = text(row, "id").to_owned();
        self.rows += 1;
        match (text(row, "expect"), got) {
            ("allow", Decision::Allow) | ("ask", Decision::Ask) | ("deny", Decision::Deny) => {}
            ("not-allow", Decision::Ask | Decision::Deny) => {}
            ("allow", _) => self.false_prompts.push(id),
            ("deny", _) => self.weakened_denies.push(id),
            ("ask", Decision::Deny) => self.hardened_asks.push(id),
            _ => self.unsafe_allows.push(id),
        }
    }

    fn assert_safe(&self) {
        assert_eq!(self.unsafe_allows, Vec::<String>::new(), "must not be allowed");
        assert_eq!(self.weakened_denies, Vec::<String>::new(), "must stay denied");
        assert_eq!(self.hardened_asks, Vec::<String>::new(), "must only ask");
        assert_eq!(self.unsupported, Vec::<String>::new(), "rules that could not be parsed");
    }
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} is missing in {row}"))
}

fn rows(corpus: &str) -> Vec<Value> {
    corpus.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn rules(row: &Value, anchor: &Path) -> Option<RuleSet> {
    let source = RuleSource::new(RuleScope::Project, anchor);
    let mut rules = RuleSet::default();
    for behavior in [Behavior::Deny, Behavior::Ask, Behavior::Allow] {
        for rule in row["rules"][behavior.as_str()].as_array().unwrap() {
            rules.add(behavior, rule.as_str().unwrap(), &source).ok()?;
        }
    }
    Some(rules)
}

fn decide_need(tool: &str, facts: NeedFacts, rules: &RuleSet, world: &DecisionContext) -> Decision {
    decide(&ProposedCall { tool, also_named: &[], input: None, needs: &[facts], needs_person: false }, rules, world)
        .decision
}

#[test]
fn shell_corpus_is_decided_exactly() {
    let mut tally = CorpusTally::default();
    for row in rows(include_str!("../corpus/shell-permissions.jsonl")) {
        let Some(rules) = rules(&row, Path::new("/repo")) else {
            tally.unsupported.push(text(&row, "id").to_owned());
            continue;
        };
        let world = DecisionContext {
            cwd: text(&row, "cwd").into(),
            roots: vec!["/repo".into()],
            home: Some("/home/dev".into()),
            environment: Some(Arc::default()),
            ..DecisionContext::default()
        };
        let facts = NeedFacts { need: AccessNeed::Run(text(&row, "command").into()), resolved: None, hops: vec![] };
        tally.count(&row, decide_need("Bash", facts, &rules, &world));
    }
    tally.assert_safe();
    assert_eq!(tally.rows, 452);
    assert_eq!(tally.false_prompts, Vec::<String>::new(), "must not ask");
}

#[test]
fn path_corpus_is_decided_exactly() {
    let mut tally = CorpusTally::default();
    for row in rows(include_str!("../corpus/path-permissions.jsonl")) {
        let Some(rules) = rules(&row, Path::new(text(&row, "root"))) else {
            tally.unsupported.push(text(&row, "id").to_owned());
            continue;
        };
        let links = RowLinks::from_row(&row);
        let cwd = PathBuf::from(text(&row, "cwd"));
        let resolved_cwd = links.resolve(&cwd);
        let roots = std::iter::once(cwd.clone()).chain(resolved_cwd.clone()).collect();
        let world = DecisionContext {
            resolved_cwd: resolved_cwd.filter(|resolved| *resolved != cwd),
            roots,
            home: Some(text(&row, "home").into()),
            cwd: cwd.clone(),
            environment: Some(Arc::default()),
            ..DecisionContext::default()
        };
        let path = PathBuf::from(text(&row, "path"));
        let resolved = links.resolve(&cwd.join(&path));
        let tool = text(&row, "tool");
        let need = if tool == "Read" { AccessNeed::Read(path) } else { AccessNeed::Write(path) };
        tally.count(&row, decide_need(tool, NeedFacts { need, resolved, hops: vec![] }, &rules, &world));
    }
    tally.assert_safe();
    assert_eq!(tally.rows, 158);
    assert_eq!(tally.false_prompts, Vec::<String>::new());
}

/// The links of a row, followed as the kernel follows them.
struct RowLinks(HashMap<PathBuf, PathBuf>);

impl RowLinks {
    fn from_row(row: &Value) -> Self {
        let links = row["symlinks"].as_object().unwrap();
        RowLinks(links.iter().map(|(link, target)| (link.into(), target.as_str().unwrap().into())).collect())
    }

    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let mut names: Vec<String> =
            path.to_str()?.split('/').rev().filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut resolved = PathBuf::from("/");
        let mut hops = 0;
        while let Some(name) = names.pop() {
            match name.as_str() {
                "." => continue,
                ".." => {
                    resolved.pop();
                    continue;
                }
                _ => {}
            }
            let next = resolved.join(&name);
            match self.0.get(&next) {
                Some(target) => {
                    hops += 1;
                    if hops > 40 {
                        return None;
                    }
                    let target = target.to_str()?;
                    if target.starts_with('/') {
                        resolved = PathBuf::from("/");
                    }
                    names.extend(target.split('/').rev().filter(|name| !name.is_empty()).map(str::to_owned));
                }
                None => resolved = next,
            }
        }
        Some(normalise(Path::new("/"), &resolved))
    }
}
