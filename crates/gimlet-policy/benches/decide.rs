//! How long a decision takes: small commands are the rule, hostile ones the limit.

use gimlet_policy::{Behavior, Call, NeedFacts, RuleScope, RuleSet, RuleSource, Verdict, World, decide};
use gimlet_proto::Need;

fn main() {
    divan::main();
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

fn bench(bencher: divan::Bencher<'_, '_>, text: String) {
    let rules = rules();
    let world = World {
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        home: Some("/home/dev".into()),
        ..World::default()
    };
    let needs = [NeedFacts { need: Need::Run(text), resolved: None, hops: vec![] }];
    bencher.bench_local(|| -> Verdict {
        decide(
            &Call { tool: "Bash", also_named: &[], input: None, needs: divan::black_box(&needs), needs_person: false },
            &rules,
            &world,
        )
    });
}

#[divan::bench]
fn one_small_command(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, "npm run test -- --watch=false".to_owned());
}

#[divan::bench]
fn a_pipeline(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, "grep -rn 'parseConfig' --include='*.ts' src 2>/dev/null | head -50".to_owned());
}

#[divan::bench(args = [1_000, 10_000])]
fn a_list_of_this_length(bencher: divan::Bencher<'_, '_>, length: usize) {
    bench(bencher, "echo \"step one\" && ".repeat(length / 19) + "echo done");
}

#[divan::bench(args = ["(", "$(", "\"$(", "`", "{ ", "${x:-", "<<E\n", "'", "\\"])]
fn ten_thousand_openers(bencher: divan::Bencher<'_, '_>, opener: &str) {
    bench(bencher, opener.repeat(10_000));
}

/// Sound texts of a length, each of one kind of part; the limit is 2 ms for 1,000 bytes and 50 ms for 10,000.
#[divan::bench(args = LENGTHS.iter().flat_map(|length| PARTS.iter().map(|part| (*length, *part))))]
fn many_parts(bencher: divan::Bencher<'_, '_>, (length, part): (usize, &str)) {
    bench(bencher, part.repeat(length / part.len()));
}

const LENGTHS: &[usize] = &[1_000, 10_000];
const PARTS: &[&str] = &[
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
    "(ls) && ",
    "a{b,c} $x * ",
    "for i in a; do ",
];

/// Constructs inside constructs, as deep as the text is long.
#[divan::bench(args = [
    (1_000, "echo \"$(", ")\""),
    (10_000, "echo \"$(", ")\""),
    (1_000, "(", ")"),
    (10_000, "(", ")"),
    (10_000, "{ ", "; }"),
    (10_000, "if true; then ", "; fi"),
    (10_000, "for i in a; do ", "; done"),
    (10_000, "cat <(", ")"),
    (10_000, "echo ${x:-", "}"),
    (10_000, "cat <<E\n$(", ")\nE\n"),
])]
fn nested(bencher: divan::Bencher<'_, '_>, (length, open, close): (usize, &str, &str)) {
    let depth = length / (open.len() + close.len());
    bench(bencher, format!("{}ls{}", open.repeat(depth), close.repeat(depth)));
}
