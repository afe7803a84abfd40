//! The loopback server: accepts connections, hands requests to the desk, sends what it laid out, writes down what
//! happened. It binds where it is told, prints nothing and ends with its owner.

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

use crate::Request;
use crate::desk::{Answer, Desk, Ending, plain};
use crate::http1::{Connection, Gone, Head};
use crate::ledger::{Ledger, SecretSeen, first_cache_difference, prefix_difference};
use crate::report::{REPORT, report};
use crate::request::{Arrival, Outcome};
use crate::script::{Close, Fault, Script, ScriptError};

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// A running scripted model. Dropping it ends it.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

struct Shared {
    state: Mutex<State>,
    max_body_bytes: u64,
    /// Rung when a request arrived or ended.
    news: Notify,
}

struct State {
    desk: Desk,
    ledger: Ledger,
    record_dir: Option<PathBuf>,
    connections: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere while holding the lock leaves records that are still worth reading.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Script {
    /// Starts a server on a free loopback port.
    pub async fn serve(self) -> Result<Server, StartError> {
        Server::start(self).await
    }
}

impl Server {
    /// Starts on a free loopback port.
    pub async fn start(script: Script) -> Result<Self, StartError> {
        Self::bind(script, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts on the given address.
    pub async fn bind(script: Script, address: SocketAddr) -> Result<Self, StartError> {
        script.check()?;
        let failed = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let max_body_bytes = script.max_body_bytes;
        let state = State { desk: Desk::new(script), ledger: Ledger::default(), record_dir: None, connections: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), max_body_bytes, news: Notify::new() });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, tasks })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base address for clients, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// One line of JSON that tells a parent process where to connect.
    pub fn address_line(&self) -> String {
        serde_json::json!({ "url": self.url(), "port": self.address.port() }).to_string()
    }

    /// Keeps the server running until `stop` is done, then ends it.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Summary {
        stop.await;
        self.shutdown().await
    }

    /// Ends every connection and says how the script went.
    pub async fn shutdown(mut self) -> Summary {
        self.tasks.shutdown().await;
        let state = self.shared.state();
        Summary {
            requests: state.ledger.len(),
            failures: state.ledger.failures.clone(),
            unplayed: state.desk.player.unplayed(),
        }
    }

    /// Every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().ledger.all()
    }

    /// One request. Panics when it never came, naming how many did: a test that asks for it has failed.
    #[track_caller]
    pub fn request(&self, index: usize) -> Request {
        let (found, count) = {
            let state = self.shared.state();
            (state.ledger.request(index), state.ledger.len())
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

    /// Waits until that request's response is over, one way or another.
    pub async fn wait_for_end(&self, index: usize) -> Request {
        let ended = |ledger: &Ledger| ledger.request(index).is_some_and(|request| request.outcome().ended_at.is_some());
        self.wait_until(ended).await;
        self.request(index)
    }

    async fn wait_until(&self, holds: impl Fn(&Ledger) -> bool) {
        loop {
            let news = self.shared.news.notified();
            tokio::pin!(news);
            // Listening begins before looking, so that no ring is missed in between.
            news.as_mut().enable();
            if holds(&self.shared.state().ledger) {
                return;
            }
            news.await;
        }
    }

    /// Requests that fitted no step, in words.
    pub fn failures(&self) -> Vec<String> {
        self.shared.state().ledger.failures.clone()
    }

    /// Requests that a rule of the provider refused: index and the rule's words.
    pub fn rejections(&self) -> Vec<(usize, String)> {
        let refused = |request: &Request| Some((request.index(), request.outcome().rejection.clone()?));
        self.requests().iter().filter_map(refused).collect()
    }

    /// How many ordered steps are still waiting.
    pub fn unplayed(&self) -> usize {
        self.shared.state().desk.player.unplayed()
    }

    /// Whether tools, system and messages of request `earlier` are, byte for byte and cache markers aside, the beginning
    /// of those of request `later`.
    pub fn prefix_equal(&self, earlier: usize, later: usize) -> bool {
        self.prefix_difference(earlier, later).is_none()
    }

    /// The first part in which they differ.
    pub fn prefix_difference(&self, earlier: usize, later: usize) -> Option<String> {
        prefix_difference(&self.request(earlier), &self.request(later))
    }

    /// What keeps request `later` from reading the cache that request `earlier` wrote.
    pub fn cache_difference(&self, earlier: usize, later: usize) -> Option<&'static str> {
        first_cache_difference(&self.request(earlier), &self.request(later))
    }

    /// Whether two requests have the same target and the same bytes.
    pub fn retry_identical(&self, first: usize, second: usize) -> bool {
        let (first, second) = (self.request(first), self.request(second));
        first.target() == second.target() && first.body() == second.body()
    }

    /// Every secret that came, with the header and path that it came on.
    pub fn secrets_seen(&self) -> BTreeSet<SecretSeen> {
        self.shared.state().ledger.secrets_seen()
    }

    /// The most requests that were open at one time.
    pub fn max_parallel(&self) -> usize {
        self.shared.state().ledger.max_parallel
    }

    /// Moves the cache's clock forward.
    pub fn advance_clock(&self, time: Duration) {
        self.shared.state().desk.skipped += time;
    }

    /// From now on writes every exchange into this folder, which must exist: `000.request` and `000.response`.
    pub fn record_dir(&self, folder: &Path) {
        self.shared.state().record_dir = Some(folder.to_owned());
    }
}

