//! Which session a run belongs to, and what of it is on disk.

use std::io::Write;

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld, entries_of};
use serde_json::{Value, json};

use crate::world;

async fn said(text: &str) -> ScriptServer {
    Script::new().say(text).serve().await.unwrap()
}

/// One turn with these arguments.
async fn run_turn(world: &TestWorld, model: &ScriptServer, args: &[&str]) -> RunOutput {
    let run = world.run(model).stream("go").args(args.iter().copied()).finish().await;
    run.expect_code(0);
    run
}

fn session_id(run: &RunOutput) -> String {
    run.result()["session_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn continue_goes_on_with_the_newest_session_of_the_folder() {
    let world = world();
    let older = run_turn(&world, &said("one").await, &[]).await;
    let newer = run_turn(&world, &said("two").await, &[]).await;
    assert_ne!(session_id(&older), session_id(&newer));
    let model = said("three").await;
    let run = run_turn(&world, &model, &["--continue"]).await;
    assert_eq!(session_id(&run), session_id(&newer));
    let body = model.request(0).body_text().into_owned();
    assert!(body.contains("\"two\"") && !body.contains("\"one\""));
    assert_eq!(world.transcripts().len(), 2);
    // What happened before is not told again.
    assert_eq!(run.lines().iter().filter(|line| line["type"] == "assistant").count(), 1);
}

#[tokio::test]
async fn continue_without_anything_to_continue_is_a_new_session() {
    let world = world();
    let run = run_turn(&world, &said("one").await, &["--continue"]).await;
    assert!(run.stderr.contains("there is no session to continue"), "{}", run.stderr);
    assert_eq!(world.transcripts().len(), 1);
}

#[tokio::test]
async fn resume_takes_an_id_its_beginning_a_title_or_a_file_and_appends() {
    let world = world();
    let first = run_turn(&world, &said("one").await, &["--name", "the first one"]).await;
    let id = session_id(&first);
    run_turn(&world, &said("other").await, &[]).await;
    let path = world.transcripts()[0].to_string_lossy().into_owned();
    for wanted in [id.as_str(), &id[..8], "the first one", &path] {
        let model = said("more").await;
        let run = run_turn(&world, &model, &["--resume", wanted]).await;
        assert_eq!(session_id(&run), id, "{wanted}");
        assert!(model.rejections().is_empty() && model.request(0).body_text().contains("\"one\""));
    }
    assert_eq!(world.transcripts().len(), 2);
}

#[tokio::test]
async fn the_beginning_of_two_ids_is_refused_with_both_of_them() {
    let world = world();
    let ids = ["0195c9f4-3a88-4b44-9d41-3f6a1f1a0011", "0195c9f4-3a88-4b44-9d41-3f6a1f1a0012"];
    for id in ids {
        run_turn(&world, &said("one").await, &["--session-id", id]).await;
    }
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).print_text("go").args(["--resume", "0195c9f4"]).finish().await;
    run.expect_code(1);
    assert!(ids.iter().all(|id| run.stderr.contains(id)) && model.requests().is_empty(), "{}", run.stderr);
}

#[tokio::test]
async fn what_cannot_be_resumed_is_one_line_and_one_result() {
    let world = world();
    for wanted in ["0195c9f4-3a88-4b44-9d41-3f6a1f1a0000", "no such title", "/nowhere/at/all.jsonl"] {
        let model = Script::new().serve().await.unwrap();
        let run = world.run(&model).stream("go").args(["--resume", wanted]).finish().await;
        run.expect_code(1);
        assert_eq!((run.stderr.lines().count(), run.stdout.lines().count()), (1, 1), "{}", run.stderr);
        let result = run.result();
        assert_eq!((&result["subtype"], &result["is_error"]), (&json!("error_during_execution"), &json!(true)));
        assert_eq!((&result["num_turns"], &result["modelUsage"]), (&json!(0), &json!({})));
        let error = result["errors"][0].as_str().unwrap();
        assert!(run.stderr.contains(error) && error.contains(wanted), "{error}");
        let run = world.run(&model).print_text("go").args(["--resume", wanted]).finish().await;
        run.expect_code(1);
        assert_eq!((run.stderr.lines().count(), run.stdout.as_str()), (1, ""), "{}", run.stderr);
        assert!(model.requests().is_empty());
    }
}

