//! The TaskOutput tool: output and state of a background task. Reads only the end of the task's output file, of any
//! length.

use std::borrow::Cow;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use gimlet_core::tasks::Task;
use gimlet_core::tool::{
    AgentAvailability, InputProblem, PathContext, PromptContext, ResultCap, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_exec::render_for_model;
use gimlet_proto::{AccessNeed, ResultContent, TaskState};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task_stop::{find_task, state_name};

/// Most output in one result; the end is what counts.
const MOST_CHARS: usize = 30_000;
/// Bytes read from the end of a file: more than shown, because of escape sequences and to find line starts.
const READ_BYTES: u64 = 4 * MOST_CHARS as u64;
const FILTERED_BYTES: u64 = 4 * 1024 * 1024;
const DEFAULT_TIMEOUT_MS: u64 = 30_000;
const LONGEST_TIMEOUT_MS: u64 = 600_000;

/// Shows the output of background tasks.
pub(crate) struct TaskOutput;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskOutputInput {
    /// Id of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    /// Wait for the task's end. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<bool>,
    /// Longest wait in milliseconds. Default 30000, at most 600000.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    /// Regular expression; only lines that match are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    /// Instead of `task_id`: do not wait, show only what is new since the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    bash_id: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskOutputOutput {
    retrieval_status: RetrievalStatus,
    task: TaskReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RetrievalStatus {
    /// The task is over.
    Success,
    /// It still ran when the wait was over.
    Timeout,
    /// The task still runs and the call did not wait.
    NotReady,
}

#[derive(Debug, Serialize, Deserialize)]
struct TaskReport {
    task_id: String,
    task_type: Cow<'static, str>,
    status: Cow<'static, str>,
    description: String,
    output: String,
    #[serde(rename = "exitCode", skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// Text for the model before the output.
    #[serde(skip)]
    head: String,
}

impl TaskOutputInput {
    fn id(&self) -> &str {
        self.task_id.as_deref().or(self.bash_id.as_deref()).unwrap_or_default()
    }

    /// Returns true for the older form of the call, which continues from the last position.
    fn is_incremental(&self) -> bool {
        self.bash_id.is_some() && self.task_id.is_none()
    }

    /// Returns the time to wait; `None` to return at once.
    fn wait_limit(&self) -> Option<Duration> {
        let wanted = self.timeout.unwrap_or(DEFAULT_TIMEOUT_MS).min(LONGEST_TIMEOUT_MS);
        self.block.unwrap_or(!self.is_incremental()).then(|| Duration::from_millis(wanted))
    }

    fn filter(&self) -> Result<Option<Regex>, String> {
        self.filter.as_deref().map(Regex::new).transpose().map_err(|error| error.to_string())
    }
}

impl Tool for TaskOutput {
    const NAME: &'static str = "TaskOutput";
    type Input = TaskOutputInput;
    type Output = TaskOutputOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "Shows the state of a background task and the end of its output, by default after waiting for the task to end. \
         To look at output without waiting, prefer Read on the task's output file."
            .into()
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["BashOutput"]
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[("shell_id", "task_id")]
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Never
    }

    fn search_hint(&self) -> &'static str {
        "output and state of a background command"
    }

    fn needs(&self, _input: &TaskOutputInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }

    fn is_read_only(&self, _input: &TaskOutputInput, _cx: &PathContext) -> bool {
        true
    }

    /// An incremental read moves a mark, which must happen once and in order.
    fn is_concurrency_safe(&self, input: &TaskOutputInput, _cx: &PathContext) -> bool {
        !input.is_incremental()
    }

    fn validate_input(&self, input: &TaskOutputInput, _cx: &PathContext) -> Result<(), InputProblem> {
        if input.id().trim().is_empty() {
            return Err(InputProblem::new(1, "`task_id` is missing: give the id of a background task"));
        }
        input
            .filter()
            .map(drop)
            .map_err(|error| InputProblem::new(2, format!("`filter` is not a valid regular expression: {error}")))
    }

    fn description(&self, input: &TaskOutputInput, _cx: &PathContext) -> String {
        input.id().to_owned()
    }

    /// The output is bounded in characters; this is what they take at most, with the words around them.
    fn max_result_chars(&self) -> ResultCap {
        ResultCap::Chars(4 * MOST_CHARS + 4_000)
    }

    async fn call(&self, input: TaskOutputInput, cx: &ToolContext) -> Result<ToolResult<TaskOutputOutput>, ToolError> {
        let filter = input.filter().map_err(ToolError::input)?;
        let task = find_task(input.id(), &cx.services)?;
        let patience = input.wait_limit();
        if let Some(patience) = patience {
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => {
                    let text = format!("Interrupted while waiting for task {}; the task itself goes on.", task.id);
                    return Err(ToolError::interrupted(text));
                }
                // Out of time is an answer like any other.
                _ = tokio::time::timeout(patience, task.wait_finished()) => {}
            }
        }
        let (state, exit_code) = task.state();
        let retrieval_status = match (state, patience) {
            (TaskState::Running, Some(_)) => RetrievalStatus::Timeout,
            (TaskState::Running, None) => RetrievalStatus::NotReady,
            (TaskState::Completed | TaskState::Failed | TaskState::Killed, _) => RetrievalStatus::Success,
        };
        let (head, output) = filtered_output(&task, input.is_incremental(), filter).await?;
        let task = TaskReport {
            task_id: task.id.clone(),
            task_type: task.kind.into(),
            status: state_name(state).into(),
            description: task.description.clone(),
            output,
            exit_code,
            head,
        };
        Ok(ToolResult::new(TaskOutputOutput { retrieval_status, task }))
    }

    fn to_blocks(&self, output: &TaskOutputOutput) -> ResultContent {
        let TaskReport { task_id, status, description, output, exit_code, head, .. } = &output.task;
        let code = exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
        let text = format!("Task {task_id} ({description}) is {status}{code}. {head}\n{output}");
        text.trim_end().into()
    }
}

