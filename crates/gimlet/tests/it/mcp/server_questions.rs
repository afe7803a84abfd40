//! Questions of servers: hooks answer in the user's place, and change what the user said.

use gimlet_script::Script;
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use super::{config, stub_entry, stub_world};

/// Lets the stub ask its question with these hooks of the user; returns what the stub was told.
async fn answer_with_hooks(world: &TestWorld, hooks: Value) -> String {
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    std::fs::write(world.home.join(".claude/settings.json"), json!({ "hooks": hooks }).to_string()).unwrap();
    let model = Script::new().call("mcp__stub__ask", json!({})).then().say("done").serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(world, "good", "note")}));
    world.run(&model).args(["--mcp-config", &servers]).stream("go").finish().await.expect_code(0);
    model.request(1).tool_results()[0].clone()
}

/// Returns what a hook was told.
fn hook_input(world: &TestWorld, event: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(world.home.join(format!("{event}.json"))).unwrap()).unwrap()
}

fn hook(matcher: &str, command: &str) -> Value {
    json!([{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}])
}

fn saying(event: &str, answer: &Value) -> String {
    let mut specific = answer.clone();
    specific["hookEventName"] = json!(event);
    format!("cat > $HOME/{event}.json; echo '{}'", json!({ "hookSpecificOutput": specific }))
}

#[tokio::test]
async fn hooks_answer_a_question_where_nobody_else_can() {
    let world = stub_world();
    let accept = saying("Elicitation", &json!({"action": "accept", "content": {"day": "friday"}}));
    let look = "cat > $HOME/ElicitationResult.json";
    let hooks = json!({"Elicitation": hook("stub", &accept), "ElicitationResult": hook("", look)});
    let told = answer_with_hooks(&world, hooks).await;
    assert!(told.contains("accept") && told.contains("'day': 'friday'") && told.contains("'guests': 2"), "{told}");
    let asked = hook_input(&world, "Elicitation");
    assert_eq!(
        (&asked["mcp_server_name"], &asked["message"], &asked["mode"]),
        (&json!("stub"), &json!("Which?"), &json!("form"))
    );
    assert_eq!(asked["requested_schema"]["properties"]["day"]["type"], "string");
    let answered = hook_input(&world, "ElicitationResult");
    assert_eq!((&answered["action"], &answered["content"]), (&json!("accept"), &json!({"day": "friday"})));
}

#[tokio::test]
async fn a_hook_has_the_last_word_on_an_answer() {
    let world = stub_world();
    let accept = saying("Elicitation", &json!({"action": "accept", "content": {"day": "friday"}}));
    for (matcher, last, expected) in [
        (
            "stub",
            saying("ElicitationResult", &json!({"action": "accept", "content": {"day": "monday"}})),
            "'day': 'monday'",
        ),
        ("stub", "echo no >&2; exit 2".to_owned(), "decline None"),
        ("other", "exit 2".to_owned(), "'day': 'friday'"),
    ] {
        let hooks = json!({"Elicitation": hook("stub", &accept), "ElicitationResult": hook(matcher, &last)});
        let told = answer_with_hooks(&world, hooks).await;
        assert!(told.contains(expected), "{told}");
    }
    let told = answer_with_hooks(&world, json!({"Elicitation": hook("", "exit 2")})).await;
    assert!(told.contains("decline None"), "{told}");
}