#[tokio::test]
async fn a_fork_goes_on_in_the_mode_of_its_source() {
    let world = world();
    let init = async |more: &[&str]| -> Value {
        let model = said("one").await;
        let flags = ["-p", "--output-format", "stream-json", "--verbose"];
        let run = world.run(&model).args(flags).args(more.iter().copied()).args(["--", "go"]).finish().await;
        run.expect_code(0);
        serde_json::from_str(run.stdout.lines().next().unwrap()).unwrap()
    };
    let first = init(&["--permission-mode", "acceptEdits"]).await;
    let id = first["session_id"].as_str().unwrap();
    for more in [&["--resume", id, "--fork-session"][..], &["--resume", id], &["--continue", "--fork-session"]] {
        assert_eq!(init(more).await["permissionMode"], "acceptEdits", "{more:?}");
    }
}

#[tokio::test]
async fn a_fork_has_its_own_id_and_leaves_its_source_alone() {
    let world = world();
    let first = run_turn(&world, &said("one").await, &[]).await;
    let path = world.transcripts()[0].clone();
    let before = std::fs::read(&path).unwrap();
    let model = said("two").await;
    let fork = run_turn(&world, &model, &["--resume", &session_id(&first), "--fork-session"]).await;
    assert_ne!(session_id(&fork), session_id(&first));
    assert!(model.request(0).body_text().contains("\"one\""));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let copy = world.transcripts().into_iter().find(|other| *other != path).unwrap();
    let owners: Vec<_> =
        entries_of(&copy).iter().filter_map(|entry| entry["sessionId"].as_str().map(str::to_owned)).collect();
    assert!(!owners.is_empty() && owners.iter().all(|owner| *owner == session_id(&fork)), "{owners:?}");
    let chosen = "0195c9f4-3a88-4b44-9d41-3f6a1f1a0001";
    let named = run_turn(&world, &said("three").await, &["--continue", "--fork-session", "--session-id", chosen]).await;
    assert_eq!(session_id(&named), chosen);
}

#[tokio::test]
async fn a_fork_is_called_after_its_source_unless_it_is_named() {
    let world = world();
    run_turn(&world, &said("one").await, &["--name", "build"]).await;
    let path = world.transcripts()[0].clone();
    std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, r#"{{"type":"tag","tag":"later","sessionId":"x"}}"#))
        .unwrap();
    let labels = |id: &str, kind: &str| -> Vec<Value> {
        let file = world.transcripts().into_iter().find(|file| file.ends_with(format!("{id}.jsonl"))).unwrap();
        entries_of(&file).into_iter().filter(|entry| entry["type"] == kind).collect()
    };
    let cases: [(&[&str], &str); 4] =
        [(&[], "build (fork)"), (&["--name", "other"], "other"), (&[], "build (fork 2)"), (&[], "build (fork 3)")];
    for (more, title) in cases {
        let flags = [&["--resume", "build", "--fork-session"], more].concat();
        let fork = run_turn(&world, &said("two").await, &flags).await;
        let titles = labels(&session_id(&fork), "custom-title");
        assert!(!titles.is_empty() && titles.iter().all(|entry| entry["customTitle"] == title), "{titles:?}");
        assert!(labels(&session_id(&fork), "tag").is_empty());
        let again = run_turn(&world, &said("three").await, &["--resume", title]).await;
        assert_eq!(session_id(&again), session_id(&fork), "its title finds it");
    }
}

#[tokio::test]
async fn a_session_id_is_a_new_uuid() {
    let world = world();
    let chosen = "0195c9f4-3a88-4b44-9d41-3f6a1f1a0002";
    let run = run_turn(&world, &said("one").await, &["--session-id", chosen]).await;
    assert_eq!(session_id(&run), chosen);
    assert!(world.transcripts()[0].ends_with(format!("{chosen}.jsonl")));
    let wrong: [(&[&str], &str); 4] = [
        (&["--session-id", chosen], "Error: Session ID 0195c9f4-3a88-4b44-9d41-3f6a1f1a0002 is already in use."),
        (&["--session-id", "seven"], "is not a UUID"),
        (&["--session-id", "0195c9f4-3a88-4b44-9d41-3f6a1f1a0003", "--resume", chosen], "--fork-session"),
        (&["--fork-session"], "--fork-session needs a session"),
    ];
    for (args, part) in wrong {
        let model = Script::new().serve().await.unwrap();
        let run = world.run(&model).print_text("go").args(args.iter().copied()).finish().await;
        run.expect_code(1);
        assert_eq!((run.stderr.lines().count(), run.stdout.as_str()), (1, ""), "{}", run.stderr);
        assert!(run.stderr.contains(part) && !run.stderr.contains("gimlet: Error"), "{}", run.stderr);
    }
    assert_eq!(world.transcripts().len(), 1);
}

