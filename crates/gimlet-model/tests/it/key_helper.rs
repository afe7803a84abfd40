//! Keys that are fetched when a request needs one.

use std::sync::Mutex;

use gimlet_proto::{BoxFuture, CredentialError, CredentialSource, ModelErrorKind, Secret};

use crate::canned_server::{CannedServer, answer, error, stream};
use crate::*;

/// Gives `key-number-1`, and after each refusal the next one, up to the last.
#[derive(Debug, Default)]
struct NumberedKeys {
    last: usize,
    /// What it was told each time it was asked.
    asked: Mutex<Vec<Option<String>>>,
}

impl CredentialSource for NumberedKeys {
    fn fetch_key<'a>(&'a self, refused: Option<&'a Secret>) -> BoxFuture<'a, Result<Secret, CredentialError>> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(refused.map(|key| key.expose().to_owned()));
        let number = 1 + asked.iter().flatten().count();
        let key = match number <= self.last {
            true => Ok(Secret::new(format!("key-number-{number}"))),
            false => Err(CredentialError { message: "no more keys".into(), hint: "Make some".into() }),
        };
        Box::pin(async move { key })
    }
}

fn provider_with_helper(server: &CannedServer, last: usize) -> (ModelEngine, Arc<NumberedKeys>) {
    let helper = Arc::new(NumberedKeys { last, ..NumberedKeys::default() });
    let env = Env::default().with("ANTHROPIC_BASE_URL", server.url.as_str());
    let mut config = ProviderConfig::from_env_or(&env, Some(helper.clone())).unwrap();
    config.retries.first_delay = Duration::from_millis(1);
    assert_eq!(config.api_key_source(), "apiKeyHelper");
    (ModelEngine::new(config), helper)
}

fn keys(server: &CannedServer) -> Vec<(String, String)> {
    let header = |seen: &canned_server::RecordedRequest, name| seen.header(name).unwrap_or_default().to_owned();
    server.recorded_requests().iter().map(|seen| (header(seen, "x-api-key"), header(seen, "authorization"))).collect()
}

fn both_headers(number: usize) -> (String, String) {
    (format!("key-number-{number}"), format!("Bearer key-number-{number}"))
}

#[tokio::test]
async fn a_fetched_key_goes_into_both_headers_and_is_not_asked_for_before_a_request() {
    let server = CannedServer::start(vec![stream(&REPLY)]).await;
    let (provider, helper) = provider_with_helper(&server, 1);
    assert!(helper.asked.lock().unwrap().is_empty());
    assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await), WHOLE);
    assert_eq!(keys(&server), [both_headers(1)]);
}

#[tokio::test]
async fn a_refused_key_is_replaced_once_without_touching_the_budget() {
    let refusal = || error(401, "authentication_error", "key-number-1 has expired", &[("x-should-retry", "false")]);
    let server = CannedServer::start(vec![refusal(), stream(&REPLY)]).await;
    let (provider, helper) = provider_with_helper(&server, 2);
    assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await), WHOLE);
    assert_eq!(keys(&server), [both_headers(1), both_headers(2)]);
    assert_eq!(*helper.asked.lock().unwrap(), [None, Some("key-number-1".to_owned())]);

    let second = error(401, "authentication_error", "key-number-2 is unknown", &[]);
    let server = CannedServer::start(vec![refusal(), second]).await;
    let (provider, _) = provider_with_helper(&server, 9);
    let events = collect_events(&provider, request("hi")).await;
    assert_eq!(summarize_events(&events), ["failed Authentication"]);
    assert_eq!(final_error(&events).message, "*** is unknown");
    assert!(final_error(&events).hint.as_deref().unwrap().contains("apiKeyHelper"));
    assert_eq!(keys(&server), [both_headers(1), both_headers(2)]);
}

#[tokio::test]
async fn without_a_key_nothing_is_sent_and_the_reason_is_told() {
    let server = CannedServer::start(vec![]).await;
    let (provider, _) = provider_with_helper(&server, 0);
    let events = collect_events(&provider, request("hi")).await;
    assert_eq!(summarize_events(&events), ["failed Authentication"]);
    assert_eq!(
        (final_error(&events).message.as_str(), final_error(&events).hint.as_deref()),
        ("no more keys", Some("Make some"))
    );
    assert!(server.recorded_requests().is_empty());
}

#[tokio::test]
async fn every_retry_asks_for_the_key_again() {
    let server = CannedServer::start(vec![answer(503, &[("retry-after-ms", "1")], ""), stream(&REPLY)]).await;
    let (provider, helper) = provider_with_helper(&server, 1);
    assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await)[0], "retry 1 Server");
    assert_eq!(helper.asked.lock().unwrap().len(), 2);
}

#[test]
fn a_token_or_key_in_the_environment_comes_first_and_a_foreign_one_does_not() {
    let table = [
        ("ANTHROPIC_AUTH_TOKEN", "none"),
        ("ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "apiKeyHelper"),
    ];
    for (name, source) in table {
        let env = Env::default().with(name, "given");
        let config = ProviderConfig::from_env_or(&env, Some(Arc::new(NumberedKeys::default()))).unwrap();
        assert_eq!(config.api_key_source(), source, "{name}");
    }
}

#[tokio::test]
async fn a_key_that_does_not_fit_a_header_is_not_sent() {
    #[derive(Debug)]
    struct MultilineKey;
    impl CredentialSource for MultilineKey {
        fn fetch_key<'a>(&'a self, _: Option<&'a Secret>) -> BoxFuture<'a, Result<Secret, CredentialError>> {
            Box::pin(async { Ok(Secret::new("sk-one\nsk-two")) })
        }
    }
    let server = CannedServer::start(vec![]).await;
    let env = Env::default().with("ANTHROPIC_BASE_URL", server.url.as_str());
    let provider = ModelEngine::new(ProviderConfig::from_env_or(&env, Some(Arc::new(MultilineKey))).unwrap());
    let events = collect_events(&provider, request("hi")).await;
    assert_eq!(final_error(&events).kind, ModelErrorKind::InvalidRequest);
    assert!(!format!("{events:?}").contains("sk-"));
}
