//! Servers on the network: streamable HTTP and the older event stream.

use std::sync::{Arc, Mutex};

use gimlet_script::Script;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::config;
use crate::world;

/// A request as the server read it.
#[derive(Clone)]
struct ReceivedRequest {
    head: String,
    body: Value,
}

/// A server with one tool, for both transports.
struct RemoteStub {
    port: u16,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    _tasks: JoinSet<()>,
}

impl RemoteStub {
    async fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let seen = received.clone();
        let events: Arc<Mutex<Option<TcpStream>>> = Arc::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answer_request(stream, seen.clone(), events.clone()));
            }
        });
        Self { port, received, _tasks: tasks }
    }

    fn heads(&self) -> Vec<String> {
        self.received.lock().unwrap().iter().map(|request| request.head.clone()).collect()
    }
}

fn respond(request: &Value) -> Option<Value> {
    let result = match request["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "remote", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "remote answer"}]}),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
}

/// Answers one request and closes the connection; that of the event stream stays open.
async fn answer_request(
    stream: TcpStream,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    events: Arc<Mutex<Option<TcpStream>>>,
) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    seen.lock().unwrap().push(ReceivedRequest { head: head.clone(), body: body.clone() });
    let mut stream = reader.into_inner();
    let plain =
        |status: &str, more: &str| format!("HTTP/1.1 {status}\r\n{more}content-length: 0\r\nconnection: close\r\n\r\n");
    let reply = match head.split(' ').take(2).collect::<Vec<_>>()[..] {
        ["GET", "/sse"] => {
            let hello =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages\n\n";
            stream.write_all(hello.as_bytes()).await.unwrap();
            *events.lock().unwrap() = Some(stream);
            return;
        }
        ["POST", "/messages"] => {
            if let Some(answer) = respond(&body) {
                let held = events.lock().unwrap().take();
                let mut held = held.unwrap();
                held.write_all(format!("event: message\ndata: {answer}\n\n").as_bytes()).await.unwrap();
                *events.lock().unwrap() = Some(held);
            }
            plain("202 Accepted", "")
        }
        ["POST", "/mcp"] => match respond(&body) {
            Some(answer) => {
                let answer = answer.to_string();
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
                    answer.len()
                )
            }
            None => plain("202 Accepted", ""),
        },
        ["POST", "/moved"] => plain("307 Temporary Redirect", "location: /mcp\r\n"),
        ["POST", "/away"] => plain("307 Temporary Redirect", "location: http://127.0.0.2:9/mcp\r\n"),
        ["POST", "/locked"] => plain("401 Unauthorized", "www-authenticate: Bearer realm=\"x\"\r\n"),
        _ => plain("405 Method Not Allowed", ""),
    };
    drop(stream.write_all(reply.as_bytes()).await);
}

#[tokio::test]
async fn servers_are_reached_over_http_and_event_streams() {
    let world = world();
    let remote = RemoteStub::serve().await;
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", remote.port);
    let servers = config(json!({
        "web": {"type": "http", "url": url("/mcp"), "headers": {"X-Team": "${TEAM:-core}"}},
        "moved": {"type": "http", "url": url("/moved")},
        "old": {"type": "sse", "url": url("/sse"),
            "headersHelper": "printf '{\"X-Server\": \"%s\"}' \"$CLAUDE_CODE_MCP_SERVER_NAME\""},
    }));
    let script = Script::new()
        .call("mcp__web__add", json!({}))
        .call("mcp__moved__add", json!({}))
        .call("mcp__old__add", json!({}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let run = world.run(&model).args(["--mcp-config", &servers]).stream("go").finish().await;
    run.expect_code(0);
    assert_eq!(model.request(1).tool_results(), ["remote answer"; 3], "{}", run.stderr);
    let heads = remote.heads().join("\n").to_ascii_lowercase();
    assert!(heads.contains("x-team: core") && heads.contains("x-server: old"), "{heads}");
    assert!(heads.contains("mcp-protocol-version: 2025-06-18"), "{heads}");
}

#[tokio::test]
async fn a_server_that_refuses_redirects_away_or_is_not_there_is_told() {
    let world = world();
    let remote = RemoteStub::serve().await;
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", remote.port);
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let servers = config(json!({
        "locked": {"type": "http", "url": url("/locked"), "headers": {"Authorization": "Bearer canary-secret"}},
        "away": {"type": "http", "url": url("/away")},
        "closed": {"type": "http", "url": format!("http://127.0.0.1:{closed}/mcp")},
    }));
    let model = Script::new().say("done").then().say("done").serve().await.unwrap();
    let run = |_: ()| {
        let run = world.run(&model).args(["--mcp-config", &servers]).env("MCP_CONNECT_TIMEOUT_MS", "20000");
        run.env("NO_PROXY", "127.0.0.1")
    };
    let first = run(()).stream("go").finish().await;
    let init = first.expect_code(0).lines()[0].clone();
    let status = |name: &str| {
        let servers = init["mcp_servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap()["status"].clone()
    };
    assert_eq!(
        (status("locked"), status("away"), status("closed")),
        (json!("needs-auth"), json!("failed"), json!("failed"))
    );
    let second = run(()).print_text("go").finish().await;
    for words in ["it needs authentication", "127.0.0.2", "cannot be reached"] {
        assert!(second.stderr.contains(words), "{words}: {}", second.stderr);
    }
    assert!(!second.stderr.contains("canary"), "{}", second.stderr);
    let bodies: Vec<String> = remote
        .received
        .lock()
        .unwrap()
        .iter()
        .map(|one| one.body["method"].as_str().unwrap_or("").to_owned())
        .collect();
    assert!(bodies.iter().all(|method| method == "initialize"), "{bodies:?}");
}
