//! The tool contract: the trait that authors implement, the trait that the runtime uses, and the context of a call.
//!
//! Authors implement [`Tool`], a typed trait in which every optional member has a conservative default: a tool that
//! overrides nothing asks for permission, runs alone and does not count as read-only. The runtime uses [`AnyTool`];
//! the blanket implementation is the only bridge, and its `run` requires a [`Permit`](crate::Permit) that only the
//! gate can create.

mod any_tool;
mod call_views;
mod external_tool;
mod tool_context;
mod tool_input;
mod tool_result;
mod tool_set;
mod tool_source;

pub use any_tool::{AnyTool, PreparedCall, TypedInput};
pub use call_views::{CallFailure, CallSummary, PreviewContext, RecordedResult};
pub use external_tool::{ExternalTool, ExternalToolHandler, ExternalToolResult, ExternalToolSpec};
pub use tool_context::{PathContext, PromptContext, ToolContext};
pub use tool_input::{InputProblem, SchemaProblem, coerce_input, schema_problems};
pub use tool_result::{ErrorClass, NewMessage, StateChange, ToolError, ToolOutcome, ToolResult};
pub use tool_set::{ToolRef, ToolSet, nearest_name};
pub use tool_source::{AbsentTools, ServerRequestFacts, ToolSource, ToolSourceNews};

pub use crate::session::ModeChangeRequest;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use gimlet_proto::{AccessNeed, AgentPath, CallQuestion, Env, PermissionMode, ResultContent, UserReply, View};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::services::SessionServices;

/// Size limit above which a result is written to a file and replaced by a preview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultCap {
    Chars(usize),
    /// The tool limits its own output.
    Unlimited,
}

/// Verdict of a tool's own permission check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PermissionVerdict {
    /// No opinion: rules, mode and access needs decide.
    #[default]
    Passthrough,
    Ask(String),
    Deny(String),
}

/// Hint that a call of a tool may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallHint {
    /// The session begins with a prompt for the model.
    PromptReady,
    /// The request was sent; the model may call any offered tool.
    RequestSent,
    /// The model has streamed the tool's name but not yet the input.
    ToolNamed,
}

/// Circumstances under which a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    pub mode: PermissionMode,
    /// Set if the call is made by a subagent, not by the main conversation.
    pub is_subagent: bool,
}

/// Subagents to which a tool is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentAvailability {
    Always,
    /// Foreground subagents only.
    InForeground,
    /// Foreground subagents that may launch other agents: the tool is for launching.
    ToLaunchOthers,
    /// None: the tool interacts with the user, or concerns the session as a whole.
    Never,
}

/// Behaviour of a running call when the turn is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptBehavior {
    /// The call is cancelled; partial output is kept.
    Cancel,
    /// The call is short and must complete, so it is awaited.
    FinishAtomically,
}

/// What a compaction carries over for a tool.
#[derive(Clone, Debug)]
pub struct CarriedState {
    /// Words for the model.
    pub text: String,
    /// Output in which a resumed session finds the state ([`PastCalls::carried`](crate::PastCalls::carried)).
    pub output: Option<Box<RawValue>>,
}