/// Returns a remark on the output and the output itself.
async fn filtered_output(task: &Task, incremental: bool, filter: Option<Regex>) -> Result<(String, String), ToolError> {
    let file = task.output_file.clone();
    let total = match tokio::fs::metadata(&file).await {
        Ok(metadata) => metadata.len(),
        // A task that has just begun has no file yet.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(unreadable(&file, &error)),
    };
    let from = if incremental { task.take_unread(total).min(total) } else { 0 };
    let window = if filter.is_some() { FILTERED_BYTES } else { READ_BYTES };
    let start = from.max(total.saturating_sub(window));
    let path = file.clone();
    let read = tokio::task::spawn_blocking(move || read_range(path, start, total));
    let bytes = read.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    let mut text = render_for_model(&bytes.map_err(|error| unreadable(&file, &error))?);
    if let Some(filter) = filter {
        text = text.lines().filter(|line| filter.is_match(line)).collect::<Vec<_>>().join("\n");
    }
    let shown = last_chars(&text, MOST_CHARS).to_owned();
    let left_out = start - from + (text.len() - shown.len()) as u64;
    let what: Cow<'_, str> = match (incremental, total == from) {
        (true, true) => "Nothing new was printed since the last time.".into(),
        // The next call goes on behind all of it, so what is not shown here is never shown by itself.
        (true, false) if left_out > 0 => {
            format!("The end of the new output ({left_out} bytes of it are left out; the file has all of it):").into()
        }
        (true, false) => "New output:".into(),
        (false, true) => "It has printed nothing.".into(),
        (false, false) if left_out > 0 => "The end of its output:".into(),
        (false, false) => "Its output:".into(),
    };
    Ok((format!("Output file: {} ({total} bytes). {what}", file.display()), shown))
}

