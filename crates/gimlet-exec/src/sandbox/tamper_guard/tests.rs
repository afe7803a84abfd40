mod created_repositories;
mod link_targets;
mod partial_restore;

use super::*;
use crate::sandbox::probe::SandboxBackend;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

fn sandbox_support(backend: SandboxBackend) -> SandboxSupport {
    SandboxSupport { backend, landlock_abi: 7, notes: Vec::new() }
}

fn capture_before(spec: &SandboxSpec, backend: SandboxBackend) -> TamperGuard {
    TamperGuard::capture_before(spec, &sandbox_support(backend), &mut RepoScanner::default())
}

struct GuardWorld {
    _dir: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    quarantine: PathBuf,
}

impl GuardWorld {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let world = Self { root: base.join("w"), outside: base.join("o"), quarantine: base.join("q"), _dir: dir };
        fs::create_dir_all(world.root.join(".git/hooks")).unwrap();
        fs::create_dir_all(&world.outside).unwrap();
        world
    }

    fn spec(&self, protected: &[&str]) -> SandboxSpec {
        let deny_write = protected.iter().map(|name| self.root.join(name)).collect();
        SandboxSpec { write: vec![self.root.clone()], deny_write, ..SandboxSpec::default() }
    }
}

#[test]
fn a_new_protected_file_is_moved_away_and_its_neighbours_stay() {
    let world = GuardWorld::new();
    let spec = world.spec(&[".mcp.json", ".claude/settings.json"]);
    let guard = capture_before(&spec, SandboxBackend::Namespaces);
    fs::create_dir(world.root.join(".claude")).unwrap();
    for name in [".mcp.json", ".claude/settings.json", ".claude/notes.md"] {
        fs::write(world.root.join(name), "x").unwrap();
    }
    let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(!world.root.join(".mcp.json").exists() && world.root.join(".claude/notes.md").exists());
    let SandboxViolation::Tampered { moved_to: Some(moved_to), .. } = &found[0] else { panic!("{found:?}") };
    assert_eq!(fs::read_to_string(moved_to).unwrap(), "x");
    assert!(moved_to.starts_with(&world.quarantine));
}

#[test]
fn settings_become_what_they_are_known_to_say_and_not_what_a_command_made_of_them() {
    let world = GuardWorld::new();
    let (local, project) = (".claude/settings.local.json", ".claude/settings.json");
    fs::create_dir(world.root.join(".claude")).unwrap();
    fs::write(world.root.join(project), "held").unwrap();
    let spec = world.spec(&[local, project]);
    let after = |known: &[(&str, Option<&str>)]| {
        let mut guard = capture_before(&spec, SandboxBackend::Namespaces);
        assert_eq!(guard.settings_files().len(), 2);
        for (name, text) in known {
            guard.expect(&world.root.join(name), *text, text.is_some());
        }
        guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len()
    };
    let read = |name: &str| fs::read_to_string(world.root.join(name)).ok();
    // Another command had written it before this one began.
    fs::write(world.root.join(local), "evil").unwrap();
    let mut guard = capture_before(&spec, SandboxBackend::Landlock);
    guard.expect(&world.root.join(local), None, false);
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 1);
    assert_eq!(read(local), None);
    // gimlet wrote these itself, and one of them was changed behind it: its mount is gone.
    fs::write(world.root.join(local), "own").unwrap();
    fs::write(world.root.join(project), "evil").unwrap();
    assert_eq!(after(&[(local, Some("own")), (project, Some("own"))]), 1);
    assert_eq!((read(local).as_deref(), read(project).as_deref()), (Some("own"), Some("own")));
}

