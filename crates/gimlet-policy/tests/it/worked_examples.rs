//! Worked cases, one table: rules and mode, a call, and what comes of it. They are the cases that people look up first.

use std::path::Path;
use std::sync::Arc;

use gimlet_policy::{
    Behavior, Decision, DecisionContext, FileTable, FollowedPath, HookDecision, NeedFacts, ProposedCall, RuleError,
    RuleScope, RuleSet, RuleSource, decide_after_hook, is_tool_removed, normalise,
};
use gimlet_proto::{AccessNeed, PermissionMode};

use Decision::{Allow, Ask, Deny};
use PermissionMode::{AcceptEdits, BypassPermissions, Default as Ordinary, DontAsk};

const CWD: &str = "/srv/repo";
const HOME: &str = "/home/dev";

/// A call in short: what it is about and where it leads.
#[derive(Clone, Copy, Debug)]
enum CallExample {
    Run(&'static str),
    Read(&'static str),
    /// A link and its target.
    ReadLink(&'static str, &'static str),
    Write(&'static str),
    Fetch(&'static str),
}

use CallExample::{Fetch, Read, ReadLink, Run, Write};

impl CallExample {
    fn to_call(self) -> (&'static str, NeedFacts) {
        let at = |path: &str| normalise(Path::new(CWD), Path::new(path));
        let plain = |path: &str| Some(FollowedPath::without_links(at(path)));
        match self {
            Run(text) => ("Bash", NeedFacts::new(AccessNeed::Run(text.into()), None)),
            Read(path) => ("Read", NeedFacts::new(AccessNeed::Read(at(path)), plain(path))),
            ReadLink(path, target) => ("Read", NeedFacts::new(AccessNeed::Read(at(path)), plain(target))),
            Write(path) => ("Edit", NeedFacts::new(AccessNeed::Write(at(path)), plain(path))),
            Fetch(host) => ("WebFetch", NeedFacts::new(AccessNeed::Fetch(format!("https://{host}/x")), None)),
        }
    }
}

fn rules(texts: &[&str], scope: RuleScope, anchor: &str) -> RuleSet {
    let mut rules = RuleSet::default();
    add_rules(&mut rules, texts, scope, anchor);
    rules
}

/// Each text is a behaviour and a rule: `deny Read(.env)`.
fn add_rules(rules: &mut RuleSet, texts: &[&str], scope: RuleScope, anchor: &str) {
    let source = RuleSource::new(scope, anchor);
    for text in texts {
        let (behavior, rule) = text.split_once(' ').unwrap();
        let behavior = match behavior {
            "deny" => Behavior::Deny,
            "ask" => Behavior::Ask,
            _ => Behavior::Allow,
        };
        rules.add(behavior, rule, &source).unwrap();
    }
}

fn decide_example(rules: &RuleSet, mode: PermissionMode, what: CallExample, hook: Option<&HookDecision>) -> Decision {
    let (tool, facts) = what.to_call();
    let world = DecisionContext {
        mode,
        cwd: CWD.into(),
        roots: vec![CWD.into()],
        home: Some(HOME.into()),
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    };
    let needs = [facts];
    let call = ProposedCall { tool, also_named: &[], input: None, needs: &needs, needs_person: false };
    decide_after_hook(&call, rules, &world, &FileTable::default(), hook).decision
}

type WorkedCase = (&'static [&'static str], PermissionMode, CallExample, Decision);

fn check_cases(cases: &[WorkedCase]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (texts, mode, what, expected) in cases {
        let got = decide_example(&rules(texts, RuleScope::Project, CWD), *mode, *what, None);
        if got != *expected {
            wrong.push(format!("{texts:?} in {mode}: {what:?} is {got}, not {expected}"));
        }
    }
    wrong
}

const CASES: &[WorkedCase] = &[
    (&["allow Bash(ls *)"], Ordinary, Run("ls"), Allow),
    (&["allow Bash(ls:*)"], Ordinary, Run("ls -la"), Allow),
    (&["allow Bash(ls *)"], Ordinary, Run("lsof"), Ask),
    (&["allow Bash(ls*)"], Ordinary, Run("lsof"), Allow),
    (&["allow Bash(git:* push)"], Ordinary, Run("git push"), Ask),
    (&["allow Bash(cargo test *)"], Ordinary, Run("cargo test && rm -rf out"), Ask),
    (&["allow Bash(cargo test *)"], Ordinary, Run("SECRET=1 cargo test"), Ask),
    (&["deny Bash(rm *)"], Ordinary, Run("SECRET=1 rm a"), Deny),
    (&["deny Bash(rm *)"], Ordinary, Run("sudo rm a"), Deny),
    (&["deny Bash(rm *)"], Ordinary, Run("true; rm a"), Deny),
    // A deny rule also goes by the last part of a path.
    (&["deny Bash(rm *)"], Ordinary, Run("/bin/rm a"), Deny),
    (&["allow Bash(rm *)"], Ordinary, Run("/bin/rm a"), Ask),
    (&["allow Bash(grep *)"], Ordinary, Run("xargs -n1 grep x"), Ask),
    (&["allow Bash(find *)"], Ordinary, Run("find . -name t -delete"), Ask),
    (&[], Ordinary, Run("find *.rs"), Ask),
    (&[], Ordinary, Run("ls > /dev/null"), Allow),
    (&[], Ordinary, Run("ls > o.txt"), Ask),
    (&["allow Edit(src/**)"], Ordinary, Write("vendor/x/src/a.rs"), Ask),
    (&["allow Edit(src/**)"], Ordinary, Write("src/a.rs"), Allow),
    (&["deny Edit(src/**)"], Ordinary, Write("vendor/x/src/a.rs"), Deny),
    (&["deny Read(.env)"], Ordinary, Read(".env"), Deny),
    (&["deny Read(.env)"], Ordinary, Read("a/.env"), Deny),
    (&["deny Read(.env)"], Ordinary, Read("../.env"), Ask),
    (&["allow Read(./p/**)", "deny Read(~/.ssh/**)"], Ordinary, ReadLink("p/k", "/home/dev/.ssh/id"), Deny),
    (&["allow WebFetch(domain:*.ex.com)"], Ordinary, Fetch("a.b.ex.com"), Allow),
    (&["allow WebFetch(domain:*.ex.com)"], Ordinary, Fetch("ex.com"), Ask),
    (&["allow WebFetch(domain:ex.*)"], Ordinary, Fetch("ex.org"), Allow),
    (&["allow WebFetch(domain:ex.*)"], Ordinary, Fetch("ex.a.com"), Ask),
    (&["deny Bash(make *)"], BypassPermissions, Run("make x"), Deny),
    (&["ask Bash(make *)"], BypassPermissions, Run("make x"), Ask),
    (&[], BypassPermissions, Run("make x"), Allow),
    (&["allow Bash(rm *)"], DontAsk, Run("rm -rf ~"), Deny),
    (&["allow Edit(.git/**)"], AcceptEdits, Write(".git/config"), Ask),
    (&["allow Bash(cargo test *)"], Ordinary, Run("timeout 60 cargo test -q"), Allow),
    (&["allow Bash(cargo test *)"], Ordinary, Run("cd crates/a && cargo test"), Allow),
    (&["allow Bash(grep *)"], Ordinary, Run("xargs grep x"), Allow),
    (&[], Ordinary, Run("ls *.rs"), Allow),
];

#[test]
fn the_worked_cases_come_out_as_they_are_told() {
    assert_eq!(check_cases(CASES), Vec::<String>::new());
}

#[test]
fn a_users_anchored_rule_does_not_speak_of_the_project() {
    let rules = rules(&["deny Read(/secrets/**)"], RuleScope::User, "/home/dev/.claude");
    assert_eq!(decide_example(&rules, Ordinary, Read("secrets/k"), None), Allow);
    assert_eq!(decide_example(&rules, Ordinary, Read("/home/dev/.claude/secrets/k"), None), Deny);
}

#[test]
fn a_question_of_one_scope_beats_the_leave_of_another() {
    let mut rules = rules(&["allow Bash(make *)"], RuleScope::User, "/home/dev/.claude");
    assert_eq!(decide_example(&rules, Ordinary, Run("make x"), None), Allow);
    add_rules(&mut rules, &["ask Bash(make *)"], RuleScope::Project, CWD);
    assert_eq!(decide_example(&rules, Ordinary, Run("make x"), None), Ask);
}

#[test]
fn a_broad_allow_is_skipped_and_a_broad_deny_removes_tools() {
    let source = RuleSource::new(RuleScope::Project, CWD);
    let mut rules = RuleSet::default();
    assert!(matches!(rules.add(Behavior::Allow, "*", &source), Err(RuleError::BroadAllow { .. })));
    add_rules(&mut rules, &["deny mcp__*"], RuleScope::Project, CWD);
    assert!(is_tool_removed(&rules, "mcp__git__log", &[]) && is_tool_removed(&rules, "mcp__plugin_a_b__c", &[]));
    assert!(!is_tool_removed(&rules, "Bash", &[]));
}

#[test]
fn a_hook_grants_only_what_rules_and_safety_leave_open() {
    let leave = HookDecision::Allow("the hook says yes".into());
    let doubt = HookDecision::Ask("the hook wants to know".into());
    for (texts, mode, what, hook, expected) in [
        (&["deny Bash(make *)"][..], Ordinary, Run("make x"), &leave, Deny),
        (&["ask Bash(make *)"][..], Ordinary, Run("make x"), &leave, Ask),
        (&[][..], Ordinary, Run("make x"), &leave, Allow),
        (&[][..], DontAsk, Run("make x"), &leave, Allow),
        (&[][..], Ordinary, Run("rm -rf /"), &leave, Ask),
        (&[][..], Ordinary, Write(".git/config"), &leave, Ask),
        (&[][..], PermissionMode::Plan, Write("a.rs"), &leave, Deny),
        (&[][..], PermissionMode::Plan, Run("make x"), &leave, Allow),
        (&["allow Bash(make *)"][..], Ordinary, Run("make x"), &doubt, Ask),
        (&[][..], BypassPermissions, Run("make x"), &doubt, Ask),
        (&[][..], DontAsk, Run("ls"), &doubt, Deny),
    ] {
        let got = decide_example(&rules(texts, RuleScope::Project, CWD), mode, what, Some(hook));
        assert_eq!(got, expected, "{texts:?} in {mode}: {what:?} after {hook:?}");
    }
}

#[test]
fn a_hooks_leave_opens_protected_files_and_settings_in_no_mode() {
    let leave = HookDecision::Allow("the hook says yes".into());
    let none = RuleSet::default();
    for text in [
        "cp x .git/hooks/pre-commit",
        "echo '{}' > .claude/settings.json",
        "cp x ~/.claude/settings.json",
        "mkdir -p .claude && touch .claude/settings.local.json",
        "make && echo x >> ~/.bashrc",
        "gimlet config set model x",
        "gimlet trust --yes",
        "rm -rf ~",
    ] {
        for mode in PermissionMode::ALL.into_iter().filter(|mode| *mode != BypassPermissions) {
            let expected = if mode == DontAsk { Deny } else { Ask };
            assert_eq!(decide_example(&none, mode, Run(text), Some(&leave)), expected, "{text} in {mode}");
        }
    }
}

/// Commands of a sandboxed session: what the walls answer and what they do not.
#[test]
fn a_sandbox_answers_questions_but_lifts_no_rule() {
    use gimlet_policy::{
        Behavior, Decision, DecisionContext, NeedFacts, ProposedCall, RuleScope, RuleSet, RuleSource, SandboxPlacement,
        decide,
    };
    use gimlet_proto::{AccessNeed, PermissionMode};
    let decision = |walls: SandboxPlacement, mode: PermissionMode, rules: &[(Behavior, &str)], command: &str| {
        let mut set = RuleSet::default();
        for (behavior, rule) in rules {
            set.add(*behavior, rule, &RuleSource::new(RuleScope::User, "/repo")).unwrap();
        }
        let root: std::path::PathBuf = "/repo".into();
        let world = DecisionContext {
            mode,
            sandbox: walls,
            cwd: root.clone(),
            roots: vec![root],
            environment: Some(Arc::default()),
            ..DecisionContext::default()
        };
        let needs = [NeedFacts::new(AccessNeed::Run(command.to_owned()), None)];
        decide(
            &ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false },
            &set,
            &world,
        )
        .decision
    };
    use Behavior::{Ask as AskRule, Deny as DenyRule};
    use Decision::{Allow, Ask, Deny};
    use PermissionMode::{BypassPermissions, Default as Ordinary, DontAsk, Plan};
    for (walls, mode, rules, command, expected) in [
        (SandboxPlacement::Sufficient, Ordinary, &[][..], "make", Allow),
        (SandboxPlacement::Inside, Ordinary, &[], "make", Ask),
        (SandboxPlacement::Sufficient, DontAsk, &[], "make", Allow),
        (SandboxPlacement::Sufficient, Plan, &[], "make", Ask),
        (SandboxPlacement::Sufficient, Ordinary, &[(AskRule, "Bash")], "git push", Allow),
        (SandboxPlacement::Sufficient, Plan, &[(AskRule, "Bash")], "ls", Ask),
        (SandboxPlacement::Sufficient, Ordinary, &[(AskRule, "Bash(git push *)")], "git push", Ask),
        (SandboxPlacement::Sufficient, Ordinary, &[(DenyRule, "Bash(git push *)")], "git push", Deny),
        (SandboxPlacement::Sufficient, Ordinary, &[(DenyRule, "Bash(git push *)")], "eval \"$x\"", Ask),
        (SandboxPlacement::Sufficient, Ordinary, &[], "rm -rf /", Ask),
        (SandboxPlacement::Sufficient, Ordinary, &[], "echo x > .npmrc", Ask),
        (SandboxPlacement::Outside, Ordinary, &[(Behavior::Allow, "Bash(make)")], "make", Ask),
        (SandboxPlacement::Outside, BypassPermissions, &[], "make", Ask),
        (SandboxPlacement::Outside, DontAsk, &[], "make", Deny),
    ] {
        assert_eq!(decision(walls, mode, rules, command), expected, "{walls:?} {mode} {rules:?} {command}");
    }
}

/// Whatever else there is to ask about, nobody but a person lets a command out.
#[test]
fn leaving_the_sandbox_is_named_beside_any_doubt() {
    let mut set = RuleSet::default();
    set.add(Behavior::Deny, "Read(./.env)", &RuleSource::new(RuleScope::User, "/repo")).unwrap();
    for text in [format!("touch x; echo {}", "a{b,c} ".repeat(33)), "eval \"$x\"".to_owned()] {
        let needs = [NeedFacts::new(AccessNeed::Run(text.clone()), None)];
        let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
        let world = DecisionContext {
            sandbox: gimlet_policy::SandboxPlacement::Outside,
            cwd: "/repo".into(),
            environment: Some(Arc::default()),
            ..DecisionContext::default()
        };
        let verdict = gimlet_policy::decide(&call, &set, &world);
        assert!(
            verdict.decision == Ask && verdict.reasons.contains(&gimlet_policy::VerdictReason::LeavesSandbox),
            "{text}"
        );
    }
}
