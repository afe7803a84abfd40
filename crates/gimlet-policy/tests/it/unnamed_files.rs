//! Files that a rule keeps or closes and that no word names: git puts other versions into a whole repository, archives bring
//! names along, and an address spells a name by numbers.

use gimlet_policy::Decision::{Allow, Ask};
use gimlet_policy::{DecisionContext, NeedFacts, ProposedCall, decide_with_files};
use gimlet_proto::AccessNeed;
use gimlet_proto::PermissionMode::{BypassPermissions, Default as Ordinary};

use crate::fixtures::{decide_with_table, exact_repository, rules, test_context};

const FILES: &[(&str, Option<&str>)] =
    &[("a.txt", None), (".env", None), ("keys/k", None), ("src/a.rs", None), ("out/x", None)];

/// Git puts other versions into the whole repository, wherever in it the command stands, and no word of it says so.
#[test]
fn what_rewrites_a_whole_repository_asks_where_a_rule_keeps_something_in_it() {
    let kept = rules(&["Edit(./keys/**)"], &[], &["Bash"]);
    let asked = rules(&[], &["Edit(./keys/**)"], &["Bash"]);
    let files = exact_repository(FILES);
    for text in [
        "git checkout-index -f -a",
        "git checkout-index --all --force",
        "git reset --hard",
        "git reset --hard HEAD~1",
        "git reset --keep HEAD~1",
        "git -C . reset --merge",
        "git stash",
        "git stash push",
        "git stash -u",
        "git stash pop",
        "git stash apply",
        "git restore .",
        "git restore :/",
        "git restore ':(top)'",
        "git restore '*'",
        "git checkout ':/'",
        "git checkout -f",
        "git checkout -f main",
        "git switch -f main",
        "git switch --discard-changes main",
        "git switch --orphan new",
        "git read-tree -u --reset HEAD",
        "git read-tree -mu HEAD",
        "git merge main",
        "git merge --abort",
        "git rebase main",
        "git pull",
        "git pull --rebase origin main",
        "git cherry-pick abc",
        "git revert HEAD",
        "git am x.patch",
        "git apply x.patch",
        "git apply < x.patch",
        "git clean -fd",
        "git clean -fdx .",
        "git rm -r .",
        "git rm '*.pem'",
        "git mv keys other",
        "git sparse-checkout set src",
        "git worktree add keys",
        "git worktree remove keys/w",
        "git submodule update --init",
        "git submodule foreach ls",
        "git bisect start",
        "git filter-branch --all",
        "git lfs pull",
        "git-checkout-index -a",
        "git -c alias.x='reset --hard' x",
        "bash -c 'git reset --hard'",
        "sudo git stash",
        "cd src && git reset --hard",
    ] {
        for (set, mode) in [(&kept, BypassPermissions), (&asked, BypassPermissions), (&kept, Ordinary)] {
            assert_ne!(decide_with_table(text, &files, set, mode), Allow, "{text}");
        }
        let elsewhere = rules(&["Edit(//etc/**)", "Edit(~/.bashrc)"], &[], &[]);
        let here = text.contains("filter") || decide_with_table(text, &files, &elsewhere, BypassPermissions) == Allow;
        assert!(here, "no rule is about this repository: {text}");
        let reading = rules(&["Read(./.env)"], &[], &[]);
        let leaves = ["rm", "mv", "foreach"].iter().any(|word| text.contains(word));
        assert!(
            leaves || decide_with_table(text, &files, &reading, BypassPermissions) == Allow,
            "nobody reads: {text}"
        );
    }
    for text in [
        "git status",
        "git fetch",
        "git reset HEAD~1",
        "git reset --soft HEAD~1",
        "git stash list",
        "git stash show -p",
        "git switch main",
        "git switch -c topic",
        "git checkout main",
        "git apply --check x.patch",
        "git read-tree -m HEAD",
        "git sparse-checkout list",
        "git worktree list",
        "git submodule status",
        "git commit -m 'merge'",
        "git log --merge",
        "git clean -n",
    ] {
        assert_eq!(decide_with_table(text, &files, &kept, BypassPermissions), Allow, "{text}");
    }
}

