//! Sessions that a program drives over standard input and output: flags, signals, and opening the first one with the
//! program's options.

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use gimlet_app::{
    HostedSessions, LaunchRequest, ProcessEnv, SessionHost,
    start::{self, LaunchOptions},
};
use gimlet_proto::{Driver, DriverHook, Env};
use gimlet_serve::LineOutput;
use gimlet_serve::sdk::{
    self, HostDriver, HostLine, HostLineError, HostLines, InitializeRequest, PermissionResponder, SdkEnd, SdkJob,
    StateAudience, TranscriptMirror,
};
use gimlet_store::MirrorFactory;
use gimlet_text::truncate_to_line;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::args::{OutputFormat, PermissionPrompts, RunArgs};
use crate::print_mode;
use crate::report::Report;
use crate::session_commands::application_commands;
use crate::signals::{INTERRUPTED, SignalListener, StopRequest};

/// Time that subagents may continue after the host's last line.
const AGENT_PATIENCE_MS: u64 = 600_000;

/// Timeout for the host to read why there is no session.
const FAREWELL: Duration = Duration::from_secs(5);

/// Timeout for the first line of a host whose session failed to start.
const FIRST_WORDS: Duration = Duration::from_secs(1);

/// Columns of a prompt that are shown in an error.
const SHOWN_PROMPT: usize = 60;

/// Runs the checks that need no host input: a host that has sent nothing yet must get these errors too.
pub(crate) fn check_start(run: &RunArgs, request: &LaunchRequest, around: &ProcessEnv) -> Result<(), Report> {
    check_flags(run)?;
    Ok(start::check_session(request, around)?)
}

/// Reads the first line of a host that already got the startup error. The host must be able to write: a broken pipe
/// would hide the error.
pub(crate) fn read_first_line() {
    let (heard, hears) = std::sync::mpsc::channel();
    let listen = move || {
        // Any input, including its end, is enough; the receiver may be gone already.
        drop(std::io::stdin().lock().read_until(b'\n', &mut Vec::new()));
        drop(heard);
    };
    if std::thread::Builder::new().name("stdin".to_owned()).spawn(listen).is_ok() {
        let _: Result<(), _> = hears.recv_timeout(FIRST_WORDS);
    }
}

