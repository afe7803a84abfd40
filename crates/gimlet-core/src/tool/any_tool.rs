//! Type-erased side of the tool contract. The blanket implementation is the only place that boxes a tool's future.

use std::any::Any;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gimlet_proto::{
    AccessNeed, AgentPath, BoxFuture, CallQuestion, Env, ResultContent, ServerIdentity, UserReply, View,
};
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{
    AgentAvailability, CallFailure, CallHint, CallSite, CallSummary, CarriedState, ErrorClass, InterruptBehavior,
    PathContext, PermissionVerdict, PreviewContext, PromptContext, RecordedResult, ResultCap, SchemaProblem, Tool,
    ToolContext, ToolError, ToolOutcome, coerce_input,
};
use crate::gate::Permit;
use crate::services::SessionServices;

/// Call whose input was parsed once; needs, hooks, decision and run all use this value.
pub struct PreparedCall {
    pub(crate) tool: Cow<'static, str>,
    /// Further names that rules may use for the tool.
    pub(crate) also_named: Arc<[String]>,
    pub(crate) typed: Arc<dyn Any + Send + Sync>,
    /// Given parameters in their original spelling, against which parameter rules are matched.
    pub given: Map<String, Value>,
    /// Input with paths expanded, as hooks and dialogs see it.
    pub input: Value,
    pub needs: Vec<AccessNeed>,
    pub read_only: bool,
    pub destructive: bool,
    pub concurrency_safe: bool,
    pub requires_user_interaction: bool,
    pub verdict: PermissionVerdict,
    pub path: Option<PathBuf>,
    /// One-line description of this call.
    pub description: String,
    pub user_facing_name: Cow<'static, str>,
    /// Access denied to an earlier, confined run of this call that failed for it.
    pub(crate) confinement_denial: Option<String>,
}

impl PreparedCall {
    /// Renders what the call would do; `tool` is the one that prepared it. May block.
    pub fn preview(&self, tool: &dyn AnyTool, cx: &PreviewContext) -> View {
        tool.preview(&*self.typed, cx)
    }
}

/// Parsed input of a prepared call.
pub type TypedInput = dyn Any + Send + Sync;

