//! The loopback server: accepts connections, passes requests to the responder, sends the planned response and records
//! what happened. It binds to the given address, prints nothing and ends with its owner.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::ReceivedRequest;
use crate::http_connection::{ConnectionError, HttpConnection, RequestHead};
use crate::received_request::{RequestOutcome, RequestParts};
use crate::report::{REPORT, report};
use crate::request_log::{RequestLog, SeenSecret, first_cache_difference, prefix_difference};
use crate::script::{CloseKind, Fault, Script, ScriptError};
use crate::script_responder::{ConnectionEnding, PlannedResponse, ScriptResponder, json_response};

/// Reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerStartError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// A running scripted model. Dropping it ends it.
pub struct ScriptServer {
    address: SocketAddr,
    shared: Arc<ScriptServerShared>,
    tasks: JoinSet<()>,
}

struct ScriptServerShared {
    state: Mutex<ScriptServerState>,
    max_body_bytes: u64,
    /// Notified when a request arrived or ended.
    news: Notify,
}

struct ScriptServerState {
    responder: ScriptResponder,
    request_log: RequestLog,
    record_dir: Option<PathBuf>,
    connections: u64,
}

impl ScriptServerShared {
    fn state(&self) -> MutexGuard<'_, ScriptServerState> {
        // A panic elsewhere while holding the lock leaves records that are still useful.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Script {
    /// Starts a server on a free loopback port.
    pub async fn serve(self) -> Result<ScriptServer, ServerStartError> {
        ScriptServer::start(self).await
    }
}

impl ScriptServer {
    /// Starts on a free loopback port.
    pub async fn start(script: Script) -> Result<Self, ServerStartError> {
        Self::bind(script, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts on the given address.
    pub async fn bind(script: Script, address: SocketAddr) -> Result<Self, ServerStartError> {
        script.check()?;
        let failed = |source| ServerStartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let max_body_bytes = script.max_body_bytes;
        let state = ScriptServerState {
            responder: ScriptResponder::new(script),
            request_log: RequestLog::default(),
            record_dir: None,
            connections: 0,
        };
        let shared = Arc::new(ScriptServerShared { state: Mutex::new(state), max_body_bytes, news: Notify::new() });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, tasks })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base address for clients, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns one line of JSON with the address, for a parent process that connects.
    pub fn address_line(&self) -> String {
        serde_json::json!({ "url": self.url(), "port": self.address.port() }).to_string()
    }

    /// Keeps the server running until `stop` is done, then ends it.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> ScriptSummary {
        stop.await;
        self.shutdown().await
    }

    /// Ends every connection and returns the summary of the script.
    pub async fn shutdown(mut self) -> ScriptSummary {
        self.tasks.shutdown().await;
        let state = self.shared.state();
        ScriptSummary {
            requests: state.request_log.len(),
            failures: state.request_log.failures.clone(),
            unplayed: state.responder.player.unplayed(),
        }
    }

