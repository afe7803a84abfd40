use super::*;

fn failure(again: RetryAdvice, wait: Option<u64>) -> RequestFailure {
    RequestFailure { wait: wait.map(Duration::from_secs), ..RequestFailure::new(ModelErrorKind::Server, again, "x") }
}

fn limits(max_retries: u32) -> RetryLimits {
    RetryLimits { max_retries, unattended: false, first_delay: FIRST_DELAY, max_wait: Duration::from_secs(300) }
}

fn ledger(max: u32) -> RetryTracker {
    RetryTracker::new(limits(max))
}

#[test]
fn delays_double_up_to_a_ceiling_with_jitter() {
    let mut jitter = RetryJitter::seeded();
    for (n, full_ms) in [(0, 500), (1, 1000), (2, 2000), (5, 16_000), (6, 32_000), (7, 32_000), (40, 32_000)] {
        let mut delays: Vec<u128> =
            (0..50).map(|_| backoff(FIRST_DELAY, LONGEST_DELAY, n, &mut jitter).as_millis()).collect();
        let in_range = |delay: &u128| (full_ms * 3 / 4..=full_ms).contains(delay);
        assert!(delays.iter().all(in_range), "retry {n} waits {delays:?} ms");
        delays.dedup();
        assert!(delays.len() > 1, "retry {n} always waits {delays:?} ms");
    }
}

#[test]
fn waits_are_read_in_every_form() {
    let now = httpdate::parse_http_date("Sun, 15 Nov 2026 10:00:00 GMT").unwrap();
    let wait = |ms, after| parse_retry_after(ms, after, now);
    assert_eq!(wait(Some("1500"), Some("9")), Some(Duration::from_millis(1500)));
    assert_eq!(wait(None, Some("0.25")), Some(Duration::from_millis(250)));
    assert_eq!(wait(None, Some(" 7 ")), Some(Duration::from_secs(7)));
    assert_eq!(wait(None, Some("Sun, 15 Nov 2026 10:00:05 GMT")), Some(Duration::from_secs(5)));
    assert_eq!(wait(Some("0"), Some("2")), Some(Duration::from_secs(2)));
    for none in ["0", "-3", "soon", "NaN", "inf", "Sun, 15 Nov 2026 09:00:00 GMT", ""] {
        assert_eq!(wait(None, Some(none)), None, "{none}");
    }
}

#[test]
fn the_budget_ends_and_zero_disables() {
    let mut two = ledger(2);
    for expected in [1, 2] {
        assert!(
            matches!(two.decide(failure(RetryAdvice::Budget, None)), RetryDecision::Retry { attempt, max: 2, .. } if attempt == expected)
        );
    }
    assert!(matches!(two.decide(failure(RetryAdvice::Budget, None)), RetryDecision::GiveUp(_)));
    assert!(matches!(ledger(0).decide(failure(RetryAdvice::Budget, None)), RetryDecision::GiveUp(_)));
    assert!(matches!(ledger(9).decide(failure(RetryAdvice::Never, None)), RetryDecision::GiveUp(_)));
}

#[test]
fn limited_failures_have_their_own_count() {
    let mut ledger = ledger(10);
    assert!(matches!(ledger.decide(failure(RetryAdvice::AtMost(2), None)), RetryDecision::Retry { .. }));
    assert!(matches!(ledger.decide(failure(RetryAdvice::AtMost(2), None)), RetryDecision::Retry { .. }));
    assert!(matches!(ledger.decide(failure(RetryAdvice::AtMost(2), None)), RetryDecision::GiveUp(_)));
}

#[test]
fn a_named_wait_is_honoured_exactly_and_too_long_ones_end_the_request() {
    let exact = ledger(3).decide(failure(RetryAdvice::Budget, Some(61)));
    assert!(matches!(exact, RetryDecision::Retry { delay, .. } if delay == Duration::from_secs(61)));
    let RetryDecision::GiveUp(error) = ledger(3).decide(failure(RetryAdvice::Budget, Some(3600))) else {
        panic!("3600 s is too long")
    };
    assert!(error.message.contains("3600 s"));
}

#[test]
fn with_nobody_waiting_limits_and_overload_are_waited_out() {
    for kind in [ModelErrorKind::RateLimit, ModelErrorKind::Overloaded] {
        let mut ledger = RetryTracker::new(RetryLimits { unattended: true, ..limits(2) });
        let limited = |wait| RequestFailure {
            error: RequestFailure::new(kind, RetryAdvice::Budget, "x").error,
            ..failure(RetryAdvice::Budget, wait)
        };
        for expected in 1..40 {
            let verdict = ledger.decide(limited(None));
            let RetryDecision::Retry { attempt, max, delay, .. } = verdict else { panic!("{verdict:?}") };
            assert!(attempt == expected && max >= attempt && delay <= LONGEST_UNATTENDED, "{attempt} {max} {delay:?}");
        }
        let named = ledger.decide(limited(Some(7200)));
        assert!(matches!(named, RetryDecision::Retry { delay, .. } if delay == Duration::from_secs(7200)));
        // Other failures still have their budget, which is used up.
        assert!(matches!(ledger.decide(failure(RetryAdvice::Budget, None)), RetryDecision::GiveUp(_)));
    }
}

#[test]
fn each_cure_is_tried_once() {
    let mut ledger = ledger(3);
    let ill = |cure| RequestFailure { downgrade: Some(cure), ..failure(RetryAdvice::Never, None) };
    assert_eq!(ledger.decide(ill(Downgrade::NoEffort)), RetryDecision::Downgrade(Downgrade::NoEffort));
    assert_eq!(ledger.decide(ill(Downgrade::MaxTokens(5))), RetryDecision::Downgrade(Downgrade::MaxTokens(5)));
    assert!(matches!(ledger.decide(ill(Downgrade::NoEffort)), RetryDecision::GiveUp(_)));
    assert!(matches!(ledger.decide(ill(Downgrade::MaxTokens(4))), RetryDecision::GiveUp(_)));
}
