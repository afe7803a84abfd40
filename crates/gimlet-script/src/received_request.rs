//! A request as it arrived: its head in order, its body's bytes, and views of both for scripts and tests.
//!
//! The bytes are never normalised. The outcome ([`RequestOutcome`]) is a snapshot of the time when it was queried.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;

use crate::prompt_usage::PromptUsage;
use crate::spanned_json::{self, JsonError, SpannedJson, SpannedJsonKind};

/// One received request. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    received: Arc<RequestData>,
    outcome: RequestOutcome,
}

#[derive(Debug)]
struct RequestData {
    index: usize,
    connection: u64,
    attempt: u32,
    arrived_at: Instant,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    parsed: Result<SpannedJson, JsonError>,
}

/// Outcome of a request so far.
#[derive(Clone, Debug, Default)]
pub struct RequestOutcome {
    pub status: Option<u16>,
    /// The step that answered, if one did.
    pub step: Option<usize>,
    /// The rule that refused the request, if one did.
    pub rejection: Option<String>,
    /// Bytes of the response, head included, that were sent.
    pub bytes_sent: u64,
    /// Time at which the client closed the connection before the response was complete.
    pub client_closed_at: Option<Instant>,
    pub ended_at: Option<Instant>,
    /// The simulated cost of the prompt.
    pub usage: Option<PromptUsage>,
    /// Thinking blocks that were left out, as paths such as `messages.3.content.0`.
    pub dropped_thinking: Vec<String>,
}

/// The parts of a request that the connection reads.
pub(crate) struct RequestParts {
    pub(crate) connection: u64,
    pub(crate) arrived_at: Instant,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl ReceivedRequest {
    pub(crate) fn new(index: usize, attempt: u32, arrival: RequestParts) -> Self {
        let RequestParts { connection, arrived_at, method, target, headers, body } = arrival;
        let parsed = match std::str::from_utf8(&body) {
            Ok(text) => spanned_json::parse(text),
            Err(error) => Err(JsonError { at: error.valid_up_to(), what: "not UTF-8" }),
        };
        let received = RequestData { index, connection, attempt, arrived_at, method, target, headers, body, parsed };
        Self { received: Arc::new(received), outcome: RequestOutcome::default() }
    }

    pub(crate) fn with_outcome(&self, outcome: RequestOutcome) -> Self {
        Self { received: Arc::clone(&self.received), outcome }
    }

    /// Returns the body and its structure.
    pub(crate) fn parsed(&self) -> Result<(&str, &SpannedJson), &JsonError> {
        // A body that parsed was UTF-8.
        let text = std::str::from_utf8(&self.received.body).unwrap_or("");
        self.received.parsed.as_ref().map(|node| (text, node))
    }

    fn root(&self) -> Option<(&str, &SpannedJson)> {
        self.parsed().ok()
    }

    fn field(&self, name: &str) -> Option<&SpannedJson> {
        self.root()?.1.get(name)
    }

    /// Returns its position in the order of arrival, counting from 0.
    pub fn index(&self) -> usize {
        self.received.index
    }

    /// Returns the number of the connection that it came on; equal numbers mean one connection.
    pub fn connection(&self) -> u64 {
        self.received.connection
    }

    /// Returns 1 for a new body, 2 and more when identical bytes came before.
    pub fn attempt(&self) -> u32 {
        self.received.attempt
    }

    pub fn arrived_at(&self) -> Instant {
        self.received.arrived_at
    }

    pub fn outcome(&self) -> &RequestOutcome {
        &self.outcome
    }

    /// Returns the time from the request's arrival until the client closed the connection on an incomplete response.
    pub fn client_closed_after(&self) -> Option<Duration> {
        self.outcome.client_closed_at.map(|at| at.duration_since(self.received.arrived_at))
    }

    pub fn method(&self) -> &str {
        &self.received.method
    }

    /// Returns the request target with its query.
    pub fn target(&self) -> &str {
        &self.received.target
    }

    /// Returns the path without query; of an absolute-form target, the path part.
    pub fn path(&self) -> &str {
        let target = self.received.target.as_str();
        let path = match target.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
            None => target,
        };
        path.split(['?', '#']).next().unwrap_or(path)
    }

    /// Returns the header list as it came.
    pub fn headers(&self) -> &[(String, String)] {
        &self.received.headers
    }

    /// Returns the first header of that name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.received.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body's bytes.
    pub fn body(&self) -> &Bytes {
        &self.received.body
    }

