//! Tests for the order of the decision, mode by mode.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{AccessNeed, PermissionMode};

use super::{DecisionContext, NeedFacts, ProposedCall, decide, decide_with_files};
use crate::paths::{DirListing, FileTable, FileView, FollowedPath};
use crate::rules::{Behavior, RuleScope, RuleSet, RuleSource};
use crate::verdict::{Decision, Verdict, VerdictReason};

use Decision::{Allow, Ask, Deny};
use PermissionMode::{AcceptEdits, BypassPermissions, Default as Ordinary, DontAsk, Plan};

fn rules(deny: &[&str], ask: &[&str], allow: &[&str]) -> RuleSet {
    let source = RuleSource::new(RuleScope::Project, "/srv/repo");
    let mut rules = RuleSet::default();
    for (behavior, list) in [(Behavior::Deny, deny), (Behavior::Ask, ask), (Behavior::Allow, allow)] {
        for rule in list {
            rules.add(behavior, rule, &source).unwrap();
        }
    }
    rules
}

fn test_context(mode: PermissionMode) -> DecisionContext {
    DecisionContext {
        mode,
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        readable_dirs: vec!["/home/dev/.claude/results".into()],
        home: Some("/home/dev".into()),
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    }
}

fn decide_need(tool: &str, need: AccessNeed, rules: &RuleSet, mode: PermissionMode) -> Verdict {
    let resolved = match &need {
        AccessNeed::Read(path) | AccessNeed::Write(path) => Some(path.clone()),
        _ => None,
    };
    let needs = [NeedFacts { need, resolved, hops: vec![] }];
    decide(
        &ProposedCall { tool, also_named: &[], input: None, needs: &needs, needs_person: false },
        rules,
        &test_context(mode),
    )
}

fn decide_command(text: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    decide_need("Bash", AccessNeed::Run(text.into()), rules, mode).decision
}

fn decide_path_read(path: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    decide_need("Read", AccessNeed::Read(path.into()), rules, mode).decision
}

fn decide_path_write(path: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    decide_need("Edit", AccessNeed::Write(path.into()), rules, mode).decision
}

#[test]
fn each_mode_treats_an_undecided_call_in_its_own_way() {
    let none = RuleSet::default();
    let table = [
        (Ordinary, Ask, Ask, Allow, Ask, Allow),
        (AcceptEdits, Ask, Allow, Allow, Ask, Allow),
        (Plan, Ask, Deny, Allow, Ask, Allow),
        (DontAsk, Deny, Deny, Allow, Deny, Allow),
        (BypassPermissions, Allow, Allow, Allow, Allow, Allow),
    ];
    for (mode, command, edit, inside, outside, looking) in table {
        assert_eq!(decide_command("make", &none, mode), command, "{mode}");
        assert_eq!(decide_path_write("/srv/repo/a.rs", &none, mode), edit, "{mode}");
        assert_eq!(decide_path_read("/srv/repo/a.rs", &none, mode), inside, "{mode}");
        assert_eq!(decide_path_read("/etc/hosts", &none, mode), outside, "{mode}");
        assert_eq!(decide_command("ls -la", &none, mode), looking, "{mode}");
    }
}

#[test]
fn deny_and_ask_rules_hold_in_every_mode() {
    let rules = rules(&["Bash(rm:*)", "Read(.env)"], &["Bash(git push:*)"], &["Bash", "Edit"]);
    for mode in PermissionMode::ALL {
        assert_eq!(decide_command("ls && sudo rm x", &rules, mode), Deny, "{mode}");
        assert_eq!(decide_path_read("/srv/repo/sub/.env", &rules, mode), Deny, "{mode}");
        assert_eq!(decide_path_write("/srv/repo/.env", &rules, mode), Deny, "{mode}");
        assert_eq!(decide_command("cat .env", &rules, mode), Deny, "{mode}");
        let asked = if mode == DontAsk { Deny } else { Ask };
        assert_eq!(decide_command("git push", &rules, mode), asked, "{mode}");
        assert_eq!(decide_command("git $x", &rules, mode), asked, "{mode}");
        assert_eq!(decide_command("$x y", &rules, mode), asked, "{mode}");
        assert_eq!(decide_command("echo 'open", &rules, mode), asked, "{mode}");
    }
}

