use std::os::unix::fs::symlink;

use super::*;

fn write_file(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Creates a complete git directory with this configuration.
fn put_git_dir(root: &Path, path: &str, config: &str) {
    let git_dir = root.join(path);
    write_file(&git_dir, "HEAD", "ref: refs/heads/main\n");
    write_file(&git_dir, "config", config);
    for folder in ["objects/info", "objects/pack", "refs/heads", "info", "hooks"] {
        fs::create_dir_all(git_dir.join(folder)).unwrap();
    }
}

/// Builds an index with one entry that is a repository.
fn index_of(name: &str) -> Vec<u8> {
    let mut index = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
    index.extend([1; 24]);
    index.extend(REPOSITORY_MODE);
    index.extend([1; MODE_TO_NAME - 4]);
    index.extend(name.as_bytes());
    index.extend([0; 8]);
    index
}

/// Returns true if a repository with this configuration has a trap.
fn has_trap(config: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    put_git_dir(folder.path(), ".git", config);
    fs::create_dir_all(folder.path().join("sub")).unwrap();
    find_git_trap(&folder.path().join("sub")).is_some()
}

#[test]
fn configurations_that_name_programs_are_traps_in_every_spelling() {
    for plain in [
        "",
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
        "[remote \"origin\"]\n\turl = https://example.org/clean.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
        "[user]\n\tname = external commands\n[pull]\n\trebase = true\n[credential]\n\thelper = store\n",
        "[core]\n\tworktree = ..\n",
        "[difftool \"x\"]\n\tcmd = x\n[branch \"clean\"]\n\tmerge = refs/heads/clean\n",
    ] {
        assert!(!has_trap(plain), "{plain}");
    }
    for trap in [
        "[core]\n\tfsmonitor = evil\n",
        "[core] fsmonitor=evil",
        "[CORE]FSMonitor=evil",
        "[a][core] fsmonitor = evil",
        "[core]\r\n\tfsmonitor\t=\tevil\r\n",
        "\u{feff}[core]\nhooksPath = evil",
        "[core]\n\tbare = false \\\n\tfsmonitor = evil\n",
        "[diff]\n\texternal = evil",
        "[diff \"a]b\"] textconv = evil",
        "[diff \"x\"]\n\tcommand = evil",
        "[filter \"x\"]\n\tclean = evil\n\tprocess = evil",
        "[include]\n\tpath = evil",
        "[includeIf \"gitdir:/\"]\n\tpath = evil",
        "[remote \"origin\"]\n\tpromisor = true\n\turl = ext::evil",
        "[gpg]\n\tprogram = evil",
        "[remote \"origin\"]\n\turl = https://example.org/x\n\tpartialCloneFilter = blob:none",
        "[merge \"x\"]\n\tdriver = evil %A",
        "[core]\n\tworktree = /elsewhere",
        "[core] workTree = ../../",
        "[core]\nworktree = \"..\"",
        "[core]\nworktree",
        "[diff]\n\tsubmodule = log",
        "[status]\n\tsubmoduleSummary = true",
        "[log]\n\tshowSignature",
        "[gpg \"ssh\"]\n\tprogram = evil",
        "[extensions]\n\trefStorage = reftable://../elsewhere",
        "[mailmap]\n\tfile = /elsewhere",
    ] {
        assert!(has_trap(trap), "{trap}");
    }
}

#[test]
fn hooks_pointers_bare_folders_and_repositories_inside_are_looked_at_too() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    let trap = |path: &str| find_git_trap(&root.join(path));
    assert_eq!(find_git_trap(root), None);
    put_git_dir(root, "hooked/.git", "");
    assert_eq!(trap("hooked"), None);
    write_file(root, "hooked/.git/hooks/post-index-change", "");
    assert!(trap("hooked").is_some());
    write_file(root, "odd/.git", "who knows");
    assert!(trap("odd").is_some());
    write_file(root, "blank/.git", "gitdir:  ../hooked/.git\n");
    assert!(trap("blank").is_some(), "git takes the second blank for a part of the name");
    put_git_dir(root, "shared/c", "[core]\nfsmonitor = evil\n");
    write_file(root, "shared/HEAD", "ref: refs/heads/main\n");
    write_file(root, "shared/commondir", "c\n");
    assert!(trap("shared").is_some(), "a repository with a common folder elsewhere");
    write_file(root, "bare/HEAD", "ref: refs/heads/main\n");
    write_file(root, "bare/config", "[core]\nfsmonitor = evil\n");
    assert_eq!(trap("bare"), None, "this is no repository yet");
    put_git_dir(root, "bare", "[core]\nfsmonitor = evil\n");
    assert!(trap("bare").is_some());
    put_git_dir(root, "bare", "[core]\nbare = true\n");
    assert_eq!(trap("bare"), None);

    put_git_dir(root, "outer/.git", "");
    write_file(root, "outer/.git/index", index_of("inner"));
    assert_eq!(trap("outer"), None, "the inner one is not there");
    put_git_dir(root, "outer/inner/.git", "[core]\nbare = false\n");
    assert_eq!(trap("outer"), None);
    put_git_dir(root, "outer/inner/.git", "[core]\nfsmonitor = evil\n");
    assert!(trap("outer").is_some());
    // Git's own layout of a submodule.
    fs::remove_dir_all(root.join("outer/inner/.git")).unwrap();
    write_file(root, "outer/inner/.git", "gitdir: ../.git/modules/inner\n");
    put_git_dir(root, "outer/.git/modules/inner", "[core]\n\tbare = false\n\tworktree = ../../../inner\n");
    assert_eq!(trap("outer"), None);
    assert_eq!(trap("outer/inner"), None);
    put_git_dir(root, "outer/.git/modules/inner", "[core]\n\tworktree = ../../../..\n");
    assert!(trap("outer").is_some());
}

