//! One call, from the block the model wrote to its one result.

mod hooked;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_policy::HookSay;
use gimlet_proto::{AgentPath, Body, Level, MAX_JSON_DEPTH, Notice, ToolPhase, ToolUseId, ToolView, is_too_deep};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agents::{AgentHost, AgentIdentity};
use crate::dials::Dials;
use crate::gate::{Gate, Pass, Permit};
use crate::hooks::HookEvent;
use crate::panics::{self, Panicked, caught_async};
use crate::recorded::Recorded;
use crate::results::Settled;
use crate::services::Services;
use crate::tool::{
    AnyTool, ErrorClass, OnInterrupt, Outcome, PathContext, Prepared, Scene, ToolContext, ToolError, ToolRef, ToolSet,
    nearest,
};

/// How much of an unreadable input is told back.
const MAX_BAD_INPUT: usize = 8 * 1024;
/// How long a cancelled call may take to notice.
const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// How long a call that must not be torn may take to finish.
const ATOMIC_GRACE: Duration = Duration::from_secs(5);
/// How often a long call shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// A call as it arrived.
#[derive(Clone)]
pub(crate) struct Incoming {
    pub(crate) id: ToolUseId,
    pub(crate) name: String,
    /// As history has it.
    pub(crate) input: Arc<RawValue>,
    /// What the model wrote, when that was not a JSON object.
    pub(crate) bad_input: Option<String>,
}

/// What every call of a turn needs.
pub(crate) struct CallScope {
    pub(crate) services: Arc<Services>,
    pub(crate) tools: ToolSet,
    pub(crate) gate: Arc<Gate>,
    pub(crate) cancel: CancellationToken,
    pub(crate) agent: AgentPath,
    /// The subagent whose calls these are; `None` in the main conversation.
    pub(crate) subagent: Option<Arc<AgentIdentity>>,
    pub(crate) dials: Dials,
    /// What sends further agents.
    pub(crate) host: Arc<AgentHost>,
}

impl CallScope {
    /// The model that answers this conversation at the moment.
    pub(crate) fn model(&self) -> String {
        self.dials.model(self.gate.mode_of(self))
    }

    /// For what happens in the main conversation and belongs to no turn.
    pub(crate) fn of_no_turn(
        services: &Arc<Services>,
        gate: &Arc<Gate>,
        dials: &Dials,
        host: &Arc<AgentHost>,
    ) -> CallScope {
        CallScope {
            services: services.clone(),
            tools: ToolSet::new(Vec::<ToolRef>::new()),
            gate: gate.clone(),
            cancel: CancellationToken::new(),
            agent: AgentPath::default(),
            subagent: None,
            dials: dials.clone(),
            host: host.clone(),
        }
    }

    /// What calls come into at this moment.
    pub(crate) fn scene(&self) -> Scene {
        Scene { mode: self.gate.mode(), is_subagent: self.agent != AgentPath::default() }
    }
}

/// How a call begins.
pub(crate) struct Start {
    /// The reply has no other call.
    pub(crate) alone: bool,
    /// It had no effect so often that the user is asked first.
    pub(crate) asks_first: bool,
    pub(crate) recorded: Recorded,
}

/// Who wrote the input of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    Model,
    /// A person, a program or a hook that answered a question about it.
    Answer,
}

/// Stages 1 to 6: everything before hooks and permission. Does no I/O.
pub(crate) fn prepare(
    scope: &CallScope,
    incoming: &Incoming,
    author: Author,
    paths: &PathContext,
) -> Result<(ToolRef, Prepared), ToolError> {
    let step = || prepare_unguarded(incoming, author, &scope.tools, paths);
    panics::step_of_call(scope, &incoming.name, "reading its input", step)?
}

fn prepare_unguarded(
    incoming: &Incoming,
    author: Author,
    tools: &ToolSet,
    paths: &PathContext,
) -> Result<(ToolRef, Prepared), ToolError> {
    if let Some(raw) = &incoming.bad_input {
        return Err(unreadable(raw));
    }
    let Some(tool) = tools.find(&incoming.name) else { return Err(unknown_tool(&incoming.name, tools)) };
    let mut input: Value = serde_json::from_str(incoming.input.get()).map_err(|_| unreadable(incoming.input.get()))?;
    if let (Author::Model, Value::Object(fields)) = (author, &mut input) {
        fields.retain(|name, _| !tool.reserved_parameters().contains(&name.as_str()));
    }
    tool.prepare(input, paths).map(|prepared| (tool.clone(), prepared))
}

fn unreadable(raw: &str) -> ToolError {
    if is_too_deep(raw) {
        let text = format!("InputValidationError: the input is nested deeper than {MAX_JSON_DEPTH} levels");
        return ToolError::new(ErrorClass::SchemaInvalid, text);
    }
    let shown = cut(raw, MAX_BAD_INPUT);
    if serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok() {
        return ToolError::new(
            ErrorClass::SchemaInvalid,
            format!("InputValidationError: the input must be a JSON object, but this was given: {shown}"),
        );
    }
    ToolError::new(ErrorClass::MalformedJson, json!({ "INVALID_JSON": shown }).to_string())
}