#[test]
fn dont_ask_refuses_only_after_the_allow_rules() {
    let allowing = rules(&[], &[], &["Bash(make:*)", "Edit(src/**)"]);
    assert_eq!(decide_command("make test", &allowing, DontAsk), Allow);
    assert_eq!(decide_command("make test; ls", &allowing, DontAsk), Allow);
    assert_eq!(decide_command("make test; touch x", &allowing, DontAsk), Deny);
    assert_eq!(decide_path_write("/srv/repo/src/a", &allowing, DontAsk), Allow);
    assert_eq!(decide_path_write("/srv/repo/a", &allowing, DontAsk), Deny);
}

#[test]
fn critical_removals_ask_whatever_is_allowed() {
    let allowing = rules(&[], &[], &["Bash", "Bash(rm:*)"]);
    for text in ["rm -rf /", "echo \"$(rm -rf /)\"", "rm -rf \"$DIR\"/*", "sudo rm -rf ~"] {
        for mode in [Ordinary, AcceptEdits, Plan, BypassPermissions] {
            assert_eq!(decide_command(text, &allowing, mode), Ask, "{text} in {mode}");
        }
        assert_eq!(decide_command(text, &allowing, DontAsk), Deny, "{text}");
    }
    assert_eq!(decide_command("rm -rf node_modules", &allowing, Ordinary), Allow);
}

/// A mode without questions still stops a removal of everything, but not of some files.
#[test]
fn no_rule_covers_a_removal_by_a_pattern_in_the_working_directory_itself() {
    for allowing in [rules(&[], &[], &["Bash"]), rules(&[], &[], &["Bash(rm:*)", "Bash(make:*)"])] {
        for text in ["rm *.o", "make && rm -f ./*.o", "rm ~/*.txt"] {
            assert_eq!(decide_command(text, &allowing, Ordinary), Ask, "{text}");
            assert_eq!(decide_command(text, &allowing, DontAsk), Deny, "{text}");
            assert_eq!(decide_command(text, &allowing, BypassPermissions), Allow, "{text}");
        }
        assert_eq!(decide_command("rm build/*.o", &allowing, Ordinary), Allow);
    }
}

/// For any value of the word, and if it expands to no word.
#[test]
fn a_pattern_forbids_what_it_fits_whatever_a_word_becomes() {
    let denied = rules(&["Bash(git * main)"], &[], &[]);
    for text in ["git merge $x main", "git merge --no-{a,b}ff main", "git merge \"$x\" main"] {
        assert_eq!(decide_command(text, &denied, Ordinary), Deny, "{text}");
    }
    for text in ["git merge $x", "git $x $y main"] {
        assert_eq!(decide_command(text, &denied, Ordinary), Ask, "{text}");
    }
}

/// Neither more nor less than with a command that does nothing.
#[test]
fn a_redirection_without_a_command_is_a_write_or_a_read() {
    let none = rules(&[], &[], &[]);
    for text in ["> a", "&> 'my dir'", "true > a"] {
        for (mode, expected) in [(Ordinary, Ask), (AcceptEdits, Allow), (Plan, Ask), (DontAsk, Deny)] {
            assert_eq!(decide_command(text, &none, mode), expected, "{text} in {mode}");
        }
        assert_eq!(decide_command(text, &rules(&[], &[], &["Edit(**)"]), Ordinary), Allow, "{text}");
        assert_eq!(decide_command(text, &rules(&["Edit(**)"], &[], &[]), AcceptEdits), Deny, "{text}");
    }
    assert_eq!(decide_command("< a", &none, Ordinary), Allow);
    for text in ["> .git/config", "> /etc/x", "< /etc/shadow", "x=1 > a", "> $f", "> /dev/tcp/h/1", "> a; x=1"] {
        assert_eq!(decide_command(text, &none, AcceptEdits), Ask, "{text}");
    }
}

#[test]
fn only_bypass_lifts_the_question_about_protected_files() {
    let allowing = rules(&[], &[], &["Edit", "Edit(**)", "Bash(cp:*)"]);
    for (mode, expected) in
        [(Ordinary, Ask), (AcceptEdits, Ask), (Plan, Deny), (DontAsk, Deny), (BypassPermissions, Allow)]
    {
        assert_eq!(decide_path_write("/srv/repo/.git/config", &allowing, mode), expected, "{mode}");
    }
    assert_eq!(decide_command("cp x .git/hooks/pre-commit", &allowing, Ordinary), Ask);
    assert_eq!(decide_command("cp x y", &allowing, Ordinary), Allow);
}

