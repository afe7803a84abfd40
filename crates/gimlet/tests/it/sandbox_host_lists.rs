//! The sandbox of a session where lists of hosts are wrong, where a project wants it, and what its commands inherit.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use crate::world;

async fn serve_command(text: &str) -> ScriptServer {
    Script::new().call("Bash", json!({ "command": text })).then().say("done").serve().await.unwrap()
}

fn write_settings(world: &TestWorld, own: &Value, project: &Value) {
    for (file, text) in
        [(world.home.join(".claude/settings.json"), own), (world.project.join(".claude/settings.json"), project)]
    {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text.to_string()).unwrap();
    }
}

fn first_result(model: &ScriptServer) -> String {
    model.request(1).tool_results().remove(0)
}

#[tokio::test]
async fn no_list_of_hosts_takes_the_walls_down() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let outside = folder.path().join("out");
    let hosts =
        |allowed: &[&str], denied: &[&str]| json!({"network": {"allowedDomains": allowed, "deniedDomains": denied}});
    let cases = [
        (hosts(&["example.com"], &[]), hosts(&[], &["http://x:80/y"]), "a host stands alone, as in 'x'"),
        (hosts(&["example.com"], &[]), hosts(&[], &["http://"]), "'http://', which is to be kept out, is no host"),
        (hosts(&["example.com"], &[]), hosts(&[], &["no host"]), "'no host', which is to be kept out, is no host"),
        (hosts(&["https://foo.org/"], &[]), json!({}), "as in 'foo.org'; it is skipped"),
        (hosts(&["foo bar"], &[]), json!({}), "lets nobody through for 'foo bar'"),
        (hosts(&[], &["a b"]), json!({}), "'a b', which is to be kept out"),
    ];
    for (mut own, project, told) in cases {
        let world = world();
        own["enabled"] = json!(true);
        let allow = json!({"allow": ["Bash(touch *)"]});
        write_settings(&world, &json!({"sandbox": own, "permissions": allow}), &json!({"sandbox": project}));
        for mode in ["default", "bypassPermissions"] {
            let model = serve_command(&format!("touch {} inside", outside.display())).await;
            let run = world.run(&model).args(["--permission-mode", mode]).print_text("go").finish().await;
            run.expect_code(0);
            assert!(
                !outside.exists() && first_result(&model).contains("The sandbox refused"),
                "{told}: {}",
                first_result(&model)
            );
            let doctor = world.run_at("http://127.0.0.1:9").arg("doctor").finish().await;
            assert!(
                run.stderr.contains(told) || doctor.stdout.contains(told),
                "{told}: {} {}",
                run.stderr,
                doctor.stdout
            );
        }
    }
}

#[tokio::test]
async fn an_address_is_not_taken_for_a_host_when_it_is_written_down() {
    let world = world();
    for (list, host) in [("allowedDomains", "https://foo.org"), ("deniedDomains", "foo.org/x")] {
        let key = format!("sandbox.network.{list}");
        let run = world.run_at("http://127.0.0.1:9").args(["config", "add", &key, host]).finish().await;
        run.expect_code(1);
        assert!(run.stderr.contains("a host stands alone, as in 'foo.org'"), "{}", run.stderr);
    }
}

#[tokio::test]
async fn a_sandbox_that_a_project_wants_answers_once_the_folder_is_trusted() {
    let world = world();
    write_settings(&world, &json!({}), &json!({"sandbox": {"enabled": true}}));
    for (trusted, made) in [(false, false), (true, true)] {
        if trusted {
            world.run_at("http://127.0.0.1:9").args(["trust", "--yes"]).finish().await.expect_code(0);
        }
        let model = serve_command("touch made").await;
        world.run(&model).print_text("go").finish().await.expect_code(0);
        assert_eq!(world.project.join("made").exists(), made, "trusted: {trusted}: {}", first_result(&model));
    }
}

#[tokio::test]
async fn a_sandbox_that_comes_after_the_trust_answers_nothing_until_it_is_accepted() {
    let world = world();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    write_settings(&world, &json!({}), &json!({"permissions": {"allow": ["Bash(make *)"]}}));
    let trust = async || {
        world.run_at("http://127.0.0.1:9").args(["trust", "--yes"]).finish().await.expect_code(0);
    };
    trust().await;
    for (sandbox, accepted, runs) in [
        (json!({"enabled": true}), false, false),
        (json!({"enabled": true}), true, true),
        (json!({"enabled": true, "autoAllowBashIfSandboxed": false}), false, false),
    ] {
        write_settings(&world, &json!({}), &json!({"permissions": {"allow": ["Bash(make *)"]}, "sandbox": sandbox}));
        if accepted {
            trust().await;
        }
        let model = serve_command("touch made").await;
        let run = world.run(&model).print_text("go").finish().await;
        let said = run.stderr.contains("not used: setting sandbox.enabled in place of questions");
        let waits = !accepted && sandbox["autoAllowBashIfSandboxed"].is_null();
        assert_eq!((world.project.join("made").exists(), said), (runs, waits), "{sandbox}: {}", run.stderr);
        drop(std::fs::remove_file(world.project.join("made")));
    }
}

#[tokio::test]
async fn whoever_writes_into_a_closed_pipe_ends() {
    let world = world();
    write_settings(&world, &json!({"sandbox": {"enabled": true}}), &json!({}));
    let model = serve_command("yes | head -1; echo ${PIPESTATUS[@]}").await;
    world.run(&model).print_text("go").finish().await.expect_code(0);
    assert!(first_result(&model).ends_with("141 0"), "{}", first_result(&model));
}
