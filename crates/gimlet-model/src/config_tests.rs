use bytes::Bytes;
use gimlet_proto::{Block, CachePlan, Message, ModelErrorKind, ModelRequest, Secret, ThinkingMode, ToolChoice};
use reqwest::header::HeaderMap;

use super::*;
use crate::auth::{AuthSecrets, RequestHead};
use crate::failure::{RequestFailure, RetryAdvice};
use crate::formats::PlanContext;
use crate::providers::anthropic::ANTHROPIC;
use crate::server_quirks::ServerQuirks;

/// Returns the provider's headers of a request, as sent with this secret.
fn headers(config: &ProviderConfig, secret: &str) -> HeaderMap {
    let mut head = RequestHead { url: String::new(), headers: config.main.headers.clone() };
    config.main.auth.dress(&secrets(secret), &mut head, b"").unwrap();
    head.headers
}

fn secrets(secret: &str) -> AuthSecrets {
    AuthSecrets::new(vec![Secret::new(secret)])
}

fn keyed() -> Env {
    Env::default().with("ANTHROPIC_API_KEY", "sk-canary")
}

#[test]
fn a_missing_or_foreign_credential_is_a_typed_error() {
    assert_eq!(
        ProviderConfig::from_env(&Env::default()).unwrap_err(),
        ProviderConfigError::MissingCredential { advice: &ANTHROPIC.advice }
    );
    let foreign = Env::default().with("CLAUDE_CODE_OAUTH_TOKEN", "x");
    let error = ProviderConfig::from_env(&foreign).unwrap_err();
    assert_eq!(
        error,
        ProviderConfigError::UnsupportedCredential {
            name: "CLAUDE_CODE_OAUTH_TOKEN",
            instead: "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"
        }
    );
    let broken = Env::default().with("ANTHROPIC_API_KEY", "a\nb");
    assert_eq!(
        ProviderConfig::from_env(&broken).unwrap_err(),
        ProviderConfigError::IllegalCredential { name: "ANTHROPIC_API_KEY" }
    );
}

#[test]
fn keys_and_tokens_go_into_their_own_headers() {
    let key = ProviderConfig::from_env(&keyed()).unwrap();
    let headers = headers(&key, "sk-canary");
    assert_eq!(headers["x-api-key"], "sk-canary");
    assert!(headers["x-api-key"].is_sensitive());
    assert!(!headers.contains_key("authorization"));
    assert_eq!(headers["anthropic-version"], "2023-06-01");
    let with_beta = ProviderConfig::from_env(&keyed().with("ANTHROPIC_BETAS", "b-1")).unwrap();
    assert_eq!(planned_headers(&with_beta), [("anthropic-beta".to_owned(), "b-1".to_owned())]);
    assert_eq!(key.api_key_source(), "ANTHROPIC_API_KEY");
    let token = ProviderConfig::from_env(&keyed().with("ANTHROPIC_AUTH_TOKEN", "tok")).unwrap();
    let headers = self::headers(&token, "tok");
    assert_eq!(headers["authorization"], "Bearer tok");
    assert!(!headers.contains_key("x-api-key") && planned_headers(&token).is_empty());
    assert_eq!((token.api_key_source(), token.warnings().len()), ("none", 1));
}

#[test]
fn custom_headers_are_sent_but_never_win_and_errors_name_the_line() {
    let env = keyed().with("ANTHROPIC_CUSTOM_HEADERS", "X-Team: a: b\n\nx-api-key: other\nanthropic-beta: c-1");
    let config = ProviderConfig::from_env(&env).unwrap();
    let headers = headers(&config, "sk-canary");
    assert_eq!((&headers["x-team"], &headers["x-api-key"]), (&"a: b".parse().unwrap(), &"sk-canary".parse().unwrap()));
    assert_eq!(config.requested_betas(), ["c-1"]);
    assert!(!headers.contains_key("anthropic-beta"));
    let bad = keyed().with("ANTHROPIC_CUSTOM_HEADERS", "A: 1\nno colon");
    assert_eq!(
        ProviderConfig::from_env(&bad).unwrap_err(),
        ProviderConfigError::CustomHeader { variable: "ANTHROPIC_CUSTOM_HEADERS", line: 2 }
    );
}

#[test]
fn the_base_url_is_checked_and_decides_what_may_be_used() {
    let seconds = |config: &ProviderConfig| {
        let timeouts = config.timeouts.at(&config.main);
        (timeouts.headers.as_secs(), timeouts.idle.as_secs())
    };
    let at = |url: &str| ProviderConfig::from_env(&keyed().with("ANTHROPIC_BASE_URL", url));
    assert_eq!(at("http://127.0.0.1:9/x/").unwrap().main.url("m"), "http://127.0.0.1:9/x/v1/messages");
    assert!(matches!(at("ftp://x"), Err(ProviderConfigError::BaseUrl { .. })));
    assert!(matches!(at("not a url"), Err(ProviderConfigError::BaseUrl { .. })));
    assert!(ProviderConfig::from_env(&keyed()).unwrap().main.is_vendor);
    let local = at("http://localhost:11434").unwrap();
    assert!(!local.main.is_vendor);
    assert_eq!(seconds(&local), (600, 300));
    let vendor = ProviderConfig::from_env(&keyed()).unwrap();
    assert_eq!(seconds(&vendor), (120, 180));
}

