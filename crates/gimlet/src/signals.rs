//! Signals that end a run: notification, deadlines, and the watchdog that ends a stuck run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A second interrupt within this time ends gimlet at once.
const TWICE: Duration = Duration::from_secs(2);

/// Time after the first signal during which others are ignored as duplicates: a terminal and its shell may both send
/// one.
const ECHO: Duration = Duration::from_millis(500);

/// Time that a run may take to end. SIGTERM is often followed by SIGKILL five seconds later, and cleanup must fit in
/// between.
const LEAVING: Duration = Duration::from_secs(3);

pub(crate) const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;
const HUNG_UP: u8 = 129;

/// Request to end gimlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopRequest {
    /// At once: a second interrupt came.
    AtOnce(u8),
    /// After the parties that want to know were notified.
    Soon(u8),
}

impl StopRequest {
    pub(crate) fn code(self) -> u8 {
        let (Self::AtOnce(code) | Self::Soon(code)) = self;
        code
    }
}

/// Listener for the signals that gimlet handles itself, from its creation on.
pub(crate) struct SignalListener {
    streams: SignalStreams,
    last_signal: LastSignal,
    last_interrupt: Option<Instant>,
    interrupt: mpsc::UnboundedSender<()>,
}

impl SignalListener {
    /// Starts listening; interrupts are passed on to `interrupt`.
    pub(crate) fn listen(interrupt: mpsc::UnboundedSender<()>) -> Self {
        Self::listen_with_cleanup(interrupt, || {})
    }

    /// Starts listening; before a stuck run is ended, `clean_up` is called.
    pub(crate) fn listen_with_cleanup(interrupt: mpsc::UnboundedSender<()>, clean_up: fn()) -> Self {
        let (streams, last_signal) = (SignalStreams::listen(), LastSignal::default());
        // Without a watchdog thread only a stuck run is affected.
        drop(spawn_watchdog(last_signal.clone(), move |code| {
            clean_up();
            std::process::exit(i32::from(code))
        }));
        Self { streams, last_signal, last_interrupt: None, interrupt }
    }

    /// Resolves when gimlet has to end.
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
            // A run that is already over has no receiver left.
            let _ = self.interrupt.send(());
        }
    }

    /// Lets a run end after a signal, until a deadline or a later signal.
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
            // Steps not done by then are skipped.
            _ = tokio::time::timeout(LEAVING, last_steps) => {}
        }
    }

    async fn next(&mut self) -> u8 {
        let code = self.streams.next().await;
        self.last_signal.record_now();
        code
    }
}

/// Streams of signals, as the exit codes that they stand for.
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

/// Time at which the main loop last saw a signal.
#[derive(Clone, Default)]
struct LastSignal(Arc<Mutex<Option<Instant>>>);

impl LastSignal {
    fn record_now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns true if the loop has seen the signal of that time. It may have seen it first.
    fn has_seen(&self, then: Instant) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|last| last + ECHO >= then)
    }
}

/// Listens on a separate thread, and ends gimlet in place of a blocked loop, so that a signal always takes effect.
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
    /// Previous signal and its time.
    struct PreviousSignal {
        at: Instant,
        code: u8,
    }
    impl PreviousSignal {
        /// Returns true for an interrupt; a single one does not end the run.
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
        // A loop that sees the signal ends by itself, in its own time.
        let heard = LastSignal::default();
        watched(&heard);
        send_hangup();
        heard.record_now();
        assert!(end.recv_timeout(LEAVING + ECHO).is_err());
    }
}
