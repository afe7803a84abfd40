//! Commands that outlive their call: registered as tasks, reported when they end by themselves.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use gimlet_core::tasks::{NewTask, Task, TaskStopFn};
use gimlet_core::tool::ToolResult;
use gimlet_core::{CommandGuard, GuardedCommandEnd, SessionServices};
use gimlet_exec::{BackgroundCommand, CommandEnd, FinishedCommand, ForegroundCommand, OutputProgress};
use gimlet_proto::{AgentPath, Env, EventBody, Notice, NoticeLevel, TaskState};
use tokio::sync::watch;
use tokio::time::Instant;

use super::command_result::{millis, seconds};
use super::output::BashOutput;
use super::output_window::tail_of;
use super::run::BashCall;

/// Maximum lines and bytes of output shown for a command that continues.
pub(super) const LINES_SO_FAR: usize = 20;
const BYTES_SO_FAR: usize = 2_000;
/// Time to end when a task is stopped.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Silence after a prompt that counts as waiting for input that cannot come.
const QUIET_AFTER_QUESTION: Duration = Duration::from_secs(45);
/// Default lifetime limit for a command that a subagent started.
const LIFE_IN_AGENT: Duration = Duration::from_secs(60 * 60);

/// Moves a command to the session's background tasks.
pub(super) fn move_to_background(call: &BashCall<'_>, command: ForegroundCommand) -> Arc<Task> {
    let command = Arc::new(command.into_background());
    let stoppable = Arc::downgrade(&command);
    let (looked_after, over) = watch::channel(());
    let stop: TaskStopFn = Box::new(move || {
        let (command, mut over) = (stoppable.upgrade(), over.clone());
        Box::pin(async move {
            if let Some(command) = command {
                command.kill(STOP_GRACE).await;
            }
            // The supervisor has also checked what the command left.
            while over.changed().await.is_ok() {}
        })
    });
    let services = &call.cx.services;
    let task = services.tasks().add(NewTask {
        id: None,
        kind: "local_bash",
        description: call.input.title(),
        command: Some(call.input.command.clone()),
        call: Some(call.cx.call.clone()),
        owner: call.cx.agent.clone(),
        agent: None,
        backgrounded: true,
        output_file: call.output_file.clone(),
        stop,
    });
    services.publish_task_change(&task, None);
    let life = (!call.cx.agent.0.is_empty()).then(|| agent_command_lifetime(services.env()));
    let watched = call.take_watch().map(|watch| (watch, call.started_in.dir.clone()));
    let (task_again, lasting) = (task.clone(), services.session_lifetime());
    let keeper = BackgroundSupervisor { command, task: task_again, watched, services: lasting, _over: looked_after };
    services.spawn(keeper.supervise(QUIET_AFTER_QUESTION, life));
    task
}

/// Returns the lifetime limit for a command that a subagent started.
fn agent_command_lifetime(env: &Env) -> Duration {
    let chosen = env.integer("CLAUDE_SUBAGENT_BG_SHELL_MAX_MS").filter(|ms| *ms > 0);
    chosen.map_or(LIFE_IN_AGENT, Duration::from_millis)
}

/// Owner of a background command until it ends; dropped with the session, which ends the command.
struct BackgroundSupervisor {
    command: Arc<BackgroundCommand>,
    task: Arc<Task>,
    /// Guard of a sandboxed command, and the directory the command started in.
    watched: Option<(CommandGuard, PathBuf)>,
    /// Weak, because the services own this.
    services: Weak<SessionServices>,
    /// Dropped when all is done.
    _over: watch::Sender<()>,
}

impl BackgroundSupervisor {
    async fn supervise(mut self, quiet: Duration, life: Option<Duration>) {
        let begun = Instant::now();
        let finished = tokio::select! {
            finished = self.command.wait() => finished,
            never = self.watch_for_question(quiet) => match never {},
            () = sleep_if(life) => self.command.kill(STOP_GRACE).await,
        };
        let Some(finished) = finished else { return };
        let refused = self.sandbox_refusals(&finished).await;
        let (state, code, how) = describe_end(&finished);
        let by_itself = self.task.record_end(state, code);
        match (by_itself, refused) {
            (true, refused) => {
                let notice = ended_notice(&self.task, &finished, &how, begun.elapsed());
                self.publish_task_change(Some(
                    [Some(notice), refused].into_iter().flatten().collect::<Vec<_>>().join("\n"),
                ));
            }
            // The model needs no message about a command that was stopped on request; the user still gets a notice.
            (false, refused) => {
                self.publish_task_change(None);
                self.warn_of_refusal(refused);
            }
        }
    }

    /// Returns a description of what the sandbox refused the command, if anything.
    async fn sandbox_refusals(&mut self, finished: &FinishedCommand) -> Option<String> {
        let (watch, cwd) = self.watched.take()?;
        let exit = match finished.end {
            CommandEnd::Exited(exit) => Some(exit),
            CommandEnd::Killed(exit) => exit,
            CommandEnd::OutputLimit { .. } | CommandEnd::KeeperDied(_) => None,
        };
        let command = self.task.command.as_deref().unwrap_or_default();
        let output = String::from_utf8_lossy(&finished.output.tail);
        watch.finish(GuardedCommandEnd { command, cwd: &cwd, exit, output: &output }).await
    }

