//! Paths that begin with `..`: what they lead to is what counts, and where links make something else of them than their
//! spelling says, they ask.

use gimlet_policy::Decision::{Allow, Ask, Deny};
use gimlet_policy::{Decision, DecisionContext, FileTable, NeedFacts, ProposedCall, RuleSet, decide_with_files};
use gimlet_proto::{AccessNeed, PermissionMode};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{partial_repository, rules, test_context};

const FILES: &[(&str, Option<&str>)] = &[("a.txt", None), ("sub/b.txt", None), ("sub/deep/c.txt", None)];

/// A session in `/srv/repo` with `/srv/extra` beside it.
fn context_with_extra_root() -> DecisionContext {
    DecisionContext { roots: vec!["/srv/repo".into(), "/srv/extra".into()], ..test_context(PermissionMode::Default) }
}

fn decide_in(text: &str, files: &FileTable, rules: &RuleSet, world: &DecisionContext) -> Decision {
    let needs = [NeedFacts::new(AccessNeed::Run(text.to_owned()), None)];
    let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    decide_with_files(&call, rules, world, files).decision
}

fn decide_beside_extra_root(text: &str, files: &FileTable) -> Decision {
    decide_in(text, files, &RuleSet::default(), &context_with_extra_root())
}

#[test]
fn a_working_directory_is_read_by_any_way_that_leads_there() {
    let files = partial_repository(FILES);
    for text in [
        "cat ../extra/f",
        "cat ./../extra/f",
        "ls ../extra",
        "ls -la ../extra/",
        "grep -rn x ../extra",
        "find ../extra -name '*.md'",
        "cat ../repo/a.txt",
        "cd ../extra && ls",
        "cd ../extra && cat f",
        "cd sub && cat ../a.txt",
        "cd sub && cat ../a.txt | head -n 3",
        "cd sub && ls && cat ../a.txt b.txt",
        "cd sub/deep && cat ../../a.txt ../b.txt",
        "cd ./sub && grep -n x ../a.txt 2>&1",
        "cd /srv/repo/sub && cat ../a.txt",
        "cd /srv/extra && cat ../repo/a.txt",
    ] {
        assert_eq!(decide_beside_extra_root(text, &files), Allow, "{text}");
    }
}

#[test]
fn parent_paths_that_may_leave_the_roots_ask() {
    let files = partial_repository(FILES);
    for text in [
        "cat ../other/f",
        "cat ../extra-evil/f",
        "cat ../../etc/passwd",
        "cat ../extra/../other/f",
        "cat sub/../../other",
        "ls ..",
        "grep -r x ..",
        "cd .. && ls",
        "cd ../other && ls",
        "cd ../extra && cat ../other/f",
        "cd ../extra && cat ../repo/a.txt",
        "cd sub && cat ../../other/f",
        "cd sub && cat ../../extra-evil/f",
        // It may stand elsewhere than where it wanted to go.
        "cd sub; cat ../a.txt",
        "cd sub || cat ../a.txt",
        "cd sub && true || cat ../a.txt",
        "cd sub & cat ../a.txt",
        "cd sub | cat ../a.txt",
        "(cd sub) && cat ../a.txt",
        "cd 'a&&b' | cat ../a.txt",
        "cd \"a &&b\" | cat ../a.txt",
        "true && cd sub && cat ../a.txt",
        "cd sub && cd deep && cat ../../../other",
        "cd sub && cat ../a.txt; cat ../a.txt",
        "cd sub && cat ../a.txt\ncat ../a.txt",
        "cd sub && if true; then cat ../a.txt; fi",
        "cd $x && cat ../a.txt",
        "cd -P sub && cat ../a.txt",
        "cd sub && pushd deep && cat ../../a.txt",
        "cd sub && cat ../a.txt > ../b",
        "cd sub && cat < ../a.txt",
        "cd sub && git -C .. status",
        "cd ../extra && git status",
    ] {
        assert_eq!(decide_beside_extra_root(text, &files), Ask, "{text}");
    }
}

