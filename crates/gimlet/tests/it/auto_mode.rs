//! Auto mode: a reviewer answers in a person's place, sees only what it may see, and leaves the rest to a person.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::world;

fn bash_step(command: &str) -> Value {
    json!({"reply": {"blocks": [{"tool": "Bash", "input": {"command": command}}]}})
}

/// A review that the reviewer answers with this.
fn review_step(answer: Value) -> Value {
    json!({"when": {"tools_include": ["verdict"]}, "reply": {"blocks": [{"tool": "verdict", "input": answer}]}})
}

async fn serve_steps(steps: &[Value]) -> ScriptServer {
    let mut steps = steps.to_vec();
    steps.push(json!({"reply": {"blocks": [{"text": "done"}]}}));
    Script::from_json(&json!({ "steps": steps }).to_string()).unwrap().serve().await.unwrap()
}

fn review_requests(model: &ScriptServer) -> Vec<gimlet_script::ReceivedRequest> {
    model.requests().into_iter().filter(|request| request.tool_names() == ["verdict"]).collect()
}

fn denials(run: &RunOutput) -> Vec<Value> {
    run.result()["permission_denials"].as_array().cloned().unwrap_or_default()
}

async fn run_in_auto_mode(world: &TestWorld, model: &ScriptServer, prompt: &str, flags: &[&str]) -> RunOutput {
    let mode = ["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "auto"];
    let run = world.run(model).args(mode).args(flags.iter().copied()).args(["--", prompt]);
    let run = run.finish().await;
    run.expect_code(0);
    run
}

#[tokio::test]
async fn what_the_reviewer_allows_runs_and_is_charged_to_the_session() {
    let world = world();
    world.file("secret.txt", "never shown to the reviewer");
    let model = serve_steps(&[
        bash_step("cat secret.txt"),
        bash_step("install /dev/null made"),
        review_step(json!({"allow": true, "reason": "part of the task"})),
        bash_step("install /dev/null twice"),
        review_step(json!({"allow": true, "reason": "part of the task"})),
    ])
    .await;
    let run = run_in_auto_mode(&world, &model, "make some files", &[]).await;
    assert!(model.failures().is_empty(), "{:?}", model.failures());
    assert!(world.project.join("made").exists() && world.project.join("twice").exists());
    let reviews = review_requests(&model);
    assert_eq!(reviews.len(), 2);
    let seen = reviews[1].last_user_text();
    assert!(
        seen.contains("person: make some files")
            && seen.contains("agent: Bash {\"command\":\"install /dev/null made\""),
        "{seen}"
    );
    assert!(!seen.contains("never shown"), "tool results must not reach the reviewer: {seen}");
    assert_eq!(run.result()["modelUsage"].as_object().unwrap().len(), 2, "{}", run.result());
    assert_eq!(run.result()["num_turns"], 4);
    // Its tokens are the session's, and none of the turn's.
    let told = |usage: &Value, name: &str| usage[name].as_u64().unwrap();
    let of_turn = told(&run.result()["usage"], "output_tokens");
    let by_model: Vec<u64> =
        run.result()["modelUsage"].as_object().unwrap().values().map(|usage| told(usage, "outputTokens")).collect();
    assert!(by_model.contains(&of_turn) && by_model.iter().all(|tokens| *tokens > 0), "{}", run.result());
}

#[tokio::test]
async fn what_the_reviewer_refuses_does_not_run_and_the_ledger_says_who_refused() {
    let world = world();
    let model = serve_steps(&[
        bash_step("install /dev/null published"),
        review_step(json!({"allow": false, "reason": "nobody asked for that"})),
    ])
    .await;
    let run = run_in_auto_mode(&world, &model, "look around", &[]).await;
    assert!(!world.project.join("published").exists());
    assert_eq!(denials(&run).len(), 1);
    let told = model.requests().last().unwrap().tool_result(0);
    assert!(told.contains("nobody asked for that"), "{told}");
    let why = world.run(&model).args(["why"]).finish().await;
    let listed = why.stdout.clone();
    assert!(listed.contains("refused") && listed.contains("the classifier"), "{listed}");
}

#[tokio::test]
async fn without_an_answer_of_the_reviewer_a_person_must_decide_and_nobody_is_there() {
    let world = world();
    let model = serve_steps(&[
        bash_step("install /dev/null a"),
        json!({"when": {"tools_include": ["verdict"]}, "reply": {"blocks": [{"text": "I would rather talk."}]}}),
    ])
    .await;
    let run = run_in_auto_mode(&world, &model, "go", &[]).await;
    assert!(!world.project.join("a").exists());
    assert_eq!(denials(&run).len(), 1);
}

#[tokio::test]
async fn after_three_refusals_in_a_row_the_reviewer_is_not_asked_again() {
    let world = world();
    let no = || review_step(json!({"allow": false, "reason": "no"}));
    let model = serve_steps(&[
        bash_step("install /dev/null a"),
        no(),
        bash_step("install /dev/null b"),
        no(),
        bash_step("install /dev/null c"),
        no(),
        bash_step("install /dev/null d"),
    ])
    .await;
    let run = run_in_auto_mode(&world, &model, "go", &[]).await;
    assert_eq!(review_requests(&model).len(), 3);
    assert_eq!(denials(&run).len(), 4);
}

#[tokio::test]
async fn what_an_agent_is_told_to_do_is_reviewed_before_it_begins() {
    let world = world();
    let task = "copy the keys to the other machine";
    let spawn = json!({"reply": {"blocks": [{"tool": "Agent", "input":
        {"description": "Copy", "prompt": task, "subagent_type": "general-purpose"}}]}});
    let model = serve_steps(&[spawn, review_step(json!({"allow": false, "reason": "nobody asked for that"}))]).await;
    let run = run_in_auto_mode(&world, &model, "look around", &["--allowedTools", "Agent"]).await;
    assert!(model.failures().is_empty(), "{:?}", model.failures());
    let seen = review_requests(&model)[0].last_user_text();
    assert!(seen.contains(task), "{seen}");
    assert_eq!(denials(&run)[0]["tool_name"], "Agent");
    assert_eq!(model.requests().len(), 3, "no agent began");
}

#[tokio::test]
async fn rules_come_before_the_reviewer() {
    let world = world();
    let model = serve_steps(&[bash_step("install /dev/null denied"), bash_step("install /dev/null asked")]).await;
    run_in_auto_mode(
        &world,
        &model,
        "go",
        &["--disallowedTools", "Bash(install /dev/null denied)", "--allowedTools", "Bash(install /dev/null asked)"],
    )
    .await;
    assert!(!world.project.join("denied").exists() && world.project.join("asked").exists());
    assert_eq!(review_requests(&model).len(), 0);
}

#[tokio::test]
async fn settings_can_have_every_command_reviewed_and_a_resumed_session_is_still_in_auto_mode() {
    let world = world();
    let settings = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let text = json!({"autoMode": {"classifyAllShell": true}, "permissions": {"allow": ["Bash(install *)"]}});
    std::fs::write(settings, text.to_string()).unwrap();
    let no = || review_step(json!({"allow": false, "reason": "no"}));
    let first = serve_steps(&[bash_step("install /dev/null a"), no()]).await;
    run_in_auto_mode(&world, &first, "go", &[]).await;
    assert_eq!(review_requests(&first).len(), 1, "the rule does not spare it");

    let second = serve_steps(&[bash_step("install /dev/null b"), no()]).await;
    let args = ["-p", "--continue", "--output-format", "stream-json", "--verbose", "--", "go on"];
    world.run(&second).args(args).finish().await.expect_code(0);
    assert_eq!(review_requests(&second).len(), 1, "the session was in auto mode when it ended");
    assert!(!world.project.join("a").exists() && !world.project.join("b").exists());
}
