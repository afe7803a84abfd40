//! The one way out of a sandbox lets through what it should, refuses the rest, and says so.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_exec::{
    DirectoryReporter, HostDecision, HostJudge, HostResolver, ProxyConfig, RefusalReason, Sandbox, SandboxError,
    SandboxProxy, SpawnRequest, StdinMode, StreamMode, UpstreamProxies,
};
use gimlet_proto::{BoxFuture, NetworkAccess, SandboxSpec};

use crate::common;
use crate::sandbox_escapes::{all_backends, wait_for_output};

/// A server that answers every connection and tells what it was asked.
fn start_server() -> (u16, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            // A request may come in pieces, and its body in one piece with its head.
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            while !is_complete_request(&request) {
                match client.read(&mut piece) {
                    Ok(len) if len > 0 => request.extend_from_slice(&piece[..len]),
                    _ => break,
                }
            }
            drop(tell.send(String::from_utf8_lossy(&request).into_owned()));
            drop(client.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"));
        }
    });
    (port, told)
}

/// Whether the head is there, and the body that it announces.
fn is_complete_request(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let announced = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    body.len() >= announced.unwrap_or(0)
}

/// Names that lead where a test wants.
fn fixed_resolver(names: &[(&str, &[&str])]) -> HostResolver {
    let names: BTreeMap<String, Vec<std::net::IpAddr>> = names
        .iter()
        .map(|(name, addresses)| (name.to_string(), addresses.iter().map(|text| text.parse().unwrap()).collect()))
        .collect();
    Arc::new(move |name, port| {
        let found = names.get(&name).map(|found| found.iter().map(|ip| SocketAddr::new(*ip, port)).collect());
        Box::pin(async move { found.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    })
}

struct RunningProxy {
    proxy: SandboxProxy,
    _dir: tempfile::TempDir,
}

impl RunningProxy {
    fn start(allow: &[&str], deny: &[&str], names: &[(&str, &[&str])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let config = ProxyConfig {
            socket: dir.path().join("proxy"),
            allow: texts(allow),
            deny: texts(deny),
            resolver: Some(fixed_resolver(names)),
            patience: Some(Duration::from_millis(400)),
            ..ProxyConfig::default()
        };
        Self { proxy: SandboxProxy::start(config).unwrap(), _dir: dir }
    }

    /// Sends bytes as a client would and gives the answer, up to the first pause.
    async fn send_request(&self, request: &[u8]) -> Vec<u8> {
        let (socket, request) = (PathBuf::from(self.proxy.socket()), request.to_vec());
        tokio::task::spawn_blocking(move || {
            let mut client = UnixStream::connect(socket).unwrap();
            client.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
            client.write_all(&request).unwrap();
            let mut answer = vec![0; 4096];
            let len = client.read(&mut answer).unwrap_or(0);
            answer.truncate(len);
            answer
        })
        .await
        .unwrap()
    }

    async fn refusal_reason(&self, request: &str) -> Option<RefusalReason> {
        let answer = self.send_request(request.as_bytes()).await;
        let refused = answer.starts_with(b"HTTP/1.1 403");
        let refusals = self.proxy.take_refusals();
        assert_eq!(refused, refusals.len() == 1, "{request:?}: {}", String::from_utf8_lossy(&answer));
        refusals.first().map(|refusal| refusal.reason)
    }
}

fn connect(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
}

pub(crate) async fn names_are_judged_by_list_and_by_where_they_lead() {
    let names: &[(&str, &[&str])] = &[
        ("good.example", &["127.0.0.1"]),
        ("rebound.example", &["10.0.0.1", "::1", "169.254.169.254"]),
        ("mapped.example", &["::ffff:127.0.0.1"]),
    ];
    let allow = ["*.example", "169.254.169.254", "[fe80::1]:80"];
    let proxy = RunningProxy::start(&allow, &["bad.example"], names);
    for (authority, expected) in [
        ("other.net:443", RefusalReason::NotAllowed),
        ("example:443", RefusalReason::NotAllowed),
        ("good.example.evil.net:443", RefusalReason::NotAllowed),
        ("bad.example:443", RefusalReason::Denied),
        ("BAD.example.:443", RefusalReason::Denied),
        ("good.example:22", RefusalReason::NotAllowed),
        ("good.example:443", RefusalReason::PrivateAddress),
        ("rebound.example:443", RefusalReason::PrivateAddress),
        ("mapped.example:443", RefusalReason::PrivateAddress),
        ("127.0.0.1:443", RefusalReason::NotAllowed),
        ("[::ffff:127.0.0.1]:443", RefusalReason::NotAllowed),
        ("169.254.169.254:80", RefusalReason::PrivateAddress),
        ("[fe80::1]:80", RefusalReason::PrivateAddress),
    ] {
        assert_eq!(proxy.refusal_reason(&connect(authority)).await, Some(expected), "{authority}");
    }
    for odd in ["2130706433:80", "0x7f.1:80", "user@good.example:443", "good.example:443\tx", "good.example"] {
        let answer = proxy.send_request(connect(odd).as_bytes()).await;
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{odd}: {}", String::from_utf8_lossy(&answer));
    }
    assert!(proxy.send_request(connect("gone.example:443").as_bytes()).await.starts_with(b"HTTP/1.1 502"));
}

pub(crate) async fn a_host_that_a_person_allows_is_reached_from_then_on() {
    let (port, _told) = start_server();
    let proxy = RunningProxy::start(&[], &[], &[]);
    let authority = format!("127.0.0.1:{port}");
    assert_eq!(proxy.refusal_reason(&connect(&authority)).await, Some(RefusalReason::NotAllowed));
    proxy.proxy.allow(&authority).unwrap();
    assert!(proxy.send_request(connect(&authority).as_bytes()).await.starts_with(b"HTTP/1.1 200"));
    assert!(proxy.proxy.allow("not a host").is_err());
}

pub(crate) async fn a_single_request_reaches_its_server_without_the_words_for_proxies() {
    let (port, told) = start_server();
    let proxy = RunningProxy::start(&[&format!("127.0.0.1:{port}")], &[], &[]);
    let request = format!(
        "POST http://127.0.0.1:{port}/path HTTP/1.1\r\nHost: evil.net\r\nProxy-Authorization: x\r\nContent-Length: 4\r\n\r\nbody"
    );
    let answer = proxy.send_request(request.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&answer));
    let seen = told.recv().unwrap();
    assert!(seen.starts_with(&format!("POST /path HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n")), "{seen}");
    assert!(!seen.contains("evil") && !seen.contains("Proxy"), "{seen}");
}

pub(crate) async fn nothing_behind_a_single_request_reaches_its_server() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = RunningProxy::start(&[&format!("127.0.0.1:{port}")], &[], &[]);
    let request = format!(
        "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbodyGET / HTTP/1.1\r\nHost: evil.net\r\n\r\n"
    );
    let mut client = UnixStream::connect(proxy.proxy.socket()).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let seen = tokio::task::spawn_blocking(move || {
        let (mut server, mut seen) = (listener.accept().unwrap().0, Vec::new());
        client.write_all(b"GET / HTTP/1.1\r\nHost: evil.net\r\n\r\n").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        server.read_to_end(&mut seen).unwrap();
        String::from_utf8(seen).unwrap()
    });
    let seen = seen.await.unwrap();
    assert!(seen.ends_with("\r\n\r\nbody"), "{seen}");
}

/// The first message of TLS, asking for evil.net.
fn client_hello_for_other_host() -> Vec<u8> {
    let mut hello = vec![0x16, 3, 1, 0, 66, 1, 0, 0, 62, 3, 3];
    hello.extend([0; 32]);
    hello.extend([0, 0, 2, 0x13, 1, 1, 0, 0, 19, 0, 0, 0, 15, 0, 13, 0, 0, 8]);
    hello.extend(b"evil.net");
    hello.extend([0; 2]);
    hello
}

pub(crate) async fn a_tunnel_whose_server_speaks_first_is_looked_at_all_the_same() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = RunningProxy::start(&[&format!("127.0.0.1:{port}")], &[], &[]);
    let mut client = UnixStream::connect(proxy.proxy.socket()).unwrap();
    client.write_all(connect(&format!("127.0.0.1:{port}")).as_bytes()).unwrap();
    let seen = tokio::task::spawn_blocking(move || {
        let (mut server, mut seen) = (listener.accept().unwrap().0, Vec::new());
        server.write_all(b"220 ready").unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"220 ready") {
            let mut piece = [0; 256];
            let len = client.read(&mut piece).unwrap();
            assert!(len > 0);
            said.extend_from_slice(&piece[..len]);
        }
        client.write_all(&client_hello_for_other_host()).unwrap();
        drop(server.read_to_end(&mut seen));
        seen
    });
    assert_eq!(seen.await.unwrap(), b"", "nothing of it reached the server");
    assert!(proxy.proxy.take_refusals().iter().any(|refusal| refusal.reason == RefusalReason::OtherHost));
}

