//! `gimlet -p`: signals, standard input and output, and the exit code.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use gimlet_proto::{Mentions, Say, SessionHandle, enclosed};
use gimlet_serve::print::{self, Format, PrintEnd, PrintJob};
use gimlet_serve::{Face, Feed, Filter, Output, Patience, PipedInput, StdinError, write_log};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::args::{OutputFormat, RunArgs};
use crate::report::Report;
use crate::signals::{INTERRUPTED, Signals, Stop};
use crate::start::{self, Manner};
use crate::surroundings::Surroundings;

/// How long the debug log may take for its last lines.
pub(crate) const LOG_GRACE: Duration = Duration::from_secs(1);

/// What is said to a session that is to go on where it was cut off.
const GO_ON: &str = "You were interrupted in the middle of this. Go on from where you were.";

/// What a shell reports for a program whose reader went away.
pub(crate) const PIPE_CLOSED: u8 = 141;

/// Runs print mode to its end.
pub(crate) async fn run(run: &RunArgs, around: &Surroundings) -> Result<ExitCode, Report> {
    check_flags(run)?;
    let notes = Output::new(std::io::stderr()).map_err(no_thread)?;
    let (prompt, input) = read_prompt(run, interrupted_turn(run, around)?, &notes).await?;
    if let Some(problem) = gimlet_serve::sdk::unavailable_command(&prompt.blocks) {
        return Err(Report::new(problem));
    }
    let wire_events = run.include_partial_messages && run.output_format == OutputFormat::StreamJson;
    let manner = Manner { wire_events, ..Manner::default() };
    let started = start::start(run, around, &manner).await?;
    notes.remarks(&started.warnings).await;
    let (interrupt, interrupts) = mpsc::unbounded_channel();
    let job = PrintJob {
        format: match run.output_format {
            OutputFormat::Text => Format::Text,
            OutputFormat::Json => Format::Json,
            OutputFormat::StreamJson => Format::StreamJson,
        },
        verbose: run.verbose,
        partial: run.include_partial_messages,
        subagent_text: run.forward_subagent_text,
        saved: !run.no_session_persistence,
        face: Face { sandbox_missing: started.facts.sandbox_missing.clone(), ..Face::default() },
        prompt,
        input,
        out: Output::new(std::io::stdout()).map_err(no_thread)?,
        notes,
        interrupts,
    };
    let mut tasks = JoinSet::new();
    if let Some(log) = debug_log(run, around, &started.handle)? {
        tasks.spawn(log);
    }
    let mut life = JoinSet::new();
    life.spawn(started.life);
    let mut signals = Signals::listen(interrupt);
    let end = tokio::select! {
        end = print::run(started.handle.clone(), job) => end,
        () = breaks_down(&mut life) => PrintEnd::Failure,
        stop = signals.stop() => {
            if let Stop::Soon(_) = stop {
                started.handle.leave();
                signals.bear(async { while life.join_next().await.is_some() {} }).await;
            }
            life.shutdown().await;
            tasks.shutdown().await;
            started.behind.clear_away().await;
            return Ok(ExitCode::from(stop.code()));
        }
    };
    while life.join_next().await.is_some() {}
    // The log ends with the session; one that lost its session is not waited for.
    drop(tokio::time::timeout(LOG_GRACE, async { while tasks.join_next().await.is_some() {} }).await);
    started.behind.clear_away().await;
    Ok(match end {
        PrintEnd::Success => ExitCode::SUCCESS,
        PrintEnd::Failure => ExitCode::from(1),
        PrintEnd::Interrupted => ExitCode::from(INTERRUPTED),
        PrintEnd::OutputClosed => ExitCode::from(PIPE_CLOSED),
    })
}

/// The debug log of a session, if one is wanted; to be run beside it.
pub(crate) fn debug_log(
    run: &RunArgs,
    around: &Surroundings,
    session: &SessionHandle,
) -> Result<Option<impl Future<Output = ()> + Send + use<>>, Report> {
    if run.debug.is_none() && run.debug_file.is_none() && !around.env.flag("DEBUG") {
        return Ok(None);
    }
    let mut file = debug_file(run, around, &session.id.to_string())?;
    let events = session.subscribe();
    let filter = Filter::parse(run.debug.as_deref().unwrap_or(""));
    let without = run.without.join(" ");
    let env = around.env.clone();
    Ok(Some(async move {
        // A log that cannot be written is no reason to stop the work it describes.
        if !without.is_empty() {
            drop(writeln!(file, "flags without effect in this version: {without}"));
        }
        drop(write_log(events, filter, gimlet_core::mask_tokens, &mut file).await);
        // Most are read when a call needs them, so all are known only now.
        for name in env.take_no_numbers() {
            drop(writeln!(file, "{name} is no whole number and was not used"));
        }
    }))
}

/// Resolves when the session ended by a bug; its words are on stderr already. A session that ends in good order tells
/// the front end itself.
pub(crate) async fn breaks_down(life: &mut JoinSet<()>) {
    if !matches!(life.join_next().await, Some(Err(_))) {
        std::future::pending::<()>().await;
    }
}

