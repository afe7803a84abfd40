//! The loop that carries keys, session events and time to the application state, and its effects to the world.
//!
//! It draws when something changed, at most 60 times a second, and sleeps when nothing happens.

mod effect_runner;
mod going_back;
mod session_link;
mod session_services;
mod terminal_output;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{
    BoxFuture, Event, Host, NoticeLevel, Op, OpenedSession, SessionOverrides, SessionQuery, SessionReplacement,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::app::{AppEffect, AppInput, AppOptions, AppReply, TerminalApp};
use crate::screen::key_reader::{KeyReader, TerminalInput};
use crate::services::TerminalServices;
use going_back::RewindSequel;
use session_link::SessionLink;
use terminal_output::TerminalOutput;
pub use terminal_output::TerminalTraits;

/// Shortest time between two pictures that no key asked for.
const FRAME: Duration = Duration::from_millis(16);

/// What a front end is started with.
pub struct FrontEndSetup {
    pub options: AppOptions,
    pub traits: TerminalTraits,
    pub host: Arc<dyn Host>,
    pub services: Arc<dyn TerminalServices>,
    pub start: SessionStart,
    pub home: Option<std::path::PathBuf>,
    pub cwd: std::path::PathBuf,
}

/// How the first session comes about.
pub enum SessionStart {
    Opening(BoxFuture<'static, Result<OpenedSession, String>>),
    /// The user chooses one of the earlier sessions.
    Picking,
    /// There is no key: the user is asked for one first.
    LoggingIn {
        /// What else the user could do.
        advice: String,
        opening: BoxFuture<'static, Result<OpenedSession, String>>,
    },
}

/// How a front end ended.
#[derive(Debug, Default)]
pub struct FrontEndEnd {
    /// The session that was shown last.
    pub session: Option<gimlet_proto::SessionId>,
    /// True if something was said in it.
    pub has_conversation: bool,
    /// The reason why there was no session.
    pub failure: Option<String>,
}

/// Result of work beside the loop.
enum FinishedWork {
    Reply(AppReply),
    /// A session was opened, or not.
    Opened(Result<SessionLink, String>, OpenedFor),
    /// The files were restored, or not; the conversation follows.
    FilesRestored(Result<String, String>, RewindSequel),
    /// A summary of the end of the conversation, which it is to replace.
    Summarized(Result<String, String>, RewindSequel),
    /// What holds for the original of this session alone.
    Overrides(SessionOverrides),
    /// A key was tested and stored, or not.
    LoggedIn(Result<String, String>),
    Nothing,
}

/// Why a session was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenedFor {
    Start,
    Clear,
    Resume,
    Rewind,
    Branch,
}

/// Runs the front end to its end. Dropping the future puts the terminal back as it was found.
pub async fn run(setup: FrontEndSetup) -> io::Result<FrontEndEnd> {
    FrontEnd::new(setup)?.run().await
}

struct FrontEnd {
    app: TerminalApp,
    output: TerminalOutput,
    reader: KeyReader,
    keys: mpsc::UnboundedReceiver<TerminalInput>,
    resizes: Signal,
    host: Arc<dyn Host>,
    services: Arc<dyn TerminalServices>,
    session: Option<SessionLink>,
    /// Operations for a session that is not open yet.
    early_ops: Vec<Op>,
    /// The session that is to follow once this one is closed.
    successor: Option<(SessionReplacement, OpenedFor)>,
    work: JoinSet<FinishedWork>,
    /// The question beside the conversation that is being answered.
    aside: Option<AbortHandle>,
    /// The first session, which opens once there is a key.
    awaiting_key: Option<BoxFuture<'static, Result<OpenedSession, String>>>,
    started_at: Instant,
    last_frame: Instant,
    /// When the next picture is due; `None` if nothing changed.
    due: Option<Instant>,
    has_conversation: bool,
    end: Option<FrontEndEnd>,
}

impl FrontEnd {
    fn new(setup: FrontEndSetup) -> io::Result<Self> {
        let now = Instant::now();
        let output = TerminalOutput::take(setup.traits, setup.options.theme)?;
        let (reader, keys) = KeyReader::start()?;
        let mut app = TerminalApp::new(setup.options);
        app.facts_mut().home = setup.home;
        app.facts_mut().cwd = setup.cwd;
        let mut front_end = Self {
            app,
            output,
            reader,
            keys,
            resizes: signal(SignalKind::window_change())?,
            host: setup.host,
            services: setup.services,
            session: None,
            early_ops: Vec::new(),
            successor: None,
            work: JoinSet::new(),
            aside: None,
            awaiting_key: None,
            started_at: now,
            last_frame: now,
            due: Some(now),
            has_conversation: false,
            end: None,
        };
        match setup.start {
            SessionStart::Opening(opening) => front_end.open(opening, OpenedFor::Start),
            SessionStart::Picking => {
                front_end.carry_out(vec![AppEffect::ListSessions(gimlet_proto::SessionScope::Folder)]);
            }
            SessionStart::LoggingIn { advice, opening } => {
                front_end.app.ask_for_key(&advice);
                front_end.awaiting_key = Some(opening);
            }
        }
        front_end.read_prompts();
        Ok(front_end)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn run(mut self) -> io::Result<FrontEndEnd> {
        loop {
            if let Some(end) = self.end.take() {
                self.output.finish(&mut self.app)?;
                return Ok(end);
            }
            if self.due.is_some_and(|due| due <= Instant::now()) {
                self.draw()?;
            }
            let wake = self.wake_time();
            tokio::select! {
                biased;
                input = self.keys.recv() => {
                    let mut input = Some(input.unwrap_or(TerminalInput::Closed));
                    while let Some(next) = input {
                        self.take(AppInput::Terminal(next)).await?;
                        input = self.keys.try_recv().ok();
                    }
                    self.due = Some(Instant::now());
                }
                Some(()) = self.resizes.recv() => {
                    self.output.resize();
                    self.due = Some(Instant::now());
                }
                event = next_event(&mut self.session) => self.take_event(event).await?,
                Some(done) = self.work.join_next() => self.take_finished(done).await?,
                () = sleep_until(wake) => {
                    if self.due.is_none() {
                        self.take(AppInput::Tick).await?;
                        self.note_change();
                    }
                }
            }
        }
    }

    /// Returns when something is to be done although nothing happens.
    fn wake_time(&self) -> Option<Instant> {
        let tick = self.app.tick_ms().map(|ms| self.last_frame + Duration::from_millis(ms));
        match (self.due, tick) {
            (Some(due), _) => Some(due),
            (None, tick) => tick,
        }
    }

    /// Notes that a new picture is needed, but not at once.
    fn note_change(&mut self) {
        let earliest = self.last_frame + FRAME;
        self.due = Some(self.due.map_or(earliest, |due| due.min(earliest)));
    }

    fn draw(&mut self) -> io::Result<()> {
        self.due = None;
        self.last_frame = Instant::now();
        self.output.draw(&mut self.app)
    }

    async fn take(&mut self, input: AppInput) -> io::Result<()> {
        let now_ms = self.now_ms();
        let effects = self.app.update(input, now_ms);
        self.perform(effects).await
    }

    async fn take_event(&mut self, event: Option<Event>) -> io::Result<()> {
        let Some(event) = event else {
            // The session is over; its successor, if any, was asked for when it said so.
            self.session = None;
            return Ok(());
        };
        if let Some(session) = &self.session
            && let Some(snapshot) = session.changed_snapshot(&event.body)
        {
            self.take(AppInput::Snapshot(snapshot)).await?;
        }
        let is_closed = matches!(event.body, gimlet_proto::EventBody::Closed);
        self.has_conversation |= matches!(event.body, gimlet_proto::EventBody::Block(_));
        self.take(AppInput::Session(event)).await?;
        if is_closed && let Some((replacement, purpose)) = self.successor.take() {
            self.session = None;
            let opening = self.host.replace_session(replacement);
            self.open(opening, purpose);
        }
        self.note_change();
        Ok(())
    }

    async fn take_finished(&mut self, done: Result<FinishedWork, tokio::task::JoinError>) -> io::Result<()> {
        self.note_change();
        match done {
            Ok(FinishedWork::Reply(reply)) => self.take(AppInput::Reply(reply)).await,
            Ok(FinishedWork::Opened(Ok(link), purpose)) => self.begin_session(link, purpose).await,
            Ok(FinishedWork::Opened(Err(problem), OpenedFor::Start)) => {
                self.end = Some(FrontEndEnd { failure: Some(problem), ..FrontEndEnd::default() });
                Ok(())
            }
            Ok(FinishedWork::Opened(Err(problem), purpose)) => self.take_failed_opening(problem, purpose).await,
            Ok(FinishedWork::FilesRestored(outcome, sequel)) => {
                self.go_on_rewinding(outcome, sequel);
                Ok(())
            }
            Ok(FinishedWork::Summarized(answer, sequel)) => {
                self.go_on_with_summary(answer, sequel);
                Ok(())
            }
            Ok(FinishedWork::Overrides(overrides)) => {
                self.send(Op::Query(SessionQuery::ApplyOverrides(overrides)));
                Ok(())
            }
            Ok(FinishedWork::LoggedIn(outcome)) => {
                self.take_login(outcome);
                Ok(())
            }
            Ok(FinishedWork::Nothing) => Ok(()),
            // It was given up.
            Err(error) if error.is_cancelled() => Ok(()),
            Err(error) => {
                self.app.notice(NoticeLevel::Error, format!("something failed inside gimlet: {error}"));
                Ok(())
            }
        }
    }

    // Sessions

    /// Opens a session beside the loop. Its events are read from the first one on.
    fn open(&mut self, opening: BoxFuture<'static, Result<OpenedSession, String>>, purpose: OpenedFor) {
        self.work.spawn(async move { FinishedWork::Opened(opening.await.map(SessionLink::new), purpose) });
    }

    async fn begin_session(&mut self, link: SessionLink, purpose: OpenedFor) -> io::Result<()> {
        if purpose == OpenedFor::Branch {
            self.adopt_from_original()?;
        }
        if let Some(old) = self.session.take() {
            old.handle.send(Op::Close);
        }
        for warning in &link.warnings {
            self.app.notice(NoticeLevel::Warning, warning);
        }
        self.app.facts_mut().models.clone_from(&link.facts.models);
        self.app.facts_mut().earlier_usage.clone_from(&link.facts.earlier_usage);
        self.app.composer_mut().set_agents(link.facts.agents.clone());
        let is_first = purpose == OpenedFor::Start;
        let is_shown = matches!(purpose, OpenedFor::Rewind | OpenedFor::Branch);
        let has_history = link.has_history || is_shown || purpose == OpenedFor::Resume;
        let now_ms = self.now_ms();
        let effects = self.app.begin_session(&link.handle.snapshot(), is_first, now_ms);
        self.has_conversation = has_history;
        self.output.note_session(&link.handle.id);
        self.session = Some(link);
        if has_history && !is_shown {
            self.perform(vec![AppEffect::QueryHistory(crate::app::HistoryUse::Resumed)]).await?;
        }
        for op in std::mem::take(&mut self.early_ops) {
            self.send(op);
        }
        self.perform(effects).await
    }

    /// A session that was to follow cannot be opened. One that only was to be changed to is no loss.
    async fn take_failed_opening(&mut self, problem: String, purpose: OpenedFor) -> io::Result<()> {
        if self.session.is_some() {
            self.app.notice(NoticeLevel::Error, problem);
            return Ok(());
        }
        match purpose {
            OpenedFor::Rewind => {
                self.app.notice(NoticeLevel::Error, problem);
                if let Some(session) = self.end_session_id() {
                    let again = SessionReplacement::Resumed { session };
                    let opening = self.host.replace_session(again);
                    self.open(opening, OpenedFor::Start);
                }
            }
            OpenedFor::Start | OpenedFor::Clear | OpenedFor::Resume | OpenedFor::Branch => {
                self.end = Some(FrontEndEnd { failure: Some(problem), ..FrontEndEnd::default() });
            }
        }
        Ok(())
    }

    fn end_session_id(&self) -> Option<String> {
        self.output.last_session().map(|id| id.to_string())
    }

    /// Replaces the session. One to resume is opened first, so that a failure leaves the present one.
    fn replace_session(&mut self, replacement: SessionReplacement) {
        match (&self.session, &replacement) {
            (Some(_), SessionReplacement::Branched { .. }) => {
                let opening = self.host.replace_session(replacement);
                self.open(opening, OpenedFor::Branch);
            }
            (Some(_), SessionReplacement::Resumed { .. }) | (None, _) => {
                let opening = self.host.replace_session(replacement);
                self.open(opening, OpenedFor::Resume);
            }
            (Some(session), SessionReplacement::Cleared { .. } | SessionReplacement::Changed { .. }) => {
                session.handle.send(Op::Clear);
                self.successor = Some((replacement, OpenedFor::Clear));
            }
            (Some(session), SessionReplacement::Rewound { .. }) => {
                session.handle.send(Op::Close);
                self.successor = Some((replacement, OpenedFor::Rewind));
            }
        }
    }

    /// Says what became of a key; the first session opens if it waited for one.
    fn take_login(&mut self, outcome: Result<String, String>) {
        match outcome {
            Ok(text) => {
                self.app.notice(NoticeLevel::Info, text);
                if let Some(opening) = self.awaiting_key.take() {
                    self.open(opening, OpenedFor::Start);
                }
            }
            Err(problem) if self.awaiting_key.is_some() => self.app.ask_for_key(&problem),
            Err(problem) => self.app.notice(NoticeLevel::Error, problem),
        }
    }

    fn send(&mut self, op: Op) {
        match &self.session {
            Some(session) if self.successor.is_none() => session.handle.send(op),
            Some(_) | None => self.early_ops.push(op),
        }
    }

    fn exit(&mut self) {
        let session = self.session.as_ref().map(|session| session.handle.id.clone());
        self.end = Some(FrontEndEnd { session, has_conversation: self.has_conversation, failure: None });
    }
}

async fn next_event(session: &mut Option<SessionLink>) -> Option<Event> {
    match session {
        Some(session) => session.events.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
