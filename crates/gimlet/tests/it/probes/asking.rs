//! Questions to a person and plans, where nobody is there.

use gimlet_script::Script;
use serde_json::{Value, json};

use crate::world;

fn question() -> Value {
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
        let script = Script::new().call("AskUserQuestion", question()).then().say("Assumed SQLite.");
        let model = script.serve().await.unwrap();
        let run = world.run(&model).args(["--permission-mode", mode]).print("go").finish().await;
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
