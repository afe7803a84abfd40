//! One tool call, from the block that the model wrote to its one result.

mod call_hooks;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_policy::HookDecision;
use gimlet_proto::{
    AgentPath, Block, EventBody, ModelFacts, Notice, NoticeLevel, ToolCallPhase, ToolCallView, ToolUseId,
};
use gimlet_text::{MAX_JSON_DEPTH, is_too_deep};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agents::{AgentIdentity, AgentRuntime};
use crate::call_result::CallResult;
use crate::gate::{Clearance, Gate, Permit};
use crate::hooks::HookEvent;
use crate::model_selection::LiveModelSelection;
use crate::panics::{self, CaughtPanic, catch_panic_async};
use crate::services::SessionServices;
use crate::skills::TurnGrants;
use crate::tool::{
    AnyTool, CallFailure, CallSite, ErrorClass, InterruptBehavior, NewMessage, PathContext, PreparedCall, ToolContext,
    ToolError, ToolOutcome, ToolRef, ToolSet, nearest_name,
};
use crate::write_barrier::DurableBarrier;

/// Limit on the bytes of an unparsable input that are quoted back to the model.
const MAX_BAD_INPUT: usize = 8 * 1024;
/// Time that a cancelled call gets to stop.
const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// Time that a call which must not be interrupted midway gets to finish.
const ATOMIC_GRACE: Duration = Duration::from_secs(5);
/// Interval between progress events of a long call.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// A tool call as it arrived from the model.
#[derive(Clone)]
pub(crate) struct ToolCall {
    pub(crate) id: ToolUseId,
    pub(crate) name: String,
    /// Input as stored in history.
    pub(crate) input: Arc<RawValue>,
    /// Text that the model wrote, if it was not a JSON object.
    pub(crate) bad_input: Option<String>,
    /// Blocks of the reply up to and including the call; empty for a call that no reply made.
    pub(crate) reply: Arc<[Block]>,
}

/// State that every call of a turn needs.
#[derive(Clone)]
pub(crate) struct CallScope {
    pub(crate) services: Arc<SessionServices>,
    pub(crate) tools: ToolSet,
    pub(crate) gate: Arc<Gate>,
    pub(crate) cancel: CancellationToken,
    pub(crate) agent: AgentPath,
    /// The subagent whose calls these are; `None` in the main conversation.
    pub(crate) subagent: Option<Arc<AgentIdentity>>,
    pub(crate) model_selection: LiveModelSelection,
    /// Runtime that launches further agents.
    pub(crate) agent_runtime: Arc<AgentRuntime>,
    /// Rules that skills add to this turn.
    pub(crate) grants: TurnGrants,
}

impl CallScope {
    /// Returns the model that currently answers this conversation.
    pub(crate) fn model(&self) -> String {
        self.model_selection.model(self.gate.mode_for(self))
    }

    /// Returns the facts of that model.
    pub(crate) fn model_facts(&self) -> ModelFacts {
        self.model_selection.facts(&self.model())
    }

    /// Returns a scope for work in the main conversation that belongs to no turn.
    pub(crate) fn for_session(
        services: &Arc<SessionServices>,
        gate: &Arc<Gate>,
        model_selection: &LiveModelSelection,
        agent_runtime: &Arc<AgentRuntime>,
    ) -> CallScope {
        CallScope {
            services: services.clone(),
            tools: ToolSet::new(Vec::<ToolRef>::new()),
            gate: gate.clone(),
            cancel: CancellationToken::new(),
            agent: AgentPath::default(),
            subagent: None,
            model_selection: model_selection.clone(),
            agent_runtime: agent_runtime.clone(),
            grants: TurnGrants::default(),
        }
    }

    /// Returns the current state that calls are prepared against.
    pub(crate) fn call_site(&self) -> CallSite {
        CallSite { mode: self.gate.mode(), is_subagent: self.agent != AgentPath::default() }
    }
}

/// Facts about a call at its start.
pub(crate) struct CallStart {
    /// True if the reply has no other call.
    pub(crate) alone: bool,
    /// True if the call had no effect so often that the user is asked first.
    pub(crate) asks_first: bool,
    pub(crate) recorded: DurableBarrier,
}

/// Author of a call's input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputAuthor {
    Model,
    /// A user, a program or a hook that answered a question about the call.
    Answer,
}

/// Runs stages 1 to 6: everything before hooks and permission. Does no I/O.
pub(crate) fn prepare_call(
    scope: &CallScope,
    incoming: &ToolCall,
    author: InputAuthor,
    paths: &PathContext,
) -> Result<(ToolRef, PreparedCall), ToolError> {
    let step = || prepare_unguarded(incoming, author, &scope.tools, paths);
    panics::run_call_step(scope, &incoming.name, "reading its input", step)?
}