/// Tool as the runtime uses it.
pub trait AnyTool: Send + Sync {
    fn name(&self) -> &str;
    fn aliases(&self) -> &'static [&'static str];
    /// Returns the further names that rules may use for the tool.
    fn also_named(&self) -> &[String] {
        &[]
    }
    /// Returns the name in the tool list for programs.
    fn listed_name(&self) -> &str {
        self.name()
    }
    fn is_enabled(&self, env: &Env) -> bool;
    fn is_hidden(&self) -> bool;
    /// Returns true if the tool is offered only once the conversation was compacted.
    fn is_for_compacted(&self) -> bool {
        false
    }
    fn prompt(&self, cx: &PromptContext) -> Cow<'static, str>;
    /// Returns the JSON Schema of the input; identical bytes in every process.
    fn schema(&self) -> &Value;
    fn hidden_parameters(&self, cx: &PromptContext) -> &'static [&'static str];
    fn reserved_parameters(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the server that provides the tool, if any.
    fn server(&self) -> Option<&ServerIdentity> {
        None
    }
    fn unanswered_message(&self) -> Option<&'static str> {
        None
    }
    fn input_without_answer(&self, _input: &Value, _waited: Duration) -> Option<Value> {
        None
    }
    fn requires_attended_session(&self) -> bool {
        false
    }
    /// Renders what a call with this typed input would do. May block.
    fn preview(&self, input: &TypedInput, cx: &PreviewContext) -> View;
    /// Renders a call that failed or was refused.
    fn failure_view(&self, input: &TypedInput, failure: &CallFailure<'_>) -> View;
    /// Returns what the call asks the user, if anything.
    fn question(&self, _input: &TypedInput) -> Option<CallQuestion> {
        None
    }
    fn input_with_reply(&self, _input: &Value, _reply: &UserReply) -> Option<Value> {
        None
    }
    /// Returns the text by which auto mode's reviewer judges the call; empty if it cannot.
    fn classifier_input(&self, input: &TypedInput) -> String;
    /// Renders a past call; `None` if its input is not in the tool's format.
    fn summarize_past_call(
        &self,
        input: &RawValue,
        result: Option<&RecordedResult<'_>>,
        cx: &PathContext,
    ) -> Option<CallSummary>;
    fn misplaced_reason(&self, _scene: CallSite) -> Option<&'static str> {
        None
    }
    fn complete_input(
        &self,
        _input: &Map<String, Value>,
        _services: &SessionServices,
    ) -> Result<Option<Map<String, Value>>, ToolError> {
        Ok(None)
    }
    fn anticipate(&self, _sign: CallHint, _services: &SessionServices) {}
    fn may_start_before_durable(&self) -> bool {
        false
    }
    fn reports_own_progress(&self) -> bool {
        false
    }
    fn max_result_chars(&self) -> ResultCap;
    fn on_interrupt(&self) -> InterruptBehavior;
    fn agent_availability(&self) -> AgentAvailability;
    /// Returns what a compaction is to carry over for the tool, if anything.
    fn carried(&self, _services: &SessionServices, _agent: &AgentPath) -> Option<CarriedState> {
        None
    }
    fn search_hint(&self) -> &str;
    /// Returns true if the definition is deferred; `always_load` overrides `should_defer`.
    fn is_deferred(&self) -> bool;
    fn eager_input(&self) -> bool;
    /// Repairs, coerces, parses, expands and validates an input. No I/O.
    fn prepare(&self, input: Value, cx: &PathContext) -> Result<PreparedCall, ToolError>;
    /// Renders an output in the tool's format for the model; `None` if it does not have that format.
    fn content_from_output(&self, _output: &RawValue) -> Option<ResultContent> {
        None
    }
    /// Runs a permitted call.
    fn run<'a>(&'a self, permit: Permit, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutcome, ToolError>>;
}

impl<T: Tool> AnyTool for T {
    fn name(&self) -> &str {
        T::NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        Tool::aliases(self)
    }

    fn listed_name(&self) -> &str {
        Tool::listed_name(self)
    }

    fn is_enabled(&self, env: &Env) -> bool {
        Tool::is_enabled(self, env)
    }

    fn is_hidden(&self) -> bool {
        Tool::is_hidden(self)
    }

    fn is_for_compacted(&self) -> bool {
        Tool::is_for_compacted(self)
    }