/// Puts a new file in the place of another, as editors and git do.
fn replace_file(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn what_takes_the_place_of_a_held_file_is_looked_at() {
    let world = GuardWorld::new();
    let (envrc, config) = (world.root.join(".envrc"), world.root.join(".git/config"));
    let old = "[core]\n\tbare = false\n[alias]\n\tst = status\n";
    fs::write(&envrc, "old").unwrap();
    fs::write(&config, old).unwrap();
    let after = |change: &dyn Fn()| {
        let guard = capture_before(&world.spec(&[".envrc"]), SandboxBackend::Namespaces);
        change();
        guard.restore_after(&world.quarantine, &mut RepoScanner::default())
    };
    // Only a process outside can do this: the mount is still there.
    assert_eq!(after(&|| fs::write(&envrc, "edited").unwrap()), []);
    assert_eq!(fs::read_to_string(&envrc).unwrap(), "edited");
    let found = after(&|| replace_file(&envrc, "evil"));
    let [SandboxViolation::Replaced { path, moved_to }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((path, fs::read_to_string(moved_to).unwrap().as_str()), (&envrc, "evil"));
    assert_eq!(fs::read_to_string(&envrc).unwrap(), "edited");
    // A second name (hard link) for the file bypasses the mount.
    let other = world.root.join("other");
    fs::hard_link(&envrc, &other).unwrap();
    assert_eq!(after(&|| fs::write(&other, "evil").unwrap()).len(), 1);
    assert_eq!(fs::read_to_string(&envrc).unwrap(), "edited");
    assert_eq!(after(&|| fs::remove_file(&envrc).unwrap()), []);
    assert!(!envrc.exists());
    // Git replaces its configuration whenever it writes it.
    let pushed = format!("{old}[branch \"main\"]\n\tremote = origin\n");
    assert_eq!(after(&|| replace_file(&config, &pushed)), []);
    assert_eq!(after(&|| replace_file(&config, &format!("{pushed}[core]\n\tfsmonitor = evil\n"))).len(), 1);
    assert_eq!(fs::read_to_string(&config).unwrap(), pushed);
}

#[test]
fn what_one_command_plants_is_not_what_another_finds() {
    let settings = ".claude/settings.local.json";
    for backend in [SandboxBackend::Namespaces, SandboxBackend::Landlock] {
        let (world, available) = (GuardWorld::new(), sandbox_support(backend));
        let spec = world.spec(&[".envrc", ".mcp.json", settings]);
        let plant = || {
            fs::write(world.root.join(".envrc"), "evil").unwrap();
            symlink("evil", world.root.join(".mcp.json")).unwrap();
            symlink(&world.outside, world.root.join(".claude")).unwrap();
        };
        fs::write(world.outside.join("settings.local.json"), "evil").unwrap();
        for again in [false, true] {
            let mut census = RepoScanner::default();
            let first = TamperGuard::capture_before(&spec, &available, &mut census);
            plant();
            let second = TamperGuard::capture_before(&spec, &available, &mut census);
            assert_eq!(first.restore_after(&world.quarantine, &mut census).len(), 3);
            if again {
                plant();
            }
            let found = second.restore_after(&world.quarantine, &mut census);
            assert_eq!(found.len(), if again { 3 } else { 0 }, "{found:?}");
            for name in [".envrc", ".mcp.json", ".claude"] {
                assert!(world.root.join(name).symlink_metadata().is_err(), "{name} {again}");
            }
        }
    }
}

#[test]
fn a_later_guard_does_not_override_an_earlier_one() {
    let world = GuardWorld::new();
    let (spec, envrc) = (world.spec(&[".envrc"]), world.root.join(".envrc"));
    let mut census = RepoScanner::default();
    let first = TamperGuard::capture_before(&spec, &sandbox_support(SandboxBackend::Namespaces), &mut census);
    fs::write(&envrc, "evil").unwrap();
    let second = TamperGuard::capture_before(&spec, &sandbox_support(SandboxBackend::Namespaces), &mut census);
    replace_file(&envrc, "more evil");
    assert_eq!(second.restore_after(&world.quarantine, &mut census).len(), 1);
    assert_eq!(first.restore_after(&world.quarantine, &mut census).len(), 1);
    assert!(!envrc.exists());
}

#[test]
fn without_mounts_changed_files_are_put_back() {
    let world = GuardWorld::new();
    let hook = world.root.join(".git/hooks/pre-commit");
    fs::write(&hook, "old").unwrap();
    let guard = capture_before(&world.spec(&[".git/hooks"]), SandboxBackend::Landlock);
    fs::rename(world.root.join(".git"), world.root.join("git")).unwrap();
    fs::create_dir_all(world.root.join(".git/hooks")).unwrap();
    fs::write(&hook, "evil").unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 1);
    assert_eq!(fs::read_to_string(&hook).unwrap(), "old");
}

#[test]
fn a_planted_link_is_taken_and_what_it_leads_to_is_left() {
    let world = GuardWorld::new();
    let settings = world.outside.join("settings.json");
    fs::write(&settings, "the user's").unwrap();
    let guard = capture_before(&world.spec(&[".claude/settings.json"]), SandboxBackend::Namespaces);
    symlink(&world.outside, world.root.join(".claude")).unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 1);
    assert!(settings.exists() && !world.root.join(".claude").exists());
}

