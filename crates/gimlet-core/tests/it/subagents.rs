//! Subagents through the real session: what they get, what comes back, and that each one that begins also ends.

use gimlet_proto::{
    AgentSpec, AskAnswer, Block, Env, Event, EventBody, ModelEvent, Op, OpReply, PermissionMode, PromptOrigin,
    TaskState, TurnEnd,
};
use serde_json::{Value, json};

use crate::session_bench::{BenchSetup, SessionBench, answer_all, call, reply};

fn done_reply() -> Vec<ModelEvent> {
    text_reply("done")
}

fn text_reply(text: &str) -> Vec<ModelEvent> {
    reply(&[Block::text(text)])
}

fn spawn_call(id: &str, task: &str) -> Block {
    call(id, "Agent", json!({"task": task}))
}

fn spawn_call_of_kind(id: &str, task: &str, kind: &str) -> Block {
    call(id, "Agent", json!({"task": task, "subagent_type": kind}))
}

fn spawn_call_in_background(id: &str, task: &str) -> Block {
    call(id, "Agent", json!({"task": task, "background": true}))
}

fn look_call(id: &str) -> Block {
    call(id, "Look", json!({"name": id}))
}

fn hanging_call(id: &str) -> Block {
    call(id, "Look", json!({"name": id, "manner": "hang"}))
}

/// Goes on when the test says so: an agent in the background must not be done before the turn that sent it.
fn gated_reply() -> Vec<ModelEvent> {
    reply(&[call("wait", "Look", json!({"name": "wait", "manner": "wait"}))])
}

fn spec(tools: &[&str]) -> AgentSpec {
    AgentSpec {
        description: "For tests".into(),
        prompt: "You are a test.".into(),
        tools: Some(tools.iter().map(|name| (*name).to_owned()).collect()),
        ..AgentSpec::default()
    }
}

/// The states of tasks as they were told, with what each is about.
fn task_states(events: &[Event]) -> Vec<(String, TaskState)> {
    let tasks = events.iter().filter_map(|event| match &event.body {
        EventBody::Task(task) => Some((task.description.clone(), task.state)),
        _ => None,
    });
    let mut told: Vec<(String, TaskState)> = tasks.collect();
    told.dedup();
    told
}

/// Runs a turn and keeps its events.
async fn run_collecting_events(bench: &mut SessionBench, text: &str) -> (gimlet_proto::TurnReport, Vec<Event>) {
    let mut events = Vec::new();
    bench.say(text);
    let report = bench.turn(|event, _| events.push(event.clone())).await;
    (report, events)
}

/// The text of a call's result, whichever request carried it first.
fn result_of(bench: &SessionBench, call: &str) -> String {
    let all = (0..bench.model.requests().len()).flat_map(|index| bench.results(index));
    all.into_iter().find(|(id, ..)| id == call).map(|(.., text)| text).expect("a result")
}

