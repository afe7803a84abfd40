//! What a compaction survives: a kill at any point, a copy of the session, and questions about what is out of view.

use gimlet_script::{Script, ScriptedReply};
use serde_json::{Value, json};

use super::{begin_session, first_text};
use crate::world;

#[tokio::test]
async fn a_session_cut_off_at_any_byte_of_a_compaction_resumes() {
    let world = world();
    let id = begin_session(&world, "THE TASK", "THE OLD ANSWER").await;
    let before = std::fs::read(&world.transcripts()[0]).unwrap();
    let model = Script::new().say("<summary>THE SUMMARY</summary>").serve().await.unwrap();
    let run = world.run(&model).stream("/compact").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    let path = world.transcripts()[0].clone();
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(whole[..before.len()], before, "what is written stays as it is");
    let ends: Vec<usize> = (before.len()..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    assert!(ends.len() >= 3, "a boundary, a summary, and more: {}", ends.len());
    let mut starts = vec![before.len()];
    starts.extend(ends.iter().map(|end| end + 1));
    let cuts = starts.iter().zip(&ends).flat_map(|(start, end)| [*start, (start + end) / 2, *end, end + 1]);
    let (mut old, mut new) = (0, 0);
    for cut in cuts {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let next = Script::new().say("going on").serve().await.unwrap();
        let run = world.run(&next).stream("next").args(["--resume", &id]).finish().await;
        run.expect_code(0);
        let request = next.request(0);
        let (has_old, has_new) =
            (request.body_text().contains("THE OLD ANSWER"), request.body_text().contains("THE SUMMARY"));
        assert!(has_old != has_new, "cut at {cut}: one of the two, whole");
        assert!(request.body_text().contains("THE TASK"), "cut at {cut}");
        assert!(next.rejections().is_empty(), "cut at {cut}: {:?}", next.rejections());
        old += u32::from(has_old);
        new += u32::from(has_new);
    }
    assert!(old > 0 && new > 0, "{old} and {new}");
}

#[tokio::test]
async fn a_kill_while_the_summary_is_written_leaves_the_conversation_as_it_was() {
    let world = world();
    let id = begin_session(&world, "THE TASK", "THE OLD ANSWER").await;
    let before = std::fs::read(&world.transcripts()[0]).unwrap();
    let late = ScriptedReply { delay_ms: 600_000, ..ScriptedReply::say("never") };
    let model = Script::new().reply(late).serve().await.unwrap();
    let mut child = world.run(&model).stream("/compact").args(["--resume", &id]).start();
    model.wait_for_requests(1).await;
    child.kill();
    tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap();
    let after = std::fs::read(&world.transcripts()[0]).unwrap();
    assert_eq!(after[..before.len()], before);
    let next = Script::new().say("going on").serve().await.unwrap();
    let run = world.run(&next).stream("next").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    assert!(next.request(0).body_text().contains("THE OLD ANSWER"));
}

#[tokio::test]
async fn an_interrupt_leaves_everything_as_it_was() {
    let world = world();
    let id = begin_session(&world, "THE TASK", "THE OLD ANSWER").await;
    let late = ScriptedReply { delay_ms: 600_000, ..ScriptedReply::say("never") };
    let model = Script::new().reply(late).then().say("going on").serve().await.unwrap();
    let child = world.run(&model).stream("/compact").args(["--resume", &id]).start();
    model.wait_for_requests(1).await;
    interrupt(child.pid());
    let mut child = child;
    let run = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap();
    assert_eq!(run.code, 130, "{}", run.stdout);
    assert!(run.stdout.contains(r#""compact_error":"interrupted""#), "{}", run.stdout);
    let run = world.run(&model).stream("next").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    assert!(model.request(1).body_text().contains("THE OLD ANSWER"));
}

fn interrupt(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

#[tokio::test]
async fn what_is_out_of_view_can_be_searched_and_only_then() {
    let world = world();
    let model = Script::new().say("The port of the probe is 48213, by the way.").serve().await.unwrap();
    let run = world.run(&model).stream("which port?").finish().await;
    let id = run.expect_code(0).result()["session_id"].as_str().unwrap().to_owned();
    assert!(!model.request(0).tool_names().contains(&"Recall".to_owned()), "nothing is out of view");
    let model = Script::new().say("<summary>A port was named.</summary>").serve().await.unwrap();
    world.run(&model).stream("/compact").args(["--resume", &id]).finish().await.expect_code(0);
    let model = Script::new()
        .call("Recall", json!({"query": "port PROBE"}))
        .call("Recall", json!({"query": "zeppelin"}))
        .then()
        .say("48213")
        .then()
        .say("again")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("what was it?").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    assert!(model.request(0).tool_names().contains(&"Recall".to_owned()), "{:?}", model.request(0).tool_names());
    assert!(!model.request(0).body_text().contains("48213"));
    let found = model.request(1).tool_result(0);
    assert!(found.contains("48213") && found.contains("[assistant"), "{found}");
    assert!(model.request(1).tool_result(1).starts_with("Nothing in the "), "{}", model.request(1).tool_result(1));
    let run = world.run(&model).stream("and now?").args(["--resume", &id]).finish().await;
    run.expect_code(0);
    assert!(model.prefix_equal(1, 2), "a later run sends the same: {:?}", model.prefix_difference(1, 2));
}

#[tokio::test]
async fn a_fork_takes_along_what_was_carried() {
    let world = world();
    let list = json!({"todos": [{"content": "write tests", "activeForm": "w", "status": "pending"}]});
    let model = Script::new().call("TodoWrite", list.clone()).then().say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("THE TASK").finish().await;
    let id = run.expect_code(0).result()["session_id"].as_str().unwrap().to_owned();
    let model = Script::new().say("<summary>s</summary>").serve().await.unwrap();
    world.run(&model).stream("/compact").args(["--resume", &id]).finish().await.expect_code(0);
    let model = Script::new().call("TodoWrite", list).then().say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--resume", &id, "--fork-session"]).finish().await;
    run.expect_code(0);
    let outcome: Value = run.lines().into_iter().find(|line| !line["tool_use_result"].is_null()).unwrap();
    assert_eq!(outcome["tool_use_result"]["oldTodos"][0]["content"], "write tests");
    assert!(first_text(&model.request(0)).contains("THE TASK"));
}
