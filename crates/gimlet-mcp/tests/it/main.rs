//! Servers inside the driving program, over the channel that reaches them.

#![allow(clippy::unwrap_used, reason = "a broken bench is a failed test")]

mod misbehaving_servers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gimlet_core::tool::{ResultCap, ServerRequestFacts, ToolSource};
use gimlet_mcp::{EntryContext, McpServers, ServerConfig, ServerTimeouts};
use gimlet_proto::{BoxFuture, Driver, DriverError, Env, HookCall, ServerRegistry, ServerRequest, ServerStatus};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// A program with a server that adds, as far as the protocol shows it.
#[derive(Default)]
struct AdderDriver {
    /// Every message: server and method.
    seen: Mutex<Vec<(String, String)>>,
    broken: AtomicBool,
    /// It takes messages and never answers.
    silent: AtomicBool,
    /// What it lists instead.
    tools: Option<Value>,
}

impl AdderDriver {
    fn respond(&self, message: &Value) -> Value {
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                "serverInfo": {"name": "adder", "version": "1.2.3"}}),
            Some("tools/list") if self.tools.is_some() => json!({"tools": self.tools}),
            Some("tools/list") if message["params"]["cursor"].is_null() => json!({
                "tools": [{"name": "add", "description": "Adds.", "inputSchema": {"type": "object",
                    "properties": {"a": {"type": "number"}}}, "annotations": {"readOnlyHint": true}}],
                "nextCursor": "more",
            }),
            Some("tools/list") => json!({"tools": [
                {"name": "odd", "inputSchema": {"type": "string"}},
                {"name": "sub tract", "inputSchema": {}},
            ]}),
            _ => return json!({"jsonrpc": "2.0", "result": {}}),
        };
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
    }
}

impl Driver for AdderDriver {
    fn run_hook(&self, _call: HookCall) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>> {
        Box::pin(async { Err(DriverError::Closed) })
    }

