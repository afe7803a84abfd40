//! Agents of files end to end: where they are found, what their fields do, what waits for trust, and what happens when
//! they change.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

use std::path::PathBuf;

use gimlet_script::{ExpectedRequest, Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld, entries_of};
use serde_json::{Value, json};

use crate::world;

/// Writes an agent into the user's folder.
fn write_user_agent(world: &TestWorld, name: &str, fields: &str, prompt: &str) -> PathBuf {
    let folder = world.home.join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}.md"));
    std::fs::write(&file, agent_text(name, fields, prompt)).unwrap();
    file
}

fn agent_text(name: &str, fields: &str, prompt: &str) -> String {
    format!("---\nname: {name}\ndescription: Use {name} for it\n{fields}---\n\n{prompt}\n")
}

fn launch(kind: &str) -> Value {
    json!({"description": "Do it", "prompt": "Do the task.", "subagent_type": kind})
}

/// A session in which the main conversation launches an agent that answers at once.
async fn serve_launch(kind: &str) -> ScriptServer {
    Script::new().call("Agent", launch(kind)).then().say("It is done.").then().say("ok").serve().await.unwrap()
}

async fn run_launch(world: &TestWorld, kind: &str, args: &[&str]) -> (ScriptServer, RunOutput) {
    let model = serve_launch(kind).await;
    let run = world.run(&model).stream("go").args(args.iter().copied()).finish().await;
    run.expect_code(0);
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
    (model, run)
}

#[tokio::test]
async fn the_definition_with_the_highest_precedence_is_used() {
    let world = world();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    write_user_agent(&world, "one", "", "One of the user.");
    write_user_agent(&world, "two", "", "Two of the user.");
    write_user_agent(&world, "three", "", "Three of the user.");
    write_user_agent(&world, "Explore", "", "Exploring of the user.");
    world.file(".claude/agents/deep/er/two.md", agent_text("two", "", "Two of the project."));
    world.file(".claude/agents/three.md", agent_text("three", "", "Three of the project."));
    world.file("sub/.claude/agents/three.md", agent_text("three", "", "Three of the folder."));
    let flag = json!({"two": {"description": "d", "prompt": "Two of the flag."}}).to_string();
    let sub = world.project.join("sub");
    for (kind, args, cwd, prompt) in [
        ("one", &[][..], &world.project, "One of the user."),
        ("two", &[], &world.project, "Two of the project."),
        ("two", &["--agents", &flag], &world.project, "Two of the flag."),
        ("three", &[], &world.project, "Three of the project."),
        ("three", &[], &sub, "Three of the folder."),
        ("Explore", &[], &world.project, "Exploring of the user."),
        ("two", &["--setting-sources", "user"], &world.project, "Two of the user."),
    ] {
        let model = serve_launch(kind).await;
        let run = world.run(&model).stream("go").args(args.iter().copied()).cwd(cwd).finish().await;
        run.expect_code(0);
        let system = model.request(1).system_text();
        assert!(system.starts_with(prompt), "{kind} {args:?}: {system}");
        let agents = run.lines()[0]["agents"].clone();
        assert_eq!(agents.as_array().unwrap().iter().filter(|name| *name == kind).count(), 1, "{agents}");
    }
}

