//! Servers that fail in every way: a clear error, the session goes on, nothing is left.

use gimlet_script::Script;
use serde_json::json;

use super::{config, is_alive, noted_pids, stub_entry, stub_world};

#[tokio::test]
async fn servers_that_do_not_start_are_told_and_not_waited_for() {
    let world = stub_world();
    let servers = config(json!({
        "exits": stub_entry(&world, "exits", "n1"), "silent": stub_entry(&world, "silent", "n2"),
        "missing": {"command": "no-such-program-anywhere"}, "good": stub_entry(&world, "good", "n3"),
    }));
    let model = Script::new().call("mcp__silent__echo", json!({})).then().say("done").serve().await.unwrap();
    let run = world.run(&model).args(["--mcp-config", &servers]).env("MCP_CONNECT_TIMEOUT_MS", "3000");
    let run = run.stream("go").finish().await;
    let lines = run.expect_code(0).lines();
    let status = |name: &str| {
        let servers = lines[0]["mcp_servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap()["status"].clone()
    };
    assert_eq!((status("exits"), status("missing")), (json!("failed"), json!("failed")));
    assert_eq!((status("silent"), status("good")), (json!("pending"), json!("connected")));
    assert!(model.request(1).tool_results()[0].contains("silent"), "{}", model.request(1).tool_results()[0]);
    for note in ["n1", "n2", "n3"] {
        assert!(noted_pids(&world, note).iter().all(|pid| !is_alive(*pid)), "{note}");
    }
    let run = world.run(&model).args(["--mcp-config", &servers]).env("MCP_CONNECT_TIMEOUT_MS", "3000");
    let run = run.print_text("go").finish().await;
    assert!(run.stderr.contains("exited with 3") && run.stderr.contains("the database is not there"), "{}", run.stderr);
    assert!(run.stderr.contains("no such program"), "{}", run.stderr);
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_the_call_alone() {
    let world = stub_world();
    let script = Script::new()
        .call("mcp__stub__die", json!({}))
        .then()
        .call("mcp__stub__echo", json!({"words": "x"}))
        .then()
        .call("mcp__huge__huge", json!({}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "n1"), "huge": stub_entry(&world, "good", "n2")}));
    let run = world.run(&model).args(["--mcp-config", &servers]).stream("go").finish().await;
    run.expect_code(0);
    let died = &model.request(1).tool_results()[0];
    assert!(died.contains("is gone") && died.contains("exited with 9") && died.contains("out of memory"), "{died}");
    let again = &model.request(2).tool_results()[0];
    assert!(again.contains("gone"), "{again}");
    let huge = &model.request(3).tool_results()[0];
    assert!(huge.contains("more than 16 MB"), "{huge}");
}

#[tokio::test]
async fn noise_is_skipped_and_progress_and_questions_are_handled() {
    let world = stub_world();
    let script = Script::new()
        .call("mcp__noisy__echo", json!({"words": "heard"}))
        .call("mcp__stub__slow", json!({}))
        .call("mcp__stub__ask", json!({}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let servers = config(json!({"noisy": stub_entry(&world, "noisy", "n1"), "stub": stub_entry(&world, "good", "n2")}));
    let run = world.run(&model).args(["--mcp-config", &servers]).stream("go").finish().await;
    run.expect_code(0);
    let results = model.request(1).tool_results();
    assert_eq!(results[..2], ["echo: heard", "slow and done"]);
    assert!(results[2].contains("the user chose decline"), "nobody can answer in print mode: {}", results[2]);
}

#[tokio::test]
async fn a_long_answer_goes_to_one_file() {
    let world = stub_world();
    let model = Script::new().call("mcp__stub__big", json!({})).then().say("done").serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "n1")}));
    world.run(&model).args(["--mcp-config", &servers]).stream("go").finish().await.expect_code(0);
    let result = &model.request(1).tool_results()[0];
    assert!(result.len() < 20_000 && result.contains("tool-results"), "{result}");
}

#[tokio::test]
async fn a_server_that_ignores_every_request_to_end_is_gone_also_after_kill_9() {
    let world = stub_world();
    let servers = config(json!({"stub": stub_entry(&world, "stubborn", "n1")}));
    let model = Script::new().say("done").serve().await.unwrap();
    world.run(&model).args(["--mcp-config", &servers]).stream("go").finish().await.expect_code(0);
    let first = noted_pids(&world, "n1");
    assert!(first.len() == 1 && !is_alive(first[0]), "SIGKILL follows SIGTERM");
    let model = Script::new().call("Bash", json!({"command": "sleep 60"})).serve().await.unwrap();
    let mut child = world.run(&model).args(["--mcp-config", &servers]).stream("go").start();
    tokio::task::spawn_blocking(move || {
        child.read_until("tool_use");
        child.kill();
        child.wait_with_output();
    })
    .await
    .unwrap();
    let second = *noted_pids(&world, "n1").last().unwrap();
    assert_ne!(second, first[0]);
    wait_until(|| !is_alive(second)).await;
}

async fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it never became so");
}
