//! A model that makes the same call without end, with nobody there: the turn ends, and says why.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use gimlet_script::{Script, ScriptServer};
use serde_json::{Value, json};

use crate::world;

/// A model that makes this call so often.
async fn repeating(tool: &str, input: &Value, times: usize) -> ScriptServer {
    let script = (0..times).fold(Script::new(), |script, _| script.call(tool, input.clone()).then());
    script.say("done").serve().await.unwrap()
}

#[tokio::test]
async fn a_call_that_fails_or_only_reads_thirty_times_ends_the_turn() {
    let world = world();
    world.file("a.txt", "alpha\n");
    let calls = [
        ("Read", json!({"file_path": world.path("missing")})),
        ("Read", json!({"file_path": world.path("a.txt")})),
        ("Bash", json!({"command": "cat a.txt; false"})),
        ("Bash", json!({"command": "touch refused"})),
        ("Unknown", json!({})),
    ];
    for (tool, input) in calls {
        let model = repeating(tool, &input, 30).await;
        let run = world.run(&model).args(["-p", "--output-format", "stream-json", "--verbose", "go"]).finish().await;
        run.expect_code(1);
        let result = run.result();
        assert_eq!(result["subtype"], "error_during_execution", "{tool} {input}: {result}");
        assert_eq!((&result["is_error"], &result["terminal_reason"]), (&json!(true), &json!("repeated_calls")));
        assert!(result["errors"][0].as_str().unwrap().contains("same call 20 times"), "{result}");
        // The first reading of a file shows it, and the others say that it is the same.
        let requests = model.requests().len();
        assert!((20..=21).contains(&requests), "{tool} {input}: {requests}");
        let lines = run.lines();
        let results =
            lines.iter().filter(|line| line["type"] == "user" && line["tool_use_result"] != Value::Null).count();
        assert_eq!(results, requests, "one result for each call");
        assert!(model.rejections().is_empty(), "{:?}", model.rejections());
    }
    assert!(!world.project.join("refused").exists());
    let model = repeating("Read", &json!({"file_path": world.path("missing")}), 30).await;
    let run = world.run(&model).print_text("go").finish().await;
    run.expect_code(1);
    assert_eq!(run.stdout, "Error: the model made the same call 20 times with the same result; the turn was ended\n");
}

#[tokio::test]
async fn a_write_in_between_begins_anew() {
    let world = world();
    let script = (0..30).fold(Script::new(), |script, number| {
        let script = script.call("Read", json!({"file_path": world.path("missing")})).then();
        if number % 10 != 9 {
            return script;
        }
        let input = json!({"file_path": world.path(&format!("made-{number}")), "content": "x"});
        script.call("Write", input).then()
    });
    let model = script.say("done").serve().await.unwrap();
    let run = world.run(&model).args(["-p", "--permission-mode", "acceptEdits", "go"]).finish().await;
    run.expect_code(0);
    assert_eq!(run.stdout, "done\n");
    let told: Vec<String> = model.requests().iter().flat_map(|request| request.tool_results()).collect();
    let warned = |time: &str| told.iter().filter(|text| text.contains(time)).count();
    assert_eq!((warned("for the 4th time"), warned("for the 10th time"), warned("for the 11th time")), (3, 3, 0));
}
