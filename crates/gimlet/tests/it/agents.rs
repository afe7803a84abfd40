//! Subagents end to end: what programs see of them, what they cost, and what is on disk afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

use gimlet_script::{ExpectedRequest, Script, ScriptedReply};
use gimlet_testkit::{TestWorld, entries_of, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::world;

/// One step of the main conversation that sends an agent.
fn send_agent_script(kind: &str, prompt: &str) -> Script {
    Script::new().call("Agent", json!({"description": "Look up x", "prompt": prompt, "subagent_type": kind}))
}

fn task_subtypes(lines: &[Value]) -> Vec<&str> {
    let told = lines.iter().filter_map(|line| line["subtype"].as_str());
    told.filter(|subtype| subtype.starts_with("task_") || subtype.starts_with("background_")).collect()
}

fn read_agent_files(world: &TestWorld) -> (Vec<Value>, Value) {
    let transcripts = world.transcripts();
    let main = transcripts.iter().find(|path| path.with_extension("").is_dir()).unwrap();
    let dir = main.with_extension("").join("subagents");
    let names: Vec<String> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let transcript = names.iter().find(|name| name.ends_with(".jsonl")).unwrap();
    let meta = names.iter().find(|name| name.ends_with(".meta.json")).unwrap();
    assert_eq!((names.len(), transcript.strip_suffix(".jsonl")), (2, meta.strip_suffix(".meta.json")));
    let meta = serde_json::from_slice(&std::fs::read(dir.join(meta)).unwrap()).unwrap();
    (entries_of(&dir.join(transcript)), meta)
}

#[tokio::test]
async fn an_agent_searches_with_the_small_model_and_programs_see_what_it_does() {
    let world = world();
    world.file("src/a.rs", "fn needle() {}\n");
    let model = send_agent_script("Explore", "Where is needle?")
        .then()
        .expect(ExpectedRequest {
            model: Some("claude-haiku-5-5".into()),
            system_contains: Some("You search code".into()),
            ..ExpectedRequest::default()
        })
        .say("I look.")
        .call("Grep", json!({"pattern": "needle"}))
        .then()
        .say("In src/a.rs, line 1.")
        .then()
        .say("It is in src/a.rs.")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("find needle").finish().await;
    run.expect_code(0);
    assert!(
        model.failures().is_empty() && model.rejections().is_empty(),
        "{:?} {:?}",
        model.failures(),
        model.rejections()
    );
    assert_eq!(model.request(1).tool_names(), ["Bash", "Read", "Glob", "Grep"], "it can look and nothing else");
    assert_eq!(model.request(3).tool_result(0), "In src/a.rs, line 1.");

    let lines = run.lines();
    assert_eq!(lines[0]["agents"], json!(["general-purpose", "Explore", "Plan", "Bash"]));
    assert_eq!(task_subtypes(&lines), ["task_started", "task_progress", "task_updated", "task_notification"]);
    let line = |subtype: &str| lines.iter().find(|line| line["subtype"] == subtype).unwrap();
    let started = line("task_started");
    let call = started["tool_use_id"].as_str().unwrap();
    for (member, value) in [
        ("description", json!("Look up x")),
        ("task_type", json!("local_agent")),
        ("subagent_type", json!("Explore")),
        ("is_backgrounded", json!(false)),
        ("spawn_depth", json!(1)),
        ("prompt", json!("Where is needle?")),
    ] {
        assert_eq!(started[member], value, "{member}");
    }
    assert_eq!(
        (&line("task_progress")["last_tool_name"], &line("task_progress")["usage"]["tool_uses"]),
        (&json!("Grep"), &json!(1))
    );
    assert_eq!(line("task_updated")["patch"]["status"], "completed");
    assert_eq!(line("task_notification")["status"], "completed");
    for subtype in ["task_progress", "task_updated", "task_notification"] {
        assert_eq!(line(subtype)["task_id"], started["task_id"]);
    }
    let inside: Vec<&str> = lines
        .iter()
        .filter(|line| line["parent_tool_use_id"] == call)
        .map(|line| line["message"]["content"][0]["type"].as_str().unwrap())
        .collect();
    assert_eq!(inside, ["tool_use", "tool_result"], "its words are its own");

    let output =
        lines.iter().find(|line| line["tool_use_result"]["agentId"].is_string()).unwrap()["tool_use_result"].clone();
    assert_eq!(
        (&output["status"], &output["agentId"], &output["agentType"]),
        (&json!("completed"), &started["task_id"], &json!("Explore"))
    );
    assert_eq!(output["content"], json!([{"type": "text", "text": "In src/a.rs, line 1."}]));
    assert_eq!((&output["totalToolUseCount"], &output["resolvedModel"]), (&json!(1), &json!("claude-haiku-5-5")));
    let usage = &run.result()["modelUsage"];
    assert!(
        usage["claude-haiku-5-5"]["costUSD"].as_f64().unwrap() > 0.0 && usage["claude-sonnet-5-5"].is_object(),
        "{usage}"
    );

    let (entries, meta) = read_agent_files(&world);
    assert_eq!(entries[0]["message"]["content"], "Where is needle?");
    assert!(entries.iter().all(|entry| entry["isSidechain"] == true && entry["agentId"] == started["task_id"]));
    assert_eq!((&meta["toolUseId"], &meta["agentType"]), (&json!(call), &json!("Explore")));
}

#[tokio::test]
async fn words_of_agents_are_forwarded_on_demand() {
    let world = world();
    let model = send_agent_script("general-purpose", "Say hi.")
        .then()
        .think("hm")
        .say("Hi.")
        .then()
        .say("It said hi.")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").arg("--forward-subagent-text").finish().await;
    run.expect_code(0);
    let inside: Vec<Value> = run
        .lines()
        .into_iter()
        .filter(|line| line["parent_tool_use_id"].is_string())
        .map(|line| line["message"]["content"][0]["type"].clone())
        .collect();
    assert_eq!(inside, [json!("thinking"), json!("text")]);
    let refused = world.run(&model).print_text("go").arg("--forward-subagent-text").finish().await;
    assert!(refused.stderr.contains("--forward-subagent-text needs another output format"), "{}", refused.stderr);
}

#[tokio::test]
async fn what_agents_cost_counts_into_the_budget() {
    let world = world();
    let costly = json!({"output_tokens": 1_000_000}).as_object().cloned();
    let model = send_agent_script("general-purpose", "Spend.")
        .then()
        .reply(ScriptedReply { usage: costly, ..ScriptedReply::default() })
        .say("Spent.")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").args(["--max-budget-usd", "1"]).finish().await;
    run.expect_code(1);
    let result = run.result();
    assert_eq!(result["subtype"], "error_max_budget_usd");
    assert!(result["total_cost_usd"].as_f64().unwrap() > 1.0, "{result}");
    assert_eq!(model.requests().len(), 2, "nothing is asked once the money is gone");
    assert_eq!(task_subtypes(&run.lines()).last(), Some(&"task_notification"));
}

#[tokio::test]
async fn agents_of_the_caller_are_offered_and_denied_ones_are_not() {
    let world = world();
    let agents =
        json!({"greeter": {"description": "Greets people", "prompt": "You greet.", "tools": ["Read"]}}).to_string();
    let model = send_agent_script("greeter", "Greet.")
        .then()
        .expect(ExpectedRequest {
            system_contains: Some("You greet.".into()),
            tools_include: vec!["Read".into()],
            tools_exclude: vec!["Bash".into(), "Agent".into()],
            ..ExpectedRequest::default()
        })
        .say("Hello!")
        .then()
        .say("Greeted.")
        .serve()
        .await
        .unwrap();
    let run =
        world.run(&model).stream("go").args(["--agents", &agents, "--disallowedTools", "Agent(Plan)"]).finish().await;
    run.expect_code(0);
    assert!(model.failures().is_empty(), "{:?}", model.failures());
    assert_eq!(run.lines()[0]["agents"], json!(["general-purpose", "Explore", "Bash", "greeter"]));
    let tools = json!(model.request(0).tools()).to_string();
    assert!(tools.contains("- greeter: Greets people") && !tools.contains("- Plan:"), "{tools}");

    let run = world.run(&model).print_text("go").args(["--agents", "[1]"]).finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("--agents:") && run.stderr.contains("JSON object"), "{}", run.stderr);
    let bad = json!({"good": {"description": "d", "prompt": "p"}, "bad": {"description": "d"}}).to_string();
    let run = world.run(&model).print_text("go").args(["--agents", &bad]).finish().await;
    assert!(run.stderr.contains("--agents: 'bad': missing field `prompt`"), "{}", run.stderr);
}

