//! What may stand between gimlet and a model: an end of TLS, a proxy, a server of HTTP/2. Each passes requests on to the
//! scripted model behind it, so that rows over such a link are judged like all others.

use bytes::Bytes;
use gimlet_script::ScriptServer;
use gimlet_testkit::{TestWorld, tls_server};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A host that exists for the proxy only.
const HIDDEN: &str = "model.invalid";
const HERE: &str = "127.0.0.1";

/// What stands there.
#[derive(Clone, Copy)]
pub(super) enum NetworkFront {
    /// A certificate of an authority that nobody has heard of.
    UnknownAuthority,
    /// From here on gimlet is told to trust the authority.
    Trusted,
    Expired,
    WrongHost,
    /// The model is behind a proxy, and only the proxy knows its host.
    Proxy,
    /// A proxy that lets nobody through who does not say who they are.
    ProxyWithPassword,
    /// A proxy that is dead, and that the model's host is exempt from.
    DeadProxyExempt,
    Http2(Http2Fault),
}

/// What a server of HTTP/2 does to its first answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Http2Fault {
    /// Ends the stream after this share of the answer, in percent.
    Reset(usize),
    /// Ends the connection there.
    GoAway(usize),
    /// Takes no further request behind the whole answer.
    RefuseNext,
}

/// A front that stands, for as long as this lives.
pub(super) struct RunningFront {
    pub(super) url: String,
    pub(super) env: Vec<(&'static str, String)>,
    _tasks: JoinSet<()>,
}

impl NetworkFront {
    pub(super) async fn start(self, world: &TestWorld, model: &ScriptServer) -> RunningFront {
        let host = match self {
            NetworkFront::WrongHost => "another.invalid",
            NetworkFront::Proxy => HIDDEN,
            _ => HERE,
        };
        let protocols: &[&str] = if matches!(self, NetworkFront::Http2(_)) { &["h2"] } else { &["http/1.1"] };
        let (tls, authority) = tls_server(host, matches!(self, NetworkFront::Expired), protocols);
        let listener = TcpListener::bind((HERE, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let model = model.url().trim_start_matches("http://").to_owned();
        let mut env = Vec::new();
        if !matches!(self, NetworkFront::UnknownAuthority) {
            let file = world.home.join("authority.pem");
            std::fs::write(&file, authority).unwrap();
            env.push(("NODE_EXTRA_CA_CERTS", file.to_string_lossy().into_owned()));
        }
        let mut tasks = JoinSet::new();
        match self {
            NetworkFront::Http2(what) => drop(tasks.spawn(serve_http2(listener, tls, model, what))),
            _ => drop(tasks.spawn(serve_tls(listener, tls, model))),
        }
        let mut url = format!("https://{HERE}:{port}");
        match self {
            NetworkFront::Proxy | NetworkFront::ProxyWithPassword => {
                let proxy = TcpListener::bind((HERE, 0)).await.unwrap();
                env.push(("HTTPS_PROXY", format!("http://{}", proxy.local_addr().unwrap())));
                let target = matches!(self, NetworkFront::Proxy).then_some(port);
                tasks.spawn(serve_proxy(proxy, target));
            }
            NetworkFront::DeadProxyExempt => {
                env.push(("HTTPS_PROXY", format!("http://{HERE}:9")));
                env.push(("NO_PROXY", HERE.to_owned()));
            }
            _ => {}
        }
        if matches!(self, NetworkFront::Proxy | NetworkFront::ProxyWithPassword) {
            url = format!("https://{HIDDEN}");
        }
        RunningFront { url, env, _tasks: tasks }
    }
}

async fn serve_tls(listener: TcpListener, tls: TlsAcceptor, model: String) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let (tls, model) = (tls.clone(), model.clone());
        connections.spawn(async move {
            // A client that does not like the certificate leaves here.
            let Ok(mut secure) = tls.accept(socket).await else { return };
            let mut plain = TcpStream::connect(model).await.unwrap();
            drop(copy_bidirectional(&mut secure, &mut plain).await);
        });
    }
}

/// Opens tunnels to the port, wherever the client wants to go; without one it lets nobody through.
async fn serve_proxy(listener: TcpListener, target: Option<u16>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(async move {
            let mut client = BufReader::new(socket);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && client.read_line(&mut head).await.is_ok_and(|read| read > 0) {}
            let port = match target {
                Some(port) if head.starts_with(&format!("CONNECT {HIDDEN}:443 ")) => port,
                _ => {
                    let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n";
                    return drop(client.write_all(refusal).await);
                }
            };
            let mut server = TcpStream::connect((HERE, port)).await.unwrap();
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            drop(copy_bidirectional(&mut client, &mut server).await);
        });
    }
}

