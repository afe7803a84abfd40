//! Links and changes of directory lead nobody past the gate: the real binary over real links.

use std::os::unix::fs::symlink;

use super::*;
use crate::world;

/// A project with links out of it, to its repository and to a closed file; `outside/secret` says TOPSECRET.
fn world_with_links() -> TestWorld {
    let world = world();
    world.file("outside/secret", "TOPSECRET\n");
    world.file("p/.git/hooks/keep", "");
    world.file("p/secret/k", "TOPSECRET\n");
    world.file("p/.env", "TOPSECRET\n");
    world.file("p/sub/a", "fine\n");
    let project = Path::new(&world.path("p")).to_owned();
    symlink(world.path("outside"), project.join("outlink")).unwrap();
    symlink(world.path("outside/secret"), project.join("sub/sl")).unwrap();
    symlink("/proc/self", project.join("p")).unwrap();
    symlink(".git", project.join("gl")).unwrap();
    symlink("secret/k", project.join("lk")).unwrap();
    world
}

/// Runs each command in the linked project; all must be refused, or none.
async fn run_each(commands: &[&str], flags: &[&str], refused: bool) {
    for command in commands {
        let world = world_with_links();
        let model = serve_in_one_reply([bash_call(command)]).await;
        let flags = ["-p", "--output-format", "stream-json", "--verbose"].into_iter().chain(flags.iter().copied());
        let run = world.run(&model).args(flags).args(["--", "go"]).cwd(world.path("p")).finish().await;
        run.expect_code(0);
        let answers = tool_answers(&model.request(1));
        assert_eq!(answers[0].1, refused, "{command} under {answers:?}");
        assert!(!answers[0].0.contains("TOPSECRET"), "{command}: {answers:?}");
        assert!(!Path::new(&world.path("p/.git/hooks/p1")).exists(), "{command}");
        assert!(!Path::new(&world.path("outside/q")).exists(), "{command}");
    }
}

#[tokio::test]
async fn no_list_of_readers_leaves_the_project_through_a_link() {
    let leaving = [
        "cd outlink && cat secret",
        "cd outlink; cat secret",
        "cat outlink/../outside/secret",
        "cat sub/sl",
        "cd sub && cat sl",
        "cat p/environ",
        "cd outlink",
    ];
    for mode in ["default", "plan", "dontAsk"] {
        run_each(&leaving, &["--permission-mode", mode], true).await;
        run_each(&["cd sub && cat a", "head -c 600 sub/a; true 5"], &["--permission-mode", mode], false).await;
    }
}

#[tokio::test]
async fn no_link_leads_a_write_to_where_it_must_not_go() {
    run_each(&["cp sub/a gl/hooks/p1", "cp -tgl/hooks sub/a"], &["--allowedTools", "Bash(cp:*)"], true).await;
    let bare = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"];
    run_each(&["echo x > outlink/q", "cd gl && cp ../sub/a hooks/p1"], &bare, true).await;
    run_each(&["echo x > q"], &bare, false).await;
    let closed = ["--permission-mode", "bypassPermissions", "--disallowedTools", "Read(secret/**)"];
    run_each(&["cat lk > f", "grep -r TOP .", "cp -r . /tmp/never-made"], &closed, true).await;
}

#[tokio::test]
async fn a_change_of_directory_opens_no_closed_file() {
    let world = world_with_links();
    let path = world.path("p/.env");
    let model =
        serve_one_by_one([bash_call("cd sub"), ("Read", json!({"file_path": path})), bash_call("cat ../.env")]).await;
    let flags = ["-p", "--output-format", "stream-json", "--verbose", "--disallowedTools", "Read(.env)", "--", "go"];
    let run = world.run(&model).args(flags).cwd(world.path("p")).finish().await;
    run.expect_code(0);
    tool_success(&model, 1);
    for index in [2, 3] {
        let refusal = tool_error(&model, index);
        assert!(refusal.contains("Read(.env)"), "{refusal}");
    }
}
