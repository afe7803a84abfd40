//! SendMessage: sends a message to another agent of the session. A working agent reads it between two rounds of tool
//! calls; one that has ended resumes with it. The text is never treated as the user's, and the result does not repeat
//! it.

use std::borrow::Cow;

use gimlet_core::tool::{
    AgentAvailability, InputProblem, InterruptBehavior, PathContext, PromptContext, ResultCap, Tool, ToolContext,
    ToolError, ToolResult,
};
use gimlet_core::{AgentMessage, MessageDelivery};
use gimlet_proto::{AccessNeed, ResultContent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum length of the summary shown to the user.
const LONGEST_SUMMARY: usize = 200;

pub(crate) struct SendMessage;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessageInput {
    /// Id or name of the agent, or `main`.
    to: String,
    /// What it is to know or to do.
    message: String,
    /// The same in 5 to 10 words, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    /// Ignored: you are always told when an agent has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    notify_when_idle: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SendMessageOutput {
    success: bool,
    message: String,
    routing: MessageRouting,
    /// The agent had ended and goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    resumed: bool,
    /// The agent's report, if the call waited for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct MessageRouting {
    to: String,
    summary: String,
}

impl SendMessageInput {
    fn summary(&self) -> String {
        let given = self.summary.as_deref().filter(|summary| !summary.trim().is_empty());
        let line = given.or_else(|| self.message.trim().lines().next()).unwrap_or_default();
        line.trim().chars().take(LONGEST_SUMMARY).collect()
    }
}

impl Tool for SendMessage {
    const NAME: &'static str = "SendMessage";
    type Input = SendMessageInput;
    type Output = SendMessageOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "Says something to an agent that you or others launched, by its id or name. An agent that works reads it between \
         its tool calls. One that has finished goes on in the background with all that it knows, and you are told when it \
         is done: use this instead of a new agent for follow-up questions and corrections. Agents do not hear your other words."
            .into()
    }

    fn hidden_parameters(&self, _cx: &PromptContext) -> &'static [&'static str] {
        &["notify_when_idle"]
    }

    fn needs(&self, _input: &SendMessageInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }

    fn validate_input(&self, input: &SendMessageInput, _cx: &PathContext) -> Result<(), InputProblem> {
        if input.to.trim().is_empty() {
            return Err(InputProblem::new(1, "`to` is empty: give the id or the name of an agent"));
        }
        if input.to.trim() == "*" {
            return Err(InputProblem::new(2, "there is no way to write to everybody: send each agent its own message"));
        }
        if input.message.trim().is_empty() {
            return Err(InputProblem::new(3, "`message` is empty: say what the agent is to know or to do"));
        }
        Ok(())
    }

    fn description(&self, input: &SendMessageInput, _cx: &PathContext) -> String {
        format!("{}: {}", input.to.trim(), input.summary())
    }

    fn auto_classifier_input(&self, input: &SendMessageInput) -> String {
        input.message.clone()
    }

    /// A report is cut to size where it is made.
    fn max_result_chars(&self) -> ResultCap {
        ResultCap::Unlimited
    }

    /// Returns `FinishAtomically`: without background tasks, the agent's own calls are stopped one by one.
    fn on_interrupt(&self) -> InterruptBehavior {
        InterruptBehavior::FinishAtomically
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn search_hint(&self) -> &'static str {
        "message steer continue resume an agent"
    }

    async fn call(
        &self,
        input: SendMessageInput,
        cx: &ToolContext,
    ) -> Result<ToolResult<SendMessageOutput>, ToolError> {
        let summary = input.summary();
        let (message, to, resumed, report) = match cx
            .send_message(AgentMessage { to: input.to, text: input.message })
            .await?
        {
            MessageDelivery::Delivered { to } => {
                (format!("Sent to {to}, who reads it before its next step."), to, false, None)
            }
            MessageDelivery::Resumed { id, output_file } => {
                let message = format!(
                    "Agent {id} had finished and goes on with your message in the background. You will be told when it is \
                     done; do not wait for it. Its report will also be in {}.",
                    output_file.display()
                );
                (message, id, true, None)
            }
            MessageDelivery::Answered(answer) => {
                let message = match &answer.incomplete {
                    None => format!("Agent {} went on with your message.", answer.id),
                    Some(why) => format!("Agent {} went on with your message and did not finish: {why}.", answer.id),
                };
                (message, answer.id, true, Some(answer.text))
            }
        };
        let routing = MessageRouting { to, summary };
        Ok(ToolResult::new(SendMessageOutput { success: true, message, routing, resumed, report }))
    }

    fn to_blocks(&self, output: &SendMessageOutput) -> ResultContent {
        match &output.report {
            None => output.message.as_str().into(),
            Some(report) => format!("{} It says:\n{report}", output.message).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::harness::ToolBench;

    #[test]
    fn a_message_has_a_receiver_and_words() {
        let bench = ToolBench::new();
        let (needs, shown) = bench.prepare(&SendMessage, json!({"to": "a1", "message": "Also look\nat b.rs"})).unwrap();
        assert_eq!((needs, shown.as_str()), (vec![AccessNeed::Session], "a1: Also look"));
        for (input, said) in [
            (json!({"to": "a1"}), "`message` is missing"),
            (json!({"to": " ", "message": "x"}), "`to` is empty"),
            (json!({"to": "*", "message": "x"}), "each agent its own message"),
            (json!({"to": "a1", "message": ""}), "`message` is empty"),
            (json!({"to": "a1", "message": {"type": "shutdown_request"}}), "`message`"),
        ] {
            let text = bench.prepare(&SendMessage, input).unwrap_err().model_text;
            assert!(text.contains(said), "{text}");
        }
    }

    #[tokio::test]
    async fn outside_a_session_there_is_nobody() {
        let bench = ToolBench::new();
        let input = json!({"to": "a1", "message": "x"});
        let error = bench.call_on(&bench.services(), &SendMessage, input).await.err().unwrap();
        assert!(error.model_text.contains("no agents outside a session"), "{error}");
    }

    #[test]
    fn the_result_does_not_repeat_the_message() {
        let output = SendMessageOutput {
            success: true,
            message: "Agent a1 went on with your message.".into(),
            routing: MessageRouting { to: "a1".into(), summary: "Look again".into() },
            resumed: true,
            report: Some("Nothing there.".into()),
        };
        assert_eq!(
            serde_json::to_value(&output).unwrap(),
            json!({"success": true, "message": "Agent a1 went on with your message.",
                   "routing": {"to": "a1", "summary": "Look again"}, "resumed": true, "report": "Nothing there."})
        );
        let text = SendMessage.to_blocks(&output).to_text();
        assert_eq!(text, "Agent a1 went on with your message. It says:\nNothing there.");
    }
}