#[test]
fn in_plan_mode_an_allow_rule_grants_no_command() {
    let allowing = rules(&[], &[], &["Bash", "Bash(make:*)", "mcp__a__b"]);
    assert_eq!(decide_command("make", &allowing, Plan), Ask);
    assert_eq!(decide_need("mcp__a__b", AccessNeed::Opaque, &allowing, Plan).decision, Ask);
    assert_eq!(decide_need("mcp__a__b", AccessNeed::Opaque, &allowing, Ordinary).decision, Allow);
}

#[test]
fn spelling_and_target_must_both_pass() {
    let decide_read = |resolved: Option<&str>| {
        let needs = [NeedFacts {
            need: AccessNeed::Read("/srv/repo/link".into()),
            resolved: resolved.map(PathBuf::from),
            hops: vec![],
        }];
        let call = ProposedCall { tool: "Read", also_named: &[], input: None, needs: &needs, needs_person: false };
        decide(&call, &rules(&["Read(~/.ssh/**)"], &[], &[]), &test_context(Ordinary)).decision
    };
    assert_eq!(decide_read(Some("/srv/repo/real")), Allow);
    assert_eq!(decide_read(Some("/etc/passwd")), Ask);
    assert_eq!(decide_read(Some("/home/dev/.ssh/id")), Deny);
    assert_eq!(decide_read(None), Ask);
}

#[test]
fn the_strictest_need_decides_the_call() {
    let needs = [
        NeedFacts { need: AccessNeed::Session, resolved: None, hops: vec![] },
        NeedFacts { need: AccessNeed::Read("/etc/hosts".into()), resolved: Some("/etc/hosts".into()), hops: vec![] },
    ];
    let decided = |needs: &[NeedFacts], needs_person| {
        decide(
            &ProposedCall { tool: "X", also_named: &[], input: None, needs, needs_person },
            &RuleSet::default(),
            &test_context(Ordinary),
        )
        .decision
    };
    assert_eq!(decided(&needs[..1], false), Allow);
    assert_eq!(decided(&needs, false), Ask);
    assert_eq!(decided(&[], false), Ask);
    assert_eq!(decided(&needs[..1], true), Ask);
}

#[test]
fn stored_results_may_be_read_but_not_written() {
    let none = RuleSet::default();
    assert_eq!(decide_path_read("/home/dev/.claude/results/1.txt", &none, Ordinary), Allow);
    assert_eq!(decide_path_write("/home/dev/.claude/results/1.txt", &none, AcceptEdits), Ask);
}

#[test]
fn a_bare_allow_does_not_cover_files_behind_redirections() {
    let bare = rules(&[], &[], &["Bash"]);
    assert_eq!(decide_command("python3 x.py && for f in a; do b \"$f\"; done", &bare, Ordinary), Allow);
    assert_eq!(decide_command("make > out", &bare, Ordinary), Ask);
    assert_eq!(decide_command("make > out", &bare, AcceptEdits), Allow);
    assert_eq!(decide_command("make > /etc/out", &bare, AcceptEdits), Ask);
    assert_eq!(decide_command("cd x; make > out", &bare, AcceptEdits), Ask);
    assert_eq!(decide_command("make > .git/config", &bare, AcceptEdits), Ask);
    assert_eq!(decide_command("make > /dev/null 2>&1", &bare, Ordinary), Allow);
    let edits = rules(&["Edit(.env)"], &[], &["Bash", "Edit(/docs/**)"]);
    assert_eq!(decide_command("make > docs/log", &edits, Ordinary), Allow);
    assert_eq!(decide_command("make > .env", &edits, BypassPermissions), Deny);
}

#[test]
fn reading_a_tree_asks_while_some_file_in_it_may_be_denied() {
    let closed = rules(&["Read(.env)"], &[], &[]);
    assert_eq!(decide_command("grep -r KEY .", &closed, Ordinary), Ask);
    assert_eq!(decide_command("grep KEY README.md", &closed, Ordinary), Allow);
    assert_eq!(decide_command("grep .env README.md", &closed, Ordinary), Allow);
    assert_eq!(decide_command("cd config && cat x", &closed, Ordinary), Allow);
    assert_eq!(decide_command("cd config && cat .env", &closed, Ordinary), Deny);
    assert_eq!(decide_command("cd $x && cat y", &closed, Ordinary), Ask);
}

