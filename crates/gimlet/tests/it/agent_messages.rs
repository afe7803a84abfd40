//! Messages to agents end to end: those of an earlier run go on where they stopped.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

use gimlet_script::{ExpectedRequest, Script};
use gimlet_testkit::entries_of;
use serde_json::{Value, json};

use crate::world;

fn launch_input(kind: &str) -> Value {
    json!({"description": "Read a", "prompt": "Read it.", "name": "reader", "subagent_type": kind})
}

/// A request of the agent, by how many messages its conversation has.
fn expect_agent_request(messages: usize) -> ExpectedRequest {
    ExpectedRequest {
        system_contains: Some("You are an agent of gimlet".into()),
        messages: Some(messages),
        ..ExpectedRequest::default()
    }
}

#[tokio::test]
async fn a_message_goes_on_with_an_agent_of_an_earlier_run_that_still_knows_its_files() {
    let world = world();
    world.file("a.txt", "one\n");
    let model = Script::new()
        .call("Agent", launch_input("general-purpose"))
        .then()
        .call("Read", json!({"file_path": world.path("a.txt")}))
        .then()
        .say("It says one.")
        .then()
        .say("One.")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("read a").finish().await;
    run.expect_code(0);
    let session = run.result()["session_id"].as_str().unwrap().to_owned();
    let started = run.lines().into_iter().find(|line| line["subtype"] == "task_started").unwrap();
    let id = started["task_id"].as_str().unwrap();
    assert_eq!(
        model.request(3).tool_result(0),
        format!("It says one.\n\n[Agent {id}: SendMessage to this id goes on with it.]")
    );

    let change = json!({"file_path": world.path("a.txt"), "old_string": "one", "new_string": "two"});
    let model = Script::new()
        .call("SendMessage", json!({"to": "reader", "message": "Make it two."}))
        .then()
        .say("It is at it.")
        .then()
        .when(expect_agent_request(5))
        .call("Edit", change)
        .then()
        .when(expect_agent_request(7))
        .say("It says two.")
        .serve()
        .await
        .unwrap();
    let run = world
        .run(&model)
        .stream("change it")
        .args(["--resume", &session, "--permission-mode", "acceptEdits"])
        .finish()
        .await;
    run.expect_code(0);
    assert!(
        model.failures().is_empty() && model.rejections().is_empty(),
        "{:?} {:?}",
        model.failures(),
        model.rejections()
    );
    assert_eq!(world.read("a.txt"), "two\n", "what it had read counts as read");
    let lines = run.lines();
    let told: Vec<&Value> = lines.iter().filter(|line| line["task_id"] == id).collect();
    assert_eq!(told.first().unwrap()["subtype"], "task_started");
    assert_eq!((&told[0]["tool_use_id"], &told[0]["is_backgrounded"]), (&started["tool_use_id"], &json!(true)));
    assert_eq!(lines.last().unwrap()["type"], "result", "its end is not told behind the result");
    let sent = lines.iter().find(|line| line["tool_use_result"]["success"] == true).unwrap();
    assert_eq!(
        (&sent["tool_use_result"]["resumed"], &sent["tool_use_result"]["routing"]),
        (&json!(true), &json!({"to": id, "summary": "Make it two."}))
    );
    let main = world.transcripts().into_iter().find(|path| path.ends_with(format!("{session}.jsonl"))).unwrap();
    let record = main.with_extension("").join(format!("subagents/agent-{id}.jsonl"));
    let texts: Vec<String> = entries_of(&record).iter().map(|entry| entry["message"].to_string()).collect();
    assert!(texts[0].contains("Read it.") && texts.last().unwrap().contains("It says two."), "{texts:?}");
}

#[tokio::test]
async fn an_agent_that_works_once_is_not_set_going_again() {
    let world = world();
    let model = Script::new()
        .call("Agent", launch_input("Explore"))
        .then()
        .say("Seen.")
        .then()
        .call("SendMessage", json!({"to": "reader", "message": "Look again."}))
        .then()
        .say("Done.")
        .serve()
        .await
        .unwrap();
    world.run(&model).stream("go").finish().await.expect_code(0);
    assert_eq!(model.request(2).tool_result(0), "Seen.", "nothing is offered that cannot be had");
    let said = model.request(3).tool_results().pop().unwrap();
    assert!(said.contains("Agents of the type Explore work once"), "{said}");
}

#[tokio::test]
async fn an_agent_that_is_not_sent_without_asking_is_not_set_going_by_a_message() {
    let world = world();
    let model = Script::new()
        .call("Agent", launch_input("general-purpose"))
        .then()
        .say("Read.")
        .then()
        .say("ok")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").finish().await;
    let session = run.result()["session_id"].as_str().unwrap().to_owned();
    for (rule, is_refused) in [("Agent(general-purpose)", true), ("Agent", true), ("Agent(Plan)", false)] {
        let model = Script::new()
            .call("SendMessage", json!({"to": "reader", "message": "Again."}))
            .then()
            .say("done")
            .forever()
            .serve()
            .await
            .unwrap();
        let settings = json!({"permissions": {"ask": [rule]}}).to_string();
        let flags = ["--resume", &session, "--settings", &settings, "--dangerously-skip-permissions"];
        let run = world.run(&model).env("IS_SANDBOX", "1").stream("again").args(flags).finish().await;
        run.expect_code(0);
        let lines = run.lines();
        let result = lines.iter().find(|line| line["type"] == "user").unwrap()["message"]["content"][0].to_string();
        assert_eq!(result.contains("are not sent without asking"), is_refused, "{rule}: {result}");
        assert_eq!(lines.iter().any(|line| line["subtype"] == "task_started"), !is_refused, "{rule}");
    }
}