fn entries(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_task_is_done_in_a_context_of_its_own_and_only_the_report_returns() {
    let setup = BenchSetup {
        tasks: vec![(
            "count",
            vec![reply(&[Block::text("Looking."), look_call("x1")]), text_reply("There are three.")],
        )],
        ..BenchSetup::default()
    };
    let mut bench = SessionBench::new(setup, vec![reply(&[spawn_call("t1", "count")]), done_reply()]);
    let (report, events) = run_collecting_events(&mut bench, "go").await;
    assert!(matches!(report.end, TurnEnd::Completed) && report.text == "done");
    let requests = bench.model.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(bench.results(3), [("t1".to_owned(), false, "There are three.".to_owned())]);
    // The agent has its own beginning: its kind's prompt, the place, and the task as its first message.
    let task = &requests[1];
    assert_eq!(task.messages.len(), 1);
    assert!(task.system[0].starts_with("You are an agent of gimlet") && task.system[1].contains("<environment>"));
    assert!(task.tools.iter().any(|tool| tool.name == "Touch"));
    assert_eq!(
        task_states(&events),
        [("count".to_owned(), TaskState::Running), ("count".to_owned(), TaskState::Completed)]
    );
    // Whatever it does is told under the call that sent it.
    let of_agent: Vec<&Event> = events.iter().filter(|event| event.agent.parent_tool_use().is_some()).collect();
    assert!(of_agent.iter().all(|event| event.agent.0[0].as_str() == "t1"));
    assert!(
        of_agent.iter().any(|event| matches!(&event.body, EventBody::ToolFinished(done) if done.call.as_str() == "x1"))
    );
    assert!(!of_agent.iter().any(|event| matches!(event.body, EventBody::TurnEnded(_))));
    bench.close().await;
}

#[tokio::test]
async fn the_record_of_an_agent_begins_with_its_task_and_names_its_call() {
    let tasks = vec![("count", vec![reply(&[look_call("x1")]), text_reply("Three.")])];
    let setup = BenchSetup { tasks, saved: true, ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![reply(&[spawn_call("t1", "count")]), done_reply()]);
    let (_, events) = run_collecting_events(&mut bench, "go").await;
    let id = events.iter().find_map(|event| match &event.body {
        EventBody::Task(task) => Some(task.id.clone()),
        _ => None,
    });
    let id = id.unwrap();
    let (transcript, meta) = (bench.files.agent_transcript(&id), bench.files.agent_meta(&id));
    let main = bench.files.transcript();
    let _dir = bench.close().await;
    let entries_of_agent = entries(&transcript);
    let kinds: Vec<&str> = entries_of_agent.iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user", "gimlet-frozen", "assistant", "user", "assistant"]);
    assert_eq!(
        (&entries_of_agent[0]["parentUuid"], &entries_of_agent[0]["message"]["content"]),
        (&Value::Null, &json!("count"))
    );
    for entry in &entries_of_agent {
        assert_eq!((&entry["isSidechain"], &entry["agentId"]), (&json!(true), &json!(id)));
    }
    let meta: Value = serde_json::from_slice(&std::fs::read(meta).unwrap()).unwrap();
    assert_eq!(
        meta,
        json!({"agentType": "general-purpose", "description": "count", "toolUseId": "t1", "spawnDepth": 1, "model": "test"})
    );
    let text = std::fs::read_to_string(main).unwrap();
    assert!(!text.contains("x1") && text.contains("Three."), "the main record has the call and the report alone");
}

#[tokio::test]
async fn several_agents_of_one_reply_work_at_once_and_report_in_order() {
    let looks = |id: &str| vec![reply(&[call(id, "Look", json!({"name": id, "ms": 40}))]), text_reply(id)];
    let tasks = vec![("one", looks("o1")), ("two", looks("o2")), ("three", looks("o3"))];
    let calls = [spawn_call("t1", "one"), spawn_call("t2", "two"), spawn_call("t3", "three")];
    let mut bench = SessionBench::new(BenchSetup { tasks, ..BenchSetup::default() }, vec![reply(&calls), done_reply()]);
    bench.run("go").await;
    assert_eq!(bench.log.most.load(std::sync::atomic::Ordering::SeqCst), 3, "they overlap");
    let reports: Vec<String> =
        bench.results(bench.model.requests().len() - 1).into_iter().map(|(.., text)| text).collect();
    assert_eq!(reports, ["o1", "o2", "o3"]);
    bench.close().await;
}

#[tokio::test]
async fn agents_nest_until_the_limit_and_then_have_no_tool_for_it() {
    let tasks = vec![
        ("first", vec![reply(&[spawn_call("n1", "second")]), text_reply("first done")]),
        ("second", vec![reply(&[spawn_call("n2", "third")]), text_reply("second done")]),
    ];
    let env = Env::default().with("CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH", "2");
    let mut bench = SessionBench::new(
        BenchSetup { tasks, env, ..BenchSetup::default() },
        vec![reply(&[spawn_call("t1", "first")]), done_reply()],
    );
    let (_, events) = run_collecting_events(&mut bench, "go").await;
    let requests = bench.model.requests();
    let offered = |index: usize| requests[index].tools.iter().any(|tool| tool.name == "Agent");
    assert!(offered(1) && !offered(2), "the second level may not send anyone");
    assert!(bench.results(3)[0].2.contains("There is no tool named Agent"), "{:?}", bench.results(3));
    let depths: Vec<u32> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Task(task) if task.state == TaskState::Completed => Some(task.depth),
            _ => None,
        })
        .collect();
    assert_eq!(depths, [2, 1], "the inner one ends first");
    bench.close().await;
}

