//! Paths that begin with `..`: what they lead to is what counts, and where links make something else of them than their
//! spelling says, they ask.

use gimlet_policy::Decision::{Allow, Ask, Deny};
use gimlet_policy::{Call, Decision, FileTable, NeedFacts, RuleSet, World, decide_seeing};
use gimlet_proto::{Need, PermissionMode};
use proptest::prelude::*;
use proptest::sample::select;

use crate::worlds::{rules, tree, world};

const FILES: &[(&str, Option<&str>)] = &[("a.txt", None), ("sub/b.txt", None), ("sub/deep/c.txt", None)];

/// A session in `/srv/repo` with `/srv/extra` beside it.
fn beside() -> World {
    World { roots: vec!["/srv/repo".into(), "/srv/extra".into()], ..world(PermissionMode::Default) }
}

fn judge_in(text: &str, files: &FileTable, rules: &RuleSet, world: &World) -> Decision {
    let needs = [NeedFacts::new(Need::Run(text.to_owned()), None)];
    let call = Call { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    decide_seeing(&call, rules, world, files).decision
}

fn judge(text: &str, files: &FileTable) -> Decision {
    judge_in(text, files, &RuleSet::default(), &beside())
}

#[test]
fn a_working_directory_is_read_by_any_way_that_leads_there() {
    let files = tree(FILES);
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
        assert_eq!(judge(text, &files), Allow, "{text}");
    }
}

#[test]
fn what_leads_out_or_may_do_so_asks() {
    let files = tree(FILES);
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
        assert_eq!(judge(text, &files), Ask, "{text}");
    }
}

#[test]
fn a_link_that_makes_something_else_of_the_way_up_asks() {
    // `sub` and the session's own folder lead elsewhere, where another folder is above them.
    let sub = tree(&[("a.txt", None), ("sub", Some("/etc/ssl/certs"))]);
    for text in ["cd sub && cat ../a.txt", "cd sub && cat ../b"] {
        assert_eq!(judge(text, &sub), Ask, "{text}");
        let roaming = rules(&[], &[], &["Bash(cd:*)"]);
        assert_eq!(judge_in(text, &sub, &roaming, &beside()), Ask, "{text} with leave to go anywhere");
    }
    // Inside, but not what the spelling says.
    let inner = tree(&[("a.txt", None), ("sub", Some("one/two")), ("one/two/x", None)]);
    assert_eq!(judge("cd sub && cat ../a.txt", &inner), Ask);
    assert_eq!(judge("cd one && cat ../a.txt", &inner), Allow);
    let mut moved = FileTable::default();
    moved.add_link("/srv/repo", "/data/checkouts/repo");
    let world = World {
        resolved_cwd: Some("/data/checkouts/repo".into()),
        roots: vec!["/srv/repo".into(), "/data/checkouts/repo".into(), "/srv/extra".into()],
        ..world(PermissionMode::Default)
    };
    for text in ["cat ../extra/f", "cd ../extra && ls", "ls ../extra"] {
        assert_eq!(judge_in(text, &moved, &RuleSet::default(), &world), Ask, "{text}");
    }
    // What lies at the end of the way is followed as well.
    let mut leading = FileTable::default();
    leading.add_link("/srv/extra/out", "/etc/passwd");
    assert_eq!(judge("cat ../extra/out", &leading), Ask);
    assert_eq!(judge("cat ../extra/in", &leading), Allow);
}

#[test]
fn a_way_up_beside_commands_that_may_change_it_asks() {
    let files = tree(FILES);
    let trusting = rules(&[], &[], &["Bash(mv:*)", "Bash(ln:*)", "Bash(make:*)"]);
    for text in [
        "cd sub && mv ../sub /srv/other && cat ../a.txt",
        "cd sub && make && cat ../a.txt",
        "ln -s / x && cat ../extra/f",
        "make; cat ../extra/f",
    ] {
        assert_eq!(judge_in(text, &files, &trusting, &beside()), Ask, "{text}");
    }
}

#[test]
fn closed_files_stay_closed_on_the_way_up() {
    let closing = rules(&["Read(.env)", "Read(//etc/**)", "Read(//srv/extra/secret/**)"], &[], &[]);
    let files = tree(&[(".env", None), ("sub/b.txt", None), ("out", Some("/etc/ssl"))]);
    for text in ["cd sub && cat ../.env", "cat ../extra/secret/k", "cat ../repo/.env", "cd out && cat ../passwd"] {
        assert_eq!(judge_in(text, &files, &closing, &beside()), Deny, "{text}");
    }
    assert_ne!(judge_in("grep -r x ../extra", &files, &closing, &beside()), Allow);
    assert_eq!(judge_in("cat ../extra/f", &files, &closing, &beside()), Allow);
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
        let files = if linked { tree(&[("sub", Some("/data/x/y/z"))]) } else { tree(FILES) };
        let through_link = linked && folder.starts_with("sub");
        let from = gimlet_policy::normalise(std::path::Path::new("/srv/repo"), std::path::Path::new(folder));
        let end = gimlet_policy::normalise(&from, std::path::Path::new(&path));
        let inside = beside().roots.iter().any(|root| end.starts_with(root));
        let expected = if inside && !through_link { Allow } else { Ask };
        prop_assert_eq!(judge(&text, &files), expected, "{}", text);
    }
}