#[tokio::test]
async fn the_fields_of_an_agent_of_the_user_all_count() {
    let world = world();
    let fields = "tools: Read, Bash\nmodel: opus\neffort: high\nmaxTurns: 2\ncolor: red\nmemory: user\n";
    write_user_agent(&world, "worker", fields, "You work.");
    let notes = world.home.join(".claude/agent-memory/worker");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join("MEMORY.md"), "- builds need two cores\n").unwrap();
    let note = json!({"file_path": notes.join("more.md"), "content": "learned"});
    let model = Script::new()
        .call("Agent", launch("worker"))
        .then()
        .call("Write", note)
        .then()
        .call("Read", json!({"file_path": notes.join("more.md")}))
        .then()
        .say("ok")
        .serve()
        .await
        .unwrap();
    let args = ["-p", "--append-subagent-system-prompt", "--Answer in one line.", "--", "go"];
    let run = world.run(&model).args(args).without_env("CLAUDE_CODE_DISABLE_AUTO_MEMORY");
    run.finish().await.expect_code(0);
    let sent = model.request(1);
    assert!(sent.model().contains("opus"), "{}", sent.model());
    assert_eq!(sent.json()["output_config"]["effort"], "high");
    assert_eq!(sent.tool_names(), ["Bash", "Read", "Write", "Edit"], "its tools, and those that its memory needs");
    let system = sent.system_text();
    assert!(system.contains("You work.") && system.contains("- builds need two cores"), "{system}");
    assert!(system.ends_with("--Answer in one line."), "{system}");
    assert!(!model.request(0).system_text().contains("Answer in one line"), "it is for agents alone");
    assert_eq!(std::fs::read_to_string(notes.join("more.md")).unwrap(), "learned", "no question is asked there");
    assert!(model.request(3).tool_result(0).contains("limit of 2 turns"), "{:?}", model.request(3).tool_results());
    let model = serve_launch("worker").await;
    let off = world.run(&model).stream("go").env("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1");
    off.finish().await.expect_code(0);
    assert!(!model.request(1).system_text().contains("builds need two cores"));
}

#[tokio::test]
async fn a_mode_of_the_project_may_only_narrow_and_tools_that_do_not_exist_are_named() {
    let world = world();
    write_user_agent(&world, "editor", "permissionMode: acceptEdits\n", "You edit.");
    world.file(".claude/agents/theirs.md", agent_text("theirs", "permissionMode: acceptEdits\n", "You edit."));
    world.file(".claude/agents/lost.md", agent_text("lost", "tools: Raed\n", "You read."));
    world.file(".claude/agents/tree.md", agent_text("tree", "isolation: worktree\n", "You work."));
    for (kind, is_written) in [("editor", true), ("theirs", false)] {
        let file = world.path(kind);
        let model = Script::new()
            .call("Agent", launch(kind))
            .then()
            .call("Write", json!({"file_path": file, "content": "x"}))
            .then()
            .say("done")
            .then()
            .say("ok")
            .serve()
            .await
            .unwrap();
        world.run(&model).args(["-p", "--trust", "--", "go"]).finish().await.expect_code(0);
        assert_eq!(std::path::Path::new(&file).exists(), is_written, "{kind}");
    }
    for (kind, said) in [("lost", "not a tool of this session: Raed"), ("tree", "wants `isolation: worktree`")] {
        for trust in [&["--trust"][..], &[]] {
            let model = Script::new().call("Agent", launch(kind)).then().say("ok").serve().await.unwrap();
            world.run(&model).stream("go").args(trust.iter().copied()).finish().await.expect_code(0);
            let refused = model.request(1).tool_result(0);
            assert!(refused.contains(said), "{kind}: {refused}");
        }
    }
}

#[tokio::test]
async fn before_trust_an_agent_of_the_project_gives_text_and_a_shorter_list_of_tools() {
    let world = world();
    let fields = "tools: Read\nmodel: opus\neffort: high\n";
    world.file(".claude/agents/theirs.md", agent_text("theirs", fields, "You are theirs."));
    let hook = "hooks:\n  PreToolUse:\n    - hooks:\n        - type: command\n          command: touch hooked\nmemory: project\n";
    world.file(".claude/agents/hooked.md", agent_text("hooked", hook, "You are hooked."));
    world.file(".claude/agent-memory/hooked/MEMORY.md", "planted note\n");
    let (model, run) = run_launch(&world, "theirs", &[]).await;
    let sent = model.request(1);
    assert!(sent.system_text().starts_with("You are theirs.") && sent.tool_names() == ["Read"]);
    assert_eq!((sent.model(), &sent.json()["output_config"]["effort"]), (model.request(0).model(), &Value::Null));
    let lines: Vec<&str> = run.stderr.lines().filter(|line| line.contains("not trusted")).collect();
    assert_eq!(lines.len(), 1, "{}", run.stderr);
    for part in ["agent .claude/agents/hooked.md", "fields of agents theirs (model, effort)"] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    let script = || Script::new().call("Agent", launch("hooked")).then().call("Bash", json!({"command": "ls"}));
    for (args, hooked) in [(&[][..], false), (&["--trust"], true)] {
        let model = script().then().say("done").then().say("ok").serve().await.unwrap();
        let run = world.run(&model).stream("go").args(args.iter().copied());
        run.without_env("CLAUDE_CODE_DISABLE_AUTO_MEMORY").finish().await.expect_code(0);
        assert_eq!(world.project.join("hooked").exists(), hooked);
        assert_eq!(model.request(1).system_text().contains("planted note"), hooked);
    }
    let (model, run) = run_launch(&world, "theirs", &["--trust"]).await;
    assert!(model.request(1).model().contains("opus") && !run.stderr.contains("not trusted"), "{}", run.stderr);
}

