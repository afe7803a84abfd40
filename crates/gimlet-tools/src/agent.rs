//! Agent: starts a subagent and returns its report. The permission gate decides each of the agent's calls; this tool
//! itself changes nothing but the session.

use std::borrow::Cow;
use std::fmt::Write as _;

use gimlet_core::tool::{
    AgentAvailability, InputProblem, InterruptBehavior, PathContext, PromptContext, ResultCap, Tool, ToolContext,
    ToolError, ToolResult,
};
use gimlet_core::{AgentLaunch, AgentReport, LaunchOutcome, render_agent_list};
use gimlet_proto::{AccessNeed, ResultContent, TokenUsage, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::send_message::SendMessage;

pub(crate) struct Agent;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentInput {
    /// The task in 3 to 5 words, for people.
    description: String,
    /// The task, complete.
    prompt: String,
    /// Type of the agent. Default general-purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    subagent_type: Option<String>,
    /// A model by alias or id. Default: that of the type.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// How hard it thinks: low, medium, high, xhigh or max.
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<String>,
    /// Do not wait: the report comes later by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_in_background: Option<bool>,
    /// A name by which SendMessage and TaskStop find it: letters, digits, dots, dashes, underscores.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// A separate work tree is not to be had yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<String>,
    /// Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    team_name: Option<String>,
    /// Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(crate) enum AgentOutput {
    Completed(Box<AgentCompletion>),
    AsyncLaunched(AgentStart),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentCompletion {
    agent_id: String,
    agent_type: String,
    content: Vec<ReportText>,
    resolved_model: String,
    total_tool_use_count: u64,
    total_duration_ms: u64,
    total_tokens: u64,
    usage: AgentTokens,
    prompt: String,
    /// Reason why the report is not the end of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<String>,
    /// True if the agent can receive messages, which the result then mentions.
    #[serde(skip)]
    reachable: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentStart {
    agent_id: String,
    description: String,
    prompt: String,
    output_file: String,
    can_read_output_file: bool,
    resolved_model: String,
    /// True if the call was waiting for the agent when it was moved to the background.
    #[serde(rename = "backgroundedByUser", default, skip_serializing_if = "std::ops::Not::not")]
    backgrounded_by_user: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename = "text")]
struct ReportText {
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct AgentTokens {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
}

impl From<TokenUsage> for AgentTokens {
    fn from(usage: TokenUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_creation_input_tokens: usage.cache_creation_input_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens,
        }
    }
}

impl Tool for Agent {
    const NAME: &'static str = "Agent";
    type Input = AgentInput;
    type Output = AgentOutput;

    fn prompt(&self, cx: &PromptContext) -> Cow<'static, str> {
        let mut text = include_str!("agent.md").trim_ascii_end().to_owned();
        text.push_str(&render_agent_list(&cx.agents));
        Cow::Owned(text)
    }

    fn hidden_parameters(&self, cx: &PromptContext) -> &'static [&'static str] {
        // A name is only useful to callers that have SendMessage.
        match (cx.background, cx.tools.iter().any(|tool| tool == SendMessage::NAME)) {
            (true, true) => &["isolation", "team_name", "mode"],
            (true, false) => &["name", "isolation", "team_name", "mode"],
            (false, true) => &["isolation", "team_name", "mode", "run_in_background"],
            (false, false) => &["name", "isolation", "team_name", "mode", "run_in_background"],
        }
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["Task"]
    }

    /// Returns the older name, which programs check to detect agents.
    fn listed_name(&self) -> &'static str {
        "Task"
    }

    fn needs(&self, _input: &AgentInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }

    fn is_concurrency_safe(&self, _input: &AgentInput, _cx: &PathContext) -> bool {
        true
    }

    fn validate_input(&self, input: &AgentInput, _cx: &PathContext) -> Result<(), InputProblem> {
        if input.prompt.trim().is_empty() {
            return Err(InputProblem::new(1, "`prompt` is empty: say what the agent is to do"));
        }
        if let Some(isolation) = &input.isolation {
            let text = format!(
                "`isolation: {isolation}` is not available: leave it out, and give each agent files of its own to change"
            );
            return Err(InputProblem::new(2, text));
        }
        Ok(())
    }

    fn description(&self, input: &AgentInput, _cx: &PathContext) -> String {
        input.description.clone()
    }

    fn user_facing_name(&self, input: Option<&AgentInput>) -> Cow<'static, str> {
        match input.and_then(|input| input.subagent_type.clone()) {
            Some(kind) => Cow::Owned(kind),
            None => Cow::Borrowed(Self::NAME),
        }
    }

    fn auto_classifier_input(&self, input: &AgentInput) -> String {
        input.prompt.clone()
    }

    /// Returns `Unlimited`: a report is truncated where it is made.
    fn max_result_chars(&self) -> ResultCap {
        ResultCap::Unlimited
    }

    /// Returns the interrupt behavior: the agent's own calls are stopped one by one, which takes as long as the
    /// slowest.
    fn on_interrupt(&self) -> InterruptBehavior {
        InterruptBehavior::FinishAtomically
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::ToLaunchOthers
    }

    fn reports_own_progress(&self) -> bool {
        true
    }

    fn search_hint(&self) -> &'static str {
        "subagent delegate task parallel research explore"
    }

    async fn call(&self, input: AgentInput, cx: &ToolContext) -> Result<ToolResult<AgentOutput>, ToolError> {
        let AgentInput { description, prompt, subagent_type, model, effort, run_in_background, name, .. } = input;
        let launch = AgentLaunch {
            kind: subagent_type,
            description: description.clone(),
            prompt: prompt.clone(),
            model,
            effort,
            background: run_in_background,
            name,
        };
        let output = match cx.launch_agent(launch).await? {
            LaunchOutcome::Finished(report) => {
                let reachable = report.resumable && cx.has_tool(SendMessage::NAME);
                AgentOutput::Completed(Box::new(completion_from_report(*report, prompt, reachable)))
            }
            LaunchOutcome::InBackground { id, model, output_file, moved } => AgentOutput::AsyncLaunched(AgentStart {
                agent_id: id,
                description,
                prompt,
                output_file: output_file.display().to_string(),
                can_read_output_file: true,
                resolved_model: model,
                backgrounded_by_user: moved,
            }),
        };
        Ok(ToolResult::new(output))
    }

    fn to_blocks(&self, output: &AgentOutput) -> ResultContent {
        match output {
            AgentOutput::Completed(done) => {
                let report: String = done.content.iter().map(|part| part.text.as_str()).collect();
                let mut text = match &done.incomplete {
                    None if report.trim().is_empty() => "The agent finished without a report.".to_owned(),
                    None => report,
                    Some(why) => {
                        format!("{report}\n\n[The agent did not finish: {why}. The above is as far as it came.]")
                    }
                };
                if done.reachable {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "\n\n[Agent {}: SendMessage to this id goes on with it.]", done.agent_id);
                }
                text.into()
            }
            AgentOutput::AsyncLaunched(begun) => format!(
                "{}The agent works in the background as {}. You will be told when it has finished; go on with other work and \
                 do not wait for it or do its task yourself. TaskStop ends it. Its report will also be in {}.",
                if begun.backgrounded_by_user { "The user moved it to the background. " } else { "" },
                begun.agent_id,
                begun.output_file
            )
            .into(),
        }
    }

    fn view(&self, _input: &AgentInput, output: &AgentOutput) -> View {
        match output {
            AgentOutput::Completed(done) => {
                let report: String = done.content.iter().map(|part| part.text.as_str()).collect();
                let noun = if done.total_tool_use_count == 1 { "tool call" } else { "tool calls" };
                let (calls, tokens) = (done.total_tool_use_count, done.total_tokens);
                View::Text(format!("{report}\n({calls} {noun}, {tokens} tokens)"))
            }
            AgentOutput::AsyncLaunched(begun) => View::Text(format!("works in the background as {}", begun.agent_id)),
        }
    }
}

