use super::*;

fn failure(status: u16, kind: &str, code: &str, message: &str, hints: &Hints) -> Failure {
    let body = ErrorBody {
        kind: kind.into(),
        code: (!code.is_empty()).then(|| code.into()),
        message: message.into(),
        request_id: None,
    };
    from_answer(status, &body, hints, "claude-sonet-5-5")
}

#[test]
fn every_status_has_its_class() {
    use Again::{AtMost, Budget, Never};
    let table = [
        (302, "", "", "", ErrorKind::Protocol, Never),
        (400, "invalid_request_error", "", "bad", ErrorKind::InvalidRequest, Never),
        (400, "", "", "prompt is too long: 9 tokens > 8 maximum", ErrorKind::PromptTooLong, Never),
        (400, "", "", "capability_rejected: prompt_too_long", ErrorKind::PromptTooLong, Never),
        (400, "", "", "You have reached your specified API usage limits", ErrorKind::Billing, Never),
        (401, "authentication_error", "", "", ErrorKind::Authentication, Never),
        (402, "billing_error", "", "", ErrorKind::Billing, Never),
        (403, "permission_error", "", "", ErrorKind::Permission, Never),
        (404, "not_found_error", "", "model: x", ErrorKind::ModelNotFound, Never),
        (404, "not_found_error", "", "Not Found", ErrorKind::InvalidRequest, Never),
        (407, "", "", "", ErrorKind::Network, Never),
        (408, "", "", "", ErrorKind::Timeout, Budget),
        (409, "conflict_error", "", "", ErrorKind::Server, Budget),
        (413, "request_too_large", "", "", ErrorKind::RequestTooLarge, Never),
        (418, "", "", "", ErrorKind::InvalidRequest, Never),
        (424, "", "", "", ErrorKind::Server, AtMost(2)),
        (429, "rate_limit_error", "", "slow", ErrorKind::RateLimit, Budget),
        (429, "rate_limit_error", "ramp_limit_exceeded", "slow", ErrorKind::RateLimit, Budget),
        (429, "rate_limit_error", "enforced_spend_limit_reached", "x", ErrorKind::Billing, Never),
        (429, "rate_limit_error", "", "monthly usage limit", ErrorKind::Billing, Never),
        (499, "", "", "", ErrorKind::InvalidRequest, Never),
        (500, "api_error", "", "", ErrorKind::Server, Budget),
        (500, "overloaded_error", "", "", ErrorKind::Overloaded, Budget),
        (502, "", "", "", ErrorKind::Server, Budget),
        (503, "", "", "", ErrorKind::Server, Budget),
        (504, "timeout_error", "", "", ErrorKind::Timeout, AtMost(2)),
        (529, "overloaded_error", "", "", ErrorKind::Overloaded, Budget),
        (529, "", "compaction_unavailable", "", ErrorKind::Overloaded, Budget),
        (599, "", "", "", ErrorKind::Server, Budget),
        (204, "", "", "", ErrorKind::Protocol, Never),
    ];
    for (status, kind, code, message, expected, again) in table {
        let failure = failure(status, kind, code, message, &Hints::default());
        assert_eq!((failure.error.kind, failure.again), (expected, again), "{status} {kind} {code} {message}");
        assert!(!failure.error.message.is_empty(), "{status} has no message");
    }
}

#[test]
fn a_named_wait_makes_a_usage_limit_worth_waiting_for() {
    let hints = Hints { wait: Some(Duration::from_secs(3)), ..Hints::default() };
    let failure = failure(429, "", "", "usage limit", &hints);
    assert_eq!((failure.again, failure.wait), (Again::Budget, Some(Duration::from_secs(3))));
}

#[test]
fn the_servers_word_on_retrying_beats_the_table() {
    let told = |should_retry| Hints { should_retry: Some(should_retry), ..Hints::default() };
    let again = |status, hints: &Hints| failure(status, "", "", "", hints).again;
    assert_eq!(again(500, &told(false)), Again::Never);
    assert_eq!(again(400, &told(true)), Again::AtMost(1));
    assert_eq!(again(413, &told(true)), Again::AtMost(1));
    assert_eq!(again(418, &told(true)), Again::Budget);
    assert_eq!(again(504, &told(true)), Again::AtMost(2));
}

#[test]
fn hints_help_and_ids_are_kept() {
    let hints = Hints { request_id: Some("req_9".into()), ..Hints::default() };
    let unknown = failure(404, "not_found_error", "", "model: claude-sonet-5-5", &hints).error;
    assert!(unknown.hint.as_deref().unwrap().contains("known names are claude-sonnet-5-5, "), "{unknown}");
    assert_eq!(unknown.request_id.as_deref(), Some("req_9"));
    assert!(failure(401, "", "", "", &hints).error.hint.unwrap().contains("ANTHROPIC_API_KEY"));
}

#[test]
fn only_refused_requests_have_cures() {
    let message = "thinking.display: Extra inputs are not permitted";
    assert_eq!(failure(400, "", "", message, &Hints::default()).cure, Some(Cure::NoThinkingDisplay));
    assert_eq!(failure(500, "", "", message, &Hints::default()).cure, None);
}

#[test]
fn certificates_are_final_and_broken_connections_are_not() {
    let tls = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
    let wrapped = io::Error::new(io::ErrorKind::InvalidData, tls);
    let failure = from_transport(&wrapped, true);
    assert_eq!((failure.error.kind, failure.again), (ErrorKind::Tls, Again::Never));
    assert!(failure.error.hint.unwrap().contains("NODE_EXTRA_CA_CERTS"));
    let handshake = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::HandshakeNotComplete);
    assert_eq!(from_transport(&handshake, true).again, Again::Never);
    assert_eq!(from_transport(&handshake, false).again, Again::Budget);
    let reset = from_transport(&io::Error::from(io::ErrorKind::ConnectionReset), false);
    assert_eq!((reset.error.kind, reset.again), (ErrorKind::Network, Again::Budget));
}
