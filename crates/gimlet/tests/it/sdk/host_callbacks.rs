//! Calls into the host: its hooks and the tools inside it; and the agents that it defines.

use gimlet_script::{ExpectedRequest, Script, ScriptServer};
use serde_json::{Value, json};

use super::{SdkHost, line_kinds, result_text};
use crate::world;

/// Greets with a hook before every Write.
async fn initialize_with_hook(host: &mut SdkHost) {
    let hooks = json!({"PreToolUse": [{"matcher": "Write", "hookCallbackIds": ["hook_0"]}]});
    let welcome = host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    assert_eq!(welcome["response"]["hooks_applied"], true);
}

#[tokio::test]
async fn a_hook_is_asked_after_the_call_is_shown_and_before_the_question() {
    let world = world();
    let input = json!({"file_path": world.path("x.txt"), "content": "1"});
    let model = Script::new().call("Write", input).then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start_attended(&world, &model);
    initialize_with_hook(&mut host).await;
    host.say("write");
    let hook = host.wait_for_request("hook_callback").await;
    let asked = &hook["request"];
    assert_eq!((&asked["callback_id"], &asked["input"]["hook_event_name"]), (&json!("hook_0"), &json!("PreToolUse")));
    assert_eq!(asked["tool_use_id"], asked["input"]["tool_use_id"]);
    host.answer(&hook, json!({}));
    let question = host.wait_for_request("can_use_tool").await;
    host.answer(&question, json!({"behavior": "allow"}));
    host.wait_for_state("idle").await;
    let lines = host.end().await.clean(0);
    let expected = "control_response running init assistant hook_callback requires_action can_use_tool running user \
                    assistant result idle";
    assert_eq!(line_kinds(&lines).join(" "), expected);
}

#[tokio::test]
async fn a_hook_that_never_answers_is_withdrawn_by_an_interrupt() {
    let world = world();
    let input = json!({"file_path": world.path("x.txt"), "content": "1"});
    let model = Script::new().call("Write", input).serve().await.unwrap();
    let mut host = SdkHost::start_attended(&world, &model);
    initialize_with_hook(&mut host).await;
    host.say("write");
    let hook = host.wait_for_request("hook_callback").await;
    host.send_request(json!({"subtype": "interrupt"})).await;
    let result = host.result().await;
    assert_eq!(result["terminal_reason"], "aborted_tools");
    let withdrawn = host.seen.iter().find(|line| line["type"] == "control_cancel_request").unwrap();
    assert_eq!(withdrawn["request_id"], hook["request_id"]);
    host.end().await.clean(1);
    assert!(!world.project.join("x.txt").exists());
}

#[tokio::test]
async fn a_later_greeting_brings_its_own_hooks() {
    let world = world();
    let write = |name: &str| json!({"file_path": world.path(name), "content": "1"});
    let model = Script::new().call("Write", write("a")).then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--permission-mode", "acceptEdits"]));
    initialize_with_hook(&mut host).await;
    let hooks = json!({"PostToolUse": [{"matcher": null, "hookCallbackIds": ["hook_9"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("write");
    let hook = host.wait_for_request("hook_callback").await;
    assert_eq!(hook["request"]["callback_id"], "hook_9");
    host.answer(&hook, json!({}));
    host.result().await;
    let lines = host.end().await.clean(0);
    assert_eq!(line_kinds(&lines).iter().filter(|kind| *kind == "hook_callback").count(), 1);
}

/// The tool of a server inside the host; a wordy server has one whose full name is too long for providers.
fn tool_name(server: &Value) -> String {
    if server == "wordy" { "add".repeat(30) } else { "add".to_owned() }
}

/// Answers as a server with one tool does, until there is a line that fits.
pub(super) async fn serve(host: &mut SdkHost, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let line = host.next_line().await;
        if is_it(&line) {
            return line;
        }
        if line["request"]["subtype"] != "mcp_message" {
            continue;
        }
        let message = &line["request"]["message"];
        let arguments = &message["params"]["arguments"];
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "calc", "version": "1"}}),
            "tools/list" => {
                json!({"tools": [{"name": tool_name(&line["request"]["server_name"]), "description": "Adds", "inputSchema":
                {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}}]})
            }
            "tools/call" => {
                let sum = arguments["a"].as_f64().unwrap() + arguments["b"].as_f64().unwrap();
                json!({"content": [{"type": "text", "text": format!("{sum}")}]})
            }
            "resources/read" => json!({"contents": [{"uri": message["params"]["uri"], "text": "<p>"}]}),
            _ => json!({}),
        };
        let response = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        host.answer(&line, json!({"mcp_response": response}));
    }
}

