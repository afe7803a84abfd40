//! Commands of the terminal front end that reach beyond it: keys, copies, side questions, files in the editor, rules.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use std::os::unix::fs::PermissionsExt;

use gimlet_script::ExpectedRequest;
use serde_json::{Value, json};

use super::*;

/// Makes an editor that replaces the content of its file.
fn editor_that_writes(world: &TestWorld, content: &str) -> String {
    let wanted = world.home.join("wanted");
    std::fs::write(&wanted, content).unwrap();
    let script = world.home.join("editor");
    std::fs::write(&script, format!("#!/bin/sh\ncp '{}' \"$1\"\n", wanted.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("EDITOR='{}'", script.display())
}

#[tokio::test]
async fn a_first_start_asks_for_a_key_and_later_ones_have_it() {
    let world = world();
    let script =
        Script::new().key("sk-the-right-one").say("yes").then().say("Hello at last.").then().say("Hello again.");
    let model = serve(script).await;
    let spec = TerminalSpec { key: None, ..TerminalSpec::default() };
    let terminal = TmuxTerminal::start_with(&world, &model, &spec);
    terminal.wait_for("found no API key").await;
    terminal.type_text("sk-a-wrong-one");
    terminal.wait_for("••••••••").await;
    terminal.press(&["Enter", "Enter"]);
    terminal.wait_for("does not accept this key").await;
    assert!(!terminal.screen().contains("wrong-one"), "{}", terminal.screen());
    terminal.type_text("sk-the-right-one");
    terminal.wait_for("••••••••").await;
    terminal.press(&["Enter", "Enter"]);
    terminal.wait_for(READY).await;
    terminal.enter("hello").await;
    terminal.wait_for("Hello at last.").await;
    terminal.wait_for(READY).await;
    terminal.enter("/exit").await;
    terminal.wait_for_end().await;
    let file = world.home.join(".claude/gimlet/gimlet-credentials.json");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!terminal.everything().contains("sk-the-right-one"));

    let again = TmuxTerminal::start_with(&world, &model, &spec);
    again.wait_for(READY).await;
    again.enter("hello again").await;
    again.wait_for("Hello again.").await;
    again.wait_for(READY).await;
    again.enter("/logout").await;
    again.wait_for("is removed").await;
    assert!(!std::fs::read_to_string(file).unwrap().contains("sk-the-right-one"));
}

#[tokio::test]
async fn who_gives_no_key_is_told_the_ways_to_start() {
    let world = world();
    let model = serve(Script::new()).await;
    let terminal = TmuxTerminal::start_with(&world, &model, &TerminalSpec { key: None, ..TerminalSpec::default() });
    terminal.wait_for("found no API key").await;
    terminal.press(&["Escape"]);
    let end = terminal.wait_for_end().await;
    assert!(end.starts_with('1'), "{end}");
    assert!(terminal.everything().contains("Three ways to get started"), "{}", terminal.everything());
}

#[tokio::test]
async fn a_side_question_is_answered_while_the_model_works_and_leaves_no_trace() {
    let world = world();
    let aside = ExpectedRequest { system_contains: Some("side question".to_owned()), ..ExpectedRequest::default() };
    let script = Script::new()
        .when(aside)
        .say("It is **seven**.")
        .then()
        .call("Bash", json!({"command": "until [ -e go ]; do sleep 0.1; done"}))
        .then()
        .say("The work is done.");
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(&world, &model, "--dangerously-skip-permissions");
    terminal.wait_for(READY).await;
    terminal.enter("work").await;
    terminal.wait_for("Running").await;
    terminal.enter("/btw what was the number?").await;
    terminal.wait_for("It is seven.").await;
    terminal.press(&["Escape"]);
    terminal.wait_for(READY).await;
    world.file("go", "");
    terminal.wait_for("The work is done.").await;
    let last = model.requests().pop().unwrap().body_text().into_owned();
    assert!(!last.contains("what was the number") && !last.contains("seven"), "{last}");
}

#[tokio::test]
async fn a_branch_is_a_copy_with_a_transcript_of_its_own() {
    let world = world();
    let model = serve(Script::new().say("First answer.").then().say("Second answer.")).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("first question").await;
    terminal.wait_for("First answer.").await;
    terminal.wait_for(READY).await;
    terminal.enter("/branch another way").await;
    terminal.wait_for("This is a copy now").await;
    terminal.enter("second question").await;
    terminal.wait_for("Second answer.").await;
    assert!(model.request(1).body_text().contains("First answer."));
    let transcripts = world.transcripts();
    assert_eq!(transcripts.len(), 2);
    let has_second = |path: &PathBuf| std::fs::read_to_string(path).unwrap().contains("second question");
    assert_eq!(transcripts.iter().filter(|path| has_second(path)).count(), 1, "the original has nothing of it");
}

#[tokio::test]
async fn memory_and_keys_are_changed_in_the_editor() {
    let world = world();
    let model = serve(Script::new().say("Read.")).await;
    let editor = editor_that_writes(&world, "Always be brief.\n");
    let spec = TerminalSpec { env: &editor, ..TerminalSpec::default() };
    let terminal = TmuxTerminal::start_with(&world, &model, &spec);
    terminal.wait_for(READY).await;
    terminal.enter("/memory").await;
    terminal.wait_for("Memory: open in your editor").await;
    terminal.wait_for("project/CLAUDE.md").await;
    let rows = terminal.screen();
    let row = rows.lines().find(|line| line.contains("project/CLAUDE.md")).unwrap();
    let digit = row.trim_start_matches([' ', '❯']).chars().next().unwrap();
    terminal.type_text(&digit.to_string());
    terminal.wait_for("Closed").await;
    assert_eq!(world.read("CLAUDE.md"), "Always be brief.\n");

    std::fs::write(
        world.home.join("wanted"),
        json!({"bindings": [{"context": "Chat", "bindings": {"ctrl+y": "chat:stash", "f2": "no:action"}}]}).to_string(),
    )
    .unwrap();
    terminal.wait_for(READY).await;
    terminal.enter("/keybindings").await;
    terminal.wait_for("no:action").await;
    terminal.wait_for(READY).await;
    terminal.type_text("put this aside");
    terminal.wait_for("❯ put this aside").await;
    terminal.press(&["C-y"]);
    terminal.wait_for("ctrl+y brings back the draft").await;
    terminal.press(&["C-y"]);
    terminal.wait_for("❯ put this aside").await;
}

#[tokio::test]
async fn a_rule_is_added_with_its_effect_and_removed_again() {
    let world = world();
    let script = Script::new()
        .call("Bash", json!({"command": "touch made"}))
        .then()
        .say("Made.")
        .then()
        .call("Bash", json!({"command": "touch made"}))
        .then()
        .say("Made again.");
    let model = serve(script).await;
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("make it").await;
    terminal.wait_for("❯ 1  Yes").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("Made.").await;
    terminal.wait_for(READY).await;
    terminal.enter("/permissions").await;
    terminal.wait_for("❯ 1  Add a rule").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("Add a permission rule").await;
    terminal.press(&["Down"]);
    terminal.type_text("Bash(touch *)");
    terminal.wait_for("Rule *: Bash(touch *)").await;
    terminal.press(&["Down", "Down", "Enter"]);
    terminal.wait_for("Save this rule?").await;
    terminal.wait_for("would now be allowed: 1 call").await;
    terminal.press(&["Enter"]);
    terminal.wait_for(READY).await;
    wait_until("the rule is saved", || world.project.join(".claude/settings.local.json").exists()).await;
    let saved = || -> Value { serde_json::from_str(&world.read(".claude/settings.local.json")).unwrap() };
    assert_eq!(saved()["permissions"]["allow"], json!(["Bash(touch *)"]));
    terminal.enter("and again").await;
    terminal.wait_for("Made again.").await;
    terminal.wait_for(READY).await;
    terminal.enter("/permissions").await;
    terminal.wait_for("allow  Bash(touch *)").await;
    terminal.press(&["Down"]);
    terminal.wait_for("❯ 2").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("❯ 1  Remove it").await;
    terminal.press(&["Enter"]);
    terminal.wait_for("Yes, remove it").await;
    terminal.wait_for("would now ask").await;
    terminal.press(&["Enter"]);
    wait_until("the rule is gone", || !saved().to_string().contains("touch")).await;
}

#[tokio::test]
async fn folders_are_added_and_changed_and_decisions_explained() {
    let world = world();
    let script = Script::new().call("Bash", json!({"command": "pwd"})).then().say("That is the folder.");
    let model = serve(script).await;
    let other = world.home.parent().unwrap().join("other");
    std::fs::create_dir_all(other.join("inner")).unwrap();
    let terminal = TmuxTerminal::start(&world, &model, "");
    terminal.wait_for(READY).await;
    terminal.enter("/cd ../other/inner").await;
    terminal.wait_for("lies outside the session's folders").await;
    terminal.enter("/add-dir ../other").await;
    terminal.wait_for("for this session").await;
    terminal.enter("/cd ../other/inner").await;
    terminal.wait_for("Commands now start in").await;
    terminal.enter("where are we?").await;
    terminal.wait_for("That is the folder.").await;
    let result = model.request(1).tool_result(0).to_owned();
    assert!(result.contains("other/inner"), "{result}");
    assert!(model.request(0).body_text().contains("The user changed the working directory"));
    terminal.wait_for(READY).await;
    terminal.enter("/why").await;
    terminal.wait_for("Show one in full: /why NUMBER").await;
    terminal.enter("/doctor").await;
    terminal.wait_for("Programs").await;
}