fn completion_from_report(report: AgentReport, prompt: String, reachable: bool) -> AgentCompletion {
    AgentCompletion {
        agent_id: report.id,
        agent_type: report.kind,
        content: vec![ReportText { text: report.text }],
        resolved_model: report.model,
        total_tool_use_count: report.tool_uses,
        total_duration_ms: report.duration_ms,
        total_tokens: report.total_tokens,
        usage: report.usage.into(),
        prompt,
        incomplete: report.incomplete,
        reachable,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::harness::ToolBench;

    #[test]
    fn it_needs_only_the_session_and_rejects_what_it_does_not_know() {
        let bench = ToolBench::new();
        let (needs, shown) =
            bench.prepare(&Agent, json!({"description": "Look around", "prompt": "Look.", "team_name": "t"})).unwrap();
        assert_eq!((needs, shown.as_str()), (vec![AccessNeed::Session], "Look around"));
        for (input, said) in [
            (json!({"description": "d"}), "`prompt` is missing"),
            (json!({"description": "d", "prompt": " "}), "say what the agent is to do"),
            (json!({"description": "d", "prompt": "p", "promt": "p"}), "`promt`"),
            (json!({"description": "d", "prompt": "p", "isolation": "worktree"}), "not available"),
        ] {
            let text = bench.prepare(&Agent, input).unwrap_err().model_text;
            assert!(text.contains(said), "{text}");
        }
    }

    #[tokio::test]
    async fn outside_a_session_nothing_is_launched() {
        let bench = ToolBench::new();
        let input = json!({"description": "d", "prompt": "p"});
        let error = bench.call_on(&bench.services(), &Agent, input).await.err().unwrap();
        assert!(error.model_text.contains("outside a session"), "{error}");
    }

    #[test]
    fn the_output_has_the_public_form() {
        let report = AgentReport {
            id: "a1".into(),
            kind: "Explore".into(),
            model: "m".into(),
            text: "found".into(),
            incomplete: Some("it reached its limit of 2 turns".into()),
            resumable: true,
            tool_uses: 2,
            duration_ms: 5,
            total_tokens: 10,
            usage: TokenUsage { input_tokens: 7, output_tokens: 3, ..TokenUsage::default() },
        };
        let output = AgentOutput::Completed(Box::new(completion_from_report(report, "p".into(), true)));
        assert_eq!(
            serde_json::to_value(&output).unwrap(),
            json!({"status": "completed", "agentId": "a1", "agentType": "Explore",
                   "content": [{"type": "text", "text": "found"}], "resolvedModel": "m", "totalToolUseCount": 2,
                   "totalDurationMs": 5, "totalTokens": 10, "prompt": "p",
                   "usage": {"input_tokens": 7, "output_tokens": 3, "cache_creation_input_tokens": 0,
                             "cache_read_input_tokens": 0},
                   "incomplete": "it reached its limit of 2 turns"})
        );
        let text = Agent.to_blocks(&output).to_text();
        assert!(text.starts_with("found\n\n[The agent did not finish: it reached"), "{text}");
        assert!(text.ends_with("[Agent a1: SendMessage to this id goes on with it.]"), "{text}");
    }
}