fn unknown_tool(name: &str, tools: &ToolSet) -> ToolError {
    if let Some(why) = tools.why_absent(name) {
        return ToolError::new(ErrorClass::UnknownTool, format!("The tool {name} is not there now: {why}."));
    }
    let names: Vec<&str> = tools.offered().map(|tool| tool.name()).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(close) => format!("Did you mean {close}?"),
        None => format!("Available tools: {}.", names.join(", ")),
    };
    let what =
        if name.is_empty() { "The call names no tool".to_owned() } else { format!("There is no tool named {name}") };
    ToolError::new(ErrorClass::UnknownTool, format!("{what}. {hint}"))
}

/// The beginning of a text, whole characters of it.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

pub(crate) use hooked::{is_awaited, subject};

/// Stages 7 to 13: hooks, permission, the call itself, and its result. Never fails, never panics.
pub(crate) async fn run(scope: Arc<CallScope>, incoming: Incoming, tool: ToolRef, pass: Pass, start: Start) -> Settled {
    let name = incoming.name.clone();
    match caught_async(run_unguarded(scope.clone(), incoming, tool, pass, start)).await {
        Ok(settled) => settled,
        Err(panicked) => failed_inside(&scope, &name, &panicked),
    }
}

async fn run_unguarded(scope: Arc<CallScope>, incoming: Incoming, tool: ToolRef, pass: Pass, start: Start) -> Settled {
    if scope.cancel.is_cancelled() {
        return crate::results::cancelled("the turn was stopped before this call began");
    }
    if let Some(why) = tool.out_of_place(scope.scene()) {
        return Settled::failed(ToolError::input(why));
    }
    let Start { alone, asks_first, recorded } = start;
    let mut repeat_allowed = false;
    if asks_first {
        repeat_allowed = match scope.gate.ask_to_repeat(&scope, &incoming, &pass).await {
            Ok(allowed) => allowed,
            Err(refusal) => return refusal.into_settled(&scope, &incoming),
        };
    }
    let told = scope.services.hooks().listens(HookEvent::PostToolBatch);
    let input = told.then(|| pass.input().clone());
    let hooked::Cleared { pass, say, contexts } = match hooked::before(&scope, &incoming, &tool, pass, alone).await {
        Ok(cleared) => cleared,
        Err(settled) => return Settled { input, ..*settled },
    };
    let input = told.then(|| pass.input().clone());
    let mut settled = run_cleared(&scope, &incoming, &tool, pass, say, recorded).await;
    settled.input = settled.input.or(input);
    settled.repeat_allowed = repeat_allowed;
    // What hooks said before the call belongs to its result whatever came of it, and before what they said after it.
    settled.new_messages.splice(0..0, contexts);
    settled
}

/// A call that hooks had no objection to.
async fn run_cleared(
    scope: &Arc<CallScope>,
    incoming: &Incoming,
    tool: &ToolRef,
    pass: Pass,
    say: Option<HookSay>,
    recorded: Recorded,
) -> Settled {
    let name = tool.name();
    let permit = match scope.gate.pass(scope, &**tool, incoming, pass, say.as_ref()).await {
        Ok(permit) => permit,
        Err(refusal) => return refusal.into_settled(scope, incoming),
    };
    if scope.cancel.is_cancelled() {
        return crate::results::cancelled("the turn was stopped before this call began");
    }
    let cx = ToolContext { recorded, ..context(scope, incoming, name, &permit) };
    scope.note_call(&incoming.name, permit.summary());
    let label = permit.user_facing_name().to_string();
    let told = hooked::Told::of(scope, tool, &permit);
    let input = scope.services.hooks().listens(HookEvent::PostToolBatch).then(|| permit.input().clone());
    publish(scope, &cx, &label, ToolPhase::Running);
    let confined = permit.confinement().map(|_| permit.input().clone());
    let result = caught_async(supervise(&**tool, permit, &cx, scope, &label)).await;
    let settled = match (confined, result) {
        (Some(input), Ok(Err(error))) if error.held_back.is_some() => {
            let unconfined = Unconfined { scope, incoming, tool, say: say.as_ref(), label: &label };
            unconfined.run_again(&input, error, &cx).await
        }
        (_, result) => settle(scope, name, result),
    };
    let mut settled = Settled { input, ..settled };
    if let Some(file) = settled.saved_in(&scope.services.results_dir) {
        mask_saved(scope, file).await;
    }
    let elapsed_ms = cx.elapsed_ms();
    let phase = match (&settled.view, settled.error) {
        (Some(view), None) => ToolPhase::Done { view: view.clone(), elapsed_ms },
        _ => ToolPhase::Failed { message: settled.failure(), elapsed_ms },
    };
    publish(scope, &cx, &label, phase);
    if let Some(told) = told {
        told.after(scope, incoming, tool, &mut settled, elapsed_ms).await;
    }
    settled
}