#[tokio::test]
async fn one_agent_too_many_is_refused_with_the_advice_not_to_retry() {
    let tasks = vec![("one", vec![reply(&[hanging_call("h1")])])];
    let env = Env::default().with("CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS", "1");
    let setup = BenchSetup { tasks, env, ..BenchSetup::default() };
    let mut bench = SessionBench::new(
        setup,
        vec![reply(&[spawn_call_in_background("t1", "one")]), reply(&[spawn_call("t2", "two")]), done_reply()],
    );
    bench.run("go").await;
    let results = bench.results(bench.model.requests().len() - 1);
    assert!(results[0].1 && results[0].2.contains("Do not try again now"), "{results:?}");
    bench.handle.send(Op::interrupt());
    bench.close().await;
}

#[tokio::test]
async fn an_interrupt_ends_agents_at_every_level_and_leaves_a_valid_history() {
    let tasks = vec![
        ("outer", vec![reply(&[Block::text("I begin."), spawn_call("n1", "inner")])]),
        ("inner", vec![reply(&[hanging_call("h1")])]),
    ];
    let mut bench = SessionBench::new(
        BenchSetup { tasks, ..BenchSetup::default() },
        vec![reply(&[spawn_call("t1", "outer")]), done_reply()],
    );
    let mut events = Vec::new();
    bench.say("go");
    let report = bench
        .turn(|event, handle| {
            events.push(event.clone());
            if matches!(&event.body, EventBody::Tool(tool) if tool.call.as_str() == "h1") {
                handle.send(Op::interrupt());
            }
        })
        .await;
    assert!(matches!(report.end, TurnEnd::Aborted { in_tools: true }), "{:?}", report.end);
    let ends: Vec<(String, TaskState)> =
        task_states(&events).into_iter().filter(|(_, state)| *state != TaskState::Running).collect();
    assert_eq!(ends, [("inner".to_owned(), TaskState::Killed), ("outer".to_owned(), TaskState::Killed)]);
    bench.run("go on").await;
    let last = bench.model.requests().pop().unwrap();
    let results: Vec<_> =
        last.messages.iter().flat_map(|message| &message.blocks).filter_map(Block::as_tool_result).collect();
    assert_eq!(results.len(), 1);
    let text = results[0].content.unwrap().get().to_owned();
    assert!(results[0].is_error && text.contains("was stopped") && text.contains("I begin."), "{text}");
    bench.close().await;
}

#[tokio::test]
async fn a_call_of_the_agent_that_panics_or_hangs_does_not_take_the_agent_along() {
    let panics = call("p1", "Look", json!({"name": "p1", "manner": "panic"}));
    let tasks = vec![("risk", vec![reply(&[panics]), text_reply("It went wrong.")])];
    let mut bench = SessionBench::new(
        BenchSetup { tasks, ..BenchSetup::default() },
        vec![reply(&[spawn_call("t1", "risk")]), done_reply()],
    );
    bench.run("go").await;
    assert!(bench.results(2)[0].2.contains("failed inside gimlet"));
    assert_eq!(bench.results(3)[0].2, "It went wrong.");
    bench.close().await;
}

#[tokio::test]
async fn a_definition_limits_tools_and_turns_and_names_prompt_and_model() {
    let mut looker = spec(&["Look"]);
    looker.model = Some("haiku".into());
    looker.max_turns = Some(1);
    let tasks = vec![("look", vec![reply(&[Block::text("So far so good."), look_call("x1")])])];
    let setup = BenchSetup { tasks, agents: vec![("looker".to_owned(), looker)], ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![reply(&[spawn_call_of_kind("t1", "look", "looker")]), done_reply()]);
    bench.run("go").await;
    let requests = bench.model.requests();
    let tools: Vec<&str> = requests[1].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((tools, requests[1].model.as_str()), (vec!["Look"], "haiku"));
    assert_eq!(requests[1].system[0], "You are a test.");
    assert_eq!(bench.results(2)[0].2, "So far so good. [it reached its limit of 1 turns]");
    bench.close().await;
}