#[tokio::test]
async fn without_persistence_nothing_is_left_anywhere() {
    let world = world();
    let temporary = world.project.join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let names: Vec<String> = (0..3_000).map(|n| format!("a_rather_long_name_for_a_file_{n:06}.txt")).collect();
    for name in &names {
        world.file(&format!("many/{name}"), "");
    }
    world.file("long.txt", format!("{}\n", "needle and more words".repeat(4)).repeat(3_000));
    let search =
        json!({"pattern": "needle", "path": world.path("long.txt"), "output_mode": "content", "head_limit": 0});
    let model = Script::new().call("Grep", search).then().say("done").serve().await.unwrap();
    let run = world.run(&model).stream("go").arg("--no-session-persistence").env("TMPDIR", temporary.to_string_lossy());
    let run = run.finish().await;
    run.expect_code(0);
    assert!(model.request(1).tool_result(0).contains("<persisted-output>"), "{}", model.request(1).tool_result(0));
    let left = |dir: &std::path::Path| -> Vec<_> {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    assert_eq!((left(&world.home), left(&temporary)), (vec![], vec![]));
    let later = world.run(&model).print_text("go").args(["--resume", &session_id(&run)]).finish().await;
    later.expect_code(1);
}

#[tokio::test]
async fn a_fork_that_is_not_kept_is_copied_nowhere() {
    let world = world();
    let first = run_turn(&world, &said("one").await, &["--name", "kept"]).await;
    let path = world.transcripts()[0].clone();
    let before = std::fs::read(&path).unwrap();
    let id = session_id(&first);
    for (flag, variable) in [(Some("--no-session-persistence"), "0"), (None, "1")] {
        let model = said("two").await;
        let run = world.run(&model).stream("go").args(["--resume", &id, "--fork-session"]).args(flag);
        let run = run.env("CLAUDE_CODE_SKIP_PROMPT_HISTORY", variable).finish().await;
        run.expect_code(0);
        assert_ne!(session_id(&run), id);
        assert!(model.rejections().is_empty() && model.request(0).body_text().contains("\"one\""));
        assert_eq!((world.transcripts(), std::fs::read(&path).unwrap()), (vec![path.clone()], before.clone()));
    }
}

#[tokio::test]
async fn the_last_entry_of_a_reply_says_why_it_ended_and_what_it_took() {
    let world = world();
    world.file("a", "1");
    let model = Script::new()
        .say("Looking.")
        .call("Read", json!({"file_path": world.path("a")}))
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    let run = run_turn(&world, &model, &[]).await;
    let entries = entries_of(&world.transcripts()[0]);
    let replies: Vec<&Value> =
        entries.iter().filter(|entry| entry["type"] == "assistant").map(|entry| &entry["message"]).collect();
    let reasons: Vec<&Value> = replies.iter().map(|message| &message["stop_reason"]).collect();
    assert_eq!(reasons, [&Value::Null, &json!("tool_use"), &json!("end_turn")]);
    let took: u64 = replies[1..].iter().map(|message| message["usage"]["output_tokens"].as_u64().unwrap()).sum();
    assert_eq!(run.result()["usage"]["output_tokens"], took);
}

#[tokio::test]
async fn two_runs_do_not_drive_one_session() {
    use gimlet_script::{Fault, FaultPoint};
    let world = world();
    let first = run_turn(&world, &said("one").await, &[]).await;
    let stall = Fault::Stall { at: FaultPoint::BeforeHeaders, ping_every_ms: None, for_ms: None };
    let slow = Script::new().say("two").fault(stall).serve().await.unwrap();
    let mut driver = world.run(&slow).stream("go").args(["--resume", &session_id(&first)]).start();
    slow.wait_for_requests(1).await;
    let model = said("never").await;
    let run = world.run(&model).print_text("go").args(["--resume", &session_id(&first)]).finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("another process") && run.stderr.lines().count() == 1, "{}", run.stderr);
    run_turn(&world, &said("three").await, &["--resume", &session_id(&first), "--fork-session"]).await;
    driver.kill();
}