/// Flags that would do nothing are refused.
fn check_flags(run: &RunArgs) -> Result<(), Report> {
    if run.replay_user_messages {
        return Err(Report::new("--replay-user-messages is for programs that drive the session")
            .hint("Add --input-format stream-json and --output-format stream-json"));
    }
    let only_streaming = [
        ("--include-partial-messages", run.include_partial_messages),
        ("--forward-subagent-text", run.forward_subagent_text),
    ];
    match only_streaming.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) if run.output_format != OutputFormat::StreamJson => {
            Err(Report::new(format!("{flag} needs another output format")).hint("Add --output-format stream-json"))
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn no_thread(error: std::io::Error) -> Report {
    Report::new(format!("no thread could be started: {error}")).hint("Free some memory or raise the process limit")
}

/// What is said to a session that was cut off in a turn, when whoever starts gimlet wants that turn to go on by itself.
fn interrupted_turn(run: &RunArgs, around: &Surroundings) -> Result<Option<Say>, Report> {
    let resumes = run.resume.is_some() || run.continue_session;
    let wanted = resumes && run.prompt.is_none() && around.env.flag("CLAUDE_CODE_RESUME_INTERRUPTED_TURN");
    if !wanted || !start::is_mid_turn(run, around)? {
        return Ok(None);
    }
    Ok(Some(Say::text(around.env.get("CLAUDE_CODE_RESUME_PROMPT").unwrap_or(GO_ON))))
}

/// The first prompt from the argument and standard input, or what is said without either, and the rest of an endless pipe.
async fn read_prompt(
    run: &RunArgs,
    otherwise: Option<Say>,
    notes: &Output,
) -> Result<(Say, Option<PipedInput>), Report> {
    let argument = run.prompt.as_deref().map(str::trim).filter(|text| !text.is_empty());
    if std::io::stdin().is_terminal() {
        let prompt = argument.map(typed).or(otherwise).ok_or_else(|| no_prompt(run))?;
        return Ok((prompt, None));
    }
    let mut input = PipedInput::start(std::io::stdin(), Patience::BATCH).map_err(no_thread)?;
    let piped = match argument {
        Some(_) => input.opening(Patience::OPENING).await,
        // Nobody waits for a pipe that may never bring anything, where there is something to say.
        None if otherwise.is_some() && !input.speaks(Patience::OPENING.quiet).await => Ok(Feed::Whole(String::new())),
        // The pipe is the prompt, and half a prompt is none.
        None => input.whole().await.map(Feed::Whole),
    };
    let piped = match piped {
        Ok(feed) => feed,
        Err(error @ StdinError::TooLarge) => return Err(Report::new(error.to_string())),
        Err(error @ StdinError::Unreadable(_)) => {
            let prompt =
                argument.ok_or_else(|| Report::new(error.to_string()).hint("Give the prompt as an argument"))?;
            notes.line(format!("gimlet: {error}; going on with the prompt alone\n").into_bytes()).await;
            return Ok((typed(prompt), None));
        }
    };
    let (text, rest) = match piped {
        Feed::Whole(text) => (text, None),
        Feed::Opening(text) => (text, Some(input)),
    };
    let prompt = match (argument, text.trim().is_empty()) {
        (Some(argument), true) => typed(argument),
        // Only what was typed names files; a pipe brings data.
        (Some(argument), false) => Say {
            mentions: Mentions::In(argument.to_owned()),
            ..Say::text(&format!("{argument}\n\n{}", enclosed("stdin", text.trim_end())))
        },
        (None, false) => typed(text.trim()),
        (None, true) => otherwise.ok_or_else(|| no_prompt(run))?,
    };
    Ok((prompt, rest))
}

/// A prompt that is all somebody's own words.
fn typed(text: &str) -> Say {
    Say { mentions: Mentions::Everywhere, ..Say::text(text) }
}

/// Whoever has neither given a prompt nor a pipe that may bring one need not be asked anything else.
pub(crate) fn check_prompt(run: &RunArgs, around: &Surroundings) -> Result<(), Report> {
    let is_given = run.prompt.as_deref().is_some_and(|text| !text.trim().is_empty());
    let goes_on = around.env.flag("CLAUDE_CODE_RESUME_INTERRUPTED_TURN");
    if is_given || goes_on || !std::io::stdin().is_terminal() { Ok(()) } else { Err(no_prompt(run)) }
}

fn no_prompt(run: &RunArgs) -> Report {
    let tools = run.tools.as_deref().unwrap_or_default();
    let lists = [&run.allowed_tools, &run.disallowed_tools, &run.betas, tools].into_iter().any(|list| list.len() > 1);
    let report =
        Report::new("Error: Input must be provided either through stdin or as a prompt argument when using --print");
    if lists || run.add_dir.len() > 1 {
        return report.hint("A flag that takes a list took it: put the prompt first, or after '--'");
    }
    if let Some(name) = run.resume.as_deref().filter(|name| !name.is_empty()) {
        return report.hint(format!("'{name}' counts as the session of --resume: put the prompt before that flag"));
    }
    report.hint("Give one: gimlet -p \"what to do\", or pipe it in")
}

fn debug_file(run: &RunArgs, around: &Surroundings, session: &str) -> Result<std::fs::File, Report> {
    let path = match &run.debug_file {
        Some(path) => around.cwd.join(path),
        // By its name a folder, and yet a file.
        None => match around.env.get("CLAUDE_CODE_DEBUG_LOGS_DIR") {
            Some(path) => around.cwd.join(path),
            None => around.config_home.join("debug").join(format!("{session}.txt")),
        },
    };
    create_private(&path)
        .map_err(|error| Report::new(format!("the debug log {} cannot be written: {error}", path.display())))
}

fn create_private(path: &PathBuf) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(parent) = path.parent() {
        gimlet_store::create_private_dirs(parent)?;
    }
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
