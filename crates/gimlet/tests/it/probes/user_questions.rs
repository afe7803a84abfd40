//! Questions to a person and plans, where nobody is there.

use gimlet_script::Script;
use serde_json::{Value, json};

use crate::world;

fn question_input() -> Value {
    json!({"questions": [{"question": "Which store?", "header": "Store", "multiSelect": false, "options": [
        {"label": "SQLite", "description": "single file"}, {"label": "Postgres", "description": "server"}]}]})
}

#[tokio::test]
async fn probe_24_without_anyone_a_question_is_refused_with_advice_or_unanswered_in_bypass_mode() {
    for (mode, is_error, part) in [
        ("default", true, "say in your answer what you assumed"),
        ("dontAsk", true, "dontAsk"),
        ("bypassPermissions", false, "Nobody answered"),
    ] {
        let world = world();
        let script = Script::new().call("AskUserQuestion", question_input()).then().say("Assumed SQLite.");
        let model = script.serve().await.unwrap();
        let run = world.run(&model).args(["--permission-mode", mode]).print_text("go").finish().await;
        run.expect_code(0);
        let told = model.request(1).tool_result(0);
        assert!(told.contains(part), "in {mode}: {told}");
        let messages = model.request(1).messages();
        let result = &messages[messages.len() - 1]["content"][0];
        assert_eq!(result["is_error"].as_bool().unwrap_or(false), is_error, "in {mode}: {result}");
        let offered = model.request(0).tool_names();
        assert!(!offered.contains(&"AskUserQuestion".to_owned()), "it is of no use where nobody answers");
    }
}

#[tokio::test]
async fn in_plan_mode_the_plan_can_be_written_and_nothing_else() {
    let world = world();
    let id = "123e4567-e89b-42d3-a456-426614174000";
    let plan = world.home.join(".claude/plans").join(format!("{id}.md"));
    let script = Script::new()
        .call("Write", json!({"file_path": plan, "content": "1. do it\n"}))
        .call("Write", json!({"file_path": world.path("a.txt"), "content": "x"}))
        .call("ExitPlanMode", json!({}))
        .call("EnterPlanMode", json!({}))
        .then()
        .say("The plan.");
    let model = script.serve().await.unwrap();
    let run = world.run(&model).args(["--permission-mode", "plan", "--session-id", id]).print_text("go").finish().await;
    run.expect_code(0);
    assert_eq!(std::fs::read_to_string(&plan).unwrap(), "1. do it\n");
    assert!(!world.project.join("a.txt").exists());
    let told = model.request(1).tool_results();
    assert!(told[1].contains("plan") && told[2].contains("Nobody can be asked"), "{told:?}");
    assert!(told[3].contains("on already"), "{told:?}");
    assert!(model.request(0).body_text().contains("give the plan as your answer"));
    assert!(!model.request(0).tool_names().iter().any(|name| name.contains("PlanMode")));
}