#[test]
fn a_folder_that_becomes_a_bare_repository_stops_being_one() {
    let world = GuardWorld::new();
    let guard = capture_before(&world.spec(&[]), SandboxBackend::Namespaces);
    for name in ["objects", "refs"] {
        fs::create_dir(world.root.join(name)).unwrap();
    }
    fs::write(world.root.join("HEAD"), "ref: refs/heads/x").unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 1);
    assert!(!is_repository(&world.root) && world.root.join("objects").exists());
}

#[test]
fn a_new_repository_may_stay_but_not_with_hooks_or_commands_in_its_configuration() {
    let world = GuardWorld::new();
    let spec = world.spec(&[]);
    let make = |name: &str, config: &str, hook: &str| {
        let git = world.root.join(name).join(".git");
        for folder in ["hooks", "objects", "refs"] {
            fs::create_dir_all(git.join(folder)).unwrap();
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("config"), config).unwrap();
        fs::write(git.join("hooks").join(hook), "x").unwrap();
        git
    };
    let guard = capture_before(&spec, SandboxBackend::Namespaces);
    let fine = make("fine", "[core]\n\tbare = false\n", "pre-commit.sample");
    let hook = make("hook", "", "pre-commit");
    let command = make("command", "[core]\n\tfsmonitor = evil\n", "x.sample");
    // Found not by its name, but by the file that points to it.
    fs::create_dir(world.root.join("linked")).unwrap();
    fs::rename(make("far", "[alias]\nst = !evil\n", "x.sample"), world.root.join("far/elsewhere")).unwrap();
    fs::write(world.root.join("linked/.git"), "gitdir: ../far/elsewhere\n").unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 3);
    assert!(fine.join("config").exists() && fine.join("hooks").exists());
    assert!(hook.join("config").exists() && !hook.join("hooks").exists());
    assert!(!command.join("config").exists() && command.join("hooks").exists());
    // The repository that it points to is the command's own as well.
    assert!(!world.root.join("far/elsewhere/config").exists());
}

#[test]
fn what_others_run_is_held_beside_every_repository() {
    let world = GuardWorld::new();
    let sub = world.root.join("a/sub");
    let planted = [".mcp.json", ".envrc", ".vscode/tasks.json", ".claude/settings.json"];
    let plant = |folder: &Path| {
        for name in planted {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            fs::write(folder.join(name), "evil").unwrap();
        }
    };
    fs::create_dir_all(sub.join(".git")).unwrap();
    fs::write(sub.join(".bashrc"), "old").unwrap();
    let guard = capture_before(&world.spec(&[]), SandboxBackend::Landlock);
    assert!(
        guard.paths_to_mount().contains(&sub.join(".bashrc")) && !guard.paths_to_mount().contains(&sub.join(".envrc"))
    );
    plant(&sub);
    plant(&world.root.join("plain"));
    fs::write(sub.join(".bashrc"), "evil").unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 5);
    assert!(planted.iter().all(|name| !sub.join(name).exists()));
    assert_eq!(fs::read_to_string(sub.join(".bashrc")).unwrap(), "old");
    assert!(world.root.join("plain/.envrc").exists(), "no repository");

    // A new one contains only what the user already has.
    fs::write(world.root.join(".envrc"), "evil").unwrap();
    let guard = capture_before(&world.spec(&[]), SandboxBackend::Namespaces);
    for new in ["new", "linked"] {
        plant(&world.root.join(new));
    }
    fs::create_dir(world.root.join("new/.git")).unwrap();
    fs::write(world.root.join("linked/.git"), "gitdir: ../new/.git\n").unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 6);
    for new in ["new", "linked"] {
        let left = planted.map(|name| world.root.join(new).join(name).exists());
        assert_eq!(left, [false, true, false, false], "{new}");
    }
}

