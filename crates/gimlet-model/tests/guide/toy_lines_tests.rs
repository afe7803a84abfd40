//! What a new format has to show: a body, a reply, and the change after a refusal.

use gimlet_proto::Env;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::guide::toy::TOY;
use crate::guide::toy::tests::answer;
use crate::provider_config::ProviderConfig;
use crate::providers::ProviderRow;

static TOY_LINES: ProviderRow =
    ProviderRow { format: &LinesFormat, url: |base, model| format!("{base}/talk/{model}"), ..TOY };
static TABLE: &[&ProviderRow] = &[&TOY_LINES];

/// Answers one request after the other, each on a connection of its own, and returns what was asked.
async fn serve(listener: TcpListener, answers: Vec<(u16, &'static str, String)>) -> Vec<(String, Value)> {
    let mut seen = Vec::new();
    for (status, mime, body) in answers {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let request = loop {
            let mut piece = [0; 4096];
            let length = socket.read(&mut piece).await.unwrap();
            bytes.extend_from_slice(&piece[..length]);
            let text = String::from_utf8_lossy(&bytes);
            if let Some((head, body)) = text.split_once("\r\n\r\n")
                && let Ok(body) = serde_json::from_str(body)
            {
                break (head.lines().next().unwrap_or_default().to_owned(), body);
            }
        };
        seen.push(request);
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {mime}\r\nconnection: close\r\n");
        let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        socket.write_all(answer.as_bytes()).await.unwrap();
    }
    seen
}

#[tokio::test]
async fn a_refused_limit_is_lowered_and_the_reply_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let lines = [
        r#"{"begin":"toy-large-1"}"#,
        r#"{"say":"Hel"}"#,
        r#"{"say":"lo."}"#,
        r#"{"end":"stop","read":3,"written":2}"#,
    ];
    let reply = lines.map(|line| format!("data: {line}\n\n")).concat();
    let refusal = r#"{"error":{"message":"limit is at most 100"}}"#.to_owned();
    let answers = vec![(400, "application/json", refusal), (200, "text/event-stream", reply)];
    let env = Env::default().with("TOY_API_KEY", "toy-secret").with("TOY_BASE_URL", address);
    let model = ProviderConfig::from_table(TABLE, &env, None).unwrap().into_model();
    let (seen, told) = tokio::join!(serve(listener, answers), answer(model.as_ref(), "default"));
    assert_eq!(told.unwrap(), ("Hello.".to_owned(), "toy-large-1".to_owned()));
    assert_eq!(seen[0].0, "POST /talk/toy-large-1 HTTP/1.1");
    assert_eq!((&seen[0].1["limit"], &seen[1].1["limit"]), (&json!(8_000), &json!(100)));
    assert_eq!(seen[1].1["talk"], json!([{"by": "user", "text": "hi"}]));
}
