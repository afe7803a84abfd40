//! The `command` handler: a shell command, or a program with arguments, that gets the event on standard input.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_core::{HandlerCall, HandlerError, HandlerReport, HookEvent, HookHandler};
use gimlet_exec::{CapturedCommand, CapturedRun};
use gimlet_proto::BoxFuture;
use gimlet_text::quote_shell_word;

use crate::hook_answer::{command_report, wake_report};
use crate::hook_host::{HookHost, HookInputFacts, HookTrustCheck};

/// Bytes kept of each output stream of a hook.
const MAX_OUTPUT: usize = 1 << 20;
/// Time limits without a configured one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
const PROMPT_TIMEOUT: Duration = Duration::from_secs(30);
const DISPLAY_TIMEOUT: Duration = Duration::from_secs(10);
const SESSION_END_TIMEOUT: Duration = Duration::from_millis(1500);

/// How the command is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandForm {
    /// A text for a shell, which is `/bin/sh` unless bash was asked for.
    Shell { text: String, bash: bool },
    /// A program and its arguments, with placeholders in them.
    Program { program: String, args: Vec<String> },
}

/// A hook that runs a command.
pub(crate) struct CommandHook {
    pub(crate) host: Arc<HookHost>,
    pub(crate) form: CommandForm,
    /// True if a file of the project defines it.
    pub(crate) from_project: bool,
    pub(crate) trust: Option<HookTrustCheck>,
    /// True if exit code 2 tells the model something, whatever the event.
    pub(crate) wakes_model: bool,
    /// Folders that it may name beside that of the session, by their variables.
    pub(crate) folders: Vec<(&'static str, PathBuf)>,
    /// Further variables that it gets.
    pub(crate) variables: Vec<(String, String)>,
}

impl HookHandler for CommandHook {
    fn run(&self, call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>> {
        let host = self.host.clone();
        let (form, from_project, wakes_model) = (self.form.clone(), self.from_project, self.wakes_model);
        let mut folders = vec![("CLAUDE_PROJECT_DIR", host.project_dir().to_owned())];
        folders.extend(self.folders.iter().cloned());
        let variables = self.variables.clone();
        let objection = self.trust.as_ref().and_then(|check| check());
        Box::pin(async move {
            if let Some(reason) = objection {
                return refuse_untrusted(call.event, reason);
            }
            let run = run_command(&host, &form, from_project, HookSurroundings { folders, variables }, &call).await?;
            if wakes_model { wake_report(&run) } else { command_report(call.event, &run) }
        })
    }

    fn kind(&self) -> &'static str {
        "command"
    }

    fn text(&self) -> String {
        match &self.form {
            CommandForm::Shell { text, .. } => text.clone(),
            CommandForm::Program { program, args } => {
                let words = std::iter::once(program).chain(args).map(|word| quote_shell_word(word).into_owned());
                words.collect::<Vec<String>>().join(" ")
            }
        }
    }

    fn default_timeout(&self, event: HookEvent) -> Duration {
        default_timeout(event)
    }
}

/// Returns the time limit of a `command`, `http` or `mcp_tool` hook without a configured one.
pub(crate) fn default_timeout(event: HookEvent) -> Duration {
    match event {
        HookEvent::UserPromptSubmit => PROMPT_TIMEOUT,
        HookEvent::MessageDisplay => DISPLAY_TIMEOUT,
        HookEvent::SessionEnd => SESSION_END_TIMEOUT,
        _ => DEFAULT_TIMEOUT,
    }
}

/// Returns the outcome for a hook whose script is no longer the trusted one: a guard blocks, others are skipped.
pub(crate) fn refuse_untrusted(event: HookEvent, reason: String) -> Result<HandlerReport, HandlerError> {
    match event {
        HookEvent::PreToolUse | HookEvent::UserPromptSubmit => Ok(HandlerReport {
            answer: gimlet_core::HandlerAnswer::Block(format!("A hook that guards this was not run: {reason}")),
            stdout: String::new(),
            stderr: String::new(),
            exit_code: None,
        }),
        _ => Err(HandlerError::Failed(format!("it was not run: {reason}"))),
    }
}

/// What a hook's command may name.
struct HookSurroundings {
    folders: Vec<(&'static str, PathBuf)>,
    variables: Vec<(String, String)>,
}

async fn run_command(
    host: &HookHost,
    form: &CommandForm,
    from_project: bool,
    surroundings: HookSurroundings,
    call: &HandlerCall,
) -> Result<CapturedRun, HandlerError> {
    let HookSurroundings { folders, variables: more } = surroundings;
    let input = HookInputFacts::read(&call.input).map_err(HandlerError::Failed)?;
    let env = host.hook_env(from_project);
    let (program, args) = match form {
        CommandForm::Shell { text, bash } => {
            let text = match env.get("CLAUDE_CODE_SHELL_PREFIX") {
                Some(prefix) => format!("{prefix} {}", quote_shell_word(text)),
                None => text.clone(),
            };
            (if *bash { "bash".to_owned() } else { "/bin/sh".to_owned() }, vec!["-c".to_owned(), text])
        }
        CommandForm::Program { program, args } => {
            let fill = |word: &String| fill_placeholders(word, &folders);
            (fill(program), args.iter().map(fill).collect())
        }
    };
    let mut stdin = call.input.get().as_bytes().to_vec();
    stdin.push(b'\n');
    let mut variables = host.variables(call.event, &input);
    variables.extend(folders.iter().map(|(name, folder)| (name.into(), folder.into())));
    variables.extend(more.into_iter().map(|(name, value)| (name.into(), value.into())));
    let cwd = if input.cwd.is_dir() { input.cwd.clone() } else { PathBuf::from("/") };
    let command = CapturedCommand {
        program: program.into(),
        args: args.into_iter().map(Into::into).collect(),
        cwd: &cwd,
        env: &env,
        variables,
        stdin: &stdin,
        max_bytes: MAX_OUTPUT,
    };
    command.run(&host.exec).await.map_err(|error| HandlerError::Failed(describe_error(&error)))
}

/// Returns an error with its causes on one line.
fn describe_error(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Replaces `${CLAUDE_PROJECT_DIR}` and its relatives in one word.
fn fill_placeholders(word: &str, folders: &[(&'static str, PathBuf)]) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let folder = |name: &str| folders.iter().find(|(known, _)| *known == name).map(|(_, folder)| folder);
        let value = after.split_once('}').and_then(|(name, tail)| Some((folder(name)?, tail)));
        match value {
            Some((value, tail)) => {
                filled.push_str(&value.to_string_lossy());
                rest = tail;
            }
            None => {
                filled.push_str("${");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}
