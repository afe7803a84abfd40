//! The only network access of a sandbox: a proxy that knows which hosts a command may reach, and reports those that
//! it refused.
//!
//! It listens on a Unix socket and speaks HTTP (tunnels and single requests) and SOCKS 5. Names are resolved here,
//! the addresses are checked after that, and the connection goes to the very address that was checked.

mod client_handshake;
mod host_questions;
mod host_rules;

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use gimlet_proto::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use client_handshake::{BodyRemainder, HttpForm, ParseProgress};
use host_questions::HostQuestions;
pub use host_questions::{HostDecision, HostJudge};
use host_rules::{HostList, HostRule, ProxyHost, is_blocked_address, parse_host};
pub use host_rules::{WEB_PORTS, is_public_address};

const MAX_CONNECTIONS: usize = 256;
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// A greeting of TLS is at most one record.
const MAX_GREETING_BYTES: usize = 5 + 16 * 1024 + 256;
const HEAD_PATIENCE: Duration = Duration::from_secs(15);
const CONNECT_PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of recorded refusals; more are repetitions.
const MAX_REFUSALS: usize = 1_000;

/// A refused connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRefusal {
    pub host: String,
    pub port: u16,
    pub reason: RefusalReason,
}

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    #[error("the host is not in the list of allowed ones")]
    NotAllowed,
    #[error("the host is denied")]
    Denied,
    #[error("it leads to a private address")]
    PrivateAddress,
    #[error("the connection asked for another host than the one that was allowed")]
    OtherHost,
    #[error("it was asked about and not allowed")]
    Declined,
    #[error("it was asked about and nobody answered in time")]
    Unanswered,
}

/// Turns a name and a port into addresses.
pub type HostResolver = Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Allowed hosts, and the proxy's socket.
#[derive(Default)]
pub struct ProxyConfig {
    /// A path in a folder that only this user can enter.
    pub socket: PathBuf,
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    /// Resolver of host names; the system's if unset.
    pub resolver: Option<HostResolver>,
    /// Timeout of a connection that waits for an answer about its host; some minutes if unset.
    pub patience: Option<Duration>,
    pub upstream: UpstreamProxies,
}

/// Local ports on which the user's own proxies listen. Connections in their protocol are forwarded to them unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpstreamProxies {
    pub http: Option<u16>,
    pub socks: Option<u16>,
}

/// Reason why a proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("'{pattern}' is not a host, a host pattern or an address")]
    Pattern { pattern: String },
    #[error("cannot listen on {socket}", socket = socket.display())]
    Listen { socket: PathBuf, source: io::Error },
}

/// A running proxy. Dropping it ends all its connections.
#[derive(Debug)]
pub struct SandboxProxy {
    socket: PathBuf,
    shared: Arc<ProxyState>,
    _tasks: JoinSet<()>,
}

struct ProxyState {
    allow: RwLock<Vec<HostRule>>,
    deny: Vec<HostRule>,
    questions: Arc<HostQuestions>,
    upstream: UpstreamProxies,
    refusals: Mutex<Vec<ProxyRefusal>>,
    resolver: HostResolver,
}

impl std::fmt::Debug for ProxyState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("allow", &self.allow).field("deny", &self.deny).finish_non_exhaustive()
    }
}

impl SandboxProxy {
    /// Starts to listen. Must be called within a runtime.
    pub fn start(config: ProxyConfig) -> Result<Self, ProxyError> {
        let patterns = |texts: &[String]| texts.iter().map(|text| parse_pattern(text)).collect::<Result<Vec<_>, _>>();
        let shared = Arc::new(ProxyState {
            allow: RwLock::new(patterns(&config.allow)?),
            deny: patterns(&config.deny)?,
            questions: HostQuestions::new(config.patience),
            upstream: config.upstream,
            refusals: Mutex::default(),
            resolver: config.resolver.unwrap_or_else(system_resolver),
        });
        let listener = UnixListener::bind(&config.socket)
            .and_then(|listener| {
                std::fs::set_permissions(&config.socket, std::fs::Permissions::from_mode(0o600))?;
                Ok(listener)
            })
            .map_err(|source| ProxyError::Listen { socket: config.socket.clone(), source })?;
        let mut tasks = JoinSet::new();
        tasks.spawn(accept_clients(listener, Arc::clone(&shared)));
        Ok(Self { socket: config.socket, shared, _tasks: tasks })
    }

