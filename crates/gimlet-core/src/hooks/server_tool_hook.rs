//! The `mcp_tool` handler: calls a tool of a connected server. The gate permits it as it would a call of the driving
//! program, but a rule that wants a person asked refuses it.

use std::time::Duration;

use gimlet_proto::{BoxFuture, ServerRequest, provider_safe_name};
use serde_json::{Map, Value};

use super::hook_session::HookSession;
use super::{HandlerAnswer, HandlerCall, HandlerError, HandlerReport, HookEvent, HookHandler};

/// A hook that calls a server's tool.
pub struct ServerToolHook {
    server: String,
    tool: String,
    input: Map<String, Value>,
    /// Time limit at each event without a configured one.
    default_timeout: fn(HookEvent) -> Duration,
}

impl ServerToolHook {
    /// Returns a hook with this input, in whose texts `${dotted.path}` stands for a part of the event.
    pub fn new(
        server: String,
        tool: String,
        input: Map<String, Value>,
        default_timeout: fn(HookEvent) -> Duration,
    ) -> Self {
        Self { server, tool, input, default_timeout }
    }
}

impl HookHandler for ServerToolHook {
    fn run(&self, call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>> {
        let name = format!("mcp__{}__{}", provider_safe_name(&self.server), provider_safe_name(&self.tool));
        let (server, template) = (self.server.clone(), self.input.clone());
        Box::pin(async move {
            let event: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
            let input = template.into_iter().map(|(name, value)| (name, fill_paths(value, &event))).collect();
            let session = call.session.ok_or_else(|| "it calls a server, which only a session does".to_owned());
            let wish = ServerRequest::Call { tool: name, input };
            let result = call_tool(session.map_err(HandlerError::Failed)?, &server, wish).await;
            result.and_then(|result| to_report(&result)).map_err(HandlerError::Failed)
        })
    }

    fn kind(&self) -> &'static str {
        "mcp_tool"
    }

    fn text(&self) -> String {
        format!("{} of {}", self.tool, self.server)
    }

    fn default_timeout(&self, event: HookEvent) -> Duration {
        (self.default_timeout)(event)
    }
}

async fn call_tool(session: HookSession, server: &str, wish: ServerRequest) -> Result<Value, String> {
    let no_server = || format!("the server {server} is not connected");
    let source = session.tool_source().ok_or_else(no_server)?;
    let sought = source.look_up_request(&wish).await;
    let scope = session.scope();
    source.execute_request(scope.gate.permit_hook_request(&scope.services, wish, &sought)?).await
}

/// Returns the report for a server's result: its texts count as what a command prints.
fn to_report(result: &Value) -> Result<HandlerReport, String> {
    let parts = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    let text = texts.join("\n");
    if result["isError"] == true {
        return Err(format!("the tool failed: {}", text.lines().next().unwrap_or_default()));
    }
    let answer = match text.trim_start().starts_with('{') {
        true => HandlerAnswer::Json(
            serde_json::from_str(text.trim()).map_err(|error| format!("its output is not valid JSON: {error}"))?,
        ),
        false => HandlerAnswer::Text(text.clone()),
    };
    Ok(HandlerReport { answer, stdout: text, stderr: String::new(), exit_code: None })
}

/// Replaces `${a.b}` in all texts of a value by that part of the event: a text as it is, anything else as JSON, and
/// what is not there by nothing.
fn fill_paths(value: Value, event: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(fill_text(&text, event)),
        Value::Array(values) => values.into_iter().map(|value| fill_paths(value, event)).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, fill_paths(value, event))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

fn fill_text(text: &str, event: &Value) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let Some((path, tail)) = after.split_once('}') else {
            filled.push_str("${");
            rest = after;
            continue;
        };
        let part = path.split('.').try_fold(event, |value, name| value.get(name));
        match part {
            Some(Value::String(text)) => filled.push_str(text),
            Some(Value::Null) | None => {}
            Some(other) => filled.push_str(&other.to_string()),
        }
        rest = tail;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_of_the_event_stand_in_the_input() {
        let event = json!({"tool_name": "Bash", "tool_input": {"command": "ls", "timeout": 5}});
        let template =
            json!({"a": "run ${tool_input.command}!", "b": ["${tool_input}", "${none.x}", 1], "c": "${open"});
        let wanted = json!({"a": "run ls!", "b": [r#"{"command":"ls","timeout":5}"#, "", 1], "c": "${open"});
        assert_eq!(fill_paths(template, &event), wanted);
    }

    #[test]
    fn a_result_is_what_a_command_would_print() {
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        assert!(matches!(to_report(&text("plain")).unwrap().answer, HandlerAnswer::Text(text) if text == "plain"));
        assert!(matches!(to_report(&text("{\"continue\":true}")).unwrap().answer, HandlerAnswer::Json(_)));
        assert!(to_report(&text("{broken")).is_err());
        assert!(
            to_report(&json!({"content": [{"type": "text", "text": "boom\nmore"}], "isError": true}))
                .is_err_and(|why| why == "the tool failed: boom")
        );
    }
}