    fn prompt(&self, cx: &PromptContext) -> Cow<'static, str> {
        Tool::prompt(self, cx)
    }

    fn schema(&self) -> &Value {
        derived_schema::<T>()
    }

    fn hidden_parameters(&self, cx: &PromptContext) -> &'static [&'static str] {
        Tool::hidden_parameters(self, cx)
    }

    fn anticipate(&self, sign: CallHint, services: &SessionServices) {
        Tool::anticipate(self, sign, services);
    }

    fn may_start_before_durable(&self) -> bool {
        Tool::may_start_before_durable(self)
    }

    fn reports_own_progress(&self) -> bool {
        Tool::reports_own_progress(self)
    }

    fn reserved_parameters(&self) -> &'static [&'static str] {
        Tool::reserved_parameters(self)
    }

    fn unanswered_message(&self) -> Option<&'static str> {
        Tool::unanswered_message(self)
    }

    fn input_without_answer(&self, input: &Value, waited: Duration) -> Option<Value> {
        Tool::input_without_answer(self, input, waited)
    }

    fn requires_attended_session(&self) -> bool {
        Tool::requires_attended_session(self)
    }

    fn preview(&self, input: &TypedInput, cx: &PreviewContext) -> View {
        match input.downcast_ref::<T::Input>() {
            Some(input) => Tool::preview(self, input, cx),
            None => View::Text(format!("no preview: this is not an input of {}", T::NAME)),
        }
    }

    fn failure_view(&self, input: &TypedInput, failure: &CallFailure<'_>) -> View {
        match input.downcast_ref::<T::Input>() {
            Some(input) => Tool::failure_view(self, input, failure),
            None => View::Text(failure.text.to_owned()),
        }
    }

    fn question(&self, input: &TypedInput) -> Option<CallQuestion> {
        Tool::question(self, input.downcast_ref::<T::Input>()?)
    }

    fn input_with_reply(&self, input: &Value, reply: &UserReply) -> Option<Value> {
        Tool::input_with_reply(self, input, reply)
    }

    fn classifier_input(&self, input: &TypedInput) -> String {
        input.downcast_ref::<T::Input>().map(|input| self.auto_classifier_input(input)).unwrap_or_default()
    }

    fn summarize_past_call(
        &self,
        input: &RawValue,
        result: Option<&RecordedResult<'_>>,
        cx: &PathContext,
    ) -> Option<CallSummary> {
        let fields = serde_json::from_str(input.get()).ok()?;
        let (_, input) = self.parse_input(fields, cx).ok()?;
        let view = result.map(|result| match (result.failure(), result.output) {
            (Some(failure), _) => Tool::failure_view(self, &input, &failure),
            (None, output) => {
                let parse = |json: &RawValue| {
                    serde_json::from_str::<T::Output>(json.get()).ok().or_else(|| self.parse_output(json.get()))
                };
                let output = output.and_then(parse);
                output.map_or_else(|| View::Text(result.text.to_owned()), |output| self.view(&input, &output))
            }
        });
        let (name, summary) = (self.user_facing_name(Some(&input)).into_owned(), self.description(&input, cx));
        Some(CallSummary { name, summary, view })
    }

    fn misplaced_reason(&self, scene: CallSite) -> Option<&'static str> {
        Tool::misplaced_reason(self, scene)
    }

    fn complete_input(
        &self,
        input: &Map<String, Value>,
        services: &SessionServices,
    ) -> Result<Option<Map<String, Value>>, ToolError> {
        Tool::complete_input(self, input, services)
    }

    fn max_result_chars(&self) -> ResultCap {
        Tool::max_result_chars(self)
    }

    fn on_interrupt(&self) -> InterruptBehavior {
        Tool::on_interrupt(self)
    }

    fn agent_availability(&self) -> AgentAvailability {
        Tool::agent_availability(self)
    }

    fn carried(&self, services: &SessionServices, agent: &AgentPath) -> Option<CarriedState> {
        Tool::carried(self, services, agent)
    }

    fn search_hint(&self) -> &str {
        Tool::search_hint(self)
    }

    fn is_deferred(&self) -> bool {
        self.should_defer() && !self.always_load()
    }

    fn eager_input(&self) -> bool {
        Tool::eager_input(self)
    }

    fn prepare(&self, input: Value, cx: &PathContext) -> Result<PreparedCall, ToolError> {
        let Value::Object(fields) = input else {
            return Err(ToolError::new(
                ErrorClass::SchemaInvalid,
                format!("InputValidationError: the input of {} must be a JSON object", T::NAME),
            ));
        };
        let (fields, typed) = self.parse_input(fields, cx)?;
        self.validate_input(&typed, cx).map_err(|problem| {
            ToolError::new(ErrorClass::InputInvalid, format!("{} (code {})", problem.message, problem.code))
        })?;
        let input = serde_json::to_value(&typed).unwrap_or(Value::Null);
        Ok(PreparedCall {
            also_named: Arc::default(),
            tool: Cow::Borrowed(T::NAME),
            given: fields,
            input,
            needs: self.needs(&typed, cx),
            read_only: self.is_read_only(&typed, cx),
            destructive: self.is_destructive(&typed, cx),
            concurrency_safe: self.is_concurrency_safe(&typed, cx),
            requires_user_interaction: self.requires_user_interaction(&typed),
            verdict: self.check_permissions(&typed, cx),
            path: self.path(&typed, cx),
            description: self.description(&typed, cx),
            user_facing_name: self.user_facing_name(Some(&typed)),
            typed: Arc::new(typed),
            confinement_denial: None,
        })
    }

    fn content_from_output(&self, output: &RawValue) -> Option<ResultContent> {
        self.parse_output(output.get()).map(|output| self.to_blocks(&output))
    }

    fn run<'a>(&'a self, permit: Permit, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let Some(input) = permit.into_input::<T::Input>(T::NAME) else {
                return Err(ToolError::wrong_permit(T::NAME));
            };
            let result = self.call(T::Input::clone(&input), cx).await?;
            let output = serde_json::value::to_raw_value(&result.data).map_err(|error| {
                ToolError::new(ErrorClass::Internal, format!("the output of {} has no JSON form: {error}", T::NAME))
            })?;
            Ok(ToolOutcome {
                output,
                content: self.to_blocks(&result.data),
                view: self.view(&input, &result.data),
                new_messages: result.new_messages,
                changes: result.changes,
            })
        })
    }
}