#[tokio::test]
async fn the_cache_marks_of_an_agent_are_where_its_requests_end() {
    let world = world();
    let look = |script: Script, pattern: &str| script.then().call("Glob", json!({"pattern": pattern}));
    let script =
        look(look(send_agent_script("Explore", "Look."), "a*"), "b*").then().say("Nothing.").then().say("done");
    let model = script.serve().await.unwrap();
    world.run(&model).stream("go").finish().await.expect_code(0);
    let marks = |request: usize| {
        let marks = model.request(request).breakpoints();
        marks.into_iter().filter(|mark| mark.starts_with("messages")).collect::<Vec<_>>()
    };
    assert_eq!(marks(3), ["messages.2.content.0", "messages.4.content.0"], "an agent's last request and this one");
    assert_eq!(
        marks(4),
        ["messages.0.content.0", "messages.0.content.1", "messages.2.content.0"],
        "the facts of the place, the conversation's last request and this one"
    );
}

#[tokio::test]
async fn the_environment_says_how_hard_agents_think_before_their_definition_does() {
    let agents = json!({"thinker": {"description": "Thinks", "prompt": "You think.", "effort": "high"}}).to_string();
    for (variable, efforts) in [(None, [None, Some("high"), None]), (Some("low"), [Some("low"); 3])] {
        let world = world();
        let model =
            send_agent_script("thinker", "Think.").then().say("Thought.").then().say("done").serve().await.unwrap();
        let mut run = world.run(&model).stream("go").args(["--agents", &agents]);
        if let Some(level) = variable {
            run = run.env("CLAUDE_CODE_EFFORT_LEVEL", level);
        }
        run.finish().await.expect_code(0);
        let sent = model.requests();
        let sent: Vec<Value> = sent.iter().map(|request| request.json()["output_config"]["effort"].clone()).collect();
        assert_eq!(sent, efforts.map(|level| level.map_or(Value::Null, Value::from)));
    }
}