    /// Returns every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.state().request_log.all()
    }

    /// Returns one request. Panics with the number of requests when it never came: a test that needs it has failed.
    #[track_caller]
    pub fn request(&self, index: usize) -> ReceivedRequest {
        let (found, count) = {
            let state = self.shared.state();
            (state.request_log.request(index), state.request_log.len())
        };
        match found {
            Some(request) => request,
            None => panic!("request {index} never came; {count} did. Failures: {:?}", self.failures()),
        }
    }

    /// Waits until that many requests have arrived.
    pub async fn wait_for_requests(&self, count: usize) {
        self.wait_until(|ledger| ledger.len() >= count).await;
    }

    /// Waits until that request's response has ended in any way.
    pub async fn wait_for_end(&self, index: usize) -> ReceivedRequest {
        let ended =
            |ledger: &RequestLog| ledger.request(index).is_some_and(|request| request.outcome().ended_at.is_some());
        self.wait_until(ended).await;
        self.request(index)
    }

    async fn wait_until(&self, holds: impl Fn(&RequestLog) -> bool) {
        loop {
            let news = self.shared.news.notified();
            tokio::pin!(news);
            // Registers before checking, so that no notification is missed in between.
            news.as_mut().enable();
            if holds(&self.shared.state().request_log) {
                return;
            }
            news.await;
        }
    }

    /// Returns messages about requests that matched no step.
    pub fn failures(&self) -> Vec<String> {
        self.shared.state().request_log.failures.clone()
    }

    /// Returns requests that a rule of the provider refused: index and the rule's message.
    pub fn rejections(&self) -> Vec<(usize, String)> {
        let refused = |request: &ReceivedRequest| Some((request.index(), request.outcome().rejection.clone()?));
        self.requests().iter().filter_map(refused).collect()
    }

    /// Returns the number of ordered steps that are still waiting.
    pub fn unplayed(&self) -> usize {
        self.shared.state().responder.player.unplayed()
    }

    /// Returns true if tools, system and messages of request `earlier` are, byte for byte and cache markers aside, the
    /// beginning of those of request `later`.
    pub fn prefix_equal(&self, earlier: usize, later: usize) -> bool {
        self.prefix_difference(earlier, later).is_none()
    }

    /// Returns the first part in which they differ.
    pub fn prefix_difference(&self, earlier: usize, later: usize) -> Option<String> {
        prefix_difference(&self.request(earlier), &self.request(later))
    }

    /// Returns what keeps request `later` from reading the cache that request `earlier` wrote, or `None` if nothing
    /// does.
    pub fn cache_difference(&self, earlier: usize, later: usize) -> Option<&'static str> {
        first_cache_difference(&self.request(earlier), &self.request(later))
    }

    /// Returns true if two requests have equal targets and equal bytes.
    pub fn retry_identical(&self, first: usize, second: usize) -> bool {
        let (first, second) = (self.request(first), self.request(second));
        first.target() == second.target() && first.body() == second.body()
    }

    /// Returns every received secret, with its header and path.
    pub fn secrets_seen(&self) -> BTreeSet<SeenSecret> {
        self.shared.state().request_log.secrets_seen()
    }

    /// Returns the highest number of requests that were open at one time.
    pub fn max_parallel(&self) -> usize {
        self.shared.state().request_log.max_parallel
    }

    /// Moves the cache's clock forward.
    pub fn advance_clock(&self, time: Duration) {
        self.shared.state().responder.skipped += time;
    }

    /// Writes every exchange from now on into this folder, which must exist: `000.request` and `000.response`.
    pub fn record_dir(&self, folder: &Path) {
        self.shared.state().record_dir = Some(folder.to_owned());
    }
}

/// Summary of a played script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptSummary {
    pub requests: usize,
    pub failures: Vec<String>,
    /// Ordered steps that no request reached.
    pub unplayed: usize,
}

async fn accept(listener: TcpListener, shared: Arc<ScriptServerShared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that failed before it began is reported by the client.
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve_connection(stream, Arc::clone(&shared)));
                }
            }
            Some(_ended) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<ScriptServerShared>) {
    let number = {
        let mut state = shared.state();
        state.connections += 1;
        state.connections
    };
    let mut connection = HttpConnection::new(stream);
    let mut exchange = HttpExchange { shared: &shared, connection: &mut connection, number };
    loop {
        match exchange.run().await {
            Ok(ConnectionEnding::Keep) => {}
            Ok(ConnectionEnding::CloseQuietly) => {
                exchange.connection.close(CloseKind::Fin).await;
                return;
            }
            Ok(ConnectionEnding::ResetOnReuse) => {
                if exchange.connection.wait_for_request().await.is_ok() {
                    exchange.connection.close(CloseKind::Rst).await;
                }
                return;
            }
            Err(gone) => {
                if let ConnectionError::Malformed(_) = gone {
                    shared.state().request_log.failures.push(format!("connection {number}: {gone}"));
                }
                return;
            }
        }
    }
}

/// One request and its response on one connection.
struct HttpExchange<'a> {
    shared: &'a ScriptServerShared,
    connection: &'a mut HttpConnection,
    number: u64,
}