#[test]
fn a_git_directory_that_is_not_whole_is_a_trap_as_git_goes_on_looking() {
    type SpoilGitDir = fn(&Path);
    let spoil: [(&str, SpoilGitDir); 7] = [
        ("no head", |git| fs::remove_file(git.join("HEAD")).unwrap()),
        ("an odd head", |git| fs::write(git.join("HEAD"), "evil").unwrap()),
        ("a head elsewhere", |git| fs::write(git.join("HEAD"), "ref: /etc/passwd\n").unwrap()),
        ("a head that is another symlink", |git| {
            fs::remove_file(git.join("HEAD")).unwrap();
            symlink("../HEAD", git.join("HEAD")).unwrap();
        }),
        ("no objects", |git| fs::remove_dir_all(git.join("objects")).unwrap()),
        ("no refs", |git| fs::remove_dir_all(git.join("refs")).unwrap()),
        ("no common folder", |git| fs::write(git.join("commondir"), "not-there\n").unwrap()),
    ];
    for (what, spoil) in spoil {
        let temp = tempfile::tempdir().unwrap();
        // The folder itself is a bare repository, which git uses when `.git` is incomplete.
        put_git_dir(temp.path(), "", "[core]\n\tbare = false\n");
        assert_eq!(find_git_trap(temp.path()), None, "{what}");
        put_git_dir(temp.path(), ".git", "");
        assert_eq!(find_git_trap(temp.path()), None, "{what}");
        spoil(&temp.path().join(".git"));
        assert!(find_git_trap(temp.path()).is_some(), "{what}");
        fs::remove_dir_all(temp.path().join(".git")).unwrap();
        spoil(temp.path());
        let goes_on = ["no head", "no refs"].contains(&what);
        assert_eq!(find_git_trap(temp.path()).is_some(), !goes_on, "{what} in a bare repository");
    }
}

#[test]
fn heads_are_taken_as_git_takes_them() {
    let temp = tempfile::tempdir().unwrap();
    let head = temp.path().join("HEAD");
    let id = "0123456789abcdefABCDEF0123456789abcdef01";
    for valid in ["ref: refs/heads/x", "ref:\t refs/x\n", id, &format!("{id}\n")] {
        fs::write(&head, valid).unwrap();
        assert!(is_head_file(&head), "{valid}");
    }
    for odd in ["", "ref: heads/x", "ref:\u{c}refs/x", "refs/heads/x", &id[1..], "ref:"] {
        fs::write(&head, odd).unwrap();
        assert!(!is_head_file(&head), "{odd}");
    }
}

#[test]
fn a_linked_worktree_and_a_folder_named_by_its_repository_belong_together_and_no_other_pointer_does() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    let trap = |path: &str| find_git_trap(&root.join(path));
    put_git_dir(root, "main/.git", "");
    let admin = "main/.git/worktrees/linked";
    write_file(root, &format!("{admin}/HEAD"), "ref: refs/heads/linked\n");
    write_file(root, &format!("{admin}/commondir"), "../..\n");
    write_file(root, &format!("{admin}/gitdir"), format!("{}\n", root.join("linked/.git").display()));
    write_file(root, "linked/.git", "gitdir: ../main/.git/worktrees/linked\n");
    assert_eq!(trap("linked"), None);
    assert_eq!(trap("main"), None);
    write_file(root, &format!("{admin}/gitdir"), "../../../../linked/.git\n");
    assert_eq!(trap("linked"), None, "newer versions write it like this");
    write_file(root, "copy/.git", "gitdir: ../main/.git/worktrees/linked\n");
    assert!(trap("copy").is_some(), "the main repository does not know it");
    write_file(root, "other/.git", "gitdir: ../main/.git\n");
    assert!(trap("other").is_some());
    fs::create_dir_all(root.join("far")).unwrap();
    symlink("../main/.git", root.join("far/.git")).unwrap();
    assert!(trap("far").is_some());
    write_file(root, "main/.git/config", "[core]\nfsmonitor = evil\n");
    assert!(trap("linked").is_some());

    write_file(root, "inside/.git", "gitdir: store\n");
    put_git_dir(root, "inside/store", "");
    assert_eq!(trap("inside"), None);
    put_git_dir(root, "store", "[core]\n\tworktree = ../apart\n");
    write_file(root, "apart/.git", "gitdir: ../store\n");
    assert_eq!(trap("apart"), None, "the repository itself says that this is its working tree");
    put_git_dir(root, "borrowed/.git", "");
    write_file(root, "borrowed/.git/commondir", "../../store\n");
    assert!(trap("borrowed").is_some());
}