#[test]
fn web_rules_go_by_host() {
    let rules = rules(&["WebFetch(domain:evil.org)"], &[], &["WebFetch(domain:*.ex.com)"]);
    let fetch = |url: &str, mode| decide_need("WebFetch", AccessNeed::Fetch(url.into()), &rules, mode).decision;
    assert_eq!(fetch("https://a.ex.com/x", Ordinary), Allow);
    assert_eq!(fetch("https://ex.com/x", Ordinary), Ask);
    assert_eq!(fetch("https://EVIL.org./", BypassPermissions), Deny);
    assert_eq!(fetch("https://a@b/", BypassPermissions), Ask);
}

#[test]
fn verdicts_name_what_decided_and_what_to_do() {
    let rules = rules(&["Bash(curl:*)"], &[], &[]);
    let refused = decide_need("Bash", AccessNeed::Run("curl x".into()), &rules, Ordinary);
    assert_eq!(refused.explain(), "refused: the deny rule `Bash(curl:*)` from the project settings");
    let text = refused.model_text("Bash");
    assert!(
        text.starts_with("Bash was not run: the deny rule `Bash(curl:*)`") && text.contains("another way"),
        "{text}"
    );
    let planned = decide_need("Edit", AccessNeed::Write("/srv/repo/a".into()), &rules, Plan);
    assert!(planned.model_text("Edit").contains("present the plan"));
    let unattended = decide_need("Bash", AccessNeed::Run("make".into()), &rules, DontAsk);
    assert_eq!(unattended.reasons, [VerdictReason::Mode(DontAsk), VerdictReason::Default]);
}

#[test]
fn changing_directory_neither_lifts_nor_widens_relative_path_rules() {
    let rules = rules(&["Read(.env)", "Edit(gen/*)"], &["Read(asked/*)"], &["Edit(src/**)"]);
    let moved =
        DecisionContext { cwd: "/srv/repo/sub".into(), start: vec!["/srv/repo".into()], ..test_context(Ordinary) };
    let judge = |tool: &str, need: AccessNeed, path: &str| {
        let needs = [NeedFacts { need, resolved: Some(path.into()), hops: vec![] }];
        decide(&ProposedCall { tool, also_named: &[], input: None, needs: &needs, needs_person: false }, &rules, &moved)
            .decision
    };
    let read = |path: &str| judge("Read", AccessNeed::Read(path.into()), path);
    let write = |path: &str| judge("Edit", AccessNeed::Write(path.into()), path);
    assert_eq!(read("/srv/repo/.env"), Deny);
    assert_eq!(read("/srv/repo/sub/.env"), Deny);
    assert_eq!(read("/srv/repo/asked/a"), Ask);
    assert_eq!(write("/srv/repo/gen/a"), Deny);
    assert_eq!(write("/srv/repo/sub/gen/a"), Deny);
    assert_eq!(write("/srv/repo/src/a.rs"), Allow);
    assert_eq!(write("/srv/repo/sub/src/a.rs"), Ask);
    let needs = [NeedFacts { need: AccessNeed::Run("cat ../.env".into()), resolved: None, hops: vec![] }];
    assert_eq!(
        decide(
            &ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false },
            &rules,
            &moved
        )
        .decision,
        Deny
    );
}

