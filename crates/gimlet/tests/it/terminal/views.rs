//! Views of a conversation: the whole of it, what agents do, what fills the window and what it cost.

use serde_json::json;

use super::*;

#[tokio::test]
async fn the_transcript_shows_thinking_and_pages_give_way_to_the_prompt() {
    let world = world();
    let model = serve(Script::new().think("Seven is prime.").say("It is seven.")).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("which number?").await;
    terminal.wait_for("It is seven.").await;
    terminal.wait_for(READY).await;
    terminal.press(&["C-o"]);
    terminal.wait_for("Seven is prime.").await;
    let clock = |screen: &str| {
        let last = screen.lines().find(|line| line.contains("which number?")).and_then(|line| line.rsplit(' ').next());
        last.is_some_and(|time| time.len() == 8 && time.matches(':').count() == 2)
    };
    assert!(clock(&terminal.screen()), "{}", terminal.screen());
    terminal.press(&["q"]);
    terminal.wait_for(READY).await;
    for (command, shown) in [("/context", "System prompt"), ("/cost", "so far")] {
        terminal.enter(command).await;
        terminal.wait_for(shown).await;
        terminal.press(&["Escape"]);
        terminal.wait_for(READY).await;
        terminal.wait_until_gone(shown).await;
    }
    assert_eq!(model.requests().len(), 1, "looking sends nothing");
    assert!(terminal.screen().contains("It is seven."), "and the conversation stands where it stood");
}

#[tokio::test]
async fn an_agent_is_looked_into_and_stopped() {
    let world = world();
    let task =
        json!({"description": "look around", "prompt": "Look at everything.", "subagent_type": "general-purpose"});
    let script = Script::new()
        .call("Agent", task)
        .then()
        .call("Bash", json!({"command": "tail -f README.md"}))
        .then()
        .say("It was stopped.");
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(&world, &model, "--allowedTools 'Bash(tail:*)'");
    terminal.wait_for(READY).await;
    terminal.enter("send one").await;
    terminal.wait_for("Bash tail -f README.md").await;
    terminal.wait_for("1 tool").await;
    terminal.enter("/tasks").await;
    terminal.wait_for("Agents and background commands").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("❯ Look at everything.").await;
    terminal.wait_for("m message").await;
    terminal.press(&["x"]);
    terminal.wait_for("It was stopped.").await;
}
