//! What decisions are measured on: rules, a world, and texts of every shape that could be slow.

use gimlet_policy::{
    Behavior, DecisionContext, NeedFacts, ProposedCall, RuleScope, RuleSet, RuleSource, Verdict, decide,
};
use gimlet_proto::AccessNeed;
use std::sync::Arc;

/// Lengths of a text, in bytes.
pub(crate) const LENGTHS: &[usize] = &[1_000, 10_000];
/// Parts that sound texts are made of.
pub(crate) const PARTS: &[&str] = &[
    "ls; ",
    "cat <<E\n$x it's\nE\n",
    "cat <<'E'\nbody\nE\n",
    "for f in a b; do cat \"$f\"; done; ",
    "if [ -f a ]; then cat a; fi; ",
    "echo \"$(ls | wc -l)\"; ",
    "cat $(git ls-files); ",
    "ls | xargs cat; ",
    "case $x in a) ls;; esac; ",
    "cd a; cat b; ",
    "rm -rf \"$x\"/; ",
    "find . -exec env ",
    "find . -exec a \\; ",
    "env -q ",
    "env -S 'ls' ",
    "nice ",
    "timeout 5 ",
    "command ",
    "xargs ",
    "xargs -I{} sh -c '{}' ",
    "find . | sort | sort | sort | xargs cat; ",
    "(ls) && ",
    "a{b,c} $x * ",
    "for i in a; do ",
];

/// Constructs inside constructs: what opens and what closes them.
pub(crate) const NESTED: &[(&str, &str)] = &[
    ("echo \"$(", ")\""),
    ("(", ")"),
    ("{ ", "; }"),
    ("if true; then ", "; fi"),
    ("for i in a; do ", "; done"),
    ("cat <(", ")"),
    ("echo ${x:-", "}"),
    ("cat <<E\n$(", ")\nE\n"),
];

/// Constructs that are opened and never closed.
pub(crate) const OPENERS: &[&str] = &["(", "$(", "\"$(", "`", "{ ", "${x:-", "<<E\n", "'", "\\"];

/// Parts that fill something: what stands before and behind them.
pub(crate) const FILLED: &[(&str, &str, &str)] = &[
    ("cat <<E\n", "$x ", "\nE\n"),
    ("cat <<E\n", "$(ls) ", "\nE\n"),
    ("ls ", "<\\\n", "a"),
    ("ls ", "&\\\n", "ls"),
    ("", "ls | ", "|"),
    ("find . ", "| sort ", "| xargs cat"),
];

/// As long as it may be.
pub(crate) fn filled_text(length: usize, (before, part, behind): (&str, &str, &str)) -> String {
    format!("{before}{}{behind}", part.repeat((length - before.len() - behind.len()) / part.len()))
}

/// As deep as the text is long.
pub(crate) fn nested_text(length: usize, open: &str, close: &str) -> String {
    let depth = length / (open.len() + close.len());
    format!("{}ls{}", open.repeat(depth), close.repeat(depth))
}

/// A decision to be made again and again.
pub(crate) struct DecisionQuestion {
    needs: [NeedFacts; 1],
    rules: RuleSet,
    context: DecisionContext,
}

impl DecisionQuestion {
    pub(crate) fn for_command(text: String) -> Self {
        let context = DecisionContext {
            cwd: "/srv/repo".into(),
            roots: vec!["/srv/repo".into()],
            home: Some("/home/dev".into()),
            environment: Some(Arc::default()),
            ..DecisionContext::default()
        };
        Self {
            needs: [NeedFacts { need: AccessNeed::Run(text), resolved: None, hops: vec![] }],
            rules: rules(),
            context,
        }
    }

    pub(crate) fn decide(&self) -> Verdict {
        let needs = std::hint::black_box(&self.needs);
        decide(
            &ProposedCall { tool: "Bash", also_named: &[], input: None, needs, needs_person: false },
            &self.rules,
            &self.context,
        )
    }
}

fn rules() -> RuleSet {
    let source = RuleSource::new(RuleScope::Project, "/srv/repo");
    let mut rules = RuleSet::default();
    let deny = ["Bash(curl:*)", "Bash(rm -rf:*)", "Bash(git push:*)", "Read(.env)", "Read(~/.ssh/**)"];
    let allow = ["Bash(npm run:*)", "Bash(cargo test:*)", "Bash(git log:*)", "Edit(src/**)"];
    for (behavior, list) in [(Behavior::Deny, deny.as_slice()), (Behavior::Allow, allow.as_slice())] {
        for rule in list {
            // These literals parse; a bench without rules would measure nothing.
            assert!(rules.add(behavior, rule, &source).is_ok(), "{rule}");
        }
    }
    rules
}