#[tokio::test]
async fn a_session_goes_on_as_the_agent_that_it_ran_as() {
    let world = world();
    let given = json!({
        "pirate": {"description": "d", "prompt": "You are a pirate.", "model": "claude-opus-4-5"},
        "clerk": {"description": "d", "prompt": "You are a clerk."},
    })
    .to_string();
    let run = async |args: &[&str]| {
        let model = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&model).stream("hi").args(args.iter().copied()).finish().await;
        run.expect_code(0);
        let request = model.request(0);
        let id = run.result()["session_id"].as_str().unwrap().to_owned();
        (id, request.system_text(), request.json()["model"].as_str().unwrap().to_owned(), run.stderr)
    };
    let (id, ..) = run(&["--agents", &given, "--agent", "pirate"]).await;
    let row = world.run_at("http://127.0.0.1:9").args(["sessions", "show", &id, "--json"]).finish().await.json();
    assert_eq!(row["agent"], "pirate");
    let resumed = ["--resume", &id, "--agents", &given];
    let (_, system, model, _) = run(&resumed).await;
    assert_eq!((system.as_str(), model.as_str()), ("You are a pirate.", "claude-opus-4-5"));
    let (_, system, model, _) = run(&[&resumed[..], &["--model", "claude-haiku-5-5"]].concat()).await;
    assert_eq!((system.as_str(), model.as_str()), ("You are a pirate.", "claude-haiku-5-5"));
    let (_, _, model, _) = run(&resumed).await;
    assert_eq!(model, "claude-haiku-5-5", "the model of the session, not that of its agent");
    let (fork, system, ..) = run(&[&resumed[..], &["--fork-session"]].concat()).await;
    assert!(fork != id && system == "You are a pirate.");
    // A flag counts more, and what it says is what is gone on with.
    run(&[&resumed[..], &["--agent", "clerk"]].concat()).await;
    assert_eq!(run(&resumed).await.1, "You are a clerk.");
    // Without its definition its limits would be gone, too: that has to be said.
    let nobody = world.run_at("http://127.0.0.1:9").args(["-p", "hi", "--resume", &id]).finish().await;
    nobody.expect_code(1);
    assert!(nobody.stderr.contains("ran as the agent 'clerk': There is no agent type"), "{}", nobody.stderr);
    assert!(nobody.stderr.contains("--agent ''"), "{}", nobody.stderr);
    run(&[&resumed[..], &["--agent", ""]].concat()).await;
    let (_, system, _, stderr) = run(&resumed).await;
    assert!(!system.contains("You are a") && stderr.is_empty(), "{system} {stderr}");
}