async fn serve_http2(listener: TcpListener, tls: TlsAcceptor, model: String, what: Http2Fault) {
    let mut fault = Some(what);
    let mut ending = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let mut connection = h2::server::handshake(tls.accept(socket).await.unwrap()).await.unwrap();
        let mut is_over = false;
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            // The connection has to be driven while the request is read and the answer is fetched.
            let (head, upload) = request.into_parts();
            let headers = head.headers.iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()));
            let exchange = forward_request(head.uri.path().to_owned(), headers.collect(), upload, &model);
            let answer = {
                let mut exchange = std::pin::pin!(exchange);
                tokio::select! {
                    answer = &mut exchange => answer,
                    _ = connection.accept() => panic!("one request at a time"),
                }
            };
            let fault = fault.take();
            let share = match fault {
                Some(Http2Fault::Reset(percent) | Http2Fault::GoAway(percent)) => answer.len() * percent / 100,
                Some(Http2Fault::RefuseNext) | None => answer.len(),
            };
            let mut body = respond.send_response(Default::default(), false).unwrap();
            body.send_data(answer.slice(..share), share == answer.len()).unwrap();
            if share < answer.len() {
                // What ends the answer must not overtake its data.
                tokio::select! {
                    _ = connection.accept() => panic!("no request is due"),
                    () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
                }
            }
            match fault {
                Some(Http2Fault::Reset(_)) => body.send_reset(h2::Reason::INTERNAL_ERROR),
                Some(Http2Fault::GoAway(_)) => connection.abrupt_shutdown(h2::Reason::INTERNAL_ERROR),
                Some(Http2Fault::RefuseNext) => connection.graceful_shutdown(),
                None => {}
            }
            if matches!(fault, Some(Http2Fault::GoAway(_) | Http2Fault::RefuseNext)) {
                is_over = true;
                break;
            }
        }
        if is_over {
            // Whatever is left to be said goes out while the next connection is served.
            ending.spawn(async move { while connection.accept().await.is_some() {} });
        }
    }
}

/// Asks the model the same over HTTP/1.1; gives the body of its answer, which must end with the connection.
async fn forward_request(path: String, headers: Vec<String>, mut upload: h2::RecvStream, model: &str) -> Bytes {
    let mut body = Vec::new();
    while let Some(piece) = upload.data().await {
        let piece = piece.unwrap();
        upload.flow_control().release_capacity(piece.len()).unwrap();
        body.extend_from_slice(&piece);
    }
    let mut text = format!("POST {path} HTTP/1.1\r\nhost: {model}\r\ncontent-length: {}\r\n", body.len());
    let is_ours = |line: &&String| line.starts_with("content-length:") || line.starts_with("accept-encoding:");
    headers.iter().filter(|line| !is_ours(line)).for_each(|line| text.push_str(line));
    text.push_str("connection: close\r\n\r\n");
    let mut socket = TcpStream::connect(model).await.unwrap();
    socket.write_all(text.as_bytes()).await.unwrap();
    socket.write_all(&body).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    Bytes::from(answer).slice(end..)
}