#[tokio::test]
async fn hooks_of_an_agent_are_called_for_it_alone_and_while_it_runs() {
    let world = world();
    let hooks = "hooks:\n  PostToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: echo call >> \"$CLAUDE_PROJECT_DIR/log\"\n  Stop:\n    - hooks:\n        - type: command\n          command: cat > \"$CLAUDE_PROJECT_DIR/stop.json\"; echo stop >> \"$CLAUDE_PROJECT_DIR/log\"\n";
    write_user_agent(&world, "hooked", hooks, "You are hooked.");
    let ls = json!({"command": "ls"});
    let script = || Script::new().call("Bash", ls.clone()).then().call("Agent", launch("hooked")).then();
    let script = script().call("Bash", ls.clone()).then().say("done").then().call("Bash", ls.clone()).then().say("ok");
    let model = script.serve().await.unwrap();
    world.run(&model).stream("go").finish().await.expect_code(0);
    assert_eq!(world.read("log"), "call\nstop\n");
    let stop: Value = serde_json::from_str(&world.read("stop.json")).unwrap();
    assert_eq!((&stop["hook_event_name"], &stop["agent_type"]), (&json!("SubagentStop"), &json!("hooked")));

    // The same agent as the main conversation: its hooks are for that, and Stop is Stop.
    std::fs::remove_file(world.project.join("log")).unwrap();
    let model = Script::new().call("Bash", ls).then().say("ok").serve().await.unwrap();
    world.run(&model).stream("go").args(["--agent", "hooked"]).finish().await.expect_code(0);
    assert_eq!(world.read("log"), "call\nstop\n");
    let stop: Value = serde_json::from_str(&world.read("stop.json")).unwrap();
    assert_eq!(stop["hook_event_name"], "Stop");

    let settings = json!({"disableAllHooks": true}).to_string();
    std::fs::remove_file(world.project.join("log")).unwrap();
    let model = Script::new().call("Bash", json!({"command": "ls"})).then().say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--agent", "hooked", "--settings", &settings]);
    run.finish().await.expect_code(0);
    assert!(!world.project.join("log").exists());
}

#[tokio::test]
async fn agents_that_change_are_told_in_a_reminder_and_what_was_sent_stays() {
    let world = world();
    write_user_agent(&world, "old", "", "You are old.");
    write_user_agent(&world, "kept", "", "You are kept.");
    let change =
        "cd ~/.claude/agents && rm -f old.md && cp ../new.md new.md && sed -i 's/Use kept for it/Changed/' kept.md";
    let hook =
        json!({"hooks": {"PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": change}]}]}});
    std::fs::write(world.home.join(".claude/settings.json"), hook.to_string()).unwrap();
    std::fs::write(world.home.join(".claude/new.md"), agent_text("new", "", "You are new.")).unwrap();
    let model = Script::new()
        .call("Bash", json!({"command": "ls"}))
        .then()
        .call("Agent", launch("new"))
        .then()
        .say("done")
        .then()
        .call("Agent", launch("old"))
        .then()
        .say("ok")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").finish().await;
    run.expect_code(0);
    let described = json!(model.request(0).tools()).to_string();
    assert!(described.contains("- old: Use old for it") && !described.contains("- new:"), "{described}");
    let told = model.request(1).last_user_text();
    for part in ["New types:\n- new: Use new for it", "description now:\n- kept: Changed", "gone: old"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(model.request(2).system_text().starts_with("You are new."), "{}", model.request(2).system_text());
    assert!(model.request(4).tool_results().pop().unwrap().contains("no agent type named `old`"));
    for (earlier, later) in [(0, 1), (1, 3), (3, 4)] {
        assert!(model.prefix_equal(earlier, later), "{:?}", model.prefix_difference(earlier, later));
    }
    assert_eq!(model.request(4).body_text().matches("The agent types have changed").count(), 1);
}