/// A call that failed because it was confined, and may be run again without that if somebody says so.
struct Unconfined<'a> {
    scope: &'a Arc<CallScope>,
    incoming: &'a Incoming,
    tool: &'a ToolRef,
    say: Option<&'a HookSay>,
    label: &'a str,
}

impl Unconfined<'_> {
    /// Goes through the gate again, as a question. Without a yes the failure stays, with the reason why it does.
    async fn run_again(self, input: &Value, mut failure: ToolError, confined: &ToolContext) -> Settled {
        let Self { scope, incoming, tool, say, label } = self;
        let held_back = failure.held_back.take();
        let first = settle(scope, tool.name(), Ok(Err(failure)));
        let Ok(raw) = serde_json::value::to_raw_value(input) else { return first };
        let Ok(mut prepared) = crate::gate::edited(scope, incoming, raw) else { return first };
        prepared.held_back = held_back;
        let pass = Pass::Undecided(prepared);
        match scope.gate.pass(scope, &**tool, incoming, pass, say).await {
            Ok(permit) => {
                let cx = ToolContext {
                    recorded: confined.recorded.clone(),
                    ..context(scope, incoming, tool.name(), &permit)
                };
                let result = caught_async(supervise(&**tool, permit, &cx, scope, label)).await;
                settle(scope, tool.name(), result)
            }
            Err(refusal) => {
                let refused = refusal.into_settled(scope, incoming);
                let text = format!("{}\n\n{}", first.content.to_text(), refused.content.to_text());
                Settled { content: text.into(), changes: first.changes, output: first.output, ..refused }
            }
        }
    }
}

/// Runs a tool that the model did not call: no hook and nobody at a screen hears of it.
pub(crate) async fn run_unseen(scope: &Arc<CallScope>, incoming: &Incoming, tool: &ToolRef, permit: Permit) -> Settled {
    let cx = context(scope, incoming, tool.name(), &permit);
    let result = caught_async(tool.run(permit, &cx)).await;
    settle(scope, tool.name(), result)
}

/// What a permitted call runs in.
fn context(scope: &Arc<CallScope>, incoming: &Incoming, name: &str, permit: &Permit) -> ToolContext {
    let cx = scope.services.context(
        name,
        incoming.id.clone(),
        scope.agent.clone(),
        scope.cancel.child_token(),
        permit.summary().to_owned(),
        permit.resolved().to_vec(),
    );
    let cx = cx.with_closed_files(permit.closed_files()).with_sandbox(permit.sandbox());
    let cx = ToolContext { confinement: permit.confinement(), ..cx };
    ToolContext { scope: Some(scope.clone()), amended: permit.is_amended(), ..cx }
}

/// What a call came to, if it did not fail inside.
fn settle(scope: &CallScope, name: &str, result: Result<Result<Outcome, ToolError>, Panicked>) -> Settled {
    let mut settled = match result {
        Ok(Ok(outcome)) => Settled::done(name, outcome),
        Ok(Err(error)) => Settled::failed(error),
        Err(panicked) => failed_inside(scope, name, &panicked),
    };
    settled.redact(&scope.services.redactor);
    settled
}

/// The result of a call that panicked.
fn failed_inside(scope: &CallScope, name: &str, panicked: &Panicked) -> Settled {
    panicked.log(scope, name);
    Settled::failed(ToolError::new(
        ErrorClass::Internal,
        format!("{name} failed inside gimlet; nothing is known about what it did. Try another way."),
    ))
}

/// Masks the file with all of a long output, too: it stays with the session.
async fn mask_saved(scope: &CallScope, file: PathBuf) {
    let redactor = scope.services.redactor.clone();
    let masked = tokio::task::spawn_blocking(move || redactor.mask_file(&file).map_err(|error| (file, error))).await;
    if let Ok(Err((file, error))) = masked {
        let text = format!("{} could not be searched for credentials: {error}", file.display());
        scope.services.publish(&scope.agent, Body::Notice(Notice { level: Level::Warning, text }));
    }
}

fn publish(scope: &CallScope, cx: &ToolContext, label: &str, phase: ToolPhase) {
    let view = ToolView { call: cx.call.clone(), name: label.to_owned(), summary: cx.summary.clone(), phase };
    scope.services.publish(&scope.agent, Body::Tool(Box::new(view)));
}

/// Runs the call with a heartbeat (not inside subagents: their own work is shown), and gives up on it when it ignores its cancellation.
async fn supervise(
    tool: &dyn AnyTool,
    permit: Permit,
    cx: &ToolContext,
    scope: &CallScope,
    label: &str,
) -> Result<Outcome, ToolError> {
    let grace = match tool.on_interrupt() {
        OnInterrupt::Cancel => CANCEL_GRACE,
        OnInterrupt::FinishAtomically => ATOMIC_GRACE,
    };
    let mut work = tool.run(permit, cx);
    let overdue = async {
        cx.cancel.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::pin!(overdue);
    let has_heartbeat = scope.subagent.is_none() && !tool.shows_its_work();
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
                let phase = ToolPhase::Progress { text: String::new(), elapsed_ms: cx.elapsed_ms() };
                publish(scope, cx, label, phase);
            }
        }
    }
}