pub(crate) async fn a_tunnel_that_greets_another_host_is_closed() {
    let (port, told) = start_server();
    let proxy = RunningProxy::start(&[&format!("127.0.0.1:{port}")], &[], &[]);
    let hello = client_hello_for_other_host();
    let request = [connect(&format!("127.0.0.1:{port}")).as_bytes(), &hello].concat();
    drop(proxy.send_request(&request).await);
    common::wait_until("the refusal is noted", || {
        proxy.proxy.take_refusals().iter().any(|refusal| refusal.reason == RefusalReason::OtherHost)
    })
    .await;
    assert_eq!(told.recv().unwrap_or_default(), "", "nothing of it reached the server");
}

pub(crate) async fn a_sandboxed_command_reaches_what_is_allowed_and_nothing_else() {
    let exec = common::exec(None);
    let (open, _told) = start_server();
    let (closed, _untold) = start_server();
    let [bubblewrap, namespaces, landlock] = all_backends(&exec).await;
    let network = NetworkAccess::Proxy { allow: Vec::new(), deny: Vec::new() };
    let spec = SandboxSpec { network: network.clone(), ..SandboxSpec::default() };
    let refused = Sandbox::new(spec, landlock, Some("/nonexistent".into()));
    assert!(matches!(refused, Err(SandboxError::NoNetworkIsolation)), "{refused:?}");
    for kind in [bubblewrap, namespaces] {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let proxy = RunningProxy::start(&[&format!("127.0.0.1:{open}")], &[], &[]);
        let network = network.clone();
        let spec = SandboxSpec { write: vec![dir.path().to_owned()], network, ..SandboxSpec::default() };
        let sandbox = Sandbox::new(spec, kind.clone(), Some(proxy.proxy.socket().to_owned())).unwrap();
        let script = format!(
            r#"
import os, socket, urllib.request
os.environ.pop('NO_PROXY'); os.environ.pop('no_proxy')
get = lambda port: urllib.request.urlopen(f'http://127.0.0.1:{{port}}/', timeout=5).read().decode()
print('allowed', get({open}))
try: print('open', get({closed}))
except Exception as error: print('refused', getattr(error, 'code', error))
host, port = os.environ['ALL_PROXY'].split('//')[1].split(':')
s = socket.create_connection((host, int(port)), 5)
s.sendall(b'\x05\x01\x00'); assert s.recv(2) == b'\x05\x00'
s.sendall(b'\x05\x01\x00\x01\x7f\x00\x00\x01' + ({open}).to_bytes(2, 'big'))
assert s.recv(10)[1] == 0
s.sendall(b'GET / HTTP/1.0\r\n\r\n'); print('socks', s.recv(4096)[-5:].decode())
for kind, address in ((socket.SOCK_STREAM, ('127.0.0.1', {closed})), (socket.SOCK_DGRAM, ('127.0.0.1', 53))):
    try:
        s = socket.socket(socket.AF_INET, kind); s.settimeout(2); s.connect(address)
        if kind == socket.SOCK_STREAM: print('direct')
    except OSError as error: print('no way')
try: socket.socket(socket.AF_UNIX); print('unix')
except OSError: print('no unix')
"#
        );
        let spawn = SpawnRequest {
            program: "/usr/bin/python3".into(),
            args: vec!["-c".into(), script.into()],
            cwd: dir.path().to_owned(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("HTTP_PROXY".into(), "http://elsewhere".into())],
            stdin: StdinMode::Null,
            streams: StreamMode::Merged,
            report: DirectoryReporter::Disabled,
            confinement: None,
        };
        let (_, said) = wait_for_output(exec.spawn(sandbox.wrap_spawn(spawn, &[]).unwrap()).await.unwrap()).await;
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines.get(..4),
            Some(&["allowed hello", "refused 403", "socks hello", "no way"][..]),
            "{kind:?} {said}"
        );
        assert!(said.ends_with("no unix\n") && !said.contains("direct"), "{kind:?} {said}");
        let refusals = proxy.proxy.take_refusals();
        let seen: Vec<(&str, u16)> = refusals.iter().map(|refusal| (refusal.host.as_str(), refusal.port)).collect();
        assert_eq!(seen, [("127.0.0.1", closed)], "{kind:?}");
    }
}

