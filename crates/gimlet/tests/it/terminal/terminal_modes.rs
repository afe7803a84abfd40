//! What the terminal is left with, and terminals that cannot do everything.

use super::*;

#[tokio::test]
async fn a_signal_gives_the_terminal_back() {
    let world = world();
    let model = serve(Script::new()).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    let shell = terminal.tmux(&["list-panes", "-F", "#{pane_pid}"]);
    let parent = shell.trim().to_owned();
    signal_child(&parent, "TERM");
    let end = terminal.wait_for_end().await;
    assert_eq!(end.lines().collect::<Vec<_>>(), ["143", "0"], "exit code, and lines of stty that say raw");
    assert!(!terminal.screen().contains(READY), "{}", terminal.screen());
}

#[allow(clippy::disallowed_methods, reason = "the test stands for a user at another terminal")]
fn signal_child(parent: &str, signal: &str) {
    let done = Command::new("pkill").args([&format!("-{signal}"), "-P", parent, "gimlet"]).status();
    assert!(done.is_ok_and(|status| status.success()));
}

#[tokio::test]
async fn a_transcript_opens_on_a_screen_of_its_own() {
    let world = world();
    let model = serve(Script::new().say("A long story.")).await;
    let terminal = TmuxTerminal::start(&world, &model, "'tell it'");
    terminal.wait_for("A long story.").await;
    terminal.wait_for(READY).await;
    terminal.press(&["C-o"]);
    terminal.wait_for("Transcript").await;
    assert!(!terminal.screen().contains(READY));
    terminal.press(&["q"]);
    terminal.wait_for(READY).await;
    assert!(terminal.screen().contains("A long story."));
}

#[tokio::test]
async fn narrow_terminals_and_those_without_unicode_show_the_input() {
    let world = world();
    let model = serve(Script::new().say("Short answer.")).await;
    let spec = TerminalSpec { columns: 40, rows: 15, env: "LC_ALL=C NO_COLOR=1", ..TerminalSpec::default() };
    let terminal = TmuxTerminal::start_with(&world, &model, &spec);
    terminal.wait_for("Ask, or type /").await;
    let screen = terminal.screen();
    assert!(screen.is_ascii(), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 40));
    terminal.enter("hi").await;
    terminal.wait_for("Short answer.").await;
}

#[tokio::test]
async fn a_terminal_without_cursor_movement_gets_lines() {
    let world = world();
    let model = serve(Script::new().say("In lines.")).await;
    let spec = TerminalSpec { args: "'say it'", env: "TERM=dumb", ..TerminalSpec::default() };
    let terminal = TmuxTerminal::start_with(&world, &model, &spec);
    terminal.wait_for("In lines.").await;
    let end = terminal.wait_for_end().await;
    assert!(end.starts_with('0'), "{end}");
}

#[tokio::test]
async fn the_interrupt_key_leaves_when_it_is_pressed_twice() {
    let world = world();
    let model = serve(Script::new()).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.type_text("a draft");
    terminal.wait_for("a draft").await;
    terminal.press(&["C-c"]);
    terminal.wait_for(READY).await;
    terminal.press(&["C-c", "C-c"]);
    let end = terminal.wait_for_end().await;
    assert_eq!(end.lines().collect::<Vec<_>>(), ["0", "0"], "exit code, and lines of stty that say raw");
}

#[tokio::test]
async fn a_suspended_session_comes_back_with_its_draft() {
    let world = world();
    let model = serve(Script::new().say("Awake again.")).await;
    let terminal = TmuxTerminal::start_in_shell(&world, &model, &TerminalSpec::default());
    terminal.wait_for("shell>").await;
    terminal.type_text("gimlet");
    terminal.press(&["Enter"]);
    terminal.wait_for(READY).await;
    terminal.type_text("half a prompt");
    terminal.wait_for("❯ half a prompt").await;
    terminal.press(&["C-z"]);
    terminal.wait_for("Stopped").await;
    assert!(!terminal.screen().contains("half a prompt"), "{}", terminal.screen());
    terminal.type_text("echo \"in the $((1 + 1))nd program\"");
    terminal.press(&["Enter"]);
    terminal.wait_for("in the 2nd program").await;
    terminal.type_text("fg");
    terminal.press(&["Enter"]);
    terminal.wait_for("❯ half a prompt").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("Awake again.").await;
    assert!(model.request(0).last_user_text().contains("half a prompt"));
    terminal.wait_for(READY).await;
    terminal.press(&["C-d", "C-d"]);
    terminal.wait_for("Go on with this conversation").await;
    terminal.type_text("stty -a | grep -c -w -- '-icanon'");
    terminal.press(&["Enter"]);
    terminal.wait_for_screen("the count", |screen| screen.lines().any(|line| line == "0")).await;
}
