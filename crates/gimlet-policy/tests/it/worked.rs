//! Worked cases, one table: rules and mode, a call, and what comes of it. They are the cases that people look up first.

use std::path::Path;
use std::sync::Arc;

use gimlet_policy::{
    Behavior, Call, Decision, FileTable, Followed, HookSay, NeedFacts, RuleError, RuleScope, RuleSet, RuleSource,
    World, decide_after_hook, normalise, removes_tool,
};
use gimlet_proto::{Need, PermissionMode};

use Decision::{Allow, Ask, Deny};
use PermissionMode::{AcceptEdits, BypassPermissions, Default as Ordinary, DontAsk};

const CWD: &str = "/srv/repo";
const HOME: &str = "/home/dev";

/// A call in short: what it is about and where it leads.
#[derive(Clone, Copy, Debug)]
enum What {
    Run(&'static str),
    Read(&'static str),
    /// A link and its target.
    ReadLink(&'static str, &'static str),
    Write(&'static str),
    Fetch(&'static str),
}

use What::{Fetch, Read, ReadLink, Run, Write};

impl What {
    fn call(self) -> (&'static str, NeedFacts) {
        let at = |path: &str| normalise(Path::new(CWD), Path::new(path));
        let plain = |path: &str| Some(Followed::plain(at(path)));
        match self {
            Run(text) => ("Bash", NeedFacts::new(Need::Run(text.into()), None)),
            Read(path) => ("Read", NeedFacts::new(Need::Read(at(path)), plain(path))),
            ReadLink(path, target) => ("Read", NeedFacts::new(Need::Read(at(path)), plain(target))),
            Write(path) => ("Edit", NeedFacts::new(Need::Write(at(path)), plain(path))),
            Fetch(host) => ("WebFetch", NeedFacts::new(Need::Fetch(format!("https://{host}/x")), None)),
        }
    }
}

fn rules(texts: &[&str], scope: RuleScope, anchor: &str) -> RuleSet {
    let mut rules = RuleSet::default();
    add(&mut rules, texts, scope, anchor);
    rules
}

/// Each text is a behaviour and a rule: `deny Read(.env)`.
fn add(rules: &mut RuleSet, texts: &[&str], scope: RuleScope, anchor: &str) {
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

fn decided(rules: &RuleSet, mode: PermissionMode, what: What, hook: Option<&HookSay>) -> Decision {
    let (tool, facts) = what.call();
    let world = World {
        mode,
        cwd: CWD.into(),
        roots: vec![CWD.into()],
        home: Some(HOME.into()),
        environment: Some(Arc::default()),
        ..World::default()
    };
    let needs = [facts];
    let call = Call { tool, also_named: &[], input: None, needs: &needs, needs_person: false };
    decide_after_hook(&call, rules, &world, &FileTable::default(), hook).decision
}

type Case = (&'static [&'static str], PermissionMode, What, Decision);

fn check(cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (texts, mode, what, expected) in cases {
        let got = decided(&rules(texts, RuleScope::Project, CWD), *mode, *what, None);
        if got != *expected {
            wrong.push(format!("{texts:?} in {mode}: {what:?} is {got}, not {expected}"));
        }
    }
    wrong
}

const CASES: &[Case] = &[
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
    assert_eq!(check(CASES), Vec::<String>::new());
}

#[test]
fn a_users_anchored_rule_does_not_speak_of_the_project() {
    let rules = rules(&["deny Read(/secrets/**)"], RuleScope::User, "/home/dev/.claude");
    assert_eq!(decided(&rules, Ordinary, Read("secrets/k"), None), Allow);
    assert_eq!(decided(&rules, Ordinary, Read("/home/dev/.claude/secrets/k"), None), Deny);
}

#[test]
fn a_question_of_one_scope_beats_the_leave_of_another() {
    let mut rules = rules(&["allow Bash(make *)"], RuleScope::User, "/home/dev/.claude");
    assert_eq!(decided(&rules, Ordinary, Run("make x"), None), Allow);
    add(&mut rules, &["ask Bash(make *)"], RuleScope::Project, CWD);
    assert_eq!(decided(&rules, Ordinary, Run("make x"), None), Ask);
}

#[test]
fn a_broad_allow_is_skipped_and_a_broad_deny_removes_tools() {
    let source = RuleSource::new(RuleScope::Project, CWD);
    let mut rules = RuleSet::default();
    assert!(matches!(rules.add(Behavior::Allow, "*", &source), Err(RuleError::BroadAllow { .. })));
    add(&mut rules, &["deny mcp__*"], RuleScope::Project, CWD);
    assert!(removes_tool(&rules, "mcp__git__log", &[]) && removes_tool(&rules, "mcp__plugin_a_b__c", &[]));
    assert!(!removes_tool(&rules, "Bash", &[]));
}

#[test]
fn a_hook_grants_only_what_rules_and_safety_leave_open() {
    let leave = HookSay::Allow("the hook says yes".into());
    let doubt = HookSay::Ask("the hook wants to know".into());
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
        let got = decided(&rules(texts, RuleScope::Project, CWD), mode, what, Some(hook));
        assert_eq!(got, expected, "{texts:?} in {mode}: {what:?} after {hook:?}");
    }
}

#[test]
fn a_hooks_leave_opens_protected_files_and_settings_in_no_mode() {
    let leave = HookSay::Allow("the hook says yes".into());
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
            assert_eq!(decided(&none, mode, Run(text), Some(&leave)), expected, "{text} in {mode}");
        }
    }
}

/// Commands of a sandboxed session: what the walls answer and what they do not.
#[test]
fn a_sandbox_answers_questions_but_lifts_no_rule() {
    use gimlet_policy::{Behavior, Call, Decision, NeedFacts, RuleScope, RuleSet, RuleSource, Walls, World, decide};
    use gimlet_proto::{Need, PermissionMode};
    let decision = |walls: Walls, mode: PermissionMode, rules: &[(Behavior, &str)], command: &str| {
        let mut set = RuleSet::default();
        for (behavior, rule) in rules {
            set.add(*behavior, rule, &RuleSource::new(RuleScope::User, "/repo")).unwrap();
        }
        let root: std::path::PathBuf = "/repo".into();
        let world = World {
            mode,
            walls,
            cwd: root.clone(),
            roots: vec![root],
            environment: Some(Arc::default()),
            ..World::default()
        };
        let needs = [NeedFacts::new(Need::Run(command.to_owned()), None)];
        decide(&Call { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false }, &set, &world)
            .decision
    };
    use Behavior::{Ask as AskRule, Deny as DenyRule};
    use Decision::{Allow, Ask, Deny};
    use PermissionMode::{BypassPermissions, Default as Ordinary, DontAsk, Plan};
    for (walls, mode, rules, command, expected) in [
        (Walls::Enough, Ordinary, &[][..], "make", Allow),
        (Walls::Inside, Ordinary, &[], "make", Ask),
        (Walls::Enough, DontAsk, &[], "make", Allow),
        (Walls::Enough, Plan, &[], "make", Ask),
        (Walls::Enough, Ordinary, &[(AskRule, "Bash")], "git push", Allow),
        (Walls::Enough, Plan, &[(AskRule, "Bash")], "ls", Ask),
        (Walls::Enough, Ordinary, &[(AskRule, "Bash(git push *)")], "git push", Ask),
        (Walls::Enough, Ordinary, &[(DenyRule, "Bash(git push *)")], "git push", Deny),
        (Walls::Enough, Ordinary, &[(DenyRule, "Bash(git push *)")], "eval \"$x\"", Ask),
        (Walls::Enough, Ordinary, &[], "rm -rf /", Ask),
        (Walls::Enough, Ordinary, &[], "echo x > .npmrc", Ask),
        (Walls::Leaving, Ordinary, &[(Behavior::Allow, "Bash(make)")], "make", Ask),
        (Walls::Leaving, BypassPermissions, &[], "make", Ask),
        (Walls::Leaving, DontAsk, &[], "make", Deny),
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
        let needs = [NeedFacts::new(Need::Run(text.clone()), None)];
        let call = Call { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
        let world = World {
            walls: gimlet_policy::Walls::Leaving,
            cwd: "/repo".into(),
            environment: Some(Arc::default()),
            ..World::default()
        };
        let verdict = gimlet_policy::decide(&call, &set, &world);
        assert!(verdict.decision == Ask && verdict.reasons.contains(&gimlet_policy::Reason::LeavesSandbox), "{text}");
    }
}