    fn send_mcp_message(
        &self,
        server: &str,
        message: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>> {
        let message: Value = serde_json::from_str(message.get()).unwrap();
        let method = message["method"].as_str().unwrap_or("").to_owned();
        self.seen.lock().unwrap().push((server.to_owned(), method));
        let answer = if self.broken.load(Ordering::SeqCst) {
            Err(DriverError::Failed("no such server".into()))
        } else {
            Ok(to_raw_value(&self.respond(&message)).unwrap())
        };
        if self.silent.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        Box::pin(async move { answer })
    }
}

fn parse_servers(config: &str) -> Vec<(String, ServerConfig)> {
    gimlet_mcp::parse_servers(config, &EntryContext::default()).unwrap().servers
}

fn build_servers(program: &Arc<AdderDriver>, config: &str) -> McpServers {
    let driver = program.clone() as Arc<dyn Driver>;
    McpServers::new(Some(driver), ServerTimeouts::from_env(&Env::default()), parse_servers(config))
}

async fn tool_names(servers: &McpServers) -> Vec<String> {
    servers.tools().await.iter().map(|tool| tool.name().to_owned()).collect()
}

#[tokio::test]
async fn a_server_in_the_program_is_greeted_once_and_its_tools_are_guests() {
    let program = Arc::new(AdderDriver::default());
    let servers =
        build_servers(&program, r#"{"mcpServers":{"calc":{"type":"sdk","name":"other"},"far":{"command":"x"}}}"#);
    assert_eq!(
        tool_names(&servers).await,
        ["mcp__calc__add", "mcp__calc__sub_tract"],
        "one with no object schema is left out"
    );
    assert_eq!(tool_names(&servers).await.len(), 2);
    let seen = program.seen.lock().unwrap().clone();
    let methods: Vec<&str> = seen.iter().map(|(_, method)| method.as_str()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list", "tools/list"]);
    assert!(seen.iter().all(|(server, _)| server == "calc"), "the key is the server's name");
    let list = servers.list();
    assert_eq!(list[0].status, ServerStatus::Connected);
    assert_eq!(list[0].info, Some(("adder".into(), "1.2.3".into())));
    assert_eq!(list[0].tools[0].read_only, Some(true));
    assert_eq!(list[1].status, ServerStatus::Failed);
    assert!(list[1].error.as_ref().unwrap().contains("cannot be started"));
}

#[tokio::test]
async fn a_server_that_fails_is_tried_again_and_can_be_turned_off_and_on() {
    let program = Arc::new(AdderDriver::default());
    program.broken.store(true, Ordering::SeqCst);
    let servers = build_servers(&program, r#"{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}"#);
    assert!(tool_names(&servers).await.is_empty());
    assert!(servers.list()[0].error.as_ref().unwrap().contains("no such server"));
    assert!(servers.reconnect("calc").await.unwrap_err().contains("no such server"));
    program.broken.store(false, Ordering::SeqCst);
    assert_eq!(tool_names(&servers).await.len(), 2, "the next turn tries again");
    servers.set_enabled("calc", false).await.unwrap();
    assert!(tool_names(&servers).await.is_empty());
    assert_eq!(servers.list()[0].status, ServerStatus::Disabled);
    assert!(servers.reconnect("calc").await.unwrap_err().contains("switched off"));
    servers.set_enabled("calc", true).await.unwrap();
    assert_eq!(servers.list()[0].status, ServerStatus::Connected);
    assert!(servers.reconnect("nobody").await.unwrap_err().contains("nobody"));
}

// Time passes only while everybody waits, so that a busy machine is not taken for a silent server.
#[tokio::test(start_paused = true)]
async fn timed_out_server_is_retried_with_a_turn_or_on_request() {
    let config = r#"{"mcpServers":{"calc":{"type":"sdk"}}}"#;
    let wanted = RawValue::from_string(r#"{"calc":{"type":"sdk"}}"#.into()).unwrap();
    for way in ["turn", "reconnect", "enable", "replace"] {
        let program = Arc::new(AdderDriver::default());
        program.silent.store(true, Ordering::SeqCst);
        let timeouts = ServerTimeouts::from_env(&Env::default().with("MCP_TIMEOUT", "10"));
        let servers = McpServers::new(Some(program.clone()), timeouts, parse_servers(config));
        assert!(tool_names(&servers).await.is_empty());
        assert!(servers.list()[0].error.as_ref().unwrap().contains("did not answer"));
        program.silent.store(false, Ordering::SeqCst);
        let seen = program.seen.lock().unwrap().len();
        let wish = ServerRequest::Call { tool: "mcp__calc__add".to_owned(), input: serde_json::Map::new() };
        assert_eq!(servers.look_up_request(&wish).await, ServerRequestFacts::default());
        assert_eq!(program.seen.lock().unwrap().len(), seen, "nobody waits for it beside a turn");
        match way {
            "turn" => {}
            "reconnect" => servers.reconnect("calc").await.unwrap(),
            "enable" => servers.set_enabled("calc", true).await.unwrap(),
            _ => assert!(servers.replace(&wanted).await.unwrap().errors.is_empty()),
        }
        assert_eq!(tool_names(&servers).await.len(), 2, "{way}");
    }
}

#[tokio::test]
async fn tools_come_in_the_order_of_their_names_whatever_order_they_are_listed_in() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    for listed in [["zeta", "alpha"], ["alpha", "zeta"]] {
        let program = Arc::new(AdderDriver { tools: Some(json!(listed.map(tool))), ..AdderDriver::default() });
        let servers = build_servers(&program, r#"{"mcpServers":{"y":{"type":"sdk"},"x":{"type":"sdk"}}}"#);
        assert_eq!(tool_names(&servers).await, ["mcp__x__alpha", "mcp__x__zeta", "mcp__y__alpha", "mcp__y__zeta"]);
    }
}

#[tokio::test]
async fn the_environment_and_a_tool_itself_say_how_much_of_its_answer_stays() {
    let raised = json!({"name": "b", "inputSchema": {}, "_meta": {"anthropic/maxResultSizeChars": 200_000}});
    let tools = Some(json!([{"name": "a", "inputSchema": {}}, raised]));
    for (tokens, plain) in [(None, 100_000), (Some("1000"), 4_000), (Some("100000"), 400_000)] {
        let program = Arc::new(AdderDriver { tools: tools.clone(), ..AdderDriver::default() });
        let env = tokens.map_or_else(Env::default, |tokens| Env::default().with("MAX_MCP_OUTPUT_TOKENS", tokens));
        let config = parse_servers(r#"{"mcpServers":{"x":{"type":"sdk"}}}"#);
        let servers = McpServers::new(Some(program), ServerTimeouts::from_env(&env), config);
        let caps: Vec<ResultCap> = servers.tools().await.iter().map(|tool| tool.max_result_chars()).collect();
        assert_eq!(caps, [ResultCap::Chars(plain), ResultCap::Chars(200_000)], "{tokens:?}");
    }
}

#[tokio::test]
async fn tools_of_a_server_that_is_not_there_are_known_to_be_missing() {
    let program = Arc::new(AdderDriver::default());
    program.broken.store(true, Ordering::SeqCst);
    let servers = build_servers(&program, r#"{"mcpServers":{"my.calc":{"type":"sdk"}}}"#);
    tool_names(&servers).await;
    let absent = servers.absent_tools();
    assert_eq!(absent[0].prefix, "mcp__my_calc__");
    assert!(absent[0].why.contains("'my.calc'") && absent[0].why.contains("(no such server)"), "{absent:?}");
    program.broken.store(false, Ordering::SeqCst);
    tool_names(&servers).await;
    assert_eq!(servers.absent_tools(), []);
    servers.set_enabled("my.calc", false).await.unwrap();
    assert!(servers.absent_tools()[0].why.contains("turned off"));
}

#[tokio::test]
async fn servers_are_replaced_by_name() {
    let program = Arc::new(AdderDriver::default());
    let servers = build_servers(&program, r#"{"mcpServers":{"a":{"type":"sdk"},"far":{"command":"x"}}}"#);
    tool_names(&servers).await;
    let wanted = RawValue::from_string(r#"{"b":{"type":"sdk"},"web":{"type":"http","url":"u"}}"#.into()).unwrap();
    let changed = servers.replace(&wanted).await.unwrap();
    assert_eq!((changed.added, changed.removed), (vec!["b".into(), "web".into()], vec!["a".into()]));
    assert_eq!(changed.errors.len(), 1);
    assert!(tool_names(&servers).await.iter().all(|name| name.starts_with("mcp__b__")));
    let changed = servers.replace(&RawValue::from_string("{}".into()).unwrap()).await.unwrap();
    assert_eq!(changed.removed, ["b", "web"]);
    assert_eq!(servers.list().iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["far"]);
    assert!(servers.replace(&RawValue::from_string("[]".into()).unwrap()).await.is_err());
}

#[tokio::test]
async fn a_session_without_a_program_says_so() {
    let config = [("calc".to_owned(), ServerConfig::for_driver("calc"))];
    let servers = McpServers::new(None, ServerTimeouts::from_env(&Env::default()), config);
    assert!(tool_names(&servers).await.is_empty());
    assert!(servers.list()[0].error.as_ref().unwrap().contains("no program"));
}