#[test]
fn a_denied_command_is_found_wherever_another_program_would_run_it() {
    let rules = rules(&["Bash(rm:*)"], &[], &["Bash"]);
    for text in [
        "find . -exec rm {} \\;",
        "find . -name a -execdir rm {} +",
        "find . -ok rm {} \\;",
        "env -S\"rm zz\"",
        "env -iS 'rm zz'",
        "env --split-string=\"rm zz\"",
        "env --split='rm zz'",
        "script -qc \"rm zz\"",
        "script -q -c'rm zz' /dev/null",
        "script --command='rm zz'",
        "bash <<< \"rm zz\"",
        "bash <<EOF\nrm zz\nEOF",
        "bash -s <<'EOF'\nrm zz\nEOF",
        "echo rm zz | bash",
        "echo rm zz | sudo sh -",
        "source /dev/stdin <<< 'rm zz'",
        "bash -c 'bash <<< \"rm zz\"'",
        "mapfile -C 'rm zz' -c 1",
        "chroot / rm zz",
        "setpriv --reuid 0 rm zz",
        "unshare rm zz",
        "nsenter -t 1 rm zz",
        "runuser -u root -- rm zz",
    ] {
        assert_eq!(decide_command(text, &rules, BypassPermissions), Deny, "{text}");
    }
    for text in [
        "for x in 'a[$(rm zz)]'; do echo $((x)); done",
        "set -- 'a[$(rm zz)]'; echo $(( $1 ))",
        "for x in 'a[`rm zz`]'; do echo ${!x}; done",
        "bash -c 'for x in \"a[\\$(rm zz)]\"; do echo $((x)); done'",
    ] {
        assert_ne!(decide_command(text, &rules, BypassPermissions), Allow, "{text}");
    }
    // The value of a variable runs, and no value is followed.
    for text in ["echo ${x@P}", "for x in '$(rm zz)'; do echo ${x@P}; done", "echo \"${a[0]@P}\" \"${@@P}\""] {
        assert_ne!(decide_command(text, &rules, BypassPermissions), Allow, "{text}");
    }
    for text in ["echo '$(rm zz)'", "for x in '$(rm zz)'; do echo \"$x\"; done", "echo $((1 + 2))"] {
        assert_eq!(decide_command(text, &rules, BypassPermissions), Allow, "{text}");
    }
    let many = format!("{}bash -c 'rm zz'", "bash -c true; ".repeat(40));
    assert_eq!(decide_command(&many, &rules, BypassPermissions), Ask, "too many scripts to look into");
    for text in ["curl x | sh", "sh < script", "bash <(make-script)", "eval \"$x\"", "bash -c \"$x\"", ". /dev/stdin"] {
        assert_eq!(decide_command(text, &rules, BypassPermissions), Ask, "{text}");
    }
    for text in [
        "bash script.sh",
        "bash -e script.sh",
        "find . -name rm",
        "env A=1 make",
        "echo rm zz | cat",
        "cat <<< 'rm zz'",
    ] {
        assert_eq!(decide_command(text, &rules, BypassPermissions), Allow, "{text}");
    }
}

#[test]
fn credentials_ask_even_inside_a_working_directory() {
    let home = DecisionContext { cwd: "/home/dev".into(), roots: vec!["/home/dev".into()], ..test_context(Ordinary) };
    let judge = |need: AccessNeed, resolved: Option<&str>, rules: &RuleSet| {
        let needs = [NeedFacts { need, resolved: resolved.map(PathBuf::from), hops: vec![] }];
        decide(
            &ProposedCall { tool: "Read", also_named: &[], input: None, needs: &needs, needs_person: false },
            rules,
            &home,
        )
        .decision
    };
    let none = RuleSet::default();
    let read = |path: &str, real: &str, rules: &RuleSet| judge(AccessNeed::Read(path.into()), Some(real), rules);
    assert_eq!(read("/home/dev/a", "/home/dev/a", &none), Allow);
    assert_eq!(read("/home/dev/.ssh/id", "/home/dev/.ssh/id", &none), Ask);
    assert_eq!(read("/home/dev/link", "/home/dev/.aws/credentials", &none), Ask);
    assert_eq!(read("/home/dev/.ssh/id", "/home/dev/.ssh/id", &rules(&[], &[], &["Read(~/.ssh/id)"])), Allow);
    for text in ["grep -r x", "grep -r x .", "grep -r x /home/dev"] {
        assert_eq!(judge(AccessNeed::Run(text.into()), None, &none), Ask, "{text}");
    }
    assert_eq!(judge(AccessNeed::Run("grep -r x repo".into()), None, &none), Allow);
}

/// A repository whose configuration names programs.
struct TrappedRepository(PathBuf);

impl FileView for TrappedRepository {
    fn follow(&self, path: &Path) -> Option<FollowedPath> {
        Some(FollowedPath::without_links(path))
    }

    fn list(&self, _folder: &Path, _most: usize) -> DirListing {
        DirListing::NotFound
    }

    fn find_git_trap(&self, _cwd: &Path) -> Option<PathBuf> {
        Some(self.0.clone())
    }
}