/// Answers by name, counts the questions, and lets nobody hear an answer before `go`.
struct ScriptedJudge {
    asked: Arc<std::sync::Mutex<Vec<String>>>,
    go: Arc<tokio::sync::Semaphore>,
}

impl HostJudge for ScriptedJudge {
    fn judge_host(&self, host: &str, port: u16) -> BoxFuture<'static, HostDecision> {
        self.asked.lock().unwrap().push(format!("{host}:{port}"));
        let (host, go) = (host.to_owned(), self.go.clone());
        Box::pin(async move {
            drop(go.acquire().await);
            HostDecision { allow: host.starts_with("yes"), lasts: !host.contains("once") }
        })
    }
}

fn proxy_with_judge(
    allow: &[&str],
    deny: &[&str],
    names: &[(&str, &[&str])],
    permits: usize,
) -> (RunningProxy, Arc<ScriptedJudge>) {
    let proxy = RunningProxy::start(allow, deny, names);
    let (asked, go) = (Arc::default(), Arc::new(tokio::sync::Semaphore::new(permits)));
    let judge = Arc::new(ScriptedJudge { asked, go });
    proxy.proxy.set_host_judge(judge.clone());
    (proxy, judge)
}

pub(crate) async fn hosts_on_no_list_are_asked_about_and_answers_that_last_are_remembered() {
    let names: &[(&str, &[&str])] = &[("yes.example", &["10.0.0.1"]), ("yes-once.example", &["10.0.0.1"])];
    let (proxy, judge) = proxy_with_judge(&["listed.example"], &["yes-denied.example"], names, 100);
    // An allowed name is looked up, and where it leads is judged as ever.
    for (authority, expected) in [
        ("yes.example:443", RefusalReason::PrivateAddress),
        ("YES.example.:80", RefusalReason::PrivateAddress),
        ("yes.example:22", RefusalReason::PrivateAddress),
        ("no.example:443", RefusalReason::Declined),
        ("no.example:443", RefusalReason::Declined),
        ("yes-once.example:443", RefusalReason::PrivateAddress),
        ("yes-once.example:443", RefusalReason::PrivateAddress),
        ("yes-denied.example:443", RefusalReason::Denied),
        ("127.0.0.1:443", RefusalReason::NotAllowed),
        ("169.254.169.254:80", RefusalReason::NotAllowed),
    ] {
        assert_eq!(proxy.refusal_reason(&connect(authority)).await, Some(expected), "{authority}");
    }
    let asked = judge.asked.lock().unwrap().clone();
    let expected =
        ["yes.example:443", "yes.example:22", "no.example:443", "yes-once.example:443", "yes-once.example:443"];
    assert_eq!(asked, expected);
}

