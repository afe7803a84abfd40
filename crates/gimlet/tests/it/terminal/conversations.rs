//! Prompts, answers, questions, and going on with an earlier conversation.

use serde_json::json;

use super::*;

#[tokio::test]
async fn a_prompt_is_answered_and_the_terminal_is_given_back() {
    let world = world();
    let model = serve(Script::new().say("The answer is **42**.")).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.wait_for("? for keys, / for commands").await;
    terminal.enter("what is it?").await;
    terminal.wait_for("The answer is").await;
    terminal.wait_for(READY).await;
    assert!(model.request(0).last_user_text().contains("what is it?"));
    terminal.press(&["C-d", "C-d"]);
    let end = terminal.wait_for_end().await;
    assert_eq!(end.lines().collect::<Vec<_>>(), ["0", "0"], "exit code, and lines of stty that say raw");
    let all = terminal.everything();
    assert!(all.contains("❯ what is it?") && all.contains("Go on with this conversation: gimlet --resume"), "{all}");
    assert!(!all.contains(READY), "nothing of the input stays:\n{all}");
}

#[tokio::test]
async fn the_prompt_of_the_command_line_is_sent() {
    let world = world();
    let model = serve(Script::new().say("Read it.")).await;
    let terminal = TmuxTerminal::start(&world, &model, "'please read this'");
    terminal.wait_for("Read it.").await;
    assert!(terminal.screen().contains("❯ please read this"));
}

#[tokio::test]
async fn a_command_is_approved_and_another_refused_with_a_comment() {
    let world = world();
    let script = Script::new()
        .call("Bash", json!({"command": "touch first"}))
        .then()
        .call("Bash", json!({"command": "touch second"}))
        .then()
        .say("As you wish.");
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("make them").await;
    terminal.wait_for("touch first").await;
    terminal.wait_for("❯ 1").await;
    assert!(!world.project.join("first").exists());
    terminal.press(&["Enter"]);
    terminal
        .wait_for_screen("the second question", |screen| {
            screen.lines().any(|line| line.contains("touch second")) && screen.contains("❯ 1")
        })
        .await;
    assert!(world.project.join("first").exists());
    terminal.type_text("3");
    terminal.wait_for("❯ 3").await;
    terminal.type_text("use a third one");
    terminal.wait_for("use a third one").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("As you wish.").await;
    assert!(!world.project.join("second").exists());
    let result = model.request(2).tool_result(0).to_owned();
    assert!(result.contains("use a third one"), "{result}");
}

#[tokio::test]
async fn a_resumed_session_shows_what_was_said() {
    let world = world();
    let first = serve(Script::new().say("Remember the number seven.")).await;
    let terminal = TmuxTerminal::start(&world, &first, "");
    terminal.wait_for(READY).await;
    terminal.enter("tell me something").await;
    terminal.wait_for("the number seven").await;
    terminal.wait_for(READY).await;
    terminal.enter("/exit").await;
    terminal.wait_for_end().await;

    let second = serve(Script::new().say("It was seven.")).await;
    let again = TmuxTerminal::start(&world, &second, "--continue");
    again.wait_for("the number seven").await;
    assert!(again.everything().contains("❯ tell me something"));
    again.enter("which number?").await;
    again.wait_for("It was seven.").await;
    assert!(second.request(0).body_text().contains("Remember the number seven."));

    again.wait_for(READY).await;
    again.enter("/exit").await;
    again.wait_for_end().await;

    let third = serve(Script::new().say("never asked")).await;
    let picking = TmuxTerminal::start(&world, &third, "--resume");
    picking.wait_for("Resume a session").await;
    picking.press(&["Enter"]);
    picking.wait_for("It was seven.").await;
    picking.wait_for(READY).await;
}

#[tokio::test]
async fn clearing_begins_anew_and_keeps_the_scrollback() {
    let world = world();
    let model = serve(Script::new().say("Old answer.").then().say("New answer.")).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("old question").await;
    terminal.wait_for("Old answer.").await;
    terminal.wait_for(READY).await;
    terminal.enter("/clear").await;
    terminal.wait_until_gone("Old answer.").await;
    terminal.wait_for(READY).await;
    assert!(terminal.everything().contains("Old answer."), "earlier lines are in the scrollback");
    terminal.enter("new question").await;
    terminal.wait_for("New answer.").await;
    assert!(!model.request(1).body_text().contains("old question"));
    assert_eq!(world.transcripts().len(), 2);
}
