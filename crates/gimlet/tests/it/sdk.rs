//! Sessions that a program drives: the lines that it sends, those that it gets, their order, and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

mod after_error_result;
mod clear_command;
mod control_requests;
mod duplicate_tools;
mod host_callbacks;
mod host_notices;
mod host_queries;
mod hostile_servers;
mod initialize_request;
mod interrupt_agents;
mod lifecycle_lines;
mod live_settings;
mod missing_credential;
mod permission_requests;
mod prompt_exchange;
mod repeated_initialize;
mod rewound_files;
mod sdk_flags;
mod server_calls;
mod server_instructions;
mod server_names;
mod server_tool_hooks;
mod session_end;
mod session_hooks;
mod session_open;
mod special_files;
mod synthetic_prompts;
mod termination_signals;
mod tool_list_changes;
mod tool_policies;
mod transcript_mirror;
mod transcript_side_entries;
mod unsendable_content;

use std::io::Write;
use std::time::Duration;

use gimlet_script::ScriptServer;
use gimlet_testkit::{RunBuilder, RunOutput, RunningChild, TestWorld};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// No line takes longer than this; one that does is stuck.
const LIMIT: Duration = Duration::from_secs(40);

/// The flags that every SDK passes.
const FLAGS: [&str; 5] = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

/// A program that drives gimlet.
pub(crate) struct SdkHost {
    pub(crate) child: RunningChild,
    /// Lines of standard output. It is closed when this is dropped.
    pub(crate) lines: mpsc::UnboundedReceiver<String>,
    /// Everything that was read.
    seen: Vec<Value>,
}

/// How a driven run ended.
pub(crate) struct HostEnd {
    /// Every line since the start.
    lines: Vec<Value>,
    pub(crate) output: RunOutput,
}

impl SdkHost {
    /// Starts gimlet as SDKs do.
    pub(crate) fn start(run: RunBuilder<'_>) -> Self {
        let mut child = run.args(FLAGS).env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1").hold_stdin().start();
        let lines = child.lines();
        Self { child, lines, seen: Vec::new() }
    }

    /// The same for a host that answers permission questions.
    fn start_attended(world: &TestWorld, model: &ScriptServer) -> Self {
        Self::start(world.run(model).args(["--permission-prompt-tool", "stdio"]))
    }

    pub(crate) fn send_line(&mut self, line: Value) {
        self.write_text(&format!("{line}\n"));
    }

    fn write_text(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("an open stdin");
        // One that does not read any more shows by what it wrote.
        drop(stdin.write_all(text.as_bytes()));
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.send_line(json!({"type": "user", "session_id": "", "parent_tool_use_id": null,
            "message": {"role": "user", "content": text}}));
    }

    /// Sends a request and waits for its answer, the inside of the envelope.
    pub(crate) async fn send_request(&mut self, request: Value) -> Value {
        let id = format!("req_{}", self.seen.len());
        self.send_line(json!({"type": "control_request", "request_id": id, "request": request}));
        self.wait_for_answer(&id).await
    }

    async fn wait_for_answer(&mut self, id: &str) -> Value {
        let id = json!(id);
        let is_it = |line: &Value| line["type"] == "control_response" && line["response"]["request_id"] == id;
        self.until(is_it).await["response"].clone()
    }

    /// The next line.
    async fn next_line(&mut self) -> Value {
        let line = tokio::time::timeout(LIMIT, self.lines.recv()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing more came after {:#?}", self.seen));
        let line = line.unwrap_or_else(|| panic!("it ended after {:#?}", self.seen));
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"));
        self.seen.push(line.clone());
        line
    }

    pub(crate) async fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.next_line().await;
            if is_it(&line) {
                return line;
            }
        }
    }

    pub(crate) async fn result(&mut self) -> Value {
        self.until(|line| line["type"] == "result").await
    }

    async fn wait_for_state(&mut self, state: &str) {
        self.until(|line| line["subtype"] == "session_state_changed" && line["state"] == state).await;
    }

    /// The next request of gimlet's, whole.
    pub(crate) async fn wait_for_request(&mut self, subtype: &str) -> Value {
        self.until(|line| line["type"] == "control_request" && line["request"]["subtype"] == subtype).await
    }

    pub(crate) fn answer(&mut self, request: &Value, response: Value) {
        self.send_line(json!({"type": "control_response",
            "response": {"subtype": "success", "request_id": request["request_id"], "response": response}}));
    }

    /// Sends nothing more and waits for the end.
    pub(crate) async fn end(mut self) -> HostEnd {
        self.child.stdin = None;
        self.wait_for_exit().await
    }

    async fn wait_for_exit(mut self) -> HostEnd {
        let mut lines = std::mem::take(&mut self.seen);
        while let Some(line) = tokio::time::timeout(LIMIT, self.lines.recv()).await.expect("an end") {
            lines.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}")));
        }
        let mut child = self.child;
        let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("a finished run");
        HostEnd { lines, output }
    }
}

impl HostEnd {
    /// Checks the exit code and that nothing was remarked.
    #[track_caller]
    pub(crate) fn clean(self, code: i32) -> Vec<Value> {
        self.output.expect_code(code);
        assert_eq!(self.output.stderr, "");
        self.lines
    }
}

/// What each line is, in one word.
fn line_kinds(lines: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = |line: &Value| match (text(&line["type"]).as_str(), text(&line["subtype"]).as_str()) {
        ("system", "session_state_changed") => text(&line["state"]),
        ("system", subtype) => subtype.to_owned(),
        ("control_request", _) => text(&line["request"]["subtype"]),
        (kind, _) => kind.to_owned(),
    };
    lines.iter().map(kind).collect()
}

/// The text of the first tool result in a line.
pub(crate) fn result_text(line: &Value) -> String {
    let content = &line["message"]["content"][0]["content"];
    content.as_str().map_or_else(|| content.to_string(), str::to_owned)
}
