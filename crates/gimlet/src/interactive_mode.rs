//! `gimlet` in a terminal: opens the session beside the terminal UI, and ends both in order.

mod terminal_services;
mod terminal_settings;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use gimlet_app::{
    HostedSessions, LaunchRequest, ProcessEnv, SessionHost,
    start::{self, LaunchOptions},
};
use gimlet_proto::{EntryId, OpenedSession};
use gimlet_tui::app::AppOptions;
use gimlet_tui::run::{FrontEndEnd, FrontEndSetup, SessionStart};
use gimlet_tui::screen::terminal_mode;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::args::RunArgs;
use crate::print_mode;
use crate::report::Report;
use crate::session_commands::application_commands;
use crate::signals::{INTERRUPTED, SignalListener};
use crate::{config_cmd, first_run};
use terminal_services::ProgramServices;

/// The last panic while the terminal UI was shown.
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Keeps the message of a panic until the terminal is back.
pub(crate) fn note_panic(message: String) {
    *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
}

/// Prints the message of a panic that ends gimlet. To be dropped after the terminal UI.
struct PanicPrinter;

impl Drop for PanicPrinter {
    fn drop(&mut self) {
        let message = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(message) = message.filter(|_| std::thread::panicking()) {
            crate::print_error_line(&message);
        }
    }
}

/// Returns true if the terminal UI can be shown: input and output are a terminal that can move its cursor.
pub(crate) fn has_terminal(around: &ProcessEnv) -> bool {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    is_terminal && around.env.exact("TERM") != Some("dumb")
}

/// Runs the terminal UI to its end.
///
/// Without a credential it asks for one first; `advice` is then what else there is to do.
pub(crate) async fn run(
    run: &RunArgs,
    request: &LaunchRequest,
    around: &ProcessEnv,
    advice: Option<String>,
) -> Result<ExitCode, Report> {
    let commands = application_commands(request, around);
    let options = LaunchOptions { attended: true, entrypoint: "cli", commands, ..LaunchOptions::default() };
    let (sessions, mut arrivals) = HostedSessions::new();
    let host = SessionHost::new(request.clone(), around.clone(), options.clone(), sessions.clone());
    let effective = config_cmd::read_for_session(request, around).effective;
    let settings = &effective.settings;
    let services = Arc::new(ProgramServices::new(request, around, &effective));
    let is_logged_in = advice.is_none();
    let opening = || open_first(request.clone(), around.clone(), options.clone(), sessions.clone());
    let setup = FrontEndSetup {
        options: AppOptions {
            first_prompt: run.prompt.clone().filter(|prompt| !prompt.trim().is_empty()),
            version: gimlet_proto::VERSION.to_owned(),
            branch: gimlet_git::git_branch(&around.cwd),
            new_entry_id: || EntryId::new(gimlet_store::new_session_id().as_str()),
            now_ms_since_1970: terminal_services::now_ms,
            ..terminal_settings::app_options(around, settings)
        },
        traits: terminal_settings::terminal_traits(&around.env, settings),
        host: Arc::new(host),
        services,
        start: match (advice, run.resume.as_deref()) {
            (Some(advice), _) => SessionStart::LoggingIn { advice, opening: opening() },
            (None, Some("")) => SessionStart::Picking,
            (None, _) => SessionStart::Opening(opening()),
        },
        home: around.home.clone(),
        cwd: around.cwd.clone(),
    };
    let _printer = PanicPrinter;
    let (interrupt, mut interrupts) = mpsc::unbounded_channel();
    let mut signals = SignalListener::listen_with_cleanup(interrupt, terminal_mode::restore_terminal);
    let mut lives = JoinSet::new();
    let mut front_end = Box::pin(gimlet_tui::run::run(setup));
    let end = loop {
        tokio::select! {
            biased;
            stop = signals.wait_for_stop() => {
                // Puts the terminal back before anything that takes time.
                drop(front_end);
                sessions.request_exit();
                signals.drain_with_deadline(async { while lives.join_next().await.is_some() {} }).await;
                lives.shutdown().await;
                crate::print_remarks(&sessions.shut_down().await);
                return Ok(ExitCode::from(stop.code()));
            }
            // In raw mode Ctrl+C is a key; a signal comes from elsewhere and ends gimlet.
            Some(()) = interrupts.recv() => {
                drop(front_end);
                lives.shutdown().await;
                crate::print_remarks(&sessions.shut_down().await);
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Some(life) = arrivals.recv() => {
                lives.spawn(life);
            }
            Some(_) = lives.join_next() => {}
            end = &mut front_end => break end,
        }
    };
    drop(front_end);
    let end = end.map_err(|error| Report::new(format!("the terminal cannot be used: {error}")))?;
    sessions.request_exit();
    drop(tokio::time::timeout(print_mode::LOG_GRACE, async { while lives.join_next().await.is_some() {} }).await);
    lives.shutdown().await;
    crate::print_remarks(&sessions.shut_down().await);
    if !is_logged_in && end.session.is_none() && end.failure.is_none() {
        crate::print_error_line(&first_run::setup_instructions(&around.env));
        return Ok(ExitCode::from(1));
    }
    finish(&end)
}

/// Opens the session that the command line asks for.
fn open_first(
    request: LaunchRequest,
    around: ProcessEnv,
    options: LaunchOptions,
    sessions: HostedSessions,
) -> gimlet_proto::BoxFuture<'static, Result<OpenedSession, String>> {
    Box::pin(async move {
        let started = start::start(&request, &around, &options).await.map_err(|error| error.text())?;
        let (facts, warnings) = (started.facts.clone(), sessions.take_new_remarks(&started.warnings));
        Ok(OpenedSession { session: sessions.add_session(started), facts, warnings })
    })
}

/// Says how to go on with the session, or why there was none.
fn finish(end: &FrontEndEnd) -> Result<ExitCode, Report> {
    if let Some(problem) = &end.failure {
        return Err(Report::new(problem.clone()));
    }
    if let Some(session) = end.session.as_ref().filter(|_| end.has_conversation) {
        crate::print_line(&format!("Go on with this conversation: gimlet --resume {session}"));
    }
    Ok(ExitCode::SUCCESS)
}
