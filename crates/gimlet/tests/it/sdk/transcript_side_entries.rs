//! What a transcript says beside the conversation: prompts that wait, copies of files, a name after a plan.

use gimlet_script::Script;
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use super::SdkHost;
use crate::world;

fn wait_for_file_command(file: &str) -> Value {
    json!({"command": format!("while [ ! -e {file} ]; do sleep 0.01; done")})
}

/// Waits until the session has seen everything that was sent so far: it answers in the order of the lines.
async fn wait_until_processed(host: &mut SdkHost) {
    host.send_request(json!({"subtype": "get_context_usage"})).await;
}

fn entries_of_kind<'a>(entries: &'a [Value], kind: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| entry["type"] == kind).collect()
}

#[tokio::test]
async fn prompts_that_wait_are_on_disk_until_they_are_taken_up() {
    let world = world();
    let script =
        Script::new().call("Bash", wait_for_file_command("go")).then().say("one").then().say("two").then().say("three");
    let model = script.serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.say("first");
    host.until(|line| line["type"] == "assistant").await;
    for (number, text) in ["second", "third", "never"].into_iter().enumerate() {
        host.send_line(json!({"type": "user", "session_id": "", "parent_tool_use_id": null, "priority": "later",
            "uuid": format!("5e551000-0000-4000-8000-{number:012}"), "message": {"role": "user", "content": text}}));
    }
    wait_until_processed(&mut host).await;
    let entries = world.transcript_entries();
    let waiting: Vec<&Value> =
        entries_of_kind(&entries, "queue-operation").iter().map(|entry| &entry["content"]).collect();
    assert_eq!(waiting, ["second", "third", "never"]);
    host.send_request(json!({"subtype": "interrupt", "cancel_queued": true})).await;
    host.result().await;
    host.say("second");
    assert_eq!(host.result().await["result"], "one");
    host.end().await;
    let entries = world.transcript_entries();
    let queue = entries_of_kind(&entries, "queue-operation");
    let operations: Vec<&Value> = queue.iter().map(|entry| &entry["operation"]).collect();
    assert_eq!(operations, ["enqueue", "enqueue", "enqueue", "dequeue", "dequeue", "dequeue"]);
    assert!(queue.iter().all(|entry| entry["sessionId"].is_string() && entry["timestamp"].is_string()), "{queue:?}");
    // Nothing waits any more, and nothing is said about it.
    let later = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&later).args(["-p", "--continue", "more"]).finish().await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn a_prompt_that_joined_leaves_the_line_behind_its_entry() {
    let world = world();
    let script = Script::new().call("Bash", wait_for_file_command("go")).then().say("both");
    let model = script.serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.say("first");
    host.until(|line| line["type"] == "assistant").await;
    host.say("second");
    wait_until_processed(&mut host).await;
    world.file("go", "");
    host.result().await;
    host.end().await.clean(0);
    let entries = world.transcript_entries();
    let place = |is_it: &dyn Fn(&Value) -> bool| entries.iter().position(is_it).unwrap();
    let enqueued = place(&|entry| entry["operation"] == "enqueue" && entry["content"] == "second");
    let taken = place(&|entry| entry["type"] == "user" && entry["message"]["content"] == "second");
    let dequeued = place(&|entry| entry["operation"] == "dequeue");
    assert!(enqueued < taken && taken < dequeued, "{enqueued} {taken} {dequeued}");
}

#[tokio::test]
async fn a_killed_session_reports_prompts_that_it_never_took_up() {
    let world = world();
    let model = Script::new().call("Bash", wait_for_file_command("never")).serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.say("first");
    host.until(|line| line["type"] == "assistant").await;
    host.say("and\nthen this");
    wait_until_processed(&mut host).await;
    host.child.kill();
    host.wait_for_exit().await;
    for (said, count) in [("go on", 1), ("again", 0)] {
        let later = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&later).args(["-p", "--continue", said]).finish().await;
        run.expect_code(0);
        let told = run.stderr.matches("a prompt was waiting and was never taken up: 'and then this'").count();
        assert_eq!(told, count, "{said}: {}", run.stderr);
        assert!(!later.request(0).body_text().contains("then this"), "nobody said it to the model");
    }
}

