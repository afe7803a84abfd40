//! Signals that end a run: who is told of them, and how long anything may still take.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A second interrupt within this time ends gimlet at once.
const TWICE: Duration = Duration::from_secs(2);

/// One who tells a run to go may say so more than once: a terminal and its shell both do. So soon after the first signal
/// others are no second thought.
const ECHO: Duration = Duration::from_millis(500);

/// How long a run may take to go. Whoever sends SIGTERM often sends SIGKILL five seconds later, and whatever is left then
/// is still to be cleared away.
const LEAVING: Duration = Duration::from_secs(3);

pub(crate) const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;
const HUNG_UP: u8 = 129;

/// gimlet has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Somebody has waited already.
    AtOnce(u8),
    /// As soon as those have been told who want to know.
    Soon(u8),
}

impl Stop {
    pub(crate) fn code(self) -> u8 {
        let (Self::AtOnce(code) | Self::Soon(code)) = self;
        code
    }
}

/// The signals that gimlet answers itself, from when this is made.
pub(crate) struct Signals {
    int: Option<Signal>,
    term: Option<Signal>,
    hup: Option<Signal>,
    last_interrupt: Option<Instant>,
    interrupt: mpsc::UnboundedSender<()>,
}

impl Signals {
    /// Interrupts are passed on.
    pub(crate) fn listen(interrupt: mpsc::UnboundedSender<()>) -> Self {
        let listen = |kind| signal(kind).ok();
        Self {
            int: listen(SignalKind::interrupt()),
            term: listen(SignalKind::terminate()),
            hup: listen(SignalKind::hangup()),
            last_interrupt: None,
            interrupt,
        }
    }

    /// Resolves when gimlet has to go.
    pub(crate) async fn stop(&mut self) -> Stop {
        loop {
            tokio::select! {
                () = next(&mut self.int) => {
                    if self.last_interrupt.is_some_and(|last| last.elapsed() < TWICE) {
                        return Stop::AtOnce(INTERRUPTED);
                    }
                    self.last_interrupt = Some(Instant::now());
                    // A run that is already over has nobody left to interrupt.
                    let _ = self.interrupt.send(());
                }
                () = next(&mut self.term) => return Stop::Soon(TERMINATED),
                () = next(&mut self.hup) => return Stop::Soon(HUNG_UP),
            }
        }
    }

    /// Lets a run come to its end after it was told to go: not for long, and not when it is told so again later.
    pub(crate) async fn bear(&mut self, last_steps: impl Future<Output = ()>) {
        let told = Instant::now();
        let told_again = async {
            loop {
                tokio::select! {
                    () = next(&mut self.int) => {}
                    () = next(&mut self.term) => {}
                    () = next(&mut self.hup) => {}
                }
                if told.elapsed() >= ECHO {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = told_again => {}
            // What was not done by then is not done.
            _ = tokio::time::timeout(LEAVING, last_steps) => {}
        }
    }
}

async fn next(signal: &mut Option<Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending().await
    }
}
