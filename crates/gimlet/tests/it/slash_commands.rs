//! Slash commands of the real binary: in print mode, for programs, and on the page that lists them.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use gimlet_script::Script;
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::sdk::SdkHost;
use crate::world;

/// Runs a command in print mode against a model that has no reply, so that a request would fail the run.
async fn print_command(world: &TestWorld, command: &str, args: &[&str]) -> RunOutput {
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).print_text(command).args(args.iter().copied()).finish().await;
    assert_eq!(model.requests().len(), 0, "{command} sent a request");
    run
}

async fn expect_error(world: &TestWorld, command: &str, parts: &[&str]) {
    let run = print_command(world, command, &[]).await;
    run.expect_code(1);
    assert!(run.stdout.starts_with("Error: ") && parts.iter().all(|part| run.stdout.contains(part)), "{}", run.stdout);
}

#[tokio::test]
async fn commands_answer_in_print_mode_without_a_request() {
    let world = world();
    for (command, parts) in [
        ("/cost", &["Total cost: $0.00. No request was sent yet."][..]),
        (" /usage\n", &["Total cost: $0.00"]),
        ("/context", &["claude-sonnet-5-5: ", "System prompt", "System tools", "Free space", " %"]),
        ("/model", &["Model: claude-sonnet-5-5", "default", "sonnet", "opus", "haiku"]),
        ("/model opus", &["The model is claude-opus-"]),
        ("/model vendor/some-model:7", &["vendor/some-model:7", "not in the catalogue"]),
        ("/effort", &["Effort: the model's default", "low", "high", "auto"]),
        ("/effort low", &["Effort is low for this session"]),
        (
            "/status",
            &["gimlet ", "claude-sonnet-5-5", "default", "ANTHROPIC_API_KEY", ".claude/settings.json", "not there"],
        ),
        ("/help", &["/clear", "(also /reset, /new)", "/config [key[=value]]", "/rename [title]"]),
        ("/config", &["no settings"]),
    ] {
        let run = print_command(&world, command, &[]).await;
        run.expect_code(0);
        assert_eq!(run.stderr, "", "{command}");
        assert!(parts.iter().all(|part| run.stdout.contains(part)), "{command}: {}", run.stdout);
    }
    assert!(world.transcripts().is_empty(), "a command is no conversation");
    let status = print_command(&world, "/status", &[]).await.stdout;
    assert!(status.contains(&world.project.display().to_string()), "{status}");
}

#[tokio::test]
async fn a_bad_argument_is_an_error_with_the_valid_values() {
    let world = world();
    expect_error(&world, "/effort silly", &["'silly'", "low", "medium", "high", "auto"]).await;
    expect_error(&world, "/model sonet", &["'sonet'", "sonnet", "opus", "id of a model"]).await;
    expect_error(&world, "/model two words", &["two words", "sonnet"]).await;
    expect_error(&world, "/config modle", &["there is no setting modle; did you mean model?"]).await;
    expect_error(&world, "/config effortLevel=silly", &["effortLevel", "low", "high"]).await;
    expect_error(&world, "/config model=", &["/config model=value"]).await;
    expect_error(&world, "/clear", &["without --resume"]).await;
    expect_error(&world, &format!("/rename {}", "x".repeat(5_000)), &["title"]).await;
    let run = print_command(&world, "/model opus", &["--settings", r#"{"availableModels": ["sonnet"]}"#]).await;
    run.expect_code(1);
    assert!(run.stdout.contains("may not be used here") && run.stdout.contains("sonnet"), "{}", run.stdout);
}

#[tokio::test]
async fn config_sets_a_setting_of_the_user_and_shows_where_values_come_from() {
    let world = world();
    let file = world.home.join(".claude/settings.json");
    let run = print_command(&world, "/config effortLevel=low", &[]).await;
    run.expect_code(0);
    assert_eq!(run.stdout, format!("effortLevel set in {}\n", file.display()));
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(saved, json!({"effortLevel": "low"}));
    let shown = print_command(&world, "/config effortLevel", &[]).await;
    assert_eq!(shown.expect_code(0).stdout, format!("effortLevel = \"low\"\n    {}:2 (user)\n", file.display()));
    let of_run = print_command(&world, "/config", &["--settings", r#"{"effortLevel": "high"}"#]).await;
    assert!(of_run.stdout.starts_with("effortLevel = \"high\"\n"), "{}", of_run.stdout);
    let status = print_command(&world, "/status", &[]).await.stdout;
    assert!(status.contains(&format!("read       {}", file.display())), "{status}");
    let refused = print_command(&world, "/config effortLevel=high", &["--setting-sources", "project"]).await;
    refused.expect_code(1);
    assert!(refused.stdout.contains("does not read"), "{}", refused.stdout);
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(saved, json!({"effortLevel": "low"}));
}

#[tokio::test]
async fn a_resumed_session_is_renamed_and_its_cost_includes_earlier_runs() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("hi").finish().await;
    let id = run.result()["session_id"].as_str().unwrap().to_owned();
    let cost = print_command(&world, "/cost", &["--resume", &id]).await;
    cost.expect_code(0);
    assert!(cost.stdout.contains("claude-sonnet-5-5") && !cost.stdout.contains("$0.00."), "{}", cost.stdout);
    let none = print_command(&world, "/rename", &["--resume", &id]).await;
    assert_eq!(none.expect_code(0).stdout, "This session has no title. /rename <title> sets one\n");
    print_command(&world, "/rename the parser", &["--resume", &id]).await.expect_code(0);
    let shown = print_command(&world, "/rename", &["--resume", &id]).await;
    assert_eq!(shown.stdout, "This session is called: the parser\n");
    let unsaved = print_command(&world, "/rename x", &["--no-session-persistence"]).await;
    assert!(unsaved.expect_code(1).stdout.contains("not kept"), "{}", unsaved.stdout);
}

#[tokio::test]
async fn json_formats_carry_the_output_of_a_command() {
    let world = world();
    let run = print_command(&world, "/cost", &["--output-format", "json"]).await;
    let result = run.expect_code(0).json();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)));
    assert_eq!((&result["num_turns"], &result["duration_api_ms"]), (&json!(0), &json!(0)));
    assert_eq!(result["result"], "Total cost: $0.00. No request was sent yet.");
    assert!(result.get("terminal_reason").is_none(), "{result}");

    let run = print_command(&world, "/cost", &["--output-format", "stream-json"]).await;
    let lines = run.expect_code(0).lines();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["system", "system", "result"]);
    let listed = lines[0]["slash_commands"].as_array().unwrap();
    assert!(["clear", "cost", "usage", "config", "status"].iter().all(|name| listed.contains(&json!(name))));
    assert_eq!((&lines[1]["subtype"], &lines[1]["content"]), (&json!("local_command_output"), &lines[2]["result"]));

    let run = print_command(&world, "/effort silly", &["--output-format", "json"]).await;
    let result = run.expect_code(1).json();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("error_during_execution"), &json!(true)));
    assert!(result["errors"][0].as_str().unwrap().contains("'silly'") && result.get("result").is_none(), "{result}");
}