#[tokio::test]
async fn a_session_that_is_set_to_no_agent_has_neither_its_prompt_nor_that_of_settings() {
    let world = world();
    let run = async |args: &[&str]| {
        let model = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&model).stream("hi").args(args.iter().copied()).finish().await;
        run.expect_code(0);
        (run.result()["session_id"].as_str().unwrap().to_owned(), model.request(0).system_text())
    };
    let (id, plain) = run(&[]).await;
    assert_eq!(run(&["--resume", &id]).await.1, plain);
    let (id, own) = run(&["--agent", "general-purpose"]).await;
    assert_ne!(own, plain);
    assert_eq!(run(&["--resume", &id]).await.1, own);
    let path = world.transcripts().into_iter().find(|path| path.to_string_lossy().contains(&id)).unwrap();
    let frozen = |path| entries_of(path).iter().filter(|entry| entry["type"] == "gimlet-frozen").count();
    assert_eq!(frozen(&path), 1, "a prompt that comes out the same is not written again");
    assert_ne!(run(&["--resume", &id, "--agent", ""]).await.1, own);
    let setting = json!({"agent": "general-purpose"}).to_string();
    assert_ne!(run(&["--resume", &id, "--settings", &setting]).await.1, own);
    assert_eq!(frozen(&path), 2);
}

#[tokio::test]
async fn a_copy_keeps_the_agent_whose_definition_is_missing_for_now() {
    let world = world();
    let given = json!({"pirate": {"description": "d", "prompt": "You are a pirate."}}).to_string();
    let run = async |args: &[&str]| {
        let model = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&model).stream("hi").args(args.iter().copied()).finish().await;
        run.expect_code(0);
        (run.result()["session_id"].as_str().unwrap().to_owned(), model.request(0).system_text())
    };
    let (id, _) = run(&["--agents", &given, "--agent", "pirate"]).await;
    // A program that drives gimlet may define it in a moment.
    let model = Script::new().say("ok").serve().await.unwrap();
    let prompt = json!({"type": "user", "message": {"role": "user", "content": "hi"}});
    let driven = ["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"];
    let driven = world.run(&model).args(driven).args(["--resume", &id, "--fork-session"]);
    let driven = driven.stdin(format!("{prompt}\n")).finish().await;
    driven.expect_code(0);
    assert!(driven.stderr.contains("goes on without the agent's prompt and limits"), "{}", driven.stderr);
    let (copy, system) = (driven.result()["session_id"].as_str().unwrap().to_owned(), model.request(0).system_text());
    assert!(copy != id && !system.contains("pirate"), "{system}");
    assert_eq!(run(&["--resume", &copy, "--agents", &given]).await.1, "You are a pirate.");
}

