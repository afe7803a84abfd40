//! Targets of protected files, by symlinks and by their content.

use super::*;

fn create_repository(at: &Path, config: &str) {
    for folder in ["hooks", "objects", "refs"] {
        fs::create_dir_all(at.join(folder)).unwrap();
    }
    fs::write(at.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(at.join("config"), config).unwrap();
}

#[test]
fn a_git_that_leads_elsewhere_by_a_turned_link_is_taken_away() {
    let world = GuardWorld::new();
    let (root, temp) = (&world.root, world.outside.join("temp"));
    let spec = SandboxSpec { temp_dir: Some(temp.clone()), ..world.spec(&[]) };
    create_repository(&root.join("real/x"), "[core]\n");
    create_repository(&temp.join("e/x"), "[core]\n\tbare = false\n");
    fs::create_dir(root.join("sub")).unwrap();
    symlink("real", root.join("s")).unwrap();
    let link = root.join("sub/.git");
    let after = |change: &dyn Fn()| {
        let guard = capture_before(&spec, SandboxBackend::Namespaces);
        change();
        guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len()
    };
    // A new one may not go through a symlink at all.
    assert_eq!(after(&|| fs::write(&link, "gitdir: ../s/x\n").unwrap()), 1);
    assert!(!link.exists());
    // One of the user's may, and keeps its target.
    fs::write(&link, "gitdir: ../s/x\n").unwrap();
    assert_eq!(after(&|| {}), 0);
    let turn = |to: &Path| {
        fs::remove_file(root.join("s")).unwrap();
        symlink(to, root.join("s")).unwrap();
    };
    assert_eq!(after(&|| turn(&temp.join("e"))), 1);
    assert!(!link.exists() && root.join("s").exists());
    turn(Path::new("real"));
    fs::write(&link, "gitdir: ../s/x\n").unwrap();
    assert_eq!(after(&|| turn(Path::new("absent"))), 0, "nowhere");
}

#[test]
fn repositories_are_looked_for_wherever_commands_write() {
    let world = GuardWorld::new();
    let temp = world.outside.join("temp");
    fs::create_dir(&temp).unwrap();
    let spec = SandboxSpec { temp_dir: Some(temp.clone()), ..world.spec(&[]) };
    let guard = capture_before(&spec, SandboxBackend::Namespaces);
    create_repository(&temp.join("x"), "[core]\n\tfsmonitor = evil\n");
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 1);
    assert!(!temp.join("x/config").exists());
    let guard = capture_before(&spec, SandboxBackend::Landlock);
    let shared = tempfile::tempdir_in("/dev/shm").unwrap();
    create_repository(&shared.path().join("x"), "[core]\n\tfsmonitor = evil\n");
    drop(guard.restore_after(&world.quarantine, &mut RepoScanner::default()));
    assert!(!shared.path().join("x/config").exists());
}

#[test]
fn what_a_protected_link_leads_to_is_put_back_and_so_is_every_link_on_the_way() {
    for backend in [SandboxBackend::Namespaces, SandboxBackend::Landlock] {
        let world = GuardWorld::new();
        let root = &world.root;
        fs::create_dir_all(root.join("cfg")).unwrap();
        fs::create_dir_all(root.join(".claude")).unwrap();
        fs::remove_dir(root.join(".git/hooks")).unwrap();
        fs::create_dir_all(root.join("githooks")).unwrap();
        symlink("../cfg/settings.json", root.join(".claude/settings.json")).unwrap();
        symlink("../githooks", root.join(".git/hooks")).unwrap();
        symlink("one", root.join(".envrc")).unwrap();
        symlink("two", root.join("one")).unwrap();
        symlink("cfg/absent", root.join(".bashrc")).unwrap();
        for name in ["cfg/settings.json", "githooks/pre-commit", "two"] {
            fs::write(root.join(name), "old").unwrap();
        }
        let spec = world.spec(&[".claude/settings.json", ".git/hooks", ".envrc", ".bashrc"]);
        let guard = capture_before(&spec, backend.clone());
        assert!(guard.paths_to_mount().contains(&root.join("githooks")));
        if backend == SandboxBackend::Landlock {
            for name in ["cfg/settings.json", "githooks/pre-commit"] {
                fs::write(root.join(name), "evil").unwrap();
            }
        }
        fs::write(root.join("cfg/absent"), "evil").unwrap();
        fs::write(root.join("evil"), "evil").unwrap();
        fs::remove_file(root.join("one")).unwrap();
        symlink("evil", root.join("one")).unwrap();
        drop(guard.restore_after(&world.quarantine, &mut RepoScanner::default()));
        for name in [".claude/settings.json", ".git/hooks/pre-commit", ".envrc"] {
            assert_eq!(fs::read_to_string(root.join(name)).unwrap(), "old", "{name} {backend:?}");
        }
        assert!(!root.join("cfg/absent").exists() && root.join("evil").exists());
    }
}

#[test]
fn what_the_configuration_names_is_held_like_hooks_and_configuration() {
    let world = GuardWorld::new();
    let root = &world.root;
    for folder in ["scripts", ".githooks", "tree/.githooks"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let text = "[core]\n\thooksPath = .githooks\n[include]\n\tpath = ../.gitshared\n";
    create_repository(&root.join(".git"), text);
    fs::write(root.join(".gitshared"), "[includeIf \"onbranch:x\"]\n\tpath = more\n").unwrap();
    symlink("../../scripts/hook", root.join(".git/hooks/pre-commit")).unwrap();
    symlink("../scripts/other", root.join(".githooks/pre-push")).unwrap();
    for name in ["scripts/hook", "scripts/other", "scripts/mine", ".githooks/pre-commit"] {
        fs::write(root.join(name), "old").unwrap();
    }
    // For a worktree, where it means another folder.
    create_repository(&root.join(".git/worktrees/tree"), "");
    fs::write(root.join("tree/.git"), "gitdir: ../.git/worktrees/tree\n").unwrap();
    fs::write(root.join("tree/.githooks/pre-commit"), "old").unwrap();
    let spec = world.spec(&[".git/hooks", ".git/config"]);
    let guard = capture_before(&spec, SandboxBackend::Landlock);
    let held = [".githooks", ".gitshared", "scripts/hook", "scripts/other", "tree/.githooks"];
    held.iter().for_each(|name| {
        assert!(guard.paths_to_mount().contains(&root.join(name)), "{name} {:?}", guard.paths_to_mount())
    });
    assert!(!guard.paths_to_mount().contains(&root.join("scripts/mine")));
    let changed = ["scripts/hook", "scripts/other", ".githooks/pre-commit", ".gitshared", "tree/.githooks/pre-commit"];
    for name in changed.iter().chain(&["more"]) {
        fs::write(root.join(name), "evil").unwrap();
    }
    fs::write(root.join("scripts/mine"), "new").unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 6);
    changed.iter().for_each(|name| assert_ne!(fs::read_to_string(root.join(name)).unwrap(), "evil", "{name}"));
    assert!(!root.join("more").exists() && fs::read_to_string(root.join("scripts/mine")).unwrap() == "new");
}