pub(super) async fn serve_add_call() -> ScriptServer {
    Script::new().call("mcp__calc__add", json!({"a": 1, "b": 2})).then().say("done").serve().await.unwrap()
}

#[tokio::test]
async fn tools_inside_the_host_are_offered_from_the_first_request_on() {
    for announced in ["flag", "greeting"] {
        let world = world();
        let model = serve_add_call().await;
        let mut run = world.run(&model).args(["--allowedTools", "mcp__calc"]);
        if announced == "flag" {
            run = run.args(["--mcp-config", r#"{"mcpServers":{"calc":{"type":"sdk","name":"other"}}}"#]);
        }
        let mut host = SdkHost::start(run);
        if announced == "greeting" {
            host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["calc"]})).await;
        }
        host.say("add");
        let init = serve(&mut host, |line| line["subtype"] == "init").await;
        assert_eq!(init["mcp_servers"][0]["status"], "connected", "{announced}");
        let result = serve(&mut host, |line| line["type"] == "user").await;
        assert_eq!(result_text(&result), "3");
        host.result().await;
        let status = host.send_request(json!({"subtype": "mcp_status"})).await;
        assert_eq!(status["response"]["mcpServers"][0]["tools"][0]["name"], "add");
        host.end().await.clean(0);
        assert!(model.request(0).tool_names().contains(&"mcp__calc__add".to_owned()));
    }
}

#[tokio::test]
async fn a_call_into_a_host_that_has_gone_quiet_fails() {
    let world = world();
    let model = serve_add_call().await;
    let servers = r#"{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}"#;
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "mcp__calc", "--mcp-config", servers]));
    host.say("add");
    serve(&mut host, |line| line["request"]["message"]["method"] == "tools/call").await;
    let lines = host.end().await.clean(0);
    let failed = lines.iter().find(|line| line["type"] == "user").unwrap();
    assert_eq!(failed["message"]["content"][0]["is_error"], true);
    assert!(result_text(failed).contains("Stream closed"), "{}", result_text(failed));
}

/// A model that sends an agent of the host's in the foreground or the background.
async fn serve_agent_call(background: bool) -> ScriptServer {
    let task = json!({"description": "greet", "prompt": "greet Ada", "subagent_type": "greeter",
        "run_in_background": background});
    let agents_own =
        ExpectedRequest { system_contains: Some("You greet people.".to_owned()), ..ExpectedRequest::default() };
    let script = Script::new().call("Agent", task).then().say("done").then();
    let script = if background { script.say("heard of it").then() } else { script };
    script.say("Hail, Ada!").when(agents_own).delay_ms(200).serve().await.unwrap()
}

async fn initialize_with_agents(host: &mut SdkHost) {
    let agents = json!({"greeter": {"description": "Greets", "prompt": "You greet people."}});
    let welcome = host.send_request(json!({"subtype": "initialize", "agents": agents})).await;
    let agents = welcome["response"]["agents"].as_array().unwrap();
    assert!(agents.iter().any(|agent| agent["name"] == "greeter"), "{agents:?}");
}

