//! Questions about hosts that are on no list: asked once for all connections to a host; the answer is remembered if
//! it is meant to last.
//!
//! A connection waits for a bounded time. The question itself stays open, so that a late answer still serves the next
//! connection. Nothing is resolved before the answer: a lookup alone could leak data.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use gimlet_proto::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::RefusalReason;
use super::host_rules::{ProxyHost, WEB_PORTS};

/// Timeout of a connection that waits for an answer.
const PATIENCE: Duration = Duration::from_secs(300);
/// More questions at one time are noise that hides the one that matters.
const MAX_OPEN: usize = 16;
/// Limit of remembered answers, above what a user would give.
const MAX_REMEMBERED: usize = 10_000;

/// Decision about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostDecision {
    pub allow: bool,
    /// True if it applies until the proxy ends; otherwise the next connection asks again.
    pub lasts: bool,
}

impl HostDecision {
    /// No, this time.
    pub const REFUSED: Self = Self { allow: false, lasts: false };
}

/// Decides about hosts that are on no list.
pub trait HostJudge: Send + Sync {
    /// Decides if commands may reach this host. The name is in its normal form: lower case, ASCII.
    fn judge_host(&self, host: &str, port: u16) -> BoxFuture<'static, HostDecision>;
}

/// The open questions of a proxy and the answers that last.
#[derive(Default)]
pub(super) struct HostQuestions {
    judge: OnceLock<Arc<dyn HostJudge>>,
    known: Mutex<AnswerCache>,
    asking: Mutex<JoinSet<()>>,
    patience: Option<Duration>,
}

/// A host, and the port unless it is a web port: permission for a site does not cover other services there.
type HostKey = (String, Option<u16>);

#[derive(Default)]
struct AnswerCache {
    answers: HashMap<HostKey, bool>,
    open: HashMap<HostKey, watch::Receiver<Option<HostDecision>>>,
}

impl HostQuestions {
    /// Creates the questions with a timeout other than the default, if one is given.
    pub(super) fn new(patience: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { patience, ..Self::default() })
    }

    /// Sets the judge; only the first call has an effect.
    pub(super) fn set_judge(&self, judge: Arc<dyn HostJudge>) {
        // A second judge would be a second opinion on what is decided already.
        drop(self.judge.set(judge));
    }

    /// Asks if this host may be reached. The error is the reason for the refusal.
    pub(super) async fn ask_about_host(self: &Arc<Self>, host: &ProxyHost, port: u16) -> Result<(), RefusalReason> {
        let wanted: HostKey = (host.to_string(), Some(port).filter(|port| !WEB_PORTS.contains(port)));
        let mut answer = match self.find_or_ask(&wanted, port)? {
            AnswerLookup::Answer(true) => return Ok(()),
            AnswerLookup::Answer(false) => return Err(RefusalReason::Declined),
            AnswerLookup::Question(answer) => answer,
        };
        let patience = self.patience.unwrap_or(PATIENCE);
        match tokio::time::timeout(patience, answer.wait_for(Option::is_some)).await {
            Err(_) => Err(RefusalReason::Unanswered),
            // The asked party went away.
            Ok(Err(_)) => {
                self.lock_answers().open.remove(&wanted);
                Err(RefusalReason::Unanswered)
            }
            Ok(Ok(answer)) if answer.is_some_and(|answer| answer.allow) => Ok(()),
            Ok(Ok(_)) => Err(RefusalReason::Declined),
        }
    }

    /// Returns the known answer or the open question, which is asked here if it is new.
    fn find_or_ask(self: &Arc<Self>, wanted: &HostKey, port: u16) -> Result<AnswerLookup, RefusalReason> {
        let judge = self.judge.get().ok_or(RefusalReason::NotAllowed)?;
        let mut known = self.lock_answers();
        if let Some(answer) = known.answers.get(wanted) {
            return Ok(AnswerLookup::Answer(*answer));
        }
        if let Some(open) = known.open.get(wanted) {
            return Ok(AnswerLookup::Question(open.clone()));
        }
        if known.open.len() >= MAX_OPEN {
            return Err(RefusalReason::NotAllowed);
        }
        let (tell, told) = watch::channel(None);
        known.open.insert(wanted.clone(), told.clone());
        drop(known);
        let asked = judge.judge_host(&wanted.0, port);
        let (this, wanted) = (Arc::downgrade(self), wanted.clone());
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        while asking.try_join_next().is_some() {}
        asking.spawn(async move {
            let answer = asked.await;
            record_answer(&this, wanted, answer);
            tell.send_replace(Some(answer));
        });
        Ok(AnswerLookup::Question(told))
    }

    fn lock_answers(&self) -> MutexGuard<'_, AnswerCache> {
        // Entries are put in and taken out whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum AnswerLookup {
    Answer(bool),
    Question(watch::Receiver<Option<HostDecision>>),
}

/// Records an answer before it is published, so that the question is not asked again in between.
fn record_answer(questions: &Weak<HostQuestions>, wanted: HostKey, answer: HostDecision) {
    let Some(questions) = questions.upgrade() else { return };
    let mut known = questions.lock_answers();
    known.open.remove(&wanted);
    if answer.lasts && known.answers.len() < MAX_REMEMBERED {
        known.answers.insert(wanted, answer.allow);
    }
}