#[test]
fn a_link_to_a_repository_of_somebody_else_goes_and_the_repository_stays() {
    let world = GuardWorld::new();
    let real = world.outside.join("real/.git");
    for folder in ["hooks", "objects", "refs"] {
        fs::create_dir_all(real.join(folder)).unwrap();
    }
    fs::write(real.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(real.join("hooks/pre-commit"), "the person's own").unwrap();
    let guard = capture_before(&world.spec(&[]), SandboxBackend::Namespaces);
    for name in ["by-file", "by-link"] {
        fs::create_dir_all(world.root.join("a/b/c/d").join(name)).unwrap();
    }
    let (file, link) = (world.root.join("a/b/c/d/by-file/.git"), world.root.join("a/b/c/d/by-link/.git"));
    fs::write(&file, format!("gitdir: {}\n", real.display())).unwrap();
    symlink(&real, &link).unwrap();
    let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(real.join("hooks/pre-commit").exists() && !file.exists() && link.symlink_metadata().is_err());
}

#[test]
fn repositories_that_came_between_two_commands_are_held_by_the_next() {
    let world = GuardWorld::new();
    let mut census = RepoScanner::default();
    let first =
        TamperGuard::capture_before(&world.spec(&[]), &sandbox_support(SandboxBackend::Namespaces), &mut census);
    drop(first.restore_after(&world.quarantine, &mut census));
    let clone = world.root.join("1/2/3/4/5/clone/.git");
    fs::create_dir_all(clone.join("hooks")).unwrap();
    fs::write(clone.join("config"), "[core]\n").unwrap();
    let second =
        TamperGuard::capture_before(&world.spec(&[]), &sandbox_support(SandboxBackend::Namespaces), &mut census);
    assert!(
        second.paths_to_mount().contains(&clone.join("hooks"))
            && second.paths_to_mount().contains(&clone.join("config"))
    );
    // Without a mount they are restored.
    let third = TamperGuard::capture_before(&world.spec(&[]), &sandbox_support(SandboxBackend::Landlock), &mut census);
    fs::write(clone.join("config"), "[core]\nfsmonitor = evil\n").unwrap();
    assert_eq!(third.restore_after(&world.quarantine, &mut census).len(), 1);
    assert_eq!(fs::read_to_string(clone.join("config")).unwrap(), "[core]\n");
}

#[test]
fn a_symlink_in_place_of_a_folder_redirects_neither_quarantine_nor_restore() {
    let world = GuardWorld::new();
    let root = world.root.clone();
    fs::create_dir_all(world.outside.join("hooks")).unwrap();
    fs::write(world.outside.join("hooks/pre-commit"), "the person's own").unwrap();
    fs::write(root.join(".git/hooks/pre-commit"), "old").unwrap();
    let guard = capture_before(&world.spec(&[".git/hooks"]), SandboxBackend::Landlock);
    fs::rename(root.join(".git"), root.join("away")).unwrap();
    symlink(&world.outside, root.join(".git")).unwrap();
    drop(guard.restore_after(&world.quarantine, &mut RepoScanner::default()));
    assert_eq!(fs::read_to_string(world.outside.join("hooks/pre-commit")).unwrap(), "the person's own");
    assert_eq!(fs::read_to_string(root.join(".git/hooks/pre-commit")).unwrap(), "old");
}

#[test]
fn a_preexisting_symlink_is_not_reported() {
    let world = GuardWorld::new();
    symlink(&world.outside, world.root.join(".claude")).unwrap();
    let guard = capture_before(&world.spec(&[".claude/settings.json"]), SandboxBackend::Namespaces);
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()), []);
    assert!(world.root.join(".claude").is_symlink());
}

#[test]
fn an_honest_command_leaves_nothing_to_report() {
    let world = GuardWorld::new();
    let guard = capture_before(&world.spec(&[".git/hooks", ".mcp.json"]), SandboxBackend::Landlock);
    fs::write(world.root.join("a.rs"), "fn main() {}").unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()), []);
    assert!(!world.quarantine.exists());
}