#[tokio::test]
async fn the_end_of_input_waits_for_agents_and_the_turn_that_they_cause() {
    let world = world();
    let model = serve_agent_call(true).await;
    let mut host = SdkHost::start(world.run(&model));
    initialize_with_agents(&mut host).await;
    host.say("send it");
    let lines = host.end().await.clean(0);
    let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
    assert_eq!(results.iter().map(|line| &line["result"]).collect::<Vec<_>>(), [&json!("done"), &json!("heard of it")]);
    assert_eq!(results[1]["origin"], json!({"kind": "task-notification"}));
    let kinds = line_kinds(&lines);
    let at = |kind: &str| kinds.iter().position(|other| other == kind).unwrap();
    assert!(at("task_started") < at("result") && at("result") < at("task_notification"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "idle").count(), 1, "it is at work until then: {kinds:?}");
    assert!(model.failures().is_empty(), "{:?}", model.failures());
}

#[tokio::test]
async fn the_transcripts_of_agents_are_mirrored_with_their_description() {
    let world = world();
    let model = serve_agent_call(false).await;
    let mut host = SdkHost::start(world.run(&model).arg("--session-mirror"));
    initialize_with_agents(&mut host).await;
    host.say("send it");
    host.result().await;
    let lines = host.end().await.clean(0);
    let frames: Vec<&Value> = lines
        .iter()
        .filter(|line| {
            line["type"] == "transcript_mirror" && line["filePath"].as_str().unwrap().contains("/subagents/")
        })
        .collect();
    let first = &frames[0]["entries"][0];
    assert_eq!((&first["type"], &first["agentType"]), (&json!("agent_metadata"), &json!("greeter")));
    let copied: Vec<Value> =
        frames.iter().flat_map(|frame| frame["entries"].as_array().unwrap().clone()).skip(1).collect();
    let path = frames[0]["filePath"].as_str().unwrap();
    assert_eq!(copied, gimlet_testkit::entries_of(std::path::Path::new(path)));
}

#[tokio::test]
async fn a_program_calls_tools_and_reads_pages_by_itself_unless_a_rule_forbids() {
    let world = world();
    let model = Script::new().say("hello").serve().await.unwrap();
    let deny = r#"{"permissions":{"deny":["mcp__calc__sub","mcp__calc__add(a:7)"],"ask":["mcp__calc__add"]}}"#;
    let mut host = SdkHost::start(world.run(&model).args(["--permission-mode", "plan", "--settings", deny]));
    host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["calc"]})).await;
    host.say("hi");
    serve(&mut host, |line| line["type"] == "result").await;
    let call = |tool: &str, a: u32| json!({"subtype": "mcp_call", "tool": tool, "arguments": {"a": a, "b": 2}});
    let mut staged = call("mcp__calc__add", 1);
    staged["check_permissions"] = json!(true);
    let page = |uri: &str| json!({"subtype": "mcp_read_resource", "serverName": "calc", "uri": uri});
    let cases = [
        (call("mcp__calc__add", 1), Ok(json!("3"))),
        (call("mcp__calc__add", 7), Err("The tool did not run")),
        (call("mcp__calc__sub", 1), Err("The tool did not run")),
        (call("mcp__calc__none", 1), Err("no connected server")),
        (call("Bash", 1), Err("no connected server")),
        (staged, Err("check_permissions")),
        (page("ui://chart"), Ok(json!("<p>"))),
        (page("file:///etc/passwd"), Err("ui://")),
        (json!({"subtype": "mcp_read_resource", "serverName": "none", "uri": "ui://x"}), Err("no server named")),
    ];
    for (number, (request, expected)) in cases.into_iter().enumerate() {
        let id = json!(format!("own_{number}"));
        host.send_line(json!({"type": "control_request", "request_id": id, "request": request}));
        let line = serve(&mut host, |line| line["response"]["request_id"] == id).await;
        let answer = &line["response"];
        match expected {
            Ok(text) => {
                let given = &answer["response"];
                let first = given.get("content").or(given.get("contents")).unwrap_or(&Value::Null);
                assert_eq!(first[0]["text"], text, "{request}: {answer}");
            }
            Err(words) => {
                assert!(answer["error"].as_str().is_some_and(|error| error.contains(words)), "{request}: {answer}");
            }
        }
    }
    let called = host.seen.iter().filter(|line| line["request"]["message"]["method"] == "tools/call").count();
    assert_eq!(called, 1, "what is forbidden never reaches the server");
    host.end().await.clean(0);
    let decided = world.run(&model).args(["why", "--json"]).finish().await.expect_code(0).lines();
    let noted = |line: &Value| ["tool", "outcome", "by", "mode"].map(|key| line[key].as_str().unwrap().to_owned());
    let noted: Vec<_> = decided.iter().map(noted).collect();
    assert_eq!(
        noted,
        [
            ["mcp__calc__add", "allowed", "host", "plan"],
            ["mcp__calc__add", "refused", "policy", "plan"],
            ["mcp__calc__sub", "refused", "policy", "plan"],
            ["mcp__calc__none", "allowed", "host", "plan"],
            ["Bash", "allowed", "host", "plan"],
            ["mcp__calc__resources/read", "allowed", "host", "plan"],
            ["mcp__none__resources/read", "allowed", "host", "plan"],
        ],
        "what the program wanted by itself is written down too"
    );
}

