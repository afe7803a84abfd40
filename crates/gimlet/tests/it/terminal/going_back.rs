//! Going back to before an earlier prompt.

use serde_json::json;

use super::*;

/// A conversation of two prompts, each of which writes the file.
async fn write_twice(world: &TestWorld, answers: Script) -> (ScriptServer, TmuxTerminal) {
    world.file("a.txt", "zero\n");
    let mut script = Script::new()
        .call("Read", json!({"file_path": world.path("a.txt")}))
        .call("Write", json!({"file_path": world.path("a.txt"), "content": "one\n"}))
        .then()
        .say("Wrote one.")
        .then()
        .call("Write", json!({"file_path": world.path("a.txt"), "content": "two\n"}))
        .call("Write", json!({"file_path": world.path("b.txt"), "content": "new\n"}))
        .then()
        .say("Wrote two.");
    script.steps.extend(answers.steps);
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(world, &model, "--permission-mode acceptEdits");
    terminal.wait_for(READY).await;
    terminal.enter("write one").await;
    terminal.wait_for("Wrote one.").await;
    terminal.wait_for(READY).await;
    terminal.enter("write two").await;
    terminal.wait_for("Wrote two.").await;
    terminal.wait_for(READY).await;
    (model, terminal)
}

#[tokio::test]
async fn escape_twice_goes_back_with_files_and_conversation() {
    let world = world();
    let (model, terminal) = write_twice(&world, Script::new().say("Another way.")).await;
    terminal.press(&["Escape"]);
    terminal.press(&["Escape"]);
    terminal.wait_for("Go back to before a prompt").await;
    terminal.wait_for("❯ 2  write two").await;
    terminal.wait_for("b.txt").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("❯ 1  Code and conversation").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("❯ write two").await;
    terminal.wait_for("2 files").await;
    assert_eq!(world.read("a.txt"), "one\n");
    assert!(!world.project.join("b.txt").exists());
    terminal.type_text(" in another way");
    terminal.wait_for("❯ write two in another way").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("Another way.").await;
    let body = model.request(4).body_text().into_owned();
    assert!(body.contains("Wrote one.") && body.contains("write two in another way") && !body.contains("Wrote two."));
}

#[tokio::test]
async fn the_conversation_alone_goes_back_and_the_files_stay() {
    let world = world();
    let (model, terminal) = write_twice(&world, Script::new().say("A fresh start.")).await;
    terminal.enter("/rewind").await;
    terminal.wait_for("❯ 2  write two").await;
    terminal.press(&["Up"]);
    terminal.wait_for("❯ 1  write one").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("❯ 1  Code and conversation").await;
    terminal.type_text("2");
    terminal.wait_for("❯ write one").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("A fresh start.").await;
    assert_eq!((world.read("a.txt").as_str(), world.read("b.txt").as_str()), ("two\n", "new\n"));
    let body = model.request(4).body_text().into_owned();
    assert!(body.contains("write one") && !body.contains("Wrote one."), "{body}");
}

#[tokio::test]
async fn a_file_that_was_changed_by_hand_stays_unless_it_is_wanted_back() {
    let world = world();
    let (_model, terminal) = write_twice(&world, Script::new()).await;
    world.file("a.txt", "by hand\n");
    terminal.enter("/rewind").await;
    terminal.wait_for("changed since by you or a command").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("❯ 1  Code and conversation").await;
    terminal.type_text("3");
    terminal.wait_for("❯ 1  Leave them as they are").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("Restored 1 file").await;
    terminal.wait_for("Left as they are").await;
    assert_eq!(world.read("a.txt"), "by hand\n");
    assert!(!world.project.join("b.txt").exists());
    terminal.wait_for(READY).await;
    terminal.enter("/rewind").await;
    terminal.wait_for("changed since by you or a command").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("❯ 1  Code and conversation").await;
    terminal.type_text("3");
    terminal.wait_for("❯ 1  Leave them as they are").await;
    terminal.type_text("2");
    wait_until("the file is back", || world.read("a.txt") == "one\n").await;
}

#[tokio::test]
async fn the_end_of_a_conversation_becomes_a_summary() {
    let world = world();
    let summary =
        gimlet_script::ExpectedRequest { system_contains: Some("You summarise".to_owned()), ..Default::default() };
    let answers = Script::new().when(summary).say("Two was tried and found wanting.").then().say("On from there.");
    let (model, terminal) = write_twice(&world, answers).await;
    terminal.enter("/rewind").await;
    terminal.wait_for("❯ 2  write two").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("❯ 1  Code and conversation").await;
    terminal.type_text("4");
    terminal.wait_for("found wanting").await;
    terminal.wait_for(READY).await;
    terminal.enter("go on").await;
    terminal.wait_for("On from there.").await;
    let body = model.requests().pop().unwrap().body_text().into_owned();
    assert!(body.contains("Wrote one.") && body.contains("found wanting") && !body.contains("Wrote two."), "{body}");
    assert_eq!(world.read("a.txt"), "two\n", "files stay");
}
