//! External tools: tools that are not part of gimlet, with a schema given as data and a handler that runs their
//! calls.
//!
//! They pass through the gate like every other tool. Their authors' hint that they are read-only is trusted for
//! running them concurrently, never for permission.

use std::borrow::Cow;
use std::sync::Arc;

use gimlet_proto::{AccessNeed, BoxFuture, Env, ResultContent, ServerIdentity, View};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::{
    AgentAvailability, AnyTool, CallFailure, CallSummary, ErrorClass, InterruptBehavior, NewMessage, PathContext,
    PermissionVerdict, PreparedCall, PreviewContext, PromptContext, RecordedResult, ResultCap, ToolContext, ToolError,
    ToolOutcome, TypedInput,
};
use crate::gate::Permit;

/// Specification of an external tool.
#[derive(Clone, Debug)]
pub struct ExternalToolSpec {
    /// Name under which the model calls the tool; unique in a session.
    pub name: String,
    /// Further names that rules may use for the tool, and for all tools of its server.
    pub also_named: Arc<[String]>,
    /// Server that provides the tool, if any.
    pub server: Option<ServerIdentity>,
    pub description: String,
    /// JSON Schema of the input: an object.
    pub schema: Value,
    /// Author's hint that the tool is read-only.
    pub says_read_only: bool,
    /// Set if calls must never be approved without the user.
    pub requires_user_interaction: bool,
    /// Set if the tool affects only the session itself, so that no permission is needed.
    pub own: bool,
    /// Set if only the main conversation may have the tool.
    pub main_only: bool,
    pub max_result_chars: ResultCap,
    /// Display name for the user.
    pub label: String,
}

/// Result of an external tool.
pub struct ExternalToolResult {
    /// Structured output for hooks and programs.
    pub output: Box<RawValue>,
    pub content: ResultContent,
    /// Messages that enter the conversation right after this call's result.
    pub new_messages: Vec<NewMessage>,
}

/// Handler that runs the calls of an external tool.
pub trait ExternalToolHandler: Send + Sync {
    /// Checks the input and returns the one to call with, or an error text for the model.
    fn check_input(&self, input: Map<String, Value>) -> Result<Map<String, Value>, String> {
        Ok(input)
    }

    /// Performs the call. Reached only through the gate.
    fn call<'a>(
        &'a self,
        input: Map<String, Value>,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ExternalToolResult, ToolError>>;
}

/// External tool with its handler.
pub struct ExternalTool {
    guest: ExternalToolSpec,
    host: Arc<dyn ExternalToolHandler>,
}

impl ExternalTool {
    pub fn new(guest: ExternalToolSpec, host: Arc<dyn ExternalToolHandler>) -> Self {
        Self { guest, host }
    }
}

impl AnyTool for ExternalTool {
    fn name(&self) -> &str {
        &self.guest.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    fn also_named(&self) -> &[String] {
        &self.guest.also_named
    }

    fn server(&self) -> Option<&ServerIdentity> {
        self.guest.server.as_ref()
    }

    fn is_enabled(&self, _env: &Env) -> bool {
        true
    }

    fn is_hidden(&self) -> bool {
        false
    }

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Owned(self.guest.description.clone())
    }

    fn schema(&self) -> &Value {
        &self.guest.schema
    }

