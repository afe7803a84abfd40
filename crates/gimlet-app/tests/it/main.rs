//! The host as a front end uses it: over real files and a scripted model.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its session must stop")]

mod host_sessions;
mod host_settings;

use gimlet_app::start::{self, LaunchOptions};
use gimlet_app::{HostedSessions, LaunchRequest, ProcessEnv, SessionHost};
use gimlet_proto::{BoxFuture, Env, EventBody, EventReader, Op, SessionHandle, SubmittedPrompt};
use gimlet_testkit::TestWorld;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A front end with its host and the session that runs.
struct FrontEnd {
    host: SessionHost,
    session: SessionHandle,
    events: EventReader,
    sessions: HostedSessions,
    arrivals: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    running: JoinSet<()>,
}

impl FrontEnd {
    /// Opens a session in the world's project.
    async fn open(world: &TestWorld, url: &str) -> Self {
        let env = Env::default()
            .with("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1")
            .with("HOME", &world.home)
            .with("PATH", "/usr/bin:/bin")
            .with("ANTHROPIC_API_KEY", "test-key")
            .with("ANTHROPIC_BASE_URL", url);
        let around = ProcessEnv::resolve(env, Ok(world.project.clone())).unwrap();
        let (request, options) = (LaunchRequest::default(), LaunchOptions::default());
        let started = start::start(&request, &around, &options).await.unwrap();
        let (sessions, arrivals) = HostedSessions::new();
        let session = sessions.add_session(started);
        let host = SessionHost::new(request, around, options, sessions.clone());
        let mut front =
            Self { host, events: session.subscribe(), session, sessions, arrivals, running: JoinSet::new() };
        front.run_arrival();
        front
    }

    /// Runs the session that was opened last.
    fn run_arrival(&mut self) {
        let life = self.arrivals.try_recv().unwrap();
        self.running.spawn(life);
    }

    /// Goes on with another session.
    fn follow(&mut self, session: SessionHandle) {
        self.events = session.subscribe();
        self.session = session;
        self.run_arrival();
    }

    /// Submits a prompt and waits until its turn is over.
    async fn say(&mut self, text: &str) {
        self.session.send(Op::Submit(SubmittedPrompt::from_text(text)));
        while let Some(event) = self.events.next().await {
            if matches!(event.body, EventBody::TurnEnded(_)) {
                return;
            }
        }
        panic!("the session ended before its turn did");
    }

    /// Ends the session, so that another can replace it.
    async fn close_session(&mut self) {
        self.session.send(Op::Close);
        while self.running.join_next().await.is_some() {}
    }

    async fn finish(mut self) {
        self.close_session().await;
        assert_eq!(self.sessions.shut_down().await, Vec::<String>::new());
    }
}