fn read_range(file: PathBuf, start: u64, end: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if end > start {
        let mut file = gimlet_core::files::open_output_file(&file)?;
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn last_chars(text: &str, most: usize) -> &str {
    match text.char_indices().rev().nth(most.saturating_sub(1)) {
        Some((start, _)) => &text[start..],
        None => text,
    }
}

fn unreadable(file: &std::path::Path, error: &std::io::Error) -> ToolError {
    ToolError::failed(format!("The task's output file {} cannot be read: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::bash::Bash;
    use crate::bash::command_harness::{CommandBench, wait_until};

    async fn background(bench: &mut CommandBench, command: &str) {
        bench.call(Bash, json!({"command": command, "run_in_background": true})).await.unwrap();
    }

    /// Lets a command that reads from the pipe `gate` go on.
    fn open_gate(bench: &CommandBench) {
        std::fs::write(bench.path("gate"), "\n").unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn looking_does_not_wait_and_waiting_gives_the_end() {
        let mut bench = CommandBench::new();
        bench.call(Bash, json!({"command": "mkfifo gate"})).await.unwrap();
        background(&mut bench, "echo one; read x <gate; echo two; exit 3").await;
        let file = bench.services.tasks().find("b1").unwrap().output_file.clone();
        wait_until("the first line", || std::fs::read(&file).is_ok_and(|bytes| bytes == b"one\n")).await;
        let looked = bench.call(TaskOutput, json!({"shell_id": "b1", "block": false})).await.unwrap();
        assert_eq!(looked.output["retrieval_status"], "not_ready");
        let waited = bench.call(TaskOutput, json!({"task_id": "b1", "timeout": 20})).await.unwrap();
        assert_eq!(
            (&waited.output["retrieval_status"], &waited.output["task"]["status"]),
            (&json!("timeout"), &json!("running"))
        );
        open_gate(&bench);
        let ended = bench.call(TaskOutput, json!({"task_id": "b1"})).await.unwrap();
        assert_eq!(
            ended.output,
            json!({"retrieval_status": "success", "task": {
                "task_id": "b1", "task_type": "local_bash", "status": "failed",
                "description": "echo one; read x <gate; echo two; exit 3", "output": "one\ntwo", "exitCode": 3}})
        );
        assert!(ended.text.contains("is failed with exit code 3") && ended.text.ends_with("Its output:\none\ntwo"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_older_form_reads_on_from_where_it_stopped() {
        let mut bench = CommandBench::new();
        bench.call(Bash, json!({"command": "mkfifo gate"})).await.unwrap();
        background(&mut bench, "echo one; read x <gate; echo two; echo three").await;
        let task = bench.services.tasks().find("b1").unwrap();
        wait_until("the first line", || std::fs::read(&task.output_file).is_ok_and(|bytes| bytes == b"one\n")).await;
        let output = |given: &Value| given["task"]["output"].as_str().unwrap().to_owned();
        let first = bench.call(TaskOutput, json!({"bash_id": "b1"})).await.unwrap();
        assert_eq!((output(&first.output), &first.output["task"]["status"]), ("one".to_owned(), &json!("running")));
        open_gate(&bench);
        task.wait_finished().await;
        let second = bench.call(TaskOutput, json!({"bash_id": "b1", "filter": "^t.o$"})).await.unwrap();
        assert_eq!(output(&second.output), "two");
        let third = bench.call(TaskOutput, json!({"bash_id": "b1"})).await.unwrap();
        assert!(third.text.contains("Nothing new"), "{}", third.text);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_end_of_long_output_is_kept_with_its_size_and_file() {
        let mut bench = CommandBench::new();
        background(&mut bench, "seq 1 50000").await;
        let given = bench.call(TaskOutput, json!({"task_id": "b1"})).await.unwrap();
        let output = given.output["task"]["output"].as_str().unwrap();
        assert!(output.len() == MOST_CHARS && output.ends_with("\n50000"));
        assert!(given.text.contains("(288894 bytes). The end of its output:") && given.text.contains(".output"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_incremental_read_says_what_it_left_out() {
        let mut bench = CommandBench::new();
        background(&mut bench, "seq 1 50000").await;
        bench.services.tasks().find("b1").unwrap().wait_finished().await;
        let given = bench.call(TaskOutput, json!({"bash_id": "b1"})).await.unwrap();
        // The last line end is not shown either.
        let said = format!("The end of the new output ({} bytes of it are left out; the file has all of it):\n", {
            288_894 - MOST_CHARS - 1
        });
        assert!(given.text.contains(&said), "{}", &given.text[..300]);
        let next = bench.call(TaskOutput, json!({"bash_id": "b1"})).await.unwrap();
        assert!(next.text.contains("Nothing new"), "{}", next.text);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn wrong_inputs_say_what_is_wrong() {
        let mut bench = CommandBench::new();
        let unknown = bench.call(TaskOutput, json!({"task_id": "b9"})).await.unwrap_err();
        assert!(unknown.model_text.contains("no background task `b9`"));
        let filter = bench.call(TaskOutput, json!({"bash_id": "b9", "filter": "("})).await.unwrap_err();
        assert!(filter.model_text.contains("`filter` is not a valid regular expression"));
        let none = bench.call(TaskOutput, json!({})).await.unwrap_err();
        assert!(none.model_text.contains("`task_id` is missing"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_interrupt_ends_the_wait_and_not_the_task() {
        let mut bench = CommandBench::new();
        background(&mut bench, "sleep 100").await;
        bench.cancel.cancel();
        let error = bench.call(TaskOutput, json!({"task_id": "b1"})).await.unwrap_err();
        assert!(error.model_text.contains("goes on"), "{error}");
        assert_eq!(bench.services.tasks().running().len(), 1);
    }
}
