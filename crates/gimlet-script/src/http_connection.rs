//! HTTP/1.1 by hand, so that every byte and every way of closing is under the script's control.
//!
//! It supports what clients send (length-delimited and chunked bodies, `expect: 100-continue`, keep-alive) and detects
//! at any time that the client has closed the connection. It has no knowledge of models.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::script::{BodyFraming, CloseKind};
use crate::wire_plan::{PingSchedule, WireAction};

const MAX_HEAD_BYTES: usize = 256 * 1024;
const MAX_HEADERS: usize = 128;
/// Time that a refused upload may continue before the connection is dropped.
const UPLOAD_GRACE: Duration = Duration::from_secs(1);

/// A request's head.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// End of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    Known(u64),
    Chunked,
}

impl RequestHead {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn body_length(&self) -> BodyLength {
        let chunked =
            self.header("transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked"));
        if chunked {
            return BodyLength::Chunked;
        }
        BodyLength::Known(self.header("content-length").and_then(|value| value.trim().parse().ok()).unwrap_or(0))
    }

    /// Returns the path without its query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or(&self.target)
    }

    fn wants_continue(&self) -> bool {
        self.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    }
}

/// A response's head.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) framing: BodyFraming,
}

/// Reason why a connection cannot continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("the client closed the connection")]
    Client,
    #[error("the script closed the connection")]
    Script,
    #[error("the request is not HTTP: {0}")]
    Malformed(&'static str),
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: u64 },
}

/// One connection.
pub(crate) struct HttpConnection {
    stream: TcpStream,
    /// Received bytes that were not consumed yet.
    unread: BytesMut,
    pub(crate) bytes_sent: u64,
    pub(crate) client_closed_at: Option<Instant>,
    /// Copy of the sent bytes, if one is kept.
    pub(crate) copy: Option<Vec<u8>>,
}

