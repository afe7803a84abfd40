//! In a changed folder only the changed parts are removed; the rest is the user's and stays in place.

use super::*;
use std::os::unix::fs::MetadataExt;

/// Creates a folder of skills, optionally with a file that is too large to be kept.
fn create_skills_folder(world: &GuardWorld, large: bool) -> (PathBuf, SandboxSpec) {
    let skills = world.root.join(".claude/skills");
    fs::create_dir_all(skills.join("s")).unwrap();
    fs::write(skills.join("s/SKILL.md"), "old").unwrap();
    fs::write(skills.join("s/run.py"), "run").unwrap();
    if large {
        fs::File::create(skills.join("s/large")).unwrap().set_len(5 << 20).unwrap();
    }
    #[allow(clippy::disallowed_methods, reason = "within one tick of the kernel's clock two changes look like one")]
    std::thread::sleep(std::time::Duration::from_millis(20));
    (skills, world.spec(&[".claude/skills"]))
}

#[test]
fn what_is_new_in_a_folder_goes_alone() {
    for large in [false, true] {
        let world = GuardWorld::new();
        let (skills, spec) = create_skills_folder(&world, large);
        let inode = skills.metadata().unwrap().ino();
        let guard = capture_before(&spec, SandboxBackend::Landlock);
        fs::create_dir(skills.join("s/__pycache__")).unwrap();
        fs::write(skills.join("s/__pycache__/run.pyc"), "made by running it").unwrap();
        let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
        let [SandboxViolation::Tampered { path, moved_to: Some(_) }] = found.as_slice() else {
            panic!("{large} {found:?}")
        };
        assert_eq!((path, path.exists()), (&skills.join("s/__pycache__"), false), "{large}");
        assert_eq!(fs::read_to_string(skills.join("s/SKILL.md")).unwrap(), "old", "{large}");
        assert_eq!(skills.metadata().unwrap().ino(), inode, "{large}");
    }
}

#[test]
fn what_is_changed_or_gone_comes_back_beside_what_is_not() {
    let world = GuardWorld::new();
    let (skills, spec) = create_skills_folder(&world, false);
    let guard = capture_before(&spec, SandboxBackend::Landlock);
    fs::write(skills.join("s/SKILL.md"), "evil").unwrap();
    fs::remove_file(skills.join("s/run.py")).unwrap();
    let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
    assert!(
        matches!(found.as_slice(), [SandboxViolation::Tampered { path, .. }] if *path == skills.join("s/SKILL.md"))
    );
    for (name, text) in [("SKILL.md", "old"), ("run.py", "run")] {
        assert_eq!(fs::read_to_string(skills.join("s").join(name)).unwrap(), text);
    }
    // As a whole where it is gone, or where too much is another.
    for change in [
        |skills: &Path| fs::remove_dir_all(skills).unwrap(),
        |skills: &Path| {
            (0..30).for_each(|n| fs::write(skills.join(n.to_string()), "evil").unwrap());
        },
    ] {
        let guard = capture_before(&spec, SandboxBackend::Landlock);
        change(&skills);
        assert!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len() <= 1);
        assert_eq!(fs::read_to_string(skills.join("s/run.py")).unwrap(), "run");
        assert_eq!(fs::read_dir(&skills).unwrap().count(), 1);
    }
}

#[test]
fn what_is_planted_in_an_empty_folder_is_found_also_when_that_is_closed() {
    let world = GuardWorld::new();
    let hooks = world.root.join(".git/hooks");
    let guard = capture_before(&world.spec(&[".git/hooks"]), SandboxBackend::Landlock);
    fs::write(hooks.join("pre-commit"), "evil").unwrap();
    fs::set_permissions(&hooks, fs::Permissions::from_mode(0o300)).unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 1);
    assert_eq!(fs::read_dir(&hooks).unwrap().count(), 0);
}

