//! Connections: reuse, races, redirects, cancellation, certificates, proxies.

use std::io::Write;
use std::time::{Duration, Instant};

use gimlet_proto::ModelErrorKind;
use gimlet_testkit::{mutual_tls_server, tls_server};
use tokio_rustls::TlsAcceptor;

use crate::canned_server::{CannedAnswer, CannedServer, ConnectionEnd, answer, cut, error, stream};
use crate::*;

#[tokio::test]
async fn turns_share_one_connection() {
    let server = CannedServer::start((0..5).map(|_| stream(&REPLY)).collect()).await;
    let provider = provider(&server);
    for _ in 0..5 {
        let mut stream = provider.stream(request("hi"));
        // A reader may leave as soon as it has the end.
        while !matches!(next(&mut stream).await, Some(ModelEvent::Done(_))) {}
        drop(stream);
        run_ready_tasks().await;
    }
    let connections: Vec<usize> = server.recorded_requests().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1; 5]);
}

#[tokio::test]
async fn a_connection_closed_while_idle_costs_no_visible_retry() {
    let mut first = stream(&REPLY);
    first.end = ConnectionEnd::KeepOpen;
    // The second request finds the old connection, whose server takes it and closes without a word.
    let race = CannedAnswer { end: ConnectionEnd::Rst, ..CannedAnswer::default() };
    let server = CannedServer::start(vec![first, race, stream(&REPLY)]).await;
    let provider = provider(&server);
    assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await), WHOLE);
    run_ready_tasks().await;
    assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await), WHOLE);
    let connections: Vec<usize> = server.recorded_requests().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 1, 2]);
}

#[tokio::test]
async fn a_fresh_connection_that_dies_is_a_visible_retry() {
    for end in [ConnectionEnd::Fin, ConnectionEnd::Rst] {
        let server = CannedServer::start(vec![CannedAnswer { end, ..CannedAnswer::default() }, stream(&REPLY)]).await;
        assert_eq!(summarize_events(&collect_events(&provider(&server), request("hi")).await)[0], "retry 1 Network");
    }
}

#[tokio::test]
async fn a_port_of_this_machine_where_nothing_listens_is_given_up_soon_and_says_what_to_do() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let env = Env::default()
        .with("ANTHROPIC_API_KEY", "k")
        .with("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{port}"))
        .with("GIMLET_MAX_RETRIES", "10");
    let start = Instant::now();
    let events = collect_events(&provider_with(&env, |_| ()), request("hi")).await;
    assert_eq!(summarize_events(&events), ["retry 1 Network", "retry 2 Network", "failed Network"]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let error = final_error(&events);
    assert_eq!(error.message, format!("nothing listens at 127.0.0.1:{port} on this machine"));
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("ANTHROPIC_BASE_URL")), "{error}");
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_given_up_soon_and_says_so() {
    let env = Env::default()
        .with("ANTHROPIC_API_KEY", "k")
        .with("ANTHROPIC_BASE_URL", "http://no.such.host.invalid")
        .with("GIMLET_MAX_RETRIES", "10");
    let events = collect_events(
        &provider_with(&env, |config| config.retries.first_delay = Duration::from_millis(1)),
        request("hi"),
    )
    .await;
    assert_eq!(summarize_events(&events), ["retry 1 Network", "retry 2 Network", "failed Network"]);
    let error = final_error(&events);
    assert!(error.message.starts_with("cannot find the server: "), "{error}");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("ANTHROPIC_BASE_URL")), "{error}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = CannedServer::start(vec![stream(&REPLY)]).await;
    let target = format!("{}/v1/messages", other.url);
    for status in [301, 302, 307, 308] {
        let server = CannedServer::start(vec![answer(status, &[("location", &target)], "")]).await;
        let events = collect_events(&provider(&server), request("hi")).await;
        assert!(final_error(&events).message.contains("redirects to 127.0.0.1"), "{}", final_error(&events));
    }
    assert!(other.recorded_requests().is_empty());
}

