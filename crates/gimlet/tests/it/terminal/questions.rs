//! Questions whose answer lasts, plans, and questions of the model.

use serde_json::json;

use super::*;

#[tokio::test]
async fn an_answer_that_is_remembered_holds_for_the_next_call() {
    let world = world();
    let script = Script::new()
        .call("Bash", json!({"command": "touch first"}))
        .then()
        .call("Bash", json!({"command": "touch first && echo again"}))
        .then()
        .say("Touched twice.");
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("make them").await;
    terminal.wait_for("❯ 1").await;
    assert!(terminal.screen().contains(".claude/settings.local.json"), "{}", terminal.screen());
    terminal.press(&["Down"]);
    terminal.wait_for("❯ 2").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("Touched twice.").await;
    assert!(model.request(2).tool_result(0).contains("again"), "{}", model.request(2).tool_result(0));
    let saved: serde_json::Value = serde_json::from_str(&world.read(".claude/settings.local.json")).unwrap();
    assert_eq!(saved["permissions"]["allow"], json!(["Bash(touch first)"]));
}

#[tokio::test]
async fn a_plan_is_sent_back_with_words_and_then_approved() {
    let world = world();
    let plan = |step: &str| json!({"plan": format!("# The plan\n\n1. {step}\n")});
    let script = Script::new()
        .call("ExitPlanMode", plan("Guess"))
        .then()
        .call("ExitPlanMode", plan("Measure"))
        .then()
        .call("Write", json!({"file_path": world.path("done"), "content": "yes\n"}))
        .then()
        .say("The plan is carried out.");
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("/plan speed it up").await;
    terminal.wait_for("1. Guess").await;
    terminal.wait_for("❯ 1").await;
    terminal.press(&["Up"]);
    terminal.wait_for("❯ 3").await;
    terminal.type_text("measure first");
    terminal.wait_for("measure first").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("1. Measure").await;
    terminal.wait_for("❯ 1").await;
    assert!(model.request(1).tool_result(0).contains("measure first"), "{}", model.request(1).tool_result(0));
    terminal.press(&["Enter"]);
    terminal.wait_for("The plan is carried out.").await;
    assert_eq!(world.read("done"), "yes\n", "edits are accepted without a question");
    terminal.wait_for(READY).await;
    assert!(terminal.screen().contains("edits allowed"), "{}", terminal.screen());
}

#[tokio::test]
async fn questions_of_the_model_are_answered_in_their_tabs() {
    let world = world();
    let questions = json!({"questions": [
        {"question": "Which store?", "header": "Store", "multiSelect": false, "options": [
            {"label": "SQLite", "description": "A file"}, {"label": "Postgres", "description": "A server"}]},
        {"question": "Which parts?", "header": "Parts", "multiSelect": true, "options": [
            {"label": "Reader", "description": "Reads"}, {"label": "Writer", "description": "Writes"}]}]});
    let model = serve(Script::new().call("AskUserQuestion", questions).then().say("So be it.")).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("build it").await;
    terminal.wait_for("❯ 1  SQLite").await;
    terminal.press(&["Down"]);
    terminal.wait_for("❯ 2  Postgres").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("Which parts?").await;
    terminal.press(&["Down", "Space"]);
    terminal.wait_for("❯ 2  [✓] Writer").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("Submit answers").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("So be it.").await;
    let answers = model.request(1).tool_result(0);
    assert!(
        answers.contains("Which store?") && answers.contains("Postgres") && answers.contains("Writer"),
        "{answers}"
    );
}