fn prepare_unguarded(
    incoming: &ToolCall,
    author: InputAuthor,
    tools: &ToolSet,
    paths: &PathContext,
) -> Result<(ToolRef, PreparedCall), ToolError> {
    if let Some(raw) = &incoming.bad_input {
        return Err(unreadable_input_error(raw));
    }
    let Some(tool) = tools.find(&incoming.name) else { return Err(unknown_tool_error(&incoming.name, tools)) };
    let mut input: Value =
        serde_json::from_str(incoming.input.get()).map_err(|_| unreadable_input_error(incoming.input.get()))?;
    if let (InputAuthor::Model, Value::Object(fields)) = (author, &mut input) {
        fields.retain(|name, _| !tool.reserved_parameters().contains(&name.as_str()));
    }
    tool.prepare(input, paths).map(|prepared| (tool.clone(), prepared))
}

fn unreadable_input_error(raw: &str) -> ToolError {
    if is_too_deep(raw) {
        let text = format!("InputValidationError: the input is nested deeper than {MAX_JSON_DEPTH} levels");
        return ToolError::new(ErrorClass::SchemaInvalid, text);
    }
    let shown = truncate_to_bytes(raw, MAX_BAD_INPUT);
    match serde_json::from_str::<serde::de::IgnoredAny>(raw) {
        Ok(_) => ToolError::new(
            ErrorClass::SchemaInvalid,
            format!("InputValidationError: the input must be a JSON object, but this was given: {shown}"),
        ),
        Err(problem) => {
            let raw_input = json!({ "INVALID_JSON": shown });
            let text =
                format!("{raw_input}\nThe input is not valid JSON: {problem}. Call the tool again with all of it.");
            ToolError::new(ErrorClass::MalformedJson, text)
        }
    }
}

fn unknown_tool_error(name: &str, tools: &ToolSet) -> ToolError {
    if let Some(why) = tools.absence_reason(name) {
        return ToolError::new(ErrorClass::UnknownTool, format!("The tool {name} is not there now: {why}."));
    }
    let names: Vec<&str> = tools.offered().map(|tool| tool.name()).collect();
    let hint = match nearest_name(name, names.iter().copied()) {
        Some(close) => format!("Did you mean {close}?"),
        None => format!("Available tools: {}.", names.join(", ")),
    };
    let what =
        if name.is_empty() { "The call names no tool".to_owned() } else { format!("There is no tool named {name}") };
    ToolError::new(ErrorClass::UnknownTool, format!("{what}. {hint}"))
}