#[tokio::test]
async fn dropping_the_stream_closes_the_socket_at_once() {
    let server = CannedServer::start(vec![cut(&[START, TEXT, HELLO], ConnectionEnd::Stall)]).await;
    let mut stream = provider(&server).stream(request("hi"));
    while !matches!(next(&mut stream).await, Some(ModelEvent::TextDelta { .. })) {}
    let dropped = Instant::now();
    drop(stream);
    let gone = tokio::time::timeout(Duration::from_secs(5), server.wait_for_client_close())
        .await
        .expect("the socket is closed");
    assert!(gone.duration_since(dropped) < Duration::from_millis(200));
}

#[tokio::test]
async fn dropping_during_the_wait_for_headers_closes_the_socket() {
    let server = CannedServer::start(vec![CannedAnswer { end: ConnectionEnd::Stall, ..CannedAnswer::default() }]).await;
    let provider = provider_with(&env(&server), |config| config.timeouts.waiting = Duration::from_millis(20));
    let mut stream = provider.stream(request("hi"));
    // Only a request that has arrived leaves a socket behind whose end can be seen.
    while server.recorded_requests().is_empty() {
        assert!(matches!(next(&mut stream).await, Some(ModelEvent::Waiting { .. })));
    }
    drop(stream);
    tokio::time::timeout(Duration::from_secs(5), server.wait_for_client_close()).await.expect("the socket is closed");
}

#[tokio::test]
async fn an_early_refusal_of_a_long_body_is_heard_or_guessed() {
    for end in [ConnectionEnd::Fin, ConnectionEnd::Rst] {
        let refusal = || CannedAnswer {
            before_body: true,
            end,
            ..error(413, "request_too_large", "too big", &[("connection", "close")])
        };
        let server = CannedServer::start((0..4).map(|_| refusal()).collect()).await;
        let events = collect_events(&provider(&server), request(&"x".repeat(8 << 20))).await;
        assert_eq!(final_error(&events).kind, ModelErrorKind::RequestTooLarge, "{}", final_error(&events));
        assert!(server.recorded_requests().len() <= 3);
    }
}

async fn private_tls(plans: Vec<CannedAnswer>) -> (CannedServer, String) {
    let (acceptor, authority) = tls_server("127.0.0.1", false, &[]);
    (CannedServer::with_tls(plans, acceptor).await, authority)
}

