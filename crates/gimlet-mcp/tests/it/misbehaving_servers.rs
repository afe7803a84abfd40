//! Servers that list too much, in circles, or nothing in time; that answer something else, and that come and go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimlet_core::tool::ToolSource;
use gimlet_mcp::{EntryContext, McpServers, ServerTimeouts, parse_servers};
use gimlet_proto::{BoxFuture, Driver, DriverError, Env, HookCall, ServerRegistry, ServerStatus};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// What a server does about a message; `None` is silence.
type AnswerFn = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;

/// A program whose servers answer as a test wants it.
struct MisbehavingDriver(Box<AnswerFn>);

impl Driver for MisbehavingDriver {
    fn run_hook(&self, _call: HookCall) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>> {
        Box::pin(async { Err(DriverError::Closed) })
    }

    fn send_mcp_message(
        &self,
        server: &str,
        message: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>> {
        let message: Value = serde_json::from_str(message.get()).unwrap();
        match (self.0)(server, &message) {
            Some(answer) => Box::pin(async move { Ok(to_raw_value(&answer).unwrap()) }),
            None => Box::pin(std::future::pending()),
        }
    }
}

fn json_response(message: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}

/// Servers that greet as they should and list what this says.
fn servers_listing(names: &[&str], list: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> McpServers {
    servers_answering(names, move |server, message| match message["method"].as_str() {
        Some("initialize") => Some(json_response(message, initialize_result())),
        Some("tools/list") => Some(json_response(message, list(server, message)?)),
        _ => Some(json!({})),
    })
}

fn servers_answering(
    names: &[&str],
    answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
) -> McpServers {
    let driver: Arc<dyn Driver> = Arc::new(MisbehavingDriver(Box::new(answers)));
    let config: Value = names.iter().map(|name| ((*name).to_owned(), json!({"type": "sdk"}))).collect();
    let config = parse_servers(&json!({"mcpServers": config}).to_string(), &EntryContext::default()).unwrap().servers;
    McpServers::new(Some(driver), ServerTimeouts::from_env(&Env::default()), config)
}

fn initialize_result() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "wild", "version": "1"}})
}