/// Runs a driven session to its end, once it was checked.
pub(crate) async fn run(run: &RunArgs, plain: &LaunchRequest, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let notes = LineOutput::new(std::io::stderr()).map_err(print_mode::thread_error)?;
    let mut lines = HostLines::start(std::io::stdin()).map_err(print_mode::thread_error)?;
    let (interrupt, mut interrupts) = mpsc::unbounded_channel();
    let mut signals = SignalListener::listen(interrupt);
    // The host's options must be known before the session starts.
    let first = tokio::select! {
        biased;
        stop = signals.wait_for_stop() => return Ok(ExitCode::from(stop.code())),
        // There is no turn yet that could end with a result.
        Some(()) = interrupts.recv() => return Ok(ExitCode::from(INTERRUPTED)),
        first = first_request(&mut lines) => first,
    };
    let wishes = match &first {
        Some(Ok(line)) => InitializeRequest::from_line(line),
        Some(Err(_)) | None => None,
    };
    if run.await_initialize && wishes.is_none() && first.is_some() {
        return Err(Report::new("the first line on standard input was not an initialize request")
            .with_reason("initialize_not_first"));
    }
    let (host, requests) = HostDriver::new();
    let (mirror, feed) = sdk::mirror_channel();
    let feed = run.session_mirror.then_some(feed);
    let answers = permission_responder(run);
    let manner = LaunchOptions {
        attended: answers != PermissionResponder::Unattended,
        wire_events: run.include_partial_messages,
        mirror: feed.is_some().then(|| mirror_factory(mirror)),
        driver: Some(Arc::new(host.clone()) as Arc<dyn Driver>),
        hooks: wishes.as_ref().and_then(|wishes| wishes.hooks.clone()).unwrap_or_default(),
        driver_servers: wishes.as_ref().map(|wishes| wishes.sdk_mcp_servers.clone()).unwrap_or_default(),
        driver_server_configs: wishes.as_ref().map(|wishes| wishes.sdk_mcp_server_configs.clone()).unwrap_or_default(),
        commands: application_commands(plain, around),
        ..LaunchOptions::default()
    };
    let out = LineOutput::new(std::io::stdout()).map_err(print_mode::thread_error)?;
    let changes = wishes.as_ref().map(InitializeRequest::session_changes).unwrap_or_default();
    let request = plain.clone().with_changes(changes);
    let forwards_text = wishes.as_ref().and_then(|wishes| wishes.forward_subagent_text).unwrap_or(false);
    // A program that relies on its hooks must not continue without them.
    let check = |hooks: &[DriverHook]| gimlet_core::check_driver_hooks(hooks).map_err(|error| error.to_string());
    if let Err(problem) = wishes.as_ref().map_or(Ok(()), |wishes| wishes.check_hooks(check)) {
        return Err(refuse_start(&first, Report::new(problem), out).await);
    }
    let started = tokio::select! {
        biased;
        stop = signals.wait_for_stop() => return Ok(ExitCode::from(stop.code())),
        started = start::start(&request, around, &manner) => started,
    };
    let started = match started {
        Ok(started) => started,
        Err(error) if has_invalid_shape(&request, around) && !has_invalid_shape(plain, around) => {
            return Err(refuse_start(&first, error.into(), out).await);
        }
        Err(error) => return Err(error.into()),
    };
    let (troupe, mut arrivals) = HostedSessions::new();
    notes.queue_remarks(&troupe.take_new_remarks(&started.warnings)).await;
    let log = print_mode::debug_log_writer(run, &request, around, &started.handle)?;
    let facts = started.facts.clone();
    let handle = troupe.add_session(started);
    let job = SdkJob {
        first,
        initialize: wishes,
        lines,
        host,
        requests,
        backend: Arc::new(SessionHost::new(request, around.clone(), manner, troupe.clone())),
        facts,
        clock: gimlet_store::current_timestamp,
        partial: run.include_partial_messages,
        replay_prompts: run.replay_user_messages,
        hook_events: run.include_hook_events,
        subagent_text: run.forward_subagent_text
            || forwards_text
            || around.env.flag("CLAUDE_CODE_FORWARD_SUBAGENT_TEXT"),
        state_audience: state_audience(&around.env),
        responder: answers,
        mirror: feed,
        agent_timeout: agent_timeout(&around.env),
        out,
        notes,
        interrupts,
    };
    let mut tasks = JoinSet::new();
    if let Some(log) = log {
        tasks.spawn(log);
    }
    let mut lives = JoinSet::new();
    let end = {
        let driving = sdk::run(handle, job);
        tokio::pin!(driving);
        loop {
            tokio::select! {
                biased;
                Some(life) = arrivals.recv() => { lives.spawn(life); }
                end = &mut driving => break end,
                // A session that ends normally has notified the front end itself.
                Some(Err(_)) = lives.join_next() => break SdkEnd::Failure,
                stop = signals.wait_for_stop() => {
                    if let StopRequest::Soon(_) = stop {
                        troupe.request_exit();
                        // Hooks of the program are called meanwhile.
                        signals.drain_with_deadline(async {
                            loop {
                                tokio::select! {
                                    _ = &mut driving => break,
                                    Some(_) = lives.join_next() => {}
                                }
                            }
                        }).await;
                    }
                    lives.shutdown().await;
                    tasks.shutdown().await;
                    crate::print_remarks(&troupe.shut_down().await);
                    return Ok(ExitCode::from(stop.code()));
                }
            }
        }
    };
    while lives.join_next().await.is_some() {}
    // The log ends with the session; one that lost its session is not waited for.
    drop(tokio::time::timeout(print_mode::LOG_GRACE, async { while tasks.join_next().await.is_some() {} }).await);
    crate::print_remarks(&troupe.shut_down().await);
    Ok(match end {
        SdkEnd::Success => ExitCode::SUCCESS,
        SdkEnd::Failure => ExitCode::from(1),
        SdkEnd::Interrupted => ExitCode::from(INTERRUPTED),
        SdkEnd::OutputClosed => ExitCode::from(print_mode::PIPE_CLOSED),
    })
}

