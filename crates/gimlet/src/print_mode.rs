//! `gimlet -p`: signals, standard input and output, and the exit code.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use gimlet_app::{
    LaunchRequest, ProcessEnv,
    start::{self, LaunchOptions},
};
use gimlet_proto::{MentionScope, SessionHandle, SubmittedPrompt};
use gimlet_serve::print::{self, PrintEnd, PrintFormat, PrintJob};
use gimlet_serve::{InitFacts, InitialInput, InputTimeouts, LineOutput, LogFilter, PipedInput, StdinError, write_log};
use gimlet_text::enclose_in_tag;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::args::{OutputFormat, RunArgs};
use crate::report::Report;
use crate::session_commands::application_commands;
use crate::signals::{INTERRUPTED, SignalListener, StopRequest};

/// Timeout for writing the last lines of the debug log.
pub(crate) const LOG_GRACE: Duration = Duration::from_secs(1);

/// Prompt for a session that resumes an interrupted turn.
const GO_ON: &str = "You were interrupted in the middle of this. Go on from where you were.";

/// Exit code that a shell reports for a program whose reader closed the pipe.
pub(crate) const PIPE_CLOSED: u8 = 141;

/// Runs print mode to its end.
pub(crate) async fn run(run: &RunArgs, request: &LaunchRequest, around: &ProcessEnv) -> Result<ExitCode, Report> {
    check_flags(run)?;
    let notes = LineOutput::new(std::io::stderr()).map_err(thread_error)?;
    let (prompt, input) = match run.init_only {
        true => (SubmittedPrompt { only_start_hooks: true, ..SubmittedPrompt::default() }, None),
        false => read_prompt(run, interrupted_turn_prompt(run, request, around)?, &notes).await?,
    };
    let wire_events = run.include_partial_messages && run.output_format == OutputFormat::StreamJson;
    let commands = application_commands(request, around);
    // A tool that answers stands for a user.
    let attended = run.permission_prompt_tool.is_some();
    let manner = LaunchOptions { attended, wire_events, commands, ..LaunchOptions::default() };
    let started = start::start(request, around, &manner).await?;
    notes.queue_remarks(&started.warnings).await;
    let (interrupt, interrupts) = mpsc::unbounded_channel();
    let job = PrintJob {
        format: match run.output_format {
            OutputFormat::Text => PrintFormat::Text,
            OutputFormat::Json => PrintFormat::Json,
            OutputFormat::StreamJson => PrintFormat::StreamJson,
        },
        verbose: run.verbose,
        partial: run.include_partial_messages,
        subagent_text: run.forward_subagent_text,
        hook_events: run.include_hook_events,
        is_saved: !run.no_session_persistence,
        init_facts: InitFacts::from_session(&started.facts),
        permission_tool: run.permission_prompt_tool.clone(),
        prompt,
        input,
        out: LineOutput::new(std::io::stdout()).map_err(thread_error)?,
        notes,
        interrupts,
    };
    let mut tasks = JoinSet::new();
    if let Some(log) = debug_log_writer(run, request, around, &started.handle)? {
        tasks.spawn(log);
    }
    let mut life = JoinSet::new();
    life.spawn(started.session_future);
    let mut signals = SignalListener::listen(interrupt);
    let end = tokio::select! {
        end = print::run(started.handle.clone(), job) => end,
        () = wait_for_panic(&mut life) => PrintEnd::Failure,
        stop = signals.wait_for_stop() => {
            if let StopRequest::Soon(_) = stop {
                started.handle.request_exit();
                signals.drain_with_deadline(async { while life.join_next().await.is_some() {} }).await;
            }
            life.shutdown().await;
            tasks.shutdown().await;
            crate::print_remarks(&started.cleanup.clean_up().await);
            return Ok(ExitCode::from(stop.code()));
        }
    };
    while life.join_next().await.is_some() {}
    // The log ends with the session; one that lost its session is not waited for.
    drop(tokio::time::timeout(LOG_GRACE, async { while tasks.join_next().await.is_some() {} }).await);
    crate::print_remarks(&started.cleanup.clean_up().await);
    Ok(match end {
        PrintEnd::Success => ExitCode::SUCCESS,
        PrintEnd::Failure => ExitCode::from(1),
        PrintEnd::Interrupted => ExitCode::from(INTERRUPTED),
        PrintEnd::OutputClosed => ExitCode::from(PIPE_CLOSED),
    })
}

