//! Tests for files behind symlinks, and protected files under every spelling.

use gimlet_proto::{AccessNeed, PermissionMode};
use std::sync::Arc;

use crate::paths::FileTable;
use crate::{
    Behavior, Decision, DecisionContext, NeedFacts, ProposedCall, RuleScope, RuleSet, RuleSource, decide_with_files,
};

use Decision::{Allow, Ask, Deny};
use PermissionMode::{AcceptEdits, BypassPermissions, Default as Ordinary};

const LINKS: &[(&str, &str)] = &[
    ("/repo/gl", "/repo/.git"),
    ("/repo/outlink", "/outside"),
    ("/repo/lk", "/repo/secret/k"),
    ("/repo/sub/gl2", "/repo/.git"),
    ("/repo/loop", "loop"),
];

fn link_table() -> FileTable {
    let mut table = FileTable::default();
    LINKS.iter().for_each(|(link, target)| table.add_link(link, target));
    table
}

fn decide_command(text: &str, mode: PermissionMode, rules: &[(Behavior, &str)]) -> Decision {
    let source = RuleSource::new(RuleScope::Project, "/repo");
    let mut set = RuleSet::default();
    for (behavior, rule) in rules {
        set.add(*behavior, rule, &source).unwrap();
    }
    let world = DecisionContext {
        mode,
        cwd: "/repo".into(),
        roots: vec!["/repo".into()],
        home: Some("/home/ada".into()),
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    };
    let needs = [NeedFacts { need: AccessNeed::Run(text.into()), resolved: None, hops: vec![] }];
    decide_with_files(
        &ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false },
        &set,
        &world,
        &link_table(),
    )
    .decision
}

#[test]
fn a_protected_file_behind_a_link_is_protected() {
    let allowed = [(Behavior::Allow, "Bash")];
    assert_eq!(decide_command("cp a b/hooks", Ordinary, &allowed), Allow);
    for text in [
        "cp a gl/hooks/p1",
        "cd gl && cp ../a hooks/p1",
        "cd sub && cd gl2 && cp a hooks/p1",
        "tool --into=gl/hooks",
        "cp a outlink/../repo/gl/x",
    ] {
        assert_eq!(decide_command(text, Ordinary, &allowed), Ask, "{text}");
    }
}

#[test]
fn a_redirection_through_a_link_goes_where_the_link_goes() {
    let allowed = [(Behavior::Allow, "Bash")];
    assert_eq!(decide_command("echo x > q", AcceptEdits, &allowed), Allow);
    for text in ["echo x > outlink/q", "echo x > outlink/../q", "echo x > loop/q", "make < outlink/q"] {
        assert_eq!(decide_command(text, AcceptEdits, &allowed), Ask, "{text}");
    }
}

#[test]
fn a_denied_file_behind_a_symlink_stays_denied_in_every_mode() {
    let denied = [(Behavior::Deny, "Read(secret/**)"), (Behavior::Deny, "Edit(//outside/**)")];
    for text in
        ["cat lk > f", "cp lk f", "sort lk", "cat < lk > f", "tee outlink/x", "echo x > outlink/x", "grep -flk a"]
    {
        assert_eq!(decide_command(text, BypassPermissions, &denied), Deny, "{text}");
    }
    assert_eq!(decide_command("sort loop/x", BypassPermissions, &denied), Ask, "nobody knows where it leads");
    assert_eq!(decide_command("sort other", BypassPermissions, &denied), Allow);
}

#[test]
fn a_protected_path_counts_under_every_spelling_of_its_option() {
    let allowed = [(Behavior::Allow, "Bash")];
    for text in [
        "cp -t.git/hooks a",
        "cp -vt.git/hooks a",
        "cp --target-directory=.git/hooks a",
        "sed -Ei s/a/b/ .git/config",
        "perl -pi -e 1 .git/config",
        "sort -o .git/x a",
        "sort -o.git/x a",
        "curl -o .git/hooks/x http://example.com",
        "tar -C .git/hooks -xf a.tar",
        "rsync -a hooks/ .git/hooks/",
        "rsync a localhost:.git/hooks/",
        "git config x.y z",
        "git config --global core.pager z",
        "git -C . config x.y z",
        "git config --unset x.y",
        "git config -e",
        "git diff --output .git/hooks/x",
        "mytool \"$HOME/.bashrc\"",
        "find . -fprint .git/hooks/x",
    ] {
        assert_eq!(decide_command(text, Ordinary, &allowed), Ask, "{text}");
    }
    for text in [
        "cp -t hooks a",
        "rg x .git",
        "find . -not -path './.git/*'",
        "rsync -a --exclude=.git a b",
        "rsync -a --exclude .git a b",
        "git add .mcp.json",
        "git config user.name",
        "git config --get user.name",
        "git log -- .claude",
        "cargo test config",
    ] {
        assert_eq!(decide_command(text, Ordinary, &allowed), Allow, "{text}");
    }
}

#[test]
fn reading_a_tree_that_may_contain_a_denied_file_asks_in_every_mode() {
    let closed = [(Behavior::Deny, "Read(/secret/**)")];
    for text in [
        "grep -r TOP .",
        "grep -r TOP",
        "grep -nR TOP /repo",
        "grep --recursive TOP .",
        "rg TOP",
        "rg TOP .",
        "cp -r . X",
        "cp -a /repo X",
        "tar czf a.tgz .",
        "rsync -a ./ X",
        "zip -r a.zip .",
        "git grep TOP",
        "sudo rg TOP",
        "find . -type f | xargs cat",
        "find . -exec cat {} +",
    ] {
        assert_eq!(decide_command(text, BypassPermissions, &closed), Ask, "{text}");
    }
    for text in
        ["grep -r TOP src", "rg TOP src", "cp -r src X", "tar xf a.tar", "cat a", "find . -name a", "ls | xargs echo"]
    {
        assert_eq!(decide_command(text, BypassPermissions, &closed), Allow, "{text}");
    }
    assert_eq!(decide_command("cp -r secret X", BypassPermissions, &closed), Deny);
    // This name may be anywhere.
    assert_eq!(decide_command("rg TOP src", BypassPermissions, &[(Behavior::Deny, "Read(.env)")]), Ask);
}