#[tokio::test]
async fn a_main_agent_sends_only_the_kinds_that_its_tools_name() {
    let world = world();
    let given = json!({
        "lead": {"description": "d", "prompt": "p", "tools": "Read, Agent(worker, Bash)"},
        "worker": {"description": "works", "prompt": "Work.", "tools": ["Read", "Agent"]},
    })
    .to_string();
    let model = send_agent_script("Plan", "plan")
        .then()
        .call("Agent", json!({"description": "d", "prompt": "go", "subagent_type": "worker"}))
        .then()
        .expect(ExpectedRequest { system_contains: Some("Work.".into()), ..ExpectedRequest::default() })
        .say("worked")
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").args(["--agents", &given, "--agent", "lead"]).finish().await;
    run.expect_code(0);
    let described = model.request(0).json()["tools"].to_string();
    assert!(described.contains("worker") && !described.contains("- Plan"), "{described}");
    let refused = model.request(1).body_text().into_owned();
    assert!(refused.contains("no agent type named `Plan`") && refused.contains("worker"), "{refused}");
    // What it sends is not bound by that.
    assert!(model.request(2).json()["tools"].to_string().contains("Plan"));
    assert_eq!(run.lines()[0]["agents"].as_array().unwrap().len(), 6, "programs see all that are defined");
}

#[tokio::test]
async fn commands_of_an_agent_always_begin_in_the_project() {
    let world = world();
    world.file("sub/x", "");
    let model = send_agent_script("Bash", "Look.")
        .then()
        .call("Bash", json!({"command": "cd sub && pwd"}))
        .then()
        .call("Bash", json!({"command": "pwd"}))
        .then()
        .say("Done.")
        .then()
        .call("Bash", json!({"command": "pwd"}))
        .then()
        .say("Done.")
        .serve()
        .await
        .unwrap();
    world.run(&model).stream("go").finish().await.expect_code(0);
    let project = world.project.canonicalize().unwrap().display().to_string();
    assert!(model.request(2).tool_result(0).contains(&format!("{project}/sub")));
    assert_eq!(model.request(3).tool_results().last().unwrap().trim(), project);
    assert_eq!(model.request(5).tool_results().last().unwrap().trim(), project);
}

#[tokio::test]
async fn an_interrupt_inside_an_agent_ends_it_for_programs_too() {
    let world = world();
    let model = send_agent_script("Bash", "Wait.")
        .then()
        .call("Bash", json!({"command": "touch begun; sleep 600"}))
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").start();
    wait_until("the command began", || world.project.join("begun").exists()).await;
    kill_process(Pid::from_raw(i32::try_from(run.pid()).unwrap()).unwrap(), Signal::INT).unwrap();
    let mut run = run;
    let run = tokio::task::spawn_blocking(move || run.wait_with_output()).await.unwrap();
    run.expect_code(130);
    let lines = run.lines();
    let updated = lines.iter().find(|line| line["subtype"] == "task_updated").unwrap();
    assert_eq!(updated["patch"]["status"], "killed");
    assert_eq!(task_subtypes(&lines), ["task_started", "task_progress", "task_updated", "task_notification"]);
    let end = |kind: &str| lines.iter().position(|line| line["subtype"] == kind || line["type"] == kind).unwrap();
    assert!(end("task_notification") < end("result"));

    let next = Script::new().say("ok").serve().await.unwrap();
    world.run(&next).args(["-p", "--continue", "and now?"]).finish().await.expect_code(0);
    assert!(next.rejections().is_empty(), "{:?}", next.rejections());
    assert!(next.request(0).tool_result(0).contains("The agent was stopped"));
}