fn tool_json(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

fn numbered_tools(count: usize, name: &str) -> Value {
    (0..count).map(|at| tool_json(&format!("{name}{at}"))).collect()
}

async fn tool_names(servers: &McpServers) -> Vec<String> {
    servers.tools().await.iter().map(|tool| tool.name().to_owned()).collect()
}

/// What people are told.
fn warnings(servers: &McpServers) -> Vec<String> {
    servers.take_news().notices.into_iter().map(|notice| notice.text).collect()
}

fn notify_tools_changed(servers: &McpServers, server: &str) {
    let message = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    servers.deliver_message(server, &to_raw_value(&message).unwrap()).unwrap();
}

async fn replace_servers(servers: &McpServers, names: &[&str]) {
    let wanted: Value = names.iter().map(|name| ((*name).to_owned(), json!({"type": "sdk"}))).collect();
    servers.replace(&to_raw_value(&wanted).unwrap()).await.unwrap();
}

#[tokio::test]
async fn invalid_tools_are_left_out_individually() {
    for odd in [
        json!({"name": "odd"}),
        json!({"name": "odd", "inputSchema": {}, "annotations": {"readOnlyHint": "yes"}}),
        json!({"name": "odd", "inputSchema": {}, "description": 5}),
        json!({"name": "odd", "inputSchema": {}, "_meta": 5}),
        Value::Null,
    ] {
        let tools = json!([tool_json("a"), odd, tool_json("b")]);
        let servers = servers_listing(&["s"], move |_, message| match message["params"]["cursor"].as_str() {
            None => Some(json!({"tools": tools, "nextCursor": "more"})),
            Some(_) => Some(json!({"tools": [tool_json("c")]})),
        });
        assert_eq!(tool_names(&servers).await, ["mcp__s__a", "mcp__s__b", "mcp__s__c"], "{odd}");
        let told = warnings(&servers);
        let name = if odd.is_null() { "'number 2'" } else { "'odd'" };
        assert!(told.len() == 1 && told[0].contains("server 's'") && told[0].contains(name), "{told:?}");
    }
    let none = servers_listing(&["s"], |_, _| Some(json!({"tools": "none"})));
    assert!(tool_names(&none).await.is_empty());
    assert_eq!(none.list()[0].error.as_deref(), Some("its answer is not a list of tools"));
}

#[tokio::test]
async fn a_list_without_end_is_taken_as_far_as_it_is_of_use() {
    let long = "x".repeat(20_000);
    for (page, circle) in [(numbered_tools(7, "t"), true), (json!([]), false), (numbered_tools(1, &long), false)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let size = page.as_array().unwrap().len();
        let servers = servers_listing(&["s"], move |_, _| {
            let at = count.fetch_add(1, Ordering::SeqCst);
            let mut page = page.clone();
            page.as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(|tool| tool["name"] = json!(format!("{at}{}", tool["name"])));
            Some(json!({"tools": page, "nextCursor": if circle { "same".to_owned() } else { at.to_string() }}))
        });
        let offered = tool_names(&servers).await.len();
        let pages = if circle { 2 } else { 100 };
        assert_eq!((offered, asked.load(Ordering::SeqCst)), (size * pages, pages));
        let told = warnings(&servers);
        let words = if circle { "in a circle" } else { "100 pages" };
        assert!(told.len() == 1 && told[0].contains("'s'") && told[0].contains(words), "{told:?}");
    }
    let heavy = json!([{"name": "t", "description": "y".repeat(3 << 20), "inputSchema": {}}]);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let servers = servers_listing(&["s"], move |_, _| {
        Some(json!({"tools": heavy, "nextCursor": count.fetch_add(1, Ordering::SeqCst).to_string()}))
    });
    assert_eq!((tool_names(&servers).await.len(), asked.load(Ordering::SeqCst)), (1, 2), "nobody reads on");
}

#[tokio::test]
async fn however_many_tools_there_are_a_line_says_which_are_left_out() {
    let renamed = Arc::new(AtomicUsize::new(0));
    let round = renamed.clone();
    let servers = servers_listing(&["s"], move |_, _| {
        Some(json!({"tools": numbered_tools(50_000, if round.load(Ordering::SeqCst) == 0 { "t" } else { "u" })}))
    });
    let started = std::time::Instant::now();
    assert_eq!(tool_names(&servers).await.len(), 1_000);
    assert!(warnings(&servers)[0].contains("more than 1,000 tools"));
    renamed.store(1, Ordering::SeqCst);
    notify_tools_changed(&servers, "s");
    assert!(tool_names(&servers).await[0].starts_with("mcp__s__u"));
    assert_eq!(warnings(&servers).len(), 2, "what is beyond, and what is different");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    // Those that cannot have a name are named together, and once.
    let servers = servers_listing(&["a", "a__b"], |server, _| {
        Some(json!({"tools": if server == "a" { numbered_tools(900, "b__t") } else { json!([tool_json("c")]) }}))
    });
    for lines in [1, 0] {
        assert_eq!(tool_names(&servers).await, ["mcp__a__b__c"]);
        assert_eq!(warnings(&servers).len(), lines);
        notify_tools_changed(&servers, "a");
    }
    // All of them together have to fit into a request.
    let wide: Value = (0..30).map(|at| (format!("p{at}"), json!({"description": "z".repeat(1_800)}))).collect();
    let heavy: Value = (0..60)
        .map(|at| json!({"name": format!("t{at}"), "inputSchema": {"type": "object", "properties": wide}}))
        .collect();
    let servers = servers_listing(&["one", "two"], move |_, _| Some(json!({"tools": heavy})));
    for lines in [1, 0] {
        let offered = tool_names(&servers).await.len();
        assert!((30..45).contains(&offered), "{offered}");
        let told = warnings(&servers);
        assert_eq!(told.len(), lines, "{told:?}");
        assert!(
            told.iter().all(|text| text.contains("of the server 'one'") && text.contains("60 of the server 'two'"))
        );
    }
}

#[tokio::test]
async fn an_answer_to_something_else_is_none() {
    for (at, method) in ["initialize", "tools/list"].into_iter().enumerate() {
        for odd in [
            json!({"jsonrpc": "2.0", "id": 99, "result": {"tools": []}}),
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
            json!({"jsonrpc": "2.0", "id": 99, "error": {"code": -1, "message": "no"}}),
        ] {
            let servers = servers_answering(&["s"], move |_, message| match message["method"].as_str() {
                Some(asked) if asked == method => Some(odd.clone()),
                _ => Some(json_response(message, initialize_result())),
            });
            let found = timeout(Duration::from_secs(5), tool_names(&servers)).await.expect("nobody waits");
            assert!(found.is_empty());
            let error = servers.list()[0].error.clone().unwrap();
            assert_eq!(error, "its answer is one to something else", "{at}");
        }
    }
    // An error that does not say whose it is can only be about what was asked.
    let servers = servers_answering(&["s"], |_, _| {
        Some(json!({"jsonrpc": "2.0", "error": {"code": -1, "message": "not today"}}))
    });
    tool_names(&servers).await;
    assert_eq!(servers.list()[0].error.as_deref(), Some("not today"));
    let servers = servers_answering(&["s"], |_, message| Some(json_response(message, json!({"odd": {"deep": [1]}}))));
    tool_names(&servers).await;
    assert_eq!(servers.list()[0].error.as_deref(), Some("its answer to the greeting is none"));
}

#[tokio::test]
async fn changed_tool_names_are_reported() {
    let described = |name: &str, said: &str| json!({"name": name, "description": said, "inputSchema": {}});
    // Of two servers with one plain name, one goes.
    let servers = servers_listing(&["my_srv", "my.srv"], |_, _| Some(json!({"tools": [tool_json("t")]})));
    assert!(tool_names(&servers).await.contains(&"mcp__my_srv__t".to_owned()));
    assert!(servers.take_news().changed.is_empty());
    replace_servers(&servers, &["my.srv"]).await;
    assert_eq!(tool_names(&servers).await, ["mcp__my_srv__t"]);
    let changed = servers.take_news().changed;
    assert!(
        ["mcp__my_srv__t", "mcp__my_srv"].iter().all(|name| changed.iter().any(|other| other == name)),
        "{changed:?}"
    );
    // What was left out beside another server's tool is not, without that.
    let servers = servers_listing(&["a", "a__b"], |server, _| {
        Some(json!({"tools": [tool_json(if server == "a" { "b__c" } else { "c" })]}))
    });
    tool_names(&servers).await;
    replace_servers(&servers, &["a"]).await;
    assert_eq!(tool_names(&servers).await, ["mcp__a__b__c"]);
    assert!(servers.take_news().changed.contains(&"mcp__a__b__c".to_owned()));
    // One that is taken away comes back as another, or as it was.
    let said = Arc::new(Mutex::new("Looks."));
    let now = said.clone();
    let servers =
        servers_listing(&["a"], move |_, _| Some(json!({"tools": [described("t", now.lock().unwrap().as_ref())]})));
    for (words, others) in [("Looks.", false), ("Deletes.", true)] {
        tool_names(&servers).await;
        replace_servers(&servers, &[]).await;
        assert!(tool_names(&servers).await.is_empty());
        *said.lock().unwrap() = words;
        replace_servers(&servers, &["a"]).await;
        tool_names(&servers).await;
        assert_eq!(servers.take_news().changed.contains(&"mcp__a__t".to_owned()), others, "{words}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_waited_for_is_asked_for_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let servers = servers_listing(&["s"], move |_, _| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Some(json!({"tools": [tool_json("old")]})),
        1 => None,
        _ => Some(json!({"tools": [tool_json("new")]})),
    });
    tool_names(&servers).await;
    notify_tools_changed(&servers, "s");
    assert!(timeout(Duration::from_millis(100), servers.tools()).await.is_err(), "the turn is interrupted");
    assert_eq!(tool_names(&servers).await, ["mcp__s__new"]);
    assert!(warnings(&servers)[0].contains("added 'new'"));
    assert_eq!(tool_names(&servers).await.len(), 1);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_promises_lists_and_gives_none_is_waited_for_less_and_less() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let servers = servers_listing(&["s"], move |_, _| {
        (count.fetch_add(1, Ordering::SeqCst) == 0).then(|| json!({"tools": [tool_json("t")]}))
    });
    tool_names(&servers).await;
    let mut waited = Vec::new();
    for _ in 0..6 {
        notify_tools_changed(&servers, "s");
        let started = Instant::now();
        assert_eq!(tool_names(&servers).await, ["mcp__s__t"]);
        waited.push(started.elapsed().as_millis());
    }
    assert!(waited[0] >= 5_000 && waited[5] < 400, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_server_that_is_taken_away() {
    let servers = servers_listing(&["silent"], |_, _| None);
    let started = Instant::now();
    let turn = async {
        tool_names(&servers).await;
        started.elapsed()
    };
    let host = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        replace_servers(&servers, &[]).await;
        started.elapsed()
    };
    let (turn, host) = tokio::join!(turn, host);
    assert!(turn < Duration::from_secs(1) && host < Duration::from_secs(1), "{turn:?} {host:?}");
    assert!(servers.list().is_empty());
    // One that is added meanwhile does not wait for others.
    let servers =
        servers_listing(&["silent"], |server, _| (server != "silent").then(|| json!({"tools": [tool_json("t")]})));
    let started = Instant::now();
    let host = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        servers.set_enabled("silent", false).await.unwrap();
        replace_servers(&servers, &["quick"]).await;
        started.elapsed()
    };
    let (_, host) = tokio::join!(tool_names(&servers), host);
    assert!(host < Duration::from_secs(1), "{host:?}");
    assert_eq!(servers.list()[0].status, ServerStatus::Connected);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_says_while_it_is_greeted_is_not_lost() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let slow = Arc::new(tokio::sync::Notify::new());
    let servers = servers_listing(&["s"], move |_, _| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        Some(json!({"tools": [tool_json(if first { "old" } else { "new" })]}))
    });
    let speaks = async {
        // The greeting has begun and is not answered yet.
        slow.notified().await;
        notify_tools_changed(&servers, "s");
    };
    let turn = async {
        let mut tools = servers.tools();
        assert!(futures_util::poll!(&mut tools).is_pending());
        slow.notify_one();
        tokio::task::yield_now().await;
        tools.await.iter().map(|tool| tool.name().to_owned()).collect::<Vec<_>>()
    };
    let (offered, ()) = tokio::join!(turn, speaks);
    assert_eq!(offered, ["mcp__s__new"]);
}
