//! Sending a subagent: whether it may go, as what, and who waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gimlet_proto::{Block, Say, Usage, effort_of};

use super::outset::{Outset, Prepared};
use super::roster::AgentKind;
use super::toolbox::{self, Circumstances};
use crate::call::CallScope;
use crate::dials::{Choice, Dials};
use crate::tool::{ToolContext, ToolError};

/// What somebody wants done.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Which kind of agent; `None` for the general one.
    pub kind: Option<String>,
    /// A few words for people.
    pub description: String,
    pub prompt: String,
    pub model: Option<String>,
    pub effort: Option<String>,
    /// Whether anybody waits; `None` leaves it to the definition.
    pub background: Option<bool>,
    /// What it can be called by when something is sent to it.
    pub name: Option<String>,
}

/// A subagent that was sent.
#[derive(Debug)]
pub enum Launched {
    /// It is back.
    Finished(Box<AgentReport>),
    /// It goes on by itself; its report comes as a notice.
    GoesOn {
        id: String,
        model: String,
        output_file: PathBuf,
        /// A person did not want to wait for it any more.
        moved: bool,
    },
}

/// What a subagent brought back.
#[derive(Debug)]
pub struct AgentReport {
    pub id: String,
    pub kind: String,
    /// The model's id.
    pub model: String,
    /// Its last words, cut to size and made harmless.
    pub text: String,
    /// Why they are not the end of its work, if they are not.
    pub incomplete: Option<String>,
    /// It can be spoken to again.
    pub resumable: bool,
    pub tool_uses: u64,
    pub duration_ms: u64,
    pub total_tokens: u64,
    pub usage: Usage,
}

impl ToolContext {
    /// Sends a subagent from this call and, unless it goes to the background, waits for its report.
    pub async fn launch(&self, launch: Launch) -> Result<Launched, ToolError> {
        let Some(scope) = &self.scope else {
            return Err(ToolError::failed("No agent can be launched outside a session."));
        };
        decide(scope, self, launch)?.prepare(scope, self).go(self).await
    }
}

impl Prepared {
    /// Lets the agent go and, unless that is the background, waits for it.
    pub(super) async fn go(self, cx: &ToolContext) -> Result<Launched, ToolError> {
        let Prepared { identity, model, errand, running } = self;
        let (task, cancel) = (running.task().clone(), errand.cancel().clone());
        let on_its_way = |moved| {
            let (id, output_file) = (task.id.clone(), task.output_file.clone());
            Ok(Launched::GoesOn { id, model, output_file, moved })
        };
        if identity.is_alone() {
            cx.services.spawn(async move { errand.run(running).await.tell() });
            return on_its_way(false);
        }
        let moving = cx.movable();
        let mut work = Box::pin(errand.run(running));
        loop {
            tokio::select! {
                biased;
                over = &mut work => return over.into_result().map(|report| Launched::Finished(Box::new(report))),
                () = cx.cancel.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                () = moving.wanted() => {
                    identity.alone.store(true, Ordering::Relaxed);
                    task.move_to_background();
                    cx.services.task_changed(&task, None);
                    cx.services.spawn(async move { work.await.tell() });
                    return on_its_way(true);
                }
            }
        }
    }
}

/// What is settled about an agent before anything of it is made. Holds its place among those that run.
fn decide<'a>(scope: &'a Arc<CallScope>, cx: &ToolContext, launch: Launch) -> Result<Outset<'a>, ToolError> {
    let host = &scope.host;
    if let Some(name) = launch.name.as_deref() {
        check_name(name)?;
    }
    let roster = host.roster_of(scope.subagent.as_deref());
    let kind = roster.find(launch.kind.as_deref(), &scope.gate.rules()).map_err(ToolError::input)?;
    refuse_isolation(kind)?;
    let depth = depth_below(scope)?;
    let background = !host.limits.foreground_only
        && scope.subagent.as_ref().is_none_or(|who| !who.is_alone())
        && launch.background.or(kind.spec.background).unwrap_or(false);
    let slot = host.slot()?;
    let circumstances = Circumstances { background, may_launch: depth < host.limits.depth };
    let tools = toolbox::choose(&kind.name, &kind.spec, &scope.tools, circumstances)?;
    let dials = dials(scope, kind, &launch)?;
    let mut path = cx.agent.clone();
    path.0.push(cx.call.clone());
    let Launch { description, prompt, name, .. } = launch;
    let sender = scope.subagent.clone();
    Ok(Outset {
        id: new_id(),
        kind,
        description,
        said: Say { blocks: vec![Block::text(&prompt)], plain: true, ..Say::default() },
        prompt,
        name,
        path,
        past: None,
        depth,
        background,
        sender,
        tools,
        dials,
        slot,
    })
}

/// A name must not be taken for anybody else.
fn check_name(name: &str) -> Result<(), ToolError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name == super::letters::MAIN {
        return Err(ToolError::input("`name` cannot be `main`: that is the main conversation"));
    }
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        return Err(ToolError::input("`name` has 1 to 64 letters, digits, dots, dashes and underscores"));
    }
    Ok(())
}

/// A definition that wants its agents kept apart must not have them work on the files of everybody else instead.
pub(super) fn refuse_isolation(kind: &AgentKind) -> Result<(), ToolError> {
    let Some(isolation) = &kind.spec.isolation else { return Ok(()) };
    Err(ToolError::failed(format!(
        "The agent type {} wants `isolation: {isolation}`, which is not available, so it cannot be launched. Use another type.",
        kind.name
    )))
}

/// How deep an agent that is sent from here would be.
fn depth_below(scope: &CallScope) -> Result<u32, ToolError> {
    let depth = scope.subagent.as_ref().map_or(0, |who| who.depth) + 1;
    let deepest = scope.host.limits.depth;
    if depth <= deepest {
        return Ok(depth);
    }
    Err(ToolError::failed(format!(
        "Agents may be nested {deepest} deep, and this would be one more. Do not try again: do the work yourself."
    )))
}

/// A token that is not met twice in a session.
fn new_id() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("a{}", &random[..16])
}

/// Which model it is to be and how hard it thinks: the environment, the call, the definition, and else as whoever sends it.
fn dials(scope: &CallScope, kind: &AgentKind, launch: &Launch) -> Result<Dials, ToolError> {
    let inherited = scope.dials.now();
    let named = |model: &&str| !model.trim().is_empty() && *model != "inherit";
    let env = scope.services.env.get("CLAUDE_CODE_SUBAGENT_MODEL").filter(named);
    let wanted = env.or(launch.model.as_deref()).or(kind.spec.model.as_deref()).filter(named);
    let chosen = effort_of(&scope.services.env).or(launch.effort.as_deref()).or(kind.spec.effort.as_deref());
    let effort = chosen.map(str::to_owned).or_else(|| inherited.effort.clone());
    let dials = Dials::new(Choice { effort, ..inherited });
    if let Some(model) = wanted {
        dials.set_model(Some(model.to_owned())).map_err(ToolError::input)?;
    }
    Ok(dials)
}
