//! Structured answers: a tool whose input schema is the caller's JSON Schema, and the requirement that the turn ends
//! by calling it.
//!
//! The first valid call is the answer and ends the turn. Invalid calls, and ends without a call, are counted; after
//! too many the turn fails instead of continuing forever. The tool choice is never forced: some models refuse such
//! requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{BoxFuture, Env, TurnEnd};
use jsonschema::Validator;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::conversation::Conversation;
use crate::tool::{
    AnyTool, ExternalTool, ExternalToolHandler, ExternalToolResult, ExternalToolSpec, ResultCap, ToolContext,
    ToolError, ToolRef, schema_problems,
};
use crate::turn;

const NAME: &str = "StructuredOutput";

/// Default number of attempts; the environment can override it.
const ATTEMPTS: u32 = 5;

const DESCRIPTION: &str = "Gives your final answer in the form that was asked for. Do the work first; then call this \
                           exactly once, as the last thing you do. Nothing that you write beside it is shown.";

const REMINDER: &str = "The answer was asked for in a fixed form. Give it by calling StructuredOutput now; what you wrote \
                        as text is not shown to anyone.";

/// Reason why a text is not a usable output schema.
#[derive(Debug, thiserror::Error)]
pub enum OutputSchemaError {
    #[error("it is not JSON: {0}")]
    NotJson(serde_json::Error),
    #[error("it must be a JSON object that describes an object")]
    NotAnObject,
    #[error("it is not a valid JSON Schema: {0}")]
    Invalid(String),
}

/// Schema of every answer of a session.
pub struct OutputSchema {
    schema: Value,
    validator: Validator,
    attempts: u32,
    state: Mutex<StructuredAnswerState>,
}

/// State of the running turn.
#[derive(Default)]
struct StructuredAnswerState {
    given: Option<Arc<RawValue>>,
    failed: u32,
}

impl OutputSchema {
    /// Parses a schema. `format` is descriptive and not enforced; external references are not resolved.
    pub fn parse(text: &str, env: &Env) -> Result<Arc<Self>, OutputSchemaError> {
        let mut schema: Value = serde_json::from_str(text).map_err(OutputSchemaError::NotJson)?;
        let Some(fields) = schema.as_object_mut() else { return Err(OutputSchemaError::NotAnObject) };
        // A tool's input is an object, so the schema must have that type.
        if *fields.entry("type").or_insert_with(|| json!("object")) != "object" {
            return Err(OutputSchemaError::NotAnObject);
        }
        let validator = jsonschema::options()
            .should_validate_formats(false)
            .build(&schema)
            .map_err(|error| OutputSchemaError::Invalid(error.to_string()))?;
        let attempts = env.integer("MAX_STRUCTURED_OUTPUT_RETRIES").and_then(|count| u32::try_from(count).ok());
        // With no attempt at all, no turn could do anything.
        let attempts = attempts.unwrap_or(ATTEMPTS).max(1);
        Ok(Arc::new(Self { schema, validator, attempts, state: Mutex::default() }))
    }

    /// Returns the tool by which the model answers.
    pub fn tool(self: &Arc<Self>) -> ToolRef {
        let guest = ExternalToolSpec {
            name: NAME.to_owned(),
            also_named: Arc::default(),
            server: None,
            description: DESCRIPTION.to_owned(),
            schema: self.schema.clone(),
            says_read_only: false,
            requires_user_interaction: false,
            own: true,
            main_only: true,
            max_result_chars: ResultCap::Unlimited,
            label: NAME.to_owned(),
        };
        let tool: Arc<dyn AnyTool> = Arc::new(ExternalTool::new(guest, Arc::new(OutputSchemaHandler(self.clone()))));
        tool.into()
    }

    /// Returns the text that reminds the model of the form.
    pub(crate) fn reminder(&self) -> &'static str {
        REMINDER
    }

    /// Clears the answer of the previous turn.
    pub(crate) fn begin_turn(&self) {
        *self.lock() = StructuredAnswerState::default();
    }

    /// Returns the answer, if there is one.
    pub(crate) fn answer(&self) -> Option<Arc<RawValue>> {
        self.lock().given.clone()
    }

    /// Records the outcome of a call, if it was of this tool.
    pub(crate) fn record_call(&self, tool: &str, failed: bool) {
        if tool == NAME && failed {
            self.lock().failed += 1;
        }
    }

    /// Returns the end of the turn, if it ends.
    pub(crate) fn turn_end(&self) -> Option<TurnEnd> {
        let state = self.lock();
        match state.given {
            Some(_) => Some(TurnEnd::Completed),
            None => (state.failed >= self.attempts).then_some(TurnEnd::StructuredOutputRetries(self.attempts)),
        }
    }

    /// Handles an end without an answer: reminds the model, or returns the end of the turn.
    pub(crate) fn require_output(&self, conversation: &mut Conversation) -> Option<TurnEnd> {
        self.lock().failed += 1;
        let end = self.turn_end();
        if end.is_none() {
            turn::append_meta_message(conversation, REMINDER);
        }
        end
    }

    fn lock(&self) -> MutexGuard<'_, StructuredAnswerState> {
        // Values under this lock are only set as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handler of the answer tool.
struct OutputSchemaHandler(Arc<OutputSchema>);

impl ExternalToolHandler for OutputSchemaHandler {
    fn check_input(&self, input: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let input = Value::Object(input);
        match (schema_problems(&self.0.validator, &input), input) {
            (problems, Value::Object(input)) if problems.is_empty() => Ok(input),
            (problems, _) => Err(problems.join("\n")),
        }
    }

    fn call<'a>(
        &'a self,
        input: Map<String, Value>,
        _cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ExternalToolResult, ToolError>> {
        Box::pin(async move {
            let answer = to_raw_value(&input).map_err(|error| ToolError::failed(format!("no JSON form: {error}")))?;
            let mut state = self.0.lock();
            if state.given.is_some() {
                return Err(ToolError::failed("The answer was given already; it stands, and the turn is over."));
            }
            state.given = Some(Arc::from(answer));
            Ok(ExternalToolResult::from_text("Structured output provided successfully"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_be_no_schema_has_its_own_words() {
        for (text, part) in [
            ("{", "not JSON"),
            ("[]", "must be a JSON object"),
            (r#"{"type":"array"}"#, "must be a JSON object"),
            (r#"{"type":"object","properties":{"a":{"type":"strin"}}}"#, "not a valid JSON Schema"),
            (r#"{"$ref":"http://127.0.0.1:9/schema.json"}"#, "not a valid JSON Schema"),
        ] {
            let error = OutputSchema::parse(text, &Env::default()).map(drop).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn problems_name_their_place_and_formats_refuse_nothing() {
        let text = r#"{"properties":{"a":{"type":"array","items":{"type":"integer"}},"on":{"type":"string","format":"date"}},
                       "required":["a"],"$schema":"http://json-schema.org/draft-07/schema#"}"#;
        let schema = OutputSchema::parse(text, &Env::default()).unwrap();
        let problems = |answer: Value| schema_problems(&schema.validator, &answer);
        assert_eq!(problems(json!({"a": [1], "on": "no date"})), Vec::<String>::new());
        let wrong = problems(json!({"a": [1, "x"]}));
        assert!(wrong[0].starts_with("- at /a/1: "), "{wrong:?}");
        assert!(problems(json!({}))[0].contains("\"a\""));
    }
}