/// Returns the longest prefix of `text` within `limit` bytes that ends at a character boundary.
pub(crate) fn truncate_to_bytes(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

pub(crate) use call_hooks::{has_pre_call_hooks, hook_subject};

/// Runs stages 7 to 13: hooks, permission, the call itself, and its result. Never fails, never panics.
pub(crate) async fn run_call(
    scope: Arc<CallScope>,
    incoming: ToolCall,
    tool: ToolRef,
    pass: Clearance,
    start: CallStart,
) -> CallResult {
    let name = incoming.name.clone();
    match catch_panic_async(run_unguarded(scope.clone(), incoming, tool, pass, start)).await {
        Ok(settled) => settled,
        Err(panicked) => panicked_result(&scope, &name, &panicked),
    }
}

async fn run_unguarded(
    scope: Arc<CallScope>,
    incoming: ToolCall,
    tool: ToolRef,
    pass: Clearance,
    start: CallStart,
) -> CallResult {
    if scope.cancel.is_cancelled() {
        return crate::call_result::cancelled_result("the turn was stopped before this call began");
    }
    if let Some(why) = tool.misplaced_reason(scope.call_site()) {
        return CallResult::from_error(ToolError::input(why));
    }
    let CallStart { alone, asks_first, recorded } = start;
    let mut repeat_allowed = false;
    if asks_first {
        repeat_allowed = match scope.gate.ask_to_repeat(&scope, &incoming, &pass).await {
            Ok(allowed) => allowed,
            Err(refusal) => return refusal.into_call_result(&scope, &incoming),
        };
    }
    let keeps_input = scope.services.hooks().has_listeners(HookEvent::PostToolBatch);
    let input = if keeps_input { Some(pass.input().clone()) } else { None };
    let call_hooks::HookClearedCall { pass, say, contexts } =
        match call_hooks::run_pre_call_hooks(&scope, &incoming, &tool, pass, alone).await {
            Ok(cleared) => cleared,
            Err(settled) => return CallResult { input, ..*settled },
        };
    let input = if keeps_input { Some(pass.input().clone()) } else { None };
    let mut settled = run_cleared_call(&scope, &incoming, &tool, pass, say, recorded).await;
    settled.input = settled.input.or(input);
    settled.repeat_allowed = repeat_allowed;
    // Context from hooks before the call belongs to every result, ahead of context from hooks after the call.
    settled.new_messages.splice(0..0, contexts.into_iter().map(NewMessage::Text));
    settled
}

/// Runs a call that hooks did not stop.
async fn run_cleared_call(
    scope: &Arc<CallScope>,
    incoming: &ToolCall,
    tool: &ToolRef,
    pass: Clearance,
    say: Option<HookDecision>,
    recorded: DurableBarrier,
) -> CallResult {
    let name = tool.name();
    let permit = match scope.gate.authorize_call(scope, &**tool, incoming, pass, say.as_ref()).await {
        Ok(permit) => permit,
        Err(refusal) => return refusal.into_call_result(scope, incoming),
    };
    if scope.cancel.is_cancelled() {
        return crate::call_result::cancelled_result("the turn was stopped before this call began");
    }
    let cx = ToolContext { recorded, ..build_tool_context(scope, incoming, name, &permit) };
    scope.publish_agent_progress(&incoming.name, permit.summary());
    let label = permit.user_facing_name().to_string();
    let post_call_facts = call_hooks::PostCallFacts::for_call(scope, tool, &permit);
    let input = scope.services.hooks().has_listeners(HookEvent::PostToolBatch).then(|| permit.input().clone());
    publish_phase(scope, &cx, &label, ToolCallPhase::Running);
    let typed = permit.typed_input();
    let confined = permit.confinement().map(|_| permit.input().clone());
    let result = catch_panic_async(supervise_call(&**tool, permit, &cx, scope, &label)).await;
    let settled = match (confined, result) {
        (Some(input), Ok(Err(error))) if error.confinement_denial.is_some() => {
            let unconfined = UnconfinedRetry { scope, incoming, tool, say: say.as_ref(), label: &label };
            unconfined.retry_unconfined(&input, error, &cx).await
        }
        (_, result) => finish_call(scope, name, result),
    };
    let mut settled = CallResult { input, ..settled };
    if let Some(file) = settled.saved_file_in(scope.services.results_dir()) {
        mask_saved_output(scope, file).await;
    }
    let elapsed_ms = cx.elapsed_ms();
    let phase = match (&settled.view, settled.error) {
        (Some(view), None) => ToolCallPhase::Done { view: view.clone(), elapsed_ms },
        (view, class) => {
            let (message, class) = (settled.failure_text(), class.unwrap_or(ErrorClass::Internal));
            let failure = CallFailure { class, text: &message, output: &settled.output };
            let view = view.clone().unwrap_or_else(|| tool.failure_view(&*typed, &failure));
            ToolCallPhase::Failed { message, view, elapsed_ms }
        }
    };
    publish_phase(scope, &cx, &label, phase);
    if let Some(facts) = post_call_facts {
        facts.run_post_call_hooks(scope, incoming, tool, &mut settled, elapsed_ms).await;
    }
    settled
}

/// A call that failed because it was confined, and that may run again unconfined if the user approves.
struct UnconfinedRetry<'a> {
    scope: &'a Arc<CallScope>,
    incoming: &'a ToolCall,
    tool: &'a ToolRef,
    say: Option<&'a HookDecision>,
    label: &'a str,
}

impl UnconfinedRetry<'_> {
    /// Passes the call through the gate again, as a question. Without approval the original failure is returned, with
    /// the reason.
    async fn retry_unconfined(self, input: &Value, mut failure: ToolError, confined: &ToolContext) -> CallResult {
        let Self { scope, incoming, tool, say, label } = self;
        let held_back = failure.confinement_denial.take();
        let first = finish_call(scope, tool.name(), Ok(Err(failure)));
        let Ok(raw) = serde_json::value::to_raw_value(input) else { return first };
        let Ok(mut prepared) = crate::gate::prepare_edited_call(scope, incoming, raw) else { return first };
        prepared.confinement_denial = held_back;
        let pass = Clearance::Undecided(prepared);
        match scope.gate.authorize_call(scope, &**tool, incoming, pass, say).await {
            Ok(permit) => {
                let cx = ToolContext {
                    recorded: confined.recorded.clone(),
                    ..build_tool_context(scope, incoming, tool.name(), &permit)
                };
                let result = catch_panic_async(supervise_call(&**tool, permit, &cx, scope, label)).await;
                finish_call(scope, tool.name(), result)
            }
            Err(refusal) => {
                let refused = refusal.into_call_result(scope, incoming);
                let text = format!("{}\n\n{}", first.content.to_text(), refused.content.to_text());
                CallResult { content: text.into(), changes: first.changes, output: first.output, ..refused }
            }
        }
    }
}