impl HttpConnection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Small writes must be sent at once, or the kernel would choose the chunking. Without the option they still
        // arrive.
        let _ignored = stream.set_nodelay(true);
        Self { stream, unread: BytesMut::new(), bytes_sent: 0, client_closed_at: None, copy: None }
    }

    async fn fill(&mut self) -> Result<(), ConnectionError> {
        match self.stream.read_buf(&mut self.unread).await {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => Err(self.record_client_closed()),
        }
    }

    fn record_client_closed(&mut self) -> ConnectionError {
        self.client_closed_at.get_or_insert_with(Instant::now);
        ConnectionError::Client
    }

    /// Waits until a request begins to arrive.
    pub(crate) async fn wait_for_request(&mut self) -> Result<(), ConnectionError> {
        while self.unread.is_empty() {
            self.fill().await?;
        }
        Ok(())
    }

    pub(crate) async fn read_head(&mut self) -> Result<RequestHead, ConnectionError> {
        loop {
            if let Some((head, len)) = parse_head(&self.unread)? {
                let _used = self.unread.split_to(len);
                return Ok(head);
            }
            if self.unread.len() > MAX_HEAD_BYTES {
                return Err(ConnectionError::Malformed("the head is too long"));
            }
            self.fill().await?;
        }
    }

    /// Reads the body, or as much of it as `limit` allows.
    pub(crate) async fn read_body(&mut self, head: &RequestHead, limit: u64) -> Result<Bytes, ConnectionError> {
        let length = head.body_length();
        if matches!(length, BodyLength::Known(bytes) if bytes > limit) {
            return Err(ConnectionError::TooLarge { limit });
        }
        if head.wants_continue() {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        match length {
            BodyLength::Known(bytes) => self.take_bytes(bytes as usize).await,
            BodyLength::Chunked => self.read_chunked(limit).await,
        }
    }

    /// Waits for this many bytes of a body without consuming them.
    pub(crate) async fn wait_for_bytes(&mut self, count: usize) -> Result<(), ConnectionError> {
        while self.unread.len() < count {
            self.fill().await?;
        }
        Ok(())
    }

    async fn take_bytes(&mut self, count: usize) -> Result<Bytes, ConnectionError> {
        self.wait_for_bytes(count).await?;
        Ok(self.unread.split_to(count).freeze())
    }

    async fn read_chunked(&mut self, limit: u64) -> Result<Bytes, ConnectionError> {
        let mut body = BytesMut::new();
        loop {
            let (start, size) = match httparse::parse_chunk_size(&self.unread) {
                Ok(httparse::Status::Complete((start, size))) => (start, size),
                Ok(httparse::Status::Partial) => {
                    self.fill().await?;
                    continue;
                }
                Err(_) => return Err(ConnectionError::Malformed("a chunk's size is no number")),
            };
            let _size_line = self.unread.split_to(start);
            if body.len() as u64 + size > limit {
                return Err(ConnectionError::TooLarge { limit });
            }
            let chunk = self.take_bytes(size as usize + 2).await?;
            if size == 0 {
                return Ok(body.freeze());
            }
            body.extend_from_slice(&chunk[..size as usize]);
        }
    }

    /// Sends bytes while checking if the client closes the connection.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        let outcome = {
            let (mut reader, mut writer) = self.stream.split();
            let sending = writer.write_all(bytes);
            tokio::pin!(sending);
            loop {
                tokio::select! {
                    biased;
                    sent = &mut sending => break sent.is_ok(),
                    read = reader.read_buf(&mut self.unread) => {
                        if !matches!(read, Ok(1..)) {
                            break false;
                        }
                    }
                }
            }
        };
        if !outcome {
            return Err(self.record_client_closed());
        }
        self.bytes_sent += bytes.len() as u64;
        if let Some(copy) = &mut self.copy {
            copy.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Waits for the given time, or for ever, unless the client closes the connection.
    async fn wait_or_client_closed(&mut self, time: Option<Duration>) -> Result<(), ConnectionError> {
        let over = async {
            match time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
                read = self.stream.read_buf(&mut self.unread) => {
                    if !matches!(read, Ok(1..)) {
                        return Err(self.record_client_closed());
                    }
                }
            }
        }
    }

    /// Ends the connection after an early answer. In an orderly close the rest of the upload is read and discarded for
    /// a moment, because unread bytes would turn the close into a reset that can overtake the answer.
    pub(crate) async fn close_during_upload(&mut self, how: CloseKind) -> ConnectionError {
        let gone = self.close(how).await;
        if how == CloseKind::Fin {
            let rest = async {
                while self.fill().await.is_ok() {
                    self.unread.clear();
                }
            };
            drop(tokio::time::timeout(UPLOAD_GRACE, rest).await);
        }
        gone
    }

    /// Ends the connection in the given way.
    pub(crate) async fn close(&mut self, how: CloseKind) -> ConnectionError {
        match how {
            // Errors mean that the client closed first.
            CloseKind::Fin => drop(self.stream.shutdown().await),
            CloseKind::Rst => drop(self.stream.set_zero_linger()),
        }
        ConnectionError::Script
    }

    /// Performs one action outside a body.
    pub(crate) async fn perform(&mut self, act: &WireAction) -> Result<(), ConnectionError> {
        match act {
            WireAction::Write(bytes) => self.write(bytes).await,
            WireAction::Sleep { ms } => self.wait_or_client_closed(Some(Duration::from_millis(*ms))).await,
            WireAction::Stall { for_ms, .. } => self.wait_or_client_closed(for_ms.map(Duration::from_millis)).await,
            WireAction::Close(how) => Err(self.close(*how).await),
        }
    }

    /// Sends a head with the framing of its body.
    pub(crate) async fn send_head(&mut self, head: &ResponseHead, acts: &[WireAction]) -> Result<(), ConnectionError> {
        let mut text = format!("HTTP/1.1 {} {}\r\n", head.status, reason(head.status));
        for (name, value) in &head.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        match head.framing {
            BodyFraming::Chunked => text.push_str("transfer-encoding: chunked\r\n"),
            BodyFraming::Length => text.push_str(&format!("content-length: {}\r\n", promised_length(acts))),
            BodyFraming::Close => text.push_str("connection: close\r\n"),
        }
        text.push_str("\r\n");
        self.write(text.as_bytes()).await
    }

    /// Sends a body action by action.
    pub(crate) async fn send_body(&mut self, framing: BodyFraming, acts: &[WireAction]) -> Result<(), ConnectionError> {
        for act in acts {
            match act {
                WireAction::Write(bytes) => self.write_framed(framing, bytes).await?,
                WireAction::Stall { for_ms, ping: Some(pinger) } => {
                    self.stall_with_pings(framing, *for_ms, pinger).await?
                }
                other => self.perform(other).await?,
            }
        }
        match framing {
            BodyFraming::Chunked => self.write(b"0\r\n\r\n").await,
            BodyFraming::Length => Ok(()),
            BodyFraming::Close => Err(self.close(CloseKind::Fin).await),
        }
    }

    async fn write_framed(&mut self, framing: BodyFraming, bytes: &[u8]) -> Result<(), ConnectionError> {
        if framing != BodyFraming::Chunked {
            return self.write(bytes).await;
        }
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.write(&chunk).await
    }

    async fn stall_with_pings(
        &mut self,
        framing: BodyFraming,
        for_ms: Option<u64>,
        ping: &PingSchedule,
    ) -> Result<(), ConnectionError> {
        let rounds = for_ms.map_or(u64::MAX, |for_ms| for_ms / ping.every_ms.max(1));
        for _ in 0..rounds {
            self.wait_or_client_closed(Some(Duration::from_millis(ping.every_ms))).await?;
            self.write_framed(framing, &ping.bytes).await?;
        }
        Ok(())
    }
}

/// Returns the length that a head announces: the bytes that will be sent, and more when the script cuts the body.
fn promised_length(acts: &[WireAction]) -> usize {
    let sent: usize = acts.iter().map(|act| if let WireAction::Write(bytes) = act { bytes.len() } else { 0 }).sum();
    let breaks_off = acts.iter().any(|act| matches!(act, WireAction::Close(_)));
    if breaks_off { sent + 1024 } else { sent }
}

fn parse_head(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, ConnectionError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(ConnectionError::Malformed("the head cannot be read")),
        Ok(httparse::Status::Complete(len)) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let headers = request.headers.iter().map(|header| (header.name.to_owned(), text(header.value))).collect();
            let method = request.method.unwrap_or("").to_owned();
            let target = request.path.unwrap_or("").to_owned();
            Ok(Some((RequestHead { method, target, headers }, len)))
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        302 => "Found",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        529 => "Overloaded",
        _ => "Scripted",
    }
}