#[tokio::test]
async fn an_agent_that_goes_on_gets_the_same_bytes() {
    let world = world();
    write_user_agent(&world, "reader", "memory: user\n", "You read.");
    let mut input = launch("reader");
    input["name"] = json!("reader");
    let model = Script::new().call("Agent", input).then().say("Read.").then().say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("go").finish().await;
    let session = run.expect_code(0).result()["session_id"].as_str().unwrap().to_owned();
    let first = model.request(1);
    // What it keeps notes in has changed meanwhile, and so has the mode of the session.
    let notes = world.home.join(".claude/agent-memory/reader");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join("MEMORY.md"), "- a note\n").unwrap();
    let model = Script::new()
        .call("SendMessage", json!({"to": "reader", "message": "Again."}))
        .then()
        .say("It is at it.")
        .then()
        .when(ExpectedRequest { system_contains: Some("You read.".into()), ..ExpectedRequest::default() })
        .say("Read again.")
        .serve()
        .await
        .unwrap();
    let args = ["--resume", &session, "--permission-mode", "acceptEdits"];
    world.run(&model).stream("go on").args(args).finish().await.expect_code(0);
    let again = model.requests().into_iter().find(|request| request.system_text().starts_with("You read.")).unwrap();
    assert_eq!(again.json()["system"], first.json()["system"]);
    assert_eq!(again.json()["tools"], first.json()["tools"]);
    let transcript = world.transcripts().into_iter().find(|path| path.with_extension("").is_dir()).unwrap();
    let folder = transcript.with_extension("").join("subagents");
    let agent = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let agent = agent.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "jsonl")).unwrap();
    let frozen = entries_of(&agent).into_iter().filter(|entry| entry["type"] == "gimlet-frozen").count();
    assert_eq!(frozen, 1);
}

#[tokio::test]
async fn an_agent_of_a_file_is_named_in_a_prompt_a_flag_and_a_setting() {
    let world = world();
    write_user_agent(&world, "pirate", "model: opus\ninitialPrompt: Greet first.\n", "You are a pirate.");
    let model = Script::new().say("ok").serve().await.unwrap();
    world.run(&model).stream("@agent-pirate look").finish().await.expect_code(0);
    assert!(model.request(0).body_text().contains("names the agent type pirate"));
    let setting = json!({"agent": "pirate"}).to_string();
    for args in [["--agent", "pirate"], ["--settings", &setting]] {
        let model = Script::new().say("ok").serve().await.unwrap();
        world.run(&model).stream("hi").args(args).finish().await.expect_code(0);
        let sent = model.request(0);
        assert!(sent.system_text().starts_with("You are a pirate.") && sent.model().contains("opus"));
        assert!(sent.body_text().contains("Greet first."));
    }
    let nobody = world.run_at("http://127.0.0.1:9").args(["-p", "hi", "--agent", "priate"]).finish().await;
    assert!(nobody.expect_code(1).stderr.contains("Did you mean `pirate`?"), "{}", nobody.stderr);
}