#[tokio::test]
async fn identical_prompts_are_queued_separately() {
    let world = world();
    let model = Script::new().call("Bash", wait_for_file_command("never")).serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    let hooks = json!({"UserPromptSubmit": [{"hookCallbackIds": ["h"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("go on");
    let asked = host.wait_for_request("hook_callback").await;
    host.say("go on");
    wait_until_processed(&mut host).await;
    host.answer(&asked, json!({}));
    host.until(|line| line["type"] == "assistant").await;
    host.child.kill();
    host.wait_for_exit().await;
    let entries = world.transcript_entries();
    let queue: Vec<&Value> =
        entries_of_kind(&entries, "queue-operation").iter().map(|entry| &entry["operation"]).collect();
    assert_eq!(queue, ["enqueue"], "the first of them never waited");
}

/// A session whose turn never came to its end.
async fn leave_interrupted_session(world: &TestWorld) {
    let model = Script::new().call("Bash", wait_for_file_command("never")).serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    host.say("first");
    host.until(|line| line["type"] == "assistant").await;
    host.child.kill();
    host.wait_for_exit().await;
}

#[tokio::test]
async fn what_is_piped_in_counts_for_more_than_a_turn_that_was_cut_off() {
    let world = world();
    leave_interrupted_session(&world).await;
    let later = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&later).args(["-p", "--continue"]).env("CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "1");
    run.stdin("something else").finish().await.expect_code(0);
    assert_eq!(later.request(0).last_user_text(), "something else");
}

#[tokio::test]
async fn a_turn_that_was_cut_off_goes_on_where_the_environment_wants_it() {
    let world = world();
    leave_interrupted_session(&world).await;
    let go_on = |words: Option<&'static str>| {
        let world = &world;
        async move {
            let later = Script::new().say("ok").serve().await.unwrap();
            let run = world.run(&later).args(["-p", "--continue"]).env("CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "1");
            let run = match words {
                Some(words) => run.env("CLAUDE_CODE_RESUME_PROMPT", words),
                None => run,
            };
            let run = run.finish().await;
            (run.code, (run.code == 0).then(|| later.request(0).last_user_text()))
        }
    };
    let (code, said) = go_on(Some("take it up again")).await;
    assert_eq!((code, said.as_deref()), (0, Some("take it up again")));
    // Now it is whole: without a prompt there is nothing to do.
    assert_eq!(go_on(None).await.0, 1);
    // Nor is there where somebody stopped the turn.
    let model = Script::new().call("Bash", wait_for_file_command("never")).serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--continue", "--allowedTools", "Bash"]));
    host.say("second");
    host.until(|line| line["type"] == "assistant").await;
    host.send_request(json!({"subtype": "interrupt"})).await;
    host.result().await;
    host.end().await;
    assert_eq!(go_on(None).await.0, 1);
}

#[tokio::test]
async fn copies_of_changed_files_are_named_in_the_transcript() {
    let world = world();
    let file = world.file("a.txt", "old\n");
    let script = Script::new()
        .call("Read", json!({"file_path": file}))
        .then()
        .call("Edit", json!({"file_path": file, "old_string": "old", "new_string": "new"}))
        .call("Write", json!({"file_path": world.path("b.txt"), "content": "b"}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let run = world.run(&model).args(["--permission-mode", "acceptEdits"]);
    let mut host = SdkHost::start(run.env("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true"));
    host.say("change it");
    host.result().await;
    host.end().await.clean(0);
    let entries = world.transcript_entries();
    let prompt = entries.iter().find(|entry| entry["message"]["content"] == "change it").unwrap();
    let told = entries_of_kind(&entries, "file-history-snapshot");
    assert_eq!(told.iter().map(|entry| &entry["isSnapshotUpdate"]).collect::<Vec<_>>(), [false, true, true]);
    assert!(told.iter().all(|entry| entry["messageId"] == prompt["uuid"]), "{told:?}");
    assert!(told.iter().all(|entry| entry["snapshot"]["messageId"] == prompt["uuid"]), "{told:?}");
    let backups = &told[2]["snapshot"]["trackedFileBackups"];
    assert_eq!(told[0]["snapshot"]["trackedFileBackups"], json!({}));
    assert_eq!(backups[world.path("b.txt")]["backupFileName"], Value::Null);
    let copy = backups[file.to_str().unwrap()]["backupFileName"].as_str().unwrap();
    let session = prompt["sessionId"].as_str().unwrap();
    let copy = world.home.join(".claude/file-history").join(session).join(copy);
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "old\n");
}

#[tokio::test]
async fn an_approved_plan_names_a_session_that_has_no_name() {
    for (name, title) in [(None, json!("Move the cache")), (Some("mine"), json!("mine"))] {
        let world = world();
        let plan = "# Move the cache\n\n1. first";
        let script = Script::new().call("ExitPlanMode", json!({"plan": plan})).then().say("done");
        let model = script.serve().await.unwrap();
        let mut args = vec!["--permission-prompt-tool", "stdio", "--permission-mode", "plan"];
        args.extend(name.iter().flat_map(|name| ["--name", name]));
        let mut host = SdkHost::start(world.run(&model).args(args));
        host.say("plan it");
        let asked = host.wait_for_request("can_use_tool").await;
        host.answer(&asked, json!({"behavior": "allow", "updatedInput": asked["request"]["input"]}));
        host.result().await;
        host.end().await.clean(0);
        let row = world.run_at("http://127.0.0.1:9").args(["sessions", "ls", "--json"]).finish().await.json();
        assert_eq!(row["title"], title);
        let made_up = entries_of_kind(&world.transcript_entries(), "ai-title").len();
        assert_eq!(made_up > 0, name.is_none());
    }
}