/// Returns the writer of the session's debug log, if requested; to be run beside the session.
pub(crate) fn debug_log_writer(
    run: &RunArgs,
    request: &LaunchRequest,
    around: &ProcessEnv,
    session: &SessionHandle,
) -> Result<Option<impl Future<Output = ()> + Send + use<>>, Report> {
    if run.debug.is_none() && run.debug_file.is_none() && !around.env.flag("DEBUG") {
        return Ok(None);
    }
    let mut file = open_debug_file(run, around, &session.id.to_string())?;
    let events = session.subscribe();
    let filter = LogFilter::parse(run.debug.as_deref().unwrap_or(""));
    let without = request.front_end.ignored_flags.join(" ");
    let env = around.env.clone();
    Ok(Some(async move {
        // A log that cannot be written does not stop the session.
        if !without.is_empty() {
            drop(writeln!(file, "flags without effect in this version: {without}"));
        }
        drop(write_log(events, filter, gimlet_core::mask_tokens, &mut file).await);
        // Most are read when a call needs them, so all are known only now.
        for name in env.take_invalid_integers() {
            drop(writeln!(file, "{name} is no whole number and was not used"));
        }
    }))
}

/// Resolves when the session ended by a panic; its message is on stderr already. A session that ends normally notifies
/// the front end itself.
pub(crate) async fn wait_for_panic(life: &mut JoinSet<()>) {
    if !matches!(life.join_next().await, Some(Err(_))) {
        std::future::pending::<()>().await;
    }
}

