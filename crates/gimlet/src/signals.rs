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
    told: Told,
    heard: Heard,
    last_interrupt: Option<Instant>,
    interrupt: mpsc::UnboundedSender<()>,
}

impl Signals {
    /// Interrupts are passed on.
    pub(crate) fn listen(interrupt: mpsc::UnboundedSender<()>) -> Self {
        let (told, heard) = (Told::listen(), Heard::default());
        // Without a thread to spare everything is as it is with one, but for a run that is stuck.
        drop(watch(heard.clone(), |code| std::process::exit(i32::from(code))));
        Self { told, heard, last_interrupt: None, interrupt }
    }

    /// Resolves when gimlet has to go.
    pub(crate) async fn stop(&mut self) -> Stop {
        loop {
            let code = self.next().await;
            if code != INTERRUPTED {
                return Stop::Soon(code);
            }
            if self.last_interrupt.is_some_and(|last| last.elapsed() < TWICE) {
                return Stop::AtOnce(INTERRUPTED);
            }
            self.last_interrupt = Some(Instant::now());
            // A run that is already over has nobody left to interrupt.
            let _ = self.interrupt.send(());
        }
    }

    /// Lets a run come to its end after it was told to go: not for long, and not when it is told so again later.
    pub(crate) async fn bear(&mut self, last_steps: impl Future<Output = ()>) {
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
        let code = self.told.next().await;
        self.heard.note();
        code
    }
}

/// What signals say, as the exit codes that they stand for.
struct Told {
    int: Option<Signal>,
    term: Option<Signal>,
    hup: Option<Signal>,
}

impl Told {
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
            () = next(&mut self.int) => INTERRUPTED,
            () = next(&mut self.term) => TERMINATED,
            () = next(&mut self.hup) => HUNG_UP,
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

/// When the loop that drives everything last heard a signal.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Option<Instant>>>);

impl Heard {
    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether it heard what came then. It may have been the first to do so.
    fn since(&self, then: Instant) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|last| last + ECHO >= then)
    }
}

/// Listens on a thread of its own, and ends gimlet in place of a loop that hears nothing any more. Whatever keeps it from
/// that, whoever wants gimlet gone is heard.
fn watch(heard: Heard, end: impl Fn(u8) + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = {
        let _inside = runtime.enter();
        Told::listen()
    };
    let listening = move || runtime.block_on(watch_over(told, heard, end));
    std::thread::Builder::new().name("signals".to_owned()).spawn(listening).map(drop)
}

async fn watch_over(mut told: Told, heard: Heard, end: impl Fn(u8)) {
    /// What was said before, and when.
    struct Before {
        at: Instant,
        code: u8,
    }
    impl Before {
        /// Whether an interrupt; one alone is no wish to end.
        fn interrupts(&self) -> bool {
            self.code == INTERRUPTED
        }
    }
    let mut before: Option<Before> = None;
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
        let unheard = before.take().filter(|before| !heard.since(before.at));
        before = match (unheard, code) {
            (Some(earlier), None) => return end(earlier.code),
            (None, None) => None,
            (Some(earlier), Some(code)) if earlier.interrupts() => {
                if code == INTERRUPTED && now - earlier.at < TWICE {
                    return end(code);
                }
                Some(Before { at: now, code })
            }
            (Some(earlier), Some(_)) if now - earlier.at >= ECHO => return end(earlier.code),
            (Some(earlier), Some(_)) => Some(earlier),
            (None, Some(code)) => Some(Before { at: now, code }),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "nothing safe sends a signal from within")]
    fn hang_up() {
        let id = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    /// Nothing else in this process listens, as if the loop were stuck.
    #[test]
    fn whoever_is_not_heard_ends_a_stuck_run_by_saying_it_twice_or_by_waiting() {
        let (ended, end) = mpsc::channel();
        let watched = |heard: &Heard| {
            let ended = ended.clone();
            watch(heard.clone(), move |code| ended.send(code).unwrap_or_default()).unwrap();
        };
        let nobody = Heard::default();
        watched(&nobody);
        hang_up();
        assert!(end.recv_timeout(ECHO + Duration::from_millis(100)).is_err(), "the loop may be slow");
        hang_up();
        assert_eq!(end.recv_timeout(LEAVING / 2), Ok(HUNG_UP));
        watched(&nobody);
        hang_up();
        assert_eq!(end.recv_timeout(LEAVING * 3), Ok(HUNG_UP));
        // A loop that hears ends by itself, as long as that takes.
        let heard = Heard::default();
        watched(&heard);
        hang_up();
        heard.note();
        assert!(end.recv_timeout(LEAVING + ECHO).is_err());
    }
}
