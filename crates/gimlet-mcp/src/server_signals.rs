//! What a server reports on its own: changed lists, progress, log lines, and the end of its connection.
//!
//! Shared between a connection's transport, its protocol handler and the session's list of servers. Everything from
//! the server is untrusted and bounded here.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::ProgressToken;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::tool_listing::InvalidTool;

/// Maximum number of log lines kept of one server.
const MOST_LOG_LINES: usize = 50;
/// Maximum number of resources of a server whose changes are noted.
const MOST_SUBSCRIPTIONS: usize = 200;

/// Signals of one connection.
#[derive(Default)]
pub(crate) struct ServerSignals {
    /// True if the server reported that its tools have changed.
    tools_changed: AtomicBool,
    /// True if it reported that its resources or prompts have changed.
    catalogue_changed: AtomicBool,
    /// Notified of such a report.
    catalogue_notice: Notify,
    /// Resources whose changes the server is to report, and those of them that it reported as changed.
    subscriptions: Mutex<BTreeSet<String>>,
    updated_resources: Mutex<BTreeSet<String>>,
    /// Listed items that are not valid tools.
    invalid_tools: Mutex<Vec<InvalidTool>>,
    /// Receivers of progress, by request.
    progress: Mutex<HashMap<ProgressToken, mpsc::UnboundedSender<String>>>,
    log: Mutex<VecDeque<String>>,
    /// Reason for which the connection ended, as far as the transport knows it.
    end_reason: Mutex<Option<String>>,
    /// True if the server refused a request for lack of credentials.
    authentication_needed: AtomicBool,
    /// Cancelled when the connection has ended.
    closed: CancellationToken,
}

/// Signal that a server's tools have changed. Dropped without acknowledgement, it is raised again.
pub(crate) struct ListChangedSignal(Option<Arc<ServerSignals>>);

impl ListChangedSignal {
    /// Acknowledges the signal: the tools were listed again.
    pub(crate) fn acknowledge(mut self) {
        self.0 = None;
    }
}

impl Drop for ListChangedSignal {
    fn drop(&mut self) {
        if let Some(signals) = &self.0 {
            signals.mark_tools_changed();
        }
    }
}

impl ServerSignals {
    pub(crate) fn mark_tools_changed(&self) {
        self.tools_changed.store(true, Ordering::SeqCst);
    }

    /// Returns the signal if the server reported changed tools since the last call.
    pub(crate) fn take_list_changed(self: &Arc<Self>) -> Option<ListChangedSignal> {
        self.tools_changed.swap(false, Ordering::SeqCst).then(|| ListChangedSignal(Some(self.clone())))
    }

    pub(crate) fn mark_catalogue_changed(&self) {
        self.catalogue_changed.store(true, Ordering::SeqCst);
        self.catalogue_notice.notify_one();
    }

    /// Waits until the server reports changed resources or prompts.
    pub(crate) async fn wait_for_catalogue_change(&self) {
        self.catalogue_notice.notified().await;
    }

    /// Records that changes of a resource are of interest. Returns false if they were already, or are too many.
    pub(crate) fn add_subscription(&self, uri: &str) -> bool {
        let mut subscriptions = lock(&self.subscriptions);
        subscriptions.len() < MOST_SUBSCRIPTIONS && subscriptions.insert(uri.to_owned())
    }

    /// Records that a resource was reported as changed, if that is of interest.
    pub(crate) fn mark_resource_updated(&self, uri: &str) {
        if lock(&self.subscriptions).contains(uri) {
            lock(&self.updated_resources).insert(uri.to_owned());
        }
    }

    /// Forgets earlier changes of a resource, because it is read now.
    pub(crate) fn clear_resource_update(&self, uri: &str) {
        lock(&self.updated_resources).remove(uri);
    }

    /// Returns the resources that were reported as changed since the last call.
    pub(crate) fn take_updated_resources(&self) -> BTreeSet<String> {
        std::mem::take(&mut *lock(&self.updated_resources))
    }

    /// Returns true if the server reported changed resources or prompts since the last call.
    pub(crate) fn take_catalogue_changed(&self) -> bool {
        self.catalogue_changed.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn add_invalid_tools(&self, tools: Vec<InvalidTool>) {
        lock(&self.invalid_tools).extend(tools);
    }

    /// Returns the invalid tools listed since the last call.
    pub(crate) fn take_invalid_tools(&self) -> Vec<InvalidTool> {
        std::mem::take(&mut *lock(&self.invalid_tools))
    }

    /// Registers a receiver for the progress of a request.
    pub(crate) fn watch_progress(&self, token: ProgressToken) -> ProgressWatch<'_> {
        let (sender, lines) = mpsc::unbounded_channel();
        lock(&self.progress).insert(token.clone(), sender);
        ProgressWatch { signals: self, token, lines }
    }

    pub(crate) fn report_progress(&self, token: &ProgressToken, line: String) {
        if let Some(sender) = lock(&self.progress).get(token) {
            // The call may have ended meanwhile.
            drop(sender.send(line));
        }
    }

    /// Keeps a log line; of too many the oldest goes.
    pub(crate) fn add_log_line(&self, line: String) {
        let mut log = lock(&self.log);
        if log.len() == MOST_LOG_LINES {
            log.pop_front();
        }
        log.push_back(line);
    }

    /// Returns the log lines since the last call.
    pub(crate) fn take_log_lines(&self) -> Vec<String> {
        lock(&self.log).drain(..).collect()
    }

    /// Records the reason for which the connection ends; the first one stays.
    pub(crate) fn set_end_reason(&self, reason: impl Into<String>) {
        lock(&self.end_reason).get_or_insert_with(|| reason.into());
    }

    pub(crate) fn end_reason(&self) -> Option<String> {
        lock(&self.end_reason).clone()
    }

    /// Records that the server refused a request for lack of credentials.
    pub(crate) fn set_authentication_needed(&self) {
        self.authentication_needed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_authentication_needed(&self) -> bool {
        self.authentication_needed.load(Ordering::SeqCst)
    }

    /// Records that the connection has ended.
    pub(crate) fn mark_closed(&self) {
        self.closed.cancel();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Returns a token that is cancelled when the connection ends.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }
}

/// Progress of one request, for as long as somebody waits for it.
pub(crate) struct ProgressWatch<'a> {
    signals: &'a ServerSignals,
    token: ProgressToken,
    lines: mpsc::UnboundedReceiver<String>,
}

impl ProgressWatch<'_> {
    /// Returns the next line of progress.
    pub(crate) async fn next_line(&mut self) -> String {
        match self.lines.recv().await {
            Some(line) => line,
            // Its sender lives as long as this value.
            None => std::future::pending().await,
        }
    }
}

impl Drop for ProgressWatch<'_> {
    fn drop(&mut self) {
        lock(&self.signals.progress).remove(&self.token);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
