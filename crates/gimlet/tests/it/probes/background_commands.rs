//! Commands that go on by themselves: the model is told when they end, and nothing outlives the session.

use gimlet_script::Script;
use serde_json::json;

use super::*;
use crate::world;

#[tokio::test]
async fn the_model_is_told_between_rounds_that_a_background_command_ended() {
    let world = world();
    let script = Script::new()
        .call("Bash", json!({"command": "until [ -e go ]; do sleep 0.01; done; echo out", "run_in_background": true}))
        .then()
        .call("Bash", json!({"command": "touch go; for i in 1 2 3 4 5; do sleep 0.1; done"}))
        .then()
        .say("done");
    let model = serve_script(script).await;
    run_to_end(&world, &model).await;
    let begun = tool_success(&model, 1);
    assert!(begun.contains("b1"), "{begun}");
    let last = model.request(2);
    assert_eq!(last.answered_tools(), ["Bash"]);
    let notice = last.last_user_text();
    assert!(notice.starts_with("[Automatic notice, no human wrote this] Background task b1"), "{notice}");
    assert!(notice.contains("ended with exit code 0"), "{notice}");
    let file = notice.rsplit_once(" is in ").map(|(_, file)| file.trim()).unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), "out\n");
}

#[tokio::test]
async fn a_background_command_is_gone_when_the_program_has_ended() {
    let world = world();
    let sleep = unique_sleep_seconds();
    let command = format!("setsid sleep {sleep} & sleep {sleep}");
    let model = serve_in_one_reply([("Bash", json!({"command": command, "run_in_background": true}))]).await;
    let begun = Instant::now();
    let run = run_to_end(&world, &model).await;
    assert_eq!(run.result()["result"], "done");
    assert_eq!(count_processes("sleep", &sleep), 0);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_command_that_ends_during_the_last_words_does_not_spoil_the_answer() {
    let world = world();
    let script = Script::new()
        .call("Bash", json!({"command": "until [ -e asked ]; do sleep 0.01; done", "run_in_background": true}))
        .then()
        .reply_with({
            let asked = world.project.join("asked");
            move |_| {
                std::fs::write(&asked, "").unwrap();
                gimlet_script::ScriptedReply { delay_ms: 700, ..gimlet_script::ScriptedReply::say("The answer.") }
            }
        })
        .then()
        .say("Noted.");
    let model = serve_script(script).await;
    let run = world.run(&model).args(["-p", "--dangerously-skip-permissions", "go"]).finish().await;
    run.expect_code(0);
    assert_eq!(model.failures(), Vec::<String>::new());
    assert!(run.stdout.starts_with("The answer.\n"), "{}", run.stdout);
    assert!(!run.stdout.contains("Interrupted"), "{}", run.stdout);
}

#[tokio::test]
async fn a_timed_out_command_goes_on_in_the_background_and_its_output_can_be_read() {
    let world = world();
    let script = Script::new()
        .call("Bash", json!({"command": "echo early; until [ -e go ]; do sleep 0.01; done; echo late", "timeout": 300}))
        .then()
        .call("Bash", json!({"command": "touch go"}))
        .then()
        .call("TaskOutput", json!({"task_id": "b1", "block": true}))
        .then()
        .say("done");
    let model = serve_script(script).await;
    run_to_end(&world, &model).await;
    let moved = tool_success(&model, 1);
    assert!(moved.contains("b1") && moved.contains("early"), "{moved}");
    let output = tool_success(&model, 3);
    assert!(output.contains("late"), "{output}");
}

#[tokio::test]
async fn several_background_commands_keep_apart() {
    let world = world();
    let start = |word: &str| {
        ("Bash", json!({"command": format!("echo {word}; exit {}", word.len()), "run_in_background": true}))
    };
    let output = |id: &str| ("TaskOutput", json!({"task_id": id, "block": true}));
    let model = serve_one_by_one([start("one"), start("three"), output("b1"), output("b2"), output("b9")]).await;
    run_to_end(&world, &model).await;
    let results: Vec<String> = (3..=5).map(|index| model.request(index).tool_result(0)).collect();
    assert!(results[0].contains("one") && results[0].contains('3') && !results[0].contains("three"), "{results:?}");
    assert!(results[1].contains("three") && results[1].contains('5'), "{results:?}");
    assert!(tool_error(&model, 5).contains("no background task `b9`"), "{results:?}");
}
