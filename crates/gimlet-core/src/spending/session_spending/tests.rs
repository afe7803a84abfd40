//! Tests of counting and of the ceilings.

use gimlet_proto::{ModelFacts, ModelPrice, TokenUsage};
use gimlet_store::RequestPurpose;

use super::*;

/// One dollar per million tokens of any kind.
const PRICE: ModelPrice = ModelPrice { input: 1.0, output: 1.0, write_5m: 1.0, write_1h: 1.0, read: 1.0, above: None };

fn facts(id: &str, price: Option<ModelPrice>) -> ModelFacts {
    ModelFacts {
        id: id.into(),
        context_window: 1,
        max_output_tokens: 50_000,
        price,
        edits_unread: false,
        image_side: 1568,
        bytes_per_token: 4.0,
        min_cache_tokens: 1_024,
        known: true,
    }
}

fn count(spending: &SessionSpending, model: &ModelFacts, input_tokens: u64, output_tokens: u64) {
    let usage = TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() };
    spending.count(&BilledRequest::new(model, usage, RequestPurpose::Reply), None);
}

fn limited(limits: SpendingLimits) -> Arc<SessionSpending> {
    Arc::new(SessionSpending::new(limits, CostLog::default()))
}

fn estimate(prompt: usize, output: u64) -> RequestEstimate {
    RequestEstimate::for_side_request(&facts("m", Some(PRICE)), prompt * 4, output)
}

/// Returns the limit of the reply that is granted, or the ceiling; `None` if the request would have to wait.
fn outcome(answer: Option<ReservationOutcome>) -> Option<Result<Option<u64>, ReachedLimit>> {
    Some(match answer? {
        ReservationOutcome::Granted(held) => Ok(held.max_output),
        ReservationOutcome::Reached(limit) => Err(limit),
        ReservationOutcome::Cancelled => panic!("nothing was cancelled"),
    })
}

#[test]
fn a_model_without_a_price_does_not_hide_what_the_others_cost() {
    let limits = SpendingLimits { max_budget_usd: Some(100.0), ..SpendingLimits::default() };
    let spending = limited(limits);
    count(&spending, &facts("priced", Some(PRICE)), 1_000_000, 0);
    assert_eq!((spending.total_cost_usd(), spending.take_warnings()), (Some(1.0), vec![]));
    count(&spending, &facts("free", None), 1_000_000, 0);
    let known = spending.lock().known_cost_usd();
    assert_eq!((known, spending.total_cost_usd()), (1.0, None));
    assert_eq!(spending.take_warnings(), ["no price is known for free: the budget cannot count what it costs"]);
    assert!(spending.take_warnings().is_empty(), "once for all conversations");
}

#[test]
fn what_is_left_bounds_the_reply_and_then_the_session() {
    let spending = limited(SpendingLimits { max_budget_usd: Some(0.05), ..SpendingLimits::default() });
    let budget = ReachedLimit::Budget(0.05);
    assert_eq!(outcome(spending.try_reserve(&estimate(10_000, 32_000))), Some(Ok(None)));
    assert_eq!(outcome(spending.try_reserve(&estimate(20_000, 32_000))), Some(Ok(Some(30_000))), "a shorter reply");
    assert_eq!(outcome(spending.try_reserve(&estimate(49_500, 32_000))), Some(Err(budget)), "too short to be of use");
    assert_eq!(outcome(spending.try_reserve(&estimate(50_001, 32_000))), Some(Err(budget)), "the prompt alone");
    let model = facts("m", Some(PRICE));
    count(&spending, &model, 1_000, 9_000);
    assert_eq!(outcome(spending.try_reserve(&estimate(32_000, 32_000))), Some(Err(budget)), "replies take 9,000 here");
    assert_eq!(outcome(spending.try_reserve(&estimate(31_000, 32_000))), Some(Ok(Some(9_000))));
    count(&spending, &model, 40_000, 0);
    assert_eq!(outcome(spending.try_reserve(&estimate(0, 1))), Some(Err(budget)));
}

#[tokio::test]
async fn a_request_waits_for_those_that_may_leave_enough() {
    let spending = limited(SpendingLimits { max_total_tokens: Some(50_000), ..SpendingLimits::default() });
    let never = CancellationToken::new();
    let ReservationOutcome::Granted(first) = spending.reserve(&estimate(10_000, 32_000), &never).await else {
        panic!("there is room")
    };
    assert!(outcome(spending.try_reserve(&estimate(10_000, 32_000))).is_none(), "it waits");
    let settle = async {
        tokio::task::yield_now().await;
        count(&spending, &facts("m", None), 7_000, 1_000);
        drop(first);
    };
    let wish = estimate(10_000, 32_000);
    let (second, ()) = tokio::join!(spending.reserve(&wish, &never), settle);
    let ReservationOutcome::Granted(second) = second else { panic!("there is room again") };
    assert_eq!(second.max_output, None);
    let stopped = CancellationToken::new();
    stopped.cancel();
    assert!(matches!(spending.reserve(&estimate(10_000, 32_000), &stopped).await, ReservationOutcome::Cancelled));
    drop(second);
    count(&spending, &facts("m", None), 42_000, 0);
    let end = spending.reserve(&estimate(0, 1), &never).await;
    assert_eq!(outcome(Some(end)), Some(Err(ReachedLimit::Tokens(50_000))));
}

#[test]
fn the_nearest_ceiling_is_named_and_each_warns_once() {
    let limits = SpendingLimits {
        max_budget_usd: Some(1.0),
        max_total_tokens: Some(1_000),
        max_time: Some(Duration::from_secs(3_600)),
    };
    let spending = limited(limits);
    assert_eq!(outcome(spending.try_reserve(&estimate(1_001, 1))), Some(Err(ReachedLimit::Tokens(1_000))));
    count(&spending, &facts("m", Some(PRICE)), 799, 0);
    assert!(spending.take_warnings().is_empty());
    count(&spending, &facts("m", Some(PRICE)), 1, 0);
    assert_eq!(spending.take_warnings(), ["the session has taken 800 of its 1,000 tokens"]);
    count(&spending, &facts("m", Some(PRICE)), 0, 800_000);
    assert_eq!(spending.take_warnings(), ["the session has cost $0.8008 of its budget of $1.00"]);
    assert_eq!(spending.reached_limit(), Some(ReachedLimit::Tokens(1_000)));
}

#[tokio::test(start_paused = true)]
async fn time_counts_while_turns_run() {
    let max = Duration::from_secs(10);
    let spending = limited(SpendingLimits { max_time: Some(max), ..SpendingLimits::default() });
    assert_eq!(spending.begin_work(), Some(max));
    tokio::time::advance(Duration::from_secs(4)).await;
    spending.end_work();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!((spending.reached_limit(), spending.begin_work()), (None, Some(Duration::from_secs(6))));
    tokio::time::advance(Duration::from_secs(4)).await;
    assert_eq!(spending.take_warnings(), ["the session has worked 8 s of its 10 s"]);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(spending.reached_limit(), Some(ReachedLimit::Time(max)));
}