#[test]
fn what_cannot_be_moved_away_is_removed_and_told() {
    let world = GuardWorld::new();
    let guard = capture_before(&world.spec(&[".mcp.json", ".vscode"]), SandboxBackend::Namespaces);
    fs::write(world.root.join(".mcp.json"), "x").unwrap();
    fs::create_dir_all(world.root.join(".vscode/a/b")).unwrap();
    for closed in [".vscode/a/b", ".vscode/a", ".vscode"] {
        fs::set_permissions(world.root.join(closed), fs::Permissions::from_mode(0o100)).unwrap();
    }
    // No folder can be created there.
    fs::write(&world.quarantine, "").unwrap();
    let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
    let told =
        [".mcp.json", ".vscode"].map(|name| SandboxViolation::Tampered { path: world.root.join(name), moved_to: None });
    assert_eq!(found, told);
    assert!(!world.root.join(".mcp.json").exists() && !world.root.join(".vscode").exists());
}

#[test]
fn a_folder_that_the_person_closed_is_looked_into_and_closed_again() {
    let world = GuardWorld::new();
    let (closed, git) = (world.root.join("closed"), world.root.join("closed/sub/.git"));
    fs::create_dir_all(git.join("hooks")).unwrap();
    fs::write(git.join("hooks/pre-commit"), "the person's own").unwrap();
    let mode = |mode: u32| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    let now = || fs::metadata(&closed).unwrap().permissions().mode() & 0o777;
    mode(0);
    let guard = capture_before(&world.spec(&[]), SandboxBackend::Namespaces);
    assert_eq!((guard.closed_folders(), now()), (std::slice::from_ref(&closed), 0));
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()), []);
    assert_eq!(now(), 0);
    mode(0o755);
    assert!(git.join("hooks/pre-commit").exists());

    // Folders that a command closes stay open.
    let guard = capture_before(&world.spec(&[]), SandboxBackend::Namespaces);
    fs::create_dir(world.root.join("closed/sub/new.git")).unwrap();
    mode(0o311);
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()), []);
    assert_eq!(now(), 0o711);
}

#[test]
fn a_worktree_leads_to_no_configuration_that_nobody_looked_at() {
    let world = GuardWorld::new();
    let guard = capture_before(&world.spec(&[]), SandboxBackend::Namespaces);
    let evil = world.root.join("evil");
    for folder in ["objects", "refs", "worktrees/n"] {
        fs::create_dir_all(evil.join(folder)).unwrap();
    }
    for (file, text) in
        [("worktrees/n/HEAD", "ref: refs/heads/x\n"), ("worktrees/n/commondir", "../..\n"), ("config", "[alias]\n")]
    {
        fs::write(evil.join(file), text).unwrap();
    }
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 1);
    assert!(!evil.join("config").exists());
}

#[test]
fn more_folders_than_can_be_looked_into_are_told() {
    let world = GuardWorld::new();
    let mut census = RepoScanner::with_max_folders(10);
    let guard =
        TamperGuard::capture_before(&world.spec(&[]), &sandbox_support(SandboxBackend::Namespaces), &mut census);
    assert!(!guard.is_partial());
    (0..20).for_each(|n| fs::create_dir(world.root.join(n.to_string())).unwrap());
    assert_eq!(guard.restore_after(&world.quarantine, &mut census), [SandboxViolation::Unseen]);
    let guard =
        TamperGuard::capture_before(&world.spec(&[]), &sandbox_support(SandboxBackend::Namespaces), &mut census);
    assert!(guard.is_partial());
    assert_eq!(guard.restore_after(&world.quarantine, &mut census), [], "not the command's doing");
}