fn file_with(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[tokio::test]
async fn a_server_that_wants_to_know_who_calls_is_shown_the_certificate() {
    let tls = mutual_tls_server("127.0.0.1");
    let server = CannedServer::with_tls(vec![stream(&REPLY)], tls.acceptor).await;
    let [authority, cert, key] = [tls.authority, tls.client_cert, tls.client_key].map(|text| file_with(&text));
    let name = |file: &tempfile::NamedTempFile| file.path().to_str().unwrap().to_owned();
    let stranger = env(&server).with("NODE_EXTRA_CA_CERTS", name(&authority)).with("GIMLET_MAX_RETRIES", "0");
    assert!(
        summarize_events(&collect_events(&provider_with(&stranger, |_| ()), request("hi")).await)[0]
            .starts_with("failed")
    );
    let known = stranger.with("CLAUDE_CODE_CLIENT_CERT", name(&cert));
    let events = collect_events(&provider_with(&known, |_| ()), request("hi")).await;
    assert_eq!(
        (final_error(&events).kind, server.recorded_requests().len()),
        (ModelErrorKind::Tls, 0),
        "half of an identity"
    );
    let swapped = known.clone().with("CLAUDE_CODE_CLIENT_KEY", name(&cert));
    let said = final_error(&collect_events(&provider_with(&swapped, |_| ()), request("hi")).await).message.clone();
    assert!(said.contains("(CLAUDE_CODE_CLIENT_KEY)") && said.contains("without a passphrase"), "{said}");
    let known = known.with("CLAUDE_CODE_CLIENT_KEY", name(&key));
    assert_eq!(summarize_events(&collect_events(&provider_with(&known, |_| ()), request("hi")).await), WHOLE);
}

/// What a server does to an answer over HTTP/2.
#[derive(Clone, Copy)]
enum Http2Ending {
    /// Ends its stream in the middle.
    Reset,
    /// Says in the middle that the connection is over, and ends it.
    GoAway,
    /// Says behind the whole answer that the connection takes no further request.
    GoAwayAfterReply,
}

/// Answers a request with these events; the answer is over when they are all there are.
fn send_events(respond: &mut h2::server::SendResponse<bytes::Bytes>, events: &[&str]) -> h2::SendStream<bytes::Bytes> {
    let mut body = respond.send_response(Default::default(), false).unwrap();
    let text: String = events.iter().map(|data| canned_server::event(data)).collect();
    body.send_data(text.into(), events.len() == REPLY.len()).unwrap();
    body
}

/// Serves two requests over HTTP/2: to the first it does `what`, the second is answered whole.
async fn serve_http2(listener: tokio::net::TcpListener, tls: TlsAcceptor, what: Http2Ending) {
    let mut connection = None;
    let mut ending = tokio::task::JoinSet::new();
    for turn in 0..2 {
        let mut current = match connection.take() {
            Some(current) => current,
            None => {
                let (socket, _) = listener.accept().await.unwrap();
                h2::server::handshake(tls.accept(socket).await.unwrap()).await.unwrap()
            }
        };
        let (_, mut respond) = current.accept().await.unwrap().unwrap();
        let is_whole = turn == 1 || matches!(what, Http2Ending::GoAwayAfterReply);
        let mut body = send_events(&mut respond, if is_whole { &REPLY[..] } else { &REPLY[..3] });
        if turn == 0 && !is_whole {
            // What ends the answer must not overtake its data.
            tokio::select! {
                _ = current.accept() => panic!("no request is due"),
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
        if turn == 0 {
            match what {
                Http2Ending::Reset => body.send_reset(h2::Reason::INTERNAL_ERROR),
                Http2Ending::GoAway => current.abrupt_shutdown(h2::Reason::INTERNAL_ERROR),
                Http2Ending::GoAwayAfterReply => current.graceful_shutdown(),
            }
        }
        if turn == 0 && matches!(what, Http2Ending::Reset) {
            connection = Some(current);
        } else {
            ending.spawn(async move {
                // A request that was on its way already is still answered.
                while let Some(Ok((_, mut respond))) = current.accept().await {
                    send_events(&mut respond, &REPLY);
                }
            });
        }
    }
    while ending.join_next().await.is_some() {}
}

/// Two requests to such a server, as far as they are needed.
async fn over_http2(what: Http2Ending, requests: usize) -> Vec<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (acceptor, authority) = tls_server("127.0.0.1", false, &["h2", "http/1.1"]);
    let file = file_with(&authority);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(serve_http2(listener, acceptor, what));
    let env = Env::default()
        .with("ANTHROPIC_API_KEY", "k")
        .with("ANTHROPIC_BASE_URL", url)
        .with("NODE_EXTRA_CA_CERTS", file.path());
    let provider = provider_with(&env, |config| config.retries.first_delay = Duration::from_millis(1));
    let mut events = Vec::new();
    for _ in 0..requests {
        events.extend(summarize_events(&collect_events(&provider, request("hi")).await));
        run_ready_tasks().await;
    }
    events
}

#[tokio::test]
async fn http2_is_spoken_where_offered_and_an_answer_that_ends_early_is_a_broken_one() {
    for what in [Http2Ending::Reset, Http2Ending::GoAway] {
        let events = over_http2(what, 1).await;
        assert_eq!(events[..5], ["started", "open Text", "text Hello", "discarded", "retry 1 Network"]);
        assert_eq!(events[5..], WHOLE);
    }
}

#[tokio::test]
async fn a_connection_that_takes_no_further_request_costs_no_visible_retry() {
    assert_eq!(over_http2(Http2Ending::GoAwayAfterReply, 2).await, [WHOLE, WHOLE].concat());
}

#[tokio::test]
async fn an_unknown_certificate_authority_is_final_and_a_named_one_is_trusted() {
    let (server, authority) = private_tls(vec![stream(&REPLY), stream(&REPLY)]).await;
    let events = collect_events(&provider(&server), request("hi")).await;
    assert_eq!(summarize_events(&events), ["failed Tls"]);
    assert!(final_error(&events).hint.as_deref().unwrap().contains("NODE_EXTRA_CA_CERTS"));
    let file = file_with(&authority);
    for name in ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"] {
        let provider = provider_with(&env(&server).with(name, file.path()), |_| ());
        assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await), WHOLE, "{name}");
    }
}