/// Parsing of inputs, shared by calls and past calls.
trait ParseInput: Tool {
    /// Repairs, coerces, parses and expands an input. Returns the parameters in their original spelling as well.
    fn parse_input(
        &self,
        mut fields: Map<String, Value>,
        cx: &PathContext,
    ) -> Result<(Map<String, Value>, Self::Input), ToolError>
    where
        Self: Sized,
    {
        let problems = coerce_input(derived_schema::<Self>(), self.key_repairs(), &mut fields);
        if !problems.is_empty() {
            return Err(schema_error(Self::NAME, &problems));
        }
        let mut typed = Self::Input::deserialize(&fields)
            .map_err(|error| schema_error(Self::NAME, &[SchemaProblem(error.to_string())]))?;
        self.backfill_observable_input(&mut typed, cx);
        Ok((fields, typed))
    }
}

impl<T: Tool> ParseInput for T {}

fn schema_error(tool: &str, problems: &[SchemaProblem]) -> ToolError {
    let list: Vec<&str> = problems.iter().map(|problem| problem.0.as_str()).collect();
    let head = format!("InputValidationError: {tool} was called with an invalid input");
    ToolError::new(ErrorClass::SchemaInvalid, format!("{head}:\n- {}", list.join("\n- ")))
}

/// Returns the derived schema, built once per tool and reduced to what a model needs.
fn derived_schema<T: Tool>() -> &'static Value {
    // A generic function's static is shared by all instances, so the cache is keyed by the tool's name.
    static SCHEMAS: OnceLock<std::sync::Mutex<std::collections::HashMap<&'static str, &'static Value>>> =
        OnceLock::new();
    let cache = SCHEMAS.get_or_init(Default::default);
    let mut cache = cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    cache.entry(T::NAME).or_insert_with(|| {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut schema = settings.into_generator().into_root_schema_for::<T::Input>().to_value();
        strip_schema(&mut schema);
        // One small value per tool, kept for the life of the process, like the static tool table.
        Box::leak(Box::new(schema))
    })
}

/// Removes parts of the derived schema that no model uses: titles, number formats, the null half of optional fields.
fn strip_schema(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("title").is_some_and(Value::is_string) {
                fields.shift_remove("title");
            }
            for key in ["$schema", "format"] {
                if fields.get(key).is_some_and(Value::is_string) {
                    fields.shift_remove(key);
                }
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.shift_remove("default");
            }
            if let Some(Value::Array(kinds)) = fields.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if kinds.len() == 1 {
                    let only = kinds.remove(0);
                    fields.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = fields.get_mut("enum") {
                choices.retain(|choice| !choice.is_null());
            }
            unwrap_optional(fields);
            for (_, value) in fields.iter_mut() {
                strip_schema(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip_schema),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces `anyOf [T, null]` by `T`: absence already means "none".
fn unwrap_optional(fields: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = fields.get("anyOf") else { return };
    let real: Vec<&Value> = choices.iter().filter(|choice| choice.get("type") != Some(&Value::from("null"))).collect();
    if let [Value::Object(only)] = real.as_slice() {
        let only = only.clone();
        fields.shift_remove("anyOf");
        for (key, value) in only {
            fields.entry(key).or_insert(value);
        }
    }
}