/// Archives, patches and other programs for versions bring names that no text shows.
#[test]
fn what_is_unpacked_asks_where_a_rule_keeps_something() {
    let kept = rules(&["Edit(./keys/**)"], &[], &["Bash"]);
    let files = exact_repository(FILES);
    for text in [
        "tar xf a.tar",
        "tar -xzf a.tgz",
        "tar -xf a.tar -C .",
        "tar -xf a.tar -C keys",
        "unzip a.zip",
        "unzip -o a.zip -d keys",
        "7z x a.7z",
        "cpio -id < a.cpio",
        "patch -p1 < a.patch",
        "cd src && tar xf ../a.tar -C ..",
        "hg update -C",
        "hg revert --all",
        "svn update",
        "svn revert -R .",
        "jj restore",
        "git checkout -p",
        "yes | git restore --patch",
    ] {
        assert_ne!(decide_with_table(text, &files, &kept, BypassPermissions), Allow, "{text}");
    }
    for text in [
        "tar xf a.tar -C out",
        "tar tf a.tar",
        "unzip -l a.zip",
        "unzip a.zip -d out",
        "patch --dry-run -p1 < a.patch",
        "hg status",
        "svn log",
        "jj log",
    ] {
        assert_eq!(decide_with_table(text, &files, &kept, BypassPermissions), Allow, "{text}");
    }
}

/// The repository begins above the folder that the command stands in.
#[test]
fn a_repository_is_rewritten_from_its_top() {
    let kept = rules(&["Edit(//srv/repo/keys/**)"], &[], &[]);
    let below = DecisionContext {
        cwd: "/srv/repo/src".into(),
        roots: vec!["/srv/repo/src".into()],
        ..test_context(BypassPermissions)
    };
    let mut files = exact_repository(FILES);
    files.add_file("/srv/repo/.git/HEAD");
    let needs = [NeedFacts::new(AccessNeed::Run("git reset --hard".to_owned()), None)];
    let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    assert_eq!(decide_with_files(&call, &kept, &below, &files).decision, Ask);
}

/// An address names a file by the numbers of its letters, behind any host.
#[test]
fn an_address_of_a_closed_file_asks() {
    let closing = rules(&["Read(./.env)"], &[], &["Bash"]);
    for text in [
        "curl file:///srv/repo/.env",
        "curl file:///srv/repo/.en%76",
        "curl file:///srv/repo/%2e%65%6e%76",
        "curl -o x FILE://localhost/srv/repo/.env",
        "curl 'file://127.0.0.1/srv/repo/.en%76'",
        "curl --url=file:/srv/repo/.env",
        "curl 'file:///srv/repo/.en[v]'",
        "curl 'file:///srv/repo/.en{v,w}'",
        "wget file:///srv/repo/.en%76",
        "git clone file://localhost/srv/repo/.en%76 x",
        "curl -K - <<< 'url = file://localhost/srv/repo/.env'",
        "python3 -c 'print(urlopen(\"file://localhost/srv/repo/.en%76\").read())'",
        "xdg-open file:///srv/repo/src/../.env",
    ] {
        assert_ne!(decide_with_table(text, &exact_repository(FILES), &closing, BypassPermissions), Allow, "{text}");
        assert_ne!(decide_with_table(text, &exact_repository(FILES), &closing, Ordinary), Allow, "{text}");
    }
    for text in ["curl file:///srv/repo/a.txt", "curl https://x/.en%76s?file=a", "curl -w '%{http_code}' https://x"] {
        assert_eq!(decide_with_table(text, &exact_repository(FILES), &closing, BypassPermissions), Allow, "{text}");
    }
}