/// How a script went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub requests: usize,
    pub failures: Vec<String>,
    /// Ordered steps that nothing asked for.
    pub unplayed: usize,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that failed before it began is the client's to notice.
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve_connection(stream, Arc::clone(&shared)));
                }
            }
            Some(_ended) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>) {
    let number = {
        let mut state = shared.state();
        state.connections += 1;
        state.connections
    };
    let mut connection = Connection::new(stream);
    let mut exchange = Exchange { shared: &shared, connection: &mut connection, number };
    loop {
        match exchange.run().await {
            Ok(Ending::Keep) => {}
            Ok(Ending::CloseQuietly) => {
                exchange.connection.close(Close::Fin).await;
                return;
            }
            Ok(Ending::ResetOnReuse) => {
                if exchange.connection.wait_for_request().await.is_ok() {
                    exchange.connection.close(Close::Rst).await;
                }
                return;
            }
            Err(gone) => {
                if let Gone::Malformed(_) = gone {
                    shared.state().ledger.failures.push(format!("connection {number}: {gone}"));
                }
                return;
            }
        }
    }
}

/// One request and its response on one connection.
struct Exchange<'a> {
    shared: &'a Shared,
    connection: &'a mut Connection,
    number: u64,
}

impl Exchange<'_> {
    async fn run(&mut self) -> Result<Ending, Gone> {
        self.connection.wait_for_request().await?;
        let arrived_at = Instant::now();
        let head = self.connection.read_head().await?;
        let upload_fault = self.shared.state().desk.player.upload_fault(head.path());
        if let Some((step, Fault::RefuseUpload { after_bytes, status, how })) = upload_fault {
            self.connection.wait_for_bytes(after_bytes).await?;
            self.shared.state().desk.player.use_up(step);
            return self.refuse(head, arrived_at, status, how).await;
        }
        let body = match self.connection.read_body(&head, self.shared.max_body_bytes).await {
            Ok(body) => body,
            Err(Gone::TooLarge { .. }) => return self.refuse(head, arrived_at, 413, Close::Fin).await,
            Err(gone) => return Err(gone),
        };
        if (head.method.as_str(), head.path()) == ("GET", REPORT) {
            return self.report().await;
        }
        let (index, answer) = self.open(head, arrived_at, body, None);
        self.send(index, answer).await
    }

    /// Tells how the script goes. Asking for that is no part of it.
    async fn report(&mut self) -> Result<Ending, Gone> {
        let answer = {
            let state = self.shared.state();
            plain(200, &report(&state.ledger, state.desk.player.unplayed()), "report")
        };
        self.send_parts(&answer).await?;
        Ok(answer.ending)
    }

    /// Answers before the body has arrived, and closes.
    async fn refuse(&mut self, head: Head, arrived_at: Instant, status: u16, how: Close) -> Result<Ending, Gone> {
        let (index, answer) = self.open(head, arrived_at, bytes::Bytes::new(), Some(status));
        self.send(index, answer).await?;
        Err(self.connection.close_during_upload(how).await)
    }

    /// Enters a request into the ledger and gets its answer.
    fn open(&self, head: Head, arrived_at: Instant, body: bytes::Bytes, refuse: Option<u16>) -> (usize, Answer) {
        let Head { method, target, headers } = head;
        let mut state = self.shared.state();
        let State { desk, ledger, .. } = &mut *state;
        let index = ledger.len();
        let attempt = ledger.attempt_of(&target, &body);
        let arrival = Arrival { connection: self.number, arrived_at, method, target, headers, body };
        let request = Request::new(index, attempt, arrival);
        let answer = match refuse {
            Some(status) => desk.refuse_upload(status, "request exceeds the maximum size", index),
            None => desk.answer(&request),
        };
        ledger.open(request);
        ledger.note(index, answer.outcome.clone());
        if let Some(why) = &answer.failure {
            ledger.failures.push(format!("request {index}: {why}"));
        }
        drop(state);
        self.shared.news.notify_waiters();
        (index, answer)
    }

    async fn send(&mut self, index: usize, answer: Answer) -> Result<Ending, Gone> {
        let recording = self.shared.state().record_dir.clone();
        self.connection.bytes_sent = 0;
        self.connection.copy = recording.is_some().then(Vec::new);
        let mut guard = EndGuard { shared: self.shared, index, outcome: Some(answer.outcome.clone()) };
        if let Some(folder) = &recording {
            // Whoever has the answer may look for what was asked.
            self.record_request(folder, index).await;
        }
        let sent = self.send_parts(&answer).await;
        let outcome = Outcome {
            bytes_sent: self.connection.bytes_sent,
            client_closed_at: self.connection.client_closed_at,
            ..answer.outcome
        };
        guard.outcome = Some(outcome);
        if let Some(folder) = recording {
            let response = self.connection.copy.take().unwrap_or_default();
            self.keep(&folder.join(format!("{index:03}.response")), response).await;
        }
        drop(guard);
        sent.map(|()| answer.ending)
    }

    async fn send_parts(&mut self, answer: &Answer) -> Result<(), Gone> {
        if let Some(act) = &answer.before {
            self.connection.perform(act).await?;
        }
        if answer.delay_ms > 0 {
            self.connection.perform(&crate::wire::Act::Sleep { ms: answer.delay_ms }).await?;
        }
        self.connection.send_head(&answer.head, &answer.acts).await?;
        if let Some((visit, started_at)) = &answer.visit {
            self.shared.state().desk.commit(visit, *started_at);
        }
        self.connection.send_body(answer.head.framing, &answer.acts).await
    }

    async fn record_request(&self, folder: &Path, index: usize) {
        let request = self.shared.state().ledger.request(index);
        let Some(request) = request else { return };
        let mut text = format!("{} {} HTTP/1.1\n", request.method(), request.target()).into_bytes();
        for (name, value) in request.headers() {
            text.extend_from_slice(format!("{name}: {value}\n").as_bytes());
        }
        text.push(b'\n');
        text.extend_from_slice(request.body());
        self.keep(&folder.join(format!("{index:03}.request")), text).await;
    }

    async fn keep(&self, path: &Path, bytes: Vec<u8>) {
        if let Err(error) = tokio::fs::write(path, bytes).await {
            self.shared.state().ledger.failures.push(format!("cannot record {}: {error}", path.display()));
        }
    }
}

/// Enters the end of an exchange into the ledger, also when its task is dropped halfway.
struct EndGuard<'a> {
    shared: &'a Shared,
    index: usize,
    outcome: Option<Outcome>,
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        if let Some(mut outcome) = self.outcome.take() {
            outcome.ended_at = Some(Instant::now());
            self.shared.state().ledger.close(self.index, outcome);
            self.shared.news.notify_waiters();
        }
    }
}