/// Refuses flags that would have no effect.
fn check_flags(run: &RunArgs) -> Result<(), Report> {
    if run.permission_prompt_tool.as_deref() == Some("stdio") {
        return Err(Report::new("--permission-prompt-tool stdio is for programs that drive the session")
            .with_hint("Name a tool of an MCP server, as mcp__server__tool, or add --input-format stream-json"));
    }
    check_permission_tool(run)?;
    if run.replay_user_messages {
        return Err(Report::new("--replay-user-messages is for programs that drive the session")
            .with_hint("Add --input-format stream-json and --output-format stream-json"));
    }
    if run.follow && run.prompt.as_deref().is_none_or(|prompt| prompt.trim().is_empty()) {
        return Err(Report::new("--follow needs a prompt that says what to do with what is piped in")
            .with_hint("Give one: tail -f app.log | gimlet -p --follow \"alert me about errors\""));
    }
    if run.follow && std::io::stdin().is_terminal() {
        return Err(Report::new("--follow waits for a pipe, and standard input is a terminal")
            .with_hint("Pipe something in: tail -f app.log | gimlet -p --follow \"alert me about errors\""));
    }
    let only_streaming = [
        ("--include-partial-messages", run.include_partial_messages),
        ("--forward-subagent-text", run.forward_subagent_text),
        ("--include-hook-events", run.include_hook_events),
    ];
    match only_streaming.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) if run.output_format != OutputFormat::StreamJson => {
            Err(Report::new(format!("{flag} needs another output format")).with_hint("Add --output-format stream-json"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns an error if the tool for permission questions is not named as a server's tool.
pub(crate) fn check_permission_tool(run: &RunArgs) -> Result<(), Report> {
    let is_server_tool = |name: &str| {
        let parts = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        parts.is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty())
    };
    match run.permission_prompt_tool.as_deref().filter(|tool| *tool != "stdio" && !is_server_tool(tool)) {
        None => Ok(()),
        Some(tool) => Err(Report::new(format!("--permission-prompt-tool {tool}: this is no tool of a server"))
            .with_hint("Use stdio and answer can_use_tool requests, or name a tool as mcp__server__tool")),
    }
}

pub(crate) fn thread_error(error: std::io::Error) -> Report {
    Report::new(format!("no thread could be started: {error}")).with_hint("Free some memory or raise the process limit")
}

/// Returns the prompt that resumes an interrupted turn, if the caller asked for that and there is one.
fn interrupted_turn_prompt(
    run: &RunArgs,
    request: &LaunchRequest,
    around: &ProcessEnv,
) -> Result<Option<SubmittedPrompt>, Report> {
    let resumes = run.resume.is_some() || run.continue_session;
    let wanted = resumes && run.prompt.is_none() && around.env.flag("CLAUDE_CODE_RESUME_INTERRUPTED_TURN");
    if !wanted || !start::is_mid_turn(request, around)? {
        return Ok(None);
    }
    Ok(Some(SubmittedPrompt::from_text(around.env.get("CLAUDE_CODE_RESUME_PROMPT").unwrap_or(GO_ON))))
}

/// Reads the first prompt from the argument and standard input, or uses the fallback, and returns the rest of an
/// endless pipe.
async fn read_prompt(
    run: &RunArgs,
    otherwise: Option<SubmittedPrompt>,
    notes: &LineOutput,
) -> Result<(SubmittedPrompt, Option<PipedInput>), Report> {
    let argument = run.prompt.as_deref().map(str::trim).filter(|text| !text.is_empty());
    if std::io::stdin().is_terminal() {
        let prompt = argument.map(typed_prompt).or(otherwise).ok_or_else(|| missing_prompt_report(run))?;
        return Ok((prompt, None));
    }
    let mut input = PipedInput::start(std::io::stdin(), InputTimeouts::BATCH).map_err(thread_error)?;
    if run.follow {
        input.follow().await;
    }
    let piped = match argument {
        Some(_) => input.read_opening(InputTimeouts::OPENING).await,
        // With a fallback prompt, an idle pipe is not waited for.
        None if otherwise.is_some() && !input.has_input_within(InputTimeouts::OPENING.quiet).await => {
            Ok(InitialInput::Whole(String::new()))
        }
        // The pipe is the prompt, and must be complete.
        None => input.read_to_end().await.map(InitialInput::Whole),
    };
    let piped = match piped {
        Ok(feed) => feed,
        Err(error @ StdinError::TooLarge) => return Err(Report::new(error.to_string())),
        Err(error @ StdinError::Unreadable(_)) => {
            let prompt =
                argument.ok_or_else(|| Report::new(error.to_string()).with_hint("Give the prompt as an argument"))?;
            notes.line(format!("gimlet: {error}; going on with the prompt alone\n").into_bytes()).await;
            return Ok((typed_prompt(prompt), None));
        }
    };
    let (text, rest) = match piped {
        InitialInput::Whole(text) => (text, None),
        InitialInput::Opening(text) => (text, Some(input)),
    };
    let prompt = match (argument, text.trim().is_empty()) {
        (Some(argument), true) => typed_prompt(argument),
        // Only typed text can name files; a pipe brings data.
        (Some(argument), false) => SubmittedPrompt {
            mentions: MentionScope::In(argument.to_owned()),
            ..SubmittedPrompt::from_text(&format!("{argument}\n\n{}", enclose_in_tag("stdin", text.trim_end())))
        },
        (None, false) => typed_prompt(text.trim()),
        (None, true) => otherwise.ok_or_else(|| missing_prompt_report(run))?,
    };
    Ok((prompt, rest))
}

/// Returns a prompt made only of the user's own text.
fn typed_prompt(text: &str) -> SubmittedPrompt {
    SubmittedPrompt { mentions: MentionScope::Everywhere, ..SubmittedPrompt::from_text(text) }
}

/// Returns an error if there is neither a prompt nor a pipe that may bring one, nor a turn to resume.
pub(crate) fn check_prompt(run: &RunArgs, around: &ProcessEnv) -> Result<(), Report> {
    let is_given = run.prompt.as_deref().is_some_and(|text| !text.trim().is_empty());
    let goes_on = around.env.flag("CLAUDE_CODE_RESUME_INTERRUPTED_TURN");
    if is_given || goes_on || !std::io::stdin().is_terminal() { Ok(()) } else { Err(missing_prompt_report(run)) }
}

fn missing_prompt_report(run: &RunArgs) -> Report {
    let tools = run.tools.as_deref().unwrap_or_default();
    let lists = [&run.allowed_tools, &run.disallowed_tools, &run.betas, tools].into_iter().any(|list| list.len() > 1);
    let report =
        Report::new("Error: Input must be provided either through stdin or as a prompt argument when using --print");
    if lists || run.add_dir.len() > 1 {
        return report.with_hint("A flag that takes a list took it: put the prompt first, or after '--'");
    }
    if let Some(name) = run.resume.as_deref().filter(|name| !name.is_empty()) {
        return report
            .with_hint(format!("'{name}' counts as the session of --resume: put the prompt before that flag"));
    }
    report.with_hint("Give one: gimlet -p \"what to do\", or pipe it in")
}

fn open_debug_file(run: &RunArgs, around: &ProcessEnv, session: &str) -> Result<std::fs::File, Report> {
    let path = match &run.debug_file {
        Some(path) => around.cwd.join(path),
        // The variable is named like a folder but holds a file.
        None => match around.env.get("CLAUDE_CODE_DEBUG_LOGS_DIR") {
            Some(path) => around.cwd.join(path),
            None => around.config_home.join("debug").join(format!("{session}.txt")),
        },
    };
    create_private_file(&path)
        .map_err(|error| Report::new(format!("the debug log {} cannot be written: {error}", path.display())))
}

fn create_private_file(path: &PathBuf) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(parent) = path.parent() {
        gimlet_store::create_private_dirs(parent)?;
    }
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