#[tokio::test]
async fn an_unreadable_certificate_file_is_named() {
    let (server, _) = private_tls(vec![]).await;
    let provider = provider_with(&env(&server).with("NODE_EXTRA_CA_CERTS", "/nonexistent/ca.pem"), |_| ());
    let events = collect_events(&provider, request("hi")).await;
    assert!(final_error(&events).message.contains("/nonexistent/ca.pem"), "{}", final_error(&events));
}

#[tokio::test]
async fn proxies_are_used_unless_the_host_is_exempt_or_this_machine() {
    let proxy = CannedServer::start(vec![stream(&REPLY)]).await;
    let direct = CannedServer::start(vec![stream(&REPLY)]).await;
    let behind = env(&direct).with("HTTP_PROXY", proxy.url.as_str());
    let through = behind.clone().with("ANTHROPIC_BASE_URL", "http://model.test");
    assert_eq!(summarize_events(&collect_events(&provider_with(&through, |_| ()), request("hi")).await), WHOLE);
    assert!(
        proxy.recorded_requests()[0].head.starts_with("POST http://model.test/v1/messages"),
        "{}",
        proxy.recorded_requests()[0].head
    );
    assert!(direct.recorded_requests().is_empty());
    assert_eq!(summarize_events(&collect_events(&provider_with(&behind, |_| ()), request("hi")).await), WHOLE);
    assert_eq!((proxy.recorded_requests().len(), direct.recorded_requests().len()), (1, 1));
    let exempt = through.with("NO_PROXY", "model.test");
    let events = collect_events(&provider_with(&exempt, |_| ()), request("hi")).await;
    assert!(final_error(&events).message.contains("cannot find the server"), "{}", final_error(&events));
    assert_eq!(proxy.recorded_requests().len(), 1);
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named_with_its_variable() {
    let server = CannedServer::start(Vec::new()).await;
    let address =
        format!("127.0.0.1:{}", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
    let dead = env(&server)
        .with("ANTHROPIC_BASE_URL", "https://model.test")
        .with("HTTPS_PROXY", format!("http://user:canary@{address}").as_str());
    let events = collect_events(&provider_with(&dead, |_| ()), request("hi")).await;
    let error = final_error(&events);
    assert!(
        error.message.starts_with(&format!("cannot connect through the proxy {address} of HTTPS_PROXY: ")),
        "{error}"
    );
    assert!(error.hint.as_deref().unwrap().contains("NO_PROXY"), "{error}");
    assert!(!format!("{error:?}").contains("canary"));
}

#[tokio::test]
async fn a_proxy_that_wants_a_password_is_final_and_says_how_to_give_one() {
    let proxy = CannedServer::start(vec![answer(407, &[("proxy-authenticate", "Basic")], "")]).await;
    let (server, _) = private_tls(vec![]).await;
    let behind = env(&server).with("ANTHROPIC_BASE_URL", "https://model.test").with("HTTPS_PROXY", proxy.url.as_str());
    let provider = provider_with(&behind, |_| ());
    let events = collect_events(&provider, request("hi")).await;
    assert_eq!(summarize_events(&events), ["failed Network"]);
    assert!(final_error(&events).hint.as_deref().unwrap().contains("HTTPS_PROXY"), "{}", final_error(&events));
    assert!(proxy.recorded_requests()[0].head.starts_with("CONNECT model.test:443"));
    assert!(!proxy.recorded_requests()[0].head.contains("canary"));
}

#[tokio::test]
async fn a_block_of_many_megabytes_in_one_event_is_taken() {
    let content = "x".repeat(20 << 20);
    let result = format!(
        r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"web_fetch_tool_result","tool_use_id":"s","content":"{content}"}}}}"#
    );
    let server = CannedServer::start(vec![stream(&[START, &result, TEXT_STOP, END_TURN, STOP])]).await;
    let events = collect_events(&provider(&server), request("hi")).await;
    assert_eq!(summarize_events(&events), ["started", "open ServerToolResult", "block ServerToolResult", "done"]);
}