#[tokio::test]
async fn a_tool_whose_name_was_shortened_is_forbidden_by_its_whole_name() {
    let whole = tool_name(&json!("wordy"));
    let (short, rule) = (gimlet_mcp::tool_name("wordy", &whole), format!("mcp__wordy__{whole}"));
    assert_ne!(short, rule);
    for (rule, runs) in [(rule.as_str(), false), ("mcp__other__add", true)] {
        let (world, model) = (world(), Script::new().serve().await.unwrap());
        let mut host = SdkHost::start(world.run(&model).args(["--disallowedTools", rule]));
        host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["wordy"]})).await;
        let request = json!({"subtype": "mcp_call", "tool": short, "arguments": {"a": 1, "b": 2}});
        host.send_line(json!({"type": "control_request", "request_id": "own", "request": request}));
        let line = serve(&mut host, |line| line["response"]["request_id"] == "own").await;
        let called = host.seen.iter().any(|line| line["request"]["message"]["method"] == "tools/call");
        assert_eq!((line["response"]["subtype"] == "success", called), (runs, runs), "{rule}: {line}");
        host.end().await.clean(0);
    }
}

#[tokio::test]
async fn the_pages_of_a_server_that_a_rule_forbids_are_not_read() {
    let (world, model) = (world(), Script::new().serve().await.unwrap());
    for (server, rule, open) in [
        ("calc", "mcp__calc", false),
        ("my.calc", "mcp__my.calc", false),
        ("my.calc", "mcp__my_calc__*", false),
        ("calc", "mcp__calc__read", true),
        ("calc", "mcp__cal", true),
    ] {
        let deny = json!({"permissions": {"deny": [rule]}}).to_string();
        let mut host = SdkHost::start(world.run(&model).args(["--dangerously-skip-permissions", "--settings", &deny]));
        host.send_request(json!({"subtype": "initialize", "sdkMcpServers": [server]})).await;
        let page = json!({"subtype": "mcp_read_resource", "serverName": server, "uri": "ui://chart"});
        host.send_line(json!({"type": "control_request", "request_id": "page", "request": page}));
        let line = serve(&mut host, |line| line["response"]["request_id"] == "page").await;
        assert_eq!(line["response"]["subtype"] == "success", open, "{rule}: {line}");
        let read = host.seen.iter().any(|line| line["request"]["message"]["method"] == "resources/read");
        assert_eq!(read, open, "{rule}");
        host.end().await.clean(0);
    }
}