    /// Returns the path of the proxy's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Allows one more host from now on, as when the user has approved it.
    pub fn allow(&self, pattern: &str) -> Result<(), ProxyError> {
        let pattern = parse_pattern(pattern)?;
        self.shared.allow.write().unwrap_or_else(PoisonError::into_inner).push(pattern);
        Ok(())
    }

    /// Sets the judge that is asked about hosts on no list. Without one they are refused.
    pub fn set_host_judge(&self, judge: Arc<dyn HostJudge>) {
        self.shared.questions.set_judge(judge);
    }

    /// Returns the refusals since the last call.
    pub fn take_refusals(&self) -> Vec<ProxyRefusal> {
        std::mem::take(&mut *self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for SandboxProxy {
    fn drop(&mut self) {
        // A socket without a listener is of no use; its folder may be gone already.
        drop(std::fs::remove_file(&self.socket));
    }
}

/// Returns true if a text is valid in a list of hosts.
pub fn is_host_pattern(text: &str) -> bool {
    HostRule::parse(text).is_some()
}

fn parse_pattern(text: &str) -> Result<HostRule, ProxyError> {
    HostRule::parse(text).ok_or_else(|| ProxyError::Pattern { pattern: text.to_owned() })
}

fn system_resolver() -> HostResolver {
    Arc::new(|name, port| {
        Box::pin(async move { Ok(tokio::net::lookup_host((name.as_str(), port)).await?.collect::<Vec<_>>()) })
    })
}

async fn accept_clients(listener: UnixListener, shared: Arc<ProxyState>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            // The folder of the socket keeps other users out; this check applies where it does not.
            Ok((client, _)) if !is_same_user(&client, rustix::process::geteuid().as_raw()) => {}
            Ok((client, _)) => {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    // A connection that fails is closed, and that is all its client has to know.
                    drop(serve_client(client, &shared).await);
                    drop(permit);
                });
            }
            // Out of descriptors, most likely: what is open has to end first.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Returns true if the client belongs to this user.
fn is_same_user(client: &UnixStream, user: u32) -> bool {
    client.peer_cred().is_ok_and(|peer| peer.uid() == user)
}

/// Protocol in which a client expects the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientProtocol {
    Http,
    Socks,
}

async fn serve_client(mut client: UnixStream, shared: &ProxyState) -> io::Result<()> {
    let mut seen = Vec::new();
    tokio::time::timeout(HEAD_PATIENCE, read_more(&mut client, &mut seen, MAX_HEAD_BYTES)).await??;
    let speaks_socks = seen.first() == Some(&5);
    if let Some(port) = if speaks_socks { shared.upstream.socks } else { shared.upstream.http } {
        return forward_to_upstream(client, &seen, port).await;
    }
    let greeting = tokio::time::timeout(HEAD_PATIENCE, async {
        if speaks_socks { read_socks(&mut client, &mut seen).await } else { read_http(&mut client, &mut seen).await }
    });
    let Some(wanted) = greeting.await?? else {
        return client.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
    };
    let addresses = match shared.resolve_allowed(&wanted.host, wanted.port).await {
        Ok(addresses) => addresses,
        Err(HostRejection::Refused(reason)) => {
            shared.record_refusal(&wanted.host, wanted.port, reason);
            return send_refusal(&mut client, &wanted, reason).await;
        }
        Err(HostRejection::Unresolved) => return send_failure(&mut client, &wanted).await,
    };
    let connect = tokio::time::timeout(CONNECT_PATIENCE, TcpStream::connect(addresses.as_slice()));
    let Ok(Ok(mut server)) = connect.await else { return send_failure(&mut client, &wanted).await };
    let ProxyRequest { host, port, protocol: tongue, forward } = wanted;
    if let Some((head, _)) = &forward {
        server.write_all(head).await?;
    } else {
        client.write_all(success_reply(tongue)).await?;
    }
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        match forward {
            Some((_, body)) => forward_body(&mut from_client, &mut to_server, seen, body).await?,
            None if is_tls_host_allowed(&mut from_client, &mut seen, &host).await? => {
                to_server.write_all(&seen).await?;
                tokio::io::copy(&mut from_client, &mut to_server).await?;
            }
            None => {
                shared.record_refusal(&host, port, RefusalReason::OtherHost);
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        to_server.shutdown().await
    };
    // Some clients wait for the server to send first; their own data is still checked in that case.
    let down = async {
        tokio::io::copy(&mut from_server, &mut to_client).await?;
        to_client.shutdown().await
    };
    tokio::try_join!(up, down).map(drop)
}

/// Forwards the body of a request and nothing behind it, until the client ends.
async fn forward_body(
    client: &mut (impl AsyncRead + Unpin),
    server: &mut (impl AsyncWrite + Unpin),
    mut seen: Vec<u8>,
    mut body: BodyRemainder,
) -> io::Result<()> {
    loop {
        let len = body.consume(&seen).ok_or(io::ErrorKind::InvalidData)?;
        seen.truncate(len);
        server.write_all(&seen).await?;
        seen.clear();
        if client.read_buf(&mut seen).await? == 0 {
            return Ok(());
        }
    }
}

/// Forwards a connection to the user's own proxy, from its first byte on.
async fn forward_to_upstream(mut client: UnixStream, seen: &[u8], port: u16) -> io::Result<()> {
    let mut server = TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)).await?;
    server.write_all(seen).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}

