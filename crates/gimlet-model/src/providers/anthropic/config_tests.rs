use gimlet_proto::{ModelErrorKind, Secret};

use super::*;
use crate::failure::{RequestFailure, RetryAdvice};

/// Returns all headers of a request, as sent with this secret.
fn headers(config: &AnthropicConfig, secret: &str, betas: Option<&str>) -> HeaderMap {
    let mut headers = config.headers(betas).unwrap();
    config.credential.insert_headers(&Secret::new(secret), &mut headers).unwrap();
    headers
}

fn keyed() -> Env {
    Env::default().with("ANTHROPIC_API_KEY", "sk-canary")
}

#[test]
fn a_missing_or_foreign_credential_is_a_typed_error() {
    assert_eq!(AnthropicConfig::from_env(&Env::default()).unwrap_err(), ProviderConfigError::MissingCredential);
    let foreign = Env::default().with("CLAUDE_CODE_OAUTH_TOKEN", "x");
    let error = AnthropicConfig::from_env(&foreign).unwrap_err();
    assert_eq!(error, ProviderConfigError::UnsupportedCredential { name: "CLAUDE_CODE_OAUTH_TOKEN" });
    let broken = Env::default().with("ANTHROPIC_API_KEY", "a\nb");
    assert_eq!(
        AnthropicConfig::from_env(&broken).unwrap_err(),
        ProviderConfigError::IllegalCredential { name: "ANTHROPIC_API_KEY" }
    );
}

#[test]
fn keys_and_tokens_go_into_their_own_headers() {
    let key = AnthropicConfig::from_env(&keyed()).unwrap();
    let headers = headers(&key, "sk-canary", Some("b-1"));
    assert_eq!(headers["x-api-key"], "sk-canary");
    assert!(headers["x-api-key"].is_sensitive());
    assert!(!headers.contains_key("authorization"));
    assert_eq!(
        (&headers["anthropic-version"], &headers["anthropic-beta"]),
        (&"2023-06-01".parse().unwrap(), &"b-1".parse().unwrap())
    );
    assert_eq!(key.api_key_source(), "ANTHROPIC_API_KEY");
    let token = AnthropicConfig::from_env(&keyed().with("ANTHROPIC_AUTH_TOKEN", "tok")).unwrap();
    let headers = self::headers(&token, "tok", None);
    assert_eq!(headers["authorization"], "Bearer tok");
    assert!(!headers.contains_key("x-api-key") && !headers.contains_key("anthropic-beta"));
    assert_eq!((token.api_key_source(), token.warnings().len()), ("none", 1));
}

#[test]
fn custom_headers_are_sent_but_never_win_and_errors_name_the_line() {
    let env = keyed().with("ANTHROPIC_CUSTOM_HEADERS", "X-Team: a: b\n\nx-api-key: other\nanthropic-beta: c-1");
    let config = AnthropicConfig::from_env(&env).unwrap();
    let headers = headers(&config, "sk-canary", None);
    assert_eq!((&headers["x-team"], &headers["x-api-key"]), (&"a: b".parse().unwrap(), &"sk-canary".parse().unwrap()));
    assert_eq!(config.extra_betas, ["c-1"]);
    let bad = keyed().with("ANTHROPIC_CUSTOM_HEADERS", "A: 1\nno colon");
    assert_eq!(AnthropicConfig::from_env(&bad).unwrap_err(), ProviderConfigError::CustomHeader { line: 2 });
}

#[test]
fn the_base_url_is_checked_and_decides_what_may_be_used() {
    let at = |url: &str| AnthropicConfig::from_env(&keyed().with("ANTHROPIC_BASE_URL", url));
    assert_eq!(at("http://127.0.0.1:9/x/").unwrap().endpoint(), "http://127.0.0.1:9/x/v1/messages");
    assert!(matches!(at("ftp://x"), Err(ProviderConfigError::BaseUrl { .. })));
    assert!(matches!(at("not a url"), Err(ProviderConfigError::BaseUrl { .. })));
    assert!(AnthropicConfig::from_env(&keyed()).unwrap().first_party);
    let local = at("http://localhost:11434").unwrap();
    assert!(!local.first_party);
    assert_eq!((local.patience.headers.as_secs(), local.patience.idle.as_secs()), (600, 300));
    let vendor = AnthropicConfig::from_env(&keyed()).unwrap();
    assert_eq!((vendor.patience.headers.as_secs(), vendor.patience.idle.as_secs()), (120, 180));
}

#[test]
fn limits_come_from_the_environment_within_bounds() {
    let env = keyed()
        .with("GIMLET_MAX_RETRIES", "99")
        .with("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "5000")
        .with("API_TIMEOUT_MS", "1")
        .with("ANTHROPIC_BETAS", "a-1,b-2");
    let config = AnthropicConfig::from_env(&env).unwrap();
    assert_eq!((config.max_retries, config.max_output_tokens), (15, Some(5000)));
    assert_eq!(config.patience.headers, Duration::from_secs(10));
    let hurried = env.clone().with(TEST_LEAST_TIMEOUT_MS, "50").with(TEST_RETRY_DELAY_MS, "3");
    let hurried = AnthropicConfig::from_env(&hurried).unwrap();
    assert_eq!((hurried.patience.headers, hurried.first_delay), (Duration::from_millis(50), Duration::from_millis(3)));
    assert_eq!(config.extra_betas, ["a-1", "b-2"]);
    let off = AnthropicConfig::from_env(&env.with("GIMLET_DISABLE_BETAS", "1")).unwrap();
    assert!(off.extra_betas.is_empty() && !off.betas);
}

#[test]
fn nothing_printable_shows_the_credential() {
    let env = keyed().with("ANTHROPIC_CUSTOM_HEADERS", "X-Gate: hidden").with("HTTPS_PROXY", "http://u:pw@h:1");
    let config = AnthropicConfig::from_env(&env).unwrap();
    let shown = format!("{config:?} {:?}", headers(&config, "sk-canary", None));
    assert!(!shown.contains("canary") && !shown.contains("hidden") && !shown.contains("pw@"), "{shown}");
    let echoed = RequestFailure::new(ModelErrorKind::Server, RetryAdvice::Never, "key sk-canary is odd").error;
    assert_eq!(config.credential.redact_error(&Secret::new("sk-canary"), *echoed).message, "key *** is odd");
}

#[test]
fn the_persons_own_members_join_the_body_and_replace_ours() {
    let with = |json: &str| AnthropicConfig::from_env(&keyed().with("CLAUDE_CODE_EXTRA_BODY", json));
    let config = with(r#"{"service_tier":"standard_only","max_tokens":7}"#).unwrap();
    let body = Bytes::from_static(br#"{"model":"m","max_tokens":1,"messages":[]}"#);
    let merged = config.add_extra_body(body);
    assert_eq!(merged, r#"{"model":"m","max_tokens":7,"messages":[],"service_tier":"standard_only"}"#.as_bytes());
    for wrong in ["[]", "{", r#"{"messages":[]}"#, r#"{"stream":false}"#] {
        assert!(matches!(with(wrong), Err(ProviderConfigError::ExtraBody { .. })), "{wrong}");
    }
}

#[test]
fn the_version_of_the_api_can_be_chosen() {
    let version =
        |env: Env| AnthropicConfig::from_env(&env).unwrap().headers(None).unwrap()["anthropic-version"].clone();
    assert_eq!(version(keyed()), "2023-06-01");
    assert_eq!(version(keyed().with("GIMLET_API_VERSION", "2026-10-21")), "2026-10-21");
}
