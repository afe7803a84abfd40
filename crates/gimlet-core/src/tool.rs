//! The tool contract: what an author writes, what the runtime sees, and what a call may touch.
//!
//! Authors implement [`Tool`], a typed trait whose every optional member has the conservative default: a tool written
//! without thought asks, runs alone and does not count as reading. The runtime sees [`AnyTool`]; the blanket
//! implementation is the only bridge, and its `run` wants a [`Permit`](crate::Permit) that only the gate can make.

mod any_tool;
mod external_tool;
mod tool_context;
mod tool_input;
mod tool_result;
mod tool_set;
mod tool_source;

pub use any_tool::{AnyTool, PreparedCall};
pub use external_tool::{ExternalTool, ExternalToolHandler, ExternalToolResult, ExternalToolSpec};
pub use tool_context::{PathContext, PromptContext, ToolContext};
pub use tool_input::{InputProblem, SchemaProblem, coerce_input, schema_problems};
pub use tool_result::{ErrorClass, StateChange, ToolError, ToolOutcome, ToolResult};
pub use tool_set::{ToolRef, ToolSet, nearest_name};
pub use tool_source::{AbsentTools, ServerRequestFacts, ToolSource, ToolSourceNews};

pub use crate::session::ModeChangeRequest;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use gimlet_proto::{AccessNeed, Env, PermissionMode, ResultContent, View};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::services::SessionServices;

/// How long a result may get before it is written to a file and replaced by a preview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultCap {
    Chars(usize),
    /// The tool bounds its own output.
    Unlimited,
}

/// What a tool's own permission check says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PermissionVerdict {
    /// Nothing to add: rules, mode and needs decide.
    #[default]
    Passthrough,
    Ask(String),
    Deny(String),
}

/// What lets a tool expect a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallHint {
    /// The session begins, and there is a prompt for the model.
    PromptReady,
    /// The model has been asked and may call any tool that it was offered.
    RequestSent,
    /// The model has said the tool's name and not yet the input.
    ToolNamed,
}

/// What a call comes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    pub mode: PermissionMode,
    /// It is a subagent's, not one of the conversation that a person follows.
    pub is_subagent: bool,
}

/// Which subagents may have a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentAvailability {
    Always,
    /// Those that somebody waits for.
    InForeground,
    /// The same, while they may launch others at all: it is the tool for that.
    ToLaunchOthers,
    /// It speaks with the person, or about the session as a whole.
    Never,
}

/// What happens to a running call when the turn is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptBehavior {
    /// It is cancelled; partial output is kept.
    Cancel,
    /// It is short and must not be torn: it is awaited.
    FinishAtomically,
}

