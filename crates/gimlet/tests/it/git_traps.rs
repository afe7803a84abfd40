//! Repositories in which commands that only look would run a program or show a file that lies elsewhere. Each one is tried
//! with git itself first, so that the trap is known to work.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use gimlet_script::Script;
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::json;

use crate::world;

const SECRET: &str = "the-secret-of-another-folder";

/// A world beside whose project lie a program that leaves a marker, and a secret.
struct GitTrapFixture {
    world: TestWorld,
    beside: PathBuf,
}

impl GitTrapFixture {
    fn new() -> Self {
        let world = world();
        let beside = world.project.parent().unwrap().join("beside");
        std::fs::create_dir(&beside).unwrap();
        let stage = Self { world, beside };
        let program = stage.program_path();
        std::fs::write(&program, format!("#!/bin/sh\n: > '{}'\n", stage.marker_path().display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(stage.secret_path(), format!("pick {SECRET}\n")).unwrap();
        stage
    }

    fn program_path(&self) -> PathBuf {
        self.beside.join("program")
    }

    fn marker_path(&self) -> PathBuf {
        self.beside.join("marker")
    }

    fn secret_path(&self) -> PathBuf {
        self.beside.join("secret")
    }

    /// Runs git in a folder, with nobody's configuration but the repository's.
    #[allow(clippy::disallowed_methods, reason = "a repository is made by git itself")]
    fn git(&self, folder: &Path, words: &str) -> String {
        let output = Command::new("git")
            .args(words.split(' '))
            .current_dir(folder)
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")])
            .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b"), ("GIT_COMMITTER_NAME", "a")])
            .envs([("GIT_COMMITTER_EMAIL", "a@b"), ("GIT_ALLOW_PROTOCOL", "file")])
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    /// Makes a repository with two commits of a file.
    fn repository(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        self.git(folder, "init -q -b main");
        for text in ["one\n", "two\n"] {
            std::fs::write(folder.join("a.txt"), text).unwrap();
            self.git(folder, "add a.txt");
            self.git(folder, &format!("commit -q -m {}", text.trim()));
        }
    }

    /// Puts a repository into another one's history, as a submodule that moved from its first commit to its second.
    fn add_submodule_to_history(&self, outer: &Path, name: &str) {
        let inner = self.beside.join("inner");
        self.repository(&inner);
        std::fs::write(outer.join(".gitmodules"), format!("[submodule \"{name}\"]\n\tpath = {name}\n\turl = x\n"))
            .unwrap();
        self.git(outer, "add .gitmodules");
        for commit in ["HEAD~1", "HEAD"] {
            let id = self.git(&inner, &format!("rev-parse {commit}"));
            self.git(outer, &format!("update-index --add --cacheinfo 160000,{},{name}", id.trim()));
            self.git(outer, "commit -q -m submodule");
        }
    }

    /// Has the model run a command; nobody can be asked.
    async fn run(&self, command: &str) -> (RunOutput, String) {
        let model = Script::new().call("Bash", json!({"command": command})).then().say("done").serve().await.unwrap();
        let run = self.world.run(&model).args(["-p", "--output-format", "json", "go"]).finish().await;
        run.expect_code(0);
        let result = model.request(1).tool_result(0);
        (run, result)
    }

    /// Asserts that git springs the trap, and that the command asks.
    async fn expect_trap_avoided(&self, what: &str, command: &str) {
        let shown = self.git(&self.world.project, command.strip_prefix("git ").unwrap());
        let sprung = self.marker_path().exists() || shown.contains(SECRET);
        assert!(sprung, "{what}: git does not fall into it: {shown}");
        std::fs::remove_file(self.marker_path()).ok();
        let (run, result) = self.run(command).await;
        assert!(!self.marker_path().exists(), "{what}: the program ran");
        assert!(!result.contains(SECRET), "{what}: {result}");
        assert_eq!(run.result()["permission_denials"].as_array().unwrap().len(), 1, "{what}: {result}");
    }
}

#[tokio::test]
async fn a_bare_repository_behind_a_git_folder_that_is_not_whole_runs_nothing() {
    type GitDamage = fn(&Path);
    let spoils: [(&str, GitDamage); 3] = [
        ("without objects", |git| std::fs::remove_dir_all(git.join("objects")).unwrap()),
        ("without refs", |git| std::fs::remove_dir_all(git.join("refs")).unwrap()),
        ("with an odd head", |git| std::fs::write(git.join("HEAD"), "odd").unwrap()),
    ];
    for (what, spoil) in spoils {
        let stage = GitTrapFixture::new();
        let project = &stage.world.project;
        stage.repository(&stage.beside.join("source"));
        for name in ["HEAD", "config", "objects", "refs", "index"] {
            std::fs::rename(stage.beside.join("source/.git").join(name), project.join(name)).unwrap();
        }
        let config = format!(
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = {}\n",
            stage.program_path().display()
        );
        stage.world.file("config", config);
        stage.git(project, "init -q whole");
        std::fs::rename(project.join("whole/.git"), project.join(".git")).unwrap();
        spoil(&project.join(".git"));
        stage.expect_trap_avoided(what, "git status").await;
    }
}

#[tokio::test]
async fn a_submodule_that_only_history_knows_runs_nothing() {
    let stage = GitTrapFixture::new();
    let project = &stage.world.project;
    stage.repository(project);
    stage.add_submodule_to_history(project, "sub");
    stage.git(project, "rm -q --cached sub");
    stage.git(project, "commit -q -m gone");
    std::fs::rename(stage.beside.join("inner"), project.join("sub")).unwrap();
    stage.git(&project.join("sub"), &format!("config diff.external {}", stage.program_path().display()));
    stage.expect_trap_avoided("by an option", "git log -p --submodule=diff").await;
    stage.git(project, "config diff.submodule diff");
    stage.expect_trap_avoided("by the configuration", "git log -p").await;
    stage.expect_trap_avoided("by the configuration", "git show HEAD~1").await;
}

#[tokio::test]
async fn a_submodule_without_a_folder_runs_nothing() {
    let stage = GitTrapFixture::new();
    let project = &stage.world.project;
    stage.repository(project);
    stage.add_submodule_to_history(project, "sub");
    std::fs::create_dir_all(project.join(".git/modules")).unwrap();
    std::fs::rename(stage.beside.join("inner/.git"), project.join(".git/modules/sub")).unwrap();
    stage.git(&project.join(".git/modules/sub"), &format!("config diff.external {}", stage.program_path().display()));
    stage.expect_trap_avoided("an absent folder", "git log -p --submodule=diff").await;
    let (run, _) = stage.run("git status").await;
    assert_eq!(run.result()["permission_denials"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn files_elsewhere_are_not_shown() {
    let stage = GitTrapFixture::new();
    let project = &stage.world.project;
    stage.repository(project);
    let git = project.join(".git");
    std::fs::create_dir(git.join("rebase-merge")).unwrap();
    for name in ["interactive", "git-rebase-todo", "onto", "head-name"] {
        std::fs::write(git.join("rebase-merge").join(name), "").unwrap();
    }
    symlink(stage.secret_path(), git.join("rebase-merge/done")).unwrap();
    stage.expect_trap_avoided("an unfinished rebase", "git status").await;
    std::fs::remove_dir_all(git.join("rebase-merge")).unwrap();
    stage.git(project, &format!("config blame.ignoreRevsFile {}", stage.secret_path().display()));
    stage.expect_trap_avoided("a list for blame", "git blame a.txt").await;
    stage.git(project, "config --unset blame.ignoreRevsFile");

    let private = stage.beside.join("private");
    stage.repository(&private);
    std::fs::write(private.join("note"), SECRET).unwrap();
    stage.git(&private, "add note");
    stage.git(&private, &format!("commit -q -m {SECRET}"));
    std::fs::rename(&git, stage.beside.join("kept")).unwrap();
    std::fs::write(&git, format!("gitdir: {}\n", private.join(".git").display())).unwrap();
    stage.expect_trap_avoided("a pointer", "git log").await;
    std::fs::remove_file(&git).unwrap();
    symlink(private.join(".git"), &git).unwrap();
    stage.expect_trap_avoided("a symlink", "git show").await;
    std::fs::remove_file(&git).unwrap();
    std::fs::rename(stage.beside.join("kept"), &git).unwrap();
    for name in ["objects", "refs"] {
        std::fs::remove_dir_all(git.join(name)).unwrap();
        symlink(private.join(".git").join(name), git.join(name)).unwrap();
    }
    stage.expect_trap_avoided("objects and refs", "git log -p").await;
}

#[tokio::test]
async fn ordinary_repositories_worktrees_and_submodules_are_looked_at_without_a_question() {
    let stage = GitTrapFixture::new();
    let project = &stage.world.project;
    let expect_allowed = async |what: &str, command: &str, shown: &str| {
        let (run, result) = stage.run(command).await;
        assert_eq!(run.result()["permission_denials"], json!([]), "{what}: {result}");
        assert!(result.contains(shown), "{what}: {result}");
    };
    stage.repository(project);
    stage.git(project, "pack-refs --all");
    expect_allowed("ordinary", "git status && git log -p && git blame a.txt", "two").await;
    stage.git(project, "config blame.ignoreRevsFile .git-blame-ignore-revs");
    stage.world.file(".git-blame-ignore-revs", "");
    expect_allowed("with a list for blame", "git blame a.txt", "two").await;
    stage.repository(&stage.beside.join("library"));
    let add =
        format!("-c protocol.file.allow=always submodule --quiet add {} sub", stage.beside.join("library").display());
    stage.git(project, &add);
    stage.git(project, "commit -q -m library");
    expect_allowed("with a submodule", "git status && git log -p --submodule=short", "library").await;

    let main = stage.beside.join("main");
    stage.repository(&main);
    std::fs::remove_dir_all(project).unwrap();
    stage.git(&main, &format!("worktree add -q {}", project.display()));
    expect_allowed("a linked worktree", "git status && git log -p", "two").await;
}
