//! Prompts that nobody typed, as the program says that sends them: prompts like any other, and marked in the transcript.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::SdkHost;
use crate::world;

const COMPOSED: &str = "bbbbbbbb-0000-4000-8000-000000000002";

fn prompt_line(words: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": words}, "priority": "later"})
}

fn synthetic_prompt_line(words: &str) -> Value {
    let mut line = prompt_line(words);
    (line["isSynthetic"], line["uuid"]) = (json!(true), json!(COMPOSED));
    line
}

#[tokio::test]
async fn synthetic_prompts_keep_their_place_and_have_turns_of_their_own() {
    for flag in [None, Some("--replay-user-messages")] {
        let world = world();
        let model = Script::new().say("a").then().say("b").then().say("c").serve().await.unwrap();
        let mut host = SdkHost::start(world.run(&model).args(flag));
        for line in [prompt_line("one"), synthetic_prompt_line("two"), prompt_line("three")] {
            host.send_line(line);
        }
        let lines = host.end().await.clean(0);
        let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
        assert_eq!(results.iter().map(|line| &line["result"]).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(model.request(1).last_user_text().contains("two"), "{}", model.request(1).last_user_text());
        let echoed: Vec<&Value> = lines.iter().filter(|line| line["type"] == "user").collect();
        assert_eq!(echoed.len(), if flag.is_some() { 3 } else { 0 }, "{echoed:?}");
        assert!(echoed.iter().all(|line| line["isReplay"] == true && line.get("isSynthetic").is_none()), "{echoed:?}");
        let entries = world.transcript_entries();
        let entry = entries.iter().find(|entry| entry["uuid"] == COMPOSED).unwrap();
        assert_eq!((&entry["isMeta"], &entry["message"]["content"]), (&json!(true), &json!("two")));
    }
}

#[tokio::test]
async fn synthetic_prompts_are_counted_and_can_be_cancelled() {
    let world = world();
    let command = json!({"command": "touch begun; while [ ! -e go ]; do sleep 0.01; done"});
    let model = Script::new()
        .call("Bash", command)
        .then()
        .say("one")
        .then()
        .call("Bash", json!({"command": "while [ ! -e never ]; do sleep 0.01; done"}))
        .serve()
        .await
        .unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.say("go");
    host.until(|line| line["type"] == "assistant").await;
    host.send_line(prompt_line("then"));
    host.send_line(synthetic_prompt_line("and then"));
    // The answer comes from the same place that takes prompts, so they are there.
    host.send_request(json!({"subtype": "get_binary_version"})).await;
    world.file("go", "");
    assert_eq!(host.result().await["queued_turn_count"], 2);
    host.until(|line| line["type"] == "assistant").await;
    let reply = host.send_request(json!({"subtype": "interrupt", "cancel_queued": true})).await;
    assert_eq!(reply["response"], json!({"still_queued": [], "cancelled": [COMPOSED]}));
    host.result().await;
    host.end().await.clean(1);
}

#[tokio::test]
async fn prompts_behind_a_command_are_counted_too() {
    let world = world();
    let command = json!({"command": "touch begun; while [ ! -e go ]; do sleep 0.01; done"});
    let script = Script::new().call("Bash", command).then().say("one").then().say("two");
    let model = script.serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.say("go");
    host.until(|line| line["type"] == "assistant").await;
    host.say("/clear");
    host.say("second");
    host.send_request(json!({"subtype": "get_binary_version"})).await;
    world.file("go", "");
    let results = [host.result().await, host.result().await, host.result().await];
    let queued = results.each_ref().map(|line| line["queued_turn_count"].as_u64().unwrap_or(0));
    assert_eq!(queued, [2, 1, 0], "{results:?}");
    host.end().await.clean(0);
}