#[test]
fn the_quarantine_may_be_on_another_file_system() {
    let world = GuardWorld::new();
    let quarantine = tempfile::tempdir_in("/dev/shm").unwrap();
    let guard = capture_before(&world.spec(&[".vscode", ".envrc"]), SandboxBackend::Namespaces);
    fs::create_dir(world.root.join(".vscode")).unwrap();
    fs::write(world.root.join(".vscode/tasks.json"), "x").unwrap();
    fs::write(world.root.join(".vscode/large"), vec![b'x'; 5 << 20]).unwrap();
    fs::set_permissions(world.root.join(".vscode"), fs::Permissions::from_mode(0o555)).unwrap();
    symlink("/etc/passwd", world.root.join(".envrc")).unwrap();
    let found = guard.restore_after(quarantine.path(), &mut RepoScanner::default());
    let moved = found.iter().filter_map(|found| match found {
        SandboxViolation::Tampered { moved_to, .. } => moved_to.as_ref(),
        _ => None,
    });
    let moved: Vec<&PathBuf> = moved.collect();
    assert_eq!(fs::read_to_string(moved[0].join("tasks.json")).unwrap(), "x");
    assert_eq!(moved[0].join("large").metadata().unwrap().len(), 5 << 20);
    assert!(moved[1].is_symlink() && !world.root.join(".vscode").exists() && !world.root.join(".envrc").exists());
}

#[test]
fn a_git_that_would_be_read_for_ever_is_taken_away_unread() {
    let world = GuardWorld::new();
    let guard = capture_before(&world.spec(&[]), SandboxBackend::Namespaces);
    for folder in ["pipe", "endless", "large", "led"] {
        fs::create_dir(world.root.join(folder)).unwrap();
    }
    let pipe = |path: PathBuf| {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RWXU, 0).unwrap();
    };
    pipe(world.root.join("pipe/.git"));
    symlink("/dev/zero", world.root.join("endless/.git")).unwrap();
    fs::File::create(world.root.join("large/.git")).unwrap().set_len(1 << 40).unwrap();
    fs::create_dir(world.root.join("pipes")).unwrap();
    for name in ["config", "commondir", "HEAD", "gitdir"] {
        pipe(world.root.join("pipes").join(name));
    }
    fs::write(world.root.join("led/.git"), "gitdir: ../pipes\n").unwrap();
    let found = guard.restore_after(&world.quarantine, &mut RepoScanner::default());
    for folder in ["pipe", "endless", "large"] {
        assert!(world.root.join(folder).join(".git").symlink_metadata().is_err(), "{folder} {found:?}");
    }
    assert!(!world.root.join("pipes/config").exists(), "{found:?}");
}

#[test]
fn a_folder_with_a_file_that_has_another_name_is_compared_by_what_is_in_it() {
    let world = GuardWorld::new();
    fs::create_dir(world.root.join(".vscode")).unwrap();
    let (tasks, other) = (world.root.join(".vscode/tasks.json"), world.root.join("other"));
    fs::write(&tasks, "old").unwrap();
    fs::hard_link(&tasks, &other).unwrap();
    let guard = capture_before(&world.spec(&[".vscode"]), SandboxBackend::Namespaces);
    fs::write(&other, "evil").unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 1);
    assert_eq!(fs::read_to_string(&tasks).unwrap(), "old");
    // Without one, an edit in place is the user's.
    let guard = capture_before(&world.spec(&[".vscode"]), SandboxBackend::Namespaces);
    fs::write(&tasks, "edited").unwrap();
    assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()), []);
}

#[test]
fn local_settings_are_held_in_every_folder() {
    let world = GuardWorld::new();
    let (old, new) = (world.root.join("a/.claude"), world.root.join("b/c/.claude"));
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join("settings.local.json"), "old").unwrap();
    for backend in [SandboxBackend::Landlock, SandboxBackend::Namespaces] {
        let guard = capture_before(&world.spec(&[]), backend.clone());
        let is_known = |files: &[PathBuf]| files.contains(&old.join("settings.local.json"));
        assert!(is_known(guard.paths_to_mount()) && is_known(guard.settings_files()));
        fs::create_dir_all(&new).unwrap();
        for name in ["settings.local.json", "notes.md"] {
            fs::write(new.join(name), "evil").unwrap();
        }
        replace_file(&old.join("settings.local.json"), "evil");
        assert_eq!(guard.restore_after(&world.quarantine, &mut RepoScanner::default()).len(), 2, "{backend:?}");
        assert!(new.join("notes.md").exists() && !new.join("settings.local.json").exists());
        assert_eq!(fs::read_to_string(old.join("settings.local.json")).unwrap(), "old");
        fs::remove_dir_all(&new).unwrap();
    }
}
