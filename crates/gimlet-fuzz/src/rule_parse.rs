//! Fuzz target for permission rules as users and programs write them.
//!
//! Every text is a rule or an error that names it. A rule that forbids matches at least as much as the identical rule
//! that allows, so that no text can allow what it would not forbid.

use gimlet_policy::{
    Behavior, Decision, DecisionContext, FileTable, FollowedPath, NeedFacts, ProposedCall, Rule, RuleScope, RuleSet,
    RuleSource, RuleValue, UpdateDestination, decide, is_agent_removed, is_tool_removed, split_rules, suggest_updates,
};
use gimlet_proto::{AccessNeed, PermissionMode};
use serde_json::{Map, Value};
use std::sync::Arc;

use crate::FuzzTarget;
use crate::input_fields::{join_fields, split_texts};
use crate::permission_corpus::{path_rows, shell_rows};

/// Fields: a rule or a list of rules, a tool, what the call is about.
pub const TARGET: FuzzTarget = FuzzTarget { name: "rule_parse", run, seeds, words: WORDS };

const WORDS: &[&str] = &[
    "Bash(",
    "Read(",
    "Edit(",
    "Write(",
    "WebFetch(domain:",
    "Agent(",
    "Task(",
    "Skill(",
    "Cd(",
    "mcp__",
    "mcp__git__*",
    ":*)",
    "*",
    "**",
    ")",
    "(",
    "~/",
    "//",
    "./",
    "!",
    "[a-z]",
    "\\",
    "run_in_background:true",
    "*.example.com",
    "xn--",
    "https://",
    "http://user@",
    ":8080/",
    "npm run",
    "git",
    "sudo ",
    "env A=1 ",
    "'",
    "\"",
    "$x",
    "{a,b}",
    " ",
    ",",
    "Bash",
    "Read",
    "WebFetch",
    "Glob",
    "MultiEdit",
    "KillShell",
];

fn run(data: &[u8]) {
    let Some([rule, tool, about]) = split_texts::<3>(data) else { return };
    for piece in split_rules(rule) {
        assert!(!piece.is_empty() && rule.contains(piece), "a list is cut into its own pieces");
        check_text(piece);
    }
    check_text(rule);
    let modes = PermissionMode::ALL;
    for (at, scope) in RuleScope::ALL.into_iter().enumerate() {
        check_forbidding_reach(rule, tool, about, &source(scope), modes[(rule.len() + about.len() + at) % modes.len()]);
    }
}

fn source(scope: RuleScope) -> RuleSource {
    RuleSource::new(scope, "/srv/repo")
}

fn check_text(text: &str) {
    let source = || source(RuleScope::Project);
    for behavior in [Behavior::Allow, Behavior::Ask, Behavior::Deny] {
        match Rule::parse(text, behavior, &source()) {
            Ok(rule) => {
                let again = Rule::parse(&rule.text, behavior, &source());
                assert_eq!(again.as_ref(), Ok(&rule), "the text of a rule is the rule");
                // Empty parentheses mean what no parentheses mean.
                let parts = rule.text.split_once('(').filter(|(_, rest)| *rest != ")");
                if let Some((tool, rest)) = parts {
                    let value = RuleValue::new(tool, rest.strip_suffix(')').map(str::to_owned));
                    assert_eq!(value.text(), rule.text, "a rule can be said in two parts");
                }
            }
            Err(error) => assert!(error.to_string().contains(text.trim()), "{error} does not name {text:?}"),
        }
    }
    let forbids = Rule::parse(text, Behavior::Deny, &source());
    assert_eq!(
        forbids.is_ok(),
        Rule::parse(text, Behavior::Ask, &source()).is_ok(),
        "deny and ask take the same rules"
    );
    if let Err(error) = forbids {
        assert!(Rule::parse(text, Behavior::Allow, &source()).is_err(), "allowed but not forbidden: {error}");
    }
}

fn check_forbidding_reach(rule: &str, tool: &str, about: &str, source: &RuleSource, mode: PermissionMode) {
    let world = decision_context(mode);
    let path = gimlet_policy::normalise("/srv/repo".as_ref(), about.as_ref());
    let need = match tool {
        "Bash" => AccessNeed::Run(about.to_owned()),
        "Read" | "Glob" | "Grep" => AccessNeed::Read(path.clone()),
        "Write" | "Edit" | "NotebookEdit" => AccessNeed::Write(path.clone()),
        "WebFetch" => AccessNeed::Fetch(about.to_owned()),
        _ => AccessNeed::Opaque,
    };
    let followed =
        matches!(need, AccessNeed::Read(_) | AccessNeed::Write(_)).then(|| FollowedPath::without_links(path));
    let needs = [NeedFacts::new(need, followed)];
    let mut input = Map::new();
    for key in ["command", "file_path", "url", "subagent_type", "skill"] {
        input.insert(key.to_owned(), Value::String(about.to_owned()));
    }
    let call = ProposedCall { tool, also_named: &[], input: Some(&input), needs: &needs, needs_person: false };
    let with = |behavior: Behavior| {
        let mut rules = RuleSet::default();
        rules.add(behavior, rule, source).ok()?;
        let _ = (is_tool_removed(&rules, tool, &[]), is_agent_removed(&rules, about));
        Some(decide(&call, &rules, &world).decision)
    };
    let alone = decide(&call, &RuleSet::default(), &world).decision;
    let denied = with(Behavior::Deny);
    if with(Behavior::Allow) == Some(Decision::Allow) && alone != Decision::Allow {
        assert_eq!(denied, Some(Decision::Deny), "{rule:?} allows {tool} {about:?} and does not forbid it");
    }
    assert!(
        with(Behavior::Allow).is_none_or(|allowed| allowed != Decision::Deny || alone == Decision::Deny),
        "an allow rule forbids"
    );
    assert!(denied.is_none_or(|denied| denied != Decision::Allow || alone == Decision::Allow), "a deny rule allows");
    if alone == Decision::Ask {
        let kept = |_: UpdateDestination| source.clone();
        drop(suggest_updates(&call, &RuleSet::default(), &world, &FileTable::default(), &kept));
    }
}

fn decision_context(mode: PermissionMode) -> DecisionContext {
    DecisionContext {
        mode,
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        home: Some("/home/dev".into()),
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let shell = shell_rows().into_iter().flat_map(|row| {
        let command = row.command;
        row.rules.into_iter().map(move |(_, rule)| join_fields(&[rule.as_bytes(), b"Bash", command.as_bytes()]))
    });
    let paths = path_rows().into_iter().flat_map(|row| {
        let (tool, path) = (row.tool, row.path);
        row.rules.into_iter().map(move |(_, rule)| join_fields(&[rule.as_bytes(), tool.as_bytes(), path.as_bytes()]))
    });
    let others = [
        ("WebFetch(domain:*.example.com)", "WebFetch", "https://user:x@a.example.com:8080/p?q#f"),
        ("Agent(Explore),Task(model:opus*)", "Agent", "Explore"),
        ("mcp__git__*", "mcp__git__log", ""),
        ("Skill(deploy:*)", "Skill", "deploy:all"),
        ("Bash(run_in_background:true) Read(a, b)", "Bash", "ls"),
    ];
    let others = others.map(|(rule, tool, about)| join_fields(&[rule.as_bytes(), tool.as_bytes(), about.as_bytes()]));
    shell.chain(paths).chain(others).collect()
}
