//! Progress report of a script over HTTP: the cache reads of each request, and what prevented more.

use serde_json::{Value, json};

use crate::ReceivedRequest;
use crate::request_log::{RequestLog, first_cache_difference};

/// Path of the report.
pub(crate) const REPORT: &str = "/report";

/// Returns the report so far. The total hit rate is weighted by tokens and excludes the first request: nothing was
/// cached before it.
pub(crate) fn report(ledger: &RequestLog, unplayed: usize) -> Value {
    let requests = ledger.all();
    let rows: Vec<Value> = requests.iter().map(|request| row(&requests, request)).collect();
    let counted = requests.iter().filter_map(|request| request.outcome().usage).skip(1);
    let (read, total) =
        counted.fold((0, 0), |(read, total), usage| (read + usage.cache_read_tokens, total + usage.total()));
    json!({
        "requests": rows,
        "hit_rate": if total == 0 { Value::Null } else { json!(read as f64 / total as f64) },
        "failures": ledger.failures,
        "unplayed": unplayed,
        "max_parallel": ledger.max_parallel,
    })
}

fn row(all: &[ReceivedRequest], request: &ReceivedRequest) -> Value {
    let outcome = request.outcome();
    let mut row = json!({
        "path": request.path(), "model": request.model(), "status": outcome.status, "attempt": request.attempt(),
        "rejection": outcome.rejection,
    });
    if let (Some(usage), Some(row)) = (outcome.usage, row.as_object_mut()) {
        row.insert("input_tokens".to_owned(), json!(usage.input_tokens));
        row.insert("cache_read_tokens".to_owned(), json!(usage.cache_read_tokens));
        row.insert("cache_write_tokens".to_owned(), json!(usage.cache_write_tokens()));
        row.insert("hit_rate".to_owned(), json!(usage.hit_rate()));
        row.insert("differs_in".to_owned(), json!(difference(&all[..request.index()], request)));
    }
    row
}

/// Returns the first difference from the last answered request that keeps this one from reading its cache entries;
/// `None` if it can read those of any earlier request, since conversations may take turns.
fn difference(earlier: &[ReceivedRequest], request: &ReceivedRequest) -> Option<&'static str> {
    let mut answered = earlier.iter().rev().filter(|earlier| earlier.outcome().usage.is_some()).peekable();
    let last = first_cache_difference(answered.peek()?, request)?;
    answered.all(|earlier| first_cache_difference(earlier, request).is_some()).then_some(last)
}