struct ProxyRequest {
    host: ProxyHost,
    port: u16,
    protocol: ClientProtocol,
    /// The head of a single request, and what its body is.
    forward: Option<(Vec<u8>, BodyRemainder)>,
}

/// Reads once; the end of the stream is an error, since more was expected.
async fn read_more(client: &mut (impl AsyncRead + Unpin), seen: &mut Vec<u8>, limit: usize) -> io::Result<()> {
    if seen.len() >= limit {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if client.read_buf(seen).await? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Reads a request; returns `None` for one that is not understood. Data after the request stays in `seen`.
async fn read_http(client: &mut UnixStream, seen: &mut Vec<u8>) -> io::Result<Option<ProxyRequest>> {
    let end = loop {
        if let Some(end) = client_handshake::find_head_end(seen) {
            break end;
        }
        read_more(client, seen, MAX_HEAD_BYTES).await?;
    };
    let rest = seen.split_off(end);
    let head = std::mem::replace(seen, rest);
    Ok(client_handshake::parse_http_request(&head).map(|request| ProxyRequest {
        host: request.host,
        port: request.port,
        protocol: ClientProtocol::Http,
        forward: match request.form {
            HttpForm::Connect => None,
            HttpForm::Forward(head, body) => Some((head, body)),
        },
    }))
}

async fn read_socks(client: &mut UnixStream, seen: &mut Vec<u8>) -> io::Result<Option<ProxyRequest>> {
    let methods = loop {
        if let Some(count) = seen.get(1)
            && seen.len() >= 2 + usize::from(*count)
        {
            break usize::from(*count);
        }
        read_more(client, seen, MAX_HEAD_BYTES).await?;
    };
    drop(seen.drain(..2 + methods));
    client.write_all(&[5, 0]).await?;
    loop {
        match client_handshake::parse_socks_request(seen) {
            ParseProgress::Complete((host, port, len)) => {
                drop(seen.drain(..len));
                return Ok(Some(ProxyRequest { host, port, protocol: ClientProtocol::Socks, forward: None }));
            }
            ParseProgress::Partial => read_more(client, seen, MAX_HEAD_BYTES).await?,
            ParseProgress::Invalid => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Checks the first bytes of a tunnel, whenever they arrive: TLS must request the host that the tunnel was allowed
/// for, or none.
async fn is_tls_host_allowed(
    client: &mut (impl AsyncRead + Unpin),
    seen: &mut Vec<u8>,
    host: &ProxyHost,
) -> io::Result<bool> {
    loop {
        match client_handshake::parse_server_name(seen) {
            ParseProgress::Complete(name) => return Ok(name.is_empty() || parse_host(&name).as_ref() == Some(host)),
            ParseProgress::Invalid => return Ok(true),
            // A client may say nothing for as long as it likes, also nothing at all.
            ParseProgress::Partial if seen.is_empty() => {
                if client.read_buf(seen).await? == 0 {
                    return Ok(true);
                }
            }
            ParseProgress::Partial => {
                let more = read_more(client, seen, MAX_GREETING_BYTES);
                tokio::time::timeout(HEAD_PATIENCE, more).await??;
            }
        }
    }
}

enum HostRejection {
    Refused(RefusalReason),
    Unresolved,
}

impl ProxyState {
    /// Returns the addresses to connect to, all of them checked.
    async fn resolve_allowed(&self, host: &ProxyHost, port: u16) -> Result<Vec<SocketAddr>, HostRejection> {
        if self.deny.iter().any(|pattern| pattern.matches(host, port, HostList::Deny)) {
            return Err(HostRejection::Refused(RefusalReason::Denied));
        }
        let is_allowed = {
            let allow = self.allow.read().unwrap_or_else(PoisonError::into_inner);
            allow.iter().any(|pattern| pattern.matches(host, port, HostList::Allow))
        };
        if !is_allowed {
            self.ask_about_host(host, port).await.map_err(HostRejection::Refused)?;
        }
        let is_open = |address: &SocketAddr| match host {
            // Named by its address, a private host is meant.
            ProxyHost::Address(_) => !is_blocked_address(address.ip()),
            ProxyHost::Name(_) => is_public_address(address.ip()) && !self.is_denied_address(address),
        };
        let addresses = match host {
            ProxyHost::Address(address) => vec![SocketAddr::new(*address, port)],
            ProxyHost::Name(name) => {
                (self.resolver)(name.clone(), port).await.map_err(|_| HostRejection::Unresolved)?
            }
        };
        let open: Vec<SocketAddr> = addresses.iter().copied().filter(is_open).collect();
        match (addresses.is_empty(), open.is_empty()) {
            (true, _) => Err(HostRejection::Unresolved),
            (false, true) => Err(HostRejection::Refused(RefusalReason::PrivateAddress)),
            (false, false) => Ok(open),
        }
    }

    /// Asks about a host that is on no list. Does not ask about one that could not be reached anyway.
    async fn ask_about_host(&self, host: &ProxyHost, port: u16) -> Result<(), RefusalReason> {
        match host {
            ProxyHost::Address(address) if !is_public_address(*address) => Err(RefusalReason::NotAllowed),
            _ => self.questions.ask_about_host(host, port).await,
        }
    }

    /// Returns true if an address is denied, under any name that resolves to it.
    fn is_denied_address(&self, address: &SocketAddr) -> bool {
        self.deny
            .iter()
            .any(|pattern| pattern.matches(&ProxyHost::Address(address.ip()), address.port(), HostList::Deny))
    }

    fn record_refusal(&self, host: &ProxyHost, port: u16, reason: RefusalReason) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() < MAX_REFUSALS {
            refusals.push(ProxyRefusal { host: host.to_string(), port, reason });
        }
    }
}

fn success_reply(tongue: ClientProtocol) -> &'static [u8] {
    match tongue {
        ClientProtocol::Http => b"HTTP/1.1 200 Connection established\r\n\r\n",
        ClientProtocol::Socks => &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    }
}

async fn send_refusal(client: &mut UnixStream, wanted: &ProxyRequest, reason: RefusalReason) -> io::Result<()> {
    let text = format!("the sandbox does not let this command reach {}:{}: {reason}\n", wanted.host, wanted.port);
    send_error_reply(client, wanted.protocol, "403 Forbidden", 2, &text).await
}

async fn send_failure(client: &mut UnixStream, wanted: &ProxyRequest) -> io::Result<()> {
    let text = format!("{}:{} cannot be reached\n", wanted.host, wanted.port);
    send_error_reply(client, wanted.protocol, "502 Bad Gateway", 4, &text).await
}

async fn send_error_reply(
    client: &mut UnixStream,
    tongue: ClientProtocol,
    status: &str,
    code: u8,
    text: &str,
) -> io::Result<()> {
    match tongue {
        ClientProtocol::Socks => client.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await,
        ClientProtocol::Http => {
            let len = text.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\n\r\n"
            );
            client.write_all(format!("{head}{text}").as_bytes()).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_user_who_runs_the_proxy_is_served() {
        let (client, _other) = UnixStream::pair().unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert!(is_same_user(&client, user) && !is_same_user(&client, user + 1));
    }
}
