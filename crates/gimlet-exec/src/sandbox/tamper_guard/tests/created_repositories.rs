//! Repositories that commands of this session created.

use super::*;

fn create_clone(at: &Path) {
    for folder in ["hooks", "objects", "refs"] {
        fs::create_dir_all(at.join(".git").join(folder)).unwrap();
    }
    fs::write(at.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(at.join(".git/config"), "[core]\n\tbare = false\n").unwrap();
}

#[test]
fn a_plain_repository_that_a_command_made_is_watched_and_not_held() {
    let world = GuardWorld::new();
    let (spec, available) = (world.spec(&[]), sandbox_support(SandboxBackend::Namespaces));
    let mut census = RepoScanner::default();
    let mut command = |change: &dyn Fn(), is_held: bool| {
        let guard = TamperGuard::capture_before(&spec, &available, &mut census);
        let held = guard.paths_to_mount().iter().any(|path| path.starts_with(world.root.join("made")));
        assert_eq!(held, is_held, "{:?}", guard.paths_to_mount());
        change();
        guard.restore_after(&world.quarantine, &mut census).len()
    };
    let (made, config) = (world.root.join("made"), world.root.join("made/.git/config"));
    assert_eq!(command(&|| create_clone(&made), false), 0);
    let remote = "[remote \"origin\"]\n\turl = a:b\n";
    assert_eq!(command(&|| replace_file(&config, remote), false), 0);
    assert_eq!(fs::read_to_string(&config).unwrap(), remote);
    // It never gets files that other programs would run, and keeps those that it had.
    let evil = || {
        fs::write(&config, "[core]\n\tfsmonitor = evil\n").unwrap();
        fs::write(made.join(".git/hooks/pre-commit"), "evil").unwrap();
        fs::write(made.join(".envrc"), "evil").unwrap();
        fs::write(made.join(".git/commondir"), "../../evil").unwrap();
    };
    assert_eq!(command(&evil, false), 4);
    assert_eq!(fs::read_to_string(&config).unwrap(), remote);
    assert!(!made.join(".git/hooks/pre-commit").exists() && !made.join(".envrc").exists());
    // The whole of it may go, and come back under another name.
    assert_eq!(command(&|| fs::rename(&made, world.root.join("moved")).unwrap(), false), 0);
    assert_eq!(command(&|| fs::rename(world.root.join("moved"), &made).unwrap(), false), 0);
    assert_eq!(command(&|| fs::remove_dir_all(&made).unwrap(), false), 0);
    // Once the user has changed it, it is protected like every other.
    assert_eq!(command(&|| create_clone(&made), false), 0);
    fs::write(made.join(".git/hooks/pre-commit"), "the person's").unwrap();
    assert_eq!(command(&|| {}, true), 0);
}

#[test]
fn what_was_there_before_a_repository_was_made_around_it_stays() {
    for backend in [SandboxBackend::Namespaces, SandboxBackend::Landlock] {
        let world = GuardWorld::new();
        fs::remove_dir_all(world.root.join(".git")).unwrap();
        let [known, changed] = [".claude/settings.json", ".envrc"].map(|name| world.root.join(name));
        fs::create_dir(known.parent().unwrap()).unwrap();
        fs::write(&known, "mine").unwrap();
        fs::write(&changed, "mine").unwrap();
        let guard = capture_before(&world.spec(&[".claude/settings.json", ".envrc", ".mcp.json"]), backend.clone());
        create_clone(&world.root);
        replace_file(&changed, "evil");
        fs::write(world.root.join(".mcp.json"), "evil").unwrap();
        let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
        assert_eq!(found.len(), 2, "{backend:?} {found:?}");
        for path in [known, changed] {
            assert_eq!(fs::read_to_string(&path).unwrap(), "mine", "{backend:?} {}", path.display());
        }
        assert!(!world.root.join(".mcp.json").exists(), "{backend:?}");
    }
}

#[test]
fn a_worktree_that_a_command_made_can_be_removed_and_leads_nowhere_else() {
    let world = GuardWorld::new();
    let (spec, available) = (world.spec(&[]), sandbox_support(SandboxBackend::Namespaces));
    create_clone(&world.root);
    let (link, own) = (world.root.join("tree/.git"), world.root.join(".git/worktrees/tree"));
    let make = || {
        fs::create_dir_all(world.root.join("tree")).unwrap();
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("HEAD"), "ref: refs/heads/x\n").unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(&link, "gitdir: ../.git/worktrees/tree\n").unwrap();
    };
    let mut census = RepoScanner::default();
    let mut command = |change: &dyn Fn()| {
        let guard = TamperGuard::capture_before(&spec, &available, &mut census);
        assert!(
            !guard.paths_to_mount().contains(&link)
                && !guard.paths_to_mount().iter().any(|path| path.starts_with(&own))
        );
        change();
        guard.restore_after(&world.quarantine, &mut census).len()
    };
    assert_eq!(command(&make), 0);
    let remove = || {
        fs::remove_dir_all(world.root.join("tree")).unwrap();
        fs::remove_dir_all(&own).unwrap();
    };
    assert_eq!(command(&remove), 0);
    assert_eq!(command(&make), 0);
    fs::create_dir_all(world.outside.join("evil")).unwrap();
    assert_eq!(command(&|| fs::write(&link, format!("gitdir: {}", world.outside.display())).unwrap()), 1);
    assert!(!link.exists());
}