pub(crate) async fn connections_to_one_host_share_one_question_and_a_late_answer_serves_the_next() {
    let (proxy, judge) = proxy_with_judge(&[], &[], &[("yes.example", &["10.0.0.1"])], 0);
    let request = connect("yes.example:443");
    // Nobody answers in time.
    let (first, second) = tokio::join!(proxy.send_request(request.as_bytes()), proxy.send_request(request.as_bytes()));
    for answer in [first, second] {
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(text.starts_with("HTTP/1.1 403") && text.contains("nobody answered"), "{text}");
    }
    assert_eq!(judge.asked.lock().unwrap().len(), 1);
    drop(proxy.proxy.take_refusals());
    judge.go.add_permits(1);
    assert_eq!(proxy.refusal_reason(&request).await, Some(RefusalReason::PrivateAddress));
    assert_eq!(judge.asked.lock().unwrap().len(), 1);
}

pub(crate) async fn a_flood_of_hosts_does_not_become_a_flood_of_questions() {
    let (proxy, judge) = proxy_with_judge(&[], &[], &[], 0);
    let requests: Vec<String> = (0..40).map(|n| connect(&format!("h{n}.example:443"))).collect();
    let mut clients = Vec::new();
    for request in &requests {
        let mut client = UnixStream::connect(proxy.proxy.socket()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        clients.push(client);
    }
    // The last of them is refused at once; by then all before it were seen.
    let answer = proxy.send_request(connect("last.example:443").as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 403"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(judge.asked.lock().unwrap().len(), 16);
}

pub(crate) async fn a_proxy_of_the_persons_own_gets_every_byte() {
    let (port, told) = start_server();
    let dir = tempfile::tempdir().unwrap();
    let upstream = UpstreamProxies { http: Some(port), socks: None };
    let config = ProxyConfig { socket: dir.path().join("proxy"), upstream, ..ProxyConfig::default() };
    let proxy = RunningProxy { proxy: SandboxProxy::start(config).unwrap(), _dir: dir };
    let answer = proxy.send_request(connect("unlisted.example:443").as_bytes()).await;
    assert!(answer.ends_with(b"hello"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(told.recv().unwrap(), connect("unlisted.example:443"));
    // The tongue that it does not speak stays ours.
    let socks = [&[5, 1, 0, 5, 1, 0, 3, 1][..], b"x", &[0, 80]].concat();
    assert!(proxy.send_request(&socks).await.starts_with(&[5, 0]));
    assert_eq!(proxy.proxy.take_refusals().len(), 1);
}