#[test]
fn a_symlink_that_changes_a_parent_path_asks() {
    // `sub` and the session's own folder lead elsewhere, where another folder is above them.
    let sub = partial_repository(&[("a.txt", None), ("sub", Some("/etc/ssl/certs"))]);
    for text in ["cd sub && cat ../a.txt", "cd sub && cat ../b"] {
        assert_eq!(decide_beside_extra_root(text, &sub), Ask, "{text}");
        let roaming = rules(&[], &[], &["Bash(cd:*)"]);
        assert_eq!(
            decide_in(text, &sub, &roaming, &context_with_extra_root()),
            Ask,
            "{text} with leave to go anywhere"
        );
    }
    // Inside, but not what the spelling says.
    let inner = partial_repository(&[("a.txt", None), ("sub", Some("one/two")), ("one/two/x", None)]);
    assert_eq!(decide_beside_extra_root("cd sub && cat ../a.txt", &inner), Ask);
    assert_eq!(decide_beside_extra_root("cd one && cat ../a.txt", &inner), Allow);
    let mut moved = FileTable::default();
    moved.add_link("/srv/repo", "/data/checkouts/repo");
    let world = DecisionContext {
        resolved_cwd: Some("/data/checkouts/repo".into()),
        roots: vec!["/srv/repo".into(), "/data/checkouts/repo".into(), "/srv/extra".into()],
        ..test_context(PermissionMode::Default)
    };
    for text in ["cat ../extra/f", "cd ../extra && ls", "ls ../extra"] {
        assert_eq!(decide_in(text, &moved, &RuleSet::default(), &world), Ask, "{text}");
    }
    // What lies at the end of the way is followed as well.
    let mut leading = FileTable::default();
    leading.add_link("/srv/extra/out", "/etc/passwd");
    assert_eq!(decide_beside_extra_root("cat ../extra/out", &leading), Ask);
    assert_eq!(decide_beside_extra_root("cat ../extra/in", &leading), Allow);
}

#[test]
fn a_parent_path_beside_commands_that_may_change_it_asks() {
    let files = partial_repository(FILES);
    let trusting = rules(&[], &[], &["Bash(mv:*)", "Bash(ln:*)", "Bash(make:*)"]);
    for text in [
        "cd sub && mv ../sub /srv/other && cat ../a.txt",
        "cd sub && make && cat ../a.txt",
        "ln -s / x && cat ../extra/f",
        "make; cat ../extra/f",
    ] {
        assert_eq!(decide_in(text, &files, &trusting, &context_with_extra_root()), Ask, "{text}");
    }
}

#[test]
fn denied_files_stay_denied_through_parent_paths() {
    let closing = rules(&["Read(.env)", "Read(//etc/**)", "Read(//srv/extra/secret/**)"], &[], &[]);
    let files = partial_repository(&[(".env", None), ("sub/b.txt", None), ("out", Some("/etc/ssl"))]);
    for text in ["cd sub && cat ../.env", "cat ../extra/secret/k", "cat ../repo/.env", "cd out && cat ../passwd"] {
        assert_eq!(decide_in(text, &files, &closing, &context_with_extra_root()), Deny, "{text}");
    }
    assert_ne!(decide_in("grep -r x ../extra", &files, &closing, &context_with_extra_root()), Allow);
    assert_eq!(decide_in("cat ../extra/f", &files, &closing, &context_with_extra_root()), Allow);
}

proptest! {
    /// However often a way goes up and down, it is free only if it ends in a working directory, and what is above a
    /// link is never taken by its spelling.
    #[test]
    fn a_way_up_is_free_only_into_a_working_directory(
        ups in 1..4usize,
        below in select(&["", "repo/a.txt", "extra/f", "other/f", "repo", "srv/repo/a.txt", "srv/extra/f", "etc/passwd", "a.txt"]),
        folder in select(&["", "sub", "sub/deep", "/srv/extra"]),
        reader in select(&["cat", "ls", "head -n 1", "wc -l", "grep -n x"]),
        linked in any::<bool>(),
    ) {
        let path = format!("{}{below}", "../".repeat(ups));
        let text = if folder.is_empty() { format!("{reader} {path}") } else { format!("cd {folder} && {reader} {path}") };
        let files = if linked { partial_repository(&[("sub", Some("/data/x/y/z"))]) } else { partial_repository(FILES) };
        let through_link = linked && folder.starts_with("sub");
        let from = gimlet_policy::normalise(std::path::Path::new("/srv/repo"), std::path::Path::new(folder));
        let end = gimlet_policy::normalise(&from, std::path::Path::new(&path));
        let inside = context_with_extra_root().roots.iter().any(|root| end.starts_with(root));
        let expected = if inside && !through_link { Allow } else { Ask };
        prop_assert_eq!(decide_beside_extra_root(&text, &files), expected, "{}", text);
    }
}
