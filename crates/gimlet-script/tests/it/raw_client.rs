//! A small HTTP client that hides nothing: what came, and how the connection ended.

use std::time::Duration;

use gimlet_script::ScriptServer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseEnd {
    /// The response was complete by its own framing.
    Complete,
    Fin,
    Reset,
}

#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// The body with its framing removed.
    pub(crate) body: Vec<u8>,
    pub(crate) end: ResponseEnd,
}

impl RawResponse {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.split('\n').filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The message that the stream spells out, put together the way a client does.
    pub(crate) fn message(&self) -> Value {
        let mut message = Value::Null;
        let mut inputs: Vec<String> = Vec::new();
        for event in self.events() {
            let index = event["index"].as_u64().unwrap_or(0) as usize;
            match event["type"].as_str().unwrap() {
                "message_start" => message = event["message"].clone(),
                "content_block_start" => {
                    message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
                    inputs.push(String::new());
                }
                "content_block_delta" => {
                    let delta = &event["delta"];
                    let block = &mut message["content"][index];
                    for key in ["text", "thinking"] {
                        if let Some(piece) = delta[key].as_str() {
                            block[key] = json!(block[key].as_str().unwrap().to_owned() + piece);
                        }
                    }
                    if let Some(signature) = delta["signature"].as_str() {
                        block["signature"] = json!(signature);
                    }
                    inputs[index].push_str(delta["partial_json"].as_str().unwrap_or(""));
                }
                "content_block_stop" if message["content"][index]["type"] == "tool_use" => {
                    message["content"][index]["input"] = serde_json::from_str(&inputs[index]).unwrap_or(json!({}));
                }
                "message_delta" => message["stop_reason"] = event["delta"]["stop_reason"].clone(),
                _ => {}
            }
        }
        message
    }

    pub(crate) fn assistant(&self) -> Value {
        json!({"role": "assistant", "content": self.message()["content"]})
    }
}

pub(crate) struct RawClient {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

impl RawClient {
    pub(crate) async fn connect(server: &ScriptServer) -> Self {
        Self { stream: TcpStream::connect(server.address()).await.unwrap(), unread: Vec::new() }
    }

    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send(&mut self, body: &Value) {
        self.send_raw(&request_bytes("POST", "/v1/messages?beta=true", &body.to_string(), &[("x-api-key", "k1")]))
            .await;
    }

    pub(crate) async fn ask(&mut self, body: &Value) -> RawResponse {
        self.send(body).await;
        self.read().await
    }

    /// Reads more bytes; says how the connection ended when there are none.
    async fn fill(&mut self) -> Result<(), ResponseEnd> {
        let mut buffer = [0; 16384];
        let read = tokio::time::timeout(Duration::from_secs(5), self.stream.read(&mut buffer)).await;
        match read.expect("nothing came for five seconds") {
            Ok(0) => Err(ResponseEnd::Fin),
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(_) => Err(ResponseEnd::Reset),
        }
    }

    pub(crate) async fn read(&mut self) -> RawResponse {
        self.try_read().await.unwrap_or_else(|end| panic!("no response: {end:?}"))
    }

    /// A response, or how the connection ended before its head was complete.
    pub(crate) async fn try_read(&mut self) -> Result<RawResponse, ResponseEnd> {
        let head_end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill().await?;
        };
        let head = String::from_utf8(self.unread.drain(..head_end).collect()).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut response = RawResponse { status, head, body: Vec::new(), end: ResponseEnd::Complete };
        let length = response.header("content-length").map(|value| value.parse::<usize>().unwrap());
        if response.header("transfer-encoding").is_some() {
            response.end = self.read_chunks(&mut response.body).await.err().unwrap_or(ResponseEnd::Complete);
        } else {
            let wanted = length.unwrap_or(usize::MAX);
            while self.unread.len() < wanted {
                if let Err(end) = self.fill().await {
                    response.end = end;
                    break;
                }
            }
            let take = wanted.min(self.unread.len());
            response.body = self.unread.drain(..take).collect();
        }
        Ok(response)
    }

    async fn read_chunks(&mut self, body: &mut Vec<u8>) -> Result<(), ResponseEnd> {
        loop {
            let line = loop {
                if let Some(at) = self.unread.windows(2).position(|two| two == b"\r\n") {
                    break at;
                }
                self.fill().await?;
            };
            let size = usize::from_str_radix(std::str::from_utf8(&self.unread[..line]).unwrap(), 16).unwrap();
            while self.unread.len() < line + 2 + size + 2 {
                self.fill().await?;
            }
            body.extend_from_slice(&self.unread[line + 2..line + 2 + size]);
            self.unread.drain(..line + 2 + size + 2);
            if size == 0 {
                return Ok(());
            }
        }
    }
}

pub(crate) fn request_bytes(method: &str, target: &str, body: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\nanthropic-version: 2023-06-01\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    text.into_bytes()
}

/// One request on a connection of its own.
pub(crate) async fn ask(server: &ScriptServer, body: &Value) -> RawResponse {
    RawClient::connect(server).await.ask(body).await
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

/// The answer to every call of an assistant message.
pub(crate) fn results(assistant: &Value, text: &str) -> Value {
    let calls = assistant["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
    let blocks: Vec<_> =
        calls.map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": text})).collect();
    json!({"role": "user", "content": blocks})
}

/// A good streaming request with these messages.
pub(crate) fn body(messages: &[Value]) -> Value {
    json!({
        "model": "claude-opus-5-5", "max_tokens": 1000, "stream": true, "system": "be brief",
        "tools": [{"name": "Read", "description": "reads", "input_schema": {"type": "object"}}],
        "messages": messages,
    })
}
