//! A loopback HTTP server that says exactly the bytes a test gives it, in the pieces and with the end it asks for.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How one request is answered.
#[derive(Clone, Default)]
pub(crate) struct CannedAnswer {
    /// Written one by one, flushed in between.
    pub(crate) pieces: Vec<Vec<u8>>,
    pub(crate) end: ConnectionEnd,
    /// Answer as soon as the head of the request is there, without reading its body.
    pub(crate) before_body: bool,
    /// Written again and again behind the pieces, until the client goes.
    pub(crate) endless: Option<Vec<u8>>,
}

/// What happens to the connection after the pieces.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum ConnectionEnd {
    /// Wait for the next request.
    #[default]
    KeepOpen,
    Fin,
    Rst,
    /// Say nothing more and wait until the client goes.
    Stall,
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) connection: usize,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a request body is JSON")
    }
}

#[derive(Default)]
struct CannedServerState {
    plans: Vec<CannedAnswer>,
    seen: Vec<RecordedRequest>,
    connections: usize,
    client_gone: Option<Instant>,
    /// Bytes of endless answers that the client took.
    taken: usize,
    noticed: Arc<Notify>,
}

/// The server. Its connections end with it.
pub(crate) struct CannedServer {
    pub(crate) url: String,
    state: Arc<Mutex<CannedServerState>>,
    _tasks: JoinSet<()>,
}

impl CannedServer {
    pub(crate) async fn start(plans: Vec<CannedAnswer>) -> Self {
        Self::start_listener(plans, None).await
    }

    pub(crate) async fn with_tls(plans: Vec<CannedAnswer>, tls: tokio_rustls::TlsAcceptor) -> Self {
        Self::start_listener(plans, Some(tls)).await
    }

    async fn start_listener(plans: Vec<CannedAnswer>, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let state = Arc::new(Mutex::new(CannedServerState { plans, ..CannedServerState::default() }));
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&state);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                let tls = tls.clone();
                connections.spawn(async move {
                    socket.set_nodelay(true).unwrap();
                    match tls {
                        None => serve_plain(socket, &state).await,
                        Some(tls) => {
                            if let Ok(mut stream) = tls.accept(socket).await {
                                serve(&mut stream, &state).await;
                            }
                        }
                    }
                });
            }
        });
        Self { url: format!("{scheme}://127.0.0.1:{port}"), state, _tasks: tasks }
    }

    pub(crate) fn recorded_requests(&self) -> Vec<RecordedRequest> {
        self.state.lock().unwrap().seen.clone()
    }

    /// How many bytes of endless answers were taken.
    pub(crate) fn unbounded_bytes_taken(&self) -> usize {
        self.state.lock().unwrap().taken
    }

    /// Waits until a stalled connection was closed by the client.
    pub(crate) async fn wait_for_client_close(&self) -> Instant {
        let noticed = Arc::clone(&self.state.lock().unwrap().noticed);
        noticed.notified().await;
        self.state.lock().unwrap().client_gone.expect("the time is noted before the notice")
    }
}

async fn serve_plain(mut socket: TcpStream, state: &Mutex<CannedServerState>) {
    if serve(&mut socket, state).await == ConnectionEnd::Rst {
        socket.set_zero_linger().unwrap();
    }
}

async fn serve(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), state: &Mutex<CannedServerState>) -> ConnectionEnd {
    let connection = {
        let mut state = state.lock().unwrap();
        state.connections += 1;
        state.connections
    };
    let mut buffer = Vec::new();
    loop {
        let Some(head_end) = read_until_head(stream, &mut buffer).await else { return ConnectionEnd::Fin };
        let plan = {
            let mut state = state.lock().unwrap();
            if state.plans.is_empty() {
                CannedAnswer { end: ConnectionEnd::Fin, ..CannedAnswer::default() }
            } else {
                state.plans.remove(0)
            }
        };
        let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
        let mut seen = RecordedRequest { head, body: Vec::new(), connection };
        let length: usize = seen.header("content-length").map_or(0, |text| text.parse().unwrap());
        if !plan.before_body {
            while buffer.len() < head_end + length {
                if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                    return ConnectionEnd::Fin;
                }
            }
            seen.body = buffer[head_end..head_end + length].to_vec();
        }
        buffer.clear();
        state.lock().unwrap().seen.push(seen);
        for piece in &plan.pieces {
            if stream.write_all(piece).await.is_err() || stream.flush().await.is_err() {
                return ConnectionEnd::Fin;
            }
            // Lets the client read this piece before the next one is written.
            tokio::task::yield_now().await;
        }
        if let Some(piece) = &plan.endless {
            while stream.write_all(piece).await.is_ok() {
                state.lock().unwrap().taken += piece.len();
            }
            return ConnectionEnd::Fin;
        }
        match plan.end {
            ConnectionEnd::KeepOpen => {}
            ConnectionEnd::Fin => {
                // The client may be gone already; either way the connection ends here.
                drop(stream.shutdown().await);
                return ConnectionEnd::Fin;
            }
            ConnectionEnd::Rst => return ConnectionEnd::Rst,
            ConnectionEnd::Stall => {
                let mut rest = [0; 64];
                while stream.read(&mut rest).await.is_ok_and(|n| n > 0) {}
                let mut state = state.lock().unwrap();
                state.client_gone = Some(Instant::now());
                state.noticed.notify_one();
                return ConnectionEnd::Fin;
            }
        }
    }
}

async fn read_until_head(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<usize> {
    loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            return Some(at + 4);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// An answer with a whole body.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> CannedAnswer {
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{extra}\r\n{body}", body.len());
    CannedAnswer { pieces: vec![text.into_bytes()], ..CannedAnswer::default() }
}

/// An error in the vendor's words.
pub(crate) fn error(status: u16, kind: &str, message: &str, headers: &[(&str, &str)]) -> CannedAnswer {
    let body = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_e"}}"#);
    answer(status, headers, &body)
}

pub(crate) const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_1\r\ntransfer-encoding: chunked\r\n\r\n";

/// A stream of events, each in a chunk and a write of its own; the end of the body comes with the last one.
pub(crate) fn stream(events: &[&str]) -> CannedAnswer {
    let mut plan = cut(events, ConnectionEnd::KeepOpen);
    if let Some(last) = plan.pieces.last_mut() {
        last.extend_from_slice(b"0\r\n\r\n");
    }
    plan
}

/// The beginning of such a stream, and how it ends instead.
pub(crate) fn cut(events: &[&str], end: ConnectionEnd) -> CannedAnswer {
    let mut pieces = vec![STREAM_HEAD.as_bytes().to_vec()];
    pieces.extend(events.iter().map(|data| chunk(&event(data))));
    CannedAnswer { pieces, end, ..CannedAnswer::default() }
}

pub(crate) fn event(data: &str) -> String {
    let kind =
        serde_json::from_str::<serde_json::Value>(data).ok().and_then(|data| Some(data["type"].as_str()?.to_owned()));
    format!("event: {}\ndata: {data}\n\n", kind.as_deref().unwrap_or("odd"))
}

pub(crate) fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}
