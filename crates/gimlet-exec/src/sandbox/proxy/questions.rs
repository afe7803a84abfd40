//! Hosts that are on no list: somebody is asked, once for all connections that want the same one, and the answer is
//! remembered where it is meant to last.
//!
//! A connection waits for a bounded time. The question itself goes on, so that a late answer still serves the next
//! connection. Nothing is resolved before the answer: a lookup alone could carry something out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use gimlet_proto::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Reason;
use super::hosts::{Host, WEB_PORTS};

/// How long a connection waits for an answer.
const PATIENCE: Duration = Duration::from_secs(300);
/// More questions at one time are noise that hides the one that matters.
const MAX_OPEN: usize = 16;
/// More answers than a person gives.
const MAX_REMEMBERED: usize = 10_000;

/// What was decided about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostAnswer {
    pub allow: bool,
    /// It holds until the proxy ends; otherwise the next connection asks again.
    pub lasts: bool,
}

impl HostAnswer {
    /// No, this time.
    pub const REFUSED: Self = Self { allow: false, lasts: false };
}

/// Decides about hosts that are on no list.
pub trait HostJudge: Send + Sync {
    /// May commands reach this host? The name is in its plain form: lower case, ASCII.
    fn judge(&self, host: &str, port: u16) -> BoxFuture<'static, HostAnswer>;
}

/// The open questions of a proxy and the answers that last.
#[derive(Default)]
pub(super) struct Questions {
    judge: OnceLock<Arc<dyn HostJudge>>,
    known: Mutex<Known>,
    asking: Mutex<JoinSet<()>>,
    patience: Option<Duration>,
}

/// A host, and the port unless it is one of the web's: a yes for a site is not one for whatever else runs there.
type Wanted = (String, Option<u16>);

#[derive(Default)]
struct Known {
    answers: HashMap<Wanted, bool>,
    open: HashMap<Wanted, watch::Receiver<Option<HostAnswer>>>,
}

impl Questions {
    /// With another patience than the usual, if one is given.
    pub(super) fn new(patience: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { patience, ..Self::default() })
    }

    /// Whom to ask from now on; only the first counts.
    pub(super) fn ask_through(&self, judge: Arc<dyn HostJudge>) {
        // A second judge would be a second opinion on what is decided already.
        drop(self.judge.set(judge));
    }

    /// Whether somebody says that this host may be reached.
    pub(super) async fn ask(self: &Arc<Self>, host: &Host, port: u16) -> Result<(), Reason> {
        let wanted: Wanted = (host.to_string(), Some(port).filter(|port| !WEB_PORTS.contains(port)));
        let mut answer = match self.look_up(&wanted, port)? {
            Found::Answer(true) => return Ok(()),
            Found::Answer(false) => return Err(Reason::Declined),
            Found::Question(answer) => answer,
        };
        let patience = self.patience.unwrap_or(PATIENCE);
        match tokio::time::timeout(patience, answer.wait_for(Option::is_some)).await {
            Err(_) => Err(Reason::Unanswered),
            // Whoever was asked went away.
            Ok(Err(_)) => {
                self.known().open.remove(&wanted);
                Err(Reason::Unanswered)
            }
            Ok(Ok(answer)) if answer.is_some_and(|answer| answer.allow) => Ok(()),
            Ok(Ok(_)) => Err(Reason::Declined),
        }
    }

    /// What is known, or the one open question about it, which begins here if it is new.
    fn look_up(self: &Arc<Self>, wanted: &Wanted, port: u16) -> Result<Found, Reason> {
        let judge = self.judge.get().ok_or(Reason::NotAllowed)?;
        let mut known = self.known();
        if let Some(answer) = known.answers.get(wanted) {
            return Ok(Found::Answer(*answer));
        }
        if let Some(open) = known.open.get(wanted) {
            return Ok(Found::Question(open.clone()));
        }
        if known.open.len() >= MAX_OPEN {
            return Err(Reason::NotAllowed);
        }
        let (tell, told) = watch::channel(None);
        known.open.insert(wanted.clone(), told.clone());
        drop(known);
        let asked = judge.judge(&wanted.0, port);
        let (this, wanted) = (Arc::downgrade(self), wanted.clone());
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        while asking.try_join_next().is_some() {}
        asking.spawn(async move {
            let answer = asked.await;
            settle(&this, wanted, answer);
            tell.send_replace(Some(answer));
        });
        Ok(Found::Question(told))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Entries are put in and taken out whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Found {
    Answer(bool),
    Question(watch::Receiver<Option<HostAnswer>>),
}

/// Takes an answer down before anybody hears of it, so that nobody asks in between.
fn settle(questions: &Weak<Questions>, wanted: Wanted, answer: HostAnswer) {
    let Some(questions) = questions.upgrade() else { return };
    let mut known = questions.known();
    known.open.remove(&wanted);
    if answer.lasts && known.answers.len() < MAX_REMEMBERED {
        known.answers.insert(wanted, answer.allow);
    }
}