#[tokio::test]
async fn text_in_the_form_of_an_unknown_command_is_sent_with_a_reminder() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).print_text("/csot of it").finish().await;
    run.expect_code(0);
    assert_eq!(run.stderr, "gimlet: there is no command /csot; did you mean /cost? The text was sent as a prompt\n");
    let sent = model.request(0).last_user_text();
    assert!(sent.ends_with("/csot of it") && sent.contains("There is no command /csot"), "{sent}");

    // A path is no command, and neither is what a pipe brings behind the prompt.
    for (prompt, piped) in [("/tmp is full", ""), ("/usr/bin/x fails", ""), ("look", "/cost\n")] {
        let model = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&model).print_text(prompt).stdin(piped).finish().await;
        assert_eq!(run.expect_code(0).stderr, "", "{prompt}");
        assert!(!model.request(0).last_user_text().contains("no command"), "{prompt}");
    }
}

#[tokio::test]
async fn programs_get_the_output_of_commands_without_a_request() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--replay-user-messages"]));
    host.say("hi");
    host.result().await;
    host.say("/cost");
    let output = host.until(|line| line["subtype"] == "local_command_output").await;
    assert!(output["content"].as_str().unwrap().contains("claude-sonnet-5-5"), "{output}");
    let echo = host.until(|line| line["isReplay"] == true).await;
    let echoed = format!("<local-command-stdout>{}</local-command-stdout>", output["content"].as_str().unwrap());
    assert_eq!(echo["message"]["content"], echoed);
    let result = host.result().await;
    assert_eq!((&result["result"], &result["num_turns"]), (&output["content"], &json!(0)));
    host.say("/model opus");
    assert_eq!(host.result().await["subtype"], "success");
    host.say("/rename from inside");
    assert_eq!(host.result().await["subtype"], "success");
    host.say("/effrot high");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert!(init["model"].as_str().unwrap().starts_with("claude-opus-"), "{init}");
    assert_eq!(host.result().await["result"], "two");
    let end = host.end().await;
    assert!(end.output.stderr.contains("gimlet: there is no command /effrot; did you mean /effort?"));
    assert_eq!(model.requests().len(), 2);
    assert!(model.request(1).model().starts_with("claude-opus-"));
    let entries = world.transcript_entries();
    assert!(entries.iter().any(|entry| entry["customTitle"] == "from inside"));
    assert!(!entries.iter().any(|entry| entry.to_string().contains("/cost")), "a command is no part of the history");
}

/// The page lists what `initialize` announces: name, arguments, aliases and description of every command.
#[tokio::test]
async fn the_page_of_commands_lists_what_programs_are_told() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let response = host.send_request(json!({"subtype": "initialize"})).await;
    host.end().await;
    let commands = response["response"]["commands"].as_array().unwrap().clone();
    let row = |command: &Value| {
        let text = |member: &str| command[member].as_str().unwrap();
        let usage = format!("/{} {}", text("name"), text("argumentHint"));
        let aliases: Vec<String> = command["aliases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| format!("`/{}`", name.as_str().unwrap()))
            .collect();
        let aliases = if aliases.is_empty() { "–".to_owned() } else { aliases.join(", ") };
        format!("| `{}` | {aliases} | {} |\n", usage.trim_end(), text("description"))
    };
    let table: String = commands.iter().map(row).collect();
    let page = include_str!("../../../../docs/commands.md");
    assert!(commands.len() >= 9 && page.contains(&table), "docs/commands.md needs these rows:\n{table}");
    let rows = page.lines().filter(|line| line.starts_with("| `/")).count();
    assert_eq!(rows, commands.len(), "docs/commands.md lists a command that does not exist");
}