impl HttpExchange<'_> {
    async fn run(&mut self) -> Result<ConnectionEnding, ConnectionError> {
        self.connection.wait_for_request().await?;
        let arrived_at = Instant::now();
        let head = self.connection.read_head().await?;
        let upload_fault = self.shared.state().responder.player.upload_fault(head.path());
        if let Some((step, Fault::RefuseUpload { after_bytes, status, how })) = upload_fault {
            self.connection.wait_for_bytes(after_bytes).await?;
            self.shared.state().responder.player.use_up(step);
            return self.refuse(head, arrived_at, status, how).await;
        }
        let body = match self.connection.read_body(&head, self.shared.max_body_bytes).await {
            Ok(body) => body,
            Err(ConnectionError::TooLarge { .. }) => return self.refuse(head, arrived_at, 413, CloseKind::Fin).await,
            Err(gone) => return Err(gone),
        };
        if (head.method.as_str(), head.path()) == ("GET", REPORT) {
            return self.report().await;
        }
        let (index, answer) = self.log_and_answer(head, arrived_at, body, None);
        self.send(index, answer).await
    }

    /// Answers with the progress report. The request is not part of the script.
    async fn report(&mut self) -> Result<ConnectionEnding, ConnectionError> {
        let answer = {
            let state = self.shared.state();
            json_response(200, &report(&state.request_log, state.responder.player.unplayed()), "report")
        };
        self.send_parts(&answer).await?;
        Ok(answer.ending)
    }

    /// Answers before the body has arrived, and closes the connection.
    async fn refuse(
        &mut self,
        head: RequestHead,
        arrived_at: Instant,
        status: u16,
        how: CloseKind,
    ) -> Result<ConnectionEnding, ConnectionError> {
        let (index, answer) = self.log_and_answer(head, arrived_at, bytes::Bytes::new(), Some(status));
        self.send(index, answer).await?;
        Err(self.connection.close_during_upload(how).await)
    }

    /// Adds a request to the log and returns its answer.
    fn log_and_answer(
        &self,
        head: RequestHead,
        arrived_at: Instant,
        body: bytes::Bytes,
        refuse: Option<u16>,
    ) -> (usize, PlannedResponse) {
        let RequestHead { method, target, headers } = head;
        let mut state = self.shared.state();
        let ScriptServerState { responder: desk, request_log: ledger, .. } = &mut *state;
        let index = ledger.len();
        let attempt = ledger.attempt_of(&target, &body);
        let arrival = RequestParts { connection: self.number, arrived_at, method, target, headers, body };
        let request = ReceivedRequest::new(index, attempt, arrival);
        let answer = match refuse {
            Some(status) => desk.refuse_upload(status, "request exceeds the maximum size", index),
            None => desk.answer(&request),
        };
        ledger.open(request);
        ledger.set_outcome(index, answer.outcome.clone());
        if let Some(why) = &answer.failure {
            ledger.failures.push(format!("request {index}: {why}"));
        }
        drop(state);
        self.shared.news.notify_waiters();
        (index, answer)
    }

    async fn send(&mut self, index: usize, answer: PlannedResponse) -> Result<ConnectionEnding, ConnectionError> {
        let recording = self.shared.state().record_dir.clone();
        self.connection.bytes_sent = 0;
        self.connection.copy = recording.is_some().then(Vec::new);
        let mut guard = EndGuard { shared: self.shared, index, outcome: Some(answer.outcome.clone()) };
        if let Some(folder) = &recording {
            // A client that has the answer may already read the recorded request.
            self.record_request(folder, index).await;
        }
        let sent = self.send_parts(&answer).await;
        let outcome = RequestOutcome {
            bytes_sent: self.connection.bytes_sent,
            client_closed_at: self.connection.client_closed_at,
            ..answer.outcome
        };
        guard.outcome = Some(outcome);
        if let Some(folder) = recording {
            let response = self.connection.copy.take().unwrap_or_default();
            self.write_record(&folder.join(format!("{index:03}.response")), response).await;
        }
        drop(guard);
        sent.map(|()| answer.ending)
    }

    async fn send_parts(&mut self, answer: &PlannedResponse) -> Result<(), ConnectionError> {
        if let Some(act) = &answer.before {
            self.connection.perform(act).await?;
        }
        if answer.delay_ms > 0 {
            self.connection.perform(&crate::wire_plan::WireAction::Sleep { ms: answer.delay_ms }).await?;
        }
        self.connection.send_head(&answer.head, &answer.acts).await?;
        if let Some((visit, started_at)) = &answer.visit {
            self.shared.state().responder.commit(visit, *started_at);
        }
        self.connection.send_body(answer.head.framing, &answer.acts).await
    }

    async fn record_request(&self, folder: &Path, index: usize) {
        let request = self.shared.state().request_log.request(index);
        let Some(request) = request else { return };
        let mut text = format!("{} {} HTTP/1.1\n", request.method(), request.target()).into_bytes();
        for (name, value) in request.headers() {
            text.extend_from_slice(format!("{name}: {value}\n").as_bytes());
        }
        text.push(b'\n');
        text.extend_from_slice(request.body());
        self.write_record(&folder.join(format!("{index:03}.request")), text).await;
    }

    async fn write_record(&self, path: &Path, bytes: Vec<u8>) {
        if let Err(error) = tokio::fs::write(path, bytes).await {
            self.shared.state().request_log.failures.push(format!("cannot record {}: {error}", path.display()));
        }
    }
}

/// Guard that records the end of an exchange, also when its task is dropped halfway.
struct EndGuard<'a> {
    shared: &'a ScriptServerShared,
    index: usize,
    outcome: Option<RequestOutcome>,
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        if let Some(mut outcome) = self.outcome.take() {
            outcome.ended_at = Some(Instant::now());
            self.shared.state().request_log.close(self.index, outcome);
            self.shared.news.notify_waiters();
        }
    }
}