#[tokio::test]
async fn the_command_lists_every_agent_with_what_becomes_of_it() {
    let world = world();
    let user = write_user_agent(&world, "reviewer", "tools: Read, Grepp\n", "p");
    write_user_agent(&world, "builder", "", "p");
    world.file(".claude/agents/builder.md", agent_text("builder", "model: opus\n", "p"));
    world.file(".claude/agents/nameless.md", "no front matter\n");
    let run = world.run_at("http://127.0.0.1:9").args(["-p", "/agents"]).finish().await;
    let text = &run.expect_code(0).stdout;
    for line in [
        "general-purpose  built-in",
        "Use reviewer for it",
        user.to_str().unwrap(),
        "not used: an agent of the project overrides it",
        "builder: waits for trust (gimlet trust): model",
        "reviewer: no such tool: Grepp",
        "nameless.md:1: not used: an agent begins with front matter",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let doctor = world.run_at("http://127.0.0.1:9").arg("doctor").finish().await.stdout;
    for part in ["nameless.md:1", "names 'Grepp', which is no tool", "the agent builder is not used"] {
        assert!(doctor.contains(part), "{part}: {doctor}");
    }
    assert!(!doctor.contains("agents are not read"), "{doctor}");
}

#[tokio::test]
async fn a_hundred_agents_fit_into_the_description_of_the_tool() {
    let world = world();
    let long = "Reviews pull requests with care, and says what is wrong. ".repeat(20);
    for n in 0..100 {
        let text = format!("---\nname: agent-{n}\ndescription: {long}\n---\nYou review.\n");
        world.file(&format!(".claude/agents/agent-{n}.md"), text);
    }
    let (model, run) = run_launch(&world, "agent-99", &[]).await;
    let tools = model.request(0).tools();
    let tool = tools.iter().find(|tool| tool["name"] == "Agent").unwrap();
    let description = tool["description"].as_str().unwrap();
    assert!(description.len() < 20_000 && description.contains("- agent-0: Reviews pull requests"), "{description}");
    assert_eq!(run.lines()[0]["agents"].as_array().unwrap().len(), 104);
}

#[tokio::test]
async fn a_session_in_safe_mode_or_bare_has_none_of_them() {
    let world = world();
    write_user_agent(&world, "mine", "", "You are mine.");
    let hook = json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch hooked"}]}]}});
    std::fs::write(world.home.join(".claude/settings.json"), hook.to_string()).unwrap();
    let all = ["general-purpose", "Explore", "Plan", "Bash", "mine"];
    for (args, env, agents, hooked, tools) in [
        (&[][..], None, &all[..], true, None),
        (&["--safe-mode"], None, &all[..4], false, None),
        (&[], Some("CLAUDE_CODE_SAFE_MODE"), &all[..4], false, None),
        (&["--bare"], None, &all[..4], false, Some(["Bash", "Read", "Edit"])),
        (&[], Some("CLAUDE_CODE_SIMPLE"), &all[..4], false, Some(["Bash", "Read", "Edit"])),
    ] {
        let model = Script::new().say("ok").serve().await.unwrap();
        let mut run = world.run(&model).stream("go").args(args.iter().copied());
        if let Some(variable) = env {
            run = run.env(variable, "1");
        }
        let run = run.finish().await;
        run.expect_code(0);
        assert_eq!(run.lines()[0]["agents"], json!(agents), "{args:?} {env:?}");
        assert_eq!(world.project.join("hooked").exists(), hooked, "{args:?} {env:?}");
        drop(std::fs::remove_file(world.project.join("hooked")));
        if let Some(tools) = tools {
            assert_eq!(model.request(0).tool_names(), tools);
        }
    }
    let settings = hook.to_string();
    let model = Script::new().say("ok").serve().await.unwrap();
    world.run(&model).stream("go").args(["--bare", "--settings", &settings]).finish().await.expect_code(0);
    assert!(world.project.join("hooked").exists(), "what the command line names is used");
}

#[tokio::test]
async fn hook_events_are_printed_in_every_stream() {
    let world = world();
    let hook = json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "true"}]}]}});
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    std::fs::write(world.home.join(".claude/settings.json"), hook.to_string()).unwrap();
    for (flag, subtypes) in [(None, vec![]), (Some("--include-hook-events"), vec!["hook_started", "hook_response"])] {
        let model = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&model).stream("go").args(flag).finish().await;
        run.expect_code(0);
        let lines = run.lines();
        let told = lines.iter().filter_map(|line| line["subtype"].as_str()).filter(|name| name.starts_with("hook_"));
        assert_eq!(told.collect::<Vec<_>>(), subtypes);
    }
    let refused = world.run_at("http://127.0.0.1:9").args(["-p", "go", "--include-hook-events"]).finish().await;
    assert!(refused.expect_code(1).stderr.contains("--include-hook-events needs another output format"));
}