/// Runs a tool that the model did not call: no hook runs and no event is shown.
pub(crate) async fn run_internal_call(
    scope: &Arc<CallScope>,
    incoming: &ToolCall,
    tool: &ToolRef,
    permit: Permit,
) -> CallResult {
    let cx = build_tool_context(scope, incoming, tool.name(), &permit);
    let result = catch_panic_async(tool.run(permit, &cx)).await;
    let settled = finish_call(scope, tool.name(), result);
    if let Some(file) = settled.saved_file_in(scope.services.results_dir()) {
        mask_saved_output(scope, file).await;
    }
    settled
}

/// Decides on a call that the model did not make and that nobody is asked about: hooks look at it first. Returns the
/// reason if it may not run.
pub(crate) async fn clear_unasked(
    scope: &Arc<CallScope>,
    incoming: &ToolCall,
    tool: &ToolRef,
    pass: Clearance,
) -> Result<Permit, String> {
    let cleared = call_hooks::run_pre_call_hooks(scope, incoming, tool, pass, false).await;
    let call_hooks::HookClearedCall { pass, say, .. } = cleared.map_err(|settled| settled.content.to_text())?;
    scope.gate.permit_unasked(scope, incoming, pass, say.as_ref()).await
}

/// Builds the context that a permitted call runs in.
fn build_tool_context(scope: &Arc<CallScope>, incoming: &ToolCall, name: &str, permit: &Permit) -> ToolContext {
    let cx = scope.services.tool_context(
        name,
        incoming.id.clone(),
        scope.agent.clone(),
        scope.cancel.child_token(),
        permit.summary().to_owned(),
        permit.resolved().to_vec(),
    );
    let cx = cx.with_denied_files(permit.denied_files()).with_sandbox(permit.sandbox());
    let cx = ToolContext { confinement: permit.confinement(), ..cx };
    ToolContext { scope: Some(scope.clone()), amended: permit.is_input_edited(), reply: incoming.reply.clone(), ..cx }
}

/// Builds the result of a call that did not panic.
fn finish_call(
    scope: &CallScope,
    name: &str,
    result: Result<Result<ToolOutcome, ToolError>, CaughtPanic>,
) -> CallResult {
    let mut settled = match result {
        Ok(Ok(outcome)) => CallResult::from_outcome(name, outcome),
        Ok(Err(error)) => CallResult::from_error(error),
        Err(panicked) => panicked_result(scope, name, &panicked),
    };
    settled.redact(scope.services.redactor());
    settled
}

/// Returns the result of a call that panicked.
fn panicked_result(scope: &CallScope, name: &str, panicked: &CaughtPanic) -> CallResult {
    panicked.log(scope, name);
    CallResult::from_error(ToolError::new(
        ErrorClass::Internal,
        format!("{name} failed inside gimlet; nothing is known about what it did. Try another way."),
    ))
}

/// Masks credentials in the file that holds all of a long output; the file stays with the session.
async fn mask_saved_output(scope: &CallScope, file: PathBuf) {
    let redactor = scope.services.redactor().clone();
    let masked = tokio::task::spawn_blocking(move || redactor.mask_file(&file).map_err(|error| (file, error))).await;
    if let Ok(Err((file, error))) = masked {
        let text = format!("{} could not be searched for credentials: {error}", file.display());
        scope.services.publish(&scope.agent, EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
    }
}

fn publish_phase(scope: &CallScope, cx: &ToolContext, label: &str, phase: ToolCallPhase) {
    let view = ToolCallView { call: cx.call.clone(), name: label.to_owned(), summary: cx.summary.clone(), phase };
    scope.services.publish(&scope.agent, EventBody::Tool(Box::new(view)));
}

/// Runs the call with a heartbeat (not inside subagents: their own work is shown), and abandons it when it ignores its
/// cancellation.
async fn supervise_call(
    tool: &dyn AnyTool,
    permit: Permit,
    cx: &ToolContext,
    scope: &CallScope,
    label: &str,
) -> Result<ToolOutcome, ToolError> {
    let grace = match tool.on_interrupt() {
        InterruptBehavior::Cancel => CANCEL_GRACE,
        InterruptBehavior::FinishAtomically => ATOMIC_GRACE,
    };
    let mut work = tool.run(permit, cx);
    let overdue = async {
        cx.cancel.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::pin!(overdue);
    let has_heartbeat = scope.subagent.is_none() && !tool.reports_own_progress();
    loop {
        tokio::select! {
            biased;
            result = &mut work => return result,
            () = &mut overdue => {
                return Err(ToolError::interrupted(format!(
                    "Interrupted after {:.1} s: {} did not stop when asked and was dropped. It may have had effects; check before going on.",
                    cx.elapsed_ms() as f64 / 1000.0,
                    tool.name(),
                )));
            }
            () = tokio::time::sleep(HEARTBEAT), if has_heartbeat => {
                let phase = ToolCallPhase::Progress { text: String::new(), elapsed_ms: cx.elapsed_ms() };
                publish_phase(scope, cx, label, phase);
            }
        }
    }
}
