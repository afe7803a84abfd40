//! The TaskStop tool: ends a background task of the session, with everything that it started.

use std::borrow::Cow;
use std::sync::Arc;

use gimlet_core::SessionServices;
use gimlet_core::tasks::Task;
use gimlet_core::tool::{
    AgentAvailability, InterruptBehavior, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_proto::{AccessNeed, ResultContent, TaskState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ends background tasks.
pub(crate) struct TaskStop;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskStopInput {
    /// Id of the task, or name of the agent.
    task_id: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskStopOutput {
    message: String,
    task_id: String,
    task_type: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

impl Tool for TaskStop {
    const NAME: &'static str = "TaskStop";
    type Input = TaskStopInput;
    type Output = TaskStopOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "Stops a running background task and everything it started. Stop what you no longer need.".into()
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["KillShell", "KillBash"]
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[("shell_id", "task_id"), ("bash_id", "task_id")]
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn search_hint(&self) -> &'static str {
        "stop a background command"
    }

    fn needs(&self, _input: &TaskStopInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }

    fn description(&self, input: &TaskStopInput, _cx: &PathContext) -> String {
        input.task_id.clone()
    }

    /// Half a stop would leave processes behind; a whole one takes two seconds at most.
    fn on_interrupt(&self) -> InterruptBehavior {
        InterruptBehavior::FinishAtomically
    }

    async fn call(&self, input: TaskStopInput, cx: &ToolContext) -> Result<ToolResult<TaskStopOutput>, ToolError> {
        let task = find_task(&input.task_id, &cx.services)?;
        let (state, _) = task.state();
        if state != TaskState::Running {
            let ended = state_name(state);
            let others = running(&cx.services);
            return Err(ToolError::failed(format!(
                "Task {} is not running any more: it is {ended}. {others}",
                task.id
            )));
        }
        task.stop().await;
        Ok(ToolResult::new(TaskStopOutput {
            message: format!("Stopped task {} ({}).", task.id, task.description),
            task_id: task.id.clone(),
            task_type: task.kind.into(),
            command: task.command.clone(),
        }))
    }

    fn to_blocks(&self, output: &TaskStopOutput) -> ResultContent {
        output.message.as_str().into()
    }
}

/// Returns the task of that id or the agent of that name, or an error that lists the running ones.
pub(crate) fn find_task(id: &str, services: &SessionServices) -> Result<Arc<Task>, ToolError> {
    let missing = || match services.tasks().forgotten_output(id.trim()) {
        Some(file) => ToolError::failed(format!(
            "Task {id} ended long ago and is no longer listed. Its output is still in {} (use Read).",
            file.display()
        )),
        None => ToolError::failed(format!("There is no background task `{id}`. {}", running(services))),
    };
    services.tasks().find_by_name(id.trim()).ok_or_else(missing)
}

fn running(services: &SessionServices) -> String {
    let running: Vec<String> =
        services.tasks().running().iter().map(|task| format!("{} ({})", task.id, task.description)).collect();
    match running.is_empty() {
        true => "No background task is running.".to_owned(),
        false => format!("Running: {}.", running.join(", ")),
    }
}

/// Returns the state's name in the public contract.
pub(crate) fn state_name(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Killed => "killed",
    }
}

#[cfg(test)]
mod tests {
    use gimlet_core::tasks::NewTask;
    use gimlet_proto::AgentPath;
    use serde_json::json;

    use super::*;
    use crate::bash::Bash;
    use crate::bash::command_harness::{CommandBench, pids_with_argument, unique_sleep_seconds, wait_until};

    #[tokio::test(flavor = "current_thread")]
    async fn a_stopped_task_leaves_nothing_alive_and_says_nothing_later() {
        let mut bench = CommandBench::new();
        let (inner, outer) = (unique_sleep_seconds(), unique_sleep_seconds());
        let command = format!("setsid sleep {inner} & sleep {outer}");
        bench.call(Bash, json!({"command": command, "run_in_background": true})).await.unwrap();
        wait_until("both run", || !pids_with_argument(&inner).is_empty() && !pids_with_argument(&outer).is_empty())
            .await;
        let stopped = bench.call(TaskStop, json!({"shell_id": "b1"})).await.unwrap();
        assert_eq!((pids_with_argument(&inner), pids_with_argument(&outer)), (vec![], vec![]));
        assert_eq!(
            stopped.output,
            json!({"message": stopped.text, "task_id": "b1", "task_type": "local_bash", "command": command})
        );
        wait_until("people are told", || bench.task_states().last() == Some(&TaskState::Killed)).await;
        assert_eq!(bench.take_model_messages(), Vec::<String>::new());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn unknown_and_finished_tasks_are_answered_with_those_that_run() {
        let mut bench = CommandBench::new();
        let none = bench.call(TaskStop, json!({"task_id": "b7"})).await.unwrap_err();
        assert_eq!(none.model_text, "There is no background task `b7`. No background task is running.");
        bench.call(Bash, json!({"command": "true", "run_in_background": true})).await.unwrap();
        bench.services.tasks().find("b1").unwrap().wait_finished().await;
        let sleep = json!({"command": "sleep 100", "run_in_background": true, "description": "wait a while"});
        bench.call(Bash, sleep).await.unwrap();
        let over = bench.call(TaskStop, json!({"task_id": "b1"})).await.unwrap_err();
        assert_eq!(over.model_text, "Task b1 is not running any more: it is completed. Running: b2 (wait a while).");
        assert!(bench.call(TaskStop, json!({})).await.unwrap_err().model_text.contains("`task_id` is missing"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_output_of_a_task_that_is_no_longer_listed_is_still_named() {
        let mut bench = CommandBench::new();
        for number in 0..150 {
            let task = bench.services.tasks().add(NewTask {
                id: None,
                kind: "local_bash",
                description: String::new(),
                command: None,
                call: None,
                owner: AgentPath::default(),
                output_file: format!("/out/{number}").into(),
                agent: None,
                backgrounded: true,
                stop: Box::new(|| Box::pin(std::future::ready(()))),
            });
            task.record_end(TaskState::Completed, Some(0));
        }
        let error = bench.call(TaskStop, json!({"task_id": "b1"})).await.unwrap_err();
        assert!(error.model_text.contains("no longer listed") && error.model_text.contains("/out/0"), "{error}");
    }
}