#[tokio::test]
async fn the_model_is_that_of_the_environment_the_call_the_definition_or_the_parent() {
    for (env, in_call, in_spec, wanted) in [
        (None, None, None, "test"),
        (None, None, Some("inherit"), "test"),
        (None, None, Some("opus"), "opus"),
        (None, Some("haiku"), Some("opus"), "haiku"),
        (None, Some("inherit"), Some("opus"), "test"),
        (Some("small"), Some("haiku"), Some("opus"), "small"),
        (Some("inherit"), Some("haiku"), None, "haiku"),
    ] {
        let kind = AgentSpec { model: in_spec.map(str::to_owned), ..spec(&["Look"]) };
        let environment =
            env.map_or_else(Env::default, |model| Env::default().with("CLAUDE_CODE_SUBAGENT_MODEL", model));
        let setup = BenchSetup {
            tasks: vec![("x", vec![done_reply()])],
            agents: vec![("k".to_owned(), kind)],
            env: environment,
            ..BenchSetup::default()
        };
        let input = json!({"task": "x", "subagent_type": "k", "model": in_call});
        let mut bench = SessionBench::new(setup, vec![reply(&[call("t1", "Agent", input)]), done_reply()]);
        bench.run("go").await;
        assert_eq!(bench.model.requests()[1].model, wanted, "{env:?} {in_call:?} {in_spec:?}");
        bench.close().await;
    }
}

#[tokio::test]
async fn a_kind_that_is_unknown_or_denied_is_answered_with_those_there_are() {
    let setup = BenchSetup { deny: vec!["Agent(Plan)"], ..BenchSetup::default() };
    let calls = [spawn_call_of_kind("t1", "x", "Explorer"), spawn_call_of_kind("t2", "x", "Plan")];
    let mut bench = SessionBench::new(setup, vec![reply(&calls), done_reply()]);
    let (_, events) = run_collecting_events(&mut bench, "go").await;
    let results = bench.results(1);
    assert!(results[0].2.contains("Did you mean `Explore`? Available types: general-purpose, Explore, Bash."));
    assert!(results[1].1 && results[1].2.contains("Agent(Plan)"), "the rule decides: {results:?}");
    let offered = events.iter().find_map(|event| match &event.body {
        EventBody::TurnStarting(opened) => Some(opened.agents.clone()),
        _ => None,
    });
    assert_eq!(offered.unwrap(), ["general-purpose", "Explore", "Bash"]);
    assert_eq!(task_states(&events), [], "nothing began");
    bench.close().await;
}

#[tokio::test]
async fn a_kind_that_wants_a_work_tree_of_its_own_is_not_let_loose_on_everybodys_files() {
    let apart = AgentSpec { isolation: Some("worktree".into()), ..spec(&["Touch"]) };
    let setup = BenchSetup { agents: vec![("apart".to_owned(), apart)], ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![reply(&[spawn_call_of_kind("t1", "x", "apart")]), done_reply()]);
    let (_, events) = run_collecting_events(&mut bench, "go").await;
    assert!(bench.results(1)[0].2.contains("`isolation: worktree`, which is not available"), "{:?}", bench.results(1));
    assert_eq!(task_states(&events), [], "nothing began");
    bench.close().await;
}

#[tokio::test]
async fn an_agent_in_the_background_reports_when_it_is_done_and_wakes_the_session() {
    let tasks = vec![("slow", vec![gated_reply(), text_reply("I found it.")])];
    let setup = BenchSetup { tasks, attended: true, ..BenchSetup::default() };
    let mut bench = SessionBench::new(
        setup,
        vec![reply(&[spawn_call_in_background("t1", "slow")]), done_reply(), text_reply("Thanks.")],
    );
    let (first, mut events) = run_collecting_events(&mut bench, "go").await;
    assert_eq!(first.text, "done");
    bench.log.go.notify_one();
    let second = bench.turn(|event, _| events.push(event.clone())).await;
    assert_eq!((second.text.as_str(), second.origin), ("Thanks.", Some(PromptOrigin::TaskNotification)));
    let notice = events.iter().rev().find_map(|event| match &event.body {
        EventBody::Prompt(prompt) if prompt.synthetic => prompt.blocks[0].as_text().map(|text| text.into_owned()),
        _ => None,
    });
    let notice = notice.unwrap();
    assert!(notice.starts_with("[Automatic notice, no human wrote this] Background agent a"), "{notice}");
    assert!(notice.contains("has finished") && notice.contains("I found it."), "{notice}");
    let tasks = bench.handle.snapshot().tasks.clone();
    assert_eq!(result_of(&bench, "t1"), tasks[0].id);
    assert_eq!(std::fs::read_to_string(&tasks[0].output_file).unwrap(), "I found it.");
    assert!(tasks[0].backgrounded && tasks[0].state == TaskState::Completed);
    bench.close().await;
}