    fn warn_of_refusal(&self, refused: Option<String>) {
        if let (Some(text), Some(services)) = (refused, self.services.upgrade()) {
            let text = format!("background task {}: {text}", self.task.id);
            services.publish(&AgentPath::default(), EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        }
    }

    fn publish_task_change(&self, for_model: Option<String>) {
        if let Some(services) = self.services.upgrade() {
            services.publish_task_change(&self.task, for_model);
        }
    }

    /// Notifies the model once for each prompt after which the output stopped.
    async fn watch_for_question(&self, quiet: Duration) -> std::convert::Infallible {
        let mut before = None;
        let mut told = None;
        loop {
            tokio::time::sleep(quiet).await;
            let progress = self.command.progress(1);
            let is_quiet = before.replace(progress.total_bytes) == Some(progress.total_bytes);
            let question = progress.last_lines.last().filter(|line| is_quiet && looks_like_question(line));
            if let Some(line) = question
                && told.replace(progress.total_bytes) != Some(progress.total_bytes)
            {
                self.publish_task_change(Some(question_notice(&self.task, line)));
            }
        }
    }
}

async fn sleep_if(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

fn describe_end(finished: &FinishedCommand) -> (TaskState, Option<i32>, String) {
    match &finished.end {
        CommandEnd::Exited(exit) => {
            let state = if exit.is_success() { TaskState::Completed } else { TaskState::Failed };
            (state, Some(exit.shell_code()), format!("ended with exit code {}", exit.shell_code()))
        }
        CommandEnd::Killed(_) => (TaskState::Killed, None, "was killed: it ran for too long".to_owned()),
        CommandEnd::OutputLimit { limit_bytes } => {
            (TaskState::Failed, None, format!("was killed: it printed more than {limit_bytes} bytes"))
        }
        CommandEnd::KeeperDied(error) => (TaskState::Failed, None, format!("was lost ({error})")),
    }
}

fn ended_notice(task: &Task, finished: &FinishedCommand, how: &str, after: Duration) -> String {
    let Task { id, description, output_file, .. } = task;
    let output = match (&finished.output.file_error, finished.output.total_lines) {
        (Some(error), _) => format!("Its output could not be saved ({error})."),
        (None, 0) => "It printed nothing.".to_owned(),
        (None, 1) => format!("Its output (1 line) is in {}", output_file.display()),
        (None, lines) => format!("Its output ({lines} lines) is in {}", output_file.display()),
    };
    let after = after.as_secs();
    format!(
        "[Automatic notice, no human wrote this] Background task {id} ({description}) {how} after {after} s. {output}"
    )
}

fn question_notice(task: &Task, line: &str) -> String {
    let Task { id, description, .. } = task;
    format!(
        "[Automatic notice, no human wrote this] Background task {id} ({description}) seems to wait for an answer that \
         nobody can give it. Its last line is: {line}\nStop it with TaskStop and run it again with flags that avoid the \
         question."
    )
}

/// Returns true if a program whose last line is this probably waits for input.
fn looks_like_question(line: &str) -> bool {
    let line = line.trim().to_ascii_lowercase();
    let asks =
        ["?", "[y/n]", "(y/n)", "[y/n]:", "(y/n):", "(yes/no)", "[yes/no]", "(yes/no)?", "password:", "passphrase:"];
    asks.iter().any(|end| line.ends_with(end)) || line.contains("press any key") || line.contains("press enter")
}

/// Returns the result of a call that asked for the background.
pub(super) fn started_result(call: &BashCall<'_>, task: Arc<Task>) -> ToolResult<BashOutput> {
    let what = format!("Running in the background as task {}.", task.id);
    ToolResult::new(background_output(call, &task, &what))
}

/// Returns the result of a call whose command exceeded its timeout.
pub(super) fn timed_out_result(call: &BashCall<'_>, task: Arc<Task>, so_far: OutputProgress) -> ToolResult<BashOutput> {
    let after = seconds(call.limits.timeout.as_millis());
    let what = format!("Not finished after {after} s, so it goes on in the background as task {}.", task.id);
    let mut output = background_output(call, &task, &what);
    output.stdout = tail_of(&so_far.last_lines.join("\n"), BYTES_SO_FAR).to_owned();
    output.timed_out_after_ms = Some(millis(call));
    ToolResult::new(output)
}

/// Returns the result of a call that the user moved to the background.
pub(super) fn moved_result(call: &BashCall<'_>, task: Arc<Task>, so_far: OutputProgress) -> ToolResult<BashOutput> {
    let what = format!("The user moved it to the background, where it goes on as task {}.", task.id);
    let mut output = background_output(call, &task, &what);
    output.stdout = tail_of(&so_far.last_lines.join("\n"), BYTES_SO_FAR).to_owned();
    output.backgrounded_by_user = true;
    ToolResult::new(output)
}

/// Returns true if the call belongs to a subagent whose caller waits for it; its background commands end with it.
fn is_awaited_agent(call: &BashCall<'_>) -> bool {
    let tasks = call.cx.services.tasks();
    let agent = tasks.agent_id(&call.cx.agent).and_then(|id| tasks.find(&id));
    agent.is_some_and(|agent| !agent.is_backgrounded())
}

fn background_output(call: &BashCall<'_>, task: &Task, what: &str) -> BashOutput {
    let file = task.output_file.display().to_string();
    let moves = call.analysis.changes_directory;
    let notice = call.started_in.missing_dir.as_ref().map(|wanted| {
        let (wanted, dir) = (wanted.display(), call.started_in.dir.display());
        format!("The working directory {wanted} no longer exists; the command runs in {dir}.")
    });
    let ends_with_agent = is_awaited_agent(call);
    let its_end = if ends_with_agent { " At the latest it ends with your final answer." } else { "" };
    BashOutput {
        stderr: notice.unwrap_or_default(),
        background_notice: Some(format!(
            "{what} Its output goes to {file} (use Read). You will be told when it ends; TaskStop ends it.{its_end}"
        )),
        background_ends_with_final_response: ends_with_agent,
        background_task_id: Some(task.id.clone()),
        background_cwd_hint: moves
            .then(|| format!("The session's working directory stays {}.", call.cx.paths.cwd.display())),
        raw_output_path: Some(file),
        dangerously_disable_sandbox: call.input.dangerously_disable_sandbox.filter(|wanted| *wanted),
        ..BashOutput::default()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use gimlet_exec::{CaptureLimits, ShellCommand};

    use super::*;
    use crate::bash::command_harness::{CommandBench, pids_with_argument, unique_sleep_seconds, wait_until};

    const NEVER: Duration = Duration::from_secs(600);

    #[test]
    fn questions_are_told_from_other_last_lines() {
        for line in
            ["Proceed? [Y/n]", "Overwrite file?", "Password:", "Are you sure (yes/no)?", "Press any key to go on"]
        {
            assert!(looks_like_question(line), "{line}");
        }
        for line in ["listening on port 3000", "Compiling gimlet", "Done:", ""] {
            assert!(!looks_like_question(line), "{line}");
        }
    }

    #[test]
    fn the_life_of_an_agents_command_is_an_hour_unless_the_person_says_otherwise() {
        let life = |value: &str| agent_command_lifetime(&Env::default().with("CLAUDE_SUBAGENT_BG_SHELL_MAX_MS", value));
        assert_eq!(life("1500"), Duration::from_millis(1_500));
        assert_eq!([life("0"), life("soon"), life("")], [LIFE_IN_AGENT; 3]);
    }

    /// Keeps a command with limits that a test can wait for.
    async fn keep(bench: &mut CommandBench, text: &str, quiet: Duration, life: Option<Duration>) {
        let cx = bench.context("Bash");
        let (exec, shell) = cx.services.processes().unwrap();
        let run = shell.start(exec, ShellCommand { text, cwd: &cx.paths.cwd, env: Vec::new() }).await.unwrap();
        let output_file = cx.services.results_dir().join("kept.output");
        let command = ForegroundCommand::new(run.running, CaptureLimits::for_foreground(1_000, output_file.clone()));
        let task = cx.services.tasks().add(NewTask {
            id: None,
            kind: "local_bash",
            description: "kept".to_owned(),
            command: None,
            call: None,
            owner: cx.agent.clone(),
            agent: None,
            backgrounded: true,
            output_file,
            stop: Box::new(|| Box::pin(ready(()))),
        });
        let (services, (over, _)) = (Arc::downgrade(&cx.services), watch::channel(()));
        let command = Arc::new(command.into_background());
        let keeper = BackgroundSupervisor { command, task, watched: None, services, _over: over };
        cx.services.spawn(keeper.supervise(quiet, life));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_question_that_nobody_can_answer_is_told_once() {
        let mut bench = CommandBench::new();
        keep(&mut bench, "echo 'Overwrite? [y/N]'; sleep 0.3", Duration::from_millis(20), None).await;
        let mut said = Vec::new();
        wait_until("the end is told", || {
            said.extend(bench.take_model_messages());
            said.last().is_some_and(|text| text.contains("ended with exit code 0"))
        })
        .await;
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("[Automatic notice") && said[0].contains("Its last line is: Overwrite? [y/N]"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_command_with_a_limited_life_is_ended_and_told() {
        let mut bench = CommandBench::new();
        let sleep = unique_sleep_seconds();
        keep(&mut bench, &format!("sleep {sleep}"), NEVER, Some(Duration::from_millis(50))).await;
        let task = bench.services.tasks().find("b1").unwrap();
        assert_eq!(task.wait_finished().await, (TaskState::Killed, None));
        assert_eq!(pids_with_argument(&sleep), Vec::<i32>::new());
        wait_until("it is told", || bench.take_model_messages().iter().any(|text| text.contains("ran for too long")))
            .await;
    }
}
