use super::*;
use crate::providers::anthropic::ANTHROPIC;

fn failure(status: u16, kind: &str, code: &str, message: &str, hints: &RetryHints) -> RequestFailure {
    let body = ErrorBody {
        kind: kind.into(),
        code: (!code.is_empty()).then(|| code.into()),
        message: message.into(),
        request_id: None,
    };
    from_response(&ANTHROPIC, status, &body, hints, "claude-sonet-5-5")
}

#[test]
fn every_status_has_its_class() {
    use RetryAdvice::{AtMost, Budget, Never};
    let table = [
        (302, "", "", "", ModelErrorKind::Protocol, Never),
        (400, "invalid_request_error", "", "bad", ModelErrorKind::InvalidRequest, Never),
        (400, "", "", "prompt is too long: 9 tokens > 8 maximum", ModelErrorKind::PromptTooLong, Never),
        (400, "", "", "capability_rejected: prompt_too_long", ModelErrorKind::PromptTooLong, Never),
        (400, "", "", "You have reached your specified API usage limits", ModelErrorKind::Billing, Never),
        (401, "authentication_error", "", "", ModelErrorKind::Authentication, Never),
        (402, "billing_error", "", "", ModelErrorKind::Billing, Never),
        (403, "permission_error", "", "", ModelErrorKind::Permission, Never),
        (404, "not_found_error", "", "model: x", ModelErrorKind::ModelNotFound, Never),
        (404, "not_found_error", "", "Not Found", ModelErrorKind::InvalidRequest, Never),
        (407, "", "", "", ModelErrorKind::Network, Never),
        (408, "", "", "", ModelErrorKind::Timeout, Budget),
        (409, "conflict_error", "", "", ModelErrorKind::Server, Budget),
        (413, "request_too_large", "", "", ModelErrorKind::RequestTooLarge, Never),
        (418, "", "", "", ModelErrorKind::InvalidRequest, Never),
        (424, "", "", "", ModelErrorKind::Server, AtMost(2)),
        (429, "rate_limit_error", "", "slow", ModelErrorKind::RateLimit, Budget),
        (429, "rate_limit_error", "ramp_limit_exceeded", "slow", ModelErrorKind::RateLimit, Budget),
        (429, "rate_limit_error", "enforced_spend_limit_reached", "x", ModelErrorKind::Billing, Never),
        (429, "rate_limit_error", "", "monthly usage limit", ModelErrorKind::Billing, Never),
        (499, "", "", "", ModelErrorKind::InvalidRequest, Never),
        (500, "api_error", "", "", ModelErrorKind::Server, Budget),
        (500, "overloaded_error", "", "", ModelErrorKind::Overloaded, Budget),
        (502, "", "", "", ModelErrorKind::Server, Budget),
        (503, "", "", "", ModelErrorKind::Server, Budget),
        (504, "timeout_error", "", "", ModelErrorKind::Timeout, AtMost(2)),
        (529, "overloaded_error", "", "", ModelErrorKind::Overloaded, Budget),
        (529, "", "compaction_unavailable", "", ModelErrorKind::Overloaded, Budget),
        (599, "", "", "", ModelErrorKind::Server, Budget),
        (204, "", "", "", ModelErrorKind::Protocol, Never),
    ];
    for (status, kind, code, message, expected, again) in table {
        let failure = failure(status, kind, code, message, &RetryHints::default());
        assert_eq!((failure.error.kind, failure.retry_advice), (expected, again), "{status} {kind} {code} {message}");
        assert!(!failure.error.message.is_empty(), "{status} has no message");
    }
}

#[test]
fn a_named_wait_makes_a_usage_limit_worth_waiting_for() {
    let hints = RetryHints { wait: Some(Duration::from_secs(3)), ..RetryHints::default() };
    let failure = failure(429, "", "", "usage limit", &hints);
    assert_eq!((failure.retry_advice, failure.wait), (RetryAdvice::Budget, Some(Duration::from_secs(3))));
}

#[test]
fn the_servers_word_on_retrying_beats_the_table() {
    let told = |should_retry| RetryHints { should_retry: Some(should_retry), ..RetryHints::default() };
    let again = |status, hints: &RetryHints| failure(status, "", "", "", hints).retry_advice;
    assert_eq!(again(500, &told(false)), RetryAdvice::Never);
    assert_eq!(again(400, &told(true)), RetryAdvice::AtMost(1));
    assert_eq!(again(413, &told(true)), RetryAdvice::AtMost(1));
    assert_eq!(again(418, &told(true)), RetryAdvice::Budget);
    assert_eq!(again(504, &told(true)), RetryAdvice::AtMost(2));
}

#[test]
fn hints_help_and_ids_are_kept() {
    let hints = RetryHints { request_id: Some("req_9".into()), ..RetryHints::default() };
    let unknown = failure(404, "not_found_error", "", "model: claude-sonet-5-5", &hints).error;
    assert!(unknown.hint.as_deref().unwrap().contains("known names are claude-sonnet-5-5, "), "{unknown}");
    assert_eq!(unknown.request_id.as_deref(), Some("req_9"));
    assert!(failure(401, "", "", "", &hints).error.hint.unwrap().contains("ANTHROPIC_API_KEY"));
}

#[test]
fn only_refused_requests_have_cures() {
    let message = "thinking.display: Extra inputs are not permitted";
    assert_eq!(failure(400, "", "", message, &RetryHints::default()).downgrade, Some(Downgrade::NoThinkingDisplay));
    assert_eq!(failure(500, "", "", message, &RetryHints::default()).downgrade, None);
}

#[test]
fn certificates_are_final_and_broken_connections_are_not() {
    let tls = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
    let wrapped = io::Error::new(io::ErrorKind::InvalidData, tls);
    let failure = from_transport(&wrapped, true, None, &ANTHROPIC.advice);
    assert_eq!((failure.error.kind, failure.retry_advice), (ModelErrorKind::Tls, RetryAdvice::Never));
    assert!(failure.error.hint.unwrap().contains("NODE_EXTRA_CA_CERTS"));
    let handshake = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::HandshakeNotComplete);
    assert_eq!(from_transport(&handshake, true, None, &ANTHROPIC.advice).retry_advice, RetryAdvice::Never);
    assert_eq!(from_transport(&handshake, false, None, &ANTHROPIC.advice).retry_advice, RetryAdvice::Budget);
    let reset = from_transport(&io::Error::from(io::ErrorKind::ConnectionReset), false, None, &ANTHROPIC.advice);
    assert_eq!((reset.error.kind, reset.retry_advice), (ModelErrorKind::Network, RetryAdvice::Budget));
}
