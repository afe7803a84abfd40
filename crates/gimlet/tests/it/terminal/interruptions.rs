//! Stopping, waiting prompts, and a terminal that changes its size meanwhile.

use gimlet_script::{Fault, FaultPoint};
use serde_json::json;

use super::*;

fn stalls_between_blocks() -> Fault {
    Fault::Stall { at: FaultPoint::BetweenBlocks, ping_every_ms: None, for_ms: None }
}

#[tokio::test]
async fn escape_stops_the_model_and_the_next_prompt_is_sent() {
    let world = world();
    let script = Script::new()
        .say("The first half. ")
        .say("Never said.")
        .fault(stalls_between_blocks())
        .then()
        .say("On to the next.");
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("go").await;
    terminal.wait_for("The first half.").await;
    terminal.enter("then this").await;
    terminal.wait_for("1 queued").await;
    terminal.press(&["Escape"]);
    terminal.wait_for("On to the next.").await;
    let all = terminal.everything();
    assert!(all.contains("❯ then this") && all.contains("The first half.") && !all.contains("Never said."), "{all}");
    assert!(model.request(1).body_text().contains("then this"));
}

#[tokio::test]
async fn a_waiting_prompt_comes_back_with_the_up_key() {
    let world = world();
    let script = Script::new().say("Half. ").say("Never said.").fault(stalls_between_blocks());
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("go").await;
    terminal.wait_for("Half.").await;
    terminal.enter("not like this").await;
    terminal.wait_for("1 queued").await;
    terminal.press(&["Up"]);
    terminal.wait_until_gone("1 queued").await;
    terminal.wait_for("❯ not like this").await;
    terminal.type_text("!");
    terminal.wait_for("not like this!").await;
    terminal.press(&["C-c"]);
    terminal.wait_for("Interrupted").await;
    assert!(terminal.screen().contains("not like this!"), "an interrupt leaves the input alone");
}

#[tokio::test]
async fn every_line_is_in_the_scrollback_once_although_the_size_changes() {
    let world = world();
    let lines: String = (0..300).map(|number| format!("row {number:03} of the list\n\n")).collect();
    let model = serve(Script::new().say(&lines)).await;
    let spec = TerminalSpec { columns: 100, rows: 30, ..TerminalSpec::default() };
    let terminal = TmuxTerminal::start_with(&world, &model, &spec);
    terminal.wait_for(READY).await;
    terminal.enter("list them").await;
    terminal.tmux(&["resize-window", "-t", "main", "-x", "70", "-y", "20"]);
    terminal.wait_for("row 299").await;
    terminal.wait_for(READY).await;
    let all = terminal.everything();
    for number in 0..300 {
        let wanted = format!("row {number:03} of the list");
        assert_eq!(all.matches(&wanted).count(), 1, "{wanted} in\n{all}");
    }
}

#[tokio::test]
async fn a_running_command_goes_on_in_the_background() {
    let world = world();
    let command = "while true; do echo tick >> ticks; sleep 0.5; done";
    let script = Script::new().call("Bash", json!({"command": command})).then().say("On with other things.");
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(&world, &model, "--dangerously-skip-permissions");
    terminal.wait_for(READY).await;
    terminal.enter("wait for it").await;
    wait_until("the command runs", || world.project.join("ticks").exists()).await;
    terminal.wait_for("Running").await;
    terminal.press(&["C-b"]);
    terminal.wait_for("On with other things.").await;
    terminal.wait_for(READY).await;
    terminal.wait_for("╰ Command  while true").await;
    terminal.enter("/tasks").await;
    terminal.wait_for("Agents and background commands").await;
    terminal.type_text("x");
    terminal.wait_for("Stopped b1").await;
    terminal.wait_until_gone("╰ Command  while true").await;
}