#[tokio::test]
async fn a_run_waits_for_its_agents_in_the_background_and_its_result_stays_the_last_line() {
    let world = world();
    let launch = json!({"description": "Write", "prompt": "Write it.", "run_in_background": true});
    let write = json!({"file_path": world.path("out.txt"), "content": "done"});
    let of_agent = |results: usize| ExpectedRequest {
        system_contains: Some("You are an agent of gimlet".into()),
        messages: Some(results),
        ..ExpectedRequest::default()
    };
    let model = Script::new()
        .call("Agent", launch)
        .then()
        .say("It works.")
        .then()
        .when(of_agent(1))
        .call("Write", write)
        .delay_ms(100)
        .then()
        .when(of_agent(3))
        .say("Written.")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").args(["--permission-mode", "acceptEdits"]).finish().await;
    run.expect_code(0);
    assert!(model.failures().is_empty(), "{:?}", model.failures());
    assert_eq!(world.read("out.txt"), "done");
    let lines = run.lines();
    assert_eq!(task_subtypes(&lines)[..2], ["task_started", "background_tasks_changed"]);
    assert_eq!(lines.last().unwrap()["type"], "result", "{lines:#?}");
    let launched = lines.iter().find(|line| line["tool_use_result"]["status"] == "async_launched").unwrap();
    assert_eq!(
        std::fs::read_to_string(launched["tool_use_result"]["outputFile"].as_str().unwrap()).unwrap(),
        "Written."
    );
}

#[tokio::test]
async fn an_agent_in_the_background_is_refused_what_nobody_can_be_asked_about() {
    let world = world();
    let launch = json!({"description": "Write", "prompt": "Write it.", "run_in_background": true});
    let of_agent = |results: usize| ExpectedRequest {
        system_contains: Some("You are an agent of gimlet".into()),
        messages: Some(results),
        ..ExpectedRequest::default()
    };
    let model = Script::new()
        .call("Agent", launch)
        .then()
        .say("It works.")
        .then()
        .when(of_agent(1))
        .call("Bash", json!({"command": "touch asked"}))
        .call("Bash", json!({"command": "touch allowed"}))
        .then()
        .when(of_agent(3))
        .say("Written.")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).print_text("go").args(["--allowedTools", "Bash(touch allowed)"]).finish().await;
    run.expect_code(0);
    assert!(model.failures().is_empty(), "{:?}", model.failures());
    assert!(world.project.join("allowed").exists() && !world.project.join("asked").exists());
    let answered = model.requests().into_iter().find(|request| request.tool_results().len() == 2).unwrap();
    assert!(answered.tool_result(0).contains("Nobody can be asked in this run"), "{:?}", answered.tool_results());
}

#[tokio::test]
async fn a_session_that_is_not_kept_keeps_nothing_of_its_agents() {
    let world = world();
    let model = send_agent_script("Explore", "Look.").then().say("Seen.").then().say("Done.").serve().await.unwrap();
    world.run(&model).print_text("go").arg("--no-session-persistence").finish().await.expect_code(0);
    assert_eq!(model.request(2).tool_result(0), "Seen.");
    assert_eq!(world.transcripts(), Vec::<std::path::PathBuf>::new());
    let left = files_below(&world.home);
    assert!(!left.iter().any(|path| path.contains("agent-")), "{left:?}");
}

fn files_below(dir: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files_below(&entry.path()));
        }
        found.push(entry.path().display().to_string());
    }
    found
}

#[tokio::test]
async fn a_command_that_an_agent_left_ends_with_the_report_that_somebody_waited_for() {
    let world = world();
    let command = "echo $$ > pid; exec sleep 1000";
    let model = send_agent_script("general-purpose", "Serve it.")
        .then()
        .call("Bash", json!({"command": command, "run_in_background": true}))
        .then()
        .call("Bash", json!({"command": "while ! test -s pid; do sleep 0.02; done"}))
        .then()
        .say("It runs.")
        .then()
        .call("Bash", json!({"command": "kill -0 $(cat pid) || echo gone"}))
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").args(["--permission-mode", "bypassPermissions"]);
    let run = run.env("IS_SANDBOX", "1").finish().await;
    run.expect_code(0);
    assert!(
        model.request(2).tool_result(0).contains("ends with your final answer"),
        "{:?}",
        model.request(2).tool_results()
    );
    assert!(model.request(5).tool_results().pop().unwrap().contains("gone"), "{:?}", model.request(5).tool_results());
}