    fn hidden_parameters(&self, _cx: &PromptContext) -> &'static [&'static str] {
        &[]
    }

    fn max_result_chars(&self) -> ResultCap {
        self.guest.max_result_chars
    }

    fn on_interrupt(&self) -> InterruptBehavior {
        InterruptBehavior::Cancel
    }

    fn agent_availability(&self) -> AgentAvailability {
        if self.guest.main_only { AgentAvailability::Never } else { AgentAvailability::Always }
    }

    fn search_hint(&self) -> &str {
        ""
    }

    fn is_deferred(&self) -> bool {
        false
    }

    fn eager_input(&self) -> bool {
        false
    }

    fn prepare(&self, input: Value, _cx: &PathContext) -> Result<PreparedCall, ToolError> {
        let invalid = |problem: &str| {
            let text =
                format!("InputValidationError: {} was called with an invalid input:\n{problem}", self.guest.name);
            ToolError::new(ErrorClass::SchemaInvalid, text)
        };
        let Value::Object(fields) = input else { return Err(invalid("- it must be a JSON object")) };
        let fields = self.host.check_input(fields).map_err(|problem| invalid(&problem))?;
        Ok(PreparedCall {
            tool: Cow::Owned(self.guest.name.clone()),
            also_named: self.guest.also_named.clone(),
            typed: Arc::new(fields.clone()),
            input: Value::Object(fields.clone()),
            given: fields,
            needs: vec![if self.guest.own { AccessNeed::Session } else { AccessNeed::Opaque }],
            read_only: false,
            destructive: false,
            concurrency_safe: self.guest.says_read_only,
            requires_user_interaction: self.guest.requires_user_interaction,
            verdict: PermissionVerdict::Passthrough,
            path: None,
            description: String::new(),
            user_facing_name: Cow::Owned(self.guest.label.clone()),
            confinement_denial: None,
        })
    }

    fn preview(&self, input: &TypedInput, _cx: &PreviewContext) -> View {
        View::from_arguments(&arguments(input))
    }

    fn failure_view(&self, _input: &TypedInput, failure: &CallFailure<'_>) -> View {
        View::Text(failure.text.to_owned())
    }

    /// Returns the arguments: nothing else is known about what the call does.
    fn classifier_input(&self, input: &TypedInput) -> String {
        arguments(input).to_string()
    }

    fn summarize_past_call(
        &self,
        _input: &RawValue,
        result: Option<&RecordedResult<'_>>,
        _cx: &PathContext,
    ) -> Option<CallSummary> {
        let view = result.map(|result| View::Text(result.text.to_owned()));
        Some(CallSummary { name: self.guest.label.clone(), summary: String::new(), view })
    }

    fn content_from_output(&self, output: &RawValue) -> Option<ResultContent> {
        Some(ResultContent::Text(output_text(output)))
    }

    fn run<'a>(&'a self, permit: Permit, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let Some(input) = permit.into_input::<Map<String, Value>>(&self.guest.name) else {
                return Err(ToolError::wrong_permit(&self.guest.name));
            };
            let result = self.host.call(Arc::unwrap_or_clone(input), cx).await?;
            let view = View::Text(result.content.to_text());
            Ok(ToolOutcome {
                output: result.output,
                content: result.content,
                view,
                new_messages: result.new_messages,
                changes: Vec::new(),
            })
        })
    }
}

/// Returns the arguments of a prepared call.
fn arguments(input: &TypedInput) -> Value {
    input.downcast_ref::<Map<String, Value>>().cloned().map_or(Value::Null, Value::Object)
}

/// Returns the text of an output: its own, that of its parts, or else its JSON. Parts may include other content.
fn output_text(output: &RawValue) -> String {
    let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
    let in_parts = |parts: &Value| parts.as_array()?.iter().map(text).collect::<Option<Vec<String>>>();
    match serde_json::from_str::<Value>(output.get()) {
        Ok(Value::String(text)) => text,
        Ok(value) => {
            let beside = value.get("content").filter(|parts| parts.as_array().is_some_and(|parts| !parts.is_empty()));
            let texts = in_parts(&value).or_else(|| in_parts(beside?));
            texts.map_or_else(|| output.get().to_owned(), |texts| texts.join("\n"))
        }
        Err(_) => output.get().to_owned(),
    }
}

impl ExternalToolResult {
    /// Creates a result that is one text, for the model and for programs.
    pub fn from_text(text: impl Into<String>) -> Self {
        let text = text.into();
        let output = to_raw_value(&text).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { output, content: ResultContent::Text(text), new_messages: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_output_are_found_in_every_form() {
        let parts = r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#;
        let beside = format!(r#"{{"content":{parts},"structuredContent":{{"x":1}}}}"#);
        let alone = r#"{"content":[],"structuredContent":{"x":1}}"#;
        for (output, words) in [(r#""a""#, "a"), (parts, "a\nb"), (&beside, "a\nb"), (alone, alone), ("7", "7")] {
            assert_eq!(output_text(&RawValue::from_string(output.to_owned()).unwrap()), words);
        }
    }
}