#[test]
fn what_is_too_large_to_be_kept_is_never_removed() {
    let world = GuardWorld::new();
    let (skills, spec) = create_skills_folder(&world, true);
    let (changed, new) = (skills.join("s/SKILL.md"), skills.join("t/new"));
    fs::create_dir(skills.join("t")).unwrap();
    let guard = capture_before(&spec, SandboxBackend::Landlock);
    fs::write(&changed, "evil").unwrap();
    fs::write(&new, "evil").unwrap();
    fs::write(&world.quarantine, "").unwrap();
    let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
    // A part that is left does not prevent other restores.
    let [SandboxViolation::Left { path: left, .. }, SandboxViolation::Tampered { path, moved_to: None }] =
        found.as_slice()
    else {
        panic!("{found:?}");
    };
    assert_eq!((left, path, new.exists()), (&changed, &new, false));

    fs::remove_file(&world.quarantine).unwrap();
    let guard = capture_before(&spec, SandboxBackend::Landlock);
    fs::remove_file(&changed).unwrap();
    fs::write(&changed, "more evil").unwrap();
    let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
    let [SandboxViolation::Tampered { moved_to: Some(moved_to), .. }, SandboxViolation::Lost { path, .. }] =
        found.as_slice()
    else {
        panic!("{found:?}");
    };
    assert_eq!((fs::read_to_string(moved_to).unwrap().as_str(), path), ("more evil", &changed));
    assert!(skills.join("s/large").exists() && skills.join("s/run.py").exists() && !changed.exists());
}

#[test]
fn what_gimlet_itself_writes_meanwhile_stays_and_nothing_beside_it() {
    for backend in [SandboxBackend::Namespaces, SandboxBackend::Landlock] {
        let world = GuardWorld::new();
        let [server, tasks, planted] =
            [".mcp.json", ".vscode/a/tasks.json", ".envrc"].map(|name| world.root.join(name));
        fs::write(&server, "old").unwrap();
        let mut guard = capture_before(&world.spec(&[".mcp.json", ".vscode", ".envrc"]), backend.clone());
        // As tools do it: another file takes the name.
        replace_file(&server, "new");
        guard.record_own_write(&server, Some(b"old"), Some(b"new"));
        fs::create_dir_all(tasks.parent().unwrap()).unwrap();
        fs::write(&tasks, "one").unwrap();
        guard.record_own_write(&tasks, None, Some(b"one"));
        fs::write(&tasks, "two").unwrap();
        guard.record_own_write(&tasks, Some(b"one"), Some(b"two"));
        // A change by the user does not make a command's earlier file theirs.
        fs::write(&planted, "evil, changed").unwrap();
        guard.record_own_write(&planted, Some(b"evil"), Some(b"evil, changed"));
        fs::write(tasks.with_file_name("evil"), "").unwrap();
        let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
        assert_eq!(found.len(), 2, "{backend:?} {found:?}");
        assert!(!planted.exists() && !tasks.with_file_name("evil").exists(), "{backend:?}");
        for (path, text) in [(&server, "new"), (&tasks, "two")] {
            assert_eq!(fs::read_to_string(path).unwrap(), text, "{backend:?}");
        }
        // A file that gimlet wrote and removed again is not restored; the command's change to gimlet's other file is
        // undone.
        let mut guard = capture_before(&world.spec(&[".mcp.json", ".vscode", ".envrc"]), backend.clone());
        fs::write(&planted, "made").unwrap();
        guard.record_own_write(&planted, None, Some(b"made"));
        fs::remove_file(&planted).unwrap();
        guard.record_own_write(&planted, Some(b"made"), None);
        replace_file(&server, "newer");
        guard.record_own_write(&server, Some(b"new"), Some(b"newer"));
        fs::write(&server, "evil").unwrap();
        assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 1, "{backend:?}");
        assert!(!planted.exists() && fs::read_to_string(&server).unwrap() == "newer", "{backend:?}");
    }
}