#[tokio::test]
async fn a_prompt_that_its_guard_cannot_see_whole_is_not_let_in() {
    let world = world();
    let model = Script::new().say("fine").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let hooks = json!({"UserPromptSubmit": [{"hookCallbackIds": ["guard"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say(&"x".repeat(1_200_000));
    let result = host.result().await;
    assert!(result["result"].as_str().unwrap().contains("too long to be shown whole"), "{result}");
    assert!(host.seen.iter().all(|line| line["request"]["subtype"] != "hook_callback"), "it was not asked in part");
    host.say("short");
    let hook = host.wait_for_request("hook_callback").await;
    host.answer(&hook, json!({}));
    assert_eq!(host.result().await["result"], "fine");
    let lines = host.end().await.clean(0);
    assert!(lines.iter().all(|line| line.to_string().len() < 1_000_000));
    assert!(!model.request(0).body_text().contains("xxxx"));
}

/// Answers what a server named `guard` is asked, until a line of this kind; `decide` is its tool.
async fn serve_guard_until(host: &mut SdkHost, decide: &Value, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let line = host.next_line().await;
        if is_it(&line) {
            return line;
        }
        if line["request"]["subtype"] != "mcp_message" {
            continue;
        }
        let message = &line["request"]["message"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "guard", "version": "1"}}),
            "tools/list" => json!({"tools": [{"name": "decide", "inputSchema": {"type": "object"}}]}),
            "tools/call" => decide.clone(),
            _ => json!({}),
        };
        host.answer(&line, json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}}));
    }
}

