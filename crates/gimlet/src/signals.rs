//! Signals that end a run: who is told of them, how long anything may still take, and who ends a run that is stuck.

use std::sync::{Arc, Mutex, PoisonError};
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
pub(crate) enum StopRequest {
    /// Somebody has waited already.
    AtOnce(u8),
    /// As soon as those have been told who want to know.
    Soon(u8),
}

impl StopRequest {
    pub(crate) fn code(self) -> u8 {
        let (Self::AtOnce(code) | Self::Soon(code)) = self;
        code
    }
}

/// The signals that gimlet answers itself, from when this is made.
pub(crate) struct SignalListener {
    streams: SignalStreams,
    last_signal: LastSignal,
    last_interrupt: Option<Instant>,
    interrupt: mpsc::UnboundedSender<()>,
}

impl SignalListener {
    /// Interrupts are passed on.
    pub(crate) fn listen(interrupt: mpsc::UnboundedSender<()>) -> Self {
        let (streams, last_signal) = (SignalStreams::listen(), LastSignal::default());
        // Without a thread to spare everything is as it is with one, but for a run that is stuck.
        drop(spawn_watchdog(last_signal.clone(), |code| std::process::exit(i32::from(code))));
        Self { streams, last_signal, last_interrupt: None, interrupt }
    }

    /// Resolves when gimlet has to go.
    pub(crate) async fn wait_for_stop(&mut self) -> StopRequest {
        loop {
            let code = self.next().await;
            if code != INTERRUPTED {
                return StopRequest::Soon(code);
            }
            if self.last_interrupt.is_some_and(|last| last.elapsed() < TWICE) {
                return StopRequest::AtOnce(INTERRUPTED);
            }
            self.last_interrupt = Some(Instant::now());
            // A run that is already over has nobody left to interrupt.
            let _ = self.interrupt.send(());
        }
    }

    /// Lets a run come to its end after it was told to go: not for long, and not when it is told so again later.
    pub(crate) async fn drain_with_deadline(&mut self, last_steps: impl Future<Output = ()>) {
        let told = Instant::now();
        let told_again = async {
            while told.elapsed() < ECHO {
                self.next().await;
            }
        };
        tokio::select! {
            biased;
            () = told_again => {}
            // What was not done by then is not done.
            _ = tokio::time::timeout(LEAVING, last_steps) => {}
        }
    }

    async fn next(&mut self) -> u8 {
        let code = self.streams.next().await;
        self.last_signal.record_now();
        code
    }
}

/// What signals say, as the exit codes that they stand for.
struct SignalStreams {
    int: Option<Signal>,
    term: Option<Signal>,
    hup: Option<Signal>,
}

impl SignalStreams {
    fn listen() -> Self {
        let listen = |kind| signal(kind).ok();
        Self {
            int: listen(SignalKind::interrupt()),
            term: listen(SignalKind::terminate()),
            hup: listen(SignalKind::hangup()),
        }
    }

    async fn next(&mut self) -> u8 {
        tokio::select! {
            () = wait_for_signal(&mut self.int) => INTERRUPTED,
            () = wait_for_signal(&mut self.term) => TERMINATED,
            () = wait_for_signal(&mut self.hup) => HUNG_UP,
        }
    }
}

async fn wait_for_signal(signal: &mut Option<Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending().await
    }
}

/// When the loop that drives everything last heard a signal.
#[derive(Clone, Default)]
struct LastSignal(Arc<Mutex<Option<Instant>>>);

impl LastSignal {
    fn record_now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether it heard what came then. It may have been the first to do so.
    fn has_seen(&self, then: Instant) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|last| last + ECHO >= then)
    }
}

/// Listens on a thread of its own, and ends gimlet in place of a loop that hears nothing any more. Whatever keeps it from
/// that, whoever wants gimlet gone is heard.
fn spawn_watchdog(heard: LastSignal, end: impl Fn(u8) + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = {
        let _inside = runtime.enter();
        SignalStreams::listen()
    };
    let listening = move || runtime.block_on(run_watchdog(told, heard, end));
    std::thread::Builder::new().name("signals".to_owned()).spawn(listening).map(drop)
}

async fn run_watchdog(mut told: SignalStreams, heard: LastSignal, end: impl Fn(u8)) {
    /// What was said before, and when.
    struct PreviousSignal {
        at: Instant,
        code: u8,
    }
    impl PreviousSignal {
        /// Whether an interrupt; one alone is no wish to end.
        fn interrupts(&self) -> bool {
            self.code == INTERRUPTED
        }
    }
    let mut before: Option<PreviousSignal> = None;
    loop {
        let waits = before.as_ref().filter(|before| !before.interrupts()).map(|before| before.at + LEAVING);
        let late = async {
            match waits {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let code = tokio::select! {
            code = told.next() => Some(code),
            () = late => None,
        };
        let now = Instant::now();
        let unheard = before.take().filter(|before| !heard.has_seen(before.at));
        before = match (unheard, code) {
            (Some(earlier), None) => return end(earlier.code),
            (None, None) => None,
            (Some(earlier), Some(code)) if earlier.interrupts() => {
                if code == INTERRUPTED && now - earlier.at < TWICE {
                    return end(code);
                }
                Some(PreviousSignal { at: now, code })
            }
            (Some(earlier), Some(_)) if now - earlier.at >= ECHO => return end(earlier.code),
            (Some(earlier), Some(_)) => Some(earlier),
            (None, Some(code)) => Some(PreviousSignal { at: now, code }),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "nothing safe sends a signal from within")]
    fn send_hangup() {
        let id = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    /// Nothing else in this process listens, as if the loop were stuck.
    #[test]
    fn a_stuck_run_ends_after_a_second_signal_or_a_timeout() {
        let (ended, end) = mpsc::channel();
        let watched = |heard: &LastSignal| {
            let ended = ended.clone();
            spawn_watchdog(heard.clone(), move |code| ended.send(code).unwrap_or_default()).unwrap();
        };
        let nobody = LastSignal::default();
        watched(&nobody);
        send_hangup();
        assert!(end.recv_timeout(ECHO + Duration::from_millis(100)).is_err(), "the loop may be slow");
        send_hangup();
        assert_eq!(end.recv_timeout(LEAVING / 2), Ok(HUNG_UP));
        watched(&nobody);
        send_hangup();
        assert_eq!(end.recv_timeout(LEAVING * 3), Ok(HUNG_UP));
        // A loop that hears ends by itself, as long as that takes.
        let heard = LastSignal::default();
        watched(&heard);
        send_hangup();
        heard.record_now();
        assert!(end.recv_timeout(LEAVING + ECHO).is_err());
    }
}
