//! Assignment of steps to requests. Order and counting are here; the rendering of an answer is not.

use serde_json::json;

use crate::ReceivedRequest;
use crate::anthropic::MESSAGES;
use crate::script::{ExpectedRequest, Fault, ScriptStep, ScriptedAgent, ScriptedReply, StepRepeat, WireShape};

/// A script being played.
pub(crate) struct ScriptPlayer {
    steps: Vec<StepProgress>,
    /// Index of the next ordered step.
    next: usize,
}

struct StepProgress {
    step: ScriptStep,
    /// Number of answers so far.
    used: u32,
}

/// The answer of a step to one request.
pub(crate) struct ChosenReply {
    pub(crate) step: usize,
    /// Number of this answer among the step's answers, counting from 1.
    pub(crate) use_number: u32,
    pub(crate) reply: ScriptedReply,
    pub(crate) wire: WireShape,
    pub(crate) advance_ms: u64,
}

impl ScriptPlayer {
    pub(crate) fn new(steps: Vec<ScriptStep>) -> Self {
        let mut player =
            Self { steps: steps.into_iter().map(|step| StepProgress { step, used: 0 }).collect(), next: 0 };
        player.skip_standing();
        player
    }

    /// Returns the step for a request, or an error message why there is none.
    pub(crate) fn choose(&mut self, request: &ReceivedRequest) -> Result<ChosenReply, String> {
        if let Some(index) = self.find_standing_step(request) {
            return self.play(index, request);
        }
        let Some(current) = self.steps.get(self.next) else {
            return Err(format!("no step is left for {} {}", request.method(), request.path()));
        };
        let (step, expect) = (self.next, &current.step.expect);
        if path_of(expect) != request.path() {
            return Err(format!("steps[{step}] answers {}, not {}", path_of(expect), request.path()));
        }
        if let Some(why) = expect.mismatch(request) {
            return Err(format!("steps[{step}]: {why}"));
        }
        self.play(step, request)
    }

    /// Returns true if a step names this request's path, so that the built-in answer must not be used.
    pub(crate) fn has_step_for_path(&self, request: &ReceivedRequest) -> bool {
        let names = |expect: &ExpectedRequest| expect.path.as_deref() == Some(request.path());
        self.find_standing_step(request).is_some()
            || self.steps.get(self.next).is_some_and(|playing| names(&playing.step.expect))
    }

    /// Returns the fault of the next step that acts while a request's body is still being received.
    pub(crate) fn upload_fault(&self, path: &str) -> Option<(usize, Fault)> {
        let current = self.steps.get(self.next).filter(|playing| path_of(&playing.step.expect) == path)?;
        let fault = current.step.reply.faults.iter().find(|fault| matches!(fault, Fault::RefuseUpload { .. }));
        fault.map(|fault| (self.next, fault.clone()))
    }

    /// Counts one use of a step that was answered without reading the whole request.
    pub(crate) fn use_up(&mut self, index: usize) {
        let playing = &mut self.steps[index];
        playing.used += 1;
        let over = playing.step.is_over(playing.used);
        if over {
            self.advance(index);
        }
    }

    /// Returns the number of ordered steps that have not been played to their end. A step that repeats for ever has no
    /// end to wait for.
    pub(crate) fn unplayed(&self) -> usize {
        let waiting = self.steps.iter().skip(self.next).filter(|playing| playing.step.when.is_none());
        waiting.filter(|playing| playing.step.repeat != Some(StepRepeat::Forever) || playing.used == 0).count()
    }

    fn find_standing_step(&self, request: &ReceivedRequest) -> Option<usize> {
        self.steps.iter().position(|playing| {
            let fits = |when: &ExpectedRequest| path_of(when) == request.path() && when.mismatch(request).is_none();
            playing.step.when.as_ref().is_some_and(fits) && !playing.step.is_over(playing.used)
        })
    }

    fn play(&mut self, index: usize, request: &ReceivedRequest) -> Result<ChosenReply, String> {
        let playing = &mut self.steps[index];
        let (reply, over) = match (&mut playing.step.program, &playing.step.reply.agent) {
            (Some(program), _) => ((program.0)(request), playing.step.is_over(playing.used + 1)),
            (None, Some(agent)) => {
                agent_turn(agent, playing.used, request).map_err(|why| format!("steps[{index}]: {why}"))?
            }
            (None, None) => (playing.step.reply.clone(), playing.step.is_over(playing.used + 1)),
        };
        playing.used += 1;
        let ScriptStep { wire, advance_ms, .. } = &playing.step;
        let chosen =
            ChosenReply { step: index, use_number: playing.used, reply, wire: wire.clone(), advance_ms: *advance_ms };
        if over {
            self.advance(index);
        }
        Ok(chosen)
    }

    fn advance(&mut self, from: usize) {
        if from == self.next {
            self.next += 1;
            self.skip_standing();
        }
    }

    fn skip_standing(&mut self) {
        while self.steps.get(self.next).is_some_and(|playing| playing.step.when.is_some()) {
            self.next += 1;
        }
    }
}

impl ScriptStep {
    fn is_over(&self, used: u32) -> bool {
        match (self.repeat, self.reply.times) {
            (Some(StepRepeat::Forever), _) => false,
            (Some(StepRepeat::Times(times)), _) | (None, Some(times)) => used >= times,
            (None, None) => self.when.is_none() && used >= 1,
        }
    }
}

fn path_of(expect: &ExpectedRequest) -> &str {
    expect.path.as_deref().unwrap_or(MESSAGES)
}

/// Returns the agent's next reply, and true if it is the last one.
fn agent_turn(agent: &ScriptedAgent, calls: u32, request: &ReceivedRequest) -> Result<(ScriptedReply, bool), String> {
    let calls = calls as usize;
    if calls > 0 && request.tool_results().iter().any(|result| result.contains(&agent.until)) {
        return Ok((ScriptedReply::say(agent.then.as_deref().unwrap_or("Done.")), true));
    }
    if calls >= agent.max_calls {
        return Err(format!("{} was called {calls} times and no result had {:?}", agent.tool, agent.until));
    }
    let input = agent.inputs.get(calls).or(agent.inputs.last()).cloned().unwrap_or_else(|| json!({}));
    Ok((ScriptedReply::call(agent.tool.as_str(), input), false))
}
