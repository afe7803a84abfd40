//! Builder for scripts in Rust: `Script::new().say("Looking.").call("Read", input).then().say("done")`.
//!
//! Every method works on the current reply; [`Script::then`] begins the next one.

use serde_json::Value;

use super::scripted_reply::ToolInput;
use super::{
    BlockSpec, ErrorSpec, ExpectedRequest, Fault, ReplyProgram, Script, ScriptStep, ScriptedAgent, ScriptedReply,
    StepRepeat, WireShape,
};
use crate::ReceivedRequest;
use crate::model_capabilities::ModelSpec;

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    fn current(&mut self) -> &mut ScriptStep {
        if self.steps.is_empty() {
            self.steps.push(ScriptStep::default());
        }
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    fn block(mut self, block: BlockSpec) -> Self {
        self.current().reply.blocks.push(block);
        self
    }

    /// Begins the next reply.
    pub fn then(mut self) -> Self {
        self.steps.push(ScriptStep::default());
        self
    }

    pub fn say(self, text: impl Into<String>) -> Self {
        self.block(BlockSpec::Text { text: text.into(), times: 1 })
    }

    pub fn think(self, text: impl Into<String>) -> Self {
        self.block(BlockSpec::Thinking { text: text.into(), omitted: false })
    }

    pub fn call(self, tool: impl Into<String>, input: Value) -> Self {
        self.block(BlockSpec::Tool { name: tool.into(), input: ToolInput::Json(input), id: None, times: 1 })
    }

    /// Adds a tool call whose input deltas are this text, valid JSON or not.
    pub fn call_raw(self, tool: impl Into<String>, input: impl Into<String>) -> Self {
        self.block(BlockSpec::Tool { name: tool.into(), input: ToolInput::Raw(input.into()), id: None, times: 1 })
    }

    /// Adds any block as it is.
    pub fn raw(self, block: Value) -> Self {
        self.block(BlockSpec::Raw { block, whole: false })
    }

    pub fn stop(mut self, reason: impl Into<String>) -> Self {
        self.current().reply.stop_reason = Some(Some(reason.into()));
        self
    }

    pub fn status(mut self, status: u16) -> Self {
        self.current().reply.status = Some(status);
        self
    }

    /// Sets the number of times that the current reply is sent.
    pub fn times(mut self, times: u32) -> Self {
        self.current().repeat = Some(StepRepeat::Times(times));
        self
    }

    pub fn forever(mut self) -> Self {
        self.current().repeat = Some(StepRepeat::Forever);
        self
    }

    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.current().reply.headers.insert(name.into(), value.into());
        self
    }

    /// Sets a custom body: a string as it is, anything else as JSON.
    pub fn body(mut self, body: impl Into<Value>) -> Self {
        self.current().reply.body = Some(body.into());
        self
    }

    /// Makes the current reply an error in the dialect's shape, its type taken from the status.
    pub fn error(mut self, status: u16, message: impl Into<String>) -> Self {
        let reply = &mut self.current().reply;
        reply.status = Some(status);
        reply.error = Some(ErrorSpec { message: message.into(), ..ErrorSpec::default() });
        self
    }

    pub fn fault(mut self, fault: Fault) -> Self {
        self.current().reply.faults.push(fault);
        self
    }

    pub fn wire(mut self, wire: WireShape) -> Self {
        self.current().wire = wire;
        self
    }

    pub fn delay_ms(mut self, delay_ms: u64) -> Self {
        self.current().reply.delay_ms = delay_ms;
        self
    }

    pub fn expect(mut self, expect: ExpectedRequest) -> Self {
        self.current().expect = expect;
        self
    }

    /// Makes the current step a standing one: it answers every request that matches, at any time.
    pub fn when(mut self, when: ExpectedRequest) -> Self {
        self.current().when = Some(when);
        self
    }

    /// Calls `tool` with one input after the other until a result contains `until`, then answers with the agent's
    /// text.
    pub fn agent(mut self, agent: ScriptedAgent) -> Self {
        self.current().reply.agent = Some(agent);
        self
    }

    /// Replaces the whole current reply.
    pub fn reply(mut self, reply: ScriptedReply) -> Self {
        self.current().reply = reply;
        self
    }

    /// Computes the reply from each request.
    pub fn reply_with(mut self, program: impl FnMut(&ReceivedRequest) -> ScriptedReply + Send + 'static) -> Self {
        self.current().program = Some(ReplyProgram(Box::new(program)));
        self
    }

    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Turns the provider's rules off.
    pub fn lenient(mut self) -> Self {
        self.strict = false;
        self
    }

    /// Accepts this credential (and only those added like this).
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Adds this model (only the models added like this exist).
    pub fn model(mut self, model: ModelSpec) -> Self {
        self.models.push(model);
        self
    }

    /// Sets a value for `{{name}}`.
    pub fn var(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }
}