/// A tool. Implemented by unit structs: services come through the context, so a table of statics is the only wiring.
pub trait Tool: Send + Sync + 'static {
    /// Name under which the model calls the tool, also used in permission rules and transcripts.
    const NAME: &'static str;

    /// Input type: `#[serde(deny_unknown_fields)]`, one documented field per parameter.
    type Input: DeserializeOwned + Serialize + JsonSchema + Clone + Send + Sync + 'static;
    /// Structured output for hooks and programs. It is read back to show past calls, so members that are not written
    /// need a default.
    type Output: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Returns the description in the model's tool list.
    fn prompt(&self, cx: &PromptContext) -> Cow<'static, str>;

    /// Returns the parameters to leave out of the model's schema because they do not apply here; one inside a list of
    /// objects is written `list[].name`.
    fn hidden_parameters(&self, _cx: &PromptContext) -> &'static [&'static str] {
        &[]
    }

    /// Prepares for a call that may follow. Only work without side effects may be done here.
    fn anticipate(&self, _sign: CallHint, _services: &SessionServices) {}

    /// Returns true if a call may start before its request is durable on disk. Such a call must wait for
    /// [`ToolContext::durable_barrier`] itself before its first visible effect.
    fn may_start_before_durable(&self) -> bool {
        false
    }

    /// Returns true if a long call shows its progress through the agents it launched and needs no heartbeat of its
    /// own.
    fn reports_own_progress(&self) -> bool {
        false
    }

    /// Performs the call. Reached only through the gate.
    fn call(
        &self,
        input: Self::Input,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<ToolResult<Self::Output>, ToolError>> + Send;

    /// Renders the output for the model.
    fn to_blocks(&self, output: &Self::Output) -> ResultContent;

    /// Parses an output that a hook supplies in place of the tool's own; `None` if the tool accepts none.
    fn parse_output(&self, _json: &str) -> Option<Self::Output> {
        None
    }

    /// Renders the output for the user.
    fn view(&self, _input: &Self::Input, output: &Self::Output) -> View {
        View::Text(self.to_blocks(output).to_text())
    }

    /// Renders what the call would do, for the question about it. Runs on a thread that may block. Files are read only
    /// through [`PreviewContext::readable_path`]; a preview that cannot be made is a text that states why.
    fn preview(&self, input: &Self::Input, cx: &PreviewContext) -> View {
        match self.description(input, &cx.paths) {
            text if text.is_empty() => View::from_arguments(&serde_json::to_value(input).unwrap_or_default()),
            text => View::Text(text),
        }
    }

    /// Renders a call that failed or was refused.
    fn failure_view(&self, _input: &Self::Input, failure: &CallFailure<'_>) -> View {
        View::Text(failure.text.to_owned())
    }

    /// Returns the access that the call needs. Must be pure and complete; when unsure, `Opaque`.
    fn needs(&self, _input: &Self::Input, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Opaque]
    }

    /// Returns alternative names of the tool (older spellings).
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns true if the tool is offered at all.
    fn is_enabled(&self, _env: &Env) -> bool {
        true
    }

    /// Returns true if the tool is offered only once the conversation was compacted.
    fn is_for_compacted(&self) -> bool {
        false
    }

    /// Returns true if the tool is callable but not in the model's default tool list.
    fn is_hidden(&self) -> bool {
        false
    }

    /// Returns true if the call only reads. By default derived from the access needs.
    fn is_read_only(&self, input: &Self::Input, cx: &PathContext) -> bool {
        let needs = self.needs(input, cx);
        !needs.is_empty() && needs.iter().all(|need| matches!(need, AccessNeed::Read(_)))
    }

    /// Returns true if the call destroys data that cannot be restored; refines "not read-only". The question about such
    /// a call is marked.
    fn is_destructive(&self, _input: &Self::Input, _cx: &PathContext) -> bool {
        false
    }

    /// Returns true if the call may run concurrently with other such calls.
    fn is_concurrency_safe(&self, input: &Self::Input, cx: &PathContext) -> bool {
        self.is_read_only(input, cx)
    }

    /// Validates the input without I/O; each problem has a code specific to the tool.
    fn validate_input(&self, _input: &Self::Input, _cx: &PathContext) -> Result<(), InputProblem> {
        Ok(())
    }

    /// Returns the tool's own verdict in the permission decision.
    fn check_permissions(&self, _input: &Self::Input, _cx: &PathContext) -> PermissionVerdict {
        PermissionVerdict::Passthrough
    }

    /// Returns true if the call must never be approved without the user.
    fn requires_user_interaction(&self, _input: &Self::Input) -> bool {
        false
    }

    /// Returns the parameters that are filled in only by the answer to a question: values from the model are ignored.
    fn reserved_parameters(&self) -> &'static [&'static str] {
        &[]
    }

    /// For tools that ask a question: returns the message for the model if no user can answer. If permissions are
    /// bypassed, the call runs without an answer instead.
    fn unanswered_message(&self) -> Option<&'static str> {
        None
    }

    /// Returns what the call asks the user; `None` for calls that need permission only.
    fn question(&self, _input: &Self::Input) -> Option<CallQuestion> {
        None
    }

    /// For tools that ask a question: returns the input with the user's reply; `None` if the reply does not fit.
    fn input_with_reply(&self, _input: &Value, _reply: &UserReply) -> Option<Value> {
        None
    }

    /// For tools that ask a question: returns the input to run with if no answer came within the given time.
    fn input_without_answer(&self, _input: &Value, _waited: Duration) -> Option<Value> {
        None
    }

    /// Returns true if the tool needs a user who can be asked; otherwise it is not offered.
    fn requires_attended_session(&self) -> bool {
        false
    }

    /// Returns the reason why a call is not possible at this point, if there is one.
    fn misplaced_reason(&self, _scene: CallSite) -> Option<&'static str> {
        None
    }

    /// Completes an input from session data on disk, just before the permission decision: earlier calls of the reply
    /// have run by then. `None` leaves the input unchanged.
    fn complete_input(
        &self,
        _input: &Map<String, Value>,
        _services: &SessionServices,
    ) -> Result<Option<Map<String, Value>>, ToolError> {
        Ok(None)
    }

    /// Expands `~` and relative paths. History keeps the model's original input; everything else uses the expanded
    /// one.
    fn backfill_observable_input(&self, _input: &mut Self::Input, _cx: &PathContext) {}

    /// Returns misspelt keys with their replacements, applied only if the right key is absent. One inside a list of
    /// objects is written `list[].wrong`.
    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns the name in the tool list for programs, if they know the tool by another name.
    fn listed_name(&self) -> &'static str {
        Self::NAME
    }

    /// Returns the display name for the user.
    fn user_facing_name(&self, _input: Option<&Self::Input>) -> Cow<'static, str> {
        Cow::Borrowed(Self::NAME)
    }

    /// Returns a one-line description of this call.
    fn description(&self, input: &Self::Input, cx: &PathContext) -> String {
        match self.path(input, cx) {
            Some(path) => cx.display(&path),
            None => String::new(),
        }
    }

    /// Returns the file that the call is about, if there is one.
    fn path(&self, input: &Self::Input, cx: &PathContext) -> Option<PathBuf> {
        self.needs(input, cx).into_iter().find_map(|need| match need {
            AccessNeed::Read(path) | AccessNeed::Write(path) => Some(path),
            AccessNeed::Run(_) | AccessNeed::Fetch(_) | AccessNeed::Session | AccessNeed::Opaque => None,
        })
    }

    /// Returns the text by which auto mode's reviewer judges the call; empty means that it cannot, and the user is
    /// asked.
    fn auto_classifier_input(&self, _input: &Self::Input) -> String {
        String::new()
    }

    fn max_result_chars(&self) -> ResultCap {
        ResultCap::Chars(50_000)
    }

    fn on_interrupt(&self) -> InterruptBehavior {
        InterruptBehavior::Cancel
    }

    /// Returns the subagents to which the tool is available.
    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::InForeground
    }

    /// Returns what a compaction is to carry over for the tool, if anything: words for the model, and the output from
    /// which a later run restores the state.
    fn carried(&self, _services: &SessionServices, _agent: &AgentPath) -> Option<CarriedState> {
        None
    }

    /// Returns keywords for tool search.
    fn search_hint(&self) -> &'static str {
        ""
    }

    /// Returns true if the definition stays out of the prompt until it is searched for.
    fn should_defer(&self) -> bool {
        false
    }

    /// Returns true if the definition is never deferred; overrides `should_defer`.
    fn always_load(&self) -> bool {
        false
    }

    /// Returns true if the provider should stream this tool's input incrementally.
    fn eager_input(&self) -> bool {
        false
    }
}