#[tokio::test]
async fn an_agent_in_the_background_can_be_stopped_and_is_said_to_have_ended_once() {
    let tasks = vec![("slow", vec![reply(&[hanging_call("h1")])])];
    let setup = BenchSetup { tasks, attended: true, ..BenchSetup::default() };
    let mut bench =
        SessionBench::new(setup, vec![reply(&[spawn_call_in_background("t1", "slow")]), done_reply(), done_reply()]);
    bench.run("go").await;
    let id = result_of(&bench, "t1");
    let (answer, answered) = OpReply::channel();
    bench.handle.send(Op::StopTask { task: id, reply: answer });
    answered.await.unwrap().unwrap();
    let (_, events) = run_collecting_events(&mut bench, "go on").await;
    let ends =
        events.iter().filter(|event| matches!(&event.body, EventBody::Task(task) if task.state == TaskState::Killed));
    assert_eq!(ends.count(), 1);
    let last = bench.model.requests().pop().unwrap();
    let said: Vec<_> = last.messages.last().unwrap().blocks.iter().filter_map(Block::as_text).collect();
    assert_eq!(said, ["go on"], "whoever stopped it need not be told");
    bench.close().await;
}

#[tokio::test]
async fn a_question_of_an_agent_in_the_background_is_asked_while_nothing_else_runs() {
    let touch = call("w1", "Touch", json!({"name": "w1"}));
    let tasks = vec![("write", vec![gated_reply(), reply(&[touch]), text_reply("Written.")])];
    let setup = BenchSetup { tasks, attended: true, mode: PermissionMode::Default, ..BenchSetup::default() };
    let mut bench = SessionBench::new(
        setup,
        vec![reply(&[spawn_call_in_background("t1", "write")]), done_reply(), text_reply("Thanks.")],
    );
    bench.run("go").await;
    bench.log.go.notify_one();
    let id = result_of(&bench, "t1");
    let mut asked = Vec::new();
    let mut yes = answer_all(AskAnswer::yes);
    let report = bench
        .turn(|event, handle| {
            if let EventBody::Ask(ask) = &event.body {
                let gimlet_proto::PermissionAsk { tool, .. } = ask.body.call().unwrap();
                asked.push((ask.agent_id.clone(), tool.clone()));
            }
            yes(event, handle);
        })
        .await;
    assert_eq!(report.text, "Thanks.");
    assert_eq!(asked, [(Some(id), "Touch".to_owned())]);
    assert!(bench.lines().contains(&"touch w1 ends".to_owned()));
    bench.close().await;
}

#[tokio::test]
async fn a_plain_no_to_an_agent_somebody_waits_for_stops_the_turn_and_one_alone_loses_the_call_only() {
    let touch = || reply(&[call("w1", "Touch", json!({"name": "w1"}))]);
    let no = || AskAnswer::No { message: String::new(), interrupt: false };
    let setup = |first: Vec<Vec<ModelEvent>>| BenchSetup {
        tasks: vec![("write", first.into_iter().chain([touch(), text_reply("I could not.")]).collect())],
        attended: true,
        mode: PermissionMode::Default,
        ..BenchSetup::default()
    };
    let mut bench = SessionBench::new(setup(Vec::new()), vec![reply(&[spawn_call("t1", "write")])]);
    bench.say("go");
    let report = bench.turn(answer_all(no)).await;
    assert!(matches!(report.end, TurnEnd::Aborted { in_tools: true }));
    assert_eq!(report.denials.len(), 1, "the refusal is told with the turn");
    bench.close().await;

    let mut bench = SessionBench::new(
        setup(vec![gated_reply()]),
        vec![reply(&[spawn_call_in_background("t1", "write")]), done_reply(), text_reply("Thanks.")],
    );
    let mut answer = answer_all(no);
    bench.say("go");
    bench.turn(&mut answer).await;
    bench.log.go.notify_one();
    let report = bench.turn(&mut answer).await;
    assert_eq!(
        (report.text.as_str(), report.denials.len()),
        ("Thanks.", 1),
        "a refusal between turns is told with the next"
    );
    bench.close().await;
}

#[tokio::test]
async fn without_anyone_to_ask_an_agent_is_refused_like_everyone() {
    let touch = call("w1", "Touch", json!({"name": "w1"}));
    let tasks = vec![("write", vec![reply(&[touch]), text_reply("I could not.")])];
    let setup = BenchSetup { tasks, mode: PermissionMode::Default, ..BenchSetup::default() };
    let mut bench = SessionBench::new(setup, vec![reply(&[spawn_call("t1", "write")]), done_reply()]);
    let report = bench.run("go").await;
    assert_eq!(bench.lines(), Vec::<String>::new());
    assert_eq!(report.denials.len(), 1);
    bench.close().await;
}