/// Returns the copiers of transcripts for a mirror.
fn mirror_factory(mirror: TranscriptMirror) -> MirrorFactory {
    Arc::new(move |path| Box::new(mirror.of(&path.to_string_lossy())))
}

/// Returns the first line that carries a request.
async fn first_request(lines: &mut HostLines) -> Option<Result<HostLine, HostLineError>> {
    loop {
        match lines.next().await {
            Some(Ok(line)) if !line.has_request() => {}
            first => return first,
        }
    }
}

/// Returns true if the answer schema or the agents are invalid.
fn has_invalid_shape(request: &LaunchRequest, around: &ProcessEnv) -> bool {
    start::check_schema_and_agents(request, &around.env).is_err()
}

/// Answers an initialize request that keeps the session from starting, as every request is answered; returns the
/// report.
async fn refuse_start(first: &Option<Result<HostLine, HostLineError>>, report: Report, out: LineOutput) -> Report {
    if let Some(Ok(greeting)) = first {
        out.line((sdk::refuse_initialize(greeting, report.text()) + "\n").into_bytes()).await;
    }
    // A host that does not read this does not read the result either.
    out.finish(Some(FAREWELL)).await;
    report
}

/// Refuses flags that contradict the protocol.
fn check_flags(run: &RunArgs) -> Result<(), Report> {
    if let Some(prompt) = run.prompt.as_deref().filter(|prompt| !prompt.is_empty()) {
        let prompt = truncate_to_line(prompt, SHOWN_PROMPT);
        return Err(Report::new(format!(
            "with --input-format stream-json prompts come on standard input, and '{prompt}' is an argument"
        ))
        .with_hint("Send it as a user message, or leave --input-format out"));
    }
    if run.output_format != OutputFormat::StreamJson {
        return Err(Report::new("--input-format stream-json needs the same output format")
            .with_hint("Add --output-format stream-json"));
    }
    if run.init_only {
        return Err(Report::new("--init-only has no conversation, and --input-format stream-json is for one")
            .with_hint("Leave one of them out; --init calls the hooks before a conversation"));
    }
    if run.session_mirror && run.no_session_persistence {
        return Err(Report::new("--session-mirror copies a transcript, and --no-session-persistence keeps none"));
    }
    print_mode::check_permission_tool(run)
}

/// Returns the responder to permission questions.
fn permission_responder(run: &RunArgs) -> PermissionResponder {
    match run.permission_prompt_tool.as_deref() {
        _ if run.permission_prompts == Some(PermissionPrompts::None) => PermissionResponder::Unattended,
        None => PermissionResponder::Unattended,
        Some("stdio") => PermissionResponder::Host,
        Some(tool) => PermissionResponder::Tool(tool.to_owned()),
    }
}

/// Returns the audience for changes of the session state.
fn state_audience(env: &Env) -> StateAudience {
    if env.flag("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") {
        StateAudience::Everybody
    } else if env.flag("CLAUDE_CODE_SDK_READS_SESSION_STATE") {
        StateAudience::HostOnly
    } else {
        StateAudience::Nobody
    }
}

fn agent_timeout(env: &Env) -> Option<Duration> {
    let ms = env.integer("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS").unwrap_or(AGENT_PATIENCE_MS);
    (ms > 0).then(|| Duration::from_millis(ms))
}