    pub fn body_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.received.body)
    }

    /// Returns the whole body as JSON; `Null` when it is none.
    pub fn json(&self) -> Value {
        self.root().map_or(Value::Null, |(text, node)| node.to_value(text))
    }

    pub fn model(&self) -> &str {
        self.field("model").and_then(SpannedJson::as_str).unwrap_or("")
    }

    pub fn is_streaming(&self) -> bool {
        self.field("stream").and_then(SpannedJson::as_bool).unwrap_or(false)
    }

    /// Returns the values of `anthropic-beta`, in order.
    pub fn betas(&self) -> Vec<String> {
        let values = self.received.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("anthropic-beta"));
        values.flat_map(|(_, value)| value.split(',')).map(|beta| beta.trim().to_owned()).collect()
    }

    /// Returns the secrets in credential headers: header name and value without its scheme.
    pub fn credentials(&self) -> Vec<(String, String)> {
        const NAMES: [&str; 4] = ["x-api-key", "authorization", "proxy-authorization", "api-key"];
        let named = self.received.headers.iter().filter_map(|(name, value)| {
            let known = NAMES.iter().find(|known| name.eq_ignore_ascii_case(known))?;
            let secret = value.split_once(' ').map_or(value.as_str(), |(_, secret)| secret);
            Some(((*known).to_owned(), secret.trim().to_owned()))
        });
        named.filter(|(_, secret)| !secret.is_empty()).collect()
    }

    fn list(&self, name: &str) -> Vec<Value> {
        let Some((text, node)) = self.root() else { return Vec::new() };
        node.get(name).map(SpannedJson::items).unwrap_or_default().iter().map(|item| item.to_value(text)).collect()
    }

    pub fn messages(&self) -> Vec<Value> {
        self.list("messages")
    }

    pub fn message_count(&self) -> usize {
        self.field("messages").map_or(0, |messages| messages.items().len())
    }

    pub fn tools(&self) -> Vec<Value> {
        self.list("tools")
    }

    pub fn tool_names(&self) -> Vec<String> {
        let tools = self.field("tools").map(SpannedJson::items).unwrap_or_default();
        tools.iter().filter_map(|tool| tool.str_of("name")).map(str::to_owned).collect()
    }

    /// Returns the system prompt, its blocks joined by line breaks.
    pub fn system_text(&self) -> String {
        self.field("system").map(texts_of).unwrap_or_default().join("\n")
    }

    /// Returns the texts of the last user message, tool results not counted.
    pub fn last_user_text(&self) -> String {
        let messages = self.field("messages").map(SpannedJson::items).unwrap_or_default();
        let last = messages.iter().rev().find(|message| message.str_of("role") == Some("user"));
        last.and_then(|message| message.get("content")).map(texts_of).unwrap_or_default().join("\n")
    }

    /// Returns the results after the last reply; later text may stand in messages of its own.
    fn result_blocks(&self) -> Vec<&SpannedJson> {
        let messages = self.field("messages").map(SpannedJson::items).unwrap_or_default();
        let reply = messages.iter().rposition(|message| message.str_of("role") == Some("assistant"));
        let behind = messages[reply.map_or(0, |at| at + 1)..].iter().filter_map(|message| message.get("content"));
        behind.flat_map(SpannedJson::items).filter(|block| block.type_tag() == "tool_result").collect()
    }

    /// Returns the texts of the tool results after the last reply, in order.
    pub fn tool_results(&self) -> Vec<String> {
        let text_of = |block: &&SpannedJson| block.get("content").map(texts_of).unwrap_or_default().join("\n");
        self.result_blocks().iter().map(text_of).collect()
    }

    /// Returns the text of one tool result after the last reply; empty when there is no such result.
    pub fn tool_result(&self, position: usize) -> String {
        self.tool_results().into_iter().nth(position).unwrap_or_default()
    }

    /// Returns the names of the tools whose calls the last message answers.
    pub fn answered_tools(&self) -> Vec<String> {
        let messages = self.field("messages").map(SpannedJson::items).unwrap_or_default();
        let blocks = || messages.iter().filter_map(|message| message.get("content")).flat_map(SpannedJson::items);
        let name_of = |id: &str| {
            let call = blocks().find(|block| block.type_tag() == "tool_use" && block.str_of("id") == Some(id));
            call.and_then(|call| call.str_of("name")).map(str::to_owned)
        };
        self.result_blocks().iter().filter_map(|block| name_of(block.str_of("tool_use_id")?)).collect()
    }

    /// Returns the positions of the cache markers, as paths such as `system.0` or `messages.2.content.1`.
    pub fn breakpoints(&self) -> Vec<String> {
        let Some((_, root)) = self.root() else { return Vec::new() };
        crate::anthropic::find_cache_markers(root).into_iter().map(|mark| mark.path).collect()
    }
}

/// Returns the texts in a string, or in the text blocks of a list.
fn texts_of(content: &SpannedJson) -> Vec<String> {
    match &content.kind {
        SpannedJsonKind::String(text) => vec![text.clone()],
        SpannedJsonKind::Array(blocks) => blocks
            .iter()
            .filter(|block| block.type_tag() == "text")
            .filter_map(|block| block.str_of("text"))
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
impl ReceivedRequest {
    /// Creates a request with this body and the headers that a client must send.
    pub(crate) fn for_test(body: &str) -> Self {
        let headers = [("x-api-key", "k"), ("anthropic-version", "2023-06-01"), ("content-type", "application/json")];
        Self::for_test_with(body, &headers)
    }

    pub(crate) fn for_test_with(body: &str, headers: &[(&str, &str)]) -> Self {
        let arrival = RequestParts {
            connection: 1,
            arrived_at: Instant::now(),
            method: "POST".to_owned(),
            target: "/v1/messages?beta=true".to_owned(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        Self::new(0, 1, arrival)
    }
}
