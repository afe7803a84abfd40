//! Hooks that ask a model: what it is asked, what follows from its verdict, and what they cost.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use gimlet_script::Script;
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use crate::world;

fn write_hook(world: &TestWorld, event: &str, hook: &Value) {
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    let settings = json!({"hooks": {event: [{"hooks": [hook]}]}});
    std::fs::write(world.home.join(".claude/settings.json"), settings.to_string()).unwrap();
}

#[tokio::test]
async fn a_prompt_hook_refuses_a_call_and_ends_the_turn_unless_it_may_go_on() {
    for goes_on in [false, true] {
        let world = world();
        world.file("kept", "");
        let hook = json!({"type": "prompt", "prompt": "Refuse removals. $ARGUMENTS", "continueOnBlock": goes_on});
        write_hook(&world, "PreToolUse", &hook);
        let script = Script::new()
            .call("Bash", json!({"command": "rm kept"}))
            .then()
            .call("verdict", json!({"ok": false, "reason": "no removals here"}))
            .then()
            .say("done");
        let model = script.serve().await.unwrap();
        world.run(&model).args(["-p", "--dangerously-skip-permissions", "--", "go"]).finish().await.expect_code(0);
        assert!(world.project.join("kept").exists());
        let asked = model.request(1);
        let body = asked.body_text();
        assert!(body.contains("Refuse removals. {") && body.contains("rm kept"), "{body}");
        assert!(body.contains("haiku"), "it is asked of a small model: {body}");
        assert_eq!(model.requests().len(), if goes_on { 3 } else { 2 });
        if goes_on {
            assert!(model.request(2).tool_results()[0].contains("no removals here"));
        }
    }
}

#[tokio::test]
async fn a_prompt_hook_keeps_the_agent_working_until_it_agrees() {
    let world = world();
    write_hook(&world, "Stop", &json!({"type": "prompt", "prompt": "Were the tests run?", "model": "sonnet"}));
    let script = Script::new()
        .say("finished")
        .then()
        .call("verdict", json!({"ok": false, "reason": "run the tests first"}))
        .then()
        .say("tests are green")
        .then()
        .call("verdict", json!({"ok": true}));
    let model = script.serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--output-format", "json", "--", "go"]).finish().await;
    let result: Value = serde_json::from_str(&run.expect_code(0).stdout).unwrap();
    assert_eq!(result["result"], "tests are green");
    assert_eq!(model.requests().len(), 4);
    assert!(model.request(1).body_text().contains("sonnet"), "the hook names its model");
    assert!(model.request(2).body_text().contains("run the tests first"));
    let used = result["modelUsage"].as_object().unwrap();
    let input: u64 = used.values().map(|usage| usage["inputTokens"].as_u64().unwrap_or(0)).sum();
    assert!(input > 0 && used.keys().any(|model| model.contains("sonnet")), "its requests are counted: {used:?}");
}

#[tokio::test]
async fn an_answer_that_is_no_verdict_holds_nothing_up() {
    let world = world();
    write_hook(&world, "Stop", &json!({"type": "prompt", "prompt": "Done?"}));
    let model = Script::new().say("finished").then().say("I would rather not say").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--", "go"]).finish().await;
    assert!(run.expect_code(0).stdout.contains("finished"));
    assert!(run.stderr.contains("gave no verdict"), "{}", run.stderr);
}

#[tokio::test]
async fn an_agent_hook_reads_files_before_it_decides() {
    let world = world();
    let notes = world.file("notes.md", "the-release-notes");
    write_hook(&world, "Stop", &json!({"type": "agent", "prompt": "Are there release notes?"}));
    let script = Script::new()
        .say("finished")
        .then()
        .call("Read", json!({"file_path": notes}))
        .then()
        .say("I looked.\n{\"ok\": false, \"reason\": \"name the version\"}")
        .then()
        .say("it is 1.0")
        .then()
        .say("{\"ok\": true}");
    let model = script.serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--", "go"]).finish().await;
    assert!(run.expect_code(0).stdout.contains("it is 1.0"), "{}", run.stdout);
    assert!(model.request(1).body_text().contains("Are there release notes?"));
    assert!(model.request(2).tool_results()[0].contains("the-release-notes"));
    assert!(!model.request(1).body_text().contains("\"name\":\"Bash\""), "it has no tool that changes something");
    assert!(model.request(3).body_text().contains("name the version"));
}

#[tokio::test]
async fn a_model_is_not_asked_where_nothing_could_follow() {
    let world = world();
    write_hook(&world, "SessionStart", &json!({"type": "prompt", "prompt": "Hello?"}));
    let model = Script::new().say("done").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--", "go"]).finish().await;
    assert!(run.expect_code(0).stderr.contains("no hook of type prompt is called at SessionStart"), "{}", run.stderr);
    assert_eq!(model.requests().len(), 1);
}