#[test]
fn limits_come_from_the_environment_within_bounds() {
    let env = keyed()
        .with("GIMLET_MAX_RETRIES", "99")
        .with("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "5000")
        .with("API_TIMEOUT_MS", "1")
        .with("ANTHROPIC_BETAS", "a-1,b-2");
    let config = ProviderConfig::from_env(&env).unwrap();
    assert_eq!((config.retries.max_retries, config.wishes.max_output_tokens), (15, Some(5000)));
    assert_eq!(config.timeouts.headers, Some(Duration::from_secs(10)));
    let hurried = env.clone().with(TEST_LEAST_TIMEOUT_MS, "50").with(TEST_RETRY_DELAY_MS, "3");
    let hurried = ProviderConfig::from_env(&hurried).unwrap();
    assert_eq!(
        (hurried.timeouts.headers, hurried.retries.first_delay),
        (Some(Duration::from_millis(50)), Duration::from_millis(3))
    );
    assert_eq!(config.requested_betas(), ["a-1", "b-2"]);
    let off = ProviderConfig::from_env(&env.with("GIMLET_DISABLE_BETAS", "1")).unwrap();
    assert!(off.requested_betas().is_empty() && !off.wishes.sends_betas && planned_headers(&off).is_empty());
}

#[test]
fn nothing_printable_shows_the_credential() {
    let env = keyed().with("ANTHROPIC_CUSTOM_HEADERS", "X-Gate: hidden").with("HTTPS_PROXY", "http://u:pw@h:1");
    let config = ProviderConfig::from_env(&env).unwrap();
    let shown = format!("{config:?} {:?}", headers(&config, "sk-canary"));
    assert!(!shown.contains("canary") && !shown.contains("hidden") && !shown.contains("pw@"), "{shown}");
    let echoed = RequestFailure::new(ModelErrorKind::Server, RetryAdvice::Never, "key sk-canary is odd").error;
    assert_eq!(config.main.auth.redact_error(&secrets("sk-canary"), *echoed).message, "key *** is odd");
}

#[test]
fn the_persons_own_members_join_the_body_and_replace_ours() {
    let with = |json: &str| ProviderConfig::from_env(&keyed().with("CLAUDE_CODE_EXTRA_BODY", json));
    let config = with(r#"{"service_tier":"standard_only","max_tokens":7}"#).unwrap();
    let body = Bytes::from_static(br#"{"model":"m","max_tokens":1,"messages":[]}"#);
    let merged = config.wishes.add_extra_body(body);
    assert_eq!(merged, r#"{"model":"m","max_tokens":7,"messages":[],"service_tier":"standard_only"}"#.as_bytes());
    for wrong in ["[]", "{", r#"{"messages":[]}"#, r#"{"stream":false}"#] {
        assert!(matches!(with(wrong), Err(ProviderConfigError::ExtraBody { .. })), "{wrong}");
    }
}

#[test]
fn the_version_of_the_api_can_be_chosen() {
    let version = |env: Env| ProviderConfig::from_env(&env).unwrap().main.headers["anthropic-version"].clone();
    assert_eq!(version(keyed()), "2023-06-01");
    assert_eq!(version(keyed().with("GIMLET_API_VERSION", "2026-10-21")), "2026-10-21");
}

#[test]
fn an_unknown_provider_is_refused_at_the_vendors_own_address_and_elsewhere_part_of_the_id() {
    let vendor = ProviderConfig::from_env(&keyed()).unwrap();
    let error = vendor.model_for(Some("local/llama")).unwrap_err();
    assert!(error.to_string().contains("the provider 'local'"), "{error}");
    assert_eq!(vendor.model_for(Some("anthropic/sonnet")).as_deref(), Ok("sonnet"));
    let local = ProviderConfig::from_env(&keyed().with("ANTHROPIC_BASE_URL", "http://127.0.0.1:8080")).unwrap();
    assert_eq!(local.model_for(Some("local/llama")).as_deref(), Ok("local/llama"));
}

/// Returns the headers that the format adds to a request.
fn planned_headers(config: &ProviderConfig) -> Vec<(String, String)> {
    let request = ModelRequest {
        model: "default".into(),
        max_tokens: None,
        system: Arc::from([]),
        tools: Arc::from([]),
        tool_choice: ToolChoice::Auto { parallel: true },
        messages: vec![Arc::new(Message::user(vec![Block::text("hi")]))],
        few_images: None,
        cache: CachePlan { ttl: None, context: None, previous_len: None },
        thinking: ThinkingMode::ModelDefault,
        display: None,
        effort: None,
        want_wire_events: false,
    };
    let model = config.directory.resolve("default").model;
    let cx =
        PlanContext { wishes: &config.wishes, endpoint: &config.main, model: &model, request: &request, once: None };
    let planned = config.main.row.format.plan(&cx, &ServerQuirks::default());
    planned.headers.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