#[test]
fn git_is_read_only_where_no_repository_config_runs_programs() {
    let none = RuleSet::default();
    let trap = PathBuf::from("/srv/repo/.git/config");
    let trapped = TrappedRepository(trap.clone());
    let judge = |text: &str, rules: &RuleSet, view: &dyn FileView| {
        let needs = [NeedFacts { need: AccessNeed::Run(text.into()), resolved: None, hops: vec![] }];
        let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
        decide_with_files(&call, rules, &test_context(Ordinary), view)
    };
    for text in [
        "git status",
        "git diff HEAD",
        "timeout 5 git log -1",
        "ls; git status",
        "git status | head",
        "echo $(git status)",
    ] {
        assert_eq!(judge(text, &none, &FileTable::default()).decision, Allow, "{text}");
        assert_eq!(judge(text, &none, &trapped).decision, Ask, "{text}");
    }
    assert_eq!(judge("git status", &none, &trapped).reasons, [VerdictReason::GitRuns(trap)]);
    assert_eq!(judge("ls .gitignore", &none, &trapped).decision, Allow);
    let own = rules(&[], &[], &["Bash(git status)"]);
    assert_eq!(judge("git status", &own, &trapped).decision, Allow, "the person said so");
}

#[test]
fn a_question_names_the_nearest_reason() {
    let rules = rules(&["Read(vault/**)"], &[], &[]);
    let first =
        |text: &str, rules: &RuleSet| decide_need("Bash", AccessNeed::Run(text.into()), rules, Ordinary).reasons;
    let none = RuleSet::default();
    assert_eq!(first("cat /etc/hosts", &none), [VerdictReason::OutsideWorkingDirectories("/etc/hosts".into())]);
    assert_eq!(first("make x", &none), [VerdictReason::Default]);
    assert!(matches!(&first("grep -r x .", &rules)[..], [VerdictReason::MayMatchRule { .. }]));
    // A doubt does not hide what is certain.
    let doubtful = first("rm -rf ~", &rules);
    assert!(matches!(&doubtful[..], [.., VerdictReason::CriticalRemoval(_)]), "{doubtful:?}");
}

#[test]
fn files_of_other_users_are_never_opened_by_a_mode_or_a_rule_that_does_not_name_them() {
    let decide_in = |mode, need: AccessNeed, allow: &[&str], roots: &[&str]| {
        let mut rules = RuleSet::default();
        for rule in allow {
            rules.add(Behavior::Allow, rule, &RuleSource::new(RuleScope::User, "/home/dev")).unwrap();
        }
        let world = DecisionContext {
            mode,
            cwd: "/home/dev/repo".into(),
            roots: roots.iter().map(PathBuf::from).chain([PathBuf::from("/home/dev/repo")]).collect(),
            home: Some("/home/dev".into()),
            ..DecisionContext::default()
        };
        let tool = match need {
            AccessNeed::Run(_) => "Bash",
            AccessNeed::Write(_) => "Write",
            _ => "Read",
        };
        let followed = match &need {
            AccessNeed::Read(path) | AccessNeed::Write(path) => Some(FollowedPath::without_links(path)),
            _ => None,
        };
        let needs = [NeedFacts::new(need, followed)];
        let call = ProposedCall { tool, also_named: &[], input: None, needs: &needs, needs_person: false };
        decide(&call, &rules, &world).decision
    };
    let read = || AccessNeed::Read("/home/ann/notes".into());
    let write = || AccessNeed::Write("/home/ann/notes".into());
    let run = |text: &str| AccessNeed::Run(text.into());
    for mode in PermissionMode::ALL {
        for need in [read(), write(), run("cat ../../ann/notes"), run("echo x > /home/ann/notes; ls")] {
            let expected = if matches!(mode, Ordinary | AcceptEdits) { Ask } else { Deny };
            assert_eq!(decide_in(mode, need.clone(), &["Read", "Edit", "Bash"], &[]), expected, "{mode} {need:?}");
        }
        assert_eq!(decide_in(mode, read(), &[], &["/home/ann"]), Allow, "{mode}");
        assert_eq!(decide_in(mode, read(), &["Read(//home/ann/**)"], &[]), Allow, "{mode}");
    }
    let default = Ordinary;
    assert_eq!(decide_in(default, read(), &["Edit(//home/ann/**)"], &[]), Allow);
    assert_eq!(decide_in(default, run("cp /home/ann/notes ."), &["Bash(cp /home/ann/notes .)"], &[]), Allow);
    assert_eq!(decide_in(default, write(), &["Read(//home/ann/**)"], &[]), Ask);
    assert_eq!(decide_in(default, AccessNeed::Read("/home/dev/other/a".into()), &[], &[]), Ask);
}