#[tokio::test]
async fn a_reader_by_definition_changes_nothing_although_its_parent_might_be_asked_or_bypass_permissions() {
    for may_bypass in [false, true] {
        let touch = call("w1", "Touch", json!({"name": "w1"}));
        let planner = AgentSpec { permission_mode: Some(PermissionMode::Plan), ..spec(&["Touch"]) };
        let setup = BenchSetup {
            tasks: vec![("write", vec![reply(&[touch]), text_reply("I may not.")])],
            agents: vec![("planner".to_owned(), planner)],
            may_bypass,
            attended: true,
            mode: PermissionMode::Default,
            ..BenchSetup::default()
        };
        let mut bench =
            SessionBench::new(setup, vec![reply(&[spawn_call_of_kind("t1", "write", "planner")]), done_reply()]);
        bench.say("go");
        bench.turn(|event, _| assert!(!matches!(event.body, EventBody::Ask(_)), "nobody is asked")).await;
        let told = format!("{:?}", bench.model.requests()[1].messages);
        assert!(told.contains("<plan-mode>") && told.contains("Report what you found out"), "{told}");
        assert!(bench.results(2)[0].1, "{:?}", bench.results(2));
        assert_eq!(bench.lines(), Vec::<String>::new());
        bench.close().await;
    }
}

#[tokio::test]
async fn what_is_the_sessions_own_is_its_subagents_own_too() {
    let touch = call("w1", "Touch", json!({"name": "w1", "manner": "protected"}));
    let tasks = vec![("write", vec![reply(&[touch]), text_reply("Written.")])];
    let setup = |project: &std::path::Path| BenchSetup {
        tasks,
        own: vec![project.join(".git/config")],
        mode: PermissionMode::AcceptEdits,
        ..BenchSetup::default()
    };
    let mut bench = SessionBench::new_with(setup, vec![reply(&[spawn_call("t1", "write")]), done_reply()]);
    let report = bench.run("go").await;
    assert_eq!((report.denials.len(), bench.results(2)[0].2.as_str()), (0, "w1 done"));
    bench.close().await;
}

#[tokio::test]
async fn a_failure_keeps_what_was_said_and_without_words_is_an_error() {
    let failed = || {
        let error = gimlet_proto::ModelError {
            kind: gimlet_proto::ModelErrorKind::Overloaded,
            status: Some(529),
            message: "busy".into(),
            hint: None,
            request_id: None,
        };
        vec![ModelEvent::Failed(error)]
    };
    let tasks = vec![
        ("words", vec![reply(&[Block::text("Half of it."), look_call("x1")]), failed()]),
        ("none", vec![failed()]),
    ];
    let calls = [spawn_call("t1", "words"), spawn_call("t2", "none")];
    let mut bench = SessionBench::new(BenchSetup { tasks, ..BenchSetup::default() }, vec![reply(&calls), done_reply()]);
    let (_, events) = run_collecting_events(&mut bench, "go").await;
    let results = bench.results(bench.model.requests().len() - 1);
    assert!(!results[0].1 && results[0].2.starts_with("Half of it. [the model could not be reached"), "{results:?}");
    assert!(results[1].1 && results[1].2.starts_with("The agent came to nothing"), "{results:?}");
    let failures = task_states(&events).into_iter().filter(|(_, state)| *state == TaskState::Failed).count();
    assert_eq!(failures, 2);
    bench.close().await;
}

#[tokio::test]
async fn a_report_that_is_too_long_is_cut_and_kept_whole_in_a_file() {
    let long = "line\n".repeat(2_000);
    let setup = BenchSetup {
        tasks: vec![("long", vec![text_reply(&long)])],
        env: Env::default().with("TASK_MAX_OUTPUT_LENGTH", "1000"),
        ..BenchSetup::default()
    };
    let mut bench = SessionBench::new(setup, vec![reply(&[spawn_call("t1", "long")]), done_reply()]);
    bench.run("go").await;
    let text = bench.results(2)[0].2.clone();
    let file = bench.handle.snapshot().tasks[0].output_file.clone();
    assert!(text.len() < 1_300 && text.contains(&file.display().to_string()), "{text}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), long.trim_end());
    bench.close().await;
}