#[test]
fn every_repository_of_a_submodule_is_looked_at_also_without_a_folder() {
    for name in ["sub", "group/of/sub", "sub/modules/inner"] {
        let temp = tempfile::tempdir().unwrap();
        put_git_dir(temp.path(), ".git", "");
        if name.contains("modules") {
            put_git_dir(temp.path(), ".git/modules/sub", "");
        }
        let module = format!(".git/modules/{name}");
        put_git_dir(temp.path(), &module, "[core]\n\tworktree = ../../../sub\n");
        assert_eq!(find_git_trap(temp.path()), None, "{name}");
        put_git_dir(temp.path(), &module, "[diff]\n\texternal = evil\n");
        assert!(find_git_trap(temp.path()).is_some(), "{name}");
    }
    let temp = tempfile::tempdir().unwrap();
    put_git_dir(temp.path(), ".git", "");
    put_git_dir(temp.path(), "elsewhere", "");
    fs::create_dir_all(temp.path().join(".git/modules")).unwrap();
    symlink("../../elsewhere", temp.path().join(".git/modules/sub")).unwrap();
    assert!(find_git_trap(temp.path()).is_some());
}

#[test]
fn symlinks_that_lead_out_of_the_git_directory_are_traps() {
    for path in [
        "index",
        "packed-refs",
        "MERGE_MSG",
        "shallow",
        "description",
        "refs/heads",
        "refs/heads/x",
        "refs/remotes/origin/x",
        "logs/HEAD",
        "logs/refs/heads/x",
        "info/exclude",
        "rebase-merge",
        "rebase-merge/done",
        "rebase-apply/patch",
        "sequencer/todo",
        "worktrees/x/gitdir",
        "worktrees/x/rebase-merge/head-name",
        "objects/17",
        "objects/pack/pack-1.pack",
        "objects/info/alternates",
        "objects/info/commit-graphs/x",
    ] {
        for (target, is_trap) in [("/etc/hostname", true), ("/etc", true), ("/not-there", true), ("HEAD", false)] {
            let temp = tempfile::tempdir().unwrap();
            put_git_dir(temp.path(), ".git", "");
            let link = temp.path().join(".git").join(path);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            fs::remove_dir(&link).ok();
            let target = if is_trap { target.into() } else { temp.path().join(".git").join(target) };
            // An index or a list of alternates with the content of a head is another trap.
            if !is_trap && ["index", "objects/info/alternates", "refs/heads"].contains(&path) {
                continue;
            }
            symlink(&target, &link).unwrap();
            assert_eq!(find_git_trap(temp.path()).is_some(), is_trap, "{path} -> {}", target.display());
        }
    }
    for folder in ["objects", "refs", "info", "logs", "hooks", "lfs"] {
        let temp = tempfile::tempdir().unwrap();
        put_git_dir(temp.path(), ".git", "");
        let (inside, outside) = (temp.path().join(".git").join(folder), temp.path().join("outside"));
        fs::create_dir_all(&inside).unwrap();
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
        let is_unread = ["hooks", "lfs"].contains(&folder);
        assert_eq!(find_git_trap(temp.path()).is_some(), !is_unread, "{folder}");
    }
}

#[test]
fn a_head_that_is_a_symlink_to_a_branch_and_alternates_inside_are_no_traps() {
    let temp = tempfile::tempdir().unwrap();
    put_git_dir(temp.path(), ".git", "");
    let git = temp.path().join(".git");
    fs::remove_file(git.join("HEAD")).unwrap();
    symlink("refs/heads/unborn", git.join("HEAD")).unwrap();
    assert_eq!(find_git_trap(temp.path()), None);
    fs::create_dir_all(git.join("more/objects")).unwrap();
    fs::write(git.join("objects/info/alternates"), "../more/objects\n").unwrap();
    assert_eq!(find_git_trap(temp.path()), None);
    fs::write(git.join("objects/info/alternates"), "../../../elsewhere\n").unwrap();
    assert!(find_git_trap(temp.path()).is_some());
}

#[test]
fn very_many_references_are_no_trap() {
    let temp = tempfile::tempdir().unwrap();
    put_git_dir(temp.path(), ".git", "");
    for number in 0..2100 {
        fs::write(temp.path().join(format!(".git/refs/heads/{number}")), "").unwrap();
    }
    assert_eq!(find_git_trap(temp.path()), None);
}