/// A tool. A unit struct: services come through the context, so a table of statics is all the wiring there is.
pub trait Tool: Send + Sync + 'static {
    /// The name the model calls, also the name in permission rules and transcripts.
    const NAME: &'static str;

    /// The input. `#[serde(deny_unknown_fields)]`, one documented field per parameter.
    type Input: DeserializeOwned + Serialize + JsonSchema + Clone + Send + Sync + 'static;
    /// The structured output that hooks and programs see.
    type Output: Serialize + Send + Sync + 'static;

    /// The description the model sees in the tool list.
    fn prompt(&self, cx: &PromptContext) -> Cow<'static, str>;

    /// Parameters that make no sense here and are left out of the schema that the model sees; one inside a list of
    /// objects is written `list[].name`.
    fn hidden_parameters(&self, _cx: &PromptContext) -> &'static [&'static str] {
        &[]
    }

    /// A call may come. Whatever takes time and has no effect can be made ready.
    fn anticipate(&self, _sign: CallHint, _services: &SessionServices) {}

    /// Whether a call may begin while its request is still being made safe on disk. One that may waits for
    /// [`ToolContext::durable_barrier`] itself, before its first effect that anybody can see.
    fn may_start_before_durable(&self) -> bool {
        false
    }

    /// Whether a long call shows by what it sends others to do that it is alive, so that no sign of life is needed beside it.
    fn reports_own_progress(&self) -> bool {
        false
    }

    /// Does the work. Reached only through the gate.
    fn call(
        &self,
        input: Self::Input,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<ToolResult<Self::Output>, ToolError>> + Send;

    /// What the model sees of the output.
    fn to_blocks(&self, output: &Self::Output) -> ResultContent;

    /// Reads an output that somebody else wrote in the tool's form; `None` where the tool does not take any.
    fn parse_output(&self, _json: &str) -> Option<Self::Output> {
        None
    }

    /// What people see of the output.
    fn view(&self, _input: &Self::Input, output: &Self::Output) -> View {
        View::Text(self.to_blocks(output).to_text())
    }

    /// What the call would touch. Pure and complete; when unsure, `Opaque`.
    fn needs(&self, _input: &Self::Input, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Opaque]
    }

    /// Other names under which the tool is called (older spellings).
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the tool is offered at all.
    fn is_enabled(&self, _env: &Env) -> bool {
        true
    }

    /// Known and callable, but not in the list that the model gets by default.
    fn is_hidden(&self) -> bool {
        false
    }

    /// Only looks. Follows from the needs: nothing but reads.
    fn is_read_only(&self, input: &Self::Input, cx: &PathContext) -> bool {
        let needs = self.needs(input, cx);
        !needs.is_empty() && needs.iter().all(|need| matches!(need, AccessNeed::Read(_)))
    }

    /// Destroys what cannot be brought back; refines "not read-only".
    fn is_destructive(&self, _input: &Self::Input, _cx: &PathContext) -> bool {
        false
    }

    /// May run beside others of its kind.
    fn is_concurrency_safe(&self, input: &Self::Input, cx: &PathContext) -> bool {
        self.is_read_only(input, cx)
    }

    /// Checks that need no I/O, with a code of the tool's own for each.
    fn validate_input(&self, _input: &Self::Input, _cx: &PathContext) -> Result<(), InputProblem> {
        Ok(())
    }

    /// The tool's own say in the permission decision.
    fn check_permissions(&self, _input: &Self::Input, _cx: &PathContext) -> PermissionVerdict {
        PermissionVerdict::Passthrough
    }

    /// Never approved without a person.
    fn requires_user_interaction(&self, _input: &Self::Input) -> bool {
        false
    }

    /// Parameters that only whoever answers a question fills in: what the model writes there does not count.
    fn reserved_parameters(&self) -> &'static [&'static str] {
        &[]
    }

    /// A question by nature: what the model is told where nobody can answer it. Where permissions are bypassed, such a
    /// call runs without an answer instead.
    fn unanswered_message(&self) -> Option<&'static str> {
        None
    }

    /// A question by nature: the input to run with when nobody has answered within this time.
    fn input_without_answer(&self, _input: &Value, _waited: Duration) -> Option<Value> {
        None
    }

    /// Of no use where nobody can be asked, so that it is not offered there.
    fn requires_attended_session(&self) -> bool {
        false
    }

    /// Why a call makes no sense at this point, if it does not.
    fn misplaced_reason(&self, _scene: CallSite) -> Option<&'static str> {
        None
    }

    /// Completes an input from what the session has on disk, just before the call is decided on: earlier calls of the
    /// same reply have run by then. `None` leaves it as it is.
    fn complete_input(
        &self,
        _input: &Map<String, Value>,
        _services: &SessionServices,
    ) -> Result<Option<Map<String, Value>>, ToolError> {
        Ok(None)
    }

    /// Expands `~` and relative paths. History keeps what the model wrote; everyone else sees the result.
    fn backfill_observable_input(&self, _input: &mut Self::Input, _cx: &PathContext) {}

    /// Misspelt keys and what they mean; applied only when the right key is absent. One inside a list of objects is
    /// written `list[].wrong`.
    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The name in the list of tools that programs get, where they know it by another one.
    fn listed_name(&self) -> &'static str {
        Self::NAME
    }

    /// The name for people.
    fn user_facing_name(&self, _input: Option<&Self::Input>) -> Cow<'static, str> {
        Cow::Borrowed(Self::NAME)
    }

    /// One line about this call.
    fn description(&self, input: &Self::Input, cx: &PathContext) -> String {
        match self.path(input, cx) {
            Some(path) => cx.display(&path),
            None => String::new(),
        }
    }

    /// The file that the call is about.
    fn path(&self, input: &Self::Input, cx: &PathContext) -> Option<PathBuf> {
        self.needs(input, cx).into_iter().find_map(|need| match need {
            AccessNeed::Read(path) | AccessNeed::Write(path) => Some(path),
            AccessNeed::Run(_) | AccessNeed::Fetch(_) | AccessNeed::Session | AccessNeed::Opaque => None,
        })
    }

    /// What an approval classifier is shown; empty means that it cannot judge the call.
    fn auto_classifier_input(&self, _input: &Self::Input) -> String {
        String::new()
    }

    fn max_result_chars(&self) -> ResultCap {
        ResultCap::Chars(50_000)
    }

    fn on_interrupt(&self) -> InterruptBehavior {
        InterruptBehavior::Cancel
    }

    /// Which subagents may have it.
    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::InForeground
    }

    /// A few words for tool search.
    fn search_hint(&self) -> &'static str {
        ""
    }

    /// Keep the definition out of the prompt until it is searched for.
    fn should_defer(&self) -> bool {
        false
    }

    /// Never defer; wins over `should_defer`.
    fn always_load(&self) -> bool {
        false
    }

    /// Ask the provider to stream this tool's input piece by piece.
    fn eager_input(&self) -> bool {
        false
    }
}