#[tokio::test]
async fn a_tool_of_a_server_can_answer_for_the_person_and_only_a_clear_yes_counts() {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let failed = json!({"content": [{"type": "text", "text": r#"{"behavior":"allow"}"#}], "isError": true});
    let two = json!({"content": [{"type": "text", "text": r#"{"behavior":"allow"}"#}, {"type": "text", "text": ""}]});
    let cases = [
        (text(r#"{"behavior":"allow"}"#), Some("a.txt"), ""),
        (text(r#"{"behavior":"allow","updatedInput":{"file_path":"b.txt","content":"1"}}"#), Some("b.txt"), ""),
        (text(r#"{"behavior":"allow","updatedInput":{"file_path":"closed/x","content":"1"}}"#), None, "closed"),
        (text(r#"{"behavior":"deny","message":"not today"}"#), None, "not today"),
        (text(r#"{"behavior":"sure"}"#), None, "could not be understood"),
        (text("yes"), None, "no JSON"),
        (failed, None, "it failed"),
        (two, None, "one text"),
    ];
    for (answer, written, words) in cases {
        let world = world();
        let input = json!({"file_path": world.path("a.txt"), "content": "1"});
        let model = Script::new().call("Write", input.clone()).then().say("done").serve().await.unwrap();
        let deny = r#"{"permissions":{"deny":["Edit(closed/**)"]}}"#;
        let flags = ["--permission-prompt-tool", "mcp__guard__decide", "--settings", deny];
        let mut host = SdkHost::start(world.run(&model).args(flags));
        host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["guard"]})).await;
        host.say("write");
        let result = serve_guard_until(&mut host, &answer, |line| line["type"] == "result").await;
        assert_eq!(
            result["permission_denials"].as_array().unwrap().is_empty(),
            written.is_some(),
            "{answer}: {result}"
        );
        let lines = host.end().await.clean(0);
        assert!(!line_kinds(&lines).contains(&"can_use_tool".to_owned()));
        let call = lines.iter().find(|line| line["request"]["message"]["method"] == "tools/call").unwrap();
        let told = &call["request"]["message"]["params"]["arguments"];
        assert_eq!((&told["tool_name"], &told["input"]), (&json!("Write"), &input));
        assert!(told["tool_use_id"].is_string());
        for file in ["a.txt", "b.txt", "closed/x"] {
            assert_eq!(world.project.join(file).exists(), written == Some(file), "{answer}: {file}");
        }
        let refused = lines.iter().find(|line| line["type"] == "user").map(result_text).unwrap_or_default();
        assert!(refused.contains(words), "{answer}: {refused}");
    }
}

#[tokio::test]
async fn without_its_server_the_tool_that_answers_lets_nothing_pass() {
    let world = world();
    let input = json!({"file_path": world.path("a.txt"), "content": "1"});
    let model = Script::new().call("Write", input).then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--permission-prompt-tool", "mcp__gone__decide"]));
    host.say("write");
    let result = host.result().await;
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), 1);
    let lines = host.end().await.clean(0);
    let refused = lines.iter().find(|line| line["type"] == "user").map(result_text).unwrap();
    assert!(refused.contains("mcp__gone__decide") && !world.project.join("a.txt").exists(), "{refused}");
    let model = Script::new().serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--permission-prompt-tool", "Bash"]));
    assert!(host.result().await["errors"][0].as_str().unwrap().contains("no tool of a server"));
    drop(host.end().await);
}

/// The state that was told last.
fn last_state(host: &SdkHost) -> &str {
    let state = host.seen.iter().rev().find(|line| line["subtype"] == "session_state_changed");
    state.and_then(|line| line["state"].as_str()).unwrap_or_default()
}

#[tokio::test]
async fn a_servers_question_reaches_the_person_and_comes_back() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["guard"]})).await;
    host.say("hi");
    let nothing = json!({});
    serve_guard_until(&mut host, &nothing, |line| line["type"] == "result").await;
    let hello = host.seen.iter().find(|line| line["request"]["message"]["method"] == "initialize").unwrap();
    let params = &hello["request"]["message"]["params"];
    assert_eq!(params["protocolVersion"], "2025-06-18");
    assert_eq!(params["capabilities"]["elicitation"], json!({}), "this version knows no kinds of questions");
    let cases = [
        (
            Some(json!({"action": "accept", "content": {"name": "Ada"}})),
            json!({"action": "accept", "content": {"name": "Ada"}}),
        ),
        (Some(json!({"action": "cancel"})), json!({"action": "cancel"})),
        (Some(json!({"action": "whatever"})), json!({"action": "decline"})),
        (None, json!({"action": "decline"})),
    ];
    for (number, (answer, expected)) in cases.into_iter().enumerate() {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let asked = json!({"jsonrpc": "2.0", "id": number + 100, "method": "elicitation/create",
            "params": {"message": "Who are you?", "requestedSchema": schema}});
        host.send_line(json!({"type": "control_request", "request_id": format!("in_{number}"),
            "request": {"subtype": "mcp_message", "server_name": "guard", "message": asked}}));
        let question = serve_guard_until(&mut host, &nothing, |line| line["request"]["subtype"] == "elicitation").await;
        assert_eq!(last_state(&host), "requires_action");
        let request = &question["request"];
        assert_eq!((&request["mcp_server_name"], &request["message"]), (&json!("guard"), &json!("Who are you?")));
        assert_eq!(request["requested_schema"]["properties"]["name"]["type"], "string");
        match answer {
            Some(answer) => host.answer(&question, answer),
            None => host.send_line(json!({"type": "control_response", "response": {"subtype": "error",
                "request_id": question["request_id"], "error": "Unsupported control request subtype"}})),
        }
        let id = json!(number + 100);
        let back = serve_guard_until(&mut host, &nothing, |line| line["request"]["message"]["id"] == id).await;
        assert_eq!(back["request"]["message"]["result"], expected);
        host.answer(&back, json!({"mcp_response": {"jsonrpc": "2.0", "result": {}}}));
        if last_state(&host) != "idle" {
            host.wait_for_state("idle").await;
        }
    }
    host.end().await.clean(0);
}

#[tokio::test]
async fn a_guard_that_is_gone_lets_nothing_run_and_the_session_ends_in_order() {
    let world = world();
    let touch = |name: &str| json!({"command": format!("touch {name}")});
    let script = Script::new().call("Bash", touch("one")).then().call("Bash", touch("two"));
    let model = script.then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "Bash"]));
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["guard"]}]});
    host.send_request(json!({"subtype": "initialize", "hooks": hooks})).await;
    host.say("go");
    host.wait_for_request("hook_callback").await;
    let lines = host.end().await.clean(0);
    let results: Vec<String> = lines.iter().filter(|line| line["type"] == "user").map(result_text).collect();
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results.iter().all(|text| text.contains("cannot answer any more")), "{results:?}");
    let result = lines.iter().find(|line| line["type"] == "result").unwrap();
    assert_eq!(result["result"], "done");
    assert!(!world.project.join("one").exists() && !world.project.join("two").exists());
}
