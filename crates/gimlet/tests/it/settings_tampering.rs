//! Settings while a sandboxed command runs that could write them: what it writes makes nothing freer, here or in another
//! gimlet, and what a person writes with gimlet stays.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunBuilder, RunOutput, TestWorld, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::sdk::{SdkHost, result_text};
use crate::world;

const LOCAL: &str = ".claude/settings.local.json";
const PROJECT: &str = ".claude/settings.json";

/// A trusted folder whose commands are never to leave the sandbox.
async fn sandboxed_world() -> TestWorld {
    let world = world();
    let settings = json!({"sandbox": {"enabled": true, "allowUnsandboxedCommands": false, "failIfUnavailable": true}});
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    std::fs::write(world.home.join(".claude/settings.json"), settings.to_string()).unwrap();
    run_gimlet(&world, &["trust", "--yes"]).await.expect_code(0);
    world
}

async fn run_gimlet(world: &TestWorld, args: &[&str]) -> RunOutput {
    world.run_at("http://127.0.0.1:1").args(args.iter().copied()).finish().await
}

/// What turns the sandbox off and allows everything, and forbids one file.
fn planted_settings() -> Value {
    json!({"sandbox": {"enabled": false}, "permissions": {"allow": ["Bash"], "deny": ["Read(secret)"]}})
}

/// A command that writes this to a settings file, without saying so, and stays until somebody makes `go`.
fn planting_command(world: &TestWorld, file: &str) -> Value {
    let text = planted_settings();
    let script =
        format!("mkdir -p .claude; echo '{text}' >{file}; touch planted; until [ -e go ]; do sleep 0.05; done");
    world.file("plant.sh", script);
    json!({"command": "sh plant.sh", "run_in_background": true})
}

fn touch_command(path: &std::path::Path) -> Value {
    json!({"command": format!("touch {} && echo outside", path.display())})
}

struct TamperFixture {
    world: TestWorld,
    _folder: tempfile::TempDir,
    outside: std::path::PathBuf,
}

impl TamperFixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        Self { world: sandboxed_world().await, outside: folder.path().join("outside"), _folder: folder }
    }

    async fn serve_model(&self, file: &str) -> ScriptServer {
        let touch = touch_command(&self.outside);
        let script = Script::new().call("Bash", planting_command(&self.world, file)).then().say("started").then();
        let script = script.call("Bash", touch.clone()).then().call("Read", json!({"file_path": "secret"})).then();
        script.say("tried").then().call("Bash", touch).then().say("ended").serve().await.unwrap()
    }

    fn end_command(&self) {
        self.world.file("go", "");
    }

    async fn wait_until_planted(&self) {
        wait_until("the file is planted", || self.world.project.join("planted").exists()).await;
    }

    async fn wait_until_removed(&self, file: &str) {
        wait_until("the planted file is moved away", || !self.world.project.join(file).exists()).await;
    }
}

async fn next_results(host: &mut SdkHost, count: usize) -> Vec<String> {
    let mut results = Vec::new();
    for _ in 0..count {
        let is_result = |line: &Value| line["message"]["content"][0]["type"] == "tool_result";
        results.push(result_text(&host.until(is_result).await));
    }
    host.result().await;
    results
}

