//! The script: the model's answers, step by step, as a JSON file or built in Rust.
//!
//! This is the author's language and nothing else: no sockets, no clocks, no rules of a provider. Unknown fields are
//! errors, because a misspelt one would make a test pass for the wrong reason.

mod expected_request;
mod fault;
mod script_builder;
mod scripted_reply;
mod wire_shape;

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ReceivedRequest;
use crate::model_capabilities::ModelSpec;

pub use expected_request::ExpectedRequest;
pub use fault::{CloseKind, Fault, FaultPoint};
pub use scripted_reply::{BlockSpec, ErrorSpec, ScriptedAgent, ScriptedReply, ToolInput};
pub use wire_shape::{
    BodyFraming, ChunkMode, ContentEncoding, EventNames, FlushMode, InputPieces, LineEnding, PingMode, UsageStyle,
    WireShape,
};

/// A whole script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Seed of ids and random choices: one script and one seed always produce one sequence of bytes.
    pub seed: u64,
    /// True if requests are checked by the provider's rules (the default).
    pub strict: bool,
    /// The accepted credentials; with none listed, any is accepted, but there must be one.
    pub keys: Vec<String>,
    /// The models that exist; with none listed, every name does.
    pub models: Vec<ModelSpec>,
    /// Largest request body in bytes; a longer one is refused while it is still being sent.
    pub max_body_bytes: u64,
    /// Clock that ages the cache's entries.
    pub clock: CacheClock,
    /// Values for `{{name}}` in texts, inputs and headers.
    pub vars: BTreeMap<String, String>,
    pub steps: Vec<ScriptStep>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            seed: 7,
            strict: true,
            keys: Vec::new(),
            models: Vec::new(),
            max_body_bytes: 32_000_000,
            clock: CacheClock::default(),
            vars: BTreeMap::new(),
            steps: Vec::new(),
        }
    }
}

/// Clock of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheClock {
    /// Real time, plus added time.
    #[default]
    Real,
    /// Only added time, so that slow machines change nothing.
    Virtual,
}

/// One step: the request that it answers, the answer, and its shape on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptStep {
    /// Conditions on the next request; a request that does not meet them is a failure.
    pub expect: ExpectedRequest,
    /// Makes this a standing step: it answers any request that matches, at any time, before the ordered steps.
    pub when: Option<ExpectedRequest>,
    pub reply: ScriptedReply,
    pub wire: WireShape,
    /// Moves the cache's clock forward once the step has answered.
    pub advance_ms: u64,
    /// Number of answers of the step: once by default, a standing step for ever.
    pub repeat: Option<StepRepeat>,
    /// Reply computed from the request; replaces `reply`.
    #[serde(skip)]
    pub program: Option<ReplyProgram>,
}

/// Number of answers of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub enum StepRepeat {
    Times(u32),
    Forever,
}

impl TryFrom<serde_json::Value> for StepRepeat {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        if value == "forever" {
            return Ok(StepRepeat::Forever);
        }
        let times = value.as_u64().and_then(|times| u32::try_from(times).ok()).filter(|times| *times > 0);
        times
            .map(StepRepeat::Times)
            .ok_or_else(|| format!("`repeat` is a number from 1 up or \"forever\", not {value}"))
    }
}

/// A reply written in Rust.
pub struct ReplyProgram(pub(crate) Box<dyn FnMut(&ReceivedRequest) -> ScriptedReply + Send>);

impl fmt::Debug for ReplyProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program")
    }
}

/// Reason why a text is not a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("script: {place}line {line}, column {column}: {what}")]
    Syntax { place: String, line: usize, column: usize, what: String },
    #[error("script: steps[{step}]: {what}")]
    Step { step: usize, what: &'static str },
}

impl Script {
    /// Reads a script file's text.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let script: Script = serde_json::from_str(text).map_err(|error| syntax_error(text, &error))?;
        script.check()?;
        Ok(script)
    }

    /// Checks for contradictions between fields.
    pub(crate) fn check(&self) -> Result<(), ScriptError> {
        for (step, content) in self.steps.iter().enumerate() {
            let fail = |what| Err(ScriptError::Step { step, what });
            if content.repeat.is_some() && content.reply.times.is_some() {
                return fail("`repeat` and `reply.times` say the same thing; give one of them");
            }
            if content.when.is_some() && content.expect != ExpectedRequest::default() {
                return fail("a step has `expect` (ordered) or `when` (standing), not both");
            }
            if content.reply.agent.is_some() && (content.when.is_some() || !content.reply.blocks.is_empty()) {
                return fail("an `agent` reply stands alone in an ordered step");
            }
            let refuses = content.reply.faults.iter().any(|fault| matches!(fault, Fault::RefuseUpload { .. }));
            if refuses && content.when.is_some() {
                return fail(
                    "`refuse_upload` belongs to an ordered step: a standing one is known only by the whole body",
                );
            }
            if !content.reply.blocks.is_empty() && !content.reply.is_message() {
                return fail("a reply has `blocks`, or a `status`, `body` or `error`, not both");
            }
            if content.reply.times == Some(0) {
                return fail("`times` counts from 1");
            }
        }
        Ok(())
    }
}

/// Returns an error with the position in the script: the step as well as the line.
fn syntax_error(text: &str, error: &serde_json::Error) -> ScriptError {
    let (line, column) = (error.line(), error.column());
    let full = error.to_string();
    let what = full.rsplit_once(" at line ").map_or(full.as_str(), |(what, _)| what).to_owned();
    let place = step_at(text, line, column).map(|step| format!("steps[{step}], ")).unwrap_or_default();
    ScriptError::Syntax { place, line, column, what }
}

fn step_at(text: &str, line: usize, column: usize) -> Option<usize> {
    #[derive(Deserialize)]
    struct RawSteps<'a> {
        #[serde(borrow)]
        steps: Vec<&'a RawValue>,
    }
    let steps = serde_json::from_str::<RawSteps<'_>>(text).ok()?.steps;
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let at = before + column;
    let start_of = |raw: &RawValue| raw.get().as_ptr() as usize - text.as_ptr() as usize;
    steps.iter().position(|raw| (start_of(raw)..=start_of(raw) + raw.get().len()).contains(&at))
}

#[cfg(test)]
mod tests;
