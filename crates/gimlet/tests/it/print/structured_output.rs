//! `--json-schema`: the answer comes in the form that was asked for, or the run says that it did not.

use gimlet_script::Script;
use serde_json::{Value, json};

use crate::world;

const SCHEMA: &str =
    r#"{"type":"object","properties":{"files":{"type":"array","items":{"type":"string"}}},"required":["files"]}"#;

#[tokio::test]
async fn the_answer_is_the_input_of_the_call_in_json_and_as_text() {
    let world = world();
    let script = || Script::new().call("StructuredOutput", json!({"files": ["a.rs"]}));
    let model = script().serve().await.unwrap();
    let run = world
        .run(&model)
        .args(["--json-schema", SCHEMA, "--output-format", "json"])
        .print_text("which?")
        .finish()
        .await;
    run.expect_code(0);
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["structured_output"], json!({"files": ["a.rs"]}));
    assert_eq!((&result["result"], &result["subtype"]), (&json!(r#"{"files":["a.rs"]}"#), &json!("success")));
    let offered = model.request(0).json();
    let tool = offered["tools"].as_array().unwrap().last().unwrap();
    assert_eq!((&tool["name"], &tool["input_schema"]["required"]), (&json!("StructuredOutput"), &json!(["files"])));
    let choice = offered["tool_choice"]["type"].as_str();
    assert!(choice.is_none_or(|choice| choice == "auto"), "some models refuse to be forced: {choice:?}");
    let attachment = world.transcript_entries().into_iter().find(|entry| entry["type"] == "attachment").unwrap();
    assert_eq!(attachment["attachment"], json!({"type": "structured_output", "data": {"files": ["a.rs"]}}));

    let model = script().serve().await.unwrap();
    let run = world.run(&model).args(["--json-schema", SCHEMA]).print_text("which?").finish().await;
    assert_eq!(run.stdout, "{\"files\":[\"a.rs\"]}\n");
}

#[tokio::test]
async fn a_resumed_session_takes_the_form_of_this_run() {
    let world = world();
    let model = Script::new().call("StructuredOutput", json!({"files": ["a.rs"]})).serve().await.unwrap();
    world.run(&model).args(["--json-schema", SCHEMA]).print_text("which?").finish().await.expect_code(0);
    let other = r#"{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}"#;
    let model = Script::new().call("StructuredOutput", json!({"count": 1})).serve().await.unwrap();
    let run = world.run(&model).args(["--continue", "--json-schema", other]).print_text("how many?").finish().await;
    assert_eq!(run.stdout, "{\"count\":1}\n", "{}", run.stderr);
    let tools = model.request(0).json()["tools"].clone();
    assert_eq!(tools.as_array().unwrap().last().unwrap()["input_schema"]["required"], json!(["count"]));
}

#[tokio::test]
async fn probe_27_five_invalid_attempts_are_an_error_of_their_own() {
    let world = world();
    let attempt = |script: Script, _| script.call("StructuredOutput", json!({"files": "a.rs"})).then();
    let model = (0..4).fold(Script::new(), attempt).call("StructuredOutput", json!({})).serve().await.unwrap();
    let run = world
        .run(&model)
        .args(["--json-schema", SCHEMA, "--output-format", "json"])
        .print_text("which?")
        .finish()
        .await;
    run.expect_code(1);
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["subtype"], "error_max_structured_output_retries");
    assert_eq!(result["terminal_reason"], "structured_output_retry_exhausted");
    assert!(result.get("result").is_none() && result.get("structured_output").is_none(), "{result}");
    assert_eq!((model.failures(), model.unplayed()), (vec![], 0));
}

#[tokio::test]
async fn a_resumed_session_goes_on_behind_its_answer() {
    let world = world();
    let script = Script::new().call("StructuredOutput", json!({"files": []})).then().say("Because.");
    let model = script.serve().await.unwrap();
    world.run(&model).args(["--json-schema", SCHEMA]).print_text("which?").finish().await.expect_code(0);
    let run = world.run(&model).arg("--continue").print_text("why?").finish().await;
    run.expect_code(0);
    assert_eq!(run.stdout, "Because.\n");
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
}

#[tokio::test]
async fn what_is_no_schema_ends_the_run_before_it_begins() {
    let world = world();
    for (schema, part) in
        [("{", "not JSON"), ("[]", "must be a JSON object"), (r#"{"required":3}"#, "not a valid JSON Schema")]
    {
        let model = Script::new().say("never").serve().await.unwrap();
        let run = world.run(&model).args(["--json-schema", schema]).print_text("go").finish().await;
        run.expect_code(1);
        assert!(run.stderr.contains(part), "{}", run.stderr);
        assert!(model.requests().is_empty());
    }
}