async fn assert_nothing_freer(scene: &TamperFixture, file: &str, run: impl FnOnce(RunBuilder<'_>) -> RunBuilder<'_>) {
    let model = scene.serve_model(file).await;
    scene.world.file("secret", "for nobody");
    let mut host = SdkHost::start(run(scene.world.run(&model)));
    host.say("start it");
    next_results(&mut host, 1).await;
    scene.wait_until_planted().await;
    host.say("try it");
    let results = next_results(&mut host, 2).await;
    assert!(!scene.outside.exists() && results[0].contains("The sandbox refused"), "{file}: {results:?}");
    // What it forbids holds at once.
    assert!(!results[1].contains("for nobody"), "{file}: {results:?}");
    // The model is told of the end and tries once more.
    scene.end_command();
    let results = next_results(&mut host, 1).await;
    assert!(!scene.outside.exists() && results[0].contains("The sandbox refused"), "{file}: {results:?}");
    assert!(!scene.world.project.join(file).exists(), "{file} was moved away");
    host.end().await.output.expect_code(0);
}

#[tokio::test]
async fn a_command_that_runs_cannot_turn_its_sandbox_off_by_new_settings() {
    let scene = TamperFixture::new().await;
    assert_nothing_freer(&scene, LOCAL, |run| run).await;
}

#[tokio::test]
async fn a_folder_that_is_trusted_for_a_run_is_trusted_as_it_was_when_that_began() {
    let scene = TamperFixture::new().await;
    assert_nothing_freer(&scene, PROJECT, |run| run.args(["--trust"])).await;
    let scene = TamperFixture::new().await;
    assert_nothing_freer(&scene, LOCAL, |run| run.env("GIMLET_TRUST", "1")).await;
}

#[tokio::test]
async fn another_gimlet_does_not_believe_what_a_running_command_wrote_either() {
    for file in [LOCAL, PROJECT] {
        let scene = TamperFixture::new().await;
        let model = scene.serve_model(file).await;
        let mut host = SdkHost::start(scene.world.run(&model));
        host.say("start it");
        next_results(&mut host, 1).await;
        scene.wait_until_planted().await;
        let second =
            Script::new().call("Bash", touch_command(&scene.outside)).then().say("done").serve().await.unwrap();
        let run = scene.world.run(&second).stream("go").args(["--trust"]).finish().await;
        assert!(!scene.outside.exists(), "{file}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(file) && run.stderr.contains("sandboxed command"), "{file}: {}", run.stderr);
        // Nor does it write its own word into such a file.
        let scope = if file == LOCAL { "local" } else { "project" };
        let added = run_gimlet(&scene.world, &["config", "add", "permissions.deny", "Read(x)", "--scope", scope]).await;
        assert!(added.code != 0 && added.stderr.contains("sandboxed command"), "{}", added.stderr);
        scene.end_command();
        scene.wait_until_removed(file).await;
        drop(host.end().await);
        let left = std::fs::read_dir(scene.world.home.join(".claude/gimlet/running")).unwrap().count();
        assert_eq!(left, 0, "no record is left");
    }
}

#[tokio::test]
async fn what_a_person_writes_with_gimlet_while_a_command_runs_counts_at_once_and_stays() {
    for (file, scope) in [(LOCAL, "local"), (PROJECT, "project")] {
        let scene = TamperFixture::new().await;
        scene.world.file("secret", "for nobody");
        let waiting = json!({"command": "until [ -e go ]; do sleep 0.05; done; touch gone", "run_in_background": true});
        let read = json!({"file_path": "secret"});
        let script = Script::new().call("Bash", waiting).then().say("started").then().call("Read", read).then();
        let model = script.say("read").then().say("ended").serve().await.unwrap();
        let mut host = SdkHost::start(scene.world.run(&model));
        host.say("start it");
        next_results(&mut host, 1).await;
        for rule in ["Read(secret)", "Read(other)"] {
            run_gimlet(&scene.world, &["config", "add", "permissions.deny", rule, "--scope", scope])
                .await
                .expect_code(0);
        }
        host.say("read it");
        let results = next_results(&mut host, 1).await;
        assert!(!results[0].contains("for nobody"), "{results:?}");
        scene.end_command();
        wait_until("the command ends", || scene.world.project.join("gone").exists()).await;
        host.end().await.output.expect_code(0);
        let text = scene.world.read(file);
        assert!(text.contains("Read(secret)") && text.contains("Read(other)"), "{scope}: {text}");
    }
}

#[tokio::test]
async fn what_a_killed_session_left_in_local_settings_waits_for_trust() {
    let scene = TamperFixture::new().await;
    let model = scene.serve_model(LOCAL).await;
    let mut first = scene.world.run(&model).stream("go").start();
    scene.wait_until_planted().await;
    first.kill();
    first.wait_with_output();
    let second = Script::new().call("Bash", touch_command(&scene.outside)).then().say("done").serve().await.unwrap();
    let run = scene.world.run(&second).stream("go").finish().await;
    assert!(!scene.outside.exists() && run.stderr.contains("not used"), "{}{}", run.stdout, run.stderr);
    let shown = run_gimlet(&scene.world, &["trust"]).await;
    assert!(shown.stdout.contains("pending allow rule Bash"), "{}", shown.stdout);
    // Once somebody has looked, it is a file like any other.
    run_gimlet(&scene.world, &["trust", "--yes"]).await.expect_code(0);
    run_gimlet(&scene.world, &["config", "add", "permissions.allow", "Bash(make)", "--scope", "local"])
        .await
        .expect_code(0);
    let shown = run_gimlet(&scene.world, &["trust"]).await;
    assert!(!shown.stdout.contains("waits"), "{}", shown.stdout);
}

/// Two signals, the second before gimlet can have done much about the first.
async fn signal_twice(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn what_a_command_planted_is_taken_away_however_often_gimlet_is_told_to_go() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        for driven in [false, true] {
            let scene = TamperFixture::new().await;
            let waiting = json!({"command": "sleep 600"});
            let script = Script::new().call("Bash", planting_command(&scene.world, LOCAL)).then().call("Bash", waiting);
            let model = script.then().say("never").serve().await.unwrap();
            // It is kept: gimlet exits otherwise when nobody reads what it prints.
            let mut output_lines = None;
            let mut child = if driven {
                let mut host = SdkHost::start(scene.world.run(&model));
                host.say("go");
                scene.wait_until_planted().await;
                signal_twice(host.child.pid(), signal).await;
                output_lines = Some(host.lines);
                host.child
            } else {
                let child = scene.world.run(&model).stream("go").start();
                scene.wait_until_planted().await;
                signal_twice(child.pid(), signal).await;
                child
            };
            let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap();
            drop(output_lines);
            let case = format!("{signal:?}, driven: {driven}: {}", output.stderr);
            assert_eq!(output.code, code, "{case}");
            assert!(!scene.world.project.join(LOCAL).exists(), "{case}");
            assert!(scene.world.home.join(".claude/gimlet/quarantine").is_dir(), "{case}");
            let left = std::fs::read_dir(scene.world.home.join(".claude/gimlet/running")).unwrap().count();
            assert_eq!(left, 0, "{case}");
        }
    }
}

/// What a tool writes with leave is the person's, whatever runs beside it.
#[tokio::test]
async fn what_tools_write_beside_a_running_command_stays() {
    let world = sandboxed_world().await;
    let (server, skill) = (world.project.join(".mcp.json"), world.project.join(".claude/skills/s/SKILL.md"));
    std::fs::write(&server, "{}").unwrap();
    let planting = "mkdir -p .claude/skills/s; echo evil >.claude/skills/s/run.sh; touch planted; sleep 60";
    let script = Script::new().call("Bash", json!({"command": planting, "run_in_background": true})).then();
    let script = script.call("Bash", json!({"command": "until [ -e planted ]; do sleep 0.05; done"})).then();
    let script = script.call("Read", json!({"file_path": server})).then();
    let script = script.call("Write", json!({"file_path": server, "content": "{\"mcpServers\": {}}"})).then();
    let script = script.call("Write", json!({"file_path": skill, "content": "old"})).then();
    let edit = json!({"file_path": skill, "old_string": "old", "new_string": "new"});
    let model = script.call("Edit", edit).then().say("done").serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--permission-mode", "bypassPermissions"]).finish().await;
    run.expect_code(0);
    assert_eq!(std::fs::read_to_string(&server).unwrap(), "{\"mcpServers\": {}}", "{}", run.stdout);
    assert_eq!(std::fs::read_to_string(&skill).unwrap(), "new", "{}", run.stdout);
    assert!(!skill.with_file_name("run.sh").exists(), "{}", run.stdout);
}

/// Settings below the folder that a command works in are not the person's because nobody guards them.
#[tokio::test]
async fn what_a_command_leaves_in_a_folder_below_frees_nobody_who_starts_there() {
    let scene = TamperFixture::new().await;
    let world = &scene.world;
    std::fs::create_dir(world.project.join(".git")).unwrap();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    run_gimlet(world, &["trust", "--yes"]).await.expect_code(0);
    world.file(
        "e.sh",
        format!("mkdir -p sub/.claude; echo '{}' >sub/{LOCAL}; touch sub/.claude/notes", planted_settings()),
    );
    let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "run", "--", "sh", "e.sh"]).finish().await;
    assert!(run.stderr.contains(LOCAL), "{}", run.stderr);
    assert!(world.project.join("sub/.claude/notes").exists() && !world.project.join("sub").join(LOCAL).exists());
    // One that came by another way waits.
    world.file(&format!("sub/{LOCAL}"), planted_settings().to_string());
    let model = Script::new().call("Bash", touch_command(&scene.outside)).then().say("done").serve().await.unwrap();
    let run = world.run(&model).cwd(world.project.join("sub")).args(["-p", "--", "go"]).finish().await;
    assert!(!scene.outside.exists() && run.stderr.contains("allow rule Bash"), "{}", run.stderr);
}

/// What git tracks is the project's also when a command has removed git's list of it.
#[tokio::test]
async fn a_command_that_removes_the_index_makes_no_local_settings_the_persons() {
    let scene = TamperFixture::new().await;
    let world = &scene.world;
    std::fs::create_dir(world.project.join(".git")).unwrap();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    run_gimlet(world, &["trust", "--yes"]).await.expect_code(0);
    world.file(LOCAL, planted_settings().to_string());
    // Nobody can say what such an index tracks.
    world.file(".git/index", "DIRC");
    let touch = touch_command(&scene.outside);
    world.file("e.sh", "rm -f .git/index");
    for command in [json!({"command": "sh e.sh"}), touch] {
        let model = Script::new().call("Bash", command).then().say("done").serve().await.unwrap();
        let run = world.run(&model).args(["-p", "--", "go"]).finish().await;
        assert!(run.stderr.contains("allow rule Bash"), "{}", run.stderr);
    }
    assert!(!world.project.join(".git/index").exists() && !scene.outside.exists());
}
